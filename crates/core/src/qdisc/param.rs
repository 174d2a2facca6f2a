//! Defines each parameter of a discipline once: name, unit, default, check and documentation. Reading, printing, help
//! and the reference pages are derived from this definition.

mod error;
pub(crate) mod line;
pub(crate) mod number;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Debug;
use core::str::SplitAsciiWhitespace;

pub use error::{Error, nearest};
pub use line::{Discipline, ParamDoc};
use number::Fault;

use crate::rng::Rng;
use crate::units::{Rate, Span};

/// The parameters of one discipline.
pub trait Parameters: Clone + PartialEq + Default + 'static {
    /// The discipline's name, as in `tc`.
    const NAME: &'static str;
    /// One line: what the discipline does.
    const DOC: &'static str;
    /// Whether `tc` and a stock kernel have this discipline, as we build it.
    const TC: bool = true;
    /// Its parameters.
    const PARAMS: &'static [Param<Self>];

    /// Whether a change of a living discipline replaces all parameters, named or not (`tc` sends them together).
    const REPLACED: bool = false;
    /// An example line for the error about a missing required parameter; empty if the message is enough.
    const HINT: &'static str = "";
    /// A parameter that `tc` requires and this crate does not. A line without it, whose numbers are written as `tc` prints
    /// them, is taken for what `tc` printed.
    const ASKED_BY_TC: &'static str = "";
    /// The parameters that only `tc -d qdisc show` prints, or from which what it prints follows.
    const DETAILS: &'static [&'static str] = &[];
    /// The parameters that `tc` refuses to take twice. It takes the last value of all others.
    const ONCE: &'static [&'static str] = &[];
    /// The names of the parameters that a change may not contain.
    const FIXED: &'static [&'static str] = &[];

    /// The parameters from which a change of an existing discipline starts: the present ones, except those that `tc`
    /// resets to its defaults if a line does not name them.
    fn before_change(&self) -> Self {
        if Self::REPLACED { Self::blank() } else { self.clone() }
    }

    /// The parameters from which reading a line starts: the defaults, without those that the line must give.
    fn blank() -> Self {
        Self::default()
    }

    /// Sets the parameters that `tc` derives from others. Called after a line is read.
    fn complete(&mut self) {}

    /// Sets parameters from which the values of [`Presence::Shown`] follow, and forgets these values. `seen` has the names
    /// of the parameters that the line gives. Called after a line is read, before [`Parameters::complete`].
    ///
    /// # Errors
    /// The name of a value that no parameters of `tc` give, and the reason.
    fn derive(&mut self, seen: &[&'static str]) -> Result<Derived, (&'static str, String)> {
        let _ = seen;
        Ok(Derived::default())
    }

    /// The value that a parameter has if it is not given.
    fn assumed(&self, param: &Param<Self>) -> Value {
        (param.get)(self)
    }

    /// The names of the parameters that belong to another variant, and mean nothing here. A line must not give them.
    fn foreign(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns whether `tc` and a stock kernel have the discipline with these parameters. They may have the discipline
    /// but not one of its variants.
    fn for_tc(&self) -> bool {
        Self::TC
    }

    /// Checks what no single parameter's range can express. The error is the parameter's name and the reason.
    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        Ok(())
    }
}

