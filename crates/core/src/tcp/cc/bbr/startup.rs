//! STARTUP, which fills the pipe, and DRAIN, which drains the queue that this caused.

use super::{BITS, Bbr, Mode, UNIT};
use crate::tcp::cc::flow::Flow;
use crate::tcp::rate::RateSample;

/// `bbr_full_bw_thresh`: the pipe is not full while the bandwidth still grows by a quarter per round trip.
const FULL_BW_THRESH: u64 = UNIT * 5 / 4;
/// `bbr_full_bw_cnt`: after this many round trips without such growth the pipe is full.
const FULL_BW_CNT: u32 = 3;

impl Bbr {
    /// `bbr_check_full_bw_reached`.
    pub(super) fn check_full_bw_reached(&mut self, sample: &RateSample) {
        if self.full_pipe.reached || !self.rounds.is_start || sample.app_limited {
            return;
        }
        let max_bw = self.bw.get();
        if max_bw >= (self.full_pipe.bw * FULL_BW_THRESH) >> BITS {
            (self.full_pipe.bw, self.full_pipe.cnt) = (max_bw, 0);
            return;
        }
        self.full_pipe.cnt += 1;
        self.full_pipe.reached = self.full_pipe.cnt >= FULL_BW_CNT;
    }

    /// `bbr_check_drain`.
    pub(super) fn check_drain(&mut self, flow: &mut Flow) {
        if self.full_pipe.reached && matches!(self.mode, Mode::Startup) {
            self.enter(Mode::Drain);
        }
        if let Mode::Drain = self.mode {
            let in_net = self.packets_in_net_at_edt(flow, flow.in_flight);
            if in_net <= self.inflight(flow, self.bw.get(), UNIT) {
                self.enter_probe_bw(flow);
            }
        }
    }

    /// `bbr_reset_mode`: enters the state that follows PROBE_RTT.
    pub(super) fn leave_probe_rtt(&mut self, flow: &Flow) {
        if self.full_pipe.reached { self.enter_probe_bw(flow) } else { self.enter(Mode::Startup) }
    }
}
