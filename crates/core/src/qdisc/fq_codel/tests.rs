//! FQ-CoDel: the vectors of the literature, RFC 8290 statement by statement, and a slow, obvious model on random traces.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::packet::Ecn;
use crate::qdisc::codel::{Codel, Linux, Linux7, Rfc8289};
use crate::qdisc::tc::Spec;
use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
use crate::rng::Rng;
use proptest::prelude::*;

type Fq = Bench<FqCodel<Parcel, Linux>>;

fn fq_codel(params: Params) -> Fq {
    Bench::new(FqCodel::new(&params, &CONTEXT))
}

/// A hash that is mapped to this queue out of 1024.
fn queue(number: u32) -> u32 {
    number << 22
}

fn deficit(bench: &Fq, number: u32) -> i32 {
    bench.qdisc.flows.flow(number).credit
}

fn lists(bench: &Fq) -> (u32, u32) {
    (bench.qdisc.flows.new_len(), bench.qdisc.flows.old_len())
}

#[test]
fn vector_ns3_quantum_90_and_packets_of_120_bytes() {
    // Below tc's least quantum; the vector is for the algorithm.
    let mut bench = fq_codel(Params { quantum: Some(90), ..Params::default() });
    let (one, two) = (queue(1), queue(2));
    bench.fill(ms(0), one, 120, 5);
    assert_eq!(bench.take_flow(ms(0)), Some(one));
    assert_eq!((deficit(&bench, 1), lists(&bench)), (-30, (1, 0)));
    bench.fill(ms(0), two, 120, 5);
    assert_eq!(bench.take_flow(ms(0)), Some(two));
    assert_eq!((deficit(&bench, 1), deficit(&bench, 2), lists(&bench)), (60, -30, (1, 1)));
    assert_eq!(bench.take_flow(ms(0)), Some(one));
    assert_eq!((deficit(&bench, 1), deficit(&bench, 2), lists(&bench)), (-60, 60, (0, 2)));
    assert_eq!(bench.take_flow(ms(0)), Some(two));
    assert_eq!((deficit(&bench, 1), deficit(&bench, 2)), (30, -60));
    assert_eq!(bench.take_flow(ms(0)), Some(one));
}

#[test]
fn vector_overflow_takes_half_of_the_fattest_queues_bytes_from_its_head_and_tells_codel() {
    let mut bench = fq_codel(Params { limit: 20, ..Params::default() });
    bench.fill(ms(0), queue(1), 1000, 10);
    bench.fill(ms(0), queue(2), 900, 10);
    assert!(bench.new_drops().is_empty(), "the limit may be met");
    bench.put(ms(0), queue(3), 100);
    // 10 000 bytes in queue 1: its 5 oldest packets make half of them.
    assert_eq!(bench.new_drops(), [0, 1, 2, 3, 4].map(|id| (id, DropReason::Overlimit)));
    assert_eq!(bench.qdisc.flows.flow(1).state.count, 5);
    assert_eq!((bench.qdisc.packets(), bench.counter("drop_overlimit")), (16, 5));
    assert_eq!(bench.counter("drop_overmemory"), 0);
}

#[test]
fn rfc8290_overflow_takes_half_of_the_fattest_queues_packets_and_codel_takes_no_notice() {
    let params = Params { limit: 20, variant: Variant::Rfc8290, ..Params::default() };
    let mut bench = Bench::new(FqCodel::<Parcel, Rfc8289>::new(&params, &CONTEXT));
    // Nine packets, the first of them as long as the others together: half of the bytes would be one packet.
    bench.put(ms(0), queue(1), 8000);
    bench.fill(ms(0), queue(1), 1000, 8);
    bench.fill(ms(0), queue(2), 900, 11);
    bench.put(ms(0), queue(3), 100);
    assert_eq!(bench.new_drops(), [0, 1, 2, 3, 4].map(|id| (id, DropReason::Overlimit)), "five of nine");
    assert_eq!(bench.qdisc.flows.flow(1).state.count, 0);
}

