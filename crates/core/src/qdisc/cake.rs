//! cake: a queue for each flow under COBALT, fairness between hosts, classes of traffic (tins), and a shaper.
//!
//! Source: Linux 6.1 to 7.3 `net/sched/sch_cake.c` (J. Morton, T. Høiland-Jørgensen, D. Täht et al.), `tc-cake(8)`;
//! Høiland-Jørgensen, Täht, Morton, "Piece of CAKE", LANMAN 2018.
//! Principle: the DSCP sorts packets into tins, and within a tin the flow sorts them into 1024 queues. Queues are
//! served by deficit round robin, those that have just become active first. Hosts with many flows get as much as hosts
//! with few. Each queue is under COBALT. Tins share the link by weights, or with `bandwidth` by fractions of it. The
//! shaper counts a packet's length on the link, with framing. When the memory is used up, the queue with the most bytes
//! loses its head.
//!
//! Deviations:
//! - A packet's memory is its length plus a constant for the buffer around it, which the link gives; the kernel counts
//!   the size of each buffer.
//! - `autorate-ingress` and `fwmark` are not implemented. `nat` has no effect, as no address is translated.
//! - In the simulator all connections of a flow are between the same two hosts, and all flows of a `user` have the same
//!   host. The ACK filter does not compare timestamps: those of ACKs in order never decrease.
//! - A change of the framing (`overhead`, `atm` and so on) also applies to packets that wait, and a tin that one change
//!   removes and a later one adds starts with a new state. In Linux, packets keep their lengths and tins their state.
//! - No packet is larger than the link's MTU, so `split-gso` has no effect.

mod ack_filter;
mod cobalt;
mod hash;
mod heap;
mod params;
mod shaper;
mod stats;
mod tins;

use super::flows::Slab;
use super::psched::bytes_per_second;
use super::siphash::Salt;
use super::{Context, DropReason, Drops, Given, Qdisc, Unchangeable};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::units::Time;
use alloc::vec::Vec;
use hash::Key;
use heap::Heap;
pub use params::{AckFilter, FlowMode, LinkLayer, Params, TinMode, Variant};
use shaper::{Lengths, Shaper};
use tins::Tin;

/// The buffer never holds more bytes than this number of packets of the largest size, unless `memlimit` is larger.
const LIMIT: u64 = 10_240;
/// The least size in bytes of the buffer, if `bandwidth` is given and `memlimit` is not.
const LEAST_BUFFER: u64 = 4 << 20;

/// The discipline.
#[derive(Clone, Debug)]
pub struct Cake<P> {
    params: Params,
    slab: Slab<P>,
    tins: Vec<Tin>,
    /// The tin of each DSCP.
    tin_index: &'static [u8; 64],
    /// The tin whose turn it is.
    cur_tin: usize,
    shaper: Shaper,
    lengths: Lengths,
    heap: Heap,
    buffer_limit: u64,
    /// Bytes of memory that a packet takes beyond its length.
    skb: u64,
    /// The size of the largest packet in bytes. COBALT's targets depend on its transmission time.
    mtu: u32,
    buffer_max_used: u64,
    /// Salt of the hosts' hashes.
    salt: Salt,
    rng: Rng,
    /// The time at which the shaper releases the next packet; `NEVER` if it holds none back.
    next: Time,
    overlimits: u64,
    /// Moving average of the link header's length, in 2^-16 bytes.
    avg_netoff: u64,
    header: u32,
}

