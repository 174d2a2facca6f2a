//! Tests of cake: tins, queues, shares of hosts, COBALT, the shaper, the ACK filter and the parameters.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::packet::{Ecn, Segment};
use crate::qdisc::tc::Spec;
use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
use crate::qdisc::{Count, Stats};
use crate::units::Span;

fn params(line: &str) -> Params {
    match line.parse() {
        Ok(Spec::Cake(params)) => params,
        other => panic!("{line}: {other:?}"),
    }
}

fn cake(line: &str) -> Bench<Cake<Parcel>> {
    Bench::new(Cake::new(&params(line), &CONTEXT))
}

/// Returns the bytes that each flow sends in `times` dequeues, while all flows always have packets queued.
fn shares(bench: &mut Bench<Cake<Parcel>>, flows: &[(u32, (u32, u32))], times: u32) -> BTreeMap<u32, u32> {
    let mut sent = BTreeMap::new();
    let one = |(hash, hosts)| Parcel { hash, hosts: Some(hosts), bytes: 1000, ..Parcel::default() };
    for &flow in flows {
        for _ in 0..3 {
            bench.arrive(ms(0), one(flow));
        }
    }
    for _ in 0..times {
        let packet = bench.take(ms(0)).expect("flows that never run dry");
        *sent.entry(packet.hash).or_default() += packet.bytes;
        bench.arrive(ms(0), Parcel { enqueue_time: Time::ZERO, ..packet });
    }
    sent
}

#[test]
fn a_line_of_tc_says_what_it_means() {
    let shown = "qdisc cake 8001: dev eth0 root refcnt 2 bandwidth unlimited diffserv3 triple-isolate nonat nowash \
                 no-ack-filter split-gso rtt 100ms raw overhead 0 ";
    assert_eq!(params(shown), Params { raw: true, overhead: Some(0), ..Params::default() });
    let shown = "cake bandwidth 20Mbit besteffort dual-srchost nat wash ingress ack-filter no-split-gso rtt 30ms atm \
                 overhead 18 mpu 64 memlimit 4Mb";
    let read = params(shown);
    assert_eq!((read.tins, read.flow_mode, read.atm), (TinMode::Besteffort, FlowMode::DualSrchost, LinkLayer::Atm));
    assert_eq!((read.overhead, read.mpu, read.memlimit), (Some(18), 64, 4 << 20));
    let line = "cake bandwidth 20mbit rtt 30ms besteffort dual-srchost nat wash no-split-gso ack-filter memlimit 4Mb \
                atm overhead 18 mpu 64 ingress";
    assert_eq!(Spec::Cake(read).tc_line().as_deref(), Some(line));
    assert_eq!(Spec::Cake(Params::default()).to_string(), "cake");
    assert_eq!(Spec::Cake(params("cake raw ptm")).to_string(), "cake raw ptm overhead 0");
}

#[test]
fn names_stand_for_round_trips_and_links() {
    assert_eq!(params("cake lan"), params("cake rtt 1ms"));
    assert_eq!(params("cake satellite unlimited").rtt, Span::from_secs(1));
    assert_eq!(params("cake diffserv"), params("cake diffserv4"));
    assert_eq!(params("cake ethernet ether-vlan"), params("cake overhead 42 mpu 84"));
    assert_eq!(params("cake pppoe-ptm"), params("cake ptm overhead 30"));
    assert_eq!(params("cake conservative"), params("cake atm overhead 48"));
    assert_eq!(params("cake docsis"), params("cake overhead 18 mpu 64"));
    assert_eq!(params("cake overhead -64").overhead, Some(-64));
    assert_eq!(params("cake atm overhead 5 raw"), Params { raw: true, overhead: Some(0), ..Params::default() });
}

#[test]
fn what_cannot_be_is_said() {
    let error = |line: &str| line.parse::<Spec>().expect_err(line).to_string();
    assert!(error("cake fwmark 0xff").contains("no mark of a firewall"));
    for line in ["cake autorate-ingress", "cake bandwidth 10mbit autorate-ingress"] {
        assert!(error(line).contains("leave this word out, and give a bandwidth if none is given"), "{line}");
    }
    assert!(error("cake overhead 257").contains("-64 to 256"));
    assert!(error("cake overhead 250 ethernet").contains("-64 to 256"));
    assert!(error("cake bestefort").contains("did you mean \"besteffort\"?"));
    assert!(error("cake bandwidth often").contains("or unlimited"));
}

