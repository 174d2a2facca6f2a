//! The simulator's packet: 40 bytes, copied by value between lines and queues.

use sojourn_core::cache::Cache;
use sojourn_core::packet::{Ecn, Packet as Queued, Segment};
use sojourn_core::tcp::Ack;
use sojourn_core::units::{Span, Time};
pub use sojourn_model::records::Kind;

use crate::flow_hash::hosts;
use crate::framing::Framing;

/// A packet, stored in five words so that copying takes five loads and five stores. (Smaller separate fields would be
/// copied one by one. An enum field would give `Option<Packet>` a niche, and such options are copied in overlapping
/// pieces, which stalls.)
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Packet {
    /// Connection and sequence number.
    who: u64,
    /// The two timestamps.
    stamps: u64,
    /// From the lowest bits on: flow hash (32), DSCP (6), slot of the SACK blocks (26).
    tags: u64,
    /// From the lowest bits on: length on the link (16), ECN field and flags (8), kind (8), IP length (16), lane (16).
    form: u64,
    /// On a line: time of arrival at the next station. In a queue: time of arrival there. (This field is last because
    /// it changes at every station: words are copied in pairs except for the last one, and a pair with a recently
    /// written word stalls until the store completes.)
    pub time: Time,
}

/// The fields of a packet.
#[derive(Clone, Copy, Default, Debug)]
pub struct Parts {
    /// Time of arrival at the next station, or time of sending.
    pub time: Time,
    /// The connection. Indices are not reused within a run.
    pub conn: u32,
    /// Data: number of the segment. ACK: number of the next expected segment. Ping: its sequence number.
    pub seq: u32,
    /// Data: time of sending, in µs modulo 2^32. ACK: timestamp echo of the earliest segment that it acknowledges.
    pub ts: u32,
    /// ACK: timestamp echo of the segment that triggered it. Data: the RTT known to the sender, in µs.
    pub ts_last: u32,
    /// Flow hash, equal in both directions.
    pub hash: u32,
    /// Differentiated services code point.
    pub dscp: u8,
    /// ACK: the slot of the information beyond its header, or 0. The slot is below 2^25; [`BLOCKS`] is added if the ACK
    /// has SACK blocks.
    pub sack: u32,
    /// ECN field now (bits 0–1) and on arrival at the queue (bits 2–3), and the flags below.
    pub bits: u8,
    /// The kind of the packet, as the number of a [`Kind`].
    pub kind: u8,
    /// IP length in bytes.
    pub bytes: u16,
    /// The lane (class and direction) of the packet.
    pub lane: u16,
}

/// Flag of a slot that has SACK blocks, not only the ACK's window.
pub const BLOCKS: u32 = 1 << 25;
/// Value in place of the slot that marks a segment as a FIN without payload.
const FIN: u32 = 1;
/// Bit positions in `tags`.
const DSCP: u32 = 32;
const SACK: u32 = 38;
/// Bit positions in `form`.
const BITS: u32 = 16;
const KIND: u32 = 24;
const BYTES: u32 = 32;
const LANE: u32 = 48;

impl From<Parts> for Packet {
    #[inline(always)]
    fn from(parts: Parts) -> Packet {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let flags = u64::from(parts.bits) << BITS | u64::from(parts.kind) << KIND;
        Packet {
            time: parts.time,
            who: pair(parts.conn, parts.seq),
            stamps: pair(parts.ts, parts.ts_last),
            tags: u64::from(parts.hash) | u64::from(parts.dscp & 63) << DSCP | u64::from(parts.sack) << SACK,
            form: flags | u64::from(parts.bytes) << BYTES | u64::from(parts.lane) << LANE,
        }
    }
}

/// First transmission of payload.
pub const DATA: u8 = Kind::Data as u8;
/// Retransmitted payload.
pub const RETRANSMIT: u8 = Kind::Retransmit as u8;
/// A pure ACK.
pub const ACK: u8 = Kind::Ack as u8;
/// A SYN or SYN-ACK.
pub const SYN: u8 = Kind::Syn as u8;
/// An echo request or reply.
pub const PING: u8 = Kind::Ping as u8;
/// A datagram of a stream.
pub const DATAGRAM: u8 = Kind::Datagram as u8;
/// The last ACK of a handshake.
pub const OPENING: u8 = DATAGRAM + 1;
/// The FIN of a data receiver.
pub const CLOSING: u8 = OPENING + 1;

