//! Comparison of the fast engine with the heap engine, and of both with results computed by hand.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::DropReason;
use sojourn_core::qdisc::LinkLayer;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::tcp::{AckPolicy, Cc, Config};
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::records::{Fate, PacketRecord};
use sojourn_model::scenario::{Access, Capacity, Hop, Link, Nic, Pause, QueueSize, Scenario, Trace};
use sojourn_model::workload::stream::{Codec, Playout, Stream, Transport, Voice};
use sojourn_model::workload::{App, Command, Delays, Direction, Entry, Exchange, Group, Host, WebConnection, Workload};

mod bare;
mod changes;
mod controls;
mod external;
mod flush;
mod hosts;
mod ledbat;
mod pause;
mod requeue;
mod rpm;

use crate::planted::{Fault, plant};
use crate::shortcuts::{self, ShortCuts};
use crate::topology::Topology;
use crate::{Engine, Options, Output, run};

/// No names of disciplines from outside.
const NOBODY: [&str; 0] = [];

fn link(rate: Rate, delay: Span, qdisc: &str) -> Link {
    Link {
        rate: Capacity::Steps(vec![(Time::ZERO, rate)]),
        delay: vec![(Time::ZERO, delay)],
        qdisc: qdisc.parse().expect("a tc line"),
        changes: Vec::new(),
        overhead: 0,
        linklayer: LinkLayer::Ethernet,
        nic: None,
        impair: None,
        pause: None,
        flush: false,
    }
}

fn hop(name: &str, rate: Rate, delay: Span, qdisc: &str) -> Hop {
    Hop { name: name.into(), right: link(rate, delay, qdisc), left: link(rate, delay, "pfifo limit 1000") }
}

fn bulk(start: Time) -> App {
    App::Bulk { active: vec![(start, Time::NEVER)] }
}

fn entry(name: &str, app: App, rest: Span) -> Entry {
    let quarter = Span(rest.0 / 4);
    Entry {
        name: name.into(),
        pool: None,
        kind: "bulk",
        direction: Direction::Right,
        via: (0, 0),
        tcp: Config::default(),
        dscp: 0,
        delays: Delays { data_in: quarter, data_out: quarter, ack_in: quarter, ack_out: quarter },
        ecn: Ecn::NotEct,
        tunnel: None,
        user: None,
        app,
    }
}

fn scenario(seconds: u64, hops: Vec<Hop>, entries: Vec<Entry>) -> Scenario {
    Scenario {
        title: "test".into(),
        duration: Time(seconds * 1_000_000_000),
        measure: (Time(seconds * 100_000_000), Time(seconds * 1_000_000_000)),
        seed: 1,
        hops,
        access: None,
        host: sojourn_model::scenario::Host::default(),
        workload: Workload { entries, groups: vec![] },
        longest_rtt: Span::from_millis(100),
    }
}

/// 10 Mbit/s, 80 ms, four bulk flows in one class.
fn dumbbell(qdisc: &str) -> Scenario {
    let flow = |i: u64| entry(&format!("bulk{i}"), bulk(Time(i * 137_000_000)), Span::from_millis(60));
    scenario(20, vec![hop("b", Rate(10_000_000), Span::from_millis(10), qdisc)], (0..4).map(flow).collect())
}

/// Twenty flows through CoDel whose RTTs differ by up to 4 ms, three of them not at all: lines are shared between
/// lanes, and packets of different lanes arrive at the same time.
fn many_rtts() -> Scenario {
    let rtt = |i: u64| Span(20_000_000 + i.saturating_sub(2) * 200_000 / (1 + i % 2));
    let flow = |i: u64| entry(&format!("bulk{i}"), bulk(Time(i % 5 * 10_000_000)), rtt(i));
    scenario(10, vec![hop("b", Rate(30_000_000), Span::ZERO, "codel limit 100")], (0..20).map(flow).collect())
}