impl<P: Packet + Copy + Default> Cake<P> {
    /// Empty queues before a link of this kind.
    pub fn new(params: &Params, context: &Context) -> Self {
        let mut rng = Rng::stream(context.seed, "cake");
        // Linux draws its keys with the first packet: one to look for a translation, one for hosts.
        if params.nat && params.flow_mode != FlowMode::Flowblind {
            Salt::draw(&mut rng);
        }
        let mut spare = rng.clone();
        let hosts = params.flow_mode.has_sources() || params.flow_mode.has_destinations();
        let salt = Salt::draw(if hosts { &mut rng } else { &mut spare });
        Cake {
            params: params.clone(),
            slab: Slab::new(),
            tins: tins::tins(params, context.mtu),
            tin_index: params.tins.index(),
            cur_tin: 0,
            shaper: Shaper::new(params.bandwidth),
            lengths: Lengths::new(params, context.overhead),
            heap: Heap::default(),
            buffer_limit: buffer_limit(params, context.mtu),
            skb: u64::from(context.skb),
            mtu: context.mtu,
            buffer_max_used: 0,
            salt,
            rng,
            next: Time::NEVER,
            overlimits: 0,
            avg_netoff: 0,
            header: context.overhead,
        }
    }

    /// Drops the head of the queue with the most bytes. Returns nothing if the heap was out of order.
    #[cold]
    #[inline(never)]
    fn drop_longest(&mut self, now: Time, drops: &mut impl Drops<P>) {
        let (number, queue) = self.heap.top(&self.tins);
        // A tin that is not there has no packets; the heap was out of order.
        let Some(tin) = self.tins.get_mut(number) else { return self.heap.forget() };
        let flow = &mut tin.flows[queue];
        let Some(packet) = self.slab.pop(&mut flow.fifo) else { return self.heap.forget() };
        tin.counts.unresponsive_flows += u64::from(flow.cobalt.queue_full(now, &tin.cobalt));
        tin.backlog -= u64::from(packet.bytes());
        tin.counts.drops += 1;
        if self.params.ingress {
            let length = self.lengths.adjusted(packet.bytes());
            self.shaper.advance(&tin.byte_time, &mut tin.time_next, length, now, true);
        }
        drops.dropped(packet, DropReason::Overlimit);
        self.heap.top_shrank(&self.tins);
    }

    /// Returns the position in this queue of an ACK that the arriving ACK makes redundant.
    #[cold]
    fn idle_ack(&self, number: usize, queue: usize, newest: &P, world: &impl Drops<P>) -> Option<u32> {
        let fifo = &self.tins[number].flows[queue].fifo;
        let aggressive = self.params.ack_filter == AckFilter::Aggressive;
        let newest = world.segment(newest)?;
        let queued = self.slab.iter(fifo).map(|packet| world.segment(packet));
        ack_filter::idle_ack(queued, fifo.packets(), &newest, aggressive)
    }

    /// Drops the ACK at this place of a queue.
    #[cold]
    fn drop_ack(&mut self, number: usize, queue: usize, place: u32, now: Time, drops: &mut impl Drops<P>) {
        let tin = &mut self.tins[number];
        let Some(ack) = self.slab.take(&mut tin.flows[queue].fifo, place) else { return };
        tin.counts.ack_drops += 1;
        tin.backlog -= u64::from(ack.bytes());
        if self.params.ingress {
            let length = self.lengths.adjusted(ack.bytes());
            self.shaper.advance(&tin.byte_time, &mut tin.time_next, length, now, true);
        }
        drops.dropped(ack, DropReason::AckFilter);
    }

    /// Sets `cur_tin` to the tin that is served next. At least one packet must be queued.
    #[inline]
    fn choose_tin(&mut self, now: Time) {
        if self.shaper.rate.is_free() {
            while self.tins[self.cur_tin].deficit < 0 || !self.tins[self.cur_tin].has_flows() {
                let tin = &mut self.tins[self.cur_tin];
                if tin.deficit <= 0 {
                    tin.deficit += tin.quantum;
                }
                self.cur_tin = if self.cur_tin + 1 < self.tins.len() { self.cur_tin + 1 } else { 0 };
            }
            return;
        }
        // With a shaper: the last tin whose share allows it to send now. If there is none, the tin whose share allows
        // it first.
        let mut best = i64::MAX;
        for (number, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.has_flows()) {
            let ahead = tin.time_next as i64 - now.0 as i64;
            if ahead <= 0 || ahead <= best {
                (best, self.cur_tin) = (ahead, number);
            }
        }
    }

