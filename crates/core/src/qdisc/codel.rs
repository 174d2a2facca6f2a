//! CoDel: keeps the delay of a queue near a target, whatever the rate of the link.
//!
//! Source: RFC 8289 (K. Nichols, V. Jacobson, et al.); Linux's `codel_impl.h`, whose decisions this follows.
//! Principle: a good queue empties at least once per `interval` (about an RTT); a bad queue persists. Each packet is
//! stamped on arrival, so its sojourn time is known at departure. When every packet of a whole `interval` has waited
//! for `target` or longer, the packet at the head is dropped. The next drops follow at distances of `interval` /
//! sqrt(`count`), until a packet waits less than `target`. The square root makes TCP's rate fall linearly with time. A
//! queue of one MTU is never bad. If the queue is bad again within 16 `interval`, dropping resumes at the rate at which
//! it ended.
//!
//! Variants: `rfc8289` has an exact square root, nanoseconds and `>=`. `linux` (6.1 to 6.12) has ticks of 1.024 µs in
//! 32 bits, one Newton step per drop on a 16-bit root, and `>`. `linux7` (7.x) is like `linux`, but a step is at least
//! a tick, and a dequeue drops at most 256 packets. `ns2` is the module for ns-2 of 2012: dropping resumes within 8
//! `interval`, with `count` reduced by 2, or by 1.56 % from 129 on, and within that time the delay needs to be above
//! target only for `interval` / sqrt(`count`); a drop counts only if the next packet is above target too; the MTU is
//! the largest packet seen.
//!
//! Deviations: the pseudocode of RFC 8289 and the module of ns-2 have no ECN; here a mark replaces a drop in them too,
//! as in Linux. `maxpacket` of the RFC is the link's MTU, as its §5.3 advises, and not 512. ns-2 computes in
//! floating-point seconds; here times are integer nanoseconds. Until a fix of March 2026 Linux kept `first_above_time`
//! when the queue ran empty (6.1.176 and 6.12.107 lack the fix; 6.1.192, 6.12.117 and 7.3 have it). All our variants
//! reset it, as RFC 8289 §5.6 does. In codel this makes no difference, because the last packet of a queue always passes
//! the MTU test; in fq_codel, whose MTU test looks at all queues, it does.

mod law;
#[cfg(test)]
mod tests;

pub use law::{Law, Linux, Linux7, Ns2, Rfc8289};

use super::param::{Field, Param, Parameters, Unit, Value, choice, param};
use super::{Context, DropReason, Drops, Qdisc, Unchangeable};
use crate::packet::Packet;
use crate::ring::Ring;
use crate::units::{Span, Time};

/// Least time that `tc` can express, in nanoseconds.
pub(super) const MICROSECOND: u64 = 1_000;
/// Greatest time parameter, in nanoseconds: far below where the kernel's 32-bit clocks compare as negative.
pub(super) const MAX_SPAN: u64 = 1_000_000_000_000;

choice! {
    /// Which implementation to follow.
    Variant {
        /// Linux 6.1 to 6.12.
        Linux = "linux",
        /// Linux 7.x.
        Linux7 = "linux7",
        /// The pseudocode of RFC 8289.
        Rfc8289 = "rfc8289",
        /// ns-2's module.
        Ns2 = "ns2",
    }
}

