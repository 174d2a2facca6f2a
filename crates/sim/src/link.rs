//! A queue discipline and the link that it feeds. Both engines drive this one; they differ in when they look at it.

use sojourn_core::packet::Packet as _;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Given, Qdisc};
use sojourn_core::units::{Rate, Span, Time};
use sojourn_measure::stats::{self, Common};
use sojourn_measure::{LinkMeter, LinkReport};
use sojourn_model::records::{Fate, PacketRecord};
use sojourn_model::scenario::{self, Capacity, QdiscChange};
use std::ops::Range;

use crate::packet::Packet;
use crate::prefetch::Processor;
use crate::setup::Setup;
use crate::topology::Change;
use crate::{Detail, Options};

mod card;
mod filter;
mod pause;
mod requeue;
mod traced;
mod wire;

use card::Card;
use filter::Blocks;
pub use pause::Frame;
use pause::Pause;
use traced::Opportunities;
use wire::Wire;

/// The IP MTU of every hop.
pub const MTU: u32 = 1500;

/// What Linux counts for the buffer of a TCP segment (`truesize`) beyond its IP length: 640 bytes of headers and 256 of `sk_buff`
/// for 52 of header.
const SKB: u32 = 640 + 256 - 52;

/// A link in operation.
pub struct Link {
    qdisc: AnyQdisc<Packet>,
    /// A packet that passed the empty discipline and waits for the device (Linux's `gso_skb`).
    requeued: Option<Packet>,
    /// How many have waited so.
    requeues: u64,
    /// What the discipline reads of ACKs, if it filters them.
    blocks: Option<Box<Blocks>>,
    meter: LinkMeter,
    records: Option<Vec<PacketRecord>>,
    /// What the discipline dropped in the last operation; the engine takes them.
    pub drops: Vec<(Packet, DropReason)>,
    /// So many of them it has taken.
    taken: usize,
    overhead: u32,
    index: u16,
    server: Server,
    /// The network card between the discipline and the link.
    card: Option<Box<Card>>,
    /// What befalls packets behind the link.
    wire: Option<Box<Wire>>,
    /// Flow control, towards the link before and from the link behind.
    pause: Option<Box<Pause>>,
    /// The discipline's changes during the run, if there are any.
    course: Option<Box<Course>>,
    /// An arrival takes the long path: no buffer, a network card, impairments, flow control or an ACK filter.
    special: bool,
    is_traced: bool,
    bufferless: bool,
    /// No arrival starts anything: a transmission is under way, the card's ring is full, or flow control has stopped the link.
    busy: bool,
    /// When [`Link::event`] is due.
    due: Time,
    /// The packet in transmission, unless it was handed over at its start.
    service: Option<Service>,
    delay: Span,
    last_out: Time,
    /// Hand packets over when their transmission starts, with its end, instead of at its end.
    early: bool,
    /// Measure the queue too, not only what leaves it.
    detail: bool,
    run_end: Time,
    /// The discipline's line.
    spec: Box<Spec>,
    /// Packets that were dropped, netem's included.
    dropped: u64,
    /// The counters when the present discipline replaced another.
    before: Common,
}

/// A discipline's changes during a run.
struct Course {
    /// The present discipline and its link, from which it is rebuilt after a flush.
    present: Spec,
    context: Context,
    /// The changes that are still to come.
    to_come: std::vec::IntoIter<QdiscChange>,
    /// A fall of the rate throws away what waits.
    flush: bool,
    /// Packets and bytes that changes dropped and Linux counts as sent.
    sent: (u64, u64),
    /// Packets that changes dropped and Linux does not count as drops.
    uncounted: u64,
}

impl Course {
    /// `None` if the discipline never changes.
    fn new(link: &scenario::Link, context: Context) -> Option<Box<Course>> {
        let to_come: Vec<QdiscChange> = link.changes.iter().map(|(_, change)| change.clone()).collect();
        let (present, flush) = (link.qdisc.clone(), link.flush);
        (flush || !to_come.is_empty()).then(|| {
            Box::new(Course { present, context, to_come: to_come.into_iter(), flush, sent: (0, 0), uncounted: 0 })
        })
    }

