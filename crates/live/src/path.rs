//! The path between the hosts: access links, hops and delays. Frames enter at a port and leave at a port.
//!
//! This module is pure. A port is the cable of one namespace with hosts. The times of arrivals are those at which the
//! kernel received the frames. [`Path::advance`] handles everything up to a time, in order, and may be called late: the
//! result is the same.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use serde_json::{Value, json};
use sojourn_core::access::AccessLink;
use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::Qdisc as _;
use sojourn_core::rng;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_measure::stats::{self, Common};
use sojourn_model::scenario::{QdiscChange, Scenario};
use sojourn_traffic::probe;
use sojourn_traffic::topology::{LEFT, Network, Place, RIGHT, Transmit};

use crate::capture::Capture;
use crate::frame::{self, Facts};
use crate::hop::{Change, Done, Fate, Hop};
use crate::packet::{Packet, Pool};
use crate::senders::Senders;
use crate::truth::Lateness;

/// A frame that leaves the path.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// The port.
    pub port: usize,
    /// The packet, whose frame is in the pool.
    pub packet: Packet,
    /// The time at which it reaches the host.
    pub due: Time,
}

/// Something that happens to a packet at a time.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It enters the path at a port.
    Enter { port: usize },
    /// It arrives at a link. `last` is the last link on its way.
    Arrive { link: usize, last: usize },
    /// It reaches its host.
    Leave,
}

/// An entry of the heap. The earliest comes first; at one time, the one that was posted first.
struct Posted {
    at: Time,
    number: u64,
    packet: Packet,
    step: Step,
}

impl PartialEq for Posted {
    fn eq(&self, other: &Posted) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Posted {}
impl PartialOrd for Posted {
    fn partial_cmp(&self, other: &Posted) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Posted {
    fn cmp(&self, other: &Posted) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// A namespace with hosts, as the path sees it.
struct Port {
    place: Place,
    /// The delay between each host and the path, outward and inward, by the low 16 bits of the left host's address.
    delays: HashMap<u16, [Span; 2]>,
    /// Access links by the same number and direction.
    access: BTreeMap<(u16, bool), AccessLink>,
}

/// The path.
pub struct Path {
    hops: Vec<Hop>,
    ports: Vec<Port>,
    access: Option<sojourn_model::scenario::Access>,
    changes: VecDeque<(Time, usize, Change)>,
    now: Time,
    number: u64,
    heap: BinaryHeap<Posted>,
    /// Packets on their way to their hosts.
    leaves: BinaryHeap<Posted>,
    lookahead: Span,
    pool: Pool,
    leaving: VecDeque<Leaving>,
    senders: Senders,
    records: Vec<u8>,
    done: Done,
    origin: u64,
    counts: Counts,
    /// The counters that all disciplines have, by link.
    commons: Vec<Common>,
    /// Counters for a person who watches, if one does.
    watched: Option<Watched>,
    /// The capture, if there is one.
    capture: Option<Capture>,
}

/// Packets that have passed the links since the start, by link and flow, and the sojourns since the last look.
#[derive(Default)]
struct Watched {
    sojourns: BTreeMap<usize, Lateness>,
    flows: BTreeMap<(usize, u32), Passed>,
    names: BTreeMap<u32, Facts>,
}

/// The packets of a flow at a link.
#[derive(Clone, Copy, Default)]
struct Passed {
    packets: u64,
    bytes: u64,
    drops: u64,
    marks: u64,
    /// The sojourn of the last packet.
    sojourn: Span,
}

/// Frames that no queue of the scenario has seen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Frames that entered the path.
    pub entered: u64,
    /// Frames that left the path.
    pub left: u64,
    /// Frames that are no IP packets of one host to another, such as ARP requests and multicast.
    pub foreign: u64,
    /// Packets for addresses that no host has.
    pub unroutable: u64,
    /// Packets that the queue of an access link had no room for.
    pub access_drops: u64,
    /// Frames that were stamped before the path's time and count as arrived at it.
    pub overtaken: u64,
}

impl Path {
    /// Creates the path of a scenario. `origin` is time zero on the clock of the records.
    pub fn new(scenario: &Scenario, network: &Network, origin: u64) -> Path {
        let hop = |index| {
            let seed = rng::Rng::stream(scenario.seed, &format!("link {}", scenario.link_name(index))).next_u64();
            Hop::new(scenario.link(index), network.mtu, scenario.host.hz, seed)
        };
        let mut changes: Vec<(Time, usize, Change)> = Vec::new();
        for index in 0..scenario.hops.len() * 2 {
            changes.extend(Hop::changes(scenario.link(index)).into_iter().map(|(at, change)| (at, index, change)));
        }
        changes.sort_by_key(|change| change.0);
        let ports = ports(network);
        Path {
            hops: (0..scenario.hops.len() * 2).map(hop).collect(),
            access: scenario.access.clone(),
            changes: changes.into(),
            now: Time::ZERO,
            number: 0,
            heap: BinaryHeap::new(),
            leaves: BinaryHeap::new(),
            lookahead: lookahead(scenario, &ports),
            ports,
            pool: Pool::default(),
            leaving: VecDeque::new(),
            senders: Senders::new(origin),
            records: Vec::new(),
            done: Done::default(),
            origin,
            counts: Counts::default(),
            commons: vec![Common::default(); scenario.hops.len() * 2],
            watched: None,
            capture: None,
        }
    }

