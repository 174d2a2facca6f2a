//! The replay of a packet trace.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sojourn_core::qdisc::tc::Spec;
use sojourn_model::units;
use sojourn_sim::replay::{run, to_csv};

use crate::Error;

/// The fates of a trace's packets as CSV, and warnings about the line.
#[pyfunction]
pub fn replay<'py>(
    py: Python<'py>,
    trace: &[u8],
    name: &str,
    qdisc: &str,
    rate: Option<&str>,
    mtu: u32,
) -> PyResult<(Bound<'py, PyBytes>, Vec<String>)> {
    let (spec, mut warnings) =
        Spec::parse(qdisc).map_err(|error| Error::new_err(format!("--qdisc = {qdisc}: {error}")))?;
    let rate = match rate {
        None => None,
        Some(text) => {
            let read = units::rate(text)
                .filter(|read| read.rate.0 > 0)
                .ok_or_else(|| Error::new_err(format!("--rate = {text}: expected a rate above zero such as 10mbit")))?;
            if read.in_bytes {
                warnings.push(format!("--rate = {text}: bps means bytes per second in tc, so this is {}", read.rate));
            }
            Some(read.rate)
        }
    };
    let csv = py.detach(|| {
        let rows = run(trace, name, &spec, rate, mtu).map_err(|error| Error::new_err(error.to_string()))?;
        PyResult::Ok(to_csv(&rows))
    })?;
    Ok((PyBytes::new(py, &csv), warnings))
}