/// Twelve classes over two hops, more sources than the linear schedule takes, with flows of every kind and in both
/// directions.
fn zoo() -> Scenario {
    let mut entries: Vec<Entry> = (0..6)
        .map(|i| entry(&format!("bulk{i}"), bulk(Time(i * 50_000_000)), Span::from_millis(10 * (i + 1))))
        .collect();
    for (i, entry) in entries.iter_mut().enumerate() {
        entry.via = if i % 3 == 0 { (0, 1) } else { (i % 2, i % 2) };
        entry.direction = if i == 4 { Direction::Left } else { Direction::Right };
        entry.tcp.cc = [Cc::Cubic, Cc::Reno][i % 2];
        entry.tcp.ecn = i == 2;
    }
    let gaps = vec![Span::from_millis(300); 100];
    let download = App::Download { start: Time(1), size: 100_000, gaps, stop: Time::NEVER };
    let exchange = Exchange { gap: Span::from_millis(5), request: 3000, server_delay: Span(77_777), response: 20_001 };
    let connection = |i: u64| WebConnection { start: Time(i * 170_000_000), exchanges: vec![exchange; 3] };
    let arrivals = (0..40).map(|i| (Time(i * 90_000_000), 1000 + i * 7919)).collect();
    let thin = App::Thin { start: Time(3), bytes: 150, interval: Span::from_millis(30), stop: Time::NEVER };
    let pings = App::Pings { start: Time(5), bytes: 84, interval: Span::from_millis(10), stop: Time::NEVER };
    for (name, app) in [
        ("download", download),
        ("web", App::Web { connections: (0..30).map(connection).collect() }),
        ("sizes", App::Sizes { arrivals, group: Some(0) }),
        ("thin", thin),
        ("pings", pings),
    ] {
        entries.push(Entry { via: (0, 1), ..entry(name, app, Span::from_millis(33)) });
    }
    let mut first = hop("first", Rate(9_000_000), Span::from_millis(3), "pfifo limit 40");
    first.right.rate = Capacity::Steps(vec![
        (Time::ZERO, Rate(9_000_000)),
        (Time(2_000_000_000), Rate(1_500_000)),
        (Time(3_000_000_000), Rate(9_000_000)),
    ]);
    let mut second = hop("second", Rate(7_000_000), Span::from_millis(2), "pfifo limit 30");
    second.right.delay = vec![(Time::ZERO, Span::from_millis(9)), (Time(4_000_000_000), Span::from_millis(1))];
    let mut zoo = scenario(8, vec![first, second], entries);
    zoo.workload.groups.push(Group { name: "g".into(), max_active: 3 });
    zoo
}

fn with_access(mut scenario: Scenario) -> Scenario {
    scenario.access = Some(Access { rate: Rate(20_000_000), delay: Span::from_millis(1), limit: 20 });
    scenario
}

fn traced() -> Scenario {
    let mut traced = dumbbell("pfifo limit 50");
    let opportunities_ms = (0..3000u64).map(|i| i + (i / 100) % 7 * 3).collect::<Vec<_>>();
    let mut sorted = opportunities_ms;
    sorted.sort_unstable();
    traced.hops[0].right.rate = Capacity::Trace(Arc::new(Trace { opportunities_ms: sorted }));
    traced
}

fn output(scenario: &Scenario, engine: Engine) -> Output {
    run(scenario, &Options { engine, packets: true, crowd: Some(4), ..Options::default() }).expect("not stopped")
}

/// Results that must be equal: every packet's fate, every measure, every series.
fn digest(output: &Output) -> (Vec<PacketRecord>, String) {
    let links: Vec<_> = output.links.iter().map(|l| (&l.main, &l.startup, l.series.columns())).collect();
    let flows: Vec<_> = output.flows.iter().map(|f| (&f.main, &f.startup, f.series.columns())).collect();
    (output.packets.clone(), format!("{links:?} {flows:?} {:?}", output.tcp))
}

fn assert_engines_agree(name: &str, scenario: &Scenario) -> Output {
    let (fast, heap) = (output(scenario, Engine::Fast), output(scenario, Engine::Heap));
    let ((fast_packets, fast_report), (heap_packets, heap_report)) = (digest(&fast), digest(&heap));
    for (i, (f, h)) in fast_packets.iter().zip(&heap_packets).enumerate() {
        assert_eq!(f, h, "{name}: record {i}");
    }
    assert_eq!(fast_packets.len(), heap_packets.len(), "{name}");
    assert_eq!(fast_report, heap_report, "{name}");
    assert!(fast_packets.len() > 1000, "{name}: {} records", fast_packets.len());
    fast
}

/// The second hop of the zoo pauses the first one, which has a FIFO of constant rate.
fn paused() -> Scenario {
    let mut paused = zoo();
    paused.hops[0].right.rate = Capacity::Steps(vec![(Time::ZERO, Rate(9_000_000))]);
    let filling = |packets| QueueSize { packets, bytes: u64::MAX };
    paused.hops[1].right.pause = Some(Pause { stop: filling(20), go: filling(15) });
    paused
}

