//! The window: twice the bandwidth-delay product, with room for bursts; less in a recovery and in PROBE_RTT.

use super::probe_bw::ProbeBw;
use super::{BITS, BW_UNIT, Bbr, CWND_MIN_TARGET, Mode, UNIT};
use crate::tcp::cc::flow::{BW_SCALE, Flow, INIT_CWND, Repair};
use crate::tcp::rate::RateSample;

impl Bbr {
    /// `bbr_save_cwnd`: saves the last window known to be good, so that it can be restored.
    pub(super) fn save_cwnd(&mut self, cwnd: u32) {
        let good = self.restoration.prev_repair == Repair::None && !matches!(self.mode, Mode::ProbeRtt(_));
        self.restoration.prior_cwnd = if good { cwnd } else { self.restoration.prior_cwnd.max(cwnd) };
    }

    /// `bbr_bdp`: the bandwidth-delay product times a gain, in segments. It is rounded up; otherwise window and bandwidth
    /// would lower each other in turn.
    fn bdp(&self, bw: u64, gain: u64) -> u32 {
        if self.min_rtt == u64::MAX {
            return INIT_CWND;
        }
        (((bw * self.min_rtt * gain) >> BITS).div_ceil(BW_UNIT)).min(u64::from(u32::MAX >> 2)) as u32
    }

    /// `bbr_quantization_budget`: adds three bursts, rounds up to an even number, and adds two segments while probing.
    fn quantization_budget(&self, flow: &Flow, cwnd: u32) -> u32 {
        let even = (cwnd + 3 * flow.send_quantum + 1) & !1;
        if matches!(self.mode, Mode::ProbeBw(ProbeBw { idx: 0, .. })) { even + 2 } else { even }
    }

    /// `bbr_inflight`: the segments in flight that this bandwidth with this gain needs.
    pub(super) fn inflight(&self, flow: &Flow, bw: u64, gain: u64) -> u32 {
        self.quantization_budget(flow, self.bdp(bw, gain))
    }

    /// `bbr_packets_in_net_at_edt`: the segments in the network when the next burst is sent.
    pub(super) fn packets_in_net_at_edt(&self, flow: &Flow, inflight_now: u32) -> u32 {
        let delivered = (self.bandwidth() * flow.ahead) >> BW_SCALE;
        let with_it = if self.pacing_gain > UNIT { flow.send_quantum } else { 0 };
        u64::from(inflight_now + with_it).saturating_sub(delivered) as u32
    }

    /// The bandwidth-delay product times the window's gain, with room for bursts and ACK aggregation.
    pub(super) fn target_cwnd(&self, flow: &Flow) -> u32 {
        self.quantization_budget(flow, self.bdp(self.bandwidth(), self.cwnd_gain) + self.ack_aggregation_cwnd())
    }

    /// `bbr_set_cwnd`.
    pub(super) fn set_cwnd(&mut self, flow: &mut Flow, sample: &RateSample) {
        let acked = sample.acked_sacked;
        if acked > 0 && !self.recover_or_restore(flow, sample) {
            let target = self.target_cwnd;
            if self.full_pipe.reached {
                flow.cwnd = (flow.cwnd + acked).min(target);
            } else if flow.cwnd < target || flow.delivered < INIT_CWND {
                flow.cwnd += acked;
            }
            flow.cwnd = flow.cwnd.max(CWND_MIN_TARGET);
        }
        if let Mode::ProbeRtt(_) = self.mode {
            flow.cwnd = flow.cwnd.min(CWND_MIN_TARGET);
        }
    }

    /// `bbr_set_cwnd_to_recover_or_restore`: in the first round trip of a recovery as much is sent as is delivered. After
    /// the recovery the window is restored. Returns whether this has set the window.
    fn recover_or_restore(&mut self, flow: &mut Flow, sample: &RateSample) -> bool {
        let (acked, before) = (sample.acked_sacked, self.restoration.prev_repair);
        // An ACK that finds losses lowers the window by their number.
        let mut cwnd = flow.cwnd.saturating_sub(sample.losses).max(1);
        if flow.repair == Repair::Recovery && before != Repair::Recovery {
            self.restoration.packet_conservation = true;
            self.rounds.next_delivered = flow.delivered;
            // The unused part of the window is cut off.
            cwnd = flow.in_flight + acked;
        } else if before >= Repair::Recovery && flow.repair < Repair::Recovery {
            cwnd = cwnd.max(self.restoration.prior_cwnd);
            self.restoration.packet_conservation = false;
        }
        self.restoration.prev_repair = flow.repair;
        flow.cwnd = if self.restoration.packet_conservation { cwnd.max(flow.in_flight + acked) } else { cwnd };
        self.restoration.packet_conservation
    }
}
