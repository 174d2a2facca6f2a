//! dualpi2: RFC 9332 statement by statement, on both variants where they agree, and Linux's integers.

use alloc::vec::Vec;

use super::monitor::Monitor;
use super::params::Gains;
use super::*;
use crate::qdisc::testing::{Bench, CONTEXT, Parcel, counter, ms};

type Dual = Bench<DualPi2<Parcel>>;

const BOTH: [Variant; 2] = [Variant::Linux, Variant::Rfc9332];

fn dualpi2(params: &Params) -> Dual {
    Bench::new(DualPi2::new(params, &CONTEXT))
}

fn of(variant: Variant) -> Params {
    Params { limit: Some(10_000), variant, ..Params::default() }
}

/// Sets the base probability, until the next update.
fn set(bench: &mut Dual, p: f64) {
    match &mut bench.qdisc.controller {
        Controller::Linux(linux) => linux.prob = (p * f64::from(u32::MAX)) as u32,
        Controller::Rfc9332(rfc) => rfc.p = p,
    }
}

/// Enqueues and dequeues `count` packets with this ECN field, which never wait, at this base probability. Four packets
/// of the other queue are waiting. Returns how many packets were marked, and how many dropped.
fn signals(params: &Params, p: f64, ecn: Ecn, count: u32) -> (u32, u32) {
    let mut bench = dualpi2(params);
    set(&mut bench, p);
    let other = if matches!(ecn, Ecn::Ect1 | Ecn::Ce) { Ecn::NotEct } else { Ecn::Ect1 };
    (0..4).for_each(|_| _ = bench.put_ecn(ms(1), 9, 1514, other));
    let (mut marks, mut drops) = (0, 0);
    for _ in 0..count {
        let id = bench.put_ecn(ms(1), 1, 1000, ecn);
        // Its own queue's turn.
        bench.qdisc.wrr.credit = if matches!(ecn, Ecn::Ect1 | Ecn::Ce) { -1 << 20 } else { 1 << 20 };
        let others = bench.drops.len();
        let sent = bench.take(ms(1));
        match sent {
            Some(packet) if packet.id == id => marks += u32::from(packet.ecn == Ecn::Ce && ecn != Ecn::Ce),
            _ => {
                assert!(bench.drops[others..].iter().any(|(packet, _)| packet.id == id), "neither sent nor dropped");
                drops += 1;
                // The packet that was sent instead arrives again.
                bench.put_ecn(ms(1), 9, 1514, other);
            }
        }
    }
    (marks, drops)
}

fn about(count: u32, expected: f64) -> bool {
    (f64::from(count) - expected).abs() <= 0.1 * expected + 8.0
}

#[test]
fn rfc9332_statement_ect1_and_ce_go_into_the_l_queue_the_others_into_the_c_queue() {
    for variant in BOTH {
        let mut bench = dualpi2(&of(variant));
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            bench.put_ecn(ms(0), 1, 1000, ecn);
        }
        assert_eq!((bench.counter("pkts-in-c"), bench.counter("pkts-in-l")), (2, 2), "{variant:?}");
        let order: Vec<_> = (0..4).filter_map(|_| bench.take(ms(0))).map(|packet| packet.ecn).collect();
        assert_eq!(order, [Ecn::Ect1, Ecn::Ce, Ecn::NotEct, Ecn::Ect0], "L goes first on an idle link");
    }
    let mut bench = dualpi2(&Params { any_ect: true, ..of(Variant::Linux) });
    bench.put_ecn(ms(0), 1, 1000, Ecn::Ect0);
    bench.put_ecn(ms(0), 1, 1000, Ecn::NotEct);
    assert_eq!((bench.counter("pkts-in-c"), bench.counter("pkts-in-l")), (1, 1));
}

#[test]
fn rfc9332_statement_l_is_marked_with_k_p_and_c_with_p_squared_marks_for_ect_drops_for_the_rest() {
    for variant in BOTH {
        let n = 4000;
        let (marks, drops) = signals(&of(variant), 0.2, Ecn::Ect1, n);
        assert!(about(marks, 0.4 * f64::from(n)) && drops == 0, "{variant:?} L: {marks} {drops}");
        let (marks, drops) = signals(&of(variant), 0.2, Ecn::Ect0, n);
        assert!(about(marks, 0.04 * f64::from(n)) && drops == 0, "{variant:?} C, ECT(0): {marks} {drops}");
        let (marks, drops) = signals(&of(variant), 0.2, Ecn::NotEct, n);
        assert!(about(drops, 0.04 * f64::from(n)) && marks == 0, "{variant:?} C: {marks} {drops}");
    }
}

