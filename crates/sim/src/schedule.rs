//! Which source of events is next: the minimum over a small array of times, ties to the lowest rank.

use sojourn_core::units::Time;

use crate::planted::{Fault, planted};
use crate::tournament::Tournament;

/// Up to this many hot sources are compared one by one; above it a tree is kept of them.
const LINEAR: usize = 8;
/// Most scenarios have two or four: those are compared without a look at the others' places.
const PAIR: usize = 2;
const FEW: usize = 4;
/// Without a tree there are no more sources than this.
const RANKS: u64 = 64;
/// Times beyond this (9 years) are never.
const LATEST: u64 = u64::MAX / RANKS;

/// A source's place in the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    rank: usize,
    /// Among the hot sources; behind `COLD` among the others.
    index: usize,
}

/// Hot sources have smaller indices.
const COLD: usize = 1 << 32;

/// The next time of each source. Hot sources move at every packet; of the others the first is kept.
pub struct Schedule {
    /// How many places of `few` are looked at; 0: the tree is.
    width: usize,
    /// Time and rank in one number: the least number is the least time, and of equal times the lowest rank.
    few: [u64; LINEAR],
    cold: Vec<u64>,
    coldest: u64,
    /// For more sources: the times by rank.
    many: Tournament,
}

/// Hands out places, in the order of the ranks.
#[derive(Default)]
pub struct Places {
    hot: usize,
    cold: usize,
}

impl Places {
    /// The place of the next source.
    pub fn add(&mut self, hot: bool) -> Place {
        let rank = self.hot + self.cold;
        let count = if hot { &mut self.hot } else { &mut self.cold };
        *count += 1;
        Place { rank, index: *count - 1 + if hot { 0 } else { COLD } }
    }
}

impl Schedule {
    /// Of sources that all wait for nothing yet.
    pub fn new(places: &Places) -> Schedule {
        let sources = places.hot + places.cold;
        let linear = places.hot <= LINEAR && sources <= RANKS as usize;
        let width = [PAIR, FEW, LINEAR].into_iter().find(|&width| places.hot <= width);
        Schedule {
            width: width.filter(|_| linear).unwrap_or(0),
            few: [u64::MAX; LINEAR],
            cold: vec![u64::MAX; places.cold],
            coldest: u64::MAX,
            many: Tournament::new(if linear { 0 } else { sources }),
        }
    }

    /// The source at this place is next due at `time`.
    #[inline(always)]
    pub fn set(&mut self, place: Place, time: Time) {
        if place.index < self.width {
            self.few[place.index & (LINEAR - 1)] = key(time, place.rank);
        } else {
            self.set_otherwise(place, time);
        }
    }

    #[inline(never)]
    fn set_otherwise(&mut self, place: Place, time: Time) {
        if self.width == 0 {
            return self.many.set(place.rank, time);
        }
        let key = key(time, place.rank);
        let was = std::mem::replace(&mut self.cold[place.index - COLD], key);
        if key <= self.coldest {
            self.coldest = key;
        } else if was == self.coldest {
            self.coldest = self.cold.iter().copied().fold(u64::MAX, u64::min);
        }
    }

    /// The rank of the source that is due first, and when.
    #[inline(always)]
    pub fn first(&self) -> (usize, Time) {
        let [a, b, c, d, e, f, g, h] = self.few;
        let least = match self.width {
            PAIR => a.min(b).min(self.coldest),
            FEW => a.min(b).min(c.min(d)).min(self.coldest),
            LINEAR => a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h))).min(self.coldest),
            _ => return (self.many.first(), self.many.least()),
        };
        (flipped((least % RANKS) as usize) as usize, Time(least / RANKS))
    }
}

/// Time and rank in one number. "Never" loses its highest bits and is as late as before.
#[inline(always)]
fn key(time: Time, rank: usize) -> u64 {
    debug_assert!(time.0 < LATEST || time == Time::NEVER);
    time.0.wrapping_mul(RANKS) | flipped(rank)
}

/// The rank as the keys have it: as it is, unless a test turns ties round.
#[inline(always)]
fn flipped(rank: usize) -> u64 {
    if planted(Fault::Tie) { rank as u64 ^ (RANKS - 1) } else { rank as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::rng::Rng;

    #[test]
    fn the_first_source_is_the_least_time_and_of_equal_times_the_lowest_index() {
        let mut rng = Rng::stream(1, "schedule");
        for (sources, hot_share) in
            [(1, 1), (2, 2), (4, 1), (7, 2), (8, 3), (9, 2), (16, 2), (17, 1), (30, 4), (100, 1)]
        {
            let mut places = Places::default();
            let places_of: Vec<Place> = (0..sources).map(|n| places.add(n % hot_share == 0)).collect();
            let (mut schedule, mut times) = (Schedule::new(&places), vec![u64::MAX; sources]);
            for _ in 0..2000 {
                let source = rng.below(sources as u64) as usize;
                let time = if rng.below(8) == 0 { u64::MAX } else { rng.below(20) };
                times[source] = time;
                schedule.set(places_of[source], Time(time));
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