    /// Counts the packets that a change dropped. If `requeued` is set, the first of them waited for the device: it was counted as
    /// sent when it bypassed the discipline.
    fn count(&mut self, given: Given, requeued: bool, drops: &[(Packet, DropReason)]) {
        let drops = drops.iter().filter(|(_, reason)| *reason == DropReason::Overlimit);
        for (place, (packet, _)) in drops.enumerate() {
            if given.sent || requeued && place == 0 {
                self.sent = (self.sent.0 + 1, self.sent.1 + u64::from(packet.wire()));
            }
            self.uncounted += u64::from(!given.dropped);
        }
    }
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
    Rate { rate: Rate, cache: (u16, Span) },
    /// Delivery opportunities.
    Trace(Opportunities),
}

impl Server {
    /// How long `wire` bytes occupy the link.
    #[inline]
    fn serialise(&mut self, wire: u16) -> Span {
        match self {
            Server::Rate { rate, cache } => {
                if cache.0 != wire {
                    *cache = (wire, rate.serialise(u32::from(wire)));
                }
                cache.1
            }
            Server::Trace(_) => Span::ZERO,
        }
    }
}

impl Link {
    /// The link number `index` of the scenario, at time zero.
    pub fn new(index: usize, link: &scenario::Link, setup: &Setup, options: &Options) -> Link {
        let (rate, server) = match &link.rate {
            Capacity::Steps(steps) => {
                let rate = steps[0].1;
                (rate, Server::Rate { rate, cache: (0, Span::ZERO) })
            }
            Capacity::Trace(trace) => (trace.mean_rate(), Server::Trace(Opportunities::new(trace.clone()))),
        };
        let delay = link.delay[0].1;
        let is_traced = matches!(server, Server::Trace(_));
        let due = if let Server::Trace(trace) = &server { trace.time() } else { Time::NEVER };
        let skb = SKB.saturating_sub(link.overhead);
        let context = Context { mtu: MTU + link.overhead, overhead: link.overhead, rate, delay, skb, seed: setup.seed };
        let mut meter = LinkMeter::new(&setup.meter);
        meter.rate(Time::ZERO, rate);
        let qdisc: AnyQdisc<Packet> = link.qdisc.build(&context);
        let bufferless = qdisc.bufferless();
        let wire = |impair: &Box<_>| Box::new(Wire::new(impair, setup.seed, due));
        let pause = Pause::new(link, setup);
        let watches = pause.as_ref().is_some_and(|pause| pause.watches());
        let blocks = Blocks::new(link);
        Link {
            course: Course::new(link, context),
            bufferless,
            special: bufferless || link.nic.is_some() || link.impair.is_some() || watches || blocks.is_some(),
            pause,
            wire: link.impair.as_ref().map(wire),
            qdisc,
            requeued: None,
            requeues: 0,
            blocks,
            meter,
            records: options.packets.then(Vec::new),
            drops: Vec::new(),
            taken: 0,
            overhead: link.overhead,
            index: index as u16,
            server,
            card: link.nic.map(|nic| Box::new(Card::new(nic, setup))),
            is_traced,
            busy: false,
            due,
            service: None,
            delay,
            last_out: Time::ZERO,
            early: false,
            detail: options.detail == Detail::Full,
            run_end: setup.meter.end,
            spec: Box::new(link.qdisc.clone()),
            dropped: 0,
            before: Common::default(),
        }
    }

    /// When [`Link::event`] is due.
    #[inline]
    pub fn next_event(&self) -> Time {
        self.due
    }

    /// Fetches about so many packets, which are likely to be transmitted after the next so many.
    pub fn warm(&self, packets: usize) {
        self.qdisc.ahead(packets, &Processor, |packet| packet.warm(&Processor));
    }

    /// Whether a transmission is under way, so that no arrival starts one.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// From now on packets are handed over at the start of their transmission, if its end is certain then.
    pub fn hand_over_early(&mut self, link: &scenario::Link) {
        let steady = link.delay.len() == 1 && self.card.is_none() && self.wire.is_none() && self.pause.is_none();
        self.early = steady && matches!(&link.rate, Capacity::Steps(steps) if steps.len() == 1);
    }

    /// A packet arrives at the queue. Whether the link is idle and wants a [`Link::event`] at once.
    #[inline(always)]
    pub fn arrive(&mut self, now: Time, packet: &mut Packet) -> bool {
        packet.enter(self.overhead as u16);
        packet.time = now;
        if self.special {
            return self.arrive_in_full(now, packet);
        }
        if self.qdisc.admit(now, *packet, self.requeued.is_none(), &mut self.drops) {
            self.requeue(packet);
        }
        if self.detail {
            self.meter.enqueued(now, self.waiting(), self.is_full());
        }
        !self.busy && !self.is_traced
    }

