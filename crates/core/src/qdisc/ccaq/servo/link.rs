//! When the link is idle, as a discipline can see it.
//!
//! A discipline is asked for a packet when the card or the shaper below it has room, and these may still hold packets of
//! it when it is empty. Nobody tells it when they have sent them. It therefore measures how long a byte takes while the
//! link is busy, and computes when everything that it handed down will have been sent. The time from then until the next
//! packet arrives is idle time.

/// The model of the link. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// The time that 1024 bytes take; 0 until it was measured.
    cost: u64,
    /// When everything that was dequeued will have been sent.
    done: u64,
    /// When the present busy run began, and the bytes dequeued in it, except the last packet's.
    run_start: u64,
    run_bytes: u64,
    /// Whether the discipline has had packets since `run_start`.
    busy: bool,
}

impl Link {
    /// The bytes of a run after which the cost is measured.
    const RUN: u64 = 64 << 10;

    /// A packet of `bytes` bytes is dequeued; `more` says whether other packets remain.
    #[inline]
    pub fn dequeued(&mut self, now: u64, bytes: u32, more: bool) {
        if !self.busy {
            (self.run_start, self.run_bytes) = (now, 0);
        } else if self.run_bytes >= Self::RUN {
            self.measure(now);
        }
        self.busy = more;
        self.run_bytes += u64::from(bytes);
        self.done = self.done.max(now) + ((u64::from(bytes) * self.cost) >> 10);
    }

    /// Measures the cost in the run that ends now, and begins another one.
    #[cold]
    fn measure(&mut self, now: u64) {
        let cost = ((now - self.run_start) << 10) / self.run_bytes;
        // A cost that is too high would hide idle time, so a lower one is taken at once.
        self.cost = if self.cost == 0 || cost < self.cost { cost } else { self.cost + (cost - self.cost) / 8 };
        (self.run_start, self.run_bytes) = (now, 0);
    }

    /// A packet arrives at the empty discipline. Returns for how long the link was idle before it.
    #[inline]
    pub fn idle_before(&mut self, now: u64) -> u64 {
        let idle = if self.cost == 0 { 0 } else { now.saturating_sub(self.done) };
        self.done = self.done.max(now);
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dequeues packets of 1024 bytes one microsecond apart until the model has a cost of 1000 ns.
    fn measured() -> (Link, u64) {
        let (mut link, mut now) = (Link::default(), 0);
        for _ in 0..=64 {
            link.dequeued(now, 1024, true);
            now += 1000;
        }
        assert_eq!(link.cost, 1000);
        (link, now)
    }

    #[test]
    fn nothing_is_idle_before_a_run_has_shown_what_a_byte_costs() {
        let mut link = Link::default();
        link.dequeued(0, 1024, false);
        assert_eq!(link.idle_before(1_000_000), 0);
    }

    #[test]
    fn packets_below_the_discipline_are_sent_before_the_link_is_idle() {
        let (mut link, now) = measured();
        // Three packets leave at once: a card takes them and sends them for 3000 ns more.
        let start = link.done.max(now);
        for left in [2, 1, 0] {
            link.dequeued(now, 1024, left > 0);
        }
        assert_eq!(link.done, start + 3000);
        assert_eq!(link.clone().idle_before(start + 2999), 0);
        assert_eq!(link.idle_before(start + 3500), 500);
        assert_eq!(link.idle_before(start + 3700), 200, "idle time is counted once");
    }

    #[test]
    fn a_faster_link_is_believed_at_once_and_a_slower_one_by_and_by() {
        let (mut link, mut now) = measured();
        for _ in 0..64 {
            link.dequeued(now, 1024, true);
            now += 500;
        }
        link.dequeued(now, 1024, true);
        assert!(link.cost < 600, "{}", link.cost);
        let fast = link.cost;
        for _ in 0..64 {
            link.dequeued(now, 1024, true);
            now += 4500;
        }
        link.dequeued(now, 1024, true);
        assert!(link.cost > fast && link.cost < 1500, "{}", link.cost);
    }

    #[test]
    fn a_run_ends_when_the_queue_runs_empty() {
        let mut link = Link::default();
        let mut now = 0;
        for packet in 0..200 {
            // Every tenth packet is the last one, and a pause follows.
            link.dequeued(now, 1024, packet % 10 != 9);
            now += if packet % 10 == 9 { 1_000_000 } else { 1000 };
        }
        assert_eq!(link.cost, 0, "no run has the bytes");
    }
}
