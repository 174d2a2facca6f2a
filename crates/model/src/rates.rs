//! A link's rate over time, read from a file in the scenario's folder: CSV or JSON, by the file name's extension. Files
//! with other extensions are mahimahi traces (`path.rs`).
//!
//! Each row gives a time and the rate from that time on. Times are relative to the first row. The last rate lasts as
//! long as the rate before it; then the sequence repeats.

use serde_json::Value as Json;
use sojourn_core::units::{Rate, Span, Time};

use crate::file;
use crate::units;
use crate::units::{FASTEST, LONGEST};

/// Rates from given times on, repeated periodically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    /// The steps in order of time; the first one is at zero.
    pub steps: Vec<(Time, Rate)>,
    /// The period after which the sequence repeats, longer than the time of the last step.
    pub period: Span,
}

/// A line number and an error message. Line 0 stands for the file as a whole.
pub(crate) type Fault = (usize, String);

/// Names of a column or key for the time, with its unit in nanoseconds.
const TIMES: [(&str, u64); 5] =
    [("time", 1_000_000_000), ("time_s", 1_000_000_000), ("time_ms", 1_000_000), ("time_us", 1_000), ("time_ns", 1)];
/// Names of a column or key for the rate, with its unit in bit/s.
const RATES: [(&str, u64); 5] =
    [("rate", 1), ("rate_bit", 1), ("rate_kbit", 1_000), ("rate_mbit", 1_000_000), ("rate_gbit", 1_000_000_000)];
/// If all rates in a file are lower than this, the file most likely uses another unit.
const SLOWEST: Rate = Rate(1_000);

/// Returns whether a file with this name holds rates.
pub(crate) fn is_named(name: &str) -> bool {
    [".csv", ".json"].iter().any(|end| name.to_ascii_lowercase().ends_with(end))
}

/// Parses the text of a file with this name.
pub(crate) fn parse(name: &str, text: &str) -> Result<Rates, Fault> {
    // Some programs write a byte order mark at the beginning.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rows = if name.to_ascii_lowercase().ends_with(".json") { of_json(text)? } else { of_csv(text)? };
    let Some(&Row { time: first, .. }) = rows.first() else {
        return Err((0, "expected at least one row with a time and a rate, found none".into()));
    };
    let mut steps: Vec<(Time, Rate)> = Vec::with_capacity(rows.len());
    let mut longest = None;
    for Row { place, time, rate, lasts } in rows {
        let at = Time(time.checked_sub(first).ok_or_else(|| place.fault("expected a later time than before"))?);
        if at.0 > LONGEST.0 {
            return Err(place.fault("expected a time within 24h of the first one: no scenario lasts longer"));
        }
        if steps.last().is_some_and(|(last, _)| at <= *last) {
            return Err(
                place.fault(&format!("expected a later time than that before it ({})", steps[steps.len() - 1].0))
            );
        }
        longest = lasts;
        steps.push((at, rate));
    }
    let last = steps[steps.len() - 1].0;
    let before = steps.len().checked_sub(2).map_or(LONGEST, |before| last.since(steps[before].0));
    Ok(Rates { period: last.since(Time::ZERO) + longest.unwrap_or(before), steps })
}

impl Rates {
    /// Returns the steps from zero to `end`, with repetitions; `None` if there are more than `most`.
    pub(crate) fn until(&self, end: Time, most: u64) -> Option<Vec<(Time, Rate)>> {
        let rounds = end.0.div_ceil(self.period.0).max(1);
        if rounds.checked_mul(self.steps.len() as u64)? > most {
            return None;
        }
        let round = |round: u64| self.steps.iter().map(move |(at, rate)| (*at + self.period * round, *rate));
        let mut steps: Vec<(Time, Rate)> = Vec::new();
        for step in (0..rounds).flat_map(round).take_while(|(at, _)| *at < end || at.0 == 0) {
            if steps.last().is_none_or(|(_, rate)| *rate != step.1) {
                steps.push(step);
            }
        }
        Some(steps)
    }

    /// Returns a warning if all rates are too low for a link. The file probably gives Mbit/s where bit/s are expected.
    pub(crate) fn doubt(&self) -> Option<String> {
        let most = self.steps.iter().map(|(_, rate)| *rate).max()?;
        (most < SLOWEST).then(|| {
            format!(
                "its highest rate is {most}: a rate without a unit is in bit/s; for Mbit/s name the column rate_mbit, or \
                 write \"20mbit\""
            )
        })
    }

