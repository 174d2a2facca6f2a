//! §5.3.1 Startup and §5.3.2 Drain: fill the pipe, until the bandwidth stops growing or too many segments are lost;
//! then drain the queue that this caused.

use super::bounds::{is_half_marked, is_inflight_too_high};
use super::{Bbr3, Phase, State, UNIT};
use crate::tcp::cc::flow::{Flow, Repair};
use crate::tcp::rate::RateSample;

/// §5.3.1.2: the pipe is full if the bandwidth grows by less than a quarter in `FULL_BW_COUNT` rounds.
const FULL_BW_GROWTH: (u64, u64) = (5, 4);
/// §5.3.1.2: the number of rounds with little growth that show that the pipe is full.
const FULL_BW_COUNT: u32 = 3;
/// §5.3.1.3 BBRStartupFullLossCnt: Startup ends early only if at least this many ranges of segments were lost in a round.
const STARTUP_FULL_LOSS_CNT: u32 = 6;
/// Linux's BBRv3 `bbr_full_ecn_cnt`: Startup ends after this many successive rounds with at least half of the segments
/// marked.
const FULL_ECN_CNT: u32 = 2;
/// §5.3.2: the most round trips that Drain lasts.
const DRAIN_ROUNDS: u32 = 3;

impl Bbr3 {
    /// `ResetFullBW`.
    pub(super) fn reset_full_bw(&mut self) {
        (self.full_pipe.bw, self.full_pipe.count, self.full_pipe.now) = (0, 0, false);
    }

    /// `CheckFullBWReached`.
    pub(super) fn check_full_bw_reached(&mut self, sample: &RateSample, rate: u64) {
        if self.full_pipe.now || !self.rounds.is_start || sample.app_limited {
            return;
        }
        if rate * FULL_BW_GROWTH.1 >= self.full_pipe.bw * FULL_BW_GROWTH.0 {
            self.reset_full_bw();
            self.full_pipe.bw = rate;
            return;
        }
        self.full_pipe.count += 1;
        self.full_pipe.now = self.full_pipe.count >= FULL_BW_COUNT;
        self.full_pipe.reached |= self.full_pipe.now;
    }

    /// `CheckStartupDone`.
    pub(super) fn check_startup_done(&mut self, flow: &Flow, sample: &RateSample) {
        if self.state() == State::Startup {
            self.check_startup_high_loss(flow, sample);
            self.check_startup_marks(sample);
        }
        if self.loss_round.is_start {
            self.loss_round.events = 0;
        }
        if self.state() == State::Startup && self.full_pipe.reached {
            self.enter(Phase::Drain { start_round: self.rounds.count });
        }
    }

    /// §5.3.1.3: leaves Startup if a round of recovery ends with more than 2 % of the segments lost, in at least six ranges.
    fn check_startup_high_loss(&mut self, flow: &Flow, sample: &RateSample) {
        let lossy = self.loss_round.events >= STARTUP_FULL_LOSS_CNT && is_inflight_too_high(sample);
        if self.loss_round.is_start && flow.repair == Repair::Recovery && lossy {
            self.leave_startup();
        }
    }

    /// Linux's BBRv3 `bbr_check_ecn_too_high_in_startup`.
    fn check_startup_marks(&mut self, sample: &RateSample) {
        if self.rounds.is_start {
            self.full_pipe.ecn_rounds = if is_half_marked(sample) { self.full_pipe.ecn_rounds + 1 } else { 0 };
            if self.full_pipe.ecn_rounds >= FULL_ECN_CNT {
                self.leave_startup();
            }
        }
    }

    /// Leaves Startup because the queue is too long. The long-term bound is at least the segments delivered in the last
    /// round, which are known to fit.
    fn leave_startup(&mut self) {
        self.undo.state = Some(State::Startup);
        (self.full_pipe.now, self.full_pipe.reached) = (true, true);
        self.bounds.inflight_longterm = self.bdp_multiple(self.max_bw(), UNIT).max(self.loss_round.inflight_latest);
    }

    /// `CheckDrainDone`.
    pub(super) fn check_drain_done(&mut self, flow: &Flow) {
        let Phase::Drain { start_round } = self.phase else { return };
        let drained = flow.in_flight <= self.inflight(flow, self.bw, UNIT);
        if drained || self.rounds.count > start_round + DRAIN_ROUNDS {
            self.start_down(flow);
        }
    }
}
