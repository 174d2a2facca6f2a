//! The rules of the servo one by one. The C code of the kernel module is compared with it in `crates/oracle`.

use super::flow::INTERVAL;
use super::*;
use crate::qdisc::tc::Spec;
use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
use alloc::string::ToString;
use alloc::vec::Vec;

type Bed = Bench<Servo<Parcel>>;

/// One percent, in units of 1/65536.
const SHARE: u32 = 655;

const CONTROL: Control = Control { share: SHARE, mtu: CONTEXT.mtu as u64 };

fn servo(params: Params) -> Bed {
    Bench::new(Servo::new(&params, &CONTEXT))
}

fn bed() -> Bed {
    servo(Params::default())
}

/// Ticks of a time in milliseconds.
fn ticks(ms: u64) -> Tick {
    Linux::tick(ms * 1_000_000)
}

/// The state of the flow with this hash.
fn flow(bed: &mut Bed, hash: u32) -> Flow {
    let number = bed.qdisc.classify(hash, 0);
    bed.qdisc.flows.flow(number).state
}

/// The packet at the head of a queue that holds others, in a first dequeue.
fn head(sojourn: Tick) -> Head {
    Head { sojourn, last: false, behind: u64::MAX, backlog: u64::MAX, scalable: false, signals: 0 }
}

/// A flow with this RTT, known from its handshake, one tick before `now`.
fn known(now: Tick, rtt: Tick) -> Flow {
    let mut flow = Flow::NEW;
    flow.arrival(now - rtt, true, true, 0);
    flow.arrival(now, true, false, 0);
    assert_eq!(flow.rtt(), rtt);
    flow
}

/// A flow that sends a packet every millisecond and whose queue is above its target, from `now` on, until CoDel is
/// about to begin dropping or drops. The link is idle for `idle` of each millisecond. Returns the time and the verdict.
fn congested(flow: &mut Flow, now: Tick, sojourn: Tick, idle: &mut Tick, each: Tick) -> (Tick, Verdict) {
    congested_by(&CONTROL, flow, now, sojourn, idle, each)
}

/// As [`congested`], with these parameters.
fn congested_by(
    control: &Control,
    flow: &mut Flow,
    mut now: Tick,
    sojourn: Tick,
    idle: &mut Tick,
    each: Tick,
) -> (Tick, Verdict) {
    let was_raised = flow.is_raised();
    for _ in 0..5_000 {
        now += ticks(1);
        *idle += each;
        flow.arrival(now, false, false, *idle);
        let verdict = flow.head(now, head(sojourn), control);
        if verdict == Verdict::Signal || (flow.is_raised() && !was_raised) {
            return (now, verdict);
        }
    }
    panic!("no signal");
}

// ---- the round trip ----

#[test]
fn the_packet_after_a_syn_comes_one_round_trip_later_and_the_target_begins_at_a_quarter_of_it() {
    let mut bed = bed();
    bed.put_syn(ms(1000), 7);
    assert_eq!((flow(&mut bed, 7).rtt(), flow(&mut bed, 7).target()), (0, ticks(20)));
    bed.put(ms(1040), 7, 1000);
    let known = flow(&mut bed, 7);
    assert_eq!((known.rtt(), known.target()), (ticks(1040) - ticks(1000), (ticks(1040) - ticks(1000)) / 4));
    bed.put(ms(5000), 7, 1000);
    assert_eq!(flow(&mut bed, 7).rtt(), known.rtt(), "only the first packet answers");
}

#[test]
fn another_syn_of_the_same_addresses_is_another_connection() {
    let mut flow = known(ticks(2000), ticks(100));
    flow.arrival(ticks(3000), true, true, 0);
    assert_eq!(flow.rtt(), 0);
    flow.arrival(ticks(3000) + ticks(30), true, false, 0);
    assert_eq!(flow.rtt(), ticks(30));
}

#[test]
fn karn_after_a_syn_that_was_sent_again_the_round_trip_is_a_guess() {
    for (syns, is_guess) in [(1, false), (2, true)] {
        let mut flow = Flow::NEW;
        (0..syns).for_each(|n| flow.arrival(ticks(1000 * n), true, true, 0));
        flow.arrival(ticks(1000 * (syns - 1)) + ticks(200), true, false, 0);
        assert_eq!((flow.rtt(), flow.is_guessed()), (ticks(200), is_guess), "{syns} SYNs");
    }
}

