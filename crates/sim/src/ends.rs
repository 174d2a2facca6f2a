//! The data receivers of all connections, and the SACK blocks and windows of ACKs in flight.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU32;

use sojourn_core::cache::Cache;
use sojourn_core::packet::Packet as _;
use sojourn_core::tcp::{Ack, Arrival, Block, Config, Counters, HalfOpen, Receiver, Recovery};
use sojourn_core::units::{Span, Time};

use crate::packet::{ACK, BLOCKS, CLOSING, CWR, FULL, OPENING, PSH, Packet, Parts, SYN, TWIN, stamp};
use crate::prefetch::Processor;

/// IP length of a SYN or SYN-ACK: 20 + 20 bytes of headers, 20 of options.
pub const SYN_BYTES: u16 = 60;

/// The receiver of one connection, aligned to cache lines. The fields that an in-order segment needs are in the first
/// two lines.
#[repr(C, align(64))]
struct End {
    /// Template of the receiver's ACKs, without SACK blocks.
    plain: Packet,
    /// The deadline last reported to the engine, for a delayed ACK or for the retransmission of a SYN-ACK.
    reported: Time,
    /// Segment number at which the current transfer is complete.
    target: u32,
    /// Whether the receiver closes the connection when the first transfer is complete.
    closes: bool,
    /// Whether any packet has arrived since the SYN.
    opened: bool,
    timestamps: bool,
    tcp: Receiver,
}

// With many flows, each should touch few cache lines. Pointers of 32 bits would make it smaller.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<End>() == 4 * sojourn_core::cache::LINE);

/// State of a receiver that only the handshake needs.
struct Handshake {
    /// Timer ticks per second (HZ) of a kernel that retransmits SYN-ACKs.
    hz: Option<NonZeroU32>,
    /// RTT of the handshake in µs; 0 if unknown.
    rtt_us: u32,
}

/// A SYN-ACK that may be retransmitted.
struct SynAck {
    half: HalfOpen,
    /// The first transmission.
    packet: Packet,
}

/// Content of an ACK beyond its header.
#[derive(Clone, Copy, Debug)]
pub struct AckOptions {
    /// SACK blocks. An unused one ends at zero, which is no valid end.
    blocks: [Block; 3],
    /// The receiver's window in segments if it is tuned; otherwise the maximum.
    pub window: u32,
    /// Time of departure, as a [`stamp`]; `None` if there is no content.
    pub left: Option<u32>,
}

impl AckOptions {
    /// No content.
    pub const NONE: AckOptions = AckOptions { blocks: [Block { start: 0, end: 0 }; 3], window: u32::MAX, left: None };

    /// The SACK blocks in use.
    pub fn blocks(&self) -> &[Block] {
        let count = self.blocks.iter().take_while(|block| block.end > 0).count();
        &self.blocks[..count]
    }
}

/// The receivers of all connections.
#[derive(Default)]
pub struct Ends {
    ends: Vec<End>,
    handshakes: Vec<Handshake>,
    /// The index of each connection in the results. It is kept apart from the receiver's state because a lost packet
    /// needs nothing else, and the state is then not in the cache.
    entries: Vec<u32>,
    /// Further targets of connections with several transfers, in rising order.
    later: BTreeMap<u32, VecDeque<u32>>,
    /// SYN-ACKs of half-open connections, in hosts that behave like Linux.
    syn_acks: BTreeMap<u32, SynAck>,
    sacks: Sacks,
}

/// The effect of a packet on its receiver.
#[derive(Clone, Copy)]
pub struct Received {
    /// Whether the packet is answered at once.
    pub answers: bool,
    /// Number of transfers that the packet completed.
    pub complete: u32,
    /// Whether the receiver closes the connection: [`Ends::closing`] is sent too.
    pub closes: bool,
    /// New deadline of the delayed ACK or SYN-ACK, if it is earlier than the one last reported; otherwise never.
    pub deadline: Time,
}

