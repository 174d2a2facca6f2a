//! The replay of packet traces.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sojourn_core::netem;
use sojourn_core::qdisc::external::{Maker, refuse_name};
use sojourn_core::qdisc::linux::Version;
use sojourn_core::qdisc::tc::{Spec, Value, own_words, rate_meant};
use sojourn_core::qdisc::{Context, DropReason};
use sojourn_core::rng::Rng;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::units;
use sojourn_replay::{
    Fate, How, Op, Row, SEED, changes, columns, flow_hash, parse, run_counted, to_csv, warnings as of_changes,
};
use sojourn_traffic::job::Own;
use sojourn_traffic::replay::{Job, MOST_CHANGES, more, words};

use crate::outside::{Failure, Given, makers};
use crate::value::python;
use crate::{Error, bug};

/// Replays a packet trace through a discipline. Returns the packets' fates as CSV, the warnings about the line, and the
/// discipline's counters with the keys of `tc -s -j qdisc show`.
///
/// If `rate` is given, a server dequeues packets at this rate, until `end` if it is given. Otherwise the trace contains
/// the dequeues, and `link_rate` is the link rate that the discipline is configured for. `outside` are disciplines of the
/// user's.
#[pyfunction]
#[pyo3(signature = (trace, name, qdisc, rate, mtu, link_rate=None, seed=SEED, end=None, *, outside=vec![]))]
#[expect(clippy::too_many_arguments, reason = "each by its name")]
pub fn replay<'py>(
    py: Python<'py>,
    trace: &[u8],
    name: &str,
    qdisc: &str,
    rate: Option<&str>,
    mtu: u32,
    link_rate: Option<u64>,
    seed: u64,
    end: Option<&str>,
    outside: Vec<Given>,
) -> PyResult<(Bound<'py, PyBytes>, Vec<String>, Bound<'py, PyAny>)> {
    let link = link_rate.map(Rate);
    let failure = Failure::default();
    let makers = makers(py, &outside, &failure)?;
    let (spec, rate, warnings) = asked(py, (trace, name), (qdisc, &makers), rate, link, mtu)?;
    let how = How { rate, link, end: end_of(end)?, mtu, seed };
    let (csv, stats) = py.detach(|| {
        let played = run_counted(trace, name, &spec, &how).map_err(|error| Error::new_err(error.to_string()))?;
        failure.check()?;
        PyResult::Ok((to_csv(&played.rows), played.stats))
    })?;
    Ok((PyBytes::new(py, &csv), warnings, python(py, &stats)?))
}

/// Returns warnings about a discipline in front of a server of this rate, if the rate is known.
fn advice(spec: &Spec, rate: Option<Rate>, mtu: u32) -> Vec<String> {
    let (overhead, delay) = (14.min(mtu), Span::ZERO);
    let context = Context { mtu, overhead, rate: rate.unwrap_or(Rate(1)), delay, skb: 0, seed: 0 };
    spec.advice(&context, rate.is_some())
}

/// Returns the discipline and the server's rate of a replay, with warnings about them and about the trace's changes.
/// `link` is the rate from which the discipline derives its defaults if the trace has the dequeues.
fn asked(
    py: Python<'_>,
    (trace, name): (&[u8], &str),
    (qdisc, makers): (&str, &[Arc<dyn Maker>]),
    rate: Option<&str>,
    link: Option<Rate>,
    mtu: u32,
) -> PyResult<(Spec, Option<Rate>, Vec<String>)> {
    let names: Vec<&str> = makers.iter().map(|maker| maker.name()).collect();
    let (spec, mut warnings) = match Spec::of_outside(qdisc, &names) {
        Some(mut spec) => {
            spec.bind(makers);
            (spec, Vec::new())
        }
        None => Spec::parse(qdisc).map_err(|error| Error::new_err(format!("--qdisc = {qdisc}: {error}")))?,
    };
    let rate = server_rate(rate, &mut warnings)?;
    warnings.extend(advice(&spec, link.or(rate), mtu));
    warnings.extend(py.detach(|| of_changes(trace, name, &spec)));
    Ok((spec, rate, warnings))
}

