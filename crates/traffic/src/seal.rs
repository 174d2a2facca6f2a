//! Drops the capabilities of the guest's program once the network is set up. The flows then run without the power to
//! mount file systems, load modules or write outside of the run's folder.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, mount, mount_remount};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use serde_json::Value;

/// Reduces the capabilities of the calling thread, and of programs that it starts, to `kept`, permanently.
///
/// # Errors
/// The operating system refuses.
pub fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    for one in CapabilitySet::all().difference(kept).iter() {
        match rustix::thread::remove_capability_from_bounding_set(one) {
            // This kernel does not know the capability.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Keeps only the capabilities that a run needs: to write into the run's folder, and to power off.
///
/// # Errors
/// The operating system refuses.
pub fn keep_what_a_run_needs() -> io::Result<()> {
    keep_only(CapabilitySet::DAC_OVERRIDE | CapabilitySet::SYS_BOOT)
}

/// The job `trial`, for tests: attempts what a hostile program would, and returns the error of each attempt ("" if it
/// succeeded). With `sealed`, capabilities are dropped first, as for a run. `target` is a file of the host outside of
/// the run's folder.
pub fn trial(folder: &Path, job: &Value) -> Value {
    let target = Path::new(job["target"].as_str().unwrap_or_default());
    let mut said = serde_json::Map::new();
    let mut tried = |what: &str, done: io::Result<()>| {
        // The file shows the last attempt, should the program hang.
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
    // A successful attempt is undone: powering off would otherwise wait for the host's file system.
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

/// A program that root starts gets every capability of the bounding set.
fn remount_by_a_program() -> io::Result<()> {
    let done = Command::new("mount").args(["-o", "remount,rw", "/"]).env("PATH", "/usr/bin:/bin").output()?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    if done.status.success() { Ok(()) } else { Err(io::Error::other(said)) }
}

/// Attempts actions that must fail.
///
/// # Errors
/// One of them succeeded.
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
