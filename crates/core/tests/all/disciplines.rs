//! Invariants of every discipline: every packet is delivered or dropped exactly once, counters balance, and a flow stays in
//! order.

use std::collections::BTreeSet;

use crate::ledger::{Ledger, Op, Trace};
use proptest::prelude::*;
use sojourn_core::qdisc::DropReason;
use sojourn_core::units::{Span, Time};

/// Every discipline and variant that holds packets, with limits that the traces meet, and some as they come.
const LINES: &[&str] = &[
    "pfifo limit 20",
    "bfifo limit 20000",
    "pfifo_head_drop limit 20",
    "codel limit 30",
    "codel limit 1000 ecn ce_threshold 1ms",
    "codel limit 30 variant linux7 ecn",
    "codel limit 30 variant rfc8289",
    "codel limit 1000 variant rfc8289 target 1ms interval 10ms",
    "codel limit 30 variant ns2",
    "codel limit 1000 variant ns2 target 1ms interval 10ms ecn",
    "fq_codel limit 25 flows 4 drop_batch 3",
    "fq_codel limit 25 flows 4 variant rfc8290 target 1ms interval 10ms",
    "fq_codel limit 25 flows 4 variant ns2",
    "fq_codel limit 1000 flows 4 variant ns2 target 1ms interval 10ms noecn quantum 300",
    "fq_codel limit 10240 variant linux7 target 1ms interval 10ms noecn",
    "fq_codel limit 10240 memory_limit 16k quantum 300 ce_threshold 2ms",
    "fq limit 40 flow_limit 8 orphan_mask 7 buckets 2 refill_delay 1ms",
    "fq limit 10000 flow_limit 100 buckets 2 orphan_mask 4294967295 ce_threshold 1ms",
    "fq limit 40 maxrate 2mbit quantum 1514 initial_quantum 1514",
    "red limit 30 variant ns2",
    "red limit 1000 variant ns2 min 3 max 9 q_weight 0.2 ecn",
    "red limit 1000 variant ns2 min 3 max 9 q_weight 0.2 nogentle nowait nobytes adaptive",
    "pie limit 30",
    "pie limit 1000 target 1ms tupdate 4ms alpha 32 beta 32 ecn bytemode",
    "pie limit 100 target 1ms tupdate 4ms alpha 32 beta 32 dq_rate_estimator",
    "pie limit 1000 target 1ms tupdate 1ms alpha 32 beta 32 ecn variant rfc8033",
    "pie limit 30 target 1ms tupdate 1ms alpha 32 beta 32 ecn variant rfc8033b",
    "fq_pie limit 25 flows 4",
    "fq_pie limit 1000 flows 2 target 1ms tupdate 4ms alpha 32 beta 32 ecn quantum 300",
    "fq_pie limit 1000 flows 5000 target 1ms tupdate 4ms alpha 32 beta 32 dq_rate_estimator memory_limit 16k",
    "dualpi2 limit 30",
    "dualpi2 limit 1000 target 1ms tupdate 1ms alpha 20 beta 100 step_thresh 3p min_qlen_step 2",
    "dualpi2 limit 1000 target 1ms tupdate 1ms alpha 20 beta 100 drop_enqueue overflow memlimit 30000 any_ect",
    "dualpi2 limit 20 variant rfc9332",
    "dualpi2 target 1ms max_rtt 4ms variant rfc9332 classic_protection 50%",
    "sfq",
    "sfq limit 20 depth 6 divisor 4 quantum 300 headdrop",
    "sfq limit 30 perturb 1 divisor 4",
    "sfq variant ns2",
    "sfq limit 30 flows 3 variant ns2",
    "prio bands 2 priomap 1 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1",
    "tbf rate 8mbit burst 3000 limit 20000",
    "tbf rate 8mbit burst 20000 limit 30000 peakrate 9mbit mtu 1514 overhead 18 mpu 64",
    "tbf rate 8mbit burst 1514 child fq_codel limit 25 flows 4",
    "htb rate 8mbit child fq limit 40 maxrate 2mbit quantum 1514 initial_quantum 1514",
    "htb rate 9mbit ceil 8mbit burst 15000 cburst 1 child pfifo limit 20",
    "red limit 40000 min 9000 max 20000 avpkt 1000 burst 12 probability 0.3",
    "red limit 200000 min 4000 max 9000 avpkt 1000 burst 6 ecn adaptive",
    "red limit 30000 min 4000 max 9000 avpkt 1000 burst 6 ecn nodrop",
    "choke limit 20 bandwidth 10mbit min 2 max 5 burst 4 probability 0.2",
    "choke limit 40 bandwidth 10mbit min 4 max 30 burst 6 probability 0.2 ecn",
    "sfb limit 30",
    "sfb limit 100 max 8 target 2 increment 0.4 decrement 0.01 rehash 900 db 300 penalty_rate 100",
    "blue limit 10 increment 0.1 freeze_time 10ms ecn",
    "cake memlimit 16k",
    "cake besteffort flows rtt 2ms variant linux7",
    "cake bandwidth 8mbit hosts ingress atm overhead 18 memlimit 40k variant linux612",
    "cake bandwidth 4mbit diffserv8 dual-srchost rtt 1ms memlimit 20k ack-filter",
    "cake flowblind ptm raw rtt 5ms",
    "ccaq limit 50",
    "ccaq limit 1000 flows 8 idle 5% memory_limit 40k noecn",
    "ccaq limit 50 variant paper flow_limit 6",
    "ccaq limit 10000 variant paper flow_limit 10 multiplier 0.5 max_gi 5ms",
    "ccaq limit 10000 variant paper flow_limit 10 multiplier 2 max_gi_rtts 4",
];

