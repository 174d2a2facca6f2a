//! Finds the random inputs of a run in the simulator. A run that has none is the same for all seeds.
//!
//! Three things depend on the seed: the drawn workload (starts, sizes, base RTTs), disciplines and impairments that use
//! random numbers, and flow hashes. A discipline counts as random if it uses random numbers or flow hashes at all, even
//! where they happen not to matter. A discipline from outside always counts as random, because nobody can tell.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};

use sojourn_core::qdisc::tc::{NAMES, Spec};
use sojourn_core::tcp::Cc;

use crate::scenario::Scenario;
use crate::workload::{App, Workload};

/// Disciplines that use neither random numbers nor flow hashes.
const STEADY: [&str; 8] = ["noqueue", "pfifo", "bfifo", "pfifo_head_drop", "codel", "prio", "tbf", "htb"];

/// Returns the random inputs of a run, found by comparing its scenario for two seeds. Each is a phrase for messages.
pub(crate) fn between(one: &Scenario, other: &Scenario) -> Vec<String> {
    let mut found = Vec::new();
    if digest(&one.workload) != digest(&other.workload) {
        found.push("the traffic (starts, sizes or base RTTs)".to_owned());
    }
    let links: Vec<_> = (0..one.hops.len() * 2).map(|index| one.link(index)).collect();
    if links.iter().any(|link| link.impair.is_some()) {
        found.push("impairments".to_owned());
    }
    let lines: Vec<String> = links.iter().flat_map(|link| link.qdiscs()).map(ToString::to_string).collect();
    // The line of a shaper also names the discipline inside it.
    let words = lines.iter().flat_map(|line| line.split_whitespace());
    let kinds: BTreeSet<&str> = words.filter(|word| NAMES.contains(word) && !STEADY.contains(word)).collect();
    found.extend(kinds.into_iter().map(|kind| format!("{kind}'s hashes or random numbers")));
    let mut qdiscs = links.iter().flat_map(|link| link.qdiscs());
    if let Some(outside) = qdiscs.find(|spec| matches!(spec, Spec::External(_))) {
        found.push(format!("whatever {} draws from its seed", outside.kind()));
    }
    let entries = || one.workload.entries.iter();
    if entries().any(|entry| matches!(entry.tcp.cc, Cc::Bbr | Cc::Bbr3)) {
        found.push("when BBR probes".to_owned());
    }
    if entries().any(|entry| matches!(entry.app, App::Rpm(_))) {
        found.push("when responsiveness is probed".to_owned());
    }
    found
}

/// Returns a digest of everything that is drawn. It leaves out the flow hashes of tunnels, because only disciplines use
/// them.
fn digest(workload: &Workload) -> u64 {
    let mut sum = Sum(DefaultHasher::new());
    for entry in &workload.entries {
        let unhashed = crate::workload::Entry { tunnel: None, ..entry.clone() };
        write!(sum, "{unhashed:?}").expect("a digest takes any text");
    }
    sum.0.finish()
}

struct Sum(DefaultHasher);

impl Write for Sum {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{LoadOptions, Plan};

    fn draws(hop: &str, flow: &str) -> Vec<String> {
        let text = format!(
            "duration = \"1s\"\n[[hop]]\nname = \"a\"\nrate = \"1mbit\"\ndelay = \"10ms\"\n{hop}\n[[flow]]\n{flow}\n"
        );
        Plan::load("a.toml", text.as_bytes(), &LoadOptions::default()).unwrap().draws(0).unwrap()
    }

    #[test]
    fn a_fifo_or_codel_below_fixed_traffic_draws_nothing() {
        for hop in
            ["qdisc = \"pfifo limit 10\"", "qdisc = \"codel\"", "qdisc = \"tbf rate 1mbit burst 10kb limit 100kb\""]
        {
            assert_eq!(draws(hop, "kind = \"bulk\""), [""; 0], "{hop}");
        }
        assert_eq!(draws("qdisc = \"codel\"", "kind = \"bulk\"\ncount = 2\nrtt = [\"40ms\", \"50ms\"]"), [""; 0]);
        assert_eq!(draws("qdisc = \"codel\"", "kind = \"bulk\"\ntunnel = \"t\""), [""; 0]);
    }

    #[test]
    fn each_source_of_chance_is_named() {
        let steady = "qdisc = \"pfifo\"";
        for (hop, flow, word) in [
            ("qdisc = [[\"0s\", \"codel\"], [\"500ms\", \"pie\"]]", "kind = \"bulk\"", "pie"),
            (steady, "kind = \"bulk\"\nstart = \"uniform 0s..100ms\"", "traffic"),
            (steady, "kind = \"web\"\nrate = 5", "traffic"),
            (steady, "kind = \"sizes\"\nrate = 5", "traffic"),
            (steady, "kind = \"bulk\"\ncc = \"bbr\"", "BBR"),
            (steady, "kind = \"rpm\"", "responsiveness"),
            ("qdisc = \"fq_codel\"", "kind = \"bulk\"", "fq_codel"),
            ("qdisc = \"pie\"", "kind = \"bulk\"", "pie"),
            ("qdisc = \"red limit 100kb min 10kb max 30kb avpkt 1000\"", "kind = \"bulk\"", "red"),
            ("reverse = { qdisc = \"sfq\" }", "kind = \"bulk\"", "sfq"),
            ("impair = \"loss 1%\"", "kind = \"bulk\"", "impairments"),
        ] {
            let found = draws(hop, flow);
            assert!(found.iter().any(|one| one.contains(word)), "{hop} {flow}: {found:?}");
        }
    }
}
