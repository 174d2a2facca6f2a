//! A log-linear histogram. It gives percentiles with a fixed relative error, and counts a sample with few instructions.

use sojourn_core::cache::Cache;

/// The integer type that stores the low bits of a bin's weight. Small types save memory when there are many histograms
/// with few samples each.
pub trait Cell: Copy + Default {
    /// Number of bits in a cell.
    const BITS: u32;
    /// The low bits of a number.
    fn low(number: u64) -> Self;
    /// The stored value.
    fn get(self) -> u64;
}

impl Cell for u8 {
    const BITS: u32 = u8::BITS;
    #[inline(always)]
    fn low(number: u64) -> u8 {
        number as u8
    }
    #[inline(always)]
    fn get(self) -> u64 {
        u64::from(self)
    }
}

impl Cell for u32 {
    const BITS: u32 = u32::BITS;
    #[inline(always)]
    fn low(number: u64) -> u32 {
        number as u32
    }
    #[inline(always)]
    fn get(self) -> u64 {
        u64::from(self)
    }
}

/// A histogram of integers with bins of relative width 2^-BITS; below 2^(BITS+1) every integer has a bin of its own.
///
/// Weights, sum, minimum and maximum are exact. Only the range between minimum and maximum takes memory, in steps of an
/// eighth of an octave: one cell per bin, and eight more bytes per bin once the first weight overflows its cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram<const BITS: u32 = 9, C: Cell = u32> {
    /// The low bits of each weight.
    bins: Box<[C]>,
    /// The high bits of each weight; empty until one is needed.
    carries: Box<[u64]>,
    /// The index of `bins[0]`.
    first: usize,
    sum: u128,
    min: u64,
    max: u64,
}