/// The unit of a parameter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Packets; `tc` prints `1000p` and accepts `1000`.
    Packets,
    /// Bytes, as a bare number; `tc` prints `1514b` and accepts `1514`.
    Bytes,
    /// Bytes, with `tc`'s size units: `32Mb`.
    Size,
    /// As `Size`, optionally with the bytes of a cell: `10kb/8`. The cell is a power of two, and the kernel has not
    /// used it since Linux 3.8.
    SizeAndCell,
    /// Packets that `tc` reads as a size: `1k` is 1024. `tc` prints `1000p` and accepts `1000`.
    PacketsAsSize,
    /// A value and a mask of the DS field, each a number of eight bits: `0x1/0x3`.
    Masked,
    /// Bytes, as a number without a unit; `tc` prints `20000000B` and accepts `20000000`.
    Octets,
    /// Bytes or packets, depending on the variant; written as a bare number.
    Amount,
    /// Time in whole microseconds, as `tc` hands it to the kernel.
    Time,
    /// As `Time`, or packets: `1ms`, `5p`.
    TimeOrPackets,
    /// Time in whole seconds; `tc` prints `10sec` and accepts `10`.
    Seconds,
    /// Time in nanoseconds (few of `tc`'s parameters).
    TimeNs,
    /// Bits per second.
    Rate,
    /// A bare number.
    Number,
    /// A whole percentage; `tc` prints and accepts `10%`.
    Percent,
    /// A percentage with up to two decimals, in hundredths of a percent: `0.5%`.
    Share,
    /// A real number.
    Real,
    /// Sixteen numbers from 0 to 15, packed into one number from the lowest bits up. If a line gives fewer, the others
    /// keep their values.
    Nibbles,
    /// A child discipline: all remaining words of the line belong to it.
    Child,
    /// A flag, written as a single word. The string is the word that switches it off.
    Flag(&'static str),
    /// One word of a list. The first list holds the words that are implemented, the second those that are planned.
    Choice(&'static [&'static str], &'static [&'static str]),
    /// One word of a list, written without the parameter's name.
    Word(&'static [&'static str]),
    /// Words that set other parameters. They apply in the order of the line, and may occur more than once.
    Preset(&'static [&'static str]),
    /// Bits per second, or the word `unlimited`.
    Bandwidth,
    /// A whole number that may be negative.
    Signed,
    /// A word that `tc` knows and that is refused here; the doc gives the reason.
    Impossible,
    /// A parameter of `tc` that is ignored here, with this number of words after its name.
    Ignored(usize),
}

impl Unit {
    /// Describes the values of this unit, for messages and reference pages.
    pub fn expects(self) -> String {
        match self {
            Unit::Packets => "a number of packets, such as 1000".into(),
            Unit::Bytes => "a number of bytes, such as 1514".into(),
            Unit::Size | Unit::SizeAndCell => "a size, such as 32Mb, 64k or 1500 (bytes)".into(),
            Unit::PacketsAsSize => "a number of packets, such as 1000 or 1k".into(),
            Unit::Masked => "a value and a mask of the DS field, such as 0x1/0x3".into(),
            Unit::Amount => "a number of bytes, such as 400000 or 1Mb, or in variant ns2 of packets".into(),
            Unit::Time => "a time in whole microseconds, such as 5ms, 100us or 1s (a bare number is µs)".into(),
            Unit::Seconds => "a number of seconds, such as 10".into(),
            Unit::TimeNs => "a time, such as 10us or 500ns (a bare number is ns)".into(),
            Unit::Octets => "a number of bytes, such as 20000000".into(),
            Unit::TimeOrPackets => "a time in whole microseconds, such as 1ms, or packets, such as 5p".into(),
            Unit::Percent => "a percentage, such as 10%".into(),
            Unit::Share => "a percentage, such as 1% or 0.5%".into(),
            Unit::Rate => "a rate, such as 10mbit or 1500kbit".into(),
            Unit::Number => "a whole number".into(),
            Unit::Nibbles => "up to sixteen numbers from 0 to 15".into(),
            Unit::Child => "another discipline and its parameters, to the end of the line".into(),
            Unit::Real => "a number, such as 0.02".into(),
            Unit::Flag(_) => "no value".into(),
            Unit::Choice(built, _) => format!("one of: {}", built.join(", ")),
            Unit::Ignored(words) => format!("{words} word(s), ignored"),
            Unit::Word(words) => format!("no value; one of: {}", words.join(", ")),
            Unit::Preset(words) => format!("no value; any of: {}", words.join(", ")),
            Unit::Bandwidth => "a rate, such as 10mbit, or unlimited".into(),
            Unit::Signed => "a whole number".into(),
            Unit::Impossible => "nothing: it can not be had here".into(),
        }
    }

    /// The words that are written without a parameter's name.
    pub(super) fn words(self) -> &'static [&'static str] {
        if let Unit::Word(words) | Unit::Preset(words) = self { words } else { &[] }
    }
}

