//! fq: a queue for each flow, served in turn, each with a packet limit of its own.
//!
//! Source: Linux 6.1 and 7.3 `net/sched/sch_fq.c` (Eric Dumazet).
//! Principle: a packet joins the queue of its flow, or is dropped if that queue holds `flow_limit` packets already.
//! Flows are served by deficit round robin, with a credit in bytes. A flow that becomes active is served before those
//! that kept a backlog. A new flow has `initial_quantum` bytes of credit. While a flow is inactive it keeps its credit,
//! and after more than `refill_delay` it has at least one `quantum`. Flows that have been inactive for three seconds
//! are removed. With `maxrate` every flow is paced to that rate.
//!
//! Variants: `linux67` (Linux 6.7 and later) has a fast path and bands. While no flow has packets that may leave, a
//! packet bypasses the flows' queues: it joins an internal queue of at most eight packets, which is served first. Three
//! bands of priority share the link by weight, each with a limit of `limit` packets. A packet's priority is the one
//! that a router derives from its DSCP; packets without a DSCP belong to the second band. As in Linux 6.12 and 7.3,
//! a flow that becomes active joins the list of its previous packet's band, or of the first band if it has had no packet.
//! It stays there for its first round, and the band of its new packet applies afterwards.
//!
//! Deviations:
//! - Packets are those of a router: they have no socket, so a flow is `hash & orphan_mask`, and no departure time. Only
//!   `maxrate` paces flows: without it `pacing` and `nopacing` are the same, and `horizon`, `horizon_drop` and
//!   `timer_slack` (how late a timer may expire) have no effect.
//! - There is no control traffic, which bypasses the queues up to Linux 6.6. `weights` and `priomap` have their
//!   defaults.
//! - Jiffies last 4 ms (HZ 250, as in Debian).
//! - Flows are kept in chains instead of red-black trees. An arrival removes the inactive flows that it meets on the
//!   way to its own flow. In a bucket of one or two flows these are the same as in Linux, in fuller buckets not always.
//!   Flows are removed under the same conditions as in Linux. Since 6.7, every arrival may remove flows. Before, an
//!   arrival removes flows only if there are at least twice `buckets` flows and more than half of them are inactive, and
//!   then at most eight.
//! - `ce_mark` counts packets that carry the mark, not attempts to mark.

use super::codel::{MAX_SPAN, MICROSECOND};
use super::flows::{Flows, NIL};
use super::jiffies::{JIFFY, jiffies};
use super::param::{Param, Parameters, Unit, choice, param};
use super::prio::priority;
use super::stats::numbers;
use super::{Context, DropReason, Drops, Given, Qdisc, Unchangeable};
use crate::packet::Packet;
use crate::units::{Rate, Span, Time};
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

choice! {
    /// Which implementation to follow.
    Variant {
        /// Linux 6.1 to 6.6.
        Linux = "linux",
        /// Linux 6.7 and later: with a fast path around the queues.
        Linux67 = "linux67",
    }
}

/// Parameters of fq.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets in all queues together.
    pub limit: u32,
    /// Packets in one flow's queue.
    pub flow_limit: u32,
    /// Bytes a flow may send in its turn; by default twice the link's MTU.
    pub quantum: Option<u32>,
    /// Bytes a new flow may send at first; by default ten times the link's MTU.
    pub initial_quantum: Option<u32>,
    /// Rate that no flow may exceed.
    pub maxrate: Option<Rate>,
    /// Number of hash buckets; a power of two.
    pub buckets: u32,
    /// The bits of the hash that tell flows apart, for packets that have no socket.
    pub orphan_mask: u32,
    /// Pace every flow to `maxrate`; no flow here asks for a rate of its own.
    pub pacing: bool,
    /// A flow that was inactive for longer has at least a quantum of credit.
    pub refill_delay: Span,
    /// Flows paced to this rate or less are paced packet by packet, not quantum by quantum.
    pub low_rate_threshold: Rate,
    /// How late the timer of paced packets may expire; it has no effect here.
    pub timer_slack: Span,
    /// Mark ECN-capable packets whose delay exceeds this.
    pub ce_threshold: Option<Span>,
    /// A packet may not ask to leave later than this.
    pub horizon: Span,
    /// Drop packets beyond the horizon instead of moving them to it.
    pub horizon_drop: bool,
    /// Which implementation to follow.
    pub variant: Variant,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 10_000,
            flow_limit: 100,
            quantum: None,
            initial_quantum: None,
            maxrate: None,
            buckets: 1024,
            orphan_mask: 1023,
            pacing: true,
            refill_delay: Span::from_millis(40),
            low_rate_threshold: Rate(550_000),
            timer_slack: Span::from_micros(10),
            ce_threshold: None,
            horizon: Span::from_secs(10),
            horizon_drop: true,
            variant: Variant::Linux,
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "fq";
    const DOC: &'static str = "a queue per flow, served in turn, each with a packet limit";
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets in all queues together").range(1, u32::MAX as u64).printed(),
        param!(Params.flow_limit, Unit::Packets, "packets in one flow's queue").range(1, u32::MAX as u64),
        param!(Params.buckets, Unit::Number, "number of hash buckets; tc rounds it up to a power of two")
            .range(2, 1 << 18)
            .zero_unsent(),
        param!(Params.orphan_mask, Unit::Number, "mask of the hash of packets without a socket")
            .range(0, u32::MAX as u64),
        param!(Params.quantum, Unit::Bytes, "bytes a flow may send in its turn; default: twice the link's MTU")
            .range(1, 1 << 20),
        param!(Params.initial_quantum, Unit::Bytes, "bytes a new flow may send at first; default: ten MTU")
            .range(1, 1 << 20),
        param!(Params.maxrate, Unit::Rate, "rate that no flow may exceed; default: none")
            .range(8, 34_359_738_360)
            .shown_if_set(),
        param!(Params.pacing, Unit::Flag("nopacing"), "pace flows"),
        param!(Params.refill_delay, Unit::Time, "a flow that had no packet for this time gets a new credit")
            .range(MICROSECOND, MAX_SPAN),
        param!(Params.low_rate_threshold, Unit::Rate, "flows paced below this rate are not held back")
            .range(0, 34_359_738_360),
        param!(Params.timer_slack, Unit::TimeNs, "how early a paced packet may leave").range(0, u32::MAX as u64),
        param!(Params.ce_threshold, Unit::Time, "mark ECN-capable packets delayed longer than this; default: off")
            .range(0, MAX_SPAN)
            .shown_if_set(),
        param!(Params.horizon, Unit::Time, "a packet may not ask to leave later than this")
            .range(MICROSECOND, MAX_SPAN),
        param!(Params.horizon_drop, Unit::Flag("horizon_cap"), "drop packets beyond the horizon, else move them to it"),
        param!(
            Params.variant,
            Unit::Choice(Variant::WORDS, &[]),
            "which implementation to follow: linux (6.1 to 6.6) or linux67 (6.7 on)"
        )
        .ours(),
        Param::ignored("defrate", 1, "Linux has not used it since 3.13"),
        Param::ignored("offload_horizon", 1, "no network card here holds packets back"),
        Param::ignored("bands", 1, "bands are as by default"),
        Param::ignored("priomap", 16, "bands are as by default"),
        Param::ignored("weights", 3, "bands are as by default"),
    ];

    /// tc sends the logarithm of the buckets, rounded up.
    fn complete(&mut self) {
        self.buckets = self.buckets.next_power_of_two();
    }
}

