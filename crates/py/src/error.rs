//! The two kinds of failure: bad input, and an internal error.

use pyo3::PyErr;
use pyo3::exceptions::{PyRuntimeError, PyValueError};

pyo3::create_exception!(
    sojourn._core,
    Error,
    PyValueError,
    "Bad input; the text names file, line, key, value and what was expected."
);

/// Returns an exception for an internal error.
pub fn bug(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(format!("a bug in sojourn: {error}"))
}
