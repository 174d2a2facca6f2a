//! Code that tests of whole disciplines share: a packet, a trace in words, and a ledger that checks every packet and counter.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;

use sojourn_core::packet::{Ecn, Packet};
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Qdisc};
use sojourn_core::units::{Rate, Span, Time};

const CONTEXT: Context =
    Context { mtu: 1514, overhead: 14, rate: Rate(10_000_000), delay: Span::from_millis(10), skb: 0, seed: 7 };

/// A packet with a number.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Parcel {
    id: u32,
    flow: u32,
    bytes: u32,
    dscp: u8,
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
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn enqueue_time(&self) -> Time {
        self.at
    }
    fn set_enqueue_time(&mut self, now: Time) {
        self.at = now;
    }
}

/// An operation on a discipline.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// The arrival of `count` packets of one flow; `tos` is the octet of DSCP and ECN.
    Put { flow: u32, bytes: u32, tos: u8, count: u32 },
    /// A number of dequeues.
    Take(u32),
    /// A change to this line; the discipline may refuse it.
    Change(String),
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Put { flow, bytes, tos, count } => write!(f, "put {flow} {bytes} {tos} {count}"),
            Op::Take(count) => write!(f, "take {count}"),
            Op::Change(line) => write!(f, "change {line}"),
        }
    }
}

impl FromStr for Op {
    type Err = String;
    fn from_str(text: &str) -> Result<Op, String> {
        let (verb, rest) = text.split_once(' ').ok_or("a verb alone")?;
        let number = |text: &str| text.parse::<u32>().map_err(|error| format!("{text}: {error}"));
        let numbers = || rest.split(' ').map(number).collect::<Result<Vec<u32>, String>>();
        match verb {
            "put" => match numbers()?[..] {
                [flow, bytes, tos, count] => Ok(Op::Put { flow, bytes, tos: tos as u8, count }),
                _ => Err("expected: put FLOW BYTES TOS COUNT".to_string()),
            },
            "take" => number(rest).map(Op::Take),
            "change" => Ok(Op::Change(rest.to_string())),
            _ => Err(format!("{verb}: expected put, take or change")),
        }
    }
}

/// Parts of the words by which a change sorts packets into other queues, so that packets of a flow may overtake each other:
/// fq's hash, prio's bands, dualpi2's classifier, cake's tins and flow isolation.
const SORTING: [&str; 11] = [
    "orphan_mask",
    "priomap",
    "any_ect",
    "l4s_ect",
    "besteffort",
    "precedence",
    "diffserv",
    "flowblind",
    "host",
    "flows",
    "triple-isolate",
];

/// Operations and their times in ns, in the order of time.
pub type Trace = Vec<(u64, Op)>;

/// A discipline, and all that its interface has shown: packets that arrived, left and were dropped.
pub struct Ledger {
    spec: Spec,
    qdisc: AnyQdisc<Parcel>,
    drops: Vec<(Parcel, DropReason)>,
    /// Queued packets as they arrived, in the order of arrival: by flow, and by the octet of DSCP and ECN if `by_tos`.
    queued: BTreeMap<(u32, u8), VecDeque<Parcel>>,
    /// The discipline sorts by the octet of DSCP and ECN: packets of a flow with different octets may overtake each other.
    by_tos: bool,
    /// A change of parameters has changed how packets are sorted: those of a flow may overtake each other.
    reorders: bool,
    arrived: (u32, u64),
    delivered: (u32, u64),
    dropped: (u32, u64),
    /// Changes that the discipline accepted.
    pub changed: u32,
    /// Packets that were delivered or dropped, in this order.
    pub fates: Vec<(Parcel, Option<DropReason>)>,
}

/// An error with both values if they differ; `what` names them.
fn same<T: PartialEq + fmt::Debug>(what: &str, one: T, other: T) -> Result<(), String> {
    if one == other { Ok(()) } else { Err(format!("{what}: {one:?} and {other:?}")) }
}

impl Ledger {
    /// With nothing queued. Panics if the line is faulty.
    pub fn new(line: &str) -> Self {
        let spec: Spec = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        Ledger {
            qdisc: spec.build(&CONTEXT),
            spec,
            drops: Vec::new(),
            queued: BTreeMap::new(),
            by_tos: ["dualpi2", "prio", "cake"].iter().any(|name| line.contains(name)),
            reorders: false,
            arrived: (0, 0),
            delivered: (0, 0),
            dropped: (0, 0),
            changed: 0,
            fates: Vec::new(),
        }
    }

    /// A packet arrives.
    pub fn put(&mut self, now: Time, flow: u32, bytes: u32, tos: u8) -> Result<(), String> {
        let (dscp, ecn) = (tos >> 2, Ecn::from_bits(tos));
        let packet = Parcel { id: self.arrived.0, flow, bytes, dscp, ecn, at: Time::NEVER };
        self.arrived = (self.arrived.0 + 1, self.arrived.1 + u64::from(bytes));
        let class = if self.by_tos { tos } else { 0 };
        self.queued.entry((flow, class)).or_default().push_back(Parcel { at: now, ..packet });
        let full = self.qdisc.is_full(bytes);
        self.qdisc.enqueue(now, packet, &mut self.drops);
        let limited = self.drops.iter().any(|(_, r)| matches!(r, DropReason::Overlimit | DropReason::MemoryLimit));
        // sfq may sort what is queued anew first, and drop some of it: then there is room.
        let sorted = self.drops.iter().any(|(one, reason)| one.id != packet.id && *reason == DropReason::FlowLimit);
        // RED inside sfq drops a packet before the limit is asked.
        let by_red = |reason: &DropReason| matches!(reason, DropReason::Early | DropReason::Forced);
        let preceded = self.drops.iter().any(|(one, reason)| one.id == packet.id && by_red(reason));
        if dscp == 0 && !sorted && !preceded {
            same("is_full says what the limits do", full, limited)?;
        }
        self.settle()
    }

