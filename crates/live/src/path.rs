//! The path between the hosts: access links, hops and delays. Frames enter at a port and leave at a port.
//!
//! This module is pure. A port is the cable of one namespace with hosts. The times of arrivals are those at which the
//! kernel received the frames. [`Path::advance`] handles everything up to a time, in order, and may be called late: the
//! result is the same.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use serde_json::{Value, json};
use sojourn_core::access::AccessLink;
use sojourn_core::packet::{Ecn, Packet as _};
use sojourn_core::qdisc::{Qdisc as _, prio};
use sojourn_core::rng;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_measure::stats::Common;
use sojourn_model::scenario::{QdiscChange, Scenario};
use sojourn_traffic::probe;
use sojourn_traffic::topology::{LEFT, Network, Place, RIGHT, Transmit};

use crate::capture::Capture;
use crate::detour::{self, Counted, Detour};
use crate::frame::{self, Facts};
use crate::hop::{Change, Done, Fate, Hop};
use crate::packet::{Packet, Pool};
use crate::queue::{Owner, Queue};
use crate::senders::Senders;
use crate::traces::{self, Traces};
use crate::truth::Lateness;

/// The fate of a packet that the kernel dropped without a reason.
const UNEXPLAINED: probe::Fate = probe::Fate::Dropped(0);

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

/// A packet that is to be given to the kernel's queue of a link.
pub struct Given<'a> {
    /// Its number.
    pub number: u64,
    /// The time at which it should be given.
    pub due: Time,
    /// The priority that a router gives it, by its DSCP (Linux `ip_forward`). IPv6 has the same, as in our disciplines.
    pub priority: u8,
    /// Its frame, which has the number.
    pub frame: &'a [u8],
}

/// Something that happens to a packet at a time.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It enters the path at a port.
    Enter { port: usize },
    /// It arrives at a link. `last` is the last link on its way.
    Arrive { link: usize, last: usize },
    /// It comes back from the kernel's queue of a link, with its number and with this DSCP and ECN field.
    Return { link: usize, number: u64, tos: u8 },
    /// The kernel's queue of a link has none of the packets with numbers below `end`.
    Emptied { link: usize, end: u64 },
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
    hops: Vec<Queue>,
    /// True if queues are the kernel's: a packet must then arrive at its link in time, and not only leave in time.
    is_prompt: bool,
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
    /// The traces of the links, if they are asked for.
    traces: Option<Traces>,
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
    /// Frames that were stamped before the path's time and count as arrived right after it.
    pub overtaken: u64,
}