impl Ends {
    /// Creates the storage, with capacity for this number of connections. `stamps`: every ACK carries the time of its
    /// departure.
    pub fn new(connections: usize, stamps: bool) -> Ends {
        Ends {
            ends: Vec::with_capacity(connections),
            handshakes: Vec::with_capacity(connections),
            entries: Vec::with_capacity(connections),
            sacks: Sacks { stamps, ..Sacks::default() },
            ..Ends::default()
        }
    }

    /// Creates the receiving end of the next connection. `full` is a full segment of its data.
    pub fn open(&mut self, config: &Config, full: &Packet, entry: u32) {
        let conn = self.ends.len() as u32;
        let bytes = config.header as u16;
        let (hash, dscp, lane) = (full.flow_hash(), full.dscp(), full.lane() as u16 ^ 1);
        let bits = Packet::sent_with(config.ect_of_acks());
        let plain = Packet::from(Parts { conn, hash, dscp, bytes, lane, bits, kind: ACK, ..Parts::default() });
        let hz = NonZeroU32::new(config.hz).filter(|_| config.recovery == Recovery::Rack);
        let (tcp, timestamps) = (Receiver::new(config), config.timestamps);
        let (target, reported) = (u32::MAX, Time::NEVER);
        self.entries.push(entry);
        self.handshakes.push(Handshake { hz, rtt_us: 0 });
        self.ends.push(End { tcp, plain, target, closes: false, opened: false, timestamps, reported });
    }

    /// Sets the segment number at which the connection's next transfer is complete. Transfers end in the order of the
    /// calls. `closes` means that the receiver closes the connection after the transfer.
    pub fn expect(&mut self, conn: u32, target: u32, closes: bool) {
        let end = &mut self.ends[conn as usize];
        end.closes |= closes;
        if end.target == u32::MAX {
            end.target = target;
        } else {
            self.later.entry(conn).or_default().push_back(target);
        }
    }

    /// Returns the index of the connection in the results.
    #[inline]
    pub fn entry(&self, conn: u32) -> u32 {
        self.entries[conn as usize]
    }

    /// Returns the counters of all receivers together.
    pub fn counters(&self) -> Counters {
        let mut all = Counters::default();
        self.ends.iter().for_each(|end| all += end.tcp.counters());
        all
    }

    /// Returns the lane of the receiver's ACKs.
    pub fn lane(&self, conn: u32) -> usize {
        self.ends[conn as usize].plain.lane()
    }

    /// Returns the time at which [`Ends::on_timer`] is to be called next.
    #[inline]
    pub fn deadline(&self, conn: u32) -> Time {
        let End { opened, tcp, .. } = &self.ends[conn as usize];
        if *opened { tcp.next_event() } else { tcp.next_event().min(self.repetition(conn)) }
    }

    /// Time of the next retransmission of the SYN-ACK.
    #[cold]
    #[inline(never)]
    fn repetition(&self, conn: u32) -> Time {
        self.syn_acks.get(&conn).map_or(Time::NEVER, |syn_ack| syn_ack.half.next_event())
    }

    /// Returns the RTT of the handshake as the accepter measured it; `None` if it is unknown, as before the first
    /// packet after the handshake.
    pub fn handshake_rtt(&self, conn: u32) -> Option<Span> {
        let us = self.handshakes[conn as usize].rtt_us;
        (us > 0).then(|| Span::from_micros(u64::from(us)))
    }

    /// Handles the arrival of TCP payload. `packet` becomes the ACK, if one is sent at once.
    #[inline(always)]
    pub fn receive(&mut self, now: Time, packet: &mut Packet) -> Received {
        let conn = packet.conn();
        if !self.ends[conn as usize].opened {
            self.opened(now, packet);
        }
        let end = &mut self.ends[conn as usize];
        if packet.is_finishing() {
            end.tcp.expect_fin();
        }
        let arrival = Arrival {
            seq: packet.seq(),
            full: packet.has(FULL),
            pushed: packet.has(PSH),
            ts: packet.ts(),
            rtt_us: end.rtt_us(now, packet),
            ecn: packet.ecn(),
            cwr: packet.has(CWR),
        };
        let answers = end.tcp.accept(now, arrival);
        let complete = if end.tcp.next_expected() < end.target { 0 } else { end.complete(conn, &mut self.later) };
        let closes = complete > 0 && end.closes;
        if !answers {
            return Received { answers, complete, closes, deadline: end.new_deadline(end.tcp.next_event()) };
        }
        *packet = end.packet(now, &end.tcp.ack(), &mut self.sacks);
        let deadline = if end.tcp.is_early() { end.new_deadline(end.tcp.next_event()) } else { Time::NEVER };
        Received { answers, complete, closes, deadline }
    }

