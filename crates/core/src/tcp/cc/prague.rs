//! Prague: DCTCP for the Internet. It keeps an L4S queue (RFC 9332's, FQ-CoDel's with a `ce_threshold`) at about a millisecond.
//!
//! Source: RFC 9331 §4 for the requirements; constants and order of steps are those of the L4S project's Linux (`tcp_prague`,
//! which is not in mainline Linux). Principle: accurate ECN counts the marks. Once a round trip with marks, the window falls
//! by alpha/2; alpha is the average of the marked fraction. Unmarked segments increase the window with each ACK, also in a
//! round trip that reduces it. Segments are paced. After 500 rounds a flow with an RTT below 25 ms behaves as one of 25 ms: it
//! grows more slowly, and averages and reduces less often.
//!
//! Deviations:
//! - The next reduction is due one round trip, and at least 25 ms, after the last. Linux checks this once a round trip only, so
//!   with an RTT of 12.5 to 25 ms its flows would reduce in every other round trip, and take more than their share.
//! - The window follows its fractional value at once; in Linux it moves by one segment an ACK.
//! - Pacing is 100 % of the payload's rate; Linux adds the headers' few percent.
//! - No fallback for a queue that marks as RFC 3168 asks (Linux has one, off by default): it needs an L4S queue.

use super::flow::{Flow, FlowEvent, Repair};
use super::ops::{CongestionControl, EcnUse, Ops};
use super::setup::Setup;
use crate::tcp::pacing::FINE_SHIFT;
use crate::tcp::rate::{Loss, RateSample};

/// Alpha in 2^-20.
const ALPHA_BITS: u32 = 20;
const MAX_ALPHA: u64 = 1 << ALPHA_BITS;
/// The gain of the average that is alpha: 2^-4.
const SHIFT_G: u32 = 4;
/// Windows in 2^-20 segments.
const CWND_BITS: u32 = 20;
const ONE_CWND: u64 = 1 << CWND_BITS;
const MIN_CWND: u64 = 2 * ONE_CWND;
/// The target RTT in µs. A flow with a shorter RTT behaves as if it had this one, from `RTT_TRANSITION` on.
const RTT_TARGET: u64 = 25_000;
/// The number of rounds after slow start from which short RTTs are scaled to `RTT_TARGET`.
const RTT_TRANSITION: u32 = 500;

/// Prague's state. Times are in µs, counts in segments, and `frac_cwnd` is the window in 2^-20 segments.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Prague {
    frac_cwnd: u64,
    /// The slow start threshold in 2^-20 segments.
    ssthresh: u64,
    /// Alpha divided by the gain, so that no part of alpha is rounded away.
    upscaled_alpha: u64,
    alpha_stamp: u64,
    cwr_stamp: u64,
    /// The next reduction is not due before this many segments are delivered.
    cwr_end: u32,
    /// A mark has shown that there is an AQM.
    saw_ce: bool,
    /// The window was reduced because of a loss, and the recovery is not over.
    in_loss: bool,
    /// Rounds beyond slow start.
    round: u32,
    /// The round ends when this many segments are delivered.
    round_end: u32,
    /// Segments delivered since alpha was last updated, and the marked ones among them.
    delivered: u32,
    marked: u32,
    /// Window and threshold before the last loss.
    before: (u64, u64),
}

impl Prague {
    /// The state of a connection with this window at this time.
    fn starting(cwnd: u32, now: u64) -> Prague {
        let frac_cwnd = u64::from(cwnd) << CWND_BITS;
        Prague {
            frac_cwnd,
            ssthresh: u64::MAX,
            // The first mark halves the window.
            upscaled_alpha: MAX_ALPHA << SHIFT_G,
            alpha_stamp: now,
            cwr_stamp: now,
            cwr_end: 0,
            saw_ce: false,
            in_loss: false,
            round: 0,
            round_end: 0,
            delivered: 0,
            marked: 0,
            before: (frac_cwnd, u64::MAX),
        }
    }