fn cases() -> Vec<(&'static str, Scenario)> {
    vec![
        ("dumbbell", dumbbell("pfifo limit 100")),
        ("dumbbell bfifo", dumbbell("bfifo limit 50000")),
        ("access", with_access(dumbbell("pfifo limit 100"))),
        ("zoo", zoo()),
        ("zoo with access", with_access(zoo())),
        ("trace", traced()),
        ("flow control", paused()),
        ("another limit", changes::with_changes("pfifo limit 100", &[(2000, "pfifo limit 20")])),
        ("many RTTs", many_rtts()),
    ]
}

#[test]
fn both_engines_give_identical_records() {
    for (name, scenario) in cases() {
        let output = assert_engines_agree(name, &scenario);
        assert!(output.packets.iter().any(|p| matches!(p.fate, Fate::Dropped(_))), "{name}: nothing was dropped");
    }
}

/// The fast engine prefetches the state of 300 flows.
#[test]
fn both_engines_give_identical_records_of_a_crowd() {
    for qdisc in ["fq_codel", "pfifo limit 200"] {
        let flow = |i: u64| entry(&format!("bulk{i}"), bulk(Time(i * 1_000_000)), Span::from_millis(20));
        let crowd = vec![hop("crowd", Rate(50_000_000), Span::from_millis(10), qdisc)];
        assert_engines_agree(qdisc, &scenario(2, crowd, (0..300).map(flow).collect()));
    }
}

#[test]
fn a_link_without_a_buffer_carries_what_one_of_the_same_rate_sends() {
    let rate = Rate(10_000_000);
    let hops = vec![
        hop("first", rate, Span::from_millis(5), "pfifo limit 30"),
        hop("second", rate, Span::from_millis(5), "noqueue"),
    ];
    let flow = Entry { via: (0, 1), ..entry("bulk", bulk(Time::ZERO), Span::from_millis(10)) };
    let output = assert_engines_agree("noqueue", &scenario(10, hops, vec![flow]));
    // Each packet arrives when the transmission of the previous one ends.
    assert_eq!(output.links[2].main.drops, 0);
    assert!(output.links[2].main.utilisation > Some(0.99));
}

/// The dumbbell with a network card, and the content of its ring.
fn with_card(qdisc: &str, nic: Nic) -> (Output, serde_json::Value) {
    let mut scenario = dumbbell(qdisc);
    scenario.hops[0].right.nic = Some(nic);
    let output = assert_engines_agree("card", &scenario);
    let ring = output.links[0].main.nic.clone().expect("a card");
    (output, ring)
}

#[test]
fn an_overloaded_ring_is_full_and_each_of_its_packets_adds_its_time() {
    let [bare, card] = [1, 40].map(|ring| with_card("pfifo limit 50", Nic { ring, bql: false, coalesce: Span::ZERO }));
    assert_eq!(card.1["ring_packets"]["max"], 40.0);
    assert_eq!(card.1["ring_packets"]["p50"], 40.0);
    let sojourn = |output: &Output| output.links[0].main.sojourn_ms.expect("packets").p50;
    let packets = (sojourn(&card.0) - sojourn(&bare.0)) / 1.2;
    assert!((30.0..45.0).contains(&packets), "{packets}");
    // A ring with one descriptor is the same as no card.
    let plain = output(&dumbbell("pfifo limit 50"), Engine::Fast);
    assert_eq!(digest(&bare.0).0, digest(&plain).0);
}

#[test]
fn byte_queue_limits_leave_the_queue_to_the_discipline() {
    let nic = Nic { ring: 512, bql: false, coalesce: Span::ZERO };
    let p95 = |output: &Output| output.links[0].main.sojourn_ms.expect("packets").p95;
    let [without, with] = [false, true].map(|bql| with_card("codel", Nic { bql, ..nic }));
    assert!(p95(&without.0) > 5.0 * p95(&with.0), "{} {}", p95(&without.0), p95(&with.0));
    assert!(with.1["ring_packets"]["mean"].as_f64() < Some(4.0), "{}", with.1);
    assert_eq!(without.1["bql_limit_bytes"], serde_json::Value::Null);
    assert!(with.1["bql_limit_bytes"]["max"].as_f64() >= Some(1514.0));
}

#[test]
fn a_ring_of_one_waits_for_its_interrupt_and_a_longer_one_does_not() {
    let coalesce = Span::from_millis(1);
    let [one, more] = [1, 8].map(|ring| with_card("pfifo limit 100", Nic { ring, bql: false, coalesce }));
    // 1.2 ms for a packet of 1500 bytes, 1 ms for the interrupt.
    let busy = |output: &Output| output.links[0].main.utilisation.expect("a rate");
    assert!((busy(&one.0) - 1.2 / 2.2).abs() < 0.01, "{}", busy(&one.0));
    assert!(busy(&more.0) > 0.99);
}

