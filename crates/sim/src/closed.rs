//! A FIFO of constant rate in closed form: departures are computed on arrival.

use sojourn_core::qdisc::DropReason;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::ring::Ring;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_measure::stats::Common;
use sojourn_measure::{LinkMeter, LinkReport, LinkSetup};
use sojourn_model::records::{Fate, PacketRecord};
use sojourn_model::scenario::{self, Capacity};

use crate::framing::Framing;
use crate::link::{MTU, finish, record};
use crate::packet::Packet;
use crate::planted::{Fault, planted};

/// A link whose queue is pfifo or bfifo and whose rate and delay never change. It makes the same decisions as
/// [`crate::link::Link`], but makes them on arrival.
pub struct ClosedLink {
    meter: LinkMeter,
    records: Option<Vec<PacketRecord>>,
    detail: bool,
    index: u16,
    framing: Framing,
    rate: Rate,
    /// The length of the last packet, and its transmission time.
    cache: (u16, Span),
    delay: Span,
    /// Limit in packets and in bytes.
    limit: (usize, u64),
    waiting: Ring<Waiting>,
    waiting_bytes: u64,
    /// End of transmission of the last accepted packet.
    free: Time,
    /// Time from which an arrival finds the link idle. An arrival precedes a departure at the same time.
    idle_from: Time,
    /// Whether the meter knows that the queue is empty and that no packet that was queued is in transmission.
    idle: bool,
    run_end: Time,
    /// `pfifo` or `bfifo`.
    kind: &'static str,
    dropped: u64,
    /// The limit in bytes from which a bfifo lets packets bypass it when it is empty (`TCQ_F_CAN_BYPASS`).
    mtu: u64,
    /// Number of packets that bypassed the empty discipline while the link was busy, and the start of transmission of
    /// the last one.
    requeues: (u64, Time),
}

/// A packet whose transmission has not started.
#[derive(Clone, Copy, Default)]
struct Waiting {
    start: Time,
    sojourn: Span,
    wire: u16,
}

impl ClosedLink {
    /// Returns the closed form of a link, if it has one.
    pub fn new(
        index: usize,
        link: &scenario::Link,
        setup: &LinkSetup,
        records: bool,
        detail: bool,
    ) -> Option<ClosedLink> {
        let (kind, limit) = match &link.qdisc {
            Spec::Pfifo(params) => ("pfifo", (params.limit as usize, u64::MAX)),
            Spec::Bfifo(params) => ("bfifo", (usize::MAX, u64::from(params.limit))),
            _ => return None,
        };
        let Capacity::Steps(steps) = &link.rate else { return None };
        if !link.changes.is_empty() && !planted(Fault::Discipline) {
            return None;
        }
        if steps.len() > 1 || link.delay.len() > 1 || link.nic.is_some() || link.impair.is_some() {
            return None;
        }
        let mut meter = LinkMeter::new(setup);
        meter.rate(Time::ZERO, steps[0].1);
        Some(ClosedLink {
            meter,
            records: records.then(Vec::new),
            detail,
            index: index as u16,
            framing: Framing::new(link.overhead as u16, link.linklayer),
            rate: steps[0].1,
            cache: (0, Span::ZERO),
            delay: link.delay[0].1,
            limit,
            waiting: Ring::default(),
            waiting_bytes: 0,
            free: Time::ZERO,
            idle_from: Time::ZERO,
            idle: true,
            run_end: setup.end,
            kind,
            dropped: 0,
            mtu: u64::from(link.wire_bytes(MTU)),
            requeues: (0, Time::NEVER),
        })
    }

