//! Lines of constant delay, and the lines of each lane.
//!
//! A line is a FIFO: a packet's arrival time is known when it is put on the line, and times on a line never decrease.
//! Only its first packet is an event source. Lines with nearly the same delay share a ring, in which packets are sorted
//! by time and then by lane (`shortcuts.rs`).

use sojourn_core::ring::Ring;
use sojourn_core::units::{Span, Time};

use crate::packet::Packet;
use crate::planted::{Fault, planted};
use crate::schedule::{Schedules, Slot};
use crate::shortcuts::Target;
use crate::topology::Ranks;

/// A line of constant delay between two stations, or several lines of nearly the same delay.
pub struct Line {
    /// Packets in order of time, and then of lane.
    pub packets: Ring<Packet>,
    /// The station at its end.
    pub target: Target,
    /// Position in the schedule; `None` if the line is never used, or if packets pass it without an event.
    slot: Option<Slot>,
    /// For a line shared between lanes: the rank of a packet of lane 0.
    shared: Option<usize>,
    /// The latest arrival time of any packet so far.
    last: Time,
}

/// The ends of a lane: how packets get from the host to the first link, and from the last link to the host.
pub struct LaneEnds {
    /// The last link.
    pub last: usize,
    /// Delay from the host to the first link, without access links.
    pub delay_in: Span,
    /// Delay from the last link to the host, without access links.
    pub delay_out: Span,
    /// The access links: the sending host's uplink and the receiving host's downlink.
    pub access: Option<(usize, usize)>,
    /// Whether packets pass from the last link to the host without an event.
    pub fused_out: bool,
    /// The first link, if packets pass from the host to it without an event. If that link has events, the delay in
    /// between must be zero.
    pub fused_in: Option<usize>,
    /// Index of the line from the host to the first link.
    pub into: usize,
    /// Index of the line from the last link to the host.
    pub out: usize,
}

impl Line {
    /// Creates an empty line. `shared` is the rank of a packet of lane 0 if lanes share the line.
    pub fn new(target: Target, slot: Option<Slot>, shared: Option<usize>) -> Line {
        Line { packets: Ring::default(), target, slot, shared, last: Time::ZERO }
    }

    /// Puts a packet on the line. Returns the station at its end if the packet passes without an event. Packets that
    /// would arrive after the end of the run are discarded.
    #[inline(always)]
    pub fn put(&mut self, packet: &Packet, schedules: &mut Schedules, end: Time) -> Option<Target> {
        let Some(slot) = self.slot else { return (packet.time < end).then_some(self.target) };
        if self.shared.is_some() && packet.time <= self.last && !planted(Fault::Overtake) {
            self.overtake(packet, slot, schedules);
            return None;
        }
        self.last = packet.time;
        if self.packets.is_empty() {
            schedules.set(self.slot_of(slot, packet), packet.time);
        }
        self.packets.push(*packet);
        None
    }

    /// Like [`Line::put`], for a packet that may overtake others on the line.
    #[inline(never)]
    fn overtake(&mut self, packet: &Packet, slot: Slot, schedules: &mut Schedules) {
        let (time, lane) = (packet.time, packet.lane());
        let precedes = |other: &Packet| time < other.time || (time == other.time && lane < other.lane());
        let index = self.packets.insert_where(*packet, precedes);
        if index == 0 {
            schedules.set(self.slot_of(slot, packet), packet.time);
        }
    }

    /// Returns whether packets pass the line without an event.
    #[inline(always)]
    pub fn has_no_events(&self) -> bool {
        self.slot.is_none()
    }

    /// The line's position in the schedule if `packet` is its first.
    #[inline(always)]
    fn slot_of(&self, slot: Slot, packet: &Packet) -> Slot {
        match self.shared {
            Some(first) => slot.of_rank(first + packet.lane() * Ranks::PER_LANE),
            None => slot,
        }
    }

    /// Removes and returns the first packet.
    #[inline(always)]
    pub fn take(&mut self, schedules: &mut Schedules) -> Option<Packet> {
        let packet = *self.packets.front()?;
        self.advance(schedules);
        Some(packet)
    }

    /// Removes the first packet.
    #[inline(always)]
    pub fn advance(&mut self, schedules: &mut Schedules) {
        self.packets.pop();
        if let Some(slot) = self.slot {
            match self.packets.front() {
                Some(next) => schedules.set(self.slot_of(slot, next), next.time),
                None => schedules.set(slot, Time::NEVER),
            }
        }
    }
}
