//! Bytes acknowledged, round-trip times and retransmissions of TCP senders, seen from the wire.
//!
//! This module is pure. The times are those at which packets leave and reach the hosts, so that an RTT lacks only the
//! time that the host itself takes. As a sender does, it takes no RTT from a segment that was sent twice (RFC 6298 §3).

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use sojourn_core::units::{Span, Time};
use sojourn_traffic::probe::{Record, Socket};

use crate::frame::{FIN, Facts, SYN, TCP};

/// A direction of a connection: hosts and ports of sender and receiver.
type Key = ([u32; 2], [u16; 2]);

/// A segment that is not acknowledged.
struct Segment {
    /// The sequence number after its last byte.
    end: u32,
    left: Time,
    is_repeated: bool,
}

/// The state of a direction.
struct Sender {
    /// The sequence number after the highest byte sent.
    next: u32,
    /// The sequence number after the highest byte acknowledged.
    acked: u32,
    segments: VecDeque<Segment>,
    /// Smoothed RTT (RFC 6298 §2).
    srtt: Span,
}

/// All directions that have sent data.
pub struct Senders {
    all: HashMap<Key, Sender>,
    origin: u64,
}

/// Returns whether sequence number `a` is after `b`.
fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Senders {
    /// Creates the state without senders. `origin` is time zero on the clock of the records.
    pub fn new(origin: u64) -> Senders {
        Senders { all: HashMap::new(), origin }
    }

    /// A packet has left its host. Retransmissions are passed to `tell`.
    pub fn leaves_host(&mut self, now: Time, facts: &Facts, mut tell: impl FnMut(Record)) {
        if facts.protocol != TCP {
            return;
        }
        let key = (facts.hosts, facts.ports);
        let length = facts.payload + u32::from(facts.flags & SYN != 0) + u32::from(facts.flags & FIN != 0);
        if length == 0 {
            return;
        }
        let end = facts.seq.wrapping_add(length);
        let fresh = || Sender { next: facts.seq, acked: facts.seq, segments: VecDeque::new(), srtt: Span::ZERO };
        let sender = self.all.entry(key).or_insert_with(fresh);
        if facts.flags & SYN != 0 && sender.segments.is_empty() {
            // The port is used again.
            *sender = fresh();
        }
        if after(end, sender.next) {
            sender.next = end;
            sender.segments.push_back(Segment { end, left: now, is_repeated: false });
            return;
        }
        let first = facts.seq;
        for segment in
            sender.segments.iter_mut().filter(|segment| after(segment.end, first) && !after(segment.end, end))
        {
            segment.is_repeated = true;
        }
        tell(Record::Retransmitted {
            socket: socket(facts, false, self.origin + now.0),
            seq: facts.seq,
            payload: length,
        });
    }

    /// A packet has reached its host. If it acknowledges data, this is passed to `tell`.
    pub fn reaches_host(&mut self, now: Time, facts: &Facts, mut tell: impl FnMut(Record)) {
        const ACK: u8 = 0x10;
        if facts.protocol != TCP || facts.flags & ACK == 0 {
            return;
        }
        let key = ([facts.hosts[1], facts.hosts[0]], [facts.ports[1], facts.ports[0]]);
        let Some(sender) = self.all.get_mut(&key) else { return };
        if !after(facts.ack, sender.acked) || after(facts.ack, sender.next) {
            return;
        }
        let payload = facts.ack.wrapping_sub(sender.acked);
        sender.acked = facts.ack;
        let mut newest = None;
        while sender.segments.front().is_some_and(|segment| !after(segment.end, facts.ack)) {
            newest = sender.segments.pop_front();
        }
        let rtt = newest.filter(|segment| !segment.is_repeated).map(|segment| now.since(segment.left));
        if let Some(rtt) = rtt {
            sender.srtt = if sender.srtt == Span::ZERO { rtt } else { Span((sender.srtt.0 * 7 + rtt.0) / 8) };
        }
        let micros = |span: Span| (span.0 / 1000) as u32;
        tell(Record::Acked {
            socket: socket(facts, true, self.origin + now.0),
            payload,
            rtt_us: rtt.map_or(0, micros),
            srtt_us: micros(sender.srtt),
            // The window is known to the sender alone.
            cwnd: 0,
            inflight: sender.segments.len() as u32,
        });
    }
}

/// The sender's socket: `back` if the packet goes towards it.
fn socket(facts: &Facts, back: bool, at: u64) -> Socket {
    let turned = |[a, b]: [u32; 2]| if back { [b, a] } else { [a, b] };
    let [from, to] = facts.ports;
    Socket { hosts: turned(facts.hosts).map(Ipv4Addr::from), ports: if back { [to, from] } else { [from, to] }, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: u8 = 0x10;

    fn data(seq: u32, payload: u32, flags: u8) -> Facts {
        Facts { hosts: [1, 2], ports: [3, 4], protocol: TCP, flags: flags | ACK, payload, seq, ..Facts::default() }
    }

    fn ack(ack: u32) -> Facts {
        Facts { hosts: [2, 1], ports: [4, 3], protocol: TCP, flags: ACK, ack, ..Facts::default() }
    }

    fn acked(senders: &mut Senders, at: u64, number: u32) -> Option<(u32, u32)> {
        let mut found = None;
        senders.reaches_host(Time(at), &ack(number), |record| {
            let Record::Acked { payload, rtt_us, socket, .. } = record else { panic!("{record:?}") };
            assert_eq!((socket.ports, socket.at), ([3, 4], at));
            found = Some((payload, rtt_us));
        });
        found
    }

    #[test]
    fn an_rtt_is_that_of_the_newest_segment_that_an_ack_covers() {
        let mut senders = Senders::new(0);
        let start = u32::MAX - 10;
        for (at, seq) in [(0, start), (5_000, start.wrapping_add(100))] {
            senders.leaves_host(Time(at), &data(seq, 100, 0), |_| panic!("sent once"));
        }
        assert_eq!(acked(&mut senders, 25_000, start.wrapping_add(200)), Some((200, 20)));
        assert_eq!(acked(&mut senders, 26_000, start.wrapping_add(200)), None, "a second ACK of the same");
        assert_eq!(acked(&mut senders, 27_000, start.wrapping_add(900)), None, "an ACK of bytes that were never sent");
    }

    #[test]
    fn a_segment_that_was_sent_twice_has_no_rtt() {
        let mut senders = Senders::new(0);
        senders.leaves_host(Time(0), &data(7, 100, 0), |_| panic!("sent once"));
        let mut reported = 0;
        senders.leaves_host(Time(9_000), &data(7, 100, 0), |record| {
            reported += u32::from(matches!(record, Record::Retransmitted { seq: 7, payload: 100, .. }));
        });
        assert_eq!(reported, 1);
        assert_eq!(acked(&mut senders, 20_000, 107), Some((100, 0)));
    }

    #[test]
    fn syn_and_fin_take_a_sequence_number() {
        let mut senders = Senders::new(0);
        senders.leaves_host(Time(0), &data(7, 0, SYN), |_| panic!("sent once"));
        assert_eq!(acked(&mut senders, 1_000, 8), Some((1, 1)));
        senders.leaves_host(Time(2_000), &data(8, 10, FIN), |_| panic!("sent once"));
        assert_eq!(acked(&mut senders, 3_000, 19), Some((11, 1)));
    }
}
