//! The minimum of a piecewise constant signal over the past window [t − W, t], exact and in amortised constant time.

use crate::histogram::Histogram;

/// The sliding minimum. Before t = W the window covers only the time since 0.
#[derive(Clone, Debug)]
pub(crate) struct SlidingMin {
    /// W in nanoseconds.
    window: u64,
    /// Past pieces whose value is smaller than the values of all later pieces. Each has its value and the time at which
    /// it leaves the window; both rise from piece to piece. Pieces before `head` have left the window. A vector with a
    /// head index is fast enough, because most operations append or remove at its tail.
    pieces: Vec<(u64, u64)>,
    head: usize,
    /// The current minimum, which is the value at the head if there is one. It began at `since`, and is not yet added
    /// to the histogram.
    min: u64,
    since: u64,
}

impl SlidingMin {
    pub fn new(window: u64) -> SlidingMin {
        SlidingMin { window, pieces: Vec::new(), head: 0, min: 0, since: 0 }
    }

    /// Adds a piece: the signal was `value` over [from, until), and the previous piece ended at `from`. Pieces of the
    /// resulting minimum are added to `minima`, weighted by time.
    #[inline]
    pub fn piece(&mut self, value: u64, from: u64, until: u64, minima: &mut Histogram) {
        while self.pieces.len() > self.head && self.pieces[self.pieces.len() - 1].0 >= value {
            self.pieces.pop();
        }
        match self.pieces.get(self.head) {
            Some(&(_, leaves)) if leaves > until => {}
            _ => self.minimum_moves(value, from, until, minima),
        }
        self.pieces.push((value, until.saturating_add(self.window)));
    }

    /// Handles a piece that is a new minimum, or during which the minimum leaves the window.
    #[inline(never)]
    fn minimum_moves(&mut self, value: u64, from: u64, until: u64, minima: &mut Histogram) {
        let mut at = from;
        loop {
            let next = self.pieces.get(self.head).copied();
            self.becomes(at, next.map_or(value, |(v, _)| v), minima);
            match next {
                Some((_, leaves)) if leaves <= until => at = leaves,
                _ => break,
            }
            self.head += 1;
        }
        if self.head * 2 >= self.pieces.len() {
            self.pieces.drain(..self.head);
            self.head = 0;
        }
    }

    fn becomes(&mut self, at: u64, min: u64, minima: &mut Histogram) {
        if min != self.min {
            minima.add_weighted(self.min, at - self.since);
            (self.min, self.since) = (min, at);
        }
    }

    /// Adds the minimum up to `at`, the end of the last piece.
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
