//! Faults that tests plant in the fast engine's short cuts, to show that the comparison with the heap engine detects
//! them.

/// A short cut that can be broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A closed-form departure is a nanosecond late.
    ClosedForm,
    /// An access link is a nanosecond slow.
    Access,
    /// A receiver that runs ahead is a nanosecond late.
    Fused,
    /// Packets collected for receivers are delivered only when the batch is full, however early they are due.
    Gathered,
    /// Delayed ACKs that precede the packet for which a receiver runs ahead are not sent first.
    DelayedAck,
    /// Packets on a shared line do not overtake.
    Overtake,
    /// A link, or the hosts, run ahead further than the lookahead allows.
    Ahead,
    /// A timer is not re-armed when its deadline moves earlier.
    LazyTimer,
    /// At equal times, the later source comes first.
    Tie,
    /// A FIFO whose discipline changes is in closed form, and remains a FIFO with its limit.
    Discipline,
    /// A FIFO that flow control could pause is in closed form, and is never paused.
    Pause,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault in this thread, or removes it.
#[cfg(test)]
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

/// Returns whether this fault is planted; always false outside of tests.
#[cfg(test)]
pub fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Returns whether this fault is planted; always false outside of tests.
#[cfg(not(test))]
#[inline(always)]
pub const fn planted(_: Fault) -> bool {
    false
}
