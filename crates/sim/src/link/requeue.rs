//! The path between a discipline and its device, as in Linux's stack.
//!
//! Source: `__dev_xmit_skb` in Linux 7.3 `net/core/dev.c`; `sch_direct_xmit`, `dev_requeue_skb` and `dequeue_skb` in
//! `net/sched/sch_generic.c`. A packet that finds an empty discipline with `TCQ_F_CAN_BYPASS` bypasses it: it goes to the
//! device or, if the device is busy, waits for it (`gso_skb`). It counts as queued, so later packets are enqueued, and it is
//! sent first. CoDel therefore never sees it, and a new flow of fq_codel waits for it too.
//!
//! Deviation: with byte queue limits Linux dequeues several packets at once and requeues those for which the card's ring has
//! no room. This link dequeues them one by one, when there is room.

use sojourn_core::qdisc::{AnyQdisc, DropReason, Drops, Qdisc};
use sojourn_core::units::Time;

use super::Link;
use crate::packet::Packet;

/// Returns the packet that the device gets next.
pub(super) fn next_packet(
    requeued: &mut Option<Packet>,
    qdisc: &mut AnyQdisc<Packet>,
    now: Time,
    drops: &mut impl Drops<Packet>,
) -> Option<Packet> {
    let Some(packet) = requeued.take() else { return qdisc.dequeue(now, drops) };
    qdisc.requeued(false);
    Some(packet)
}

impl Link {
    /// Stores a packet that has bypassed the empty discipline. The packet waits here until the device is ready. It
    /// counts as requeued only if the device is busy or the link's rate is a trace.
    #[inline]
    pub(super) fn requeue(&mut self, packet: &Packet) {
        self.requeued = Some(*packet);
        self.requeues += u64::from(self.busy || self.is_traced);
        self.qdisc.requeued(true);
    }

    /// Handles a change of the discipline's parameters that dropped the packets in [`Link::drops`] from index `before`
    /// on. If the new limits leave too little room, the packet that waits for the device is dropped first (Linux
    /// `qdisc_dequeue_internal`).
    pub(super) fn keep_requeued(&mut self, before: usize) {
        let fits = self.qdisc.requeued(true) && self.drops.len() == before;
        if let Some(packet) = self.requeued.take_if(|_| !fits) {
            self.qdisc.requeued(false);
            self.drops.insert(before, (packet, DropReason::Overlimit));
        }
    }

    /// Takes the packet that waits for the device.
    #[inline]
    pub(super) fn take_requeued(&mut self, packet: &mut Packet) {
        if let Some(requeued) = self.requeued.take() {
            *packet = requeued;
            self.qdisc.requeued(false);
        }
    }
}
