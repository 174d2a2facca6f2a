//! Functions of the shapers tbf and htb: how Linux turns lengths into time (`psched_ratecfg`, `psched_l2t_ns`), how `tc` rounds
//! sizes, and which disciplines may be below a shaper.

use super::param::{Nested, choice};
use super::{Child, Qdisc};
use crate::packet::Packet;
use crate::units::Rate;
use alloc::boxed::Box;

choice! {
    /// How a link frames packets (`linklayer`).
    LinkLayer {
        /// Ethernet: a packet takes its length.
        Ethernet = "ethernet",
        /// ATM: cells of 53 bytes that carry 48 bytes each.
        Atm = "atm",
    }
}

impl LinkLayer {
    /// Returns the bytes that a packet of `bytes` bytes takes on the link. ATM fills its last cell (AAL5).
    #[inline]
    pub fn bytes(self, bytes: u64) -> u64 {
        match self {
            LinkLayer::Ethernet => bytes,
            LinkLayer::Atm => bytes.div_ceil(48) * 53,
        }
    }
}

/// A rate and a framing. The rate is stored as Linux's multiplier: a byte takes `mult` / 2^`shift` ns.
#[derive(Clone, Copy, Debug)]
pub struct RateConfig {
    mult: u64,
    shift: u32,
    overhead: u32,
    mpu: u32,
    linklayer: LinkLayer,
}

impl RateConfig {
    /// Prepares the conversion from bytes to time. On the link, a packet takes `overhead` bytes in addition to its
    /// length, and at least `mpu` bytes. At a rate below one byte per second, a byte takes one ns, as in Linux.
    pub fn new(rate: Rate, overhead: u32, mpu: u32, linklayer: LinkLayer) -> RateConfig {
        let (mut mult, mut shift, mut factor) = (1, 0, 1_000_000_000u64);
        if rate.0 >= 8 {
            // Find the largest multiplier of 32 bits. Stop earlier if the dividend cannot grow any more.
            loop {
                mult = u64::from((factor / bytes_per_second(rate)) as u32);
                if mult & 1 << 31 != 0 || factor & 1 << 63 != 0 {
                    break;
                }
                factor <<= 1;
                shift += 1;
            }
        }
        RateConfig { mult, shift, overhead, mpu, linklayer }
    }

    /// The time that `bytes` bytes take, in ns.
    #[inline]
    pub fn l2t_ns(&self, bytes: u32) -> i64 {
        let bytes = u64::from(bytes.saturating_add(self.overhead).max(self.mpu));
        let bytes = self.linklayer.bytes(bytes);
        ((bytes.wrapping_mul(self.mult)) >> self.shift) as i64
    }
}

/// The greatest rate, in bit/s: 10 Gbit/s.
pub const MAX_RATE: u64 = 10_000_000_000;

/// Refuses a child in which packets cannot wait (noqueue).
pub fn check_child(child: Option<&impl Nested>) -> Result<(), (&'static str, &'static str)> {
    match child {
        Some(child) if !child.can_wait() => Err(("child", "noqueue can't wait")),
        _ => Ok(()),
    }
}

/// Returns the counters of a discipline below a shaper. `kept_from` is the number of packets that the shaper dropped
/// before they reached the child. `held` is the size in bytes of a packet that the shaper has taken from the child and
/// not yet sent, if there is one.
pub fn counted<P: Packet>(child: &impl Qdisc<P>, kept_from: u64, held: Option<u32>) -> Child {
    let (packets, bytes) = (child.packets() as u64, child.backlog());
    Child {
        kept_from,
        overlimits: child.overlimits(),
        queued: (packets + u64::from(held.is_some()), bytes + u64::from(held.unwrap_or(0))),
        stats: child.stats(),
        classes: child.classes(),
        child: child.child().map(Box::new),
    }
}

/// Converts a rate to whole bytes per second, as `tc` sends it to the kernel.
pub fn bytes_per_second(rate: Rate) -> u64 {
    rate.0 / 8
}

/// The time that `tc` sends to the kernel for `bytes` bytes at a rate: in ticks of 64 ns, computed from whole
/// microseconds (`tc_calc_xmittime`).
pub fn xmittime_ticks(rate: Rate, bytes: u32) -> u64 {
    let us = u64::from(bytes) * 1_000_000 / bytes_per_second(rate).max(1);
    (us * 1000 / 64).min(u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_takes_what_the_reciprocal_makes_of_it() {
        let at = |rate, bytes| RateConfig::new(Rate(rate), 0, 0, LinkLayer::Ethernet).l2t_ns(bytes);
        assert_eq!(at(10_000_000, 1250), 1_000_000);
        // 1514 bytes at 1.25e8 B/s are 12 112 ns exactly, at 3 Mbit/s 4 037 333.3.
        assert_eq!((at(1_000_000_000, 1514), at(3_000_000, 1514)), (12_112, 4_037_333));
        assert_eq!(RateConfig::new(Rate(8_000_000), 14, 64, LinkLayer::Ethernet).l2t_ns(40), 64_000);
        assert_eq!(RateConfig::new(Rate(8_000_000), 14, 64, LinkLayer::Ethernet).l2t_ns(100), 114_000);
        // 54 bytes with the overhead, in two cells.
        assert_eq!(RateConfig::new(Rate(8_000_000), 14, 0, LinkLayer::Atm).l2t_ns(40), 106_000);
        assert_eq!(RateConfig::new(Rate(8_000_000), 0, 0, LinkLayer::Atm).l2t_ns(48), 53_000);
    }

    #[test]
    fn tc_rounds_times_down_to_microseconds_and_then_to_ticks_of_64_ns() {
        assert_eq!(xmittime_ticks(Rate(10_000_000), 1600) * 64, 1_280_000);
        assert_eq!(xmittime_ticks(Rate(3_000_000), 1514) * 64, 4_036_992);
    }
}
