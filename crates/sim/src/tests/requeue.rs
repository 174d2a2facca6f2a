//! Packets that bypass an empty discipline, as in Linux's network stack.

use sojourn_core::packet::{Ecn, Packet as _};
use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::scenario::QdiscChange;

use super::*;
use crate::link::Link as Running;
use crate::packet::{Packet, Parts};
use crate::setup;
use crate::topology::Change;

/// Results of a link of 10 Mbit/s with packets of 1250 bytes, 1 ms each.
#[derive(Default)]
struct Played {
    /// The number of each departed packet, in order, and its time of departure in µs.
    left: Vec<(u32, u64)>,
    marked: Vec<u32>,
    dropped: Vec<u32>,
}

impl Played {
    fn order(&self) -> Vec<u32> {
        self.left.iter().map(|&(number, _)| number).collect()
    }

    fn serve(&mut self, link: &mut Running, now: Time) {
        let mut packet = Packet::default();
        if link.event(now, &mut packet).is_some() {
            self.left.push((packet.seq(), now.0 / 1000));
            if packet.ecn() == Ecn::Ce {
                self.marked.push(packet.seq());
            }
        }
        self.settle(link, now);
    }

    fn settle(&mut self, link: &mut Running, now: Time) {
        while let Some(packet) = link.take_drop(now) {
            self.dropped.push(packet.seq());
        }
    }
}

/// Plays packets that arrive at these times in µs, each of a flow that hashes to the given queue of 1024.
fn played(qdisc: &str, nic: Option<Nic>, arrivals: &[(u64, u32)]) -> Played {
    changed(qdisc, None, nic, arrivals)
}

/// Like [`played`], with a change of the discipline's parameters at 0.5 ms.
fn changed(qdisc: &str, to: Option<&str>, nic: Option<Nic>, arrivals: &[(u64, u32)]) -> Played {
    let hop = hop("b", Rate(10_000_000), Span::ZERO, qdisc);
    let mut scenario = scenario(1, vec![hop], vec![entry("bulk", bulk(Time::ZERO), Span::ZERO)]);
    scenario.hops[0].right.nic = nic;
    let middle = Time(500_000);
    let parameters = |line: &str| scenario.link(0).qdisc.changed(line).expect("a change");
    let mut to = to.map(|line| QdiscChange::Parameters(parameters(line)));
    scenario.hops[0].right.changes.extend(to.clone().map(|change| (middle, change)));
    let mut link = Running::new(0, scenario.link(0), &setup::link(&scenario, 0), &Options::default());
    let mut played = Played::default();
    for (number, &(at, flow)) in (0..).zip(arrivals) {
        let now = Time(at * 1000);
        if now > middle && to.take().is_some() {
            link.change(middle, Change::Qdisc);
            played.settle(&mut link, middle);
        }
        while link.next_event() < now {
            let due = link.next_event();
            played.serve(&mut link, due);
        }
        let bits = Packet::sent_with(Ecn::Ect0);
        let parts = Parts { time: now, seq: number, hash: flow << 22, bytes: 1250, bits, ..Parts::default() };
        let starts = link.arrive(now, &mut Packet::from(parts));
        played.settle(&mut link, now);
        if starts {
            played.serve(&mut link, now);
        }
    }
    if to.is_some() {
        link.change(middle, Change::Qdisc);
        played.settle(&mut link, middle);
    }
    while link.next_event() < Time::NEVER {
        let due = link.next_event();
        played.serve(&mut link, due);
    }
    played
}

/// Packet 0 is in transmission; packet 1 finds an empty discipline and a busy device. CoDel sees only later packets.
#[test]
fn codel_does_not_see_the_first_packet_that_waits() {
    let arrivals = [(0, 1), (10, 1), (20, 1), (30, 1)];
    for (qdisc, marked) in [
        ("codel ecn ce_threshold 100us", vec![2, 3]),
        ("codel ecn ce_threshold 100us variant linux7", vec![2, 3]),
        ("fq_codel ce_threshold 100us", vec![2, 3]),
        ("codel ecn ce_threshold 100us variant rfc8289", vec![1, 2, 3]),
        ("fq_codel ce_threshold 100us variant rfc8290", vec![1, 2, 3]),
    ] {
        let played = played(qdisc, None, &arrivals);
        assert_eq!((played.order(), played.marked), (vec![0, 1, 2, 3], marked), "{qdisc}");
    }
}

/// Packet 1, of a flow that has been sending, leaves before packet 3, the first of a new flow; RFC 8290 would send 3
/// first.
#[test]
fn a_new_flow_of_fq_codel_waits_for_the_packet_that_passed() {
    let arrivals = [(0, 1), (10, 1), (20, 1), (30, 2)];
    let left = |qdisc| played(qdisc, None, &arrivals).left;
    assert_eq!(left("fq_codel"), [(0, 1000), (1, 2000), (2, 3000), (3, 4000)]);
    assert_eq!(left("fq_codel quantum 1250 variant rfc8290"), [(0, 1000), (3, 2000), (1, 3000), (2, 4000)]);
    // Once packets are queued in the discipline, new flows are served first.
    let arrivals = [(0, 1), (10, 1), (20, 1), (30, 1), (1500, 2)];
    assert_eq!(played("fq_codel quantum 1250", None, &arrivals).order(), [0, 1, 2, 4, 3]);
}