/// ns-2's discipline with the default of 1024 bins.
fn ns2(params: Params) -> Bench<FqCodelNs2<Parcel>> {
    Bench::new(FqCodelNs2::new(&Params { variant: Variant::Ns2, ..params }, &CONTEXT))
}

#[test]
fn vector_ns2_serves_a_packet_a_turn_and_those_that_begin_first() {
    let mut bench = ns2(Params::default());
    bench.fill(ms(0), 1, 1000, 5);
    bench.fill(ms(0), 2, 100, 5);
    let served = |bench: &mut Bench<_>, count| (0..count).map(|_| bench.take_flow(ms(1)).unwrap()).collect::<Vec<_>>();
    assert_eq!(served(&mut bench, 4), [1, 2, 1, 2]);
    // Two begin, in their order, before the two that go on.
    bench.put(ms(1), 3, 100);
    bench.put(ms(1), 4, 100);
    assert_eq!(served(&mut bench, 8), [3, 4, 1, 2, 1, 2, 1, 2]);
    assert_eq!((bench.take_flow(ms(2)), bench.qdisc.packets(), bench.qdisc.backlog()), (None, 0, 0));
}

#[test]
fn vector_ns2_with_a_quantum_serves_bytes() {
    let mut bench = ns2(Params { quantum: Some(300), ..Params::default() });
    bench.fill(ms(0), 1, 300, 3);
    bench.fill(ms(0), 2, 100, 9);
    let served: Vec<_> = (0..12).map(|_| bench.take_flow(ms(1)).unwrap()).collect();
    assert_eq!(served, [1, 2, 2, 2, 1, 2, 2, 2, 1, 2, 2, 2]);
}

#[test]
fn vector_ns2_overflow_takes_the_last_packet_of_the_bin_with_most_and_the_arrival_is_queued() {
    let mut bench = ns2(Params { limit: 10, ..Params::default() });
    bench.fill(ms(0), 1, 100, 6);
    bench.fill(ms(0), 2, 1500, 4);
    bench.put(ms(0), 3, 100);
    assert_eq!(bench.new_drops(), [(5, DropReason::Overlimit)], "most packets, not bytes");
    bench.put(ms(0), 3, 100);
    // Bin 1 holds five and bin 2 four; ns-2 looks for another bin only among equals.
    assert_eq!(bench.new_drops(), [(4, DropReason::Overlimit)]);
    bench.put(ms(0), 3, 100);
    assert_eq!(bench.new_drops(), [(9, DropReason::Overlimit)], "four each: another one than the last time");
    assert_eq!(bench.qdisc.packets(), 10);
}

#[test]
fn vector_ns2_a_bin_that_drops_leaves_the_others_codel_alone() {
    let mut bench = ns2(Params::default());
    bench.fill(ms(0), 1, 1000, 400);
    for at in 6..=300 {
        bench.put(ms(at), 2, 100);
        bench.take(ms(at));
        bench.take(ms(at));
    }
    let drops = bench.new_drops();
    assert!(drops.len() > 2 && drops.iter().all(|(id, reason)| *id < 400 && *reason == DropReason::Codel), "{drops:?}");
}

#[test]
fn vector_ties_for_the_fattest_queue_go_to_the_lowest_number() {
    let mut bench = fq_codel(Params { limit: 3, drop_batch: 1, ..Params::default() });
    for number in [7, 5, 6] {
        bench.put(ms(0), queue(number), 1000);
    }
    bench.put(ms(0), queue(900), 1);
    assert_eq!(bench.new_drops(), [(1, DropReason::Overlimit)], "queue 5 came second and has the lowest number");
}

#[test]
fn vector_the_mtu_test_takes_the_whole_backlog() {
    // A queue that never holds more than one packet behind the head is dropped from because others are full.
    let run = |others: u32| {
        let mut bench = fq_codel(Params::default());
        bench.fill(ms(0), queue(1), 1000, 3);
        bench.fill(ms(0), queue(2), 1000, others);
        for at in 1..400 {
            if bench.take(ms(at * 10)).is_some_and(|packet| packet.hash == queue(1)) {
                bench.put(ms(at * 10), queue(1), 500);
            }
        }
        bench.drops.iter().any(|(packet, reason)| packet.hash == queue(1) && *reason == DropReason::Codel)
    };
    assert!(run(300));
    assert!(!run(0), "500 bytes behind the head are no more than an MTU");
}

