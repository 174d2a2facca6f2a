//! Distributions of times, and functions that draw from standard distributions. All arithmetic uses `libm`, so that every machine
//! draws the same numbers.

use sojourn_core::rng::Rng;
use sojourn_core::units::Span;

use crate::units;

/// A distribution of times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dist {
    /// A constant.
    Constant(Span),
    /// Uniform between two bounds, both included.
    Uniform(Span, Span),
    /// Exponential with this mean.
    Exponential(Span),
    /// Normal with this mean and standard deviation. A draw below zero becomes zero.
    Normal(Span, Span),
    /// Pareto with this shape and this mean. The shape is in thousandths and exceeds 1000.
    Pareto(u32, Span),
}

impl Dist {
    /// Reads `10ms`, `5s..15s`, `uniform 5s..15s`, `exp 9.5s`, `normal 100ms 20ms` or `pareto 1.5 500ms`.
    pub fn parse(text: &str) -> Option<Dist> {
        let text = text.trim();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or(("", text));
        match word {
            "" | "uniform" => match rest.split_once("..") {
                Some((low, high)) => {
                    let (low, high) = (units::span(low)?, units::span(high)?);
                    (low <= high).then_some(Dist::Uniform(low, high))
                }
                None if word.is_empty() => units::span(rest).map(Dist::Constant),
                None => None,
            },
            "exp" => units::span(rest).map(Dist::Exponential),
            "normal" => {
                let (mean, sd) = rest.trim().split_once(char::is_whitespace)?;
                Some(Dist::Normal(units::span(mean)?, units::span(sd)?))
            }
            "pareto" => {
                let (shape, mean) = rest.trim().split_once(char::is_whitespace)?;
                let thousandths = libm::round(units::number(shape)? * 1000.0);
                let sound = thousandths > 1000.0 && thousandths <= 100_000.0;
                sound.then(|| Some(Dist::Pareto(thousandths as u32, units::span(mean)?)))?
            }
            _ => None,
        }
    }

    /// Draws a time. A constant uses up no random number.
    pub fn draw(&self, rng: &mut Rng) -> Span {
        match *self {
            Dist::Constant(span) => span,
            Dist::Uniform(low, high) => low + Span(rng.below((high - low).0.saturating_add(1))),
            Dist::Exponential(mean) => rounded(exponential(rng) * mean.0 as f64),
            Dist::Normal(mean, sd) => rounded(mean.0 as f64 + normal(rng) * sd.0 as f64),
            Dist::Pareto(shape, _) => {
                let beyond = libm::pow(above_zero(rng), -1000.0 / f64::from(shape));
                rounded(self.lowest().0 as f64 * beyond)
            }
        }
    }

    /// The least time that may be drawn.
    pub fn lowest(&self) -> Span {
        match *self {
            Dist::Constant(span) | Dist::Uniform(span, _) => span,
            Dist::Exponential(_) | Dist::Normal(..) => Span::ZERO,
            // The mean is shape / (shape - 1) times the least time.
            Dist::Pareto(shape, mean) => {
                Span((u128::from(mean.0) * u128::from(shape - 1000) / u128::from(shape)) as u64)
            }
        }
    }

    /// The largest time that may be drawn, or the mean if there is no such bound. Sizes in units of the BDP are computed from it.
    pub fn nominal(&self) -> Span {
        match *self {
            Dist::Constant(span) | Dist::Uniform(_, span) | Dist::Exponential(span) => span,
            Dist::Normal(span, _) | Dist::Pareto(_, span) => span,
        }
    }

    /// The mean. For `normal` this is the mean of the text, which is a little less than that of the draws: draws below zero become zero.
    pub fn mean(&self) -> Span {
        match *self {
            Dist::Uniform(low, high) => Span(low.0.midpoint(high.0)),
            _ => self.nominal(),
        }
    }

    /// The largest time that is written in the distribution's text.
    pub fn written(&self) -> Span {
        match *self {
            Dist::Normal(mean, sd) => mean.max(sd),
            _ => self.nominal(),
        }
    }
}

/// Rounds to whole nanoseconds. A negative number and NaN become zero.
fn rounded(nanoseconds: f64) -> Span {
    Span(libm::round(nanoseconds) as u64)
}

