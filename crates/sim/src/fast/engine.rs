//! The state of the fast engine, and its loop: take the earliest event of the schedule, dispatch it by its source, and
//! enter the source's next event in the schedule.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use sojourn_core::access::AccessLink;
use sojourn_core::tcp::Config;
use sojourn_core::units::{Span, Time};
use sojourn_measure::FlowMeter;

use super::delayed_acks::DelayedAcks;
use super::lines::{LaneEnds, Line};
use super::prefetch::{self, Batch};
use super::stations::{Frames, Station};
use crate::ends::Ends;
use crate::hosts::Hosts;
use crate::net::{Event, Net};
use crate::packet::Packet;
use crate::planted::{Fault, planted};
use crate::schedule::{Schedules, Slot};
use crate::timers::Timers;
use crate::topology::{Change, class_of_lane};
use crate::{Options, Stopped};

/// The kinds of event sources.
#[derive(Clone, Copy)]
pub enum Source {
    /// A change of a link's rate, delay or discipline.
    Changes,
    /// A packet arrives at a link, at the end of this line.
    Into(usize),
    /// A packet arrives at an end host, at the end of this line.
    Out(usize),
    /// Like `Out`, with prefetching.
    PrefetchOut(usize),
    /// A pause frame arrives at this link.
    Frame(usize),
    /// An event of a link, such as the end of a transmission.
    Link(usize),
    /// Like `Link`, with prefetching.
    PrefetchLink(usize),
    /// Like `Link`, with flow control.
    CoupledLink(usize),
    /// Delivery of the packets collected for receivers.
    Batch,
    /// The first delayed ACK of a class.
    DelayedAck(usize),
    /// The first retransmission timer.
    Senders,
    /// The first event of the applications.
    Apps,
    /// A run of a group that runs ahead of the clock. It is due no later than the group's first event.
    Group(usize),
}

/// Everything between the data senders: links, lines, receivers and schedules.
pub struct Fabric {
    /// The event source of each rank.
    pub sources: Vec<Source>,
    /// The time of the next event of each source.
    pub schedules: Schedules,
    /// Lookahead of each group.
    pub lookahead: Vec<Span>,
    /// How packets enter and leave each lane.
    pub lanes: Vec<LaneEnds>,
    /// Lines into and out of the lanes, followed by the lines from each link to the next.
    pub lines: Vec<Line>,
    /// Index of the first line from a link to the next.
    pub after_links: usize,
    /// All links, two per hop.
    pub links: Vec<Station>,
    /// Pause frames in flight to each link.
    pub frames: Vec<Frames>,
    /// Changes of links that are to come, in order of time and then of link.
    pub changes: VecDeque<(Time, usize, Change)>,
    pub changes_slot: Slot,
    /// The access links of the hosts.
    pub access: Vec<AccessLink>,
    /// The data receivers and their timers.
    pub ends: Ends,
    pub delayed_acks: DelayedAcks,
    /// Packets for receivers that run ahead, which are delivered in batches if the flows are many.
    pub batch: Batch,
    /// Retransmission timers of the data senders.
    pub senders: Timers,
    pub senders_slot: Slot,
    /// Events of the applications.
    pub apps: BinaryHeap<Reverse<(Time, Event)>>,
    pub apps_slot: Slot,
    /// Number of connections from which the state that timers need is prefetched.
    pub crowd: usize,
    /// Number of events of links so far, counted only with prefetching.
    pub served: usize,
    /// The meters of the rows.
    pub flows: Vec<FlowMeter>,
    /// The end of the run.
    pub end: Time,
}

impl Fabric {
    /// Starts the applications and handles all events before the end of the run. Returns the number of events.
    pub fn play(&mut self, options: &Options, hosts: &mut Hosts) -> Result<u64, Stopped> {
        hosts.start(self);
        self.links.iter().for_each(|station| station.reschedule(&mut self.schedules));
        self.schedules.set(self.changes_slot, self.next_change());
        let mut events = 0u64;
        // Progress is reported a thousand times per run. A single comparison detects these times and the end of the run.
        let interval = Span(self.end.0 / 1000 + 1);
        let mut pause = (Time::ZERO + interval).min(self.end);
        let mut next = self.schedules.first();
        loop {
            let (source, now) = next;
            if now >= pause {
                if now >= self.end {
                    return Ok(events);
                }
                options.report(now)?;
                pause = (now + interval).min(self.end);
            }
            events += 1;
            match self.sources[source] {
                Source::Link(link) => {
                    next = self.link_events::<false>(link, next, pause, &mut events);
                    continue;
                }
                Source::PrefetchLink(link) => {
                    next = self.link_events::<true>(link, next, pause, &mut events);
                    continue;
                }
                // The group's entry in the schedule is not an event itself.
                Source::Group(group) => events = events + self.run_ahead(group, now, hosts) - 1,
                Source::Changes => self.change_event(),
                other => self.event(other, now, hosts),
            }
            next = self.schedules.first();
        }
    }

