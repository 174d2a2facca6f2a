//! `ccaq variant servo`: fq_codel whose targets adjust themselves.
//!
//! Source: our own; the scheduling is that of RFC 8290, the law that of RFC 8289 with Linux's arithmetic.
//! Principle: the best target of a flow is the least one with which the link is hardly ever idle. It depends on the RTT,
//! on the sender's congestion control and on the number of flows, so no constant suits all: one CUBIC flow needs 0.2 to
//! 0.3 RTTs, one Reno flow 0.65 to 0.8, sixteen flows need a twentieth of an RTT. CoDel itself shows when to adjust it.
//! When a queue has been above its target for an interval and CoDel is about to drop, a cycle of the sender's window is
//! over. If the link was idle for more than the share `idle` of the time in which the flow was sending, the target was
//! too low, and it is raised in proportion. Otherwise it is lowered: by three quarters of the least delay, which served
//! nothing, or by a small step. When it is raised above the present delay, the drop waits.
//!
//! The rules, in their order; `flow.rs`, `link.rs` and `table.rs` have them:
//! - The round trip is the gap after a SYN or SYN-ACK; without a handshake it is guessed from the gaps of the first eight
//!   packets. Each episode of dropping shows it again: the packets that waited longest arrived one round trip after the
//!   signal. So it is shortened if two responses in a row say so, a guess is lengthened too, and an unknown round trip is
//!   taken from the response. A guess is also doubled if the target has reached it and the link is still idle.
//! - A target begins at a quarter of the round trip (at half of it from 200 ms on), and stays between an eighth (at most
//!   20 ms) and one round trip.
//! - The delay must be above the target for `max(100 ms, RTT)`. The second drop follows `2 RTT` and the present delay
//!   later, since a sender's answer to the first is not seen before. While a queue drains, nothing is dropped. Neither
//!   holds for a queue of less than four MTUs: its delay says more about the other flows than about its sender.
//! - Idle time is the time between the end of everything that the link was given and the next arrival. If it is longer
//!   than half a round trip (at least 10 ms) that is no guess, the sender pauses, and this gap does not count.
//! - A packet that is eight intervals older than the target is dropped: its sender does not respond. For every 32 such
//!   packets the age is halved, down to an eighth of an interval.
//! - A packet with ECT(1) is marked above 1 ms, and does not take part in the adjustment.
//!
//! Packets do not bypass an empty discipline (`TCQ_F_CAN_BYPASS`): those are the packets that show that the link was
//! idle.

mod flow;
mod link;
mod table;
#[cfg(test)]
mod tests;

use flow::{Control, Flow, Head, Tick, Verdict};
use link::Link;
use table::{Found, Table};

use super::{Params, Variant};
use crate::cache::Cache;
use crate::packet::{Ecn, Packet};
use crate::qdisc::codel::{Law, Linux};
use crate::qdisc::flows::{Backlogs, Flows};
use crate::qdisc::stats::numbers;
use crate::qdisc::{Context, DropReason, Drops, Given, Qdisc, Stats, Unchangeable};
use crate::units::Time;

/// The most packets dropped at once from the queue with the most bytes, as in fq_codel.
const DROP_BATCH: u32 = 64;

/// The least quantum, as in Linux's fq_codel: with fewer bytes a large packet would take very many rounds.
const LEAST_QUANTUM: u32 = 256;

/// Counters.
#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    drop_overlimit: u64,
    drop_overmemory: u64,
    /// Packets of flows that do not respond.
    drop_unresponsive: u64,
    new_flow_count: u64,
    /// Arrivals of flows that share their queue with another flow.
    collisions: u64,
    /// Marks in place of drops.
    ecn_mark: u64,
    /// Marks of packets with ECT(1).
    ce_mark: u64,
}

