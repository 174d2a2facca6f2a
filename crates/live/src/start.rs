//! The start of the program: it leaves the host's namespaces, and has the run played by a child.
//!
//! The child is the first process of a namespace of process numbers. When it ends, however it ends, the kernel ends all
//! that were started in it, and with them their networks. This process waits for it. If the one who asked for the run is
//! gone, it ends the child, and deletes the run's folder if nobody else would.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getppid, kill_process, pidfd_open, set_parent_process_death_signal, waitpid,
};
use sojourn_traffic::job::{self, JOB};

use crate::network;
use crate::run::{self, Asked};

/// Plays the run in the folder that is the first argument. Returns whether it succeeded.
pub fn main() -> bool {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return false;
    };
    let parent = parent();
    let job = fs::read_to_string(folder.join(JOB)).map_err(|error| format!("{JOB}: {error}"));
    let started = job.and_then(|job| network::leave_the_host().map(|()| job).map_err(|error| error.to_string()));
    match started {
        Ok(job) => play_in_child(&folder, &job, parent),
        Err(error) => job::end(&folder, Err(error)),
    }
}

/// Returns a descriptor that tells the end of the process that has started this one. The kernel would end this one with it,
/// if asked (PR_SET_PDEATHSIG), but also with the mere thread that has started it: that of one of many tests.
fn parent() -> Option<OwnedFd> {
    let found = getppid().and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
    // Without a descriptor, the process is in another namespace of process numbers. With one, this process outlives the
    // other for a moment, even if the kernel was asked before.
    die_with_parent(found.is_none());
    found
}

/// Asks the kernel to end this process when the thread ends that has started it, or not to.
fn die_with_parent(is_asked: bool) {
    // A kernel that refuses leaves the processes of a killed run to themselves, until its end.
    let _ = set_parent_process_death_signal(is_asked.then_some(Signal::KILL));
}

/// Plays the run in a child, the first process of the new namespace of process numbers.
#[expect(unsafe_code, reason = "fork has no safe wrapper")]
fn play_in_child(folder: &Path, job: &str, parent: Option<OwnedFd>) -> bool {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => job::end(folder, Err(format!("fork: {}", std::io::Error::last_os_error()))),
        0 => {
            die_with_parent(true);
            network::show_own_processes();
            job::end(folder, run::play(folder, job))
        }
        child => Pid::from_raw(child).is_some_and(|child| wait(folder, job, child, parent)),
    }
}

/// Waits for the child, or for the end of the one who asked. Returns whether the run succeeded.
fn wait(folder: &Path, job: &str, child: Pid, parent: Option<OwnedFd>) -> bool {
    let ends = pidfd_open(child, PidfdFlags::empty());
    if let (Some(parent), Ok(ends)) = (&parent, &ends) {
        let mut watched = [PollFd::new(ends, PollFlags::IN), PollFd::new(parent, PollFlags::IN)];
        while poll(&mut watched, None) == Err(rustix::io::Errno::INTR) {}
        if watched[0].revents().is_empty() {
            let _ = (kill_process(child, Signal::KILL), waitpid(Some(child), WaitOptions::empty()));
            if serde_json::from_str(job).is_ok_and(|asked: Asked| asked.temporary) {
                let _ = fs::remove_dir_all(folder);
            }
            return false;
        }
    }
    let ended = waitpid(Some(child), WaitOptions::empty()).ok().flatten();
    match ended.and_then(|(_, status)| status.terminating_signal()) {
        Some(signal) => job::end(folder, Err(format!("the run was killed by signal {signal}"))),
        None => ended.and_then(|(_, status)| status.exit_status()) == Some(0),
    }
}
