//! The scenario as the worlds see it: checked, in integer units, nothing left to default.

use std::fmt::Write as _;
use std::sync::Arc;

pub use sojourn_core::netem::Params as Impair;
pub use sojourn_core::nic::Params as Nic;
use sojourn_core::qdisc::tc::{self, Spec};
use sojourn_core::units::{Rate, Span, Time};

use crate::rates::Rates;
use crate::workload::Workload;

/// One run: a path, the traffic over it, and how long to watch.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// For figures and tables.
    pub title: String,
    /// The end of the run; nothing happens at or after it.
    pub duration: Time,
    /// The measuring window [start, end); before it is start-up, reported apart.
    pub measure: (Time, Time),
    /// The seed of this run.
    pub seed: u64,
    /// The path, left to right. Each hop has a queue in either direction.
    pub hops: Vec<Hop>,
    /// Each host's own link; absent = not a bottleneck.
    pub access: Option<Access>,
    /// What of the hosts only a real kernel knows.
    pub host: Host,
    /// The traffic, drawn from the seed.
    pub workload: Workload,
    /// The longest base RTT of all flows: the window of `standing_queue_ms`.
    pub longest_rtt: Span,
}

impl Scenario {
    /// The link with this index: hop · 2 rightward, hop · 2 + 1 leftward. Panics if there is no such hop.
    pub fn link(&self, index: usize) -> &Link {
        let hop = &self.hops[index / 2];
        if index.is_multiple_of(2) { &hop.right } else { &hop.left }
    }

    /// The link whose packets come to this one, if a hop is before it.
    pub fn before(&self, index: usize) -> Option<usize> {
        before(index, self.hops.len())
    }

    /// The link to which this one's packets go, if a hop is behind it.
    pub fn behind(&self, index: usize) -> Option<usize> {
        before(index ^ 1, self.hops.len()).map(|link| link ^ 1)
    }

    /// Whether the hop behind this link can stop it.
    pub fn can_be_stopped(&self, index: usize) -> bool {
        self.behind(index).is_some_and(|behind| self.link(behind).pause.is_some())
    }

    /// Its name in results: the hop's, or `NAME.reverse`.
    pub fn link_name(&self, index: usize) -> String {
        let name = &self.hops[index / 2].name;
        if index.is_multiple_of(2) { name.clone() } else { format!("{name}.reverse") }
    }
}

/// The link that feeds this one on a path of so many hops.
pub fn before(index: usize, hops: usize) -> Option<usize> {
    if index.is_multiple_of(2) { index.checked_sub(2) } else { Some(index + 2).filter(|&link| link < hops * 2) }
}

/// One hop of the path.
#[derive(Clone, Debug)]
pub struct Hop {
    /// `bottleneck`, `hop0`, …
    pub name: String,
    /// The queue and link that rightward packets pass.
    pub right: Link,
    /// The queue and link that leftward packets pass; reported as `NAME.reverse`.
    pub left: Link,
}

/// A queue discipline, the link it feeds, and the propagation delay behind it.
#[derive(Clone, Debug)]
pub struct Link {
    /// What the link can carry over time.
    pub rate: Capacity,
    /// One-way propagation delay from each time on; the first step is at time zero. A fall of the delay never reorders.
    pub delay: Vec<(Time, Span)>,
    /// The discipline with its parameters, at the start of the run.
    pub qdisc: Spec,
    /// Its changes during the run, in order of time.
    pub changes: Vec<(Time, QdiscChange)>,
    /// Bytes that the link counts on top of the IP length.
    pub overhead: u32,
    /// The network card between discipline and link; absent: one descriptor, and completions at once.
    pub nic: Option<Nic>,
    /// What befalls packets behind the link, before the delay.
    pub impair: Option<Box<Impair>>,
    /// Flow control towards the link before.
    pub pause: Option<Pause>,
    /// A fall of the rate throws away what waits.
    pub flush: bool,
}

impl Link {
    /// The discipline at this time.
    pub fn qdisc_at(&self, time: Time) -> &Spec {
        let last = self.changes.iter().rev().find(|(at, _)| *at <= time);
        last.map_or(&self.qdisc, |(_, change)| change.spec())
    }

    /// The discipline at the start and after each change.
    pub fn qdiscs(&self) -> impl Iterator<Item = &Spec> {
        std::iter::once(&self.qdisc).chain(self.changes.iter().map(|(_, change)| change.spec()))
    }

