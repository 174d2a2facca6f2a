//! Builds the fast engine of a scenario from the short cuts that are legal in it.

use std::collections::BinaryHeap;

use sojourn_core::access::AccessLink;
use sojourn_model::scenario::Scenario;

use super::delayed_acks::DelayedAcks;
use super::engine::{Fabric, Source};
use super::lines::{LaneEnds, Line};
use super::prefetch::{Batch, CROWD};
use super::stations::{Frames, Station};
use crate::link::Link;
use crate::schedule::{CLOCK, Slot, Slots};
use crate::shortcuts::{self, LinkCuts, ShortCuts, Target};
use crate::timers::Timers;
use crate::topology::{Ranks, Topology, changes};
use crate::{Options, setup};

/// With this many entries, a timer expires every few packets.
const BUSY: usize = 16;

/// Builds the engine of a scenario, at time zero.
pub fn fabric(scenario: &Scenario, topology: &Topology, options: &Options) -> Fabric {
    let cuts = ShortCuts::new(scenario, topology, options);
    let ranks = Ranks::new(topology, scenario);
    let mut slots = Slots::new(cuts.lookahead.len());
    let crowd = options.crowd.unwrap_or(CROWD);
    let prefetches = scenario.workload.entries.len() >= crowd;
    let sources = sources(ranks, topology, &cuts, prefetches);
    let lanes = topology.lanes.len();
    let lines = lines(&cuts, lanes, ranks, &mut slots);
    let fixed = FixedSlots::new(scenario, cuts.hosts, ranks, &mut slots);
    let batch = Batch::new(prefetches, slots.add(cuts.hosts, Ranks::GATHERED, false));
    let frames = frames(scenario, ranks, &mut slots);
    let ends_of = |lane| lane_ends(topology, &cuts, lane);
    let lane_ends = (0..lanes).map(ends_of).collect();
    // Links come last: at equal times, packets are sent before departures are handled.
    let links = links(scenario, options, cuts.links, ranks, &mut slots);
    let connections = scenario.workload.senders();
    let access = scenario
        .access
        .iter()
        .flat_map(|access| vec![AccessLink::new(access.rate, access.delay, access.limit); topology.access_links]);
    Fabric {
        sources,
        schedules: slots.schedules(ranks.group(1)),
        lookahead: cuts.lookahead,
        lanes: lane_ends,
        lines,
        after_links: lanes * 2,
        links,
        frames,
        changes: changes(scenario).into(),
        changes_slot: fixed.changes,
        access: access.collect(),
        ends: setup::ends(scenario, connections),
        delayed_acks: DelayedAcks::new(topology.steady.len(), connections, ranks, fixed.delayed_acks),
        batch,
        senders: Timers::default(),
        senders_slot: fixed.senders,
        apps: BinaryHeap::new(),
        apps_slot: fixed.apps,
        crowd,
        served: 0,
        flows: setup::flows(scenario, options),
        end: scenario.duration,
    }
}

/// Returns the event source of each rank.
fn sources(ranks: Ranks, topology: &Topology, cuts: &ShortCuts, prefetches: bool) -> Vec<Source> {
    let out = if prefetches { Source::PrefetchOut } else { Source::Out };
    let link = if prefetches { Source::PrefetchLink } else { Source::Link };
    let lanes = topology.lanes.len();
    let groups = cuts.lookahead.len();
    let mut sources = vec![Source::Changes; ranks.count(groups)];
    (1..groups).for_each(|group| sources[ranks.group(group)] = Source::Group(group));
    for lane in 0..lanes {
        sources[ranks.into(lane)] = Source::Into(cuts.lines[shortcuts::into(lane)].ring);
        sources[ranks.out(lane)] = out(cuts.lines[shortcuts::out(lane)].ring);
    }
    for class in 0..lanes / 2 {
        sources[ranks.delayed_ack(class)] = Source::DelayedAck(class);
    }
    sources[Ranks::GATHERED] = Source::Batch;
    sources[ranks.sender()] = Source::Senders;
    sources[ranks.app()] = Source::Apps;
    for index in 0..cuts.links.len() {
        sources[ranks.hop(index)] = Source::Into(lanes * 2 + index);
        sources[ranks.frame(index)] = Source::Frame(index);
        sources[ranks.link(index)] = if cuts.links[index].coupled { Source::CoupledLink(index) } else { link(index) };
    }
    sources
}

