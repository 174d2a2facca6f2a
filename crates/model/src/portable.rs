//! A plan as a value that can be sent to another machine. It has the scenario's text, the options, and the contents of
//! all files that the scenario names.
//!
//! A guest, or a worker on another machine, cannot read these files. From this value it makes the same plan and draws
//! the same workload.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sojourn_core::units::{Rate, Span, Time};

use crate::error::Error;
use crate::plan::{LoadOptions, Plan};
use crate::rates::Rates;
use crate::scenario::{Trace, TraceFile};

/// The content of a file of rates, with the fields of [`Rates`] as plain numbers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RateFile {
    /// The file's name in the scenario.
    pub name: String,
    /// The steps: a time in nanoseconds, and the rate from that time on in bits per second.
    pub steps: Vec<(u64, u64)>,
    /// The period after which the steps repeat, in nanoseconds.
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

/// Everything from which a plan was made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Portable {
    /// The file's name without its folder, for the title and for messages.
    pub file: String,
    /// The text of the scenario file.
    pub source: String,
    /// `--set`, as given.
    pub set: Vec<(String, String)>,
    /// `--seed`, as given.
    pub seed: Option<u64>,
    /// `--seeds`, as given.
    pub seeds: Option<u64>,
    /// The mahimahi traces that the scenario names: name, and the times of the delivery opportunities in milliseconds.
    pub traces: Vec<(String, Vec<u64>)>,
    /// The files of rates that the scenario names.
    #[serde(default)]
    pub rates: Vec<RateFile>,
    /// The files of sizes that the scenario names: name, and sizes in bytes.
    #[serde(default)]
    pub sizes: Vec<(String, Vec<u64>)>,
    /// The names of disciplines from outside.
    #[serde(default)]
    pub outside: Vec<String>,
}

impl Portable {
    /// Describes a plan that was made with these options.
    pub fn new(plan: &Plan, options: &LoadOptions) -> Portable {
        let (mut traces, mut rates) = (Vec::new(), Vec::new());
        for (name, file) in plan.traces() {
            match file {
                TraceFile::Opportunities(trace) => traces.push((name.clone(), trace.opportunities_ms.clone())),
                TraceFile::Rates(one) => rates.push(RateFile::new(name, one)),
            }
        }
        Portable {
            file: plan.file.rsplit('/').next().unwrap_or_default().to_owned(),
            source: plan.source.clone(),
            set: options.set.clone(),
            seed: options.seed,
            seeds: options.seeds,
            traces,
            rates,
            sizes: plan.sizes().iter().map(|(name, sizes)| (name.clone(), sizes.to_vec())).collect(),
            outside: options.outside.clone(),
        }
    }

    /// Restores the plan and its options. No file is read.
    ///
    /// # Errors
    /// The value was not made by [`Portable::new`].
    pub fn plan(&self) -> Result<(Plan, LoadOptions), Error> {
        let opportunities = |ms: &[u64]| TraceFile::Opportunities(Arc::new(Trace { opportunities_ms: ms.to_vec() }));
        let traces = self.traces.iter().map(|(name, ms)| (name.clone(), opportunities(ms)));
        let rates = self.rates.iter().map(|file| (file.name.clone(), file.read()));
        let options = LoadOptions {
            set: self.set.clone(),
            seed: self.seed,
            seeds: self.seeds,
            traces: traces.chain(rates).collect(),
            sizes: self.sizes.clone(),
            outside: self.outside.clone(),
            ..LoadOptions::default()
        };
        Ok((Plan::load(&self.file, self.source.as_bytes(), &options)?, options))
    }
}
