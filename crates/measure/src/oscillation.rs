//! The period of a queue's oscillation, from the autocorrelation of its delay.

/// A peak of the autocorrelation counts from this height on.
pub const THRESHOLD: f64 = 0.3;

/// Fewer samples than this tell nothing.
const FEWEST: usize = 16;

/// Above so many samples the hill is looked for in means of neighbours first: the work grows with the square.
const COARSE: usize = 1024;

/// The period of a series in samples: the highest lag of the first hill of the autocorrelation that rises above
/// [`THRESHOLD`] after the autocorrelation has once been negative. A period is looked for up to a third of the series,
/// so that it is seen three times; `None` when there is none. Of more than 1024 samples the means of two (three, …)
/// neighbours are searched, so that a period of fewer than four (six, …) samples is not found.
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

/// The highest lag of the first hill above the threshold that follows a negative stretch and ends again.
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
    /// `None` for a constant.
    fn new(samples: &[f64]) -> Option<Autocorrelation> {
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let centred: Vec<f64> = samples.iter().map(|x| x - mean).collect();
        let power = dot(&centred, &centred) / n;
        (power > f64::EPSILON * mean * mean).then_some(Autocorrelation { centred, power })
    }

    /// 1 at lag 0; the mean product of the overlap, so that long lags are not belittled.
    fn at(&self, lag: usize) -> f64 {
        let overlap = self.centred.len() - lag;
        dot(&self.centred[..overlap], &self.centred[lag..]) / overlap as f64 / self.power
    }
}

/// The scalar product, in four lanes of fixed order: fast, and the same on every machine.
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
