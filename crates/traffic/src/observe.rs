//! From what a guest left in its folder to what every world gives: the same meters, fed with the kernel's own events.
//!
//! Pure: bytes in, [`Output`] out. Times become the run's; a packet's flow and connection follow from its host's address
//! and its port; its segment number from its connection's initial sequence number.

use std::collections::HashMap;

use serde_json::Value;
use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::DropReason;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_measure::records::Offer;
use sojourn_measure::{FlowMeter, LinkMeter, LinkReport, Output, flow_setup, link_setup, records};
use sojourn_model::records::{Fate, Kind, PacketRecord};
use sojourn_model::scenario::{Capacity, Scenario, Trace};
use sojourn_model::workload::Direction;
use sojourn_model::workload::video::Seen;

use crate::flows::played::{Played, What};
use crate::flows::{FIRST_PORT, SERVICE};
use crate::job::{LinkKind, Mode};
use crate::nic;
use crate::probe::{self, Packet, Record};
use crate::run::COUNTED;
use crate::topology::{self, End, Network, Transmit};
use crate::{count, tc_stats};

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
/// Bytes of a delivery opportunity.
const OPPORTUNITY: u32 = 1500;
/// The IP MTU up to which a queue counts as full.
const MTU: u64 = 1500;
/// What a change of a discipline drops goes within this time after it: Linux frees it when `tc` is done.
const CHANGE: Span = Span::from_millis(1);

/// What to keep beside the reports.
#[derive(Clone, Copy, Default, Debug)]
pub struct Keep {
    /// A record of every packet.
    pub packets: bool,
    /// Samples of the senders' state.
    pub series: bool,
}

/// What happened in a run of the kernel world. `seen` is the probe's file, `counted` the kernel's counters as JSON, `origin`
/// time zero on the guest's clock.
///
/// # Errors
/// A file is none that the guest wrote.
pub fn output(
    scenario: &Scenario,
    mode: Mode,
    played: &Played,
    (seen, counted): (&[u8], &[u8]),
    origin: u64,
    keep: Keep,
) -> Result<Output, String> {
    let seen = probe::records(seen)?;
    let counted: Value = serde_json::from_slice(counted).map_err(|error| format!("{COUNTED}: {error}"))?;
    let network = Network::new(scenario);
    let events = seen.len() as u64;
    let mut packets: Vec<&Packet> =
        seen.iter().filter_map(|one| if let Record::Packet(p) = one { Some(p) } else { None }).collect();
    packets.sort_by_key(|packet| (packet.arrival, packet.link));
    packets.chunk_by_mut(|a, b| (a.arrival, a.link) == (b.arrival, b.link)).for_each(in_order);
    let mut tracker = Tracker::new(scenario, played, origin);
    let mut list: Vec<PacketRecord> = packets.into_iter().filter_map(|packet| tracker.record(packet, mode)).collect();
    // Where both happen at the same time, drops go before departures, as in the simulator.
    list.sort_by_key(|record| (record.link, record.end, record.fate == Fate::Delivered));
    let links = (0..scenario.hops.len() * 2).map(|index| {
        let mut report = link(scenario, index, mode, &list);
        nic::measure(scenario, index, &seen, origin, &mut report);
        nic::pauses(scenario, index, &seen, origin, &mut report);
        report.main.stats = stats(scenario, &network, index, mode, &counted);
        report
    });
    let links = links.collect();
    let flows = flows(scenario, played, &seen, &list, origin, keep);
    list.retain(|record| keep.packets && record.end < scenario.duration);
    Ok(Output { links, flows, packets: list, events })
}

/// Those of a burst that arrive at one time stand in the order in which they were recorded: who was dropped on arrival before who
/// waited. They came in the order of their numbers.
fn in_order(together: &mut [&Packet]) {
    let Some(first) = together.first() else { return };
    let before_all = first.seq.wrapping_sub(1 << 31);
    together.sort_by_key(|packet| (packet.hosts, packet.ports, packet.seq.wrapping_sub(before_all)));
}

