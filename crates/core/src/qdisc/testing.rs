//! Helpers for the tests of several disciplines: a packet, and a bench that feeds a discipline and keeps the books.

use super::{Context, Count, DropReason, Qdisc, Stats};
use crate::packet::{Ecn, Packet, Segment};
use crate::units::{Rate, Span, Time};
use alloc::vec::Vec;

/// A packet with a number by which it is known again.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Parcel {
    pub id: u32,
    pub hash: u32,
    pub bytes: u32,
    pub ecn: Ecn,
    pub dscp: u8,
    pub enqueue_time: Time,
    pub opens: bool,
    pub hosts: Option<(u32, u32)>,
    pub segment: Option<Segment>,
}

impl Packet for Parcel {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow_hash(&self) -> u32 {
        self.hash
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }
    fn hosts(&self) -> (u32, u32) {
        self.hosts.unwrap_or((self.hash, 0))
    }
    fn segment(&self) -> Option<Segment> {
        self.segment
    }
    fn enqueue_time(&self) -> Time {
        self.enqueue_time
    }
    fn set_enqueue_time(&mut self, now: Time) {
        self.enqueue_time = now;
    }
    fn opens(&self) -> bool {
        self.opens
    }
}

/// 100 Mbit/s, 10 ms, frames of 1514 bytes, seed 1.
pub const CONTEXT: Context =
    Context { mtu: 1514, overhead: 14, rate: Rate(100_000_000), delay: Span::from_millis(10), skb: 0, seed: 1 };

/// `n` milliseconds since the start.
pub fn ms(n: u64) -> Time {
    Time(n * 1_000_000)
}

/// A discipline under test.
pub struct Bench<Q> {
    pub qdisc: Q,
    pub drops: Vec<(Parcel, DropReason)>,
    next_id: u32,
}

impl<Q: Qdisc<Parcel>> Bench<Q> {
    pub fn new(qdisc: Q) -> Self {
        Bench { qdisc, drops: Vec::new(), next_id: 0 }
    }

    /// A packet of this flow arrives; gives its number.
    pub fn put(&mut self, now: Time, hash: u32, bytes: u32) -> u32 {
        self.put_ecn(now, hash, bytes, Ecn::NotEct)
    }

    pub fn put_ecn(&mut self, now: Time, hash: u32, bytes: u32, ecn: Ecn) -> u32 {
        self.arrive(now, Parcel { hash, bytes, ecn, ..Parcel::default() })
    }

    /// A SYN of this flow arrives.
    pub fn put_syn(&mut self, now: Time, hash: u32) -> u32 {
        self.arrive(now, Parcel { hash, bytes: 60, opens: true, ..Parcel::default() })
    }

    pub fn put_dscp(&mut self, now: Time, hash: u32, bytes: u32, dscp: u8) -> u32 {
        self.arrive(now, Parcel { hash, bytes, dscp, ..Parcel::default() })
    }

    /// A packet arrives, but for its number, which this gives.
    pub fn arrive(&mut self, now: Time, packet: Parcel) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        self.qdisc.enqueue(now, Parcel { id, ..packet }, &mut self.drops);
        id
    }

    /// `count` packets of this flow arrive at once.
    pub fn fill(&mut self, now: Time, hash: u32, bytes: u32, count: u32) {
        for _ in 0..count {
            self.put(now, hash, bytes);
        }
    }

    pub fn take(&mut self, now: Time) -> Option<Parcel> {
        self.qdisc.dequeue(now, &mut self.drops)
    }

    /// The flow of the next packet.
    pub fn take_flow(&mut self, now: Time) -> Option<u32> {
        self.take(now).map(|packet| packet.hash)
    }

    /// Drops since the last call, by number and reason.
    pub fn new_drops(&mut self) -> Vec<(u32, DropReason)> {
        self.drops.drain(..).map(|(packet, reason)| (packet.id, reason)).collect()
    }

    /// The counter of this name; `tins.1.drops` is that of the second tin.
    pub fn counter(&self, name: &str) -> u64 {
        counter(&self.qdisc.stats(), name)
    }
}

/// As [`Bench::counter`] (a probability is a share of 2^64), of counters that were read already.
pub fn counter(stats: &Stats, name: &str) -> u64 {
    let found = |stats: &Stats, name: &str| stats.iter().find(|(key, _)| *key == name).map(|(_, count)| count.clone());
    let count = match (name.strip_prefix("tins.").and_then(|rest| rest.split_once('.')), found(stats, "tins")) {
        (Some((tin, name)), Some(Count::Tins(tins))) => found(&tins[tin.parse::<usize>().expect("a tin")], name),
        _ => found(stats, name),
    };
    match count {
        Some(Count::Number(number)) => number,
        Some(Count::Flag(flag)) => u64::from(flag),
        Some(Count::Signed(number)) => number as u64,
        Some(Count::Real(share)) => (share * u64::MAX as f64) as u64,
        other => panic!("no number {name}, but {other:?}, in {stats:?}"),
    }
}