#[test]
fn vector_linux7_drops_at_most_256_packets_in_one_dequeue() {
    fn worst<L: Law>() -> usize {
        let mut bench =
            Bench::new(FqCodel::<Parcel, L>::new(&Params { limit: 1 << 20, ..Params::default() }, &CONTEXT));
        bench.fill(ms(0), queue(1), 100, 60_000);
        let mut worst = 0;
        for at in [1, 200, 400, 100_000, 100_001] {
            bench.take(ms(at));
            worst = worst.max(bench.new_drops().len());
        }
        worst
    }
    assert_eq!(worst::<Linux7>(), 256);
    assert!(worst::<Linux>() > 256);
}

#[test]
fn rfc8290_statement_01_there_are_1024_queues_and_the_hash_alone_chooses() {
    let bench = fq_codel(Params::default());
    assert_eq!(Params::default().flows, 1024);
    for (hash, number) in [(0, 0), (u32::MAX, 1023), (1 << 22, 1), ((1 << 22) - 1, 0), (1 << 31, 512)] {
        assert_eq!(bench.qdisc.classify(hash), number, "{hash:#x}");
    }
    // A flow is what has one hash: the world makes it of addresses, protocol and ports (0 where there are none).
    let mut bench = fq_codel(Params::default());
    bench.put(ms(0), 12_345, 100);
    bench.put(ms(0), 12_345, 1400);
    assert_eq!(bench.counter("new_flow_count"), 1);
}

#[test]
fn rfc8290_statement_02_a_new_queue_joins_the_end_of_the_new_list_with_a_quantum_of_1514() {
    let mut bench = fq_codel(Params::default());
    for number in [3, 1, 2] {
        bench.put(ms(0), queue(number), 1514);
        assert_eq!(deficit(&bench, number), 1514);
    }
    assert_eq!(lists(&bench), (3, 0));
    let order: Vec<_> = (0..3).filter_map(|_| bench.take_flow(ms(0))).collect();
    assert_eq!(order, [queue(3), queue(1), queue(2)]);
}

#[test]
fn rfc8290_statement_03_new_queues_go_first_and_a_spent_quantum_sends_to_the_end_of_the_old_ones() {
    let mut bench = fq_codel(Params::default());
    bench.fill(ms(0), queue(1), 1514, 4);
    bench.fill(ms(0), queue(2), 1514, 4);
    assert_eq!(bench.take_flow(ms(0)), Some(queue(1)));
    assert_eq!(bench.take_flow(ms(0)), Some(queue(2)), "queue 1 has used its quantum and is old");
    bench.put(ms(0), queue(3), 100);
    assert_eq!(bench.take_flow(ms(0)), Some(queue(3)), "a new queue goes before the old ones");
    assert_eq!(bench.take_flow(ms(0)), Some(queue(1)));
    assert_eq!(bench.take_flow(ms(0)), Some(queue(2)));
}

#[test]
fn rfc8290_statement_04_a_new_queue_that_empties_moves_to_the_old_list() {
    let mut bench = fq_codel(Params::default());
    bench.fill(ms(0), queue(1), 1514, 100);
    bench.take(ms(0));
    bench.put(ms(0), queue(2), 100);
    assert_eq!(bench.take_flow(ms(0)), Some(queue(2)));
    // Queue 2 is empty and still new; seen empty, it becomes old, and so it is not new again when it returns.
    assert_eq!(bench.take_flow(ms(0)), Some(queue(1)));
    assert_eq!(lists(&bench), (0, 2));
    bench.put(ms(0), queue(2), 100);
    assert_eq!((lists(&bench), bench.counter("new_flow_count")), ((0, 2), 2));
    // An old queue that is seen empty leaves.
    while bench.take(ms(0)).is_some() {}
    assert_eq!(lists(&bench), (0, 0));
}

