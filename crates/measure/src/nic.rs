//! Meter of a network card's transmit ring: its content over time.

use serde_json::{Value, json};
use sojourn_core::nic::Held;
use sojourn_core::units::Time;

use crate::distribution::{Distribution, ONE};
use crate::histogram::Histogram;
use crate::link::{LinkReport, LinkSetup, LinkWindow};

/// The meter. Its caller reports every change of the ring, in order of time.
#[derive(Clone, Debug)]
pub struct NicMeter {
    main: Window,
    startup: Option<Window>,
    bql: bool,
    /// Time of the last change, and the ring's content since then.
    last: (Time, Held),
}

/// Distributions over time within one window.
#[derive(Clone, Debug)]
struct Window {
    from: Time,
    to: Time,
    packets: Histogram,
    limit: Histogram,
    inflight: Histogram,
}

impl NicMeter {
    /// Creates a meter at time zero, for an empty ring.
    pub fn new(setup: &LinkSetup, bql: bool) -> NicMeter {
        let (from, to) = setup.measure;
        NicMeter {
            main: Window::new(from, to),
            startup: (from > Time::ZERO).then(|| Window::new(Time::ZERO, from)),
            bql,
            last: (Time::ZERO, Held::default()),
        }
    }

    /// Records the ring's content from now on.
    pub fn holds(&mut self, now: Time, held: Held) {
        let (since, before) = self.last;
        if now > since {
            self.main.add(since, now, before);
            if let Some(startup) = &mut self.startup {
                startup.add(since, now, before);
            }
        }
        self.last = (now.max(since), held);
    }

    /// Adds the card's measures to the report of its link.
    pub fn finish(mut self, report: &mut LinkReport) {
        self.holds(self.main.to, Held::default());
        let fill = |window: &mut LinkWindow, of: &Window| {
            window.nic = Some(of.value(self.bql));
            // Packets may also wait in the ring. Whether the next packet is refused then depends on more than the
            // discipline.
            window.full_fraction = None;
        };
        fill(&mut report.main, &self.main);
        if let (Some(window), Some(of)) = (&mut report.startup, &self.startup) {
            fill(window, of);
        }
    }
}

impl Window {
    fn new(from: Time, to: Time) -> Window {
        let [packets, limit, inflight] = Default::default();
        Window { from, to, packets, limit, inflight }
    }

    fn add(&mut self, since: Time, until: Time, held: Held) {
        let weight = until.min(self.to).since(since.max(self.from)).0;
        self.packets.add_weighted(u64::from(held.packets), weight);
        self.limit.add_weighted(u64::from(held.limit), weight);
        self.inflight.add_weighted(u64::from(held.inflight), weight);
    }

    /// The card's JSON object: packets in the ring and, with byte queue limits, the limit and the bytes counted against
    /// it.
    fn value(&self, bql: bool) -> Value {
        let of = |histogram: &Histogram| Distribution::of(histogram, ONE);
        json!({
            "ring_packets": of(&self.packets),
            "bql_limit_bytes": bql.then(|| of(&self.limit)).flatten(),
            "bql_inflight_bytes": bql.then(|| of(&self.inflight)).flatten(),
        })
    }
}

#[cfg(test)]
mod tests {
    use sojourn_core::units::Span;

    use super::*;
    use crate::LinkMeter;

    fn measured(measure: (u64, u64), bql: bool) -> LinkReport {
        let setup = LinkSetup {
            name: "hop0".into(),
            measure: (Time(measure.0), Time(measure.1)),
            end: Time(1_000),
            rtt_window: Span(100),
            bins: 0,
            overhead: 0,
        };
        let mut meter = NicMeter::new(&setup, bql);
        for (at, packets) in [(0, 1), (100, 3), (400, 0)] {
            meter.holds(Time(at), Held { packets, limit: 3028, inflight: packets * 1514 });
        }
        let mut report = LinkMeter::new(&setup).finish();
        meter.finish(&mut report);
        report
    }

    #[test]
    fn a_ring_is_weighed_by_the_time_for_which_it_held_its_packets() {
        let nic = measured((0, 1_000), true).main.nic.expect("a card");
        assert_eq!(nic["ring_packets"]["mean"], json!((100.0 + 900.0) / 1_000.0));
        assert_eq!(nic["ring_packets"]["max"], json!(3.0));
        assert_eq!(nic["bql_inflight_bytes"]["max"], json!(4542.0));
        // The window begins while the ring holds three packets.
        let report = measured((200, 600), false);
        let late = report.main.nic.expect("a card");
        assert_eq!(late["ring_packets"]["mean"], json!(1.5));
        assert_eq!(late["bql_limit_bytes"], Value::Null);
        let startup = report.startup.and_then(|window| window.nic).expect("start-up");
        assert_eq!(startup["ring_packets"]["mean"], json!((100.0 + 300.0) / 200.0));
    }
}
