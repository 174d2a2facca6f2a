//! dualpi2: a queue of low latency for scalable senders (L4S) beside the classic queue, coupled so that both share alike.
//!
//! Source: RFC 9332 (K. De Schepper, B. Briscoe, G. White); the decisions of Linux's `sch_dualpi2.c` (6.17 and later).
//! Principle: the ECN field sorts packets: ECT(1) and CE into the L queue, the others into the C queue. A proportional
//! integral controller sets a base probability p' every `tupdate` by the greater of both queues' delays. The C queue drops
//! (or marks) with p' squared, the L queue marks with `coupling_factor` times p': so a classic flow, whose rate goes with
//! 1/sqrt(p), and a scalable one, whose rate goes with 1/p, get the same. The L queue marks also what waited longer than a
//! shallow threshold. It goes first, but not always: a weighted round keeps the C queue from starving. When the marks
//! reach 100 %, both queues drop.
//!
//! Two variants: `linux` (32-bit fixed point, a step as threshold, random marks, nothing done to less than two MTUs) and
//! `rfc9332` (appendix A: a ramp from `min_th` over `range`, marks spread evenly by `recur()`).
//!
//! Deviations:
//! - There are no filters: nothing but the ECN field sorts, and a packet that is not ECN-capable is never in the L queue.
//!   `split_gso` has no effect, as no packets are aggregated. L4S can't be switched off (RFC 9332 §2.5.2): that is another
//!   discipline. With `any_ect` Linux treats ECT(0) in the L queue as ECT(1); RFC 9332 §2.5.1.1 would have it squared.
//! - The memory of a packet is its length; the kernel counts what the buffer around it occupies.
//! - Linux's timer is set anew each time from when it went off, which is never on time: here, a nanosecond late. It is
//!   first set at time zero. Updates are made up for when the next packet comes or goes, in the state at their time.
//! - RFC 9332's scheduler is open: ours is Linux's round, by default with a sixteenth for C. Its limit of 250 ms at the
//!   link's rate is taken at the start of the run. `lq.time()` is the delay of the packet in hand, which counts in
//!   `lq.len()`; probabilities end at 1 (A.1, line 3: omitted there), so that `recur()` does not hoard.

mod linux;
mod rfc9332;
#[cfg(test)]
mod tests;

use super::codel::{MAX_SPAN, MICROSECOND};
use super::tc::{Field, Param, Parameters, Unit, Value, choice, param};
use super::{Context, DropReason, Drops, Qdisc};
use crate::packet::{Ecn, Packet};
use crate::ring::Ring;
use crate::rng::Rng;
use crate::units::{Span, Time};
use linux::Linux;
use rfc9332::Rfc9332;

choice! {
    /// Whose decisions are taken.
    Variant {
        /// Linux's, 6.17 and later.
        Linux = "linux",
        /// The pseudocode of RFC 9332's appendix A.
        Rfc9332 = "rfc9332",
    }
}

/// From where on the L queue's packets are marked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StepThresh {
    /// Packets that waited longer.
    Time(Span),
    /// Packets that leave more packets behind.
    Packets(u32),
}

impl Field for StepThresh {
    fn value(&self) -> Value {
        match self {
            StepThresh::Time(span) => Value::Int(span.0),
            StepThresh::Packets(packets) => Value::Packets(u64::from(*packets)),
        }
    }
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Int(ns) => Some(StepThresh::Time(Span(ns))),
            Value::Packets(packets) => u32::try_from(packets).ok().map(StepThresh::Packets),
            _ => None,
        }
    }
}

