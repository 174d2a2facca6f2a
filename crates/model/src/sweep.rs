//! `[sweep]`: the keys that vary, their values, and which keys vary together.

use std::collections::BTreeMap;

use sojourn_core::rng::Rng;
use sojourn_core::units::{Rate, Span};

use crate::address;
use crate::document::{Kind, Table, Value};
use crate::error::Error;
use crate::units;

/// Upper limit on the number of runs of one plan.
pub(crate) const MOST_RUNS: u64 = 100_000;

/// Keys that vary together, usually only one.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Each key with its line and its values. All keys have the same number of values.
    pub(crate) keys: Vec<(String, Option<u32>, Vec<Value>)>,
}

impl Axis {
    pub(crate) fn len(&self) -> usize {
        self.keys.first().map_or(0, |(_, _, values)| values.len())
    }
}

/// The content of `[sweep]`.
#[derive(Default)]
pub(crate) struct Sweep {
    pub(crate) axes: Vec<Axis>,
    pub(crate) seeds: Option<Value>,
}

impl Sweep {
    /// Parses the section. Keys for which `fixed` is true (set by `--set`) do not vary.
    pub(crate) fn read(section: Option<&Value>, fixed: impl Fn(&str) -> bool) -> Result<Sweep, Error> {
        let Some(value) = section else { return Ok(Sweep::default()) };
        let Kind::Table(table) = &value.kind else {
            return Err(Error::at(value.line, "sweep", "expected a section [sweep]").value(value.written()));
        };
        let mut axes: Vec<Axis> = Vec::new();
        flatten(table, "", &mut |key, value| {
            if !matches!(key.as_str(), "zip" | "seeds") {
                let values = values(&key, value)?;
                axes.push(Axis { keys: vec![(key, value.line, values)] });
            }
            Ok(())
        })?;
        once_each(&axes)?;
        if let Some(zip) = table.get("zip") {
            axes = zipped(axes, zip)?;
        }
        for axis in &mut axes {
            axis.keys.retain(|(key, ..)| !fixed(key));
        }
        axes.retain(|axis| !axis.keys.is_empty());
        Ok(Sweep { axes, seeds: table.get("seeds").cloned() })
    }

    /// Returns the number of combinations; `None` if it overflows.
    pub(crate) fn combinations(&self) -> Option<u64> {
        self.axes.iter().try_fold(1u64, |product, axis| product.checked_mul(axis.len() as u64))
    }

    /// Returns the assignments of combination number `index`; the first axis is outermost.
    pub(crate) fn combination(&self, mut index: u64) -> Vec<(&str, Option<u32>, &Value)> {
        let mut chosen = Vec::new();
        for axis in self.axes.iter().rev() {
            let at = (index % axis.len() as u64) as usize;
            index /= axis.len() as u64;
            chosen.extend(axis.keys.iter().rev().map(|(key, line, values)| (key.as_str(), *line, &values[at])));
        }
        chosen.reverse();
        chosen
    }
}

/// Calls `visit` for each swept key with its full address. TOML reads an unquoted `hop.a.rate = […]` as nested tables,
/// which this function flattens.
fn flatten<'a>(
    table: &'a Table,
    before: &str,
    visit: &mut impl FnMut(String, &'a Value) -> Result<(), Error>,
) -> Result<(), Error> {
    for (key, value) in &table.entries {
        let address = format!("{before}{key}");
        match &value.kind {
            Kind::Table(inner) if inner.get("samples").is_none() => flatten(inner, &format!("{address}."), visit)?,
            _ => visit(address, value)?,
        }
    }
    Ok(())
}

/// Rejects a key that is swept under two names, such as `hop.b.up.rate` and `hop.b.reverse.rate`. Only one of the two
/// values would take effect.
fn once_each(axes: &[Axis]) -> Result<(), Error> {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for (key, line, _) in axes.iter().flat_map(|axis| &axis.keys) {
        if let Some(other) = names.insert(address::plain(key), key) {
            return Err(Error::at(*line, key, format!("swept twice: {other} is the same key; expected one of them")));
        }
    }
    Ok(())
}

/// Joins the axes whose keys vary together, at the position of the first.
fn zipped(mut axes: Vec<Axis>, zip: &Value) -> Result<Vec<Axis>, Error> {
    let fault = |problem: String| Error::at(zip.line, "sweep.zip", problem).value(zip.written());
    let wrong = || fault("expected lists of swept keys, such as [[\"hop.a.rate\", \"hop.a.qdisc\"]]".into());
    let Kind::List(groups) = &zip.kind else { return Err(wrong()) };
    for group in groups {
        let Kind::List(items) = &group.kind else { return Err(wrong()) };
        let mut joined: Option<usize> = None;
        for item in items {
            let Kind::Text(key) = &item.kind else { return Err(wrong()) };
            let at = axes.iter().position(|axis| axis.keys.iter().any(|(name, ..)| name == key));
            let Some(at) = at else {
                let known = axes.iter().flat_map(|axis| axis.keys.iter().map(|(name, ..)| name.as_str()));
                return Err(fault(format!("{key:?} is not swept")).nearest(key, known));
            };
            let Some(first) = joined else {
                joined = Some(at);
                continue;
            };
            if at == first || axes[at].keys.len() > 1 {
                return Err(fault(format!("{key:?} is listed twice")));
            }
            let (one, other) = (axes[first].len(), axes[at].len());
            if one != other {
                return Err(fault(format!(
                    "{key:?} has {other} values, but keys that vary together need as many: {one}"
                )));
            }
            let moved = axes.remove(at);
            let first = if at < first { first - 1 } else { first };
            axes[first].keys.extend(moved.keys);
            joined = Some(first);
        }
    }
    Ok(axes)
}

