//! The data senders of all connections and the applications above them. Both engines drive this one.

mod clients;
mod rpm;

use std::ops::Range;

use sojourn_core::cache::Cache;
use sojourn_core::packet::{Ecn, Packet as _};
use sojourn_core::rng::Rng;
use sojourn_core::tcp::{Ack, Block, Config, Run, Sender};
use sojourn_core::units::{Span, Time};
use sojourn_measure::FlowMeter;
use sojourn_model::scenario::{Access, Scenario};
use sojourn_model::workload::ideal::{Ideal, Task};
use sojourn_model::workload::page::{Browser, Browsing};
use sojourn_model::workload::rpm::{Rpm, Tester};
use sojourn_model::workload::stream::{Stream, Transport};
use sojourn_model::workload::video::{self, Seen, Video};
use sojourn_model::workload::{App, Entry, Exchange};

use crate::access::AccessLink;
use crate::ends::{SYN_BYTES, Told};
use crate::flow_hash::flow_hash;
use crate::packet::{ACK, CLOSING, CWR, DATA, DATAGRAM, FULL, PING, PSH, Packet, Parts, RETRANSMIT, SYN, since, stamp};
use crate::prefetch::Processor;
use crate::topology::Topology;

use rpm::Dial;

/// What the applications do at a time; equal times are ordered by these numbers, never by who asked first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// An entry's next own act: its start, a write, a ping, an arrival, a window's start or stop.
    Act(u32),
    /// A transfer is complete at its receiver.
    Complete(u32),
    /// The client of web exchange number … sends its next request.
    Request(u32),
    /// The server answers.
    Respond(u32),
}

/// The network as the hosts see it.
pub trait Net {
    /// A packet leaves a data sender at `packet.time`.
    fn emit(&mut self, packet: Packet);
    /// Packets that are made from this one by their numbers leave a data sender at once.
    #[inline]
    fn emit_run(&mut self, packet: Packet, numbers: Range<u32>, make: impl Fn(Packet, u32) -> Packet) {
        for number in numbers {
            self.emit(make(packet, number));
        }
    }
    /// The meter of an entry.
    fn meter(&mut self, entry: u32) -> &mut FlowMeter;
    /// Asks for [`Hosts::act`] at a time.
    fn post(&mut self, at: Time, event: Event);
    /// The sender's timer may have moved; `deadline` is its time now, `told` the one that the network looks for so far.
    fn arm(&mut self, conn: u32, deadline: Time, told: &mut Time);
    /// Makes the receiving end of the next connection, of whose data `full` is a segment; `closes`: which ends it when it has got
    /// one transfer.
    fn open(&mut self, config: &Config, full: &Packet, entry: u32, closes: bool);
    /// Asks for one more [`Event::Complete`] when the receiver has everything below this segment; in order.
    fn expect(&mut self, conn: u32, target: u32);
    /// The receiving end of a connection closes it.
    fn close(&mut self, now: Time, conn: u32);
    /// The RTT of a connection's handshake, as its accepter knows it.
    fn shaken(&self, conn: u32) -> Option<Span>;
}

// What a sender has fetched beforehand is counted in lines.
const _: () = assert!(std::mem::offset_of!(Conn, sender).is_multiple_of(sojourn_core::cache::LINE));

/// A connection at its data sender, on whole lines of a cache; those that every ACK needs come first.
#[repr(C, align(64))]
struct Conn {
    /// A full segment of it.
    full: Packet,
    entry: u32,
    rwnd: u32,
    /// Index into [`Hosts::webs`] (of a test of responsiveness into [`Hosts::dials`]), or `NO_WEB`.
    web: u32,
    header: u16,
    /// The deadline that the engine was told last.
    told: Time,
    sender: Sender,
    /// When its transfer (or exchange) began.
    started: Time,
    /// Bytes of its transfer.
    size: u64,
    /// When the handshake's answer came, as [`stamp`] has it; none if another connection shook hands for it.
    answered: Option<u32>,
}

impl Conn {
    /// Who forgoes ECN, because its SYN was lost, sends nothing more that could be marked.
    fn follow_ecn(&mut self) {
        if !self.sender.has_ecn() {
            self.full = self.full.without_ecn();
        }
    }