    /// Returns all rates multiplied by `factor`; `None` if one exceeds the maximum.
    pub(crate) fn scaled(&self, factor: f64) -> Option<Rates> {
        let rate = |rate: Rate| Rate((libm::round(rate.0 as f64 * factor) as u64).max(1));
        let steps: Vec<(Time, Rate)> = self.steps.iter().map(|(at, one)| (*at, rate(*one))).collect();
        steps.iter().all(|(_, rate)| *rate <= FASTEST).then_some(Rates { steps, period: self.period })
    }
}

/// The position of a row in the file, for messages.
#[derive(Clone, Copy)]
enum Place {
    Line(usize),
    /// An entry of a JSON list, counted from 1.
    Entry(usize),
}

impl Place {
    fn fault(self, problem: &str) -> Fault {
        match self {
            Place::Line(line) => (line, problem.to_owned()),
            Place::Entry(entry) => (0, format!("entry {entry}: {problem}")),
        }
    }
}

/// A time in nanoseconds, and the rate from then on.
struct Row {
    place: Place,
    time: u64,
    rate: Rate,
    /// The duration of this rate, if the file states it.
    lasts: Option<Span>,
}

impl Row {
    /// Parses a time and a rate as written, each with the unit of a plain number.
    fn read(place: Place, (time, second): (&str, u64), (rate, bit): (&str, u64)) -> Result<Row, Fault> {
        let wrong = |what: &str, found: &str| place.fault(&format!("expected {what}, found {}", file::shown(found)));
        let ns = units::times(time, second).or_else(|| units::span(time).map(|span| span.0));
        let bits = units::times(rate, bit).or_else(|| units::rate(rate).map(|read| read.rate.0));
        let bits = bits.filter(|bits| *bits <= FASTEST.0);
        Ok(Row {
            place,
            time: ns.ok_or_else(|| wrong("a time such as 1.5 or \"1500ms\"", time))?,
            rate: bits
                .map(at_least_a_bit)
                .ok_or_else(|| wrong("a rate such as 12 or \"12mbit\", at most 10tbit", rate))?,
            lasts: None,
        })
    }
}

/// Returns a rate of at least 1 bit/s. An outage is stored as 1 bit/s: at this rate no packet leaves before the outage
/// ends.
pub(crate) fn at_least_a_bit(bits: u64) -> Rate {
    Rate(bits.max(1))
}

/// Returns the column with one of these names, and its unit.
fn column<'a>(names: &[(&str, u64)], mut heads: impl Iterator<Item = &'a str>) -> Option<(usize, u64)> {
    heads.by_ref().enumerate().find_map(|(at, head)| {
        let name = head.trim().trim_matches('"').to_ascii_lowercase();
        names.iter().find(|(known, _)| *known == name).map(|(_, unit)| (at, *unit))
    })
}

fn listed(names: &[(&str, u64)]) -> String {
    names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Parses a header with columns for time and rate, followed by one row per line.
fn of_csv(text: &str) -> Result<Vec<Row>, Fault> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((number, header)) = lines.next() else { return Ok(Vec::new()) };
    let missing = |what: &str, names: &[(&str, u64)]| {
        let (names, shown) = (listed(names), file::shown(header));
        let problem = format!("expected a header with a column for the {what} ({names}), found {shown}");
        (number + 1, problem)
    };
    let time = column(&TIMES, header.split(',')).ok_or_else(|| missing("time", &TIMES))?;
    let rate = column(&RATES, header.split(',')).ok_or_else(|| missing("rate", &RATES))?;
    let row = |(number, line): (usize, &str)| {
        let cell = |at: usize| line.split(',').nth(at).map(|cell| cell.trim().trim_matches('"'));
        let (Some(when), Some(how_fast)) = (cell(time.0), cell(rate.0)) else {
            let problem = format!("expected as many columns as the header has, found {}", file::shown(line));
            return Err((number + 1, problem));
        };
        Row::read(Place::Line(number + 1), (when, time.1), (how_fast, rate.1))
    };
    lines.map(row).collect()
}

