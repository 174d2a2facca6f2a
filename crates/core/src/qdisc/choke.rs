//! choke: RED that penalises flows which fill the queue, without any state for each flow.
//!
//! Source: R. Pan, B. Prabhakar, K. Psounis, "CHOKe, a stateless active queue management scheme for approximating fair
//! bandwidth allocation", 2000; Linux 6.1 to 7.3 `net/sched/sch_choke.c`.
//! Principle: while the average queue is above `min`, an arriving packet is compared with one drawn at random from the
//! queue. If both belong to the same flow, both are dropped. A flow therefore loses packets in proportion to its share
//! of the queue. Otherwise RED decides, with averages and thresholds in packets.
//!
//! Deviations:
//! - Linux leaves holes where packets were taken from the middle, and draws up to three times if it meets one; this
//!   does the same. When holes and packets fill the table, Linux takes the queue for empty; here the holes are closed.
//! - Linux 6.1 draws the place with a bias of at most 2^-32, which is not reproduced.
//! - A packet that both CHOKe and the limit would drop counts as dropped by the limit.

use super::param::{Derived, Field, Param, Parameters, Unit, Value, param};
use super::red::{Action, AverageVars, Found, Kept, Parms, Words};
use super::stats::numbers;
use super::{Context, DropReason, Drops, Qdisc, Unchangeable};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::units::{Rate, Time};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Parameters of CHOKe.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets queued.
    pub limit: u32,
    /// Rate of the link, for the decay of the average while it is idle.
    pub bandwidth: Rate,
    /// Average queue above which packets are compared and dropped at random; by default a third of `max`.
    pub min: Option<u32>,
    /// Average queue above which all are dropped; by default a quarter of the limit.
    pub max: Option<u32>,
    /// Mean packet size in bytes.
    pub avpkt: u32,
    /// Packets that may arrive at once; it determines the weight of the average. By default it follows from `min` and
    /// `max`.
    pub burst: Option<u32>,
    /// Drop probability at `max`.
    pub probability: f64,
    /// Mark ECN-capable packets instead of dropping them, unless they match.
    pub ecn: bool,
    /// The kernel's own values, until the others follow from them.
    pub kept: Kept,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 1000,
            bandwidth: Rate(10_000_000),
            min: None,
            max: None,
            avpkt: 1000,
            burst: None,
            probability: 0.02,
            ecn: false,
            kept: Kept::default(),
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "choke";
    const ASKED_BY_TC: &'static str = "bandwidth";
    const DETAILS: &'static [&'static str] = &["avpkt", "burst", "bandwidth", "probability"];
    const DOC: &'static str = "RED that also drops a packet together with one of its flow drawn from the queue";
    const REPLACED: bool = true;
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets queued").range(12, (1 << 17) - 1).required(),
        param!(Params.bandwidth, Unit::Rate, "rate by which the average decays while the link is idle")
            .range(8_000, 32_000_000_000)
            .printed(),
        param!(Params.min, Unit::Packets, "average queue above which packets are compared; default: max/3")
            .range(1, u32::MAX as u64)
            .zero_unsent(),
        param!(Params.max, Unit::Packets, "average queue above which all are dropped; default: limit/4")
            .range(1, u32::MAX as u64)
            .zero_unsent(),
        param!(Params.avpkt, Unit::Size, "mean packet size").range(1, 65_535),
        param!(Params.burst, Unit::Packets, "packets that may come at once; default: (2 min + max) / 3")
            .range(1, 1 << 20)
            .zero_unsent(),
        param!(Params.probability, Unit::Real, "drop probability at max").real_range(1e-9, 1.0),
        param!(Params.ecn, Unit::Flag("noecn"), "mark ECN-capable packets instead of drops without a match"),
        param!(Params.kept.ewma as "ewma", Unit::Number, "printed by tc -d: burst follows from it")
            .range(1, 31)
            .shown(),
        param!(Params.kept.plog as "Plog", Unit::Number, "printed by tc -d: probability follows from it")
            .range(0, 31)
            .shown(),
        param!(Params.kept.scell_log as "Scell_log", Unit::Number, "printed by tc -d: bounds the bandwidth")
            .range(0, 31)
            .shown(),
    ];

    fn derive(&mut self, seen: &[&'static str]) -> Result<Derived, (&'static str, String)> {
        if self.kept.is_empty() {
            return Ok(Derived::default());
        }
        let (found, derived) = self.kept.found(&self.words(), true, seen)?;
        let Found { burst, .. } = found;
        self.burst = Some(burst);
        (self.avpkt, self.bandwidth, self.probability) = (found.avpkt, found.bandwidth, found.probability);
        self.kept = Kept::default();
        Ok(derived)
    }

    fn assumed(&self, param: &Param<Self>) -> Value {
        if param.name == "burst" { self.words().burst.value() } else { (param.get)(self) }
    }

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let words = self.words();
        if words.max > self.limit {
            return Err(("max", "must not be above limit"));
        }
        // Linux would take equal ones, but tc does not.
        if words.min >= words.max {
            return Err(("min", "must be below max"));
        }
        Parms::new(&words, true).map(|_| ())
    }
}

