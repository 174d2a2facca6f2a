//! The `tc` commands that set up a discipline on a real Linux router.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Spec, Value};
use crate::qdisc::linux::{Kernel, Tc, Version, for_plugin, in_linux};

/// What to type on a router: see [`Spec::paste`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paste {
    /// The command, or several joined by `&&`; `None` if no stock kernel has the discipline.
    pub line: Option<String>,
    /// Requirements of the command, or the reason why there is no command. Empty if there is nothing to add.
    pub note: String,
}

impl Paste {
    fn none(note: &str) -> Paste {
        Paste { line: None, note: note.to_string() }
    }
}

impl Spec {
    /// The `tc` command that puts this discipline onto a network device. A shaper with a discipline below it needs two or
    /// three commands, joined by `&&`.
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
        let child = self.child();
        let below = child.is_some() || matches!(self, Spec::Htb(_));
        let notes: Vec<String> = [self.kernel_note(), child.map_or(Ok(String::new()), Spec::kernel_note)]
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap_or_else(|why| [why].into());
        let note = notes.iter().filter(|note| !note.is_empty()).cloned().collect::<Vec<_>>().join(" ");
        if [Some(self), child].into_iter().flatten().any(|spec| spec.kernel_note().is_err()) {
            return Paste::none(&note);
        }
        let line = match below {
            true => self.shaper_commands(device, child),
            false => format!("tc qdisc replace dev {device} root {}", self.own_words()),
        };
        Paste { line: Some(line), note }
    }

    /// This discipline's own parameters as `tc` takes them, without its child.
    fn own_words(&self) -> String {
        let line = self.tc_line().unwrap_or_else(|| self.to_string());
        line.split_once(" child ").map_or(line.clone(), |(own, _)| own.to_string())
    }

    /// The commands for a shaper and the discipline below it.
    fn shaper_commands(&self, device: &str, child: Option<&Spec>) -> String {
        let mut commands = Vec::new();
        match self {
            Spec::Htb(_) => {
                commands.push(format!("tc qdisc replace dev {device} root handle 1: htb default 1"));
                commands.push(format!("tc class replace dev {device} parent 1: classid 1:1 {}", self.own_words()));
            }
            _ => {
                // tc requires a limit. It belongs to the FIFO that the next command replaces.
                let bounded = self
                    .values()
                    .iter()
                    .any(|(name, value)| matches!(*name, "limit" | "latency") && *value != Value::Unset);
                let limit = if bounded { "" } else { " limit 1Mb" };
                commands.push(format!("tc qdisc replace dev {device} root handle 1: {}{limit}", self.own_words()));
            }
        }
        commands.extend(
            child.map(|child| format!("tc qdisc replace dev {device} parent 1:1 handle 10: {}", child.own_words())),
        );
        commands.join(" && ")
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
            let (name, line) = (module.name, for_plugin(&self.to_string(), self.variant()));
            return Err(format!(
                "{kind} needs the module {name} and its tc plugin in kernel/; then: tc qdisc replace dev eth0 root {line}"
            ));
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
