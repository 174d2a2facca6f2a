//! The job of a guest: everything that it needs to draw the same scenario as the host, as one JSON object.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::portable::Portable;
use sojourn_model::scenario::Scenario;

/// File with the job, in the folder of a run.
pub const JOB: &str = "job.json";
/// File with the answer, which [`end`] writes.
pub const ENDED: &str = "ended.json";

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

/// Modules of the user's.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Own {
    /// Their names, without `.ko`.
    pub modules: Vec<String>,
    /// The discipline of the kernel's that they replace.
    pub replaces: Option<String>,
}

/// The job of one run: the plan, from which the guest draws the scenario again, and the options of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Always `run`.
    pub job: String,
    /// The plan.
    #[serde(flatten)]
    pub plan: Portable,
    /// The number of the run in the plan.
    pub index: usize,
    /// Where `tc` finds plugins for disciplines that it does not know.
    #[serde(default)]
    pub tc_lib_dir: Option<String>,
    /// Modules of the user's.
    #[serde(default)]
    pub own: Own,
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
        Job {
            job: "run".to_owned(),
            plan: Portable::new(plan, options),
            index,
            tc_lib_dir: None,
            own: Own::default(),
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
        let (plan, _) = self.plan.plan().map_err(|error| error.to_string())?;
        if self.index >= plan.runs.len() {
            return Err(format!("index = {}: the plan has {} runs", self.index, plan.runs.len()));
        }
        plan.scenario(self.index).map_err(|error| error.to_string())
    }
}

/// Writes the answer to a job, the last file of a run: the field `ok`, and the result's own fields or its `error`.
/// Returns whether it is no error.
pub fn end(folder: &Path, done: Result<Value, String>) -> bool {
    let (is_ok, error) = (done.is_ok(), done.as_ref().err().cloned());
    let answer = match done {
        Ok(Value::Object(mut fields)) => {
            fields.insert("ok".to_owned(), true.into());
            Value::Object(fields)
        }
        Ok(_) => json!({ "ok": true }),
        Err(error) => json!({ "ok": false, "error": error }),
    };
    let written = fs::write(folder.join(ENDED), answer.to_string());
    if let Err(fault) = &written {
        // The one who asked notices a missing answer, and reads what was said last.
        let _ = writeln!(io::stderr(), "{}", error.unwrap_or_else(|| format!("{ENDED}: {fault}")));
    }
    is_ok && written.is_ok()
}
