//! Integer units: nanoseconds, bits per second, bytes. The time is never kept in a floating-point number.
//!
//! ```
//! use sojourn_core::units::{Rate, Span, Time};
//!
//! let uplink = Rate(1_000_000);
//! assert_eq!(uplink.serialise(1500), Span::from_millis(12));
//! assert_eq!(uplink.bytes_in(Span::from_secs(1)), 125_000);
//! assert_eq!((Time::ZERO + Span::from_millis(30)).since(Time(10_000_000)), Span::from_millis(20));
//! ```

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// A moment: nanoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Time(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Span(pub u64);

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rate(pub u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than everything: "no such event".
    pub const NEVER: Time = Time(u64::MAX);

    /// The span from `earlier` to `self`; zero if `earlier` is not earlier.
    #[inline]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the start, for display and for formulas that need a float.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than everything.
    pub const MAX: Span = Span(u64::MAX);

    /// A span of `n` microseconds.
    pub const fn from_micros(n: u64) -> Span {
        Span(n * 1_000)
    }

    /// A span of `n` milliseconds.
    pub const fn from_millis(n: u64) -> Span {
        Span(n * 1_000_000)
    }

    /// A span of `n` seconds.
    pub const fn from_secs(n: u64) -> Span {
        Span(n * 1_000_000_000)
    }

    /// The span in seconds, for display and for formulas that need a float.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The span in milliseconds, for display.
    #[inline]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 * 1e-6
    }
}

impl Rate {
    /// The time that `bytes` occupy the link: ceil(bytes · 8·10⁹ / rate) nanoseconds. The rate must not be zero.
    #[inline]
    pub const fn serialise(self, bytes: u32) -> Span {
        Span((bytes as u64 * 8_000_000_000).div_ceil(self.0))
    }

    /// Returns the new end of a transmission that was to end at `end` at this rate, if the rate becomes `new` now. The
    /// new rate must not be zero.
    pub fn stretched(self, now: Time, end: Time, new: Rate) -> Time {
        let bits_left = u128::from(end.since(now).0) * u128::from(self.0);
        now + Span(bits_left.div_ceil(u128::from(new.0)) as u64)
    }

    /// The whole bytes that fit into `span` at this rate.
    #[inline]
    pub const fn bytes_in(self, span: Span) -> u64 {
        (span.0 as u128 * self.0 as u128 / 8_000_000_000) as u64
    }
}

impl Add<Span> for Time {
    type Output = Time;
    /// The sum must not exceed [`Time::NEVER`].
    #[inline]
    fn add(self, span: Span) -> Time {
        Time(self.0 + span.0)
    }
}

impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    /// Saturates at zero.
    #[inline]
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    #[inline]
    fn mul(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

impl fmt::Display for Span {
    /// As `tc` accepts it, in the largest unit that divides: `5ms`, `100us`, `2s`, `17ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n % 1_000_000_000 == 0 => write!(f, "{}s", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => write!(f, "{}ms", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{}us", n / 1_000),
            n => write!(f, "{n}ns"),
        }
    }
}

impl fmt::Display for Rate {
    /// As `tc` accepts it, in the largest unit that divides: `10mbit`, `1500kbit`, `7bit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n % 1_000_000_000 == 0 => write!(f, "{}gbit", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => write!(f, "{}mbit", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{}kbit", n / 1_000),
            n => write!(f, "{n}bit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_packet_occupies_the_link_for_the_rounded_up_time() {
        assert_eq!(Rate(100_000_000).serialise(1500), Span(120_000));
        assert_eq!(Rate(3_000_000_000).serialise(1), Span(3)); // 2.67 ns
        assert_eq!(Rate(1_000_000).bytes_in(Span::from_millis(12)), 1500);
    }

    #[test]
    fn units_print_as_tc_accepts_them() {
        assert_eq!(Span::from_millis(5).to_string(), "5ms");
        assert_eq!(Span(1_500_000).to_string(), "1500us");
        assert_eq!(Rate(1_500_000).to_string(), "1500kbit");
    }

    #[test]
    fn a_span_before_its_start_is_zero() {
        assert_eq!(Time(5).since(Time(7)), Span::ZERO);
        assert_eq!(Time(5) + Span(2), Time(7));
    }
}