#[test]
fn rfc8290_statement_04_flows_that_send_at_just_the_right_pace_starve_no_other() {
    // Two flows take turns to send one packet each before every dequeue: whenever one is seen empty, the other is new.
    // If an empty new queue just left, it would be new again with its next packet, and queue 1 would never be served.
    let mut bench = fq_codel(Params::default());
    bench.fill(ms(0), queue(1), 1514, 200);
    bench.take(ms(0));
    let mut served = 0;
    for turn in 0..200 {
        bench.put(ms(0), queue(2 + turn % 2), 100);
        served += u32::from(bench.take_flow(ms(0)) == Some(queue(1)));
    }
    assert!(served * 1514 >= (200 - served) * 100 / 2, "no fewer bytes than either of the two: {served} of 200");
}

#[test]
fn rfc8290_statement_05_turns_are_equal_in_bytes_not_packets() {
    let mut bench = fq_codel(Params { quantum: Some(1500), ..Params::default() });
    bench.fill(ms(0), queue(1), 500, 30);
    bench.fill(ms(0), queue(2), 1500, 10);
    let order: Vec<_> = (0..40).filter_map(|_| bench.take_flow(ms(0))).map(|hash| hash >> 22).collect();
    assert_eq!(order, [1, 1, 1, 2].repeat(10));
}

#[test]
fn rfc8290_statement_06_overflow_hits_the_queue_with_most_bytes_at_its_head_with_at_most_64_packets() {
    // More packets, fewer bytes: queue 1 is spared.
    let mut bench = fq_codel(Params { limit: 105, ..Params::default() });
    bench.fill(ms(0), queue(1), 64, 100);
    bench.fill(ms(0), queue(2), 1500, 5);
    bench.put(ms(0), queue(1), 64);
    assert_eq!(bench.new_drops().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [100, 101, 102]);
    let mut bench = fq_codel(Params { limit: 200, ..Params::default() });
    bench.fill(ms(0), queue(1), 1000, 201);
    assert_eq!(bench.new_drops().iter().map(|(id, _)| *id).collect::<Vec<_>>(), (0..64).collect::<Vec<_>>());
    assert_eq!(bench.qdisc.packets(), 137);
}

#[test]
fn rfc8290_statement_07_a_limit_of_10240_packets_and_32_mb_holds_for_all_queues_together() {
    let defaults = Params::default();
    assert_eq!((defaults.limit, defaults.memory_limit), (10_240, 32 << 20));
    let mut bench = fq_codel(defaults);
    for id in 0..10_240 {
        bench.put(ms(0), queue(id % 1024), 100);
    }
    assert!(bench.drops.is_empty() && bench.qdisc.is_full(1514));
    bench.put(ms(0), queue(1), 100);
    assert_eq!(bench.drops.len(), 6, "half the bytes of a queue of 11 packets");
    let mut bench = fq_codel(Params { memory_limit: 10_000, ..Params::default() });
    bench.fill(ms(0), queue(1), 1000, 10);
    assert!(bench.drops.is_empty() && bench.qdisc.is_full(1) && bench.counter("memory_used") == 10_000);
    bench.put(ms(0), queue(2), 1);
    assert_eq!(bench.drops.len(), 5);
    assert!(bench.drops.iter().all(|(_, reason)| *reason == DropReason::MemoryLimit));
    assert_eq!((bench.counter("drop_overlimit"), bench.counter("drop_overmemory")), (5, 5));
}

/// In Linux a full segment of TCP fills 2344 bytes.
#[test]
fn four_megabytes_hold_1789_full_segments_and_not_2770() {
    let params = Params { memory_limit: 4 << 20, ..Params::default() };
    for (skb, most) in [(830, 1789), (0, 2770)] {
        let mut bench = Bench::new(FqCodel::<Parcel, Linux>::new(&params, &Context { skb, ..CONTEXT }));
        bench.fill(ms(0), queue(1), 1514, most);
        assert!(bench.drops.is_empty() && bench.qdisc.is_full(1514));
        assert_eq!(bench.counter("memory_used"), u64::from(most) * (1514 + u64::from(skb)));
        bench.put(ms(0), queue(1), 1514);
        assert!(bench.new_drops().iter().all(|(_, reason)| *reason == DropReason::MemoryLimit));
        assert_eq!(bench.counter("drop_overmemory"), 64, "a batch");
    }
}

