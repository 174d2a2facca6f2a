//! red: random early detection, as in Linux or (`variant ns2`) as in ns-2.35 with automatic configuration.
//!
//! Source: Floyd and Jacobson 1993; Linux 6.1 to 7.3 `include/net/red.h`, `net/sched/sch_red.c`, and `tc`, which
//! computes tables from the parameters; Floyd, "gentle" RED, 2000; Floyd, Gummadi, Shenker, "Adaptive RED", 2001;
//! ns-2.35 `queue/red.cc` with the defaults of `ns-default.tcl` since October 2004.
//! Principle: every arrival updates an average of the queue, slow enough to ignore bursts. Below `min` nothing is dropped.
//! Between `min` and `max` arrivals are dropped with a probability that grows from 0 to `probability`, spread evenly. In
//! Linux every arrival is dropped above `max`. In ns-2 the probability grows on to 1 between `max` and twice `max`
//! (`gentle`), drops are never closer than 1/p (`wait`), and thresholds and averaging weight follow from the link's rate
//! and delay at the start of the run; a link that changes its rate keeps them.
//!
//! Deviations from Linux:
//! - Jiffies last 4 ms (HZ 250, as Debian has it); the timer of `adaptive` starts at time zero.
//! - A packet that both RED and the limit would drop counts as dropped by the limit.
//! - Filters on its decisions (`qevent`) are not implemented.
//!
//! Deviations from ns-2:
//! - `limit` counts packets. ns-2 with its default `queue_in_bytes_` takes `limit_` times 500 bytes instead; with the
//!   automatic thresholds neither is often reached.
//! - `bytes` stands for ns-2's `bytes_` and `queue_in_bytes_` together. The average then counts packets of `avpkt` bytes,
//!   not bytes: the same numbers divided by `avpkt`.
//! - The decay over an idle period is one power instead of ns-2's loop: equal but for rounding.
//! - A dequeue from a queue that is already idle does not restart the idle period (ns-2's links never ask twice).
//! - In the region of forced drops all arrivals are dropped, whatever their size. ns-2.35 with its default `use_mark_p_`
//!   lets packets below `avpkt` bytes through there.
//! - Marks replace random drops below `max` only. ns-2 marks if the probability is below `mark_p_` = 0.1, which is the
//!   same with its default `probability`.
//! - The draw is u < p with u in [0, 1), where ns-2 has u <= p: a probability of 0 never drops.

mod average;
mod kept;
mod linux;

pub use linux::RedLinux;

pub(super) use average::{Action, Parms, Vars as AverageVars, Words};
pub(super) use kept::{Found, Kept};

use super::codel::{MAX_SPAN, MICROSECOND};
use super::param::{Derived, Field, Param, Parameters, Unit, Value, choice, param};
use super::stats::numbers;
use super::{Context, DropReason, Drops, Qdisc};
use crate::packet::Packet;
use crate::ring::Ring;
use crate::rng::Rng;
use crate::units::{Rate, Span, Time};
use alloc::string::String;

choice! {
    /// Which implementation to follow.
    Variant {
        /// RED as in Linux.
        Linux = "linux",
        /// RED as in ns-2, configured automatically from the link.
        Ns2 = "ns2",
    }
}

/// Parameters of RED. Linux's count in bytes, ns-2's in packets.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// The limit of the queue, in bytes; in ns-2 in packets.
    pub limit: u32,
    /// Average queue above which packets are dropped at random; by default a third of `max`, in ns-2 from the link.
    pub min: Option<u32>,
    /// Average queue at which the drop probability reaches `probability`; by default a quarter of the limit, in ns-2
    /// three times `min`.
    pub max: Option<u32>,
    /// Mean packet size in bytes; by default 1000, in ns-2 500.
    pub avpkt: Option<u32>,
    /// Size in packets of the bursts that RED tolerates, from which the weight of the average follows. By default it is
    /// computed from `min` and `max`.
    pub burst: Option<u32>,
    /// Rate of the link, by which the average decays while the link is idle; by default 10 Mbit/s.
    pub bandwidth: Option<Rate>,
    /// Drop probability at `max`; by default 0.02, in ns-2 0.1.
    pub probability: Option<f64>,
    /// Adapt `probability` so that the average stays between `min` and `max`.
    pub adaptive: bool,
    /// Mark ECN-capable packets instead of dropping them early.
    pub ecn: bool,
    /// With `ecn`: drop packets above `max` instead of marking them.
    pub harddrop: bool,
    /// With `ecn`: accept packets that cannot be marked.
    pub nodrop: bool,
    /// Weight of a new sample in the average queue; by default from the link.
    pub q_weight: Option<f64>,
    /// The delay from which `min` is derived.
    pub target: Span,
    /// Let the probability rise to one between `max` and twice `max`.
    pub gentle: bool,
    /// Space random drops: none among the first 1/p arrivals after a drop.
    pub wait: bool,
    /// Scale the drop probability with the packet's size.
    pub bytes: bool,
    /// Which implementation to follow.
    pub variant: Variant,
    /// The kernel's own values, until the others follow from them.
    pub kept: Kept,
}

