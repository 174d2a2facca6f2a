//! One run: reads the job, builds the network, plays the flows, and writes the results into the run's folder. Or a link
//! that is up until it is stopped, for programs of the user's.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::{Direction, Host as Side};
use sojourn_traffic::flows::played::Played;
use sojourn_traffic::flows::{self, Drain, Flows, Net};
use sojourn_traffic::job::{Job, LinkKind};
use sojourn_traffic::os::{self, Spaces, Workers};
use sojourn_traffic::run::{COUNTED, PLAYED, PROGRESS, SEEN};
use sojourn_traffic::topology::{self, Network, Place};

use crate::commands::{self, Started};
use crate::control::{self, Control, Host, Hosts};
use crate::engine::{self, Engine};
use crate::files;
use crate::network::{self, Device};
use crate::path;
use crate::probe;
use crate::queue::Owner;
use crate::truth;

/// File with the capture, in the run's folder; empty if none was asked for.
const CAPTURED: &str = "captured.pcapng";
/// Time between the end of the set-up and time zero of the run.
const AHEAD: u64 = 20_000_000;

/// The fields of this world's jobs in addition to those of [`Job`]: for a run, or for a link that is up.
#[derive(Default, Serialize, Deserialize)]
pub struct Asked {
    /// For a link: true if its scenario's flows play, too.
    #[serde(default)]
    pub flows: bool,
    /// The path of the control socket of a link; a run has none.
    #[serde(default)]
    pub control: Option<PathBuf>,
    /// True if the packets of all links are captured.
    #[serde(default)]
    pub capture: bool,
    /// True if the arrivals at all links and their fates are written, for a replay.
    #[serde(default)]
    pub traced: bool,
    /// True if the one who asked deletes the folder after the run.
    #[serde(default)]
    pub temporary: bool,
    /// The number of the process that asks. The run ends with it.
    #[serde(default)]
    pub asker: Option<i32>,
    /// The owner of the links' queue disciplines.
    #[serde(default)]
    pub engine: Owner,
}

/// Plays the job in `folder`. Returns what the answer contains in addition to the files.
///
/// # Errors
/// A message for the user: the error of the operating system.
pub fn play(folder: &Path, text: &str) -> Result<Value, String> {
    let malformed = |error| format!("job.json: {error}");
    if let Ok(lines) = serde_json::from_str(text) {
        return probe::lacking(&lines).map_err(|error| error.to_string());
    }
    let job: Job = serde_json::from_str(text).map_err(malformed)?;
    let asked: Asked = serde_json::from_str(text).map_err(malformed)?;
    let scenario = job.scenario()?;
    run(folder, &scenario, &asked).map_err(|error| files::explained(&error))
}

