//! Why a line could not be read, and the nearest known name.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Why a line could not be read. Displays as one line that names the word and what was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The offending word; empty if one is missing.
    pub word: String,
    /// The fault, and what was expected.
    pub problem: String,
    /// A known name with a similar spelling, if there is one.
    pub nearest: Option<&'static str>,
}

impl Error {
    pub(crate) fn new(word: &str, problem: String) -> Error {
        Error { word: word.to_string(), problem, nearest: None }
    }

    pub(crate) fn near<'a>(mut self, known: impl Iterator<Item = &'a &'static str>) -> Error {
        self.nearest = nearest(&self.word, known.copied());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.word.is_empty() {
            let word: String = self.word.chars().take(40).collect();
            write!(f, "{word:?}: ")?;
        }
        f.write_str(&self.problem)?;
        self.nearest.map_or(Ok(()), |name| write!(f, "; did you mean {name:?}?"))
    }
}

impl core::error::Error for Error {}

/// The name at the smallest edit distance, if it is at most a third of the word's length, rounded down (at least one
/// edit).
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 40 {
        return None;
    }
    let allowed = (word.chars().count() / 3).max(1);
    known.map(|name| (edits(word, name), name)).filter(|(d, _)| *d <= allowed).min().map(|(_, name)| name)
}

/// Levenshtein's distance; two neighbours that are swapped count as one edit.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = Vec::from([i + 1]);
        for (j, y) in b.iter().enumerate() {
            let mut least = (row[j] + usize::from(x != y)).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                least = least.min(above[j - 1] + 1);
            }
            next.push(least);
        }
        above = core::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["pie", "codel", "fq_codel", "noqueue", "bottleneck", "red"];
        let near = |word: &str| nearest(word, names.into_iter());
        for (word, name) in
            [("fq_kodel", "fq_codel"), ("codle", "codel"), ("pei", "pie"), ("rad", "red"), ("noqeue", "noqueue")]
        {
            assert_eq!(near(word), Some(name), "{word}");
        }
        for word in ["mine", "foo", "best", "home"] {
            assert_eq!(near(word), None, "{word}");
        }
    }
}
