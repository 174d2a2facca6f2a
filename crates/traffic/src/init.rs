//! The guest's init process: it mounts file systems, reads the job, runs it, reports the result and powers off.
//!
//! The guest's root is the host's file system, read-only. The run's folder is the only writable folder of the host. It
//! is mounted at a fixed place, so that no path of the user reaches the guest.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use serde_json::Value;

use crate::job::{self, JOB};
use crate::modules::{MODULES, WORK};

/// Mount point of the run's folder in the guest.
const RUN: &str = "/run/sojourn/run";

/// Runs the guest from start to power-off. Returns only under another init; the value says whether the job succeeded.
pub fn main() -> bool {
    match std::env::var_os(WORK) {
        Some(folder) => work(Path::new(&folder)),
        None => {
            let folder = PathBuf::from(RUN);
            switch_off_after_panics(&folder);
            match furnish() {
                Ok(()) => {
                    work(&folder);
                }
                Err(error) => {
                    job::end(&folder, Err(error.to_string()));
                }
            }
            switch_off()
        }
    }
}

fn work(folder: &Path) -> bool {
    let done = fs::read_to_string(folder.join(JOB)).map_err(|error| format!("{JOB}: {error}")).and_then(|text| {
        let job: Value = serde_json::from_str(&text).map_err(|error| format!("{JOB}: {error}"))?;
        match job["job"].as_str() {
            Some("run") => crate::run::main(folder, &text),
            Some("replay") => crate::replay::main(folder, &text),
            Some("trial") => Ok(crate::seal::trial(folder, &job)),
            other => Err(format!("job = {}: expected run, replay or trial", other.unwrap_or("nothing"))),
        }
    });
    job::end(folder, done)
}

fn furnish() -> io::Result<()> {
    let at = |source: &str, place: &str, kind: &str, flags: MountFlags, data: Option<&CStr>| {
        mount(source, place, kind, flags, data).map_err(|error| io::Error::other(format!("mount {place}: {error}")))
    };
    let plain = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    at("proc", "/proc", "proc", plain, None)?;
    at("sysfs", "/sys", "sysfs", plain, None)?;
    at("tmpfs", "/run", "tmpfs", plain, None)?;
    fs::create_dir_all(RUN)?;
    fs::create_dir_all(MODULES)?;
    at("none", RUN, "hostfs", plain, Some(c"/proc/self/cwd/run"))?;
    at("none", MODULES, "hostfs", plain | MountFlags::RDONLY, Some(c"/proc/self/cwd/modules"))
}

/// Makes a panic end the guest with its message; otherwise the kernel would wait for its init process.
fn switch_off_after_panics(folder: &Path) {
    let folder = folder.to_owned();
    panic::set_hook(Box::new(move |info| {
        job::end(&folder, Err(format!("a bug in sojourn-guest: {info}")));
        switch_off();
    }));
}

fn switch_off() -> ! {
    rustix::fs::sync();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    loop {
        std::thread::park();
    }
}
