//! The data receivers of all connections, and the SACK blocks and windows that are on their way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sojourn_core::cache::Cache;
use sojourn_core::packet::Packet as _;
use sojourn_core::tcp::{Ack, Arrival, Block, Config, Receiver};
use sojourn_core::units::Time;

use crate::packet::{ACK, BLOCKS, CWR, FULL, PSH, Packet, Parts, TWIN, stamp};
use crate::prefetch::Processor;

/// IP length of a SYN or SYN-ACK: 20 + 20 bytes of headers, 20 of options.
pub const SYN_BYTES: u16 = 60;

/// The receiving end of one connection, on whole lines of a cache: what a segment in order needs lies on the first two.
#[repr(C, align(64))]
struct End {
    /// An ACK of it, without blocks.
    plain: Packet,
    /// The deadline of its delayed ACK that the engine was told last.
    told: Time,
    /// The segment number at which the transfer is complete: the first, where several are waited for.
    target: u32,
    entry: u32,
    /// It ends the connection when the first transfer is complete.
    closes: bool,
    tcp: Receiver,
}

/// What an ACK says beside its header.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// No block ends at zero: that one says where they end.
    blocks: [Block; 3],
    /// The receiver's window in segments, where that is tuned; else all.
    pub window: u32,
    /// When it left, as [`stamp`] has it.
    pub left: u32,
}

impl Told {
    /// Nothing.
    pub const NOTHING: Told = Told { blocks: [Block { start: 0, end: 0 }; 3], window: u32::MAX, left: 0 };

    /// Its SACK blocks.
    pub fn blocks(&self) -> &[Block] {
        let count = self.blocks.iter().take_while(|block| block.end > 0).count();
        &self.blocks[..count]
    }
}

/// All receiving ends, by connection.
#[derive(Default)]
pub struct Ends {
    ends: Vec<End>,
    /// The further targets of connections that have several, rising.
    later: BTreeMap<u32, VecDeque<u32>>,
    sacks: Sacks,
}

/// What a packet did at a receiving end.
#[derive(Clone, Copy)]
pub struct Received {
    /// It is answered at once.
    pub answers: bool,
    /// So many transfers that were waited for it completed.
    pub complete: u32,
    /// It has got all: [`Ends::closing`] leaves too.
    pub closes: bool,
    /// When an answer to what is not answered yet is due, if that is news: earlier than was told last.
    pub deadline: Time,
}

impl Ends {
    /// With room for so many connections.
    pub fn new(connections: usize) -> Ends {
        Ends { ends: Vec::with_capacity(connections), ..Ends::default() }
    }

    /// The receiving end of the next connection, of whose data `full` is a segment. `closes`: it ends when one transfer is complete.
    pub fn open(&mut self, config: &Config, full: &Packet, entry: u32, closes: bool) {
        let conn = self.ends.len() as u32;
        let bytes = config.header as u16;
        let (hash, dscp, lane) = (full.flow_hash(), full.dscp(), full.lane() as u16 ^ 1);
        let plain = Packet::from(Parts { conn, hash, dscp, bytes, lane, kind: ACK, ..Parts::default() });
        self.ends.push(End { tcp: Receiver::new(config), plain, target: u32::MAX, entry, closes, told: Time::NEVER });
    }

    /// Says at which segment number a transfer of this connection is complete; they end in the order in which they are told.
    pub fn expect(&mut self, conn: u32, target: u32) {
        let end = &mut self.ends[conn as usize];
        if end.target == u32::MAX {
            end.target = target;
        } else {
            self.later.entry(conn).or_default().push_back(target);
        }
    }

    /// The row of the results to which the connection belongs.
    #[inline]
    pub fn entry(&self, conn: u32) -> u32 {
        self.ends[conn as usize].entry
    }

    /// The lane of its ACKs.
    pub fn lane(&self, conn: u32) -> usize {
        self.ends[conn as usize].plain.lane()
    }

    /// When [`Ends::on_timer`] is due.
    #[inline]
    pub fn deadline(&self, conn: u32) -> Time {
        self.ends[conn as usize].tcp.next_event()
    }

