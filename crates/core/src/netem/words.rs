//! netem's words, read as `tc` reads them and printed as it accepts them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::str::FromStr;

use super::{Chance, Distribution, LONGEST, Loss, Params, Slot, Wait};
use crate::qdisc::param::number::{SIZE, TIME, TIME_NS, truncated, whole};
use crate::qdisc::tc::{Error, OwnWords, nearest, own_words};
use crate::units::Span;

/// netem's keys in the order in which `tc` compares an abbreviation with them.
const KEYS: [&str; 14] = [
    "limit",
    "latency",
    "delay",
    "loss",
    "drop",
    "ecn",
    "reorder",
    "corrupt",
    "gap",
    "duplicate",
    "distribution",
    "rate",
    "slot",
    "seed",
];
/// Keys that can be had here, for messages.
const KNOWN: [&str; 9] = ["limit", "delay", "distribution", "loss", "ecn", "duplicate", "reorder", "gap", "slot"];

/// Reads a percentage and rounds it to the nearest of 2^32 - 1 steps, as netem does.
pub(super) fn percent(word: &str) -> Option<u32> {
    let number = word.strip_suffix('%').unwrap_or(word);
    let plain = number.len() <= 40 && number.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let plain = plain && number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'));
    let value: f64 = number.parse().ok().filter(|_| plain)?;
    (value <= 100.0).then(|| libm::rint(value / 100.0 * f64::from(u32::MAX)) as u32)
}

/// Returns the shortest percentage that [`percent`] reads as this share.
fn shown(share: u32) -> String {
    let value = f64::from(share) / f64::from(u32::MAX) * 100.0;
    let mut texts = (0..=12).map(|places| format!("{value:.places$}%"));
    texts.clone().find(|text| percent(text) == Some(share)).or(texts.next_back()).unwrap_or_default()
}

/// The words that are not read yet.
struct Words<'a> {
    words: core::iter::Peekable<core::str::SplitAsciiWhitespace<'a>>,
}

impl<'a> Words<'a> {
    /// Reads the next word, which must be there.
    fn must<T>(&mut self, key: &str, expected: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
        let word = self.words.next().unwrap_or_default();
        read(word).ok_or_else(|| Error::new(word, format!("after {key}: expected {expected}")))
    }

    /// Reads the next word like [`Words::must`] if it begins with a digit.
    fn may<T>(&mut self, key: &str, expected: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Error> {
        match self.words.peek() {
            Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => self.must(key, expected, read).map(Some),
            _ => Ok(None),
        }
    }

    fn percent(&mut self, key: &str) -> Result<u32, Error> {
        self.must(key, "a percentage such as 1% or 0.5%", percent)
    }

    /// Reads a chance and its correlation, which is the `earlier` one if the line gives none.
    fn chance(&mut self, key: &str, earlier: Chance) -> Result<Chance, Error> {
        let share = self.percent(key)?;
        let correlation = self.may(key, "a correlation such as 25%", percent)?.unwrap_or(earlier.correlation);
        Ok(Chance { share, correlation })
    }

    fn time(&mut self, key: &str) -> Result<Span, Error> {
        self.must(key, "a time such as 10ms, at most a day", time)
    }

    fn distribution(&mut self, key: &str) -> Result<Distribution, Error> {
        let named = |word: &str| Distribution::ALL.iter().find(|one| one.0 == word).map(|one| one.1);
        self.must(key, "uniform, normal, pareto or paretonormal", named)
    }

    /// Reads `packets` or `bytes` of a slot: a whole number, where 0 means any number.
    fn amount(&mut self, key: &str, read: impl Fn(&str) -> Option<u64>) -> Result<i32, Error> {
        let fits = |word: &str| read(word).and_then(|n| i32::try_from(n).ok());
        let amount = self.must(key, "a whole number up to 2147483647", fits)?;
        Ok(if amount == 0 { i32::MAX } else { amount })
    }
}

/// Reads a time as `tc` does, in whole microseconds. A time in ns, which `tc` does not know here, is exact.
fn time(word: &str) -> Option<Span> {
    let in_ns = word.ends_with(['s', 'c']) && word.contains("ns");
    let ns =
        if in_ns { truncated(word, TIME, 1) } else { truncated(word, TIME, 1_000).map(|us| us.saturating_mul(1_000)) };
    ns.ok().map(Span).filter(|span| *span <= LONGEST)
}

/// Reads a time of a slot, which `tc` hands to the kernel in nanoseconds.
fn time_ns(word: &str) -> Option<Span> {
    truncated(word, TIME_NS, 1).ok().map(Span).filter(|span| *span <= LONGEST)
}

/// Reads a number of packets as `tc` does: as a size, so that `1k` is 1024.
fn packets(word: &str) -> Option<u32> {
    let number = whole(word, "p").or_else(|_| truncated(word, SIZE, 8)).ok()?;
    u32::try_from(number).ok()
}

/// The state of reading a line.
#[derive(Default)]
struct Reading {
    params: Params,
    distribution: Option<Distribution>,
    /// The words of each key that was read.
    given: Vec<(&'static str, String)>,
    warnings: Vec<String>,
}

impl FromStr for Params {
    type Err = Error;

