//! Reads the path: hops with their capacity, delays and disciplines, and the hosts' access links.

use std::path::Path;
use std::sync::Arc;

use sojourn_core::qdisc::tc::{self, Spec};
use sojourn_core::qdisc::{self, LinkLayer, red};
use sojourn_core::units::{Rate, Span, Time};

use crate::document::{Kind, Table, Value};
use crate::error::Error;
use crate::keys;
use crate::read::{Context, Field, Reader};
use crate::scenario::{Access, Capacity, Hop, Impair, Link, Nic, QdiscChange, Trace, TraceFile};
use crate::{changes, file};
use crate::{rates, units};

/// IP length in bytes of a full packet: the unit of buffer sizes, and the size of a trace's delivery opportunity.
pub(crate) const PACKET: u32 = 1500;
/// Upper limit on the number of steps of a rate.
const MOST_STEPS: u64 = 1_000_000;
/// Upper limit on a card's descriptors, more than any card has.
const MOST_DESCRIPTORS: u32 = 1_000_000;
/// Upper limit on the size of a trace file, in bytes.
const LONGEST_TRACE: u64 = 64 << 20;

/// A hop whose disciplines are not parsed yet. A size in a discipline may be given in `bdp`, and the bandwidth-delay
/// product is known only after the RTTs of the flows have been read.
pub(crate) struct HopDraft<'a> {
    pub(crate) name: String,
    pub(crate) right: LinkDraft<'a>,
    pub(crate) left: LinkDraft<'a>,
}

/// One direction of a [`HopDraft`].
pub(crate) struct LinkDraft<'a> {
    pub(crate) rate: Capacity,
    pub(crate) delay: Vec<(Time, Span)>,
    overhead: u32,
    linklayer: LinkLayer,
    nic: Option<Nic>,
    impair: Option<Box<Impair>>,
    /// Set if flow control was requested.
    pause: Option<Field<'a>>,
    flush: bool,
    /// `None` means a plain FIFO with the rightward limit.
    qdisc: Option<Field<'a>>,
}

impl<'a> HopDraft<'a> {
    /// Reads one `[[hop]]`.
    pub(crate) fn read(
        context: &'a Context,
        name: &str,
        (line, table): (Option<u32>, &'a Table),
        duration: Time,
    ) -> Result<HopDraft<'a>, Error> {
        let path = format!("hop.{name}");
        let reader = Reader::open(context, &keys::HOP, path.clone(), (line, table), None)?;
        if let Some(field) = reader.given("name") {
            field.name()?;
        }
        let rate = capacity(&reader.field("rate")?, duration)?;
        let right = LinkDraft {
            delay: delays(&reader.field("delay")?, duration)?,
            overhead: reader.field("overhead")?.integer(0, 1000)?,
            linklayer: linklayer(&reader.field("linklayer")?)?,
            nic: nic(context, table, &path)?,
            impair: reader.given("impair").map(|field| impair(&field)).transpose()?.flatten(),
            pause: pause(&reader)?,
            flush: flush(reader.field("flush")?, &rate)?,
            rate,
            qdisc: Some(reader.field("qdisc")?),
        };
        if let (Some(_), Some(up)) = (table.get("reverse"), reader.given("up")) {
            return Err(up.fault("given twice: also as reverse, which is the same direction"));
        }
        let word = if table.get("up").is_some() { "up" } else { "reverse" };
        let left = match table.get(word) {
            None => {
                let (rate, delay) = (right.rate.clone(), right.delay.clone());
                LinkDraft { rate, delay, qdisc: None, impair: None, pause: None, ..right }
            }
            Some(Value { line, kind: Kind::Table(reverse) }) => {
                let path = format!("{path}.{word}");
                let reader = Reader::open(context, &keys::HOP, path.clone(), (*line, reverse), None)?;
                if let Some(wrong) = ["name", "reverse", "up", "down"].iter().find_map(|name| reader.given(name)) {
                    return Err(wrong.fault("does not belong to the other direction"));
                }
                let given = |name| reader.given(name);
                let own = nic(context, reverse, &path)?;
                let rate = given("rate").map_or(Ok(right.rate.clone()), |field| capacity(&field, duration))?;
                LinkDraft {
                    delay: given("delay").map_or(Ok(right.delay.clone()), |field| delays(&field, duration))?,
                    overhead: given("overhead").map_or(Ok(right.overhead), |field| field.integer(0, 1000))?,
                    linklayer: given("linklayer").map_or(Ok(right.linklayer), |field| linklayer(&field))?,
                    nic: own.or(right.nic),
                    impair: given("impair").map(|field| impair(&field)).transpose()?.flatten(),
                    pause: pause(&reader)?,
                    flush: given("flush").map_or(Ok(right.flush && !is_trace(&rate)), |field| flush(field, &rate))?,
                    rate,
                    qdisc: given("qdisc"),
                }
            }
            Some(_) => return Err(reader.field(word)?.fault("expected a table such as { rate = \"1mbit\" }")),
        };
        Ok(HopDraft { name: name.to_owned(), right, left })
    }

