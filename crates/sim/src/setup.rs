//! What both engines begin and end with.

use sojourn_core::rng::Rng;
use sojourn_core::tcp::Cc;
use sojourn_measure::{FlowMeter, FlowSetup, LinkReport, LinkSetup};
use sojourn_model::records::{Fate, PacketRecord};
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::{App, Entry};

use crate::ends::Ends;
use crate::hosts::Hosts;
use crate::{Options, Output};

/// Time bins of a run's series.
pub const BINS: u32 = 3000;

/// The meter's setup and the discipline's seed of a link.
pub fn link(scenario: &Scenario, index: usize) -> (LinkSetup, u64) {
    let setup = LinkSetup {
        name: scenario.link_name(index),
        measure: scenario.measure,
        end: scenario.duration,
        rtt_window: scenario.longest_rtt,
        bins: BINS,
        overhead: scenario.link(index).overhead,
    };
    let seed = Rng::stream(scenario.seed, &format!("link {}", setup.name)).next_u64();
    (setup, seed)
}

/// A meter for each entry.
pub fn flows(scenario: &Scenario, options: &Options) -> Vec<FlowMeter> {
    let flow = |entry: &Entry| {
        FlowMeter::new(&FlowSetup {
            name: entry.name.clone(),
            kind: entry.kind,
            cc: cc_name(entry),
            measure: scenario.measure,
            end: scenario.duration,
            bins: BINS,
            state: options.series,
        })
    };
    scenario.workload.entries.iter().map(flow).collect()
}

/// As in the scenario file; empty where there is no TCP.
fn cc_name(entry: &Entry) -> String {
    match (&entry.app, entry.tcp.cc) {
        (App::Pings { .. }, _) => String::new(),
        (_, Cc::Reno) => "reno".into(),
        (_, Cc::Cubic) => "cubic".into(),
        (_, Cc::Fixed(window)) => format!("fixed {window}"),
    }
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
