//! CUBIC (RFC 9438) and Linux's HyStart.
//!
//! After a reduction the window grows along a cubic of time: fast towards the window of the last loss, flat around it,
//! then ever faster. Where Reno would be ahead, CUBIC follows Reno's window. Time is real time, so growth does not
//! depend on the RTT.
//!
//! Deviations: the threshold is taken from cwnd, not from the flight size (Linux; RFC 9438 §4.6 allows it where cwnd is
//! validated). After slow start was left without a loss, with HyStart on, the window grows by at least 5 % a round trip,
//! as Linux's does: the RFC's cubic would start from a standstill.

use super::Clock;
use crate::units::{Span, Time};

/// RFC 9438 §5: C, in segments per second cubed.
const C: f64 = 0.4;
/// RFC 9438 §4.6: the multiplicative decrease factor.
const BETA: f64 = 0.7;
/// RFC 9438 §4.3: 3·(1 - β)/(1 + β), Reno's increase for this β.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Linux: growth per round trip while no loss has shown a W_max.
const PROBE: f64 = 1.05;

/// CUBIC's own state. Windows in segments, times in seconds.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    /// The beginning of this congestion avoidance stage; never: it begins with the next ACK.
    epoch: Time,
    w_max: f64,
    k: f64,
    w_est: f64,
    /// The window before the last reduction.
    cwnd_prior: f64,
    /// No loss has shown a W_max.
    probing: bool,
    /// Grow by [`PROBE`] while probing.
    probe: bool,
}

impl Cubic {
    pub fn new(probe: bool) -> Cubic {
        Cubic { epoch: Time::NEVER, w_max: 0.0, k: 0.0, w_est: 0.0, cwnd_prior: 0.0, probing: true, probe }
    }

    /// Congestion avoidance: the window after an ACK of so many segments.
    #[inline]
    pub fn increase(&mut self, cwnd: f64, acked: f64, now: Time, srtt: f64) -> f64 {
        if self.epoch == Time::NEVER {
            self.begin(cwnd, now);
        }
        let per_window = acked / cwnd;
        // RFC 9438 §4.3: W_est, and α = 1 once it has reached the window before the reduction.
        self.w_est += if self.w_est < self.cwnd_prior { ALPHA * per_window } else { per_window };
        let t = now.since(self.epoch).as_secs_f64() - self.k;
        if self.w_max + C * t * t * t < self.w_est && !self.probing {
            return self.w_est.max(cwnd);
        }
        // RFC 9438 §4.2: aim at the cubic one RTT ahead, no further than half a window.
        let ahead = t + srtt;
        let mut target = (self.w_max + C * ahead * ahead * ahead).max(cwnd).min(1.5 * cwnd);
        if self.probing {
            target = target.max(if self.probe { PROBE * cwnd } else { cwnd });
            return (cwnd + (target - cwnd) * per_window).max(self.w_est);
        }
        cwnd + (target - cwnd) * per_window
    }

    /// RFC 9438 §4.2: a congestion avoidance stage begins.
    #[cold]
    #[inline(never)]
    fn begin(&mut self, cwnd: f64, now: Time) {
        self.epoch = now;
        self.w_est = cwnd;
        if cwnd < self.w_max {
            self.k = libm::cbrt((self.w_max - cwnd) / C);
        } else {
            self.k = 0.0;
            self.w_max = cwnd;
        }
    }

    /// A congestion event: the new threshold.
    pub fn reduce(&mut self, cwnd: f64) -> f64 {
        // RFC 9438 §4.7: fast convergence.
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) * 0.5 } else { cwnd };
        self.cwnd_prior = cwnd;
        self.probing = false;
        self.epoch = Time::NEVER;
        // RFC 9438 §4.6: at least two segments.
        (cwnd * BETA).max(2.0)
    }

    /// RFC 9438 §4.8: after a timeout the next stage starts with K = 0 at its own window.
    pub fn timeout(&mut self) {
        self.w_max = 0.0;
        self.probing = true;
        self.epoch = Time::NEVER;
    }

    /// RFC 9438 §5.8: time without data does not count.
    pub fn shift(&mut self, now: Time, idle: Span) {
        if self.epoch != Time::NEVER {
            self.epoch = (self.epoch + idle).min(now);
        }
    }
}

/// HyStart acts from this window on (Linux).
const LOW_WINDOW: u32 = 16;
/// ACKs closer than this, in µs, belong to one train.
const ACK_DELTA: u32 = 2_000;
/// Delay samples of a round trip before it is judged.
const MIN_SAMPLES: u8 = 8;

/// Linux's HyStart (Ha and Rhee 2011): ends slow start when a train of ACKs lasts half the smallest RTT, or when the
/// smallest of a round trip's first delays exceeds it by an eighth (4 to 16 ms). Times in µs, modulo 2^32.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    delay_min: u32,
    curr_rtt: u32,
    round_start: u32,
    last_ack: u32,
    end_seq: u32,
    sample_cnt: u8,
    on: bool,
    found: bool,
}

impl HyStart {
    pub fn new(on: bool) -> HyStart {
        HyStart {
            delay_min: u32::MAX,
            curr_rtt: u32::MAX,
            round_start: 0,
            last_ack: 0,
            end_seq: 0,
            sample_cnt: 0,
            on,
            found: false,
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Slow start begins again after a timeout.
    pub fn restart(&mut self) {
        self.found = false;
        self.end_seq = 0;
    }

    /// A delay sample; says whether slow start ends now.
    #[inline]
    pub fn ends_slow_start(&mut self, clock: &Clock, slow_start: bool, window: u32) -> bool {
        self.delay_min = self.delay_min.min(clock.rtt_us);
        slow_start && !self.found && window >= LOW_WINDOW && self.update(clock)
    }

    #[inline(never)]
    fn update(&mut self, clock: &Clock) -> bool {
        let now = (clock.now.0 / 1000) as u32;
        if clock.una > self.end_seq || self.end_seq == 0 {
            self.round_start = now;
            self.last_ack = now;
            self.end_seq = clock.nxt;
            self.curr_rtt = u32::MAX;
            self.sample_cnt = 0;
        }
        if now.wrapping_sub(self.last_ack) <= ACK_DELTA {
            self.last_ack = now;
            // Without pacing half the RTT is the two-way share of a window sent at once.
            self.found |= now.wrapping_sub(self.round_start) > self.delay_min / 2;
        }
        self.curr_rtt = self.curr_rtt.min(clock.rtt_us);
        if self.sample_cnt < MIN_SAMPLES {
            self.sample_cnt += 1;
        } else {
            let threshold = (self.delay_min / 8).clamp(4_000, 16_000);
            self.found |= self.curr_rtt > self.delay_min.saturating_add(threshold);
        }
        self.found
    }
}
