//! BBR, version 3 (draft-ietf-ccwg-bbr-06; its names, and its sections cited).
//!
//! As version 1 it sends at the largest delivery rate seen and keeps the bandwidth-delay product in flight; but it takes
//! losses for news of the path. Two bounds come from them: a short-term one, set while cruising and forgotten before the
//! next probe for bandwidth, and a long-term one on what is in flight, found by probing until 2 % are lost. Probes come
//! every two to three seconds, or after as many round trips as Reno would need to grow; the smallest RTT is looked for every
//! five seconds with half the product in flight.
//!
//! Deviations: the draft leaves ECN open but asks that a mark count as congestion. Here an echo begins a round with loss, and
//! half of a round's segments echoed are too much in flight (Linux's BBRv3, `bbr_ecn_thresh`); its finer response needs
//! accurate ECN.

mod bounds;
mod probe_bw;
mod probe_rtt;
mod startup;
#[cfg(test)]
mod tests;
mod window;

use super::flow::{BW_UNIT, Flow, FlowEvent, Repair};
use super::minmax::Max;
use super::{CongestionControl, Ops};
use crate::rng::Rng;
use crate::tcp::Config;
use crate::tcp::rate::{Loss, RateSample};

/// Gains are in 256ths.
const BITS: u32 = 8;
const UNIT: u64 = 1 << BITS;
/// §5.3.1.1 StartupPacingGain: 4 ln 2 = 2.77.
const STARTUP_PACING_GAIN: u64 = UNIT * 277 / 100 + 1;
/// §5.3.2 DrainPacingGain.
const DRAIN_PACING_GAIN: u64 = UNIT / 2;
/// §5.3.3.1 ProbeDownPacingGain: 0.90.
const PROBE_DOWN_PACING_GAIN: u64 = UNIT * 90 / 100;
/// §5.3.3.5: faster by a quarter.
const PROBE_UP_PACING_GAIN: u64 = UNIT * 5 / 4;
/// §5.3.1.1 DefaultCwndGain.
const DEFAULT_CWND_GAIN: u64 = UNIT * 2;
/// §5.3.3.5: 2.25.
const PROBE_UP_CWND_GAIN: u64 = UNIT * 9 / 4;
/// §5.3.4.1 ProbeRTTCwndGain.
const PROBE_RTT_CWND_GAIN: u64 = UNIT / 2;
/// §5.6.4.3 MinPipeCwnd.
const MIN_PIPE_CWND: u32 = 4;
/// "Infinity", as a bound of segments.
const NONE: u32 = u32::MAX;

/// §5.1.1: the states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// `IsInAProbeBWState`.
    fn is_probe_bw(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }
}

/// §5.3.3.9: what the ACKs that come in now are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// §5.5.11.1: what a recovery that proves spurious returns to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Undo {
    state: Option<State>,
    bw_shortterm: u64,
    inflight_shortterm: u32,
    inflight_longterm: u32,
}

/// The model and the state machine. Times in µs, bandwidths as in `flow.rs`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Bbr3 {
    state: State,
    round_count: u32,
    next_round_delivered: u32,
    round_start: bool,
    rounds_since_probe_up: u32,
    /// The largest of the probing cycle before and of this one.
    max_bw_filter: [u64; 2],
    bw: u64,
    min_rtt: u64,
    min_rtt_stamp: u64,
    probe_rtt_min_delay: u64,
    probe_rtt_min_stamp: u64,
    probe_rtt_expired: bool,
    probe_rtt_done_stamp: Option<u64>,
    probe_rtt_round_done: bool,
    idle_restart: bool,
    prior_cwnd: u32,
    prev_repair: Repair,
    full_bw: u64,
    full_bw_count: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    drain_start_round: u32,
    bw_latest: u64,
    inflight_latest: u32,
    bw_shortterm: u64,
    inflight_shortterm: u32,
    inflight_longterm: u32,
    is_loss_in_round: bool,
    loss_round_delivered: u32,
    loss_round_start: bool,
    /// Ranges of segments lost in this round, and the last segment of them.
    loss_events: u32,
    last_lost: u32,
    /// Rounds in a row that were half marked.
    startup_ecn_rounds: u32,
    undo: Undo,
    ack_phase: AckPhase,
    cycle_stamp: u64,
    bw_probe_wait: u64,
    bw_probe_up_rounds: u32,
    bw_probe_up_acked: u32,
    probe_up_acked_per_inc: u32,
    is_bw_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    extra_acked_filter: Max,
    extra_acked_interval_start: u64,
    extra_acked_delivered: u32,
    extra_acked: u32,
    rng: Rng,
}

