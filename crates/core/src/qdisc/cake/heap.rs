//! Finds the queue with the most bytes: a heap over the queues of eight tins. Linux always has eight, used or not.
//!
//! The heap is kept in order only after an overflow, and for the same number of dequeues as in Linux. Among queues of
//! equal length, the order depends on all earlier operations, so these are the same as Linux's.

use super::tins::{QUEUES, TINS, Tin};
use alloc::vec::Vec;

/// Number of dequeues after an overflow during which the heap is kept in order.
const KEPT: u16 = u16::MAX;
/// Number of bits of a queue's number within its tin.
const BITS: u32 = QUEUES.trailing_zeros();

/// The heap. It is empty before the first overflow.
#[derive(Clone, Default, Debug)]
pub struct Heap {
    /// The queues in heap order. An entry holds the tin's number above the queue's number of `BITS` bits.
    entries: Vec<u16>,
    /// The position of each queue in `entries`.
    places: Vec<u16>,
    /// Number of further dequeues during which the heap is kept in order.
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
    /// Returns the tin and the queue at the top of the heap. Rebuilds the heap first if it is out of order.
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

    /// Counts a dequeue: after the last of `KEPT` the heap is no longer kept in order.
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

    /// Moves an element down the heap, with the same fault as Linux. After a step it compares the next children with
    /// the element that moved up instead of the one that moves down, and so stops too early. The heap may then be out
    /// of order, which affects the queue that loses a packet.
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
