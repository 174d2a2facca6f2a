//! A separate, plain implementation of CoDel as in Linux 6.1, in which faults can be planted.

use std::collections::VecDeque;

use sojourn_core::qdisc::codel::Params;
use sojourn_core::units::Time;

use crate::trace::{Departure, Machine};

/// The planted fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No fault: equal to the kernel.
    None,
    /// The next drop is scheduled relative to now instead of the time of the last one.
    DropNextFromNow,
    /// Reaching `first_above_time` is enough; it need not be passed.
    AtFirstAboveTime,
    /// Reaching `drop_next` is not enough; it must be passed.
    AfterDropNext,
    /// A delay of exactly the target counts as below it.
    AtTarget,
    /// The inverse square root is exact, instead of one Newton step in 16 bits.
    FloatSquareRoot,
    /// On entering the dropping state, the selected packet is delivered, and the next one dropped.
    FirstDropDelivered,
    /// The drop rate is resumed only within 8 intervals.
    ShortMemory,
    /// The backlog must be below the MTU; equal is not enough.
    BelowMtu,
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 8] = [
        Fault::DropNextFromNow,
        Fault::AtFirstAboveTime,
        Fault::AfterDropNext,
        Fault::AtTarget,
        Fault::FloatSquareRoot,
        Fault::FirstDropDelivered,
        Fault::ShortMemory,
        Fault::BelowMtu,
    ];
}

#[derive(Clone, Copy)]
struct Held {
    id: u32,
    bytes: u32,
    ecn: u8,
    tick: u32,
}

/// A codel qdisc with a fault.
pub struct Mutant {
    fault: Fault,
    limit: usize,
    target: u32,
    interval: u32,
    mtu: u32,
    ecn: bool,
    queue: VecDeque<Held>,
    backlog: u32,
    dropped: Vec<u32>,
    count: u32,
    lastcount: u32,
    dropping: bool,
    root: u16,
    first_above_time: u32,
    drop_next: u32,
}

fn signed(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

impl Mutant {
    /// Creates an empty qdisc in front of a link with this MTU.
    pub fn new(params: &Params, mtu: u32, fault: Fault) -> Mutant {
        assert!(params.ce_threshold.is_none(), "the mutants know no ce_threshold");
        Mutant {
            fault,
            limit: params.limit as usize,
            target: (params.target.0 >> 10) as u32,
            interval: (params.interval.0 >> 10) as u32,
            mtu,
            ecn: params.ecn,
            queue: VecDeque::new(),
            backlog: 0,
            dropped: Vec::new(),
            count: 0,
            lastcount: 0,
            dropping: false,
            root: 0,
            first_above_time: 0,
            drop_next: 0,
        }
    }

    fn pop(&mut self) -> Option<Held> {
        let held = self.queue.pop_front()?;
        self.backlog -= held.bytes;
        Some(held)
    }

    fn above(&mut self, now: u32, held: Option<&Held>) -> bool {
        let low = match held {
            None => true,
            Some(held) => {
                let early = signed(now.wrapping_sub(held.tick), self.target);
                let small = self.backlog < self.mtu || (self.backlog == self.mtu && self.fault != Fault::BelowMtu);
                early < 0 || (early == 0 && self.fault == Fault::AtTarget) || small
            }
        };
        if low {
            self.first_above_time = 0;
            return false;
        }
        if self.first_above_time == 0 {
            self.first_above_time = now.wrapping_add(self.interval);
            return false;
        }
        let late = signed(now, self.first_above_time);
        late > 0 || (late == 0 && self.fault == Fault::AtFirstAboveTime)
    }

    fn due(&self, now: u32) -> bool {
        let late = signed(now, self.drop_next);
        late > 0 || (late == 0 && self.fault != Fault::AfterDropNext)
    }

    fn newton(&mut self) {
        let x = u64::from(self.root) << 16;
        let value = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul((x * x) >> 32)) >> 2;
        self.root = ((value.wrapping_mul(x) >> 31) >> 16) as u16;
    }

    fn step(&self) -> u32 {
        if self.fault == Fault::FloatSquareRoot {
            return (f64::from(self.interval) / f64::from(self.count).sqrt()) as u32;
        }
        ((u64::from(self.interval) * (u64::from(self.root) << 16)) >> 32) as u32
    }

    fn mark(&self, held: &mut Held) -> bool {
        let marks = self.ecn && held.ecn != 0;
        if marks {
            held.ecn = 3;
        }
        marks
    }

    fn begin(&mut self, now: u32) {
        self.dropping = true;
        let memory = if self.fault == Fault::ShortMemory { 8 } else { 16 };
        let delta = self.count.wrapping_sub(self.lastcount);
        if delta > 1 && signed(now.wrapping_sub(self.drop_next), self.interval.wrapping_mul(memory)) < 0 {
            self.count = delta;
            self.newton();
        } else {
            self.count = 1;
            self.root = u16::MAX;
        }
        self.lastcount = self.count;
        self.drop_next = now.wrapping_add(self.step());
    }

    fn enter(&mut self, now: u32, mut held: Held) -> Option<Held> {
        let mut next = Some(held);
        if self.mark(&mut held) {
            next = Some(held);
        } else {
            let following = self.pop();
            self.above(now, following.as_ref());
            match (self.fault == Fault::FirstDropDelivered, following) {
                (true, Some(lost)) => self.dropped.push(lost.id),
                _ => {
                    self.dropped.push(held.id);
                    next = following;
                }
            }
        }
        self.begin(now);
        next
    }

    fn go_on(&mut self, now: u32, held: Held) -> Option<Held> {
        let mut head = Some(held);
        while self.dropping && self.due(now) {
            let mut held = head?;
            self.count = self.count.wrapping_add(1);
            self.newton();
            let from = if self.fault == Fault::DropNextFromNow { now } else { self.drop_next };
            if self.mark(&mut held) {
                self.drop_next = from.wrapping_add(self.step());
                return Some(held);
            }
            self.dropped.push(held.id);
            head = self.pop();
            if self.above(now, head.as_ref()) {
                self.drop_next = from.wrapping_add(self.step());
            } else {
                self.dropping = false;
            }
        }
        head
    }
}

impl Machine for Mutant {
    fn enqueue(&mut self, now: Time, id: u32, bytes: u32, ecn: u8) -> bool {
        if self.queue.len() >= self.limit {
            return false;
        }
        self.queue.push_back(Held { id, bytes, ecn, tick: (now.0 >> 10) as u32 });
        self.backlog += bytes;
        true
    }

    fn dequeue(&mut self, now: Time) -> Departure {
        let now = (now.0 >> 10) as u32;
        self.dropped.clear();
        let head = self.pop();
        let above = self.above(now, head.as_ref());
        let packet = match head {
            Some(held) if above && self.dropping => self.go_on(now, held),
            Some(held) if above => self.enter(now, held),
            head => {
                self.dropping = false;
                head
            }
        };
        Departure { dropped: self.dropped.clone(), packet: packet.map(|held| (held.id, held.ecn)) }
    }
}
