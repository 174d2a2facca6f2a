//! Which of the fast engine's short cuts are legal in a scenario.

use std::collections::BTreeMap;

use sojourn_core::tcp::AckPolicy;
use sojourn_core::units::Span;
use sojourn_model::scenario::{Capacity, Scenario};
use sojourn_model::workload::App;
use sojourn_model::workload::stream::Transport;

use crate::closed::ClosedLink;
use crate::planted::{Fault, planted};
use crate::schedule::CLOCK;
use crate::topology::{Lane, Topology};
use crate::{Detail, Options, setup};

/// On a shared line a packet overtakes as many as this at most, of this size and at the rate of the slowest link on the way.
const OVERTAKEN: u32 = 32;
const FULL: u32 = 1500;
/// So many lines and a link are compared one by one (`schedule.rs`): where they run ahead none of them are shared.
const APART: usize = 7;
/// A flow sends a delayed ACK by its timer at most once in this time.
const TIMER: Span = Span::from_millis(40);

/// Where a line ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// At the queue of a link.
    Link(usize),
    /// At the end hosts.
    Hosts,
}

/// Which short cuts are legal.
pub struct Plan {
    /// Of each line: where it ends, and whether what is put on it goes through at once.
    pub targets: Vec<Target>,
    pub direct: Vec<bool>,
    /// Of each line: the line that stands for it, itself or one with nearly the same delay.
    pub line: Vec<usize>,
    /// Of each line: whether it stands for others too, and whether packets wait on it.
    pub shared: Vec<bool>,
    pub waits: Vec<bool>,
    /// Of each link: its closed form, if it has one and may take it.
    pub closed: Vec<Option<ClosedLink>>,
    /// Of each link: whether what leaves it reaches the next station later than it leaves. Else it may be handed over
    /// only when it leaves: it comes after all that happens elsewhere at that moment.
    pub lags: Vec<bool>,
    /// Of each link: whether it takes part in flow control.
    pub coupled: Vec<bool>,
    /// The groups in which the links and the hosts are (of `schedule.rs`).
    pub group: Vec<usize>,
    pub hosts: usize,
    /// Of each group: what happens in the others from a moment on reaches it no earlier than so long after that moment. So far
    /// it may run ahead of the clock.
    pub lookahead: Vec<Span>,
}

