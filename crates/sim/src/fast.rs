//! The fast engine. No global event heap for packets: one ring per constant-delay line, and the least of their heads is next.
//!
//! What it does not schedule, it computes: a FIFO of constant rate tells on arrival when a packet will have left (closed
//! form), a host's own link likewise, and a data receiver runs at the last link's departure, ahead of the clock by the
//! delay between them, after the delayed ACKs that come before that packet. All of that is legal because the order in
//! which such a station sees its inputs does not depend on when they are computed: each has one input line, times on a
//! line never fall, and where two inputs could tie at zero delay the short cut is not taken. `heap.rs` takes no short cut
//! at all and must give identical records.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sojourn_core::ring::Ring;
use sojourn_core::tcp::Config;
use sojourn_core::units::{Span, Time};
use sojourn_measure::FlowMeter;
use sojourn_model::scenario::Scenario;

use crate::access::AccessLink;
use crate::closed::ClosedLink;
use crate::ends::Ends;
use crate::hosts::{Event, Hosts, Net};
use crate::link::Link;
use crate::packet::Packet;
use crate::planted::{Fault, planted};
use crate::schedule::Schedule;
use crate::topology::{Change, Lane, Topology, changes};
use crate::{Detail, Options, Output, Stopped, setup};

/// What a source of events is.
#[derive(Clone, Copy)]
enum Source {
    /// A change of a rate or delay.
    Steps,
    /// A packet at the end of a line.
    Line(usize),
    /// The end of a transmission.
    Link(usize),
    /// A delayed ACK of a class.
    DelayedAck(usize),
    /// A retransmission timer.
    Senders,
    /// An application.
    Apps,
}

/// Where a line ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Link(usize),
    Hosts,
}

/// A constant-delay line between two stations.
struct Line {
    packets: Ring<Packet>,
    target: Target,
    /// Its place in the schedule; none if what is pushed goes through at once.
    source: Option<usize>,
}

/// Timers as (time, connection); at most one live entry each, re-armed at once when a deadline moves earlier, else lazily.
#[derive(Default)]
struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
    armed: Vec<Time>,
}

impl Timers {
    #[inline]
    fn first(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |&Reverse((at, _))| at)
    }

    /// Whether the first time changed.
    #[inline]
    fn arm(&mut self, conn: u32, deadline: Time) -> bool {
        if deadline >= self.armed(conn) {
            return false;
        }
        self.arm_earlier(conn, deadline)
    }

    #[inline]
    fn armed(&self, conn: u32) -> Time {
        self.armed.get(conn as usize).copied().unwrap_or(Time::NEVER)
    }

    #[cold]
    #[inline(never)]
    fn arm_earlier(&mut self, conn: u32, deadline: Time) -> bool {
        if self.armed.len() <= conn as usize {
            self.armed.resize(conn as usize + 1, Time::NEVER);
        }
        let before = self.first();
        self.armed[conn as usize] = deadline;
        self.heap.push(Reverse((deadline, conn)));
        deadline < before
    }

    /// Takes the first entry; gives the connection if the entry is its live one.
    fn pop(&mut self) -> Option<(Time, u32)> {
        let Reverse((at, conn)) = self.heap.pop()?;
        if self.armed(conn) != at {
            return None;
        }
        self.armed[conn as usize] = Time::NEVER;
        Some((at, conn))
    }
}

/// A link, in one of two forms.
enum Station {
    /// With a queue discipline and events: the second is its place in the schedule.
    Queue(Box<Link>, usize),
    /// Computed on arrival.
    Closed(Box<ClosedLink>),
}

/// The delayed-ACK timers of a class of flows.
struct Class {
    timers: Timers,
    source: usize,
}

