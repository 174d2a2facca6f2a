//! The smallest RTT, and PROBE_RTT: when none as small was seen for ten seconds, four segments in flight for 200 ms.

use super::{Bbr, CWND_MIN_TARGET, Mode};
use crate::tcp::cc::flow::Flow;
use crate::tcp::rate::RateSample;

/// `bbr_min_rtt_win_sec`.
const MIN_RTT_WIN_SEC: u64 = 10;
/// `bbr_probe_rtt_mode_ms`.
const PROBE_RTT_MODE_MS: u64 = 200;

impl Bbr {
    /// `bbr_update_min_rtt`.
    pub(super) fn update_min_rtt(&mut self, flow: &mut Flow, sample: &RateSample) {
        let filter_expired = flow.jiffies() > self.min_rtt_stamp + MIN_RTT_WIN_SEC * u64::from(flow.hz);
        if let Some(rtt) = sample.rtt
            && (rtt < self.min_rtt || (filter_expired && !sample.ack_delayed))
        {
            (self.min_rtt, self.min_rtt_stamp) = (rtt, flow.jiffies());
        }
        if filter_expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(flow.cwnd);
            self.probe_rtt_done_stamp = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(flow);
        }
        if sample.delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    fn probe_rtt(&mut self, flow: &mut Flow) {
        // The samples of this time are low.
        flow.limit_samples = true;
        if self.probe_rtt_done_stamp.is_none() && flow.in_flight <= CWND_MIN_TARGET {
            let ticks = (PROBE_RTT_MODE_MS * u64::from(flow.hz)).div_ceil(1000);
            self.probe_rtt_done_stamp = Some(flow.jiffies() + ticks);
            self.probe_rtt_round_done = false;
            self.next_rtt_delivered = flow.delivered;
        } else if self.probe_rtt_done_stamp.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(flow);
            }
        }
    }

    /// `bbr_check_probe_rtt_done`.
    pub(super) fn check_probe_rtt_done(&mut self, flow: &mut Flow) {
        if self.probe_rtt_done_stamp.is_none_or(|done| flow.jiffies() <= done) {
            return;
        }
        self.min_rtt_stamp = flow.jiffies();
        flow.cwnd = flow.cwnd.max(self.prior_cwnd);
        self.leave_probe_rtt(flow);
    }
}