/// The value of a parameter, between the words of a line and the field of a struct.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// No value: it is derived from the link, or the feature is off.
    Unset,
    /// A flag.
    Flag(bool),
    /// Packets, bytes, nanoseconds, bits per second, or the index of a word in its list.
    Int(u64),
    /// Packets, for a parameter that is usually a time ([`Unit::TimeOrPackets`]).
    Packets(u64),
    /// A real number.
    Real(f64),
    /// A number that may be negative.
    Signed(i64),
}

/// The type of a parameter's field.
pub trait Field: Sized {
    /// Returns the field's value.
    fn value(&self) -> Value;
    /// Converts a value to the field's type; `None` if it does not fit.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! integer_field {
    ($($type:ty: $read:expr, $make:expr;)*) => {$(
        impl Field for $type {
            fn value(&self) -> Value {
                #[allow(clippy::redundant_closure_call)]
                Value::Int(($read)(*self))
            }
            fn from_value(value: Value) -> Option<Self> {
                let Value::Int(n) = value else { return None };
                #[allow(clippy::redundant_closure_call)]
                ($make)(n)
            }
        }
    )*};
}
integer_field! {
    u32: u64::from, |n| u32::try_from(n).ok();
    u64: |n: u64| n, Some;
    Span: |s: Span| s.0, |n| Some(Span(n));
    Rate: |r: Rate| r.0, |n| Some(Rate(n));
}

impl Field for i32 {
    fn value(&self) -> Value {
        Value::Signed(i64::from(*self))
    }
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Signed(n) = value { i32::try_from(n).ok() } else { None }
    }
}

impl Field for bool {
    fn value(&self) -> Value {
        Value::Flag(*self)
    }
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Flag(on) = value { Some(on) } else { None }
    }
}

impl Field for f64 {
    fn value(&self) -> Value {
        Value::Real(*self)
    }
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Real(x) = value { Some(x) } else { None }
    }
}

impl<T: Field> Field for Option<T> {
    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Unset, Field::value)
    }
    fn from_value(value: Value) -> Option<Self> {
        if value == Value::Unset { Some(None) } else { T::from_value(value).map(Some) }
    }
}

/// The result of [`Parameters::derive`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Derived {
    /// The names of the parameters that it set.
    pub names: &'static [&'static str],
    /// A sentence about values that the text leaves open; empty if there are none.
    pub open: String,
}

/// How a parameter appears in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// A value of the kernel's that `tc` prints and does not accept. Others are set from it ([`Parameters::derive`]).
    Shown,
    /// May be left out, and is left out if it has its default.
    Optional,
    /// May be left out, but is always printed.
    Printed,
    /// Must be given.
    Required,
}

/// One parameter of a discipline whose parameters are `T`.
pub struct Param<T: 'static> {
    /// The parameter's name, spelled as in `tc`.
    pub name: &'static str,
    /// The unit of the value.
    pub unit: Unit,
    /// Reads the field.
    pub get: fn(&T) -> Value,
    /// Writes the field. Returns whether the value fits.
    pub set: fn(&mut T, Value) -> bool,
    /// A description of one line.
    pub doc: &'static str,
    /// The least and the greatest value.
    pub range: Option<(Value, Value)>,
    /// Whether `tc` lacks this parameter; it is then never printed for `tc`.
    pub ours: bool,
    /// Whether the parameter may be left out of a line.
    pub presence: Presence,
    /// Other names of the parameter, which `tc` accepts or prints.
    pub aliases: &'static [&'static str],
    /// Whether any prefix of the name is accepted, as by `tc`'s `matches()`.
    pub abbreviated: bool,
    /// Whether `tc` does not send a zero, so that the default or the present value remains.
    pub zero_unsent: bool,
    /// Whether the kernel raises values below the minimum to the minimum.
    pub raised: bool,
    /// Whether the kernel lowers values above the maximum to the maximum.
    pub lowered: bool,
    /// Whether `tc` prints the parameter only if it is set, so that a printed text without it holds the default.
    pub shown_if_set: bool,
    /// The parameter to whose value these words add, so that they do not contradict it; empty if there is none.
    pub adds_to: &'static str,
    /// How to read and print the child, if the unit is [`Unit::Child`].
    pub child: Option<Child<T>>,
}

