//! Controls our network device and its probe (kernel/guest/link_control.c) with lines of text.

use std::fs;
use std::io;
use std::path::Path;

use sojourn_core::qdisc::LinkLayer;
use sojourn_core::units::Span;
use sojourn_model::scenario::{Capacity, Nic, Pause};

use crate::job::LinkKind;
use crate::modules;
use crate::topology::{Cable, End, Network, Transmit};

/// A hop without a network card: the discipline is dequeued when the link becomes idle.
const BARE: Nic = Nic { ring: 1, bql: false, coalesce: Span::ZERO };
/// The module's control file.
const CONTROL: &str = "/proc/sojourn/control";
/// The module's file of records.
const RECORDS: &str = "/proc/sojourn/records";
/// The module's file of counters.
const STATS: &str = "/proc/sojourn/stats";

/// Returns the control lines that create the network's cables in the guest's first namespace.
pub fn lines(network: &Network, kind: LinkKind) -> Vec<String> {
    let pair = |[a, b]: &Cable| {
        let queued = u8::from([a, b].iter().any(|end| end.nic().is_some_and(|nic| nic.bql)));
        format!("pair {} {} {queued}", a.name, b.name)
    };
    let mut lines: Vec<String> = network.cables.iter().map(pair).collect();
    for end in network.cables.iter().flatten() {
        lines.extend(end_lines(end, kind));
    }
    lines.extend(network.pauses().map(|(end, before, Pause { stop, go })| {
        format!("pause {end} {before} {} {} {} {}", stop.packets, stop.bytes, go.packets, go.bytes)
    }));
    lines
}

fn end_lines(End { name, transmit, .. }: &End, kind: LinkKind) -> Vec<String> {
    match transmit {
        Transmit::Hop(index, link) => {
            let (Nic { ring, bql, coalesce }, noted) = (link.nic.unwrap_or(BARE), u8::from(link.nic.is_some()));
            let bql = u8::from(bql);
            let (overhead, atm) = (link.overhead, u8::from(link.linklayer == LinkLayer::Atm));
            let mut lines = vec![format!("link {name} {index} {overhead} {ring} {bql} {} {noted} {atm}", coalesce.0)];
            let steps =
                |list: Vec<(u64, u64)>| -> String { list.iter().map(|(at, value)| format!(" {at} {value}")).collect() };
            match &link.rate {
                Capacity::Steps(rates) if kind == LinkKind::Device => {
                    lines
                        .push(format!("rate {name}{}", steps(rates.iter().map(|(at, rate)| (at.0, rate.0)).collect())));
                }
                Capacity::Trace(trace) => {
                    let ms: String = trace.opportunities_ms.iter().map(|ms| format!(" {ms}")).collect();
                    lines.push(format!("trace {name}{ms}"));
                }
                Capacity::Steps(_) => {}
            }
            lines
                .push(format!("delay {name}{}", steps(link.delay.iter().map(|(at, delay)| (at.0, delay.0)).collect())));
            lines
        }
        Transmit::Access(access, classes) => {
            let (rate, delay, limit) =
                access.as_ref().map_or((0, 0, 0), |access| (access.rate.0, access.delay.0, access.limit));
            let host = |class: &crate::topology::Class| {
                format!("host {name} {} {} {rate} {limit}", class.host, class.delay.0 + delay)
            };
            classes.iter().map(host).collect()
        }
    }
}

/// Sends a control line to the module.
///
/// # Errors
/// The module rejects the line.
pub fn tell(line: &str) -> io::Result<()> {
    let first: String = line.chars().take(80).collect();
    fs::write(CONTROL, line).map_err(|error| io::Error::other(format!("{CONTROL}: {first}: {error}")))
}

/// Appends the records that the module holds to a file. User-mode Linux holds none, because it writes them to the
/// host's file itself.
///
/// # Errors
/// The file cannot be written.
pub fn collect(file: &Path) -> io::Result<()> {
    if !modules::is_guest_of_another() {
        return Ok(());
    }
    let mut to = fs::OpenOptions::new().create(true).append(true).open(file)?;
    io::copy(&mut fs::File::open(RECORDS)?, &mut to)?;
    Ok(())
}

/// Returns the module's counters: packets and bytes of each device, and the number of lost records.
///
/// # Errors
/// The module is not loaded.
pub fn stats() -> io::Result<String> {
    fs::read_to_string(STATS)
}
