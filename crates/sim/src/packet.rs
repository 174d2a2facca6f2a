//! The simulator's packet: 40 bytes, copied by value from line to queue to line.

use sojourn_core::packet::{Ecn, Packet as Queued};
use sojourn_core::units::Time;
pub use sojourn_model::records::Kind;

/// A packet on its way. What disciplines look at stands at both ends of it, what they carry along between.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Packet {
    /// On a line: when it reaches the next station. In a queue: when it arrived there.
    pub time: Time,
    /// The connection, an index that is never used twice in a run.
    pub conn: u32,
    /// Data: the segment. ACK: the next segment expected. Ping: its number.
    pub seq: u32,
    /// Data: when it was sent, in µs modulo 2^32. ACK: the echo of the earliest segment acknowledged.
    pub ts: u32,
    /// ACK: the echo of the segment that triggered it.
    pub ts_last: u32,
    /// The flow hash, the same in both directions.
    pub hash: u32,
    /// ACK: where its SACK blocks are kept, 0 for none.
    pub sack: u32,
    /// Length in bytes as the current link counts it.
    pub wire: u16,
    /// ECN field now (bits 0–1) and on arrival at the queue (bits 2–3), and the flags below.
    pub bits: u8,
    /// What it carries: a [`Kind`] as its number. (An enum here would lend its spare values to `Option<Packet>`, whose
    /// copies are then made in overlapping pieces, and those stall.)
    pub kind: u8,
    /// IP length in bytes.
    pub bytes: u16,
    /// The lane (class and direction) that it travels on.
    pub lane: u16,
}

/// First transmission of payload.
pub const DATA: u8 = Kind::Data as u8;
/// Payload sent again.
pub const RETRANSMIT: u8 = Kind::Retransmit as u8;
/// A pure ACK.
pub const ACK: u8 = Kind::Ack as u8;
/// A SYN or SYN-ACK.
pub const SYN: u8 = Kind::Syn as u8;
/// An echo request or reply.
pub const PING: u8 = Kind::Ping as u8;

/// Data: congestion window reduced (RFC 3168 §6.1.2). ACK: ECN echo.
pub const ECHO: u8 = 1 << 4;
/// A SYN-ACK, or the reply to a ping.
pub const REPLY: u8 = 1 << 5;
/// A full segment.
pub const FULL: u8 = 1 << 6;

impl Packet {
    /// The ECN field on arrival at the current queue.
    #[inline]
    pub fn ecn_in(&self) -> Ecn {
        Ecn::from_bits(self.bits >> 2)
    }

    /// What it carries.
    #[inline]
    pub fn kind(&self) -> Kind {
        match self.kind {
            ACK => Kind::Ack,
            SYN => Kind::Syn,
            PING => Kind::Ping,
            RETRANSMIT => Kind::Retransmit,
            _ => Kind::Data,
        }
    }

    /// Whether it carries TCP payload.
    #[inline]
    pub fn is_data(&self) -> bool {
        self.kind <= RETRANSMIT
    }

    /// The packet enters a queue: counts its length there.
    #[inline]
    pub fn enter(&mut self, overhead: u32) {
        self.wire = self.bytes + overhead as u16;
    }

    /// The ECN field with which the packet is sent, and so arrives at the first queue.
    #[inline]
    pub const fn sent_with(ecn: Ecn) -> u8 {
        ecn as u8 * 0b0101
    }

    /// The packet leaves the queue that marked it: it arrives at the next one with CE.
    #[inline]
    pub fn pass_on(&mut self) {
        self.bits |= 0b1100;
    }

    /// Whether the packet carries a CE that it did not have on arrival.
    #[inline]
    pub fn is_marked(&self) -> bool {
        self.bits & 0b11 == 0b11 && self.bits & 0b1100 != 0b1100
    }

    /// Whether the flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.bits & flag != 0
    }

    /// Whether the packet ends at the data receiver (else at the data sender).
    #[inline]
    pub fn is_for_receiver(&self) -> bool {
        self.kind != ACK && !self.has(REPLY)
    }
}

impl Queued for Packet {
    #[inline]
    fn bytes(&self) -> u32 {
        u32::from(self.wire)
    }
    #[inline]
    fn flow_hash(&self) -> u32 {
        self.hash
    }
    #[inline]
    fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.bits)
    }
    #[inline]
    fn set_ecn(&mut self, ecn: Ecn) {
        self.bits = (self.bits & !0b11) | ecn as u8;
    }
    #[inline]
    fn enqueue_time(&self) -> Time {
        self.time
    }
    #[inline]
    fn set_enqueue_time(&mut self, now: Time) {
        self.time = now;
    }
}

/// A moment as a TCP timestamp: µs modulo 2^32.
#[inline]
pub fn stamp(now: Time) -> u32 {
    (now.0 / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_forty_bytes() {
        assert_eq!(size_of::<Packet>(), 40);
    }

    #[test]
    fn a_mark_is_a_ce_that_was_not_there_on_arrival() {
        let mut packet = Packet { bits: Packet::sent_with(Ecn::Ect0), ..Packet::default() };
        assert!(!packet.is_marked());
        assert_eq!(packet.ecn_in(), Ecn::Ect0);
        packet.set_ecn(Ecn::Ce);
        assert!(packet.is_marked());
        packet.pass_on();
        assert!(!packet.is_marked(), "it came marked");
        assert_eq!(packet.ecn_in(), Ecn::Ce);
    }
}
