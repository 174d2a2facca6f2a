//! Recognises files of other programs that are given as a scenario, for one sentence that says what to do.

/// The form of a scenario, and how to get one.
const INSTEAD: &str = "expected a scenario in TOML; sojourn new --help says how to write one for a line";

/// The first bytes of files that hold no text, and what they are.
const BEGINNINGS: [(&[u8], &str); 10] = [
    (&[0xd4, 0xc3, 0xb2, 0xa1], "a capture of packets (pcap)"),
    (&[0xa1, 0xb2, 0xc3, 0xd4], "a capture of packets (pcap)"),
    (&[0x4d, 0x3c, 0xb2, 0xa1], "a capture of packets (pcap)"),
    (&[0xa1, 0xb2, 0x3c, 0x4d], "a capture of packets (pcap)"),
    (&[0x0a, 0x0d, 0x0d, 0x0a], "a capture of packets (pcapng)"),
    (&[0x1f, 0x8b], "compressed by gzip, as flent's .flent.gz are"),
    (b"PAR1", "a table in Parquet, such as the records of a run"),
    (b"PK\x03\x04", "an archive (zip)"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "compressed by zstd"),
    (b"\x7fELF", "a program or a library"),
];

/// A sentence about a file that is no scenario. `None` if its kind is not known.
pub(crate) fn kind(source: &[u8]) -> Option<String> {
    if let Some((_, kind)) = BEGINNINGS.iter().find(|(bytes, _)| source.starts_with(bytes)) {
        return Some(format!("is {kind}, and no scenario: {INSTEAD}"));
    }
    let text = std::str::from_utf8(source).ok()?.trim_start();
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    if matches!(first, "qdisc" | "class" | "tc") || is_object_of(text, "\"kind\"") {
        return Some(
            "is a line of tc, and no scenario: write it into a scenario, as the key qdisc of a hop".to_owned(),
        );
    }
    let is_json = text.starts_with('{') || text.starts_with("[{") || is_object_of(text, "\"");
    is_json.then(|| format!("is JSON, as flent, irtt and iperf3 write it, and no scenario: {INSTEAD}"))
}

/// Whether a text is a JSON list of objects whose first key begins like this.
fn is_object_of(text: &str, key: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|text| text.trim_start().strip_prefix('{'));
    inside.is_some_and(|text| text.trim_start().starts_with(key))
}
