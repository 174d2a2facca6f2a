//! Features of a scenario that a real kernel does not support, reported before anything runs.

use sojourn_core::qdisc::fq_codel;
use sojourn_core::qdisc::linux::{Version, in_linux};
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::tcp::{AckPolicy, Cc, HyStart, Recovery, Windows};
use sojourn_model::scenario::{Capacity, Link, Scenario};
use sojourn_model::workload::stream::Transport;
use sojourn_model::workload::{App, Entry};

use crate::job::{LinkKind, Mode};
use crate::{modules, topology};

/// The kernel that is to run a scenario.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Major and minor version.
    pub version: Version,
    /// The names of our modules that are available.
    pub modules: Vec<String>,
}

/// Upper limit on the entries of `flows`: each needs a 16-bit address of its own.
const MOST_ENTRIES: usize = 60_000;
/// Upper limit on the datagrams and echo requests that all flows together send in a second. With more of them, the guest's
/// links stand still between packets.
const MOST_DATAGRAMS: f64 = 3e6;
/// Range of the MSS that a socket accepts (`TCP_MAXSEG`), in bytes, timestamps included.
const MSS: std::ops::RangeInclusive<u32> = 88..=32_767;
/// The largest MTU of a device, in bytes.
const LARGEST_MTU: u32 = 65_535;

/// Returns the reason why this kernel cannot run the scenario; `None` if it can.
pub fn refusal(scenario: &Scenario, kernel: &Kernel, mode: Mode) -> Option<String> {
    let links = (0..scenario.hops.len() * 2)
        .find_map(|index| link(scenario.link(index), kernel, mode).map(|why| (scenario.link_name(index), why)));
    if let Some((name, why)) = links {
        return Some(format!("hop {name}: {why}"));
    }
    let pauses = |index: &usize| scenario.link(*index).pause.is_some();
    if let Some(index) = (0..scenario.hops.len() * 2).find(pauses).filter(|_| scenario.host.gso) {
        let name = scenario.link_name(index);
        return Some(format!("hop {name}: pause: not with gso, whose packets are longer than its headroom expects"));
    }
    scenario.workload.refusal_of_programs().or_else(|| flows(scenario)).or_else(|| datagrams(scenario))
}

/// Returns why the guest cannot send the scenario's datagrams at their times; `None` if it can.
fn datagrams(scenario: &Scenario) -> Option<String> {
    let a_second = |entry: &Entry| match &entry.app {
        App::Stream(stream) if stream.transport == Transport::Udp => 1.0 / stream.interval.as_secs_f64(),
        App::Pings { interval, .. } => 1.0 / interval.as_secs_f64(),
        _ => 0.0,
    };
    let all: f64 = scenario.workload.entries.iter().map(a_second).sum();
    let million = |number: f64| (number / 1e5).round() / 10.0;
    (all > MOST_DATAGRAMS).then(|| {
        format!(
            "flows: {} million datagrams a second: the guest's links are exact up to {} million: expected lower rates, or \
             larger packets",
            million(all),
            million(MOST_DATAGRAMS)
        )
    })
}

/// Returns the reason why real hosts cannot play the scenario's flows; `None` if they can.
pub fn flows(scenario: &Scenario) -> Option<String> {
    if scenario.workload.entries.len() > MOST_ENTRIES {
        return Some(format!("{} flows: at most {MOST_ENTRIES}", scenario.workload.entries.len()));
    }
    if scenario.host.tsq.is_some() {
        return Some(
            "host tsq: the hosts' devices take each packet from its socket at once: nothing waits there".into(),
        );
    }
    let entries = &scenario.workload.entries;
    // All senders to a user look up the same route.
    let of_user = |one: &Entry| {
        let user = one.user.filter(|_| one.has_tcp())?;
        let sibling = |other: &&Entry| other.user.is_some_and(|other| other.first == user.first) && other.has_tcp();
        let first = entries[user.first..].iter().filter(sibling).find(|other| other.via.0 == one.via.0)?;
        (topology::metrics(one) != topology::metrics(first)).then(|| {
            format!(
                "user: iw, ecn, rwnd or acks differ from those of flow {}: Linux keeps them by the address of a host",
                first.name
            )
        })
    };
    entries.iter().find_map(|one| entry(one).or_else(|| of_user(one)).map(|why| format!("flow {}: {why}", one.name)))
}

fn link(link: &Link, kernel: &Kernel, mode: Mode) -> Option<String> {
    let qdiscs = || link.qdiscs().flat_map(Spec::chain).find_map(|spec| qdisc(link, spec, kernel, mode));
    let shaped = mode.link != LinkKind::Device;
    match link {
        _ if link.flush => Some("flush: no discipline of Linux learns that its link has become slower".into()),
        _ if shaped && link.pause.is_some() => Some(format!("pause: not with {}", mode.link.name())),
        _ if shaped && link.nic.is_some() => Some(format!("nic: not with {}", mode.link.name())),
        _ if shaped && matches!(link.rate, Capacity::Trace(_)) => {
            Some(format!("a trace: not with {}", mode.link.name()))
        }
        _ => qdiscs(),
    }
}