/// Reads and prints a parameter that is itself a discipline: the child of a shaper.
pub struct Child<T> {
    /// Reads the child of this name from the rest of the line.
    pub(crate) read: fn(&mut T, &str, &mut Words, &mut Vec<String>) -> Result<(), Error>,
    /// Prints the child, if there is one.
    pub(crate) print: fn(&T, Form) -> Option<String>,
    /// Sets a random child, with parameters at or near the ends of their ranges.
    pub(crate) corner: fn(&mut T, &mut Rng),
}

/// A discipline with its parameters, as far as the shaper above it needs to know it.
pub trait Nested: Clone + PartialEq + Debug + Sized + 'static {
    /// Reads the parameters of the discipline of this name.
    ///
    /// # Errors
    /// An unknown name, or a word that is not one of its parameters.
    fn read(name: &str, words: &mut Words, warnings: &mut Vec<String>) -> Result<Self, Error>;
    /// Prints its line.
    fn print(&self, form: Form) -> String;
    /// Returns a random discipline, with parameters at or near the ends of their ranges.
    fn corner(rng: &mut Rng) -> Self;
    /// Returns false for `noqueue`, in which no packet can wait.
    fn can_wait(&self) -> bool;
}

/// The parameters of a shaper: packets wait in another discipline, its child.
pub trait Shaper: Parameters {
    /// The child's parameters.
    type Child: Nested;
    /// The child, if the line names one.
    fn child(&self) -> Option<&Self::Child>;
    /// Sets the child.
    fn set_child(&mut self, child: Box<Self::Child>);
}

/// Which words of a line to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Our words and those of `tc`, without those that have their defaults.
    Compact,
    /// Our words and those of `tc`, with everything that is set.
    Full,
    /// Only words that `tc` accepts, without those that have their defaults.
    Tc,
    /// Only words that `tc` accepts, with everything that is set.
    TcFull,
}

/// The words of a line that are not read yet.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    left: SplitAsciiWhitespace<'a>,
    /// Whether the line is output of `tc qdisc show`.
    printed: bool,
}

impl<'a> Words<'a> {
    /// All words of a line.
    pub(crate) fn new(line: &'a str, printed: bool) -> Words<'a> {
        Words { left: line.split_ascii_whitespace(), printed }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;
    fn next(&mut self) -> Option<&'a str> {
        self.left.next()
    }
}

impl<T> Param<T> {
    /// Defines a parameter of `tc` that may be left out. The macro `param!` is a shorter form.
    pub const fn new(
        name: &'static str,
        unit: Unit,
        get: fn(&T) -> Value,
        set: fn(&mut T, Value) -> bool,
        doc: &'static str,
    ) -> Self {
        let presence = Presence::Optional;
        Param {
            name,
            unit,
            get,
            set,
            doc,
            range: None,
            ours: false,
            presence,
            aliases: &[],
            abbreviated: false,
            zero_unsent: false,
            raised: false,
            lowered: false,
            shown_if_set: false,
            adds_to: "",
            child: None,
        }
    }

    /// Defines the parameter `child`: the remaining words of the line are another discipline.
    pub const fn child() -> Self
    where
        T: Shaper,
    {
        let doc = "the discipline that holds the waiting packets";
        let param = Param::new("child", Unit::Child, |_| Value::Unset, |_, _| true, doc).ours();
        let child = Child {
            read: |params: &mut T, name, words, warnings| {
                T::Child::read(name, words, warnings).map(|child| params.set_child(child.into()))
            },
            print: |params: &T, form| params.child().map(|child| child.print(form)),
            corner: |params: &mut T, rng| params.set_child(T::Child::corner(rng).into()),
        };
        Param { child: Some(child), ..param }
    }

    /// Adds other names of the parameter.
    pub const fn aliases(mut self, words: &'static [&'static str]) -> Self {
        self.aliases = words;
        self
    }

