//! Queue disciplines: the interface, and the closed list of what we have.
//!
//! A discipline is generic over the packet it holds. It never looks at a clock: `now` is an argument, and
//! [`Qdisc::next_event`] says when a discipline that held a packet back wants to be asked again. Drops are handed back
//! with their reason; a mark is a packet that leaves with CE set.

mod any;
pub mod blue;
pub mod cake;
pub mod ccaq;
#[cfg(test)]
mod changes;
pub mod choke;
pub mod codel;
pub mod dualpi2;
pub mod fifo;
mod flows;
pub mod fq;
pub mod fq_codel;
pub mod fq_pie;
pub mod htb;
mod jiffies;
pub mod linux;
mod list;
pub mod param;
pub mod pie;
pub mod prio;
mod psched;
pub mod red;
pub mod sfb;
pub mod sfq;
mod siphash;
pub mod stats;
pub mod tbf;
pub mod tc;
#[cfg(test)]
pub(crate) mod testing;

use alloc::vec::Vec;

pub use any::AnyQdisc;
pub use stats::{Child, Count, Stats};

use crate::cache::Cache;
use crate::packet::{Packet, Segment};
use crate::units::{Rate, Span, Time};

/// Why a packet was dropped: the closed list that every world and file uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum DropReason {
    /// The discipline's packet or byte limit; also what a change of parameters drops, or a hop that throws its queue away.
    Overlimit,
    /// One flow's own packet limit (fq, ccaq).
    FlowLimit,
    /// The memory limit (fq_codel, dualpi2).
    MemoryLimit,
    /// CoDel's control law.
    Codel,
    /// A random early drop (RED, BLUE, PIE, dualpi2).
    Early,
    /// RED above its thresholds.
    Forced,
    /// ccaq shrank a flow's buffer: what stood above the new limit.
    Shrink,
    /// The link has no queue and was busy (noqueue).
    Busy,
    /// Lost on the way, not in a queue (impairments).
    Loss,
    /// It met a packet of its own flow in the queue (choke).
    Matched,
    /// The packet's flow does not respond (sfb).
    Penalty,
    /// An ACK that says nothing which a newer one doesn't say (cake).
    AckFilter,
}

impl DropReason {
    /// Every reason, in order of their numbers.
    pub const ALL: [DropReason; 12] = [
        DropReason::Overlimit,
        DropReason::FlowLimit,
        DropReason::MemoryLimit,
        DropReason::Codel,
        DropReason::Early,
        DropReason::Forced,
        DropReason::Shrink,
        DropReason::Busy,
        DropReason::Loss,
        DropReason::Matched,
        DropReason::Penalty,
        DropReason::AckFilter,
    ];

    /// The name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Overlimit => "overlimit",
            DropReason::FlowLimit => "flow_limit",
            DropReason::MemoryLimit => "memory_limit",
            DropReason::Codel => "codel",
            DropReason::Early => "early",
            DropReason::Forced => "forced",
            DropReason::Shrink => "shrink",
            DropReason::Busy => "busy",
            DropReason::Loss => "loss",
            DropReason::Matched => "matched",
            DropReason::Penalty => "penalty",
            DropReason::AckFilter => "ack_filter",
        }
    }
}

/// Receives a discipline's dropped packets, and answers what the discipline asks of the world around it.
pub trait Drops<P> {
    /// Takes a packet that the discipline dropped.
    fn dropped(&mut self, packet: P, reason: DropReason);

    /// The TCP segment that a packet carries; `None` if it carries none. A world that keeps parts of the segment outside
    /// of its packets (SACK blocks) overrides this and looks them up.
    fn segment(&self, packet: &P) -> Option<Segment>
    where
        P: Packet,
    {
        packet.segment()
    }
}

/// Drops into a list, for tests and replay.
impl<P> Drops<P> for alloc::vec::Vec<(P, DropReason)> {
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self.push((packet, reason));
    }
}

/// How Linux's counters take a packet that a change of parameters drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// As one that left: the change dequeues it, which counts packets and bytes.
    pub sent: bool,
    /// As a drop.
    pub dropped: bool,
}

/// The discipline keeps its parameters for as long as it stands: see [`Qdisc::change`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unchangeable;

/// A queue discipline.
pub trait Qdisc<P: Packet> {
    /// Its parameters.
    type Params;

