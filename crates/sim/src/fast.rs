//! The fast engine. Packets do not pass through a global event heap: each line of constant delay has a ring of packets,
//! and the next event is the earliest of the heads of all rings, links and timers.
//!
//! Lines with nearly the same delay share a ring, in which packets are sorted by time and then by lane.
//!
//! Whatever can be computed is not scheduled. A FIFO of constant rate computes a packet's departure on arrival (closed
//! form), and so does an access link. A data receiver runs when the last link sends the packet (with thousands of
//! flows, some departures later), ahead of the clock by the delay between the two; delayed ACKs and retransmitted
//! SYN-ACKs that precede the packet are handled first. These short cuts are legal because such a station sees its
//! inputs in the same order whenever they are computed: it has one input line, times on a line never decrease, and
//! where two inputs could tie at zero delay the short cut is not taken. `heap.rs` has no short cuts and must give
//! identical records.
//!
//! For the same reason a link, or all hosts together, may handle all their events up to the earliest time at which an
//! event elsewhere could affect them. This is the lookahead of conservative parallel simulation (Chandy and Misra
//! 1979). Here it improves the use of caches, and each schedule has few sources.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use sojourn_core::cache::Cache;
use sojourn_core::ring::Ring;
use sojourn_core::tcp::Config;
use sojourn_core::units::{Span, Time};
use sojourn_measure::FlowMeter;
use sojourn_model::scenario::Scenario;

use crate::access::AccessLink;
use crate::closed::ClosedLink;
use crate::ends::{Ends, Received};
use crate::hosts::Hosts;
use crate::link::{Link, PauseFrame};
use crate::net::{Event, Net};
use crate::packet::{DATAGRAM, Packet};
use crate::planted::{Fault, planted};
use crate::prefetch::Processor;
use crate::schedule::{CLOCK, Schedules, Slot, Slots};
use crate::setup::EndState;
use crate::shortcuts::{self, ShortCuts, Target};
use crate::timers::Timers;
use crate::topology::{Change, Ranks, Topology, changes};
use crate::tournament::Tournament;
use crate::{Options, Output, Stopped, setup};

/// With this many entries or connections, the state of the flows exceeds a core's caches and is prefetched.
const CROWD: usize = 256;
/// With this many entries, a timer expires every few packets.
const BUSY: usize = 16;
/// Prefetch distances in packets, one for each level of indirection: the state itself, the memory that it points to,
/// and the memory that this points to. They are short enough for the prefetched lines to stay in the cache until they
/// are used.
const AHEAD: usize = 8;
const BEHIND: usize = 4;
const LAST: usize = 2;
/// With many flows, up to this many packets are collected for receivers that run ahead, and are delivered in one batch.
const GATHERED: usize = 256;

/// The kinds of event sources.
#[derive(Clone, Copy)]
enum Source {
    /// A change of a link's rate, delay or discipline.
    Steps,
    /// A packet arrives at a link, at the end of this line.
    Into(usize),
    /// A packet arrives at an end host, at the end of this line.
    Out(usize),
    /// Like `Out`, with prefetching.
    CrowdOut(usize),
    /// A pause frame arrives at this link.
    Frame(usize),
    /// An event of a link, such as the end of a transmission.
    Link(usize),
    /// Like `Link`, with prefetching.
    CrowdLink(usize),
    /// Delivery of the packets collected for receivers.
    Gathered,
    /// The first delayed ACK of a class.
    DelayedAck(usize),
    /// The first retransmission timer.
    Senders,
    /// The first event of the applications.
    Apps,
    /// A group that runs ahead, at or before its first event.
    Group(usize),
}

/// A line of constant delay between two stations, or several lines of nearly the same delay.
struct Line {
    /// Packets in order of time, and then of lane.
    packets: Ring<Packet>,
    target: Target,
    /// Position in the schedule; `None` if the line is never used, or if packets pass it without an event.
    source: Option<Slot>,
    /// For a line shared between lanes: the rank of a packet of lane 0.
    shared: Option<usize>,
    /// The latest arrival time of any packet so far.
    last: Time,
}

/// One direction of a class, with its first and last line.
struct LaneState {
    last: usize,
    delay_in: Span,
    delay_out: Span,
    access: Option<(usize, usize)>,
    /// Whether packets pass from the last link to the host without an event.
    fused_out: bool,
    /// The first link, if packets pass from the host to it without an event. If that link has events, the delay in
    /// between must be zero.
    fused_in: Option<usize>,
    /// Line from the host to the first link.
    into: usize,
    /// Line from the last link to the host.
    out: usize,
}

/// A link, in one of three forms.
enum Station {
    /// A link with a queue discipline and events, and its position in the schedule.
    Queue(Box<Link>, Slot),
    /// A link whose departures are computed on arrival.
    Closed(Box<ClosedLink>),
    /// Like `Queue`, with flow control or an ACK filter.
    Coupled(Box<Link>, Slot),
}

/// Pause frames in flight to a link, in order of arrival.
#[derive(Default)]
struct Frames {
    ring: Ring<PauseFrame>,
    /// Position in the schedule; `None` if the link receives no pause frames.
    source: Option<Slot>,
}

