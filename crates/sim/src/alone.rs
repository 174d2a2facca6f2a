//! Plays given arrivals at a single link of a scenario, and returns the content of its card's ring over time. This
//! serves to compare the simulated card with another one, such as the guest's device, event by event.

use sojourn_core::nic::Held;
use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::Scenario;

use crate::link::Link;
use crate::packet::{Packet, Parts};
use crate::topology::changes;
use crate::{Options, setup};

/// Returns every change of the ring of link number `index`, for packets of the given IP lengths that arrive at the
/// given, non-decreasing times. `phase` is the age of the current tick at time zero. The result is empty if the link
/// has no card.
pub fn ring(scenario: &Scenario, index: usize, arrivals: &[(Time, u16)], phase: Span) -> Vec<(Time, Held)> {
    let setup = setup::Setup { phase, ..setup::link(scenario, index) };
    let mut link = Link::new(index, scenario.link(index), &setup, &Options::default());
    link.keep_ring();
    let mut changes = changes(scenario).into_iter().filter(|change| change.1 == index).peekable();
    let mut run_until = |link: &mut Link, end: Time| {
        while let Some((at, _, change)) = changes.next_if(|change| change.0 <= end) {
            serve(link, at);
            link.change(at, change);
        }
        serve(link, end);
    };
    for &(at, bytes) in arrivals.iter().take_while(|arrival| arrival.0 < scenario.duration) {
        run_until(&mut link, at);
        let mut packet = Packet::from(Parts { time: at, bytes, ..Parts::default() });
        if link.arrive(at, &mut packet) {
            link.event(at, &mut packet);
        }
        link.drops.clear();
    }
    run_until(&mut link, scenario.duration);
    link.take_ring()
}

/// Handles all events before `end`. At equal times, arrivals precede events.
fn serve(link: &mut Link, end: Time) {
    while link.next_event() < end {
        link.event(link.next_event(), &mut Packet::default());
        link.drops.clear();
    }
}
