//! One table, [`IN_LINUX`], of all disciplines that are in Linux: the versions and modules of the kernel that have
//! them, the versions of `tc` that know them, and the variants that follow Linux.

use alloc::format;
use alloc::string::String;

/// Major and minor version: 6.12 is (6, 12).
pub type Version = (u32, u32);

/// A version before all that are supported here.
const ALWAYS: Version = (0, 0);

/// A discipline in Linux: its versions, variants and modules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InLinux {
    /// The discipline's name.
    pub kind: &'static str,
    /// Which kernels have it.
    pub kernel: Kernel,
    /// Which `tc` knows it.
    pub tc: Tc,
    /// The variants that follow Linux, the oldest first, each with the first Linux version that it describes. Empty if
    /// the discipline has no variants.
    pub variants: &'static [(&'static str, Version)],
}

/// Which kernels have a discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// All from this version on.
    Since(Version),
    /// A kernel with this module of ours.
    Module(&'static str),
}

/// Which `tc` knows a discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tc {
    /// Every `tc`.
    Always,
    /// iproute2 from this version on; an older one needs a plugin of ours.
    Since(Version),
    /// Only a `tc` with a plugin of ours.
    Plugin,
}

const fn stock(kind: &'static str) -> InLinux {
    InLinux { kind, kernel: Kernel::Since(ALWAYS), tc: Tc::Always, variants: &[] }
}

impl InLinux {
    const fn variants(self, variants: &'static [(&'static str, Version)]) -> InLinux {
        InLinux { variants, ..self }
    }

    /// Returns the module of ours that a kernel needs for this discipline, if any.
    pub fn module(&self) -> Option<&'static str> {
        if let Kernel::Module(name) = self.kernel { Some(name) } else { None }
    }

    /// Returns the variant that behaves like this Linux version, and whether it differs from the oldest variant.
    pub fn variant(&self, linux: Version) -> Option<(&'static str, bool)> {
        let place = self.variants.iter().rposition(|(_, since)| *since <= linux)?;
        Some((self.variants[place].0, place > 0))
    }

    /// Returns the first Linux version that behaves like this variant; `None` if no version does.
    pub fn since(&self, variant: &str) -> Option<Version> {
        self.variants.iter().find(|(word, _)| *word == variant).map(|(_, since)| *since)
    }

    /// The reason why Linux of this version lacks the discipline or this variant of it. `None` if it has it, possibly
    /// with one of our modules.
    pub fn lacks(&self, variant: Option<&str>, (major, minor): Version) -> Option<String> {
        let kind = self.kind;
        match variant.map(|word| (word, self.since(word))) {
            Some((word, None)) => return Some(format!("variant {word}: the kernel's {kind} is Linux's")),
            Some((word, Some(since))) if (major, minor) < since => {
                return Some(format!("variant {word}: this kernel is Linux {major}.{minor}"));
            }
            _ => {}
        }
        match self.kernel {
            Kernel::Since((first, second)) if (major, minor) < (first, second) => {
                Some(format!("{kind}: Linux has it since {first}.{second}, this kernel is Linux {major}.{minor}"))
            }
            _ => None,
        }
    }
}

/// Every discipline of [`NAMES`](super::tc::NAMES) that is in Linux, in the order of that list.
pub const IN_LINUX: &[InLinux] = &[
    stock("noqueue"),
    stock("pfifo"),
    stock("bfifo"),
    stock("pfifo_head_drop"),
    stock("codel").variants(&[("linux", ALWAYS), ("linux7", (7, 0))]),
    stock("fq_codel").variants(&[("linux", ALWAYS), ("linux7", (7, 0))]),
    stock("fq").variants(&[("linux", ALWAYS), ("linux67", (6, 7))]),
    stock("red").variants(&[("linux", ALWAYS)]),
    stock("pie").variants(&[("linux", ALWAYS)]),
    stock("fq_pie"),
    InLinux { kind: "dualpi2", kernel: Kernel::Since((6, 17)), tc: Tc::Since((6, 18)), variants: &[("linux", ALWAYS)] },
    InLinux {
        kind: "ccaq",
        kernel: Kernel::Module("sch_ccaq"),
        tc: Tc::Plugin,
        variants: &[("servo", ALWAYS), ("paper", ALWAYS)],
    },
    stock("sfq").variants(&[("linux", ALWAYS)]),
    stock("prio"),
    stock("tbf"),
    stock("htb"),
    stock("choke"),
    stock("sfb"),
    stock("cake").variants(&[("linux", ALWAYS), ("linux612", (6, 12)), ("linux7", (7, 0))]),
];

