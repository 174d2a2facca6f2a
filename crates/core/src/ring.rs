//! A growing ring buffer of values: the queue of every FIFO here, and every constant-delay line of the simulator.

use alloc::boxed::Box;

/// A FIFO of at most 2^31 values. The capacity is a power of two and doubles when the ring is full; nothing else
/// allocates.
#[derive(Clone, Debug, PartialEq)]
pub struct Ring<T> {
    slots: Box<[T]>,
    head: u32,
    len: u32,
}

/// The initial capacity. It is small, because thousands of flows have rings of a few values each.
const LEAST: usize = 4;

impl<T: Copy + Default> Default for Ring<T> {
    fn default() -> Self {
        Ring { slots: Box::new([]), head: 0, len: 0 }
    }
}

impl<T: Copy + Default> Ring<T> {
    /// The slot of the value that is `index` places behind the head.
    #[inline(always)]
    fn slot(&self, index: usize) -> usize {
        (self.head as usize + index) & (self.slots.len() - 1)
    }

    /// How many values are queued.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether nothing is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends at the tail.
    #[inline(always)]
    pub fn push(&mut self, value: T) {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let slot = self.slot(self.len());
        self.slots[slot] = value;
        self.len += 1;
    }

    /// Inserts a value in front of the values at the tail that it `precedes`. Returns the number of values in front of
    /// it.
    #[inline(always)]
    pub fn insert_where(&mut self, value: T, precedes: impl Fn(&T) -> bool) -> usize {
        self.push(value);
        let (first, mut to) = (self.slot(0), self.slot(self.len() - 1));
        let slots = &mut self.slots[..];
        let last_slot = slots.len() - 1;
        while to != first {
            let from = to.wrapping_sub(1) & last_slot;
            if !precedes(&slots[from]) {
                break;
            }
            slots[to] = slots[from];
            to = from;
        }
        slots[to] = value;
        to.wrapping_sub(first) & last_slot
    }

    /// The value at the head.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        if self.len == 0 { None } else { Some(&self.slots[self.slot(0)]) }
    }

    /// The value at the tail.
    #[inline]
    pub fn back(&self) -> Option<&T> {
        if self.len == 0 { None } else { Some(&self.slots[self.slot(self.len() - 1)]) }
    }

    /// Takes the value at the head.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slots[self.slot(0)];
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        Some(value)
    }

    /// Removes the value at the head into `value`. Returns whether there was one.
    #[inline(always)]
    pub fn pop_into(&mut self, value: &mut T) -> bool {
        if self.len == 0 {
            return false;
        }
        *value = self.slots[self.slot(0)];
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        true
    }

    /// Takes the value at the tail.
    #[inline]
    pub fn pop_back(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        Some(self.slots[self.slot(self.len())])
    }

    /// The value `index` places behind the head. Panics if there is none.
    #[inline]
    pub fn at(&self, index: usize) -> &T {
        assert!(index < self.len());
        &self.slots[self.slot(index)]
    }

    /// Like [`Ring::at`], but mutable.
    #[inline]
    pub fn at_mut(&mut self, index: usize) -> &mut T {
        assert!(index < self.len());
        let slot = self.slot(index);
        &mut self.slots[slot]
    }

    /// The value `index` places behind the head, if there is one.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&T> {
        if index < self.len() { Some(&self.slots[self.slot(index)]) } else { None }
    }

    /// The values from head to tail.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map(|i| self.at(i))
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        // The slots grow in place if the allocator can do that. A copy of a long ring would for a moment take three
        // times its memory.
        let head = if self.slots.is_empty() { 0 } else { self.slot(0) };
        let mut slots = core::mem::take(&mut self.slots).into_vec();
        slots.rotate_left(head);
        slots.resize((slots.len() * 2).max(LEAST), T::default());
        self.slots = slots.into_boxed_slice();
        self.head = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_vec_deque(ops in prop::collection::vec(0u8..5, 0..400)) {
            let (mut ring, mut model, mut next) = (Ring::default(), VecDeque::new(), 0u32);
            for op in ops {
                match op {
                    0..=1 => { ring.push(next); model.push_back(next); next += 1; }
                    2 => {
                        let precedes = |other: &u32| other % 5 > next % 3;
                        let index = model.iter().rposition(|other| !precedes(other)).map_or(0, |last| last + 1);
                        prop_assert_eq!(ring.insert_where(next, precedes), index);
                        model.insert(index, next);
                        next += 1;
                    }
                    3 => prop_assert_eq!(ring.pop(), model.pop_front()),
                    _ => prop_assert_eq!(ring.pop_back(), model.pop_back()),
                }
                prop_assert_eq!(ring.front(), model.front());
                prop_assert_eq!(ring.back(), model.back());
                prop_assert!(ring.iter().eq(model.iter()));
                prop_assert_eq!(ring.get(op as usize), model.get(op as usize));
            }
        }
    }
}