/// Parameters of CoDel.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets queued.
    pub limit: u32,
    /// Acceptable standing delay.
    pub target: Span,
    /// The time within which the delay must once have been below the target.
    pub interval: Span,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Mark ECN-capable packets whose delay exceeds this.
    pub ce_threshold: Option<Span>,
    /// Which implementation to follow.
    pub variant: Variant,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 1000,
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            ecn: false,
            ce_threshold: None,
            variant: Variant::Linux,
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "codel";
    const DOC: &'static str = "one queue that drops when the delay stays above a target (RFC 8289)";
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets queued").range(1, u32::MAX as u64).printed().zero_unsent(),
        param!(Params.target, Unit::Time, "acceptable standing delay").range(MICROSECOND, MAX_SPAN).zero_unsent(),
        param!(Params.interval, Unit::Time, "time within which the delay must once have been below target")
            .range(MICROSECOND, MAX_SPAN)
            .zero_unsent(),
        param!(Params.ecn, Unit::Flag("noecn"), "mark ECN-capable packets instead of dropping them"),
        param!(Params.ce_threshold, Unit::Time, "mark ECN-capable packets delayed longer than this; default: off")
            .range(0, MAX_SPAN)
            .shown_if_set(),
        param!(
            Params.variant,
            Unit::Choice(Variant::WORDS, &[]),
            "which implementation to follow: linux (6.1 to 6.12), linux7 (7.0 on), rfc8289 or ns2"
        )
        .ours(),
    ];
}

/// A value of the DS field (DSCP and ECN) under a mask: `ce_threshold_selector VALUE/MASK`. By default it matches all.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DsMatch {
    /// The required value of the field's bits under the mask.
    pub value: u8,
    /// The bits that count; with none every packet matches.
    pub mask: u8,
}

impl DsMatch {
    /// Returns whether a packet's DS field has this value under the mask.
    #[inline]
    pub fn matches(self, packet: &impl Packet) -> bool {
        self.mask == 0 || (packet.dscp() << 2 | packet.ecn() as u8) & self.mask == self.value
    }
}

impl Field for DsMatch {
    fn value(&self) -> Value {
        Value::Int(u64::from(self.value) << 8 | u64::from(self.mask))
    }
    fn from_value(value: Value) -> Option<Self> {
        let Value::Int(n) = value else { return None };
        Some(DsMatch { value: u8::try_from(n >> 8).ok()?, mask: (n & 0xff) as u8 })
    }
}

/// The parameters in units of a law's clock (`codel_params`).
#[derive(Clone, Copy, Debug)]
pub struct Control<L: Law> {
    /// Acceptable standing delay.
    pub target: L::Tick,
    /// The time within which the delay must once have been below the target.
    pub interval: L::Tick,
    /// Delay above which ECN-capable packets are marked in any case.
    pub ce_threshold: Option<L::Tick>,
    /// `ce_threshold` applies only to packets whose DS field matches this.
    pub ce_threshold_selector: DsMatch,
    /// A backlog of at most this many bytes is never bad.
    pub mtu: u64,
    /// Mark instead of drop where possible.
    pub ecn: bool,
}

impl<L: Law> Control<L> {
    /// Converts parameters in nanoseconds; `mtu` is the largest packet in bytes as the link counts it.
    pub fn new(target: Span, interval: Span, ce_threshold: Option<Span>, mtu: u32, ecn: bool) -> Self {
        Control {
            target: L::tick(target.0),
            interval: L::tick(interval.0),
            ce_threshold: ce_threshold.map(|span| L::tick(span.0)),
            ce_threshold_selector: DsMatch::default(),
            mtu: u64::from(mtu),
            ecn,
        }
    }

    /// Restricts `ce_threshold` to packets whose DS field matches.
    pub fn select(mut self, selector: Option<DsMatch>) -> Self {
        self.ce_threshold_selector = selector.unwrap_or_default();
        self
    }

    /// Sets new parameters for the same link, without a selector for `ce_threshold`.
    pub fn change(&mut self, target: Span, interval: Span, ce_threshold: Option<Span>, ecn: bool) {
        *self = Control { mtu: self.mtu, ..Control::new(target, interval, ce_threshold, 0, ecn) };
    }
}

