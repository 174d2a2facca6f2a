//! netem's words, read as `tc` reads them and printed as it accepts them.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::{self, Write};
use core::str::FromStr;

use super::{Chance, Distribution, LONGEST, Loss, Params, Slot, Wait};
use crate::qdisc::param::number::{SIZE, TIME, scaled, whole};
use crate::qdisc::tc::{Error, nearest};
use crate::units::Span;

const KEYS: [&str; 9] = ["limit", "delay", "distribution", "loss", "ecn", "duplicate", "reorder", "gap", "slot"];

/// Reads a percentage and rounds it to the nearest of 2^32 - 1 steps, as netem does.
pub(super) fn percent(word: &str) -> Option<u32> {
    let number = word.strip_suffix('%').unwrap_or(word);
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.') && number.len() <= 20;
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

    /// Reads the next word like [`Words::must`] if it begins like a number.
    fn may<T>(&mut self, key: &str, expected: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Error> {
        match self.words.peek() {
            Some(word) if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                self.must(key, expected, read).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn percent(&mut self, key: &str) -> Result<u32, Error> {
        self.must(key, "a percentage such as 1% or 0.5%", percent)
    }

    fn chance(&mut self, key: &str) -> Result<Chance, Error> {
        let share = self.percent(key)?;
        let correlation = self.may(key, "a correlation such as 25%", percent)?.unwrap_or(0);
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

fn time(word: &str) -> Option<Span> {
    scaled(word, TIME, 1).ok().map(Span).filter(|span| *span <= LONGEST)
}

impl FromStr for Params {
    type Err = Error;

    /// Reads the words that follow `netem` in `tc`.
    fn from_str(line: &str) -> Result<Params, Error> {
        let mut words = Words { words: line.split_ascii_whitespace().peekable() };
        let (mut params, mut distribution) = (Params::default(), None);
        while let Some(key) = words.words.next() {
            match key {
                "limit" => {
                    let count = |word: &str| whole(word, "p").ok().and_then(|n| u32::try_from(n).ok());
                    params.limit = words.must(key, "a number of packets", count)?;
                }
                "delay" | "latency" => {
                    params.delay = words.time(key)?;
                    params.jitter = words.may(key, "a jitter such as 2ms, at most a day", time)?.unwrap_or_default();
                    params.delay_correlation = words.may(key, "a correlation such as 25%", percent)?.unwrap_or(0);
                }
                "distribution" => distribution = Some(words.distribution(key)?),
                "loss" | "drop" => params.loss = loss(&mut words, key)?,
                "ecn" => params.ecn = true,
                "duplicate" => params.duplicate = words.chance(key)?,
                "reorder" => params.reorder = words.chance(key)?,
                "gap" => {
                    params.gap = words.must(key, "a whole number", |word| whole(word, "").ok()?.try_into().ok())?
                }
                "slot" => params.slot = Some(slot(&mut words, key)?),
                "corrupt" => return Err(Error::new(key, "a corrupted segment is lost to TCP: expected loss".into())),
                "rate" => return Err(Error::new(key, "expected the hop's own rate".into())),
                "seed" => return Err(Error::new(key, "the run's seed gives it".into())),
                _ => return Err(unknown(key)),
            }
        }
        params.jittered(distribution)?.ordered()
    }
}

fn unknown(word: &str) -> Error {
    let mut error = Error::new(word, format!("expected one of {}", KEYS.join(", ")));
    error.nearest = nearest(word, KEYS.into_iter());
    error
}

impl Params {
    /// Sets the distribution of the jitter, by default uniform. A distribution without a jitter is an error.
    fn jittered(mut self, distribution: Option<Distribution>) -> Result<Params, Error> {
        if distribution.is_some() && self.jitter == Span::ZERO {
            return Err(Error::new("distribution", "expected delay with a jitter, such as delay 10ms 2ms".into()));
        }
        self.distribution = distribution.unwrap_or(Distribution::Uniform);
        Ok(self)
    }

    /// Applies the rules of q_netem.c and netem: `reorder` needs a delay, and its default gap is 1. With a gap alone,
    /// the chance of `reorder` is 100 %.
    fn ordered(mut self) -> Result<Params, Error> {
        if self.reorder.share > 0 && self.delay == Span::ZERO {
            return Err(Error::new("reorder", "expected a delay that the reordered packets do not have".into()));
        }
        if self.reorder.share > 0 && self.gap == 0 {
            self.gap = 1;
        }
        if self.gap > 0 && self.reorder.share == 0 {
            self.reorder.share = u32::MAX;
        }
        if self.ecn && self.loss == Loss::Random(Chance::NEVER) {
            return Err(Error::new("ecn", "expected a loss that marks".into()));
        }
        Ok(self)
    }
}

fn loss(words: &mut Words<'_>, key: &str) -> Result<Loss, Error> {
    let next = |words: &mut Words<'_>, absent: u32| {
        words.may(key, "a percentage such as 1%", percent).map(|given| given.unwrap_or(absent))
    };
    match words.words.peek().copied() {
        Some("state") => {
            words.words.next();
            let p13 = words.percent("loss state")?;
            let p31 = next(words, u32::MAX - p13)?;
            let p32 = next(words, 0)?;
            let p23 = next(words, u32::MAX)?;
            let p14 = next(words, 0)?;
            Ok(Loss::State { p13, p31, p32, p23, p14 })
        }
        Some("gemodel") => {
            words.words.next();
            let p = words.percent("loss gemodel")?;
            let r = next(words, u32::MAX - p)?;
            // A line of tc gives 1-h and 1-k; the model needs h and 1-k.
            let h = u32::MAX - next(words, u32::MAX)?;
            let lost_in_good = next(words, 0)?;
            Ok(Loss::Gemodel { p, r, h, lost_in_good })
        }
        Some("random") => {
            words.words.next();
            words.chance("loss random").map(Loss::Random)
        }
        _ => {
            let word = words.words.peek().copied().unwrap_or_default();
            let problem = format!("after {key}: expected a percentage, random, state or gemodel");
            percent(word).ok_or_else(|| Error::new(word, problem))?;
            words.chance(key).map(Loss::Random)
        }
    }
}

fn slot(words: &mut Words<'_>, key: &str) -> Result<Slot, Error> {
    let wait = if words.words.next_if_eq(&"distribution").is_some() {
        let distribution = words.distribution("slot distribution")?;
        Wait::Drawn(distribution, words.time("slot distribution")?, words.time("slot distribution")?)
    } else {
        let least = words.time(key)?;
        let most = words.may(key, "a time of at least the first", time)?.unwrap_or(least);
        if most < least {
            return Err(Error::new(&most.to_string(), format!("after slot {least}: expected at least as much")));
        }
        Wait::Between(least, most)
    };
    let (mut packets, mut bytes) = (i32::MAX, i32::MAX);
    loop {
        if words.words.next_if_eq(&"packets").is_some() {
            packets = words.amount("slot packets", |word| whole(word, "").ok())?;
        } else if words.words.next_if_eq(&"bytes").is_some() {
            bytes = words.amount("slot bytes", |word| scaled(word, SIZE, 8).ok().map(|bits| bits / 8))?;
        } else {
            return Ok(Slot { wait, packets, bytes });
        }
    }
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