/// Parses a discipline's line. Returns its `kind`, the line with every parameter (`full`), the line as `tc` accepts it
/// (`tc`; null if no stock kernel has the discipline), and its `values` by name: numbers of packets or bytes,
/// nanoseconds, bits per second, truth values, the index of a choice, or `3p` for packets where a time is usual; null
/// if a parameter is not set. `warnings` has a sentence for each word that is easily misread, and for what the text does
/// not hold.
#[pyfunction]
pub fn qdisc<'py>(py: Python<'py>, line: &str) -> PyResult<Bound<'py, PyAny>> {
    let (spec, warnings) = Spec::parse(line).map_err(|error| Error::new_err(format!("{line}: {error}")))?;
    let values: serde_json::Map<String, serde_json::Value> = spec
        .values()
        .into_iter()
        .map(|(name, value)| {
            let value = match value {
                Value::Unset => serde_json::Value::Null,
                Value::Flag(on) => on.into(),
                Value::Int(number) => number.into(),
                Value::Packets(number) => format!("{number}p").into(),
                Value::Real(number) => number.into(),
                Value::Signed(number) => number.into(),
            };
            (name.to_owned(), value)
        })
        .collect();
    let said = serde_json::json!({
        "kind": spec.kind(), "full": spec.full(), "tc": spec.tc_full(), "values": values, "warnings": warnings
    });
    python(py, &said)
}

/// Parses netem's words, a `tc` command with them, or what `tc` prints. Returns the `words` as `tc` accepts them, and
/// `warnings` as [`qdisc`].
#[pyfunction]
pub fn impair<'py>(py: Python<'py>, words: &str) -> PyResult<Bound<'py, PyAny>> {
    let (params, warnings) = netem::Params::read(words).map_err(|error| Error::new_err(format!("{words}: {error}")))?;
    python(py, &serde_json::json!({ "words": params.to_string(), "warnings": warnings }))
}

/// The `tc` command that adds a discipline to a device (None if no stock kernel has it), and a note about its
/// requirements, or about why there is no command. A line with an unknown name is one of a discipline of the user's.
#[pyfunction]
pub fn paste(line: &str, device: &str) -> PyResult<(Option<String>, String)> {
    let name = line.split_ascii_whitespace().next().unwrap_or_default();
    let of_user = || if refuse_name(name).is_none() { Spec::of_outside(line, &[name]) } else { None };
    let spec = match Spec::of_linux(line).or_else(of_user) {
        Some(spec) => spec,
        None => Spec::parse(line).map_err(|error| Error::new_err(format!("{line}: {error}")))?.0,
    };
    let paste = spec.paste(device);
    Ok((paste.line, paste.note))
}

/// Replays a trace once for each seed, and returns one row per seed. A row has the number of dropped or marked packets
/// with each of `kinds` labels, followed by the total sojourn time of the delivered packets with each label, in
/// microseconds. `link_rate` is the link rate for which the discipline is configured.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "each by its name")]
pub fn sums(
    py: Python<'_>,
    trace: &[u8],
    qdisc: &str,
    mtu: u32,
    link_rate: u64,
    labels: &[u8],
    kinds: usize,
    seeds: u64,
) -> PyResult<Vec<Vec<u64>>> {
    let (spec, _) = Spec::parse(qdisc).map_err(|error| Error::new_err(format!("{qdisc}: {error}")))?;
    let counted =
        || sojourn_replay::sums((trace, "trace"), &spec, (Rate(link_rate), mtu), 1..1 + seeds, (labels, kinds));
    py.detach(counted).map_err(|error| Error::new_err(error.to_string()))
}

/// Returns a line in our syntax for a discipline as in this version of Linux: with its variant, unless it names one.
#[pyfunction]
pub fn as_in(line: &str, linux: Version) -> String {
    sojourn_core::qdisc::tc::as_in(line, linux)
}

/// Returns which parts of this project Linux needs for a discipline: the name of the discipline's module, and whether
/// `tc` needs a plugin.
#[pyfunction]
pub fn needs(line: &str) -> (Option<&'static str>, bool) {
    sojourn_core::qdisc::linux::needs(line)
}

/// Parses a rate of the command line: bits per second, and warnings.
#[pyfunction]
pub fn rate(text: &str) -> PyResult<(u64, Vec<String>)> {
    let mut warnings = Vec::new();
    let rate = server_rate(Some(text), &mut warnings)?;
    Ok((rate.map_or(0, |rate| rate.0), warnings))
}

/// Parses the server's rate of the command line.
fn server_rate(rate: Option<&str>, warnings: &mut Vec<String>) -> PyResult<Option<Rate>> {
    let Some(text) = rate else { return Ok(None) };
    let positive = |text: &str| units::rate(text).filter(|read| read.rate.0 > 0);
    let read = positive(text).ok_or_else(|| {
        let meant = rate_meant(text).filter(|meant| units::rate(text).is_none() && positive(meant).is_some());
        let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
        Error::new_err(format!("--rate = {text}: expected a rate above zero such as 10mbit{meant}"))
    })?;
    if read.in_bytes {
        warnings.push(format!("--rate = {text}: bps means bytes per second in tc, so this is {}", read.rate));
    }
    Ok(Some(read.rate))
}

