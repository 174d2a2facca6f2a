//! Output of `tc -j qdisc show` and `tc -j class show`, rewritten to the lines that `tc` prints without `-j`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::qdisc::param::Error;

/// A JSON value. Numbers keep their text.
#[derive(Clone, PartialEq, Debug)]
enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// The most brackets inside one another.
const DEPTH: usize = 16;

/// Whether the text is JSON and not words.
pub fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['[', '{'])
}

/// The lines that `tc` prints without `-j` for what it printed with it. Counters are left out.
///
/// # Errors
/// Text that is not JSON, or not what `tc` prints.
pub fn lines_of(text: &str) -> Result<String, Error> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0).filter(|_| reader.rest().trim().is_empty());
    let broken = || {
        let problem = "is no whole JSON text; expected all that tc -j qdisc show prints, from [ to ]";
        let shown: String = reader.rest().trim().chars().take(20).collect();
        Error::new(if shown.is_empty() { "the text" } else { &shown }, problem.to_string())
    };
    let entries = match value.ok_or_else(broken)? {
        Json::List(entries) => entries,
        one => Vec::from([one]),
    };
    let lines = entries.iter().map(line_of).collect::<Option<Vec<String>>>();
    lines.map(|lines| lines.join("\n")).ok_or_else(|| {
        let problem = "is not what tc prints; expected the JSON of tc -j qdisc show, which names a kind in every entry";
        Error::new("the JSON text", problem.to_string())
    })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Moves over white space, and then over `token` if it is next.
    fn took(&mut self, token: &str) -> bool {
        self.at = self.text.len() - self.rest().trim_start().len();
        let is_next = self.rest().starts_with(token);
        self.at += if is_next { token.len() } else { 0 };
        is_next
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEPTH {
            return None;
        }
        if self.took("[") {
            return self.items("]", |reader| reader.value(depth + 1)).map(Json::List);
        }
        if self.took("{") {
            let entry = |reader: &mut Self| {
                let key = reader.took("\"").then(|| reader.string())??;
                reader.took(":").then(|| reader.value(depth + 1))?.map(|value| (key, value))
            };
            return self.items("}", entry).map(Json::Object);
        }
        if self.took("\"") {
            return self.string().map(Json::Text);
        }
        for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))] {
            if self.took(word) {
                return Some(value);
            }
        }
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
        let number = &self.rest()[..end];
        self.at += end;
        number.parse::<f64>().ok().map(|_| Json::Number(number.to_owned()))
    }

    /// Reads what `item` reads, separated by commas, up to `end`.
    fn items<T>(&mut self, end: &str, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        if self.took(end) {
            return Some(items);
        }
        loop {
            items.push(item(self)?);
            if self.took(end) {
                return Some(items);
            }
            if !self.took(",") {
                return None;
            }
        }
    }

    /// Reads a string behind its quotation mark. `tc` escapes nothing but quotation marks and backslashes.
    fn string(&mut self) -> Option<String> {
        let mut found = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Some(found);
                }
                '\\' => found.push(chars.next()?.1),
                c => found.push(c),
            }
        }
        None
    }
}

