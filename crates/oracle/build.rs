//! Compiles the kernel's own code, which `fetch-headers.sh` and `fetch-sources.sh` put into the cache, one copy for
//! each series, and writes tables of the available ones. Without the code or a C compiler a table is empty, and the
//! tests report that.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The series, the suffix of their C names, and the corresponding variant of ours.
const SERIES: [(&str, &str, &str); 3] = [("6.1", "6_1", "linux"), ("6.12", "6_12", "linux"), ("7", "7", "linux7")];

fn main() {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=XDG_CACHE_HOME");
    println!("cargo::rerun-if-env-changed=HOME");
    let mut table = String::new();
    let mut externs = String::new();
    for (series, end, variant) in SERIES {
        let Some(folder) = cache("linux-headers").map(|cache| cache.join(series)) else { continue };
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
    algorithms(&out, &SERVO);
    algorithms(&out, &PAPER);
    dql(&out);
}

/// A queue discipline of ours for Linux. The oracle compiles its algorithm in user space, unmodified and with each
/// fault.
struct Ours {
    /// The name of the shim, of the table, and with `_impl.h` of the kernel's header.
    name: &'static str,
    /// Faults for copies of the header: a description, the original text, and its replacement.
    faults: &'static [(&'static str, &'static str, &'static str)],
    externs: &'static str,
    entry: &'static str,
}

const SERVO: Ours = Ours { name: "ccaq", faults: &SERVO_FAULTS, externs: SERVO_EXTERNS, entry: SERVO_ENTRY };
const PAPER: Ours = Ours { name: "ccaq_paper", faults: &PAPER_FAULTS, externs: PAPER_EXTERNS, entry: PAPER_ENTRY };