    /// The same where more is to be looked at.
    #[inline(never)]
    fn arrive_in_full(&mut self, now: Time, packet: &Packet) -> bool {
        self.enter_server();
        let mut starts = false;
        // A transmission that ends now is in nobody's way: its event is still to come and takes this packet.
        if self.bufferless && self.busy && self.due > now {
            self.drops.push((*packet, DropReason::Busy));
        } else {
            self.take_in(now, packet);
            if self.detail {
                self.meter.enqueued(now, self.waiting(), self.is_full());
            }
            starts = if self.card.is_some() { self.offer(now) } else { !self.busy && !self.is_traced };
        }
        self.leave_server();
        if let Some(wire) = &mut self.wire
            && starts
        {
            wire.want();
        }
        self.watch(now);
        starts
    }

    /// Packets with these numbers arrive at the queue at once, each made from the first; the link is busy.
    #[inline(always)]
    pub fn arrive_in_run(
        &mut self,
        now: Time,
        mut packet: Packet,
        numbers: Range<u32>,
        make: impl Fn(Packet, u32) -> Packet,
    ) {
        if self.detail || self.special {
            for number in numbers {
                self.arrive(now, &mut make(packet, number));
            }
            return;
        }
        let mut numbers = numbers;
        // Only the first can pass the discipline.
        if self.qdisc.packets() == 0
            && let Some(first) = numbers.next()
        {
            self.arrive(now, &mut make(packet, first));
        }
        packet.enter(self.overhead as u16);
        packet.time = now;
        self.qdisc.enqueue_all(now, numbers.map(|number| make(packet, number)), &mut self.drops);
    }

    /// The end of a transmission, a delivery opportunity, the discipline's own time, or an arrival at an idle link. Puts what
    /// is handed over into `packet`, and gives the time when it reaches the far end: never before one that left earlier.
    #[inline(always)]
    pub fn event(&mut self, now: Time, packet: &mut Packet) -> Option<Time> {
        if self.early {
            let end = self.start(now, packet)?;
            self.sent(packet, now, end);
            // The delay is constant: nothing is overtaken.
            return Some(end + self.delay);
        }
        *packet = self.event_in_full(now)?;
        self.last_out = (now + self.delay).max(self.last_out);
        Some(self.last_out)
    }

    /// The same where packets are handed over at the end of their transmission.
    #[inline(never)]
    fn event_in_full(&mut self, now: Time) -> Option<Packet> {
        let left = if self.wire.is_some() { self.wire_event(now) } else { self.server_event(now) };
        self.watch(now);
        left
    }

    /// What the link itself does, and what leaves it.
    fn server_event(&mut self, now: Time) -> Option<Packet> {
        if self.card.is_some() {
            return self.card_event(now);
        }
        if self.is_traced {
            return self.opportunity(now);
        }
        let mut done = self.service.take();
        if let Some(service) = &mut done {
            self.sent(&mut service.packet, service.start, now);
        }
        let mut packet = Packet::default();
        if self.is_stopped() {
            self.stand(now);
        } else if self.start(now, &mut packet).is_some() {
            if !self.detail {
                self.meter.started(now);
            }
            self.service = Some(Service { packet, start: now });
        }
        done.map(|service| service.packet)
    }

    /// The rate, the delay or the discipline changes; [`Link::drops`] may have packets then.
    pub fn change(&mut self, now: Time, change: Change) {
        match change {
            Change::Rate(rate) => {
                if self.set_rate(now, rate) && self.course.as_ref().is_some_and(|course| course.flush) {
                    self.begin_anew(now);
                }
            }
            Change::Qdisc => self.change_qdisc(now),
            // What is already under way keeps its time.
            Change::Delay(delay) => self.delay = delay,
        }
    }

    /// The rate changes; the packet in transmission goes on with what is left of it. Whether the link is slower now.
    fn set_rate(&mut self, now: Time, new: Rate) -> bool {
        self.enter_server();
        let mut falls = false;
        if let Server::Rate { rate, cache } = &mut self.server {
            if let Some(card) = &mut self.card {
                card.set_rate(now, *rate, new);
            } else if self.busy && self.due < Time::NEVER {
                self.due = stretched(now, self.due, *rate, new);
            }
            falls = new < *rate;
            *rate = new;
            *cache = (0, Span::ZERO);
        }
        self.meter.rate(now, new);
        self.look_ahead();
        self.leave_server();
        falls
    }

