//! The kernel modules of ours that a guest loads.

use std::fs;
use std::io;

/// Folder of our modules in the guest.
pub const MODULES: &str = "/run/sojourn/modules";
/// Environment variable that another init sets. It means that file systems are mounted, modules are loaded, and the
/// other init will power off. Its value is the folder to work in.
pub const WORK: &str = "SOJOURN_WORK";

/// Returns whether another init prepared the system. Then modules are loaded already, and the root is not the host's
/// file system.
pub fn is_guest_of_another() -> bool {
    std::env::var_os(WORK).is_some()
}

/// Loads one of our modules; does nothing under another init, which has loaded it.
///
/// # Errors
/// The module is missing or was built for another kernel.
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