    /// The link asks.
    pub fn take(&mut self, now: Time) -> Result<(), String> {
        let packet = self.qdisc.dequeue(now, &mut self.drops);
        // Packets that this dequeue dropped were before the packet that it returned.
        self.settle()?;
        match packet {
            Some(packet) => {
                let mut queues = self.queued.range_mut((packet.flow, 0)..=(packet.flow, u8::MAX)).map(|(_, q)| q);
                let most = if self.reorders { usize::MAX } else { 1 };
                let place = |queue: &VecDeque<Parcel>| queue.iter().take(most).position(|one| one.id == packet.id);
                let came = queues.find_map(|queue| place(queue).and_then(|at| queue.remove(at)));
                let came = came.ok_or_else(|| format!("{packet:?} came from nowhere"))?;
                same("in order, stamped and untouched", Parcel { ecn: came.ecn, ..packet }, came)?;
                let marked = came.ecn != Ecn::NotEct && packet.ecn == Ecn::Ce;
                if packet.ecn != came.ecn && !marked {
                    return Err(format!("{:?} became {:?}", came.ecn, packet.ecn));
                }
                self.delivered = (self.delivered.0 + 1, self.delivered.1 + u64::from(packet.bytes));
                self.fates.push((packet, None));
            }
            None if self.qdisc.packets() > 0 => {
                let next = self.qdisc.next_event();
                if next <= now || next == Time::NEVER {
                    return Err(format!("at {now} nothing leaves, and {next} is no time to come back"));
                }
            }
            None => {}
        }
        self.balance()
    }

    /// The parameters change, if they can.
    pub fn change(&mut self, now: Time, line: &str) -> Result<(), String> {
        let Ok(change) = self.spec.changed(line) else { return Ok(()) };
        if self.qdisc.change(now, &change.spec, &mut self.drops).is_ok() {
            self.changed += 1;
            self.reorders |= SORTING.iter().any(|word| line.contains(word));
            self.spec = change.spec;
        }
        self.settle()?;
        self.balance()
    }

    /// Books the drops.
    fn settle(&mut self) -> Result<(), String> {
        for (packet, reason) in self.drops.drain(..) {
            let mut queues = self.queued.range_mut((packet.flow, 0)..=(packet.flow, u8::MAX)).map(|(_, queue)| queue);
            let place = |queue: &VecDeque<Parcel>| queue.iter().position(|queued| queued.id == packet.id);
            let Some((queue, place)) = queues.find_map(|queue| place(queue).map(|at| (queue, at))) else {
                return Err(format!("{packet:?} was dropped but not there"));
            };
            queue.remove(place);
            self.dropped = (self.dropped.0 + 1, self.dropped.1 + u64::from(packet.bytes));
            self.fates.push((packet, Some(reason)));
        }
        Ok(())
    }

    /// Returns whether the counts agree.
    fn balance(&self) -> Result<(), String> {
        let packets = self.arrived.0 - self.delivered.0 - self.dropped.0;
        let bytes = self.arrived.1 - self.delivered.1 - self.dropped.1;
        same("packets and bytes queued", (self.qdisc.packets(), self.qdisc.backlog()), (packets as usize, bytes))
    }

    /// The whole trace, and then until nothing is queued.
    pub fn run(&mut self, trace: &[(u64, Op)]) -> Result<(), String> {
        let mut now = Time::ZERO;
        for (at, op) in trace {
            now = Time(*at);
            match op {
                Op::Put { flow, bytes, tos, count } => {
                    for _ in 0..*count {
                        self.put(now, *flow, *bytes, *tos)?;
                        self.balance()?;
                    }
                }
                Op::Take(count) => (0..*count).try_for_each(|_| self.take(now))?,
                Op::Change(line) => self.change(now, line)?,
            }
        }
        self.drain(now)
    }

    /// Everything comes out, if it is asked for often enough.
    fn drain(&mut self, mut now: Time) -> Result<(), String> {
        let mut in_vain = 0;
        while self.qdisc.packets() > 0 {
            let before = self.delivered.0 + self.dropped.0;
            self.take(now)?;
            let next = self.qdisc.next_event();
            let waits = self.delivered.0 + self.dropped.0 == before;
            now = if waits && next < Time::NEVER { now.max(next) } else { now };
            in_vain = if waits { in_vain + 1 } else { 0 };
            if in_vain == 1000 {
                // A bucket that became smaller than a packet that waits for it never releases the packet, in Linux too.
                let stuck = self.changed > 0 && matches!(self.spec, Spec::Tbf(_));
                return if stuck { Ok(()) } else { Err(format!("at {now} something still waits")) };
            }
        }
        same("bytes in an empty queue", self.qdisc.backlog(), 0)
    }
}
