//! Programs of the user's as traffic: the flows of the kind `command`.
//!
//! Each has a thread, which enters the namespace of the program's host, starts it at its time, and waits for its end. The
//! program has the environment and the working directory of this process, and a process group of its own.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, access};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use sojourn_core::units::Time;
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::App;
use sojourn_traffic::flows::clock;
use sojourn_traffic::flows::played::Program;
use sojourn_traffic::os::{self, Spaces};

use crate::control::{Host, addresses, as_usual, variables};
use crate::run::hosts;

/// Time between SIGTERM and SIGKILL, in nanoseconds.
const GRACE: u64 = 1_000_000_000;
/// The longest time between two looks at whether the run has been stopped, in nanoseconds.
const LOOK: u64 = 50_000_000;
/// Bytes of a program's output that the results have.
const TOLD: u64 = 4096;
/// The search path for programs without the variable PATH, as in execvp(3).
const USUAL_PATH: &str = "/bin:/usr/bin";

/// A program that is to be started.
pub struct Ready {
    row: u32,
    /// The flow's name.
    name: String,
    argv: Vec<String>,
    /// The addresses of the flow's hosts, by the names that programs use.
    addresses: Vec<(String, String)>,
    space: OwnedFd,
    /// The files for its standard output and its standard error.
    files: [PathBuf; 2],
    start: Time,
    end: Time,
}

/// The parts that all programs of a run share.
#[derive(Clone)]
pub struct Run {
    /// Time zero of the run, on the monotonic clock in nanoseconds.
    pub origin: u64,
    /// True once the run has been stopped before its end.
    pub stop: Arc<AtomicBool>,
    /// How late the latest act of an application was, in nanoseconds.
    pub latest_act: Arc<AtomicU64>,
    /// Takes the reason why a program could not be started.
    pub failures: mpsc::Sender<String>,
}

/// The threads of programs that were started.
pub struct Started(Vec<thread::JoinHandle<io::Result<Option<Program>>>>);

/// Returns the programs of a scenario. Their output goes to files in `folder`.
///
/// # Errors
/// There is no such program, or no such namespace. The error names the flow.
pub fn ready(scenario: &Scenario, spaces: &Spaces, mtu: u32, folder: &Path) -> io::Result<Vec<Ready>> {
    let mut programs = Vec::new();
    for (row, entry) in scenario.workload.entries.iter().enumerate() {
        let App::Command(command) = &entry.app else { continue };
        let mut hosts = hosts(scenario, row, spaces, mtu)?;
        let addresses = addresses(&hosts);
        let filled = |word: &String| {
            addresses.iter().fold(word.clone(), |word, (name, address)| word.replace(&format!("{{{name}}}"), address))
        };
        let argv: Vec<String> = command.argv.iter().map(filled).collect();
        let program = argv.first().map_or("", String::as_str);
        if let Some(why) = missing(program) {
            return Err(io::Error::other(format!("flow {}: command: {program}: {why}", entry.name)));
        }
        let no_host = || io::Error::other(format!("flow {}: a bug: it has no {}", entry.name, command.at.name()));
        let Host { space, .. } = hosts.remove(command.at.name()).ok_or_else(no_host)?;
        programs.push(Ready {
            row: row as u32,
            name: entry.name.clone(),
            argv,
            addresses,
            space,
            files: ["out", "err"].map(|kind| folder.join(format!("command.{}.{kind}", entry.name))),
            start: command.start,
            end: command.stop.min(scenario.duration),
        });
    }
    Ok(programs)
}

/// Returns why a program cannot be started; `None` if it is there.
fn missing(program: &str) -> Option<&'static str> {
    let is_there = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return (!is_there(Path::new(program))).then_some("expected the file of a program");
    }
    let path = env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    let found = env::split_paths(&path).any(|folder| is_there(&folder.join(program)));
    (!found).then_some("no program of this name is in the PATH")
}