/// Delayed-ACK timers of a class of flows, indexed by a connection's seat in the class.
#[derive(Clone, Default)]
struct Class {
    timers: Timers,
    conns: Vec<u32>,
}

/// Everything between the data senders: links, lines, receivers and schedules.
struct Fabric {
    lanes: Vec<LaneState>,
    /// Lines into and out of the lanes, followed by the lines from each link to the next.
    lines: Vec<Line>,
    /// Index of the first line from a link to the next.
    after_links: usize,
    schedules: Schedules,
    /// Lookahead of each group.
    lookahead: Vec<Span>,
    links: Vec<Station>,
    /// Pause frames in flight to each link.
    frames: Vec<Frames>,
    access: Vec<AccessLink>,
    ends: Ends,
    classes: Vec<Class>,
    /// Seat of each connection in its class.
    seats: Vec<u32>,
    /// Number of connections from which state is prefetched, and whether the workload has that many entries.
    crowd: usize,
    gathers: bool,
    /// Number of transmissions so far, counted only with prefetching.
    served: usize,
    /// Packets collected for receivers that run ahead, in order of departure, and the time at which the first of them
    /// is due.
    gathered: Vec<Packet>,
    gathered_by: Time,
    gathered_source: Slot,
    /// Time of the first delayed ACK of each class.
    delayed_acks: Tournament,
    delayed_acks_source: Slot,
    ranks: Ranks,
    senders: Timers,
    senders_source: Slot,
    apps: BinaryHeap<Reverse<(Time, Event)>>,
    apps_source: Slot,
    steps_source: Slot,
    flows: Vec<FlowMeter>,
    end: Time,
}

/// Runs the scenario.
pub fn run(scenario: &Scenario, options: &Options) -> Result<Output, Stopped> {
    let topology = Topology::new(scenario);
    let (mut fabric, sources) = Fabric::new(scenario, &topology, options);
    let mut hosts = Hosts::new(scenario, &topology, options.series);
    hosts.start(&mut fabric);
    (0..fabric.links.len()).for_each(|link| fabric.reschedule(link));
    let changes = changes(scenario);
    let mut next_change = 0;
    let change_time = |n: usize| changes.get(n).map_or(Time::NEVER, |change| change.0);
    fabric.schedules.set(fabric.steps_source, change_time(0));
    let mut events = 0u64;
    // Progress is reported a thousand times per run. A single comparison detects these times and the end of the run.
    let pause = Span(scenario.duration.0 / 1000 + 1);
    let mut next_pause = (Time::ZERO + pause).min(scenario.duration);
    let mut next = fabric.schedules.first();
    loop {
        let (source, now) = next;
        if now >= next_pause {
            if now >= scenario.duration {
                break;
            }
            options.report(now)?;
            next_pause = (now + pause).min(scenario.duration);
        }
        events += 1;
        match sources[source] {
            Source::Link(link) => {
                next = fabric.link_events::<false>(link, next, next_pause, &mut events);
                continue;
            }
            Source::CrowdLink(link) => {
                next = fabric.link_events::<true>(link, next, next_pause, &mut events);
                continue;
            }
            Source::Group(group) => {
                let until = change_time(next_change).min(scenario.duration);
                events = events + fabric.run_ahead(group, now, until, &sources, &mut hosts) - 1;
            }
            Source::Steps => {
                let (at, link, change) = changes[next_change];
                next_change += 1;
                fabric.schedules.set(fabric.steps_source, change_time(next_change));
                fabric.change(at, link, change);
            }
            other => fabric.event(other, &mut hosts),
        }
        next = fabric.schedules.first();
    }
    Ok(fabric.finish(scenario, options, hosts, events))
}

/// Returns the event source of each rank.
fn sources(ranks: Ranks, topology: &Topology, cuts: &ShortCuts, crowd: bool) -> Vec<Source> {
    let out = if crowd { Source::CrowdOut } else { Source::Out };
    let link = if crowd { Source::CrowdLink } else { Source::Link };
    let lanes = topology.lanes.len();
    let groups = cuts.lookahead.len();
    let mut sources = vec![Source::Steps; ranks.count(groups)];
    (1..groups).for_each(|group| sources[ranks.group(group)] = Source::Group(group));
    for lane in 0..lanes {
        sources[ranks.into(lane)] = Source::Into(cuts.lines[shortcuts::into(lane)].ring);
        sources[ranks.out(lane)] = out(cuts.lines[shortcuts::out(lane)].ring);
    }
    for class in 0..lanes / 2 {
        sources[ranks.delayed_ack(class)] = Source::DelayedAck(class);
    }
    sources[Ranks::GATHERED] = Source::Gathered;
    sources[ranks.sender()] = Source::Senders;
    sources[ranks.app()] = Source::Apps;
    for index in 0..cuts.links.len() {
        sources[ranks.hop(index)] = Source::Into(lanes * 2 + index);
        sources[ranks.frame(index)] = Source::Frame(index);
        sources[ranks.link(index)] = link(index);
    }
    sources
}