/// Parses the time of the server's end.
fn end_of(end: Option<&str>) -> PyResult<Time> {
    let Some(text) = end else { return Ok(Time::NEVER) };
    let time = units::span(text).map(|end| Time::ZERO + end).filter(|end| *end < Time::NEVER);
    time.ok_or_else(|| Error::new_err(format!("--end = {text}: expected a time such as 30s or 1500ms")))
}

/// A trace for a real kernel, and its results.
#[pyclass(frozen, module = "sojourn._core")]
pub struct KernelReplay {
    ops: Vec<Op>,
    job: Job,
    warnings: Vec<String>,
}

#[pymethods]
impl KernelReplay {
    /// Reads the trace. `modules` are the names of the discipline's own modules, and `replaces` the discipline of the
    /// kernel's that they replace; `version` is the kernel's, major and minor. `seed` is that of the discipline's random
    /// numbers.
    #[new]
    #[pyo3(signature = (trace, name, qdisc, rate, mtu, version, modules, replaces, tc_lib_dir, seed=SEED))]
    #[expect(clippy::too_many_arguments, reason = "the command line's, each by its name")]
    fn new(
        trace: &[u8],
        name: &str,
        qdisc: &str,
        rate: Option<&str>,
        mtu: u32,
        version: (u32, u32),
        modules: Vec<String>,
        replaces: Option<String>,
        tc_lib_dir: Option<String>,
        seed: u64,
    ) -> PyResult<Self> {
        let words = words(qdisc, version).map_err(|error| Error::new_err(format!("--qdisc = {qdisc}: {error}")))?;
        // The parameters of a discipline that only the kernel has are unknown.
        let known = Spec::parse(qdisc).ok();
        let mut warnings = known.as_ref().map_or(Vec::new(), |(_, warnings)| warnings.clone());
        let rate = server_rate(rate, &mut warnings)?;
        if let Some((spec, _)) = &known {
            warnings.extend(advice(spec, rate, mtu));
            warnings.extend(of_changes(trace, name, spec));
        }
        let ops = parse(trace, name, rate.is_none()).map_err(|error| Error::new_err(error.to_string()))?;
        refuse_further_columns(trace, name)?;
        let rate = rate.map_or(0, |rate| rate.0);
        ends_in_time(&ops, rate).map_err(|problem| Error::new_err(format!("{name}: {problem}")))?;
        // Only the innermost discipline of a line draws random numbers.
        let own = own_words(qdisc).map_err(|error| Error::new_err(format!("--qdisc = {qdisc}: {error}")))?.line;
        let inner = own.rsplit(" child ").next().unwrap_or(&own);
        let kind = inner.split_ascii_whitespace().next().unwrap_or_default();
        let numbers = Rng::stream(seed, kind).state();
        let more = more(qdisc);
        let changes = changed(&ops, name, qdisc)?;
        let rows = ops.len();
        let job = Job {
            job: "replay".to_owned(),
            words,
            more,
            changes,
            mtu,
            rate,
            numbers,
            rows,
            own: Own { modules, replaces },
            tc_lib_dir,
        };
        Ok(KernelReplay { ops, job, warnings })
    }

    /// Warnings for the user.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// The line and the arguments for tc of each change in the trace.
    #[getter]
    fn changes(&self) -> Vec<(usize, String)> {
        self.job.changes.iter().map(|(line, words)| (*line, words.join(" "))).collect()
    }

    /// JSON: the job of the guest.
    fn job(&self) -> PyResult<String> {
        serde_json::to_string(&self.job).map_err(bug)
    }

    /// The trace in the format of the guest's module.
    fn trace<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &encode(&self.ops))
    }

    /// The fates as CSV, decoded from the module's output.
    fn rows<'py>(&self, py: Python<'py>, fates: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &to_csv(&decode(&self.ops, fates).map_err(bug)?)))
    }
}

/// Returns the line and the arguments for `tc` of each change in the trace; for a discipline that only the kernel has,
/// the text of the trace.
fn changed(ops: &[Op], name: &str, qdisc: &str) -> PyResult<Vec<(usize, Vec<String>)>> {
    // The header is line 1.
    let given = ops.iter().zip(2..).filter_map(|(op, number)| match op {
        Op::Change { line, .. } => Some((number, line)),
        _ => None,
    });
    let given: Vec<(usize, &Box<str>)> = given.collect();
    if let Some((number, _)) = given.get(MOST_CHANGES) {
        let problem = format!("change number {}: a guest keeps at most {MOST_CHANGES} in a trace", MOST_CHANGES + 1);
        return Err(Error::new_err(format!("{name}:{number}: {problem}")));
    }
    let split = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect();
    let Ok((spec, _)) = Spec::parse(qdisc) else {
        return Ok(given.into_iter().map(|(number, line)| (number, split(line))).collect());
    };
    let changes = changes(ops, name, &spec).map_err(|error| Error::new_err(error.to_string()))?;
    Ok(given.iter().zip(&changes).map(|((number, _), change)| (*number, split(&change.line))).collect())
}

