//! The scenario as the worlds use it: checked, in integer units, with all defaults filled in.

use std::fmt::Write as _;
use std::sync::Arc;

pub use sojourn_core::netem::Params as Impair;
pub use sojourn_core::nic::Params as Nic;
use sojourn_core::qdisc::LinkLayer;
use sojourn_core::qdisc::tc::{self, Spec};
pub use sojourn_core::trace::Trace;
use sojourn_core::units::{Rate, Span, Time};

use crate::rates::Rates;
use crate::workload::Workload;

/// One run: a path, the traffic over it, and its duration.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Title, for figures and tables.
    pub title: String,
    /// The end of the run. Nothing happens at or after it.
    pub duration: Time,
    /// The measuring window [start, end). Start-up, the time before it, is reported separately.
    pub measure: (Time, Time),
    /// The seed of this run.
    pub seed: u64,
    /// The hops of the path, left to right. Each has a queue in either direction.
    pub hops: Vec<Hop>,
    /// Access links of the hosts; `None` if they are no bottleneck.
    pub access: Option<Access>,
    /// Host parameters that apply to a real kernel only.
    pub host: Host,
    /// The traffic, drawn from the seed.
    pub workload: Workload,
    /// The longest base RTT of all flows: the window of `standing_queue_ms`.
    pub longest_rtt: Span,
}

impl Scenario {
    /// Returns the link with this index: hop · 2 rightward, hop · 2 + 1 leftward. Panics if there is no such hop.
    pub fn link(&self, index: usize) -> &Link {
        let hop = &self.hops[index / 2];
        if index.is_multiple_of(2) { &hop.right } else { &hop.left }
    }

    /// Returns the index of the previous link, whose packets arrive at this one; `None` for the first link of its
    /// direction.
    pub fn before(&self, index: usize) -> Option<usize> {
        before(index, self.hops.len())
    }

    /// Returns the index of the next link in the same direction; `None` for the last one.
    pub fn after(&self, index: usize) -> Option<usize> {
        before(index ^ 1, self.hops.len()).map(|link| link ^ 1)
    }

    /// Returns whether the next hop can pause this link.
    pub fn can_be_paused(&self, index: usize) -> bool {
        self.after(index).is_some_and(|after| self.link(after).pause.is_some())
    }

    /// Returns the link's name in results: that of the hop, or `NAME.reverse`.
    pub fn link_name(&self, index: usize) -> String {
        let name = &self.hops[index / 2].name;
        if index.is_multiple_of(2) { name.clone() } else { format!("{name}.reverse") }
    }
}

/// Returns the previous link of link `index` on a path of `hops` hops.
pub fn before(index: usize, hops: usize) -> Option<usize> {
    if index.is_multiple_of(2) { index.checked_sub(2) } else { Some(index + 2).filter(|&link| link < hops * 2) }
}

/// One hop of the path.
#[derive(Clone, Debug)]
pub struct Hop {
    /// `bottleneck`, `hop0`, …
    pub name: String,
    /// The queue and link for rightward packets.
    pub right: Link,
    /// The queue and link for leftward packets, reported as `NAME.reverse`.
    pub left: Link,
}

/// A queue discipline, the link it feeds, and the propagation delay after it.
#[derive(Clone, Debug)]
pub struct Link {
    /// The link's capacity over time.
    pub rate: Capacity,
    /// One-way propagation delay from each time on; the first step is at time zero. A decrease of the delay never
    /// reorders packets.
    pub delay: Vec<(Time, Span)>,
    /// The discipline with its parameters, at the start of the run.
    pub qdisc: Spec,
    /// Changes of the discipline during the run, in order of time.
    pub changes: Vec<(Time, QdiscChange)>,
    /// Bytes per packet that the link counts in addition to the IP length.
    pub overhead: u32,
    /// How the link frames packets. With ATM it sends cells of 53 bytes, of which each carries 48.
    pub linklayer: LinkLayer,
    /// The network card between discipline and link. `None` means a ring of one descriptor and immediate completions.
    pub nic: Option<Nic>,
    /// Impairments of packets after the link and before the propagation delay.
    pub impair: Option<Box<Impair>>,
    /// Flow control towards the previous link.
    pub pause: Option<Pause>,
    /// Whether every decrease of the rate flushes the discipline's queue.
    pub flush: bool,
}