#[test]
fn a_tins_times_follow_from_what_a_packet_takes_at_its_rate() {
    let of = |line: &str, tin: usize| {
        let cake = Cake::<Parcel>::new(&params(line), &CONTEXT);
        let tin = &cake.tins[tin];
        (tin.cobalt.target / 1000, tin.cobalt.interval / 1000, tin.flow_quantum)
    };
    assert_eq!(of("cake", 0), (5_000, 100_000, 1514));
    assert_eq!(of("cake rtt 10ms", 0), (500, 10_000, 1514));
    // 1514 bytes take 12.112 ms at 1 Mbit/s, and the target is 1.5 times that.
    assert_eq!(of("cake bandwidth 1mbit", 0), (18_168, 113_168, 300));
    // The bulk tin has a 16th of the rate, 7812 bytes a second: the target is 290.7 ms, and the interval twice that.
    assert_eq!(of("cake bandwidth 1mbit", 1), (290_706, 581_413, 300));
    assert_eq!(of("cake bandwidth 40mbit besteffort", 0), (5_000, 100_000, 1220));
    assert_eq!(of("cake bandwidth 100mbit", 0).2, 1514);
}

#[test]
fn dscps_go_to_the_tins_that_tc_cake_names() {
    let tin = |mode: TinMode, code: usize| mode.index()[code];
    let (le, cs0, cs1, af11, af21, cs3, af41, ef, cs6) = (1, 0, 8, 10, 18, 24, 34, 46, 48);
    let of = |mode| [le, cs0, cs1, af11, af21, cs3, af41, ef, cs6].map(|code| tin(mode, code));
    assert_eq!(of(TinMode::Besteffort), [0; 9]);
    assert_eq!(of(TinMode::Diffserv3), [1, 0, 1, 0, 0, 0, 0, 2, 2]);
    assert_eq!(of(TinMode::Diffserv4), [1, 0, 1, 0, 2, 2, 2, 3, 3]);
    assert_eq!(of(TinMode::Diffserv8), [0, 2, 1, 1, 4, 3, 3, 6, 7]);
    assert_eq!(of(TinMode::Precedence), [0, 0, 1, 1, 2, 3, 4, 5, 6]);
    for mode in TinMode::ALL {
        let used: BTreeSet<u8> = mode.index().iter().copied().collect();
        assert_eq!(used.len(), mode.order().len(), "{mode:?} has a code for each tin");
    }
}

#[test]
fn a_higher_tin_goes_first_until_its_share_is_used_up() {
    let mut bench = cake("cake bandwidth 8mbit diffserv4");
    for _ in 0..300 {
        bench.put_dscp(ms(0), 1, 1000, 0);
        bench.put_dscp(ms(0), 2, 1000, 46);
    }
    let mut now = ms(0);
    let mut sent = [0, 0];
    while sent[0] + sent[1] < 200 {
        match bench.take(now) {
            Some(packet) => sent[usize::from(packet.dscp == 46)] += 1,
            None => now = bench.qdisc.next_event(),
        }
    }
    // The rate of voice is a quarter. Best effort, whose rate is the whole bandwidth, gets the rest.
    assert!((48..=52).contains(&sent[1]), "{sent:?}");
}

#[test]
fn without_a_shaper_tins_share_by_their_weights() {
    let mut bench = cake("cake diffserv3");
    let one = |hash, dscp| Parcel { hash, bytes: 1000, dscp, ..Parcel::default() };
    let mut sent = BTreeMap::new();
    for (hash, dscp) in [(1, 0), (2, 8), (3, 46)] {
        for _ in 0..3 {
            bench.arrive(ms(0), one(hash, dscp));
        }
    }
    for _ in 0..2100 {
        let packet = bench.take(ms(0)).expect("never dry");
        *sent.entry(packet.dscp).or_insert(0) += 1;
        bench.arrive(ms(0), packet);
    }
    // The weights are 1024 for best effort, 64 for bulk and 256 for voice.
    assert!((1590..=1610).contains(&sent[&0]) && (95..=105).contains(&sent[&8]), "{sent:?}");
}

