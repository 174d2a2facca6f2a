//! One link of a scenario by itself, with arrivals from elsewhere: what its card's ring held. So the card is compared with
//! another one, such as the guest's device, event by event.

use sojourn_core::nic::Held;
use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::Scenario;

use crate::link::Link;
use crate::packet::{Packet, Parts};
use crate::topology::changes;
use crate::{Options, setup};

/// Every change of the ring of link number `index`, which has a card, when packets of so many bytes of IP arrive at these
/// times (never falling). `phase` is how long the tick at time zero had lasted. Empty without a card.
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

/// All that is due before `end`: an arrival goes first.
fn serve(link: &mut Link, end: Time) {
    while link.next_event() < end {
        link.event(link.next_event(), &mut Packet::default());
        link.drops.clear();
    }
}
