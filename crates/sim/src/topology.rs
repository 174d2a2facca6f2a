//! Where packets go: lanes. A lane is one direction of a class, and a class is a set of flows with the same path and delays.
//! And in which order they go, where they go at the same time.

use std::collections::BTreeMap;

use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::{Capacity, Scenario};
use sojourn_model::workload::{Direction, Entry};

/// So many classes there may be: five ranks each have to fit into the schedule's, and their lanes into a packet's 16 bits.
pub const MOST_CLASSES: usize = 16_384;

/// One direction of a class: two lanes per class, the data's (even) and the way back (odd).
#[derive(Clone, Debug)]
pub struct Lane {
    /// The links passed, in order (indices: hop · 2, plus 1 leftward).
    pub path: Vec<usize>,
    /// The last of them.
    pub last: usize,
    /// From the host to the first link, access link apart.
    pub delay_in: Span,
    /// From the last link to the host, access link apart.
    pub delay_out: Span,
    /// With access links: the index of the sending host's uplink and of the receiving host's downlink.
    pub access: Option<(usize, usize)>,
}

/// The order of what happens at the same time: who sends at a time sends before a departure at that time.
#[derive(Clone, Copy)]
pub struct Ranks {
    lanes: usize,
    links: usize,
}

impl Ranks {
    /// A change of a link.
    pub const STEP: usize = 0;
    /// A host's own link has sent a packet, where it has events; else what has gathered for receivers.
    pub const ACCESS_DONE: usize = 1;
    pub const GATHERED: usize = 1;
    /// From one lane to the next, into or out of them.
    pub const PER_LANE: usize = 2;

    /// Of a topology.
    pub fn new(topology: &Topology, scenario: &Scenario) -> Ranks {
        Ranks { lanes: topology.lanes.len(), links: scenario.hops.len() * 2 }
    }

    /// A packet reaches the first link of its lane.
    pub fn into(self, lane: usize) -> usize {
        2 + lane * Ranks::PER_LANE
    }

    /// A packet reaches the end host of its lane.
    pub fn out(self, lane: usize) -> usize {
        3 + lane * Ranks::PER_LANE
    }

    /// A packet reaches the link behind this one.
    pub fn hop(self, link: usize) -> usize {
        self.into(self.lanes) + link
    }

    /// A packet reaches its destination's own link.
    pub fn down(self) -> usize {
        self.hop(self.links)
    }

    /// A timer of a receiving end of a class: a delayed ACK, or a SYN-ACK again (so wherever a delayed ACK is spoken of).
    pub fn delayed_ack(self, class: usize) -> usize {
        self.down() + 1 + class
    }

    /// A retransmission timer.
    pub fn sender(self) -> usize {
        self.delayed_ack(self.lanes / 2)
    }

    /// An application.
    pub fn app(self) -> usize {
        self.sender() + 1
    }

    /// A pause frame reaches this link.
    pub fn frame(self, link: usize) -> usize {
        self.app() + 1 + link
    }

    /// A link's own time.
    pub fn link(self, link: usize) -> usize {
        self.frame(self.links) + link
    }

    /// A group that runs ahead of the clock.
    pub fn group(self, group: usize) -> usize {
        self.link(self.links) + group
    }

    /// How many ranks there are, with so many groups.
    pub fn count(self, groups: usize) -> usize {
        self.group(groups)
    }
}

/// The map of a run.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Lane `2·class` carries the data of plain flows, lane `2·class + 1` the other way.
    pub lanes: Vec<Lane>,
    /// Of each class: whether its data receivers may be run ahead at the last link's departures.
    pub steady: Vec<bool>,
    /// Of each entry.
    pub class_of: Vec<usize>,
    /// How many access links there are.
    pub access_links: usize,
}

impl Topology {
    /// Groups the entries into classes. With access links, each entry is its own class.
    pub fn new(scenario: &Scenario) -> Topology {
        let mut topology = Topology::default();
        let mut classes = BTreeMap::new();
        for entry in &scenario.workload.entries {
            let next = classes.len();
            let own_host = scenario.access.is_some().then_some(next);
            let key = (entry.direction, entry.via, entry.delays, is_two_way(entry), own_host);
            let class = *classes.entry(key).or_insert(next);
            if class == next {
                topology.add_class(scenario, entry);
            }
            topology.class_of.push(class);
        }
        topology
    }

    /// The link after `link` on the lane; none if it is the last.
    #[inline]
    pub fn next_link(&self, lane: usize, link: usize) -> Option<usize> {
        let Lane { path, last, .. } = &self.lanes[lane];
        if *last == link {
            return None;
        }
        path.iter().position(|&l| l == link).map(|at| path[at + 1])
    }

    fn add_class(&mut self, scenario: &Scenario, entry: &Entry) {
        let (first, last) = entry.via;
        let right: Vec<usize> = (first..=last).map(|hop| hop * 2).collect();
        let left: Vec<usize> = (first..=last).rev().map(|hop| hop * 2 + 1).collect();
        let (there, back) = match entry.direction {
            Direction::Right => (right, left),
            Direction::Left => (left, right),
        };
        // Four access links a class: up and down at the data sender's host, up and down at the data receiver's.
        let access = scenario.access.is_some().then_some(self.access_links);
        self.access_links += if access.is_some() { 4 } else { 0 };
        let delays = entry.delays;
        let last_link = scenario.link(there[there.len() - 1]);
        let steps = |rate: &Capacity| matches!(rate, Capacity::Steps(_));
        self.steady
            .push(access.is_none() && !is_two_way(entry) && last_link.delay.len() == 1 && steps(&last_link.rate));
        self.lanes.push(Lane {
            last: there[there.len() - 1],
            path: there,
            delay_in: delays.data_in,
            delay_out: delays.data_out,
            access: access.map(|a| (a, a + 3)),
        });
        self.lanes.push(Lane {
            last: back[back.len() - 1],
            path: back,
            delay_in: delays.ack_in,
            delay_out: delays.ack_out,
            access: access.map(|a| (a + 2, a + 1)),
        });
    }
}

/// Whether data goes both ways on a connection (requests and responses).
fn is_two_way(entry: &Entry) -> bool {
    entry.answers()
}

/// A change of a link during the run.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// A new rate.
    Rate(sojourn_core::units::Rate),
    /// A new delay.
    Delay(Span),
    /// The next of the link's changes of its discipline.
    Qdisc,
}

/// All changes after time zero, in order of time, then of link.
pub fn changes(scenario: &Scenario) -> Vec<(Time, usize, Change)> {
    let mut all = Vec::new();
    for index in 0..scenario.hops.len() * 2 {
        let link = scenario.link(index);
        if let Capacity::Steps(steps) = &link.rate {
            all.extend(steps.iter().skip(1).map(|&(at, rate)| (at, index, Change::Rate(rate))));
        }
        all.extend(link.delay.iter().skip(1).map(|&(at, delay)| (at, index, Change::Delay(delay))));
        all.extend(link.changes.iter().map(|&(at, _)| (at, index, Change::Qdisc)));
    }
    all.sort_by_key(|&(at, index, _)| (at, index));
    all
}