impl Path {
    /// Creates the path of a scenario. `origin` is time zero on the clock of the records.
    pub fn new(scenario: &Scenario, network: &Network, origin: u64, owner: Owner) -> Path {
        let hop = |index| {
            let seed = seed_of_link(scenario, index);
            let link = scenario.link(index);
            match owner {
                Owner::Ours => Queue::Ours(Box::new(Hop::new(link, network.mtu, scenario.host.hz, seed))),
                Owner::Tc => Queue::Kernel(Box::new(Detour::new(link, seed))),
            }
        };
        let mut changes: Vec<(Time, usize, Change)> = Vec::new();
        for index in 0..scenario.hops.len() * 2 {
            changes.extend(Hop::changes(scenario.link(index)).into_iter().map(|(at, change)| (at, index, change)));
        }
        changes.sort_by_key(|change| change.0);
        let ports = ports(network);
        Path {
            hops: (0..scenario.hops.len() * 2).map(hop).collect(),
            is_prompt: owner == Owner::Tc,
            access: scenario.access.clone(),
            changes: changes.into(),
            now: Time::ZERO,
            number: 0,
            heap: BinaryHeap::new(),
            leaves: BinaryHeap::new(),
            lookahead: lookahead(scenario, &ports, owner),
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
            traces: None,
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

    /// From now on, the arrivals at all links and their fates are traced.
    pub fn trace(&mut self) {
        self.traces = Some(Traces::new(self.hops.len()));
    }

    /// Takes the bytes of the traces so far: for each link its trace and its fates, if they are traced.
    pub fn take_traces(&mut self) -> impl Iterator<Item = Vec<u8>> {
        self.traces.iter_mut().flat_map(Traces::take)
    }

    /// Says for each link how its trace is replayed up to the path's present time: its name, and the options of `sojourn
    /// replay`, or why there are none.
    pub fn replays(&self, scenario: &Scenario, network: &Network) -> Vec<Value> {
        let of = |link| {
            let seed = seed_of_link(scenario, link);
            let queue = scenario.link_name(link);
            match traces::options(scenario.link(link), network.mtu, seed, self.now) {
                Ok(options) => json!({ "queue": queue, "options": options }),
                Err(why) => json!({ "queue": queue, "why": why }),
            }
        };
        (0..self.hops.len()).map(of).collect()
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
                "backlog": hop.backlog(),
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
    pub fn hops(&self) -> &[Queue] {
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
        // The path's time has been handled already. Right after it, no arrival comes behind a departure of its time.
        self.post(at.max(self.now + Span(1)), packet, Step::Enter { port });
    }

    /// A frame has come back from the kernel's queue of a link, at `at`. It is handled like one that has arrived, if it is
    /// a frame of ours.
    pub fn comes_back(&mut self, at: Time, link: usize, frame: &[u8]) {
        if let (Some(number), Some(facts)) = (detour::number(frame), frame::read(frame)) {
            self.post_return(at, link, Step::Return { link, number, tos: facts.tos });
        }
    }

    /// The kernel's queue of a link was found empty, before `at`: of the packets with numbers below `end` it has none. All
    /// that have come back are known to the path.
    pub fn was_empty(&mut self, at: Time, link: usize, end: u64) {
        self.post_return(at, link, Step::Emptied { link, end });
    }

    /// Posts what has come from the kernel's queue of a link, in the order in which it came.
    fn post_return(&mut self, at: Time, link: usize, step: Step) {
        if let Some(detour) = self.hops.get_mut(link).and_then(Queue::detour) {
            let at = detour.return_time(at.max(self.now));
            self.post(at, Packet::default(), step);
        }
    }

    /// Takes the next packet that is to be given to the kernel's queue of a link.
    pub fn next_given(&mut self, link: usize) -> Option<Given<'_>> {
        let (number, packet) = self.hops.get_mut(link)?.detour()?.next_given()?;
        let frame = self.pool.frame(&packet);
        detour::address(frame, number);
        Some(Given { number, due: packet.arrival, priority: prio::priority(packet.dscp()), frame })
    }

    /// A packet was given to the kernel's queue of a link at `at`. `is_taken` is false if it was dropped at once.
    pub fn given(&mut self, link: usize, number: u64, at: Time, is_taken: bool) {
        if let Some(detour) = self.hops.get_mut(link).and_then(Queue::detour) {
            detour.given(number, at, is_taken, &mut self.done);
        }
        self.settle(link);
    }

    /// Returns the time at which [`Path::advance`] must be called at the latest for all frames to leave in time. Frames
    /// that arrive at `until` or later are not known yet.
    pub fn next_call(&self, until: Time) -> Time {
        let leave = self.leaves.peek().map_or(Time::NEVER, |posted| posted.at);
        let arrival = self.heap.peek().filter(|_| self.is_prompt).map_or(Time::NEVER, |posted| posted.at);
        leave.min(arrival).min(self.next_event().min(until) + self.lookahead)
    }

    /// The least time between any event on the path and the leaving of a frame that depends on it, or its arrival at a
    /// queue of the kernel's.
    pub fn lookahead(&self) -> Span {
        self.lookahead
    }

    /// Time of the next event within the path.
    fn next_event(&self) -> Time {
        let posted = self.heap.peek().map_or(Time::NEVER, |posted| posted.at);
        let change = self.changes.front().map_or(Time::NEVER, |change| change.0);
        self.hops.iter().map(Queue::next_event).min().unwrap_or(Time::NEVER).min(posted).min(change)
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
                let Some(link) = in_order(self.hops.len()).find(|link| self.hops[*link].next_event() <= at) else {
                    break;
                };
                self.hops[link].event(self.now, &self.pool, &mut self.done);
                self.settle(link);
            }
        }
        self.now = self.now.max(until);
        self.release_due(until);
        Ok(())
    }

