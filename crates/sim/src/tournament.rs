//! Which of many times is the least, kept up to date in a few comparisons a level of a tree.

use sojourn_core::cache::Cache;
use sojourn_core::units::Time;

use crate::planted::{Fault, planted};

/// So many times are compared at once.
const WIDTH: usize = 8;
/// So many bits say which of them.
const PLACE: u32 = WIDTH.ilog2();
/// Who is asked for the first has times below this (73 years), or never.
const LATEST: u64 = u64::MAX >> PLACE;

/// A line of a cache: of thousands of times few lines are touched, as a tree of eights is low.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group([u64; WIDTH]);

impl Group {
    #[inline(always)]
    fn least(&self) -> u64 {
        let [a, b, c, d, e, f, g, h] = self.0;
        a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)))
    }
}

/// Times by index. Where it `FINDS` the least, of equal times that of the lowest index is first; else it only knows when that is.
///
/// To find it, each number in a group is a time with its place in the group behind it: the least number of a group says
/// where it is, and no processor has to guess it, or to look for it.
#[derive(Clone)]
pub struct Tournament<const FINDS: bool = true> {
    /// The times themselves, padded with "never", and behind them, level by level, the least of each group of the level
    /// before, up to a level of one group.
    groups: Vec<Group>,
    /// The first group of each level.
    levels: Vec<usize>,
    /// How many times there is room for.
    room: usize,
    /// The least number of the last group, and its time, which is asked for at every packet.
    least: u64,
    time: Time,
}

impl<const FINDS: bool> Default for Tournament<FINDS> {
    fn default() -> Self {
        Tournament {
            groups: Vec::new(),
            levels: Vec::new(),
            room: 0,
            least: Self::number(Time::NEVER),
            time: Time::NEVER,
        }
    }
}

impl<const FINDS: bool> Tournament<FINDS> {
    /// Of so many that all wait for nothing yet.
    pub fn new(players: usize) -> Self {
        let mut tournament = Self::default();
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
        self.room = width * WIDTH;
        self.levels.push(0);
        let mut groups = width;
        while width > 1 {
            self.levels.push(groups);
            width = width.div_ceil(WIDTH);
            groups += width;
        }
        let never = std::array::from_fn(|place| Self::placed(Self::number(Time::NEVER), place));
        self.groups = vec![Group(never); groups];
        self.least = self.groups[groups - 1].least();
        (0..old.room).for_each(|index| self.set(index, old.at(index)));
    }

    /// A time as a number, for the first place.
    #[inline(always)]
    fn number(time: Time) -> u64 {
        if FINDS { time.0.min(LATEST) << PLACE } else { time.0 }
    }

    /// The same for this place of a group.
    #[inline(always)]
    fn placed(number: u64, place: usize) -> u64 {
        if FINDS { number & !(WIDTH as u64 - 1) | turned(place) as u64 } else { number }
    }

    #[inline(always)]
    fn time(number: u64) -> Time {
        match number >> PLACE {
            _ if !FINDS => Time(number),
            LATEST => Time::NEVER,
            time => Time(time),
        }
    }

    /// The time at this index; never, if there is no such index.
    #[inline]
    pub fn at(&self, index: usize) -> Time {
        if index < self.room { Self::time(self.groups[index / WIDTH].0[index % WIDTH]) } else { Time::NEVER }
    }

    /// The least time; never, if there is none.
    #[inline(always)]
    pub fn least(&self) -> Time {
        self.time
    }

    /// The time at this index is this now.
    #[inline]
    pub fn set(&mut self, mut index: usize, time: Time) {
        let mut least = Self::number(time);
        for start in &self.levels {
            let group = &mut self.groups[start + index / WIDTH];
            let place = &mut group.0[index % WIDTH];
            least = Self::placed(least, index % WIDTH);
            if *place == least {
                return;
            }
            *place = least;
            least = group.least();
            index /= WIDTH;
        }
        self.least = least;
        self.time = Self::time(least);
    }
}

impl Tournament {
    /// The index of the least time.
    #[inline]
    pub fn first(&self) -> usize {
        self.below(0)
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
        let mut index = turned(self.least as usize % WIDTH);
        let below = self.levels.len().saturating_sub(1);
        for start in self.levels[..below].iter().skip(level).rev() {
            index = index * WIDTH + turned(self.groups[start + index].least() as usize % WIDTH);
        }
        index
    }
}

/// A place as the numbers have it: as it is, unless a test turns ties round.
#[inline(always)]
fn turned(place: usize) -> usize {
    if planted(Fault::Tie) { WIDTH - 1 - place } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::rng::Rng;

    #[test]
    fn the_first_is_the_least_time_and_of_equal_times_the_lowest_index_however_it_has_grown() {
        let mut rng = Rng::stream(1, "tournament");
        let (mut tournament, mut times) = (Tournament::<true>::new(1), vec![Time::NEVER; 1]);
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
