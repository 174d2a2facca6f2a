//! PIE: vectors, RFC 8033 statement by statement, and Linux's integers.

use alloc::vec::Vec;

use super::linux::MAX_PROB;
use super::*;
use crate::packet::Ecn;
use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};

fn pie(params: &Params) -> Bench<Pie<Parcel>> {
    Bench::new(Pie::new(params, &CONTEXT))
}

fn of(variant: Variant) -> Params {
    Params { variant, ..Params::default() }
}

/// Probabilities at the updates while the delay stays at 30 ms, computed by hand.
const AT_30_MS: [f64; 10] =
    [1.923e-5, 3.387e-5, 4.852e-5, 6.317e-5, 7.782e-5, 9.247e-5, 1.071e-4, 1.657e-4, 2.243e-4, 2.829e-4];

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-3 * other.abs()
}

/// Feeds a controller of appendix A with these delays, in nanoseconds, one for each update. Returns the probability
/// after each update.
fn basic(params: &Params, delays: &[u64]) -> Vec<f64> {
    let mut basic = Basic::new(params, 1514);
    let step = |(number, delay): (usize, &u64)| {
        basic.dequeued(Span(*delay));
        basic.update(Time(params.tupdate.0 * (number as u64 + 1) + 1));
        basic.drop_prob
    };
    delays.iter().enumerate().map(step).collect()
}

/// As [`basic`], for Linux's controller. Each delay is that of a packet which leaves others in the queue.
fn linux(params: &Params, delays: &[u64]) -> Vec<f64> {
    let (control, mut vars) = (control(params, 1514), Vars::default());
    let step = |delay: &u64| {
        vars.process_dequeue(&control, Time(10_000_000_000 + delay), Time(10_000_000_000), 1514, 15_140);
        vars.update(1, &control, 15_140);
        vars.prob as f64 / MAX_PROB as f64
    };
    delays.iter().map(step).collect()
}

const MS: u64 = 1_000_000;

#[test]
fn vector_the_probability_while_the_delay_stands_at_30_ms() {
    for probs in [basic(&of(Variant::Rfc8033), &[30 * MS; 10]), linux(&of(Variant::Linux), &[30 * MS; 10])] {
        assert!(probs.iter().zip(AT_30_MS).all(|(&prob, expected)| near(prob, expected)), "{probs:?}");
    }
}

#[test]
fn rfc8033_statement_01_arrivals_are_dropped_but_not_when_hardly_anything_waits() {
    for variant in [Variant::Linux, Variant::Rfc8033] {
        let mut bench = pie(&of(variant));
        let set = |bench: &mut Bench<Pie<Parcel>>, prob: f64, delay: Span| match &mut bench.qdisc.controller {
            Controller::Linux { vars, .. } => {
                (vars.prob, vars.burst_time, vars.qdelay) = ((prob * MAX_PROB as f64) as u64, 0, delay.0 >> 6);
                vars.accu_prob = MAX_PROB;
            }
            Controller::Basic(basic) => {
                (basic.drop_prob, basic.burst_allowance, basic.qdelay_old) = (prob, Span::ZERO, delay);
                basic.dequeued(delay);
            }
            Controller::Enhanced(_) => {}
        };
        bench.fill(ms(0), 1, 1514, 10);
        set(&mut bench, 1.0, Span::from_millis(20));
        bench.put(ms(1), 1, 1514);
        assert_eq!(bench.new_drops(), [(10, DropReason::Early)], "{variant:?}: probability 1");
        set(&mut bench, 0.19, Span::from_millis(7));
        bench.fill(ms(1), 1, 1514, 100);
        assert!(bench.drops.is_empty(), "{variant:?}: half the target and less than 20 %");
        let mut bench = pie(&of(variant));
        set(&mut bench, 1.0, Span::from_millis(20));
        bench.fill(ms(1), 1, 1514, 4);
        // The first two packets are always accepted. The RFC also accepts the third.
        let expected = if variant == Variant::Linux { [2, 3].as_slice() } else { [3].as_slice() };
        let dropped: Vec<u32> = bench.new_drops().into_iter().map(|(id, _)| id).collect();
        assert_eq!(dropped, expected, "{variant:?}: two packets are few");
    }
}

