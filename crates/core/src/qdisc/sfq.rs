//! sfq: stochastic fairness queueing, with a queue for each hash value, served in turn.
//!
//! Source: P. McKenney, "Stochastic fairness queueing", 1990; Linux 6.1 to 7.3 `net/sched/sch_sfq.c`; ns-2.35
//! `queue/sfq.cc` (C. Villamizar, 1997).
//! Principle: a keyed hash maps flows to queues, which are served round robin. In Linux a queue may send `quantum`
//! bytes per turn and holds at most `depth` packets. When all queues together exceed `limit`, the longest queue loses
//! its last packet (with `headdrop` its first). `perturb` changes the key from time to time, and queued packets are
//! sorted again. With `redflowlimit` each queue has a RED, which drops or marks by the average number of bytes in the
//! queue. In ns-2 a queue sends one packet per turn. An arrival is dropped if its queue holds at least half as many
//! packets as there are free places. When there are fewer free places than queues, it is also dropped if its queue
//! holds more than its fair share.
//!
//! Deviations:
//! - Jiffies last 4 ms (HZ 250, as in Debian), so `perturb 10` changes the key every 10.24 s.
//! - ns-2 hashes the sum of two addresses; here the packet's flow hash decides, modulo `flows`.
//! - The parameters of an existing sfq cannot be changed, as in Linux.
//! - ns-2 has no counters; here they are those of Linux.

mod red_inside;

use super::jiffies::{HZ, Timer};
use super::param::{Derived, Field, Param, Parameters, Unit, Value, choice, param};
use super::red::{Kept, Parms};
use super::siphash::Salt;
use super::{Context, DropReason, Drops, Qdisc};
use crate::packet::Packet;
use crate::ring::Ring;
use crate::rng::Rng;
use crate::units::Time;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use red_inside::RedInside;

choice! {
    /// Which implementation to follow.
    Variant {
        /// SFQ as in Linux.
        Linux = "linux",
        /// SFQ as in ns-2.
        Ns2 = "ns2",
    }
}

/// Parameters of SFQ.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// The limit of all queues together, in packets; by default 127, in ns-2 40.
    pub limit: Option<u32>,
    /// The limit of one queue, in packets.
    pub depth: u32,
    /// Bytes a queue may send in its turn; by default the link's MTU.
    pub quantum: Option<u32>,
    /// Number of hash values; a power of two.
    pub divisor: u32,
    /// Number of queues; by default 128, in ns-2 16.
    pub flows: Option<u32>,
    /// Seconds between changes of the hash key; 0: never.
    pub perturb: u32,
    /// Drop the longest queue's first packet instead of its last.
    pub headdrop: bool,
    /// Switches on RED in each queue: the bytes from which `max` follows.
    pub redflowlimit: Option<u32>,
    /// RED: average bytes of a queue above which packets are dropped at random.
    pub min: Option<u32>,
    /// RED: average bytes of a queue from which all packets are dropped.
    pub max: Option<u32>,
    /// RED: the size in packets of the bursts that it tolerates, from which the weight of the average follows.
    pub burst: Option<u32>,
    /// RED: mean packet size in bytes.
    pub avpkt: Option<u32>,
    /// RED: drop probability at `max`.
    pub probability: Option<f64>,
    /// RED: mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// RED: with `ecn`, drop packets above `max` instead of marking them.
    pub harddrop: bool,
    /// Which implementation to follow.
    pub variant: Variant,
    /// RED: the kernel's own values, until the others follow from them.
    pub kept: Kept,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: None,
            depth: MAX_DEPTH,
            quantum: None,
            divisor: 1024,
            flows: None,
            perturb: 0,
            headdrop: false,
            redflowlimit: None,
            min: None,
            max: None,
            burst: None,
            avpkt: None,
            probability: None,
            ecn: false,
            harddrop: false,
            variant: Variant::Linux,
            kept: Kept::default(),
        }
    }
}

/// The largest number of packets in one queue (`SFQ_MAX_DEPTH`), and the default of `limit`.
const MAX_DEPTH: u32 = 127;
/// Queues by default (`SFQ_DEFAULT_FLOWS`).
const FLOWS: u32 = 128;
/// Most queues (`SFQ_MAX_FLOWS`).
const MAX_FLOWS: u32 = 65_408;

