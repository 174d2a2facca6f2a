//! Counters of a discipline from the guest's `tc -s`, in the shape of [`sojourn_measure::stats`].
//!
//! Apart from [`ask`], this module is pure: text of `tc` in, a JSON object out.

use std::io;

use serde_json::{Map, Value, json};
use sojourn_core::qdisc::linux;

/// Keys of tc that are not counters: the discipline's place in the tree, and its options, which the scenario already
/// has.
const NOT_COUNTED: [&str; 9] =
    ["handle", "parent", "root", "dev", "refcnt", "options", "offloaded", "ingress", "ingress_block"];
/// Counters of sfq's RED, which tc prints among the options.
const OF_RED: [&str; 6] =
    ["prob_mark", "prob_mark_head", "prob_drop", "forced_mark", "forced_mark_head", "forced_drop"];
/// Disciplines with a class for each flow, and the counters of classes that are summed.
const FLOWS: [(&str, &[&str]); 4] = [
    ("fq_codel", &["deficit", "count", "lastcount"]),
    ("sfq", &["allot"]),
    ("cake", &["deficit", "count"]),
    ("ccaq", &["deficit", "target", "rtt", "idle"]),
];
/// Disciplines whose classes show whether a flow is in CoDel's dropping state.
const DROPPING: [&str; 2] = ["fq_codel", "cake"];

/// Counters that tc omits while they are zero.
fn left_out(kind: &str) -> &'static [&'static str] {
    match kind {
        "codel" => &["ce_mark"],
        "fq_codel" => &["ce_mark", "memory_used", "drop_overmemory"],
        "fq" => &[
            "highprio",
            "latency",
            "ce_mark",
            "flows_plimit",
            "pkts_too_long",
            "alloc_errors",
            "horizon_drops",
            "horizon_caps",
        ],
        "pie" => &["avg_dq_rate"],
        _ => &[],
    }
}

/// Queries all disciplines in the current namespace. The result has tc's JSON in `qdiscs`, and tc's text about the
/// classes of each device in `classes`: only recent versions of tc print classes as JSON. `tc` runs tc with the given
/// arguments; `of_device` is appended to the first command.
///
/// # Errors
/// `tc` fails.
pub fn ask(mut tc: impl FnMut(&[String]) -> io::Result<String>, of_device: &str) -> io::Result<Value> {
    let words = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let qdiscs = parsed(tc(&words(&format!("-s -j qdisc show {of_device}")))?);
    let mut classes = Map::new();
    for qdisc in qdiscs.as_array().into_iter().flatten() {
        let device = qdisc["dev"].as_str().or_else(|| of_device.strip_prefix("dev ")).unwrap_or_default();
        if FLOWS.iter().any(|(kind, _)| qdisc["kind"] == *kind) && !classes.contains_key(device) {
            let text = tc(&words(&format!("-s class show dev {device}")))?;
            classes.insert(device.to_owned(), text.into());
        }
    }
    Ok(json!({ "qdiscs": qdiscs, "classes": classes }))
}

/// Parses tc's JSON; other output is returned as text. fq's JSON has the key `throttled` twice, the first of which
/// counts flows.
fn parsed(text: String) -> Value {
    let mut whole = String::with_capacity(text.len());
    for part in text.split_inclusive("\"inactive\":") {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let after_inactive = whole.ends_with("\"inactive\":");
        let (number, rest) = part.split_at(if after_inactive { digits } else { 0 });
        whole.push_str(number);
        match rest.strip_prefix(",\"throttled\":") {
            Some(rest) if after_inactive => whole.extend([",\"throttled_flows\":", rest]),
            _ => whole.push_str(rest),
        }
    }
    serde_json::from_str(&whole).unwrap_or(Value::String(text))
}

/// Returns the counters of a device's discipline and of those below it, from the result of [`ask`].
pub fn discipline(asked: &Value, device: &str) -> Option<Value> {
    let all: Vec<&Value> = asked["qdiscs"].as_array()?.iter().filter(|one| is_on(one, device)).collect();
    let root = all.iter().find(|one| one["root"] == true)?;
    Some(object(root, &all, asked["classes"][device].as_str().unwrap_or_default()).into())
}

