//! Asking for memory beforehand: of thousands of flows none stays in a processor's caches from one packet to the next, and what
//! a packet needs lies on some twenty lines. Who knows which flow's turn comes soon has them fetched meanwhile; how is a world's
//! matter, and nothing else may depend on it.

/// Fetches lines of memory, and waits for none of them.
pub trait Cache {
    /// The line on which this begins.
    fn fetch<T>(&self, first: &T);
}
