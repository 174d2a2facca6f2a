//! Responsiveness tests in both engines.

use sojourn_measure::responsiveness::{Confidence, Responsiveness};
use sojourn_model::plan::{LoadOptions, Plan};

use super::*;

/// The results of a test on a path of 20 ms whose link of `mbit` Mbit/s has this queue in both directions.
fn tested(mbit: u64, qdisc: &str, keys: &str) -> (Vec<Responsiveness>, Output) {
    let text = format!(
        "duration = \"20s\"\n[[hop]]\nrate = \"{mbit}mbit\"\ndelay = \"10ms\"\nqdisc = \"{qdisc}\"\n\
         [hop.reverse]\nqdisc = \"{qdisc}\"\n[[flow]]\nkind = \"rpm\"\n{keys}\n"
    );
    let plan = Plan::load("rpm.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let scenario = plan.scenario(0).unwrap_or_else(|e| panic!("{e}"));
    let output = assert_engines_agree(qdisc, &scenario);
    (output.flows.iter().map(|flow| *flow.main.rpm.as_deref().expect("a test")).collect(), output)
}

fn one_test(mbit: u64, qdisc: &str, keys: &str) -> (Responsiveness, Output) {
    let (results, output) = tested(mbit, qdisc, keys);
    (results[0], output)
}

#[test]
fn a_bloated_fifo_is_below_200_rpm_and_fq_codel_above_1000_down_and_up() {
    for direction in ["right", "left"] {
        let keys = format!("direction = \"{direction}\"");
        let (bloated, _) = one_test(20, "pfifo limit 1000", &keys);
        let (managed, _) = one_test(20, "fq_codel", &keys);
        for (one, most) in [(bloated, 200.0), (managed, f64::MAX)] {
            let [rpm, foreign, loaded] = [one.rpm, one.foreign, one.loaded].map(|value| value.expect("probes"));
            assert!(rpm < most && (rpm - (foreign + loaded) / 2.0).abs() < 1e-9, "{one:?}");
            assert_eq!(one.capacity_confidence, Confidence::High, "{one:?}");
            // With the FIFO, the window of Linux's CUBIC, and so the delay, is still growing when time is up.
            assert!(one.confidence != Confidence::Low, "{one:?}");
            assert!(loaded < foreign, "its own queue is the longest that a flow can have: {one:?}");
        }
        assert!(managed.rpm > Some(1000.0), "{managed:?}");
    }
}

#[test]
fn without_a_queue_a_foreign_probe_takes_three_round_trips_and_a_self_probe_waits_for_the_next_segment() {
    // Ten segments of 1448 bytes together every 40 ms and a bit: 2.9 Mbit/s each.
    let keys = "rtt = \"40ms\"\ncc = \"fixed 10\"\nacks = \"every\"\nconnections = 4";
    let (empty, _) = one_test(1000, "pfifo limit 1000", keys);
    for time in [empty.tcp_ms, empty.tls_ms, empty.http_ms] {
        let time = time.expect("foreign probes");
        assert!((40.0..40.2).contains(&time), "{empty:?}");
    }
    assert!(empty.foreign.is_some_and(|rpm| (rpm - 1500.0).abs() < 3.0), "{empty:?}");
    // 20 ms on the way there, up to 40 ms until the next segments are sent, 20 ms back: 60 ms on average.
    assert!(empty.loaded_ms.is_some_and(|time| (50.0..70.0).contains(&time)), "{empty:?}");
    assert!(empty.capacity_mbit.is_some_and(|mbit| (mbit - 4.0 * 2.896).abs() < 0.1), "{empty:?}");
}

#[test]
fn rpm_draft_probes_go_on_while_earlier_ones_are_under_way_and_take_5_percent() {
    let (bloated, output) = one_test(20, "pfifo limit 1000", "");
    // 5 % of 20 Mbit/s are 20.8 pairs of 6000 bytes per second: 83 in four seconds, though each takes most of a second.
    assert!((70..=90).contains(&bloated.loaded_probes) && (65..=90).contains(&bloated.foreign_probes), "{bloated:?}");
    assert!(bloated.loaded_ms > Some(500.0), "{bloated:?}");
    let link = &output.links[0].main;
    assert!(link.utilisation > Some(0.97), "{:?}", link.utilisation);
}

#[test]
fn rpm_draft_a_test_without_tls_has_two_times_of_equal_weight() {
    let (plain, _) = one_test(20, "fq_codel", "tls = false");
    let (tcp, http) = (plain.tcp_ms.expect("probes"), plain.http_ms.expect("probes"));
    assert_eq!((plain.tls_ms, plain.foreign), (None, Some(60_000.0 / ((tcp + http) / 2.0))));
}

#[test]
fn both_directions_are_two_tests_at_once_that_end_when_they_are_to_stop() {
    let (both, output) = tested(20, "fq_codel", "direction = \"both\"\nstop = \"12s\"\ninterval = \"500ms\"");
    assert_eq!(both.len(), 2);
    assert!(both.iter().all(|one| one.rpm > Some(500.0) && one.after_s <= 12.0), "{both:?}");
    let last = output.packets.iter().map(|packet| packet.end).max().expect("packets");
    assert!((Time(12_000_000_000)..Time(14_000_000_000)).contains(&last), "{last:?}");
}