    /// Accepts any prefix of the name. If several parameters match, the first in the table is meant.
    pub const fn abbreviated(mut self) -> Self {
        self.abbreviated = true;
        self
    }

    /// States that `tc` does not send a zero.
    pub const fn zero_unsent(mut self) -> Self {
        self.zero_unsent = true;
        self
    }

    /// States that the kernel raises smaller values to the least one.
    pub const fn raised(mut self) -> Self {
        self.raised = true;
        self
    }

    /// States that the kernel lowers larger values to the greatest one.
    pub const fn lowered(mut self) -> Self {
        self.lowered = true;
        self
    }

    /// States that `tc` prints the parameter only if it is set.
    pub const fn shown_if_set(mut self) -> Self {
        self.shown_if_set = true;
        self
    }

    /// States that the words add to the value of a parameter.
    pub const fn adds_to(mut self, name: &'static str) -> Self {
        self.adds_to = name;
        self
    }

    /// States that `tc` prints the value and does not accept it.
    pub const fn shown(mut self) -> Self {
        self.presence = Presence::Shown;
        self
    }

    /// Returns whether this word of a line names the parameter.
    pub(super) fn is_called(&self, word: &str) -> bool {
        self.name == word
            || self.aliases.contains(&word)
            || (self.abbreviated && !word.is_empty() && self.name.starts_with(word))
            || self.unit.words().contains(&word)
    }

    /// Defines a parameter of `tc` that is ignored here: `name` and the `words` words after it.
    pub const fn ignored(name: &'static str, words: usize, doc: &'static str) -> Self {
        Param::new(name, Unit::Ignored(words), |_| Value::Unset, |_, _| true, doc)
    }

    /// Defines a word that `tc` knows and that is refused here for the reason `why`.
    pub const fn impossible(name: &'static str, why: &'static str) -> Self {
        Param::new(name, Unit::Impossible, |_| Value::Unset, |_, _| false, why)
    }

