//! `tc` lines: reads lines that `tc` prints or accepts, and prints only lines that `tc` accepts.
//!
//! Every discipline has a `Params` struct and one table, [`Parameters::PARAMS`]. Reading, printing, messages and the
//! reference pages are derived from it. The table marks words that are ours and not `tc`'s (`variant …`). The `Display`
//! of [`Spec`] prints them, and parsing accepts them; [`Spec::tc_line`] never prints them.
//!
//! ```
//! use sojourn_core::qdisc::tc::Spec;
//!
//! let spec: Spec = "fq_codel limit 600 target 15ms noecn".parse()?;
//! assert_eq!(spec.kind(), "fq_codel");
//! assert_eq!(spec.tc_line().as_deref(), Some("fq_codel limit 600 target 15ms noecn"));
//! // tc does not know our variants.
//! assert_eq!("codel variant rfc8289".parse::<Spec>()?.tc_line().as_deref(), Some("codel limit 1000"));
//!
//! let error = "fq_codel tarjet 15ms".parse::<Spec>().unwrap_err();
//! assert!(error.to_string().contains("did you mean \"target\"?"));
//! # Ok::<(), sojourn_core::qdisc::tc::Error>(())
//! ```

mod advice;
mod elsewhere;
mod json;
mod paste;
mod printed;
mod whole;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::iter::successors;
use core::str::FromStr;

pub(crate) use advice::DefaultLimit;
pub use elsewhere::{elsewhere, instead_of};
pub use paste::Paste;
pub use whole::{OwnWords, own_words};

use super::external::{ExternalLine, Maker};
use super::linux::{Version, for_plugin, in_linux};
use super::list::list;
use super::param::line::{
    change_params, corner_line, corner_params, default_limit, document, print_params, random_params, read_params,
    variant_of,
};
pub use super::param::{Discipline, Error, Field, Param, ParamDoc, Parameters, Presence, Unit, Value, nearest};
use super::param::{Form, Nested, Words, number};
use super::{htb, tbf};
use crate::rng::Rng;

/// Suggests a rate for a text whose unit is unknown or missing: `5mbits`, `5 Mbit/s` and `5M` are `5mbit`, `5000` is `5000bit`.
pub fn rate_meant(text: &str) -> Option<String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(format!("{text}bit"));
    }
    number::suggestion(&text.split_ascii_whitespace().collect::<String>(), number::RATE)
}

macro_rules! disciplines {
    ($($(#[$meta:meta])* $variant:ident($params:ty) by $build:expr => $([$shared:ident])? $($any:ident($type:ty)),*;)+) => {
        /// A discipline with its parameters: one line of `tc` words.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Spec {
            $($(#[$meta])* $variant($params),)+
            /// A discipline that only Linux has, for worlds in which Linux decides.
            Linux(LinuxLine),
            /// A discipline from outside, such as a library of the user's.
            External(ExternalLine),
        }

        /// The names of all disciplines.
        pub const NAMES: &[&str] = &[$(<$params>::NAME,)+];

        impl Spec {
            fn read(name: &str, words: &mut Words, warnings: &mut Vec<String>) -> Option<Result<Spec, Error>> {
                $(if name == <$params>::NAME {
                    return Some(read_params::<$params>(words, warnings).map(Spec::$variant));
                })+
                None
            }

            fn read_change(&self, words: &mut Words, warnings: &mut Vec<String>) -> Result<(Spec, String), Error> {
                match self {
                    $(Spec::$variant(params) => {
                        change_params(params, words, warnings).map(|(params, line)| (Spec::$variant(params), line))
                    })+
                    Spec::Linux(line) => Err(Error::new(line.name, "only Linux has it, and changes it".to_string())),
                    Spec::External(_) => Err(self.unchangeable()),
                }
            }

            fn print(&self, form: Form) -> String {
                match self {
                    $(Spec::$variant(params) => print_params(params, form),)+
                    Spec::Linux(line) => line.line.clone(),
                    Spec::External(external) => external.line.clone(),
                }
            }

            /// The discipline's name.
            pub fn kind(&self) -> &str {
                match self {
                    $(Spec::$variant(_) => <$params>::NAME,)+
                    Spec::Linux(line) => line.name,
                    Spec::External(line) => line.name(),
                }
            }

            /// Draws a random discipline with any allowed parameters, for tests and fuzzers of reading and printing.
            pub fn random(rng: &mut Rng) -> Spec {
                let any: &[fn(&mut Rng) -> Spec] = &[$(|rng| Spec::$variant(random_params::<$params>(rng)),)+];
                any[rng.below(any.len() as u64) as usize](rng)
            }

            /// Draws a random discipline with parameters at or near the ends of their ranges, for tests of disciplines.
            pub fn corner(rng: &mut Rng) -> Spec {
                let any: &[fn(&mut Rng) -> Spec] = &[$(|rng| Spec::$variant(corner_params::<$params>(rng)),)+];
                match any[rng.below(any.len() as u64) as usize](rng) {
                    Spec::Noqueue(_) => Spec::corner(rng),
                    spec => spec,
                }
            }

            /// Draws a line for [`Spec::changed`] that sets some parameters, at or near the ends of their ranges.
            pub fn corner_change(&self, rng: &mut Rng) -> String {
                match self {
                    $(Spec::$variant(params) => corner_line(params, rng),)+
                    Spec::Linux(_) | Spec::External(_) => self.to_string(),
                }
            }

            /// Each parameter's name and value, in the order of the table. Empty for a discipline that only
            /// Linux has, and for one from outside.
            pub fn values(&self) -> Vec<(&'static str, Value)> {
                match self {
                    $(Spec::$variant(params) => <$params>::PARAMS.iter().map(|p| (p.name, (p.get)(params))).collect(),)+
                    Spec::Linux(_) | Spec::External(_) => Vec::new(),
                }
            }

            /// The word after `variant`, of a discipline that has variants.
            pub fn variant(&self) -> Option<&'static str> {
                match self {
                    $(Spec::$variant(params) => variant_of(params),)+
                    Spec::Linux(_) | Spec::External(_) => None,
                }
            }

            /// As [`Spec::values`], for this discipline with its defaults.
            fn defaults(&self) -> Vec<(&'static str, Value)> {
                match self {
                    $(Spec::$variant(_) => {
                        let base = <$params>::default();
                        <$params>::PARAMS.iter().map(|p| (p.name, (p.get)(&base))).collect()
                    })+
                    Spec::Linux(_) | Spec::External(_) => Vec::new(),
                }
            }

            fn default_limit(&self) -> Option<DefaultLimit> {
                match self {
                    $(Spec::$variant(params) => default_limit(params),)+
                    Spec::Linux(_) | Spec::External(_) => None,
                }
            }

            fn known_to_tc(&self) -> bool {
                match self {
                    $(Spec::$variant(params) => params.for_tc(),)+
                    Spec::Linux(_) => true,
                    Spec::External(_) => false,
                }
            }
        }

        /// Every discipline with every parameter, for help and reference pages.
        pub fn disciplines() -> Vec<Discipline> {
            alloc::vec![$(document::<$params>(),)+]
        }
    };
}

list!(disciplines);

/// A line of a discipline that only Linux has: `tc` reads its words, not this crate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinuxLine {
    name: &'static str,
    line: String,
}

/// The warning for `pfifo_fast`.
const PFIFO_FAST: &str =
    "pfifo_fast is read as prio, which has the same three bands and priomap: a FIFO of 1000 packets each";

/// Disciplines of Linux that sojourn does not have, and that must be at the root of a device.
pub const LINUX: &[&str] = &["hhf"];

/// A discipline's parameters after a change: see [`Spec::changed`].
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The parameters from now on.
    pub spec: Spec,
    /// The words for `tc`, after `tc qdisc change dev DEV root` (with our plugin, if the discipline is ours).
    pub line: String,
    /// Warnings about words that were accepted but are easily misread, as in [`Spec::parse`].
    pub warnings: Vec<String>,
}