fn run(folder: &Path, scenario: &Scenario, asked: &Asked) -> io::Result<Value> {
    let network = Network::new(scenario);
    let places = network::host_places(&network);
    let (mut spaces, ports) = network::build(scenario, &network)?;
    let (kernel_queues, changes) = match asked.engine {
        Owner::Ours => (Vec::new(), Vec::new()),
        Owner::Tc => (network::build_kernel_queues(&mut spaces, scenario, &network)?, changes(scenario, network.mtu)),
    };
    let devices = kernel_queues.iter().map(|queue| queue.device.clone()).collect();
    let no_hosts = Ok(Hosts::new());
    let hosts = asked.control.as_ref().map_or(no_hosts, |_| hosts(scenario, 0, &spaces, network.mtu))?;
    let has_flows = asked.control.is_none() || asked.flows;
    let programs = if has_flows { commands::ready(scenario, &spaces, network.mtu, folder)? } else { Vec::new() };
    let workers = spaces.into_workers()?;
    let origin = flows::clock() + AHEAD;
    let mut path = path::Path::new(scenario, &network, origin, asked.engine);
    debug_assert!(path.places().eq(places.iter().copied()));
    if asked.control.is_some() {
        path.watch();
    }
    if asked.capture {
        path.capture(scenario, (origin as i64 + engine::offset()) as u64);
    }
    let (stop, latest_act) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut files = vec![SEEN.to_owned(), CAPTURED.to_owned()];
    if asked.traced {
        path.trace();
        files.extend((0..path.hops().len()).flat_map(trace_files));
    }
    let begin = |file: String| writer_of(folder.join(file), Arc::clone(&stop));
    let written: io::Result<Vec<_>> = files.into_iter().map(begin).collect();
    let (senders, writers): (Vec<_>, Vec<_>) = written?.into_iter().unzip();
    let (mut engine, questions) = Engine::new(path, (ports, kernel_queues), origin, senders);
    engine.truth.host[0] = truth::Host::read();
    let end = if asked.control.is_some() { Time::NEVER } else { scenario.duration };
    if let Some(socket) = &asked.control {
        // The socket gets its name when it listens, so that a process that finds it can connect.
        let unnamed = socket.with_extension("new");
        let (stop, listener) = (Arc::clone(&stop), UnixListener::bind(&unnamed)?);
        fs::rename(unnamed, socket)?;
        control::serve(listener, Control { hosts, questions, stop, devices: Mutex::new(devices) })?;
    }
    let (failures, failed) = mpsc::channel();
    let shared = commands::Run { origin, stop: Arc::clone(&stop), latest_act: Arc::clone(&latest_act), failures };
    let programs = Started::new(programs, &shared)?;
    let times: Vec<Time> = changes.iter().map(|change| change.0).collect();
    let world = World {
        workers,
        folder: folder.to_owned(),
        latest_act: Arc::clone(&latest_act),
        stop: Arc::clone(&stop),
        failed,
        changes,
    };
    let played = thread::scope(|scope| {
        let loop_of_path = scope.spawn(|| {
            engine.truth.realtime = engine::hurry();
            let done = engine.play(end, &stop);
            if done.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            (engine, done)
        });
        let played = match has_flows {
            true => Flows::new(scenario, &places, &times, origin, world).and_then(Flows::play),
            false => Ok(Played::default()),
        };
        if played.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let (engine, done) = loop_of_path.join().map_err(|_| io::Error::other("a bug: the loop has panicked"))?;
        Ok::<_, io::Error>((engine, done.and(played)))
    });
    let (mut engine, played) = played?;
    let programs = programs.join();
    engine.truth.latest_act = Span(latest_act.load(Ordering::Relaxed));
    let counted = match asked.engine {
        Owner::Ours => engine.path.counted(),
        Owner::Tc => std::mem::take(&mut engine.kernel),
    };
    let state = engine.path.state();
    let truth = engine.truth.as_json();
    let replays = asked.traced.then(|| engine.path.replays(scenario, &network));
    drop(engine);
    for writer in writers {
        writer.join().map_err(|_| io::Error::other("a bug: a writer has panicked"))??;
    }
    let played = Played { programs: programs?, ..played? };
    fs::write(folder.join(PLAYED), serde_json::to_vec(&played)?)?;
    fs::write(folder.join(COUNTED), json!({ "links": counted }).to_string())?;
    Ok(json!({ "origin_ns": origin, "truth": truth, "state": state, "replays": replays }))
}

/// Returns the times at which the kernel's queues change during the run, each with the lines for `tc`.
fn changes(scenario: &Scenario, mtu: u32) -> Vec<(Time, Vec<String>)> {
    let mut all: BTreeMap<Time, Vec<String>> = BTreeMap::new();
    for index in 0..scenario.hops.len() * 2 {
        let (device, link) = (Device::of(index, mtu), scenario.link(index));
        let rates = topology::rate_steps(link).into_iter().map(|(at, rate)| (at, device.change(rate)));
        for (at, words) in rates.chain(topology::qdisc_changes(&device.name, link, LinkKind::Htb)) {
            all.entry(at).or_default().push(words.join(" "));
        }
    }
    all.into_iter().collect()
}

/// Returns the hosts of a flow, for programs of the user's: the client is right of the path, where packets of the downlink
/// arrive. `mtu` is that of the links in bytes.
///
/// # Errors
/// There is no such flow.
pub fn hosts(scenario: &Scenario, row: usize, spaces: &Spaces, mtu: u32) -> io::Result<Hosts> {
    let entry = scenario.workload.entries.get(row).ok_or_else(|| io::Error::other("the scenario has no flow"))?;
    let host = |(host, side, place): (Side, Direction, Place)| {
        let address = topology::address(side, entry, row);
        let ipv6 = network::has_ipv6(mtu).then(|| topology::ipv6(address));
        Ok((host.name(), Host { space: spaces.namespace(place)?, address, ipv6 }))
    };
    let (left, right) = (Place::Left(entry.via.0), Place::Right(entry.via.1));
    [(Side::Client, Direction::Right, right), (Side::Server, Direction::Left, left)].into_iter().map(host).collect()
}