    /// Defines words that set other parameters.
    pub const fn preset(words: &'static [&'static str], set: fn(&mut T, Value) -> bool, doc: &'static str) -> Self {
        Param::new(words[0], Unit::Preset(words), |_| Value::Unset, set, doc)
    }

    /// Sets the least and the greatest value, which may be negative.
    pub const fn signed_range(mut self, low: i64, high: i64) -> Self {
        self.range = Some((Value::Signed(low), Value::Signed(high)));
        self
    }

    /// Sets the least and the greatest value, in base units (packets, bytes, nanoseconds, bits per second).
    pub const fn range(mut self, low: u64, high: u64) -> Self {
        self.range = Some((Value::Int(low), Value::Int(high)));
        self
    }

    /// Sets the least and the greatest real value.
    pub const fn real_range(mut self, low: f64, high: f64) -> Self {
        self.range = Some((Value::Real(low), Value::Real(high)));
        self
    }

    /// States that `tc` does not have this parameter.
    pub const fn ours(mut self) -> Self {
        self.ours = true;
        self
    }

    /// Prints the parameter even if it has its default.
    pub const fn printed(mut self) -> Self {
        self.presence = Presence::Printed;
        self
    }

    /// Requires the parameter in every line.
    pub const fn required(mut self) -> Self {
        self.presence = Presence::Required;
        self
    }

    /// Reads a value. The error is a message that describes what was expected.
    pub(super) fn read(&self, text: &str) -> Result<Value, String> {
        let value = match self.unit {
            Unit::Packets => Value::Int(number::whole(text, "p").map_err(|f| self.fault(f))?),
            Unit::Bytes => match number::printed_size(text) {
                Some(bytes) => Value::Int(bytes),
                None => Value::Int(number::whole(text, "b").map_err(|f| self.fault(f))?),
            },
            Unit::Seconds => Value::Int(number::whole(text, "sec").map_err(|f| self.fault(f))?),
            Unit::Number => Value::Int(number::whole(text, "").map_err(|f| self.fault(f))?),
            Unit::Percent => Value::Int(number::whole(text, "%").map_err(|f| self.fault(f))?),
            Unit::Share => Value::Int(number::scaled(text, number::SHARE, 1).map_err(|f| self.fault(f))?),
            Unit::Octets => Value::Int(number::whole(text, "B").map_err(|f| self.fault(f))?),
            Unit::TimeOrPackets if text.ends_with('p') => {
                Value::Packets(number::whole(text, "p").map_err(|f| self.fault(f))?)
            }
            Unit::Size => self.scaled(text, number::SIZE, 8)?,
            Unit::SizeAndCell => self.scaled(without_cell(text), number::SIZE, 8)?,
            Unit::Amount | Unit::PacketsAsSize => match number::whole(text, "p") {
                Ok(packets) => Value::Int(packets),
                Err(_) => self.scaled(text, number::SIZE, 8)?,
            },
            Unit::TimeOrPackets | Unit::Time => match self.scaled(text, number::TIME, 1_000)? {
                Value::Int(us) => Value::Int(us.saturating_mul(1_000)),
                other => other,
            },
            Unit::TimeNs => self.scaled(text, number::TIME_NS, 1)?,
            Unit::Rate if text.contains('%') => return Err(PERCENT.into()),
            Unit::Rate => self.scaled(text, number::RATE, 1)?,
            Unit::Masked => {
                Value::Int(masked(text).ok_or_else(|| format!("{} expects {}", self.name, self.unit.expects()))?)
            }
            Unit::Real => match text.parse::<f64>() {
                Ok(x) if x.is_finite() => Value::Real(x),
                _ => return Err(self.fault(Fault::NotANumber)),
            },
            Unit::Choice(built, planned) => match built.iter().position(|word| *word == text) {
                Some(place) => Value::Int(place as u64),
                None if planned.contains(&text) => {
                    return Err(format!(
                        "{} {text} is not built yet: use {} {}",
                        self.name,
                        self.name,
                        built.join(" or ")
                    ));
                }
                None => return Err(format!("unknown {}; expected {}", self.name, self.unit.expects())),
            },
            Unit::Bandwidth if text == "unlimited" => Value::Unset,
            Unit::Bandwidth => self.scaled(text, number::RATE, 1)?,
            Unit::Signed => Value::Signed(number::signed(text).map_err(|f| self.fault(f))?),
            Unit::Flag(_) | Unit::Ignored(_) | Unit::Nibbles | Unit::Child => Value::Unset,
            Unit::Word(_) | Unit::Preset(_) | Unit::Impossible => Value::Unset,
        };
        // tc has 32 bits for these, and refuses what does not fit before the kernel can lower it.
        let of_32_bits = matches!(
            self.unit,
            Unit::Packets
                | Unit::Bytes
                | Unit::Number
                | Unit::Amount
                | Unit::PacketsAsSize
                | Unit::Size
                | Unit::SizeAndCell
        );
        if of_32_bits && self.lowered && matches!(value, Value::Int(n) if n > u64::from(u32::MAX)) {
            return Err(self.fault(Fault::TooLarge));
        }
        let value = self.as_the_kernel_bounds(value);
        let unsent = self.zero_unsent && value == Value::Int(0);
        let allowed = unsent || self.in_range(value);
        allowed.then_some(value).ok_or_else(|| format!("{} must be {}", self.name, self.range_text()))
    }

    /// Reads a number with a unit as `tc` does. The error for an unknown unit suggests another one.
    fn scaled(&self, text: &str, units: &[number::Unit], step: u64) -> Result<Value, String> {
        number::truncated(text, units, step).map(Value::Int).map_err(|fault| {
            let meant = number::suggestion(text, units).map(|meant| format!("; did you mean {meant:?}?"));
            let problem = self.fault(fault);
            if fault == Fault::UnknownUnit { problem + &meant.unwrap_or_default() } else { problem }
        })
    }

    /// Applies the bounds to which the kernel silently raises or lowers a value.
    fn as_the_kernel_bounds(&self, value: Value) -> Value {
        match (value, self.range) {
            (Value::Int(0), _) if self.zero_unsent => value,
            (Value::Int(n), Some((Value::Int(low), Value::Int(high)))) => {
                let n = if self.raised { n.max(low) } else { n };
                Value::Int(if self.lowered { n.min(high) } else { n })
            }
            _ => value,
        }
    }

    /// Returns the units that its numbers may have, if any.
    pub(super) fn units(&self) -> Option<&'static [number::Unit]> {
        match self.unit {
            Unit::Rate | Unit::Bandwidth => Some(number::RATE),
            Unit::Time | Unit::TimeOrPackets => Some(number::TIME),
            Unit::TimeNs => Some(number::TIME_NS),
            Unit::Size | Unit::SizeAndCell | Unit::Amount | Unit::PacketsAsSize => Some(number::SIZE),
            _ => None,
        }
    }

    fn fault(&self, fault: Fault) -> String {
        let why = match fault {
            Fault::NotANumber => "not a number",
            Fault::UnknownUnit => "unknown unit",
            Fault::NotWhole => "too fine",
            Fault::TooLarge => "too large",
            Fault::Octal => "a leading zero means octal to tc",
        };
        format!("{why}; {} expects {}", self.name, self.unit.expects())
    }

    pub(super) fn in_range(&self, value: Value) -> bool {
        match (value, self.range) {
            (Value::Int(n), Some((Value::Int(low), Value::Int(high)))) => (low..=high).contains(&n),
            (Value::Real(x), Some((Value::Real(low), Value::Real(high)))) => (low..=high).contains(&x),
            (Value::Signed(n), Some((Value::Signed(low), Value::Signed(high)))) => (low..=high).contains(&n),
            (Value::Packets(n), _) => (1..=u64::from(u32::MAX)).contains(&n),
            _ => true,
        }
    }

    /// Returns the least value that a line can set, and the step between values. A zero that `tc` does not send is not
    /// such a value.
    fn least(&self, low: u64) -> (u64, u64) {
        let step = if matches!(self.unit, Unit::Time | Unit::TimeOrPackets) { 1_000 } else { 1 };
        (if self.zero_unsent { low.max(step) } else { low }, step)
    }

    /// Draws an allowed value. All orders of magnitude are about equally likely.
    pub(super) fn random(&self, rng: &mut Rng) -> Value {
        match (self.unit, self.range) {
            (Unit::Flag(_), _) => Value::Flag(rng.below(2) == 1),
            (Unit::Choice(built, _) | Unit::Word(built) | Unit::Preset(built), _) => {
                Value::Int(rng.below(built.len() as u64))
            }
            (_, Some((Value::Signed(low), Value::Signed(high)))) => {
                Value::Signed(low + rng.below((high - low) as u64 + 1) as i64)
            }
            (_, Some((Value::Real(low), Value::Real(high)))) => Value::Real(low + rng.uniform() * (high - low)),
            (unit, Some((Value::Int(low), Value::Int(high)))) => {
                let size = rng.below(64);
                let (low, step) = self.least(low);
                if unit == Unit::TimeOrPackets && rng.below(2) == 1 {
                    return Value::Packets(1 + rng.below(1 << (size % 32)));
                }
                Value::Int(low.saturating_add(rng.below(1 << size).saturating_mul(step)).min(high))
            }
            _ => Value::Unset,
        }
    }

    /// Draws an allowed value for tests: usually the least, the greatest, one next to them, or a common small number;
    /// sometimes any allowed value.
    pub(super) fn corner(&self, rng: &mut Rng) -> Value {
        let Some((Value::Int(low), Value::Int(high))) = self.range else { return self.random(rng) };
        let (low, step) = self.least(low);
        let small = [0, 1, 2, 3, 5, 10, 64, 100, 1000, 65_535][rng.below(10) as usize] * step;
        match rng.below(8) {
            0 => Value::Int(low),
            1 => Value::Int(high),
            2 => Value::Int((low + step).min(high)),
            3 => Value::Int(high.saturating_sub(step).max(low)),
            4 => self.random(rng),
            _ => Value::Int(small.clamp(low, high)),
        }
    }

    /// Prints the range, such as `1 to 65536`; empty without a range.
    pub fn range_text(&self) -> String {
        self.range.map_or(String::new(), |(low, high)| format!("{} to {}", self.print(low), self.print(high)))
    }

    /// Prints a value as `tc` accepts it; empty if it is unset.
    pub fn print(&self, value: Value) -> String {
        match (value, self.unit) {
            (Value::Unset, _) => String::new(),
            (Value::Flag(on), Unit::Flag(off)) => (if on { self.name } else { off }).to_string(),
            (Value::Flag(on), _) => on.to_string(),
            (Value::Real(x), _) => x.to_string(),
            (Value::Int(n), Unit::Time | Unit::TimeNs | Unit::TimeOrPackets) => Span(n).to_string(),
            (Value::Int(n), Unit::Percent) => format!("{n}%"),
            (Value::Int(n), Unit::Share) => number::share(n),
            (Value::Packets(n), _) => format!("{n}p"),
            (Value::Signed(n), _) => n.to_string(),
            (Value::Int(n), Unit::Rate | Unit::Bandwidth) => Rate(n).to_string(),
            (Value::Int(n), Unit::Size | Unit::SizeAndCell) => number::size(n),
            (Value::Int(n), Unit::Masked) => format!("{:#x}/{:#x}", n >> 8, n & 0xff),
            (Value::Int(n), Unit::Choice(words, _) | Unit::Word(words) | Unit::Preset(words)) => {
                words.get(n as usize).copied().unwrap_or_default().to_string()
            }
            (Value::Int(n), Unit::Nibbles) => {
                let nibbles = (0..16).map(|place| (n >> (4 * place) & 15).to_string());
                nibbles.collect::<Vec<_>>().join(" ")
            }
            (Value::Int(n), _) => n.to_string(),
        }
    }
}

