//! The connection as a rate-based congestion control sees it, with the fields that the congestion control sets.

use crate::tcp::pacing::send_quantum;
use crate::tcp::rate::Loss;

/// Bandwidths are in segments a µs, times 2^24 (Linux `BW_UNIT`: whole numbers from 715 bit/s on).
pub(super) const BW_SCALE: u32 = 24;
/// See [`BW_SCALE`].
pub(super) const BW_UNIT: u64 = 1 << BW_SCALE;
/// Linux `TCP_INIT_CWND`: the window while no RTT is known.
pub(super) const INIT_CWND: u32 = 10;

/// The recovery that the sender is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::tcp) enum Repair {
    /// Nothing (reducing after an ECN echo counts as this).
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
    /// Delivered so far, and when that grew last.
    pub delivered: u32,
    pub delivered_time: u64,
    /// Found lost so far.
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
    /// The window was the limit lately.
    pub cwnd_limited: bool,
    /// The application limits the sender: its last gap has not been acknowledged yet.
    pub app_limited: bool,
    /// To be set: the segments in flight give samples that the path does not limit.
    pub limit_samples: bool,
    /// To be set: the window.
    pub cwnd: u32,
    /// To be set: the pacing rate in payload bytes a second; by [`Flow::pace`] if the algorithm also chooses the length of a burst.
    pub pacing_rate: u64,
    pub send_quantum: u32,
}

impl Flow {
    /// Sets the pacing rate.
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

    /// The payload rate in bytes per second for a bandwidth times a gain (`unit` is 1), minus 1 %, which reduces the
    /// queue at the bottleneck (Linux `bbr_pacing_margin_percent`; draft-ietf-ccwg-bbr-06 §5.6.2: PacingMarginPercent).
    pub fn rate(&self, bw: u64, gain: u64, unit_bits: u32) -> u64 {
        let rate = ((bw * u64::from(self.mss) * gain) >> unit_bits) * (1_000_000 / 100 * 99);
        rate >> BW_SCALE
    }
}
