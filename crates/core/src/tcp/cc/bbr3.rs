//! BBR, version 3 (draft-ietf-ccwg-bbr-06). Names are the draft's, and § refers to its sections.
//!
//! Like version 1 it sends at the largest delivery rate seen and keeps the bandwidth-delay product in flight, but it also uses
//! losses as evidence about the path. They set two bounds: a short-term one while cruising, which is discarded before the next
//! probe for bandwidth, and a long-term one on the data in flight, found by probing until 2 % are lost. Probes are two to three
//! seconds apart, or as many round trips as Reno would need to grow. The minimum RTT is measured every five seconds with half
//! the product in flight.
//!
//! Deviations: the draft does not define the response to ECN, but asks that a mark count as congestion. Here an ECN echo
//! counts as a loss in its round. A round with at least half of its segments marked had too much in flight (Linux's BBRv3,
//! `bbr_ecn_thresh`). A finer response needs accurate ECN.

mod bounds;
mod probe_bw;
mod probe_rtt;
mod startup;
#[cfg(test)]
mod tests;
mod window;

use super::flow::{BW_UNIT, Flow, FlowEvent, Repair};
use super::minmax::Max;
use super::ops::{CongestionControl, Ops};
use super::setup::Setup;
use crate::rng::Rng;
use crate::tcp::rate::{Loss, RateSample};
use probe_rtt::ProbeRtt;

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

/// §5.1.1: the state machine, with the data of each state.
///
/// ```text
///                Startup ------------------------------+
///                   | the pipe is full                 |
///                   v                                  |
///                 Drain -------------------------------+
///                   | the queue is gone                |
///                   v                                  |
///     +---------> Down --------------------------------+
///     |             | in flight fell below the bounds  |
///     |             v                                  | no RTT as small as the
///     |           Cruise ------------------------------+ smallest was seen for 5 s
///     |             | time to probe (also from Down)   |
///     |             v                                  |
///     |           Refill ------------------------------+
///     |             | a round trip later               |
///     |             v                                  v
///     +------------ Up ---------------------------> ProbeRtt
///   no more bandwidth, or too much lost                |
///                                                      v
///                          Down and Cruise if the pipe was full, else Startup
/// ```
///
/// If a loss that ended Startup proves spurious, Startup is entered again. If a loss that ended Up proves spurious, Refill
/// is entered from Down, Cruise or Refill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Startup,
    /// `start_round` is the number of the round trip in which Drain began.
    Drain {
        start_round: u32,
    },
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt(ProbeRtt),
}

/// A state by its name.
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

impl Phase {
    #[inline]
    fn state(self) -> State {
        match self {
            Phase::Startup => State::Startup,
            Phase::Drain { .. } => State::Drain,
            Phase::Down => State::Down,
            Phase::Cruise => State::Cruise,
            Phase::Refill => State::Refill,
            Phase::Up => State::Up,
            Phase::ProbeRtt(_) => State::ProbeRtt,
        }
    }
}

impl State {
    /// `IsInAProbeBWState`.
    fn is_probe_bw(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// Returns whether the state machine has this transition.
    fn leads_to(self, next: State) -> bool {
        match (self, next) {
            (State::Startup, State::Drain) | (State::Drain, State::Down) => true,
            (State::Down, State::Cruise) | (State::Down | State::Cruise, State::Refill) => true,
            (State::Refill, State::Up) | (State::Up, State::Down) => true,
            (State::ProbeRtt, State::Down | State::Startup) => true,
            (from, State::ProbeRtt) => from != State::ProbeRtt,
            // §5.5.11.2: a loss proved spurious.
            (from, State::Startup) => from != State::Startup,
            (State::Refill, State::Refill) => true,
            _ => false,
        }
    }
}

/// §5.3.3.9: the phase of the probing cycle in which the segments that are now being acknowledged were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// §5.5.11.1: the state that is restored if a recovery proves spurious.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Undo {
    state: Option<State>,
    bounds: Bounds,
}

/// §5.5.1: round trips, counted by deliveries.
#[derive(Clone, Default, Debug, PartialEq)]
struct Rounds {
    count: u32,
    /// The current round ends with the delivery of a segment that was sent after this many had been delivered.
    next_delivered: u32,
    /// This ACK ended one.
    is_start: bool,
}

/// §5.5.7 and §5.3.4.3: the smallest RTT of the last ten seconds (`value`) and of the last five (`probe_min_delay`).
#[derive(Clone, Debug, PartialEq)]
struct MinRtt {
    /// `u64::MAX` before the first sample.
    value: u64,
    stamp: u64,
    probe_min_delay: u64,
    probe_min_stamp: u64,
    /// No RTT as small as `probe_min_delay` was seen for five seconds.
    probe_expired: bool,
}