    /// Returns the `pause` keys, rightward and leftward, where flow control was requested.
    pub(crate) fn pauses(&self) -> [Option<Field<'a>>; 2] {
        [self.right.pause.clone(), self.left.pause.clone()]
    }

    /// Returns the hop with its disciplines, whose sizes in bdp are evaluated. Flow control is added later, as it
    /// depends on neighbouring hops.
    pub(crate) fn finish(self, longest_rtt: Span, duration: Time) -> Result<Hop, Error> {
        let right = self.right.finish(longest_rtt, duration, None)?;
        let left = self.left.finish(longest_rtt, duration, Some(&right.qdisc))?;
        Ok(Hop { name: self.name, right, left })
    }

    /// Returns whether an impairment delays packets of this hop.
    pub(crate) fn is_delayed_by_impair(&self) -> bool {
        [&self.right.impair, &self.left.impair].into_iter().flatten().any(|impair| impair.delay > Span::ZERO)
    }

    /// The bandwidth-delay product of the rightward link, in bytes.
    pub(crate) fn bdp(&self, rtt: Span) -> f64 {
        bdp(&self.right.rate, rtt)
    }
}

impl LinkDraft<'_> {
    fn finish(self, longest_rtt: Span, duration: Time, other: Option<&Spec>) -> Result<Link, Error> {
        let (qdisc, changes) = match (&self.qdisc, other) {
            (Some(field), _) => {
                let scale = Scale { bdp: bdp(&self.rate, longest_rtt), packet: self.packet() };
                let (qdisc, changes) = disciplines(field, &scale, duration)?;
                let later = changes.iter().map(|(_, change)| change.spec());
                // A limit in the line was meant.
                let is_limited = field.value.written().split([' ', '"']).any(|word| word == "limit");
                let rtt = if is_limited { Span::ZERO } else { longest_rtt };
                let said = [&qdisc].into_iter().chain(later).flat_map(|spec| self.advise(spec, rtt));
                said.for_each(|sentence| field.warn(&sentence));
                (qdisc, changes)
            }
            (None, Some(other)) => (fifo_like(other)?, Vec::new()),
            (None, None) => return Err(Error::of_file("bug: the rightward discipline has a default")),
        };
        Ok(Link {
            rate: self.rate,
            delay: self.delay,
            qdisc,
            changes,
            overhead: self.overhead,
            linklayer: self.linklayer,
            nic: self.nic,
            impair: self.impair,
            pause: None,
            flush: self.flush,
        })
    }
}

impl LinkDraft<'_> {
    /// The bytes that the link sends for a full packet.
    fn packet(&self) -> u32 {
        self.linklayer.bytes(u64::from(PACKET + self.overhead)) as u32
    }

    /// Returns warnings about a discipline on this link. Its default limit should last for `longest_rtt`.
    fn advise(&self, qdisc: &Spec, longest_rtt: Span) -> Vec<String> {
        let constant = matches!(&self.rate, Capacity::Steps(steps) if steps.len() == 1);
        let context = qdisc::Context {
            mtu: self.packet(),
            overhead: self.overhead,
            rate: first_rate(&self.rate),
            delay: self.delay.first().map_or(Span::ZERO, |step| step.1),
            skb: 0,
            seed: 0,
        };
        let mut said = qdisc.advice(&context, constant);
        if constant {
            said.extend(qdisc.short_limit(context.rate, context.mtu, longest_rtt));
        }
        said
    }
}