impl Fabric {
    fn new(scenario: &Scenario, topology: &Topology, options: &Options) -> (Fabric, Vec<Source>) {
        let cuts = ShortCuts::new(scenario, topology, options);
        let ranks = Ranks::new(topology, scenario);
        let mut slots = Slots::new(cuts.lookahead.len());
        let crowd = options.crowd.unwrap_or(CROWD);
        let is_crowd = scenario.workload.entries.len() >= crowd;
        let busy = scenario.workload.entries.len() >= BUSY;
        let sources = sources(ranks, topology, &cuts, is_crowd);
        let steps_source = slots.add(CLOCK, Ranks::STEP, false);
        let lane_lines = topology.lanes.len() * 2;
        let line = |(index, line): (usize, &shortcuts::Line)| {
            let (first, rank) = match (index < lane_lines, index % 2) {
                (true, 0) => (ranks.into(0), ranks.into(index / 2)),
                (true, _) => (ranks.out(0), ranks.out(index / 2)),
                (false, _) => (0, ranks.hop(index - lane_lines)),
            };
            let group = match line.target {
                Target::Hosts => cuts.hosts,
                Target::Link(link) => cuts.links[link].group,
            };
            let source = line.queued.then(|| slots.add(group, rank, true));
            let shared = line.shared.then_some(first);
            Line { packets: Ring::default(), target: line.target, source, shared, last: Time::ZERO }
        };
        let lines = cuts.lines.iter().enumerate().map(line).collect();
        let lanes = topology.lanes.iter().enumerate().map(|(index, lane)| LaneState {
            last: lane.last,
            delay_in: lane.delay_in,
            delay_out: lane.delay_out,
            access: lane.access,
            fused_out: lane.access.is_none() && cuts.lines[shortcuts::out(index)].direct,
            fused_in: (lane.access.is_none() && cuts.lines[shortcuts::into(index)].direct).then_some(lane.path[0]),
            into: cuts.lines[shortcuts::into(index)].ring,
            out: cuts.lines[shortcuts::out(index)].ring,
        });
        let classes = vec![Class::default(); topology.steady.len()];
        // A paced sender has a timer for every burst. Paced senders also lose many packets, after which receivers delay
        // ACKs for out-of-order segments.
        let paces = scenario.workload.entries.iter().any(|entry| entry.tcp.cc.is_rate_based());
        let delayed_acks_source = slots.add(cuts.hosts, ranks.delayed_ack(0), busy || paces);
        let senders_source = slots.add(cuts.hosts, ranks.sender(), busy || paces);
        let apps_source = slots.add(cuts.hosts, ranks.app(), false);
        let gathered_source = slots.add(cuts.hosts, Ranks::GATHERED, false);
        let frames = (0..scenario.hops.len() * 2).map(|link| Frames {
            source: scenario.can_be_paused(link).then(|| slots.add(CLOCK, ranks.frame(link), false)),
            ..Frames::default()
        });
        let frames = frames.collect();
        // Links come last: at equal times, packets are sent before departures are handled.
        let links = cuts.links.into_iter().enumerate().map(|(index, cuts)| match cuts.closed {
            Some(closed) => Station::Closed(Box::new(closed)),
            None => {
                let slot = slots.add(cuts.group, ranks.link(index), true);
                let mut link = Link::new(index, scenario.link(index), &setup::link(scenario, index), options);
                if cuts.lags {
                    link.hand_over_early(scenario.link(index));
                }
                if cuts.coupled || link.filters_acks() {
                    Station::Coupled(Box::new(link), slot)
                } else {
                    Station::Queue(Box::new(link), slot)
                }
            }
        });
        let links = links.collect();
        let connections = scenario.workload.senders();
        let access = scenario.access.iter().flat_map(|access| vec![AccessLink::new(access); topology.access_links]);
        let fabric = Fabric {
            lanes: lanes.collect(),
            lines,
            after_links: lane_lines,
            schedules: slots.schedules(ranks.group(1)),
            lookahead: cuts.lookahead,
            links,
            frames,
            access: access.collect(),
            ends: Ends::new(connections),
            classes,
            seats: Vec::with_capacity(connections),
            crowd,
            gathers: is_crowd,
            served: 0,
            gathered: Vec::with_capacity(if is_crowd { GATHERED } else { 0 }),
            gathered_by: Time::NEVER,
            gathered_source,
            delayed_acks: Tournament::new(topology.steady.len()),
            delayed_acks_source,
            ranks,
            senders: Timers::default(),
            senders_source,
            apps: BinaryHeap::new(),
            apps_source,
            steps_source,
            flows: setup::flows(scenario, options),
            end: scenario.duration,
        };
        (fabric, sources)
    }