#[test]
fn ce_threshold_selector_marks_only_packets_whose_ds_field_matches() {
    let fate = |selector: &str, dscp: u8, ecn: Ecn| {
        let line = format!("fq_codel ce_threshold 1ms {selector}");
        let spec: Spec = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(spec.to_string().parse(), Ok(spec.clone()));
        let Spec::FqCodel(params) = spec else { panic!("{line}") };
        let mut bench = fq_codel(params);
        bench.arrive(ms(0), Parcel { hash: queue(1), bytes: 1000, ecn, dscp, ..Parcel::default() });
        bench.take(ms(2)).map(|packet| packet.ecn)
    };
    // Only ECT(1): what L4S sends.
    let l4s = "ce_threshold_selector 0x1/0x3";
    assert_eq!(fate(l4s, 0, Ecn::Ect1), Some(Ecn::Ce));
    assert_eq!(fate(l4s, 0, Ecn::Ect0), Some(Ecn::Ect0));
    assert_eq!(fate("", 0, Ecn::Ect0), Some(Ecn::Ce));
    // Only DSCP 46 (EF), whatever its ECN field says, as long as it can be marked.
    let ef = "ce_threshold_selector 0xb8/0xfc";
    assert_eq!(fate(ef, 46, Ecn::Ect0), Some(Ecn::Ce));
    assert_eq!(fate(ef, 45, Ecn::Ect0), Some(Ecn::Ect0));
    assert_eq!(fate(ef, 46, Ecn::NotEct), Some(Ecn::NotEct));
    // A value beyond its mask is never found; no mask finds all.
    assert_eq!(fate("ce_threshold_selector 0x4/0x3", 1, Ecn::Ect0), Some(Ecn::Ect0));
    assert_eq!(fate("ce_threshold_selector 0x4/0", 0, Ecn::Ect0), Some(Ecn::Ce));
}

#[test]
fn rfc8290_statement_08_ecn_is_on_by_default_and_ce_threshold_is_off_and_marks_at_once() {
    let late = |params: Params, ecn: Ecn| {
        let mut bench = fq_codel(params);
        (0..500).for_each(|_| {
            bench.put_ecn(ms(0), queue(1), 1000, ecn);
        });
        let marked = (20..400).filter_map(|at| bench.take(ms(at))).filter(|packet| packet.ecn == Ecn::Ce).count();
        (marked > 0, bench.drops.is_empty(), bench.counter("ecn_mark") > 0)
    };
    assert_eq!(late(Params::default(), Ecn::Ect0), (true, true, true));
    assert_eq!(late(Params::default(), Ecn::NotEct), (false, false, false));
    assert_eq!(late(Params { ecn: false, ..Params::default() }, Ecn::Ect0), (false, false, false));
    // 2 ms are nothing to CoDel, but above a threshold of 1 ms.
    for (ce_threshold, ecn, expected) in [
        (None, Ecn::Ect0, Ecn::Ect0),
        (Some(Span::from_millis(1)), Ecn::Ect0, Ecn::Ce),
        (Some(Span::from_millis(1)), Ecn::NotEct, Ecn::NotEct),
    ] {
        let mut bench = fq_codel(Params { ce_threshold, ..Params::default() });
        bench.put_ecn(ms(0), queue(1), 1000, ecn);
        assert_eq!(bench.take(ms(2)).map(|packet| packet.ecn), Some(expected));
        assert_eq!(bench.counter("ce_mark"), u64::from(expected == Ecn::Ce));
    }
}