    /// From now on, the packets of all links are captured. `epoch` is time zero on the system's clock.
    pub fn capture(&mut self, scenario: &Scenario, epoch: u64) {
        let names: Vec<String> = (0..self.hops.len()).map(|index| scenario.link_name(index)).collect();
        self.capture = Some(Capture::new(&names, epoch));
    }

    /// Takes the bytes of the capture so far, in the format pcapng.
    pub fn take_capture(&mut self) -> Vec<u8> {
        self.capture.as_mut().map_or_else(Vec::new, Capture::take)
    }

    /// From now on, [`Path::state`] has something to tell.
    pub fn watch(&mut self) {
        self.watched = Some(Watched::default());
    }

    /// Returns the state of all links, for a person who watches: cumulative counters, the queue now, and the sojourns
    /// since the last call.
    pub fn state(&mut self) -> Value {
        let Some(watched) = &mut self.watched else { return Value::Null };
        let links = self.hops.iter().zip(&self.commons).enumerate().map(|(index, (hop, common))| {
            let flows = watched.flows.iter().filter(|((link, _), _)| *link == index).map(|((_, flow), passed)| {
                json!({
                    "flow": watched.names.get(flow).map(flow_words),
                    "packets": passed.packets,
                    "bytes": passed.bytes,
                    "drops": passed.drops,
                    "marks": passed.marks,
                    "sojourn_ms": passed.sojourn.as_millis_f64(),
                })
            });
            json!({
                "link": index,
                "qdisc": hop.link().qdisc.to_string(),
                "rate_bps": hop.rate().0,
                "delay_ms": hop.delay().as_millis_f64(),
                "queued": hop.waiting(),
                "backlog": hop.qdisc().backlog(),
                "packets": common.packets,
                "bytes": common.bytes,
                "drops": common.drops,
                "sojourn_us": watched.sojourns.remove(&index).unwrap_or_default().as_json(),
                "flows": flows.collect::<Vec<_>>(),
            })
        });
        json!({ "at_s": self.now.as_secs_f64(), "links": links.collect::<Vec<_>>() })
    }

    /// Changes a link by a line for `tc`: the parameters of its discipline, or another discipline.
    ///
    /// # Errors
    /// There is no such link, or the line is not sound.
    pub fn change_qdisc(&mut self, link: usize, line: &str) -> Result<(), String> {
        let present =
            &self.hops.get(link).ok_or_else(|| format!("link = {link}: there are {}", self.hops.len()))?.link().qdisc;
        let change = match present.changed(line) {
            Ok(change) => QdiscChange::Parameters(change),
            Err(_) => QdiscChange::Discipline(line.parse().map_err(|error| format!("qdisc = {line}: {error}"))?),
        };
        self.change(link, &Change::Qdisc(change))
    }

    /// The namespaces of the ports.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.ports.iter().map(|port| port.place)
    }

