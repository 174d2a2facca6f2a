//! A link whose discipline and rate are the kernel's own: its packets take a detour through `htb` and the discipline on a
//! device, and come back stamped.
//!
//! This module is pure; `engine` gives the packets to the kernel, and passes their returns. A packet has a number, which
//! travels in the address of its frame. `htb` releases a packet at the start of its transmission time, as the kernel
//! world assumes too, so that the transmission, the impairments and the delay follow here.
//!
//! The kernel tells the drop of a packet that it refuses on arrival. Other drops are inferred: no discipline reorders the
//! packets of one flow, so that the return of a packet proves that all before it in its flow were dropped. When the kernel
//! holds no packet of a link, all that have not come back were dropped.

use std::collections::{BTreeMap, HashMap, VecDeque};

use sojourn_core::packet::Packet as _;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::scenario::{Capacity, Link, QdiscChange};

use crate::hop::{After, Change, Done, Fate};
use crate::packet::{Packet, Pool};

/// The numbers of packets: five bytes of an address.
const NUMBERS: u64 = 1 << 40;
/// The first byte of a frame's destination: an address that is local and belongs to one host.
const LOCAL: u8 = 0x02;
/// Bytes of the two addresses of a frame.
const ADDRESSES: usize = 12;

/// Writes the number of a packet into the addresses of its frame.
pub fn address(frame: &mut [u8], number: u64) {
    frame[..ADDRESSES].fill(0);
    frame[0] = LOCAL;
    frame[1..6].copy_from_slice(&number.to_be_bytes()[3..]);
    frame[6] = LOCAL;
}

/// Returns the number of a frame's packet; `None` if the frame is not ours.
pub fn number(frame: &[u8]) -> Option<u64> {
    let [LOCAL, a, b, c, d, e, LOCAL, 0, 0, 0, 0, 0] = *frame.first_chunk::<ADDRESSES>()? else { return None };
    Some(u64::from_be_bytes([0, 0, 0, a, b, c, d, e]))
}

/// Everything by which a discipline may tell flows apart: hosts, ports, protocol, DSCP and ECN field on arrival, and the
/// flow label of IPv6.
type Flow = ([u32; 2], [u16; 2], u8, u8, Option<u32>);

/// The packets that are in the kernel, and their order in each flow.
struct Ledger<F, P> {
    next: u64,
    held: BTreeMap<u64, (F, P)>,
    flows: HashMap<F, VecDeque<u64>>,
}

impl<F: Copy + Eq + std::hash::Hash, P> Ledger<F, P> {
    fn new() -> Ledger<F, P> {
        Ledger { next: 0, held: BTreeMap::new(), flows: HashMap::new() }
    }

    /// Adds a packet, the last one of its flow. Returns its number.
    fn put(&mut self, flow: F, packet: P) -> u64 {
        let number = self.next;
        self.next = (self.next + 1) % NUMBERS;
        self.held.insert(number, (flow, packet));
        self.flows.entry(flow).or_default().push_back(number);
        number
    }

    /// Takes a packet that was dropped: one that the kernel has refused, or one that is not in the kernel any more. Behind
    /// one that was refused, a flow has only packets that were not given yet.
    fn dropped(&mut self, number: u64) -> Option<P> {
        let (flow, packet) = self.held.remove(&number)?;
        if let Some(numbers) = self.flows.get_mut(&flow)
            && let Some(place) = numbers.iter().rposition(|one| *one == number)
        {
            numbers.remove(place);
        }
        self.forget_if_empty(flow);
        Some(packet)
    }

    /// Takes all packets with numbers below `end`, which were dropped.
    fn dropped_before(&mut self, end: u64) -> Vec<P> {
        let numbers: Vec<u64> = self.held.range(..end).map(|(number, _)| *number).collect();
        numbers.into_iter().filter_map(|number| self.dropped(number)).collect()
    }

    /// Takes a packet that has come back, and those before it in its flow, which were dropped. `None` if it is not held.
    fn returned(&mut self, number: u64) -> Option<(P, Vec<P>)> {
        let (flow, packet) = self.held.remove(&number)?;
        let mut dropped = Vec::new();
        while let Some(one) = self.flows.get_mut(&flow).and_then(VecDeque::pop_front) {
            if one == number {
                break;
            }
            dropped.extend(self.held.remove(&one).map(|(_, packet)| packet));
        }
        self.forget_if_empty(flow);
        Some((packet, dropped))
    }

