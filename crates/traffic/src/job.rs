//! What a guest is asked to do: everything that it needs to draw the same scenario as the host, in one JSON object.

use serde::{Deserialize, Serialize};
use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::portable::Portable;
use sojourn_model::scenario::Scenario;

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

/// One run of a plan: the plan, so that the guest makes it again, and how the run is made.
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
        Job {
            job: "run".to_owned(),
            plan: Portable::new(plan, options),
            index,
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
        let (plan, _) = self.plan.plan().map_err(|error| error.to_string())?;
        if self.index >= plan.runs.len() {
            return Err(format!("index = {}: the plan has {} runs", self.index, plan.runs.len()));
        }
        plan.scenario(self.index).map_err(|error| error.to_string())
    }
}
