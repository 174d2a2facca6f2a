//! Turns the files of a guest into the output of a run: the kernel's events are passed to the meters that every world
//! uses.
//!
//! This module is pure: bytes in, [`Output`] out. Times are converted to those of the run. The probe's records are
//! visited once, in order of time, and are read in place from the mapped file. Memory is needed only for their order
//! and for the packets in queues, unless all packets are to be kept.

mod flows;
#[cfg(test)]
mod oracle;
mod tracker;

use serde_json::Value;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::units::Time;
use sojourn_measure::records::{Offer, RecordFeed};
use sojourn_measure::{LinkMeter, Output, link_setup};
use sojourn_model::records::{Fate, PacketRecord};
use sojourn_model::scenario::{Capacity, Scenario, Trace};

use crate::flows::played::Played;
use crate::job::{LinkKind, Mode};
use crate::probe::{Packet, Record, Records};
use crate::run::COUNTED;
use crate::topology::{self, End, Network, Transmit};
use crate::{count, nic, tc_stats};
use flows::Flows;
use tracker::Tracker;

/// Bytes of a delivery opportunity.
const OPPORTUNITY: u32 = 1500;
/// A queue counts as full if it would refuse a packet of this IP length.
const MTU: u32 = 1500;

/// Prefetch distance in records. With many flows, the order of arrivals differs much from the order in the file.
const AHEAD: usize = 16;

/// Optional parts of the output.
#[derive(Clone, Copy, Default, Debug)]
pub struct Keep {
    /// Whether to keep a record of every packet.
    pub packets: bool,
    /// Whether to keep samples of the senders' state.
    pub series: bool,
}

/// Evaluates a run of the kernel world. `seen` is the probe's file, `counted` the kernel's counters as JSON, and
/// `origin` time zero on the guest's clock.
///
/// # Errors
/// A file was not written by the guest.
pub fn output(
    scenario: &Scenario,
    mode: Mode,
    played: &Played,
    (seen, counted): (&[u8], &[u8]),
    origin: u64,
    keep: Keep,
) -> Result<Output, String> {
    let seen = Records::new(seen)?;
    let counted: Value = serde_json::from_slice(counted).map_err(|error| format!("{COUNTED}: {error}"))?;
    let mut tracker = Tracker::new(scenario, mode, played, origin);
    let mut flows = Flows::new(scenario, played, keep.series);
    let replay = |index| link(scenario, index, opportunities(scenario, index, mode, seen, &tracker));
    let mut links: Vec<_> = (0..scenario.hops.len() * 2).map(replay).collect();
    let moments = in_order(seen);
    let rows = scenario.workload.pools();
    let mut packets = Vec::with_capacity(if keep.packets { moments.len() } else { 0 });
    for (place, &Moment { at, index, .. }) in moments.iter().enumerate() {
        if let Some(next) = moments.get(place + AHEAD) {
            seen.prefetch(next.index);
        }
        match seen.get(index) {
            Record::Packet(packet) => {
                let link = links.get_mut(usize::from(packet.link));
                let link = link.ok_or_else(|| format!("the probe's file has a packet of link {}", packet.link))?;
                let Some(record) = tracker.record(&packet) else { continue };
                link.arrives(&record);
                flows.packet(&record);
                if keep.packets && record.end < scenario.duration {
                    packets.push(PacketRecord { entry: rows[record.entry as usize] as u32, ..record });
                }
            }
            record => flows.socket(time(at, origin), &record),
        }
    }
    // At equal times, drops precede departures, as in the simulator.
    packets.sort_by_key(|record| (record.link, record.end, record.fate == Fate::Delivered));
    let network = Network::new(scenario);
    let links = links.into_iter().enumerate().map(|(index, replay)| {
        let mut report = replay.finish();
        nic::measure(scenario, index, seen, origin, &mut report);
        nic::pauses(scenario, index, seen, origin, &mut report);
        report.main.stats = stats(scenario, &network, index, mode, &counted);
        report
    });
    let tcp = counted["tcp"].as_object().cloned();
    Ok(Output { links: links.collect(), flows: flows.finish(), packets, tcp, events: seen.count() as u64 })
}

/// Converts the guest's clock to a time of the run.
fn time(clock: u64, origin: u64) -> Time {
    if clock == u64::MAX { Time::NEVER } else { Time(clock.saturating_sub(origin)) }
}

