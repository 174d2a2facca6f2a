//! FQ-PIE: the rounds, the PIE of each queue, and overdue updates.

use super::*;
use crate::packet::Ecn;
use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};

fn fq_pie(params: &Params) -> Bench<FqPie<Parcel>> {
    Bench::new(FqPie::new(params, &CONTEXT))
}

/// A hash that is mapped to this queue out of 1024.
fn queue(number: u32) -> u32 {
    number << 22
}

fn vars(bench: &mut Bench<FqPie<Parcel>>, number: u32) -> &mut Vars {
    &mut bench.qdisc.flows.flow_mut(number).state.vars
}

#[test]
fn queues_are_served_in_turn_new_ones_first_with_a_quantum_of_bytes_each() {
    // Below tc's least quantum; the rounds are fq_codel's.
    let mut bench = fq_pie(&Params { quantum: Some(90), ..Params::default() });
    let (one, two) = (queue(1), queue(2));
    bench.fill(ms(0), one, 120, 5);
    assert_eq!(bench.take_flow(ms(0)), Some(one));
    bench.fill(ms(0), two, 120, 5);
    let order: [_; 4] = core::array::from_fn(|_| bench.take_flow(ms(0)));
    assert_eq!(order, [Some(two), Some(one), Some(two), Some(one)]);
    assert_eq!(bench.counter("new_flow_count"), 2);
    assert_eq!((bench.counter("new_flows_len"), bench.counter("old_flows_len")), (0, 2));
}

#[test]
fn a_queue_that_sends_at_just_the_right_pace_does_not_starve_the_others() {
    let mut bench = fq_pie(&Params::default());
    bench.fill(ms(0), queue(1), 1514, 20);
    bench.take(ms(0));
    let mut served = 0;
    for at in 1..20 {
        bench.put(ms(at), queue(2), 1514);
        served += u32::from(bench.take_flow(ms(at)) == Some(queue(1)));
    }
    assert!(served >= 8, "{served}");
}

#[test]
fn only_the_queue_that_stands_is_dropped_from() {
    let mut bench = fq_pie(&Params::default());
    bench.fill(ms(0), queue(1), 1514, 200);
    for at in 1..3000 {
        if bench.take_flow(ms(at * 2)) == Some(queue(1)) {
            bench.fill(ms(at * 2), queue(1), 1514, 2);
        }
        if at % 4 == 0 {
            bench.put(ms(at * 2), queue(2), 100);
        }
    }
    let (thick, thin): (u32, u32) = bench.drops.iter().fold((0, 0), |(thick, thin), (packet, reason)| {
        assert_eq!(*reason, DropReason::Early);
        if packet.hash == queue(1) { (thick + 1, thin) } else { (thick, thin + 1) }
    });
    assert!(thick > 100 && thin == 0, "{thick} {thin}");
}

#[test]
fn a_full_discipline_drops_what_arrives_whosever_it_is() {
    let mut bench = fq_pie(&Params { limit: 10, ..Params::default() });
    bench.fill(ms(0), queue(1), 1514, 10);
    let last = bench.put(ms(0), queue(2), 100);
    assert_eq!(bench.new_drops(), [(last, DropReason::Overlimit)]);
    assert_eq!((bench.counter("overlimit"), bench.counter("dropped"), bench.counter("pkts_in")), (1, 1, 10));
}

#[test]
fn too_much_memory_is_only_counted() {
    let mut bench = fq_pie(&Params { memory_limit: 1000, ..Params::default() });
    bench.fill(ms(0), queue(1), 600, 4);
    // The third finds 1200 bytes, no more than the limit and itself; the fourth finds 1800.
    assert_eq!((bench.drops.len(), bench.counter("overmemory"), bench.counter("memory_used")), (0, 1, 2400));
}

#[test]
fn what_a_packet_takes_beside_its_length_counts_as_memory() {
    let params = Params { memory_limit: 5000, ..Params::default() };
    let mut bench = Bench::new(FqPie::new(&params, &Context { skb: 830, ..CONTEXT }));
    bench.fill(ms(0), queue(1), 1514, 5);
    // The fourth finds 7032 bytes, no more than the limit and its own 2344; the fifth finds 9376.
    assert_eq!((bench.counter("overmemory"), bench.counter("memory_used")), (1, 5 * 2344));
}

#[test]
fn marks_stand_for_drops_up_to_ecn_prob() {
    for (percent, marks, drops) in [(20, 1, 0), (19, 0, 1)] {
        let mut bench = fq_pie(&Params { ecn: true, ecn_prob: percent, ..Params::default() });
        bench.fill(ms(0), queue(3), 1514, 10);
        let target = bench.qdisc.control.target;
        let vars = vars(&mut bench, 3);
        (vars.burst_time, vars.qdelay, vars.prob) = (0, target, MAX_PROB / 100 * 20);
        vars.accu_prob = MAX_PROB / 2 * 17;
        bench.put_ecn(ms(0), queue(3), 1514, Ecn::Ect0);
        assert_eq!((bench.counter("ecn_mark"), bench.counter("dropped")), (marks, drops));
    }
}

#[test]
fn updates_that_are_made_up_for_end_where_each_on_its_own_does() {
    let params = Params { flows: 5000, limit: 400, ..Params::default() };
    let hash = |number: u64| ((number * 1100) << 32).div_ceil(5000) as u32;
    let run = |each: bool| {
        let mut bench = fq_pie(&params);
        for at in 0..4000u64 {
            if each {
                (0..5000).for_each(|number| bench.qdisc.update(ms(at), number));
            }
            if at % 1000 < 800 {
                bench.fill(ms(at), hash(at % 5), 1514, 2);
            }
            bench.take(ms(at));
        }
        (bench.new_drops(), bench.qdisc.stats())
    };
    let (slow, fast) = (run(true), run(false));
    assert!(fast.0.len() > 500);
    assert_eq!(slow, fast);
}

#[test]
fn a_round_updates_2048_queues_in_a_jiffy() {
    let mut bench = fq_pie(&Params { flows: 5000, ..Params::default() });
    let seen = |bench: &mut Bench<FqPie<Parcel>>, at: Time| {
        [0, 2047, 2048, 4096].map(|number| {
            bench.qdisc.update(at, number);
            bench.qdisc.flows.flow(number).state.updates
        })
    };
    assert_eq!(seen(&mut bench, ms(512)), [0; 4]);
    assert_eq!(seen(&mut bench, ms(513)), [1, 1, 0, 0]);
    assert_eq!(seen(&mut bench, ms(516)), [1, 1, 0, 0]);
    assert_eq!(seen(&mut bench, ms(517)), [1, 1, 1, 0]);
    assert_eq!(seen(&mut bench, ms(521)), [1, 1, 1, 1]);
    // The last batch was in jiffy 130; five later comes the next round.
    assert_eq!(seen(&mut bench, ms(540)), [1, 1, 1, 1]);
    assert_eq!(seen(&mut bench, ms(541)), [2, 2, 1, 1]);
    let mut once = fq_pie(&Params { flows: 5000, tupdate: Span::ZERO, ..Params::default() });
    assert_eq!(seen(&mut once, ms(5000)), [1, 1, 0, 0], "without tupdate the round is not gone on with");
}
