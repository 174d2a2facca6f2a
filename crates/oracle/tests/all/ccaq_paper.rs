//! The paper's ccaq for Linux and that of the simulator make the same decisions, packet by packet.
#![expect(clippy::print_stdout, reason = "the counts are part of the evidence")]

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use sojourn_core::packet::{Ecn, Packet};
use sojourn_core::qdisc::ccaq::{self, Paper, Variant};
use sojourn_core::qdisc::fq::Buffer as _;
use sojourn_core::qdisc::{Context, DropReason, Qdisc};
use sojourn_core::rng::Rng;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_oracle::ccaq_paper::{Algorithm, Buffer, Params, Verdict, View, all};
use sojourn_oracle::skipped;

const MTU: u32 = 1514;
const PACKETS: u32 = 100_000;

#[derive(Clone, Copy, Default, Debug)]
struct Parcel {
    id: u32,
    /// The 32-bit hash. Flows that agree in the bits of the mask share a queue.
    hash: u32,
    at: Time,
    opens: bool,
}

impl Parcel {
    /// The queue of the flow.
    fn key(&self) -> u32 {
        self.hash & 1023
    }
}

impl Packet for Parcel {
    fn bytes(&self) -> u32 {
        MTU
    }
    fn flow_hash(&self) -> u32 {
        self.hash
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ecn(&mut self, _: Ecn) {}
    fn enqueue_time(&self) -> Time {
        self.at
    }
    fn set_enqueue_time(&mut self, now: Time) {
        self.at = now;
    }
    fn opens(&self) -> bool {
        self.opens
    }
}

/// One queue on the C side: its buffer, and the numbers and times of its packets.
struct Flow {
    buffer: Buffer,
    queue: VecDeque<(u32, Time)>,
}

/// A sender: time of the next packet, remaining packets of its burst, and whether the next one is a SYN.
#[derive(Clone, Copy, Default)]
struct Source {
    next: u64,
    burst: u64,
    opens: bool,
}

/// Coverage of the traces.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    drops: u64,
    shed: u64,
    enlarged: u64,
    shrunk: u64,
    syns: u64,
    round_trips: u64,
}

/// Plays a trace through core's ccaq. For each packet the C side must make the same decision, given core's order of
/// departures. Returns the coverage, or the first difference.
fn play(algorithm: &'static Algorithm, seed: u64) -> Result<Seen, String> {
    let mut rng = Rng::stream(seed, "ccaq against the kernel's");
    let flows = [1, 2, 10, 50][seed as usize % 4];
    let params = Params {
        flow_limit: [1, 5, 20, 100][rng.below(4) as usize],
        multiplier: [1_250_000, 500_000, 2_000_000][rng.below(3) as usize],
        max_increase: [2_000_000, 1_500_000, 1_000_000, 7_250_000][rng.below(4) as usize],
        max_gi: Span::from_millis([1000, 50, 5][rng.below(3) as usize]),
        max_gi_rtts: [0, 500_000, 2_000_000, 4_000_000][rng.below(4) as usize],
    };
    let ours = ccaq::Params {
        variant: Variant::Paper,
        flow_limit: params.flow_limit,
        multiplier: params.multiplier as f64 / 1e6,
        max_increase: params.max_increase as f64 / 1e6,
        max_gi: params.max_gi,
        max_gi_rtts: params.max_gi_rtts as f64 / 1e6,
        limit: u32::MAX,
        ..ccaq::Params::default()
    };
    let context = Context { mtu: MTU, overhead: 14, rate: Rate(100_000_000), delay: Span::ZERO, skb: 0, seed };
    let mut core: Paper<Parcel> = Paper::new(&ours, &context);
    let mut kernel: BTreeMap<u32, Flow> = BTreeMap::new();
    let mut seen = Seen::default();
    // A link of 100 Mbit/s, on a time grid with many ties. Flows send bursts of their own lengths and intervals, so
    // that queues overflow and run empty. In every other trace two flows share a queue. Some bursts begin with
    // handshakes.
    let shared = 1 + (seed / 4 % 2) as u32;
    let hash = |flow: usize| flow as u32 / shared + 1024 * (flow as u32 % shared);
    let (grid, service) = ([1, 30_000, 60_000][rng.below(3) as usize], 121_120);
    let snap = |time: u64| time / grid * grid;
    let mut sources = vec![Source::default(); flows as usize];
    for source in &mut sources {
        source.next = snap(rng.below(5_000_000));
    }
    let mut free = 0;
    for id in 0..PACKETS {
        let flow = (0..flows as usize).min_by_key(|&flow| (sources[flow].next, flow)).expect("there are flows");
        let Source { next: at, opens, .. } = sources[flow];
        while free < at && core.packets() > 0 {
            depart(&mut core, &mut kernel, Time(free))?;
            free = snap(free + service);
        }
        if core.packets() == 0 {
            free = free.max(at);
        }
        let packet = Parcel { id, hash: hash(flow), at: Time(at), opens };
        arrive(&mut core, &mut kernel, algorithm, &params, packet, &mut seen)?;
        let source = &mut sources[flow];
        source.burst = if source.burst == 0 { rng.below(400) } else { source.burst - 1 };
        let pause = match source {
            Source { opens: true, .. } => 40_000_000,
            Source { burst: 0, .. } => 60_000_000,
            _ => 2 * service * flows / 3 + 1,
        };
        source.next = snap(source.next + rng.below(pause));
        source.opens = (source.opens || source.burst == 0) && rng.below(3) == 0;
    }
    for flow in kernel.values() {
        let View { enlarged, shrunk, .. } = flow.buffer.view();
        seen.enlarged += enlarged;
        seen.shrunk += shrunk;
    }
    Ok(seen)
}

