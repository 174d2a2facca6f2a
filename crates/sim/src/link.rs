//! A queue discipline and the link that it feeds, used by both engines.

use sojourn_core::packet::Packet as _;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Given, Qdisc};
use sojourn_core::trace::Opportunities;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_measure::stats::{self, Common};
use sojourn_measure::{LinkMeter, LinkReport};
use sojourn_model::records::{Fate, PacketRecord};
use sojourn_model::scenario::{self, Capacity, QdiscChange};
use std::ops::Range;

use crate::framing::Framing;
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
use pause::Pause;
pub use pause::PauseFrame;
use wire::Wire;

/// IP MTU of every hop in bytes.
pub const MTU: u32 = 1500;

/// Size that Linux counts for the buffer of a TCP segment (`truesize`) beyond its IP length: 640 bytes for headers and
/// 256 for the `sk_buff`, minus the 52 bytes of headers in the IP length.
const SKB: u32 = 640 + 256 - 52;

/// The state of a link.
pub struct Link {
    qdisc: AnyQdisc<Packet>,
    /// A packet that bypassed the empty discipline and waits for the device (Linux's `gso_skb`).
    requeued: Option<Packet>,
    /// Number of packets that have waited for the device in this way.
    requeues: u64,
    /// SACK blocks of queued ACKs, if the discipline filters ACKs.
    blocks: Option<Box<Blocks>>,
    meter: LinkMeter,
    records: Option<Vec<PacketRecord>>,
    /// Drops of the discipline in the last operation, to be taken by the engine.
    pub drops: Vec<(Packet, DropReason)>,
    /// Number of drops that the engine has taken.
    taken: usize,
    framing: Framing,
    /// The bytes of a full packet on the link.
    mtu: u32,
    index: u16,
    server: Server,
    /// The network card between discipline and link.
    card: Option<Box<Card>>,
    /// Impairments after the link.
    wire: Option<Box<Wire>>,
    /// Flow control towards the previous link and from the next one.
    pause: Option<Box<Pause>>,
    /// Changes of the discipline during the run, if there are any.
    qdisc_changes: Option<Box<QdiscChanges>>,
    /// Whether arrivals take the slow path: no buffer, a network card, impairments, flow control or an ACK filter.
    special: bool,
    is_traced: bool,
    bufferless: bool,
    /// Whether an arrival cannot start a transmission: one is in progress, the card's ring is full, or the link is
    /// paused.
    busy: bool,
    /// Time of the next [`Link::event`].
    due: Time,
    /// The packet in transmission, unless it was handed over at the start of its transmission.
    service: Option<Service>,
    delay: Span,
    last_out: Time,
    /// Whether a packet is handed over at the start of its transmission, together with the time of its end, instead of
    /// at its end.
    early: bool,
    /// Whether the queue is measured, not only departures.
    detail: bool,
    run_end: Time,
    /// The configuration of the discipline.
    spec: Box<Spec>,
    /// Number of dropped packets, including those lost in netem.
    dropped: u64,
    /// The counters at the time when the present discipline replaced another.
    before: Common,
}

/// Changes of a discipline during a run.
struct QdiscChanges {
    /// The present discipline and its link, from which it is rebuilt after a flush.
    present: Spec,
    context: Context,
    /// The remaining changes.
    to_come: std::vec::IntoIter<QdiscChange>,
    /// Whether a decrease of the rate flushes the queue.
    flush: bool,
    /// Packets and bytes that changes dropped and that Linux counts as sent.
    sent: (u64, u64),
    /// Packets that changes dropped and that Linux does not count as drops.
    uncounted: u64,
}

impl QdiscChanges {
    /// Returns `None` if the discipline never changes.
    fn new(link: &scenario::Link, context: Context) -> Option<Box<QdiscChanges>> {
        let to_come: Vec<QdiscChange> = link.changes.iter().map(|(_, change)| change.clone()).collect();
        let (present, flush) = (link.qdisc.clone(), link.flush);
        (flush || !to_come.is_empty()).then(|| {
            Box::new(QdiscChanges { present, context, to_come: to_come.into_iter(), flush, sent: (0, 0), uncounted: 0 })
        })
    }

