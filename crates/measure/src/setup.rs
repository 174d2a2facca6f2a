//! Configuration of a link's meters.

use sojourn_core::units::{Span, Time};

/// Configuration of a link's meter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkSetup {
    /// The key in the report: `bottleneck`, `bottleneck.reverse`, …
    pub name: String,
    /// The measuring window [start, end), never empty.
    pub measure: (Time, Time),
    /// The end of the run. Events at or after it are not counted.
    pub end: Time,
    /// The longest base RTT, which is the length of the standing queue's sliding window.
    pub rtt_window: Span,
    /// Upper bound on the number of bins of the series; 0 for no series, and then for no oscillation period either.
    pub bins: u32,
    /// Bytes per packet that the link counts in addition to the IP length. Used for labels only: the meter adds
    /// nothing.
    pub overhead: u32,
}
