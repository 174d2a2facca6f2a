//! Python bindings. They convert values, release the GIL, and return NumPy arrays and Python values. The module also
//! rasterises the pictures of reports (`paint`).

mod catalogue;
mod describe;
mod discipline;
mod error;
mod output;
mod outside;
mod paint;
mod plan;
mod progress;
mod replay;
mod value;

use pyo3::prelude::*;

pub(crate) use error::{Error, bug};

/// The memory allocator of the module. A run of a sweep opens and closes tens of thousands of connections. The
/// allocator of the C library would return their memory to the system and request it again each time, which takes a
/// quarter of the time of such a run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, which its crate does not define.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Keeps memory freed by a run for the next one, which saves a twentieth of a sweep's time.
fn keep_memory() {
    #[expect(unsafe_code, reason = "a C function")]
    // SAFETY: a number is stored, and mimalloc checks the option. MIMALLOC_PURGE_DELAY overrides it.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, -1)
    }
}

/// The compiled part of the package `sojourn`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    keep_memory();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("FILE_VERSION", sojourn_model::records::FILE_VERSION)?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<discipline::Discipline>()?;
    module.add_class::<discipline::Packet>()?;
    module.add_class::<output::Output>()?;
    module.add_class::<paint::Fonts>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<progress::Progress>()?;
    module.add_class::<replay::KernelReplay>()?;
    module.add_function(wrap_pyfunction!(catalogue::counters, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::schema, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::reference, module)?)?;
    module.add_function(wrap_pyfunction!(outside::refuse_outside, module)?)?;
    module.add_function(wrap_pyfunction!(replay::replay, module)?)?;
    module.add_function(wrap_pyfunction!(replay::qdisc, module)?)?;
    module.add_function(wrap_pyfunction!(replay::impair, module)?)?;
    module.add_function(wrap_pyfunction!(replay::paste, module)?)?;
    module.add_function(wrap_pyfunction!(replay::rate, module)?)?;
    module.add_function(wrap_pyfunction!(replay::as_in, module)?)?;
    module.add_function(wrap_pyfunction!(replay::needs, module)?)?;
    module.add_function(wrap_pyfunction!(replay::sums, module)?)?;
    module.add_function(wrap_pyfunction!(value::to_toml, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::catalogue, module)?)
}
