//! The timers of data receivers: delayed ACKs, and SYN-ACKs that are retransmitted.
//!
//! The timers of a class have one rank and are handled in the order of their connections. The schedule has one entry for
//! the first timer of all classes.

use sojourn_core::units::Time;

use crate::ends::Ends;
use crate::packet::Packet;
use crate::prefetch::Processor;
use crate::schedule::{Schedules, Slot};
use crate::timers::Timers;
use crate::topology::Ranks;
use crate::tournament::Tournament;

/// The timers of all data receivers.
pub struct DelayedAcks {
    classes: Vec<Class>,
    /// Seat of each connection in its class.
    seats: Vec<u32>,
    /// Time of the first timer of each class.
    first: Tournament,
    ranks: Ranks,
    slot: Slot,
}

/// Timers of a class of flows, indexed by a connection's seat in the class.
#[derive(Clone, Default)]
struct Class {
    timers: Timers,
    /// Connection of each seat.
    conns: Vec<u32>,
}

impl DelayedAcks {
    /// Creates the timers, with capacity for this number of connections.
    pub fn new(classes: usize, connections: usize, ranks: Ranks, slot: Slot) -> DelayedAcks {
        DelayedAcks {
            classes: vec![Class::default(); classes],
            seats: Vec::with_capacity(connections),
            first: Tournament::new(classes),
            ranks,
            slot,
        }
    }

    /// Adds the next connection to a class.
    pub fn open(&mut self, class: usize) {
        let conns = &mut self.classes[class].conns;
        conns.push(self.seats.len() as u32);
        self.seats.push(conns.len() as u32 - 1);
    }

    /// Number of connections so far.
    #[inline]
    pub fn connections(&self) -> usize {
        self.seats.len()
    }

    /// Time of the first timer.
    #[inline(always)]
    pub fn first(&self) -> Time {
        self.first.least()
    }

    /// Time of the first timer of a class.
    pub fn first_of(&self, class: usize) -> Time {
        self.classes[class].timers.first()
    }

    /// The connection of the first timer.
    pub fn next_conn(&self) -> Option<u32> {
        let Class { timers, conns } = self.classes.get(self.first.first())?;
        timers.due().map(|(_, seat)| conns[seat as usize])
    }

    /// Arms a connection's timer for a new deadline. [`Time::NEVER`] means that the deadline is not earlier than
    /// before, and changes nothing.
    #[inline]
    pub fn arm(&mut self, class: usize, conn: u32, deadline: Time, schedules: &mut Schedules) {
        if deadline != Time::NEVER && self.classes[class].timers.arm(self.seats[conn as usize], deadline) {
            self.reschedule(class, schedules);
        }
    }

    /// Handles the first timer of a class: returns the ACK that is sent, if it is still due. [`DelayedAcks::reschedule`]
    /// must be called afterwards. `prefetches` asks for the memory that the following timer needs.
    #[inline]
    pub fn expire(&mut self, class: usize, ends: &mut Ends, prefetches: bool) -> Option<Packet> {
        let Class { timers, conns } = &mut self.classes[class];
        let (at, seat) = timers.due()?;
        let conn = conns[seat as usize];
        let ack = if ends.deadline(conn) <= at { ends.on_timer(at, conn) } else { None };
        timers.rearm(seat, ends.next_deadline(conn));
        if prefetches {
            timers.prefetch(&Processor);
        }
        ack
    }

    /// Enters the first timer of a class in the schedule.
    pub fn reschedule(&mut self, class: usize, schedules: &mut Schedules) {
        self.first.set(class, self.first_of(class));
        let rank = self.ranks.delayed_ack(self.first.first());
        schedules.set(self.slot.of_rank(rank), self.first.least());
    }
}
