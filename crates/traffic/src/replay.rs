//! Replay of a packet trace through a real kernel's queue discipline: the input and output of
//! `kernel/guest/sojourn_replay.c`.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sojourn_core::qdisc::tc::{Spec, own_words};

use crate::job::Own;
use crate::tc_tree::{self, Slot};
use crate::topology::Setting;
use crate::{express, flows, modules, os, own, seal, tc_stats};

/// The trace, in the run's folder.
pub const TRACE: &str = "trace.bin";
/// The fates of the trace's packets, in the run's folder.
pub const FATES: &str = "fates.bin";
/// The discipline's counters after the last packet, as `tc -s` prints them: JSON, or null if tc prints none.
pub const STATS: &str = "stats.json";
/// Disciplines that need classes. Without them, they drop all packets or use one class only. A discipline's line cannot
/// describe classes.
const CLASSES_ONLY: [&str; 4] = ["cbq", "drr", "hfsc", "qfq"];
/// Maximum number of changes that the module stores (`REPLAY_MOST_CHANGES`).
pub const MOST_CHANGES: usize = 1000;
const DEVICE: &str = "replay0";
const AT_ROOT: &str = "qdisc add dev replay0 root ";
const CONTROL: &str = "/proc/sojourn_replay";
/// Time zero of a trace is a multiple of this on the guest's clock, in nanoseconds. It is a whole number of CoDel's
/// ticks, the scheduler's ticks and jiffies (HZ 100, 250, 1000), and late enough for a queue that never dropped
/// (`codel::Law::LONG_AGO`).
const ORIGIN: u64 = 70_400_000_000;
/// The discipline is set up this many nanoseconds before time zero. Timers that it sets in jiffies then expire as if it
/// had been set up at time zero (`core`'s `qdisc::jiffies`).
const AHEAD: u64 = 8_000_000;

/// A replay job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Always `replay`.
    pub job: String,
    /// The discipline, as arguments for `tc`.
    pub words: Vec<String>,
    /// Further `tc` commands that follow, for classes and children.
    pub more: Vec<Vec<String>>,
    /// The changes in the trace, in order: the line in the trace, and the arguments for `tc`.
    #[serde(default)]
    pub changes: Vec<(usize, Vec<String>)>,
    /// The largest packet in bytes, as the link counts it.
    pub mtu: u32,
    /// Rate of the server in bit/s; 0 if the trace has its own dequeues.
    pub rate: u64,
    /// Seed of the discipline's random numbers ([`sojourn_core::rng::Rng::state`]).
    pub numbers: u64,
    /// Number of rows in the trace.
    pub rows: usize,
    /// The discipline's own modules.
    #[serde(flatten)]
    pub own: Own,
    /// Folder in which `tc` finds plug-ins.
    pub tc_lib_dir: Option<String>,
}

/// Returns the arguments for `tc` that set up a discipline on a kernel of this version. Disciplines that only the
/// kernel knows are passed on unchanged.
///
/// # Errors
/// The kernel does not implement the variant, or the line of a known discipline is invalid.
pub fn words(text: &str, version: (u32, u32)) -> Result<Vec<String>, String> {
    let line = own_words(text).map_err(|error| error.to_string())?.line;
    let line = line.as_str();
    let split = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect();
    let kind = line.split_ascii_whitespace().next().unwrap_or_default();
    if CLASSES_ONLY.contains(&kind) {
        return Err(format!(
            "{kind} does nothing without classes, for which a line has no place: expected a discipline without, htb or tbf"
        ));
    }
    let known = sojourn_core::qdisc::tc::disciplines().iter().any(|one| one.name == kind);
    if !known {
        return Ok(split(line));
    }
    let (spec, _) = Spec::parse(line).map_err(|error| error.to_string())?;
    if let Some(foreign) = express::foreign(&spec, version) {
        return Err(foreign);
    }
    if matches!(spec, Spec::Noqueue(_)) {
        return Err("has no queue to replay a trace through; expected another discipline".to_owned());
    }
    let all = commands(&spec);
    let first = all[0].trim_start_matches(AT_ROOT);
    // Only the class and the child of a shaper need a handle.
    Ok(split(if all.len() == 1 { first.trim_start_matches("handle 1: ") } else { first }))
}

/// Returns the `tc` commands that follow the command with the arguments of [`words`]. They add htb's class and the
/// child of a shaper.
pub fn more(line: &str) -> Vec<Vec<String>> {
    let Ok((spec, _)) = Spec::parse(line) else { return Vec::new() };
    commands(&spec)[1..].iter().map(|line| line.split_ascii_whitespace().map(str::to_owned).collect()).collect()
}

fn commands(spec: &Spec) -> Vec<String> {
    tc_tree::commands("add", Slot { device: DEVICE, parent: "root", handle: 1, stab: "" }, spec)
}

/// Runs the job in `folder`.
///
/// # Errors
/// A message for the user: the error of the kernel or of `tc`.
pub fn main(folder: &Path, job: &str) -> Result<Value, String> {
    let job: Job = serde_json::from_str(job).map_err(|error| format!("job.json: {error}"))?;
    if let Some(folder) = &job.tc_lib_dir {
        os::TC_LIB_DIR.get_or_init(|| folder.clone());
    }
    play(folder, &job).map_err(|error| error.to_string())
}

