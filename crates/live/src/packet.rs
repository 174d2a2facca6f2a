//! Packets on their way, and the pool that holds their frames.

use sojourn_core::packet::{Ecn, Segment};
use sojourn_core::qdisc::{DropReason, Drops};
use sojourn_core::units::Time;

use crate::frame::{self, Facts};

/// A packet: the facts of its headers, and the place of its frame in the pool.
#[derive(Clone, Copy, Default, Debug)]
pub struct Packet {
    /// The frame in the pool.
    pub slot: u32,
    /// Facts of the headers. Its DSCP and ECN field are those of the packet now; the frame gets them when it leaves.
    pub facts: Facts,
    /// Length in bytes, as the present link counts it.
    pub wire: u32,
    /// ECN field on arrival at the present link.
    pub ecn_in: Ecn,
    /// Time of arrival at the present link.
    pub arrival: Time,
    /// Hash of its flow.
    pub hash: u32,
    /// Number of its arrival at the present link, if the arrivals are traced.
    pub number: usize,
    /// The last link on its way.
    pub last: usize,
    /// The port of its receiver.
    pub to: usize,
    /// True if netem duplicated the packet: the frame then belongs to two packets.
    is_twin: bool,
}

impl sojourn_core::packet::Packet for Packet {
    fn bytes(&self) -> u32 {
        self.wire
    }
    fn flow_hash(&self) -> u32 {
        self.hash
    }
    fn ecn(&self) -> Ecn {
        self.facts.ecn()
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.facts.tos = (self.facts.tos & !3) | ecn as u8;
    }
    fn dscp(&self) -> u8 {
        self.facts.tos >> 2
    }
    fn set_dscp(&mut self, dscp: u8) {
        self.facts.tos = (dscp << 2) | (self.facts.tos & 3);
    }
    fn hosts(&self) -> (u32, u32) {
        (self.facts.hosts[0], self.facts.hosts[1])
    }
    fn enqueue_time(&self) -> Time {
        self.arrival
    }
    fn set_enqueue_time(&mut self, now: Time) {
        self.arrival = now;
    }
    fn opens(&self) -> bool {
        self.facts.opens()
    }
    /// A frame has at most two packets: the pool knows no more.
    fn doubles(&mut self) -> bool {
        !std::mem::replace(&mut self.is_twin, true)
    }
}

/// The frames of all packets that are under way. Slots are used again, so that a run allocates memory only until it has
/// had its longest queue.
#[derive(Default)]
pub struct Pool {
    frames: Vec<Vec<u8>>,
    free: Vec<u32>,
    /// For each slot: true if its frame belonged to two packets and one of them has ended.
    halved: Vec<bool>,
}

impl Pool {
    /// Copies a frame into a free slot.
    pub fn put(&mut self, frame: &[u8], facts: Facts, hash: u32) -> Packet {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.frames.push(Vec::with_capacity(2048));
            self.halved.push(false);
            self.frames.len() as u32 - 1
        });
        let own = &mut self.frames[slot as usize];
        own.clear();
        own.extend_from_slice(frame);
        Packet { slot, facts, hash, ..Packet::default() }
    }

    /// Returns a packet's frame, with the DSCP and ECN field that the packet has now.
    pub fn frame(&mut self, packet: &Packet) -> &mut [u8] {
        let frame = &mut self.frames[packet.slot as usize];
        if !frame::has_tos(frame, packet.facts.tos) {
            frame::set_tos(frame, packet.facts.tos);
        }
        frame
    }

    /// Ends a packet. Its frame is given up with its last packet.
    pub fn end(&mut self, packet: &Packet) {
        let slot = packet.slot as usize;
        if packet.is_twin && !std::mem::replace(&mut self.halved[slot], true) {
            return;
        }
        self.halved[slot] = false;
        self.free.push(packet.slot);
    }

    /// Number of frames that are held.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.frames.len() - self.free.len()
    }
}

/// Collects the packets that a discipline or netem drops.
pub struct Lost<'a> {
    /// The packets, in the order of their drops.
    pub packets: &'a mut Vec<(Packet, DropReason)>,
    /// The pool with their frames.
    pub pool: &'a Pool,
}

impl Drops<Packet> for Lost<'_> {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        self.packets.push((packet, reason));
    }

    fn segment(&self, packet: &Packet) -> Option<Segment> {
        frame::segment(&self.pool.frames[packet.slot as usize])
    }
}

#[cfg(test)]
mod tests {
    use sojourn_core::packet::Packet as _;

    use super::*;
    use crate::frame::tests::tcp;

    #[test]
    fn a_frame_stays_until_its_last_packet_has_ended() {
        let mut pool = Pool::default();
        let frame = tcp([1, 2], [3, 4], 0, 0, 16, 0, 2);
        let facts = frame::read(&frame).expect("a packet");
        let mut first = pool.put(&frame, facts, 0);
        assert!(first.doubles());
        let mut second = first;
        assert!(!second.doubles(), "a third packet of one frame");
        assert!(second.mark());
        pool.end(&first);
        assert_eq!(pool.held(), 1);
        assert_eq!(frame::read(pool.frame(&second)).map(|facts| facts.tos), Some(3));
        pool.end(&second);
        assert_eq!(pool.held(), 0);
        assert_eq!(pool.put(&frame, facts, 0).slot, first.slot);
    }
}
