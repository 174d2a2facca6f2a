//! Tins: classes of traffic, each with queues of its own, and the round in which they are served.

use super::cobalt::{self, Vars};
use super::hash::Host;
use super::params::{FlowMode, Params, TinMode};
use super::shaper::ByteTime;
use crate::qdisc::flows::Fifo;
use crate::qdisc::psched::bytes_per_second;
use crate::rng::Rng;
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Number of queues in a tin.
pub const QUEUES: usize = 1024;
/// The largest number of tins.
pub const TINS: usize = 8;

/// A queue's place in the round.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Set {
    /// The queue is not in the round.
    #[default]
    None,
    /// In the list of queues that have just become active (`List::New`).
    Sparse,
    /// The queue used up its first turn and was then empty. It waits in the list of bulk queues (`List::Old`), but
    /// still counts as sparse.
    SparseWait,
    /// In the list of queues with a backlog (`List::Old`).
    Bulk,
    /// The queue is empty, and stays in the round until its COBALT state is inactive.
    Decaying,
}

/// One queue.
#[derive(Clone, Debug)]
pub struct Flow {
    pub fifo: Fifo,
    pub cobalt: Vars,
    pub deficit: i32,
    pub srchost: u16,
    pub dsthost: u16,
    pub set: Set,
}

impl Flow {
    fn new() -> Flow {
        Flow { fifo: Fifo::EMPTY, cobalt: Vars::default(), deficit: 0, srchost: 0, dsthost: 0, set: Set::None }
    }
}

/// The lists of a tin's round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    New,
    Old,
    Decaying,
}

/// An array of `N` values, a power of two. An index is taken modulo `N`, so that it is never out of bounds.
#[derive(Clone, Debug)]
pub struct Table<T, const N: usize = QUEUES>(Box<[T; N]>);

impl<T: Clone + core::fmt::Debug, const N: usize> Table<T, N> {
    fn of(value: T) -> Self {
        let all: Box<[T]> = alloc::vec![value; N].into();
        Table(all.try_into().expect("as many as there are places"))
    }
}

impl<T, const N: usize> Table<T, N> {
    /// Returns all values, in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

impl<T, const N: usize> Index<usize> for Table<T, N> {
    type Output = T;
    #[inline(always)]
    fn index(&self, place: usize) -> &T {
        &self.0[place & (N - 1)]
    }
}

impl<T, const N: usize> IndexMut<usize> for Table<T, N> {
    #[inline(always)]
    fn index_mut(&mut self, place: usize) -> &mut T {
        &mut self.0[place & (N - 1)]
    }
}

/// The lists of a tin as doubly linked rings. A node holds the nodes before and after it. The first `QUEUES` nodes are
/// the queues; each list then has a node of its own, which closes its ring.
#[derive(Clone, Debug)]
struct Rings(Table<(u16, u16), { 2 * QUEUES }>);

impl Rings {
    fn new() -> Rings {
        let mut nodes = Table::of((0, 0));
        (0..QUEUES + 3).for_each(|node| nodes[node] = (node as u16, node as u16));
        Rings(nodes)
    }

    fn first(&self, list: List) -> Option<usize> {
        let next = usize::from(self.0[QUEUES + list as usize].1);
        (next < QUEUES).then_some(next)
    }

    fn remove(&mut self, node: usize) {
        let (before, after) = self.0[node];
        self.0[usize::from(before)].1 = after;
        self.0[usize::from(after)].0 = before;
        self.0[node] = (node as u16, node as u16);
    }

    fn append(&mut self, list: List, node: usize) {
        let end = QUEUES + list as usize;
        let last = self.0[end].0;
        self.0[node] = (last, end as u16);
        self.0[usize::from(last)].1 = node as u16;
        self.0[end].0 = node as u16;
    }
}

/// Counters, with the keys of `tc -s -j qdisc`; delays in ns.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub drops: u64,
    pub ecn_mark: u64,
    pub ack_drops: u64,
    pub avg_delay: u64,
    pub peak_delay: u64,
    pub base_delay: u64,
    pub way_indirect_hits: u64,
    pub way_misses: u64,
    pub way_collisions: u64,
    pub unresponsive_flows: u64,
    pub max_pkt_len: u32,
}

/// Returns the average after a sample, which counts with a weight of 2^-`shift`.
pub fn ewma(average: u64, sample: u64, shift: u32) -> u64 {
    average - (average >> shift) + (sample >> shift)
}

impl Counts {
    /// Counts a packet that waited `delay` ns.
    #[inline]
    pub fn delayed(&mut self, delay: u64) {
        self.avg_delay = ewma(self.avg_delay, delay, 8);
        self.peak_delay = ewma(self.peak_delay, delay, if delay > self.peak_delay { 2 } else { 8 });
        self.base_delay = ewma(self.base_delay, delay, if delay < self.base_delay { 2 } else { 8 });
    }
}

