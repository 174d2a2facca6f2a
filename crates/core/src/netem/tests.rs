//! Compares rates, distributions and order with the formulas of the models. Seeds are fixed; tolerances are at least
//! four standard errors.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::packet::Ecn;
use crate::qdisc::testing::Parcel;

/// Sends packets at equal distances through netem. Returns the number and the departure time of each packet in order of
/// departure, and how many packets were lost.
fn play(words: &str, count: u64, distance: Span) -> (Vec<(u64, Time)>, usize) {
    let mut netem = Netem::new(&words.parse().expect(words), 7);
    let (mut left, mut drops) = (Vec::new(), Vec::new());
    for number in 0..count {
        let now = Time(1_000_000 + number * distance.0);
        drain(&mut netem, now, &mut left);
        netem.enqueue(now, packet(number), &mut drops);
        ask(&mut netem, now, &mut left);
    }
    drain(&mut netem, Time::NEVER, &mut left);
    (left, drops.len())
}

fn packet(number: u64) -> Parcel {
    Parcel { id: number as u32, bytes: 1500, ..Parcel::default() }
}

/// Dequeues packets until none may leave now, as a device does.
fn ask(netem: &mut Netem<Parcel>, now: Time, left: &mut Vec<(u64, Time)>) {
    while let Some(packet) = netem.dequeue(now) {
        left.push((u64::from(packet.id), now));
    }
}

/// Dequeues all packets that leave before `end`.
fn drain(netem: &mut Netem<Parcel>, end: Time, left: &mut Vec<(u64, Time)>) {
    while netem.next_event() < end {
        ask(netem, netem.next_event(), left);
    }
}

fn delays(words: &str) -> Vec<f64> {
    let (left, _) = play(words, 200_000, Span::from_millis(1));
    left.iter().map(|&(number, at)| (at.0 - 1_000_000 - number * 1_000_000) as f64 / 1e6).collect()
}

fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, libm::sqrt(values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / values.len() as f64))
}

fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() < tolerance, "{found}, expected {expected} within {tolerance}");
}

/// Returns for each of `count` packets whether it is lost.
fn lost(words: &str, count: u64) -> Vec<bool> {
    let (left, _) = play(words, count, Span(1000));
    let mut lost = alloc::vec![true; count as usize];
    left.iter().for_each(|&(number, _)| lost[number as usize] = false);
    lost
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
}

/// Returns the mean length of an uninterrupted row of losses.
fn burst(lost: &[bool]) -> f64 {
    let rows = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() + usize::from(lost[0]);
    lost.iter().filter(|lost| **lost).count() as f64 / rows as f64
}

#[test]
fn random_losses_have_their_share_and_stand_alone() {
    for (words, expected) in [("loss 1%", 0.01), ("loss random 20%", 0.2), ("drop 0.1%", 0.001), ("loss 100%", 1.0)] {
        let lost = lost(words, 400_000);
        assert_near(share(&lost), expected, 4.0 * libm::sqrt(expected / 400_000.0));
    }
    assert_near(burst(&lost("loss 20%", 400_000)), 1.0 / 0.8, 0.02);
    assert_eq!(lost("loss 0%", 100).iter().filter(|lost| **lost).count(), 0);
}

#[test]
fn correlated_losses_come_in_bursts_and_are_rarer_than_their_share() {
    let lost = lost("loss 20% 50%", 400_000);
    // A draw is a sum of draws, nearer to the mean than each: 3 % of them are below 20 %.
    assert_near(share(&lost), 0.0295, 0.002);
    assert!(burst(&lost) > 1.2, "{}", burst(&lost));
}

#[test]
fn gilbert_s_and_elliott_s_losses_have_the_share_and_bursts_of_the_formula() {
    // Simple Gilbert: bad p / (p + r) of the time, 1 / r packets at a stretch.
    let (p, r) = (0.01, 0.2);
    let simple = lost("loss gemodel 1% 20%", 1_000_000);
    assert_near(share(&simple), p / (p + r), 0.003);
    assert_near(burst(&simple), 1.0 / r, 0.15);
    // With 1-h and 1-k: losses of both states.
    let full = lost("loss gemodel 1% 20% 70% 0.5%", 1_000_000);
    assert_near(share(&full), (p * 0.7 + r * 0.005) / (p + r), 0.003);
    // p alone is Bernoulli's.
    let alone = lost("loss gemodel 5%", 1_000_000);
    assert_near(share(&alone), 0.05, 0.001);
    assert_near(burst(&alone), 1.0 / 0.95, 0.01);
}

