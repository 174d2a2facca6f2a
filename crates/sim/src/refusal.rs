//! Features of a scenario that the simulator does not support, reported before anything runs.

use sojourn_core::qdisc::tc::Spec;
use sojourn_core::tcp::Cc;
use sojourn_model::scenario::Scenario;

use crate::topology::{MOST_CLASSES, Topology};

/// Returns the reason why the simulator cannot run the scenario; `None` if it can. `given` are the names of the
/// disciplines from outside that there are.
pub fn refusal(scenario: &Scenario, given: &[impl AsRef<str>]) -> Option<String> {
    let link = |index: usize| {
        let lacking = |spec: &Spec| match spec {
            Spec::Linux(_) => Some("is not built yet in the simulator"),
            Spec::External(line) if !given.iter().any(|name| name.as_ref() == line.name()) => {
                Some("is a discipline of yours, and this world was not given it")
            }
            _ => None,
        };
        let (kind, why) = scenario.link(index).qdiscs().find_map(|spec| Some((spec.kind(), lacking(spec)?)))?;
        Some(format!("hop {}: {kind} {why}", scenario.link_name(index)))
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
    let programs = || scenario.workload.refusal_of_programs();
    (0..scenario.hops.len() * 2).find_map(link).or_else(programs).or_else(flows).or_else(classes)
}