impl CongestionControl for Bbr3 {
    const OPS: Ops = Ops { rate_based: true, sndbuf_expand: 3, ..Ops::named("bbr3") };

    fn new(config: &Config) -> Bbr3 {
        let undo = Undo { state: None, bw_shortterm: 0, inflight_shortterm: 0, inflight_longterm: 0 };
        Bbr3 {
            state: State::Startup,
            round_count: 0,
            next_round_delivered: 0,
            round_start: false,
            rounds_since_probe_up: 0,
            max_bw_filter: [0; 2],
            bw: 0,
            min_rtt: u64::MAX,
            min_rtt_stamp: 0,
            probe_rtt_min_delay: u64::MAX,
            probe_rtt_min_stamp: 0,
            probe_rtt_expired: false,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            prior_cwnd: 0,
            prev_repair: Repair::None,
            full_bw: 0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            drain_start_round: 0,
            bw_latest: 0,
            inflight_latest: 0,
            bw_shortterm: u64::MAX,
            inflight_shortterm: NONE,
            inflight_longterm: NONE,
            is_loss_in_round: false,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_events: 0,
            last_lost: NONE,
            startup_ecn_rounds: 0,
            undo,
            ack_phase: AckPhase::Init,
            cycle_stamp: 0,
            bw_probe_wait: 0,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: NONE,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            extra_acked_filter: Max::default(),
            extra_acked_interval_start: 0,
            extra_acked_delivered: 0,
            extra_acked: 0,
            rng: Rng::stream(config.seed, "congestion control"),
        }
    }

    /// §5.2.1 BBROnInit.
    fn init(&mut self, flow: &mut Flow, min_rtt: Option<u64>) {
        let min_rtt = min_rtt.unwrap_or(u64::MAX);
        self.next_round_delivered = flow.delivered;
        (self.min_rtt, self.min_rtt_stamp) = (min_rtt, flow.now);
        (self.probe_rtt_min_delay, self.probe_rtt_min_stamp) = (min_rtt, flow.now);
        self.extra_acked_interval_start = flow.now;
        self.init_pacing_rate(flow);
    }

    /// §5.2.3 BBRUpdateOnACK, after §5.2.4 BBRUpdateOnLoss.
    #[inline(never)]
    fn cong_control(&mut self, mut flow: Flow, losses: &[Loss], sample: RateSample) -> Flow {
        losses.iter().for_each(|loss| self.on_loss(&flow, loss));
        self.on_ack(&mut flow, &sample);
        flow
    }

    fn flow_event(&mut self, flow: &mut Flow, event: FlowEvent<'_>) {
        match event {
            FlowEvent::Reduction { ece } => self.on_reduction(flow, ece),
            FlowEvent::Loss { prior_cwnd, losses } => {
                self.on_timeout(prior_cwnd);
                losses.iter().for_each(|loss| self.on_loss(flow, loss));
            }
            FlowEvent::Undo => self.on_undo(flow),
            FlowEvent::TxStart => self.on_tx_start(flow),
        }
    }
}

