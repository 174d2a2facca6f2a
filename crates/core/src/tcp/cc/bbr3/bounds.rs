//! §5.5.10: the bounds that losses set. The short-term bounds are lowered once per round while not probing; the long-term
//! bound is found by probing.

use super::{Bbr3, NONE, Phase, State, Undo};
use crate::tcp::cc::flow::{BW_UNIT, Flow};
use crate::tcp::rate::{Loss, RateSample};

/// §5.3.1.3 LossThresh: 2 of 100.
const LOSS_THRESH: (u64, u64) = (2, 100);
/// §5.5.10.2 Beta: 0.7.
const BETA: (u64, u64) = (7, 10);
/// §5.5.9 ExtraAckedFilterLen in round trips.
const EXTRA_ACKED_FILTER_LEN: u32 = 10;

/// Returns whether `lost` segments are too many of the `tx_in_flight` that were in flight.
fn too_many(lost: u32, tx_in_flight: u32) -> bool {
    u64::from(lost) * LOSS_THRESH.1 > u64::from(tx_in_flight) * LOSS_THRESH.0
}

/// Beta times a number of segments.
fn beta(segments: u32) -> u32 {
    (u64::from(segments) * BETA.0 / BETA.1) as u32
}

/// Returns whether half of the delivered segments were marked (Linux's BBRv3 `bbr_ecn_thresh`).
pub(super) fn is_half_marked(sample: &RateSample) -> bool {
    sample.delivered_ce > 0 && sample.delivered.is_some_and(|delivered| 2 * sample.delivered_ce >= delivered)
}

/// `IsInflightTooHigh`.
pub(super) fn is_inflight_too_high(sample: &RateSample) -> bool {
    too_many(sample.lost, sample.tx_in_flight) || is_half_marked(sample)
}

/// `InflightAtLoss`: the segments in flight when the losses crossed the threshold.
fn inflight_at_loss(loss: &Loss) -> u32 {
    let (inflight_prev, lost_prev) = (loss.tx_in_flight.saturating_sub(1), loss.lost.saturating_sub(1));
    let (share, of) = LOSS_THRESH;
    let lost_prefix = (share * u64::from(inflight_prev)).saturating_sub(of * u64::from(lost_prev)) / (of - share);
    inflight_prev + lost_prefix as u32
}

impl Bbr3 {
    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest_delivery_signals(&mut self, flow: &Flow, sample: &RateSample, rate: u64) {
        self.loss_round.is_start = false;
        let Some(delivered) = sample.delivered.filter(|_| sample.interval.is_some()) else { return };
        self.loss_round.bw_latest = self.loss_round.bw_latest.max(rate);
        self.loss_round.inflight_latest = self.loss_round.inflight_latest.max(delivered);
        if sample.prior_delivered >= self.loss_round.delivered {
            self.loss_round.delivered = flow.delivered;
            self.loss_round.is_start = true;
        }
    }

