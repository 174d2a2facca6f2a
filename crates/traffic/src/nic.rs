//! State of a hop's network card over time: descriptors in use, the BQL limit and the bytes counted against it, and the
//! times for which flow control paused the link.

use sojourn_core::nic::Held;
use sojourn_core::units::Time;
use sojourn_measure::{LinkReport, NicMeter, PauseMeter, link_setup};
use sojourn_model::scenario::Scenario;

use crate::probe::{Record, Records};

/// Adds the card's measures to the report of its link, if the hop has one.
pub fn measure(scenario: &Scenario, index: usize, seen: Records<'_>, origin: u64, report: &mut LinkReport) {
    let Some(nic) = scenario.link(index).nic else { return };
    let mut meter = NicMeter::new(&link_setup(scenario, index), nic.bql);
    for record in seen.iter() {
        if let Record::Ring(ring) = record
            && usize::from(ring.link) == index
        {
            let held = Held { packets: ring.packets, limit: ring.limit, inflight: ring.inflight };
            meter.holds(Time(ring.at.saturating_sub(origin)), held);
        }
    }
    meter.finish(report);
}

/// Adds the fraction of paused time to the report of a link that the next hop can pause.
pub fn pauses(scenario: &Scenario, index: usize, seen: Records<'_>, origin: u64, report: &mut LinkReport) {
    if !scenario.can_be_paused(index) {
        return;
    }
    let mut meter = PauseMeter::new(&link_setup(scenario, index));
    for record in seen.iter() {
        if let Record::Paused { link, stop, at } = record
            && usize::from(link) == index
        {
            meter.becomes(Time(at.saturating_sub(origin)), stop);
        }
    }
    meter.finish(report);
}