/// A flow that was inactive for longer may be removed (`FQ_GC_AGE`).
const GC_AGE: Span = Span::from_secs(3);
/// Bytes that the bands of priority send in one round, by default.
const WEIGHTS: [i32; BANDS] = [9 << 16, 3 << 16, 1 << 16];
/// Bands of priority.
const BANDS: usize = 3;
/// The band of each of the sixteen priorities, by default.
const PRIOMAP: u64 = super::prio::PRIOMAP;
/// The most packets in the fast path; further packets join the queues of their flows.
const FAST_PATH: usize = 8;
/// The number of flows that the arrival of one packet removes at most (`FQ_GC_MAX`).
const GC_MAX: u32 = 8;
/// No packet is held back for longer (`NSEC_PER_SEC` in the kernel).
const LONGEST_HOLD: Span = Span::from_secs(1);

/// The rule for how large a flow's queue may grow, in which fq and ccaq differ. Each flow has one value of this type.
pub trait Buffer {
    /// The parameters that all flows share.
    type Params;
    /// The parameters of the discipline that has this rule.
    type QdiscParams;

    /// Sets the parameters of the scheduler and of this rule after a change.
    fn change(given: &Self::QdiscParams, scheduling: &mut Scheduling, params: &mut Self::Params);

    /// Creates the state of a flow whose first packet arrives at `now`.
    fn new(now: Time, params: &Self::Params) -> Self;

    /// Decides about a packet that arrives while the flow has `queued` packets.
    fn arrival(&mut self, now: Time, params: &Self::Params, queued: u32, packet: &impl Packet) -> Verdict;

    /// True if the rule adapts a flow's limit over time.
    const ADAPTS: bool = false;

    /// The flow's present limit in packets; 0 for a rule that does not adapt it.
    fn limit(&self) -> u32 {
        0
    }

    /// Tells the rule that a packet has left the flow at `now`, and that `left` packets remain.
    fn departure(&mut self, now: Time, left: u32, packet: &impl Packet);
}

/// The fate of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It joins its flow's queue.
    Accept,
    /// It joins its flow's queue, whose limit was raised for it.
    Enlarge,
    /// It is dropped.
    Refuse,
    /// It is dropped, and so are all packets of its flow behind the first `n` of them.
    Shrink(u32),
}

/// The rule of fq: the limit is the same for every flow and does not adapt.
#[derive(Clone, Copy, Debug)]
pub struct FlowLimit;

impl Buffer for FlowLimit {
    /// `flow_limit` in packets.
    type Params = u32;
    type QdiscParams = Params;

    fn change(given: &Params, scheduling: &mut Scheduling, limit: &mut u32) {
        let Scheduling { quantum, initial_quantum, .. } = *scheduling;
        *scheduling = given.scheduling(quantum, initial_quantum);
        *limit = given.flow_limit;
    }

    #[inline]
    fn new(_now: Time, _limit: &u32) -> Self {
        FlowLimit
    }

    #[inline]
    fn arrival(&mut self, _now: Time, limit: &u32, queued: u32, _packet: &impl Packet) -> Verdict {
        if queued < *limit { Verdict::Accept } else { Verdict::Refuse }
    }

    #[inline]
    fn departure(&mut self, _now: Time, _left: u32, _packet: &impl Packet) {}
}

/// The scheduler's parameters, the same for every rule for buffers.
#[derive(Clone, PartialEq, Debug)]
pub struct Scheduling {
    /// Packets in all flows.
    pub limit: u32,
    /// Bytes that a flow may send in one round.
    pub quantum: u32,
    /// Bytes that a flow may send in its first round.
    pub initial_quantum: u32,
    /// Size of the flow table, a power of two.
    pub buckets: u32,
    /// Which bits of the hash tell flows apart.
    pub orphan_mask: u32,
    /// A flow that was inactive for longer has at least a quantum of credit.
    pub refill_delay: Span,
    /// ECN-capable packets are marked if they leave later than this after their arrival, or after the time until which
    /// pacing held their flow back.
    pub ce_threshold: Span,
    /// Every flow is paced to this rate, if given.
    pub maxrate: Option<Rate>,
    /// Whether `maxrate` is given, even if `nopacing` switches pacing off.
    pub rated: bool,
    /// Flows paced to this rate or less are paced packet by packet, not quantum by quantum.
    pub low_rate_threshold: Rate,
    /// Linux's rules: ages are in jiffies, and an arrival removes only those inactive flows that Linux meets on the way
    /// to the packet's own flow.
    pub linux: bool,
    /// The rules of Linux 6.7 and later: a fast path, and bands of priority.
    pub fast_path: bool,
}