/// Reads `linklayer`.
fn linklayer(field: &Field<'_>) -> Result<LinkLayer, Error> {
    let word = field.choice()?;
    let place = LinkLayer::WORDS.iter().position(|one| *one == word);
    Ok(place.map_or(LinkLayer::Ethernet, |place| LinkLayer::ALL[place]))
}

/// Returns the first rate; for a trace, the mean rate.
pub(crate) fn first_rate(capacity: &Capacity) -> Rate {
    match capacity {
        Capacity::Steps(steps) => steps[0].1,
        Capacity::Trace(trace) => {
            let bits = trace.opportunities_ms.len() as u128 * u128::from(PACKET) * 8 * 1000;
            let period = trace.opportunities_ms.last().copied().unwrap_or(1).max(1);
            Rate(u64::try_from(bits / u128::from(period)).unwrap_or(u64::MAX).max(1))
        }
    }
}

/// Returns the number of bytes that a link can carry up to `until`.
pub(crate) fn carried(capacity: &Capacity, until: Time) -> u128 {
    match capacity {
        Capacity::Steps(steps) => {
            let ends = steps.iter().skip(1).map(|(start, _)| *start).chain([Time::NEVER]);
            let bytes =
                |(&(from, rate), to): (&(Time, Rate), Time)| u128::from(rate.bytes_in(to.min(until).since(from)));
            steps.iter().zip(ends).map(bytes).sum()
        }
        Capacity::Trace(_) => u128::from(first_rate(capacity).bytes_in(until.since(Time::ZERO))),
    }
}

fn bdp(capacity: &Capacity, rtt: Span) -> f64 {
    first_rate(capacity).0 as f64 * rtt.as_secs_f64() / 8.0
}

/// The size of one `bdp` in a discipline's parameters.
struct Scale {
    bdp: f64,
    packet: u32,
}

/// Reads a hop's discipline and its later changes.
fn disciplines(field: &Field<'_>, scale: &Scale, duration: Time) -> Result<(Spec, Vec<(Time, QdiscChange)>), Error> {
    let Some(items) = field.items() else { return Ok((discipline(field, scale)?, Vec::new())) };
    let mut present: Option<Spec> = None;
    let mut all = steps(field, &items, duration, |line| {
        let step = change(line, scale, present.as_ref())?;
        if items.len() > 1 && matches!(step.spec(), Spec::Noqueue(_)) {
            return Err(line.fault("expected noqueue for the whole run, or a discipline with a queue at each time"));
        }
        present = Some(step.spec().clone());
        Ok(step)
    })?;
    let first = all.remove(0).1.spec().clone();
    Ok((first, all))
}

/// Returns the change that the line of a step makes to the discipline before it.
fn change(line: &Field<'_>, scale: &Scale, present: Option<&Spec>) -> Result<QdiscChange, Error> {
    let own = tc::own_words(line.text()?).map_err(|error| line.fault(error.to_string()))?;
    let words = scale.without_bdp(&own.line);
    let parameters = present.map(|present| changes::of_parameters(present, &words)).transpose();
    match parameters.map_err(|error| line.fault(error.to_string()))?.flatten() {
        Some(change) => {
            change.warnings.iter().for_each(|warning| line.warn(warning));
            Ok(QdiscChange::Parameters(change))
        }
        None => discipline(line, scale).map(QdiscChange::Discipline),
    }
}

