//! A link of the path, whose queue is that of this program or of the kernel.

use std::str::FromStr;

use serde::de::{IntoDeserializer as _, value};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sojourn_core::qdisc::Qdisc as _;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_measure::stats::{self, Common};
use sojourn_model::scenario::Link;

use crate::detour::Detour;
use crate::hop::{Change, Done, Hop};
use crate::packet::{Packet, Pool};

/// The owner of a run's queue disciplines: the value of `--engine`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// This program.
    #[default]
    Ours,
    /// The host's kernel, with its disciplines below `htb`.
    Tc,
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(name: &str) -> Result<Owner, String> {
        Owner::deserialize(name.into_deserializer())
            .map_err(|error: value::Error| format!("engine = {name}: {}", error.to_string().replace('`', "")))
    }
}

/// A link.
pub enum Queue {
    /// Its discipline and its rate are this program's.
    Ours(Box<Hop>),
    /// They are the kernel's.
    Kernel(Box<Detour>),
}

impl Queue {
    /// Time of the next [`Queue::event`].
    pub fn next_event(&self) -> Time {
        match self {
            Queue::Ours(hop) => hop.next_event(),
            Queue::Kernel(detour) => detour.next_event(),
        }
    }

    /// Number of packets that wait, without the one in transmission.
    pub fn waiting(&self) -> usize {
        match self {
            Queue::Ours(hop) => hop.waiting(),
            Queue::Kernel(detour) => detour.waiting(),
        }
    }

    /// The bytes in the discipline.
    pub fn backlog(&self) -> u64 {
        match self {
            Queue::Ours(hop) => hop.qdisc().backlog(),
            Queue::Kernel(detour) => detour.backlog(),
        }
    }

    /// The present rate; the mean one of a trace.
    pub fn rate(&self) -> Rate {
        match self {
            Queue::Ours(hop) => hop.rate(),
            Queue::Kernel(detour) => detour.rate(),
        }
    }

    /// The present delay after the link.
    pub fn delay(&self) -> Span {
        match self {
            Queue::Ours(hop) => hop.delay(),
            Queue::Kernel(detour) => detour.delay(),
        }
    }

    /// The link as the scenario has it, with the changes so far.
    pub fn link(&self) -> &Link {
        match self {
            Queue::Ours(hop) => hop.link(),
            Queue::Kernel(detour) => detour.link(),
        }
    }

    /// The link, if its queue is the kernel's.
    pub fn detour(&mut self) -> Option<&mut Detour> {
        match self {
            Queue::Ours(_) => None,
            Queue::Kernel(detour) => Some(detour),
        }
    }

    /// Handles an arrival.
    pub fn arrive(&mut self, now: Time, packet: Packet, pool: &Pool, done: &mut Done) {
        match self {
            Queue::Ours(hop) => hop.arrive(now, packet, pool, done),
            Queue::Kernel(detour) => detour.arrive(now, packet),
        }
    }

    /// Handles everything that is due at `now`.
    pub fn event(&mut self, now: Time, pool: &Pool, done: &mut Done) {
        match self {
            Queue::Ours(hop) => hop.event(now, pool, done),
            Queue::Kernel(detour) => detour.event(now, pool, done),
        }
    }

    /// Makes a change. That of the kernel's rate or discipline is not done here.
    ///
    /// # Errors
    /// The discipline does not take the change.
    pub fn change(&mut self, now: Time, change: &Change, pool: &Pool, done: &mut Done) -> Result<(), String> {
        match self {
            Queue::Ours(hop) => hop.change(now, change, pool, done),
            Queue::Kernel(detour) => {
                detour.change(change);
                Ok(())
            }
        }
    }

    /// The counters of a discipline of ours, as `tc -s -j qdisc` has them; null for one of the kernel's.
    pub fn counted(&self, common: Common) -> Value {
        match self {
            Queue::Ours(hop) => stats::of(&hop.link().qdisc, hop.qdisc(), common),
            Queue::Kernel(_) => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_the_name_that_jobs_and_the_command_know() {
        assert_eq!((Ok(Owner::Ours), Ok(Owner::Tc)), ("ours".parse(), "tc".parse()));
        assert_eq!(
            "qdisc".parse::<Owner>(),
            Err("engine = qdisc: unknown variant qdisc, expected ours or tc".to_owned())
        );
    }
}