    /// Handles the events of a group from `now` until the earliest time at which an event elsewhere could affect it,
    /// but before `until`. Returns their number, which is 0 if the group's first event was postponed after it was
    /// scheduled.
    #[inline(never)]
    fn run_ahead(&mut self, group: usize, now: Time, until: Time, sources: &[Source], hosts: &mut Hosts) -> u64 {
        let lookahead = if planted(Fault::Ahead) { self.lookahead[group].0 * 3 } else { self.lookahead[group].0 };
        let horizon = (now + Span(lookahead)).min(until);
        let mut packet = Packet::default();
        let mut events = 0;
        self.schedules.begin(group);
        loop {
            let (source, now) = self.schedules.first_of(group);
            if now >= horizon {
                break;
            }
            events += 1;
            match sources[source] {
                Source::Link(index) => self.link_event::<false>(index, now, &mut packet),
                Source::CrowdLink(index) => self.link_event::<true>(index, now, &mut packet),
                other => self.event(other, hosts),
            }
        }
        self.schedules.end(group);
        events
    }

    /// Dispatches every event source except links, link changes and groups. Used by the main loop and by
    /// [`Fabric::run_ahead`].
    #[inline(always)]
    fn event(&mut self, source: Source, hosts: &mut Hosts) {
        match source {
            Source::Into(line) => self.line_event(line),
            Source::Out(line) => self.out_event(line, hosts),
            Source::CrowdOut(line) => {
                self.warm_out(line, hosts);
                self.out_event(line, hosts);
            }
            Source::Frame(link) => self.frame_event(link),
            Source::Gathered => self.deliver_gathered(),
            Source::DelayedAck(class) => self.delayed_ack(class),
            Source::Senders => self.sender_timer(hosts),
            Source::Apps => self.app_event(hosts),
            Source::Steps | Source::Link(_) | Source::CrowdLink(_) | Source::Group(_) => {}
        }
    }

    /// Handles an event of an application.
    fn app_event(&mut self, hosts: &mut Hosts) {
        if let Some(Reverse((at, event))) = self.apps.pop() {
            self.schedules.set(self.apps_source, self.first_app());
            hosts.act(at, event, self);
        }
    }

    /// Handles a packet's arrival at a link.
    fn line_event(&mut self, line: usize) {
        if let Some(mut packet) = self.lines[line].take(&mut self.schedules) {
            self.travel(self.lines[line].target, &mut packet);
        }
    }

    /// Handles a packet's arrival at an end host.
    #[inline(always)]
    fn out_event(&mut self, line: usize, hosts: &mut Hosts) {
        match self.lines[line].packets.front() {
            Some(packet) if packet.is_plain_ack() => self.plain_ack_event(line, hosts),
            _ => self.other_out_event(line, hosts),
        }
    }

    /// Handles the arrival of an ACK without SACK blocks at an end host.
    #[inline(never)]
    fn plain_ack_event(&mut self, line: usize, hosts: &mut Hosts) {
        let line = &mut self.lines[line];
        let Some(packet) = line.packets.front() else { return };
        let (now, conn, ack) = (packet.time, packet.conn(), packet.ack());
        line.advance(&mut self.schedules);
        hosts.senders.acknowledge(now, conn, ack, &[], self);
    }

    /// Handles the arrival of any other packet at an end host.
    #[inline(never)]
    fn other_out_event(&mut self, line: usize, hosts: &mut Hosts) {
        let Some(mut packet) = self.lines[line].take(&mut self.schedules) else { return };
        if packet.is_for_receiver() {
            self.travel(Target::Hosts, &mut packet);
        } else {
            let options = self.ends.take_options(&packet);
            hosts.receive(packet.time, packet, &options, self);
        }
    }

    /// Whether the state of the flows exceeds a core's caches.
    #[inline]
    fn is_crowd(&self) -> bool {
        self.seats.len() >= self.crowd
    }

    /// Prefetches the state that the next packets at an end host will touch, in stages: first the sender, then its
    /// meter, the memory that the sender points to and the ACK's SACK blocks, and finally the meter's bin and the
    /// segment that is SACKed. With many flows, the state of one flow covers about twenty cache lines, all of which
    /// have been evicted when the flow's next packet arrives. Loading them one after the other would take longer than
    /// processing them, and stages of different packets overlap. The packet itself is prefetched even earlier.
    #[inline(never)]
    fn warm_out(&mut self, line: usize, hosts: &Hosts) {
        let packets = &self.lines[line].packets;
        // The packet was written one round trip ago.
        if let Some(packet) = packets.get(2 * AHEAD) {
            Processor.fetch(packet);
        }
        if let Some(packet) = packets.get(AHEAD) {
            if packet.is_ack() {
                hosts.senders.warm(packet.conn(), packet.has_blocks());
            } else if packet.is_data() {
                self.ends.warm(packet.conn());
            }
        }
        if let Some(packet) = packets.get(BEHIND) {
            let conn = packet.conn();
            if packet.is_ack() {
                let repairs = packet.has_blocks();
                self.flows[hosts.senders.entry(conn)].prefetch(repairs, &Processor);
                hosts.senders.warm_first(conn, packet.ack().cum, repairs);
                if repairs {
                    self.ends.warm_blocks(packet);
                }
            } else if packet.is_data() {
                self.ends.warm_held(conn);
            }
        }
        if let Some(packet) = packets.get(LAST)
            && packet.is_ack()
        {
            let conn = packet.conn();
            self.flows[hosts.senders.entry(conn)].prefetch_rtt(packet.shows_rtt(), &Processor);
            if packet.has_blocks()
                && let Some(sacked) = self.ends.newest_block(packet)
            {
                hosts.senders.warm_first(conn, sacked, false);
            }
        }
    }