fn arrive(
    core: &mut Paper<Parcel>,
    kernel: &mut BTreeMap<u32, Flow>,
    algorithm: &'static Algorithm,
    params: &Params,
    packet: Parcel,
    seen: &mut Seen,
) -> Result<(), String> {
    let now = packet.at;
    let mut dropped: Vec<(Parcel, DropReason)> = Vec::new();
    core.enqueue(now, packet, &mut dropped);
    let new = || Flow { buffer: algorithm.buffer(params, now), queue: VecDeque::new() };
    let flow = kernel.entry(packet.key()).or_insert_with(new);
    let verdict = flow.buffer.arrives(now, flow.queue.len() as u32, packet.hash, packet.opens);
    seen.syns += u64::from(packet.opens);
    let mut expected = Vec::new();
    match verdict {
        Verdict::Accept => flow.queue.push_back((packet.id, now)),
        Verdict::Refuse => expected.push(packet.id),
        Verdict::Shrink => {
            let keep = flow.queue.len().min(flow.buffer.view().limit as usize);
            expected.extend(flow.queue.drain(keep..).map(|(id, _)| id));
            seen.shed += expected.len() as u64;
            expected.push(packet.id);
        }
    }
    seen.drops += expected.len() as u64;
    let ours: Vec<u32> = dropped.iter().map(|(packet, _)| packet.id).collect();
    if ours != expected {
        return Err(format!("packet {} at {}: core drops {ours:?}, the module {expected:?}", packet.id, now.0));
    }
    let buffer = core.buffer(packet.hash).expect("a known flow");
    let View { limit, gi_end, rtt, .. } = flow.buffer.view();
    let ours = (buffer.limit(), buffer.gi_end().0, buffer.rtt().map_or(u64::MAX, |rtt| rtt.0));
    if ours != (limit, gi_end, rtt) {
        return Err(format!(
            "packet {} at {}: core's limit, end of GI and RTT are {ours:?}, the module's {:?}",
            packet.id,
            now.0,
            (limit, gi_end, rtt)
        ));
    }
    seen.round_trips += u64::from(!packet.opens && rtt != u64::MAX);
    Ok(())
}

fn depart(core: &mut Paper<Parcel>, kernel: &mut BTreeMap<u32, Flow>, now: Time) -> Result<(), String> {
    let packet = core.dequeue(now, &mut Vec::new()).expect("packets are queued and nothing is paced");
    let flow = kernel.get_mut(&packet.key()).expect("its packets came");
    let head = flow.queue.pop_front();
    let Some((_, arrived)) = head.filter(|(id, _)| *id == packet.id) else {
        return Err(format!("at {}: core sends {}, first in the module's queue is {head:?}", now.0, packet.id));
    };
    flow.buffer.departs(now, flow.queue.len() as u32, arrived);
    Ok(())
}

#[test]
fn the_module_takes_cores_decisions_packet_by_packet() {
    let Some(algorithm) = all().first() else { return skipped("the algorithm of ccaq_paper", "no C compiler") };
    assert_eq!(algorithm.fault, None);
    let mut all = Seen::default();
    for seed in 0..24 {
        let seen = play(algorithm, seed).unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
        all = Seen {
            drops: all.drops + seen.drops,
            shed: all.shed + seen.shed,
            enlarged: all.enlarged + seen.enlarged,
            shrunk: all.shrunk + seen.shrunk,
            syns: all.syns + seen.syns,
            round_trips: all.round_trips + seen.round_trips,
        };
    }
    println!("24 traces of {PACKETS} packets equal: {all:?}");
    assert!(all.drops > 100_000 && all.enlarged > 1_000 && all.shrunk > 1_000 && all.shed > 1_000, "{all:?}");
    assert!(all.syns > 1_000 && all.round_trips > 1_000_000, "{all:?}");
}

#[test]
fn every_planted_fault_is_seen() {
    for algorithm in all().iter().skip(1) {
        let caught = (0..24).filter(|&seed| play(algorithm, seed).is_err()).count();
        println!("{}: {caught} of 24 traces", algorithm.fault.expect("a fault"));
        assert!(caught > 0, "{:?} is not seen", algorithm.fault);
    }
}

proptest! {
    #[test]
    fn the_product_by_hand_is_the_product(a: u64, b: u64, c in 1u64.., shift in 0u32..64) {
        let Some(algorithm) = all().first() else { return Ok(()) };
        for (a, b) in [(a, b), (a >> shift, b), (a >> shift, b >> (63 - shift))] {
            let exact = u128::from(a) * u128::from(b) / u128::from(c);
            prop_assert_eq!(algorithm.times(a, b, c), u64::try_from(exact).unwrap_or(u64::MAX));
        }
    }
}
