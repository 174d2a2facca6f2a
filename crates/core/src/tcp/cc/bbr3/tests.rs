//! The 22 example cases of draft-ietf-ccwg-bbr-06, appendix A, in its order and named after it, over a link with a
//! queue. Where a step of a case can't be taken here, the case says so.

use super::*;
use crate::tcp::cc::Algorithm;
use crate::tcp::tests::{Fate, Path, at_ms};
use crate::tcp::{Cc, Config};
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A segment of 1500 bytes at 10 Mbit/s.
const AT_10_MBIT: Span = Span::from_micros(1200);

/// A flow over a link, and the states that it was in.
struct Lab {
    path: Path,
    /// Each change of state: its time, the state before and the state after.
    changes: Vec<(Time, State, State)>,
    /// The model after each change.
    models: Vec<Bbr3>,
}

impl Lab {
    fn new(service: Span, rtt_ms: u64) -> Lab {
        let config = Config { cc: Cc::Bbr3, gso_max_segs: 65_535, ..Config::default() };
        let mut path = Path::new(config, Span::from_millis(rtt_ms));
        path.service = service;
        path.sender.open(Time::ZERO);
        Lab { path, changes: Vec::new(), models: Vec::new() }
    }

    /// Creates a flow that has endless data.
    fn bulk(service: Span, rtt_ms: u64) -> Lab {
        let mut lab = Lab::new(service, rtt_ms);
        lab.path.sender.write_forever();
        lab.path.poll();
        lab
    }

    fn bbr(&self) -> &Bbr3 {
        match self.path.sender.algorithm() {
            Some(Algorithm::Bbr3(bbr)) => bbr,
            other => panic!("{other:?}"),
        }
    }

    fn bbr_mut(&mut self) -> &mut Bbr3 {
        match self.path.sender.algorithm_mut() {
            Some(Algorithm::Bbr3(bbr)) => bbr,
            _ => panic!("no model"),
        }
    }

    fn flow(&self) -> Flow {
        self.path.sender.flow_now(self.path.now).expect("a flow")
    }

    /// Handles one event. Returns false if no event is left before `end`.
    fn step(&mut self, end: Time) -> bool {
        let before = self.path.sender.algorithm().map(|_| self.bbr().state());
        if !self.path.step(end) {
            self.path.now = self.path.now.max(end);
            return false;
        }
        if let Some(before) = before
            && before != self.bbr().state()
        {
            self.changes.push((self.path.now, before, self.bbr().state()));
            self.models.push(self.bbr().clone());
        }
        true
    }

    fn run_until_ms(&mut self, ms: u64) {
        while self.step(at_ms(ms)) {}
    }

    /// Runs until the flow enters this state. Fails if it does not do so before `ms`.
    fn run_into(&mut self, state: State, ms: u64) {
        let seen = self.changes.len();
        while !self.changes[seen..].iter().any(|change| change.2 == state) {
            assert!(self.step(at_ms(ms)), "never in {state:?}: {:?}", self.changes);
        }
    }

    /// Runs until the state changes. Returns the state before and after.
    fn run_to_change(&mut self, ms: u64) -> (State, State) {
        let seen = self.changes.len();
        while self.changes.len() == seen {
            assert!(self.step(at_ms(ms)), "stays in {:?}", self.bbr().state());
        }
        let (_, from, to) = self.changes[seen];
        (from, to)
    }

    /// Loses `percent` of every hundred data segments from now on.
    fn lose(&mut self, percent: u32) {
        let mut count = 0;
        self.path.data = Box::new(move |_, tx| {
            count += u32::from(!tx.syn);
            Fate { lost: !tx.syn && count * percent / 100 != (count - 1) * percent / 100, ..Fate::default() }
        });
    }

    /// Discards the application's unsent data, then writes `segments` segments every `every_ms` ms until `ms`.
    fn write_in_chunks(&mut self, segments: u64, every_ms: u64, ms: u64) {
        self.path.sender.stop();
        let mut at = self.path.now.0 / 1_000_000;
        while at < ms {
            self.path.sender.write(segments * 1448);
            self.path.poll();
            at += every_ms;
            self.run_until_ms(at.min(ms));
        }
    }

