//! The effects of `tc qdisc change` on each discipline while packets wait: [`Qdisc::change`](super::Qdisc::change).

use super::tc::Spec;
use super::testing::{Bench, CONTEXT, Parcel, ms};
use super::{AnyQdisc, DropReason, Qdisc, Unchangeable};
use crate::packet::Ecn;
use crate::units::Time;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A discipline, and its parameters as they are now.
struct Living {
    bench: Bench<AnyQdisc<Parcel>>,
    spec: Spec,
}

impl Living {
    fn new(line: &str) -> Living {
        let spec: Spec = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        Living { bench: Bench::new(spec.build(&CONTEXT)), spec }
    }

    /// Changes the parameters and returns the ids of the packets that this drops.
    fn change(&mut self, now: Time, line: &str) -> Vec<u32> {
        let change = self.spec.changed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        self.bench.qdisc.change(now, &change.spec, &mut self.bench.drops).unwrap_or_else(|_| panic!("{line}"));
        self.spec = change.spec;
        let drops = self.bench.new_drops();
        assert!(drops.iter().all(|(_, reason)| *reason == DropReason::Overlimit), "{drops:?}");
        drops.into_iter().map(|(id, _)| id).collect()
    }

    /// Returns the error message of a change that is refused.
    fn refusal(&mut self, line: &str) -> String {
        let refused = match self.spec.changed(line) {
            Ok(change) => {
                let taken = self.bench.qdisc.change(ms(0), &change.spec, &mut self.bench.drops);
                taken.map_err(|Unchangeable| change.spec.unchangeable())
            }
            Err(error) => Err(error),
        };
        refused.expect_err(line).to_string()
    }

    /// Dequeues all packets that may leave now and returns their flows.
    fn flows(&mut self, now: Time) -> Vec<u32> {
        core::iter::from_fn(|| self.bench.take_flow(now)).collect()
    }
}

#[test]
fn what_a_change_does_not_name_stays_and_tc_hears_of_what_it_names() {
    let spec: Spec = "codel limit 300 target 7ms ecn".parse().expect("codel");
    let change = spec.changed("codel interval 50ms noecn").expect("a change");
    assert_eq!(change.spec.to_string(), "codel limit 300 target 7ms interval 50ms");
    assert_eq!(change.line, "codel interval 50ms noecn");
    // tc sends all of red's parameters together, and fills in those that the line does not name.
    let spec: Spec = "red limit 600000 min 30000 max 90000 avpkt 500 burst 90 ecn".parse().expect("red");
    let change = spec.changed("red limit 400000").expect("a change");
    assert_eq!(Ok(change.spec), "red limit 400000".parse());
    assert_eq!(change.line, "red limit 400000 avpkt 1000 bandwidth 10mbit");
    // tc sends the values that cake's presets set.
    let spec: Spec = "cake bandwidth 8mbit ethernet".parse().expect("cake");
    let line = |words: &str| spec.changed(words).expect("a change").line;
    assert_eq!(line("cake metro"), "cake rtt 10ms");
    assert_eq!(line("cake unlimited nat"), "cake nat unlimited");
}

#[test]
fn what_linux_refuses_is_refused_in_words() {
    let mut fq_codel = Living::new("fq_codel flows 16");
    assert!(fq_codel.refusal("fq_codel flows 32").contains("cannot be changed after setup"));
    assert!(fq_codel.refusal("fq flows 32").contains("expected fq_codel"));
    assert!(fq_codel.refusal("fq_codel limit 4294967296").contains("limit must be"));
    assert!(fq_codel.refusal("fq_codel variant rfc8290").contains("after setup"));
    assert!(Living::new("red limit 400000").refusal("red min 5000").contains("red needs limit"));
    assert!(Living::new("prio").refusal("prio bands 2").contains("is not there"));
    assert!(Living::new("tbf rate 1mbit burst 2k child codel").refusal("tbf rate 1mbit burst 2k").contains("limit"));
    // Linux's sfq has no change; of the others ours has none.
    for line in ["sfq", "htb rate 1mbit", "blue limit 9", "pie variant rfc8033", "noqueue"] {
        assert!(Living::new(line).refusal(line).contains("expected one line for the whole run"), "{line}");
    }
}

#[test]
fn codel_drops_from_the_head_what_a_lower_limit_leaves_no_room_for() {
    let mut codel = Living::new("codel limit 9");
    codel.bench.fill(ms(0), 1, 1000, 5);
    assert_eq!(codel.change(ms(1), "codel limit 2"), [0, 1, 2]);
    assert_eq!(codel.bench.counter("drop_overlimit"), 0);
    assert!(codel.bench.qdisc.is_full(1));
}