#[test]
fn wash_takes_the_dscp_away_after_it_has_told_the_tin() {
    let mut bench = cake("cake diffserv3 wash");
    bench.put_dscp(ms(0), 1, 1000, 46);
    assert_eq!(bench.counter("tins.2.sent_packets"), 1);
    assert_eq!(bench.take(ms(0)).map(|packet| packet.dscp), Some(0));
}

#[test]
fn eight_flows_of_a_set_have_queues_of_their_own_and_the_ninth_shares_one() {
    let mut bench = cake("cake besteffort flows");
    // All flows hash to the same set of queues.
    let flows: Vec<u32> = (0..9).map(|number| 7 + number * 1024).collect();
    for &flow in &flows[..8] {
        bench.put(ms(0), flow, 100);
    }
    assert_eq!((bench.counter("tins.0.way_misses"), bench.counter("tins.0.way_collisions")), (8, 0));
    bench.put(ms(0), flows[3], 100);
    assert_eq!(bench.counter("tins.0.way_indirect_hits"), 1);
    bench.put(ms(0), flows[8], 100);
    assert_eq!(bench.counter("tins.0.way_collisions"), 1);
    // The ninth flow has taken over the queue of the first, which would have to look for another one.
    let order: Vec<u32> = core::iter::from_fn(|| bench.take_flow(ms(0))).collect();
    assert_eq!(order.len(), 10);
    assert_eq!(order.iter().position(|&flow| flow == flows[8]), Some(1), "in the queue of the first: {order:?}");
}

#[test]
fn hosts_share_alike_however_many_flows_they_have() {
    // Source 1 has eight flows, source 2 has one; all to different hosts.
    let flows: Vec<(u32, (u32, u32))> = (0..9).map(|n| (n * 1_000_003, (if n < 8 { 1 } else { 2 }, 100 + n))).collect();
    let single = 8 * 1_000_003;
    let share = |line: &str| {
        let sent = shares(&mut cake(line), &flows, 9000);
        f64::from(sent[&single]) / f64::from(sent.values().sum::<u32>())
    };
    for line in ["cake besteffort dual-srchost", "cake besteffort triple-isolate", "cake besteffort srchost"] {
        assert!((share(line) - 0.5).abs() < 0.02, "{line}: {}", share(line));
    }
    for line in ["cake besteffort flows", "cake besteffort dual-dsthost", "cake besteffort hosts"] {
        assert!((share(line) - 1.0 / 9.0).abs() < 0.02, "{line}: {}", share(line));
    }
}

#[test]
fn a_sparse_flow_goes_before_those_with_a_backlog() {
    let mut bench = cake("cake besteffort");
    bench.fill(ms(0), 1, 1500, 20);
    for _ in 0..3 {
        bench.take(ms(0));
    }
    bench.put(ms(0), 2, 100);
    assert_eq!(bench.take_flow(ms(0)), Some(2));
}

#[test]
fn the_last_packet_of_a_queue_is_never_dropped_and_a_long_wait_ends_in_drops_at_a_rising_rate() {
    let mut bench = cake("cake besteffort");
    bench.fill(ms(0), 1, 1500, 400);
    let mut times = Vec::new();
    for tick in 0..10_000 {
        let now = ms(tick * 5);
        if bench.take(now).is_none() {
            break;
        }
        times.extend(bench.new_drops().iter().map(|_| tick * 5));
    }
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(times.len() > 50, "{times:?}");
    let mean = |gaps: &[u64]| gaps.iter().sum::<u64>() / gaps.len() as u64;
    assert!(mean(&gaps[..10]) > 2 * mean(&gaps[gaps.len() - 10..]), "{gaps:?}");
    // A queue with a single packet: it is sent although it waited for a minute.
    bench.put(ms(100_000), 1, 1500);
    assert_eq!(bench.take_flow(ms(160_000)), Some(1));
    assert!(bench.new_drops().is_empty());
}

#[test]
fn ecn_capable_packets_are_marked_by_codel() {
    let mut bench = cake("cake besteffort");
    for _ in 0..300 {
        bench.put_ecn(ms(0), 1, 1500, Ecn::Ect0);
    }
    let marked = (0..300).filter(|&tick| bench.take(ms(tick * 5)).is_some_and(|packet| packet.ecn == Ecn::Ce)).count();
    assert!(marked > 20, "{marked}");
    assert_eq!((bench.counter("tins.0.ecn_mark"), bench.drops.len()), (marked as u64, 0));
}

