//! Traces with hard cases for CoDel, and their replay by any implementation.

use std::fmt::Write;

use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::DropReason;
use sojourn_core::rng::Rng;
use sojourn_core::units::{Rate, Time};
use sojourn_replay::{Fate, Op, Row, TRACE_HEADER, flow_hash};

/// Number of packets in each trace.
pub const PACKETS: usize = 200_000;
/// The link's MTU as the kernel counts it, in bytes.
pub const MTU: u32 = 1514;
/// The number of CoDel's ticks (1.024 µs) in 100 ms and in 300 ms is a multiple of this. In a tied trace, so is every
/// packet's transmission time: the ends of intervals are met exactly.
const TIE: u64 = 626;
const TICK: u64 = 1024;

/// A codel qdisc of any implementation.
pub trait Machine {
    /// Handles an arrival; returns false if the packet is refused.
    fn enqueue(&mut self, now: Time, id: u32, bytes: u32, ecn: u8) -> bool;
    /// Handles a dequeue by the link.
    fn dequeue(&mut self, now: Time) -> Departure;
}

/// The result of a dequeue.
pub struct Departure {
    /// Numbers of the dropped packets.
    pub dropped: Vec<u32>,
    /// The number of the departing packet and its ECN field.
    pub packet: Option<(u32, u8)>,
}

/// One trace, and the qdisc that plays it.
pub struct Plan {
    /// Name of the trace, for messages.
    pub name: String,
    /// The qdisc as a `tc` line.
    pub line: String,
    /// Intended load in percent of the link's rate.
    pub load: u64,
    /// Rate of the server; `None` if the trace has its own dequeues.
    pub rate: Option<Rate>,
    /// Operations of the trace.
    pub ops: Vec<Op>,
}

impl Plan {
    /// Returns the trace as a CSV file.
    pub fn csv(&self) -> Vec<u8> {
        let mut csv = format!("{TRACE_HEADER}\n");
        for op in &self.ops {
            let written = match op {
                Op::Enqueue { at, flow, bytes, ecn, dscp, .. } => {
                    writeln!(csv, "{},enqueue,{flow},{bytes},{}", at.0, dscp << 2 | *ecn as u8)
                }
                Op::Dequeue { at } => writeln!(csv, "{},dequeue,,,", at.0),
                Op::Change { at, line } => writeln!(csv, "{},change,{line},,", at.0),
            };
            written.expect("a string takes everything");
        }
        csv.into_bytes()
    }

    /// Keeps the first `packets` packets, and all operations before the next one.
    pub fn keep(&mut self, packets: usize) {
        let mut seen = 0;
        self.ops.retain(|op| {
            seen += usize::from(matches!(op, Op::Enqueue { .. }));
            seen <= packets
        });
    }

    /// The offered load in percent of the server's rate; `None` without a server.
    pub fn offered(&self) -> Option<f64> {
        let arrivals = self.ops.iter().filter_map(|op| match op {
            Op::Enqueue { at, bytes, .. } => Some((at.0, u64::from(*bytes))),
            Op::Dequeue { .. } | Op::Change { .. } => None,
        });
        let ((first, _), (last, _)) = (arrivals.clone().next()?, arrivals.clone().next_back()?);
        let bits: u64 = arrivals.map(|(_, bytes)| bytes * 8).sum();
        Some(bits as f64 / (last - first) as f64 * 1e11 / self.rate?.0 as f64)
    }

    /// Plays the trace. `watch` is called after every dequeue. This is independent of the simulator's replay.
    pub fn play<M: Machine>(&self, machine: &mut M, mut watch: impl FnMut(&M, Time, &Departure)) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::with_capacity(PACKETS);
        let mut ecn_in = Vec::with_capacity(PACKETS);
        let mut service: Option<Time> = None;
        let mut ops = self.ops.iter().peekable();
        loop {
            let asked = match ops.peek() {
                Some(Op::Enqueue { at, flow, bytes, ecn, .. }) if service.is_none_or(|service| *at <= service) => {
                    let id = rows.len() as u32;
                    let fate = if machine.enqueue(*at, id, *bytes, *ecn as u8) {
                        (Fate::Queued, Time::ZERO)
                    } else {
                        (Fate::Dropped(DropReason::Overlimit), *at)
                    };
                    rows.push(Row { flow: *flow, bytes: *bytes, enqueue: *at, fate_time: fate.1, fate: fate.0 });
                    ecn_in.push(*ecn as u8);
                    if self.rate.is_some() {
                        service = service.or(Some(*at));
                    }
                    ops.next();
                    continue;
                }
                Some(Op::Dequeue { at }) => {
                    ops.next();
                    *at
                }
                _ => match service {
                    Some(at) => at,
                    None => return rows,
                },
            };
            let departure = machine.dequeue(asked);
            watch(machine, asked, &departure);
            for id in &departure.dropped {
                (rows[*id as usize].fate, rows[*id as usize].fate_time) = (Fate::Dropped(DropReason::Codel), asked);
            }
            service = None;
            if let Some((id, ecn)) = departure.packet {
                let row = &mut rows[id as usize];
                row.fate = if ecn == 3 && ecn_in[id as usize] != 3 { Fate::Marked } else { Fate::Delivered };
                row.fate_time = asked;
                service = self.rate.map(|rate| Time(asked.0 + (u64::from(row.bytes) * 8_000_000_000).div_ceil(rate.0)));
            }
        }
    }
}