    fn forget_if_empty(&mut self, flow: F) {
        if self.flows.get(&flow).is_some_and(VecDeque::is_empty) {
            self.flows.remove(&flow);
        }
    }

    /// Takes all packets, in the order of their arrival.
    fn take(&mut self) -> Vec<P> {
        self.flows.clear();
        std::mem::take(&mut self.held).into_values().map(|(_, packet)| packet).collect()
    }
}

/// The kernel's counters at a device's root, at the end of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counted {
    /// Packets that have left.
    pub packets: u64,
    /// Packets in the queue.
    pub qlen: u64,
    /// Packets that were dropped.
    pub drops: u64,
}

/// The state of a link.
pub struct Detour {
    link: Link,
    rate: Rate,
    ledger: Ledger<Flow, Packet>,
    backlog: u64,
    /// The numbers of packets that are to be given to the kernel.
    to_give: VecDeque<u64>,
    /// Packets in transmission, with start and end.
    sending: VecDeque<(Packet, Time, Time)>,
    after: After,
    returned: u64,
    /// Packets that came back although they counted as dropped.
    strays: u64,
    last_return: Time,
}

impl Detour {
    /// Creates an idle link. Its capacity must not be a trace. `seed` is that of the impairments.
    pub fn new(link: &Link, seed: u64) -> Detour {
        let rate = match &link.rate {
            Capacity::Steps(steps) => steps[0].1,
            Capacity::Trace(trace) => trace.mean_rate(),
        };
        Detour {
            rate,
            ledger: Ledger::new(),
            backlog: 0,
            to_give: VecDeque::new(),
            sending: VecDeque::new(),
            after: After::new(link, seed),
            returned: 0,
            strays: 0,
            last_return: Time::ZERO,
            link: link.clone(),
        }
    }

    /// Time of the next [`Detour::event`].
    pub fn next_event(&self) -> Time {
        self.sending.front().map_or(Time::NEVER, |sending| sending.2).min(self.after.next_event())
    }

    /// Number of packets in the kernel, among them those whose drop is not known yet.
    pub fn waiting(&self) -> usize {
        self.ledger.held.len()
    }

    /// The bytes of these packets.
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// The present rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The present delay after the link.
    pub fn delay(&self) -> Span {
        self.after.delay()
    }

    /// The link as the scenario has it, with the changes so far.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Handles an arrival: the packet is to be given to the kernel.
    pub fn arrive(&mut self, now: Time, mut packet: Packet) {
        packet.wire = self.link.wire_bytes(packet.facts.ip_bytes);
        packet.ecn_in = packet.ecn();
        packet.arrival = now;
        self.backlog += u64::from(packet.wire);
        let facts = &packet.facts;
        let flow = (facts.hosts, facts.ports, facts.protocol, facts.tos, facts.label);
        self.to_give.push_back(self.ledger.put(flow, packet));
    }

    /// Takes the next packet that is to be given to the kernel.
    pub fn next_given(&mut self) -> Option<(u64, Packet)> {
        let number = self.to_give.pop_front()?;
        self.ledger.held.get(&number).map(|(_, packet)| (number, *packet))
    }

    /// A packet was given to the kernel at `at`, which is its arrival. `is_taken` is false if the kernel dropped it.
    pub fn given(&mut self, number: u64, at: Time, is_taken: bool, done: &mut Done) {
        if let Some((_, packet)) = self.ledger.held.get_mut(&number) {
            packet.arrival = at;
        }
        if !is_taken && let Some(packet) = self.ledger.dropped(number) {
            self.backlog -= u64::from(packet.wire);
            done.fates.push((packet, Fate::Unexplained));
        }
    }

    /// Returns the time of a packet's return, with the stamp `at`. Returns are in order, although the clock of the stamps
    /// may be set.
    pub fn return_time(&mut self, at: Time) -> Time {
        self.last_return = self.last_return.max(at);
        self.last_return
    }