    /// Takes the next packet of the present tin. Returns `None` when it meets an empty queue: the caller then chooses a
    /// tin again.
    #[inline]
    fn serve(&mut self, now: Time, decaying_first: &mut bool, drops: &mut impl Drops<P>) -> Option<P> {
        let mut tin = &mut self.tins[self.cur_tin];
        loop {
            let queue = tin.first(*decaying_first)?;
            *decaying_first = false;
            if tin.flows[queue].deficit <= 0 {
                tin.next_turn(queue, &self.params, &mut self.rng);
                continue;
            }
            loop {
                let flow = &mut tin.flows[queue];
                let Some(mut packet) = self.slab.pop(&mut flow.fifo) else {
                    tin.rest(queue, self.params.flow_mode, now);
                    return None;
                };
                let bulk_flows = if self.params.ingress { tin.bulk } else { 0 };
                let verdict = flow.cobalt.should_drop(now, &mut packet, bulk_flows, &tin.cobalt, &mut self.rng);
                // The last packet of a queue stays, whatever COBALT says.
                let reason = verdict.filter(|_| flow.fifo.packets() > 0);
                tin.backlog -= u64::from(packet.bytes());
                if reason.is_none() || self.params.ingress {
                    let length = self.lengths.adjusted(packet.bytes());
                    self.shaper.advance(&tin.byte_time, &mut tin.time_next, length, now, reason.is_some());
                    flow.deficit = flow.deficit.wrapping_sub_unsigned(length);
                    tin.deficit = tin.deficit.wrapping_sub_unsigned(length);
                }
                match reason {
                    Some(reason) => {
                        tin.counts.drops += 1;
                        drops.dropped(packet, reason);
                    }
                    None => {
                        tin.counts.ecn_mark += u64::from(flow.cobalt.ecn_marked);
                        tin.counts.delayed(now.0.saturating_sub(packet.enqueue_time().0));
                    }
                }
                if self.heap.is_kept() {
                    self.heap.shrank(&self.tins, self.cur_tin, queue);
                    tin = &mut self.tins[self.cur_tin];
                }
                if reason.is_none() {
                    self.heap.age();
                    return Some(packet);
                }
                if self.params.ingress {
                    // It counts as sent: it may have used up the queue's turn.
                    break;
                }
            }
        }
    }

    /// Linux's `cake_reconfigure`: sets up the tins and their rates for the present parameters. Packets in tins that no
    /// longer exist are dropped.
    fn reconfigure(&mut self, drops: &mut impl Drops<P>) {
        let wanted = tins::tins(&self.params, self.mtu);
        while self.tins.len() > wanted.len() {
            let Some(mut tin) = self.tins.pop() else { break };
            for queue in 0..tins::QUEUES {
                while let Some(packet) = self.slab.pop(&mut tin.flows[queue].fifo) {
                    drops.dropped(packet, DropReason::Overlimit);
                }
            }
            self.heap.forget();
        }
        if wanted.len() < tins::TINS {
            // `cake_clear_tin` leaves `cur_tin` at the last tin that it cleared. The next dequeue then moves on to the
            // first tin.
            self.cur_tin = 0;
        }
        let mut wanted = wanted.into_iter();
        self.tins.iter_mut().zip(&mut wanted).for_each(|(tin, wanted)| tin.take_rate(&wanted));
        self.tins.extend(wanted);
        self.tin_index = self.params.tins.index();
        self.shaper.set_rate(self.params.bandwidth);
        self.buffer_limit = buffer_limit(&self.params, self.mtu);
    }

    /// Linux's `buffer_used`.
    fn buffer_used(&self) -> u64 {
        self.slab.memory(self.skb)
    }
}

