//! CUBIC's growth as Linux computes it, in whole segments and with a clock of jiffies. The result is the number of segments
//! that must be acknowledged for the window to grow by one segment.
//!
//! Facts: `bictcp_update` and the functions around it in Linux 7.3's tcp_cubic.c. Differences from RFC 9438:
//! - Windows and thresholds are rounded down, which matters at windows of a few segments.
//! - While the window does not change, the curve is computed at most 32 times a second.
//! - The target is the curve's value one minimum RTT ahead. In the RFC it is one smoothed RTT ahead.
//! - Where the curve is less than a whole segment above the window, the window grows by only one segment for every hundred
//!   windows that are acknowledged.
//!
//! Deviation: K is an exact cube root (Linux: within 0.2 % on average).

use crate::units::{Span, Time};

/// β and its scale.
const BETA: u32 = 717;
const BETA_SCALE: u32 = 1024;
/// Times of the curve are in 2^-10 s.
const BICTCP_HZ: u32 = 10;
/// C in 2^-10 segments per cubed second: 410/1024 is 0.4. In Linux it is 10 times `bic_scale` (41).
const CUBE_RTT_SCALE: u64 = 410;
/// The window of Reno with this β grows by one segment for this many eighths of a window acknowledged.
const RENO_SCALE: u32 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// While no loss has shown a W_max, the window grows by at least one segment for this many acknowledged segments, which is 5
/// % per round trip.
const PROBE: u32 = 20;
/// Linux: the window grows by at most one segment for this many acknowledged segments.
const FASTEST: u32 = 2;
/// Where the curve is not above the window, the window grows by one segment for every hundred windows acknowledged.
const FLAT: u32 = 100;

/// The fields of Linux's `struct bictcp` that the curve needs. Windows in segments, times in jiffies.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Bictcp {
    /// The number of acknowledged segments for which the window grows by one segment.
    cnt: u32,
    last_max_cwnd: u32,
    /// The window and the time when `cnt` was computed last.
    last_cwnd: u32,
    last_time: u32,
    bic_origin_point: u32,
    bic_k: u32,
    /// When this congestion avoidance stage began; `None` if the next ACK begins it.
    epoch_start: Option<u32>,
    ack_cnt: u32,
    /// The window that Reno would have.
    tcp_cwnd: u32,
    /// Jiffies a second.
    hz: u32,
    /// Until this time the curve is not computed again, unless the window changes.
    rests_until: Time,
}

impl Bictcp {
    pub fn new(hz: u32) -> Bictcp {
        Bictcp {
            cnt: 0,
            last_max_cwnd: 0,
            last_cwnd: 0,
            last_time: 0,
            bic_origin_point: 0,
            bic_k: 0,
            epoch_start: None,
            ack_cnt: 0,
            tcp_cwnd: 0,
            hz: hz.max(1),
            rests_until: Time::ZERO,
        }
    }

    /// One jiffy in ns.
    fn tick(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }

    /// The jiffy of a moment.
    fn jiffy(&self, at: Time) -> u32 {
        (at.0 / self.tick()) as u32
    }

    /// Returns the number of acknowledged segments for which this window grows by one (`bictcp_update`). `delay_min` is the
    /// smallest RTT in µs.
    #[inline]
    pub fn update(&mut self, cwnd: u32, acked: u32, now: Time, delay_min: u32) -> u32 {
        self.ack_cnt = self.ack_cnt.saturating_add(acked);
        if self.last_cwnd == cwnd && now < self.rests_until {
            return self.cnt;
        }
        self.compute(cwnd, acked, self.jiffy(now), delay_min);
        self.cnt
    }

    #[inline(never)]
    fn compute(&mut self, cwnd: u32, acked: u32, jiffy: u32, delay_min: u32) {
        if self.epoch_start.is_none() || jiffy != self.last_time {
            self.last_cwnd = cwnd;
            self.last_time = jiffy;
            let tick = self.tick();
            self.rests_until = Time(u64::from(jiffy + self.hz / 32 + 1) * tick);
            let start = self.epoch_start.unwrap_or_else(|| self.begin(cwnd, acked, jiffy));
            let ahead = (u64::from(delay_min) * 1000).div_ceil(tick);
            self.aim(cwnd, ((u64::from(jiffy - start) + ahead) << BICTCP_HZ) / u64::from(self.hz));
        }
        self.follow_reno(cwnd);
        self.cnt = self.cnt.max(FASTEST);
    }