    /// Counts the packets that a change dropped. If `requeued` is set, the first of them waited for the device, and was
    /// counted as sent when it bypassed the discipline.
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

/// The mechanism that takes packets from the queue.
enum Server {
    /// A rate, which may change in steps.
    Rate { rate: Rate, cache: (u16, Span) },
    /// The delivery opportunities of a trace.
    Trace(Opportunities),
}

impl Server {
    /// Returns the transmission time of `wire` bytes.
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
    /// Creates link number `index` of the scenario, at time zero.
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
        let mtu = link.wire_bytes(MTU);
        let skb = SKB.saturating_sub(mtu - MTU);
        let context = Context { mtu, overhead: link.overhead, rate, delay, skb, seed: setup.seed };
        let mut meter = LinkMeter::new(&setup.meter);
        meter.rate(Time::ZERO, rate);
        let qdisc: AnyQdisc<Packet> = link.qdisc.build(&context);
        let bufferless = qdisc.bufferless();
        let wire = |impair: &Box<_>| Box::new(Wire::new(impair, setup.seed, due));
        let pause = Pause::new(link, setup);
        let watches = pause.as_ref().is_some_and(|pause| pause.watches());
        let blocks = Blocks::new(link);
        Link {
            qdisc_changes: QdiscChanges::new(link, context),
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
            framing: Framing::new(link.overhead as u16, link.linklayer),
            mtu,
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

    /// Time of the next [`Link::event`].
    #[inline]
    pub fn next_event(&self) -> Time {
        self.due
    }

    /// Prefetches packets that will probably be transmitted next: about `packets` of them, after the next `packets`.
    pub fn prefetch(&self, packets: usize) {
        self.qdisc.prefetch(packets, &Processor, |packet| packet.prefetch(&Processor));
    }

    /// Returns whether an arrival cannot start a transmission.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// From now on, packets are handed over at the start of their transmission if its end is certain by then.
    pub fn hand_over_early(&mut self, link: &scenario::Link) {
        let steady = link.delay.len() == 1 && self.card.is_none() && self.wire.is_none() && self.pause.is_none();
        self.early = steady && matches!(&link.rate, Capacity::Steps(steps) if steps.len() == 1);
    }

    /// Handles an arrival at the queue. Returns whether the link is idle and needs a [`Link::event`] at once.
    #[inline(always)]
    pub fn arrive(&mut self, now: Time, packet: &mut Packet) -> bool {
        packet.enter(self.framing);
        packet.time = now;
        if self.special {
            return self.arrive_at_special(now, packet);
        }
        let bypasses = self.qdisc.admit(now, *packet, self.requeued.is_none(), &mut self.drops);
        self.admitted(now, packet, bypasses);
        self.awaits_packet()
    }

    /// Handles an arrival that the discipline has admitted or dropped. `bypasses`: the packet bypasses the empty
    /// discipline.
    #[inline(always)]
    fn admitted(&mut self, now: Time, packet: &Packet, bypasses: bool) {
        if bypasses {
            self.requeue(packet);
        }
        if self.detail {
            self.meter.enqueued(now, self.waiting(), self.is_full());
        }
    }

    /// Returns whether an arrival starts a transmission at once.
    #[inline(always)]
    fn awaits_packet(&self) -> bool {
        !self.busy && !self.is_traced
    }

    /// Handles an arrival, like [`Link::arrive`], at a link with one of the features that `special` lists.
    #[inline(never)]
    fn arrive_at_special(&mut self, now: Time, packet: &Packet) -> bool {
        self.enter_server();
        let mut starts = false;
        // A transmission that ends now is no obstacle: its event is still to come and takes this packet.
        if self.bufferless && self.busy && self.due > now {
            self.drops.push((*packet, DropReason::Busy));
        } else {
            let bypasses = self.admit_reading_blocks(now, packet);
            self.admitted(now, packet, bypasses);
            starts = if self.card.is_some() { self.offer(now) } else { self.awaits_packet() };
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

    /// Handles the arrival of several packets at once, each built from `packet` and a number. The link is busy.
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
        // Only the first packet can bypass the discipline.
        if self.qdisc.packets() == 0
            && let Some(first) = numbers.next()
        {
            self.arrive(now, &mut make(packet, first));
        }
        packet.enter(self.framing);
        packet.time = now;
        self.qdisc.enqueue_all(now, numbers.map(|number| make(packet, number)), &mut self.drops);
    }

    /// Handles the end of a transmission, a delivery opportunity, an event of the discipline, or an arrival at an idle
    /// link. Stores the packet that is handed over in `packet` and returns the time at which it reaches the far end,
    /// which is never earlier than that of a packet sent before.
    #[inline(always)]
    pub fn event(&mut self, now: Time, packet: &mut Packet) -> Option<Time> {
        if self.early {
            let end = self.start(now, packet)?;
            self.sent(packet, now, end);
            // The delay is constant, so that packets cannot overtake.
            return Some(end + self.delay);
        }
        *packet = self.event_at_end(now)?;
        self.last_out = (now + self.delay).max(self.last_out);
        Some(self.last_out)
    }

    /// Handles an event if packets are handed over at the end of their transmission.
    #[inline(never)]
    fn event_at_end(&mut self, now: Time) -> Option<Packet> {
        let left = if self.wire.is_some() { self.wire_event(now) } else { self.server_event(now) };
        self.watch(now);
        left
    }

    /// Handles an event of the link itself and returns the packet that leaves it.
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
            self.suspend(now);
        } else if self.start(now, &mut packet).is_some() {
            if !self.detail {
                self.meter.started(now);
            }
            self.service = Some(Service { packet, start: now });
        }
        done.map(|service| service.packet)
    }