    /// The links, by their index in the scenario.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// Counters of frames.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// A frame has arrived at a port, at `at`. It is handled by the next [`Path::advance`] to that time.
    pub fn arrive(&mut self, at: Time, port: usize, frame: &[u8]) {
        let Some(facts) = frame::read(frame).filter(|_| !frame::is_to_many(frame)) else {
            self.counts.foreign += 1;
            return;
        };
        self.counts.entered += 1;
        self.counts.overtaken += u64::from(at < self.now);
        let packet = self.pool.put(frame, facts, flow_hash(&facts));
        self.post(at.max(self.now), packet, Step::Enter { port });
    }

    /// Returns the time at which [`Path::advance`] must be called at the latest for all frames to leave in time. Frames
    /// that arrive at `until` or later are not known yet.
    pub fn next_call(&self, until: Time) -> Time {
        let leave = self.leaves.peek().map_or(Time::NEVER, |posted| posted.at);
        leave.min(self.next_event().min(until) + self.lookahead)
    }

    /// The least time between any event on the path and the leaving of a frame that depends on it.
    pub fn lookahead(&self) -> Span {
        self.lookahead
    }

    /// Time of the next event within the path.
    fn next_event(&self) -> Time {
        let posted = self.heap.peek().map_or(Time::NEVER, |posted| posted.at);
        let change = self.changes.front().map_or(Time::NEVER, |change| change.0);
        self.hops.iter().map(Hop::next_event).min().unwrap_or(Time::NEVER).min(posted).min(change)
    }

    /// Handles everything up to `until`, and this time too.
    ///
    /// # Errors
    /// A discipline does not take a change of the scenario.
    pub fn advance(&mut self, until: Time) -> Result<(), String> {
        loop {
            let at = self.next_event();
            if at > until {
                break;
            }
            self.now = self.now.max(at);
            if self.changes.front().is_some_and(|change| change.0 <= at) {
                let Some((_, link, change)) = self.changes.pop_front() else { break };
                self.change(link, &change)?;
            } else if self.heap.peek().is_some_and(|posted| posted.at <= at) {
                let Some(posted) = self.heap.pop() else { break };
                self.step(posted.packet, posted.step);
            } else {
                let due = |hop: &Hop| hop.next_event() <= at;
                let Some(link) = self.hops.iter().position(due) else { break };
                self.hops[link].event(self.now, &self.pool, &mut self.done);
                self.settle(link);
            }
        }
        self.now = self.now.max(until);
        self.release_due(until);
        Ok(())
    }

    /// Lets the frames leave that are due at `until`, as far as they are known. What happens at the links before that
    /// time is left to [`Path::advance`].
    pub fn release_due(&mut self, until: Time) {
        while self.leaves.peek().is_some_and(|posted| posted.at <= until) {
            let Some(Posted { at, packet, .. }) = self.leaves.pop() else { break };
            self.leave(at, packet);
        }
    }

    /// Changes a link at the path's present time.
    ///
    /// # Errors
    /// The discipline does not take the change.
    pub fn change(&mut self, link: usize, change: &Change) -> Result<(), String> {
        if matches!(change, Change::Rate(Rate(0))) {
            return Err("rate = 0: expected a positive rate; 1bit is as good as an outage".to_owned());
        }
        let count = self.hops.len();
        let hop = self.hops.get_mut(link).ok_or_else(|| format!("link = {link}: there are {count}"))?;
        let changed = hop.change(self.now, change, &self.pool, &mut self.done);
        if let Change::Delay(delay) = change {
            self.lookahead = self.lookahead.min(*delay);
        }
        self.settle(link);
        changed
    }

    /// Takes the next frame that leaves the path and is due by now.
    pub fn next_leaving(&mut self) -> Option<Leaving> {
        self.leaving.pop_front()
    }

    /// The bytes of a frame that leaves.
    pub fn frame(&mut self, leaving: &Leaving) -> &mut [u8] {
        self.pool.frame(&leaving.packet)
    }

    /// Gives up the frame of a packet that has left.
    pub fn release(&mut self, leaving: &Leaving) {
        self.pool.end(&leaving.packet);
    }

