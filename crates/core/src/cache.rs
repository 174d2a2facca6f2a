//! Asking for memory beforehand: of thousands of flows none stays in a processor's caches from one packet to the next, and what
//! a packet needs lies on some twenty lines. Who knows which flow's turn comes soon has them fetched meanwhile; how is a world's
//! matter, and nothing else may depend on it.

/// Bytes of a line, on most processors of today.
pub const LINE: usize = 64;

/// Fetches lines of memory, and waits for none of them.
pub trait Cache {
    /// The line on which this begins, and so many in all. A line must be a multiple of a `T`.
    fn fetch_lines<T>(&self, first: &T, lines: usize);

    /// The line on which this begins.
    #[inline(always)]
    fn fetch<T>(&self, first: &T) {
        self.fetch_lines(first, 1);
    }
}