    /// A packet of TCP's payload reaches the receiving end. `packet` becomes the ACK, if there is one to leave at once.
    #[inline(always)]
    pub fn receive(&mut self, now: Time, packet: &mut Packet) -> Received {
        let conn = packet.conn();
        let end = &mut self.ends[conn as usize];
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
            return Received { answers, complete, closes, deadline: end.news() };
        }
        *packet = end.packet(now, &end.tcp.ack(), &mut self.sacks);
        let deadline = if end.tcp.is_early() { end.news() } else { Time::NEVER };
        Received { answers, complete, closes, deadline }
    }

    /// The FIN with which the receiving end closes.
    pub fn closing(&self, now: Time, conn: u32) -> Packet {
        let end = &self.ends[conn as usize];
        end.plain.closing(end.tcp.next_expected()).sent_at(now)
    }

    /// The delayed ACK, if it is due.
    pub fn on_timer(&mut self, now: Time, conn: u32) -> Option<Packet> {
        let end = &mut self.ends[conn as usize];
        let ack = end.tcp.on_timer(now)?;
        Some(end.packet(now, &ack, &mut self.sacks))
    }

    /// The deadline that was told last has passed: the next one is news.
    pub fn renew(&mut self, conn: u32) -> Time {
        let end = &mut self.ends[conn as usize];
        end.told = Time::NEVER;
        end.news()
    }

    /// What an ACK that has arrived says beside its header; the place of that is free then.
    #[inline]
    pub fn take_told(&mut self, packet: &Packet) -> Told {
        match packet.sack() & !BLOCKS {
            0 => Told::NOTHING,
            place => self.sacks.take(place, packet.has(TWIN)),
        }
    }

    /// Fetches what a segment in order needs of a receiving end, and what [`Ends::warm_held`] will ask.
    #[inline]
    pub fn warm(&self, conn: u32) {
        if let Some(end) = self.ends.get(conn as usize) {
            Processor.fetch(end);
            end.tcp.warm(&Processor);
        }
    }

    /// The same of what lies behind that.
    #[inline]
    pub fn warm_held(&self, conn: u32) {
        if let Some(end) = self.ends.get(conn as usize) {
            end.tcp.warm_held(&Processor);
        }
    }

    /// The same of what an ACK says beside its header.
    #[inline]
    pub fn warm_blocks(&self, packet: &Packet) {
        Processor.fetch(&self.sacks.places[(packet.sack() & !BLOCKS) as usize]);
    }

    /// A packet was lost.
    pub fn lost(&mut self, packet: &Packet) {
        if packet.code() == ACK {
            self.take_told(packet);
        }
    }
}

impl End {
    /// The targets that are reached; the next one is waited for.
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

    /// The RTT: to tune the window by, of the last ACK that the sender heard and this segment together (Linux: by the timestamp
    /// that it echoes).
    #[inline(always)]
    fn rtt_us(&self, now: Time, packet: &Packet) -> u32 {
        match packet.rtt_us() {
            told if told > 0 && self.tcp.tunes() => told.saturating_add(packet.age_us(now)),
            told => told,
        }
    }

    #[inline(always)]
    fn news(&mut self) -> Time {
        let deadline = self.tcp.next_event();
        if deadline >= self.told {
            return Time::NEVER;
        }
        self.told = deadline;
        deadline
    }

    #[inline(always)]
    fn packet(&mut self, now: Time, ack: &Ack, sacks: &mut Sacks) -> Packet {
        let packet = self.plain.acknowledging(now, ack);
        if !self.tcp.says_more() {
            return packet;
        }
        let (mut blocks, count) = self.tcp.take_blocks();
        let window = self.tcp.tuned().unwrap_or(u32::MAX);
        if count < blocks.len() {
            blocks[count..].fill(Block::default());
        }
        let place = sacks.put(Told { blocks, window, left: stamp(now) });
        // RFC 2018 §3: two bytes and eight for each block, padded to a multiple of four.
        if count > 0 { packet.with_blocks(place | BLOCKS, 4 + 8 * count as u16) } else { packet.with_blocks(place, 0) }
    }
}

/// What is on its way, by place; places are used again.
struct Sacks {
    places: Vec<Told>,
    free: Vec<u32>,
    /// Places of twins of which one has come.
    halves: BTreeSet<u32>,
}

impl Default for Sacks {
    fn default() -> Self {
        // Place 0 stands for "nothing".
        Sacks { places: vec![Told::NOTHING], free: Vec::new(), halves: BTreeSet::new() }
    }
}

impl Sacks {
    fn put(&mut self, told: Told) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = told;
                place
            }
            None => {
                self.places.push(told);
                (self.places.len() - 1) as u32
            }
        }
    }

    /// Of twins the second frees the place.
    #[inline]
    fn take(&mut self, place: u32, twin: bool) -> Told {
        if (!twin && self.halves.is_empty()) || self.is_last(place, twin) {
            self.free.push(place);
        }
        self.places[place as usize]
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
