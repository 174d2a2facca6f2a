//! Which of many times is the least, kept up to date in a comparison a level of a tree.

use sojourn_core::units::Time;

use crate::planted::{Fault, planted};

/// Times by index. Of equal times that of the lowest index is first.
#[derive(Default)]
pub struct Tournament {
    /// A tree: node 1 is the root, below node n are 2n and 2n + 1, and the second half are the times themselves, padded with
    /// "never" to a power of two. Each node has the lesser of the two below it.
    nodes: Vec<Time>,
}

impl Tournament {
    /// Of so many that all wait for nothing yet.
    pub fn new(players: usize) -> Tournament {
        let mut tournament = Tournament::default();
        tournament.grow(players);
        tournament
    }

    /// Makes room for so many.
    #[inline]
    pub fn grow(&mut self, players: usize) {
        if players > self.leaves() {
            self.rebuild(players.next_power_of_two());
        }
    }

    #[cold]
    #[inline(never)]
    fn rebuild(&mut self, leaves: usize) {
        let old = self.nodes.split_off(self.leaves());
        self.nodes = vec![Time::NEVER; 2 * leaves];
        self.nodes[leaves..][..old.len()].copy_from_slice(&old);
        (1..leaves).rev().for_each(|node| self.nodes[node] = self.nodes[2 * node].min(self.nodes[2 * node + 1]));
    }

    #[inline(always)]
    fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    /// The time at this index; never, if there is no such index.
    #[inline]
    pub fn at(&self, index: usize) -> Time {
        self.nodes.get(self.leaves() + index).copied().unwrap_or(Time::NEVER)
    }

    /// The least time; never, if there is none.
    #[inline(always)]
    pub fn least(&self) -> Time {
        self.nodes.get(1).copied().unwrap_or(Time::NEVER)
    }

    /// The index of the least time.
    #[inline]
    pub fn first(&self) -> usize {
        let (least, mut node) = (self.least(), 1);
        while node < self.leaves() {
            node *= 2;
            let right = if planted(Fault::Tie) { self.nodes[node + 1] == least } else { self.nodes[node] != least };
            node += usize::from(right);
        }
        node - self.leaves()
    }

    /// The time at this index is this now.
    #[inline]
    pub fn set(&mut self, index: usize, time: Time) {
        let (mut node, mut least) = (self.leaves() + index, time);
        self.nodes[node] = time;
        while node > 1 {
            least = least.min(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == least {
                return;
            }
            self.nodes[node] = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::rng::Rng;

    #[test]
    fn the_first_is_the_least_time_and_of_equal_times_the_lowest_index_however_it_has_grown() {
        let mut rng = Rng::stream(1, "tournament");
        let (mut tournament, mut times) = (Tournament::new(1), vec![Time::NEVER; 1]);
        for _ in 0..5000 {
            if rng.below(50) == 0 {
                times.push(Time::NEVER);
                tournament.grow(times.len());
            }
            let index = rng.below(times.len() as u64) as usize;
            times[index] = if rng.below(8) == 0 { Time::NEVER } else { Time(rng.below(20)) };
            tournament.set(index, times[index]);
            let least = times.iter().copied().min().expect("there is one");
            let expected = times.iter().position(|&time| time == least).expect("it is one of them");
            assert_eq!((tournament.first(), tournament.least()), (expected, least));
            assert_eq!((tournament.at(index), tournament.at(1000)), (times[index], Time::NEVER));
        }
    }
}