impl Counters {
    /// Marks or drops a packet, as the verdict says, and counts it. Returns whether it is sent.
    #[cold]
    #[inline(never)]
    fn carry_out<P: Packet + Copy>(
        &mut self,
        verdict: Verdict,
        ecn: bool,
        packet: &mut P,
        drops: &mut impl Drops<P>,
    ) -> bool {
        if verdict == Verdict::Discard {
            self.drop_unresponsive += 1;
            drops.dropped(*packet, DropReason::Penalty);
            return false;
        }
        let mark = if packet.ecn() == Ecn::Ect1 { &mut self.ce_mark } else { &mut self.ecn_mark };
        let marked = ecn && packet.mark();
        if marked {
            *mark += 1;
        } else {
            drops.dropped(*packet, DropReason::Codel);
        }
        marked
    }
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct Servo<P> {
    limit: usize,
    quantum: u32,
    memory_limit: u64,
    /// Bytes of memory that a packet takes beyond its length.
    skb: u64,
    ecn: bool,
    control: Control,
    table: Table,
    flows: Flows<P, Flow>,
    backlogs: Backlogs,
    link: Link,
    /// For how long the link has been idle so far, in nanoseconds.
    idle: u64,
    counters: Counters,
}

impl<P: Packet + Copy> Servo<P> {
    /// Creates empty queues in front of a link.
    pub fn new(params: &Params, context: &Context) -> Self {
        let mut flows = Flows::new();
        for _ in 0..params.flows {
            flows.add(0, Flow::NEW);
        }
        Servo {
            limit: params.limit as usize,
            quantum: params.quantum.unwrap_or(context.mtu).max(LEAST_QUANTUM),
            memory_limit: u64::from(params.memory_limit),
            skb: u64::from(context.skb),
            ecn: params.ecn,
            control: Control { share: share(params.idle), mtu: u64::from(context.mtu) },
            table: Table::new(params.flows),
            flows,
            backlogs: Backlogs::new(params.flows),
            link: Link::default(),
            idle: 0,
            counters: Counters::default(),
        }
    }

    /// The queue of the flow with this hash.
    #[inline]
    fn classify(&mut self, hash: u32, now: Tick) -> u32 {
        self.table.direct(hash).unwrap_or_else(|| self.search(hash, now))
    }

    /// The queue of a flow that does not have the one to which its hash leads.
    #[inline(never)]
    fn search(&mut self, hash: u32, now: Tick) -> u32 {
        let flows = &self.flows;
        let idle = |queue| flows.is_loose(queue).then(|| flows.flow(queue).state.silence(now));
        let shared = |queue| flows.flow(queue).packets() > 0 && flows.flow(queue).state.is_shared();
        match self.table.find(hash, idle, shared) {
            Found::Own(queue) => queue,
            Found::New(queue) => {
                self.flows.flow_mut(queue).state = Flow::NEW;
                queue
            }
            Found::Shared(queue) => {
                self.counters.collisions += 1;
                self.flows.flow_mut(queue).state.share();
                queue
            }
        }
    }

    #[inline]
    fn memory_usage(&self) -> u64 {
        self.flows.memory(self.skb)
    }

    /// Takes the next packet of a flow and charges the flow for it. Returns false if its queue is empty.
    #[inline]
    fn take(&mut self, number: u32, time: Time, packet: &mut P, drops: &mut impl Drops<P>) -> bool {
        let now = Linux::tick(time.0);
        let mut signals = 0;
        loop {
            let (flow, slab) = self.flows.split(number);
            let Some(head) = slab.pop(&mut flow.fifo) else {
                flow.state.empty();
                return false;
            };
            self.backlogs.note(number, flow.bytes());
            *packet = head;
            let head = Head {
                sojourn: now.wrapping_sub(Linux::tick(head.enqueue_time().0)),
                last: flow.packets() == 0,
                behind: flow.bytes(),
                backlog: slab.backlog(),
                scalable: self.ecn && head.ecn() == Ecn::Ect1,
                signals,
            };
            let verdict = flow.state.head(now, head, &self.control);
            if verdict == Verdict::Pass || self.counters.carry_out(verdict, self.ecn, packet, drops) {
                flow.charge(packet.bytes());
                return true;
            }
            signals += u32::from(verdict == Verdict::Signal);
        }
    }

    /// Drops packets because a limit is exceeded: half of the bytes of the queue that has the most, from its head
    /// (RFC 8290 §4.1.3), at most [`DROP_BATCH`] packets.
    #[cold]
    #[inline(never)]
    fn overflow(&mut self, reason: DropReason, drops: &mut impl Drops<P>) {
        let Some(fattest) = self.backlogs.fattest(&self.flows) else { return };
        let half = self.flows.flow(fattest).bytes() / 2;
        let packets = self.flows.drop_head(fattest, DROP_BATCH, half, reason, drops);
        self.backlogs.note(fattest, self.flows.flow(fattest).bytes());
        self.flows.flow_mut(fattest).state.overflowed(packets);
        self.counters.drop_overlimit += u64::from(packets);
        if reason == DropReason::MemoryLimit {
            self.counters.drop_overmemory += u64::from(packets);
        }
    }

