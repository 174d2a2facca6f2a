//! Random parameters, random load, and changes of the parameters during the run: the counters balance (see `ledger`).
//!
//! `SOJOURN_FUZZ_S=600 cargo test -p sojourn-core --test all fuzz` takes ten minutes; without the variable it takes a moment.
//! `SOJOURN_FUZZ_QDISC=codel` draws codel only. A failing case is shrunk and written into `corpus/`, whose files every run
//! plays first:
//!
//!     # what it was
//!     qdisc fq_codel limit 25 flows 4
//!     0 put FLOW BYTES TOS COUNT
//!     1024000000 take COUNT
//!     1024000000 change fq_codel limit 1

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;
use std::{env, fs};

use crate::ledger::{Ledger, Op, Trace};
use sojourn_core::qdisc::tc::{NAMES, Spec};
use sojourn_core::rng::Rng;

/// Traces of a run without `SOJOURN_FUZZ_S`: the same ones on every machine.
const TRACES: u64 = 1000;
/// These refuse every change: see `Spec::unchangeable`, and the header of sfq.
const FIXED: [&str; 4] = ["cake", "htb", "blue", "sfq"];

/// A discipline and what happens to it.
#[derive(Clone)]
struct Case {
    line: String,
    trace: Trace,
}

impl Case {
    fn read(text: &str) -> Result<Case, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let line = lines.next().and_then(|line| line.strip_prefix("qdisc ")).ok_or("expected: qdisc LINE")?;
        let op = |row: &str| {
            let (at, op) = row.split_once(' ').ok_or_else(|| format!("{row}: expected: TIME OP"))?;
            Ok((at.parse().map_err(|error| format!("{row}: {error}"))?, op.parse()?))
        };
        Ok(Case { line: line.to_string(), trace: lines.map(op).collect::<Result<_, String>>()? })
    }

    fn written(&self, fault: &str) -> String {
        let mut text = format!("# {}\nqdisc {}\n", fault.replace('\n', " "), self.line);
        for (at, op) in &self.trace {
            writeln!(text, "{at} {op}").expect("a string takes everything");
        }
        text
    }

    /// How many changes were made, or what is wrong.
    fn play(&self) -> Result<u32, String> {
        let run = || {
            let mut ledger = Ledger::new(&self.line);
            ledger.run(&self.trace).map(|()| ledger.changed)
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("it panics".to_string()))
    }

    /// That it plays, and that no row of it has lost its meaning: a change that is refused shows nothing any more.
    fn holds(&self) -> Result<(), String> {
        let changes = self.trace.iter().filter(|(_, op)| matches!(op, Op::Change(_))).count();
        let taken = self.play()? as usize;
        if taken == changes { Ok(()) } else { Err(format!("{taken} of {changes} changes are taken on")) }
    }

    /// As few rows as fail, with as few packets: ever smaller parts are left out, for as long as that helps.
    fn shrunk(mut self) -> Case {
        let mut part = self.trace.len();
        while part > 0 {
            let mut begin = 0;
            while begin < self.trace.len() {
                let mut less = self.clone();
                less.trace.drain(begin..(begin + part).min(self.trace.len()));
                if less.play().is_err() { self = less } else { begin += part }
            }
            part /= 2;
        }
        for row in 0..self.trace.len() {
            while let Some(less) = self.with_less(row).filter(|less| less.play().is_err()) {
                self = less;
            }
        }
        self
    }

    /// With half as many packets in a row.
    fn with_less(&self, row: usize) -> Option<Case> {
        let mut less = self.clone();
        match &mut less.trace[row].1 {
            Op::Put { count, .. } | Op::Take(count) if *count > 1 => *count /= 2,
            _ => return None,
        }
        Some(less)
    }
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Arrivals of 1 to 5000 flows in bursts, with ties, lengths from nothing to 64 KiB, all ECN fields, some DSCPs, long
/// rests, and now and then other parameters.
fn load(spec: &Spec, rng: &mut Rng) -> Trace {
    const STEPS: [u64; 7] = [0, 0, 1_211_200, 120_000, 20_000_000, 700_000_000, 90_000_000_000];
    let flows = [1, 2, 10, 300, 5000][rng.next_u32_below(5) as usize];
    let (mut now, mut present) = (0, spec.clone());
    let mut trace = Trace::new();
    for _ in 0..120 {
        let most = if rng.next_u32_below(10) == 0 { STEPS.len() } else { 5 };
        now += STEPS[rng.next_u32_below(most as u32) as usize];
        let op = match rng.next_u32_below(25) {
            0 => {
                let line = present.corner_change(rng);
                present = present.changed(&line).map_or(present, |change| change.spec);
                Op::Change(line)
            }
            1..=12 => {
                let bytes = [0, 1, 40, 64, 300, 1500, 1500, 1514, 1514, 65_535][rng.next_u32_below(10) as usize];
                let dscp = [0, 0, 0, 0, 8, 10, 34, 46, 63][rng.next_u32_below(9) as usize];
                let tos = dscp << 2 | rng.next_u32_below(4) as u8;
                Op::Put { flow: rng.next_u32_below(flows), bytes, tos, count: 1 + rng.next_u32_below(20) }
            }
            _ => Op::Take(1 + rng.next_u32_below(20)),
        };
        trace.push((now, op));
    }
    trace
}