impl Started {
    /// Starts the threads of all programs.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn new(programs: Vec<Ready>, run: &Run) -> io::Result<Started> {
        let start = |program: Ready| {
            let run = run.clone();
            thread::Builder::new().spawn(move || {
                let name = program.name.clone();
                let done = program.play(&run).map_err(|error| io::Error::other(format!("flow {name}: {error}")));
                if let Err(error) = &done {
                    // The run may have ended for another reason.
                    let _ = run.failures.send(error.to_string());
                }
                done
            })
        };
        programs.into_iter().map(start).collect::<io::Result<_>>().map(Started)
    }

    /// Waits for the end of all programs, and returns those that were started.
    ///
    /// # Errors
    /// A program could not be started.
    pub fn join(self) -> io::Result<Vec<Program>> {
        let bug = |_| io::Error::other("a bug: the thread of a program has panicked");
        let ended = self.0.into_iter().map(|thread| thread.join().map_err(bug)?);
        ended.filter_map(Result::transpose).collect()
    }
}

impl Ready {
    /// Plays the program in the namespace of its host.
    fn play(self, run: &Run) -> io::Result<Option<Program>> {
        os::enter(&self.space)?;
        self.play_here(run)
    }

    /// Starts the program at its time, and waits for its end. Returns `None` if the run ends before.
    fn play_here(self, run: &Run) -> io::Result<Option<Program>> {
        let begin = run.origin + self.start.0;
        if self.start >= self.end || !sleep_until(begin, run) {
            return Ok(None);
        }
        let mut child = self.spawn()?;
        let started = clock();
        run.latest_act.fetch_max(started.saturating_sub(begin), Ordering::Relaxed);
        let (stopped, ended) = end_of(&child, run.origin + self.end.0, run)?;
        let status = child.wait()?;
        let [out, err] = &self.files;
        Ok(Some(Program {
            entry: self.row,
            argv: self.argv,
            exit: status.code(),
            signal: status.signal(),
            stopped,
            times: [started, ended].map(|at| at.saturating_sub(run.origin)),
            said: [last_words(out)?, last_words(err)?],
        }))
    }

    fn spawn(&self) -> io::Result<Child> {
        let [program, words @ ..] = &self.argv[..] else { return Err(io::Error::other("a bug: an empty command")) };
        let [out, err] = &self.files;
        let mut command = Command::new(program);
        command.args(words).envs(variables(self.addresses.clone())).process_group(0);
        command.stdin(Stdio::null()).stdout(File::create(out)?).stderr(File::create(err)?);
        as_usual(&mut command);
        command.spawn().map_err(|error| io::Error::other(format!("command: {program}: {error}")))
    }
}

/// Sleeps until a time on the monotonic clock, in nanoseconds. Returns false if the run was stopped before.
fn sleep_until(at: u64, run: &Run) -> bool {
    loop {
        let rest = at.saturating_sub(clock());
        if run.stop.load(Ordering::Relaxed) {
            return false;
        }
        if rest == 0 {
            return true;
        }
        thread::sleep(Duration::from_nanos(rest.min(LOOK)));
    }
}

/// Waits for a program's end. At `limit` it is ended, with all that is in its process group. Returns whether this was
/// necessary, and the time at which it had ended, on the monotonic clock in nanoseconds.
fn end_of(child: &Child, limit: u64, run: &Run) -> io::Result<(bool, u64)> {
    let group = Pid::from_child(child);
    let process = pidfd_open(group, PidfdFlags::empty())?;
    while clock() < limit && !run.stop.load(Ordering::Relaxed) {
        if has_ended(&process, limit.min(clock() + LOOK))? {
            return Ok((false, clock()));
        }
    }
    // Nobody has waited for the process yet, so that its number is its own.
    kill_process_group(group, Signal::TERM)?;
    has_ended(&process, clock() + GRACE)?;
    // The program may have ended, and others of its group not.
    kill_process_group(group, Signal::KILL)?;
    while !has_ended(&process, clock() + GRACE)? {}
    Ok((true, clock()))
}