    /// Takes the records so far, in the format of [`probe`].
    pub fn take_records(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.records)
    }

    /// Returns the counters of the disciplines at the end of the run, as `tc -s -j qdisc` has them, in the order of the
    /// links.
    pub fn counted(&self) -> Vec<Value> {
        let of = |(hop, common): (&Hop, &Common)| stats::of(&hop.link().qdisc, hop.qdisc(), *common);
        self.hops.iter().zip(&self.commons).map(of).collect()
    }

    /// Ends the run: records the packets that are still queued.
    pub fn finish(&mut self) {
        for link in 0..self.hops.len() {
            let hop = &self.hops[link];
            (self.commons[link].qlen, self.commons[link].backlog) =
                (hop.qdisc().packets() as u64, hop.qdisc().backlog());
            for packet in self.hops[link].take_queued(self.now, &self.pool) {
                let end = self.now;
                self.record(link, &packet, probe::Fate::Queued, end, end);
            }
        }
    }

    fn post(&mut self, at: Time, packet: Packet, step: Step) {
        self.number += 1;
        let heap = if matches!(step, Step::Leave) { &mut self.leaves } else { &mut self.heap };
        heap.push(Posted { at, number: self.number, packet, step });
    }

    fn step(&mut self, packet: Packet, step: Step) {
        match step {
            Step::Enter { port } => self.enter(port, packet),
            Step::Leave => self.leave(self.now, packet),
            Step::Arrive { link, last } => {
                let mut packet = packet;
                packet.last = last;
                self.hops[link].arrive(self.now, packet, &self.pool, &mut self.done);
                self.settle(link);
            }
        }
    }

    /// A packet reaches its host.
    fn leave(&mut self, at: Time, packet: Packet) {
        self.counts.left += 1;
        let records = &mut self.records;
        let tell = |record: probe::Record| records.extend_from_slice(&record.to_bytes());
        self.senders.reaches_host(at, &packet.facts, tell);
        self.leaving.push_back(Leaving { port: packet.to, packet, due: at });
    }

    /// A packet comes from a host: it passes the host's access link, and then the links up to that of its receiver.
    fn enter(&mut self, port: usize, packet: Packet) {
        let Some((first, last, to)) = self.route(port, &packet.facts) else {
            self.counts.unroutable += 1;
            self.pool.end(&packet);
            return;
        };
        let records = &mut self.records;
        let tell = |record: probe::Record| records.extend_from_slice(&record.to_bytes());
        self.senders.leaves_host(self.now, &packet.facts, tell);
        let Some(at) = self.pass_access(self.now, port, true, &packet) else { return };
        let mut packet = packet;
        packet.to = to;
        self.post(at, packet, Step::Arrive { link: first, last });
    }

    /// Returns the first and the last link of a packet's way, and the port of its receiver.
    fn route(&self, port: usize, facts: &Facts) -> Option<(usize, usize, usize)> {
        let second = (facts.hosts[1] >> 16 & 0xff) as usize;
        let to = match facts.hosts[1] >> 24 {
            10 if second >= RIGHT => Place::Right(second - RIGHT),
            10 => Place::Left(second.checked_sub(LEFT)?),
            _ => return None,
        };
        let receiver = self.ports.iter().position(|port| port.place == to)?;
        match (self.ports[port].place, to) {
            (Place::Left(from), Place::Right(to)) if from <= to => Some((from * 2, to * 2, receiver)),
            (Place::Right(from), Place::Left(to)) if to <= from => Some((from * 2 + 1, to * 2 + 1, receiver)),
            _ => None,
        }
    }

    /// Returns the time at which a packet that arrives at `now` has passed the access link of its host at this port. If
    /// the link has no room, the packet ends here.
    fn pass_access(&mut self, now: Time, port: usize, outward: bool, packet: &Packet) -> Option<Time> {
        let number = packet.facts.left_host();
        let Port { delays, access, .. } = &mut self.ports[port];
        let delay = delays.get(&number).map_or(Span::ZERO, |both| both[usize::from(!outward)]);
        let Some(link) = &self.access else { return Some(now + delay) };
        let idle = || AccessLink::new(link.rate, link.delay, link.limit);
        match access.entry((number, outward)).or_insert_with(idle).pass(now, packet.facts.ip_bytes) {
            Some(end) => Some(end + delay),
            None => {
                self.counts.access_drops += 1;
                self.pool.end(packet);
                None
            }
        }
    }

