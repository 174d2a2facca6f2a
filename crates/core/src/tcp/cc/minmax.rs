//! A windowed maximum by the algorithm of Kathleen Nichols: the three best samples of the window, each newer than the
//! one before, as in Linux (`lib/win_minmax.c`).

/// A value and when it was seen.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Seen {
    at: u32,
    value: u64,
}

/// The largest value of a window of time, whatever the unit of time.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Max([Seen; 3]);

impl Max {
    /// The maximum.
    pub fn get(&self) -> u64 {
        self.0[0].value
    }

    /// Adds a value that was seen at time `at`, which never decreases. Returns the maximum over the last `window` of time.
    pub fn update(&mut self, window: u32, at: u32, value: u64) -> u64 {
        let new = Seen { at, value };
        let best = &mut self.0;
        if value >= best[0].value || at.wrapping_sub(best[2].at) > window {
            *best = [new; 3];
            return value;
        }
        if value >= best[1].value {
            (best[1], best[2]) = (new, new);
        } else if value >= best[2].value {
            best[2] = new;
        }
        let age = at.wrapping_sub(best[0].at);
        if age > window {
            // The best is too old; the second may be too.
            *best = [best[1], best[2], new];
            if at.wrapping_sub(best[0].at) > window {
                *best = [best[1], best[2], new];
            }
        } else if best[1].at == best[0].at && age > window / 4 {
            (best[1], best[2]) = (new, new);
        } else if best[2].at == best[1].at && age > window / 2 {
            best[2] = new;
        }
        best[0].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn the_maximum_is_one_of_the_window_and_never_below_its_newest_value() {
        let (mut rng, mut filter) = (Rng::stream(3, "minmax"), Max::default());
        let mut seen: alloc::vec::Vec<(u32, u64)> = alloc::vec::Vec::new();
        for at in 0..2000u32 {
            let value = rng.below(1000);
            seen.push((at, value));
            let max = filter.update(10, at, value);
            let window = seen.iter().filter(|(t, _)| at - t <= 10);
            assert!(max >= value && window.clone().any(|&(_, v)| v == max), "{max} at {at}");
        }
    }

    #[test]
    fn a_falling_value_is_forgotten_after_the_window() {
        let mut filter = Max::default();
        filter.update(10, 0, 100);
        assert!((1..=10).all(|at| filter.update(10, at, 50) == 100));
        assert_eq!(filter.update(10, 11, 50), 50);
        assert_eq!(filter.get(), 50);
    }
}
