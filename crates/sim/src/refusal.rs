//! Features of a scenario that the simulator does not support, reported before anything runs.

use sojourn_core::qdisc::tc::Spec;
use sojourn_core::tcp::Cc;
use sojourn_model::scenario::Scenario;

use crate::topology::{MOST_CLASSES, Topology};

/// Returns the reason why the simulator cannot run the scenario; `None` if it can.
pub fn refusal(scenario: &Scenario) -> Option<String> {
    let link = |index: usize| {
        let linux = scenario.link(index).qdiscs().find(|spec| matches!(spec, Spec::Linux(_)))?;
        let (hop, kind) = (scenario.link_name(index), linux.kind());
        Some(format!("hop {hop}: {kind} is not built yet in the simulator"))
    };
    let flows = || {
        scenario.workload.entries.iter().find_map(|entry| match entry.tcp.cc {
            Cc::Linux(name) => Some(format!("flow {}: cc {name} is not built yet in the simulator", entry.name)),
            _ => None,
        })
    };
    let classes = || {
        let classes = match scenario.workload.entries.len() > MOST_CLASSES {
            true => Topology::new(scenario).steady.len(),
            false => 0,
        };
        (classes > MOST_CLASSES)
            .then(|| format!("flows: {classes} different paths, delays or hosts; at most {MOST_CLASSES} are built"))
    };
    (0..scenario.hops.len() * 2).find_map(link).or_else(flows).or_else(classes)
}
