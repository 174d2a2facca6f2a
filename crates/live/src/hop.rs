//! A link of the path: a queue discipline, the ring of a network card, a server, and impairments.
//!
//! This module is pure; time is an argument. The server works in virtual time: a transmission begins when the one before
//! it ends, however late the program is. At one time arrivals come before departures, and an idle server asks for a
//! packet after all arrivals of that time, as in `sojourn replay`.

use sojourn_core::netem::Netem;
use sojourn_core::nic::{Nic, Params, Ticks};
use sojourn_core::packet::Packet as _;
use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Qdisc};
use sojourn_core::trace::Opportunities;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::scenario::{Capacity, Link, QdiscChange};

use crate::packet::{Lost, Packet, Pool};

/// Without a card, the link has room for the packet in transmission.
const BARE: Params = Params { ring: 1, bql: false, coalesce: Span::ZERO };
/// Bytes that byte queue limits count in addition to the IP length.
const ETHERNET: u32 = 14;

/// The end of a packet at this link.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// It was sent; `end` is the end of its transmission.
    Sent {
        /// Start of the transmission.
        start: Time,
        /// End of the transmission.
        end: Time,
    },
    /// It was dropped.
    Dropped(DropReason),
    /// The kernel dropped it, and does not tell the reason.
    Unexplained,
    /// It was sent by the link, and lost by the impairments after it.
    Impaired(DropReason),
}

/// Packets that a link has finished with.
#[derive(Default)]
pub struct Done {
    /// Packets whose fate at this link is known, in the order of their fates.
    pub fates: Vec<(Packet, Fate)>,
    /// Packets that leave the link, with the times at which they reach its far end.
    pub left: Vec<(Packet, Time)>,
}

/// A scheduled change of a link.
#[derive(Clone, Debug)]
pub enum Change {
    /// The rate.
    Rate(Rate),
    /// The propagation delay.
    Delay(Span),
    /// The discipline, or its parameters.
    Qdisc(QdiscChange),
}

/// The server of a link.
enum Server {
    Rate(Rate),
    Trace(Opportunities),
}

/// The part of a link after its server: impairments and the delay.
pub struct After {
    netem: Option<Netem<Packet>>,
    delay: Span,
    last_out: Time,
}

impl After {
    /// Creates this part of a link, without packets. `seed` is that of the impairments.
    pub fn new(link: &Link, seed: u64) -> After {
        let netem = link.impair.as_ref().map(|impair| Netem::new(impair, seed));
        After { netem, delay: link.delay[0].1, last_out: Time::ZERO }
    }

    /// Time of the next [`After::release`].
    pub fn next_event(&self) -> Time {
        self.netem.as_ref().map_or(Time::NEVER, Netem::next_event)
    }

    /// The present delay.
    pub fn delay(&self) -> Span {
        self.delay
    }

    /// Changes the delay.
    pub fn set_delay(&mut self, delay: Span) {
        self.delay = delay;
    }

    /// A packet has been sent: its transmission began at `start` and ends now.
    pub fn sent(&mut self, start: Time, now: Time, packet: Packet, pool: &Pool, done: &mut Done) {
        done.fates.push((packet, Fate::Sent { start, end: now }));
        match &mut self.netem {
            None => self.leave(now, packet, done),
            Some(netem) => {
                let mut lost = Vec::new();
                netem.enqueue(now, packet, &mut Lost { packets: &mut lost, pool });
                // The probe of the kernel world counts such a packet once more, as lost after the link.
                done.fates.extend(lost.into_iter().map(|(packet, reason)| (packet, Fate::Impaired(reason))));
            }
        }
    }

    /// Takes from netem what is due.
    pub fn release(&mut self, now: Time, done: &mut Done) {
        while let Some(packet) = self.netem.as_mut().and_then(|netem| netem.dequeue(now)) {
            self.leave(now, packet, done);
        }
    }

    /// Sends a packet to the far end. A shorter delay does not let it overtake others.
    fn leave(&mut self, now: Time, packet: Packet, done: &mut Done) {
        self.last_out = (now + self.delay).max(self.last_out);
        done.left.push((packet, self.last_out));
    }
}

/// The state of a link.
pub struct Hop {
    link: Link,
    context: Context,
    qdisc: AnyQdisc<Packet>,
    card: Nic<Packet>,
    server: Server,
    /// Start and end of the transmission of the card's head.
    service: Option<(Time, Time)>,
    after: After,
    /// Set by an arrival at an idle link: the time at which the server asks the discipline for a packet.
    asks: Option<Time>,
    drops: Vec<(Packet, DropReason)>,
}