/// Bursts and pauses, ties of time and size; up to 3 s in one step, so that flows are forgotten and averages decay.
fn trace() -> impl Strategy<Value = Trace> {
    let step = prop_oneof![
        6 => Just(0u64), 6 => Just(1_211_200), 4 => 0u64..3_000_000, 2 => 0u64..120_000_000, 1 => 0u64..3_000_000_000,
    ];
    let bytes = prop_oneof![3 => Just(1514u32), 2 => Just(500), 2 => 40u32..1515];
    let op = prop_oneof![
        3 => (0u32..10, bytes, 0u8..4, 1u32..12).prop_map(|(flow, bytes, tos, count)| Op::Put { flow, bytes, tos, count }),
        3 => (1u32..12).prop_map(Op::Take),
    ];
    prop::collection::vec((step, op), 1..200).prop_map(|steps| {
        let mut now = 0;
        let timed = |(step, op)| {
            now += step;
            (now, op)
        };
        steps.into_iter().map(timed).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_packet_is_delivered_dropped_or_queued_once_in_order_and_the_counts_agree(trace in trace()) {
        for line in LINES {
            Ledger::new(line).run(&trace).map_err(|error| TestCaseError::fail(format!("{line}: {error}")))?;
        }
    }

    #[test]
    fn the_same_trace_has_the_same_fates(trace in trace()) {
        for line in LINES {
            let (mut one, mut other) = (Ledger::new(line), Ledger::new(line));
            one.run(&trace).and_then(|()| other.run(&trace)).map_err(TestCaseError::fail)?;
            prop_assert_eq!(one.fates, other.fates, "{}", line);
        }
    }
}

#[test]
fn the_traces_meet_every_reason_that_a_queue_has() {
    // Else the properties above would say little: a trace of their kind meets each of them somewhere.
    let mut reasons = BTreeSet::new();
    for line in LINES {
        let mut ledger = Ledger::new(line);
        let mut now = Time::ZERO;
        for round in 0u32..400 {
            let burst = if round % 40 < 20 { 6 } else { 1 };
            for number in 0..burst {
                ledger.put(now, number % 3, 500 + 500 * (round % 3), 0).expect(line);
            }
            for _ in 0..2 + u32::from(burst == 1) {
                ledger.take(now).expect(line);
                now += Span::from_micros(1_200);
            }
        }
        reasons.extend(ledger.fates.iter().map(|(_, reason)| reason.map_or("delivered", DropReason::name)));
    }
    for reason in [
        "delivered",
        "overlimit",
        "flow_limit",
        "memory_limit",
        "codel",
        "early",
        "forced",
        "shrink",
        "matched",
        "penalty",
    ] {
        assert!(reasons.contains(reason), "{reason} is missing in {reasons:?}");
    }
}
