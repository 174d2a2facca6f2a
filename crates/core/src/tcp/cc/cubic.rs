//! CUBIC (RFC 9438): the window is a cubic function of the time since the last congestion event.
//!
//! After a reduction the window grows along the cubic: fast towards the window of the last loss, flat around it, then ever
//! faster. Where Reno would be ahead, CUBIC follows Reno's window. The curve is a function of real time, so growth does not
//! depend on the RTT.
//!
//! Windows in whole segments grow as in Linux (`bictcp.rs`). Windows with fractions grow as in the RFC (this file).
//!
//! Deviations: the threshold is computed from cwnd, as in Linux, and not from the flight size (RFC 9438 §4.6 allows this if
//! cwnd is validated). If HyStart ended slow start before a loss, the window grows by at least 5 % per round trip, as in
//! Linux. The RFC's cubic would begin at its plateau, where the window hardly grows.

use super::bictcp::Bictcp;
use super::cwnd::Cwnd;
use super::hystart::HyStart;
use super::hystart_plus::HyStartPlus;
use super::ops::{AckSample, Congestion, CongestionControl, Ops, Reduction};
use super::setup::{HyStart as Setting, Setup};
use crate::units::{Span, Time};
use alloc::boxed::Box;

/// CUBIC's state: the curve of congestion avoidance, and the algorithm that ends slow start.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) enum Cubic {
    /// In whole segments, as Linux.
    Linux { curve: Bictcp, hystart: HyStart },
    /// In fractions of a segment, with Linux's HyStart.
    Rfc { curve: Curve, hystart: HyStart },
    /// In fractions of a segment, with HyStart++ (RFC 9406).
    RfcPlus { curve: Curve, hystart: Box<HyStartPlus> },
}

impl CongestionControl for Cubic {
    const OPS: Ops = Ops { in_linux: true, ..Ops::named("cubic") };

    fn new(setup: &Setup) -> Cubic {
        // RFC 9438 §4.10: after HyStart++, the cubic begins at its plateau.
        let curve = Curve::new(setup.hystart == Setting::Linux);
        match setup.hystart {
            Setting::Plus => Cubic::RfcPlus { curve, hystart: Box::new(HyStartPlus::new()) },
            _ if setup.is_whole => Cubic::Linux { curve: Bictcp::new(setup.hz), hystart: HyStart::new(setup) },
            _ => Cubic::Rfc { curve, hystart: HyStart::new(setup) },
        }
    }

    #[inline]
    fn pkts_acked(&mut self, cwnd: &mut Cwnd, ack: &AckSample) {
        match self {
            Cubic::Linux { curve, hystart } => hystart.pkts_acked(cwnd, ack, || curve.is_young(ack.now)),
            Cubic::Rfc { hystart, .. } => hystart.pkts_acked(cwnd, ack, || false),
            Cubic::RfcPlus { hystart, .. } => hystart.pkts_acked(cwnd, ack),
        }
    }

    #[inline]
    fn cong_avoid(&mut self, cwnd: &mut Cwnd, acked: u32, ack: &AckSample) {
        match self {
            Cubic::Linux { curve, hystart } => {
                let Some(acked) = cwnd.slow_start(acked) else { return };
                let every = curve.update(cwnd.whole(), acked, ack.now, hystart.delay_min());
                cwnd.cong_avoid_ai(every, acked);
            }
            Cubic::Rfc { curve, .. } => {
                let Some(acked) = cwnd.slow_start_by(f64::from(acked)) else { return };
                cwnd.set(curve.increase(cwnd.get(), acked, ack.now, ack.srtt));
            }
            Cubic::RfcPlus { curve, hystart } => {
                let Some(acked) = hystart.slow_start(cwnd, acked) else { return };
                cwnd.set(curve.increase(cwnd.get(), acked, ack.now, ack.srtt));
            }
        }
    }

    fn ssthresh(&mut self, cwnd: &Cwnd, _: &Congestion) -> Reduction {
        let ssthresh = match self {
            Cubic::Linux { curve, .. } => f64::from(curve.reduce(cwnd.whole())),
            Cubic::Rfc { curve, .. } | Cubic::RfcPlus { curve, .. } => curve.reduce(cwnd.get()),
        };
        Reduction { from: cwnd.get(), ssthresh }
    }

    fn on_loss_timeout(&mut self) {
        match self {
            Cubic::Linux { curve, hystart } => {
                curve.reset();
                hystart.reset();
            }
            Cubic::Rfc { curve, hystart } => {
                curve.timeout();
                hystart.reset();
            }
            Cubic::RfcPlus { curve, .. } => curve.timeout(),
        }
    }

