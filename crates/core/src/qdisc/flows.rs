//! Per-flow FIFO queues under deficit round robin, with a list of new flows and a list of old flows. fq_codel, fq_pie,
//! fq and ccaq share this code (RFC 8290 §4; Linux's sch_fq_codel.c and sch_fq.c schedule alike). fq has such lists for
//! each band of priority; the others have one band.
//!
//! All packets are in one slab, whose free places form a list. Flows have numbers, and every list is a chain of
//! numbers, so no packet needs an allocation. A flow takes 29 bytes plus the discipline's state, rounded up to whole
//! cache lines, and an entry in its list.

use super::{DropReason, Drops};
use crate::cache::Cache;
use crate::packet::Packet;
use alloc::vec::Vec;

/// No further element: the end of a chain.
pub(crate) const NIL: u32 = u32::MAX;
/// In `Flows::next`: the flow is in no list.
const LOOSE: u32 = u32::MAX - 1;
/// In `Flows::next`: the flow has packets but is held back until its time to send.
const HELD: u32 = u32::MAX - 2;

/// The packets of one flow: a chain through the slab.
#[derive(Clone, Debug)]
pub struct Fifo {
    bytes: u64,
    head: u32,
    tail: u32,
    packets: u32,
}

impl Fifo {
    /// A queue without packets.
    pub const EMPTY: Fifo = Fifo { bytes: 0, head: NIL, tail: NIL, packets: 0 };

    /// Packets queued.
    #[inline]
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Bytes queued.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// One flow: its packets, its credit, and the discipline's state for it. With the state of Linux's CoDel this is one
/// cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Flow<S> {
    /// The packets.
    pub fifo: Fifo,
    /// Bytes that the flow may still send in this round (`deficit` in fq_codel, `credit` in fq).
    pub credit: i32,
    /// The band in whose lists the flow is put from now on.
    pub band: u8,
    /// The discipline's state for a flow.
    pub state: S,
}

impl<S> Flow<S> {
    /// Packets queued in this flow.
    #[inline]
    pub fn packets(&self) -> u32 {
        self.fifo.packets
    }

    /// Bytes queued in this flow.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.fifo.bytes
    }

    /// Subtracts `bytes` bytes, which the flow has sent, from its credit.
    #[inline]
    pub fn charge(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_sub_unsigned(bytes);
    }
}

/// The bytes of each queue, contiguous in memory (Linux `backlogs`): finding the longest queue reads only a few kB.
#[derive(Clone, Debug)]
pub struct Backlogs(Vec<u32>);

impl Backlogs {
    /// Empty queues.
    pub fn new(queues: u32) -> Self {
        Backlogs(alloc::vec![0; queues as usize])
    }

    /// Notes the bytes of a queue after they have changed.
    #[inline]
    pub fn note(&mut self, number: u32, bytes: u64) {
        // At most the memory limit, 2^31, plus one packet.
        self.0[number as usize] = bytes as u32;
    }

    /// Returns the non-empty queue with the most bytes (a packet may have zero bytes); among equals the one with the
    /// lowest number.
    pub fn fattest<P: Packet + Copy, S>(&self, flows: &Flows<P, S>) -> Option<u32> {
        let most = self.0.iter().copied().fold(0, u32::max);
        let is_fattest = |&number: &u32| self.0[number as usize] == most && flows.flow(number).packets() > 0;
        (0..self.0.len() as u32).find(is_fattest)
    }
}

/// A chain of flows, linked by `Flows::next`.
#[derive(Clone, Debug)]
struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    const EMPTY: List = List { first: NIL, last: NIL, len: 0 };

    #[inline]
    fn append(&mut self, next: &mut [u32], flow: u32) {
        next[flow as usize] = NIL;
        match self.last {
            NIL => self.first = flow,
            last => next[last as usize] = flow,
        }
        self.last = flow;
        self.len += 1;
    }

    #[inline]
    fn remove_first(&mut self, next: &mut [u32], then: u32) {
        self.first = core::mem::replace(&mut next[self.first as usize], then);
        if self.first == NIL {
            self.last = NIL;
        }
        self.len -= 1;
    }
}

/// The lists of new and of old flows in one band.
#[derive(Clone, Debug)]
struct Band {
    new: List,
    old: List,
}

/// The list that is served: the flow at its head has its turn.
#[derive(Clone, Copy, Debug)]
struct Head {
    band: u8,
    new: bool,
}