#[test]
fn without_a_handshake_the_second_longest_of_seven_gaps_is_the_round_trip_if_it_is_like_the_longest() {
    let opened = |gaps: [u64; 7]| {
        let (mut flow, mut now) = (Flow::NEW, 0);
        flow.arrival(now, true, false, 0);
        for gap in gaps {
            assert_eq!(flow.rtt(), 0, "not yet");
            now += ticks(gap);
            flow.arrival(now, true, false, 0);
        }
        (flow.rtt(), flow.target())
    };
    assert_eq!(opened([0, 50, 0, 0, 0, 52, 0]), (ticks(50), ticks(50) / 4), "two round trips");
    assert_eq!(opened([0, 50, 0, 0, 0, 199, 0]), (ticks(50), ticks(50) / 4), "a round trip, and thinking");
    assert_eq!(opened([1, 1, 1, 1, 100, 1, 1]), (ticks(100), ticks(100) / 4), "a paced first flight");
    assert_eq!(opened([0, 0, 1, 0, 0, 1, 0]), (0, ticks(20)), "one burst says nothing");
    assert_eq!(opened([0, 1100, 0, 1200, 0, 0, 0]), (0, ticks(20)), "nor do pauses of seconds");
}

#[test]
fn an_answer_that_comes_after_more_than_a_second_was_thinking() {
    let mut flow = Flow::NEW;
    flow.arrival(0, true, true, 0);
    flow.arrival(ticks(1500), true, false, 0);
    assert_eq!(flow.rtt(), 0);
    for n in 0..6 {
        flow.arrival(ticks(1500 + 30 * (n + 1)), true, false, 0);
    }
    assert!(flow.rtt().abs_diff(ticks(30)) <= 1, "{}", flow.rtt());
}

#[test]
fn a_target_stays_between_an_eighth_of_the_round_trip_and_the_round_trip() {
    for (rtt, least, most) in [(4, 1, 4), (100, 12, 100), (400, 20, 400)] {
        let mut flow = known(ticks(2000), ticks(rtt));
        for (target, expected) in [(0, least), (ticks(900), most)] {
            flow.set_target(target);
            flow.bound();
            assert!(flow.target().abs_diff(ticks(expected)) <= ticks(1), "{rtt} ms: {}", flow.target());
        }
    }
}

#[test]
fn what_was_learned_survives_a_minute_of_silence() {
    let mut flow = known(ticks(2000), ticks(100));
    flow.set_target(ticks(50));
    flow.arrival(ticks(60_000), true, false, 0);
    assert_eq!((flow.rtt(), flow.target()), (ticks(100), ticks(50)));
    flow.arrival(ticks(60_000) + ticks(60_001), false, false, 0);
    assert_eq!(flow.rtt(), ticks(100), "a queue that is not empty is a flow's that lives");
    flow.arrival(ticks(60_000) + 2 * ticks(60_002), true, false, 0);
    assert_eq!((flow.rtt(), flow.target()), (0, ticks(20)));
}

// ---- the servo ----

#[test]
fn the_first_signal_begins_an_epoch_and_adjusts_nothing() {
    let mut flow = known(ticks(2000), ticks(100));
    let mut idle = 0;
    let (now, verdict) = congested(&mut flow, ticks(2000), ticks(30), &mut idle, 100);
    assert_eq!((verdict, flow.target()), (Verdict::Signal, ticks(100) / 4));
    assert!((ticks(100)..ticks(104)).contains(&(now - ticks(2000))), "after an interval above the target");
}

/// Ends the episode of a flow that has just had its signal, with `least` as the least delay, and lets 400 ms pass in
/// which the link is idle for `each` of each millisecond. Returns the time.
fn cycle(flow: &mut Flow, mut now: Tick, least: Tick, idle: &mut Tick, each: Tick) -> Tick {
    for _ in 0..410 {
        now += ticks(1);
        *idle += each;
        flow.arrival(now, false, false, *idle);
        assert_eq!(flow.head(now, head(least), &CONTROL), Verdict::Pass);
    }
    now
}

