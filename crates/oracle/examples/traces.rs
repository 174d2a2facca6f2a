//! Writes the traces that the oracles play as files: `cargo run -p sojourn-oracle --example traces -- FOLDER
//! [PACKETS]`. `index.csv` has for each trace its file, the link's rate in bit/s (empty if the trace has its own
//! dequeues), and a description. `lines.txt` has lines for tc with random parameters, as we print them.
#![expect(clippy::print_stderr, reason = "a program's words")]

use std::fmt::Write;
use std::process::ExitCode;
use std::{env, fs, io};

use sojourn_core::qdisc::linux::for_plugin;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::rng::Rng;
use sojourn_oracle::trace::{plans, plans_of_crowds, plans_of_flows};

/// Number of random lines.
const LINES: usize = 400;

fn main() -> ExitCode {
    let mut words = env::args().skip(1);
    let (Some(folder), packets) = (words.next(), words.next().map_or(Ok(usize::MAX), |count| count.parse())) else {
        eprintln!("usage: traces FOLDER [PACKETS]");
        return ExitCode::from(2);
    };
    match packets.map_err(io::Error::other).and_then(|packets| write(&folder, packets)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("traces: {folder}: {error}");
            ExitCode::from(2)
        }
    }
}

fn write(folder: &str, packets: usize) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut index = "file,rate_bps,name\n".to_owned();
    for (kind, plans) in [("codel", plans()), ("flows", plans_of_flows()), ("crowd", plans_of_crowds())] {
        for (number, mut plan) in plans.into_iter().enumerate() {
            plan.keep(packets);
            let file = format!("{kind}-{number:02}.csv");
            fs::write(format!("{folder}/{file}"), plan.csv())?;
            let rate = plan.rate.map_or_else(String::new, |rate| rate.0.to_string());
            writeln!(index, "{file},{rate},\"{}\"", plan.name).expect("a string takes everything");
        }
    }
    fs::write(format!("{folder}/index.csv"), index)?;
    let mut rng = Rng::stream(2, "tc lines");
    let lines = (0..LINES).filter_map(|_| words(&Spec::random(&mut rng)));
    fs::write(format!("{folder}/lines.txt"), lines.collect::<Vec<_>>().join("\n"))
}

/// The line for tc of a discipline, if tc has it.
fn words(spec: &Spec) -> Option<String> {
    match spec {
        Spec::Ccaq(_) => Some(for_plugin(&spec.to_string(), spec.variant())),
        _ => spec.tc_line(),
    }
}