/// Parses a list of pairs or of objects, or a configuration of netem-trace.
fn of_json(text: &str) -> Result<Vec<Row>, Fault> {
    let json: Json = serde_json::from_str(text).map_err(|error| (error.line(), format!("not valid JSON: {error}")))?;
    match &json {
        Json::Array(entries) => {
            entries.iter().enumerate().map(|(i, entry)| of_entry(Place::Entry(i + 1), entry)).collect()
        }
        Json::Object(object) => {
            match object.get("RepeatedBwPatternConfig").and_then(|pattern| pattern["pattern"].as_array()) {
                Some(entries) => of_pattern(entries),
                None if object.contains_key("StaticBwConfig") => of_pattern(std::slice::from_ref(&json)),
                None => Err((
                    0,
                    format!(
                        "expected a list of [time, rate], or netem-trace's RepeatedBwPatternConfig, found {}",
                        short(&json)
                    ),
                )),
            }
        }
        _ => Err((0, format!("expected a list of [time, rate], found {}", short(&json)))),
    }
}

/// Returns the beginning of a value, on one line.
fn short(json: &Json) -> String {
    file::shown(&json.to_string())
}

/// Returns a JSON number or string as text.
fn plain(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), str::to_owned)
}

/// Parses `[time, rate]`, or an object with one key for each.
fn of_entry(place: Place, entry: &Json) -> Result<Row, Fault> {
    let wrong = || {
        let (times, rates) = (listed(&TIMES), listed(&RATES));
        place.fault(&format!("expected [time, rate], or one key of {times} and one of {rates}, found {}", short(entry)))
    };
    match entry {
        Json::Array(pair) if pair.len() == 2 => {
            Row::read(place, (&plain(&pair[0]), TIMES[0].1), (&plain(&pair[1]), RATES[0].1))
        }
        Json::Object(object) => {
            let known = |names: &[(&str, u64)]| {
                names.iter().find_map(|(name, unit)| object.get(*name).map(|value| (plain(value), *unit)))
            };
            let (time, rate) = (known(&TIMES).ok_or_else(wrong)?, known(&RATES).ok_or_else(wrong)?);
            Row::read(place, (&time.0, time.1), (&rate.0, rate.1))
        }
        _ => Err(wrong()),
    }
}

/// Returns 10⁹ times the integer in the key `billions` plus the integer in the key `ones`. One of the keys may be
/// absent.
fn sum(json: &Json, billions: &str, ones: &str) -> Option<u64> {
    let number = |key: &str| json.get(key).map_or(Some(0), Json::as_u64);
    json.get(billions).or(json.get(ones))?;
    number(billions)?.checked_mul(1_000_000_000)?.checked_add(number(ones)?)
}

