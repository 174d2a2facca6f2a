//! fq_pie: a queue for each flow, served in turn, with PIE on each queue.
//!
//! Source: Linux's `sch_fq_pie.c` (M. Tahiliani et al.), whose decisions this follows; RFC 8290 for the rounds, RFC
//! 8033 for PIE.
//! Principle: a hash maps flows to `flows` queues. They are served by deficit round robin with `quantum` bytes per
//! turn; a queue that has just become active is served before those that kept a backlog. Each queue keeps its PIE state
//! as long as the discipline exists, and arrivals are dropped by the delay of their own queue. When `limit` packets are
//! queued, every arrival is dropped.
//!
//! Deviations:
//! - A packet's memory is its length plus a constant for the buffer around it, which the link gives; the kernel counts
//!   the size of each buffer. As in Linux, exceeding `memory_limit` is only counted (`overmemory`).
//! - As in [`pie`](super::pie), overdue updates of a queue are computed when the next packet of that queue arrives or
//!   leaves.
//! - The flow hash comes with the packet; it depends on the seed of the run.

use super::codel::MAX_SPAN;
use super::flows::Flows;
use super::jiffies::{JIFFY, Timer};
use super::param::{Param, Parameters, Unit, param};
use super::pie::linux::{Control, MAX_PROB, Vars};
use super::pie::{self, MOST_GAIN};
use super::stats::numbers;
use super::{Context, DropReason, Drops, Given, Qdisc, Unchangeable};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::units::{Span, Time};

/// The number of queues whose probability is updated in one jiffy.
const BATCH: u32 = 2048;

/// Parameters of FQ-PIE.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets in all queues together.
    pub limit: u32,
    /// Number of queues.
    pub flows: u32,
    /// The delay that the controllers aim at.
    pub target: Span,
    /// Time between two updates of the probabilities; with 0, they are updated once.
    pub tupdate: Span,
    /// Weight of the delay's distance from the target, in sixteenths of 1/s.
    pub alpha: u32,
    /// Weight of the delay's change, in sixteenths of 1/s.
    pub beta: u32,
    /// Bytes a queue may send in its turn; by default the link's MTU.
    pub quantum: Option<u32>,
    /// Bytes of memory in all queues together.
    pub memory_limit: u32,
    /// ECN-capable packets are marked up to this drop probability, in percent, and dropped above it.
    pub ecn_prob: u32,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Scale the drop probability with the packet's size.
    pub bytemode: bool,
    /// Take the delay from the rate of departures and not from the packets' time in the queue.
    pub dq_rate_estimator: bool,
}

impl Default for Params {
    fn default() -> Self {
        let pie::Params { target, tupdate, alpha, beta, ecn, bytemode, dq_rate_estimator, .. } = pie::Params::default();
        Params {
            limit: 10_240,
            flows: 1024,
            target,
            tupdate,
            alpha,
            beta,
            quantum: None,
            memory_limit: 32 << 20,
            ecn_prob: 10,
            ecn,
            bytemode,
            dq_rate_estimator,
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "fq_pie";
    const DOC: &'static str = "a queue per flow, served in turn, each under PIE";
    const FIXED: &'static [&'static str] = &["flows"];
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets in all queues together")
            .range(1, u32::MAX as u64)
            .printed()
            .zero_unsent(),
        param!(Params.flows, Unit::Number, "number of queues that flows are hashed into")
            .range(1, 65_536)
            .zero_unsent(),
        param!(Params.target, Unit::Time, "delay aimed at").range(0, MAX_SPAN).zero_unsent(),
        param!(Params.tupdate, Unit::Time, "time between two updates of the drop probabilities")
            .range(0, MAX_SPAN)
            .zero_unsent(),
        param!(Params.alpha, Unit::Number, "weight of the delay's distance from target, in 1/16 Hz")
            .range(0, MOST_GAIN)
            .zero_unsent(),
        param!(Params.beta, Unit::Number, "weight of the delay's change, in 1/16 Hz").range(0, MOST_GAIN).zero_unsent(),
        param!(Params.quantum, Unit::Size, "bytes a queue may send in its turn; default: the link's MTU")
            .range(256, 1 << 20)
            .zero_unsent()
            .raised(),
        param!(Params.memory_limit, Unit::Size, "bytes of memory in all queues together; more is only counted")
            .range(1, 1 << 31)
            .zero_unsent(),
        param!(Params.ecn_prob, Unit::Number, "mark up to this drop probability, in percent")
            .range(0, 99)
            .zero_unsent(),
        param!(Params.ecn, Unit::Flag("noecn"), "mark ECN-capable packets instead of dropping them"),
        param!(Params.bytemode, Unit::Flag("nobytemode"), "scale the drop probability with the packet's size"),
        param!(
            Params.dq_rate_estimator,
            Unit::Flag("no_dq_rate_estimator"),
            "take the delay from the rate of departures, not from the packets' time in the queue"
        ),
    ];
}

