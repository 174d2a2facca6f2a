//! The connection as a rate-based congestion control sees it, with the fields that the congestion control sets.

use crate::tcp::pacing::send_quantum;
use crate::tcp::rate::Loss;

/// Bandwidths are in segments a µs, times 2^24 (Linux `BW_UNIT`). With segments of 1500 bytes, the unit is 715 bit/s.
pub(super) const BW_SCALE: u32 = 24;
/// See [`BW_SCALE`].
pub(super) const BW_UNIT: u64 = 1 << BW_SCALE;
/// Linux `TCP_INIT_CWND`: the window while no RTT is known.
pub(super) const INIT_CWND: u32 = 10;

/// The recovery that the sender is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::tcp) enum Repair {
    /// No recovery. A reduction after an ECN echo counts as this.
    None,
    /// Recovery of losses that SACK blocks showed.
    Recovery,
    /// Recovery from a timeout.
    Loss,
}

/// An event of a rate-based algorithm's connection, other than the ACKs that `cong_control` sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::tcp) enum FlowEvent<'a> {
    /// A window-driven algorithm would reduce its window now (Linux calls `ssthresh`), because of losses or, with
    /// `ece`, because of the first ECN echo of a window.
    Reduction { ece: bool },
    /// A retransmission timeout (Linux `CA_EVENT_LOSS`): all segments in `losses` count as lost. The window was
    /// `prior_cwnd` segments.
    Loss { prior_cwnd: u32, losses: &'a [Loss] },
    /// The last reduction proved spurious (Linux `undo_cwnd`).
    Undo,
    /// Data is about to be sent with nothing in flight (Linux `CA_EVENT_TX_START`).
    TxStart,
}

/// A connection as a rate-based algorithm sees it, with the fields that the algorithm sets. Counts in segments, times in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::tcp) struct Flow {
    pub now: u64,
    /// Ticks a second of the coarse clock.
    pub hz: u32,
    /// Number of segments delivered so far, and when it last grew.
    pub delivered: u32,
    pub delivered_time: u64,
    /// Number of segments found lost so far.
    pub lost: u32,
    pub in_flight: u32,
    pub repair: Repair,
    /// The smoothed RTT; 0 before the first sample.
    pub srtt: u64,
    /// How far ahead of the clock the next paced departure is.
    pub ahead: u64,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// The initial window.
    pub iw: u32,
    /// The window limited the sender recently.
    pub cwnd_limited: bool,
    /// The application limits the sender: segments that were in flight when it last had no data to send are still
    /// unacknowledged.
    pub app_limited: bool,
    /// Set by the algorithm: the rate samples of the segments now in flight count as limited by the application.
    pub limit_samples: bool,
    /// Set by the algorithm: the window.
    pub cwnd: u32,
    /// Set by the algorithm: the pacing rate in payload bytes per second. [`Flow::pace`] sets it together with
    /// `send_quantum`, the length of a burst in segments.
    pub pacing_rate: u64,
    pub send_quantum: u32,
}

impl Flow {
    /// Sets the pacing rate, and the length of a burst that follows from it.
    #[inline(always)]
    pub fn pace(&mut self, rate: u64) {
        if rate != self.pacing_rate {
            (self.pacing_rate, self.send_quantum) = (rate, send_quantum(rate, self.mss));
        }
    }

    /// Linux `tcp_jiffies32`: the coarse clock.
    pub fn jiffies(&self) -> u64 {
        self.now * u64::from(self.hz) / 1_000_000
    }

    /// The payload rate in bytes per second for a bandwidth times a gain (2^`unit_bits` is a gain of 1), minus 1 %, which
    /// reduces the queue at the bottleneck (Linux `bbr_pacing_margin_percent`; draft-ietf-ccwg-bbr-06 §5.6.2:
    /// PacingMarginPercent).
    pub fn rate(&self, bw: u64, gain: u64, unit_bits: u32) -> u64 {
        let rate = ((bw * u64::from(self.mss) * gain) >> unit_bits) * (1_000_000 / 100 * 99);
        rate >> BW_SCALE
    }
}