    /// Handles the events of a group from `now` until the earliest time at which an event elsewhere could affect it, but
    /// before the next change of a link. Returns their number, which is 0 if the group's first event was postponed after
    /// it was scheduled.
    #[inline(never)]
    fn run_ahead(&mut self, group: usize, now: Time, hosts: &mut Hosts) -> u64 {
        let lookahead = if planted(Fault::Ahead) { self.lookahead[group].0 * 3 } else { self.lookahead[group].0 };
        let horizon = (now + Span(lookahead)).min(self.next_change()).min(self.end);
        let mut packet = Packet::default();
        let mut events = 0;
        self.schedules.begin(group);
        loop {
            let (source, now) = self.schedules.first_of(group);
            if now >= horizon {
                break;
            }
            events += 1;
            match self.sources[source] {
                Source::Link(index) => self.link_event::<false>(index, now, &mut packet),
                Source::PrefetchLink(index) => self.link_event::<true>(index, now, &mut packet),
                other => self.event(other, now, hosts),
            }
        }
        self.schedules.end(group);
        events
    }

    /// Dispatches every event source except links without flow control, link changes and groups. Used by the main loop and by
    /// [`Fabric::run_ahead`].
    #[inline(always)]
    fn event(&mut self, source: Source, now: Time, hosts: &mut Hosts) {
        match source {
            Source::Into(line) => self.line_event(line),
            Source::Out(line) => self.out_event(line, hosts),
            Source::PrefetchOut(line) => {
                prefetch::arrivals(&self.lines[line].packets, &hosts.senders, &self.ends, &self.flows);
                self.out_event(line, hosts);
            }
            Source::CoupledLink(link) => self.coupled_link_event(link, now),
            Source::Frame(link) => self.frame_event(link),
            Source::Batch => self.deliver_batch(),
            Source::DelayedAck(class) => self.delayed_ack_event(class),
            Source::Senders => self.sender_event(hosts),
            Source::Apps => self.app_event(hosts),
            Source::Changes | Source::Link(_) | Source::PrefetchLink(_) | Source::Group(_) => {}
        }
    }

    /// Handles an event of a link, which is `event` in the schedule, and the link's following events as long as they
    /// are the first in the schedule and before `pause`. Returns the schedule's first entry afterwards.
    #[inline(never)]
    fn link_events<const PREFETCH: bool>(
        &mut self,
        index: usize,
        event: (usize, Time),
        pause: Time,
        events: &mut u64,
    ) -> (usize, Time) {
        let (source, mut now) = event;
        let mut packet = Packet::default();
        loop {
            self.link_event::<PREFETCH>(index, now, &mut packet);
            let next = self.schedules.first();
            if next.0 != source || next.1 >= pause {
                return next;
            }
            now = next.1;
            *events += 1;
        }
    }

    /// Handles an event of a link. With `PREFETCH`, the flows that the link serves next are prefetched.
    #[inline(always)]
    fn link_event<const PREFETCH: bool>(&mut self, index: usize, now: Time, packet: &mut Packet) {
        if let Some(target) = self.serve(index, now, packet) {
            self.travel(target, packet);
        }
        if PREFETCH {
            self.served += 1;
            if self.served.is_multiple_of(prefetch::FAR)
                && let Station::Queue(link, _) = &self.links[index]
            {
                prefetch::departures(link, &self.delayed_acks, &self.ends);
            }
        }
    }

    /// Handles an event of a link with flow control, and sends its pause frames.
    #[cold]
    #[inline(never)]
    fn coupled_link_event(&mut self, index: usize, now: Time) {
        self.link_event::<false>(index, now, &mut Packet::default());
        self.send_frames(index);
    }

    /// Handles the arrival of a pause frame.
    fn frame_event(&mut self, index: usize) {
        let frame = self.frames[index].take(&mut self.schedules);
        if let (Some(frame), Station::Coupled(link, _)) = (frame, &mut self.links[index]) {
            link.receive(frame.at, frame.stop);
        }
        self.links[index].reschedule(&mut self.schedules);
    }

    /// Handles the next change of a link.
    fn change_event(&mut self) {
        let Some((now, index, change)) = self.changes.pop_front() else { return };
        self.schedules.set(self.changes_slot, self.next_change());
        if let Station::Queue(link, _) | Station::Coupled(link, _) = &mut self.links[index] {
            link.change(now, change);
        }
        self.send_frames(index);
        self.settle(index, now);
        self.links[index].reschedule(&mut self.schedules);
    }