impl Params {
    /// Returns the limit in packets and the number of queues that Linux derives from the parameters (`sfq_change`).
    fn bounds(&self) -> (u32, u32) {
        let flows = self.flows.unwrap_or(FLOWS).min(self.divisor);
        match self.limit {
            None => (MAX_DEPTH, flows),
            Some(limit) => {
                let limit = limit.min(self.depth * flows);
                (limit, flows.min(limit))
            }
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "sfq";
    const DOC: &'static str = "a queue per hash of a flow, served in turn; the longest loses packets";
    const DETAILS: &'static [&'static str] = &["flows"];
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets in all queues together; default: 127, ns2: 40")
            .range(2, u32::MAX as u64),
        param!(Params.depth, Unit::Packets, "packets in one queue").range(1, MAX_DEPTH as u64).zero_unsent().lowered(),
        param!(Params.quantum, Unit::Size, "bytes a queue may send in its turn; default: the link's MTU")
            .range(256, 1 << 20)
            .zero_unsent()
            .raised(),
        param!(Params.divisor, Unit::Number, "number of hash values, a power of two").range(1, 1 << 16).zero_unsent(),
        param!(Params.flows, Unit::Number, "number of queues; default: 128, ns2: 16")
            .range(1, MAX_FLOWS as u64)
            .zero_unsent()
            .lowered(),
        param!(Params.perturb, Unit::Seconds, "seconds between changes of the hash key; 0: never")
            .range(0, 1_000_000)
            .shown_if_set(),
        param!(Params.headdrop, Unit::Flag("noheaddrop"), "drop the longest queue's first packet, not its last"),
        param!(Params.redflowlimit, Unit::Bytes, "RED in each queue: bytes of a queue; sets max and min")
            .range(1, u32::MAX as u64)
            .shown_if_set(),
        param!(
            Params.min,
            Unit::Bytes,
            "RED: average bytes of a queue above which packets are dropped; default: max/3"
        )
        .range(1, u32::MAX as u64)
        .shown_if_set()
        .zero_unsent(),
        param!(Params.max, Unit::Bytes, "RED: average bytes from which all are dropped; default: redflowlimit/4")
            .range(1, u32::MAX as u64)
            .shown_if_set()
            .zero_unsent(),
        param!(Params.burst, Unit::Packets, "RED: packets that may come at once; default: (2 min + max) / (3 avpkt)")
            .range(1, 1 << 20)
            .shown_if_set()
            .zero_unsent(),
        param!(Params.avpkt, Unit::Size, "RED: mean packet size; default: 1000").range(1, 65_535).shown_if_set(),
        param!(Params.probability, Unit::Real, "RED: drop probability at max; default: 0.02")
            .real_range(1e-9, 1.0)
            .shown_if_set(),
        param!(Params.kept.ewma as "ewma", Unit::Number, "RED: printed by tc: burst and avpkt follow from it")
            .range(1, 31)
            .shown(),
        param!(Params.ecn, Unit::Flag("noecn"), "RED: mark ECN-capable packets instead of dropping them"),
        param!(Params.harddrop, Unit::Flag("noharddrop"), "RED: with ecn, drop above max nevertheless"),
        param!(Params.variant, Unit::Choice(Variant::WORDS, &[]), "which implementation to follow: linux or ns2")
            .ours(),
    ];

    fn for_tc(&self) -> bool {
        self.variant == Variant::Linux
    }

    fn foreign(&self) -> &'static [&'static str] {
        match self.variant {
            Variant::Linux => &[],
            Variant::Ns2 => &[
                "depth",
                "quantum",
                "divisor",
                "perturb",
                "headdrop",
                "redflowlimit",
                "min",
                "max",
                "burst",
                "avpkt",
                "probability",
                "ewma",
                "ecn",
                "harddrop",
            ],
        }
    }

    /// tc prints the weight of the average and not the limit of a queue, of which `max` is a quarter by default.
    fn derive(&mut self, seen: &[&'static str]) -> Result<Derived, (&'static str, String)> {
        if self.kept.is_empty() {
            return Ok(Derived::default());
        }
        let open = match (self.redflowlimit, self.max) {
            (None, Some(max)) => {
                let limit = max.saturating_mul(4);
                self.redflowlimit = Some(limit);
                format!("what tc printed does not hold redflowlimit; assumed: redflowlimit {limit}, four times max")
            }
            _ => String::new(),
        };
        let red = self.red().map_err(|(name, problem)| (name, problem.into()))?;
        let words = red.ok_or_else(|| ("ewma", "needs max, as tc prints it".into()))?;
        let (found, derived) = self.kept.found(&words, false, seen)?;
        (self.avpkt, self.burst) = (Some(found.avpkt), Some(found.burst));
        self.kept = Kept::default();
        Ok(Derived { open, ..derived })
    }

    fn assumed(&self, param: &Param<Self>) -> Value {
        match (param.name, self.limit) {
            ("flows", _) => FLOWS.value(),
            ("limit", None) => MAX_DEPTH.value(),
            _ => (param.get)(self),
        }
    }

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if !self.divisor.is_power_of_two() {
            return Err(("divisor", "must be a power of two"));
        }
        let linux = self.variant == Variant::Linux;
        if let Some(words) = self.red()? {
            Parms::new(&words, false).map(|_| ())?;
        }
        if linux && self.bounds().0 < 2 { Err(("limit", "depth times flows leaves less than 2")) } else { Ok(()) }
    }
}

