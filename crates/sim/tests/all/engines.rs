//! Comparison of both engines on every scenario file: identical records, measures and series.

use std::path::{Path, PathBuf};

use sojourn_core::units::Time;
use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::records::PacketRecord;
use sojourn_model::scenario::{Capacity, Hop, Scenario};
use sojourn_sim::{Detail, Engine, Options, Output, run};

fn scenario_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let entries = std::fs::read_dir(folder).expect("the folder scenarios");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

/// Shortens a scenario so that the slow engine takes only a few seconds; complete with SOJOURN_FULL=1.
fn shortened(mut scenario: Scenario) -> Scenario {
    if std::env::var_os("SOJOURN_FULL").is_none() {
        let fastest = |hop: &Hop| match (&hop.right.rate, &hop.left.rate) {
            (Capacity::Steps(right), Capacity::Steps(left)) => right.iter().chain(left).map(|step| step.1.0).max(),
            _ => None,
        };
        // The rate of the bottleneck bounds the number of packets.
        let mbit = (scenario.hops.iter().filter_map(fastest).min().unwrap_or(10_000_000) / 1_000_000).max(1);
        // The fading link's rate falls for the first time at 50 s.
        let millis = if mbit > 100 { 3_000_000 / mbit } else { (1_500_000 / mbit).clamp(55_000, 300_000) };
        scenario.duration = scenario.duration.min(Time(millis * 1_000_000));
        scenario.measure.0 = scenario.measure.0.min(Time(scenario.duration.0 / 2));
        scenario.measure.1 = scenario.measure.1.min(scenario.duration);
    }
    scenario
}

fn output(scenario: &Scenario, engine: Engine, detail: Detail) -> Output {
    let options = Options { engine, detail, packets: true, series: true, ..Options::default() };
    run(scenario, &options).expect("nobody stops it")
}

fn packets_and_report(output: &Output) -> (&[PacketRecord], String) {
    let links: Vec<_> = output.links.iter().map(|l| (&l.main, &l.startup, l.series.columns())).collect();
    let flows: Vec<_> =
        output.flows.iter().map(|f| (&f.main, &f.startup, f.series.columns(), f.series.state_columns())).collect();
    (&output.packets, format!("{links:?} {flows:?}"))
}

#[test]
fn both_engines_give_identical_records_on_every_scenario() {
    let mut compared = 0;
    for file in scenario_files() {
        let plan = Plan::open(&file.to_string_lossy(), &LoadOptions::default()).expect("a scenario that loads");
        for index in 0..plan.runs.len() {
            let scenario = shortened(plan.scenario(index).expect("a scenario"));
            let name = format!("{} {:?}", file.display(), plan.runs[index].set);
            let fast = output(&scenario, Engine::Fast, Detail::Full);
            let heap = output(&scenario, Engine::Heap, Detail::Full);
            let ((fast_packets, fast_report), (heap_packets, heap_report)) =
                (packets_and_report(&fast), packets_and_report(&heap));
            if let Some(at) = fast_packets.iter().zip(heap_packets).position(|(f, h)| f != h) {
                panic!("{name}: record {at} is {:?}, by the heap {:?}", fast_packets[at], heap_packets[at]);
            }
            assert_eq!(fast_packets.len(), heap_packets.len(), "{name}");
            assert!(fast_packets.len() > 200, "{name}: only {} records", fast_packets.len());
            assert_eq!(fast_report, heap_report, "{name}");
            compared += fast_packets.len();
        }
    }
    assert!(compared > 1_000_000, "{compared}");
}

#[test]
fn measuring_less_changes_nothing_of_what_is_measured() {
    for file in ["fading-link", "rural-low"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{file}.toml"));
        let plan = Plan::open(&file.to_string_lossy(), &LoadOptions::default()).expect("a scenario that loads");
        let scenario = shortened(plan.scenario(0).expect("a scenario"));
        let full = output(&scenario, Engine::Fast, Detail::Full);
        let lean = output(&scenario, Engine::Fast, Detail::Departures);
        assert_eq!(full.packets, lean.packets);
        for (full, lean) in full.links.iter().zip(&lean.links) {
            let mut rest = full.main.clone();
            assert!(rest.queue_delay_ms.is_some());
            rest.forget_queue();
            assert_eq!(rest, lean.main);
        }
    }
}

#[test]
fn the_same_scenario_gives_the_same_output_and_another_seed_another() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rural-high.toml");
    let load = |seed| {
        let options = LoadOptions { seed: Some(seed), ..LoadOptions::default() };
        shortened(Plan::open(&file.to_string_lossy(), &options).expect("it loads").scenario(0).expect("a scenario"))
    };
    let outputs = [1, 1, 2].map(|seed| output(&load(seed), Engine::Fast, Detail::Full));
    let [one, again, other] = outputs.each_ref().map(packets_and_report);
    assert_eq!(one, again);
    assert_ne!(one.0, other.0);
}
