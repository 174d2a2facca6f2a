//! The period of a queue's oscillation, from the autocorrelation of its delay.

/// A peak of the autocorrelation counts from this height on.
pub const THRESHOLD: f64 = 0.3;

/// Fewer samples than this tell nothing.
const FEWEST: usize = 16;

/// The period of a series in samples: the highest lag of the first hill of the autocorrelation that rises above
/// [`THRESHOLD`] after the autocorrelation has once been negative. A period is looked for up to a third of the series,
/// so that it is seen three times; `None` when there is none.
pub fn period(samples: &[f64]) -> Option<usize> {
    let n = samples.len();
    if n < FEWEST {
        return None;
    }
    let mean = samples.iter().sum::<f64>() / n as f64;
    let centred: Vec<f64> = samples.iter().map(|x| x - mean).collect();
    let power = dot(&centred, &centred) / n as f64;
    if power <= f64::EPSILON * mean * mean {
        return None;
    }
    let (mut was_negative, mut peak) = (false, None::<(usize, f64)>);
    for lag in 1..=n / 3 {
        let correlation = dot(&centred[..n - lag], &centred[lag..]) / (n - lag) as f64 / power;
        was_negative |= correlation < 0.0;
        if was_negative && correlation >= THRESHOLD {
            if peak.is_none_or(|(_, height)| correlation > height) {
                peak = Some((lag, correlation));
            }
        } else if peak.is_some() {
            return peak.map(|(lag, _)| lag);
        }
    }
    None
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
        assert_eq!(period(&(0..1000).map(|i| f64::from(i % 73)).collect::<Vec<_>>()), Some(73));
    }

    #[test]
    fn noise_a_constant_a_ramp_and_a_short_series_have_none() {
        assert_eq!(period(&noise(2000)), None);
        assert_eq!(period(&[5.0; 500]), None);
        assert_eq!(period(&(0..500).map(f64::from).collect::<Vec<_>>()), None);
        assert_eq!(period(&[1.0, 0.0, 1.0, 0.0, 1.0]), None);
    }
}