/// Returns the reason why this kernel does not have the discipline, or not on this link.
fn qdisc(link: &Link, spec: &Spec, kernel: &Kernel, mode: Mode) -> Option<String> {
    let module = in_linux(spec.kind())
        .and_then(|entry| entry.module(spec.variant()))
        .filter(|module| !kernel.modules.iter().any(|name| name == module.name));
    match spec {
        Spec::External(_) if modules::has(&kernel.modules, spec) => None,
        Spec::External(_) => Some(format!("{}: no module of this name is given (--qdisc-module)", spec.kind())),
        spec if foreign(spec, kernel.version).is_some() => foreign(spec, kernel.version),
        spec if module.is_some() => Some(format!("{}: its module is not there", spec.kind())),
        Spec::FqCodel(params)
            if link.pause.is_some() && params.memory_limit != fq_codel::Params::default().memory_limit =>
        {
            Some("pause: not with a memory_limit, which the kernel compares with more than the packets' bytes".into())
        }
        Spec::Noqueue(_) if mode.link != LinkKind::Device => Some(format!("noqueue: not below {}", mode.link.name())),
        _ => None,
    }
}

/// Returns the reason why a kernel of this version does not have the discipline, or why the guest cannot set it up;
/// `None` if there is no reason.
pub fn foreign(spec: &Spec, version: Version) -> Option<String> {
    spec.lacking_in(version).or_else(|| match spec {
        Spec::Red(params) if params.adaptive => {
            Some("red adaptive: tc hands it over in a way in which the kernel's timer does not start".into())
        }
        _ => None,
    })
}

fn entry(entry: &Entry) -> Option<String> {
    if entry.tunnel.is_some() {
        return Some("tunnel: a real packet's flow key is in its headers".into());
    }
    if let App::Pings { bytes, .. } = entry.app {
        return (bytes > LARGEST_MTU).then(|| format!("pings of {bytes} bytes"));
    }
    if let App::Stream(stream) = &entry.app
        && !entry.has_tcp()
    {
        return (stream.bytes > LARGEST_MTU).then(|| format!("packets of {} bytes", stream.bytes));
    }
    let tcp = &entry.tcp;
    let told = tcp.mss + tcp.header - 40;
    match (tcp.cc, tcp.acks) {
        (Cc::Fixed(_), _) => Some("cc fixed: Linux has no window that never changes".into()),
        (Cc::Bbr3, _) => Some("cc bbr3: Linux's own bbr is version 1".into()),
        (cc, _) if cc.linux_name().is_none() => Some(format!("cc {cc}: Linux has none")),
        (_, AckPolicy::Window(_)) => Some("acks window: Linux acknowledges every second segment or each".into()),
        _ if tcp.gro_flush_timeout.0 > 0 => {
            Some("gro_flush_timeout: the guest's devices hand each packet up by itself".into())
        }
        _ if tcp.hystart == HyStart::Plus => Some("hystart plus: Linux has HyStart, not HyStart++".into()),
        _ if tcp.recovery == Recovery::Rfc6675 => Some("recovery rfc6675: Linux's TCP recovers by RACK".into()),
        _ if tcp.windows == Windows::Rfc => Some("windows rfc: Linux counts whole segments".into()),
        _ if !tcp.rto_min.0.is_multiple_of(1_000_000) => {
            Some(format!("rto_min {}: whole milliseconds only", tcp.rto_min))
        }
        _ if !MSS.contains(&told) => Some(format!(
            "mss {}: a socket takes from {} to {}",
            tcp.mss,
            MSS.start() + 40 - tcp.header,
            MSS.end() + 40 - tcp.header
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_model::plan::{LoadOptions, Plan};

    #[test]
    fn more_datagrams_than_a_guest_can_send_are_refused_whatever_their_size() {
        let refusal = |flows: &str| {
            let text = format!("duration = \"1ms\"\n[[hop]]\nrate = \"100gbit\"\ndelay = \"1ms\"\n{flows}");
            let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
            datagrams(&plan.scenario(0).expect("a sound run"))
        };
        let cbr = |rate: &str, size| format!("[[flow]]\nkind = \"cbr\"\nrate = \"{rate}\"\nsize = {size}\n");
        assert_eq!(refusal(&cbr("1.1gbit", 50)), None);
        assert_eq!(refusal(&cbr("29gbit", 1250)), None);
        let small = refusal(&cbr("1.3gbit", 50)).expect("a reason");
        assert!(small.contains("3.2 million datagrams a second"), "{small}");
        assert!(refusal(&cbr("40gbit", 1250)).is_some());
        assert!(refusal(&cbr("1gbit", 50).repeat(2)).is_some(), "all flows together");
        assert_eq!(refusal("[[flow]]\nkind = \"bulk\"\n"), None);
    }
}
