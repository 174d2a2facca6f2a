//! A run in the guest: builds the network, plays the flows, and writes the results into the run's folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use sojourn_core::qdisc::linux::in_linux;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::tcp::HyStart;
use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::{Capacity, Scenario};

use crate::count;
use crate::flows::{self, Drain, Flows, LATE, Net, socket};
use crate::job::{Job, LinkKind, Mode, Sink};
use crate::link;
use crate::modules;
use crate::os::{self, Spaces, Workers, offloads};
use crate::own;
use crate::seal;
use crate::topology::{self, End, Network, Place, Setting, Transmit};

/// File with the results of the applications, in the run's folder.
pub const PLAYED: &str = "played.json";
/// File with the records of the probe.
pub const SEEN: &str = "seen.bin";
/// File with the progress of the run, in nanoseconds.
pub const PROGRESS: &str = "progress";
/// File with the counters of the kernel's devices, disciplines and protocols.
pub const COUNTED: &str = "counted.json";
/// Time zero of a run is a multiple of this on the guest's clock, in nanoseconds. It is after the set-up, and a whole
/// number of all ticks of Linux: jiffies (100, 250 or 1000 per second), CoDel's 1024 ns and the scheduler's 64 ns.
const ORIGIN: u64 = 2_000_000_000;
/// Upper limit on the guest's time that set-up takes before time zero, in nanoseconds.
const AHEAD: u64 = 100_000_000;
/// Time between the end of a run and the reading of its counters.
const SETTLE: Duration = Duration::from_micros(1);
/// `SO_RCVLOWAT` of [`Sink::Lowat`], in bytes.
const LOWAT: u32 = 64 * 1024;
/// Maximum number of open files: two per connection.
const FILES: u64 = 1 << 20;
/// Maximum size of a socket's buffers in bytes, unless the scenario gives one.
const BUFFER: u32 = 64 << 20;

/// The fraction of a run for which a link may stand still because the guest was late.
const STALLED: f64 = 1e-4;

/// Runs the job in `folder`.
///
/// # Errors
/// A message for the user: the error of the kernel, or the reason why the run is invalid.
pub fn main(folder: &Path, job: &str) -> Result<Value, String> {
    let job: Job = serde_json::from_str(job).map_err(|error| format!("job.json: {error}"))?;
    let scenario = job.scenario()?;
    if let Some(folder) = &job.tc_lib_dir {
        os::TC_LIB_DIR.get_or_init(|| folder.clone());
    }
    play(folder, &scenario, &job).map_err(|error| error.to_string())
}

fn play(folder: &Path, scenario: &Scenario, job: &Job) -> io::Result<Value> {
    let mode = job.mode;
    modules::load("sojourn_link")?;
    let qdiscs = (0..scenario.hops.len() * 2).flat_map(|index| scenario.link(index).qdiscs());
    for module in qdiscs.flat_map(Spec::chain).filter_map(|spec| in_linux(spec.kind())?.module(spec.variant())) {
        modules::load(module.name)?;
    }
    let limit = rustix::process::Rlimit { current: Some(FILES), maximum: Some(FILES) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)?;
    let network = Network::new(scenario);
    let mut spaces = Spaces::new(&network.places)?;
    own::load(&job.own, &mut spaces)?;
    first_settings(&mut spaces, scenario)?;
    for &place in &network.places {
        settings(&mut spaces, place, scenario)?;
    }
    build(&mut spaces, &network, scenario, mode)?;
    own::check_used(&job.own)?;

    let changes = changes(scenario, mode);
    let times: Vec<Time> = changes.iter().map(|change| change.0).collect();
    let origin = (flows::clock() + AHEAD).next_multiple_of(ORIGIN);
    link::tell(&format!("start {origin}"))?;
    if let Some(most) = job.most_records {
        link::tell(&format!("most {most}"))?;
    }
    if mode.probe {
        link::tell("probe 1")?;
    }
    let changes = changes.into_iter().map(|change| change.1).collect();
    let workers = spaces.into_workers()?;
    seal::keep_what_a_run_needs()?;
    if !modules::is_guest_of_another() {
        seal::try_it()?;
    }
    let cards = count::byte_limits(&network);
    let (folder_of, sink, places) = (folder.to_owned(), mode.sink, network.places.clone());
    let (devices, all_counters) = (String::new(), job.all_counters);
    let mut world = World { workers, changes, folder: folder_of, sink, cards, places, devices, all_counters };
    let played = Flows::new(scenario, &network.places, &times, origin, &mut world)?.play()?;
    fs::write(folder.join(PLAYED), serde_json::to_vec(&played)?)?;
    check_devices(&world.devices, scenario)?;
    for &place in &network.places {
        let said = world.workers.inside(place, || fs::read_to_string("/proc/thread-self/net/netstat"))?;
        check_memory(&said)?;
    }
    check_backlog(&fs::read_to_string("/proc/net/softnet_stat")?)?;
    Ok(json!({ "origin_ns": origin }))
}