impl Default for Params {
    fn default() -> Self {
        let mut params = Params::blank();
        params.complete();
        params
    }
}

impl Parameters for Params {
    const NAME: &'static str = "red";
    const ASKED_BY_TC: &'static str = "avpkt";
    const DETAILS: &'static [&'static str] = &["avpkt", "burst", "bandwidth", "probability"];
    const DOC: &'static str = "random early detection: drops at random as the average queue grows";
    const REPLACED: bool = true;
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Amount, "bytes queued; ns2: packets").range(1, u32::MAX as u64).required(),
        param!(
            Params.min,
            Unit::Amount,
            "average queue above which packets are dropped; default: max/3, ns2: by the link"
        )
        .range(1, u32::MAX as u64)
        .zero_unsent(),
        param!(
            Params.max,
            Unit::Amount,
            "average queue at which the probability is reached; default: 3 min, or limit/4; ns2: 3 min"
        )
        .range(1, u32::MAX as u64)
        .zero_unsent(),
        param!(Params.avpkt, Unit::Size, "mean packet size; default: 1000, ns2: 500").range(1, 65_535).printed(),
        param!(Params.burst, Unit::Packets, "packets that may come at once; default: (2 min + max) / (3 avpkt)")
            .range(1, 1 << 20)
            .zero_unsent(),
        param!(
            Params.bandwidth,
            Unit::Rate,
            "rate by which the average decays while the link is idle; default: 10mbit"
        )
        .range(8_000, 32_000_000_000)
        .printed()
        .zero_unsent(),
        param!(Params.probability, Unit::Real, "drop probability at max; default: 0.02, ns2: 0.1")
            .real_range(1e-9, 1.0),
        param!(Params.adaptive, Unit::Flag("noadaptive"), "adapt the probability").aliases(&["adaptative"]),
        param!(Params.ecn, Unit::Flag("noecn"), "mark ECN-capable packets instead of early drops"),
        param!(Params.harddrop, Unit::Flag("noharddrop"), "with ecn: drop above max nevertheless"),
        param!(Params.nodrop, Unit::Flag("drop"), "with ecn: keep what can't be marked"),
        param!(Params.q_weight, Unit::Real, "ns2: weight of a new sample in the average; default: from the link")
            .real_range(1e-12, 1.0)
            .ours(),
        param!(Params.target, Unit::Time, "ns2: delay from which min is derived").range(MICROSECOND, MAX_SPAN).ours(),
        param!(Params.gentle, Unit::Flag("nogentle"), "ns2: let the probability rise to one between max and 2 max")
            .ours(),
        param!(Params.wait, Unit::Flag("nowait"), "ns2: space random drops by waiting").ours(),
        param!(Params.bytes, Unit::Flag("nobytes"), "ns2: scale the drop probability with the packet's size").ours(),
        param!(Params.kept.ewma as "ewma", Unit::Number, "printed by tc -d: burst and avpkt follow from it")
            .range(1, 31)
            .shown(),
        param!(Params.kept.plog as "Plog", Unit::Number, "printed by tc -d: probability follows from it")
            .range(0, 31)
            .shown(),
        param!(Params.kept.scell_log as "Scell_log", Unit::Number, "printed by tc -d: bounds the bandwidth")
            .range(0, 31)
            .shown(),
        Param::impossible("qevent", "hands packets to a filter's actions, and there are none here: leave it out"),
        param!(Params.variant, Unit::Choice(Variant::WORDS, &[]), "which implementation to follow: linux or ns2")
            .ours(),
    ];

    fn before_change(&self) -> Self {
        Params { variant: self.variant, ..Params::blank() }
    }

    fn blank() -> Self {
        Params {
            limit: 400_000,
            min: None,
            max: None,
            avpkt: None,
            burst: None,
            bandwidth: None,
            probability: None,
            adaptive: false,
            ecn: false,
            harddrop: false,
            nodrop: false,
            q_weight: None,
            target: Span::from_millis(5),
            gentle: true,
            wait: true,
            bytes: true,
            variant: Variant::Linux,
            kept: Kept::default(),
        }
    }

    fn derive(&mut self, seen: &[&'static str]) -> Result<Derived, (&'static str, String)> {
        if self.kept.is_empty() {
            return Ok(Derived::default());
        }
        let words = self.linux().map_err(|(name, problem)| (name, problem.into()))?;
        let (Found { avpkt, burst, bandwidth, probability }, derived) = self.kept.found(&words, false, seen)?;
        (self.avpkt, self.burst) = (Some(avpkt), Some(burst));
        (self.bandwidth, self.probability) = (Some(bandwidth), Some(probability));
        self.kept = Kept::default();
        Ok(derived)
    }

    fn assumed(&self, param: &Param<Self>) -> Value {
        match (self.linux(), param.name) {
            (Ok(words), "burst") => words.burst.value(),
            (Ok(words), "probability") => words.probability.value(),
            _ => (param.get)(self),
        }
    }

    /// `tc` requires `avpkt`, and warns if `bandwidth` is missing.
    fn complete(&mut self) {
        if self.variant == Variant::Linux {
            self.avpkt.get_or_insert(1000);
            self.bandwidth.get_or_insert(Rate(10_000_000));
        } else {
            self.bandwidth = None;
        }
    }

    fn foreign(&self) -> &'static [&'static str] {
        match self.variant {
            Variant::Linux => &["q_weight", "target", "gentle", "wait", "bytes"],
            Variant::Ns2 => &["burst", "bandwidth", "harddrop", "nodrop", "ewma", "Plog", "Scell_log"],
        }
    }

    fn for_tc(&self) -> bool {
        self.variant == Variant::Linux
    }

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min > max => return Err(("min", "must not be above max")),
            // ns-2 divides by the difference.
            (Some(min), Some(max)) if min == max && self.variant == Variant::Ns2 => {
                return Err(("min", "must be below max"));
            }
            _ => {}
        }
        match self.variant {
            Variant::Linux => self.check_linux(),
            Variant::Ns2 => Ok(()),
        }
    }
}

