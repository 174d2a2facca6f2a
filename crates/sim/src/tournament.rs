//! The minimum of many times, updated with few comparisons per level of a tree.

use sojourn_core::cache::Cache;
use sojourn_core::units::Time;

use crate::planted::{Fault, planted};

/// Number of times in a group, which are compared at once.
const WIDTH: usize = 8;
/// Number of bits of an index within a group.
const PLACE: u32 = WIDTH.ilog2();
/// Upper limit on times if the index of the minimum is needed (73 years), except for never.
const LATEST: u64 = u64::MAX >> PLACE;

/// A group fills a cache line. A tree of groups of eight is shallow, so that an update touches few cache lines even
/// with thousands of times.
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

/// Times by index. With `FINDS`, the index of the minimum is available, the lowest one at equal times; otherwise only
/// the minimum itself.
///
/// With `FINDS`, the low bits of each number in a group hold its index in the group: the smallest number thereby tells
/// where it is, without branches to mispredict and without a search.
#[derive(Clone)]
pub struct Tournament<const FINDS: bool = true> {
    /// The times, padded with "never", followed by the levels of the tree: each holds the minima of the groups of the
    /// previous level, and the last one is a single group.
    groups: Vec<Group>,
    /// Index of the first group of each level.
    levels: Vec<usize>,
    /// Capacity for times.
    capacity: usize,
    /// The smallest number of the last group, and its time, which is needed for every packet.
    least: u64,
    time: Time,
}

impl<const FINDS: bool> Default for Tournament<FINDS> {
    fn default() -> Self {
        Tournament {
            groups: Vec::new(),
            levels: Vec::new(),
            capacity: 0,
            least: Self::number(Time::NEVER),
            time: Time::NEVER,
        }
    }
}

impl<const FINDS: bool> Tournament<FINDS> {
    /// Creates a tournament of `count` times, all of which are never.
    pub fn new(count: usize) -> Self {
        let mut tournament = Self::default();
        tournament.grow(count);
        tournament
    }

    /// Makes capacity for `count` times.
    #[inline]
    pub fn grow(&mut self, count: usize) {
        if count > self.capacity {
            self.rebuild(count.next_power_of_two());
        }
    }

    #[cold]
    #[inline(never)]
    fn rebuild(&mut self, count: usize) {
        let old = std::mem::take(self);
        let mut width = count.div_ceil(WIDTH);
        self.capacity = width * WIDTH;
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
        (0..old.capacity).for_each(|index| self.set(index, old.at(index)));
    }

    /// Converts a time to a number, for index 0 of a group.
    #[inline(always)]
    fn number(time: Time) -> u64 {
        if FINDS { time.0.min(LATEST) << PLACE } else { time.0 }
    }

    /// Sets the index within the group of such a number.
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

    /// Returns the time at this index; never if there is no such index.
    #[inline]
    pub fn at(&self, index: usize) -> Time {
        if index < self.capacity { Self::time(self.groups[index / WIDTH].0[index % WIDTH]) } else { Time::NEVER }
    }

    /// Returns the smallest time; never if there is none.
    #[inline(always)]
    pub fn least(&self) -> Time {
        self.time
    }

    /// Sets the time at this index.
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
    /// Returns the index of the smallest time.
    #[inline]
    pub fn first(&self) -> usize {
        self.below(0)
    }

    /// Prefetches the cache line of the smallest time.
    #[inline]
    pub fn prefetch(&self, cache: &impl Cache) {
        if self.levels.len() > 1 {
            cache.fetch(&self.groups[self.below(1)]);
        }
    }

    /// Returns the index of the smallest time at this level of the tree.
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

/// The index as it is used in numbers: unchanged, unless a test reverses ties.
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
