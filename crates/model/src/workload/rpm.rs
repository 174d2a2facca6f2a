//! A test of responsiveness under working conditions (draft-ietf-ippm-responsiveness-06). Connections load the path; each interval
//! adds one. Probes measure round trips on these connections and on separate ones.
//!
//! The client is the host at the right end: data to the right is a download, data to the left an upload. A **foreign** probe is a new
//! connection with a TCP handshake, one round trip of TLS, and one request for a byte. A **self** probe is a request on a connection
//! that carries load. This file decides what is due when; `sojourn_measure::responsiveness` judges the times.
//!
//! The draft leaves some points open or contradicts itself. Here MPS limits the probes of both kinds together, which gives the 300 kB
//! per second of the draft. The first probe follows the first interval, because PTC is a share of the capacity: the moving average
//! of the goodput. The load continues after the result is known. We chose the sizes of requests and responses within the limits of
//! the draft.

use serde::{Deserialize, Serialize};
use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};

/// MAD: the number of intervals in a moving average.
pub const MAD: usize = 4;
/// MPS: the largest number of probes per second.
pub const MPS: u64 = 100;
/// PTC: the largest share of the capacity that probes use, in percent.
pub const PTC: u64 = 5;
/// The bytes that the draft assumes for a foreign probe and for a self probe.
pub const PROBE_BYTES: (u64, u64) = (5000, 1000);

/// Size of a TLS client's first message, in bytes.
pub const HELLO: u32 = 500;
/// Size of the TLS server's answer with its certificates, in bytes.
pub const FLIGHT: u64 = 3000;
/// Size of a request, in bytes.
pub const GET: u32 = 100;
/// Size of a response with one byte of content, in bytes.
pub const OBJECT: u64 = 100;

/// The parameters of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rpm {
    /// The time of the first SYN.
    pub start: Time,
    /// The end of the load. No connection and no probe starts at or after this time.
    pub stop: Time,
    /// ID: the length of an interval.
    pub interval: Span,
    /// MNP: the largest number of connections that carry load.
    pub connections: u32,
    /// Whether a foreign probe has a round trip of TLS.
    pub tls: bool,
}

/// The quantity that a probe measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timed {
    /// `tcp_f`: TCP handshake on a new connection.
    Tcp,
    /// `tls_f`: TLS round trip on a new connection.
    Tls,
    /// `http_f`: HTTP request and response on a new connection.
    Http,
    /// `http_l`: HTTP request and response on a connection with load.
    Loaded,
}

/// A step of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Ends an interval in which this many bytes were moved.
    Close(u64),
    /// Opens one more connection that carries load.
    Load,
    /// Starts a foreign probe.
    Foreign,
    /// Starts a self probe, on one of the connections that carry load.
    Own,
    /// Ends the load.
    Stop,
}

/// The state of a test. The driver asks it which steps are due.
#[derive(Clone, Debug)]
pub struct Tester {
    /// Chooses the connections of self probes.
    rng: Rng,
    /// The start of the next interval.
    tick: Time,
    /// The time of the next probe, and whether it is a foreign one.
    probe: Time,
    foreign: bool,
    opened: u32,
    /// Bytes moved up to the end of the last interval, and in each of the last MAD intervals.
    moved: u64,
    goodput: Vec<u64>,
}

impl Tester {
    /// Creates a test that has not started. `rng` is a stream of random numbers that nothing else uses.
    pub fn new(rpm: &Rpm, rng: Rng) -> Tester {
        let (tick, probe) = (rpm.start, Time::NEVER);
        Tester { rng, tick, probe, foreign: true, opened: 0, moved: 0, goodput: Vec::new() }
    }

    /// Returns the steps that are due now, in order, and the time of the next call. `moved` is the number of bytes that all connections
    /// with load have moved so far.
    pub fn act(&mut self, now: Time, moved: u64, rpm: &Rpm) -> (Vec<Step>, Option<Time>) {
        let mut due = Vec::new();
        if now >= self.tick {
            if self.opened > 0 {
                due.push(Step::Close(self.close(moved)));
            }
            self.tick = now + rpm.interval;
            if self.opened < rpm.connections && now < rpm.stop {
                self.opened += 1;
                due.push(Step::Load);
            }
            if self.probe == Time::NEVER {
                self.probe = self.pace(rpm).map_or(Time::NEVER, |_| now);
            }
        }
        if now >= rpm.stop {
            due.push(Step::Stop);
            return (due, None);
        }
        if now >= self.probe {
            due.push(if self.foreign { Step::Foreign } else { Step::Own });
            self.foreign = !self.foreign;
            self.probe = self.pace(rpm).map_or(Time::NEVER, |pace| now + pace);
        }
        (due, Some(self.tick.min(self.probe).min(rpm.stop)))
    }

