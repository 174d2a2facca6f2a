//! Responsiveness under working conditions, in round trips a minute (draft-ietf-ippm-responsiveness-06).
//!
//! A test is a list of intervals: how many bytes its connections moved in each, and how long the probes took that came
//! home in it. First the goodput must be stable, then the responsiveness of the last MAD intervals, and the responsiveness
//! at that moment is the result; without stability it is that of the end, with less confidence.
//!
//! The draft leaves open, and here it is so: a moving average at the start is over as many intervals as there are, and
//! stability takes MAD averages; the standard deviation is that of these averages themselves, divided by their number. Of
//! n times the trimmed mean leaves out the n/20 longest, rounded down.

use sojourn_core::units::Span;
use sojourn_model::workload::rpm::MAD;

/// TMP leaves out one in so many: the longest 5 %.
const TRIMMED: usize = 20;
/// SDT: of averages that are stable the standard deviation is less than this share of the last one.
const SDT: f64 = 0.05;
/// Round trips of a millisecond in a minute.
const MINUTE: f64 = 60_000.0;

/// What a probe times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timed {
    /// `tcp_f`: the handshake of TCP on a new connection.
    Tcp,
    /// `tls_f`: a round trip of TLS on it.
    Tls,
    /// `http_f`: request and answer on it.
    Http,
    /// `http_l`: request and answer on a connection that carries load.
    Loaded,
}

/// An interval of a test.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Interval {
    /// Moved by the connections that carry load.
    pub bytes: u64,
    /// Milliseconds of the probes that came home in it, by [`Timed`].
    pub times_ms: [Vec<f64>; 4],
}

impl Interval {
    /// A probe came home.
    pub fn add(&mut self, what: Timed, took: Span) {
        self.times_ms[what as usize].push(took.0 as f64 / 1e6);
    }
}

/// How far a stage of the test came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Fewer than MAD intervals.
    Low,
    /// At least MAD, but not stable.
    Medium,
    /// Stable.
    High,
}

/// The result of a test.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Responsiveness {
    /// Round trips a minute: the mean of `foreign` and `loaded`.
    pub rpm: Option<f64>,
    /// On new connections.
    pub foreign: Option<f64>,
    /// On connections that carry load.
    pub loaded: Option<f64>,
    /// Whether the responsiveness was stable.
    pub confidence: Confidence,
    /// Trimmed mean of the handshakes of TCP.
    pub tcp_ms: Option<f64>,
    /// Trimmed mean of the round trips of TLS; none in a test without it.
    pub tls_ms: Option<f64>,
    /// Trimmed mean of requests on new connections.
    pub http_ms: Option<f64>,
    /// Trimmed mean of requests on connections that carry load.
    pub loaded_ms: Option<f64>,
    /// Foreign probes that the result rests on.
    pub foreign_probes: u64,
    /// Self probes that it rests on.
    pub loaded_probes: u64,
    /// What the connections moved in the last MAD intervals.
    pub capacity_mbit: Option<f64>,
    /// Whether that was stable.
    pub capacity_confidence: Confidence,
    /// From the test's start until that was stable.
    pub capacity_s: Option<f64>,
    /// From the test's start to the moment whose responsiveness this is.
    pub after_s: f64,
}

