//! A TOML document as a small tree of values with line numbers, so that errors can name the line.

use std::borrow::Cow;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;
use crate::foreign;

/// A value with its line in the file; no line if it came from `--set`, a sweep's range or a default.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Value {
    pub(crate) line: Option<u32>,
    pub(crate) kind: Kind,
}

/// The type and content of a value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Kind {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    /// A TOML date. No key takes one.
    Date(String),
    List(Vec<Value>),
    Table(Table),
}

/// Keys with their values, in the order of the file.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Table {
    pub(crate) entries: Vec<(String, Value)>,
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.entries.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn set(&mut self, key: &str, value: Value) {
        match self.get_mut(key) {
            Some(slot) => *slot = value,
            None => self.entries.push((key.to_owned(), value)),
        }
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(name, _)| name == key)?;
        Some(self.entries.remove(at).1)
    }
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Value {
        Value { line: None, kind: Kind::Text(text.into()) }
    }

    pub(crate) fn integer(n: i64) -> Value {
        Value { line: None, kind: Kind::Integer(n) }
    }

    /// Returns the value as TOML, on one line.
    pub(crate) fn written(&self) -> String {
        match &self.kind {
            Kind::Text(text) => format!("\"{}\"", text.escape_debug()),
            Kind::Integer(n) => n.to_string(),
            Kind::Float(x) => format!("{x:?}"),
            Kind::Flag(flag) => flag.to_string(),
            Kind::Date(text) => text.clone(),
            Kind::List(items) => {
                // The first items of a long list are enough to recognise it.
                let shown: Vec<String> = items.iter().take(20).map(Value::written).collect();
                format!("[{}{}]", shown.join(", "), if items.len() > 20 { ", …" } else { "" })
            }
            Kind::Table(table) => {
                let shown: Vec<String> =
                    table.entries.iter().take(20).map(|(key, value)| format!("{key} = {}", value.written())).collect();
                format!("{{ {} }}", shown.join(", "))
            }
        }
    }

    /// Returns the value as JSON, for the `set` of a run.
    pub(crate) fn json(&self) -> Json {
        match &self.kind {
            Kind::Text(text) | Kind::Date(text) => Json::from(text.as_str()),
            Kind::Integer(n) => Json::from(*n),
            Kind::Float(x) => Json::from(*x),
            Kind::Flag(flag) => Json::from(*flag),
            Kind::List(items) => items.iter().map(Value::json).collect(),
            Kind::Table(table) => {
                Json::Object(table.entries.iter().map(|(key, value)| (key.clone(), value.json())).collect())
            }
        }
    }
}

/// Parses a file. Errors name the line.
pub(crate) fn parse(source: &str) -> Result<Table, Error> {
    let lines = Lines::of(source);
    let root = DeTable::parse(source).map_err(|error| {
        if let Some(kind) = foreign::kind(source.as_bytes()) {
            return Error::of_file(kind);
        }
        let line = error.span().map(|span| lines.at(span.start));
        Error::at(line, "", format!("not valid TOML: {}", error.message().replace('\n', " ")))
    })?;
    table(root.get_ref(), &lines)
}

/// Reads the VALUE of `--set KEY=VALUE`: as TOML if it is valid TOML, otherwise as bare text.
pub(crate) fn parse_value(text: &str) -> Value {
    match parse(&format!("v = {text}")) {
        // A date or a second line would be valid TOML, but is not what the user meant.
        Ok(mut table) if table.entries.len() == 1 => match table.remove("v") {
            Some(Value { kind: Kind::Date(_), .. }) | None => Value::text(text),
            Some(value) => without_lines(value),
        },
        _ => Value::text(text),
    }
}

fn without_lines(value: Value) -> Value {
    let kind = match value.kind {
        Kind::List(items) => Kind::List(items.into_iter().map(without_lines).collect()),
        Kind::Table(table) => Kind::Table(without_lines_in(table)),
        kind => kind,
    };
    Value { line: None, kind }
}

/// Removes the line numbers from all values of a table. This is for text that a program wrote: its lines mean nothing
/// to the user.
pub(crate) fn without_lines_in(table: Table) -> Table {
    Table { entries: table.entries.into_iter().map(|(key, value)| (key, without_lines(value))).collect() }
}

/// Byte offset of the start of each line.
struct Lines(Vec<usize>);

impl Lines {
    fn of(source: &str) -> Lines {
        Lines(std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    /// Returns the line of a byte offset, counted from 1.
    fn at(&self, byte: usize) -> u32 {
        u32::try_from(self.0.partition_point(|&start| start <= byte)).unwrap_or(u32::MAX)
    }
}

fn table(source: &DeTable<'_>, lines: &Lines) -> Result<Table, Error> {
    let mut entries = Vec::with_capacity(source.len());
    for (key, item) in source.iter() {
        let mut value = value(key.get_ref(), item, lines)?;
        // The span of a table may start at the end of its header or at its first key; users look for the line of the
        // key itself.
        value.line = Some(lines.at(key.span().start));
        entries.push((key.get_ref().to_string(), value));
    }
    Ok(Table { entries })
}

fn value(key: &str, source: &Spanned<DeValue<'_>>, lines: &Lines) -> Result<Value, Error> {
    let line = Some(lines.at(source.span().start));
    let fault = |written: &str, problem: &str| Err(Error::at(line, key, problem).value(written.to_owned()));
    let kind = match source.get_ref() {
        DeValue::String(text) => Kind::Text(Cow::clone(text).into_owned()),
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(n) => Kind::Integer(n),
            Err(_) => return fault(n.as_str(), "expected a number that fits 64 bits"),
        },
        DeValue::Float(x) => match x.as_str().parse::<f64>() {
            Ok(x) if x.is_finite() => Kind::Float(x),
            _ => return fault(x.as_str(), "expected a finite number"),
        },
        DeValue::Boolean(flag) => Kind::Flag(*flag),
        DeValue::Datetime(date) => Kind::Date(date.to_string()),
        DeValue::Array(items) => {
            Kind::List(items.iter().map(|item| value(key, item, lines)).collect::<Result<_, _>>()?)
        }
        DeValue::Table(inner) => Kind::Table(table(inner, lines)?),
    };
    Ok(Value { line, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_remember_their_lines_and_their_order() {
        let root = parse("b = 1\n[[hop]]\nrate = \"1mbit\"\n\n[[hop]]\ndelay = [\n \"1ms\"]\n").expect("valid");
        assert_eq!(root.entries[0].0, "b");
        let Some(Value { kind: Kind::List(hops), .. }) = root.get("hop") else { panic!("a list of hops") };
        assert_eq!((hops[0].line, hops[1].line), (Some(2), Some(5)));
        let Kind::Table(second) = &hops[1].kind else { panic!("a table") };
        assert_eq!(second.get("delay").and_then(|v| v.line), Some(6));
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        let error = parse("a = 1\nb = \n").expect_err("no value");
        assert_eq!(error.line, Some(2));
        assert!(error.problem.contains("TOML"), "{error}");
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for text in ["a = nan", "a = -inf", "a = 1e999", "a = 99999999999999999999"] {
            assert_eq!(parse(text).expect_err(text).key, "a");
        }
    }

    #[test]
    fn a_set_value_is_toml_or_else_itself() {
        assert_eq!(parse_value("4").kind, Kind::Integer(4));
        assert_eq!(parse_value("codel limit 830").kind, Kind::Text("codel limit 830".into()));
        assert_eq!(parse_value("\"4\"").kind, Kind::Text("4".into()));
        assert_eq!(parse_value("1\nb = 2").kind, Kind::Text("1\nb = 2".into()));
    }
}
