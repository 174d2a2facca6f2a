//! Assigns packets to flows and connections by host address and port, and to segments by the connection's initial
//! sequence number. All packets between the hosts of a program of the user's are its own.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::DropReason;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::records::{Fate, Kind, PacketRecord};
use sojourn_model::scenario::{Capacity, Scenario};
use sojourn_model::workload::App;

use super::time;
use crate::flows::played::Played;
use crate::flows::{FIRST_PORT, SERVICE};
use crate::job::{LinkKind, Mode};
use crate::probe::{self, Packet, Record};
use crate::topology;

const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
const ICMP: u8 = 1;
/// A change of a discipline may drop packets. Linux frees them when `tc` has finished, at most this long after the
/// change.
const CHANGE: Span = Span::from_millis(1);

// Numbers of the kernel's enum qdisc_drop_reason (Linux 7.1 and later).
const GENERIC: u16 = 1;
const OVERLIMIT: u16 = 2;
const CONGESTED: u16 = 3;
const MAXFLOWS: u16 = 4;
const FLOOD_PROTECTION: u16 = 5;
const BAND_LIMIT: u16 = 6;
const FLOW_LIMIT: u16 = 8;

/// State of a connection while its packets are visited in order.
#[derive(Clone, Default)]
struct Known {
    /// Initial sequence numbers of the opener and the accepter.
    isn: [Option<u32>; 2],
    /// The highest sequence number sent so far, by link and by side.
    high: Box<[[u32; 2]]>,
    /// The segments that were lost, or were retransmitted at some link, by side.
    again: [Vec<u32>; 2],
}

/// A connection of an entry: the opener's port, the time of opening, and its number.
#[derive(Clone, Copy)]
struct Opened {
    port: u16,
    at: u64,
    number: u32,
}

/// The flow and the connection of a packet.
#[derive(Clone, Copy)]
struct Owner {
    entry: u32,
    connection: u32,
    /// The sender: 0 for the opener, 1 for the accepter.
    side: usize,
}

/// Assigns packets to flows and connections, in order of their arrivals.
pub struct Tracker<'a> {
    scenario: &'a Scenario,
    mode: Mode,
    origin: u64,
    /// The connections of each entry, sorted by port and then by time of opening.
    opened: Vec<Vec<Opened>>,
    known: Vec<Known>,
    /// The last connection of a program's row between these hosts and ports, with the lower address first, and the
    /// address and the port of its opener.
    of_programs: HashMap<Ends, (u32, (Ipv4Addr, u16))>,
    /// The packets that choke took out of a queue: the link, the time, the hosts and the ports.
    matched: HashSet<(u16, u64, [Ipv4Addr; 2], [u16; 2])>,
}

/// The row of a program, the protocol, and both ends of a connection, the lower one first.
type Ends = (u32, u8, [(Ipv4Addr, u16); 2]);

