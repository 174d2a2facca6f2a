//! A slow and simple version of [`output`] for tests. It sorts a list of all packets, and a list of all inputs of the
//! flows' meters. Both versions must agree on random files.

use proptest::prelude::*;
use sojourn_core::units::Span;
use sojourn_measure::{FlowMeter, FlowReport, flow_setup};
use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::records::{Kind, PacketRecord};
use sojourn_model::workload::Direction;
use sojourn_model::workload::driver::Observation;

use super::*;
use crate::flows::played::Connection;
use crate::flows::{FIRST_PORT, SERVICE};
use crate::job::Sink;
use tracker::{SYN, TCP, UDP};

const ORIGIN: u64 = 1 << 40;
const MS: u64 = 1_000_000;

fn obvious(scenario: &Scenario, mode: Mode, played: &Played, seen: &[u8], keep: Keep) -> Output {
    let seen: Vec<Record> = Records::new(seen).expect("sound records").iter().collect();
    let mut packets: Vec<Packet> =
        seen.iter().filter_map(|one| if let Record::Packet(packet) = one { Some(*packet) } else { None }).collect();
    packets.sort_by_key(|packet| (packet.arrival, packet.link));
    for burst in packets.chunk_by_mut(|a, b| (a.arrival, a.link) == (b.arrival, b.link)) {
        let before_all = burst[0].seq.wrapping_sub(1 << 31);
        burst.sort_by_key(|packet| (packet.hosts, packet.ports, packet.seq.wrapping_sub(before_all)));
    }
    let mut tracker = Tracker::new(scenario, mode, played, ORIGIN);
    let mut list: Vec<PacketRecord> = packets.iter().filter_map(|packet| tracker.record(packet)).collect();
    for record in &list {
        assert_eq!(connection(played, record), record.connection);
    }
    list.sort_by_key(|record| (record.link, record.end, record.fate == Fate::Delivered));
    let links = (0..scenario.hops.len() * 2).map(|index| {
        let mut of_link: Vec<&PacketRecord> = list.iter().filter(|record| usize::from(record.link) == index).collect();
        let left = of_link.iter().filter(|record| record.fate == Fate::Delivered);
        let left: Vec<(Time, u32)> = left.map(|record| (record.end, record.bytes)).collect();
        let offers = match &scenario.link(index).rate {
            Capacity::Trace(trace) if mode.link == LinkKind::Device => offers(trace, scenario.duration, &left),
            _ => Vec::new(),
        };
        of_link.sort_by_key(|record| record.arrival);
        let mut replay = link(scenario, index, offers);
        of_link.into_iter().for_each(|record| replay.arrives(record));
        replay.finish()
    });
    let links = links.collect();
    let flows = flows(scenario, played, &seen, &list, keep);
    list.retain(|record| keep.packets && record.end < scenario.duration);
    Output { links, flows, packets: list, tcp: None, events: seen.len() as u64 }
}

/// Finds a connection by linear search: the last one of the record's entry and port that was opened before the packet
/// arrived, otherwise the first one.
fn connection(played: &Played, record: &PacketRecord) -> u32 {
    let found = &played.connections[record.connection as usize];
    let same = |one: &Connection| (one.entry, one.port) == (record.entry, found.port);
    let before = played.connections.iter().rposition(|one| same(one) && one.opened <= record.arrival.0);
    before.or_else(|| played.connections.iter().position(same)).expect("it was found") as u32
}

/// An input of a flow's meter.
#[derive(Clone, Copy)]
enum Input {
    Sent,
    Dropped,
    Socket(Record),
    Application(Observation),
}

