//! The slow and obvious engine: one heap, one event for each step of a packet, exact timers, and no short cuts. It is
//! the oracle of `fast.rs`: both must give identical records.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use sojourn_core::tcp::Config;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_measure::FlowMeter;
use sojourn_model::scenario::{Access, Scenario};

use crate::ends::Ends;
use crate::hosts::Hosts;
use crate::link::{Link, PauseFrame};
use crate::net::{Event, Net};
use crate::packet::{DATAGRAM, Packet};
use crate::setup::EndState;
use crate::topology::{Change, Ranks, Topology, changes};
use crate::{Options, Output, Stopped, setup};

/// An event.
#[derive(Clone, Copy, Debug)]
enum HeapEvent {
    /// A change of a link's rate, delay or discipline.
    Step(usize, Change),
    /// An access link completed a transmission.
    AccessDone(usize),
    /// A packet arrives at the first link of its lane.
    In(Packet),
    /// A packet arrives at the end host.
    Out(Packet),
    /// A packet arrives at the link after this one.
    Hop(usize, Packet),
    /// A packet arrives at the access link of its destination.
    Down(Packet),
    /// A pause frame arrives at a link.
    Frame(PauseFrame),
    /// An event of a link, such as the end of a transmission.
    Link(usize),
    /// The delayed-ACK timer of a connection of this class expires.
    DelayedAck(usize, u32),
    /// The retransmission timer of a connection expires.
    Sender(u32),
    /// An event of an application.
    App(Event),
}

impl HeapEvent {
    /// Order among events at the same time.
    fn rank(&self, ranks: Ranks) -> usize {
        match self {
            HeapEvent::Step(..) => Ranks::STEP,
            HeapEvent::AccessDone(_) => Ranks::ACCESS_DONE,
            HeapEvent::In(packet) => ranks.into(packet.lane()),
            HeapEvent::Out(packet) => ranks.out(packet.lane()),
            HeapEvent::Hop(link, _) => ranks.hop(*link),
            HeapEvent::Down(_) => ranks.down(),
            HeapEvent::DelayedAck(class, _) => ranks.delayed_ack(*class),
            HeapEvent::Sender(_) => ranks.sender(),
            HeapEvent::App(_) => ranks.app(),
            HeapEvent::Frame(frame) => ranks.frame(frame.link),
            HeapEvent::Link(link) => ranks.link(*link),
        }
    }

    /// Order among events with the same time and rank: timers by connection, applications by event, all others in order
    /// of insertion.
    fn order(&self, count: u64) -> (u64, Option<Event>) {
        match *self {
            HeapEvent::DelayedAck(_, conn) | HeapEvent::Sender(conn) => (u64::from(conn), None),
            HeapEvent::App(event) => (0, Some(event)),
            _ => (count, None),
        }
    }
}

/// An entry of the heap, ordered by time, rank and order.
struct Entry {
    key: (Time, usize, (u64, Option<Event>)),
    event: HeapEvent,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// An access link, which sends one packet at a time. A departure precedes an arrival at the same time.
struct AccessQueue {
    rate: Rate,
    delay: Span,
    limit: usize,
    busy: Option<Packet>,
    waiting: VecDeque<Packet>,
    /// Whether it is a downlink, from which packets go to the host. Packets go from an uplink into the lane.
    is_down: bool,
}

/// Everything between the data senders.
struct Fabric<'a> {
    topology: &'a Topology,
    ranks: Ranks,
    heap: BinaryHeap<Reverse<Entry>>,
    count: u64,
    links: Vec<Link>,
    access: Vec<AccessQueue>,
    ends: Ends,
    flows: Vec<FlowMeter>,
    /// Times of the last entries in the heap for each link, delayed ACK and sender.
    link_due: Vec<Time>,
    ack_due: Vec<Time>,
    sender_due: Vec<Time>,
}

/// Runs the scenario.
pub fn run(scenario: &Scenario, options: &Options) -> Result<Output, Stopped> {
    let topology = Topology::new(scenario);
    let links = scenario.hops.len() * 2;
    let access =
        scenario.access.iter().flat_map(|access| (0..topology.access_links).map(|i| AccessQueue::new(access, i)));
    let mut fabric = Fabric {
        topology: &topology,
        ranks: Ranks::new(&topology, scenario),
        heap: BinaryHeap::new(),
        count: 0,
        links: (0..links).map(|index| link(scenario, index, options)).collect(),
        access: access.collect(),
        ends: setup::ends(scenario, scenario.workload.entries.len()),
        flows: setup::flows(scenario, options),
        link_due: vec![Time::NEVER; links],
        ack_due: Vec::new(),
        sender_due: Vec::new(),
    };
    let mut hosts = Hosts::new(scenario, &topology, options.series);
    hosts.start(&mut fabric);
    for (at, link, change) in changes(scenario) {
        fabric.push(at, HeapEvent::Step(link, change));
    }
    (0..links).for_each(|link| fabric.reschedule(link));
    let mut events = 0u64;
    while let Some(Reverse(Entry { key: (now, ..), event })) = fabric.heap.pop() {
        if now >= scenario.duration {
            break;
        }
        events += 1;
        if events.is_multiple_of(4096) {
            options.report(now)?;
        }
        fabric.handle(now, event, &mut hosts);
    }
    let Fabric { links, flows, ends, .. } = fabric;
    let rest = EndState { flows, ends, hosts, events };
    Ok(setup::output(scenario, options, links.into_iter().map(Link::finish), rest))
}