impl Params {
    fn check_linux(&self) -> Result<(), (&'static str, &'static str)> {
        if self.nodrop && !self.ecn {
            return Err(("nodrop", "needs ecn"));
        }
        Parms::new(&self.linux()?, false).map(|_| ())
    }

    /// Returns the parameters of the Linux variant, completed as `tc` does.
    fn linux(&self) -> Result<Words, (&'static str, &'static str)> {
        let max = self.max.or(self.min.map(|min| min.saturating_mul(3))).unwrap_or(self.limit / 4);
        let min = self.min.unwrap_or(max / 3);
        if max == 0 || min == 0 {
            return Err(("limit", "is too low for thresholds"));
        }
        let avpkt = self.avpkt.unwrap_or(1000);
        let burst = (2 * u64::from(min) + u64::from(max)) / (3 * u64::from(avpkt));
        Ok(Words {
            min,
            max,
            avpkt,
            burst: self.burst.unwrap_or(burst as u32),
            probability: self.probability.unwrap_or(0.02),
            bandwidth: self.bandwidth.unwrap_or(Rate(10_000_000)),
        })
    }

    /// The Linux variant's parameters as the kernel has them, and the words from which they follow.
    #[cfg(test)]
    pub fn kernel(&self) -> Option<(Words, Parms)> {
        let words = self.linux().ok().filter(|_| self.variant == Variant::Linux)?;
        Parms::new(&words, false).ok().map(|parms| (words, parms))
    }

    /// ns-2's mean packet size, in bytes.
    fn mean_pktsize(&self) -> u32 {
        self.avpkt.unwrap_or(500)
    }
}