/// A queue's COBALT with a target of 5 ms and an interval of 100 ms.
fn cobalt() -> (cobalt::Vars, cobalt::Params, Rng) {
    let mut params = cobalt::Params::new(Variant::Linux7);
    (params.target, params.interval) = (5_000_000, 100_000_000);
    (cobalt::Vars::default(), params, Rng::stream(1, "test"))
}

#[test]
fn count_falls_step_by_step_once_the_delay_is_below_target() {
    let (mut vars, params, mut rng) = cobalt();
    let mut ask = |vars: &mut cobalt::Vars, now: u64, waited: u64| {
        let mut packet = Parcel { enqueue_time: ms(now - waited), bytes: 1500, ..Parcel::default() };
        vars.should_drop(ms(now), &mut packet, 0, &params, &mut rng)
    };
    ask(&mut vars, 1000, 0);
    let drops = (1001..3000).filter(|&now| ask(&mut vars, now, 50).is_some()).count() as u32;
    assert_eq!(vars.count, drops + 1);
    // `count` falls by one every 100 ms / sqrt(count), about 9 ms.
    let high = vars.count;
    ask(&mut vars, 3010, 0);
    assert!(vars.count >= high - 1);
    ask(&mut vars, 3200, 0);
    assert!((high - 23..high - 18).contains(&vars.count), "{high} {}", vars.count);
    ask(&mut vars, 60_000, 0);
    assert_eq!(vars.count, 0);
}

#[test]
fn a_new_queue_waits_no_interval_before_its_first_drop_as_in_linux() {
    let (mut vars, params, mut rng) = cobalt();
    let mut ask = |now: u64, waited: u64| {
        let mut packet = Parcel { enqueue_time: ms(now - waited), bytes: 1500, ..Parcel::default() };
        vars.should_drop(ms(now), &mut packet, 0, &params, &mut rng)
    };
    ask(1000, 0);
    assert_eq!((ask(1001, 6), ask(1002, 6)), (None, Some(DropReason::Codel)));
    // Much later `count` has fallen to 0, so the first drop waits for a whole interval.
    ask(5000, 0);
    let first = (5001..6000).find(|&now| ask(now, 6).is_some());
    assert_eq!(first, Some(5101));
}

#[test]
fn blue_rises_at_overflows_and_falls_when_the_queue_is_empty_once_in_a_target_each() {
    let (mut vars, params, mut rng) = cobalt();
    assert!(vars.queue_full(ms(100), &params), "it begins to act");
    assert!(!vars.queue_full(ms(104), &params));
    assert_eq!(vars.p_drop, 1 << 24, "1/256, once in 5 ms");
    assert!(!vars.queue_full(ms(106), &params));
    assert_eq!(vars.p_drop, 2 << 24);
    vars.queue_empty(ms(108), &params);
    assert_eq!(vars.p_drop, 2 << 24);
    vars.queue_empty(ms(112), &params);
    assert_eq!(vars.p_drop, (2 << 24) - (1 << 20), "1/4096 less");
    // BLUE drops ECN-capable packets too.
    vars.p_drop = u32::MAX;
    let mut packet = Parcel { enqueue_time: ms(112), ecn: Ecn::Ect0, ..Parcel::default() };
    assert_eq!(vars.should_drop(ms(112), &mut packet, 0, &params, &mut rng), Some(DropReason::Early));
    assert_eq!(packet.ecn, Ecn::Ect0);
    vars.p_drop = 1;
    assert!(vars.queue_empty(ms(200), &params), "it ceases to act");
}

#[test]
fn when_memory_is_used_up_the_longest_queue_loses_its_head() {
    let mut bench = cake("cake besteffort memlimit 10000");
    bench.fill(ms(0), 1, 1000, 4);
    bench.fill(ms(0), 2, 1000, 6);
    assert!(bench.qdisc.is_full(1) && bench.drops.is_empty());
    bench.put(ms(0), 3, 500);
    assert_eq!(bench.new_drops(), [(4, DropReason::Overlimit)]);
    assert_eq!((bench.counter("memory_limit"), bench.counter("memory_used")), (10_000, 10_500));
    assert_eq!(bench.counter("tins.0.unresponsive_flows"), 1);
}