    /// As [`Link::qdiscs`], mutable.
    pub fn qdiscs_mut(&mut self) -> impl Iterator<Item = &mut Spec> {
        std::iter::once(&mut self.qdisc).chain(self.changes.iter_mut().map(|(_, change)| change.spec_mut()))
    }

    /// The discipline and its changes as text: `cake bandwidth 20mbit; 30s: cake bandwidth 8mbit`.
    pub fn qdisc_text(&self) -> String {
        let mut text = self.qdisc.to_string();
        for (at, change) in &self.changes {
            // Writing to a String cannot fail.
            let _ = write!(text, "; {at}: {}", change.spec());
        }
        text
    }
}

/// A change of a discipline during a run.
#[derive(Clone, PartialEq, Debug)]
pub enum QdiscChange {
    /// Other parameters, as by `tc qdisc change`: queued packets stay, up to the new limits.
    Parameters(tc::Change),
    /// Another discipline, as by `tc qdisc replace`: queued packets are dropped.
    Discipline(Spec),
}

impl QdiscChange {
    /// The discipline and its parameters from then on.
    pub fn spec(&self) -> &Spec {
        match self {
            QdiscChange::Parameters(change) => &change.spec,
            QdiscChange::Discipline(spec) => spec,
        }
    }

    fn spec_mut(&mut self) -> &mut Spec {
        match self {
            QdiscChange::Parameters(change) => &mut change.spec,
            QdiscChange::Discipline(spec) => spec,
        }
    }
}

/// Ethernet flow control (IEEE 802.3x): at which fillings of its queue a link stops the one before it and lets it go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// When more than this waits, in packets or in bytes, the link before is told to stop.
    pub stop: Filling,
    /// When no more than this waits, in packets and in bytes, it is told to go on.
    pub go: Filling,
}

/// What waits in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filling {
    /// Packets.
    pub packets: u64,
    /// Bytes as the link counts them.
    pub bytes: u64,
}

/// What a link can carry.
#[derive(Clone, Debug)]
pub enum Capacity {
    /// A rate from each time on; the first step is at time zero. Rates are positive.
    Steps(Vec<(Time, Rate)>),
    /// Delivery opportunities of 1500 bytes (mahimahi).
    Trace(Arc<Trace>),
}

/// A file of a link's rate over time, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceFile {
    /// mahimahi's.
    Opportunities(Arc<Trace>),
    /// CSV or JSON.
    Rates(Arc<Rates>),
}

/// A mahimahi trace: one delivery opportunity of 1500 bytes at each time, repeated with its last time as the period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds since the start of the period, never falling, the last one positive.
    pub opportunities_ms: Vec<u64>,
}

impl Trace {
    /// The mean rate over a period.
    pub fn mean_rate(&self) -> Rate {
        let period_ms = self.opportunities_ms.last().copied().unwrap_or(0).max(1);
        Rate((self.opportunities_ms.len() as u64 * 1500 * 8 * 1000 / period_ms).max(1))
    }
}

/// A host's own link, one per flow end: a FIFO.
#[derive(Clone, Debug)]
pub struct Access {
    /// Rate of the host's link.
    pub rate: Rate,
    /// One-way delay of it; part of a flow's base RTT.
    pub delay: Span,
    /// Packets that it queues.
    pub limit: usize,
}

/// What hosts have beside their flows' TCP; the simulator's have no offloads, and buffers without bound unless one is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// The largest receive buffer in bytes (`tcp_rmem`), if it was given: the flows' TCP has it too.
    pub rmem: Option<u32>,
    /// The largest send buffer in bytes (`tcp_wmem`), if it was given: the flows' TCP has it too.
    pub wmem: Option<u32>,
    /// TCP Small Queues: `tcp_limit_output_bytes`, if it was given.
    pub tsq: Option<u32>,
    /// Ticks a second.
    pub hz: u32,
    /// Segmentation and receive offload on all devices.
    pub gso: bool,
    /// Most segments that TCP hands down as one packet, if it was given.
    pub gso_max_segs: Option<u32>,
}

impl Default for Host {
    /// As without a section `[host]`.
    fn default() -> Self {
        Host { rmem: None, wmem: None, tsq: None, hz: 250, gso: false, gso_max_segs: None }
    }
}