/// Parameters of dualpi2.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets in both queues; by default 10 000, with `rfc9332` 250 ms at the link's rate.
    pub limit: Option<u32>,
    /// Bytes of memory in both queues; by default two MTUs for each packet of `limit`.
    pub memlimit: Option<u32>,
    /// The L queue's probability is so many times the base probability (k).
    pub coupling_factor: u32,
    /// Where marking in the L queue begins, with `linux`.
    pub step_thresh: StepThresh,
    /// The step is for arrivals that find so many packets in the L queue, with `linux`.
    pub min_qlen_step: u32,
    /// When marks reach 100 %: drop, or let the queue overflow.
    pub drop_on_overload: bool,
    /// Apply the probabilities to arrivals, not to departures; with `linux`.
    pub drop_enqueue: bool,
    /// All ECN-capable packets go into the L queue, not only ECT(1) and CE.
    pub any_ect: bool,
    /// The C queue's weight in percent; by default 10, with `rfc9332` a sixteenth.
    pub classic_protection: Option<u32>,
    /// The greatest RTT to be expected: sets target, tupdate, alpha and beta in Linux; tupdate, alpha and beta by RFC 9332.
    pub max_rtt: Option<Span>,
    /// The typical RTT: as `max_rtt`, six times as long.
    pub typical_rtt: Option<Span>,
    /// The delay that the controller aims at.
    pub target: Span,
    /// Time between two updates of the probability; by default 16 ms, with `rfc9332` by `max_rtt`.
    pub tupdate: Option<Span>,
    /// Weight of the delay's distance from the target, in Hz; by default 0.16, with `rfc9332` by `max_rtt`.
    pub alpha: Option<f64>,
    /// Weight of the delay's change, in Hz; by default 3.2, with `rfc9332` by `max_rtt`.
    pub beta: Option<f64>,
    /// Split what arrives aggregated: no effect here.
    pub split_gso: bool,
    /// The delay at which the L queue's ramp begins, with `rfc9332`.
    pub min_th: Span,
    /// The length of the L queue's ramp, with `rfc9332`.
    pub range: Span,
    /// Whose decisions are taken.
    pub variant: Variant,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: None,
            memlimit: None,
            coupling_factor: 2,
            step_thresh: StepThresh::Time(Span::from_millis(1)),
            min_qlen_step: 0,
            drop_on_overload: true,
            drop_enqueue: false,
            any_ect: false,
            classic_protection: None,
            max_rtt: None,
            typical_rtt: None,
            target: Span::from_millis(15),
            tupdate: None,
            alpha: None,
            beta: None,
            split_gso: true,
            min_th: Span::from_micros(800),
            range: Span::from_micros(400),
            variant: Variant::Linux,
        }
    }
}

/// The greatest time that fits into Linux's 32 bits of nanoseconds.
const MOST_NS: u64 = u32::MAX as u64 / MICROSECOND * MICROSECOND;
/// `tc` hands alpha and beta to the kernel in so many parts of 1 Hz.
const ALPHA_BETA_SCALE: f64 = 256.0;
/// The greatest of these.
const ALPHA_BETA_MAX: f64 = ((2 << 23) - 1) as f64;
/// The least: 1/256 Hz.
const ALPHA_BETA_MIN: f64 = 1.0 / ALPHA_BETA_SCALE;