    /// Reads the words that follow `netem` in `tc`, as [`Params::read`] without its warnings.
    fn from_str(line: &str) -> Result<Params, Error> {
        Params::read(line).map(|(params, _)| params)
    }
}

impl Params {
    /// Reads the words that follow `netem` in `tc`, a whole `tc` command, or the output of `tc qdisc show`, also as JSON.
    /// Also returns warnings about words that are accepted but easily misread, and about what the text does not hold.
    ///
    /// # Errors
    /// A word that is none of netem's, or that means nothing for a link here.
    pub fn read(text: &str) -> Result<(Params, Vec<String>), Error> {
        let OwnWords { line, printed, warnings } = own_words(text)?;
        let own = line.strip_prefix("netem").filter(|rest| rest.is_empty() || rest.starts_with(' '));
        if own.is_none() && (printed || line != text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")) {
            let kind = line.split(' ').next().unwrap_or_default();
            return Err(Error::new(kind, "is a discipline for the key qdisc; expected the words of netem".into()));
        }
        let mut words = Words { words: own.unwrap_or(&line).split_ascii_whitespace().peekable() };
        let mut reading = Reading { warnings, ..Reading::default() };
        while let Some(key) = words.words.next() {
            reading.key(key, &mut words)?;
        }
        if printed && reading.params.jitter > Span::ZERO {
            let text =
                "netem: what tc printed does not hold the distribution of the jitter; assumed: distribution uniform";
            reading.warnings.push(text.into());
        }
        let Reading { params, distribution, warnings, .. } = reading;
        Ok((params.jittered(distribution)?.ordered()?, warnings))
    }
}

impl Reading {
    /// Reads a key and its values.
    fn key<'w>(&mut self, word: &'w str, words: &mut Words<'w>) -> Result<(), Error> {
        let name = KEYS.into_iter().find(|name| name.starts_with(word)).ok_or_else(|| unknown(word))?;
        // Two names of the same.
        let key = match name {
            "latency" => "delay",
            "drop" => "loss",
            name => name,
        };
        let before = words.words.clone();
        let params = &mut self.params;
        match key {
            "limit" => params.limit = words.must(key, "a number of packets, such as 1000 or 1k", packets)?,
            // A second delay keeps the jitter of the first, as in tc, unless it has one.
            "delay" => {
                params.delay = words.time(key)?;
                if let Some(jitter) = words.may(key, "a jitter such as 2ms, at most a day", time)? {
                    params.jitter = jitter;
                    let correlation = words.may(key, "a correlation such as 25%", percent)?;
                    params.delay_correlation = correlation.unwrap_or(params.delay_correlation);
                }
            }
            "distribution" => self.distribution = Some(words.distribution(key)?),
            "loss" if params.loss != Loss::Random(Chance::NEVER) => {
                return Err(Error::new(word, "loss is given twice, which tc refuses: leave one out".into()));
            }
            "loss" => params.loss = loss(words, key)?,
            "ecn" => params.ecn = true,
            "duplicate" => params.duplicate = words.chance(key, params.duplicate)?,
            "reorder" => params.reorder = words.chance(key, params.reorder)?,
            "gap" => params.gap = words.must(key, "a whole number", |word| whole(word, "").ok()?.try_into().ok())?,
            "slot" => params.slot = Some(slot(words, key, params.slot, &mut self.warnings)?),
            "seed" => {
                let seed = words.must(key, "a whole number", |word| whole(word, "").ok())?;
                self.warnings.push(format!("netem: seed {seed} is ignored: the run's seed gives the random numbers"));
            }
            "corrupt" => return Err(Error::new(key, "a corrupted segment is lost to TCP: expected loss".into())),
            "rate" => {
                let problem = "is the hop's own key rate; expected it there, and not among the impairments";
                return Err(Error::new(key, problem.into()));
            }
            _ => return Err(unknown(word)),
        }
        let count = before.clone().count() - words.words.clone().count();
        let read: Vec<_> = before.take(count).collect();
        let text = [word].iter().chain(&read).copied().collect::<Vec<_>>().join(" ");
        let is_bare =
            |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit()) && word.bytes().any(|byte| byte != b'0');
        if key == "delay" && read.iter().take(2).any(is_bare) {
            self.warnings.push(format!("netem: {text}: a time without a unit is in microseconds, as in tc"));
        }
        self.last_counts(key, text);
        Ok(())
    }