impl Scheduling {
    /// Returns whether more than `span` has passed since a flow left the round at `age`. The kernel rounds ages up to odd
    /// numbers of jiffies. A packet that arrives exactly at a tick is handled before the tick.
    fn is_older(&self, now: Time, age: Time, span: Span) -> bool {
        let begun = |at: Time| at.0.saturating_sub(1) / JIFFY.0;
        if self.linux { begun(now) > (begun(age) | 1) + jiffies(span) } else { now.since(age) > span }
    }
}

/// The scheduler's state for a flow.
#[derive(Clone, Debug)]
struct State<B> {
    /// When the flow last left the round.
    age: Time,
    /// With pacing, the time before which the flow's next packet must not leave; zero at first.
    time_next_packet: Time,
    /// The masked hash.
    key: u32,
    /// The next flow in the bucket, or in the list of removed flows.
    chain: u32,
    buffer: B,
}

/// Counters, with the keys of `tc -s -j qdisc`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Packets dropped by their flow's limit, in ccaq also those dropped when the limit shrank.
    pub flows_plimit: u64,
    /// Number of flows that were removed.
    pub gc: u64,
    /// Packets marked by `ce_threshold`.
    pub ce_mark: u64,
    /// Packets that bypassed the queues.
    pub fastpath: u64,
    /// How often a flow was held back.
    pub throttled: u64,
    /// Packets that the rate would have held back for more than a second.
    pub pkts_too_long: u64,
    /// How late held-back packets were dequeued, in nanoseconds: a moving average.
    pub latency: u64,
    /// How often a flow's limit was raised (ccaq).
    pub enlarged: u64,
    /// How often a flow's limit was lowered (ccaq).
    pub shrunk: u64,
    /// Packets beyond a lowered limit that were dropped.
    pub shed: u64,
}

/// Flows that are served in turn, with a rule for the size of their buffers.
#[derive(Clone, Debug)]
pub struct FlowQueues<P, B: Buffer> {
    scheduling: Scheduling,
    buffer: B::Params,
    /// The first flow of each bucket.
    table: Vec<u32>,
    flows: Flows<P, State<B>, BANDS>,
    /// Packets of each band in the flows.
    band_packets: [usize; BANDS],
    /// Flows that are held back. Each has the time until which it is held, a counter that orders equal times, and its
    /// number.
    held: BinaryHeap<Reverse<(Time, u64, u32)>>,
    /// The first of the removed flows, whose places are used again.
    free: u32,
    /// Flows in the table.
    known: u32,
    /// Flows with packets.
    filled: u32,
    /// Packets that bypass the flows, and their bytes.
    fast: VecDeque<P>,
    fast_bytes: u64,
    /// The band that is served. `credits` are the bytes that each band may still send in its turn.
    band: usize,
    credits: [i32; BANDS],
    stats: Stats,
}

impl<P: Packet + Copy, B: Buffer> FlowQueues<P, B> {
    /// Creates the queues without flows.
    pub fn with(scheduling: Scheduling, buffer: B::Params) -> Self {
        FlowQueues {
            table: alloc::vec![NIL; scheduling.buckets as usize],
            scheduling,
            buffer,
            flows: Flows::new(),
            band_packets: [0; BANDS],
            held: BinaryHeap::new(),
            free: NIL,
            known: 0,
            filled: 0,
            fast: VecDeque::new(),
            fast_bytes: 0,
            band: 0,
            credits: [0; BANDS],
            stats: Stats::default(),
        }
    }

    /// Flows in the table (`flows`).
    pub fn known_flows(&self) -> u32 {
        self.known
    }

    /// Flows in the table that have left the round, since 6.7 those without packets (`inactive`).
    pub fn inactive_flows(&self) -> u32 {
        if self.scheduling.fast_path {
            return self.known - self.filled;
        }
        self.known - self.flows.new_len() - self.flows.old_len() - self.held.len() as u32
    }

    /// The buffer of the flow with this hash, if it is known.
    pub fn buffer(&self, hash: u32) -> Option<&B> {
        let key = hash & self.scheduling.orphan_mask;
        self.find(self.bucket(key), key).map(|flow| &self.flows.flow(flow).state.buffer)
    }

    /// The least and the greatest limit of the known flows (0 if there are no flows); `None` if limits do not adapt.
    fn adapted(&self) -> Option<[u64; 2]> {
        if !B::ADAPTS {
            return None;
        }
        let next = |number: &u32| Some(self.flows.flow(*number).state.chain).filter(|next| *next != NIL);
        let chain = |first: &u32| core::iter::successors(Some(*first).filter(|first| *first != NIL), next);
        let limits = || self.table.iter().flat_map(chain).map(|number| self.flows.flow(number).state.buffer.limit());
        Some([limits().min().unwrap_or(0).into(), limits().max().unwrap_or(0).into()])
    }

    #[inline]
    fn bucket(&self, key: u32) -> usize {
        // hash_ptr multiplies by the bits of the golden ratio. The key is made odd, so that it differs from every
        // socket's address.
        let mixed = (u64::from(key) << 1 | 1).wrapping_mul(0x61c8_8646_80b5_83eb);
        (((mixed >> 32) * self.table.len() as u64) >> 32) as usize
    }

    #[inline]
    fn find(&self, bucket: usize, key: u32) -> Option<u32> {
        let mut number = self.table[bucket];
        while number != NIL {
            let state = &self.flows.flow(number).state;
            if state.key == key {
                return Some(number);
            }
            number = state.chain;
        }
        None
    }

    /// Returns the flow of a packet with this hash, and creates it if it is unknown. This may remove flows of the same
    /// bucket that have been inactive for long.
    #[inline]
    fn classify(&mut self, now: Time, hash: u32) -> u32 {
        let key = hash & self.scheduling.orphan_mask;
        let bucket = self.bucket(key);
        let many = || u64::from(self.known) >= 2 * self.table.len() as u64 && self.inactive_flows() > self.known / 2;
        if self.scheduling.fast_path || many() {
            self.forget(now, bucket, key);
        }
        match self.find(bucket, key) {
            Some(number) => number,
            None => self.welcome(now, bucket, key),
        }
    }