    /// The link's bandwidth as the model counts it.
    fn link(&self) -> u64 {
        BW_UNIT * 1000 / self.path.service.0
    }
}

/// Returns whether `value` is within a share of `expected`, in percent.
fn near(value: u64, expected: u64, percent: u64) -> bool {
    value.abs_diff(expected) * 100 <= expected * percent
}

#[test]
fn a_1_startup_ends_on_a_bandwidth_plateau() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    assert_eq!(lab.run_to_change(5000), (State::Startup, State::Drain));
    let bbr = lab.bbr();
    assert!(near(bbr.max_bw(), lab.link(), 2), "{} {}", bbr.max_bw(), lab.link());
    assert_eq!(bbr.full_pipe.count, 3);
    assert!(bbr.full_pipe.now && bbr.full_pipe.reached);
}

#[test]
fn a_2_startup_ends_on_loss_although_the_application_is_the_limit() {
    let mut lab = Lab::new(Span::from_micros(100), 100);
    lab.run_until_ms(150);
    lab.write_in_chunks(300, 120, 700);
    assert_eq!(lab.bbr().state(), State::Startup);
    lab.lose(8);
    lab.write_in_chunks(300, 120, 4000);
    assert_eq!((lab.changes[0].1, lab.changes[0].2), (State::Startup, State::Drain));
    let bbr = &lab.models[0];
    assert!(bbr.full_pipe.now && bbr.full_pipe.reached, "{bbr:?}");
    assert!(bbr.full_pipe.count < 3, "not by a plateau");
    assert_ne!(bbr.bounds.inflight_longterm, NONE);
}

#[test]
fn a_3_drain_ends_when_the_queue_is_drained() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Drain, 5000);
    assert_eq!(lab.bbr().pacing_gain(), UNIT / 2);
    let started = start_of_drain(&lab);
    let mut least = u32::MAX;
    while lab.bbr().state() == State::Drain {
        let (bbr, flow) = (lab.bbr(), lab.flow());
        least = flow.in_flight.saturating_sub(bbr.inflight(&flow, bbr.bw, UNIT));
        assert!(lab.step(at_ms(5000)));
    }
    // The ACK that ended Drain covered at most the two excess segments.
    assert!(least <= 2, "{least} too many when it left");
    let bbr = lab.bbr();
    assert!(bbr.rounds.count <= started + DRAIN_ROUNDS_OF_THE_DRAFT);
}

const DRAIN_ROUNDS_OF_THE_DRAFT: u32 = 3;

/// The round trip in which Drain began.
fn start_of_drain(lab: &Lab) -> u32 {
    match lab.bbr().phase {
        Phase::Drain { start_round } => start_round,
        other => panic!("{other:?}"),
    }
}

/// In the draft the bandwidth falls by a tenth, but then Drain, which sends at half the bandwidth, still drains the queue.
/// Here the bandwidth falls to a tenth.
#[test]
fn a_4_drain_ends_after_three_round_trips() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Drain, 5000);
    lab.path.service = AT_10_MBIT * 10;
    let started = start_of_drain(&lab);
    lab.run_into(State::Down, 20_000);
    let (bbr, flow) = (lab.bbr(), lab.flow());
    assert_eq!(bbr.rounds.count, started + DRAIN_ROUNDS_OF_THE_DRAFT + 1);
    assert!(flow.in_flight > bbr.inflight(&flow, bbr.bw, UNIT), "{} in flight", flow.in_flight);
}

#[test]
fn a_5_probing_up_ends_on_a_bandwidth_plateau() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Up, 9000);
    assert!(!lab.bbr().full_pipe.now);
    assert_eq!(lab.run_to_change(9900), (State::Up, State::Down));
    assert_eq!((lab.bbr().full_pipe.count, lab.bbr().full_pipe.now), (3, true));
    assert!(!lab.bbr().probe.prev_too_high);
}

#[test]
fn a_6_probing_up_ends_on_loss_although_the_application_is_the_limit() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Up, 9000);
    let before = lab.bbr().bounds.inflight_longterm;
    let (seen, now) = (lab.changes.len(), lab.path.now.0 / 1_000_000);
    lab.write_in_chunks(30, 60, now + 100);
    lab.lose(15);
    lab.write_in_chunks(30, 60, now + 700);
    let change = lab.changes[seen];
    // So little is in flight that DOWN ends with the same ACK.
    assert_eq!((change.1, change.2), (State::Up, State::Cruise));
    assert!(lab.models[seen].probe.prev_too_high && lab.models[seen].probe.cycle_stamp == change.0.0 / 1000);
    // §5.5.10.2: application-limited samples do not show how much fits.
    assert_eq!(lab.bbr().bounds.inflight_longterm, before);
}