/// A class of traffic.
#[derive(Clone, Debug)]
pub struct Tin {
    pub flows: Table<Flow>,
    /// The hash for which each queue is reserved.
    pub tags: Table<u32>,
    pub hosts: Table<Host>,
    rings: Rings,
    /// Bytes that a queue may send in its turn if its hosts have no other backlogged flow.
    pub flow_quantum: u32,
    pub cobalt: cobalt::Params,
    /// The tin's rate in bytes per second; 0 without a bandwidth. Up to this rate it is served before tins with lower
    /// numbers.
    pub rate: u64,
    pub byte_time: ByteTime,
    pub time_next: u64,
    /// Without a shaper: the tin's weight, as bytes that it may send in its turn.
    pub quantum: i32,
    pub deficit: i32,
    pub backlog: u64,
    pub sparse: u32,
    pub bulk: u32,
    pub decaying: u32,
    pub counts: Counts,
}

impl Tin {
    fn new(params: &Params, rate: u64, quantum: u32, mtu: u32) -> Tin {
        let byte_time = ByteTime::new(rate);
        // tc derives the target from `rtt`, in whole µs.
        let target = Span::from_micros((params.rtt.0 / 1000 / 20).max(1)).0;
        let mut cobalt = cobalt::Params::new(params.variant);
        cobalt.mtu_time = byte_time.of(mtu);
        cobalt.target = (cobalt.mtu_time * 3 / 2).max(target);
        cobalt.interval = (params.rtt.0 + cobalt.target - target).max(cobalt.target * 2);
        Tin {
            flows: Table::of(Flow::new()),
            tags: Table::of(0),
            hosts: Table::of(Host::default()),
            rings: Rings::new(),
            flow_quantum: if rate == 0 { 1514 } else { (rate >> 12).clamp(300, 1514) as u32 },
            cobalt,
            rate,
            byte_time,
            time_next: 0,
            quantum: quantum.clamp(1, 65_535) as i32,
            deficit: 0,
            backlog: 0,
            sparse: 0,
            bulk: 0,
            decaying: 0,
            counts: Counts::default(),
        }
    }

    /// Copies the rate of another tin and the values derived from it (Linux's `cake_set_rate`). The queues and their
    /// state do not change.
    pub fn take_rate(&mut self, other: &Tin) {
        (self.flow_quantum, self.cobalt) = (other.flow_quantum, other.cobalt);
        (self.rate, self.byte_time, self.quantum) = (other.rate, other.byte_time, other.quantum);
    }

    /// Returns whether there are packets.
    #[inline]
    pub fn has_flows(&self) -> bool {
        self.sparse + self.bulk > 0
    }

    /// Returns the queue whose turn it is. Decaying queues come last, or with `decaying_first` also first.
    #[inline]
    pub fn first(&self, decaying_first: bool) -> Option<usize> {
        let first = |list| self.rings.first(list);
        let decaying = if decaying_first { first(List::Decaying) } else { None };
        decaying.or_else(|| first(List::New)).or_else(|| first(List::Old)).or_else(|| first(List::Decaying))
    }

    /// Moves a queue from its present list, if any, to the end of this one.
    #[inline]
    fn list(&mut self, list: List, queue: usize) {
        self.rings.remove(queue);
        self.rings.append(list, queue);
    }