/// Everything between the data senders.
struct Fabric {
    lanes: Vec<Lane>,
    schedule: Schedule,
    lines: Vec<Line>,
    links: Vec<Station>,
    /// The first line behind the lanes': one per link, to the next link.
    hop_lines: usize,
    access: Vec<AccessLink>,
    ends: Ends,
    classes: Vec<Class>,
    senders: Timers,
    senders_source: usize,
    apps: BinaryHeap<Reverse<(Time, Event)>>,
    apps_source: usize,
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
    fabric.schedule.set(0, change_time(0));
    let mut events = 0u64;
    // The run is looked at from outside a thousand times: one comparison finds these moments and the end.
    let pause = Span(scenario.duration.0 / 1000 + 1);
    let mut next_pause = (Time::ZERO + pause).min(scenario.duration);
    loop {
        let (source, now) = fabric.schedule.first();
        if now >= next_pause {
            if now >= scenario.duration {
                break;
            }
            options.report(now)?;
            next_pause = (now + pause).min(scenario.duration);
        }
        events += 1;
        match sources[source] {
            Source::Line(line) => fabric.line_event(line, &mut hosts),
            Source::Link(link) => fabric.link_event(link, now),
            Source::DelayedAck(class) => fabric.delayed_ack(class),
            Source::Senders => fabric.sender_timer(&mut hosts),
            Source::Apps => {
                if let Some(Reverse((at, event))) = fabric.apps.pop() {
                    fabric.schedule.set(fabric.apps_source, fabric.first_app());
                    hosts.act(at, event, &mut fabric);
                }
            }
            Source::Steps => {
                let (at, link, change) = changes[next_change];
                next_change += 1;
                fabric.schedule.set(0, change_time(next_change));
                fabric.change(at, link, change);
            }
        }
    }
    Ok(fabric.finish(&hosts, events))
}

impl Fabric {
    fn new(scenario: &Scenario, topology: &Topology, options: &Options) -> (Fabric, Vec<Source>) {
        let link_count = scenario.hops.len() * 2;
        let hop_lines = topology.lanes.len() * 2;
        let plan = Plan::new(scenario, topology, options);
        let mut sources = vec![Source::Steps];
        let mut add = |source: Source| {
            sources.push(source);
            sources.len() - 1
        };
        let mut line = |index: usize| Line {
            packets: Ring::default(),
            target: plan.targets[index],
            source: (!plan.direct[index]).then(|| add(Source::Line(index))),
        };
        let lines =
            (0..hop_lines + link_count).map(|index| if plan.used[index] { line(index) } else { Line::unused() });
        let lines = lines.collect();
        let class = |index| Class { timers: Timers::default(), source: add(Source::DelayedAck(index)) };
        let classes = (0..topology.steady.len()).map(class).collect();
        let senders_source = add(Source::Senders);
        let apps_source = add(Source::Apps);
        // Links come last: whoever sends at a time sends before a departure at that time.
        let links = plan.closed.into_iter().enumerate().map(|(index, closed)| match closed {
            Some(link) => Station::Closed(Box::new(link)),
            None => {
                let (setup, seed) = setup::link(scenario, index);
                let mut link = Link::new(index, scenario.link(index), &setup, seed, options);
                link.hand_over_early(scenario.link(index));
                Station::Queue(Box::new(link), add(Source::Link(index)))
            }
        });
        let links = links.collect();
        let access = scenario.access.iter().flat_map(|access| vec![AccessLink::new(access); topology.access_links]);
        let fabric = Fabric {
            lanes: topology.lanes.clone(),
            schedule: Schedule::new(sources.len()),
            lines,
            links,
            hop_lines,
            access: access.collect(),
            ends: Ends::default(),
            classes,
            senders: Timers::default(),
            senders_source,
            apps: BinaryHeap::new(),
            apps_source,
            flows: setup::flows(scenario, options),
            end: scenario.duration,
        };
        (fabric, sources)
    }

    /// A packet at the end of a line.
    #[inline(always)]
    fn line_event(&mut self, index: usize, hosts: &mut Hosts) {
        let line = &mut self.lines[index];
        let Some(mut packet) = line.packets.pop() else { return };
        if let Some(source) = line.source {
            self.schedule.set(source, line.packets.front().map_or(Time::NEVER, |next| next.time));
        }
        let target = line.target;
        if target == Target::Hosts && !packet.is_for_receiver() {
            if packet.sack == 0 {
                return hosts.receive(packet.time, &packet, &[], self);
            }
            let (blocks, count) = self.ends.take_blocks(&packet);
            return hosts.receive_now(packet.time, &packet, &blocks[..count], self);
        }
        if let Some(next) = self.visit(target, &mut packet) {
            self.travel(next, packet);
        }
    }

