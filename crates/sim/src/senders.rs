//! The data senders of all connections. A connection of an application has one sender, or one at each end if both ends
//! send data. In that case the two senders share a handshake.

use sojourn_core::access::AccessLink;
use sojourn_core::cache::Cache;
use sojourn_core::packet::{Ecn, Packet as _};
use sojourn_core::rng::Rng;
use sojourn_core::tcp::{Ack, Age, Block, Config, Counters, Run, Sender, TsRecent};
use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::Entry;
use sojourn_model::workload::driver::{Data, End};

use crate::ends::{AckOptions, SYN_BYTES};
use crate::flow_hash::flow_hash;
use crate::net::Net;
use crate::packet::{ACK, CLOSING, CWR, DATA, FULL, PSH, Packet, Parts, RETRANSMIT, SYN, since, stamp};
use crate::prefetch::Processor;
use crate::topology::Topology;

// A sender prefetches itself by cache lines.
const _: () = assert!(std::mem::offset_of!(Conn, sender).is_multiple_of(sojourn_core::cache::LINE));

/// A data sender, on whole cache lines. The fields that every ACK needs come first.
#[repr(C, align(64))]
struct Conn {
    /// A full segment of its data.
    full: Packet,
    entry: u32,
    rwnd: u32,
    /// The connection of the applications, or [`NO_CONNECTION`].
    connection: u32,
    header: u16,
    /// Whether its application has written [`Data::Endless`].
    endless: bool,
    /// The deadline for which the engine was last asked to arm the timer.
    armed: Time,
    sender: Sender,
    /// The time at which the SYN-ACK arrived, as a [`stamp`]. `None` for the sender of an accepter.
    answered: Option<u32>,
    ts_recent: TsRecent,
}

impl Conn {
    /// Stops sending ECN-capable packets if the sender has given up ECN, because its SYN was lost.
    fn follow_ecn(&mut self) {
        if !self.sender.has_ecn() {
            self.full = self.full.without_ecn();
        }
    }

    /// Returns the full segment from which a retransmission, or the ACK that answers a SYN-ACK, is formed. Linux's
    /// receiver measures the RTT of the handshake until the first packet arrives (`tcp_synack_rtt_meas`). As long as no
    /// data has been acknowledged, the RTT that the segment carries therefore includes the time since the SYN-ACK
    /// arrived. For a receiver that tunes its window, the RTT also includes `ahead`, the time by which the segment's
    /// timestamp is in the future.
    fn full_for_retransmit(&self, now: Time, ahead: Span) -> Packet {
        let waited = self.answered.filter(|_| self.sender.acked() == 0).map_or(Span::ZERO, |at| since(now, at));
        match self.full.rtt_us() {
            rtt if rtt > 0 => self.full.with_rtt(Span::from_micros(u64::from(rtt)) + waited + ahead),
            _ => self.full,
        }
    }
}

/// The connection of packets that TCP does not carry.
const NO_CONNECTION: u32 = u32::MAX;

/// The state that the senders of a row share.
struct Row {
    /// Draws the flow hashes of new connections.
    hashes: Rng,
    /// Number of the sender of its echo requests or datagrams, once the first has been sent.
    lone: Option<u32>,
}

/// Returns the hosts' own links, if TCP small queues limit the data that waits there.
fn uplinks(scenario: &Scenario, topology: &Topology) -> Vec<AccessLink> {
    let looks = scenario.workload.entries.iter().any(|entry| entry.tcp.tsq.is_some());
    let Some(access) = scenario.access.as_ref().filter(|_| looks) else { return Vec::new() };
    let link = AccessLink::new(access.rate, Span::ZERO, access.limit);
    vec![link; topology.lanes.len()]
}

/// All data senders.
pub struct Senders<'a> {
    entries: &'a [Entry],
    topology: &'a Topology,
    rows: Vec<Row>,
    conns: Vec<Conn>,
    /// The sender at the opener of each connection of the applications. The sender at the accepter, if any, is the next one.
    openers: Vec<u32>,
    series: bool,
    /// The hosts' own links by lane, if TCP small queues limit the data that waits there. They carry only packets of
    /// these hosts' senders.
    uplinks: Vec<AccessLink>,
}

