//! The start of the program: it leaves the host's namespaces, and has the run played by a child.
//!
//! The child is the first process of a namespace of process numbers. When it ends, however it ends, the kernel ends all
//! that were started in it, and with them their networks.

use std::fs;
use std::path::{Path, PathBuf};

use sojourn_traffic::job::{self, JOB};

use crate::{network, run};

/// Plays the run in the folder that is the first argument. Returns whether it succeeded.
pub fn main() -> bool {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return false;
    };
    die_with_parent();
    let job = fs::read_to_string(folder.join(JOB)).map_err(|error| format!("{JOB}: {error}"));
    let started = job.and_then(|job| network::leave_the_host().map(|()| job).map_err(|error| error.to_string()));
    match started {
        Ok(job) => play_in_child(&folder, &job),
        Err(error) => job::end(&folder, Err(error)),
    }
}

/// Asks the kernel to end this process when its parent ends.
#[expect(unsafe_code, reason = "prctl has no safe wrapper for it")]
fn die_with_parent() {
    // SAFETY: the call has no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Plays the run in a child, the first process of the new namespace of process numbers.
#[expect(unsafe_code, reason = "fork and wait have no safe wrapper")]
fn play_in_child(folder: &Path, job: &str) -> bool {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => job::end(folder, Err(format!("fork: {}", std::io::Error::last_os_error()))),
        0 => {
            die_with_parent();
            network::show_own_processes();
            job::end(folder, run::play(folder, job))
        }
        child => {
            let mut status = 0;
            // SAFETY: the status outlives the call.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {}
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}
