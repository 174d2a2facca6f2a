//! Event scheduling: the minimum over a small array of times, with ties broken by the lowest rank. Each group that runs
//! ahead of the clock has a schedule of its own, and a single entry in the clock's schedule.

use sojourn_core::units::Time;

use crate::planted::{Fault, planted};
use crate::tournament::Tournament;

/// Up to this many hot sources are compared linearly; with more, a tree holds all sources.
const LINEAR: usize = 8;
/// Most scenarios have two or four hot sources, for which shorter loops are used.
const PAIR: usize = 2;
const FEW: usize = 4;
/// Upper limit on the number of sources without a tree.
const MOST: usize = 64;
/// Upper limit on ranks.
const RANKS: u64 = 1 << 17;
/// Times from here on count as never: 39 hours, while a run lasts 24 hours at most.
const LATEST: u64 = u64::MAX / RANKS;

/// The group of sources that follow the clock.
pub const CLOCK: usize = 0;

/// The position of a source in the schedule of its group, with the rank of its next event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    rank: usize,
    /// Index among the hot sources of the clock. `COLD` is added to the index among its other sources. In a group that
    /// runs ahead, a multiple of `GROUP` is added too.
    index: u64,
}

/// Offset of cold sources.
const COLD: u64 = 1 << 32;
/// Offset between groups.
const GROUP: u64 = 1 << 40;

impl Slot {
    /// Returns the position for an event of another rank.
    #[inline(always)]
    pub fn of_rank(self, rank: usize) -> Slot {
        Slot { rank, ..self }
    }
}

/// The schedule of the clock, and those of the groups that run ahead.
pub struct Schedules {
    clock: Schedule,
    /// The schedules of the groups after [`CLOCK`].
    ahead: Vec<Ahead>,
}

/// The schedule of a group that runs ahead.
struct Ahead {
    schedule: Schedule,
    /// The group's position in the clock's schedule, and `next`, its time there, which is never later than the group's
    /// first event. `next` is zero while the group runs.
    slot: Slot,
    next: Time,
}

/// The time of the next event of each source. Hot sources change with every packet; of the others, only the minimum is
/// kept.
struct Schedule {
    /// Number of entries of `few` that are compared; 0 if the tree is used.
    width: u64,
    /// Keys of time and rank. The smallest key has the smallest time and, at equal times, the lowest rank.
    few: [u64; LINEAR],
    cold: Vec<u64>,
    coldest: u64,
    /// The tree: keys of all sources, cold ones last.
    many: Tournament<false>,
    hot: usize,
}

/// Assigns positions to sources.
pub struct Slots {
    groups: Vec<SlotCounts>,
}

/// The number of positions in a group.
#[derive(Clone, Default)]
struct SlotCounts {
    hot: usize,
    cold: usize,
}

impl Slots {
    /// Creates this many groups, including that of the clock.
    pub fn new(groups: usize) -> Slots {
        Slots { groups: vec![SlotCounts::default(); groups] }
    }

    /// Returns a position for a further source in a group.
    pub fn add(&mut self, group: usize, rank: usize, hot: bool) -> Slot {
        let SlotCounts { hot: hots, cold } = &mut self.groups[group];
        let count = if hot { hots } else { cold };
        *count += 1;
        Slot { rank, index: group as u64 * GROUP + *count as u64 - 1 + if hot { 0 } else { COLD } }
    }

    /// Returns the schedules, in which no source has an event yet. In the clock's schedule, the groups that run ahead
    /// have the ranks from `first` on.
    pub fn schedules(mut self, first: usize) -> Schedules {
        let slots = (1..self.groups.len()).map(|group| self.add(CLOCK, first + group - 1, true));
        let slots: Vec<Slot> = slots.collect();
        let ahead = |(room, slot)| Ahead { schedule: Schedule::new(room), slot, next: Time::NEVER };
        Schedules {
            clock: Schedule::new(&self.groups[CLOCK]),
            ahead: self.groups[1..].iter().zip(slots).map(ahead).collect(),
        }
    }
}

impl Schedules {
    /// Sets the time of a source's next event.
    #[inline(always)]
    pub fn set(&mut self, slot: Slot, time: Time) {
        let key = key(time, slot.rank);
        // Like `set` of the clock's schedule, whose hot sources are the most frequent: one comparison identifies them.
        if slot.index < self.clock.width {
            self.clock.few[slot.index as usize & (LINEAR - 1)] = key;
            return;
        }
        if slot.index < GROUP {
            return self.clock.set_otherwise(slot.index, key);
        }
        let group = &mut self.ahead[(slot.index / GROUP) as usize - 1];
        group.schedule.set(slot.index % GROUP, key);
        if time < group.next {
            group.wakes(time, &mut self.clock);
        }
    }

    /// Returns the rank and the time of the clock's first event.
    #[inline(always)]
    pub fn first(&self) -> (usize, Time) {
        self.clock.first()
    }