/// The index that stands for no element.
const NIL: u32 = u32::MAX;

/// The neighbours of an element in a doubly linked list.
#[derive(Clone, Copy, Debug)]
struct Links {
    next: u32,
    prev: u32,
}

/// One queue.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
    /// Packets queued.
    qlen: u32,
    /// The queue whose turn comes after this one.
    next: u32,
    /// The hash value that the queue serves.
    hash: u32,
    /// Bytes that the queue may still send in this turn.
    allot: i32,
}

/// A packet in the list of its queue, or a free node.
#[derive(Clone, Debug)]
struct Node<P> {
    packet: P,
    links: Links,
}

/// The discipline as Linux has it.
#[derive(Clone, Debug)]
pub struct Sfq<P> {
    limit: usize,
    depth: u32,
    quantum: i32,
    headdrop: bool,
    /// RED in each queue, if `redflowlimit` is given.
    red: Option<Box<RedInside>>,
    /// The timer that changes the hash key.
    perturb_timer: Timer,
    rng: Rng,
    perturbation: Salt,
    /// The queue of each hash value.
    ht: Vec<u32>,
    slots: Vec<Slot>,
    /// For each length, a list of the queues with that number of packets. The first entries are the queues; after them,
    /// each length has an entry of its own, which is the head of its list.
    dep: Vec<Links>,
    /// The length of the longest queue.
    cur_depth: u32,
    /// The queue that was served last.
    tail: u32,
    nodes: Vec<Node<P>>,
    free: u32,
    packets: usize,
    backlog: u64,
}

impl<P: Packet + Copy> Sfq<P> {
    /// Empty queues before a link of this kind.
    pub fn new(params: &Params, context: &Context) -> Self {
        let (limit, flows) = params.bounds();
        let mut rng = Rng::stream(context.seed, Params::NAME);
        let mut perturbation = Salt::draw(&mut rng);
        if params.perturb > 0 {
            perturbation = Salt::draw(&mut rng);
        }
        let slot = Slot { head: NIL, tail: NIL, qlen: 0, next: NIL, hash: 0, allot: 0 };
        let mut sfq = Sfq {
            limit: limit as usize,
            depth: params.depth,
            quantum: params.quantum.unwrap_or(context.mtu.clamp(256, 1 << 20)) as i32,
            headdrop: params.headdrop,
            red: RedInside::new(params, flows),
            perturb_timer: Timer::repeated(u64::from(params.perturb) * HZ),
            rng,
            perturbation,
            ht: vec![NIL; params.divisor as usize],
            slots: vec![slot; flows as usize],
            dep: (0..flows + MAX_DEPTH + 1).map(|at| Links { next: at, prev: at }).collect(),
            cur_depth: 0,
            tail: NIL,
            nodes: Vec::new(),
            free: NIL,
            packets: 0,
            backlog: 0,
        };
        (0..flows).for_each(|slot| sfq.link(slot));
        sfq
    }

    /// Returns the index in `dep` of the head of the list of queues with `qlen` packets.
    #[inline]
    fn anchor(&self, qlen: u32) -> u32 {
        self.slots.len() as u32 + qlen
    }

    /// Puts a queue first among those of its length.
    #[inline]
    fn link(&mut self, x: u32) {
        let prev = self.anchor(self.slots[x as usize].qlen);
        let next = self.dep[prev as usize].next;
        self.dep[x as usize] = Links { next, prev };
        self.dep[prev as usize].next = x;
        self.dep[next as usize].prev = x;
    }

    /// Removes a queue from the list of queues of its length. Returns whether it was the only one.
    #[inline]
    fn unlink(&mut self, x: u32) -> bool {
        let Links { next, prev } = self.dep[x as usize];
        self.dep[prev as usize].next = next;
        self.dep[next as usize].prev = prev;
        next == prev
    }

