//! Features of a scenario that this world does not have, reported before anything runs.

use std::fs;

use sojourn_core::qdisc::linux::Version;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::tcp::HyStart;
use sojourn_model::scenario::{Capacity, Link, Scenario};
use sojourn_traffic::express;

use crate::queue::Owner;

/// The parts of this host that runs depend on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The congestion controls of its kernel, by Linux's names.
    pub congestion_controls: Vec<String>,
    /// Major and minor version of its kernel.
    pub version: Version,
    /// The parameter `hystart` of its module tcp_cubic; `None` if the module does not show it.
    pub hystart: Option<bool>,
}

impl Host {
    /// Reads the kernel's settings.
    pub fn read() -> Host {
        let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        let hystart = fs::read_to_string("/sys/module/tcp_cubic/parameters/hystart").ok();
        Host {
            version: version_of(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()),
            congestion_controls: available.split_ascii_whitespace().map(str::to_owned).collect(),
            hystart: hystart.map(|text| text.trim() != "0"),
        }
    }
}

/// Reads a version from the kernel's release: (6, 12) from `6.12.3-generic`. Text in place of a number counts as zero.
fn version_of(release: &str) -> Version {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Returns the reason why this host cannot play the scenario; `None` if it can. Whether its kernel has the disciplines is
/// not asked here.
pub fn refusal(scenario: &Scenario, host: &Host, owner: Owner) -> Option<String> {
    let of_link =
        |index| link(scenario.link(index), host, owner).map(|why| format!("hop {}: {why}", scenario.link_name(index)));
    (0..scenario.hops.len() * 2)
        .find_map(of_link)
        .or_else(|| express::flows(scenario))
        .or_else(|| flows(scenario, host))
}

fn link(link: &Link, host: &Host, owner: Owner) -> Option<String> {
    if link.pause.is_some() {
        return Some("pause: the live world has no flow control; expected --world sim or kernel".into());
    }
    if owner == Owner::Tc {
        return link_of_kernel(link, host.version);
    }
    link.qdiscs().flat_map(Spec::chain).find_map(|spec| match spec {
        Spec::Linux(_) => Some(format!("{}: only the kernel has it; expected --world kernel", spec.kind())),
        Spec::External(_) => Some(format!("{}: a discipline of yours; expected --world sim or kernel", spec.kind())),
        _ => None,
    })
}

/// Returns the reason why the kernel's own queue cannot be this link's.
fn link_of_kernel(link: &Link, version: Version) -> Option<String> {
    const OURS: &str = "not with --engine tc, whose rate is that of htb; expected --engine ours";
    match link {
        _ if link.nic.is_some() => Some(format!("nic: {OURS}")),
        _ if matches!(link.rate, Capacity::Trace(_)) => Some(format!("rate: a trace: {OURS}")),
        _ if link.flush => Some("flush: no discipline of Linux learns that its link has become slower".into()),
        _ => link.qdiscs().flat_map(Spec::chain).find_map(|spec| match spec {
            Spec::Linux(_) => Some(format!("{}: it must be at the root; expected --world kernel", spec.kind())),
            Spec::Noqueue(_) => {
                Some("noqueue: not with --engine tc, which has htb at the root; expected --engine ours".into())
            }
            Spec::External(_) => {
                Some(format!("{}: a discipline of yours; expected --world sim or kernel", spec.kind()))
            }
            _ => express::foreign(spec, version),
        }),
    }
}

fn flows(scenario: &Scenario, host: &Host) -> Option<String> {
    for entry in scenario.workload.entries.iter().filter(|entry| entry.has_tcp()) {
        let name = entry.tcp.cc.linux_name().unwrap_or_default();
        if !host.congestion_controls.iter().any(|known| known == name) {
            let known = host.congestion_controls.join(", ");
            return Some(format!(
                "flow {}: cc {}: this host's kernel has {known}; modprobe tcp_{name} may add it",
                entry.name, entry.tcp.cc
            ));
        }
        let asked = entry.tcp.hystart != HyStart::Off;
        if name == "cubic" && host.hystart.is_some_and(|has| has != asked) {
            let (is, not) = if asked { ("off", "on") } else { ("on", "off") };
            return Some(format!("flow {}: hystart {not}: CUBIC of this host has it {is}, for all", entry.name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_model::plan::{LoadOptions, Plan};

    fn refused(hop: &str, flow: &str) -> Option<String> {
        refused_by(Owner::Ours, hop, flow)
    }

    fn refused_by(owner: Owner, hop: &str, flow: &str) -> Option<String> {
        let text = format!(
            "duration = \"1s\"\n[[hop]]\nrate = \"1mbit\"\n{hop}\n[[flow]]\nkind = \"bulk\"\nrtt = \"9ms\"\n{flow}\n"
        );
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        let congestion_controls = vec!["reno".into(), "cubic".into()];
        let host = Host { congestion_controls, version: (6, 1), hystart: Some(true) };
        refusal(&plan.scenario(0).expect("a sound run"), &host, owner)
    }

    #[test]
    fn the_kernels_own_queues_have_limits_that_are_named() {
        for line in ["pfifo limit 50", "fq_codel limit 100", "tbf rate 1mbit burst 5kb limit 9000 child codel"] {
            assert_eq!(refused_by(Owner::Tc, &format!("qdisc = \"{line}\""), ""), None, "{line}");
        }
        assert_eq!(refused_by(Owner::Tc, "impair = \"loss 1%\"", ""), None);
        for (hop, said) in [
            ("nic = { ring = 5 }", "nic: not with --engine tc"),
            ("qdisc = \"noqueue\"", "noqueue: not with --engine tc"),
            ("qdisc = \"hhf\"", "hhf: it must be at the root; expected --world kernel"),
            ("qdisc = \"blue\"", "blue: Linux has none"),
            ("qdisc = \"dualpi2\"", "dualpi2: Linux has it since 6.17, this kernel is Linux 6.1"),
            ("qdisc = \"codel variant ns2\"", "variant ns2"),
        ] {
            let why = refused_by(Owner::Tc, hop, "").unwrap_or_default();
            assert!(why.contains(said), "{hop}: {why}");
        }
    }

    #[test]
    fn a_release_begins_with_the_version() {
        assert_eq!((version_of("6.12.3-generic"), version_of("7.1-rc2"), version_of("")), ((6, 12), (7, 1), (0, 0)));
    }

    #[test]
    fn a_refusal_names_the_key_and_what_this_host_has() {
        assert_eq!(refused("qdisc = \"tbf rate 1mbit burst 5kb limit 9000 child fq_codel\"", ""), None);
        assert_eq!(refused("", "[[flow]]\nkind = \"command\"\ncommand = \"ls\"\nrtt = \"9ms\""), None);
        for (hop, flow, said) in [
            ("", "cc = \"bbr\"", "cc bbr: this host's kernel has reno, cubic; modprobe tcp_bbr"),
            ("", "[host]\nhystart = false", "hystart off: CUBIC of this host has it on"),
            ("", "tunnel = \"t\"", "tunnel"),
        ] {
            let why = refused(hop, flow).unwrap_or_default();
            assert!(why.contains(said), "{why}");
        }
    }
}
