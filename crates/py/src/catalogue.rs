//! The tables from which help and reference pages are generated.

use pyo3::prelude::*;
use serde_json::{Value, json};
use sojourn_core::qdisc::DropReason;
use sojourn_core::qdisc::tc::{self, ParamDoc, Spec};

use sojourn_model::keys::{Fallback, Form, Key, SECTIONS, Section};
use sojourn_model::reference::{reference_markdown, schema as schema_of};

use crate::Error;
use crate::value::python;

/// One of the tables `disciplines`, `elsewhere`, `keys`, `reasons`: a list with one entry per row.
#[pyfunction]
pub fn catalogue<'py>(py: Python<'py>, what: &str) -> PyResult<Bound<'py, PyAny>> {
    let table: Value = match what {
        "disciplines" => disciplines(),
        "elsewhere" => {
            tc::elsewhere().iter().map(|(name, instead)| json!({ "name": name, "instead": instead })).collect()
        }
        "keys" => SECTIONS.iter().map(|section| keys_of(section)).collect(),
        "reasons" => DropReason::ALL
            .iter()
            .map(|&reason| json!({ "reason": reason.name(), "meaning": meaning(reason) }))
            .collect(),
        other => return Err(Error::new_err(format!("{other}: expected disciplines, elsewhere, keys or reasons"))),
    };
    python(py, &table)
}

/// Returns the names of the counters of a discipline, given as a `tc` line.
#[pyfunction]
pub fn counters(line: &str) -> PyResult<Vec<String>> {
    let (spec, _) = Spec::parse(line).map_err(|error| Error::new_err(error.to_string()))?;
    Ok(sojourn_replay::counters(&spec))
}

/// Explains a drop reason for readers.
fn meaning(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Overlimit => "the queue was at its limit of packets or bytes, or its hop flushed it (`flush`)",
        DropReason::FlowLimit => "the flow's own queue was at its limit (fq, ccaq, sfq), or its bins were (sfb)",
        DropReason::MemoryLimit => "all queues together were at their memory limit (fq_codel)",
        DropReason::Codel => "CoDel's control law (cake's COBALT): the delay had stayed above target",
        DropReason::Early => {
            "a random drop before the queue is full (red, choke, sfb, blue, pie, fq_pie, dualpi2, cake)"
        }
        DropReason::Forced => "RED's average queue was above its thresholds",
        DropReason::Shrink => "the flow's limit was lowered below the length of its queue (ccaq)",
        DropReason::Busy => "the link was busy and has no queue (noqueue)",
        DropReason::Loss => "lost behind the link by an impairment (its `loss`, or its `limit`), not in a queue",
        DropReason::Matched => "it matched a packet of its own flow in the queue, which was dropped too (choke)",
        DropReason::Penalty => "the flow does not respond to congestion and exceeded the rate of such flows (sfb)",
        DropReason::AckFilter => "an ACK that a newer one in its queue made redundant (cake)",
    }
}

/// Returns the JSON schema of scenario files.
#[pyfunction]
pub fn schema() -> String {
    schema_of().to_string()
}

/// Returns the reference page of scenario files, in Markdown.
#[pyfunction]
pub fn reference() -> String {
    reference_markdown()
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

fn keys_of(section: &Section) -> Value {
    let keys: Value = section.keys.iter().map(key).collect();
    json!({ "section": section.name, "doc": section.doc, "keys": keys })
}

fn key(key: &Key) -> Value {
    let default = match key.fallback {
        Fallback::Required => "required".to_owned(),
        Fallback::Words(words) => words.to_owned(),
        Fallback::Text(text) => format!("{text:?}"),
        Fallback::Integer(number) => number.to_string(),
        Fallback::Flag(flag) => flag.to_string(),
    };
    json!({
        "key": key.name, "value": key.form.expected(), "default": default, "kinds": key.kinds, "doc": key.doc,
        "later": key.form == Form::Later,
    })
}
