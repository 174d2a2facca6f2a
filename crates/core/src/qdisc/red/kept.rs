//! RED's parameters as the kernel keeps them, which `tc -d qdisc show` prints: `ewma`, `Plog` and `Scell_log`. From them
//! follow parameters that `tc` accepts, and from which it computes the same values.

use alloc::format;
use alloc::string::String;

use super::average::{Words, ewma, idle_damping};
use crate::qdisc::param::Derived;
use crate::units::Rate;

/// The values of the kernel's that a text gives.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Kept {
    /// The base-2 logarithm of the weight of a new sample in the average, negated (`Wlog`).
    pub ewma: Option<u32>,
    /// The number of random bits, which the kernel uses where the probability is zero in 32 bits.
    pub plog: Option<u32>,
    /// The base-2 logarithm of the step in µs of the table of the decay while the link is idle.
    pub scell_log: Option<u32>,
}

/// The parameters that follow from [`Kept`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found {
    /// Mean packet size in bytes.
    pub avpkt: u32,
    /// Packets that may come at once.
    pub burst: u32,
    /// Rate by which the average decays while the link is idle.
    pub bandwidth: Rate,
    /// Drop probability at `max`.
    pub probability: f64,
}

/// The largest burst that is looked for.
const MOST_BURST: u32 = 1 << 20;
/// Mean packet sizes in bytes that are tried in turn.
const AVPKT: [u32; 13] = [1000, 1500, 500, 250, 125, 64, 32, 8, 1, 4000, 8000, 32_000, 65_535];
/// The names of the parameters that [`Kept::found`] sets.
const NAMES: &[&str] = &["bandwidth", "avpkt", "burst", "probability"];

impl Kept {
    /// Whether the text has none of the values.
    pub fn is_empty(&self) -> bool {
        *self == Kept::default()
    }

    /// Completes `words` so that `tc` computes these values from them. `packets`: the thresholds count packets. `seen` has
    /// the names of the parameters that the text gives.
    ///
    /// # Errors
    /// The value that no parameters give, and the reason.
    pub fn found(
        &self,
        words: &Words,
        packets: bool,
        seen: &[&'static str],
    ) -> Result<(Found, Derived), (&'static str, String)> {
        let given = [words.avpkt];
        let sizes: &[u32] = if seen.contains(&"avpkt") { &given } else { &AVPKT };
        let log = self.scell_log.filter(|_| !seen.contains(&"bandwidth"));
        let mut refused = None;
        let mut found = sizes.iter().filter_map(|&avpkt| {
            let with = Words { avpkt, ..*words };
            self.completed(with, log, packets).map_err(|error| refused.get_or_insert(error).0).ok()
        });
        let first = found.next();
        let (words, open) = first.ok_or_else(|| refused.unwrap_or_else(|| ("ewma", "gives no avpkt".into())))?;
        let Words { avpkt, burst, bandwidth, mut probability, .. } = words;
        if let Some(plog) = self.plog {
            let delta = words.max.saturating_sub(words.min).max(1);
            probability = f64::from((u32::MAX >> plog).wrapping_mul(delta)) / 4_294_967_296.0;
        }
        // The other parameters are assumed, and a warning names them.
        let names: &[&str] = match (self.ewma, self.plog, self.scell_log) {
            (None, ..) => &NAMES[3..],
            (_, Some(_), Some(_)) => NAMES,
            (_, Some(_), None) => &NAMES[1..],
            (_, None, Some(_)) => &NAMES[..3],
            (_, None, None) => &NAMES[1..3],
        };
        Ok((Found { avpkt, burst, bandwidth, probability }, Derived { names, open }))
    }

    /// Completes the words by a burst and, if `log` is the step of the table, by a bandwidth. Also returns a sentence that
    /// says what is open.
    fn completed(
        &self,
        mut words: Words,
        log: Option<u32>,
        packets: bool,
    ) -> Result<(Words, String), (&'static str, String)> {
        if let Some(wlog) = self.ewma {
            let unit = if packets { 1 } else { words.avpkt };
            words.burst = burst_of(wlog, f64::from(words.min) / f64::from(unit)).ok_or_else(|| {
                ("ewma", format!("no burst gives weight 2^-{wlog} with min {}; expected avpkt and burst", words.min))
            })?;
        }
        let Some(log) = log else { return Ok((words, String::new())) };
        let wlog = self.ewma.ok_or_else(|| ("Scell_log", "needs ewma, as tc -d prints it".into()))?;
        let open = bandwidth_of(log, wlog, &mut words)?;
        Ok((words, open))
    }
}

/// Returns the least burst from which `tc` computes this weight, with a `min` in packets. The weight never falls as the
/// burst grows.
fn burst_of(wlog: u32, min: f64) -> Option<u32> {
    let lowest = libm::ceil(min) as u32;
    let (mut low, mut high) = (lowest, MOST_BURST.max(lowest));
    while low < high {
        let middle = low + (high - low) / 2;
        // No weight is large enough for a burst beyond the last.
        if ewma(min, middle).is_none_or(|found| found >= wlog) { high = middle } else { low = middle + 1 }
    }
    (low >= 1 && ewma(min, low) == Some(wlog)).then_some(low)
}

/// Sets the bandwidth to one from which `tc` computes this `Scell_log`: the present one if it is such. Returns a sentence
/// that says what is open.
fn bandwidth_of(log: u32, wlog: u32, words: &mut Words) -> Result<String, (&'static str, String)> {
    let gives = |rate: u64| {
        let found = idle_damping(wlog, &Words { bandwidth: Rate(rate), ..*words });
        found.map(|(_, scell_log)| scell_log)
    };
    // The step of the table doubles as the rate falls by half, so the rates that give one step are a range.
    let (slowest, fastest) = (8u64, 32_000_000_000u64); // tc counts whole bytes a second
    let first = |below: u32| {
        let (mut low, mut high) = (slowest, fastest + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if gives(middle).is_some_and(|found| found <= below) { high = middle } else { low = middle + 1 }
        }
        low
    };
    let low = first(log);
    let high = if log == 0 { fastest } else { first(log - 1).saturating_sub(1) };
    if low > high || gives(low) != Some(log) {
        return Err(("Scell_log", format!("no bandwidth gives {log} with this ewma; expected a bandwidth")));
    }
    if !(low..=high).contains(&words.bandwidth.0) {
        words.bandwidth = Rate(round(low, high));
    }
    let (least, most) = (shown(low), shown(high));
    Ok(format!(
        "Scell_log {log} leaves the bandwidth open from {least} to {most} Mbit/s; assumed: bandwidth {}. It decides only how \
         the average decays while the link is idle",
        words.bandwidth
    ))
}

/// A rate within these bounds with few digits.
fn round(low: u64, high: u64) -> u64 {
    let middle = low + (high - low) / 2;
    let steps = core::iter::successors(Some(1_000_000_000_u64), |step| Some(step / 10)).take_while(|step| *step > 0);
    let mut near = steps.map(|step| middle / step * step);
    near.find(|rate| (low..=high).contains(rate)).unwrap_or(middle)
}

/// A rate in Mbit/s with three digits.
fn shown(rate: u64) -> String {
    let mbit = rate as f64 / 1e6;
    match mbit {
        _ if mbit >= 100.0 => format!("{mbit:.0}"),
        _ if mbit >= 10.0 => format!("{mbit:.1}"),
        _ if mbit >= 0.1 => format!("{mbit:.2}"),
        _ => format!("{mbit}"),
    }
}