    /// Handles the arrival of a packet that is neither TCP payload nor a datagram. Returns the packet that is sent in
    /// response at once.
    #[cold]
    #[inline(never)]
    pub fn receive_other(&mut self, now: Time, packet: Packet) -> (Received, Packet) {
        let mut deadline = Time::NEVER;
        let answer = match packet.code() {
            SYN => {
                let (answer, due) = self.on_syn(now, packet);
                deadline = due;
                Some(answer)
            }
            OPENING => {
                self.opened(now, &packet);
                self.ends[packet.conn() as usize].tcp.on_established(now);
                None
            }
            _ => Some(packet.returned()),
        };
        (Received { answers: answer.is_some(), complete: 0, closes: false, deadline }, answer.unwrap_or(packet))
    }

    /// Handles a SYN. Returns the response and the deadline of its retransmission, if it must be reported.
    fn on_syn(&mut self, now: Time, packet: Packet) -> (Packet, Time) {
        let conn = packet.conn();
        let end = &mut self.ends[conn as usize];
        let Some(hz) = self.handshakes[conn as usize].hz else {
            return (syn_ack_at(packet.returned(), now, Span::ZERO, end.tcp.tunes()), Time::NEVER);
        };
        if end.opened {
            // RFC 5961 §4.2: a challenge ACK.
            let ack = end.tcp.ack_now();
            return (end.packet(now, &ack, &mut self.sacks), Time::NEVER);
        }
        let syn_ack = match self.syn_acks.entry(conn) {
            Entry::Vacant(place) => {
                place.insert(SynAck { half: HalfOpen::new(now, hz.get()), packet: packet.returned() })
            }
            Entry::Occupied(place) => {
                let syn_ack = place.into_mut();
                syn_ack.half.on_syn(now);
                syn_ack
            }
        };
        (syn_ack.leaving(now, end.tcp.tunes()), end.new_deadline(syn_ack.half.next_event()))
    }

    /// Handles the first packet after the handshake, from which its RTT is known.
    #[cold]
    #[inline(never)]
    fn opened(&mut self, now: Time, packet: &Packet) {
        let conn = packet.conn();
        let end = &mut self.ends[conn as usize];
        if !end.opened {
            end.opened = true;
            let measured = end.rtt_us(now, packet);
            let rtt_us = match self.syn_acks.remove(&conn) {
                Some(SynAck { half, .. }) => half.rtt_us(measured, end.timestamps),
                None => measured,
            };
            self.handshakes[conn as usize].rtt_us = rtt_us;
            end.tcp.on_opened(rtt_us);
        }
    }

    /// Returns the FIN with which the receiver closes. It also carries the pending ACK.
    pub fn closing(&mut self, now: Time, conn: u32) -> Packet {
        let end = &mut self.ends[conn as usize];
        let ack = end.tcp.ack_now();
        end.packet(now, &ack, &mut self.sacks).closing()
    }

    /// Returns the delayed ACK or the retransmitted SYN-ACK, if it is due.
    pub fn on_timer(&mut self, now: Time, conn: u32) -> Option<Packet> {
        let end = &mut self.ends[conn as usize];
        if !end.opened
            && let Some(syn_ack) = self.syn_acks.get_mut(&conn)
        {
            return syn_ack.half.on_timer(now).then(|| syn_ack.leaving(now, end.tcp.tunes()));
        }
        let ack = end.tcp.on_timer(now)?;
        Some(end.packet(now, &ack, &mut self.sacks))
    }

    /// Returns the next deadline, after the one that was last reported has passed.
    pub fn next_deadline(&mut self, conn: u32) -> Time {
        self.ends[conn as usize].reported = Time::NEVER;
        let deadline = self.deadline(conn);
        self.ends[conn as usize].new_deadline(deadline)
    }

