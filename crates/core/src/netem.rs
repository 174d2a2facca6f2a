//! Impairments after a link, as in Linux's netem: delay with jitter, loss, duplication, reordering, slots.
//!
//! Source: Linux `sch_netem.c` and `tc-netem(8)`; S. Hemminger, "Network Emulation with NetEm", 2005; S. Salsano, F.
//! Ludovici and A. Ordine, "Definition of a general and intuitive loss model", 2009. The names are those of netem.
//!
//! A packet may be duplicated, and it may be lost (or marked, with `ecn`). Otherwise it gets a time to send: now, plus
//! the delay, plus a random jitter. Packets leave in the order of these times, so jitter reorders packets that are
//! closer together than the jitter. A packet that is reordered on purpose leaves at once. With slots, a packet that is
//! due waits for the next slot, and a slot lets a limited number of packets or bytes through. A correlated draw is a
//! weighted mean of a new draw and the previous one. As in Linux this makes losses rarer than the configured fraction.
//! It does not smooth jitter, because the draw is taken modulo the size of the jitter table.
//!
//! Deviations: random numbers are ours, so losses agree with the kernel's in distribution only. Without `limit` the
//! queue is unlimited (tc: 1000 packets, which a long delay at a high rate can exceed without notice). `corrupt` is
//! refused: TCP loses a segment with a wrong checksum, so `loss` has the same effect. `rate` is refused: a hop has a
//! rate of its own.

mod distribution;
mod loss;
mod words;

use alloc::collections::{BTreeMap, VecDeque};

pub use distribution::Distribution;
use distribution::{Table, draw};
use loss::{Chain, Correlated};
pub use loss::{Chance, Loss};

use crate::packet::Packet;
use crate::qdisc::{DropReason, Drops};
use crate::rng::Rng;
use crate::units::{Span, Time};

/// The longest delay and jitter: a day.
pub const LONGEST: Span = Span::from_secs(86_400);
/// The greatest jitter that counts (`INT_MAX` nanoseconds).
const MOST_JITTER: u64 = i32::MAX as u64;

/// The impairments that `impair` asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets held at most; `u32::MAX` for any number.
    pub limit: u32,
    /// Delay in addition to the hop's own.
    pub delay: Span,
    /// Deviation of the delay; with the uniform distribution, half of its width.
    pub jitter: Span,
    /// Weight of the previous draw of the jitter in a new draw, in units of 2^-32.
    pub delay_correlation: u32,
    /// Distribution of the jitter.
    pub distribution: Distribution,
    /// The rule by which packets are lost.
    pub loss: Loss,
    /// Mark ECN-capable packets instead of losing them.
    pub ecn: bool,
    /// The chance that a packet is duplicated.
    pub duplicate: Chance,
    /// The chance that a packet is reordered: it leaves at once, in front of the packets that wait.
    pub reorder: Chance,
    /// A packet may be reordered, with the chance `reorder`, only if at least `gap` - 1 packets have come since the
    /// last reordered one. With 0, no packet is reordered.
    pub gap: u32,
    /// The slots in which packets may leave; without slots they may leave at any time.
    pub slot: Option<Slot>,
}

/// Moments at which packets may leave, such as those of Wi-Fi's aggregates or a cable modem's grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Time until the next slot.
    pub wait: Wait,
    /// Packets that may leave in one slot; `i32::MAX` for any number.
    pub packets: i32,
    /// Bytes that may leave in one slot; `i32::MAX` for any number.
    pub bytes: i32,
}

/// The distribution of the time until the next slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Uniform: at least the first span, and less than the second.
    Between(Span, Span),
    /// Drawn from this distribution, with this mean and this deviation.
    Drawn(Distribution, Span, Span),
}

impl Params {
    /// Returns whether packets may leave in another order than that in which they came.
    pub fn reorders(&self) -> bool {
        self.jitter > Span::ZERO || (self.delay > Span::ZERO && self.gap > 0)
    }
}

impl Default for Params {
    /// No impairments.
    fn default() -> Self {
        Params {
            limit: u32::MAX,
            delay: Span::ZERO,
            jitter: Span::ZERO,
            delay_correlation: 0,
            distribution: Distribution::Uniform,
            loss: Loss::Random(Chance::NEVER),
            ecn: false,
            duplicate: Chance::NEVER,
            reorder: Chance::NEVER,
            gap: 0,
            slot: None,
        }
    }
}

/// Waiting packets, ordered by their time to send in nanoseconds and, at equal times, by their arrival.
type Queue<P> = BTreeMap<(i64, u64), P>;

/// The impairments of one link in operation.
#[derive(Clone, Debug)]
pub struct Netem<P> {
    params: Params,
    rng: Rng,
    chain: Chain,
    loss: Correlated,
    duplicate: Correlated,
    reorder: Correlated,
    jitter: Correlated,
    delay_table: Table,
    slot_table: Table,
    /// Packets that leave at once (reordered). The packet that arrived last is at the front.
    at_once: VecDeque<P>,
    queue: Queue<P>,
    arrivals: u64,
    /// Packets since the last reordered one.
    counter: u32,
    /// The start of the current or next slot, and how many packets and bytes may still leave in it.
    slot: Option<(Time, i32, i32)>,
}