fn link(scenario: &Scenario, index: usize, options: &Options) -> Link {
    Link::new(index, scenario.link(index), &setup::link(scenario, index), options)
}

impl Fabric<'_> {
    fn push(&mut self, at: Time, event: HeapEvent) {
        if at == Time::NEVER {
            return;
        }
        self.count += 1;
        self.heap.push(Reverse(Entry { key: (at, event.rank(self.ranks), event.order(self.count)), event }));
    }

    fn handle(&mut self, now: Time, event: HeapEvent, hosts: &mut Hosts) {
        match event {
            HeapEvent::Step(link, change) => {
                self.links[link].change(now, change);
                self.settle(now, link);
                self.reschedule(link);
            }
            HeapEvent::AccessDone(index) => self.access_done(now, index),
            HeapEvent::In(packet) => {
                let first = self.topology.lanes[packet.lane()].path[0];
                self.arrive(now, first, packet);
            }
            HeapEvent::Hop(link, packet) => {
                if let Some(next) = self.topology.next_link(packet.lane(), link) {
                    self.arrive(now, next, packet);
                }
            }
            HeapEvent::Down(packet) => {
                if let Some((_, down)) = self.topology.lanes[packet.lane()].access {
                    self.access_arrive(now, down, packet);
                }
            }
            HeapEvent::Frame(PauseFrame { link, stop, .. }) => {
                self.links[link].receive(now, stop);
                self.reschedule(link);
            }
            HeapEvent::Link(link) => self.link_event(now, link),
            HeapEvent::Out(packet) if packet.is_for_receiver() => self.deliver(now, packet.at(now)),
            HeapEvent::Out(packet) => {
                let options = self.ends.take_options(&packet);
                hosts.receive(now, packet, &options, self);
            }
            HeapEvent::DelayedAck(_, conn) => {
                if self.ends.deadline(conn) == now {
                    let ack = self.ends.on_timer(now, conn);
                    self.send_ack(conn, ack);
                }
            }
            HeapEvent::Sender(conn) => {
                if hosts.senders.deadline(conn) == now {
                    self.sender_due[conn as usize] = Time::NEVER;
                    hosts.senders.on_timer(now, conn, self);
                }
            }
            HeapEvent::App(event) => hosts.act(now, event, self),
        }
    }

    fn arrive(&mut self, now: Time, link: usize, mut packet: Packet) {
        if self.links[link].filters_acks() && packet.has_blocks() {
            self.links[link].store_blocks(&packet, self.ends.options(&packet));
        }
        let starts = self.links[link].arrive(now, &mut packet);
        self.settle(now, link);
        if starts {
            self.serve(now, link);
        }
        self.reschedule(link);
    }

    fn link_event(&mut self, now: Time, index: usize) {
        if self.links[index].next_event() != now {
            return; // An outdated entry.
        }
        self.link_due[index] = Time::NEVER;
        self.serve(now, index);
    }

    fn serve(&mut self, now: Time, index: usize) {
        let mut packet = Packet::default();
        let left = self.links[index].event(now, &mut packet);
        self.reschedule(index);
        self.settle(now, index);
        let Some(at) = left else { return };
        let lane = &self.topology.lanes[packet.lane()];
        let (last, out) = (self.topology.next_link(packet.lane(), index).is_none(), at + lane.delay_out);
        match (last, lane.access) {
            (false, _) => self.push(at, HeapEvent::Hop(index, packet)),
            (true, Some(_)) => self.push(out, HeapEvent::Down(packet)),
            (true, None) => self.push(out, HeapEvent::Out(packet)),
        }
    }

    fn reschedule(&mut self, link: usize) {
        let due = self.links[link].next_event();
        if due != self.link_due[link] {
            self.link_due[link] = due;
            self.push(due, HeapEvent::Link(link));
        }
        while let Some(frame) = self.links[link].take_frame() {
            self.push(frame.at, HeapEvent::Frame(frame));
        }
    }

    fn settle(&mut self, now: Time, link: usize) {
        while let Some(packet) = self.links[link].take_drop(now) {
            self.lose(now, &packet);
        }
    }

    fn lose(&mut self, now: Time, packet: &Packet) {
        self.flows[self.ends.entry(packet.conn()) as usize].dropped(now);
        self.ends.lost(packet);
    }

    fn deliver(&mut self, now: Time, mut packet: Packet) {
        let conn = packet.conn();
        if packet.code() == DATAGRAM {
            let entry = self.ends.entry(conn);
            return self.flows[entry as usize].received_datagram(now, packet.sent(), packet.seq());
        }
        let received = if packet.is_data() {
            self.ends.receive(now, &mut packet)
        } else {
            let (received, answer) = self.ends.receive_other(now, packet);
            packet = answer;
            received
        };
        for _ in 0..received.complete {
            self.post(now, Event::Complete(conn));
        }
        self.send_ack(conn, received.answers.then_some(packet));
        if received.closes {
            self.close(now, conn);
        }
    }

    /// Re-arms a connection's delayed-ACK timer and sends the ACK, if there is one.
    fn send_ack(&mut self, conn: u32, ack: Option<Packet>) {
        let due = self.ends.deadline(conn);
        if self.ack_due.len() <= conn as usize {
            self.ack_due.resize(conn as usize + 1, Time::NEVER);
        }
        if due != self.ack_due[conn as usize] {
            self.ack_due[conn as usize] = due;
            let class = self.ends.lane(conn) / 2;
            self.push(due, HeapEvent::DelayedAck(class, conn));
        }
        if let Some(ack) = ack {
            self.emit(ack);
        }
    }

    fn access_arrive(&mut self, now: Time, index: usize, packet: Packet) {
        let link = &mut self.access[index];
        if link.busy.is_none() {
            link.busy = Some(packet);
            let done = now + link.rate.serialise(u32::from(packet.ip_bytes()));
            self.push(done, HeapEvent::AccessDone(index));
        } else if link.waiting.len() < link.limit {
            link.waiting.push_back(packet);
        } else {
            self.lose(now, &packet);
        }
    }

    fn access_done(&mut self, now: Time, index: usize) {
        let link = &mut self.access[index];
        let (done, delay, is_down) = (link.busy.take(), link.delay, link.is_down);
        link.busy = link.waiting.pop_front();
        if let Some(next) = link.busy {
            let at = now + link.rate.serialise(u32::from(next.ip_bytes()));
            self.push(at, HeapEvent::AccessDone(index));
        }
        if let Some(packet) = done {
            let at = now + delay;
            let lane_in = self.topology.lanes[packet.lane()].delay_in;
            if is_down { self.push(at, HeapEvent::Out(packet)) } else { self.push(at + lane_in, HeapEvent::In(packet)) }
        }
    }
}

