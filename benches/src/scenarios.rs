//! The bench scenarios: one bottleneck, `codel variant linux`, no overhead.

use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::LinkLayer;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::rng::Rng;
use sojourn_core::tcp::{Cc, Config};
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::scenario::{Capacity, Hop, Link, Scenario};
use sojourn_model::workload::{App, Delays, Direction, Entry, Workload};

const SEED: u64 = 1;

/// Returns the scenario of this name: `P1` to `P5`, and P1 with BBR.
pub fn named(name: &str) -> Option<Scenario> {
    let second = Span::from_secs(1);
    match name {
        "P1" => Some(p1(4)),
        "P1-bbr" => Some(with_cc(p1(4), Cc::Bbr)),
        "P1-bbr3" => Some(with_cc(p1(4), Cc::Bbr3)),
        "P2" => Some(bulk(Rate(10_000_000), Span::from_millis(100), 50, second, Span::from_secs(300))),
        "P3" => Some(bulk(Rate(1_000_000_000), Span::from_millis(50), 10, second, Span::from_secs(30))),
        "P4" => Some(p4()),
        "P5" => {
            Some(bulk(Rate(10_000_000_000), Span::from_millis(20), 100, Span::from_millis(100), Span::from_secs(5)))
        }
        _ => None,
    }
}

/// Replaces the congestion control, and enables Linux's bursts and compressed ACKs, which are the defaults of scenario
/// files.
fn with_cc(mut scenario: Scenario, cc: Cc) -> Scenario {
    for entry in &mut scenario.workload.entries {
        entry.tcp = Config { cc, gso_max_segs: 65_535, comp_sack_nr: 44, ..entry.tcp };
    }
    scenario
}

/// Replaces CoDel by a FIFO with the same limit.
pub fn with_fifo(mut scenario: Scenario) -> Scenario {
    for hop in &mut scenario.hops {
        hop.right.qdisc = hop.left.qdisc.clone();
    }
    scenario
}

/// 100 Mbit/s, 100 ms, 60 s, with this number of flows.
pub fn p1(flows: u32) -> Scenario {
    bulk(Rate(100_000_000), Span::from_millis(100), flows, Span::from_secs(1), Span::from_secs(60))
}

/// 10 Gbit/s, 100 ms, 5 s through `fq_codel` with its defaults, with this number of flows: each of 100 000 flows has
/// less than one packet of the bandwidth-delay product.
pub fn scale(flows: u32) -> Scenario {
    let rtt = Span::from_millis(100);
    let mut scenario = bulk(Rate(10_000_000_000), rtt, flows, Span::from_secs(1), Span::from_secs(5));
    scenario.hops[0].right.qdisc = line("fq_codel");
    scenario
}

/// CUBIC bulk flows that start within `starts`, with a buffer of 8 bandwidth-delay products.
fn bulk(rate: Rate, rtt: Span, flows: u32, starts: Span, duration: Span) -> Scenario {
    let limit = (rate.bytes_in(rtt) * 8).div_ceil(1500);
    let flow = |i: u32| {
        let name = format!("bulk0.{i}");
        let start = Time(Rng::stream(SEED, &name).below(starts.0));
        entry(
            name,
            "bulk",
            Config { quickack: false, ..Config::default() },
            App::Bulk { active: vec![(start, Time::NEVER)] },
        )
    };
    scenario(rate, rtt, limit, (0..flows).map(flow).collect(), duration)
}