    /// Sets the window and the pacing rate of the flow.
    fn apply(&self, flow: &mut Flow) {
        flow.cwnd = self.frac_cwnd.div_ceil(ONE_CWND).clamp(1, u64::from(u32::MAX)) as u32;
        if flow.srtt > 0 {
            // In slow start each ACK lets two segments go.
            let twice = u64::from(self.frac_cwnd < self.ssthresh / 2);
            let bytes = (u128::from(self.frac_cwnd) * u128::from(flow.mss)) << twice;
            flow.pacing_rate = ((bytes * 1_000_000 / u128::from(flow.srtt)) >> CWND_BITS) as u64;
        }
    }

    fn in_slow_start(&self) -> bool {
        self.frac_cwnd < self.ssthresh
    }

    /// Returns whether the flow now behaves as if its RTT were at least `RTT_TARGET`.
    fn is_rtt_independent(&self) -> bool {
        self.round >= RTT_TRANSITION && !self.in_slow_start()
    }

    /// Handles an ACK, after the losses that it showed.
    fn on_ack(&mut self, flow: &mut Flow, sample: &RateSample) {
        self.in_loss &= flow.repair != Repair::None;
        self.saw_ce |= sample.marked > 0;
        self.delivered += sample.acked_sacked;
        self.marked += sample.marked;
        if sample.marked > 0 && !self.in_loss && flow.delivered >= self.cwr_end {
            self.reduce(flow);
        }
        let unmarked = u64::from(sample.acked_sacked.saturating_sub(sample.marked));
        // A sender that is paced at the window's rate seldom fills the window: then the pacing rate was the limit.
        let is_used = flow.cwnd_limited || (flow.ahead > 0 && !flow.app_limited);
        if unmarked > 0 && is_used && !self.in_loss {
            self.increase(unmarked, flow.srtt);
        }
        let round_over = flow.delivered >= self.round_end;
        let waits = self.is_rtt_independent() && flow.now < self.alpha_stamp + RTT_TARGET;
        if round_over && !waits {
            self.update_alpha(flow);
        }
        self.apply(flow);
    }

    /// Increases the window on an ACK of `unmarked` segments. Beyond slow start, this is one segment per round trip, and
    /// less at RTTs below the target.
    fn increase(&mut self, unmarked: u64, srtt: u64) {
        let mut left = unmarked << CWND_BITS;
        if self.in_slow_start() {
            let taken = left.min(self.ssthresh - self.frac_cwnd);
            self.frac_cwnd += taken;
            left -= taken;
        }
        if self.is_rtt_independent() && srtt < RTT_TARGET {
            // One factor srtt/RTT_TARGET makes it a segment per target RTT. At the same rate, the window is smaller by the
            // same factor: hence the square.
            left = left * (srtt * srtt) / (RTT_TARGET * RTT_TARGET);
        }
        self.frac_cwnd += left / (self.frac_cwnd >> CWND_BITS).max(1);
    }

    fn update_alpha(&mut self, flow: &Flow) {
        if self.saw_ce {
            let fraction = (u64::from(self.marked) << ALPHA_BITS) / u64::from(self.delivered.max(1));
            let kept = self.upscaled_alpha - (self.upscaled_alpha >> SHIFT_G);
            self.upscaled_alpha = (kept + fraction).min(MAX_ALPHA << SHIFT_G);
            self.alpha_stamp = flow.now;
        }
        (self.delivered, self.marked) = (0, 0);
        self.round_end = flow.delivered + flow.in_flight;
        self.round = self.round.saturating_add(u32::from(!self.in_slow_start()));
    }

    /// Reduces the window by half of alpha, at the first marks of a round trip.
    fn reduce(&mut self, flow: &Flow) {
        if self.is_rtt_independent() && flow.now < self.cwr_stamp + RTT_TARGET {
            return;
        }
        (self.cwr_stamp, self.cwr_end) = (flow.now, flow.delivered + flow.in_flight);
        let alpha = self.upscaled_alpha >> SHIFT_G;
        self.frac_cwnd -= (alpha * self.frac_cwnd + MAX_ALPHA) >> (ALPHA_BITS + 1);
        self.set_threshold();
    }

    fn set_threshold(&mut self) {
        self.frac_cwnd = self.frac_cwnd.max(MIN_CWND);
        self.ssthresh = self.frac_cwnd;
    }

