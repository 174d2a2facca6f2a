//! sfb: stochastic fair BLUE, a drop probability for every flow, computed from bins that flows share.
//!
//! Source: W. Feng, D. Kandlur, D. Saha, K. Shin, "Stochastic fair Blue", 2001; Linux 6.1 to 7.3 `net/sched/sch_sfb.c`
//! (J. Chroboczek).
//! Principle: there are eight levels of sixteen bins. A flow belongs to one bin of every level, by four bits of its
//! hash. When a packet arrives, the probability of each of its bins that holds `target` packets or more grows by
//! `increment`, and that of each empty bin falls by `decrement`. The probability of a flow is the smallest one of its
//! bins, so only a flow that fills bins by itself has a high probability in all of them. A flow at probability one is
//! unresponsive: all such flows together may send `penalty_rate` packets per second. The key of the hash changes every
//! `rehash` ms. During the last `db` ms before a change, the bins of the next key learn about unresponsive flows.
//!
//! Deviations:
//! - Jiffies last 4 ms (HZ 250, as in Debian), and the discipline is set up two jiffies before time zero.
//! - `limit` is 1000 by default, the queue length of an Ethernet device.
//! - The defaults of `increment` and `decrement` are those of `tc`, 0.0005 and 0.00005; without `tc` the kernel has
//!   0.001 and 0.00017.
//! - There are no filters, and the only child is a pfifo.

use super::jiffies::{HZ, JIFFY, jiffies};
use super::param::{Param, Parameters, Unit, param};
use super::siphash::Salt;
use super::stats::numbers;
use super::{Context, DropReason, Drops, Qdisc, Unchangeable};
use crate::packet::Packet;
use crate::ring::Ring;
use crate::rng::Rng;
use crate::units::{Span, Time};
use alloc::boxed::Box;

/// Parameters of SFB.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Milliseconds between changes of the hash key; 0: never.
    pub rehash: u32,
    /// The bins of the next key learn during this number of milliseconds before a change.
    pub db: u32,
    /// The limit of the queue, in packets.
    pub limit: u32,
    /// The limit of one flow, in packets; by default 25, or five quarters of `target`.
    pub max: Option<u32>,
    /// The probability of a bin grows when it holds this number of packets or more; by default four fifths of `max`.
    pub target: Option<u32>,
    /// The step by which the probability of such a bin grows.
    pub increment: f64,
    /// The step by which the probability of an empty bin falls.
    pub decrement: f64,
    /// Packets per second that all flows at probability one may send together.
    pub penalty_rate: u32,
    /// Packets that they may send at once.
    pub penalty_burst: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            rehash: 600_000,
            db: 60_000,
            limit: 1000,
            max: Some(25),
            target: Some(20),
            increment: 0.0005,
            decrement: 0.000_05,
            penalty_rate: 10,
            penalty_burst: 20,
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "sfb";
    const DOC: &'static str = "stochastic fair BLUE: a drop probability per flow, in bins that flows share";
    const REPLACED: bool = true;
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.rehash, Unit::Number, "milliseconds between changes of the hash key; 0: never")
            .range(0, u32::MAX as u64 / 2),
        param!(Params.db, Unit::Number, "milliseconds before a change in which the next bins learn")
            .range(0, u32::MAX as u64 / 2),
        param!(Params.limit, Unit::Packets, "packets queued").range(1, u32::MAX as u64).printed().zero_unsent(),
        param!(Params.max, Unit::Packets, "packets of one flow; default: 25, or 5/4 target")
            .range(1, 65_535)
            .printed()
            .zero_unsent(),
        param!(Params.target, Unit::Packets, "packets of a bin from which its probability grows; default: 4/5 max")
            .range(1, 65_535)
            .printed()
            .zero_unsent(),
        param!(Params.increment, Unit::Real, "the step by which the probability grows").real_range(1e-5, 1.0).printed(),
        param!(Params.decrement, Unit::Real, "the step by which the probability of an empty bin falls")
            .real_range(1e-5, 1.0)
            .printed(),
        param!(Params.penalty_rate, Unit::Number, "packets a second of a flow that does not respond")
            .range(0, 1_000_000)
            .printed(),
        param!(Params.penalty_burst, Unit::Packets, "packets at once of such a flow").range(0, 1_000_000).printed(),
    ];

    fn blank() -> Self {
        Params { max: None, target: None, ..Params::default() }
    }

    /// Derives `max` and `target` from each other, as `tc` does.
    fn complete(&mut self) {
        let max = *self.max.get_or_insert(self.target.map_or(25, |target| (target.saturating_mul(5) + 1) / 4));
        self.target.get_or_insert((max.saturating_mul(4) + 3) / 5);
    }
}

