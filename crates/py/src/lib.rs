//! The door to Python: converts, releases the GIL, returns NumPy arrays and JSON text, nothing else.

mod catalogue;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pyo3::create_exception!(
    _core,
    Error,
    PyValueError,
    "Bad input; the text names file, line, key, value and what was expected."
);

/// The compiled half of the package `sojourn`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("FILE_VERSION", sojourn_model::records::FILE_VERSION)?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_function(wrap_pyfunction!(catalogue::catalogue, module)?)
}
