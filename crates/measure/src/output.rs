//! The result of a run in any world, and the configuration of its meters, derived from the scenario in one place.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sojourn_core::tcp::Counters;
use sojourn_model::records::PacketRecord;
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::stream::{Transport, UDP_HEADERS};
use sojourn_model::workload::{App, Entry};

use crate::flow::{FlowMeter, FlowReport, FlowSetup};
use crate::link::{LinkReport, LinkSetup};
use crate::stream::StreamSetup;

/// Number of time bins of a link's series.
pub const BINS: u32 = 3000;
/// Number of time bins of all flows together: with many flows, bins are wider.
const FLOW_BINS: u32 = 100 * BINS;

/// The result of a run.
pub struct Output {
    /// One report per link, hop by hop, rightward before leftward.
    pub links: Vec<LinkReport>,
    /// One report per entry of the workload, or per pool of entries.
    pub flows: Vec<FlowReport>,
    /// Per-packet records if requested: link after link, in the order of their fates.
    pub packets: Vec<PacketRecord>,
    /// Counters of the hosts' TCP over the whole run, by Linux's names; `None` if nobody has counted.
    pub tcp: Option<Map<String, Value>>,
    /// Number of events that the engine handled.
    pub events: u64,
}

/// Counters of TCP as an object, by Linux's names.
pub fn tcp_object(counters: &Counters) -> Map<String, Value> {
    let values = Counters::NAMES.into_iter().zip(counters.values());
    values.map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// Configuration of a link's meter.
pub fn link_setup(scenario: &Scenario, index: usize) -> LinkSetup {
    LinkSetup {
        name: scenario.link_name(index),
        measure: scenario.measure,
        end: scenario.duration,
        rtt_window: scenario.longest_rtt,
        bins: BINS,
        overhead: scenario.link(index).overhead,
    }
}

/// Configuration of a flow's meter. `state` requests samples of the sender's state.
pub fn flow_setup(scenario: &Scenario, entry: &Entry, state: bool) -> FlowSetup {
    FlowSetup {
        name: entry.pool.as_ref().unwrap_or(&entry.name).clone(),
        kind: entry.kind,
        cc: cc_name(entry),
        measure: scenario.measure,
        end: scenario.duration,
        bins: (FLOW_BINS / scenario.workload.entries.len() as u32).clamp(1, BINS),
        state: state && entry.pool.is_none(),
        stream: match &entry.app {
            App::Stream(stream) if stream.transport == Transport::Udp => {
                Some(StreamSetup { payload: stream.bytes - UDP_HEADERS, voice: stream.voice })
            }
            _ => None,
        },
        intervals: match &entry.app {
            App::Rpm(rpm) => Some(rpm.interval),
            _ => None,
        },
    }
}

/// Kinds whose rows of one name are also reported together: percentiles over all of them cannot be had from each one's.
const TOGETHER: [&str; 7] = ["pings", "thin", "web", "video", "download", "upload", "sizes"];

/// Returns the reports of meters at the end of the run: one for each entry of the workload, or for each of its pools. The
/// first report of several rows of a name has all of them together.
/// `unfinished` counts transfers that had started but not completed by then, `setup` gives the configuration of an entry's
/// meter.
pub fn flow_reports(
    scenario: &Scenario,
    meters: Vec<FlowMeter>,
    unfinished: impl IntoIterator<Item = u64>,
    setup: impl Fn(&Entry) -> FlowSetup,
) -> Vec<FlowReport> {
    let workload = &scenario.workload;
    let mut rows: Vec<(FlowMeter, &Entry, u64)> = Vec::with_capacity(meters.len());
    let each = meters.into_iter().zip(&workload.entries).zip(unfinished);
    for (row, ((meter, entry), unfinished)) in workload.pools().into_iter().zip(each) {
        match rows.get_mut(row) {
            Some((pool, _, sum)) => {
                pool.merge(meter);
                *sum += unfinished;
            }
            None => rows.push((meter, entry, unfinished)),
        }
    }
    let together = together(&rows, &setup);
    let mut reports: Vec<FlowReport> =
        rows.into_iter().map(|(meter, entry, unfinished)| meter.finish(setup(entry), unfinished)).collect();
    for (row, report) in together {
        reports[row].together = Some(Box::new(report));
    }
    reports
}

/// Returns the reports of all rows of a name together, each with the number of its first row.
fn together(rows: &[(FlowMeter, &Entry, u64)], setup: &impl Fn(&Entry) -> FlowSetup) -> Vec<(usize, FlowReport)> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (row, (_, entry, _)) in rows.iter().enumerate() {
        if TOGETHER.contains(&entry.kind) {
            let name = entry.pool.as_ref().unwrap_or(&entry.name);
            groups.entry(shared_name(name)).or_default().push(row);
        }
    }
    let several = groups.into_iter().filter(|(_, rows)| rows.len() > 1);
    several
        .map(|(name, members)| {
            let (first, entry, _) = &rows[members[0]];
            let mut meter = first.clone();
            members[1..].iter().for_each(|&row| meter.merge(rows[row].0.clone()));
            let unfinished = members.iter().map(|&row| rows[row].2).sum();
            (members[0], meter.finish(FlowSetup { name, state: false, ..setup(entry) }, unfinished))
        })
        .collect()
}

/// The name that the flows of one table of the scenario share: `bulk0` of `bulk0.1`.
fn shared_name(name: &str) -> String {
    let parts = name.split('.').filter(|part| !part.bytes().all(|byte| byte.is_ascii_digit()));
    parts.collect::<Vec<_>>().join(".")
}

/// The congestion control's name as in the scenario file; empty without TCP.
fn cc_name(entry: &Entry) -> String {
    if entry.has_tcp() { entry.tcp.cc.to_string() } else { String::new() }
}