    /// Returns the content of an arrived ACK beyond its header, and frees its slot.
    #[inline]
    pub fn take_options(&mut self, packet: &Packet) -> AckOptions {
        match packet.place() {
            0 => AckOptions::NONE,
            place => self.sacks.take(place, packet.has(TWIN)),
        }
    }

    /// Returns the content of an ACK in flight.
    pub fn options(&self, packet: &Packet) -> &AckOptions {
        &self.sacks.slots[packet.place() as usize]
    }

    /// Prefetches the state that an in-order segment needs, and that [`Ends::prefetch_held`] reads.
    #[inline]
    pub fn prefetch(&self, conn: u32) {
        if let Some(end) = self.ends.get(conn as usize) {
            Processor.fetch(end);
            end.tcp.prefetch(&Processor);
        }
    }

    /// Prefetches the memory to which the state of [`Ends::prefetch`] points.
    #[inline]
    pub fn prefetch_held(&self, conn: u32) {
        if let Some(end) = self.ends.get(conn as usize) {
            end.tcp.prefetch_held(&Processor);
        }
    }

    /// Prefetches the content of an ACK beyond its header.
    #[inline]
    pub fn prefetch_options(&self, packet: &Packet) {
        if let Some(options) = self.sacks.slots.get(packet.place() as usize) {
            Processor.fetch(options);
        }
    }

    /// Returns the last segment of the first SACK block of an ACK.
    #[inline]
    pub fn newest_block(&self, packet: &Packet) -> Option<u32> {
        let options = self.sacks.slots.get(packet.place() as usize)?;
        Some(options.blocks[0].end.wrapping_sub(1))
    }

    /// Frees the slot of a lost packet.
    pub fn lost(&mut self, packet: &Packet) {
        if matches!(packet.code(), ACK | CLOSING) {
            self.take_options(packet);
        }
    }
}

impl SynAck {
    fn leaving(&self, now: Time, tunes: bool) -> Packet {
        syn_ack_at(self.packet.at(now), now, self.half.waited(now), tunes)
    }
}

/// Returns a SYN-ACK that leaves now, `waited` after the SYN that it answers. The receiver measures the RTT from its
/// departure if it tunes its window, and otherwise from the departure of the SYN, without the time of waiting.
///
/// It has the ECN field of the SYN. Linux does the same if DCTCP is the listener's congestion control
/// (`tcp_v4_send_synack`). If only the route selects DCTCP, as in the kernel world, Linux's SYN-ACK is not ECN-capable.
fn syn_ack_at(packet: Packet, now: Time, waited: Span, tunes: bool) -> Packet {
    let whole = packet.ts().wrapping_add((waited.0 / 1000) as u32);
    packet.left_at(if tunes { stamp(now) } else { whole })
}

impl End {
    /// Returns the number of targets that were reached, and advances to the next target.
    #[cold]
    #[inline(never)]
    fn complete(&mut self, conn: u32, later: &mut BTreeMap<u32, VecDeque<u32>>) -> u32 {
        let mut queue = later.get_mut(&conn);
        let mut complete = 0;
        while self.tcp.next_expected() >= self.target {
            complete += 1;
            self.target = queue.as_mut().and_then(|queue| queue.pop_front()).unwrap_or(u32::MAX);
        }
        complete
    }

    /// Returns the RTT in µs. For a receiver that tunes its window, it is the time from the departure of the last ACK
    /// that reached the sender to the arrival of this segment (Linux uses the timestamp that the segment echoes).
    #[inline(always)]
    fn rtt_us(&self, now: Time, packet: &Packet) -> u32 {
        match packet.rtt_us() {
            carried if carried > 0 && self.tcp.tunes() => carried.saturating_add_signed(packet.age_us(now)).max(1),
            carried => carried,
        }
    }

    #[inline(always)]
    fn new_deadline(&mut self, deadline: Time) -> Time {
        if deadline >= self.reported {
            return Time::NEVER;
        }
        self.reported = deadline;
        deadline
    }