    /// Prefetches the sender whose timer expires next.
    #[inline]
    fn warm_timer(&self, hosts: &Hosts) {
        if let Some((_, conn)) = self.senders.due() {
            hosts.senders.warm(conn, true);
        }
    }

    /// Prefetches the packets that will probably be sent next, from which their flows are known, and the receiver whose
    /// delayed ACK is due next.
    #[inline(never)]
    fn warm_queue(&self, index: usize) {
        if let Station::Queue(link, _) = &self.links[index] {
            link.prefetch(AHEAD);
        }
        if let Some(Class { timers, conns }) = self.classes.get(self.delayed_acks.first())
            && let Some((_, seat)) = timers.due()
        {
            self.ends.warm(conns[seat as usize]);
        }
    }

    /// Collects a packet for a receiver that runs ahead. The batch is delivered when it is full or when its first
    /// packet is due.
    #[inline]
    fn gather(&mut self, packet: &Packet) {
        if packet.time < self.gathered_by && !planted(Fault::Gathered) {
            self.gathered_by = packet.time;
            self.schedules.set(self.gathered_source, packet.time);
        }
        self.gathered.push(*packet);
        if self.gathered.len() >= GATHERED {
            self.deliver_gathered();
        }
    }

    /// Delivers the collected packets to their receivers and prefetches the receivers' state meanwhile. Delivering each
    /// packet at its departure would evict the link's code and data from the caches every time.
    #[inline(never)]
    fn deliver_gathered(&mut self) {
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.iter().take(AHEAD).for_each(|packet| self.ends.warm(packet.conn()));
        gathered.iter().take(BEHIND).for_each(|packet| self.ends.warm_held(packet.conn()));
        for at in 0..gathered.len() {
            if let Some(packet) = gathered.get(at + AHEAD) {
                self.ends.warm(packet.conn());
            }
            if let Some(packet) = gathered.get(at + BEHIND) {
                self.ends.warm_held(packet.conn());
            }
            self.travel(Target::Hosts, &mut gathered[at]);
        }
        debug_assert!(self.gathered.is_empty(), "what a receiver sends goes to no receiver that is run ahead");
        gathered.clear();
        self.gathered = gathered;
        self.gathered_by = Time::NEVER;
        self.schedules.set(self.gathered_source, Time::NEVER);
    }

    /// Handles an event of a link, which is `event` in the schedule, and the link's following events as long as they
    /// are the first in the schedule and before `pause`. Returns the schedule's first entry afterwards.
    #[inline(never)]
    fn link_events<const MANY: bool>(
        &mut self,
        index: usize,
        event: (usize, Time),
        pause: Time,
        events: &mut u64,
    ) -> (usize, Time) {
        let (source, mut now) = event;
        let mut packet = Packet::default();
        loop {
            self.link_event::<MANY>(index, now, &mut packet);
            let next = self.schedules.first();
            if next.0 != source || next.1 >= pause {
                return next;
            }
            now = next.1;
            *events += 1;
        }
    }

    /// Handles an event of a link. With many flows (`MANY`), the flows that are served next are prefetched.
    #[inline(always)]
    fn link_event<const MANY: bool>(&mut self, index: usize, now: Time, packet: &mut Packet) {
        if let Some(target) = self.serve(index, now, packet) {
            self.travel(target, packet);
        }
        if MANY {
            self.served += 1;
            if self.served.is_multiple_of(AHEAD) {
                self.warm_queue(index);
            }
        }
    }

    fn reschedule(&mut self, index: usize) {
        if let Station::Queue(link, source) | Station::Coupled(link, source) = &self.links[index] {
            self.schedules.set(*source, link.next_event());
        }
    }

    /// Passes a packet to a station, and on to further stations as long as the lines between need no event.
    #[inline(always)]
    fn travel(&mut self, mut target: Target, packet: &mut Packet) {
        while let Some(next) = self.visit(target, packet) {
            target = next;
        }
    }

    /// Handles a packet's arrival at a station, at or (where the short cuts allow it) ahead of the clock. `packet` is
    /// replaced by the packet that leaves the station as a result. Returns the station that this packet reaches without
    /// an event.
    #[inline(always)]
    fn visit(&mut self, target: Target, packet: &mut Packet) -> Option<Target> {
        let Target::Link(index) = target else { return self.deliver(packet) };
        match &mut self.links[index] {
            Station::Queue(..) | Station::Coupled(..) => self.queue(index, packet),
            Station::Closed(link) => match link.arrive(packet) {
                Some(at) if planted(Fault::ClosedForm) => self.leave(index, packet, at + Span(1)),
                Some(at) => self.leave(index, packet, at),
                None => {
                    self.lose(*packet);
                    None
                }
            },
        }
    }

    /// Handles an arrival at a queue. If the link is idle, a transmission starts and `packet` becomes the packet that
    /// is sent.
    #[inline(never)]
    fn queue(&mut self, index: usize, packet: &mut Packet) -> Option<Target> {
        let Station::Queue(link, _) = &mut self.links[index] else { return self.queue_coupled(index, packet) };
        let now = packet.time;
        let starts = link.arrive(now, packet);
        if !link.drops.is_empty() {
            self.settle(index, now);
        }
        if starts { self.serve(index, now, packet) } else { None }
    }

