//! What befalls packets behind a link: they leave it into netem, and only from there go on.

use sojourn_core::netem::{Netem, Params};
use sojourn_core::units::Time;

use super::Link;
use crate::packet::Packet;

/// Impairments in operation.
pub struct Wire {
    netem: Netem<Packet>,
    /// When netem is to be asked.
    due: Time,
    /// When the link itself is due; [`Link::next_event`] gives the earlier of both.
    server_due: Time,
    /// An arrival has found the link idle.
    wanted: bool,
    /// Packets that netem lost.
    pub(super) lost: u64,
}

impl Wire {
    /// Nothing on its way yet.
    pub(super) fn new(params: &Params, seed: u64, server_due: Time) -> Wire {
        Wire { netem: Netem::new(params, seed), due: Time::NEVER, server_due, wanted: false, lost: 0 }
    }

    /// An arrival wants the link to be looked at.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }
}

impl Link {
    /// From here to [`Link::leave_server`], `due` is the link's own.
    pub(super) fn enter_server(&mut self) {
        if let Some(wire) = &self.wire {
            self.due = wire.server_due;
        }
    }

    /// The link's own time is known again.
    pub(super) fn leave_server(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.server_due = self.due;
            self.due = self.due.min(wire.due);
        }
    }

    /// The link does what is due, and what leaves it goes into netem; what comes out of that now, one packet a call.
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
