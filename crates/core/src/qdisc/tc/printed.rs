//! Forms that `tc` prints and does not accept, also those of older versions, rewritten to what it accepts. Letters after
//! numbers (`1000p`) are not among them: every parameter is read with the letter that `tc` prints after it.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::qdisc::param::number::{TIME, truncated};

/// A discipline's name and its words, as `tc` accepts them.
pub fn accepted(kind: &str, words: &[&str]) -> String {
    let mut line: Vec<String> = Vec::from([kind.to_string()]);
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        match (kind, word) {
            // Old versions of cake print how they came to the overhead.
            ("cake", "total_overhead" | "hard_header_len") => drop(rest.next()),
            ("cake", "autorate_ingress") => line.push("autorate-ingress".into()),
            // The depth of a class in the tree.
            ("htb", "level") => drop(rest.next()),
            ("prio" | "pfifo_fast", "multiqueue:") => {
                if rest.next() == Some("on") {
                    line.push("multiqueue".into());
                }
            }
            ("sfq", "flows") => {
                line.push("flows".into());
                line.extend(rest.next().map(flows_and_divisor));
            }
            ("sfb", "rehash" | "db") => {
                line.push(word.into());
                line.extend(rest.next().map(milliseconds));
            }
            // Old versions print `penalty rate 10 burst 20 (600000ms 60000ms)`: at last, the times of rehash and db.
            ("sfb", "penalty") => {
                rest.next();
                line.push("penalty_rate".into());
            }
            ("sfb", "burst") => line.push("penalty_burst".into()),
            ("sfb", time) if time.starts_with('(') => {
                line.extend(["rehash".into(), milliseconds(&time[1..])]);
                line.extend(
                    rest.next().into_iter().flat_map(|db| ["db".into(), milliseconds(db.trim_end_matches(')'))]),
                );
            }
            ("sfb", "penalty_rate") => {
                line.push(word.into());
                line.extend(rest.next().map(|rate| rate.strip_suffix("pps").unwrap_or(rate).to_owned()));
            }
            // Values in hexadecimal of tc -r, which follow what they repeat.
            _ if is_raw(word) => {}
            _ => line.push(word.into()),
        }
    }
    line.join(" ")
}

/// Older versions of `tc` print the queues and the hash values as `flows 128/1024`.
fn flows_and_divisor(text: &str) -> String {
    text.split_once('/').map_or(text.into(), |(flows, divisor)| format!("{flows} divisor {divisor}"))
}

/// `tc` prints as a time what it accepts as a number of milliseconds: `600s`.
fn milliseconds(text: &str) -> String {
    let has_unit = text.ends_with('s');
    let read = if has_unit { truncated(text, TIME, 1_000_000).ok() } else { None };
    read.map_or(text.into(), |ms| ms.to_string())
}

fn is_raw(word: &str) -> bool {
    let digits = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
    digits.is_some_and(|digits| digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}