/// The discipline that alone is drawn, if there is one of this name that holds packets.
fn only(name: Option<&str>) -> Result<Option<&'static str>, String> {
    let Some(name) = name else { return Ok(None) };
    let known: Vec<&str> = NAMES.iter().copied().filter(|known| *known != "noqueue").collect();
    let found = known.iter().find(|known| **known == name).copied();
    found.map(Some).ok_or_else(|| format!("SOJOURN_FUZZ_QDISC={name}: expected one of: {}", known.join(", ")))
}

/// Parameters at the corners, of any discipline or of one.
fn drawn(only: Option<&str>, rng: &mut Rng) -> Spec {
    loop {
        let spec = Spec::corner(rng);
        if only.is_none_or(|name| spec.kind() == name) {
            return spec;
        }
    }
}

#[test]
fn what_once_failed_holds() {
    let mut files: Vec<PathBuf> =
        fs::read_dir(corpus()).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        let name = file.display();
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let case = Case::read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        case.holds().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_case_with_a_refused_change_does_not_hold() {
    let case = |change: &str| Case::read(&format!("qdisc codel limit 9\n0 put 0 1514 0 2\n1 change {change}"));
    let holds = |change: &str| case(change).and_then(|case| case.holds());
    assert_eq!(holds("codel limit 1"), Ok(()));
    for refused in ["codel limt 1", "fq_codel limit 1", "codel variant ns2"] {
        assert_eq!(holds(refused), Err("0 of 1 changes are taken on".to_string()), "{refused}");
    }
}

#[test]
fn a_case_is_made_as_small_as_its_fault() {
    // A line that is none panics whatever happens: nothing is left. And what is written is read again.
    let mut rng = Rng::stream(3, "fuzz");
    let spec: Spec = "codel limit 9".parse().expect("codel");
    let case = Case { line: "codel limit".to_string(), trace: load(&spec, &mut rng) };
    assert_eq!(case.clone().shrunk().trace, []);
    let sound = Case { line: spec.to_string(), ..case };
    assert_eq!(Case::read(&sound.written("a\nb")).map(|read| read.trace), Ok(sound.trace));
}

#[test]
fn the_draws_can_be_restricted_to_one_discipline() {
    let mut rng = Rng::stream(4, "fuzz");
    let one = only(Some("fq_codel")).expect("a discipline");
    assert!((0..20).all(|_| drawn(one, &mut rng).kind() == "fq_codel"));
    let any: std::collections::BTreeSet<_> = (0..200).map(|_| drawn(None, &mut rng).kind().to_owned()).collect();
    assert!(any.len() > 10, "{any:?}");
    let fault = only(Some("fq_coddle")).expect_err("there is none");
    assert!(fault.contains("SOJOURN_FUZZ_QDISC=fq_coddle") && fault.contains("fq_codel"), "{fault}");
    assert!(only(Some("noqueue")).is_err(), "it holds no packet");
}

#[test]
fn whatever_the_parameters_and_the_load_are_the_books_balance() {
    let seconds: Option<u64> = env::var("SOJOURN_FUZZ_S").ok().and_then(|text| text.parse().ok());
    let name = env::var("SOJOURN_FUZZ_QDISC").ok();
    let one = only(name.as_deref()).unwrap_or_else(|fault| panic!("{fault}"));
    let (begin, mut rng) = (Instant::now(), Rng::stream(1, "fuzz"));
    let (mut traces, mut changes) = (0u64, 0u64);
    while seconds.map_or(traces < TRACES, |seconds| begin.elapsed().as_secs() < seconds) {
        let spec = drawn(one, &mut rng);
        let case = Case { line: spec.to_string(), trace: load(&spec, &mut rng) };
        match case.play() {
            Ok(changed) => (traces, changes) = (traces + 1, changes + u64::from(changed)),
            Err(_) => {
                let small = case.shrunk();
                let fault = small.play().expect_err("it fails");
                let file = corpus().join(format!("found-{}-{traces}.txt", spec.kind()));
                fs::write(&file, small.written(&fault)).expect("a folder");
                panic!("{}: {fault}", file.display());
            }
        }
    }
    let fixed = one.is_some_and(|name| FIXED.contains(&name));
    assert!(fixed || traces == 0 || changes * 3 > traces, "{changes} changes in {traces} traces");
    if let Some(seconds) = seconds {
        let what = one.unwrap_or("all");
        let note = format!("{what}: {traces} traces, {changes} changes in {seconds} s\n");
        fs::write(format!("{}/fuzz-{what}.txt", env!("CARGO_TARGET_TMPDIR")), note).expect("a note");
    }
}