/// §5.3.1.2: whether the bandwidth still grows.
#[derive(Clone, Default, Debug, PartialEq)]
struct FullPipe {
    /// The bandwidth when it last grew by a quarter.
    bw: u64,
    /// Round trips since then.
    count: u32,
    /// The bandwidth has stopped growing since the estimate was last reset.
    now: bool,
    /// The bandwidth has stopped growing at least once.
    reached: bool,
    /// Number of successive rounds in which at least half of the segments were marked.
    ecn_rounds: u32,
}

/// §5.5.10: losses and deliveries of the round trip under way, counted apart from [`Rounds`].
#[derive(Clone, Debug, PartialEq)]
struct LossRound {
    /// Something was lost in this round.
    has_loss: bool,
    /// The round ends with the delivery of a segment that was sent after this many had been delivered.
    delivered: u32,
    /// This ACK ended one.
    is_start: bool,
    /// Number of ranges of segments lost in this round.
    events: u32,
    /// The last segment of the last lost range.
    last_lost: u32,
    /// The largest delivery rate of this round.
    bw_latest: u64,
    /// The largest number of segments delivered by a sample of this round.
    inflight_latest: u32,
}

/// §5.5.10: the bounds that losses set. The largest number stands for "none".
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    bw_shortterm: u64,
    inflight_shortterm: u32,
    inflight_longterm: u32,
}

impl Bounds {
    const NONE: Bounds = Bounds { bw_shortterm: u64::MAX, inflight_shortterm: NONE, inflight_longterm: NONE };
}

/// §5.3.3: the cycle of probes for bandwidth.
#[derive(Clone, Debug, PartialEq)]
struct Probe {
    ack_phase: AckPhase,
    /// When the cycle began.
    cycle_stamp: u64,
    /// How long after `cycle_stamp` the next probe begins at the latest.
    wait: u64,
    rounds_since_up: u32,
    /// How often the slope of the long-term bound was raised in Up.
    up_rounds: u32,
    up_acked: u32,
    /// The long-term bound rises by one segment for this many acknowledged segments.
    up_acked_per_inc: u32,
    /// The ACKs that arrive now are those of a probe.
    is_sample: bool,
    prev_too_high: bool,
    prev_precautionary: bool,
}

/// §5.5.9: how many more segments than expected were acknowledged in a short time.
#[derive(Clone, Default, Debug, PartialEq)]
struct ExtraAcked {
    filter: Max,
    interval_start: u64,
    delivered: u32,
    value: u32,
}

/// §5.6.4.4: the window to restore after a recovery.
#[derive(Clone, Debug, PartialEq)]
struct Restoration {
    prior_cwnd: u32,
    prev_repair: Repair,
}

/// The model of the path and the state machine. Names are the draft's; times are in µs, bandwidths as in `flow.rs`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Bbr3 {
    phase: Phase,
    rounds: Rounds,
    /// The largest delivery rate of the previous probing cycle, and that of the current one.
    max_bw_filter: [u64; 2],
    /// The bandwidth: the larger of these rates, limited by the short-term bound.
    bw: u64,
    min_rtt: MinRtt,
    full_pipe: FullPipe,
    loss_round: LossRound,
    bounds: Bounds,
    probe: Probe,
    extra_acked: ExtraAcked,
    restoration: Restoration,
    undo: Undo,
    /// Sending begins again after idle time; until something is delivered the RTT is not probed.
    idle_restart: bool,
    rng: Rng,
}

impl CongestionControl for Bbr3 {
    const OPS: Ops = Ops { rate_based: true, sndbuf_expand: 3, ..Ops::named("bbr3") };

    fn new(setup: &Setup) -> Bbr3 {
        let bounds = Bounds { bw_shortterm: 0, inflight_shortterm: 0, inflight_longterm: 0 };
        Bbr3 {
            phase: Phase::Startup,
            rounds: Rounds::default(),
            max_bw_filter: [0; 2],
            bw: 0,
            min_rtt: MinRtt {
                value: u64::MAX,
                stamp: 0,
                probe_min_delay: u64::MAX,
                probe_min_stamp: 0,
                probe_expired: false,
            },
            full_pipe: FullPipe::default(),
            loss_round: LossRound {
                has_loss: false,
                delivered: 0,
                is_start: false,
                events: 0,
                last_lost: NONE,
                bw_latest: 0,
                inflight_latest: 0,
            },
            bounds: Bounds::NONE,
            probe: Probe {
                ack_phase: AckPhase::Init,
                cycle_stamp: 0,
                wait: 0,
                rounds_since_up: 0,
                up_rounds: 0,
                up_acked: 0,
                up_acked_per_inc: NONE,
                is_sample: false,
                prev_too_high: false,
                prev_precautionary: false,
            },
            extra_acked: ExtraAcked::default(),
            restoration: Restoration { prior_cwnd: 0, prev_repair: Repair::None },
            undo: Undo { state: None, bounds },
            idle_restart: false,
            rng: Rng::stream(setup.seed, "congestion control"),
        }
    }

