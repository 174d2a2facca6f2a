//! Software prefetch on the processor that runs the simulation: x86 and aarch64; no operation on others.

use sojourn_core::cache::{Cache, LINE};

/// The processor's caches.
pub struct Processor;

impl Cache for Processor {
    #[inline(always)]
    fn fetch_lines<T>(&self, first: &T, lines: usize) {
        for line in 0..lines {
            prefetch_index::prefetch_index(std::slice::from_ref(first), line * (LINE / size_of::<T>().max(1)));
        }
    }
}
