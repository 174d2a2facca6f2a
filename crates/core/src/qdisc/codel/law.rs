//! The differences between the variants of CoDel: the clock, its comparisons, the square root, and how dropping begins again.

use core::fmt::Debug;

/// A variant of CoDel: the clock, its comparisons, the square root, and how dropping begins again.
pub trait Law: Copy + Debug + 'static {
    /// A time or a duration on the law's clock. The default is 0, which means "not set".
    type Tick: Copy + Default + Eq + Debug;
    /// How the law stores 1/sqrt(`count`): Linux stores a fraction of 2^16, the other laws store sqrt(`count`).
    type Root: Copy + Default + Debug;
    /// The number of drops in one dequeue after which CoDel gives up its schedule and continues from the present.
    const MOST_DROPS: u32;
    /// The initial `drop_next` of a queue. In Linux it is 0, which on Linux's clock is the time of boot; the constant
    /// of Linux's laws corresponds to a boot 70.4 s before time zero. Within seconds after boot, a queue that has never
    /// dropped would look as if it had just stopped dropping. This matters in fq_codel, where overflows raise `count`.
    const LONG_AGO: Self::Tick;
    /// Whether a drop is counted only when the next packet is found above target too.
    const COUNTS_LATE: bool = false;
    /// True for Linux's laws: a packet bypasses an empty discipline (`TCQ_F_CAN_BYPASS`).
    const CAN_BYPASS: bool = false;

    /// Converts nanoseconds to the law's clock.
    fn tick(ns: u64) -> Self::Tick;
    /// Converts a duration, which may be negative, to microseconds for statistics.
    fn micros(span: Self::Tick) -> i64;
    /// `now` - `then`.
    fn since(now: Self::Tick, then: Self::Tick) -> Self::Tick;
    /// `moment` + `span`.
    fn plus(moment: Self::Tick, span: Self::Tick) -> Self::Tick;
    /// Returns whether `a` is later (longer) than `b`.
    fn after(a: Self::Tick, b: Self::Tick) -> bool;
    /// Returns whether the delay has been above target long enough to drop: `now` has reached `first_above_time`.
    fn above_for_long(now: Self::Tick, first_above_time: Self::Tick) -> bool;
    /// Returns whether dropping starts again soon enough after `drop_next` to resume at its earlier rate.
    fn resumes(now: Self::Tick, drop_next: Self::Tick, interval: Self::Tick) -> bool;
    /// The root for `count` = 1.
    fn first_root() -> Self::Root;
    /// The root after `count` changed.
    fn next_root(root: Self::Root, count: u32) -> Self::Root;
    /// `moment` + `interval` / sqrt(`count`).
    fn control_law(moment: Self::Tick, interval: Self::Tick, root: Self::Root) -> Self::Tick;

    /// The backlog in bytes up to which a queue is never bad. It follows from the link's MTU or from the largest packet
    /// seen.
    #[inline(always)]
    fn maxpacket(mtu: u64, _seen: u32) -> u64 {
        mtu
    }
    /// The time at which the first drop is due if a delay that has just risen above target stays above it.
    #[inline(always)]
    fn first_above_time(now: Self::Tick, interval: Self::Tick, _vars: &super::Vars<Self>) -> Self::Tick {
        Self::plus(now, interval)
    }
    /// The `count` with which dropping resumes if it starts again soon after its end. `None`: with 1.
    #[inline]
    fn resumed(count: u32, lastcount: u32) -> Option<u32> {
        // RFC 8289 §5.5: start from the number of drops of the last dropping state.
        let delta = count.wrapping_sub(lastcount);
        (delta > 1).then_some(delta)
    }
}

/// RFC 8289, exactly.
#[derive(Clone, Copy, Debug)]
pub struct Rfc8289;

impl Law for Rfc8289 {
    type Tick = u64;
    type Root = f64;
    const MOST_DROPS: u32 = u32::MAX;
    const LONG_AGO: u64 = 0;

    #[inline]
    fn tick(ns: u64) -> u64 {
        ns
    }
    fn micros(span: u64) -> i64 {
        span as i64 / 1_000
    }
    #[inline]
    fn since(now: u64, then: u64) -> u64 {
        now.wrapping_sub(then)
    }
    #[inline]
    fn plus(moment: u64, span: u64) -> u64 {
        moment.saturating_add(span)
    }
    #[inline]
    fn after(a: u64, b: u64) -> bool {
        a > b
    }
    #[inline]
    fn above_for_long(now: u64, first_above_time: u64) -> bool {
        now >= first_above_time // RFC 8289 §5.6
    }
    fn resumes(now: u64, drop_next: u64, interval: u64) -> bool {
        now < drop_next.saturating_add(interval.saturating_mul(16)) // RFC 8289 §5.5
    }
    fn first_root() -> f64 {
        1.0
    }
    fn next_root(_: f64, count: u32) -> f64 {
        libm::sqrt(f64::from(count))
    }
    fn control_law(moment: u64, interval: u64, root: f64) -> u64 {
        moment.saturating_add(libm::round(interval as f64 / root) as u64) // RFC 8289 §5.6
    }
}

/// Linux 6.1 to 6.12.
#[derive(Clone, Copy, Debug)]
pub struct Linux;

impl Linux {
    /// interval / sqrt(count), with the root as a fraction of 2^16.
    fn step(interval: u32, root: u16) -> u32 {
        ((u64::from(interval) * (u64::from(root) << 16)) >> 32) as u32
    }
}

impl Law for Linux {
    /// Units of 1.024 µs; the clock wraps around after 73 minutes.
    type Tick = u32;
    /// 1/sqrt(count) as a fraction of 2^16 (`rec_inv_sqrt`).
    type Root = u16;
    const MOST_DROPS: u32 = u32::MAX;
    const LONG_AGO: u32 = 0u32.wrapping_sub((70_400_000_000u64 >> 10) as u32);
    const CAN_BYPASS: bool = true;