#[test]
fn rfc9332_statement_in_overload_both_queues_drop_with_p_c_and_what_remains_of_l_is_marked() {
    for variant in BOTH {
        let n = 4000;
        let (marks, drops) = signals(&of(variant), 0.6, Ecn::Ect1, n);
        assert!(about(drops, 0.36 * f64::from(n)), "{variant:?} L: {drops}");
        assert!(marks + drops >= n - 2, "{variant:?}: {marks} {drops}");
        for ecn in [Ecn::Ect0, Ecn::NotEct] {
            let (marks, drops) = signals(&of(variant), 0.6, ecn, n);
            assert!(about(drops, 0.36 * f64::from(n)) && marks == 0, "{variant:?} {ecn:?}: {marks} {drops}");
        }
    }
    let overflow = Params { drop_on_overload: false, ..of(Variant::Linux) };
    assert_eq!(signals(&overflow, 0.6, Ecn::Ect1, 100), (100, 0), "overflow: marks only");
}

#[test]
fn rfc9332_statement_overload_begins_at_a_probability_of_one_over_k_squared() {
    for (p, dropped) in [(0.499, false), (0.5, true)] {
        assert_eq!(signals(&of(Variant::Rfc9332), p, Ecn::Ect0, 50).1 > 0, dropped, "p' = {p}");
        assert_eq!(signals(&of(Variant::Rfc9332), p, Ecn::Ect1, 50).1 > 0, dropped, "p' = {p}");
    }
}

#[test]
fn rfc9332_statement_ce_stays_and_ect1_becomes_nothing_but_ce() {
    for variant in BOTH {
        let mut bench = dualpi2(&of(variant));
        for p in [0.0, 0.3, 0.45] {
            set(&mut bench, p);
            for ecn in [Ecn::Ect1, Ecn::Ce, Ecn::Ect0, Ecn::NotEct] {
                bench.put_ecn(ms(0), 1, 1000, ecn);
                bench.put_ecn(ms(0), 1, 1000, ecn);
            }
            let came: Vec<Ecn> = core::iter::from_fn(|| bench.take(ms(1))).map(|packet| packet.ecn).collect();
            assert!(!came.is_empty() && !came[..4].contains(&Ecn::NotEct) && !came[..4].contains(&Ecn::Ect0));
        }
    }
}

#[test]
fn rfc9332_statement_the_classic_queue_does_not_starve_and_no_capacity_is_left_idle() {
    for (variant, share) in [(Variant::Linux, 0.1), (Variant::Rfc9332, 1.0 / 16.0)] {
        let mut bench = dualpi2(&Params { alpha: Some(0.004), beta: Some(0.004), ..of(variant) });
        for _ in 0..1200 {
            bench.put_ecn(ms(0), 1, 1000, Ecn::Ect1);
            bench.put_ecn(ms(0), 2, 1000, Ecn::Ect0);
        }
        let classic = (0..1000).filter(|_| bench.take_flow(ms(0)) == Some(2)).count();
        assert!(about(classic as u32, 1000.0 * share), "{variant:?}: {classic}");
        let rest = (0..1400).filter(|_| bench.take(ms(0)).is_some()).count();
        assert_eq!(rest + bench.drops.len(), 1400, "one queue alone gets all");
    }
}

#[test]
fn rfc9332_statement_the_controller_takes_the_greater_delay_of_both_queues() {
    for variant in BOTH {
        for ecn in [Ecn::Ect1, Ecn::NotEct] {
            let mut bench = dualpi2(&of(variant));
            bench.put_ecn(ms(0), 1, 1000, ecn);
            bench.qdisc.update(ms(50));
            assert!(bench.counter("prob") > 0, "{variant:?} {ecn:?}");
        }
    }
}

