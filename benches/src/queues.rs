//! `sojourn-bench replay DISCIPLINE…`: plays the arrivals of P1's bottleneck through a single discipline in front of a
//! link of that rate. The cost of a discipline per packet is then a count of instructions (experiments/speed/instructions.py).

use sojourn_core::packet::{Ecn, Packet};
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Drops, Qdisc};
use sojourn_core::units::{Rate, Span, Time};
use sojourn_sim::Options;

use crate::scenarios;

const RATE: Rate = Rate(100_000_000);
const MTU: u32 = 1514;

/// The smallest packet that disciplines allow.
#[derive(Clone, Copy, Default, Debug)]
struct Parcel {
    bytes: u32,
    hash: u32,
    enqueued: Time,
    at: Time,
}

impl Packet for Parcel {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow_hash(&self) -> u32 {
        self.hash
    }
    fn hosts(&self) -> (u32, u32) {
        (self.hash, self.hash)
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ecn(&mut self, _: Ecn) {}
    fn enqueue_time(&self) -> Time {
        self.enqueued
    }
    fn set_enqueue_time(&mut self, now: Time) {
        self.enqueued = now;
    }
}

/// Counted results.
#[derive(serde::Serialize)]
pub struct Counted {
    /// Number of packets that arrived, in all repetitions.
    packets: u64,
    dropped: u64,
    delivered: u64,
}

/// Counts drops.
struct Count(u64);

impl Drops<Parcel> for Count {
    fn dropped(&mut self, _: Parcel, _: DropReason) {
        self.0 += 1;
    }
}

/// Plays the arrivals of `flows` bulk flows `repeat` times through a new discipline.
pub fn replay(line: &str, flows: u32, repeat: u32) -> Result<Counted, String> {
    let (spec, _) = Spec::parse(line).map_err(|error| error.to_string())?;
    let arrivals = arrivals(flows)?;
    let context = Context { mtu: MTU, overhead: 14, rate: RATE, delay: Span::from_millis(50), skb: 0, seed: 1 };
    let mut counted = Counted { packets: 0, dropped: 0, delivered: 0 };
    for _ in 0..repeat {
        let mut queue = spec.build(&context);
        let mut drops = Count(0);
        counted.delivered += play(&mut queue, &arrivals, &mut drops);
        counted.packets += arrivals.len() as u64;
        counted.dropped += drops.0;
    }
    Ok(counted)
}

/// The arrivals at P1's bottleneck in its first ten seconds.
fn arrivals(flows: u32) -> Result<Vec<Parcel>, String> {
    let mut scenario = scenarios::p1(flows);
    scenario.duration = Time(10_000_000_000);
    scenario.measure.1 = scenario.duration;
    let options = Options { packets: true, ..Options::default() };
    let output = sojourn_sim::run(&scenario, &options).map_err(|stopped| format!("{stopped:?}"))?;
    let rightward = output.packets.iter().filter(|packet| packet.link == 0);
    let mut arrivals: Vec<Parcel> = rightward
        .map(|packet| Parcel {
            bytes: packet.bytes,
            hash: packet.entry.wrapping_mul(2_654_435_769),
            enqueued: Time::ZERO,
            at: packet.arrival,
        })
        .collect();
    arrivals.sort_by_key(|packet| packet.at);
    Ok(arrivals)
}

/// Plays the arrivals through a queue in front of the link; returns the number of packets delivered until the last
/// arrival.
#[inline(never)]
fn play(queue: &mut AnyQdisc<Parcel>, arrivals: &[Parcel], drops: &mut Count) -> u64 {
    let (mut free, mut idle, mut delivered) = (Time::ZERO, true, 0);
    let mut leaving = Parcel::default();
    for packet in arrivals {
        while !idle && free < packet.at {
            idle = !queue.dequeue_into(free, &mut leaving, drops);
            if !idle {
                free += RATE.serialise(leaving.bytes);
                delivered += 1;
            }
        }
        queue.enqueue(packet.at, *packet, drops);
        if idle && queue.dequeue_into(packet.at, &mut leaving, drops) {
            (free, idle) = (packet.at + RATE.serialise(leaving.bytes), false);
            delivered += 1;
        }
    }
    delivered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_discipline_gets_the_same_arrivals_and_loses_none() {
        let fifo = replay("pfifo limit 100000", 1, 1).expect("a line");
        assert!(fifo.packets > 50_000 && fifo.dropped == 0);
        let codel = replay("codel", 1, 2).expect("a line");
        assert_eq!(codel.packets, 2 * fifo.packets);
        assert!(codel.delivered + codel.dropped <= codel.packets);
        assert!(replay("codle", 1, 1).is_err());
    }
}
