//! A link behind a network card: the discipline feeds the card's ring, from which the link sends.

use sojourn_core::nic::{Held, Nic, Params, Ticks};
use sojourn_core::qdisc::{DropReason, Qdisc};
use sojourn_core::units::{Rate, Time};
use sojourn_measure::NicMeter;

use super::requeue::next_packet;
use super::{Link, Server, Service};
use crate::packet::Packet;
use crate::setup::Setup;

/// Length of an Ethernet header, which Linux adds to the IP length of every packet, independent of the link's overhead.
const ETHERNET: u32 = 14;

/// The state of a card.
pub struct Card {
    nic: Nic<Packet>,
    pub(super) meter: NicMeter,
    /// All changes of the ring, if they are kept.
    seen: Option<Vec<(Time, Held)>>,
    /// End of transmission of the ring's head; never if nothing is in transmission, and on trace-driven links.
    end: Time,
}

impl Card {
    /// Creates an idle card.
    pub(super) fn new(params: Params, setup: &Setup) -> Card {
        let ticks = Ticks { hz: setup.hz, phase: setup.phase };
        let meter = NicMeter::new(&setup.meter, params.bql);
        Card { nic: Nic::new(params, ticks), meter, seen: None, end: Time::NEVER }
    }

    /// The packet that is sent next.
    pub(super) fn head(&self) -> Option<Packet> {
        self.nic.head().copied()
    }

    /// Number of packets in the ring whose transmission has not started. `sending` tells whether one is in progress.
    pub(super) fn waiting(&self, sending: bool) -> usize {
        self.nic.unsent() - usize::from(sending)
    }

    /// Number of packets that the discipline handed over and that are not completely sent, and their bytes on the link.
    pub(super) fn unsent(&self) -> (u64, u64) {
        let bytes = self.nic.unsent_packets().map(|packet| u64::from(packet.wire())).sum();
        (self.nic.unsent() as u64, bytes)
    }

    /// Changes the rate. A packet in transmission continues at the new rate.
    pub(super) fn set_rate(&mut self, now: Time, old: Rate, new: Rate) {
        if self.end != Time::NEVER {
            self.end = old.stretched(now, self.end, new);
        }
    }

    fn note(&mut self, now: Time) {
        let held = self.nic.held();
        self.meter.holds(now, held);
        if let Some(seen) = &mut self.seen {
            seen.push((now, held));
        }
    }
}

impl Link {
    /// From now on, every change of the ring is kept.
    pub fn keep_ring(&mut self) {
        if let Some(card) = &mut self.card {
            card.seen = Some(Vec::new());
        }
    }

    /// Returns the changes that were kept.
    pub fn take_ring(self) -> Vec<(Time, Held)> {
        self.card.and_then(|card| card.seen).unwrap_or_default()
    }

    /// Handles everything that is due at `now`: the end of a transmission, an interrupt, an arrival at an open ring, an
    /// event of the discipline.
    pub(super) fn card_event(&mut self, now: Time) -> Option<Packet> {
        let left = if self.is_traced { self.traced_event(now) } else { self.transmission_ends(now) };
        self.interrupt(now);
        self.fill(now);
        self.transmit(now);
        if self.bufferless {
            // The ring had no room for the packet.
            while let Some(packet) = self.qdisc.dequeue(now, &mut self.drops) {
                self.drops.push((packet, DropReason::Busy));
            }
        }
        if self.detail {
            // The discipline may have dropped packets while it was dequeued.
            self.meter.enqueued(now, self.waiting(), self.is_full());
        }
        self.look_ahead();
        left
    }

    /// Handles a packet's arrival at the discipline. Returns whether the link needs an event now.
    pub(super) fn offer(&mut self, now: Time) -> bool {
        if self.busy || self.due > now {
            return !self.busy;
        }
        // Events that are due now follow all arrivals of this time, but an open ring takes packets at once.
        self.fill(now);
        self.busy = self.card.as_ref().is_none_or(|card| !card.nic.is_open());
        false
    }

    /// Ends the transmission of the ring's head, if it ends now.
    fn transmission_ends(&mut self, now: Time) -> Option<Packet> {
        let card = self.card.as_mut()?;
        if card.end > now {
            return None;
        }
        card.end = Time::NEVER;
        card.nic.sent(now);
        let Service { mut packet, start } = self.service.take()?;
        self.sent(&mut packet, start, now);
        // The ring continues by itself, before completions are handled.
        self.transmit(now);
        Some(packet)
    }

    /// Handles a delivery opportunity, if there is one now.
    fn traced_event(&mut self, now: Time) -> Option<Packet> {
        let Server::Trace(trace) = &self.server else { return None };
        if trace.time() > now {
            return None;
        }
        self.interrupt(now);
        self.fill(now);
        let left = self.opportunity(now);
        if left.is_some()
            && let Some(card) = &mut self.card
        {
            card.nic.sent(now);
        }
        left
    }

    /// Handles the completion interrupt, if it is due.
    fn interrupt(&mut self, now: Time) {
        if let Some(card) = &mut self.card
            && card.nic.next_event() <= now
        {
            card.nic.serve(now);
            card.note(now);
        }
    }

    /// Moves packets from the discipline into the ring as long as it is open.
    fn fill(&mut self, now: Time) {
        let Some(card) = &mut self.card else { return };
        if let Server::Trace(trace) = &self.server
            && card.nic.has_one_descriptor()
            && trace.time() > now
        {
            return; // As without a card, packets wait in the discipline for an opportunity.
        }
        while card.nic.is_open()
            && let Some(packet) = next_packet(&mut self.requeued, &mut self.qdisc, now, &mut self.drops)
        {
            card.nic.send(packet, u32::from(packet.ip_bytes()) + ETHERNET);
            card.note(now);
        }
    }

    /// Starts the transmission of the ring's head if the link is idle. On trace-driven links, opportunities do that.
    fn transmit(&mut self, now: Time) {
        let stopped = self.is_stopped();
        let Some(card) = &mut self.card else { return };
        if self.service.is_some() || self.is_traced {
            return;
        }
        let Some(&packet) = card.nic.head() else {
            if self.waiting() == 0 && self.detail {
                self.meter.emptied(now);
            }
            return;
        };
        if stopped {
            return;
        }
        card.end = now + self.server.serialise(packet.wire());
        self.service = Some(Service { packet, start: now });
        if self.detail {
            self.begins(now, &packet);
        } else {
            self.meter.started(now);
        }
    }

    /// Computes the time of the next event, and whether an arrival changes it.
    pub(super) fn look_ahead(&mut self) {
        let Some(card) = &self.card else { return };
        self.busy = !card.nic.is_open();
        let held_back = if self.busy { Time::NEVER } else { self.qdisc.next_event() };
        let server = if let Server::Trace(trace) = &self.server { trace.time() } else { card.end };
        self.due = server.min(card.nic.next_event()).min(held_back);
    }
}
