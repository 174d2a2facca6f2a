//! The model's estimates from rate samples: the bandwidth, the rate of a policer, and the aggregation of ACKs.

use super::{BITS, BW_RTTS, Bbr, Mode, UNIT};
use crate::tcp::cc::flow::{BW_UNIT, Flow};
use crate::tcp::rate::RateSample;

/// `bbr_lt_intvl_min_rtts`: an interval lasts at least this many round trips. If it does not end within four times as many,
/// sampling starts anew.
const LT_INTVL_MIN_RTTS: u32 = 4;
/// `bbr_lt_loss_thresh`: the interval is lossy if the losses are at least 50/256 of the delivered segments.
const LT_LOSS_THRESH: u64 = 50;
/// `bbr_lt_bw_ratio`: two intervals agree if their rates differ by at most an eighth.
const LT_BW_RATIO: u64 = UNIT / 8;
/// `bbr_lt_bw_diff`: two intervals also agree if their rates differ by at most 4 kbit/s.
const LT_BW_DIFF: u64 = 4000 / 8;
/// `bbr_lt_bw_max_rtts`: the round trips for which a policer's rate is believed.
const LT_BW_MAX_RTTS: u32 = 48;
/// `bbr_extra_acked_win_rtts`: each of the two maxima of ACK aggregation covers this many round trips.
const EXTRA_ACKED_WIN_RTTS: u32 = 5;
/// `bbr_ack_epoch_acked_reset_thresh`: an epoch ends when this many segments have been acknowledged in it.
const ACK_EPOCH_ACKED_RESET_THRESH: u32 = 1 << 20;
/// `bbr_extra_acked_max_us`: the allowance for ACK aggregation is at most what the bandwidth delivers in 100 ms.
const EXTRA_ACKED_MAX: u64 = 100_000;

/// "Long-term" sampling, which detects a policer (token bucket): two successive intervals that are lossy and equally fast
/// show one.
#[derive(Clone, Default, Debug, PartialEq)]
pub(super) struct LongTerm {
    is_sampling: bool,
    use_bw: bool,
    rtt_cnt: u32,
    bw: u64,
    last_delivered: u32,
    last_stamp: u64,
    last_lost: u32,
}

impl LongTerm {
    pub fn new(flow: &Flow) -> LongTerm {
        let mut long_term = LongTerm::default();
        long_term.begin(flow);
        long_term
    }

    /// The policer's rate, while it is believed.
    pub fn bw_in_use(&self) -> Option<u64> {
        self.use_bw.then_some(self.bw)
    }

    /// Begins an interval.
    fn begin(&mut self, flow: &Flow) {
        (self.last_stamp, self.last_delivered, self.last_lost) =
            (flow.delivered_time / 1000, flow.delivered, flow.lost);
        self.rtt_cnt = 0;
    }

    pub fn reset(&mut self, flow: &Flow) {
        *self = LongTerm::new(flow);
    }

    /// Completes an interval whose rate was `bw`. Returns whether a policer is at work.
    fn complete(&mut self, flow: &Flow, bw: u64) -> bool {
        let diff = bw.abs_diff(self.bw);
        let agrees = diff * UNIT <= LT_BW_RATIO * self.bw || flow.rate(diff, UNIT, BITS) <= LT_BW_DIFF;
        if self.bw > 0 && agrees {
            self.bw = (bw + self.bw) >> 1;
            self.use_bw = true;
            self.rtt_cnt = 0;
            return true;
        }
        self.bw = bw;
        self.begin(flow);
        false
    }
}

/// How many more segments than expected were acknowledged in a short time.
#[derive(Clone, Default, Debug, PartialEq)]
pub(super) struct Aggregation {
    epoch_mstamp: u64,
    epoch_acked: u32,
    extra_acked: [u32; 2],
    win_rtts: u32,
    win_idx: usize,
}

impl Aggregation {
    pub fn new(flow: &Flow) -> Aggregation {
        Aggregation { epoch_mstamp: flow.now, ..Aggregation::default() }
    }

    /// Begins a new epoch.
    pub fn restart(&mut self, now: u64) {
        (self.epoch_mstamp, self.epoch_acked) = (now, 0);
    }

    /// `bbr_extra_acked`: the maximum of the last five to ten round trips.
    pub fn extra_acked(&self) -> u32 {
        self.extra_acked[0].max(self.extra_acked[1])
    }
}