    fn next_change(&self) -> Time {
        self.changes.front().map_or(Time::NEVER, |change| change.0)
    }

    /// Handles the first delayed ACK of a class.
    #[cold]
    #[inline(never)]
    fn delayed_ack_event(&mut self, class: usize) {
        self.expire_delayed_ack(class);
        self.delayed_acks.reschedule(class, &mut self.schedules);
    }

    /// Sends the delayed ACKs of a class that are due before `now`.
    #[cold]
    #[inline(never)]
    pub fn send_delayed_acks(&mut self, class: usize, now: Time) {
        while self.delayed_acks.first_of(class) < now {
            self.expire_delayed_ack(class);
        }
        self.delayed_acks.reschedule(class, &mut self.schedules);
    }

    #[inline]
    fn expire_delayed_ack(&mut self, class: usize) {
        let prefetches = self.has_crowd();
        if let Some(ack) = self.delayed_acks.expire(class, &mut self.ends, prefetches) {
            self.emit_rarely(ack);
        }
    }

    /// Like [`Net::emit`], for callers that rarely send a packet.
    #[inline(never)]
    fn emit_rarely(&mut self, packet: Packet) {
        self.emit(packet);
    }

    /// Handles the first retransmission timer.
    fn sender_event(&mut self, hosts: &mut Hosts) {
        if let Some((at, conn)) = self.senders.due() {
            if hosts.senders.deadline(conn) <= at {
                hosts.senders.on_timer(at, conn, self);
            }
            self.senders.rearm(conn, hosts.senders.next_deadline(conn));
            // Under overload most events are timers, in direct succession.
            if self.has_crowd()
                && let Some((_, conn)) = self.senders.due()
            {
                hosts.senders.prefetch(conn, true);
            }
        }
        self.reschedule_senders();
    }

    #[inline(never)]
    fn reschedule_senders(&mut self) {
        self.schedules.set(self.senders_slot, self.senders.first());
    }

    /// Returns whether the state of the connections exceeds a core's caches.
    #[inline]
    fn has_crowd(&self) -> bool {
        self.delayed_acks.connections() >= self.crowd
    }

    /// Handles the first event of the applications.
    fn app_event(&mut self, hosts: &mut Hosts) {
        if let Some(Reverse((at, event))) = self.apps.pop() {
            self.reschedule_apps();
            hosts.act(at, event, self);
        }
    }

    fn reschedule_apps(&mut self) {
        self.schedules.set(self.apps_slot, self.apps.peek().map_or(Time::NEVER, |&Reverse((at, _))| at));
    }
}

impl Net for Fabric {
    #[inline(always)]
    fn emit(&mut self, mut packet: Packet) {
        if let Some(target) = self.enter(&mut packet) {
            self.travel(target, &mut packet);
        }
    }

    /// If the first link is busy and receives packets without an event, it enqueues all of them at once.
    #[inline(always)]
    fn emit_run(&mut self, packet: Packet, numbers: Range<u32>, make: impl Fn(Packet, u32) -> Packet) {
        let lane = &self.lanes[packet.lane()];
        if let Some(index) = lane.fused_in
            && let Station::Queue(link, _) = &mut self.links[index]
            && link.is_busy()
        {
            let at = packet.time;
            link.arrive_in_run(at, packet, numbers, make);
            if !link.drops.is_empty() {
                self.settle(index, at);
            }
            return;
        }
        for number in numbers {
            self.emit(make(packet, number));
        }
    }

    #[inline]
    fn meter(&mut self, entry: u32) -> &mut FlowMeter {
        &mut self.flows[entry as usize]
    }

    #[inline(never)]
    fn post(&mut self, at: Time, event: Event) {
        self.apps.push(Reverse((at, event)));
        self.reschedule_apps();
    }

    #[inline(always)]
    fn arm(&mut self, conn: u32, deadline: Time, armed: &mut Time) {
        if deadline >= *armed || (planted(Fault::LazyTimer) && *armed != Time::NEVER) {
            return;
        }
        *armed = deadline;
        if self.senders.arm(conn, deadline) {
            self.reschedule_senders();
        }
    }

    fn open(&mut self, config: &Config, full: &Packet, entry: u32) {
        self.delayed_acks.open(class_of_lane(full.lane()));
        self.ends.open(config, full, entry);
    }

    fn expect(&mut self, conn: u32, target: u32, closes: bool) {
        self.ends.expect(conn, target, closes);
    }

    fn close(&mut self, now: Time, conn: u32) {
        let fin = self.ends.closing(now, conn);
        self.emit(fin);
    }

    fn handshake_rtt(&self, conn: u32) -> Option<Span> {
        self.ends.handshake_rtt(conn)
    }
}