fn play(folder: &Path, job: &Job) -> io::Result<Value> {
    // A kernel without IPv6 does not have this file.
    let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    modules::load("sojourn_replay")?;
    let mut spaces = os::Spaces::new(&[])?;
    own::load(&job.own, &mut spaces)?;
    let tc = |spaces: &mut os::Spaces, line: &str, more: &[String]| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).chain(more.iter().cloned()).collect();
        spaces.ask(None, "tc", &words).map(drop)
    };
    // The device counts an Ethernet header, as do the lengths in the trace.
    let mtu = job.mtu.saturating_sub(14).max(1);
    let device = |mtu, up| Setting::Device { device: DEVICE.to_owned(), mtu, gso_max_segs: None, up };
    spaces.apply(None, &device(Some(mtu), false))?;
    fs::write(format!("{CONTROL}/room"), job.rows.max(1).to_string())?;
    fs::write(format!("{CONTROL}/trace"), fs::read(folder.join(TRACE))?)?;
    let origin = (flows::clock() + AHEAD).next_multiple_of(ORIGIN);
    thread::sleep(Duration::from_nanos(origin - AHEAD - flows::clock()));
    fs::write(format!("{CONTROL}/numbers"), job.numbers.to_string())?;
    tc(&mut spaces, &format!("qdisc add dev {DEVICE} root"), &job.words)?;
    job.more.iter().try_for_each(|words| tc(&mut spaces, &words[0], &words[1..]))?;
    if let Err(error) = own::check_used(&job.own) {
        let kind = job.words.iter().find(|word| !word.contains(':') && *word != "handle");
        let kind = kind.map_or("discipline", |kind| kind.as_str());
        return Err(io::Error::other(format!("{kind} is the kernel's own: {error}")));
    }
    spaces.apply(None, &device(None, true))?;
    // The module stores the changes of the discipline until they are due.
    fs::write(format!("{CONTROL}/changes"), job.changes.len().to_string())?;
    for (line, words) in &job.changes {
        let done = tc(&mut spaces, &format!("qdisc change dev {DEVICE} root"), words);
        done.map_err(|error| io::Error::other(format!("line {line} of the trace: {error}")))?;
    }
    let fine = fine_timer()?;
    let origin = fine.map_or(origin, |expires| expires + 1);
    seal::keep_only(CapabilitySet::DAC_OVERRIDE | CapabilitySet::SYS_BOOT)?;

    let gone = |error: io::Error| match error.raw_os_error() {
        Some(62) => io::Error::other("the guest's clock was ahead of the trace"),
        Some(71) => io::Error::other("a packet that is not of the trace came into the queue"),
        Some(33) => io::Error::other("the kernel refused a change of the discipline's parameters"),
        Some(95) => {
            io::Error::other("the discipline holds packets back: a replay with a rate serves only those that do not")
        }
        _ => error,
    };
    fs::write(format!("{CONTROL}/go"), format!("{origin} {} {}", job.rate, u8::from(fine.is_some()))).map_err(gone)?;
    fs::write(folder.join(FATES), fs::read(format!("{CONTROL}/fates"))?)?;
    let asked = tc_stats::ask(|words| spaces.ask(None, "tc", words), &format!("dev {DEVICE}"))?;
    let stats = tc_stats::discipline(&asked, DEVICE);
    fs::write(folder.join(STATS), json!(stats).to_string())?;
    Ok(json!({ "origin_ns": origin }))
}

/// Returns the expiry time of the timer of a discipline with nanosecond timers (dualpi2). This becomes time zero, so
/// that later expiries are where they would be if the discipline were set up at that time. The guest's timers expire
/// one nanosecond late.
fn fine_timer() -> io::Result<Option<u64>> {
    let list = fs::read_to_string("/proc/timer_list")?;
    let mut after = list.lines().skip_while(|line| !line.contains("dualpi2_timer")).skip(1);
    let words = after.next().map(|line| line.split_ascii_whitespace());
    Ok(words.and_then(|mut words| {
        words.find(|word| word.contains('-')).and_then(|range| range.split('-').next()?.parse().ok())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tc_gets_its_own_words_and_nothing_that_this_kernel_is_not() {
        let for_tc = |line| words(line, (6, 12)).map(|words| words.join(" "));
        assert_eq!(for_tc("codel limit 1000p target 6ms").as_deref(), Ok("codel limit 1000 target 6ms"));
        assert_eq!(for_tc("sfq perturb 10").as_deref(), Ok("sfq perturb 10"));
        assert_eq!(for_tc("codel variant linux7").unwrap_err(), "variant linux7: this kernel is Linux 6.12");
        assert!(words("codel variant linux7", (7, 3)).is_ok());
        assert!(for_tc("codel limt 5").is_err());
        assert!(for_tc("noqueue").is_err());
        assert_eq!(for_tc("ccaq variant paper limit 9").as_deref(), Ok("ccaq_paper limit 9"));
        assert!(for_tc("drr").unwrap_err().contains("classes") && for_tc("ets bands 3").is_ok());
        assert!(for_tc("sfq variant ns2").is_err() && for_tc("blue").is_err());
    }

    #[test]
    fn a_shaper_is_several_commands() {
        let all = |line: &str| {
            let first = words(line, (7, 3)).map(|words| words.join(" "));
            (first, more(line).iter().map(|words| words.join(" ")).collect::<Vec<_>>())
        };
        let (first, rest) = all("tbf rate 8mbit burst 3000 child codel limit 9");
        assert_eq!(first.as_deref(), Ok("handle 1: tbf rate 8mbit burst 3000 limit 1000000"));
        assert_eq!(rest, ["qdisc add dev replay0 parent 1:1 handle 10: codel limit 9"]);
        let (first, rest) = all("htb rate 8mbit");
        assert_eq!(first.as_deref(), Ok("handle 1: htb default 1"));
        assert_eq!(
            rest,
            [
                "class add dev replay0 parent 1: classid 1:1 htb rate 8mbit",
                "qdisc add dev replay0 parent 1:1 pfifo limit 1000",
            ]
        );
        assert!(all("tbf rate 8mbit burst 3000 limit 9000").1.is_empty());
    }
}