#[test]
fn rfc8033_statement_02_every_15_ms_the_probability_follows_the_delay_and_its_change() {
    let params = of(Variant::Rfc8033);
    assert_eq!((params.target, params.tupdate), (Span::from_millis(15), Span::from_millis(15)));
    let mut basic = Basic::new(&params, 1514);
    basic.drop_prob = 0.5; // so large that the steps are not scaled down
    basic.dequeued(Span::from_millis(25));
    basic.update(ms(15));
    assert_eq!(basic.drop_prob, 0.5, "a packet of the moment of an update comes before it");
    basic.update(ms(15) + Span(1));
    assert!(near(basic.drop_prob, 0.5 + 0.125 * 0.010 + 1.25 * 0.025), "{}", basic.drop_prob);
    basic.dequeued(Span::from_millis(20));
    basic.update(ms(30) + Span(1));
    assert!(near(basic.drop_prob, 0.5 + 0.125 * 0.010 + 1.25 * 0.025 + 0.125 * 0.005 - 1.25 * 0.005));
}

#[test]
fn rfc8033_statement_03_small_probabilities_change_in_small_steps() {
    let table = [(5e-7, 2048.0), (5e-6, 512.0), (5e-5, 128.0), (5e-4, 32.0), (5e-3, 8.0), (5e-2, 2.0), (0.5, 1.0)];
    for (prob, divisor) in table {
        let mut basic = Basic::new(&of(Variant::Rfc8033), 1514);
        basic.drop_prob = prob;
        basic.dequeued(Span::from_millis(15)); // at the target, so that only beta's term remains
        basic.update(ms(15) + Span(1));
        assert!(near(basic.drop_prob - prob, 1.25 * 0.015 / divisor), "{prob}");
        let (control, mut vars) = (control(&Params::default(), 1514), Vars::default());
        vars.prob = (prob * MAX_PROB as f64) as u64;
        let before = vars.prob;
        vars.qdelay = (15 * MS) >> 6;
        vars.update(1, &control, 1514);
        assert!(near((vars.prob - before) as f64 / MAX_PROB as f64, 1.25 * 0.015 / divisor), "Linux at {prob}");
    }
}

#[test]
fn rfc8033_statement_04_a_decays_at_no_delay_and_b_already_at_half_the_target() {
    let mut basic = Basic::new(&of(Variant::Rfc8033), 1514);
    basic.drop_prob = 0.5;
    basic.update(ms(15) + Span(1));
    assert!(near(basic.drop_prob, (0.5 - 0.125 * 0.015) * 0.98));
    basic.drop_prob = 0.5;
    basic.dequeued(Span(1));
    basic.update(ms(30) + Span(1));
    assert!(near(basic.drop_prob, 0.5 - 0.125 * 0.015), "the least delay ends the decay in A");

    let mut enhanced = Enhanced::new(&of(Variant::Rfc8033b), 1514, 30_000);
    enhanced.queued(ms(0), 20_000);
    enhanced.dequeued(ms(1), 16_384, 20_000); // 16 KiB a millisecond
    enhanced.drop_prob = 0.5;
    enhanced.update(ms(15) + Span(1), 32_768);
    let rise = -0.125 * 0.013 + 1.25 * 0.002;
    assert!(near(enhanced.drop_prob, (0.5 + rise) * 0.98), "2 ms is low in B: {}", enhanced.drop_prob);
}

