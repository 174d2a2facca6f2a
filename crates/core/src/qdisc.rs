//! Queue disciplines: the interface, and the list of all disciplines.
//!
//! A discipline is generic over the packet type. It never reads a clock: `now` is an argument, and
//! [`Qdisc::next_event`] returns the time at which a discipline that holds packets back should be dequeued again.
//! Dropped packets are returned with a reason; a marked packet leaves with CE set.

mod any;
pub mod blue;
pub mod cake;
pub mod ccaq;
#[cfg(test)]
mod changes;
pub mod choke;
pub mod codel;
pub mod dualpi2;
pub mod external;
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
pub use psched::LinkLayer;
pub use stats::{Child, Count, Stats};

use crate::cache::Cache;
use crate::packet::{Packet, Segment};
use crate::units::{Rate, Span, Time};

/// Why a packet was dropped: the closed list that every world and file uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum DropReason {
    /// The discipline's limit of packets or bytes. Also used for packets dropped by a change of parameters, or by a hop
    /// that flushes its queue.
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
    /// ccaq lowered a flow's limit, and the packet was beyond the new one.
    Shrink,
    /// The link has no queue and was busy (noqueue).
    Busy,
    /// Lost outside of a queue: by an impairment, whether by its rule of losses or by its limit.
    Loss,
    /// The packet drawn from the queue belonged to the same flow (choke).
    Matched,
    /// The packet's flow does not respond (sfb, ccaq).
    Penalty,
    /// A newer ACK made this one redundant (cake).
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

/// Receives the packets that a discipline drops, and answers its questions about packets.
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

/// Collects dropped packets in a list, for tests and replay.
impl<P> Drops<P> for alloc::vec::Vec<(P, DropReason)> {
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self.push((packet, reason));
    }
}

/// How Linux counts a packet that a change of parameters drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// Linux takes the packet out by its own dequeue before it drops it, which counts it as sent.
    pub sent: bool,
    /// Linux counts the packet as dropped.
    pub dropped: bool,
}

/// The error of [`Qdisc::change`] for a discipline whose parameters cannot be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unchangeable;

/// A queue discipline.
pub trait Qdisc<P: Packet> {
    /// The discipline's parameters.
    type Params;

    /// Enqueues a packet, stamped with `now`. The packet, or others instead of it, may be dropped.
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut impl Drops<P>);

    /// Enqueues a packet as Linux's stack does (`__dev_xmit_skb`). If a discipline with `TCQ_F_CAN_BYPASS` is empty and
    /// `may_pass` is set, the packet bypasses it: the discipline's state does not change and `true` is returned. The caller
    /// then gives the packet to the device, or keeps it until the device is free ([`Qdisc::requeued`]).
    #[inline(always)]
    fn admit(&mut self, now: Time, packet: P, _may_pass: bool, drops: &mut impl Drops<P>) -> bool {
        self.enqueue(now, packet, drops);
        false
    }

    /// Tells the discipline that the stack has begun or ceased to hold a packet in front of the device (`gso_skb`).
    /// Meanwhile that packet counts towards the limit of a discipline that packets can bypass; [`Qdisc::packets`] and
    /// [`Qdisc::backlog`] do not include it. Returns false if the queue is above its limit after the call.
    fn requeued(&mut self, _is: bool) -> bool {
        true
    }

    /// Enqueues packets that arrive at the same time, one after the other.
    #[inline(always)]
    fn enqueue_all(&mut self, now: Time, packets: impl Iterator<Item = P>, drops: &mut impl Drops<P>) {
        for packet in packets {
            self.enqueue(now, packet, drops);
        }
    }

    /// Dequeues a packet when the link is free. A dequeue from an empty discipline matters too: it resets CoDel and
    /// starts RED's idle time.
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P>;

    /// Like [`Qdisc::dequeue`], but stores the packet in place, which saves a copy. Returns whether there was one.
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

    /// Changes all parameters while packets may be queued, as `tc qdisc change` does. Packets that the kernel would
    /// drop are passed to `drops` as [`DropReason::Overlimit`]. [`tc::Spec::changed`] computes `params` from the
    /// present parameters and a line.
    ///
    /// # Errors
    /// [`Unchangeable`] if this discipline does not allow such a change. Its parameters are then as before.
    fn change(&mut self, now: Time, params: &Self::Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        let _ = (now, params, drops);
        Err(Unchangeable)
    }

    /// How Linux counts the packets that [`Qdisc::change`] drops. By default they count as drops; some disciplines
    /// differ.
    fn counts_change(&self) -> Given {
        Given { sent: false, dropped: true }
    }

    /// The time at which to dequeue again, after a dequeue that returned no packet although packets are queued (pacing,
    /// shaping). Otherwise [`Time::NEVER`].
    fn next_event(&self) -> Time {
        Time::NEVER
    }

    /// Packets queued.
    fn packets(&self) -> usize;

    /// Bytes queued.
    fn backlog(&self) -> u64;

    /// Returns whether another packet of `mtu` bytes would find the buffer full. Limits of single flows do not count.
    fn is_full(&self, mtu: u32) -> bool;

    /// Returns whether there is no buffer at all (noqueue). The caller then drops packets that arrive while the link is
    /// busy, with [`DropReason::Busy`]. It enqueues every other packet and dequeues it at the same instant.
    fn bufferless(&self) -> bool {
        false
    }

    /// Prefetches state for packets that are likely to be dequeued soon. In the order of service, the first `packets`
    /// packets are skipped. About as many packets after them are passed to `see`, and the state of about as many
    /// further packets is prefetched. This is a hint, so results never depend on it.
    fn prefetch(&self, _packets: usize, _cache: &impl Cache, _see: impl FnMut(&P)) {}

    /// The discipline's own counters and state under the keys of `tc -s -j qdisc`, in its order; times in microseconds.
    /// The caller counts what every discipline has: packets and bytes sent, drops, packets and bytes queued.
    fn stats(&self) -> Stats {
        Vec::new()
    }

    /// Number of `overlimits`, with the meaning that Linux gives it for this discipline.
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
    /// Bytes that each packet takes of a memory limit in addition to its length (Linux counts the whole buffer,
    /// `truesize`).
    pub skb: u32,
    /// Seed of the discipline's random numbers.
    pub seed: u64,
}
