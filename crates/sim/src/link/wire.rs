//! Impairments after a link: packets pass from the link into netem, and from netem to the next station.

use sojourn_core::netem::{Netem, Params};
use sojourn_core::units::Time;

use super::Link;
use crate::packet::Packet;

/// The state of the impairments.
pub struct Wire {
    netem: Netem<Packet>,
    /// Time of netem's next event.
    due: Time,
    /// Time of the link's own next event. [`Link::next_event`] is the earlier of both.
    server_due: Time,
    /// Whether an arrival has found the link idle.
    wanted: bool,
    /// Number of packets that netem dropped.
    pub(super) lost: u64,
}

impl Wire {
    /// Creates the state without packets in flight.
    pub(super) fn new(params: &Params, seed: u64, server_due: Time) -> Wire {
        Wire { netem: Netem::new(params, seed), due: Time::NEVER, server_due, wanted: false, lost: 0 }
    }

    /// Requests an event of the link, for an arrival at an idle link.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }
}

impl Link {
    /// Begins a section, up to [`Link::leave_server`], in which `due` is the time of the link's own event.
    pub(super) fn enter_server(&mut self) {
        if let Some(wire) = &self.wire {
            self.due = wire.server_due;
        }
    }

    /// Ends the section.
    pub(super) fn leave_server(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.server_due = self.due;
            self.due = self.due.min(wire.due);
        }
    }

    /// Handles the link's events, passes the departures to netem, and returns the next packet that leaves netem now.
    /// Call it until it returns `None`.
    pub(super) fn wire_event(&mut self, now: Time) -> Option<Packet> {
        self.enter_server();
        let wanted = self.wire.as_mut().is_some_and(|wire| core::mem::take(&mut wire.wanted));
        let sent = if wanted || self.due <= now { self.server_event(now) } else { None };
        let wire = self.wire.as_mut()?;
        if let Some(packet) = sent {
            let before = self.drops.len();
            wire.netem.enqueue(now, packet, &mut self.drops);
            wire.lost += (self.drops.len() - before) as u64;
        }
        let mut out = wire.netem.dequeue(now);
        wire.due = match &mut out {
            Some(packet) => {
                if packet.is_marked() {
                    packet.pass_on();
                }
                if wire.netem.packets() > 0 { now } else { Time::NEVER }
            }
            None => wire.netem.next_event(),
        };
        self.leave_server();
        out
    }
}
