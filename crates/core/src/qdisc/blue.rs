//! blue: a drop probability that grows when the queue overflows and falls when the link is idle.
//!
//! Source: W. Feng, K. Shin, D. Kandlur, D. Saha, "The BLUE active queue management algorithms", 2002. Linux has no
//! such discipline (its sfb keeps such a probability for each bin of flows).
//! Principle: the events of the queue decide, not its length. When it overflows, the probability with which arrivals
//! are dropped or marked grows by `increment`. When the link finds the queue empty, the probability falls by
//! `decrement`. Each happens at most once per `freeze_time`. An overflow says more than an idle link, so `increment` is
//! the greater of the two.
//!
//! Deviations:
//! - The paper names no defaults; ours are one of the settings of its experiments: 0.02, 0.002 and 100 ms.
//! - The paper's variant that also increases the probability above a queue length is not implemented.

use super::codel::{MAX_SPAN, MICROSECOND};
use super::param::{Param, Parameters, Unit, param};
use super::{Context, DropReason, Drops, Qdisc};
use crate::packet::Packet;
use crate::ring::Ring;
use crate::rng::Rng;
use crate::units::{Span, Time};

/// Parameters of BLUE.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets queued.
    pub limit: u32,
    /// Increase of the probability at an overflow (d1).
    pub increment: f64,
    /// Decrease of the probability when the link is idle (d2).
    pub decrement: f64,
    /// Shortest time between two such steps.
    pub freeze_time: Span,
    /// Mark ECN-capable packets instead of dropping them early.
    pub ecn: bool,
}

impl Default for Params {
    fn default() -> Self {
        let freeze_time = Span::from_millis(100);
        Params { limit: 1000, increment: 0.02, decrement: 0.002, freeze_time, ecn: false }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "blue";
    const DOC: &'static str = "a drop probability that grows with overflows and falls with idle times";
    const TC: bool = false;
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets queued").range(1, u32::MAX as u64).printed().ours(),
        param!(Params.increment, Unit::Real, "the step by which an overflow raises the probability")
            .real_range(0.0, 1.0)
            .ours(),
        param!(Params.decrement, Unit::Real, "the step by which an idle link lowers it").real_range(0.0, 1.0).ours(),
        param!(Params.freeze_time, Unit::Time, "least time between two such steps").range(MICROSECOND, MAX_SPAN).ours(),
        param!(Params.ecn, Unit::Flag("noecn"), "mark ECN-capable packets instead of early drops").ours(),
    ];
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct Blue<P> {
    params: Params,
    /// The probability of a drop or mark.
    p_m: f64,
    last_update: Option<Time>,
    rng: Rng,
    queue: Ring<P>,
    backlog: u64,
    marked: u64,
    early: u64,
    pdrop: u64,
}

impl<P: Packet + Copy + Default> Blue<P> {
    /// Creates an empty queue with a probability of zero.
    pub fn new(params: &Params, context: &Context) -> Self {
        Blue {
            params: params.clone(),
            p_m: 0.0,
            last_update: None,
            rng: Rng::stream(context.seed, Params::NAME),
            queue: Ring::default(),
            backlog: 0,
            marked: 0,
            early: 0,
            pdrop: 0,
        }
    }

    /// The probability of a drop or mark.
    pub fn probability(&self) -> f64 {
        self.p_m
    }

    /// Changes the probability by one step, unless the last step was less than `freeze_time` ago.
    fn step(&mut self, now: Time, by: f64) {
        if self.last_update.is_none_or(|last| now.since(last) > self.params.freeze_time) {
            self.p_m = (self.p_m + by).clamp(0.0, 1.0);
            self.last_update = Some(now);
        }
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for Blue<P> {
    type Params = Params;

    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        if self.is_full(packet.bytes()) {
            self.step(now, self.params.increment);
            self.pdrop += 1;
            return drops.dropped(packet, DropReason::Overlimit);
        }
        if self.rng.uniform() < self.p_m {
            if !(self.params.ecn && packet.mark()) {
                self.early += 1;
                return drops.dropped(packet, DropReason::Early);
            }
            self.marked += 1;
        }
        self.backlog += u64::from(packet.bytes());
        self.queue.push(packet);
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _drops: &mut impl Drops<P>) -> Option<P> {
        let Some(packet) = self.queue.pop() else {
            self.step(now, -self.params.decrement);
            return None;
        };
        self.backlog -= u64::from(packet.bytes());
        Some(packet)
    }

    fn packets(&self) -> usize {
        self.queue.len()
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn is_full(&self, _mtu: u32) -> bool {
        self.queue.len() >= self.params.limit as usize
    }

    fn stats(&self) -> super::Stats {
        super::stats::numbers([("marked", self.marked), ("early", self.early), ("pdrop", self.pdrop)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};

    fn blue(params: Params) -> Bench<Blue<Parcel>> {
        Bench::new(Blue::new(&params, &CONTEXT))
    }

    #[test]
    fn an_overflow_raises_the_probability_once_in_freeze_time_and_an_idle_link_lowers_it() {
        let mut bench = blue(Params { limit: 3, ..Params::default() });
        bench.fill(ms(0), 1, 100, 10);
        assert_eq!((bench.qdisc.probability(), bench.counter("pdrop")), (0.02, 7));
        bench.put(ms(100), 1, 100);
        assert_eq!(bench.qdisc.probability(), 0.02, "not yet");
        bench.put(ms(101), 1, 100);
        assert_eq!(bench.qdisc.probability(), 0.04);
        while bench.take(ms(150)).is_some() {}
        assert_eq!(bench.qdisc.probability(), 0.04);
        bench.take(ms(202));
        assert!((bench.qdisc.probability() - 0.038).abs() < 1e-12);
    }

    #[test]
    fn the_probability_stays_between_nothing_and_all() {
        let mut bench = blue(Params { limit: 1, increment: 0.7, ..Params::default() });
        (0..5).for_each(|n| bench.fill(ms(200 * n), 1, 100, 2));
        assert_eq!(bench.qdisc.probability(), 1.0);
        let mut idle = blue(Params::default());
        idle.take(ms(1000));
        assert_eq!(idle.qdisc.probability(), 0.0);
    }

    #[test]
    fn arrivals_are_dropped_with_the_probability_or_marked_if_they_may() {
        for (ecn, field) in [(false, Ecn::Ect0), (true, Ecn::NotEct), (true, Ecn::Ect0)] {
            let mut bench = blue(Params { limit: 1_000_000, ecn, ..Params::default() });
            bench.qdisc.p_m = 0.25;
            for _ in 0..10_000 {
                bench.put_ecn(ms(0), 1, 100, field);
            }
            let (marked, early) = (bench.counter("marked"), bench.counter("early"));
            let may = ecn && field == Ecn::Ect0;
            assert!((2300..2700).contains(if may { &marked } else { &early }) && marked * early == 0);
            assert_eq!(bench.drops.len() as u64, early);
        }
    }
}