impl Params {
    /// The parameters of each queue's controller.
    fn of_pie(&self) -> pie::Params {
        let Params { target, tupdate, alpha, beta, bytemode, dq_rate_estimator, .. } = *self;
        pie::Params { target, tupdate, alpha, beta, bytemode, dq_rate_estimator, ..pie::Params::default() }
    }

    /// The probability up to which a mark replaces a drop; none without `ecn`.
    fn most_marked(&self) -> Option<u64> {
        self.ecn.then(|| MAX_PROB / 100 * u64::from(self.ecn_prob))
    }
}

/// The state of one queue.
#[derive(Clone, Default, Debug)]
struct Queue {
    vars: Vars,
    /// Number of updates so far.
    updates: u64,
}

/// Counters, with the keys of `tc -s -j qdisc`.
#[derive(Clone, Copy, Default, Debug)]
struct Stats {
    pie: pie::Stats,
    /// Arrivals that found more memory in use than the limit.
    overmemory: u64,
    /// How often a queue joined the list of new flows.
    new_flow_count: u64,
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct FqPie<P> {
    limit: usize,
    quantum: u32,
    memory_limit: u64,
    /// Bytes of memory that a packet takes beyond its length.
    skb: u64,
    /// The probability up to which a mark replaces a drop; without it nothing is marked.
    ecn_prob: Option<u64>,
    queues: u32,
    control: Control,
    timer: Timer,
    /// Number of times that the timer has expired.
    rounds: u64,
    /// When the timer last expired.
    last_round: Time,
    rng: Rng,
    flows: Flows<P, Queue>,
    stats: Stats,
}

impl<P: Packet + Copy> FqPie<P> {
    /// Creates empty queues in front of a link.
    pub fn new(params: &Params, context: &Context) -> Self {
        let mut flows = Flows::new();
        for _ in 0..params.flows {
            flows.add(0, Queue::default());
        }
        let batches = u64::from(params.flows.div_ceil(BATCH));
        FqPie {
            limit: params.limit as usize,
            quantum: params.quantum.unwrap_or(context.mtu.clamp(256, 1 << 20)),
            memory_limit: u64::from(params.memory_limit),
            skb: u64::from(context.skb),
            ecn_prob: params.most_marked(),
            queues: params.flows,
            control: pie::control(&params.of_pie(), context.mtu),
            timer: pie::timer(params.tupdate, batches - 1),
            rounds: 0,
            last_round: Time::ZERO,
            rng: Rng::stream(context.seed, "fq_pie"),
            flows,
            stats: Stats::default(),
        }
    }

    /// The queue of a flow with this hash (`reciprocal_scale`).
    #[inline]
    fn classify(&self, hash: u32) -> u32 {
        ((u64::from(hash) * u64::from(self.queues)) >> 32) as u32
    }

    /// Makes the updates of this queue that were due before `now`.
    #[inline]
    fn update(&mut self, now: Time, number: u32) {
        let passed = self.timer.passed(now);
        if passed > 0 {
            self.rounds += passed;
            self.last_round = self.timer.last();
        }
        let mut due = self.rounds;
        if number >= BATCH && due > 0 {
            due -= u64::from(self.is_to_come(now, number));
        }
        let flow = self.flows.flow_mut(number);
        let (times, backlog) = (due - flow.state.updates.min(due), flow.bytes() as u32);
        if times > 0 {
            flow.state.updates = due;
            flow.state.vars.update(times, &self.control, backlog);
        }
    }