impl Json {
    fn get(&self, key: &str) -> Option<&Json> {
        let Json::Object(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    fn text(&self, key: &str) -> Option<&str> {
        if let Json::Text(text) = self.get(key)? { Some(text) } else { None }
    }

    fn number(&self) -> Option<f64> {
        if let Json::Number(text) = self { text.parse().ok() } else { None }
    }
}

/// Keys of an entry that are not parameters.
const PLACE: [&str; 12] = [
    "kind",
    "class",
    "handle",
    "dev",
    "root",
    "parent",
    "refcnt",
    "options",
    "leaf",
    "ingress_block",
    "egress_block",
    "offloaded",
];

/// The line of one discipline or class. `None` if it names no kind.
fn line_of(entry: &Json) -> Option<String> {
    let (object, kind) = match (entry.text("kind"), entry.text("class")) {
        (Some(kind), _) => ("qdisc", kind),
        (None, Some(kind)) => ("class", kind),
        (None, None) => return None,
    };
    let mut line = format!("{object} {kind} {}", entry.text("handle").unwrap_or_default());
    if let Some(device) = entry.text("dev") {
        line += &format!(" dev {device}");
    }
    match entry.text("parent") {
        Some(parent) => line += &format!(" parent {parent}"),
        None => line += " root",
    }
    // Disciplines have their parameters apart; classes have them among the other keys.
    let options = match (entry.get("options"), entry) {
        (Some(Json::Object(options)), _) => options.as_slice(),
        (None, Json::Object(all)) if object == "class" => all.as_slice(),
        _ => &[],
    };
    for (key, value) in options.iter().filter(|(key, _)| object == "qdisc" || !PLACE.contains(&key.as_str())) {
        if matches!(
            key.as_str(),
            "stats" | "bytes" | "packets" | "drops" | "overlimits" | "requeues" | "backlog" | "qlen"
        ) {
            break;
        }
        match (key.as_str(), value) {
            // It follows ce_threshold_selector.
            ("ce_threshold_mask", Json::Number(mask)) => line += &format!("/{mask}"),
            _ => line.extend(words_of(kind, key, value).map(|words| format!(" {words}"))),
        }
    }
    Some(line)
}

/// Keys whose values are rates in bytes per second.
const RATES: [&str; 7] = ["rate", "ceil", "peakrate", "bandwidth", "maxrate", "defrate", "low_rate_threshold"];
/// Keys whose value is a word that says everything.
const WORDS: [&str; 4] = ["diffserv", "flowmode", "atm", "autorate"];

/// The words of one parameter, as `tc` prints them without `-j`. `None` for what it does not print then.
fn words_of(kind: &str, key: &str, value: &Json) -> Option<String> {
    if kind == "netem" {
        return of_netem(key, value);
    }
    match (key, value) {
        ("pacing", Json::Bool(false)) => Some("nopacing".into()),
        ("nat" | "wash", Json::Bool(false)) => Some(format!("no{key}")),
        ("split_gso", Json::Bool(on)) if kind == "cake" => Some(if *on { "split-gso" } else { "no-split-gso" }.into()),
        ("split_gso" | "no_split_gso", Json::Bool(_)) if kind == "dualpi2" => Some(key.into()),
        ("ack-filter", Json::Text(state)) => Some(match state.as_str() {
            "enabled" => "ack-filter".into(),
            "aggressive" => "ack-filter-aggressive".into(),
            _ => "no-ack-filter".into(),
        }),
        // A mark of 0 stands for none.
        ("fwmark", _) if matches!(value, Json::Text(mark) if mark.trim_start_matches("0x").trim_matches('0').is_empty()) => {
            None
        }
        (key, Json::Text(word)) if WORDS.contains(&key) => Some(word.clone()),
        (key, Json::Number(bytes)) if RATES.contains(&key) => {
            Some(format!("{key} {:.0}bit", bytes.parse::<f64>().ok()? * 8.0))
        }
        // sfb's times are in microseconds here, and in milliseconds where tc reads them.
        ("rehash" | "db", Json::Number(us)) if kind == "sfb" => {
            Some(format!("{key} {:.0}", us.parse::<f64>().ok()? / 1000.0))
        }
        ("lat", Json::Number(us)) => Some(format!("lat {us}us")),
        (_, Json::Bool(true) | Json::Null) => Some(key.into()),
        (_, Json::Bool(false)) => None,
        (_, Json::Number(number)) => Some(format!("{key} {number}")),
        (_, Json::Text(word)) => Some(format!("{key} {word}")),
        (_, Json::List(items)) => {
            let numbers = items.iter().map(|item| if let Json::Number(n) = item { Some(n.as_str()) } else { None });
            Some(format!("{key} {}", numbers.collect::<Option<Vec<_>>>()?.join(" ")))
        }
        (_, Json::Object(_)) => None,
    }
}

/// The words of one of netem's parameters. Times are in seconds here, and shares are fractions.
fn of_netem(key: &str, value: &Json) -> Option<String> {
    let share = |name: &str| value.get(name).and_then(Json::number).map(|share| format!(" {}%", share * 100.0));
    let time = |name: &str| {
        let seconds = value.get(name).and_then(Json::number).filter(|seconds| *seconds > 0.0)?;
        Some(format!(" {:.0}ns", seconds * 1e9))
    };
    let correlation = || share("correlation").filter(|text| text != " 0%").unwrap_or_default();
    let labelled = |labels: &[&str]| {
        labels.iter().filter_map(|label| Some(format!(" {label}{}", share(label)?))).collect::<String>()
    };
    match key {
        "limit" | "gap" | "seed" => match value {
            Json::Number(number) if key == "limit" || number != "0" => Some(format!("{key} {number}")),
            _ => None,
        },
        "ecn" => matches!(value, Json::Bool(true)).then(|| "ecn".into()),
        "delay" => {
            let jitter = time("jitter").map(|jitter| jitter + &correlation()).unwrap_or_default();
            Some(format!("delay{}{jitter}", time("delay").unwrap_or_else(|| " 0".into())))
        }
        "loss-random" => Some(format!("loss{}{}", share("loss")?, correlation())),
        "loss-state" => Some(format!("loss state{}", labelled(&["p13", "p31", "p32", "p23", "p14"]))),
        "loss-gemodel" => Some(format!("loss gemodel{}", labelled(&["p", "r", "1-h", "1-k"]))),
        "duplicate" | "reorder" | "corrupt" => Some(format!("{key}{}{}", share(key)?, correlation())),
        "rate" => {
            let bytes = value.get("rate").and_then(Json::number)?;
            Some(format!("rate {:.0}bit", bytes * 8.0))
        }
        "slot" => {
            let amount = |name: &str| {
                let amount = value.get(name).and_then(Json::number).filter(|amount| *amount != 0.0)?;
                Some(format!(" {name} {amount}"))
            };
            let pair = |one: &str, other: &str| Some(time(one)? + &time(other).unwrap_or_else(|| " 0".into()));
            let wait = match pair("distribution", "jitter") {
                Some(drawn) => format!(" distribution{drawn}"),
                None => pair("min-delay", "max-delay")?,
            };
            let amounts = [amount("packets"), amount("bytes")];
            Some(format!("slot{wait}{}", amounts.into_iter().flatten().collect::<String>()))
        }
        _ => None,
    }
}