impl Parameters for Params {
    const NAME: &'static str = "dualpi2";
    const DOC: &'static str = "a queue for L4S beside the classic one, coupled (RFC 9332)";
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets in both queues; default: 10000, or 250 ms at the link's rate")
            .range(1, u32::MAX as u64),
        param!(Params.memlimit, Unit::Octets, "bytes of memory in both queues; default: two MTUs for each packet")
            .range(1, u32::MAX as u64),
        param!(Params.coupling_factor, Unit::Number, "L's probability in multiples of the base probability")
            .range(1, 255),
        param!(Params.step_thresh, Unit::TimeOrPackets, "delay or packets left from where on L is marked")
            .range(MICROSECOND, MOST_NS),
        param!(Params.min_qlen_step, Unit::Packets, "step_thresh is for arrivals that find so many packets in L")
            .range(0, u32::MAX as u64),
        param!(Params.drop_on_overload, Unit::Flag("overflow"), "drop when marks reach 100 %, else let it overflow"),
        param!(Params.drop_enqueue, Unit::Flag("drop_dequeue"), "apply the probabilities to arrivals"),
        param!(Params.any_ect, Unit::Flag("l4s_ect"), "all ECN-capable packets go into L, not only ECT(1) and CE"),
        param!(Params.classic_protection, Unit::Percent, "C's weight; default: 10 %, or a sixteenth").range(0, 100),
        param!(Params.max_rtt, Unit::Time, "greatest RTT to be expected: sets target, tupdate, alpha and beta")
            .range(MICROSECOND, MOST_NS),
        param!(Params.typical_rtt, Unit::Time, "typical RTT: a sixth of max_rtt").range(MICROSECOND, MOST_NS),
        param!(Params.target, Unit::Time, "delay aimed at").range(MICROSECOND, MAX_SPAN),
        param!(Params.tupdate, Unit::Time, "time between two updates; default: 16 ms, or by max_rtt")
            .range(MICROSECOND, MOST_NS),
        param!(Params.alpha, Unit::Real, "weight of the delay's distance from target, in Hz; default: 0.16")
            .real_range(ALPHA_BETA_MIN, ALPHA_BETA_MAX / ALPHA_BETA_SCALE),
        param!(Params.beta, Unit::Real, "weight of the delay's change, in Hz; default: 3.2")
            .real_range(ALPHA_BETA_MIN, ALPHA_BETA_MAX / ALPHA_BETA_SCALE),
        param!(Params.split_gso, Unit::Flag("no_split_gso"), "split what arrives aggregated: no effect here"),
        param!(Params.min_th, Unit::Time, "with rfc9332: delay at which L's ramp begins").range(0, MAX_SPAN).ours(),
        param!(Params.range, Unit::Time, "with rfc9332: length of L's ramp").range(0, MAX_SPAN).ours(),
        param!(Params.variant, Unit::Choice(Variant::WORDS, &[]), "whose decisions are taken").ours(),
    ];

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let rfc = self.variant == Variant::Rfc9332;
        match Gains::of_rtts(self) {
            _ if rfc && self.typical_rtt.is_some() => Err(("typical_rtt", "is of variant linux only")),
            _ if rfc && self.drop_enqueue => Err(("drop_enqueue", "is of variant linux only")),
            _ if rfc && !self.drop_on_overload => Err(("overflow", "is of variant linux only")),
            _ if self.max_rtt.zip(self.typical_rtt).is_some_and(|(max, typical)| typical > max) => {
                Err(("typical_rtt", "must not exceed max_rtt"))
            }
            Some(gains) if gains.beta > ALPHA_BETA_MAX / ALPHA_BETA_SCALE => Err(("max_rtt", "is too short")),
            Some(gains) if gains.alpha < ALPHA_BETA_MIN || gains.beta < ALPHA_BETA_MIN => {
                Err(("max_rtt", "is too long"))
            }
            _ => Ok(()),
        }
    }
}

/// What the controller does with the delay.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Gains {
    target: Span,
    tupdate: Span,
    /// Hz.
    alpha: f64,
    /// Hz.
    beta: f64,
}

impl Gains {
    /// What `tc` derives from the RTTs, as far as they are given; in its whole microseconds and single precision.
    fn of_rtts(params: &Params) -> Option<Gains> {
        let micros = |span: Span| span.0 / MICROSECOND;
        let (max, typical) = match (params.max_rtt.map(micros), params.typical_rtt.map(micros)) {
            (None, None) => return None,
            (Some(max), None) => (max, (max / 6).max(1)),
            (None, Some(typical)) => (typical * 6, typical),
            (Some(max), Some(typical)) => (max, typical),
        };
        let third = max as f64 / 3.0;
        let tupdate = if (typical as f64) < third { typical } else { third as u64 }.max(1);
        Some(Gains {
            target: Span::from_micros(typical),
            tupdate: Span::from_micros(tupdate),
            alpha: tupdate as f64 / max as f64 / max as f64 * 1e6 * f64::from(0.1f32),
            beta: f64::from(0.3f32) / max as f64 * 1e6,
        })
    }
}

/// The round: who goes next while both queues have packets (the kernel's `c_protection`).
#[derive(Clone, Debug)]
struct Wrr {
    /// Weight of the C queue.
    wc: i32,
    /// Weight of the L queue.
    wl: i32,
    /// Above zero it is the C queue's turn.
    credit: i32,
    /// The credit of an idle link.
    init: i32,
}

impl Wrr {
    fn new(wc: i32, wl: i32, mtu: u32) -> Wrr {
        let init = (mtu as i32).wrapping_mul(wc - wl);
        Wrr { wc, wl, credit: init, init }
    }

    /// The credit's change if a packet of this queue is sent while the other one waits.
    #[inline]
    fn change(&self, low: bool, bytes: u32) -> i32 {
        (if low { self.wc } else { -self.wl }).wrapping_mul(bytes as i32)
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Send,
    Mark,
    Drop,
}

#[derive(Clone, Copy, Default, Debug)]
struct Queued<P> {
    packet: P,
    /// It may be marked by the step.
    apply_step: bool,
}

/// One of the two queues.
#[derive(Clone, Debug)]
struct Queue<P> {
    packets: Ring<Queued<P>>,
    /// Packets that came in.
    packets_in: u64,
}

impl<P: Packet + Copy + Default> Queue<P> {
    fn new() -> Self {
        Queue { packets: Ring::default(), packets_in: 0 }
    }

