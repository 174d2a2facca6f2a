//! A host's own link in closed form: a FIFO whose departures are known on arrival.

use sojourn_core::ring::Ring;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::scenario::Access;

/// One direction of one host's link.
#[derive(Clone, Debug)]
pub struct AccessLink {
    rate: Rate,
    delay: Span,
    limit: usize,
    /// When the last accepted packet will have left.
    free: Time,
    /// When each packet that may still wait starts to be sent.
    starts: Ring<Time>,
}

impl AccessLink {
    /// An idle link.
    pub fn new(access: &Access) -> AccessLink {
        let Access { rate, delay, limit } = *access;
        AccessLink { rate, delay, limit, free: Time::ZERO, starts: Ring::default() }
    }

    /// A packet of `bytes` arrives at `now`: when it reaches the far end, or nothing if the queue is full. A
    /// departure goes before an arrival at the same time: a packet that starts at `now` no longer waits.
    #[inline]
    pub fn pass(&mut self, now: Time, bytes: u16) -> Option<Time> {
        while self.starts.front().is_some_and(|&start| start <= now) {
            self.starts.pop();
        }
        let start = self.free.max(now);
        if self.free > now {
            if self.starts.len() >= self.limit {
                return None;
            }
            self.starts.push(start);
        }
        self.free = start + self.rate.serialise(u32::from(bytes));
        Some(self.free + self.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_spaced_and_what_exceeds_the_limit_is_dropped() {
        let access = Access { rate: Rate(100_000_000), delay: Span::from_millis(1), limit: 2 };
        let mut link = AccessLink::new(&access);
        let arrivals: Vec<_> = (0..4).map(|_| link.pass(Time::ZERO, 1500)).collect();
        let at = |n: u64| Some(Time(1_000_000 + n * 120_000));
        assert_eq!(arrivals, [at(1), at(2), at(3), None]);
        assert_eq!(link.pass(Time(119_999), 1500), None, "two still wait");
        assert_eq!(link.pass(Time(120_000), 1500), at(4), "the second packet starts now");
    }
}
