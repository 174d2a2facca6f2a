//! Tests of Linux's BBR, step by step, over a link with a queue.

use super::*;
use crate::tcp::cc::Algorithm;
use crate::tcp::tests::{Fate, Path, at_ms};
use crate::tcp::{Cc, Config};
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A segment of 1500 bytes at 10 Mbit/s.
const AT_10_MBIT: Span = Span::from_micros(1200);

fn bulk(service: Span, rtt_ms: u64, seed: u64) -> Path {
    let config = Config { cc: Cc::Bbr, seed, gso_max_segs: 65_535, ..Config::default() };
    let mut path = Path::new(config, Span::from_millis(rtt_ms));
    path.service = service;
    path.sender.open(Time::ZERO);
    path.sender.write_forever();
    path.poll();
    path
}

fn bbr(path: &Path) -> &Bbr {
    match path.sender.algorithm() {
        Some(Algorithm::Bbr(bbr)) => bbr,
        other => panic!("{other:?}"),
    }
}

/// The phase of ProbeBw.
fn cycle_idx(path: &Path) -> usize {
    let Mode::ProbeBw(cycle) = bbr(path).mode else { panic!("{:?}", bbr(path).mode) };
    usize::from(cycle.idx)
}

/// Runs until this mode is entered. Returns the time.
fn run_into(path: &mut Path, mode: Kind, ms: u64) -> Time {
    while path.sender.algorithm().is_none() || bbr(path).mode.kind() != mode {
        assert!(path.step(at_ms(ms)), "never in {mode:?}");
    }
    path.now
}

#[test]
fn startup_doubles_until_three_rounds_bring_less_than_a_quarter_more_and_drain_takes_the_queue_away() {
    let mut path = bulk(AT_10_MBIT, 40, 1);
    run_into(&mut path, Kind::Drain, 3000);
    assert_eq!((bbr(&path).full_pipe.cnt, bbr(&path).full_pipe.reached), (3, true));
    let link = BW_UNIT * 1000 / AT_10_MBIT.0;
    assert!(bbr(&path).bw.get().abs_diff(link) < link / 50);
    run_into(&mut path, Kind::ProbeBw, 3000);
    // The path of 40 ms holds 33.3 segments, and one is on the link. Three bursts and the segments that leave before the
    // next burst are allowed in addition.
    assert!(path.sender.inflight() <= 34 + 3 * 2 + 6, "{}", path.sender.inflight());
    assert_eq!(bbr(&path).min_rtt, 41_200);
}

/// `tcp_rate_check_app_limited` of Linux also counts data as limited by the application if it was written before the end of
/// the handshake. `bbr_check_full_bw_reached` therefore considers round trips from the second on.
#[test]
fn the_first_flight_is_limited_by_the_application() {
    let mut path = bulk(AT_10_MBIT, 40, 1);
    while path.sender.algorithm().is_none() || bbr(&path).rounds.cnt == 0 {
        assert!(path.step(at_ms(1000)));
    }
    assert_eq!((bbr(&path).full_pipe.bw, bbr(&path).bw.get() > 0), (0, true), "what it shows counts all the same");
    while bbr(&path).rounds.cnt == 1 {
        assert!(path.step(at_ms(1000)));
    }
    assert_eq!((bbr(&path).full_pipe.bw, bbr(&path).full_pipe.cnt), (bbr(&path).bw.get(), 0));
}

#[test]
fn the_gains_go_round_in_eight_phases_of_a_smallest_rtt_each() {
    let mut path = bulk(AT_10_MBIT, 40, 1);
    run_into(&mut path, Kind::ProbeBw, 3000);
    let (mut phases, mut last) = (Vec::new(), cycle_idx(&path));
    while path.step(at_ms(4000)) {
        if cycle_idx(&path) != last {
            last = cycle_idx(&path);
            phases.push((last, path.now, bbr(&path).pacing_gain));
        }
    }
    for pair in phases.windows(2) {
        assert_eq!(pair[1].0, (pair[0].0 + 1) % 8);
        let (lasted, gain) = (pair[1].1.since(pair[0].1), pair[0].2);
        assert_eq!(gain, [320, 192, 256, 256, 256, 256, 256, 256][pair[0].0]);
        assert!(lasted < Span::from_millis(80), "{lasted} at {gain}");
        // The slower phase may end early, when the queue has drained.
        assert!(gain == 192 || lasted > Span::from_micros(41_200), "{lasted} at {gain}");
    }
}