/// Returns the limit of the buffer in bytes of memory.
fn buffer_limit(params: &Params, mtu: u32) -> u64 {
    let told = u64::from(params.memlimit);
    let wanted = match params.bandwidth.map_or(0, bytes_per_second) {
        _ if told > 0 => told,
        0 => u64::from(u32::MAX),
        // Linux keeps only the lower 32 bits of this product.
        rate => u64::from((rate.wrapping_mul(params.rtt.0 / 1000) / 250_000) as u32).max(LEAST_BUFFER),
    };
    wanted.min((LIMIT * u64::from(mtu)).max(told))
}

impl<P: Packet + Copy + Default> Qdisc<P> for Cake<P> {
    type Params = Params;

    #[inline(never)]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        let number = usize::from(self.tin_index[usize::from(packet.dscp() & 63)]);
        if self.params.wash {
            packet.set_dscp(0);
        }
        let tin = &mut self.tins[number];
        let key = Key { flow: packet.flow_hash(), hosts: packet.hosts() };
        let queue = tin.queue_of(&key, self.params.flow_mode, &self.salt);
        if tin.backlog == 0 {
            tin.time_next = tin.time_next.max(now.0);
            if self.slab.packets() == 0 {
                self.shaper.wake(now);
                self.overlimits += u64::from(self.shaper.held_until(now).is_some());
            }
        }
        let bytes = packet.bytes();
        tin.counts.max_pkt_len = tin.counts.max_pkt_len.max(bytes);
        self.avg_netoff = tins::ewma(self.avg_netoff, u64::from(self.header) << 16, 8);
        self.lengths.see(bytes);
        let filters = self.params.ack_filter != AckFilter::Off;
        let idle = if filters { self.idle_ack(number, queue, &packet, drops) } else { None };
        let tin = &mut self.tins[number];
        self.slab.push(&mut tin.flows[queue].fifo, packet);
        tin.backlog += u64::from(bytes);
        tin.counts.sent_packets += 1;
        tin.counts.sent_bytes += u64::from(bytes);
        if let Some(place) = idle {
            self.drop_ack(number, queue, place, now, drops);
        }
        if self.heap.is_kept() {
            self.heap.grew(&self.tins, number, queue);
        }
        self.tins[number].enter_round(queue, &self.params, &mut self.rng);
        self.buffer_max_used = self.buffer_max_used.max(self.buffer_used());
        while self.buffer_used() > self.buffer_limit {
            self.drop_longest(now, drops);
        }
    }

    #[inline(never)]
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        self.next = Time::NEVER;
        let mut decaying_first = true;
        while self.slab.packets() > 0 {
            if let Some(next) = self.shaper.held_until(now) {
                self.next = next;
                self.overlimits += 1;
                return None;
            }
            self.choose_tin(now);
            if let Some(packet) = self.serve(now, &mut decaying_first, drops) {
                return Some(packet);
            }
        }
        None
    }

    fn change(&mut self, _now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        let lengths = Lengths::new(params, self.header);
        self.lengths.change(lengths);
        self.params = params.clone();
        self.reconfigure(drops);
        Ok(())
    }

    /// `cake_clear_tin` frees the packets of a tin that no longer exists.
    fn counts_change(&self) -> Given {
        Given { sent: false, dropped: false }
    }

    fn next_event(&self) -> Time {
        self.next
    }

    fn packets(&self) -> usize {
        self.slab.packets()
    }

    fn backlog(&self) -> u64 {
        self.slab.backlog()
    }

    fn is_full(&self, mtu: u32) -> bool {
        self.buffer_used() + u64::from(mtu) + self.skb > self.buffer_limit
    }

    fn stats(&self) -> super::Stats {
        self.counters()
    }

    fn classes(&self) -> Option<super::Stats> {
        Some(self.sums())
    }

    fn overlimits(&self) -> u64 {
        self.overlimits
    }
}

#[cfg(test)]
mod tests;