/// Positions in the schedules of the sources that every scenario has once.
struct FixedSlots {
    changes: Slot,
    delayed_acks: Slot,
    senders: Slot,
    apps: Slot,
}

impl FixedSlots {
    fn new(scenario: &Scenario, hosts: usize, ranks: Ranks, slots: &mut Slots) -> FixedSlots {
        let entries = &scenario.workload.entries;
        // A paced sender has a timer for every burst. Paced senders also lose many packets, after which receivers delay
        // ACKs for out-of-order segments.
        let hot = entries.len() >= BUSY || entries.iter().any(|entry| entry.tcp.cc.is_rate_based());
        FixedSlots {
            changes: slots.add(CLOCK, Ranks::STEP, false),
            delayed_acks: slots.add(hosts, ranks.delayed_ack(0), hot),
            senders: slots.add(hosts, ranks.sender(), hot),
            apps: slots.add(hosts, ranks.app(), false),
        }
    }
}

/// Returns the lines into and out of each lane, followed by the line after each link.
fn lines(cuts: &ShortCuts, lanes: usize, ranks: Ranks, slots: &mut Slots) -> Vec<Line> {
    let line = |(index, line): (usize, &shortcuts::Line)| {
        let (first, rank) = match (index < lanes * 2, index % 2) {
            (true, 0) => (ranks.into(0), ranks.into(index / 2)),
            (true, _) => (ranks.out(0), ranks.out(index / 2)),
            (false, _) => (0, ranks.hop(index - lanes * 2)),
        };
        let group = match line.target {
            Target::Hosts => cuts.hosts,
            Target::Link(link) => cuts.links[link].group,
        };
        let slot = line.queued.then(|| slots.add(group, rank, true));
        Line::new(line.target, slot, line.shared.then_some(first))
    };
    cuts.lines.iter().enumerate().map(line).collect()
}

fn lane_ends(topology: &Topology, cuts: &ShortCuts, index: usize) -> LaneEnds {
    let lane = &topology.lanes[index];
    let (into, out) = (&cuts.lines[shortcuts::into(index)], &cuts.lines[shortcuts::out(index)]);
    LaneEnds {
        last: lane.last,
        delay_in: lane.delay_in,
        delay_out: lane.delay_out,
        access: lane.access,
        fused_out: lane.access.is_none() && out.direct,
        fused_in: (lane.access.is_none() && into.direct).then_some(lane.path[0]),
        into: into.ring,
        out: out.ring,
    }
}

fn frames(scenario: &Scenario, ranks: Ranks, slots: &mut Slots) -> Vec<Frames> {
    let frames = |link| Frames::new(scenario.can_be_paused(link).then(|| slots.add(CLOCK, ranks.frame(link), false)));
    (0..scenario.hops.len() * 2).map(frames).collect()
}

fn links(scenario: &Scenario, options: &Options, cuts: Vec<LinkCuts>, ranks: Ranks, slots: &mut Slots) -> Vec<Station> {
    let station = |(index, cuts): (usize, LinkCuts)| {
        if let Some(closed) = cuts.closed {
            return Station::Closed(Box::new(closed));
        }
        let mut link = Link::new(index, scenario.link(index), &setup::link(scenario, index), options);
        if cuts.lags {
            link.hand_over_early(scenario.link(index));
        }
        let is_coupled = cuts.coupled || link.filters_acks();
        let station = if is_coupled { Station::Coupled } else { Station::Queue };
        station(Box::new(link), slots.add(cuts.group, ranks.link(index), true))
    };
    cuts.into_iter().enumerate().map(station).collect()
}