    /// Halves the window after losses, as Reno does (RFC 9331 §4.3).
    fn on_losses(&mut self, flow: &mut Flow) {
        self.before = (self.frac_cwnd, self.ssthresh);
        self.in_loss = true;
        self.frac_cwnd /= 2;
        self.set_threshold();
        self.apply(flow);
    }

    /// Handles a timeout, after its reduction: slow start begins from one segment.
    fn on_timeout(&mut self, flow: &mut Flow) {
        self.frac_cwnd = ONE_CWND;
        self.in_loss = false;
        self.apply(flow);
    }

    /// Restores window and threshold, because nothing had been lost.
    fn on_undo(&mut self, flow: &mut Flow) {
        let (frac_cwnd, ssthresh) = self.before;
        self.frac_cwnd = self.frac_cwnd.max(frac_cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.in_loss = false;
        self.apply(flow);
    }
}

impl CongestionControl for Prague {
    const OPS: Ops = Ops { rate_based: true, ecn: EcnUse::L4s, pacing_shift: FINE_SHIFT, ..Ops::named("prague") };

    fn new(setup: &Setup) -> Prague {
        Prague::starting(setup.iw, 0)
    }

    fn init(&mut self, flow: &mut Flow, _: Option<u64>) {
        *self = Prague::starting(flow.cwnd, flow.now);
        self.apply(flow);
    }

    #[inline(never)]
    fn cong_control(&mut self, flow: &mut Flow, _: &[Loss], sample: &RateSample) {
        self.on_ack(flow, sample);
    }

