//! HyStart, as Linux's CUBIC has it (Ha and Rhee 2011): ends slow start before the queue overflows.

use super::cwnd::Cwnd;
use super::ops::AckSample;
use super::setup::{HyStart as Setting, Setup};
use crate::tcp::pacing::GSO_MAX_SIZE;

/// HyStart acts from this window on, in segments (`hystart_low_window`).
const LOW_WINDOW: u32 = 16;
/// ACKs closer than this, in µs, belong to one train (`hystart_ack_delta_us`).
const ACK_DELTA: u32 = 2_000;
/// Delay samples of a round trip before it is judged (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u8 = 8;
/// The longest delay, in µs, that offloads are assumed to add to a train of ACKs (`hystart_ack_delay`).
const ACK_DELAY: f64 = 1_000.0;
/// The assumed delay is at most the time that this many packets of the largest size take at the pacing rate.
const ACK_DELAY_PACKETS: f64 = 4.0;

/// HyStart's state. Slow start ends when a train of ACKs lasts longer than half the smallest RTT, or when the smallest RTT
/// of a round trip exceeds the smallest RTT ever by an eighth (4 to 16 ms). Times are in µs, modulo 2^32; names are Linux's
/// (`struct bictcp`).
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct HyStart {
    /// The smallest RTT; `u32::MAX` before the first sample.
    delay_min: u32,
    /// The smallest RTT of this round trip.
    curr_rtt: u32,
    /// When this round trip began.
    round_start: u32,
    /// When the last ACK of the train arrived.
    last_ack: u32,
    /// The round trip ends when `snd_una` exceeds this number.
    end_seq: u32,
    /// Delay samples of this round trip.
    sample_cnt: u8,
    /// Payload bytes of a full segment.
    mss: u32,
    /// HyStart may end slow start. Otherwise it only measures `delay_min`, which CUBIC needs.
    is_enabled: bool,
    /// It has ended slow start.
    found: bool,
}

impl HyStart {
    pub fn new(setup: &Setup) -> HyStart {
        HyStart {
            delay_min: u32::MAX,
            curr_rtt: u32::MAX,
            round_start: 0,
            last_ack: 0,
            end_seq: 0,
            sample_cnt: 0,
            mss: setup.mss,
            is_enabled: setup.hystart == Setting::Linux,
            found: false,
        }
    }

    /// The smallest RTT in µs; 0 before the first sample.
    #[inline]
    pub fn delay_min(&self) -> u32 {
        if self.delay_min == u32::MAX { 0 } else { self.delay_min }
    }

    /// Starts again for the slow start that follows a timeout.
    pub fn reset(&mut self) {
        self.delay_min = u32::MAX;
        self.found = false;
        self.end_seq = 0;
    }

    /// A delay sample (`cubictcp_acked`), which may end slow start. `is_young` says whether samples are to be ignored.
    #[inline]
    pub fn pkts_acked(&mut self, cwnd: &mut Cwnd, ack: &AckSample, is_young: impl FnOnce() -> bool) {
        let in_slow_start = cwnd.in_slow_start();
        let is_useful = in_slow_start || ack.rtt_us < self.delay_min;
        if is_useful && !is_young() && self.ends_slow_start(ack, in_slow_start, cwnd.whole()) {
            cwnd.exit_slow_start();
        }
    }

    /// Takes a delay sample; returns whether slow start ends now.
    #[inline]
    fn ends_slow_start(&mut self, ack: &AckSample, in_slow_start: bool, window: u32) -> bool {
        self.delay_min = self.delay_min.min(ack.rtt_us);
        in_slow_start && self.is_enabled && !self.found && self.update(ack, window)
    }

    /// `hystart_update`.
    #[inline(never)]
    fn update(&mut self, ack: &AckSample, window: u32) -> bool {
        let now = (ack.now.0 / 1000) as u32;
        if ack.snd_una > self.end_seq || self.end_seq == 0 {
            self.round_start = now;
            self.last_ack = now;
            self.end_seq = ack.snd_nxt;
            self.curr_rtt = u32::MAX;
            self.sample_cnt = 0;
        }
        if window < LOW_WINDOW {
            return false;
        }
        if now.wrapping_sub(self.last_ack) <= ACK_DELTA {
            self.last_ack = now;
            // Linux takes half of the sum if the sender does not pace.
            let threshold = (self.delay_min + self.ack_delay(ack, window)) / 2;
            self.found |= now.wrapping_sub(self.round_start) > threshold;
        }
        self.curr_rtt = self.curr_rtt.min(ack.rtt_us);
        if self.sample_cnt < MIN_SAMPLES {
            self.sample_cnt += 1;
        } else {
            let threshold = (self.delay_min / 8).clamp(4_000, 16_000);
            self.found |= self.curr_rtt > self.delay_min.saturating_add(threshold);
        }
        self.found
    }

    /// `hystart_ack_delay` in µs: the time that the largest packets take at a pacing rate of two windows each RTT.
    fn ack_delay(&self, ack: &AckSample, window: u32) -> u32 {
        let packets = ACK_DELAY_PACKETS * GSO_MAX_SIZE as f64 * 1e6;
        let rate = 2.0 * f64::from(window) * f64::from(self.mss) / ack.srtt.max(1e-6);
        (packets / rate).min(ACK_DELAY) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    fn feed(hystart: &mut HyStart, now_us: u64, rtt_us: u32, snd_una: u32) -> bool {
        let clock = AckSample { now: Time(now_us * 1000), srtt: 0.1, rtt_us, snd_una, snd_nxt: snd_una + 100 };
        hystart.ends_slow_start(&clock, true, 100)
    }

    #[test]
    fn hystart_needs_more_than_eight_samples_above_the_threshold() {
        let mut hystart = HyStart::new(&crate::tcp::cc::setup(&crate::tcp::Config::default()));
        // ACKs 3 ms apart are no train. The first round sets the minimum to 80 ms, so the threshold is 90 ms.
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
        let mut hystart = HyStart::new(&crate::tcp::cc::setup(&crate::tcp::Config::default()));
        for i in 0..100u64 {
            let ended = feed(&mut hystart, 1_000 * i, 80_000, 1 + i as u32 / 50);
            assert_eq!(ended, i > 40, "{i}");
            if ended {
                return;
            }
        }
    }
}
