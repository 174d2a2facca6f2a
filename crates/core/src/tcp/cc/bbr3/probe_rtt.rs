//! §5.3.4 ProbeRTT: when no RTT as small was seen for five seconds, half the bandwidth-delay product in flight for 200 ms.

use super::{AckPhase, Bbr3, State};
use crate::tcp::cc::flow::Flow;
use crate::tcp::rate::RateSample;

/// §5.3.4.1 ProbeRTTInterval, in µs.
pub(super) const PROBE_RTT_INTERVAL: u64 = 5_000_000;
/// §5.3.4.1 ProbeRTTDuration.
const PROBE_RTT_DURATION: u64 = 200_000;
/// §5.5.7.2 MinRTTFilterLen.
const MIN_RTT_FILTER_LEN: u64 = 10_000_000;

impl Bbr3 {
    /// `UpdateMinRTT`.
    pub(super) fn update_min_rtt(&mut self, flow: &Flow, sample: &RateSample) {
        self.probe_rtt_expired = flow.now > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = sample.rtt
            && (rtt < self.probe_rtt_min_delay || self.probe_rtt_expired)
        {
            (self.probe_rtt_min_delay, self.probe_rtt_min_stamp) = (rtt, flow.now);
        }
        let min_rtt_expired = flow.now > self.min_rtt_stamp + MIN_RTT_FILTER_LEN;
        if self.probe_rtt_min_delay < self.min_rtt || min_rtt_expired {
            (self.min_rtt, self.min_rtt_stamp) = (self.probe_rtt_min_delay, self.probe_rtt_min_stamp);
        }
    }

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, flow: &mut Flow, sample: &RateSample) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd(flow.cwnd);
            self.state = State::ProbeRtt;
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(flow);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(flow);
        }
        if sample.delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    /// `HandleProbeRTT`.
    fn handle_probe_rtt(&mut self, flow: &mut Flow) {
        flow.limit_samples = true;
        if self.probe_rtt_done_stamp.is_none() && flow.in_flight <= self.probe_rtt_cwnd() {
            self.probe_rtt_done_stamp = Some(flow.now + PROBE_RTT_DURATION);
            self.probe_rtt_round_done = false;
            self.start_round(flow);
        } else if self.probe_rtt_done_stamp.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(flow);
            }
        }
    }

    /// `CheckProbeRTTDone`.
    pub(super) fn check_probe_rtt_done(&mut self, flow: &mut Flow) {
        if self.probe_rtt_done_stamp.is_none_or(|done| flow.now <= done) {
            return;
        }
        self.probe_rtt_min_stamp = flow.now;
        flow.cwnd = flow.cwnd.max(self.prior_cwnd);
        // §5.3.4.4 ExitProbeRTT: what is in flight is below the estimate already.
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_down(flow);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}
