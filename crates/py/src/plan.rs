//! Scenario files, the simulation of their runs, and the interface to the kernel world.

use std::path::PathBuf;

use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use serde_json::{Map, Value, json};
use sojourn_core::nic::Held;
use sojourn_core::units::{Span, Time};
use sojourn_model::plan::{self, LoadOptions};
use sojourn_sim::{Engine, Options};
use sojourn_traffic::job::{Job, LinkKind, Mode, Sink};
use sojourn_traffic::mapped::Mapped;
use sojourn_traffic::{express, observe};

use crate::describe::{describe, rates};
use crate::output::Output;
use crate::progress::Progress;
use crate::{Error, bug};

/// A checked scenario file with its list of runs.
#[pyclass(frozen, module = "sojourn._core")]
pub struct Plan(plan::Plan, LoadOptions);

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
        let opened = py.detach(|| plan::Plan::open(path, &options));
        opened.map(|plan| Plan(plan, options)).map_err(|error| Error::new_err(error.to_string()))
    }

    /// Number of runs.
    fn __len__(&self) -> usize {
        self.0.runs.len()
    }

    /// The title of the scenario.
    #[getter]
    fn title(&self) -> &str {
        &self.0.title
    }

    /// The text of the scenario file.
    #[getter]
    fn text(&self) -> &str {
        &self.0.source
    }

    /// Warnings for the user.
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

    /// JSON: `set` and `reason` of combinations that are not built yet.
    fn skipped(&self) -> String {
        let skipped = self.0.skipped.iter().map(|one| json!({ "set": object(&one.set), "reason": one.reason }));
        skipped.collect::<Value>().to_string()
    }

    /// JSON: the queues and flows of a run.
    fn describe(&self, py: Python<'_>, index: usize) -> PyResult<String> {
        let scenario = py.detach(|| self.0.scenario(index).map_err(bug))?;
        Ok(describe(&scenario).to_string())
    }

    /// JSON: the rates over a run, for links whose rate changes.
    fn rates(&self, py: Python<'_>, index: usize) -> PyResult<String> {
        let scenario = py.detach(|| self.0.scenario(index).map_err(bug))?;
        Ok(rates(&scenario).to_string())
    }

    /// The random inputs of a run in the simulator, each as a phrase. If there are none, all seeds give the same run.
    fn draws(&self, py: Python<'_>, index: usize) -> PyResult<Vec<String>> {
        py.detach(|| self.0.draws(index).map_err(bug))
    }

    /// Simulates one run without the GIL; returns None if it was stopped. With `linux`, a version such as (7, 3),
    /// disciplines behave as in that version of Linux.
    #[pyo3(signature = (index, *, engine = "fast", packets = false, series = true, progress = None, linux = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one call")]
    fn run(
        &self,
        py: Python<'_>,
        index: usize,
        engine: &str,
        packets: bool,
        series: bool,
        progress: Option<&Progress>,
        linux: Option<(u32, u32)>,
    ) -> PyResult<Option<Output>> {
        let engine = match engine {
            "fast" => Engine::Fast,
            "heap" => Engine::Heap,
            other => return Err(Error::new_err(format!("engine = {other}: expected fast or heap"))),
        };
        let progress = progress.map(|one| one.0.clone());
        let options = Options { engine, packets, series, progress, ..Options::default() };
        py.detach(|| {
            let mut scenario = self.0.scenario(index).map_err(bug)?;
            if let Some(linux) = linux {
                for link in scenario.hops.iter_mut().flat_map(|hop| [&mut hop.right, &mut hop.left]) {
                    link.qdiscs_mut().for_each(|spec| *spec = spec.as_in(linux));
                }
            }
            if let Some(why) = sojourn_sim::refusal(&scenario) {
                return Err(Error::new_err(why));
            }
            let output = sojourn_sim::run(&scenario, &options).ok();
            Ok(output.map(|output| Output::new("sim", &scenario, object(&self.0.runs[index].set), output)))
        })
    }

    /// Returns the content of a link's card ring after each change, for packets of the given IP lengths that arrive at
    /// the given times in nanoseconds: columns of time, packets, limit, bytes in flight. `phase` is the age of the
    /// current tick at time zero.
    fn ring<'py>(
        &self,
        py: Python<'py>,
        index: usize,
        link: usize,
        times: Vec<u64>,
        bytes: Vec<u16>,
        phase: u64,
    ) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let changes = py.detach(|| {
            let scenario = self.0.scenario(index).map_err(bug)?;
            if link >= scenario.hops.len() * 2 {
                return Err(Error::new_err(format!("link = {link}: there are {}", scenario.hops.len() * 2)));
            }
            let arrivals: Vec<(Time, u16)> = times.into_iter().map(Time).zip(bytes).collect();
            Ok(sojourn_sim::alone::ring(&scenario, link, &arrivals, Span(phase)))
        })?;
        let row = |(at, held): &(Time, Held)| vec![at.0, held.packets.into(), held.limit.into(), held.inflight.into()];
        PyArray2::from_vec2(py, &changes.iter().map(row).collect::<Vec<_>>()).map_err(bug)
    }

    /// The reason why the simulator cannot run a run; None if it can.
    fn sim_refusal(&self, py: Python<'_>, index: usize) -> PyResult<Option<String>> {
        py.detach(|| Ok(sojourn_sim::refusal(&self.0.scenario(index).map_err(bug)?)))
    }

    /// The reason why a kernel of this version, with these modules, cannot run a run; None if it can.
    #[pyo3(signature = (index, *, version, modules, link = "device"))]
    fn kernel_refusal(
        &self,
        py: Python<'_>,
        index: usize,
        version: (u32, u32),
        modules: Vec<String>,
        link: &str,
    ) -> PyResult<Option<String>> {
        let mode = mode(link, true, "kernel")?;
        py.detach(|| {
            let scenario = self.0.scenario(index).map_err(bug)?;
            Ok(express::refusal(&scenario, &express::Kernel { version, modules }, mode))
        })
    }

    /// The kernel's timer ticks per second (HZ) for a run.
    fn kernel_hz(&self, py: Python<'_>, index: usize) -> PyResult<u32> {
        py.detach(|| Ok(self.0.scenario(index).map_err(bug)?.host.hz))
    }

    /// JSON: the job of a guest for a run.
    #[pyo3(signature = (index, *, link = "device", probe = true, sink = "kernel", tc_lib_dir = None, all_counters = false))]
    fn kernel_job(
        &self,
        index: usize,
        link: &str,
        probe: bool,
        sink: &str,
        tc_lib_dir: Option<String>,
        all_counters: bool,
    ) -> PyResult<String> {
        let job = Job::new(&self.0, &self.1, index, mode(link, probe, sink)?);
        serde_json::to_string(&Job { tc_lib_dir, all_counters, ..job }).map_err(bug)
    }

    /// Evaluates the files of a guest: the applications' results, the path of the probe's file, which may be large, and
    /// the counters; `origin` is time zero on the guest's clock.
    #[pyo3(signature = (index, played, seen, counted, origin, *, link = "device", packets = false, series = true))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one call")]
    fn observe(
        &self,
        py: Python<'_>,
        index: usize,
        played: PyBackedBytes,
        seen: PathBuf,
        counted: PyBackedBytes,
        origin: u64,
        link: &str,
        packets: bool,
        series: bool,
    ) -> PyResult<Output> {
        let mode = mode(link, true, "kernel")?;
        py.detach(|| {
            let scenario = self.0.scenario(index).map_err(bug)?;
            let played = serde_json::from_slice(&played).map_err(bug)?;
            let seen = Mapped::open(&seen).map_err(|error| bug(format!("{}: {error}", seen.display())))?;
            let keep = observe::Keep { packets, series };
            let output = observe::output(&scenario, mode, &played, (&seen, &counted), origin, keep).map_err(bug)?;
            Ok(Output::new("kernel", &scenario, object(&self.0.runs[index].set), output))
        })
    }
}

fn mode(link: &str, probe: bool, sink: &str) -> PyResult<Mode> {
    let unknown = |key: &str, value: &str, names: &str| Error::new_err(format!("{key} = {value}: expected {names}"));
    let kind = LinkKind::named(link).ok_or_else(|| unknown("link", link, "device, htb or tbf"))?;
    let sink = Sink::named(sink).ok_or_else(|| unknown("sink", sink, "kernel, program or lowat"))?;
    Ok(Mode { link: kind, probe, sink })
}

/// Returns a run's set as a JSON object.
fn object(set: &plan::Set) -> Map<String, Value> {
    set.iter().cloned().collect()
}
