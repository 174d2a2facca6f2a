//! Which source of events is next: the minimum over a small array of times, ties to the lowest index.

use sojourn_core::units::Time;

use crate::planted::{Fault, planted};

/// Up to this many sources are compared one by one; above it a winner tree finds the least.
const LINEAR: usize = 8;

/// The next time of each source.
pub struct Schedule {
    /// Time and source in one number: the least number is the least time, and of equal times the lowest source.
    few: [u64; LINEAR],
    /// For more sources: the times, padded with "never" to a power of two …
    leaves: Vec<u64>,
    /// … and the winner of each inner node of the tree over them; node 1 is the root.
    winners: Vec<u32>,
}

/// Times beyond this (73 years) are never.
const LATEST: u64 = u64::MAX / LINEAR as u64;

impl Schedule {
    /// `sources` sources that all wait for nothing yet.
    pub fn new(sources: usize) -> Schedule {
        let mut schedule = Schedule { few: [u64::MAX; LINEAR], leaves: Vec::new(), winners: Vec::new() };
        if sources > LINEAR {
            let width = sources.next_power_of_two();
            schedule.leaves = vec![u64::MAX; width];
            schedule.winners = vec![0; width];
            for node in (1..width).rev() {
                let left = 2 * node;
                schedule.winners[node] = if left >= width { (left - width) as u32 } else { schedule.winners[left] };
            }
        }
        schedule
    }

    /// Source `source` is next due at `time`.
    #[inline(always)]
    pub fn set(&mut self, source: usize, time: Time) {
        if self.leaves.is_empty() {
            let rank = if planted(Fault::Tie) { source ^ (LINEAR - 1) } else { source };
            self.few[source & (LINEAR - 1)] = time.0.min(LATEST) * LINEAR as u64 + rank as u64;
        } else {
            self.play(source, time.0);
        }
    }

    /// The source that is due first, and when.
    #[inline(always)]
    pub fn first(&self) -> (usize, Time) {
        if !self.leaves.is_empty() {
            let winner = self.winners[1] as usize;
            return (winner, Time(self.leaves[winner]));
        }
        let [a, b, c, d, e, f, g, h] = self.few;
        let least = (a.min(b)).min(c.min(d)).min((e.min(f)).min(g.min(h)));
        let rank = least as usize % LINEAR;
        let source = if planted(Fault::Tie) { rank ^ (LINEAR - 1) } else { rank };
        (source, Time(least / LINEAR as u64))
    }

    /// Replays the matches from a leaf to the root.
    #[inline]
    fn play(&mut self, source: usize, time: u64) {
        self.leaves[source] = time;
        let mut winner = source & !1;
        if self.leaves[winner | 1] < self.leaves[winner] {
            winner |= 1;
        }
        let mut node = (self.leaves.len() + source) >> 1;
        self.winners[node] = winner as u32;
        while node > 1 {
            let sibling = self.winners[node ^ 1] as usize;
            let (left, right) = if node & 1 == 0 { (winner, sibling) } else { (sibling, winner) };
            let (r, l) = (self.leaves[right], self.leaves[left]);
            winner = if r < l || (planted(Fault::Tie) && r == l) { right } else { left };
            node >>= 1;
            self.winners[node] = winner as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::rng::Rng;

    #[test]
    fn the_first_source_is_the_least_time_and_of_equal_times_the_lowest_index() {
        let mut rng = Rng::stream(1, "schedule");
        for sources in [1, 2, 7, 8, 9, 16, 17, 100] {
            let (mut schedule, mut times) = (Schedule::new(sources), vec![u64::MAX; sources]);
            for _ in 0..2000 {
                let source = rng.below(sources as u64) as usize;
                let time = if rng.below(8) == 0 { u64::MAX } else { rng.below(20) };
                times[source] = time;
                schedule.set(source, Time(time));
                let (first, at) = schedule.first();
                let expected = times.iter().enumerate().min_by_key(|&(i, &t)| (t, i)).expect("there are sources");
                assert_eq!(at.0.min(LATEST), (*expected.1).min(LATEST));
                if at.0 < LATEST {
                    assert_eq!(first, expected.0);
                }
            }
        }
    }
}