    /// Lets the frames leave that are due at `until`, as far as they are known. The links' events before that time are
    /// left to [`Path::advance`].
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
    /// links; null for a discipline of the kernel's.
    pub fn counted(&self) -> Vec<Value> {
        let of = |(hop, common): (&Queue, &Common)| hop.counted(*common);
        self.hops.iter().zip(&self.commons).map(of).collect()
    }

    /// Ends the run: records the packets that are still queued, and those whose drop is known now. Links of the kernel's
    /// have their counters and the numbers of packets that came back after the end, in `kernel`.
    pub fn finish(&mut self, kernel: &[(Counted, Vec<u64>)]) {
        if let Some(traces) = &mut self.traces {
            for (link, queue) in self.hops.iter().enumerate() {
                let Queue::Ours(hop) = queue else { continue };
                hop.in_transmission().into_iter().for_each(|(packet, start)| traces.leaves(link, packet, start));
            }
            traces.finish();
        }
        let now = self.now;
        let mut late = vec![Vec::new(); self.hops.len()];
        for posted in std::mem::take(&mut self.heap).into_sorted_vec().into_iter().rev() {
            if let Step::Return { link, number, .. } = posted.step {
                late[link].push(number);
            }
        }
        for (link, mut late) in late.into_iter().enumerate() {
            let backlog = self.hops[link].backlog();
            let [queued, dropped] = match &mut self.hops[link] {
                Queue::Ours(hop) => {
                    (self.commons[link].qlen, self.commons[link].backlog) = (hop.qdisc().packets() as u64, backlog);
                    [hop.take_queued(now, &self.pool), Vec::new()]
                }
                Queue::Kernel(detour) => {
                    let (counted, later) = kernel.get(link).map_or((Counted::default(), &[][..]), |(a, b)| (*a, b));
                    late.extend(later);
                    detour.finish(counted, &late)
                }
            };
            self.commons[link].drops += dropped.len() as u64;
            let queued = queued.iter().map(|packet| (packet, probe::Fate::Queued));
            let dropped = dropped.iter().map(|packet| (packet, UNEXPLAINED));
            for (packet, fate) in queued.chain(dropped) {
                let end = now.max(packet.arrival);
                self.record(link, packet, fate, end, end);
            }
        }
    }

    /// The number of packets that count as dropped at a link, and of those that came back nevertheless.
    pub fn inferred(&self, link: usize) -> (u64, u64) {
        let drops = self.commons.get(link).map_or(0, |common| common.drops);
        match self.hops.get(link) {
            Some(Queue::Kernel(detour)) => (drops, detour.strays()),
            _ => (drops, 0),
        }
    }

