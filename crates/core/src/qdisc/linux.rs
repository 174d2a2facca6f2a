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
    /// A kernel with a module of ours. Each variant has its own module; the first is that of the default variant.
    Modules(&'static [Module]),
}

/// A kernel module of ours with a queue discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Module {
    /// The variant of the discipline.
    pub variant: &'static str,
    /// The name by which the kernel and `tc` know the discipline: `ccaq_paper` is `ccaq variant paper`.
    pub kind: &'static str,
    /// The name of the module.
    pub name: &'static str,
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

    /// Returns the module of ours that a kernel needs for a variant of this discipline, if any. Without a variant it is
    /// that of the default.
    pub fn module(&self, variant: Option<&str>) -> Option<&'static Module> {
        let Kernel::Modules(modules) = self.kernel else { return None };
        modules.iter().find(|module| variant.is_none_or(|word| word == module.variant))
    }

    /// Returns the variant that behaves like this Linux version, and whether it differs from the oldest variant.
    pub fn variant(&self, linux: Version) -> Option<(&'static str, bool)> {
        let place = self.variants.iter().rposition(|(_, since)| *since <= linux)?;
        Some((self.variants[place].0, place > 0))
    }

    /// Returns the first Linux version that behaves like this variant; `None` if no version does.
    pub fn since(&self, variant: &str) -> Option<Version> {
        let stock = self.variants.iter().find(|(word, _)| *word == variant).map(|(_, since)| *since);
        stock.or_else(|| self.module(Some(variant)).map(|_| ALWAYS))
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

const CCAQ: [Module; 2] = [
    Module { variant: "servo", kind: "ccaq", name: "sch_ccaq" },
    Module { variant: "paper", kind: "ccaq_paper", name: "sch_ccaq_paper" },
];

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
    InLinux { kind: "ccaq", kernel: Kernel::Modules(&CCAQ), tc: Tc::Plugin, variants: &[] },
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
    let parts = || line.split(" child ").filter_map(|own| Some((in_linux(own.split_ascii_whitespace().next()?)?, own)));
    (
        parts().find_map(|(entry, own)| entry.module(variant_in(own))).map(|module| module.name),
        parts().any(|(entry, _)| matches!(entry.tc, Tc::Since(_) | Tc::Plugin)),
    )
}

/// Returns a line of a discipline of ours as `tc` with our plugin reads it: the kind of its module replaces the name
/// and the variant. A line of any other discipline is returned unchanged. A line that names no variant has `variant`.
pub fn for_plugin(line: &str, variant: Option<&str>) -> String {
    let name = line.split_ascii_whitespace().next().unwrap_or_default();
    let variant = variant_in(line).or(variant);
    let Some(module) = in_linux(name).and_then(|entry| entry.module(variant)) else { return line.into() };
    let mut words = line.split_ascii_whitespace().skip(1);
    let mut all = String::from(module.kind);
    while let Some(word) = words.next() {
        if word == "variant" {
            words.next();
        } else {
            all.extend([" ", word]);
        }
    }
    all
}

/// Returns our name of a discipline that the kernel knows by this kind: `ccaq` for `ccaq_paper`.
pub fn named(kind: &str) -> &str {
    let of = |entry: &&InLinux| matches!(entry.kernel, Kernel::Modules(all) if all.iter().any(|one| one.kind == kind));
    IN_LINUX.iter().find(of).map_or(kind, |entry| entry.kind)
}

/// The word after `variant` in a line.
fn variant_in(line: &str) -> Option<&str> {
    line.split_ascii_whitespace().skip_while(|word| *word != "variant").nth(1)
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
    fn each_variant_of_ccaq_has_a_module_and_a_kind_in_the_kernel() {
        let entry = in_linux("ccaq").expect("ccaq");
        assert_eq!(entry.module(None).map(|module| module.name), Some("sch_ccaq"));
        assert_eq!(entry.module(Some("paper")).map(|module| module.name), Some("sch_ccaq_paper"));
        assert_eq!(entry.module(Some("linux")), None);
        assert_eq!(entry.variant((7, 3)), None, "a kernel does not choose the variant");
        assert_eq!(for_plugin("ccaq limit 9", None), "ccaq limit 9");
        assert_eq!(for_plugin("ccaq limit 9", Some("paper")), "ccaq_paper limit 9");
        assert_eq!(for_plugin("ccaq limit 9 variant paper max_gi 1s", None), "ccaq_paper limit 9 max_gi 1s");
        assert_eq!(for_plugin("codel variant linux7", None), "codel variant linux7");
        assert_eq!([named("ccaq_paper"), named("ccaq"), named("fq_pie")], ["ccaq", "ccaq", "fq_pie"]);
    }

    #[test]
    fn a_line_needs_what_its_disciplines_need() {
        assert_eq!(needs("fq_codel limit 600"), (None, false));
        assert_eq!(needs("htb rate 1mbit child dualpi2"), (None, true));
        assert_eq!(needs("ccaq limit 9"), (Some("sch_ccaq"), true));
        assert_eq!(needs("ccaq variant paper limit 9"), (Some("sch_ccaq_paper"), true));
        assert_eq!(needs("tbf rate 1mbit child ccaq limit 9 variant paper"), (Some("sch_ccaq_paper"), true));
        assert_eq!(needs("hhf"), (None, false));
    }
}