    /// Handles an event of a link. `packet` becomes the packet that is sent, if any. Returns the station that it
    /// reaches without an event.
    #[inline(always)]
    fn serve(&mut self, index: usize, now: Time, packet: &mut Packet) -> Option<Target> {
        let Station::Queue(link, source) = &mut self.links[index] else {
            return self.serve_coupled(index, now, packet);
        };
        let left = link.event(now, packet);
        self.schedules.set(*source, link.next_event());
        if !link.drops.is_empty() {
            self.settle(index, now);
        }
        self.leave(index, packet, left?)
    }

    /// Like [`Fabric::queue`], for links with flow control or an ACK filter.
    #[cold]
    #[inline(never)]
    fn queue_coupled(&mut self, index: usize, packet: &mut Packet) -> Option<Target> {
        let Station::Coupled(link, _) = &mut self.links[index] else { return None };
        let now = packet.time;
        if link.filters_acks() && packet.has_blocks() {
            link.store_blocks(packet, self.ends.options(packet));
        }
        let starts = link.arrive(now, packet);
        self.send_frames(index);
        self.settle(index, now);
        if starts { self.serve_coupled(index, now, packet) } else { None }
    }

    /// Like [`Fabric::serve`], for links with flow control or an ACK filter.
    #[cold]
    #[inline(never)]
    fn serve_coupled(&mut self, index: usize, now: Time, packet: &mut Packet) -> Option<Target> {
        let Station::Coupled(link, source) = &mut self.links[index] else { return None };
        let left = link.event(now, packet);
        self.schedules.set(*source, link.next_event());
        self.send_frames(index);
        self.settle(index, now);
        self.leave(index, packet, left?)
    }

    /// Sends a link's pause frames to the previous link.
    fn send_frames(&mut self, index: usize) {
        let Station::Coupled(link, _) = &mut self.links[index] else { return };
        while let Some(frame) = link.take_frame() {
            let Frames { ring, source } = &mut self.frames[frame.link];
            if let (Some(source), true) = (source, ring.is_empty()) {
                self.schedules.set(*source, frame.at);
            }
            ring.push(frame);
        }
    }

    /// Handles the arrival of a pause frame.
    fn frame_event(&mut self, index: usize) {
        let Frames { ring, source } = &mut self.frames[index];
        let frame = ring.pop();
        if let Some(source) = source {
            self.schedules.set(*source, ring.front().map_or(Time::NEVER, |next| next.at));
        }
        if let (Some(frame), Station::Coupled(link, _)) = (frame, &mut self.links[index]) {
            link.receive(frame.at, frame.stop);
        }
        self.reschedule(index);
    }

    /// Puts a packet that reaches the far end of a link at `at` onto the next line.
    #[inline(always)]
    fn leave(&mut self, index: usize, packet: &mut Packet, at: Time) -> Option<Target> {
        packet.time = at;
        let lane = &self.lanes[packet.lane()];
        if lane.last != index {
            return self.lines[self.after_links + index].put(packet, &mut self.schedules, self.end);
        }
        packet.time += lane.delay_out;
        if lane.fused_out && !planted(Fault::Fused) {
            if packet.time >= self.end {
                return None;
            }
            if self.gathers {
                self.gather(packet);
                return None;
            }
            return Some(Target::Hosts);
        }
        if let Some((_, down)) = lane.access {
            self.pass_access(down, packet)?;
            let out = self.lanes[packet.lane()].out;
            return self.lines[out].put(packet, &mut self.schedules, self.end);
        }
        let out = &mut self.lines[lane.out];
        if planted(Fault::Fused) && out.source.is_none() {
            packet.time += Span(1);
        }
        out.put(packet, &mut self.schedules, self.end)
    }

    /// Sends a packet from a host to the first link.
    #[inline(always)]
    fn enter(&mut self, packet: &mut Packet) -> Option<Target> {
        let lane = &self.lanes[packet.lane()];
        if let Some(index) = lane.fused_in {
            packet.time += lane.delay_in;
            return (packet.time < self.end).then_some(Target::Link(index));
        }
        if let Some((up, _)) = lane.access {
            self.pass_access(up, packet)?;
        }
        let lane = &self.lanes[packet.lane()];
        packet.time += lane.delay_in;
        self.lines[lane.into].put(packet, &mut self.schedules, self.end)
    }

    /// Passes a packet through an access link and sets its time to its arrival at the far end. `None` if it is dropped.
    #[inline(never)]
    fn pass_access(&mut self, index: usize, packet: &mut Packet) -> Option<()> {
        let Some(at) = self.access[index].pass(packet.time, packet.ip_bytes()) else {
            self.lose(*packet);
            return None;
        };
        packet.time = if planted(Fault::Access) { at + Span(1) } else { at };
        Some(())
    }