#[test]
fn a_7_without_loss_neither_startup_nor_probing_up_ends_while_the_application_is_the_limit() {
    let mut lab = Lab::new(AT_10_MBIT, 40);
    lab.run_until_ms(100);
    // The five seconds never end between two ACKs of the same chunk.
    lab.write_in_chunks(4, 97, 20_000);
    assert_eq!((lab.bbr().state(), lab.changes.len()), (State::Startup, 0));
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Up, 9000);
    let now = lab.path.now.0 / 1_000_000;
    // The first samples come from segments that were sent before these chunks.
    lab.write_in_chunks(4, 97, now + 20_000);
    let left = lab.changes.iter().filter(|change| change.1 == State::Up).count();
    assert_eq!((left, lab.bbr().state()), (0, State::Up), "{:?}", lab.changes);
}

#[test]
fn a_8_probing_down_ends_when_inflight_leaves_headroom() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Up, 9000);
    lab.run_into(State::Down, 9900);
    assert_eq!(lab.bbr().pacing_gain(), UNIT * 9 / 10);
    let before = lab.flow().in_flight;
    assert_eq!(lab.run_to_change(15_000), (State::Down, State::Cruise));
    let (bbr, flow) = (lab.bbr(), lab.flow());
    let bound = bbr.inflight_with_headroom().min(bbr.inflight(&flow, bbr.max_bw(), UNIT));
    assert!(before > bound && flow.in_flight <= bound + 2, "{before}, then {} of {bound}", flow.in_flight);
}

#[test]
fn a_9_probing_down_ends_after_the_longest_wait() {
    let mut lab = Lab::bulk(AT_10_MBIT, 150);
    lab.run_into(State::Up, 9000);
    lab.run_into(State::Down, 12_000);
    lab.path.service = Span(AT_10_MBIT.0 * 9 / 8);
    // This prevents ProbeRTT during the wait.
    let now = lab.path.now.0 / 1000;
    lab.bbr_mut().min_rtt.probe_min_stamp = now;
    let (began, wait) = (lab.bbr().probe.cycle_stamp, lab.bbr().probe.wait);
    let (from, to) = lab.run_to_change(20_000);
    assert_eq!((from, to), (State::Down, State::Refill));
    let waited = lab.path.now.0 / 1000 - began;
    assert!((2_000_000..=3_000_000).contains(&wait) && waited > wait && waited < wait + 300_000, "{waited} of {wait}");
}

#[test]
fn a_10_probing_the_rtt_begins_after_five_seconds_and_lasts_200_ms_and_a_round_trip() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::ProbeRtt, 9000);
    let began = lab.path.now;
    assert!(began.since(Time(lab.bbr().min_rtt.stamp * 1000)) > Span::from_secs(5) || began > at_ms(5000));
    assert_eq!(lab.bbr().cwnd_gain(), UNIT / 2);
    lab.run_until_ms(began.0 / 1_000_000 + 150);
    assert!(lab.flow().in_flight <= lab.bbr().probe_rtt_cwnd());
    let (from, to) = lab.run_to_change(9900);
    assert_eq!((from, to), (State::ProbeRtt, State::Cruise));
    let lasted = lab.path.now.since(began);
    assert!(lasted > Span::from_millis(200) && lasted < Span::from_millis(500), "{lasted}");
    let sent = lab.path.sent.len();
    lab.run_until_ms(lab.path.now.0 / 1_000_000 + 100);
    assert!(lab.path.sent.len() > sent + 60, "it goes on");
}

#[test]
fn a_11_an_idle_flow_need_not_probe_the_rtt() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Cruise, 4000);
    lab.path.sender.stop();
    let now = lab.path.now.0 / 1_000_000;
    lab.run_until_ms(now + 7000);
    assert_eq!(lab.flow().in_flight, 0);
    lab.path.sender.write(100_000);
    lab.path.poll();
    assert!(lab.bbr().idle_restart);
    lab.run_until_ms(now + 7500);
    assert!(!lab.bbr().idle_restart);
    assert!(lab.changes.iter().all(|change| change.2 != State::ProbeRtt), "{:?}", lab.changes);
}