/// Bit position of an ACK's bits AE, CWR and ECE; the flags below apply to other packets.
const ACE: u32 = 4;
/// Data: CWR (RFC 3168 §6.1.2).
pub const CWR: u8 = 1 << 4;
/// Data: PSH.
pub const PSH: u8 = 1 << 5;
/// Not data: SYN-ACK, or reply to a ping.
pub const REPLY: u8 = 1 << 5;
/// A full segment.
pub const FULL: u8 = 1 << 6;
/// The packet exists twice: an impairment duplicated it.
pub const TWIN: u8 = 1 << 7;

impl Packet {
    /// Prefetches the packet, which may span two cache lines.
    #[inline(always)]
    pub fn prefetch(&self, cache: &impl Cache) {
        cache.fetch(self);
        cache.fetch(&self.time);
    }

    /// The connection.
    #[inline(always)]
    pub fn conn(&self) -> u32 {
        self.who as u32
    }

    /// Data: number of the segment. ACK: number of the next expected segment. Ping: its sequence number.
    #[inline(always)]
    pub fn seq(&self) -> u32 {
        (self.who >> 32) as u32
    }

    /// Returns the packet with another time.
    #[inline(always)]
    pub fn at(self, time: Time) -> Packet {
        Packet { time, ..self }
    }

    /// Returns the packet with this time of sending.
    #[inline(always)]
    pub fn sent_at(self, now: Time) -> Packet {
        Packet { time: now, stamps: self.stamps >> 32 << 32 | u64::from(stamp(now)), ..self }
    }

    /// Returns the segment with an RTT for its receiver. Normally this is the RTT that the sender knows. For a receiver
    /// that tunes its window, `rtt` is only the first part of the RTT: the time from the departure of the last ACK that
    /// reached the sender until now. The receiver adds the rest. The RTT is stored where an ACK has its second
    /// timestamp.
    pub fn with_rtt(self, rtt: Span) -> Packet {
        let us = (rtt.0 / 1000).clamp(1, u64::from(u32::MAX));
        Packet { stamps: us << 32 | self.stamps & u64::from(u32::MAX), ..self }
    }

    /// Estimates the RTT sample that this ACK will give on arrival. If the ACK has SACK blocks, the sample usually
    /// comes from the segment that triggered the ACK.
    #[inline(always)]
    pub fn shows_rtt(&self) -> Span {
        let ts = if self.has_blocks() { self.ts_last() } else { self.ts() };
        since(self.time, ts)
    }

    /// The RTT that this segment carries, in µs; 0 if none.
    #[inline(always)]
    pub fn rtt_us(&self) -> u32 {
        (self.stamps >> 32) as u32
    }

    /// Time since the packet was sent, in µs; negative if its timestamp is in the future.
    #[inline]
    pub fn age_us(&self, now: Time) -> i32 {
        stamp(now).wrapping_sub(self.ts()) as i32
    }

    /// Returns the content of this ACK, except for the receiver's window.
    #[inline(always)]
    pub fn ack(&self) -> Ack {
        let ace = self.bits() >> ACE & 7;
        Ack { cum: self.seq(), ts_first: self.ts(), ts_last: self.ts_last(), ace, ..Ack::default() }
    }

    /// Returns whether it is an ACK with SACK blocks.
    #[inline(always)]
    pub fn has_blocks(&self) -> bool {
        self.sack() & BLOCKS != 0
    }

    /// Returns whether it is an ACK that has neither SACK blocks nor a window.
    #[inline(always)]
    pub fn is_plain_ack(&self) -> bool {
        self.code() == ACK && self.sack() == 0
    }

    /// Returns the ACK with this content.
    #[inline(always)]
    pub fn acknowledging(self, now: Time, ack: &Ack) -> Packet {
        let stamps = u64::from(ack.ts_first) | u64::from(ack.ts_last) << 32;
        Packet { time: now, stamps, form: self.form | u64::from(ack.ace) << (BITS + ACE), ..self }.numbered(ack.cum)
    }

    /// Returns the ACK with a slot for further information; SACK blocks add `bytes` to its length.
    pub fn with_blocks(self, place: u32, bytes: u16) -> Packet {
        debug_assert!(place < 1 << (64 - SACK), "too many SACK blocks under way");
        Packet { tags: self.tags | u64::from(place) << SACK, form: self.form + (u64::from(bytes) << BYTES), ..self }
    }

    /// Returns the packet with another length, other flags and of another kind.
    #[inline(always)]
    pub fn formed(self, bytes: u16, bits: u8, kind: u8) -> Packet {
        let flags = u64::from(bits) << BITS | u64::from(kind) << KIND;
        Packet { form: self.form >> LANE << LANE | flags | u64::from(bytes) << BYTES, ..self }
    }

