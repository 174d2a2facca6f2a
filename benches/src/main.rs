//! `sojourn-bench NAME [--repeat N] [--detail full|departures]`: the speed of the simulator on this machine, as JSON.
//! `sojourn-bench scale [--flows N]`: the speed with many flows on a fast link.
//! `sojourn-bench replay LINE [--repeat N] [--flows N]`: the speed of a single discipline (queues.rs).
//!
//! `--fifo` replaces CoDel by a pfifo of the same limit, for comparisons with simulators that have no other queue.
//!
//! The program runs nothing but the simulation, so that CPU time and peak memory are those of the simulation, and
//! callgrind sees nothing else. The smallest CPU time of N runs (5 by default) is reported, as other load can only
//! increase it. `departures`, the default, measures departures only, with every packet's sojourn time in a histogram;
//! `full` measures everything that `sojourn run` reports.
#![forbid(unsafe_code)]

mod queues;
mod scenarios;

use std::io::Write;
use std::process::ExitCode;

use mimalloc::MiMalloc;
use peakmem_alloc::{PeakMemAlloc, PeakMemAllocTrait};
use rustix::time::{ClockId, clock_gettime};
use sojourn_measure::Distribution;
use sojourn_model::scenario::Scenario;
use sojourn_sim::{Detail, Options, Output};

const USAGE: &str =
    "usage: sojourn-bench P1|P2|P3|P4|P5|P1-bbr|P1-bbr3 [--fifo] [--repeat N] [--detail full|departures]
       sojourn-bench scale [--flows N] [--repeat N] [--detail full|departures]
       sojourn-bench replay LINE [--repeat N] [--flows N]";

/// The allocator of the wheel; with another one, the bench would measure another program. (`sojourn bench` also sets
/// its options as in the wheel.) Requested memory is counted, at a cost of some ns for each of the few allocations: how
/// much of it is resident depends on when the allocator returns free memory.
#[global_allocator]
static ALLOCATOR: PeakMemAlloc<MiMalloc> = PeakMemAlloc::new(MiMalloc);

/// Measured results.
#[derive(serde::Serialize)]
struct Figures {
    /// Packets delivered by the bottleneck in the rightward direction, without ACKs.
    packets: u64,
    /// User and system time of the run, in seconds.
    cpu_s: f64,
    packets_per_cpu_s: f64,
    /// Peak resident memory of the process in MB (10^6 bytes); `None` without `/proc`.
    rss_mb: Option<f64>,
    /// Peak of allocated memory in MB, as if reallocations were in place: independent of the machine.
    allocated_mb: f64,
    utilisation: Option<f64>,
    sojourn_ms: Option<Distribution>,
    drops: u64,
}

/// Measured results, with the number of flows.
#[derive(serde::Serialize)]
struct Sized {
    flows: u32,
    #[serde(flatten)]
    figures: Figures,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = parse(&args).and_then(|request| measure_as_json(&request));
    let (mut out, text, code) = match outcome {
        Ok(json) => (Box::new(std::io::stdout()) as Box<dyn Write>, json, ExitCode::SUCCESS),
        Err(error) => (Box::new(std::io::stderr()) as Box<dyn Write>, error, ExitCode::from(2)),
    };
    // If the reader has gone away, no output is needed.
    let _ = writeln!(out, "{text}");
    code
}

/// The parsed command line.
#[derive(PartialEq, Eq, Debug)]
struct Request {
    name: String,
    /// The discipline of `replay`.
    line: String,
    /// The number of flows of `replay` and `scale`.
    flows: u32,
    fifo: bool,
    repeat: u32,
    detail: Detail,
}

fn parse(args: &[String]) -> Result<Request, String> {
    let mut request = Request {
        name: String::new(),
        line: String::new(),
        flows: 1,
        fifo: false,
        repeat: 5,
        detail: Detail::Departures,
    };
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--repeat" | "--flows" => {
                let n = words.next().unwrap_or_default();
                let positive = n.parse().ok().filter(|&n| n > 0);
                let number = positive.ok_or(format!("{word} {n}: expected a positive number\n{USAGE}"))?;
                *(if word == "--flows" { &mut request.flows } else { &mut request.repeat }) = number;
            }
            "--detail" => {
                request.detail = match words.next().unwrap_or_default() {
                    "full" => Detail::Full,
                    "departures" => Detail::Departures,
                    other => return Err(format!("--detail {other}: expected full or departures\n{USAGE}")),
                }
            }
            "--fifo" => request.fifo = true,
            name if request.name.is_empty() && !name.starts_with('-') => request.name = name.to_owned(),
            line if request.name == "replay" && request.line.is_empty() => request.line = line.to_owned(),
            _ => return Err(USAGE.to_owned()),
        }
    }
    if request.name.is_empty() { Err(USAGE.to_owned()) } else { Ok(request) }
}

