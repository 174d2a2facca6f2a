//! The parts that both engines have in common: the setup of links and meters, and the output.

use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};
use sojourn_measure::{FlowMeter, FlowSetup, LinkReport, LinkSetup, flow_reports, flow_setup, link_setup, tcp_object};
use sojourn_model::records::{Fate, PacketRecord};
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::Entry;

use crate::ends::Ends;
use crate::hosts::Hosts;
use crate::{Detail, Options, Output};

/// Parameters of a link that depend on the run.
pub struct Setup {
    /// Configuration of its meter.
    pub meter: LinkSetup,
    /// Seed of its discipline.
    pub seed: u64,
    /// Timer ticks per second of the clock that the card's driver reads.
    pub hz: u32,
    /// Age of the current tick at time zero.
    pub phase: Span,
    /// The previous link, if there is one, and the delay to it from each time on.
    pub before: Option<(usize, Vec<(Time, Span)>)>,
    /// Whether the next link can pause this one.
    pub can_be_paused: bool,
}

/// Returns the setup of a link.
pub fn link(scenario: &Scenario, index: usize) -> Setup {
    let meter = link_setup(scenario, index);
    let seed = Rng::stream(scenario.seed, &format!("link {}", meter.name)).next_u64();
    // Frames in the other direction of the previous link arrive at its queue.
    let before = scenario.before(index).map(|before| (before, scenario.link(before ^ 1).delay.clone()));
    let can_be_paused = scenario.can_be_paused(index);
    Setup { meter, seed, hz: scenario.host.hz, phase: Span::ZERO, before, can_be_paused }
}

/// Creates a meter for each entry of the workload.
pub fn flows(scenario: &Scenario, options: &Options) -> Vec<FlowMeter> {
    scenario.workload.entries.iter().map(|entry| FlowMeter::new(&flow(scenario, entry, options))).collect()
}

fn flow(scenario: &Scenario, entry: &Entry, options: &Options) -> FlowSetup {
    let setup = flow_setup(scenario, entry, options.series);
    let bins = if options.detail == Detail::Full { setup.bins } else { 0 };
    FlowSetup { bins, ..setup }
}

/// Creates the receivers of a run. If the path may reorder ACKs, all of them carry the time of their departure.
pub fn ends(scenario: &Scenario, connections: usize) -> Ends {
    let mut links = (0..scenario.hops.len() * 2).map(|index| scenario.link(index));
    Ends::new(connections, links.any(|link| link.impair.as_ref().is_some_and(|impair| impair.reorders())))
}

/// The state at the end of a run.
pub struct EndState<'a> {
    /// The meters of the entries.
    pub flows: Vec<FlowMeter>,
    /// The receivers.
    pub ends: Ends,
    /// The senders.
    pub hosts: Hosts<'a>,
    /// Number of events that the engine handled.
    pub events: u64,
}

/// Assembles the output, link after link. Records get the rows of their connections and are in the order of their
/// fates; at equal times, drops precede departures.
pub fn output(
    scenario: &Scenario,
    options: &Options,
    links: impl Iterator<Item = (LinkReport, Vec<PacketRecord>)>,
    rest: EndState,
) -> Output {
    let EndState { mut flows, ends, hosts, events } = rest;
    let mut packets: Vec<PacketRecord> = Vec::new();
    let mut reports = Vec::new();
    let rows = scenario.workload.pools();
    let row = |connection| rows[ends.entry(connection) as usize] as u32;
    for (report, mut records) in links {
        records.sort_by_key(|record| (record.end, record.fate == Fate::Delivered));
        reports.push(report);
        packets.extend(records.into_iter().map(|r| PacketRecord { entry: row(r.connection), ..r }));
    }
    for (entry, at, seen) in hosts.stalls() {
        flows[entry as usize].watched(at, seen);
    }
    let unfinished = hosts.unfinished();
    let mut counters = ends.counters();
    counters += hosts.counters();
    let tcp = Some(tcp_object(&counters));
    // With many connections, their memory is needed for the reports.
    drop((ends, hosts));
    let flows = flow_reports(scenario, flows, unfinished, |entry| flow(scenario, entry, options));
    Output { links: reports, flows, packets, tcp, events }
}