#[test]
fn rfc9332_statement_the_defaults_follow_from_an_rtt_of_100_ms() {
    let rfc = Rfc9332::new(&Params { variant: Variant::Rfc9332, ..Params::default() });
    assert_eq!(Params::default().target, Span::from_millis(15));
    assert!((rfc.p_cl() - 0.0).abs() < 1e-12);
    // One update after 15 ms with a delay of 15 ms: beta of 3 Hz alone.
    let mut rfc = rfc;
    rfc.update(ms(15) + Span(1), (Some(ms(0)), None));
    assert!((rfc.p - 3.0 * 0.015).abs() < 1e-9, "{}", rfc.p);
    // The next, with a delay of 30 ms: alpha of 0.15 Hz times 15 ms more.
    rfc.update(ms(30) + Span(1), (Some(ms(0)), None));
    assert!((rfc.p - (3.0 * 0.030 + 0.15 * 0.015)).abs() < 1e-9, "{}", rfc.p);
    // 250 ms at 100 Mbit/s, room for an MTU always left.
    let mut bench = dualpi2(&Params { variant: Variant::Rfc9332, ..Params::default() });
    assert_eq!(bench.counter("memory-limit"), 3_125_000);
    bench.fill(ms(0), 1, 100, 32_000);
    // The last one in found no more than the limit less an MTU.
    let backlog = bench.qdisc.backlog();
    assert!(backlog > 3_125_000 - 1514 && backlog - 100 <= 3_125_000 - 1514, "{backlog}");
    assert_eq!(bench.drops[0].1, DropReason::Overlimit);
}

#[test]
fn rfc9332_statement_the_ramp_goes_from_800_us_to_1200_us_and_a_lone_packet_is_not_marked() {
    let mut bench = dualpi2(&of(Variant::Rfc9332));
    let mut marks = |waited: u64, behind: u32| {
        let mut marks = 0;
        for _ in 0..100 {
            bench.put_ecn(ms(0), 1, 1000, Ecn::Ect1);
            (0..behind).for_each(|_| _ = bench.put_ecn(ms(0), 1, 1000, Ecn::Ect1));
            let Controller::Rfc9332(rfc) = &mut bench.qdisc.controller else { panic!("the RFC's") };
            rfc.p = 0.0;
            let first = bench.take(Time(waited)).is_some_and(|packet| packet.ecn == Ecn::Ce);
            marks += u32::from(first);
            while bench.take(ms(0)).is_some() {}
        }
        marks
    };
    assert_eq!(marks(800_000, 1), 0);
    assert!((49..=51).contains(&marks(1_000_000, 1)), "half the ramp: every other");
    assert!(marks(1_200_000, 1) >= 99);
    assert_eq!(marks(5_000_000, 0), 0, "a queue of one packet");
}

#[test]
fn rfc9332_statement_marks_are_spread_evenly() {
    let mut bench = dualpi2(&of(Variant::Rfc9332));
    set(&mut bench, 0.125); // L: 0.25
    (0..2).for_each(|_| _ = bench.put_ecn(ms(0), 1, 1000, Ecn::Ect1));
    let marked: Vec<bool> = (0..40)
        .map(|_| {
            bench.put_ecn(ms(0), 1, 1000, Ecn::Ect1);
            bench.take(ms(0)).is_some_and(|packet| packet.ecn == Ecn::Ce)
        })
        .collect();
    let places: Vec<usize> = marked.iter().enumerate().filter(|(_, marked)| **marked).map(|(at, _)| at).collect();
    assert!(places.windows(2).all(|pair| pair[1] - pair[0] == 4) && places.len() >= 9, "{places:?}");
}

#[test]
fn linux_steps_at_a_delay_of_1_ms_or_at_packets() {
    let mut bench = dualpi2(&of(Variant::Linux));
    bench.put_ecn(ms(0), 1, 1000, Ecn::Ect1);
    bench.put_ecn(ms(0), 1, 1000, Ecn::Ect1);
    assert_eq!(bench.take(ms(1)).map(|packet| packet.ecn), Some(Ecn::Ect1), "1 ms is not longer than 1 ms");
    assert_eq!(bench.take(ms(1) + Span(1)).map(|packet| packet.ecn), Some(Ecn::Ce));
    assert_eq!((bench.counter("step-mark"), bench.counter("ecn-mark")), (1, 1));

    let step = Params { step_thresh: StepThresh::Packets(2), min_qlen_step: 1, ..of(Variant::Linux) };
    let mut bench = dualpi2(&step);
    (0..5).for_each(|_| _ = bench.put_ecn(ms(0), 1, 100, Ecn::Ect1));
    let marked: Vec<bool> = (0..5).map(|_| bench.take(ms(0)).is_some_and(|packet| packet.ecn == Ecn::Ce)).collect();
    // The first found an empty queue; the second leaves three behind, the third two.
    assert_eq!(marked, [false, true, false, false, false]);
}

