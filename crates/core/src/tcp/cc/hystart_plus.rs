//! HyStart++: slow start that ends when the delay rises, once five rounds have shown that it stays high.
//!
//! Source: RFC 9406. Principle: each round's least RTT is compared with that of the round before. Where it has risen by an
//! eighth (4 to 16 ms), Conservative Slow Start begins, which grows a quarter as fast. If the RTT falls again it was jitter,
//! and slow start goes on; after five rounds congestion avoidance begins.
//!
//! Deviations: the ACK that begins a phase already grows the window by the rule of that phase. In the RFC, the next ACK is
//! the first to do so.

use super::cwnd::Cwnd;
use super::ops::AckSample;

/// RFC 9406 §4.2: in µs.
const MIN_RTT_THRESH: u32 = 4_000;
/// §4.2: in µs.
const MAX_RTT_THRESH: u32 = 16_000;
/// §4.2.
const MIN_RTT_DIVISOR: u32 = 8;
/// §4.2: samples of a round before it is judged.
const N_RTT_SAMPLE: u32 = 8;
/// §4.2: the factor by which Conservative Slow Start grows more slowly.
const CSS_GROWTH_DIVISOR: f64 = 4.0;
/// §4.2: the number of rounds that Conservative Slow Start lasts.
const CSS_ROUNDS: u32 = 5;
/// §4.2: the most segments of an ACK that count, for a sender that does not pace.
const L: f64 = 8.0;
/// No sample yet.
const INFINITY: u32 = u32::MAX;

/// HyStart++'s state. Times are in µs.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct HyStartPlus {
    last_round_min_rtt: u32,
    current_round_min_rtt: u32,
    /// In Conservative Slow Start: the RTT that began it.
    css_baseline_min_rtt: Option<u32>,
    rtt_sample_count: u32,
    /// Rounds of Conservative Slow Start that are over.
    css_rounds: u32,
    /// The round ends when all segments below this number are acknowledged.
    window_end: u32,
}

impl HyStartPlus {
    pub fn new() -> HyStartPlus {
        HyStartPlus {
            last_round_min_rtt: INFINITY,
            current_round_min_rtt: INFINITY,
            css_baseline_min_rtt: None,
            rtt_sample_count: 0,
            css_rounds: 0,
            window_end: 0,
        }
    }

    /// Takes an ACK's RTT sample before the window grows, and may end slow start. Only the initial slow start is judged (RFC
    /// 9406 §4.3).
    #[inline(never)]
    pub fn pkts_acked(&mut self, cwnd: &mut Cwnd, ack: &AckSample) {
        if cwnd.ssthresh().is_infinite() && self.ends_slow_start(ack) {
            cwnd.exit_slow_start();
        }
    }

    /// Slow start for `acked` segments, slower in Conservative Slow Start. Returns the segments left for congestion avoidance.
    pub fn slow_start(&self, cwnd: &mut Cwnd, acked: u32) -> Option<f64> {
        let acked = f64::from(acked);
        let is_initial = cwnd.in_slow_start() && cwnd.ssthresh().is_infinite();
        cwnd.slow_start_by(if is_initial { self.growth(acked) } else { acked })
    }

