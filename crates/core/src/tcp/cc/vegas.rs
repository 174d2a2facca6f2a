//! Vegas: a sender that keeps a few packets in the queue and estimates their number from the RTT.
//!
//! Source: Brakmo and Peterson 1995, in the version of Linux's tcp_vegas.
//! Principle: once per round trip, the smallest RTT of this round trip is compared with the smallest RTT ever seen
//! (base). The estimated number of queued segments is `cwnd·(RTT - base)/base`. Below alpha the window grows by one
//! segment, above beta it shrinks by one, and above gamma slow start ends. After a round trip with fewer than three RTT
//! samples, and during loss recovery, the window follows Reno.
//!
//! Deviations: in slow start a window that is not fully used does not grow, as with all algorithms here (in Linux,
//! Vegas's window grows).

use super::cwnd::Cwnd;
use super::ops::{AckSample, Congestion, CongestionControl, Ops, Reduction};
use super::reno;
use super::setup::Setup;
use crate::units::{Span, Time};

/// The fewest segments to keep in the queue (Linux `alpha`).
const ALPHA: u64 = 2;
/// The most segments to keep in the queue (Linux `beta`).
const BETA: u64 = 4;
/// More segments than this in the queue end slow start (Linux `gamma`).
const GAMMA: u64 = 1;
/// Linux: with no more samples than this, a round trip may have had only delayed ACKs.
const FEW_SAMPLES: u32 = 2;
/// Linux: the smallest window.
const MIN_CWND: u32 = 2;

/// Vegas's state. RTTs are in µs.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Vegas {
    base_rtt: u32,
    /// The smallest RTT of this round trip, and the number of its samples.
    min_rtt: u32,
    cnt_rtt: u32,
    /// The round trip ends when `snd_una` exceeds this number.
    beg_snd_nxt: u32,
    doing_vegas_now: bool,
    /// The window grows with this ACK as Reno's would.
    as_reno: bool,
}

impl Vegas {
    /// The state of a connection that has measured nothing.
    fn starting() -> Vegas {
        Vegas {
            base_rtt: u32::MAX,
            min_rtt: u32::MAX,
            cnt_rtt: 0,
            beg_snd_nxt: 0,
            doing_vegas_now: false,
            as_reno: true,
        }
    }

    /// Follows Reno during the recovery that begins now (`vegas_disable`).
    fn disable(&mut self) {
        (self.doing_vegas_now, self.as_reno) = (false, true);
    }

    fn begin_round(&mut self, clock: &AckSample) {
        (self.min_rtt, self.cnt_rtt, self.beg_snd_nxt) = (u32::MAX, 0, clock.snd_nxt);
    }

    /// Handles an ACK outside of loss recovery. Returns the new window and threshold, if the ACK sets them.
    #[inline(never)]
    fn on_ack(&mut self, clock: &AckSample, cwnd: u32, ssthresh: u32) -> Option<(u32, u32)> {
        if !self.doing_vegas_now {
            // Linux `vegas_enable`: measurements from before the recovery are stale.
            self.doing_vegas_now = true;
            self.begin_round(clock);
        }
        let rtt = clock.rtt_us + 1;
        self.base_rtt = self.base_rtt.min(rtt);
        self.min_rtt = self.min_rtt.min(rtt);
        self.cnt_rtt += 1;
        let slow_start = cwnd < ssthresh;
        self.as_reno = slow_start;
        if clock.snd_una <= self.beg_snd_nxt {
            return None;
        }
        let (rtt, samples) = (self.min_rtt, self.cnt_rtt);
        self.begin_round(clock);
        if samples <= FEW_SAMPLES {
            self.as_reno = true;
            return None;
        }
        let (base, cwnd) = (u64::from(self.base_rtt), u64::from(cwnd));
        let target = cwnd * base / u64::from(rtt);
        let diff = cwnd * u64::from(rtt - self.base_rtt) / base;
        let (next, lowered) = match diff {
            _ if slow_start && diff <= GAMMA => return None,
            // Linux adds one to the target, which is rounded down.
            _ if slow_start => (cwnd.min(target + 1), true),
            _ if diff > BETA => (cwnd - 1, true),
            _ if diff < ALPHA => (cwnd + 1, false),
            _ => (cwnd, false),
        };
        self.as_reno = false;
        let next = (next as u32).max(MIN_CWND);
        let ssthresh = if lowered { ssthresh.min(next) } else { ssthresh };
        // Linux `tcp_current_ssthresh`.
        Some((next, ssthresh.max(next / 2 + next / 4)))
    }
}

impl CongestionControl for Vegas {
    const OPS: Ops = Ops { in_linux: true, ..Ops::named("vegas") };

    fn new(_: &Setup) -> Vegas {
        Vegas::starting()
    }