#[test]
fn rfc8290_statement_10_a_queue_is_a_fifo() {
    let mut bench = fq_codel(Params::default());
    for id in 0..300 {
        bench.put(ms(0), queue(id * 7 % 5), 100 + id);
    }
    let mut last = [None; 5];
    while let Some(packet) = bench.take(ms(0)) {
        let flow = (packet.hash >> 22) as usize;
        assert!(last[flow] < Some(packet.id));
        last[flow] = Some(packet.id);
    }
}

#[test]
fn rfc8290_statement_11_codels_state_stays_with_the_queue_when_it_empties() {
    let mut bench = fq_codel(Params::default());
    bench.fill(ms(0), queue(1), 1000, 1000);
    (10..1000).for_each(|at| {
        bench.take(ms(at));
    });
    while bench.take(ms(1000)).is_some() {}
    assert_eq!(lists(&bench), (0, 0));
    let state = bench.qdisc.flows.flow(1).state;
    assert!(state.count > 3 && !state.dropping, "{state:?}");
    // Back soon and above target for an interval: it goes on at a higher count.
    bench.fill(ms(1001), queue(1), 1000, 500);
    (1010..1200).for_each(|at| {
        bench.take(ms(at));
    });
    let state = bench.qdisc.flows.flow(1).state;
    assert!(state.dropping && state.lastcount > 1, "{state:?}");
}

#[test]
fn rfc8290_statement_12_a_given_flow_is_alone_at_0_9078_and_all_100_are_at_0_0067() {
    let alone = libm::pow(1.0 - 1.0 / 1024.0, 99.0);
    let none_collides: f64 = (0..100).map(|i| 1.0 - f64::from(i) / 1024.0).product();
    assert!((alone - 0.9078).abs() < 5e-5, "{alone}");
    assert!((none_collides - 0.0067).abs() < 5e-5, "{none_collides}");

    let qdisc = fq_codel(Params::default()).qdisc;
    let mut rng = Rng::stream(1, "collisions");
    let (mut first_alone, mut all_alone) = (0, 0);
    const TRIALS: u32 = 20_000;
    for _ in 0..TRIALS {
        let mut held = [0u8; 1024];
        let first = qdisc.classify(rng.next_u32()) as usize;
        held[first] = 1;
        for _ in 1..100 {
            held[qdisc.classify(rng.next_u32()) as usize] += 1;
        }
        first_alone += u32::from(held[first] == 1);
        all_alone += u32::from(held.iter().all(|n| *n <= 1));
    }
    let share = |n: u32| f64::from(n) / f64::from(TRIALS);
    // Four standard errors.
    assert!((share(first_alone) - alone).abs() < 0.008, "{}", share(first_alone));
    assert!((share(all_alone) - none_collides).abs() < 0.0023, "{}", share(all_alone));
}

#[test]
fn rfc8290_statement_13_a_queue_costs_at_most_64_bytes() {
    assert!(size_of::<crate::qdisc::flows::Flow<Vars<Linux>>>() <= 64);
    assert!(size_of::<crate::qdisc::flows::Flow<Vars<Linux7>>>() <= 64);
}

#[test]
fn rfc8290_statement_14_a_target_below_the_time_of_one_mtu_drops_without_need() {
    // 1 Mbit/s: an MTU takes 12.1 ms. A queue of 24 packets of 64 bytes, just above an MTU, stands for 12.8 ms.
    let drops = |target| {
        let mut bench = fq_codel(Params { target: Span::from_millis(target), ..Params::default() });
        bench.fill(ms(0), queue(1), 64, 25);
        for step in 1..1000 {
            let now = Time(step * 512_000);
            bench.take(now);
            bench.put(now, queue(1), 64);
        }
        bench.drops.len()
    };
    assert!(drops(5) > 0);
    assert_eq!(drops(15), 0);
}

#[test]
fn rfc8290_statement_15_flows_in_one_tunnel_share_one_queue() {
    let mut bench = fq_codel(Params::default());
    // The sparse inner flow has the tunnel's hash, so it waits behind the bulk one; outside of the tunnel it would not.
    bench.fill(ms(0), queue(1), 1514, 20);
    let inside = bench.put(ms(0), queue(1), 100);
    let beside = bench.put(ms(0), queue(2), 100);
    let order: Vec<u32> = core::iter::from_fn(|| bench.take(ms(0))).map(|packet| packet.id).collect();
    assert_eq!(order.iter().position(|id| *id == beside), Some(1));
    assert_eq!(order.iter().position(|id| *id == inside), Some(21));
}