#[test]
fn the_packet_that_waits_before_the_device_counts_towards_the_limit_as_long_as_it_waits() {
    // Packet 0 is in transmission and packet 1 waits. At 1.5 ms packet 1 is in transmission, and another packet may
    // wait.
    let arrivals = [(0, 1), (10, 1), (20, 1), (1500, 1), (1600, 1)];
    for (qdisc, dropped) in [("codel limit 1", vec![2, 4]), ("sfq limit 2", vec![4]), ("pfifo limit 1", vec![2, 4])] {
        assert_eq!(played(qdisc, None, &arrivals).dropped, dropped, "{qdisc}");
    }
    let burst = [(0, 1), (10, 1), (20, 1), (30, 1), (40, 1)];
    for qdisc in ["codel limit 2", "sfq limit 2", "pfifo limit 2"] {
        assert_eq!(played(qdisc, None, &burst).dropped, [3, 4], "{qdisc}");
    }
}

#[test]
fn behind_a_card_a_packet_passes_whether_its_ring_has_room_or_not() {
    let nic = Nic { ring: 2, bql: false, coalesce: Span::ZERO };
    let arrivals = [(0, 1), (10, 1), (20, 1), (30, 1), (40, 1)];
    let played = played("codel ecn ce_threshold 100us", Some(nic), &arrivals);
    // Two packets are in the ring; the third bypasses the discipline and waits for the ring.
    assert_eq!((played.order(), played.marked), (vec![0, 1, 2, 3, 4], vec![3, 4]));
}

/// Packet 0 is in transmission and 1 waits; at 0.5 ms the limit is lowered.
#[test]
fn a_change_that_leaves_too_little_room_drops_the_packet_that_waits_for_the_device_first() {
    let arrivals = [(0, 1), (10, 1), (20, 1), (30, 1)];
    for (from, to, dropped, left) in [
        ("codel limit 9", "codel limit 3", vec![], vec![0, 1, 2, 3]),
        ("codel limit 9", "codel limit 2", vec![1], vec![0, 2, 3]),
        ("codel limit 9", "codel limit 1", vec![1, 2], vec![0, 3]),
        ("fq_codel", "fq_codel limit 2", vec![1], vec![0, 2, 3]),
        ("fq_codel", "fq_codel limit 1", vec![1, 2], vec![0, 3]),
        // The memory limit covers only packets in the discipline.
        ("fq_codel", "fq_codel memory_limit 6000", vec![], vec![0, 1, 2, 3]),
        ("fq_codel", "fq_codel memory_limit 3000", vec![1, 2], vec![0, 3]),
        // No packet bypasses these.
        ("pie limit 9", "pie limit 2", vec![1], vec![0, 2, 3]),
    ] {
        let played = changed(from, Some(to), None, &arrivals);
        assert_eq!((played.dropped, played.left.iter().map(|one| one.0).collect()), (dropped, left), "{from} to {to}");
    }
    // Packets that arrive after the change are subject to the new limit.
    let more = [(0, 1), (10, 1), (20, 1), (600, 1), (700, 1)];
    assert_eq!(changed("codel limit 9", Some("codel limit 3"), None, &more).dropped, [4]);
    assert_eq!(changed("codel limit 9", Some("codel limit 1"), None, &more).dropped, [1, 3, 4]);
}

/// Goodput in Mbit/s of this flow through this discipline at 10 Mbit/s, over half a minute.
fn goodput(qdisc: &str, flow: &str) -> f64 {
    let text = format!(
        "duration = \"30s\"\nmeasure = [\"5s\", \"end\"]\n[[hop]]\nrate = \"10mbit\"\nqdisc = \"{qdisc}\"\n\
         [[flow]]\nkind = \"bulk\"\n{flow}\n"
    );
    let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let output = assert_engines_agree(&text, &plan.scenario(0).unwrap_or_else(|e| panic!("{e}")));
    output.flows[0].main.goodput_mbit.expect("a bulk flow")
}

/// Linux 7.3: CUBIC has 2.36 Mbit/s; DCTCP 5.34 or 6.17, depending on the order of a simultaneous arrival and
/// departure.
#[test]
fn a_threshold_below_a_packets_time_costs_what_it_costs_in_linux() {
    for (cc, linux) in [("cubic", 2.34..2.38), ("dctcp", 5.3..6.2)] {
        let here = goodput("codel ecn ce_threshold 1ms", &format!("cc = \"{cc}\"\necn = true\nrtt = \"10ms\""));
        assert!(linux.contains(&here), "{cc}: {here} Mbit/s, in Linux {linux:?}");
    }
}
