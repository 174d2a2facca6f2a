//! A queue discipline and the link that it feeds. Both engines drive this one; they differ in when they look at it.

use std::sync::Arc;

use sojourn_core::packet::Packet as _;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Qdisc};
use sojourn_core::units::{Rate, Span, Time};
use sojourn_measure::{LinkMeter, LinkReport, LinkSetup};
use sojourn_model::records::{Fate, PacketRecord};
use sojourn_model::scenario::{self, Capacity, Trace};

use crate::packet::Packet;

/// The IP MTU of every hop.
pub const MTU: u32 = 1500;

/// Bytes that one delivery opportunity of a trace carries.
const OPPORTUNITY: u32 = 1500;

/// A link in operation.
pub struct Link {
    qdisc: AnyQdisc<Packet>,
    meter: LinkMeter,
    records: Option<Vec<PacketRecord>>,
    /// What the discipline dropped in the last operation; the engine takes them.
    pub drops: Vec<(Packet, DropReason)>,
    overhead: u32,
    index: u16,
    server: Server,
    /// The packet in transmission.
    service: Option<Service>,
    delay: Span,
    last_out: Time,
    /// When the last packet accepted in closed form will have left.
    free: Time,
}

/// A packet in transmission.
#[derive(Clone, Copy)]
struct Service {
    packet: Packet,
    start: Time,
}

/// What moves packets out of the queue.
enum Server {
    /// A rate, perhaps changed by steps.
    Rate { rate: Rate, end: Time, cache: (u16, Span) },
    /// Delivery opportunities.
    Trace(Opportunities),
}

/// The state of a trace-driven link.
struct Opportunities {
    trace: Arc<Trace>,
    next: usize,
    period_start: Time,
    /// Bytes left of the present opportunity.
    budget: u32,
    /// Bytes left of the packet in transmission.
    remaining: u32,
}

impl Server {
    /// How long `wire` bytes occupy the link.
    #[inline]
    fn serialise(&mut self, wire: u16) -> Span {
        match self {
            Server::Rate { rate, cache, .. } => {
                if cache.0 != wire {
                    *cache = (wire, rate.serialise(u32::from(wire)));
                }
                cache.1
            }
            Server::Trace(_) => Span::ZERO,
        }
    }
}

impl Opportunities {
    fn new(trace: Arc<Trace>) -> Opportunities {
        Opportunities { trace, next: 0, period_start: Time::ZERO, budget: OPPORTUNITY, remaining: 0 }
    }

    fn time(&self) -> Time {
        self.period_start + Span::from_millis(self.trace.opportunities_ms[self.next])
    }

    /// On to the next opportunity. The trace repeats with its last time as the period (mahimahi).
    fn advance(&mut self) {
        self.budget = OPPORTUNITY;
        self.next += 1;
        if self.next == self.trace.opportunities_ms.len() {
            self.period_start = self.period_start + Span::from_millis(self.trace.opportunities_ms[self.next - 1]);
            self.next = 0;
        }
    }
}

impl Link {
    /// The link number `index` of the scenario, at time zero. `records` asks for per-packet records.
    pub fn new(index: usize, link: &scenario::Link, setup: &LinkSetup, seed: u64, records: bool) -> Link {
        let (rate, server) = match &link.rate {
            Capacity::Steps(steps) => {
                let rate = steps[0].1;
                (rate, Server::Rate { rate, end: Time::NEVER, cache: (0, Span::ZERO) })
            }
            Capacity::Trace(trace) => (trace.mean_rate(), Server::Trace(Opportunities::new(trace.clone()))),
        };
        let delay = link.delay[0].1;
        let context = Context { mtu: MTU + link.overhead, rate, delay, seed };
        let mut meter = LinkMeter::new(setup);
        meter.rate(Time::ZERO, rate);
        Link {
            qdisc: link.qdisc.build(&context),
            meter,
            records: records.then(Vec::new),
            drops: Vec::new(),
            overhead: link.overhead,
            index: index as u16,
            server,
            service: None,
            delay,
            last_out: Time::ZERO,
            free: Time::ZERO,
        }
    }

    /// Whether departures can be computed on arrival: a FIFO that drops at its tail, a rate and a
    /// delay that never change, no trace.
    pub fn has_closed_form(link: &scenario::Link) -> bool {
        let steady = matches!(&link.rate, Capacity::Steps(steps) if steps.len() == 1) && link.delay.len() == 1;
        steady && matches!(link.qdisc, Spec::Pfifo(_) | Spec::Bfifo(_))
    }

    /// When [`Link::event`] is due.
    #[inline]
    pub fn next_event(&self) -> Time {
        match &self.server {
            Server::Rate { end, .. } => *end,
            Server::Trace(trace) => trace.time(),
        }
    }

    /// A packet arrives at the queue; an idle link takes it at once.
    #[inline]
    pub fn arrive(&mut self, now: Time, mut packet: Packet) {
        packet.enter(self.overhead);
        packet.time = now;
        if self.service.is_some() && self.qdisc.bufferless() {
            self.drops.push((packet, DropReason::Busy));
            return;
        }
        self.qdisc.enqueue(now, packet, &mut self.drops);
        self.meter.enqueued(now, self.qdisc.packets(), self.is_full());
        if self.service.is_none() && matches!(self.server, Server::Rate { .. }) {
            self.start(now);
        }
    }

