//! A test of responsiveness under working conditions (draft-ietf-ippm-responsiveness-06): connections that load the path,
//! one more each interval, and probes beside and on them.
//!
//! The client stands at the right end: data to the right are downloads, data to the left uploads. A **foreign** probe is a
//! new connection: the TCP handshake, one round trip of TLS, one request for a byte. A **self** probe is a request on a
//! connection that carries load. The worlds move the bytes; what is due when is decided here, and what the times mean in
//! `sojourn_measure::responsiveness`.
//!
//! The draft leaves open, or says in two ways, and here it is so: MPS counts probes of both kinds together (the 300 kB a
//! second that the draft reckons with); there is no probe before the first interval has shown a capacity, and from then on
//! PTC is of the moving average; the load goes on when the result is there. Bytes of requests and answers are ours, within
//! what the draft reckons with.

use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};

/// MAD: so many intervals count.
pub const MAD: usize = 4;
/// MPS: so many probes a second at most.
pub const MPS: u64 = 100;
/// PTC: the share of the capacity that probes may take, in percent.
pub const PTC: u64 = 5;
/// Bytes that a foreign and a self probe are reckoned to move, as in the draft.
pub const PROBE_BYTES: (u64, u64) = (5000, 1000);

/// A TLS client's first message and the server's answer with its certificates.
pub const HELLO: u32 = 500;
/// See [`HELLO`].
pub const FLIGHT: u64 = 3000;
/// A request, and the answer with its one byte of content.
pub const GET: u32 = 100;
/// See [`GET`].
pub const OBJECT: u64 = 100;

/// A test as it is set up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rpm {
    /// The first connection's SYN.
    pub start: Time,
    /// Nothing new at or after this time.
    pub stop: Time,
    /// ID: how long an interval lasts.
    pub interval: Span,
    /// MNP: so many connections carry load at most.
    pub connections: u32,
    /// Whether foreign probes have a round trip of TLS.
    pub tls: bool,
}

/// What a tester wants to be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Do {
    /// An interval is over, in which so many bytes were moved.
    Close(u64),
    /// One more connection that carries load.
    Load,
    /// A foreign probe.
    Foreign,
    /// A self probe, on one of the connections that carry load.
    Own,
    /// No more load.
    Stop,
}

/// The state of a test: every world drives this one.
#[derive(Clone, Debug)]
pub struct Tester {
    /// Chooses connections for self probes.
    rng: Rng,
    /// When the next interval begins.
    tick: Time,
    /// When the next probe is due, and whether it is a foreign one.
    probe: Time,
    foreign: bool,
    opened: u32,
    /// Bytes moved up to the last interval's end, and in each of the last intervals.
    moved: u64,
    goodput: Vec<u64>,
}

impl Tester {
    /// Before the start; `rng` is a stream of its own.
    pub fn new(rpm: &Rpm, rng: Rng) -> Tester {
        let (tick, probe) = (rpm.start, Time::NEVER);
        Tester { rng, tick, probe, foreign: true, opened: 0, moved: 0, goodput: Vec::new() }
    }

    /// What is due now, in order, and when to come back; `moved` is what all connections with load have moved so far.
    pub fn act(&mut self, now: Time, moved: u64, rpm: &Rpm) -> (Vec<Do>, Option<Time>) {
        let mut due = Vec::new();
        if now >= self.tick {
            if self.opened > 0 {
                due.push(Do::Close(self.close(moved)));
            }
            self.tick = now + rpm.interval;
            if self.opened < rpm.connections && now < rpm.stop {
                self.opened += 1;
                due.push(Do::Load);
            }
            if self.probe == Time::NEVER {
                self.probe = self.pace(rpm).map_or(Time::NEVER, |_| now);
            }
        }
        if now >= rpm.stop {
            due.push(Do::Stop);
            return (due, None);
        }
        if now >= self.probe {
            due.push(if self.foreign { Do::Foreign } else { Do::Own });
            self.foreign = !self.foreign;
            self.probe = self.pace(rpm).map_or(Time::NEVER, |pace| now + pace);
        }
        (due, Some(self.tick.min(self.probe).min(rpm.stop)))
    }

    /// Which of so many connections the next self probe takes: each as likely as the others.
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

    /// From one probe to the next: no more than MPS, and no more than PTC of the goodput that the last intervals had in
    /// the mean.
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

    /// What is done in which millisecond, with `rate` bytes moved in each from the start on.
    fn played(rpm: &Rpm, rate: u64, until: u64) -> Vec<(u64, Do)> {
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
        let at = |what: Do| all.iter().filter(|one| one.1 == what).map(|one| one.0).collect::<Vec<_>>();
        assert_eq!(at(Do::Load), [0, 1000, 2000]);
        assert_eq!(at(Do::Stop), [9000]);
        assert_eq!(at(Do::Close(2_500_000)), (1..=9).map(|s| s * 1000).collect::<Vec<_>>());
    }

    #[test]
    fn rpm_draft_probes_take_at_most_5_percent_of_the_capacity() {
        // 20 Mbit/s: 5 % are 125 000 bytes a second, 20.8 pairs of 6000 bytes; both kinds in turns, every 24 ms.
        let all = played(&rpm(), 2500, 20_000);
        let probes: Vec<_> = all.iter().filter(|one| matches!(one.1, Do::Foreign | Do::Own)).collect();
        assert_eq!(probes[..3], [&(1000, Do::Foreign), &(1024, Do::Own), &(1048, Do::Foreign)]);
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
        let probes = all.iter().filter(|one| matches!(one.1, Do::Foreign | Do::Own) && one.0 >= 2000).count();
        assert_eq!(probes, 100);
    }

    #[test]
    fn without_goodput_there_is_no_probe_and_a_late_one_begins_the_probes() {
        assert!(played(&rpm(), 0, 9000).iter().all(|one| !matches!(one.1, Do::Foreign | Do::Own)));
        let mut tester = Tester::new(&rpm(), Rng::stream(1, "probes"));
        assert_eq!(tester.act(Time(0), 0, &rpm()).0, [Do::Load]);
        assert_eq!(tester.act(Time(1000 * MS), 0, &rpm()).0, [Do::Close(0), Do::Load]);
        assert_eq!(tester.act(Time(2000 * MS), 1, &rpm()).0, [Do::Close(1), Do::Load, Do::Foreign]);
    }

    #[test]
    fn self_probes_are_spread_evenly_over_the_connections() {
        let mut tester = Tester::new(&rpm(), Rng::stream(1, "probes"));
        let mut counts = [0; 4];
        (0..4000).for_each(|_| counts[tester.choose(4)] += 1);
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
