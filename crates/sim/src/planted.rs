//! Faults that the tests plant in the fast engine's short cuts, to show that the comparison with the heap engine sees them.

/// A short cut that can be broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A closed-form departure is a nanosecond late.
    ClosedForm,
    /// A host's own link is a nanosecond slow.
    Access,
    /// A receiver that runs ahead is a nanosecond late.
    Fused,
    /// What has gathered for receivers waits until there is more of it, however early it is due.
    Gathered,
    /// Delayed ACKs do not go before the packet that the receiver is run ahead for.
    DelayedAck,
    /// On a shared line nobody overtakes.
    Overtake,
    /// A link, or the hosts, run further ahead than what comes to them is known.
    Ahead,
    /// A timer is not re-armed when its deadline moves earlier.
    LazyTimer,
    /// Of equal times the later source goes first.
    Tie,
    /// A FIFO whose discipline changes is in closed form, and stays a FIFO with its limit.
    Discipline,
    /// A FIFO that flow control could stop is in closed form, and never stops.
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

/// Whether this fault is planted; never, outside tests.
#[cfg(test)]
pub fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Whether this fault is planted; never, outside tests.
#[cfg(not(test))]
#[inline(always)]
pub const fn planted(_: Fault) -> bool {
    false
}
