//! The tables that help and reference pages are made of, as JSON.

use pyo3::prelude::*;
use serde_json::{Value, json};
use sojourn_core::qdisc::DropReason;
use sojourn_core::qdisc::tc::{self, ParamDoc};

use crate::Error;

/// One of the tables `disciplines`, `keys`, `reasons` as JSON.
#[pyfunction]
pub fn catalogue(what: &str) -> PyResult<String> {
    let table = match what {
        "disciplines" => disciplines(),
        "reasons" => DropReason::ALL.iter().map(|reason| json!({ "reason": reason.name() })).collect(),
        other => return Err(Error::new_err(format!("{other}: expected disciplines, keys or reasons"))),
    };
    Ok(table.to_string())
}

fn disciplines() -> Value {
    let list = tc::disciplines();
    list.iter()
        .map(|one| {
            let parameters: Value = one.params.iter().map(parameter).collect();
            json!({ "name": one.name, "tc": one.tc, "doc": one.doc, "parameters": parameters })
        })
        .collect()
}

fn parameter(param: &ParamDoc) -> Value {
    json!({
        "name": param.name, "off": param.off, "expects": param.expects, "default": param.default,
        "range": param.range, "doc": param.doc, "ours": param.ours, "required": param.required,
    })
}
