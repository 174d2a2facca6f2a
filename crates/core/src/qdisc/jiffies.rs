//! Linux's coarse clock: jiffies of 4 ms (HZ 250, as in Debian), and timers on them.
//!
//! A timer expires one jiffy later than the time for which it was set, and later still if that time is far ahead
//! ([`crate::wheel`]). A packet that arrives exactly at a tick is handled before the tick.

use crate::units::{Span, Time};
use crate::wheel::slot;

/// One jiffy.
pub(super) const JIFFY: Span = Span::from_millis(4);
/// Jiffies in a second.
pub(super) const HZ: u64 = 1_000_000_000 / JIFFY.0;

/// Converts a span to jiffies, rounded up (`usecs_to_jiffies`).
pub(super) fn jiffies(span: Span) -> u64 {
    span.0.div_ceil(JIFFY.0)
}

/// A timer that a discipline sets at time zero, and again each time it expires.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    /// The time of its next expiry.
    next: Time,
    /// The jiffy of its next expiry.
    due: u64,
    /// The jiffy of its last expiry.
    last: u64,
    /// At an expiry, the timer is set again for this number of jiffies later. `None` means not again.
    every: Option<u64>,
    /// Jiffies that the work of one expiry takes.
    work: u64,
}

impl Timer {
    /// Creates a timer that expires `first` jiffies after time zero, then every `every` jiffies; the work of an expiry
    /// takes a further `work` jiffies.
    pub fn new(first: u64, every: Option<u64>, work: u64) -> Timer {
        let due = slot(0, first);
        Timer { next: tick(due), due, last: 0, every, work }
    }

    /// Creates a timer that expires every `period` jiffies; never if that is 0.
    pub fn repeated(period: u64) -> Timer {
        match period {
            0 => Timer { next: Time::NEVER, due: u64::MAX, last: 0, every: None, work: 0 },
            period => Timer::new(period, Some(period), 0),
        }
    }

    /// As [`Timer::repeated`], but set at `now`.
    pub fn repeated_from(now: Time, period: u64) -> Timer {
        let timer = Timer::repeated(period);
        if period == 0 {
            return timer;
        }
        // The tick of this jiffy is over: the wheel is at the next one.
        let jiffy = now.0 / JIFFY.0;
        let due = slot(jiffy + 1, jiffy + period);
        Timer { next: tick(due), due, last: jiffy, ..timer }
    }

    /// Sets the interval, in jiffies, for which the timer is set again from its next expiry on. `None` means not again.
    pub fn repeat(&mut self, every: Option<u64>) {
        self.every = every;
    }

    /// Returns the number of expiries before `now` since the last call.
    #[inline]
    pub fn passed(&mut self, now: Time) -> u64 {
        if now <= self.next { 0 } else { self.advance(now) }
    }

    /// The time of its next expiry.
    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }

    /// The time of its last expiry.
    pub fn last(&self) -> Time {
        tick(self.last)
    }

    /// Returns whether it will not expire again.
    pub fn is_over(&self) -> bool {
        self.next == Time::NEVER
    }

    #[cold]
    fn advance(&mut self, now: Time) -> u64 {
        let present = (now.0 - 1) / JIFFY.0;
        let mut times = 1;
        (self.last, self.due) = (self.due, self.after(self.due));
        if self.due <= present {
            // From the second expiry on, the steps of a timer that is set again at once are equal.
            let step = self.after(self.due) - self.due;
            let more = (present - self.due) / step + 1;
            self.due += more * step;
            self.last = self.due - step;
            times += more;
        }
        self.next = tick(self.due);
        times
    }

    /// The jiffy of the expiry that follows the one in jiffy `due`.
    fn after(&self, due: u64) -> u64 {
        let end = due + self.work;
        // While the timers of a jiffy expire, the wheel is already at the next jiffy.
        self.every.map_or(u64::MAX, |every| slot(end + 1, end + every))
    }
}

/// The start of a jiffy.
fn tick(jiffy: u64) -> Time {
    jiffy.checked_mul(JIFFY.0).map_or(Time::NEVER, Time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_a_second_after_the_start_and_then_every_15_ms_is_512_ms_and_every_20() {
        let mut timer = Timer::new(HZ / 2, Some(jiffies(Span::from_millis(15))), 0);
        assert_eq!(timer.next(), Time(512_000_000));
        assert_eq!(timer.passed(Time(512_000_000)), 0, "a packet of that moment comes first");
        assert_eq!(timer.passed(Time(512_000_001)), 1);
        assert_eq!(timer.next(), Time(532_000_000));
        assert_eq!(timer.passed(Time(552_000_001)), 2);
        assert_eq!(timer.passed(Time(552_000_001)), 0);
    }

    #[test]
    fn a_timer_that_is_not_set_anew_goes_off_once() {
        let mut timer = Timer::new(HZ / 2, None, 0);
        assert_eq!((timer.passed(Time::NEVER), timer.next(), timer.passed(Time::NEVER)), (1, Time::NEVER, 0));
    }

    proptest! {
        #[test]
        fn counting_at_once_and_one_by_one_agree(every in 1u64..5000, work in 0u64..4, spans in prop::collection::vec(0u64..200_000_000_000, 1..20)) {
            let mut timer = Timer::new(HZ / 2, Some(every), work);
            let (mut now, mut due, mut last, mut slow, mut fast) = (Time::ZERO, 128, 0, 0u64, 0);
            for span in spans {
                now += Span(span);
                while tick(due) < now {
                    (slow, last) = (slow + 1, due);
                    due = slot(due + work + 1, due + work + every);
                }
                fast += timer.passed(now);
                prop_assert_eq!((fast, timer.next(), timer.last()), (slow, tick(due), tick(last)));
            }
        }
    }
}
