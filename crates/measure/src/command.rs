//! The result of a program of the user's.

/// A program of the user's that a run has started. `None` in start-up.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct CommandRun {
    /// The program and its arguments, with the addresses of the hosts in them.
    pub argv: Vec<String>,
    /// Its exit code; `None` if a signal ended it.
    pub exit: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// True if its `stop` or the end of the run ended it, and not the program itself.
    pub stopped: bool,
    /// The time of the run at which it was started, in seconds.
    pub started_s: f64,
    /// The time of the run at which it had ended, in seconds.
    pub ended_s: f64,
    /// The last 4 KiB of its standard output.
    pub stdout: String,
    /// The last 4 KiB of its standard error.
    pub stderr: String,
}
