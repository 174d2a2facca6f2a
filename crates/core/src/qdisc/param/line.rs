//! Reads a discipline's parameters from the words of a line, prints them, documents them, and draws random ones for
//! tests.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Error, Form, Param, Parameters, Presence, Unit, Value, Words, number};
use crate::qdisc::tc::DefaultLimit;
use crate::rng::Rng;

/// A parameter as reference pages and help show it.
#[derive(Clone, PartialEq, Debug)]
pub struct ParamDoc {
    /// The parameter's name.
    pub name: &'static str,
    /// The word that switches a flag off.
    pub off: Option<&'static str>,
    /// A description of a value.
    pub expects: String,
    /// The default as written in a line; empty if it is derived from the link or switched off.
    pub default: String,
    /// The allowed range; empty if there is none.
    pub range: String,
    /// A description of one line.
    pub doc: &'static str,
    /// Whether `tc` lacks this parameter.
    pub ours: bool,
    /// Whether every line must give it.
    pub required: bool,
}

/// A discipline as reference pages and help show it.
#[derive(Clone, PartialEq, Debug)]
pub struct Discipline {
    /// The name.
    pub name: &'static str,
    /// A description of one line.
    pub doc: &'static str,
    /// Whether a stock kernel and its `tc` have this discipline with the same parameters.
    pub tc: bool,
    /// Its parameters.
    pub params: Vec<ParamDoc>,
}

pub(crate) fn read_params<T: Parameters>(words: &mut Words, warnings: &mut Vec<String>) -> Result<T, Error> {
    read_onto(T::blank(), true, words, warnings).map(|(params, _)| params)
}

/// The state of reading a line.
struct Reading<'w, T: Parameters> {
    params: T,
    /// The parameters before the line.
    base: T,
    /// The names of the parameters that were given.
    seen: Vec<&'static str>,
    /// The words that were read.
    given: Vec<Given>,
    /// Whether a number has the letter after it with which `tc` prints packets or bytes.
    with_letter: bool,
    /// The parameters that were given as a zero that `tc` does not send.
    zeros: Vec<&'static Param<T>>,
    /// The last parameter with a value, and the text of that value.
    last: Option<(&'static Param<T>, &'w str)>,
}

/// Words of a line that were read.
struct Given {
    text: String,
    /// The parameter that they name.
    name: &'static str,
    /// The parameters whose values they changed.
    changed: Vec<&'static str>,
}

/// Sets parameters from the words of a line. With `whole`, required parameters must be among them. Also returns the
/// names of the parameters that were set.
fn read_onto<T: Parameters>(
    params: T,
    whole: bool,
    words: &mut Words,
    warnings: &mut Vec<String>,
) -> Result<(T, Vec<&'static str>), Error> {
    let base = params.clone();
    let (seen, given, zeros) = (Vec::new(), Vec::new(), Vec::new());
    let mut reading = Reading { params, base, seen, given, with_letter: false, zeros, last: None };
    while let Some(word) = words.next() {
        reading.read(word, words, warnings)?;
    }
    reading.take_zeros(warnings)?;
    let Reading { mut params, mut seen, with_letter, .. } = reading;
    let required = T::PARAMS.iter().filter(|param| whole && param.presence == Presence::Required);
    if let Some(missing) = required.into_iter().find(|param| !seen.contains(&param.name)) {
        let problem = format!("{} needs {}: {}", T::NAME, missing.name, missing.unit.expects());
        return Err(Error::new("", if T::HINT.is_empty() { problem } else { format!("{problem}; {}", T::HINT) }));
    }
    if let Some(name) = seen.iter().find(|name| params.foreign().contains(*name)) {
        return Err(Error::new(name, of_another_variant(&params, name)));
    }
    let derived = params.derive(&seen).map_err(|(name, problem)| Error::new(name, problem))?;
    seen.extend(derived.names);
    params.complete();
    params.check().map_err(|(name, problem)| Error::new(name, problem.to_string()))?;
    let asked = !T::ASKED_BY_TC.is_empty() && !seen.contains(&T::ASKED_BY_TC);
    if words.printed || (with_letter && asked) {
        warnings.extend(assumptions(&params, &seen));
    }
    warnings.extend((!derived.open.is_empty()).then(|| format!("{}: {}", T::NAME, derived.open)));
    Ok((params, seen))
}