/// A time of the run.
fn time(clock: u64, origin: u64) -> Time {
    if clock == u64::MAX { Time::NEVER } else { Time(clock.saturating_sub(origin)) }
}

fn link(scenario: &Scenario, index: usize, mode: Mode, records: &[PacketRecord]) -> LinkReport {
    let link = scenario.link(index);
    let mut meter = LinkMeter::new(&link_setup(scenario, index));
    match &link.rate {
        Capacity::Steps(steps) => steps.iter().for_each(|&(at, rate)| meter.rate(at, rate)),
        Capacity::Trace(trace) => meter.rate(Time::ZERO, trace.mean_rate()),
    }
    let offers = match &link.rate {
        Capacity::Trace(trace) if mode.link == LinkKind::Device => {
            offers(trace, scenario.duration, index as u16, records)
        }
        _ => Vec::new(),
    };
    let of = |spec| fullness(spec, MTU + u64::from(link.overhead));
    let later: Vec<_> = link.changes.iter().map(|(at, change)| (*at, of(change.spec()))).collect();
    let first = of(&link.qdisc);
    let full = |now: Time, packets, bytes| {
        let present = later.iter().rev().find(|(at, _)| *at <= now).map_or(&first, |(_, full)| full);
        present(packets, bytes)
    };
    records::replay(records, index as u16, meter, &offers, full)
}

/// The counters of the kernel's discipline; none if `tc` printed none.
fn stats(scenario: &Scenario, network: &Network, index: usize, mode: Mode, counted: &Value) -> Option<Value> {
    let is_it = |end: &&End| matches!(end.transmit, Transmit::Hop(link, _) if link == index);
    let end = network.cables.iter().flatten().find(is_it)?;
    let shaped = topology::is_below_a_shaper(scenario.link(index), mode.link);
    let whole = tc_stats::discipline(&counted["places"][count::name(end.place)], &end.name)?;
    if shaped { whole.get("child").cloned() } else { Some(whole) }
}

/// What a trace offers: an opportunity counts as used by the bytes of the packets that left with it.
fn offers(trace: &Trace, end: Time, index: u16, records: &[PacketRecord]) -> Vec<Offer> {
    let mut offers = Vec::new();
    let mut left = records.iter().filter(|r| r.link == index && r.fate == Fate::Delivered && r.end < end).peekable();
    let mut carried = 0u32;
    let period = trace.opportunities_ms.last().copied().unwrap_or(1).max(1);
    for start in (0..).map(|round| round * period) {
        for ms in &trace.opportunities_ms {
            let at = Time((start + ms) * 1_000_000);
            if at >= end {
                return offers;
            }
            while let Some(record) = left.next_if(|record| record.end <= at) {
                carried += record.bytes;
            }
            let used = carried.min(OPPORTUNITY);
            carried -= used;
            offers.push(Offer { at, bytes: OPPORTUNITY, used });
        }
    }
    offers
}

/// Whether the next MTU would be refused, by the limit of the whole discipline.
fn fullness(qdisc: &Spec, mtu: u64) -> Box<dyn Fn(usize, u64) -> bool> {
    let full = qdisc.full();
    let limit = full.split_ascii_whitespace().skip_while(|word| *word != "limit").nth(1);
    let limit = limit.and_then(|word| word.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().ok());
    match (qdisc, limit) {
        (Spec::Bfifo(_), Some(limit)) => Box::new(move |_, bytes| bytes + mtu > limit),
        (_, Some(limit)) => Box::new(move |packets, _| packets as u64 >= limit),
        (_, None) => Box::new(|_, _| false),
    }
}