/// The entry of a discipline, by its name; `None` if no Linux has it.
pub fn in_linux(kind: &str) -> Option<&'static InLinux> {
    IN_LINUX.iter().find(|entry| entry.kind == kind)
}

/// Returns the parts of ours that a `tc` line needs in Linux: the kernel module of its discipline, if any, and whether
/// `tc` needs a plugin. A shaper's child counts too.
pub fn needs(line: &str) -> (Option<&'static str>, bool) {
    let entries = || line.split_ascii_whitespace().filter_map(in_linux);
    (entries().find_map(InLinux::module), entries().any(|entry| matches!(entry.tc, Tc::Since(_) | Tc::Plugin)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tc::{NAMES, Spec, disciplines};
    use alloc::vec::Vec;

    #[test]
    fn every_discipline_that_tc_knows_has_an_entry_and_the_entries_have_the_order_of_the_list() {
        let known: Vec<&str> = NAMES.iter().copied().filter(|kind| in_linux(kind).is_some()).collect();
        assert_eq!(IN_LINUX.iter().map(|entry| entry.kind).collect::<Vec<_>>(), known);
        assert!(disciplines().iter().all(|one| !one.tc || known.contains(&one.name)));
    }

    #[test]
    fn every_variant_that_is_named_after_linux_has_its_version_and_tc_prints_no_other() {
        for discipline in disciplines() {
            let Some(entry) = in_linux(discipline.name) else { continue };
            let words = |spec: &Spec| spec.variant().map(|word| (word, entry.since(word)));
            let lines = discipline.params.iter().filter(|param| param.name == "variant").flat_map(|param| {
                param
                    .expects
                    .trim_start_matches("one of: ")
                    .split(", ")
                    .map(|word| format!("variant {word}"))
                    .collect::<Vec<_>>()
            });
            for line in lines {
                let required = if discipline.name == "red" { " limit 400000" } else { "" };
                let line = format!("{}{required} {line}", discipline.name);
                let spec: Spec = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
                let (word, since) = words(&spec).expect("a variant");
                assert_eq!(since.is_some(), word.starts_with("linux") || discipline.name == "ccaq", "{line}");
                assert!(entry.variants.is_sorted_by_key(|(_, since)| *since), "{line}");
            }
        }
    }

    #[test]
    fn a_kernel_says_what_it_lacks_of_a_line() {
        let lacks = |line: &str, linux| line.parse::<Spec>().expect(line).lacking_in(linux).unwrap_or_default();
        assert_eq!(lacks("codel variant linux7", (6, 12)), "variant linux7: this kernel is Linux 6.12");
        assert_eq!(lacks("codel variant linux7", (7, 0)), "");
        assert_eq!(lacks("codel variant rfc8289", (7, 3)), "variant rfc8289: the kernel's codel is Linux's");
        assert_eq!(lacks("cake variant linux612", (6, 6)), "variant linux612: this kernel is Linux 6.6");
        assert_eq!(lacks("dualpi2", (6, 16)), "dualpi2: Linux has it since 6.17, this kernel is Linux 6.16");
        assert_eq!(lacks("dualpi2", (6, 17)), "");
        assert_eq!(lacks("blue", (7, 3)), "blue: Linux has none");
        assert_eq!(lacks("ccaq variant paper", (6, 1)), "");
    }

    #[test]
    fn a_line_needs_what_its_disciplines_need() {
        assert_eq!(needs("fq_codel limit 600"), (None, false));
        assert_eq!(needs("htb rate 1mbit child dualpi2"), (None, true));
        assert_eq!(needs("ccaq limit 9"), (Some("sch_ccaq"), true));
        assert_eq!(needs("hhf"), (None, false));
    }
}