/// Waits until a process has ended or the time has come. Returns whether it has ended.
fn has_ended(process: &OwnedFd, until: u64) -> io::Result<bool> {
    let rest = until.saturating_sub(clock());
    let limit = Timespec { tv_sec: (rest / 1_000_000_000) as i64, tv_nsec: (rest % 1_000_000_000) as _ };
    match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the end of a file as text. It begins with a whole character.
fn last_words(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = fs::metadata(path)?.len();
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(TOLD)))?;
    file.take(TOLD).read_to_end(&mut bytes)?;
    let is_rest = |byte: &u8| length > TOLD && byte & 0xc0 == 0x80;
    let cut = bytes.iter().take(3).take_while(|byte| is_rest(byte)).count();
    Ok(String::from_utf8_lossy(&bytes[cut..]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("sojourn-commands-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// A program in the namespace of the test.
    fn program(folder: &Path, words: &[&str], times: [u64; 2]) -> Ready {
        Ready {
            row: 7,
            name: "f".to_owned(),
            argv: words.iter().map(|word| (*word).to_owned()).collect(),
            addresses: [("client", "10.101.0.8"), ("server", "10.1.0.8")]
                .map(|(name, address)| (name.to_owned(), address.to_owned()))
                .into(),
            space: File::open("/proc/thread-self/ns/net").expect("a namespace").into(),
            files: ["out", "err"].map(|kind| folder.join(kind)),
            start: Time(times[0]),
            end: Time(times[1]),
        }
    }

    fn run() -> (Run, mpsc::Receiver<String>) {
        let (failures, failed) = mpsc::channel();
        (Run { origin: clock(), stop: Arc::default(), latest_act: Arc::default(), failures }, failed)
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_program_starts_at_its_time_and_its_output_is_kept() {
        let folder = folder("output");
        let (run, _) = run();
        let words = ["sh", "-c", "echo $SOJOURN_SERVER $SOJOURN_CLIENT; echo no >&2; exit 3"];
        let ready = program(&folder, &words, [100 * MS, 5000 * MS]);
        let done = ready.play_here(&run).expect("sh").expect("a start");
        assert_eq!((done.entry, done.exit, done.signal, done.stopped), (7, Some(3), None, false));
        assert_eq!(done.said, ["10.1.0.8 10.101.0.8\n", "no\n"].map(str::to_owned));
        assert!((100 * MS..2000 * MS).contains(&done.times[0]) && done.times[0] <= done.times[1], "{done:?}");
        assert_eq!(fs::read_to_string(folder.join("out")).expect("kept"), done.said[0]);
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_program_that_ignores_its_end_is_killed() {
        let folder = folder("end");
        let (run, _) = run();
        for (trap, signal, least) in [("", 15, 200), ("trap '' TERM; ", 9, 1200)] {
            let line = format!("{trap}while :; do sleep 0.05; done");
            let child = program(&folder, &["sh", "-c", &line], [0, 0]).spawn().expect("sh");
            let begin = clock();
            let (stopped, ended) = end_of(&child, begin + 200 * MS, &run).expect("an end");
            let mut child = child;
            assert_eq!((stopped, child.wait().expect("a status").signal()), (true, Some(signal)));
            assert!((least * MS..(least + 900) * MS).contains(&(ended - begin)), "{} ns", ended - begin);
        }
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn the_end_of_the_run_ends_what_waits_and_what_runs() {
        let folder = folder("stop");
        let (run, _) = run();
        run.stop.store(true, Ordering::Relaxed);
        assert!(!sleep_until(u64::MAX, &run));
        let mut child = program(&folder, &["sleep", "60"], [0, 0]).spawn().expect("sleep");
        assert!(end_of(&child, u64::MAX, &run).expect("an end").0);
        child.wait().expect("a status");
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_program_that_is_not_there_is_noticed_before_the_run() {
        assert_eq!(missing("sh"), None);
        assert_eq!(missing("/bin/sh"), None);
        assert_eq!(missing("no-such-program"), Some("no program of this name is in the PATH"));
        for file in ["/no/such/file", "/etc/passwd", "/tmp/"] {
            assert_eq!(missing(file), Some("expected the file of a program"), "{file}");
        }
    }

    #[test]
    fn last_words_begin_with_a_whole_character() {
        let folder = folder("words");
        let path = folder.join("out");
        fs::write(&path, "ä".repeat(3000) + "x").expect("written");
        assert_eq!(last_words(&path).expect("text"), "ä".repeat(2047) + "x");
        fs::write(&path, [0x80, b'a']).expect("written");
        assert_eq!(last_words(&path).expect("text"), "\u{fffd}a");
        fs::remove_dir_all(folder).expect("removed");
    }
}