/// tc omits the device if the command names one.
fn is_on(qdisc: &Value, device: &str) -> bool {
    qdisc.get("dev").is_none_or(|name| name == device)
}

fn object(qdisc: &Value, all: &[&Value], classes: &str) -> Map<String, Value> {
    let kind = qdisc["kind"].as_str().unwrap_or_default();
    let keys = qdisc.as_object().into_iter().flatten().filter(|(key, _)| !NOT_COUNTED.contains(&key.as_str()));
    let mut object: Map<String, Value> = keys.map(|(key, value)| (key.clone(), value.clone())).collect();
    // A run's records have our name of the discipline.
    object.insert("kind".to_owned(), linux::named(kind).into());
    if kind == "sfq" {
        let found = OF_RED.iter().filter_map(|key| Some(((*key).to_owned(), qdisc["options"].get(key)?.clone())));
        object.extend(found);
    }
    for key in left_out(kind) {
        object.entry(*key).or_insert(json!(0));
    }
    if kind == "codel" {
        object.entry("dropping").or_insert(json!(false));
    }
    let handle = qdisc["handle"].as_str().unwrap_or_default();
    if let Some((kind, keys)) = FLOWS.iter().find(|(name, _)| *name == kind) {
        object.insert("classes".to_owned(), sums(kind, keys, handle, classes).into());
    }
    let below = |one: &&&Value| one["parent"].as_str().is_some_and(|parent| parent.starts_with(handle));
    if let Some(child) = all.iter().find(below) {
        object.insert("child".to_owned(), self::object(child, all, classes).into());
    }
    object
}

/// Returns sums over the classes of a discipline, from the text of `tc -s class show`.
fn sums(kind: &str, keys: &[&str], handle: &str, classes: &str) -> Map<String, Value> {
    let head = format!("class {kind} {handle}");
    let blocks: Vec<Vec<&str>> = classes
        .split("\nclass ")
        .map(|block| block.strip_prefix("class ").unwrap_or(block))
        .filter(|block| block.starts_with(&head["class ".len()..]))
        .map(|block| block.split_ascii_whitespace().collect())
        .collect();
    let after = |block: &[&str], key: &str, places: usize| -> i64 {
        let at = block.iter().position(|word| *word == key);
        at.and_then(|at| number(block.get(at + places)?)).unwrap_or(0)
    };
    let sum = |key: &str, places| blocks.iter().map(|block| after(block, key, places)).sum::<i64>();
    let mut sums = Map::new();
    sums.insert("flows".to_owned(), blocks.len().into());
    // The bytes in `backlog 8816b 12p` are rounded.
    sums.insert("qlen".to_owned(), sum("backlog", 2).into());
    sums.extend(keys.iter().map(|key| ((*key).to_owned(), sum(key, 1).into())));
    if DROPPING.contains(&kind) {
        let dropping = blocks.iter().filter(|block| block.contains(&"dropping")).count();
        sums.insert("dropping".to_owned(), dropping.into());
    }
    sums
}

