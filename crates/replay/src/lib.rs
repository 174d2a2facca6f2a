//! Plays a packet trace through one discipline, and reports the fate of each packet with its time.
//!
//! The trace is CSV with the header `time_ns,op,flow,bytes,ecn`. `op` is `enqueue`, `dequeue` (flow, bytes and ecn are
//! empty) or `change` (flow has the arguments of `tc qdisc change dev DEV root`; bytes and ecn are empty). `ecn` is the
//! ECN field, or the whole octet of DSCP and ECN. Rows are processed in file order, and times never decrease. With a
//! rate, the trace has no `dequeue` rows: a server dequeues the packets. A packet occupies the server for ceil(bytes ·
//! 8·10⁹ / rate) ns. At each completion the server dequeues once, after all arrivals of that instant. It does so even
//! if the queue is empty, because CoDel and RED notice this. It continues until the queue is empty, or until a given
//! time. In this way anyone can compare another implementation of a discipline with ours.
//!
//! The header may name further columns ([`Column`]) after these five, in any order: `source` and `destination`, the
//! hosts of a packet as IPv4 addresses or as numbers, and `opens`, which is 1 for a SYN or SYN-ACK and 0 otherwise. They
//! are empty in rows that are not `enqueue`. cake reads the hosts, and ccaq reads `opens`. Without a column, each flow
//! has a source of its own, all have one destination, and no packet opens a connection. The world `live` writes traces
//! with all columns.
//!
//! This is a crate of its own because it depends on disciplines and their counters, but not on the simulator. The
//! command, the replay in a kernel, and the oracle use it.
#![forbid(unsafe_code)]

use std::fmt;
use std::io::Write;
use std::net::Ipv4Addr;

use serde_json::Value;
use sojourn_core::packet::{Ecn, Packet};
use sojourn_core::qdisc::param::nearest;
use sojourn_core::qdisc::red::Variant;
use sojourn_core::qdisc::tc::{self, Change, Spec};
use sojourn_core::qdisc::{AnyQdisc, Context, Count, DropReason, Drops, Given, Qdisc, Unchangeable};
use sojourn_core::units::{Rate, Span, Time};
use sojourn_measure::stats::{self, Common};

/// The columns that every trace has: its first line, if there are no others.
pub const TRACE_HEADER: &str = "time_ns,op,flow,bytes,ecn";
/// The first line of a trace with all columns, as [`Op`] prints its rows.
pub const FULL_HEADER: &str = "time_ns,op,flow,bytes,ecn,source,destination,opens";
/// The first line of the result.
pub const ROW_HEADER: &str = "packet,flow,bytes,enqueue_ns,fate_ns,fate";
/// The largest length of a packet in bytes: the largest IP packet, and an Ethernet header.
pub const MAX_BYTES: u32 = 65_535 + ETHERNET;
/// Bytes of a packet's length before its IP header.
pub const ETHERNET: u32 = 14;
/// The latest time in a trace: 146 years.
pub const MAX_TIME: Time = Time(1 << 62);
/// The seed of the discipline's random numbers.
pub const SEED: u64 = 1;

/// Returns the flow hash of a flow's packets: the flow's number in the trace, spread over 32 bits.
pub fn flow_hash(flow: u32) -> u32 {
    flow.wrapping_mul(2_654_435_769)
}

/// An error: the reason why a trace cannot be replayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The trace's file.
    pub file: String,
    /// The line with the fault, counted from 1; 0 if the fault is not in a line.
    pub line: usize,
    /// The fault, with the offending value and what was expected.
    pub problem: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.problem),
            line => write!(f, "{}:{line}: {}", self.file, self.problem),
        }
    }
}

impl std::error::Error for Error {}

/// A column that a trace may have after those of [`TRACE_HEADER`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    /// The host that sent the packet.
    Source,
    /// The host that the packet is for.
    Destination,
    /// 1 for a SYN or SYN-ACK, 0 for any other packet.
    Opens,
}

impl Column {
    /// All of them.
    pub const ALL: [Column; 3] = [Column::Source, Column::Destination, Column::Opens];

    /// The name in the header.
    pub fn name(self) -> &'static str {
        match self {
            Column::Source => "source",
            Column::Destination => "destination",
            Column::Opens => "opens",
        }
    }
}

/// One row of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// A packet arrives.
    Enqueue {
        /// When.
        at: Time,
        /// Its flow.
        flow: u32,
        /// Its length as the discipline and the link count it.
        bytes: u32,
        /// Its ECN field.
        ecn: Ecn,
        /// Its differentiated services code point.
        dscp: u8,
        /// The numbers of its source and its destination host.
        hosts: (u32, u32),
        /// True for a SYN and for a SYN-ACK.
        opens: bool,
    },
    /// The link asks for a packet.
    Dequeue {
        /// When.
        at: Time,
    },
    /// The discipline gets other parameters.
    Change {
        /// When.
        at: Time,
        /// The discipline and the parameters that change, as in [`Spec::changed`].
        line: Box<str>,
    },
}

impl Op {
    /// When.
    pub fn at(&self) -> Time {
        match self {
            Op::Enqueue { at, .. } | Op::Dequeue { at } | Op::Change { at, .. } => *at,
        }
    }
}

impl fmt::Display for Op {
    /// The row in a trace with the columns of [`FULL_HEADER`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Enqueue { at, flow, bytes, ecn, dscp, hosts, opens } => {
                let (source, destination) = (Ipv4Addr::from(hosts.0), Ipv4Addr::from(hosts.1));
                let (octet, opens) = (dscp << 2 | *ecn as u8, u8::from(*opens));
                write!(f, "{},enqueue,{flow},{bytes},{octet},{source},{destination},{opens}", at.0)
            }
            Op::Dequeue { at } => write!(f, "{},dequeue,,,,,,", at.0),
            Op::Change { at, line } => write!(f, "{},change,{line},,,,,", at.0),
        }
    }
}

/// Returns the parameters after each change in a trace.
///
/// # Errors
/// The first invalid change, with its line.
pub fn changes(ops: &[Op], file_name: &str, spec: &Spec) -> Result<Vec<Change>, Error> {
    let mut changes: Vec<Change> = Vec::new();
    for (op, number) in ops.iter().zip(2..) {
        if let Op::Change { line, .. } = op {
            let present = changes.last().map_or(spec, |change| &change.spec);
            let change = present.changed(line).map_err(|error| of_change(file_name, number, line, &error))?;
            changes.push(change);
        }
    }
    Ok(changes)
}

