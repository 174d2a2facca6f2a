//! Gives up what a guest's program needs no more once the network stands: a scenario's flows are played without the power
//! to mount, to load modules or to write anywhere but in the folder of the run.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, mount, mount_remount};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use serde_json::Value;

/// Keeps these capabilities of the calling thread, and of the programs that it starts; the others are gone for good.
///
/// # Errors
/// The operating system refuses.
pub fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    for one in CapabilitySet::all().difference(kept).iter() {
        match rustix::thread::remove_capability_from_bounding_set(one) {
            // A capability that this kernel does not know.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// What a run's program has left of the power over its guest: to write into the run's folder, and to switch off.
///
/// # Errors
/// The operating system refuses.
pub fn keep_what_a_run_needs() -> io::Result<()> {
    keep_only(CapabilitySet::DAC_OVERRIDE | CapabilitySet::SYS_BOOT)
}

/// The job `trial`, for tests: does what a hostile program would, and says how each attempt went ("" if it succeeded).
/// `sealed`: after giving up what a run gives up. `target` is a file of the host's outside of the run's folder.
pub fn trial(folder: &Path, job: &Value) -> Value {
    let target = Path::new(job["target"].as_str().unwrap_or_default());
    let mut said = serde_json::Map::new();
    let mut tried = |what: &str, done: io::Result<()>| {
        // How far it came, should it hang.
        let _ = fs::write(folder.join("tried"), what);
        said.insert(what.to_owned(), done.err().map_or(String::new(), |error| error.to_string()).into());
    };
    if job["sealed"] == true {
        tried("seal", keep_what_a_run_needs());
    }
    tried("write into the run", fs::write(folder.join("tried"), "tried"));
    tried("write to the host", fs::write(target, "smuggled"));
    tried("take power back", regain());
    tried("load a module", load());
    tried("mount", mount("none", "/mnt", "tmpfs", MountFlags::empty(), None).map_err(io::Error::from));
    tried("remount by a program", remount_by_a_program());
    tried("remount", mount_remount("/", MountFlags::empty(), "").map_err(io::Error::from));
    tried("write to the host after all", fs::write(target, "smuggled"));
    // Who could, leaves the host's files as they were: switching off would wait for them otherwise.
    let _ = mount_remount("/", MountFlags::RDONLY, "");
    said.into()
}

fn regain() -> io::Result<()> {
    let (all, has) = (CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_MODULE, capabilities(None)?);
    let (effective, permitted) = (has.effective | all, has.permitted | all);
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable: has.inheritable })?)
}

fn load() -> io::Result<()> {
    let module = fs::File::open("/run/sojourn/modules/sojourn_link.ko")?;
    Ok(rustix::system::finit_module(&module, c"", 0)?)
}

/// A program that root starts has all that its bounding set allows.
fn remount_by_a_program() -> io::Result<()> {
    let done = Command::new("mount").args(["-o", "remount,rw", "/"]).env("PATH", "/usr/bin:/bin").output()?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    if done.status.success() { Ok(()) } else { Err(io::Error::other(said)) }
}

/// Tries what must not be possible.
///
/// # Errors
/// It is possible.
pub fn try_it() -> io::Result<()> {
    let loose = |what: &str| Err(io::Error::other(format!("the guest is not sealed: it could {what}")));
    if mount_remount("/", MountFlags::empty(), "").is_ok() {
        return loose("mount the host's files for writing");
    }
    for place in ["/", "/tmp", "/var/tmp", "/root", "/etc", "/usr"] {
        let file = format!("{place}/.sojourn-tries");
        if fs::write(&file, "").is_ok() {
            let _ = fs::remove_file(&file);
            return loose(&format!("write to {place}"));
        }
    }
    Ok(())
}