    /// Warns if the key was given before: `tc` takes the last values, and so does this crate.
    fn last_counts(&mut self, key: &'static str, text: String) {
        match self.given.iter().rev().find(|(earlier, _)| *earlier == key) {
            Some((_, one)) if *one == text => self.warnings.push(format!("netem: {text} is given twice")),
            Some((_, one)) => self.warnings.push(format!("netem: {one}, then {text}: as in tc, the last one counts")),
            None => {}
        }
        self.given.push((key, text));
    }
}

fn unknown(word: &str) -> Error {
    let mut error = Error::new(word, format!("expected one of {}", KNOWN.join(", ")));
    error.nearest = nearest(word, KNOWN.into_iter());
    error
}

impl Params {
    /// Sets the distribution of the jitter, by default uniform. A distribution without a jitter is an error.
    fn jittered(mut self, distribution: Option<Distribution>) -> Result<Params, Error> {
        if distribution.is_some() && (self.jitter == Span::ZERO || self.delay == Span::ZERO) {
            return Err(Error::new("distribution", "expected delay with a jitter, such as delay 10ms 2ms".into()));
        }
        self.distribution = distribution.unwrap_or(Distribution::Uniform);
        Ok(self)
    }

    /// Applies the rules of q_netem.c: `reorder` needs a delay, its default gap is 1, and `gap` needs `reorder`.
    fn ordered(mut self) -> Result<Params, Error> {
        if self.reorder.share > 0 && self.delay == Span::ZERO {
            return Err(Error::new("reorder", "expected a delay that the reordered packets do not have".into()));
        }
        if self.reorder.share > 0 && self.gap == 0 {
            self.gap = 1;
        }
        if self.gap > 0 && self.reorder.share == 0 {
            let problem = "needs a chance of reorder, as in tc; expected both, such as reorder 25% gap 5";
            return Err(Error::new("gap", problem.into()));
        }
        if self.ecn && self.loss == Loss::Random(Chance::NEVER) {
            return Err(Error::new("ecn", "expected a loss that marks".into()));
        }
        Ok(self)
    }
}

fn loss(words: &mut Words<'_>, key: &str) -> Result<Loss, Error> {
    // tc prints the name of each share of a model before it, and does not accept it.
    let next = |words: &mut Words<'_>, label: &str, absent: u32| {
        words.words.next_if_eq(&label);
        words.may(key, "a percentage such as 1%", percent).map(|given| given.unwrap_or(absent))
    };
    match words.words.peek().copied() {
        Some("state") => {
            words.words.next();
            words.words.next_if_eq(&"p13");
            let p13 = words.percent("loss state")?;
            let p31 = next(words, "p31", u32::MAX - p13)?;
            let p32 = next(words, "p32", 0)?;
            let p23 = next(words, "p23", u32::MAX)?;
            let p14 = next(words, "p14", 0)?;
            Ok(Loss::State { p13, p31, p32, p23, p14 })
        }
        Some("gemodel") => {
            words.words.next();
            words.words.next_if_eq(&"p");
            let p = words.percent("loss gemodel")?;
            let r = next(words, "r", u32::MAX - p)?;
            // A line of tc gives 1-h and 1-k; the model needs h and 1-k.
            let h = u32::MAX - next(words, "1-h", u32::MAX)?;
            let lost_in_good = next(words, "1-k", 0)?;
            Ok(Loss::Gemodel { p, r, h, lost_in_good })
        }
        Some("random") => {
            words.words.next();
            words.chance("loss random", Chance::NEVER).map(Loss::Random)
        }
        _ => {
            let word = words.words.peek().copied().unwrap_or_default();
            let problem = format!("after {key}: expected a percentage, random, state or gemodel");
            percent(word).ok_or_else(|| Error::new(word, problem))?;
            words.chance(key, Chance::NEVER).map(Loss::Random)
        }
    }
}