    /// Creates a flow that is seen for the first time, and returns its number.
    #[cold]
    fn welcome(&mut self, now: Time, bucket: usize, key: u32) -> u32 {
        let credit = self.scheduling.initial_quantum as i32;
        let state = State {
            age: now,
            time_next_packet: Time::ZERO,
            key,
            chain: self.table[bucket],
            buffer: B::new(now, &self.buffer),
        };
        let number = match self.free {
            NIL => self.flows.add(credit, state),
            number => {
                let flow = self.flows.flow_mut(number);
                self.free = flow.state.chain;
                (flow.credit, flow.band, flow.state) = (credit, 0, state);
                number
            }
        };
        self.table[bucket] = number;
        self.known += 1;
        number
    }

    /// Removes the flows of this bucket that have been inactive for long, except the one with this key. New flows are
    /// at the front of a chain, but at the end of a path in Linux's tree. Therefore Linux's rules remove only the older
    /// flows, which are behind the flow with this key (all flows if there is none).
    fn forget(&mut self, now: Time, bucket: usize, key: u32) {
        let most = if self.scheduling.fast_path { u32::MAX } else { GC_MAX };
        let mut on_the_way = !self.scheduling.linux || self.find(bucket, key).is_none();
        let (mut previous, mut number, mut forgotten) = (NIL, self.table[bucket], 0);
        while number != NIL && forgotten < most {
            let loose = self.flows.is_loose(number);
            let flow = self.flows.flow_mut(number);
            let next = flow.state.chain;
            let own = flow.state.key == key;
            on_the_way |= own;
            let idle = loose && self.scheduling.is_older(now, flow.state.age, GC_AGE);
            if own || !on_the_way || !idle {
                previous = number;
            } else {
                flow.state.chain = self.free;
                self.free = number;
                match previous {
                    NIL => self.table[bucket] = next,
                    previous => self.flows.flow_mut(previous).state.chain = next,
                }
                forgotten += 1;
            }
            number = next;
        }
        self.known -= forgotten;
        self.stats.gc += u64::from(forgotten);
    }

    /// Distributes the flows to another number of buckets (`fq_rehash`) and removes those that have been inactive for
    /// long.
    fn resize(&mut self, now: Time, old: Vec<u32>) {
        let mut forgotten = 0;
        for first in old {
            let mut number = first;
            while number != NIL {
                let flow = self.flows.flow(number);
                let (next, key) = (flow.state.chain, flow.state.key);
                let idle = self.flows.is_loose(number) && self.scheduling.is_older(now, flow.state.age, GC_AGE);
                let bucket = self.bucket(key);
                let list = if idle { &mut self.free } else { &mut self.table[bucket] };
                self.flows.flow_mut(number).state.chain = core::mem::replace(list, number);
                forgotten += u32::from(idle);
                number = next;
            }
        }
        self.known -= forgotten;
        self.stats.gc += u64::from(forgotten);
    }

    /// Returns whether an arriving packet bypasses the flows, which is possible if no flow has a packet that may leave.
    #[inline]
    fn is_fast(&self, now: Time) -> bool {
        self.scheduling.fast_path
            && !self.scheduling.rated
            && self.next_due() > now
            && self.filled == self.held.len() as u32
            && self.fast.len() < FAST_PATH
    }

    /// When the first flow that is held back may send; never if there is none.
    #[inline]
    fn next_due(&self) -> Time {
        self.held.peek().map_or(Time::NEVER, |Reverse((due, ..))| *due)
    }

    /// The flow whose turn it is: from the band that is served, or from the next band that has flows and may send.
    fn turn(&mut self) -> Option<u32> {
        let quantum = self.scheduling.quantum;
        if !self.scheduling.fast_path {
            return self.flows.turn(quantum);
        }
        let mut asked = 0;
        loop {
            if self.credits[self.band] > 0 {
                match self.flows.first(self.band as u8, quantum) {
                    Some(Some(number)) => return Some(number),
                    Some(None) => {
                        asked = 0;
                        continue;
                    }
                    None => {}
                }
            }
            loop {
                asked += 1;
                if asked > BANDS {
                    return None;
                }
                self.band = (self.band + 1) % BANDS;
                let weight = WEIGHTS[self.band];
                self.credits[self.band] = (self.credits[self.band] + weight).min(weight);
                if self.credits[self.band] > 0 {
                    break;
                }
                asked = 0;
            }
        }
    }

    /// The band of packets with this DSCP, by the priority that a router gives them. Before Linux 6.7 there is only one
    /// band, 0.
    #[inline]
    fn band(&self, dscp: u8) -> u8 {
        if self.scheduling.fast_path { (PRIOMAP >> (4 * priority(dscp)) & 15) as u8 } else { 0 }
    }

    /// Moves flows that were held back into the round again if their time to send has come.
    #[inline]
    fn release_held(&mut self, now: Time) {
        if let Some(Reverse((due, ..))) = self.held.peek()
            && *due < now
        {
            let latency = &mut self.stats.latency;
            *latency = *latency - (*latency >> 3) + (now.since(*due).0 >> 3);
        }
        while let Some(Reverse((due, _, number))) = self.held.peek() {
            if *due > now {
                return;
            }
            self.flows.release(*number);
            self.held.pop();
        }
    }

    /// Sets the time at which the flow's next packet may leave, after a packet of `bytes` bytes has left.
    fn pace(&mut self, now: Time, number: u32, bytes: u32, rate: Rate) {
        let flow = self.flows.flow_mut(number);
        let mut bytes = bytes;
        if rate <= self.scheduling.low_rate_threshold {
            flow.credit = 0;
        } else {
            // The flow sends a whole quantum without waiting, and then waits for the time of the whole quantum.
            bytes = bytes.max(self.scheduling.quantum);
            if flow.credit > 0 {
                return;
            }
        }
        let mut hold = Span(u64::from(bytes) * 8_000_000_000 / rate.0);
        if hold > LONGEST_HOLD {
            hold = LONGEST_HOLD;
            self.stats.pkts_too_long += 1;
        }
        let due = flow.state.time_next_packet;
        if due > Time::ZERO {
            // If this packet left late, the next wait is shorter by the same time, but at most by half.
            hold = hold - now.since(due).min(Span(hold.0 / 2));
        }
        flow.state.time_next_packet = now + hold;
    }
}