    /// The end of a transmission, a delivery opportunity, or a discipline's own time.
    #[inline(always)]
    fn link_event(&mut self, index: usize, now: Time) {
        let Station::Queue(link, source) = &mut self.links[index] else { return };
        let mut packet = Packet::default();
        let left = link.event(now, &mut packet).map(|end| link.arrival_after(end));
        self.schedule.set(*source, link.next_event());
        if !link.drops.is_empty() {
            self.settle(index, now);
        }
        if let Some(at) = left
            && let Some(next) = self.leave(index, &mut packet, at)
        {
            self.travel(next, packet);
        }
    }

    fn reschedule(&mut self, index: usize) {
        if let Station::Queue(link, source) = &self.links[index] {
            self.schedule.set(*source, link.next_event());
        }
    }

    /// Puts a packet on a line; where a line needs no event, through it, and so on.
    #[inline(always)]
    fn travel(&mut self, mut index: usize, mut packet: Packet) {
        loop {
            let line = &mut self.lines[index];
            if let Some(source) = line.source {
                if line.packets.is_empty() {
                    self.schedule.set(source, packet.time);
                }
                return line.packets.push(packet);
            }
            if packet.time >= self.end {
                return;
            }
            if planted(Fault::Fused) && line.target == Target::Hosts {
                packet.time += Span(1);
            }
            let target = line.target;
            match self.visit(target, &mut packet) {
                Some(next) => index = next,
                None => return,
            }
        }
    }