#[test]
fn fq_codel_gives_up_what_the_link_would_get_next() {
    let mut fq_codel = Living::new("fq_codel quantum 1000");
    fq_codel.bench.fill(ms(0), 1, 1000, 3);
    fq_codel.bench.fill(ms(0), u32::MAX, 1000, 3);
    assert_eq!(fq_codel.change(ms(1), "fq_codel limit 4"), [0, 3]);
    assert_eq!(fq_codel.change(ms(1), "fq_codel memory_limit 2500 limit 100"), [1, 4]);
    assert_eq!(fq_codel.flows(ms(1)), [1, u32::MAX]);
}

#[test]
fn a_fifo_keeps_what_is_above_a_lower_limit() {
    for (line, lower) in [("pfifo limit 9", "pfifo limit 2"), ("bfifo limit 9000", "bfifo limit 2000")] {
        let mut fifo = Living::new(line);
        fifo.bench.fill(ms(0), 1, 1000, 5);
        assert_eq!(fifo.change(ms(1), lower), []);
        assert_eq!((fifo.bench.qdisc.packets(), fifo.bench.qdisc.is_full(1000)), (5, true));
    }
    let mut fifo = Living::new("pfifo_head_drop limit 9");
    fifo.bench.fill(ms(0), 1, 1000, 5);
    fifo.change(ms(1), "pfifo_head_drop limit 2");
    fifo.bench.put(ms(1), 1, 1000);
    assert_eq!((fifo.bench.new_drops().len(), fifo.bench.qdisc.packets()), (1, 5), "one goes for the one that comes");
}

#[test]
fn fq_gives_up_what_may_leave_and_keeps_what_is_held_back() {
    let mut fq = Living::new("fq maxrate 8mbit quantum 1000 initial_quantum 1000");
    fq.bench.fill(ms(0), 1, 1000, 5);
    assert_eq!(fq.bench.take_flow(ms(0)), Some(1));
    assert_eq!(fq.bench.take_flow(ms(0)), None, "held back until 1 ms");
    assert_eq!(fq.change(ms(0), "fq limit 1"), []);
    // Another number of buckets finds the same flows; 1 ms later the next may leave.
    assert_eq!(fq.change(ms(1), "fq buckets 4"), [1]);
    assert_eq!(fq.bench.counter("flows"), 1);
}

#[test]
fn fq_passes_nobody_by_a_flow_whose_time_has_come() {
    let mut fq = Living::new("fq maxrate 8mbit quantum 1000 initial_quantum 1000 variant linux67");
    fq.bench.fill(ms(0), 1, 1000, 2);
    assert_eq!((fq.bench.take_flow(ms(0)), fq.bench.take_flow(ms(0))), (Some(1), None));
    fq.spec = "fq quantum 1000 initial_quantum 1000 variant linux67".parse().expect("fq");
    fq.change(ms(0), "fq limit 100");
    fq.bench.put(ms(0), 2, 100);
    assert_eq!((fq.bench.counter("fastpath"), fq.bench.take_flow(ms(0))), (1, Some(2)));
    fq.bench.put(ms(2), 2, 100);
    assert_eq!((fq.bench.counter("fastpath"), fq.flows(ms(2))), (1, Vec::from([1, 2])));
}

#[test]
fn pie_drops_from_the_head_and_another_tupdate_counts_from_the_next_update_on() {
    let mut pie = Living::new("pie limit 9 tupdate 400ms");
    pie.bench.fill(ms(0), 1, 1000, 5);
    assert_eq!(pie.change(ms(1), "pie limit 2"), [0, 1, 2]);
    assert_eq!(pie.bench.counter("overlimit"), 0);
    let mut fq_pie = Living::new("fq_pie limit 9 quantum 1000");
    fq_pie.bench.fill(ms(0), 1, 1000, 3);
    fq_pie.bench.fill(ms(0), u32::MAX, 1000, 3);
    assert_eq!(fq_pie.change(ms(1), "fq_pie limit 3"), [0, 3, 1]);
}

#[test]
fn red_and_sfb_begin_anew_with_an_empty_queue() {
    let mut red = Living::new("red limit 600000 min 30000 max 90000 avpkt 1000 burst 55");
    red.bench.fill(ms(0), 1, 1000, 4);
    assert_eq!(red.change(ms(1), "red limit 400000 avpkt 1000"), [0, 1, 2, 3]);
    assert_eq!((red.bench.qdisc.packets(), red.bench.qdisc.backlog()), (0, 0));
    let mut sfb = Living::new("sfb limit 50");
    sfb.bench.fill(ms(0), 1, 1000, 4);
    assert_eq!(sfb.change(ms(1), "sfb limit 10"), [0, 1, 2, 3]);
    assert_eq!((sfb.bench.qdisc.packets(), sfb.bench.counter("maxqlen")), (0, 0));
}

