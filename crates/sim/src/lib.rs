//! World 1: a packet-level simulator in virtual time.
//!
//! [`run`] plays a [`Scenario`] and gives what was measured. Two engines share links, hosts and receivers and differ in how
//! they find what happens next: the fast one (`fast.rs`) and a slow, obvious one (`heap.rs`), its oracle.
#![forbid(unsafe_code)]

mod access;
pub mod alone;
mod closed;
mod ends;
mod fast;
mod flow_hash;
mod heap;
mod hosts;
mod link;
mod packet;
mod plan;
mod planted;
mod prefetch;
mod refusal;
pub mod replay;
mod schedule;
mod setup;
#[cfg(test)]
mod tests;
mod timers;
mod topology;
mod tournament;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sojourn_core::units::Time;
use sojourn_model::scenario::Scenario;

pub use refusal::refusal;
pub use sojourn_measure::{BINS, Output};

/// How to run.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// Which engine.
    pub engine: Engine,
    /// Keep a record of every packet at every link.
    pub packets: bool,
    /// What the links measure.
    pub detail: Detail,
    /// Sample cwnd, srtt and packets in flight of every flow.
    pub series: bool,
    /// From so many entries on a core's caches do not hold the flows, and what is needed soon is fetched beforehand; else from 256
    /// on. No result depends on it.
    pub crowd: Option<usize>,
    /// To watch the run from another thread, and to stop it.
    pub progress: Option<Arc<Progress>>,
}

/// The engines. They give identical outputs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Engine {
    /// Lines, closed forms, receivers that run ahead.
    #[default]
    Fast,
    /// One event per packet and segment in one heap.
    Heap,
}

/// What the links measure.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Detail {
    /// Everything.
    #[default]
    Full,
    /// Only what leaves and what is dropped: sojourn, bytes, marks, drops, utilisation. Nothing is said
    /// of what stands in the queue (queue delay over time, queue length, standing queue, empty and full fractions).
    Departures,
}

/// Seen from another thread.
#[derive(Default, Debug)]
pub struct Progress {
    /// Simulated nanoseconds so far.
    pub now: AtomicU64,
    /// Set to end the run early.
    pub stop: AtomicBool,
}

/// The run was stopped from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

impl Options {
    /// Tells how far the run is; an error if it is to stop.
    fn report(&self, now: Time) -> Result<(), Stopped> {
        if let Some(progress) = &self.progress {
            progress.now.store(now.0, Ordering::Relaxed);
            if progress.stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
        }
        Ok(())
    }
}

/// Runs a scenario to its end. The same scenario gives the same output, bit for bit.
pub fn run(scenario: &Scenario, options: &Options) -> Result<Output, Stopped> {
    match options.engine {
        Engine::Fast => fast::run(scenario, options),
        Engine::Heap => heap::run(scenario, options),
    }
}
