//! Tests only: the kernel's own C, compiled in user space, against core.
//!
//! - [`ccaq`]: our own queue discipline for Linux, its algorithm, and copies with faults;
//! - [`dql`]: the kernel's unmodified `lib/dynamic_queue_limits.c`;
//! - [`kernel`]: a codel qdisc around the kernel's unmodified `codel_impl.h`;
//! - [`mutant`]: CoDel written out once more, with faults that can be switched on: does the comparison see them?
//! - [`trace`]: the traces that all of them play, and how a busy server plays them.

pub mod ccaq;
pub mod dql;
pub mod kernel;
pub mod mutant;
pub mod trace;

use std::io::Write;

/// Says on the terminal that something was not tested; the test harness does not hide it. With `CI=true`, where nothing
/// may be skipped, it panics.
pub fn skipped(what: &str, why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "CI=true: nothing may be skipped, but {what}: {why}");
    // To the file descriptor, past the harness; nobody is left to be told if that fails.
    let _ = writeln!(std::io::stderr(), "\n!!! SKIPPED: {what}: {why}\n");
}
