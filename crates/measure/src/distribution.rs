//! The summaries of histograms that reports carry.

use serde::Serialize;

use crate::histogram::{Cell, Histogram};

/// Nanoseconds in a millisecond: the unit of `…_ms`.
pub const MS: f64 = 1e6;
/// Nanoseconds in a second: the unit of `…_s`.
pub const S: f64 = 1e9;
/// The unit of plain numbers.
pub const ONE: f64 = 1.0;

/// A distribution as every report gives it. A missing one (no samples) is `None`, in JSON `null`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Distribution {
    /// The mean, from the exact sum.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 75 % do not exceed it.
    pub p75: f64,
    /// 95 % do not exceed it.
    pub p95: f64,
    /// 99 % do not exceed it.
    pub p99: f64,
    /// The greatest value, exact.
    pub max: f64,
}

impl Distribution {
    /// Of a histogram, its values divided by `unit`; `None` without samples.
    pub fn of<const BITS: u32, C: Cell>(histogram: &Histogram<BITS, C>, unit: f64) -> Option<Distribution> {
        if histogram.is_empty() {
            return None;
        }
        let [p50, p75, p95, p99] = histogram.quantiles([0.5, 0.75, 0.95, 0.99]).map(|value| value / unit);
        Some(Distribution { mean: histogram.mean() / unit, p50, p75, p95, p99, max: histogram.max() as f64 / unit })
    }
}

/// The standing queue: percentiles over time of the least queue delay of the past longest base RTT.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Standing {
    /// In a tenth of the time it is at most this.
    pub p10: f64,
    /// The median over time: *the* standing queue.
    pub p50: f64,
    /// In nine tenths of the time it is at most this.
    pub p90: f64,
}

impl Standing {
    /// Of a histogram weighted by time, its values divided by `unit`; `None` without samples.
    pub fn of<const BITS: u32, C: Cell>(histogram: &Histogram<BITS, C>, unit: f64) -> Option<Standing> {
        let [p10, p50, p90] = histogram.quantiles([0.1, 0.5, 0.9]).map(|value| value / unit);
        (!histogram.is_empty()).then_some(Standing { p10, p50, p90 })
    }
}

/// A quotient, or `None` where there is nothing to divide by.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