#[test]
fn the_first_phase_is_drawn_and_never_the_slower_one() {
    let mut firsts = [0; 8];
    for seed in 0..200 {
        let mut path = bulk(AT_10_MBIT, 10, seed);
        run_into(&mut path, Kind::ProbeBw, 3000);
        firsts[cycle_idx(&path)] += 1;
    }
    assert_eq!(firsts[1], 0, "{firsts:?}");
    assert!((0..8).filter(|&phase| phase != 1).all(|phase| firsts[phase] > 10), "{firsts:?}");
}

#[test]
fn the_window_is_twice_the_product_and_three_bursts() {
    let mut path = bulk(AT_10_MBIT, 40, 1);
    path.run_until(at_ms(5000));
    let product = (bbr(&path).bw.get() * bbr(&path).min_rtt * 2).div_ceil(BW_UNIT) as u32;
    let with_bunches = product + bbr(&path).ack_aggregation_cwnd();
    let most = ((with_bunches + 3 * 2 + 1) & !1) + 2;
    assert!((most - 2..=most).contains(&path.sender.cwnd()), "{} {product}", path.sender.cwnd());
    let pace = path.sender.pacing_rate().expect("it paces") as f64;
    let (link, gain) = (1448.0 / 0.0012, bbr(&path).pacing_gain as f64 / 256.0);
    assert!((pace / (link * gain * 0.99) - 1.0).abs() < 0.02, "{pace}");
}

#[test]
fn after_ten_seconds_four_segments_are_in_flight_for_200_ms_and_a_round_trip() {
    let mut path = bulk(AT_10_MBIT, 40, 1);
    run_into(&mut path, Kind::ProbeBw, 3000);
    let stamp = bbr(&path).min_rtt_stamp;
    let began = run_into(&mut path, Kind::ProbeRtt, 20_000);
    // In ticks of 4 ms.
    assert!(began.0 / 4_000_000 > stamp + 2500);
    path.run_until(began + Span::from_millis(150));
    assert!(path.sender.inflight() <= 4 && path.sender.cwnd() == 4);
    let ended = run_into(&mut path, Kind::ProbeBw, 20_000);
    assert!((250..400).contains(&(ended.since(began).0 / 1_000_000)), "{}", ended.since(began));
    assert!(path.sender.cwnd() > 60, "restored: {}", path.sender.cwnd());
}

#[test]
fn a_loss_does_not_slow_it_down_and_the_window_returns_after_the_recovery() {
    let mut path = bulk(AT_10_MBIT, 40, 1);
    path.run_until(at_ms(3000));
    let before = path.sender.cwnd();
    let first = path.sent.len();
    path.data = Box::new({
        let mut left = 5;
        move |_, _| {
            left -= i32::from(left > 0);
            Fate { lost: left > 0, ..Fate::default() }
        }
    });
    path.run_until(at_ms(3060));
    assert!(path.sent[first..].iter().any(|(_, tx)| tx.retransmit));
    path.run_until(at_ms(3400));
    assert!(path.sender.cwnd() + 4 >= before, "{} {before}", path.sender.cwnd());
    assert_eq!(path.sender.timeouts(), 0);
}

#[test]
fn what_the_application_limits_does_not_lower_the_bandwidth() {
    let mut path = bulk(AT_10_MBIT, 40, 1);
    path.run_until(at_ms(3000));
    let before = bbr(&path).bw.get();
    path.sender.stop();
    for i in 0..200 {
        path.sender.write(1448);
        path.poll();
        path.run_until(at_ms(3000 + 20 * i));
    }
    assert!(bbr(&path).bw.get() >= before * 98 / 100);
    assert_eq!(bbr(&path).mode.kind(), Kind::ProbeBw);
}

#[test]
fn after_a_pause_it_goes_on_at_its_bandwidth() {
    let mut path = bulk(AT_10_MBIT, 40, 1);
    path.run_until(at_ms(3000));
    let (cwnd, bw) = (path.sender.cwnd(), bbr(&path).bw.get());
    path.sender.stop();
    path.run_until(at_ms(8000));
    path.sender.write(1_000_000);
    path.poll();
    assert!(bbr(&path).idle_restart);
    assert_eq!(path.sender.cwnd(), cwnd, "an idle window is kept");
    let first = path.sent.len();
    path.run_until(at_ms(8100));
    // At the link's rate: 83 segments in 100 ms.
    let sent = path.sent.len() - first;
    assert!((70..110).contains(&sent), "{sent}");
    assert!(bbr(&path).bw.get() >= bw * 98 / 100);
}