fn flows(scenario: &Scenario, played: &Played, seen: &[Record], list: &[PacketRecord], keep: Keep) -> Vec<FlowReport> {
    let entries = &scenario.workload.entries;
    let mut inputs: Vec<(Time, usize, Input)> = Vec::new();
    for record in list {
        let entry = &entries[record.entry as usize];
        let (right, left) = ((entry.via.0 * 2) as u16, (entry.via.1 * 2 + 1) as u16);
        let first = if entry.direction == Direction::Right { right } else { left };
        let sends = record.link == first || (entry.answers() && (record.link == right || record.link == left));
        if sends && matches!(record.kind, Kind::Data | Kind::Retransmit | Kind::Syn) {
            inputs.push((record.arrival, record.entry as usize, Input::Sent));
        }
        if record.fate != Fate::Delivered {
            inputs.push((record.end, record.entry as usize, Input::Dropped));
        }
    }
    for record in seen {
        if let Record::Acked { socket, .. } | Record::Retransmitted { socket, .. } = record
            && let Some(entry) = topology::entry_of(socket.hosts).filter(|&entry| entry < entries.len())
        {
            inputs.push((time(socket.at, ORIGIN), entry, Input::Socket(*record)));
        }
    }
    inputs.extend(played.events.iter().map(|&(at, entry, seen)| (Time(at), entry as usize, Input::Application(seen))));
    inputs.sort_by_key(|(at, entry, _)| (*at, *entry));
    let setup = |entry| flow_setup(scenario, entry, keep.series);
    let mut meters: Vec<FlowMeter> = entries.iter().map(|entry| FlowMeter::new(&setup(entry))).collect();
    for (now, entry, input) in inputs {
        let meter = &mut meters[entry];
        match input {
            Input::Sent => meter.sent(now, 1),
            Input::Dropped => meter.dropped(now),
            Input::Socket(record) => flows::socket(meter, entries[entry].tcp.mss, now, &record),
            Input::Application(seen) => meter.observe(now, seen),
        }
    }
    let unfinished = played.unfinished.iter().copied().chain(std::iter::repeat(0));
    let ended = meters.into_iter().zip(entries).zip(unfinished);
    ended.map(|((meter, entry), unfinished)| meter.finish(setup(entry), unfinished)).collect()
}

/// Two hops, the second with a constant rate or a trace, and flows of all kinds.
fn scenarios() -> Vec<Scenario> {
    let flow = |keys: &str| format!("[[flow]]\n{keys}\nrtt = \"40ms\"\n");
    let flows =
        ["kind = \"bulk\"", "kind = \"bulk\"\ndirection = \"left\"", "kind = \"pings\"", "kind = \"voip\""].map(flow);
    let flows = flows.concat() + &flow("kind = \"web\"\nrate = 5");
    let text = "duration = \"100ms\"\nmeasure = [\"20ms\", \"90ms\"]\n[[hop]]\nrate = \"10mbit\"\nqdisc = \"codel\"\n\
                [[hop]]\nrate = \"5mbit\"\nqdisc = \"pfifo limit 4\"\n";
    let plan = Plan::load("t.toml", (text.to_owned() + &flows).as_bytes(), &LoadOptions::default());
    let steps = plan.expect("a sound file").scenario(0).expect("a sound run");
    let mut traced = steps.clone();
    traced.hops[1].right.rate = Capacity::Trace(Trace { opportunities_ms: vec![3, 4, 4, 11] }.into());
    vec![steps, traced]
}