#[test]
fn rfc8033_statement_05_the_probability_stays_from_0_to_1() {
    let up = basic(&of(Variant::Rfc8033), &[1_000_000 * MS; 40]);
    assert!(up.iter().all(|prob| (0.0..=1.0).contains(prob)) && up[39] == 1.0, "{up:?}");
    let down = basic(&of(Variant::Rfc8033), &[100 * MS, 0, 0, 0]);
    assert!(down[0] > 0.0 && down[1..].iter().all(|&prob| prob == 0.0), "{down:?}");
    // Linux does not bound the probability from above. A value above one acts as one; an overflow sets it to one.
    let (control, mut vars) = (control(&Params::default(), 1514), Vars::default());
    (vars.prob, vars.qdelay) = (u64::MAX - 5, 1 << 24);
    vars.update(1, &control, 15_140);
    assert_eq!(vars.prob, MAX_PROB);
    (vars.prob, vars.qdelay) = (5, 0);
    vars.update(1, &control, 0);
    assert_eq!(vars.prob, 0);
}

#[test]
fn rfc8033_statement_06_a_burst_of_150_ms_passes_after_a_quiet_time() {
    let mut bench = pie(&of(Variant::Rfc8033));
    bench.put(ms(1), 1, 1514);
    let allowance = |bench: &Bench<Pie<Parcel>>| match &bench.qdisc.controller {
        Controller::Basic(basic) => basic.burst_allowance,
        _ => Span::ZERO,
    };
    assert_eq!(allowance(&bench), Span::from_millis(150));
    bench.take(ms(20));
    // A delay of 19 ms is not below half the target, so the burst allowance shrinks at each update. Nothing is dropped
    // until it is used up.
    for at in 21..166 {
        bench.put(ms(at), 1, 1514);
    }
    assert_eq!(allowance(&bench), Span::from_millis(150) - Span::from_millis(15) * 10);
    assert!(bench.drops.is_empty());

    // Linux counts the time between departures.
    let mut bench = pie(&of(Variant::Linux));
    bench.fill(ms(0), 1, 1514, 100);
    bench.take(ms(10));
    bench.take(ms(110));
    let Controller::Linux { vars, .. } = &bench.qdisc.controller else { panic!("Linux's") };
    assert_eq!(vars.burst_time, ((150 * MS) >> 6) - ((100 * MS) >> 6));
}

#[test]
fn rfc8033_statement_07_b_marks_below_a_tenth_caps_steps_spreads_drops_and_wakes_at_a_third() {
    let params = Params { limit: 9, ecn: true, ..of(Variant::Rfc8033b) };
    let mut bench = pie(&params);
    bench.fill(ms(0), 1, 1514, 2);
    let active = |bench: &Bench<Pie<Parcel>>| match &bench.qdisc.controller {
        Controller::Enhanced(enhanced) => enhanced.active,
        _ => false,
    };
    assert!(!active(&bench));
    bench.put(ms(0), 1, 1514);
    assert!(active(&bench), "three of nine");
    let set = |bench: &mut Bench<Pie<Parcel>>, prob: f64, accu: f64| {
        let Controller::Enhanced(enhanced) = &mut bench.qdisc.controller else { panic!("B") };
        (enhanced.drop_prob, enhanced.accu_prob, enhanced.qdelay_old) = (prob, accu, Span::from_millis(20));
        enhanced.burst_allowance = Span::ZERO;
    };
    bench.put(ms(1), 1, 1514);
    set(&mut bench, 0.09, 8.5);
    bench.put_ecn(ms(1), 1, 1514, Ecn::Ect0);
    assert_eq!((bench.counter("ecn_mark"), bench.drops.len()), (1, 0), "8.5 is certain, below a tenth a mark does");
    set(&mut bench, 0.11, 8.5);
    bench.put_ecn(ms(1), 1, 1514, Ecn::Ect0);
    assert_eq!((bench.counter("ecn_mark"), bench.new_drops()), (1, [(5, DropReason::Early)].to_vec()));
    set(&mut bench, 0.5, 0.0);
    bench.put(ms(1), 1, 1514);
    assert!(bench.drops.is_empty(), "0.5 is less than 0.85: no drop so soon");

    let mut enhanced = Enhanced::new(&params, 1514, 30_000);
    enhanced.queued(ms(0), 20_000);
    enhanced.dequeued(ms(100), 16_384, 20_000);
    enhanced.drop_prob = 0.2;
    enhanced.update(ms(15) + Span(1), 20_000);
    assert_eq!(enhanced.drop_prob, 0.22, "a step of at most 2 %");
}

