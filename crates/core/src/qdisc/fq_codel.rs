//! fq_codel: a queue for each flow, served in turn, with CoDel on each queue.
//!
//! Source: RFC 8290 (T. Høiland-Jørgensen et al.); Linux's `sch_fq_codel.c`, whose decisions this follows.
//! Principle: a hash maps flows to `flows` queues. They are served by deficit round robin: each queue may send
//! `quantum` bytes per turn. A queue that has just become active is served before those that kept a backlog, so flows
//! that send less than a quantum at a time hardly wait. Each queue keeps its CoDel state as long as the discipline
//! exists. When packets or bytes exceed a limit, the queue with the most bytes loses half of them from its head, at
//! most `drop_batch` packets.
//!
//! Variants: `linux` and `linux7` differ only in their CoDel. `rfc8290` uses the CoDel of RFC 8289. When its buffer is
//! full, the queue with the most bytes loses half of its packets (not of its bytes), and its CoDel state does not
//! change (RFC 8290 §4.1.3, RFC 8289 §5.4). `ns2` is another discipline, `sfqcodel` of ns-2.
//!
//! Deviations:
//! - A packet's memory is its length plus a constant for the buffer around it, which the link gives; the kernel counts
//!   the size of each buffer (`truesize`).
//! - The flow hash comes with the packet; it depends on the seed of the run (RFC 8290 §4.1.1 asks for a random salt).
//! - CoDel's MTU test looks at the whole backlog, as RFC 8290 §4.2 allows and Linux does.

mod ns2;

pub use ns2::FqCodelNs2;

use super::codel::{self, Control, DsMatch, Law, MAX_SPAN, MICROSECOND, Source, Vars};
use super::flows::{Backlogs, Fifo, Flows, Slab};
use super::param::{Param, Parameters, Unit, choice, param};
use super::stats::numbers;
use super::{Context, DropReason, Drops, Given, Qdisc, Unchangeable};
use crate::cache::Cache;
use crate::packet::Packet;
use crate::units::{Span, Time};

choice! {
    /// Which implementation to follow.
    Variant {
        /// Linux 6.1 to 6.12.
        Linux = "linux",
        /// Linux 7.x.
        Linux7 = "linux7",
        /// The text of RFC 8290.
        Rfc8290 = "rfc8290",
        /// ns-2's `sfqcodel`.
        Ns2 = "ns2",
    }
}

/// Parameters of FQ-CoDel.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets in all queues together.
    pub limit: u32,
    /// Number of queues.
    pub flows: u32,
    /// Acceptable standing delay of a queue.
    pub target: Span,
    /// The time within which the delay must once have been below the target.
    pub interval: Span,
    /// Bytes a queue may send in its turn; by default the link's MTU, in ns2 one packet.
    pub quantum: Option<u32>,
    /// Bytes of memory in all queues together.
    pub memory_limit: u32,
    /// The most packets dropped at once from the queue with the most bytes when a limit is exceeded.
    pub drop_batch: u32,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Mark ECN-capable packets whose delay exceeds this.
    pub ce_threshold: Option<Span>,
    /// Restricts `ce_threshold` to packets whose DS field matches; by default it applies to all packets.
    pub ce_threshold_selector: Option<DsMatch>,
    /// Which implementation to follow.
    pub variant: Variant,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 10_240,
            flows: 1024,
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            quantum: None,
            memory_limit: 32 << 20,
            drop_batch: 64,
            ecn: true,
            ce_threshold: None,
            ce_threshold_selector: None,
            variant: Variant::Linux,
        }
    }
}

impl Parameters for Params {
    fn foreign(&self) -> &'static [&'static str] {
        if self.variant == Variant::Ns2 { &["memory_limit", "drop_batch"] } else { &[] }
    }

    const NAME: &'static str = "fq_codel";
    const DOC: &'static str = "a queue per flow, served in turn, each under CoDel (RFC 8290)";
    const FIXED: &'static [&'static str] = &["flows"];
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets in all queues together")
            .range(1, u32::MAX as u64)
            .printed()
            .zero_unsent(),
        param!(Params.flows, Unit::Number, "number of queues that flows are hashed into")
            .range(1, 65_536)
            .zero_unsent(),
        param!(
            Params.quantum,
            Unit::Bytes,
            "bytes a queue may send in its turn; default: the link's MTU, ns2: a packet"
        )
        .range(256, 1 << 20)
        .zero_unsent()
        .raised(),
        param!(Params.target, Unit::Time, "acceptable standing delay of a queue")
            .range(MICROSECOND, MAX_SPAN)
            .zero_unsent(),
        param!(Params.interval, Unit::Time, "time within which the delay must once have been below target")
            .range(MICROSECOND, MAX_SPAN)
            .zero_unsent(),
        param!(Params.ce_threshold, Unit::Time, "mark ECN-capable packets delayed longer than this; default: off")
            .range(0, MAX_SPAN)
            .shown_if_set(),
        param!(
            Params.ce_threshold_selector,
            Unit::Masked,
            "with ce_threshold: mark only packets whose DS field has this value under this mask; default: all"
        )
        .range(0, 0xfeff)
        .shown_if_set(),
        param!(Params.memory_limit, Unit::Size, "bytes of memory in all queues together; ns2 has no such limit")
            .range(0, 1 << 31)
            .lowered(),
        param!(Params.drop_batch, Unit::Packets, "most packets dropped at once from the fattest queue; ns2: one")
            .range(1, u32::MAX as u64)
            .zero_unsent(),
        param!(Params.ecn, Unit::Flag("noecn"), "mark ECN-capable packets instead of dropping them"),
        param!(
            Params.variant,
            Unit::Choice(Variant::WORDS, &[]),
            "which implementation to follow: linux (6.1 to 6.12), linux7 (7.0 on), rfc8290 or ns2"
        )
        .ours(),
    ];
}

