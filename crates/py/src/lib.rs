//! The door to Python: converts, releases the GIL, returns NumPy arrays and JSON text, nothing else.

use pyo3::prelude::*;

/// The compiled half of the package `sojourn`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
