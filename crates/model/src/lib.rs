//! Input and output of a run: the scenario, the workload drawn from it, and the records.
//!
//! [`plan::Plan`] reads and checks a TOML file completely. Each of its runs is a [`scenario::Scenario`].
#![forbid(unsafe_code)]

mod address;
mod advice;
mod changes;
pub mod cost;
mod describe;
mod document;
mod draws;
pub mod error;
mod file;
mod foreign;
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