/// Returns the values of one key, given as a list, a range or samples.
fn values(key: &str, value: &Value) -> Result<Vec<Value>, Error> {
    let fault = || {
        let expected = "expected a list, a range such as \"1ms..100ms log 9\" (lin 11, step 10ms), or \
                        { uniform = [\"1mbit\", \"10mbit\"], samples = 20 } (or log_uniform)";
        Error::at(value.line, key, expected).value(value.written())
    };
    let mut values = match &value.kind {
        Kind::List(items) if !items.is_empty() => return Ok(items.clone()),
        Kind::Text(text) => range(text).ok_or_else(fault)?,
        Kind::Table(table) => samples(key, table).ok_or_else(fault)?,
        _ => return Err(fault()),
    };
    values.iter_mut().for_each(|made| made.line = value.line);
    Ok(values)
}

/// The unit of a range's bounds.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Time,
    Rate,
    Number,
    Bytes,
}

fn quantity(text: &str) -> Option<(Unit, f64)> {
    let time = || units::span(text).map(|span| (Unit::Time, span.0 as f64));
    let rate = || units::rate(text).map(|read| (Unit::Rate, read.rate.0 as f64));
    let number = || units::number(text).map(|number| (Unit::Number, number));
    let bytes = || units::bytes(text).map(|bytes| (Unit::Bytes, bytes as f64));
    number().or_else(time).or_else(rate).or_else(bytes)
}

impl Unit {
    fn value(self, x: f64) -> Value {
        let whole = libm::round(x);
        match self {
            Unit::Time => Value::text(Span(whole as u64).to_string()),
            Unit::Rate => Value::text(Rate(whole as u64).to_string()),
            Unit::Bytes => Value::integer(whole as i64),
            Unit::Number if x == whole => Value::integer(whole as i64),
            Unit::Number => Value { line: None, kind: Kind::Float(x) },
        }
    }
}

/// Parses `1ms..100ms log 9`, `50ms..550ms lin 11` or `50ms..550ms step 50ms`; both bounds are included.
fn range(text: &str) -> Option<Vec<Value>> {
    let (low, rest) = text.split_once("..")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [high, how, many] = words[..] else { return None };
    let ((unit, low), (other, high)) = (quantity(low)?, quantity(high)?);
    if unit != other || low >= high {
        return None;
    }
    if how == "step" {
        let (other, step) = quantity(many)?;
        let steps = libm::floor((high - low) / step + 1e-9);
        let sound = unit == other && step > 0.0 && steps < MOST_RUNS as f64;
        return sound.then(|| (0..=steps as u64).map(|i| unit.value(low + step * i as f64)).collect());
    }
    let many: u64 = many.parse().ok().filter(|n| (2..=MOST_RUNS).contains(n))?;
    let at = |i: u64| {
        let share = i as f64 / (many - 1) as f64;
        // The bounds are exact; only values between them are rounded.
        match (i, how) {
            (0, _) => low,
            (i, _) if i == many - 1 => high,
            (_, "log") => low * libm::pow(high / low, share),
            _ => low + (high - low) * share,
        }
    };
    let sound = how == "lin" || (how == "log" && low > 0.0);
    sound.then(|| (0..many).map(|i| unit.value(at(i))).collect())
}

