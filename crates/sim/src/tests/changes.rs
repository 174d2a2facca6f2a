//! A discipline that changes while packets are queued.

use super::*;
use sojourn_model::scenario::QdiscChange;

const SECOND: u64 = 1_000_000_000;

/// The dumbbell, with changes of its discipline at these times in milliseconds.
pub fn with_changes(qdisc: &str, steps: &[(u64, &str)]) -> Scenario {
    let mut scenario = dumbbell(qdisc);
    let link = &mut scenario.hops[0].right;
    let mut present: Spec = qdisc.parse().expect("a tc line");
    for (ms, line) in steps {
        let change = match present.changed(line) {
            Ok(change) => QdiscChange::Parameters(change),
            Err(_) => QdiscChange::Discipline(line.parse().expect("a tc line")),
        };
        present = change.spec().clone();
        link.changes.push((Time(ms * 1_000_000), change));
    }
    scenario
}

/// Packets that are queued at the bottleneck at this time, except for those that have been dropped by then.
fn waiting(output: &Output, at: Time) -> Vec<&PacketRecord> {
    let here = output.packets.iter().filter(|packet| packet.link == 0 && packet.arrival < at);
    here.filter(|packet| packet.end >= at && packet.start >= at).collect()
}

#[test]
fn another_bandwidth_keeps_the_queue_and_holds_back_from_then_on() {
    let scenario =
        with_changes("cake bandwidth 10mbit", &[(2000, "cake bandwidth 2mbit"), (4000, "cake bandwidth 9mbit")]);
    let output = assert_engines_agree("cake", &scenario);
    let carried = |from: u64, to: u64| {
        let within = |packet: &&PacketRecord| packet.end >= Time(from * SECOND) && packet.end < Time(to * SECOND);
        let sent = output.packets.iter().filter(|packet| packet.link == 0 && packet.fate == Fate::Delivered);
        sent.filter(within).map(|packet| u64::from(packet.bytes) * 8).sum::<u64>() / (to - from)
    };
    let rates = [carried(1, 2), carried(3, 4), carried(5, 7)];
    assert!(rates[0] > 9_000_000 && (1_900_000..2_010_000).contains(&rates[1]) && rates[2] > 7_000_000, "{rates:?}");
    let change = Time(2 * SECOND);
    let kept = waiting(&output, change);
    assert!(!kept.is_empty());
    let dropped = kept.iter().filter(|packet| packet.end == change && packet.fate != Fate::Delivered);
    assert_eq!(dropped.count(), 0, "what waits stays");
}

#[test]
fn a_lower_limit_drops_at_once_what_linux_drops() {
    let change = Time(2 * SECOND);
    let dropped_then = |output: &Output| {
        let gone = output.packets.iter().filter(|packet| packet.link == 0 && packet.end == change);
        gone.filter(|packet| packet.fate == Fate::Dropped(DropReason::Overlimit)).count()
    };
    let codel = assert_engines_agree("codel", &with_changes("codel limit 100 target 1s", &[(2000, "codel limit 10")]));
    let waited = waiting(&codel, change).len();
    assert!(waited > 12 && dropped_then(&codel) + 10 >= waited, "{waited} waited, {} dropped", dropped_then(&codel));
    // A FIFO keeps packets above its new limit.
    let pfifo = assert_engines_agree("pfifo", &with_changes("pfifo limit 100", &[(2000, "pfifo limit 10")]));
    assert!(waiting(&pfifo, change).len() > 12);
    assert!(dropped_then(&pfifo) < 3, "{}", dropped_then(&pfifo));
}

#[test]
fn another_discipline_drops_what_waits_and_takes_over() {
    let steps = [(2000, "fq_codel"), (4000, "pfifo limit 50")];
    let output = assert_engines_agree("replaced", &with_changes("pfifo limit 100", &steps));
    for at in [2, 4] {
        let at = Time(at * SECOND);
        let gone = waiting(&output, at);
        assert!(gone.iter().all(|packet| (packet.end, packet.fate) == (at, Fate::Dropped(DropReason::Overlimit))));
    }
    let codel = |from: u64, to: u64| {
        let by_codel = |packet: &&PacketRecord| packet.fate == Fate::Dropped(DropReason::Codel);
        let within = |packet: &&PacketRecord| packet.end >= Time(from * SECOND) && packet.end < Time(to * SECOND);
        output.packets.iter().filter(by_codel).filter(within).count()
    };
    assert_eq!((codel(0, 2), codel(2, 4) > 0, codel(4, 9)), (0, true, 0));
}

#[test]
fn a_discipline_of_linux_alone_is_named_wherever_it_stands() {
    let mut scenario = dumbbell("pfifo limit 100");
    let hhf = Spec::of_linux("hhf").expect("one of Linux's");
    scenario.hops[0].left.changes.push((Time(SECOND), QdiscChange::Discipline(hhf)));
    let why = crate::refusal(&scenario, &[""; 0]).expect("a refusal");
    assert!(why.contains("hhf is not built yet in the simulator") && why.contains(".reverse"), "{why}");
}