    #[inline]
    fn pkts_acked(&mut self, cwnd: &mut Cwnd, ack: &AckSample) {
        if let Some((window, ssthresh)) = self.on_ack(ack, cwnd.whole(), cwnd.ssthresh() as u32) {
            if ssthresh != u32::MAX {
                cwnd.set_ssthresh(f64::from(ssthresh));
            }
            cwnd.set_whole(window);
        }
    }

    #[inline]
    fn cong_avoid(&mut self, cwnd: &mut Cwnd, acked: u32, _: &AckSample) {
        if self.as_reno {
            cwnd.reno_cong_avoid(acked);
        }
    }

    fn ssthresh(&mut self, cwnd: &Cwnd, event: &Congestion) -> Reduction {
        self.disable();
        Reduction { from: event.flight, ssthresh: cwnd.floor(reno::ssthresh(event.flight)) }
    }

    fn on_tx_start(&mut self, _: Time, _: Span) {
        // Linux: after a pause the base RTT is measured again.
        *self = Vegas::starting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    fn clock(rtt_ms: u32, snd_una: u32, snd_nxt: u32) -> AckSample {
        AckSample { now: Time::ZERO, srtt: 0.1, rtt_us: 1000 * rtt_ms, snd_una, snd_nxt }
    }

    /// Plays a round trip of three ACKs at this RTT, after a base RTT of 100 ms.
    fn round(cwnd: u32, ssthresh: u32, rtt_ms: u32) -> (Vegas, Option<(u32, u32)>) {
        let mut vegas = Vegas::starting();
        assert_eq!(vegas.on_ack(&clock(100, 1, 100), cwnd, ssthresh), None);
        vegas.begin_round(&clock(100, 1, 100));
        assert_eq!(vegas.on_ack(&clock(rtt_ms, 50, 150), cwnd, ssthresh), None);
        assert_eq!(vegas.on_ack(&clock(rtt_ms + 7, 100, 200), cwnd, ssthresh), None);
        let after = vegas.on_ack(&clock(rtt_ms, 101, 201), cwnd, ssthresh);
        (vegas, after)
    }

    /// The windows, thresholds and RTTs of ns-3's test of Vegas, with the results of Linux's integer arithmetic. In the last
    /// case ns-3 rounds 1.8 segments up to 2, so its window does not change. Its threshold after slow start is one less than
    /// here.
    #[test]
    fn the_vectors_of_ns_3_with_linux_s_rounding() {
        let vectors = [
            ((38, 40, 106), Some((36, 36))),
            ((5, 10, 118), None),
            ((60, 40, 206), Some((59, 43))),
            ((15, 10, 106), Some((16, 12))),
            ((20, 10, 109), Some((21, 15))),
        ];
        for ((cwnd, ssthresh, rtt_ms), expected) in vectors {
            let (vegas, after) = round(cwnd, ssthresh, rtt_ms);
            assert_eq!(after, expected, "{cwnd} {ssthresh} {rtt_ms}");
            assert_eq!(vegas.as_reno, expected.is_none(), "slow start goes on as Reno's");
        }
    }

    #[test]
    fn the_window_stays_between_alpha_and_beta_packets_in_the_queue() {
        // With 20 segments in flight, each 5 ms above the base RTT mean that one of them waits in the queue.
        let after = [109, 111, 120, 125].map(|rtt_ms| round(20, 10, rtt_ms).1.map(|(cwnd, _)| cwnd));
        assert_eq!(after, [Some(21), Some(20), Some(20), Some(20)]);
        assert_eq!(round(20, 10, 126).1, Some((19, 13)));
    }

    #[test]
    fn slow_start_ends_above_gamma() {
        assert_eq!([round(20, u32::MAX, 109).1, round(20, u32::MAX, 111).1], [None, Some((19, 19))]);
    }

    #[test]
    fn a_round_trip_of_two_samples_is_reno_s() {
        let mut vegas = Vegas::starting();
        vegas.on_ack(&clock(100, 1, 100), 20, 10);
        assert!(!vegas.as_reno);
        assert_eq!(vegas.on_ack(&clock(100, 101, 201), 20, 10), None);
        assert!(vegas.as_reno);
    }

    #[test]
    fn after_a_repair_the_first_round_trip_is_only_watched() {
        let (mut vegas, _) = round(20, 10, 100);
        vegas.disable();
        assert!(vegas.as_reno);
        for snd_una in 300..310 {
            assert_eq!(vegas.on_ack(&clock(200, snd_una, 320), 20, 10), None);
        }
        assert!(!vegas.as_reno);
        assert_eq!(vegas.on_ack(&clock(200, 321, 340), 20, 10), Some((19, 13)));
    }

    #[test]
    fn the_window_never_falls_below_two() {
        assert_eq!(round(2, 2, 900).1, Some((2, 2)));
    }
}
