//! The queue with the most bytes: a heap over the queues of all eight tins that Linux has, used or not.
//!
//! The heap is maintained only after an overflow, and for as many packets as in Linux. Among queues of equal length,
//! the first is the one that Linux's heap has first, which depends on all earlier operations.

use super::tins::{QUEUES, TINS, Tin};
use alloc::vec::Vec;

/// Number of dequeues after an overflow during which the heap is kept in order.
const KEPT: u16 = u16::MAX;
/// Bits of a queue's number in its tin.
const BITS: u32 = QUEUES.trailing_zeros();

/// The heap; empty before the first overflow.
#[derive(Clone, Default, Debug)]
pub struct Heap {
    /// Tin and queue.
    entries: Vec<u16>,
    /// Where each queue is in `entries`.
    places: Vec<u16>,
    /// Number of further dequeues during which it is kept in order.
    timeout: u16,
}

fn bytes(tins: &[Tin], entry: u16) -> u64 {
    let (tin, queue) = split(entry);
    tins.get(tin).map_or(0, |tin| tin.flows[queue].fifo.bytes())
}

fn split(entry: u16) -> (usize, usize) {
    (usize::from(entry >> BITS), usize::from(entry) % QUEUES)
}

impl Heap {
    /// The tin and the queue that has most bytes.
    pub fn top(&mut self, tins: &[Tin]) -> (usize, usize) {
        if self.entries.is_empty() {
            self.entries =
                (0..QUEUES).flat_map(|queue| (0..TINS).map(move |tin| (tin << BITS | queue) as u16)).collect();
            self.places = alloc::vec![0; TINS * QUEUES];
            for (place, entry) in self.entries.iter().enumerate() {
                self.places[usize::from(*entry)] = place as u16;
            }
        }
        if self.timeout == 0 {
            (0..TINS * QUEUES / 2).rev().for_each(|place| self.sink(tins, place));
        }
        self.timeout = KEPT;
        split(self.entries[0])
    }

    /// Marks the heap as out of order. It is rebuilt at the next overflow.
    pub fn forget(&mut self) {
        self.timeout = 0;
    }

    /// Restores the order after the queue at the top has lost bytes.
    pub fn top_shrank(&mut self, tins: &[Tin]) {
        self.sink(tins, 0);
    }

    /// Returns true while the heap is in order: for the next `KEPT` dequeues after an overflow.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.timeout != 0
    }

    /// Restores the order after this queue has lost bytes.
    pub fn shrank(&mut self, tins: &[Tin], tin: usize, queue: usize) {
        self.sink(tins, usize::from(self.places[tin << BITS | queue]));
    }

    /// Restores the order after this queue has gained bytes.
    pub fn grew(&mut self, tins: &[Tin], tin: usize, queue: usize) {
        self.rise(tins, usize::from(self.places[tin << BITS | queue]));
    }

    /// Counts a dequeue.
    #[inline]
    pub fn age(&mut self) {
        self.timeout = self.timeout.saturating_sub(1);
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.entries.swap(one, other);
        for place in [one, other] {
            self.places[usize::from(self.entries[place])] = place as u16;
        }
    }

    /// Moves an element down, as in Linux: after a step it compares with the element that moved up instead of the one
    /// that moves down, and so stops too early. The result is not a valid heap order, and it decides which queue is at
    /// the top.
    fn sink(&mut self, tins: &[Tin], mut place: usize) {
        let mut most = bytes(tins, self.entries[place]);
        loop {
            let mut greatest = place;
            for child in [2 * place + 1, 2 * place + 2] {
                let Some(&entry) = self.entries.get(child) else { break };
                let of_child = bytes(tins, entry);
                if of_child > most {
                    (most, greatest) = (of_child, child);
                }
            }
            if greatest == place {
                return;
            }
            self.swap(place, greatest);
            place = greatest;
        }
    }

    fn rise(&mut self, tins: &[Tin], mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if bytes(tins, self.entries[place]) <= bytes(tins, self.entries[parent]) {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }
}
