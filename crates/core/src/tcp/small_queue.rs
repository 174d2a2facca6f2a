//! TCP small queues: a bound on the data of a connection that waits in its own host.
//!
//! Facts: `tcp_small_queue_check` and `tcp_wfree` in tcp_output.c of Linux 7.3. A sender stops when more than a millisecond's worth
//! of its pacing rate, and at least two packets, wait in its device; it tries again at each departure.
//!
//! Deviations: the check is made for each segment, not for each burst. A departure is known when it happens, while a device reports
//! several at once. Retransmissions have the same bound as new segments (Linux: twice the bound).

use crate::units::Time;
use alloc::collections::VecDeque;

/// `sk_pacing_shift`.
const PACING_SHIFT: u32 = 10;
/// The memory in bytes that an skb of the send queue takes in addition to its payload.
const OVERHEAD: u32 = 1280;

/// The segments of a connection that wait in its host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SmallQueue {
    /// `tcp_limit_output_bytes`.
    limit: u32,
    mss: u32,
    /// The departure time of each waiting segment, and the memory that it holds until then.
    waiting: VecDeque<(Time, u32)>,
    sk_wmem_alloc: u32,
    /// The departure at which a stopped sender tries again; [`Time::NEVER`] if it is not stopped.
    wake: Time,
}

impl SmallQueue {
    pub fn new(limit: u32, mss: u32) -> SmallQueue {
        SmallQueue { limit, mss, waiting: VecDeque::new(), sk_wmem_alloc: 0, wake: Time::NEVER }
    }

    /// Returns whether another segment may be sent. `rate` is the pacing rate in bytes a second. `few`: at most one segment is
    /// outstanding.
    pub fn admits(&mut self, now: Time, rate: Option<u64>, few: bool) -> bool {
        while let Some(&(_, truesize)) = self.waiting.front().filter(|first| first.0 <= now) {
            self.sk_wmem_alloc -= truesize;
            self.waiting.pop_front();
        }
        let least = u64::from(2 * (self.mss + OVERHEAD));
        let limit = rate.map_or(u64::MAX, |rate| (rate >> PACING_SHIFT).max(least)).min(u64::from(self.limit));
        let admits = few || u64::from(self.sk_wmem_alloc) <= limit;
        self.wake = self.waiting.front().filter(|_| !admits).map_or(Time::NEVER, |first| first.0);
        admits
    }

    /// A segment was sent. It leaves the host at `departure`.
    pub fn sent(&mut self, departure: Time, payload: u32) {
        self.sk_wmem_alloc += payload + OVERHEAD;
        self.waiting.push_back((departure, payload + OVERHEAD));
    }

    /// When a stopped sender tries again; [`Time::NEVER`] if it is not stopped.
    pub fn wake(&self) -> Time {
        self.wake
    }

    /// The sender tries again.
    pub fn woken(&mut self) {
        self.wake = Time::NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of segments of 1448 bytes that are sent at once. The host sends one each 100 µs.
    fn at_once(limit: u32, rate: Option<u64>) -> u32 {
        let mut queue = SmallQueue::new(limit, 1448);
        let mut sent = 0;
        while sent < 1000 && queue.admits(Time::ZERO, rate, false) {
            sent += 1;
            queue.sent(Time(u64::from(sent) * 100_000), 1448);
        }
        sent
    }

    #[test]
    fn a_millisecond_of_the_pacing_rate_waits_and_at_least_two_packets() {
        // 2^-10 s of 100 Mbyte/s are 97656 bytes: 36 packets of 2728 are more.
        assert_eq!(at_once(4 << 20, Some(100_000_000)), 36);
        assert_eq!(at_once(4 << 20, Some(1000)), 3);
        assert_eq!(at_once(20_000, Some(100_000_000)), 8, "tcp_limit_output_bytes");
        assert_eq!(at_once(20_000, None), 8, "before there is an RTT");
    }

    #[test]
    fn a_departure_wakes_who_was_stopped_and_makes_room_for_one() {
        let mut queue = SmallQueue::new(4 << 20, 1448);
        (1..4).for_each(|n| queue.sent(Time(n * 100), 1448));
        assert!(!queue.admits(Time(99), Some(1000), false));
        assert_eq!(queue.wake(), Time(100));
        assert!(queue.admits(Time(99), Some(1000), true), "never with one segment outstanding");
        assert!(queue.admits(Time(100), Some(1000), false));
        assert_eq!(queue.wake(), Time::NEVER);
    }
}