/// Adaptation of `max_p`: least time between two steps (`interval_`).
const ADAPT_INTERVAL: Span = Span::from_millis(500);
/// Adaptation of `max_p`: greatest step up (`alpha_`).
const ALPHA: f64 = 0.01;
/// Adaptation of `max_p`: factor of a step down (`beta_`).
const BETA: f64 = 0.9;
/// Adaptation of `max_p`: from this value on there is no step up (`top_`).
const TOP: f64 = 0.5;

/// The values that ns-2 derives from the link, and the parameters that shape the drop probability.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Rate of the link, in packets of the mean size per second.
    pub ptc: f64,
    /// Weight of one arrival in the average queue.
    pub q_w: f64,
    /// Average queue, in packets of the mean size, from which arrivals may be dropped.
    pub min_th: f64,
    /// Average queue, in packets of the mean size, at which the probability is `max_p`.
    pub max_th: f64,
    /// The probability at `max_th`: `probability`, as adapted so far.
    pub max_p: f64,
    /// Whether the probability rises from `max_p` to 1 between `max_th` and twice `max_th`, or jumps to 1.
    pub gentle: bool,
}

impl Config {
    /// Configures the parameters that are not given as ns-2 does automatically (`q_weight_` −1, `thresh_` 0,
    /// `maxthresh_` 0).
    pub fn automatic(params: &Params, rate: Rate, delay: Span) -> Config {
        let ptc = rate.0 as f64 / (8.0 * f64::from(params.mean_pktsize()));
        let rtt = (3.0 * (delay.as_secs_f64() + 1.0 / ptc)).max(0.1);
        let min_th = params.min.map_or_else(|| (0.5 * params.target.as_secs_f64() * ptc).max(5.0), f64::from);
        Config {
            ptc,
            // 1 - exp(-1 / (10 rtt ptc))
            q_w: params.q_weight.unwrap_or_else(|| -libm::expm1(-1.0 / (10.0 * rtt * ptc))),
            min_th,
            max_th: params.max.map_or(3.0 * min_th, f64::from),
            max_p: params.probability.unwrap_or(0.1),
            gentle: params.gentle,
        }
    }

    /// The probability of a drop at this average queue, before it is spread by `wait` and scaled with the packet's size.
    pub fn probability(&self, average: f64) -> f64 {
        if average < self.min_th {
            0.0
        } else if average < self.max_th {
            self.max_p * (average - self.min_th) / (self.max_th - self.min_th)
        } else if self.gentle {
            (self.max_p + (1.0 - self.max_p) * (average - self.max_th) / self.max_th).min(1.0)
        } else {
            1.0
        }
    }

    /// The average queue from which every arrival is dropped.
    fn forced(&self) -> f64 {
        if self.gentle { 2.0 * self.max_th } else { self.max_th }
    }
}

/// The drop probability of a packet that is the `count`-th arrival since the last drop. With `wait` it is zero for the
/// first 1/p arrivals and one after 2/p, which spaces drops evenly; without `wait` it is one after 1/p.
fn spread(p: f64, count: f64, wait: bool) -> f64 {
    let expected = count * p;
    match wait {
        true if expected < 1.0 => 0.0,
        true if expected < 2.0 => p / (2.0 - expected),
        false if expected < 1.0 => p / (1.0 - expected),
        _ => 1.0,
    }
}

/// The state.
#[derive(Clone, Debug)]
struct Vars {
    /// The average queue, in packets of the mean size.
    average: f64,
    /// Packets that arrived since the last drop, or since the average rose above `min_th`.
    count: u64,
    /// The bytes of these packets.
    count_bytes: u64,
    /// At the last arrival, the average was above `min_th` and the queue was not empty (ns-2: `old`).
    above: bool,
    /// The time since which the queue is empty and the link idle.
    idle_since: Option<Time>,
    /// When `max_p` was last adapted.
    lastset: Time,
}

/// The fate of an arriving packet.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Keep,
    Mark,
    Drop(DropReason),
}

/// Counters, with the keys of `tc -s -j qdisc`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Packets marked instead of dropped.
    pub marked: u64,
    /// Drops by RED itself, random and forced.
    pub early: u64,
    /// Drops by the limit.
    pub pdrop: u64,
}

impl Stats {
    fn list(&self) -> super::Stats {
        numbers([("marked", self.marked), ("early", self.early), ("pdrop", self.pdrop), ("other", 0)])
    }
}

