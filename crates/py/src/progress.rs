//! Observing a run from another thread, and stopping it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pyo3::prelude::*;

/// State shared with a running simulation: its progress, and whether it is to stop.
#[pyclass(frozen, module = "sojourn._core")]
#[derive(Default)]
pub struct Progress(pub Arc<sojourn_sim::Progress>);

#[pymethods]
impl Progress {
    #[new]
    fn new() -> Progress {
        Progress::default()
    }

    /// Simulated time so far, in seconds.
    #[getter]
    fn simulated_s(&self) -> f64 {
        self.0.now.load(Ordering::Relaxed) as f64 * 1e-9
    }

    /// Sets the progress of a run outside of the simulator.
    fn tell(&self, simulated_s: f64) {
        self.0.now.store((simulated_s * 1e9) as u64, Ordering::Relaxed);
    }

    /// Returns whether the run is to end early.
    #[getter]
    fn stopped(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed)
    }

    /// Ends the run early.
    fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}
