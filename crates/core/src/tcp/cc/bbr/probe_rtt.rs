//! The smallest RTT, and PROBE_RTT: if no RTT as small was seen for ten seconds, at most four segments are kept in flight
//! for 200 ms.

use super::{Bbr, CWND_MIN_TARGET, Mode};
use crate::tcp::cc::flow::Flow;
use crate::tcp::rate::RateSample;

/// `bbr_min_rtt_win_sec`.
const MIN_RTT_WIN_SEC: u64 = 10;
/// `bbr_probe_rtt_mode_ms`.
const PROBE_RTT_MODE_MS: u64 = 200;

/// The progress of PROBE_RTT.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct ProbeRtt {
    /// When PROBE_RTT may end, in ticks; `None` until the data in flight has fallen (`probe_rtt_done_stamp`).
    done_stamp: Option<u64>,
    /// A round trip has passed since the data in flight fell (`probe_rtt_round_done`).
    round_done: bool,
}

impl Bbr {
    /// `bbr_update_min_rtt`.
    pub(super) fn update_min_rtt(&mut self, flow: &mut Flow, sample: &RateSample) {
        let filter_expired = flow.jiffies() > self.min_rtt_stamp + MIN_RTT_WIN_SEC * u64::from(flow.hz);
        if let Some(rtt) = sample.rtt
            && (rtt < self.min_rtt || (filter_expired && !sample.ack_delayed))
        {
            (self.min_rtt, self.min_rtt_stamp) = (rtt, flow.jiffies());
        }
        if filter_expired && !self.idle_restart && !matches!(self.mode, Mode::ProbeRtt(_)) {
            self.enter(Mode::ProbeRtt(ProbeRtt::default()));
            self.save_cwnd(flow.cwnd);
        }
        if let Mode::ProbeRtt(probe) = self.mode {
            self.probe_rtt(flow, probe);
        }
        if sample.delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    fn probe_rtt(&mut self, flow: &mut Flow, probe: ProbeRtt) {
        // PROBE_RTT itself lowers the delivery rate: its samples count as limited by the application.
        flow.limit_samples = true;
        if probe.done_stamp.is_none() && flow.in_flight <= CWND_MIN_TARGET {
            let ticks = (PROBE_RTT_MODE_MS * u64::from(flow.hz)).div_ceil(1000);
            self.mode = Mode::ProbeRtt(ProbeRtt { done_stamp: Some(flow.jiffies() + ticks), round_done: false });
            self.rounds.next_delivered = flow.delivered;
        } else if probe.done_stamp.is_some() {
            let round_done = probe.round_done || self.rounds.is_start;
            self.mode = Mode::ProbeRtt(ProbeRtt { round_done, ..probe });
            if round_done {
                self.check_probe_rtt_done(flow);
            }
        }
    }

    /// `bbr_check_probe_rtt_done`.
    pub(super) fn check_probe_rtt_done(&mut self, flow: &mut Flow) {
        let Mode::ProbeRtt(ProbeRtt { done_stamp: Some(done), .. }) = self.mode else { return };
        if flow.jiffies() <= done {
            return;
        }
        self.min_rtt_stamp = flow.jiffies();
        flow.cwnd = flow.cwnd.max(self.restoration.prior_cwnd);
        self.leave_probe_rtt(flow);
    }
}