#[test]
fn linux_leaves_less_than_two_mtus_alone() {
    let mut bench = dualpi2(&of(Variant::Linux));
    set(&mut bench, 0.49);
    for _ in 0..200 {
        bench.put_ecn(ms(0), 1, 1514, Ecn::Ect1);
        bench.put_ecn(ms(0), 1, 1514, Ecn::Ect1);
        assert_eq!(bench.take(ms(0)).map(|packet| packet.ecn), Some(Ecn::Ect1));
        assert_eq!(bench.take(ms(0)).map(|packet| packet.ecn), Some(Ecn::Ect1));
    }
}

#[test]
fn linux_keeps_the_credit_through_a_drop_and_while_one_queue_is_alone() {
    let mut bench = dualpi2(&of(Variant::Linux));
    let idle = 1514 * (10 - 90);
    assert_eq!(bench.qdisc.wrr.credit, idle);
    bench.put_ecn(ms(0), 1, 1000, Ecn::Ect1);
    bench.take(ms(0));
    assert_eq!(bench.qdisc.wrr.credit, idle, "nothing waited");
    bench.put_ecn(ms(0), 1, 1000, Ecn::Ect1);
    bench.put_ecn(ms(0), 1, 1000, Ecn::NotEct);
    bench.take(ms(0));
    assert_eq!(bench.qdisc.wrr.credit, idle + 10 * 1000);
    bench.take(ms(0));
    assert_eq!(bench.take(ms(0)), None);
    assert_eq!(bench.qdisc.wrr.credit, idle, "an idle link is L's again");
}

#[test]
fn linux_drops_at_arrival_if_told_to_and_by_memory() {
    let mut bench = dualpi2(&Params { drop_enqueue: true, memlimit: Some(10_000), ..of(Variant::Linux) });
    bench.fill(ms(0), 1, 1000, 10);
    set(&mut bench, 1.0);
    bench.put(ms(0), 1, 1);
    assert_eq!(bench.new_drops(), [(10, DropReason::MemoryLimit)]);
    bench.take(ms(0));
    bench.put(ms(0), 1, 1);
    assert_eq!(bench.new_drops(), [(11, DropReason::Early)]);
    assert_eq!(bench.counter("max-memory-used"), 10_000);
}

/// Linux counts the buffer around a packet; RFC 9332 counts bytes.
#[test]
fn what_a_packet_takes_beside_its_length_counts_as_memory_in_linux() {
    for (variant, most) in [(Variant::Linux, 4), (Variant::Rfc9332, 6)] {
        let params = Params { memlimit: Some(10_000), ..of(variant) };
        let mut bench = Bench::new(DualPi2::new(&params, &Context { skb: 830, ..CONTEXT }));
        bench.fill(ms(0), 1, 1514, most);
        assert!(bench.drops.is_empty() && bench.qdisc.is_full(1514), "{variant:?}");
        bench.put(ms(0), 1, 1514);
        assert_eq!(bench.new_drops().len(), 1, "{variant:?}");
    }
}

#[test]
fn linux_derives_its_gains_from_the_rtts_as_tc_does() {
    let gains = |max: Option<u64>, typical: Option<u64>| {
        let rtt = |ms: Option<u64>| ms.map(Span::from_millis);
        Gains::of_rtts(&Params { max_rtt: rtt(max), typical_rtt: rtt(typical), ..Params::default() })
    };
    assert_eq!(gains(None, None), None);
    let of_max = gains(Some(100), None).expect("given");
    assert_eq!((of_max.target, of_max.tupdate), (Span::from_micros(16_666), Span::from_micros(16_666)));
    assert!((of_max.alpha - 0.16666).abs() < 1e-5 && (of_max.beta - 3.0).abs() < 1e-5, "{of_max:?}");
    assert_eq!(gains(None, Some(10)).map(|gains| gains.target), Some(Span::from_millis(10)));
    let both = gains(Some(100), Some(50)).expect("given");
    assert_eq!((both.target, both.tupdate), (Span::from_millis(50), Span::from_micros(33_333)));
    let wrong = |line: &str| line.parse::<crate::qdisc::tc::Spec>().is_err();
    assert!(wrong("dualpi2 max_rtt 10ms typical_rtt 20ms") && wrong("dualpi2 max_rtt 4s typical_rtt 100ms"));
}

