//! The short cuts of the fast engine that are legal in a scenario.

use std::collections::BTreeMap;

use sojourn_core::tcp::AckPolicy;
use sojourn_core::units::Span;
use sojourn_model::scenario::{Capacity, Scenario};
use sojourn_model::workload::App;
use sojourn_model::workload::stream::Transport;

use crate::closed::ClosedLink;
use crate::planted::{Fault, planted};
use crate::schedule::CLOCK;
use crate::topology::{Lane, Topology, class_of_lane, is_data, opposite};
use crate::{Detail, Options, setup};

/// Number of full packets that a packet may overtake on a shared line, at the rate of the slowest link of its path.
const OVERTAKEN: u32 = 32;
/// IP length of a full packet in bytes.
const FULL: u32 = 1500;
/// Up to this many lines and their link are compared linearly (`schedule.rs`) and need not be shared if they run ahead.
const COMPARED: usize = 7;
/// Smallest interval between two delayed ACKs that a flow's timer sends.
const TIMER: Span = Span::from_millis(40);

/// The station at the end of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The queue of a link.
    Link(usize),
    /// The end hosts.
    Hosts,
}

/// The position of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// From the host to the first link of a lane.
    Into(usize),
    /// From the last link of a lane to the host.
    Out(usize),
    /// From a link to the next one.
    After(usize),
}

/// A line, and its short cuts.
pub struct Line {
    position: Position,
    /// The station at its end.
    pub target: Target,
    /// Whether any packet passes it.
    used: bool,
    /// Its smallest delay.
    delay: Span,
    /// Whether a departure elsewhere is always earlier than the arrival that it causes on this line. Otherwise the two
    /// could tie, in an order that only the heap engine knows.
    ordered: bool,
    /// Whether packets pass it without an event.
    pub direct: bool,
    /// Whether packets wait on it for their event.
    pub queued: bool,
    /// The line whose ring it uses: itself, or one with nearly the same delay.
    pub ring: usize,
    /// Whether other lines use its ring.
    pub shared: bool,
}

/// The short cuts of a link.
pub struct LinkCuts {
    /// Its closed form, if it has one and may use it.
    pub closed: Option<ClosedLink>,
    /// Whether the link's packets always reach the next station later than they leave. Otherwise a packet may be handed
    /// over only when it leaves, after all other events of that time.
    pub lags: bool,
    /// Whether it takes part in flow control.
    pub coupled: bool,
    /// Its group (`schedule.rs`).
    pub group: usize,
}

/// The short cuts that are legal in a scenario.
pub struct ShortCuts {
    /// Lines into and out of each lane, followed by the line after each link.
    pub lines: Vec<Line>,
    /// By link.
    pub links: Vec<LinkCuts>,
    /// The group of the hosts.
    pub hosts: usize,
    /// For each group: the smallest time after which events in other groups can affect it. It may run ahead of the clock
    /// by this time.
    pub lookahead: Vec<Span>,
}

/// Index of the line into a lane.
pub fn into(lane: usize) -> usize {
    lane * 2
}

/// Index of the line out of a lane.
pub fn out(lane: usize) -> usize {
    lane * 2 + 1
}

/// The lines that feed a link: their number, and whether all of them are ordered.
#[derive(Clone, Copy)]
struct Feeding {
    lines: usize,
    ordered: bool,
}