    /// §5.2.1 BBROnInit.
    fn init(&mut self, flow: &mut Flow, min_rtt: Option<u64>) {
        let value = min_rtt.unwrap_or(u64::MAX);
        self.rounds.next_delivered = flow.delivered;
        self.min_rtt =
            MinRtt { value, stamp: flow.now, probe_min_delay: value, probe_min_stamp: flow.now, probe_expired: false };
        self.extra_acked.interval_start = flow.now;
        self.init_pacing_rate(flow);
    }

    /// §5.2.3 BBRUpdateOnACK, after §5.2.4 BBRUpdateOnLoss.
    #[inline(never)]
    fn cong_control(&mut self, flow: &mut Flow, losses: &[Loss], sample: &RateSample) {
        losses.iter().for_each(|loss| self.on_loss(flow, loss));
        self.on_ack(flow, sample);
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
    /// The state by its name.
    #[inline]
    fn state(&self) -> State {
        self.phase.state()
    }

    /// Enters the next state.
    fn enter(&mut self, next: Phase) {
        let (from, to) = (self.state(), next.state());
        debug_assert!(from.leads_to(to), "bug: BBRv3 has no transition from {from:?} to {to:?}");
        self.phase = next;
    }

    /// §5.2.3: handles an ACK with its rate sample.
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
        if self.loss_round.is_start {
            // AdvanceLatestDeliverySignals
            (self.loss_round.bw_latest, self.loss_round.inflight_latest) = (rate, sample.delivered.unwrap_or(0));
        }
        self.bw = self.max_bw().min(self.bounds.bw_shortterm);
        self.set_pacing_rate(flow, self.pacing_gain());
        self.set_cwnd(flow, sample);
    }

    /// §5.6.4.4 OnEnterFastRecovery. With `by_echo`, it is the first ECN echo of a window, which counts as a loss in its
    /// round.
    fn on_reduction(&mut self, flow: &Flow, by_echo: bool) {
        if by_echo {
            return self.note_loss(flow);
        }
        self.save_cwnd(flow.cwnd);
        self.save_state_upon_loss();
    }

    /// §5.6.4.4 OnEnterRTO. The window is already one segment; `before` is the window before the timeout.
    fn on_timeout(&mut self, before: u32) {
        self.save_cwnd(before);
        self.save_state_upon_loss();
        self.restoration.prev_repair = Repair::Loss;
    }

    /// §5.2.2: the sender sends data again, with nothing in flight.
    fn on_tx_start(&mut self, flow: &mut Flow) {
        // §5.4.1 HandleRestartFromIdle
        if !flow.app_limited {
            return;
        }
        self.idle_restart = true;
        self.extra_acked.interval_start = flow.now;
        match self.state() {
            State::ProbeRtt => self.check_probe_rtt_done(flow),
            state if state.is_probe_bw() => self.set_pacing_rate(flow, UNIT),
            _ => {}
        }
    }

    /// §5.6.1: the gain of the pacing rate in the current state.
    fn pacing_gain(&self) -> u64 {
        match self.state() {
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain => DRAIN_PACING_GAIN,
            State::Down => PROBE_DOWN_PACING_GAIN,
            State::Up => PROBE_UP_PACING_GAIN,
            State::Cruise | State::Refill | State::ProbeRtt => UNIT,
        }
    }

    /// §5.6.1: the gain of the window in the current state.
    fn cwnd_gain(&self) -> u64 {
        match self.state() {
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
        if self.full_pipe.reached || rate > flow.pacing_rate {
            flow.pace(rate);
        }
    }

    /// §5.5.1 StartRound.
    fn start_round(&mut self, flow: &Flow) {
        self.rounds.next_delivered = flow.delivered;
    }

    fn max_bw(&self) -> u64 {
        self.max_bw_filter[0].max(self.max_bw_filter[1])
    }

    /// §5.2.4 HandleLostPacket.
    fn on_loss(&mut self, flow: &Flow, loss: &Loss) {
        self.note_loss(flow);
        if loss.seq != self.loss_round.last_lost.wrapping_add(1) {
            self.loss_round.events += 1;
        }
        self.loss_round.last_lost = loss.seq;
        self.judge_loss(flow, loss);
    }
}

/// The delivery rate of a sample (RS.delivery_rate); 0 if the sample has none.
fn delivery_rate(sample: &RateSample) -> u64 {
    match (sample.delivered, sample.interval) {
        (Some(delivered), Some(interval)) => u64::from(delivered) * BW_UNIT / interval,
        _ => 0,
    }
}