/// Why a parameter of another variant is refused, even with its default.
fn of_another_variant<T: Parameters>(params: &T, name: &str) -> String {
    let variant = T::PARAMS.iter().find(|param| param.name == "variant");
    let has_it = |place: &usize| {
        let mut other = params.clone();
        variant.is_some_and(|param| (param.set)(&mut other, Value::Int(*place as u64)))
            && !other.foreign().contains(&name)
    };
    let words = match variant.map(|param| param.unit) {
        Some(Unit::Choice(words, _)) => words,
        _ => &[],
    };
    let having: Vec<&str> = (0..words.len()).filter(has_it).map(|place| words[place]).collect();
    let own = variant_of(params).unwrap_or_default();
    format!("variant {own} of {} does not have it, only variant {} does: leave it out", T::NAME, having.join(", "))
}

/// The sentence that names what a text printed by `tc` does not hold, and what is assumed instead. `None` if it holds
/// every parameter that matters.
fn assumptions<T: Parameters>(params: &T, seen: &[&'static str]) -> Option<String> {
    let in_every_output = |param: &&Param<T>| {
        let unit_says_it =
            matches!(param.unit, Unit::Flag(_) | Unit::Preset(_) | Unit::Impossible | Unit::Ignored(_) | Unit::Child);
        param.ours != T::TC && !unit_says_it && !param.shown_if_set && param.presence != Presence::Shown
    };
    let missing: Vec<&Param<T>> =
        T::PARAMS.iter().filter(in_every_output).filter(|param| !seen.contains(&param.name)).collect();
    let first = missing.first()?;
    let assumed = missing.iter().map(|param| match params.assumed(param) {
        Value::Unset => format!("{} by default", param.name),
        value if param.unit.words().is_empty() => format!("{} {}", param.name, param.print(value)),
        value => param.print(value),
    });
    let assumed = assumed.collect::<Vec<_>>().join(", ");
    let names = match missing.len() {
        1 => first.name.to_string(),
        _ => missing.iter().map(|param| param.name).collect::<Vec<_>>().join(", "),
    };
    let details = missing.iter().any(|param| T::DETAILS.contains(&param.name));
    let more = if details { "; tc -d qdisc show says more" } else { "" };
    Some(format!("{}: what tc printed does not hold {names}; assumed: {assumed}{more}", T::NAME))
}

/// Returns whether this is a number with the letter with which `tc` prints packets or bytes, such as `1000p`.
fn has_letter(text: &str) -> bool {
    text.strip_suffix(['p', 'b']).is_some_and(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
}

impl<'w, T: Parameters> Reading<'w, T> {
    /// Reads a parameter, whose name is `word`, and its value.
    fn read(&mut self, word: &'w str, words: &mut Words<'w>, warnings: &mut Vec<String>) -> Result<(), Error> {
        let params = T::PARAMS;
        let called = |p: &&Param<T>| p.name == word || off_word(p) == Some(word);
        let Some(param) = params.iter().find(called).or_else(|| params.iter().find(|p| p.is_called(word))) else {
            return Err(self.apart(word).unwrap_or_else(|| unknown_word::<T>(word)));
        };
        if matches!(param.unit, Unit::Impossible) {
            return Err(Error::new(word, param.doc.to_string()));
        }
        let before = self.params.clone();
        if self.seen.contains(&param.name) && !matches!(param.unit, Unit::Preset(_)) {
            if T::ONCE.contains(&param.name) && !words.printed {
                return Err(Error::new(
                    word,
                    format!("{} is given twice, which tc refuses: leave one out", param.name),
                ));
            }
            self.zeros.retain(|zero| zero.name != param.name);
            (param.set)(&mut self.params, (param.get)(&self.base));
        } else {
            self.seen.push(param.name);
        }
        let text = self.set(param, word, words, warnings)?;
        self.last_counts(param, text, &before, words.printed, warnings);
        Ok(())
    }

    /// Reads the value of a parameter, whose name is `word`, and sets it. Returns the words that were read.
    fn set(
        &mut self,
        param: &'static Param<T>,
        word: &'w str,
        words: &mut Words<'w>,
        warnings: &mut Vec<String>,
    ) -> Result<String, Error> {
        let mut text = word.to_string();
        let value = match param.unit {
            Unit::Flag(off) => Value::Flag(word != off),
            Unit::Word(words) | Unit::Preset(words) => {
                words.iter().position(|one| *one == word).map_or(Value::Unset, |place| Value::Int(place as u64))
            }
            Unit::Ignored(count) => {
                warnings.push(format!("{} is ignored: {}", param.name, param.doc));
                words.by_ref().take(count).for_each(drop);
                return Ok(text);
            }
            Unit::Child => return read_child(&mut self.params, param, words, warnings).map(|()| text),
            Unit::Nibbles => read_nibbles(param, (param.get)(&self.params), words)?,
            _ => {
                self.last = words.clone().next().map(|text| (param, text));
                if let Some((_, value)) = self.last {
                    self.with_letter |= has_letter(value);
                    text = format!("{word} {value}");
                }
                let read = read_value(param, words, warnings);
                read.map_err(|error| words.clone().next().and_then(|next| self.apart(next)).unwrap_or(error))?
            }
        };
        if param.zero_unsent && value == Value::Int(0) {
            self.zeros.push(param);
            return Ok(text);
        }
        if !(param.set)(&mut self.params, value) {
            return Err(Error::new(word, format!("{} does not take this value", param.name)));
        }
        Ok(text)
    }

    /// Warns if words change what earlier words of the line set: `tc` takes the last ones, and so does this crate.
    fn last_counts(
        &mut self,
        param: &'static Param<T>,
        text: String,
        before: &T,
        printed: bool,
        warnings: &mut Vec<String>,
    ) {
        let differs = |one: &&Param<T>| (one.get)(&self.params) != (one.get)(before) && one.name != param.adds_to;
        let changed: Vec<&'static str> = T::PARAMS.iter().filter(differs).map(|one| one.name).collect();
        let has_value = !matches!(param.unit, Unit::Preset(_) | Unit::Ignored(_));
        let is_met = |one: &&Given| {
            (has_value && one.name == param.name)
                || changed.iter().any(|name| *name == one.name || one.changed.contains(name))
        };
        match self.given.iter().rev().find(is_met) {
            Some(one) if one.text == text && printed => {}
            Some(one) if one.text == text => warnings.push(format!("{}: {text} is given twice", T::NAME)),
            Some(Given { text: one, .. }) => {
                warnings.push(format!("{}: {one}, then {text}: as in tc, the last one counts", T::NAME));
            }
            None => {}
        }
        self.given.push(Given { text, name: param.name, changed });
    }

    /// The error for a unit that a space separates from its number, as in `rate 5 Mbit/s`.
    fn apart(&self, word: &str) -> Option<Error> {
        let (param, text) = self.last?;
        let meant = number::unit_meant(word, param.units()?).filter(|_| bare(text))?;
        let problem = format!("a unit follows its number without a space; did you mean {text}{meant}?");
        Some(Error::new(&format!("{text} {word}"), problem))
    }

    /// Handles zeros that `tc` does not send: Linux's variants keep the present value, our own variants take the zero.
    fn take_zeros(&mut self, warnings: &mut Vec<String>) -> Result<(), Error> {
        let of_linux = variant_of(&self.params).is_none_or(|word| word.starts_with("linux"));
        for param in core::mem::take(&mut self.zeros) {
            if of_linux {
                self.seen.retain(|name| *name != param.name);
                if (param.get)(&self.params) == Value::Int(0) {
                    continue;
                }
                let stays = param.print((param.get)(&self.params));
                let stays = if stays.is_empty() { "the default".to_string() } else { stays };
                let name = param.name;
                warnings
                    .push(format!("{} {name} 0: tc and Linux treat a zero as not given, so {stays} applies", T::NAME));
            } else if !param.in_range(Value::Int(0)) || !(param.set)(&mut self.params, Value::Int(0)) {
                return Err(Error::new("0", format!("{} must be {}", param.name, param.range_text())));
            }
        }
        Ok(())
    }
}

/// Applies a line for `tc qdisc change` to the present parameters. Also returns the line with the parameters that `tc`
/// sends to the kernel.
pub(crate) fn change_params<T: Parameters>(
    present: &T,
    words: &mut Words,
    warnings: &mut Vec<String>,
) -> Result<(T, String), Error> {
    let (params, seen) = read_onto(present.before_change(), T::REPLACED, words, warnings)?;
    for param in T::PARAMS.iter().filter(|param| seen.contains(&param.name)) {
        let other_variant = param.name == "variant" && (param.get)(&params) != (param.get)(present);
        if T::FIXED.contains(&param.name) || other_variant {
            let problem = format!("cannot be changed after setup: {} keeps the value of its first line", T::NAME);
            return Err(Error::new(param.name, problem));
        }
    }
    // A preset has no value; the parameters that it sets are the ones that differ.
    let differs = |param: &Param<T>| (param.get)(&params) != (param.get)(present);
    let line = print_named(&params, |param| T::REPLACED || seen.contains(&param.name) || differs(param));
    let words = T::PARAMS.iter().filter(|param| seen.contains(&param.name) && (param.get)(&params) == Value::Unset);
    let single = words.filter(|param| matches!(param.unit, Unit::Preset([_])));
    Ok((params.clone(), single.fold(line, |line, param| line + " " + param.name)))
}

/// Prints the line for `tc` with the chosen parameters only.
fn print_named<T: Parameters>(params: &T, chosen: impl Fn(&Param<T>) -> bool) -> String {
    let mut line = T::NAME.to_string();
    for param in T::PARAMS.iter().filter(|param| param.name != "variant" && param.ours != T::TC && chosen(param)) {
        let value = (param.get)(params);
        // Where a change replaces all parameters, a flag that is not named is off; tc has no word for that.
        if value != Value::Unset && !(T::REPLACED && value == Value::Flag(false)) {
            print_param(&mut line, param, value);
        }
    }
    line
}

fn print_param<T>(line: &mut String, param: &Param<T>, value: Value) {
    line.push(' ');
    if !matches!(param.unit, Unit::Flag(_) | Unit::Word(_) | Unit::Preset(_)) {
        line.push_str(param.name);
        line.push(' ');
    }
    line.push_str(&param.print(value));
}

/// The word that switches a flag off.
fn off_word<T>(param: &Param<T>) -> Option<&'static str> {
    if let Unit::Flag(off) = param.unit { Some(off) } else { None }
}

/// Returns all words with which a parameter can begin.
fn names<T>(param: &Param<T>) -> impl Iterator<Item = &'static str> {
    let name = param.unit.words().is_empty().then_some(param.name);
    name.into_iter().chain(off_word(param)).chain(param.unit.words().iter().copied())
}