#[test]
fn the_four_states_losses_have_the_share_of_the_stationary_chain() {
    // p13 alone: Bernoulli's.
    assert_near(share(&lost("loss state 5%", 1_000_000)), 0.05, 0.001);
    // p13, p31: bursts of 1 / p31.
    let two = lost("loss state 1% 25%", 1_000_000);
    assert_near(share(&two), 0.01 / 0.26, 0.003);
    assert_near(burst(&two), 4.0, 0.12);
    // All: the balance of flows between the states.
    let (p13, p31, p32, p23, p14) = (0.01, 0.2, 0.3, 0.5, 0.02);
    let (good, bad) = (1.0, p13 / p31);
    let (within, alone) = (bad * p32 / p23, p14);
    let expected = (bad + alone) / (good + bad + within + alone);
    assert_near(share(&lost("loss state 1% 20% 30% 50% 2%", 1_000_000)), expected, 0.003);
}

#[test]
fn jitter_has_the_mean_and_deviation_of_its_distribution() {
    for (distribution, mean, deviation) in [
        // The jitter of a uniform distribution is half its width.
        ("uniform", 0.0, 1.0 / libm::sqrt(3.0)),
        ("normal", 0.0, 1.0),
        // Those of the tables, which end at four deviations.
        ("pareto", -0.0335, 0.8197),
        ("paretonormal", -0.0253, 0.8339),
    ] {
        let (found, spread) = moments(&delays(&alloc::format!("delay 100ms 10ms distribution {distribution}")));
        assert_near(found, 100.0 + 10.0 * mean, 0.1);
        assert_near(spread, 10.0 * deviation, 0.1);
    }
}

#[test]
fn a_delay_without_jitter_keeps_the_order_and_is_exact() {
    let (left, lost) = play("delay 10ms", 1000, Span(1));
    assert_eq!(lost, 0);
    assert!(left.iter().enumerate().all(|(i, &(n, at))| n == i as u64 && at == Time(11_000_000 + n)));
}

#[test]
fn jitter_reorders_where_it_exceeds_the_distance_of_packets() {
    let swaps = |words| {
        let (left, _) = play(words, 50_000, Span::from_millis(1));
        left.windows(2).filter(|pair| pair[1].0 < pair[0].0).count()
    };
    assert_eq!(swaps("delay 10ms 490us"), 0);
    assert!(swaps("delay 10ms 5ms") > 10_000);
}

#[test]
fn as_in_linux_neighbours_know_nothing_of_a_jitter_s_correlation() {
    let neighbours = |words| {
        let (mut left, _) = play(words, 100_000, Span::from_millis(100));
        left.sort_unstable();
        let delay = |&(n, at): &(u64, Time)| (at.0 - n * 100_000_000) as f64;
        let delays: Vec<f64> = left.iter().map(delay).collect();
        let (mean, deviation) = moments(&delays);
        let product = delays.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        product / delays.len() as f64 / (deviation * deviation)
    };
    assert_near(neighbours("delay 10ms 5ms"), 0.0, 0.02);
    // The draw keeps a share of the one before, and is then taken modulo the size of the table.
    assert_near(neighbours("delay 10ms 5ms 25%"), 0.0, 0.02);
    assert_near(neighbours("delay 10ms 5ms 25% distribution normal"), 0.0, 0.02);
}

#[test]
fn reordered_packets_go_at_once_and_have_their_share() {
    let (left, _) = play("delay 10ms reorder 25%", 100_000, Span::from_millis(1));
    let at_once = left.iter().filter(|&&(n, at)| at == Time(1_000_000 + n * 1_000_000)).count();
    assert_near(at_once as f64 / 1e5, 0.25, 0.006);
    // One in five for certain.
    let (left, _) = play("delay 10ms reorder 100% gap 5", 1000, Span::from_millis(1));
    let at_once: Vec<u64> =
        left.iter().filter(|&&(n, at)| at == Time(1_000_000 + n * 1_000_000)).map(|one| one.0).collect();
    assert!(at_once.iter().enumerate().all(|(i, &n)| n == 4 + 5 * i as u64), "{at_once:?}");
}

