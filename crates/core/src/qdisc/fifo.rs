//! The FIFOs of Linux: pfifo, bfifo, pfifo_head_drop; and noqueue, which holds nothing.
//!
//! Source: Linux `sch_fifo.c`, `tc-pfifo(8)`.
//! Principle: packets leave in the order in which they came. The limit of a pfifo is in packets and that of a bfifo in
//! bytes; both refuse a packet that does not fit. pfifo_head_drop drops its oldest packet instead and accepts the new
//! one. A packet that bypasses an empty FIFO and waits for the device counts towards the limit and is never dropped, so
//! pfifo_head_drop keeps at least one packet behind it. noqueue has no buffer: packets that arrive while the link is
//! busy are dropped.
//!
//! Deviations: the default limit of `tc` is the device's `txqueuelen`; here it is that of an Ethernet device, 1000
//! packets, and 1000 full frames for bfifo. If the packet that waits for the device fills a pfifo_head_drop by itself,
//! Linux counts a drop although it drops nothing; here nothing is counted.

use super::param::{Param, Parameters, Unit, param};
use super::{Context, DropReason, Drops, Qdisc, Unchangeable};
use crate::packet::Packet;
use crate::ring::Ring;
use crate::units::Time;

/// noqueue has no parameters.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct NoqueueParams {}

impl Parameters for NoqueueParams {
    const NAME: &'static str = "noqueue";
    const DOC: &'static str = "no buffer at all: a packet that arrives while the link is busy is dropped";
    const PARAMS: &'static [Param<Self>] = &[];
}

/// Parameters of pfifo.
#[derive(Clone, PartialEq, Debug)]
pub struct PfifoParams {
    /// Packets queued.
    pub limit: u32,
}

/// Parameters of bfifo.
#[derive(Clone, PartialEq, Debug)]
pub struct BfifoParams {
    /// Bytes queued.
    pub limit: u32,
}

/// Parameters of pfifo_head_drop.
#[derive(Clone, PartialEq, Debug)]
pub struct PfifoHeadDropParams {
    /// Packets queued.
    pub limit: u32,
}

impl Default for PfifoParams {
    fn default() -> Self {
        PfifoParams { limit: 1000 }
    }
}

impl Default for BfifoParams {
    fn default() -> Self {
        BfifoParams { limit: 1000 * 1514 }
    }
}

impl Default for PfifoHeadDropParams {
    fn default() -> Self {
        PfifoHeadDropParams { limit: 1000 }
    }
}

impl Parameters for PfifoParams {
    const NAME: &'static str = "pfifo";
    const DOC: &'static str = "first in, first out; the arriving packet is dropped when the queue is full";
    const PARAMS: &'static [Param<Self>] =
        &[param!(PfifoParams.limit, Unit::PacketsAsSize, "packets queued").range(1, u32::MAX as u64).printed()];
}

impl Parameters for BfifoParams {
    const NAME: &'static str = "bfifo";
    const DOC: &'static str = "first in, first out, with a limit in bytes";
    const PARAMS: &'static [Param<Self>] =
        &[param!(BfifoParams.limit, Unit::Size, "bytes queued").range(1, 1 << 31).printed()];
}

impl Parameters for PfifoHeadDropParams {
    const NAME: &'static str = "pfifo_head_drop";
    const DOC: &'static str = "first in, first out; the oldest packet is dropped when the queue is full";
    const PARAMS: &'static [Param<Self>] =
        &[param!(PfifoHeadDropParams.limit, Unit::PacketsAsSize, "packets queued").range(1, u32::MAX as u64).printed()];
}

/// The unit of a FIFO's limit, and what the FIFO drops when it is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// The limit is in packets. When the FIFO is full, it refuses the arriving packet.
    Packets,
    /// The limit is in bytes. When the FIFO is full, it refuses the arriving packet.
    Bytes,
    /// The limit is in packets. When the FIFO is full, it drops its oldest packet.
    HeadDrop,
    /// The FIFO has no buffer: it accepts a packet only if the packet leaves at the same instant.
    Bufferless,
}

/// The parameters of any of the FIFOs that have a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    mode: Mode,
    limit: u32,
}

impl From<PfifoParams> for Params {
    fn from(PfifoParams { limit }: PfifoParams) -> Params {
        Params { mode: Mode::Packets, limit }
    }
}

impl From<BfifoParams> for Params {
    fn from(BfifoParams { limit }: BfifoParams) -> Params {
        Params { mode: Mode::Bytes, limit }
    }
}

impl From<PfifoHeadDropParams> for Params {
    fn from(PfifoHeadDropParams { limit }: PfifoHeadDropParams) -> Params {
        Params { mode: Mode::HeadDrop, limit }
    }
}

/// A FIFO.
#[derive(Clone, Debug)]
pub struct Fifo<P> {
    mode: Mode,
    limit: u64,
    /// The largest packet in bytes (`psched_mtu`).
    mtu: u64,
    queue: Ring<P>,
    backlog: u64,
    /// Bytes of the packet that last bypassed the FIFO.
    passed: u32,
    /// The part of the limit that a packet waiting for the device uses: its bytes in a bfifo, otherwise 1 packet; 0
    /// without such a packet.
    requeued: u64,
}

