//! What both engines begin and end with.

use sojourn_core::rng::Rng;
use sojourn_measure::{FlowMeter, LinkReport, LinkSetup, flow_setup, link_setup};
use sojourn_model::records::{Fate, PacketRecord};
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::Entry;

use crate::ends::Ends;
use crate::hosts::Hosts;
use crate::{Options, Output};

/// The meter's setup and the discipline's seed of a link.
pub fn link(scenario: &Scenario, index: usize) -> (LinkSetup, u64) {
    let setup = link_setup(scenario, index);
    let seed = Rng::stream(scenario.seed, &format!("link {}", setup.name)).next_u64();
    (setup, seed)
}

/// A meter for each entry.
pub fn flows(scenario: &Scenario, options: &Options) -> Vec<FlowMeter> {
    let flow = |entry: &Entry| FlowMeter::new(&flow_setup(scenario, entry, options.series));
    scenario.workload.entries.iter().map(flow).collect()
}

/// The output, link after link; the records get the entries of their connections, in the order of their fates (where
/// both happen at the same time, drops go before departures).
pub fn output(
    links: impl Iterator<Item = (LinkReport, Vec<PacketRecord>)>,
    flows: Vec<FlowMeter>,
    ends: &Ends,
    hosts: &Hosts,
    events: u64,
) -> Output {
    let mut packets: Vec<PacketRecord> = Vec::new();
    let mut reports = Vec::new();
    for (report, mut records) in links {
        records.sort_by_key(|record| (record.end, record.fate == Fate::Delivered));
        reports.push(report);
        packets.extend(records.into_iter().map(|r| PacketRecord { entry: ends.entry(r.connection), ..r }));
    }
    let flows = flows.into_iter().zip(hosts.unfinished()).map(|(flow, unfinished)| flow.finish(unfinished)).collect();
    Output { links: reports, flows, packets, events }
}
