//! What is asked and what was seen: the scenario, the workload drawn from it, and the records of a run.
#![forbid(unsafe_code)]

pub(crate) mod document;
pub mod error;
pub mod records;
pub mod scenario;
pub mod units;
pub mod workload;