impl ShortCuts {
    /// Examines every line, link and class.
    pub fn new(scenario: &Scenario, topology: &Topology, options: &Options) -> ShortCuts {
        let mut lines = lines(scenario, topology);
        let feeding = feeding(scenario, &lines);
        let mut links = links(scenario, topology, &feeding, options);
        // A delayed ACK that a receiver sends ahead of the clock must not tie with a packet of another lane at its first
        // queue.
        let ack_is_alone = |lane: &Lane| lane.delay_in > Span::ZERO || feeding[lane.path[0]].lines == 1;
        let runs_ahead = |lane: usize| {
            is_data(lane) && topology.steady[class_of_lane(lane)] && ack_is_alone(&topology.lanes[opposite(lane)])
        };
        for line in &mut lines {
            line.direct = match (line.target, line.position) {
                (Target::Hosts, Position::Out(lane)) => runs_ahead(lane),
                (Target::Hosts, _) => false,
                (Target::Link(link), position) => {
                    // Into a queue with events without delay only, and only packets that hosts send on the clock.
                    let at_once =
                        matches!(position, Position::Into(lane) if runs_ahead(lane) && line.delay == Span::ZERO);
                    feeding[link].lines == 1 && (links[link].closed.is_some() || at_once)
                }
            };
            line.queued = line.used && !line.direct;
        }
        let (hosts, lookahead) = group(&lines, &mut links);
        share(scenario, topology, &mut lines, &links, hosts, &lookahead);
        ShortCuts { lines, links, hosts, lookahead }
    }
}

impl Line {
    fn new(position: Position) -> Line {
        Line {
            position,
            target: Target::Hosts,
            used: false,
            delay: Span::ZERO,
            ordered: true,
            direct: false,
            queued: false,
            ring: 0,
            shared: false,
        }
    }
}

/// Returns all lines with their targets and delays.
fn lines(scenario: &Scenario, topology: &Topology) -> Vec<Line> {
    let of_lane = |lane| [Line::new(Position::Into(lane)), Line::new(Position::Out(lane))];
    let mut lines: Vec<Line> = (0..topology.lanes.len()).flat_map(of_lane).collect();
    let after = lines.len();
    lines.extend((0..scenario.hops.len() * 2).map(|link| Line::new(Position::After(link))));
    for (index, lane) in topology.lanes.iter().enumerate() {
        let line = &mut lines[into(index)];
        (line.target, line.used, line.delay) = (Target::Link(lane.path[0]), true, lane.delay_in);
        let answered = lag(scenario, &topology.lanes[opposite(index)]);
        line.ordered = lane.delay_in > Span::ZERO || lane.access.is_some() || answered > Span::ZERO;
        let line = &mut lines[out(index)];
        (line.used, line.delay) = (true, lag(scenario, lane));
        for pair in lane.path.windows(2) {
            let line = &mut lines[after + pair[0]];
            (line.target, line.used, line.delay) = (Target::Link(pair[1]), true, least_delay(scenario, pair[0]));
            line.ordered = line.delay > Span::ZERO;
        }
    }
    lines
}

fn feeding(scenario: &Scenario, lines: &[Line]) -> Vec<Feeding> {
    let mut feeding = vec![Feeding { lines: 0, ordered: true }; scenario.hops.len() * 2];
    for line in lines.iter().filter(|line| line.used) {
        if let Target::Link(link) = line.target {
            feeding[link].lines += 1;
            feeding[link].ordered &= line.ordered;
        }
    }
    feeding
}

/// Returns the short cuts of all links, which are all in the group of the clock for now.
fn links(scenario: &Scenario, topology: &Topology, feeding: &[Feeding], options: &Options) -> Vec<LinkCuts> {
    let mut lags = vec![true; feeding.len()];
    for lane in &topology.lanes {
        lags[lane.last] &= lane.access.is_some() || lag(scenario, lane) > Span::ZERO;
        for &link in &lane.path[..lane.path.len() - 1] {
            lags[link] &= least_delay(scenario, link) > Span::ZERO;
        }
    }
    let cuts = |(index, lags): (usize, bool)| {
        let link = scenario.link(index);
        let coupled = link.pause.is_some() || scenario.can_be_paused(index);
        let full = options.detail == Detail::Full;
        let form = ClosedLink::new(index, link, &setup::link(scenario, index).meter, options.packets, full);
        // Flow control watches a queue at every change, and pauses a link at any time.
        let alone = link.pause.is_none() && (!coupled || planted(Fault::Pause));
        let closed = form.filter(|_| alone && lags && feeding[index].ordered);
        LinkCuts { closed, lags, coupled, group: CLOCK }
    };
    lags.into_iter().enumerate().map(cuts).collect()
}

