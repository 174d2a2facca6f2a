//! From a scenario file to the list of its runs. Every error is found here, before anything runs.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value as Json;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::units::Time;

use crate::address;
use crate::cost::{self, Cost};
use crate::describe::Description;
use crate::document::{self, Kind, Table, Value};
use crate::draws;
use crate::error::Error;
use crate::file;
use crate::foreign;
use crate::read::Context;
use crate::scenario::{Host, Scenario, TraceFile};
use crate::sweep::{MOST_RUNS, Sweep};
use crate::workload::draw::draw;
use crate::workload::webs::Webs;

/// Upper limit on the size of a scenario file, in bytes.
const LARGEST_FILE: usize = 16 << 20;

/// Command-line options that modify a scenario file.
#[derive(Clone, Default, Debug)]
pub struct LoadOptions {
    /// `--set KEY=VALUE`: the address, and the value as TOML or bare text. It overrides a sweep of the same key.
    pub set: Vec<(String, String)>,
    /// The first seed; 1 if absent.
    pub seed: Option<u64>,
    /// The number of seeds; overrides that of the file.
    pub seeds: Option<u64>,
    /// Trace files that are already loaded, by their names in the scenario; no other trace file is opened.
    pub traces: Vec<(String, TraceFile)>,
    /// Files of sizes that are already loaded, by their names in the scenario.
    pub sizes: Vec<(String, Vec<u64>)>,
    /// The names of disciplines from outside, which a line for `tc` may begin with.
    pub outside: Vec<String>,
    /// Whether a program wrote the text. Errors then name keys and values, but no line numbers.
    pub without_lines: bool,
}

/// The values that differ from the file, as written: each `--set` key, then each swept key.
pub type Set = Arc<[(String, Json)]>;

/// One run of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The values that distinguish the run's combination; shared by its seeds.
    pub set: Set,
    /// The seed of the run.
    pub seed: u64,
    /// The duration of the run.
    pub duration: Time,
    /// The index of its combination in the sweep.
    combination: u64,
}

/// A combination that uses a feature that is not implemented.
#[derive(Clone, PartialEq, Debug)]
pub struct Skipped {
    /// The values that distinguish it.
    pub set: Set,
    /// The reason why it does not run.
    pub reason: String,
}

/// A checked file.
pub struct Plan {
    /// The title of the scenario, before a sweep changes anything.
    pub title: String,
    /// The file's name as the caller gave it.
    pub file: String,
    /// All runs. The first swept key is outermost, the seed innermost.
    pub runs: Vec<Run>,
    /// Combinations of the sweep that use a feature that is not implemented.
    pub skipped: Vec<Skipped>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The text of the file.
    pub source: String,
    root: Table,
    sweep: Sweep,
    stem: String,
    traces: Vec<(String, TraceFile)>,
    sizes: Vec<(String, Arc<Vec<u64>>)>,
    outside: Arc<[String]>,
    webs: Webs,
}

impl Plan {
    /// Reads and checks a scenario whose file `path` has the content `source`. Trace files are relative to the folder
    /// of `path`.
    ///
    /// # Errors
    /// The first error in the file, the options, or any combination of the sweep.
    pub fn load(path: &str, source: &[u8], options: &LoadOptions) -> Result<Plan, Error> {
        Plan::read(path, source, options).map_err(|error| error.in_file(path))
    }

    /// Opens and checks the file at `path`.
    ///
    /// # Errors
    /// Those of [`Plan::load`], or that the file cannot be read.
    pub fn open(path: &str, options: &LoadOptions) -> Result<Plan, Error> {
        let unreadable = |error| Error::of_file(format!("cannot read: {error}")).in_file(path);
        let source = file::read(Path::new(path), LARGEST_FILE as u64).map_err(unreadable)?;
        Plan::load(path, &source, options)
    }

    /// The trace files of the scenario, by their names in it.
    pub fn traces(&self) -> &[(String, TraceFile)] {
        &self.traces
    }

    /// The files of sizes of the scenario, by their names in it.
    pub fn sizes(&self) -> &[(String, Arc<Vec<u64>>)] {
        &self.sizes
    }

    /// Returns the scenario of run number `run` with its workload drawn.
    ///
    /// # Errors
    /// None beyond those that [`Plan::load`] found. Panics if there is no such run.
    pub fn scenario(&self, run: usize) -> Result<Scenario, Error> {
        self.with_seed(run, self.runs[run].seed)
    }