/// Counters, with the keys of `tc -s -j qdisc`.
#[derive(Clone, Copy, Default, Debug)]
struct Stats {
    /// Packets dropped because a limit was exceeded.
    drop_overlimit: u64,
    /// Packets dropped because the memory limit was exceeded.
    drop_overmemory: u64,
    /// How often a queue joined the list of new flows.
    new_flow_count: u64,
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct FqCodel<P, L: Law> {
    limit: usize,
    quantum: u32,
    memory_limit: u64,
    /// Bytes of memory that a packet takes beyond its length.
    skb: u64,
    drop_batch: u32,
    /// Whether a full buffer drops half of the packets instead of half of the bytes, and leaves CoDel's state
    /// unchanged.
    rfc8290: bool,
    /// Number of queues.
    queues: u32,
    control: Control<L>,
    flows: Flows<P, Vars<L>>,
    backlogs: Backlogs,
    cstats: codel::Stats,
    stats: Stats,
}

/// One queue, as CoDel sees it.
struct Queue<'a, P> {
    fifo: &'a mut Fifo,
    slab: &'a mut Slab<P>,
}

impl<P: Packet + Copy> Source<P> for Queue<'_, P> {
    #[inline]
    fn pop(&mut self, packet: &mut P) -> bool {
        match self.slab.pop(self.fifo) {
            Some(head) => {
                *packet = head;
                true
            }
            None => false,
        }
    }

    #[inline]
    fn backlog(&self) -> u64 {
        self.slab.backlog()
    }
}

impl<P: Packet + Copy, L: Law> FqCodel<P, L> {
    /// Creates empty queues in front of a link.
    pub fn new(params: &Params, context: &Context) -> Self {
        let mut flows = Flows::new();
        for _ in 0..params.flows {
            flows.add(0, Vars::default());
        }
        FqCodel {
            limit: params.limit as usize,
            quantum: params.quantum.unwrap_or(context.mtu),
            memory_limit: u64::from(params.memory_limit),
            skb: u64::from(context.skb),
            drop_batch: params.drop_batch,
            rfc8290: params.variant == Variant::Rfc8290,
            queues: params.flows,
            control: Control::new(params.target, params.interval, params.ce_threshold, context.mtu, params.ecn)
                .select(params.ce_threshold_selector),
            flows,
            backlogs: Backlogs::new(params.flows),
            cstats: codel::Stats::default(),
            stats: Stats::default(),
        }
    }

    /// The queue of a flow with this hash (`reciprocal_scale`).
    #[inline]
    fn classify(&self, hash: u32) -> u32 {
        ((u64::from(hash) * u64::from(self.queues)) >> 32) as u32
    }

    /// Bytes of memory in use.
    #[inline]
    fn memory_usage(&self) -> u64 {
        self.flows.memory(self.skb)
    }

    /// Drops packets because a limit is exceeded. RFC 8290 §4.1.3: the queue with the most bytes loses half of them
    /// from its head, at most `drop_batch` packets and at least one.
    #[cold]
    #[inline(never)]
    fn overflow(&mut self, reason: DropReason, drops: &mut impl Drops<P>) {
        let Some(fattest) = self.backlogs.fattest(&self.flows) else { return };
        let flow = self.flows.flow(fattest);
        let (threshold, half) =
            if self.rfc8290 { (u64::MAX, flow.packets().div_ceil(2)) } else { (flow.bytes() / 2, u32::MAX) };
        let packets = self.flows.drop_head(fattest, self.drop_batch.min(half), threshold, reason, drops);
        self.backlogs.note(fattest, self.flows.flow(fattest).bytes());
        // As in Linux, these drops raise CoDel's `count`.
        if !self.rfc8290 {
            let vars = &mut self.flows.flow_mut(fattest).state;
            vars.count = vars.count.wrapping_add(packets);
        }
        self.stats.drop_overlimit += u64::from(packets);
        if reason == DropReason::MemoryLimit {
            self.stats.drop_overmemory += u64::from(packets);
        }
    }
}

