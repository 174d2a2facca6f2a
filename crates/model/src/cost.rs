//! What a run costs at most: the packets that its links can transmit, and about how many packets it holds at once.
//!
//! The numbers follow from rates, delays and limits, without playing anything. They are made for the question whether a run
//! fits into a machine's time and memory, not for a forecast: traffic that does not fill its links costs less.

use sojourn_core::tcp::{Cc, HyStart};
use sojourn_core::units::{Rate, Time};

use crate::describe::Description;
use crate::path::{self, PACKET};
use crate::scenario::{Capacity, Hop, Link};
use crate::traffic::{Flow, What};
use crate::workload::Direction;

/// Packets of a queue whose discipline limits memory instead of packets.
const OF_MEMORY: f64 = 20_000.0;

/// The cost of a run.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Cost {
    /// Transmissions of packets over all links, at most.
    pub transmissions: f64,
    /// Packets in flight and in queues at the same time, about.
    pub held: f64,
    /// The queue that holds most of them, and how many it holds.
    pub queue: String,
    /// Packets in this queue, about.
    pub queued: f64,
}

/// Estimates the cost of a run.
pub(crate) fn of(described: &Description) -> Cost {
    let mut cost = Cost::default();
    for (index, hop) in described.hops.iter().enumerate() {
        let both = [Direction::Right, Direction::Left];
        let [right, left] = both.map(|way| Load::of(described, index, way));
        for (name, link, own, other) in
            [(hop.name.clone(), &hop.right, &right, &left), (format!("{}.reverse", hop.name), &hop.left, &left, &right)]
        {
            let capacity = path::carried(&link.rate, described.duration) as f64 / f64::from(link.wire_bytes(PACKET));
            cost.transmissions += own.packets(capacity) + other.answers(hop, described.duration);
            let queued = own.queued(link, described.duration);
            cost.held += queued + own.in_flight(link);
            if queued > cost.queued {
                (cost.queue, cost.queued) = (name, queued);
            }
        }
    }
    cost
}

/// The flows that send data over one hop in one direction.
#[derive(Default)]
struct Load {
    /// Packets of flows with a constant rate during the run, and the bits that they send a second.
    fixed: (f64, f64),
    /// Flows that send as fast as they can, and the longest base RTT among them in seconds.
    greedy: f64,
    rtt_s: f64,
    /// Whether one of them begins with a slow start that only a loss ends.
    blind: bool,
}

impl Load {
    fn of(described: &Description, hop: usize, way: Direction) -> Load {
        let mut load = Load::default();
        for (flow, count) in &described.flows {
            if !(flow.via.0..=flow.via.1).contains(&hop) || !flow.directions.contains(&way) {
                continue;
            }
            let count = f64::from(*count);
            match interval_s(flow) {
                Some(interval_s) => {
                    load.fixed.0 += count * described.duration.as_secs_f64() / interval_s;
                    load.fixed.1 += count * f64::from(flow.largest()) * 8.0 / interval_s;
                }
                None => {
                    load.greedy += count;
                    load.rtt_s = load.rtt_s.max(flow.rtt.nominal().as_secs_f64());
                    load.blind |= flow.tcp.cc != Cc::Cubic || flow.tcp.hystart == HyStart::Off;
                }
            }
        }
        load
    }

    /// Packets that these flows send, where the link carries at most `capacity` full packets.
    fn packets(&self, capacity: f64) -> f64 {
        if self.greedy > 0.0 { capacity.max(self.fixed.0) } else { self.fixed.0 }
    }

    /// Packets that answer those of these flows: an ACK for two segments, or a reply.
    fn answers(&self, hop: &Hop, duration: Time) -> f64 {
        let most = |link: &Link| path::carried(&link.rate, duration) as f64 / f64::from(link.wire_bytes(PACKET));
        self.packets(most(&hop.right).max(most(&hop.left))) / 2.0
    }

