//! Which of the fast engine's short cuts are legal in a scenario.

use sojourn_core::tcp::AckPolicy;
use sojourn_core::units::Span;
use sojourn_model::scenario::{Capacity, Scenario};
use sojourn_model::workload::App;
use sojourn_model::workload::stream::Transport;

use crate::closed::ClosedLink;
use crate::planted::{Fault, planted};
use crate::topology::{Lane, Topology};
use crate::{Detail, Options, setup};

/// On a shared line a packet overtakes as many as this at most, of this size and at the rate of the slowest link on the way.
const OVERTAKEN: u32 = 32;
const FULL: u32 = 1500;
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
        let mut lags = vec![true; links];
        for (index, lane) in topology.lanes.iter().enumerate() {
            targets[index * 2] = Target::Link(lane.path[0]);
            (used[index * 2], used[index * 2 + 1]) = (true, true);
            let before = lag(scenario, &topology.lanes[index ^ 1]);
            apart[index * 2] = lane.delay_in > Span::ZERO || lane.access.is_some() || before > Span::ZERO;
            lags[lane.last] &= lane.access.is_some() || lag(scenario, lane) > Span::ZERO;
            for pair in lane.path.windows(2) {
                let line = lane_lines + pair[0];
                targets[line] = Target::Link(pair[1]);
                used[line] = true;
                apart[line] = scenario.link(pair[0]).delay.iter().all(|step| step.1 > Span::ZERO);
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
        let line = share(scenario, topology, &targets, &waits, &direct);
        let mut shared = vec![false; line.len()];
        (0..line.len()).filter(|&other| line[other] != other).for_each(|other| {
            shared[line[other]] = true;
            waits[other] = false;
        });
        Plan { targets, direct, line, shared, waits, closed, lags, coupled }
    }
}

/// Lines with nearly the same delay from one point to another are one, in which what overtakes is put in its place: many
/// flows whose RTTs differ a little would else be as many sources of events, and the schedule's tree dearer than that.
fn share(scenario: &Scenario, topology: &Topology, targets: &[Target], waits: &[bool], direct: &[bool]) -> Vec<usize> {
    // From where to where, and how long it takes.
    let way = |line: usize| {
        let (lane, data) = (&topology.lanes[line / 2], line / 4 * 4);
        match line % 4 {
            // An ACK of a receiver that runs ahead sets out when the data leaves the last link.
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
        let (class, there) = (line / 4, topology.lanes[line / 4 * 2].delay_out);
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
    let last = scenario.link(lane.last);
    let delay = last.delay.iter().map(|step| step.1).min().unwrap_or_default();
    delay + lane.delay_out
}