    /// Draws the connection of the next self probe, as an index below `connections`. All are equally likely.
    pub fn choose(&mut self, connections: usize) -> usize {
        self.rng.below(connections as u64) as usize
    }

    fn close(&mut self, moved: u64) -> u64 {
        let bytes = moved - self.moved;
        self.moved = moved;
        if self.goodput.len() == MAD {
            self.goodput.remove(0);
        }
        self.goodput.push(bytes);
        bytes
    }

    /// Returns the time from one probe to the next. There are at most MPS probes per second, and they use at most PTC of the mean
    /// goodput of the last intervals.
    fn pace(&self, rpm: &Rpm) -> Option<Span> {
        let bytes: u64 = self.goodput.iter().sum();
        let lasted = u128::from(rpm.interval.0) * self.goodput.len() as u128;
        let a_pair = PROBE_BYTES.0 + PROBE_BYTES.1;
        let most = u128::from(a_pair * 100 / PTC / 2) * lasted;
        let pace = most.checked_div(u128::from(bytes))?;
        Some(Span(u64::try_from(pace).unwrap_or(u64::MAX / 2).max(1_000_000_000 / MPS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The steps and their times in milliseconds, when `rate` bytes are moved in each millisecond.
    fn played(rpm: &Rpm, rate: u64, until: u64) -> Vec<(u64, Step)> {
        let mut tester = Tester::new(rpm, Rng::stream(1, "probes"));
        let (mut next, mut all) = (Some(rpm.start), Vec::new());
        while let Some(now) = next.filter(|now| now.0 < until * MS) {
            let (due, then) = tester.act(now, now.since(rpm.start).0 / MS * rate, rpm);
            all.extend(due.into_iter().map(|one| (now.0 / MS, one)));
            next = then;
        }
        all
    }

    fn rpm() -> Rpm {
        Rpm { start: Time(0), stop: Time(9000 * MS), interval: Span(1000 * MS), connections: 3, tls: true }
    }

    #[test]
    fn rpm_draft_one_connection_is_added_every_interval_up_to_mnp() {
        let all = played(&rpm(), 2500, 20_000);
        let at = |what: Step| all.iter().filter(|one| one.1 == what).map(|one| one.0).collect::<Vec<_>>();
        assert_eq!(at(Step::Load), [0, 1000, 2000]);
        assert_eq!(at(Step::Stop), [9000]);
        assert_eq!(at(Step::Close(2_500_000)), (1..=9).map(|s| s * 1000).collect::<Vec<_>>());
    }

    #[test]
    fn rpm_draft_probes_take_at_most_5_percent_of_the_capacity() {
        // 20 Mbit/s: 5 % are 125 000 bytes a second, 20.8 pairs of 6000 bytes; both kinds in turns, every 24 ms.
        let all = played(&rpm(), 2500, 20_000);
        let probes: Vec<_> = all.iter().filter(|one| matches!(one.1, Step::Foreign | Step::Own)).collect();
        assert_eq!(probes[..3], [&(1000, Step::Foreign), &(1024, Step::Own), &(1048, Step::Foreign)]);
        let in_a_second = probes.iter().filter(|one| (2000..3000).contains(&one.0)).count();
        assert!((41..=42).contains(&in_a_second), "{in_a_second}");
        assert!(
            probes.iter().all(|one| (1000..9000).contains(&one.0)),
            "before the first interval's end, or after stop"
        );
    }

    #[test]
    fn rpm_draft_there_are_at_most_100_probes_a_second() {
        // 1 Gbit/s: 5 % would be 2083 probes.
        let all = played(&rpm(), 125_000, 3000);
        let probes = all.iter().filter(|one| matches!(one.1, Step::Foreign | Step::Own) && one.0 >= 2000).count();
        assert_eq!(probes, 100);
    }

    #[test]
    fn without_goodput_there_is_no_probe_and_a_late_one_begins_the_probes() {
        assert!(played(&rpm(), 0, 9000).iter().all(|one| !matches!(one.1, Step::Foreign | Step::Own)));
        let mut tester = Tester::new(&rpm(), Rng::stream(1, "probes"));
        assert_eq!(tester.act(Time(0), 0, &rpm()).0, [Step::Load]);
        assert_eq!(tester.act(Time(1000 * MS), 0, &rpm()).0, [Step::Close(0), Step::Load]);
        assert_eq!(tester.act(Time(2000 * MS), 1, &rpm()).0, [Step::Close(1), Step::Load, Step::Foreign]);
    }

    #[test]
    fn self_probes_are_spread_evenly_over_the_connections() {
        let mut tester = Tester::new(&rpm(), Rng::stream(1, "probes"));
        let mut counts = [0; 4];
        (0..4000).for_each(|_| counts[tester.choose(4)] += 1);
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