    /// Handles a packet's arrival at a data receiver, at or ahead of the clock. Delayed ACKs that precede it are sent
    /// first.
    #[inline(always)]
    fn deliver(&mut self, packet: &mut Packet) -> Option<Target> {
        let (now, conn, class) = (packet.time, packet.conn(), packet.lane() / 2);
        if self.delayed_acks.least() < now && !planted(Fault::DelayedAck) {
            self.delayed_acks(class, now);
        }
        let Received { answers, complete, closes, deadline } =
            if packet.is_data() { self.ends.receive(now, packet) } else { self.receive_other(packet) };
        for _ in 0..complete {
            self.post(now, Event::Complete(conn));
        }
        self.arm_delayed_ack(class, conn, deadline);
        if closes {
            return self.finish_with(now, conn, answers.then_some(*packet));
        }
        if answers { self.enter(packet) } else { None }
    }

    /// Sends a FIN after the last ACK, if it leaves now.
    #[cold]
    #[inline(never)]
    fn finish_with(&mut self, now: Time, conn: u32, ack: Option<Packet>) -> Option<Target> {
        ack.into_iter().for_each(|ack| self.emit(ack));
        self.close(now, conn);
        None
    }

    /// Handles the arrival of a packet without data at a data receiver.
    #[inline(always)]
    fn receive_other(&mut self, packet: &mut Packet) -> Received {
        if packet.code() == DATAGRAM {
            self.receive_datagram(*packet);
            return Received { answers: false, complete: 0, closes: false, deadline: Time::NEVER };
        }
        let (received, answer) = self.ends.receive_other(packet.time, *packet);
        *packet = answer;
        received
    }

    /// Handles the arrival of a datagram at its receiver. (The packet is passed by value: with its address taken, every
    /// packet would have to be kept in memory instead of registers.)
    #[cold]
    #[inline(never)]
    fn receive_datagram(&mut self, packet: Packet) {
        let entry = self.ends.entry(packet.conn());
        self.flows[entry as usize].received_datagram(packet.time, packet.sent(), packet.seq());
    }

    /// Sends the delayed ACKs of a class that are due before `now`.
    #[cold]
    #[inline(never)]
    fn delayed_acks(&mut self, class: usize, now: Time) {
        while self.classes[class].timers.first() < now {
            self.check_delayed_ack(class);
        }
        self.reschedule_class(class);
    }

    /// Handles the first delayed ACK of a class.
    #[cold]
    #[inline(never)]
    fn delayed_ack(&mut self, class: usize) {
        self.check_delayed_ack(class);
        self.reschedule_class(class);
    }

    /// Sends the first delayed ACK of a class, if it is still due.
    #[inline]
    fn check_delayed_ack(&mut self, class: usize) {
        let is_crowd = self.is_crowd();
        let Class { timers, conns } = &mut self.classes[class];
        let Some((at, seat)) = timers.due() else { return };
        let conn = conns[seat as usize];
        let ack = if self.ends.deadline(conn) <= at { self.ends.on_timer(at, conn) } else { None };
        timers.rearm(seat, self.ends.next_deadline(conn));
        if is_crowd {
            timers.prefetch(&Processor);
        }
        if let Some(ack) = ack {
            self.emit_delayed(ack);
        }
    }

    /// Like [`Net::emit`], for callers that rarely send a packet.
    #[inline(never)]
    fn emit_delayed(&mut self, ack: Packet) {
        self.emit(ack);
    }

    #[inline]
    fn arm_delayed_ack(&mut self, class: usize, conn: u32, deadline: Time) {
        if deadline != Time::NEVER && self.classes[class].timers.arm(self.seats[conn as usize], deadline) {
            self.reschedule_class(class);
        }
    }

    fn reschedule_class(&mut self, class: usize) {
        self.delayed_acks.set(class, self.classes[class].timers.first());
        let rank = self.ranks.delayed_ack(self.delayed_acks.first());
        self.schedules.set(self.delayed_acks_source.of_rank(rank), self.delayed_acks.least());
    }

    fn sender_timer(&mut self, hosts: &mut Hosts) {
        if let Some((at, conn)) = self.senders.due() {
            if hosts.senders.deadline(conn) <= at {
                hosts.senders.on_timer(at, conn, self);
            }
            self.senders.rearm(conn, hosts.senders.renew(conn));
            // Under overload most events are timers, in direct succession.
            if self.is_crowd() {
                self.warm_timer(hosts);
            }
        }
        self.reschedule_senders();
    }

    #[inline(never)]
    fn reschedule_senders(&mut self) {
        self.schedules.set(self.senders_source, self.senders.first());
    }

    fn change(&mut self, now: Time, index: usize, change: Change) {
        if let Station::Queue(link, _) | Station::Coupled(link, _) = &mut self.links[index] {
            link.change(now, change);
        }
        self.send_frames(index);
        self.settle(index, now);
        self.reschedule(index);
    }