impl Bbr {
    /// `bbr_update_bw`: rounds, the policer's rate, and the bandwidth's maximum.
    pub(super) fn update_bw(&mut self, flow: &mut Flow, sample: &RateSample) {
        self.rounds.is_start = false;
        let (Some(delivered), Some(interval)) = (sample.delivered, sample.interval) else { return };
        if sample.prior_delivered >= self.rounds.next_delivered {
            self.rounds.next_delivered = flow.delivered;
            self.rounds.cnt += 1;
            self.rounds.is_start = true;
            self.restoration.packet_conservation = false;
        }
        self.sample_long_term(flow, sample);
        let bw = u64::from(delivered) * BW_UNIT / interval;
        // An application-limited sample counts only if it is above the current maximum.
        if !sample.app_limited || bw >= self.bw.get() {
            self.bw.update(BW_RTTS, self.rounds.cnt, bw);
        }
    }

    /// `bbr_lt_bw_sampling`.
    #[inline(always)]
    pub(super) fn sample_long_term(&mut self, flow: &mut Flow, sample: &RateSample) {
        let lt = &mut self.long_term;
        if lt.use_bw {
            if matches!(self.mode, Mode::ProbeBw(_)) && self.rounds.is_start {
                lt.rtt_cnt += 1;
                if lt.rtt_cnt >= LT_BW_MAX_RTTS {
                    lt.reset(flow);
                    self.enter_probe_bw(flow);
                }
            }
            return;
        }
        // Sampling begins with the first loss, when the policer has spent its tokens.
        if !lt.is_sampling {
            if sample.losses == 0 {
                return;
            }
            lt.begin(flow);
            lt.is_sampling = true;
        }
        if sample.app_limited {
            return lt.reset(flow);
        }
        lt.rtt_cnt += u32::from(self.rounds.is_start);
        if lt.rtt_cnt > 4 * LT_INTVL_MIN_RTTS {
            return lt.reset(flow);
        }
        // An interval ends only with a loss: before a loss, the policer may have tokens left.
        if lt.rtt_cnt < LT_INTVL_MIN_RTTS || sample.losses == 0 {
            return;
        }
        let (lost, delivered) = (flow.lost - lt.last_lost, flow.delivered - lt.last_delivered);
        let ms = (flow.delivered_time / 1000).saturating_sub(lt.last_stamp);
        if delivered == 0 || u64::from(lost) << BITS < LT_LOSS_THRESH * u64::from(delivered) || ms < 1 {
            return;
        }
        if lt.complete(flow, u64::from(delivered) * BW_UNIT / (ms * 1000)) {
            self.pacing_gain = UNIT;
            // The next ACK derives the gain again, even if the policer's rate has been discarded by then.
            self.basis = None;
        }
    }

    /// `bbr_update_ack_aggregation`.
    pub(super) fn update_ack_aggregation(&mut self, flow: &Flow, sample: &RateSample) {
        if sample.acked_sacked == 0 || sample.delivered.is_none() || sample.interval.is_none() {
            return;
        }
        let bw = self.bandwidth();
        let aggregation = &mut self.aggregation;
        if self.rounds.is_start {
            aggregation.win_rtts += 1;
            if aggregation.win_rtts >= EXTRA_ACKED_WIN_RTTS {
                aggregation.win_rtts = 0;
                aggregation.win_idx ^= 1;
                aggregation.extra_acked[aggregation.win_idx] = 0;
            }
        }
        let epoch = flow.delivered_time.saturating_sub(aggregation.epoch_mstamp);
        let mut expected = (bw * epoch / BW_UNIT) as u32;
        // ACKs have come slower than expected: a new epoch.
        let total = aggregation.epoch_acked + sample.acked_sacked;
        if aggregation.epoch_acked <= expected || total >= ACK_EPOCH_ACKED_RESET_THRESH {
            aggregation.restart(flow.delivered_time);
            expected = 0;
        }
        aggregation.epoch_acked += sample.acked_sacked;
        let extra = (aggregation.epoch_acked - expected).min(flow.cwnd);
        let most = &mut aggregation.extra_acked[aggregation.win_idx];
        *most = extra.max(*most);
    }

    /// `bbr_ack_aggregation_cwnd`: the allowance for ACK aggregation in the window.
    pub(super) fn ack_aggregation_cwnd(&self) -> u32 {
        if !self.full_pipe.reached {
            return 0;
        }
        self.aggregation.extra_acked().min((self.bandwidth() * EXTRA_ACKED_MAX / BW_UNIT) as u32)
    }
}