    /// A full segment again, while nothing is known to have arrived since the handshake. For Linux's receiver that lasts until something
    /// does (`tcp_synack_rtt_meas`): its RTT is longer by what has passed. So is that of one that tunes its window, where the segment is
    /// stamped so much `ahead`: it adds what has passed since then.
    fn full_again(&self, now: Time, ahead: Span) -> Packet {
        let waited = self.answered.filter(|_| self.sender.acked() == 0).map_or(Span::ZERO, |at| since(now, at));
        match self.full.rtt_us() {
            told if told > 0 => self.full.telling(Span::from_micros(u64::from(told)) + waited + ahead),
            _ => self.full,
        }
    }
}

const NO_WEB: u32 = u32::MAX;

/// A web connection: two connections that share a handshake, requests one way and responses the other. A client that chooses
/// as it goes adds its exchanges one by one.
struct Web {
    exchanges: Vec<Exchange>,
    /// The exchange under way.
    at: usize,
    request: u32,
    response: u32,
    started: Time,
}

/// The state of an entry's application.
struct Player {
    /// How far it is in its list.
    at: u32,
    /// The window of a stream that is under way.
    window: usize,
    /// What an empty path would have for it: an index into [`Hosts::ideals`].
    ideal: u32,
    /// Its connection, if it has a lasting one.
    conn: u32,
    /// Hashes of new connections.
    hashes: Rng,
    started: u32,
    completed: u32,
    client: Option<Box<Client>>,
}

/// A client that chooses what it asks for as it goes.
enum Client {
    /// Of pages, with the connection (index into [`Hosts::webs`]) that brought the main object.
    Reader(Browser, u32),
    /// Of a video, with its connection.
    Viewer(video::Player, u32),
    /// Of responsiveness, with the connections that carry load (indices into [`Hosts::dials`]).
    Tester(Tester, Vec<u32>),
}

/// The links on which connections wait in their own hosts, if anybody looks.
fn uplinks(scenario: &Scenario, topology: &Topology) -> Vec<AccessLink> {
    let looks = scenario.workload.entries.iter().any(|entry| entry.tcp.tsq.is_some());
    let Some(access) = scenario.access.as_ref().filter(|_| looks) else { return Vec::new() };
    let link = AccessLink::new(&Access { delay: Span::ZERO, ..access.clone() });
    vec![link; topology.lanes.len()]
}

/// Room for so many connections is made beforehand, for more as they come.
const MOST_BEFOREHAND: usize = 1 << 16;

/// How many connections a run will have, as far as that is known beforehand: many thousands would else be moved whenever there
/// is no room for one more. No more than `MOST_BEFOREHAND`: of millions of arrivals most may never get their turn.
pub fn connections(scenario: &Scenario) -> usize {
    let of = |entry: &Entry| match &entry.app {
        App::Web { connections } => 2 * connections.len(),
        App::Sizes { arrivals, .. } => arrivals.len(),
        _ => 1,
    };
    scenario.workload.entries.iter().map(of).sum::<usize>().min(MOST_BEFOREHAND)
}

/// All data senders and applications.
pub struct Hosts<'a> {
    entries: &'a [Entry],
    /// What an empty path would have, of neighbours that share it once.
    ideals: Vec<Ideal>,
    end: Time,
    topology: &'a Topology,
    players: Vec<Player>,
    conns: Vec<Conn>,
    webs: Vec<Web>,
    dials: Vec<Dial>,
    /// Of each group: transfers active, and the entries and sizes that wait.
    groups: Vec<GroupState>,
    series: bool,
    /// The hosts' own links, by lane, as far as what waits there is bounded: only what this host sends passes them here.
    uplinks: Vec<AccessLink>,
}

#[derive(Default)]
struct GroupState {
    max_active: usize,
    active: usize,
    waiting: std::collections::VecDeque<(u32, u64)>,
}

