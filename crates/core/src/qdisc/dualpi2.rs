//! dualpi2: a low-latency queue for scalable senders (L4S) and a classic queue, coupled so that flows of both kinds get
//! equal rates.
//!
//! Source: RFC 9332 (K. De Schepper, B. Briscoe, G. White); Linux's `sch_dualpi2.c` (6.17 and later), whose decisions
//! this follows.
//! Principle: the ECN field sorts packets: ECT(1) and CE go into the L queue, the others into the C queue. Every
//! `tupdate`, a proportional integral controller sets a base probability p' from the greater of the two queues' delays.
//! The C queue drops (or marks) with the square of p', the L queue marks with `coupling_factor` times p'. A classic
//! flow's rate is proportional to 1/sqrt(p) and a scalable flow's to 1/p, so both get the same rate. The L queue also
//! marks packets that waited longer than a shallow threshold. It has priority, but a weighted round keeps the C queue
//! from starving. When the marking probability reaches 100 %, both queues drop.
//!
//! Variants: `linux` has 32-bit fixed point, a step as threshold and random marks, and leaves a queue below two MTUs
//! alone. `rfc9332` (appendix A) has a ramp from `min_th` over `range`, marks spread evenly by `recur()`, and the
//! counters for operators of §2.5.2.
//!
//! Deviations:
//! - There are no filters: only the ECN field sorts, and a packet that is not ECN-capable is never in the L queue.
//!   `split_gso` has no effect, as no packets are aggregated. L4S cannot be switched off (RFC 9332 §2.5.2); use another
//!   discipline instead. With `any_ect` Linux treats ECT(0) in the L queue as ECT(1); RFC 9332 §2.5.1.1 asks for the
//!   squared probability.
//! - A packet's memory is its length plus, in `linux`, a constant for the buffer around it, which the link gives; the
//!   kernel counts the size of each buffer.
//! - Linux sets its timer relative to its last expiry, which is always late; here it is a nanosecond late. It is first
//!   set at time zero. Overdue updates are computed when the next packet arrives or leaves, from the state at the time
//!   of the update.
//! - RFC 9332 leaves the scheduler open: here it is Linux's weighted round, by default with a sixteenth for the C
//!   queue. The RFC's limit of 250 ms at the link's rate uses the rate at the start of the run. `lq.time()` is the
//!   delay of the packet being dequeued, which counts in `lq.len()`. Probabilities are limited to 1 (A.1, line 3,
//!   leaves this out), so that `recur()` does not accumulate more.

mod linux;
mod monitor;
mod params;
mod rfc9332;
#[cfg(test)]
mod tests;

use super::codel::MICROSECOND;
use super::stats::numbers;
use super::{Context, DropReason, Drops, Qdisc, Unchangeable};
use crate::packet::{Ecn, Packet};
use crate::ring::Ring;
use crate::rng::Rng;
use crate::units::{Span, Time};
use linux::Linux;
use monitor::Fate;
pub use params::{Params, StepThresh, Variant};
use rfc9332::Rfc9332;

/// The weighted round robin, which decides the queue that sends next while both queues have packets (the kernel's
/// `c_protection`).
#[derive(Clone, Debug)]
struct Wrr {
    /// Weight of the C queue.
    wc: i32,
    /// Weight of the L queue.
    wl: i32,
    /// Above zero it is the C queue's turn.
    credit: i32,
    /// The credit that is set when both queues are empty.
    init: i32,
}

impl Wrr {
    fn new(wc: i32, wl: i32, mtu: u32) -> Wrr {
        let init = (mtu as i32).wrapping_mul(wc - wl);
        Wrr { wc, wl, credit: init, init }
    }