    /// Counts a packet that left this queue.
    #[inline]
    fn shorter(&mut self, x: u32) {
        let alone = self.unlink(x);
        let slot = &mut self.slots[x as usize];
        if alone && self.cur_depth == slot.qlen {
            self.cur_depth -= 1;
        }
        slot.qlen -= 1;
        self.link(x);
    }

    /// Counts a packet that was added to this queue.
    #[inline]
    fn longer(&mut self, x: u32) {
        self.unlink(x);
        let slot = &mut self.slots[x as usize];
        slot.qlen += 1;
        self.cur_depth = self.cur_depth.max(slot.qlen);
        self.link(x);
    }

    /// Appends a packet to a queue. The caller counts it in the queue's length.
    #[inline]
    fn push(&mut self, x: u32, packet: P) {
        let slot = &mut self.slots[x as usize];
        let node = Node { packet, links: Links { next: NIL, prev: slot.tail } };
        let place = match self.free {
            NIL => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
            place => {
                self.free = self.nodes[place as usize].links.next;
                self.nodes[place as usize] = node;
                place
            }
        };
        match slot.tail {
            NIL => slot.head = place,
            tail => self.nodes[tail as usize].links.next = place,
        }
        slot.tail = place;
        if let Some(red) = &mut self.red {
            red.added(x, packet.bytes());
        }
        self.packets += 1;
        self.backlog += u64::from(packet.bytes());
    }

    /// Takes the first or the last packet of a queue that is not empty. The caller subtracts it from the queue's
    /// length.
    #[inline]
    fn pop(&mut self, x: u32, first: bool) -> P {
        let slot = &mut self.slots[x as usize];
        let place = if first { slot.head } else { slot.tail };
        let Node { packet, links: Links { next, prev } } = self.nodes[place as usize];
        match prev {
            NIL => slot.head = next,
            prev => self.nodes[prev as usize].links.next = next,
        }
        match next {
            NIL => slot.tail = prev,
            next => self.nodes[next as usize].links.prev = prev,
        }
        self.nodes[place as usize].links.next = self.free;
        self.free = place;
        if let Some(red) = &mut self.red {
            red.taken(x, packet.bytes());
        }
        self.packets -= 1;
        self.backlog -= u64::from(packet.bytes());
        packet
    }

    /// The queue of this hash value, or a free one if it has none; `None` if no queue is free.
    #[inline]
    fn slot_of(&mut self, hash: u32) -> Option<u32> {
        match self.ht[hash as usize] {
            NIL => {
                let free = self.dep[self.anchor(0) as usize].next;
                if free == self.anchor(0) {
                    return None;
                }
                self.ht[hash as usize] = free;
                self.slots[free as usize].hash = hash;
                Some(free)
            }
            slot => Some(slot),
        }
    }

    #[inline]
    fn hash(&self, packet: &P) -> u32 {
        self.perturbation.hash(packet.flow_hash()) & (self.ht.len() as u32 - 1)
    }

    /// Adds a packet to a queue. A queue that was empty gets its turn after all others.
    #[inline]
    fn join(&mut self, x: u32, packet: P) {
        self.push(x, packet);
        self.longer(x);
        if self.slots[x as usize].qlen == 1 {
            self.slots[x as usize].allot = self.quantum;
            self.slots[x as usize].next = match self.tail {
                NIL => x,
                tail => core::mem::replace(&mut self.slots[tail as usize].next, x),
            };
            self.tail = x;
        }
    }

    /// Removes the queue after `tail`, which has become empty, from the round. Its hash value has no queue any more.
    #[inline]
    fn leave_round(&mut self, x: u32) {
        let Slot { hash, next, .. } = self.slots[x as usize];
        self.ht[hash as usize] = NIL;
        match next == x {
            true => self.tail = NIL,
            false => self.slots[self.tail as usize].next = next,
        }
    }

    /// Drops a packet because the limit is exceeded: from the longest queue or, if all hold one packet, from the queue
    /// whose turn it is.
    #[cold]
    #[inline(never)]
    fn overflow(&mut self, drops: &mut impl Drops<P>) {
        let x = match self.cur_depth {
            0 => return,
            1 => {
                let x = self.slots[self.tail as usize].next;
                self.leave_round(x);
                x
            }
            depth => self.dep[self.anchor(depth) as usize].next,
        };
        let packet = self.pop(x, self.headdrop);
        self.shorter(x);
        drops.dropped(packet, DropReason::Overlimit);
    }

    /// Carries out the changes of the key that were due before `now`.
    #[inline]
    fn perturb(&mut self, now: Time, drops: &mut impl Drops<P>) {
        for _ in 0..self.perturb_timer.passed(now) {
            self.perturbation = Salt::draw(&mut self.rng);
            self.rehash(drops);
        }
    }