/// Refuses a trace with columns that the packets of a guest have no place for.
fn refuse_further_columns(trace: &[u8], name: &str) -> PyResult<()> {
    let columns = columns(trace, name).map_err(|error| Error::new_err(error.to_string()))?;
    let Some(column) = columns.first().map(|column| column.name()) else { return Ok(()) };
    let problem = "a guest's packets have neither addresses of hosts nor TCP flags";
    let expected = "expected --world sim, or a trace of the first five columns (cut -d, -f1-5)";
    Err(Error::new_err(format!("{name}:1: column {column:?}: {problem}; {expected}")))
}

/// Upper limit on a trace's length: a guest processes every tick, and takes half a second for a day and ten seconds for
/// 26 days.
const LONGEST: Time = Time(1 << 51);

/// Checks that a trace ends early enough for a guest. With a server (`rate` is not 0), this includes the time to send
/// all packets.
fn ends_in_time(ops: &[Op], rate: u64) -> Result<(), String> {
    let last = ops.last().map_or(Time::ZERO, Op::at);
    let bytes = |op: &Op| if let Op::Enqueue { bytes, .. } = op { u128::from(*bytes) } else { 0 };
    let served = ops.iter().map(bytes).sum::<u128>() * 8_000_000_000;
    let end = u128::from(last.0) + served.checked_div(u128::from(rate)).unwrap_or(0);
    if end <= u128::from(LONGEST.0) {
        return Ok(());
    }
    Err(format!(
        "ends after {end} ns: expected at most {} ns, 26 days, since a real kernel's clock ticks all the way",
        LONGEST.0
    ))
}

/// Size in bytes of a row of the trace (`OP`) and of a fate (`FATE`), as the module stores them.
const OP: usize = 24;
const FATE: usize = 16;

/// Encodes the trace for the module (`struct replay_op`).
fn encode(ops: &[Op]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ops.len() * OP);
    for op in ops {
        let (at, hash, length, kind, ecn) = match *op {
            // The flow hash is the same as in the simulator's replay.
            Op::Enqueue { at, flow, bytes, ecn, dscp, .. } => (at, flow_hash(flow), bytes, 0, dscp << 2 | ecn as u8),
            Op::Dequeue { at } => (at, 0, 0, 1, 0),
            Op::Change { at, .. } => (at, 0, 0, 2, 0),
        };
        bytes.extend(at.0.to_ne_bytes());
        bytes.extend(hash.to_ne_bytes());
        bytes.extend(length.to_ne_bytes());
        bytes.extend([kind, ecn, 0, 0, 0, 0, 0, 0]);
    }
    bytes
}

/// Decodes the fates of a trace's packets from the module's `struct replay_fate`. The kernel does not report reasons of
/// drops; only drops on an arrival or a change (`overlimit`) and on a dequeue (`codel`) are distinguished.
///
/// # Errors
/// The number of fates differs from the number of packets.
fn decode(ops: &[Op], fates: &[u8]) -> Result<Vec<Row>, String> {
    let arrivals = ops.iter().filter_map(|op| match *op {
        Op::Enqueue { at, flow, bytes, .. } => Some((at, flow, bytes)),
        Op::Dequeue { .. } | Op::Change { .. } => None,
    });
    let arrivals: Vec<_> = arrivals.collect();
    if fates.len() != arrivals.len() * FATE {
        return Err(format!("{} fates of {} packets", fates.len() / FATE, arrivals.len()));
    }
    let row = |(&(enqueue, flow, bytes), fate): (&(Time, u32, u32), &[u8])| {
        let at = fate[..8].try_into().map(u64::from_ne_bytes).map_err(|_| "a short fate".to_owned())?;
        let fate = match fate[8] {
            0 => Fate::Queued,
            1 => Fate::Delivered,
            2 => Fate::Marked,
            3 | 5 => Fate::Dropped(DropReason::Overlimit),
            4 => Fate::Dropped(DropReason::Codel),
            other => return Err(format!("fate {other}: expected 0 to 5")),
        };
        Ok(Row { flow, bytes, enqueue, fate_time: Time(at), fate })
    };
    arrivals.iter().zip(fates.chunks_exact(FATE)).map(row).collect()
}
