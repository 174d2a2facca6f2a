//! Prefetch hints for many flows.
//!
//! The state of one flow covers about twenty cache lines. With thousands of flows, all of them have been evicted when the
//! flow's next packet arrives, and loading them one after the other takes longer than processing the packet. The engine
//! knows which packets come next, so it prefetches the state that they will need, in stages, one for each level of
//! indirection: the state itself, the memory that it points to, and the memory that this points to. Stages of different
//! packets overlap.
//!
//! A hint must never affect results: the functions here take shared references and return nothing.

use sojourn_core::cache::Cache;
use sojourn_core::ring::Ring;
use sojourn_core::units::Time;
use sojourn_measure::FlowMeter;

use super::delayed_acks::DelayedAcks;
use crate::ends::Ends;
use crate::link::Link;
use crate::packet::Packet;
use crate::planted::{Fault, planted};
use crate::prefetch::Processor;
use crate::schedule::{Schedules, Slot};
use crate::senders::Senders;

/// With this many entries or connections, the state of the flows exceeds a core's caches and is prefetched.
pub const CROWD: usize = 256;
/// Prefetch distances in packets, one for each stage. They are short enough for the prefetched lines to stay in the cache
/// until they are used.
pub const FAR: usize = 8;
const MIDDLE: usize = 4;
const NEAR: usize = 2;
/// Capacity of a [`Batch`] in packets.
const BATCH: usize = 256;

/// Prefetches the state that the next packets on a line to the end hosts need. For a far packet, this is its sender or
/// receiver. For a middle one, it is the flow's meter, the memory to which sender or receiver point, and the ACK's SACK
/// blocks. For a near one, it is the meter's bin and the segment that is SACKed. A packet itself was written one round
/// trip ago and is prefetched even earlier.
#[inline(never)]
pub fn arrivals(packets: &Ring<Packet>, senders: &Senders, ends: &Ends, flows: &[FlowMeter]) {
    if let Some(packet) = packets.get(2 * FAR) {
        Processor.fetch(packet);
    }
    if let Some(packet) = packets.get(FAR) {
        if packet.is_ack() {
            senders.prefetch(packet.conn(), packet.has_blocks());
        } else if packet.is_data() {
            ends.prefetch(packet.conn());
        }
    }
    if let Some(packet) = packets.get(MIDDLE) {
        let conn = packet.conn();
        if packet.is_ack() {
            let repairs = packet.has_blocks();
            flows[senders.entry(conn)].prefetch(repairs, &Processor);
            senders.prefetch_segment(conn, packet.ack().cum, repairs);
            if repairs {
                ends.prefetch_options(packet);
            }
        } else if packet.is_data() {
            ends.prefetch_held(conn);
        }
    }
    if let Some(packet) = packets.get(NEAR)
        && packet.is_ack()
    {
        let conn = packet.conn();
        flows[senders.entry(conn)].prefetch_rtt(packet.shows_rtt(), &Processor);
        if packet.has_blocks()
            && let Some(sacked) = ends.newest_block(packet)
        {
            senders.prefetch_segment(conn, sacked, false);
        }
    }
}

/// Prefetches the packets that a link will probably send next, which name their flows. Also prefetches the receiver
/// whose delayed ACK is due next. Called once for every [`FAR`] events of links.
#[inline(never)]
pub fn departures(link: &Link, delayed_acks: &DelayedAcks, ends: &Ends) {
    link.prefetch(FAR);
    if let Some(conn) = delayed_acks.next_conn() {
        ends.prefetch(conn);
    }
}

/// Prefetches the receivers of the packets that follow packet `at` of a batch.
#[inline(always)]
pub fn receivers(batch: &[Packet], at: usize, ends: &Ends) {
    if at == 0 {
        batch.iter().take(FAR).for_each(|packet| ends.prefetch(packet.conn()));
        batch.iter().take(MIDDLE).for_each(|packet| ends.prefetch_held(packet.conn()));
    }
    if let Some(packet) = batch.get(at + FAR) {
        ends.prefetch(packet.conn());
    }
    if let Some(packet) = batch.get(at + MIDDLE) {
        ends.prefetch_held(packet.conn());
    }
}

/// Packets collected for receivers that run ahead, in order of departure. They are delivered together when the batch is
/// full or when its first packet is due: delivering each packet at its departure would evict the link's code and data
/// from the caches every time, and would leave no time for prefetching.
pub struct Batch {
    used: bool,
    packets: Vec<Packet>,
    /// Time at which the first packet is due.
    due: Time,
    slot: Slot,
}

impl Batch {
    /// Creates an empty batch. Unless it is `used`, packets are delivered one by one.
    pub fn new(used: bool, slot: Slot) -> Batch {
        Batch { used, packets: Vec::with_capacity(if used { BATCH } else { 0 }), due: Time::NEVER, slot }
    }

    /// Returns whether packets are collected.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.used
    }

    /// Adds a packet. Returns whether the batch is full.
    #[inline]
    pub fn push(&mut self, packet: &Packet, schedules: &mut Schedules) -> bool {
        if packet.time < self.due && !planted(Fault::Gathered) {
            self.due = packet.time;
            schedules.set(self.slot, packet.time);
        }
        self.packets.push(*packet);
        self.packets.len() >= BATCH
    }

    /// Takes all packets for delivery. [`Batch::clear`] must be called afterwards.
    pub fn take(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.packets)
    }

    /// Ends a delivery and reuses the memory of its packets.
    pub fn clear(&mut self, mut delivered: Vec<Packet>, schedules: &mut Schedules) {
        debug_assert!(self.packets.is_empty(), "a receiver's packets go to no receiver that runs ahead");
        delivered.clear();
        self.packets = delivered;
        self.due = Time::NEVER;
        schedules.set(self.slot, Time::NEVER);
    }
}
