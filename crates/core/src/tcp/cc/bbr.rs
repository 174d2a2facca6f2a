//! BBR, version 1, as in Linux (`tcp_bbr.c`; Cardwell and others, "BBR: Congestion-Based Congestion Control", 2016).
//!
//! It keeps a model of the path: the largest delivery rate of the last ten round trips and the smallest RTT of the last
//! ten seconds. It sends at that rate and keeps at most twice the product of both in flight. To find a higher rate it
//! sends a quarter faster for one round trip in eight, and a quarter slower in the next. To find a smaller RTT it sends
//! almost nothing for 200 ms every ten seconds. Losses do not reduce its rate, unless they show the rate of a policer.
//!
//! Deviations: none known. The ticks with which it measures the age of the RTT are counted from the start of the run.

mod bandwidth;
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
use bandwidth::{Aggregation, LongTerm};
use probe_bw::ProbeBw;
use probe_rtt::ProbeRtt;

/// Gains are in 256ths (`BBR_UNIT`).
const BITS: u32 = 8;
const UNIT: u64 = 1 << BITS;
/// `bbr_high_gain`: 2/ln 2, with which the rate doubles each round trip.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
/// `bbr_drain_gain`: its inverse.
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
/// `bbr_cwnd_gain`: room for delayed and stretched ACKs.
const CWND_GAIN: u64 = UNIT * 2;
/// `bbr_bw_rtts`: the window of the bandwidth's maximum in round trips.
const BW_RTTS: u32 = probe_bw::CYCLE_LEN as u32 + 2;
/// `bbr_cwnd_min_target`: the smallest window. With an ACK for every other segment, four segments keep the pipe busy.
const CWND_MIN_TARGET: u32 = 4;

/// The state machine (Linux `enum bbr_mode`), with the data of each state.
///
/// ```text
///      +---------> Startup --------------------+
///      |              | the pipe is full       |
///      |              v                        |
///      |            Drain ---------------------+ no RTT as small as the
///      |              | the queue is gone      | smallest was seen for 10 s
///      |              v                        v
///      |           ProbeBw ---------------> ProbeRtt
///      |              ^                        |
///      |              | 200 ms and a round     |
///      |              | trip, the pipe is full |
///      |              +------------------------+
///      +---------------------------------------+
///                        the pipe was not full yet
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Doubles the rate each round trip.
    Startup,
    /// Drains the queue that Startup built.
    Drain,
    /// Cycles around the estimated bandwidth.
    ProbeBw(ProbeBw),
    /// Sends little, to measure the path without a queue.
    ProbeRtt(ProbeRtt),
}

impl Mode {
    /// The state without its data.
    fn kind(self) -> Kind {
        match self {
            Mode::Startup => Kind::Startup,
            Mode::Drain => Kind::Drain,
            Mode::ProbeBw(_) => Kind::ProbeBw,
            Mode::ProbeRtt(_) => Kind::ProbeRtt,
        }
    }
}

/// A state by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

impl Kind {
    /// Returns whether the state machine has this transition.
    fn leads_to(self, next: Kind) -> bool {
        match (self, next) {
            (Kind::Startup, Kind::Drain) | (Kind::Drain, Kind::ProbeBw) => true,
            // The cycle begins again when a policer's rate is no longer used.
            (Kind::ProbeBw, Kind::ProbeBw) => true,
            (Kind::Startup | Kind::Drain | Kind::ProbeBw, Kind::ProbeRtt) => true,
            (Kind::ProbeRtt, Kind::ProbeBw | Kind::Startup) => true,
            _ => false,
        }
    }
}

/// Whether the pipe is full: the bandwidth has stopped growing.
#[derive(Clone, Default, Debug, PartialEq)]
struct FullPipe {
    /// The pipe has been full (`bbr_full_bw_reached`).
    reached: bool,
    /// The bandwidth when it last grew by a quarter.
    bw: u64,
    /// Round trips since then.
    cnt: u32,
}

/// Round trips, counted by deliveries.
#[derive(Clone, Default, Debug, PartialEq)]
struct Rounds {
    /// Rounds that are over (`rtt_cnt`).
    cnt: u32,
    /// The current round ends with the delivery of a segment that was sent after this many had been delivered
    /// (`next_rtt_delivered`).
    next_delivered: u32,
    /// The current ACK ended a round (`round_start`).
    is_start: bool,
}