#[test]
fn choke_drops_from_the_tail_what_a_smaller_table_has_no_place_for() {
    let mut choke = Living::new("choke limit 100 bandwidth 10mbit");
    for flow in 0..20 {
        choke.bench.put(ms(0), flow, 1000);
    }
    assert_eq!(choke.change(ms(1), "choke limit 12 bandwidth 10mbit min 2 max 9 burst 3"), [15, 16, 17, 18, 19]);
    assert_eq!((choke.bench.qdisc.packets(), choke.bench.qdisc.backlog()), (15, 15_000));
}

#[test]
fn prio_drops_the_packets_of_bands_that_are_no_more() {
    let mut prio = Living::new("prio bands 3");
    for dscp in [2, 0, 4, 2] {
        prio.bench.put_dscp(ms(0), u32::from(dscp), 100, dscp);
    }
    assert_eq!(prio.change(ms(1), "prio bands 2 priomap 1 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1"), [0, 3]);
    assert_eq!(prio.flows(ms(1)), [4, 0]);
}

#[test]
fn tbf_fills_its_buckets_and_gives_its_limit_to_the_fifo_below() {
    let mut tbf = Living::new("tbf rate 8mbit burst 1000 limit 5000");
    tbf.bench.fill(ms(0), 1, 1000, 5);
    assert_eq!(tbf.flows(ms(0)), [1]);
    assert_eq!(tbf.change(ms(0), "tbf rate 8mbit burst 2000 limit 1000"), []);
    assert_eq!((tbf.flows(ms(0)), tbf.bench.qdisc.packets()), (Vec::from([1, 1]), 2));
    assert!(tbf.bench.qdisc.is_full(100));
}

#[test]
fn dualpi2_drops_from_the_classic_queue_first() {
    let mut dualpi2 = Living::new("dualpi2 max_rtt 30ms");
    for ecn in [Ecn::Ect1, Ecn::NotEct, Ecn::NotEct, Ecn::Ect1] {
        dualpi2.bench.put_ecn(ms(0), 1, 1000, ecn);
    }
    assert_eq!(dualpi2.change(ms(0), "dualpi2 limit 1"), [1, 2, 0]);
    assert_eq!(dualpi2.bench.counter("memory-limit"), 2 * 1514);
    dualpi2.change(ms(0), "dualpi2 memlimit 9000");
    assert_eq!(dualpi2.bench.counter("memory-limit"), 9000);
    assert_eq!(dualpi2.spec.to_string(), "dualpi2 memlimit 9000 target 5ms", "as max_rtt sets it");
}

#[test]
fn cake_keeps_its_queues_at_another_bandwidth_and_drops_those_of_tins_that_are_no_more() {
    let mut cake = Living::new("cake bandwidth 8mbit diffserv4 raw");
    for (dscp, count) in [(0, 2), (46, 3)] {
        for _ in 0..count {
            cake.bench.put_dscp(ms(0), u32::from(dscp), 1000, dscp);
        }
    }
    assert_eq!(cake.flows(ms(0)).len(), 1, "the next may leave 1 ms later");
    assert_eq!(cake.change(ms(0), "cake bandwidth 80mbit"), []);
    assert_eq!(cake.spec.to_string(), "cake bandwidth 80mbit diffserv4 raw overhead 0");
    assert_eq!((cake.bench.qdisc.packets(), cake.bench.take_flow(ms(0))), (4, None), "held back as before");
    assert!(cake.bench.take_flow(ms(1)).is_some());
    let next = cake.bench.qdisc.next_event();
    assert_eq!((cake.bench.take_flow(ms(1)), cake.bench.qdisc.next_event()), (None, Time(1_100_000)), "{next:?}");
    // Voice has the fourth tin; best effort keeps the first.
    let voice = cake.bench.qdisc.packets();
    let dropped = cake.change(ms(2), "cake besteffort").len();
    assert_eq!(cake.bench.qdisc.packets() + dropped, voice);
    assert!(cake.flows(ms(9)).iter().all(|flow| *flow == 0));
    cake.bench.put_dscp(ms(9), 46, 1000, 46);
    assert_eq!(cake.bench.take_flow(ms(9)), Some(46), "in the one tin that is left");
    assert_eq!(cake.change(ms(10), "cake diffserv8 unlimited"), []);
    assert_eq!(cake.bench.qdisc.next_event(), Time::NEVER);
}

#[test]
fn ccaq_needs_no_variant_in_a_change() {
    let mut ccaq = Living::new("ccaq variant paper quantum 1000 initial_quantum 1000");
    ccaq.bench.fill(ms(0), 1, 1000, 2);
    ccaq.bench.fill(ms(0), 2, 1000, 2);
    assert_eq!(ccaq.change(ms(1), "ccaq limit 3"), [0]);
    assert_eq!(
        ccaq.spec.changed("ccaq flow_limit 5 max_gi 20ms").expect("ccaq").line,
        "ccaq_paper flow_limit 5 max_gi 20ms"
    );
}