fn measure_as_json(request: &Request) -> Result<String, String> {
    let name = &request.name;
    let sized = matches!(name.as_str(), "replay" | "scale");
    if (request.fifo && sized) || (request.flows != 1 && !sized) {
        return Err(format!("{name} takes no {}\n{USAGE}", if request.fifo { "--fifo" } else { "--flows" }));
    }
    let json = if name == "replay" {
        serde_json::to_string(&queues::replay(&request.line, request.flows, request.repeat)?)
    } else if name == "scale" {
        let flows = request.flows;
        serde_json::to_string(&Sized { flows, figures: measure(&scenarios::scale(flows), request)? })
    } else {
        let scenario = scenarios::named(name).ok_or(format!("{name} is not a benchmark\n{USAGE}"))?;
        let scenario = if request.fifo { scenarios::with_fifo(scenario) } else { scenario };
        serde_json::to_string(&measure(&scenario, request)?)
    };
    json.map_err(|error| error.to_string())
}

fn measure(scenario: &Scenario, request: &Request) -> Result<Figures, String> {
    let options = Options { detail: request.detail, ..Options::default() };
    let mut best: Option<(f64, Output)> = None;
    for _ in 0..request.repeat {
        let before = cpu_seconds();
        let output = sojourn_sim::run(scenario, &options).map_err(|stopped| format!("{stopped:?}"))?;
        let cpu = cpu_seconds() - before;
        if best.as_ref().is_none_or(|(least, _)| cpu < *least) {
            best = Some((cpu, output));
        }
    }
    let (cpu_s, output) = best.ok_or("nothing was run")?;
    let bottleneck = &output.links.first().ok_or("a scenario without a link")?.main;
    Ok(Figures {
        packets: bottleneck.delivered_packets,
        cpu_s,
        packets_per_cpu_s: (bottleneck.delivered_packets as f64 / cpu_s).round(),
        rss_mb: peak_resident_mb(),
        allocated_mb: ALLOCATOR.get_peak_memory() as f64 / 1e6,
        utilisation: bottleneck.utilisation,
        sojourn_ms: bottleneck.sojourn_ms,
        drops: bottleneck.drops,
    })
}

/// User and system time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Peak resident memory of this process in MB, from Linux's `/proc/self/status` (in KiB there).
fn peak_resident_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib as f64 * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Result<Request, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_a_name_and_options() {
        let of = |repeat, detail| {
            Ok(Request { name: "P1".into(), line: String::new(), flows: 1, fifo: false, repeat, detail })
        };
        assert_eq!(request("P1"), of(5, Detail::Departures));
        assert_eq!(request("P1 --repeat 3"), of(3, Detail::Departures));
        assert_eq!(request("--detail full P1"), of(5, Detail::Full));
        let replay = parse(&["replay", "codel limit 9", "--flows", "7"].map(str::to_owned)).expect("a command line");
        assert_eq!((replay.line.as_str(), replay.flows), ("codel limit 9", 7));
        for bad in ["", "P1 P2", "P1 --repeat", "P1 --repeat 0", "P1 --repeat x", "P1 --detail some", "--help"] {
            assert!(request(bad).is_err(), "{bad}");
        }
        assert!(request("P9").and_then(|request| measure_as_json(&request)).is_err());
    }

    #[test]
    fn the_json_has_the_keys_that_scripts_rely_on() {
        let mut short = scenarios::p1(4);
        short.duration = sojourn_core::units::Time(2_000_000_000);
        short.measure.1 = short.duration;
        let request = request("P1 --repeat 2").expect("a command line");
        let json = serde_json::to_value(measure(&short, &request).expect("it runs")).expect("plain numbers");
        let keys: Vec<_> = json.as_object().expect("an object").keys().map(String::as_str).collect();
        let expected = "packets cpu_s packets_per_cpu_s rss_mb allocated_mb utilisation sojourn_ms drops";
        assert_eq!(keys.join(" "), expected);
        assert!(json["allocated_mb"].as_f64().expect("a number") > 0.1);
        assert!(json["packets"].as_u64().expect("a number") > 1000);
        assert!(json["cpu_s"].as_f64().expect("a number") > 0.0);
    }
}
