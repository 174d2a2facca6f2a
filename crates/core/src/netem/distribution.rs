//! Distributions of jitter: netem's tables of 4096 values, computed here instead of read from files. The Pareto table
//! equals that of iproute2; in the others a value may differ by a few 2^-13 of a standard deviation.

use alloc::vec::Vec;

/// The shape of a distribution around a mean, in units of the configured deviation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// Uniform, from one deviation below the mean to one above.
    Uniform,
    /// Normal, from four deviations below the mean to four above.
    Normal,
    /// Pareto with exponent 3, from 2/3 of a deviation below the mean to four above.
    Pareto,
    /// The sum of a quarter of the normal and three quarters of the Pareto value.
    Paretonormal,
}

/// The quantiles of a distribution at equal steps of the probability, in units of 1/8192 of a deviation. The table is
/// empty for the uniform distribution.
pub(super) type Table = Vec<i16>;

/// One deviation in the units of a table (`NETEM_DIST_SCALE`).
const SCALE: i64 = 8192;
const SIZE: u32 = 4096;

impl Distribution {
    /// All distributions, with their names in `tc`.
    pub const ALL: [(&'static str, Distribution); 4] = [
        ("uniform", Distribution::Uniform),
        ("normal", Distribution::Normal),
        ("pareto", Distribution::Pareto),
        ("paretonormal", Distribution::Paretonormal),
    ];

    /// The name in `tc`.
    pub fn name(self) -> &'static str {
        Distribution::ALL.iter().find(|one| one.1 == self).map_or("uniform", |one| one.0)
    }

    /// Computes the table of this distribution.
    pub(super) fn table(self) -> Table {
        let mut normal = Normal { x: -4.0 };
        let value = |i: u32| {
            // netem takes every fourth value of a table that is four times as long, each in the middle of its step.
            let gauss = normal.quantile((f64::from(i) + 0.125) / f64::from(SIZE));
            let pareto = (1.0 / libm::cbrt(1.0 - f64::from(i) / f64::from(SIZE)) - 1.5) * 4.0 / 3.0;
            let value = match self {
                Distribution::Pareto => pareto,
                Distribution::Paretonormal => gauss / 4.0 + 0.75 * pareto.min(4.0),
                Distribution::Normal | Distribution::Uniform => gauss,
            };
            libm::rint(value * SCALE as f64).clamp(-32768.0, 32767.0) as i16
        };
        match self {
            Distribution::Uniform => Table::new(),
            _ => (0..SIZE).map(value).collect(),
        }
    }
}

/// Computes quantiles of the normal distribution in rising order.
struct Normal {
    x: f64,
}

impl Normal {
    /// Returns a quantile, by Newton's method from the previous quantile.
    fn quantile(&mut self, q: f64) -> f64 {
        for _ in 0..50 {
            let density = libm::exp(-self.x * self.x / 2.0) / libm::sqrt(2.0 * core::f64::consts::PI);
            let step = (libm::erfc(-self.x / core::f64::consts::SQRT_2) / 2.0 - q) / density;
            self.x -= step;
            if libm::fabs(step) < 1e-9 {
                break;
            }
        }
        self.x
    }
}

/// Returns a random value with this mean and deviation (`tabledist`), from a table or, if the table is empty, from the
/// uniform distribution.
pub(super) fn draw(mean: i64, deviation: i64, random: u32, table: &[i16]) -> i64 {
    if deviation == 0 {
        return mean;
    }
    if table.is_empty() {
        // Linux computes modulo 2 · deviation in 32 bits: jitter ends below 2^31 ns.
        return i64::from(random) % (2 * deviation) + mean - deviation;
    }
    let t = i64::from(table[random as usize % table.len()]);
    let rest = (deviation % SCALE) * t;
    // This rounds to the nearest integer, and halves away from zero.
    let rest = (rest + if rest >= 0 { SCALE / 2 } else { -SCALE / 2 }) / SCALE;
    rest + (deviation / SCALE) * t + mean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean and the standard deviation of a table.
    fn moments(table: &[i16]) -> (f64, f64) {
        let count = table.len() as f64;
        let mean = table.iter().map(|&t| f64::from(t)).sum::<f64>() / count;
        let square = table.iter().map(|&t| (f64::from(t) - mean).powi(2)).sum::<f64>() / count;
        (mean / SCALE as f64, libm::sqrt(square) / SCALE as f64)
    }

    #[test]
    fn the_tables_have_the_moments_of_iproute2_s() {
        // Cut off at four deviations, Pareto's law loses some of its mean and much of its variance.
        for (distribution, mean, deviation) in [
            (Distribution::Normal, -0.00078, 1.00005),
            (Distribution::Pareto, -0.03349, 0.81968),
            (Distribution::Paretonormal, -0.0253, 0.83394),
        ] {
            let found = moments(&distribution.table());
            assert!((found.0 - mean).abs() < 2e-4 && (found.1 - deviation).abs() < 2e-4, "{found:?}");
        }
    }

    #[test]
    fn the_tables_have_the_values_of_iproute2_s() {
        let near = |distribution: Distribution, expected: &[(usize, i16)], most: i16| {
            let table = distribution.table();
            assert!(table.len() == 4096 && table.is_sorted());
            for &(at, value) in expected {
                assert!((table[at] - value).abs() <= most, "{distribution:?} {at}: {}", table[at]);
            }
        };
        near(Distribution::Normal, &[(0, -32768), (1, -28307), (3, -25967), (17, -21604)], 1);
        near(Distribution::Pareto, &[(0, -5461), (1, -5460), (2, -5460), (38, -5427), (4095, 32767)], 0);
        near(Distribution::Paretonormal, &[(0, -12305), (1, -11171), (19, -9406), (4091, 30797)], 2);
    }

    #[test]
    fn a_uniform_draw_lies_within_a_deviation_of_the_mean() {
        assert_eq!(draw(1000, 300, 0, &[]), 700);
        assert_eq!(draw(1000, 300, 599, &[]), 1299);
        assert_eq!(draw(1000, 300, 600, &[]), 700);
        assert_eq!(draw(5, 0, 77, &[]), 5);
    }

    #[test]
    fn a_table_s_value_is_rounded_to_the_nearest_nanosecond() {
        assert_eq!(draw(0, 8192 * 3, 0, &[-8192]), -8192 * 3);
        assert_eq!(draw(10, 1, 0, &[4096]), 11);
        assert_eq!(draw(10, 1, 0, &[-4096]), 9);
        assert_eq!(draw(10, 1, 0, &[4095]), 10);
    }
}