impl AccessQueue {
    /// Each class has four: uplink and downlink of the data sender's host, uplink and downlink of the data receiver's
    /// host.
    fn new(access: &Access, index: usize) -> AccessQueue {
        let Access { rate, delay, limit } = *access;
        AccessQueue { rate, delay, limit, busy: None, waiting: VecDeque::new(), is_down: index % 2 == 1 }
    }
}

impl Net for Fabric<'_> {
    fn emit(&mut self, packet: Packet) {
        let lane = &self.topology.lanes[packet.lane()];
        match lane.access {
            Some((up, _)) => self.access_arrive(packet.time, up, packet),
            None => self.push(packet.time + lane.delay_in, HeapEvent::In(packet)),
        }
    }

    fn meter(&mut self, entry: u32) -> &mut FlowMeter {
        &mut self.flows[entry as usize]
    }

    fn post(&mut self, at: Time, event: Event) {
        self.push(at, HeapEvent::App(event));
    }

    fn arm(&mut self, conn: u32, deadline: Time, _reported: &mut Time) {
        if self.sender_due.len() <= conn as usize {
            self.sender_due.resize(conn as usize + 1, Time::NEVER);
        }
        if deadline != self.sender_due[conn as usize] {
            self.sender_due[conn as usize] = deadline;
            self.push(deadline, HeapEvent::Sender(conn));
        }
    }

    fn open(&mut self, config: &Config, full: &Packet, entry: u32) {
        self.ends.open(config, full, entry);
    }

    fn expect(&mut self, conn: u32, target: u32, closes: bool) {
        self.ends.expect(conn, target, closes);
    }

    fn close(&mut self, now: Time, conn: u32) {
        let fin = self.ends.closing(now, conn);
        self.emit(fin);
    }

    fn handshake_rtt(&self, conn: u32) -> Option<Span> {
        self.ends.handshake_rtt(conn)
    }
}