    /// The hosts of run number `run`. No workload is drawn to find them.
    ///
    /// # Errors
    /// As [`Plan::scenario`]. Panics if there is no such run.
    pub fn host(&self, run: usize) -> Result<Host, Error> {
        let described = self.describe(&self.context(), self.runs[run].combination);
        described.map(|one| one.host).map_err(|error| error.in_file(&self.file))
    }

    /// The cost of run number `run`. No workload is drawn to find it.
    ///
    /// # Errors
    /// As [`Plan::scenario`]. Panics if there is no such run.
    pub fn cost(&self, run: usize) -> Result<Cost, Error> {
        let described = self.describe(&self.context(), self.runs[run].combination);
        described.map(|one| cost::of(&one)).map_err(|error| error.in_file(&self.file))
    }

    /// The names of disciplines from outside that run number `run` uses. No workload is drawn to find them.
    ///
    /// # Errors
    /// As [`Plan::scenario`]. Panics if there is no such run.
    pub fn outside(&self, run: usize) -> Result<BTreeSet<String>, Error> {
        if self.outside.is_empty() {
            return Ok(BTreeSet::new());
        }
        let described = self.describe(&self.context(), self.runs[run].combination);
        let hops = described.map_err(|error| error.in_file(&self.file))?.hops;
        let specs = hops.iter().flat_map(|hop| hop.right.qdiscs().chain(hop.left.qdiscs()));
        Ok(specs.filter(|spec| matches!(spec, Spec::External(_))).map(|spec| spec.kind().to_owned()).collect())
    }

    /// Returns the random inputs of run number `run`, each as a phrase for messages. If there are none, all seeds give
    /// the same run in the simulator.
    ///
    /// # Errors
    /// Those of [`Plan::scenario`]. Panics if there is no such run.
    pub fn draws(&self, run: usize) -> Result<Vec<String>, Error> {
        let seed = self.runs[run].seed;
        Ok(draws::between(&self.with_seed(run, seed)?, &self.with_seed(run, seed ^ 1)?))
    }

    fn with_seed(&self, run: usize, seed: u64) -> Result<Scenario, Error> {
        let combination = self.runs[run].combination;
        let described = self.describe(&self.context(), combination).map_err(|error| error.in_file(&self.file))?;
        Ok(draw(described, seed, &self.webs))
    }

    /// The files that the scenario names, already read, and the names of disciplines from outside.
    fn context(&self) -> Context {
        let traces: BTreeMap<_, _> = self.traces.iter().cloned().collect();
        let sizes: BTreeMap<_, _> = self.sizes.iter().cloned().collect();
        let outside = Arc::clone(&self.outside);
        Context { traces: traces.into(), sizes: sizes.into(), outside, ..Context::default() }
    }

    fn read(path: &str, source: &[u8], options: &LoadOptions) -> Result<Plan, Error> {
        let source = text(source)?;
        let parsed = document::parse(source)?;
        let mut root = if options.without_lines { document::without_lines_in(parsed) } else { parsed };
        address::spread_down(&mut root)?;
        let same = |one: &str, other: &str| address::plain(one) == address::plain(other);
        let mut set: Vec<(String, Json)> = Vec::with_capacity(options.set.len());
        for (key, text) in &options.set {
            if let Some((other, _)) = set.iter().find(|(other, _)| other != key && same(other, key)) {
                return Err(Error::at(None, key, format!("set twice: {other} is the same key; expected one of them")));
            }
            let value = document::parse_value(text);
            set.push((key.clone(), value.json()));
            address::set(&mut root, key, value, None)?;
        }
        let section = root.remove("sweep");
        let sweep = Sweep::read(section.as_ref(), |key| options.set.iter().any(|(fixed, _)| same(fixed, key)))?;
        let seeds = seeds(&root, &sweep, options)?;
        let combinations = sweep.combinations().filter(|n| n.checked_mul(seeds).is_some_and(|runs| runs <= MOST_RUNS));
        let Some(combinations) = combinations else {
            let line = section.and_then(|section| section.line);
            return Err(Error::at(
                line,
                "sweep",
                format!("too many runs: at most {MOST_RUNS} combinations times seeds"),
            ));
        };
        let path_of = Path::new(path);
        let stem = path_of.file_stem().map_or_else(|| path.to_owned(), |stem| stem.to_string_lossy().into_owned());
        let folder = path_of.parent().map(Path::to_path_buf).unwrap_or_default();
        let mut plan = Plan {
            title: match root.get("title") {
                Some(Value { kind: Kind::Text(title), .. }) => file::harmless(title),
                _ => stem.clone(),
            },
            file: path.to_owned(),
            runs: Vec::new(),
            skipped: Vec::new(),
            warnings: Vec::new(),
            source: source.to_owned(),
            root,
            sweep,
            stem,
            traces: Vec::new(),
            sizes: Vec::new(),
            outside: options.outside.clone().into(),
            webs: Webs::default(),
        };
        let traces = RefCell::new(options.traces.iter().cloned().collect());
        let known = options.sizes.iter().map(|(name, sizes)| (name.clone(), Arc::new(sizes.clone())));
        let sizes = RefCell::new(known.collect());
        let outside = Arc::clone(&plan.outside);
        plan.check(
            Context { folder, traces, sizes, outside, ..Context::default() },
            combinations,
            &set,
            (options.seed.unwrap_or(1), seeds),
        )?;
        Ok(plan)
    }