/// In Linux a full TCP segment takes 2344 bytes of memory: without a rate, cake holds 6614 of them and not 10240.
#[test]
fn what_a_packet_takes_beside_its_length_counts_as_memory() {
    let mut bench = Bench::new(Cake::new(&params("cake besteffort memlimit 10000"), &Context { skb: 830, ..CONTEXT }));
    bench.fill(ms(0), 1, 1514, 4);
    assert!(bench.drops.is_empty() && bench.qdisc.is_full(1));
    bench.put(ms(0), 2, 66);
    assert_eq!(bench.new_drops(), [(0, DropReason::Overlimit)]);
    assert_eq!(bench.counter("memory_used"), 5 * 830 + 4 * 1514 + 66);
}

#[test]
fn the_buffer_holds_four_round_trips_and_at_least_4_mb_and_at_most_10240_packets() {
    let limit = |line: &str| cake(line).counter("memory_limit");
    assert_eq!(limit("cake"), 10_240 * 1514);
    assert_eq!(limit("cake bandwidth 10mbit"), 4 << 20);
    assert_eq!(limit("cake bandwidth 200mbit"), 10_000_000);
    assert_eq!(limit("cake bandwidth 1gbit"), 10_240 * 1514);
    assert_eq!(limit("cake bandwidth 1gbit memlimit 64Mb"), 64 << 20);
}

#[test]
fn a_shaper_lets_packets_leave_at_its_rate_with_what_they_take_up() {
    let mut bench = cake("cake bandwidth 8mbit besteffort overhead 100");
    bench.fill(ms(0), 1, 1014, 4);
    let (mut now, mut times) = (ms(0), Vec::new());
    while bench.qdisc.packets() > 0 {
        match bench.take(now) {
            Some(_) => times.push(now.0 / 1000),
            None => now = bench.qdisc.next_event(),
        }
    }
    // A packet of 1000 bytes and an overhead of 100 take 1100 µs, at one byte per microsecond.
    assert!(times.iter().zip([0u64, 1100, 2200, 3300]).all(|(&time, due)| time.abs_diff(due) <= 1), "{times:?}");
    assert_eq!((bench.qdisc.overlimits(), bench.counter("max_adj_size")), (3, 1100));
}

#[test]
fn at_ingress_dropped_packets_count_as_sent() {
    let rate = |line: &str| {
        let mut bench = cake(line);
        let (mut now, mut sent) = (ms(0), 0);
        while now < ms(4000) {
            while bench.qdisc.packets() < 200 {
                bench.put(now, 1, 1000);
            }
            match bench.take(now) {
                Some(_) => sent += 1,
                None => now = bench.qdisc.next_event(),
            }
        }
        (sent, bench.drops.len())
    };
    let (at_egress, _) = rate("cake bandwidth 8mbit besteffort");
    let (at_ingress, dropped) = rate("cake bandwidth 8mbit besteffort ingress");
    assert!((3999..=4001).contains(&at_egress), "{at_egress}");
    assert!(dropped > 100 && at_ingress < 3999, "{at_ingress} and {dropped}");
    // The rate never falls below two thirds of the bandwidth.
    assert!(at_ingress >= 2666, "{at_ingress}");
}

/// A pure ACK.
fn ack(number: u32) -> Segment {
    Segment { stream: 1, ack: number, acks: true, pure: true, ..Segment::default() }
}

/// Returns the numbers of the packets that the filter drops when these segments arrive in order.
fn filtered(line: &str, segments: &[Segment]) -> Vec<u32> {
    let mut bench = cake(line);
    for &segment in segments {
        bench.arrive(ms(0), Parcel { hash: 1, bytes: 66, segment: Some(segment), ..Parcel::default() });
    }
    let drops = bench.new_drops();
    assert!(drops.iter().all(|(_, reason)| *reason == DropReason::AckFilter));
    assert_eq!(bench.counter("tins.0.ack_drops"), drops.len() as u64);
    assert_eq!(bench.qdisc.packets(), segments.len() - drops.len());
    drops.iter().map(|(id, _)| *id).collect()
}