#[test]
fn many_updates_at_once_end_where_each_on_its_own_does() {
    for variant in BOTH {
        let run = |each: bool| {
            let mut bench = dualpi2(&of(variant));
            for at in 0..4_000u64 {
                if each && at > 0 {
                    (0..10).for_each(|part| bench.qdisc.update(ms(at - 1) + Span(part * 100_000)));
                }
                if at < 600 || (at > 3_000 && at < 3_010) {
                    bench.put_ecn(ms(at), 1, 1000, if at % 3 == 0 { Ecn::Ect1 } else { Ecn::Ect0 });
                }
                if at % 2 == 0 && at < 1_600 {
                    bench.take(ms(at));
                }
            }
            bench.qdisc.update(ms(100_000));
            (bench.qdisc.stats(), bench.drops.len())
        };
        assert_eq!(run(true), run(false), "{variant:?}");
    }
}

#[test]
fn an_age_is_made_up_for_at_once() {
    for variant in BOTH {
        let mut bench = dualpi2(&of(variant));
        bench.fill(ms(0), 1, 1514, 50);
        bench.qdisc.update(Time(1 << 61));
        while bench.take(Time(1 << 61)).is_some() {}
        bench.qdisc.update(Time(1 << 62));
        assert_eq!(bench.counter("prob"), 0, "{variant:?}");
    }
}

#[test]
fn words_as_tc_prints_them_are_read() {
    let printed = "dualpi2 limit 10000p memlimit 30280000B target 15ms tupdate 16ms alpha 0.160156 beta 3.199219 \
                   step_thresh 1ms min_qlen_step 0p coupling_factor 2 drop_on_overload drop_dequeue \
                   classic_protection 10% l4s_ect split_gso";
    let spec: crate::qdisc::tc::Spec = printed.parse().expect(printed);
    let line = spec.tc_line().unwrap_or_default();
    assert!(line.starts_with("dualpi2 limit 10000 memlimit 30280000 classic_protection 10%"), "{line}");
    let packets: crate::qdisc::tc::Spec = "dualpi2 step_thresh 5p overflow any_ect".parse().expect("packets");
    assert_eq!(packets.tc_line().as_deref(), Some("dualpi2 step_thresh 5p overflow any_ect"));
}

#[test]
fn an_update_that_is_due_just_now_is_made_a_moment_later() {
    let mut bench = dualpi2(&of(Variant::Rfc9332));
    bench.qdisc.update(ms(30));
    assert_eq!(bench.counter("prob"), 0);
    bench.put(ms(30), 1, 1000);
    bench.qdisc.update(ms(45));
    let Controller::Rfc9332(rfc) = &bench.qdisc.controller else { panic!("the RFC's") };
    assert_eq!((rfc.p, rfc.next), (0.0, ms(45)), "after 30 ms, not after 45");
}