    /// `ResetCongestionSignals`.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_round.has_loss = false;
        (self.loss_round.bw_latest, self.loss_round.inflight_latest) = (0, 0);
    }

    /// `UpdateCongestionSignals`.
    pub(super) fn update_congestion_signals(&mut self, flow: &Flow, sample: &RateSample, rate: u64) {
        self.update_max_bw(flow, sample, rate);
        if self.loss_round.is_start {
            self.adapt_lower_bounds(flow);
            self.loss_round.has_loss = false;
        }
    }

    /// §5.5.1 UpdateRound and §5.5.5 UpdateMaxBw.
    fn update_max_bw(&mut self, flow: &Flow, sample: &RateSample, rate: u64) {
        self.rounds.is_start = false;
        if sample.delivered.is_none() {
            return;
        }
        if sample.prior_delivered >= self.rounds.next_delivered {
            self.start_round(flow);
            self.rounds.count += 1;
            self.probe.rounds_since_up += 1;
            self.rounds.is_start = true;
        }
        if rate > 0 && (rate >= self.max_bw() || !sample.app_limited) {
            self.max_bw_filter[1] = self.max_bw_filter[1].max(rate);
        }
    }

    /// §5.5.6 AdvanceMaxBwFilter: begins a new cycle, unless the current cycle has no samples.
    pub(super) fn advance_max_bw_filter(&mut self) {
        if self.max_bw_filter[1] > 0 {
            self.max_bw_filter = [self.max_bw_filter[1], 0];
        }
    }

    /// `AdaptLowerBoundsFromCongestion`: lowers the short-term bounds after a round with losses, unless the state probes for
    /// bandwidth.
    fn adapt_lower_bounds(&mut self, flow: &Flow) {
        let probing = matches!(self.state(), State::Startup | State::Refill | State::Up);
        if probing || !self.loss_round.has_loss {
            return;
        }
        if self.bounds.bw_shortterm == u64::MAX {
            self.bounds.bw_shortterm = self.max_bw();
        }
        if self.bounds.inflight_shortterm == NONE {
            self.bounds.inflight_shortterm = flow.cwnd;
        }
        self.bounds.bw_shortterm = self.loss_round.bw_latest.max(self.bounds.bw_shortterm * BETA.0 / BETA.1);
        self.bounds.inflight_shortterm = self.loss_round.inflight_latest.max(beta(self.bounds.inflight_shortterm));
    }

    /// `ResetShortTermModel`.
    pub(super) fn reset_short_term_model(&mut self) {
        (self.bounds.bw_shortterm, self.bounds.inflight_shortterm) = (u64::MAX, NONE);
    }

    /// `NoteLoss`.
    pub(super) fn note_loss(&mut self, flow: &Flow) {
        if !self.loss_round.has_loss {
            self.loss_round.delivered = flow.delivered;
            self.save_cwnd(flow.cwnd);
            self.save_state_upon_loss();
        }
        self.loss_round.has_loss = true;
    }

    /// The rest of `HandleLostPacket`: was too much in flight when this segment was sent?
    pub(super) fn judge_loss(&mut self, flow: &Flow, loss: &Loss) {
        if self.probe.is_sample && too_many(loss.lost, loss.tx_in_flight) {
            self.handle_inflight_too_high(flow, inflight_at_loss(loss), loss.app_limited);
        }
    }

    /// `HandleInflightTooHigh`: sets the long-term bound, at most once per probe, and ends Up.
    pub(super) fn handle_inflight_too_high(&mut self, flow: &Flow, tx_in_flight: u32, app_limited: bool) {
        self.probe.prev_too_high = true;
        self.probe.is_sample = false;
        if !app_limited {
            self.bounds.inflight_longterm = tx_in_flight.max(beta(self.target_inflight(flow)));
        }
        if self.state() == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(flow);
        }
    }

    /// §5.5.11.1 SaveStateUponLoss, without the window.
    pub(super) fn save_state_upon_loss(&mut self) {
        self.undo = Undo { state: None, bounds: self.bounds };
    }

    /// §5.5.11.2 HandleSpuriousLossDetection.
    pub(super) fn on_undo(&mut self, flow: &mut Flow) {
        flow.cwnd = flow.cwnd.max(self.restoration.prior_cwnd);
        self.loss_round.has_loss = false;
        self.reset_full_bw();
        let (bounds, before) = (&mut self.bounds, &self.undo.bounds);
        bounds.bw_shortterm = bounds.bw_shortterm.max(before.bw_shortterm);
        bounds.inflight_shortterm = bounds.inflight_shortterm.max(before.inflight_shortterm);
        bounds.inflight_longterm = bounds.inflight_longterm.max(before.inflight_longterm);
        match self.undo.state.take() {
            Some(State::Startup) if self.state() != State::Startup => {
                self.full_pipe.reached = false;
                if self.state() != State::ProbeRtt {
                    self.enter(Phase::Startup);
                }
            }
            Some(State::Up) if !matches!(self.state(), State::Up | State::ProbeRtt) => self.start_refill(flow),
            _ => {}
        }
    }

    /// §5.5.9 UpdateACKAggregation.
    pub(super) fn update_ack_aggregation(&mut self, flow: &Flow, sample: &RateSample) {
        if sample.acked_sacked == 0 {
            return;
        }
        let interval = flow.now.saturating_sub(self.extra_acked.interval_start);
        let mut expected = (self.bw * interval / BW_UNIT) as u32;
        if self.extra_acked.delivered <= expected {
            self.extra_acked.delivered = 0;
            self.extra_acked.interval_start = flow.now;
            expected = 0;
        }
        self.extra_acked.delivered += sample.acked_sacked;
        let extra = (self.extra_acked.delivered - expected).min(flow.cwnd);
        let filter_len = if self.full_pipe.reached { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra_acked.value = self.extra_acked.filter.update(filter_len, self.rounds.count, u64::from(extra)) as u32;
    }
}
