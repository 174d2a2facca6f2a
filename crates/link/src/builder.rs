//! A link before it is up: its scenario and its options.

use std::io;
use std::path::PathBuf;

use sojourn_model::plan::{LoadOptions, Plan};

use crate::{Link, invalid};

/// A plain link, whose values are set by their keys.
const PLAIN: &str = "duration = \"1s\"\nhop = [{ name = \"link\" }]\nflow = [{ kind = \"pings\", name = \"pings\" }]\n";
/// The name of a text in messages.
const TEXT: &str = "link";

/// Makes a [`Link`].
#[derive(Clone, Debug)]
pub struct Builder {
    /// The file; the text if there is none.
    file: Option<PathBuf>,
    text: String,
    pub(crate) options: LoadOptions,
    pub(crate) flows: bool,
}

impl Builder {
    /// A plain link with a rate, a base RTT and a discipline, in both directions.
    pub fn new(rate: &str, rtt: &str, qdisc: &str) -> Builder {
        Builder::text(PLAIN)
            .set("flow.pings.rtt", rtt)
            .set("hop.link.down.rate", rate)
            .set("hop.link.down.qdisc", qdisc)
            .up(rate)
            .up_qdisc(qdisc)
    }

    /// The link of a scenario file: the first combination of its sweep.
    pub fn file(path: impl Into<PathBuf>) -> Builder {
        Builder { file: Some(path.into()), ..Builder::text("") }
    }

    /// The link of a scenario's text in TOML.
    pub fn text(text: impl Into<String>) -> Builder {
        Builder { file: None, text: text.into(), options: LoadOptions::default(), flows: false }
    }

    /// Another rate from the client to the server.
    #[must_use]
    pub fn up(self, rate: &str) -> Builder {
        self.set("hop.link.up.rate", rate)
    }

    /// Another discipline from the client to the server.
    #[must_use]
    pub fn up_qdisc(self, line: &str) -> Builder {
        self.set("hop.link.up.qdisc", line)
    }

    /// Another value of a scenario's key, such as `hop.link.delay`.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Builder {
        self.options.set.push((key.to_owned(), value.to_owned()));
        self
    }

    /// True if the scenario's flows play next to the test.
    #[must_use]
    pub fn flows(self, flows: bool) -> Builder {
        Builder { flows, ..self }
    }

    /// Brings up the link.
    ///
    /// # Errors
    /// A value is not sound, there is no program `sojourn-live`, or this host cannot do it.
    pub fn open(&self) -> io::Result<Link> {
        Link::open(self)
    }

    pub(crate) fn plan(&self) -> io::Result<Plan> {
        let read = match &self.file {
            Some(path) => Plan::open(&path.to_string_lossy(), &self.options),
            None => Plan::load(TEXT, self.text.as_bytes(), &self.options),
        };
        read.map_err(|error| invalid(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(builder: &Builder) -> Vec<(String, String, String)> {
        let scenario = builder.plan().expect("a sound plan").scenario(0).expect("a sound run");
        let of = |index| {
            let link = scenario.link(index);
            (scenario.link_name(index), format!("{:?}", link.rate), link.qdisc.to_string())
        };
        (0..scenario.hops.len() * 2).map(of).collect()
    }

    #[test]
    fn a_plain_link_has_the_values_in_both_directions_unless_one_differs() {
        let both = links(&Builder::new("10mbit", "50ms", "codel target 9ms"));
        assert_eq!((both[0].0.as_str(), both[1].0.as_str()), ("link", "link.reverse"));
        assert_eq!((&both[0].1, &both[0].2), (&both[1].1, &both[1].2));
        let [down, up] = &links(&Builder::new("10mbit", "50ms", "codel").up("2mbit").up_qdisc("pfifo limit 9"))[..]
        else {
            panic!("two links");
        };
        assert!(down.1.contains("10000000") && up.1.contains("2000000"), "{down:?} {up:?}");
        assert!(down.2.starts_with("codel") && up.2 == "pfifo limit 9", "{down:?} {up:?}");
    }

    #[test]
    fn an_error_names_key_and_value() {
        for (builder, said) in [
            (Builder::new("10mbitt", "50ms", "codel"), "rate = \"10mbitt\""),
            (Builder::new("10mbit", "50", "codel"), "rtt = "),
            (Builder::new("10mbit", "50ms", "kodel"), "did you mean \"codel\"?"),
            (Builder::file("no-such.toml"), "no-such.toml: cannot read"),
            (Builder::text("duration = 3"), "link:1: duration = 3"),
        ] {
            let error = builder.plan().err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(said), "{error}");
        }
    }
}