impl<P: Packet + Copy, B: Buffer> Qdisc<P> for FlowQueues<P, B> {
    type Params = B::QdiscParams;

    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        let band = self.band(packet.dscp());
        if self.band_packets[usize::from(band)] >= self.scheduling.limit as usize {
            return drops.dropped(packet, DropReason::Overlimit);
        }
        if self.is_fast(now) {
            self.fast_bytes += u64::from(packet.bytes());
            self.stats.fastpath += 1;
            return self.fast.push_back(packet);
        }
        let number = self.classify(now, packet.flow_hash());
        let flow = self.flows.flow_mut(number);
        let queued = flow.packets();
        match flow.state.buffer.arrival(now, &self.buffer, queued, &packet) {
            Verdict::Accept => {}
            Verdict::Enlarge => self.stats.enlarged += 1,
            Verdict::Refuse => {
                self.stats.flows_plimit += 1;
                return drops.dropped(packet, DropReason::FlowLimit);
            }
            Verdict::Shrink(keep) => {
                let shed = u64::from(queued.saturating_sub(keep));
                self.stats.shrunk += 1;
                self.stats.shed += shed;
                self.stats.flows_plimit += shed + 1;
                self.filled -= u32::from(queued > 0 && keep == 0);
                self.band_packets[usize::from(band)] -= queued.saturating_sub(keep) as usize;
                self.flows.cut(number, keep, |packet| drops.dropped(packet, DropReason::Shrink));
                return drops.dropped(packet, DropReason::FlowLimit);
            }
        }
        if self.flows.list_as_new(number) {
            let flow = self.flows.flow_mut(number);
            if self.scheduling.is_older(now, flow.state.age, self.scheduling.refill_delay) {
                // A flow that has left the round has no debt: it was seen empty in its turn.
                flow.credit = flow.credit.max(self.scheduling.quantum as i32);
            }
        }
        self.filled += u32::from(self.flows.flow(number).packets() == 0);
        self.band_packets[usize::from(band)] += 1;
        // The kernel notes the band when the flow is in its list already.
        self.flows.flow_mut(number).band = band;
        self.flows.push(number, packet);
    }

    fn dequeue(&mut self, now: Time, _drops: &mut impl Drops<P>) -> Option<P> {
        // Unlike fq_codel, an empty fq leaves its flows in the round.
        if let Some(packet) = self.fast.pop_front() {
            self.fast_bytes -= u64::from(packet.bytes());
            return Some(packet);
        }
        if self.flows.packets() == 0 {
            return None;
        }
        self.release_held(now);
        loop {
            let number = self.turn()?;
            let due = self.flows.flow(number).state.time_next_packet;
            if now < due && self.flows.flow(number).packets() > 0 {
                self.flows.hold();
                self.held.push(Reverse((due, self.stats.throttled, number)));
                self.stats.throttled += 1;
                continue;
            }
            let Some(mut packet) = self.flows.pop(number) else {
                self.flows.flow_mut(number).state.age = now;
                self.flows.leave(self.scheduling.fast_path);
                continue;
            };
            self.flows.charge(number, packet.bytes());
            if self.scheduling.fast_path {
                self.credits[self.band] -= packet.bytes() as i32;
            }
            let band = self.band(packet.dscp());
            self.band_packets[usize::from(band)] -= 1;
            let flow = self.flows.flow_mut(number);
            let left = flow.packets();
            self.filled -= u32::from(left == 0);
            flow.state.buffer.departure(now, left, &packet);
            if now.since(packet.enqueue_time().max(due)) > self.scheduling.ce_threshold && packet.mark() {
                self.stats.ce_mark += 1;
            }
            if let Some(rate) = self.scheduling.maxrate {
                self.pace(now, number, packet.bytes(), rate);
            }
            return Some(packet);
        }
    }

    /// `fq_change`: packets beyond the limit are dropped in the order in which the link would get them, as far as they
    /// may leave now.
    fn change(&mut self, now: Time, params: &B::QdiscParams, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        B::change(params, &mut self.scheduling, &mut self.buffer);
        let buckets = self.scheduling.buckets as usize;
        if buckets != self.table.len() {
            let old = core::mem::replace(&mut self.table, alloc::vec![NIL; buckets]);
            self.resize(now, old);
        }
        while self.packets() > self.scheduling.limit as usize {
            let Some(packet) = self.dequeue(now, drops) else { break };
            drops.dropped(packet, DropReason::Overlimit);
        }
        Ok(())
    }

    /// `fq_change` dequeues these packets and frees them, which counts them as sent; `ccaq_change` also counts them as
    /// drops.
    fn counts_change(&self) -> Given {
        Given { sent: true, dropped: B::ADAPTS }
    }

    fn next_event(&self) -> Time {
        self.next_due()
    }

    fn packets(&self) -> usize {
        self.flows.packets() + self.fast.len()
    }

    fn backlog(&self) -> u64 {
        self.flows.backlog() + self.fast_bytes
    }

    /// Returns whether the queue is full for a best-effort packet; limits of single flows do not count.
    fn is_full(&self, _mtu: u32) -> bool {
        self.band_packets[usize::from(self.band(0))] >= self.scheduling.limit as usize
    }

    /// The counters in the order of `tc`; for ccaq, of its own `tc` plugin.
    fn stats(&self) -> super::Stats {
        // tc prints two counters called `throttled`; here the first, the number of flows, has the kernel's name.
        let (known, held) = (u64::from(self.known), self.held.len() as u64);
        let mut stats =
            numbers([("flows", known), ("inactive", u64::from(self.inactive_flows())), ("throttled_flows", held)]);
        let Stats { gc, throttled, fastpath, ce_mark, flows_plimit, pkts_too_long, .. } = self.stats;
        if let Some([least, most]) = self.adapted() {
            let Stats { enlarged, shrunk, shed, .. } = self.stats;
            stats.extend(numbers([("min_limit", least), ("max_limit", most)]));
            stats.extend(numbers([("enlarged", enlarged), ("shrunk", shrunk), ("shed", shed)]));
            stats.extend(numbers([("flows_plimit", flows_plimit), ("gc", gc), ("throttled", throttled)]));
            stats.extend(numbers([("ce_mark", ce_mark), ("pkts_too_long", pkts_too_long)]));
            // Packets here have no departure time of their own, and allocation never fails.
            stats.extend(numbers([("horizon_drops", 0), ("horizon_caps", 0), ("allocation_errors", 0)]));
        } else {
            // Linux 6.7 and newer do not count high-priority packets.
            stats.extend(numbers([("gc", gc), ("highprio", 0), ("fastpath", fastpath), ("throttled", throttled)]));
            stats.extend(numbers([("latency", self.stats.latency), ("ce_mark", ce_mark)]));
            stats.extend(numbers([("flows_plimit", flows_plimit), ("pkts_too_long", pkts_too_long)]));
            stats.extend(numbers([("alloc_errors", 0), ("horizon_drops", 0), ("horizon_caps", 0)]));
        }
        stats
    }
}

