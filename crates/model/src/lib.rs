//! What is asked and what was seen: the scenario, the workload drawn from it, and the records of a run.
//!
//! A TOML file becomes a [`plan::Plan`], checked throughout; each of its runs a [`scenario::Scenario`].
#![forbid(unsafe_code)]

mod address;
mod changes;
mod describe;
mod document;
mod draws;
pub mod error;
pub mod keys;
mod path;
mod pause;
pub mod plan;
pub mod portable;
pub mod rates;
mod read;
pub mod records;
pub mod reference;
pub mod scenario;
mod sweep;
mod traffic;
pub mod units;
pub mod workload;