/// The time and the position of a record. A packet's time is its arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    /// Time on the guest's clock, in nanoseconds.
    at: u64,
    /// Breaks ties: links in order, followed by sockets.
    link: u16,
    index: u32,
}

/// Returns the records of packets and sockets in order of time.
fn in_order(seen: Records<'_>) -> Vec<Moment> {
    const SOCKET: u16 = u16::MAX;
    let moment = |(index, record)| match record {
        Record::Packet(packet) => Some(Moment { at: packet.arrival, link: packet.link, index }),
        Record::Acked { socket, .. } | Record::Retransmitted { socket, .. } => {
            Some(Moment { at: socket.at, link: SOCKET, index })
        }
        Record::Ring(_) | Record::Paused { .. } => None,
    };
    let mut moments = Vec::with_capacity(seen.count());
    moments.extend((0..).zip(seen.iter()).filter_map(moment));
    moments.sort_unstable();
    let bursts = moments.chunk_by_mut(|a, b| (a.at, a.link) == (b.at, b.link));
    bursts.filter(|burst| burst.len() > 1 && burst[0].link != SOCKET).for_each(|burst| order_burst(seen, burst));
    moments
}

/// Sorts packets that arrive at one time by their numbers, the order of their arrival. They were recorded in another
/// order: those dropped on arrival before those that were queued.
fn order_burst(seen: Records<'_>, burst: &mut [Moment]) {
    let packet = |moment: &Moment| match seen.get(moment.index) {
        Record::Packet(packet) => packet,
        other => unreachable!("moments of a link are packets: {other:?}"),
    };
    let before_all = packet(&burst[0]).seq.wrapping_sub(1 << 31);
    burst.sort_by_key(|moment| {
        let Packet { hosts, ports, seq, .. } = packet(moment);
        (hosts, ports, seq.wrapping_sub(before_all))
    });
}

/// Creates the meter of a link, which is fed by its packet records.
fn link(scenario: &Scenario, index: usize, offers: Vec<Offer>) -> RecordFeed<impl Fn(Time, usize, u64) -> bool> {
    let link = scenario.link(index);
    let mut meter = LinkMeter::new(&link_setup(scenario, index));
    match &link.rate {
        Capacity::Steps(steps) => steps.iter().for_each(|&(at, rate)| meter.rate(at, rate)),
        Capacity::Trace(trace) => meter.rate(Time::ZERO, trace.mean_rate()),
    }
    let of = |spec| fullness(spec, u64::from(link.wire_bytes(MTU)));
    let later: Vec<_> = link.changes.iter().map(|(at, change)| (*at, of(change.spec()))).collect();
    let first = of(&link.qdisc);
    RecordFeed::new(meter, offers, move |now, packets, bytes| {
        let present = later.iter().rev().find(|(at, _)| *at <= now).map_or(&first, |(_, full)| full);
        present(packets, bytes)
    })
}

/// Returns the counters of a link's discipline: ours in the world `live`, otherwise the kernel's; `None` if `tc` printed
/// none.
fn stats(scenario: &Scenario, network: &Network, index: usize, mode: Mode, counted: &Value) -> Option<Value> {
    if let Some(ours) = counted["links"].get(index) {
        return Some(ours.clone());
    }
    let is_it = |end: &&End| matches!(end.transmit, Transmit::Hop(link, _) if link == index);
    let end = network.cables.iter().flatten().find(is_it)?;
    let shaped = topology::is_below_a_shaper(scenario.link(index), mode.link);
    let whole = tc_stats::discipline(&counted["places"][count::name(end.place)], &end.name)?;
    if shaped { whole.get("child").cloned() } else { Some(whole) }
}

/// Returns the delivery opportunities of a trace-driven link, each with the bytes that packets used; empty for other
/// links.
fn opportunities(
    scenario: &Scenario,
    index: usize,
    mode: Mode,
    seen: Records<'_>,
    tracker: &Tracker<'_>,
) -> Vec<Offer> {
    let Capacity::Trace(trace) = &scenario.link(index).rate else { return Vec::new() };
    if mode.link != LinkKind::Device {
        return Vec::new();
    }
    let mut left: Vec<(Time, u32)> = seen.iter().filter_map(|record| tracker.departure(&record, index)).collect();
    left.sort_unstable();
    offers(trace, scenario.duration, &left)
}