impl Hop {
    /// Creates an idle link. `mtu` is the largest IP packet in bytes, and `hz` the ticks of byte queue limits per second.
    pub fn new(link: &Link, mtu: u32, hz: u32, seed: u64) -> Hop {
        let (rate, server) = match &link.rate {
            Capacity::Steps(steps) => (steps[0].1, Server::Rate(steps[0].1)),
            Capacity::Trace(trace) => (trace.mean_rate(), Server::Trace(Opportunities::new(trace.clone()))),
        };
        let delay = link.delay[0].1;
        let context = Context { mtu: link.wire_bytes(mtu), overhead: link.overhead, rate, delay, skb: 0, seed };
        Hop {
            qdisc: link.qdisc.build(&context),
            card: Nic::new(link.nic.unwrap_or(BARE), Ticks { hz, phase: Span::ZERO }),
            server,
            service: None,
            after: After::new(link, seed),
            asks: None,
            drops: Vec::new(),
            link: link.clone(),
            context,
        }
    }

    /// Returns the scheduled changes of a link, in order of time.
    pub fn changes(link: &Link) -> Vec<(Time, Change)> {
        let rates = match &link.rate {
            Capacity::Steps(steps) => &steps[1..],
            Capacity::Trace(_) => &[],
        };
        let mut all: Vec<(Time, Change)> = rates.iter().map(|(at, rate)| (*at, Change::Rate(*rate))).collect();
        all.extend(link.delay[1..].iter().map(|(at, delay)| (*at, Change::Delay(*delay))));
        all.extend(link.changes.iter().map(|(at, change)| (*at, Change::Qdisc(change.clone()))));
        all.sort_by_key(|change| change.0);
        all
    }

    /// Time of the next [`Hop::event`].
    pub fn next_event(&self) -> Time {
        let server = match (&self.server, self.service) {
            (Server::Trace(trace), _) => trace.time(),
            (_, Some((_, end))) => end,
            _ => Time::NEVER,
        };
        let held_back = if self.card.is_open() { self.qdisc.next_event() } else { Time::NEVER };
        let asks = self.asks.unwrap_or(Time::NEVER);
        server.min(self.card.next_event()).min(held_back).min(self.after.next_event()).min(asks)
    }

    /// Number of packets that wait, without the one in transmission.
    pub fn waiting(&self) -> usize {
        self.qdisc.packets() + self.card.unsent() - usize::from(self.service.is_some())
    }

    /// The present rate; the mean one of a trace.
    pub fn rate(&self) -> Rate {
        self.context.rate
    }

    /// The present delay after the link.
    pub fn delay(&self) -> Span {
        self.after.delay()
    }

    /// The discipline, for its counters.
    pub fn qdisc(&self) -> &AnyQdisc<Packet> {
        &self.qdisc
    }

    /// The link as the scenario has it, with the changes so far.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Handles an arrival.
    pub fn arrive(&mut self, now: Time, mut packet: Packet, pool: &Pool, done: &mut Done) {
        packet.wire = self.link.wire_bytes(packet.facts.ip_bytes);
        packet.ecn_in = packet.ecn();
        packet.arrival = now;
        // An event that is due now makes room: it is still to come, and takes this packet.
        if self.qdisc.bufferless() && !self.card.is_open() && self.next_event() > now {
            self.drops.push((packet, DropReason::Busy));
        } else {
            self.qdisc.enqueue(now, packet, &mut Lost { packets: &mut self.drops, pool });
            if self.card.is_open() && matches!(self.server, Server::Rate(_)) {
                self.asks = Some(now);
            }
        }
        self.report_drops(done);
    }

    /// The packet in transmission, and the time at which its transmission began.
    pub fn in_transmission(&self) -> Option<(&Packet, Time)> {
        Some((self.card.head()?, self.service?.0))
    }

    /// Handles everything that is due at `now`.
    pub fn event(&mut self, now: Time, pool: &Pool, done: &mut Done) {
        self.asks = None;
        if let (Server::Rate(_), Some((start, end))) = (&self.server, self.service)
            && end <= now
        {
            self.finish(start, now, pool, done);
        }
        self.interrupt(now);
        match self.server {
            Server::Rate(_) => {
                self.fill(now, pool);
                self.transmit(now);
            }
            Server::Trace(_) => self.opportunity(now, pool, done),
        }
        self.after.release(now, done);
        self.report_drops(done);
    }

