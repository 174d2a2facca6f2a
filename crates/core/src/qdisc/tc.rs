//! `tc` lines: reads what `tc` prints and what it accepts, prints what it accepts.

/// A discipline with its parameters, as one line of `tc` words.
#[derive(Clone, PartialEq, Debug)]
pub enum Spec {
    /// First in, first out; a limit in packets.
    Pfifo {
        /// Packets.
        limit: u32,
    },
}