/// The discipline as ns-2 has it.
#[derive(Clone, Debug)]
pub struct Red<P> {
    params: Params,
    config: Config,
    vars: Vars,
    stats: Stats,
    rng: Rng,
    queue: Ring<P>,
    backlog: u64,
}

impl<P: Packet + Copy + Default> Red<P> {
    /// An empty queue before this link, idle since the start of the run.
    pub fn new(params: &Params, context: &Context) -> Self {
        Red {
            params: params.clone(),
            config: Config::automatic(params, context.rate, context.delay),
            vars: Vars {
                average: 0.0,
                count: 0,
                count_bytes: 0,
                above: false,
                idle_since: Some(Time::ZERO),
                lastset: Time::ZERO,
            },
            stats: Stats::default(),
            rng: Rng::stream(context.seed, "red"),
            queue: Ring::default(),
            backlog: 0,
        }
    }

    /// The values that were derived from the link.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The average queue, in packets of the mean size.
    pub fn average(&self) -> f64 {
        self.vars.average
    }

    /// Updates the average at an arrival. After an idle period, it first decays as if packets had arrived to an empty
    /// queue at the rate of the link.
    fn update_average(&mut self, now: Time) {
        let q_w = self.config.q_w;
        if let Some(since) = self.vars.idle_since.take() {
            let m = libm::floor(self.config.ptc * now.since(since).as_secs_f64());
            self.vars.average *= libm::pow(1.0 - q_w, m);
        }
        let queue = match self.params.bytes {
            true => self.backlog as f64 / f64::from(self.params.mean_pktsize()),
            false => self.queue.len() as f64,
        };
        self.vars.average = (1.0 - q_w) * self.vars.average + q_w * queue;
        if self.params.adaptive && now > self.vars.lastset + ADAPT_INTERVAL {
            self.adapt(now);
        }
    }

    /// Floyd, Gummadi, Shenker 2001: adapts `max_p` so that the average stays in the middle fifth between the
    /// thresholds.
    fn adapt(&mut self, now: Time) {
        let Config { ptc, min_th, max_th, max_p, .. } = self.config;
        let part = 0.4 * (max_th - min_th);
        // One over the number of packets on a path of 100 ms, at most 0.01.
        let bottom = (10.0 / ptc).min(0.01);
        if self.vars.average < min_th + part && max_p > bottom {
            self.config.max_p = max_p * BETA;
        } else if self.vars.average > max_th - part && max_p < TOP {
            self.config.max_p = max_p + ALPHA.min(max_p / 4.0);
        } else {
            return;
        }
        self.vars.lastset = now;
    }

    /// Judges an arriving packet. `mark` is whether a mark may replace a random drop.
    fn judge(&mut self, bytes: u32, mark: bool) -> Fate {
        let average = self.vars.average;
        self.vars.count += 1;
        self.vars.count_bytes += u64::from(bytes);
        // ns-2 requires more than one packet or byte in the queue, in the unit in which it counts.
        let queued = if self.params.bytes { self.backlog } else { self.queue.len() as u64 };
        let mut fate = Fate::Keep;
        if average < self.config.min_th || queued <= 1 {
            self.vars.above = false;
        } else if average >= self.config.forced() {
            fate = Fate::Drop(DropReason::Forced);
        } else if !self.vars.above {
            // The average has just crossed min_th: this packet is the first that counts.
            self.vars.above = true;
            (self.vars.count, self.vars.count_bytes) = (1, u64::from(bytes));
        } else if self.rng.uniform() < self.chance(bytes) {
            let early = average < self.config.max_th;
            fate = if mark && early { Fate::Mark } else { Fate::Drop(DropReason::Early) };
        }
        if self.queue.len() >= self.params.limit as usize {
            fate = Fate::Drop(DropReason::Overlimit);
        }
        if fate != Fate::Keep {
            (self.vars.count, self.vars.count_bytes) = (0, 0);
        }
        fate
    }