    #[inline(always)]
    fn packet(&mut self, now: Time, ack: &Ack, sacks: &mut Sacks) -> Packet {
        let packet = self.plain.acknowledging(now, ack);
        if !self.tcp.says_more() && !sacks.stamps {
            return packet;
        }
        let (mut blocks, count) = self.tcp.take_blocks();
        let window = self.tcp.tuned().unwrap_or(u32::MAX);
        for (place, block) in blocks.iter_mut().enumerate() {
            // A loop is faster than a call of `fill` for so few blocks.
            if place >= count {
                *block = Block::default();
            }
        }
        let place = sacks.put(AckOptions { blocks, window, left: Some(stamp(now)) });
        // RFC 2018 §3: two bytes, and eight per block, padded to a multiple of four.
        if count > 0 { packet.with_blocks(place | BLOCKS, 4 + 8 * count as u16) } else { packet.with_blocks(place, 0) }
    }
}

/// Contents of ACKs in flight, by slot. Slots are reused.
struct Sacks {
    slots: Vec<AckOptions>,
    free: Vec<u32>,
    /// Slots of duplicated packets of which one copy has arrived.
    halves: BTreeSet<u32>,
    /// Every ACK has a slot, and in it the time of its departure.
    stamps: bool,
}

impl Default for Sacks {
    fn default() -> Self {
        // Slot 0 means "nothing".
        Sacks { slots: vec![AckOptions::NONE], free: Vec::new(), halves: BTreeSet::new(), stamps: false }
    }
}

