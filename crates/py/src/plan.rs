//! Scenario files, and the simulation of their runs.

use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use sojourn_model::plan::{self, LoadOptions};
use sojourn_sim::{Engine, Options};

use crate::describe::describe;
use crate::output::Output;
use crate::progress::Progress;
use crate::{Error, bug};

/// A scenario file, checked, with its sweep laid out.
#[pyclass(frozen, module = "sojourn._core")]
pub struct Plan(plan::Plan);

#[pymethods]
impl Plan {
    /// Reads and checks a file.
    #[staticmethod]
    fn load(
        py: Python<'_>,
        path: &str,
        sets: Vec<(String, String)>,
        seed: Option<u64>,
        seeds: Option<u64>,
    ) -> PyResult<Plan> {
        let options = LoadOptions { set: sets, seed, seeds, ..LoadOptions::default() };
        py.detach(|| plan::Plan::open(path, &options).map(Plan).map_err(|error| Error::new_err(error.to_string())))
    }

    /// The number of runs.
    fn __len__(&self) -> usize {
        self.0.runs.len()
    }

    /// The scenario's title.
    #[getter]
    fn title(&self) -> &str {
        &self.0.title
    }

    /// The scenario file's text.
    #[getter]
    fn text(&self) -> &str {
        &self.0.source
    }

    /// What a user should know although it is no fault.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    /// JSON: `set` and `seed` of each run.
    fn runs(&self) -> String {
        let runs: Value = self
            .0
            .runs
            .iter()
            .map(|run| json!({ "set": object(&run.set), "seed": run.seed, "duration_s": run.duration.as_secs_f64() }))
            .collect();
        runs.to_string()
    }

    /// JSON: `set` and `reason` of what is not built yet.
    fn skipped(&self) -> String {
        let skipped = self.0.skipped.iter().map(|one| json!({ "set": object(&one.set), "reason": one.reason }));
        skipped.collect::<Value>().to_string()
    }

    /// JSON: the queues and flows of a run.
    fn describe(&self, py: Python<'_>, index: usize) -> PyResult<String> {
        let scenario = py.detach(|| self.0.scenario(index).map_err(bug))?;
        Ok(describe(&scenario).to_string())
    }

    /// Simulates one run without the GIL; None if it was stopped.
    #[pyo3(signature = (index, *, engine = "fast", packets = false, series = true, progress = None))]
    fn run(
        &self,
        py: Python<'_>,
        index: usize,
        engine: &str,
        packets: bool,
        series: bool,
        progress: Option<&Progress>,
    ) -> PyResult<Option<Output>> {
        let engine = match engine {
            "fast" => Engine::Fast,
            "heap" => Engine::Heap,
            other => return Err(Error::new_err(format!("engine = {other}: expected fast or heap"))),
        };
        let progress = progress.map(|one| one.0.clone());
        let options = Options { engine, packets, series, progress, ..Options::default() };
        py.detach(|| {
            let scenario = self.0.scenario(index).map_err(bug)?;
            let output = sojourn_sim::run(&scenario, &options).ok();
            Ok(output.map(|output| Output::new("sim", &scenario, object(&self.0.runs[index].set), output)))
        })
    }
}

/// A run's set as a JSON object.
fn object(set: &plan::Set) -> Map<String, Value> {
    set.iter().cloned().collect()
}
