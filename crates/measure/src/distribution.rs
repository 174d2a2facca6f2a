//! Summaries of histograms, as reports print them.

use serde::Serialize;

use crate::histogram::{Cell, Histogram};

/// Nanoseconds per millisecond, for values whose names end in `_ms`.
pub const MS: f64 = 1e6;
/// Nanoseconds per second, for values whose names end in `_s`.
pub const S: f64 = 1e9;
/// The unit of dimensionless numbers.
pub const ONE: f64 = 1.0;

/// Summary of a distribution, with the fields that every report uses. Without samples, the summary is `None`, which
/// JSON writes as `null`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Distribution {
    /// The mean, from the exact sum.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 75th percentile.
    pub p75: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest value, exact.
    pub max: f64,
}

impl Distribution {
    /// Summarises a histogram, dividing its values by `unit`; `None` without samples.
    pub fn of<const BITS: u32, C: Cell>(histogram: &Histogram<BITS, C>, unit: f64) -> Option<Distribution> {
        if histogram.is_empty() {
            return None;
        }
        let [p50, p75, p95, p99] = histogram.quantiles([0.5, 0.75, 0.95, 0.99]).map(|value| value / unit);
        Some(Distribution { mean: histogram.mean() / unit, p50, p75, p95, p99, max: histogram.max() as f64 / unit })
    }
}

impl Distribution {
    /// Summarises a list of values exactly, dividing them by `unit`; `None` without values. It is meant for a few values
    /// over many orders of magnitude, for which a histogram would have many more bins than values.
    pub fn of_values(mut values: Vec<u64>, unit: f64) -> Option<Distribution> {
        values.sort_unstable();
        let max = *values.last()? as f64 / unit;
        let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
        // The smallest value that this fraction of the values does not exceed.
        let at = |q: f64| values[((q * values.len() as f64).ceil() as usize).max(1) - 1] as f64 / unit;
        let mean = sum as f64 / values.len() as f64 / unit;
        Some(Distribution { mean, p50: at(0.5), p75: at(0.75), p95: at(0.95), p99: at(0.99), max })
    }

    /// Returns the distribution of the values minus the smallest one, which is `least`, as RFC 5481 §4.2 defines the
    /// variation of delays.
    pub fn above(self, least: f64) -> Distribution {
        Distribution {
            mean: self.mean - least,
            p50: self.p50 - least,
            p75: self.p75 - least,
            p95: self.p95 - least,
            p99: self.p99 - least,
            max: self.max - least,
        }
    }
}

/// The standing queue: percentiles over time of the smallest queue delay within the past longest base RTT.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Standing {
    /// The 10th percentile over time.
    pub p10: f64,
    /// The median over time: *the* standing queue.
    pub p50: f64,
    /// The 90th percentile over time.
    pub p90: f64,
}

impl Standing {
    /// Summarises a histogram weighted by time, dividing its values by `unit`; `None` without samples.
    pub fn of<const BITS: u32, C: Cell>(histogram: &Histogram<BITS, C>, unit: f64) -> Option<Standing> {
        let [p10, p50, p90] = histogram.quantiles([0.1, 0.5, 0.9]).map(|value| value / unit);
        (!histogram.is_empty()).then_some(Standing { p10, p50, p90 })
    }
}

/// `part / whole`, or `None` if `whole` is zero.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