#[test]
fn a_link_that_was_idle_for_a_tenth_of_the_time_raises_the_target_and_the_drop_waits() {
    let mut flow = known(ticks(2000), ticks(100));
    let before = flow.target();
    let mut idle = 0;
    let each = ticks(1) / 10;
    let (now, _) = congested(&mut flow, ticks(2000), ticks(30), &mut idle, 0);
    let now = cycle(&mut flow, now, 0, &mut idle, each);
    let (now, verdict) = congested(&mut flow, now, ticks(30), &mut idle, each);
    // A tenth is 6554/65536, 9 % too much: times 16, that is 1.44 times the target more.
    assert_eq!(verdict, Verdict::Pass, "the target is above the delay now");
    let raised = f64::from(flow.target()) / f64::from(before);
    assert!((2.3..2.5).contains(&raised), "{raised}");
    // The next signal is a drop, whatever the idle time was.
    let (_, verdict) = congested(&mut flow, now, ticks(70), &mut idle, each);
    assert_eq!(verdict, Verdict::Signal);
    assert!((f64::from(flow.target()) / f64::from(before) - raised).abs() < 0.01);
}

#[test]
fn a_delay_that_was_never_below_a_value_lowers_the_target_by_three_quarters_of_it() {
    let mut flow = known(ticks(2000), ticks(100));
    flow.set_target(ticks(80));
    let mut idle = 0;
    let (now, _) = congested(&mut flow, ticks(2000), ticks(90), &mut idle, 0);
    let now = cycle(&mut flow, now, ticks(20), &mut idle, 0);
    assert_eq!(congested(&mut flow, now, ticks(90), &mut idle, 0).1, Verdict::Signal);
    assert_eq!(flow.target(), ticks(80) - (ticks(20) - ticks(20) / 4));
}

#[test]
fn without_a_standing_queue_a_busy_link_lowers_the_target_by_less_than_one_percent_an_epoch() {
    let mut flow = known(ticks(2000), ticks(100));
    flow.set_target(ticks(80));
    let mut idle = 0;
    let (now, _) = congested(&mut flow, ticks(2000), ticks(90), &mut idle, 0);
    let now = cycle(&mut flow, now, 0, &mut idle, 0);
    congested(&mut flow, now, ticks(90), &mut idle, 0);
    assert_eq!(ticks(80) - flow.target(), (ticks(80) * SHARE) >> 13);
}

#[test]
fn with_a_large_idle_share_a_busy_link_lowers_the_target_by_half_at_most() {
    for share in [4_096, 8_192, 16_384] {
        let control = Control { share, ..CONTROL };
        let mut flow = known(ticks(2000), ticks(100));
        flow.set_target(ticks(80));
        let mut idle = 0;
        let (now, _) = congested_by(&control, &mut flow, ticks(2000), ticks(90), &mut idle, 0);
        let now = cycle(&mut flow, now, 0, &mut idle, 0);
        congested_by(&control, &mut flow, now, ticks(90), &mut idle, 0);
        assert_eq!(flow.target(), ticks(80) - ticks(80) / 2, "{share}");
    }
}

#[test]
fn a_first_episode_resumes_none_whatever_a_limit_has_counted() {
    // The last time is in the upper half of the clock, from which the flow's first state seems to be ahead.
    for now in [ticks(2000), 0xa000_0000] {
        let mut flow = known(now, ticks(100));
        flow.overflowed(500);
        let mut idle = 0;
        let (now, verdict) = congested(&mut flow, now, ticks(90), &mut idle, 0);
        assert_eq!(verdict, Verdict::Signal);
        assert_eq!(flow.head(now + ticks(1), head(ticks(91)), &CONTROL), Verdict::Pass, "the answer is not there yet");
    }
}

#[test]
fn more_idle_time_than_a_halved_window_explains_changes_nothing() {
    let mut flow = known(ticks(2000), ticks(100));
    let (before, mut idle, each) = (flow.target(), 0, ticks(1) / 2);
    let (now, _) = congested(&mut flow, ticks(2000), ticks(30), &mut idle, 0);
    let now = cycle(&mut flow, now, 0, &mut idle, each);
    assert_eq!(congested(&mut flow, now, ticks(30), &mut idle, each).1, Verdict::Signal);
    assert_eq!(flow.target(), before);
}

#[test]
fn an_epoch_of_less_than_four_intervals_goes_on() {
    let mut flow = known(ticks(2000), ticks(200));
    let (mut idle, each) = (0, ticks(1) / 10);
    let before = flow.target();
    let (now, _) = congested(&mut flow, ticks(2000), ticks(120), &mut idle, 0);
    let now = cycle(&mut flow, now, 0, &mut idle, each);
    // 410 ms and the interval of 200 ms are less than four times 200 ms.
    assert_eq!(congested(&mut flow, now, ticks(120), &mut idle, each).1, Verdict::Signal);
    assert_eq!(flow.target(), before);
}

