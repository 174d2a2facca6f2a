//! The kernel modules that a guest loads: ours, and those of the user's.

use std::ffi::CStr;
use std::fs;
use std::io;

use sojourn_core::qdisc::tc::Spec;

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

/// Returns whether one of these modules is that of a discipline from outside: `sch_mine` or `mine` for `mine`.
pub fn has(modules: &[String], spec: &Spec) -> bool {
    modules.iter().any(|module| module.trim_start_matches("sch_") == spec.kind())
}

/// Loads one of our modules; does nothing under another init, which has loaded it.
///
/// # Errors
/// The module is missing or was built for another kernel.
pub fn load(module: &str) -> io::Result<()> {
    load_with(module, c"")
}

/// Like [`load`], with parameters for the module.
///
/// # Errors
/// As [`load`], or the module refuses.
pub(crate) fn load_with(module: &str, parameters: &CStr) -> io::Result<()> {
    if is_guest_of_another() {
        return Ok(());
    }
    let fault = |error: io::Error| io::Error::new(error.kind(), format!("module {module}: {error}"));
    let file = fs::File::open(format!("{MODULES}/{module}.ko")).map_err(fault)?;
    match rustix::system::finit_module(&file, parameters, 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(fault(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_that_of_its_kind_with_or_without_sch() {
        let spec = Spec::of_outside("mine limit 5", &["mine"]).expect("a name");
        let has = |module: &str| super::has(&[module.to_owned()], &spec);
        assert_eq!([has("mine"), has("sch_mine"), has("sch_mi"), has("mine_2")], [true, true, false, false]);
    }
}