    /// Handles the drops of a link's discipline.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, index: usize, now: Time) {
        while let Station::Queue(link, _) | Station::Coupled(link, _) = &mut self.links[index]
            && let Some(packet) = link.take_drop(now)
        {
            self.lose(packet.at(now));
        }
    }

    /// Handles the loss of a packet at `packet.time`.
    #[cold]
    fn lose(&mut self, packet: Packet) {
        self.flows[self.ends.entry(packet.conn()) as usize].dropped(packet.time);
        self.ends.lost(&packet);
    }

    fn first_app(&self) -> Time {
        self.apps.peek().map_or(Time::NEVER, |&Reverse((at, _))| at)
    }

    fn finish(self, scenario: &Scenario, options: &Options, hosts: Hosts, events: u64) -> Output {
        let links = self.links.into_iter().map(|station| match station {
            Station::Queue(link, _) | Station::Coupled(link, _) => link.finish(),
            Station::Closed(link) => link.finish(),
        });
        let rest = EndState { flows: self.flows, ends: self.ends, hosts, events };
        setup::output(scenario, options, links, rest)
    }
}

impl Net for Fabric {
    #[inline(always)]
    fn emit(&mut self, mut packet: Packet) {
        if let Some(target) = self.enter(&mut packet) {
            self.travel(target, &mut packet);
        }
    }

    /// If the first link is busy and receives packets without an event, it enqueues all of them at once.
    #[inline(always)]
    fn emit_run(&mut self, packet: Packet, numbers: Range<u32>, make: impl Fn(Packet, u32) -> Packet) {
        let lane = &self.lanes[packet.lane()];
        if let Some(index) = lane.fused_in
            && let Station::Queue(link, _) = &mut self.links[index]
            && link.is_busy()
        {
            let at = packet.time;
            link.arrive_in_run(at, packet, numbers, make);
            if !link.drops.is_empty() {
                self.settle(index, at);
            }
            return;
        }
        for number in numbers {
            self.emit(make(packet, number));
        }
    }

    #[inline]
    fn meter(&mut self, entry: u32) -> &mut FlowMeter {
        &mut self.flows[entry as usize]
    }

    fn post(&mut self, at: Time, event: Event) {
        self.apps.push(Reverse((at, event)));
        self.schedules.set(self.apps_source, self.first_app());
    }

    #[inline(always)]
    fn arm(&mut self, conn: u32, deadline: Time, reported: &mut Time) {
        if deadline >= *reported || (planted(Fault::LazyTimer) && *reported != Time::NEVER) {
            return;
        }
        *reported = deadline;
        if self.senders.arm(conn, deadline) {
            self.reschedule_senders();
        }
    }

    fn open(&mut self, config: &Config, full: &Packet, entry: u32) {
        let conns = &mut self.classes[full.lane() / 2].conns;
        conns.push(self.seats.len() as u32);
        self.seats.push(conns.len() as u32 - 1);
        self.ends.open(config, full, entry);
    }

    fn expect(&mut self, conn: u32, target: u32, closes: bool) {
        self.ends.expect(conn, target, closes);
    }

    fn close(&mut self, now: Time, conn: u32) {
        let fin = self.ends.closing(now, conn);
        self.emit(fin);
    }

    fn shaken(&self, conn: u32) -> Option<Span> {
        self.ends.handshake_rtt(conn)
    }
}

impl Line {
    /// Puts a packet on the line. Returns the station at its end if the packet passes without an event. Packets that
    /// would arrive after the end of the run are discarded.
    #[inline(always)]
    fn put(&mut self, packet: &Packet, schedules: &mut Schedules, end: Time) -> Option<Target> {
        let Some(source) = self.source else { return (packet.time < end).then_some(self.target) };
        if self.shared.is_some() && packet.time <= self.last && !planted(Fault::Overtake) {
            self.overtake(packet, source, schedules);
            return None;
        }
        self.last = packet.time;
        if self.packets.is_empty() {
            schedules.set(self.slot(source, packet), packet.time);
        }
        self.packets.push(*packet);
        None
    }

    /// Like [`Line::put`], for a packet that may overtake others on the line.
    #[inline(never)]
    fn overtake(&mut self, packet: &Packet, source: Slot, schedules: &mut Schedules) {
        let (time, lane) = (packet.time, packet.lane());
        let precedes = |other: &Packet| time < other.time || (time == other.time && lane < other.lane());
        let index = self.packets.insert_where(*packet, precedes);
        if index == 0 {
            schedules.set(self.slot(source, packet), packet.time);
        }
    }

    /// The line's position in the schedule if `packet` is its first.
    #[inline(always)]
    fn slot(&self, source: Slot, packet: &Packet) -> Slot {
        match self.shared {
            Some(first) => source.of_rank(first + packet.lane() * Ranks::PER_LANE),
            None => source,
        }
    }

    /// Removes and returns the first packet.
    #[inline(always)]
    fn take(&mut self, schedules: &mut Schedules) -> Option<Packet> {
        let packet = *self.packets.front()?;
        self.advance(schedules);
        Some(packet)
    }

    /// Removes the first packet.
    #[inline(always)]
    fn advance(&mut self, schedules: &mut Schedules) {
        self.packets.pop();
        if let Some(source) = self.source {
            match self.packets.front() {
                Some(next) => schedules.set(self.slot(source, next), next.time),
                None => schedules.set(source, Time::NEVER),
            }
        }
    }
}