#[test]
fn a_flows_own_silence_is_no_evidence() {
    let mut flow = known(ticks(2000), ticks(100));
    let mut idle = 0;
    let (now, _) = congested(&mut flow, ticks(2000), ticks(30), &mut idle, 0);
    flow.arrival(now + ticks(201), true, false, ticks(190));
    assert_eq!(flow.idle_share(), 0, "more than two intervals");
    flow.arrival(now + ticks(201) + ticks(200), true, false, ticks(190) + ticks(50));
    assert_eq!(flow.idle_share(), ((u64::from(ticks(50)) << 16) / u64::from(ticks(200))) as u32);
}

#[test]
fn a_gap_with_more_idle_time_than_a_halved_window_explains_is_the_senders_pause() {
    // Half an RTT, or 10 ms if that is longer.
    for (rtt, longest) in [(100, 50), (400, 200), (8, 10)] {
        for (idle, counts) in [(longest, true), (longest + 1, false)] {
            let mut flow = known(ticks(2000), ticks(rtt));
            let gap = longest + 5;
            flow.arrival(ticks(2000) + ticks(gap), true, false, ticks(idle));
            assert_eq!(flow.idle_share() > 0, counts, "{idle} ms idle with an RTT of {rtt} ms");
        }
    }
    // A guess may be too short, so there all idle time counts.
    let mut flow = forty(true);
    flow.arrival(ticks(280) + ticks(100), true, false, ticks(90));
    assert!(flow.idle_share() > 0);
}

// ---- the law ----

#[test]
fn the_second_signal_comes_two_round_trips_and_the_delay_after_the_first_unless_the_queue_shrinks() {
    for (shrinks, expected) in [(false, Verdict::Signal), (true, Verdict::Pass)] {
        let mut flow = known(ticks(2000), ticks(150));
        let mut idle = 0;
        let (now, _) = congested(&mut flow, ticks(2000), ticks(60), &mut idle, 0);
        let due = now + 2 * ticks(150) + ticks(60);
        assert_eq!(flow.head(due - ticks(1), head(ticks(60)), &CONTROL), Verdict::Pass);
        let sojourn = if shrinks { ticks(60) * 15 / 16 - 1 } else { ticks(60) };
        assert_eq!(flow.head(due, head(sojourn), &CONTROL), expected);
        // The next look is one distance later, whether there was a signal or not.
        assert_eq!(flow.head(due + ticks(10), head(ticks(60)), &CONTROL), Verdict::Pass);
    }
}

/// A flow with a round trip of 40 ms: known from its handshake, or guessed from its gaps.
fn forty(is_guess: bool) -> Flow {
    if !is_guess {
        return known(ticks(400), ticks(40));
    }
    let mut flow = Flow::NEW;
    (0..8).for_each(|n| flow.arrival(ticks(40 * n), true, false, 0));
    assert!(flow.rtt().abs_diff(ticks(40)) <= 1 && flow.is_guessed());
    flow
}

/// Plays an episode of a sender whose packets wait less and less from `response` after the signal on; before, they wait
/// for `most` ms. Returns the time.
fn episode(flow: &mut Flow, now: Tick, most: u64, response: Tick) -> Tick {
    let mut idle = 0;
    let (signal, _) = congested(flow, now, ticks(most), &mut idle, 0);
    let mut now = signal;
    while now.wrapping_sub(ticks(most)) < signal + response {
        now += ticks(1);
        flow.arrival(now, false, false, 0);
        flow.head(now, head(ticks(most)), &CONTROL);
    }
    for sojourn in (0..most).rev() {
        now += ticks(1);
        flow.arrival(now, false, false, 0);
        flow.head(now, head(ticks(sojourn)), &CONTROL);
    }
    now
}

