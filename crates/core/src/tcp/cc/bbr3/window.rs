//! §5.6.4: the window.

use super::{BITS, BW_UNIT, Bbr3, MIN_PIPE_CWND, NONE, PROBE_RTT_CWND_GAIN, State};
use crate::tcp::cc::flow::{Flow, INIT_CWND, Repair};
use crate::tcp::rate::RateSample;

impl Bbr3 {
    /// `SaveCwnd`: saves the last window known to be good.
    pub(super) fn save_cwnd(&mut self, cwnd: u32) {
        let good = self.restoration.prev_repair == Repair::None && self.state() != State::ProbeRtt;
        self.restoration.prior_cwnd = if good { cwnd } else { self.restoration.prior_cwnd.max(cwnd) };
    }

    /// §5.6.4.4: restores the window after a recovery.
    pub(super) fn restore_after_recovery(&mut self, flow: &mut Flow) {
        if self.restoration.prev_repair > Repair::None && flow.repair == Repair::None {
            flow.cwnd = flow.cwnd.max(self.restoration.prior_cwnd);
        }
        self.restoration.prev_repair = flow.repair;
    }

    /// `BDPMultiple`: the bandwidth-delay product times a gain, in segments, rounded up.
    pub(super) fn bdp_multiple(&self, bw: u64, gain: u64) -> u32 {
        if self.min_rtt.value == u64::MAX {
            return INIT_CWND;
        }
        ((bw * self.min_rtt.value * gain) >> BITS).div_ceil(BW_UNIT).min(u64::from(u32::MAX >> 2)) as u32
    }

    /// `QuantizationBudget`.
    fn quantization_budget(&self, flow: &Flow, inflight_cap: u32) -> u32 {
        // §5.5.8.1: there is room for at least three bursts.
        let cap = inflight_cap.max(3 * flow.send_quantum).max(MIN_PIPE_CWND);
        if self.state() == State::Up { cap + 2 } else { cap }
    }

    /// `Inflight`.
    pub(super) fn inflight(&self, flow: &Flow, bw: u64, gain: u64) -> u32 {
        self.quantization_budget(flow, self.bdp_multiple(bw, gain))
    }

    /// `ProbeRTTCwnd`.
    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp_multiple(self.bw, PROBE_RTT_CWND_GAIN).max(MIN_PIPE_CWND)
    }

    /// §5.6.4.6 SetCwnd.
    pub(super) fn set_cwnd(&mut self, flow: &mut Flow, sample: &RateSample) {
        let acked = sample.acked_sacked;
        let cap = self.bdp_multiple(self.bw, self.cwnd_gain()) + self.extra_acked.value;
        let max_inflight = self.quantization_budget(flow, cap);
        if self.full_pipe.reached {
            flow.cwnd = (flow.cwnd + acked).min(max_inflight);
        } else if flow.cwnd < max_inflight || flow.delivered < flow.iw {
            flow.cwnd += acked;
        }
        flow.cwnd = flow.cwnd.max(MIN_PIPE_CWND);
        if self.state() == State::ProbeRtt {
            flow.cwnd = flow.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model(flow);
    }

    /// §5.6.4.7 BoundCwndForModel.
    fn bound_cwnd_for_model(&self, flow: &mut Flow) {
        let cap = match self.state() {
            State::Down | State::Refill | State::Up => self.bounds.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain => NONE,
        };
        flow.cwnd = flow.cwnd.min(cap.min(self.bounds.inflight_shortterm).max(MIN_PIPE_CWND));
    }
}