    /// Begins a congestion avoidance stage (RFC 9438 §4.2). Returns the time of its beginning, which is `jiffy`.
    fn begin(&mut self, cwnd: u32, acked: u32, jiffy: u32) -> u32 {
        self.epoch_start = Some(jiffy);
        self.ack_cnt = acked;
        self.tcp_cwnd = cwnd;
        self.bic_origin_point = cwnd.max(self.last_max_cwnd);
        let below = u64::from(self.bic_origin_point - cwnd);
        let cubed = (1 << (10 + 3 * BICTCP_HZ)) / CUBE_RTT_SCALE * below;
        self.bic_k = libm::cbrt(cubed as f64) as u32;
        jiffy
    }

    /// Sets how fast the window must grow to reach the curve's value at `t`, the time since the stage began, in 2^-10 s (RFC
    /// 9438 §4.2).
    fn aim(&mut self, cwnd: u32, t: u64) {
        let offs = u128::from(t.abs_diff(u64::from(self.bic_k)));
        let delta = (u128::from(CUBE_RTT_SCALE) * offs * offs * offs) >> (10 + 3 * BICTCP_HZ);
        let delta = delta.min(u128::from(u32::MAX)) as u32;
        let target = if t < u64::from(self.bic_k) {
            self.bic_origin_point.saturating_sub(delta)
        } else {
            self.bic_origin_point.saturating_add(delta)
        };
        self.cnt = if target > cwnd { cwnd / (target - cwnd) } else { FLAT.saturating_mul(cwnd) };
        if self.last_max_cwnd == 0 {
            self.cnt = self.cnt.min(PROBE);
        }
    }

    /// Lets the window grow at least as fast as Reno's window would (RFC 9438 §4.3).
    fn follow_reno(&mut self, cwnd: u32) {
        let delta = (cwnd.saturating_mul(RENO_SCALE) >> 3).max(1);
        // As long as more than `delta` segments are counted, `delta` are subtracted and Reno's window grows by one.
        let steps = self.ack_cnt.saturating_sub(1) / delta;
        self.ack_cnt -= steps * delta;
        self.tcp_cwnd = self.tcp_cwnd.saturating_add(steps);
        if self.tcp_cwnd > cwnd {
            self.cnt = self.cnt.min(cwnd / (self.tcp_cwnd - cwnd));
        }
    }

    /// Handles a congestion event and returns the new slow start threshold (`cubictcp_recalc_ssthresh`).
    pub fn reduce(&mut self, cwnd: u32) -> u32 {
        self.epoch_start = None;
        // RFC 9438 §4.7: fast convergence.
        let (cwnd, scale) = (u64::from(cwnd), u64::from(BETA_SCALE));
        self.last_max_cwnd = if cwnd < u64::from(self.last_max_cwnd) {
            (cwnd * (scale + u64::from(BETA)) / (2 * scale)) as u32
        } else {
            cwnd as u32
        };
        ((cwnd * u64::from(BETA) / scale) as u32).max(2)
    }

    /// A retransmission timeout discards everything learned (`bictcp_reset`).
    pub fn reset(&mut self) {
        *self = Bictcp::new(self.hz);
    }

    /// Excludes idle time from the age of the stage (RFC 9438 §5.8).
    pub fn shift(&mut self, now: Time, idle: Span) {
        let jiffy = self.jiffy(now);
        let delta = jiffy - self.jiffy(Time(now.0 - idle.0.min(now.0)));
        self.epoch_start = self.epoch_start.map(|start| (start + delta).min(jiffy));
    }