    #[inline]
    fn tick(ns: u64) -> u32 {
        (ns >> 10) as u32
    }
    fn micros(span: u32) -> i64 {
        (i64::from(span as i32) << 10) / 1_000
    }
    #[inline]
    fn since(now: u32, then: u32) -> u32 {
        now.wrapping_sub(then)
    }
    #[inline]
    fn plus(moment: u32, span: u32) -> u32 {
        moment.wrapping_add(span)
    }
    #[inline]
    fn after(a: u32, b: u32) -> bool {
        (a.wrapping_sub(b) as i32) > 0
    }
    #[inline]
    fn above_for_long(now: u32, first_above_time: u32) -> bool {
        Self::after(now, first_above_time) // strictly, unlike the RFC
    }
    fn resumes(now: u32, drop_next: u32, interval: u32) -> bool {
        Self::after(interval.wrapping_mul(16), now.wrapping_sub(drop_next))
    }
    fn first_root() -> u16 {
        u16::MAX
    }
    fn next_root(root: u16, count: u32) -> u16 {
        // One step of Newton's method for 1/sqrt(count): x (3 - count x²) / 2, in fractions of 2^32.
        let x = u64::from(root) << 16;
        let square = (x * x) >> 32;
        let three_minus = (3u64 << 32).wrapping_sub(u64::from(count).wrapping_mul(square));
        (((three_minus >> 2).wrapping_mul(x) >> 31) >> 16) as u16
    }
    fn control_law(moment: u32, interval: u32, root: u16) -> u32 {
        moment.wrapping_add(Self::step(interval, root))
    }
}

/// Linux 7.x.
#[derive(Clone, Copy, Debug)]
pub struct Linux7;

impl Law for Linux7 {
    type Tick = u32;
    type Root = u16;
    const MOST_DROPS: u32 = 256;
    const LONG_AGO: u32 = Linux::LONG_AGO;
    const CAN_BYPASS: bool = true;

    #[inline]
    fn tick(ns: u64) -> u32 {
        Linux::tick(ns)
    }
    fn micros(span: u32) -> i64 {
        Linux::micros(span)
    }
    #[inline]
    fn since(now: u32, then: u32) -> u32 {
        Linux::since(now, then)
    }
    #[inline]
    fn plus(moment: u32, span: u32) -> u32 {
        Linux::plus(moment, span)
    }
    #[inline]
    fn after(a: u32, b: u32) -> bool {
        Linux::after(a, b)
    }
    #[inline]
    fn above_for_long(now: u32, first_above_time: u32) -> bool {
        Linux::above_for_long(now, first_above_time)
    }
    fn resumes(now: u32, drop_next: u32, interval: u32) -> bool {
        Linux::resumes(now, drop_next, interval)
    }
    fn first_root() -> u16 {
        Linux::first_root()
    }
    fn next_root(root: u16, count: u32) -> u16 {
        Linux::next_root(root, count)
    }
    fn control_law(moment: u32, interval: u32, root: u16) -> u32 {
        moment.wrapping_add(Linux::step(interval, root).max(1))
    }
}

/// The module for ns-2 by the authors of CoDel. Without `CODEL` it is the earlier version in their `sfqcodel`.
#[derive(Clone, Copy, Debug)]
pub struct Ns2<const CODEL: bool>;

impl<const CODEL: bool> Law for Ns2<CODEL> {
    type Tick = u64;
    type Root = f64;
    const MOST_DROPS: u32 = u32::MAX;
    const LONG_AGO: u64 = 0;
    const COUNTS_LATE: bool = true;

    #[inline]
    fn tick(ns: u64) -> u64 {
        ns
    }
    fn micros(span: u64) -> i64 {
        Rfc8289::micros(span)
    }
    #[inline]
    fn since(now: u64, then: u64) -> u64 {
        Rfc8289::since(now, then)
    }
    #[inline]
    fn plus(moment: u64, span: u64) -> u64 {
        Rfc8289::plus(moment, span)
    }
    #[inline]
    fn after(a: u64, b: u64) -> bool {
        a > b
    }
    #[inline]
    fn above_for_long(now: u64, first_above_time: u64) -> bool {
        Rfc8289::above_for_long(now, first_above_time)
    }
    fn resumes(now: u64, drop_next: u64, interval: u64) -> bool {
        now < drop_next.saturating_add(interval.saturating_mul(8))
    }
    fn first_root() -> f64 {
        1.0
    }
    fn next_root(root: f64, count: u32) -> f64 {
        Rfc8289::next_root(root, count)
    }
    fn control_law(moment: u64, interval: u64, root: f64) -> u64 {
        Rfc8289::control_law(moment, interval, root)
    }
    #[inline]
    fn maxpacket(_mtu: u64, seen: u32) -> u64 {
        u64::from(seen.max(256))
    }
    #[inline]
    fn first_above_time(now: u64, interval: u64, vars: &super::Vars<Self>) -> u64 {
        // Soon after the last dropping state, a shorter time above target is enough.
        if CODEL && vars.count > 1 && Self::resumes(now, vars.drop_next, interval) {
            Self::control_law(now, interval, vars.rec_inv_sqrt)
        } else {
            now.saturating_add(interval)
        }
    }
    fn resumed(count: u32, _lastcount: u32) -> Option<u32> {
        match count {
            0..=2 => None,
            129.. if CODEL => Some((0.9844 * f64::from(count)) as u32), // a high drop rate decays faster
            _ => Some(count - 2),
        }
    }
}