/// The packets of all flows, and their number.
#[derive(Clone, Debug)]
pub struct Slab<P> {
    /// The packets, indexed by place.
    nodes: Vec<P>,
    /// For each place the next place in its queue, or in the list of free places. It is separate from the packets, so
    /// that appending a packet to a queue touches few cache lines, which are used often.
    next: Vec<u32>,
    /// The first free place.
    free: u32,
    packets: usize,
    backlog: u64,
}

impl<P: Packet + Copy> Slab<P> {
    /// Creates an empty slab.
    pub fn new() -> Self {
        Slab { nodes: Vec::new(), next: Vec::new(), free: NIL, packets: 0, backlog: 0 }
    }

    /// Packets queued in all flows.
    #[inline]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// The packet at this place, and the place behind it.
    #[inline]
    fn get(&self, place: u32) -> Option<(&P, &u32)> {
        Some((self.nodes.get(place as usize)?, self.next.get(place as usize)?))
    }

    /// The packets of this queue, from its head on.
    pub fn iter(&self, fifo: &Fifo) -> impl Iterator<Item = &P> {
        let mut place = fifo.head;
        (0..fifo.packets).map(move |_| {
            let packet = &self.nodes[place as usize];
            place = self.next[place as usize];
            packet
        })
    }

    /// Removes the packet `index` places behind the head of this queue. It must not be the last packet.
    pub fn take(&mut self, fifo: &mut Fifo, index: u32) -> Option<P> {
        if index + 1 >= fifo.packets {
            return None;
        }
        let (mut last, mut place) = (NIL, fifo.head);
        for _ in 0..index {
            (last, place) = (place, self.next[place as usize]);
        }
        let head = core::mem::replace(&mut fifo.head, place);
        let packet = self.pop(fifo);
        if last != NIL {
            // The removed packet was not the head: the chain is closed behind it.
            self.next[last as usize] = core::mem::replace(&mut fifo.head, head);
        }
        packet
    }

    /// Bytes queued in all flows.
    #[inline]
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// Bytes of memory that all packets take, each with `skb` bytes beyond its length
    /// ([`Context::skb`](super::Context::skb)).
    #[inline]
    pub fn memory(&self, skb: u64) -> u64 {
        self.backlog + self.packets as u64 * skb
    }

    /// Puts a packet at the tail of this queue.
    #[inline(always)]
    pub fn push(&mut self, fifo: &mut Fifo, packet: P) {
        let bytes = u64::from(packet.bytes());
        let place = match self.free {
            NIL => {
                self.nodes.push(packet);
                self.next.push(NIL);
                (self.nodes.len() - 1) as u32
            }
            place => {
                self.nodes[place as usize] = packet;
                self.free = core::mem::replace(&mut self.next[place as usize], NIL);
                place
            }
        };
        match fifo.tail {
            NIL => fifo.head = place,
            tail => self.next[tail as usize] = place,
        }
        fifo.tail = place;
        fifo.packets += 1;
        fifo.bytes += bytes;
        self.packets += 1;
        self.backlog += bytes;
    }

    /// Takes the packet at the head of this queue.
    #[inline]
    pub fn pop(&mut self, fifo: &mut Fifo) -> Option<P> {
        if fifo.head == NIL {
            return None;
        }
        let place = fifo.head;
        let packet = self.nodes[place as usize];
        fifo.head = core::mem::replace(&mut self.next[place as usize], self.free);
        if fifo.head == NIL {
            fifo.tail = NIL;
        }
        self.free = place;
        let bytes = u64::from(packet.bytes());
        fifo.packets -= 1;
        fifo.bytes -= bytes;
        self.packets -= 1;
        self.backlog -= bytes;
        Some(packet)
    }

    /// See [`Flows::cut`].
    fn cut(&mut self, fifo: &mut Fifo, keep: u32, mut taken: impl FnMut(P)) {
        if fifo.packets <= keep {
            return;
        }
        let (mut last, mut place) = (NIL, fifo.head);
        for _ in 0..keep {
            (last, place) = (place, self.next[place as usize]);
        }
        match last {
            NIL => fifo.head = NIL,
            last => self.next[last as usize] = NIL,
        }
        fifo.tail = last;
        self.packets -= (fifo.packets - keep) as usize;
        fifo.packets = keep;
        while place != NIL {
            let packet = self.nodes[place as usize];
            let next = core::mem::replace(&mut self.next[place as usize], self.free);
            self.free = place;
            place = next;
            fifo.bytes -= u64::from(packet.bytes());
            self.backlog -= u64::from(packet.bytes());
            taken(packet);
        }
    }
}

