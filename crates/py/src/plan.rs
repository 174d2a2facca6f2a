//! Scenario files, the simulation of their runs, and the interface to the kernel world.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value};
use sojourn_core::nic::Held;
use sojourn_core::units::{Span, Time};
use sojourn_model::plan::{self, LoadOptions};
use sojourn_model::portable::Portable;
use sojourn_model::scenario::Scenario;
use sojourn_sim::{Engine, Options};
use sojourn_traffic::job::{Job, LinkKind, Mode, Own, Sink};
use sojourn_traffic::mapped::Mapped;
use sojourn_traffic::{express, observe};

use crate::describe::{describe, rates};
use crate::output::Output;
use crate::outside::{Failure, Given, makers};
use crate::progress::Progress;
use crate::value::python;
use crate::{Error, bug};

/// A checked scenario file with its list of runs.
#[pyclass(frozen, module = "sojourn._core")]
pub struct Plan {
    plan: plan::Plan,
    options: LoadOptions,
    /// The scenario that was built last, with the number of its run, so that several queries about a run draw its
    /// workload once.
    last: Mutex<Option<(usize, Arc<Scenario>)>>,
    runs: PyOnceLock<Py<PyList>>,
    skipped: PyOnceLock<Py<PyList>>,
}

impl Plan {
    fn new((plan, options): (plan::Plan, LoadOptions)) -> Plan {
        Plan { plan, options, last: Mutex::new(None), runs: PyOnceLock::new(), skipped: PyOnceLock::new() }
    }

    /// The scenario of a run, with its workload drawn.
    fn scenario(&self, index: usize) -> PyResult<Arc<Scenario>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, scenario)) = last.filter(|(known, _)| *known == index) {
            return Ok(scenario);
        }
        let drawn = Arc::new(self.plan.scenario(index).map_err(bug)?);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((index, Arc::clone(&drawn)));
        Ok(drawn)
    }
}

#[pymethods]
impl Plan {
    /// Reads and checks a file. `outside` are the names of disciplines of the user's.
    #[staticmethod]
    #[pyo3(signature = (path, sets, seed, seeds, *, outside = vec![]))]
    fn load(
        py: Python<'_>,
        path: &str,
        sets: Vec<(String, String)>,
        seed: Option<u64>,
        seeds: Option<u64>,
        outside: Vec<String>,
    ) -> PyResult<Plan> {
        let options = LoadOptions { set: sets, seed, seeds, outside, ..LoadOptions::default() };
        let opened = py.detach(|| plan::Plan::open(path, &options));
        opened.map(|plan| Plan::new((plan, options))).map_err(|error| Error::new_err(error.to_string()))
    }

    /// Reads and checks a scenario's text. `path` is the path that its file would have: files that the text names are
    /// looked up in the same folder. Without `lines`, errors name keys and values only.
    #[staticmethod]
    #[pyo3(signature = (text, path, sets, seed, seeds, *, lines = true, outside = vec![]))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one call")]
    fn parse(
        py: Python<'_>,
        text: &str,
        path: &str,
        sets: Vec<(String, String)>,
        seed: Option<u64>,
        seeds: Option<u64>,
        lines: bool,
        outside: Vec<String>,
    ) -> PyResult<Plan> {
        let options = LoadOptions { set: sets, seed, seeds, without_lines: !lines, outside, ..LoadOptions::default() };
        let read = py.detach(|| plan::Plan::load(path, text.as_bytes(), &options));
        read.map(|plan| Plan::new((plan, options))).map_err(|error| Error::new_err(error.to_string()))
    }

    /// The same scenario with another first seed and another number of seeds. None leaves the value unchanged.
    fn reseeded(&self, py: Python<'_>, seed: Option<u64>, seeds: Option<u64>) -> PyResult<Plan> {
        let options = LoadOptions {
            seed: seed.or(self.options.seed),
            seeds: seeds.or(self.options.seeds),
            traces: self.plan.traces().to_vec(),
            sizes: self.plan.sizes().iter().map(|(name, sizes)| (name.clone(), sizes.to_vec())).collect(),
            ..self.options.clone()
        };
        let read = py.detach(|| plan::Plan::load(&self.plan.file, self.plan.source.as_bytes(), &options));
        read.map(|plan| Plan::new((plan, options))).map_err(|error| Error::new_err(error.to_string()))
    }

    /// The plan in a text that `portable` returned. It reads no file.
    #[staticmethod]
    fn restore(py: Python<'_>, portable: &str) -> PyResult<Plan> {
        let value: Portable = serde_json::from_str(portable).map_err(bug)?;
        py.detach(|| value.plan()).map(Plan::new).map_err(|error| Error::new_err(error.to_string()))
    }