    /// Returns whether the current round of updates has not reached this queue yet. A round updates [`BATCH`] queues
    /// per jiffy. If the timer has stopped, no other round follows, and this one ends with the first batch.
    fn is_to_come(&self, now: Time, number: u32) -> bool {
        let jiffies = u64::from(number / BATCH);
        self.timer.is_over() || self.last_round + Span(jiffies * JIFFY.0) >= now
    }

    /// Drops an arrival for this queue.
    fn refuse(&mut self, number: u32, packet: P, reason: DropReason, drops: &mut impl Drops<P>) {
        self.stats.pie.dropped += 1;
        self.stats.pie.overlimit += u64::from(reason == DropReason::Overlimit);
        self.flows.flow_mut(number).state.vars.accu_prob = 0;
        drops.dropped(packet, reason);
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for FqPie<P> {
    type Params = Params;

    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        let number = self.classify(packet.flow_hash());
        self.update(now, number);
        if self.flows.packets() >= self.limit {
            return self.refuse(number, packet, DropReason::Overlimit, drops);
        }
        let bytes = packet.bytes();
        let truesize = u64::from(bytes) + self.skb;
        self.stats.overmemory += u64::from(self.flows.memory(self.skb) > self.memory_limit + truesize);
        let flow = self.flows.flow_mut(number);
        let backlog = flow.bytes() as u32;
        let vars = &mut flow.state.vars;
        if vars.drop_early(&self.control, backlog, bytes, &mut self.rng) {
            if !(self.ecn_prob.is_some_and(|most| vars.prob <= most) && packet.mark()) {
                return self.refuse(number, packet, DropReason::Early, drops);
            }
            self.stats.pie.ecn_mark += 1;
        }
        self.stats.pie.pkts_in += 1;
        self.flows.push(number, packet);
        if self.flows.list_as_new(number) {
            self.flows.flow_mut(number).credit = self.quantum as i32;
            self.stats.new_flow_count += 1;
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _: &mut impl Drops<P>) -> Option<P> {
        loop {
            let number = self.flows.turn(self.quantum)?;
            if self.flows.flow(number).packets() == 0 {
                self.flows.leave(false);
                continue;
            }
            self.update(now, number);
            let packet = self.flows.pop(number)?;
            self.flows.charge(number, packet.bytes());
            let flow = self.flows.flow_mut(number);
            let backlog = flow.bytes() as u32;
            let vars = &mut flow.state.vars;
            vars.process_dequeue(&self.control, now, packet.enqueue_time(), packet.bytes(), backlog);
            return Some(packet);
        }
    }

    /// `fq_pie_change`: packets beyond the limit are dropped in the order in which the link would get them.
    fn change(&mut self, now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        // Updates that were due until now use the old parameters.
        (0..self.queues).for_each(|number| self.update(now, number));
        self.control = self.control.changed(&params.of_pie());
        self.timer.repeat(pie::update_jiffies(params.tupdate));
        self.limit = params.limit as usize;
        self.quantum = params.quantum.unwrap_or(self.quantum);
        self.memory_limit = u64::from(params.memory_limit);
        self.ecn_prob = params.most_marked();
        while self.flows.packets() > self.limit {
            let Some(packet) = self.dequeue(now, drops) else { break };
            drops.dropped(packet, DropReason::Overlimit);
        }
        Ok(())
    }

    /// `fq_pie_change` dequeues these packets, which counts them as sent, and frees them.
    fn counts_change(&self) -> Given {
        Given { sent: true, dropped: false }
    }

    fn packets(&self) -> usize {
        self.flows.packets()
    }

    fn backlog(&self) -> u64 {
        self.flows.backlog()
    }

    fn is_full(&self, _mtu: u32) -> bool {
        self.flows.packets() >= self.limit
    }

    fn stats(&self) -> super::Stats {
        let Stats { pie, overmemory, new_flow_count } = self.stats;
        numbers([
            ("pkts_in", pie.pkts_in),
            ("overlimit", pie.overlimit),
            ("overmemory", overmemory),
            ("dropped", pie.dropped),
            ("ecn_mark", pie.ecn_mark),
            ("new_flow_count", new_flow_count),
            ("new_flows_len", u64::from(self.flows.new_len())),
            ("old_flows_len", u64::from(self.flows.old_len())),
            ("memory_used", self.flows.memory(self.skb)),
        ])
    }
}

#[cfg(test)]
mod tests;