/// Assigns links and hosts to groups. Returns the group of the hosts, and the lookahead of each group.
fn group(lines: &[Line], links: &mut [LinkCuts]) -> (usize, Vec<Span>) {
    let mut lookahead = vec![Span::ZERO];
    let mut group = |span: Span| {
        if span == Span::ZERO {
            return CLOCK;
        }
        lookahead.push(span);
        lookahead.len() - 1
    };
    // Hosts whose packets reach a queue with events at once must follow the clock, as that queue does.
    let is_near = |line: &Line| match (line.target, line.position) {
        (Target::Link(link), Position::Into(_)) => {
            line.delay == Span::ZERO && !(line.direct && links[link].closed.is_some())
        }
        _ => false,
    };
    let arrivals = |target: Target| lines.iter().filter(move |line| line.used && line.target == target);
    let least = |target: Target| arrivals(target).map(|line| line.delay).min().unwrap_or_default();
    let hosts = if lines.iter().any(is_near) { CLOCK } else { group(least(Target::Hosts)) };
    for (index, link) in links.iter_mut().enumerate() {
        let target = Target::Link(index);
        let ahead = link.lags && !link.coupled && arrivals(target).any(|line| line.queued);
        link.group = group(if ahead { least(target) } else { Span::ZERO });
    }
    (hosts, lookahead)
}

/// Lets lines of nearly the same delay between two points share one ring, in which packets that overtake are inserted at
/// their place. Many flows whose RTTs differ slightly would otherwise be as many event sources, and the tree of the
/// schedule would cost more than the insertions.
fn share(
    scenario: &Scenario,
    topology: &Topology,
    lines: &mut [Line],
    links: &[LinkCuts],
    hosts: usize,
    lookahead: &[Span],
) {
    // A group that runs ahead has few sources besides its lines: comparing them costs less than keeping them sorted.
    let mut lines_to: BTreeMap<Target, usize> = BTreeMap::new();
    lines.iter().filter(|line| line.queued).for_each(|line| *lines_to.entry(line.target).or_default() += 1);
    let is_crowded = |target: Target| {
        let group = if let Target::Link(link) = target { links[link].group } else { hosts };
        group == CLOCK || lines_to.get(&target).is_some_and(|&lines| lines > COMPARED)
    };
    let candidates = Candidates::new(scenario, topology, lines, links, lookahead);
    let may = |&line: &usize| {
        lines[line].queued
            && is_crowded(lines[line].target)
            && candidates.lane(line).access.is_none()
            && !candidates.overtakes(line)
    };
    let mut sorted: Vec<usize> = (0..topology.lanes.len() * 2).filter(may).collect();
    sorted.sort_by_key(|&line| (candidates.route(line), line));
    let mut rings: Vec<usize> = (0..lines.len()).collect();
    let mut first = 0;
    for at in 1..sorted.len() {
        let (route, shared) = (candidates.route(sorted[at]), candidates.route(sorted[first]));
        let most = candidates.tolerance(sorted[at]).min(candidates.tolerance(sorted[first]));
        if (route.from, route.to) == (shared.from, shared.to) && route.delay - shared.delay <= most {
            rings[sorted[at]] = sorted[first];
        } else {
            first = at;
        }
    }
    for (line, ring) in rings.into_iter().enumerate() {
        lines[line].ring = ring;
        if ring != line {
            lines[line].queued = false;
            lines[ring].shared = true;
        }
    }
}

/// The points that a line connects, and its delay. Lines between the same points are neighbours in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Route {
    /// The last link, or `None` for a host.
    from: Option<usize>,
    to: Target,
    delay: Span,
}

/// Lines of lanes that may share a ring.
struct Candidates<'a> {
    scenario: &'a Scenario,
    topology: &'a Topology,
    lines: &'a [Line],
    /// By link: the lookahead of its group.
    lookahead: Vec<Span>,
    /// By class: `streams` tells whether the class has datagrams, which are not clocked by ACKs; `timers` tells whether
    /// its receivers have timers for delayed ACKs.
    streams: Vec<bool>,
    timers: Vec<bool>,
}

