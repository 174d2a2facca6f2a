//! The job of a guest: everything that it needs to draw the same scenario as the host, as one JSON object.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::rates::Rates;
use sojourn_model::scenario::{Scenario, Trace, TraceFile};

/// The implementation of the hops' links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// Our network device: rate, ring, completions and delay.
    Device,
    /// `htb` at the root of an infinitely fast device, with the discipline as its child.
    Htb,
    /// `tbf` at the root, with the discipline as its child.
    Tbf,
}

impl LinkKind {
    /// All kinds with their names on the command line.
    pub const ALL: [(&'static str, LinkKind); 3] =
        [("device", LinkKind::Device), ("htb", LinkKind::Htb), ("tbf", LinkKind::Tbf)];

    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<LinkKind> {
        LinkKind::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Returns the kind's name.
    pub fn name(self) -> &'static str {
        LinkKind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// Options of a run in the kernel world.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mode {
    /// The implementation of the hops' links.
    pub link: LinkKind,
    /// Whether individual packets are recorded. Without it, the kernel's counters are the only result.
    pub probe: bool,
    /// The reader of bulk flows' sockets.
    pub sink: Sink,
}

/// The reader of data whose receiver only counts bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sink {
    /// The guest's kernel, in softirq: faster than a program, with identical packets.
    Kernel,
    /// The program, woken for each arrival.
    Program,
    /// The program, woken once per 64 kB (`SO_RCVLOWAT`): a different receiver, for comparison.
    Lowat,
}

impl Sink {
    /// All sinks with their names on the command line.
    pub const ALL: [(&'static str, Sink); 3] =
        [("kernel", Sink::Kernel), ("program", Sink::Program), ("lowat", Sink::Lowat)];

    /// Returns the sink with this name.
    pub fn named(name: &str) -> Option<Sink> {
        Sink::ALL.iter().find(|(known, _)| *known == name).map(|(_, sink)| *sink)
    }
}

/// A file of rates, in the form of [`Rates`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RateFile {
    /// The name in the scenario.
    pub name: String,
    /// Times in nanoseconds, and the rate in bit/s from each on.
    pub steps: Vec<(u64, u64)>,
    /// The period in nanoseconds.
    pub period: u64,
}

impl RateFile {
    fn new(name: &str, rates: &Rates) -> RateFile {
        let steps = rates.steps.iter().map(|(at, rate)| (at.0, rate.0)).collect();
        RateFile { name: name.to_owned(), steps, period: rates.period.0 }
    }

    fn read(&self) -> TraceFile {
        let steps = self.steps.iter().map(|(at, rate)| (Time(*at), Rate(*rate))).collect();
        TraceFile::Rates(Arc::new(Rates { steps, period: Span(self.period) }))
    }
}

/// One run of a plan: the text of the file and the plan's options, from which the guest makes the same plan again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Always `run`.
    pub job: String,
    /// The file's name, for the title and for messages.
    pub file: String,
    /// The text of the file.
    pub source: String,
    /// The `--set` options as given.
    pub set: Vec<(String, String)>,
    /// The `--seed` option as given.
    pub seed: Option<u64>,
    /// The `--seeds` option as given.
    pub seeds: Option<u64>,
    /// The index of the run in the plan.
    pub index: usize,
    /// The mahimahi traces of the scenario: name, and times in milliseconds.
    pub traces: Vec<(String, Vec<u64>)>,
    /// The files of rates of the scenario.
    #[serde(default)]
    pub rates: Vec<RateFile>,
    /// The files of sizes of the scenario: name, and sizes in bytes.
    #[serde(default)]
    pub sizes: Vec<(String, Vec<u64>)>,
    /// Folder in which `tc` finds plug-ins for disciplines that it does not know.
    #[serde(default)]
    pub tc_lib_dir: Option<String>,
    /// Upper limit on the probe's records in bytes, if lower than its own.
    #[serde(default)]
    pub most_records: Option<u64>,
    /// Whether to read all counters of the guest at the end of the run, instead of those of the queue disciplines only.
    #[serde(default)]
    pub all_counters: bool,
    /// Options of the run.
    #[serde(flatten)]
    pub mode: Mode,
}

impl Job {
    /// Describes run number `index` of a plan that was made with these options.
    pub fn new(plan: &Plan, options: &LoadOptions, index: usize, mode: Mode) -> Job {
        let (mut traces, mut rates) = (Vec::new(), Vec::new());
        for (name, file) in plan.traces() {
            match file {
                TraceFile::Opportunities(trace) => traces.push((name.clone(), trace.opportunities_ms.clone())),
                TraceFile::Rates(one) => rates.push(RateFile::new(name, one)),
            }
        }
        Job {
            job: "run".to_owned(),
            file: plan.file.rsplit('/').next().unwrap_or_default().to_owned(),
            source: plan.source.clone(),
            set: options.set.clone(),
            seed: options.seed,
            seeds: options.seeds,
            index,
            traces,
            rates,
            sizes: plan.sizes().iter().map(|(name, sizes)| (name.clone(), sizes.to_vec())).collect(),
            tc_lib_dir: None,
            most_records: None,
            all_counters: false,
            mode,
        }
    }

    /// Draws the scenario again.
    ///
    /// # Errors
    /// The job was not made by [`Job::new`].
    pub fn scenario(&self) -> Result<Scenario, String> {
        let opportunities = |ms: &[u64]| TraceFile::Opportunities(Arc::new(Trace { opportunities_ms: ms.to_vec() }));
        let traces = self.traces.iter().map(|(name, ms)| (name.clone(), opportunities(ms)));
        let rates = self.rates.iter().map(|file| (file.name.clone(), file.read()));
        let options = LoadOptions {
            set: self.set.clone(),
            seed: self.seed,
            seeds: self.seeds,
            traces: traces.chain(rates).collect(),
            sizes: self.sizes.clone(),
        };
        let plan = Plan::load(&self.file, self.source.as_bytes(), &options).map_err(|error| error.to_string())?;
        if self.index >= plan.runs.len() {
            return Err(format!("index = {}: the plan has {} runs", self.index, plan.runs.len()));
        }
        plan.scenario(self.index).map_err(|error| error.to_string())
    }
}