    /// When the packet at the head came.
    #[inline]
    fn head(&self) -> Option<Time> {
        self.packets.front().map(|head| head.packet.enqueue_time())
    }
}

#[derive(Clone, Debug)]
enum Controller {
    Linux(Linux),
    Rfc9332(Rfc9332),
}

/// Counters.
#[derive(Clone, Copy, Default, Debug)]
struct Stats {
    maxq: u64,
    ecn_mark: u64,
    step_mark: u64,
    max_memory_used: u64,
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct DualPi2<P> {
    /// Packets in both queues.
    limit: usize,
    /// Bytes in both queues.
    memory_limit: u64,
    /// Room for one MTU must be left, whatever the packet's size (RFC 9332).
    spare: Option<u32>,
    any_ect: bool,
    controller: Controller,
    wrr: Wrr,
    l: Queue<P>,
    c: Queue<P>,
    backlog: u64,
    /// When a packet last came or was asked for.
    now: Time,
    rng: Rng,
    stats: Stats,
}

impl<P: Packet + Copy + Default> DualPi2<P> {
    /// Empty queues before a link of this kind.
    pub fn new(params: &Params, context: &Context) -> Self {
        let mtu = context.mtu.clamp(1, 1 << 20);
        let packets = params.limit.unwrap_or(10_000);
        let of_packets = (u64::from(packets) * 2 * u64::from(mtu)).min(u64::from(u32::MAX));
        let (limit, bytes, spare, controller, weights) = match params.variant {
            Variant::Linux => {
                (packets as usize, of_packets, None, Controller::Linux(Linux::new(params, mtu)), (10, 90))
            }
            Variant::Rfc9332 => {
                let of_rate = context.rate.bytes_in(Span::from_millis(250));
                let bytes = match params.limit {
                    None if of_rate > 0 => of_rate,
                    _ => u64::from(packets) * u64::from(mtu),
                };
                (usize::MAX, bytes, Some(mtu), Controller::Rfc9332(Rfc9332::new(params)), (1, 15))
            }
        };
        let (wc, wl) = params.classic_protection.map_or(weights, |wc| (wc as i32, 100 - wc as i32));
        DualPi2 {
            limit,
            memory_limit: params.memlimit.map_or(bytes, u64::from),
            spare,
            any_ect: params.any_ect,
            controller,
            wrr: Wrr::new(wc, wl, mtu),
            l: Queue::new(),
            c: Queue::new(),
            backlog: 0,
            now: Time::ZERO,
            rng: Rng::stream(context.seed, "dualpi2"),
            stats: Stats::default(),
        }
    }

    /// The updates that were due up to `now`.
    #[inline]
    fn update(&mut self, now: Time) {
        self.now = now;
        let heads = (self.c.head(), self.l.head());
        match &mut self.controller {
            Controller::Linux(linux) => linux.update(now, heads),
            Controller::Rfc9332(rfc) => rfc.update(now, heads),
        }
    }

    /// Whether a packet belongs into the L queue. RFC 9332 §2.3: ECT(1) and CE do.
    #[inline]
    fn is_low(&self, ecn: Ecn) -> bool {
        matches!(ecn, Ecn::Ect1 | Ecn::Ce) || (self.any_ect && ecn.is_capable())
    }

    /// Carries out what the probabilities ask for; whether the packet stays.
    #[inline]
    fn signal(&mut self, fate: Fate, packet: &mut P) -> bool {
        if fate == Fate::Mark && packet.mark() {
            self.stats.ecn_mark += 1;
        }
        fate != Fate::Drop
    }

    /// What the probabilities ask for at departure.
    #[inline]
    fn judge(&mut self, now: Time, low: bool, queued: &Queued<P>) -> Fate {
        let ecn = queued.packet.ecn();
        match &mut self.controller {
            Controller::Linux(linux) if linux.drop_enqueue => Fate::Send,
            Controller::Linux(linux) => linux.judge(low, ecn, self.backlog, &mut self.rng),
            Controller::Rfc9332(rfc) => {
                let waited = now.since(queued.packet.enqueue_time());
                if low { rfc.judge_l(waited, self.l.packets.len()) } else { rfc.judge_c(ecn) }
            }
        }
    }