/// The state of the window during and after a recovery.
#[derive(Clone, Debug, PartialEq)]
struct Restoration {
    /// The recovery that the sender was in at the last ACK (`prev_ca_state`).
    prev_repair: Repair,
    /// This is the first round trip of a recovery, in which no more is sent than is delivered.
    packet_conservation: bool,
    /// The window to return to (`prior_cwnd`).
    prior_cwnd: u32,
}

/// The model of the path and the state machine. Names are Linux's (`struct bbr`); times are in µs, windows in segments.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Bbr {
    mode: Mode,
    /// The smallest RTT of the last ten seconds; `u64::MAX` before the first.
    min_rtt: u64,
    /// When this RTT was seen, in ticks.
    min_rtt_stamp: u64,
    /// The largest delivery rate of the last ten round trips.
    bw: Max,
    rounds: Rounds,
    full_pipe: FullPipe,
    restoration: Restoration,
    /// Sending begins again after idle time; until something is delivered the RTT is not probed.
    idle_restart: bool,
    /// In 256ths.
    pacing_gain: u64,
    /// In 256ths.
    cwnd_gain: u64,
    /// There is an RTT sample, from which the first pacing rate was set.
    has_seen_rtt: bool,
    long_term: LongTerm,
    aggregation: Aggregation,
    /// The values from which gains, pacing rate and `target_cwnd` were derived last.
    basis: Option<Basis>,
    /// The window to approach (`bbr_set_cwnd`).
    target_cwnd: u32,
    rng: Rng,
}

/// The values that determine gains, pacing rate and target within a state and its phase. Most ACKs change none of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Basis {
    bw: u64,
    min_rtt: u64,
    /// The pacing rate after the last ACK.
    pacing_rate: u64,
    extra_acked: u32,
    full_bw_reached: bool,
    uses_long_term: bool,
}

impl CongestionControl for Bbr {
    const OPS: Ops = Ops { in_linux: true, rate_based: true, sndbuf_expand: 3, ..Ops::named("bbr") };

    fn new(setup: &Setup) -> Bbr {
        Bbr {
            mode: Mode::Startup,
            min_rtt: u64::MAX,
            min_rtt_stamp: 0,
            bw: Max::default(),
            rounds: Rounds::default(),
            full_pipe: FullPipe::default(),
            restoration: Restoration { prev_repair: Repair::None, packet_conservation: false, prior_cwnd: 0 },
            idle_restart: false,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            has_seen_rtt: false,
            long_term: LongTerm::default(),
            aggregation: Aggregation::default(),
            basis: None,
            target_cwnd: 0,
            rng: Rng::stream(setup.seed, "congestion control"),
        }
    }

    /// `bbr_init`.
    fn init(&mut self, flow: &mut Flow, min_rtt: Option<u64>) {
        self.min_rtt = min_rtt.unwrap_or(u64::MAX);
        self.min_rtt_stamp = flow.jiffies();
        self.rounds.next_delivered = flow.delivered;
        self.long_term = LongTerm::new(flow);
        self.aggregation = Aggregation::new(flow);
        self.init_pacing_rate(flow);
    }

    /// `bbr_main`.
    #[inline(always)]
    fn cong_control(&mut self, flow: &mut Flow, _: &[Loss], sample: &RateSample) {
        self.on_ack(flow, sample);
    }

    fn flow_event(&mut self, flow: &mut Flow, event: FlowEvent<'_>) {
        match event {
            // `bbr_ssthresh`
            FlowEvent::Reduction { .. } => self.save_cwnd(flow.cwnd),
            FlowEvent::Loss { .. } => self.on_timeout(flow),
            FlowEvent::Undo => self.on_undo(flow),
            FlowEvent::TxStart => self.on_tx_start(flow),
        }
    }
}

impl Bbr {
    /// Enters the next state.
    fn enter(&mut self, next: Mode) {
        let (from, to) = (self.mode.kind(), next.kind());
        debug_assert!(from.leads_to(to), "bug: BBR has no transition from {from:?} to {to:?}");
        self.mode = next;
        // Each state has gains of its own.
        self.basis = None;
    }

