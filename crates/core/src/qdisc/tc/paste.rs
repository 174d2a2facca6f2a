//! The `tc` commands that set up a discipline on a real Linux router.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Spec, Value};
use crate::qdisc::linux::{Kernel, Tc, Version, for_plugin, in_linux};

/// What to type on a router: see [`Spec::paste`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paste {
    /// The command, or several joined by `&&`; `None` if no kernel has the disciplines.
    pub line: Option<String>,
    /// Requirements of the command, or the reason why there is none. Empty if there is nothing to add.
    pub note: String,
}

impl Spec {
    /// The `tc` command that puts this discipline onto a network device. A shaper with a discipline below it needs
    /// several commands, joined by `&&`.
    ///
    /// ```
    /// use sojourn_core::qdisc::tc::Spec;
    ///
    /// let spec: Spec = "fq_codel limit 600 target 15ms".parse()?;
    /// let paste = spec.paste("eth0");
    /// assert_eq!(paste.line.as_deref(), Some("tc qdisc replace dev eth0 root fq_codel limit 600 target 15ms"));
    /// assert_eq!("blue".parse::<Spec>()?.paste("eth0").line, None);
    /// # Ok::<(), sojourn_core::qdisc::tc::Error>(())
    /// ```
    pub fn paste(&self, device: &str) -> Paste {
        let notes: Vec<String> = match self.chain().map(Spec::kernel_note).collect() {
            Ok(notes) => notes,
            Err(why) => return Paste { line: None, note: why },
        };
        let note = notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join(" ");
        Paste { line: Some(self.commands(device, "root", 1).join(" && ")), note }
    }

    /// This discipline's own parameters as `tc` takes them, without its child.
    fn own_words(&self) -> String {
        let line = self.tc_line().unwrap_or_else(|| for_plugin(&self.to_string(), self.variant()));
        line.split_once(" child ").map_or(line.clone(), |(own, _)| own.to_string())
    }

    /// The commands for this discipline and those below it. Only a discipline with others below it needs a `handle` that
    /// is known, for them to name. The handle of the next one is sixteen times as large: `10:` below `1:`.
    fn commands(&self, device: &str, parent: &str, handle: u32) -> Vec<String> {
        let own = self.own_words();
        let head = match (parent, self.child(), self) {
            ("root", None, spec) if !matches!(spec, Spec::Htb(_)) => format!("tc qdisc replace dev {device} root"),
            _ => format!("tc qdisc replace dev {device} {parent} handle {handle:x}:"),
        };
        let mut commands = match (self, self.child()) {
            (Spec::Htb(_), _) => {
                let class = format!("parent {handle:x}: classid {handle:x}:1");
                [format!("{head} htb default 1"), format!("tc class replace dev {device} {class} {own}")].into()
            }
            // tc requires a limit. It belongs to the FIFO that the next command replaces.
            (spec, Some(_)) if !spec.is_bounded() => [format!("{head} {own} limit 1Mb")].into(),
            _ => Vec::from([format!("{head} {own}")]),
        };
        if let Some(child) = self.child() {
            commands.extend(child.commands(device, &format!("parent {handle:x}:1"), handle * 16));
        }
        commands
    }

    /// Returns true if the line limits the queue: in packets, bytes or time.
    fn is_bounded(&self) -> bool {
        let bounds = |(name, value): &(&str, Value)| matches!(*name, "limit" | "latency") && *value != Value::Unset;
        self.values().iter().any(bounds)
    }

    /// The kernel version or module that this discipline requires. Its child is not considered.
    ///
    /// # Errors
    /// Why no stock kernel has it.
    fn kernel_note(&self) -> Result<String, String> {
        let kind = self.kind();
        if let Spec::Linux(_) = self {
            return Ok(String::new());
        }
        if let Spec::External(_) = self {
            return Err(format!("{kind} is a discipline of yours, for sojourn."));
        }
        let Some(entry) = in_linux(kind) else {
            return Err(format!("{kind}: Linux has no such discipline; red, pie and codel are the nearest."));
        };
        if let Some(module) = entry.module(self.variant()) {
            return Ok(format!("{kind} needs the module {} and its tc plugin (kernel/README.md).", module.name));
        }
        let version = |(major, minor): Version| format!("{major}.{minor}");
        match (self.variant().map(|word| (word, entry.since(word))), entry.kernel, entry.tc) {
            (Some((word, None)), ..) => {
                Err(format!("variant {word} of {kind} is only in sojourn: Linux's {kind} is variant linux."))
            }
            (Some((word, Some(since))), ..) if word != "linux" => {
                Ok(format!("Linux {} and newer decide like variant {word} of {kind}.", version(since)))
            }
            (_, Kernel::Since(linux), Tc::Since(iproute2)) => {
                Ok(format!("{kind} needs Linux {} and iproute2 {} or newer.", version(linux), version(iproute2)))
            }
            _ => Ok(String::new()),
        }
    }
}