    /// Returns true in the first second of a stage, during which Linux takes no delay samples.
    #[inline]
    pub fn is_young(&self, now: Time) -> bool {
        self.epoch_start.is_some_and(|start| self.jiffy(now) < start + self.hz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u32 = 250;

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    #[test]
    fn thresholds_are_whole_segments_and_two_at_least() {
        let reduced = |cwnd| Bictcp::new(HZ).reduce(cwnd);
        // 717/1024 of 1000 is 700.2, of 4 is 2.8, of 3 is 2.1.
        assert_eq!([1000, 4, 3, 2, 1].map(reduced), [700, 2, 2, 2, 2]);
    }

    #[test]
    fn a_second_reduction_below_the_first_gives_way() {
        let mut cubic = Bictcp::new(HZ);
        cubic.reduce(100);
        assert_eq!(cubic.last_max_cwnd, 100);
        cubic.reduce(80);
        // 80 · 1741/2048 is 68.007.
        assert_eq!(cubic.last_max_cwnd, 68);
        cubic.reduce(90);
        assert_eq!(cubic.last_max_cwnd, 90);
    }

    /// The curve rises by 300 segments, so K is cbrt(300 · 2^40/410) = 9300 in 1/1024 s, or 9.08 s. After 1 s, with an RTT
    /// of 100 ms, t is 1.1 s. The curve is then 0.4004 · 7.98^3 = 203.7 below 1000, so the target is 797. From 700, the
    /// window grows by one segment for every 7 acknowledged.
    #[test]
    fn the_window_aims_at_the_curve_as_far_ahead_as_the_smallest_rtt() {
        let mut cubic = Bictcp::new(HZ);
        let cwnd = cubic.reduce(1000);
        cubic.update(cwnd, 1, at(10_000), 100_000);
        assert_eq!(cubic.bic_k, 9300);
        assert_eq!(cubic.update(cwnd, 1, at(11_000), 100_000), 700 / (797 - 700));
        // Ten seconds later the curve is above its origin by 0.4004 · 2.017^3 = 3.3 segments.
        assert_eq!(cubic.update(1000, 1, at(21_000), 100_000), 1000 / 3);
    }

    /// From a window of 2 segments and an origin of 3, the target is 3 at once. The window then hardly grows until the curve
    /// is a whole segment above it.
    #[test]
    fn at_a_few_segments_the_curve_is_stairs() {
        let mut cubic = Bictcp::new(HZ);
        assert_eq!(cubic.reduce(3), 2);
        assert_eq!(cubic.update(2, 1, at(1000), 10_000), 2);
        assert_eq!(cubic.update(3, 1, at(1100), 10_000), 300);
        // K = 1.356 s; 0.4004 · t^3 reaches 1 after 1.356 s more.
        assert_eq!(cubic.update(3, 1, at(1000 + 2680), 10_000), 300);
        assert_eq!(cubic.update(3, 1, at(1000 + 2720), 10_000), 3);
    }

    /// Reno's window with β = 0.7 grows by one segment for every 15/8 windows acknowledged: at 10 segments, for every 18
    /// ACKs.
    #[test]
    fn where_reno_would_be_ahead_its_window_is_followed() {
        let mut cubic = Bictcp::new(HZ);
        cubic.reduce(11);
        cubic.reset();
        cubic.last_max_cwnd = 10;
        cubic.update(10, 1, at(1000), 1000);
        assert_eq!(cubic.update(10, 18, at(1040), 1000), 10, "Reno: 11");
        assert_eq!(cubic.tcp_cwnd, 11);
        assert_eq!(cubic.update(10, 18 * 4, at(1080), 1000), 2, "Reno: 15");
    }

    #[test]
    fn while_the_window_stays_the_curve_rests_for_a_thirty_second_of_a_second() {
        let mut cubic = Bictcp::new(HZ);
        cubic.reduce(1000);
        let first = cubic.update(700, 1, at(1000), 100_000);
        // The curve is not computed again for 7 jiffies of 4 ms; the eighth begins at 1032 ms.
        assert_eq!(cubic.update(700, 1, at(1031), 100_000), first);
        assert_ne!(cubic.update(700, 1, at(1032), 100_000), first);
    }

    #[test]
    fn without_a_w_max_the_window_grows_by_a_twentieth_a_round_trip() {
        let mut cubic = Bictcp::new(HZ);
        assert_eq!(cubic.update(1000, 1, at(1000), 100_000), 20);
        assert_eq!(cubic.update(1001, 1, at(1004), 100_000), 20);
    }

    #[test]
    fn a_pause_shifts_the_stage_and_its_first_second_is_young() {
        let mut cubic = Bictcp::new(HZ);
        cubic.update(100, 1, at(1000), 10_000);
        assert!(cubic.is_young(at(1999)) && !cubic.is_young(at(2000)));
        cubic.shift(at(5000), Span::from_millis(3000));
        assert!(cubic.is_young(at(4999)) && !cubic.is_young(at(5000)));
    }
}