impl<'a> Tracker<'a> {
    /// Creates a tracker. `origin` is time zero on the guest's clock.
    pub fn new(scenario: &'a Scenario, mode: Mode, played: &Played, origin: u64) -> Tracker<'a> {
        let mut opened = vec![Vec::new(); scenario.workload.entries.len()];
        for (number, one) in (0..).zip(&played.connections) {
            if let Some(of_entry) = opened.get_mut(one.entry as usize) {
                of_entry.push(Opened { port: one.port, at: one.opened, number });
            }
        }
        opened.iter_mut().for_each(|connections| connections.sort_by_key(|one| (one.port, one.at)));
        let fresh = Known { high: vec![[0; 2]; scenario.hops.len() * 2].into(), ..Known::default() };
        Tracker {
            scenario,
            mode,
            origin,
            opened,
            known: vec![fresh; played.connections.len()],
            of_programs: HashMap::new(),
            matched: HashSet::new(),
        }
    }

    /// Returns a packet's record; `None` if it belongs to no flow.
    pub fn record(&mut self, packet: &Packet) -> Option<PacketRecord> {
        let owner = self.owner(packet)?;
        let (kind, seq) = self.segment(packet, owner);
        let (start, end) = (time(packet.start, self.origin), time(packet.end, self.origin));
        let mut record = PacketRecord {
            link: packet.link,
            entry: owner.entry,
            connection: owner.connection,
            seq,
            bytes: packet.bytes,
            kind,
            ecn_in: Ecn::from_bits(packet.ecn_in),
            ecn_out: Ecn::from_bits(packet.ecn_out),
            arrival: time(packet.arrival, self.origin),
            start,
            end,
            fate: match packet.fate {
                probe::Fate::Dropped(code) => Fate::Dropped(self.reason(packet, code)),
                probe::Fate::Delivered | probe::Fate::Queued => Fate::Delivered,
            },
        };
        if self.mode.link != LinkKind::Device && packet.fate == probe::Fate::Delivered {
            // A shaper releases a packet at the start of its transmission time.
            record.end = start + self.rate_at(packet.link, start).serialise(packet.bytes);
        }
        Some(record)
    }

    /// Returns the time at which a flow's packet left this link, and its bytes; `None` for drops and other records.
    pub fn departure(&self, record: &Record, link: usize) -> Option<(Time, u32)> {
        match record {
            Record::Packet(packet) if usize::from(packet.link) == link => {
                let is_known = self.program(packet).is_some() || self.flow(packet).is_some();
                let left = !matches!(packet.fate, probe::Fate::Dropped(_)) && is_known;
                left.then(|| (time(packet.end, self.origin), packet.bytes))
            }
            _ => None,
        }
    }

    fn owner(&mut self, packet: &Packet) -> Option<Owner> {
        match self.program(packet) {
            Some(entry) => Some(self.connection(packet, entry)),
            None => self.flow(packet),
        }
    }

    /// Returns the row of the program of the user's between whose hosts the packet goes.
    fn program(&self, packet: &Packet) -> Option<u32> {
        let row = topology::entry_of(packet.hosts)?;
        let entry = self.scenario.workload.entries.get(row)?;
        matches!(entry.app, App::Command(_)).then_some(row as u32)
    }

    /// Returns the connection of a packet of a program's row. A SYN with another number begins the next connection
    /// between the same ends.
    fn connection(&mut self, packet: &Packet, entry: u32) -> Owner {
        let [from, to] = [0, 1].map(|end| (packet.hosts[end], packet.ports[end]));
        let ends = (entry, packet.protocol, if from < to { [from, to] } else { [to, from] });
        let opens = packet.protocol == TCP && packet.flags & (SYN | ACK) == SYN;
        let known = self.of_programs.get(&ends).copied();
        let is_new = |&(number, _): &(u32, _)| opens && self.known[number as usize].isn[0] != Some(packet.seq);
        let (connection, opener) = match known.filter(|known| !is_new(known)) {
            Some(known) => known,
            None => {
                let fresh = Known { high: vec![[0; 2]; self.scenario.hops.len() * 2].into(), ..Known::default() };
                self.known.push(fresh);
                let new = (self.known.len() as u32 - 1, from);
                self.of_programs.insert(ends, new);
                new
            }
        };
        Owner { entry, connection, side: usize::from(from != opener) }
    }

    /// Returns the owner of a packet of a flow of ours.
    fn flow(&self, packet: &Packet) -> Option<Owner> {
        let entry = topology::entry_of(packet.hosts)?;
        let (port, side) = match (packet.protocol, packet.ports) {
            (ICMP, _) => (FIRST_PORT, 0),
            (_, [port, SERVICE]) => (port, 0),
            (_, [SERVICE, port]) => (port, 1),
            _ => return None,
        };
        let arrival = time(packet.arrival, self.origin);
        // The last connection of this port that was opened before, otherwise the first one.
        let opened = self.opened.get(entry)?;
        let after = opened.partition_point(|one| (one.port, one.at) <= (port, arrival.0));
        let before = after.checked_sub(1).map(|last| opened[last]).filter(|one| one.port == port);
        let connection = before.or_else(|| opened.get(after).copied().filter(|one| one.port == port))?.number;
        Some(Owner { entry: entry as u32, connection, side })
    }

    fn rate_at(&self, link: u16, at: Time) -> Rate {
        match &self.scenario.link(usize::from(link)).rate {
            Capacity::Steps(steps) => steps[steps.partition_point(|(from, _)| *from <= at).max(1) - 1].1,
            Capacity::Trace(trace) => trace.mean_rate(),
        }
    }

    /// Returns the packet's kind and its number in segments.
    fn segment(&mut self, packet: &Packet, Owner { entry, connection, side }: Owner) -> (Kind, u32) {
        if packet.protocol != TCP {
            let kind = if packet.protocol == UDP { Kind::Datagram } else { Kind::Ping };
            return (kind, packet.seq);
        }
        let mss = self.scenario.workload.entries[entry as usize].tcp.mss.max(1);
        let known = &mut self.known[connection as usize];
        if packet.flags & SYN != 0 {
            known.isn[side] = Some(packet.seq);
            return (Kind::Syn, 0);
        }
        let base = |side: usize| known.isn[side].unwrap_or(0).wrapping_add(1);
        if packet.payload == 0 {
            // The number of the next expected segment. A FIN takes a sequence number of its own.
            let fin = u32::from(packet.flags & FIN != 0);
            return (Kind::Ack, packet.ack.wrapping_sub(base(1 - side)).wrapping_add(mss - 1 - fin) / mss);
        }
        let from = packet.seq.wrapping_sub(base(side));
        let to = from.wrapping_add(packet.payload);
        let high = &mut known.high[usize::from(packet.link)][side];
        // The record of a loss behind the link is the second one of its packet.
        let lost = is_loss(packet);
        let below = !lost && (to.wrapping_sub(*high) as i32) <= 0;
        if !below && !lost {
            *high = to;
        }
        let again = below || known.again[side].contains(&from);
        if below || matches!(packet.fate, probe::Fate::Dropped(_)) {
            // At the next link the retransmission arrives for the first time, although the segment was sent twice.
            let list = &mut known.again[side];
            if !list.contains(&from) {
                if list.len() == 64 {
                    list.remove(0);
                }
                list.push(from);
            }
        }
        (if again { Kind::Retransmit } else { Kind::Data }, from / mss)
    }

    /// Returns the drop reason: that of a discipline of ours, or the kernel's own if it reports one (7.1 and later),
    /// otherwise derived from the discipline and the time of the drop.
    fn reason(&mut self, packet: &Packet, code: u16) -> DropReason {
        if let Some(reason) = probe::Fate::reason(code) {
            return reason;
        }
        match code {
            probe::IMPAIRED => return DropReason::Loss,
            probe::ACK_FILTERED => return DropReason::AckFilter,
            _ => {}
        }
        let link = self.scenario.link(usize::from(packet.link));
        let end = time(packet.end, self.origin);
        let purged = link.changes.iter().any(|(at, _)| (*at..*at + CHANGE).contains(&end));
        if purged && !matches!(code, CONGESTED | BAND_LIMIT | FLOW_LIMIT) {
            return DropReason::Overlimit; // including packets that no longer fit after a change
        }
        let spec = link.qdisc_at(end);
        let law = match spec {
            Spec::Codel(_) | Spec::FqCodel(_) | Spec::Cake(_) => DropReason::Codel,
            Spec::Red(_)
            | Spec::Choke(_)
            | Spec::Sfb(_)
            | Spec::Blue(_)
            | Spec::Pie(_)
            | Spec::FqPie(_)
            | Spec::DualPi2(_) => DropReason::Early,
            Spec::Ccaq(_) if spec.variant() == Some("paper") => DropReason::Shrink,
            Spec::Ccaq(_) => DropReason::Codel,
            Spec::Fq(_) | Spec::Sfq(_) => DropReason::FlowLimit,
            Spec::Noqueue(_) => DropReason::Busy,
            Spec::Linux(_) | Spec::External(_) => DropReason::Early,
            // FIFOs and shapers, and disciplines that no kernel has.
            _ => DropReason::Overlimit,
        };
        let on_arrival = packet.arrival == packet.end;
        match (spec, code) {
            // The kernel reports RED's upper threshold as `OVERLIMIT`, and no reason for what its limit refuses.
            (Spec::Red(_), OVERLIMIT) => DropReason::Forced,
            (Spec::Red(_), GENERIC) => DropReason::Overlimit,
            // No kernel reports a reason of choke's. Only a match takes a packet out of the queue, and at the same time it
            // drops the packet of the same flow that arrives.
            (Spec::Choke(_), _) => {
                let ends = (packet.link, packet.end, packet.hosts, packet.ports);
                let matched = if on_arrival { self.matched.contains(&ends) } else { self.matched.insert(ends) };
                if matched { DropReason::Matched } else { DropReason::Early }
            }
            // The part of cake's COBALT that is BLUE.
            (Spec::Cake(_), FLOOD_PROTECTION) => DropReason::Early,
            (_, OVERLIMIT | BAND_LIMIT | MAXFLOWS) => DropReason::Overlimit,
            (Spec::Ccaq(_), FLOW_LIMIT) => DropReason::Penalty,
            (_, FLOW_LIMIT) => DropReason::FlowLimit,
            (_, CONGESTED) => law,
            // Without a reason a drop on arrival is by the limit, if the discipline has no law that acts there.
            (Spec::Noqueue(_) | Spec::Fq(_) | Spec::Pie(_) | Spec::FqPie(_) | Spec::Red(_) | Spec::Sfb(_), _) => law,
            _ if on_arrival => DropReason::Overlimit,
            _ => law,
        }
    }
}

/// Returns whether the record is of a packet that was lost behind its link.
fn is_loss(packet: &Packet) -> bool {
    match packet.fate {
        probe::Fate::Dropped(code) => code == probe::IMPAIRED || probe::Fate::reason(code) == Some(DropReason::Loss),
        probe::Fate::Delivered | probe::Fate::Queued => false,
    }
}