/// The flows, their packets and the rounds of `BANDS` bands.
#[derive(Clone, Debug)]
pub struct Flows<P, S, const BANDS: usize = 1> {
    slab: Slab<P>,
    flows: Vec<Flow<S>>,
    /// For each flow the next flow in its list. It is separate from the flows: all lists together take a few kB, which
    /// stay in the cache.
    next: Vec<u32>,
    bands: [Band; BANDS],
    head: Head,
}

impl<P: Packet + Copy, S, const BANDS: usize> Flows<P, S, BANDS> {
    /// Creates the structure without flows.
    pub fn new() -> Self {
        let bands = [const { Band { new: List::EMPTY, old: List::EMPTY } }; BANDS];
        Flows { slab: Slab::new(), flows: Vec::new(), next: Vec::new(), bands, head: Head { band: 0, new: true } }
    }

    /// Adds an empty flow that is in no list, and returns its number: 0, 1, 2, …
    pub fn add(&mut self, credit: i32, state: S) -> u32 {
        let number = self.flows.len() as u32;
        self.flows.push(Flow { fifo: Fifo::EMPTY, credit, band: 0, state });
        self.next.push(LOOSE);
        number
    }

    /// Every flow that is in one of the lists.
    pub fn listed(&self) -> impl Iterator<Item = &Flow<S>> {
        (0..self.flows.len() as u32).filter(|&flow| !self.is_loose(flow)).map(|flow| self.flow(flow))
    }

    /// The flow of this number.
    #[inline]
    pub fn flow(&self, flow: u32) -> &Flow<S> {
        &self.flows[flow as usize]
    }

    /// The flow of this number, mutable.
    #[inline]
    pub fn flow_mut(&mut self, flow: u32) -> &mut Flow<S> {
        &mut self.flows[flow as usize]
    }

    /// Returns whether the flow is neither in the round nor held back. It has no packets then.
    #[inline]
    pub fn is_loose(&self, flow: u32) -> bool {
        self.next[flow as usize] == LOOSE
    }

    /// Packets queued in all flows.
    #[inline]
    pub fn packets(&self) -> usize {
        self.slab.packets
    }

    /// Bytes queued in all flows.
    #[inline]
    pub fn backlog(&self) -> u64 {
        self.slab.backlog
    }

    /// Bytes of memory that all packets take: see [`Slab::memory`].
    #[inline]
    pub fn memory(&self, skb: u64) -> u64 {
        self.slab.memory(skb)
    }

    /// Flows in the lists of new flows.
    #[inline]
    pub fn new_len(&self) -> u32 {
        self.bands.iter().map(|band| band.new.len).sum()
    }

    /// Flows in the lists of old flows.
    #[inline]
    pub fn old_len(&self) -> u32 {
        self.bands.iter().map(|band| band.old.len).sum()
    }

    /// Appends a packet to the flow's queue. The flow's place in the round does not change.
    #[inline(always)]
    pub fn push(&mut self, flow: u32, packet: P) {
        self.slab.push(&mut self.flows[flow as usize].fifo, packet);
    }

    /// Takes the packet at the head of the flow's queue.
    #[inline]
    pub fn pop(&mut self, flow: u32) -> Option<P> {
        self.slab.pop(&mut self.flows[flow as usize].fifo)
    }

    /// Drops packets from the head of the flow's queue until `packets` packets or at least `bytes` bytes are gone, or the
    /// queue is empty; at least one, if there is one. Returns the number of dropped packets.
    pub fn drop_head(
        &mut self,
        flow: u32,
        packets: u32,
        bytes: u64,
        reason: DropReason,
        drops: &mut impl Drops<P>,
    ) -> u32 {
        let (mut gone, mut gone_bytes) = (0, 0);
        while let Some(packet) = self.pop(flow) {
            gone += 1;
            gone_bytes += u64::from(packet.bytes());
            drops.dropped(packet, reason);
            if gone >= packets || gone_bytes >= bytes {
                break;
            }
        }
        gone
    }

    /// The flow and the slab: for callers that put or take packets and change the state meanwhile.
    #[inline]
    pub fn split(&mut self, flow: u32) -> (&mut Flow<S>, &mut Slab<P>) {
        (&mut self.flows[flow as usize], &mut self.slab)
    }

    /// Removes all packets except the first `keep` from a flow and passes them to `taken` in their order of arrival.
    /// This walks the whole queue and is meant for rare use.
    pub fn cut(&mut self, flow: u32, keep: u32, taken: impl FnMut(P)) {
        self.slab.cut(&mut self.flows[flow as usize].fifo, keep, taken);
    }

    /// Appends a flow to the new list, unless it is in the round or held back. Returns whether it was appended.
    #[inline]
    pub fn list_as_new(&mut self, flow: u32) -> bool {
        let loose = self.is_loose(flow);
        if loose {
            let band = self.band_of(flow);
            self.bands[band].new.append(&mut self.next, flow);
        }
        loose
    }

