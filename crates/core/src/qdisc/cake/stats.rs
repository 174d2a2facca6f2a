//! Cake's counters, under the keys of `tc -s -j qdisc`.

use super::Cake;
use super::tins::{Set, Tin};
use crate::qdisc::stats::{Count, Stats, numbers};

fn of_tin(tin: &Tin) -> Stats {
    let counts = &tin.counts;
    numbers([
        ("threshold_rate", tin.rate),
        ("sent_bytes", counts.sent_bytes),
        ("backlog_bytes", tin.backlog),
        ("target_us", tin.cobalt.target / 1000),
        ("interval_us", tin.cobalt.interval / 1000),
        ("peak_delay_us", counts.peak_delay / 1000),
        ("avg_delay_us", counts.avg_delay / 1000),
        ("base_delay_us", counts.base_delay / 1000),
        ("sent_packets", counts.sent_packets),
        ("way_indirect_hits", counts.way_indirect_hits),
        ("way_misses", counts.way_misses),
        ("way_collisions", counts.way_collisions),
        ("drops", counts.drops),
        ("ecn_mark", counts.ecn_mark),
        ("ack_drops", counts.ack_drops),
        ("sparse_flows", u64::from(tin.sparse + tin.decaying)),
        ("bulk_flows", u64::from(tin.bulk)),
        ("unresponsive_flows", counts.unresponsive_flows),
        ("max_pkt_len", u64::from(counts.max_pkt_len)),
        ("flow_quantum", u64::from(tin.flow_quantum)),
    ])
}

impl<P> Cake<P> {
    /// Returns the counters of the whole discipline and of each tin.
    pub(super) fn counters(&self) -> Stats {
        let tins = self.params.tins.order().iter().map(|&tin| of_tin(&self.tins[tin]));
        let mut stats = numbers([
            ("memory_used", self.buffer_max_used),
            ("memory_limit", self.buffer_limit),
            ("capacity_estimate", self.tins[0].rate),
            ("min_network_size", u64::from(self.lengths.netlen.0)),
            ("max_network_size", u64::from(self.lengths.netlen.1)),
            ("min_adj_size", u64::from(self.lengths.adjlen.0)),
            ("max_adj_size", u64::from(self.lengths.adjlen.1)),
            ("avg_hdr_offset", (self.avg_netoff + 0x8000) >> 16),
        ]);
        stats.push(("tins", Count::Tins(tins.collect())));
        stats
    }

    /// Sums over the queues that are in a round.
    pub(super) fn sums(&self) -> Stats {
        let tins = || self.params.tins.order().iter().map(|&tin| &self.tins[tin]);
        let listed = || tins().flat_map(|tin| tin.flows.iter()).filter(|flow| flow.set != Set::None);
        alloc::vec![
            ("flows", (listed().count() as u64).into()),
            ("qlen", listed().map(|flow| u64::from(flow.fifo.packets())).sum::<u64>().into()),
            ("deficit", listed().map(|flow| i64::from(flow.deficit)).sum::<i64>().into()),
            ("count", listed().map(|flow| u64::from(flow.cobalt.count)).sum::<u64>().into()),
            ("dropping", listed().map(|flow| u64::from(flow.cobalt.dropping)).sum::<u64>().into()),
        ]
    }
}