impl<'a> Senders<'a> {
    /// Creates the senders of a run, before any connection opens. `series` asks for samples of cwnd and srtt.
    pub fn new(scenario: &'a Scenario, topology: &'a Topology, series: bool) -> Senders<'a> {
        let entries = &scenario.workload.entries[..];
        let hashes = |entry: &Entry| Rng::stream(scenario.seed, &format!("hash {}", entry.name));
        Senders {
            entries,
            topology,
            rows: entries.iter().map(|entry| Row { hashes: hashes(entry), lone: None }).collect(),
            conns: Vec::with_capacity(scenario.workload.senders()),
            openers: Vec::with_capacity(scenario.workload.connections()),
            series,
            uplinks: uplinks(scenario, topology),
        }
    }

    /// Returns the sender at an end of a connection.
    pub fn sender_at(&self, conn: u32, end: End) -> u32 {
        self.openers[conn as usize] + u32::from(end == End::Accepter)
    }

    /// Returns the connection to which a sender belongs, and the end at which its data arrives.
    pub fn receiver_of(&self, sender: u32) -> (u32, End) {
        let conn = self.conns[sender as usize].connection;
        (conn, if self.openers[conn as usize] == sender { End::Accepter } else { End::Opener })
    }

    /// Opens the next connection of the applications, for a row.
    pub fn open(&mut self, now: Time, row: u32, net: &mut impl Net) {
        let entry = &self.entries[row as usize];
        let (connection, backward) = (self.openers.len() as u32, entry.receiver_opens());
        let opener = self.add(row, backward, None, connection, net);
        self.openers.push(opener);
        self.conns[opener as usize].sender.open(now);
        if entry.answers() {
            let hash = self.conns[opener as usize].full.flow_hash();
            self.add(row, !backward, Some(hash), connection, net);
            // On other connections the write that follows at the same time sends the SYN.
            self.transmit_now(now, opener, net);
        }
    }

    /// Writes an application's data at an end of a connection.
    pub fn write(&mut self, now: Time, conn: u32, end: End, data: Data, net: &mut impl Net) {
        let index = self.sender_at(conn, end);
        if end == End::Accepter {
            self.accept(now, self.openers[conn as usize], index, net);
        }
        let Conn { sender, endless, .. } = &mut self.conns[index as usize];
        match data {
            Data::Bytes(bytes) => {
                sender.write(bytes);
            }
            // The sender has endless data, so no message waits: the next segment contains the message.
            Data::Message(_) | Data::Last(_) if *endless => return net.expect(index, sender.sent() + 1, false),
            Data::Message(bytes) | Data::Last(bytes) => {
                let target = sender.write(bytes);
                net.expect(index, target, matches!(data, Data::Last(_)));
            }
            Data::Endless => {
                *endless = true;
                sender.write_forever();
            }
        }
        self.transmit_now(now, index, net);
    }

    /// Discards the data of an application that has not been sent yet.
    pub fn stop(&mut self, conn: u32, end: End) {
        let index = self.sender_at(conn, end);
        self.conns[index as usize].sender.stop();
    }

    /// Returns the acknowledged payload in bytes, as if all segments were full.
    pub fn acked(&self, conn: u32, end: End) -> u64 {
        let Conn { sender, full, header, .. } = &self.conns[self.sender_at(conn, end) as usize];
        u64::from(sender.acked()) * u64::from(full.ip_bytes() - header)
    }

    /// Returns an echo request or a datagram of a row.
    pub fn lone(&mut self, row: u32, bytes: u32, kind: u8, net: &mut impl Net) -> Packet {
        let conn = match self.rows[row as usize].lone {
            Some(conn) => conn,
            None => {
                let conn = self.add(row, false, None, NO_CONNECTION, net);
                self.rows[row as usize].lone = Some(conn);
                conn
            }
        };
        let full = &self.conns[conn as usize].full;
        let (hash, dscp, lane) = (full.flow_hash(), full.dscp(), full.lane() as u16);
        let bits = self.entries[row as usize].ecn as u8;
        Packet::from(Parts { conn, hash, dscp, bytes: bytes as u16, lane, kind, bits, ..Parts::default() })
    }

    /// Prepares an accepter's sender for its first data. It gets the RTT and the ECN state that its receiver knows from
    /// the handshake.
    fn accept(&mut self, now: Time, opener: u32, conn: u32, net: &impl Net) {
        if self.conns[conn as usize].sender.is_established() {
            return;
        }
        let asking = &self.conns[opener as usize];
        let (rtt, ecn) = (net.handshake_rtt(opener), asking.sender.has_ecn());
        let tunes = self.entries[asking.entry as usize].tcp.rmem.is_some();
        let back = if tunes { Span::from_micros(u64::from(asking.full.rtt_us())) } else { Span::ZERO };
        let answering = &mut self.conns[conn as usize];
        if let Some(rtt) = rtt {
            answering.full = answering.full.with_rtt(rtt - back);
        }
        answering.sender.establish(now, rtt);
        if !ecn {
            answering.sender.forgo_ecn();
            answering.follow_ecn();
        }
    }

    /// Handles an ACK with options, or a FIN, that reaches its data sender.
    #[inline(always)]
    pub fn receive(&mut self, now: Time, packet: Packet, options: &AckOptions, net: &mut impl Net) {
        let conn = &mut self.conns[packet.conn() as usize];
        if let Some(left) = options.left {
            let window = if options.window == u32::MAX { conn.rwnd } else { options.window };
            match conn.ts_recent.validate(now, &Ack { window, ..packet.ack() }, left, &conn.sender) {
                Age::Discarded if packet.code() == ACK => return,
                Age::New if options.window != u32::MAX => {
                    conn.rwnd = options.window;
                    conn.full = conn.full.with_rtt(since(now, left));
                    conn.answered = None;
                }
                _ => {}
            }
        }
        self.acknowledge(now, packet.conn(), packet.ack(), options.blocks(), net);
        if packet.code() == CLOSING {
            self.finish(now, packet.conn(), net);
        }
    }

    /// Closes the connection at this end, after the other end has closed it.
    #[cold]
    #[inline(never)]
    fn finish(&mut self, now: Time, conn: u32, net: &mut impl Net) {
        self.conns[conn as usize].sender.finish();
        self.transmit_now(now, conn, net);
    }

    /// Handles an ACK that reaches its data sender.
    #[inline(always)]
    pub fn acknowledge(&mut self, now: Time, index: u32, ack: Ack, blocks: &[Block], net: &mut impl Net) {
        let conn = &mut self.conns[index as usize];
        let acked = conn.sender.on_ack(now, &Ack { window: conn.rwnd, ..ack }, blocks);
        let entry = conn.entry;
        let packets = self.transmit(now, index, net);
        net.meter(entry).round(now, acked.payload, acked.rtt, packets);
    }

    /// Handles the expiry of a sender's timer.
    pub fn on_timer(&mut self, now: Time, conn: u32, net: &mut impl Net) {
        if self.conns[conn as usize].sender.on_timer(now) {
            self.transmit_now(now, conn, net);
        } else {
            self.follow(now, conn, net);
        }
    }

    /// Prefetches the state that the next ACK of a connection needs. `repairs` means that the ACK has SACK blocks.
    #[inline]
    pub fn prefetch(&self, conn: u32, repairs: bool) {
        let conn = &self.conns[conn as usize];
        Processor.fetch(&conn.entry);
        conn.sender.prefetch(&Processor);
        if repairs {
            conn.sender.prefetch_recovery(&Processor);
        }
    }

    /// Prefetches the state of segment `seq`, to which the state of [`Senders::prefetch`] points.
    #[inline]
    pub fn prefetch_segment(&self, conn: u32, seq: u32, repairs: bool) {
        let sender = &self.conns[conn as usize].sender;
        sender.prefetch_first(seq, &Processor);
        if repairs {
            sender.prefetch_scoreboard(&Processor);
        }
    }

    /// Returns the counters of all senders together.
    pub fn counters(&self) -> Counters {
        let mut all = Counters::default();
        self.conns.iter().for_each(|conn| all += conn.ts_recent.counters());
        all
    }

    /// Returns the row of a connection.
    #[inline]
    pub fn entry(&self, conn: u32) -> usize {
        self.conns[conn as usize].entry as usize
    }

    /// Returns the time at which the sender's timer expires.
    #[inline]
    pub fn deadline(&self, conn: u32) -> Time {
        self.conns[conn as usize].sender.next_event()
    }

    /// Returns the next deadline, after the time for which the timer was armed has passed. The engine arms the timer
    /// for this deadline.
    pub fn next_deadline(&mut self, conn: u32) -> Time {
        let conn = &mut self.conns[conn as usize];
        conn.armed = conn.sender.next_event();
        conn.armed
    }

    /// Sends the segments that TCP allows now, like `transmit`. For callers outside of the hot path.
    #[inline(never)]
    pub fn transmit_now(&mut self, now: Time, index: u32, net: &mut impl Net) {
        let packets = self.transmit(now, index, net);
        if packets > 0 {
            net.meter(self.conns[index as usize].entry).sent(now, packets);
        }
    }

    /// Sends the segments that TCP allows now. Returns their number.
    #[inline(always)]
    fn transmit(&mut self, now: Time, index: u32, net: &mut impl Net) -> u64 {
        let conn = &mut self.conns[index as usize];
        let Some(run) = conn.sender.take_full(now) else { return self.transmit_singly(now, index, net) };
        let (packets, full) = (u64::from(run.count()), conn.full);
        if run.pushes() {
            emit_bursts(full.sent_at(now), &run, net);
        } else if packets > 0 {
            net.emit_run(full.sent_at(now), run.segments, Packet::numbered);
        }
        self.follow(now, index, net);
        packets
    }

    /// Like [`Senders::transmit`], one segment at a time.
    #[inline(never)]
    fn transmit_singly(&mut self, now: Time, index: u32, net: &mut impl Net) -> u64 {
        let conn = &mut self.conns[index as usize];
        let mut packets = 0;
        while let Some(segment) = conn.sender.poll_transmit(now) {
            let bytes = conn.header + segment.payload as u16;
            let whole = bytes >= conn.full.ip_bytes();
            let fin = segment.payload == 0 && !segment.syn;
            let mut bits = Packet::sent_with(if segment.ect { conn.full.ecn() } else { Ecn::NotEct });
            bits |= if segment.cwr { CWR } else { 0 } | if whole { FULL } else { 0 };
            bits |= if segment.push { PSH } else { 0 };
            let (kind, bytes) = match (segment.syn, segment.retransmit) {
                (true, _) => (SYN, SYN_BYTES),
                (false, true) => (RETRANSMIT, bytes),
                (false, false) => (DATA, bytes),
            };
            packets += 1;
            if let Some(at) =
                self.uplinks.get_mut(conn.full.lane()).and_then(|uplink| uplink.pass(now, u32::from(bytes)))
            {
                conn.sender.departs(at, segment.payload);
            }
            let stamped = conn.sender.stamped_at(now, &segment);
            let full = if segment.retransmit {
                net.meter(conn.entry).retransmit(now);
                let tunes = self.entries[conn.entry as usize].tcp.rmem.is_some();
                conn.full_for_retransmit(now, if tunes { stamped.since(now) } else { Span::ZERO })
            } else {
                conn.full
            };
            let packet = full.formed(bytes, bits, kind).sent_at(stamped).at(now).numbered(segment.seq);
            net.emit(if fin { packet.finishing() } else { packet });
        }
        self.follow(now, index, net);
        packets
    }

    /// Samples the state of a sender that has acted, and arms its timer.
    #[inline(always)]
    fn follow(&mut self, now: Time, index: u32, net: &mut impl Net) {
        let Conn { sender, entry, armed, .. } = &mut self.conns[index as usize];
        if self.series {
            let (srtt, window) = (sender.srtt().unwrap_or_default(), sender.offered());
            net.meter(*entry).state(now, sender.cwnd(), srtt, sender.inflight(), window);
        }
        net.arm(index, sender.next_event(), armed);
    }

    /// Handles the reply to an echo request, which reaches its sender.
    pub fn receive_echo_reply(&self, now: Time, packet: Packet, net: &mut impl Net) {
        net.meter(self.conns[packet.conn() as usize].entry).rtt(now, since(now, packet.ts()));
    }

    /// Handles a SYN-ACK that reaches the opener. Returns the connection if it was not established before. The caller
    /// then calls [`Senders::transmit_now`], which sends the data that waits.
    pub fn receive_syn_ack(&mut self, now: Time, packet: Packet, net: &mut impl Net) -> Option<u32> {
        let conn = &mut self.conns[packet.conn() as usize];
        let fresh = !conn.sender.is_established();
        let entry = conn.entry;
        let tcp = &self.entries[entry as usize].tcp;
        let window = tcp.first_window();
        let ack = Ack { ts_first: packet.ts(), ts_last: packet.ts(), window, syn: true, ..Ack::default() };
        let acked = conn.sender.on_ack(now, &ack, &[]);
        conn.follow_ecn();
        if let Some(rtt) = acked.rtt {
            conn.full = conn.full.with_rtt(packet.way(now));
            conn.answered = Some(stamp(now));
            net.meter(entry).rtt(now, rtt);
        }
        if let Some(uplink) = self.uplinks.get_mut(conn.full.lane()) {
            uplink.pass(now, u32::from(conn.header));
        }
        let ecn = if conn.sender.has_ecn() { tcp.ect_of_acks() } else { Ecn::NotEct };
        net.emit(conn.full_for_retransmit(now, Span::ZERO).opening(conn.header, ecn).sent_at(now));
        fresh.then_some(conn.connection)
    }

    /// Adds a sender and its receiver. `backward` means that its data flows against the direction of the row.
    fn add(&mut self, row: u32, backward: bool, hash: Option<u32>, connection: u32, net: &mut impl Net) -> u32 {
        let entry = &self.entries[row as usize];
        let lane = self.topology.class_of[row as usize] as u16 * 2 + u16::from(backward);
        let new = || flow_hash(row, entry, (self.rows[row as usize].hashes.next_u32() >> 16) as u16);
        let hash = hash.or(entry.tunnel).unwrap_or_else(new);
        let dscp = entry.dscp;
        let Config { header, mss, rwnd, .. } = entry.tcp;
        let header = header as u16;
        let conn = self.conns.len() as u32;
        let bits = FULL | Packet::sent_with(entry.tcp.ect());
        let bytes = header + mss as u16;
        let full = Packet::from(Parts { conn, hash, dscp, bytes, lane, kind: DATA, bits, ..Parts::default() });
        net.open(&entry.tcp, &full, row);
        let seed = u64::from(hash) << 32 | u64::from(conn);
        // No packet waits in a host without a link of its own.
        let tsq = entry.tcp.tsq.filter(|_| !self.uplinks.is_empty());
        let sender = Sender::new(&Config { seed, tsq, ..entry.tcp });
        let (armed, answered, endless) = (Time::NEVER, None, false);
        let ts_recent = TsRecent::default();
        self.conns.push(Conn {
            sender,
            entry: row,
            full,
            header,
            endless,
            rwnd,
            armed,
            connection,
            answered,
            ts_recent,
        });
        conn
    }
}