/// The files with a link's trace and its fates, in the run's folder; empty if the link had no packets.
fn trace_files(link: usize) -> [String; 2] {
    [format!("{link}.trace.csv"), format!("{link}.fates.csv")]
}

/// A thread that writes a file.
type Writer = thread::JoinHandle<io::Result<()>>;

/// Starts the writer of a file. It ends when the sender is dropped. If it cannot write, the run stops.
fn writer_of(path: PathBuf, stop: Arc<AtomicBool>) -> io::Result<(mpsc::Sender<Vec<u8>>, Writer)> {
    let (to, records) = mpsc::channel::<Vec<u8>>();
    let mut file = fs::File::create(&path)?;
    let write = move || {
        let written = records.iter().try_for_each(|bytes| file.write_all(&bytes));
        written.map_err(|error| {
            stop.store(true, Ordering::Relaxed);
            io::Error::other(format!("{}: {error}; the packets until then are in it", path.display()))
        })
    };
    Ok((to, thread::Builder::new().spawn(write)?))
}

/// The network, as the flows use it.
struct World {
    workers: Workers,
    folder: PathBuf,
    latest_act: Arc<AtomicU64>,
    /// True once the run has been stopped.
    stop: Arc<AtomicBool>,
    /// Says why a program of the user's could not be started.
    failed: mpsc::Receiver<String>,
    /// The changes of the kernel's queues: lines for `tc`.
    changes: Vec<(Time, Vec<String>)>,
}

impl Net for World {
    fn inside<T: Send + 'static>(
        &mut self,
        place: Place,
        make: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.workers.inside(place, make)
    }

    fn change(&mut self, number: u32) -> io::Result<()> {
        os::batch(&self.changes[number as usize].1)
    }

    fn late(&mut self, by: Span) -> io::Result<()> {
        self.latest_act.fetch_max(by.0, Ordering::Relaxed);
        Ok(())
    }

    fn tick(&mut self, now: Time) -> io::Result<bool> {
        if let Ok(why) = self.failed.try_recv() {
            return Err(io::Error::other(why));
        }
        fs::write(self.folder.join(PROGRESS), now.0.to_string())?;
        Ok(!self.stop.load(Ordering::Relaxed))
    }

    fn over(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn drain(&mut self, _: &OwnedFd, _: Drain) -> io::Result<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_model::plan::{LoadOptions, Plan};

    #[test]
    fn a_kernels_queue_is_set_up_and_changed_by_commands_for_its_own_device() {
        let text = "duration = \"9s\"\n[[hop]]\nrate = [[\"0s\", \"10mbit\"], [\"2s\", \"5mbit\"], [\"4s\", \"8mbit\"]]\noverhead = 18\n\
                    qdisc = [[\"0s\", \"fq_codel limit 100\"], [\"4s\", \"fq_codel limit 50\"], [\"6s\", \"codel\"]]\n\
                    reverse = { rate = \"1mbit\", qdisc = \"pfifo limit 50\" }\n[[flow]]\nkind = \"bulk\"\nrtt = \"9ms\"\n";
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        let scenario = plan.scenario(0).expect("a sound run");
        let set_up =
            |link| topology::discipline(&Device::of(link, 1500).name, scenario.link(link), LinkKind::Htb, 1500);
        assert_eq!(
            set_up(0),
            [
                "qdisc add dev queue0 root handle 1: stab overhead 4 htb default 1",
                "class add dev queue0 parent 1: classid 1:1 htb rate 10000000bit ceil 10000000bit burst 1600 cburst 1600",
                "qdisc add dev queue0 parent 1:1 handle 10: fq_codel limit 100",
            ]
        );
        assert_eq!(set_up(1)[2], "qdisc add dev queue1 parent 1:1 handle 10: pfifo limit 50");
        let changed: Vec<(u64, String)> =
            changes(&scenario, 1500).into_iter().map(|(at, lines)| (at.0 / 1_000_000_000, lines.join("\n"))).collect();
        assert_eq!(
            changed,
            [
                (2, "class change dev queue0 parent 1: classid 1:1 htb rate 5000000bit ceil 5000000bit burst 1600 cburst 1600"),
                (4, "class change dev queue0 parent 1: classid 1:1 htb rate 8000000bit ceil 8000000bit burst 1600 cburst 1600\n\
                     qdisc change dev queue0 parent 1:1 handle 10: fq_codel limit 50"),
                (6, "qdisc replace dev queue0 parent 1:1 handle 11: codel limit 1000"),
            ]
            .map(|(at, line)| (at, line.to_owned()))
        );
    }
}
