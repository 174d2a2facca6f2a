//! ccaq for Linux and that of the simulator make the same decisions, packet by packet.
#![expect(clippy::print_stdout, reason = "the counts are part of the evidence")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sojourn_core::packet::{Ecn, Packet};
use sojourn_core::qdisc::ccaq::{self, Servo};
use sojourn_core::qdisc::stats::{Count, Stats};
use sojourn_core::qdisc::{Context, DropReason, Qdisc};
use sojourn_core::rng::Rng;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_oracle::ccaq::{Algorithm, Drop, Params, SINCE_BOOT, View, all};
use sojourn_oracle::skipped;

const MTU: u32 = 1514;
const PACKETS: u32 = 100_000;
const TRACES: u64 = 50;
const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

#[derive(Clone, Copy, Default, Debug)]
struct Parcel {
    id: u32,
    hash: u32,
    bytes: u32,
    ecn: Ecn,
    opens: bool,
    at: Time,
}

impl Packet for Parcel {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow_hash(&self) -> u32 {
        self.hash
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
    fn opens(&self) -> bool {
        self.opens
    }
}

/// A sender: a signal reduces its window, once in a round trip, and it grows in each round trip. It sends evenly spaced
/// bursts, a window in each round trip with the delay of the queue.
#[derive(Clone, Debug)]
struct Source {
    hash: u32,
    rtt: u64,
    /// The RTT after the handshake.
    rtt_then: u64,
    window: f64,
    growth: f64,
    back_off: f64,
    ecn: Ecn,
    bytes: u32,
    burst: u32,
    /// Packets until the next pause, and the packets of its bursts that are sent.
    left: u64,
    sent: u32,
    pause: u64,
    /// SYNs until the connection is open.
    syns: u32,
    /// How long the packet that left last had waited.
    waited: u64,
    /// When a signal takes effect.
    cut_at: u64,
    deaf: bool,
}

impl Source {
    fn new(rng: &mut Rng, number: u32, share: f64) -> Source {
        let rtt = MS * [5, 20, 40, 100, 150, 400][rng.below(6) as usize];
        let window = share * rtt as f64 / 1e9 / f64::from(MTU);
        Source {
            hash: number.wrapping_mul(2_654_435_769) ^ u32::from(rng.below(2) == 0),
            rtt,
            rtt_then: rtt,
            window: window.max(2.0),
            growth: (window / [10.0, 30.0, 100.0][rng.below(3) as usize]).max(1.0),
            back_off: [0.2, 0.5, 0.7, 0.85][rng.below(4) as usize],
            ecn: [Ecn::NotEct, Ecn::NotEct, Ecn::Ect0, Ecn::Ect0, Ecn::Ect1][rng.below(5) as usize],
            bytes: [MTU, MTU, MTU, 600, 90][rng.below(5) as usize],
            burst: [1, 1, 2, 10][rng.below(4) as usize],
            left: [200, 3_000, u64::MAX][rng.below(3) as usize],
            sent: 0,
            pause: [rtt / 2, 3 * SECOND, 61 * SECOND][rng.below(3) as usize],
            syns: [0, 1, 1, 2][rng.below(4) as usize],
            waited: 0,
            cut_at: 0,
            deaf: rng.below(12) == 0,
        }
    }

    /// A packet of this source was marked or dropped.
    fn signalled(&mut self, now: u64) {
        if !self.deaf && self.cut_at == 0 {
            self.cut_at = now + self.rtt + self.waited;
        }
    }