impl<const BITS: u32, C: Cell> Default for Histogram<BITS, C> {
    fn default() -> Self {
        Histogram { bins: Box::default(), carries: Box::default(), first: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl<const BITS: u32, C: Cell> Histogram<BITS, C> {
    /// Bins are allocated in units of this many: an eighth of an octave.
    const GRAIN: usize = 1 << (BITS - 3);

    /// The index of a value's bin: its leading BITS+1 bits, numbered consecutively across octaves.
    #[inline]
    const fn index(value: u64) -> usize {
        let shift = (63 ^ (value | 1 << BITS).leading_zeros()) - BITS;
        ((shift as usize) << BITS) + (value >> shift) as usize
    }

    /// The smallest and the largest value of a bin.
    const fn edges(index: usize) -> (u64, u64) {
        let shift = (index >> BITS).saturating_sub(1);
        let low = ((index - (shift << BITS)) as u64) << shift;
        (low, low + ((1 << shift) - 1))
    }

    /// Adds one sample.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.count_only(value, 1);
        self.sum += u128::from(value);
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
    }

    /// Prefetches the bin that a sample of `value` will fall into.
    #[inline]
    pub fn prefetch(&self, value: u64, cache: &impl Cache) {
        if let Some(bin) = self.bins.get(Self::index(value).wrapping_sub(self.first)) {
            cache.fetch(bin);
        }
    }

    /// Adds a value with a weight, such as the time for which it was held. A weight of zero has no effect.
    #[inline]
    pub fn add_weighted(&mut self, value: u64, weight: u64) {
        if weight == 0 {
            return;
        }
        self.count_only(value, weight);
        self.sum += u128::from(value) * u128::from(weight);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Counts a sample. The caller accumulates the sum and the extremes and passes them to [`Histogram::note`] later.
    #[inline]
    pub(crate) fn count_only(&mut self, value: u64, weight: u64) {
        let slot = Self::index(value).wrapping_sub(self.first);
        match self.bins.get_mut(slot) {
            Some(bin) => {
                let sum = bin.get() + weight;
                *bin = C::low(sum);
                if sum >> C::BITS != 0 {
                    self.carry(slot, sum >> C::BITS);
                }
            }
            None => self.grow_and_count(value, weight),
        }
    }

    #[cold]
    #[inline(never)]
    fn carry(&mut self, slot: usize, more: u64) {
        if self.carries.is_empty() {
            self.carries = vec![0; self.bins.len()].into();
        }
        self.carries[slot] += more;
    }

    /// All weights with the index of their bins.
    fn weights(&self) -> impl Iterator<Item = (usize, u64)> {
        let upper = self.carries.iter().copied().chain(std::iter::repeat(0));
        let weights = self.bins.iter().zip(upper).map(|(&low, high)| high << C::BITS | low.get());
        (self.first..).zip(weights)
    }

    /// Adds the sum, minimum and maximum of samples counted by [`Histogram::count_only`].
    pub(crate) fn note(&mut self, sum: u64, min: u64, max: u64) {
        self.sum += u128::from(sum);
        self.min = self.min.min(min);
        self.max = self.max.max(max);
    }

    #[cold]
    #[inline(never)]
    fn grow_and_count(&mut self, value: u64, weight: u64) {
        let index = Self::index(value);
        self.cover(index, index);
        self.count_only(value, weight);
    }

    /// Allocates all bins from index `low` to index `high`, rounded outwards to whole units of [`Self::GRAIN`].
    fn cover(&mut self, low: usize, high: usize) {
        let (low, high) = (low & !(Self::GRAIN - 1), high | (Self::GRAIN - 1));
        let old = if self.bins.is_empty() { low } else { self.first };
        let first = old.min(low);
        let end = (old + self.bins.len()).max(high + 1);
        let (before, length) = (old - first, end - first);
        self.bins = widened(&self.bins, before, length);
        if !self.carries.is_empty() {
            self.carries = widened(&self.carries, before, length);
        }
        self.first = first;
    }

    /// Adds all samples of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.bins.is_empty() {
            return;
        }
        self.cover(other.first, other.first + other.bins.len() - 1);
        for (index, weight) in other.weights().filter(|&(_, weight)| weight > 0) {
            self.count_only(Self::edges(index).0, weight);
        }
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns whether the histogram has no samples.
    pub fn is_empty(&self) -> bool {
        self.min > self.max
    }

    /// The number of samples, or the sum of the weights.
    pub fn count(&self) -> u64 {
        self.weights().map(|(_, weight)| weight).sum()
    }

    /// The sum of value · weight, exact.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest value, exact; 0 without samples.
    pub fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { self.min }
    }

    /// The largest value, exact; 0 without samples.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The weighted mean, from the exact sum; 0 without samples.
    pub fn mean(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// The value that a fraction `q` of the weight does not exceed. See [`Histogram::quantiles`].
    pub fn quantile(&self, q: f64) -> f64 {
        self.quantiles([q])[0]
    }

    /// The largest value of the bin that contains this quantile.
    pub fn quantile_edge(&self, q: f64) -> f64 {
        self.cdf().into_iter().find(|&(_, share)| share >= q).map_or(self.max as f64, |(value, _)| value)
    }

    /// Several quantiles, requested in rising order. A quantile is the smallest value up to which a fraction q of the
    /// weight lies. It is interpolated within its bin and always lies between the smallest and the largest sample. The
    /// relative error is at most 2^-BITS. 0 without samples.
    pub fn quantiles<const N: usize>(&self, qs: [f64; N]) -> [f64; N] {
        let total = self.count() as f64;
        let mut bins = self.weights().filter(|&(_, weight)| weight > 0);
        let (mut index, mut weight, mut below) = (0, 0, 0);
        qs.map(|q| {
            let rank = q * total;
            while ((below + weight) as f64) < rank || weight == 0 {
                let Some((i, w)) = bins.next() else { break };
                below += weight;
                (index, weight) = (i, w);
            }
            let (low, high) = Self::edges(index);
            let inside = if weight == 0 { 0.0 } else { ((rank - below as f64) / weight as f64).clamp(0.0, 1.0) };
            (low as f64 + (high - low) as f64 * inside).min(self.max() as f64).max(self.min() as f64)
        })
    }

    /// The fraction of the weight that does not exceed `value`, interpolated within its bin: the inverse of
    /// [`Histogram::quantile`]. 0 without samples.
    pub fn share_up_to(&self, value: f64) -> f64 {
        if self.is_empty() || value >= self.max as f64 {
            return if self.is_empty() { 0.0 } else { 1.0 };
        }
        let mut below = 0.0;
        for (index, weight) in self.weights().filter(|&(_, weight)| weight > 0) {
            let (low, high) = Self::edges(index);
            if value < low as f64 {
                break;
            }
            let inside = if high > low { ((value - low as f64) / (high - low) as f64).min(1.0) } else { 1.0 };
            below += weight as f64 * inside;
        }
        below / self.count() as f64
    }

    /// The cumulative distribution: for each non-empty bin, its largest value and the fraction of the weight up to it.
    pub fn cdf(&self) -> Vec<(f64, f64)> {
        let total = self.count() as f64;
        let mut below = 0;
        self.weights()
            .filter(|&(_, weight)| weight > 0)
            .map(|(index, weight)| {
                below += weight;
                (Self::edges(index).1.min(self.max) as f64, below as f64 / total)
            })
            .collect()
    }
}

/// Returns `old` with zeros before and after it.
fn widened<T: Copy + Default>(old: &[T], before: usize, length: usize) -> Box<[T]> {
    let mut wide = vec![T::default(); length];
    wide[before..][..old.len()].copy_from_slice(old);
    wide.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values of all orders of magnitude, including zero, small ones and powers of two.
    fn any_value() -> impl Strategy<Value = u64> {
        prop_oneof![
            0u64..2000,
            (0u32..60, any::<u64>()).prop_map(|(bits, v)| v >> (63 - bits)),
            (0u32..63).prop_map(|b| 1 << b)
        ]
    }

    /// The smallest value up to which a fraction `q` of the weight lies.
    fn exact_quantile(sorted: &[(u64, u64)], q: f64) -> u64 {
        let rank = q * sorted.iter().map(|&(_, weight)| weight).sum::<u64>() as f64;
        let mut below = 0;
        let holds = |&&(_, weight): &&(u64, u64)| {
            below += weight;
            below as f64 >= rank
        };
        sorted.iter().find(holds).or(sorted.last()).expect("a sample").0
    }

    fn agrees<const BITS: u32, C: Cell>(samples: &mut [(u64, u64)]) {
        let mut histogram = Histogram::<BITS, C>::default();
        for &(value, weight) in samples.iter() {
            histogram.add_weighted(value, weight);
        }
        samples.sort_unstable();
        let qs = [0.0, 0.01, 0.1, 0.5, 0.75, 0.95, 0.99, 1.0];
        for (q, got) in qs.into_iter().zip(histogram.quantiles(qs)) {
            let want = exact_quantile(samples, q) as f64;
            assert!((got - want).abs() <= want / f64::from(1 << BITS), "q {q}: {got}, exactly {want}");
            assert_eq!(got, histogram.quantile(q));
        }
        assert_eq!((histogram.min(), histogram.max()), (samples[0].0, samples[samples.len() - 1].0));
        assert_eq!(histogram.count(), samples.iter().map(|s| s.1).sum::<u64>());
        assert_eq!(histogram.sum(), samples.iter().map(|s| u128::from(s.0) * u128::from(s.1)).sum::<u128>());
    }

    #[test]
    fn a_bin_holds_more_than_its_cell() {
        let mut histogram = Histogram::<9>::default();
        let big = (1 << 32) - 1;
        for (value, weight) in [(5, big), (5, 1), (7, 3 << 32), (5_000_000, 9), (5, big), (1, 2)] {
            histogram.add_weighted(value, weight);
        }
        assert_eq!(histogram.count(), 2 * big + 1 + (3 << 32) + 9 + 2);
        let twice = |mut one: Histogram<9>| {
            one.merge(&one.clone());
            one
        };
        assert_eq!(twice(histogram.clone()).count(), 2 * histogram.count());
        assert_eq!((histogram.quantile(0.25), histogram.quantile(0.75)), (5.0, 7.0));
    }

    proptest! {
        #[test]
        fn quantiles_lie_within_the_bin_error_of_the_sorted_samples(
            mut samples in prop::collection::vec((any_value(), 1u64..1000), 1..300)
        ) {
            agrees::<9, u32>(&mut samples);
            agrees::<7, u8>(&mut samples);
        }

        #[test]
        fn merging_is_adding_the_samples_of_both(
            a in prop::collection::vec(any_value(), 0..100), b in prop::collection::vec(any_value(), 0..100)
        ) {
            let of = |values: &[u64]| values.iter().fold(Histogram::<9>::default(), |mut h, &v| { h.add(v); h });
            let (mut merged, both) = (of(&a), of(&[a.clone(), b.clone()].concat()));
            merged.merge(&of(&b));
            prop_assert_eq!(merged, both);
        }

        #[test]
        fn a_bin_holds_its_edges_and_is_as_narrow_as_promised(value in any_value()) {
            let (low, high) = Histogram::<9>::edges(Histogram::<9>::index(value));
            prop_assert!(low <= value && value <= high);
            prop_assert!((high - low) as f64 <= value as f64 / 512.0);
            prop_assert_eq!(Histogram::<9>::index(low), Histogram::<9>::index(high));
        }
    }

    #[test]
    fn the_share_up_to_a_quantile_is_its_fraction() {
        let mut histogram = Histogram::<9>::default();
        (0..1000u64).for_each(|value| histogram.add(value * value));
        for q in [0.1, 0.5, 0.9, 0.99] {
            let share = histogram.share_up_to(histogram.quantile(q));
            assert!((share - q).abs() < 1e-3, "{q}: {share}");
        }
        assert_eq!((histogram.share_up_to(998_001.0), histogram.share_up_to(-1.0)), (1.0, 0.0));
        assert_eq!(Histogram::<9>::default().share_up_to(5.0), 0.0);
        let edge = histogram.quantile_edge(0.5);
        assert!(edge >= histogram.quantile(0.5) && edge <= histogram.quantile(0.5) * (1.0 + 1.0 / 512.0), "{edge}");
        assert_eq!((histogram.quantile_edge(1.0), Histogram::<9>::default().quantile_edge(0.5)), (998_001.0, 0.0));
    }

    #[test]
    fn small_integers_are_exact() {
        let mut histogram = Histogram::<9>::default();
        histogram.add_weighted(4, 10);
        histogram.add_weighted(5, 80);
        histogram.add_weighted(6, 10);
        assert_eq!(histogram.quantiles([0.05, 0.5, 0.95]), [4.0, 5.0, 6.0]);
        assert_eq!(histogram.cdf(), [(4.0, 0.1), (5.0, 0.9), (6.0, 1.0)]);
        assert_eq!(histogram.mean(), 5.0);
    }

    #[test]
    fn a_weight_of_zero_leaves_no_trace() {
        let mut histogram = Histogram::<9>::default();
        histogram.add_weighted(7, 0);
        assert!(histogram.is_empty());
        assert_eq!(histogram, Histogram::default());
        assert_eq!((histogram.quantile(0.5), histogram.mean(), histogram.cdf()), (0.0, 0.0, vec![]));
    }
}