impl<P: Packet + Copy> Netem<P> {
    /// Creates the impairments at time zero, without packets. `seed` determines the random numbers.
    pub fn new(params: &Params, seed: u64) -> Netem<P> {
        let mut rng = Rng::stream(seed, "netem");
        let table = |distribution: Distribution, used: bool| if used { distribution.table() } else { Table::default() };
        let slot_table = match params.slot.map(|slot| slot.wait) {
            Some(Wait::Drawn(distribution, ..)) => distribution.table(),
            _ => Table::default(),
        };
        let random = if let Loss::Random(chance) = params.loss { chance } else { Chance::NEVER };
        Netem {
            chain: Chain::new(),
            loss: Correlated::new(random.correlation, &mut rng),
            duplicate: Correlated::new(params.duplicate.correlation, &mut rng),
            reorder: Correlated::new(params.reorder.correlation, &mut rng),
            jitter: Correlated::new(params.delay_correlation, &mut rng),
            delay_table: table(params.distribution, params.jitter > Span::ZERO),
            slot_table,
            at_once: VecDeque::new(),
            queue: BTreeMap::new(),
            arrivals: 0,
            counter: 0,
            slot: params.slot.map(|slot| (Time::ZERO, slot.packets, slot.bytes)),
            params: params.clone(),
            rng,
        }
    }

    /// Handles an arrival: the packet is kept or lost. Returns whether it was duplicated; the copy may have been lost.
    pub fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) -> bool {
        let twice = self.duplicate.happens(self.params.duplicate.share, &mut self.rng);
        let lost = self.is_lost(&mut packet);
        if lost && !twice {
            drops.dropped(packet, DropReason::Loss);
            return false;
        }
        // If the packet is both duplicated and lost, one of the two copies passes.
        let twice = twice && !lost;
        if self.is_full() {
            drops.dropped(packet, DropReason::Loss);
            return false;
        }
        let twice = twice && packet.doubles();
        if twice {
            self.enqueue_copy(now, packet, drops);
        }
        self.place(now, packet);
        twice
    }

    /// Returns the next packet that may leave now. After each arrival and at [`Netem::next_event`] the caller repeats
    /// this until there is none.
    pub fn dequeue(&mut self, now: Time) -> Option<P> {
        if let Some(packet) = self.at_once.pop_front() {
            return Some(packet);
        }
        let due = self.first()?;
        if let Some((next, ..)) = self.slot
            && (next.0 as i64) < due
        {
            self.next_slot(now);
        }
        let open = self.slot.is_none_or(|(next, ..)| next <= now);
        if due > now.0 as i64 || !open {
            return None;
        }
        let (_, packet) = self.queue.pop_first()?;
        if let Some((_, packets, bytes)) = &mut self.slot {
            *packets -= 1;
            *bytes -= packet.bytes() as i32;
            if *packets <= 0 || *bytes <= 0 {
                self.next_slot(now);
            }
        }
        Some(packet)
    }

    /// The time at which to dequeue again, after a dequeue that returned no packet.
    pub fn next_event(&self) -> Time {
        let Some(due) = self.first() else { return Time::NEVER };
        Time(due.max(0) as u64).max(self.slot.map_or(Time::ZERO, |(next, ..)| next))
    }

    /// Packets held.
    pub fn packets(&self) -> usize {
        self.at_once.len() + self.queue.len()
    }

    fn is_full(&self) -> bool {
        self.packets() >= self.params.limit as usize
    }

    /// The time to send of the first packet in the queue, in nanoseconds.
    fn first(&self) -> Option<i64> {
        self.queue.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Returns whether the packet is lost; with `ecn` it is marked instead if it can be.
    fn is_lost(&mut self, packet: &mut P) -> bool {
        let lost = match &self.params.loss {
            Loss::Random(chance) => self.loss.happens(chance.share, &mut self.rng),
            other => self.chain.is_lost(other, &mut self.rng),
        };
        lost && !(self.params.ecn && packet.mark())
    }

    /// Handles a copy like an arrival, but does not duplicate it again.
    fn enqueue_copy(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        if self.is_lost(&mut packet) || self.is_full() {
            drops.dropped(packet, DropReason::Loss);
        } else {
            self.place(now, packet);
        }
    }

    fn place(&mut self, now: Time, packet: P) {
        let Params { gap, reorder, .. } = self.params;
        // The draw is taken only where a packet may be reordered.
        if gap == 0 || self.counter < gap - 1 || !self.reorder.happens_below(reorder.share, &mut self.rng) {
            let (mean, deviation) = (self.params.delay.0 as i64, self.params.jitter.0.min(MOST_JITTER) as i64);
            let delay = match deviation {
                0 => mean,
                _ => draw(mean, deviation, self.jitter.next(&mut self.rng), &self.delay_table),
            };
            self.counter = self.counter.wrapping_add(1);
            self.arrivals += 1;
            self.queue.insert((now.0 as i64 + delay, self.arrivals), packet);
        } else {
            self.counter = 0;
            self.at_once.push_front(packet);
        }
    }

    /// Advances to the next slot.
    fn next_slot(&mut self, now: Time) {
        let Some(slot) = self.params.slot else { return };
        let wait = match slot.wait {
            Wait::Between(least, most) => {
                let share = u128::from(self.rng.next_u32());
                least.0 as i64 + ((u128::from((most - least).0) * share) >> 32) as i64
            }
            Wait::Drawn(_, mean, deviation) => {
                let deviation = deviation.0.min(MOST_JITTER) as i64;
                draw(mean.0 as i64, deviation, self.rng.next_u32(), &self.slot_table)
            }
        };
        // After a negative draw the slot has begun already.
        self.slot = Some((Time(now.0.saturating_add_signed(wait)), slot.packets, slot.bytes));
    }
}

#[cfg(test)]
mod tests;
