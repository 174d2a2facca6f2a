//! `sojourn-guest`: the first and only program of a guest.
use std::path::Path;

use rustix::mount::{MountFlags, mount};

fn setup() -> Result<(), String> {
    let m = |s: &str, t: &str, f: &str, d: Option<&std::ffi::CStr>| {
        mount(s, t, f, MountFlags::empty(), d).map_err(|e| format!("mount {t}: {e}"))
    };
    m("none", "/proc", "proc", None)?;
    m("none", "/sys", "sysfs", None)?;
    m("none", "/run", "tmpfs", None)?;
    for d in ["/run/sojourn", "/run/sojourn/run", "/run/sojourn/modules"] {
        std::fs::create_dir(d).map_err(|e| e.to_string())?;
    }
    m("none", "/run/sojourn/run", "hostfs", Some(c"/proc/self/cwd/run"))?;
    m("none", "/run/sojourn/modules", "hostfs", Some(c"/proc/self/cwd/modules"))
}

/// Where a machine has its own first process, that has set up everything: the folder of the run.
const WORK: &str = "SOJOURN_WORK";

fn main() {
    if let Some(folder) = std::env::var_os(WORK) {
        let dir = Path::new(&folder);
        leave(dir, work(dir));
        return;
    }
    let dir = Path::new("/run/sojourn/run");
    let done = setup().and_then(|()| {
        let module = std::fs::File::open("/run/sojourn/modules/sojourn_link.ko").map_err(|e| e.to_string())?;
        rustix::system::finit_module(&module, c"", 0).map_err(|e| format!("module: {e}"))?;
        work(dir)
    });
    leave(dir, done);
    rustix::fs::sync();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
}

/// Does the job of a folder.
fn work(dir: &Path) -> Result<serde_json::Value, String> {
    let job = std::fs::read_to_string(dir.join("job.json")).map_err(|e| e.to_string())?;
    sojourn_traffic::run::main(dir, &job)
}

/// Leaves word of what came of it.
fn leave(dir: &Path, done: Result<serde_json::Value, String>) {
    let text = match done {
        Ok(mut v) => {
            v["ok"] = true.into();
            v.to_string()
        }
        Err(e) => serde_json::json!({"ok": false, "error": e}).to_string(),
    };
    let _ = std::fs::write(dir.join("ended.json"), text);
}
