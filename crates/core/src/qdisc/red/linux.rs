//! red as in Linux. The average is in bytes and computed with shifts. Above `max` there is no gentle region.

use super::average::{Action, Parms, Vars};
use super::{Params, Stats};
use crate::packet::Packet;
use crate::qdisc::jiffies::{HZ, Timer};
use crate::qdisc::{self, Context, DropReason, Drops, Qdisc, Unchangeable};
use crate::ring::Ring;
use crate::rng::Rng;
use crate::units::{Span, Time};

/// The discipline.
#[derive(Clone, Debug)]
pub struct RedLinux<P> {
    limit: u64,
    ecn: bool,
    harddrop: bool,
    nodrop: bool,
    parms: Parms,
    vars: Vars,
    /// Adapts the probability.
    adapt_timer: Timer,
    rng: Rng,
    stats: Stats,
    overlimits: u64,
    queue: Ring<P>,
    backlog: u64,
}

impl<P: Packet + Copy + Default> RedLinux<P> {
    /// An empty queue, idle since the start of the run. Panics if the parameters were not checked.
    pub fn new(params: &Params, context: &Context) -> Self {
        RedLinux {
            limit: u64::from(params.limit),
            ecn: params.ecn,
            harddrop: params.harddrop,
            nodrop: params.nodrop,
            parms: Self::parms(params),
            vars: Vars::new(Some(Time::ZERO)),
            adapt_timer: Timer::repeated(if params.adaptive { HZ / 2 } else { 0 }),
            rng: Rng::stream(context.seed, "red"),
            stats: Stats::default(),
            overlimits: 0,
            queue: Ring::default(),
            backlog: 0,
        }
    }

    /// The packet that would leave next.
    pub fn front(&self) -> Option<&P> {
        self.queue.front()
    }

    fn parms(params: &Params) -> Parms {
        let parms = params.linux().and_then(|words| Parms::new(&words, false));
        parms.unwrap_or_else(|(name, problem)| panic!("bug: red's {name} {problem}"))
    }

    /// The probability at `max`, as adapted so far.
    pub fn probability(&self) -> f64 {
        self.parms.probability()
    }

    #[inline]
    fn adapt(&mut self, now: Time) {
        while now > self.adapt_timer.next() {
            let at = self.adapt_timer.next();
            self.adapt_timer.passed(at + Span(1));
            self.parms.adapt(&self.vars, at);
        }
    }

