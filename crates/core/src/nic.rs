//! The transmit side of a network card: a ring of descriptors, completions by interrupt, byte queue limits.
//!
//! Source: Linux `sch_generic.c` (the order of dequeues), `netdevice.h` (`netdev_sent_queue`, `netdev_completed_queue`)
//! and the common scheme of drivers. kernel/guest/link_device.c implements the same card as a Linux device.
//!
//! A packet taken from the discipline holds a descriptor until an interrupt has handled its completion. The discipline
//! is dequeued as long as a descriptor is free and byte queue limits allow another object. The link sends from the ring
//! in order. The interrupt is due at the end of a transmission, or `coalesce` later, and handles all transmissions that
//! have ended by then.
//!
//! Deviations: Linux dequeues a batch, as many packets as byte queue limits allow, and requeues those for which the
//! ring has no room; here packets are dequeued one by one. The content of the ring and its limit are the same.

use crate::dql::Dql;
use crate::ring::Ring;
use crate::units::{Span, Time};

/// A network card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Descriptors: packets in the card, the one in transmission included.
    pub ring: u32,
    /// Byte queue limits (BQL): the bytes in the ring are limited, not only its descriptors.
    pub bql: bool,
    /// Time from the end of a transmission to its interrupt, which also handles the transmissions that have ended
    /// meanwhile.
    pub coalesce: Span,
}

/// The kernel's clock, in ticks, from which byte queue limits take the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticks {
    /// Ticks a second.
    pub hz: u32,
    /// The age of the current tick at time zero.
    pub phase: Span,
}

impl Ticks {
    /// The number of the tick at this time.
    fn at(self, now: Time) -> u64 {
        (u128::from(now.0 + self.phase.0) * u128::from(self.hz) / 1_000_000_000) as u64
    }
}

/// The contents of a ring at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Held {
    /// Descriptors in use.
    pub packets: u32,
    /// The limit in bytes that byte queue limits have set; 0 without byte queue limits.
    pub limit: u32,
    /// The bytes that count towards this limit; 0 without byte queue limits.
    pub inflight: u32,
}

/// A packet in its descriptor.
#[derive(Clone, Copy, Default, Debug)]
struct Descriptor<P> {
    packet: P,
    /// The packet's length as byte queue limits count it (Linux: IP length and Ethernet header).
    bytes: u32,
}

/// A card's ring in operation.
#[derive(Clone, Debug)]
pub struct Nic<P> {
    params: Params,
    ticks: Ticks,
    /// Packets that are not yet sent; the first may be in transmission.
    waiting: Ring<Descriptor<P>>,
    /// Packets and bytes that are sent but whose completion has not been handled; their descriptors are in use.
    ended: (u32, u32),
    interrupt: Time,
    dql: Option<Dql>,
}

impl<P: Copy + Default> Nic<P> {
    /// Creates an empty ring.
    pub fn new(params: Params, ticks: Ticks) -> Nic<P> {
        // dev_init_queue…: the hold time is a second.
        let dql = params.bql.then(|| Dql::new(ticks.hz, ticks.at(Time::ZERO)));
        Nic { params, ticks, waiting: Ring::default(), ended: (0, 0), interrupt: Time::NEVER, dql }
    }

    /// Returns whether the ring accepts another packet from the discipline.
    #[inline]
    pub fn is_open(&self) -> bool {
        // netdev_sent_queue: the queue stops when the limit is exceeded, not when it is met.
        self.used() < self.params.ring && self.dql.as_ref().is_none_or(|dql| dql.avail() >= 0)
    }

    /// Returns whether the ring has a single descriptor, so that it holds only the packet in transmission.
    pub fn has_one_descriptor(&self) -> bool {
        self.params.ring == 1
    }

    /// Adds a packet to the ring, which must be open. Byte queue limits count `bytes` (Linux: IP length and Ethernet
    /// header).
    pub fn send(&mut self, packet: P, bytes: u32) {
        debug_assert!(self.is_open());
        if let Some(dql) = &mut self.dql {
            dql.queued(bytes);
        }
        self.waiting.push(Descriptor { packet, bytes });
    }