/// The policer has a rate of 5 Mbit/s, a bucket of 100 segments and no queue.
#[test]
fn a_policers_rate_is_believed_after_two_equal_intervals() {
    let mut path = bulk(Span::from_micros(60), 40, 1);
    let (mut tokens, mut last) = (100.0, Time::ZERO);
    path.data = Box::new(move |now, _| {
        tokens = (tokens + now.since(last).as_secs_f64() / 0.0024f64).min(100.0);
        last = now;
        let passes = tokens >= 1.0;
        tokens -= if passes { 1.0 } else { 0.0 };
        Fate { lost: !passes, ..Fate::default() }
    });
    while bbr_or(&path, |bbr| bbr.long_term.bw_in_use().is_none()) {
        assert!(path.step(at_ms(20_000)), "the policer is never noticed");
    }
    let rate = bbr(&path).long_term.bw_in_use().expect("a rate");
    let policed = BW_UNIT / 2400;
    assert!(rate.abs_diff(policed) < policed / 5, "{rate} {policed}");
    path.run_until(path.now + Span::from_millis(100));
    assert_eq!(bbr(&path).pacing_gain, UNIT);
}

fn bbr_or(path: &Path, what: impl Fn(&Bbr) -> bool) -> bool {
    path.sender.algorithm().is_none() || what(bbr(path))
}

/// Successive timeouts look like a policer. Undoing them must also reset the gain that was set for the policer.
#[test]
fn the_gain_of_a_policer_that_was_none_goes_with_the_next_ack() {
    let mut path = bulk(AT_10_MBIT, 40, 1);
    run_into(&mut path, Kind::Startup, 1000);
    let mut bbr = bbr(&path).clone();
    let mut flow = Flow {
        now: 1_000_000,
        hz: 250,
        delivered: 100,
        delivered_time: 1_000_000,
        lost: 0,
        in_flight: 10,
        repair: Repair::Loss,
        srtt: 40_000,
        ahead: 0,
        mss: 1448,
        iw: 10,
        cwnd_limited: false,
        app_limited: false,
        limit_samples: false,
        cwnd: 10,
        pacing_rate: 100_000,
        send_quantum: 2,
    };
    bbr.has_seen_rtt = true;
    bbr.follow_basis(&mut flow);
    assert_eq!(bbr.pacing_gain, HIGH_GAIN);
    for _ in 0..100 {
        flow.now += 100_000;
        (flow.delivered_time, flow.delivered, flow.lost) = (flow.now, flow.delivered + 10, flow.lost + 10);
        bbr.on_timeout(&mut flow);
        if bbr.pacing_gain == UNIT {
            break;
        }
    }
    assert_eq!(bbr.pacing_gain, UNIT);
    bbr.on_undo(&flow);
    bbr.follow_basis(&mut flow);
    assert_eq!(bbr.pacing_gain, HIGH_GAIN);
}

#[test]
fn the_state_machine_has_these_transitions_and_no_other() {
    let all = [Kind::Startup, Kind::Drain, Kind::ProbeBw, Kind::ProbeRtt];
    let next = |from: Kind| all.into_iter().filter(|&to| from.leads_to(to)).collect::<Vec<_>>();
    assert_eq!(next(Kind::Startup), [Kind::Drain, Kind::ProbeRtt]);
    assert_eq!(next(Kind::Drain), [Kind::ProbeBw, Kind::ProbeRtt]);
    assert_eq!(next(Kind::ProbeBw), [Kind::ProbeBw, Kind::ProbeRtt]);
    assert_eq!(next(Kind::ProbeRtt), [Kind::Startup, Kind::ProbeBw]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "no transition from Startup to ProbeBw")]
fn a_transition_that_the_state_machine_does_not_have_is_a_bug() {
    let mut path = bulk(AT_10_MBIT, 40, 1);
    run_into(&mut path, Kind::Startup, 1000);
    let flow = path.sender.flow_now(path.now).expect("it is rate-based");
    bbr(&path).clone().enter_probe_bw(&flow);
}
