//! Responsiveness under working conditions, in round trips a minute (draft-ietf-ippm-responsiveness-06).
//!
//! A test is a list of intervals. Each holds the bytes that the load-generating connections moved, and the times of the
//! probes that completed in it. The test first waits until the goodput is stable, then until the responsiveness of the
//! last MAD intervals is stable, and reports the latter. If it never becomes stable, the value at the end is reported,
//! with lower confidence.
//!
//! Our choices where the draft leaves room: at the start, a moving average covers the intervals that exist, and
//! stability needs MAD averages. The standard deviation is the population standard deviation of these averages: the
//! divisor is their number. The trimmed mean of n times omits the n/20 longest times, rounded down.

use sojourn_core::units::Span;
use sojourn_model::workload::rpm::{MAD, Timed};

/// TMP: the trimmed mean omits one of this many samples, the longest 5 %.
const TRIMMED: usize = 20;
/// SDT: averages are stable if their standard deviation is less than this fraction of the last one.
const SDT: f64 = 0.05;
/// Milliseconds per minute.
const MINUTE: f64 = 60_000.0;

/// One interval of a test.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Interval {
    /// Bytes moved by the load-generating connections.
    pub bytes: u64,
    /// Times in milliseconds of the probes that completed in this interval, indexed by [`Timed`].
    pub times_ms: [Vec<f64>; 4],
}

impl Interval {
    /// Adds a completed probe.
    pub fn add(&mut self, what: Timed, took: Span) {
        self.times_ms[what as usize].push(took.0 as f64 / 1e6);
    }
}

/// Confidence in a stage's result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Fewer than MAD intervals were measured.
    Low,
    /// At least MAD intervals were measured, but the averages were not stable.
    Medium,
    /// The averages were stable.
    High,
}

/// The result of a test.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Responsiveness {
    /// Round trips per minute: the mean of `foreign` and `loaded`.
    pub rpm: Option<f64>,
    /// Round trips per minute on new connections.
    pub foreign: Option<f64>,
    /// Round trips per minute on load-generating connections.
    pub loaded: Option<f64>,
    /// Confidence in the responsiveness.
    pub confidence: Confidence,
    /// Trimmed mean of TCP handshakes, in milliseconds.
    pub tcp_ms: Option<f64>,
    /// Trimmed mean of TLS round trips, in milliseconds; `None` for a test without TLS.
    pub tls_ms: Option<f64>,
    /// Trimmed mean of requests on new connections, in milliseconds.
    pub http_ms: Option<f64>,
    /// Trimmed mean of requests on load-generating connections, in milliseconds.
    pub loaded_ms: Option<f64>,
    /// Number of foreign probes behind the result.
    pub foreign_probes: u64,
    /// Number of self probes behind the result.
    pub loaded_probes: u64,
    /// Goodput of the load-generating connections over the last MAD intervals.
    pub capacity_mbit: Option<f64>,
    /// Confidence in the capacity.
    pub capacity_confidence: Confidence,
    /// Time from the start of the test until the goodput was stable, in seconds.
    pub capacity_s: Option<f64>,
    /// Time from the start of the test to the moment at which the result was taken, in seconds.
    pub after_s: f64,
}

