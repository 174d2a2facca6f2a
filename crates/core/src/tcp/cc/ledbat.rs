//! LEDBAT: a scavenger that uses the capacity that other traffic leaves, by keeping the delay that it adds below a target.
//!
//! Source: RFC 6817. Principle: the least delay of the last minutes is the path's own, and any delay above it is queueing delay.
//! Below TARGET the window grows, more slowly as the delay comes nearer, and at most as fast as NewReno's; above TARGET it
//! shrinks. A loss halves it.
//!
//! Deviations:
//! - The delay is the round trip's, while RFC 6817 §2.3 asks for the one-way delay: a queue on the reverse path counts too.
//! - While the window does not limit the sender, no samples are taken, so the window does not shrink either.
//! - §2.4.2 counts each sample of an ACK; here an ACK has one.

use super::cwnd::Cwnd;
use super::ops::{AckSample, Congestion, CongestionControl, Ops, Reduction};
use super::setup::Setup;

/// The target of the queueing delay in µs. RFC 6817 §2.5 allows at most 100 ms.
const TARGET: u32 = 100_000;
/// The gain, which §2.5 limits to 1.
const GAIN: f64 = 1.0;
/// §2.5: by how many segments the window may exceed the segments outstanding.
const ALLOWED_INCREASE: f64 = 1.0;
/// §2.5: the smallest window, in segments. It is also the initial window.
pub(super) const MIN_CWND: f64 = 2.0;
/// §2.5: how many minutes of base delays are kept.
const BASE_HISTORY: usize = 10;
/// §2.4.2: the current delay is the least of this many samples.
const CURRENT_FILTER: usize = 4;
const MINUTE: u64 = 60_000_000_000;

/// LEDBAT's state. Delays are in µs.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Ledbat {
    base_delays: [u32; BASE_HISTORY],
    current_delays: [u32; CURRENT_FILTER],
    /// The minute of the newest base delay.
    minute: u64,
    /// Index in `current_delays` for the next sample.
    next: usize,
}

impl Ledbat {
    /// A connection without samples.
    fn starting() -> Ledbat {
        Ledbat { base_delays: [u32::MAX; BASE_HISTORY], current_delays: [u32::MAX; CURRENT_FILTER], minute: 0, next: 0 }
    }

    /// The window after an ACK of `acked` segments; `cwnd` was the window before it (RFC 6817 §2.4.2).
    #[inline(never)]
    fn increase(&mut self, cwnd: f64, acked: f64, clock: &AckSample) -> f64 {
        self.update_base_delay(clock);
        self.current_delays[self.next] = clock.rtt_us;
        self.next = (self.next + 1) % CURRENT_FILTER;
        let least = |delays: &[u32]| delays.iter().copied().min().unwrap_or(u32::MAX);
        // After a long pause the latest samples may be older than all base delays.
        let queuing_delay = least(&self.current_delays).saturating_sub(least(&self.base_delays));
        let off_target = (f64::from(TARGET) - f64::from(queuing_delay)) / f64::from(TARGET);
        // Segments outstanding before this ACK.
        let flightsize = f64::from(clock.snd_nxt - clock.snd_una) + acked;
        let grown = cwnd + GAIN * off_target * acked / cwnd;
        grown.min(flightsize + ALLOWED_INCREASE).max(MIN_CWND)
    }

    /// Updates the base delays. A minute without samples has none.
    fn update_base_delay(&mut self, clock: &AckSample) {
        let minute = clock.now.0 / MINUTE;
        let passed = (minute - self.minute).min(BASE_HISTORY as u64) as usize;
        self.minute = minute;
        self.base_delays.rotate_left(passed);
        self.base_delays[BASE_HISTORY - passed..].fill(u32::MAX);
        let newest = &mut self.base_delays[BASE_HISTORY - 1];
        *newest = (*newest).min(clock.rtt_us);
    }

    /// §2.4.2: data loss halves the window.
    fn halved(cwnd: f64) -> f64 {
        (cwnd * 0.5).max(MIN_CWND).min(cwnd)
    }
}

