//! Errors in a scenario file: their place, the offending value, and the expected one.

use std::fmt;

use sojourn_core::qdisc::tc;

/// An error in the input. `Display` prints one line: `fading.toml:12: hop.bottleneck.rate = "10mb/s": expected …`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The file as the caller named it.
    pub file: String,
    /// The line in the file, counted from 1; `None` for values given by `--set` and for missing keys.
    pub line: Option<u32>,
    /// The full address of the key, as in `[sweep]` and `--set`; empty for errors of the file as a whole.
    pub key: String,
    /// The value as written.
    pub value: Option<Box<str>>,
    /// The expected value, or a description of the error.
    pub problem: String,
    /// The known name that is nearest to an unknown one.
    pub nearest: Option<Box<str>>,
    /// The scenario is valid, but uses a feature that is not built yet. Sweeps skip such runs.
    pub not_built: bool,
}

/// A value as written, truncated if long.
pub(crate) fn shortened(written: String) -> String {
    const LONGEST: usize = 120;
    let cut = written.char_indices().nth(LONGEST).map(|(cut, _)| format!("{}…", &written[..cut]));
    cut.unwrap_or(written)
}

impl Error {
    /// An error of the file as a whole.
    pub(crate) fn of_file(problem: impl Into<String>) -> Error {
        Error {
            file: String::new(),
            line: None,
            key: String::new(),
            value: None,
            problem: problem.into(),
            nearest: None,
            not_built: false,
        }
    }

    /// An error at a key.
    pub(crate) fn at(line: Option<u32>, key: impl Into<String>, problem: impl Into<String>) -> Error {
        Error { line, key: key.into(), ..Error::of_file(problem) }
    }

    /// Adds the value as written, truncated if long.
    pub(crate) fn value(mut self, written: String) -> Error {
        self.value = Some(shortened(written).into());
        self
    }

    /// Adds the nearest of the names that would have been valid.
    pub(crate) fn nearest<'a>(mut self, wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
        self.nearest = tc::nearest(wrong, known.into_iter()).map(Box::from);
        self
    }

    /// Marks the error as a valid use of a feature that is not built yet.
    pub(crate) fn not_built(mut self) -> Error {
        self.not_built = true;
        self
    }

    /// Adds the name of the file.
    pub(crate) fn in_file(mut self, file: &str) -> Error {
        file.clone_into(&mut self.file);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if !self.key.is_empty() {
            f.write_str(&self.key)?;
            if let Some(value) = &self.value {
                write!(f, " = {value}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.problem)?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean \"{nearest}\"?")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_line_key_value_and_what_was_expected() {
        let error = Error::at(Some(12), "hop.bottleneck.rate", "expected a rate such as \"10mbit\"")
            .value("\"10mb/s\"".into())
            .in_file("scenarios/x.toml");
        let text = "scenarios/x.toml:12: hop.bottleneck.rate = \"10mb/s\": expected a rate such as \"10mbit\"";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        let nearest = |word: &str| Error::of_file("").nearest(word, ["rate", "qdisc", "delay", "group"]).nearest;
        assert_eq!(nearest("qdics").as_deref(), Some("qdisc"));
        for far in ["colour", "warmup", "duration"] {
            assert_eq!(nearest(far), None, "{far}");
        }
    }
}