    /// A packet at a station, on the clock or (where the short cuts allow it) ahead of it. `packet` becomes what leaves the
    /// station by that; gives the line that it takes.
    #[inline(always)]
    fn visit(&mut self, target: Target, packet: &mut Packet) -> Option<usize> {
        let Target::Link(index) = target else { return self.deliver(packet) };
        let now = packet.time;
        match &mut self.links[index] {
            Station::Queue(link, _) => {
                let starts = link.arrive(now, packet);
                if !link.drops.is_empty() {
                    self.settle(index, now);
                }
                if starts { self.start(index, now, packet) } else { None }
            }
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

    /// The start of a transmission on an idle link: rarer than on a busy one.
    #[inline(never)]
    fn start(&mut self, index: usize, now: Time, packet: &mut Packet) -> Option<usize> {
        let Station::Queue(link, source) = &mut self.links[index] else { return None };
        let left = link.event(now, packet).map(|end| link.arrival_after(end));
        self.schedule.set(*source, link.next_event());
        if !link.drops.is_empty() {
            self.settle(index, now);
        }
        self.leave(index, packet, left?)
    }

    /// A packet that will be at the far end of a link at `at`: the line behind it, and when the packet is at the line's end.
    #[inline(always)]
    fn leave(&mut self, index: usize, packet: &mut Packet, at: Time) -> Option<usize> {
        packet.time = at;
        let lane = &self.lanes[usize::from(packet.lane)];
        if lane.last != index {
            return Some(self.hop_lines + index);
        }
        packet.time += lane.delay_out;
        if let Some((_, down)) = lane.access {
            packet.time = self.pass_access(down, packet)?;
        }
        Some(usize::from(packet.lane) * 2 + 1)
    }

    /// A host sends a packet: its line to the first link, and when it will be there.
    #[inline(always)]
    fn enter(&mut self, packet: &mut Packet) -> Option<usize> {
        let lane = &self.lanes[usize::from(packet.lane)];
        let delay = lane.delay_in;
        if let Some((up, _)) = lane.access {
            packet.time = self.pass_access(up, packet)?;
        }
        packet.time += delay;
        Some(usize::from(packet.lane) * 2)
    }

    /// A packet at a host's own link: when it will be through; nothing if it is lost.
    #[inline(never)]
    fn pass_access(&mut self, index: usize, packet: &Packet) -> Option<Time> {
        let at = self.access[index].pass(packet.time, packet.bytes);
        if at.is_none() {
            self.lose(*packet);
        }
        at.map(|at| if planted(Fault::Access) { at + Span(1) } else { at })
    }

    /// A packet at a data receiver, on the clock or ahead of it: then the delayed ACKs that come before it go first.
    #[inline(always)]
    fn deliver(&mut self, packet: &mut Packet) -> Option<usize> {
        let (now, conn, class) = (packet.time, packet.conn, usize::from(packet.lane) / 2);
        while self.classes[class].timers.first() < now && !planted(Fault::DelayedAck) {
            self.delayed_ack(class);
        }
        let answers = self.ends.receive(now, packet);
        if self.ends.take_complete() {
            self.post(now, Event::Complete(conn));
        }
        self.arm_delayed_ack(class, conn);
        if answers { self.enter(packet) } else { None }
    }

    /// The first delayed ACK of a class, if it is still due.
    #[cold]
    #[inline(never)]
    fn delayed_ack(&mut self, class: usize) {
        let entry = self.classes[class].timers.pop();
        if let Some((at, conn)) = entry {
            let ack = if self.ends.deadline(conn) <= at { self.ends.on_timer(at, conn) } else { None };
            self.arm_delayed_ack(class, conn);
            if let Some(ack) = ack {
                self.emit(ack);
            }
        }
        self.reschedule_class(class);
    }

    #[inline]
    fn arm_delayed_ack(&mut self, class: usize, conn: u32) {
        let deadline = self.ends.deadline(conn);
        if deadline != Time::NEVER && self.classes[class].timers.arm(conn, deadline) {
            self.reschedule_class(class);
        }
    }

    fn reschedule_class(&mut self, class: usize) {
        let Class { timers, source } = &self.classes[class];
        self.schedule.set(*source, timers.first());
    }

    fn sender_timer(&mut self, hosts: &mut Hosts) {
        if let Some((at, conn)) = self.senders.pop() {
            let deadline = hosts.deadline(conn);
            if deadline <= at {
                hosts.on_timer(at, conn, self);
            } else {
                self.senders.arm(conn, deadline);
            }
        }
        self.schedule.set(self.senders_source, self.senders.first());
    }

    fn change(&mut self, now: Time, index: usize, change: Change) {
        if let Station::Queue(link, _) = &mut self.links[index] {
            match change {
                Change::Rate(rate) => link.set_rate(now, rate),
                Change::Delay(delay) => link.set_delay(delay),
            }
        }
        self.reschedule(index);
    }

    /// What a link's discipline dropped.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, index: usize, now: Time) {
        while let Station::Queue(link, _) = &mut self.links[index]
            && let Some(packet) = link.take_drop(now)
        {
            self.lose(Packet { time: now, ..packet });
        }
    }

    /// A packet is gone; `packet.time` says when.
    #[cold]
    fn lose(&mut self, packet: Packet) {
        self.flows[self.ends.entry(packet.conn) as usize].dropped(packet.time);
        self.ends.lost(&packet);
    }

    fn first_app(&self) -> Time {
        self.apps.peek().map_or(Time::NEVER, |&Reverse((at, _))| at)
    }

    fn finish(self, hosts: &Hosts, events: u64) -> Output {
        let links = self.links.into_iter().map(|station| match station {
            Station::Queue(link, _) => link.finish(),
            Station::Closed(link) => link.finish(),
        });
        setup::output(links, self.flows, &self.ends, hosts, events)
    }
}

impl Net for Fabric {
    #[inline(always)]
    fn emit(&mut self, mut packet: Packet) {
        if let Some(line) = self.enter(&mut packet) {
            self.travel(line, packet);
        }
    }

    #[inline]
    fn meter(&mut self, entry: u32) -> &mut FlowMeter {
        &mut self.flows[entry as usize]
    }