    /// Handles an arrival. Returns the time at which the packet reaches the far end, or `None` if it was dropped. An
    /// arrival precedes a departure at the same time.
    #[inline(always)]
    pub fn arrive(&mut self, packet: &mut Packet) -> Option<Time> {
        let now = packet.time;
        if self.waiting.front().is_some_and(|first| first.start < now) || (!self.idle && self.free < now) {
            self.catch_up(now);
        }
        let wire = self.framing.wire_bytes(packet.ip_bytes());
        let idle = self.idle_from <= now;
        if self.waiting.len() >= self.limit.0 || self.waiting_bytes + u64::from(wire) > self.limit.1 {
            self.drop(*packet);
            return None;
        }
        let start = if idle { now } else { self.free };
        let sojourn = start.since(now);
        if self.cache.0 != wire {
            self.cache = (wire, self.rate.serialise(u32::from(wire)));
        }
        self.free = start + self.cache.1;
        self.idle_from = self.free + Span(1);
        if idle {
            if self.detail {
                self.meter.passed(now, self.is_full(0));
            }
        } else {
            if self.waiting.is_empty() && self.limit.1 >= self.mtu {
                self.requeues = (self.requeues.0 + 1, start);
            }
            self.waiting.push(Waiting { start, sojourn, wire });
            self.waiting_bytes += u64::from(wire);
            if self.detail {
                self.idle = false;
                self.meter.enqueued(now, self.waiting.len(), self.is_full(self.waiting.len()));
            }
        }
        self.meter.sent(start, self.free, sojourn, u32::from(wire), false);
        if self.records.is_some() {
            self.keep(packet, start);
        }
        Some(self.free + self.delay)
    }

    /// Keeps a record of the packet accepted last.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, packet: &mut Packet, start: Time) {
        packet.enter(self.framing);
        if let Some(records) = &mut self.records
            && self.free < self.run_end
        {
            records.push(record(self.index, *packet, start, self.free, Fate::Delivered));
        }
    }

    /// Handles everything that started before `now`.
    #[inline(never)]
    pub fn catch_up(&mut self, now: Time) {
        while let Some(&Waiting { start, sojourn, wire }) = self.waiting.front()
            && start < now
        {
            self.waiting.pop();
            self.waiting_bytes -= u64::from(wire);
            if self.detail {
                self.meter.dequeued(start, sojourn, self.waiting.len(), self.is_full(self.waiting.len()));
            }
        }
        if self.detail && !self.idle && self.free < now {
            self.meter.emptied(self.free);
            self.idle = true;
        }
    }

    /// Returns the meter's report and the per-packet records.
    pub fn finish(mut self) -> (LinkReport, Vec<PacketRecord>) {
        self.catch_up(self.run_end);
        // Waiting packets are reported to the meter when they arrive.
        let (qlen, backlog, reported) = (self.waiting.len() as u64, self.waiting_bytes, self.meter.sent_so_far());
        // A packet that bypasses the discipline is counted at once.
        let requeued = self.waiting.front().filter(|first| first.start == self.requeues.1);
        let passed = requeued.map_or((0, 0), |first| (1, u64::from(first.wire)));
        let (packets, bytes) = (reported.0 - qlen + passed.0, reported.1 - backlog + passed.1);
        let mut report = finish(self.meter, self.detail);
        let common =
            Common { packets, bytes, drops: self.dropped, qlen, backlog, overlimits: 0, requeues: self.requeues.0 };
        report.main.stats = Some(common.object(self.kind).into());
        (report, self.records.unwrap_or_default())
    }

    /// Returns whether the next packet of MTU size would be refused if `packets` packets are queued.
    #[inline]
    fn is_full(&self, packets: usize) -> bool {
        packets >= self.limit.0 || self.waiting_bytes + self.mtu > self.limit.1
    }

    #[cold]
    #[inline(never)]
    fn drop(&mut self, mut packet: Packet) {
        packet.enter(self.framing);
        let (now, reason) = (packet.time, DropReason::Overlimit);
        if self.detail {
            self.meter.enqueued(now, self.waiting.len(), self.is_full(self.waiting.len()));
        }
        self.dropped += 1;
        self.meter.dropped(now, reason);
        if let Some(records) = &mut self.records {
            records.push(record(self.index, packet, now, now, Fate::Dropped(reason)));
        }
    }
}
