//! What will be read soon is fetched into the caches of the processor that runs this: x86 and aarch64; others are not asked.

use sojourn_core::cache::{Cache, LINE};

/// The processor.
pub struct Processor;

impl Cache for Processor {
    #[inline(always)]
    fn fetch_lines<T>(&self, first: &T, lines: usize) {
        for line in 0..lines {
            prefetch_index::prefetch_index(std::slice::from_ref(first), line * (LINE / size_of::<T>().max(1)));
        }
    }
}
