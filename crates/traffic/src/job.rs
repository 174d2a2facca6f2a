//! What a guest is asked to do: everything that it needs to draw the same scenario as the host, in one JSON object.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::rates::Rates;
use sojourn_model::scenario::{Scenario, Trace, TraceFile};

/// What shapes the hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// Our network device: rate, ring and completions, then the delay.
    Device,
    /// `htb` at the root of an infinitely fast device, the discipline below it.
    Htb,
    /// `tbf` at the root, the discipline below it.
    Tbf,
}

impl LinkKind {
    /// All, by their names on the command line.
    pub const ALL: [(&'static str, LinkKind); 3] =
        [("device", LinkKind::Device), ("htb", LinkKind::Htb), ("tbf", LinkKind::Tbf)];

    /// The kind of this name.
    pub fn named(name: &str) -> Option<LinkKind> {
        LinkKind::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        LinkKind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// How a run is made in the kernel world.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mode {
    /// What shapes the hops.
    pub link: LinkKind,
    /// Whether packets are seen one by one; without it only the counters of the kernel are left.
    pub probe: bool,
    /// Who takes up what arrives.
    pub sink: Sink,
}

/// Who takes up the data of a flow whose receiver only counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sink {
    /// The guest's kernel, in softirq: faster than a program, and the same to the packet.
    Kernel,
    /// The program, woken for each arrival.
    Program,
    /// The program, woken for each 64 kB (`SO_RCVLOWAT`): another receiver, for comparison.
    Lowat,
}

impl Sink {
    /// All, by their names on the command line.
    pub const ALL: [(&'static str, Sink); 3] =
        [("kernel", Sink::Kernel), ("program", Sink::Program), ("lowat", Sink::Lowat)];

    /// The sink of this name.
    pub fn named(name: &str) -> Option<Sink> {
        Sink::ALL.iter().find(|(known, _)| *known == name).map(|(_, sink)| *sink)
    }
}

/// A file of rates, as [`Rates`] has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RateFile {
    /// As the scenario names it.
    pub name: String,
    /// Times in ns, and bits per second from then on.
    pub steps: Vec<(u64, u64)>,
    /// In ns.
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

/// One run of a plan: the file's text and the options that the plan was made with, so that the guest makes it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Always `run`.
    pub job: String,
    /// The file's name, for the title and for messages.
    pub file: String,
    /// Its text.
    pub source: String,
    /// `--set`, as given.
    pub set: Vec<(String, String)>,
    /// `--seed`, as given.
    pub seed: Option<u64>,
    /// `--seeds`, as given.
    pub seeds: Option<u64>,
    /// The number of the run in the plan.
    pub index: usize,
    /// The traces that the file names: their milliseconds.
    pub traces: Vec<(String, Vec<u64>)>,
    /// The files of rates that it names.
    #[serde(default)]
    pub rates: Vec<RateFile>,
    /// The files of sizes that the file names.
    #[serde(default)]
    pub sizes: Vec<(String, Vec<u64>)>,
    /// Where `tc` finds plugins for disciplines that it does not know.
    #[serde(default)]
    pub tc_lib_dir: Option<String>,
    /// Bytes of records that the probe keeps at most, if less than it could.
    #[serde(default)]
    pub most_records: Option<u64>,
    /// Read all counters of the guest at the end of the run, not only those of the queue disciplines.
    #[serde(default)]
    pub all_counters: bool,
    /// How it is made.
    #[serde(flatten)]
    pub mode: Mode,
}

impl Job {
    /// Run number `index` of a plan that was made with these options.
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

    /// The scenario, drawn again.
    ///
    /// # Errors
    /// The job is none that [`Job::new`] made.
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
