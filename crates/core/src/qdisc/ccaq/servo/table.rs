//! Which queue a flow has: a set-associative table.
//!
//! A flow's hash leads to one queue (`reciprocal_scale`, as in fq_codel), which is one of a set of eight. If another
//! flow has it, one of the other seven is taken. So two flows share a queue only if all eight queues of a set are in
//! use; with 1024 queues, 100 flows share none with a probability of more than 99 %, while in fq_codel's table about ten
//! of them do. cake's table does the same (Linux `sch_cake.c`, `cake_hash`).
//!
//! A queue keeps the hash of its last flow, and the flow's state, until a new flow needs it. A flow that pauses
//! therefore finds what was learned about it.

use alloc::vec::Vec;

/// The queues of a set.
pub const WAYS: u32 = 8;
/// The tag of a queue that has had no flow.
const NONE: u32 = 0;

/// The tag of the flow with this hash.
fn tag(hash: u32) -> u32 {
    hash.max(1)
}

/// The hashes of the flows to which the queues belong.
#[derive(Clone, Debug)]
pub struct Table {
    tags: Vec<u32>,
}

/// The queue of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The flow has it already.
    Own(u32),
    /// It is the flow's from now on, without a state of an earlier flow.
    New(u32),
    /// All queues of the set are in use by other flows, so the flow shares one of them.
    Shared(u32),
}

impl Table {
    /// A table of this many queues, which must be a multiple of [`WAYS`].
    pub fn new(queues: u32) -> Self {
        Table { tags: alloc::vec![NONE; queues as usize] }
    }

    /// The queue to which a hash leads.
    #[inline]
    fn leads(&self, hash: u32) -> u32 {
        ((u64::from(hash) * self.tags.len() as u64) >> 32) as u32
    }

    /// Returns true if the queue belongs to the flow with this hash.
    #[inline]
    fn has(&self, hash: u32, queue: u32) -> bool {
        self.tags[queue as usize] == tag(hash)
    }

    /// The queue to which the hash leads, if it belongs to the flow with this hash.
    #[inline]
    pub fn direct(&self, hash: u32) -> Option<u32> {
        Some(self.leads(hash)).filter(|&queue| self.has(hash, queue))
    }

    /// Returns the queue of the flow with this hash. `idle` says how long a queue has had no arrival, or `None` if it
    /// is in use, and `shared` whether packets of several flows wait in it. Both are asked for a flow that has no queue
    /// of its own.
    pub fn find(
        &mut self,
        hash: u32,
        mut idle: impl FnMut(u32) -> Option<u32>,
        shared: impl FnOnce(u32) -> bool,
    ) -> Found {
        let direct = self.leads(hash);
        let set = direct / WAYS * WAYS;
        let ways = (0..WAYS).map(|way| set + (direct + way) % WAYS);
        if let Some(own) = ways.clone().find(|&way| self.has(hash, way)) {
            return Found::Own(own);
        }
        // In another queue its packets would overtake those that wait here.
        if shared(direct) {
            return Found::Shared(direct);
        }
        let mut best = None;
        for way in ways {
            // A queue that has had no flow comes before all others.
            let age = if self.tags[way as usize] == NONE { Some(u32::MAX) } else { idle(way) };
            if age > best.map(|(age, _)| age) {
                best = age.map(|age| (age, way));
            }
        }
        match best {
            Some((_, way)) => {
                self.tags[way as usize] = tag(hash);
                Found::New(way)
            }
            None => Found::Shared(direct),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash that leads to this queue of a table of 1024.
    fn hash(queue: u32, other: u32) -> u32 {
        (queue << 22) + other
    }

    #[test]
    fn a_flow_keeps_its_queue_and_another_of_the_same_direct_queue_gets_a_neighbour() {
        let mut table = Table::new(1024);
        assert_eq!(table.find(hash(9, 1), |_| None, |_| false), Found::New(9));
        assert_eq!(table.find(hash(9, 2), |_| None, |_| false), Found::New(10));
        assert_eq!(table.find(hash(15, 1), |_| None, |_| false), Found::New(15));
        assert_eq!(table.find(hash(15, 2), |_| None, |_| false), Found::New(8), "the set is a ring");
        for (flow, queue) in [(hash(9, 1), 9), (hash(9, 2), 10), (hash(15, 2), 8)] {
            assert_eq!(table.find(flow, |_| None, |_| false), Found::Own(queue));
        }
    }

    #[test]
    fn a_full_set_gives_away_the_queue_that_has_been_idle_for_the_longest_time_and_shares_the_direct_one_if_none_is() {
        let mut table = Table::new(1024);
        for other in 1..=8 {
            assert!(matches!(table.find(hash(16, other), |_| None, |_| false), Found::New(_)));
        }
        assert_eq!(table.find(hash(17, 9), |_| None, |_| false), Found::Shared(17));
        let idle = |queue| [None, Some(5), Some(70), None, Some(70), Some(6), None, None][queue as usize % 8];
        assert_eq!(table.find(hash(16, 10), idle, |_| false), Found::New(18), "the first of two that are equally old");
        assert_eq!(table.find(hash(16, 10), |_| None, |_| false), Found::Own(18));
        assert_eq!(
            table.find(hash(16, 3), |_| None, |_| false),
            Found::Shared(16),
            "the earlier flow of that queue has lost it"
        );
    }

    #[test]
    fn a_flow_stays_in_a_queue_that_it_shares_while_packets_wait_there() {
        let mut table = Table::new(8);
        for other in 1..=8 {
            assert!(matches!(table.find(other, |_| None, |_| false), Found::New(_)));
        }
        assert_eq!(table.find(9, |_| None, |_| false), Found::Shared(0));
        assert_eq!(table.find(9, |_| Some(5), |queue| queue == 0), Found::Shared(0));
        assert_eq!(table.find(9, |_| Some(5), |_| false), Found::New(0));
    }

    #[test]
    fn a_hash_of_zero_is_a_flow_too() {
        let mut table = Table::new(8);
        assert_eq!(table.find(0, |_| None, |_| false), Found::New(0));
        assert_eq!(table.find(0, |_| None, |_| false), Found::Own(0));
    }

    #[test]
    fn a_hundred_flows_of_random_hashes_hardly_ever_share_a_queue() {
        let mut rng = crate::rng::Rng::stream(1, "ccaq's table");
        let mut shared = 0;
        for _ in 0..200 {
            let mut table = Table::new(1024);
            shared += (0..100)
                .filter(|_| matches!(table.find(rng.next_u64() as u32, |_| None, |_| false), Found::Shared(_)))
                .count();
        }
        assert!(shared <= 2, "{shared} of 20000");
    }
}