    /// A packet has come back with this DSCP and ECN field: its transmission begins now.
    pub fn returned(&mut self, now: Time, number: u64, tos: u8, done: &mut Done) {
        let Some((mut packet, dropped)) = self.ledger.returned(number) else {
            self.strays += 1;
            return;
        };
        self.returned += 1;
        for packet in std::iter::once(&packet).chain(&dropped) {
            self.backlog -= u64::from(packet.wire);
        }
        done.fates.extend(dropped.into_iter().map(|packet| (packet, Fate::Unexplained)));
        packet.facts.tos = tos;
        let last = self.sending.back().map_or(Time::ZERO, |sending| sending.2);
        self.sending.push_back((packet, now, (now + self.rate.serialise(packet.wire)).max(last)));
    }

    /// The number of the next packet that the kernel gets.
    pub fn next_number(&self) -> u64 {
        self.to_give.front().copied().unwrap_or(self.ledger.next)
    }

    /// None of the packets with numbers below `end` is in the kernel: those that are still held were dropped.
    pub fn emptied(&mut self, end: u64, done: &mut Done) {
        for packet in self.ledger.dropped_before(end) {
            self.backlog -= u64::from(packet.wire);
            done.fates.push((packet, Fate::Unexplained));
        }
    }

    /// The number of packets that came back although they counted as dropped. There are none, unless a discipline tells
    /// flows apart by more than is known here.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Handles everything that is due at `now`.
    pub fn event(&mut self, now: Time, pool: &Pool, done: &mut Done) {
        while self.sending.front().is_some_and(|sending| sending.2 <= now) {
            let Some((packet, start, end)) = self.sending.pop_front() else { break };
            self.after.sent(start, end, packet, pool, done);
        }
        self.after.release(now, done);
    }

    /// Makes a change. Rate and discipline change in the kernel too, which is not done here.
    pub fn change(&mut self, change: &Change) {
        match change {
            Change::Rate(rate) => self.rate = *rate,
            Change::Delay(delay) => self.after.set_delay(*delay),
            Change::Qdisc(QdiscChange::Parameters(change)) => self.link.qdisc = change.spec.clone(),
            Change::Qdisc(QdiscChange::Discipline(spec)) => self.link.qdisc = spec.clone(),
        }
    }

    /// Ends the run. Returns the packets that were queued at its end, and those that were dropped.
    ///
    /// `late` are the numbers of packets that came back after the end. The kernel's count says how many others were queued:
    /// these are the newest ones.
    pub fn finish(&mut self, counted: Counted, late: &[u64]) -> [Vec<Packet>; 2] {
        let mut queued: Vec<Packet> = self.sending.drain(..).map(|(packet, ..)| packet).collect();
        let mut dropped = Vec::new();
        for number in late {
            let Some((packet, before)) = self.ledger.returned(*number) else {
                self.strays += 1;
                continue;
            };
            self.returned += 1;
            queued.push(packet);
            dropped.extend(before);
        }
        let known = self.returned.saturating_sub(counted.packets);
        let mut rest = self.ledger.take();
        // Those that came back after the kernel had counted were in its queue then.
        let more = counted.qlen.saturating_sub(known) as usize;
        queued.extend(rest.split_off(rest.len().saturating_sub(more)));
        dropped.extend(rest);
        [queued, dropped]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::tcp;
    use crate::frame::{self, Facts};
    use proptest::prelude::*;
    use sojourn_model::plan::{LoadOptions, Plan};

    /// An event at the model's queues: an arrival in a flow, which the queue takes or refuses; the drop of a packet
    /// in a flow's queue, at a place in it; the return of a flow's head.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Arrive { flow: u8, is_taken: bool },
        Drop { flow: u8, place: usize },
        Return { flow: u8 },
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let one = prop_oneof![
            4 => (0..5u8, prop::bool::weighted(0.9)).prop_map(|(flow, is_taken)| Act::Arrive { flow, is_taken }),
            1 => (0..5u8, 0..9usize).prop_map(|(flow, place)| Act::Drop { flow, place }),
            2 => (0..5u8).prop_map(|flow| Act::Return { flow }),
        ];
        proptest::collection::vec(one, 0..400)
    }

    /// A kernel whose flows have a FIFO each. Packets are known by their arrival's number.
    #[derive(Default)]
    struct Model {
        queues: HashMap<u8, VecDeque<u64>>,
        arrived: u64,
        delivered: Vec<u64>,
        dropped: Vec<u64>,
    }

