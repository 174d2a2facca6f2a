//! The start of the program: it leaves the host's namespaces, and has the run played by a child.
//!
//! The child is the first process of a namespace of process numbers. When it ends, however it ends, the kernel ends all
//! that were started in it, and with them their networks. This process waits for it. If the one who asked for the run is
//! gone, it ends the child, and deletes the run's folder if nobody else would.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getppid, kill_process, pidfd_open, set_parent_process_death_signal, waitpid,
};
use sojourn_traffic::job::{self, JOB};

use crate::files;
use crate::network;
use crate::run::{self, Asked};

/// Plays the run in the folder that is the first argument. Returns whether it succeeded.
pub fn main() -> bool {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return false;
    };
    let job = match fs::read_to_string(folder.join(JOB)) {
        Ok(job) => job,
        Err(error) => return job::end(&folder, Err(format!("{JOB}: {error}"))),
    };
    let asker = match asked(&job).asker.and_then(Pid::from_raw).or_else(getppid) {
        Some(asker) => pidfd_open(asker, PidfdFlags::empty()),
        None => Err(Errno::NOSYS),
    };
    if matches!(asker, Err(Errno::SRCH)) {
        return forget(&folder, &job);
    }
    // The asker may have asked the kernel to end this process with it, or with the mere thread that has started it: that of
    // one of many tests. With a descriptor this is taken back, because the folder must still be deleted.
    die_with_parent(asker.is_err());
    files::raise();
    match network::leave_the_host() {
        Ok(()) => play_in_child(&folder, &job, asker.ok()),
        Err(error) => job::end(&folder, Err(error.to_string())),
    }
}

/// Reads the fields of a job that are for this process.
fn asked(job: &str) -> Asked {
    serde_json::from_str(job).unwrap_or_default()
}

/// Deletes the folder of a run that nobody waits for, unless it is to be kept. Returns false: the run has not succeeded.
fn forget(folder: &Path, job: &str) -> bool {
    if asked(job).temporary {
        // Nobody is there for an error.
        let _ = fs::remove_dir_all(folder);
    }
    false
}

/// Asks the kernel to end this process when the thread ends that has started it, or not to.
fn die_with_parent(is_asked: bool) {
    // A kernel that refuses leaves the processes of a killed run to themselves, until its end.
    let _ = set_parent_process_death_signal(is_asked.then_some(Signal::KILL));
}

/// Plays the run in a child, the first process of the new namespace of process numbers.
#[expect(unsafe_code, reason = "fork has no safe wrapper")]
fn play_in_child(folder: &Path, job: &str, asker: Option<OwnedFd>) -> bool {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => job::end(folder, Err(format!("fork: {}", std::io::Error::last_os_error()))),
        0 => {
            die_with_parent(true);
            network::show_own_processes();
            job::end(folder, run::play(folder, job))
        }
        child => Pid::from_raw(child).is_some_and(|child| wait(folder, job, child, asker)),
    }
}

/// Waits for the child, or for the end of the one who asked. Returns whether the run succeeded.
fn wait(folder: &Path, job: &str, child: Pid, asker: Option<OwnedFd>) -> bool {
    let ends = pidfd_open(child, PidfdFlags::empty());
    if let (Some(asker), Ok(ends)) = (&asker, &ends) {
        let mut watched = [PollFd::new(ends, PollFlags::IN), PollFd::new(asker, PollFlags::IN)];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        if watched[0].revents().is_empty() {
            let _ = (kill_process(child, Signal::KILL), waitpid(Some(child), WaitOptions::empty()));
            return forget(folder, job);
        }
    }
    let ended = waitpid(Some(child), WaitOptions::empty()).ok().flatten();
    match ended.and_then(|(_, status)| status.terminating_signal()) {
        Some(signal) => job::end(folder, Err(format!("the run was killed by signal {signal}"))),
        None => ended.and_then(|(_, status)| status.exit_status()) == Some(0),
    }
}
