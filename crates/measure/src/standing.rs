//! The least value of a held signal over the past window [t − W, t], exactly and in amortised constant time.

use sojourn_core::ring::Ring;

use crate::histogram::Histogram;

/// The sliding minimum of a signal that is piecewise constant. Before t = W the window is what exists.
#[derive(Clone, Debug)]
pub(crate) struct SlidingMin {
    /// W in nanoseconds.
    window: u64,
    /// Past pieces that are the least of all that followed: (value, when the piece leaves the window); both rise.
    pieces: Ring<(u64, u64)>,
    /// The minimum that has not been accounted for yet, held since `since`.
    min: u64,
    since: u64,
}

impl SlidingMin {
    pub fn new(window: u64) -> SlidingMin {
        SlidingMin { window, pieces: Ring::default(), min: 0, since: 0 }
    }

    /// The signal was `value` over [from, until), where the previous piece ended at `from`. The minimum's own pieces
    /// go to `minima`, weighted by time.
    #[inline]
    pub fn piece(&mut self, value: u64, from: u64, until: u64, minima: &mut Histogram) {
        while self.pieces.back().is_some_and(|&(v, _)| v >= value) {
            self.pieces.pop_back();
        }
        let least = self.pieces.front().map_or(value, |&(v, _)| v);
        self.becomes(from, least, minima);
        while let Some(&(_, leaves)) = self.pieces.front() {
            if leaves > until {
                break;
            }
            self.pieces.pop();
            let least = self.pieces.front().map_or(value, |&(v, _)| v);
            self.becomes(leaves, least, minima);
        }
        self.pieces.push((value, until.saturating_add(self.window)));
    }

    #[inline]
    fn becomes(&mut self, at: u64, min: u64, minima: &mut Histogram) {
        if min != self.min {
            minima.add_weighted(self.min, at - self.since);
            (self.min, self.since) = (min, at);
        }
    }

    /// Accounts for everything before `at`, the end of the last piece.
    pub fn flush(&mut self, at: u64, minima: &mut Histogram) {
        minima.add_weighted(self.min, at - self.since);
        self.since = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_the_minimum_over_every_window_by_brute_force(
            pieces in prop::collection::vec((0u64..20, 1u64..30), 1..200), window in 0u64..100
        ) {
            let (mut sliding, mut minima, mut now) = (SlidingMin::new(window), Histogram::default(), 0);
            let mut cells = Vec::new();
            for &(value, length) in &pieces {
                sliding.piece(value, now, now + length, &mut minima);
                now += length;
                cells.extend(std::iter::repeat_n(value, length as usize));
            }
            sliding.flush(now, &mut minima);
            let mut want = Histogram::default();
            for t in 0..cells.len() {
                want.add(*cells[t.saturating_sub(window as usize)..=t].iter().min().expect("not empty"));
            }
            prop_assert_eq!(minima, want);
        }
    }
}
