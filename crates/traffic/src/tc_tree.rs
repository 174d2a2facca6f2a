//! The `tc` commands that set up a discipline, with the class and the child of a shaper.
//!
//! This module is pure. A line such as `htb rate 10mbit child fq_codel` is three commands: the discipline, its class, and the
//! discipline below the class.

use sojourn_core::qdisc::linux::for_plugin;
use sojourn_core::qdisc::tc::Spec;

/// The limit in bytes of a tbf with a child. `tc` requires one, although it only limits the FIFO that the child replaces.
const REPLACED_FIFO: u32 = 1_000_000;

/// The place of a discipline.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    /// The name of the device.
    pub device: &'a str,
    /// `root`, or `parent` and a class.
    pub parent: &'a str,
    /// The major number of the discipline's handle. The number of a child is sixteen times the number of its shaper.
    pub handle: u32,
    /// The size table (`stab`), with a space before it; empty if there is none.
    pub stab: &'a str,
}

/// Returns the arguments of `tc` that attach a discipline, in order. `verb` is `add` or `replace`.
pub fn commands(verb: &str, slot: Slot<'_>, spec: &Spec) -> Vec<String> {
    let Slot { device, parent, handle, stab } = slot;
    let head = format!("qdisc {verb} dev {device} {parent} handle {handle:x}:{stab}");
    let class = format!("parent {handle:x}:1");
    let below = |child: &Spec| commands("add", Slot { device, parent: &class, handle: handle * 16, stab: "" }, child);
    match spec {
        Spec::Htb(params) => {
            let mut all = vec![
                format!("{head} htb default 1"),
                format!("class add dev {device} parent {handle:x}: classid {handle:x}:1 {}", alone(&spec.to_string())),
            ];
            match params.child.as_deref() {
                Some(child) => all.extend(below(child)),
                None => all.push(format!("qdisc add dev {device} {class} pfifo limit 1000")),
            }
            all
        }
        Spec::Tbf(params) => {
            let Some(child) = params.child.as_deref() else { return vec![format!("{head} {}", line(spec))] };
            let limit = match (params.limit, params.latency) {
                (None, None) => format!(" limit {REPLACED_FIFO}"),
                _ => String::new(),
            };
            let mut all = vec![format!("{head} {}{limit}", alone(&spec.to_string()))];
            all.extend(below(child));
            all
        }
        _ => vec![format!("{head} {}", line(spec))],
    }
}

/// Returns a discipline's arguments for `tc`. Those of a discipline of ours are for our plug-in.
fn line(spec: &Spec) -> String {
    spec.tc_line().unwrap_or_else(|| for_plugin(&spec.to_string(), spec.variant()))
}

/// Returns a shaper's line without its child.
fn alone(line: &str) -> &str {
    line.split_once(" child ").map_or(line, |(own, _)| own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(line: &str) -> Vec<String> {
        let spec = line.parse().expect("a sound line");
        commands("add", Slot { device: "eth0", parent: "root", handle: 1, stab: " stab overhead 4" }, &spec)
    }

    #[test]
    fn a_shaper_is_several_commands() {
        assert_eq!(all("codel limit 9"), ["qdisc add dev eth0 root handle 1: stab overhead 4 codel limit 9"]);
        assert_eq!(
            all("htb rate 8mbit child tbf rate 7mbit burst 3000 child codel limit 9"),
            [
                "qdisc add dev eth0 root handle 1: stab overhead 4 htb default 1",
                "class add dev eth0 parent 1: classid 1:1 htb rate 8mbit",
                "qdisc add dev eth0 parent 1:1 handle 10: tbf rate 7mbit burst 3000 limit 1000000",
                "qdisc add dev eth0 parent 10:1 handle 100: codel limit 9",
            ]
        );
        assert_eq!(all("htb rate 8mbit")[2], "qdisc add dev eth0 parent 1:1 pfifo limit 1000");
        assert_eq!(all("tbf rate 8mbit burst 3000 limit 9000").len(), 1);
    }

    #[test]
    fn the_kernel_knows_a_variant_of_ours_by_a_kind_of_its_own() {
        assert_eq!(
            all("ccaq limit 9 variant paper"),
            ["qdisc add dev eth0 root handle 1: stab overhead 4 ccaq_paper limit 9"]
        );
    }
}