fn unknown_word<T: Parameters>(word: &str) -> Error {
    let names: Vec<&'static str> = T::PARAMS.iter().flat_map(names).collect();
    let problem = match names.is_empty() {
        true => format!("{} takes no parameters", T::NAME),
        false => format!("unknown parameter of {}; expected one of: {}", T::NAME, names.join(", ")),
    };
    Error::new(word, problem).near(names.iter())
}

fn read_value<T>(param: &Param<T>, words: &mut Words, warnings: &mut Vec<String>) -> Result<Value, Error> {
    let Some(text) = words.next() else {
        return Err(Error::new(param.name, format!("needs {}", param.unit.expects())));
    };
    let value = param.read(text).map_err(|problem| {
        let error = Error::new(text, problem);
        if let Unit::Choice(built, _) = param.unit { error.near(built.iter()) } else { error }
    })?;
    match (param.unit, value) {
        (Unit::Rate | Unit::Bandwidth, Value::Int(rate)) if text.to_ascii_lowercase().ends_with("bps") => {
            warnings.push(format!("{text}: tc's bps are bytes per second: this is {}", crate::units::Rate(rate)));
        }
        (Unit::Time | Unit::TimeOrPackets, Value::Int(ns)) if bare(text) && 0 < ns && ns < BARE_IS_MEANT => {
            warnings.push(format!("{} {text}: a time without a unit is in microseconds, as in tc", param.name));
        }
        _ => {}
    }
    Ok(value)
}