    /// Moves a queue to its list after a packet was added to it.
    #[inline]
    pub fn enter_round(&mut self, queue: usize, params: &Params, rng: &mut Rng) {
        let was = self.flows[queue].set;
        match was {
            Set::None | Set::Decaying => {
                self.decaying -= u32::from(was == Set::Decaying);
                self.list(List::New, queue);
                self.sparse += 1;
                let deficit = self.turn(queue, params, rng);
                let flow = &mut self.flows[queue];
                (flow.set, flow.deficit) = (Set::Sparse, deficit);
            }
            Set::SparseWait => {
                self.flows[queue].set = Set::Bulk;
                self.sparse -= 1;
                self.bulk += 1;
                self.enter_bulk(queue, params.flow_mode);
            }
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// Moves a queue that has used up its turn to the end of its list.
    #[inline]
    pub fn next_turn(&mut self, queue: usize, params: &Params, rng: &mut Rng) {
        let flow = &mut self.flows[queue];
        if flow.set == Set::Sparse {
            if flow.fifo.packets() > 0 {
                flow.set = Set::Bulk;
                self.sparse -= 1;
                self.bulk += 1;
                self.enter_bulk(queue, params.flow_mode);
            } else {
                flow.set = Set::SparseWait;
            }
        }
        self.flows[queue].deficit += self.turn(queue, params, rng);
        self.list(List::Old, queue);
    }

    /// Handles the turn of an empty queue. It leaves the round if its COBALT state is inactive; otherwise it decays
    /// first.
    pub fn rest(&mut self, queue: usize, mode: FlowMode, now: Time) {
        let flow = &mut self.flows[queue];
        let calm = flow.cobalt.queue_empty(now, &self.cobalt);
        let active = flow.cobalt.is_active(now);
        let was = core::mem::replace(&mut flow.set, if active { Set::Decaying } else { Set::None });
        self.counts.unresponsive_flows -= u64::from(calm);
        match was {
            Set::Bulk => {
                self.bulk -= 1;
                self.leave_bulk(queue, mode);
            }
            Set::Sparse | Set::SparseWait => self.sparse -= 1,
            Set::Decaying => self.decaying -= 1,
            Set::None => {}
        }
        self.rings.remove(queue);
        if active {
            self.decaying += 1;
            self.rings.append(List::Decaying, queue);
        }
    }

    /// The bytes that a queue may send in its turn: its share of its host's quantum, rounded at random.
    #[inline]
    fn turn(&self, queue: usize, params: &Params, rng: &mut Rng) -> i32 {
        let flow = &self.flows[queue];
        let mut load = 1;
        if params.flow_mode.shares_source() {
            load = load.max(self.hosts[usize::from(flow.srchost)].src_bulk);
        }
        if params.flow_mode.shares_destination() {
            load = load.max(self.hosts[usize::from(flow.dsthost)].dst_bulk);
        }
        ((self.flow_quantum * (65_535 / u32::from(load)) + u32::from(rng.next_u16())) >> 16) as i32
    }
}

/// Returns the tin of each DSCP. DSCPs that are not listed belong to tin `rest`.
const fn classified(rest: u8, listed: &[(u8, &[u8])]) -> [u8; 64] {
    let mut tins = [rest; 64];
    let mut class = 0;
    while class < listed.len() {
        let (tin, codes) = listed[class];
        let mut place = 0;
        while place < codes.len() {
            tins[codes[place] as usize] = tin;
            place += 1;
        }
        class += 1;
    }
    tins
}

/// Returns the tin of each DSCP by its upper three bits (RFC 791's precedence).
const fn by_precedence() -> [u8; 64] {
    let mut tins = [0; 64];
    let mut code = 0;
    while code < 64 {
        tins[code] = (code / 8) as u8;
        code += 1;
    }
    tins
}

static BESTEFFORT: [u8; 64] = [0; 64];
static PRECEDENCE: [u8; 64] = by_precedence();
/// The classes of RFC 4594 in eight tins: tin 0 is lower effort (RFC 8622), 2 the default, 7 network control.
static DIFFSERV8: [u8; 64] = classified(
    2,
    &[
        (0, &[1]),
        (1, &[2, 8, 10, 12, 14]),
        (3, &[24, 26, 28, 30, 34, 36, 38]),
        (4, &[4, 18, 20, 22]),
        (5, &[16]),
        (6, &[32, 40, 44, 46]),
        (7, &[48, 56]),
    ],
);
/// Tin 0 is best effort, 1 bulk, 2 video, 3 voice.
static DIFFSERV4: [u8; 64] = classified(
    0,
    &[(1, &[1, 8]), (2, &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]), (3, &[32, 40, 44, 46, 48, 56])],
);
/// Tin 0 is best effort, 1 bulk, 2 voice.
static DIFFSERV3: [u8; 64] = classified(0, &[(1, &[1, 8]), (2, &[4, 44, 46, 48, 56])]);

impl TinMode {
    /// The tin of each DSCP.
    pub(super) fn index(self) -> &'static [u8; 64] {
        match self {
            TinMode::Besteffort => &BESTEFFORT,
            TinMode::Precedence => &PRECEDENCE,
            TinMode::Diffserv8 => &DIFFSERV8,
            TinMode::Diffserv4 => &DIFFSERV4,
            TinMode::Diffserv3 => &DIFFSERV3,
        }
    }

    /// The tins in the order in which `tc` shows them.
    pub(super) fn order(self) -> &'static [usize] {
        match self {
            TinMode::Besteffort => &[0],
            TinMode::Precedence | TinMode::Diffserv8 => &[0, 1, 2, 3, 4, 5, 6, 7],
            TinMode::Diffserv4 => &[1, 0, 2, 3],
            TinMode::Diffserv3 => &[1, 0, 2],
        }
    }
}

/// Creates the tins that the parameters ask for. A tin's weight is the same fraction of the largest as its rate.
pub fn tins(params: &Params, mtu: u32) -> Vec<Tin> {
    let rate = params.bandwidth.map_or(0, bytes_per_second);
    let tin = |rate, quantum| Tin::new(params, rate, quantum, mtu);
    let halved = |shifts: &[u32]| shifts.iter().map(|shift| tin(rate >> shift, 1024 >> shift)).collect();
    match params.tins {
        TinMode::Besteffort => alloc::vec![tin(rate, 65_535)],
        TinMode::Diffserv3 => halved(&[0, 4, 2]),
        TinMode::Diffserv4 => halved(&[0, 4, 1, 2]),
        TinMode::Precedence | TinMode::Diffserv8 => {
            let less = |&(rate, quantum): &(u64, u32)| Some((rate * 7 / 8, quantum * 7 / 8));
            core::iter::successors(Some((rate, 256)), less)
                .take(TINS)
                .map(|(rate, quantum)| tin(rate, quantum))
                .collect()
        }
    }
}