impl Bbr3 {
    /// §5.2.3: an ACK with its sample.
    fn on_ack(&mut self, flow: &mut Flow, sample: &RateSample) {
        self.restore_after_recovery(flow);
        let rate = delivery_rate(sample);
        self.update_latest_delivery_signals(flow, sample, rate);
        self.update_congestion_signals(flow, sample, rate);
        self.update_ack_aggregation(flow, sample);
        self.check_full_bw_reached(sample, rate);
        self.check_startup_done(flow, sample);
        self.check_drain_done(flow);
        self.update_probe_bw_cycle_phase(flow, sample, rate);
        self.update_min_rtt(flow, sample);
        self.check_probe_rtt(flow, sample);
        if self.loss_round_start {
            // AdvanceLatestDeliverySignals
            (self.bw_latest, self.inflight_latest) = (rate, sample.delivered.unwrap_or(0));
        }
        self.bw = self.max_bw().min(self.bw_shortterm);
        self.set_pacing_rate(flow, self.pacing_gain());
        self.set_cwnd(flow, sample);
    }

    /// §5.6.4.4 OnEnterFastRecovery; or the first ECN echo of a window, which counts as a loss in its round.
    fn on_reduction(&mut self, flow: &Flow, by_echo: bool) {
        if by_echo {
            return self.note_loss(flow);
        }
        self.save_cwnd(flow.cwnd);
        self.save_state_upon_loss();
    }

    /// §5.6.4.4 OnEnterRTO. The window is one segment by now; `before` it was that.
    fn on_timeout(&mut self, before: u32) {
        self.save_cwnd(before);
        self.save_state_upon_loss();
        self.prev_repair = Repair::Loss;
    }

    /// §5.2.2: data again, with nothing in flight.
    fn on_tx_start(&mut self, flow: &mut Flow) {
        // §5.4.1 HandleRestartFromIdle
        if !flow.app_limited {
            return;
        }
        self.idle_restart = true;
        self.extra_acked_interval_start = flow.now;
        match self.state {
            State::ProbeRtt => self.check_probe_rtt_done(flow),
            state if state.is_probe_bw() => self.set_pacing_rate(flow, UNIT),
            _ => {}
        }
    }

    /// §5.6.1: the table's gains of the pacing rate …
    fn pacing_gain(&self) -> u64 {
        match self.state {
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain => DRAIN_PACING_GAIN,
            State::Down => PROBE_DOWN_PACING_GAIN,
            State::Up => PROBE_UP_PACING_GAIN,
            State::Cruise | State::Refill | State::ProbeRtt => UNIT,
        }
    }

    /// … and of the window.
    fn cwnd_gain(&self) -> u64 {
        match self.state {
            State::Up => PROBE_UP_CWND_GAIN,
            State::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => DEFAULT_CWND_GAIN,
        }
    }

    /// §5.6.2 InitPacingRate.
    fn init_pacing_rate(&self, flow: &mut Flow) {
        let rtt = if flow.srtt > 0 { flow.srtt } else { 1000 };
        flow.pace(flow.rate(u64::from(flow.iw) * BW_UNIT / rtt, STARTUP_PACING_GAIN, BITS));
    }

    /// §5.6.2 SetPacingRateWithGain.
    fn set_pacing_rate(&self, flow: &mut Flow, gain: u64) {
        let rate = flow.rate(self.bw, gain, BITS);
        if self.full_bw_reached || rate > flow.pacing_rate {
            flow.pace(rate);
        }
    }

    /// §5.5.1 StartRound.
    fn start_round(&mut self, flow: &Flow) {
        self.next_round_delivered = flow.delivered;
    }

    fn max_bw(&self) -> u64 {
        self.max_bw_filter[0].max(self.max_bw_filter[1])
    }

    /// §5.2.4 HandleLostPacket.
    fn on_loss(&mut self, flow: &Flow, loss: &Loss) {
        self.note_loss(flow);
        if loss.seq != self.last_lost.wrapping_add(1) {
            self.loss_events += 1;
        }
        self.last_lost = loss.seq;
        self.judge_loss(flow, loss);
    }
}

/// RS.delivery_rate; 0 where there is none.
fn delivery_rate(sample: &RateSample) -> u64 {
    match (sample.delivered, sample.interval) {
        (Some(delivered), Some(interval)) => u64::from(delivered) * BW_UNIT / interval,
        _ => 0,
    }
}
