//! Reads the files that a scenario names, and says what was found in them.
//!
//! A scenario may come from somebody else, so a name may be that of any file. Only regular files are read: to open a
//! FIFO waits for its writer, and a device may never end. An error shows only the beginning of what it found: a trace
//! that names a private file must not print its content.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most characters of a file's content in an error.
const MOST_SHOWN: usize = 8;

/// Reads a regular file: at most `most` bytes of it, and one more if it is larger.
///
/// # Errors
/// The system's, or that this is no regular file.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_file() {
        let is = if kind.is_dir() { "a folder" } else { "a FIFO, a device or a socket" };
        return Err(io::Error::other(format!("this is {is}: expected a regular file")));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the beginning of a text that was found in a file, in quotes, without characters that a terminal acts on.
pub(crate) fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let begin: String = chars.by_ref().take(MOST_SHOWN).collect();
    let more = if chars.next().is_some() { "…" } else { "" };
    format!("{begin:?}{more}")
}

/// Returns a text on one line, without characters that a terminal acts on and does not show: control characters, and
/// those that change the direction of text. Each becomes U+FFFD, white space a blank.
pub(crate) fn harmless(text: &str) -> String {
    let one = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(read(&here.join("Cargo.toml"), 3).expect("a file").len(), 4);
        assert!(read(here, 3).is_err_and(|error| error.to_string().contains("a folder")));
        assert!(read(Path::new("/dev/zero"), 3).is_err_and(|error| error.to_string().contains("a device")));
        assert!(read(&here.join("none"), 3).is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
    }

    #[test]
    fn an_error_shows_the_beginning_of_a_file_only() {
        assert_eq!(shown("fast"), "\"fast\"");
        assert_eq!(shown("root:secret:0:0"), "\"root:sec\"…");
        assert_eq!(harmless("a\u{202e}b\u{1b}[0m\nc é"), "a\u{fffd}b\u{fffd}[0m c é");
        assert_eq!(shown("\u{1b}[2J\u{202e}"), "\"\\u{1b}[2J\\u{202e}\"");
    }
}
