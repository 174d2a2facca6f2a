//! The fast engine. No global event heap for packets: one ring per constant-delay line, and the least of their heads is next.
//!
//! Lines of nearly the same delay share a ring, in which a packet takes its place by time and then by lane.
//!
//! What it does not schedule, it computes: a FIFO of constant rate tells on arrival when a packet will have left (closed
//! form), a host's own link likewise, and a data receiver runs at the last link's departure (of thousands of flows some
//! departures later), ahead of the clock by the delay between them, after the delayed ACKs (and SYN-ACKs sent again) that
//! come before that packet. All of that is legal because the order in which such a station sees its inputs does not depend
//! on when they are computed: each has one input line, times on a line never fall, and where two inputs could tie at zero
//! delay the short cut is not taken. `heap.rs` takes no short cut at all and must give identical records.
//!
//! For the same reason a link, or all hosts together, may do in one go all that is to happen there until what happens
//! elsewhere now can reach them: the lookahead of conservative parallel simulation (Chandy and Misra 1979), here for the
//! sake of the caches and of the schedule, which is asked for the next of few.

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
use crate::hosts::{Event, Hosts, Net, connections};
use crate::link::{Frame, Link};
use crate::packet::{DATAGRAM, Packet};
use crate::plan::{Plan, Target};
use crate::planted::{Fault, planted};
use crate::prefetch::Processor;
use crate::schedule::{CLOCK, Place, Places, Schedules};
use crate::setup::Rest;
use crate::timers::Timers;
use crate::topology::{Change, Ranks, Topology, changes};
use crate::tournament::Tournament;
use crate::{Options, Output, Stopped, setup};

/// From so many entries or connections on a core's caches do not hold the flows, and what is needed soon is fetched beforehand.
const CROWD: usize = 256;
/// From so many entries on a timer expires every few packets.
const BUSY: usize = 16;
/// So many packets beforehand: what is needed at once, what lies behind that, and what lies behind that again. Few enough that it
/// is still there when it is needed.
const AHEAD: usize = 8;
const BEHIND: usize = 4;
const LAST: usize = 2;
/// In a crowd so many packets wait for receivers that are run ahead, which get them in one go.
const GATHERED: usize = 256;

/// What a source of events is.
#[derive(Clone, Copy)]
enum Source {
    /// A change of a rate or delay.
    Steps,
    /// A packet at the end of this line, at a link.
    Into(usize),
    /// A packet at the end of this line, at an end host.
    Out(usize),
    /// The same in a crowd.
    CrowdOut(usize),
    /// A pause frame at this link.
    Frame(usize),
    /// The end of a transmission.
    Link(usize),
    /// The same in a crowd.
    CrowdLink(usize),
    /// What has gathered for receivers.
    Gathered,
    /// A delayed ACK of a class.
    DelayedAck(usize),
    /// A retransmission timer.
    Senders,
    /// An application.
    Apps,
    /// A group that runs ahead, at its first event or before it.
    Group(usize),
}

/// A constant-delay line between two stations, or several of nearly the same delay.
struct Line {
    /// By time, then by lane.
    packets: Ring<Packet>,
    target: Target,
    /// Its place in the schedule; none if what is put on it goes through at once, or nothing ever is.
    source: Option<Place>,
    /// Where lanes share it: the rank of a packet of lane 0.
    shared: Option<usize>,
    /// Until when packets are on it, so far.
    last: Time,
}

/// One direction of a class, with its first and last line.
struct LaneState {
    last: usize,
    delay_in: Span,
    delay_out: Span,
    access: Option<(usize, usize)>,
    /// From the last link straight into the host.
    fused: bool,
    /// The first link, if packets go from the host straight to it. (To one with events only where there is no delay.)
    doorstep: Option<usize>,
    /// The line from the host to the first link.
    into: usize,
    /// The line from the last link to the host.
    out: usize,
}

/// A link, in one of two forms.
enum Station {
    /// With a queue discipline and events: the second is its place in the schedule.
    Queue(Box<Link>, Place),
    /// Computed on arrival.
    Closed(Box<ClosedLink>),
    /// With a queue discipline and events, and a part in flow control or a filter of ACKs.
    Coupled(Box<Link>, Place),
}

