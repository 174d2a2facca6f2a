//! The path of a packet. It is passed from station to station as long as the lines between need no event, and waits on
//! the first line that does.
//!
//! A packet is passed by a mutable reference which always holds the packet in motion: a link that starts a transmission
//! replaces an arriving packet by the one that it sends, and a receiver replaces a segment by its ACK.

use sojourn_core::units::{Span, Time};

use super::engine::Fabric;
use super::prefetch;
use super::stations::Station;
use crate::ends::Received;
use crate::hosts::Hosts;
use crate::net::{Event, Net};
use crate::packet::{DATAGRAM, Packet};
use crate::planted::{Fault, planted};
use crate::shortcuts::Target;
use crate::topology::class_of_lane;

impl Fabric {
    /// Handles a packet's arrival at a link, at the end of a line.
    pub fn line_event(&mut self, line: usize) {
        if let Some(mut packet) = self.lines[line].take(&mut self.schedules) {
            self.travel(self.lines[line].target, &mut packet);
        }
    }

    /// Handles a packet's arrival at an end host, at the end of a line.
    #[inline(always)]
    pub fn out_event(&mut self, line: usize, hosts: &mut Hosts) {
        match self.lines[line].packets.front() {
            Some(packet) if packet.is_plain_ack() => self.plain_ack_event(line, hosts),
            _ => self.other_out_event(line, hosts),
        }
    }

    /// Handles the arrival of an ACK without SACK blocks at an end host.
    #[inline(never)]
    fn plain_ack_event(&mut self, line: usize, hosts: &mut Hosts) {
        let line = &mut self.lines[line];
        let Some(packet) = line.packets.front() else { return };
        let (now, conn, ack) = (packet.time, packet.conn(), packet.ack());
        line.advance(&mut self.schedules);
        hosts.senders.acknowledge(now, conn, ack, &[], self);
    }

    /// Handles the arrival of any other packet at an end host.
    #[inline(never)]
    fn other_out_event(&mut self, line: usize, hosts: &mut Hosts) {
        let Some(mut packet) = self.lines[line].take(&mut self.schedules) else { return };
        if packet.is_for_receiver() {
            self.travel(Target::Hosts, &mut packet);
        } else {
            let options = self.ends.take_options(&packet);
            hosts.receive(packet.time, packet, &options, self);
        }
    }

    /// Passes a packet to a station, and on to further stations as long as the lines between need no event.
    #[inline(always)]
    pub fn travel(&mut self, mut target: Target, packet: &mut Packet) {
        while let Some(next) = self.visit(target, packet) {
            target = next;
        }
    }

    /// Handles a packet's arrival at a station, at or (where the short cuts allow it) ahead of the clock. `packet` is
    /// replaced by the packet that leaves the station as a result. Returns the station at which that packet arrives, if
    /// that arrival needs no event.
    #[inline(always)]
    fn visit(&mut self, target: Target, packet: &mut Packet) -> Option<Target> {
        let Target::Link(index) = target else { return self.deliver(packet) };
        match &mut self.links[index] {
            Station::Queue(..) => self.enqueue(index, packet),
            Station::Coupled(..) => self.enqueue_coupled(index, packet),
            Station::Closed(link) => match link.arrive(packet) {
                Some(at) if planted(Fault::ClosedForm) => self.leave(index, packet, at + Span(1)),
                Some(at) => self.leave(index, packet, at),
                None => {
                    self.lose(*packet);
                    None
                }
            },
        }
    }

    /// Handles an arrival at a queue. If the link is idle, a transmission starts and `packet` becomes the packet that
    /// is sent.
    #[inline(never)]
    fn enqueue(&mut self, index: usize, packet: &mut Packet) -> Option<Target> {
        let (Station::Queue(link, _) | Station::Coupled(link, _)) = &mut self.links[index] else { return None };
        let now = packet.time;
        let starts = link.arrive(now, packet);
        if !link.drops.is_empty() {
            self.settle(index, now);
        }
        if starts { self.serve(index, now, packet) } else { None }
    }

    /// Adds to [`Fabric::enqueue`] the steps of a coupled link: before it, the ACK filter gets the SACK blocks of the
    /// packet; after it, pause frames are sent.
    #[cold]
    #[inline(never)]
    fn enqueue_coupled(&mut self, index: usize, packet: &mut Packet) -> Option<Target> {
        if let Station::Coupled(link, _) = &mut self.links[index]
            && packet.has_blocks()
        {
            link.store_blocks(packet, self.ends.options(packet));
        }
        let target = self.enqueue(index, packet);
        self.send_frames(index);
        target
    }

    /// Sends a link's pause frames to the previous link.
    pub fn send_frames(&mut self, index: usize) {
        let Station::Coupled(link, _) = &mut self.links[index] else { return };
        while let Some(frame) = link.take_frame() {
            self.frames[frame.link].put(frame, &mut self.schedules);
        }
    }

    /// Handles an event of a link. If the link sends a packet, it is written to `packet`. Returns the station at which
    /// the sent packet arrives, if that arrival needs no event.
    #[inline(always)]
    pub fn serve(&mut self, index: usize, now: Time, packet: &mut Packet) -> Option<Target> {
        let (Station::Queue(link, slot) | Station::Coupled(link, slot)) = &mut self.links[index] else { return None };
        let left = link.event(now, packet);
        self.schedules.set(*slot, link.next_event());
        if !link.drops.is_empty() {
            self.settle(index, now);
        }
        self.leave(index, packet, left?)
    }

