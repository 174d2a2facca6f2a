//! A sans-IO TCP: sender and receiver without sockets or clocks.
//!
//! Sequence numbers count segments, not bytes: every segment but an application's last is a full MSS.

use core::ops::Range;

use crate::packet::Ecn;
use crate::tcp::cc::EcnUse;
use crate::units::Span;

mod bursts;
mod cc;
mod compress;
mod counters;
mod delack;
mod gro;
mod half_open;
mod pacing;
mod prr;
mod rack;
mod rate;
mod receiver;
mod rto;
mod scoreboard;
mod send_buffer;
mod sender;
mod sent;
mod small_queue;
mod stream;
#[cfg(test)]
mod tests;
mod tlp;
mod ts_recent;
mod undo;
mod window;

pub use cc::{Cc, HyStart, Windows};
pub use counters::Counters;
pub use half_open::HalfOpen;
pub use receiver::{Arrival, Receiver};
pub use sender::Sender;
pub use ts_recent::{Age, TsRecent};

/// When a receiver acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckPolicy {
    /// Every second full segment or after the delayed-ACK time (RFC 5681 §4.2), with Linux's quick ACKs if asked for.
    Delayed,
    /// Every segment at once.
    Every,
    /// One ACK for this number of segments, or after the delayed-ACK time. Without a number, one ACK for the sender's whole
    /// window: the sender then has nothing in flight while the ACK is on its way.
    Window(Option<u32>),
}

/// How losses are found and repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// As in current Linux: RACK-TLP (RFC 8985), F-RTO (RFC 5682), and DSACK (RFC 2883) with undo of spurious retransmissions.
    Rack,
    /// A segment is lost when three segments above it are SACKed (RFC 6675): as in Linux until about 2016, and in most simulators.
    Rfc6675,
}

/// Both ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Congestion control.
    pub cc: Cc,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// IP and TCP header bytes of a segment: 52 with timestamps, 40 without. A pure ACK is this long.
    pub header: u32,
    /// Initial window in segments.
    pub iw: u32,
    /// Largest receive window that is ever offered, in segments.
    pub rwnd: u32,
    /// Largest receive buffer in bytes (Linux `tcp_rmem[2]`). The receiver tunes its buffer and the offered window up to this size.
    /// Without one, it offers `rwnd` from the start.
    pub rmem: Option<u32>,
    /// Largest send buffer in bytes (Linux `tcp_wmem[2]`). The sender tunes its buffer up to this size, and the application waits
    /// while the buffer is full. Without one, the buffer takes all data at once.
    pub wmem: Option<u32>,
    /// ECN is negotiated: that of RFC 3168, or the variant that the congestion control needs.
    pub ecn: bool,
    /// RFC 7323 timestamps: an RTT sample from every ACK, also after retransmissions.
    pub timestamps: bool,
    /// When the receiver acknowledges.
    pub acks: AckPolicy,
    /// Linux's quick ACKs at the start of a connection, after a pause and after a duplicate segment (with
    /// [`AckPolicy::Delayed`]).
    pub quickack: bool,
    /// The most ACKs of out-of-order segments that may be compressed into one (Linux `tcp_comp_sack_nr`); 0 turns compression off.
    pub comp_sack_nr: u8,
    /// The algorithm that ends slow start before a loss does.
    pub hystart: HyStart,
    /// How windows are counted: in whole segments, as in Linux, or with fractions.
    pub windows: Windows,
    /// Lower bound of the retransmission timeout: 1 s in RFC 6298, 200 ms in Linux.
    pub rto_min: Span,
    /// Whether the RTO is computed as in Linux: the lower bound applies to the variance term instead of the timeout, a
    /// falling RTT raises the variance term only slightly, and a timeout that the timestamps show to be spurious is
    /// undone.
    pub linux_rto: bool,
    /// How losses are found and repaired.
    pub recovery: Recovery,
    /// The most segments that TCP hands down in one packet (Linux `gso_max_segs`). With 1, each segment is sent as soon as the
    /// window has room for it.
    pub gso_max_segs: u32,
    /// Most bytes of a connection that may wait in the queue of its own host (Linux `tcp_limit_output_bytes`). The bound has an
    /// effect only if the host reports departures ([`Sender::departs`]).
    pub tsq: Option<u32>,
    /// The time for which a receiver's network card holds segments to merge them (Linux `gro_flush_timeout`); with zero it holds none.
    pub gro_flush_timeout: Span,
    /// Linux's HZ: ticks a second of the clock that CUBIC's growth, BBR's search for the RTT, and the shortest timers are based on.
    pub hz: u32,
    /// The seed of the congestion control's random numbers.
    pub seed: u64,
}

impl Config {
    /// The ECN field of ECN-capable segments: ECT(1) for congestion controls that respond to an L4S queue (RFC 9331 §4.1).
    pub const fn ect(&self) -> Ecn {
        match self.cc.ops().ecn {
            _ if !self.ecn => Ecn::NotEct,
            EcnUse::L4s => Ecn::Ect1,
            EcnUse::Dctcp | EcnUse::Optional => Ecn::Ect0,
        }
    }