/// The rural low load: 1 Mbit/s, 300 ms, 25 packets; a bulk flow, repeated downloads of 1.7 MB with exponential gaps of
/// 9.5 s on average, and a thin stream of 150 bytes every 300 ms; NewReno with an initial window of 3.
fn p4() -> Scenario {
    let (rtt, duration) = (Span::from_millis(300), Span::from_secs(300));
    let tcp = Config { cc: Cc::Reno, iw: 3, ..Config::default() };
    let mut rng = Rng::stream(SEED, "gaps");
    let gaps = (0..100).map(|_| Span((-(1.0 - rng.uniform()).ln() * 9.5e9) as u64)).collect();
    let start = |name: &str| Time(Rng::stream(SEED, name).below(1_000_000_000));
    let apps = [
        ("bulk", App::Bulk { active: vec![(start("bulk"), Time::NEVER)] }),
        ("download", App::Download { start: start("download"), size: 1_700_000, gaps, stop: Time::NEVER }),
        ("thin", App::Thin { start: start("thin"), bytes: 150, interval: Span::from_millis(300), stop: Time::NEVER }),
    ];
    let entries = apps.into_iter().map(|(kind, app)| entry(format!("{kind}0"), kind, tcp, app)).collect();
    scenario(Rate(1_000_000), rtt, 25, entries, duration)
}

fn entry(name: String, kind: &'static str, tcp: Config, app: App) -> Entry {
    Entry {
        name,
        pool: None,
        kind,
        direction: Direction::Right,
        via: (0, 0),
        tcp,
        dscp: 0,
        ecn: Ecn::NotEct,
        delays: Delays::default(),
        tunnel: None,
        user: None,
        app,
    }
}

fn line(text: &str) -> Spec {
    text.parse().expect("a line of our own")
}

fn scenario(rate: Rate, rtt: Span, limit: u64, entries: Vec<Entry>, duration: Span) -> Scenario {
    let link = |qdisc: String| Link {
        rate: Capacity::Steps(vec![(Time::ZERO, rate)]),
        delay: vec![(Time::ZERO, Span(rtt.0 / 2))], // The base RTT is the hop's delay in both directions.
        qdisc: line(&qdisc),
        changes: Vec::new(),
        overhead: 0,
        linklayer: LinkLayer::Ethernet,
        nic: None,
        impair: None,
        pause: None,
        flush: false,
    };
    let hop = Hop {
        name: "bottleneck".to_owned(),
        right: link(format!("codel variant linux limit {limit}")),
        left: link(format!("pfifo limit {limit}")),
    };
    let end = Time::ZERO + duration;
    Scenario {
        title: "bench".to_owned(),
        duration: end,
        measure: (Time::ZERO, end),
        seed: SEED,
        hops: vec![hop],
        access: None,
        host: sojourn_model::scenario::Host::default(),
        workload: Workload { entries, groups: Vec::new() },
        longest_rtt: rtt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_has_the_buffer_and_the_flows_that_it_should() {
        let shape = |name: &str| {
            let scenario = named(name).expect("a benchmark");
            (scenario.hops[0].right.qdisc.full(), scenario.workload.entries.len(), scenario.duration.0 / 1_000_000_000)
        };
        for (name, limit, flows, seconds) in [
            ("P1", 6667, 4, 60),
            ("P2", 667, 50, 300),
            ("P3", 33334, 10, 30),
            ("P4", 25, 3, 300),
            ("P5", 133334, 100, 5),
        ] {
            let (qdisc, entries, duration) = shape(name);
            assert!(qdisc.contains(&format!("limit {limit} ")), "{name}: {qdisc}");
            assert_eq!((entries, duration), (flows, seconds), "{name}");
        }
        assert!(named("P9").is_none());
    }

    #[test]
    fn starts_are_spread_and_always_the_same() {
        let starts = |scenario: &Scenario| -> Vec<_> {
            let start = |entry: &Entry| match &entry.app {
                App::Bulk { active } => active[0].0,
                _ => Time::NEVER,
            };
            scenario.workload.entries.iter().map(start).collect()
        };
        let p5 = starts(&named("P5").expect("a benchmark"));
        assert!(p5.iter().all(|start| *start < Time(100_000_000)));
        assert!(p5.iter().max() > Some(&Time(90_000_000)) && p5.iter().min() < Some(&Time(10_000_000)));
        assert_eq!(p5, starts(&named("P5").expect("a benchmark")));
    }
}
