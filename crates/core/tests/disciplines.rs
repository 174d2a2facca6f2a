//! What holds for every discipline, whatever it does to delay: the books balance, a flow stays in order, and nobody
//! sees a packet twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use sojourn_core::packet::{Ecn, Packet};
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Qdisc};
use sojourn_core::rng::Rng;
use sojourn_core::units::{Rate, Span, Time};

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
    "fq limit 10000 flow_limit 100 buckets 1 orphan_mask 4294967295 ce_threshold 1ms",
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
    "ccaq limit 50 variant paper flow_limit 6",
    "ccaq limit 10000 variant paper flow_limit 10 multiplier 0.5 max_gi 5ms",
    "ccaq limit 10000 variant paper flow_limit 10 multiplier 2 max_gi_rtts 4",
];

const CONTEXT: Context =
    Context { mtu: 1514, overhead: 14, rate: Rate(10_000_000), delay: Span::from_millis(10), seed: 7 };

#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Parcel {
    id: u32,
    flow: u32,
    bytes: u32,
    ecn: Ecn,
    at: Time,
}

impl Packet for Parcel {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow_hash(&self) -> u32 {
        self.flow.wrapping_mul(2_654_435_769)
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }
    fn enqueue_time(&self) -> Time {
        self.at
    }
    fn set_enqueue_time(&mut self, now: Time) {
        self.at = now;
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// So many packets of one flow at once.
    Put { flow: u32, bytes: u32, ecn: Ecn, count: u32 },
    /// So many dequeues at once.
    Take(u32),
}

/// Bursts and pauses, ties of time and size; up to 3 s in one step, so that flows are forgotten and averages decay.
fn trace() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let step = prop_oneof![
        6 => Just(0u64), 6 => Just(1_211_200), 4 => 0u64..3_000_000, 2 => 0u64..120_000_000, 1 => 0u64..3_000_000_000,
    ];
    let bytes = prop_oneof![3 => Just(1514u32), 2 => Just(500), 2 => 40u32..1515];
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let op = prop_oneof![
        3 => (0u32..10, bytes, ecn, 1u32..12).prop_map(|(flow, bytes, ecn, count)| Op::Put { flow, bytes, ecn, count }),
        3 => (1u32..12).prop_map(Op::Take),
    ];
    prop::collection::vec((step, op), 1..200)
}

/// A discipline, and what an honest bookkeeper knows of it.
struct Ledger {
    qdisc: AnyQdisc<Parcel>,
    drops: Vec<(Parcel, DropReason)>,
    /// What is queued, in order of arrival, each as it came; by flow, and where the ECN field sorts, by that.
    queued: BTreeMap<(u32, u8), VecDeque<Parcel>>,
    /// Packets of a flow may overtake each other if their ECN fields differ.
    by_ecn: bool,
    arrived: (u32, u64),
    delivered: (u32, u64),
    dropped: (u32, u64),
    /// Everything that came out, in order.
    fates: Vec<(Parcel, Option<DropReason>)>,
}

impl Ledger {
    fn new(line: &str) -> Self {
        let spec: Spec = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        Ledger {
            qdisc: spec.build(&CONTEXT),
            drops: Vec::new(),
            queued: BTreeMap::new(),
            by_ecn: line.starts_with("dualpi2"),
            arrived: (0, 0),
            delivered: (0, 0),
            dropped: (0, 0),
            fates: Vec::new(),
        }
    }

    fn put(&mut self, now: Time, flow: u32, bytes: u32, ecn: Ecn) -> Result<(), TestCaseError> {
        let packet = Parcel { id: self.arrived.0, flow, bytes, ecn, at: Time::NEVER };
        self.arrived = (self.arrived.0 + 1, self.arrived.1 + u64::from(bytes));
        let class = if self.by_ecn { ecn as u8 } else { 0 };
        self.queued.entry((flow, class)).or_default().push_back(Parcel { at: now, ..packet });
        let full = self.qdisc.is_full(bytes);
        self.qdisc.enqueue(now, packet, &mut self.drops);
        let limited = self.drops.iter().any(|(_, r)| matches!(r, DropReason::Overlimit | DropReason::MemoryLimit));
        prop_assert_eq!(full, limited, "is_full says what the limits do");
        self.settle()
    }

    fn take(&mut self, now: Time) -> Result<(), TestCaseError> {
        let packet = self.qdisc.dequeue(now, &mut self.drops);
        // What was dropped on the way to this packet stood before it.
        self.settle()?;
        match packet {
            Some(packet) => {
                let mut queues = self.queued.range_mut((packet.flow, 0)..=(packet.flow, 3)).map(|(_, queue)| queue);
                let first = |queue: &&mut VecDeque<Parcel>| queue.front().is_some_and(|head| head.id == packet.id);
                let came = queues.find(first).and_then(VecDeque::pop_front);
                let Some(came) = came else { return Err(TestCaseError::fail(format!("{packet:?} came from nowhere"))) };
                prop_assert_eq!(Parcel { ecn: came.ecn, ..packet }, came, "in order, stamped and untouched");
                let marked = came.ecn != Ecn::NotEct && packet.ecn == Ecn::Ce;
                prop_assert!(packet.ecn == came.ecn || marked, "{:?} became {:?}", came.ecn, packet.ecn);
                self.delivered = (self.delivered.0 + 1, self.delivered.1 + u64::from(packet.bytes));
                self.fates.push((packet, None));
            }
            None if self.qdisc.packets() > 0 => {
                let next = self.qdisc.next_event();
                prop_assert!(next > now && next < Time::NEVER, "{next} says when to come back");
            }
            None => {}
        }
        self.balance()
    }

