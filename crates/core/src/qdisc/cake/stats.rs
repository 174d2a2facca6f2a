//! What cake counted, under the keys of `tc -s -j qdisc`; those of its array `tins` with the tin's place before them.

use super::Cake;
use super::tins::Tin;
use crate::qdisc::Stats;
use alloc::vec::Vec;

/// Keys of a tin, in `tc`'s order.
macro_rules! keys_of_tins {
    ($($place:literal),+) => {
        [$([
            concat!("tins.", $place, ".threshold_rate"),
            concat!("tins.", $place, ".sent_bytes"),
            concat!("tins.", $place, ".backlog_bytes"),
            concat!("tins.", $place, ".target_us"),
            concat!("tins.", $place, ".interval_us"),
            concat!("tins.", $place, ".peak_delay_us"),
            concat!("tins.", $place, ".avg_delay_us"),
            concat!("tins.", $place, ".base_delay_us"),
            concat!("tins.", $place, ".sent_packets"),
            concat!("tins.", $place, ".way_indirect_hits"),
            concat!("tins.", $place, ".way_misses"),
            concat!("tins.", $place, ".way_collisions"),
            concat!("tins.", $place, ".drops"),
            concat!("tins.", $place, ".ecn_mark"),
            concat!("tins.", $place, ".ack_drops"),
            concat!("tins.", $place, ".sparse_flows"),
            concat!("tins.", $place, ".bulk_flows"),
            concat!("tins.", $place, ".unresponsive_flows"),
            concat!("tins.", $place, ".max_pkt_len"),
            concat!("tins.", $place, ".flow_quantum"),
        ]),+]
    };
}

const KEYS: usize = 20;
static TINS: [[&str; KEYS]; 8] = keys_of_tins!(0, 1, 2, 3, 4, 5, 6, 7);

fn of_tin(tin: &Tin) -> [u64; KEYS] {
    let counts = &tin.counts;
    [
        tin.rate,
        counts.sent_bytes,
        tin.backlog,
        tin.cobalt.target / 1000,
        tin.cobalt.interval / 1000,
        counts.peak_delay / 1000,
        counts.avg_delay / 1000,
        counts.base_delay / 1000,
        counts.sent_packets,
        counts.way_indirect_hits,
        counts.way_misses,
        counts.way_collisions,
        counts.drops,
        counts.ecn_mark,
        counts.ack_drops,
        u64::from(tin.sparse + tin.decaying),
        u64::from(tin.bulk),
        counts.unresponsive_flows,
        u64::from(counts.max_pkt_len),
        u64::from(tin.flow_quantum),
    ]
}

impl<P> Cake<P> {
    /// All of it, and how often the shaper held packets back.
    pub(super) fn counters(&self) -> Stats {
        let all = |of: fn(&Tin) -> u64| self.tins.iter().map(of).sum();
        let mut stats = alloc::vec![
            ("drops", all(|tin| tin.counts.drops + tin.counts.ack_drops)),
            ("overlimits", self.overlimits),
            ("memory_used", self.buffer_max_used),
            ("memory_limit", self.buffer_limit),
            ("capacity_estimate", self.tins[0].rate),
            ("min_network_size", u64::from(self.lengths.netlen.0)),
            ("max_network_size", u64::from(self.lengths.netlen.1)),
            ("min_adj_size", u64::from(self.lengths.adjlen.0)),
            ("max_adj_size", u64::from(self.lengths.adjlen.1)),
            ("avg_hdr_offset", (self.avg_netoff + 0x8000) >> 16),
        ];
        for (keys, &tin) in TINS.iter().zip(self.params.tins.order()) {
            stats.extend(keys.iter().copied().zip(of_tin(&self.tins[tin])).collect::<Vec<_>>());
        }
        stats
    }
}