impl Plan {
    /// Looks at every line, link and class.
    pub fn new(scenario: &Scenario, topology: &Topology, options: &Options) -> Plan {
        let links = scenario.hops.len() * 2;
        let lane_lines = topology.lanes.len() * 2;
        let mut targets = vec![Target::Hosts; lane_lines + links];
        let mut used = vec![false; lane_lines + links];
        // Whether a departure elsewhere is always earlier than what it leads to at this link: else the two could tie, in an
        // order that only the heap knows.
        let mut apart = vec![true; lane_lines + links];
        // How long a packet is on a line at least.
        let mut takes = vec![Span::ZERO; lane_lines + links];
        let mut lags = vec![true; links];
        for (index, lane) in topology.lanes.iter().enumerate() {
            targets[index * 2] = Target::Link(lane.path[0]);
            (used[index * 2], used[index * 2 + 1]) = (true, true);
            (takes[index * 2], takes[index * 2 + 1]) = (lane.delay_in, lag(scenario, lane));
            let before = lag(scenario, &topology.lanes[index ^ 1]);
            apart[index * 2] = lane.delay_in > Span::ZERO || lane.access.is_some() || before > Span::ZERO;
            lags[lane.last] &= lane.access.is_some() || takes[index * 2 + 1] > Span::ZERO;
            for pair in lane.path.windows(2) {
                let line = lane_lines + pair[0];
                targets[line] = Target::Link(pair[1]);
                used[line] = true;
                takes[line] = least_delay(scenario, pair[0]);
                apart[line] = takes[line] > Span::ZERO;
                lags[pair[0]] &= apart[line];
            }
        }
        // Of each link: how many lines feed it, and whether all of them keep apart.
        let mut feeding = vec![(0, true); links];
        for line in (0..targets.len()).filter(|&line| used[line]) {
            if let Target::Link(link) = targets[line] {
                feeding[link] = (feeding[link].0 + 1, feeding[link].1 && apart[line]);
            }
        }
        let coupled: Vec<bool> =
            (0..links).map(|link| scenario.link(link).pause.is_some() || scenario.can_be_stopped(link)).collect();
        let full = options.detail == Detail::Full;
        let closed_form = |link: usize| {
            let setup = setup::link(scenario, link).meter;
            let form = ClosedLink::new(link, scenario.link(link), &setup, options.packets, full);
            // Flow control looks at a queue whenever it changes, and stops a link at any time.
            let pauses = scenario.link(link).pause.is_some();
            let alone = !pauses && (!coupled[link] || planted(Fault::Pause));
            form.filter(|_| alone && lags[link] && feeding[link].1)
        };
        let closed: Vec<Option<ClosedLink>> = (0..links).map(closed_form).collect();
        // A delayed ACK that a receiver sends ahead of the clock must not tie with another lane's packet at the first queue.
        let ack_is_apart = |lane: &Lane| lane.delay_in > Span::ZERO || feeding[lane.path[0]].0 == 1;
        let steady = topology.steady.iter().enumerate();
        let steady: Vec<bool> =
            steady.map(|(class, &steady)| steady && ack_is_apart(&topology.lanes[class * 2 + 1])).collect();
        let direct: Vec<bool> = (0..targets.len())
            .map(|line| match targets[line] {
                Target::Link(link) => {
                    // Into a queue with events only at once, and only what the hosts send on the clock.
                    let lane = line / 2;
                    let at_once = line < lane_lines && lane % 2 == 0 && steady[lane / 2];
                    let at_once = at_once && topology.lanes[lane].delay_in == Span::ZERO;
                    feeding[link].0 == 1 && (closed[link].is_some() || at_once)
                }
                Target::Hosts => line < lane_lines && line % 4 == 1 && steady[line / 4],
            })
            .collect();
        let mut waits: Vec<bool> = (0..targets.len()).map(|line| used[line] && !direct[line]).collect();
        let ahead = Lookahead { targets: &targets, used: &used, waits: &waits, takes: &takes };
        let ahead_of_clock = |link: usize| if lags[link] && !coupled[link] { ahead.of_link(link) } else { Span::ZERO };
        let mut lookahead = vec![Span::ZERO];
        let mut group = |span: Span| {
            if span == Span::ZERO {
                return CLOCK;
            }
            lookahead.push(span);
            lookahead.len() - 1
        };
        // Where what they send is at a queue with events at once, hosts keep to the clock like that queue.
        let near = |line: usize| match targets[line] {
            Target::Link(link) => takes[line] == Span::ZERO && !(direct[line] && closed[link].is_some()),
            Target::Hosts => false,
        };
        let hosts = if (0..lane_lines).any(near) { CLOCK } else { group(ahead.of_hosts()) };
        let group: Vec<usize> = (0..links).map(|link| group(ahead_of_clock(link))).collect();
        // What runs ahead of the clock has few sources beside its lines: to compare them is cheaper than to keep an order.
        let mut lines_to: BTreeMap<Target, usize> = BTreeMap::new();
        (0..targets.len())
            .filter(|&line| waits[line])
            .for_each(|line| *lines_to.entry(targets[line]).or_default() += 1);
        let crowded = |target: Target| {
            let group = if let Target::Link(link) = target { group[link] } else { hosts };
            group == CLOCK || lines_to.get(&target).is_some_and(|&lines| lines > APART)
        };
        let to_share: Vec<bool> = (0..targets.len()).map(|line| waits[line] && crowded(targets[line])).collect();
        let span: Vec<Span> = group.iter().map(|&group| lookahead[group]).collect();
        let line = share(scenario, topology, &targets, &to_share, &direct, &span);
        let mut shared = vec![false; line.len()];
        (0..line.len()).filter(|&other| line[other] != other).for_each(|other| {
            shared[line[other]] = true;
            waits[other] = false;
        });
        Plan { targets, direct, line, shared, waits, closed, lags, coupled, group, hosts, lookahead }
    }
}

/// How far what is at the end of lines can run ahead.
struct Lookahead<'a> {
    targets: &'a [Target],
    used: &'a [bool],
    waits: &'a [bool],
    takes: &'a [Span],
}

