//! Counters kept by the guest's kernel: those of disciplines, devices and protocols, and the BQL limits in /sys.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use serde_json::{Map, Value, json};
use sojourn_core::tcp::Counters;

use crate::flows;
use crate::os::Workers;
use crate::tc_stats;
use crate::topology::{Network, Place};

/// Mount points of the namespaces' /sys, one for each device with byte queue limits.
const SYS: &str = "/run/sojourn/sys";
/// File in the run's folder with the limits, which are read every second.
const BYTE_LIMITS: &str = "byte_queue_limits.csv";

/// Mounts the /sys of the current namespace for a device: the device's queue is visible only there.
///
/// # Errors
/// The mount fails.
pub fn show(device: &str) -> io::Result<()> {
    let place = format!("{SYS}-{device}");
    fs::create_dir_all(&place)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    Ok(mount("sysfs", place.as_str(), "sysfs", flags, None)?)
}

/// Returns the /sys folders with the limits of all devices that have byte queue limits.
pub fn byte_limits(network: &Network) -> Vec<PathBuf> {
    let limited = network.cables.iter().flatten().filter(|end| end.nic().is_some_and(|nic| nic.bql));
    let folder = |name: &str| PathBuf::from(format!("{SYS}-{name}/class/net/{name}/queues/tx-0/byte_queue_limits"));
    limited.map(|end| folder(&end.name)).collect()
}

/// Appends the current limits to the file: time on the guest's clock, device, limit and bytes in flight.
///
/// # Errors
/// A device has no limits, or the file cannot be written.
pub fn read_byte_limits(cards: &[PathBuf], folder: &Path) -> io::Result<()> {
    let mut lines = String::new();
    for card in cards {
        let device = card.components().nth(6).map(|part| part.as_os_str().to_string_lossy().into_owned());
        let shown = |what: &str| {
            fs::read_to_string(card.join(what))
                .map(|text| text.trim().to_owned())
                .map_err(|error| io::Error::other(format!("{}/{what}: {error}", card.display())))
        };
        let (limit, inflight) = (shown("limit")?, shown("inflight")?);
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{},{},{limit},{inflight}", flows::clock(), device.unwrap_or_default());
    }
    if lines.is_empty() {
        return Ok(());
    }
    fs::OpenOptions::new().create(true).append(true).open(folder.join(BYTE_LIMITS))?.write_all(lines.as_bytes())
}

/// Returns the counters of our devices (`devices`), of the hosts' TCP, and of the routers' queue disciplines (`tc -s
/// qdisc`, `tc -s class`). With `all`, also those of the hosts' disciplines, of `ip -s link` and of the protocols. These are optional
/// because starting a program takes as long as some thousand packets.
///
/// # Errors
/// A program fails.
pub fn read(devices: &str, places: &[Place], workers: &Workers, all: bool) -> io::Result<Value> {
    let mut found = Map::new();
    for &place in places.iter().filter(|place| all || matches!(place, Place::Router(_))) {
        let mut value = tc_stats::ask(|words| workers.run(place, "tc", words), "")?;
        if all {
            let links = workers.run(place, "ip", &["-s", "-j", "link", "show"].map(str::to_owned))?;
            let protocols = workers.inside(place, || {
                let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
                Ok(protocols(&(read("snmp")? + &read("netstat")?)))
            })?;
            (value["links"], value["protocols"]) = (parsed(links), protocols);
        }
        found.insert(name(place), value);
    }
    // `late_ns` concerns the guest's timers and is not a counter of the network.
    let devices: Vec<&str> = devices.lines().filter(|line| !line.starts_with("late_ns")).collect();
    Ok(json!({ "devices": devices, "places": found, "tcp": tcp(places, workers)? }))
}

/// Returns the sums of TCP's counters over all namespaces, for those that a simulator's TCP has too.
fn tcp(places: &[Place], workers: &Workers) -> io::Result<Map<String, Value>> {
    let mut sums = [0; Counters::NAMES.len()];
    for &place in places {
        let said = workers.inside(place, || fs::read_to_string("/proc/thread-self/net/netstat"))?;
        add_counters(&mut sums, &protocols(&said));
    }
    Ok(Counters::NAMES.into_iter().zip(sums).map(|(name, sum)| (name.to_owned(), sum.into())).collect())
}

/// Adds a namespace's counters; those that are zero are missing.
fn add_counters(sums: &mut [u64], protocols: &Value) {
    for (sum, name) in sums.iter_mut().zip(Counters::NAMES) {
        *sum += protocols[format!("TcpExt:{name}")].as_str().and_then(|value| value.parse().ok()).unwrap_or(0);
    }
}

/// The name of a namespace among the counters.
pub fn name(place: Place) -> String {
    match place {
        Place::Left(hop) => format!("left{hop}"),
        Place::Router(number) => format!("router{number}"),
        Place::Right(hop) => format!("right{hop}"),
    }
}

/// Parses a program's JSON output; other output is returned as text.
fn parsed(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// Parses pairs of lines with names and values, and returns the values that are not zero.
fn protocols(text: &str) -> Value {
    let mut found = Map::new();
    for pair in text.lines().collect::<Vec<_>>().chunks(2) {
        let [names, values] = pair else { continue };
        let mut names = names.split_ascii_whitespace();
        let protocol = names.next().unwrap_or_default();
        for (name, value) in names.zip(values.split_ascii_whitespace().skip(1)).filter(|(_, value)| *value != "0") {
            found.insert(format!("{protocol}{name}"), value.into());
        }
    }
    Value::Object(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_their_protocols_name() {
        let text = "Tcp: InSegs OutSegs\nTcp: 7 0\nTcpExt: TCPHPHits\nTcpExt: 3\n";
        assert_eq!(protocols(text), json!({ "Tcp:InSegs": "7", "TcpExt:TCPHPHits": "3" }));
        let mut sums = [1; Counters::NAMES.len()];
        add_counters(&mut sums, &protocols("TcpExt: TCPHPHits PAWSEstab\nTcpExt: 3 1727\n"));
        assert_eq!(sums, [1728, 1, 1]);
        assert_eq!(parsed("[1]".into()), json!([1]));
        assert_eq!(parsed("no json".into()), json!("no json"));
    }
}
