//! §5.3.4 ProbeRTT: if no RTT as small was seen for five seconds, only half the bandwidth-delay product is kept in flight
//! for 200 ms.

use super::{AckPhase, Bbr3, Phase, State};
use crate::tcp::cc::flow::Flow;
use crate::tcp::rate::RateSample;

/// §5.3.4.1 ProbeRTTInterval, in µs.
pub(super) const PROBE_RTT_INTERVAL: u64 = 5_000_000;
/// §5.3.4.1 ProbeRTTDuration.
const PROBE_RTT_DURATION: u64 = 200_000;
/// §5.5.7.2 MinRTTFilterLen.
const MIN_RTT_FILTER_LEN: u64 = 10_000_000;

/// The progress of ProbeRTT.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct ProbeRtt {
    /// When ProbeRTT may end, in µs; `None` until the data in flight has fallen.
    done_stamp: Option<u64>,
    /// A round trip has passed since the data in flight fell.
    round_done: bool,
}

impl Bbr3 {
    /// `UpdateMinRTT`.
    pub(super) fn update_min_rtt(&mut self, flow: &Flow, sample: &RateSample) {
        self.min_rtt.probe_expired = flow.now > self.min_rtt.probe_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = sample.rtt
            && (rtt < self.min_rtt.probe_min_delay || self.min_rtt.probe_expired)
        {
            (self.min_rtt.probe_min_delay, self.min_rtt.probe_min_stamp) = (rtt, flow.now);
        }
        let min_rtt_expired = flow.now > self.min_rtt.stamp + MIN_RTT_FILTER_LEN;
        if self.min_rtt.probe_min_delay < self.min_rtt.value || min_rtt_expired {
            (self.min_rtt.value, self.min_rtt.stamp) = (self.min_rtt.probe_min_delay, self.min_rtt.probe_min_stamp);
        }
    }

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, flow: &mut Flow, sample: &RateSample) {
        if self.state() != State::ProbeRtt && self.min_rtt.probe_expired && !self.idle_restart {
            self.save_cwnd(flow.cwnd);
            self.enter(Phase::ProbeRtt(ProbeRtt::default()));
            self.probe.ack_phase = AckPhase::ProbeStopping;
            self.start_round(flow);
        }
        if let Phase::ProbeRtt(probe) = self.phase {
            self.handle_probe_rtt(flow, probe);
        }
        if sample.delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    /// `HandleProbeRTT`.
    fn handle_probe_rtt(&mut self, flow: &mut Flow, probe: ProbeRtt) {
        flow.limit_samples = true;
        if probe.done_stamp.is_none() && flow.in_flight <= self.probe_rtt_cwnd() {
            let done_stamp = Some(flow.now + PROBE_RTT_DURATION);
            self.phase = Phase::ProbeRtt(ProbeRtt { done_stamp, round_done: false });
            self.start_round(flow);
        } else if probe.done_stamp.is_some() {
            let round_done = probe.round_done || self.rounds.is_start;
            self.phase = Phase::ProbeRtt(ProbeRtt { round_done, ..probe });
            if round_done {
                self.check_probe_rtt_done(flow);
            }
        }
    }

    /// `CheckProbeRTTDone`.
    pub(super) fn check_probe_rtt_done(&mut self, flow: &mut Flow) {
        let Phase::ProbeRtt(ProbeRtt { done_stamp: Some(done), .. }) = self.phase else { return };
        if flow.now <= done {
            return;
        }
        self.min_rtt.probe_min_stamp = flow.now;
        flow.cwnd = flow.cwnd.max(self.restoration.prior_cwnd);
        // §5.3.4.4 ExitProbeRTT: the data in flight is below the estimate already.
        self.reset_short_term_model();
        if self.full_pipe.reached {
            self.start_down(flow);
            self.enter(Phase::Cruise);
        } else {
            self.enter(Phase::Startup);
        }
    }
}