#[test]
fn a_round_trip_that_is_too_long_is_shortened_to_the_response_at_once_in_slow_start_and_else_after_two() {
    for (earlier, shortened) in [(0, true), (1, false), (2, true)] {
        let mut flow = known(ticks(2000), ticks(400));
        let mut now = ticks(2000);
        for _ in 0..earlier {
            // The first one is as expected, so that slow start is over.
            let response = if flow.has_answered() { ticks(100) } else { ticks(400) };
            now = episode(&mut flow, now, 250, response);
        }
        episode(&mut flow, now, 250, ticks(100));
        let expected = if shortened { ticks(100) } else { ticks(400) };
        // The queue is still as long as at its peak until it has shrunk by a sixteenth.
        let seen = expected..=expected + ticks(250 / 8 + 1);
        assert!(seen.contains(&flow.rtt()), "{earlier} episodes before: {} ticks", flow.rtt());
        assert_eq!(flow.is_guessed(), shortened, "it may be corrected again");
        assert!(flow.target() <= if shortened { ticks(35) } else { ticks(200) });
    }
}

#[test]
fn a_guess_that_is_too_short_is_lengthened_to_the_response_but_not_by_slow_start() {
    for (is_guess, episodes, longer) in [(true, 1, false), (true, 2, true), (false, 2, false)] {
        let mut flow = forty(is_guess);
        let mut now = ticks(400);
        for _ in 0..episodes {
            now = episode(&mut flow, now, 60, ticks(90));
        }
        let expected = if longer { ticks(90) } else { ticks(40) };
        assert!(
            (expected - 1..=expected + ticks(60 / 8)).contains(&flow.rtt()),
            "guessed {is_guess}, {episodes}: {} ticks",
            flow.rtt()
        );
    }
}

#[test]
fn a_round_trip_that_is_not_known_is_the_first_response() {
    // A sender that resumes with a burst shows no gap of a round trip.
    let mut flow = Flow::NEW;
    (0..8).for_each(|n| flow.arrival(n, n == 0, false, 0));
    assert_eq!((flow.rtt(), flow.target()), (0, ticks(20)));
    episode(&mut flow, ticks(400), 60, ticks(90));
    assert!((ticks(90)..=ticks(90) + ticks(60 / 8)).contains(&flow.rtt()), "{} ticks", flow.rtt());
    assert_eq!((flow.target(), flow.is_guessed()), (flow.rtt() / 4, true));
}

#[test]
fn a_guess_is_doubled_if_the_target_is_as_high_as_it_may_be_and_the_link_is_idle() {
    for is_guess in [true, false] {
        let (mut flow, mut idle, each) = (forty(is_guess), 0, ticks(1) / 10);
        flow.set_target(flow.rtt());
        let rtt = flow.rtt();
        let (now, _) = congested(&mut flow, ticks(2000), ticks(90), &mut idle, 0);
        let now = cycle(&mut flow, now, 0, &mut idle, each);
        congested(&mut flow, now, ticks(90), &mut idle, each);
        assert_eq!(flow.rtt(), if is_guess { 2 * rtt } else { rtt });
    }
}

#[test]
fn a_sender_that_does_not_respond_loses_what_is_eight_intervals_older_than_its_target_but_never_its_last_packet() {
    let mut bed = bed();
    bed.fill(ms(0), 7, 1000, 3);
    let oldest = ms(20 + 8 * 100 + 1);
    assert_eq!(bed.take(oldest).map(|packet| packet.id), Some(2));
    assert_eq!(bed.new_drops(), [(0, DropReason::Penalty), (1, DropReason::Penalty)]);
    assert_eq!(bed.counter("drop_unresponsive"), 2);
}

#[test]
fn a_sender_that_floods_its_queue_waits_less_and_less_and_a_flow_that_recovers_is_trusted_again() {
    let mut bed = bed();
    let mut sojourns = Vec::new();
    // Two packets arrive in the time that one takes.
    for n in 0..3000 {
        bed.fill(ms(n), 7, 1000, 2);
        let packet = bed.take(ms(n)).expect("a packet");
        sojourns.push(n - packet.enqueue_time.0 / 1_000_000);
    }
    let most = sojourns.iter().max().expect("some");
    assert!((800..=830).contains(most), "{most}");
    assert!(sojourns[2500..].iter().all(|sojourn| *sojourn <= 20 + 13 + 1), "an eighth of 100 ms above the target");
    while bed.take(ms(3000)).is_some() {}
    assert_eq!(flow(&mut bed, 7).discards(), 0);
}

#[test]
fn a_long_round_trip_begins_with_a_target_of_half_of_it() {
    for (rtt, target) in [(50, 50 / 4), (132, 33), (160, 60), (200, 100), (600, 300)] {
        let begins = known(ticks(2000), ticks(rtt)).target();
        assert!(begins.abs_diff(ticks(target)) <= ticks(1), "{rtt} ms: {begins} ticks");
    }
}