    fn flow_event(&mut self, flow: &mut Flow, event: FlowEvent<'_>) {
        match event {
            // Only losses cause such a reduction: `on_ack` handles marks.
            FlowEvent::Reduction { .. } => self.on_losses(flow),
            FlowEvent::Loss { .. } => self.on_timeout(flow),
            FlowEvent::Undo => self.on_undo(flow),
            FlowEvent::TxStart => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow {
            now: 1_000_000,
            hz: 250,
            delivered: 1,
            delivered_time: 0,
            lost: 0,
            in_flight: 0,
            repair: Repair::None,
            srtt: 10_000,
            ahead: 0,
            mss: 1000,
            iw: 10,
            cwnd_limited: true,
            app_limited: false,
            limit_samples: false,
            send_quantum: 1,
            cwnd: 100,
            pacing_rate: 0,
        }
    }

    fn started(flow: &mut Flow) -> Prague {
        let mut prague = Prague::starting(0, 0);
        prague.init(flow, None);
        prague
    }

    /// Returns the state of a flow beyond slow start, with a window of a hundred segments.
    fn steady(flow: &mut Flow) -> Prague {
        let mut prague = started(flow);
        prague.ssthresh = prague.frac_cwnd;
        prague
    }

    /// Plays a hundred ACKs of one segment each, `marked` of them with a mark.
    fn round(prague: &mut Prague, flow: &mut Flow, marked: u32) {
        for i in 0..100 {
            flow.delivered += 1;
            flow.now += 100;
            flow.in_flight = 99;
            prague
                .on_ack(flow, &RateSample { acked_sacked: 1, marked: u32::from(i < marked), ..RateSample::default() });
        }
    }

    fn segments(prague: &Prague) -> f64 {
        prague.frac_cwnd as f64 / ONE_CWND as f64
    }

    #[test]
    fn the_window_grows_by_a_segment_a_round_trip_and_marked_segments_do_not_count() {
        let mut flow = flow();
        let mut prague = steady(&mut flow);
        round(&mut prague, &mut flow, 0);
        assert!((segments(&prague) - 101.0).abs() < 0.02, "{}", segments(&prague));
        // No reduction is due.
        prague.cwr_end = u32::MAX;
        round(&mut prague, &mut flow, 50);
        assert!((segments(&prague) - 101.5).abs() < 0.02, "{}", segments(&prague));
        assert_eq!(flow.cwnd, 102, "rounded up");
    }

    #[test]
    fn alpha_is_the_marked_fraction_averaged_with_a_gain_of_a_sixteenth_after_the_first_mark() {
        let mut flow = flow();
        let mut prague = steady(&mut flow);
        let alpha = |prague: &Prague| (prague.upscaled_alpha >> SHIFT_G) as f64 / MAX_ALPHA as f64;
        (0..3).for_each(|_| round(&mut prague, &mut flow, 0));
        assert_eq!(alpha(&prague), 1.0, "there may be no AQM");
        prague.saw_ce = true;
        round(&mut prague, &mut flow, 0);
        assert!((alpha(&prague) - 15.0 / 16.0).abs() < 1e-5, "{}", alpha(&prague));
        (0..300).for_each(|_| round(&mut prague, &mut flow, 20));
        assert!((alpha(&prague) - 0.2).abs() < 0.01, "{}", alpha(&prague));
    }

    #[test]
    fn a_round_trip_with_marks_reduces_by_half_of_alpha_and_the_first_one_by_half() {
        let mut flow = flow();
        let mut prague = started(&mut flow);
        let marked = RateSample { acked_sacked: 1, marked: 1, ..RateSample::default() };
        flow.in_flight = 99;
        flow.delivered += 1;
        prague.on_ack(&mut flow, &marked);
        assert_eq!((flow.cwnd, prague.in_slow_start()), (50, false));
        prague.upscaled_alpha = (MAX_ALPHA / 5) << SHIFT_G;
        flow.delivered += 98;
        prague.on_ack(&mut flow, &marked);
        assert_eq!(flow.cwnd, 50, "the round trip is not over");
        flow.delivered += 1;
        prague.round_end = u32::MAX;
        prague.upscaled_alpha = (MAX_ALPHA / 5) << SHIFT_G;
        prague.on_ack(&mut flow, &marked);
        assert!((segments(&prague) - 45.0).abs() < 1e-3, "{}", segments(&prague));
    }

    #[test]
    fn rfc9331_4_3_a_loss_halves_and_nothing_grows_until_it_is_repaired() {
        let mut flow = flow();
        let mut prague = steady(&mut flow);
        prague.upscaled_alpha = 0;
        prague.on_losses(&mut flow);
        flow.repair = Repair::Recovery;
        round(&mut prague, &mut flow, 0);
        assert_eq!(flow.cwnd, 50);
        flow.repair = Repair::None;
        round(&mut prague, &mut flow, 0);
        assert_eq!(flow.cwnd, 52, "two windows of it were acknowledged");
        prague.on_undo(&mut flow);
        assert_eq!(flow.cwnd, 100);
    }

    #[test]
    fn after_a_timeout_slow_start_leads_to_half_the_window() {
        let mut flow = flow();
        let mut prague = steady(&mut flow);
        prague.on_losses(&mut flow);
        prague.on_timeout(&mut flow);
        flow.repair = Repair::Loss;
        assert_eq!(flow.cwnd, 1);
        round(&mut prague, &mut flow, 0);
        assert_eq!(flow.cwnd, 52, "one doubling after the other up to 50, then a segment a round trip");
    }

    #[test]
    fn after_500_rounds_a_short_rtt_grows_and_reduces_as_one_of_25_ms() {
        let mut flow = flow();
        let mut prague = steady(&mut flow);
        prague.round = RTT_TRANSITION;
        round(&mut prague, &mut flow, 0);
        // (10 ms / 25 ms)^2 segments a round trip.
        assert!((segments(&prague) - 100.16).abs() < 0.01, "{}", segments(&prague));
        let mut reduced_after = |us: u64| {
            let before = prague.frac_cwnd;
            flow.now = prague.cwr_stamp + us;
            prague.cwr_end = flow.delivered;
            prague.on_ack(&mut flow, &RateSample { acked_sacked: 1, marked: 1, ..RateSample::default() });
            prague.frac_cwnd < before
        };
        assert_eq!([RTT_TARGET - 1, RTT_TARGET].map(&mut reduced_after), [false, true]);
    }

    #[test]
    fn the_pace_is_the_windows_and_twice_that_in_slow_start() {
        let mut flow = flow();
        steady(&mut flow);
        // 100 segments of 1000 bytes in 10 ms.
        let mut prague = started(&mut flow);
        assert_eq!(flow.pacing_rate, 20_000_000);
        prague.ssthresh = prague.frac_cwnd;
        prague.apply(&mut flow);
        assert_eq!(flow.pacing_rate, 10_000_000);
    }
}
