//! Byte queue limits: the number of bytes that a network card's ring must hold so that it never runs dry, and no more.
//!
//! Source: Linux `lib/dynamic_queue_limits.c`, the same from 6.1 to 7.3 (the names are Linux's); T. Herbert, "bql: Byte
//! Queue Limits", 2011.
//! Principle: the ring was starved if it had been filled to its limit and all of that was completed before more came.
//! Then the limit grows by the bytes that were completed beyond it. While the ring is never starved, the smallest
//! excess that it held is recorded, and once per hold time (a second) the limit is reduced by that excess. The last
//! object may exceed the limit, because the limit is checked before an object is added.
//!
//! Deviations: none in the decisions. The detection of stalls (since 6.9, off by default) is left out.

/// The largest limit (`DQL_MAX_LIMIT`).
const MAX_LIMIT: u32 = u32::MAX / 2 - u32::MAX / 16;

/// The limit of one queue, in bytes. Totals wrap around, as the kernel's do.
#[derive(Clone, Debug)]
pub struct Dql {
    limit: u32,
    min_limit: u32,
    max_limit: u32,
    /// Least time between two reductions of the limit, in ticks.
    slack_hold_time: u64,
    /// The limit plus all bytes that were completed so far.
    adj_limit: u32,
    num_queued: u32,
    num_completed: u32,
    last_obj_cnt: u32,
    prev_ovlimit: u32,
    prev_num_queued: u32,
    prev_last_obj_cnt: u32,
    lowest_slack: u32,
    slack_start_time: u64,
}

impl Dql {
    /// Creates an empty queue at this tick. Its limit falls at most once in `slack_hold_time` ticks (a second, for a
    /// card).
    pub fn new(slack_hold_time: u32, jiffies: u64) -> Dql {
        Dql::bounded(slack_hold_time, jiffies, 0, MAX_LIMIT)
    }

    /// Creates an empty queue whose limit stays between a least and a greatest value, as `limit_min` and `limit_max` in
    /// `/sys` set them.
    pub fn bounded(slack_hold_time: u32, jiffies: u64, min_limit: u32, max_limit: u32) -> Dql {
        Dql {
            limit: min_limit,
            min_limit,
            max_limit,
            slack_hold_time: u64::from(slack_hold_time),
            // Linux leaves it at zero until something completes, whatever the least limit is.
            adj_limit: 0,
            num_queued: 0,
            num_completed: 0,
            last_obj_cnt: 0,
            prev_ovlimit: 0,
            prev_num_queued: 0,
            prev_last_obj_cnt: 0,
            lowest_slack: u32::MAX,
            slack_start_time: jiffies,
        }
    }

    /// Bytes that may still be queued; below zero the queue is over its limit.
    #[inline]
    pub fn avail(&self) -> i32 {
        self.adj_limit.wrapping_sub(self.num_queued) as i32
    }

    /// The limit now.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Bytes queued and not completed.
    pub fn inflight(&self) -> u32 {
        self.num_queued.wrapping_sub(self.num_completed)
    }

    /// Counts an object of `bytes` bytes that was queued (`dql_queued`).
    #[inline]
    pub fn queued(&mut self, bytes: u32) {
        self.last_obj_cnt = bytes;
        self.num_queued = self.num_queued.wrapping_add(bytes);
    }

    /// Counts `bytes` bytes that were completed at this tick (`dql_completed`). There must be as many bytes in flight.
    pub fn completed(&mut self, bytes: u32, jiffies: u64) {
        let completed = self.num_completed.wrapping_add(bytes);
        let mut limit = self.limit;
        let mut ovlimit = excess(self.inflight(), limit);
        let inprogress = self.num_queued.wrapping_sub(completed);
        let prev_inprogress = self.prev_num_queued.wrapping_sub(self.num_completed);
        let all_prev_completed = completed.wrapping_sub(self.prev_num_queued) as i32 >= 0;
        if (ovlimit > 0 && inprogress == 0) || (self.prev_ovlimit > 0 && all_prev_completed) {
            // Starved: everything beyond the limit was completed, perhaps before the sender could add more.
            limit = limit.wrapping_add(excess(completed, self.prev_num_queued)).wrapping_add(self.prev_ovlimit);
            self.restart(jiffies);
        } else if inprogress > 0 && prev_inprogress > 0 && !all_prev_completed {
            // Always busy since the last completion: find the part of the limit that was not needed.
            self.lowest_slack = self.lowest_slack.min(self.slack(limit, bytes));
            if jiffies.wrapping_sub(self.slack_start_time.wrapping_add(self.slack_hold_time)) as i64 > 0 {
                limit = excess(limit, self.lowest_slack);
                self.restart(jiffies);
            }
        }
        limit = limit.max(self.min_limit).min(self.max_limit);
        if limit != self.limit {
            self.limit = limit;
            ovlimit = 0;
        }
        self.adj_limit = limit.wrapping_add(completed);
        self.prev_ovlimit = ovlimit;
        self.prev_last_obj_cnt = self.last_obj_cnt;
        self.num_completed = completed;
        self.prev_num_queued = self.num_queued;
    }