/// TM95: the mean without the longest 5 % of the times.
pub fn trimmed_mean(times: &[f64]) -> Option<f64> {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.truncate(times.len() - times.len() / TRIMMED);
    mean(&times)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Round trips per minute on new connections, from the trimmed means of TCP, TLS (if used) and HTTP.
pub fn foreign(tcp_ms: f64, tls_ms: Option<f64>, http_ms: f64) -> f64 {
    let (sum, count) = tls_ms.map_or((tcp_ms + http_ms, 2.0), |tls_ms| (tcp_ms + tls_ms + http_ms, 3.0));
    MINUTE / (sum / count)
}

/// Round trips per minute on load-generating connections.
pub fn loaded(loaded_ms: f64) -> f64 {
    MINUTE / loaded_ms
}

/// Returns whether the standard deviation of the last MAD moving averages is less than SDT times the last average. NaN
/// is never stable.
pub fn is_stable(averages: &[f64]) -> bool {
    let Some(last) = averages.len().checked_sub(MAD).map(|from| &averages[from..]) else { return false };
    let middle = last.iter().sum::<f64>() / MAD as f64;
    let deviation = (last.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / MAD as f64).sqrt();
    deviation < SDT * last[MAD - 1]
}

/// Confidence of a stage with this number of intervals.
pub fn confidence(intervals: usize, stable: bool) -> Confidence {
    match (stable, intervals) {
        (true, _) => Confidence::High,
        (false, MAD..) => Confidence::Medium,
        (false, _) => Confidence::Low,
    }
}

/// Computes the result of a test from its intervals, each of duration `length`.
pub fn judge(intervals: &[Interval], length: Span) -> Responsiveness {
    // `i` is the index of the last interval of the moving average.
    let window = |i: usize| &intervals[(i + 1).saturating_sub(MAD)..=i];
    let goodput = |i: usize| {
        let bytes: Vec<f64> = window(i).iter().map(|interval| interval.bytes as f64).collect();
        mean(&bytes).unwrap_or_default()
    };
    let goodputs: Vec<f64> = (0..intervals.len()).map(goodput).collect();
    let saturated = (0..intervals.len()).find(|&i| is_stable(&goodputs[..=i]));
    // Responsiveness is tracked from the next interval on.
    let from = saturated.map_or(intervals.len(), |i| i + 1);
    let followed: Vec<f64> = (from..intervals.len()).map(|i| times(window(i)).rpm.unwrap_or(f64::NAN)).collect();
    let stable = (0..followed.len()).find(|&k| is_stable(&followed[..=k])).map(|k| from + k);
    let at = stable.or(intervals.len().checked_sub(1));
    let seconds = |i: usize| (length * (i as u64 + 1)).0 as f64 / 1e9;
    Responsiveness {
        confidence: confidence(followed.len(), stable.is_some()),
        // Bytes per interval; bits per microsecond are megabits per second.
        capacity_mbit: at.map(|i| goodputs[i] * 8.0 / (length.0 as f64 / 1e3)),
        capacity_confidence: confidence(intervals.len(), saturated.is_some()),
        capacity_s: saturated.map(seconds),
        after_s: at.map_or(0.0, seconds),
        ..times(at.map_or(&[], window))
    }
}

/// Trimmed means of the probes of these intervals.
fn times(intervals: &[Interval]) -> Responsiveness {
    let of = |what: Timed| -> Vec<f64> {
        intervals.iter().flat_map(|interval| &interval.times_ms[what as usize]).copied().collect()
    };
    let (http, own) = (of(Timed::Http), of(Timed::Loaded));
    let [tcp_ms, tls_ms, http_ms, loaded_ms] =
        [of(Timed::Tcp), of(Timed::Tls), http.clone(), own.clone()].map(|times| trimmed_mean(&times));
    let foreign = tcp_ms.zip(http_ms).map(|(tcp_ms, http_ms)| foreign(tcp_ms, tls_ms, http_ms));
    let loaded = loaded_ms.map(loaded);
    Responsiveness {
        rpm: foreign.zip(loaded).map(|(foreign, loaded)| (foreign + loaded) / 2.0),
        foreign,
        loaded,
        confidence: Confidence::Low,
        tcp_ms,
        tls_ms,
        http_ms,
        loaded_ms,
        foreign_probes: http.len() as u64,
        loaded_probes: own.len() as u64,
        capacity_mbit: None,
        capacity_confidence: Confidence::Low,
        capacity_s: None,
        after_s: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Span = Span::from_secs(1);

    /// An interval with these bytes and one probe of each kind, each taking `ms` milliseconds.
    fn interval(bytes: u64, ms: f64) -> Interval {
        Interval { bytes, times_ms: [vec![ms], vec![ms], vec![ms], vec![ms]] }
    }

    /// The result of a test with intervals of these megabits and probe times.
    fn test(of: &[(u64, f64)]) -> Responsiveness {
        let intervals: Vec<Interval> = of.iter().map(|&(mbit, ms)| interval(mbit * 125_000, ms)).collect();
        judge(&intervals, SECOND)
    }

    #[test]
    fn rpm_draft_tm95_is_the_mean_of_all_but_the_longest_5_percent() {
        // The longest of 20 times is omitted: (1 + … + 19) / 19 = 10.
        let mut times: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(trimmed_mean(&times), Some(10.0));
        times[0] = 1e9;
        assert_eq!(trimmed_mean(&times), Some(10.0));
        // Two of 40 times are omitted, 1 + … + 38 = 741, and none of 19: 190 / 19.
        assert_eq!(trimmed_mean(&(1..=40).map(f64::from).collect::<Vec<_>>()), Some(741.0 / 38.0));
        assert_eq!(trimmed_mean(&(1..=19).map(f64::from).collect::<Vec<_>>()), Some(10.0));
        assert_eq!((trimmed_mean(&[7.0]), trimmed_mean(&[])), (Some(7.0), None));
    }

    #[test]
    fn rpm_draft_foreign_is_60000_over_the_mean_of_tcp_tls_and_http_and_rpm_the_mean_of_foreign_and_loaded() {
        assert_eq!(foreign(20.0, Some(30.0), 40.0), 2000.0);
        assert_eq!(loaded(120.0), 500.0);
        let mut one = Interval::default();
        for (what, ms) in [(Timed::Tcp, 20), (Timed::Tls, 30), (Timed::Http, 40), (Timed::Loaded, 120)] {
            one.add(what, Span::from_millis(ms));
        }
        let result = judge(&[one], SECOND);
        assert_eq!((result.foreign, result.loaded, result.rpm), (Some(2000.0), Some(500.0), Some(1250.0)));
        let means = (result.tcp_ms, result.tls_ms, result.http_ms, result.loaded_ms);
        assert_eq!(means, (Some(20.0), Some(30.0), Some(40.0), Some(120.0)));
        assert_eq!((result.foreign_probes, result.loaded_probes), (1, 1));
    }

    #[test]
    fn rpm_draft_without_tls_tcp_and_http_have_equal_weight() {
        assert_eq!(foreign(20.0, None, 40.0), 2000.0);
        let mut one = interval(0, 30.0);
        one.times_ms = [vec![20.0], vec![], vec![40.0], vec![60.0]];
        assert_eq!(judge(&[one], SECOND).rpm, Some(1500.0));
    }

    #[test]
    fn rpm_draft_stable_is_a_deviation_of_mad_averages_below_5_percent_of_the_last() {
        // 90, 110, 90, 110: the deviation is 10, and 5 % of the last are 5.5. 96, 104, 96, 104: it is 4, below 5.2.
        assert!(!is_stable(&[90.0, 110.0, 90.0, 110.0]));
        assert!(is_stable(&[96.0, 104.0, 96.0, 104.0]));
        // A deviation of 5 is less than 5 % of 105 (5.25) but not less than 5 % of 95 (4.75).
        assert!(is_stable(&[95.0, 105.0, 95.0, 105.0]) && !is_stable(&[105.0, 95.0, 105.0, 95.0]));
        assert!(!is_stable(&[0.0, 0.0, 0.0, 0.0]), "nothing moves");
        // Only the last MAD averages count, and all of them are needed.
        assert!(is_stable(&[1.0, 100.0, 100.0, 100.0, 100.0]));
        assert!(!is_stable(&[100.0, 100.0, 100.0]));
    }

    #[test]
    fn rpm_draft_first_goodput_is_stable_then_responsiveness_and_that_is_the_result() {
        // Goodput becomes stable with the fourth interval. Responsiveness is tracked from the fifth on: its fourth
        // value is the eighth interval.
        let mut intervals = vec![(20, 900.0); 4];
        intervals.extend([(20, 100.0); 4]);
        let result = test(&intervals);
        assert_eq!((result.capacity_confidence, result.capacity_s), (Confidence::High, Some(4.0)));
        // The moving averages are 700, 500, 300 and 100 ms: far from stable.
        assert_eq!((result.confidence, result.after_s), (Confidence::Medium, 8.0));
        intervals.extend([(20, 100.0); 3]);
        let result = test(&intervals);
        assert_eq!((result.confidence, result.after_s, result.rpm), (Confidence::High, 11.0, Some(600.0)));
        // Later intervals do not change the result.
        intervals.extend([(20, 9000.0); 20]);
        assert_eq!(test(&intervals), result);
    }

    #[test]
    fn rpm_draft_the_result_counts_the_probes_of_the_last_mad_intervals() {
        let result = test(&[(20, 5.0), (20, 5.0), (20, 10.0), (20, 20.0), (20, 30.0), (20, 40.0)]);
        assert_eq!((result.foreign_probes, result.loaded_probes, result.loaded_ms), (4, 4, Some(25.0)));
        assert_eq!(result.capacity_mbit, Some(20.0));
    }

    #[test]
    fn rpm_draft_confidence_is_low_before_mad_intervals_medium_unstable_and_high_stable() {
        assert_eq!((confidence(3, false), confidence(4, false), confidence(4, true)), {
            (Confidence::Low, Confidence::Medium, Confidence::High)
        });
        // Three tests: one of three intervals; one whose goodput doubles for ever, so that responsiveness is never
        // tracked; a stable one.
        let short = test(&[(20, 50.0); 3]);
        assert_eq!((short.capacity_confidence, short.confidence), (Confidence::Low, Confidence::Low));
        let growing = test(&(0..10).map(|i| (1 << i, 50.0)).collect::<Vec<_>>());
        assert_eq!((growing.capacity_confidence, growing.confidence), (Confidence::Medium, Confidence::Low));
        assert_eq!((growing.rpm, growing.capacity_s), (Some(1200.0), None));
        let stable = test(&[(20, 50.0); 8]);
        assert_eq!((stable.capacity_confidence, stable.confidence), (Confidence::High, Confidence::High));
        assert_eq!(serde_json::to_value(stable.confidence).expect("a word"), "high");
    }

    #[test]
    fn a_test_without_intervals_or_probes_has_no_result() {
        let nothing = judge(&[], SECOND);
        assert_eq!((nothing.rpm, nothing.capacity_mbit, nothing.after_s), (None, None, 0.0));
        let silent = judge(&vec![Interval { bytes: 1000, ..Interval::default() }; 9], SECOND);
        let confidences = (silent.confidence, silent.capacity_confidence);
        assert_eq!((silent.rpm, confidences), (None, (Confidence::Medium, Confidence::High)));
    }
}