/// The next event of a random trace.
#[derive(Clone, Debug)]
enum Op {
    Put { flow: u32, bytes: u32, ecn: Ecn },
    Take,
}

/// Steps of time and operations: bursts, pauses, exact ties of time and of size.
fn trace(flows: u32) -> impl Strategy<Value = Vec<(u64, Op)>> {
    let step = prop_oneof![4 => Just(0u64), 4 => Just(1_000_000), 2 => 0u64..3_000_000, 1 => 0u64..300_000_000];
    let bytes = prop_oneof![3 => Just(1514u32), 2 => Just(757), 2 => 40u32..1515];
    let ecn = prop_oneof![3 => Just(Ecn::NotEct), 1 => Just(Ecn::Ect0)];
    let op = prop_oneof![
        5 => (0..flows, bytes, ecn).prop_map(|(flow, bytes, ecn)| Op::Put { flow, bytes, ecn }),
        4 => Just(Op::Take),
    ];
    prop::collection::vec((step, op), 1..600)
}

/// A simple model of fq_codel: queues of packets and lists of their numbers. It searches all queues for the one with
/// the most bytes.
struct Model {
    params: Params,
    control: Control<Linux>,
    queues: Vec<VecDeque<Parcel>>,
    vars: Vec<Vars<Linux>>,
    deficits: Vec<i64>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    drops: Vec<(Parcel, DropReason)>,
}

struct Whole<'a> {
    queues: &'a mut [VecDeque<Parcel>],
    number: usize,
}

impl Source<Parcel> for Whole<'_> {
    fn pop(&mut self, packet: &mut Parcel) -> bool {
        let head = self.queues[self.number].pop_front();
        head.inspect(|head| *packet = *head).is_some()
    }
    fn backlog(&self) -> u64 {
        self.queues.iter().flatten().map(|packet| u64::from(packet.bytes)).sum()
    }
}

impl Model {
    fn new(params: &Params) -> Self {
        let flows = params.flows as usize;
        Model {
            params: params.clone(),
            control: Control::new(params.target, params.interval, params.ce_threshold, CONTEXT.mtu, params.ecn),
            queues: alloc::vec![VecDeque::new(); flows],
            vars: alloc::vec![Vars::default(); flows],
            deficits: alloc::vec![0; flows],
            new: VecDeque::new(),
            old: VecDeque::new(),
            drops: Vec::new(),
        }
    }

    fn bytes(&self, number: usize) -> u64 {
        self.queues[number].iter().map(|packet| u64::from(packet.bytes)).sum()
    }

    fn put(&mut self, now: Time, mut packet: Parcel) {
        packet.enqueue_time = now;
        let number = ((u64::from(packet.hash) * self.queues.len() as u64) >> 32) as usize;
        self.queues[number].push_back(packet);
        if !self.new.contains(&number) && !self.old.contains(&number) {
            self.new.push_back(number);
            self.deficits[number] = i64::from(self.params.quantum.expect("given"));
        }
        let packets: usize = self.queues.iter().map(VecDeque::len).sum();
        let memory: u64 = (0..self.queues.len()).map(|number| self.bytes(number)).sum();
        let reason = match memory > u64::from(self.params.memory_limit) {
            true => DropReason::MemoryLimit,
            false if packets > self.params.limit as usize => DropReason::Overlimit,
            false => return,
        };
        let most = (0..self.queues.len()).map(|number| self.bytes(number)).max().expect("queues");
        let fattest = (0..self.queues.len()).find(|number| self.bytes(*number) == most).expect("the one with most");
        let mut dropped = 0;
        loop {
            let packet = self.queues[fattest].pop_front().expect("a packet");
            self.drops.push((packet, reason));
            dropped += 1;
            if dropped == self.params.drop_batch || most - self.bytes(fattest) >= most / 2 {
                break;
            }
        }
        self.vars[fattest].count += dropped;
    }