    /// The closed form of a FIFO (see [`Link::has_closed_form`]): tells on arrival when the packet will have left, or that
    /// it was dropped. What happened before `now` is caught up with first; an arrival goes before a departure at the same
    /// time, as in the evented link.
    #[inline]
    pub fn arrive_in_closed_form(&mut self, now: Time, packet: Packet) -> Option<Time> {
        self.catch_up(now);
        let wire = packet.bytes + self.overhead as u16;
        self.arrive(now, packet);
        if !self.drops.is_empty() {
            return None;
        }
        self.free = self.free.max(now) + self.server.serialise(wire);
        Some(self.free)
    }

    /// Everything that happened on a link in closed form before `now`.
    #[inline]
    pub fn catch_up(&mut self, now: Time) {
        while self.next_event() < now {
            self.event(self.next_event());
        }
    }

    /// The end of a transmission, a delivery opportunity, or the discipline's own time: gives the packet that left.
    #[inline]
    pub fn event(&mut self, now: Time) -> Option<Packet> {
        if let Server::Trace(_) = self.server {
            return self.opportunity(now);
        }
        let done = self.service.take().map(|service| self.sent(service, now));
        self.start(now);
        done
    }

    /// When a packet that left at `end` reaches the far end. Never before one that left earlier.
    #[inline]
    pub fn arrival_after(&mut self, end: Time) -> Time {
        self.last_out = (end + self.delay).max(self.last_out);
        self.last_out
    }

    /// The delay changes; what is already under way keeps its time.
    pub fn set_delay(&mut self, delay: Span) {
        self.delay = delay;
    }

    /// The rate changes; the packet in transmission goes on with what is left of it.
    pub fn set_rate(&mut self, now: Time, new: Rate) {
        if let Server::Rate { rate, end, cache } = &mut self.server {
            if self.service.is_some() {
                let bits_left = u128::from(end.since(now).0) * u128::from(rate.0);
                *end = now + Span(bits_left.div_ceil(u128::from(new.0)) as u64);
            }
            *rate = new;
            *cache = (0, Span::ZERO);
        }
        self.meter.rate(now, new);
    }

    /// Measures and gives back what the discipline dropped at `now`, one packet a call.
    #[cold]
    #[inline(never)]
    pub fn take_drop(&mut self, now: Time) -> Option<Packet> {
        if self.drops.is_empty() {
            return None;
        }
        let (packet, reason) = self.drops.remove(0);
        self.meter.dropped(now, reason);
        self.record(&packet, now, now, Fate::Dropped(reason));
        Some(packet)
    }

    /// The meter's report and the per-packet records (their entries still to be filled in).
    pub fn finish(self) -> (LinkReport, Vec<PacketRecord>) {
        (self.meter.finish(), self.records.unwrap_or_default())
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.qdisc.is_full(MTU + self.overhead)
    }

    /// Takes the next packet from the discipline; the link must be idle.
    #[inline]
    fn start(&mut self, now: Time) {
        let taken = self.qdisc.dequeue(now, &mut self.drops);
        let full = self.is_full();
        let due = if let Some(packet) = taken {
            self.meter.dequeued(now, now.since(packet.time), self.qdisc.packets(), full);
            self.service = Some(Service { packet, start: now });
            now + self.server.serialise(packet.wire)
        } else {
            if self.qdisc.packets() == 0 {
                self.meter.emptied(now);
            }
            self.qdisc.next_event()
        };
        if let Server::Rate { end, .. } = &mut self.server {
            *end = due;
        }
    }

    /// A delivery opportunity of a trace: what is left of it goes to the next packet. Due again at `now` until it is used up.
    fn opportunity(&mut self, now: Time) -> Option<Packet> {
        let Server::Trace(trace) = &mut self.server else { return None };
        if self.service.is_none() {
            if let Some(packet) = self.qdisc.dequeue(now, &mut self.drops) {
                trace.remaining = packet.bytes();
                self.service = Some(Service { packet, start: now });
                let full = self.is_full();
                self.meter.dequeued(now, now.since(packet.time), self.qdisc.packets(), full);
            } else if self.qdisc.packets() == 0 {
                self.meter.emptied(now);
            }
        }
        let Server::Trace(trace) = &mut self.server else { return None };
        let used = if self.service.is_some() { trace.budget.min(trace.remaining) } else { 0 };
        trace.budget -= used;
        trace.remaining -= used;
        let finished = self.service.is_some() && trace.remaining == 0;
        if trace.budget == 0 || self.service.is_none() {
            self.meter.offered(now, OPPORTUNITY, OPPORTUNITY - trace.budget);
            trace.advance();
        }
        if !finished {
            return None;
        }
        let service = self.service.take()?;
        Some(self.sent(service, now))
    }

    #[inline]
    fn sent(&mut self, service: Service, end: Time) -> Packet {
        let Service { packet, start } = service;
        self.meter.sent(start, end, start.since(packet.time), packet.bytes(), packet.is_marked());
        if self.records.is_some() {
            self.record(&packet, start, end, Fate::Delivered);
        }
        packet
    }

    #[cold]
    #[inline(never)]
    fn record(&mut self, packet: &Packet, start: Time, end: Time, fate: Fate) {
        if let Some(records) = &mut self.records {
            records.push(PacketRecord {
                link: self.index,
                entry: 0,
                connection: packet.conn,
                seq: packet.seq,
                bytes: packet.bytes(),
                kind: packet.kind,
                ecn_in: packet.ecn_in(),
                ecn_out: packet.ecn(),
                arrival: packet.time,
                start,
                end,
                fate,
            });
        }
    }
}