impl<P: Packet + Copy + Default, L: Law> Qdisc<P> for FqCodel<P, L> {
    type Params = Params;

    #[inline(always)]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        let number = self.classify(packet.flow_hash());
        let (flow, slab) = self.flows.split(number);
        slab.push(&mut flow.fifo, packet);
        self.backlogs.note(number, flow.bytes());
        if self.flows.list_as_new(number) {
            self.flows.flow_mut(number).credit = self.quantum as i32;
            self.stats.new_flow_count += 1;
        }
        if self.memory_usage() > self.memory_limit {
            self.overflow(DropReason::MemoryLimit, drops);
        } else if self.flows.packets() > self.limit {
            self.overflow(DropReason::Overlimit, drops);
        }
    }

    #[inline(always)]
    fn admit(&mut self, now: Time, packet: P, may_pass: bool, drops: &mut impl Drops<P>) -> bool {
        let passes = L::CAN_BYPASS && may_pass && self.flows.packets() == 0;
        if !passes {
            self.enqueue(now, packet, drops);
        }
        passes
    }

    fn requeued(&mut self, is: bool) -> bool {
        self.limit = if is { self.limit - 1 } else { self.limit + 1 };
        self.flows.packets() <= self.limit
    }

    #[inline]
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        let mut packet = P::default();
        self.dequeue_into(now, &mut packet, drops).then_some(packet)
    }

    #[inline]
    fn dequeue_into(&mut self, now: Time, packet: &mut P, drops: &mut impl Drops<P>) -> bool {
        while let Some(number) = self.flows.turn(self.quantum) {
            let (flow, slab) = self.flows.split(number);
            let mut queue = Queue { fifo: &mut flow.fifo, slab };
            let took = flow.state.dequeue(now, packet, &self.control, &mut self.cstats, &mut queue, drops);
            self.backlogs.note(number, flow.bytes());
            if took {
                flow.charge(packet.bytes());
                return true;
            }
            self.flows.leave(false);
        }
        false
    }

    /// `fq_codel_change`: packets beyond the limits are dequeued, in the order in which the link would get them and
    /// with CoDel's drops, and freed.
    fn change(&mut self, now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        self.limit = params.limit as usize;
        self.quantum = params.quantum.unwrap_or(self.quantum);
        self.memory_limit = u64::from(params.memory_limit);
        self.drop_batch = params.drop_batch;
        self.control.change(params.target, params.interval, params.ce_threshold, params.ecn);
        self.control = self.control.select(params.ce_threshold_selector);
        while self.flows.packets() > self.limit || self.memory_usage() > self.memory_limit {
            let Some(packet) = self.dequeue(now, drops) else { break };
            drops.dropped(packet, DropReason::Overlimit);
        }
        Ok(())
    }

    /// `fq_codel_change` dequeues these packets, which counts them as sent, and frees them, which is not counted.
    fn counts_change(&self) -> Given {
        Given { sent: true, dropped: false }
    }

    fn packets(&self) -> usize {
        self.flows.packets()
    }

    fn backlog(&self) -> u64 {
        self.flows.backlog()
    }

    fn is_full(&self, mtu: u32) -> bool {
        let room = u64::from(mtu) + self.skb;
        self.flows.packets() >= self.limit || self.memory_usage() + room > self.memory_limit
    }

    fn prefetch(&self, packets: usize, cache: &impl Cache, see: impl FnMut(&P)) {
        self.flows.prefetch(packets, cache, see);
    }

    fn stats(&self) -> super::Stats {
        numbers([
            ("maxpacket", u64::from(self.cstats.maxpacket)),
            ("drop_overlimit", self.stats.drop_overlimit),
            ("new_flow_count", self.stats.new_flow_count),
            ("ecn_mark", self.cstats.ecn_mark),
            ("ce_mark", self.cstats.ce_mark),
            ("memory_used", self.memory_usage()),
            ("drop_overmemory", self.stats.drop_overmemory),
            ("new_flows_len", u64::from(self.flows.new_len())),
            ("old_flows_len", u64::from(self.flows.old_len())),
        ])
    }

    fn classes(&self) -> Option<super::Stats> {
        let listed = || self.flows.listed();
        Some(alloc::vec![
            ("flows", (listed().count() as u64).into()),
            ("qlen", listed().map(|flow| u64::from(flow.packets())).sum::<u64>().into()),
            ("deficit", listed().map(|flow| i64::from(flow.credit)).sum::<i64>().into()),
            ("count", listed().map(|flow| u64::from(flow.state.count)).sum::<u64>().into()),
            ("lastcount", listed().map(|flow| u64::from(flow.state.lastcount)).sum::<u64>().into()),
            ("dropping", listed().map(|flow| u64::from(flow.state.dropping)).sum::<u64>().into()),
        ])
    }
}

#[cfg(test)]
mod tests;