    fn take(&mut self, now: Time) -> Option<Parcel> {
        loop {
            let from_new = !self.new.is_empty();
            let number = *self.new.front().or(self.old.front())?;
            let list = if from_new { &mut self.new } else { &mut self.old };
            if self.deficits[number] <= 0 {
                self.deficits[number] += i64::from(self.params.quantum.expect("given"));
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let mut stats = codel::Stats::default();
            let mut source = Whole { queues: &mut self.queues, number };
            let mut packet = Parcel::default();
            if self.vars[number].dequeue(now, &mut packet, &self.control, &mut stats, &mut source, &mut self.drops) {
                self.deficits[number] -= i64::from(packet.bytes);
                return Some(packet);
            }
            list.pop_front();
            if from_new && !self.old.is_empty() {
                self.old.push_back(number);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_does_what_the_slow_and_obvious_model_does(
        trace in trace(12),
        limit in 5u32..60,
        memory_limit in prop_oneof![Just(32u32 << 20), 3_000u32..40_000],
        drop_batch in prop_oneof![Just(64u32), 1u32..5],
        quantum in prop_oneof![Just(1514u32), Just(300), Just(757)],
        ecn: bool,
    ) {
        let params = Params {
            limit, memory_limit, drop_batch, quantum: Some(quantum), ecn, flows: 8, ..Params::default()
        };
        let (mut bench, mut model, mut now) = (fq_codel(params.clone()), Model::new(&params), Time::ZERO);
        for (id, (step, op)) in (0..).zip(trace) {
            now += Span(step);
            match op {
                Op::Put { flow, bytes, ecn } => {
                    let hash = flow.wrapping_mul(2_654_435_769);
                    let packet = Parcel { id, hash, bytes, ecn, ..Parcel::default() };
                    bench.qdisc.enqueue(now, packet, &mut bench.drops);
                    model.put(now, packet);
                }
                Op::Take => prop_assert_eq!(bench.take(now), model.take(now)),
            }
            prop_assert_eq!(&bench.drops, &model.drops);
            prop_assert_eq!(lists(&bench), (model.new.len() as u32, model.old.len() as u32));
        }
    }

    #[test]
    fn rfc8290_statement_09_with_one_queue_it_behaves_as_codel(trace in trace(5), ecn: bool) {
        // Below the limit, of course: there codel drops at the tail.
        let params = Params { flows: 1, ecn, ..Params::default() };
        let plain = codel::Params { ecn, limit: 10_240, ..codel::Params::default() };
        let (mut one, mut codel) =
            (fq_codel(params), Bench::new(Codel::<Parcel, Linux>::new(&plain, &CONTEXT)));
        let mut now = Time::ZERO;
        for (step, op) in trace {
            now += Span(step);
            match op {
                Op::Put { flow, bytes, ecn } => {
                    one.put_ecn(now, flow.wrapping_mul(2_654_435_769), bytes, ecn);
                    codel.put_ecn(now, flow.wrapping_mul(2_654_435_769), bytes, ecn);
                }
                Op::Take => prop_assert_eq!(one.take(now), codel.take(now)),
            }
            prop_assert_eq!(&one.drops, &codel.drops);
        }
    }
}

#[test]
fn ns2_a_new_bin_goes_before_the_first_old_one_unless_that_is_the_last() {
    let mut bench =
        Bench::new(FqCodelNs2::<Parcel>::new(&Params { variant: Variant::Ns2, ..Params::default() }, &CONTEXT));
    bench.fill(ms(0), 1, 1514, 3);
    assert_eq!(bench.take_flow(ms(0)), Some(1));
    bench.put(ms(0), 2, 1514);
    bench.put(ms(0), 3, 1514);
    // Flow 2 found flow 1 alone and went behind it; flow 3 goes before it.
    let order: alloc::vec::Vec<u32> = core::iter::from_fn(|| bench.take_flow(ms(0))).collect();
    assert_eq!(order, [3, 1, 2, 1]);
}