    /// Takes a sample of the initial slow start; returns whether slow start is over.
    fn ends_slow_start(&mut self, clock: &AckSample) -> bool {
        if clock.snd_una >= self.window_end && self.next_round(clock.snd_nxt) {
            return true;
        }
        self.current_round_min_rtt = self.current_round_min_rtt.min(clock.rtt_us);
        self.rtt_sample_count += 1;
        if self.rtt_sample_count < N_RTT_SAMPLE {
            return false;
        }
        match self.css_baseline_min_rtt {
            // RFC 9406 §4.2: the RTT has risen.
            None if self.last_round_min_rtt != INFINITY => {
                let thresh = (self.last_round_min_rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if self.current_round_min_rtt >= self.last_round_min_rtt.saturating_add(thresh) {
                    self.css_baseline_min_rtt = Some(self.current_round_min_rtt);
                    self.css_rounds = 0;
                }
            }
            // §4.2: it was jitter, slow start resumes.
            Some(baseline) if self.current_round_min_rtt < baseline => self.css_baseline_min_rtt = None,
            _ => {}
        }
        false
    }

    /// Begins the next round. Returns whether the last round of Conservative Slow Start is over. The round in which it began
    /// counts as its first (§4.2).
    fn next_round(&mut self, snd_nxt: u32) -> bool {
        self.window_end = snd_nxt;
        self.last_round_min_rtt = core::mem::replace(&mut self.current_round_min_rtt, INFINITY);
        self.rtt_sample_count = 0;
        self.css_rounds += 1;
        self.css_baseline_min_rtt.is_some() && self.css_rounds >= CSS_ROUNDS
    }

    /// The segments by which an ACK of `acked` segments lets the window grow.
    fn growth(&self, acked: f64) -> f64 {
        let counted = acked.min(L);
        if self.css_baseline_min_rtt.is_some() { counted / CSS_GROWTH_DIVISOR } else { counted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    /// A round of `acks` ACKs at this RTT in ms, one segment each. Returns whether slow start ended.
    fn round(plus: &mut HyStartPlus, acks: u32, rtt_ms: f64) -> bool {
        let start = plus.window_end;
        let ended = (0..acks).map(|i| {
            let clock = AckSample {
                now: Time::ZERO,
                srtt: 0.1,
                rtt_us: (rtt_ms * 1000.0) as u32,
                snd_una: start + i,
                snd_nxt: start + acks,
            };
            plus.ends_slow_start(&clock)
        });
        ended.fold(false, |any, ended| any | ended)
    }

    fn is_conservative(plus: &HyStartPlus) -> bool {
        plus.growth(4.0) == 1.0
    }

    /// Returns whether a round at `to_ms` after one at `from_ms` begins Conservative Slow Start.
    fn rise(from_ms: f64, to_ms: f64) -> bool {
        let mut plus = HyStartPlus::new();
        round(&mut plus, 20, from_ms);
        assert!(!is_conservative(&plus), "a first round has none before it");
        round(&mut plus, 20, to_ms);
        is_conservative(&plus)
    }

    #[test]
    fn rfc9406_4_2_a_rise_of_an_eighth_begins_conservative_slow_start() {
        assert_eq!([rise(80.0, 89.9), rise(80.0, 90.0), rise(80.0, 85.0)], [false, true, false]);
    }

    #[test]
    fn rfc9406_4_2_the_threshold_lies_between_4_and_16_ms() {
        assert_eq!([rise(10.0, 13.9), rise(10.0, 14.0)], [false, true]);
        assert_eq!([rise(400.0, 415.9), rise(400.0, 416.0)], [false, true]);
    }

    #[test]
    fn rfc9406_4_2_eight_samples_judge_a_round() {
        let after = |samples| {
            let mut plus = HyStartPlus::new();
            round(&mut plus, 20, 50.0);
            round(&mut plus, samples, 100.0);
            is_conservative(&plus)
        };
        assert_eq!([after(7), after(8)], [false, true]);
    }

    #[test]
    fn rfc9406_4_2_the_least_rtt_of_a_round_counts() {
        let mut plus = HyStartPlus::new();
        round(&mut plus, 20, 50.0);
        let at = plus.window_end;
        for (i, rtt_us) in [50_000, 90_000, 90_000, 90_000, 90_000, 90_000, 90_000, 90_000, 90_000].iter().enumerate() {
            let clock =
                AckSample { now: Time::ZERO, srtt: 0.1, rtt_us: *rtt_us, snd_una: at + i as u32, snd_nxt: at + 20 };
            plus.ends_slow_start(&clock);
        }
        assert!(!is_conservative(&plus));
    }

    #[test]
    fn rfc9406_4_2_conservative_slow_start_grows_a_quarter_as_fast() {
        let mut plus = HyStartPlus::new();
        assert_eq!([1.0, 2.0, 8.0].map(|acked| plus.growth(acked)), [1.0, 2.0, 8.0]);
        round(&mut plus, 20, 50.0);
        round(&mut plus, 20, 70.0);
        assert_eq!([1.0, 2.0, 8.0].map(|acked| plus.growth(acked)), [0.25, 0.5, 2.0]);
    }

    #[test]
    fn rfc9406_4_2_an_ack_counts_for_eight_segments_at_most_without_pacing() {
        let mut plus = HyStartPlus::new();
        assert_eq!(plus.growth(40.0), 8.0);
        round(&mut plus, 20, 50.0);
        round(&mut plus, 20, 70.0);
        assert_eq!(plus.growth(40.0), 2.0);
    }

    #[test]
    fn rfc9406_4_2_five_rounds_of_it_the_partial_one_counted_end_slow_start() {
        let mut plus = HyStartPlus::new();
        round(&mut plus, 20, 50.0);
        // Conservative Slow Start begins within the first of these rounds.
        for nth in 0..5 {
            assert!(!round(&mut plus, 20, 70.0), "{nth}");
        }
        assert!(round(&mut plus, 20, 70.0));
    }

    #[test]
    fn rfc9406_4_2_a_falling_rtt_resumes_slow_start_and_the_rounds_count_anew() {
        let mut plus = HyStartPlus::new();
        round(&mut plus, 20, 50.0);
        for _ in 0..3 {
            round(&mut plus, 20, 70.0);
        }
        assert!(is_conservative(&plus));
        // This RTT is below the one that began Conservative Slow Start, but not below the RTT of the first round.
        round(&mut plus, 20, 69.9);
        assert!(!is_conservative(&plus));
        round(&mut plus, 20, 90.0);
        assert!(is_conservative(&plus));
        assert_eq!([0; 5].map(|_| round(&mut plus, 20, 90.0)), [false, false, false, false, true]);
    }
}
