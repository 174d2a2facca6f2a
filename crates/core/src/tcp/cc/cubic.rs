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
use crate::tcp::pacing::GSO_MAX_SIZE;
use crate::tcp::{Cc, Config, HyStart as Asked};
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
#[derive(Clone, Debug, PartialEq)]
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
    #[inline(always)]
    pub fn increase(&mut self, cwnd: f64, acked: f64, now: Time, srtt: f64) -> f64 {
        if self.epoch == Time::NEVER {
            self.begin(cwnd, now);
        }
        let per_window = acked / cwnd;
        // RFC 9438 §4.3: W_est, and α = 1 once it has reached the window before the reduction.
        self.w_est += if self.w_est < self.cwnd_prior { ALPHA * per_window } else { per_window };
        let t = (now.0 - self.epoch.0) as i64 as f64 * 1e-9 - self.k;
        if self.w_max + C * t * t * t < self.w_est && !self.probing {
            return if self.w_est > cwnd { self.w_est } else { cwnd };
        }
        // RFC 9438 §4.2: aim at the cubic one RTT ahead, no further than half a window.
        let ahead = t + srtt;
        let target = self.w_max + C * ahead * ahead * ahead;
        let target = if target < cwnd { cwnd } else { target };
        let mut target = if target > 1.5 * cwnd { 1.5 * cwnd } else { target };
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
/// The most by which offloads may delay a train's ACKs, in µs, by Linux's reckoning; and how many of the largest packets at the
/// pacing rate that is otherwise.
const ACK_DELAY: f64 = 1_000.0;
const ACK_DELAY_PACKETS: f64 = 4.0;

/// Linux's HyStart (Ha and Rhee 2011): ends slow start when a train of ACKs lasts half the smallest RTT, or when the
/// smallest of a round trip's first delays exceeds it by an eighth (4 to 16 ms). Times in µs, modulo 2^32.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HyStart {
    delay_min: u32,
    curr_rtt: u32,
    round_start: u32,
    last_ack: u32,
    end_seq: u32,
    sample_cnt: u8,
    mss: u32,
    /// Of CUBIC: delays are looked at, whether they end slow start or not.
    on: bool,
    ends: bool,
    found: bool,
}