    /// The smallest and the largest of a number of the flows in the round that have it (not zero), in microseconds.
    fn range(&self, number: impl Fn(&Flow) -> Tick) -> (u64, u64) {
        let numbers = self.flows.listed().map(|flow| number(&flow.state)).filter(|&number| number > 0);
        let (least, most) = numbers.fold((Tick::MAX, 0), |(least, most), one| (least.min(one), most.max(one)));
        let micros = |ticks: Tick| Linux::micros(ticks).unsigned_abs();
        (if most == 0 { 0 } else { micros(least) }, micros(most))
    }
}

/// A share in hundredths of a percent, in units of 1/65536.
fn share(idle: u32) -> u32 {
    (u64::from(idle) * 65_536 / 10_000) as u32
}

impl<P: Packet + Copy + Default> Qdisc<P> for Servo<P> {
    type Params = Params;

    #[inline(always)]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        let tick = Linux::tick(now.0);
        if self.flows.packets() == 0 {
            self.idle += self.link.idle_before(now.0);
        }
        let number = self.classify(packet.flow_hash(), tick);
        let (flow, slab) = self.flows.split(number);
        let is_empty = flow.packets() == 0;
        flow.state.arrival(tick, is_empty, packet.opens(), (self.idle >> 10) as Tick);
        slab.push(&mut flow.fifo, packet);
        self.backlogs.note(number, flow.bytes());
        if self.flows.list_as_new(number) {
            self.flows.flow_mut(number).credit = self.quantum as i32;
            self.counters.new_flow_count += 1;
        }
        if self.memory_usage() > self.memory_limit {
            self.overflow(DropReason::MemoryLimit, drops);
        } else if self.flows.packets() > self.limit {
            self.overflow(DropReason::Overlimit, drops);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        let mut packet = P::default();
        self.dequeue_into(now, &mut packet, drops).then_some(packet)
    }

    #[inline]
    fn dequeue_into(&mut self, now: Time, packet: &mut P, drops: &mut impl Drops<P>) -> bool {
        while let Some(number) = self.flows.turn(self.quantum) {
            if self.take(number, now, packet, drops) {
                self.link.dequeued(now.0, packet.bytes(), self.flows.packets() > 0);
                return true;
            }
            self.flows.leave(false);
        }
        false
    }

    /// Packets beyond the limits are dequeued, in the order in which the link would get them, and dropped. The
    /// state of the flows is kept.
    fn change(&mut self, now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        if params.variant != Variant::Servo {
            return Err(Unchangeable);
        }
        self.limit = params.limit as usize;
        self.quantum = params.quantum.unwrap_or(self.quantum).max(LEAST_QUANTUM);
        self.memory_limit = u64::from(params.memory_limit);
        self.ecn = params.ecn;
        self.control.share = share(params.idle);
        while self.flows.packets() > self.limit || self.memory_usage() > self.memory_limit {
            let Some(packet) = self.dequeue(now, drops) else { break };
            drops.dropped(packet, DropReason::Overlimit);
        }
        Ok(())
    }

    /// As in fq_codel: these packets are dequeued, which counts them as sent, and freed, which is not counted.
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

    fn stats(&self) -> Stats {
        let (min_target, max_target) = self.range(Flow::target);
        let (min_rtt, max_rtt) = self.range(Flow::rtt);
        numbers([
            ("drop_overlimit", self.counters.drop_overlimit),
            ("drop_overmemory", self.counters.drop_overmemory),
            ("drop_unresponsive", self.counters.drop_unresponsive),
            ("new_flow_count", self.counters.new_flow_count),
            ("collisions", self.counters.collisions),
            ("ecn_mark", self.counters.ecn_mark),
            ("ce_mark", self.counters.ce_mark),
            ("memory_used", self.memory_usage()),
            ("new_flows_len", u64::from(self.flows.new_len())),
            ("old_flows_len", u64::from(self.flows.old_len())),
            ("idle_time", self.idle / 1_000),
            ("min_target", min_target),
            ("max_target", max_target),
            ("min_rtt", min_rtt),
            ("max_rtt", max_rtt),
        ])
    }

    /// The sums over the flows in the round; the target, the idle share (in hundredths of a percent) and the RTT too.
    fn classes(&self) -> Option<Stats> {
        let listed = || self.flows.listed();
        let micros = |ticks: Tick| Linux::micros(ticks).unsigned_abs();
        Some(alloc::vec![
            ("flows", (listed().count() as u64).into()),
            ("qlen", listed().map(|flow| u64::from(flow.packets())).sum::<u64>().into()),
            ("deficit", listed().map(|flow| i64::from(flow.credit)).sum::<i64>().into()),
            ("target", listed().map(|flow| micros(flow.state.target())).sum::<u64>().into()),
            ("rtt", listed().map(|flow| micros(flow.state.rtt())).sum::<u64>().into()),
            ("idle", listed().map(|flow| (u64::from(flow.state.idle_share()) * 10_000) >> 16).sum::<u64>().into()),
        ])
    }
}