    /// Makes the next change: other parameters, or another discipline. A packet that is held back keeps its time of
    /// release: in Linux, too, a change does not rearm the watchdog.
    fn change_qdisc(&mut self, now: Time) {
        let Some(course) = &mut self.course else { return };
        match course.to_come.next() {
            Some(QdiscChange::Parameters(change)) => {
                // The new limit includes the packet that waits for the device.
                let waits = self.requeued.is_some();
                if waits {
                    self.qdisc.requeued(false);
                }
                let before = self.drops.len();
                let taken = self.qdisc.change(now, &change.spec, &mut self.drops);
                taken.unwrap_or_else(|error| panic!("bug: a change that was tried before: {error}"));
                course.present = change.spec;
                if waits {
                    self.keep_requeued(before);
                }
                let lost = waits && self.requeued.is_none();
                if let Some(course) = &mut self.course {
                    course.count(self.qdisc.counts_change(), lost, &self.drops[before..]);
                }
                self.queue_has_changed(now);
            }
            Some(QdiscChange::Discipline(spec)) => {
                *self.spec = spec.clone();
                course.present = spec;
                self.begin_anew(now);
                // Its counters start at zero; the old one's packets are not counted as its drops.
                self.before = self.counted();
            }
            None => {}
        }
    }

    /// Drops all queued packets and resets the present discipline.
    fn begin_anew(&mut self, now: Time) {
        let Some(Course { present: spec, context, .. }) = self.course.as_deref() else { return };
        let mut old = std::mem::replace(&mut self.qdisc, spec.build(context));
        // What it holds back it gives in its own time, of which nothing but this depends any more.
        let (mut at, mut gone) = (now, Vec::new());
        gone.extend(self.requeued.take().map(|packet| (packet, DropReason::Overlimit)));
        while old.packets() > 0 && at < Time::NEVER {
            match old.dequeue(at, &mut gone) {
                Some(packet) => gone.push((packet, DropReason::Overlimit)),
                None => at = old.next_event().max(at + Span(1)),
            }
        }
        assert_eq!(old.packets(), 0, "{spec}: what it holds it gives in the end");
        self.drops.extend(gone.into_iter().map(|(mut packet, _)| {
            // Nor is what was decided about it on its way out.
            packet.set_ecn(packet.ecn_in());
            (packet, DropReason::Overlimit)
        }));
        self.queue_has_changed(now);
    }

    /// Reports the queue's new length to the meter and to flow control.
    fn queue_has_changed(&mut self, now: Time) {
        let is_sending = self.service.is_some() || self.busy && self.due < Time::NEVER;
        match self.waiting() {
            _ if !self.detail => {}
            0 if !is_sending => self.meter.emptied(now),
            packets => self.meter.enqueued(now, packets, self.is_full()),
        }
        self.watch(now);
    }

    /// Measures and gives back what the discipline dropped at `now`, one packet a call.
    #[cold]
    #[inline(never)]
    pub fn take_drop(&mut self, now: Time) -> Option<Packet> {
        let Some(&(packet, reason)) = self.drops.get(self.taken) else {
            self.drops.clear();
            self.taken = 0;
            return None;
        };
        self.taken += 1;
        self.dropped += 1;
        self.meter.dropped(now, reason);
        if let Some(records) = &mut self.records {
            records.push(record(self.index, packet, now, now, Fate::Dropped(reason)));
        }
        Some(packet)
    }

    /// The meter's report and the per-packet records (their entries still to be filled in).
    pub fn finish(self) -> (LinkReport, Vec<PacketRecord>) {
        let stats = stats::of(&self.spec, &self.qdisc, self.counted().since(self.before));
        let mut report = finish(self.meter, self.detail);
        report.main.stats = Some(stats);
        if let Some(card) = self.card {
            card.meter.finish(&mut report);
        }
        if let Some(pause) = self.pause {
            pause.finish(&mut report);
        }
        (report, self.records.unwrap_or_default())
    }