#[test]
fn a_copy_leaves_with_its_original_and_is_never_copied_again() {
    let (left, _) = play("duplicate 100%", 1000, Span(1000));
    assert_eq!(left.len(), 2000);
    assert!(left.chunks(2).enumerate().all(|(i, pair)| pair[0] == pair[1] && pair[0].0 == i as u64));
    let (left, _) = play("duplicate 10%", 100_000, Span(1000));
    assert_near(left.len() as f64 / 1e5, 1.1, 0.004);
    // One of a pair is lost, and the copy by itself: 1 + d(1 - l) - l without, d·l of the pairs lose nothing more.
    let (left, _) = play("duplicate 50% loss 20%", 200_000, Span(1000));
    assert_near(left.len() as f64 / 2e5, 0.5 * 0.8 + 0.5 * (0.2 + 0.8 * 1.8), 0.01);
}

#[test]
fn a_loss_marks_what_can_be_marked() {
    let mut netem = Netem::new(&"loss 100% ecn".parse().expect("words"), 1);
    let mut drops = Vec::new();
    netem.enqueue(Time(1), Parcel { ecn: Ecn::Ect0, ..packet(0) }, &mut drops);
    netem.enqueue(Time(1), packet(1), &mut drops);
    assert_eq!(netem.dequeue(Time(1)).map(|packet| (packet.id, packet.ecn)), Some((0, Ecn::Ce)));
    assert_eq!(drops.iter().map(|drop| (drop.0.id, drop.1)).collect::<Vec<_>>(), [(1, DropReason::Loss)]);
}

#[test]
fn no_more_wait_than_the_limit_allows() {
    let mut netem = Netem::new(&"limit 3 delay 1s".parse().expect("words"), 1);
    let mut drops = Vec::new();
    (0..5).for_each(|number| {
        netem.enqueue(Time(number), packet(number), &mut drops);
    });
    assert_eq!(netem.packets(), 3);
    assert!(drops.iter().all(|drop| drop.1 == DropReason::Loss) && drops.len() == 2);
}

#[test]
fn a_slot_lets_through_so_many_packets_and_the_next_is_so_far() {
    // Twenty packets a millisecond meet slots of 16 at 1 to 2 ms: a backlog, so every slot is used to its end.
    let (left, _) = play("slot 1ms 2ms packets 16", 20_000, Span(50_000));
    let mut slots: Vec<(Time, usize)> = Vec::new();
    for &(_, at) in &left {
        match slots.last_mut() {
            Some((last, count)) if *last == at => *count += 1,
            _ => slots.push((at, 1)),
        }
    }
    let busy = &slots[1..slots.len() - 1];
    assert!(busy.iter().all(|slot| slot.1 == 16), "{:?}", &slots[..5]);
    let gaps: Vec<f64> = busy.windows(2).map(|pair| pair[1].0.since(pair[0].0).as_millis_f64()).collect();
    assert!(gaps.iter().all(|gap| (1.0..2.0).contains(gap)));
    assert_near(moments(&gaps).0, 1.5, 0.04);
    // In bytes: the packet that uses a slot up still leaves in it.
    let (left, _) = play("slot 10ms bytes 4000", 300, Span(1000));
    let first = left.iter().filter(|one| one.1 == left[0].1).count();
    assert_eq!(first, 3);
}

#[test]
fn drawn_slots_have_their_mean() {
    let (left, _) = play("slot distribution pareto 5ms 1ms packets 1", 20_000, Span(1000));
    let gaps: Vec<f64> = left.windows(2).map(|pair| pair[1].1.since(pair[0].1).as_millis_f64()).collect();
    assert_near(moments(&gaps).0, 5.0 - 0.0335, 0.03);
}