    /// Changes the rate, the delay or the discipline. The change may add packets to [`Link::drops`].
    pub fn change(&mut self, now: Time, change: Change) {
        match change {
            Change::Rate(rate) => {
                if self.set_rate(now, rate) && self.qdisc_changes.as_ref().is_some_and(|changes| changes.flush) {
                    self.reset_qdisc(now);
                }
            }
            Change::Qdisc => self.change_qdisc(now),
            // Packets in flight keep their arrival times.
            Change::Delay(delay) => self.delay = delay,
        }
    }

    /// Changes the rate. A packet in transmission continues at the new rate. Returns whether the link is slower now.
    fn set_rate(&mut self, now: Time, new: Rate) -> bool {
        self.enter_server();
        let mut falls = false;
        if let Server::Rate { rate, cache } = &mut self.server {
            if let Some(card) = &mut self.card {
                card.set_rate(now, *rate, new);
            } else if self.busy && self.due < Time::NEVER {
                self.due = rate.stretched(now, self.due, new);
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

    /// Makes the next change: new parameters, or another discipline. A packet that is held back keeps its release time:
    /// in Linux, too, a change does not re-arm the watchdog.
    fn change_qdisc(&mut self, now: Time) {
        let Some(changes) = &mut self.qdisc_changes else { return };
        match changes.to_come.next() {
            Some(QdiscChange::Parameters(change)) => {
                // The new limit includes the packet that waits for the device.
                let waits = self.requeued.is_some();
                if waits {
                    self.qdisc.requeued(false);
                }
                let before = self.drops.len();
                let taken = self.qdisc.change(now, &change.spec, &mut self.drops);
                taken.unwrap_or_else(|_| panic!("bug: not a change that was tried before: {}", change.spec));
                changes.present = change.spec;
                if waits {
                    self.keep_requeued(before);
                }
                let lost = waits && self.requeued.is_none();
                if let Some(changes) = &mut self.qdisc_changes {
                    changes.count(self.qdisc.counts_change(), lost, &self.drops[before..]);
                }
                self.queue_has_changed(now);
            }
            Some(QdiscChange::Discipline(spec)) => {
                *self.spec = spec.clone();
                changes.present = spec;
                self.reset_qdisc(now);
                // The counters of a new discipline start at zero; the packets of the old one are not counted as its
                // drops.
                self.before = self.counted();
            }
            None => {}
        }
    }

    /// Drops all queued packets and resets the present discipline.
    fn reset_qdisc(&mut self, now: Time) {
        let Some(QdiscChanges { present: spec, context, .. }) = self.qdisc_changes.as_deref() else { return };
        let mut old = std::mem::replace(&mut self.qdisc, spec.build(context));
        // The old discipline releases packets that it holds back at its own times, which affect nothing but this loop.
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
            // Marks that the old discipline sets on the way out are discarded too.
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

    /// Returns the next packet that the discipline dropped at `now`, after recording the drop.
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

    /// Returns the meter's report and the per-packet records, whose entries are filled in later.
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

    /// Returns the packets that left the queue, and the drops, since the start of the run.
    fn counted(&self) -> Common {
        let reported = self.meter.sent_so_far();
        // Packets that have left the discipline are reported to the meter only at the end of their transmission.
        let under_way = match (&self.card, &self.service) {
            (Some(card), _) => card.unsent(),
            (None, Some(service)) => (1, u64::from(service.packet.wire())),
            (None, None) => (0, 0),
        };
        let lost = self.wire.as_ref().map_or(0, |wire| wire.lost);
        let (given, uncounted) =
            self.qdisc_changes.as_ref().map_or(((0, 0), 0), |changes| (changes.sent, changes.uncounted));
        let drops = self.dropped + (self.drops.len() - self.taken) as u64 - lost - uncounted;
        // Linux counts a packet that waits for the device as queued, and also as sent since it bypassed the discipline.
        let (qlen, backlog) = self.requeued.map_or((0, 0), |packet| (1, u64::from(packet.wire())));
        let (packets, bytes) =
            (reported.0 + under_way.0 + given.0 + qlen, reported.1 + under_way.1 + given.1 + backlog);
        Common { packets, bytes, drops, qlen, backlog, overlimits: 0, requeues: self.requeues }
    }

    /// Number of packets that wait for the link, without the one in transmission.
    #[inline]
    fn waiting(&self) -> usize {
        let before = self.qdisc.packets() + usize::from(self.requeued.is_some());
        before + self.card.as_ref().map_or(0, |card| card.waiting(self.service.is_some()))
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.qdisc.is_full(self.mtu)
    }

    /// Takes the next packet from the discipline and returns the end of its transmission. The link must not be
    /// transmitting.
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

    /// Reports the start of a transmission to the meter.
    #[inline(always)]
    fn begins(&mut self, now: Time, packet: &Packet) {
        self.meter.dequeued(now, now.since(packet.time), self.waiting(), self.is_full());
    }

    /// Handles an empty queue, or one whose packets are all held back.
    #[inline]
    fn idle(&mut self, now: Time) {
        self.busy = false;
        self.due = self.qdisc.next_event();
        match self.qdisc.packets() {
            _ if !self.detail => {}
            0 => self.meter.emptied(now),
            // All packets are held back; there may be fewer than before.
            packets => self.meter.enqueued(now, packets, self.is_full()),
        }
    }

    /// Records a transmission from `start` to `end`, which may be in the future.
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

    /// Keeps a record of a sent packet.
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

/// Returns the meter's report, without the measures of the queue unless `detail` is set.
pub fn finish(meter: LinkMeter, detail: bool) -> LinkReport {
    let mut report = meter.finish();
    if !detail {
        for window in std::iter::once(&mut report.main).chain(&mut report.startup) {
            window.forget_queue();
        }
    }
    report
}

/// Returns a packet's record. Its entry is filled in at the end of the run.
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
