//! PIE: drops arrivals with a probability that a proportional integral controller sets from the queue's delay.
//!
//! Source: RFC 8033 (R. Pan, P. Natarajan, F. Baker, G. White, et al.); Linux's `sch_pie.c`, whose decisions this
//! follows.
//! Principle: every `tupdate` the drop probability changes by `alpha` times the difference between delay and `target`,
//! plus `beta` times the change of the delay. Small probabilities change in small steps. An arrival is dropped with
//! this probability, with three exceptions: within the first 150 ms of a busy period (burst allowance), while the delay
//! is below half the target and the probability below 20 %, and while hardly anything is queued.
//!
//! Variants: `linux` (6.1 to 7.x) has fixed point and the options of the RFC, without its active and inactive state.
//! `rfc8033` is the basic scheme of appendix A. `rfc8033b` is appendix B: drops are spread out, steps are bounded, the
//! delay is computed from the departure rate, and PIE is inactive while the buffer is less than a third full.
//!
//! Deviations:
//! - Overdue updates are computed when the next packet arrives or leaves, from the state at the time of the update. The
//!   effect is the same, without events. The counters have the values of that packet's time.
//! - Linux's timer counts jiffies; here they last 4 ms (HZ 250), and time zero is a multiple of eight of them.
//! - Linux stamps packets only without `dq_rate_estimator`. If a change switches it off while packets wait, Linux takes
//!   other content of the same field for their arrival times; here the arrival times remain correct.
//! - `MEAN_PKTSIZE` of the RFC is the link's MTU, as in Linux; TAIL_DROP is `limit` packets of that size.
//! - Appendix A does not define the delay of an empty queue: here it is zero once a dequeue found the queue empty.
//! - With appendix B as written, the arrival that activates PIE would deactivate it again, because its delay is zero
//!   before the first update. Here PIE becomes inactive only at updates, by §5.3: the probability is zero and both
//!   delays are below half the target.
//! - RFC 8033's appendix A has no ECN; `ecn` marks there as in appendix B, below a probability of 10 % (§5.1).

pub(super) mod linux;
mod rfc8033;
#[cfg(test)]
mod tests;

use super::codel::MAX_SPAN;
use super::jiffies::{self, HZ, Timer};
use super::param::{Param, Parameters, Unit, choice, param};
use super::stats::numbers;
use super::{Context, DropReason, Drops, Qdisc, Unchangeable};
use crate::packet::Packet;
use crate::ring::Ring;
use crate::rng::Rng;
use crate::units::{Span, Time};
use linux::Vars;
use rfc8033::{Basic, Enhanced};

choice! {
    /// Which implementation to follow.
    Variant {
        /// PIE as in Linux.
        Linux = "linux",
        /// The pseudocode of RFC 8033's appendix A.
        Rfc8033 = "rfc8033",
        /// The pseudocode of RFC 8033's appendix B, with the optional elements.
        Rfc8033b = "rfc8033b",
    }
}

/// Parameters of PIE.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets queued.
    pub limit: u32,
    /// The delay that the controller aims at (`QDELAY_REF`).
    pub target: Span,
    /// Time between two updates of the probability (`T_UPDATE`). With 0, Linux updates it only once.
    pub tupdate: Span,
    /// Weight of the delay's distance from the target, in sixteenths of 1/s.
    pub alpha: u32,
    /// Weight of the delay's change, in sixteenths of 1/s.
    pub beta: u32,
    /// Mark ECN-capable packets instead of dropping them while the probability is below a tenth.
    pub ecn: bool,
    /// Scale the drop probability with the packet's size.
    pub bytemode: bool,
    /// Compute the delay from the departure rate (Little's law) and not from the packets' time in the queue.
    pub dq_rate_estimator: bool,
    /// Which implementation to follow.
    pub variant: Variant,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 1000,
            target: Span::from_millis(15),
            tupdate: Span::from_millis(15),
            alpha: 2,
            beta: 20,
            ecn: false,
            bytemode: false,
            dq_rate_estimator: false,
            variant: Variant::Linux,
        }
    }
}

/// The greatest `alpha` and `beta` that `tc` takes.
pub(super) const MOST_GAIN: u64 = 32;