/// Pause frames on their way to a link, in order.
#[derive(Default)]
struct Frames {
    ring: Ring<Frame>,
    /// Its place in the schedule; none where no frames come.
    source: Option<Place>,
}

/// The delayed-ACK timers of a class of flows, by a connection's seat in it.
#[derive(Clone, Default)]
struct Class {
    timers: Timers,
    conns: Vec<u32>,
}

/// Everything between the data senders.
struct Fabric {
    lanes: Vec<LaneState>,
    /// Into and out of the lanes, then behind each link to the next.
    lines: Vec<Line>,
    /// The first line behind a link.
    behind: usize,
    schedules: Schedules,
    /// Of each group.
    lookahead: Vec<Span>,
    links: Vec<Station>,
    /// On the way to each link.
    frames: Vec<Frames>,
    access: Vec<AccessLink>,
    ends: Ends,
    classes: Vec<Class>,
    /// Each connection's seat in its class.
    seats: Vec<u32>,
    /// From so many connections on a core's caches do not hold them; and whether there are so many entries.
    crowd: usize,
    gathers: bool,
    /// In a crowd: transmissions, and packets at end hosts, so far.
    served: usize,
    /// In a crowd: what waits for receivers that are run ahead, in order of departure; and when the first must be there.
    gathered: Vec<Packet>,
    gathered_by: Time,
    gathered_source: Place,
    /// Each class's first delayed ACK.
    delayed_acks: Tournament,
    delayed_acks_source: Place,
    ranks: Ranks,
    senders: Timers,
    senders_source: Place,
    apps: BinaryHeap<Reverse<(Time, Event)>>,
    apps_source: Place,
    steps_source: Place,
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
    // The run is looked at from outside a thousand times: one comparison finds these moments and the end.
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

/// What has each rank.
fn sources(ranks: Ranks, topology: &Topology, plan: &Plan, crowd: bool) -> Vec<Source> {
    let out = if crowd { Source::CrowdOut } else { Source::Out };
    let link = if crowd { Source::CrowdLink } else { Source::Link };
    let lanes = topology.lanes.len();
    let groups = plan.lookahead.len();
    let mut sources = vec![Source::Steps; ranks.count(groups)];
    (1..groups).for_each(|group| sources[ranks.group(group)] = Source::Group(group));
    for lane in 0..lanes {
        sources[ranks.into(lane)] = Source::Into(plan.line[lane * 2]);
        sources[ranks.out(lane)] = out(plan.line[lane * 2 + 1]);
    }
    for class in 0..lanes / 2 {
        sources[ranks.delayed_ack(class)] = Source::DelayedAck(class);
    }
    sources[Ranks::GATHERED] = Source::Gathered;
    sources[ranks.sender()] = Source::Senders;
    sources[ranks.app()] = Source::Apps;
    for index in 0..plan.closed.len() {
        sources[ranks.hop(index)] = Source::Into(lanes * 2 + index);
        sources[ranks.frame(index)] = Source::Frame(index);
        sources[ranks.link(index)] = link(index);
    }
    sources
}

impl Fabric {
    fn new(scenario: &Scenario, topology: &Topology, options: &Options) -> (Fabric, Vec<Source>) {
        let plan = Plan::new(scenario, topology, options);
        let ranks = Ranks::new(topology, scenario);
        let mut places = Places::new(plan.lookahead.len());
        let crowd = options.crowd.unwrap_or(CROWD);
        let is_crowd = scenario.workload.entries.len() >= crowd;
        let busy = scenario.workload.entries.len() >= BUSY;
        let sources = sources(ranks, topology, &plan, is_crowd);
        let steps_source = places.add(CLOCK, Ranks::STEP, false);
        let lane_lines = topology.lanes.len() * 2;
        let line = |index: usize| {
            let (first, rank) = match (index < lane_lines, index % 2) {
                (true, 0) => (ranks.into(0), ranks.into(index / 2)),
                (true, _) => (ranks.out(0), ranks.out(index / 2)),
                (false, _) => (0, ranks.hop(index - lane_lines)),
            };
            let group = match plan.targets[index] {
                Target::Hosts => plan.hosts,
                Target::Link(link) => plan.group[link],
            };
            let source = plan.waits[index].then(|| places.add(group, rank, true));
            let shared = plan.shared[index].then_some(first);
            Line { packets: Ring::default(), target: plan.targets[index], source, shared, last: Time::ZERO }
        };
        let lines = (0..plan.targets.len()).map(line).collect();
        let lanes = topology.lanes.iter().enumerate().map(|(index, lane)| LaneState {
            last: lane.last,
            delay_in: lane.delay_in,
            delay_out: lane.delay_out,
            access: lane.access,
            fused: lane.access.is_none() && plan.direct[index * 2 + 1],
            doorstep: (lane.access.is_none() && plan.direct[index * 2]).then_some(lane.path[0]),
            into: plan.line[index * 2],
            out: plan.line[index * 2 + 1],
        });
        let classes = vec![Class::default(); topology.steady.len()];
        // Who paces has a timer for every burst; and those who pace lose much, so that ACKs of what comes above a hole wait for each other.
        let paces = scenario.workload.entries.iter().any(|entry| entry.tcp.cc.is_modelled());
        let delayed_acks_source = places.add(plan.hosts, ranks.delayed_ack(0), busy || paces);
        let senders_source = places.add(plan.hosts, ranks.sender(), busy || paces);
        let apps_source = places.add(plan.hosts, ranks.app(), false);
        let gathered_source = places.add(plan.hosts, Ranks::GATHERED, false);
        let frames = (0..scenario.hops.len() * 2).map(|link| Frames {
            source: scenario.can_be_stopped(link).then(|| places.add(CLOCK, ranks.frame(link), false)),
            ..Frames::default()
        });
        let frames = frames.collect();
        // Links come last: whoever sends at a time sends before a departure at that time.
        let links = plan.closed.into_iter().enumerate().map(|(index, closed)| match closed {
            Some(closed) => Station::Closed(Box::new(closed)),
            None => {
                let place = places.add(plan.group[index], ranks.link(index), true);
                let mut link = Link::new(index, scenario.link(index), &setup::link(scenario, index), options);
                if plan.lags[index] {
                    link.hand_over_early(scenario.link(index));
                }
                if plan.coupled[index] || link.filters_acks() {
                    Station::Coupled(Box::new(link), place)
                } else {
                    Station::Queue(Box::new(link), place)
                }
            }
        });
        let links = links.collect();
        let connections = connections(scenario);
        let access = scenario.access.iter().flat_map(|access| vec![AccessLink::new(access); topology.access_links]);
        let fabric = Fabric {
            lanes: lanes.collect(),
            lines,
            behind: lane_lines,
            schedules: places.schedules(ranks.group(1)),
            lookahead: plan.lookahead,
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

    /// What happens in a group from `now` until something could come to it that is not known now, but before `until`; says how
    /// many events that were: none, if what was first has been put off since the clock was told.
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

    /// What is the same on the clock and ahead of it: all but links, their changes, and groups.
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

    /// An application.
    fn app_event(&mut self, hosts: &mut Hosts) {
        if let Some(Reverse((at, event))) = self.apps.pop() {
            self.schedules.set(self.apps_source, self.first_app());
            hosts.act(at, event, self);
        }
    }

    /// A packet at a link.
    fn line_event(&mut self, line: usize) {
        if let Some(mut packet) = self.lines[line].take(&mut self.schedules) {
            self.travel(self.lines[line].target, &mut packet);
        }
    }

    /// A packet at an end host.
    #[inline(always)]
    fn out_event(&mut self, line: usize, hosts: &mut Hosts) {
        match self.lines[line].packets.front() {
            Some(packet) if packet.is_plain_ack() => self.plain_ack_event(line, hosts),
            _ => self.other_out_event(line, hosts),
        }
    }

    /// An ACK without blocks at an end host.
    #[inline(never)]
    fn plain_ack_event(&mut self, line: usize, hosts: &mut Hosts) {
        let line = &mut self.lines[line];
        let Some(packet) = line.packets.front() else { return };
        let (now, conn, ack) = (packet.time, packet.conn(), packet.ack());
        line.advance(&mut self.schedules);
        hosts.acknowledge(now, conn, ack, &[], self);
    }

    /// Anything but an ACK without blocks at an end host.
    #[inline(never)]
    fn other_out_event(&mut self, line: usize, hosts: &mut Hosts) {
        let Some(mut packet) = self.lines[line].take(&mut self.schedules) else { return };
        if packet.is_for_receiver() {
            self.travel(Target::Hosts, &mut packet);
        } else {
            let told = self.ends.take_told(&packet);
            hosts.receive(packet.time, packet, &told, self);
        }
    }

    /// Whether a core's caches do not hold the flows.
    #[inline]
    fn is_crowd(&self) -> bool {
        self.seats.len() >= self.crowd
    }

    /// Fetches what the next packets at an end host need while they wait: of one the bin of its meter, and the segment that it SACKs;
    /// of one behind it the meter, what lies behind the sender, and the blocks that come with it; and of one behind that the sender. A
    /// flow of a crowd lies on some twenty lines of a cache, none of which is there any more when the flow's turn comes: fetched one
    /// after the other they would take longer than all that is done with them, and fetched for several packets at once they would wait
    /// for each other. And the packet itself, of one far behind.
    #[inline(never)]
    fn warm_out(&mut self, line: usize, hosts: &Hosts) {
        let packets = &self.lines[line].packets;
        // It was put there a round trip ago.
        if let Some(packet) = packets.get(2 * AHEAD) {
            Processor.fetch(packet);
        }
        if let Some(packet) = packets.get(AHEAD) {
            if packet.is_ack() {
                hosts.warm(packet.conn(), packet.has_blocks());
            } else if packet.is_data() {
                self.ends.warm(packet.conn());
            }
        }
        if let Some(packet) = packets.get(BEHIND) {
            let conn = packet.conn();
            if packet.is_ack() {
                let repairs = packet.has_blocks();
                self.flows[hosts.entry(conn)].warm(repairs, &Processor);
                hosts.warm_first(conn, packet.ack().cum, repairs);
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
            self.flows[hosts.entry(conn)].warm_rtt(packet.shows_rtt(), &Processor);
            if packet.has_blocks()
                && let Some(sacked) = self.ends.newest_block(packet)
            {
                hosts.warm_first(conn, sacked, false);
            }
        }
    }

    /// The same of the connection whose timer is next.
    #[inline]
    fn warm_timer(&self, hosts: &Hosts) {
        if let Some((_, conn)) = self.senders.due() {
            hosts.warm(conn, true);
        }
    }

    /// The same of the packets that probably leave next, which say whose they are; and of the end whose delayed ACK is due next.
    #[inline(never)]
    fn warm_queue(&self, index: usize) {
        if let Station::Queue(link, _) = &self.links[index] {
            link.warm(AHEAD);
        }
        if let Some(Class { timers, conns }) = self.classes.get(self.delayed_acks.first())
            && let Some((_, seat)) = timers.due()
        {
            self.ends.warm(conns[seat as usize]);
        }
    }

    /// A packet for a receiver that is run ahead waits until it is one of many, or due.
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

    /// All that has gathered reaches its receivers, which are fetched meanwhile. Between the departures the processor would have the
    /// link's code and data to fetch again each time.
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

    /// The end of a transmission, a delivery opportunity, or a discipline's own time; and those after it, as long as the link
    /// (`event.0` in the schedule) is first before `pause`. Gives what is first then.
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

    /// What is due at a link; where there are many flows, those whose turn comes soon are fetched beforehand.
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

    /// A packet at a station, and at the next, as long as the lines between need no event.
    #[inline(always)]
    fn travel(&mut self, mut target: Target, packet: &mut Packet) {
        while let Some(next) = self.visit(target, packet) {
            target = next;
        }
    }

    /// A packet at a station, on the clock or (where the short cuts allow it) ahead of it. `packet` becomes what leaves the
    /// station by that; gives the station that it reaches without an event.
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

    /// A packet at a queue; on an idle link a transmission starts, and `packet` becomes what is handed over.
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

    /// The link does what is due; `packet` becomes what it hands over, if anything, on its way to a station that it reaches
    /// without an event.
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

    /// As [`Fabric::queue`], where flow control or a filter of ACKs may have something to say.
    #[cold]
    #[inline(never)]
    fn queue_coupled(&mut self, index: usize, packet: &mut Packet) -> Option<Target> {
        let Station::Coupled(link, _) = &mut self.links[index] else { return None };
        let now = packet.time;
        if link.filters_acks() && packet.has_blocks() {
            link.tell(packet, self.ends.told(packet));
        }
        let starts = link.arrive(now, packet);
        self.send_frames(index);
        self.settle(index, now);
        if starts { self.serve_coupled(index, now, packet) } else { None }
    }

    /// As [`Fabric::serve`], at such a link.
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

    /// Frames of a link take their way to the one before.
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

    /// A pause frame at the link that it is for.
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

    /// A packet that will be at the far end of a link at `at` takes the line behind it.
    #[inline(always)]
    fn leave(&mut self, index: usize, packet: &mut Packet, at: Time) -> Option<Target> {
        packet.time = at;
        let lane = &self.lanes[packet.lane()];
        if lane.last != index {
            return self.lines[self.behind + index].put(packet, &mut self.schedules, self.end);
        }
        packet.time += lane.delay_out;
        if lane.fused && !planted(Fault::Fused) {
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

    /// A host sends a packet to the first link.
    #[inline(always)]
    fn enter(&mut self, packet: &mut Packet) -> Option<Target> {
        let lane = &self.lanes[packet.lane()];
        if let Some(index) = lane.doorstep {
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

    /// A packet at a host's own link: its time becomes that at which it is through; nothing if it is lost.
    #[inline(never)]
    fn pass_access(&mut self, index: usize, packet: &mut Packet) -> Option<()> {
        let Some(at) = self.access[index].pass(packet.time, packet.ip_bytes()) else {
            self.lose(*packet);
            return None;
        };
        packet.time = if planted(Fault::Access) { at + Span(1) } else { at };
        Some(())
    }

    /// A packet at a data receiver, on the clock or ahead of it: then the delayed ACKs that come before it go first.
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

    /// A FIN behind the last ACK, if that leaves now.
    #[cold]
    #[inline(never)]
    fn finish_with(&mut self, now: Time, conn: u32, ack: Option<Packet>) -> Option<Target> {
        ack.into_iter().for_each(|ack| self.emit(ack));
        self.close(now, conn);
        None
    }

    /// What is no data at a data receiver.
    #[inline(always)]
    fn receive_other(&mut self, packet: &mut Packet) -> Received {
        if packet.code() == DATAGRAM {
            self.hear(*packet);
            return Received { answers: false, complete: 0, closes: false, deadline: Time::NEVER };
        }
        let (received, answer) = self.ends.receive_other(packet.time, *packet);
        *packet = answer;
        received
    }

    /// A datagram at its receiver. (By value: were its address known elsewhere, every packet would be kept in memory.)
    #[cold]
    #[inline(never)]
    fn hear(&mut self, packet: Packet) {
        let entry = self.ends.entry(packet.conn());
        self.flows[entry as usize].received_datagram(packet.time, packet.sent(), packet.seq());
    }

    /// The delayed ACKs of a class before `now`.
    #[cold]
    #[inline(never)]
    fn delayed_acks(&mut self, class: usize, now: Time) {
        while self.classes[class].timers.first() < now {
            self.look_at_delayed_ack(class);
        }
        self.reschedule_class(class);
    }

    /// The first delayed ACK of a class.
    #[cold]
    #[inline(never)]
    fn delayed_ack(&mut self, class: usize) {
        self.look_at_delayed_ack(class);
        self.reschedule_class(class);
    }

    /// The first delayed ACK of a class leaves, if it is still due.
    #[inline]
    fn look_at_delayed_ack(&mut self, class: usize) {
        let is_crowd = self.is_crowd();
        let Class { timers, conns } = &mut self.classes[class];
        let Some((at, seat)) = timers.due() else { return };
        let conn = conns[seat as usize];
        let ack = if self.ends.deadline(conn) <= at { self.ends.on_timer(at, conn) } else { None };
        timers.rearm(seat, self.ends.renew(conn));
        if is_crowd {
            timers.warm(&Processor);
        }
        if let Some(ack) = ack {
            self.emit_delayed(ack);
        }
    }

    /// As [`Net::emit`], where most of what is looked at emits nothing.
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
            if hosts.deadline(conn) <= at {
                hosts.on_timer(at, conn, self);
            }
            self.senders.rearm(conn, hosts.renew(conn));
            // In overload timers are most of what happens, and come one after the other.
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

    /// What a link's discipline dropped.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, index: usize, now: Time) {
        while let Station::Queue(link, _) | Station::Coupled(link, _) = &mut self.links[index]
            && let Some(packet) = link.take_drop(now)
        {
            self.lose(packet.at(now));
        }
    }

    /// A packet is gone; `packet.time` says when.
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
        let rest = Rest { flows: self.flows, ends: self.ends, hosts, events };
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

    /// The first link takes all of them where it is busy and they go straight to its queue.
    #[inline(always)]
    fn emit_run(&mut self, packet: Packet, numbers: Range<u32>, make: impl Fn(Packet, u32) -> Packet) {
        let lane = &self.lanes[packet.lane()];
        if let Some(index) = lane.doorstep
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
    fn arm(&mut self, conn: u32, deadline: Time, told: &mut Time) {
        if deadline >= *told || (planted(Fault::LazyTimer) && *told != Time::NEVER) {
            return;
        }
        *told = deadline;
        if self.senders.arm(conn, deadline) {
            self.reschedule_senders();
        }
    }

    fn open(&mut self, config: &Config, full: &Packet, entry: u32, closes: bool) {
        let conns = &mut self.classes[full.lane() / 2].conns;
        conns.push(self.seats.len() as u32);
        self.seats.push(conns.len() as u32 - 1);
        self.ends.open(config, full, entry, closes);
    }

    fn expect(&mut self, conn: u32, target: u32) {
        self.ends.expect(conn, target);
    }

    fn close(&mut self, now: Time, conn: u32) {
        let fin = self.ends.closing(now, conn);
        self.emit(fin);
    }

    fn shaken(&self, conn: u32) -> Option<Span> {
        self.ends.shaken(conn)
    }
}

impl Line {
    /// Puts a packet on the line; gives the station at its end if it goes through at once. What would arrive after the run
    /// is forgotten.
    #[inline(always)]
    fn put(&mut self, packet: &Packet, schedules: &mut Schedules, end: Time) -> Option<Target> {
        let Some(source) = self.source else { return (packet.time < end).then_some(self.target) };
        if self.shared.is_some() && packet.time <= self.last && !planted(Fault::Overtake) {
            self.overtake(packet, source, schedules);
            return None;
        }
        self.last = packet.time;
        if self.packets.is_empty() {
            schedules.set(self.place(source, packet), packet.time);
        }
        self.packets.push(*packet);
        None
    }

    /// As [`Line::put`], perhaps before some that are on the line already.
    #[inline(never)]
    fn overtake(&mut self, packet: &Packet, source: Place, schedules: &mut Schedules) {
        let (time, lane) = (packet.time, packet.lane());
        let precedes = |other: &Packet| time < other.time || (time == other.time && lane < other.lane());
        let index = self.packets.insert_where(*packet, precedes);
        if index == 0 {
            schedules.set(self.place(source, packet), packet.time);
        }
    }

    /// The line's place in the schedule while this packet is its first.
    #[inline(always)]
    fn place(&self, source: Place, packet: &Packet) -> Place {
        match self.shared {
            Some(first) => source.of_rank(first + packet.lane() * Ranks::PER_LANE),
            None => source,
        }
    }

    /// Takes the first packet off the line.
    #[inline(always)]
    fn take(&mut self, schedules: &mut Schedules) -> Option<Packet> {
        let packet = *self.packets.front()?;
        self.advance(schedules);
        Some(packet)
    }

    /// The first packet has been looked at: on to the next.
    #[inline(always)]
    fn advance(&mut self, schedules: &mut Schedules) {
        self.packets.pop();
        if let Some(source) = self.source {
            match self.packets.front() {
                Some(next) => schedules.set(self.place(source, next), next.time),
                None => schedules.set(source, Time::NEVER),
            }
        }
    }
}