    /// Packets that left the queue, and drops there, since the start of the run.
    fn counted(&self) -> Common {
        let reported = self.meter.sent_so_far();
        // Packets that have left the discipline, but are reported to the meter only when their transmission ends.
        let under_way = match (&self.card, &self.service) {
            (Some(card), _) => card.unsent(),
            (None, Some(service)) => (1, u64::from(service.packet.wire())),
            (None, None) => (0, 0),
        };
        let lost = self.wire.as_ref().map_or(0, |wire| wire.lost);
        let (given, uncounted) = self.course.as_ref().map_or(((0, 0), 0), |course| (course.sent, course.uncounted));
        let drops = self.dropped + (self.drops.len() - self.taken) as u64 - lost - uncounted;
        // Linux counts a packet that waits before the device as queued, and as sent since it bypassed the discipline.
        let (qlen, backlog) = self.requeued.map_or((0, 0), |packet| (1, u64::from(packet.wire())));
        let (packets, bytes) =
            (reported.0 + under_way.0 + given.0 + qlen, reported.1 + under_way.1 + given.1 + backlog);
        Common { packets, bytes, drops, qlen, backlog, overlimits: 0, requeues: self.requeues }
    }

    /// Packets before the link, the one in transmission not counted.
    #[inline]
    fn waiting(&self) -> usize {
        let before = self.qdisc.packets() + usize::from(self.requeued.is_some());
        before + self.card.as_ref().map_or(0, |card| card.waiting(self.service.is_some()))
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.qdisc.is_full(MTU + self.overhead)
    }

    /// Takes the next packet from the discipline; the link must not be transmitting. Gives the end of its transmission.
    #[inline(always)]
    fn start(&mut self, now: Time, packet: &mut Packet) -> Option<Time> {
        if self.requeued.is_some() {
            self.take_requeued(packet);
        } else if !self.qdisc.dequeue_into(now, packet, &mut self.drops) {
            self.idle(now);
            return None;
        }
        self.busy = true;
        if self.detail {
            self.begins(now, packet);
        }
        let end = now + self.server.serialise(packet.wire());
        self.due = end;
        Some(end)
    }

    /// The meter is told that a transmission begins.
    #[inline(always)]
    fn begins(&mut self, now: Time, packet: &Packet) {
        self.meter.dequeued(now, now.since(packet.time), self.waiting(), self.is_full());
    }

    /// Nothing to send.
    #[inline]
    fn idle(&mut self, now: Time) {
        self.busy = false;
        self.due = self.qdisc.next_event();
        match self.qdisc.packets() {
            _ if !self.detail => {}
            0 => self.meter.emptied(now),
            // Held back, perhaps fewer than before.
            packets => self.meter.enqueued(now, packets, self.is_full()),
        }
    }

    /// A transmission ends at `end`, now or later.
    #[inline(always)]
    fn sent(&mut self, packet: &mut Packet, start: Time, end: Time) {
        let marked = packet.is_marked();
        self.meter.sent(start, end, start.since(packet.time), packet.bytes(), marked);
        if self.records.is_some() {
            self.keep(packet, start, end);
        }
        if marked {
            packet.pass_on();
        }
    }

    /// Keeps a record of a packet sent.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, packet: &Packet, start: Time, end: Time) {
        if let Some(records) = &mut self.records
            && end < self.run_end
        {
            records.push(record(self.index, *packet, start, end, Fate::Delivered));
        }
    }
}

/// When a transmission ends that was to end at `end`, if the rate changes now.
fn stretched(now: Time, end: Time, old: Rate, new: Rate) -> Time {
    let bits_left = u128::from(end.since(now).0) * u128::from(old.0);
    now + Span(bits_left.div_ceil(u128::from(new.0)) as u64)
}

/// The meter's report; without detail nothing is known of the queue.
pub fn finish(meter: LinkMeter, detail: bool) -> LinkReport {
    let mut report = meter.finish();
    if !detail {
        for window in std::iter::once(&mut report.main).chain(&mut report.startup) {
            window.forget_queue();
        }
    }
    report
}

/// A packet's record; its entry is filled in at the end of the run.
#[cold]
#[inline(never)]
pub fn record(link: u16, packet: Packet, start: Time, end: Time, fate: Fate) -> PacketRecord {
    PacketRecord {
        link,
        entry: 0,
        connection: packet.conn(),
        seq: packet.seq(),
        bytes: packet.bytes(),
        kind: packet.kind(),
        ecn_in: packet.ecn_in(),
        ecn_out: packet.ecn(),
        arrival: packet.time,
        start,
        end,
        fate,
    }
}