    /// Returns the segment with PSH if `push` is set.
    #[inline(always)]
    pub fn pushed(self, push: bool) -> Packet {
        Packet { form: self.form | u64::from(push) << (BITS + PSH.trailing_zeros()), ..self }
    }

    /// Returns the packet with another sequence number.
    #[inline(always)]
    pub fn numbered(self, seq: u32) -> Packet {
        Packet { who: u64::from(self.conn()) | u64::from(seq) << 32, ..self }
    }

    /// Data: time of sending, in µs modulo 2^32. ACK: timestamp echo of the earliest segment that it acknowledges.
    #[inline(always)]
    pub fn ts(&self) -> u32 {
        self.stamps as u32
    }

    /// ACK: timestamp echo of the segment that triggered it.
    #[inline(always)]
    pub fn ts_last(&self) -> u32 {
        (self.stamps >> 32) as u32
    }

    /// ACK: slot in which information beyond its header is kept, or 0.
    #[inline(always)]
    pub fn sack(&self) -> u32 {
        (self.tags >> SACK) as u32
    }

    /// ACK: slot in which its SACK blocks or other options are kept, without the flag for blocks.
    #[inline(always)]
    pub fn place(&self) -> u32 {
        self.sack() & !BLOCKS
    }

    /// Length in bytes, as the current link counts it.
    #[inline(always)]
    pub fn wire(&self) -> u16 {
        self.form as u16
    }

    /// IP length in bytes.
    #[inline(always)]
    pub fn ip_bytes(&self) -> u16 {
        (self.form >> BYTES) as u16
    }

    /// The lane of the packet.
    #[inline(always)]
    pub fn lane(&self) -> usize {
        (self.form >> LANE) as usize
    }

    #[inline(always)]
    fn bits(&self) -> u8 {
        (self.form >> BITS) as u8
    }

    /// The kind of the packet, as its number.
    #[inline(always)]
    pub fn code(&self) -> u8 {
        (self.form >> KIND) as u8
    }

    /// Returns a datagram with this time of sending, which is stored in place of the two timestamps.
    pub fn stamped(self, now: Time) -> Packet {
        Packet { time: now, stamps: now.0, ..self }
    }

    /// The time at which this datagram was sent.
    pub fn sent(&self) -> Time {
        Time(self.stamps)
    }

    /// The kind of the packet.
    #[inline]
    pub fn kind(&self) -> Kind {
        match self.code() {
            ACK | OPENING | CLOSING => Kind::Ack,
            DATA | RETRANSMIT if self.is_finishing() => Kind::Ack,
            SYN => Kind::Syn,
            PING => Kind::Ping,
            DATAGRAM => Kind::Datagram,
            RETRANSMIT => Kind::Retransmit,
            _ => Kind::Data,
        }
    }

    /// Returns the reply to an arrived SYN or echo request: the packet in the other direction, with its time of
    /// departure.
    pub fn returned(self) -> Packet {
        let turned = Packet { form: (self.form ^ 1 << LANE) | u64::from(REPLY) << BITS, ..self };
        turned.left_at(stamp(self.time))
    }

    /// Returns the reply with another time of departure.
    pub fn left_at(self, left: u32) -> Packet {
        Packet { stamps: u64::from(self.ts()) | u64::from(left) << 32, ..self }
    }

    /// Returns the last ACK of a handshake. It carries the parameters of this full segment of the opener.
    pub fn opening(self, bytes: u16, ecn: Ecn) -> Packet {
        self.formed(bytes, Packet::sent_with(ecn), OPENING).numbered(0)
    }

    /// Returns the ACK with a FIN, of a data receiver that has received everything.
    pub fn closing(self) -> Packet {
        Packet { form: self.form & !(0xff << KIND) | u64::from(CLOSING) << KIND, ..self }
    }

    /// Returns the segment as a FIN without payload, of a data sender.
    pub fn finishing(self) -> Packet {
        Packet { tags: self.tags | u64::from(FIN) << SACK, ..self }
    }

    /// Returns whether the segment is a FIN.
    #[inline(always)]
    pub fn is_finishing(&self) -> bool {
        self.sack() == FIN
    }

    /// Returns the time for which this reply has been in flight.
    pub fn way(&self, now: Time) -> Span {
        since(now, self.ts_last())
    }