/// Warnings about changes in a trace that are accepted but easily misread, each with its line.
pub fn warnings(trace: &[u8], file_name: &str, spec: &Spec) -> Vec<String> {
    let (mut present, mut warnings) = (spec.clone(), Vec::new());
    let Ok(columns) = columns(trace, file_name) else { return warnings };
    for (line, number) in lines(trace).zip(1..) {
        let words = line.iter().position(|byte| *byte == b',').map_or(line, |at| &line[at..]);
        if !words.starts_with(b",change,") {
            continue;
        }
        let Ok(Op::Change { line, .. }) = parse_row(line, &columns) else { continue };
        if let Ok(change) = present.changed(&line) {
            warnings.extend(change.warnings.iter().map(|warning| format!("{file_name}:{number}: {warning}")));
            present = change.spec;
        }
    }
    warnings
}

fn of_change(file_name: &str, line: usize, words: &str, error: &tc::Error) -> Error {
    Error { file: file_name.to_string(), line, problem: format!("change {}: {error}", shown(words.as_bytes())) }
}

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The packet left the discipline without a new mark.
    Delivered,
    /// The packet left the discipline with a CE mark that it did not have at arrival.
    Marked,
    /// The discipline dropped the packet.
    Dropped(DropReason),
    /// The packet was still queued at the end of the trace.
    Queued,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Delivered => f.write_str("delivered"),
            Fate::Marked => f.write_str("marked"),
            Fate::Dropped(reason) => write!(f, "dropped:{}", reason.name()),
            Fate::Queued => f.write_str("queued"),
        }
    }
}

/// One packet of the result; packets are numbered from 0 in order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The number of its flow in the trace.
    pub flow: u32,
    /// Its length in bytes, as the discipline and the link count it.
    pub bytes: u32,
    /// The time of its arrival.
    pub enqueue: Time,
    /// The time at which it left, or the time of the operation that dropped it; zero if it is still queued.
    pub fate_time: Time,
    /// Its fate.
    pub fate: Fate,
}

impl Row {
    /// Appends the row of the packet with this number to the result as CSV.
    pub fn write(&self, packet: usize, csv: &mut Vec<u8>) {
        let Row { flow, bytes, enqueue, fate_time, fate } = self;
        // Writing to memory does not fail.
        let _ = writeln!(csv, "{packet},{flow},{bytes},{},{},{fate}", enqueue.0, fate_time.0);
    }
}

/// How a trace is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct How {
    /// The server's rate. `None`: the trace has the dequeues.
    pub rate: Option<Rate>,
    /// The link's rate for which the discipline is configured; `None` for that of the server.
    pub link: Option<Rate>,
    /// The time of the server's last dequeue at the latest.
    pub end: Time,
    /// The largest packet in bytes as the link counts it: 1514 for Ethernet.
    pub mtu: u32,
    /// Seed of the discipline's random numbers.
    pub seed: u64,
}

impl Default for How {
    /// Ethernet, without a server.
    fn default() -> How {
        How { rate: None, link: None, end: Time::NEVER, mtu: 1514, seed: SEED }
    }
}

/// The result of a replay.
#[derive(Clone, PartialEq, Debug)]
pub struct Played {
    /// Each packet's fate.
    pub rows: Vec<Row>,
    /// The discipline's counters, as `tc -s -j qdisc show` prints them: see [`sojourn_measure::stats`].
    pub stats: Value,
}

/// Replays a trace through a discipline.
///
/// `mtu` is the largest packet in bytes as the link counts it: 1514 for Ethernet. Time 0 of the trace is time 0 of the
/// discipline's clock.
///
/// # Errors
/// The trace is malformed (the error has the line) or has `dequeue` rows although there is a rate. The rate or `mtu` is
/// out of range. The discipline needs the link's rate, but none is given. The discipline does not accept a change.
pub fn run(trace: &[u8], file_name: &str, spec: &Spec, rate: Option<Rate>, mtu: u32) -> Result<Vec<Row>, Error> {
    run_counted(trace, file_name, spec, &How { rate, mtu, ..How::default() }).map(|played| played.rows)
}

/// Like [`run`], but also returns the discipline's counters.
///
/// # Errors
/// Those of [`run`], and an end without a server.
pub fn run_counted(trace: &[u8], file_name: &str, spec: &Spec, how: &How) -> Result<Played, Error> {
    play(Time::ZERO, (trace, file_name), spec, how)
}

/// Like [`run`], with the discipline's clock at `start` when the trace's clock is zero. Tests use it to reach the wrap
/// of a 32-bit clock. `start` is a multiple of 2^20 ns, so that ticks of the clock stay at the same times.
///
/// # Errors
/// Those of [`run`].
///
/// # Panics
/// If `start` is not such a multiple.
pub fn run_from(
    start: Time,
    trace: &[u8],
    file_name: &str,
    spec: &Spec,
    rate: Option<Rate>,
    mtu: u32,
) -> Result<Vec<Row>, Error> {
    assert!(
        start.0.is_multiple_of(1 << 20) && start < MAX_TIME,
        "the clock's start is no multiple of 2^20 ns: {start:?}"
    );
    play(start, (trace, file_name), spec, &How { rate, mtu, ..How::default() }).map(|played| played.rows)
}

fn play(start: Time, (trace, file_name): (&[u8], &str), spec: &Spec, how: &How) -> Result<Played, Error> {
    let error = |problem: String| Error { file: file_name.to_string(), line: 0, problem };
    let How { rate, link, end, mtu, seed } = *how;
    let configured = link.or(rate);
    if configured.is_none() && matches!(spec, Spec::Red(params) if params.variant == Variant::Ns2) {
        return Err(error(format!("{} is configured from the link's rate: give one", spec.kind())));
    }
    if mtu == 0 || mtu > MAX_BYTES {
        return Err(error(format!("an MTU of {mtu} bytes; expected 1 to {MAX_BYTES}")));
    }
    if rate == Some(Rate(0)) {
        return Err(error("a rate of zero; expected a positive rate such as 10mbit".into()));
    }
    if rate.is_none() && end < Time::NEVER {
        return Err(error("an end without a rate; expected a rate: only a server has an end".into()));
    }
    let ops = parse(trace, file_name, rate.is_none())?;
    // Zero stands for an unknown rate. All other disciplines work without the link's rate.
    let rate_of_link = configured.unwrap_or(Rate(0));
    let context = Context { mtu, overhead: ETHERNET, rate: rate_of_link, delay: Span::ZERO, skb: 0, seed };
    play_ops(start, (&ops, file_name), spec, (rate, end), &context)
}

