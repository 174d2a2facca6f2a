//! PackMime-HTTP: web connections as in ns-2 and the CoDel paper (Cao, Cleveland, Gao, Jeffay, Smith, Weigle: "Stochastic models for
//! generating synthetic HTTP source traffic", INFOCOM 2004).
//!
//! Connections arrive with Weibull gaps that have long-range dependence. Responses alternate between runs of cache validations and
//! runs of downloads. Nine connections in a hundred are persistent and carry several objects.
//!
//! Deviations: sizes follow fits to quantiles instead of ns-2's tables, with largest values of our own, so that the mean is the 7.2 kB
//! of the tables. The dependence of the gaps is exact over 256 arrivals and decays faster beyond. ns-2's optional tables of delay and
//! loss are left out, since the scenario has RTTs of its own.

use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};

use super::dist::{above_zero, exponential, gamma, normal, seconds, weibull};
use super::{Exchange, WebConnection};

/// Longest think time.
const LONGEST_GAP: Span = Span::from_secs(3600);
/// Largest object of a persistent connection, in bytes.
const LARGEST_OBJECT: f64 = 100e6;

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// The distribution of a size, as a rising list of quantiles: probability and bytes. Sizes between two quantiles are interpolated
/// on a logarithmic scale: linearly in the probability below the median, and linearly in the logarithm of the probability of a
/// larger size above it.
struct Quantiles(&'static [(f64, f64)]);

/// Responses that confirm a cached object.
const VALIDATION: Quantiles = Quantiles(&[
    (0.0, 20.0),
    (0.01, 22.0),
    (0.10, 75.0),
    (0.25, 119.0),
    (0.50, 141.0),
    (0.75, 197.0),
    (0.90, 249.0),
    (0.95, 267.0),
    (0.99, 272.0),
    (0.999, 272.0),
    (1.0, 273.0),
]);
/// Responses with an object. The last size is ours.
const DOWNLOAD: Quantiles = Quantiles(&[
    (0.0, 275.0),
    (0.01, 284.0),
    (0.10, 386.0),
    (0.25, 691.0),
    (0.50, 2258.0),
    (0.75, 8895.0),
    (0.90, 20_311.0),
    (0.95, 35_871.0),
    (0.99, 93_108.0),
    (0.999, 604_295.0),
    (1.0, 5.4e6),
]);
/// Requests. The first and the last size are ours.
const REQUEST: Quantiles = Quantiles(&[(0.0, 180.0), (0.5, 422.0), (0.9, 869.0), (0.99, 3062.0), (1.0, 8000.0)]);
/// If a larger size is less probable than this, the size is that of the last quantile.
const SMALLEST_TAIL: f64 = 1e-5;

impl Quantiles {
    /// Returns the size that a fraction `q` of all sizes exceeds, for `q` in (0, 1].
    fn with_larger(&self, q: f64) -> f64 {
        let p = 1.0 - q;
        let at = self.0.partition_point(|&(known, _)| known <= p).clamp(1, self.0.len() - 1);
        let ((p0, low), (p1, high)) = (self.0[at - 1], self.0[at]);
        let tail = |p: f64| -libm::log((1.0 - p).max(SMALLEST_TAIL));
        let share = if p0 < 0.5 { (p - p0) / (p1 - p0) } else { (tail(p) - tail(p0)) / (tail(p1) - tail(p0)) };
        low * libm::pow(high / low, share.clamp(0.0, 1.0))
    }

    fn draw(&self, rng: &mut Rng) -> f64 {
        self.with_larger(above_zero(rng))
    }
}

/// A FARIMA(0, d, 0) process with unit variance. It is computed by the Durbin–Levinson recursion up to a fixed lag.
struct Farima {
    /// The coefficients of the regression on the past, newest first.
    phi: Vec<f64>,
    /// The past values, newest first. The regression uses the first `phi.len()`.
    past: std::collections::VecDeque<f64>,
    /// The variance of the innovation.
    variance: f64,
}

impl Farima {
    /// The order of fractional differencing.
    const D: f64 = 0.33;
    /// The number of past values over which the dependence is exact.
    const LAG: usize = 256;

    fn new() -> Farima {
        Farima { phi: Vec::new(), past: std::collections::VecDeque::with_capacity(Self::LAG + 1), variance: 1.0 }
    }

    fn next(&mut self, rng: &mut Rng) -> f64 {
        let mean: f64 = self.phi.iter().zip(&self.past).map(|(phi, x)| phi * x).sum();
        let value = mean + libm::sqrt(self.variance) * normal(rng);
        self.past.push_front(value);
        if self.phi.len() < Self::LAG {
            self.grow();
        } else {
            self.past.pop_back();
        }
        value
    }

    /// Extends the regression by one past value. The partial autocorrelation at lag k is d / (k - d).
    fn grow(&mut self) {
        let k = self.phi.len() + 1;
        let partial = Self::D / (k as f64 - Self::D);
        let before = self.phi.clone();
        for (phi, mirrored) in self.phi.iter_mut().zip(before.iter().rev()) {
            *phi -= partial * mirrored;
        }
        self.phi.push(partial);
        self.variance *= 1.0 - partial * partial;
    }
}

/// The times between connections, in seconds.
struct Gaps {
    farima: Farima,
    shape: f64,
    scale: f64,
    /// The fraction of the variance that is independent noise. It grows with the rate.
    noise: f64,
}

impl Gaps {
    fn new(rate: f64) -> Gaps {
        let log2 = libm::log2(rate);
        let shape = logistic(0.352 + 0.388 * log2);
        let scale = 1.0 / (rate * libm::tgamma(1.0 + 1.0 / shape));
        Gaps { farima: Farima::new(), shape, scale, noise: logistic(0.333 + 0.414 * log2) }
    }

    fn next(&mut self, rng: &mut Rng) -> f64 {
        let dependent = self.farima.next(rng);
        let z = libm::sqrt(1.0 - self.noise) * dependent + libm::sqrt(self.noise) * normal(rng);
        // The standard normal number z has the probability q above it. The gap is the Weibull quantile with the same probability.
        let q = (0.5 * libm::erfc(z / core::f64::consts::SQRT_2)).max(f64::MIN_POSITIVE);
        self.scale * libm::pow(-libm::log(q), 1.0 / self.shape)
    }
}

/// The sizes of responses: runs of validations and of downloads in turn.
struct Responses {
    /// Weibull shape and scale of the length of a run, for validations and downloads.
    runs: [(f64, f64); 2],
    download: bool,
    left: f64,
}

impl Responses {
    fn new(rate: f64, rng: &mut Rng) -> Responses {
        let log2 = libm::log2(rate);
        let runs = [(logistic(0.718 + 0.357 * log2), 0.775), (logistic(1.293 + 0.316 * log2), 3.11)];
        Responses { runs, download: rng.uniform() < 0.28, left: 0.0 }
    }

    fn next(&mut self, rng: &mut Rng) -> u64 {
        if self.left < 1.0 {
            self.download = !self.download;
            let (shape, scale) = self.runs[usize::from(self.download)];
            self.left = libm::ceil(weibull(rng, shape, scale)).max(1.0);
        }
        self.left -= 1.0;
        let sizes = if self.download { &DOWNLOAD } else { &VALIDATION };
        libm::round(sizes.draw(rng)) as u64
    }
}

/// A lognormal number with base 2. The location and scale of its logarithm are drawn once per connection.
struct Log2Normal {
    location: f64,
    scale: f64,
}

impl Log2Normal {
    /// Draws the location from a normal, and the square of the scale from a gamma with mean `error`.
    fn of_connection(rng: &mut Rng, (mean, sd): (f64, f64), shape: f64, error: f64) -> Log2Normal {
        let location = mean + sd * normal(rng);
        Log2Normal { location, scale: libm::sqrt(gamma(rng, shape) / shape * error) }
    }

    fn draw(&self, rng: &mut Rng) -> f64 {
        libm::exp2(self.location + self.scale * normal(rng))
    }
}

/// Draws the number of pages or objects: 1 with probability `one`, otherwise 1 + ceil(exponential with mean `more`).
fn number(rng: &mut Rng, one: f64, more: f64) -> usize {
    if rng.uniform() < one { 1 } else { 1 + libm::ceil(more * exponential(rng)).clamp(1.0, 1000.0) as usize }
}

fn request(rng: &mut Rng) -> u32 {
    libm::round(REQUEST.draw(rng)) as u32
}

/// Draws the server's delay: the reciprocal of a Weibull, at most 0.1 s.
fn server_delay(rng: &mut Rng) -> Span {
    seconds(1.0 / weibull(rng, 0.63, 305.0).max(1e-9), Span::from_millis(100))
}

/// Draws the exchanges of a persistent connection: pages of objects, with the pauses of the user and of the browser.
fn persistent(rng: &mut Rng) -> Vec<Exchange> {
    let page_gap = Log2Normal::of_connection(rng, (3.22, 0.73), 1.85, 1.21);
    let object_gap = Log2Normal::of_connection(rng, (-4.15, 3.12), 2.35, 1.57);
    let object = Log2Normal::of_connection(rng, (10.62, 0.94), 3.22, 2.43);
    let mut exchanges = Vec::new();
    for _ in 0..number(rng, 0.82, 0.417) {
        for nth in 0..number(rng, 0.69, 1.578) {
            let gap = match (exchanges.is_empty(), nth) {
                (true, _) => Span::ZERO,
                (_, 0) => seconds(page_gap.draw(rng), LONGEST_GAP),
                _ => seconds(object_gap.draw(rng), LONGEST_GAP),
            };
            let response = libm::ceil(object.draw(rng)).clamp(1.0, LARGEST_OBJECT) as u64;
            exchanges.push(Exchange { gap, request: request(rng), server_delay: server_delay(rng), response });
        }
    }
    exchanges
}

/// Draws the connections of a row that start in [start, end), at `rate` per second.
pub(crate) fn connections(seed: u64, name: &str, rate: f64, (start, end): (Time, Time)) -> Vec<WebConnection> {
    let stream = |what: &str| Rng::stream(seed, &format!("{what} {name}"));
    let (mut arrivals, mut sizes, mut inside) =
        (stream("web arrivals"), stream("web responses"), stream("web connections"));
    let (mut gaps, mut responses) = (Gaps::new(rate), Responses::new(rate, &mut sizes));
    let mut connections = Vec::new();
    let mut at = start;
    loop {
        // No two connections start at the same time. Their order by start time is therefore unique.
        at += seconds(gaps.next(&mut arrivals), Span::MAX).max(Span(1));
        if at >= end {
            return connections;
        }
        let exchanges = if inside.uniform() < 0.09 {
            persistent(&mut inside)
        } else {
            let (request, server_delay) = (request(&mut inside), server_delay(&mut inside));
            vec![Exchange { gap: Span::ZERO, request, server_delay, response: responses.next(&mut sizes) }]
        };
        connections.push(WebConnection { start: at, exchanges });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(n: usize, mut draw: impl FnMut() -> f64) -> Vec<f64> {
        let mut draws: Vec<f64> = (0..n).map(|_| draw()).collect();
        draws.sort_by(f64::total_cmp);
        draws
    }

    fn mean(of: &[f64]) -> f64 {
        of.iter().sum::<f64>() / of.len() as f64
    }

    /// A stated quantile and a drawn one agree within this share.
    fn assert_quantile(draws: &[f64], p: f64, stated: f64, within: f64) {
        let drawn = draws[(p * draws.len() as f64) as usize];
        assert!((drawn / stated - 1.0).abs() < within, "at {p}: {drawn} instead of {stated}");
    }

    #[test]
    fn sizes_have_the_stated_quantiles_within_2_percent() {
        for (sizes, seed) in [(&DOWNLOAD, 1), (&VALIDATION, 2), (&REQUEST, 3)] {
            let mut rng = Rng::stream(seed, "test");
            let draws = sorted(1_000_000, || sizes.draw(&mut rng));
            for &(p, bytes) in &sizes.0[1..sizes.0.len() - 1] {
                assert!((sizes.with_larger(1.0 - p) / bytes - 1.0).abs() < 1e-9, "{p}");
                // A thousand of a million draws are beyond the last thousandth, so that quantile itself varies by 2.6 %.
                assert_quantile(&draws, p, bytes, if p > 0.99 { 0.06 } else { 0.02 });
            }
        }
    }

    #[test]
    fn runs_have_the_lengths_of_their_weibulls() {
        let mut rng = Rng::stream(1, "test");
        let mut responses = Responses::new(5.0, &mut rng);
        let parameters = responses.runs;
        let is_download: Vec<bool> = (0..1_000_000).map(|_| responses.next(&mut rng) > 273).collect();
        for download in [false, true] {
            let runs = is_download.chunk_by(|a, b| a == b).filter(|run| run[0] == download);
            let lengths: Vec<usize> = runs.map(<[bool]>::len).collect();
            let (shape, scale) = parameters[usize::from(download)];
            let beyond = |k: usize| libm::exp(-libm::pow(k as f64 / scale, shape));
            let stated: f64 = (0..1000).map(beyond).sum();
            let drawn = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
            assert!((drawn / stated - 1.0).abs() < 0.02, "{download}: mean {drawn} instead of {stated}");
            for k in 1..4 {
                let drawn = lengths.iter().filter(|&&length| length > k).count() as f64 / lengths.len() as f64;
                assert!((drawn / beyond(k) - 1.0).abs() < 0.03, "{download}, {k}: {drawn} not {}", beyond(k));
            }
        }
    }

    #[test]
    fn persistent_connections_have_as_many_pages_and_objects_as_stated() {
        for (one, more) in [(0.82, 0.417), (0.69, 1.578)] {
            let mut rng = Rng::stream(1, "test");
            let draws: Vec<usize> = (0..1_000_000).map(|_| number(&mut rng, one, more)).collect();
            let single = draws.iter().filter(|&&n| n == 1).count() as f64 / 1e6;
            assert!((single / one - 1.0).abs() < 0.02, "{single} instead of {one}");
            // The ceiling of an exponential is geometric.
            let stated = 1.0 + (1.0 - one) / (1.0 - libm::exp(-1.0 / more));
            let drawn = draws.iter().sum::<usize>() as f64 / 1e6;
            assert!((drawn / stated - 1.0).abs() < 0.02, "{drawn} instead of {stated}");
        }
    }

    #[test]
    fn responses_are_downloads_in_72_of_100_and_7200_bytes_long_in_the_mean() {
        let mut rng = Rng::stream(1, "test");
        let mut responses = Responses::new(5.0, &mut rng);
        let draws: Vec<f64> = (0..1_000_000).map(|_| responses.next(&mut rng) as f64).collect();
        let downloads = draws.iter().filter(|bytes| **bytes > 273.5).count() as f64 / 1e6;
        assert!((downloads - 0.72).abs() < 0.01, "{downloads}");
        assert!((mean(&draws) - 7200.0).abs() < 250.0, "{}", mean(&draws));
    }

    #[test]
    fn gaps_have_the_mean_of_the_rate_and_the_weibulls_shape() {
        for (rate, shape) in [(2.0, 0.68), (5.0, 0.78), (80.0, 0.94)] {
            let gaps = Gaps::new(rate);
            assert!((gaps.shape - shape).abs() < 0.005, "{rate}: {}", gaps.shape);
            // The dependence makes the mean of one long run settle slowly: many runs do it faster.
            let means: Vec<f64> = (0..200)
                .map(|seed| {
                    let (mut rng, mut gaps) = (Rng::stream(seed, "test"), Gaps::new(rate));
                    mean(&(0..1000).map(|_| gaps.next(&mut rng)).collect::<Vec<_>>())
                })
                .collect();
            assert!((mean(&means) * rate - 1.0).abs() < 0.03, "{rate}: {}", mean(&means) * rate);
        }
    }

    #[test]
    fn farima_has_unit_variance_and_its_autocorrelations() {
        let (mut rng, mut farima) = (Rng::stream(1, "test"), Farima::new());
        let draws: Vec<f64> = (0..400_000).map(|_| farima.next(&mut rng)).collect();
        let lagged = |lag: usize| draws.iter().zip(&draws[lag..]).map(|(a, b)| a * b).sum::<f64>() / draws.len() as f64;
        assert!((lagged(0) - 1.0).abs() < 0.05, "{}", lagged(0));
        // rho(1) = d / (1 - d), rho(k) = rho(k-1) (k - 1 + d) / (k - d).
        let mut rho = 1.0;
        for k in 1..=10 {
            rho *= (k as f64 - 1.0 + 0.33) / (k as f64 - 0.33);
            assert!((lagged(k) - rho).abs() < 0.05, "lag {k}: {} instead of {rho}", lagged(k));
        }
    }

    #[test]
    fn connections_are_persistent_and_servers_slow_as_stated() {
        let connections = connections(1, "web0", 1000.0, (Time::ZERO, Time(200_000_000_000)));
        let n = connections.len() as f64;
        let several = connections.iter().filter(|c| c.exchanges.len() > 1).count() as f64 / n;
        // Persistent, and not one page of one object: 0.09 (1 - 0.82 x 0.69).
        assert!((several - 0.0391).abs() < 0.003, "{several}");
        let delays: Vec<_> =
            connections.iter().flat_map(|c| &c.exchanges).map(|e| e.server_delay.as_secs_f64()).collect();
        let delays = sorted(delays.len(), {
            let mut i = delays.into_iter();
            move || i.next().unwrap_or_default()
        });
        assert_quantile(&delays, 0.5, 0.0059, 0.03);
        assert!(delays.last().is_some_and(|longest| *longest <= 0.1));
        assert!(connections.windows(2).all(|pair| pair[0].start < pair[1].start));
    }

    #[test]
    fn pages_and_objects_pause_as_stated() {
        let mut rng = Rng::stream(1, "test");
        let location = |rng: &mut Rng, of| libm::log2(Log2Normal::of_connection(rng, of, 1.85, 1.21).draw(rng));
        let draws = sorted(100_000, || location(&mut rng, (3.22, 0.73)));
        assert!((mean(&draws) - 3.22).abs() < 0.02, "{}", mean(&draws));
        let variance = draws.iter().map(|x| (x - 3.22) * (x - 3.22)).sum::<f64>() / 1e5;
        assert!((variance - (0.73 * 0.73 + 1.21)).abs() < 0.05, "{variance}");
    }
}