    /// Handles the drops of a link's discipline.
    #[cold]
    #[inline(never)]
    pub fn settle(&mut self, index: usize, now: Time) {
        while let Station::Queue(link, _) | Station::Coupled(link, _) = &mut self.links[index]
            && let Some(packet) = link.take_drop(now)
        {
            self.lose(packet.at(now));
        }
    }

    /// Handles the loss of a packet at `packet.time`.
    #[cold]
    fn lose(&mut self, packet: Packet) {
        self.flows[self.ends.entry(packet.conn()) as usize].dropped(packet.time);
        self.ends.lost(&packet);
    }

    /// Puts a packet that reaches the far end of a link at `at` onto the next line.
    #[inline(always)]
    fn leave(&mut self, index: usize, packet: &mut Packet, at: Time) -> Option<Target> {
        packet.time = at;
        let lane = &self.lanes[packet.lane()];
        if lane.last != index {
            return self.lines[self.after_links + index].put(packet, &mut self.schedules, self.end);
        }
        packet.time += lane.delay_out;
        if lane.fused_out && !planted(Fault::Fused) {
            if packet.time >= self.end {
                return None;
            }
            if self.batch.is_used() {
                self.collect(packet);
                return None;
            }
            return Some(Target::Hosts);
        }
        if let Some((_, down)) = lane.access {
            self.pass_access(down, packet)?;
            let out = self.lanes[packet.lane()].out;
            return self.lines[out].put(packet, &mut self.schedules, self.end);
        }
        let out = &mut self.lines[lane.out];
        if planted(Fault::Fused) && out.has_no_events() {
            packet.time += Span(1);
        }
        out.put(packet, &mut self.schedules, self.end)
    }

    /// Sends a packet from a host to the first link.
    #[inline(always)]
    pub fn enter(&mut self, packet: &mut Packet) -> Option<Target> {
        let lane = &self.lanes[packet.lane()];
        if let Some(index) = lane.fused_in {
            packet.time += lane.delay_in;
            return (packet.time < self.end).then_some(Target::Link(index));
        }
        if let Some((up, _)) = lane.access {
            self.pass_access(up, packet)?;
        }
        let lane = &self.lanes[packet.lane()];
        packet.time += lane.delay_in;
        self.lines[lane.into].put(packet, &mut self.schedules, self.end)
    }

    /// Passes a packet through an access link and sets its time to its arrival at the far end. `None` if it is dropped.
    #[inline(never)]
    fn pass_access(&mut self, index: usize, packet: &mut Packet) -> Option<()> {
        let Some(at) = self.access[index].pass(packet.time, u32::from(packet.ip_bytes())) else {
            self.lose(*packet);
            return None;
        };
        packet.time = if planted(Fault::Access) { at + Span(1) } else { at };
        Some(())
    }

    /// Collects a packet for a receiver that runs ahead.
    #[inline(never)]
    fn collect(&mut self, packet: &Packet) {
        if self.batch.push(packet, &mut self.schedules) {
            self.deliver_batch();
        }
    }

    /// Delivers a batch of packets to their receivers, and prefetches the receivers' state meanwhile.
    #[inline(never)]
    pub fn deliver_batch(&mut self) {
        let mut packets = self.batch.take();
        for at in 0..packets.len() {
            prefetch::receivers(&packets, at, &self.ends);
            self.travel(Target::Hosts, &mut packets[at]);
        }
        self.batch.clear(packets, &mut self.schedules);
    }

    /// Handles a packet's arrival at a data receiver, at or ahead of the clock. Delayed ACKs that precede it are sent
    /// first. `packet` becomes the ACK, if one is sent at once.
    #[inline(always)]
    fn deliver(&mut self, packet: &mut Packet) -> Option<Target> {
        let (now, conn, class) = (packet.time, packet.conn(), class_of_lane(packet.lane()));
        if self.delayed_acks.first() < now && !planted(Fault::DelayedAck) {
            self.send_delayed_acks(class, now);
        }
        let Received { answers, complete, closes, deadline } =
            if packet.is_data() { self.ends.receive(now, packet) } else { self.receive_other(packet) };
        for _ in 0..complete {
            self.post(now, Event::Complete(conn));
        }
        self.delayed_acks.arm(class, conn, deadline, &mut self.schedules);
        if closes {
            return self.close_after(now, conn, answers.then_some(*packet));
        }
        if answers { self.enter(packet) } else { None }
    }

    /// Sends the FIN of a receiver that closes, after the last ACK, if one is sent at once.
    #[cold]
    #[inline(never)]
    fn close_after(&mut self, now: Time, conn: u32, ack: Option<Packet>) -> Option<Target> {
        ack.into_iter().for_each(|ack| self.emit(ack));
        self.close(now, conn);
        None
    }

    /// Handles the arrival of a packet without data at a data receiver.
    #[inline(always)]
    fn receive_other(&mut self, packet: &mut Packet) -> Received {
        if packet.code() == DATAGRAM {
            self.receive_datagram(*packet);
            return Received { answers: false, complete: 0, closes: false, deadline: Time::NEVER };
        }
        let (received, answer) = self.ends.receive_other(packet.time, *packet);
        *packet = answer;
        received
    }

    /// Handles the arrival of a datagram at its receiver. (The packet is passed by value: with its address taken, every
    /// packet would have to be kept in memory instead of registers.)
    #[cold]
    #[inline(never)]
    fn receive_datagram(&mut self, packet: Packet) {
        let entry = self.ends.entry(packet.conn());
        self.flows[entry as usize].received_datagram(packet.time, packet.sent(), packet.seq());
    }
}