/// Replays a trace once for each seed of the discipline's random numbers, and returns one list per seed. The list has
/// the number of dropped or marked packets with each label below `kinds`, followed by the total sojourn time of the
/// delivered packets with each label, in microseconds. `labels` has one label per packet. The trace contains the
/// dequeues. `link` is the link rate for which the discipline is configured.
///
/// # Errors
/// Those of [`run`].
pub fn sums(
    (trace, file_name): (&[u8], &str),
    spec: &Spec,
    (link, mtu): (Rate, u32),
    seeds: std::ops::Range<u64>,
    (labels, kinds): (&[u8], usize),
) -> Result<Vec<Vec<u64>>, Error> {
    let ops = parse(trace, file_name, true)?;
    let one = |seed| {
        let context = Context { mtu, overhead: ETHERNET, rate: link, delay: Span::ZERO, skb: 0, seed };
        let (mut signals, mut waits) = (vec![0; kinds], vec![0; kinds]);
        let played = play_ops(Time::ZERO, (&ops, file_name), spec, (None, Time::NEVER), &context)?;
        for (row, label) in played.rows.iter().zip(labels) {
            let label = usize::from(*label);
            if label < kinds {
                signals[label] += u64::from(matches!(row.fate, Fate::Dropped(_) | Fate::Marked));
                let leaves = matches!(row.fate, Fate::Delivered | Fate::Marked);
                waits[label] += if leaves { row.fate_time.since(row.enqueue).0 / 1000 } else { 0 };
            }
        }
        signals.append(&mut waits);
        Ok(signals)
    };
    seeds.map(one).collect()
}

fn play_ops(
    start: Time,
    (ops, file_name): (&[Op], &str),
    spec: &Spec,
    (rate, end): (Option<Rate>, Time),
    context: &Context,
) -> Result<Played, Error> {
    let changes = changes(ops, file_name, spec)?;
    let mut replay = Replay {
        qdisc: spec.build(context),
        book: Book {
            rows: Vec::with_capacity(ops.len()),
            now: Time::ZERO,
            start: Span(start.0),
            change: None,
            sent: (0, 0),
            uncounted: 0,
        },
        changes: changes.into_iter(),
    };
    let played = match rate {
        None => replay.as_told(ops),
        Some(rate) => replay.with_server(ops, rate, end),
    };
    match played {
        Ok(()) => Ok(Played { stats: stats::of(spec, &replay.qdisc, common(&replay.book)), rows: replay.book.rows }),
        Err((row, problem)) => {
            let words = if let Op::Change { line, .. } = &ops[row] { line } else { "" };
            Err(of_change(file_name, row + 2, words, &problem))
        }
    }
}

/// Computes the counters that all disciplines have in common, from the fates of all packets.
fn common(Book { rows, sent: given, uncounted, .. }: &Book) -> Common {
    let sent = || rows.iter().filter(|row| matches!(row.fate, Fate::Delivered | Fate::Marked));
    Common {
        packets: sent().count() as u64 + given.0,
        bytes: sent().map(|row| u64::from(row.bytes)).sum::<u64>() + given.1,
        drops: rows.iter().filter(|row| matches!(row.fate, Fate::Dropped(_))).count() as u64 - uncounted,
        ..Common::default()
    }
}

/// Returns the result as CSV.
pub fn to_csv(rows: &[Row]) -> Vec<u8> {
    let mut csv = Vec::with_capacity(rows.len() * 48 + ROW_HEADER.len() + 1);
    csv.extend_from_slice(ROW_HEADER.as_bytes());
    csv.push(b'\n');
    rows.iter().enumerate().for_each(|(packet, row)| row.write(packet, &mut csv));
    csv
}