    proptest! {
        #[test]
        fn all_drops_and_returns_are_recovered_whatever_the_interleaving(acts in acts()) {
            let (mut model, mut ledger) = (Model::default(), Ledger::<u8, u64>::new());
            let (mut delivered, mut dropped, mut refused) = (Vec::new(), Vec::new(), Vec::new());
            let mut come_back = |ledger: &mut Ledger<u8, u64>, number| {
                let (packet, before) = ledger.returned(number).expect("a packet that is held");
                delivered.push(packet);
                dropped.extend(before);
            };
            for act in acts {
                match act {
                    Act::Arrive { flow, is_taken } => {
                        let packet = model.arrived;
                        model.arrived += 1;
                        let number = ledger.put(flow, packet);
                        if is_taken {
                            model.queues.entry(flow).or_default().push_back(number);
                        } else {
                            model.dropped.push(packet);
                            refused.extend(ledger.dropped(number));
                        }
                    }
                    Act::Drop { flow, place } => {
                        let queue = model.queues.entry(flow).or_default();
                        if place < queue.len() {
                            model.dropped.extend(queue.remove(place));
                        }
                    }
                    Act::Return { flow } => {
                        if let Some(number) = model.queues.entry(flow).or_default().pop_front() {
                            model.delivered.push(number);
                            come_back(&mut ledger, number);
                        }
                    }
                }
            }
            // The queues are emptied at the end of a run.
            for queue in model.queues.values_mut() {
                for number in queue.drain(..) {
                    model.delivered.push(number);
                    come_back(&mut ledger, number);
                }
            }
            // No later packet has shown the drops of these.
            dropped.extend(ledger.take());
            dropped.extend(refused);
            dropped.sort_unstable();
            model.dropped.sort_unstable();
            prop_assert_eq!(dropped, model.dropped);
            prop_assert_eq!(delivered, model.delivered);
            prop_assert!(ledger.flows.is_empty() && ledger.held.is_empty());
            prop_assert_eq!(ledger.returned(0), None);
        }

        #[test]
        fn a_number_travels_in_the_addresses_and_no_other_frame_has_one(number in 0..NUMBERS, other: [u8; 12]) {
            let mut frame = tcp([1, 2], [3, 4], 5, 6, 16, 9, 1);
            address(&mut frame, number);
            prop_assert_eq!(super::number(&frame), Some(number));
            prop_assert_eq!(frame::read(&frame).map(|facts| facts.payload), Some(9));
            let is_ours = other[0] == LOCAL && other[6] == LOCAL && other[7..] == [0; 5];
            prop_assert_eq!(super::number(&other).is_some(), is_ours);
        }
    }

    fn detour() -> Detour {
        let text = "duration = \"9s\"\n[[hop]]\nrate = \"8mbit\"\noverhead = 0\ndelay = \"1ms\"\nqdisc = \"codel\"\n\
                    [[flow]]\nkind = \"bulk\"\nrtt = \"40ms\"\n";
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        Detour::new(plan.scenario(0).expect("a sound run").link(0), 0)
    }

    /// A packet of 1000 bytes at 8 Mbit/s, which takes a millisecond.
    fn packet(port: u16) -> Packet {
        let facts = Facts { ip_bytes: 1000, ports: [port, 0], tos: 2, ..Facts::default() };
        Pool::default().put(&[], facts, 0)
    }

    fn ports(packets: &[Packet]) -> Vec<u16> {
        packets.iter().map(|packet| packet.facts.ports[0]).collect()
    }

    #[test]
    fn a_packet_that_comes_back_starts_its_transmission_then_and_may_be_marked() {
        let (mut detour, mut done, pool) = (detour(), Done::default(), Pool::default());
        detour.arrive(Time(1_000), packet(1));
        let (number, _) = detour.next_given().expect("a packet");
        detour.given(number, Time(1_500), true, &mut done);
        assert_eq!((detour.waiting(), detour.backlog(), detour.next_event()), (1, 1000, Time::NEVER));
        detour.returned(Time(500_000), number, 3, &mut done);
        assert_eq!((detour.waiting(), detour.backlog(), detour.next_event()), (0, 0, Time(1_500_000)));
        detour.event(Time(1_500_000), &pool, &mut done);
        let [(sent, Fate::Sent { start, end })] = done.fates[..] else { panic!("{:?}", done.fates) };
        assert_eq!((sent.arrival, start, end, sent.facts.tos), (Time(1_500), Time(500_000), Time(1_500_000), 3));
        assert_eq!(done.left[0].1, Time(2_500_000));
    }