/// Why a percentage is refused.
const PERCENT: &str =
    "a percentage is one of the device's own speed, which a line does not know: write the rate itself";

/// Removes the cell size after the slash. A cell size that is not a power of two stays, so that reading the text fails.
fn without_cell(text: &str) -> &str {
    match text.split_once('/') {
        Some((size, cell)) if cell.parse::<u32>().is_ok_and(u32::is_power_of_two) => size,
        _ => text,
    }
}

/// Reads a value and a mask into one number: the mask in the lowest eight bits, the value above them.
fn masked(text: &str) -> Option<u64> {
    let (value, mask) = text.split_once('/')?;
    let byte = |text| number::whole(text, "").ok().filter(|n| *n <= 0xff);
    // tc takes 0xff for "not given".
    Some(byte(value).filter(|n| *n < 0xff)? << 8 | byte(mask)?)
}

/// `param!(Params.limit, Unit::Packets, "doc")` defines the parameter `limit`, whose value is in the field `limit`.
/// With `as`, its name differs from the field's, which may be one of a structure inside.
macro_rules! param {
    ($params:ident.$field:ident, $unit:expr, $doc:literal) => {
        $crate::qdisc::param::param!($params.$field as stringify!($field), $unit, $doc)
    };
    ($params:ident.$field:ident$(.$part:ident)? as $name:expr, $unit:expr, $doc:literal) => {
        $crate::qdisc::param::Param::<$params>::new(
            $name,
            $unit,
            |params| $crate::qdisc::param::Field::value(&params.$field$(.$part)?),
            |params, value| match $crate::qdisc::param::Field::from_value(value) {
                Some(field) => {
                    params.$field$(.$part)? = field;
                    true
                }
                None => false,
            },
            $doc,
        )
    };
}

/// Defines an enum for a parameter that is one word of a list: its words, and the conversion to and from [`Value`].
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// Every choice, in the order of its words.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];
            /// The words, as written in a line.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];
        }

        impl $crate::qdisc::param::Field for $name {
            fn value(&self) -> $crate::qdisc::param::Value {
                $crate::qdisc::param::Value::Int(*self as u64)
            }
            fn from_value(value: $crate::qdisc::param::Value) -> Option<Self> {
                match value {
                    $crate::qdisc::param::Value::Int(n) => $name::ALL.get(n as usize).copied(),
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {choice, param};
