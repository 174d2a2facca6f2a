//! The door to Python: converts, releases the GIL, returns NumPy arrays and Python values. It also draws a report's pictures
//! (`paint`), by libraries.

mod catalogue;
mod describe;
mod output;
mod paint;
mod plan;
mod progress;
mod replay;
mod value;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// A sweep opens and closes tens of thousands of connections a run: the C library's allocator gives their memory back to
/// the system after each and takes it anew, a quarter of such a run's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, which its crate does not name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// What a run gave back is kept for the next: a twentieth of a sweep's time.
fn keep_memory() {
    #[expect(unsafe_code, reason = "a C function")]
    // SAFETY: a number is stored, and mimalloc checks which. Who sets MIMALLOC_PURGE_DELAY has it otherwise.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, -1)
    }
}

pyo3::create_exception!(
    _core,
    Error,
    PyValueError,
    "Bad input; the text names file, line, key, value and what was expected."
);

/// What can't be, but is not the caller's fault.
fn bug(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(format!("a bug in sojourn: {error}"))
}

/// The compiled half of the package `sojourn`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    keep_memory();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("FILE_VERSION", sojourn_model::records::FILE_VERSION)?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<output::Output>()?;
    module.add_class::<paint::Fonts>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<progress::Progress>()?;
    module.add_class::<replay::KernelReplay>()?;
    module.add_function(wrap_pyfunction!(catalogue::counters, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::schema, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::reference, module)?)?;
    module.add_function(wrap_pyfunction!(replay::replay, module)?)?;
    module.add_function(wrap_pyfunction!(replay::qdisc, module)?)?;
    module.add_function(wrap_pyfunction!(replay::paste, module)?)?;
    module.add_function(wrap_pyfunction!(replay::rate, module)?)?;
    module.add_function(wrap_pyfunction!(replay::as_in, module)?)?;
    module.add_function(wrap_pyfunction!(replay::sums, module)?)?;
    module.add_function(wrap_pyfunction!(value::to_toml, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::catalogue, module)?)
}
