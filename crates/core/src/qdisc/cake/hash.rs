//! Chooses the queue of a flow. Queues are grouped in sets of eight, so a flow shares a queue only if all eight queues
//! of its set are in use.
//!
//! A queue is reserved for its flow's hash as long as it is in the round. Hosts have tables with sets of the same size.
//! An entry counts the backlogged flows of its host, and is reserved for the host while that count is not zero.

use super::params::FlowMode;
use super::tins::{QUEUES, Set, Tin};
use crate::qdisc::siphash::Salt;

/// Number of entries in a set.
const WAYS: usize = 8;

/// An entry of the host tables. It belongs to one source host and one destination host, which have nothing else in
/// common.
#[derive(Clone, Copy, Default, Debug)]
pub struct Host {
    src_tag: u32,
    dst_tag: u32,
    /// Number of backlogged flows of the source host.
    pub src_bulk: u16,
    /// Number of backlogged flows to the destination host.
    pub dst_bulk: u16,
}

/// The end of a flow at which a host is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

impl Host {
    fn tag(&mut self, side: Side) -> &mut u32 {
        if side == Side::Source { &mut self.src_tag } else { &mut self.dst_tag }
    }

    fn bulk(&mut self, side: Side) -> &mut u16 {
        if side == Side::Source { &mut self.src_bulk } else { &mut self.dst_bulk }
    }
}

/// The parts of a packet that are hashed.
#[derive(Clone, Copy)]
pub struct Key {
    pub flow: u32,
    /// The source host and the destination host.
    pub hosts: (u32, u32),
}

/// Returns the eight positions of a hash's set, beginning with the one that the hash itself selects.
fn ways(hash: u32) -> impl Iterator<Item = usize> {
    let place = hash as usize % QUEUES;
    (0..WAYS).map(move |way| place / WAYS * WAYS + (place + way) % WAYS)
}

impl Tin {
    /// Returns the queue of this flow and reserves it for the flow.
    #[inline]
    pub fn queue_of(&mut self, key: &Key, mode: FlowMode, salt: &Salt) -> usize {
        let hash = match mode {
            FlowMode::Flowblind => return 0,
            _ if mode.has_flows() => key.flow,
            _ => {
                let of = |asked: bool, host| if asked { salt.hash(host) } else { 0 };
                of(mode.has_sources(), key.hosts.0) ^ of(mode.has_destinations(), key.hosts.1)
            }
        };
        let own = hash as usize % QUEUES;
        if self.tags[own] == hash && self.flows[own].set != Set::None {
            return own;
        }
        self.search(hash, key, mode, salt)
    }

    fn search(&mut self, hash: u32, key: &Key, mode: FlowMode, salt: &Salt) -> usize {
        let own = hash as usize % QUEUES;
        let (queue, is_new) = if let Some(queue) = ways(hash).find(|&way| self.tags[way] == hash) {
            self.counts.way_indirect_hits += u64::from(queue != own);
            (queue, self.flows[queue].set == Set::None)
        } else if let Some(free) = ways(hash).find(|&way| self.flows[way].set == Set::None) {
            self.counts.way_misses += 1;
            (free, true)
        } else {
            self.counts.way_collisions += 1;
            if self.flows[own].set == Set::Bulk {
                self.leave_bulk(own, mode);
            }
            (own, true)
        };
        self.tags[queue] = hash;
        if is_new && mode.shares_source() {
            self.flows[queue].srchost = self.host_of(Side::Source, salt.hash(key.hosts.0));
        }
        if is_new && mode.shares_destination() {
            self.flows[queue].dsthost = self.host_of(Side::Destination, salt.hash(key.hosts.1));
        }
        if is_new && self.flows[queue].set == Set::Bulk {
            self.enter_bulk(queue, mode);
        }
        queue
    }

    /// Finds the table entry of the host with this hash and reserves it: the entry that the host already has, otherwise
    /// one whose host has no backlogged flow, otherwise the one that the hash itself selects.
    fn host_of(&mut self, side: Side, hash: u32) -> u16 {
        let place = ways(hash)
            .find(|&way| *self.hosts[way].tag(side) == hash)
            .or_else(|| ways(hash).find(|&way| *self.hosts[way].bulk(side) == 0))
            .unwrap_or(hash as usize % QUEUES);
        *self.hosts[place].tag(side) = hash;
        place as u16
    }

    /// Counts one more backlogged flow for the hosts of a queue.
    #[inline]
    pub fn enter_bulk(&mut self, queue: usize, mode: FlowMode) {
        self.count_bulk(queue, mode, |bulk| {
            if usize::from(*bulk) < QUEUES {
                *bulk += 1
            }
        });
    }

    /// Counts one backlogged flow less for the hosts of a queue.
    #[inline]
    pub fn leave_bulk(&mut self, queue: usize, mode: FlowMode) {
        self.count_bulk(queue, mode, |bulk| *bulk = bulk.saturating_sub(1));
    }

    #[inline]
    fn count_bulk(&mut self, queue: usize, mode: FlowMode, change: impl Fn(&mut u16)) {
        let flow = &self.flows[queue];
        if mode.shares_source() {
            change(&mut self.hosts[usize::from(flow.srchost)].src_bulk);
        }
        if mode.shares_destination() {
            change(&mut self.hosts[usize::from(flow.dsthost)].dst_bulk);
        }
    }
}