    /// `bbr_main`.
    #[inline(always)]
    fn on_ack(&mut self, flow: &mut Flow, sample: &RateSample) {
        self.update_bw(flow, sample);
        self.update_ack_aggregation(flow, sample);
        self.update_cycle_phase(flow, sample);
        self.check_full_bw_reached(sample);
        self.check_drain(flow);
        self.update_min_rtt(flow, sample);
        self.follow_basis(flow);
        self.set_cwnd(flow, sample);
    }

    /// Derives gains, pacing rate and target again if they may have changed.
    fn follow_basis(&mut self, flow: &mut Flow) {
        if self.has_seen_rtt && self.basis == Some(self.basis_now(flow)) {
            debug_assert!(self.stands(flow), "bug: something else follows from the same");
            return;
        }
        self.derive(flow);
        self.basis = Some(self.basis_now(flow));
    }

    fn derive(&mut self, flow: &mut Flow) {
        self.update_gains();
        self.set_pacing_rate(flow, self.pacing_gain);
        self.target_cwnd = self.target_cwnd(flow);
    }

    /// Returns whether deriving gains, pacing rate and target again would change nothing.
    fn stands(&self, flow: &Flow) -> bool {
        let (mut bbr, mut again) = (self.clone(), *flow);
        bbr.derive(&mut again);
        let derived = |bbr: &Bbr, flow: &Flow| (bbr.pacing_gain, bbr.cwnd_gain, bbr.target_cwnd, flow.pacing_rate);
        derived(&bbr, &again) == derived(self, flow)
    }

    #[inline(always)]
    fn basis_now(&self, flow: &Flow) -> Basis {
        Basis {
            bw: self.bandwidth(),
            min_rtt: self.min_rtt,
            pacing_rate: flow.pacing_rate,
            extra_acked: self.aggregation.extra_acked(),
            full_bw_reached: self.full_pipe.reached,
            uses_long_term: self.long_term.bw_in_use().is_some(),
        }
    }

    /// `bbr_set_state`: a retransmission timeout.
    fn on_timeout(&mut self, flow: &mut Flow) {
        self.restoration.prev_repair = Repair::Loss;
        self.full_pipe.bw = 0;
        // A timeout ends a round.
        self.rounds.is_start = true;
        self.sample_long_term(flow, &RateSample { losses: 1, ..RateSample::default() });
    }

    /// `bbr_undo_cwnd`: the last reduction proved spurious, because nothing had been lost.
    fn on_undo(&mut self, flow: &Flow) {
        (self.full_pipe.bw, self.full_pipe.cnt) = (0, 0);
        self.long_term.reset(flow);
    }

    /// `bbr_cwnd_event_tx_start`: the sender sends data again, with nothing in flight.
    fn on_tx_start(&mut self, flow: &mut Flow) {
        if !flow.app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(flow.now);
        match self.mode {
            Mode::ProbeBw(_) => self.set_pacing_rate(flow, UNIT),
            Mode::ProbeRtt(_) => self.check_probe_rtt_done(flow),
            Mode::Startup | Mode::Drain => {}
        }
    }

    /// `bbr_bw`: a policer's rate while it is believed, otherwise the estimated bandwidth.
    fn bandwidth(&self) -> u64 {
        self.long_term.bw_in_use().unwrap_or(self.bw.get())
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw(cycle) => (self.cycle_gain(cycle), CWND_GAIN),
            Mode::ProbeRtt(_) => (UNIT, UNIT),
        };
    }

    /// `bbr_init_pacing_rate_from_rtt`: sets the first pacing rate from the window and the RTT. An unknown RTT counts as 1
    /// ms.
    fn init_pacing_rate(&mut self, flow: &mut Flow) {
        self.has_seen_rtt |= flow.srtt > 0;
        let rtt = if flow.srtt > 0 { flow.srtt } else { 1000 };
        flow.pace(flow.rate(u64::from(flow.cwnd) * BW_UNIT / rtt, HIGH_GAIN, BITS));
    }

    /// `bbr_set_pacing_rate`: sets the pacing rate, which only rises until the pipe has been full.
    fn set_pacing_rate(&mut self, flow: &mut Flow, gain: u64) {
        let rate = flow.rate(self.bandwidth(), gain, BITS);
        if !self.has_seen_rtt && flow.srtt > 0 {
            self.init_pacing_rate(flow);
        }
        if self.full_pipe.reached || rate > flow.pacing_rate {
            flow.pace(rate);
        }
    }
}
