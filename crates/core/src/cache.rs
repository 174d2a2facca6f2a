//! Software prefetch hints. With thousands of flows, a flow's state is in no cache of the processor when its next packet
//! arrives. A caller that knows which flow is served next prefetches its state meanwhile. A hint must never affect results.

/// Bytes of a cache line on most processors.
pub const LINE: usize = 64;

/// Prefetches cache lines. Each world implements it for its processor, or not at all.
pub trait Cache {
    /// Prefetches the cache line on which `first` begins and those behind it, `lines` in all. A cache line must be a
    /// multiple of a `T`.
    fn fetch_lines<T>(&self, first: &T, lines: usize);

    /// Prefetches the cache line on which `first` begins.
    #[inline(always)]
    fn fetch<T>(&self, first: &T) {
        self.fetch_lines(first, 1);
    }
}