    /// ECN field on arrival at the current queue.
    #[inline]
    pub fn ecn_in(&self) -> Ecn {
        Ecn::from_bits(self.bits() >> 2)
    }

    /// Returns whether it is a pure ACK.
    #[inline(always)]
    pub fn is_ack(&self) -> bool {
        self.code() == ACK
    }

    /// Returns whether it carries TCP payload.
    #[inline(always)]
    pub fn is_data(&self) -> bool {
        self.code() <= RETRANSMIT
    }

    /// Sets the length on the link when the packet enters a queue.
    #[inline(always)]
    pub fn enter(&mut self, framing: Framing) {
        self.form = (self.form & !0xffff) | u64::from(framing.wire_bytes(self.ip_bytes()));
    }

    /// Returns the flags of a packet that is sent with this ECN field. The field on arrival at the first queue is the
    /// same.
    #[inline]
    pub const fn sent_with(ecn: Ecn) -> u8 {
        ecn as u8 * 0b0101
    }

    /// Returns the packet as not ECN-capable.
    pub fn without_ecn(self) -> Packet {
        Packet { form: self.form & !(0b1111 << BITS), ..self }
    }

    /// Handles the departure of a marked packet: it arrives at the next queue with CE.
    #[inline]
    pub fn pass_on(&mut self) {
        self.form |= 0b1100 << BITS;
    }

    /// Returns whether the packet was marked with CE in this queue, and had no CE on arrival.
    #[inline(always)]
    pub fn is_marked(&self) -> bool {
        self.bits() & 0b11 == 0b11 && self.came_without_ce()
    }

    #[cold]
    fn came_without_ce(&self) -> bool {
        self.bits() & 0b1100 != 0b1100
    }

    /// Returns whether a flag is set.
    #[inline(always)]
    pub fn has(&self, flag: u8) -> bool {
        self.bits() & flag != 0
    }

    /// Returns whether the packet's destination is the data receiver; otherwise it is the data sender.
    #[inline(always)]
    pub fn is_for_receiver(&self) -> bool {
        self.is_data() || !(matches!(self.code(), ACK | CLOSING) || self.has(REPLY))
    }
}

impl Queued for Packet {
    #[inline]
    fn bytes(&self) -> u32 {
        u32::from(self.wire())
    }
    #[inline]
    fn flow_hash(&self) -> u32 {
        self.tags as u32
    }
    #[inline]
    fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.bits())
    }
    #[inline]
    fn set_ecn(&mut self, ecn: Ecn) {
        self.form = (self.form & !(0b11 << BITS)) | (ecn as u64) << BITS;
    }
    #[inline]
    fn dscp(&self) -> u8 {
        (self.tags >> DSCP) as u8 & 63
    }
    #[inline]
    fn set_dscp(&mut self, dscp: u8) {
        self.tags = (self.tags & !(63 << DSCP)) | u64::from(dscp & 63) << DSCP;
    }
    #[inline]
    fn enqueue_time(&self) -> Time {
        self.time
    }
    #[inline]
    fn set_enqueue_time(&mut self, now: Time) {
        self.time = now;
    }
    #[inline]
    fn opens(&self) -> bool {
        self.code() == SYN
    }
    /// The hosts of the flow, independent of the packet's direction; for a user's flow, the user and the other host.
    fn hosts(&self) -> (u32, u32) {
        hosts(self.flow_hash(), self.lane() % 2 == 1)
    }
    /// Sequence numbers count segments. SACK blocks are not in the packet but with the hosts ([`crate::link`] looks
    /// them up), so that an ACK with blocks is not pure by itself. An ACK with a FIN is not filtered, and does not
    /// cause others to be filtered.
    fn segment(&self) -> Option<Segment> {
        if self.code() >= PING {
            return None;
        }
        let acks = self.code() == ACK;
        Some(Segment {
            stream: u64::from(self.conn()) | u64::from(self.is_for_receiver()) << 32,
            ack: if acks { self.seq() } else { 0 },
            acks,
            syn: self.code() == SYN,
            pure: acks && self.sack() & BLOCKS == 0,
            echo: if acks { self.bits() >> ACE & 7 } else { u8::from(self.has(CWR)) },
            sack_count: u8::from(acks && self.sack() & BLOCKS != 0),
            ..Segment::default()
        })
    }
    /// Both copies refer to the same SACK blocks. A third copy is not supported.
    fn doubles(&mut self) -> bool {
        let alone = !self.has(TWIN);
        self.form |= u64::from(TWIN) << BITS;
        alone
    }
}