    /// A packet arrives. It is stamped with `now`, and kept or dropped (it, or another in its place).
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut impl Drops<P>);

    /// Enqueues a packet as Linux's stack does (`__dev_xmit_skb`). If a discipline with `TCQ_F_CAN_BYPASS` is empty and
    /// `may_pass` is set, the packet bypasses it: the discipline's state does not change and `true` is returned. The caller
    /// then gives the packet to the device, or keeps it until the device is free ([`Qdisc::requeued`]).
    #[inline(always)]
    fn admit(&mut self, now: Time, packet: P, _may_pass: bool, drops: &mut impl Drops<P>) -> bool {
        self.enqueue(now, packet, drops);
        false
    }

    /// The stack keeps a packet before the device (`gso_skb`), or no longer does. Meanwhile it counts towards the limit
    /// in packets of a discipline that lets packets pass; [`Qdisc::packets`] and [`Qdisc::backlog`] do not count it.
    /// Returns false if the queue is above its limit after the call.
    fn requeued(&mut self, _is: bool) -> bool {
        true
    }

    /// Packets arrive at the same time, one after the other.
    #[inline(always)]
    fn enqueue_all(&mut self, now: Time, packets: impl Iterator<Item = P>, drops: &mut impl Drops<P>) {
        for packet in packets {
            self.enqueue(now, packet, drops);
        }
    }

    /// The link is free. A dequeue of an empty discipline counts too: it resets CoDel and starts RED's idle time.
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P>;

    /// As [`Qdisc::dequeue`], but the packet is put where the caller wants it: one copy less. Whether there was one.
    #[inline(always)]
    fn dequeue_into(&mut self, now: Time, packet: &mut P, drops: &mut impl Drops<P>) -> bool {
        match self.dequeue(now, drops) {
            Some(next) => {
                *packet = next;
                true
            }
            None => false,
        }
    }

    /// Takes on other parameters while packets may wait, as `tc qdisc change` does to the kernel's discipline: what the
    /// kernel then drops is handed over as [`DropReason::Overlimit`]. All of `params` count: [`tc::Spec::changed`] makes them of
    /// the present ones and a line.
    ///
    /// # Errors
    /// The discipline cannot be changed while it stands. Nothing is changed then.
    fn change(&mut self, now: Time, params: &Self::Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        let _ = (now, params, drops);
        Err(Unchangeable)
    }

    /// How the packets that [`Qdisc::change`] drops are counted: as drops, unless a discipline does otherwise.
    fn counts_change(&self) -> Given {
        Given { sent: false, dropped: true }
    }

    /// When to ask again after a dequeue gave nothing although packets are queued (pacing, shaping); else never.
    fn next_event(&self) -> Time {
        Time::NEVER
    }

    /// Packets queued.
    fn packets(&self) -> usize;

    /// Bytes queued.
    fn backlog(&self) -> u64;

    /// Whether a further packet of `mtu` bytes would meet a full buffer (one of its own flow set aside).
    fn is_full(&self, mtu: u32) -> bool;

    /// Whether there is no buffer at all (noqueue). A world then drops what arrives while its link is busy, with
    /// [`DropReason::Busy`], and hands the rest through `enqueue` and `dequeue` at one instant.
    fn bufferless(&self) -> bool {
        false
    }

    /// Prefetches state for packets that are likely to be dequeued soon. The next `packets` packets are skipped, about as many
    /// behind them are shown to `see`, and the state of those behind these is prefetched. A hint: results never depend on it.
    fn prefetch(&self, _packets: usize, _cache: &impl Cache, _see: impl FnMut(&P)) {}

    /// The discipline's own counters and state under the keys of `tc -s -j qdisc`, in its order; times in microseconds.
    /// The caller counts what every discipline has: packets and bytes sent, drops, packets and bytes queued.
    fn stats(&self) -> Stats {
        Vec::new()
    }

    /// How often a packet met a limit, in the sense that Linux gives `overlimits` for this discipline.
    fn overlimits(&self) -> u64 {
        0
    }

    /// Sums over the flows that `tc -s class` lists now, where the discipline has a class for each flow.
    fn classes(&self) -> Option<Stats> {
        None
    }

    /// The discipline below a shaper.
    fn child(&self) -> Option<Child> {
        None
    }
}

/// The facts that a discipline may know about its link.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The largest packet in bytes as the link counts it (`psched_mtu`: IP MTU plus overhead).
    pub mtu: u32,
    /// Bytes of a packet's length before its IP header (14 on Ethernet).
    pub overhead: u32,
    /// The link's rate at the start of the run.
    pub rate: Rate,
    /// The link's own one-way delay.
    pub delay: Span,
    /// Bytes that a packet takes of a limit of memory beyond its length (Linux counts the whole buffer, `truesize`).
    pub skb: u32,
    /// Seed of the discipline's random numbers.
    pub seed: u64,
}
