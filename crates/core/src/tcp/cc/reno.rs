//! NewReno's window (RFC 5681 §3.1, with byte counting as RFC 3465 §2.1).

/// Congestion avoidance: one segment a window.
#[inline]
pub(super) fn increase(cwnd: f64, acked: f64) -> f64 {
    cwnd + acked / cwnd
}

/// RFC 5681 equation 4: half of what is outstanding, at least two segments.
pub(super) fn ssthresh(flight: f64) -> f64 {
    (flight * 0.5).max(2.0)
}
