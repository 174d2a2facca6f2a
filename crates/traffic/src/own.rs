//! Loads the user's kernel modules into the guest.

use std::ffi::CString;
use std::fs;
use std::io;

use crate::job::Own;
use crate::modules;
use crate::os::Spaces;

/// Disciplines that `tc` does not set up without parameters, with some.
const WITH_PARAMETERS: [(&str, &str); 4] = [
    ("red", "red limit 400000 min 30000 max 90000 avpkt 1000"),
    ("choke", "choke limit 1000 bandwidth 10mbit min 83 max 250"),
    ("tbf", "tbf rate 1mbit burst 5000 limit 9000"),
    ("htb", "htb default 1"),
];
/// A device that every guest has and no run uses.
const SPARE: &str = "lo";

/// Loads the modules. Before that, the kernel forgets the discipline that they replace.
///
/// # Errors
/// A module is missing, was built for another kernel, or registers a name that is taken.
pub fn load(own: &Own, spaces: &mut Spaces) -> io::Result<()> {
    if let Some(kind) = &own.replaces {
        let fault = |error: io::Error| io::Error::other(format!("the kernel's {kind} cannot be replaced: {error}"));
        let line = WITH_PARAMETERS.iter().find(|(name, _)| name == kind).map_or(kind.as_str(), |(_, line)| line);
        let tc = |spaces: &mut Spaces, words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            spaces.ask(None, "tc", &words).map(drop)
        };
        tc(spaces, &format!("qdisc add dev {SPARE} root {line}")).map_err(fault)?;
        let words = CString::new(format!("device={SPARE} kind={kind}"))?;
        modules::load_with("sojourn_replace", &words).map_err(fault)?;
        tc(spaces, &format!("qdisc del dev {SPARE} root")).map_err(fault)?;
    }
    own.modules.iter().try_for_each(|module| load_one(module))
}

/// Loads a module. If the name of its discipline is taken, Linux 7 says that it is busy; older ones say that it exists,
/// as they do of a module that is loaded already.
fn load_one(module: &str) -> io::Result<()> {
    let loaded = modules::load(module);
    let is_busy = loaded.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy);
    if is_busy || loaded.is_ok() && !is_listed(module, &fs::read_to_string("/proc/modules")?) {
        return Err(io::Error::other(format!(
            "the module {module} registers a name that the kernel has; expected a file with that name, as in sch_codel.ko"
        )));
    }
    loaded
}

/// Returns whether a module is loaded, according to `/proc/modules`.
fn is_listed(module: &str, listed: &str) -> bool {
    let name = module.replace('-', "_");
    listed.lines().any(|line| line.split_ascii_whitespace().next() == Some(&name))
}

/// Checks that a discipline that is set up belongs to one of the modules.
///
/// # Errors
/// The modules register other names than those of the run's disciplines.
pub fn check_used(own: &Own) -> io::Result<()> {
    if own.modules.is_empty() || in_use(&own.modules, &fs::read_to_string("/proc/modules")?) {
        return Ok(());
    }
    let modules = own.modules.join(", ");
    Err(io::Error::other(format!("the module {modules} registers another name than that of a queue")))
}

/// Returns whether a discipline that is set up belongs to one of these modules, according to `/proc/modules`. Modules
/// that can never be unloaded do not count.
fn in_use(modules: &[String], listed: &str) -> bool {
    let idle = |line: &&str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().take(3).collect();
        matches!(fields[..], [name, _, "0"] if modules.iter().any(|module| module.replace('-', "_") == name))
    };
    listed.lines().filter(idle).count() < modules.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_loaded_if_it_is_listed_by_its_whole_name() {
        let listed = "my_qdisc 16384 0 - Live 0x1\nveth 2 0 -";
        assert_eq!(["my-qdisc", "veth", "my", "qdisc"].map(|name| is_listed(name, listed)), [true, true, false, false]);
    }

    #[test]
    fn a_module_that_nothing_came_from_is_seen() {
        let modules = ["my-qdisc".to_owned(), "helper".to_owned()];
        assert!(!in_use(&modules, "my_qdisc 16384 0 - Live 0x1\nhelper 1 0 - Live\nveth 2 0 -"));
        assert!(in_use(&modules, "my_qdisc 16384 1 - Live 0x1\nhelper 1 0 - Live"));
        assert!(in_use(&modules, "my_qdisc 16384 - - Live 0x1\nhelper 1 - - Live"));
    }
}
