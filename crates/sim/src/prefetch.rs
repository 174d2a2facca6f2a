//! What will be read soon is fetched into the caches of the processor that runs this: x86 and aarch64; others are not asked.

use sojourn_core::cache::Cache;

/// The processor.
pub struct Processor;

impl Cache for Processor {
    #[inline(always)]
    fn fetch<T>(&self, first: &T) {
        prefetch_index::prefetch_index(std::slice::from_ref(first), 0);
    }
}