#[test]
fn rfc8033_statement_07_b_measures_departures_over_16_kilobytes_with_a_weight_of_a_quarter() {
    let mut enhanced = Enhanced::new(&of(Variant::Rfc8033b), 1514, 30_000);
    enhanced.queued(ms(0), 20_000);
    enhanced.dequeued(ms(4), 16_383, 20_000);
    assert_eq!(enhanced.avg_dq_time, 0.0, "one byte is missing");
    enhanced.dequeued(ms(8), 1, 20_000);
    assert_eq!(enhanced.avg_dq_time, 8e6);
    enhanced.dequeued(ms(24), 16_384, 10_000);
    assert_eq!(enhanced.avg_dq_time, 0.25 * 16e6 + 0.75 * 8e6);
    assert!(!enhanced.in_measurement, "too little is left to measure");
}

#[test]
fn rfc8033_statement_08_half_the_period_needs_half_of_alpha_and_a_quarter_of_it_more_in_beta() {
    // Without scaling, and with a delay that rises evenly, both appendices reach the same probability.
    let run = |params: &Params, delays: &[u64]| {
        let mut basic = Basic::new(params, 1514);
        (basic.drop_prob, basic.qdelay_old) = (0.5, Span::from_millis(10));
        for (number, delay) in delays.iter().enumerate() {
            basic.dequeued(Span(*delay));
            basic.update(Time(params.tupdate.0 * (number as u64 + 1) + 1));
        }
        basic.drop_prob
    };
    let whole = Params { alpha: 16, beta: 20, ..of(Variant::Rfc8033) };
    let half = Params { alpha: 8, beta: 24, tupdate: Span(7_500_000), ..of(Variant::Rfc8033) };
    let (one, two) = (run(&whole, &[30 * MS]), run(&half, &[20 * MS, 30 * MS]));
    assert!((one - two).abs() < 1e-12 && one > 0.5, "{one} {two}");
    // A hundredth of the delay needs a hundred times the weights.
    let small = Params { alpha: 200, beta: 2000, target: Span::from_micros(150), ..of(Variant::Rfc8033) };
    let (one, two) = (basic(&of(Variant::Rfc8033), &[30 * MS; 10]), basic(&small, &[3 * MS / 10; 10]));
    assert!(one.iter().zip(&two).all(|(&one, &two)| near(one, two)), "{one:?} {two:?}");
}

#[test]
fn linux_updates_first_after_512_ms_and_then_every_20() {
    let mut bench = pie(&Params::default());
    bench.fill(ms(0), 1, 1514, 900);
    for at in (20..520).step_by(20) {
        bench.take(ms(at));
    }
    assert_eq!((bench.counter("prob"), bench.counter("delay")), (0, 500_000));
    let probs: Vec<bool> = (51..58)
        .map(|at| {
            let before = bench.counter("prob");
            bench.take(ms(at * 10 + 3));
            bench.counter("prob") != before
        })
        .collect();
    // At 513, 533 and 553 ms the updates of 512, 532 and 552 ms have changed the probability.
    assert_eq!(probs, [true, false, true, false, true, false, true]);
}

#[test]
fn linux_spreads_drops_and_marks_below_a_tenth() {
    let (control, mut vars) = (control(&Params::default(), 1514), Vars::default());
    let mut rng = Rng::stream(1, "test");
    (vars.burst_time, vars.qdelay, vars.prob) = (0, control.target, MAX_PROB / 100);
    let drops: Vec<u32> = (0..20_000).filter(|_| vars.drop_early(&control, 100_000, 1000, &mut rng)).collect();
    let gaps: Vec<u32> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // At a probability of 0.01, the next drop comes after 85 arrivals (sum 0.85) and at most 850 (sum 8.5).
    assert!(gaps.iter().all(|gap| (85..=850).contains(gap)) && drops.len() > 90, "{gaps:?}");

    let mut bench = pie(&Params { ecn: true, ..Params::default() });
    bench.fill(ms(0), 1, 1514, 10);
    for (prob, marks, drops) in [(MAX_PROB / 10, 1, 0), (MAX_PROB / 10 + 1, 1, 1)] {
        let Controller::Linux { vars, control, .. } = &mut bench.qdisc.controller else { panic!("Linux's") };
        (vars.burst_time, vars.qdelay, vars.prob, vars.accu_prob) = (0, control.target, prob, MAX_PROB / 2 * 17);
        bench.put_ecn(ms(0), 1, 1514, Ecn::Ect1);
        assert_eq!((bench.counter("ecn_mark"), bench.drops.len()), (marks, drops));
    }
}