/// Reads a number of a class: packets (`8p`), microseconds (`4980us`), or a percentage with two decimals (`0.98%`) in
/// hundredths of a percent.
fn number(word: &str) -> Option<i64> {
    match word.strip_suffix('%') {
        Some(share) => share.replace('.', "").parse().ok(),
        None => word.trim_end_matches("us").trim_end_matches('p').parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QDISCS: &str = r#"[{"kind":"tbf","handle":"1:","dev":"h0","root":true,"refcnt":2,"options":{"rate":9},
        "bytes":7,"packets":1,"drops":0,"overlimits":2,"requeues":0,"backlog":9,"qlen":1},
        {"kind":"fq_codel","handle":"8001:","dev":"h0","parent":"1:1","options":{},"bytes":7,"packets":1,"drops":0,
        "overlimits":0,"requeues":0,"backlog":9,"qlen":1,"maxpacket":5,"ecn_mark":4},
        {"kind":"fq","handle":"1:","dev":"h1","root":true,"flows":3,"inactive":2,"throttled":1,"gc":0,"throttled":41}]"#;
    const CLASSES: &str = "class tbf 1:1 parent 1: leaf 8001: \n\nclass fq_codel 8001:5d parent 8001: \n (dropped 0, \
        overlimits 0 requeues 0) \n backlog 5608b 8p requeues 0\n  deficit 346 count 420 lastcount 15 ldelay 48.5ms \
        dropping drop_next -268ms\nclass fq_codel 8001:f2 parent 8001: \n (dropped 0, overlimits 0 requeues 0) \n \
        backlog 8Kb 12p requeues 0\n  deficit -430 count 1 lastcount 1 ldelay 107ms\n";

    fn asked() -> Value {
        let answer = |words: &[String]| {
            let of_classes = words.contains(&"class".to_owned());
            Ok(if of_classes { CLASSES.to_owned() } else { QDISCS.replace("\n        ", "") })
        };
        ask(answer, "").expect("tc answers")
    }

    #[test]
    fn a_shapers_child_and_its_flows_are_in_one_object() {
        let said = discipline(&asked(), "h0").expect("h0 has a root");
        let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&said), "kind bytes packets drops overlimits requeues backlog qlen child");
        let child = &said["child"];
        assert_eq!(
            (&child["kind"], &child["ecn_mark"], &child["memory_used"]),
            (&json!("fq_codel"), &json!(4), &json!(0))
        );
        let sums = json!({"flows": 2, "qlen": 20, "deficit": -84, "count": 421, "lastcount": 16, "dropping": 1});
        assert_eq!(child["classes"], sums);
        assert_eq!(discipline(&asked(), "h2"), None);
    }

    #[test]
    fn what_ccaq_learned_about_its_flows_is_summed_and_the_papers_has_our_name() {
        const CCAQ: &str = r#"[{"kind":"ccaq","handle":"1:","dev":"h0","root":true,"options":{},"drops":1},
            {"kind":"ccaq_paper","handle":"1:","dev":"h1","root":true,"options":{},"drops":2}]"#;
        const FLOWS: &str = "class ccaq 1:5d parent 1: \n (dropped 0, overlimits 0 requeues 0) \n backlog 5608b 8p \
            requeues 0\n  deficit 346 count 4 target 4980us rtt 20000us idle 0.98% of 400000us\nclass ccaq 1:f2 \
            parent 1: \n backlog 8Kb 12p requeues 0\n  deficit -430 count 1 target 5000us rtt 0us idle 12.00% of 7us\n";
        let answer = |words: &[String]| {
            let of_classes = words.contains(&"class".to_owned());
            Ok(if of_classes { FLOWS.to_owned() } else { CCAQ.to_owned() })
        };
        let asked = ask(answer, "").expect("tc answers");
        let sums = json!({"flows": 2, "qlen": 20, "deficit": -84, "target": 9980, "rtt": 20000, "idle": 1298});
        assert_eq!(discipline(&asked, "h0").expect("a root")["classes"], sums);
        let paper = discipline(&asked, "h1").expect("a root");
        assert_eq!((&paper["kind"], paper.get("classes")), (&json!("ccaq"), None));
    }

    #[test]
    fn counters_of_sfqs_red_are_found_among_its_options() {
        let of = |options: &str| {
            let text =
                format!("[{{\"kind\":\"sfq\",\"handle\":\"1:\",\"root\":true,\"options\":{options},\"drops\":3}}]");
            let answer =
                |words: &[String]| Ok(if words.contains(&"class".to_owned()) { String::new() } else { text.clone() });
            discipline(&ask(answer, "dev h0").expect("tc answers"), "h0").expect("a root")
        };
        let with = of("{\"limit\":127,\"ewma\":3,\"prob_mark\":1,\"prob_drop\":2,\"forced_mark_head\":4}");
        assert_eq!(
            (&with["prob_mark"], &with["prob_drop"], &with["forced_mark_head"]),
            (&json!(1), &json!(2), &json!(4))
        );
        assert!(with.get("limit").is_none() && with.get("ewma").is_none());
        assert!(of("{\"limit\":127}").get("prob_mark").is_none());
    }

    #[test]
    fn both_counters_that_fq_calls_throttled_are_there() {
        let said = discipline(&asked(), "h1").expect("h1 has a root");
        assert_eq!(
            (&said["throttled_flows"], &said["throttled"], &said["inactive"]),
            (&json!(1), &json!(41), &json!(2))
        );
    }
}
