//! Features of a scenario that this world does not have, reported before anything runs.

use std::fs;

use sojourn_core::qdisc::tc::Spec;
use sojourn_core::tcp::HyStart;
use sojourn_model::scenario::{Link, Scenario};
use sojourn_traffic::express;

/// The parts of this host that runs depend on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The congestion controls of its kernel, by Linux's names.
    pub congestion_controls: Vec<String>,
    /// The parameter `hystart` of its module tcp_cubic; `None` if the module does not show it.
    pub hystart: Option<bool>,
}

impl Host {
    /// Reads the kernel's settings.
    pub fn read() -> Host {
        let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        let hystart = fs::read_to_string("/sys/module/tcp_cubic/parameters/hystart").ok();
        Host {
            congestion_controls: available.split_ascii_whitespace().map(str::to_owned).collect(),
            hystart: hystart.map(|text| text.trim() != "0"),
        }
    }
}

/// Returns the reason why this host cannot play the scenario; `None` if it can.
pub fn refusal(scenario: &Scenario, host: &Host) -> Option<String> {
    let of_link = |index| link(scenario.link(index)).map(|why| format!("hop {}: {why}", scenario.link_name(index)));
    (0..scenario.hops.len() * 2)
        .find_map(of_link)
        .or_else(|| express::flows(scenario))
        .or_else(|| flows(scenario, host))
}

fn link(link: &Link) -> Option<String> {
    if link.pause.is_some() {
        return Some("pause: the live world has no flow control; expected --world sim or kernel".into());
    }
    link.qdiscs().flat_map(Spec::chain).find_map(|spec| match spec {
        Spec::Linux(_) => Some(format!("{}: only the kernel has it; expected --world kernel", spec.kind())),
        Spec::External(_) => Some(format!("{}: a discipline of yours; expected --world sim or kernel", spec.kind())),
        _ => None,
    })
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
        let text = format!(
            "duration = \"1s\"\n[[hop]]\nrate = \"1mbit\"\n{hop}\n[[flow]]\nkind = \"bulk\"\nrtt = \"9ms\"\n{flow}\n"
        );
        let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        let host = Host { congestion_controls: vec!["reno".into(), "cubic".into()], hystart: Some(true) };
        refusal(&plan.scenario(0).expect("a sound run"), &host)
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
