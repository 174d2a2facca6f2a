//! The lanes of packets, and the order of simultaneous events. A class is a set of flows with the same path and delays;
//! a lane is one direction of a class.

use std::collections::BTreeMap;

use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::{Capacity, Scenario};
use sojourn_model::workload::{Direction, Entry};

/// Upper limit on the number of classes: each needs five ranks in the schedule, and its lanes must fit a packet's 16
/// bits.
pub const MOST_CLASSES: usize = 16_384;

/// One direction of a class. Each class has two lanes, that of the data (even) and the other direction (odd).
#[derive(Clone, Debug)]
pub struct Lane {
    /// Links on the path, in order (indices: hop · 2, plus 1 leftward).
    pub path: Vec<usize>,
    /// The last link of the path.
    pub last: usize,
    /// Delay from the host to the first link, without access links.
    pub delay_in: Span,
    /// Delay from the last link to the host, without access links.
    pub delay_out: Span,
    /// The indices of the sending host's uplink and of the receiving host's downlink; `None` without access links.
    pub access: Option<(usize, usize)>,
}

/// The class of a lane.
pub fn class_of_lane(lane: usize) -> usize {
    lane / 2
}

/// Returns whether a lane carries the data of its class.
pub fn is_data(lane: usize) -> bool {
    lane.is_multiple_of(2)
}

/// The lane of the same class in the other direction.
pub fn opposite(lane: usize) -> usize {
    lane ^ 1
}

/// The order of events at the same time: packets are sent before departures are handled.
#[derive(Clone, Copy)]
pub struct Ranks {
    lanes: usize,
    links: usize,
}

impl Ranks {
    /// A change of a link.
    pub const STEP: usize = 0;
    /// An access link completes a transmission (heap engine), or packets collected for receivers are delivered (fast
    /// engine).
    pub const ACCESS_DONE: usize = 1;
    pub const GATHERED: usize = 1;
    /// Number of ranks of a lane: into it and out of it.
    pub const PER_LANE: usize = 2;

    /// The ranks of a topology.
    pub fn new(topology: &Topology, scenario: &Scenario) -> Ranks {
        Ranks { lanes: topology.lanes.len(), links: scenario.hops.len() * 2 }
    }

    /// The rank of a packet's arrival at the first link of its lane.
    pub fn into(self, lane: usize) -> usize {
        2 + lane * Ranks::PER_LANE
    }

    /// The rank of a packet's arrival at the end host of its lane.
    pub fn out(self, lane: usize) -> usize {
        3 + lane * Ranks::PER_LANE
    }

    /// The rank of a packet's arrival at the link after this one.
    pub fn hop(self, link: usize) -> usize {
        self.into(self.lanes) + link
    }

    /// The rank of a packet's arrival at its destination's access link.
    pub fn down(self) -> usize {
        self.hop(self.links)
    }

    /// The rank of the receivers' timers in a class. Such a timer sends a delayed ACK or retransmits a SYN-ACK;
    /// wherever delayed ACKs are mentioned, these SYN-ACKs are included.
    pub fn delayed_ack(self, class: usize) -> usize {
        self.down() + 1 + class
    }

    /// The rank of an expiring retransmission timer.
    pub fn sender(self) -> usize {
        self.delayed_ack(self.lanes / 2)
    }

    /// The rank of an application's event.
    pub fn app(self) -> usize {
        self.sender() + 1
    }

    /// The rank of a pause frame's arrival at this link.
    pub fn frame(self, link: usize) -> usize {
        self.app() + 1 + link
    }

    /// The rank of this link's events.
    pub fn link(self, link: usize) -> usize {
        self.frame(self.links) + link
    }

    /// The rank of a group that runs ahead of the clock.
    pub fn group(self, group: usize) -> usize {
        self.link(self.links) + group
    }

    /// The number of ranks with this many groups.
    pub fn count(self, groups: usize) -> usize {
        self.group(groups)
    }
}

/// The lanes and classes of a run.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Lane `2·class` carries the data of plain flows, lane `2·class + 1` the other direction.
    pub lanes: Vec<Lane>,
    /// For each class: whether its data receivers may run ahead, at the last link's departures.
    pub steady: Vec<bool>,
    /// For each entry of the workload: its class.
    pub class_of: Vec<usize>,
    /// Number of access links.
    pub access_links: usize,
}

impl Topology {
    /// Groups the entries into classes. With access links, each entry is a class of its own.
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

    /// Returns the link after `link` on the lane; `None` if it is the last one.
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
        // Each class has four access links: uplink and downlink of the data sender's host, uplink and downlink of the
        // data receiver's host.
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

/// Returns whether data flows in both directions of a connection (requests and responses).
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
    /// The next change of the link's discipline.
    Qdisc,
}

/// Returns all changes after time zero, in order of time and then of link.
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
