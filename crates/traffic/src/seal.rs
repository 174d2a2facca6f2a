//! Gives up what a guest's program needs no more once the network stands: a scenario's flows are played without the power
//! to mount, to load modules or to write anywhere but in the folder of the run.

use std::fs;
use std::io;

use rustix::mount::{MountFlags, mount_remount};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

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