impl Lookahead<'_> {
    fn lines(&self, target: Target) -> impl Iterator<Item = usize> {
        (0..self.targets.len()).filter(move |&line| self.used[line] && self.targets[line] == target)
    }

    /// A link: until what is sent now comes to it.
    fn of_link(&self, link: usize) -> Span {
        let feeds = || self.lines(Target::Link(link));
        if !feeds().any(|line| self.waits[line]) {
            return Span::ZERO;
        }
        feeds().map(|line| self.takes[line]).min().unwrap_or_default()
    }

    /// The hosts: until what leaves a link now comes to them, or to a data receiver.
    fn of_hosts(&self) -> Span {
        self.lines(Target::Hosts).map(|line| self.takes[line]).min().unwrap_or_default()
    }
}

/// Lines with nearly the same delay from one point to another are one, in which what overtakes is put in its place: many
/// flows whose RTTs differ a little would else be as many sources of events, and the schedule's tree dearer than that.
fn share(
    scenario: &Scenario,
    topology: &Topology,
    targets: &[Target],
    waits: &[bool],
    direct: &[bool],
    lookahead: &[Span],
) -> Vec<usize> {
    // From where to where, and how long it takes.
    let way = |line: usize| {
        let (lane, data) = (&topology.lanes[line / 2], line / 4 * 4);
        match line % 4 {
            // An ACK of a receiver that runs ahead sets out as if the data were there when it leaves the last link.
            2 if direct[data + 1] => {
                let there = &topology.lanes[line / 2 - 1];
                (Some(there.last), targets[line], there.delay_out + lane.delay_in)
            }
            0 | 2 => (None, targets[line], lane.delay_in),
            _ => (Some(lane.last), targets[line], lane.delay_out),
        }
    };
    // Datagrams come as fast as they are sent. And a timer's ACK overtakes all those that receivers which run ahead have put on
    // the line, however alike the delays are: so many, for each packet of the run, that they must be few.
    let (mut streams, mut timers) = (vec![false; topology.steady.len()], vec![false; topology.steady.len()]);
    for (entry, &class) in scenario.workload.entries.iter().zip(&topology.class_of) {
        streams[class] |= matches!(&entry.app, App::Stream(stream) if stream.transport == Transport::Udp);
        timers[class] |= entry.tcp.acks != AckPolicy::Every;
    }
    let entries = scenario.workload.entries.len() as u64;
    let overtakes = |line: usize| {
        let (class, lane) = (line / 4, &topology.lanes[line / 4 * 2]);
        let there = lane.delay_out + lookahead[lane.last];
        let by_timer = line % 4 == 2 && direct[class * 4 + 1] && timers[class];
        streams[class] || by_timer && there.0.saturating_mul(entries) > TIMER.0 * u64::from(OVERTAKEN)
    };
    // TCP is clocked by its ACKs: in the long run no more comes than the slowest link on the way lets through.
    let room = |line: usize| {
        let fastest = |&link: &usize| match &scenario.link(link).rate {
            Capacity::Steps(steps) => steps.iter().map(|step| step.1).max(),
            Capacity::Trace(trace) => Some(trace.mean_rate()),
        };
        let rate = topology.lanes[line / 4 * 2].path.iter().filter_map(fastest).min();
        rate.map_or(Span::ZERO, |rate| rate.serialise(OVERTAKEN * FULL))
    };
    let mut stands: Vec<usize> = (0..targets.len()).collect();
    let may = |&line: &usize| waits[line] && topology.lanes[line / 2].access.is_none() && !overtakes(line);
    let mut by_way: Vec<usize> = (0..topology.lanes.len() * 2).filter(may).collect();
    by_way.sort_by_key(|&line| (way(line), line));
    let mut first = 0;
    for at in 1..by_way.len() {
        let (from, to, delay) = way(by_way[at]);
        let (first_from, first_to, least) = way(by_way[first]);
        let both = room(by_way[at]).min(room(by_way[first]));
        if (from, to) == (first_from, first_to) && delay - least <= both {
            stands[by_way[at]] = by_way[first];
        } else {
            first = at;
        }
    }
    stands
}

/// The least time from the last link's departure to the host.
fn lag(scenario: &Scenario, lane: &Lane) -> Span {
    least_delay(scenario, lane.last) + lane.delay_out
}

fn least_delay(scenario: &Scenario, link: usize) -> Span {
    scenario.link(link).delay.iter().map(|step| step.1).min().unwrap_or_default()
}