/// Twenty traces: loads from 60 to 200 %, mixed sizes, exact ties, ECN on and off, 5/100 and 65/300 ms, before, across
/// and beyond the wrap of the kernel's clock after 73 minutes.
pub fn plans() -> Vec<Plan> {
    const LOADS: [u64; 20] =
        [60, 70, 80, 90, 95, 100, 105, 110, 115, 120, 130, 140, 150, 160, 170, 180, 190, 200, 110, 140];
    LOADS.iter().enumerate().map(|(index, load)| plan(index, *load)).collect()
}

/// Twenty traces for disciplines with a queue per flow: 1 to 500 flows, 130 to 320 % of the link.
pub fn plans_of_flows() -> Vec<Plan> {
    const FLOWS: [u32; 20] = [1, 2, 3, 5, 8, 13, 20, 32, 50, 75, 100, 130, 160, 200, 250, 300, 350, 400, 450, 500];
    let loads = (130u64..).step_by(10);
    FLOWS
        .iter()
        .zip(loads)
        .enumerate()
        .map(|(index, (flows, load))| plan_of("trace of flows", index, load, *flows))
        .collect()
}

/// Twenty traces with 1 to 5000 flows, bursts of up to 60 packets, 110 to 870 % of links of 2 to 100 Mbit/s, and common
/// DSCPs.
pub fn plans_of_crowds() -> Vec<Plan> {
    const FLOWS: [u32; 10] = [5000, 2, 30, 100, 300, 600, 1000, 2000, 3500, 5000];
    let crowd = |index: usize| {
        let flows = FLOWS[index % FLOWS.len()];
        Shape {
            rate: Rate([9_700_000, 2_000_000, 40_000_000, 100_000_000][index % 4]),
            tied: false,
            burst: (6, 60),
            dscps: &[0, 0, 0, 8, 10, 18, 26, 34, 46, 48, 63],
            ..Shape::of("trace of crowds", index, 110 + 40 * index as u64, flows)
        }
        .plan()
    };
    (0..20).map(crowd).collect()
}

fn plan(index: usize, load: u64) -> Plan {
    plan_of("codel trace", index, load, 5)
}

fn plan_of(stream: &str, index: usize, load: u64, flows: u32) -> Plan {
    Shape::of(stream, index, load, flows).plan()
}

/// Parameters of a generated trace.
struct Shape {
    rng: Rng,
    index: usize,
    load: u64,
    flows: u32,
    rate: Rate,
    /// Arrivals lie on a grid on which ends of intervals are met exactly.
    tied: bool,
    /// Probability of a burst as one in n arrivals, and the maximum number of packets in it.
    burst: (u64, u64),
    /// DSCPs that are drawn for every packet; empty for none.
    dscps: &'static [u8],
}

impl Shape {
    fn of(stream: &str, index: usize, load: u64, flows: u32) -> Shape {
        let tied = index.is_multiple_of(3);
        let rate = match (tied, index) {
            (true, _) => Rate(8_000_000_000 / TICK), // a byte takes one tick
            (_, 1 | 4) => Rate(2_000_000),           // a full packet takes longer than 5 ms
            _ => Rate(9_700_000),
        };
        Shape { rng: Rng::stream(index as u64, stream), index, load, flows, rate, tied, burst: (20, 12), dscps: &[] }
    }