/// TM95: the mean without the longest 5 %.
pub fn trimmed_mean(times: &[f64]) -> Option<f64> {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.truncate(times.len() - times.len() / TRIMMED);
    mean(&times)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Round trips a minute on new connections, from the trimmed means of TCP, TLS (if there is any) and HTTP.
pub fn foreign(tcp_ms: f64, tls_ms: Option<f64>, http_ms: f64) -> f64 {
    let (sum, count) = tls_ms.map_or((tcp_ms + http_ms, 2.0), |tls_ms| (tcp_ms + tls_ms + http_ms, 3.0));
    MINUTE / (sum / count)
}

/// Round trips a minute on connections that carry load.
pub fn loaded(loaded_ms: f64) -> f64 {
    MINUTE / loaded_ms
}

/// Whether the last MAD of these moving averages deviate from each other by less than SDT of the last one. (NaN does.)
pub fn is_stable(averages: &[f64]) -> bool {
    let Some(last) = averages.len().checked_sub(MAD).map(|from| &averages[from..]) else { return false };
    let middle = last.iter().sum::<f64>() / MAD as f64;
    let deviation = (last.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / MAD as f64).sqrt();
    deviation < SDT * last[MAD - 1]
}

/// How far a stage came after so many intervals of its own.
pub fn confidence(intervals: usize, stable: bool) -> Confidence {
    match (stable, intervals) {
        (true, _) => Confidence::High,
        (false, MAD..) => Confidence::Medium,
        (false, _) => Confidence::Low,
    }
}

/// The result of a test whose intervals of this length were these.
pub fn judge(intervals: &[Interval], length: Span) -> Responsiveness {
    // "i": an interval, as the last of its moving average.
    let window = |i: usize| &intervals[(i + 1).saturating_sub(MAD)..=i];
    let goodput = |i: usize| {
        let bytes: Vec<f64> = window(i).iter().map(|interval| interval.bytes as f64).collect();
        mean(&bytes).unwrap_or_default()
    };
    let goodputs: Vec<f64> = (0..intervals.len()).map(goodput).collect();
    let saturated = (0..intervals.len()).find(|&i| is_stable(&goodputs[..=i]));
    // The responsiveness is followed from the next interval on.
    let from = saturated.map_or(intervals.len(), |i| i + 1);
    let followed: Vec<f64> = (from..intervals.len()).map(|i| times(window(i)).rpm.unwrap_or(f64::NAN)).collect();
    let stable = (0..followed.len()).find(|&k| is_stable(&followed[..=k])).map(|k| from + k);
    let at = stable.or(intervals.len().checked_sub(1));
    let seconds = |i: usize| (length * (i as u64 + 1)).0 as f64 / 1e9;
    Responsiveness {
        confidence: confidence(followed.len(), stable.is_some()),
        // Bytes of an interval; bits per microsecond are megabits per second.
        capacity_mbit: at.map(|i| goodputs[i] * 8.0 / (length.0 as f64 / 1e3)),
        capacity_confidence: confidence(intervals.len(), saturated.is_some()),
        capacity_s: saturated.map(seconds),
        after_s: at.map_or(0.0, seconds),
        ..times(at.map_or(&[], window))
    }
}

/// What the probes of some intervals say.
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

    /// An interval with these bytes and one probe, which takes this long everywhere.
    fn interval(bytes: u64, ms: f64) -> Interval {
        Interval { bytes, times_ms: [vec![ms], vec![ms], vec![ms], vec![ms]] }
    }

    /// Intervals of these megabits, with these times.
    fn test(of: &[(u64, f64)]) -> Responsiveness {
        let intervals: Vec<Interval> = of.iter().map(|&(mbit, ms)| interval(mbit * 125_000, ms)).collect();
        judge(&intervals, SECOND)
    }

    #[test]
    fn rpm_draft_tm95_is_the_mean_of_all_but_the_longest_5_percent() {
        // Of 20 the longest is left out: (1 + … + 19) / 19 = 10.
        let mut times: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(trimmed_mean(&times), Some(10.0));
        times[0] = 1e9;
        assert_eq!(trimmed_mean(&times), Some(10.0));
        // Of 40 two: 1 + … + 38 = 741. Of 19 none: 190 / 19.
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
        // 90, 110, 90, 110: deviation 10, 5 % of the last are 5.5. 96, 104, 96, 104: 4, below 5.2.
        assert!(!is_stable(&[90.0, 110.0, 90.0, 110.0]));
        assert!(is_stable(&[96.0, 104.0, 96.0, 104.0]));
        // A deviation of 5: less than 5.25, the share of 105, not than 4.75, that of 95.
        assert!(is_stable(&[95.0, 105.0, 95.0, 105.0]) && !is_stable(&[105.0, 95.0, 105.0, 95.0]));
        assert!(!is_stable(&[0.0, 0.0, 0.0, 0.0]), "nothing moves");
        // Only the last MAD count, and it takes as many.
        assert!(is_stable(&[1.0, 100.0, 100.0, 100.0, 100.0]));
        assert!(!is_stable(&[100.0, 100.0, 100.0]));
    }

    #[test]
    fn rpm_draft_first_goodput_is_stable_then_responsiveness_and_that_is_the_result() {
        // Goodput is stable with the fourth interval, responsiveness is followed from the fifth: its fourth is the eighth.
        let mut intervals = vec![(20, 900.0); 4];
        intervals.extend([(20, 100.0); 4]);
        let result = test(&intervals);
        assert_eq!((result.capacity_confidence, result.capacity_s), (Confidence::High, Some(4.0)));
        // The moving windows have means of 700, 500, 300 and 100 ms: far from stable.
        assert_eq!((result.confidence, result.after_s), (Confidence::Medium, 8.0));
        intervals.extend([(20, 100.0); 3]);
        let result = test(&intervals);
        assert_eq!((result.confidence, result.after_s, result.rpm), (Confidence::High, 11.0, Some(600.0)));
        // What comes later does not change it.
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
        // Three intervals; goodput that doubles for ever, so that responsiveness is never followed; a stable one.
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