const SERVO_FAULTS: [(&str, &str, &str); 54] = [
    ("a first episode resumes an earlier one", "vars->lastcount && delta > 1", "delta > 1"),
    ("a SYN among packets of other flows opens", "if (vars->shared)\n\t\topens = false;", ""),
    ("lowers by half of the standing queue", "least - least / 4", "least - least / 2"),
    ("lowers by the whole standing queue", "before / 2);", "before);"),
    ("lowers twice as fast", "(share - idle) >> 13", "(share - idle) >> 12"),
    ("raises twice as fast", "(idle - share) >> 12", "(idle - share) >> 11"),
    ("raises without bound", "min(rise, (u64)before * 3)", "rise"),
    ("takes all idle time for its own", "if (idle <= CCAQ_NOT_OURS)", "if (idle <= 65536)"),
    ("judges in the first epoch", "if (!vars->began || vars->raised)", "if (vars->raised)"),
    ("judges twice after a raise", "if (!vars->began || vars->raised)", "if (!vars->began)"),
    ("an epoch ends too early", "CCAQ_EPOCH * max(", "max("),
    ("the drop never waits", "vars->target > sojourn) {", "vars->target > sojourn && !vars->began) {"),
    ("its own silence is evidence", "if (gap <= 2 * ccaq_interval(vars) &&", "if (vars->seen &&"),
    ("its own pause is evidence", "idle_in_gap <= ccaq_pause(vars)", "vars->seen"),
    ("a pause is a whole RTT", "max(CCAQ_PAUSE, ccaq_rtt(vars) / 2)", "max(CCAQ_PAUSE, ccaq_rtt(vars))"),
    ("a pause may be as short as half an RTT", "max(CCAQ_PAUSE, ccaq_rtt(vars) / 2)", "ccaq_rtt(vars) / 2"),
    ("a pause is longer than half of a guess", "if (vars->guessed)\n\t\treturn CCAQ_NONE;", ""),
    ("an unknown RTT stays unknown", "if (!vars->rtt) {", "if (!vars->rtt) {\n\t\treturn;"),
    ("forgets the least sojourn of an empty queue", "	vars->least = 0;\n", ""),
    ("no floor", "max(CCAQ_LEAST, least)", "CCAQ_LEAST"),
    ("one short response is enough", "if (last || !vars->has_answered) {", "if (1) {"),
    ("a short response is never enough", "if (last || !vars->has_answered) {", "if (!vars->has_answered) {"),
    (
        "takes the shorter of two responses",
        "response = max(response, last);",
        "response = last ? min(response, last) : response;",
    ),
    (
        "shortens the RTT, but not the target",
        "min(vars->target,\n\t\t\t\t\t   ccaq_first",
        "max(vars->target,\n\t\t\t\t\t   ccaq_first",
    ),
    ("a response with two signals shortens the RTT", "if (!vars->repeated && response", "if (response"),
    ("no response lengthens the RTT", "response > vars->rtt + vars->rtt / 2", "0"),
    (
        "any response lengthens the RTT",
        "} else if (vars->guessed && vars->has_answered &&",
        "} else if (vars->has_answered &&",
    ),
    ("a response in slow start lengthens the RTT", "vars->guessed && vars->has_answered &&", "vars->guessed &&"),
    ("the peak is sought after the queue has shrunk", "if (!vars->shrunk && sojourn", "if (sojourn"),
    ("the peak is the largest sojourn only", "sojourn >= vars->peak - vars->peak / 16)", "sojourn >= vars->peak)"),
    ("a target at the RTT doubles it, though it is no guess", "if (vars->guessed && before >=", "if (before >="),
    ("no ceiling", "ccaq_tick most = vars->rtt ? vars->rtt : CCAQ_MOST;", "ccaq_tick most = CCAQ_MOST;"),
    ("the first target is half of the RTT", "max(rtt / 4, min(rtt / 2, beyond))", "rtt / 2"),
    ("takes the longest gap", "if (vars->second_gap > vars->rtt / 4)", "if (0)"),
    ("takes the second longest gap", "if (vars->second_gap > vars->rtt / 4)", "if (vars->second_gap)"),
    ("believes a SYN that was sent again", "handshake == CCAQ_REPEATED);", "false);"),
    ("every RTT is a guess", "vars->guessed = guessed;", "vars->guessed = true;"),
    ("a second SYN changes nothing", "if (opens || vars->seen < CCAQ_OPENING)", "if (vars->seen < CCAQ_OPENING)"),
    ("never forgets", "gap > CCAQ_FORGET && is_empty", "false"),
    ("never sees an answer", "if (answered) {", "if (answered && !sojourn) {"),
    ("the second drop does not wait for the queue", "(few ? 0 : sojourn)", "0"),
    ("the second drop waits for a queue of few packets", "(few ? 0 : sojourn)", "sojourn"),
    ("a queue of few packets shows an answer", "answered = !head->few &&", "answered ="),
    ("drops an RTT apart", "max(CCAQ_INTERVAL, 2 * ccaq_rtt(vars))", "max(CCAQ_INTERVAL, ccaq_rtt(vars))"),
    (
        "drops the last packet of a sender that does not respond",
        "sojourn > ccaq_oldest(vars) && !head->last",
        "sojourn > ccaq_oldest(vars)",
    ),
    ("patience has no end", "vars->discards++;", ""),
    ("patience stays lost", "		vars->discards = 0;\n", ""),
    ("ECT(1) takes part", "if (head->scalable)", "if (head->scalable && !head->sojourn)"),
    ("the link leans to the slowest", "if (!link->cost || cost < link->cost)", "if (!link->cost || cost > link->cost)"),
    ("the time in which the link sends counts as idle", "idle = now - link->done;", "idle = now - link->run_start;"),
    (
        "evicts the flow that was silent for the shortest time",
        "if (age > oldest) {",
        "if (age && (!oldest || age < oldest)) {",
    ),
    ("a queue in use is taken", "			age = 0;\n", "			age = 1;\n"),
    ("a flow leaves a queue that it shares", "if (use == CCAQ_FILLED && vars->shared)", "if (0)"),
    ("a flow stays in a queue that it shared", "	vars->shared = false;\n", ""),
];