impl Link {
    /// Returns the bytes that the link sends for a packet of `ip` bytes.
    pub fn wire_bytes(&self, ip: u32) -> u32 {
        self.linklayer.bytes(u64::from(ip + self.overhead)) as u32
    }

    /// Returns the discipline in effect at `time`.
    pub fn qdisc_at(&self, time: Time) -> &Spec {
        let last = self.changes.iter().rev().find(|(at, _)| *at <= time);
        last.map_or(&self.qdisc, |(_, change)| change.spec())
    }

    /// Iterates over the discipline at the start and after each change.
    pub fn qdiscs(&self) -> impl Iterator<Item = &Spec> {
        std::iter::once(&self.qdisc).chain(self.changes.iter().map(|(_, change)| change.spec()))
    }

    /// Like [`Link::qdiscs`], with mutable references.
    pub fn qdiscs_mut(&mut self) -> impl Iterator<Item = &mut Spec> {
        std::iter::once(&mut self.qdisc).chain(self.changes.iter_mut().map(|(_, change)| change.spec_mut()))
    }

    /// Returns the discipline and its changes as text: `cake bandwidth 20mbit; 30s: cake bandwidth 8mbit`.
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
    /// New parameters, as by `tc qdisc change`. Queued packets stay, as far as the new limits allow.
    Parameters(tc::Change),
    /// A new discipline, as by `tc qdisc replace`. Queued packets are dropped.
    Discipline(Spec),
}

impl QdiscChange {
    /// Returns the discipline and its parameters from the change on.
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

/// Ethernet flow control (IEEE 802.3x): the queue lengths at which a link pauses and resumes the previous one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// The previous link is paused if the queue exceeds this, in packets or in bytes.
    pub stop: QueueSize,
    /// The previous link is resumed if the queue exceeds this neither in packets nor in bytes.
    pub go: QueueSize,
}

/// The content of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSize {
    /// Number of packets.
    pub packets: u64,
    /// Bytes, as the link counts them.
    pub bytes: u64,
}

/// The capacity of a link over time.
#[derive(Clone, Debug)]
pub enum Capacity {
    /// A rate from each time on; the first step is at time zero. Rates are positive.
    Steps(Vec<(Time, Rate)>),
    /// Delivery opportunities of 1500 bytes each (mahimahi).
    Trace(Arc<Trace>),
}

/// A file with a link's rate over time, after parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceFile {
    /// A mahimahi trace.
    Opportunities(Arc<Trace>),
    /// Rates from a CSV or JSON file.
    Rates(Arc<Rates>),
}

/// The access link of a host, with a FIFO queue. Each end of a flow has its own.
#[derive(Clone, Debug)]
pub struct Access {
    /// The rate of the link.
    pub rate: Rate,
    /// One-way propagation delay; part of a flow's base RTT.
    pub delay: Span,
    /// Queue limit in packets.
    pub limit: usize,
}

/// Host parameters that are not part of the flows' TCP configuration. Hosts in the simulator have no offloads. Their
/// buffers are unlimited unless a size is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// The largest receive buffer in bytes (`tcp_rmem`), if given. The flows' TCP configuration has it too.
    pub rmem: Option<u32>,
    /// The largest send buffer in bytes (`tcp_wmem`), if given. The flows' TCP configuration has it too.
    pub wmem: Option<u32>,
    /// TCP Small Queues: `tcp_limit_output_bytes`, if given.
    pub tsq: Option<u32>,
    /// Timer ticks per second (HZ).
    pub hz: u32,
    /// Whether segmentation and receive offload are on, for all devices.
    pub gso: bool,
    /// Maximum number of segments in one packet that TCP hands to the device, if given.
    pub gso_max_segs: Option<u32>,
}

impl Default for Host {
    /// The defaults without a section `[host]`.
    fn default() -> Self {
        Host { rmem: None, wmem: None, tsq: None, hz: 250, gso: false, gso_max_segs: None }
    }
}
