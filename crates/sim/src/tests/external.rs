//! Disciplines from outside: one of ours behind that interface makes the same decisions as without it.

use std::sync::{Arc, Mutex};

use super::changes::with_changes;
use super::*;
use sojourn_core::packet::Packet as Queued;
use sojourn_core::qdisc::external::{Dropped, Label, Maker, Outside};
use sojourn_core::qdisc::{AnyQdisc, Context, Qdisc};

/// A packet of which the discipline knows the label only.
#[derive(Clone, Copy, Default)]
struct Held {
    id: u64,
    bytes: u32,
    flow: u32,
    ecn: Ecn,
    enqueue_time: Time,
}

impl Queued for Held {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow_hash(&self) -> u32 {
        self.flow
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }
    fn enqueue_time(&self) -> Time {
        self.enqueue_time
    }
    fn set_enqueue_time(&mut self, now: Time) {
        self.enqueue_time = now;
    }
}

/// A discipline of ours, from outside.
struct Ours(AnyQdisc<Held>);

fn told(drops: Vec<(Held, DropReason)>, dropped: &mut Vec<Dropped>) {
    dropped.extend(drops.into_iter().map(|(held, reason)| (held.id, reason as u8)));
}

impl Outside for Ours {
    fn enqueue(&mut self, now: Time, packet: Label, dropped: &mut Vec<Dropped>) -> Result<(), String> {
        let Label { id, bytes, flow, ecn } = packet;
        let mut drops = Vec::new();
        self.0.enqueue(now, Held { id, bytes, flow, ecn, enqueue_time: now }, &mut drops);
        told(drops, dropped);
        Ok(())
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped>) -> Result<Option<Label>, String> {
        let mut drops = Vec::new();
        let found = self.0.dequeue(now, &mut drops);
        told(drops, dropped);
        Ok(found.map(|Held { id, bytes, flow, ecn, .. }| Label { id, bytes, flow, ecn }))
    }

    fn next_event(&mut self) -> Result<Time, String> {
        Ok(self.0.next_event())
    }
}

/// Makes the discipline whose line follows the name `mine`, and keeps errors.
#[derive(Debug, Default)]
struct Mine(Mutex<Vec<String>>);

impl Maker for Mine {
    fn name(&self) -> &str {
        "mine"
    }

    fn make(&self, line: &str, context: &Context) -> Option<Box<dyn Outside>> {
        let spec: Spec = line.trim_start_matches("mine ").parse().expect("a line of ours");
        Some(Box::new(Ours(spec.build(context))))
    }

    fn failed(&self, problem: String) {
        self.0.lock().expect("no panic before").push(problem);
    }
}

fn mine(line: &str) -> Spec {
    let mut spec = Spec::of_outside(&format!("mine {line}"), &["mine"]).expect("a line of mine");
    spec.bind(&[Arc::new(Mine::default())]);
    spec
}

/// Packets and flows of a run, which do not depend on the name of the discipline.
fn decisions(output: &Output) -> (String, String) {
    (format!("{:?}", output.packets), format!("{:?}", output.flows))
}

#[test]
fn one_of_ours_from_outside_decides_as_from_inside_in_both_engines_and_directions() {
    let lines = [
        "codel variant rfc8289",
        "codel variant rfc8289 ecn limit 30",
        "fq_codel variant rfc8290 limit 60",
        "pie variant rfc8033",
        "red limit 100 variant ns2",
        "fq flow_limit 20 maxrate 3mbit",
        "sfq variant ns2",
    ];
    for line in lines {
        let mut inside = dumbbell(line);
        inside.hops[0].left.qdisc = line.parse().expect("a tc line");
        inside.workload.entries[1].direction = Direction::Left;
        inside.workload.entries[2].tcp.ecn = true;
        let mut outside = inside.clone();
        outside.hops[0].right.qdisc = mine(line);
        outside.hops[0].left.qdisc = mine(line);
        let seen = decisions(&assert_engines_agree(line, &outside));
        assert_eq!(seen, decisions(&assert_engines_agree(line, &inside)), "{line}");
    }
}

#[test]
fn one_from_outside_may_replace_another_discipline_and_be_replaced() {
    let line = "codel variant rfc8289 limit 40";
    let mut inside = with_changes("pfifo limit 60", &[(2000, line), (5000, "fq_codel variant rfc8290")]);
    let seen = |scenario: &Scenario| decisions(&assert_engines_agree(line, scenario));
    let expected = seen(&inside);
    inside.hops[0].right.changes[0].1 = sojourn_model::scenario::QdiscChange::Discipline(mine(line));
    assert_eq!(seen(&inside), expected);
}

#[test]
fn a_scenario_with_a_discipline_that_nobody_has_given_is_refused() {
    let mut scenario = dumbbell("codel");
    scenario.hops[0].left.qdisc = mine("codel");
    assert_eq!(crate::refusal(&scenario, &["mine"]), None);
    let why = crate::refusal(&scenario, &NOBODY).expect("a refusal");
    assert_eq!(why, "hop b.reverse: mine is a discipline of yours, and this world was not given it");
}
