//! §5.3.3 ProbeBW. DOWN sends more slowly, to drain the queue. CRUISE sends at the estimated bandwidth, for two to
//! three seconds or as long as Reno would take. REFILL fills the pipe for one round trip. UP sends faster, until the
//! bandwidth stops growing or 2 % of the segments are lost.

use super::bounds::is_inflight_too_high;
use super::{AckPhase, Bbr3, MIN_PIPE_CWND, NONE, Phase, State, UNIT};
use crate::tcp::cc::flow::Flow;
use crate::tcp::rate::RateSample;

/// §5.3.3.1 Headroom: 0.15.
const HEADROOM: (u64, u64) = (15, 100);
/// §5.3.3.8 T_bbr: 2 s, and up to 1 s more.
const PROBE_WAIT_BASE: u64 = 2_000_000;
const PROBE_WAIT_RAND: f64 = 1e6;
/// §5.3.3.8 T_reno_bound: 62 or 63 round trips.
const RENO_ROUNDS: u32 = 63;
/// §5.3.3.9 RaiseInflightLongtermSlope: the slope doubles at most this often.
const UP_ROUNDS: u32 = 30;

impl Bbr3 {
    /// `StartProbeBW_DOWN`, also from Drain.
    pub(super) fn start_down(&mut self, flow: &Flow) {
        self.reset_congestion_signals();
        self.probe.up_acked_per_inc = NONE;
        // PickProbeWait
        self.probe.rounds_since_up = self.rng.next_u32_below(2);
        self.probe.wait = PROBE_WAIT_BASE + (self.rng.uniform() * PROBE_WAIT_RAND) as u64;
        self.probe.cycle_stamp = flow.now;
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.start_round(flow);
        self.enter(Phase::Down);
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_refill(&mut self, flow: &Flow) {
        self.reset_short_term_model();
        (self.probe.up_rounds, self.probe.up_acked) = (0, 0);
        self.probe.prev_precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.start_round(flow);
        self.enter(Phase::Refill);
    }

    /// `StartProbeBW_UP`.
    fn start_up(&mut self, flow: &Flow, rate: u64) {
        self.probe.ack_phase = AckPhase::ProbeStarting;
        self.start_round(flow);
        self.reset_full_bw();
        self.full_pipe.bw = rate;
        self.enter(Phase::Up);
        self.raise_inflight_longterm_slope(flow);
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_probe_bw_cycle_phase(&mut self, flow: &Flow, sample: &RateSample, rate: u64) {
        if !self.full_pipe.reached || self.adapt_long_term_model(flow, sample) {
            return;
        }
        match self.state() {
            State::Down | State::Cruise if self.is_time_to_probe_bw(flow) => self.start_refill(flow),
            State::Down if self.is_time_to_cruise(flow) => self.enter(Phase::Cruise),
            State::Refill if self.rounds.is_start => {
                self.probe.is_sample = true;
                self.start_up(flow, rate);
            }
            State::Up if self.is_time_to_go_down(flow, rate) => {
                // No high loss so far.
                self.probe.prev_too_high = false;
                self.start_down(flow);
            }
            _ => {}
        }
    }

    /// `IsTimeToProbeBW`: by the clock, or after as many rounds as Reno needs to grow by the segments in flight.
    fn is_time_to_probe_bw(&self, flow: &Flow) -> bool {
        flow.now > self.probe.cycle_stamp + self.probe.wait
            || self.probe.rounds_since_up >= self.target_inflight(flow).min(RENO_ROUNDS)
    }

    /// `IsTimeToCruise`.
    fn is_time_to_cruise(&self, flow: &Flow) -> bool {
        flow.in_flight <= self.inflight_with_headroom() && flow.in_flight <= self.inflight(flow, self.max_bw(), UNIT)
    }

    /// `IsTimeToGoDown`.
    fn is_time_to_go_down(&mut self, flow: &Flow, rate: u64) -> bool {
        if self.probe.prev_too_high && flow.in_flight >= self.bounds.inflight_longterm {
            // §5.3.3.6: this much data in flight was too much in the previous probe.
            self.probe.prev_precautionary = true;
            return true;
        }
        if flow.cwnd_limited && flow.cwnd >= self.bounds.inflight_longterm {
            // The long-term bound, and not the path, limits the bandwidth.
            self.reset_full_bw();
            self.full_pipe.bw = rate;
            return false;
        }
        self.full_pipe.now
    }

    /// `InflightWithHeadroom`: leaves a part of the capacity to others.
    pub(super) fn inflight_with_headroom(&self) -> u32 {
        if self.bounds.inflight_longterm == NONE {
            return NONE;
        }
        let headroom = (u64::from(self.bounds.inflight_longterm) * HEADROOM.0 / HEADROOM.1).max(1) as u32;
        self.bounds.inflight_longterm.saturating_sub(headroom).max(MIN_PIPE_CWND)
    }

    /// `TargetInflight`.
    pub(super) fn target_inflight(&self, flow: &Flow) -> u32 {
        self.bdp_multiple(self.bw, UNIT).min(flow.cwnd)
    }

    /// `RaiseInflightLongtermSlope`: 1, 2, 4, … segments a round trip.
    fn raise_inflight_longterm_slope(&mut self, flow: &Flow) {
        let growth_this_round = 1 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(UP_ROUNDS);
        self.probe.up_acked_per_inc = (flow.cwnd / growth_this_round).max(1);
    }

    /// `ProbeInflightLongtermUpward`: only if the bound is fully used.
    fn probe_inflight_longterm_upward(&mut self, flow: &Flow, sample: &RateSample) {
        if !flow.cwnd_limited || flow.cwnd < self.bounds.inflight_longterm {
            return;
        }
        self.probe.up_acked += sample.acked_sacked;
        let delta = self.probe.up_acked / self.probe.up_acked_per_inc;
        self.probe.up_acked -= delta * self.probe.up_acked_per_inc;
        self.bounds.inflight_longterm = self.bounds.inflight_longterm.saturating_add(delta);
        if self.rounds.is_start {
            self.raise_inflight_longterm_slope(flow);
        }
    }

    /// `AdaptLongTermModel`. Returns whether it decided a transition.
    fn adapt_long_term_model(&mut self, flow: &Flow, sample: &RateSample) -> bool {
        if self.probe.ack_phase == AckPhase::ProbeStarting && self.rounds.is_start {
            self.probe.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.probe.ack_phase == AckPhase::ProbeStopping && self.rounds.is_start {
            self.probe.is_sample = false;
            self.probe.ack_phase = AckPhase::Init;
            if self.state().is_probe_bw() && !sample.app_limited {
                self.advance_max_bw_filter();
            }
            if self.state().is_probe_bw() && self.probe.prev_precautionary && !self.probe.prev_too_high {
                // §5.3.3.6: the cautious probe lost little, so another probe follows at once, without this caution.
                self.start_refill(flow);
                return true;
            }
        }
        if !is_inflight_too_high(sample) {
            if self.bounds.inflight_longterm != NONE {
                self.bounds.inflight_longterm = self.bounds.inflight_longterm.max(sample.tx_in_flight);
                if self.state() == State::Up {
                    self.probe_inflight_longterm_upward(flow, sample);
                }
            }
        } else if self.probe.is_sample && sample.delivered_ce > 0 {
            // Losses were judged one by one; marks only here.
            self.handle_inflight_too_high(flow, sample.tx_in_flight, sample.app_limited);
            return true;
        }
        false
    }
}