#[test]
fn a_backlog_of_one_mtu_is_never_too_much() {
    let mut bed = bed();
    for n in 0..20 {
        bed.put(ms(300 * n), 7, 700);
        bed.put(ms(300 * n), 7, 700);
        assert!(bed.take(ms(300 * n + 290)).is_some());
        assert!(bed.take(ms(300 * n + 290)).is_some());
    }
    assert!(bed.new_drops().is_empty());
}

/// Fills a queue with packets of one kind and takes them 40 ms late until one was signalled.
fn until_a_signal(bed: &mut Bed, ecn: Ecn) -> Option<Parcel> {
    for n in 0..400 {
        bed.put_ecn(ms(n), 7, 1514, ecn);
        if n >= 40 {
            let packet = bed.take(ms(n))?;
            if packet.ecn == Ecn::Ce || !bed.drops.is_empty() {
                return Some(packet);
            }
        }
    }
    None
}

#[test]
fn a_short_queue_is_signalled_by_codels_law_alone() {
    for few in [true, false] {
        let mut flow = known(ticks(2000), ticks(150));
        let mut idle = 0;
        let mut now = ticks(2000);
        let behind = if few { 3 * CONTROL.mtu } else { 4 * CONTROL.mtu };
        let waiting = |sojourn| Head { behind, ..head(sojourn) };
        let signal = loop {
            now += ticks(1);
            flow.arrival(now, false, false, idle);
            idle += 1;
            if flow.head(now, waiting(ticks(90)), &CONTROL) == Verdict::Signal {
                break now;
            }
        };
        // Two round trips later, not two and the delay; and a shorter delay is no answer.
        let expected = if few { Verdict::Signal } else { Verdict::Pass };
        assert_eq!(flow.head(signal + 2 * ticks(150), waiting(ticks(60)), &CONTROL), expected, "few: {few}");
    }
}

#[test]
fn a_mark_replaces_a_drop() {
    let mut bed = bed();
    let marked = until_a_signal(&mut bed, Ecn::Ect0).expect("a mark");
    assert_eq!((marked.ecn, bed.drops.len(), bed.counter("ecn_mark")), (Ecn::Ce, 0, 1));
    let mut bed = servo(Params { ecn: false, ..Params::default() });
    let next = until_a_signal(&mut bed, Ecn::Ect0).expect("a drop");
    assert_eq!((next.ecn, bed.new_drops()), (Ecn::Ect0, Vec::from([(next.id - 1, DropReason::Codel)])));
}

#[test]
fn ect1_is_marked_above_one_millisecond_and_adjusts_nothing() {
    let mut bed = bed();
    for (put, take, ecn) in [(0, 1, Ecn::Ect1), (10, 12, Ecn::Ce)] {
        bed.put_ecn(ms(put), 7, 1514, Ecn::Ect1);
        bed.put_ecn(ms(put), 7, 1514, Ecn::Ect1);
        assert_eq!(bed.take(ms(take)).expect("a packet").ecn, ecn, "after {} ms", take - put);
        assert_eq!(bed.take(ms(take)).expect("a packet").ecn, Ecn::Ect1, "the last packet is no queue");
    }
    assert_eq!((bed.counter("ce_mark"), bed.counter("ecn_mark")), (1, 0));
    let mut targets = Vec::new();
    for n in 0..4000 {
        bed.put_ecn(ms(20 + n), 7, 1514, Ecn::Ect1);
        if n >= 40 {
            assert_eq!(bed.take(ms(20 + n)).expect("a packet").ecn, Ecn::Ce);
            targets.push(flow(&mut bed, 7).target());
        }
    }
    targets.dedup();
    assert_eq!((targets.len(), bed.drops.len()), (1, 0));
}

// ---- the discipline ----

#[test]
fn a_full_buffer_drops_half_of_the_fattest_queues_bytes_from_its_head() {
    let mut bed = servo(Params { limit: 20, ..Params::default() });
    bed.fill(ms(0), 1 << 22, 1000, 10);
    bed.fill(ms(0), 2 << 22, 900, 10);
    bed.put(ms(0), 3 << 22, 100);
    let expected: Vec<_> = (0..5).map(|id| (id, DropReason::Overlimit)).collect();
    assert_eq!(bed.new_drops(), expected);
    assert_eq!((bed.qdisc.packets(), bed.counter("drop_overlimit")), (16, 5));
}