    fn plan(self) -> Plan {
        let Shape { index, load, flows, rate, tied, .. } = self;
        let slow = index % 4 >= 2;
        let ecn = index % 2 == 1;
        let limit = [1000, 300, 10_000, 1000, 3000][index % 5];
        let (target, interval) = if slow { (65, 300) } else { (5, 100) };
        let ecn_word = if ecn { " ecn" } else { "" };
        let line = format!("codel limit {limit} target {target}ms interval {interval}ms{ecn_word}");
        // The trace starts just before the clock's wrap, far beyond it, or at zero, on the grid of ties.
        let on_grid = |ns: u64| ns / (TICK * TIE) * (TICK * TIE);
        let wrap = TICK << 32;
        let start = on_grid([wrap - 30_000_000_000, 2 * wrap, 0][(index / 2) % 3]);
        let own_dequeues = index >= 18;
        let mut generator = Generator {
            rng: self.rng,
            now: start,
            tied,
            residue: (TIE - ((target * 1_000_000) >> 10) % TIE) % TIE,
            byte_ns: 8_000_000_000 / rate.0,
            interval: interval * 1_000_000,
            load,
            flows,
            ecn,
            burst: self.burst,
            dscps: self.dscps,
        };
        let mut ops = generator.arrivals();
        if own_dequeues {
            ops = generator.with_dequeues(&ops, start);
        }
        let name = format!("{index}: load {load} %, {flows} flows, {line}{}", if tied { ", tied" } else { "" });
        Plan { name, line, load, rate: (!own_dequeues).then_some(rate), ops }
    }
}

struct Generator {
    rng: Rng,
    now: u64,
    tied: bool,
    /// Offset of arrivals from the grid of ties, so that a delay can equal the target.
    residue: u64,
    byte_ns: u64,
    interval: u64,
    load: u64,
    flows: u32,
    ecn: bool,
    burst: (u64, u64),
    dscps: &'static [u8],
}

impl Generator {
    /// Arrivals in phases of high and low load, 10 to 60 intervals each, sometimes several at one instant.
    fn arrivals(&mut self) -> Vec<Op> {
        let mut ops = Vec::with_capacity(PACKETS);
        let (mut phase_end, mut high) = (self.now, false);
        while ops.len() < PACKETS {
            if self.now >= phase_end {
                high = !high;
                phase_end = self.now + self.phase(high);
            }
            // High and low load in percent; the lengths of the phases give the intended mean.
            let load = if high { self.high() } else { self.low() };
            let (one_in, most) = self.burst;
            let burst = if self.rng.below(one_in) == 0 { 1 + self.rng.below(most) } else { 1 };
            let mut bytes_sent = 0;
            let at = Time(self.moment());
            for _ in 0..burst {
                let bytes = self.size();
                bytes_sent += u64::from(bytes);
                let ecn = if self.ecn { Ecn::from_bits(self.rng.below(4) as u8) } else { Ecn::NotEct };
                let flow = self.rng.below(u64::from(self.flows)) as u32;
                let dscp = if self.dscps.is_empty() {
                    0
                } else {
                    self.dscps[self.rng.below(self.dscps.len() as u64) as usize]
                };
                ops.push(Op::Enqueue { at, flow, bytes, ecn, dscp, hosts: (flow_hash(flow), 0), opens: false });
            }
            let mean = bytes_sent * self.byte_ns * 100 / load;
            self.now += self.rng.below(2 * mean + 1);
        }
        ops.truncate(PACKETS);
        ops.sort_by_key(Op::at);
        ops
    }

    fn high(&self) -> u64 {
        (self.load + 60).max(160)
    }

    fn low(&self) -> u64 {
        if self.load < 140 { 25 } else { self.load - 60 }
    }

    fn phase(&mut self, high: bool) -> u64 {
        let length = self.interval * (10 + self.rng.below(50));
        // high · h + low · l = load · (h + l)
        let (above, below) = (self.high() - self.load, self.load - self.low());
        if high { length } else { length * above / below }
    }

    fn moment(&mut self) -> u64 {
        if !self.tied {
            return self.now;
        }
        let residue = if self.rng.below(2) == 0 { self.residue } else { 0 };
        (self.now / (TICK * TIE) * TIE + residue) * TICK
    }

    fn size(&mut self) -> u32 {
        match (self.tied, self.rng.below(4)) {
            (true, 0) => TIE as u32,
            (true, _) => 2 * TIE as u32,
            (_, 0) => 40 + self.rng.below(1475) as u32,
            (_, 1) => 66,
            _ => MTU,
        }
    }

    /// Adds dequeues of a link that stalls from time to time and then catches up.
    fn with_dequeues(&mut self, arrivals: &[Op], start: u64) -> Vec<Op> {
        let mut ops = Vec::with_capacity(2 * PACKETS);
        let (mut next, mut owed) = (start, 0);
        for op in arrivals {
            while next < op.at().0 {
                ops.push(Op::Dequeue { at: Time(next) });
                let mean = 900 * self.byte_ns;
                next += if owed > 0 { mean / 5 } else { self.rng.below(2 * mean) };
                owed = owed.max(1) - 1;
                if self.rng.below(3000) == 0 {
                    let stall = self.interval * (1 + self.rng.below(30)) / 3;
                    next += stall;
                    owed = stall / mean;
                }
            }
            ops.push(op.clone());
        }
        ops
    }
}
