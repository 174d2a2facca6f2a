//! Reads the values of a section according to the tables in [`crate::keys`].

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sojourn_core::units::{Rate, Span, Time};

use crate::document::{Kind, Table, Value};
use crate::error::{Error, shortened};
use crate::keys::{Fallback, Form, Key, Section};
use crate::scenario::TraceFile;
use crate::{rates, units};

/// State shared by all sections of a file.
#[derive(Default)]
pub(crate) struct Context {
    /// The folder of the scenario file. Trace files are relative to it.
    pub(crate) folder: PathBuf,
    /// Trace files that have been read, by their names in the scenario.
    pub(crate) traces: RefCell<BTreeMap<String, TraceFile>>,
    /// Files of sizes that have been read, by their names in the scenario.
    pub(crate) sizes: RefCell<BTreeMap<String, Arc<Vec<u64>>>>,
    /// The names of disciplines from outside.
    pub(crate) outside: Arc<[String]>,
    /// Warnings for the user, in order of appearance, without repetitions.
    pub(crate) warnings: RefCell<Vec<String>>,
}

impl Context {
    pub(crate) fn warn(&self, text: String) {
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }
}

/// A section of the file whose keys have been checked.
pub(crate) struct Reader<'a> {
    pub(crate) context: &'a Context,
    pub(crate) path: String,
    pub(crate) line: Option<u32>,
    section: &'static Section,
    kind: Option<&'a str>,
    table: &'a Table,
}

impl<'a> Reader<'a> {
    /// Opens a section. Checks that every key is known, is implemented, and applies to this kind of flow.
    pub(crate) fn open(
        context: &'a Context,
        section: &'static Section,
        path: String,
        (line, table): (Option<u32>, &'a Table),
        kind: Option<&'a str>,
    ) -> Result<Reader<'a>, Error> {
        let reader = Reader { context, path, line, section, kind, table };
        for (name, value) in &table.entries {
            reader.check_key(name, value)?;
        }
        Ok(reader)
    }

    fn check_key(&self, name: &str, value: &Value) -> Result<(), Error> {
        let address = self.address(name);
        let fault = |problem: String| Err(Error::at(value.line, address.clone(), problem));
        match self.section.find(name, self.kind) {
            Some(Key { form: Form::Later, .. }) => {
                fault("known, but not built yet".into()).map_err(|e| e.value(value.written()).not_built())
            }
            Some(_) => Ok(()),
            None if self.section.find(name, None).is_some() => {
                fault(format!("does not belong to kind = \"{}\"", self.kind.unwrap_or_default()))
            }
            None => {
                let known = self.section.keys.iter().filter(|key| key.form != Form::Later).map(|key| key.name);
                fault("unknown key".into()).map_err(|e| e.nearest(name, known))
            }
        }
    }

    fn address(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn key(&self, name: &str) -> &'static Key {
        match self.section.find(name, self.kind) {
            Some(key) => key,
            None => panic!("bug: the tables have no key {name} in section {}", self.section.name),
        }
    }

    /// Returns the value, if it is in the file.
    pub(crate) fn given(&self, name: &str) -> Option<Field<'a>> {
        let value = self.table.get(name)?;
        let (context, key) = (self.context, self.key(name));
        Some(Field { context, key, address: self.address(name), value: Cow::Borrowed(value) })
    }

    /// Returns the value or its default; an error if it is mandatory and missing.
    pub(crate) fn field(&self, name: &str) -> Result<Field<'a>, Error> {
        if let Some(field) = self.given(name) {
            return Ok(field);
        }
        let (context, key, address) = (self.context, self.key(name), self.address(name));
        let value = match key.fallback {
            Fallback::Text(text) => Value::text(text),
            Fallback::Integer(n) => Value::integer(n),
            Fallback::Flag(flag) => Value { line: None, kind: Kind::Flag(flag) },
            Fallback::Required | Fallback::Words(_) => {
                return Err(Error::at(self.line, address, format!("missing: expected {}", key.form.expected())));
            }
        };
        Ok(Field { context, key, address, value: Cow::Owned(value) })
    }
}

