//! The access link of a host in closed form: a FIFO that computes departures on arrival.

use crate::ring::Ring;
use crate::units::{Rate, Span, Time};

/// One direction of an access link.
#[derive(Clone, Debug)]
pub struct AccessLink {
    rate: Rate,
    delay: Span,
    limit: usize,
    /// End of transmission of the last accepted packet.
    free: Time,
    /// Start of transmission of each packet that may still be queued.
    starts: Ring<Time>,
}

impl AccessLink {
    /// Creates an idle link. `delay` is the propagation delay, and `limit` that of the queue in packets.
    pub fn new(rate: Rate, delay: Span, limit: usize) -> AccessLink {
        AccessLink { rate, delay, limit, free: Time::ZERO, starts: Ring::default() }
    }

    /// Handles an arrival of `bytes` bytes at `now`. Returns the time at which the packet reaches the far end, or
    /// `None` if the queue is full. A departure precedes an arrival at the same time: a packet whose transmission
    /// starts at `now` is no longer queued.
    #[inline]
    pub fn pass(&mut self, now: Time, bytes: u32) -> Option<Time> {
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
        self.free = start + self.rate.serialise(bytes);
        Some(self.free + self.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_burst_is_spaced_and_what_exceeds_the_limit_is_dropped() {
        let mut link = AccessLink::new(Rate(100_000_000), Span::from_millis(1), 2);
        let arrivals: Vec<_> = (0..4).map(|_| link.pass(Time::ZERO, 1500)).collect();
        let at = |n: u64| Some(Time(1_000_000 + n * 120_000));
        assert_eq!(arrivals, [at(1), at(2), at(3), None]);
        assert_eq!(link.pass(Time(119_999), 1500), None, "two still wait");
        assert_eq!(link.pass(Time(120_000), 1500), at(4), "the second packet starts now");
    }
}
