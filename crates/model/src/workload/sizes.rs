//! Transfers of drawn sizes at Poisson times.
//!
//! We chose the distribution of sizes ourselves, because the one that was measured in Auckland (the posts on satellite links) is not
//! public. The posts only say that most flows have fewer than ten packets, and that a few flows carry most bytes. Our distribution
//! has a lognormal body around 4 kB and, for about one transfer in eight, a bounded Pareto tail. The share of the tail is calibrated:
//! with at most 50 flows and 120 kB of queue, a download of 40 MB gets 2.3 of the link's 16 Mbit/s, as the posts report.

use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};

use super::dist::{above_zero, exponential, normal, seconds};

/// Share of transfers whose size is from the tail.
const TAIL: f64 = 0.12;
/// Median of the body, in bytes.
const MEDIAN: f64 = 4096.0;
/// Standard deviation of the natural logarithm of the body.
const SIGMA: f64 = 1.2;
/// The bounded Pareto tail: shape, smallest size and largest size in bytes.
const PARETO: (f64, f64, f64) = (1.1, 32_768.0, 67_108_864.0);

fn size(rng: &mut Rng) -> u64 {
    let bytes = if rng.uniform() < TAIL {
        let (shape, least, largest) = PARETO;
        // The inverse of the distribution function of the bounded Pareto, for the share above the size.
        let beyond = libm::pow(least / largest, shape);
        least * libm::pow(beyond + above_zero(rng) * (1.0 - beyond), -1.0 / shape)
    } else {
        MEDIAN * libm::exp(SIGMA * normal(rng))
    };
    libm::round(bytes).max(1.0) as u64
}

/// Draws the transfers of a row that arrive in [start, end), `rate` per second: times and bytes. With `file`, sizes are drawn from
/// that list.
pub(crate) fn arrivals(
    seed: u64,
    name: &str,
    rate: f64,
    file: Option<&[u64]>,
    (start, end): (Time, Time),
) -> Vec<(Time, u64)> {
    let mut times = Rng::stream(seed, &format!("sizes arrivals {name}"));
    let mut sizes = Rng::stream(seed, &format!("sizes bytes {name}"));
    let mut arrivals = Vec::new();
    let mut at = start;
    loop {
        at += seconds(exponential(&mut times) / rate, Span::MAX);
        if at >= end {
            return arrivals;
        }
        let bytes = match file {
            Some(file) => file[sizes.below(file.len() as u64) as usize],
            None => size(&mut sizes),
        };
        arrivals.push((at, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_median_and_mean_of_their_constants() {
        let mut rng = Rng::stream(5, "test");
        let mut draws: Vec<u64> = (0..2_000_000).map(|_| size(&mut rng)).collect();
        let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
        // The lognormal's mean is 4096 exp(0.72), the bounded Pareto's 192 kB.
        let (shape, least, largest) = PARETO;
        let tail = least * shape / (shape - 1.0) * (1.0 - (least / largest).powf(shape - 1.0))
            / (1.0 - (least / largest).powf(shape));
        let stated = (1.0 - TAIL) * MEDIAN * (SIGMA * SIGMA / 2.0).exp() + TAIL * tail;
        assert!((mean / stated - 1.0).abs() < 0.1, "{mean} instead of {stated}");
        draws.sort_unstable();
        assert!((4300..5300).contains(&draws[draws.len() / 2]), "{}", draws[draws.len() / 2]);
        assert!(draws.last().is_some_and(|largest| *largest <= 67_108_864));
    }

    #[test]
    fn sizes_of_a_file_come_in_their_shares() {
        let file = [10, 20, 20, 30];
        let arrivals = arrivals(1, "sizes0", 1000.0, Some(&file), (Time::ZERO, Time(100_000_000_000)));
        let share = |bytes| arrivals.iter().filter(|one| one.1 == bytes).count() as f64 / arrivals.len() as f64;
        assert!((share(20) - 0.5).abs() < 0.01 && (share(10) - 0.25).abs() < 0.01, "{} {}", share(20), share(10));
        assert!((share(10) + share(20) + share(30) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn arrivals_come_at_the_rate_and_in_order() {
        let end = Time(1_000_000_000_000);
        let arrivals = arrivals(1, "sizes0", 20.0, None, (Time::ZERO, end));
        assert!((arrivals.len() as f64 / 20_000.0 - 1.0).abs() < 0.03, "{}", arrivals.len());
        assert!(arrivals.windows(2).all(|pair| pair[0].0 <= pair[1].0) && arrivals.iter().all(|(at, _)| *at < end));
    }
}