/// The lines of a trace, without their ends.
fn lines(trace: &[u8]) -> impl Iterator<Item = &[u8]> {
    trace.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns the columns that the trace has after those of [`TRACE_HEADER`], in their order.
///
/// # Errors
/// The first line is no header, or names a column that does not exist or one twice.
pub fn columns(trace: &[u8], file_name: &str) -> Result<Vec<Column>, Error> {
    let header = lines(trace).next().unwrap_or_default();
    further(header).map_err(|problem| Error { file: file_name.to_string(), line: 1, problem })
}

fn further(header: &[u8]) -> Result<Vec<Column>, String> {
    let rest = header.strip_prefix(TRACE_HEADER.as_bytes()).filter(|rest| matches!(rest, [] | [b',', ..]));
    let rest = rest.ok_or_else(|| format!("expected the header {TRACE_HEADER}, found {}", shown(header)))?;
    let mut columns: Vec<Column> = Vec::new();
    for name in rest.split(|byte| *byte == b',').skip(1) {
        let Some(column) = Column::ALL.into_iter().find(|column| column.name().as_bytes() == name) else {
            let names = Column::ALL.map(Column::name);
            let near = nearest(&String::from_utf8_lossy(name), names.into_iter());
            let meant = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            let expected = "expected source, destination or opens after the first five";
            return Err(format!("column {}: {expected}{meant}", shown(name)));
        };
        if columns.contains(&column) {
            return Err(format!("column {:?} twice: expected it once", column.name()));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// Reads a trace. If `dequeues` is false, `dequeue` rows are errors.
///
/// # Errors
/// The first malformed line.
pub fn parse(trace: &[u8], file_name: &str, dequeues: bool) -> Result<Vec<Op>, Error> {
    let at_line = |line, problem| Error { file: file_name.to_string(), line, problem };
    let columns = columns(trace, file_name)?;
    let mut ops = Vec::new();
    let mut last = Time::ZERO;
    let mut rest = lines(trace).zip(1..).skip(1).peekable();
    while let Some((line, number)) = rest.next() {
        if line.is_empty() && rest.peek().is_none() {
            break; // after the last line's end
        }
        let op = parse_row(line, &columns).map_err(|problem| at_line(number, problem))?;
        let at = op.at();
        if at < last {
            return Err(at_line(number, format!("time_ns falls: {} after {}", at.0, last.0)));
        }
        if matches!(op, Op::Dequeue { .. }) && !dequeues {
            let problem = "a dequeue row together with a rate: with a rate the dequeues are generated";
            return Err(at_line(number, problem.into()));
        }
        last = at;
        ops.push(op);
    }
    Ok(ops)
}

fn parse_row(line: &[u8], columns: &[Column]) -> Result<Op, String> {
    let text = std::str::from_utf8(line).ok().filter(|text| !text.contains(char::is_control));
    let text = text.ok_or_else(|| format!("not a line of text: {}", shown(line)))?;
    let mut fields = text.split(',');
    let (Some(time), Some(op), Some(flow), Some(bytes), Some(ecn), further) =
        (fields.next(), fields.next(), fields.next(), fields.next(), fields.next(), fields.clone())
    else {
        return Err(fields_expected(line, columns));
    };
    if further.clone().count() != columns.len() {
        return Err(fields_expected(line, columns));
    }
    let at = Time(number("time_ns", time, 0, MAX_TIME.0)?);
    let mut empty = further.clone().chain([bytes, ecn]);
    match op {
        "enqueue" => {
            // RFC 2474 §3: six bits of DSCP, and two bits that later became the ECN field.
            let octet = number("ecn", ecn, 0, 255)? as u8;
            let flow = number("flow", flow, 0, u64::from(u32::MAX))? as u32;
            let bytes = number("bytes", bytes, 1, u64::from(MAX_BYTES))? as u32;
            // Without addresses: see `sojourn_core::packet::Packet::hosts`.
            let (mut hosts, mut opens) = ((flow_hash(flow), 0), false);
            for (column, text) in columns.iter().zip(further) {
                match column {
                    Column::Source => hosts.0 = host(*column, text)?,
                    Column::Destination => hosts.1 = host(*column, text)?,
                    Column::Opens => opens = number("opens", text, 0, 1)? == 1,
                }
            }
            Ok(Op::Enqueue { at, flow, bytes, ecn: Ecn::from_bits(octet), dscp: octet >> 2, hosts, opens })
        }
        "dequeue" if flow.is_empty() && empty.all(str::is_empty) => Ok(Op::Dequeue { at }),
        "dequeue" => Err(format!("{} of a dequeue row must be empty", listed("flow, bytes and ecn", columns))),
        "change" if !flow.is_empty() && empty.all(str::is_empty) => Ok(Op::Change { at, line: flow.into() }),
        "change" => {
            Err(format!("flow of a change row must be a line for tc, {} empty", listed("bytes and ecn", columns)))
        }
        _ => Err(format!("op {}; expected enqueue, dequeue or change", shown(op.as_bytes()))),
    }
}

fn fields_expected(line: &[u8], columns: &[Column]) -> String {
    let count = if columns.is_empty() { "five".to_owned() } else { (5 + columns.len()).to_string() };
    let further: String = columns.iter().map(|column| format!(",{}", column.name())).collect();
    format!("expected the {count} fields {TRACE_HEADER}{further}, found {}", shown(line))
}

/// Returns these names, and that there are further columns if there are any.
fn listed(names: &str, columns: &[Column]) -> String {
    if columns.is_empty() { names.to_owned() } else { format!("{names}, and all further columns,") }
}

/// Reads a host: an IPv4 address, or a number.
fn host(column: Column, text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    number.or_else(|| text.parse::<Ipv4Addr>().ok().map(u32::from)).ok_or_else(|| {
        let name = column.name();
        format!("{name} {}; expected an IPv4 address, or a whole number from 0 to {}", shown(text.as_bytes()), u32::MAX)
    })
}

fn number(field: &str, text: &str, low: u64, high: u64) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse().ok().filter(|value| digits && (low..=high).contains(value));
    value.ok_or_else(|| format!("{field} {}; expected a whole number from {low} to {high}", shown(text.as_bytes())))
}

/// Returns the beginning of some bytes as text for a message.
fn shown(bytes: &[u8]) -> String {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
    let dots = if bytes.len() > 60 { "…" } else { "" };
    format!("{start:?}{dots}")
}

/// Returns the names of a discipline's own counters, as in the output of `tc -s -j qdisc`. A tin's counters are named
/// `tins[].NAME`.
pub fn counters(spec: &Spec) -> Vec<String> {
    let context =
        Context { mtu: 1514, overhead: ETHERNET, rate: Rate(10_000_000), delay: Span::ZERO, skb: 0, seed: SEED };
    let qdisc = spec.build::<TracePacket>(&context);
    let names = |(name, count): (&str, Count)| match count {
        Count::Tins(tins) => tins[0].iter().map(|(of_tin, _)| format!("{name}[].{of_tin}")).collect(),
        _ => vec![name.to_owned()],
    };
    let classes = qdisc.classes().unwrap_or_default().into_iter().map(|(name, _)| format!("classes.{name}"));
    qdisc.stats().into_iter().flat_map(names).chain(classes).collect()
}

/// A packet of a trace on its way through a discipline.
#[derive(Clone, Copy, Default, Debug)]
struct TracePacket {
    row: u32,
    bytes: u32,
    hash: u32,
    ecn_in: Ecn,
    ecn: Ecn,
    dscp: u8,
    hosts: (u32, u32),
    opens: bool,
    enqueued: Time,
}

impl Packet for TracePacket {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow_hash(&self) -> u32 {
        self.hash
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn hosts(&self) -> (u32, u32) {
        self.hosts
    }
    fn opens(&self) -> bool {
        self.opens
    }
    fn enqueue_time(&self) -> Time {
        self.enqueued
    }
    fn set_enqueue_time(&mut self, now: Time) {
        self.enqueued = now;
    }
}

/// The part of the result that is known so far.
struct Book {
    rows: Vec<Row>,
    /// The time of the present operation, on the trace's clock.
    now: Time,
    /// The discipline's clock at the trace's time zero.
    start: Span,
    /// How Linux counts the packets that the present change of parameters drops; `None` outside of a change.
    change: Option<Given>,
    /// Packets and bytes that a change dropped, but Linux counts as sent.
    sent: (u64, u64),
    /// Number of packets that a change dropped, but Linux does not count as drops.
    uncounted: u64,
}

impl Book {
    fn clock(&self) -> Time {
        self.now + self.start
    }

    fn close(&mut self, packet: TracePacket, fate: Fate) {
        let row = &mut self.rows[packet.row as usize];
        debug_assert_eq!(row.fate, Fate::Queued);
        (row.fate, row.fate_time) = (fate, self.now);
    }
}

impl Drops<TracePacket> for Book {
    fn dropped(&mut self, packet: TracePacket, reason: DropReason) {
        if let Some(given) = self.change.filter(|_| reason == DropReason::Overlimit) {
            if given.sent {
                self.sent = (self.sent.0 + 1, self.sent.1 + u64::from(packet.bytes));
            }
            self.uncounted += u64::from(!given.dropped);
        }
        self.close(packet, Fate::Dropped(reason));
    }
}

struct Replay {
    qdisc: AnyQdisc<TracePacket>,
    book: Book,
    /// The changes that are still to be made.
    changes: std::vec::IntoIter<Change>,
}

/// A change that the discipline did not accept: its row, counted from 0, and the reason.
type Refused = (usize, tc::Error);

impl Replay {
    /// Executes the rows of a trace that contains the dequeues.
    fn as_told(&mut self, ops: &[Op]) -> Result<(), Refused> {
        for (row, op) in ops.iter().enumerate() {
            match *op {
                Op::Enqueue { .. } => self.arrive(op, false),
                Op::Dequeue { at } => {
                    self.depart(at);
                }
                Op::Change { at, .. } => self.change(at).map_err(|error| (row, error))?,
            }
        }
        Ok(())
    }

    /// Executes the rows of a trace without dequeues. A server sends packets at `rate` whenever the queue has some, and
    /// begins to send none after `end`.
    fn with_server(&mut self, ops: &[Op], rate: Rate, end: Time) -> Result<(), Refused> {
        let mut server = Server { rate, busy: false, next: Time::NEVER };
        let after = if end < Time::NEVER { end + Span(1) } else { end };
        for (row, op) in ops.iter().enumerate() {
            let at = op.at();
            server.run_until(at.min(after), self); // at equal times an arrival goes before a departure
            if matches!(op, Op::Change { .. }) {
                self.change(at).map_err(|error| (row, error))?;
                continue;
            }
            self.arrive(op, server.busy);
            if !server.busy {
                server.next = at; // after all arrivals of this instant
            }
        }
        server.run_until(after, self);
        Ok(())
    }

    fn change(&mut self, at: Time) -> Result<(), tc::Error> {
        self.book.now = at;
        let Some(change) = self.changes.next() else { return Ok(()) };
        self.book.change = Some(self.qdisc.counts_change());
        let taken = self.qdisc.change(self.book.clock(), &change.spec, &mut self.book);
        self.book.change = None;
        taken.map_err(|Unchangeable| change.spec.unchangeable())
    }

    fn arrive(&mut self, op: &Op, busy: bool) {
        let Op::Enqueue { at, flow, bytes, ecn, dscp, hosts, opens } = *op else { return };
        let row = u32::try_from(self.book.rows.len()).expect("a trace has fewer than 2^32 packets");
        let hash = flow_hash(flow);
        let packet = TracePacket { row, bytes, hash, ecn_in: ecn, ecn, dscp, hosts, opens, enqueued: Time::ZERO };
        self.book.now = at;
        self.book.rows.push(Row { flow, bytes, enqueue: at, fate_time: Time::ZERO, fate: Fate::Queued });
        if busy && self.qdisc.bufferless() {
            self.book.dropped(packet, DropReason::Busy);
        } else {
            self.qdisc.enqueue(self.book.clock(), packet, &mut self.book);
        }
    }

    fn depart(&mut self, at: Time) -> Option<TracePacket> {
        self.book.now = at;
        let packet = self.qdisc.dequeue(self.book.clock(), &mut self.book)?;
        let marked = packet.ecn == Ecn::Ce && packet.ecn_in != Ecn::Ce;
        self.book.close(packet, if marked { Fate::Marked } else { Fate::Delivered });
        Some(packet)
    }
}

struct Server {
    rate: Rate,
    /// Whether a packet is being sent.
    busy: bool,
    /// The time of the next dequeue: the completion of the present packet or, if the server is idle, the earliest time
    /// at which the discipline may have a packet to send.
    next: Time,
}

impl Server {
    /// Does all dequeues that are due before `end`.
    fn run_until(&mut self, end: Time, replay: &mut Replay) {
        while self.next < end {
            let now = self.next;
            match replay.depart(now) {
                Some(packet) => (self.busy, self.next) = (true, now + self.rate.serialise(packet.bytes)),
                None => (self.busy, self.next) = (false, self.held_until(now, replay)),
            }
        }
    }

    /// Returns the time at which to ask the discipline again if it has no packet to send now. A shaper may release one
    /// later.
    fn held_until(&self, now: Time, replay: &Replay) -> Time {
        match replay.qdisc.next_event() {
            Time::NEVER => Time::NEVER,
            event => Time(event.0.saturating_sub(replay.book.start.0)).max(now + Span(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Just, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

    fn replay(rows: &str, line: &str, rate: Option<u64>) -> Result<Vec<Row>, Error> {
        let trace = format!("{TRACE_HEADER}\n{rows}");
        run(trace.as_bytes(), "trace.csv", &line.parse().expect(line), rate.map(Rate), 1514)
    }

    fn csv(rows: &str, line: &str, rate: Option<u64>) -> String {
        let rows = replay(rows, line, rate).unwrap_or_else(|error| panic!("{error}"));
        let csv = String::from_utf8(to_csv(&rows)).expect("text");
        csv.strip_prefix(ROW_HEADER).expect("the header comes first").trim().to_string()
    }

    fn error(trace: &[u8], rate: Option<u64>) -> String {
        let spec = "pfifo".parse().expect("pfifo");
        run(trace, "trace.csv", &spec, rate.map(Rate), 1514).expect_err("malformed").to_string()
    }

    #[test]
    fn without_a_rate_rows_are_taken_in_file_order() {
        let rows =
            "0,enqueue,7,100,0\n0,enqueue,7,200,2\n0,enqueue,8,300,0\n5,dequeue,,,\n5,enqueue,9,400,0\n6,dequeue,,,\n";
        let expected =
            "0,7,100,0,5,delivered\n1,7,200,0,6,delivered\n2,8,300,0,0,dropped:overlimit\n3,9,400,5,0,queued";
        assert_eq!(csv(rows, "pfifo limit 2", None), expected);
    }

    #[test]
    fn with_a_rate_a_packet_occupies_the_server_for_the_rounded_up_time() {
        // At 3 Gbit/s a byte takes 2.67 ns, rounded up to 3 ns. The first packet leaves at once. The next two leave
        // when the packet before them is complete.
        let rows = "0,enqueue,1,1,0\n0,enqueue,1,1,0\n1,enqueue,1,3,0\n100,enqueue,1,1,0\n";
        let expected = "0,1,1,0,0,delivered\n1,1,1,0,3,delivered\n2,1,3,1,6,delivered\n3,1,1,100,100,delivered";
        assert_eq!(csv(rows, "pfifo limit 2", Some(3_000_000_000)), expected);
    }

    #[test]
    fn at_equal_times_arrivals_go_before_departures() {
        // At 8 Gbit/s a byte takes 1 ns. At 0 both packets arrive before the server dequeues, so the second one meets a
        // full queue. At 100 ns the first packet is complete; the third is queued first, and then leaves at once.
        let rows = "0,enqueue,1,100,0\n0,enqueue,1,100,0\n100,enqueue,1,100,0\n";
        let expected = "0,1,100,0,0,delivered\n1,1,100,0,0,dropped:overlimit\n2,1,100,100,100,delivered";
        assert_eq!(csv(rows, "pfifo limit 1", Some(8_000_000_000)), expected);
    }

    #[test]
    fn who_configures_itself_by_the_links_rate_is_told_it() {
        let trace = format!("{TRACE_HEADER}\n0,enqueue,1,100,0\n5,dequeue,,,\n");
        let spec = "red limit 9 variant ns2".parse().expect("red");
        assert!(run(trace.as_bytes(), "t", &spec, None, 1514).is_err());
        let how = How { link: Some(Rate(1_000_000)), ..How::default() };
        let rows = run_counted(trace.as_bytes(), "t", &spec, &how).expect("sound").rows;
        assert_eq!((rows[0].fate, rows[0].fate_time), (Fate::Delivered, Time(5)));
    }

    #[test]
    fn sums_count_signals_and_waits_by_label_for_each_seed() {
        let rows: String = (0..5000).map(|n| format!("{n}000000,enqueue,1,1500,0\n{n}500000,dequeue,,,\n")).collect();
        let trace = format!("{TRACE_HEADER}\n0,enqueue,1,1500,0\n0,enqueue,1,1500,0\n0,enqueue,1,1500,0\n{rows}");
        let counted = |line: &str, labels: &[u8]| {
            let spec = line.parse().expect(line);
            sums((trace.as_bytes(), "t"), &spec, (Rate(0), 1514), 1..4, (labels, 2)).expect("sound")
        };
        // Three wait: the first leaves after half a millisecond, the second after one and a half; the fourth does not fit.
        assert_eq!(counted("pfifo limit 3", &[0, 0, 9, 1]), vec![vec![0, 1, 2000, 0]; 3]);
        let random = counted("blue limit 3 freeze_time 1ms increment 0.1", &[0; 5003]);
        assert!(random[0] != random[1] && random[0][0] > 0 && random[0][1] == 0, "{random:?}");
    }

    #[test]
    fn noqueue_drops_what_meets_a_busy_server() {
        let rows = "0,enqueue,1,100,0\n50,enqueue,1,100,0\n100,enqueue,1,100,0\n101,enqueue,1,100,0\n";
        let expected = "0,1,100,0,0,delivered\n1,1,100,50,50,dropped:busy\n2,1,100,100,100,dropped:busy\n\
                        3,1,100,101,101,delivered";
        assert_eq!(csv(rows, "noqueue", Some(8_000_000_000)), expected);
    }

    /// 300 packets of 1500 bytes at once, at 10 Mbit/s: the last leaves after 360 ms.
    fn burst(ecn: u8) -> String {
        (0..300).map(|_| format!("0,enqueue,1,1500,{ecn}\n")).collect()
    }

    #[test]
    fn a_mark_is_a_ce_that_was_not_there() {
        let count = |ecn, fate| {
            let rows = replay(&burst(ecn), "codel ecn", Some(10_000_000)).expect("well-formed");
            rows.iter().filter(|row| row.fate == fate).count()
        };
        let marks = count(2, Fate::Marked);
        assert!(marks > 3, "{marks}");
        assert_eq!(count(2, Fate::Delivered), 300 - marks);
        assert_eq!(count(3, Fate::Delivered), 300, "CE from the start");
        assert_eq!(count(0, Fate::Dropped(DropReason::Codel)), marks);
    }

    #[test]
    fn a_drop_bears_the_time_of_the_operation_that_dropped_it() {
        let rows = replay(&burst(0), "codel", Some(10_000_000)).expect("well-formed");
        let first = rows.iter().position(|row| row.fate == Fate::Dropped(DropReason::Codel)).expect("a drop");
        // The first look above target is at 6 ms (the sixth packet), the drop at the first completion after 106 ms.
        assert_eq!((first, rows[first].fate_time), (90 - 1, Time(106_800_000)));
        assert_eq!(rows[first + 1].fate_time, rows[first].fate_time);
    }

    #[test]
    fn the_clock_may_start_anywhere_on_its_grid() {
        let trace = format!("{TRACE_HEADER}\n{}", burst(2));
        let spec = "codel ecn variant linux".parse().expect("codel");
        let at =
            |start| run_from(start, trace.as_bytes(), "t", &spec, Some(Rate(10_000_000)), 1514).expect("well-formed");
        // The wrap of 32 bits of 1.024 µs falls into the burst.
        assert_eq!(at(Time::ZERO), at(Time((1 << 42) - (190 << 20))));
    }

    #[test]
    fn a_change_counts_from_its_row_on_and_what_it_drops_bears_its_time() {
        let rows = "0,enqueue,1,100,0\n0,enqueue,1,100,0\n0,enqueue,1,100,0\n5,change,codel limit 1,,\n6,enqueue,1,100,0\n\
                    7,change,codel limit 2 noecn,,\n8,enqueue,1,100,0\n9,dequeue,,,\n";
        let expected = "0,1,100,0,5,dropped:overlimit\n1,1,100,0,5,dropped:overlimit\n2,1,100,0,9,delivered\n\
                        3,1,100,6,6,dropped:overlimit\n4,1,100,8,0,queued";
        assert_eq!(csv(rows, "codel", None), expected);
        // At 8 Mbit/s a packet of 100 bytes takes 100 µs. The change does not interrupt the server.
        let rows = "0,enqueue,1,100,0\n0,enqueue,1,100,0\n0,enqueue,1,100,0\n5,change,fq_codel limit 1,,\n";
        let expected = "0,1,100,0,0,delivered\n1,1,100,0,5,dropped:overlimit\n2,1,100,0,100000,delivered";
        assert_eq!(csv(rows, "fq_codel", Some(8_000_000)), expected);
    }

    #[test]
    fn a_change_that_cannot_be_names_its_row() {
        let with = |line: &str, change: &str| {
            let rows = format!("0,enqueue,1,100,0\n5,change,{change},,\n");
            replay(&rows, line, None).expect_err("refused").to_string()
        };
        let start = "trace.csv:3: change ";
        assert!(with("codel", "fq_codel").starts_with(&format!("{start}\"fq_codel\": \"fq_codel\": a change keeps")));
        assert!(with("fq_codel", "fq_codel flows 5").contains("cannot be changed after setup"));
        assert!(with("codel", "codel limt 5").contains("did you mean \"limit\"?"));
        assert!(with("codel", "codel variant rfc8289").contains("after setup"));
        assert!(with("htb rate 1mbit", "htb rate 2mbit").contains("expected one line for the whole run"));
        assert!(with("codel", "").contains("must be a line for tc"));
    }

    #[test]
    fn what_is_easily_misread_in_a_change_is_named_with_its_line() {
        let spec = "fq maxrate 1mbit".parse().expect("fq");
        let trace =
            b"time_ns,op,flow,bytes,ecn\n0,enqueue,1,100,0\n5,change,fq maxrate 10mbps,,\n6,change,fq quantum 9,,\n";
        let warning = "t.csv:3: 10mbps: tc's bps are bytes per second: this is 80mbit";
        assert_eq!(warnings(trace, "t.csv", &spec), [warning]);
    }

    #[test]
    fn malformed_traces_name_file_line_and_expectation() {
        assert_eq!(error(b"", None), "trace.csv:1: expected the header time_ns,op,flow,bytes,ecn, found \"\"");
        assert!(error(b"time,op\n", None).starts_with("trace.csv:1: expected the header"));
        assert!(error(&[0x7f, b'E', b'L', b'F', 0, 0xff], None).starts_with("trace.csv:1: expected the header"));
        let with = |rows: &str| error(format!("{TRACE_HEADER}\n0,enqueue,1,100,0\n{rows}").as_bytes(), None);
        assert_eq!(with("1,enqueue,1,0,0\n"), "trace.csv:3: bytes \"0\"; expected a whole number from 1 to 65549");
        assert!(with("1,enqueue,1,65550,0\n").contains("bytes \"65550\""));
        assert!(with("1,enqueue,1,100,256\n").contains("ecn \"256\"; expected a whole number from 0 to 255"));
        assert!(with("1,enqueue,-1,100,0\n").contains("flow \"-1\""));
        assert!(with("1.5,enqueue,1,100,0\n").contains("time_ns \"1.5\""));
        assert!(with("99999999999999999999,dequeue,,,\n").contains("time_ns"));
        assert!(with("1,drop,1,100,0\n").contains("op \"drop\"; expected enqueue, dequeue or change"));
        assert!(with("1,dequeue,1,,\n").contains("must be empty"));
        assert!(with("1,dequeue\n").contains("expected the five fields"));
        assert!(with("1,enqueue,1,100,0,0\n").contains("expected the five fields"));
        assert!(with("\n1,dequeue,,,\n").starts_with("trace.csv:3: expected the five fields"));
        assert_eq!(with("5,dequeue,,,\n4,dequeue,,,\n"), "trace.csv:4: time_ns falls: 4 after 5");
        let mut binary = format!("{TRACE_HEADER}\n").into_bytes();
        binary.extend([0, 1, 2, 0xff, b'\n']);
        assert!(error(&binary, None).starts_with("trace.csv:2: not a line of text"));
    }

    #[test]
    fn further_columns_say_who_sends_and_what_opens_a_connection() {
        let ops = |trace: &str| parse(trace.as_bytes(), "trace.csv", true).expect("well-formed");
        let facts = |trace: &str| match &ops(trace)[0] {
            Op::Enqueue { hosts, opens, .. } => (*hosts, *opens),
            other => panic!("{other:?}"),
        };
        assert_eq!(facts(&format!("{TRACE_HEADER}\n0,enqueue,7,100,0\n")), ((flow_hash(7), 0), false));
        assert_eq!(facts(&format!("{TRACE_HEADER},opens\n0,enqueue,7,100,0,1\n")), ((flow_hash(7), 0), true));
        let trace = format!("{TRACE_HEADER},opens,destination,source\n0,enqueue,7,100,0,0,10.1.0.2,9\n");
        assert_eq!(facts(&trace), ((9, 0x0a01_0002), false));
        // A row that `Op` prints is read again.
        let trace =
            format!("{FULL_HEADER}\n0,enqueue,7,100,187,10.1.0.2,0.0.0.9,1\n1,dequeue,,,,,,\n2,change,pie,,,,,\n");
        let printed: String = ops(&trace).iter().map(|op| format!("{op}\n")).collect();
        assert_eq!(format!("{FULL_HEADER}\n{printed}"), trace);
    }

    #[test]
    fn a_trace_without_further_columns_is_one_with_their_defaults() {
        for line in ["ccaq", "ccaq variant paper", "cake", "fq_codel", "sfq"] {
            let arrival = |n: u32| (n / 3 * 400_000, n % 5, 1500 - n % 7 * 200, n % 4);
            let (mut five, mut all) = (format!("{TRACE_HEADER}\n"), format!("{FULL_HEADER}\n"));
            for (at, flow, bytes, ecn) in (0..3000).map(arrival) {
                five += &format!("{at},enqueue,{flow},{bytes},{ecn}\n");
                all += &format!("{at},enqueue,{flow},{bytes},{ecn},{},0,0\n", flow_hash(flow));
            }
            let played =
                |trace: &str| run(trace.as_bytes(), "t", &line.parse().expect(line), Some(Rate(20_000_000)), 1514);
            assert_eq!(played(&five), played(&all), "{line}");
            let opens = all.replace(",0,0\n", ",0,1\n");
            assert!(line != "ccaq" || played(&all) != played(&opens), "ccaq sees what opens a connection");
        }
    }

    #[test]
    fn hosts_share_a_link_under_cake() {
        // Nine flows of one host, and one flow of another one.
        let rows = |n: u32| (0..10).map(move |flow| format!("{},enqueue,{flow},1500,0,{}\n", n * 600_000, flow / 9));
        let trace = format!("{TRACE_HEADER},source\n{}", (0..1000).flat_map(rows).collect::<String>());
        let spec = "cake dual-srchost".parse().expect("cake");
        let rows = run(trace.as_bytes(), "t", &spec, Some(Rate(20_000_000)), 1514).expect("well-formed");
        let of = |flow| rows.iter().filter(|row| row.flow == flow && row.fate_time.0 < 600_000_000).count();
        assert!(of(9) > 3 * of(0), "{} and {}", of(9), of(0));
    }

    #[test]
    fn a_server_that_ends_leaves_the_rest_queued() {
        // At 8 Gbit/s a byte takes 1 ns: a dequeue every 100 ns.
        let trace = format!("{TRACE_HEADER}\n{}250,enqueue,2,100,0\n", "0,enqueue,1,100,0\n".repeat(4));
        let until = |end| {
            let how = How { rate: Some(Rate(8_000_000_000)), end: Time(end), ..How::default() };
            let played = run_counted(trace.as_bytes(), "t", &"pfifo".parse().expect("pfifo"), &how).expect("sound");
            played.rows.iter().map(|row| (row.fate_time.0, row.fate == Fate::Queued)).collect::<Vec<_>>()
        };
        assert_eq!(until(200), [(0, false), (100, false), (200, false), (0, true), (0, true)]);
        assert_eq!(until(199)[2], (0, true));
        assert_eq!(until(u64::MAX)[4], (400, false));
        let how = How { end: Time(5), ..How::default() };
        let refused =
            run_counted(trace.as_bytes(), "t", &"pfifo".parse().expect("pfifo"), &how).expect_err("no server");
        assert!(refused.problem.starts_with("an end without a rate"));
    }

    #[test]
    fn an_unknown_column_is_named_with_the_nearest_one() {
        let header = |further: &str| error(format!("{TRACE_HEADER}{further}\n0,enqueue,1,100,0\n").as_bytes(), None);
        let expected = "expected source, destination or opens after the first five";
        assert_eq!(header(",sorce"), format!("trace.csv:1: column \"sorce\": {expected}; did you mean \"source\"?"));
        assert_eq!(header(",weight"), format!("trace.csv:1: column \"weight\": {expected}"));
        assert_eq!(header(","), format!("trace.csv:1: column \"\": {expected}"));
        assert!(header("x").starts_with("trace.csv:1: expected the header"));
        assert_eq!(header(",opens,source,opens"), "trace.csv:1: column \"opens\" twice: expected it once");
        let with = |row: &str| error(format!("{TRACE_HEADER},source,opens\n{row}\n").as_bytes(), None);
        assert!(
            with("0,enqueue,1,100,0").contains("expected the 7 fields time_ns,op,flow,bytes,ecn,source,opens, found")
        );
        assert!(with("0,enqueue,1,100,0,9,0,0").contains("expected the 7 fields"));
        let host = "expected an IPv4 address, or a whole number from 0 to 4294967295";
        for wrong in ["", "10.0.0", "4294967296", "-1", "+1", "::1"] {
            assert_eq!(with(&format!("0,enqueue,1,100,0,{wrong},0")), format!("trace.csv:2: source {wrong:?}; {host}"));
        }
        assert!(with("0,enqueue,1,100,0,1,2").contains("opens \"2\"; expected a whole number from 0 to 1"));
        assert!(
            with("0,dequeue,,,,1,").contains("flow, bytes and ecn, and all further columns, of a dequeue row must be")
        );
        assert!(with("0,change,codel,,,,0").contains("bytes and ecn, and all further columns, empty"));
    }

    #[test]
    fn a_rate_and_dequeue_rows_exclude_each_other() {
        let trace = format!("{TRACE_HEADER}\n0,enqueue,1,100,0\n1,dequeue,,,\n");
        assert!(error(trace.as_bytes(), Some(1)).starts_with("trace.csv:3: a dequeue row together with a rate"));
        assert!(error(trace.as_bytes(), Some(0)).contains("a rate of zero"));
    }

    #[test]
    fn an_mtu_of_nothing_and_a_red_without_a_rate_are_errors() {
        let trace = format!("{TRACE_HEADER}\n");
        let run = |line: &str, mtu| run(trace.as_bytes(), "t", &line.parse().expect(line), None, mtu);
        assert!(run("pfifo", 0).is_err_and(|error| error.problem.contains("an MTU of 0 bytes")));
        assert!(run("red limit 9 variant ns2", 1514).is_err_and(|error| error.problem.contains("give one")));
        assert_eq!(run("pfifo", 1514), Ok(Vec::new()));
    }

    #[test]
    fn a_discipline_that_holds_packets_back_is_asked_again_when_it_wants() {
        // A flow is limited to 1 Mbit/s on a link of 10 Mbit/s. Once its credit is used up, 3000 bytes leave every
        // 24 ms. The result is the same if the discipline's clock is shifted against the trace's clock.
        let rows: String = (0..40).map(|_| "0,enqueue,1,1500,0\n").collect();
        let trace = format!("{TRACE_HEADER}\n{rows}");
        let spec = "fq maxrate 1mbit quantum 3000 initial_quantum 3000".parse().expect("fq");
        let run =
            |start| run_from(start, trace.as_bytes(), "t", &spec, Some(Rate(10_000_000)), 1514).expect("well-formed");
        let rows = run(Time::ZERO);
        assert!(rows.iter().all(|row| row.fate == Fate::Delivered));
        let last = rows[39].fate_time.as_secs_f64();
        assert!((last - 0.456).abs() < 0.025, "40 packets at 1 Mbit/s take 480 ms, less the first credit: {last} s");
        assert_eq!(rows, run(Time(1 << 40)));
    }

    proptest! {
        #[test]
        fn any_discipline_gives_every_packet_one_fate(
            seed: u64,
            steps in prop::collection::vec((0u64..3_000_000, 0u8..4, 0u32..4, 40u32..1515, 0u8..4), 0..200),
            rate in prop_oneof![Just(None), (10_000u64..100_000_000).prop_map(|rate| Some(Rate(rate)))],
        ) {
            let spec = Spec::random(&mut sojourn_core::rng::Rng::stream(seed, "replay"));
            let rate = if matches!(spec, Spec::Red(_)) { rate.or(Some(Rate(1_000_000))) } else { rate };
            let (mut trace, mut now, mut arrivals, mut bytes_in) = (format!("{TRACE_HEADER}\n"), 0, 0, 0);
            for (gap, op, flow, bytes, ecn) in steps {
                now += gap;
                if op == 0 && rate.is_none() {
                    trace.push_str(&format!("{now},dequeue,,,\n"));
                } else {
                    trace.push_str(&format!("{now},enqueue,{flow},{bytes},{ecn}\n"));
                    (arrivals, bytes_in) = (arrivals + 1, bytes_in + bytes);
                }
            }
            let rows = run(trace.as_bytes(), "t", &spec, rate, 1514).expect("well-formed");
            prop_assert_eq!((rows.len(), rows.iter().map(|row| row.bytes).sum::<u32>()), (arrivals, bytes_in));
            for row in &rows {
                prop_assert!(row.fate == Fate::Queued || row.fate_time >= row.enqueue);
            }
            // A server sends all packets, so that none is queued at the end.
            prop_assert!(rate.is_none() || rows.iter().all(|row| row.fate != Fate::Queued), "{}", spec);
        }
    }

    #[test]
    fn windows_line_ends_and_a_missing_last_one_are_read() {
        assert_eq!(csv("0,enqueue,1,100,0\r\n1,dequeue,,,", "pfifo", None), "0,1,100,0,1,delivered");
    }
}