#[test]
fn linux_bytemode_spares_small_packets() {
    let params = Params { bytemode: true, ..Params::default() };
    let (control, mut rng) = (control(&params, 1500), Rng::stream(1, "test"));
    let drops = |bytes: u32, rng: &mut Rng| {
        let mut vars = Vars::default();
        (vars.burst_time, vars.qdelay, vars.prob) = (0, control.target, MAX_PROB / 10);
        (0..50_000).filter(|_| vars.drop_early(&control, 100_000, bytes, rng)).count() as f64
    };
    let (large, small) = (drops(1500, &mut rng), drops(150, &mut rng));
    assert!((8.0..12.0).contains(&(large / small)), "{large} {small}");
}

#[test]
fn linux_measures_the_rate_of_departures_if_it_is_told_to() {
    let mut bench = pie(&Params { dq_rate_estimator: true, ..Params::default() });
    bench.fill(ms(0), 1, 1500, 100);
    for number in 1..=60 {
        bench.take(ms(number * 12)); // 1 Mbit/s
    }
    let rate = bench.counter("avg_dq_rate");
    assert!((118_000..132_000).contains(&rate), "{rate} bytes a second");
    let delay = bench.counter("delay");
    assert!((400_000..700_000).contains(&delay), "{delay} µs for the 60 000 bytes and more");
}

#[test]
fn linux_counts_as_tc_does() {
    let mut bench = pie(&Params { limit: 3, ..Params::default() });
    bench.fill(ms(0), 1, 1514, 5);
    let mut expected = alloc::vec![("prob", 0.0.into())];
    let times = [("delay", 0), ("avg_dq_rate", 0)];
    let counts = [("pkts_in", 3), ("overlimit", 2), ("dropped", 2), ("maxq", 2), ("ecn_mark", 0)];
    expected.extend(numbers(times));
    expected.extend(numbers(counts));
    assert_eq!(bench.qdisc.stats(), expected);
    assert_eq!(bench.new_drops(), [(3, DropReason::Overlimit), (4, DropReason::Overlimit)]);
}

#[test]
fn many_updates_at_once_end_where_each_on_its_own_does() {
    for variant in [Variant::Linux, Variant::Rfc8033, Variant::Rfc8033b] {
        let run = |asked: &dyn Fn(u64) -> bool| {
            let mut bench = pie(&Params { limit: 60, ..of(variant) });
            bench.fill(ms(0), 1, 1514, 50);
            for at in 1..49 {
                bench.take(ms(at * 30));
            }
            for at in (1_500..20_000).step_by(7) {
                if asked(at) {
                    // The discipline only computes the updates that are due.
                    bench.qdisc.update(ms(at));
                }
            }
            bench.qdisc.update(ms(20_000));
            bench.qdisc.state()
        };
        assert_eq!(run(&|_| true), run(&|_| false), "{variant:?}");
    }
}

#[test]
fn an_age_of_idleness_is_made_up_for_at_once() {
    for variant in [Variant::Linux, Variant::Rfc8033, Variant::Rfc8033b] {
        let mut bench = pie(&of(variant));
        bench.fill(ms(0), 1, 1514, 500);
        bench.take(ms(600));
        while bench.take(ms(700)).is_some() {}
        bench.put(Time(u64::MAX / 2), 1, 1514);
        assert_eq!((bench.counter("prob"), bench.drops.len()), (0, 0), "{variant:?}");
    }
}