impl Spec {
    /// Reads a line for `tc`, a whole `tc` command, or the output of `tc qdisc show` ([`own_words`]). Also returns
    /// warnings about words that are accepted but easily misread.
    pub fn parse(text: &str) -> Result<(Spec, Vec<String>), Error> {
        Spec::of_words(own_words(text)?)
    }

    /// As [`Spec::parse`], for what [`own_words`] found.
    pub fn of_words(found: OwnWords) -> Result<(Spec, Vec<String>), Error> {
        let OwnWords { line, mut warnings, printed } = found;
        let mut words = Words::new(&line, printed);
        let Some(name) = words.next() else {
            return Err(Error::new("", format!("no queue discipline given; expected one of: {}", NAMES.join(", "))));
        };
        Spec::known(name, &mut words, &mut warnings).map(|spec| (spec, warnings))
    }

    /// Reads the parameters of the discipline with this name, which must be one that we have.
    fn known(name: &str, words: &mut Words, warnings: &mut Vec<String>) -> Result<Spec, Error> {
        if name == "pfifo_fast" {
            warnings.push(PFIFO_FAST.to_string());
            return Spec::known("prio", words, warnings);
        }
        if let Some(sentence) = instead_of(name) {
            return Err(Error::new(name, sentence.to_string()));
        }
        Spec::read(name, words, warnings).unwrap_or_else(|| {
            let problem = format!("unknown queue discipline; expected one of: {}", NAMES.join(", "));
            Err(Error::new(name, problem).near(NAMES.iter()))
        })
    }

    /// The discipline below a shaper.
    pub fn child(&self) -> Option<&Spec> {
        match self {
            Spec::Htb(htb::Params { child, .. }) | Spec::Tbf(tbf::Params { child, .. }) => child.as_deref(),
            _ => None,
        }
    }

    /// This discipline and those below it.
    pub fn chain(&self) -> impl Iterator<Item = &Spec> {
        successors(Some(self), |spec| spec.child())
    }

    /// Returns a line unchanged if its discipline is one of [`LINUX`], which only the kernel has. [`Spec::parse`]
    /// rejects such lines: use this function where the world may be Linux.
    pub fn of_linux(text: &str) -> Option<Spec> {
        let line = own_words(text).ok()?.line;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let name = LINUX.iter().find(|name| words.first() == Some(name))?;
        Some(Spec::Linux(LinuxLine { name, line: words.join(" ") }))
    }

    /// Reads a line of a discipline from outside, if its first word is one of these names.
    pub fn of_outside(text: &str, names: &[impl AsRef<str>]) -> Option<Spec> {
        let line = ExternalLine::new(&own_words(text).ok()?.line);
        names.iter().any(|name| name.as_ref() == line.name()).then_some(Spec::External(line))
    }

    /// Remembers the maker of a discipline from outside, if it is one of these. Nothing happens to any other discipline.
    pub fn bind(&mut self, makers: &[Arc<dyn Maker>]) {
        if let Spec::External(line) = self {
            line.bind(makers);
        }
    }

    /// Returns this discipline with the variant that behaves like this Linux version (7.3 is (7, 3)). A variant other
    /// than the oldest was chosen explicitly and is kept.
    pub fn as_in(&self, linux: Version) -> Spec {
        if let Spec::External(_) = self {
            return self.clone();
        }
        let line = self.to_string();
        let newer = as_in(&line, linux);
        if newer == line { self.clone() } else { newer.parse().expect("bug: a variant of its discipline") }
    }

    /// The reason why Linux of this version lacks this discipline, its variant, or one of its parameters. `None` if it
    /// has all of them. The child of a shaper is not considered.
    pub fn lacking_in(&self, linux: Version) -> Option<String> {
        match (self, in_linux(self.kind())) {
            (Spec::Linux(_), _) => None,
            (_, Some(entry)) => entry.lacks(self.variant(), linux),
            (_, None) => Some(format!("{}: Linux has none", self.kind())),
        }
    }

    /// The parameters after `tc qdisc change dev DEV root LINE`, and the line for the real `tc`. Parameters that the line
    /// leaves out keep their values, except where `tc` always sends the full set: [`Parameters::before_change`].
    ///
    /// # Errors
    /// A line that [`Spec::parse`] refuses, another discipline or variant, or a parameter that the kernel does not change
    /// after setup.
    pub fn changed(&self, text: &str) -> Result<Change, Error> {
        let OwnWords { line, mut warnings, printed } = own_words(text)?;
        let mut words = Words::new(&line, printed);
        let name = words.next().unwrap_or_default();
        if name != self.kind() {
            let problem = format!("a change keeps the discipline; expected {}", self.kind());
            return Err(Error::new(name, problem));
        }
        let (spec, line) = self.read_change(&mut words, &mut warnings)?;
        let line = for_plugin(&line, self.variant());
        Ok(Change { spec, line, warnings })
    }

    /// The error of a discipline whose parameters cannot be changed.
    pub fn unchangeable(&self) -> Error {
        let problem = "its parameters cannot be changed while it runs; expected one line for the whole run";
        Error::new(self.kind(), problem.to_string())
    }

    /// Every parameter that is set, defaults included.
    pub fn full(&self) -> String {
        self.print(Form::Full)
    }

    /// The line for the real `tc`, after `tc qdisc add dev DEV root`; `None` if `tc` has no such discipline. Words of
    /// ours (a variant) are left out, because the kernel that reads the line has one variant.
    pub fn tc_line(&self) -> Option<String> {
        self.known_to_tc().then(|| self.print(Form::Tc))
    }

    /// As [`Spec::tc_line`], with every parameter that is set, defaults included.
    pub fn tc_full(&self) -> Option<String> {
        self.known_to_tc().then(|| self.print(Form::TcFull))
    }
}

impl Nested for Spec {
    fn read(name: &str, words: &mut Words, warnings: &mut Vec<String>) -> Result<Spec, Error> {
        Spec::known(name, words, warnings)
    }

    fn print(&self, form: Form) -> String {
        self.print(form)
    }

    fn corner(rng: &mut Rng) -> Spec {
        Spec::corner(rng)
    }

    fn can_wait(&self) -> bool {
        !matches!(self, Spec::Noqueue(_))
    }
}

impl FromStr for Spec {
    type Err = Error;
    fn from_str(line: &str) -> Result<Spec, Error> {
        Spec::parse(line).map(|(spec, _)| spec)
    }
}

impl fmt::Display for Spec {
    /// Writes one compact line. Parsing it gives an equal `Spec`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(Form::Compact))
    }
}