#[test]
fn words_are_read_and_printed_as_tc_has_them() {
    for (words, printed) in [
        ("", ""),
        ("delay 10ms", "delay 10ms"),
        ("delay 100ms 20ms 25% distribution normal", "delay 100ms 20ms 25% distribution normal"),
        ("latency 10ms 2000", "delay 10ms 2ms"),
        ("loss 0.3% 25%", "loss 0.3% 25%"),
        ("loss gemodel 1% 10% 70% 0.1%", "loss gemodel 1% 10% 70% 0.1%"),
        ("loss gemodel 1%", "loss gemodel 1% 99% 100% 0%"),
        ("loss state 1%", "loss state 1% 99% 0% 100% 0%"),
        ("loss 1% ecn", "loss 1% ecn"),
        ("duplicate 1% 50% limit 2000p", "limit 2000 duplicate 1% 50%"),
        ("reorder 25% 50% gap 5 delay 10ms", "delay 10ms reorder 25% 50% gap 5"),
        ("slot 800us 1ms packets 32 bytes 64k", "slot 800us 1ms packets 32 bytes 65536"),
        ("slot 1ms", "slot 1ms 1ms"),
        ("slot distribution pareto 800us 300us bytes 3000", "slot distribution pareto 800us 300us bytes 3000"),
    ] {
        let params: Params = words.parse().unwrap_or_else(|error| panic!("{words}: {error}"));
        assert_eq!(params.to_string(), printed);
        assert_eq!(printed.parse::<Params>().as_ref(), Ok(&params), "{printed}");
    }
}

#[test]
fn errors_name_the_word_and_what_was_expected() {
    let error = |words: &str| words.parse::<Params>().expect_err(words).to_string();
    for (words, expected) in [
        (
            "lost 1%",
            "\"lost\": expected one of limit, delay, distribution, loss, ecn, duplicate, reorder, gap, slot; did you mean \"loss\"?",
        ),
        ("loss 101%", "\"101%\": after loss: expected a percentage, random, state or gemodel"),
        ("loss gemodel", "after loss gemodel: expected a percentage such as 1% or 0.5%"),
        ("delay", "after delay: expected a time such as 10ms, at most a day"),
        ("delay 10ms 2lightyears", "\"2lightyears\": after delay: expected a jitter such as 2ms, at most a day"),
        ("delay 10ms distribution normal", "\"distribution\": expected delay with a jitter, such as delay 10ms 2ms"),
        ("delay 1ms 1ms distribution x", "\"x\": after distribution: expected uniform, normal, pareto or paretonormal"),
        ("reorder 5%", "\"reorder\": expected a delay that the reordered packets do not have"),
        ("corrupt 1%", "\"corrupt\": a corrupted segment is lost to TCP: expected loss"),
        ("rate 1mbit", "\"rate\": is the hop's own key rate; expected it there, and not among the impairments"),
        ("slot 2ms 1ms", "\"1ms\": after slot 2ms: expected at least as much"),
        ("ecn", "\"ecn\": expected a loss that marks"),
        ("gap 5 delay 10ms", "\"gap\": needs a chance of reorder, as in tc; expected both, such as reorder 25% gap 5"),
        ("loss 1% loss 2%", "\"loss\": loss is given twice, which tc refuses: leave one out"),
        (
            "fq_codel limit 5",
            "\"fq_codel\": expected one of limit, delay, distribution, loss, ecn, duplicate, reorder, gap, slot",
        ),
        ("qdisc codel 1: root limit 5p", "\"codel\": is a discipline for the key qdisc; expected the words of netem"),
        (
            "slot 1ms bytes 3000 packets 5",
            "\"packets\": expected one of limit, delay, distribution, loss, ecn, duplicate, reorder, gap, slot",
        ),
    ] {
        assert_eq!(error(words), expected);
    }
}