    /// The ECN field of ACKs without data. Linux `tcp_ecn_send` leaves them ECN-capable where the congestion control needs ECN.
    /// Linux has no Prague; its ACKs are not ECN-capable here.
    pub fn ect_of_acks(&self) -> Ecn {
        if self.cc.ops().ecn == EcnUse::Dctcp { self.ect() } else { Ecn::NotEct }
    }

    /// The receive window that is tuned; `None` if the receiver always offers `rwnd`.
    fn tuned_window(&self) -> Option<window::Window> {
        self.rmem.map(|rmem| window::Window::new(rmem, self.rwnd, self.mss, self.mss + self.header - 40))
    }

    /// The window of a receiver whose buffer has no bound in the scenario; `None` if the window has one. It never limits the sender, so
    /// it is not offered.
    fn hidden_window(&self) -> Option<window::Window> {
        let unbounded = self.rmem.is_none() && self.rwnd == u32::MAX;
        unbounded.then(|| window::Window::hidden(self.mss, self.mss + self.header - 40))
    }

    /// The window that SYN and SYN-ACK offer, in segments.
    pub fn first_window(&self) -> u32 {
        self.tuned_window().map_or(self.rwnd, |window| window.first()).max(1)
    }
}

impl Default for Config {
    /// A current Linux host: CUBIC, IW 10, 1448 of 1500 bytes.
    fn default() -> Self {
        Config {
            cc: Cc::Cubic,
            mss: 1448,
            header: 52,
            iw: 10,
            rwnd: u32::MAX,
            rmem: None,
            wmem: None,
            ecn: false,
            timestamps: true,
            acks: AckPolicy::Delayed,
            quickack: true,
            comp_sack_nr: 0,
            hystart: HyStart::Linux,
            windows: Windows::Linux,
            rto_min: Span::from_millis(200),
            linux_rto: true,
            recovery: Recovery::Rack,
            gso_max_segs: 1,
            tsq: None,
            gro_flush_timeout: Span::ZERO,
            hz: 250,
            seed: 0,
        }
    }
}

/// An ACK, without its SACK blocks, which are passed separately.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ack {
    /// The next segment expected: everything below has arrived.
    pub cum: u32,
    /// The timestamp echo, in µs modulo 2^32: the send time of the earliest segment that this ACK covers (RFC 7323 §4.3). It gives
    /// RTT samples for the RTO.
    pub ts_first: u32,
    /// Send time of the segment that triggered this ACK, in µs modulo 2^32. It gives RTT samples for the congestion control.
    pub ts_last: u32,
    /// Segments that the receiver can take beyond `cum`.
    pub window: u32,
    /// The header's bits AE, CWR and ECE as a number. Without accurate ECN, 1 is the ECN echo (RFC 3168 §6.1). With it, this is
    /// the number of segments that arrived marked, counted from 5 and modulo 8 (RFC 9768 §3.2.2).
    pub ace: u8,
    /// This is the SYN-ACK.
    pub syn: bool,
}

impl Ack {
    /// ECN echo (RFC 3168 §6.1).
    #[inline]
    pub const fn ece(&self) -> bool {
        self.ace & 1 != 0
    }
}

/// A range of segments received out of order: [start, end).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Block {
    /// First segment held.
    pub start: u32,
    /// First segment not held.
    pub end: u32,
}

/// A segment that a sender wants sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Segment number; 0 for a SYN.
    pub seq: u32,
    /// Payload bytes; 0 for a SYN.
    pub payload: u32,
    /// A retransmission.
    pub retransmit: bool,
    /// A SYN.
    pub syn: bool,
    /// The segment is ECN-capable. By RFC 3168 §6.1.5 only new data is; if the congestion control needs ECN, every segment is.
    pub ect: bool,
    /// Congestion window reduced (RFC 3168 §6.1.2).
    pub cwr: bool,
    /// PSH is set: this is the last segment of a burst of several, or the last one that the application wrote.
    pub push: bool,
}

/// New full segments that leave at once, in bursts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Their segment numbers.
    pub segments: Range<u32>,
    /// The number of segments in a burst; the last burst may be shorter.
    pub burst: u32,
    /// The run ends with the last segment that the application wrote.
    pub ends: bool,
}

impl Run {
    /// The number of segments.
    #[inline]
    pub fn count(&self) -> u32 {
        self.segments.end - self.segments.start
    }

    /// Returns whether any of them has PSH.
    #[inline]
    pub fn pushes(&self) -> bool {
        self.ends || (self.burst > 1 && self.count() > 1)
    }

    /// Returns whether this segment has PSH.
    #[inline]
    pub fn is_pushed(&self, number: u32) -> bool {
        let (nth, count) = (number - self.segments.start + 1, self.count());
        if nth < count {
            // Most runs are a single burst.
            return count > self.burst && self.burst > 1 && nth.is_multiple_of(self.burst);
        }
        self.ends || (self.burst > 1 && count % self.burst != 1)
    }
}

/// The effects of an ACK on which measurements are based.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Acked {
    /// Payload bytes that this ACK acknowledged cumulatively.
    pub payload: u64,
    /// RACK.rtt (RFC 8985) as the ACK arrives, if it acknowledges data: the RTT of the segment whose delivery the sender learnt of
    /// last. The kernel world reads the same number of Linux. SRTT takes the RTT of the oldest segment that an ACK acknowledges,
    /// which contains the time that the ACK was delayed.
    pub rtt: Option<Span>,
}