#[test]
fn a_12_startup_finds_the_bandwidth_of_a_link_that_bunches_acks() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.path.slot = Span::from_millis(20);
    let mut most = 0;
    while lab.bbr_or_start() == State::Startup {
        assert!(lab.step(at_ms(5000)));
        if lab.path.sender.algorithm().is_some() {
            most = most.max(lab.bbr().extra_acked.value);
        }
    }
    let bbr = lab.bbr();
    assert!(most > 8, "{most} more than expected");
    assert!(lab.flow().cwnd > 2 * bbr.bdp_multiple(bbr.bw, UNIT));
    // §3.8: in Startup, aggregated ACKs can make the bandwidth look larger than it is.
    let (found, link) = (bbr.max_bw(), lab.link());
    assert!(found >= link * 98 / 100 && found < link * 3 / 2, "{found} {link}");
}

#[test]
fn a_13_cruising_on_a_link_that_bunches_acks_stays_at_its_bandwidth() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Cruise, 5000);
    lab.path.slot = Span::from_millis(30);
    lab.run_until_ms(6000);
    let bbr = lab.bbr();
    assert!(bbr.extra_acked.value > 15, "{}", bbr.extra_acked.value);
    let acked = lab.path.payload_acked;
    lab.run_until_ms(7800);
    let share = (lab.path.payload_acked - acked) * 12 / 10 / 1448 * 100 / 1800;
    assert!(share >= 90, "{share} % of the link");
}

#[test]
fn a_14_a_path_of_less_than_a_segment_gets_four() {
    let mut lab = Lab::bulk(Span::from_millis(120), 10);
    lab.run_until_ms(20_000);
    assert_eq!(lab.flow().cwnd.max(4), lab.flow().cwnd);
    assert!(lab.bbr().full_pipe.reached && lab.bbr().state() != State::Startup);
    assert!(near(lab.bbr().max_bw(), lab.link(), 5), "{} {}", lab.bbr().max_bw(), lab.link());
    // 1448 bytes in 120 ms are 12 067 bytes a second.
    let acked = lab.path.payload_acked;
    lab.run_until_ms(40_000);
    let rate = (lab.path.payload_acked - acked) / 20;
    assert!(rate > 11_000, "{rate}");
}

#[test]
fn a_15_ten_times_the_bandwidth_is_found_in_a_few_probes() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    // The queue holds half a round trip, so the first probes set a long-term bound.
    lab.path.queue = Span::from_millis(20);
    lab.run_into(State::Cruise, 9000);
    lab.run_until_ms(8000);
    lab.path.service = Span(AT_10_MBIT.0 / 10);
    let target = lab.link() * 9 / 10;
    lab.run_into(State::Up, 14_000);
    let mut increments = Vec::new();
    while lab.bbr().max_bw() < target {
        assert!(lab.step(at_ms(25_000)), "{} of {target}", lab.bbr().max_bw());
        let rounds = lab.bbr().probe.up_rounds;
        if lab.bbr().state() == State::Up && increments.last() != Some(&rounds) {
            increments.push(rounds);
        }
    }
    // In each round trip, the bound grows by twice as many segments as in the round trip before.
    assert!(lab.bbr().bounds.inflight_longterm == NONE || increments.windows(2).any(|pair| pair[1] == pair[0] + 1));
}

#[test]
fn a_16_a_tenth_of_the_bandwidth_is_learnt_in_two_cycles() {
    let mut lab = Lab::bulk(Span(AT_10_MBIT.0 / 10), 40);
    lab.path.queue = Span::from_millis(40);
    lab.run_into(State::Cruise, 5000);
    lab.path.service = AT_10_MBIT;
    let before = lab.bbr().max_bw();
    let now = lab.path.now.0 / 1_000_000;
    lab.run_until_ms(now + 1500);
    assert!(lab.bbr().bounds.bw_shortterm < before / 2, "{} of {before}", lab.bbr().bounds.bw_shortterm);
    lab.run_until_ms(now + 9000);
    assert!(near(lab.bbr().max_bw(), lab.link(), 10), "{} {}", lab.bbr().max_bw(), lab.link());
}