/// Adds to a line for `tc` the variant that behaves like this Linux version. A line that names a variant is not
/// changed, nor one for which the oldest variant is right.
pub fn as_in(text: &str, linux: Version) -> String {
    let line = own_words(text).map_or(text.to_string(), |own| own.line);
    let line = line.as_str();
    let own = line.rsplit(" child ").next().unwrap_or(line);
    let mut words = own.split_ascii_whitespace();
    match words.next().and_then(in_linux).and_then(|entry| entry.variant(linux)) {
        Some((variant, true)) if !words.any(|word| word == "variant") => format!("{line} variant {variant}"),
        _ => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::{codel, fq, fq_codel};
    use crate::units::{Rate, Span};
    use alloc::vec;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    fn spec(line: &str) -> Spec {
        line.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn error(line: &str) -> String {
        line.parse::<Spec>().expect_err(line).to_string()
    }

    #[test]
    fn a_discipline_is_that_of_a_linux() {
        let lines = |line: &str| [(6, 1), (6, 6), (6, 12), (7, 3)].map(|linux| as_in(line, linux));
        assert_eq!(lines("fq nopacing")[..2], ["fq nopacing", "fq nopacing"]);
        assert_eq!(lines("fq nopacing")[3], "fq nopacing variant linux67");
        assert_eq!(lines("cake")[1..], ["cake", "cake variant linux612", "cake variant linux7"]);
        assert_eq!(lines("htb rate 1mbit child codel")[3], "htb rate 1mbit child codel variant linux7");
        assert_eq!(lines("codel variant ns2")[3], "codel variant ns2");
        assert_eq!(lines("pie ecn")[3], "pie ecn");
        for line in ["fq nopacing", "cake", "codel", "htb rate 1mbit child fq_codel", "pie", "codel variant ns2"] {
            let spec = line.parse::<Spec>().expect(line);
            assert_eq!(spec.as_in((7, 3)), as_in(line, (7, 3)).parse().expect(line), "{line}");
        }
    }

    #[test]
    fn what_tc_prints_is_read() {
        let printed = "qdisc fq_codel 0: dev eth0 root refcnt 2 limit 10240p flows 1024 quantum 1514 target 5ms \
                       interval 100ms memory_limit 32Mb ecn drop_batch 64 ";
        let params = fq_codel::Params { quantum: Some(1514), ..Default::default() };
        assert_eq!(spec(printed), Spec::FqCodel(params));
        let printed = "fq limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 quantum 3028b initial_quantum 15140b \
                       low_rate_threshold 550Kbit refill_delay 40ms timer_slack 10us horizon 10s horizon_drop";
        let params = fq::Params { quantum: Some(3028), initial_quantum: Some(15_140), ..Default::default() };
        assert_eq!(spec(printed), Spec::Fq(params));
        assert_eq!(spec("bfifo limit 1Mb").to_string(), "bfifo limit 1Mb");
        assert_eq!(spec("qdisc codel 8001: parent 1:1 limit 1000p target 4.99ms interval 100ms").kind(), "codel");
    }

    #[test]
    fn what_newer_kernels_print_for_fq_is_read_over_with_a_warning() {
        let line = "fq bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights 589824 196608 65536 flow_limit 7";
        let (read, warnings) = Spec::parse(line).expect(line);
        assert_eq!(read, Spec::Fq(fq::Params { flow_limit: 7, ..Default::default() }));
        assert_eq!(warnings.len(), 3, "{warnings:?}");
    }

    #[test]
    fn what_tc_accepts_is_read_and_printed_compactly() {
        let line = "codel limit 830 target 10000 interval 0.3s ecn ce_threshold 1ms";
        let params = codel::Params {
            limit: 830,
            target: Span::from_millis(10),
            interval: Span::from_millis(300),
            ecn: true,
            ce_threshold: Some(Span::from_millis(1)),
            variant: codel::Variant::Linux,
        };
        assert_eq!(spec(line), Spec::Codel(params));
        assert_eq!(spec(line).to_string(), "codel limit 830 target 10ms interval 300ms ecn ce_threshold 1ms");
        assert_eq!(spec("codel").to_string(), "codel limit 1000");
        assert_eq!(spec("fq_codel noecn memory_limit 64k").to_string(), "fq_codel limit 10240 memory_limit 64Kb noecn");
    }

    #[test]
    fn the_full_form_names_every_default() {
        let full = "codel limit 1000 target 5ms interval 100ms noecn variant linux";
        assert_eq!(spec("codel").full(), full);
        assert_eq!(spec(full), spec("codel"));
    }

    #[test]
    fn a_variant_may_stand_anywhere_and_is_never_printed_for_tc() {
        let read = spec("codel variant rfc8289 limit 500 ecn");
        assert_eq!(read, spec("codel limit 500 variant rfc8289 ecn"));
        assert_eq!(read.to_string(), "codel limit 500 ecn variant rfc8289");
        assert_eq!(read.tc_line().as_deref(), Some("codel limit 500 ecn"));
        assert_eq!(spec("red limit 830 variant ns2").tc_line(), None);
        assert_eq!(spec("ccaq variant paper").tc_line(), None);
        assert_eq!(spec("red limit 830 variant ns2").to_string(), "red limit 830 variant ns2");
    }

    #[test]
    fn a_discipline_that_only_linux_has_keeps_its_words() {
        let spec = Spec::of_linux(" hhf  limit 500").expect("a name of Linux's");
        assert_eq!((spec.kind(), spec.tc_line().as_deref()), ("hhf", Some("hhf limit 500")));
        assert_eq!(spec.to_string(), "hhf limit 500");
        assert_eq!((Spec::of_linux("htb default 1"), Spec::of_linux("")), (None, None));
        assert!(error("hhf").contains("--world kernel"));
    }

    #[test]
    fn the_commands_for_a_router_have_every_discipline_of_a_line() {
        let said = |line: &str| spec(line).paste("eth0").line.expect("Linux can have it");
        for line in [
            "codel",
            "ccaq idle 2%",
            "ccaq variant paper",
            "tbf rate 8mbit burst 3000 child ccaq",
            "htb rate 8mbit child ccaq variant paper",
            "htb rate 8mbit child tbf rate 7mbit burst 3000 child fq_codel",
            "htb rate 8mbit child tbf rate 7mbit burst 3000 child ccaq",
        ] {
            let (said, chain) = (said(line), spec(line));
            let places = chain.chain().map(|one| {
                let own = for_plugin(&one.to_string(), one.variant());
                let kind = own.split(' ').next().expect("a name");
                said.rfind(&format!(" {kind}")).unwrap_or_else(|| panic!("{said}: no {kind}"))
            });
            assert!(places.is_sorted(), "{said}");
        }
        assert_eq!(
            said("htb rate 8mbit child tbf rate 7mbit burst 3000 child ccaq idle 2%"),
            "tc qdisc replace dev eth0 root handle 1: htb default 1 && \
             tc class replace dev eth0 parent 1: classid 1:1 htb rate 8mbit && \
             tc qdisc replace dev eth0 parent 1:1 handle 10: tbf rate 7mbit burst 3000 limit 1Mb && \
             tc qdisc replace dev eth0 parent 10:1 handle 100: ccaq idle 2%"
        );
    }

    #[test]
    fn commands_with_a_discipline_of_ours_name_its_module() {
        let paste = spec("htb rate 8mbit child ccaq").paste("eth0");
        assert_eq!(paste.note, "ccaq needs the module sch_ccaq and its tc plugin (kernel/README.md).");
        assert_eq!(spec("htb rate 8mbit child codel variant rfc8289").paste("eth0").line, None);
    }

    #[test]
    fn variants_that_are_not_there_name_those_that_are() {
        assert!(error("red limit 5000 variant ns3").contains("did you mean \"ns2\"?"));
        assert!(error("codel variant linx").contains("did you mean \"linux\"?"));
        assert!(error("ccaq variant papier").contains("did you mean \"paper\"?"));
    }

    #[test]
    fn megabytes_per_second_are_taken_with_a_warning() {
        let (read, warnings) = Spec::parse("fq maxrate 10mbps").expect("tc accepts it");
        assert_eq!(read, Spec::Fq(fq::Params { maxrate: Some(Rate(80_000_000)), ..Default::default() }));
        assert_eq!(warnings, ["10mbps: tc's bps are bytes per second: this is 80mbit"]);
        let change = read.changed("fq maxrate 10mbps").expect("tc accepts it here, too");
        assert_eq!(change.warnings, warnings);
    }

    /// The discipline read from a line, and the warnings.
    fn read(line: &str) -> (String, Vec<String>) {
        let (spec, warnings) = Spec::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        (spec.to_string(), warnings)
    }

    #[test]
    fn a_zero_that_tc_does_not_send_leaves_the_default() {
        let lines = [
            "codel limit 0 target 0 interval 0",
            "fq_codel limit 0 flows 0 quantum 0 target 0 interval 0 drop_batch 0",
            "fq buckets 0",
            "pie limit 0 target 0 tupdate 0 alpha 0 beta 0",
            "fq_pie limit 0 flows 0 target 0 tupdate 0 alpha 0 beta 0 quantum 0 memory_limit 0 ecn_prob 0",
            "sfq quantum 0 depth 0 divisor 0 flows 0",
            "cake bandwidth 0",
            "sfb limit 0 max 0 target 0",
            "dualpi2 limit 0 memlimit 0 target 0 tupdate 0 step_thresh 0 max_rtt 0 typical_rtt 0",
        ];
        for line in lines {
            let kind = line.split(' ').next().unwrap_or_default();
            let (spec, warnings) = read(line);
            assert_eq!(spec, read(kind).0, "{line}");
            assert_eq!(warnings.len(), line.matches(" 0").count(), "{line}: {warnings:?}");
        }
        assert_eq!(read("cake memlimit 0 mpu 0"), ("cake".into(), vec![]), "these are zero by default");
        let said = "pie target 0: tc and Linux treat a zero as not given, so 15ms applies";
        assert_eq!(read("pie target 0").1, [said]);
        assert_eq!(read("red limit 400000 min 0 max 0 burst 0 bandwidth 0").0, read("red limit 400000").0);
        assert_eq!(read("choke limit 100 min 0 max 0 burst 0").0, read("choke limit 100").0);
        // tc sends a zero for these parameters, so the zero counts.
        assert_eq!(read("codel ce_threshold 0").0, "codel limit 1000 ce_threshold 0s");
        assert_eq!(read("fq_codel memory_limit 0").0, "fq_codel limit 10240 memory_limit 0");
        // In our own variants, a zero in the line counts if it is allowed.
        assert_eq!(read("pie alpha 0 variant rfc8033"), ("pie limit 1000 alpha 0 variant rfc8033".into(), vec![]));
        assert!(error("codel limit 0 variant rfc8289").contains("limit must be"));
        assert!(error("tbf rate 0 burst 5k limit 9k").contains("rate must be"));
    }

    #[test]
    fn a_change_with_such_a_zero_leaves_what_is_there() {
        let change = spec("pie target 20ms").changed("pie target 0 alpha 3").expect("a change");
        assert_eq!(
            (change.spec.to_string().as_str(), change.line.as_str()),
            ("pie limit 1000 target 20ms alpha 3", "pie alpha 3")
        );
        assert_eq!(change.warnings.len(), 1);
        let change = spec("fq_codel flows 16").changed("fq_codel flows 0 limit 5").expect("tc sends no flows");
        assert_eq!(change.line, "fq_codel limit 5");
    }

    #[test]
    fn what_the_kernel_bounds_is_bounded() {
        assert_eq!(read("fq_codel quantum 100").0, "fq_codel limit 10240 quantum 256");
        assert_eq!(read("fq_pie quantum 100").0, "fq_pie limit 10240 quantum 256");
        assert_eq!(read("sfq quantum 1 depth 1000").0, "sfq quantum 256");
        assert_eq!(read("fq_codel memory_limit 3g").0, "fq_codel limit 10240 memory_limit 2048Mb");
    }

    #[test]
    fn sizes_and_synonyms_are_those_of_tc() {
        assert_eq!(read("sfq quantum 2Kb").0, "sfq quantum 2Kb");
        assert_eq!(read("fq_pie quantum 1Kb").0, "fq_pie limit 10240 quantum 1Kb");
        assert_eq!(read("red limit 1M avpkt 1Kb").0, read("red limit 1048576 avpkt 1024").0);
        assert_eq!(read("red limit 1M adaptative").0, read("red limit 1M adaptive").0);
        assert_eq!(read("choke limit 1000 avpkt 1Kb").0, read("choke limit 1000 avpkt 1024").0);
        assert_eq!(read("pfifo limit 1k").0, "pfifo limit 1024");
        assert_eq!(read("sfb max 100").0, read("sfb max 100 target 80").0);
        assert_eq!(read("sfb target 100").0, read("sfb max 125 target 100").0);
        assert_eq!(read("fq timer_slack 100").0, "fq limit 10000 timer_slack 100ns");
        let tbf = read("tbf rate 1mbit burst 10kb limit 20kb").0;
        for line in [
            "tbf rate 1mbit buffer 10kb limit 20kb",
            "tbf rate 1mbit maxburst 10kb/8 limit 20kb",
            "tbf rate 125kbps b 10240 l 20480",
            "tbf rate 1mbit bu 80kbit lim 20kb linkl ethernet",
        ] {
            assert_eq!(read(line).0, tbf, "{line}");
        }
        assert_eq!(read("tbf rate 1mbit burst 10kb la 50ms p 2mbit minburst 1540 o 4 mpu 64").0, {
            read("tbf rate 1mbit burst 10kb latency 50ms peakrate 2mbit mtu 1540 overhead 4 mpu 64").0
        });
        assert_eq!(read("htb rate 1mbit maxburst 5k cbuffer 6k prio 1").0, "htb rate 1mbit burst 5Kb cburst 6Kb");
        assert!(error("tbf rate 1mbit burst 10kb/7 limit 9k").contains("unknown unit"));
        assert!(error("fq maxrate 50%").contains("the device's own speed"));
    }

    #[test]
    fn a_misspelt_unit_is_answered_with_what_was_meant() {
        assert!(error("fq maxrate 5mbits").ends_with("did you mean \"5mbit\"?"));
        assert!(error("fq maxrate 5Mbit/s").ends_with("did you mean \"5mbit\"?"));
        assert!(error("fq maxrate 5 Mbit/s").ends_with("did you mean 5mbit?"));
        assert!(error("codel target 5 ms").ends_with("did you mean 5ms?"));
        assert_eq!(read("codel target 5").1, ["target 5: a time without a unit is in microseconds, as in tc"]);
        assert_eq!(read("codel target 5000").1, Vec::<String>::new());
    }

    #[test]
    fn a_rate_in_other_words_is_answered_with_the_words_of_tc() {
        for text in ["5 Mbit/s", "5mbits", "5 mbits/sec", "5M", "5 Mb", "5mbitps"] {
            assert_eq!(rate_meant(text).as_deref(), Some("5mbit"), "{text}");
        }
        assert_eq!(rate_meant("5000000").as_deref(), Some("5000000bit"));
        for text in ["fast", "5 parsec", ""] {
            assert_eq!(rate_meant(text), None, "{text}");
        }
    }

    #[test]
    fn what_linux_has_and_we_have_not_names_what_to_use() {
        for (name, sentence) in elsewhere() {
            let said = error(name);
            assert!(said.ends_with(sentence) && !said.contains("did you mean"), "{said}");
        }
        assert!(error("netem delay 10ms").contains("impair"));
        assert!(elsewhere().iter().all(|(name, _)| !NAMES.contains(name)));
        let (spec, warnings) = read("pfifo_fast");
        assert_eq!((spec, warnings.len()), (read("prio").0, 1));
        assert_eq!(read("pfifo_fast bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1").0, read("prio").0);
        for line in ["htb", "htb default 10", "htb r2q 5", "htb direct_qlen 1024"] {
            assert!(error(line).contains("htb rate 10mbit child fq_codel"), "{line}");
            assert!(error(line).contains("htb shapes by its classes"), "{line}");
        }
    }

    #[test]
    fn whole_commands_and_pasted_blocks_are_read() {
        let block = "qdisc noqueue 0: dev lo root refcnt 2 \nqdisc mq 0: dev eth0 root \n\
                     qdisc fq_codel 0: dev eth0 parent :2 limit 900p flows 1024 ecn \n Sent 12 bytes 1 pkt\n\
                     qdisc fq_codel 0: dev eth0 parent :1 limit 900p flows 1024 ecn \n Sent 0 bytes 0 pkt\n  maxpacket 0";
        assert_eq!(read(block).0, "fq_codel limit 900");
        let said = read(block).1;
        assert_eq!(said.len(), 2, "that it is one of several queues, and what the text lacks: {said:?}");
        let commands = [
            "tc qdisc add dev eth0 root codel limit 9",
            "sudo tc qdisc replace dev eth0 root handle 1: codel limit 9",
            "/sbin/tc -n away qdisc change root dev eth0 handle 8001: codel limit 9",
            "root@OpenWrt:~# tc -s qd add dev eth0 parent 1:10 handle 10: codel limit 9",
            "# tc -s qdisc show dev eth0\nqdisc codel 8001: root refcnt 2 limit 9p target 5ms interval 100ms \n Sent 0 bytes",
            "#tc qdisc add dev eth0 root \\\n  codel limit 9",
            "qdisc codel 801b: dev eth0 root refcnt 2 limit 9p target 5.0ms\ninterval 100.0ms\n    Sent 2 bytes",
            "qdisc ingress ffff: dev eth0 parent ffff:fff1 ----------------\nqdisc codel 1: dev eth0 root limit 9p",
        ];
        for text in commands {
            assert_eq!(read(text).0, "codel limit 9", "{text}");
        }
        let change = spec("codel").changed("tc qdisc change dev eth0 root codel limit 9").expect("a change");
        assert_eq!(change.line, "codel limit 9");
    }

    #[test]
    fn a_shaper_and_what_is_below_it_may_be_several_commands() {
        let htb = "tc qdisc add dev eth0 root handle 1: htb default 1 && tc class add dev eth0 parent 1: classid 1:1 htb \
                   rate 8mbit ; tc qdisc add dev eth0 parent 1:1 fq_codel limit 600";
        assert_eq!(read(htb).0, "htb rate 8mbit child fq_codel limit 600");
        let tbf = "qdisc tbf 1: root refcnt 2 rate 5Mbit burst 5Kb lat 50ms\nqdisc codel 10: parent 1:1 limit 9p";
        assert_eq!(read(tbf).0, "tbf rate 5mbit burst 5Kb latency 50ms child codel limit 9");
        for line in
            ["htb rate 8mbit child fq_codel limit 600", "tbf rate 5mbit burst 5Kb child codel limit 9", "codel", "prio"]
        {
            let paste = spec(line).paste("eth0").line.expect("Linux has it");
            let again = spec(&paste);
            assert_eq!(again.paste("eth0").line.as_ref(), Some(&paste), "{line}");
            assert_eq!(again.kind(), spec(line).kind());
        }
    }

    #[test]
    fn what_a_printed_text_does_not_hold_is_said() {
        let (line, said) = read("qdisc red 10: root refcnt 2 limit 200000b min 10000b max 60000b");
        assert_eq!(line, "red limit 200000 min 10000 max 60000 avpkt 1000 bandwidth 10mbit");
        let assumed = "assumed: avpkt 1000, burst 26, bandwidth 10mbit, probability 0.02; tc -d qdisc show says more";
        assert_eq!(
            said,
            [format!("red: what tc printed does not hold avpkt, burst, bandwidth, probability; {assumed}")]
        );
        // Without the word qdisc, the letters after the numbers show that tc printed it.
        assert_eq!(read("red limit 200000b min 10000b max 60000b").1, said);
        assert_eq!(read("choke limit 100p min 10p max 50p ecn").1.len(), 1);
        for typed in
            ["red limit 200000 min 10000 max 60000", "red limit 200000b avpkt 1000", "choke limit 100", "sfq limit 9p"]
        {
            assert_eq!(read(typed).1, Vec::<String>::new(), "{typed}");
        }
        for (text, lacking) in [
            ("qdisc choke 1: root refcnt 2 limit 100p min 10p max 50p ecn", "bandwidth, avpkt, burst, probability"),
            ("qdisc sfq 8005: root limit 127p quantum 1514b depth 127 divisor 1024 perturb 10sec", "flows"),
            (
                "qdisc fq_codel 0: root limit 10240p flows 1024 quantum 1514 target 5.0ms interval 100.0ms ecn",
                "memory_limit, drop_batch",
            ),
            ("qdisc tbf 1: root rate 5Mbit burst 5Kb lat 50ms", "mpu"),
            ("class htb 1:1 root prio 0 rate 8Mbit ceil 8Mbit burst 1600b cburst 1600b", "mpu"),
            ("qdisc pie 1: root limit 1000p target 15ms tupdate 16ms", "alpha, beta"),
            ("qdisc codel 1: root limit 1000p target 5ms", "interval"),
            ("qdisc cake 1: root bandwidth 10Mbit diffserv3 rtt 100ms", "triple-isolate"),
            ("qdisc pfifo 1: root", "limit"),
        ] {
            let (_, said) = read(text);
            let found = said.iter().filter(|one| one.contains(&format!("does not hold {lacking}; assumed: "))).count();
            assert_eq!(found, 1, "{text}: {said:?}");
        }
        for whole in [
            "qdisc codel 1: root limit 1000p target 5ms interval 100ms",
            "qdisc sfq 1: root limit 127p quantum 1514b depth 127 flows 128 divisor 1024 perturb 10sec",
            "qdisc fq_codel 0: root limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms memory_limit 32Mb ecn drop_batch 64",
            "qdisc cake 1: root refcnt 2 bandwidth 100Mbit diffserv3 triple-isolate rtt 100.0ms noatm overhead 38 mpu 84",
            "qdisc tbf 1: root refcnt 2 rate 5Mbit burst 5Kb/1 mpu 0b lat 50ms linklayer ethernet",
            "qdisc sfb 1: root rehash 600s db 60s limit 1000p max 25p target 20p increment 0.0005 decrement 5e-05 penalty_rate 10pps penalty_burst 20p",
        ] {
            assert_eq!(read(whole).1, Vec::<String>::new(), "{whole}");
        }
    }

    #[test]
    fn what_tc_d_prints_of_red_gives_the_kernels_own_values() {
        let line = "red limit 100000b min 30000b max 30001b ecn ewma 2 probability 0.5 Scell_log 6";
        let (found, said) = read(&format!("qdisc red 10: parent 4: {}", &line[4..]));
        assert_eq!(read(line).0, found);
        assert_eq!(
            found,
            "red limit 100000 min 30000 max 30001 avpkt 1000 burst 31 bandwidth 600mbit probability 0.5 ecn"
        );
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("red: Scell_log 6 leaves the bandwidth open from "), "{said:?}");
        assert_eq!(read(&found), (found, vec![]));
        let choke = read("qdisc choke 1: root limit 100p min 10p max 50p ewma 4 probability 0.02 Scell_log 11").0;
        assert!(choke.contains(" burst "), "{choke}");
        let sfq = "qdisc sfq 1: root limit 3000p quantum 1514b depth 127 headdrop divisor 16384 ewma 6 min 8000b max 60000b \
                   probability 0.2 ecn \n  prob_mark 0 prob_mark_head 0 prob_drop 0\n  forced_mark 0 forced_mark_head 0 \
                   forced_drop 0\n Sent 0 bytes 0 pkt";
        let (sfq, said) = read(sfq);
        assert!(sfq.contains("redflowlimit 240000 min 8000 max 60000"), "{sfq}");
        assert!(said.iter().any(|one| one.contains("redflowlimit 240000")), "{said:?}");
        assert_eq!(
            read("qdisc red 1: root limit 500000 min 10000 max 60000 ewma 5 Plog 9").1.len(),
            1,
            "the bandwidth"
        );
        assert!(error("qdisc choke 1: root limit 100p min 1p max 50p ewma 9").contains("no burst gives weight 2^-9"));
        assert!(error("red limit 400000 Scell_log 5").contains("needs ewma"));
    }

    proptest! {
        #[test]
        fn what_tc_d_would_print_of_any_red_gives_back_what_the_kernel_has(seed: u64) {
            let rng = &mut Rng::stream(seed, "red");
            let params = random_params::<crate::qdisc::red::Params>(rng);
            let Some((words, parms)) = params.kernel() else { return Ok(()) };
            let (wlog, scell_log) = parms.logs();
            let (min, max, p) = (words.min, words.max, words.probability);
            let line = format!("red limit {}b min {min}b max {max}b ewma {wlog} probability {p} Scell_log {scell_log}", params.limit);
            let Ok(Spec::Red(again)) = line.parse::<Spec>() else {
                return Err(proptest::test_runner::TestCaseError::fail(line));
            };
            let again = again.kernel().expect("a line that was read").1;
            prop_assert_eq!(again.logs(), (wlog, scell_log), "{}", line);
            prop_assert_eq!(again.probability(), parms.probability());
        }
    }

    #[test]
    fn every_form_that_tc_printed_at_any_time_is_read() {
        for (text, line) in [
            (
                "qdisc sfq 800c: dev ppp0 quantum 1514b limit 128p flows 128/1024 perturb 10sec",
                "sfq limit 128 quantum 1514 flows 128 perturb 10",
            ),
            (
                "qdisc sfb 1: root refcnt 2 rehash 600s db 60s limit 1000p max 25p target 20p increment 0.000503578 decrement 4.57771e-05 penalty_rate 10pps penalty_burst 20p",
                "sfb limit 1000 max 25 target 20 increment 0.000503578 decrement 0.0000457771 penalty_rate 10 penalty_burst 20",
            ),
            (
                "qdisc sfb 8001: root refcnt 2 limit 1000 max 25 target 20\n  increment 0.00050 decrement 0.00005 penalty rate 10 burst 20 (300000ms 60000ms)",
                "sfb rehash 300000 limit 1000 max 25 target 20 increment 0.0005 decrement 0.00005 penalty_rate 10 penalty_burst 20",
            ),
            (
                "qdisc cake 8005: root refcnt 2 bandwidth 17500Kbit besteffort dual-srchost nat rtt 100.0ms noatm overhead 18 via-ethernet total_overhead 18 hard_header_len 14 mpu 64 memlimit 32Mb",
                "cake bandwidth 17500kbit besteffort dual-srchost nat memlimit 32Mb overhead 18 mpu 64",
            ),
            (
                "qdisc cake 8005: root refcnt 2 bandwidth unlimited diffserv4 flows rtt 100.0ms raw",
                "cake diffserv4 flows raw overhead 0",
            ),
            (
                "class htb 1:10 root leaf 10: prio 0 quantum 1500 rate 8Mbit ceil 9Mbit linklayer ethernet burst 1600b/1 mpu 0b cburst 1700b/1 mpu 0b level 0",
                "htb rate 8mbit ceil 9mbit cburst 1700",
            ),
            (
                "qdisc tbf 1: root rate 5Mbit burst 5Kb/1 mpu 64b [0000a000] peakrate 6Mbit mtu 1540b/1 mpu 64b lat 50ms linklayer ethernet",
                "tbf rate 5mbit burst 5Kb latency 50ms peakrate 6mbit mtu 1540 mpu 64",
            ),
            (
                "qdisc fq 1: root limit 10000p flow_limit 100p quantum 64Kb initial_quantum 15140b",
                "fq limit 10000 quantum 65536 initial_quantum 15140",
            ),
            (
                "qdisc pfifo_fast 0: root bands 3 priomap  1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 multiqueue: off",
                "prio bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
            ),
            (
                "qdisc fq_codel 0: root limit 600p target 4.99ms interval 99.9ms",
                "fq_codel limit 600 target 4990us interval 99900us",
            ),
        ] {
            assert_eq!(read(text).0, line, "{text}");
            assert_eq!(read(line).0, line);
        }
        let whole = "qdisc noqueue 0: dev lo root refcnt 2 \nqdisc mq 0: dev eth0 root \nqdisc fq 0: dev eth0 parent :2 limit 900p\n \
                     Sent 9 bytes 1 pkt (dropped 0, overlimits 0 requeues 0) \n backlog 0b 0p requeues 0\n  flows 3 (inactive 2)\nqdisc \
                     fq 0: dev eth0 parent :1 limit 900p";
        assert_eq!(read(whole).0, "fq limit 900");
        assert!(error("qdisc hfsc 1: root refcnt 2 default 0x10").contains("use htb rate R child"));
    }

    #[test]
    fn json_of_tc_is_read_as_its_lines_are() {
        for (json, line) in [
            (
                r#"[{"kind":"fq_codel","handle":"0:","root":true,"refcnt":2,"options":{"limit":10240,"flows":1024,"quantum":1514,"target":4999,"interval":99999,"ce_threshold":1000,"ce_threshold_selector":1,"ce_threshold_mask":3,"memory_limit":33554432,"ecn":true,"drop_batch":64},"bytes":0,"maxpacket":0}]"#,
                "qdisc fq_codel 0: root refcnt 2 limit 10240p flows 1024 quantum 1514 target 4999us interval 99999us ce_threshold 1ms ce_threshold_selector 0x1/0x3 memory_limit 32Mb ecn drop_batch 64",
            ),
            (
                r#"[ {"kind": "cake", "handle": "8002:", "dev": "eth0", "root": true, "options": {"bandwidth": 12500000,
                   "diffserv": "besteffort", "flowmode": "dual-srchost", "nat": true, "wash": false, "ingress": false, "ack-filter":
                   "disabled", "split_gso": true, "rtt": 100000, "raw": false, "atm": "noatm", "overhead": 22, "memlimit": 33554432,
                   "fwmark": "0"}} ]"#,
                "qdisc cake 8002: dev eth0 root bandwidth 100Mbit besteffort dual-srchost nat nowash no-ack-filter split-gso rtt 100ms noatm overhead 22 memlimit 32Mb",
            ),
            (
                r#"[{"kind":"fq","handle":"1:","root":true,"options":{"limit":10000,"flow_limit":100,"buckets":1024,"orphan_mask":1023,"pacing":false,"quantum":3028,"initial_quantum":15140,"maxrate":1250000,"low_rate_threshold":68750,"refill_delay":40000,"timer_slack":10000,"horizon":10000000,"horizon_drop":null}}]"#,
                "qdisc fq 1: root limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 nopacing quantum 3028b initial_quantum 15140b maxrate 10Mbit low_rate_threshold 550Kbit refill_delay 40ms timer_slack 10us horizon 10s horizon_drop",
            ),
            (
                r#"[{"kind":"sfb","handle":"1:","root":true,"options":{"rehash":600000000,"db":60000000,"limit":1000,"max":25,"target":20,"increment":0.0005,"decrement":0.00005,"penalty_rate":10,"penalty_burst":20}}]"#,
                "qdisc sfb 1: root rehash 600s db 60s limit 1000p max 25p target 20p increment 0.0005 decrement 5e-05 penalty_rate 10pps penalty_burst 20p",
            ),
            (
                r#"[{"kind":"prio","handle":"1:","root":true,"options":{"bands":3,"priomap":[1,2,2,2,1,2,0,0,1,1,1,1,1,1,1,1],"multiqueue":false}}]"#,
                "qdisc prio 1: root bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
            ),
            (
                r#"[{"kind":"tbf","handle":"1:","root":true,"options":{"rate":625000,"burst":5120,"lat":50000}},{"kind":"codel","handle":"10:","parent":"1:1","options":{"limit":9,"target":5000,"interval":100000}}]"#,
                "qdisc tbf 1: root rate 5Mbit burst 5Kb lat 50ms\nqdisc codel 10: parent 1:1 limit 9p target 5ms interval 100ms",
            ),
            (
                r#"[{"kind":"red","handle":"1:","root":true,"options":{"limit":200000,"min":10000,"max":60000,"ecn":true,"harddrop":false,"adaptive":false,"nodrop":false,"ewma":5,"probability":0.3,"Scell_log":12}}]"#,
                "qdisc red 1: root limit 200000b min 10000b max 60000b ecn ewma 5 probability 0.3 Scell_log 12",
            ),
        ] {
            assert_eq!(read(json), read(line), "{json}");
        }
        assert!(error("[{\"kind\":\"codel\"").contains("from [ to ]"));
        assert!(error("[{\"type\":\"codel\"}]").contains("names a kind"));
        assert!(error("[]").contains("no queue discipline"));
    }

    #[test]
    fn the_last_of_repeated_or_contradicting_words_counts_and_both_are_named() {
        for (line, becomes, said) in [
            (
                "codel limit 5 limit 6",
                "codel limit 6",
                &["codel: limit 5, then limit 6: as in tc, the last one counts"][..],
            ),
            (
                "codel limit 5 limit 0",
                "codel limit 1000",
                &[
                    "codel: limit 5, then limit 0: as in tc, the last one counts",
                    "codel limit 0: tc and Linux treat a zero as not given, so 1000 applies",
                ],
            ),
            ("codel ecn noecn", "codel limit 1000", &["codel: ecn, then noecn: as in tc, the last one counts"]),
            ("cake diffserv3 diffserv3", "cake", &["cake: diffserv3 is given twice"]),
            (
                "cake dual-srchost triple-isolate",
                "cake",
                &["cake: dual-srchost, then triple-isolate: as in tc, the last one counts"],
            ),
            (
                "cake ptm overhead 30 noatm raw",
                "cake raw overhead 0",
                &[
                    "cake: ptm, then noatm: as in tc, the last one counts",
                    "cake: overhead 30, then raw: as in tc, the last one counts",
                ],
            ),
            ("cake lan internet", "cake", &["cake: lan, then internet: as in tc, the last one counts"]),
            (
                "cake bandwidth 1mbit unlimited",
                "cake",
                &["cake: bandwidth 1mbit, then unlimited: as in tc, the last one counts"],
            ),
            ("cake ethernet ether-vlan", "cake overhead 42 mpu 84", &[]),
            ("cake pppoe-llcsnap atm", "cake atm overhead 40", &[]),
            (
                "cake pppoe-llcsnap noatm",
                "cake overhead 40",
                &["cake: pppoe-llcsnap, then noatm: as in tc, the last one counts"],
            ),
            ("cake internet rtt 100ms", "cake", &[]),
            (
                "sfq limit 9 limit 10 limit 11",
                "sfq limit 11",
                &[
                    "sfq: limit 9, then limit 10: as in tc, the last one counts",
                    "sfq: limit 10, then limit 11: as in tc, the last one counts",
                ],
            ),
        ] {
            let (found, warnings) = read(line);
            assert_eq!(
                (found.as_str(), warnings.as_slice()),
                (becomes, said.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice()),
                "{line}"
            );
        }
        for line in
            ["tbf rate 1mbit burst 5k burst 6k limit 9k", "htb rate 1mbit rate 2mbit", "prio priomap 1 priomap 2"]
        {
            assert!(error(line).contains("is given twice, which tc refuses"), "{line}");
        }
    }

    #[test]
    fn a_parameter_of_another_variant_is_refused_even_with_its_default() {
        for discipline in disciplines() {
            let Some(variant) = discipline.params.iter().find(|param| param.name == "variant") else { continue };
            let words = variant.expects.trim_start_matches("one of: ").split(", ");
            for word in words {
                let needs = if discipline.name == "red" { " limit 4000" } else { "" };
                let line = |more: &str| format!("{}{needs} {more} variant {word}", discipline.name);
                for param in &discipline.params {
                    // The text of the table says to which variant a parameter belongs.
                    let of = |other: &str| {
                        param.doc.starts_with(&format!("{other}: ")) || param.doc.starts_with(&format!("with {other}:"))
                    };
                    let others = ["servo", "paper", "ns2", "rfc9332"];
                    if !others.iter().any(|other| of(other) && *other != word) {
                        continue;
                    }
                    let value = if param.off.is_some() { String::new() } else { format!(" {}", param.default) };
                    if param.default.is_empty() {
                        continue;
                    }
                    let said = error(&line(&format!("{}{value}", param.name)));
                    assert!(said.contains("does not have it, only variant"), "{said}");
                }
            }
        }
        assert_eq!(
            error("ccaq variant paper idle 1%"),
            "\"idle\": variant paper of ccaq does not have it, only variant servo does: leave it out"
        );
        for line in [
            "red limit 10 burst 5 variant ns2",
            "red limit 4000 gentle",
            "sfq variant ns2 depth 127",
            "pie variant rfc8033 nobytemode",
            "dualpi2 variant rfc9332 drop_enqueue",
            "dualpi2 min_th 800us",
            "fq_codel variant ns2 memory_limit 32Mb",
        ] {
            assert!(error(line).contains("does not have it, only variant"), "{line}");
        }
    }

    #[test]
    fn equal_thresholds_are_a_step_where_tc_takes_them() {
        let step = "red limit 1mb min 15000 max 15000 avpkt 1000 burst 20 ecn nodrop";
        assert_eq!(
            read(step).0,
            "red limit 1048576 min 15000 max 15000 avpkt 1000 burst 20 bandwidth 10mbit ecn nodrop"
        );
        assert!(error("red limit 100000 min 15001 max 15000").contains("must not be above max"));
        // tc refuses them for choke and sfq.
        assert!(error("choke limit 100 min 20 max 20").contains("must be below max"));
        assert!(error("sfq redflowlimit 100000 min 20000 max 20000").contains("below max"));
    }

    #[test]
    fn buckets_are_rounded_up_as_by_tc() {
        for (given, becomes) in [(1000, 1024), (1024, 1024), (1025, 2048), (2, 2), (3, 4)] {
            let Spec::Fq(params) = spec(&format!("fq buckets {given}")) else { panic!("fq") };
            assert_eq!(params.buckets, becomes);
        }
    }

    #[test]
    fn a_text_from_which_no_discipline_follows_says_what_is_missing() {
        let two = "qdisc codel 1: dev eth0 root limit 9p\nqdisc pie 1: dev eth1 root limit 9p";
        assert!(error(two).contains("several devices (eth0, eth1)"));
        assert!(error("qdisc codel 1: root limit 9p\nqdisc pie 1: root limit 9p").contains("one of these lines"));
        assert!(
            error("qdisc mq 0: root\nqdisc codel 0: parent :1 limit 9p\nqdisc pie 0: parent :2")
                .contains("one of these")
        );
        assert!(error("qdisc htb 1: root r2q 10 default 0x1\nqdisc codel 1: parent 1:1 limit 9p").contains("htb rate"));
        assert!(error("tc qdisc del dev eth0 root").contains("sets up no discipline"));
        assert!(error("tc qdisc show dev eth0").contains("what tc qdisc show prints"));
        assert!(error("tc filter add dev eth0 parent 1: u32").contains("expected a tc qdisc line"));
        assert!(error("tc qdisc add dev eth0 root").contains("names no discipline"));
        assert!(error("tc qdisc add dev eth0 root stab overhead 40 linklayer atm fq_codel").contains("overhead"));
        assert!(error("tc").contains("expected a whole command"));
        assert!(error("codel; touch x").contains("codel;"));
    }

    #[test]
    fn a_setting_that_passes_nothing_or_means_something_else_is_said() {
        let context = crate::qdisc::testing::CONTEXT;
        let advice = |line: &str| spec(line).advice(&context, true);
        let said = |line: &str, what: &str| {
            let all = advice(line);
            assert!(all.len() == 1 && all[0].contains(what), "{line}: {all:?}");
        };
        said("tbf rate 1kbit burst 1000 latency 50s", "full ones of");
        said("bfifo limit 1000", "does not fit");
        said("fq_codel memory_limit 1", "memory_limit 1");
        said("codel target 50ms interval 5ms", "is shorter than target");
        said("codel ce_threshold 20ms", "is above target");
        said("codel target 5us", "is far below");
        said("htb rate 10gbit child fq_codel target 20ms", "is above the link's");
        said("htb rate 1kbit child codel target 5us", "is far below");
        for line in ["codel", "fq_codel ce_threshold 1ms", "cake bandwidth 1kbit", "red limit 400000", "pie", "dualpi2"]
        {
            assert_eq!(advice(line), Vec::<String>::new(), "{line}");
        }
        assert_eq!(spec("codel target 5us").advice(&context, false), Vec::<String>::new(), "the rate changes");
    }

    #[test]
    fn a_default_limit_that_is_short_for_the_link_is_said() {
        let said =
            |line: &str, gbit: u64| spec(line).short_limit(Rate(gbit * 1_000_000_000), 1514, Span::from_millis(70));
        assert_eq!(
            said("fq_codel", 10).as_deref(),
            Some(
                "fq_codel's default limit of 10240 packets lasts 12.4 ms at 10gbit, less than the longest RTT, 70 ms: a few \
                 flows may not keep the link busy; such a link needs a larger one, as in: limit 1bdp memory_limit 2bdp"
            )
        );
        for line in ["ccaq", "codel", "pie", "fq_pie", "fq", "pfifo", "sfq", "sfb", "htb rate 10gbit child fq_codel"] {
            assert!(said(line, 10).is_some(), "{line}");
        }
        for line in ["fq_codel limit 60000", "red limit 400000", "cake", "noqueue", "htb rate 1mbit child fq_codel"] {
            assert_eq!(said(line, 10), None, "{line}");
        }
        assert_eq!(said("fq_codel", 1), None);
        assert!(said("sfq", 1).is_some_and(|text| text.contains("127 packets")));
    }

    #[test]
    fn errors_name_the_word_and_what_was_expected() {
        assert!(error("fq_kodel").contains("did you mean \"fq_codel\"?"));
        assert!(error("").starts_with("no queue discipline given"));
        assert!(error("qdisc").starts_with("no queue discipline given"));
        assert!(error("codel limt 5").contains("did you mean \"limit\"?"));
        assert!(error("codel limit").contains("\"limit\": needs a number of packets"));
        assert!(error("pfifo limit 0").contains("limit must be 1 to 4294967295"));
        assert!(error("codel limit -1").contains("not a number"));
        assert!(error("codel limit 4294967296").contains("limit must be"));
        assert!(error("codel target 5m").contains("unknown unit; target expects a time"));
        assert!(error("codel target 17ns").contains("too fine"));
        assert!(error("codel target 2000s").contains("target must be 1us to 1000s"));
        assert!(error("red limit 9 variant ns2 min 5 max 5").contains("must be below max"));
        assert!(error("red limit 9 variant ns2 probability nan").contains("not a number"));
        assert!(error("noqueue limit 5").contains("noqueue takes no parameters"));
    }

    #[test]
    fn the_reference_table_names_every_discipline_and_default() {
        let table = disciplines();
        assert_eq!(table.iter().map(|d| d.name).collect::<Vec<_>>(), NAMES);
        let codel = table.iter().find(|d| d.name == "codel").expect("codel");
        assert_eq!((codel.params[0].name, codel.params[0].default.as_str()), ("limit", "1000"));
        assert!(table.iter().flat_map(|d| &d.params).all(|p| !p.doc.is_empty()));
    }

    proptest! {
        #[test]
        fn printing_and_reading_give_the_same(seed: u64) {
            let spec = Spec::random(&mut Rng::stream(seed, "spec"));
            prop_assert_eq!(&spec.to_string().parse::<Spec>()?, &spec);
            prop_assert_eq!(&spec.full().parse::<Spec>()?, &spec);
        }

        #[test]
        fn a_line_for_tc_has_nothing_of_ours(seed: u64) {
            let spec = Spec::random(&mut Rng::stream(seed, "tc"));
            let line = spec.tc_line().unwrap_or_default();
            prop_assert!(!line.contains("variant"), "{}", line);
        }

        #[test]
        fn reading_never_panics(line in "\\PC*") {
            let _ = line.parse::<Spec>();
        }

        #[test]
        fn reading_any_number_never_panics(
            name in proptest::sample::select(vec!["target", "limit", "ce_threshold"]),
            digits in "[0-9]{0,45}\\.?[0-9]{0,45}(s|ms|us|ns|k|p|mbit)?",
        ) {
            let _ = format!("codel {name} {digits}").parse::<Spec>();
            let _ = format!("fq maxrate {digits}").parse::<Spec>();
            let _ = format!("bfifo limit {digits}").parse::<Spec>();
        }

        #[test]
        fn reading_near_misses_never_panics(seed: u64, cut in 0usize..80, noise in "[a-z0-9.µ ]{0,6}") {
            let mut line = Spec::random(&mut Rng::stream(seed, "miss")).full();
            let at = cut.min(line.len());
            line.insert_str(at, &noise);
            if let Ok(read) = line.parse::<Spec>() {
                prop_assert_eq!(&read.to_string().parse::<Spec>()?, &read);
            }
        }
    }
}
