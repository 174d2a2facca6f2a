//! Conversion of values between Rust and Python: objects become dictionaries in their order, `null` becomes `None`.

use pyo3::prelude::*;
use serde::Serialize;

use crate::{Error, bug};

/// Converts a value to Python.
pub fn python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    pythonize::pythonize(py, value).map_err(bug)
}

/// Formats a dictionary as a TOML file. Its values may be texts, numbers, truth values, lists and dictionaries.
#[pyfunction]
pub fn to_toml(tables: &Bound<'_, PyAny>) -> PyResult<String> {
    let value: toml::Table = pythonize::depythonize(tables).map_err(|error| Error::new_err(error.to_string()))?;
    toml::to_string(&value).map_err(bug)
}