impl<'a> Candidates<'a> {
    fn new(
        scenario: &'a Scenario,
        topology: &'a Topology,
        lines: &'a [Line],
        links: &[LinkCuts],
        lookahead: &[Span],
    ) -> Candidates<'a> {
        let classes = topology.steady.len();
        let (mut streams, mut timers) = (vec![false; classes], vec![false; classes]);
        for (entry, &class) in scenario.workload.entries.iter().zip(&topology.class_of) {
            streams[class] |= matches!(&entry.app, App::Stream(stream) if stream.transport == Transport::Udp);
            timers[class] |= entry.tcp.acks != AckPolicy::Every;
        }
        let lookahead = links.iter().map(|link| lookahead[link.group]).collect();
        Candidates { scenario, topology, lines, lookahead, streams, timers }
    }

    /// The index of a line's lane, and whether the line leads into it.
    fn lane_index(&self, line: usize) -> (usize, bool) {
        match self.lines[line].position {
            Position::Into(lane) => (lane, true),
            Position::Out(lane) => (lane, false),
            Position::After(_) => unreachable!("only lines of lanes are shared"),
        }
    }

    fn lane(&self, line: usize) -> &Lane {
        &self.topology.lanes[self.lane_index(line).0]
    }

    /// The data lane of a line's class.
    fn data_lane(&self, line: usize) -> &Lane {
        &self.topology.lanes[class_of_lane(self.lane_index(line).0) * 2]
    }

    /// Returns whether a line carries ACKs of receivers that run ahead.
    fn has_early_acks(&self, line: usize) -> bool {
        let (lane, leads_in) = self.lane_index(line);
        leads_in && !is_data(lane) && self.lines[out(opposite(lane))].direct
    }

    fn route(&self, line: usize) -> Route {
        let (lane, to) = (self.lane(line), self.lines[line].target);
        if self.has_early_acks(line) {
            // Such a receiver sends its ACK when the data leaves the last link, as if the data had arrived.
            let data = self.data_lane(line);
            return Route { from: Some(data.last), to, delay: data.delay_out + lane.delay_in };
        }
        match self.lines[line].position {
            Position::Into(_) => Route { from: None, to, delay: lane.delay_in },
            _ => Route { from: Some(lane.last), to, delay: lane.delay_out },
        }
    }

    /// Returns whether packets of a line may overtake too many others. Datagrams may, because no ACKs limit the rate at
    /// which they are sent. A delayed ACK that a timer sends overtakes all ACKs that receivers put on the line ahead of
    /// the clock, however similar the delays are. The line is shared only if few such ACKs overtake each packet.
    fn overtakes(&self, line: usize) -> bool {
        let class = class_of_lane(self.lane_index(line).0);
        let data = self.data_lane(line);
        let ahead = data.delay_out + self.lookahead[data.last];
        let entries = self.scenario.workload.entries.len() as u64;
        let by_timer = self.has_early_acks(line) && self.timers[class];
        self.streams[class] || by_timer && ahead.0.saturating_mul(entries) > TIMER.0 * u64::from(OVERTAKEN)
    }

    /// Largest difference of delays between lines that share a ring. TCP is clocked by its ACKs: in the long run it sends
    /// no faster than the slowest link of the path.
    fn tolerance(&self, line: usize) -> Span {
        let fastest = |&link: &usize| match &self.scenario.link(link).rate {
            Capacity::Steps(steps) => steps.iter().map(|step| step.1).max(),
            Capacity::Trace(trace) => Some(trace.mean_rate()),
        };
        let rate = self.data_lane(line).path.iter().filter_map(fastest).min();
        rate.map_or(Span::ZERO, |rate| rate.serialise(OVERTAKEN * FULL))
    }
}

/// The smallest time from a departure at the last link to the arrival at the host.
fn lag(scenario: &Scenario, lane: &Lane) -> Span {
    least_delay(scenario, lane.last) + lane.delay_out
}

fn least_delay(scenario: &Scenario, link: usize) -> Span {
    scenario.link(link).delay.iter().map(|step| step.1).min().unwrap_or_default()
}
