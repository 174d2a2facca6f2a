//! Every file in scenarios/ loads and gives the expected number of runs; the generated trace matches its recipe.

use std::fs;
use std::path::PathBuf;

use sojourn_core::rng::Rng;
use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::workload::App;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn load(name: &str) -> Plan {
    let path = folder().join(format!("{name}.toml"));
    Plan::open(&path.to_string_lossy(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The files and their numbers of runs.
const RUNS: &[(&str, usize)] = &[
    ("ack-per-window", 2),
    ("autorate", 2),
    ("bbr", 6),
    ("ccaq-100ms", 2),
    ("ccaq-doubling", 2),
    ("ccaq-halving", 2),
    ("conference", 5),
    ("datacentre", 4),
    ("fading-link", 5),
    ("family-evening", 2),
    ("fibre-1g", 3),
    ("flow-control", 3),
    ("gaming", 2),
    ("geo-16mbit", 2),
    ("geo-ack-starved", 4),
    ("home", 3),
    ("home-cable", 3),
    ("home-dsl", 4),
    ("isp-edge", 3),
    ("l4s-mixed", 4),
    ("leo", 3),
    ("lte-drive", 3),
    ("lte-trace", 3),
    ("meo-320mbit", 4),
    ("network-card", 2),
    ("parking-lot", 1),
    ("realtime", 3),
    ("responsiveness", 4),
    ("rrul", 3),
    ("rural-1mbit", 4),
    ("rural-high", 5),
    ("rural-low", 5),
    ("standing-queue", 1),
    ("static-1.5mbit", 4),
    ("static-100mbit", 4),
    ("ten-packet-buffer", 4),
    ("two-hops", 2),
    ("two-users", 3),
    ("unresponsive-l4s", 4),
    ("voice-by-dscp", 3),
    ("wifi-home", 3),
    ("wifi-slots", 3),
    ("work-call", 2),
];

#[test]
fn every_scenario_loads_and_asks_for_its_runs() {
    let mut files: Vec<String> = fs::read_dir(folder())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    files.sort();
    assert_eq!(files, RUNS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (name, runs) in RUNS {
        let plan = load(name);
        assert_eq!(plan.runs.len(), *runs, "{name}");
        assert!(plan.skipped.is_empty() && plan.warnings.is_empty(), "{name}: {:?}", plan.warnings);
        for run in 0..*runs {
            let scenario = plan.scenario(run).unwrap_or_else(|error| panic!("{error}"));
            assert!(!scenario.workload.entries.is_empty() && !scenario.hops.is_empty(), "{name}");
            assert!(scenario.longest_rtt.0 > 0, "{name}");
        }
    }
}

#[test]
fn the_disciplines_of_the_fading_link_see_the_same_arrivals() {
    let plan = load("fading-link");
    let workload = |run| format!("{:?}", plan.scenario(run).expect("sound").workload);
    let first = workload(0);
    assert!((1..5).all(|run| workload(run) == first));
    let scenario = plan.scenario(0).expect("sound");
    let App::Web { connections } = &scenario.workload.entries[4].app else { panic!("the web") };
    assert!((1000..2000).contains(&connections.len()), "{} connections at 5 a second", connections.len());
}

#[test]
fn another_seed_draws_other_starts_and_arrivals() {
    let path = folder().join("fading-link.toml");
    let load = |seed| {
        let options = LoadOptions { seed: Some(seed), ..LoadOptions::default() };
        let plan = Plan::open(&path.to_string_lossy(), &options).expect("sound");
        format!("{:?}", plan.scenario(0).expect("sound").workload)
    };
    assert_ne!(load(1), load(2));
    assert_eq!(load(2), load(2));
}

/// The recipe of traces/walk.down, a random walk of the rate over 20 s. Every 200 ms the rate changes by up to
/// 1.5 Mbit/s, between 1 and 12 Mbit/s; every 12000 bits give a delivery opportunity of 1500 bytes.
fn walk() -> String {
    let mut rng = Rng::stream(1, "lte drive");
    let (mut rate, mut bits, mut text) = (6_000_000i64, 0, String::new());
    for ms in 0..20_000u32 {
        if ms % 200 == 0 {
            rate = (rate + rng.below(3_000_001) as i64 - 1_500_000).clamp(1_000_000, 12_000_000);
        }
        bits += rate / 1000;
        while bits >= 12_000 {
            bits -= 12_000;
            text.push_str(&format!("{}\n", ms + 1));
        }
    }
    text
}

/// The recipe of traces/drive.csv, a drive of 100 s. Each half second the rate becomes 60 to 150 % of what it was, between 3
/// and 60 Mbit/s; every 25 s there is an outage of half a second, as the next cell takes over.
fn drive() -> String {
    let mut rng = Rng::stream(1, "a drive");
    let (mut kbit, mut text) = (20_000u64, "time_s,rate_kbit\n".to_owned());
    for half in 0..200u64 {
        kbit = (kbit * (60 + rng.below(91)) / 100).clamp(3_000, 60_000);
        let shown = if half % 50 == 49 { 0 } else { kbit };
        text.push_str(&format!("{}.{},{shown}\n", half / 2, half % 2 * 5));
    }
    text
}

#[test]
fn the_traces_are_those_of_their_recipes() {
    for (name, recipe) in [("walk.down", walk()), ("drive.csv", drive())] {
        let path = folder().join("traces").join(name);
        let written = fs::read_to_string(&path).unwrap_or_default();
        if written != recipe && std::env::var_os("SOJOURN_BLESS").is_some() {
            fs::write(&path, &recipe).expect("written");
        }
        assert!(written == recipe, "{} differs: SOJOURN_BLESS=1 writes it anew", path.display());
    }
}