    /// Makes a scheduled change, or one that the user asks for.
    ///
    /// # Errors
    /// The discipline does not take the change.
    pub fn change(&mut self, now: Time, change: &Change, pool: &Pool, done: &mut Done) -> Result<(), String> {
        match change {
            Change::Delay(delay) => self.after.set_delay(*delay),
            Change::Rate(new) => {
                let falls = matches!(&self.server, Server::Rate(rate) if new < rate);
                if let Server::Rate(rate) = &mut self.server {
                    if let Some((_, end)) = &mut self.service {
                        *end = rate.stretched(now, *end, *new);
                    }
                    *rate = *new;
                }
                self.context.rate = *new;
                if falls && self.link.flush {
                    self.replace(now, pool);
                }
            }
            Change::Qdisc(QdiscChange::Parameters(change)) => {
                let lost = &mut Lost { packets: &mut self.drops, pool };
                self.qdisc
                    .change(now, &change.spec, lost)
                    .map_err(|_| format!("{} takes no change of its parameters while it runs", change.spec.kind()))?;
                self.link.qdisc = change.spec.clone();
            }
            Change::Qdisc(QdiscChange::Discipline(spec)) => {
                self.link.qdisc = spec.clone();
                self.replace(now, pool);
            }
        }
        if self.qdisc.packets() > 0 && self.card.is_open() && matches!(self.server, Server::Rate(_)) {
            self.asks = Some(now);
        }
        self.report_drops(done);
        Ok(())
    }

    /// Replaces the discipline by a new one, and drops the packets in it.
    fn replace(&mut self, now: Time, pool: &Pool) {
        let gone = self.take_all(now, pool);
        self.qdisc = self.link.qdisc.build(&self.context);
        self.drops.extend(gone.into_iter().map(|packet| (packet, DropReason::Overlimit)));
    }

    /// Takes all packets out of the discipline, which releases packets that it holds back at times of its own.
    fn take_all(&mut self, now: Time, pool: &Pool) -> Vec<Packet> {
        let (mut at, mut gone) = (now, Vec::new());
        while self.qdisc.packets() > 0 && at < Time::NEVER {
            match self.qdisc.dequeue(at, &mut Lost { packets: &mut gone, pool }) {
                Some(packet) => gone.push((packet, DropReason::Overlimit)),
                None => at = self.qdisc.next_event().max(at + Span(1)),
            }
        }
        gone.into_iter().map(|(packet, _)| packet).collect()
    }

    /// Takes all packets that are in the discipline or in the card, at the end of a run.
    pub fn take_queued(&mut self, now: Time, pool: &Pool) -> Vec<Packet> {
        let mut all: Vec<Packet> = self.card.unsent_packets().copied().collect();
        all.extend(self.take_all(now, pool));
        all
    }

    /// Ends the transmission of the card's head.
    fn finish(&mut self, start: Time, now: Time, pool: &Pool, done: &mut Done) {
        let Some(&packet) = self.card.head() else { return };
        self.service = None;
        self.card.sent(now);
        self.after.sent(start, now, packet, pool, done);
        if matches!(self.server, Server::Rate(_)) {
            self.transmit(now);
        }
    }

    /// Handles the card's interrupt, if it is due.
    fn interrupt(&mut self, now: Time) {
        if self.card.next_event() <= now {
            self.card.serve(now);
        }
    }

    /// Moves packets from the discipline into the card's ring.
    fn fill(&mut self, now: Time, pool: &Pool) {
        while self.card.is_open()
            && let Some(packet) = self.qdisc.dequeue(now, &mut Lost { packets: &mut self.drops, pool })
        {
            self.card.send(packet, packet.facts.ip_bytes + ETHERNET);
        }
    }

    /// Starts the transmission of the card's head, if the link is idle.
    fn transmit(&mut self, now: Time) {
        if let (None, Some(packet), Server::Rate(rate)) = (self.service, self.card.head(), &self.server) {
            self.service = Some((now, now + rate.serialise(packet.wire)));
        }
    }

    /// Uses the delivery opportunity that is due: for the packet that is being sent, and for those after it.
    fn opportunity(&mut self, now: Time, pool: &Pool, done: &mut Done) {
        loop {
            let Server::Trace(trace) = &self.server else { return };
            if trace.time() > now {
                return;
            }
            if self.service.is_none() {
                self.interrupt(now);
                self.fill(now, pool);
                if let (Some(&packet), Server::Trace(trace)) = (self.card.head(), &mut self.server) {
                    trace.remaining = packet.wire;
                    self.service = Some((now, Time::NEVER));
                }
            }
            let Server::Trace(trace) = &mut self.server else { return };
            let Some((start, _)) = self.service else {
                trace.advance();
                continue;
            };
            let is_finished = trace.send();
            if trace.budget == 0 {
                trace.advance();
            }
            if is_finished {
                self.finish(start, now, pool, done);
            }
        }
    }

    fn report_drops(&mut self, done: &mut Done) {
        done.fates.extend(self.drops.drain(..).map(|(packet, reason)| (packet, Fate::Dropped(reason))));
    }
}