/// A value with the context that error messages need.
#[derive(Clone)]
pub(crate) struct Field<'a> {
    pub(crate) context: &'a Context,
    pub(crate) address: String,
    pub(crate) value: Cow<'a, Value>,
    key: &'static Key,
}

impl Field<'_> {
    /// Returns an error about this value.
    pub(crate) fn fault(&self, problem: impl Into<String>) -> Error {
        Error::at(self.value.line, self.address.clone(), problem).value(self.value.written())
    }

    /// Returns an error: the value does not have the form of its key.
    pub(crate) fn unexpected(&self) -> Error {
        match self.key.form {
            Form::Choice(words) => self.none_of(words),
            form => self.fault(format!("expected {}", form.expected())),
        }
    }

    /// Returns an error: the value is none of these words.
    fn none_of(&self, words: &[&'static str]) -> Error {
        let error = self.fault(format!("expected one of {}", words.join(", ")));
        match &self.value.kind {
            Kind::Text(text) => error.nearest(text, words.iter().copied()),
            _ => error,
        }
    }

    /// The names of disciplines from outside.
    pub(crate) fn outside(&self) -> &[String] {
        &self.context.outside
    }

    pub(crate) fn warn(&self, text: &str) {
        self.context.warn(format!("{} = {}: {text}", self.address, shortened(self.value.written())));
    }

    pub(crate) fn text(&self) -> Result<&str, Error> {
        match &self.value.kind {
            Kind::Text(text) => Ok(text),
            _ => Err(self.unexpected()),
        }
    }

    pub(crate) fn name(&self) -> Result<String, Error> {
        let text = self.text()?;
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let sound = !text.is_empty() && text.len() <= 64 && text.chars().all(good);
        if sound { Ok(text.to_owned()) } else { Err(self.unexpected()) }
    }

    pub(crate) fn flag(&self) -> Result<bool, Error> {
        match self.value.kind {
            Kind::Flag(flag) => Ok(flag),
            _ => Err(self.unexpected()),
        }
    }

    /// Reads one of the words of the key's form; a word that is a number may be given as a number.
    pub(crate) fn choice(&self) -> Result<&'static str, Error> {
        let Form::Choice(words) = self.key.form else { return Err(self.unexpected()) };
        self.one_of(words)
    }

    /// Reads one of these words.
    pub(crate) fn one_of(&self, words: &'static [&'static str]) -> Result<&'static str, Error> {
        let text = match &self.value.kind {
            Kind::Text(text) => Cow::Borrowed(text.as_str()),
            Kind::Integer(n) => Cow::Owned(n.to_string()),
            _ => return Err(self.none_of(words)),
        };
        words.iter().copied().find(|word| *word == text).ok_or_else(|| self.none_of(words))
    }

    /// Reads an integer within these bounds.
    pub(crate) fn integer(&self, lowest: u32, highest: u32) -> Result<u32, Error> {
        let Kind::Integer(n) = self.value.kind else { return Err(self.unexpected()) };
        let within = u32::try_from(n).ok().filter(|n| (lowest..=highest).contains(n));
        within.ok_or_else(|| self.fault(format!("expected a whole number from {lowest} to {highest}")))
    }

    /// Reads a differentiated services code point, by name or number.
    pub(crate) fn dscp(&self) -> Result<u8, Error> {
        match &self.value.kind {
            Kind::Integer(n) => u8::try_from(*n).ok().filter(|n| *n < 64).ok_or_else(|| self.unexpected()),
            Kind::Text(text) => units::dscp(text).ok_or_else(|| {
                let error = self.unexpected();
                error.nearest(&text.to_ascii_uppercase(), units::DSCPS.iter().map(|(name, _)| *name))
            }),
            _ => Err(self.unexpected()),
        }
    }

    /// Reads a number above zero.
    pub(crate) fn number(&self) -> Result<f64, Error> {
        let number = match self.value.kind {
            Kind::Integer(n) => n as f64,
            Kind::Float(x) => x,
            _ => return Err(self.unexpected()),
        };
        if number.is_finite() && number > 0.0 { Ok(number) } else { Err(self.unexpected()) }
    }

    /// Reads a duration of at most [`units::LONGEST`].
    pub(crate) fn span(&self) -> Result<Span, Error> {
        units::span(self.text()?).filter(|span| *span <= units::LONGEST).ok_or_else(|| self.unexpected())
    }

    /// Reads a time since the start of the run.
    pub(crate) fn time(&self) -> Result<Time, Error> {
        self.span().map(|span| Time::ZERO + span)
    }

    /// Reads a time, or [`Time::NEVER`] for `end`.
    pub(crate) fn moment(&self) -> Result<Time, Error> {
        if matches!(&self.value.kind, Kind::Text(text) if text == "end") { Ok(Time::NEVER) } else { self.time() }
    }

    /// Reads the rate of a step. 0 is an outage and becomes 1 bit/s.
    pub(crate) fn step_rate(&self) -> Result<Rate, Error> {
        let is_zero = self.text().ok().and_then(units::rate).is_some_and(|read| read.rate.0 == 0);
        if is_zero { Ok(rates::at_least_a_bit(0)) } else { self.rate() }
    }

    /// Reads a rate above zero. Warns about `tc`'s units of bytes per second.
    pub(crate) fn rate(&self) -> Result<Rate, Error> {
        let text = self.text()?;
        let negative = text.trim_start().strip_prefix('-').and_then(units::rate).is_some();
        let read = units::rate(text).filter(|read| read.rate.0 > 0 && read.rate <= units::FASTEST);
        let Some(read) = read else {
            let number = negative || units::rate(text).is_some();
            return Err(if number {
                self.fault("expected a rate above zero, at most 10tbit; an outage is a step of \"0bit\"")
            } else {
                let error = self.unexpected();
                match sojourn_core::qdisc::tc::rate_meant(text) {
                    Some(meant) => error.nearest(&meant, [meant.as_str()]),
                    None => error,
                }
            });
        };
        if read.in_bytes {
            self.warn(&format!("tc's \"bps\" units are bytes per second: this is {}", read.rate));
        }
        Ok(read.rate)
    }

    /// Reads a positive number of bytes: a number, or a text with a unit.
    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        let bytes = match &self.value.kind {
            Kind::Integer(n) => u64::try_from(*n).ok(),
            Kind::Text(text) => units::bytes(text),
            _ => None,
        };
        bytes.filter(|bytes| *bytes > 0).ok_or_else(|| self.unexpected())
    }

    /// Returns the items of a list; `None` for other values.
    pub(crate) fn items(&self) -> Option<Vec<Field<'_>>> {
        let Kind::List(items) = &self.value.kind else { return None };
        Some(items.iter().map(|item| self.part(item)).collect())
    }

    /// Returns a part of this value, such as an item of a list. Errors give it the same address.
    fn part<'b>(&'b self, value: &'b Value) -> Field<'b> {
        Field { context: self.context, key: self.key, address: self.address.clone(), value: Cow::Borrowed(value) }
    }

    /// Returns a part of this value that has its own key. Errors add this key to the address.
    fn named_part<'b>(&'b self, name: &str, value: &'b Value) -> Field<'b> {
        Field { address: format!("{}.{name}", self.address), ..self.part(value) }
    }

    /// Returns the two items of a pair.
    pub(crate) fn pair(&self) -> Result<[Field<'_>; 2], Error> {
        let items = self.items().ok_or_else(|| self.unexpected())?;
        <[Field<'_>; 2]>::try_from(items).map_err(|_| self.unexpected())
    }

    /// Returns the items of an inline table with exactly these keys, in this order.
    pub(crate) fn parts<const N: usize>(&self, names: [&str; N]) -> Option<[Field<'_>; N]> {
        let Kind::Table(table) = &self.value.kind else { return None };
        let found: Option<Vec<_>> =
            names.iter().map(|name| table.get(name).map(|v| self.named_part(name, v))).collect();
        if table.entries.len() == N { <[Field<'_>; N]>::try_from(found?).ok() } else { None }
    }

    /// Reads a start and an end, in order; the end may be `end`.
    pub(crate) fn window(&self) -> Result<(Time, Time), Error> {
        let [from, to] = self.pair()?;
        let (from, to) = (from.time()?, to.moment()?);
        if from < to { Ok((from, to)) } else { Err(self.fault("expected the first time before the second")) }
    }
}
