//! The installed `tc` accepts every line that we print for it, and we can parse its output. It runs in a network
//! namespace of its own, so that this host is not changed.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use sojourn_core::qdisc::tc::{Spec, disciplines};
use sojourn_core::rng::Rng;
use sojourn_oracle::skipped;

/// The message of a kernel without the module, after tc's own parser accepted the line (for choke, after a warning).
const NO_SUCH_MODULE: &str = "Error: Specified qdisc kind is unknown.";

/// Disciplines that some versions of tc do not know: these report unknown options.
const YOUNG: [&str; 1] = ["dualpi2"];

/// The message of tc about a line, and the output of its `show` afterwards.
struct Answer {
    line: String,
    said: String,
    shown: String,
}

impl Answer {
    fn accepted(&self) -> bool {
        self.said.is_empty() || self.said.ends_with(NO_SUCH_MODULE)
    }
}

/// Search path for tc: a user's PATH often lacks /usr/sbin, and `make` unpacks a copy into the cache.
fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home);
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.extend(["/usr/sbin".into(), "/sbin".into()]);
    folders.extend(cache.map(|cache| cache.join("sojourn/debian/bin")));
    env::join_paths(folders).expect("a PATH's folders can be joined")
}

/// Runs a shell script in a user and network namespace of its own; `None` if that is not possible here.
fn in_a_namespace(script: &str, input: &str) -> Option<String> {
    let mut child = Command::new("unshare")
        .args(["-rn", "sh", "-c", script])
        .env("PATH", search_path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut pipe = child.stdin.take()?;
    let input = input.to_string();
    let writer = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().ok()?;
    writer.join().ok()?.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Passes each line to tc.
fn ask(lines: &[String]) -> Option<Vec<Answer>> {
    // One answer per line: the message, a tab, the output of show; line ends become spaces.
    let script = "tc -V >/dev/null || exit 1
        while read -r line; do
            tc qdisc del dev lo root >/dev/null 2>&1
            said=$(tc qdisc add dev lo root $line 2>&1 | tr '\\n\\t' '  ')
            printf '%s\\t%s\\n' \"$said\" \"$(tc qdisc show dev lo | tr '\\n\\t' '  ')\"
        done";
    let output = in_a_namespace(script, &format!("{}\n", lines.join("\n")))?;
    let answers = lines.iter().zip(output.lines()).map(|(line, answer)| {
        let (said, shown) = answer.split_once('\t').unwrap_or((answer, ""));
        Answer { line: line.clone(), said: said.trim().to_string(), shown: shown.trim().to_string() }
    });
    let answers: Vec<Answer> = answers.collect();
    assert_eq!(answers.len(), lines.len(), "an answer for every line");
    Some(answers)
}

#[test]
fn tc_accepts_every_line_that_we_print_for_it() {
    let mut rng = Rng::stream(1, "tc lines");
    let specs: Vec<Spec> = (0..250).map(|_| Spec::random(&mut rng)).collect();
    let lines: Vec<String> = specs.iter().filter_map(Spec::tc_line).collect();
    let kinds: BTreeSet<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    let known: BTreeSet<&str> = disciplines().iter().filter(|d| d.tc).map(|d| d.name).collect();
    assert_eq!(kinds, known, "lines of every discipline that tc knows");
    let Some(answers) = ask(&lines) else {
        return skipped("our lines against tc's parser", "no tc, or no user namespaces here");
    };
    for answer in &answers {
        let too_young = YOUNG.iter().any(|name| answer.said.starts_with(&format!("Unknown qdisc \"{name}\"")));
        assert!(answer.accepted() || too_young, "tc refuses {:?}: {}", answer.line, answer.said);
    }
    for answer in answers.iter().filter(|answer| answer.said.is_empty()) {
        let read: Spec = match answer.shown.parse() {
            Ok(read) => read,
            // tc shows a bucket and a limit converted to times: rounded, and out of bounds at the limits.
            Err(error) if answer.line.starts_with("tbf") && matches!(&*error.word, "limit" | "latency") => continue,
            Err(error) if answer.line.starts_with("tbf") && error.problem.contains(" must be ") => continue,
            Err(error) => panic!("{}: {error}", answer.shown),
        };
        assert!(answer.line.starts_with(read.kind()), "{} became {}", answer.line, answer.shown);
        if read.kind().starts_with("pfifo") {
            assert_eq!(read.to_string(), answer.line, "packets come back exactly");
        }
    }
}

#[test]
fn tc_refuses_what_is_ours_or_only_printed() {
    let lines = ["codel limit 1000p", "codel variant linux", "fq_codel quantum 1514b", "red limit 830 variant ns2"];
    let Some(answers) = ask(&lines.map(String::from)) else {
        return skipped("what tc refuses", "no tc, or no user namespaces here");
    };
    for answer in &answers {
        assert!(!answer.accepted(), "{} was accepted: the test above would see nothing", answer.line);
    }
}