    /// The plan as a text that `restore` reads. It includes the content of the files that the scenario names.
    fn portable(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| serde_json::to_string(&Portable::new(&self.plan, &self.options))).map_err(bug)
    }

    /// Lets pickle copy a plan, for example to another process.
    fn __reduce__(slf: PyRef<'_, Self>, py: Python<'_>) -> PyResult<(Py<PyAny>, (String,))> {
        Ok((py.get_type::<Plan>().getattr("restore")?.unbind(), (slf.portable(py)?,)))
    }

    /// Number of runs.
    fn __len__(&self) -> usize {
        self.plan.runs.len()
    }

    /// The title of the scenario.
    #[getter]
    fn title(&self) -> &str {
        &self.plan.title
    }

    /// The text of the scenario file.
    #[getter]
    fn text(&self) -> &str {
        &self.plan.source
    }

    /// Warnings for the user.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.plan.warnings.clone()
    }

    /// The path of the file, as the caller wrote it.
    #[getter]
    fn file(&self) -> &str {
        &self.plan.file
    }

    /// `set`, `seed` and `duration_s` of each run. The runs of a combination share one `set`.
    #[getter]
    fn runs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let made = self.runs.get_or_try_init(py, || {
            let (runs, list) = (&self.plan.runs, PyList::empty(py));
            let mut set: Option<(&plan::Set, Bound<'py, PyAny>)> = None;
            for run in runs {
                let shared = match set.take() {
                    Some((known, made)) if Arc::ptr_eq(known, &run.set) => made,
                    _ => python(py, &object(&run.set))?,
                };
                let entry = PyDict::new(py);
                entry.set_item("set", &shared)?;
                entry.set_item("seed", run.seed)?;
                entry.set_item("duration_s", run.duration.as_secs_f64())?;
                list.append(entry)?;
                set = Some((&run.set, shared));
            }
            PyResult::Ok(list.unbind())
        })?;
        Ok(made.bind(py).clone())
    }

    /// `set` and `reason` of each combination that uses a feature that is not implemented.
    #[getter]
    fn skipped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let made = self.skipped.get_or_try_init(py, || {
            let list = PyList::empty(py);
            for one in &self.plan.skipped {
                let entry = PyDict::new(py);
                entry.set_item("set", python(py, &object(&one.set))?)?;
                entry.set_item("reason", &one.reason)?;
                list.append(entry)?;
            }
            PyResult::Ok(list.unbind())
        })?;
        Ok(made.bind(py).clone())
    }

    /// The queues and flows of a run.
    fn describe<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let found = py.detach(|| Ok::<_, PyErr>(describe(&*self.scenario(index)?)))?;
        python(py, &found)
    }

    /// The rates over a run of those links whose rate changes.
    fn rates<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let found = py.detach(|| Ok::<_, PyErr>(rates(&*self.scenario(index)?)))?;
        python(py, &found)
    }

    /// The random inputs of a run in the simulator, each as a phrase. If there are none, all seeds give the same run.
    fn draws(&self, py: Python<'_>, index: usize) -> PyResult<Vec<String>> {
        py.detach(|| self.plan.draws(index).map_err(bug))
    }

    /// Simulates one run without the GIL; returns None if it was stopped. With `linux`, a version such as (7, 3),
    /// disciplines behave as in that version of Linux. `outside` are disciplines of the user's.
    #[pyo3(signature = (index, *, engine = "fast", packets = false, series = true, progress = None, linux = None, outside = vec![]))]
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
        outside: Vec<Given>,
    ) -> PyResult<Option<Output>> {
        let engine = match engine {
            "fast" => Engine::Fast,
            "heap" => Engine::Heap,
            other => return Err(Error::new_err(format!("engine = {other}: expected fast or heap"))),
        };
        let progress = progress.map(|one| one.0.clone());
        let failure = Failure::new(progress.clone());
        let makers = makers(py, &outside, &failure)?;
        let options = Options { engine, packets, series, progress, ..Options::default() };
        py.detach(|| {
            let mut scenario = self.scenario(index)?;
            if linux.is_some() || !makers.is_empty() {
                let hops = Arc::make_mut(&mut scenario).hops.iter_mut();
                for spec in hops.flat_map(|hop| [&mut hop.right, &mut hop.left]).flat_map(|link| link.qdiscs_mut()) {
                    *spec = linux.map_or_else(|| spec.clone(), |linux| spec.as_in(linux));
                    spec.bind(&makers);
                }
            }
            let given: Vec<&str> = makers.iter().map(|maker| maker.name()).collect();
            if let Some(why) = sojourn_sim::refusal(&scenario, &given) {
                return Err(Error::new_err(why));
            }
            let output = sojourn_sim::run(&scenario, &options).ok();
            failure.check()?;
            Ok(output.map(|output| Output::new("sim", &scenario, object(&self.plan.runs[index].set), output)))
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
            let scenario = self.scenario(index)?;
            if link >= scenario.hops.len() * 2 {
                return Err(Error::new_err(format!("link = {link}: there are {}", scenario.hops.len() * 2)));
            }
            let arrivals: Vec<(Time, u16)> = times.into_iter().map(Time).zip(bytes).collect();
            Ok(sojourn_sim::alone::ring(&scenario, link, &arrivals, Span(phase)))
        })?;
        let row = |(at, held): &(Time, Held)| vec![at.0, held.packets.into(), held.limit.into(), held.inflight.into()];
        PyArray2::from_vec2(py, &changes.iter().map(row).collect::<Vec<_>>()).map_err(bug)
    }

    /// The reason why the simulator cannot run a run; None if it can. `given` are the names of the disciplines of the
    /// user's that there are.
    #[pyo3(signature = (index, given = vec![]))]
    fn sim_refusal(&self, py: Python<'_>, index: usize, given: Vec<String>) -> PyResult<Option<String>> {
        py.detach(|| Ok(sojourn_sim::refusal(&*self.scenario(index)?, &given)))
    }

    /// The names of disciplines of the user's with which the plan was read.
    #[getter]
    fn outside_names(&self) -> Vec<String> {
        self.options.outside.clone()
    }

    /// The names of disciplines of the user's in a run.
    fn outside(&self, py: Python<'_>, index: usize) -> PyResult<Vec<String>> {
        py.detach(|| Ok(self.plan.outside(index).map_err(bug)?.into_iter().collect()))
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
            let scenario = self.scenario(index)?;
            Ok(express::refusal(&scenario, &express::Kernel { version, modules }, mode))
        })
    }

    /// The reason why this host cannot play a run in the world `live`; None if it can. With the engine `tc` the queues are
    /// those of its kernel; whether it has the disciplines is not asked here.
    #[pyo3(signature = (index, engine = "ours"))]
    fn live_refusal(&self, py: Python<'_>, index: usize, engine: &str) -> PyResult<Option<String>> {
        let owner: sojourn_live::queue::Owner = engine.parse().map_err(Error::new_err)?;
        py.detach(|| {
            let scenario = self.scenario(index)?;
            Ok(sojourn_live::express::refusal(&scenario, &sojourn_live::express::Host::read(), owner))
        })
    }

    /// The disciplines of a run, each once, as lines for `tc`.
    fn disciplines(&self, py: Python<'_>, index: usize) -> PyResult<Vec<String>> {
        py.detach(|| {
            let scenario = self.scenario(index)?;
            let links = (0..scenario.hops.len() * 2).map(|link| scenario.link(link));
            let lines: BTreeSet<String> = links.flat_map(|link| link.qdiscs().map(ToString::to_string)).collect();
            Ok(lines.into_iter().collect())
        })
    }

    /// The cost of a run: transmissions at most, packets held at once, and the queue that holds most of them with its
    /// number.
    fn cost(&self, py: Python<'_>, index: usize) -> PyResult<(f64, f64, String, f64)> {
        let cost = py.detach(|| self.plan.cost(index)).map_err(bug)?;
        Ok((cost.transmissions, cost.held, cost.queue, cost.queued))
    }

    /// The kernel's timer ticks per second (HZ) for a run.
    fn kernel_hz(&self, py: Python<'_>, index: usize) -> PyResult<u32> {
        py.detach(|| Ok(self.plan.host(index).map_err(bug)?.hz))
    }

    /// JSON: the job of a guest for a run. `modules` are the names of modules of the user's, and `replaces` the
    /// discipline of the kernel's that they replace.
    #[pyo3(signature = (index, *, link = "device", probe = true, sink = "kernel", tc_lib_dir = None, all_counters = false, modules = vec![], replaces = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one call")]
    fn kernel_job(
        &self,
        index: usize,
        link: &str,
        probe: bool,
        sink: &str,
        tc_lib_dir: Option<String>,
        all_counters: bool,
        modules: Vec<String>,
        replaces: Option<String>,
    ) -> PyResult<String> {
        let job = Job::new(&self.plan, &self.options, index, mode(link, probe, sink)?);
        let own = Own { modules, replaces };
        serde_json::to_string(&Job { tc_lib_dir, all_counters, own, ..job }).map_err(bug)
    }

    /// Evaluates the files of a guest, or of a run in the world `live`: the applications' results, the path of the file
    /// with the records, which may be large, and the counters; `origin` is time zero on the clock of the records.
    #[pyo3(signature = (index, played, seen, counted, origin, *, world = "kernel", link = "device", packets = false, series = true))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one call")]
    fn observe(
        &self,
        py: Python<'_>,
        index: usize,
        played: PyBackedBytes,
        seen: PathBuf,
        counted: PyBackedBytes,
        origin: u64,
        world: &str,
        link: &str,
        packets: bool,
        series: bool,
    ) -> PyResult<Output> {
        let mode = mode(link, true, "kernel")?;
        py.detach(|| {
            let scenario = self.scenario(index)?;
            let played = serde_json::from_slice(&played).map_err(bug)?;
            let seen = Mapped::open(&seen).map_err(|error| bug(format!("{}: {error}", seen.display())))?;
            let keep = observe::Keep { packets, series };
            let output = observe::output(&scenario, mode, &played, (&seen, &counted), origin, keep).map_err(bug)?;
            Ok(Output::new(world, &scenario, object(&self.plan.runs[index].set), output))
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