/// The state of one queue under CoDel (`codel_vars`).
#[derive(Clone, Copy, Debug)]
pub struct Vars<L: Law> {
    /// Drops since dropping began; fq_codel adds those of a full buffer.
    pub count: u32,
    /// `count` when dropping last began.
    pub lastcount: u32,
    /// In the dropping state.
    pub dropping: bool,
    /// The law's representation of 1/sqrt(`count`).
    pub rec_inv_sqrt: L::Root,
    /// When the delay will have been above target for an interval; 0 if it is not above.
    pub first_above_time: L::Tick,
    /// When the next drop is due. After dropping has ended it keeps its last value.
    pub drop_next: L::Tick,
    /// Sojourn time of the last packet taken out.
    pub ldelay: L::Tick,
}

impl<L: Law> Default for Vars<L> {
    fn default() -> Self {
        Vars {
            count: 0,
            lastcount: 0,
            dropping: false,
            rec_inv_sqrt: L::Root::default(),
            first_above_time: L::Tick::default(),
            drop_next: L::LONG_AGO,
            ldelay: L::Tick::default(),
        }
    }
}

/// The counters of a discipline's CoDel queues (`codel_stats`).
#[derive(Clone, Copy, Default, Debug)]
pub struct Stats {
    /// Largest packet seen, in bytes.
    pub maxpacket: u32,
    /// Packets dropped by the control law.
    pub drop_count: u64,
    /// Packets marked in place of a drop.
    pub ecn_mark: u64,
    /// Packets marked because of `ce_threshold`.
    pub ce_mark: u64,
}

/// The queue from which CoDel dequeues: the queue of a discipline, or of one flow.
pub trait Source<P> {
    /// Moves the head of the queue into `packet` and updates the discipline's counts. Returns whether there was a
    /// packet.
    fn pop(&mut self, packet: &mut P) -> bool;
    /// The backlog for the MTU test, in bytes: the link's whole backlog without the packet that was just taken (RFC
    /// 8289 §4.4).
    fn backlog(&self) -> u64;
}

impl<L: Law> Vars<L> {
    /// Stores the next packet to send in `packet`, after CoDel has dropped (into `drops`) or marked packets. Returns
    /// whether there is one.
    #[inline(always)]
    pub fn dequeue<P: Packet + Copy>(
        &mut self,
        now: Time,
        packet: &mut P,
        control: &Control<L>,
        stats: &mut Stats,
        source: &mut impl Source<P>,
        drops: &mut impl Drops<P>,
    ) -> bool {
        if !source.pop(packet) {
            self.first_above_time = L::Tick::default(); // RFC 8289 §5.6: an empty queue is not above target
            self.dropping = false;
            return false;
        }
        let now = L::tick(now.0);
        if !self.ok_to_drop(now, packet, control, stats, source) {
            self.dropping = false;
        } else if (!self.dropping || !L::after(self.drop_next, now))
            && !self.signal(now, packet, control, stats, source, drops)
        {
            return false;
        }
        if let Some(threshold) = control.ce_threshold
            && L::after(self.ldelay, threshold)
            && control.ce_threshold_selector.matches(packet)
            && packet.mark()
        {
            stats.ce_mark += 1;
        }
        true
    }

    /// Returns whether the delay has been above target for an interval. RFC 8289 §5.6: `dodequeue`.
    #[inline(always)]
    fn ok_to_drop<P: Packet>(
        &mut self,
        now: L::Tick,
        packet: &P,
        control: &Control<L>,
        stats: &mut Stats,
        source: &impl Source<P>,
    ) -> bool {
        self.ldelay = L::since(now, L::tick(packet.enqueue_time().0));
        if packet.bytes() > stats.maxpacket {
            stats.maxpacket = packet.bytes();
        }
        if L::after(control.target, self.ldelay) || source.backlog() <= L::maxpacket(control.mtu, stats.maxpacket) {
            self.first_above_time = L::Tick::default();
            return false;
        }
        if self.first_above_time == L::Tick::default() {
            self.first_above_time = L::first_above_time(now, control.interval, self);
            return false;
        }
        L::above_for_long(now, self.first_above_time)
    }

