//! Timers of connections, armed lazily: most deadlines move later before they are reached.

use sojourn_core::cache::Cache;
use sojourn_core::units::Time;

use crate::tournament::Tournament;

/// A time for each connection, at which its deadline is looked at: never later than the deadline. One that moves earlier is
/// armed anew at once, one that moves later when its time has come.
#[derive(Clone, Default)]
pub struct Timers {
    armed: Tournament,
}

impl Timers {
    /// The first time; never if there is none.
    #[inline]
    pub fn first(&self) -> Time {
        self.armed.least()
    }

    /// A connection's deadline has moved and comes before the time at which it would be looked at. Whether the first time changed.
    #[inline(never)]
    pub fn arm(&mut self, conn: u32, deadline: Time) -> bool {
        let is_first = deadline < self.first();
        self.armed.grow(conn as usize + 1);
        self.armed.set(conn as usize, deadline);
        is_first
    }

    /// The connection that is looked at first, if there is one, and when. Then [`Timers::rearm`] must be called.
    pub fn due(&self) -> Option<(Time, u32)> {
        (self.first() < Time::NEVER).then(|| (self.first(), self.armed.first() as u32))
    }

    /// Fetches what [`Timers::due`] will read.
    pub fn warm(&self, cache: &impl Cache) {
        self.armed.warm(cache);
    }

    /// A connection was looked at; its deadline is this now.
    pub fn rearm(&mut self, conn: u32, deadline: Time) {
        self.armed.set(conn as usize, deadline);
    }
}
