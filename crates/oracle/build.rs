//! Compiles the kernel's CoDel headers that `fetch-headers.sh` put into the cache, one copy a series, and writes the
//! table of those that are there. Without headers or a C compiler the table is empty, and the tests say so.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The series, the end of their C names, and which of our variants they are.
const SERIES: [(&str, &str, &str); 3] = [("6.1", "6_1", "linux"), ("6.12", "6_12", "linux"), ("7", "7", "linux7")];

fn main() {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=XDG_CACHE_HOME");
    println!("cargo::rerun-if-env-changed=HOME");
    let mut table = String::new();
    let mut externs = String::new();
    for (series, end, variant) in SERIES {
        let Some(folder) = cache().map(|cache| cache.join(series)) else { continue };
        println!("cargo::rerun-if-changed={}", folder.join("version").display());
        let Ok(version) = fs::read_to_string(folder.join("version")) else { continue };
        if let Err(error) = compile(&folder, end) {
            println!("cargo::warning=the kernel's CoDel of Linux {series} does not compile here: {error}");
            continue;
        }
        write!(externs, "{}", EXTERNS.replace("END", end)).expect("a string takes it");
        let row = ENTRY.replace("END", end).replace("VERSION", version.trim()).replace("VARIANT", variant);
        write!(table, "{row}").expect("a string takes it");
    }
    let text = format!("{externs}\nstatic ALL: &[Kernel] = &[{table}];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("kernels.rs"), text).expect("OUT_DIR can be written");
}

fn cache() -> Option<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(&env::var_os("HOME")?).join(".cache"),
    };
    Some(base.join("sojourn/linux-headers"))
}

fn compile(folder: &Path, end: &str) -> Result<(), cc::Error> {
    cc::Build::new()
        .file("shim/drive.c")
        .include("shim")
        .include(folder)
        .define("SERIES", end)
        .opt_level(2)
        .flag_if_supported("-std=gnu11")
        .warnings(false)
        .try_compile(&format!("oracle_{end}"))
}

const EXTERNS: &str = "
unsafe extern \"C\" {
    fn oracle_new_END(limit: u32, target_us: u32, interval_us: u32, ecn: u32, ce_threshold_us: i64, mtu: u32) -> *mut Oracle;
    fn oracle_free_END(oracle: *mut Oracle);
    fn oracle_enqueue_END(oracle: *mut Oracle, now_ns: u64, id: u32, len: u32, ecn: u32) -> u32;
    fn oracle_dequeue_END(
        oracle: *mut Oracle, now_ns: u64, id: *mut u32, ecn: *mut u32, dropped: *mut *const u32, ndropped: *mut u32,
    ) -> u32;
    fn oracle_view_END(oracle: *const Oracle, view: *mut View);
}
";

const ENTRY: &str = "
    Kernel {
        version: \"VERSION\",
        variant: \"VARIANT\",
        new: oracle_new_END,
        free: oracle_free_END,
        enqueue: oracle_enqueue_END,
        dequeue: oracle_dequeue_END,
        view: oracle_view_END,
    },
";