/// The discipline.
pub type Fq<P> = FlowQueues<P, FlowLimit>;

impl<P: Packet + Copy> Fq<P> {
    /// Creates the discipline without flows, in front of a link.
    pub fn new(params: &Params, context: &Context) -> Self {
        // fq_init: two and ten MTU.
        let scheduling = params.scheduling(2 * context.mtu, 10 * context.mtu);
        FlowQueues::with(scheduling, params.flow_limit)
    }
}

impl Params {
    /// The scheduler's parameters. The arguments are used for quanta that are not given.
    fn scheduling(&self, quantum: u32, initial_quantum: u32) -> Scheduling {
        // Linux 6.12.117 and 7.3.4 raise a quantum below 256 bytes to 256; 6.1.192 does not.
        let least = if self.variant == Variant::Linux67 { 256 } else { 1 };
        Scheduling {
            limit: self.limit,
            quantum: self.quantum.unwrap_or(quantum).max(least),
            initial_quantum: self.initial_quantum.unwrap_or(initial_quantum),
            buckets: self.buckets,
            orphan_mask: self.orphan_mask,
            refill_delay: self.refill_delay,
            ce_threshold: self.ce_threshold.unwrap_or(Span::MAX),
            maxrate: self.maxrate.filter(|_| self.pacing),
            rated: self.maxrate.is_some(),
            low_rate_threshold: self.low_rate_threshold,
            linux: true,
            fast_path: self.variant == Variant::Linux67,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};

    fn fq(params: Params) -> Bench<Fq<Parcel>> {
        Bench::new(Fq::new(&params, &CONTEXT))
    }

    /// Parameters with a quantum of 1000 bytes and an initial quantum of 3000.
    fn small() -> Params {
        Params { quantum: Some(1000), initial_quantum: Some(3000), ..Params::default() }
    }

    fn flows_of(bench: &mut Bench<Fq<Parcel>>, now: Time, count: usize) -> Vec<u32> {
        (0..count).filter_map(|_| bench.take_flow(now)).collect()
    }

    #[test]
    fn a_flow_holds_flow_limit_packets_and_the_arriving_one_is_dropped() {
        let mut bench = fq(Params { flow_limit: 3, ..small() });
        bench.fill(ms(0), 1, 100, 3);
        assert!(bench.new_drops().is_empty());
        let fourth = bench.put(ms(0), 1, 100);
        assert_eq!(bench.new_drops(), [(fourth, DropReason::FlowLimit)]);
        bench.put(ms(0), 2, 100);
        assert!(bench.new_drops().is_empty(), "another flow has its own limit");
        assert_eq!(bench.counter("flows_plimit"), 1);
    }

    #[test]
    fn the_limit_of_all_comes_before_the_limit_of_one() {
        let mut bench = fq(Params { limit: 3, flow_limit: 3, ..small() });
        bench.fill(ms(0), 1, 100, 3);
        let fourth = bench.put(ms(0), 1, 100);
        let fifth = bench.put(ms(0), 2, 100);
        assert_eq!(bench.new_drops(), [(fourth, DropReason::Overlimit), (fifth, DropReason::Overlimit)]);
        assert!(bench.qdisc.is_full(1514));
        assert_eq!(bench.qdisc.known_flows(), 1, "a packet refused by the limit of all makes no flow");
    }

    #[test]
    fn a_new_flow_sends_its_initial_quantum_and_then_takes_turns() {
        let mut bench = fq(small());
        bench.fill(ms(0), 1, 1000, 6);
        bench.fill(ms(0), 2, 1000, 6);
        // Three packets each while new, then one quantum a turn.
        assert_eq!(flows_of(&mut bench, ms(1), 12), [1, 1, 1, 2, 2, 2, 1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn quanta_are_two_and_ten_mtu_by_default() {
        let bench = fq(Params::default());
        assert_eq!((bench.qdisc.scheduling.quantum, bench.qdisc.scheduling.initial_quantum), (3028, 15_140));
    }

    #[test]
    fn flows_are_told_apart_by_the_masked_hash_alone() {
        let mut bench = fq(Params { flow_limit: 1, ..small() });
        bench.put(ms(0), 5, 100);
        let same = bench.put(ms(0), 5 + 1024, 100);
        bench.put(ms(0), 6, 100);
        assert_eq!(bench.new_drops(), [(same, DropReason::FlowLimit)]);
    }

    /// Lets flow 1 send one packet of `first` bytes. At `seen` its turn finds it empty and it leaves the round, while
    /// flow 9 keeps the discipline busy.
    fn drained(first: u32, seen: Time) -> Bench<Fq<Parcel>> {
        let mut bench = fq(small());
        bench.put(ms(0), 1, first);
        assert_eq!(bench.take_flow(ms(0)), Some(1));
        bench.fill(ms(0), 9, 1000, 50);
        assert_eq!(bench.take_flow(seen), Some(9));
        bench
    }

    fn credit(bench: &Bench<Fq<Parcel>>, hash: u32) -> i32 {
        let number = bench.qdisc.find(bench.qdisc.bucket(hash), hash).expect("a known flow");
        bench.qdisc.flows.flow(number).credit
    }

    #[test]
    fn a_flow_that_was_away_keeps_its_credit_and_after_the_refill_delay_has_at_least_a_quantum() {
        // 10 ms is in jiffy 2, which counts as 3; jiffy 14 begins after 56 ms.
        for (away, expected) in [(Span::from_millis(46), 500), (Span(46_000_001), 1000)] {
            let mut bench = drained(2500, ms(10));
            bench.put(ms(10) + away, 1, 100);
            assert_eq!(credit(&bench, 1), expected, "{away}");
        }
        let mut bench = drained(500, ms(10));
        bench.put(ms(100), 1, 100);
        assert_eq!(credit(&bench, 1), 2500, "more than a quantum is kept");
    }

    #[test]
    fn since_6_7_eight_packets_pass_by_the_flows_while_those_are_empty() {
        let mut bench = fq(Params { variant: Variant::Linux67, ..small() });
        bench.fill(ms(0), 1, 100, 9);
        bench.put(ms(0), 2, 100);
        assert_eq!(bench.counter("fastpath"), 8);
        assert_eq!((bench.qdisc.known_flows(), bench.qdisc.inactive_flows()), (2, 0));
        for _ in 0..8 {
            bench.take(ms(1));
        }
        bench.put(ms(1), 3, 100);
        assert_eq!(bench.counter("fastpath"), 8, "flows 1 and 2 wait");
        for _ in 0..3 {
            bench.take(ms(2));
        }
        bench.put(ms(2), 1, 100);
        assert_eq!((bench.counter("fastpath"), bench.qdisc.inactive_flows()), (9, 3));
        assert_eq!(bench.qdisc.packets(), 1);
    }

    #[test]
    fn since_6_7_a_flow_seen_for_the_first_time_waits_for_the_turn_of_the_first_band() {
        let mut bench = fq(Params { variant: Variant::Linux67, flow_limit: 1000, ..small() });
        bench.fill(ms(0), 1, 1000, 700);
        // Eight by the fast path, flow 1's first three in the first band; from then on in the second.
        for _ in 0..12 {
            bench.take(ms(1));
        }
        bench.put(ms(1), 2, 500);
        let before = core::iter::from_fn(|| bench.take(ms(1))).take_while(|packet| packet.flow_hash() == 1).count();
        // 196 608 bytes of the second band, less what it has sent.
        assert_eq!(before, 196);
    }

    #[test]
    fn with_a_rate_for_every_flow_nothing_passes_by_them() {
        let mut bench = fq(Params { variant: Variant::Linux67, maxrate: Some(Rate(8_000_000)), ..small() });
        bench.fill(ms(0), 1, 100, 3);
        assert_eq!(bench.counter("fastpath"), 0);
    }

    #[test]
    fn a_flow_in_debt_pays_by_its_turns_before_it_may_leave_the_round() {
        let mut bench = fq(small());
        bench.put(ms(0), 1, 5500);
        bench.take(ms(0));
        assert_eq!(credit(&bench, 1), -2500);
        bench.fill(ms(0), 9, 1000, 50);
        let mut turns = 0;
        while !bench.qdisc.flows.is_loose(0) {
            bench.take(ms(1));
            turns += 1;
        }
        // Flow 9 sends its first 3 packets as a new flow, then one a turn: flow 1 gets a quantum after each.
        assert_eq!((credit(&bench, 1), turns), (500, 6));
    }

    #[test]
    fn an_empty_fq_leaves_its_flows_in_the_round() {
        let mut bench = fq(small());
        bench.put(ms(0), 1, 100);
        bench.take(ms(0));
        assert_eq!(bench.take(ms(1)), None);
        assert_eq!(bench.qdisc.inactive_flows(), 0);
        assert_eq!(bench.qdisc.next_event(), Time::NEVER);
    }

    #[test]
    fn idle_flows_are_forgotten_after_three_seconds_once_there_are_twice_as_many_as_buckets() {
        let mut bench = fq(Params { buckets: 4, orphan_mask: u32::MAX, ..small() });
        for hash in 0..8 {
            bench.put(ms(0), hash, 100);
        }
        while bench.take(ms(0)).is_some() {}
        // One packet of a ninth flow makes the round see that all others are empty.
        bench.put(ms(0), 100, 100);
        bench.take(ms(0));
        assert_eq!((bench.qdisc.known_flows(), bench.qdisc.inactive_flows()), (9, 8));
        for hash in 200..204 {
            bench.put(ms(3000), hash, 100);
        }
        assert_eq!(bench.counter("gc"), 0, "three seconds are not more than three seconds");
        for hash in 300..320 {
            bench.put(ms(3009), hash, 100);
            bench.take(ms(3009));
        }
        assert!(bench.counter("gc") >= 4, "{}", bench.counter("gc"));
        let known = u64::from(bench.qdisc.known_flows());
        assert_eq!(known, 9 + 4 + 20 - bench.counter("gc"));
        let live: usize = (0..4)
            .map(|bucket| {
                let mut number = bench.qdisc.table[bucket];
                core::iter::from_fn(|| {
                    (number != NIL).then(|| {
                        number = bench.qdisc.flows.flow(number).state.chain;
                    })
                })
                .count()
            })
            .sum();
        assert_eq!(live as u64, known);
    }

    #[test]
    fn until_6_6_nothing_is_forgotten_while_just_half_of_the_flows_are_idle() {
        let mut bench = fq(Params { buckets: 1, orphan_mask: u32::MAX, ..small() });
        for hash in [10, 11] {
            bench.put(ms(0), hash, 100);
            bench.take(ms(0));
        }
        for hash in [12, 13] {
            bench.fill(ms(0), hash, 1000, 5);
        }
        // Behind the first rounds of both the others are seen to be empty.
        assert_eq!(flows_of(&mut bench, ms(0), 7), [12, 12, 12, 13, 13, 13, 12]);
        assert_eq!((bench.qdisc.known_flows(), bench.qdisc.inactive_flows()), (4, 2));
        bench.put(ms(9000), 14, 100);
        assert_eq!((bench.counter("gc"), bench.qdisc.known_flows()), (0, 5));
    }

    #[test]
    fn since_6_7_a_band_whose_credit_is_just_used_up_waits_for_its_next_turn() {
        let params = Params { variant: Variant::Linux67, flow_limit: 5000, ..Params::default() };
        let mut bench = fq(Params { quantum: Some(1 << 20), initial_quantum: Some(1024), ..params });
        bench.fill(ms(0), 9, 1024, 8); // they pass by
        for (flow, dscp) in [(1, 4), (3, 2)] {
            (0..3000).for_each(|_| _ = bench.put_dscp(ms(0), flow, 1024, dscp));
        }
        let served = flows_of(&mut bench, ms(1), 3000).split_off(8);
        let runs: Vec<usize> = served.chunk_by(|a, b| a == b).filter(|run| run[0] == 3).map(<[u32]>::len).collect();
        // A first packet in the first band; then 2^16 bytes of the third band are 64 packets.
        assert_eq!(runs[..4], [1, 64, 64, 64]);
    }

    #[test]
    fn since_6_7_bands_share_the_link_nine_to_three_to_one_and_each_has_the_limit() {
        let mut bench = fq(Params { variant: Variant::Linux67, flow_limit: 5000, limit: 2000, ..small() });
        bench.fill(ms(0), 9, 1000, 8); // they pass by
        // Interactive, best effort, bulk: the lower four bits of the DSCP.
        for (flow, dscp) in [(1, 4), (2, 0), (3, 2)] {
            (0..2001).for_each(|_| _ = bench.put_dscp(ms(0), flow, 1000, dscp));
        }
        assert_eq!(bench.new_drops().len(), 3, "one of each band");
        // Past each flow's first round, in the first band.
        let served: Vec<u32> = flows_of(&mut bench, ms(1), 2700).split_off(100);
        let share = |flow| served.iter().filter(|&&other| other == flow).count() as f64 / served.len() as f64;
        for (flow, expected) in [(1, 9. / 13.), (2, 3. / 13.), (3, 1. / 13.)] {
            assert!((share(flow) - expected).abs() < 0.03, "flow {flow}: {}", share(flow));
        }
    }

    #[test]
    fn since_6_7_an_arrival_forgets_the_idle_flows_on_the_way_to_its_own() {
        let newer = Params { variant: Variant::Linux67, buckets: 1, orphan_mask: u32::MAX, ..small() };
        let mut bench = fq(newer);
        for now in [ms(0), ms(10)] {
            bench.fill(now, 7, 100, FAST_PATH as u32);
            for hash in if now == ms(0) { [9, 1] } else { [5, 5] } {
                bench.fill(now, hash, 100, 20);
            }
            while bench.take(now).is_some() {}
        }
        assert_eq!((bench.qdisc.known_flows(), bench.counter("gc")), (3, 0));
        bench.fill(ms(5000), 7, 100, FAST_PATH as u32);
        bench.put(ms(5000), 1, 100);
        assert_eq!(bench.counter("gc"), 1, "flow 9 came before flow 1, flow 5 after it");
        assert_eq!(bench.qdisc.known_flows(), 2);
    }

    #[test]
    fn packets_that_stay_longer_than_ce_threshold_are_marked_if_they_may() {
        let mut bench = fq(Params { ce_threshold: Some(Span::from_millis(1)), ..small() });
        use crate::packet::Ecn;
        bench.put_ecn(ms(0), 1, 100, Ecn::Ect0);
        bench.put_ecn(ms(0), 1, 100, Ecn::Ect0);
        bench.put_ecn(ms(0), 1, 100, Ecn::NotEct);
        assert_eq!(bench.take(ms(1)).map(|p| p.ecn), Some(Ecn::Ect0));
        assert_eq!(bench.take(Time(1_000_001)).map(|p| p.ecn), Some(Ecn::Ce));
        assert_eq!(bench.take(ms(2)).map(|p| p.ecn), Some(Ecn::NotEct));
        assert_eq!(bench.counter("ce_mark"), 1);
    }

    #[test]
    fn maxrate_paces_each_flow_by_quanta_and_nopacing_does_not() {
        // 8 Mbit/s: 1 byte a microsecond.
        let params = Params { maxrate: Some(Rate(8_000_000)), initial_quantum: Some(1000), ..small() };
        let mut bench = fq(params.clone());
        bench.fill(ms(0), 1, 500, 8);
        let mut departures = Vec::new();
        let mut now = Time::ZERO;
        while bench.qdisc.packets() > 0 {
            match bench.take(now) {
                Some(_) => departures.push(now.0 / 1_000_000),
                None => now = bench.qdisc.next_event(),
            }
        }
        assert_eq!(departures, [0, 0, 1, 1, 2, 2, 3, 3]);
        assert!(bench.counter("throttled") >= 3);
        let mut free = fq(Params { pacing: false, ..params });
        free.fill(ms(0), 1, 500, 8);
        assert_eq!(flows_of(&mut free, ms(0), 9).len(), 8);
    }

    #[test]
    fn a_maxrate_below_low_rate_threshold_paces_packet_by_packet() {
        // 400 kbit/s: 500 bytes take 10 ms.
        let mut bench = fq(Params { maxrate: Some(Rate(400_000)), ..small() });
        bench.fill(ms(0), 1, 500, 3);
        assert!(bench.take(ms(0)).is_some());
        assert_eq!(bench.take(ms(9)), None);
        assert_eq!(bench.qdisc.next_event(), ms(10));
        assert!(bench.take(ms(10)).is_some());
    }
}