    /// Returns the rank and the time of the first event in a group that runs ahead.
    #[inline(always)]
    pub fn first_of(&self, group: usize) -> (usize, Time) {
        self.ahead[group - 1].schedule.first()
    }

    /// Starts a run of a group. The clock's schedule is not updated while it runs.
    pub fn begin(&mut self, group: usize) {
        self.ahead[group - 1].next = Time::ZERO;
    }

    /// Ends a run of a group: its first event is entered in the clock's schedule.
    pub fn end(&mut self, group: usize) {
        let group = &mut self.ahead[group - 1];
        group.wakes(group.schedule.first().1, &mut self.clock);
    }
}

impl Ahead {
    /// Sets the group's time in the clock's schedule.
    fn wakes(&mut self, time: Time, clock: &mut Schedule) {
        self.next = time;
        clock.set(self.slot.index, key(time, self.slot.rank));
    }
}

impl Schedule {
    fn new(slots: &SlotCounts) -> Schedule {
        let all = slots.hot + slots.cold;
        let linear = slots.hot <= LINEAR && all <= MOST;
        let width = [PAIR, FEW, LINEAR].into_iter().find(|&width| slots.hot <= width);
        Schedule {
            width: width.filter(|_| linear).unwrap_or(0) as u64,
            few: [u64::MAX; LINEAR],
            cold: vec![u64::MAX; slots.cold],
            coldest: u64::MAX,
            many: Tournament::new(if linear { 0 } else { all }),
            hot: slots.hot,
        }
    }

    #[inline(always)]
    fn set(&mut self, index: u64, key: u64) {
        if index < self.width {
            self.few[index as usize & (LINEAR - 1)] = key;
        } else {
            self.set_otherwise(index, key);
        }
    }

    #[inline(never)]
    fn set_otherwise(&mut self, index: u64, key: u64) {
        if self.width == 0 {
            let place = if index < COLD { index } else { self.hot as u64 + index - COLD };
            return self.many.set(place as usize, Time(key));
        }
        let was = std::mem::replace(&mut self.cold[(index - COLD) as usize], key);
        if key <= self.coldest {
            self.coldest = key;
        } else if was == self.coldest {
            self.coldest = self.cold.iter().copied().fold(u64::MAX, u64::min);
        }
    }

    #[inline(always)]
    fn first(&self) -> (usize, Time) {
        let [a, b, c, d, e, f, g, h] = self.few;
        let least = match self.width as usize {
            PAIR => a.min(b).min(self.coldest),
            FEW => a.min(b).min(c.min(d)).min(self.coldest),
            LINEAR => a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h))).min(self.coldest),
            _ => self.many.least().0,
        };
        (flipped(least % RANKS) as usize, Time(least / RANKS))
    }
}

/// Combines time and rank in one number.
#[inline(always)]
fn key(time: Time, rank: usize) -> u64 {
    (time.0.min(LATEST) * RANKS) | flipped(rank as u64)
}

/// The rank as it is used in keys: unchanged, unless a test reverses ties.
#[inline(always)]
fn flipped(rank: u64) -> u64 {
    if planted(Fault::Tie) { rank ^ (RANKS - 1) } else { rank }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::rng::Rng;

    #[test]
    fn the_first_source_is_the_least_time_and_of_equal_times_the_lowest_rank() {
        let mut rng = Rng::stream(1, "schedule");
        for (sources, hot_share) in
            [(1, 1), (2, 2), (4, 1), (7, 2), (8, 3), (9, 2), (16, 2), (17, 1), (30, 4), (100, 1), (100, 30)]
        {
            // The events of each source have three ranks in turn.
            let mut slots = Slots::new(1);
            let slots_of: Vec<Slot> = (0..sources).map(|n| slots.add(CLOCK, n, n % hot_share == 0)).collect();
            let mut schedule = slots.schedules(sources);
            let mut due: Vec<(u64, usize)> = (0..sources).map(|n| (LATEST, n)).collect();
            for _ in 0..2000 {
                let source = rng.below(sources as u64) as usize;
                let time = if rng.below(8) == 0 { Time::NEVER } else { Time(rng.below(20)) };
                let rank = source + sources * rng.below(3) as usize;
                due[source] = (time.0.min(LATEST), rank);
                schedule.set(slots_of[source].of_rank(rank), time);
                let (first, at) = schedule.first();
                let expected = due.iter().min().copied().expect("there are sources");
                assert_eq!(at.0, expected.0);
                if at.0 < LATEST {
                    assert_eq!(first, expected.1);
                }
            }
        }
    }

    #[test]
    fn what_is_too_late_for_a_key_is_never_and_not_early() {
        let mut slots = Slots::new(1);
        let (one, other) = (slots.add(CLOCK, 5, true), slots.add(CLOCK, 99_999, false));
        let mut schedule = slots.schedules(100_000);
        schedule.set(one, Time(u64::MAX / 3));
        schedule.set(other, Time(24 * 3600 * 1_000_000_000));
        assert_eq!(schedule.first(), (99_999, Time(24 * 3600 * 1_000_000_000)));
    }
}