    /// Returns whether the packet is accepted; it may be marked.
    #[inline]
    fn admit(&mut self, packet: &mut P, action: Action) -> Result<(), DropReason> {
        let reason = match action {
            Action::DontMark => return Ok(()),
            Action::ProbMark => DropReason::Early,
            Action::HardMark => DropReason::Forced,
        };
        self.overlimits += 1;
        let may_mark = self.ecn && !(action == Action::HardMark && self.harddrop);
        if may_mark && packet.mark() {
            self.stats.marked += 1;
            return Ok(());
        }
        // With nodrop, a packet that cannot be marked is accepted.
        if may_mark && self.nodrop {
            return Ok(());
        }
        self.stats.early += 1;
        Err(reason)
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for RedLinux<P> {
    type Params = Params;

    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        self.adapt(now);
        self.vars.arrival(&self.parms, now, self.backlog);
        let action = self.vars.action(&self.parms, &mut self.rng);
        let fits = !self.is_full(packet.bytes());
        match self.admit(&mut packet, action) {
            Ok(()) if fits => {
                self.backlog += u64::from(packet.bytes());
                self.queue.push(packet);
            }
            Ok(()) => {
                self.stats.pdrop += 1;
                drops.dropped(packet, DropReason::Overlimit);
            }
            // A packet that the limit would have refused too counts as the limit's drop.
            Err(reason) => drops.dropped(packet, if fits { reason } else { DropReason::Overlimit }),
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _drops: &mut impl Drops<P>) -> Option<P> {
        self.adapt(now);
        match self.queue.pop() {
            Some(packet) => {
                self.backlog -= u64::from(packet.bytes());
                Some(packet)
            }
            None => {
                self.vars.qidlestart.get_or_insert(now);
                None
            }
        }
    }

    /// `red_change`: a new queue replaces the old one, whose packets are dropped; the average starts again.
    fn change(&mut self, now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        self.limit = u64::from(params.limit);
        (self.ecn, self.harddrop, self.nodrop) = (params.ecn, params.harddrop, params.nodrop);
        self.parms = Self::parms(params);
        self.vars = Vars { qr: self.vars.qr, ..Vars::new(Some(now)) };
        self.adapt_timer = Timer::repeated_from(now, if params.adaptive { HZ / 2 } else { 0 });
        while let Some(packet) = self.queue.pop() {
            drops.dropped(packet, DropReason::Overlimit);
        }
        self.backlog = 0;
        Ok(())
    }

    fn packets(&self) -> usize {
        self.queue.len()
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    #[inline]
    fn is_full(&self, mtu: u32) -> bool {
        self.backlog + u64::from(mtu) > self.limit
    }

    fn stats(&self) -> qdisc::Stats {
        self.stats.list()
    }

    /// Packets that RED decided to mark or drop, including those that `nodrop` let pass.
    fn overlimits(&self) -> u64 {
        self.overlimits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::qdisc::tc::Spec;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};

    fn red(line: &str) -> Bench<RedLinux<Parcel>> {
        match line.parse() {
            Ok(Spec::Red(params)) => Bench::new(RedLinux::new(&params, &CONTEXT)),
            other => panic!("{line}: {other:?}"),
        }
    }

    const LINE: &str = "red limit 1000000 min 30000 max 90000 avpkt 1000 burst 55 probability 0.1 bandwidth 10mbit";

    /// The discipline of `line` with 60 packets of 1000 bytes queued and an average of 60 000.
    fn half(line: &str) -> Bench<RedLinux<Parcel>> {
        let mut bench = red(line);
        bench.fill(ms(0), 1, 1000, 60);
        bench.new_drops();
        bench.qdisc.vars.qavg = bench.qdisc.parms.qth_min * 2;
        bench
    }

    #[test]
    fn below_min_nothing_is_dropped_above_max_everything() {
        let mut bench = red(LINE);
        bench.fill(ms(0), 1, 1000, 30);
        assert!(bench.new_drops().is_empty());
        bench.qdisc.vars.qavg = bench.qdisc.parms.qth_max * 2;
        bench.fill(ms(0), 1, 1000, 5);
        assert_eq!(bench.new_drops().len(), 5);
        assert_eq!((bench.counter("early"), bench.counter("pdrop"), bench.qdisc.packets()), (5, 0, 30));
    }

    #[test]
    fn ecn_marks_at_random_and_above_max_and_harddrop_only_at_random() {
        for (more, above) in [(" ecn", Some(Ecn::Ce)), (" ecn harddrop", None), ("", None)] {
            let mut bench = half(&[LINE, more].concat());
            for _ in 0..200 {
                bench.put_ecn(ms(1), 1, 1000, Ecn::Ect0);
                bench.take(ms(1));
            }
            let marked = bench.counter("marked");
            assert_eq!(marked > 5, more.starts_with(" ecn"), "{more}: {marked}");
            assert_eq!(bench.drops.is_empty(), more.starts_with(" ecn"));
            bench.qdisc.vars.qavg = bench.qdisc.parms.qth_max * 2;
            let before = bench.qdisc.packets();
            bench.put_ecn(ms(1), 1, 1000, Ecn::Ect0);
            assert_eq!(bench.qdisc.packets() > before, above.is_some(), "{more}");
        }
    }

    #[test]
    fn nodrop_keeps_what_cannot_be_marked() {
        let mut bench = half(&[LINE, " ecn nodrop"].concat());
        bench.fill(ms(1), 1, 1000, 500);
        assert_eq!((bench.drops.len(), bench.counter("marked")), (0, 0));
    }

    #[test]
    fn the_limit_is_in_bytes_and_may_be_met_exactly() {
        let mut bench = red("red limit 3000 min 2000 max 3000 avpkt 1000 burst 3");
        bench.qdisc.vars.qavg = 0;
        bench.fill(ms(0), 1, 1000, 1);
        assert!(!bench.qdisc.is_full(2000) && bench.qdisc.is_full(2001));
    }

    #[test]
    fn a_dequeue_of_the_empty_queue_starts_the_idle_time_and_the_next_arrival_ends_it() {
        let mut bench = half(LINE);
        let before = bench.qdisc.vars.qavg;
        while bench.take(ms(10)).is_some() {}
        bench.take(ms(500));
        bench.put(ms(2000), 1, 1000);
        assert!(bench.qdisc.vars.qavg < before / 4, "{} {before}", bench.qdisc.vars.qavg);
        assert_eq!(bench.qdisc.vars.qidlestart, None);
    }

    #[test]
    fn adaptive_goes_by_a_timer_of_512_ms() {
        let mut bench = half(&[LINE, " adaptive"].concat());
        bench.qdisc.vars.qavg = bench.qdisc.parms.qth_min * 5 / 2;
        let initial = bench.qdisc.probability();
        bench.put(ms(512), 1, 1000);
        assert_eq!(bench.qdisc.probability(), initial, "a packet of that moment comes first");
        bench.put(ms(513), 1, 1000);
        assert!((bench.qdisc.probability() - initial - 0.01).abs() < 1e-6);
    }
}