impl Params {
    /// The parameters that `tc` derives from those given.
    fn words(&self) -> Words {
        let max = self.max.unwrap_or(self.limit / 4);
        let min = self.min.unwrap_or(max / 3);
        let burst = (2 * u64::from(min) + u64::from(max)) / 3;
        Words {
            min,
            max,
            avpkt: self.avpkt,
            burst: self.burst.unwrap_or(burst as u32),
            probability: self.probability,
            bandwidth: self.bandwidth,
        }
    }
}

/// Counters, with the keys of `tc -s -j qdisc`.
#[derive(Clone, Copy, Default, Debug)]
struct Stats {
    /// Packets marked instead of dropped.
    marked: u64,
    /// Drops by RED, random and forced.
    early: u64,
    /// Drops by the limit.
    pdrop: u64,
    /// Arrivals that were dropped together with a queued packet of their flow; each costs two packets.
    matched: u64,
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct Choke<P> {
    limit: usize,
    ecn: bool,
    parms: Parms,
    vars: AverageVars,
    rng: Rng,
    stats: Stats,
    /// A ring whose number of places is a power of two. A place between head and tail is empty (a hole) if its packet
    /// was taken from the middle.
    tab: Vec<Option<P>>,
    head: usize,
    tail: usize,
    packets: usize,
    backlog: u64,
}

impl<P: Packet + Copy> Choke<P> {
    /// Creates an empty queue. Panics if the parameters are not valid.
    pub fn new(params: &Params, context: &Context) -> Self {
        Choke {
            limit: params.limit as usize,
            ecn: params.ecn,
            parms: Self::parms(params),
            vars: AverageVars::new(None),
            rng: Rng::stream(context.seed, Params::NAME),
            stats: Stats::default(),
            tab: vec![None; Self::places(params)],
            head: 0,
            tail: 0,
            packets: 0,
            backlog: 0,
        }
    }

    /// The packet that would leave next.
    pub fn front(&self) -> Option<&P> {
        self.tab[self.head].as_ref()
    }

    fn parms(params: &Params) -> Parms {
        let parms = Parms::new(&params.words(), true);
        parms.unwrap_or_else(|(name, problem)| panic!("bug: choke's {name} {problem}"))
    }

    fn places(params: &Params) -> usize {
        (params.limit as usize + 1).next_power_of_two()
    }

    #[inline]
    fn mask(&self) -> usize {
        self.tab.len() - 1
    }