const LEVELS: usize = 8;
const BUCKETS: usize = 16;
/// A probability of one (`SFB_MAX_PROB`).
const MAX_PROB: u32 = 0xffff;

/// A bin (`sfb_bucket`).
#[derive(Clone, Copy, Default, Debug)]
struct Bucket {
    qlen: u16,
    /// The drop probability, in units of 1 / [`MAX_PROB`].
    p_mark: u16,
}

/// The bins, and the hash key that maps flows to bins.
#[derive(Clone, Debug)]
struct Bins {
    perturbation: Salt,
    buckets: [[Bucket; BUCKETS]; LEVELS],
}

/// Returns the index of a hash's bin in a level.
#[inline]
fn place(hash: u32, level: usize) -> usize {
    (hash >> (4 * level)) as usize & (BUCKETS - 1)
}

impl Bins {
    fn new(rng: &mut Rng) -> Bins {
        Bins { perturbation: Salt::draw(rng), buckets: [[Bucket::default(); BUCKETS]; LEVELS] }
    }

    #[inline]
    fn of(&mut self, hash: u32) -> impl Iterator<Item = &mut Bucket> {
        self.buckets.iter_mut().enumerate().map(move |(level, row)| &mut row[place(hash, level)])
    }
}

/// A packet with its hash by each of the two keys. A hash of 0 means that the packet is not counted in those bins.
#[derive(Clone, Copy, Default, Debug)]
struct Hashed<P> {
    packet: P,
    hashes: [u32; 2],
}

/// Counters, with the keys of `tc -s -j qdisc`.
#[derive(Clone, Copy, Default, Debug)]
struct Stats {
    earlydrop: u64,
    penaltydrop: u64,
    bucketdrop: u64,
    queuedrop: u64,
    marked: u64,
}

/// The smallest probability and the smallest number of packets of a flow's bins.
struct Seen {
    p_min: u32,
    qlen: u32,
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct Sfb<P> {
    params: Params,
    /// The steps of the probability, in units of 1 / [`MAX_PROB`].
    increment: u32,
    decrement: u32,
    /// The time between changes of the key. All times here are in jiffies; moments count from the set-up.
    rehash_interval: u64,
    warmup_time: u64,
    rehash_time: u64,
    slot: usize,
    double_buffering: bool,
    bins: Box<[Bins; 2]>,
    tokens_avail: u64,
    /// The time at which the tokens were last updated.
    token_time: u64,
    rng: Rng,
    stats: Stats,
    queue: Ring<Hashed<P>>,
    backlog: u64,
}

/// The longest time for which tokens accumulate.
const LONGEST: u64 = 10 * HZ;
/// Jiffies from the set-up to time zero, as in `replay --world kernel`.
const SET_UP: u64 = 2;

/// Returns the jiffies from the set-up to `now`.
fn jiffy(now: Time) -> u64 {
    now.0 / JIFFY.0 + SET_UP
}

impl<P: Packet + Copy + Default> Sfb<P> {
    /// An empty queue, and bins that have seen nothing.
    pub fn new(params: &Params, context: &Context) -> Self {
        Sfb::set_up(params, Rng::stream(context.seed, Params::NAME), 0)
    }

    /// Creates the state as [`Sfb::new`] does, in this jiffy and with these random numbers.
    fn set_up(params: &Params, mut rng: Rng, jiffy: u64) -> Self {
        // The values that tc sends to the kernel.
        let steps = |share: f64| libm::round(share * f64::from(MAX_PROB)) as u32;
        let jiffies = |ms: u32| jiffies(Span::from_millis(u64::from(ms)));
        let first = Bins::new(&mut rng);
        Sfb {
            increment: steps(params.increment),
            decrement: steps(params.decrement),
            rehash_interval: jiffies(params.rehash),
            warmup_time: jiffies(params.db),
            rehash_time: jiffy,
            slot: 0,
            double_buffering: false,
            bins: Box::new([first, Bins::new(&mut rng)]),
            tokens_avail: u64::from(params.penalty_burst),
            token_time: jiffy,
            rng,
            stats: Stats::default(),
            queue: Ring::default(),
            backlog: 0,
            params: params.clone(),
        }
    }

