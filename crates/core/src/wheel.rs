//! Linux's timer wheel: a timer expires at a tick, and the later it is due, the coarser is its resolution.
//!
//! Facts: `calc_wheel_index` and `calc_index` of Linux 7.3's kernel/time/timer.c, `usecs_to_jiffies`. With 250 Hz, a
//! timer set for less than 252 ms expires up to two ticks of 4 ms late. A timer set for less than two seconds expires
//! at the next multiple of 32 ms, and one set for less than 16 s at the next multiple of 256 ms. The timeouts of many
//! connections therefore coincide.
//!
//! Deviations: ticks are counted from the start of the run. In Linux, a timer that is set again for the same slot keeps
//! its old time.

use crate::units::{Span, Time};

/// LVL_START(1): ticks from which on the next level begins; each further level begins eight times as far away.
const LEVEL: u64 = 63;
/// LVL_CLK_SHIFT: a slot of one level is 2^3 times as long as a slot of the level before.
const SHIFT: u32 = 3;
/// Times below 2^57 ns, four years, have their exact tick.
const BITS: u32 = 57;

/// Returns the tick at which a timer expires that was set for the tick `expires` when the wheel was at the tick
/// `clock`. It is always later than `expires`.
#[inline]
pub(crate) fn slot(clock: u64, expires: u64) -> u64 {
    if expires < clock {
        return clock;
    }
    let mut shift = 0;
    while expires - clock >= LEVEL << shift {
        shift += SHIFT;
    }
    ((expires >> shift) + 1) << shift
}

/// The wheel of one kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wheel {
    /// 2^(64 + `shift`) divided by `tick`, rounded up. The current tick is needed for each segment that arrives, and
    /// with this number it takes a multiplication instead of a division.
    inverse: u64,
    /// Length of a tick in nanoseconds.
    tick: u32,
    shift: u32,
}

impl Wheel {
    /// The wheel of a kernel with `hz` ticks a second, at most a million.
    pub fn new(hz: u32) -> Wheel {
        // Rounded up, so that a span of whole ticks, in µs, is that number of ticks.
        let tick = 1_000_000_000u32.div_ceil(hz.max(1));
        let bits = BITS + u32::BITS - tick.leading_zeros();
        let inverse = (1u128 << bits).div_ceil(u128::from(tick)) as u64;
        Wheel { inverse, tick, shift: bits - u64::BITS }
    }

    /// The number of the last tick up to this time.
    #[inline(always)]
    pub fn tick(&self, at: Time) -> u64 {
        ((u128::from(at.0) * u128::from(self.inverse)) >> u64::BITS) as u64 >> self.shift
    }

    /// The span in ticks, rounded up (`usecs_to_jiffies`).
    pub fn ticks(&self, span: Span) -> u64 {
        span.0.div_ceil(u64::from(self.tick))
    }

    /// The span, rounded down to whole ticks (`nsecs_to_jiffies`).
    pub fn whole(&self, span: Span) -> Span {
        Span(span.0 - span.0 % u64::from(self.tick))
    }

    /// The length of `ticks` ticks.
    pub fn span(&self, ticks: u64) -> Span {
        Span(ticks * u64::from(self.tick))
    }

    /// The time at which a timer expires that was set at the tick `clock` for `ticks` ticks later.
    #[inline(always)]
    pub fn after(&self, clock: u64, ticks: u64) -> Time {
        self.at(slot(clock, clock + ticks))
    }

    /// The time at which this tick begins.
    #[inline(always)]
    pub fn at(&self, tick: u64) -> Time {
        Time(self.span(tick).0)
    }

    /// The time at which a timer expires that was set at the time `set` for the time `at`. It is later than `at`.
    pub fn expiry(&self, set: Time, at: Time) -> Time {
        self.after(self.tick(set), self.ticks(at.since(set)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    #[test]
    fn what_is_far_away_expires_at_a_coarser_tick() {
        for ahead in [0, 1, 5, 37, 62] {
            assert_eq!(slot(1000, 1000 + ahead), 1001 + ahead);
        }
        assert_eq!(slot(1000, 1063), 1064, "63 ahead: up to a multiple of 8");
        assert_eq!(slot(1000, 1064), 1072);
        assert_eq!(slot(0, 125), 128);
        assert_eq!(slot(1000, 1000 + 504), 1536, "up to a multiple of 64");
        assert_eq!(slot(1000, 999), 1000, "what is overdue is next");
    }

    /// The slots of a kernel of 250 Hz.
    #[test]
    fn a_wait_of_some_milliseconds_ends_at_a_tick() {
        let wheel = Wheel::new(250);
        let after = |set: u64, wait: u64| wheel.expiry(ms(set), ms(set + wait)).since(ms(0)).0 / 1_000_000;
        assert_eq!([after(0, 40), after(1, 40), after(3, 41)], [44, 44, 48]);
        assert_eq!([after(0, 248), after(0, 249), after(0, 252)], [252, 256, 256]);
        assert_eq!([after(1000, 300), after(1012, 300), after(1024, 300)], [1312, 1344, 1344]);
        assert_eq!([after(0, 2016), after(0, 16_128)], [2048, 16_384]);
    }

    /// `usecs_to_jiffies`, with 300 Hz too, where a tick is no whole number of ns.
    #[test]
    fn a_span_of_whole_ticks_is_so_many() {
        let ticks = |hz, ms| Wheel::new(hz).ticks(Span::from_millis(ms));
        assert_eq!([ticks(100, 200), ticks(250, 200), ticks(300, 200), ticks(1000, 200)], [20, 50, 60, 200]);
        assert_eq!([ticks(250, 41), ticks(300, 41)], [11, 13]);
        assert_eq!(Wheel::new(250).span(51), Span::from_millis(204));
    }

    proptest! {
        /// The multiplication by the inverse gives the same tick as the division.
        #[test]
        fn ticks_are_counted_exactly(at in 0u64..1 << BITS, n in 0u64..1 << 35, hz in prop::sample::select(&[100u32, 250, 300, 1000][..])) {
            let wheel = Wheel::new(hz);
            let tick = u64::from(wheel.tick);
            for at in [at, n * tick, n * tick + tick - 1, (n * tick).saturating_sub(1)] {
                prop_assert_eq!(wheel.tick(Time(at)), at / tick);
            }
        }

        /// No timer expires early, and none is late by more than a seventh of its wait plus two ticks.
        #[test]
        fn no_timer_is_early(set in 0u64..1 << 40, wait in 0u64..120_000_000_000, hz in prop::sample::select(&[100u32, 250, 1000][..])) {
            let (wheel, at) = (Wheel::new(hz), Time(set + wait));
            let late = wheel.expiry(Time(set), at);
            prop_assert!(late > at || wait == 0);
            prop_assert!(late.since(at).0 <= wait / 7 + 2 * u64::from(wheel.tick), "{late:?} for {at:?}");
        }
    }
}