/// Parses the static parts of netem-trace's repeated pattern: a bandwidth and its duration.
fn of_pattern(entries: &[Json]) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::with_capacity(entries.len());
    let mut time = 0u64;
    for (number, entry) in entries.iter().enumerate() {
        let place = Place::Entry(number + 1);
        let Some(part) = entry.get("StaticBwConfig") else {
            return Err(
                place.fault(&format!("expected a StaticBwConfig (others are not read), found {}", short(entry)))
            );
        };
        let (bw, duration) = (&part["bw"], &part["duration"]);
        let bits = match bw {
            Json::Object(_) => sum(bw, "gbps", "bps"),
            // netem-trace's Mbps are megabits per second.
            _ => units::rate(&plain(bw).to_ascii_lowercase().replace("bps", "bit")).map(|read| read.rate.0),
        };
        let span = match duration {
            Json::Object(_) => sum(duration, "secs", "nanos"),
            _ => units::span(&plain(duration)).map(|span| span.0),
        };
        let bits = bits.filter(|bits| *bits <= FASTEST.0);
        let (Some(bits), Some(span)) = (bits, span.filter(|span| (1..=LONGEST.0).contains(span))) else {
            return Err(
                place.fault(&format!("expected bw (at most 10tbit) and duration above zero, found {}", short(part)))
            );
        };
        rows.push(Row { place, time, rate: at_least_a_bit(bits), lasts: Some(Span(span)) });
        time = time.saturating_add(span);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn steps(name: &str, text: &str) -> (Vec<(u64, u64)>, u64) {
        let rates = parse(name, text).unwrap_or_else(|fault| panic!("{fault:?}"));
        (rates.steps.iter().map(|(at, rate)| (at.0, rate.0)).collect(), rates.period.0)
    }

    #[test]
    fn rows_of_every_form_are_the_same_steps() {
        let expected = (vec![(0, 12_000_000), (2 * SECOND, 1), (3 * SECOND, 500_000)], 4 * SECOND);
        for (name, text) in [
            ("x.csv", "time,rate\n0,12000000\n2,0\n3,500000\n"),
            ("x.csv", "time_s,rate_mbit\n0,12\n2,0\n3,0.5"),
            ("x.CSV", "cell,Rate_kbit,signal,TIME_MS\r\n7,12000,-90,1000\r\n7,0,-99,3000\r\n\r\n7,500,-80,4e3\r\n"),
            ("x.csv", "\"time\",\"rate\"\n\"0s\",\"12mbit\"\n\"2000ms\",\"0bit\"\n3,5e5\n"),
            ("x.json", "[[0, 12000000], [2, 0], [3, \"500kbit\"]]"),
            (
                "x.json",
                "[{\"time_s\": 5, \"rate_mbit\": 12}, {\"time_s\": 7.0, \"rate_mbit\": 0}, {\"time_s\": 8, \"rate_mbit\": 0.5}]",
            ),
            (
                "x.json",
                "{\"RepeatedBwPatternConfig\":{\"pattern\":[{\"StaticBwConfig\":{\"bw\":{\"gbps\":0,\"bps\":12000000},\"duration\":{\"secs\":2,\"nanos\":0}}},\
                 {\"StaticBwConfig\":{\"bw\":\"0bps\",\"duration\":\"1s\"}},{\"StaticBwConfig\":{\"bw\":\"500Kbps\",\"duration\":\"1s\"}}],\"count\":2}}",
            ),
        ] {
            assert_eq!(steps(name, text), expected, "{text}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        for (name, text) in [("x.csv", "time,rate\r\n0,5\r\n"), ("x.json", "[[0, 5]]")] {
            assert_eq!(steps(name, &format!("\u{feff}{text}")), steps(name, text), "{name}");
        }
    }

    #[test]
    fn a_part_of_a_pattern_is_whole_numbers_and_never_an_outage_by_mistake() {
        let part = |bw: &str, duration: &str| {
            let text = format!("{{\"StaticBwConfig\":{{\"bw\":{bw},\"duration\":{duration}}}}}");
            parse("x.json", &text).map(|rates| (rates.steps[0].1.0, rates.period.0))
        };
        let sound = "{\"secs\":1,\"nanos\":5}";
        assert_eq!(part("{\"gbps\":1,\"bps\":2}", sound), Ok((1_000_000_002, SECOND + 5)));
        assert_eq!(part("{\"bps\":0}", "{\"nanos\":7}"), Ok((1, 7)));
        for bw in ["{}", "{\"gbps\":1.5,\"bps\":0}", "{\"bps\":-3}", "{\"bps\":\"9\"}", "{\"mbps\":3}", "null", "3"] {
            assert!(part(bw, sound).is_err_and(|fault| fault.1.contains("expected bw")), "{bw}");
        }
        for duration in ["{}", "{\"secs\":1.5}", "{\"secs\":0}", "{\"secs\":18446744073709551615}", "null"] {
            assert!(part("{\"bps\":9}", duration).is_err(), "{duration}");
        }
    }

    #[test]
    fn a_fault_names_its_line_or_entry_and_what_was_found() {
        let fault = |name: &str, text: &str| parse(name, text).expect_err(text);
        assert!(fault("x.csv", "").1.contains("at least one row"));
        assert!(fault("x.csv", "time,rate\n").1.contains("at least one row"));
        let header = fault("x.csv", "0,12000000\n1,5\n");
        assert!(header.0 == 1 && header.1.contains("time_ms") && header.1.contains("\"0,120000\"…"), "{header:?}");
        assert!(fault("x.csv", "time,speed\n").1.contains("rate_mbit"));
        assert_eq!(
            fault("x.csv", "time,rate\n0,1\n1,fast\n"),
            (3, "expected a rate such as 12 or \"12mbit\", at most 10tbit, found \"fast\"".into())
        );
        assert_eq!(fault("x.csv", "time,rate\n0,1\n-1,1\n").0, 3);
        assert_eq!(fault("x.csv", "time,rate\n0,1\n1\n").0, 3);
        assert!(fault("x.csv", "time,rate\n5,1\n5,2\n").1.contains("later"));
        assert!(fault("x.csv", "time,rate\n5,1\n4,2\n").1.contains("later"));
        assert!(fault("x.csv", "time,rate\n0,1\n86401,2\n").1.contains("within 24h"));
        assert!(fault("x.csv", "time,rate\n0,10000000000001\n").1.contains("10tbit"));
        assert_eq!(fault("x.json", "[[0, 1],\n[1 2]]").0, 2);
        assert!(fault("x.json", "[[0, 1], [1]]").1.starts_with("entry 2: expected [time, rate]"));
        assert!(fault("x.json", "{\"a\": 1}").1.contains("RepeatedBwPatternConfig"));
        let normal = "{\"RepeatedBwPatternConfig\":{\"pattern\":[{\"NormalizedBwConfig\":{}}]}}";
        assert!(fault("x.json", normal).1.contains("entry 1: expected a StaticBwConfig"));
        assert!(fault("x.json", "3").1.contains("expected a list"));
    }

    #[test]
    fn a_file_begins_anew_after_its_last_rate_has_held_as_long_as_the_one_before() {
        let rates = parse("x.csv", "time,rate_mbit\n0,1\n1,2\n3,3\n").expect("sound");
        assert_eq!(rates.period, Span(5 * SECOND));
        let steps = rates.until(Time(7 * SECOND), 100).expect("few");
        let seconds: Vec<(u64, u64)> = steps.iter().map(|(at, rate)| (at.0 / SECOND, rate.0 / 1_000_000)).collect();
        assert_eq!(seconds, [(0, 1), (1, 2), (3, 3), (5, 1), (6, 2)]);
        assert_eq!(rates.until(Time(7 * SECOND), 5), None, "two rounds are six steps");
        let one = parse("x.csv", "time,rate_mbit\n9,4\n").expect("sound");
        assert_eq!(one.until(Time(7 * SECOND), 1), Some(vec![(Time::ZERO, Rate(4_000_000))]));
        assert_eq!(rates.scaled(0.5).map(|half| half.steps[2].1), Some(Rate(1_500_000)));
        assert_eq!(rates.scaled(1e9), None);
    }

    #[test]
    fn rates_below_any_links_are_doubted_with_the_unit_that_was_taken() {
        let doubt = |name: &str, text: &str| parse(name, text).expect("sound").doubt();
        for (name, text) in [
            ("x.csv", "time,rate\n0,20\n5,0\n"),
            ("x.csv", "time,rate_kbit\n0,0.5\n"),
            ("x.csv", "time,rate\n0,999\n"),
            ("x.json", "[[0, 20], [5, 5]]"),
        ] {
            let said = doubt(name, text).expect(text);
            assert!(said.contains("in bit/s; for Mbit/s name the column rate_mbit, or write \"20mbit\""), "{said}");
        }
        assert!(doubt("x.csv", "time,rate\n0,20\n5,0\n").is_some_and(|said| said.contains("highest rate is 20bit")));
        for text in ["time,rate\n0,20\n5,1000\n", "time,rate_mbit\n0,20\n5,0\n", "time,rate\n0,20mbit\n"] {
            assert_eq!(doubt("x.csv", text), None, "{text}");
        }
        let scaled = parse("x.csv", "time,rate\n0,20\n").expect("sound").scaled(1e6).expect("not too fast");
        assert_eq!(scaled.doubt(), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", json: bool) {
            let _ = parse(if json { "x.json" } else { "x.csv" }, &text);
        }

        #[test]
        fn no_rows_make_it_panic(rows in proptest::collection::vec((0u64..u64::MAX, 0u64..u64::MAX), 0..6)) {
            let lines: String = rows.iter().map(|(time, rate)| format!("{time},{rate}\n")).collect();
            let _ = parse("x.csv", &format!("time_ns,rate\n{lines}")).map(|rates| rates.until(Time(LONGEST.0), 1000));
        }
    }
}