    fn post(&mut self, at: Time, event: Event) {
        self.apps.push(Reverse((at, event)));
        self.schedule.set(self.apps_source, self.first_app());
    }

    #[inline]
    fn arm(&mut self, conn: u32, deadline: Time) {
        if planted(Fault::LazyTimer) && self.senders.armed(conn) != Time::NEVER {
            return;
        }
        if self.senders.arm(conn, deadline) {
            self.schedule.set(self.senders_source, self.senders.first());
        }
    }

    fn open(&mut self, config: &Config, lane: u16, hash: u32, entry: u32) {
        self.ends.open(config, lane, hash, entry);
    }

    fn expect(&mut self, conn: u32, target: u32) {
        self.ends.expect(conn, target);
    }
}

impl Line {
    /// A line on which nothing ever travels.
    fn unused() -> Line {
        Line { packets: Ring::default(), target: Target::Hosts, source: None }
    }
}

/// Which short cuts are legal.
struct Plan {
    /// Of each line: where it ends, whether anything travels on it, and whether it goes through at once.
    targets: Vec<Target>,
    used: Vec<bool>,
    direct: Vec<bool>,
    /// Of each link: its closed form, if it has one and may take it.
    closed: Vec<Option<ClosedLink>>,
}

impl Plan {
    fn new(scenario: &Scenario, topology: &Topology, options: &Options) -> Plan {
        let links = scenario.hops.len() * 2;
        let lane_lines = topology.lanes.len() * 2;
        let mut targets = vec![Target::Hosts; lane_lines + links];
        let mut used = vec![false; lane_lines + links];
        // Whether a departure elsewhere is always earlier than what it leads to at this link: else the two could tie, in an
        // order that only the heap knows.
        let mut apart = vec![true; lane_lines + links];
        for (index, lane) in topology.lanes.iter().enumerate() {
            targets[index * 2] = Target::Link(lane.path[0]);
            (used[index * 2], used[index * 2 + 1]) = (true, true);
            let before = lag(scenario, &topology.lanes[index ^ 1]);
            apart[index * 2] = lane.delay_in > Span::ZERO || lane.access.is_some() || before > Span::ZERO;
            for pair in lane.path.windows(2) {
                let line = lane_lines + pair[0];
                targets[line] = Target::Link(pair[1]);
                used[line] = true;
                apart[line] = scenario.link(pair[0]).delay.iter().all(|step| step.1 > Span::ZERO);
            }
        }
        let feeding = |link: usize| {
            let (targets, used) = (&targets, &used);
            (0..targets.len()).filter(move |&line| used[line] && targets[line] == Target::Link(link))
        };
        let full = options.detail == Detail::Full;
        let closed_form = |link: usize| {
            let setup = setup::link(scenario, link).0;
            let form = ClosedLink::new(link, scenario.link(link), &setup, options.packets, full);
            form.filter(|_| feeding(link).all(|line| apart[line]))
        };
        let closed: Vec<Option<ClosedLink>> = (0..links).map(closed_form).collect();
        let steady = topology.steady.clone();
        let direct = (0..targets.len())
            .map(|line| match targets[line] {
                Target::Link(link) => {
                    // Into a queue with events only at once, and only what the hosts send on the clock.
                    let lane = line / 2;
                    let at_once = line < lane_lines && lane % 2 == 0 && steady[lane / 2];
                    let at_once = at_once && topology.lanes[lane].delay_in == Span::ZERO;
                    feeding(link).count() == 1 && (closed[link].is_some() || at_once)
                }
                Target::Hosts => line < lane_lines && line % 4 == 1 && steady[line / 4],
            })
            .collect();
        Plan { targets, used, direct, closed }
    }
}

/// The least time from the last link's departure to the host.
fn lag(scenario: &Scenario, lane: &Lane) -> Span {
    let last = scenario.link(lane.last);
    let delay = last.delay.iter().map(|step| step.1).min().unwrap_or_default();
    delay + lane.delay_out
}
