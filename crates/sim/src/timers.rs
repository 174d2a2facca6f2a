//! Timers of connections, armed lazily: most deadlines move later before they are reached.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sojourn_core::units::Time;

/// Timers as (time, connection); at most one live entry each, re-armed at once when a deadline moves earlier, else lazily.
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
    armed: Vec<Time>,
    /// The first time in the heap.
    first: Time,
}

impl Default for Timers {
    fn default() -> Self {
        Timers { heap: BinaryHeap::new(), armed: Vec::new(), first: Time::NEVER }
    }
}

impl Timers {
    /// The first time; never if there is none.
    #[inline]
    pub fn first(&self) -> Time {
        self.first
    }

    /// A connection's deadline is this now. Whether the first time changed.
    #[inline]
    pub fn arm(&mut self, conn: u32, deadline: Time) -> bool {
        if deadline >= self.armed(conn) {
            return false;
        }
        self.arm_earlier(conn, deadline)
    }

    /// The time of a connection's live entry.
    #[inline]
    pub fn armed(&self, conn: u32) -> Time {
        self.armed.get(conn as usize).copied().unwrap_or(Time::NEVER)
    }

    #[cold]
    #[inline(never)]
    fn arm_earlier(&mut self, conn: u32, deadline: Time) -> bool {
        if self.armed.len() <= conn as usize {
            self.armed.resize(conn as usize + 1, Time::NEVER);
        }
        self.armed[conn as usize] = deadline;
        self.heap.push(Reverse((deadline, conn)));
        let is_first = deadline < self.first;
        self.first = self.first.min(deadline);
        is_first
    }

    /// Takes the first entry; gives the connection if the entry is its live one.
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        let Reverse((at, conn)) = self.heap.pop()?;
        self.first = self.heap.peek().map_or(Time::NEVER, |&Reverse((at, _))| at);
        if self.armed(conn) != at {
            return None;
        }
        self.armed[conn as usize] = Time::NEVER;
        Some((at, conn))
    }
}