    #[test]
    fn what_the_kernel_refuses_and_what_a_later_packet_has_overtaken_is_dropped() {
        let (mut detour, mut done) = (detour(), Done::default());
        for (place, port) in [1, 2, 1, 1].into_iter().enumerate() {
            detour.arrive(Time(0), packet(port));
            let (number, _) = detour.next_given().expect("a packet");
            detour.given(number, Time(place as u64), place != 3, &mut done);
        }
        let fates = |done: &Done| {
            let all = done.fates.iter().map(|(packet, fate)| (packet.arrival.0, matches!(fate, Fate::Unexplained)));
            all.collect::<Vec<_>>()
        };
        assert_eq!(fates(&done), [(3, true)]);
        detour.returned(Time(50), 2, 2, &mut done);
        assert_eq!(fates(&done), [(3, true), (0, true)], "the first packet of the same flow");
        assert_eq!(detour.waiting(), 1, "the other flow's");
        assert_eq!([7, 5, 9].map(|at| detour.return_time(Time(at)).0), [7, 7, 9]);
    }

    /// Gives packets to the kernel, which takes them.
    fn given(detour: &mut Detour, packets: impl IntoIterator<Item = Packet>) {
        for packet in packets {
            detour.arrive(Time(0), packet);
            let (number, _) = detour.next_given().expect("a packet");
            detour.given(number, Time(0), true, &mut Done::default());
        }
    }

    #[test]
    fn packets_that_a_discipline_may_tell_apart_do_not_overtake() {
        let (mut detour, mut done) = (detour(), Done::default());
        let labels = [None, Some(0), Some(7), Some(8)];
        let labelled = labels.map(|label| {
            let mut packet = packet(1);
            packet.facts.label = label;
            packet
        });
        given(&mut detour, labelled);
        for number in [3, 2, 1, 0] {
            detour.returned(Time(50), number, 2, &mut done);
        }
        assert_eq!((done.fates.len(), detour.waiting(), detour.strays()), (0, 0, 0));
    }

    #[test]
    fn a_packet_that_comes_back_after_it_counted_as_dropped_is_a_stray() {
        let (mut detour, mut done) = (detour(), Done::default());
        given(&mut detour, [1, 1, 1].map(packet));
        detour.returned(Time(50), 1, 2, &mut done);
        detour.returned(Time(60), 0, 2, &mut done);
        assert_eq!(detour.strays(), 1);
        let [queued, _] = detour.finish(Counted { packets: 1, qlen: 1, drops: 1 }, &[0, 2]);
        assert_eq!((queued.len(), detour.strays()), (2, 2), "the one in transmission, and the last");
    }

    #[test]
    fn what_an_empty_kernel_has_not_given_back_was_dropped() {
        let (mut detour, mut done) = (detour(), Done::default());
        given(&mut detour, [1, 2, 1, 3].map(packet));
        detour.arrive(Time(10), packet(3));
        let end = detour.next_number();
        detour.returned(Time(50), 0, 2, &mut done);
        detour.emptied(end, &mut done);
        let dropped: Vec<u16> = done.fates.iter().map(|(packet, _)| packet.facts.ports[0]).collect();
        assert_eq!((end, dropped), (4, vec![2, 1, 3]));
        assert_eq!((detour.waiting(), detour.backlog()), (1, 1000), "the one that the kernel has not got yet");
        assert_eq!(detour.next_given().map(|(number, _)| number), Some(4));
    }

    #[test]
    fn at_the_end_the_kernels_counters_say_how_many_were_queued() {
        let (mut detour, mut done) = (detour(), Done::default());
        for port in 1..=6 {
            detour.arrive(Time(0), packet(port));
            let (number, _) = detour.next_given().expect("a packet");
            detour.given(number, Time(port.into()), true, &mut done);
        }
        // One has left, one comes back later, and one more is in the queue; three were dropped.
        detour.returned(Time(50), 0, 2, &mut done);
        let counted = Counted { packets: 1, qlen: 2, drops: 3 };
        let [queued, dropped] = detour.finish(counted, &[1]);
        assert_eq!((ports(&queued), ports(&dropped)), (vec![1, 2, 6], vec![3, 4, 5]));
    }
}