#[test]
fn a_memory_limit_counts_what_the_buffers_take() {
    let context = Context { skb: 500, ..CONTEXT };
    let mut bed = Bench::new(Servo::new(&Params { memory_limit: 6000, ..Params::default() }, &context));
    bed.fill(ms(0), 1, 1000, 4);
    assert_eq!((bed.counter("memory_used"), bed.drops.len()), (6000, 0));
    bed.put(ms(0), 1, 1000);
    let expected: Vec<_> = (0..3).map(|id| (id, DropReason::MemoryLimit)).collect();
    assert_eq!(bed.new_drops(), expected, "half of 5000 bytes");
    assert_eq!(bed.counter("drop_overmemory"), 3);
}

#[test]
fn idle_time_is_that_between_the_end_of_what_was_sent_and_the_next_packet() {
    let mut bed = bed();
    // A link of 1514 bytes a millisecond: 100 packets, then 7 ms of silence.
    bed.fill(ms(0), 1, 1514, 100);
    for n in 0..100 {
        assert!(bed.take(ms(n)).is_some());
    }
    bed.put(ms(100 + 7), 1, 1514);
    let idle = bed.counter("idle_time");
    assert!(idle.abs_diff(7_000) < 30, "{idle} us");
}

#[test]
fn a_change_keeps_what_was_learned_and_drops_what_is_beyond_the_limit() {
    let mut bed = bed();
    bed.put_syn(ms(0), 7);
    bed.put(ms(40), 7, 1000);
    bed.fill(ms(40), 7, 1000, 3);
    let rtt = flow(&mut bed, 7).rtt();
    let changed = Params { limit: 2, idle: 200, ..Params::default() };
    assert_eq!(bed.qdisc.change(ms(41), &changed, &mut bed.drops), Ok(()));
    assert_eq!((bed.new_drops().len(), bed.qdisc.packets(), bed.qdisc.control.share), (3, 2, 1310));
    assert_eq!(flow(&mut bed, 7).rtt(), rtt);
    let other = Params { variant: Variant::Paper, ..Params::default() };
    assert_eq!(bed.qdisc.change(ms(41), &other, &mut bed.drops), Err(Unchangeable));
}

#[test]
fn a_line_names_the_algorithm_to_which_a_parameter_belongs() {
    let spec = |line: &str| line.parse::<Spec>().map(|spec| spec.to_string()).map_err(|error| error.to_string());
    assert_eq!(spec("ccaq"), Ok("ccaq".into()));
    assert_eq!(spec("ccaq idle 0.5% noecn"), Ok("ccaq idle 0.5% noecn".into()));
    assert_eq!(spec("ccaq idle 1%"), Ok("ccaq".into()));
    assert_eq!(spec("ccaq variant paper flow_limit 5"), Ok("ccaq variant paper flow_limit 5".into()));
    assert!(!"ccaq".parse::<Spec>().expect("ccaq").full().contains("flow_limit"));
    let refused = |line| spec(line).expect_err("it is refused");
    assert!(refused("ccaq flow_limit 5").contains("only variant paper does"), "{}", refused("ccaq flow_limit 5"));
    // Also with its default.
    for line in ["ccaq variant paper idle 2%", "ccaq idle 1% variant paper", "ccaq variant paper noecn"] {
        assert!(refused(line).contains("variant paper of ccaq does not have it, only variant servo does"), "{line}");
    }
    assert!(refused("ccaq flows 100").contains("must be a multiple of 8"));
    assert!(refused("ccaq idle 60%").contains("0.01% to 25%"), "{}", refused("ccaq idle 60%"));
}

#[test]
fn the_interval_is_codels_unless_the_round_trip_is_longer() {
    let mut flow = known(ticks(2000), ticks(30));
    let mut idle = 0;
    let (now, _) = congested(&mut flow, ticks(2000), ticks(20), &mut idle, 0);
    assert!(now - ticks(2000) >= INTERVAL && now - ticks(2000) < INTERVAL + ticks(4));
    let mut flow = known(ticks(2000), ticks(300));
    let (now, _) = congested(&mut flow, ticks(2000), ticks(200), &mut idle, 0);
    assert!(now - ticks(2000) >= ticks(300) && now - ticks(2000) < ticks(304));
}

#[test]
fn a_flow_with_its_queue_takes_at_most_two_cache_lines() {
    assert!(size_of::<crate::qdisc::flows::Flow<Flow>>() <= 128);
}