#[test]
fn what_finds_no_descriptor_before_a_link_without_a_queue_is_dropped() {
    let (output, ring) = with_card("noqueue", Nic { ring: 20, bql: false, coalesce: Span::ZERO });
    assert_eq!(ring["ring_packets"]["max"], 20.0);
    assert_eq!(output.links[0].main.drops, output.links[0].main.drops_by_reason.of(DropReason::Busy));
    assert!(output.links[0].main.drops > 0);
}

/// The dumbbell with this impairment in both directions of its link.
fn impaired(words: &str) -> Output {
    let mut scenario = dumbbell("pfifo limit 200");
    let impair = words.parse().expect("netem's words");
    scenario.hops[0].right.impair = Some(Box::new(impair));
    scenario.hops[0].left.impair = scenario.hops[0].right.impair.clone();
    assert_engines_agree(words, &scenario)
}

/// Jitter that reorders, in each direction and in both: the engines agree on what PAWS discards at either end.
#[test]
fn jitter_makes_paws_discard_segments_and_acks() {
    for (right, left) in [("delay 20ms 8ms", ""), ("", "delay 20ms 8ms"), ("delay 20ms 8ms", "delay 20ms 8ms 25%")] {
        let mut scenario = dumbbell("pfifo limit 200");
        let impair = |words: &str| (!words.is_empty()).then(|| Box::new(words.parse().expect("netem's words")));
        (scenario.hops[0].right.impair, scenario.hops[0].left.impair) = (impair(right), impair(left));
        let output = assert_engines_agree(&format!("{right}, back {left}"), &scenario);
        let discarded = |output: &Output| output.tcp.as_ref().expect("it counts")["PAWSEstab"].as_u64();
        assert!(discarded(&output) > Some(10), "{right}, back {left}: {:?}", output.tcp);
        scenario.workload.entries.iter_mut().for_each(|entry| entry.tcp.timestamps = false);
        assert_eq!(discarded(&assert_engines_agree("without timestamps", &scenario)), Some(0));
    }
}

#[test]
fn a_packet_lost_behind_the_link_has_been_transmitted() {
    let output = impaired("loss 1%");
    let window = &output.links[0].main;
    let share = window.drops_by_reason.of(DropReason::Loss) as f64 / window.delivered_packets as f64;
    assert!((share - 0.01).abs() < 0.003, "{share}");
    assert!(output.packets.iter().any(|packet| packet.fate == Fate::Dropped(DropReason::Loss)));
}

#[test]
fn tcp_gets_its_data_through_whatever_befalls_packets() {
    for (words, least) in [
        ("duplicate 20%", 8.0),
        ("loss gemodel 1% 30% duplicate 10%", 1.0),
        ("delay 30ms 10ms distribution normal", 0.5),
        ("delay 20ms reorder 10% gap 3", 0.5),
        ("slot 5ms 15ms packets 12", 3.0),
    ] {
        let output = impaired(words);
        let goodput: f64 = output.flows.iter().map(|flow| flow.main.goodput_mbit.unwrap_or_default()).sum();
        assert!(goodput > least, "{words}: {goodput} Mbit/s");
    }
}

#[test]
fn a_fault_planted_in_each_short_cut_is_seen() {
    for fault in [
        Fault::ClosedForm,
        Fault::Access,
        Fault::Fused,
        Fault::Gathered,
        Fault::DelayedAck,
        Fault::Overtake,
        Fault::Ahead,
        Fault::LazyTimer,
        Fault::Tie,
        Fault::Pause,
        Fault::Discipline,
    ] {
        let seen = cases().iter().any(|(_, scenario)| {
            plant(Some(fault));
            // A fault may also make time go backwards, which makes a meter panic.
            let broken = catch_unwind(AssertUnwindSafe(|| digest(&output(scenario, Engine::Fast))));
            plant(None);
            broken.ok() != Some(digest(&output(scenario, Engine::Heap)))
        });
        assert!(seen, "{fault:?} changes nothing");
    }
}

#[test]
fn what_only_linux_has_is_refused_before_anything_runs() {
    let mut asked = dumbbell("codel");
    assert_eq!(crate::refusal(&asked, &NOBODY), None);
    asked.workload.entries[1].tcp.cc = Cc::Linux("illinois");
    assert_eq!(
        crate::refusal(&asked, &NOBODY).as_deref(),
        Some("flow bulk1: cc illinois is not built yet in the simulator")
    );
    asked.hops[0].left.qdisc = Spec::of_linux("hhf").expect("one of Linux's");
    assert_eq!(
        crate::refusal(&asked, &NOBODY).as_deref(),
        Some("hop b.reverse: hhf is not built yet in the simulator")
    );
}