const PAPER_FAULTS: [(&str, &str, &str); 14] = [
    ("the GI is not over at its very end", "if (now < vars->gi_end)", "if (now <= vars->gi_end)"),
    ("of equally long intervals the last is the LI", "length > vars->longest", "length >= vars->longest"),
    ("cuts one packet too few", "vars->limit - standing : 1", "vars->limit - standing + 1 : 1"),
    ("cuts off what was never needed and one more", "if (!standing ||", "if (standing < 2 ||"),
    ("the first interval adapts", "!vars->enlarged && !vars->first", "!vars->enlarged"),
    ("enlarges again and again", "seen->idle && !vars->enlarged &&", "seen->idle &&"),
    ("counts the departing packet as left behind", "seen->min_queue = left;", "seen->min_queue = left + 1;"),
    ("grows by what was sent in all of the interval", "now - seen->start - seen->idle", "now - seen->start"),
    ("takes the longer of both bounds of the GI", "return most < params->max_gi ?", "return most > params->max_gi ?"),
    ("the wait in the queue is no part of the RTT", "vars->base_rtt + vars->waited;", "vars->base_rtt;"),
    ("counts the SYN's own wait twice", "between - vars->waited : 0", "between : 0"),
    ("takes a sample from a SYN sent again", "vars->opening = CCAQ_AMBIGUOUS;", "vars->opened = now;"),
    ("another flow answers", "vars->opener == hash) {", "(vars->opener & 1023) == (hash & 1023)) {"),
    (
        "only a flow's first handshake counts",
        "} else if (opens) {",
        "} else if (opens && vars->base_rtt == CCAQ_NO_RTT) {",
    ),
];

fn algorithms(out: &Path, ours: &Ours) {
    let Ours { name, faults, .. } = ours;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel");
    let header = folder.join(format!("{name}_impl.h"));
    println!("cargo::rerun-if-changed={}", folder.join(format!("{name}.h")).display());
    println!("cargo::rerun-if-changed={}", header.display());
    let source = fs::read_to_string(&header).expect("the repository has the header");
    let mut copies = vec![(None, source.clone())];
    for (fault, right, wrong) in *faults {
        assert_eq!(source.matches(right).count(), 1, "`{right}` occurs once in {name}_impl.h");
        copies.push((Some(*fault), source.replace(right, wrong)));
    }
    let (mut externs, mut table) = (String::new(), String::new());
    for (number, (fault, text)) in copies.into_iter().enumerate() {
        let copy = out.join(format!("{name}_impl_{number}.h"));
        fs::write(&copy, text).expect("OUT_DIR can be written");
        let compiled = cc::Build::new()
            .file(format!("shim/{name}.c"))
            .include("shim")
            .include(&folder)
            .define("SERIES", number.to_string().as_str())
            .define("IMPL", format!("\"{}\"", copy.display()).as_str())
            .opt_level(2)
            .flag_if_supported("-std=gnu11")
            // A fault may leave a variable or a parameter unused.
            .warnings(fault.is_none())
            .try_compile(&format!("{name}_{number}"));
        if let Err(error) = compiled {
            println!("cargo::warning=the algorithm of {name} does not compile here: {error}");
            continue;
        }
        let end = number.to_string();
        externs += &ours.externs.replace("END", &end);
        table += &ours.entry.replace("END", &end).replace("FAULT", &format!("{fault:?}"));
    }
    let text = format!("{externs}\nstatic ALGORITHMS: &[Algorithm] = &[{table}];\n");
    fs::write(out.join(format!("{name}.rs")), text).expect("OUT_DIR can be written");
}

const SERVO_EXTERNS: &str = "
unsafe extern \"C\" {
    fn servo_new_END(params: *const Params, queues: u32, mtu: u32, skb: u32) -> *mut Opaque;
    fn servo_free_END(servo: *mut Opaque);
    fn servo_enqueue_END(servo: *mut Opaque, now: u64, id: u32, bytes: u32, hash: u32, ecn: u32, opens: bool);
    fn servo_dequeue_END(servo: *mut Opaque, now: u64, id: *mut u32, ecn: *mut u32) -> bool;
    fn servo_change_END(servo: *mut Opaque, now: u64, params: *const Params);
    fn servo_drops_END(servo: *const Opaque, count: *mut u32) -> *const Drop;
    fn servo_look_END(servo: *const Opaque, view: *mut View);
}
";

const SERVO_ENTRY: &str = "
    Algorithm {
        fault: FAULT,
        new: servo_new_END,
        free: servo_free_END,
        enqueue: servo_enqueue_END,
        dequeue: servo_dequeue_END,
        change: servo_change_END,
        drops: servo_drops_END,
        look: servo_look_END,
    },
";

