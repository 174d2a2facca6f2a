//! The period of a queue's oscillation, from the autocorrelation of its delay.

/// Smallest autocorrelation at which a peak counts as an oscillation.
pub const THRESHOLD: f64 = 0.3;

/// Smallest number of samples; no period is reported for shorter series.
const FEWEST: usize = 16;

/// Longer series are averaged down before the search for a peak, because its cost grows with the square of the length.
const COARSE: usize = 1024;

/// Returns the period of a series, in samples: the lag of the first peak of the autocorrelation above [`THRESHOLD`]
/// that follows a negative value. Lags up to a third of the series are searched, so that a period is observed at least
/// three times. `None` if there is no such peak. Series of more than 1024 samples are averaged over two (three, …)
/// neighbours for the search, so that periods of fewer than four (six, …) samples are not found.
pub fn period(samples: &[f64]) -> Option<usize> {
    if samples.len() < FEWEST {
        return None;
    }
    let together = samples.len().div_ceil(COARSE);
    let means: Vec<f64> = samples.chunks_exact(together).map(|c| c.iter().sum::<f64>() / together as f64).collect();
    let coarse = first_hill(&Autocorrelation::new(&means)?)? * together;
    if together == 1 {
        return Some(coarse);
    }
    let fine = Autocorrelation::new(samples)?;
    (coarse - together + 1..coarse + together).max_by(|&a, &b| fine.at(a).total_cmp(&fine.at(b)))
}

/// The lag of the first peak above the threshold that follows a negative value and falls below the threshold again.
fn first_hill(correlation: &Autocorrelation) -> Option<usize> {
    let (mut was_negative, mut peak) = (false, None::<(usize, f64)>);
    for lag in 1..=correlation.centred.len() / 3 {
        let height = correlation.at(lag);
        was_negative |= height < 0.0;
        if was_negative && height >= THRESHOLD {
            if peak.is_none_or(|(_, highest)| height > highest) {
                peak = Some((lag, height));
            }
        } else if peak.is_some() {
            return peak.map(|(lag, _)| lag);
        }
    }
    None
}

/// The autocorrelation of a series, lag by lag.
struct Autocorrelation {
    centred: Vec<f64>,
    power: f64,
}

impl Autocorrelation {
    /// Prepares the autocorrelation of a series; `None` for a constant series.
    fn new(samples: &[f64]) -> Option<Autocorrelation> {
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let centred: Vec<f64> = samples.iter().map(|x| x - mean).collect();
        let power = dot(&centred, &centred) / n;
        (power > f64::EPSILON * mean * mean).then_some(Autocorrelation { centred, power })
    }

    /// The autocorrelation at a lag, 1 at lag 0. The mean over the overlap is used, so that long lags are not
    /// underestimated.
    fn at(&self, lag: usize) -> f64 {
        let overlap = self.centred.len() - lag;
        dot(&self.centred[..overlap], &self.centred[lag..]) / overlap as f64 / self.power
    }
}

/// The scalar product, summed in four lanes of fixed order: fast, and identical on every machine.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (mut lanes, a, b) = ([0.0; 4], a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a.zip(b) {
        for i in 0..4 {
            lanes[i] += x[i] * y[i];
        }
    }
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::rng::Rng;

    fn noise(n: usize) -> Vec<f64> {
        let mut rng = Rng::stream(1, "noise");
        (0..n).map(|_| rng.uniform()).collect()
    }

    #[test]
    fn finds_the_period_of_a_sine_in_noise() {
        let wave = |(i, x): (usize, &f64)| (i as f64 * std::f64::consts::TAU / 50.0).sin() + x;
        let found = period(&noise(1000).iter().enumerate().map(wave).collect::<Vec<_>>());
        assert!(found.is_some_and(|lag| lag.abs_diff(50) <= 2), "{found:?}");
    }

    #[test]
    fn finds_the_period_of_a_sawtooth() {
        for n in [1000, 1500, 3000] {
            assert_eq!(period(&(0..n).map(|i| f64::from(i % 73)).collect::<Vec<_>>()), Some(73), "{n} samples");
        }
    }

    #[test]
    fn noise_a_constant_a_ramp_and_a_short_series_have_none() {
        assert_eq!(period(&noise(2000)), None);
        assert_eq!(period(&[5.0; 500]), None);
        assert_eq!(period(&(0..500).map(f64::from).collect::<Vec<_>>()), None);
        assert_eq!(period(&[1.0, 0.0, 1.0, 0.0, 1.0]), None);
    }
}