    /// Books the drops.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for (packet, reason) in self.drops.drain(..) {
            let mut queues = self.queued.range_mut((packet.flow, 0)..=(packet.flow, 3)).map(|(_, queue)| queue);
            let place = |queue: &VecDeque<Parcel>| queue.iter().position(|queued| queued.id == packet.id);
            let Some((queue, place)) = queues.find_map(|queue| place(queue).map(|at| (queue, at))) else {
                return Err(TestCaseError::fail(format!("{packet:?} was dropped but not there")));
            };
            queue.remove(place);
            self.dropped = (self.dropped.0 + 1, self.dropped.1 + u64::from(packet.bytes));
            self.fates.push((packet, Some(reason)));
        }
        Ok(())
    }

    fn balance(&self) -> Result<(), TestCaseError> {
        let packets: usize = self.queued.values().map(VecDeque::len).sum();
        let bytes: u64 = self.queued.values().flatten().map(|packet| u64::from(packet.bytes)).sum();
        prop_assert_eq!((self.qdisc.packets(), self.qdisc.backlog()), (packets, bytes));
        prop_assert_eq!(self.arrived.0 as usize, (self.delivered.0 + self.dropped.0) as usize + packets);
        prop_assert_eq!(self.arrived.1, self.delivered.1 + self.dropped.1 + bytes);
        Ok(())
    }

    fn run(&mut self, trace: &[(u64, Op)]) -> Result<(), TestCaseError> {
        let mut now = Time::ZERO;
        for (step, op) in trace {
            now += Span(*step);
            match *op {
                Op::Put { flow, bytes, ecn, count } => {
                    for _ in 0..count {
                        self.put(now, flow, bytes, ecn)?;
                        self.balance()?;
                    }
                }
                Op::Take(count) => (0..count).try_for_each(|_| self.take(now))?,
            }
        }
        // To the end: everything comes out, if it is asked for often enough.
        while self.qdisc.packets() > 0 {
            now = if self.qdisc.next_event() == Time::NEVER { now } else { now.max(self.qdisc.next_event()) };
            self.take(now)?;
        }
        prop_assert_eq!(self.qdisc.backlog(), 0);
        Ok(())
    }
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
            one.run(&trace)?;
            other.run(&trace)?;
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
                ledger.put(now, number % 3, 500 + 500 * (round % 3), Ecn::NotEct).expect(line);
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

/// A line like this one with other numbers: corners of what a parameter may be, often its own.
fn with_other_numbers(line: &str, rng: &mut Rng) -> String {
    const CORNERS: [u32; 10] = [0, 1, 2, 3, 5, 10, 64, 100, 1000, 65_535];
    let words = line.split(' ').map(|word| {
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let corner = CORNERS[rng.next_u32_below(10) as usize];
        if digits == 0 || rng.next_u32_below(3) > 0 { word.into() } else { format!("{corner}{}", &word[digits..]) }
    });
    words.collect::<Vec<String>>().join(" ")
}

/// Arrivals of 1 to 5000 flows in bursts, with ties, lengths from a byte to 64 KiB, all ECN fields, and long rests.
fn load(rng: &mut Rng) -> Vec<(u64, Op)> {
    let flows = [1, 2, 10, 300, 5000][rng.next_u32_below(5) as usize];
    let steps = [0, 0, 1_211_200, 120_000, 20_000_000, 700_000_000, 90_000_000_000];
    let step = |rng: &mut Rng| {
        let most = if rng.next_u32_below(10) == 0 { 7 } else { 5 };
        steps[rng.next_u32_below(most) as usize]
    };
    let draw = |_| {
        let op = if rng.next_u32_below(2) == 0 {
            let bytes = [1, 40, 64, 300, 1500, 1500, 1514, 65_535][rng.next_u32_below(8) as usize];
            let ecn = Ecn::from_bits(rng.next_u32_below(4) as u8);
            Op::Put { flow: rng.next_u32_below(flows), bytes, ecn, count: 1 + rng.next_u32_below(20) }
        } else {
            Op::Take(1 + rng.next_u32_below(20))
        };
        (step(&mut *rng), op)
    };
    (0..120).map(draw).collect()
}

/// As long as SOJOURN_FUZZ_S says, in seconds; without it a moment.
#[test]
fn whatever_the_parameters_and_the_load_are_the_books_balance() {
    let seconds = std::env::var("SOJOURN_FUZZ_S").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let (begin, mut rng) = (std::time::Instant::now(), Rng::stream(1, "fuzz"));
    let (mut traces, mut refused) = (0u64, 0u64);
    while begin.elapsed().as_secs() < seconds {
        for line in LINES {
            let line = with_other_numbers(line, &mut rng);
            let trace = load(&mut rng);
            if line.parse::<Spec>().is_err() {
                refused += 1;
                continue;
            }
            traces += 1;
            let run = std::panic::AssertUnwindSafe(|| Ledger::new(&line).run(&trace));
            match std::panic::catch_unwind(run) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => panic!("{line}: {error}\n{trace:?}"),
                Err(_) => panic!("{line}: panics\n{trace:?}"),
            }
        }
    }
    assert!(traces > refused / 4, "{traces} played, {refused} refused");
    if seconds > 2 {
        std::fs::write(env!("CARGO_TARGET_TMPDIR").to_string() + "/fuzz.txt", format!("{traces} {refused}"))
            .expect("a note");
    }
}