/// Seconds as a span, but at most `most`.
pub(crate) fn seconds(seconds: f64, most: Span) -> Span {
    rounded(seconds * 1e9).min(most)
}

/// Uniform in (0, 1], so that the logarithm is finite.
pub(crate) fn above_zero(rng: &mut Rng) -> f64 {
    1.0 - rng.uniform()
}

/// Exponential with mean 1.
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    -libm::log(above_zero(rng))
}

/// Standard normal (Box and Muller 1958). The second number of the pair is discarded, so that no state is kept between draws.
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(rng));
    radius * libm::cos(2.0 * core::f64::consts::PI * rng.uniform())
}

/// Weibull with this shape and scale.
pub(crate) fn weibull(rng: &mut Rng, shape: f64, scale: f64) -> f64 {
    scale * libm::pow(exponential(rng), 1.0 / shape)
}

/// Gamma with this shape, which is at least 1, and scale 1 (Marsaglia and Tsang 2000).
pub(crate) fn gamma(rng: &mut Rng, shape: f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(rng);
        let v = libm::pow(1.0 + c * x, 3.0);
        if v > 0.0 && libm::log(above_zero(rng)) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_variance(n: usize, mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let draws: Vec<f64> = (0..n).map(|_| draw()).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        (mean, draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64)
    }

    #[test]
    fn distributions_are_read_as_documented() {
        let ms = Span::from_millis;
        assert_eq!(Dist::parse("10ms"), Some(Dist::Constant(ms(10))));
        assert_eq!(Dist::parse("50ms..550ms"), Some(Dist::Uniform(ms(50), ms(550))));
        assert_eq!(Dist::parse("uniform 5s..15s"), Some(Dist::Uniform(ms(5000), ms(15000))));
        assert_eq!(Dist::parse("exp 9.5s"), Some(Dist::Exponential(ms(9500))));
        assert_eq!(Dist::parse("normal 100ms 20ms"), Some(Dist::Normal(ms(100), ms(20))));
        assert_eq!(Dist::parse("pareto 1.5 500ms"), Some(Dist::Pareto(1500, ms(500))));
        for text in [
            "pareto 1s",
            "pareto 1 1s",
            "pareto 1.5",
            "",
            "uniform",
            "uniform 5s",
            "15s..5s",
            "exp",
            "exp -1s",
            "normal 5ms",
            "gauss 1s",
            "1s 2s",
        ] {
            assert_eq!(Dist::parse(text), None, "{text}");
        }
    }

    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        let mut rng = Rng::stream(3, "test");
        let (mean, variance) = mean_and_variance(200_000, || normal(&mut rng));
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "normal: {mean}, {variance}");
        let (mean, variance) = mean_and_variance(200_000, || gamma(&mut rng, 1.85));
        assert!((mean - 1.85).abs() < 0.02 && (variance - 1.85).abs() < 0.05, "gamma: {mean}, {variance}");
        let exp = Dist::Exponential(Span::from_millis(9500));
        let (mean, _) = mean_and_variance(200_000, || exp.draw(&mut rng).as_secs_f64());
        assert!((mean - 9.5).abs() < 0.1, "exp: {mean}");
        let pareto = Dist::Pareto(3000, Span::from_millis(600));
        let (mean, variance) = mean_and_variance(400_000, || pareto.draw(&mut rng).as_secs_f64());
        // Least 0.4, variance 0.4^2 3 / (2^2 1).
        assert!((mean - 0.6).abs() < 0.003 && (variance - 0.12).abs() < 0.03, "pareto: {mean}, {variance}");
        let uniform = Dist::Uniform(Span(5), Span(7));
        let (mean, _) = mean_and_variance(100_000, || uniform.draw(&mut rng).0 as f64);
        assert!((mean - 6.0).abs() < 0.02, "uniform: {mean}");
    }

    #[test]
    fn a_normal_draw_below_zero_is_zero() {
        let mut rng = Rng::stream(3, "test");
        let dist = Dist::Normal(Span(1), Span(1_000_000));
        assert!((0..100).any(|_| dist.draw(&mut rng) == Span::ZERO));
    }
}