impl Parameters for Params {
    const NAME: &'static str = "pie";
    const DOC: &'static str = "one queue that drops at arrival, with a probability controlled by the delay (RFC 8033)";
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets queued").range(1, u32::MAX as u64).printed().zero_unsent(),
        param!(Params.target, Unit::Time, "delay aimed at").range(0, MAX_SPAN).zero_unsent(),
        param!(Params.tupdate, Unit::Time, "time between two updates of the drop probability")
            .range(0, MAX_SPAN)
            .zero_unsent(),
        param!(Params.alpha, Unit::Number, "weight of the delay's distance from target, in 1/16 Hz")
            .range(0, MOST_GAIN)
            .zero_unsent(),
        param!(Params.beta, Unit::Number, "weight of the delay's change, in 1/16 Hz").range(0, MOST_GAIN).zero_unsent(),
        param!(Params.ecn, Unit::Flag("noecn"), "mark ECN-capable packets while the probability is below a tenth"),
        param!(Params.bytemode, Unit::Flag("nobytemode"), "scale the drop probability with the packet's size"),
        param!(
            Params.dq_rate_estimator,
            Unit::Flag("no_dq_rate_estimator"),
            "take the delay from the rate of departures, not from the packets' time in the queue"
        ),
        param!(
            Params.variant,
            Unit::Choice(Variant::WORDS, &[]),
            "which implementation to follow: linux, rfc8033 or rfc8033b"
        )
        .ours(),
    ];

    fn foreign(&self) -> &'static [&'static str] {
        if self.variant == Variant::Linux { &[] } else { &["bytemode", "dq_rate_estimator"] }
    }

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        match self.variant {
            Variant::Linux => Ok(()),
            _ if self.tupdate == Span::ZERO => Err(("tupdate", "must not be 0 but with variant linux")),
            _ => Ok(()),
        }
    }
}

/// Converts the parameters to Linux's units, for [`Vars`]. fq_pie uses it too.
pub(super) fn control(params: &Params, mtu: u32) -> linux::Control {
    linux::Control::new(params, mtu)
}

/// Creates Linux's timer of the updates. It expires half a second after the start and then every `tupdate`. The work of
/// an expiry takes `work` jiffies more.
pub(super) fn timer(tupdate: Span, work: u64) -> Timer {
    Timer::new(HZ / 2, update_jiffies(tupdate), work)
}

/// Returns the jiffies between two updates; `None` if `tupdate` is 0.
pub(super) fn update_jiffies(tupdate: Span) -> Option<u64> {
    Some(jiffies::jiffies(tupdate)).filter(|every| *every > 0)
}

/// Counters, with the keys of `tc -s -j qdisc` (`pie_stats`).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Stats {
    /// Packets that were queued.
    pub pkts_in: u64,
    /// Packets dropped because the limit was met.
    pub overlimit: u64,
    /// All packets dropped.
    pub dropped: u64,
    /// The largest number of packets that an arrival found in the queue.
    pub maxq: u64,
    /// Packets marked in place of a drop.
    pub ecn_mark: u64,
}

/// The controller of the drops.
#[derive(Clone, Debug)]
enum Controller {
    Linux { control: linux::Control, vars: Vars, timer: Timer },
    Basic(Basic),
    Enhanced(Enhanced),
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct Pie<P> {
    limit: usize,
    /// TAIL_DROP, in bytes.
    tail_drop: u64,
    ecn: bool,
    controller: Controller,
    rng: Rng,
    queue: Ring<P>,
    backlog: u64,
    stats: Stats,
}

impl<P: Packet + Copy + Default> Pie<P> {
    /// An empty queue before a link of this kind.
    pub fn new(params: &Params, context: &Context) -> Self {
        let (limit, mtu) = (params.limit as usize, u64::from(context.mtu));
        let tail_drop = u64::from(params.limit) * mtu;
        let (limit, tail_drop, controller) = match params.variant {
            Variant::Linux => {
                let (control, timer) = (control(params, context.mtu), timer(params.tupdate, 0));
                (limit, u64::MAX, Controller::Linux { control, vars: Vars::default(), timer })
            }
            Variant::Rfc8033 => (limit, u64::MAX, Controller::Basic(Basic::new(params, mtu))),
            Variant::Rfc8033b => (usize::MAX, tail_drop, Controller::Enhanced(Enhanced::new(params, mtu, tail_drop))),
        };
        Pie {
            limit,
            tail_drop,
            ecn: params.ecn,
            controller,
            rng: Rng::stream(context.seed, "pie"),
            queue: Ring::default(),
            backlog: 0,
            stats: Stats::default(),
        }
    }

    /// Computes the updates of the probability that were due before `now`.
    #[inline]
    fn update(&mut self, now: Time) {
        match &mut self.controller {
            Controller::Linux { control, vars, timer } => {
                let times = timer.passed(now);
                vars.update(times, control, self.backlog as u32);
            }
            Controller::Basic(basic) => basic.update(now),
            Controller::Enhanced(enhanced) => enhanced.update(now, self.backlog),
        }
    }

    /// Decides about an arrival of `bytes`: whether to drop it, and whether a mark may replace the drop.
    #[inline]
    fn drop_early(&mut self, bytes: u32) -> (bool, bool) {
        match &mut self.controller {
            Controller::Linux { control, vars, .. } => {
                let early = vars.drop_early(control, self.backlog as u32, bytes, &mut self.rng);
                (early, vars.prob <= linux::MAX_PROB / 10)
            }
            Controller::Basic(basic) => (basic.drop_early(self.backlog, &mut self.rng), basic.marks()),
            Controller::Enhanced(enhanced) => (enhanced.drop_early(self.backlog, &mut self.rng), enhanced.marks()),
        }
    }

