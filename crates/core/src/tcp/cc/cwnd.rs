//! The congestion window, counted in one of two ways: in fractions of a segment, as the RFCs have it, or in whole segments, as
//! Linux does.

use crate::units::Span;

/// Congestion window and slow start threshold, in segments.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Cwnd {
    /// The window rounded down, which limits the sender (Linux `snd_cwnd`).
    snd_cwnd: u32,
    /// Segments acknowledged towards the next whole segment of window (Linux `snd_cwnd_cnt`).
    snd_cwnd_cnt: u32,
    /// The window with its fraction.
    cwnd: f64,
    /// Infinite before the first congestion event.
    ssthresh: f64,
    /// The initial window.
    initial: u32,
    /// The window has no fraction.
    is_whole: bool,
}

impl Cwnd {
    /// A window of `window` segments. It has no fraction if `is_whole`.
    pub fn new(window: u32, ssthresh: f64, is_whole: bool) -> Cwnd {
        Cwnd { snd_cwnd: window, snd_cwnd_cnt: 0, cwnd: f64::from(window), ssthresh, initial: window, is_whole }
    }

    /// The window in whole segments.
    #[inline]
    pub fn whole(&self) -> u32 {
        self.snd_cwnd
    }

    /// The window, with its fraction if it has one.
    #[inline]
    pub fn get(&self) -> f64 {
        self.cwnd
    }

    /// The slow start threshold; infinite before the first congestion event.
    #[inline]
    pub fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    /// Returns whether the window is below the slow start threshold.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Sets the window.
    #[inline]
    pub fn set(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
        self.snd_cwnd = cwnd as u32;
    }

    /// Sets the window to whole segments.
    #[inline]
    pub fn set_whole(&mut self, window: u32) {
        self.snd_cwnd = window;
        self.cwnd = f64::from(window);
    }

    /// Sets the slow start threshold.
    #[inline]
    pub fn set_ssthresh(&mut self, ssthresh: f64) {
        self.ssthresh = ssthresh;
    }

    /// Ends slow start: the threshold is the window.
    pub fn exit_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
    }

    /// Discards the segments counted towards the next whole segment of window.
    pub fn forget_acked(&mut self) {
        self.snd_cwnd_cnt = 0;
    }

    /// A number of segments, rounded down if windows are whole segments.
    pub fn floor(&self, segments: f64) -> f64 {
        if self.is_whole { libm::floor(segments) } else { segments }
    }

    /// A number of segments, rounded up if windows are whole segments.
    pub fn ceil(&self, segments: f64) -> f64 {
        if self.is_whole { libm::ceil(segments) } else { segments }
    }

    /// Three quarters of the window.
    pub fn three_quarters(&self) -> f64 {
        if self.is_whole { f64::from((self.snd_cwnd >> 1) + (self.snd_cwnd >> 2)) } else { 0.75 * self.cwnd }
    }

    /// Slow start and congestion avoidance of Reno (RFC 5681 §3.1), which other algorithms fall back to.
    #[inline]
    pub fn reno_cong_avoid(&mut self, acked: u32) {
        if !self.is_whole {
            if let Some(acked) = self.slow_start_by(f64::from(acked)) {
                self.set(self.cwnd + acked / self.cwnd);
            }
        } else if let Some(acked) = self.slow_start(acked) {
            self.cong_avoid_ai(self.snd_cwnd, acked);
        }
    }

    /// Slow start in fractions of a segment: RFC 5681 §3.1, but counting segments, not ACKs (RFC 3465). Like Linux, it omits
    /// RFC 3465's limit per ACK. Returns the segments left for congestion avoidance; `None` if slow start took all.
    #[inline]
    pub fn slow_start_by(&mut self, acked: f64) -> Option<f64> {
        if self.cwnd >= self.ssthresh {
            return Some(acked);
        }
        let room = self.ssthresh - self.cwnd;
        if acked <= room {
            self.set(self.cwnd + acked);
            return None;
        }
        self.set(self.ssthresh);
        Some(acked - room)
    }

    /// Slow start in whole segments (Linux `tcp_slow_start`). Returns the segments left for congestion avoidance; `None` if
    /// slow start took all.
    #[inline]
    pub fn slow_start(&mut self, acked: u32) -> Option<u32> {
        if self.cwnd >= self.ssthresh {
            return Some(acked);
        }
        let before = self.snd_cwnd;
        let after = f64::from(before + acked).min(self.ssthresh) as u32;
        self.set_whole(after);
        let left = acked - (after - before);
        (left > 0).then_some(left)
    }

    /// Congestion avoidance in whole segments: one more for each `every` segments acknowledged (Linux `tcp_cong_avoid_ai`).
    #[inline]
    pub fn cong_avoid_ai(&mut self, every: u32, acked: u32) {
        let mut window = self.snd_cwnd;
        if self.snd_cwnd_cnt >= every {
            self.snd_cwnd_cnt = 0;
            window += 1;
        }
        self.snd_cwnd_cnt += acked;
        if self.snd_cwnd_cnt >= every {
            window += self.snd_cwnd_cnt / every;
            self.snd_cwnd_cnt %= every;
        }
        self.set_whole(window);
    }

    /// Halves the window for each RTO of idle time, down to the initial window (Linux `tcp_cwnd_restart`).
    pub fn restart(&mut self, idle: Span, rto: Span) {
        if self.ssthresh.is_finite() {
            self.ssthresh = self.ssthresh.max(self.three_quarters());
        }
        let floor = f64::from(self.initial).min(self.cwnd);
        let (mut left, mut cwnd) = (idle, self.cwnd);
        while left > rto && cwnd > floor {
            left = left - rto;
            cwnd *= 0.5;
        }
        // Linux halves by shifts.
        self.set(self.floor(cwnd).max(floor));
    }
}

/// Congestion window validation as in Linux (`tcp_cwnd_validate`), which has the aim of RFC 7661. A window that the
/// application does not use says nothing about the path, and must not grow.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(in crate::tcp) struct CwndUsage {
    /// The most segments in flight in the current round.
    max_packets_out: u32,
    /// The round ends when this segment is acknowledged.
    cwnd_usage_seq: u32,
    /// The window, rather than the application, limited the sender (Linux `is_cwnd_limited`).
    is_limited: bool,
}

impl CwndUsage {
    /// Handles an ACK that arrives with `out` segments in flight. `limited` means that the window allows no more.
    #[inline]
    pub fn validate(&mut self, out: u32, limited: bool, snd_una: u32, snd_nxt: u32) {
        if limited || snd_una >= self.cwnd_usage_seq || (!self.is_limited && out > self.max_packets_out) {
            self.is_limited = limited;
            self.max_packets_out = out;
            self.cwnd_usage_seq = snd_nxt;
        }
    }

    /// Returns whether the window limits the sender now.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Returns whether the window may grow: it limits the sender or, in slow start, more than half of it was used (Linux
    /// `tcp_is_cwnd_limited`).
    #[inline]
    pub fn may_grow(&self, cwnd: &Cwnd) -> bool {
        self.is_limited || (cwnd.in_slow_start() && cwnd.whole() < self.max_packets_out.saturating_mul(2))
    }
}