#[test]
fn of_acks_that_wait_one_is_left_before_the_newest_and_none_by_the_aggressive_filter() {
    let acks: Vec<Segment> = (1..=5).map(|number| ack(number * 1000)).collect();
    assert_eq!(filtered("cake besteffort", &acks), []);
    assert_eq!(filtered("cake besteffort ack-filter", &acks), [0, 1, 2]);
    assert_eq!(filtered("cake besteffort ack-filter-aggressive", &acks), [0, 1, 2, 3]);
}

#[test]
fn an_ack_that_says_more_than_that_it_acks_is_kept() {
    let filter = |odd: Segment| filtered("cake besteffort ack-filter", &[ack(1000), odd, ack(3000), ack(4000)]);
    assert_eq!(filter(ack(2000)), [0, 1]);
    // An ACK with another ECN echo protects the ACK before it, and is itself the only one with its echo.
    assert_eq!(filter(Segment { echo: 1, ..ack(2000) }), []);
    assert_eq!(filter(Segment { pure: false, ..ack(2000) }), [0], "data or other flags");
    assert_eq!(filter(Segment { stream: 2, ..ack(2000) }), [0], "another flow's");
    assert_eq!(filter(Segment { acks: false, ..ack(2000) }), [0], "no ACK");
    assert_eq!(filter(ack(9000)), [0], "a later number");
    assert_eq!(filter(Segment { stamps: Some((7, 7)), ..ack(2000) }), [0], "a later time");
    let sacks = |number, blocks: &[(u32, u32)]| {
        let mut segment = Segment { sack_count: blocks.len() as u8, ..ack(number) };
        segment.sacks[..blocks.len()].copy_from_slice(blocks);
        segment
    };
    assert_eq!(filter(sacks(2000, &[(5000, 6000)])), [0], "blocks that the newest has not");
    let line = "cake besteffort ack-filter";
    let (a, b) = (sacks(1000, &[(3000, 4000)]), sacks(1000, &[(3000, 5000)]));
    assert_eq!(filtered(line, &[a, b, sacks(1000, &[(3000, 6000)])]), [0], "all the same number, ever more blocks");
    assert_eq!(filtered(line, &[a, a, a]), [], "duplicates count");
    let dsack = sacks(1000, &[(500, 700)]);
    assert_eq!(filtered(line, &[dsack, a, b]), [], "a DSACK is said once");
}

#[test]
fn the_filter_takes_the_ack_out_of_the_queues_middle() {
    let mut bench = cake("cake besteffort ack-filter-aggressive");
    let data = Segment { pure: false, ..ack(10) };
    let come = [data, ack(1000), ack(2000)];
    for segment in come {
        bench.arrive(ms(0), Parcel { hash: 1, bytes: 100, segment: Some(segment), ..Parcel::default() });
    }
    let left: Vec<u32> = core::iter::from_fn(|| bench.take(ms(0)).map(|packet| packet.id)).collect();
    assert_eq!(left, [0, 2]);
    assert_eq!((bench.qdisc.packets(), bench.qdisc.backlog(), bench.counter("tins.0.backlog_bytes")), (0, 0, 0));
}

#[test]
fn the_statistics_have_tcs_names() {
    let mut bench = cake("cake diffserv3");
    bench.put(ms(0), 1, 1500);
    bench.take(ms(2));
    let stats = bench.qdisc.stats();
    let names = |stats: &Stats| stats.iter().map(|(key, _)| *key).collect::<BTreeSet<_>>().len();
    let Some((_, Count::Tins(tins))) = stats.last() else { panic!("{stats:?}") };
    assert_eq!((names(&stats), tins.iter().map(names).collect::<Vec<_>>()), (9, alloc::vec![20; 3]));
    // Bulk stands first, as in tc; a packet's delay moves the mean by a 256th.
    assert_eq!((bench.counter("tins.0.sent_packets"), bench.counter("tins.1.sent_packets")), (0, 1));
    assert_eq!((bench.counter("tins.1.avg_delay_us"), bench.counter("tins.1.peak_delay_us")), (7, 500));
    assert_eq!(bench.counter("tins.1.max_pkt_len"), 1500);
}