    fn on_tx_start(&mut self, now: Time, idle: Span) {
        match self {
            Cubic::Linux { curve, .. } => curve.shift(now, idle),
            Cubic::Rfc { curve, .. } | Cubic::RfcPlus { curve, .. } => curve.shift(now, idle),
        }
    }
}

/// RFC 9438 §5: C, in segments per second cubed.
const C: f64 = 0.4;
/// RFC 9438 §4.6: the multiplicative decrease factor.
const BETA: f64 = 0.7;
/// RFC 9438 §4.3: 3·(1 - β)/(1 + β), Reno's increase for this β.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Linux: growth per round trip while no loss has shown a W_max.
const PROBE: f64 = 1.05;

/// The curve of RFC 9438, under its names. Windows are in segments, times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Curve {
    /// When this congestion avoidance stage began; [`Time::NEVER`] if it begins with the next ACK.
    epoch: Time,
    /// W_max: the window before the last reduction, or a smaller one because of fast convergence.
    w_max: f64,
    /// K: how long the curve takes to return to W_max.
    k: f64,
    /// W_est: the window that Reno would have.
    w_est: f64,
    /// The window before the last reduction.
    cwnd_prior: f64,
    /// No loss has shown a W_max yet.
    probing: bool,
    /// Whether the window grows by at least [`PROBE`] per round trip while `probing`.
    probe: bool,
}

impl Curve {
    /// The curve of a connection that has seen no loss. With `probe`, the window grows by at least [`PROBE`] per round trip
    /// until the first loss.
    pub fn new(probe: bool) -> Curve {
        Curve { epoch: Time::NEVER, w_max: 0.0, k: 0.0, w_est: 0.0, cwnd_prior: 0.0, probing: true, probe }
    }

    /// Returns the window after an ACK of `acked` segments in congestion avoidance.
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

    /// Begins a congestion avoidance stage (RFC 9438 §4.2).
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

    /// Handles a congestion event and returns the new slow start threshold.
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

    /// Excludes idle time from the age of the stage (RFC 9438 §5.8).
    pub fn shift(&mut self, now: Time, idle: Span) {
        if self.epoch != Time::NEVER {
            self.epoch = (self.epoch + idle).min(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds one window's ACKs each 100 ms for `seconds` seconds.
    fn run(cubic: &mut Curve, mut cwnd: f64, from: f64, seconds: f64) -> f64 {
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
        let mut cubic = Curve::new(true);
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
        let mut cubic = Curve::new(true);
        cubic.reduce(100.0);
        assert!((cubic.w_max - 100.0).abs() < 1e-9);
        cubic.reduce(80.0);
        assert!((cubic.w_max - 80.0 * 0.85).abs() < 1e-9);
        cubic.reduce(90.0);
        assert!((cubic.w_max - 90.0).abs() < 1e-9);
    }

    #[test]
    fn a_small_window_follows_reno_slower_first_then_as_fast() {
        let mut cubic = Curve::new(true);
        let cwnd = cubic.reduce(10.0);
        // 0.529 a round trip from 7 to 10: 3 / 0.529 = 5.7 round trips; then 1.
        let after = run(&mut cubic, cwnd, 1.0, 0.5);
        assert!((9.0..10.0).contains(&after), "{after}");
        let much_later = run(&mut cubic, after, 1.5, 1.0);
        assert!((17.5..19.5).contains(&much_later), "{much_later}");
    }

    #[test]
    fn growth_is_at_most_half_a_window_a_round_trip() {
        let mut cubic = Curve::new(true);
        cubic.reduce(100.0);
        cubic.increase(10.0, 1.0, Time(1_000_000_000), 0.1);
        let cwnd = cubic.increase(10.0, 1.0, Time(1_000_000_000_000), 0.1);
        assert!((cwnd - 10.5).abs() < 1e-9, "{cwnd}");
    }

    #[test]
    fn without_a_w_max_the_window_grows_by_a_twentieth_a_round_trip() {
        let cwnd = run(&mut Curve::new(true), 1000.0, 1.0, 1.0);
        assert!((cwnd / 1000.0 - 1.05f64.powi(10)).abs() < 0.02, "{cwnd}");
        let cwnd = run(&mut Curve::new(false), 1000.0, 1.0, 1.0);
        assert!((1009.0..1011.0).contains(&cwnd), "{cwnd}");
    }
}