    /// Checks every combination once, and lists the runs of those that are built.
    fn check(
        &mut self,
        context: Context,
        combinations: u64,
        set: &[(String, Json)],
        (seed, seeds): (u64, u64),
    ) -> Result<(), Error> {
        let Some(last) = seed.checked_add(seeds - 1) else {
            return Err(
                Error::at(None, "seed", "expected a seed that leaves room for those after it").value(seed.to_string())
            );
        };
        let mut first_skipped = None;
        for combination in 0..combinations {
            let swept =
                self.sweep.combination(combination).into_iter().map(|(key, _, value)| (key.to_owned(), value.json()));
            let set: Set = set.iter().cloned().chain(swept).collect();
            match self.describe(&context, combination) {
                Ok(Description { duration, .. }) => {
                    let run = |seed| Run { set: Arc::clone(&set), seed, duration, combination };
                    self.runs.extend((seed..=last).map(run));
                }
                Err(error) if error.not_built => {
                    let asked = error.value.as_deref().unwrap_or(&error.key);
                    let reason = match error.problem.contains("not built yet") {
                        true => format!("{asked} is not built yet"),
                        false => error.problem.clone(),
                    };
                    self.skipped.push(Skipped { set, reason });
                    first_skipped.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        self.warnings = context.warnings.into_inner();
        self.traces = context.traces.into_inner().into_iter().collect();
        self.sizes = context.sizes.into_inner().into_iter().collect();
        match first_skipped {
            Some(error) if self.runs.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    fn describe(&self, context: &Context, combination: u64) -> Result<Description, Error> {
        let assignments = self.sweep.combination(combination);
        if assignments.is_empty() {
            return Description::read(context, &self.root, &self.stem);
        }
        let mut root = self.root.clone();
        for (key, line, value) in assignments {
            address::set(&mut root, key, value.clone(), line)?;
        }
        Description::read(context, &root, &self.stem)
    }
}

fn text(source: &[u8]) -> Result<&str, Error> {
    if source.len() > LARGEST_FILE {
        let large = || format!("larger than {LARGEST_FILE} bytes: this is no scenario file");
        return Err(Error::of_file(foreign::kind(source).unwrap_or_else(large)));
    }
    std::str::from_utf8(source).map_err(|error| {
        if let Some(kind) = foreign::kind(source) {
            return Error::of_file(kind);
        }
        let line = source[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::at(u32::try_from(line).ok(), "", "no text in UTF-8: expected a scenario file in TOML")
    })
}

/// Returns the number of seeds, given by the caller, the sweep or the file, in this order of preference.
fn seeds(root: &Table, sweep: &Sweep, options: &LoadOptions) -> Result<u64, Error> {
    let fault =
        |line, key: &str, written| Error::at(line, key, "expected a number of seeds from 1 to 100000").value(written);
    if let Some(seeds) = options.seeds {
        return if (1..=MOST_RUNS).contains(&seeds) { Ok(seeds) } else { Err(fault(None, "seeds", seeds.to_string())) };
    }
    let (key, value) = match (root.get("seeds"), &sweep.seeds) {
        (Some(_), Some(twice)) => {
            return Err(Error::at(twice.line, "sweep.seeds", "given twice: also at the top of the file"));
        }
        (Some(value), None) => ("seeds", value),
        (None, Some(value)) => ("sweep.seeds", value),
        (None, None) => return Ok(1),
    };
    match value.kind {
        Kind::Integer(n) if (1..=MOST_RUNS as i64).contains(&n) => Ok(n as u64),
        _ => Err(fault(value.line, key, value.written())),
    }
}