impl HyStart {
    pub fn new(config: &Config) -> HyStart {
        HyStart {
            delay_min: u32::MAX,
            curr_rtt: u32::MAX,
            round_start: 0,
            last_ack: 0,
            end_seq: 0,
            sample_cnt: 0,
            mss: config.mss,
            on: config.cc == Cc::Cubic && config.hystart != Asked::Plus,
            ends: config.hystart == Asked::Linux,
            found: false,
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The smallest RTT in µs; 0 before there is one.
    #[inline]
    pub fn delay_min(&self) -> u32 {
        if self.delay_min == u32::MAX { 0 } else { self.delay_min }
    }

    /// Slow start begins again after a timeout: all is forgotten.
    pub fn restart(&mut self) {
        self.delay_min = u32::MAX;
        self.found = false;
        self.end_seq = 0;
    }

    /// Whether a delay sample says anything.
    #[inline]
    pub fn asks(&self, clock: &Clock, slow_start: bool) -> bool {
        slow_start || clock.rtt_us < self.delay_min
    }

    /// A delay sample; says whether slow start ends now.
    #[inline]
    pub fn ends_slow_start(&mut self, clock: &Clock, slow_start: bool, window: u32) -> bool {
        self.delay_min = self.delay_min.min(clock.rtt_us);
        slow_start && self.ends && !self.found && self.update(clock, window)
    }

    #[inline(never)]
    fn update(&mut self, clock: &Clock, window: u32) -> bool {
        let now = (clock.now.0 / 1000) as u32;
        if clock.snd_una > self.end_seq || self.end_seq == 0 {
            self.round_start = now;
            self.last_ack = now;
            self.end_seq = clock.snd_nxt;
            self.curr_rtt = u32::MAX;
            self.sample_cnt = 0;
        }
        if window < LOW_WINDOW {
            return false;
        }
        if now.wrapping_sub(self.last_ack) <= ACK_DELTA {
            self.last_ack = now;
            // Without pacing half the RTT is the two-way share of a window sent at once.
            let threshold = (self.delay_min + self.ack_delay(clock, window)) / 2;
            self.found |= now.wrapping_sub(self.round_start) > threshold;
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

    /// Linux `hystart_ack_delay`, in µs: what the largest packets take at twice the window each RTT.
    fn ack_delay(&self, clock: &Clock, window: u32) -> u32 {
        let packets = ACK_DELAY_PACKETS * GSO_MAX_SIZE as f64 * 1e6;
        let rate = 2.0 * f64::from(window) * f64::from(self.mss) / clock.srtt.max(1e-6);
        (packets / rate).min(ACK_DELAY) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds one window's ACKs each 100 ms for so many seconds.
    fn run(cubic: &mut Cubic, mut cwnd: f64, from: f64, seconds: f64) -> f64 {
        for round in 0..(seconds * 10.0 + 0.5) as u64 {
            let now = Time((from * 1e9) as u64 + round * 100_000_000);
            for _ in 0..cwnd as u32 {
                cwnd = cubic.increase(cwnd, 1.0, now, 0.1);
            }
        }
        cwnd
    }

    #[test]
    fn the_window_returns_to_w_max_after_k_seconds_and_then_probes() {
        let mut cubic = Cubic::new(true);
        let cwnd = cubic.reduce(1000.0);
        assert!((cwnd - 700.0).abs() < 1e-9);
        // K = cbrt(300 / 0.4) = 9.086 s
        let at_k = run(&mut cubic, cwnd, 1.0, 9.1);
        assert!((at_k - 1000.0).abs() < 3.0, "{at_k}");
        // 5 s later: 0.4 · 125 = 50 more
        let later = run(&mut cubic, at_k, 10.1, 5.0);
        assert!((later - 1050.0).abs() < 5.0, "{later}");
    }

    #[test]
    fn a_second_reduction_below_w_max_releases_bandwidth() {
        let mut cubic = Cubic::new(true);
        cubic.reduce(100.0);
        assert!((cubic.w_max - 100.0).abs() < 1e-9);
        cubic.reduce(80.0);
        assert!((cubic.w_max - 80.0 * 0.85).abs() < 1e-9);
        cubic.reduce(90.0);
        assert!((cubic.w_max - 90.0).abs() < 1e-9);
    }

    #[test]
    fn a_small_window_follows_reno_slower_first_then_as_fast() {
        let mut cubic = Cubic::new(true);
        let cwnd = cubic.reduce(10.0);
        // 0.529 a round trip from 7 to 10: 3 / 0.529 = 5.7 round trips; then 1.
        let after = run(&mut cubic, cwnd, 1.0, 0.5);
        assert!((9.0..10.0).contains(&after), "{after}");
        let much_later = run(&mut cubic, after, 1.5, 1.0);
        assert!((17.5..19.5).contains(&much_later), "{much_later}");
    }

    #[test]
    fn growth_is_at_most_half_a_window_a_round_trip() {
        let mut cubic = Cubic::new(true);
        cubic.reduce(100.0);
        cubic.increase(10.0, 1.0, Time(1_000_000_000), 0.1);
        let cwnd = cubic.increase(10.0, 1.0, Time(1_000_000_000_000), 0.1);
        assert!((cwnd - 10.5).abs() < 1e-9, "{cwnd}");
    }

    #[test]
    fn without_a_w_max_the_window_grows_by_a_twentieth_a_round_trip() {
        let cwnd = run(&mut Cubic::new(true), 1000.0, 1.0, 1.0);
        assert!((cwnd / 1000.0 - 1.05f64.powi(10)).abs() < 0.02, "{cwnd}");
        let cwnd = run(&mut Cubic::new(false), 1000.0, 1.0, 1.0);
        assert!((1009.0..1011.0).contains(&cwnd), "{cwnd}");
    }

    fn feed(hystart: &mut HyStart, now_us: u64, rtt_us: u32, snd_una: u32) -> bool {
        let clock = Clock { now: Time(now_us * 1000), srtt: 0.1, rtt_us, snd_una, snd_nxt: snd_una + 100 };
        hystart.ends_slow_start(&clock, true, 100)
    }

    #[test]
    fn hystart_needs_more_than_eight_samples_above_the_threshold() {
        let mut hystart = HyStart::new(&Config::default());
        // ACKs 3 ms apart are no train. The first round sets the minimum: 80 ms, the threshold is 90.
        assert!(!feed(&mut hystart, 0, 80_000, 1));
        for i in 0..12u64 {
            let ended = feed(&mut hystart, 100_000 + 3_000 * i, 90_001, 102 + i as u32);
            assert_eq!(ended, i >= 8, "{i}");
            if ended {
                return;
            }
        }
    }

    #[test]
    fn hystart_ends_when_a_train_lasts_half_the_rtt() {
        let mut hystart = HyStart::new(&Config::default());
        for i in 0..100u64 {
            let ended = feed(&mut hystart, 1_000 * i, 80_000, 1 + i as u32 / 50);
            assert_eq!(ended, i > 40, "{i}");
            if ended {
                return;
            }
        }
    }
}
