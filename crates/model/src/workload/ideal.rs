//! The ideal time of a transfer: the time that it takes on an empty path. A slowdown is the real time divided by the ideal time.
//!
//! A transfer starts with the handshake, which takes one base RTT. Slow start follows in rounds of one base RTT. The window of the
//! first round is IW segments, and the window doubles with each round. When the slowest link needs at least one base RTT for a
//! window, it sends the rest without a pause. The last bit reaches the receiver one one-way delay after it was sent.
//!
//! A response starts one base RTT and the server's delay after its request. On an open connection it needs no handshake. It is also
//! computed without slow start, because the window may have grown already: no real response is then faster than the ideal one.
//! Each link counts with its largest rate and its smallest delay of the run.

use sojourn_core::tcp::Config;
use sojourn_core::units::{Rate, Span};

use crate::scenario::{Capacity, Link, Scenario};

use super::{Direction, Entry};

/// An empty path, as the transfers of a row see it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ideal {
    rtt: Span,
    /// The delay from the data sender to the data receiver.
    one_way: Span,
    rate: Rate,
    /// The payload of a segment in bytes (`mss`), and the bytes that the slowest link sends in addition to it (`header`).
    mss: u32,
    header: u32,
    iw: u32,
}

/// A task whose duration is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// A transfer of this many bytes over a new connection, which the sender opens.
    Sent(u64),
    /// A request and its response. The client opens the connection first if it is new.
    Answered {
        /// The size of the response in bytes.
        bytes: u64,
        /// The server's delay.
        thinking: Span,
        /// Whether the connection is new.
        opened: bool,
    },
}

impl Ideal {
    /// Returns the empty path of a row.
    pub fn of(scenario: &Scenario, entry: &Entry) -> Ideal {
        let hops = &scenario.hops[entry.via.0..=entry.via.1];
        let (there, back): (Vec<&Link>, Vec<&Link>) = match entry.direction {
            Direction::Right => hops.iter().map(|hop| (&hop.right, &hop.left)).unzip(),
            Direction::Left => hops.iter().map(|hop| (&hop.left, &hop.right)).unzip(),
        };
        let least = |link: &&Link| link.delay.iter().map(|step| step.1).min().unwrap_or_default();
        let sum = |links: &[&Link]| links.iter().map(least).fold(Span::ZERO, |sum, delay| sum + delay);
        let access = scenario.access.as_ref();
        let beside = access.map_or(Span::ZERO, |access| access.delay * 2);
        let delays = entry.delays;
        let one_way = sum(&there) + delays.data_in + delays.data_out + beside;
        let rtt = one_way + sum(&back) + delays.ack_in + delays.ack_out + beside;
        let Config { mss, iw, header, .. } = entry.tcp;
        let segment = mss + header;
        let slowest = there.iter().map(|link| (fastest(&link.rate), link.wire_bytes(segment) - segment)).min();
        let own = access.map(|access| (access.rate, 0));
        let (rate, overhead) = slowest.into_iter().chain(own).min().unwrap_or_default();
        Ideal { rtt, one_way, rate, mss, header: header + overhead, iw }
    }

    /// The time from the start of the task to the arrival of its last byte.
    pub fn time(&self, task: Task) -> Span {
        match task {
            Task::Sent(bytes) => self.rtt + self.slow_start(bytes) + self.one_way,
            Task::Answered { bytes, thinking, opened } => {
                let rest = if opened { self.rtt + self.slow_start(bytes) } else { self.busy(bytes) };
                self.rtt + thinking + rest
            }
        }
    }

    /// The time from sending the first bit to sending the last bit, in slow start from a window of IW segments.
    fn slow_start(&self, bytes: u64) -> Span {
        let (mut left, mut window, mut waited) = (bytes, u64::from(self.iw), Span::ZERO);
        loop {
            let round = window.saturating_mul(u64::from(self.mss));
            if left <= round || self.busy(round) >= self.rtt {
                return waited + self.busy(left);
            }
            left -= round;
            waited += self.rtt;
            window *= 2;
        }
    }

    /// The time for which the slowest link sends this many bytes with their headers.
    fn busy(&self, bytes: u64) -> Span {
        let wire = bytes + bytes.div_ceil(u64::from(self.mss.max(1))) * u64::from(self.header);
        Span((u128::from(wire) * 8_000_000_000 / u128::from(self.rate.0.max(1))) as u64)
    }
}

/// Returns the largest rate of a link in the run; for a trace, its mean rate.
fn fastest(capacity: &Capacity) -> Rate {
    match capacity {
        Capacity::Steps(steps) => steps.iter().map(|step| step.1).max().unwrap_or_default(),
        Capacity::Trace(trace) => trace.mean_rate(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    /// A path of 10 Mbit/s and 100 ms. A segment takes 1.2 ms, and the link sends 83 segments in a base RTT.
    fn ideal() -> Ideal {
        Ideal { rtt: MS * 100, one_way: MS * 50, rate: Rate(10_000_000), mss: 1448, header: 52, iw: 10 }
    }

    #[test]
    fn a_transfer_within_the_first_window_takes_handshake_serialisation_and_one_way() {
        assert_eq!(ideal().time(Task::Sent(10 * 1448)), MS * 150 + MS * 12);
        assert_eq!(ideal().time(Task::Sent(1)), MS * 150 + Span(42_400));
    }

    #[test]
    fn windows_double_until_the_link_is_busy() {
        // Windows of 10, 20, 40 and 80 segments take a round each. A window of 160 segments would keep the link busy for
        // more than a round, so the remaining 50 segments are sent without a pause.
        let n = 10 + 20 + 40 + 80 + 50;
        assert_eq!(ideal().time(Task::Sent(n * 1448)), MS * (150 + 400) + MS * 60);
        let fast = Ideal { rate: Rate(10_000_000_000), ..ideal() };
        assert_eq!(fast.time(Task::Sent(10 * 1448)).0, 150_000_000 + 12_000);
    }

    #[test]
    fn an_answer_takes_a_round_trip_and_on_a_new_connection_two() {
        let task = |opened| Task::Answered { bytes: 1448, thinking: MS * 7, opened };
        let last = Span(1_200_000);
        assert_eq!(ideal().time(task(true)), MS * 207 + last);
        assert_eq!(ideal().time(task(false)), MS * 107 + last);
    }
}
