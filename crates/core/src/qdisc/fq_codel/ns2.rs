//! ns-2's `sfqcodel` (K. Nichols, 2011-2013): the predecessor of fq_codel in the simulator of the CoDel papers.
//!
//! Principle: a hash sorts flows into bins, which form one circle. Each bin sends one packet per turn, or with a
//! `quantum` that number of bytes. A bin that becomes active enters the circle before the bins that were active
//! already, and behind others that have just become active. Each bin is under CoDel. If a packet arrives at a full
//! buffer, the bin with the most packets loses its last one.
//!
//! Deviations: the flow hash of a packet decides its bin, modulo `flows`. ns-2 has no counters; here they are those of
//! fq_codel. ECN and `ce_threshold` work as in the other variants of CoDel. As in ns-2, a bin that is active alone
//! keeps its turn when another one becomes active.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Params;
use crate::packet::Packet;
use crate::qdisc::codel::{self, Control, Ns2, Source, Vars};
use crate::qdisc::stats::numbers;
use crate::qdisc::{Context, DropReason, Drops, Qdisc, Stats};
use crate::ring::Ring;
use crate::units::Time;

/// A bin: a queue with its own CoDel state.
#[derive(Clone, Debug)]
struct Bin<P> {
    packets: Ring<P>,
    vars: Vars<Ns2<false>>,
    /// Bytes that the bin may still send in this turn.
    deficit: i32,
    /// Whether the bin has not had its turn since it entered the circle.
    new: bool,
    /// Whether the bin is in the circle.
    scheduled: bool,
}

impl<P: Copy + Default> Default for Bin<P> {
    fn default() -> Self {
        Bin { packets: Ring::default(), vars: Vars::default(), deficit: 0, new: false, scheduled: false }
    }
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct FqCodelNs2<P> {
    limit: usize,
    /// Bytes that a bin may send per turn; with 0, a bin sends one packet.
    quantum: u32,
    control: Control<Ns2<false>>,
    bins: Vec<Bin<P>>,
    /// The bins in the order of their turns. A bin that has run empty stays until its turn comes.
    circle: VecDeque<u32>,
    /// The bin that had the most packets when the buffer was last full.
    fullest: u32,
    packets: usize,
    backlog: u64,
    cstats: codel::Stats,
    drop_overlimit: u64,
    new_flow_count: u64,
}

/// One bin, as CoDel sees it.
struct Queue<'a, P> {
    bin: &'a mut Ring<P>,
    packets: &'a mut usize,
    backlog: &'a mut u64,
}

impl<P: Packet + Copy + Default> Source<P> for Queue<'_, P> {
    #[inline]
    fn pop(&mut self, packet: &mut P) -> bool {
        let popped = self.bin.pop_into(packet);
        if popped {
            *self.packets -= 1;
            *self.backlog -= u64::from(packet.bytes());
        }
        popped
    }

    /// The bytes in all bins, or 0 if this bin is empty, so that an empty bin is never bad.
    #[inline]
    fn backlog(&self) -> u64 {
        if self.bin.is_empty() { 0 } else { *self.backlog }
    }
}

impl<P: Packet + Copy + Default> FqCodelNs2<P> {
    /// Creates empty bins in front of a link.
    pub fn new(params: &Params, context: &Context) -> Self {
        FqCodelNs2 {
            limit: params.limit as usize,
            quantum: params.quantum.unwrap_or(0),
            control: Control::new(params.target, params.interval, params.ce_threshold, context.mtu, params.ecn)
                .select(params.ce_threshold_selector),
            bins: (0..params.flows).map(|_| Bin::default()).collect(),
            circle: VecDeque::new(),
            fullest: 0,
            packets: 0,
            backlog: 0,
            cstats: codel::Stats::default(),
            drop_overlimit: 0,
            new_flow_count: 0,
        }
    }

    /// Drops the last packet of the bin with the most packets. Among bins with equally many packets it is the one with
    /// the highest number. The bin that lost a packet last is chosen only if it has more packets than every other bin.
    #[cold]
    #[inline(never)]
    fn overflow(&mut self, drops: &mut impl Drops<P>) {
        let mut most = self.fullest;
        for (number, bin) in (0..).zip(&self.bins) {
            let more = bin.packets.len() >= self.bins[most as usize].packets.len();
            if number != self.fullest && bin.scheduled && more {
                most = number;
            }
        }
        self.fullest = most;
        if let Some(packet) = self.bins[most as usize].packets.pop_back() {
            self.packets -= 1;
            self.backlog -= u64::from(packet.bytes());
            self.drop_overlimit += 1;
            drops.dropped(packet, DropReason::Overlimit);
        }
    }

    /// Adds a bin that becomes active to the circle.
    fn enter(&mut self, number: u32) {
        let bin = &mut self.bins[number as usize];
        (bin.new, bin.scheduled, bin.deficit) = (true, true, self.quantum as i32);
        self.new_flow_count += 1;
        let last = self.circle.len().saturating_sub(1);
        let goes_on = |&(_, &other): &(usize, &u32)| !self.bins[other as usize].new;
        match self.circle.iter().enumerate().find(goes_on) {
            Some((place, _)) if place < last => self.circle.insert(place, number),
            _ => self.circle.push_back(number),
        }
    }

    /// Returns the bin whose turn it is. It first removes empty bins from the head of the circle, and rotates the
    /// circle until this bin is at the head.
    fn ready(&mut self) -> Option<u32> {
        let mut head = *self.circle.front()?;
        while self.bins[head as usize].packets.is_empty() {
            let bin = &mut self.bins[head as usize];
            (bin.scheduled, bin.vars.dropping) = (false, false);
            self.circle.pop_front();
            head = *self.circle.front()?;
        }
        while self.quantum > 0 && self.bins[head as usize].deficit <= 0 {
            self.bins[head as usize].deficit += self.quantum as i32;
            loop {
                self.circle.rotate_left(1);
                head = self.circle[0];
                if !self.bins[head as usize].packets.is_empty() {
                    break;
                }
            }
        }
        Some(head)
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for FqCodelNs2<P> {
    type Params = Params;

    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        if self.packets >= self.limit {
            self.overflow(drops);
        }
        packet.set_enqueue_time(now);
        self.packets += 1;
        self.backlog += u64::from(packet.bytes());
        let number = packet.flow_hash() % self.bins.len() as u32;
        let bin = &mut self.bins[number as usize];
        bin.packets.push(packet);
        if !bin.scheduled {
            self.enter(number);
        }
    }

    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        loop {
            let number = self.ready()?;
            let bin = &mut self.bins[number as usize];
            bin.new = false;
            let mut queue = Queue { bin: &mut bin.packets, packets: &mut self.packets, backlog: &mut self.backlog };
            let mut packet = P::default();
            if bin.vars.dequeue(now, &mut packet, &self.control, &mut self.cstats, &mut queue, drops) {
                if self.quantum > 0 {
                    bin.deficit -= packet.bytes() as i32;
                } else {
                    self.circle.rotate_left(1);
                }
                return Some(packet);
            }
        }
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

    fn stats(&self) -> Stats {
        let new = self.circle.iter().filter(|&&number| self.bins[number as usize].new).count() as u64;
        numbers([
            ("maxpacket", u64::from(self.cstats.maxpacket)),
            ("drop_overlimit", self.drop_overlimit),
            ("new_flow_count", self.new_flow_count),
            ("ecn_mark", self.cstats.ecn_mark),
            ("ce_mark", self.cstats.ce_mark),
            ("new_flows_len", new),
            ("old_flows_len", self.circle.len() as u64 - new),
        ])
    }
}
