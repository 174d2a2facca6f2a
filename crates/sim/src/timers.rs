//! Lazy timers of connections: most deadlines move later before they are reached.

use sojourn_core::cache::Cache;
use sojourn_core::units::Time;

use crate::tournament::Tournament;

/// One time per connection at which its deadline is checked, never later than the deadline. A deadline that moves
/// earlier is re-armed at once, one that moves later when its time comes.
#[derive(Clone, Default)]
pub struct Timers {
    armed: Tournament,
}

impl Timers {
    /// The earliest time; never if there is none.
    #[inline]
    pub fn first(&self) -> Time {
        self.armed.least()
    }

    /// Arms a connection's timer for a deadline earlier than its current time. Returns whether the earliest time
    /// changed.
    #[inline(never)]
    pub fn arm(&mut self, conn: u32, deadline: Time) -> bool {
        let first = self.first();
        self.armed.grow(conn as usize + 1);
        self.armed.set(conn as usize, deadline);
        deadline < first
    }

    /// Returns the connection that is checked first and its time, if there is one. [`Timers::rearm`] must be called
    /// afterwards.
    #[inline]
    pub fn due(&self) -> Option<(Time, u32)> {
        (self.first() < Time::NEVER).then(|| (self.first(), self.armed.first() as u32))
    }

    /// Prefetches the memory that [`Timers::due`] reads.
    pub fn prefetch(&self, cache: &impl Cache) {
        self.armed.prefetch(cache);
    }

    /// Sets a connection's deadline after it was checked.
    pub fn rearm(&mut self, conn: u32, deadline: Time) {
        self.armed.set(conn as usize, deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::rng::Rng;

    #[test]
    fn who_is_due_is_the_first_of_the_earliest_whatever_was_armed_since_it_was_asked_last() {
        let mut rng = Rng::stream(1, "timers");
        let (mut timers, mut times) = (Timers::default(), vec![Time::NEVER; 40]);
        for _ in 0..5000 {
            let conn = rng.below(40) as usize;
            let earlier = Time(rng.below(20));
            if earlier < times[conn] {
                assert_eq!(timers.arm(conn as u32, earlier), times.iter().all(|&time| earlier < time));
                times[conn] = earlier;
            }
            let first = times.iter().copied().min().expect("there are some");
            let due = times.iter().position(|&time| time == first).map(|place| (first, place as u32));
            assert_eq!(timers.due(), due);
            if let Some((_, conn)) = due
                && rng.below(3) == 0
            {
                times[conn as usize] = if rng.below(2) == 0 { Time::NEVER } else { Time(rng.below(40)) };
                timers.rearm(conn, times[conn as usize]);
            }
        }
    }
}