    /// Resets the spacing of drops after a drop.
    fn forget_accu_prob(&mut self) {
        match &mut self.controller {
            Controller::Linux { vars, .. } => vars.accu_prob = 0,
            Controller::Basic(_) => {}
            Controller::Enhanced(enhanced) => enhanced.forget_accu_prob(),
        }
    }

    /// The delay in nanoseconds that the controller last saw, and the drop probability as a fraction of 2^64.
    fn state(&self) -> (u64, u64) {
        let of_f64 = |prob: f64| (prob * 18_446_744_073_709_551_616.0) as u64;
        match &self.controller {
            Controller::Linux { vars, .. } => (vars.qdelay << linux::PSCHED_SHIFT, vars.prob << 8),
            Controller::Basic(basic) => (basic.delay().0, of_f64(basic.drop_prob)),
            Controller::Enhanced(enhanced) => (enhanced.delay().0, of_f64(enhanced.drop_prob)),
        }
    }

    /// Drops an arriving packet and counts the drop.
    fn refuse(&mut self, packet: P, reason: DropReason, drops: &mut impl Drops<P>) {
        self.stats.dropped += 1;
        self.stats.overlimit += u64::from(reason == DropReason::Overlimit);
        self.forget_accu_prob();
        drops.dropped(packet, reason);
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for Pie<P> {
    type Params = Params;

    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        self.update(now);
        packet.set_enqueue_time(now);
        let bytes = packet.bytes();
        if self.queue.len() >= self.limit || self.backlog + u64::from(bytes) > self.tail_drop {
            return self.refuse(packet, DropReason::Overlimit, drops);
        }
        let (early, may_mark) = self.drop_early(bytes);
        if early {
            if !(self.ecn && may_mark && packet.mark()) {
                return self.refuse(packet, DropReason::Early, drops);
            }
            self.stats.ecn_mark += 1;
        }
        self.stats.pkts_in += 1;
        self.stats.maxq = self.stats.maxq.max(self.queue.len() as u64);
        self.queue.push(packet);
        self.backlog += u64::from(bytes);
        if let Controller::Enhanced(enhanced) = &mut self.controller {
            enhanced.queued(now, self.backlog);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _: &mut impl Drops<P>) -> Option<P> {
        self.update(now);
        let Some(packet) = self.queue.pop() else {
            if let Controller::Basic(basic) = &mut self.controller {
                basic.emptied();
            }
            return None;
        };
        self.backlog -= u64::from(packet.bytes());
        match &mut self.controller {
            Controller::Linux { control, vars, .. } => {
                vars.process_dequeue(control, now, packet.enqueue_time(), packet.bytes(), self.backlog as u32);
            }
            Controller::Basic(basic) => basic.dequeued(now.since(packet.enqueue_time())),
            Controller::Enhanced(enhanced) => enhanced.dequeued(now, packet.bytes(), self.backlog),
        }
        Some(packet)
    }

    /// `pie_change`: packets beyond the new limit are dropped from the head, which the controller does not see as
    /// departures. A new `tupdate` applies from the next update on; a `tupdate` of zero stops the updates for good.
    fn change(&mut self, now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        self.update(now);
        let Controller::Linux { control, timer, .. } = &mut self.controller else { return Err(Unchangeable) };
        *control = control.changed(params);
        timer.repeat(update_jiffies(params.tupdate));
        (self.limit, self.ecn) = (params.limit as usize, params.ecn);
        while self.queue.len() > self.limit {
            let Some(packet) = self.queue.pop() else { break };
            self.backlog -= u64::from(packet.bytes());
            drops.dropped(packet, DropReason::Overlimit);
        }
        Ok(())
    }

    fn packets(&self) -> usize {
        self.queue.len()
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn is_full(&self, mtu: u32) -> bool {
        self.queue.len() >= self.limit || self.backlog + u64::from(mtu) > self.tail_drop
    }

    /// `prob` is a fraction of 2^64, as the kernel hands it to `tc`.
    fn stats(&self) -> super::Stats {
        let (delay, prob) = self.state();
        let rate = match &self.controller {
            Controller::Linux { control, vars, .. } if control.dq_rate_estimator => vars.rate(),
            _ => 0,
        };
        let mut stats = alloc::vec![("prob", (prob as f64 / u64::MAX as f64).into())];
        let Stats { pkts_in, overlimit, dropped, maxq, ecn_mark } = self.stats;
        stats.extend(numbers([
            ("delay", delay / 1_000),
            ("avg_dq_rate", rate),
            ("pkts_in", pkts_in),
            ("overlimit", overlimit),
            ("dropped", dropped),
            ("maxq", maxq),
            ("ecn_mark", ecn_mark),
        ]));
        stats
    }
}
