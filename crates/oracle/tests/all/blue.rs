//! BLUE is not in the kernel. It is compared with a second implementation of the paper's two rules, which takes the
//! same random numbers.
#![expect(clippy::print_stdout, reason = "the counts are part of the evidence")]

use std::collections::VecDeque;

use sojourn_core::qdisc::tc::Spec;
use sojourn_core::rng::Rng;
use sojourn_core::units::Time;
use sojourn_oracle::trace::{Departure, MTU, Machine, Plan, plans, plans_of_crowds, plans_of_flows};
use sojourn_replay::{Fate, Row, SEED};

/// Feng, Kandlur, Saha, Shin, "The BLUE active queue management algorithms", 2002, figure 5: losses raise p_m by d1, an
/// idle link lowers it by d2, and `freeze_time` must pass between two changes.
struct Paper {
    limit: usize,
    d1: f64,
    d2: f64,
    freeze_time: u64,
    ecn: bool,
    p_m: f64,
    last_update: Option<u64>,
    numbers: Rng,
    held: VecDeque<(u32, u8)>,
}

impl Paper {
    fn new((limit, d1, d2, freeze_ms, ecn): Setting) -> Paper {
        let numbers = Rng::stream(SEED, "blue");
        let freeze_time = freeze_ms * 1_000_000;
        Paper { limit, d1, d2, freeze_time, ecn, p_m: 0.0, last_update: None, numbers, held: VecDeque::new() }
    }

    fn update(&mut self, now: Time, p_m: f64) {
        if let Some(last) = self.last_update
            && now.0 - last <= self.freeze_time
        {
            return;
        }
        self.last_update = Some(now.0);
        self.p_m = if p_m > 1.0 { 1.0 } else { p_m.max(0.0) };
    }
}

impl Machine for Paper {
    fn enqueue(&mut self, now: Time, id: u32, _bytes: u32, ecn: u8) -> bool {
        if self.held.len() == self.limit {
            self.update(now, self.p_m + self.d1);
            return false;
        }
        let chosen = self.numbers.uniform() < self.p_m;
        if chosen && !(self.ecn && ecn != 0) {
            return false;
        }
        self.held.push_back((id, if chosen { 3 } else { ecn }));
        true
    }

    fn dequeue(&mut self, now: Time) -> Departure {
        let packet = self.held.pop_front();
        if packet.is_none() {
            self.update(now, self.p_m - self.d2);
        }
        Departure { dropped: Vec::new(), packet }
    }
}

/// Limit in packets, d1, d2, `freeze_time` in ms, ECN.
type Setting = (usize, f64, f64, u64, bool);

const SETTINGS: [Setting; 4] = [
    (1000, 0.02, 0.002, 100, false),
    (50, 0.02, 0.002, 100, true),
    (20, 0.1, 0.05, 10, false),
    (200, 0.3, 0.2, 1, true),
];

fn ours(plan: &Plan, (limit, d1, d2, freeze_ms, ecn): Setting) -> Vec<Row> {
    let ecn = if ecn { " ecn" } else { "" };
    let line = format!("blue limit {limit} increment {d1} decrement {d2} freeze_time {freeze_ms}ms{ecn}");
    let spec: Spec = line.parse().expect("a blue line");
    sojourn_replay::run(&plan.csv(), &plan.name, &spec, plan.rate, MTU).expect("a well-formed trace")
}

/// Number of packets whose fate or its time differs; reasons of drops are ignored.
fn differing(ours: &[Row], theirs: &[Row]) -> usize {
    let same = |a: &Row, b: &Row| {
        a.fate_time == b.fate_time
            && (a.fate == b.fate || matches!((a.fate, b.fate), (Fate::Dropped(_), Fate::Dropped(_))))
    };
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).filter(|(a, b)| !same(a, b)).count()
}

fn traces() -> impl Iterator<Item = (Plan, Setting)> {
    let all = plans().into_iter().chain(plans_of_flows()).chain(plans_of_crowds());
    all.enumerate().map(|(index, mut plan)| {
        plan.keep(100_000);
        (plan, SETTINGS[index % SETTINGS.len()])
    })
}

#[test]
fn every_packet_meets_the_fate_that_the_papers_two_rules_give_it() {
    let (mut drops, mut marks, mut packets, mut count) = (0, 0, 0, 0);
    for (plan, setting) in traces() {
        let theirs = plan.play(&mut Paper::new(setting), |_, _, _| {});
        assert_eq!(differing(&ours(&plan, setting), &theirs), 0, "{}, {setting:?}", plan.name);
        drops += theirs.iter().filter(|row| matches!(row.fate, Fate::Dropped(_))).count();
        marks += theirs.iter().filter(|row| row.fate == Fate::Marked).count();
        packets += theirs.len();
        count += 1;
    }
    println!("blue: {count} traces, {packets} packets, {drops} drops, {marks} marks, 0 differ");
    assert!(count >= 50 && drops > 1_000_000 && marks > 100_000, "{count} {drops} {marks}");
}

#[test]
fn a_gain_a_tenth_off_is_seen() {
    let (plan, setting) = traces().nth(42).expect("sixty traces");
    let truth = ours(&plan, setting);
    let (limit, d1, d2, freeze_ms, ecn) = setting;
    for wrong in [(limit, d1 * 1.1, d2, freeze_ms, ecn), (limit, d1, d2 * 1.1, freeze_ms, ecn)] {
        let theirs = plan.play(&mut Paper::new(wrong), |_, _, _| {});
        assert!(differing(&truth, &theirs) > 100, "{wrong:?}");
    }
}