impl Sacks {
    fn put(&mut self, options: AckOptions) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = options;
                place
            }
            None => {
                self.slots.push(options);
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Takes the content of a slot. The slot of a duplicated packet is freed by the second copy.
    #[inline]
    fn take(&mut self, place: u32, twin: bool) -> AckOptions {
        if (!twin && self.halves.is_empty()) || self.is_last(place, twin) {
            self.free.push(place);
        }
        self.slots[place as usize]
    }

    #[cold]
    #[inline(never)]
    fn is_last(&mut self, place: u32, twin: bool) -> bool {
        let last = !twin || !self.halves.insert(place);
        if last {
            self.halves.remove(&place);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::DATA;
    use sojourn_core::packet::Ecn;

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn one(config: &Config) -> (Ends, Packet) {
        let mut ends = Ends::default();
        let full = Packet::from(Parts { kind: DATA, bytes: 1500, bits: FULL, ..Parts::default() });
        ends.open(config, &full, 0);
        (ends, full)
    }

    /// A SYN that left at 10 ms arrives at 30 ms; its answers are lost until 2.2 s, on a path of 40 ms.
    #[test]
    fn every_syn_ack_echoes_the_first_syn_and_tells_the_rtt_without_the_wait() {
        let (mut ends, full) = one(&Config::default());
        let syn = |sent: u64| full.formed(SYN_BYTES, 0, SYN).sent_at(at_ms(sent)).at(at_ms(sent + 20));
        let (first, answer) = ends.receive_other(at_ms(30), syn(10));
        assert_eq!((answer.ts(), answer.way(at_ms(50))), (10_000, Span::from_millis(40)));
        assert_eq!(first.deadline, at_ms(1056), "1.03 s, at the next multiple of 32 ms");
        let again = ends.on_timer(at_ms(1056), 0).expect("nothing came");
        assert_eq!((again.ts(), again.way(at_ms(1076)), again.lane()), (10_000, Span::from_millis(40), 1));
        assert_eq!(ends.next_deadline(0), at_ms(3072), "two seconds after that");
        let (_, answer) = ends.receive_other(at_ms(2180), syn(2160));
        assert_eq!((answer.ts(), answer.way(at_ms(2200))), (10_000, Span::from_millis(40)));
        let opening = full.with_rtt(answer.way(at_ms(2200))).opening(52, Ecn::NotEct).sent_at(at_ms(2200));
        assert!(!ends.receive_other(at_ms(2220), opening.at(at_ms(2220))).0.answers);
        assert_eq!((ends.deadline(0), ends.handshake_rtt(0)), (Time::NEVER, Some(Span::from_millis(40))));
    }

    #[test]
    fn who_tunes_adds_the_time_since_the_syn_ack_left() {
        let (mut ends, full) = one(&Config { rmem: Some(6_000_000), ..Config::default() });
        let syn = full.formed(SYN_BYTES, 0, SYN).sent_at(at_ms(10)).at(at_ms(30));
        let (_, answer) = ends.receive_other(at_ms(30), syn);
        assert_eq!(answer.way(at_ms(50)), Span::from_millis(20));
        // The last ACK is lost, and the first segment waits for 5 ms.
        let data = full.with_rtt(answer.way(at_ms(50))).sent_at(at_ms(50)).at(at_ms(75));
        ends.receive(at_ms(75), &mut { data });
        assert_eq!((ends.deadline(0).max(at_ms(1)), ends.handshake_rtt(0)), (Time::NEVER, Some(Span::from_millis(45))));
    }

    /// RFC 5961 §4.2.
    #[test]
    fn a_syn_of_an_open_connection_is_answered_by_an_ack() {
        let (mut ends, full) = one(&Config::default());
        let syn = |sent: u64| full.formed(SYN_BYTES, 0, SYN).sent_at(at_ms(sent)).at(at_ms(sent + 20));
        let (_, answer) = ends.receive_other(at_ms(30), syn(10));
        ends.receive(at_ms(70), &mut full.with_rtt(answer.way(at_ms(50))).sent_at(at_ms(50)).at(at_ms(70)));
        let (received, answer) = ends.receive_other(at_ms(1300), syn(1280));
        assert!(received.answers && answer.code() == ACK && received.deadline == Time::NEVER);
        assert_eq!((answer.ack().cum, ends.deadline(0)), (1, Time::NEVER));
    }

    /// The RTT of a repeated SYN-ACK is known from timestamps only, in whole milliseconds.
    #[test]
    fn who_repeats_its_syn_ack_knows_the_rtt_by_timestamps_alone() {
        for (timestamps, repeats, expected) in
            [(true, false, Some(40_600)), (true, true, Some(40_000)), (false, false, Some(40_600)), (false, true, None)]
        {
            let (mut ends, full) = one(&Config { timestamps, ..Config::default() });
            let (_, first) =
                ends.receive_other(at_ms(30), full.formed(SYN_BYTES, 0, SYN).sent_at(at_ms(10)).at(at_ms(30)));
            let answer = if repeats { ends.on_timer(ends.deadline(0), 0).expect("a SYN-ACK") } else { first };
            let came = answer.time + Span::from_micros(20_600);
            let opening = full.with_rtt(answer.way(came)).opening(52, Ecn::NotEct).sent_at(came);
            ends.receive_other(came + Span::from_millis(20), opening.at(came + Span::from_millis(20)));
            assert_eq!(ends.handshake_rtt(0), expected.map(Span::from_micros), "{timestamps} {repeats}");
        }
    }

    /// The slot of a FIN that is lost, or that arrives twice, is freed.
    #[test]
    fn a_fin_gives_its_place_back() {
        let (mut ends, mut full) = one(&Config { rmem: Some(6_000_000), ..Config::default() });
        ends.receive(at_ms(10), &mut full);
        ends.take_options(&full);
        for twins in [false, true] {
            let mut fin = ends.closing(at_ms(20), 0);
            assert_eq!((fin.code(), fin.sack()), (CLOSING, 1));
            if twins {
                fin.doubles();
                assert!(ends.take_options(&fin).window < u32::MAX);
            }
            ends.lost(&fin);
        }
        assert_eq!((ends.sacks.slots.len(), ends.sacks.free.len()), (2, 1));
    }

    #[test]
    fn of_old_each_syn_is_answered_for_itself() {
        let (mut ends, full) = one(&Config { recovery: Recovery::Rfc6675, ..Config::default() });
        for sent in [10, 1010] {
            let syn = full.formed(SYN_BYTES, 0, SYN).sent_at(at_ms(sent)).at(at_ms(sent + 20));
            let (received, answer) = ends.receive_other(at_ms(sent + 20), syn);
            assert_eq!((u64::from(answer.ts()), received.deadline), (sent * 1000, Time::NEVER));
            assert_eq!(answer.way(at_ms(sent + 40)), Span::from_millis(40));
        }
    }
}