impl CongestionControl for Ledbat {
    const OPS: Ops = Ops::named("ledbat");

    fn new(_: &Setup) -> Ledbat {
        Ledbat::starting()
    }

    fn cong_avoid(&mut self, cwnd: &mut Cwnd, acked: u32, ack: &AckSample) {
        if let Some(acked) = cwnd.slow_start_by(f64::from(acked)) {
            cwnd.set(self.increase(cwnd.get(), acked, ack));
        }
    }

    fn ssthresh(&mut self, cwnd: &Cwnd, _: &Congestion) -> Reduction {
        Reduction { from: cwnd.get(), ssthresh: Ledbat::halved(cwnd.get()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    fn clock(seconds: u64, rtt_us: u32) -> AckSample {
        AckSample { now: Time(seconds * 1_000_000_000), srtt: 0.1, rtt_us, snd_una: 100, snd_nxt: 200 }
    }

    /// Returns the window after one ACK of one segment for each of these RTTs, with ten more segments outstanding.
    fn after(ledbat: &mut Ledbat, cwnd: f64, rtts_us: &[u32]) -> f64 {
        rtts_us.iter().fold(cwnd, |cwnd, rtt| ledbat.increase(cwnd, 1.0, &clock(1, *rtt)))
    }

    #[test]
    fn rfc6817_2_5_the_window_grows_as_newrenos_on_an_empty_path() {
        let mut ledbat = Ledbat::starting();
        assert!((after(&mut ledbat, 10.0, &[50_000]) - 10.1).abs() < 1e-12);
    }

    #[test]
    fn rfc6817_2_4_2_it_stands_still_at_the_target_and_shrinks_above_it() {
        let mut ledbat = Ledbat::starting();
        after(&mut ledbat, 10.0, &[50_000]);
        // The least of the last four samples counts.
        assert!(after(&mut ledbat, 10.0, &[150_000; 3]) > 10.0);
        assert_eq!(after(&mut ledbat, 10.0, &[150_000]), 10.0);
        after(&mut ledbat, 10.0, &[250_000; 3]);
        assert!((after(&mut ledbat, 10.0, &[250_000]) - 9.9).abs() < 1e-12);
        assert!((after(&mut ledbat, 10.0, &[100_000; 1]) - 10.05).abs() < 1e-12, "half way to the target");
    }

    #[test]
    fn rfc6817_2_5_the_window_never_falls_below_two_segments() {
        let mut ledbat = Ledbat::starting();
        after(&mut ledbat, 10.0, &[1000]);
        assert_eq!(after(&mut ledbat, 2.0, &[900_000; 40]), MIN_CWND);
        assert_eq!(Ledbat::halved(3.0), 2.0);
        assert_eq!(Ledbat::halved(30.0), 15.0);
        assert_eq!(Ledbat::halved(1.0), 1.0, "min(cwnd, …)");
    }

    #[test]
    fn rfc6817_2_4_2_the_window_is_one_segment_above_what_was_outstanding_at_most() {
        let mut ledbat = Ledbat::starting();
        let few = AckSample { snd_una: 195, ..clock(1, 50_000) };
        assert_eq!(ledbat.increase(40.0, 1.0, &few), 7.0);
    }

    #[test]
    fn rfc6817_2_4_2_base_delays_are_forgotten_after_ten_minutes() {
        let mut ledbat = Ledbat::starting();
        ledbat.increase(10.0, 1.0, &clock(30, 50_000));
        let at = |ledbat: &mut Ledbat, minute: u64| {
            (0..4).fold(10.0, |_, _| ledbat.increase(10.0, 1.0, &clock(30 + 60 * minute, 150_000)))
        };
        assert_eq!(at(&mut ledbat, 9), 10.0, "still 100 ms above the least");
        assert!((at(&mut ledbat, 10) - 10.1).abs() < 1e-12, "a new path");
    }
}
