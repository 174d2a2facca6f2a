//! Options of a run, and how another thread observes and stops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sojourn_core::units::Time;

/// Options of a run.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// The engine.
    pub engine: Engine,
    /// Whether to keep a record of every packet at every link.
    pub packets: bool,
    /// The measures taken at links.
    pub detail: Detail,
    /// Whether to sample cwnd, srtt and packets in flight of every flow.
    pub series: bool,
    /// With at least this many entries, the flows' state exceeds a core's caches and is prefetched; 256 by default. No
    /// result depends on this number.
    pub crowd: Option<usize>,
    /// State through which another thread observes the run and may stop it.
    pub progress: Option<Arc<Progress>>,
}

/// The engines, which give identical output.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Engine {
    /// Lines, closed forms, and receivers that run ahead.
    #[default]
    Fast,
    /// One event per packet and step, in one heap.
    Heap,
}

/// The measures taken at links.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Detail {
    /// All measures.
    #[default]
    Full,
    /// Departures and drops only: sojourn times, bytes, marks, drops and utilisation. There are no measures of the
    /// queue's content (queue delay over time, queue length, standing queue, empty and full fractions).
    Departures,
}

/// Shared state with another thread.
#[derive(Default, Debug)]
pub struct Progress {
    /// Simulated time so far, in nanoseconds.
    pub now: AtomicU64,
    /// Set to stop the run early.
    pub stop: AtomicBool,
}

/// The run was stopped from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

impl Options {
    /// Publishes the progress of the run. Returns an error if the run is to stop.
    pub(crate) fn report(&self, now: Time) -> Result<(), Stopped> {
        if let Some(progress) = &self.progress {
            progress.now.store(now.0, Ordering::Relaxed);
            if progress.stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
        }
        Ok(())
    }
}