    /// Returns the drop probability of a packet of this size. With the parameter `bytes`, it is scaled with the size,
    /// and earlier arrivals count by their bytes.
    fn chance(&self, bytes: u32) -> f64 {
        let p = self.config.probability(self.vars.average);
        if !self.params.bytes {
            return spread(p, self.vars.count as f64, self.params.wait);
        }
        let count = self.vars.count_bytes / u64::from(self.params.mean_pktsize());
        match spread(p, count as f64, self.params.wait) {
            chance if chance < 1.0 => (chance * f64::from(bytes) / f64::from(self.params.mean_pktsize())).min(1.0),
            _ => 1.0,
        }
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for Red<P> {
    type Params = Params;

    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        self.update_average(now);
        match self.judge(packet.bytes(), self.params.ecn && packet.ecn().is_capable()) {
            Fate::Keep => {}
            Fate::Mark => {
                packet.mark();
                self.stats.marked += 1;
            }
            Fate::Drop(reason) => {
                match reason {
                    DropReason::Overlimit => self.stats.pdrop += 1,
                    _ => self.stats.early += 1,
                }
                return drops.dropped(packet, reason);
            }
        }
        self.backlog += u64::from(packet.bytes());
        self.queue.push(packet);
    }

    fn dequeue(&mut self, now: Time, _drops: &mut impl Drops<P>) -> Option<P> {
        match self.queue.pop() {
            Some(packet) => {
                self.backlog -= u64::from(packet.bytes());
                Some(packet)
            }
            None => {
                self.vars.idle_since.get_or_insert(now);
                None
            }
        }
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
        self.stats.list()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::qdisc::tc::Spec;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
    use alloc::vec::Vec;

    /// ns-2's.
    fn ns2() -> Params {
        Params { limit: 1000, variant: Variant::Ns2, ..Params::blank() }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 + 1e-9 * b.abs()
    }

    fn red(params: &Params) -> Bench<Red<Parcel>> {
        Bench::new(Red::new(params, &CONTEXT))
    }

    #[test]
    fn thresholds_that_are_left_out_follow_from_the_other_as_in_tc() {
        let thresholds = |line: &str| {
            let Ok(Spec::Red(params)) = line.parse() else { panic!("{line}") };
            params.linux().map(|words| (words.min, words.max))
        };
        assert_eq!(thresholds("red limit 1M min 30k"), Ok((30 << 10, 90 << 10)));
        assert_eq!(thresholds("red limit 1M max 90k"), Ok((30 << 10, 90 << 10)));
        assert_eq!(thresholds("red limit 1200000"), Ok((100_000, 300_000)));
    }

    #[test]
    fn the_automatic_configuration_at_100_mbit_is_that_of_ns2() {
        let config = Config::automatic(&ns2(), Rate(100_000_000), Span::from_millis(10));
        assert_eq!(config.ptc, 25_000.0);
        assert_eq!((config.min_th, config.max_th), (62.5, 187.5));
        assert!(near(config.q_w, 1.0 - libm::exp(-1.0 / 25_000.0)), "{}", config.q_w);
        assert_eq!((config.max_p, config.gentle), (0.1, true));
        // A slow link has the smallest thresholds. On a long link the average has a longer memory.
        let slow = Config::automatic(&ns2(), Rate(1_500_000), Span::from_millis(10));
        assert_eq!((slow.ptc, slow.min_th, slow.max_th), (375.0, 5.0, 15.0));
        assert!(near(slow.q_w, 1.0 - libm::exp(-1.0 / 375.0)));
        let long = Config::automatic(&ns2(), Rate(100_000_000), Span::from_millis(100));
        assert!(near(long.q_w, 1.0 - libm::exp(-1.0 / (10.0 * 3.0 * (0.1 + 1.0 / 25_000.0) * 25_000.0))));
    }

    #[test]
    fn the_drop_probability_at_five_average_queues() {
        let config = Config::automatic(&ns2(), Rate(100_000_000), Span::from_millis(10));
        for (average, expected) in [
            (62.4, 0.0),    // below min_th
            (125.0, 0.05),  // in the middle
            (187.5, 0.1),   // at max_th
            (281.25, 0.55), // in the middle of the gentle region
            (375.0, 1.0),   // at twice max_th, and above
            (400.0, 1.0),
        ] {
            assert!(near(config.probability(average), expected), "{average}: {}", config.probability(average));
        }
        let harsh = Config { gentle: false, ..config };
        assert_eq!((harsh.probability(187.4) < 0.1, harsh.probability(187.5)), (true, 1.0));
    }

    #[test]
    fn wait_spreads_drops_evenly_between_one_and_two_over_p() {
        assert_eq!(spread(0.1, 9.9, true), 0.0);
        assert!(near(spread(0.1, 10.0, true), 0.1));
        assert!(near(spread(0.1, 15.0, true), 0.2));
        assert_eq!(spread(0.1, 20.0, true), 1.0);
        assert!(near(spread(0.1, 5.0, false), 0.2));
        assert_eq!(spread(0.1, 10.0, false), 1.0);
    }

    /// A bench whose average keeps this value, with `queued` packets of 500 bytes.
    fn frozen(params: Params, average: f64, queued: u32) -> Bench<Red<Parcel>> {
        let mut bench = red(&Params { q_weight: Some(1e-12), ..params });
        bench.fill(ms(0), 1, 500, queued);
        assert!(bench.new_drops().is_empty());
        bench.qdisc.vars.average = average;
        bench
    }

    #[test]
    fn at_a_constant_average_the_gaps_between_drops_lie_between_one_and_two_over_p() {
        // p = 0.05: between 20 and 40 packets of the mean size.
        let mut bench = frozen(Params { limit: 1 << 20, ..ns2() }, 125.0, 10);
        bench.fill(ms(1), 1, 500, 100_000);
        let ids: Vec<u32> = bench
            .new_drops()
            .into_iter()
            .map(|(id, reason)| {
                assert_eq!(reason, DropReason::Early);
                id
            })
            .collect();
        let gaps: Vec<u32> = ids.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (20..=40).contains(gap)), "{:?}", (gaps.iter().min(), gaps.iter().max()));
        let mean = gaps.iter().sum::<u32>() as f64 / gaps.len() as f64;
        assert!((mean - 30.0).abs() < 0.5, "uniform on 20 to 40, so 30 on average: {mean}");
    }