    /// Handles what a link has done: records fates, and sends packets on.
    fn settle(&mut self, link: usize) {
        let mut done = std::mem::take(&mut self.done);
        for (packet, fate) in done.fates.drain(..) {
            let now = self.now;
            match fate {
                Fate::Sent { start, end } => {
                    self.commons[link].packets += 1;
                    self.commons[link].bytes += u64::from(packet.wire);
                    self.record(link, &packet, probe::Fate::Delivered, start, end);
                }
                Fate::Dropped(reason) | Fate::Impaired(reason) => {
                    self.commons[link].drops += u64::from(matches!(fate, Fate::Dropped(_)));
                    self.record(link, &packet, probe::Fate::of(reason), now, now);
                    self.pool.end(&packet);
                }
            }
        }
        for (packet, at) in done.left.drain(..) {
            if link == packet.last {
                if let Some(at) = self.pass_access(at, packet.to, false, &packet) {
                    self.post(at, packet, Step::Leave);
                }
            } else {
                let next = if link.is_multiple_of(2) { link + 2 } else { link - 2 };
                self.post(at, packet, Step::Arrive { link: next, last: packet.last });
            }
        }
        self.done = done;
    }

    fn record(&mut self, link: usize, packet: &Packet, fate: probe::Fate, start: Time, end: Time) {
        let facts = &packet.facts;
        if let Some(watched) = &mut self.watched {
            let passed = watched.flows.entry((link, packet.hash)).or_default();
            if fate == probe::Fate::Delivered {
                passed.sojourn = start.since(packet.arrival);
                passed.packets += 1;
                passed.bytes += u64::from(packet.wire);
                passed.marks += u64::from(facts.tos & 3 == 3 && packet.ecn_in != Ecn::Ce);
                watched.sojourns.entry(link).or_default().add(passed.sojourn);
            } else {
                passed.drops += 1;
            }
            watched.names.entry(packet.hash).or_insert(*facts);
        }
        if let Some(capture) = &mut self.capture {
            capture.packet(link, self.pool.frame(packet), packet.arrival, start.since(packet.arrival), fate);
        }
        let record = probe::Packet {
            link: link as u16,
            fate,
            ecn_in: packet.ecn_in as u8,
            ecn_out: facts.tos & 3,
            flags: facts.flags,
            bytes: packet.wire,
            payload: facts.payload,
            hosts: facts.hosts.map(std::net::Ipv4Addr::from),
            ports: facts.ports,
            protocol: facts.protocol,
            seq: facts.seq,
            ack: facts.ack,
            arrival: self.origin + packet.arrival.0,
            start: self.origin + start.0,
            end: self.origin + end.0,
        };
        self.records.extend_from_slice(&probe::Record::Packet(record).to_bytes());
    }
}

/// Returns the number of a flow, from its addresses, ports and protocol.
pub fn flow_number(facts: &Facts) -> u32 {
    let ports = u32::from(facts.ports[0]) << 16 | u32::from(facts.ports[1]);
    [facts.hosts[0], facts.hosts[1], ports, u32::from(facts.protocol)].into_iter().fold(0, |number, part| {
        // The mixing step of MurmurHash3.
        let part = part.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (number ^ part).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    })
}

/// Returns the hash of a flow: its number, spread over 32 bits as `sojourn replay` does with the numbers of a trace.
fn flow_hash(facts: &Facts) -> u32 {
    flow_number(facts).wrapping_mul(2_654_435_769)
}

/// Returns a flow's addresses and ports as text.
fn flow_words(facts: &Facts) -> String {
    let end = |which: usize| format!("{}:{}", std::net::Ipv4Addr::from(facts.hosts[which]), facts.ports[which]);
    format!("{} > {}", end(0), end(1))
}

