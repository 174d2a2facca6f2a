//! RED inside sfq's queues: each queue has its own average, in bytes. Source: Linux's `sch_sfq.c`.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::Params;
use crate::packet::Packet;
use crate::qdisc::red::{Action, AverageVars as Vars, Parms, Words};
use crate::qdisc::stats::numbers;
use crate::qdisc::{DropReason, Stats};
use crate::rng::Rng;
use crate::units::Rate;

impl Params {
    /// Returns RED's parameters, completed as `tc` does; `None` without `redflowlimit`.
    ///
    /// # Errors
    /// The word that `tc` or the kernel refuses, and why.
    pub(super) fn red(&self) -> Result<Option<Words>, (&'static str, &'static str)> {
        let Some(limit) = self.redflowlimit else {
            let given = [self.min, self.max, self.burst, self.avpkt].iter().any(Option::is_some);
            return match given || self.probability.is_some() || self.ecn || self.harddrop {
                true => {
                    Err(("redflowlimit", "must be given with min, max, burst, avpkt, probability, ecn or harddrop"))
                }
                false => Ok(None),
            };
        };
        let max = self.max.unwrap_or(limit / 4);
        let min = self.min.unwrap_or(max / 3);
        let avpkt = self.avpkt.unwrap_or(1000);
        if max > limit {
            return Err(("max", "must not be above redflowlimit"));
        }
        if min == 0 || min >= max {
            return Err(("min", "must be above zero and below max"));
        }
        let burst = (2 * u64::from(min) + u64::from(max)) / (3 * u64::from(avpkt));
        Ok(Some(Words {
            min,
            max,
            avpkt,
            burst: self.burst.unwrap_or(burst as u32),
            probability: self.probability.unwrap_or(0.02),
            // The rate of the decay while a queue is idle. It never applies, because sfq releases an idle queue.
            bandwidth: Rate(10_000_000),
        }))
    }
}

/// Numbers of packets that RED marked or dropped, with the keys of `tc -s -j qdisc`.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    mark: u64,
    mark_head: u64,
    drop: u64,
}

/// The state of all queues.
#[derive(Clone, Debug)]
pub(super) struct RedInside {
    parms: Parms,
    ecn: bool,
    harddrop: bool,
    /// The average and the queued bytes of each queue.
    queues: Vec<(Vars, u64)>,
    prob: Counts,
    forced: Counts,
}

impl RedInside {
    /// State for `queues` queues; `None` without RED. Panics if the parameters were not checked.
    pub(super) fn new(params: &Params, queues: u32) -> Option<Box<RedInside>> {
        let red = params.red().and_then(|words| words.map(|words| Parms::new(&words, false)).transpose());
        let parms = red.unwrap_or_else(|(name, problem)| panic!("bug: sfq's {name} {problem}"))?;
        let Params { ecn, harddrop, .. } = *params;
        let queues = vec![(Vars::new(None), 0); queues as usize];
        Some(Box::new(RedInside { parms, ecn, harddrop, queues, prob: Counts::default(), forced: Counts::default() }))
    }

    /// Resets a queue's average.
    pub(super) fn reset(&mut self, x: u32) {
        self.queues[x as usize].0 = Vars::new(None);
    }

    /// Counts a packet of `bytes` bytes that was added to a queue.
    pub(super) fn added(&mut self, x: u32, bytes: u32) {
        self.queues[x as usize].1 += u64::from(bytes);
    }

    /// Subtracts a packet of `bytes` bytes that left a queue.
    pub(super) fn taken(&mut self, x: u32, bytes: u32) {
        self.queues[x as usize].1 -= u64::from(bytes);
    }

    /// Updates a queue's average, at an arrival that finds packets in it.
    pub(super) fn average(&mut self, x: u32) {
        let (vars, backlog) = &mut self.queues[x as usize];
        vars.arrival(&self.parms, crate::units::Time::ZERO, *backlog);
    }

    /// Decides about a packet that arrives at a queue with packets: accept it, mark it or the queue's `head` (only with
    /// head drop), or drop it with a reason.
    pub(super) fn arrival<P: Packet>(
        &mut self,
        x: u32,
        packet: &mut P,
        head: Option<&mut P>,
        rng: &mut Rng,
    ) -> Result<(), DropReason> {
        self.average(x);
        let (counts, may_mark, reason) = match self.queues[x as usize].0.action(&self.parms, rng) {
            Action::DontMark => return Ok(()),
            Action::ProbMark => (&mut self.prob, self.ecn, DropReason::Early),
            Action::HardMark => (&mut self.forced, self.ecn && !self.harddrop, DropReason::Forced),
        };
        if may_mark && head.is_some_and(|head| head.mark()) {
            counts.mark_head += 1;
        } else if may_mark && packet.mark() {
            counts.mark += 1;
        } else {
            counts.drop += 1;
            return Err(reason);
        }
        Ok(())
    }

    /// How often RED wanted to mark or drop a packet.
    pub(super) fn overlimits(&self) -> u64 {
        [self.prob, self.forced].iter().map(|counts| counts.mark + counts.mark_head + counts.drop).sum()
    }

    pub(super) fn stats(&self) -> Stats {
        let RedInside { prob, forced, .. } = self;
        numbers([
            ("prob_mark", prob.mark),
            ("prob_mark_head", prob.mark_head),
            ("prob_drop", prob.drop),
            ("forced_mark", forced.mark),
            ("forced_mark_head", forced.mark_head),
            ("forced_drop", forced.drop),
        ])
    }
}
