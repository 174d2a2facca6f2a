//! Linux's timer wheel: a timer expires at a tick, and the farther away that is when it is set, the coarser.
//!
//! Facts: `calc_wheel_index` and `calc_index` of Linux 7.3's kernel/time/timer.c, `usecs_to_jiffies`. With 250 Hz what is set for
//! less than 252 ms expires up to two ticks of 4 ms late, what is set for less than two seconds at the next multiple of 32 ms, and
//! what for less than 16 s at the next of 256 ms: so timeouts of many connections come together.
//!
//! Deviations: ticks are counted from the start of the run; a timer that is set anew for the same slot stays in its old one in Linux;
//! an RTO is not rounded up to ticks before it is doubled.

use crate::units::{Span, Time};

/// LVL_START(1): so many ticks away the next level begins, and the one behind it eight times as far.
const LEVEL: u64 = 63;
/// LVL_CLK_SHIFT: a slot of a level lasts eight of the level before.
const SHIFT: u32 = 3;

/// The wheel of one kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wheel {
    /// A tick in ns.
    tick: u64,
}

impl Wheel {
    /// Of a kernel with so many ticks a second.
    pub fn new(hz: u32) -> Wheel {
        Wheel { tick: 1_000_000_000 / u64::from(hz.max(1)) }
    }

    /// Two ticks (Linux `TCP_TIMEOUT_MIN`; 7.3 adds 2 ms instead before it rounds).
    #[inline(always)]
    pub fn two_ticks(&self) -> Span {
        Span(2 * self.tick)
    }

    /// The tick after this time: when a timer expires that was set, not long before, so many ticks ahead that it ends here.
    pub fn next_tick(&self, at: Time) -> Time {
        Time((at.0 / self.tick + 1) * self.tick)
    }

    /// Whether this is a tick.
    pub fn is_tick(&self, at: Time) -> bool {
        at.0.is_multiple_of(self.tick)
    }

    /// When a timer expires that was `set` for `at`: later than that.
    pub fn expiry(&self, set: Time, at: Time) -> Time {
        let ticks = at.since(set).0.div_ceil(self.tick);
        let mut shift = 0;
        while ticks >= LEVEL << shift {
            shift += SHIFT;
        }
        let slot = ((set.0 / self.tick + ticks) >> shift) + 1;
        Time((slot << shift) * self.tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    /// The slots of a kernel of 250 Hz.
    #[test]
    fn what_is_far_away_expires_at_a_coarser_tick() {
        let wheel = Wheel::new(250);
        let after = |set: u64, wait: u64| wheel.expiry(ms(set), ms(set + wait)).since(ms(0)).0 / 1_000_000;
        assert_eq!([after(0, 40), after(1, 40), after(3, 41)], [44, 44, 48]);
        assert_eq!([after(0, 248), after(0, 249), after(0, 252)], [252, 256, 256]);
        assert_eq!([after(1000, 300), after(1012, 300), after(1024, 300)], [1312, 1344, 1344]);
        assert_eq!([after(0, 2016), after(0, 16_128)], [2048, 16_384]);
    }

    proptest! {
        /// No timer is early, and none later than a seventh of its wait and two ticks.
        #[test]
        fn no_timer_is_early(set in 0u64..1 << 40, wait in 0u64..120_000_000_000, hz in prop::sample::select(&[100u32, 250, 1000][..])) {
            let (wheel, at) = (Wheel::new(hz), Time(set + wait));
            let late = wheel.expiry(Time(set), at);
            prop_assert!(late > at || wait == 0);
            prop_assert!(late.since(at).0 <= wait / 7 + 2 * wheel.tick, "{late:?} for {at:?}");
        }
    }
}