    /// Sorts all queued packets by the new key.
    #[cold]
    #[inline(never)]
    fn rehash(&mut self, drops: &mut impl Drops<P>) {
        let mut all = Vec::with_capacity(self.packets);
        for x in 0..self.slots.len() as u32 {
            if self.slots[x as usize].qlen == 0 {
                continue;
            }
            while self.slots[x as usize].qlen > 0 {
                all.push(self.pop(x, true));
                self.shorter(x);
            }
            self.ht[self.slots[x as usize].hash as usize] = NIL;
            if let Some(red) = &mut self.red {
                red.reset(x);
            }
        }
        self.tail = NIL;
        for packet in all {
            let hash = self.hash(&packet);
            match self.slot_of(hash) {
                Some(x) if self.slots[x as usize].qlen < self.depth => {
                    if let Some(red) = &mut self.red {
                        red.average(x);
                    }
                    self.join(x, packet);
                }
                _ => drops.dropped(packet, DropReason::FlowLimit),
            }
        }
    }

    /// Asks RED about a packet that arrives at this queue. Returns the reason to drop it, or `None`. RED may mark the
    /// packet, or the queue's first packet, instead of dropping.
    #[inline]
    fn red_drops(&mut self, x: u32, packet: &mut P) -> Option<DropReason> {
        let red = self.red.as_mut()?;
        let Slot { head, qlen, .. } = self.slots[x as usize];
        if qlen == 0 {
            red.reset(x);
            return None;
        }
        let head = if self.headdrop { Some(&mut self.nodes[head as usize].packet) } else { None };
        red.arrival(x, packet, head, &mut self.rng).err()
    }

    /// Returns the reason of a drop by the limit of one queue. If all queues together are at their limit too, that
    /// limit is the reason.
    fn refusal(&self) -> DropReason {
        if self.packets >= self.limit { DropReason::Overlimit } else { DropReason::FlowLimit }
    }
}

impl<P: Packet + Copy> Qdisc<P> for Sfq<P> {
    type Params = Params;

    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        self.perturb(now, drops);
        let hash = self.hash(&packet);
        let Some(x) = self.slot_of(hash) else {
            return drops.dropped(packet, self.refusal());
        };
        let full = self.slots[x as usize].qlen >= self.depth;
        let refused = self.red_drops(x, &mut packet).or_else(|| full.then(|| self.refusal()));
        if let Some(reason) = refused {
            if !self.headdrop {
                return drops.dropped(packet, reason);
            }
            let head = self.pop(x, true);
            drops.dropped(head, reason);
            return self.push(x, packet);
        }
        self.join(x, packet);
        if self.packets > self.limit {
            self.overflow(drops);
        }
    }

    #[inline]
    fn admit(&mut self, now: Time, packet: P, may_pass: bool, drops: &mut impl Drops<P>) -> bool {
        let passes = may_pass && self.packets == 0;
        if !passes {
            self.enqueue(now, packet, drops);
        }
        passes
    }

    fn requeued(&mut self, is: bool) -> bool {
        self.limit = if is { self.limit - 1 } else { self.limit + 1 };
        self.packets <= self.limit
    }

    #[inline]
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        self.perturb(now, drops);
        if self.tail == NIL {
            return None;
        }
        let x = loop {
            let x = self.slots[self.tail as usize].next;
            let slot = &mut self.slots[x as usize];
            if slot.allot > 0 {
                break x;
            }
            slot.allot = slot.allot.saturating_add(self.quantum);
            self.tail = x;
        };
        let packet = self.pop(x, true);
        self.shorter(x);
        match self.slots[x as usize].qlen {
            0 => self.leave_round(x),
            _ => {
                let slot = &mut self.slots[x as usize];
                slot.allot = slot.allot.saturating_sub_unsigned(packet.bytes());
            }
        }
        Some(packet)
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn is_full(&self, _mtu: u32) -> bool {
        self.packets >= self.limit
    }

    fn stats(&self) -> super::Stats {
        self.red.iter().flat_map(|red| red.stats()).collect()
    }

    fn overlimits(&self) -> u64 {
        self.red.as_ref().map_or(0, |red| red.overlimits())
    }

    fn classes(&self) -> Option<super::Stats> {
        let queues = || self.ht.iter().filter(|&&slot| slot != NIL).map(|&slot| &self.slots[slot as usize]);
        Some(vec![
            ("flows", (queues().count() as u64).into()),
            ("qlen", queues().map(|queue| u64::from(queue.qlen)).sum::<u64>().into()),
            ("allot", queues().map(|queue| i64::from(queue.allot)).sum::<i64>().into()),
        ])
    }
}