    #[inline]
    fn band_of(&self, flow: u32) -> usize {
        // With one band the compiler removes this.
        usize::from(self.flows[flow as usize].band).min(BANDS - 1)
    }

    #[inline]
    fn append_old(&mut self, flow: u32) {
        let band = self.band_of(flow);
        self.bands[band].old.append(&mut self.next, flow);
    }

    /// Appends a flow that was held back to the old list.
    pub fn release(&mut self, flow: u32) {
        assert_eq!(self.next[flow as usize], HELD, "only a flow that is held back can be released");
        self.append_old(flow);
    }

    /// Returns the flow whose turn it is, new flows before old ones. A flow without credit gets `quantum` more bytes
    /// and moves to the tail of the old list. The caller then either dequeues a packet and [charges](Self::charge) the
    /// flow, or lets the flow [leave](Self::leave) or [wait](Self::hold) and calls this again.
    #[inline]
    pub fn turn(&mut self, quantum: u32) -> Option<u32> {
        loop {
            if let Some(number) = self.first(0, quantum)? {
                return Some(number);
            }
        }
    }

    /// Returns the flow at the head of a band's lists; `Some(None)` if that flow had no credit and was moved to the
    /// tail of the old list; `None` if the band has no flow.
    #[inline]
    pub fn first(&mut self, band: u8, quantum: u32) -> Option<Option<u32>> {
        self.head = Head { band, new: self.bands[usize::from(band).min(BANDS - 1)].new.first != NIL };
        let number = self.list().first;
        if number == NIL {
            return None;
        }
        let flow = &mut self.flows[number as usize];
        if flow.credit > 0 {
            return Some(Some(number));
        }
        flow.credit = flow.credit.saturating_add_unsigned(quantum);
        self.remove_first(LOOSE);
        self.append_old(number);
        Some(None)
    }

    /// Prefetches what later turns of the band that was served last will read. The first `turns` flows in the order of
    /// service are skipped. For each of the second `turns` flows that has credit, the head packet is passed to `see`,
    /// and the link to the packet behind it is prefetched. The state of the third `turns` flows is prefetched. All this
    /// assumes that no flow joins or leaves the round meanwhile.
    pub fn prefetch(&self, turns: usize, cache: &impl Cache, mut see: impl FnMut(&P)) {
        let band = &self.bands[usize::from(self.head.band).min(BANDS - 1)];
        let mut behind = self.along(&band.new).chain(self.along(&band.old)).skip(turns);
        for flow in behind.by_ref().take(turns).filter(|flow| flow.credit > 0) {
            if let Some((packet, next)) = self.slab.get(flow.fifo.head) {
                see(packet);
                cache.fetch(next);
            }
        }
        behind.take(turns).for_each(|flow| cache.fetch(flow));
    }

    /// The flows of a list, from its first on.
    fn along(&self, list: &List) -> impl Iterator<Item = &Flow<S>> {
        let mut number = list.first as usize;
        core::iter::from_fn(move || {
            let flow = self.flows.get(number)?;
            number = *self.next.get(number)? as usize;
            Some(flow)
        })
    }

    #[inline]
    fn list(&self) -> &List {
        let band = &self.bands[usize::from(self.head.band).min(BANDS - 1)];
        if self.head.new { &band.new } else { &band.old }
    }

    /// See [`Flow::charge`].
    #[inline]
    pub fn charge(&mut self, flow: u32, bytes: u32) {
        self.flow_mut(flow).charge(bytes);
    }

    /// Removes the flow whose turn it is, which must be empty, from the round. A flow in the new list moves to the old
    /// list instead if that list is not empty (or with `always`). Otherwise a flow could remain new, and thus be served
    /// first, by sending at just the right rate (RFC 8290 §4.2).
    #[inline]
    pub fn leave(&mut self, always: bool) {
        let number = self.list().first;
        self.remove_first(LOOSE);
        if self.head.new && (always || self.bands[self.band_of(number)].old.first != NIL) {
            self.append_old(number);
        }
    }

    /// Removes the flow whose turn it is from the round until it is [released](Self::release).
    pub fn hold(&mut self) {
        self.remove_first(HELD);
    }