/// Returns the least delay between a link and a host behind it, at any time of the run.
fn lookahead(scenario: &Scenario, ports: &[Port]) -> Span {
    let links = (0..scenario.hops.len() * 2).flat_map(|index| scenario.link(index).delay.iter().map(|step| step.1));
    let inward = ports.iter().flat_map(|port| port.delays.values().map(|both| both[1]));
    links.min().unwrap_or(Span::ZERO) + inward.min().unwrap_or(Span::ZERO)
}

/// Returns the namespaces with hosts, and the delays of their hosts.
fn ports(network: &Network) -> Vec<Port> {
    let is_host = |place: &Place| !matches!(place, Place::Router(_));
    let delays = |place: Place| {
        let mut delays: HashMap<u16, [Span; 2]> = HashMap::new();
        for end in network.cables.iter().flatten() {
            let Transmit::Access(_, classes) = &end.transmit else { continue };
            let outward = end.place == place;
            if outward || network.other(end).place == place {
                for class in classes {
                    delays.entry(class.host).or_default()[usize::from(!outward)] = class.delay;
                }
            }
        }
        delays
    };
    let places = network.places.iter().copied().filter(is_host);
    places.map(|place| Port { place, delays: delays(place), access: BTreeMap::new() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::tcp;
    use proptest::prelude::*;
    use sojourn_core::qdisc::tc::Spec;
    use sojourn_model::plan::{LoadOptions, Plan};
    use sojourn_traffic::probe::{Record, Records};

    const ACK: u8 = 0x10;
    /// The left host and the right host of the first flow.
    const HOSTS: [u32; 2] = [0x0a01_0001, 0x0a65_0001];

    fn scenario(hop: &str) -> Scenario {
        let text = format!("duration = \"9s\"\n[[hop]]\n{hop}\n[[flow]]\nkind = \"bulk\"\nrtt = \"40ms\"\n");
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        plan.scenario(0).expect("a sound run")
    }

    fn path(scenario: &Scenario) -> Path {
        Path::new(scenario, &Network::new(scenario), 0)
    }

    /// An arrival: its time, its flow, its payload and its ECN field.
    type Arrival = (u64, u16, usize, u8);

    /// Sends packets from the left host, and advances to each of these times. Returns all records of packets, and the
    /// times at which packets left.
    fn play(path: &mut Path, arrivals: &[Arrival], stops: &[u64]) -> (Vec<probe::Packet>, Vec<u64>) {
        let mut left = Vec::new();
        let mut waiting = arrivals.iter().peekable();
        for stop in stops {
            while let Some((at, flow, payload, ecn)) = waiting.next_if(|arrival| arrival.0 <= *stop) {
                let frame = tcp(HOSTS, [10_000 + flow, 5001], 0, 0, ACK, *payload, *ecn);
                path.arrive(Time(*at), 0, &frame);
            }
            path.advance(Time(*stop)).expect("no change");
            while let Some(leaving) = path.next_leaving() {
                left.push(leaving.due.0);
                path.release(&leaving);
            }
        }
        path.finish();
        let bytes = path.take_records();
        let packets = Records::new(&bytes).expect("records").iter().filter_map(|record| match record {
            Record::Packet(packet) => Some(packet),
            _ => None,
        });
        (packets.collect(), left)
    }

    #[test]
    fn a_packet_takes_its_transmission_and_half_of_the_base_rtt() {
        let scenario = scenario("rate = \"10mbit\"\ndelay = \"5ms\"\nqdisc = \"pfifo\"");
        let mut path = path(&scenario);
        let (packets, left) = play(&mut path, &[(1_000, 0, 1460, 0)], &[100_000_000]);
        // 1514 bytes at 10 Mbit/s take 1211.2 us.
        assert_eq!(left, [1_000 + 1_211_200 + 20_000_000]);
        // The hop's own delays leave 15 ms of each way; one half of this is in front of the hop.
        let there = 1_000 + (20_000_000 - 5_000_000) / 2;
        assert_eq!((packets[0].arrival, packets[0].start, packets[0].end), (there, there, there + 1_211_200));
    }

    const QDISCS: [&str; 7] =
        ["pfifo limit 20", "codel", "fq_codel", "pie", "ccaq", "fq limit 100 flow_limit 30", "red limit 400000"];

    fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
        let one = (0..4_000_000u64, 0..4u16, 1..1460usize, 0..4u8);
        proptest::collection::vec(one, 1..300).prop_map(|mut all| {
            all.iter_mut().fold(0, |now, arrival| {
                arrival.0 = now + arrival.0 / 4_000 * 4_000;
                arrival.0
            });
            all
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_late_advance_changes_nothing(qdisc in 0..QDISCS.len(), arrivals in arrivals(), step in 1..50u64) {
            let scenario = scenario(&format!("rate = \"5mbit\"\nqdisc = \"{}\"", QDISCS[qdisc]));
            let end = 6_000_000_000;
            let often: Vec<u64> = (1..=end / 1_000_000).map(|ms| ms * 1_000_000).collect();
            let seldom: Vec<u64> = (1..=end / 1_000_000 / step + 1).map(|n| n * step * 1_000_000).collect();
            let (first, left) = play(&mut path(&scenario), &arrivals, &often);
            let (second, late) = play(&mut path(&scenario), &arrivals, &seldom);
            prop_assert_eq!(first, second);
            prop_assert_eq!(left, late);
        }

        #[test]
        fn a_replay_of_the_recorded_arrivals_gives_every_packet_the_same_fate(
            qdisc in 0..QDISCS.len(),
            arrivals in arrivals(),
        ) {
            let scenario = scenario(&format!("rate = \"5mbit\"\nqdisc = \"{}\"", QDISCS[qdisc]));
            let (packets, _) = play(&mut path(&scenario), &arrivals, &[20_000_000_000]);
            let seed = rng::Rng::stream(scenario.seed, "link hop0").next_u64();
            let spec: Spec = QDISCS[qdisc].parse().expect("a line");
            prop_assert_eq!(replayed(&packets, &spec, Rate(5_000_000), seed), fates(&packets));
        }
    }

    /// The packets in the order of their arrival: their payload tells packets of one time apart.
    fn in_order(packets: &[probe::Packet]) -> Vec<probe::Packet> {
        let mut packets = packets.to_vec();
        packets.sort_by_key(|packet| packet.arrival);
        packets
    }

    fn fates(packets: &[probe::Packet]) -> Vec<(u64, u16, String)> {
        let mut all: Vec<_> = packets
            .iter()
            .map(|packet| {
                let (at, fate) = match packet.fate {
                    probe::Fate::Delivered if packet.ecn_in != 3 && packet.ecn_out == 3 => {
                        (packet.start, "marked".to_owned())
                    }
                    probe::Fate::Delivered => (packet.start, "delivered".to_owned()),
                    probe::Fate::Dropped(code) => {
                        (packet.end, format!("dropped:{}", probe::Fate::reason(code).expect("ours").name()))
                    }
                    probe::Fate::Queued => (0, "queued".to_owned()),
                };
                (at, packet.ports[0], fate)
            })
            .collect();
        all.sort();
        all
    }

    fn replayed(packets: &[probe::Packet], spec: &Spec, rate: Rate, seed: u64) -> Vec<(u64, u16, String)> {
        let mut trace = format!("{}\n", sojourn_replay::TRACE_HEADER);
        let mut flows: HashMap<u32, u16> = HashMap::new();
        for packet in in_order(packets) {
            let (hosts, ports, protocol) = (packet.hosts.map(u32::from), packet.ports, packet.protocol);
            let flow = flow_number(&Facts { hosts, ports, protocol, ..Facts::default() });
            flows.insert(flow, ports[0]);
            trace += &format!("{},enqueue,{flow},{},{}\n", packet.arrival, packet.bytes, packet.ecn_in);
        }
        let played = sojourn_replay::run_counted(trace.as_bytes(), "t.csv", spec, (Some(rate), None), (1514, seed));
        let mut all: Vec<_> = played
            .expect("a sound trace")
            .rows
            .iter()
            .map(|row| (row.fate_time.0, flows[&row.flow], row.fate.to_string()))
            .collect();
        all.sort();
        all
    }
}