impl<'a> Hosts<'a> {
    /// The hosts of a run, nothing started. `series` asks for samples of cwnd and srtt.
    pub fn new(scenario: &'a Scenario, topology: &'a Topology, series: bool) -> Hosts<'a> {
        let entries = &scenario.workload.entries[..];
        let mut ideals: Vec<Ideal> = Vec::new();
        let mut ideal = |entry: &Entry| {
            let ideal = Ideal::of(scenario, entry);
            if ideals.last() != Some(&ideal) {
                ideals.push(ideal);
            }
            ideals.len() as u32 - 1
        };
        let player = |entry: &Entry| Player {
            at: 0,
            window: 0,
            ideal: ideal(entry),
            conn: u32::MAX,
            hashes: Rng::stream(scenario.seed, &format!("hash {}", entry.name)),
            started: 0,
            completed: 0,
            client: match &entry.app {
                App::Pages(_) => Some(Box::new(Client::Reader(Browser::default(), NO_WEB))),
                App::Video(video) => Some(Box::new(Client::Viewer(video::Player::new(video), NO_WEB))),
                App::Rpm(rpm) => {
                    let rng = Rng::stream(scenario.seed, &format!("probes {}", entry.name));
                    Some(Box::new(Client::Tester(Tester::new(rpm, rng), Vec::new())))
                }
                _ => None,
            },
        };
        let group = |g: &sojourn_model::workload::Group| GroupState { max_active: g.max_active, ..Default::default() };
        let players = entries.iter().map(player).collect();
        Hosts {
            entries,
            ideals,
            end: scenario.duration,
            topology,
            players,
            conns: Vec::with_capacity(connections(scenario)),
            webs: Vec::new(),
            dials: Vec::new(),
            groups: scenario.workload.groups.iter().map(group).collect(),
            series,
            uplinks: uplinks(scenario, topology),
        }
    }

    /// Posts the first act of every entry.
    pub fn start(&mut self, net: &mut impl Net) {
        for (index, entry) in self.entries.iter().enumerate() {
            let first = match &entry.app {
                App::Bulk { active } => active.first().map(|window| window.0),
                App::Download { start, stop, .. } | App::Thin { start, stop, .. } | App::Pings { start, stop, .. } => {
                    (start < stop).then_some(*start)
                }
                App::Pages(Browsing { start, stop, .. })
                | App::Video(Video { start, stop, .. })
                | App::Rpm(Rpm { start, stop, .. }) => (start < stop).then_some(*start),
                App::Stream(stream) => stream.active.first().map(|window| window.0),
                App::Web { connections } => connections.first().map(|connection| connection.start),
                App::Sizes { arrivals, .. } => arrivals.first().map(|arrival| arrival.0),
            };
            if let Some(at) = first {
                net.post(at, Event::Act(index as u32));
            }
        }
    }

    /// What an entry began then is done: its meter is told, beside how long an empty path would have taken.
    fn count_completed(&mut self, now: Time, entry: u32, started: Time, task: Task, net: &mut impl Net) {
        let player = &mut self.players[entry as usize];
        player.completed += 1;
        let ideal = &self.ideals[player.ideal as usize];
        net.meter(entry).completed(now, now.since(started), ideal.time(task));
    }

    /// A packet reaches a data sender's host: an ACK, perhaps with a FIN, a SYN-ACK, the reply to a ping.
    #[inline(always)]
    pub fn receive(&mut self, now: Time, packet: Packet, told: &Told, net: &mut impl Net) {
        if !matches!(packet.code(), ACK | CLOSING) {
            return self.receive_reply(now, packet, net);
        }
        let conn = &mut self.conns[packet.conn() as usize];
        if told.window != u32::MAX {
            conn.rwnd = told.window;
            conn.full = conn.full.telling(since(now, told.left));
            conn.answered = None;
        }
        self.acknowledge(now, packet.conn(), packet.ack(), told.blocks(), net);
        if packet.code() == CLOSING {
            self.finish(now, packet.conn(), net);
        }
    }

    /// The other end has closed the connection: so does this one.
    #[cold]
    #[inline(never)]
    fn finish(&mut self, now: Time, conn: u32, net: &mut impl Net) {
        self.conns[conn as usize].sender.finish();
        self.transmit_now(now, conn, net);
    }

    /// An ACK reaches its data sender.
    #[inline(always)]
    pub fn acknowledge(&mut self, now: Time, index: u32, ack: Ack, blocks: &[Block], net: &mut impl Net) {
        let conn = &mut self.conns[index as usize];
        let acked = conn.sender.on_ack(now, &Ack { window: conn.rwnd, ..ack }, blocks);
        let entry = conn.entry;
        let packets = self.transmit(now, index, net);
        net.meter(entry).round(now, acked.payload, acked.rtt, packets);
    }

    /// The retransmission timer of a connection.
    pub fn on_timer(&mut self, now: Time, conn: u32, net: &mut impl Net) {
        if self.conns[conn as usize].sender.on_timer(now) {
            self.transmit_now(now, conn, net);
        } else {
            self.follow(now, conn, net);
        }
    }

    /// An application's time has come.
    pub fn act(&mut self, now: Time, event: Event, net: &mut impl Net) {
        match event {
            Event::Act(entry) => self.next_act(now, entry, net),
            Event::Complete(conn) => self.complete(now, conn, net),
            Event::Request(web) => self.request(now, web, net),
            Event::Respond(web) => self.respond(now, web, net),
        }
    }

    /// Transfers begun and not complete, by entry.
    pub fn unfinished(&self) -> Vec<u64> {
        self.players.iter().map(|player| u64::from(player.started - player.completed)).collect()
    }

    /// Of each video that does not move at the end of the run: its entry, since when, and for how long.
    pub fn standing_still(&self) -> Vec<(u32, Time, Seen)> {
        let viewers = (0..).zip(&self.players).filter_map(|(entry, player)| match player.client.as_deref()? {
            Client::Viewer(viewer, _) => viewer.clone().finish(self.end).map(|(at, seen)| (entry, at, seen)),
            Client::Reader(..) | Client::Tester(..) => None,
        });
        viewers.collect()
    }

    /// Fetches what the next ACK of a connection needs; `repairs`: one with SACK blocks.
    #[inline]
    pub fn warm(&self, conn: u32, repairs: bool) {
        let conn = &self.conns[conn as usize];
        Processor.fetch(&conn.entry);
        conn.sender.prefetch(&Processor);
        if repairs {
            conn.sender.prefetch_recovery(&Processor);
        }
    }

    /// The same of what lies behind that, of the segment `seq`.
    #[inline]
    pub fn warm_first(&self, conn: u32, seq: u32, repairs: bool) {
        let sender = &self.conns[conn as usize].sender;
        sender.prefetch_first(seq, &Processor);
        if repairs {
            sender.prefetch_scoreboard(&Processor);
        }
    }

    /// The entry of a connection.
    #[inline]
    pub fn entry(&self, conn: u32) -> usize {
        self.conns[conn as usize].entry as usize
    }

    /// The sender's own deadline.
    #[inline]
    pub fn deadline(&self, conn: u32) -> Time {
        self.conns[conn as usize].sender.next_event()
    }

    /// The deadline that was told last has passed: this is the next.
    pub fn renew(&mut self, conn: u32) -> Time {
        let conn = &mut self.conns[conn as usize];
        conn.told = conn.sender.next_event();
        conn.told
    }

    /// Sends what TCP allows now, outside the hot path.
    #[inline(never)]
    fn transmit_now(&mut self, now: Time, index: u32, net: &mut impl Net) {
        let packets = self.transmit(now, index, net);
        if packets > 0 {
            net.meter(self.conns[index as usize].entry).sent(now, packets);
        }
    }

    /// Sends what TCP allows now; gives the number of packets.
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

    /// The same, one segment after the other.
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
            if let Some(at) = self.uplinks.get_mut(conn.full.lane()).and_then(|uplink| uplink.pass(now, bytes)) {
                conn.sender.departs(at, segment.payload);
            }
            let stamped = conn.sender.stamped_at(now, &segment);
            let full = if segment.retransmit {
                net.meter(conn.entry).retransmit(now);
                let tunes = self.entries[conn.entry as usize].tcp.rmem.is_some();
                conn.full_again(now, if tunes { stamped.since(now) } else { Span::ZERO })
            } else {
                conn.full
            };
            let packet = full.formed(bytes, bits, kind).sent_at(stamped).at(now).numbered(segment.seq);
            net.emit(if fin { packet.finishing() } else { packet });
        }
        self.follow(now, index, net);
        packets
    }

    /// After a sender acted: its state for the series, and its timer.
    #[inline(always)]
    fn follow(&mut self, now: Time, index: u32, net: &mut impl Net) {
        let Conn { sender, entry, told, .. } = &mut self.conns[index as usize];
        if self.series {
            let (srtt, window) = (sender.srtt().unwrap_or_default(), sender.offered());
            net.meter(*entry).state(now, sender.cwnd(), srtt, sender.inflight(), window);
        }
        net.arm(index, sender.next_event(), told);
    }

    #[cold]
    fn receive_reply(&mut self, now: Time, packet: Packet, net: &mut impl Net) {
        let entry = self.conns[packet.conn() as usize].entry;
        if packet.code() == PING {
            return net.meter(entry).rtt(now, since(now, packet.ts()));
        }
        let conn = &mut self.conns[packet.conn() as usize];
        let fresh = !conn.sender.is_established();
        let window = self.entries[entry as usize].tcp.first_window();
        let ack = Ack { ts_first: packet.ts(), ts_last: packet.ts(), window, syn: true, ..Ack::default() };
        let acked = conn.sender.on_ack(now, &ack, &[]);
        conn.follow_ecn();
        if let Some(rtt) = acked.rtt {
            conn.full = conn.full.telling(packet.way(now));
            conn.answered = Some(stamp(now));
            net.meter(entry).rtt(now, rtt);
        }
        if let Some(uplink) = self.uplinks.get_mut(conn.full.lane()) {
            uplink.pass(now, conn.header);
        }
        let tcp = &self.entries[entry as usize].tcp;
        let ecn = if conn.sender.has_ecn() { tcp.ect_of_acks() } else { Ecn::NotEct };
        net.emit(conn.full_again(now, Span::ZERO).opening(conn.header, ecn).sent_at(now));
        let web = conn.web;
        if fresh && matches!(self.entries[entry as usize].app, App::Rpm(_)) {
            self.connected(now, web, net);
        } else if fresh && web != NO_WEB {
            net.post(now + self.webs[web as usize].exchanges[0].gap, Event::Request(web));
        }
        self.transmit_now(now, packet.conn(), net);
    }

    fn next_act(&mut self, now: Time, index: u32, net: &mut impl Net) {
        let entry = &self.entries[index as usize];
        let at = self.players[index as usize].at as usize;
        self.players[index as usize].at += 1;
        let next = match &entry.app {
            App::Bulk { active } => {
                self.toggle(now, index, at, net);
                let window = active.get(at.div_ceil(2));
                window.map(|&(start, stop)| if at.is_multiple_of(2) { stop } else { start })
            }
            App::Download { size, .. } => {
                self.transfer(now, index, *size, net);
                None
            }
            App::Thin { bytes, interval, stop, .. } => {
                let conn = self.lasting(now, index, net);
                self.conns[conn as usize].sender.write(u64::from(*bytes));
                self.transmit_now(now, conn, net);
                Some(now + *interval).filter(|at| at < stop)
            }
            App::Pings { bytes, interval, stop, .. } => {
                self.ping(now, index, *bytes, at as u32, net);
                Some(now + *interval).filter(|at| at < stop)
            }
            App::Stream(stream) => {
                self.stream(now, index, stream, at as u32, net);
                stream.after(&mut self.players[index as usize].window, now)
            }
            App::Pages(browsing) => {
                self.read(now, index, browsing, net);
                None
            }
            App::Video(video) => {
                self.watch(now, index, video, net);
                None
            }
            App::Rpm(rpm) => self.probe(now, index, rpm, net),
            App::Web { connections } => {
                self.browse(now, index, connections[at].exchanges.clone(), net);
                connections.get(at + 1).map(|connection| connection.start)
            }
            App::Sizes { arrivals, group } => {
                self.arrival(now, index, arrivals[at].1, *group, net);
                arrivals.get(at + 1).map(|arrival| arrival.0)
            }
        };
        if let Some(at) = next.filter(|&at| at != Time::NEVER) {
            net.post(at, Event::Act(index));
        }
    }

    /// A bulk flow starts (even acts) or stops (odd ones).
    fn toggle(&mut self, now: Time, index: u32, at: usize, net: &mut impl Net) {
        if at.is_multiple_of(2) {
            let conn = self.lasting(now, index, net);
            self.conns[conn as usize].sender.write_forever();
            self.transmit_now(now, conn, net);
        } else {
            let conn = self.players[index as usize].conn;
            self.conns[conn as usize].sender.stop();
        }
    }

    /// The entry's lasting connection, opened on first use.
    fn lasting(&mut self, now: Time, index: u32, net: &mut impl Net) -> u32 {
        if self.players[index as usize].conn == u32::MAX {
            let conn = self.connect(now, index, false, None, NO_WEB, net);
            self.players[index as usize].conn = conn;
            self.conns[conn as usize].sender.open(now);
        }
        self.players[index as usize].conn
    }

    /// A new connection that carries `size` bytes.
    fn transfer(&mut self, now: Time, index: u32, size: u64, net: &mut impl Net) {
        let conn = self.connect(now, index, false, None, NO_WEB, net);
        self.begin(now, index, net);
        self.conns[conn as usize].size = size;
        self.conns[conn as usize].sender.open(now);
        self.write(now, conn, size, net);
    }

    /// A connection's sender writes so much, which is waited for at its receiver.
    fn write(&mut self, now: Time, conn: u32, bytes: u64, net: &mut impl Net) {
        let target = self.conns[conn as usize].sender.write(bytes);
        net.expect(conn, target);
        self.transmit_now(now, conn, net);
    }

    fn begin(&mut self, now: Time, index: u32, net: &mut impl Net) {
        self.players[index as usize].started += 1;
        net.meter(index).started(now);
    }

    /// A transfer arrives, and waits if its group is full.
    fn arrival(&mut self, now: Time, index: u32, size: u64, group: Option<usize>, net: &mut impl Net) {
        if let Some(group) = group {
            let state = &mut self.groups[group];
            if state.active >= state.max_active {
                state.waiting.push_back((index, size));
                return;
            }
            state.active += 1;
        }
        self.transfer(now, index, size, net);
    }

    fn ping(&mut self, now: Time, index: u32, bytes: u32, number: u32, net: &mut impl Net) {
        net.meter(index).sent(now, 1);
        let packet = self.lone(now, index, bytes, PING, net).numbered(number);
        net.emit(packet.sent_at(now));
    }

    /// A packet of a stream, or a write.
    fn stream(&mut self, now: Time, index: u32, stream: &Stream, number: u32, net: &mut impl Net) {
        if stream.transport == Transport::Tcp {
            let conn = self.lasting(now, index, net);
            self.conns[conn as usize].sender.write(u64::from(stream.bytes));
            return self.transmit_now(now, conn, net);
        }
        net.meter(index).sent_datagram(now);
        let packet = self.lone(now, index, stream.bytes, DATAGRAM, net).numbered(number);
        net.emit(packet.stamped(now));
    }

    /// A packet of an entry without TCP.
    fn lone(&mut self, now: Time, index: u32, bytes: u32, kind: u8, net: &mut impl Net) -> Packet {
        if self.players[index as usize].conn == u32::MAX {
            let conn = self.connect(now, index, false, None, NO_WEB, net);
            self.players[index as usize].conn = conn;
        }
        let conn = self.players[index as usize].conn;
        let full = &self.conns[conn as usize].full;
        let (hash, dscp, lane) = (full.flow_hash(), full.dscp(), full.lane() as u16);
        let bits = self.entries[index as usize].ecn as u8;
        Packet::from(Parts { conn, hash, dscp, bytes: bytes as u16, lane, kind, bits, ..Parts::default() })
    }

    /// Everything that was expected on a connection has arrived at its receiver.
    fn complete(&mut self, now: Time, conn: u32, net: &mut impl Net) {
        let Conn { entry, web, started, size, .. } = self.conns[conn as usize];
        if matches!(self.entries[entry as usize].app, App::Rpm(_)) {
            return self.dial_complete(now, conn, web, net);
        }
        if web != NO_WEB {
            return self.web_complete(now, conn, web, net);
        }
        self.count_completed(now, entry, started, Task::Sent(size), net);
        match &self.entries[entry as usize].app {
            App::Download { gaps, stop, .. } => {
                let done = self.players[entry as usize].completed as usize;
                let next = gaps.get(done - 1).map(|&gap| now + gap).filter(|at| at < stop);
                if let Some(at) = next {
                    net.post(at, Event::Act(entry));
                }
            }
            App::Sizes { group: Some(group), .. } => {
                let state = &mut self.groups[*group];
                match state.waiting.pop_front() {
                    Some((index, size)) => self.transfer(now, index, size, net),
                    None => state.active -= 1,
                }
            }
            _ => {}
        }
    }

    /// Makes a connection of an entry; `backward` data runs against the entry's direction (requests).
    fn connect(
        &mut self,
        now: Time,
        index: u32,
        backward: bool,
        hash: Option<u32>,
        web: u32,
        net: &mut impl Net,
    ) -> u32 {
        let entry = &self.entries[index as usize];
        let lane = self.topology.class_of[index as usize] as u16 * 2 + u16::from(backward);
        let new = || flow_hash(index, entry, (self.players[index as usize].hashes.next_u32() >> 16) as u16);
        let hash = hash.or(entry.tunnel).unwrap_or_else(new);
        let dscp = entry.dscp;
        let Config { header, mss, rwnd, .. } = entry.tcp;
        let header = header as u16;
        let conn = self.conns.len() as u32;
        let bits = FULL | Packet::sent_with(entry.tcp.ect());
        let bytes = header + mss as u16;
        let full = Packet::from(Parts { conn, hash, dscp, bytes, lane, kind: DATA, bits, ..Parts::default() });
        let closes = matches!(entry.app, App::Download { .. } | App::Sizes { .. });
        net.open(&entry.tcp, &full, index, closes);
        let seed = u64::from(hash) << 32 | u64::from(conn);
        // Without a link of its own nothing waits in a host.
        let tsq = entry.tcp.tsq.filter(|_| !self.uplinks.is_empty());
        let sender = Sender::new(&Config { seed, tsq, ..entry.tcp });
        let told = Time::NEVER;
        self.conns.push(Conn {
            sender,
            entry: index,
            full,
            header,
            rwnd,
            told,
            started: now,
            web,
            size: 0,
            answered: None,
        });
        conn
    }
}