#[test]
fn linux_steps_by_no_more_than_2_percent_from_a_tenth_on() {
    let (control, mut vars) = (control(&Params::default(), 1514), Vars::default());
    for (prob, capped) in [(MAX_PROB / 10, true), (MAX_PROB / 10 - 1, false)] {
        (vars.prob, vars.qdelay, vars.qdelay_old) = (prob, (200 * MS) >> 6, 0);
        vars.update(1, &control, 15_140);
        assert_eq!(vars.prob - prob == MAX_PROB / 100 * 2, capped);
        assert!(vars.prob - prob >= MAX_PROB / 100 * 2);
    }
}

#[test]
fn linux_allows_a_burst_again_once_both_delays_are_below_half_the_target() {
    let control = control(&Params::default(), 1514);
    let half = control.target / 2;
    for (now, before, calm) in [(half - 1, half - 1, true), (half, half - 1, false), (half - 1, half, false)] {
        let mut vars = Vars::default();
        (vars.qdelay, vars.qdelay_old, vars.burst_time) = (now, before, 1);
        vars.update(1, &control, 1514);
        assert_eq!((vars.burst_time > 1, vars.prob), (calm, 0), "{now} {before}");
        assert_eq!(vars.qdelay, now, "the delay stays known");
    }
}

#[test]
fn linux_has_measured_the_rate_when_just_16_kib_have_left() {
    let params = Params { dq_rate_estimator: true, ..Params::default() };
    let (control, mut vars) = (control(&params, 1514), Vars::default());
    vars.process_dequeue(&control, ms(1), ms(0), 8192, 40_000);
    assert_eq!(vars.rate(), 0);
    vars.process_dequeue(&control, ms(2), ms(0), 8192, 40_000);
    assert!((16_300_000..16_400_000).contains(&vars.rate()), "{}", vars.rate());
}

#[test]
fn rfc8033_b_marks_below_a_tenth_only_and_caps_steps_from_there_on_only() {
    let mut enhanced = Enhanced::new(&of(Variant::Rfc8033b), 1514, 30_000);
    for (prob, marks) in [(0.099, true), (0.1, false)] {
        enhanced.drop_prob = prob;
        assert_eq!(enhanced.marks(), marks);
    }
    // At a departure rate of 16 KiB per ms, the backlog gives the delay.
    for (prob, backlog, rise) in [(0.05, 1_638_400, (0.125 * 0.085 + 1.25 * 0.1) / 2.0), (0.5, 245_760, 1.25 * 0.015)] {
        let mut enhanced = Enhanced::new(&of(Variant::Rfc8033b), 1514, 30_000);
        enhanced.queued(ms(0), 20_000);
        enhanced.dequeued(ms(1), 16_384, 20_000);
        enhanced.drop_prob = prob;
        enhanced.update(ms(15) + Span(1), backlog);
        assert!(near(enhanced.drop_prob - prob, rise), "{prob}: {}", enhanced.drop_prob - prob);
    }
}

#[test]
fn rfc8033_b_drops_with_its_probability() {
    let mut enhanced = Enhanced::new(&of(Variant::Rfc8033b), 1514, 30_000);
    enhanced.queued(ms(0), 20_000);
    let mut rng = Rng::stream(1, "test");
    let mut drops = 0;
    for _ in 0..1000 {
        (enhanced.drop_prob, enhanced.accu_prob, enhanced.burst_allowance) = (0.8, 1.0, Span::ZERO);
        drops += u32::from(enhanced.drop_early(20_000, &mut rng));
    }
    assert!((750..850).contains(&drops), "{drops}");
}

#[test]
fn rfc8033_b_rests_only_when_the_probability_is_gone() {
    let mut enhanced = Enhanced::new(&of(Variant::Rfc8033b), 1514, 30_000);
    enhanced.queued(ms(0), 20_000);
    let mut before = 0.5;
    enhanced.drop_prob = before;
    for update in 1..10 {
        enhanced.update(ms(15 * update) + Span(1), 0);
        assert!(enhanced.drop_prob < before, "update {update}");
        before = enhanced.drop_prob;
    }
}