    /// The packet that is sent now, or next.
    pub fn head(&self) -> Option<&P> {
        self.waiting.front().map(|descriptor| &descriptor.packet)
    }

    /// Packets that are not sent, the one in transmission included.
    pub fn unsent(&self) -> usize {
        self.waiting.len()
    }

    /// The packets that are not sent, in their order; the first may be in transmission.
    pub fn unsent_packets(&self) -> impl Iterator<Item = &P> {
        self.waiting.iter().map(|descriptor| &descriptor.packet)
    }

    /// Ends the transmission of the head. [`Nic::next_event`] returns the time of its completion, which may be now.
    pub fn sent(&mut self, now: Time) {
        if let Some(descriptor) = self.waiting.pop() {
            self.ended.0 += 1;
            self.ended.1 += descriptor.bytes;
            if self.ended.0 == 1 {
                self.interrupt = now + self.params.coalesce;
            }
        }
    }

    /// When the interrupt is due.
    #[inline]
    pub fn next_event(&self) -> Time {
        self.interrupt
    }

    /// Handles the interrupt, which frees the descriptors of sent packets.
    pub fn serve(&mut self, now: Time) {
        let (_, bytes) = core::mem::take(&mut self.ended);
        self.interrupt = Time::NEVER;
        if let Some(dql) = &mut self.dql {
            dql.completed(bytes, self.ticks.at(now));
        }
    }

    /// The present content of the ring.
    pub fn held(&self) -> Held {
        let (limit, inflight) = self.dql.as_ref().map_or((0, 0), |dql| (dql.limit(), dql.inflight()));
        Held { packets: self.used(), limit, inflight }
    }

    fn used(&self) -> u32 {
        self.waiting.len() as u32 + self.ended.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKS: Ticks = Ticks { hz: 250, phase: Span::ZERO };

    fn nic(ring: u32, bql: bool, coalesce: Span) -> Nic<u32> {
        Nic::new(Params { ring, bql, coalesce }, TICKS)
    }

    fn fill(nic: &mut Nic<u32>) -> u32 {
        let before = nic.held().packets;
        while nic.is_open() {
            nic.send(0, 1514);
        }
        nic.held().packets - before
    }

    #[test]
    fn a_ring_takes_as_many_packets_as_it_has_descriptors() {
        let mut nic = nic(80, false, Span::ZERO);
        assert_eq!(fill(&mut nic), 80);
        nic.sent(Time(7));
        assert!(!nic.is_open(), "its completion is not served yet");
        assert_eq!(nic.next_event(), Time(7));
        nic.serve(Time(7));
        assert_eq!((fill(&mut nic), nic.next_event()), (1, Time::NEVER));
    }

    #[test]
    fn an_interrupt_serves_all_that_ended_since_the_first() {
        let mut nic = nic(8, false, Span(100));
        fill(&mut nic);
        for at in [10, 50, 90] {
            nic.sent(Time(at));
        }
        assert_eq!((nic.next_event(), nic.held().packets, nic.unsent()), (Time(110), 8, 5));
        nic.serve(Time(110));
        assert_eq!(nic.held().packets, 5);
    }

    #[test]
    fn byte_queue_limits_keep_a_long_ring_short() {
        let mut nic = nic(512, true, Span::ZERO);
        assert_eq!(fill(&mut nic), 1, "one object beyond a limit of zero");
        for at in 0..1000 {
            nic.sent(Time(at));
            nic.serve(Time(at));
            fill(&mut nic);
        }
        let held = nic.held();
        assert!((2..=4).contains(&held.packets), "{held:?}");
        assert_eq!(held.inflight, held.packets * 1514);
        assert!(held.inflight > held.limit && held.inflight - held.limit <= 1514);
    }

    #[test]
    fn ticks_begin_before_time_zero() {
        let ticks = Ticks { hz: 250, phase: Span(3_999_999) };
        assert_eq!((ticks.at(Time(0)), ticks.at(Time(1)), ticks.at(Time(4_000_001))), (0, 1, 2));
        assert_eq!(Ticks { hz: 300, ..TICKS }.at(Time(1_000_000_000)), 300);
    }
}