/// Reads a slot. A second one keeps the packets and bytes of the `earlier` one, and its distribution, as in tc.
fn slot(words: &mut Words<'_>, key: &str, earlier: Option<Slot>, warnings: &mut Vec<String>) -> Result<Slot, Error> {
    const TIME: &str = "a time such as 10ms, at most a day (a bare number is ns)";
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let wait = if words.words.next_if_eq(&"distribution").is_some() {
        let distribution = match words.words.peek().filter(|word| is_number(word)) {
            Some(_) => {
                let text =
                    "netem: what tc printed does not hold the distribution of the slots; assumed: distribution uniform";
                warnings.push(text.into());
                Distribution::Uniform
            }
            None => words.distribution("slot distribution")?,
        };
        let mean = words.must("slot distribution", TIME, time_ns)?;
        let above_zero = |word: &str| time_ns(word).filter(|deviation| *deviation > Span::ZERO);
        let deviation = words.must("slot distribution", "a deviation above zero, such as 2ms", above_zero)?;
        Wait::Drawn(distribution, mean, deviation)
    } else {
        let least = words.must(key, TIME, time_ns)?;
        let most = words.may(key, "a time of at least the first", time_ns)?.unwrap_or(least);
        if most < least {
            return Err(Error::new(&most.to_string(), format!("after slot {least}: expected at least as much")));
        }
        Wait::Between(least, most)
    };
    let wait = match (earlier, wait) {
        (Some(Slot { wait: drawn @ Wait::Drawn(..), .. }), Wait::Between(..)) => drawn,
        (_, wait) => wait,
    };
    let (mut packets, mut bytes) = earlier.map_or((i32::MAX, i32::MAX), |slot| (slot.packets, slot.bytes));
    let begins = |name: &'static str| move |word: &&str| !word.is_empty() && name.starts_with(*word);
    if words.words.next_if(begins("packets")).is_some() {
        packets = words.amount("slot packets", |word| whole(word, "").ok())?;
    }
    if words.words.next_if(begins("bytes")).is_some() {
        bytes = words.amount("slot bytes", |word| truncated(word, SIZE, 8).ok())?;
    }
    Ok(Slot { wait, packets, bytes })
}

impl fmt::Display for Params {
    /// Writes the parameters in the words of tc, without those that have their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let chance = |text: &mut String, key: &str, chance: Chance| {
            write!(text, " {key} {}", shown(chance.share))?;
            if chance.correlation > 0 { write!(text, " {}", shown(chance.correlation)) } else { Ok(()) }
        };
        if self.limit < u32::MAX {
            write!(text, " limit {}", self.limit)?;
        }
        if self.delay > Span::ZERO || self.jitter > Span::ZERO {
            write!(text, " delay {}", self.delay)?;
        }
        if self.jitter > Span::ZERO {
            write!(text, " {}", self.jitter)?;
            if self.delay_correlation > 0 {
                write!(text, " {}", shown(self.delay_correlation))?;
            }
            if self.distribution != Distribution::Uniform {
                write!(text, " distribution {}", self.distribution.name())?;
            }
        }
        match self.loss {
            Loss::Random(Chance::NEVER) => {}
            Loss::Random(random) => chance(&mut text, "loss", random)?,
            Loss::State { p13, p31, p32, p23, p14 } => {
                let [p13, p31, p32, p23, p14] = [p13, p31, p32, p23, p14].map(shown);
                write!(text, " loss state {p13} {p31} {p32} {p23} {p14}")?;
            }
            Loss::Gemodel { p, r, h, lost_in_good } => {
                let [p, r, lost, lost_in_good] = [p, r, u32::MAX - h, lost_in_good].map(shown);
                write!(text, " loss gemodel {p} {r} {lost} {lost_in_good}")?;
            }
        }
        if self.ecn {
            text.push_str(" ecn");
        }
        if self.duplicate.share > 0 {
            chance(&mut text, "duplicate", self.duplicate)?;
        }
        if self.reorder.share > 0 {
            chance(&mut text, "reorder", self.reorder)?;
            write!(text, " gap {}", self.gap)?;
        }
        if let Some(slot) = self.slot {
            write_slot(&mut text, &slot)?;
        }
        f.write_str(text.trim_start())
    }
}

fn write_slot(text: &mut String, slot: &Slot) -> fmt::Result {
    match slot.wait {
        Wait::Between(least, most) => write!(text, " slot {least} {most}")?,
        Wait::Drawn(of, mean, deviation) => write!(text, " slot distribution {} {mean} {deviation}", of.name())?,
    }
    if slot.packets < i32::MAX {
        write!(text, " packets {}", slot.packets)?;
    }
    if slot.bytes < i32::MAX {
        write!(text, " bytes {}", slot.bytes)?;
    }
    Ok(())
}