    /// Takes the packet whose turn it is, with its queue and the credit's change.
    #[inline]
    fn dequeue_packet(&mut self) -> Option<(Queued<P>, bool, i32)> {
        let (l, c) = (self.l.packets.len(), self.c.packets.len());
        let low = l > 0 && (c == 0 || self.wrr.credit <= 0);
        let queue = if low { &mut self.l } else { &mut self.c };
        let Some(queued) = queue.packets.pop() else {
            self.wrr.credit = self.wrr.init;
            return None;
        };
        let bytes = queued.packet.bytes();
        self.backlog -= u64::from(bytes);
        let change = if l > 0 && c > 0 { self.wrr.change(low, bytes) } else { 0 };
        Some((queued, low, change))
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for DualPi2<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        self.update(now);
        packet.set_enqueue_time(now);
        let (bytes, queued) = (packet.bytes(), self.packets());
        if queued >= self.limit {
            return drops.dropped(packet, DropReason::Overlimit);
        }
        if self.is_full(bytes) {
            let reason = if self.spare.is_some() { DropReason::Overlimit } else { DropReason::MemoryLimit };
            return drops.dropped(packet, reason);
        }
        let low = self.is_low(packet.ecn());
        let mut apply_step = false;
        if let Controller::Linux(linux) = &mut self.controller {
            apply_step = self.l.packets.len() >= linux.min_qlen_step;
            if linux.drop_enqueue {
                let fate = linux.judge(low, packet.ecn(), self.backlog, &mut self.rng);
                if !self.signal(fate, &mut packet) {
                    return drops.dropped(packet, DropReason::Early);
                }
            }
        }
        let queue = if low { &mut self.l } else { &mut self.c };
        queue.packets.push(Queued { packet, apply_step });
        queue.packets_in += 1;
        self.backlog += u64::from(bytes);
        self.stats.max_memory_used = self.stats.max_memory_used.max(self.backlog);
        self.stats.maxq = self.stats.maxq.max(queued as u64);
    }

    #[inline]
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        self.update(now);
        while let Some((mut queued, low, change)) = self.dequeue_packet() {
            let fate = self.judge(now, low, &queued);
            if !self.signal(fate, &mut queued.packet) {
                // Whose turn it is does not change by a drop.
                drops.dropped(queued.packet, DropReason::Early);
                continue;
            }
            if let Controller::Linux(linux) = &self.controller
                && low
                && queued.apply_step
                && linux.is_over_step(now.since(queued.packet.enqueue_time()), self.l.packets.len())
                && self.signal(Fate::Mark, &mut queued.packet)
            {
                self.stats.step_mark += 1;
            }
            self.wrr.credit = self.wrr.credit.wrapping_add(change);
            return Some(queued.packet);
        }
        None
    }

    #[inline]
    fn packets(&self) -> usize {
        self.l.packets.len() + self.c.packets.len()
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    #[inline]
    fn is_full(&self, mtu: u32) -> bool {
        let room = u64::from(self.spare.unwrap_or(mtu));
        self.packets() >= self.limit || self.backlog + room > self.memory_limit
    }

    /// `prob` is a fraction of 2^32, as the kernel hands it to `tc`; `credit` is a signed number.
    fn stats(&self) -> super::Stats {
        let prob = match &self.controller {
            Controller::Linux(linux) => u64::from(linux.prob),
            Controller::Rfc9332(rfc) => (rfc.p * f64::from(u32::MAX)) as u64,
        };
        let delay = |head: Option<Time>| head.map_or(0, |head| self.now.since(head).0 / MICROSECOND);
        alloc::vec![
            ("prob", prob),
            ("delay-c", delay(self.c.head())),
            ("delay-l", delay(self.l.head())),
            ("pkts-in-c", self.c.packets_in),
            ("pkts-in-l", self.l.packets_in),
            ("maxq", self.stats.maxq),
            ("ecn-mark", self.stats.ecn_mark),
            ("step-mark", self.stats.step_mark),
            ("credit", i64::from(self.wrr.credit) as u64),
            ("memory-used", self.backlog),
            ("max-memory-used", self.stats.max_memory_used),
            ("memory-limit", self.memory_limit),
        ]
    }
}