/// A record in the module's format and the time of its fate, built from small numbers.
fn record(numbers: [u64; 12]) -> (u64, [u8; 64]) {
    let [kind, link, entry, side, port, seq, payload, flags, fate, at, wait, length] = numbers;
    let mut bytes = [0; 64];
    let mut put =
        |at: usize, value: u64, size: usize| bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    let hosts = [0x0a01_0001 + entry, 0x0a66_0001 + entry];
    let ports = [u64::from(FIRST_PORT) + port, u64::from(SERVICE)];
    let (at, side) = (ORIGIN + at * 2 * MS, side as usize);
    for (place, value) in [(16, hosts[side]), (20, hosts[1 - side])] {
        put(place, value, 4);
    }
    for (place, value) in [(24, ports[side]), (26, ports[1 - side])] {
        put(place, value, 2);
    }
    let payload = [0, 0, 1, 1448, 1448, 2896][payload as usize];
    put(0, [0, 0, 0, 0, 0, 1, 2, 3][kind as usize], 1);
    put(4, link, 2);
    put(12, payload, 4);
    put(32, (u64::from(u32::MAX) - 3000 + seq * 724) & u64::from(u32::MAX), 4);
    put(40, at, 8);
    if kind >= 5 {
        // Fields of a socket's or a ring's record.
        put(8, length * 1000, 4);
        put(36, wait * 1000, 4);
        put(48, wait, 8);
        return (at, bytes);
    }
    put(2, if seq.is_multiple_of(5) { 0b1110 } else { 0b1010 }, 1);
    put(3, [0x10, 0x10, 0x11, u64::from(SYN)][flags as usize], 1);
    put(8, payload + 66, 4);
    put(28, [TCP, TCP, 1, UDP, TCP][entry as usize % 5].into(), 1);
    put(36, seq * 724, 4);
    let (fate, reason, start, end) = match fate {
        0 => (1, 2, at, at),
        1 => (1, 3, at + wait * MS, at + wait * MS),
        2 => (2, 0, u64::MAX, u64::MAX),
        _ => (0, 0, at + wait * MS, at + (wait + length) * MS),
    };
    put(1, fate, 1);
    put(6, reason, 2);
    put(48, start, 8);
    put(56, end, 8);
    (end, bytes)
}

/// The probe's file. Times are on a grid so coarse that nearly all have a tie. Records are in the order of their fates,
/// as in the kernel, or in random order.
fn files() -> impl Strategy<Value = Vec<u8>> {
    let numbers = [8u64, 4, 6, 2, 2, 8, 6, 4, 8, 60, 12, 3].map(|limit| 0..limit);
    (prop::collection::vec(numbers, 0..300), any::<bool>()).prop_map(|(all, sorted)| {
        let mut records: Vec<(u64, [u8; 64])> = all.into_iter().map(record).collect();
        if sorted {
            records.sort_by_key(|(end, _)| *end);
        }
        records.into_iter().flat_map(|(_, bytes)| bytes).collect()
    })
}

/// Random results of applications: events and connections, several of which use the same port.
fn applications() -> impl Strategy<Value = Played> {
    let connection = (0u32..5, 0u16..2, 0u64..10).prop_map(|(entry, port, opened)| {
        let (port, opened) = (FIRST_PORT + port, opened * 10 * MS);
        Connection { entry, port, opened, backward: false }
    });
    let seen = prop_oneof![
        Just(Observation::Started),
        (0..9u64).prop_map(|ms| Observation::Completed { took: Span::from_millis(ms), ideal: Span::from_millis(1) }),
        Just(Observation::Pinged),
        (0..9u64).prop_map(|ms| Observation::Replied(Span::from_millis(ms))),
        Just(Observation::Sent),
        (0..9u32, 0..100u64).prop_map(|(number, ms)| Observation::Received { number, sent: Time(ms * MS) }),
    ];
    let events = prop::collection::vec((0u64..60, 0u32..5, seen), 0..60);
    (prop::collection::vec(connection, 0..20), events).prop_map(|(mut connections, events)| {
        connections.sort_by_key(|one| one.opened);
        let events = events.into_iter().map(|(at, entry, seen)| (at * 2 * MS, entry, seen)).collect();
        Played { connections, events, unfinished: vec![3, 0, 1], ..Played::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_walk_in_order_of_time_gives_what_sorted_lists_give(
        seen in files(),
        played in applications(),
        packets in any::<bool>(),
        link in prop_oneof![Just(LinkKind::Device), Just(LinkKind::Htb)],
    ) {
        let keep = Keep { packets, series: packets };
        let mode = Mode { link, probe: true, sink: Sink::Kernel };
        for scenario in scenarios() {
            let found = output(&scenario, mode, &played, (&seen, b"{}"), ORIGIN, keep).expect("sound files");
            let wanted = obvious(&scenario, mode, &played, &seen, keep);
            prop_assert_eq!(found.packets, wanted.packets);
            prop_assert_eq!(format!("{:?}", found.links), format!("{:?}", wanted.links));
            prop_assert_eq!(format!("{:?}", found.flows), format!("{:?}", wanted.flows));
            prop_assert_eq!(found.events, wanted.events);
        }
    }
}
