//! Software prefetch hints. With thousands of flows, the state of a flow is no longer in the processor's caches when
//! its next packet arrives. A caller that knows which flow is served next prefetches its state in advance. A hint must
//! never affect results.

/// Bytes of a cache line on most processors.
pub const LINE: usize = 64;

/// Prefetches cache lines. Each world implements it for its processor, or not at all.
pub trait Cache {
    /// Prefetches `lines` cache lines, starting with the one that contains the beginning of `first`. The size of a
    /// cache line must be a multiple of the size of `T`.
    fn fetch_lines<T>(&self, first: &T, lines: usize);

    /// Prefetches the cache line on which `first` begins.
    #[inline(always)]
    fn fetch<T>(&self, first: &T) {
        self.fetch_lines(first, 1);
    }
}
