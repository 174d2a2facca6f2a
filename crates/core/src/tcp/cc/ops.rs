//! The operations of a congestion control: the trait that each algorithm implements, and the arguments of its methods.
//!
//! This file knows no algorithm. Each algorithm depends on it, and the list in `cc.rs` depends on all algorithms.

use super::cwnd::Cwnd;
use super::flow::{Flow, FlowEvent};
use super::setup::Setup;
use crate::tcp::pacing::PACING_SHIFT;
use crate::tcp::rate::{Loss, RateSample};
use crate::tcp::undo::Prior;
use crate::units::{Span, Time};

/// The sample of an ACK for a congestion control (Linux `struct ack_sample`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::tcp) struct AckSample {
    /// The time of the ACK's arrival.
    pub now: Time,
    /// The smoothed RTT in seconds; 0 before the first sample.
    pub srtt: f64,
    /// The RTT in µs of the segment that triggered the ACK.
    pub rtt_us: u32,
    /// The lowest segment not acknowledged, once this ACK has been processed.
    pub snd_una: u32,
    /// The next segment to be sent for the first time.
    pub snd_nxt: u32,
}

/// A congestion event: something asks for a smaller window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::tcp) struct Congestion {
    /// Segments outstanding, at most the window (RFC 5681's FlightSize).
    pub flight: f64,
    /// An ECN echo shows the congestion; otherwise a loss does.
    pub ece: bool,
}

/// The answer to a congestion event, in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::tcp) struct Reduction {
    /// The window from which the reduction starts. PRR spreads the reduction over the delivery of this many segments (RFC
    /// 6937 RecoverFS).
    pub from: f64,
    /// The new slow start threshold, to which the window falls.
    pub ssthresh: f64,
}

/// Which ECN feedback an algorithm needs of the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tcp) enum EcnUse {
    /// None: it works without ECN, and an echo counts as a loss (RFC 3168).
    Optional,
    /// The exact echo of DCTCP (RFC 8257 §3.2); all packets are ECT(0).
    Dctcp,
    /// Accurate ECN (RFC 9768) for L4S queues (RFC 9331); data packets are ECT(1).
    L4s,
}

/// The constants of an algorithm: the part of `tcp_congestion_ops` that is data.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Ops {
    /// The name in scenario files.
    pub name: &'static str,
    /// Mainline Linux has the same algorithm by this name.
    pub in_linux: bool,
    /// The algorithm sets window and pacing rate in `cong_control`.
    pub rate_based: bool,
    /// The ECN feedback it needs.
    pub ecn: EcnUse,
    /// How many windows the send buffer has room for (Linux `sndbuf_expand`).
    pub sndbuf_expand: u32,
    /// A paced burst is the data that the pacing rate sends in 2^-`pacing_shift` seconds (Linux `sk_pacing_shift`).
    pub pacing_shift: u32,
}

impl Ops {
    /// The constants of a window-driven algorithm that Linux does not have.
    pub const fn named(name: &'static str) -> Ops {
        Ops {
            name,
            in_linux: false,
            rate_based: false,
            ecn: EcnUse::Optional,
            sndbuf_expand: 2,
            pacing_shift: PACING_SHIFT,
        }
    }
}

/// A congestion control algorithm. Windows and counts are in segments.
///
/// The first group of methods is for window-driven algorithms, the second for rate-based ones (`OPS.rate_based`); no algorithm
/// needs both. Methods without a body must be written, the others only where the algorithm does something there.
pub(in crate::tcp) trait CongestionControl {
    /// The algorithm's constants.
    const OPS: Ops;

    /// The state of a connection that is not established yet.
    fn new(setup: &Setup) -> Self;

    /// Grows the window, in slow start or congestion avoidance, after the delivery of `acked` segments. Called only if the
    /// window limited the sender.
    fn cong_avoid(&mut self, _cwnd: &mut Cwnd, _acked: u32, _ack: &AckSample) {}

    /// Returns the slow start threshold after a congestion event.
    fn ssthresh(&mut self, cwnd: &Cwnd, _event: &Congestion) -> Reduction {
        Reduction { from: cwnd.get(), ssthresh: cwnd.ssthresh() }
    }

    /// Returns the window after a reduction proved spurious. `prior` is the state before the reduction.
    fn undo_cwnd(&self, cwnd: &Cwnd, prior: &Prior) -> f64 {
        cwnd.get().max(prior.cwnd)
    }

    /// Called before the window grows, for an ACK that acknowledges new segments outside of loss recovery.
    fn pkts_acked(&mut self, _cwnd: &mut Cwnd, _ack: &AckSample) {}

    /// Called for every ACK, before the window responds. The ACK delivers `delivered` segments; `ece` tells whether it
    /// echoes ECN marks.
    fn in_ack_event(&mut self, _delivered: u32, _ece: bool, _ack: &AckSample) {}

    /// Called after a retransmission timeout has set the window to one segment.
    fn on_loss_timeout(&mut self) {}

    /// Called when data is sent at `now` after `idle` time with nothing outstanding (`CA_EVENT_TX_START`).
    fn on_tx_start(&mut self, _now: Time, _idle: Span) {}

    /// Sets the first window and pacing rate when the connection is established. `min_rtt` is the RTT of the handshake in
    /// µs.
    fn init(&mut self, _flow: &mut Flow, _min_rtt: Option<u64>) {}

    /// Sets window and pacing rate. Called for every ACK, with its rate sample and the losses that it showed.
    fn cong_control(&mut self, _flow: &mut Flow, _losses: &[Loss], _sample: &RateSample) {}

    /// Handles an event of the connection other than an ACK.
    fn flow_event(&mut self, _flow: &mut Flow, _event: FlowEvent<'_>) {}
}