/// Reads a `tc` line whose sizes may be in bdp.
fn discipline(field: &Field<'_>, scale: &Scale) -> Result<Spec, Error> {
    let own = tc::own_words(field.text()?).map_err(|error| field.fault(error.to_string()))?;
    let line = scale.without_bdp(&own.line);
    let first = line.split_ascii_whitespace().next().unwrap_or_default();
    if let Some(spec) = Spec::of_linux(&line).or_else(|| Spec::of_outside(&line, field.outside())) {
        own.warnings.iter().for_each(|warning| field.warn(warning));
        return Ok(spec);
    }
    match Spec::of_words(tc::OwnWords { line: line.clone(), ..own }) {
        Ok((spec, warnings)) => {
            warnings.iter().for_each(|warning| field.warn(warning));
            Ok(spec)
        }
        Err(error) => {
            let yours = field.outside().join(", ");
            let more = if yours.is_empty() { String::new() } else { format!("; yours: {yours}") };
            let fault = field.fault(format!("{error}{more}"));
            let not_built = tc::instead_of(first).is_some() || error.problem.contains("not built yet");
            Err(if not_built { fault.not_built() } else { fault })
        }
    }
}

impl Scale {
    /// Replaces `limit 8bdp` by packets or bytes, whichever the discipline counts, rounded to nearest and at least 1.
    fn without_bdp(&self, line: &str) -> String {
        if !line.contains("bdp") {
            return line.to_owned();
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let kind = words.first().copied().unwrap_or_default();
        let ns2 = words.windows(2).any(|pair| pair == ["variant", "ns2"]);
        let replaced = words.iter().enumerate().map(|(i, word)| match units::number_of(word, "bdp") {
            Some(factor) => {
                let key = if i > 0 { words[i - 1] } else { "" };
                let bytes = match key {
                    "memory_limit" | "memlimit" | "quantum" | "initial_quantum" => true,
                    "limit" | "min" | "max" => matches!(kind, "bfifo" | "tbf") || (kind == "red" && !ns2),
                    _ => false,
                };
                let unit = if bytes { 1.0 } else { f64::from(self.packet) };
                format!("{}", libm::round(factor * self.bdp / unit).clamp(1.0, f64::from(u32::MAX)))
            }
            None => (*word).to_owned(),
        });
        replaced.collect::<Vec<_>>().join(" ")
    }
}

/// Returns the default discipline of the reverse direction: a plain FIFO with the same limit as the rightward
/// discipline, or noqueue if that is noqueue.
fn fifo_like(other: &Spec) -> Result<Spec, Error> {
    let line = match (other.kind(), limit_word(&other.full())) {
        ("noqueue", _) => "noqueue".to_owned(),
        _ if counts_bytes(other) => bytes_of(other).map_or("bfifo".to_owned(), |limit| format!("bfifo limit {limit}")),
        (_, Some(limit)) => format!("pfifo limit {limit}"),
        (_, None) => "pfifo limit 1000".to_owned(),
    };
    line.parse().map_err(|error| Error::of_file(format!("bug: a fifo like {other}: {error}")))
}

/// Returns whether the discipline's limit counts bytes. For a shaper with a child, the child decides.
fn counts_bytes(spec: &Spec) -> bool {
    match spec {
        Spec::Bfifo(_) => true,
        Spec::Tbf(params) => params.child.as_deref().is_none_or(counts_bytes),
        Spec::Htb(params) => params.child.as_deref().is_some_and(counts_bytes),
        Spec::Red(params) => params.variant == red::Variant::Linux,
        _ => false,
    }
}

/// Returns the limit of a discipline that counts bytes.
fn bytes_of(spec: &Spec) -> Option<String> {
    limit_word(&spec.full())
}

/// Returns the word after `limit`.
fn limit_word(line: &str) -> Option<String> {
    line.split_ascii_whitespace().skip_while(|word| *word != "limit").nth(1).map(str::to_owned)
}

/// Returns the buffer of a link in packets of 1500 B IP, for expressions in S; 0 without a queue.
pub(crate) fn buffer_packets(link: &Link) -> f64 {
    let limit = limit_word(&link.qdisc.full()).and_then(|word| units::bytes(word.trim_end_matches('p')));
    let limit = limit.unwrap_or(0) as f64;
    if counts_bytes(&link.qdisc) { limit / f64::from(link.wire_bytes(PACKET)) } else { limit }
}

/// Reads a hop's `nic`.
fn nic(context: &Context, hop: &Table, path: &str) -> Result<Option<Nic>, Error> {
    let path = format!("{path}.nic");
    let (line, table) = match hop.get("nic") {
        None => return Ok(None),
        Some(Value { line, kind: Kind::Table(table) }) => (*line, table),
        Some(Value { line, .. }) => {
            return Err(Error::at(*line, path, "expected a table such as { ring = 512, bql = true }"));
        }
    };
    let reader = Reader::open(context, &keys::NIC, path, (line, table), None)?;
    Ok(Some(Nic {
        ring: reader.field("ring")?.integer(1, MOST_DESCRIPTORS)?,
        bql: reader.field("bql")?.flag()?,
        coalesce: reader.field("coalesce")?.span()?,
    }))
}

/// Reads a hop's `pause`; `None` unless it is true.
fn pause<'a>(reader: &Reader<'a>) -> Result<Option<Field<'a>>, Error> {
    let Some(field) = reader.given("pause") else { return Ok(None) };
    Ok(if field.flag()? { Some(field) } else { None })
}