/// Returns a trace's opportunities. Packets that left at the time of an opportunity used it; `left` has their times, in
/// order, and their bytes.
fn offers(trace: &Trace, end: Time, left: &[(Time, u32)]) -> Vec<Offer> {
    let mut offers = Vec::new();
    let mut left = left.iter().peekable();
    let mut carried = 0u32;
    let period = trace.opportunities_ms.last().copied().unwrap_or(1).max(1);
    for start in (0..).map(|round| round * period) {
        for ms in &trace.opportunities_ms {
            let at = Time((start + ms) * 1_000_000);
            if at >= end {
                return offers;
            }
            while let Some((_, bytes)) = left.next_if(|(left_at, _)| *left_at <= at) {
                carried += bytes;
            }
            let used = carried.min(OPPORTUNITY);
            carried -= used;
            offers.push(Offer { at, bytes: OPPORTUNITY, used });
        }
    }
    offers
}

/// Returns a function that tells whether the next packet of MTU size would be refused, by the limit of the whole
/// discipline.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::played::Connection;
    use crate::flows::{FIRST_PORT, SERVICE};
    use crate::probe;
    use sojourn_core::qdisc::DropReason;
    use sojourn_model::plan::{LoadOptions, Plan};
    use sojourn_model::records::Kind;
    use sojourn_model::workload::driver::Observation;
    use std::net::Ipv4Addr;
    use tracker::{SYN, TCP, UDP};

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

    /// A packet of the first flow from the left, in the module's format.
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

    /// The guest's record of the loss has its time only; that of the world `live` has the packet's arrival too.
    #[test]
    fn a_packet_lost_behind_its_link_was_sent_and_is_dropped_and_counts_once() {
        let probe::Fate::Dropped(of_live) = probe::Fate::of(DropReason::Loss) else { panic!("a drop") };
        for (at, code) in [(6_000, probe::IMPAIRED), (5_000, of_live)] {
            let mut loss = packet(0, 8, 1448, 0x10, at, (1, code));
            loss[48..56].copy_from_slice(&(ORIGIN + 6_000).to_le_bytes());
            loss[56..64].copy_from_slice(&(ORIGIN + 6_000).to_le_bytes());
            let seen = [
                packet(0, 7, 0, SYN, 0, (0, 0)),
                packet(0, 8, 1448, 0x10, 5_000, (0, 0)),
                loss,
                packet(0, 8, 1448, 0x10, 90_000, (0, 0)),
                packet(2, 8, 1448, 0x10, 95_000, (0, 0)),
            ];
            let output = observed(&seen);
            let (link, flow) = (&output.links[0].main, &output.flows[0].main);
            assert_eq!((link.delivered_packets, link.drops), (3, 1));
            assert_eq!(link.drops_by_reason.of(DropReason::Loss), 1);
            assert_eq!((flow.packets, flow.drops), (3, 1));
            assert_eq!(link.queue_packets.as_ref().map(|packets| packets.max), Some(0.0));
            let of_loss = output.packets.iter().find(|record| record.is_loss()).expect("a loss");
            assert_eq!((of_loss.kind, of_loss.end.0), (Kind::Data, 6_000));
            let last = output.packets.last().expect("packets");
            assert_eq!((last.link, last.kind), (2, Kind::Retransmit));
        }
    }

    #[test]
    fn a_segment_that_was_sent_once_is_new_to_every_hop() {
        let seen = [0, 2].map(|link| packet(link, 8, 1448, 0x10, 5_000 + u64::from(link) * 5_000, (0, 0)));
        let kinds: Vec<Kind> = observed(&seen).packets.iter().map(|record| record.kind).collect();
        assert_eq!(kinds, [Kind::Data; 2]);
    }

    /// The module records packets that are dropped on arrival before packets that are queued.
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
            played.events.push((sent, 0, Observation::Sent));
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

    /// The output of a run whose only flow is a program of the user's.
    fn observed_of_a_program(seen: &[[u8; 64]], played: &Played) -> Output {
        let flow = "[[flow]]\nkind = \"command\"\nname = \"get\"\ncommand = \"curl {server}\"\nrtt = \"40ms\"\n";
        let text = format!("duration = \"1s\"\n[[hop]]\nrate = \"10mbit\"\n{flow}");
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        let (scenario, keep) = (plan.scenario(0).expect("a sound run"), Keep { packets: true, series: false });
        output(&scenario, MODE, played, (&seen.concat(), b"{}"), ORIGIN, keep).expect("sound files")
    }

    /// A packet between these ports, as an answer in the other direction or not.
    fn of_program(mut packet: [u8; 64], ports: [u16; 2], protocol: u8, back: bool) -> [u8; 64] {
        let [a, b] = if back { [ports[1], ports[0]] } else { ports };
        packet[24..26].copy_from_slice(&a.to_le_bytes());
        packet[26..28].copy_from_slice(&b.to_le_bytes());
        packet[28] = protocol;
        if back {
            let (from, to) = packet[16..24].split_at_mut(4);
            from.swap_with_slice(to);
        }
        packet
    }

    #[test]
    fn all_packets_between_the_hosts_of_a_program_are_its_own() {
        let tcp = |link, seq, payload, flags, at, ports| {
            of_program(packet(link, seq, payload, flags, at, (0, 0)), ports, TCP, link == 1)
        };
        let ports = [40_000, 80];
        let seen = [
            tcp(0, 7, 0, SYN, 0, ports),
            tcp(1, 90, 0, SYN | 0x10, 1_000, ports),
            tcp(0, 8, 1448, 0x10, 2_000, ports),
            tcp(1, 91, 0, 0x10, 3_000, ports),
            tcp(1, 91, 1448, 0x10, 4_000, ports),
            tcp(0, 8, 1448, 0x10, 5_000, ports),
            // The same ports are used again.
            tcp(0, 5, 0, SYN, 6_000, ports),
            tcp(0, 6, 1448, 0x10, 7_000, ports),
            tcp(0, 6, 0, SYN, 8_000, [40_001, 80]),
            of_program(packet(0, 5, 100, 0, 9_000, (0, 0)), [53, 53], UDP, false),
        ];
        let output = observed_of_a_program(&seen, &Played::default());
        let mut found: Vec<_> = output.packets.iter().collect();
        found.sort_by_key(|record| record.arrival);
        let found: Vec<_> = found.iter().map(|one| (one.link, one.connection, one.kind, one.seq)).collect();
        use Kind::{Ack, Data, Datagram, Retransmit, Syn};
        let expected = [
            (0, 0, Syn, 0),
            (1, 0, Syn, 0),
            (0, 0, Data, 0),
            (1, 0, Ack, 0),
            (1, 0, Data, 0),
            (0, 0, Retransmit, 0),
            (0, 1, Syn, 0),
            (0, 1, Data, 0),
            (0, 2, Syn, 0),
            (0, 3, Datagram, 5),
        ];
        // The number in an ACK is that of the segment after the SYN's, of which this format's packets tell nothing.
        let plain = |&(link, connection, kind, seq): &(u16, u32, Kind, u32)| {
            (link, connection, kind, if kind == Ack { 0 } else { seq })
        };
        assert_eq!(found.iter().map(plain).collect::<Vec<_>>(), expected);
        assert_eq!(output.flows[0].main.packets, 9, "all but the ACK");
        assert_eq!(output.links.iter().map(|link| link.main.delivered_packets).collect::<Vec<_>>(), [7, 3]);
    }

    #[test]
    fn the_end_of_a_program_is_in_its_row() {
        let program = crate::flows::played::Program {
            entry: 0,
            argv: ["curl", "10.1.0.1"].map(str::to_owned).to_vec(),
            exit: Some(7),
            signal: None,
            stopped: false,
            times: [500_000_000, 750_000_000],
            said: ["out", "err"].map(str::to_owned),
        };
        let output = observed_of_a_program(&[], &Played { programs: vec![program], ..Played::default() });
        let found = serde_json::to_value(&output.flows[0].main).expect("plain values");
        let expected = serde_json::json!({
            "argv": ["curl", "10.1.0.1"], "exit": 7, "signal": null, "stopped": false,
            "started_s": 0.5, "ended_s": 0.75, "stdout": "out", "stderr": "err",
        });
        assert_eq!((&found["command"], &found["cc"]), (&expected, &Value::Null));
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
        // Nine opportunities carried 750 bytes; the tenth is at the end.
        assert_eq!(output.links[0].main.utilisation, Some(750.0 / (9.0 * 1500.0)));
    }
}