/// Parses `{ uniform = [low, high], samples = n }`. The samples are derived from the key's name, the same for every
/// seed.
fn samples(key: &str, table: &Table) -> Option<Vec<Value>> {
    let Some(Value { kind: Kind::Integer(n), .. }) = table.get("samples") else { return None };
    let n = u64::try_from(*n).ok().filter(|n| (1..=MOST_RUNS).contains(n))?;
    let (how, ends) = ["uniform", "log_uniform"].iter().find_map(|how| Some((*how, table.get(how)?)))?;
    let Kind::List(ends) = &ends.kind else { return None };
    let end = |value: &Value| match &value.kind {
        Kind::Text(text) => quantity(text),
        Kind::Integer(n) => Some((Unit::Number, *n as f64)),
        Kind::Float(x) => Some((Unit::Number, *x)),
        _ => None,
    };
    let [low, high] = &ends[..] else { return None };
    let ((unit, low), (other, high)) = (end(low)?, end(high)?);
    if unit != other || low >= high || table.entries.len() != 2 || (how == "log_uniform" && low <= 0.0) {
        return None;
    }
    let mut rng = Rng::stream(0, &format!("sweep {key}"));
    let draw = |share: f64| match how {
        "uniform" => low + (high - low) * share,
        _ => low * libm::pow(high / low, share),
    };
    Some((0..n).map(|_| unit.value(draw(rng.uniform()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    fn sweep(text: &str) -> Result<Sweep, Error> {
        let root = parse(&format!("[sweep]\n{text}")).expect("valid TOML");
        Sweep::read(root.get("sweep"), |_| false)
    }

    fn written(text: &str) -> Vec<String> {
        range(text).unwrap_or_default().iter().map(Value::written).collect()
    }

    #[test]
    fn the_first_key_is_outermost() {
        let sweep = sweep("a = [1, 2]\nb = [3, 4, 5]").expect("sound");
        assert_eq!(sweep.combinations(), Some(6));
        let all: Vec<String> = (0..6)
            .map(|i| sweep.combination(i).iter().map(|(key, _, v)| format!("{key}{}", v.written())).collect())
            .collect();
        assert_eq!(all, ["a1b3", "a1b4", "a1b5", "a2b3", "a2b4", "a2b5"]);
    }

    #[test]
    fn zipped_keys_move_together() {
        let sweep = sweep("zip = [[\"a\", \"c\"]]\na = [1, 2]\nb = [3]\nc = [4, 5]").expect("sound");
        let all: Vec<String> = (0..2)
            .map(|i| sweep.combination(i).iter().map(|(key, _, v)| format!("{key}{}", v.written())).collect())
            .collect();
        assert_eq!(all, ["a1c4b3", "a2c5b3"]);
    }

    #[test]
    fn zip_is_checked() {
        for text in [
            "zip = [[\"a\", \"b\"]]\na = [1, 2]\nb = [3]",
            "zip = [[\"a\", \"x\"]]\na = [1, 2]",
            "zip = [[\"a\", \"a\"]]\na = [1, 2]",
            "zip = 3\na = [1]",
        ] {
            assert_eq!(sweep(text).err().map(|e| e.key), Some("sweep.zip".into()), "{text}");
        }
    }

    #[test]
    fn a_key_is_swept_once_whichever_word_names_its_direction() {
        for (one, other) in [("up", "reverse"), ("reverse", "up"), ("down", "")] {
            let keys = [one, other].map(|word| if word.is_empty() { "qdisc".into() } else { format!("{word}.qdisc") });
            let text = format!("\"hop.a.{}\" = [\"codel\"]\n\"hop.a.{}\" = [\"fq\"]", keys[0], keys[1]);
            let error = sweep(&text).err().expect("refused");
            assert_eq!((error.key, error.line), (format!("hop.a.{}", keys[1]), Some(3)), "{text}");
            assert!(error.problem.contains(&format!("hop.a.{} is the same key", keys[0])), "{text}");
        }
        assert!(sweep("\"hop.a.up.qdisc\" = [\"codel\"]\n\"hop.a.down.qdisc\" = [\"fq\"]").is_ok());
    }

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(written("1ms..100ms log 3"), ["\"1ms\"", "\"10ms\"", "\"100ms\""]);
        assert_eq!(written("50ms..550ms step 250ms"), ["\"50ms\"", "\"300ms\"", "\"550ms\""]);
        assert_eq!(written("1mbit..10mbit lin 4"), ["\"1mbit\"", "\"4mbit\"", "\"7mbit\"", "\"10mbit\""]);
        assert_eq!(written("1..10 lin 4"), ["1", "4", "7", "10"]);
        assert_eq!(written("0.5..1 step 0.25"), ["0.5", "0.75", "1"]);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "1ms..2ms", "2ms..1ms lin 3", "1ms..2mbit lin 3", "0s..1s log 3", "1..2 lin 1", "1..2 step 0"]
        {
            assert!(range(text).is_none(), "{text}");
        }
        assert!(range("0..100000000 step 1").is_none());
    }

    #[test]
    fn samples_lie_in_their_range_and_repeat() {
        let one = sweep("a = { uniform = [\"1mbit\", \"10mbit\"], samples = 20 }").expect("sound");
        let two = sweep("a = { uniform = [\"1mbit\", \"10mbit\"], samples = 20 }").expect("sound");
        assert_eq!(one.axes[0].keys[0].2, two.axes[0].keys[0].2);
        assert_eq!(one.combinations(), Some(20));
        for value in &one.axes[0].keys[0].2 {
            let Kind::Text(text) = &value.kind else { panic!("a rate") };
            let rate = units::rate(text).expect("a rate").rate;
            assert!((1_000_000..=10_000_000).contains(&rate.0), "{text}");
        }
        assert!(sweep("a = { uniform = [1, 10], samples = 0 }").is_err());
        assert!(sweep("a = { gauss = [1, 10], samples = 3 }").is_err());
    }
}