    /// Handles a signal that is due: drops or marks `packet`, and further packets if the queue was in the dropping
    /// state already. `packet` becomes the packet to send. Returns false if there is none.
    #[cold]
    #[inline(never)]
    fn signal<P: Packet + Copy>(
        &mut self,
        now: L::Tick,
        packet: &mut P,
        control: &Control<L>,
        stats: &mut Stats,
        source: &mut impl Source<P>,
        drops: &mut impl Drops<P>,
    ) -> bool {
        if !self.dropping {
            let outcome = self.drop_or_mark(now, packet, control, stats, source, drops);
            self.begin(now, control);
            return outcome != Outcome::Empty;
        }
        let mut signals = 0;
        while !L::after(self.drop_next, now) {
            if signals == L::MOST_DROPS {
                // Linux 7: dropping is far behind its schedule, so the schedule starts again from the present.
                self.drop_next = L::control_law(now, control.interval, self.rec_inv_sqrt);
                break;
            }
            signals += 1;
            if !L::COUNTS_LATE {
                self.count_up();
            }
            let outcome = self.drop_or_mark(now, packet, control, stats, source, drops);
            if matches!(outcome, Outcome::Below | Outcome::Empty) {
                self.dropping = false;
                return outcome != Outcome::Empty;
            }
            if L::COUNTS_LATE {
                self.count_up();
            }
            // RFC 8289 §5.5: from the old drop_next, not from now.
            self.drop_next = L::control_law(self.drop_next, control.interval, self.rec_inv_sqrt);
            if outcome == Outcome::Marked {
                return true;
            }
        }
        true
    }

    fn count_up(&mut self) {
        self.count = self.count.wrapping_add(1);
        self.rec_inv_sqrt = L::next_root(self.rec_inv_sqrt, self.count);
    }

    /// Marks `packet`, or drops it and stores the next packet of the queue in its place.
    fn drop_or_mark<P: Packet + Copy>(
        &mut self,
        now: L::Tick,
        packet: &mut P,
        control: &Control<L>,
        stats: &mut Stats,
        source: &mut impl Source<P>,
        drops: &mut impl Drops<P>,
    ) -> Outcome {
        if control.ecn && packet.mark() {
            stats.ecn_mark += 1;
            return Outcome::Marked;
        }
        stats.drop_count += 1;
        drops.dropped(*packet, DropReason::Codel);
        if !source.pop(packet) {
            self.first_above_time = L::Tick::default();
            return Outcome::Empty;
        }
        if self.ok_to_drop(now, packet, control, stats, source) { Outcome::StillAbove } else { Outcome::Below }
    }

    /// Enters the dropping state after its first signal.
    fn begin(&mut self, now: L::Tick, control: &Control<L>) {
        self.dropping = true;
        let resumed = L::resumed(self.count, self.lastcount);
        if let Some(count) = resumed.filter(|_| L::resumes(now, self.drop_next, control.interval)) {
            self.count = count;
            self.rec_inv_sqrt = L::next_root(self.rec_inv_sqrt, self.count);
        } else {
            self.count = 1;
            self.rec_inv_sqrt = L::first_root();
        }
        self.lastcount = self.count;
        self.drop_next = L::control_law(now, control.interval, self.rec_inv_sqrt);
    }
}

/// The outcome of a signal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The packet was marked, and it is the packet to send.
    Marked,
    /// It was dropped, and the next one is above target too.
    StillAbove,
    /// It was dropped, and the next one is below target.
    Below,
    /// It was dropped, and the queue is empty.
    Empty,
}

/// A queue and its bytes.
#[derive(Clone, Debug)]
struct Queue<P> {
    packets: Ring<P>,
    backlog: u64,
}

impl<P: Packet + Copy + Default> Source<P> for Queue<P> {
    #[inline(always)]
    fn pop(&mut self, packet: &mut P) -> bool {
        let popped = self.packets.pop_into(packet);
        if popped {
            self.backlog -= u64::from(packet.bytes());
        }
        popped
    }

