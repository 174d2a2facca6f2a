//! The results of a run, as NumPy arrays and Python values.

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};
use sojourn_core::units::Time;
use sojourn_measure::records::{self, Column};
use sojourn_measure::{LinkReport, RunReport};
use sojourn_model::scenario::{Capacity, Scenario, Trace};

use crate::bug;
use crate::describe::describe;
use crate::value::python;

/// Two columns of equal length.
type Pair<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// The results of one run.
#[pyclass(frozen, module = "sojourn._core")]
pub struct Output {
    output: sojourn_measure::Output,
    report: RunReport,
    about: Value,
    rates: Vec<Vec<(&'static str, Vec<f64>)>>,
}

impl Output {
    /// Wraps the output of a finished run.
    pub fn new(world: &str, scenario: &Scenario, set: Map<String, Value>, output: sojourn_measure::Output) -> Output {
        let report = RunReport::new(world, scenario.seed, set, scenario.duration, &output.links, &output.flows);
        let report = RunReport { tcp: output.tcp.clone(), ..report };
        let rates = output.links.iter().enumerate().map(|(index, link)| match &scenario.link(index).rate {
            Capacity::Steps(_) => link.series.rate_columns(),
            Capacity::Trace(trace) => trace_rates(trace, scenario.duration),
        });
        Output { about: describe(scenario), report, rates: rates.collect(), output }
    }

    /// Returns a dictionary with one value per link.
    fn by_link<'py, V: IntoPyObject<'py>>(
        &self,
        py: Python<'py>,
        value: impl Fn(&LinkReport) -> PyResult<V>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let links = PyDict::new(py);
        for link in &self.output.links {
            links.set_item(&link.name, value(link)?)?;
        }
        Ok(links)
    }
}

#[pymethods]
impl Output {
    /// The run's entry in `runs` of the JSON.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = py.detach(|| serde_json::to_value(&self.report)).map_err(bug)?;
        python(py, &report)
    }

    /// The run's queues and flows.
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        python(py, &self.about)
    }

    /// Columns over time, by link.
    fn series<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.by_link(py, |link| floats(py, link.series.columns()))
    }

    /// Columns over time, by flow.
    fn flow_series<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let flows = PyDict::new(py);
        for flow in &self.output.flows {
            flows.set_item(&flow.name, floats(py, flow.series.columns())?)?;
        }
        Ok(flows)
    }

    /// The sender's state over time, by flow.
    fn flow_states<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let flows = PyDict::new(py);
        for flow in &self.output.flows {
            flows.set_item(&flow.name, floats(py, flow.series.state_columns())?)?;
        }
        Ok(flows)
    }

    /// The cumulative distribution of the sojourn time by link: milliseconds, and the fraction of packets up to each
    /// value.
    fn distributions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.by_link(py, |link| -> PyResult<Pair<'py>> {
            let (ms, share) = link.sojourn_cdf();
            Ok((ms.into_pyarray(py), share.into_pyarray(py)))
        })
    }

    /// The link's rate from each time on, by link: seconds, Mbit/s.
    fn rates<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let links = PyDict::new(py);
        for (link, columns) in self.output.links.iter().zip(&self.rates) {
            let steps = PyDict::new(py);
            for (name, values) in columns {
                steps.set_item(name, values)?;
            }
            links.set_item(&link.name, steps)?;
        }
        Ok(links)
    }

    /// Per-packet records as columns, one row per packet and link; empty unless requested for the run.
    fn packets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (name, column) in records::columns(&self.output.packets) {
            match column {
                Column::U8(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::U16(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::U32(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::U64(values) => columns.set_item(name, values.into_pyarray(py))?,
            }
        }
        Ok(columns)
    }

    /// Number of events that the engine handled.
    #[getter]
    fn events(&self) -> u64 {
        self.output.events
    }
}

/// The capacity of a trace as a mean rate over each of at most 600 intervals of 100 ms or more.
fn trace_rates(trace: &Trace, end: Time) -> Vec<(&'static str, Vec<f64>)> {
    let end_ms = end.0.div_ceil(1_000_000);
    let (period, width) = (trace.opportunities_ms.last().copied().unwrap_or(1).max(1), end_ms.div_ceil(600).max(100));
    // Number of opportunities in [0, ms) of the repeated trace.
    let before = |ms: u64| {
        let whole = (ms / period) * trace.opportunities_ms.len() as u64;
        whole + trace.opportunities_ms.partition_point(|&at| at < ms % period) as u64
    };
    let starts = (0..end_ms).step_by(width as usize);
    let mbit = |from: u64| {
        let to = (from + width).min(end_ms);
        (before(to) - before(from)) as f64 * 1500.0 * 8.0 / ((to - from) as f64 * 1e3)
    };
    vec![
        ("rate_time_s", starts.clone().map(|ms| ms as f64 * 1e-3).collect()),
        ("rate_mbit", starts.map(mbit).collect()),
    ]
}

fn floats<'py>(py: Python<'py>, columns: Vec<(&'static str, Vec<f64>)>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, values) in columns {
        dict.set_item(name, values.into_pyarray(py))?;
    }
    Ok(dict)
}