/// The policer has a rate of 5 Mbit/s, a bucket of 50 segments and no queue.
#[test]
fn a_17_a_policers_rate_is_found_without_much_loss() {
    let mut lab = Lab::bulk(Span::from_micros(60), 40);
    let (mut tokens, mut last) = (50.0, Time::ZERO);
    lab.path.data = Box::new(move |now, tx| {
        tokens = (tokens + now.since(last).as_secs_f64() / 0.0024f64).min(50.0);
        last = now;
        let passes = tx.syn || tokens >= 1.0;
        tokens -= if passes { 1.0 } else { 0.0 };
        Fate { lost: !passes, ..Fate::default() }
    });
    lab.run_until_ms(10_000);
    let bounded = |lab: &Lab| lab.bbr().bounds.inflight_longterm != NONE || lab.bbr().bounds.bw_shortterm != u64::MAX;
    assert!(bounded(&lab));
    let (acked, sent) = (lab.path.payload_acked / 1448, lab.path.sent.len() as u64);
    lab.run_until_ms(30_000);
    let (acked, sent) = (lab.path.payload_acked / 1448 - acked, lab.path.sent.len() as u64 - sent);
    assert!(acked > 20_000 * 10 / 24 * 7 / 10, "{acked} of 8333 segments");
    assert!(sent - acked < sent / 10, "{acked} of {sent} sent");
}

/// A spurious fast recovery is undone. This TCP detects none (it has no DSACK), so the test calls the model's undo itself.
#[test]
fn a_18_a_spurious_fast_recovery_is_undone() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Up, 9000);
    let mut flow = lab.flow();
    flow.cwnd = 100;
    let bbr = lab.bbr_mut();
    (bbr.bounds.inflight_longterm, bbr.bounds.bw_shortterm, bbr.bounds.inflight_shortterm) = (200, 7, 77);
    bbr.probe.is_sample = true;
    bbr.on_reduction(&flow, false);
    let lost = |seq| Loss { seq, tx_in_flight: 40, lost: 10, app_limited: false };
    bbr.on_loss(&flow, &lost(1000));
    assert_eq!((bbr.state(), bbr.undo.state), (State::Down, Some(State::Up)));
    let before = Bounds { bw_shortterm: 7, inflight_shortterm: 77, inflight_longterm: 200 };
    assert_eq!(bbr.undo.bounds, before);
    assert!(bbr.bounds.inflight_longterm < 100);
    flow.cwnd = 10;
    bbr.on_undo(&mut flow);
    // §5.5.11.2: the return to Up begins with Refill, which discards the short-term bounds.
    assert_eq!((bbr.state(), bbr.bounds.inflight_longterm, flow.cwnd), (State::Refill, 200, 100));
}

#[test]
fn a_19_a_spurious_timeout_is_undone() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Cruise, 5000);
    let (now, cwnd) = (lab.path.now, lab.flow().cwnd);
    // The link stops for 600 ms, then delivers everything in order.
    lab.path.free = now + Span::from_millis(600);
    let before = (lab.bbr().bounds.inflight_longterm, lab.bbr().bounds.bw_shortterm);
    // First a probe, then the timeout.
    lab.run_until_ms(now.0 / 1_000_000 + 550);
    assert_eq!(lab.path.sender.timeouts(), 1);
    assert_eq!(lab.flow().repair, Repair::Loss);
    lab.run_until_ms(now.0 / 1_000_000 + 900);
    assert_eq!(lab.flow().repair, Repair::None);
    assert_eq!((lab.bbr().bounds.inflight_longterm, lab.bbr().bounds.bw_shortterm), before);
    assert!(lab.flow().cwnd >= cwnd.min(lab.bbr().bdp_multiple(lab.bbr().bw, 2 * UNIT)));
    assert!(lab.bbr().state().is_probe_bw() && lab.bbr().full_pipe.reached);
}