    /// Returns the change of the credit when a packet of the L queue (`low`) or the C queue is sent while the other
    /// queue also has packets.
    #[inline]
    fn change(&self, low: bool, bytes: u32) -> i32 {
        (if low { self.wc } else { -self.wl }).wrapping_mul(bytes as i32)
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Queued<P> {
    packet: P,
    /// Whether the step threshold may mark the packet.
    apply_step: bool,
}

/// One of the two queues.
#[derive(Clone, Debug)]
struct Queue<P> {
    packets: Ring<Queued<P>>,
    /// Packets that have joined the queue so far.
    packets_in: u64,
}

impl<P: Packet + Copy + Default> Queue<P> {
    fn new() -> Self {
        Queue { packets: Ring::default(), packets_in: 0 }
    }

    /// The arrival time of the packet at the head.
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
    overlimits: u64,
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct DualPi2<P> {
    /// Packets in both queues.
    limit: usize,
    /// Bytes in both queues.
    memory_limit: u64,
    /// Bytes that each packet takes of `memory_limit` in addition to its length.
    skb: u64,
    /// The largest packet, in bytes.
    mtu: u32,
    /// Room in bytes that must be left for any packet to be accepted (RFC 9332: one MTU). `None` in `linux`, where a
    /// packet needs only room for itself.
    spare: Option<u32>,
    any_ect: bool,
    controller: Controller,
    wrr: Wrr,
    l: Queue<P>,
    c: Queue<P>,
    backlog: u64,
    /// The time of the last enqueue, dequeue or change.
    now: Time,
    rng: Rng,
    stats: Stats,
}

/// The default memory limit, in bytes, for a limit of this number of packets (`get_memory_limit`).
fn memory_of(packets: u32, mtu: u32) -> u64 {
    (u64::from(packets) * 2 * u64::from(mtu)).min(u64::from(u32::MAX))
}

impl<P: Packet + Copy + Default> DualPi2<P> {
    /// Creates empty queues in front of a link.
    pub fn new(params: &Params, context: &Context) -> Self {
        let mtu = context.mtu.clamp(1, 1 << 20);
        let packets = params.limit.unwrap_or(10_000);
        let of_packets = memory_of(packets, mtu);
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
            skb: if params.variant == Variant::Linux { u64::from(context.skb) } else { 0 },
            mtu,
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

    /// Bytes of memory in use.
    #[inline]
    fn memory_used(&self) -> u64 {
        self.backlog + self.packets() as u64 * self.skb
    }

    /// Makes the controller's updates that were due by `now`.
    #[inline]
    fn update(&mut self, now: Time) {
        self.now = now;
        let heads = (self.c.head(), self.l.head());
        match &mut self.controller {
            Controller::Linux(linux) => linux.update(now, heads),
            Controller::Rfc9332(rfc) => rfc.update(now, heads),
        }
    }

    /// Returns whether a packet belongs into the L queue. RFC 9332 §2.3: ECT(1) and CE do.
    #[inline]
    fn is_low(&self, ecn: Ecn) -> bool {
        matches!(ecn, Ecn::Ect1 | Ecn::Ce) || (self.any_ect && ecn.is_capable())
    }

    /// Marks the packet if that is its fate. Returns false if it must be dropped.
    #[inline]
    fn signal(&mut self, fate: Fate, packet: &mut P) -> bool {
        if fate == Fate::Mark && packet.mark() {
            self.stats.ecn_mark += 1;
        }
        fate != Fate::Drop
    }

    /// Returns the fate of a packet at its departure, according to the probabilities.
    #[inline]
    fn judge(&mut self, now: Time, low: bool, queued: &Queued<P>) -> Fate {
        let ecn = queued.packet.ecn();
        match &mut self.controller {
            Controller::Linux(linux) if linux.drop_enqueue => Fate::Send,
            Controller::Linux(linux) => linux.judge(low, ecn, self.backlog, &mut self.rng),
            Controller::Rfc9332(rfc) => {
                let waited = now.since(queued.packet.enqueue_time());
                let fate = if low { rfc.judge_l(waited, self.l.packets.len()) } else { rfc.judge_c(ecn) };
                rfc.monitor.leaves(low, queued.packet.bytes(), waited, ecn, fate);
                fate
            }
        }
    }

    /// Takes the packet to send next. Returns it, whether it was in the L queue, and the change of the credit.
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
    type Params = Params;

    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        self.update(now);
        packet.set_enqueue_time(now);
        let (bytes, queued) = (packet.bytes(), self.packets());
        let low = self.is_low(packet.ecn());
        if let Controller::Rfc9332(rfc) = &mut self.controller {
            rfc.monitor.arrived(low);
        }
        if queued >= self.limit {
            self.stats.overlimits += 1;
            return drops.dropped(packet, DropReason::Overlimit);
        }
        if self.is_full(bytes) {
            self.stats.overlimits += 1;
            let reason = if self.spare.is_some() { DropReason::Overlimit } else { DropReason::MemoryLimit };
            return drops.dropped(packet, reason);
        }
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
        self.stats.max_memory_used = self.stats.max_memory_used.max(self.memory_used());
        self.stats.maxq = self.stats.maxq.max(queued as u64);
    }

    #[inline]
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        self.update(now);
        while let Some((mut queued, low, change)) = self.dequeue_packet() {
            let fate = self.judge(now, low, &queued);
            if !self.signal(fate, &mut queued.packet) {
                // A drop does not change which queue's turn it is.
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

    /// `dualpi2_change`: packets above the limits are dropped from the heads, first of the C queue.
    fn change(&mut self, now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        self.update(now);
        let Controller::Linux(linux) = &mut self.controller else { return Err(Unchangeable) };
        linux.change(params);
        self.any_ect = params.any_ect;
        if let Some(packets) = params.limit {
            (self.limit, self.memory_limit) = (packets as usize, memory_of(packets, self.mtu));
        }
        self.memory_limit = params.memlimit.map_or(self.memory_limit, u64::from);
        if let Some(wc) = params.classic_protection {
            self.wrr = Wrr::new(wc as i32, 100 - wc as i32, self.mtu);
        }
        while self.packets() > self.limit || self.memory_used() > self.memory_limit {
            let Some(queued) = self.c.packets.pop().or_else(|| self.l.packets.pop()) else { break };
            self.backlog -= u64::from(queued.packet.bytes());
            drops.dropped(queued.packet, DropReason::Overlimit);
        }
        Ok(())
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
        let room = u64::from(self.spare.unwrap_or(mtu)) + self.skb;
        self.packets() >= self.limit || self.memory_used() + room > self.memory_limit
    }

    /// `prob` is the base probability from 0 to 1, which `tc` computes from the kernel's 32-bit fraction. `credit` is
    /// signed.
    fn stats(&self) -> super::Stats {
        let prob = match &self.controller {
            Controller::Linux(linux) => u64::from(linux.prob),
            Controller::Rfc9332(rfc) => (rfc.p * f64::from(u32::MAX)) as u64,
        };
        let delay = |head: Option<Time>| head.map_or(0, |head| self.now.since(head).0 / MICROSECOND);
        let mut stats = alloc::vec![("prob", (prob as f64 / f64::from(u32::MAX)).into())];
        stats.extend(numbers([
            ("delay-c", delay(self.c.head())),
            ("delay-l", delay(self.l.head())),
            ("pkts-in-c", self.c.packets_in),
            ("pkts-in-l", self.l.packets_in),
            ("maxq", self.stats.maxq),
            ("ecn-mark", self.stats.ecn_mark),
            ("step-mark", self.stats.step_mark),
        ]));
        stats.push(("credit", i64::from(self.wrr.credit).into()));
        stats.extend(numbers([
            ("memory-used", self.memory_used()),
            ("max-memory-used", self.stats.max_memory_used),
            ("memory-limit", self.memory_limit),
        ]));
        if let Controller::Rfc9332(rfc) = &self.controller {
            rfc.monitor.put(self.now, &mut stats);
        }
        stats
    }

    fn overlimits(&self) -> u64 {
        self.stats.overlimits
    }
}