#[test]
fn programs_are_refused_before_anything_runs() {
    let mut asked = dumbbell("codel");
    let (argv, at) = (vec!["ls".to_owned()].into(), Host::Client);
    asked.workload.entries[1].app = App::Command(Command { argv, at, start: Time(0), stop: Time::NEVER });
    assert_eq!(
        crate::refusal(&asked, &NOBODY).as_deref(),
        Some("flow bulk1: command: only the live world runs programs; expected --world live")
    );
}

#[test]
fn what_acks_clock_shares_lines_and_datagrams_keep_their_own() {
    let is_shared = |scenario: &Scenario| {
        let topology = Topology::new(scenario);
        ShortCuts::new(scenario, &topology, &Options::default()).lines.iter().any(|line| line.shared)
    };
    let mut scenario = many_rtts();
    assert!(is_shared(&scenario));
    for entry in &mut scenario.workload.entries {
        entry.app = App::Stream(Stream {
            active: vec![(Time::ZERO, Time::NEVER)],
            interval: Span::from_millis(1),
            bytes: 200,
            transport: Transport::Udp,
            voice: None,
        });
    }
    assert!(!is_shared(&scenario));
}

#[test]
fn a_call_of_which_a_queue_drops_every_packet_is_lost_and_the_queue_has_no_delay() {
    let call = App::Stream(Stream {
        active: vec![(Time::ZERO, Time::NEVER)],
        interval: Span::from_millis(20),
        bytes: 200,
        transport: Transport::Udp,
        voice: Some(Voice { codec: Codec::G711, playout: Playout::Percentile(99) }),
    });
    let hops = vec![hop("b", Rate(5_000_000), Span::from_millis(10), "tbf rate 4mbit burst 100 latency 50ms")];
    // The last packets are still in flight to the queue when the run ends, which is shorter than a datagram's ten
    // seconds.
    let scenario = scenario(5, hops, vec![entry("voip0", call, Span::from_millis(100))]);
    for engine in [Engine::Fast, Engine::Heap] {
        let output = output(&scenario, engine);
        let (call, queue) = (&output.flows[0].main, &output.links[0].main);
        assert_eq!((call.loss_ratio, call.mos, call.goodput_mbit), (Some(1.0), Some(1.0), Some(0.0)), "{engine:?}");
        assert!(call.delay_ms.is_none() && call.jitter_ms.is_none() && call.drops > 200);
        assert_eq!((queue.delivered_packets, queue.queue_delay_ms, queue.standing_queue_ms), (0, None, None));
    }
}

/// A timer's ACK overtakes all ACKs that receivers have sent ahead of the clock. Twenty receivers that run 100 ms ahead
/// share a line; twenty that run 400 ms ahead do not, if they have such timers. Seven do not share either, because few
/// lines are compared linearly.
#[test]
fn acks_of_many_receivers_far_ahead_keep_their_own_lines() {
    let lines = |flows: u64, rtt: u64, acks: AckPolicy| {
        let flow = |i: u64| {
            let mut flow = entry("bulk", bulk(Time::ZERO), Span::from_millis(rtt) + Span(i * 4000));
            flow.tcp.acks = acks;
            flow
        };
        let hops = vec![hop("b", Rate(100_000_000), Span::ZERO, "codel")];
        let scenario = scenario(1, hops, (0..flows).map(flow).collect());
        let topology = Topology::new(&scenario);
        let cuts = ShortCuts::new(&scenario, &topology, &Options::default());
        let acks = (1..topology.lanes.len()).step_by(2).map(shortcuts::into);
        acks.filter(|&line| cuts.lines[line].ring == line).count()
    };
    assert_eq!(lines(20, 100, AckPolicy::Delayed), 1);
    assert_eq!(lines(20, 400, AckPolicy::Delayed), 20);
    assert_eq!(lines(20, 400, AckPolicy::Every), 1);
    assert_eq!(lines(7, 100, AckPolicy::Every), 7);
}

#[test]
fn more_different_delays_than_lanes_have_numbers_are_refused() {
    let of = |flows: u64| {
        let flow = |i: u64| entry("bulk", bulk(Time::ZERO), Span(i * 4000));
        crate::refusal(
            &scenario(1, vec![hop("b", Rate(1), Span::ZERO, "codel")], (0..flows).map(flow).collect()),
            &NOBODY,
        )
    };
    assert_eq!(of(16_384), None);
    let why = "flows: 16385 different paths, delays or hosts; at most 16384 are built";
    assert_eq!(of(16_385).as_deref(), Some(why));
}