    /// Packets of greedy flows that the link's bandwidth-delay product holds.
    fn in_flight(&self, link: &Link) -> f64 {
        if self.greedy == 0.0 { 0.0 } else { greatest(&link.rate).0 as f64 * self.rtt_s / 8.0 / f64::from(PACKET) }
    }

    /// Packets in the queue of the link, about.
    fn queued(&self, link: &Link, duration: Time) -> f64 {
        let limit = match path::buffer_packets(link) {
            0.0 => OF_MEMORY,
            packets => packets,
        };
        let seconds = duration.as_secs_f64();
        let carried = path::carried(&link.rate, duration) as f64 / f64::from(link.wire_bytes(PACKET));
        let excess = (1.0 - path::first_rate(&link.rate).0 as f64 / self.fixed.1.max(1.0)).max(0.0) * self.fixed.0;
        // A slow start that only a loss ends doubles what is sent, so that a queue grows by what it delivers. CUBIC's ends
        // at about twice the bandwidth-delay product; then the window grows with the cube of time (RFC 9438 §4.2).
        let of_greedy = match () {
            () if self.greedy == 0.0 => 0.0,
            () if self.blind => carried,
            () => (2.0 * self.in_flight(link) + self.greedy * 0.4 * seconds * seconds * seconds).min(carried),
        };
        (excess + of_greedy).min(limit)
    }
}

/// Returns the seconds between two packets of a flow that sends at a constant rate.
fn interval_s(flow: &Flow) -> Option<f64> {
    match &flow.what {
        What::Thin { interval, .. } | What::Pings { interval, .. } | What::Stream { interval, .. } => {
            Some(interval.as_secs_f64())
        }
        _ => None,
    }
}

fn greatest(capacity: &Capacity) -> Rate {
    match capacity {
        Capacity::Steps(steps) => steps.iter().map(|(_, rate)| *rate).max().unwrap_or(Rate(1)),
        Capacity::Trace(_) => path::first_rate(capacity),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LoadOptions, Plan};

    fn cost(hop: &str, flow: &str) -> Cost {
        let text = format!("duration = \"10s\"\n[[hop]]\nname = \"l\"\ndelay = \"10ms\"\n{hop}\n[[flow]]\n{flow}\n");
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        plan.cost(0).expect("a run")
    }

    #[test]
    fn a_link_that_is_filled_transmits_what_it_can_carry_and_half_as_many_acks() {
        let cost = cost("rate = \"121.12mbit\"\nqdisc = \"pfifo limit 100\"", "kind = \"bulk\"");
        // 1514 bytes take 100 us.
        assert!((cost.transmissions - 150_000.0).abs() < 1.0, "{cost:?}");
        assert_eq!((cost.queue.as_str(), cost.queued), ("l", 100.0));
    }

    #[test]
    fn a_stream_costs_what_it_sends_and_its_excess_waits() {
        let stream = "kind = \"cbr\"\nsize = 1250\nrate = \"100mbit\"";
        let idle = cost("rate = \"1gbit\"\nqdisc = \"pfifo limit 4294967295\"", stream);
        assert_eq!((idle.transmissions, idle.held), (150_000.0, 0.0));
        let full = cost("rate = \"10mbit\"\nqdisc = \"pfifo limit 4294967295\"", stream);
        assert!((full.held - 90_000.0).abs() < 1.0, "nine of ten of 100000 packets: {full:?}");
        let least = cost("rate = \"10mbit\"\nqdisc = \"pfifo limit 50\"", stream);
        assert_eq!(least.held, 50.0);
    }

    #[test]
    fn a_queue_without_a_limit_holds_what_slow_start_leaves_in_it() {
        let endless = "rate = \"1gbit\"\nqdisc = \"pfifo limit 4294967295\"";
        let [cubic, reno] = ["cubic", "reno"].map(|cc| cost(endless, &format!("kind = \"bulk\"\ncc = \"{cc}\"")));
        assert!(reno.queued > 800_000.0, "{reno:?}");
        assert!(cubic.queued < 5_000.0, "{cubic:?}");
    }
}