#[test]
fn what_tc_prints_is_read_whole_and_what_it_does_not_hold_is_said() {
    let read = |text: &str| {
        let (params, warnings) = Params::read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        (params.to_string(), warnings)
    };
    let whole = "qdisc netem 8001: dev eth0 root refcnt 2 limit 1000 delay 100ms  10ms 25% loss gemodel p 1% r 10% 1-h 70% 1-k \
                 0.1% duplicate 1% reorder 25% 50% ecn  gap 5\n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)";
    let line = "limit 1000 delay 100ms 10ms 25% loss gemodel 1% 10% 70% 0.1% ecn duplicate 1% reorder 25% 50% gap 5";
    let uniform = "netem: what tc printed does not hold the distribution of the jitter; assumed: distribution uniform";
    assert_eq!(read(whole), (line.into(), vec![uniform.into()]));
    let json = r#"[{"kind":"netem","handle":"8001:","dev":"eth0","root":true,"refcnt":2,"options":{"limit":1000,
        "delay":{"delay":0.1,"jitter":0.01,"correlation":0.25},"loss-gemodel":{"p":0.01,"r":0.1,"1-h":0.7,"1-k":0.001},
        "duplicate":{"duplicate":0.01,"correlation":0},"reorder":{"reorder":0.25,"correlation":0.5},"ecn":true,"gap":5}}]"#;
    assert_eq!(read(json), (line.into(), vec![uniform.into()]));
    for (text, line, warnings) in [
        (
            "qdisc netem 1: root limit 1000 loss state p13 1% p31 99% p32 0% p23 100% p14 0%",
            "limit 1000 loss state 1% 99% 0% 100% 0%",
            0,
        ),
        (
            "qdisc netem 1: root limit 1000 slot distribution 10ms 2ms packets 5",
            "limit 1000 slot distribution uniform 10ms 2ms packets 5",
            1,
        ),
        ("qdisc netem 1: root limit 1000 delay 10ms seed 13378123", "limit 1000 delay 10ms", 1),
        ("tc qdisc add dev eth0 root netem delay 10ms", "delay 10ms", 0),
        ("netem lim 1000mbit delay 300ms 15ms dis normal", "limit 131072000 delay 300ms 15ms distribution normal", 0),
        // As in tc, a second delay keeps the jitter.
        ("delay 10ms 2ms delay 20ms", "delay 20ms 2ms", 1),
        ("limit 10 delay 1ms limit 20", "limit 20 delay 1ms", 1),
        ("slot 800 1000", "slot 800ns 1us", 0),
        ("slot 1ms packets 3 slot 2ms", "slot 2ms 2ms packets 3", 1),
        ("slot distribution normal 1ms 1ms slot 2ms", "slot distribution normal 1ms 1ms", 1),
        ("delay 1.5us", "delay 1us", 0),
        ("delay 1500ns", "delay 1500ns", 0),
        ("loss 1e-1%", "loss 0.1%", 0),
    ] {
        let (found, said) = read(text);
        assert_eq!((found.as_str(), said.len()), (line, warnings), "{text}: {said:?}");
    }
    assert_eq!(read("limit 10 limit 20").1, ["netem: limit 10, then limit 20: as in tc, the last one counts"]);
    assert_eq!(
        read("delay 50 10 25%").1,
        ["netem: delay 50 10 25%: a time without a unit is in microseconds, as in tc"]
    );
    assert_eq!(read("delay 50ms 0").1, Vec::<String>::new());
}

proptest! {
    #[test]
    fn reading_never_panics(words in "((delay|loss|gap|slot|state|gemodel|reorder|[0-9.]{1,6}(%|ms|us|)|\\PC{0,4}) ?){0,9}") {
        if let Ok(params) = words.parse::<Params>() {
            let printed: String = params.to_string();
            prop_assert_eq!(printed.parse::<Params>(), Ok(params));
        }
    }

    #[test]
    fn nothing_vanishes_and_time_never_falls(
        words in prop::sample::select(alloc::vec![
            "delay 5ms 5ms 30% distribution pareto loss gemodel 5% 30% duplicate 10% 20%",
            "delay 3ms 6ms reorder 30% gap 3 limit 20",
            "slot 1ms 3ms packets 3 delay 2ms 1ms duplicate 30% loss 5%",
            "slot distribution normal 1ms 1ms bytes 4000",
        ]),
        gaps in prop::collection::vec(0u64..3_000_000, 1..300),
    ) {
        let mut netem = Netem::new(&words.parse().expect("words"), 3);
        let (mut now, mut left, mut drops, mut came) = (Time(0), Vec::new(), Vec::new(), 0);
        for (number, gap) in gaps.iter().enumerate() {
            now += Span(*gap);
            drain(&mut netem, now, &mut left);
            came += 1 + usize::from(netem.enqueue(now, packet(number as u64), &mut drops));
            ask(&mut netem, now, &mut left);
            prop_assert_eq!(came, left.len() + drops.len() + netem.packets());
        }
        drain(&mut netem, Time::NEVER, &mut left);
        prop_assert_eq!(came, left.len() + drops.len());
        prop_assert!(left.is_sorted_by_key(|one| one.1));
    }
}
