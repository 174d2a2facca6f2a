//! Counters of a discipline, under the keys of `tc -s -j qdisc`.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// A counter's value.
#[derive(Clone, PartialEq, Debug)]
pub enum Count {
    /// A whole number: packets, bytes, microseconds.
    Number(u64),
    /// A whole number that may be negative, such as a credit or the time until something is due.
    Signed(i64),
    /// A probability.
    Real(f64),
    /// A truth value.
    Flag(bool),
    /// Counters of each tin (cake), in tc's order.
    Tins(Vec<Stats>),
}

impl From<u64> for Count {
    fn from(number: u64) -> Count {
        Count::Number(number)
    }
}

impl From<i64> for Count {
    fn from(number: i64) -> Count {
        Count::Signed(number)
    }
}

impl From<f64> for Count {
    fn from(number: f64) -> Count {
        Count::Real(number)
    }
}

impl From<bool> for Count {
    fn from(flag: bool) -> Count {
        Count::Flag(flag)
    }
}

/// Counters by name, in tc's order.
pub type Stats = Vec<(&'static str, Count)>;

/// Counters that are all whole numbers.
pub fn numbers<const N: usize>(counters: [(&'static str, u64); N]) -> Stats {
    counters.into_iter().map(|(name, number)| (name, number.into())).collect()
}

/// A discipline below a shaper, which `tc` lists as a separate entry.
#[derive(Clone, PartialEq, Debug)]
pub struct Child {
    /// Packets that the shaper dropped before they reached this discipline.
    pub kept_from: u64,
    /// How often the discipline was over a limit; see [`super::Qdisc::overlimits`].
    pub overlimits: u64,
    /// The packets and the bytes queued. A packet that the shaper has taken and not yet sent still counts.
    pub queued: (u64, u64),
    /// Its own counters.
    pub stats: Stats,
    /// The sums over its flows.
    pub classes: Option<Stats>,
    /// The discipline below it, if it is a shaper too.
    pub child: Option<Box<Child>>,
}
