//! The times at which the outstanding segments were sent last.

use crate::cache::Cache;
use crate::units::Time;
use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

/// A time for each segment, in a ring addressed by its number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TxTimes {
    times: Box<[Time]>,
}

/// The size of a ring for `segments` segments.
fn room(segments: u32) -> usize {
    (segments as usize).next_power_of_two().max(8)
}

impl TxTimes {
    /// See [`crate::tcp::Sender::prefetch_first`].
    #[inline]
    pub fn prefetch(&self, seq: u32, cache: &impl Cache) {
        if let Some(at) = self.place(seq) {
            cache.fetch(at);
        }
    }

    /// These segments are sent now; no segment below `snd_una` is outstanding.
    #[inline(always)]
    pub fn on_send(&mut self, run: Range<u32>, snd_una: u32, now: Time) {
        if (run.end - snd_una) as usize > self.times.len() {
            self.grow(snd_una, &run);
        }
        let mask = self.times.len() - 1;
        for seq in run {
            self.times[seq as usize & mask] = now;
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, snd_una: u32, run: &Range<u32>) {
        self.resize(room(run.end - snd_una), snd_una..run.start);
    }

    fn resize(&mut self, size: usize, outstanding: Range<u32>) {
        let mut times = vec![Time::ZERO; size].into_boxed_slice();
        for seq in outstanding {
            times[seq as usize & (size - 1)] = self.at(seq);
        }
        self.times = times;
    }

    /// Shrinks the ring if the outstanding segments need much less than it has.
    pub fn fit(&mut self, outstanding: Range<u32>) {
        let size = room(outstanding.end - outstanding.start);
        if 4 * size <= self.times.len() {
            self.resize(2 * size, outstanding);
        }
    }

    /// When an outstanding segment was sent last.
    #[inline(always)]
    pub fn at(&self, seq: u32) -> Time {
        self.place(seq).copied().unwrap_or(Time::ZERO)
    }

    /// The address of that time, for prefetching; `None` before the first transmission.
    #[inline(always)]
    fn place(&self, seq: u32) -> Option<&Time> {
        self.times.get(seq as usize & self.times.len().wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_segment_has_the_time_at_which_it_left_last_whatever_the_ring_has_to_hold() {
        let mut sent = TxTimes::default();
        sent.on_send(1000..1010, 1000, Time(1));
        sent.on_send(1010..1100, 1005, Time(2));
        sent.on_send(1007..1008, 1005, Time(3));
        sent.on_send(1100..1300, 1006, Time(4));
        sent.fit(1006..1300);
        let times = [1006, 1007, 1008, 1009, 1010, 1099, 1100, 1299].map(|seq| sent.at(seq).0);
        assert_eq!((times, sent.times.len()), ([1, 3, 1, 1, 2, 2, 4, 4], 512));
        sent.fit(1298..1300);
        assert_eq!(([1298, 1299].map(|seq| sent.at(seq).0), sent.times.len()), ([4, 4], 16));
    }
}