/// Returns an error: the run is invalid for this reason.
fn invalid<T>(why: String) -> io::Result<T> {
    Err(io::Error::other(format!("the run is not valid: {why}")))
}

/// Fails if a record was lost, an interrupt was late, a link stood still because the guest was late, or a device that has
/// no queue limit dropped packets.
fn check_devices(counted: &str, scenario: &Scenario) -> io::Result<()> {
    for line in counted.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        match fields[..] {
            ["lost", number] if number != "0" => return invalid(format!("the probe lost {number} records")),
            ["late_ns", late] if late.parse().is_ok_and(|late: u64| late > LATE.0) => {
                return invalid(format!("the guest served an interrupt {late} ns late"));
            }
            [device, .., "stalled_ns", stalled, "drops", _] if is_stalled(device, stalled, scenario) => {
                return invalid(format!(
                    "the link of device {device} stood still for {stalled} ns while packets waited, because the guest \
                     cannot send so many packets a second: expected longer packets or a lower rate \
                     (docs/explanation/kernel-link.md)"
                ));
            }
            [device, .., "drops", number] if number != "0" && scenario.access.is_none() => {
                return invalid(format!("device {device} dropped {number} packets that no queue held"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a link that never waits by intention has stood still for more than [`STALLED`] of the run's time.
fn is_stalled(device: &str, stalled_ns: &str, scenario: &Scenario) -> bool {
    let network = Network::new(scenario);
    let paused = |name: &str| network.pauses().any(|(_, before, _)| before == name);
    let of_hop = network.cables.iter().flatten().find(|end| end.name == device);
    let Some(Transmit::Hop(_, link)) = of_hop.map(|end| &end.transmit) else { return false };
    let steady = matches!(link.rate, Capacity::Steps(_)) && link.nic.is_none() && !paused(device);
    let conserving = link.qdiscs().flat_map(Spec::chain).all(is_work_conserving);
    let lost = stalled_ns.parse().is_ok_and(|ns: u64| ns as f64 > STALLED * scenario.duration.0 as f64);
    lost && steady && conserving
}

/// Returns whether a discipline never holds packets back while the link is idle; false if that is not known.
fn is_work_conserving(spec: &Spec) -> bool {
    match spec {
        Spec::Tbf(_) | Spec::Htb(_) | Spec::Fq(_) | Spec::Linux(_) | Spec::External(_) => false,
        Spec::Cake(params) => params.bandwidth.is_none(),
        // The paper's discipline paces.
        Spec::Ccaq(_) => spec.variant() != Some("paper"),
        _ => true,
    }
}

/// Fails if TCP was short of memory.
fn check_memory(netstat: &str) -> io::Result<()> {
    for pair in netstat.lines().collect::<Vec<_>>().chunks(2) {
        let [names, values] = pair else { continue };
        for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
            if ["TCPMemoryPressures", "TCPAbortOnMemory", "TCPBacklogDrop"].contains(&name) && value != "0" {
                return invalid(format!("{name} = {value}: the guest needs more memory (--memory)"));
            }
        }
    }
    Ok(())
}

/// Fails if the guest dropped packets between a device and the network stack.
fn check_backlog(softnet: &str) -> io::Result<()> {
    let dropped = softnet.lines().filter_map(|line| line.split_ascii_whitespace().nth(1));
    let count: u64 = dropped.filter_map(|field| u64::from_str_radix(field, 16).ok()).sum();
    if count > 0 { invalid(format!("the guest dropped {count} packets of its own (softnet_stat)")) } else { Ok(()) }
}

/// The network, as the flows use it.
struct World {
    workers: Workers,
    /// The changes during the run: namespace and arguments of `tc`.
    changes: Vec<(Place, Vec<String>)>,
    folder: PathBuf,
    sink: Sink,
    /// Folders with the limits of devices with byte queue limits.
    cards: Vec<PathBuf>,
    places: Vec<Place>,
    /// The counters of our devices at the end of the run.
    devices: String,
    /// Whether all counters are requested, instead of those of the disciplines only.
    all_counters: bool,
}

impl Net for &mut World {
    fn inside<T: Send + 'static>(
        &mut self,
        place: Place,
        make: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.workers.inside(place, make)
    }

    fn change(&mut self, number: u32) -> io::Result<()> {
        let (place, words) = &self.changes[number as usize];
        self.workers.run(*place, "tc", words).map(|_| ())
    }

    fn late(&mut self, by: Span) -> io::Result<()> {
        if by > LATE { invalid(format!("the guest was late by {by}")) } else { Ok(()) }
    }

    fn tick(&mut self, now: Time) -> io::Result<bool> {
        fs::write(self.folder.join(PROGRESS), now.0.to_string())?;
        count::read_byte_limits(&self.cards, &self.folder)?;
        link::collect(&self.folder.join(SEEN))?;
        Ok(true)
    }

    fn over(&mut self) -> io::Result<()> {
        // Events of the last moment are completed first.
        std::thread::sleep(SETTLE);
        self.devices = link::stats()?;
        let counted = count::read(&self.devices, &self.places, &self.workers, self.all_counters)?;
        link::tell("probe 0")?;
        link::collect(&self.folder.join(SEEN))?;
        // Reading the counters may itself have caused a lost record.
        self.devices = link::stats()?;
        fs::write(self.folder.join(COUNTED), format!("{counted:#}\n"))
    }

    fn drain(&mut self, socket: &OwnedFd, what: Drain) -> io::Result<bool> {
        match (self.sink, what) {
            // Only a guest kernel of ours can read sockets by itself.
            (Sink::Kernel, _) if !modules::is_guest_of_another() => {
                let bytes = if let Drain::Bytes(bytes) = what { bytes.get() } else { 0 };
                link::tell(&format!("drain {} {bytes}", socket.as_raw_fd()))?;
                Ok(true)
            }
            (Sink::Lowat, Drain::All) => {
                socket::wake_for(socket, LOWAT)?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }
}

/// Returns the calls of `tc` during the run, in order of time: changes of disciplines and of shapers. Our own device
/// changes its rate by itself.
fn changes(scenario: &Scenario, mode: Mode) -> Vec<(Time, (Place, Vec<String>))> {
    let network = Network::new(scenario);
    let mut all = Vec::new();
    for End { name, place, transmit, .. } in network.cables.iter().flatten() {
        let Transmit::Hop(_, link) = transmit else { continue };
        for (at, rate) in topology::rate_steps(link).into_iter().filter(|_| mode.link != LinkKind::Device) {
            all.push((at, (*place, topology::change(name, rate, mode.link, network.mtu))));
        }
        all.extend(topology::qdisc_changes(name, link, mode.link).into_iter().map(|(at, words)| (at, (*place, words))));
    }
    all.sort_by_key(|change| change.0);
    all
}

/// Applies the settings that all namespaces share.
fn first_settings(spaces: &mut Spaces, scenario: &Scenario) -> io::Result<()> {
    // With these limits TCP reports memory pressure, which makes the run invalid, before the guest runs out of memory.
    let pages = memory_pages(&fs::read_to_string("/proc/meminfo")?);
    spaces.set(None, "ipv4/tcp_mem", &format!("{} {} {}", pages / 4, pages * 3 / 8, pages / 2))?;
    for key in ["core/rmem_max", "core/wmem_max"] {
        spaces.set(None, key, "268435456")?;
    }
    spaces.set(None, "ipv4/tcp_max_orphans", "1000000")?;
    spaces.set(None, "core/netdev_max_backlog", "1000000")?;
    // Flows may use any congestion control, also after this program has dropped its capabilities.
    let all = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    spaces.set(None, "ipv4/tcp_allowed_congestion_control", all.trim())?;
    let hystart = scenario.workload.entries.first().is_none_or(|entry| entry.tcp.hystart != HyStart::Off);
    fs::write("/sys/module/tcp_cubic/parameters/hystart", if hystart { "1" } else { "0" })
}

/// Returns the guest's memory in pages of 4 kB, from /proc/meminfo.
fn memory_pages(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|words| words.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(1 << 20) / 4
}

/// Applies the settings of a namespace.
///
/// # Errors
/// The kernel does not have a setting, or rejects its value.
pub fn settings(spaces: &mut Spaces, place: Place, scenario: &Scenario) -> io::Result<()> {
    let mut set = |key: &str, value: &str| spaces.set(Some(place), key, value);
    for key in
        ["conf/all/rp_filter", "conf/default/rp_filter", "conf/all/send_redirects", "conf/default/send_redirects"]
    {
        set(&format!("ipv4/{key}"), "0")?;
    }
    // Without router solicitations and listener reports, only packets of the scenario pass a link.
    if Path::new("/proc/sys/net/ipv6").exists() {
        set("ipv6/conf/all/disable_ipv6", "1")?;
        set("ipv6/conf/default/disable_ipv6", "1")?;
    }
    if matches!(place, Place::Router(_)) {
        return set("ipv4/ip_forward", "1");
    }
    let host = &scenario.host;
    let timestamps = scenario.workload.entries.first().is_none_or(|entry| entry.tcp.timestamps);
    let (rmem, wmem) = (host.rmem.unwrap_or(BUFFER), host.wmem.unwrap_or(BUFFER));
    set("ipv4/tcp_rmem", &format!("4096 {} {rmem}", rmem.min(131_072)))?;
    set("ipv4/tcp_wmem", &format!("4096 {} {wmem}", wmem.min(16_384)))?;
    if let Some(entry) = scenario.workload.entries.first() {
        set("ipv4/tcp_comp_sack_nr", &entry.tcp.comp_sack_nr.to_string())?;
    }
    set("ipv4/tcp_timestamps", if timestamps { "1" } else { "0" })?;
    // Connections inherit no metrics from earlier ones.
    set("ipv4/tcp_no_metrics_save", "1")?;
    set("ipv4/tcp_fastopen", "0")?;
    // Connections never give up, as in the simulator.
    for (key, value) in [
        ("tcp_syn_retries", "127"),
        ("tcp_synack_retries", "127"),
        ("tcp_retries2", "255"),
        ("tcp_orphan_retries", "255"),
        ("tcp_max_syn_backlog", "65535"),
        ("tcp_syncookies", "0"),
        // The accepting side sends with the DSCP of the SYN.
        ("tcp_reflect_tos", "1"),
        // The program is in group 0, the only one that a user namespace of one user has.
        ("ping_group_range", "0 0"),
        ("icmp_ratemask", "0"),
    ] {
        set(&format!("ipv4/{key}"), value)?;
    }
    set("core/somaxconn", "65535")
}

fn build(spaces: &mut Spaces, network: &Network, scenario: &Scenario, mode: Mode) -> io::Result<()> {
    spaces.inside(None, || link::lines(network, mode.link).iter().try_for_each(|line| link::tell(line)))?;
    for End { name, mac, place, .. } in network.cables.iter().flatten() {
        spaces.move_device(name, *mac, *place)?;
        spaces.inside(Some(*place), || offloads(name, os::SEGMENTATION, scenario.host.gso))?;
    }
    for end in network.cables.iter().flatten().filter(|end| end.nic().is_some_and(|nic| nic.bql)) {
        spaces.inside(Some(end.place), || count::show(&end.name))?;
    }
    let lo = Setting::Device { device: "lo".to_owned(), mtu: None, gso_max_segs: None, up: true };
    for &place in &network.places {
        spaces.apply(Some(place), &lo)?;
    }
    for (place, setting) in network.routes(scenario) {
        spaces.apply(Some(place), &setting)?;
    }
    let mut lines: BTreeMap<Place, Vec<String>> = BTreeMap::new();
    for end in network.cables.iter().flatten() {
        let Transmit::Hop(_, link) = &end.transmit else { continue };
        lines.entry(end.place).or_default().extend(topology::discipline(&end.name, link, mode.link, network.mtu));
        let Some(impair) = &link.impair else { continue };
        let far = network.other(end);
        let (settings, more) = topology::impairments(&end.name, &far.name, impair, network.mtu);
        settings.iter().try_for_each(|setting| spaces.apply(Some(far.place), setting))?;
        // The probe records what netem drops.
        let line = format!("impair {} {}", end.name, topology::detour(&end.name));
        spaces.inside(Some(far.place), || link::tell(&line))?;
        lines.entry(far.place).or_default().extend(more);
    }
    lines.iter().try_for_each(|(place, lines)| spaces.tc(Some(*place), lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_model::plan::{LoadOptions, Plan};

    #[test]
    fn what_a_guest_lost_makes_its_run_invalid() {
        let netstat = |pressures: u32| {
            format!("TcpExt: SyncookiesSent TCPMemoryPressures\nTcpExt: 0 {pressures}\nIpExt: InNoRoutes\nIpExt: 0\n")
        };
        assert_eq!(memory_pages("MemTotal:     1010000 kB\nMemFree: 7 kB\n"), 252_500);
        assert!(check_memory(&netstat(0)).is_ok());
        assert!(check_memory(&netstat(2)).is_err_and(|error| error.to_string().contains("TCPMemoryPressures = 2")));
        assert!(check_backlog("000004d2 00000000 0 0\n").is_ok());
        assert!(check_backlog("000004d2 0000000a 0 0\n").is_err_and(|error| error.to_string().contains("10 packets")));
    }

    #[test]
    fn what_the_devices_tell_of_losses_and_lateness_makes_a_run_invalid() {
        let text = "duration = \"1s\"\n[[hop]]\nrate = \"10mbit\"\n[[flow]]\nkind = \"bulk\"\nrtt = \"40ms\"\n";
        let plan = |text: String| {
            let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
            plan.scenario(0).expect("a sound run")
        };
        let scenario = plan(text.to_owned());
        let sound = "lost 0\nlate_ns 1000000\nh0 packets 7 bytes 900 busy_ns 8 stalled_ns 100000 drops 0\n";
        assert!(check_devices(sound, &scenario).is_ok());
        let says = |line: &str, why: &str| {
            check_devices(&format!("{sound}{line}\n"), &scenario).is_err_and(|error| error.to_string().contains(why))
        };
        assert!(says("lost 3", "the probe lost 3 records"));
        assert!(says("late_ns 1000001", "1000001 ns late"));
        let stalled = "hop0r packets 7 bytes 900 busy_ns 8 stalled_ns 100001 drops 0";
        assert!(says(stalled, "device hop0r stood still for 100001 ns while packets waited"));
        let shaped = plan(text.replace("10mbit\"", "10mbit\"\nqdisc = \"tbf rate 9mbit burst 10k latency 50ms\""));
        assert!(check_devices(stalled, &shaped).is_ok(), "a shaper lets packets wait by intention");
        assert!(says(
            "h1 packets 7 bytes 900 busy_ns 8 stalled_ns 0 drops 2",
            "device h1 dropped 2 packets that no queue held"
        ));
    }
}