/// A run leaves of which some have PSH.
#[inline(never)]
fn emit_bursts(full: Packet, run: &Run, net: &mut impl Net) {
    net.emit_run(full, run.segments.clone(), |packet, number| packet.numbered(number).pushed(run.is_pushed(number)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux `tcp_synack_rtt_meas`: what the receiver takes for the handshake's RTT lasts until something arrives.
    #[test]
    fn a_first_segment_that_is_sent_again_tells_what_has_passed_since_the_handshake() {
        let (rtt, at) = (Span::from_millis(100), Time::ZERO + Span::from_secs(1));
        let mut sender = Sender::new(&Config::default());
        sender.establish(at, Some(rtt));
        sender.write(14_480);
        while sender.poll_transmit(at).is_some() {}
        let full = Packet::from(Parts { kind: DATA, ..Parts::default() }).telling(rtt);
        let (told, started) = (Time::NEVER, at);
        let mut conn =
            Conn { full, sender, entry: 0, rwnd: 9, web: NO_WEB, header: 52, told, started, size: 0, answered: None };
        let later = at + Span::from_millis(300);
        assert_eq!(
            conn.full_again(later, Span::ZERO).rtt_us(),
            100_000,
            "of a connection without a handshake of its own"
        );
        conn.answered = Some(stamp(at));
        let ahead = Span::from_millis(5);
        assert_eq!([Span::ZERO, ahead].map(|ahead| conn.full_again(later, ahead).rtt_us()), [400_000, 405_000]);
        conn.sender.on_ack(
            later,
            &Ack { cum: 1, ts_first: stamp(at), ts_last: stamp(at), window: 9, ..Ack::default() },
            &[],
        );
        assert_eq!(conn.full_again(later, Span::ZERO).rtt_us(), 100_000, "something has arrived");
    }
}
