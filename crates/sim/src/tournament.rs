//! Which of many times is the least, kept up to date in a few comparisons a level of a tree.

use std::hint::select_unpredictable;

use sojourn_core::cache::Cache;
use sojourn_core::units::Time;

use crate::planted::{Fault, planted};

/// So many times are compared at once.
const WIDTH: usize = 8;

/// A line of a cache: of thousands of times few lines are touched, as a tree of eights is low.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group([Time; WIDTH]);

impl Group {
    const NEVER: Group = Group([Time::NEVER; WIDTH]);

    #[inline(always)]
    fn least(&self) -> Time {
        let [a, b, c, d, e, f, g, h] = self.0;
        a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)))
    }
}

/// Times by index. Of equal times that of the lowest index is first.
#[derive(Clone)]
pub struct Tournament {
    /// The times themselves, padded with "never", and behind them, level by level, the least of each group of the level
    /// before, up to a level of one group.
    groups: Vec<Group>,
    /// The first group of each level.
    levels: Vec<usize>,
    /// How many times there is room for.
    room: usize,
    least: Time,
}

impl Default for Tournament {
    fn default() -> Self {
        Tournament { groups: Vec::new(), levels: Vec::new(), room: 0, least: Time::NEVER }
    }
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
        if players > self.room {
            self.rebuild(players.next_power_of_two());
        }
    }

    #[cold]
    #[inline(never)]
    fn rebuild(&mut self, players: usize) {
        let old = std::mem::take(self);
        let mut width = players.div_ceil(WIDTH);
        self.room = if players == 1 { 1 } else { width * WIDTH };
        self.levels.push(0);
        let mut groups = width;
        while width > 1 {
            self.levels.push(groups);
            width = width.div_ceil(WIDTH);
            groups += width;
        }
        self.groups = vec![Group::NEVER; groups];
        (0..old.room).for_each(|index| self.set(index, old.at(index)));
    }

    /// The time at this index; never, if there is no such index.
    #[inline]
    pub fn at(&self, index: usize) -> Time {
        if index < self.room { self.groups[index / WIDTH].0[index % WIDTH] } else { Time::NEVER }
    }

    /// The least time; never, if there is none.
    #[inline(always)]
    pub fn least(&self) -> Time {
        self.least
    }

    /// The index of the least time.
    #[inline]
    pub fn first(&self) -> usize {
        if self.room == 1 { 0 } else { self.below(0) }
    }

    /// Fetches the line of the least time.
    #[inline]
    pub fn warm(&self, cache: &impl Cache) {
        if self.levels.len() > 1 {
            cache.fetch(&self.groups[self.below(1)]);
        }
    }

    /// The place of the least time at this level.
    #[inline]
    fn below(&self, level: usize) -> usize {
        let mut group = 0;
        for start in self.levels[level..].iter().rev() {
            let times = &self.groups[start + group].0;
            // All are compared, without a branch: which of them it is no processor can guess.
            let is_least = |place: usize| times[place] == self.least;
            let place = if planted(Fault::Tie) {
                (0..WIDTH).fold(0, |last, place| select_unpredictable(is_least(place), place, last))
            } else {
                (0..WIDTH).rfold(0, |first, place| select_unpredictable(is_least(place), place, first))
            };
            group = group * WIDTH + place;
        }
        group
    }

    /// The time at this index is this now.
    #[inline]
    pub fn set(&mut self, mut index: usize, time: Time) {
        let mut least = time;
        for start in &self.levels {
            let group = &mut self.groups[start + index / WIDTH];
            let place = &mut group.0[index % WIDTH];
            if *place == least {
                return;
            }
            *place = least;
            least = group.least();
            index /= WIDTH;
        }
        self.least = least;
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