    /// Places from the head to the tail, holes included.
    #[inline]
    fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) & self.mask()
    }

    /// Removes the packet at a place. The head moves over holes.
    #[inline]
    fn take(&mut self, at: usize) -> Option<P> {
        let packet = self.tab[at].take()?;
        if at == self.head {
            loop {
                self.head = (self.head + 1) & self.mask();
                if self.head == self.tail || self.tab[self.head].is_some() {
                    break;
                }
            }
        }
        self.packets -= 1;
        self.backlog -= u64::from(packet.bytes());
        Some(packet)
    }

    /// Returns the place of a random packet. After three draws that hit holes, it is the head.
    #[inline]
    fn draw(&mut self) -> usize {
        for _ in 0..3 {
            let at = (self.head + self.rng.next_u32_below(self.len() as u32) as usize) & self.mask();
            if self.tab[at].is_some() {
                return at;
            }
        }
        self.head
    }

    /// Drops a randomly drawn packet if it is of the same flow. Returns whether it did.
    #[inline]
    fn choke(&mut self, packet: &P, drops: &mut impl Drops<P>) -> bool {
        if self.head == self.tail {
            return false;
        }
        let at = self.draw();
        if self.tab[at].is_none_or(|other| other.flow_hash() != packet.flow_hash()) {
            return false;
        }
        self.stats.matched += 1;
        if let Some(other) = self.take(at) {
            drops.dropped(other, DropReason::Matched);
        }
        true
    }

    /// Decides about a packet while the average is above the lower threshold. Returns the reason to drop it, if any.
    #[inline]
    fn judge(&mut self, packet: &mut P, drops: &mut impl Drops<P>) -> Option<DropReason> {
        if self.choke(packet, drops) {
            return Some(DropReason::Matched);
        }
        let reason = if self.vars.qavg > self.parms.qth_max {
            self.vars.qcount = -1;
            DropReason::Forced
        } else if self.vars.between(&self.parms, &mut self.rng) == Action::ProbMark {
            DropReason::Early
        } else {
            return None;
        };
        if self.ecn && packet.mark() {
            self.stats.marked += 1;
            return None;
        }
        self.stats.early += 1;
        Some(reason)
    }

    fn push(&mut self, packet: P) {
        if self.len() == self.mask() {
            self.close_holes();
        }
        self.tab[self.tail] = Some(packet);
        self.tail = (self.tail + 1) & self.mask();
        self.packets += 1;
        self.backlog += u64::from(packet.bytes());
    }

    /// The packets from head to tail, without the holes.
    fn queued(&self) -> impl Iterator<Item = P> {
        (0..self.len()).filter_map(|at| self.tab[(self.head + at) & self.mask()])
    }

    #[cold]
    fn close_holes(&mut self) {
        let packets: Vec<P> = self.queued().collect();
        self.tab.fill(None);
        (self.head, self.tail) = (0, packets.len());
        self.tab.iter_mut().zip(packets).for_each(|(place, packet)| *place = Some(packet));
    }
}

impl<P: Packet + Copy> Qdisc<P> for Choke<P> {
    type Params = Params;

    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        let full = self.packets >= self.limit;
        self.vars.arrival(&self.parms, now, self.packets as u64);
        let mut refused = None;
        if self.vars.qavg <= self.parms.qth_min {
            self.vars.qcount = -1;
        } else {
            refused = self.judge(&mut packet, drops);
        }
        if refused.is_none() && self.packets >= self.limit {
            self.stats.pdrop += 1;
            refused = Some(DropReason::Overlimit);
        }
        match refused {
            None => self.push(packet),
            Some(_) if full => drops.dropped(packet, DropReason::Overlimit),
            Some(reason) => drops.dropped(packet, reason),
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _drops: &mut impl Drops<P>) -> Option<P> {
        if self.head == self.tail {
            self.vars.qidlestart.get_or_insert(now);
            return None;
        }
        self.take(self.head)
    }