/// A time without a unit below this, 1 ms, causes a warning: its writer probably meant milliseconds.
const BARE_IS_MEANT: u64 = 1_000_000;

fn bare(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Reads the remaining words of the line as the child discipline.
fn read_child<T>(params: &mut T, param: &Param<T>, words: &mut Words, warnings: &mut Vec<String>) -> Result<(), Error> {
    let Some(name) = words.next() else {
        return Err(Error::new(param.name, format!("needs {}", param.unit.expects())));
    };
    param.child.as_ref().map_or(Ok(()), |child| (child.read)(params, name, words, warnings))
}

/// Reads all numbers that follow. They replace the first ones of those packed in `base`.
fn read_nibbles<T>(param: &Param<T>, base: Value, words: &mut Words) -> Result<Value, Error> {
    let Value::Int(mut packed) = base else { return Ok(Value::Unset) };
    let mut count = 0;
    while let Some(number) = words.clone().next().and_then(|word| word.parse::<u64>().ok()) {
        if number > 15 || count == 16 {
            return Err(Error::new(&number.to_string(), format!("{} expects {}", param.name, param.unit.expects())));
        }
        packed = packed & !(15 << (4 * count)) | number << (4 * count);
        words.next();
        count += 1;
    }
    if count == 0 {
        Err(Error::new(param.name, format!("needs {}", param.unit.expects())))
    } else {
        Ok(Value::Int(packed))
    }
}

pub(crate) fn print_params<T: Parameters>(params: &T, form: Form) -> String {
    let base = T::default();
    let mut line = T::NAME.to_string();
    for param in T::PARAMS {
        let value = (param.get)(params);
        let default = value == (param.get)(&base) && param.presence == Presence::Optional;
        let hidden = match form {
            Form::Compact => default,
            Form::Tc => default || param.ours,
            Form::Full => params.foreign().contains(&param.name),
            // Where a change replaces all parameters, a flag that is not named is off; tc has no word for that.
            Form::TcFull => param.ours || (T::REPLACED && value == Value::Flag(false)),
        };
        if hidden || value == Value::Unset {
            continue;
        }
        print_param(&mut line, param, value);
    }
    if let Some(child) = T::PARAMS.iter().find_map(|param| (param.child.as_ref()?.print)(params, form)) {
        line.push_str(" child ");
        line.push_str(&child);
    }
    line
}

pub(crate) fn document<T: Parameters>() -> Discipline {
    let base = T::blank();
    let params = T::PARAMS.iter().map(|param| ParamDoc {
        name: param.name,
        off: off_word(param),
        expects: match param.aliases {
            [] => param.unit.expects(),
            aliases => format!("{}; also called {}", param.unit.expects(), aliases.join(", ")),
        },
        default: if param.presence == Presence::Required { String::new() } else { param.print((param.get)(&base)) },
        range: match param.range_text() {
            range if param.zero_unsent => format!("{range}; 0 counts as not given"),
            range => range,
        },
        doc: param.doc,
        ours: param.ours,
        required: param.presence == Presence::Required,
    });
    Discipline { name: T::NAME, doc: T::DOC, tc: T::TC, params: params.collect() }
}

pub(crate) fn random_params<T: Parameters>(rng: &mut Rng) -> T {
    let mut params = T::default();
    for param in T::PARAMS.iter().filter(|param| param.presence != Presence::Shown) {
        let before = params.clone();
        let given = rng.below(2) == 1;
        let value = param.random(rng);
        if given && value != Value::Unset {
            (param.set)(&mut params, value);
        }
        if !is_sound(&params) {
            params = before;
        }
    }
    params.complete();
    params
}

/// Returns true if a line with these parameters would be accepted.
fn is_sound<T: Parameters>(params: &T) -> bool {
    let (mut whole, default) = (params.clone(), T::default());
    let foreign = |param: &&Param<T>| params.foreign().contains(&param.name);
    let is_own = T::PARAMS.iter().filter(foreign).all(|param| (param.get)(params) == (param.get)(&default));
    whole.complete();
    is_own && whole.check().is_ok()
}

/// Draws parameters for tests: about half of them from [`Param::corner`], as far as the values fit together.
pub(crate) fn corner_params<T: Parameters>(rng: &mut Rng) -> T {
    let mut params = T::default();
    for param in T::PARAMS.iter().filter(|param| param.presence != Presence::Shown) {
        let before = params.clone();
        if rng.below(2) == 1 {
            continue;
        }
        match &param.child {
            Some(child) => (child.corner)(&mut params, rng),
            None => {
                (param.set)(&mut params, param.corner(rng));
            }
        }
        if !is_sound(&params) {
            params = before;
        }
    }
    params.complete();
    params
}

/// Draws a line that changes one to three parameters to values from [`Param::corner`]. Where a change replaces all
/// parameters, the line is a complete one.
pub(crate) fn corner_line<T: Parameters>(present: &T, rng: &mut Rng) -> String {
    if T::REPLACED {
        return print_params(&corner_params::<T>(rng), Form::Compact);
    }
    let mut line = T::NAME.to_string();
    for _ in 0..1 + rng.below(3) {
        let param = &T::PARAMS[rng.below(T::PARAMS.len() as u64) as usize];
        let value = param.corner(rng);
        let mut params = present.clone();
        // A preset has no value to print. A value that does not fit on its own would be refused.
        let is_given = !matches!(param.unit, Unit::Preset(_)) && param.presence != Presence::Shown;
        if is_given && value != Value::Unset && (param.set)(&mut params, value) {
            print_param(&mut line, param, value);
        }
    }
    line
}

/// The limit, if it has its default and the link does not decide it.
pub(crate) fn default_limit<T: Parameters>(params: &T) -> Option<DefaultLimit> {
    let param = T::PARAMS.iter().find(|param| param.name == "limit" && param.presence != Presence::Required)?;
    let limit = params.assumed(param);
    match (limit, param.unit) {
        _ if limit != T::blank().assumed(param) => None,
        (Value::Int(packets), Unit::Packets | Unit::PacketsAsSize) => Some(DefaultLimit::Packets(packets)),
        (Value::Int(bytes), Unit::Size) => Some(DefaultLimit::Bytes(bytes)),
        _ => None,
    }
}

/// The word after `variant`, if the discipline has variants.
pub(crate) fn variant_of<T: Parameters>(params: &T) -> Option<&'static str> {
    let param = T::PARAMS.iter().find(|param| param.name == "variant")?;
    match (param.unit, (param.get)(params)) {
        (Unit::Choice(words, _), Value::Int(place)) => words.get(place as usize).copied(),
        _ => None,
    }
}
