//! What a hop's network card held, over time: descriptors in use, the limit of BQL and the bytes below it.

use serde_json::{Value, json};
use sojourn_core::units::Time;
use sojourn_measure::{Distribution, Histogram, LinkReport, LinkWindow};
use sojourn_model::scenario::Scenario;

use crate::probe::{Record, Ring};

/// Adds the card's measures to the report of its link, if it has one.
pub fn measure(scenario: &Scenario, index: usize, seen: &[Record], origin: u64, report: &mut LinkReport) {
    let Some(nic) = scenario.link(index).nic else { return };
    let rings: Vec<Ring> = seen.iter().filter_map(|one| ring(one, index)).collect();
    let (from, to) = scenario.measure;
    let fill = |window: &mut LinkWindow, span: (Time, Time)| {
        window.nic = Some(held(&rings, origin, span, nic.bql));
        // What waits may wait in the ring: who looks from outside can't tell how full the discipline is.
        window.full_fraction = None;
    };
    fill(&mut report.main, (from, to));
    if let Some(startup) = &mut report.startup {
        fill(startup, (Time::ZERO, from));
    }
}

fn ring(record: &Record, index: usize) -> Option<Ring> {
    match record {
        Record::Ring(ring) if usize::from(ring.link) == index => Some(*ring),
        _ => None,
    }
}

/// Over the time of a window: packets in the ring, and with BQL its limit and the bytes that it counts.
fn held(rings: &[Ring], origin: u64, (from, to): (Time, Time), bql: bool) -> Value {
    let [mut packets, mut limit, mut inflight]: [Histogram; 3] = Default::default();
    let mut add = |ring: &Ring, since: u64, until: u64| {
        let weight = until.min(to.0).saturating_sub(since.max(from.0));
        packets.add_weighted(u64::from(ring.packets), weight);
        limit.add_weighted(u64::from(ring.limit), weight);
        inflight.add_weighted(u64::from(ring.inflight), weight);
    };
    let at = |ring: &Ring| ring.at.saturating_sub(origin);
    let empty = Ring { link: 0, completed: true, bytes: 0, packets: 0, limit: 0, inflight: 0, at: origin, jiffies: 0 };
    let mut last = &empty;
    for ring in rings {
        add(last, at(last), at(ring));
        last = ring;
    }
    add(last, at(last), to.0);
    let of = |histogram: &Histogram| Distribution::of(histogram, 1.0);
    json!({
        "ring_packets": of(&packets),
        "bql_limit_bytes": bql.then(|| of(&limit)).flatten(),
        "bql_inflight_bytes": bql.then(|| of(&inflight)).flatten(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_weighed_by_the_time_for_which_it_held_its_packets() {
        let at = |at, packets| Ring {
            link: 0,
            completed: false,
            bytes: 1514,
            packets,
            limit: 3028,
            inflight: packets * 1514,
            at,
            jiffies: 0,
        };
        let rings = [at(1_000, 1), at(1_100, 3), at(1_400, 0)];
        let value = held(&rings, 1_000, (Time(0), Time(1_000)), true);
        assert_eq!(value["ring_packets"]["mean"], json!((100.0 + 900.0) / 1_000.0));
        assert_eq!(value["ring_packets"]["max"], json!(3.0));
        assert_eq!(value["bql_inflight_bytes"]["max"], json!(4542.0));
        // The window begins while three packets stand there.
        let late = held(&rings, 1_000, (Time(200), Time(600)), false);
        assert_eq!(late["ring_packets"]["mean"], json!(1.5));
        assert_eq!(late["bql_limit_bytes"], Value::Null);
    }
}