    /// The packet that would leave next.
    pub fn front(&self) -> Option<&P> {
        self.queue.front().map(|hashed| &hashed.packet)
    }

    /// Changes the key if a change is due, and starts the learning of the next bins before that.
    #[inline]
    fn rehash(&mut self, jiffy: u64) {
        if self.rehash_interval == 0 {
            return;
        }
        let limit = self.rehash_time + self.rehash_interval;
        if jiffy > limit {
            self.bins[self.slot].perturbation = Salt::draw(&mut self.rng);
            self.slot ^= 1;
            self.double_buffering = false;
            self.rehash_time = jiffy;
        } else if self.warmup_time > 0 && jiffy as i64 > limit as i64 - self.warmup_time as i64 {
            self.double_buffering = true;
        }
    }

    /// Counts an arrival in its flow's bins and updates their probabilities.
    #[inline]
    fn learn(&mut self, slot: usize, flow: u32) -> (u32, Seen) {
        let (increment, decrement, target) = (self.increment, self.decrement, self.params.target.unwrap_or(20));
        let bins = &mut self.bins[slot];
        let hash = bins.perturbation.hash(flow);
        let mut seen = Seen { p_min: u32::MAX, qlen: u32::MAX };
        for bucket in bins.of(hash) {
            let (qlen, p_mark) = (u32::from(bucket.qlen), u32::from(bucket.p_mark));
            let p_mark = match qlen {
                0 => p_mark.saturating_sub(decrement),
                qlen if qlen >= target => (p_mark + increment).min(MAX_PROB),
                _ => p_mark,
            };
            bucket.p_mark = p_mark as u16;
            seen.qlen = seen.qlen.min(qlen);
            seen.p_min = seen.p_min.min(p_mark);
        }
        (hash, seen)
    }

    /// Returns true if a packet of an unresponsive flow exceeds `penalty_rate`.
    fn rate_limit(&mut self, jiffy: u64) -> bool {
        let Params { penalty_rate, penalty_burst, .. } = self.params;
        if penalty_rate == 0 || penalty_burst == 0 {
            return true;
        }
        if self.tokens_avail < 1 {
            let age = (jiffy - self.token_time).min(LONGEST);
            self.tokens_avail = (age * u64::from(penalty_rate) / HZ).min(u64::from(penalty_burst));
            self.token_time = jiffy;
            if self.tokens_avail < 1 {
                return true;
            }
        }
        self.tokens_avail -= 1;
        false
    }

    /// Accepts or drops a packet at random, by its flow's probability `p_min`. A packet that would be dropped is marked
    /// instead if possible. Above a probability of one half, some packets are dropped even if they are ECN-capable.
    #[inline]
    fn admit(&mut self, packet: &mut P, p_min: u32) -> bool {
        let r = u32::from(self.rng.next_u16());
        if r >= p_min {
            return true;
        }
        let half = MAX_PROB / 2;
        let drop = p_min > half && r < (p_min - half) * 2;
        if !drop && packet.mark() {
            self.stats.marked += 1;
            return true;
        }
        self.stats.earlydrop += 1;
        false
    }

    /// Decides about an arriving packet. Returns the hashes that select the bins in which it is counted, or the reason
    /// to drop it.
    #[inline]
    fn judge(&mut self, jiffy: u64, packet: &mut P) -> Result<[u32; 2], DropReason> {
        if self.queue.len() >= self.params.limit as usize {
            self.stats.queuedrop += 1;
            return Err(DropReason::Overlimit);
        }
        self.rehash(jiffy);
        let slot = self.slot;
        let mut hashes = [0; 2];
        let (hash, seen) = self.learn(slot, packet.flow_hash());
        hashes[slot] = hash;
        if seen.qlen >= self.params.max.unwrap_or(25) {
            self.stats.bucketdrop += 1;
            return Err(DropReason::FlowLimit);
        }
        if seen.p_min >= MAX_PROB {
            if self.double_buffering {
                hashes[slot ^ 1] = self.learn(slot ^ 1, packet.flow_hash()).0;
            }
            if self.rate_limit(jiffy) {
                self.stats.penaltydrop += 1;
                return Err(DropReason::Penalty);
            }
            return Ok(hashes);
        }
        if self.admit(packet, seen.p_min) { Ok(hashes) } else { Err(DropReason::Early) }
    }