/// Converts a time to a TCP timestamp: µs modulo 2^32.
#[inline]
pub fn stamp(now: Time) -> u32 {
    (now.0 / 1000) as u32
}

/// Time elapsed since a timestamp.
#[inline(always)]
pub fn since(now: Time, stamped: u32) -> Span {
    Span::from_micros(u64::from(stamp(now).wrapping_sub(stamped)))
}

#[cfg(test)]
mod tests {
    use sojourn_core::qdisc::LinkLayer;

    use super::*;

    #[test]
    fn a_packet_is_forty_bytes() {
        assert_eq!(size_of::<Packet>(), 40);
    }

    #[test]
    fn on_each_link_a_packet_is_as_long_as_that_link_makes_it_and_nothing_else_changes() {
        let parts = Parts { bytes: 1500, lane: 3, bits: 0b10, kind: ACK, ..Parts::default() };
        let mut packet = Packet::from(parts);
        let rest = packet.form >> 16;
        for overhead in [14, 0, 14, 20, 38, 38] {
            packet.enter(Framing::new(overhead, LinkLayer::Ethernet));
            assert_eq!((packet.wire(), packet.form >> 16), (1500 + overhead, rest));
        }
    }

    #[test]
    fn a_filter_of_acks_sees_which_ack_says_more() {
        let ack =
            |seq, sack: u32| Packet::from(Parts { kind: ACK, seq, sack, ..Parts::default() }).segment().expect("TCP");
        assert!(ack(5, 0).pure && ack(5, 0).acks && ack(5, 0).ack == 5);
        assert!(!ack(5, 1 | BLOCKS).pure && ack(5, 1 | BLOCKS).sack_count == 1);
        assert!(ack(5, 1).pure && ack(5, 1).sack_count == 0, "a window alone");
        let data = Packet::from(Parts { kind: DATA, ..Parts::default() }).segment().expect("TCP");
        assert!(!data.pure && data.stream != ack(5, 0).stream);
        for kind in [PING, DATAGRAM] {
            assert_eq!(Packet::from(Parts { kind, ..Parts::default() }).segment(), None);
        }
    }

    #[test]
    fn a_code_point_stays_beside_hash_and_sack_blocks() {
        let parts = Parts { hash: u32::MAX, dscp: 46, kind: ACK, ..Parts::default() };
        let mut packet = Packet::from(parts).with_blocks((1 << 26) - 1, 12);
        assert_eq!((packet.flow_hash(), packet.dscp(), packet.sack()), (u32::MAX, 46, (1 << 26) - 1));
        packet.set_dscp(1);
        assert_eq!((packet.flow_hash(), packet.dscp(), packet.sack()), (u32::MAX, 1, (1 << 26) - 1));
        assert_eq!(packet.returned().dscp(), 1, "what answers it has the same");
    }

    #[test]
    fn what_carries_no_data_is_recorded_as_an_ack() {
        let ack = Packet::from(Parts { kind: ACK, lane: 1, bytes: 52, hash: 7, ..Parts::default() });
        let fin = ack.numbered(10).closing();
        assert!(!fin.is_for_receiver() && fin.kind() == Kind::Ack && fin.segment().is_none());
        assert_eq!((fin.lane(), fin.seq(), fin.ip_bytes(), fin.flow_hash()), (1, 10, 52, 7));
        let full = Packet::from(Parts { kind: DATA, ts_last: 40_000, bits: FULL | 0b1010, ..Parts::default() });
        let open = full.opening(52, Ecn::NotEct);
        assert!(open.is_for_receiver() && open.rtt_us() == 40_000 && open.ecn() == Ecn::NotEct && !open.has(FULL));
        assert_eq!(open.kind(), Kind::Ack);
        let last = full.formed(52, 0, RETRANSMIT).finishing();
        assert!(last.is_data() && last.is_for_receiver() && last.kind() == Kind::Ack);
        assert_eq!(last.segment().map(|segment| (segment.acks, segment.sack_count)), Some((false, 0)));
    }

    #[test]
    fn a_mark_is_a_ce_that_was_not_there_on_arrival() {
        let mut packet = Packet::from(Parts { bits: Packet::sent_with(Ecn::Ect0), ..Parts::default() });
        assert!(!packet.is_marked());
        assert_eq!(packet.ecn_in(), Ecn::Ect0);
        packet.set_ecn(Ecn::Ce);
        assert!(packet.is_marked());
        packet.pass_on();
        assert!(!packet.is_marked(), "it came marked");
        assert_eq!(packet.ecn_in(), Ecn::Ce);
    }
}