impl<P: Packet + Copy + Default> Fifo<P> {
    fn new(mode: Mode, limit: u32, context: &Context) -> Self {
        let (limit, mtu) = (u64::from(limit), u64::from(context.mtu));
        Fifo { mode, limit, mtu, queue: Ring::default(), backlog: 0, passed: 0, requeued: 0 }
    }

    /// Creates a noqueue ([`Qdisc::bufferless`]).
    pub fn noqueue(_: &NoqueueParams, context: &Context) -> Self {
        Fifo::new(Mode::Bufferless, 1, context)
    }

    /// Creates a pfifo.
    pub fn pfifo(params: &PfifoParams, context: &Context) -> Self {
        Fifo::new(Mode::Packets, params.limit, context)
    }

    /// Creates a bfifo.
    pub fn bfifo(params: &BfifoParams, context: &Context) -> Self {
        Fifo::new(Mode::Bytes, params.limit, context)
    }

    /// Creates a pfifo_head_drop.
    pub fn pfifo_head_drop(params: &PfifoHeadDropParams, context: &Context) -> Self {
        Fifo::new(Mode::HeadDrop, params.limit, context)
    }

    /// The packet that would leave next.
    pub fn front(&self) -> Option<&P> {
        self.queue.front()
    }

    /// Sets the limit, in packets or bytes as the FIFO counts. Queued packets stay (`fifo_set_limit`).
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = u64::from(limit);
    }

    #[inline]
    fn fits(&self, bytes: u32) -> bool {
        match self.mode {
            // sch_fifo.c: a byte limit may be met exactly; a packet limit is the number held.
            Mode::Bytes => self.backlog + self.requeued + u64::from(bytes) <= self.limit,
            _ => self.queue.len() as u64 + self.requeued < self.limit,
        }
    }

    /// Returns whether a packet may bypass the empty FIFO: `TCQ_F_CAN_BYPASS` (`__fifo_init`).
    fn can_bypass(&self) -> bool {
        match self.mode {
            Mode::Packets | Mode::HeadDrop => self.limit > 0,
            Mode::Bytes => self.limit >= self.mtu,
            Mode::Bufferless => false,
        }
    }

    #[inline]
    fn take(&mut self) -> Option<P> {
        let packet = self.queue.pop()?;
        self.backlog -= u64::from(packet.bytes());
        Some(packet)
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for Fifo<P> {
    type Params = Params;

    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        if !self.fits(packet.bytes()) {
            if self.mode != Mode::HeadDrop || self.limit == 0 {
                let reason = if self.mode == Mode::Bufferless { DropReason::Busy } else { DropReason::Overlimit };
                return drops.dropped(packet, reason);
            }
            // `pfifo_tail_enqueue`: the packet that waits for the device is not in this queue.
            if let Some(oldest) = self.take() {
                drops.dropped(oldest, DropReason::Overlimit);
            }
        }
        packet.set_enqueue_time(now);
        self.backlog += u64::from(packet.bytes());
        self.queue.push(packet);
    }

    #[inline]
    fn admit(&mut self, now: Time, packet: P, may_pass: bool, drops: &mut impl Drops<P>) -> bool {
        if may_pass && self.queue.is_empty() && self.can_bypass() {
            self.passed = packet.bytes();
            return true;
        }
        self.enqueue(now, packet, drops);
        false
    }

    fn requeued(&mut self, is: bool) -> bool {
        self.requeued = match self.mode {
            _ if !is => 0,
            Mode::Bytes => u64::from(self.passed),
            _ => 1,
        };
        // A change drops nothing: `fifo_init`.
        true
    }

    #[inline]
    fn dequeue(&mut self, _: Time, _: &mut impl Drops<P>) -> Option<P> {
        self.take()
    }

    /// `fifo_init`: a lower limit drops no packet that is queued already.
    fn change(&mut self, _now: Time, params: &Params, _drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        if params.mode != self.mode {
            return Err(Unchangeable);
        }
        self.set_limit(params.limit);
        Ok(())
    }

    fn packets(&self) -> usize {
        self.queue.len()
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn is_full(&self, mtu: u32) -> bool {
        !self.fits(mtu)
    }

    fn bufferless(&self) -> bool {
        self.mode == Mode::Bufferless
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::qdisc::AnyQdisc;
    use crate::qdisc::tc::Spec;
    use crate::qdisc::testing::{CONTEXT, Parcel};
    use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

    fn build(line: &str) -> AnyQdisc<Parcel> {
        line.parse::<Spec>().expect(line).build(&CONTEXT)
    }

    /// Enqueues packets of these lengths. Returns the ids of the dropped packets and of those that then leave.
    fn fill(line: &str, lengths: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let (mut qdisc, mut drops) = (build(line), Vec::new());
        for (id, bytes) in lengths.iter().enumerate() {
            let packet = Parcel { id: id as u32, bytes: *bytes, ..Parcel::default() };
            qdisc.enqueue(Time(5), packet, &mut drops);
        }
        let mut left = Vec::new();
        while let Some(packet) = qdisc.dequeue(Time(9), &mut drops) {
            assert_eq!(packet.enqueue_time, Time(5));
            left.push(packet.id);
        }
        assert_eq!((qdisc.packets(), qdisc.backlog()), (0, 0));
        (drops.iter().map(|(packet, _)| packet.id).collect(), left)
    }

    #[test]
    fn pfifo_refuses_what_comes_when_full() {
        assert_eq!(fill("pfifo limit 3", &[100; 5]), ([3, 4].into(), [0, 1, 2].into()));
    }

    #[test]
    fn bfifo_counts_bytes_and_takes_a_packet_that_fits_exactly() {
        assert_eq!(fill("bfifo limit 3000", &[1500, 1501, 1500, 1]), ([1, 3].into(), [0, 2].into()));
    }

    #[test]
    fn pfifo_head_drop_drops_the_oldest() {
        assert_eq!(fill("pfifo_head_drop limit 3", &[100; 5]), ([0, 1].into(), [2, 3, 4].into()));
    }

    #[test]
    fn a_packet_that_waits_for_the_device_counts_towards_the_limit_and_is_never_dropped() {
        let fates = |line: &str| {
            let (mut qdisc, mut drops) = (build(line), Vec::new());
            for id in 0..5 {
                let packet = Parcel { id, bytes: 1000, ..Parcel::default() };
                let passes = qdisc.admit(Time::ZERO, packet, id == 0, &mut drops);
                assert_eq!(passes, id == 0, "{line}");
                qdisc.requeued(true);
            }
            (drops.iter().map(|(packet, _)| packet.id).collect::<Vec<_>>(), qdisc.packets())
        };
        assert_eq!(fates("pfifo limit 3"), ([3, 4].into(), 2));
        assert_eq!(fates("bfifo limit 3000"), ([3, 4].into(), 2));
        assert_eq!(fates("pfifo_head_drop limit 3"), ([1, 2].into(), 2));
        assert_eq!(fates("pfifo_head_drop limit 1"), ([1, 2, 3].into(), 1), "in addition to the one that waits");
        // `__fifo_init`: a bfifo lets packets pass if it can hold a full one.
        assert!(!build("bfifo limit 1513").admit(Time::ZERO, Parcel::default(), true, &mut Vec::new()));
    }

    #[test]
    fn full_means_that_another_mtu_would_be_refused() {
        let (mut qdisc, mut drops) = (build("bfifo limit 3000"), Vec::new());
        assert!(!qdisc.is_full(1514));
        qdisc.enqueue(Time::ZERO, Parcel { id: 0, bytes: 1487, ..Parcel::default() }, &mut drops);
        assert!(!qdisc.is_full(1513) && qdisc.is_full(1514));
    }

    #[test]
    fn noqueue_is_bufferless_and_holds_a_packet_only_within_one_instant() {
        let (mut qdisc, mut drops) = (build("noqueue"), Vec::new());
        assert!(qdisc.bufferless() && !build("pfifo").bufferless());
        qdisc.enqueue(Time::ZERO, Parcel { id: 0, bytes: 100, ..Parcel::default() }, &mut drops);
        qdisc.enqueue(Time::ZERO, Parcel { id: 1, bytes: 100, ..Parcel::default() }, &mut drops);
        assert_eq!(drops.iter().map(|(p, reason)| (p.id, *reason)).collect::<Vec<_>>(), [(1, DropReason::Busy)]);
        assert_eq!(qdisc.dequeue(Time::ZERO, &mut drops).map(|p| p.id), Some(0));
    }

    proptest! {
        #[test]
        fn packets_and_bytes_are_conserved_and_leave_in_order(
            line in prop_oneof![Just("pfifo limit 7"), Just("bfifo limit 5000"), Just("pfifo_head_drop limit 7")],
            steps in prop::collection::vec((0u8..3, 40u32..1515), 0..400),
        ) {
            let (mut qdisc, mut drops, mut left, mut put) = (build(line), Vec::new(), Vec::new(), (0u32, 0u64));
            for (op, bytes) in steps {
                if op == 0 {
                    left.extend(qdisc.dequeue(Time::ZERO, &mut drops));
                } else {
                    qdisc.enqueue(Time::ZERO, Parcel { id: put.0, bytes, ..Parcel::default() }, &mut drops);
                    put = (put.0 + 1, put.1 + u64::from(bytes));
                }
                let gone = left.iter().chain(drops.iter().map(|(p, _)| p)).map(|p| u64::from(p.bytes)).sum::<u64>();
                prop_assert_eq!(put.1, gone + qdisc.backlog());
                prop_assert_eq!(put.0 as usize, left.len() + drops.len() + qdisc.packets());
            }
            prop_assert!(left.windows(2).all(|pair| pair[0].id < pair[1].id));
        }
    }
}