#[test]
fn a_20_from_probing_the_rtt_in_startup_it_returns_to_startup() {
    let mut lab = Lab::new(AT_10_MBIT, 40);
    lab.run_until_ms(100);
    lab.write_in_chunks(1, 10, 500);
    // The sender is never idle, and no later RTT is as small as the first.
    lab.path.one_way = Span::from_millis(30);
    lab.write_in_chunks(1, 10, 7000);
    let states: Vec<(State, State)> = lab.changes.iter().map(|change| (change.1, change.2)).collect();
    assert_eq!(states, [(State::Startup, State::ProbeRtt), (State::ProbeRtt, State::Startup)]);
    assert!(!lab.bbr().full_pipe.reached);
}

#[test]
fn a_21_loss_while_probing_up_lowers_the_long_term_bound_and_ends_the_probe() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Up, 9000);
    lab.bbr_mut().bounds.inflight_longterm = 80;
    let (target, cwnd) = (lab.bbr().target_inflight(&lab.flow()), lab.flow().cwnd);
    lab.lose(20);
    let (from, to) = lab.run_to_change(9900);
    assert_eq!((from, to), (State::Up, State::Down));
    let bbr = lab.bbr();
    assert!(bbr.probe.prev_too_high && !bbr.full_pipe.now);
    assert!(
        bbr.bounds.inflight_longterm < 80 && bbr.bounds.inflight_longterm + 1 >= target * 7 / 10,
        "{} {cwnd}",
        bbr.bounds.inflight_longterm
    );
}

#[test]
fn a_22_a_pause_while_refilling_does_not_lower_the_bandwidth() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.run_into(State::Refill, 9000);
    let (before, seen, now) = (lab.bbr().max_bw(), lab.changes.len(), lab.path.now.0 / 1_000_000);
    lab.write_in_chunks(2, 60, now + 500);
    assert!(lab.bbr().max_bw() >= before * 99 / 100, "{} of {before}", lab.bbr().max_bw());
    assert_eq!((lab.changes[seen].1, lab.changes[seen].2), (State::Refill, State::Up));
    lab.path.sender.write_forever();
    lab.path.poll();
    lab.run_into(State::Down, now + 6000);
    assert!(near(lab.bbr().max_bw(), lab.link(), 3));
}

impl Lab {
    /// Returns the state; Startup before the handshake is complete.
    fn bbr_or_start(&self) -> State {
        self.path.sender.algorithm().map_or(State::Startup, |_| self.bbr().state())
    }
}

/// In Linux's BBRv3, two successive rounds with at least half of the segments marked end Startup. The draft says only that
/// marks are congestion.
#[test]
fn startup_ends_when_half_of_two_rounds_is_marked() {
    let mut lab = Lab::bulk(AT_10_MBIT, 40);
    lab.path = {
        let config = Config { cc: Cc::Bbr3, ecn: true, gso_max_segs: 65_535, ..Config::default() };
        let mut path = Path::new(config, Span::from_millis(40));
        path.service = Span::from_micros(12);
        path.data = Box::new(|_, _| Fate { ce: true, ..Fate::default() });
        path.sender.open(Time::ZERO);
        path.sender.write_forever();
        path.poll();
        path
    };
    assert_eq!(lab.run_to_change(2000), (State::Startup, State::Drain));
    assert!(lab.bbr().full_pipe.count < 3 && lab.bbr().bounds.inflight_longterm != NONE);
}

/// The transitions of §5.1.1, and those to Startup and to Refill in §5.5.11.2.
#[test]
fn the_state_machine_has_these_transitions_and_no_other() {
    use State::{Cruise, Down, Drain, ProbeRtt, Refill, Startup, Up};
    let all = [Startup, Drain, Down, Cruise, Refill, Up, ProbeRtt];
    let next = |from: State| all.into_iter().filter(|&to| from.leads_to(to)).collect::<Vec<_>>();
    assert_eq!(next(Startup), [Drain, ProbeRtt]);
    assert_eq!(next(Drain), [Startup, Down, ProbeRtt]);
    assert_eq!(next(Down), [Startup, Cruise, Refill, ProbeRtt]);
    assert_eq!(next(Cruise), [Startup, Refill, ProbeRtt]);
    assert_eq!(next(Refill), [Startup, Refill, Up, ProbeRtt]);
    assert_eq!(next(Up), [Startup, Down, ProbeRtt]);
    assert_eq!(next(ProbeRtt), [Startup, Down]);
}