/// What is known of a connection while its packets are looked at in order.
#[derive(Clone, Default)]
struct Known {
    /// The initial sequence number of the opener's and the accepter's side.
    isn: [Option<u32>; 2],
    /// By side and link: bytes sent up to here.
    high: HashMap<(usize, u16), u32>,
    /// By side: segments that were sent again somewhere, or lost.
    again: [Vec<u32>; 2],
}

/// Finds the flow and the connection of packets, in order of their arrivals.
struct Tracker<'a> {
    scenario: &'a Scenario,
    origin: u64,
    /// By entry and port: connections with the times of their opening.
    by_port: HashMap<(u32, u16), Vec<(u64, u32)>>,
    known: Vec<Known>,
}

impl<'a> Tracker<'a> {
    fn new(scenario: &'a Scenario, played: &Played, origin: u64) -> Tracker<'a> {
        let mut by_port: HashMap<(u32, u16), Vec<(u64, u32)>> = HashMap::new();
        for (number, one) in (0..).zip(&played.connections) {
            by_port.entry((one.entry, one.port)).or_default().push((one.opened, number));
        }
        Tracker { scenario, origin, by_port, known: vec![Known::default(); played.connections.len()] }
    }

    /// Nothing for what is no flow's.
    fn record(&mut self, packet: &Packet, mode: Mode) -> Option<PacketRecord> {
        let entry = topology::entry_of(packet.hosts)? as u32;
        let (port, side) = match (packet.protocol, packet.ports) {
            (ICMP, _) => (FIRST_PORT, 0),
            (_, [port, SERVICE]) => (port, 0),
            (_, [SERVICE, port]) => (port, 1),
            _ => return None,
        };
        let arrival = time(packet.arrival, self.origin);
        let connections = self.by_port.get(&(entry, port))?;
        let last = connections.partition_point(|(opened, _)| *opened <= arrival.0).max(1) - 1;
        let connection = connections[last].1;
        let (kind, seq) = self.segment(packet, connection, side, entry);
        let (start, end) = (time(packet.start, self.origin), time(packet.end, self.origin));
        let mut record = PacketRecord {
            link: packet.link,
            entry,
            connection,
            seq,
            bytes: packet.bytes,
            kind,
            ecn_in: Ecn::from_bits(packet.ecn_in),
            ecn_out: Ecn::from_bits(packet.ecn_out),
            arrival,
            start,
            end,
            fate: match packet.fate {
                probe::Fate::Dropped(code) => Fate::Dropped(self.reason(packet, code)),
                probe::Fate::Delivered | probe::Fate::Queued => Fate::Delivered,
            },
        };
        if mode.link != LinkKind::Device && packet.fate == probe::Fate::Delivered {
            // A shaper lets a packet go when its time begins.
            record.end = start + self.rate_at(packet.link, start).serialise(packet.bytes);
        }
        Some(record)
    }

    fn rate_at(&self, link: u16, at: Time) -> Rate {
        match &self.scenario.link(usize::from(link)).rate {
            Capacity::Steps(steps) => steps[steps.partition_point(|(from, _)| *from <= at).max(1) - 1].1,
            Capacity::Trace(trace) => trace.mean_rate(),
        }
    }

    /// What it carries, and its number in segments.
    fn segment(&mut self, packet: &Packet, connection: u32, side: usize, entry: u32) -> (Kind, u32) {
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
            // The next one expected; a FIN takes a number of its own.
            let fin = u32::from(packet.flags & FIN != 0);
            return (Kind::Ack, packet.ack.wrapping_sub(base(1 - side)).wrapping_add(mss - 1 - fin) / mss);
        }
        let from = packet.seq.wrapping_sub(base(side));
        let to = from.wrapping_add(packet.payload);
        let high = known.high.entry((side, packet.link)).or_default();
        let below = (to.wrapping_sub(*high) as i32) <= 0;
        if !below {
            *high = to;
        }
        let again = below || known.again[side].contains(&from);
        if below || matches!(packet.fate, probe::Fate::Dropped(_)) {
            // At the next link it comes for the first time, although it was sent twice.
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

    /// Why it was dropped: by what the kernel told (7.1 and later), else by the discipline and the moment.
    fn reason(&self, packet: &Packet, code: u16) -> DropReason {
        const OVERLIMIT: u16 = 2;
        const CONGESTED: u16 = 3;
        const BAND_LIMIT: u16 = 6;
        const FLOW_LIMIT: u16 = 8;
        let link = self.scenario.link(usize::from(packet.link));
        let end = time(packet.end, self.origin);
        let purged = link.changes.iter().any(|(at, _)| (*at..*at + CHANGE).contains(&end));
        if purged && !matches!(code, CONGESTED | BAND_LIMIT | FLOW_LIMIT) {
            return DropReason::Overlimit; // with what a change had no place for
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
            Spec::Ccaq(_) => DropReason::Shrink,
            Spec::Fq(_) | Spec::Sfq(_) => DropReason::FlowLimit,
            Spec::Noqueue(_) => DropReason::Busy,
            Spec::Linux(_) => DropReason::Early,
            Spec::Pfifo(_) | Spec::Bfifo(_) | Spec::PfifoHeadDrop(_) | Spec::Prio(_) | Spec::Tbf(_) | Spec::Htb(_) => {
                DropReason::Overlimit
            }
        };
        match code {
            probe::ACK_FILTERED => DropReason::AckFilter,
            OVERLIMIT | BAND_LIMIT => DropReason::Overlimit,
            CONGESTED => law,
            FLOW_LIMIT => DropReason::FlowLimit,
            _ if packet.arrival == packet.end
                && !matches!(spec, Spec::Noqueue(_) | Spec::Fq(_) | Spec::Pie(_) | Spec::FqPie(_)) =>
            {
                DropReason::Overlimit
            }
            _ => law,
        }
    }
}

/// What a flow's meter is told.
#[derive(Clone, Copy)]
enum Told {
    Sent,
    /// So many bytes, as one packet.
    Retransmit(u32),
    Dropped,
    Acked {
        payload: u32,
        rtt_us: u32,
        cwnd: u32,
        srtt_us: u32,
        inflight: u32,
    },
    App(What),
}

fn flows(
    scenario: &Scenario,
    played: &Played,
    seen: &[Record],
    list: &[PacketRecord],
    origin: u64,
    keep: Keep,
) -> Vec<sojourn_measure::FlowReport> {
    let entries = &scenario.workload.entries;
    let mut told: Vec<(Time, u32, Told)> = Vec::new();
    for record in list {
        let entry = &entries[record.entry as usize];
        // The first link that the data's sender meets; of the web and of video, whose both ends send, the other's too.
        let (right, left) = ((entry.via.0 * 2) as u16, (entry.via.1 * 2 + 1) as u16);
        let first = if entry.direction == Direction::Right { right } else { left };
        let sends = record.link == first || (entry.answers() && (record.link == right || record.link == left));
        if sends && matches!(record.kind, Kind::Data | Kind::Retransmit | Kind::Syn) {
            told.push((record.arrival, record.entry, Told::Sent));
        }
        if matches!(record.fate, Fate::Dropped(_)) {
            told.push((record.end, record.entry, Told::Dropped));
        }
    }
    for record in seen {
        let (socket, what) = match *record {
            Record::Acked { socket, payload, rtt_us, srtt_us, cwnd, inflight } => {
                (socket, Told::Acked { payload, rtt_us, cwnd, srtt_us, inflight })
            }
            Record::Retransmitted { socket, payload, .. } => (socket, Told::Retransmit(payload)),
            Record::Packet(_) | Record::Ring(_) | Record::Paused { .. } => continue,
        };
        if let Some(entry) = topology::entry_of(socket.hosts).filter(|&entry| entry < entries.len()) {
            told.push((time(socket.at, origin), entry as u32, what));
        }
    }
    told.extend(played.events.iter().map(|&(at, entry, what)| (Time(at), entry, Told::App(what))));
    told.sort_by_key(|(at, entry, _)| (*at, *entry));
    let setup = |entry| flow_setup(scenario, entry, keep.series);
    let mut meters: Vec<FlowMeter> = entries.iter().map(|entry| FlowMeter::new(&setup(entry))).collect();
    for (now, entry, what) in told {
        tell(&mut meters[entry as usize], entries[entry as usize].tcp.mss, now, what);
    }
    let unfinished = played.unfinished.iter().copied().chain(std::iter::repeat(0));
    let ended = meters.into_iter().zip(entries).zip(unfinished);
    ended.map(|((meter, entry), unfinished)| meter.finish(setup(entry), unfinished)).collect()
}

fn tell(meter: &mut FlowMeter, mss: u32, now: Time, what: Told) {
    match what {
        Told::Sent | Told::App(What::Ping) => meter.sent(now, 1),
        // Linux sends a burst again as one packet, of several segments; and a FIN takes a number.
        Told::Retransmit(bytes) => {
            (0..bytes.saturating_sub(1).div_ceil(mss).max(1)).for_each(|_| meter.retransmit(now))
        }
        Told::Dropped => meter.dropped(now),
        Told::Acked { payload, rtt_us, cwnd, srtt_us, inflight } => {
            meter.acked(now, u64::from(payload));
            if rtt_us > 0 {
                meter.rtt(now, Span::from_micros(u64::from(rtt_us)));
            }
            meter.state(now, cwnd, Span::from_micros(u64::from(srtt_us)), inflight, None);
        }
        Told::App(What::Started) => meter.started(now),
        Told::App(What::Completed(fct, ideal)) => meter.completed(now, Span(fct), Span(ideal)),
        Told::App(What::Loaded(time)) => meter.loaded(now, Span(time)),
        Told::App(What::Piece(quality, switched)) => meter.watched(now, Seen::Piece(Rate(quality), switched)),
        Told::App(What::Begun(after)) => meter.watched(now, Seen::Begun(Span(after))),
        Told::App(What::Stalled(time)) => meter.watched(now, Seen::Stalled(Span(time))),
        Told::App(What::Reply(rtt)) => meter.rtt(now, Span(rtt)),
        Told::App(What::Datagram) => meter.sent_datagram(now),
        Told::App(What::Heard { number, sent }) => meter.received_datagram(now, Time(sent), number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::played::Connection;
    use sojourn_model::plan::{LoadOptions, Plan};
    use std::net::Ipv4Addr;

    const ORIGIN: u64 = 1 << 31;
    const MODE: Mode = Mode { link: LinkKind::Device, probe: true, sink: crate::job::Sink::Kernel };

    fn scenario() -> Scenario {
        let text = "duration = \"1s\"\n[[hop]]\nrate = \"10mbit\"\nqdisc = \"codel\"\n[[hop]]\nrate = \"10mbit\"\n\
                    [[flow]]\nkind = \"bulk\"\nrtt = \"40ms\"\n[[flow]]\nkind = \"pings\"\nrtt = \"40ms\"\n";
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        plan.scenario(0).expect("a sound run")
    }

    fn played() -> Played {
        let connection = |entry| Connection { entry, port: FIRST_PORT, opened: 0, backward: false };
        Played { connections: vec![connection(0), connection(1)], ..Played::default() }
    }

    /// A packet of the first flow from the left, as the module writes it.
    fn packet(link: u16, seq: u32, payload: u32, flags: u8, at: u64, fate: (u8, u16)) -> [u8; 64] {
        let mut bytes = [0; 64];
        (bytes[1], bytes[3], bytes[28]) = (fate.0, flags, TCP);
        bytes[4..6].copy_from_slice(&link.to_le_bytes());
        bytes[6..8].copy_from_slice(&fate.1.to_le_bytes());
        bytes[8..12].copy_from_slice(&(payload + 66).to_le_bytes());
        bytes[12..16].copy_from_slice(&payload.to_le_bytes());
        bytes[16..20].copy_from_slice(&u32::from(Ipv4Addr::new(10, 1, 0, 1)).to_le_bytes());
        bytes[20..24].copy_from_slice(&u32::from(Ipv4Addr::new(10, 102, 0, 1)).to_le_bytes());
        bytes[24..26].copy_from_slice(&FIRST_PORT.to_le_bytes());
        bytes[26..28].copy_from_slice(&SERVICE.to_le_bytes());
        bytes[32..36].copy_from_slice(&seq.to_le_bytes());
        let (arrival, end) = (ORIGIN + at, if fate.0 == 0 { ORIGIN + at + 1000 } else { ORIGIN + at });
        bytes[40..48].copy_from_slice(&arrival.to_le_bytes());
        bytes[48..56].copy_from_slice(&arrival.to_le_bytes());
        bytes[56..64].copy_from_slice(&end.to_le_bytes());
        bytes
    }

    fn observed(seen: &[[u8; 64]]) -> Output {
        let keep = Keep { packets: true, series: false };
        output(&scenario(), MODE, &played(), (&seen.concat(), b"{}"), ORIGIN, keep).expect("sound files")
    }

    #[test]
    fn segments_are_numbered_from_the_connections_own_start_also_where_sequence_numbers_wrap() {
        let isn = u32::MAX - 1000;
        let seen = [
            packet(0, isn, 0, SYN, 0, (0, 0)),
            packet(0, isn.wrapping_add(1), 1448, 0x10, 5_000, (0, 0)),
            packet(0, isn.wrapping_add(1449), 1448, 0x18, 9_000, (0, 0)),
        ];
        let kinds: Vec<(Kind, u32, u64)> =
            observed(&seen).packets.iter().map(|record| (record.kind, record.seq, record.arrival.0)).collect();
        assert_eq!(kinds, [(Kind::Syn, 0, 0), (Kind::Data, 0, 5_000), (Kind::Data, 1, 9_000)]);
    }

    #[test]
    fn what_was_lost_before_comes_as_a_retransmission_to_the_next_hop_too() {
        let seen = [
            packet(0, 7, 0, SYN, 0, (0, 0)),
            packet(0, 8, 1448, 0x10, 5_000, (1, 3)),
            packet(0, 8, 1448, 0x10, 90_000, (0, 0)),
            packet(2, 8, 1448, 0x10, 95_000, (0, 0)),
        ];
        let output = observed(&seen);
        let kinds: Vec<(u16, Kind)> = output.packets.iter().map(|record| (record.link, record.kind)).collect();
        use Kind::{Data, Retransmit, Syn};
        assert_eq!(kinds, [(0, Syn), (0, Data), (0, Retransmit), (2, Retransmit)]);
        assert_eq!(output.packets[1].fate, Fate::Dropped(DropReason::Codel));
        assert_eq!((output.flows[0].main.packets, output.flows[0].main.drops), (3, 1));
        assert_eq!(output.links[0].main.delivered_packets, 2);
    }

    /// The module writes down what is dropped on arrival before what has to leave.
    #[test]
    fn of_a_burst_whose_second_segment_is_dropped_the_first_is_no_retransmission() {
        let isn = u32::MAX - 1500;
        let segment = |nth: u32, fate| packet(0, isn.wrapping_add(1 + nth * 1448), 1448, 0x10, 5_000, fate);
        let seen = [packet(0, isn, 0, SYN, 0, (0, 0)), segment(1, (1, 3)), segment(0, (0, 0)), segment(2, (0, 0))];
        let mut kinds: Vec<(u32, Kind)> =
            observed(&seen).packets.iter().map(|record| (record.seq, record.kind)).collect();
        kinds.sort_by_key(|&(seq, _)| seq);
        assert_eq!(kinds, [(0, Kind::Syn), (0, Kind::Data), (1, Kind::Data), (2, Kind::Data)]);
    }

    #[test]
    fn a_kernel_that_tells_no_reason_is_read_by_the_moment_of_the_drop() {
        let full = packet(0, 8, 1448, 0x10, 5_000, (1, 0));
        let mut late = full;
        late[56..64].copy_from_slice(&(ORIGIN + 9_000).to_le_bytes());
        let reasons: Vec<Fate> = observed(&[full, late]).packets.iter().map(|record| record.fate).collect();
        assert_eq!(reasons, [Fate::Dropped(DropReason::Overlimit), Fate::Dropped(DropReason::Codel)]);
    }

    #[test]
    fn an_ack_that_a_filter_took_out_of_its_queue_is_a_drop_of_that_reason() {
        let mut ack = packet(0, 8, 0, 0x10, 5_000, (1, probe::ACK_FILTERED));
        ack[56..64].copy_from_slice(&(ORIGIN + 9_000).to_le_bytes());
        let output = observed(&[ack]);
        assert_eq!(output.packets[0].fate, Fate::Dropped(DropReason::AckFilter));
        assert_eq!((output.links[0].main.drops, output.links[0].main.delivered_packets), (1, 0));
    }

    #[test]
    fn a_call_of_which_a_queue_drops_every_packet_is_lost() {
        let text = "duration = \"1s\"\n[[hop]]\nrate = \"10mbit\"\n[[flow]]\nkind = \"voip\"\nrtt = \"40ms\"\n";
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        let scenario = plan.scenario(0).expect("a sound run");
        let (mut played, mut seen) = (played(), Vec::new());
        played.connections.truncate(1);
        for number in 0..10u32 {
            let sent = u64::from(number) * 20_000_000;
            played.events.push((sent, 0, What::Datagram));
            let mut datagram = packet(0, number, 172, 0, sent + 5_000, (1, 2));
            datagram[28] = UDP;
            seen.extend(datagram);
        }
        let output = output(&scenario, MODE, &played, (&seen, b"{}"), ORIGIN, Keep::default()).expect("sound files");
        let call = &output.flows[0].main;
        assert_eq!((call.packets, call.drops), (10, 10));
        assert_eq!((call.loss_ratio, call.mos, call.delay_ms.is_none()), (Some(1.0), Some(1.0), true));
        assert_eq!(output.links[0].main.queue_delay_ms, None);
    }

    #[test]
    fn packets_of_nobody_are_left_out() {
        let mut foreign = packet(0, 8, 1448, 0x10, 5_000, (0, 0));
        foreign[26..28].copy_from_slice(&80u16.to_le_bytes());
        let output = observed(&[foreign]);
        assert_eq!((output.packets.len(), output.links[0].main.delivered_packets), (0, 0));
    }

    #[test]
    fn an_opportunity_is_used_by_what_left_with_it() {
        let text = "duration = \"100ms\"\n[[hop]]\nrate = \"1mbit\"\n[[flow]]\nkind = \"bulk\"\nrtt = \"40ms\"\n";
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        let mut scenario = plan.scenario(0).expect("a sound run");
        let trace = sojourn_model::scenario::Trace { opportunities_ms: vec![10, 20] };
        scenario.hops[0].right.rate = Capacity::Trace(trace.into());
        let mut sent = packet(0, 8, 684, 0x10, 5_000_000, (0, 0));
        sent[56..64].copy_from_slice(&(ORIGIN + 10_000_000).to_le_bytes());
        let output = output(&scenario, MODE, &played(), (&sent, b"{}"), ORIGIN, Keep::default()).expect("sound files");
        // 750 bytes of nine opportunities; the tenth is at the end.
        assert_eq!(output.links[0].main.utilisation, Some(750.0 / (9.0 * 1500.0)));
    }
}
