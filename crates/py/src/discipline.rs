//! Disciplines that are written in Python, for prototypes.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::external::{Dropped, Label, Maker, Outside};
use sojourn_core::qdisc::{Context, DropReason};
use sojourn_core::units::Time;

use crate::Error;
use crate::outside::Failure;

/// A packet in a queue.
#[pyclass(frozen, dict, module = "sojourn._core")]
pub struct Packet {
    id: u64,
    /// Length in bytes, as the link counts it.
    #[pyo3(get)]
    bytes: u32,
    /// Flow hash, equal for all packets of a flow.
    #[pyo3(get)]
    flow: u32,
    /// When it was enqueued, in nanoseconds.
    #[pyo3(get)]
    arrival: u64,
    ecn: AtomicU8,
}

#[pymethods]
impl Packet {
    /// The ECN field of the IP header: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    #[getter]
    fn ecn(&self) -> u8 {
        self.ecn.load(Ordering::Relaxed)
    }

    /// Sets CE if the packet is ECN-capable. Returns whether it carries CE now.
    fn mark(&self) -> bool {
        let capable = self.ecn() != Ecn::NotEct as u8;
        if capable {
            self.ecn.store(Ecn::Ce as u8, Ordering::Relaxed);
        }
        capable
    }
}

/// The base class of disciplines in Python. It takes the packets that the discipline drops.
#[pyclass(frozen, subclass, module = "sojourn._core")]
#[derive(Default)]
pub struct Discipline {
    dropped: Mutex<Vec<Dropped>>,
}

#[pymethods]
impl Discipline {
    #[new]
    #[pyo3(signature = (*_words, **_parameters))]
    fn new(_words: &Bound<'_, PyTuple>, _parameters: Option<&Bound<'_, PyDict>>) -> Discipline {
        Discipline::default()
    }

    /// Drops a packet, which may be one that is just being enqueued. `reason` is one of those of `sojourn list reasons`.
    #[pyo3(signature = (packet, reason = "overlimit"))]
    fn drop(&self, packet: &Packet, reason: &str) -> PyResult<()> {
        let number = DropReason::ALL.iter().position(|one| one.name() == reason).ok_or_else(|| {
            let known: Vec<&str> = DropReason::ALL.iter().map(|one| one.name()).collect();
            Error::new_err(format!("reason = {reason:?}: expected one of {}", known.join(", ")))
        })?;
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push((packet.id, number as u8));
        Ok(())
    }
}

/// Creates a discipline in Python.
pub struct OfPython {
    pub name: String,
    /// A function that takes the line, MTU, rate and seed, and returns a `Discipline`.
    pub make: Py<PyAny>,
    pub failure: Failure,
}

impl fmt::Debug for OfPython {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in Python", self.name)
    }
}

impl Maker for OfPython {
    fn name(&self) -> &str {
        &self.name
    }

    fn make(&self, line: &str, context: &Context) -> Option<Box<dyn Outside>> {
        let made = Python::attach(|py| {
            let of = |error: PyErr| words_of(py, &error);
            let made = self.make.bind(py).call1((line, context.mtu, context.rate.0, context.seed)).map_err(of)?;
            let base = made.clone().cast_into::<Discipline>().map_err(|error| error.to_string())?;
            let method = |name: &str| made.getattr(name).map(Bound::unbind).map_err(of);
            Ok(InPython {
                base: base.unbind(),
                enqueue: method("enqueue")?,
                dequeue: method("dequeue")?,
                next_event: method("next_event")?,
            })
        });
        made.map_err(|problem: String| self.failed(format!("{line}: {problem}")))
            .ok()
            .map(|made| Box::new(made) as Box<dyn Outside>)
    }

    fn failed(&self, problem: String) {
        self.failure.keep(format!("{}: {problem}", self.name));
    }
}

/// A discipline in Python, with its bound methods.
struct InPython {
    base: Py<Discipline>,
    enqueue: Py<PyAny>,
    dequeue: Py<PyAny>,
    next_event: Py<PyAny>,
}

impl InPython {
    /// Moves the packets that the discipline has dropped to a list.
    fn collect(&self, dropped: &mut Vec<Dropped>) {
        dropped.append(&mut self.base.get().dropped.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Outside for InPython {
    fn enqueue(&mut self, now: Time, packet: Label, dropped: &mut Vec<Dropped>) -> Result<(), String> {
        let Label { id, bytes, flow, ecn } = packet;
        Python::attach(|py| {
            let packet = Packet { id, bytes, flow, arrival: now.0, ecn: AtomicU8::new(ecn as u8) };
            let called = Py::new(py, packet).and_then(|packet| self.enqueue.bind(py).call1((packet, now.0)));
            called.map(drop).map_err(|error| words_of(py, &error))
        })?;
        self.collect(dropped);
        Ok(())
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped>) -> Result<Option<Label>, String> {
        let found = Python::attach(|py| {
            let found = self.dequeue.bind(py).call1((now.0,)).map_err(|error| words_of(py, &error))?;
            if found.is_none() {
                return Ok(None);
            }
            let packet = found
                .cast::<Packet>()
                .map_err(|_| format!("dequeue returned {}: expected a packet or None", shown(&found)))?
                .get();
            let ecn = Ecn::from_bits(packet.ecn());
            Ok::<_, String>(Some(Label { id: packet.id, bytes: packet.bytes, flow: packet.flow, ecn }))
        })?;
        self.collect(dropped);
        Ok(found)
    }

    fn next_event(&mut self) -> Result<Time, String> {
        Python::attach(|py| {
            let at = self.next_event.bind(py).call0().map_err(|error| words_of(py, &error))?;
            let said = || format!("next_event returned {}: expected nanoseconds or None", shown(&at));
            at.extract::<Option<u64>>().map(|at| at.map_or(Time::NEVER, Time)).map_err(|_| said())
        })
    }
}

/// Formats a value for a message.
fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
    text.chars().take(60).collect()
}

/// Formats an exception in one line, with the last place of its traceback. A refusal, such as that of a line's words, is
/// for the user already.
fn words_of(py: Python<'_>, error: &PyErr) -> String {
    let place = || -> PyResult<String> {
        let frames = py.import("traceback")?.call_method1("extract_tb", (error.traceback(py),))?;
        let last = frames.get_item(-1)?;
        let word = |name: &str| last.getattr(name).map(|value| value.to_string());
        let code = word("line").unwrap_or_default();
        Ok(format!(" ({}, line {}, in {}: {code})", word("filename")?, word("lineno")?, word("name")?))
    };
    let text = error.value(py).to_string();
    let kind = error.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    if kind == "Refusal" {
        return text;
    }
    let colon = if text.is_empty() { "" } else { ": " };
    format!("{kind}{colon}{text}{}", place().unwrap_or_default())
}