    /// Linux `choke_change`: if the size of the table changes, the packets move to the new table without the holes
    /// between them. The new table holds one packet less than it has places; the packets beyond that, which are the
    /// latest arrivals, are dropped. The average starts again from zero.
    fn change(&mut self, _now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        let places = Self::places(params);
        if places != self.tab.len() {
            let mut tab: Vec<Option<P>> = self.queued().map(Some).collect();
            for packet in tab.split_off(tab.len().min(places - 1)).into_iter().flatten() {
                self.backlog -= u64::from(packet.bytes());
                drops.dropped(packet, DropReason::Overlimit);
            }
            (self.head, self.tail, self.packets) = (0, tab.len(), tab.len());
            tab.resize(places, None);
            self.tab = tab;
        }
        (self.limit, self.ecn, self.parms) = (params.limit as usize, params.ecn, Self::parms(params));
        let idle = self.vars.qidlestart.filter(|_| self.head != self.tail);
        self.vars = AverageVars { qr: self.vars.qr, ..AverageVars::new(idle) };
        Ok(())
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn is_full(&self, _mtu: u32) -> bool {
        self.packets >= self.limit
    }

    fn stats(&self) -> super::Stats {
        let Stats { marked, early, pdrop, matched } = self.stats;
        numbers([("marked", marked), ("early", early), ("pdrop", pdrop), ("other", 0), ("matched", matched)])
    }

    /// Packets marked or dropped because of the average queue.
    fn overlimits(&self) -> u64 {
        self.stats.marked + self.stats.early
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::qdisc::tc::Spec;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
    use alloc::string::ToString;

    fn choke(line: &str) -> Bench<Choke<Parcel>> {
        match line.parse() {
            Ok(Spec::Choke(params)) => Bench::new(Choke::new(&params, &CONTEXT)),
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Returns a discipline whose average is between the thresholds and which has `packets` packets queued. Every tenth
    /// belongs to flow 1, and each other packet to a flow of its own.
    fn half(line: &str, packets: u32) -> Bench<Choke<Parcel>> {
        let mut bench = choke(line);
        (0..packets).for_each(|n| {
            bench.put(ms(0), if n % 10 == 0 { 1 } else { 1000 + n }, 1000);
        });
        assert!(bench.new_drops().is_empty());
        bench.qdisc.vars.qavg = bench.qdisc.parms.qth_min * 3 / 2;
        bench
    }

    #[test]
    fn a_flow_with_a_tenth_of_the_queue_meets_itself_every_tenth_time_and_loses_both() {
        let mut met = 0;
        for _ in 0..300 {
            let mut bench = half("choke limit 1000", 50);
            bench.qdisc.rng = Rng::stream(met, "test");
            (0..20).for_each(|_| {
                bench.qdisc.vars.qavg = bench.qdisc.parms.qth_min * 3 / 2;
                bench.put(ms(1), 1, 1000);
            });
            met += bench.counter("matched") + 1;
            assert_eq!(bench.new_drops().len() as u64, 2 * bench.counter("matched") + bench.counter("early"));
        }
        // At least 20 · 5/70 each time, and less than 20 · 25/70.
        assert!((300 + 400..300 + 2200).contains(&met), "{met}");
    }

    #[test]
    fn a_flow_that_is_not_in_the_queue_is_never_choked() {
        let mut bench = half("choke limit 1000 probability 0.0001", 50);
        for flow in 0..30 {
            bench.qdisc.vars.qavg = bench.qdisc.parms.qth_min * 3 / 2;
            bench.put(ms(1), 5000 + flow, 1000);
        }
        assert_eq!((bench.counter("matched"), bench.drops.len()), (0, 0));
    }

    #[test]
    fn above_max_all_are_dropped_or_marked_and_a_match_is_dropped_even_then() {
        for (ecn, kept) in [("", false), (" ecn", true)] {
            let mut bench = half(&["choke limit 1000", ecn].concat(), 50);
            bench.qdisc.vars.qavg = bench.qdisc.parms.qth_max * 2;
            bench.put_ecn(ms(1), 77, 1000, Ecn::Ect0);
            assert_eq!((bench.qdisc.packets() == 51, bench.counter("marked") == 1), (kept, kept));
            let mut alone = choke(&["choke limit 1000", ecn].concat());
            alone.fill(ms(0), 1, 1000, 50);
            alone.qdisc.vars.qavg = alone.qdisc.parms.qth_max * 2;
            alone.put_ecn(ms(1), 1, 1000, Ecn::Ect0);
            assert_eq!((alone.qdisc.packets(), alone.counter("matched"), alone.drops.len()), (49, 1, 2));
        }
    }

    #[test]
    fn a_table_full_of_holes_is_closed_and_keeps_its_order() {
        let mut bench = choke("choke limit 20 min 2 max 5 burst 4");
        let fill = |bench: &mut Bench<Choke<Parcel>>, count| {
            for flow in 0..count {
                // No average that compares, and flows that never match.
                bench.qdisc.vars.qavg = 0;
                bench.put(ms(0), flow, 100);
            }
        };
        fill(&mut bench, 12);
        // No hole is ever at the head.
        (1..8).for_each(|at| assert!(bench.qdisc.take(at).is_some()));
        assert_eq!((bench.qdisc.len(), bench.qdisc.packets()), (12, 5));
        fill(&mut bench, 15);
        (12..18).for_each(|at| assert!(bench.qdisc.take(at).is_some()));
        assert_eq!((bench.qdisc.len(), bench.qdisc.packets()), (27, 14));
        fill(&mut bench, 6);
        assert_eq!((bench.qdisc.len(), bench.qdisc.packets(), bench.drops.len()), (20, 20, 0));
        let order: Vec<u32> = core::iter::from_fn(|| bench.take(ms(1)).map(|packet| packet.id)).collect();
        assert_eq!(order, [0, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32]);
    }

    #[test]
    fn its_line_has_the_bandwidth_that_tc_insists_on() {
        let line = |text: &str| text.parse::<Spec>().expect(text).to_string();
        assert_eq!(line("choke limit 1000p"), "choke limit 1000 bandwidth 10mbit");
        assert!("choke limit 100 min 30 max 20".parse::<Spec>().is_err());
    }

    #[test]
    fn a_hole_that_comes_to_the_head_is_passed_over() {
        let mut bench = choke("choke limit 1000");
        (0..5).for_each(|flow| _ = bench.put(ms(0), flow, 100));
        (1..3).for_each(|at| assert!(bench.qdisc.take(at).is_some()));
        let order: Vec<u32> = core::iter::from_fn(|| bench.take(ms(1)).map(|packet| packet.id)).collect();
        assert_eq!((order.as_slice(), bench.qdisc.packets()), ([0, 3, 4].as_slice(), 0));
    }

    #[test]
    fn an_average_of_just_max_does_not_drop_everything_yet() {
        let mut bench = choke("choke limit 1000 min 10 max 30 burst 25 probability 0.0001");
        for flow in 0..30 {
            bench.qdisc.vars.qavg = 0;
            bench.put(ms(0), flow, 100);
        }
        // With 30 packets queued an average of 30 stays as it is.
        bench.qdisc.vars.qavg = bench.qdisc.parms.qth_max;
        bench.put(ms(0), 99, 100);
        assert_eq!(bench.qdisc.vars.qavg, bench.qdisc.parms.qth_max);
        assert_eq!((bench.qdisc.packets(), bench.counter("early")), (31, 0));
    }

    #[test]
    fn what_choke_and_the_limit_both_refuse_is_the_limits() {
        for (packets, reason) in [(19, DropReason::Forced), (20, DropReason::Overlimit)] {
            let mut bench = choke("choke limit 20 min 2 max 5 burst 4");
            for flow in 0..packets {
                bench.qdisc.vars.qavg = 0;
                bench.put(ms(0), flow, 100);
            }
            bench.qdisc.vars.qavg = bench.qdisc.parms.qth_max * 2;
            bench.put(ms(0), 99, 100);
            assert_eq!(bench.new_drops(), [(packets, reason)]);
        }
    }
}
