//! World 1: a packet-level simulator in virtual time.
//!
//! [`run`] plays a [`Scenario`] and returns the measured results. Two engines share links, hosts and receivers and
//! differ in how they find the next event: the fast one (`fast.rs`) and a slow, obvious one (`heap.rs`), its oracle.
#![forbid(unsafe_code)]

pub mod alone;
mod closed;
mod ends;
mod fast;
mod flow_hash;
mod framing;
mod heap;
mod hosts;
mod link;
mod net;
mod options;
mod packet;
mod planted;
mod prefetch;
mod refusal;
mod schedule;
mod senders;
mod setup;
mod shortcuts;
#[cfg(test)]
mod tests;
mod timers;
mod topology;
mod tournament;

use sojourn_model::scenario::Scenario;

pub use options::{Detail, Engine, Options, Progress, Stopped};
pub use refusal::refusal;
pub use sojourn_measure::{BINS, Output};

/// Runs a scenario to its end. The same scenario gives the same output, bit for bit.
pub fn run(scenario: &Scenario, options: &Options) -> Result<Output, Stopped> {
    match options.engine {
        Engine::Fast => fast::run(scenario, options),
        Engine::Heap => heap::run(scenario, options),
    }
}