/// Emits a run of segments some of which have PSH.
#[inline(never)]
fn emit_bursts(full: Packet, run: &Run, net: &mut impl Net) {
    net.emit_run(full, run.segments.clone(), |packet, number| packet.numbered(number).pushed(run.is_pushed(number)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux `tcp_synack_rtt_meas`: the receiver measures the RTT of the handshake until the first arrival.
    #[test]
    fn a_first_segment_that_is_sent_again_carries_the_time_since_the_handshake() {
        let (rtt, at) = (Span::from_millis(100), Time::ZERO + Span::from_secs(1));
        let mut sender = Sender::new(&Config::default());
        sender.establish(at, Some(rtt));
        sender.write(14_480);
        while sender.poll_transmit(at).is_some() {}
        let full = Packet::from(Parts { kind: DATA, ..Parts::default() }).with_rtt(rtt);
        let (armed, ts_recent) = (Time::NEVER, TsRecent::default());
        let mut conn = Conn {
            full,
            sender,
            entry: 0,
            rwnd: 9,
            connection: 0,
            header: 52,
            endless: false,
            armed,
            answered: None,
            ts_recent,
        };
        let later = at + Span::from_millis(300);
        assert_eq!(
            conn.full_for_retransmit(later, Span::ZERO).rtt_us(),
            100_000,
            "the accepter's sender has no SYN-ACK"
        );
        conn.answered = Some(stamp(at));
        let ahead = Span::from_millis(5);
        assert_eq!(
            [Span::ZERO, ahead].map(|ahead| conn.full_for_retransmit(later, ahead).rtt_us()),
            [400_000, 405_000]
        );
        conn.sender.on_ack(
            later,
            &Ack { cum: 1, ts_first: stamp(at), ts_last: stamp(at), window: 9, ..Ack::default() },
            &[],
        );
        assert_eq!(conn.full_for_retransmit(later, Span::ZERO).rtt_us(), 100_000, "something has arrived");
    }
}
