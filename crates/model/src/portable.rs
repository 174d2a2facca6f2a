//! A plan as a value that travels: the scenario's text, the options, and what the files that it names contain.
//!
//! A guest and a worker on another machine have none of these files. From this value they make the same plan, and draw
//! the same workload.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sojourn_core::units::{Rate, Span, Time};

use crate::error::Error;
use crate::plan::{LoadOptions, Plan};
use crate::rates::Rates;
use crate::scenario::{Trace, TraceFile};

/// A file of rates, as [`Rates`] has it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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

/// All that a plan was made from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Portable {
    /// The file's name without its folder, for the title and for messages.
    pub file: String,
    /// Its text.
    pub source: String,
    /// `--set`, as given.
    pub set: Vec<(String, String)>,
    /// `--seed`, as given.
    pub seed: Option<u64>,
    /// `--seeds`, as given.
    pub seeds: Option<u64>,
    /// The traces that the file names: their milliseconds.
    pub traces: Vec<(String, Vec<u64>)>,
    /// The files of rates that it names.
    #[serde(default)]
    pub rates: Vec<RateFile>,
    /// The files of sizes that the file names.
    #[serde(default)]
    pub sizes: Vec<(String, Vec<u64>)>,
}

impl Portable {
    /// A plan that was made with these options.
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
            ..LoadOptions::default()
        };
        Ok((Plan::load(&self.file, self.source.as_bytes(), &options)?, options))
    }
}