    /// Returns how many bytes of the limit were not needed: the part beyond twice the bytes of this completion, or the
    /// part of the last object that was within the limit, whichever is greater.
    fn slack(&self, limit: u32, bytes: u32) -> u32 {
        let of_limit = excess(limit.wrapping_add(self.prev_ovlimit), bytes.wrapping_mul(2));
        let of_last = if self.prev_ovlimit > 0 { excess(self.prev_last_obj_cnt, self.prev_ovlimit) } else { 0 };
        of_limit.max(of_last)
    }

    fn restart(&mut self, jiffies: u64) {
        self.slack_start_time = jiffies;
        self.lowest_slack = u32::MAX;
    }
}

/// Returns `a` - `b` for numbers that wrap around; 0 if `a` is not beyond `b` (`POSDIFF`).
fn excess(a: u32, b: u32) -> u32 {
    let difference = a.wrapping_sub(b);
    if difference as i32 > 0 { difference } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u32 = 1514;

    /// Returns the limit after `rounds` completions of `burst` packets each, in a ring that is always full.
    fn settled(burst: u32, rounds: u64) -> u32 {
        let mut dql = Dql::new(250, 0);
        for round in 0..rounds {
            while dql.avail() >= 0 {
                dql.queued(PACKET);
            }
            dql.completed((burst * PACKET).min(dql.inflight()), round);
        }
        dql.limit()
    }

    #[test]
    fn the_limit_starts_at_zero_and_one_object_may_go_beyond_it() {
        let mut dql = Dql::new(250, 0);
        assert_eq!((dql.limit(), dql.avail()), (0, 0));
        dql.queued(PACKET);
        assert_eq!(dql.avail(), -(PACKET as i32));
        dql.completed(PACKET, 0);
        assert_eq!((dql.limit(), dql.inflight()), (PACKET, 0), "starved: it grows by what was completed");
    }

    #[test]
    fn it_settles_at_about_what_completes_at_once() {
        for burst in [1, 4, 20] {
            let limit = settled(burst, 5_000);
            assert!((burst..=2 * burst + 2).contains(&limit.div_ceil(PACKET)), "{burst}: {limit}");
        }
    }

    #[test]
    fn it_falls_only_after_a_hold_time_without_starvation() {
        let mut dql = Dql::new(250, 0);
        let mut step = |bytes: u32, at, limits: &mut alloc::vec::Vec<u32>| {
            while dql.avail() >= 0 {
                dql.queued(PACKET);
            }
            dql.completed(bytes.min(dql.inflight()), at);
            limits.push(dql.limit());
        };
        let mut limits = alloc::vec::Vec::new();
        (0..50).for_each(|_| step(20 * PACKET, 0, &mut limits));
        let high = limits[limits.len() - 1];
        limits.clear();
        (1..=250).for_each(|at| step(PACKET, at, &mut limits));
        assert!(limits.iter().all(|&limit| limit >= high), "{limits:?}");
        (251..=253).for_each(|at| step(PACKET, at, &mut limits));
        assert!(limits[limits.len() - 1] < high, "{limits:?}");
    }

    #[test]
    fn the_limit_keeps_its_bounds() {
        let mut dql = Dql::bounded(250, 0, 3_000, 6_000);
        assert_eq!((dql.limit(), dql.avail()), (3_000, 0), "Linux too: no room until something completed");
        for at in 0..2_000 {
            while dql.avail() >= 0 {
                dql.queued(PACKET);
            }
            dql.completed(dql.inflight(), at);
            assert!((3_000..=6_000).contains(&dql.limit()));
        }
        assert_eq!(dql.limit(), 6_000);
    }
}
