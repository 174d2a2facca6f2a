//! For tests only: comparison of core with the kernel's own C, compiled in user space.
//!
//! - [`ccaq`]: our own queue discipline for Linux around the algorithm of its kernel module, and copies with faults;
//! - [`ccaq_paper`]: the algorithm of our kernel module for the paper's ccaq, and copies with faults;
//! - [`dql`]: the kernel's unmodified `lib/dynamic_queue_limits.c`;
//! - [`kernel`]: a codel qdisc around the kernel's unmodified `codel_impl.h`;
//! - [`mutant`]: a separate implementation of CoDel with faults that can be enabled, to test the comparison itself;
//! - [`trace`]: the traces that all of them play, and a busy server that plays them.

pub mod ccaq;
pub mod ccaq_paper;
pub mod dql;
pub mod kernel;
pub mod mutant;
pub mod trace;

use std::io::Write;

/// Prints that something was not tested, even if the test harness captures output. Panics with `CI=true`, where nothing
/// may be skipped.
pub fn skipped(what: &str, why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "CI=true: nothing may be skipped, but {what}: {why}");
    // Writes to the file descriptor, bypassing the harness. A failure cannot be reported.
    let _ = writeln!(std::io::stderr(), "\n!!! SKIPPED: {what}: {why}\n");
}