    #[inline]
    fn backlog(&self) -> u64 {
        self.backlog
    }
}

/// The discipline `codel`: one queue.
#[derive(Clone, Debug)]
pub struct Codel<P, L: Law> {
    limit: usize,
    control: Control<L>,
    vars: Vars<L>,
    stats: Stats,
    queue: Queue<P>,
    drop_overlimit: u64,
    /// The time of the last dequeue, for `drop_next` in the statistics.
    now: Time,
}

impl<P: Packet + Copy + Default, L: Law> Codel<P, L> {
    /// Creates an empty queue.
    pub fn new(params: &Params, context: &Context) -> Self {
        Codel {
            limit: params.limit as usize,
            control: Control::new(params.target, params.interval, params.ce_threshold, context.mtu, params.ecn),
            vars: Vars::default(),
            stats: Stats::default(),
            queue: Queue { packets: Ring::default(), backlog: 0 },
            drop_overlimit: 0,
            now: Time::ZERO,
        }
    }
}

impl<P: Packet + Copy + Default, L: Law> Qdisc<P> for Codel<P, L> {
    type Params = Params;

    #[inline(always)]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        if self.queue.packets.len() >= self.limit {
            // RFC 8289 §5.4: drops at a full buffer do not count towards CoDel's computations.
            self.drop_overlimit += 1;
            return drops.dropped(packet, DropReason::Overlimit);
        }
        packet.set_enqueue_time(now);
        self.queue.backlog += u64::from(packet.bytes());
        self.queue.packets.push(packet);
    }

    #[inline(always)]
    fn admit(&mut self, now: Time, packet: P, may_pass: bool, drops: &mut impl Drops<P>) -> bool {
        let passes = L::CAN_BYPASS && may_pass && self.queue.packets.is_empty();
        if !passes {
            self.enqueue(now, packet, drops);
        }
        passes
    }

    fn requeued(&mut self, is: bool) -> bool {
        self.limit = if is { self.limit - 1 } else { self.limit + 1 };
        self.queue.packets.len() <= self.limit
    }

    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        let mut packet = P::default();
        self.dequeue_into(now, &mut packet, drops).then_some(packet)
    }

    #[inline(always)]
    fn dequeue_into(&mut self, now: Time, packet: &mut P, drops: &mut impl Drops<P>) -> bool {
        self.now = now;
        self.vars.dequeue(now, packet, &self.control, &mut self.stats, &mut self.queue, drops)
    }

    /// `codel_change`: packets above the limit are dropped from the head, without CoDel's law.
    fn change(&mut self, _now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        self.limit = params.limit as usize;
        self.control.change(params.target, params.interval, params.ce_threshold, params.ecn);
        let mut packet = P::default();
        while self.queue.packets.len() > self.limit && self.queue.pop(&mut packet) {
            drops.dropped(packet, DropReason::Overlimit);
        }
        Ok(())
    }

    fn packets(&self) -> usize {
        self.queue.packets.len()
    }

    fn backlog(&self) -> u64 {
        self.queue.backlog
    }

    fn is_full(&self, _: u32) -> bool {
        self.queue.packets.len() >= self.limit
    }

    fn stats(&self) -> super::Stats {
        let due = L::micros(L::since(self.vars.drop_next, L::tick(self.now.0)));
        alloc::vec![
            ("count", u64::from(self.vars.count).into()),
            ("lastcount", u64::from(self.vars.lastcount).into()),
            ("ldelay", L::micros(self.vars.ldelay).into()),
            ("dropping", self.vars.dropping.into()),
            ("drop_next", if self.vars.dropping { due } else { 0 }.into()),
            ("maxpacket", u64::from(self.stats.maxpacket).into()),
            ("ecn_mark", self.stats.ecn_mark.into()),
            ("ce_mark", self.stats.ce_mark.into()),
            ("drop_overlimit", self.drop_overlimit.into()),
        ]
    }
}