/// The discipline as ns-2 has it.
#[derive(Clone, Debug)]
pub struct SfqNs2<P> {
    maxqueue: usize,
    buckets: Vec<Ring<P>>,
    /// A bucket's fair share of `maxqueue`, in packets.
    fairshare: usize,
    /// The buckets with packets, in the order in which they are served.
    active: VecDeque<u32>,
    occupied: usize,
    backlog: u64,
}

impl<P: Packet + Copy + Default> SfqNs2<P> {
    /// Empty buckets.
    pub fn new(params: &Params, _: &Context) -> Self {
        let (maxqueue, buckets) = (params.limit.unwrap_or(40) as usize, params.flows.unwrap_or(16) as usize);
        SfqNs2 {
            maxqueue,
            buckets: vec![Ring::default(); buckets],
            fairshare: maxqueue / buckets,
            active: VecDeque::with_capacity(buckets),
            occupied: 0,
            backlog: 0,
        }
    }

    /// Returns whether a packet is refused that arrives at a bucket with `used` packets.
    #[inline]
    fn refuses(&self, used: usize) -> bool {
        let left = self.maxqueue - self.occupied;
        used >= left >> 1 || (left < self.buckets.len() && used > self.fairshare)
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for SfqNs2<P> {
    type Params = Params;

    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        let which = packet.flow_hash() % self.buckets.len() as u32;
        let used = self.buckets[which as usize].len();
        if self.refuses(used) {
            let reason = if self.refuses(0) { DropReason::Overlimit } else { DropReason::FlowLimit };
            return drops.dropped(packet, reason);
        }
        self.buckets[which as usize].push(packet);
        self.occupied += 1;
        self.backlog += u64::from(packet.bytes());
        if used == 0 {
            self.active.push_back(which);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _drops: &mut impl Drops<P>) -> Option<P> {
        let which = self.active.pop_front()?;
        let bucket = &mut self.buckets[which as usize];
        let packet = bucket.pop();
        if !bucket.is_empty() {
            self.active.push_back(which);
        }
        let packet = packet?;
        self.occupied -= 1;
        self.backlog -= u64::from(packet.bytes());
        Some(packet)
    }

    fn packets(&self) -> usize {
        self.occupied
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn is_full(&self, _mtu: u32) -> bool {
        self.refuses(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::qdisc::tc::Spec;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
    use alloc::string::ToString;

    fn sfq(params: Params) -> Bench<Sfq<Parcel>> {
        Bench::new(Sfq::new(&Params { divisor: 65_536, ..params }, &CONTEXT))
    }

    fn flows_of(bench: &mut Bench<impl Qdisc<Parcel>>, count: usize) -> Vec<u32> {
        (0..count).filter_map(|_| bench.take_flow(ms(1))).collect()
    }

    #[test]
    fn a_queue_sends_until_its_allotment_is_used_up_and_a_new_one_waits_for_its_turn() {
        let mut bench = sfq(Params { quantum: Some(1000), ..Params::default() });
        bench.fill(ms(0), 1, 600, 5);
        bench.fill(ms(0), 2, 600, 5);
        // After two packets of 600 bytes, a queue owes 200 bytes of its quantum of 1000. It pays this debt from its
        // next allotment, and later a debt of 400.
        assert_eq!(flows_of(&mut bench, 10), [1, 1, 2, 2, 1, 1, 2, 2, 1, 2]);
        assert_eq!((bench.take(ms(2)), bench.qdisc.backlog()), (None, 0));
    }

    #[test]
    fn a_full_discipline_drops_the_last_packet_of_the_longest_queue_or_with_headdrop_its_first() {
        for (headdrop, victim) in [(false, 4), (true, 1)] {
            let mut bench = sfq(Params { limit: Some(5), headdrop, ..Params::default() });
            bench.put(ms(0), 1, 100);
            bench.fill(ms(0), 2, 100, 4);
            assert!(bench.qdisc.is_full(100) && bench.new_drops().is_empty());
            bench.put(ms(0), 3, 100);
            assert_eq!(bench.new_drops(), [(victim, DropReason::Overlimit)]);
            assert_eq!(bench.qdisc.packets(), 5);
        }
    }

    /// RED in each queue, with thresholds of 3 and 9 kB and an average of short memory.
    fn with_red(more: &str) -> Bench<Sfq<Parcel>> {
        let line = alloc::format!("sfq limit 1000 divisor 65536 redflowlimit 36000 min 3000 max 9000 burst 4 {more}");
        let Ok(Spec::Sfq(params)) = line.parse() else { panic!("{line}") };
        Bench::new(Sfq::new(&params, &CONTEXT))
    }

    #[test]
    fn red_in_a_queue_acts_on_its_own_average_alone() {
        let mut bench = with_red("");
        bench.fill(ms(0), 1, 1000, 100);
        let drops = bench.new_drops();
        assert!(drops.iter().any(|(_, reason)| *reason == DropReason::Forced), "{drops:?}");
        assert!(drops.iter().all(|(_, reason)| matches!(reason, DropReason::Forced | DropReason::Early)));
        // The average takes a few packets to follow: none of the first four is dropped.
        assert!(drops.iter().all(|(id, _)| *id >= 4));
        assert_eq!(bench.counter("prob_drop") + bench.counter("forced_drop"), drops.len() as u64);
        bench.fill(ms(0), 2, 1000, 4);
        assert!(bench.new_drops().is_empty(), "another flow's queue is short");
        // A queue that became empty starts with a new average.
        while bench.take(ms(1)).is_some() {}
        bench.fill(ms(1), 1, 1000, 4);
        assert!(bench.new_drops().is_empty());
    }

    #[test]
    fn red_in_a_queue_marks_what_may_be_marked_and_with_headdrop_the_first_packet() {
        let fill = |bench: &mut Bench<Sfq<Parcel>>| {
            (0..60).for_each(|_| {
                bench.put_ecn(ms(0), 1, 1000, Ecn::Ect0);
            });
            (
                bench.drops.len(),
                bench.counter("prob_mark") + bench.counter("forced_mark"),
                bench.counter("forced_mark_head"),
            )
        };
        let (drops, marks, heads) = fill(&mut with_red("ecn"));
        assert_eq!((drops, heads), (0, 0));
        assert!(marks > 30, "{marks}");
        // The head of the queue stays marked, and counts each time, as in Linux.
        let (drops, marks, heads) = fill(&mut with_red("ecn headdrop"));
        assert!(drops == 0 && marks == 0 && heads > 30, "{drops} {marks} {heads}");
        let (drops, marks, _) = fill(&mut with_red("ecn harddrop"));
        assert!(drops > 30 && marks < 10, "{drops} {marks}");
    }

    #[test]
    fn what_tc_refuses_of_red_in_a_queue_is_refused() {
        let error = |line: &str| line.parse::<Spec>().expect_err(line).to_string();
        assert!(error("sfq min 3000").contains("redflowlimit"));
        assert!(error("sfq ecn").contains("redflowlimit"));
        assert!(error("sfq redflowlimit 9000 max 9001").contains("above redflowlimit"));
        assert!(error("sfq redflowlimit 9000 min 900 max 900").contains("below max"));
        assert!(error("sfq redflowlimit 9000 variant ns2").contains("only variant linux does"));
        assert!(error("sfq redflowlimit 100000 min 50000 max 60000 burst 3").contains("burst"));
    }

    #[test]
    fn when_every_queue_holds_one_packet_the_next_in_turn_loses_it() {
        let mut bench = sfq(Params { limit: Some(3), flows: Some(8), ..Params::default() });
        // A limit of three leaves three queues, so a fourth flow is refused; with more queues it is the first's turn.
        (1..4).for_each(|flow| bench.fill(ms(0), flow, 100, 1));
        bench.put(ms(0), 4, 100);
        assert_eq!(bench.new_drops(), [(3, DropReason::Overlimit)], "no queue is left for it");
        let mut roomy = sfq(Params::default());
        (0..127).for_each(|flow| bench_put(&mut roomy, flow));
        assert!(roomy.new_drops().is_empty());
        bench_put(&mut roomy, 500);
        assert_eq!(roomy.new_drops(), [(0, DropReason::Overlimit)]);
        assert_eq!(roomy.take_flow(ms(1)), Some(1));
    }

    fn bench_put(bench: &mut Bench<Sfq<Parcel>>, flow: u32) {
        bench.put(ms(0), flow, 100);
    }

    #[test]
    fn a_queue_at_its_depth_refuses_and_with_headdrop_loses_its_first() {
        let mut bench = sfq(Params { depth: 2, ..Params::default() });
        bench.fill(ms(0), 1, 100, 3);
        assert_eq!(bench.new_drops(), [(2, DropReason::FlowLimit)]);
        let mut bench = sfq(Params { depth: 2, headdrop: true, ..Params::default() });
        bench.fill(ms(0), 1, 100, 3);
        assert_eq!(bench.new_drops(), [(0, DropReason::FlowLimit)]);
        assert_eq!((bench.qdisc.packets(), bench.take(ms(1)).map(|packet| packet.id)), (2, Some(1)));
    }

    #[test]
    fn limit_and_flows_bound_each_other_as_in_sfq_change() {
        let bounds = |limit, depth, flows| Params { limit, depth, flows, ..Params::default() }.bounds();
        assert_eq!(bounds(None, 127, None), (127, 128), "unless a limit is given there are more queues than packets");
        assert_eq!(bounds(Some(127), 127, None), (127, 127));
        assert_eq!(bounds(Some(1000), 2, Some(10)), (20, 10));
        assert_eq!(bounds(Some(100_000), 127, Some(5000)), (100_000, 1024), "no more queues than hash values");
    }

    #[test]
    fn perturb_sorts_what_is_queued_anew_every_10_24_seconds_and_loses_nothing() {
        let mut bench = Bench::new(Sfq::new(&Params { divisor: 4, perturb: 10, ..Params::default() }, &CONTEXT));
        (0..100).for_each(|flow| bench_put(&mut bench, flow));
        let queues = |bench: &Bench<Sfq<Parcel>>| -> Vec<u32> { bench.qdisc.slots.iter().map(|s| s.qlen).collect() };
        let before = queues(&bench);
        bench.take(Time(10_240_000_000));
        assert_eq!(queues(&bench).iter().zip(&before).filter(|(a, b)| a != b).count(), 1, "only the one that sent");
        bench.take(Time(10_240_000_001));
        assert_ne!(queues(&bench), before);
        assert_eq!((bench.qdisc.packets(), bench.drops.len()), (98, 0));
        assert_eq!(flows_of(&mut bench, 200).len(), 98);
    }

    #[test]
    fn ns2_refuses_a_bucket_that_holds_half_of_what_is_left() {
        let mut bench = Bench::new(SfqNs2::<Parcel>::new(&Params::default(), &CONTEXT));
        bench.fill(ms(0), 1, 100, 20);
        // used ≥ (40 - used) / 2 holds from 13 packets on.
        assert_eq!((bench.qdisc.packets(), bench.drops.len()), (13, 7));
        assert!(bench.new_drops().iter().all(|(_, reason)| *reason == DropReason::FlowLimit));
        bench.fill(ms(0), 2, 100, 20);
        assert_eq!(bench.qdisc.packets(), 13 + 9, "used ≥ (27 - used) / 2");
        // With fewer than 16 places left, a bucket gets no more than its fair share of 2 packets, and one more.
        bench.fill(ms(0), 3, 100, 20);
        assert_eq!(bench.qdisc.packets(), 22 + 3);
        bench.fill(ms(0), 4, 100, 20);
        assert_eq!(bench.qdisc.packets(), 25 + 3);
        assert_eq!(flows_of(&mut bench, 5), [1, 2, 3, 4, 1]);
    }

    #[test]
    fn the_longest_queue_is_known_after_it_became_shorter() {
        let mut bench = sfq(Params { limit: Some(7), quantum: Some(1000), ..Params::default() });
        bench.fill(ms(0), 1, 1000, 4);
        bench.fill(ms(0), 2, 1000, 2);
        assert_eq!(flows_of(&mut bench, 1), [1]);
        assert_eq!(bench.qdisc.cur_depth, 3);
        (3..6).for_each(|flow| _ = bench.put(ms(0), flow, 1000));
        assert_eq!(bench.new_drops(), [(3, DropReason::Overlimit)], "the last of flow 1");
    }

    #[test]
    fn queues_that_a_new_key_puts_together_keep_no_more_than_depth() {
        let params = Params { divisor: 2, depth: 3, perturb: 1, ..Params::default() };
        let mut bench = Bench::new(Sfq::<Parcel>::new(&params, &CONTEXT));
        let mut met = 0;
        for round in 1..100u64 {
            (1..9).for_each(|flow| bench.fill(ms(11_000 * round), flow, 100, 1));
            let before = bench.qdisc.packets();
            // The key changes before this one is sorted.
            bench.put(ms(11_000 * (round + 1) - 1), 9, 100);
            assert!(bench.qdisc.slots.iter().all(|slot| slot.qlen <= 3), "round {round}");
            met += u32::from(bench.qdisc.packets() < before);
        }
        assert!(met > 0, "some met in one queue");
    }
}