    /// The number of the next packet that the kernel's queue of a link gets.
    pub fn next_number(&self, link: usize) -> u64 {
        match self.hops.get(link) {
            Some(Queue::Kernel(detour)) => detour.next_number(),
            _ => 0,
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
            Step::Return { link, number, tos } => {
                if let Some(detour) = self.hops.get_mut(link).and_then(Queue::detour) {
                    detour.returned(self.now, number, tos, &mut self.done);
                }
                self.settle(link);
            }
            Step::Emptied { link, end } => {
                if let Some(detour) = self.hops.get_mut(link).and_then(Queue::detour) {
                    detour.emptied(end, &mut self.done);
                }
                self.settle(link);
            }
            Step::Arrive { link, last } => {
                let mut packet = packet;
                packet.last = last;
                if let Some(traces) = &mut self.traces {
                    let bytes = self.hops[link].link().wire_bytes(packet.facts.ip_bytes);
                    packet.number = traces.arrives(link, self.now, &packet, bytes);
                }
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
            // The kernel may have taken or refused a packet since.
            let now = self.now.max(packet.arrival);
            if let Some(traces) = &mut self.traces {
                match fate {
                    Fate::Sent { start, .. } => traces.leaves(link, &packet, start),
                    Fate::Dropped(reason) => {
                        traces.settle(link, &packet, sojourn_replay::Fate::Dropped(reason), now);
                    }
                    // The queue had sent it, or it is the kernel's and has no replay.
                    Fate::Impaired(_) | Fate::Unexplained => {}
                }
            }
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
                Fate::Unexplained => {
                    self.commons[link].drops += 1;
                    self.record(link, &packet, UNEXPLAINED, now, now);
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

/// Returns the seed of a link's random numbers.
fn seed_of_link(scenario: &Scenario, link: usize) -> u64 {
    rng::Rng::stream(scenario.seed, &format!("link {}", scenario.link_name(link))).next_u64()
}

/// Returns all links, each after those that send to it. At one time, a packet thus arrives at a link before the link
/// asks for one.
fn in_order(links: usize) -> impl Iterator<Item = usize> {
    (0..links).step_by(2).chain((1..links).step_by(2).rev())
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

/// Returns the least delay between a link and a host behind it, at any time of the run. With queues of the kernel's also
/// that between a host and a link, and between two links.
fn lookahead(scenario: &Scenario, ports: &[Port], owner: Owner) -> Span {
    let least = |direction: usize| {
        ports.iter().flat_map(|port| port.delays.values()).map(|both| both[direction]).min().unwrap_or(Span::ZERO)
    };
    let links = (0..scenario.hops.len() * 2).flat_map(|index| scenario.link(index).delay.iter().map(|step| step.1));
    let links = links.min().unwrap_or(Span::ZERO);
    let behind = links + least(1);
    match owner {
        Owner::Ours => behind,
        Owner::Tc if scenario.hops.len() > 1 => behind.min(least(0)).min(links),
        Owner::Tc => behind.min(least(0)),
    }
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
    use sojourn_core::qdisc::DropReason;
    use sojourn_model::plan::{LoadOptions, Plan};
    use sojourn_model::units;
    use sojourn_replay::How;
    use sojourn_traffic::probe::{Record, Records};

    const ACK: u8 = 0x10;
    /// The left host and the right host of the first flow, on a path of one hop.
    const HOSTS: [u32; 2] = [0x0a01_0001, 0x0a65_0001];

    fn scenario(hop: &str) -> Scenario {
        of_text(&format!("duration = \"9s\"\n[[hop]]\n{hop}\n[[flow]]\nkind = \"bulk\"\nrtt = \"40ms\"\n"))
    }

    fn of_text(text: &str) -> Scenario {
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        plan.scenario(0).expect("a sound run")
    }

    fn path(scenario: &Scenario) -> Path {
        Path::new(scenario, &Network::new(scenario), 0, Owner::Ours)
    }

    /// An arrival at the path.
    #[derive(Clone, Debug)]
    struct Arrival {
        at: u64,
        flow: u16,
        payload: usize,
        /// DSCP and ECN field.
        tos: u8,
        /// Number of the host, from 0.
        host: u32,
        /// TCP flags.
        flags: u8,
    }

    impl Arrival {
        /// A frame of a left host, for a path of this number of hops; or of a right host.
        fn frame(&self, hops: u32, is_leftward: bool) -> Vec<u8> {
            let Arrival { flow, payload, tos, host, flags, .. } = *self;
            let mut hosts = [HOSTS[0] + host, HOSTS[1] + host + ((hops - 1) << 16)];
            let mut ports = [10_000 + flow, 5001];
            if is_leftward {
                hosts.reverse();
                ports.reverse();
            }
            tcp(hosts, ports, 0, 0, flags, payload, tos)
        }
    }

    /// Sends packets from the left host, and advances to each of these times. Returns all records of packets, and the
    /// times at which packets left.
    fn play(path: &mut Path, arrivals: &[Arrival], stops: &[u64]) -> (Vec<probe::Packet>, Vec<u64>) {
        let mut left = Vec::new();
        let mut waiting = arrivals.iter().peekable();
        for stop in stops {
            while let Some(arrival) = waiting.next_if(|arrival| arrival.at <= *stop) {
                path.arrive(Time(arrival.at), 0, &arrival.frame(1, false));
            }
            path.advance(Time(*stop)).expect("no change");
            while let Some(leaving) = path.next_leaving() {
                left.push(leaving.due.0);
                path.release(&leaving);
            }
        }
        path.finish(&[]);
        let bytes = path.take_records();
        let packets = Records::new(&bytes).expect("records").iter().filter_map(|record| match record {
            Record::Packet(packet) => Some(packet),
            _ => None,
        });
        (packets.collect(), left)
    }

    /// A full packet of the first flow.
    fn plain(at: u64) -> Arrival {
        Arrival { at, flow: 0, payload: 1460, tos: 0, host: 0, flags: ACK }
    }

    #[test]
    fn a_packet_takes_its_transmission_and_half_of_the_base_rtt() {
        let scenario = scenario("rate = \"10mbit\"\ndelay = \"5ms\"\nqdisc = \"pfifo\"");
        let mut path = path(&scenario);
        let (packets, left) = play(&mut path, &[plain(1_000)], &[100_000_000]);
        // 1514 bytes at 10 Mbit/s take 1211.2 us.
        assert_eq!(left, [1_000 + 1_211_200 + 20_000_000]);
        // The hop's own delays leave 15 ms of each way; one half of this is in front of the hop.
        let there = 1_000 + (20_000_000 - 5_000_000) / 2;
        assert_eq!((packets[0].arrival, packets[0].start, packets[0].end), (there, there, there + 1_211_200));
    }

    #[test]
    fn without_a_queue_packets_wait_in_the_cards_ring_only() {
        // Six packets within 50 us; one takes 1.2 ms.
        let arrivals: Vec<Arrival> = (0..6).map(|number| plain(number * 10_000)).collect();
        for (nic, delivered) in [("", 1), ("nic = { ring = 4 }", 4), ("nic = { ring = 100 }", 6)] {
            let scenario = scenario(&format!("rate = \"10mbit\"\nqdisc = \"noqueue\"\n{nic}"));
            let (packets, left) = play(&mut path(&scenario), &arrivals, &[1_000_000_000]);
            let dropped = packets.iter().filter(|packet| packet.fate == probe::Fate::of(DropReason::Busy)).count();
            assert_eq!((left.len(), dropped), (delivered, 6 - delivered), "{nic}");
        }
    }

    #[test]
    fn a_packet_goes_to_the_kernel_with_the_priority_that_a_router_gives_it() {
        let scenario = scenario("rate = \"10mbit\"\nqdisc = \"pfifo\"");
        let mut path = Path::new(&scenario, &Network::new(&scenario), 0, Owner::Tc);
        // Best effort, EF, minimise delay, minimise cost, AF11; each with ECT(0).
        let known = [(0x00, 0), (0xb8, 4), (0x10, 6), (0x02, 0), (0x28, 2)];
        for (at, (tos, _)) in (0..).zip(known) {
            let arrival = Arrival { at, flow: 0, payload: 9, tos: tos | 2, host: 0, flags: ACK };
            path.arrive(Time(at), 0, &arrival.frame(1, false));
        }
        path.advance(Time(50_000_000)).expect("no change");
        for (number, (_, wanted)) in (0..).zip(known) {
            let given = path.next_given(0).expect("a packet");
            assert_eq!((given.number, given.priority), (number, wanted));
            path.given(0, number, Time(50_000_000), true);
        }
    }

    #[test]
    fn a_queue_that_was_empty_has_dropped_what_did_not_come_back_before() {
        let scenario = scenario("rate = \"10mbit\"\nqdisc = \"pfifo\"");
        let mut path = Path::new(&scenario, &Network::new(&scenario), 0, Owner::Tc);
        let mut frames = Vec::new();
        for flow in 0..3 {
            let arrival = Arrival { at: 0, flow, payload: 9, tos: 0, host: 0, flags: ACK };
            path.arrive(Time(0), 0, &arrival.frame(1, false));
        }
        path.advance(Time(50_000_000)).expect("no change");
        while let Some(Given { number, frame, .. }) = path.next_given(0) {
            frames.push(frame.to_vec());
            path.given(0, number, Time(50_000_000), true);
        }
        // The second one comes back, with a stamp behind the time at which the queue was found empty.
        path.comes_back(Time(60_000_000), 0, &frames[1]);
        let end = path.next_number(0);
        path.was_empty(Time(55_000_000), 0, end);
        path.advance(Time(70_000_000)).expect("no change");
        assert_eq!(path.inferred(0), (2, 0));
        assert_eq!((path.hops()[0].waiting(), path.counts().left), (0, 0));
        path.advance(Time(90_000_000)).expect("no change");
        assert_eq!(path.counts().left, 1);
    }

    const QDISCS: [&str; 23] = [
        "pfifo limit 5",
        "codel",
        "fq_codel",
        "pie",
        "ccaq",
        "fq limit 100 flow_limit 30",
        "red limit 400000",
        "cake",
        "cake dual-srchost diffserv4 wash bandwidth 4mbit",
        "sfq limit 40 perturb 1",
        "tbf rate 4mbit burst 3000 latency 50ms",
        "htb rate 2mbit child pfifo limit 9",
        "fq maxrate 1mbit",
        "dualpi2",
        "fq_pie",
        "prio",
        "blue limit 20",
        "choke limit 50 bandwidth 5mbit min 5 max 15",
        "sfb limit 30",
        "codel variant rfc8289",
        "pie variant rfc8033 target 1ms",
        "ccaq variant paper limit 30",
        "htb rate 2mbit child cake",
    ];

    fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
        let payload = prop_oneof![Just(360), 1..1460usize];
        let one = (0..1_500_000u64, 0..4u16, payload, any::<u8>(), 0..4u32, any::<bool>());
        proptest::collection::vec(one, 1..300).prop_map(|all| {
            let mut now = 0;
            let arrival = |(gap, flow, payload, tos, host, opens): (u64, u16, usize, u8, u32, bool)| {
                now += gap / 4_000 * 4_000;
                // The DSCPs are CS0, CS1, CS4 and CS5.
                Arrival { at: now, flow, payload, tos: tos & 0xa3, host, flags: if opens { frame::SYN } else { ACK } }
            };
            all.into_iter().map(arrival).collect()
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
        fn a_replay_of_the_trace_gives_every_packet_the_same_fate(
            qdisc in 0..QDISCS.len(),
            arrivals in arrivals(),
            impair in prop_oneof![Just(""), Just("\nimpair = \"delay 3ms 1ms loss 5% duplicate 5%\"")],
            rtt in prop_oneof![Just("1ns"), Just("40ms")],
            rates in prop_oneof![Just(("5mbit", "5mbit")), Just(("5mbit", "2500kbit")), Just(("2500kbit", "5mbit"))],
            end in 1..600u64,
        ) {
            // Two links in each direction, without a delay between them: what one has sent often arrives at the other at
            // the very end of a transmission there.
            let queue = |key| format!("{key} = \"{}\"{impair}", QDISCS[qdisc]);
            let hop = |rate| {
                let (queue, back) = (queue("qdisc"), queue("reverse.qdisc").replace("\nimpair", "\nreverse.impair"));
                format!("[[hop]]\nrate = \"{rate}\"\n{queue}\n{back}\n")
            };
            let scenario = of_text(&format!(
                "duration = \"9s\"\n{}{}[[flow]]\nkind = \"bulk\"\ncount = 4\nrtt = \"{rtt}\"\n",
                hop(rates.0),
                hop(rates.1),
            ));
            // Some packets are known only after the path has passed the times of their arrivals.
            let stops: Vec<u64> = (1..=end / 7 + 1).map(|n| (n * 7_000_000).min(end * 1_000_000)).collect();
            let traced = Traced::new(&scenario, &arrivals, &stops);
            for (link, [trace, fates]) in traced.files.iter().enumerate().filter(|(_, files)| !files[0].is_empty()) {
                prop_assert_eq!(&traced.replayed(link, trace), fates, "link {}", link);
            }
        }
    }

    /// The traces and fates of all links of a path at both of whose ends packets arrive, and how a replay is asked for.
    struct Traced {
        files: Vec<[String; 2]>,
        replays: Vec<Value>,
    }

    impl Traced {
        /// Half of the flows' packets are known two milliseconds late.
        fn new(scenario: &Scenario, arrivals: &[Arrival], stops: &[u64]) -> Traced {
            let (network, mut path) = (Network::new(scenario), path(scenario));
            path.trace();
            let mut waiting: Vec<&Arrival> = arrivals.iter().collect();
            for stop in stops {
                let is_known = |arrival: &&Arrival| arrival.at + u64::from(arrival.flow % 2) * 2_000_000 <= *stop;
                for arrival in waiting.extract_if(.., |arrival| is_known(arrival)) {
                    let port = (arrival.host % 2) as usize;
                    path.arrive(Time(arrival.at), port, &arrival.frame(scenario.hops.len() as u32, port > 0));
                }
                path.advance(Time(*stop)).expect("no change");
            }
            path.finish(&[]);
            let parts: Vec<String> = path.take_traces().map(|part| String::from_utf8(part).expect("text")).collect();
            let files = parts.chunks_exact(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect();
            Traced { files, replays: path.replays(scenario, &network) }
        }

        /// The fates in a replay of a link's trace.
        fn replayed(&self, link: usize, trace: &str) -> String {
            let words = self.replays[link]["options"].as_array().expect("a replay is possible");
            let of = |name| {
                let place = words.iter().position(|word| word == name).expect(name);
                words[place + 1].as_str().expect("text")
            };
            let how = How {
                rate: units::rate(of("--rate")).map(|read| read.rate),
                end: units::span(of("--end")).map(|end| Time::ZERO + end).expect("a time"),
                mtu: of("--mtu").parse().expect("a number"),
                seed: of("--seed").parse().expect("a number"),
                ..How::default()
            };
            let spec = of("--qdisc").parse().expect("a line");
            let played = sojourn_replay::run_counted(trace.as_bytes(), "t.csv", &spec, &how).expect("a sound trace");
            String::from_utf8(sojourn_replay::to_csv(&played.rows)).expect("text")
        }
    }

    #[test]
    fn a_packet_that_is_known_late_comes_after_what_was_decided_already() {
        // A packet takes a millisecond. The first two arrive together; when the first has been sent, the queue, which
        // holds one packet, has room for the third. This one arrived just before, but is known only then.
        let scenario = of_text(
            "duration = \"9s\"\n[[hop]]\nrate = \"8mbit\"\noverhead = 0\nqdisc = \"pfifo limit 1\"\n\
             [[flow]]\nkind = \"bulk\"\nrtt = \"1ns\"\n",
        );
        let arrival = |at, flow| Arrival { at, flow, payload: 960, tos: 0, host: 0, flags: ACK };
        let traced = Traced::new(
            &scenario,
            &[arrival(1_000, 0), arrival(1_000, 2), arrival(1_000_500, 1)],
            &[1_000, 1_001_000, 9_000_000],
        );
        let [trace, fates] = &traced.files[0];
        assert_eq!(trace.lines().count(), 4, "{trace}");
        assert!(trace.contains("\n1001001,enqueue"), "{trace}");
        assert_eq!(traced.replayed(0, trace), *fates);
    }

    /// A trace without its last columns.
    fn without(trace: &str, columns: usize) -> String {
        let kept = |line: &str| line.rsplitn(columns + 1, ',').last().unwrap_or_default().to_owned() + "\n";
        trace.lines().map(kept).collect()
    }

    #[test]
    fn a_replay_without_the_columns_that_a_discipline_reads_decides_otherwise() {
        // Three packets of 400 bytes in each millisecond, which is twice the rate. Nine flows are of one host.
        let arrival = |n: u64| {
            let (flow, host) = ((n % 10) as u16, (n % 10 / 9 * 2) as u32);
            let flags = if n % 50 < 10 { frame::SYN } else { ACK };
            Arrival { at: n * 333_000, flow: 2 * flow, payload: 400, tos: 0, host, flags }
        };
        let arrivals: Vec<Arrival> = (0..6000).map(arrival).collect();
        let stops: Vec<u64> = (1..=3000).map(|ms| ms * 1_000_000).collect();
        for (qdisc, columns) in [("ccaq", 1), ("cake dual-srchost", 3)] {
            let scenario = of_text(&format!(
                "duration = \"9s\"\n[[hop]]\nrate = \"5mbit\"\nqdisc = \"{qdisc}\"\n\
                 [[flow]]\nkind = \"bulk\"\ncount = 4\nrtt = \"40ms\"\n"
            ));
            let traced = Traced::new(&scenario, &arrivals, &stops);
            let [trace, fates] = &traced.files[0];
            assert!(traced.replayed(0, trace) == *fates, "{qdisc}");
            assert!(traced.replayed(0, &without(trace, columns)) != *fates, "{qdisc} without the last {columns}");
        }
    }
}