    /// The next packet: when it comes after `now`, and whether the present one is a SYN.
    fn next(&mut self, now: u64, rng: &mut Rng) -> (u64, bool) {
        if self.syns > 0 {
            self.syns -= 1;
            let answer = std::mem::replace(&mut self.rtt, self.rtt_then);
            return (now + if self.syns > 0 { SECOND } else { answer }, true);
        }
        if self.cut_at != 0 && now >= self.cut_at {
            self.window = (self.window * self.back_off).max(1.0);
            // The next signal of the same round trip is the same congestion.
            self.cut_at = 0;
        }
        self.window += self.growth / self.window;
        self.sent += 1;
        self.left -= 1;
        if self.left == 0 {
            (self.left, self.syns) = (3_000, rng.below(2) as u32);
            return (now + self.pause + rng.below(self.rtt), false);
        }
        if self.sent < self.burst {
            return (now, false);
        }
        self.sent = 0;
        let gap = (self.rtt + self.waited) as f64 * f64::from(self.burst) / self.window;
        (now + gap as u64 + rng.below(1 + gap as u64 / 16), false)
    }
}

/// Both sides, and the link below them.
struct Pair {
    core: Servo<Parcel>,
    module: sojourn_oracle::ccaq::Servo,
    dropped: Vec<(Parcel, DropReason)>,
    /// The source of each packet.
    of: Vec<u32>,
    /// Signals: the source of the packet.
    signals: Vec<u32>,
    operations: u64,
}

impl Pair {
    /// Compares what the last operation dropped, and sometimes all counters.
    fn compare(&mut self, now: Time, after: &str) -> Result<(), String> {
        let reason = |reason| match reason {
            DropReason::Codel => 0,
            DropReason::Penalty => 1,
            DropReason::Overlimit => 2,
            _ => 3,
        };
        let ours: Vec<Drop> =
            self.dropped.iter().map(|(packet, why)| Drop { id: packet.id, reason: reason(*why) }).collect();
        if ours != self.module.drops() {
            let theirs = self.module.drops();
            return Err(format!("{after} at {}: core drops {ours:?}, the module {theirs:?}", now.0));
        }
        self.signals.extend(self.dropped.iter().map(|(packet, _)| self.of[packet.id as usize]));
        self.dropped.clear();
        self.operations += 1;
        if self.operations.is_multiple_of(16) {
            let (ours, theirs) = (view(&self.core), self.module.view());
            if ours != theirs {
                return Err(format!("{after} at {}: core has {ours:?}, the module {theirs:?}", now.0));
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, packet: Parcel) -> Result<(), String> {
        let Parcel { id, hash, bytes, ecn, opens, at } = packet;
        self.core.enqueue(at, packet, &mut self.dropped);
        self.module.enqueue(at, id, bytes, hash, ecn as u32, opens);
        self.compare(at, "an arrival")
    }

    fn dequeue(&mut self, now: Time) -> Result<Option<Parcel>, String> {
        let ours = self.core.dequeue(now, &mut self.dropped);
        let theirs = self.module.dequeue(now);
        if ours.map(|packet| (packet.id, packet.ecn as u32)) != theirs {
            return Err(format!("at {}: core sends {ours:?}, the module {theirs:?}", now.0));
        }
        self.signals.extend(ours.filter(|packet| packet.ecn == Ecn::Ce).map(|packet| self.of[packet.id as usize]));
        self.compare(now, "a departure")?;
        Ok(ours)
    }

    fn change(&mut self, now: Time, to: &ccaq::Params) -> Result<(), String> {
        self.core.change(now, to, &mut self.dropped).expect("it can be changed");
        self.module.change(now, &kernels(to));
        self.compare(now, "a change")
    }
}

/// core's counters, as the module has them.
fn view(core: &Servo<Parcel>) -> View {
    let number = |stats: &Stats, name: &str| {
        let found = stats.iter().find(|(key, _)| *key == name).map(|(_, count)| count);
        match found {
            Some(Count::Number(number)) => *number,
            other => panic!("{name}: {other:?}"),
        }
    };
    let (stats, sums) = (core.stats(), core.classes().expect("it has flows"));
    let stat = |name| number(&stats, name);
    View {
        overlimit: stat("drop_overlimit"),
        overmemory: stat("drop_overmemory"),
        unresponsive: stat("drop_unresponsive"),
        fresh: stat("new_flow_count"),
        collisions: stat("collisions"),
        marks: stat("ecn_mark"),
        steps: stat("ce_mark"),
        new_len: stat("new_flows_len"),
        old_len: stat("old_flows_len"),
        idle_us: stat("idle_time"),
        min_target: stat("min_target"),
        max_target: stat("max_target"),
        min_rtt: stat("min_rtt"),
        max_rtt: stat("max_rtt"),
        targets: number(&sums, "target"),
        rtts: number(&sums, "rtt"),
        idles: number(&sums, "idle"),
    }
}

/// Parameters as `tc` and the kernel convert them.
fn kernels(params: &ccaq::Params) -> Params {
    Params {
        limit: params.limit,
        memory_limit: params.memory_limit,
        quantum: params.quantum.unwrap_or(MTU),
        share: (params.idle << 16) / 10_000,
        ecn: params.ecn,
    }
}

/// Coverage of the traces.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    signals: u64,
    marks: u64,
    steps: u64,
    overlimit: u64,
    overmemory: u64,
    unresponsive: u64,
    collisions: u64,
    /// The idle time of the link, in seconds, and of how many.
    idle_s: u64,
    of_s: u64,
    /// Looks at the largest target at which it differed from the look before.
    targets: u64,
}

/// Plays a trace through both sides. Returns the coverage, or the first difference.
fn play(algorithm: &'static Algorithm, seed: u64) -> Result<Seen, String> {
    let mut rng = Rng::stream(seed, "the servo against the kernel's");
    let pick = |rng: &mut Rng, of: &[u32]| of[rng.below(of.len() as u64) as usize];
    let rate = [1_000_000, 4_000_000, 20_000_000, 100_000_000][seed as usize % 4];
    let flows = [1, 2, 5, 20, 60][seed as usize % 5];
    let params = ccaq::Params {
        limit: pick(&mut rng, &[10_000, 1_000, 100]),
        memory_limit: pick(&mut rng, &[32 << 20, 32 << 20, 300_000]),
        quantum: [None, Some(300), Some(4_000)][rng.below(3) as usize],
        flows: pick(&mut rng, &[8, 16, 1024]),
        idle: if seed % 16 == 9 { 2_500 } else { pick(&mut rng, &[100, 50, 300]) },
        ecn: rng.below(4) > 0,
        ..ccaq::Params::default()
    };
    let skb = pick(&mut rng, &[0, 700]);
    let context = Context { mtu: MTU, overhead: 14, rate: Rate(rate), delay: Span::ZERO, skb, seed };
    let mut pair = Pair {
        core: Servo::new(&params, &context),
        module: algorithm.servo(&kernels(&params), params.flows, MTU, skb),
        dropped: Vec::new(),
        of: Vec::new(),
        signals: Vec::new(),
        operations: 0,
    };
    // In some traces the kernel's clock of 32 bits wraps around, and in some it is far from the flows' first state.
    let begin = match seed {
        _ if seed % 3 == 2 => (1 << 42) - SINCE_BOOT.0 - 5 * SECOND,
        _ if seed % 10 == 7 => 2_300 * SECOND,
        _ => SECOND,
    };
    // Times on a grid have many ties. The card below takes some packets before it sends them.
    let grid = [1, 1024, 30_000][rng.below(3) as usize];
    let ring = [0, 0, 3][rng.below(3) as usize];
    let share = f64::from(rate as u32) / 8.0 / f64::from(flows);
    let mut sources: Vec<Source> = (0..flows).map(|number| Source::new(&mut rng, number + 1, share)).collect();
    if seed % 8 == 5 {
        // One flow that has the link alone, and leaves nearly half of it idle, with gaps that are much shorter than an RTT.
        let bytes = 300;
        let window = share * f64::from(flows) * 0.1 / f64::from(bytes);
        sources.truncate(1);
        let bulk = Source { ecn: Ecn::Ect0, bytes, burst: 1, left: u64::MAX, deaf: false, ..sources[0].clone() };
        sources[0] = Source {
            window,
            growth: window / 100.0,
            back_off: 0.03,
            rtt: 40 * MS,
            rtt_then: 100 * MS,
            syns: 1,
            ..bulk
        };
    }
    let mut arrivals: BinaryHeap<Reverse<(u64, u32)>> =
        (0..sources.len() as u32).map(|number| Reverse((begin + rng.below(2 * SECOND), number))).collect();
    let (mut sent_until, mut seen, mut largest) = (begin, Seen::default(), 0);
    let (mut last, slow) = (begin, rate);
    for id in 0..PACKETS {
        // In some traces the rate has steps.
        let rate = if seed % 8 == 4 && id / 10_000 % 2 == 1 { 8 * slow } else { slow };
        let Some(Reverse((at, number))) = arrivals.pop() else { break };
        let now = at.max(last) / grid * grid;
        let now = now.max(last);
        loop {
            let service = u64::from(MTU) * 8 * SECOND / rate;
            let free = (sent_until.saturating_sub(ring * service).max(last)).div_ceil(grid) * grid;
            if free >= now || pair.core.packets() == 0 {
                break;
            }
            if let Some(packet) = pair.dequeue(Time(free))? {
                sent_until = sent_until.max(free) + u64::from(packet.bytes) * 8 * SECOND / rate;
                sources[pair.of[packet.id as usize] as usize].waited = free - packet.at.0;
            }
            last = free;
        }
        // A link that is idle asks again, without effect.
        if pair.core.packets() == 0 && rng.below(2) == 0 {
            pair.dequeue(Time(now))?;
        }
        seen.signals += pair.signals.len() as u64;
        for source in std::mem::take(&mut pair.signals) {
            sources[source as usize].signalled(now);
        }
        let source = &mut sources[number as usize];
        let (then, opens) = source.next(now, &mut rng);
        let bytes = if opens { 74 } else { source.bytes };
        let packet = Parcel { id, hash: source.hash, bytes, ecn: source.ecn, opens, at: Time(now) };
        arrivals.push(Reverse((then.max(now), number)));
        pair.of.push(number);
        pair.enqueue(packet)?;
        last = now;
        if id % 64 == 0 {
            let target = pair.module.view().max_target;
            seen.targets += u64::from(target != largest);
            largest = target;
        }
        if seed % 2 == 1 && (id == PACKETS / 3 || id == PACKETS * 2 / 3) {
            let limit = if id == PACKETS / 3 { 20 } else { params.limit };
            pair.change(Time(now), &ccaq::Params { limit, idle: 200, ecn: !params.ecn, ..params.clone() })?;
        }
    }
    let view = pair.module.view();
    Ok(Seen {
        marks: view.marks,
        steps: view.steps,
        overlimit: view.overlimit,
        overmemory: view.overmemory,
        unresponsive: view.unresponsive,
        collisions: view.collisions,
        idle_s: view.idle_us / 1_000_000,
        of_s: (last - begin) / SECOND,
        ..seen
    })
}

#[test]
fn the_module_takes_cores_decisions_packet_by_packet() {
    let Some(algorithm) = all().first() else { return skipped("the algorithm of ccaq", "no C compiler") };
    assert_eq!(algorithm.fault, None);
    let mut sum = Seen::default();
    for seed in 0..TRACES {
        let seen = play(algorithm, seed).unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
        println!("{seed}: {seen:?}");
        sum = Seen {
            signals: sum.signals + seen.signals,
            marks: sum.marks + seen.marks,
            steps: sum.steps + seen.steps,
            overlimit: sum.overlimit + seen.overlimit,
            overmemory: sum.overmemory + seen.overmemory,
            unresponsive: sum.unresponsive + seen.unresponsive,
            collisions: sum.collisions + seen.collisions,
            idle_s: sum.idle_s + seen.idle_s,
            of_s: sum.of_s + seen.of_s,
            targets: sum.targets + seen.targets,
        };
    }
    println!("{TRACES} traces of {PACKETS} packets equal: {sum:?}");
    assert!(sum.marks > 1_000 && sum.steps > 1_000 && sum.targets > 1_000, "{sum:?}");
    assert!(sum.overlimit > 1_000 && sum.overmemory > 1_000, "{sum:?}");
    assert!(sum.unresponsive > 1_000 && sum.collisions > 1_000, "{sum:?}");
}

#[test]
fn every_planted_fault_is_seen() {
    let mut unseen = Vec::new();
    for algorithm in all().iter().skip(1) {
        let fault = algorithm.fault.expect("a fault");
        match (0..TRACES).find_map(|seed| Some((seed, play(algorithm, seed).err()?))) {
            Some((seed, difference)) => println!("{fault}: trace {seed}: {}", &difference[..difference.len().min(100)]),
            None => unseen.push(fault),
        }
    }
    assert_eq!(unseen, [""; 0]);
}