    #[inline]
    fn remove_first(&mut self, then: u32) {
        let band = &mut self.bands[usize::from(self.head.band).min(BANDS - 1)];
        let list = if self.head.new { &mut band.new } else { &mut band.old };
        list.remove_first(&mut self.next, then);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::testing::Parcel;
    use alloc::collections::VecDeque;
    use core::cell::Cell;
    use proptest::prelude::*;

    fn parcel(id: u32) -> Parcel {
        Parcel { id, bytes: 100 + id % 7, ..Parcel::default() }
    }

    proptest! {
        #[test]
        fn every_flow_is_a_fifo_and_the_totals_are_the_sums(
            ops in prop::collection::vec((0u8..8, 0u32..4), 0..300),
        ) {
            let mut flows = Flows::<_, _>::new();
            let mut model: Vec<VecDeque<Parcel>> = alloc::vec![VecDeque::new(); 4];
            for _ in 0..4 { flows.add(0, ()); }
            for (id, (op, flow)) in ops.into_iter().enumerate() {
                let queue = &mut model[flow as usize];
                match op {
                    0..=4 => { flows.push(flow, parcel(id as u32)); queue.push_back(parcel(id as u32)); }
                    5 | 6 => prop_assert_eq!(flows.pop(flow), queue.pop_front()),
                    _ => {
                        let keep = (id as u32 % 5).min(queue.len() as u32);
                        let mut taken = Vec::new();
                        flows.cut(flow, id as u32 % 5, |packet| taken.push(packet));
                        let expected: Vec<Parcel> = queue.drain(keep as usize..).collect();
                        prop_assert_eq!(taken, expected);
                    }
                }
                for (number, queue) in (0..).zip(&model) {
                    prop_assert_eq!(flows.flow(number).packets() as usize, queue.len());
                    prop_assert_eq!(flows.flow(number).bytes(), queue.iter().map(|p| u64::from(p.bytes)).sum::<u64>());
                }
                prop_assert_eq!(flows.packets(), model.iter().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(flows.backlog(), model.iter().flatten().map(|p| u64::from(p.bytes)).sum::<u64>());
            }
        }
    }

    /// Counts the cache lines that are asked for.
    #[derive(Default)]
    struct Asked(Cell<usize>);

    impl Cache for Asked {
        fn fetch_lines<T>(&self, _: &T, _: usize) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn prefetch_skips_the_next_turns_and_shows_as_many_heads_that_may_send() {
        let mut flows = Flows::<_, _>::new();
        for flow in 0..10 {
            // The fourth has no credit: its turn comes again later.
            flows.add(if flow == 3 { 0 } else { 1000 }, ());
            flows.push(flow, parcel(flow));
            flows.list_as_new(flow);
        }
        // Two become old: the order is 2, 3, …, 9, 0, 1.
        for flow in 0..2 {
            assert_eq!(flows.turn(1000), Some(flow));
            flows.flow_mut(flow).credit = 0;
            assert_eq!(flows.first(0, 1000), Some(None));
        }
        for (turns, heads, fetched) in [
            (0, alloc::vec![], 0),
            (1, alloc::vec![], 1),
            (3, alloc::vec![5, 6, 7], 3),
            (4, alloc::vec![6, 7, 8, 9], 2),
            (usize::MAX, alloc::vec![], 0),
        ] {
            let (mut seen, asked) = (Vec::new(), Asked::default());
            flows.prefetch(turns, &asked, |packet| seen.push(packet.id));
            // Behind each head the place of the one behind it, too.
            assert_eq!((seen.as_slice(), asked.0.get()), (heads.as_slice(), heads.len() + fetched), "{turns} turns");
        }
    }

    #[test]
    fn the_slab_reuses_its_places_so_a_packet_costs_no_allocation() {
        let mut flows = Flows::<_, _>::new();
        flows.add(0, ());
        for round in 0..1000 {
            (0..10).for_each(|id| flows.push(0, parcel(round * 10 + id)));
            flows.cut(0, 6, |_| {});
            while flows.pop(0).is_some() {}
        }
        assert_eq!(flows.slab.nodes.len(), 10);
    }

    #[test]
    fn a_flow_held_back_gets_no_turn_until_it_is_released_and_then_waits_with_the_old_ones() {
        let mut flows = Flows::<_, _>::new();
        for flow in 0..2 {
            flows.add(1000, ());
            flows.push(flow, parcel(flow));
            flows.list_as_new(flow);
        }
        assert_eq!(flows.turn(1000), Some(0));
        flows.hold();
        assert_eq!(flows.turn(1000), Some(1));
        flows.leave(false);
        assert_eq!(flows.turn(1000), None);
        assert!(!flows.list_as_new(0), "it is not loose");
        flows.release(0);
        assert_eq!((flows.new_len(), flows.old_len()), (0, 1));
        assert_eq!(flows.turn(1000), Some(0));
    }
}