#[test]
fn rfc9332_statement_operators_see_packets_signals_and_delays_of_each_queue() {
    let mut bench = dualpi2(&Params { limit: Some(100), ..of(Variant::Rfc9332) });
    let kinds = [Ecn::Ect1, Ecn::NotEct, Ecn::Ect0];
    // At the limit of 100 MTUs the last arrivals are not presented to the AQM.
    for n in 0..180 {
        bench.put_ecn(ms(0), 1, 1514, kinds[n % 3]);
    }
    let tail = bench.new_drops().len() as u64;
    assert!(tail > 50);
    let (mut sent, mut marked, mut waits) = ([0u64; 2], [0u64; 2], [Vec::new(), Vec::new()]);
    for n in 1..=300 {
        set(&mut bench, 0.7);
        let Some(packet) = bench.take(ms(n)) else { break };
        let low = usize::from(kinds[packet.id as usize % 3] == Ecn::Ect1);
        sent[low] += 1;
        marked[low] += u64::from(packet.ecn == Ecn::Ce);
        waits[low].push(n);
    }
    let dropped = |low: bool, capable: bool| {
        let fits = |kind: Ecn| (kind == Ecn::Ect1) == low && kind.is_capable() == capable;
        bench.drops.iter().filter(|(packet, _)| fits(kinds[packet.id as usize % 3])).count() as u64
    };
    for (low, name) in [(false, "c"), (true, "l")] {
        let seen = |counter: &str| bench.counter(&[counter, "-", name].concat());
        let (queue, n) = (usize::from(low), if low { 60 } else { 120 });
        assert_eq!(seen("arrived"), n, "{name}");
        assert_eq!(seen("forwarded"), sent[queue], "{name}");
        assert_eq!(seen("bytes-forwarded"), sent[queue] * 1514, "{name}");
        assert_eq!(seen("pkts-in"), sent[queue] + dropped(low, true) + dropped(low, false), "{name}");
        assert_eq!((seen("ecn-mark"), seen("ecn-drop")), (marked[queue], dropped(low, true)), "{name}");
        assert_eq!(seen("not-ect-drop"), dropped(low, false), "{name}");
        assert!(seen("ecn-drop") > 0 && (seen("ecn-mark") > 0) == low, "{name}: overload marks L only");
        // Mean and 99th percentile can be derived.
        assert_eq!(seen("delay-sum-us"), waits[queue].iter().sum::<u64>() * 1000, "{name}");
        assert_eq!(seen("delay-max-us"), waits[queue].iter().max().expect("some") * 1000, "{name}");
        let within =
            |from: u64, to: u64| waits[queue].iter().filter(|wait| (from + 1..=to).contains(wait)).count() as u64;
        for (bin, from, to) in [("1ms", 0, 1), ("2ms", 1, 2), ("10ms", 5, 10), ("100ms", 50, 100), ("longer", 100, 999)]
        {
            assert_eq!(seen(&["delay-", bin].concat()), within(from, to), "{name} {bin}");
        }
    }
    let presented = bench.counter("pkts-in-c") + bench.counter("pkts-in-l");
    assert_eq!(presented, 180 - tail, "the rest met a full buffer");
    assert!(dualpi2(&of(Variant::Linux)).qdisc.stats().iter().all(|(name, _)| !name.starts_with("arrived")));
}

#[test]
fn rfc9332_statement_overload_is_reported_with_start_and_duration_and_not_anew_within_a_second() {
    let mut monitor = Monitor::default();
    let mut at = |n: u64, on: bool| {
        monitor.overload(ms(n), on);
        let mut stats = Vec::new();
        monitor.put(ms(n), &mut stats);
        ["overloads", "overload-start-us", "overload-us"].map(|name| counter(&stats, name))
    };
    assert_eq!(at(10, false), [0, 0, 0]);
    assert_eq!(at(20, true), [1, 20_000, 0]);
    assert_eq!(at(50, true), [1, 20_000, 30_000]);
    assert_eq!(at(60, false), [1, 20_000, 40_000]);
    assert_eq!(at(1060, true), [1, 20_000, 40_000], "within a second it is the same one");
    assert_eq!(at(1070, false), [1, 20_000, 50_000]);
    assert_eq!(at(2071, true), [2, 2_071_000, 50_000]);
    assert_eq!(at(2073, true), [2, 2_071_000, 52_000]);
    // An unresponsive load: from the update on at which the probability reaches one over k squared.
    let mut bench = dualpi2(&of(Variant::Rfc9332));
    bench.fill(ms(0), 1, 1500, 5000);
    let begun = (1..2000).find(|&n| {
        _ = bench.take(ms(n));
        matches!(&bench.qdisc.controller, Controller::Rfc9332(rfc) if rfc.p >= 0.5)
    });
    let start = bench.counter("overload-start-us");
    assert_eq!(bench.counter("overloads"), 1);
    assert!(begun.is_some_and(|n| start < n * 1000 && start >= (n - 1) * 1000), "{begun:?}, {start}");
}