const PAPER_EXTERNS: &str = "
unsafe extern \"C\" {
    fn ccaq_new_END(
        flow_limit: u32, multiplier: u64, max_increase: u64, max_gi: u64, max_gi_rtts: u64, now: u64,
    ) -> *mut Opaque;
    fn ccaq_free_END(buffer: *mut Opaque);
    fn ccaq_arrives_END(buffer: *mut Opaque, now: u64, queued: u32, hash: u32, opens: bool) -> u32;
    fn ccaq_departs_END(buffer: *mut Opaque, now: u64, left: u32, arrived: u64);
    fn ccaq_look_END(
        buffer: *const Opaque, limit: *mut u32, gi_end: *mut u64, enlarged: *mut u64, shrunk: *mut u64, rtt: *mut u64,
    );
    fn ccaq_times_END(a: u64, b: u64, c: u64) -> u64;
}
";

const PAPER_ENTRY: &str = "
    Algorithm {
        fault: FAULT,
        new: ccaq_new_END,
        free: ccaq_free_END,
        arrives: ccaq_arrives_END,
        departs: ccaq_departs_END,
        look: ccaq_look_END,
        times: ccaq_times_END,
    },
";

/// The headers that the kernel's byte queue limits include, except for their own.
const EMPTY: [&str; 8] = [
    "asm/bug.h",
    "linux/bitops.h",
    "linux/compiler.h",
    "linux/export.h",
    "linux/jiffies.h",
    "linux/kernel.h",
    "linux/types.h",
    "trace/events/napi.h",
];

/// Compiles lib/dynamic_queue_limits.c of each available series.
fn dql(out: &Path) {
    let empty = out.join("empty");
    for name in EMPTY {
        let header = empty.join(name);
        fs::create_dir_all(header.parent().expect("a folder")).expect("OUT_DIR can be written");
        fs::write(header, "").expect("OUT_DIR can be written");
    }
    let (mut externs, mut table) = (String::new(), String::new());
    let folder = cache("linux-sources").unwrap_or_default();
    println!("cargo::rerun-if-changed={}", folder.display());
    let found = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = found.filter(|path| path.join("version").is_file()).collect();
    found.sort();
    for (number, source) in found.into_iter().enumerate() {
        let version = fs::read_to_string(source.join("version")).expect("it was there");
        let compiled = cc::Build::new()
            .file("shim/dql.c")
            .include(&empty)
            .include(source.join("include"))
            .define("SERIES", number.to_string().as_str())
            .define("SOURCE", format!("\"{}\"", source.join("lib/dynamic_queue_limits.c").display()).as_str())
            .opt_level(2)
            .flag_if_supported("-std=gnu11")
            .warnings(false)
            .try_compile(&format!("dql_{number}"));
        if let Err(error) = compiled {
            println!("cargo::warning=the byte queue limits of Linux {} do not compile here: {error}", version.trim());
            continue;
        }
        let end = number.to_string();
        externs += &DQL_EXTERNS.replace("END", &end);
        table += &DQL_ENTRY.replace("END", &end).replace("VERSION", version.trim());
    }
    let text = format!("{externs}\nstatic LIBRARIES: &[Library] = &[{table}];\n");
    fs::write(out.join("dql.rs"), text).expect("OUT_DIR can be written");
}

const DQL_EXTERNS: &str = "
unsafe extern \"C\" {
    fn limits_new_END(hold_time: u32, now: u64, least: u32, most: u32) -> *mut Opaque;
    fn limits_free_END(dql: *mut Opaque);
    fn limits_queued_END(dql: *mut Opaque, bytes: u32);
    fn limits_completed_END(dql: *mut Opaque, bytes: u32, now: u64);
    fn limits_avail_END(dql: *const Opaque) -> i32;
    fn limits_look_END(dql: *const Opaque, limit: *mut u32, inflight: *mut u32);
}
";

const DQL_ENTRY: &str = "
    Library {
        version: \"VERSION\",
        new: limits_new_END,
        free: limits_free_END,
        queued: limits_queued_END,
        completed: limits_completed_END,
        avail: limits_avail_END,
        look: limits_look_END,
    },
";

/// Returns a folder of ours in the user's cache.
fn cache(folder: &str) -> Option<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(&env::var_os("HOME")?).join(".cache"),
    };
    Some(base.join("sojourn").join(folder))
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
