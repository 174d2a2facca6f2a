//! Extracts a discipline and its parameters from pasted text: one or several `tc qdisc add|replace|change` commands, or the
//! output of `tc qdisc show`, counters included, also as JSON.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::json::{is_json, lines_of};
use super::printed::accepted;
use crate::qdisc::htb::CLASSES_MISSING;
use crate::qdisc::param::Error;

/// The discipline found in a text: see [`own_words`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnWords {
    /// The discipline's name and its parameters, as [`super::Spec::parse`] reads them.
    pub line: String,
    /// Warnings about parts of the text that were ignored.
    pub warnings: Vec<String>,
    /// Whether the text is output of `tc qdisc show`, which may lack parameters.
    pub printed: bool,
}

/// One discipline or class that a text names, and its position in the tree of the device.
#[derive(Clone, Debug)]
struct Entry<'a> {
    class: bool,
    device: Option<&'a str>,
    /// The class or discipline above; none at the root.
    parent: Option<&'a str>,
    /// The identifier of a class, such as `1:10`.
    id: Option<&'a str>,
    kind: &'a str,
    words: Vec<&'a str>,
}

impl Entry<'_> {
    fn line(&self) -> String {
        accepted(self.kind, &self.words)
    }
}

/// The discipline and its parameters in a text. In a `tc` command they follow the place (`dev eth0 root`); in the output of
/// `tc -s qdisc show` they are the lines that begin with `qdisc`. A shaper with one discipline below it, in several
/// commands or lines, becomes `tbf … child …` or `htb … child …`. Any other text is returned unchanged.
///
/// # Errors
/// A command that sets up no discipline, or several disciplines where it is unclear which one is meant.
///
/// ```
/// use sojourn_core::qdisc::tc::own_words;
///
/// assert_eq!(own_words("sudo tc qdisc add dev eth0 root handle 1: codel limit 100")?.line, "codel limit 100");
/// let shown = "qdisc codel 8001: root refcnt 2 limit 100p target 5ms interval 100ms\n Sent 0 bytes 0 pkt (dropped 0)";
/// assert_eq!(own_words(shown)?.line, "codel limit 100p target 5ms interval 100ms");
/// # Ok::<(), sojourn_core::qdisc::tc::Error>(())
/// ```
pub fn own_words(text: &str) -> Result<OwnWords, Error> {
    let unpacked = if is_json(text) { Some(lines_of(text)?) } else { None };
    let text = unpacked.as_deref().unwrap_or(text);
    let lines = logical_lines(text);
    if lines.iter().any(|line| is_shown(line)) {
        let entries: Vec<Entry> = lines.iter().filter(|line| is_shown(line)).filter_map(|line| printed(line)).collect();
        let found = if entries.is_empty() { Ok(plain("")) } else { chosen(entries) };
        return found.map(|found| OwnWords { printed: true, ..found });
    }
    if lines.first().is_some_and(|line| is_command(line)) {
        let commands = lines.iter().flat_map(|line| line.split("&&")).flat_map(|line| line.split(';'));
        let commands = commands.map(str::trim).filter(|line| !line.is_empty());
        let entries: Vec<Entry> = commands.map(command).collect::<Result<_, _>>()?;
        return chosen(entries);
    }
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    Ok(words.split_first().map_or(plain(""), |(kind, words)| plain(&accepted(kind, words))))
}

fn plain(line: &str) -> OwnWords {
    OwnWords { line: line.to_string(), warnings: Vec::new(), printed: false }
}

/// Splits a text into logical lines: a line that ends in a backslash continues in the next one, and the output of `tc
/// qdisc show` for one discipline may be wrapped, up to its counters.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let (mut continued, mut wrapped) = (false, false);
    for raw in text.lines() {
        let line = without_prompt(raw);
        let (line, goes_on) = line.strip_suffix('\\').map_or((line, false), |line| (line.trim_end(), true));
        let opens = is_shown(line) || is_command(line);
        // sfq's counters come before those of every discipline.
        let counters =
            line.is_empty() || ["Sent ", "prob_mark ", "forced_mark "].iter().any(|one| line.starts_with(one));
        match lines.last_mut() {
            Some(last) if continued || (wrapped && !opens && !counters) => {
                last.push(' ');
                last.push_str(line);
            }
            _ if line.is_empty() => {}
            _ => lines.push(line.to_string()),
        }
        wrapped = is_shown(line) || (wrapped && !opens && !counters);
        continued = goes_on;
    }
    lines
}