    #[test]
    fn in_byte_mode_a_packet_three_times_the_mean_is_three_times_as_likely_to_be_dropped() {
        let drops = |bytes: u32| {
            let mut bench = frozen(Params { limit: 1 << 20, wait: false, probability: Some(1e-4), ..ns2() }, 187.0, 10);
            // The count is so small that only the packet's size affects the probability.
            let mut count = 0;
            for _ in 0..200_000 {
                bench.qdisc.vars.count_bytes = 0;
                bench.put(ms(1), 1, bytes);
                count += bench.new_drops().len();
            }
            count as f64
        };
        let ratio = drops(1500) / drops(500);
        assert!((2.0..4.5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn above_twice_max_th_every_arrival_is_a_forced_drop_and_below_min_th_none() {
        let mut above = frozen(ns2(), 375.1, 10);
        above.fill(ms(1), 1, 40, 50);
        assert!(above.new_drops().iter().all(|(_, reason)| *reason == DropReason::Forced));
        assert_eq!(above.qdisc.packets(), 10);
        let mut below = frozen(ns2(), 62.4, 10);
        below.fill(ms(1), 1, 500, 900);
        assert!(below.new_drops().is_empty());
        let mut empty = frozen(ns2(), 375.1, 0);
        empty.put(ms(1), 1, 500);
        assert!(empty.new_drops().is_empty(), "never into an empty queue");
    }

    #[test]
    fn the_limit_counts_packets_and_drops_the_arriving_one() {
        let mut bench = red(&Params { limit: 3, ..ns2() });
        bench.fill(ms(0), 1, 1500, 3);
        assert!(bench.qdisc.is_full(40));
        let fourth = bench.put(ms(0), 1, 40);
        assert_eq!(bench.new_drops(), [(fourth, DropReason::Overlimit)]);
        assert_eq!((bench.counter("pdrop"), bench.counter("early")), (1, 0));
    }

    #[test]
    fn ecn_marks_below_max_th_and_drops_in_the_gentle_region() {
        for (average, ecn, marks) in [(125.0, true, true), (125.0, false, false), (250.0, true, false)] {
            let mut bench = frozen(Params { ecn, limit: 1 << 20, ..ns2() }, average, 10);
            for _ in 0..5000 {
                bench.put_ecn(ms(1), 1, 500, Ecn::Ect0);
            }
            let drops = bench.new_drops().len() as u64;
            let (marked, early) = (bench.counter("marked"), bench.counter("early"));
            assert_eq!((marked > 0, drops > 0, early), (marks, !marks, drops), "{average} {ecn}");
        }
    }

    #[test]
    fn the_average_decays_by_the_packets_that_the_idle_link_could_have_sent() {
        let mut bench = frozen(ns2(), 100.0, 1);
        bench.qdisc.config.q_w = 0.01;
        assert!(bench.take(ms(5)).is_some(), "the link is busy with it until it asks again");
        assert_eq!(bench.take(ms(10)), None);
        assert_eq!(bench.take(ms(14)), None, "asking again does not start idling again");
        bench.put(ms(20), 1, 500);
        // 10 ms at 25 000 packets a second: 250 arrivals to an empty queue, and this one.
        assert!(near(bench.qdisc.average(), 100.0 * libm::pow(0.99, 251.0)), "{}", bench.qdisc.average());
        // Without an empty dequeue the queue is not idle.
        bench.take(ms(21));
        bench.put(ms(30), 1, 500);
        assert!(near(bench.qdisc.average(), 100.0 * libm::pow(0.99, 252.0)), "{}", bench.qdisc.average());
    }

    #[test]
    fn a_burst_of_300_packets_drops_more_with_each_change_that_ns3_tests() {
        // ns-3's vectors: min 70, max 150; the drops of 20 seeds together.
        let base = Params { limit: 300, min: Some(70), max: Some(150), probability: Some(0.02), ..ns2() };
        let drops = |params: Params| {
            (0..20)
                .map(|seed| {
                    let mut bench = Bench::new(Red::<Parcel>::new(&params, &Context { seed, ..CONTEXT }));
                    bench.fill(ms(0), 1, 500, 300);
                    bench.new_drops().len()
                })
                .sum::<usize>()
        };
        assert_eq!(drops(Params { q_weight: Some(0.002), ..base.clone() }), 0);
        let fast = Params { q_weight: Some(0.02), ..base };
        let reference = drops(fast.clone());
        assert!(reference > 0);
        assert!(drops(Params { max: Some(100), ..fast.clone() }) > reference, "lower max_th");
        assert!(drops(Params { probability: Some(0.2), ..fast.clone() }) > reference, "LInterm 5");
        assert!(drops(Params { gentle: false, ..fast.clone() }) > reference, "not gentle");
        assert!(drops(Params { wait: false, ..fast }) > reference, "no wait");
    }

    #[test]
    fn adaptive_moves_max_p_every_half_second_until_the_average_is_in_the_middle() {
        let step = |average: f64, max_p: f64, at: Time| {
            let mut bench = frozen(Params { adaptive: true, ..ns2() }, average, 10);
            bench.qdisc.config.max_p = max_p;
            bench.put(at, 1, 500);
            bench.qdisc.config.max_p
        };
        let later = ms(501);
        assert!(near(step(70.0, 0.1, later), 0.09));
        assert!(near(step(180.0, 0.1, later), 0.11));
        assert!(near(step(180.0, 0.02, later), 0.025), "at most a quarter");
        assert!(near(step(125.0, 0.1, later), 0.1), "in the middle fifth nothing changes");
        assert!(near(step(70.0, 0.1, ms(500)), 0.1), "not before half a second has passed");
        assert!(near(step(180.0, 0.5, later), 0.5), "no step up from the top");
        assert!(near(step(70.0, 0.0004, later), 0.0004), "no step down from the bottom, 1 / (0.1 s × ptc)");
    }

    #[test]
    fn the_same_seed_drops_the_same_packets_and_another_seed_others() {
        let run = |seed| {
            let mut bench =
                Bench::new(Red::<Parcel>::new(&Params { limit: 1 << 20, ..ns2() }, &Context { seed, ..CONTEXT }));
            bench.fill(ms(0), 1, 1500, 10);
            bench.qdisc.config.q_w = 1e-9;
            bench.qdisc.vars.average = 150.0;
            bench.fill(ms(0), 1, 1500, 1000);
            bench.new_drops()
        };
        assert!(!run(1).is_empty());
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn at_an_average_of_just_min_th_arrivals_begin_to_count() {
        for (below, counts) in [(0.0, true), (1e-9, false)] {
            let params =
                Params { min: Some(3), max: Some(9), bytes: false, variant: Variant::Ns2, ..Params::default() };
            let mut bench = red(&params);
            bench.fill(ms(0), 1, 500, 4);
            bench.qdisc.vars.average = bench.qdisc.config.min_th - below;
            assert_eq!(bench.qdisc.judge(500, false), Fate::Keep);
            assert_eq!(bench.qdisc.vars.above, counts);
        }
    }
}