    #[inline]
    fn count(&mut self, hashes: [u32; 2], change: impl Fn(u16) -> u16) {
        for (bins, hash) in self.bins.iter_mut().zip(hashes) {
            if hash != 0 {
                bins.of(hash).for_each(|bucket| bucket.qlen = change(bucket.qlen));
            }
        }
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for Sfb<P> {
    type Params = Params;

    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        match self.judge(jiffy(now), &mut packet) {
            Ok(hashes) => {
                self.backlog += u64::from(packet.bytes());
                self.queue.push(Hashed { packet, hashes });
                self.count(hashes, |qlen| qlen.saturating_add(1));
            }
            Err(reason) => drops.dropped(packet, reason),
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _drops: &mut impl Drops<P>) -> Option<P> {
        let Hashed { packet, hashes } = self.queue.pop()?;
        self.backlog -= u64::from(packet.bytes());
        self.count(hashes, |qlen| qlen.saturating_sub(1));
        Some(packet)
    }

    /// `sfb_change`: a new queue replaces the old one, whose packets are dropped, and the bins start again.
    fn change(&mut self, now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        while let Some(Hashed { packet, .. }) = self.queue.pop() {
            drops.dropped(packet, DropReason::Overlimit);
        }
        *self = Sfb { stats: self.stats, ..Sfb::set_up(params, self.rng.clone(), jiffy(now)) };
        Ok(())
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
        let all = || self.bins[self.slot].buckets.iter().flatten();
        let maxprob = all().map(|bucket| u64::from(bucket.p_mark)).max().unwrap_or(0);
        let avgprob = all().map(|bucket| u64::from(bucket.p_mark)).sum::<u64>() / (LEVELS * BUCKETS) as u64;
        let share = |prob| prob as f64 / f64::from(MAX_PROB);
        let Stats { earlydrop, penaltydrop, bucketdrop, queuedrop, marked } = self.stats;
        let mut stats = numbers([
            ("earlydrop", earlydrop),
            ("penaltydrop", penaltydrop),
            ("bucketdrop", bucketdrop),
            ("queuedrop", queuedrop),
            ("childdrop", 0),
            ("marked", marked),
            ("maxqlen", all().map(|bucket| u64::from(bucket.qlen)).max().unwrap_or(0)),
        ]);
        stats.extend([("maxprob", share(maxprob).into()), ("avgprob", share(avgprob).into())]);
        stats
    }

    fn overlimits(&self) -> u64 {
        self.stats.queuedrop + self.stats.bucketdrop + self.stats.penaltydrop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};

    fn sfb(params: Params) -> Bench<Sfb<Parcel>> {
        Bench::new(Sfb::new(&params, &CONTEXT))
    }

    fn probability(bench: &mut Bench<Sfb<Parcel>>, flow: u32) -> u16 {
        let bins = &mut bench.qdisc.bins[0];
        let hash = bins.perturbation.hash(flow);
        bins.of(hash).map(|bucket| bucket.p_mark).min().unwrap_or(0)
    }

    #[test]
    fn a_bin_at_target_becomes_more_likely_to_drop_and_an_empty_one_less() {
        let mut bench = sfb(Params { increment: 0.01, decrement: 0.001, max: Some(1000), ..Params::default() });
        bench.fill(ms(0), 1, 100, 20);
        assert_eq!(probability(&mut bench, 1), 0);
        bench.put_ecn(ms(0), 1, 100, Ecn::Ect0);
        assert_eq!(probability(&mut bench, 1), 655);
        while bench.take(ms(1)).is_some() {}
        bench.put_ecn(ms(1), 1, 100, Ecn::Ect0);
        assert_eq!(probability(&mut bench, 1), 655 - 66);
    }

    #[test]
    fn a_flow_that_fills_its_bins_is_dropped_and_another_is_not() {
        let mut bench = sfb(Params { increment: 0.05, ..Params::default() });
        for round in 0..200 {
            bench.fill(ms(round), 1, 1000, 6);
            bench.put(ms(round), 2, 100);
            (0..4).for_each(|_| bench.qdisc.dequeue(ms(round), &mut bench.drops).map_or((), |_| ()));
        }
        let of = |flow| bench.drops.iter().filter(|(packet, _)| packet.hash == flow).count();
        assert!(of(1) > 200 && of(2) == 0, "{} {}", of(1), of(2));
    }

    #[test]
    fn no_flow_holds_more_than_max() {
        let mut bench = sfb(Params { max: Some(10), target: Some(9), ..Params::default() });
        bench.fill(ms(0), 1, 100, 12);
        assert_eq!(bench.new_drops(), [(10, DropReason::FlowLimit), (11, DropReason::FlowLimit)]);
        assert_eq!((bench.counter("bucketdrop"), bench.counter("maxqlen")), (2, 10));
    }

    #[test]
    fn a_flow_that_does_not_respond_sends_its_burst_and_then_at_penalty_rate() {
        let mut bench = sfb(Params { increment: 1.0, target: Some(1), max: Some(1000), ..Params::default() });
        bench.put(ms(0), 1, 100);
        // 20 packets pass at once, then 10 per second. The set-up was 8 ms before time zero.
        bench.fill(ms(0), 1, 100, 100);
        assert_eq!(bench.qdisc.packets(), 1 + 20);
        assert!(bench.new_drops().iter().all(|(_, reason)| *reason == DropReason::Penalty));
        bench.fill(ms(1000), 1, 100, 100);
        assert_eq!(bench.qdisc.packets(), 1 + 20 + 10);
    }

    #[test]
    fn marks_stand_for_drops_up_to_a_half_and_never_at_one() {
        let mut bench =
            sfb(Params { increment: 0.4, target: Some(1), max: Some(10_000), limit: 10_000, ..Params::default() });
        bench.fill(ms(0), 1, 100, 1);
        bench.qdisc.increment = 1;
        for _ in 0..2000 {
            let bins = &mut bench.qdisc.bins[0];
            bins.buckets.iter_mut().flatten().for_each(|bucket| bucket.p_mark = 26_000);
            bench.put_ecn(ms(0), 1, 100, Ecn::Ect0);
        }
        let marked = bench.counter("marked");
        assert!((700..900).contains(&marked) && bench.drops.is_empty(), "{marked}");
    }

    #[test]
    fn the_key_changes_after_rehash_and_the_next_bins_learn_before() {
        let mut bench = sfb(Params { increment: 1.0, target: Some(1), penalty_rate: 1000, ..Params::default() });
        let keys = |bench: &Bench<Sfb<Parcel>>| [0, 1].map(|slot| bench.qdisc.bins[slot].perturbation.hash(1));
        let before = keys(&bench);
        bench.fill(ms(540_000), 1, 100, 3);
        assert!(bench.qdisc.double_buffering);
        assert!(bench.qdisc.bins[1].buckets.iter().flatten().any(|bucket| bucket.qlen > 0));
        bench.put(ms(600_000), 1, 100);
        assert_eq!((bench.qdisc.slot, bench.qdisc.double_buffering), (1, false));
        assert_eq!((keys(&bench)[0] == before[0], keys(&bench)[1] == before[1]), (false, true));
        while bench.take(ms(600_001)).is_some() {}
        assert_eq!(bench.counter("maxqlen"), 0, "each packet leaves the bins that it was counted in");
    }

    #[test]
    fn above_a_half_a_mark_no_longer_stands_for_every_drop() {
        let mut bench =
            sfb(Params { increment: 0.4, target: Some(1), max: Some(10_000), limit: 10_000, ..Params::default() });
        bench.fill(ms(0), 1, 100, 1);
        bench.qdisc.increment = 1;
        for _ in 0..2000 {
            let bins = &mut bench.qdisc.bins[0];
            bins.buckets.iter_mut().flatten().for_each(|bucket| bucket.p_mark = 40_000);
            bench.put_ecn(ms(0), 1, 100, Ecn::Ect0);
        }
        // Twice the excess above one half is dropped, 22 %; 39 % are marked.
        let (marked, dropped) = (bench.counter("marked"), bench.counter("earlydrop"));
        assert!((700..860).contains(&marked) && (370..510).contains(&dropped), "{marked} {dropped}");
    }

    #[test]
    fn the_key_changes_only_after_the_whole_interval() {
        let mut bench = sfb(Params::default());
        let due = bench.qdisc.rehash_time + bench.qdisc.rehash_interval;
        bench.qdisc.rehash(due);
        assert_eq!(bench.qdisc.slot, 0);
        bench.qdisc.rehash(due + 1);
        assert_eq!(bench.qdisc.slot, 1);
    }

    #[test]
    fn without_a_penalty_rate_a_flow_that_does_not_respond_sends_nothing() {
        let mut bench =
            sfb(Params { increment: 1.0, target: Some(1), max: Some(1000), penalty_rate: 0, ..Params::default() });
        bench.fill(ms(0), 1, 100, 50);
        assert_eq!((bench.qdisc.packets(), bench.counter("penaltydrop")), (1, 49));
    }
}