/// Removes the prompt from a line of a terminal: `root@OpenWrt:~# tc …`, `$ tc …`, `#tc …`.
fn without_prompt(line: &str) -> &str {
    let line = line.trim();
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let prompt = matches!(first, "#" | "$" | "%" | ">") || (first.contains('@') && first.ends_with(['#', '$', '%']));
    match line.strip_prefix(['#', '$']) {
        Some(command) if is_command(command) => command,
        _ if prompt => rest.trim(),
        _ => line,
    }
}

/// Returns whether this is a line of the output of `tc qdisc show` or `tc class show`.
fn is_shown(line: &str) -> bool {
    matches!(line.split_ascii_whitespace().next(), Some("qdisc" | "class"))
}

fn is_tc(word: &str) -> bool {
    word == "tc" || word.ends_with("/tc")
}

fn is_command(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        Some("sudo" | "doas") => words.any(is_tc),
        Some(word) => is_tc(word),
        None => false,
    }
}

/// Reads a command such as `tc qdisc add dev eth0 root handle 1: fq_codel limit 1000`.
fn command(line: &str) -> Result<Entry<'_>, Error> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let refused = |word: &str, problem: &str| Err(Error::new(word, problem.to_string()));
    let Some(tc) = words.iter().position(|word| is_tc(word)).filter(|_| is_command(line)) else {
        return refused(line, "is no tc command; expected commands such as: tc qdisc replace dev eth0 root fq_codel");
    };
    let mut rest = &words[tc + 1..];
    while let Some(option) = rest.first().filter(|word| word.starts_with('-')) {
        let named = matches!(*option, "-n" | "-net" | "-netns");
        rest = &rest[(1 + usize::from(named)).min(rest.len())..];
    }
    let [object, verb, rest @ ..] = rest else {
        return refused(line, "expected a whole command, such as: tc qdisc replace dev eth0 root fq_codel");
    };
    let is = |word: &str, names: &[&str]| names.iter().any(|name| name.starts_with(word));
    let class = is(object, &["class"]);
    match *verb {
        _ if !class && !is(object, &["qdisc"]) => {
            return refused(
                object,
                "only sorts or changes packets; expected a tc qdisc line, which names a discipline",
            );
        }
        verb if is(verb, &["add", "replace", "change", "link"]) => {}
        verb if is(verb, &["show", "list", "ls"]) => {
            return refused(verb, "only asks; expected what tc qdisc show prints, the line that begins with qdisc");
        }
        verb => return refused(verb, "sets up no discipline; expected tc qdisc add, replace or change"),
    }
    placed(rest, class)?.ok_or_else(|| {
        let problem = "names no discipline; expected one behind its place, as in: tc qdisc add dev eth0 root fq_codel";
        Error::new(line, problem.to_string())
    })
}

/// Reads the words of a command after its verb (`add`, `replace`, `change`).
fn placed<'a>(words: &[&'a str], class: bool) -> Result<Option<Entry<'a>>, Error> {
    let (mut device, mut parent, mut id) = (None, None, None);
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        match word {
            "dev" => device = rest.next(),
            "parent" => parent = rest.next().filter(|parent| *parent != "root"),
            "classid" => id = rest.next(),
            "handle" | "ingress_block" | "egress_block" => drop(rest.next()),
            "estimator" => drop((rest.next(), rest.next())),
            "root" => parent = None,
            "stab" => return Err(Error::new("stab", STAB.to_string())),
            kind => {
                return Ok(Some(Entry { class, device, parent, id, kind, words: rest.collect() }));
            }
        }
    }
    Ok(None)
}

/// Why a table of sizes is refused.
const STAB: &str = "changes the length that is counted for each packet; expected the hop's overhead key instead, or \
                    cake, tbf or htb with their own words for the link: overhead, mpu, atm";

/// Reads a line of output such as `qdisc fq_codel 8001: dev eth0 parent 1:10 refcnt 2 limit 10240p …`.
fn printed(line: &str) -> Option<Entry<'_>> {
    let mut words = line.split_ascii_whitespace();
    let class = words.next() == Some("class");
    let kind = words.next()?;
    let mut entry = Entry { class, device: None, parent: None, id: None, kind, words: Vec::new() };
    loop {
        let mut ahead = words.clone();
        match ahead.next() {
            Some("dev") => entry.device = ahead.next(),
            Some("parent") => entry.parent = ahead.next(),
            Some("refcnt" | "ingress_block" | "egress_block" | "leaf") => drop(ahead.next()),
            Some("root" | "ingress" | "[offloaded]" | "offloaded") => {}
            Some(word) if word.ends_with(':') => {}
            Some(word) if class && entry.id.is_none() && word.contains(':') => entry.id = Some(word),
            _ => break,
        }
        words = ahead;
    }
    entry.words = words.collect();
    Some(entry)
}