/// Reads a hop's `flush`.
fn flush(field: Field<'_>, rate: &Capacity) -> Result<bool, Error> {
    let asked = field.flag()?;
    if asked && is_trace(rate) {
        return Err(field.fault("a trace has no rate that falls: expected a rate with steps"));
    }
    Ok(asked)
}

fn is_trace(rate: &Capacity) -> bool {
    matches!(rate, Capacity::Trace(_))
}

/// Reads a hop's `impair`. `None` if the options have no effect, so that a sweep can begin with "".
fn impair(field: &Field<'_>) -> Result<Option<Box<Impair>>, Error> {
    let (impair, warnings) = Impair::read(field.text()?).map_err(|error| field.fault(error.to_string()))?;
    warnings.iter().for_each(|warning| field.warn(warning));
    Ok(Some(impair).filter(|impair| *impair != Impair::default()).map(Box::new))
}

/// Reads `[access]`.
pub(crate) fn access(context: &Context, (line, table): (Option<u32>, &Table)) -> Result<Access, Error> {
    let reader = Reader::open(context, &keys::ACCESS, "access".into(), (line, table), None)?;
    Ok(Access {
        rate: reader.field("rate")?.rate()?,
        delay: reader.field("delay")?.span()?,
        limit: reader.field("limit")?.integer(1, u32::MAX)? as usize,
    })
}

fn capacity(field: &Field<'_>, duration: Time) -> Result<Capacity, Error> {
    if let Some([rates, period]) = field.parts(["square", "period"]) {
        return square(&rates, &period, duration).map(Capacity::Steps);
    }
    if let Some([name]) = field.parts(["trace"]) {
        return traced(&name, None, duration);
    }
    if let Some([name, scale]) = field.parts(["trace", "scale"]) {
        return traced(&name, Some(scale), duration);
    }
    match field.items() {
        Some(items) => stepped(field, &items, duration).map(Capacity::Steps),
        None => Ok(Capacity::Steps(vec![(Time::ZERO, field.rate()?)])),
    }
}

