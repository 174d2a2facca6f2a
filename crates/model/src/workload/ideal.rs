//! How soon a transfer could be complete if nothing else were on its path: what a slowdown is reckoned from.
//!
//! A transfer of n segments begins with the handshake, a base RTT. Then come rounds of slow start: a window of IW segments,
//! doubled each base RTT, as long as the slowest link sends a window in less than that. From then on, and in the last
//! round, the link is busy without a break. The last bit reaches the receiver one way's delay after it was sent. An
//! answer to a request begins a base RTT and the server's thinking later, and a connection that stands needs no handshake
//! and, so that nothing is faster than ideal, no slow start. Links are as fast as they ever are in the run.

use sojourn_core::tcp::Config;
use sojourn_core::units::{Rate, Span};

use crate::scenario::{Capacity, Link, Scenario};

use super::{Direction, Entry};

/// What an empty path has for the transfers of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ideal {
    rtt: Span,
    /// From the data's sender to its receiver.
    one_way: Span,
    rate: Rate,
    /// Payload of a segment, and what comes on top of it at the slowest link.
    mss: u32,
    header: u32,
    iw: u32,
}

/// What a transfer consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// So many bytes over a new connection, opened by their sender.
    Sent(u64),
    /// An answer of so many bytes to a request, whose sender opens the connection first if it is new.
    Answered {
        /// Bytes of the answer.
        bytes: u64,
        /// What the server took to think.
        thinking: Span,
        /// Whether the connection was opened for it.
        opened: bool,
    },
}

impl Ideal {
    /// Of an entry's path.
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
        let slowest = there.iter().map(|link| (fastest(&link.rate), link.overhead)).min();
        let own = access.map(|access| (access.rate, 0));
        let (rate, overhead) = slowest.into_iter().chain(own).min().unwrap_or_default();
        let Config { mss, iw, header, .. } = entry.tcp;
        Ideal { rtt, one_way, rate, mss, header: header + overhead, iw }
    }

    /// From its beginning to its last byte at the receiver.
    pub fn time(&self, task: Task) -> Span {
        match task {
            Task::Sent(bytes) => self.rtt + self.slow_start(bytes) + self.one_way,
            Task::Answered { bytes, thinking, opened } => {
                let rest = if opened { self.rtt + self.slow_start(bytes) } else { self.busy(bytes) };
                self.rtt + thinking + rest
            }
        }
    }

    /// From the first bit to the last, when windows grow from IW.
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

    /// How long the slowest link sends so many bytes with their headers.
    fn busy(&self, bytes: u64) -> Span {
        let wire = bytes + bytes.div_ceil(u64::from(self.mss.max(1))) * u64::from(self.header);
        Span((u128::from(wire) * 8_000_000_000 / u128::from(self.rate.0.max(1))) as u64)
    }
}

/// The greatest rate of the run; of a trace its mean.
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

    /// 10 Mbit/s and 100 ms: a segment takes 1.2 ms, a round 83 segments.
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
        // 10, 20, 40 and 80 segments take a round each; 160 would keep the link busy: the other 50 follow each other.
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