/// Chooses the discipline that the text sets up or shows.
fn chosen(mut entries: Vec<Entry<'_>>) -> Result<OwnWords, Error> {
    if entries.len() > 1 {
        entries.retain(|entry| !matches!(entry.kind, "ingress" | "clsact"));
        one_device(&mut entries)?;
    }
    match entries.as_slice() {
        [] => Err(Error::new("", "no discipline for outgoing packets here; expected a line such as: fq_codel".into())),
        [one] if !one.class || one.kind == "htb" => Ok(plain(&one.line())),
        several => tree(several),
    }
}

/// Keeps the entries of one device; several devices are an error.
fn one_device(entries: &mut Vec<Entry<'_>>) -> Result<(), Error> {
    let queueing = |entry: &Entry| entry.kind != "noqueue";
    if entries.iter().any(queueing) {
        entries.retain(queueing);
    }
    let mut devices: Vec<&str> = entries.iter().filter_map(|entry| entry.device).collect();
    devices.sort_unstable();
    devices.dedup();
    match devices.as_slice() {
        [] | [_] => Ok(()),
        several => {
            let names = several.join(", ");
            let problem = format!(
                "several devices ({names}); expected the lines of one, as from: tc qdisc show dev {}",
                several[0]
            );
            Err(Error::new("", problem))
        }
    }
}

/// Reads a discipline with others below it.
fn tree(entries: &[Entry<'_>]) -> Result<OwnWords, Error> {
    let roots: Vec<&Entry> = entries.iter().filter(|entry| entry.parent.is_none() && !entry.class).collect();
    let classes: Vec<&Entry> = entries.iter().filter(|entry| entry.class).collect();
    let leaves: Vec<&Entry> = entries.iter().filter(|entry| entry.parent.is_some() && !entry.class).collect();
    let lines = |some: &[&Entry]| some.iter().map(|entry| entry.line()).collect::<Vec<_>>();
    let root = match roots.as_slice() {
        [root] => root,
        [] if classes.is_empty() => return Err(which(&lines(&leaves))),
        [] if classes.len() == 1 && classes[0].kind == "htb" => return shaper(classes[0].line(), &leaves),
        _ => return Err(which(&lines(&roots))),
    };
    match root.kind {
        "mq" | "mqprio" => of_queues(root.kind, &leaves),
        "tbf" => shaper(root.line(), &leaves),
        "htb" => match classes.as_slice() {
            [class] => shaper(class.line(), &leaves),
            [] => Err(Error::new("htb", CLASSES_MISSING.to_string())),
            several => {
                let problem = format!(
                    "has {} classes here, and sojourn can play one; expected the class to compare, as in: {}",
                    several.len(),
                    "htb rate 10mbit child fq_codel"
                );
                Err(Error::new("htb", problem))
            }
        },
        // tc shows the bands of a prio without further disciplines as pfifo.
        "prio" | "pfifo_fast" if leaves.iter().all(|leaf| leaf.kind == "pfifo") => Ok(plain(&root.line())),
        _ => Err(which(&lines(&entries.iter().collect::<Vec<_>>()))),
    }
}

/// Reads a shaper and the discipline below it, if there is one.
fn shaper(line: String, leaves: &[&Entry<'_>]) -> Result<OwnWords, Error> {
    match leaves {
        [] => Ok(plain(&line)),
        [leaf] => Ok(plain(&format!("{line} child {}", leaf.line()))),
        several => Err(which(&several.iter().map(|leaf| leaf.line()).collect::<Vec<_>>())),
    }
}

/// Reads a device with several transmit queues, each with a discipline of its own.
fn of_queues(kind: &str, leaves: &[&Entry<'_>]) -> Result<OwnWords, Error> {
    let mut lines: Vec<String> = leaves.iter().map(|leaf| leaf.line()).collect();
    let count = lines.len();
    lines.dedup();
    match lines.as_slice() {
        [one] => {
            let name = leaves[0].kind;
            let warning = format!(
                "{kind} gives each of the device's {count} queues its own {name}: sojourn's link has one queue, and one {name}"
            );
            Ok(OwnWords { warnings: Vec::from([warning]), ..plain(one) })
        }
        [] => Err(Error::new(
            kind,
            "only shares packets out to the device's queues; expected one queue's discipline".into(),
        )),
        several => Err(which(several)),
    }
}

/// The error for several disciplines where it is unclear which one is meant.
fn which(lines: &[String]) -> Error {
    let shown: Vec<String> = lines.iter().take(4).map(|line| format!("{line:?}")).collect();
    Error::new("", format!("{} disciplines; expected one of these lines: {}", lines.len(), shown.join(", ")))
}