/// Reads the steps of a rate. Some of them, but not all, may be outages.
fn stepped(field: &Field<'_>, items: &[Field<'_>], duration: Time) -> Result<Vec<(Time, Rate)>, Error> {
    let steps = steps(field, items, duration, |item: &Field<'_>| item.step_rate())?;
    if steps.iter().all(|(_, rate)| *rate == rates::at_least_a_bit(0)) {
        return Err(field.fault("expected a rate above zero at one time at least: this link never carries anything"));
    }
    Ok(steps)
}

/// Reads the capacity of a link from a trace file.
fn traced(name: &Field<'_>, scale: Option<Field<'_>>, duration: Time) -> Result<Capacity, Error> {
    let file = trace(name)?;
    let rates = match (file, &scale) {
        (TraceFile::Opportunities(trace), None) => return Ok(Capacity::Trace(trace)),
        (TraceFile::Opportunities(_), Some(scale)) => {
            return Err(scale.fault("expected only for a trace of rates (.csv, .json), not for delivery opportunities"));
        }
        (TraceFile::Rates(rates), _) => rates,
    };
    let rates = match &scale {
        Some(scale) => {
            let factor = scale.number().map_err(|_| scale.fault("expected a number above zero, such as 0.5"))?;
            rates.scaled(factor).ok_or_else(|| scale.fault("expected rates of at most 10tbit"))?
        }
        None => (*rates).clone(),
    };
    if let Some(doubt) = rates.doubt() {
        name.warn(&doubt);
    }
    let steps = rates.until(duration, MOST_STEPS);
    steps.map(Capacity::Steps).ok_or_else(|| {
        name.fault(format!("repeated every {}: expected at most {MOST_STEPS} steps in {duration}", rates.period))
    })
}

/// Reads a trace file, once for all runs.
fn trace(field: &Field<'_>) -> Result<TraceFile, Error> {
    let name = field.text()?;
    if let Some(file) = field.context.traces.borrow().get(name) {
        return Ok(file.clone());
    }
    let path = field.context.folder.join(name);
    let file = if rates::is_named(name) {
        TraceFile::Rates(Arc::new(read_with(field, &path, |text| rates::parse(name, text))?))
    } else {
        TraceFile::Opportunities(Arc::new(read_with(field, &path, parse_trace)?))
    };
    field.context.traces.borrow_mut().insert(name.to_owned(), file.clone());
    Ok(file)
}

fn delays(field: &Field<'_>, duration: Time) -> Result<Vec<(Time, Span)>, Error> {
    match field.items() {
        Some(items) => steps(field, &items, duration, |item: &Field<'_>| item.span()),
        None => Ok(vec![(Time::ZERO, field.span()?)]),
    }
}

/// Reads `[["0s", X], ["50s", Y], …]`. Times begin at zero and rise.
fn steps<T>(
    field: &Field<'_>,
    items: &[Field<'_>],
    duration: Time,
    mut read: impl FnMut(&Field<'_>) -> Result<T, Error>,
) -> Result<Vec<(Time, T)>, Error> {
    let is_text = |item: &Field<'_>| matches!(item.value.kind, Kind::Text(_));
    if items.len() > 1 && items[0].time().is_err() && items.iter().all(is_text) {
        let problem = format!(
            "a list here has a time for each value: a step from then on; to compare these values write under [sweep]: \
             \"{}\" = {}",
            field.address,
            field.value.written()
        );
        return Err(field.fault(problem));
    }
    let mut steps: Vec<(Time, T)> = Vec::with_capacity(items.len());
    for item in items {
        let [time, value] = item.pair()?;
        let at = time.time()?;
        match steps.last() {
            None if at > Time::ZERO => return Err(time.fault("expected the first step at \"0s\"")),
            Some((last, _)) if at <= *last => {
                return Err(time.fault(format!("expected a later time than that of the step before ({last})")));
            }
            _ => steps.push((at, read(&value)?)),
        }
        if at >= duration {
            time.warn(&format!("the run ends at {duration}, so this step changes nothing"));
        }
    }
    if steps.is_empty() { Err(field.unexpected()) } else { Ok(steps) }
}

/// Expands a square wave: two rates in turn, half a period each, until the run ends.
fn square(rates: &Field<'_>, period: &Field<'_>, duration: Time) -> Result<Vec<(Time, Rate)>, Error> {
    let [first, second] = rates.pair()?;
    let (first, second) = (first.rate()?, second.rate()?);
    let half = period.span()?.0 / 2;
    if half == 0 || duration.0 / half > MOST_STEPS {
        return Err(period.fault(format!("expected a period that gives at most {MOST_STEPS} steps in {duration}")));
    }
    let rate = |i: u64| if i.is_multiple_of(2) { first } else { second };
    Ok((0..duration.0.div_ceil(half).max(1)).map(|i| (Time(i * half), rate(i))).collect())
}

/// Reads a file in the scenario's folder and parses it. The parser's errors have a line number; line 0 stands for the
/// file as a whole.
pub(crate) fn read_with<T>(
    field: &Field<'_>,
    path: &Path,
    parse: impl Fn(&str) -> Result<T, (usize, String)>,
) -> Result<T, Error> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| field.fault(format!("cannot read {shown}: {error}"));
    let bytes = file::read(path, LONGEST_TRACE).map_err(unreadable)?;
    if bytes.len() as u64 > LONGEST_TRACE {
        return Err(field.fault(format!("{shown} is larger than {LONGEST_TRACE} bytes")));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| field.fault(format!("{shown} is no text")))?;
    parse(text).map_err(|(line, problem)| match line {
        0 => field.fault(format!("{shown}: {problem}")),
        _ => field.fault(format!("{shown}:{line}: {problem}")),
    })
}

/// Parses a mahimahi trace: each line is a time in whole milliseconds. Times must not decrease, and the last one must
/// be positive. Errors have a line number; line 0 stands for the file as a whole.
fn parse_trace(text: &str) -> Result<Trace, (usize, String)> {
    let mut opportunities_ms = Vec::new();
    let mut last = 0;
    for (i, line) in text.lines().enumerate() {
        let word = line.trim();
        let number: u64 = match word.parse() {
            Ok(number) if number <= crate::units::LONGEST.0 / 1_000_000 => number,
            Ok(number) => {
                let problem =
                    format!("expected at most 86400000 ms (24h), the longest that a scenario lasts, found {number}");
                return Err((i + 1, problem));
            }
            Err(_) => {
                return Err((i + 1, format!("expected a time in whole milliseconds, found {}", file::shown(word))));
            }
        };
        if number < last {
            return Err((i + 1, format!("expected a time that does not fall: {number} comes after {last}")));
        }
        last = number;
        opportunities_ms.push(number);
    }
    match (opportunities_ms.is_empty(), last) {
        (true, _) => Err((0, "expected at least one delivery opportunity, found an empty trace".into())),
        (_, 0) => Err((0, "expected a last time above zero: it is the trace's period".into())),
        _ => Ok(Trace { opportunities_ms }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_bdp_become_packets_or_bytes_as_the_discipline_counts() {
        // 1 Mbit/s x 300 ms = 37 500 bytes = 25 packets.
        let scale = Scale { bdp: 37_500.0, packet: 1500 };
        assert_eq!(scale.without_bdp("pfifo limit 8bdp"), "pfifo limit 200");
        assert_eq!(scale.without_bdp("bfifo limit 0.5bdp"), "bfifo limit 18750");
        assert_eq!(scale.without_bdp("codel limit 0.001bdp target 5ms"), "codel limit 1 target 5ms");
        assert_eq!(scale.without_bdp("red limit 1bdp variant ns2"), "red limit 25 variant ns2");
        assert_eq!(scale.without_bdp("fq_codel memory_limit 1bdp"), "fq_codel memory_limit 37500");
    }

    #[test]
    fn a_trace_is_checked_line_by_line() {
        assert_eq!(parse_trace("0\n0\n7\n").map(|t| t.opportunities_ms), Ok(vec![0, 0, 7]));
        assert_eq!(parse_trace("1\nx\n").map_err(|e| e.0), Err(2));
        assert_eq!(parse_trace("5\n4\n").map_err(|e| e.0), Err(2));
        assert_eq!(parse_trace("5\n-4\n").map_err(|e| e.0), Err(2));
        assert_eq!(parse_trace("").map_err(|e| e.0), Err(0));
        assert_eq!(parse_trace("0\n0\n").map_err(|e| e.0), Err(0));
    }

    #[test]
    fn a_link_carries_the_area_under_its_rate() {
        let steps = vec![(Time::ZERO, Rate(8_000)), (Time(1_000_000_000), Rate(80_000))];
        assert_eq!(carried(&Capacity::Steps(steps.clone()), Time(3_000_000_000)), 1_000 + 20_000);
        assert_eq!(carried(&Capacity::Steps(steps), Time(500_000_000)), 500);
    }

    #[test]
    fn a_trace_has_the_mean_rate_of_its_opportunities() {
        let trace =
            Capacity::Trace(Arc::new(Trace { opportunities_ms: vec![1; 9].into_iter().chain([1000]).collect() }));
        assert_eq!(first_rate(&trace), Rate(120_000));
    }
}
