//! The guest's first process: mounts what a program needs, reads the job, does it, says how it ended, switches off.
//!
//! The host's files are the guest's root, read-only. One folder of the host can be written: that of the run, mounted from
//! a place that is the same for every run, so that no path of the user's reaches the guest.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use serde_json::{Value, json};

/// Where the folder of the run is in the guest.
const RUN: &str = "/run/sojourn/run";
/// Where our modules are.
const MODULES: &str = "/run/sojourn/modules";
/// The environment that says: all is mounted, loaded and will be switched off by somebody else; work in this folder.
const WORK: &str = "SOJOURN_WORK";
/// What the host asks, and what it is answered.
const JOB: &str = "job.json";
const ENDED: &str = "ended.json";

/// Runs the guest from begin to end; returns only where another program is the first process: whether all went well.
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
                Err(error) => answer(&folder, &Err(error.to_string())),
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
    answer(folder, &done);
    done.is_ok()
}

/// The last file that is written.
fn answer(folder: &Path, done: &Result<Value, String>) {
    let answer = match done {
        Ok(Value::Object(fields)) => {
            let mut answer = fields.clone();
            answer.insert("ok".to_owned(), true.into());
            Value::Object(answer)
        }
        Ok(_) => json!({ "ok": true }),
        Err(error) => json!({ "ok": false, "error": error }),
    };
    // Whoever waits for it sees that it is missing.
    let _ = fs::write(folder.join(ENDED), answer.to_string());
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

/// Whether the system was prepared by somebody else: then it is not ours to load modules, nor is its root the host's.
pub fn is_guest_of_another() -> bool {
    std::env::var_os(WORK).is_some()
}

/// Loads one of our modules; where the kernel is prepared by somebody else it is loaded already.
///
/// # Errors
/// It is not there, or not for this kernel.
pub fn load(module: &str) -> io::Result<()> {
    if is_guest_of_another() {
        return Ok(());
    }
    let fault = |error: io::Error| io::Error::other(format!("module {module}: {error}"));
    let file = fs::File::open(format!("{MODULES}/{module}.ko")).map_err(fault)?;
    match rustix::system::finit_module(&file, c"", 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(fault(error.into())),
    }
}

/// A bug ends the guest with its words, never with a kernel that waits for its first process.
fn switch_off_after_panics(folder: &Path) {
    let folder = folder.to_owned();
    panic::set_hook(Box::new(move |info| {
        answer(&folder, &Err(format!("a bug in sojourn-guest: {info}")));
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
