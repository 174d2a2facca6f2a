//! Reads the parameters of each kind of flow.

use std::sync::Arc;

use sojourn_core::tcp::Config;
use sojourn_core::units::{Rate, Span, Time};

use super::{Count, Draws, LARGEST};
use crate::document::Kind;
use crate::error::Error;
use crate::file::shown;
use crate::read::{Field, Reader};
use crate::units;
use crate::workload::page::Fixed;
use crate::workload::stream::{Codec, Playout, SMALLEST, Transport, Voice};
use crate::workload::video::Rule;
use crate::workload::{Group, Host};

/// The application of a flow and its parameters.
pub(crate) enum What {
    Bulk { active: Option<Vec<(Time, Time)>> },
    Files { size: u64, gap: Draws },
    Thin { bytes: u32, interval: Span },
    Pings { bytes: u32, interval: Span },
    Stream { bytes: u32, interval: Span, transport: Transport, voice: Option<Voice>, on_off: Option<(Draws, Draws)> },
    Web { rate: f64 },
    Pages { connections: usize, fixed: Fixed },
    Video { chunk: Span, buffer: Span, ladder: Vec<Rate>, rule: Rule },
    Rpm { interval: Span, connections: u32, tls: bool },
    Sizes { rate: f64, file: Option<Arc<Vec<u64>>>, group: Option<usize> },
    Command { argv: Arc<[String]>, at: Host },
}

/// Returns whether flows of this kind run over TCP.
pub(super) fn is_over_tcp(reader: &Reader<'_>, kind: &str) -> Result<bool, Error> {
    match kind {
        "pings" | "cbr" | "voip" | "command" => Ok(false),
        "onoff" => Ok(reader.field("transport")?.choice()? == "tcp"),
        _ => Ok(true),
    }
}

impl What {
    /// Returns whether the application runs over TCP.
    pub(super) fn has_tcp(&self) -> bool {
        !matches!(self, What::Pings { .. } | What::Command { .. } | What::Stream { transport: Transport::Udp, .. })
    }

    pub(super) fn read(
        reader: &Reader<'_>,
        kind: &str,
        tcp: &Config,
        groups: &[Group],
        count: Count,
        duration: Time,
    ) -> Result<What, Error> {
        Ok(match kind {
            "bulk" => What::Bulk { active: active(reader)? },
            "download" | "upload" => {
                let gap = Draws::read(&reader.field("gap")?)?;
                gap.fits(reader.given("gap"), count)?;
                let size = reader.field("size")?;
                let bytes = size.bytes()?;
                if bytes / u64::from(tcp.mss) >= 1 << 31 {
                    return Err(size.fault(format!("expected fewer than 2^31 segments of {} bytes", tcp.mss)));
                }
                What::Files { size: bytes, gap }
            }
            "thin" => What::Thin { bytes: small(reader, 1, tcp.mss)?, interval: interval(reader, duration)? },
            // IP and ICMP headers have 28 bytes.
            "pings" => What::Pings { bytes: small(reader, 28, LARGEST)?, interval: interval(reader, duration)? },
            "cbr" | "onoff" => stream(reader, count, duration)?,
            "voip" => voice(reader)?,
            "web" => web(reader)?,
            "video" => video(reader, duration)?,
            "rpm" => rpm(reader)?,
            "sizes" => {
                let group = reader.given("group").map(|field| group(&field, groups)).transpose()?;
                let file = reader.given("file").map(|field| sizes_file(&field)).transpose()?;
                What::Sizes { rate: reader.field("rate")?.number()?, file, group }
            }
            "command" => command(reader)?,
            kind => panic!("bug: kind {kind} is in the table, but is not read"),
        })
    }
}

/// Reads a constant-rate stream, continuous or alternating with silence.
fn stream(reader: &Reader<'_>, count: Count, duration: Time) -> Result<What, Error> {
    let turns = reader.given("kind").is_some_and(|kind| kind.text().is_ok_and(|kind| kind == "onoff"));
    let over_tcp = turns && is_over_tcp(reader, "onoff")?;
    let transport = if over_tcp { Transport::Tcp } else { Transport::Udp };
    let of_tcp = || ["cc", "iw", "mss", "acks", "rwnd"].iter().find_map(|name| reader.given(name));
    if let (true, false, Some(field)) = (turns, over_tcp, of_tcp()) {
        return Err(field.fault("expected only with transport = \"tcp\""));
    }
    let bytes = small(reader, if over_tcp { 1 } else { SMALLEST }, LARGEST)?;
    let rate = reader.field("rate")?;
    let bits = u64::from(bytes) * 8_000_000_000;
    let interval = Span((bits + rate.rate()?.0 / 2) / rate.rate()?.0);
    // The number of packets is limited by packet numbers.
    if interval == Span::ZERO || duration.0 / interval.0 >= 1 << 31 {
        return Err(rate.fault("expected a lower rate, or larger packets"));
    }
    let draws = |name: &str| -> Result<Draws, Error> {
        let field = reader.field(name)?;
        let draws = Draws::read(&field)?;
        draws.fits(reader.given(name), count)?;
        let sound =
            draws.lowest_mean() >= Span::from_micros(100) || (name == "off" && draws.lowest_mean() == Span::ZERO);
        if sound { Ok(draws) } else { Err(field.fault("expected a mean of at least 100us")) }
    };
    let on_off = if turns { Some((draws("on")?, draws("off")?)) } else { None };
    Ok(What::Stream { bytes, interval, transport, voice: None, on_off })
}

fn web(reader: &Reader<'_>) -> Result<What, Error> {
    if reader.field("page")?.flag()? {
        if let Some(field) = reader.given("rate") {
            return Err(field.fault("not with page: count says how many read pages"));
        }
        let fixed = Fixed {
            objects: reader.given("objects").map(|field| field.integer(0, 10_000)).transpose()?.map(|n| n as usize),
            size: reader.given("size").map(|field| field.bytes()).transpose()?,
            reading: reader.given("reading").map(|field| field.span()).transpose()?,
        };
        return Ok(What::Pages { connections: reader.field("connections")?.integer(1, 100)? as usize, fixed });
    }
    if let Some(field) = ["connections", "objects", "size", "reading"].iter().find_map(|name| reader.given(name)) {
        return Err(field.fault("expected only with page = true"));
    }
    Ok(What::Web { rate: reader.field("rate")?.number()? })
}

fn video(reader: &Reader<'_>, duration: Time) -> Result<What, Error> {
    let (chunk_field, buffer_field) = (reader.field("chunk")?, reader.field("buffer")?);
    let (chunk, buffer) = (chunk_field.span()?, buffer_field.span()?);
    if chunk < Span::from_millis(10) || duration.0 / chunk.0 >= 1 << 24 {
        return Err(chunk_field.fault("expected a longer time"));
    }
    if buffer.0 < 2 * chunk.0 {
        return Err(buffer_field.fault(format!("expected room for two pieces of {chunk} at least")));
    }
    let field = reader.field("ladder")?;
    let ladder = match &field.value.kind {
        // The default is a text.
        Kind::Text(text) => text.split(' ').filter_map(|word| units::rate(word).map(|read| read.rate)).collect(),
        _ => {
            let items = field.items().filter(|items| !items.is_empty()).ok_or_else(|| field.unexpected())?;
            items.iter().map(Field::rate).collect::<Result<Vec<_>, _>>()?
        }
    };
    if ladder.is_empty() || ladder.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(field.fault("expected rising rates"));
    }
    let rule = if reader.field("rule")?.choice()? == "rate" { Rule::Rate } else { Rule::Buffer };
    Ok(What::Video { chunk, buffer, ladder, rule })
}

fn rpm(reader: &Reader<'_>) -> Result<What, Error> {
    let field = reader.field("interval")?;
    let interval = field.span()?;
    if interval < Span::from_millis(100) {
        return Err(field.fault("expected at least 100ms"));
    }
    let connections = reader.field("connections")?.integer(1, 1000)?;
    Ok(What::Rpm { interval, connections, tls: reader.field("tls")?.flag()? })
}

/// Words that a shell would not pass on to the program.
const SHELL: &[&str] = &["|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"];

fn command(reader: &Reader<'_>) -> Result<What, Error> {
    let field = reader.field("command")?;
    let argv: Vec<String> = match field.items() {
        Some(items) => items.iter().map(|item| item.text().map(str::to_owned)).collect::<Result<_, _>>()?,
        None => {
            let words = split(field.text()?).map_err(|problem| field.fault(problem))?;
            if let Some(word) = words.iter().find(|word| SHELL.contains(&word.as_str())) {
                field.warn(&format!("no shell runs it: {word} is an argument; for a shell write sh -c '…'"));
            }
            words
        }
    };
    if argv.first().is_none_or(String::is_empty) {
        return Err(field.unexpected());
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(field.fault("expected words without the character NUL"));
    }
    let at = if reader.field("at")?.choice()? == "server" { Host::Server } else { Host::Client };
    Ok(What::Command { argv: argv.into(), at })
}

/// Splits a text into words as a POSIX shell does (Shell Command Language, 2.2 Quoting), without expansions.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    let unclosed = |quote: char| format!("expected a closing {quote}");
    while let Some(c) = rest.next() {
        if c.is_ascii_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match c {
            '\'' => loop {
                match rest.next().ok_or_else(|| unclosed(c))? {
                    '\'' => break,
                    inside => word.push(inside),
                }
            },
            '"' => loop {
                match rest.next().ok_or_else(|| unclosed(c))? {
                    '"' => break,
                    '\\' => match rest.next().ok_or_else(|| unclosed(c))? {
                        '\n' => {}
                        escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                        other => word.extend(['\\', other]),
                    },
                    inside => word.push(inside),
                }
            },
            '\\' => match rest.next().ok_or("expected a character after the last \\")? {
                '\n' => {}
                escaped => word.push(escaped),
            },
            plain => word.push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

fn voice(reader: &Reader<'_>) -> Result<What, Error> {
    let (codec, playout) = (reader.field("codec")?, reader.field("playout")?);
    let codec = Codec::named(codec.choice()?).ok_or_else(|| codec.unexpected())?;
    let playout = Playout::parse(playout.text()?).ok_or_else(|| playout.unexpected())?;
    let voice = Some(Voice { codec, playout });
    let (bytes, interval) = (codec.packet_bytes(), Voice::FRAME);
    Ok(What::Stream { bytes, interval, transport: Transport::Udp, voice, on_off: None })
}

fn active(reader: &Reader<'_>) -> Result<Option<Vec<(Time, Time)>>, Error> {
    let Some(field) = reader.given("active") else { return Ok(None) };
    if let Some(other) = reader.given("start").or(reader.given("stop")) {
        return Err(other.fault("expected either active or start and stop, not both"));
    }
    let items = field.items().ok_or_else(|| field.unexpected())?;
    let windows = items.iter().map(Field::window).collect::<Result<Vec<_>, _>>()?;
    let sound = !windows.is_empty() && windows.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    if sound { Ok(Some(windows)) } else { Err(field.unexpected()) }
}

fn small(reader: &Reader<'_>, lowest: u32, highest: u32) -> Result<u32, Error> {
    let field = reader.field("size")?;
    let bytes = u32::try_from(field.bytes()?).ok().filter(|bytes| (lowest..=highest).contains(bytes));
    bytes.ok_or_else(|| field.fault(format!("expected from {lowest} to {highest} bytes")))
}

fn interval(reader: &Reader<'_>, duration: Time) -> Result<Span, Error> {
    let field = reader.field("interval")?;
    let span = field.span()?;
    // The number of packets is limited by segment numbers.
    if span == Span::ZERO || duration.0 / span.0 >= 1 << 31 {
        return Err(field.fault("expected a longer time"));
    }
    Ok(span)
}

fn sizes_file(field: &Field<'_>) -> Result<Arc<Vec<u64>>, Error> {
    let name = field.text()?;
    if let Some(sizes) = field.context.sizes.borrow().get(name) {
        return Ok(Arc::clone(sizes));
    }
    let sizes = Arc::new(crate::path::read_with(field, &field.context.folder.join(name), parse_sizes)?);
    field.context.sizes.borrow_mut().insert(name.to_owned(), Arc::clone(&sizes));
    Ok(sizes)
}

/// Parses one size in bytes per line, or the last field of each line. A first line without a number is a header.
fn parse_sizes(text: &str) -> Result<Vec<u64>, (usize, String)> {
    let mut sizes = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let word = line.rsplit(',').next().unwrap_or_default().trim();
        match word.parse::<u64>() {
            Ok(bytes) if (1..1 << 40).contains(&bytes) => sizes.push(bytes),
            _ if i == 0 && word.parse::<f64>().is_err() => {}
            _ => {
                return Err((i + 1, format!("expected a size in whole bytes, above zero, found {}", shown(word))));
            }
        }
    }
    if sizes.is_empty() { Err((0, "expected at least one size, found none".into())) } else { Ok(sizes) }
}

fn group(field: &Field<'_>, groups: &[Group]) -> Result<usize, Error> {
    let name = field.text()?;
    let names = groups.iter().map(|group| group.name.as_str());
    let found = names.clone().position(|group| group == name);
    found.ok_or_else(|| field.fault("unknown group: expected the name of a [[group]]").nearest(name, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_splits_it() {
        for (text, words) in [
            ("iperf3 -c {server}  -t 10 ", &["iperf3", "-c", "{server}", "-t", "10"][..]),
            ("a 'b \"c' \"d 'e\" f", &["a", "b \"c", "d 'e", "f"]),
            (r#"a\ b "c\"d" "\e" '\f' "" x''y"#, &["a b", "c\"d", "\\e", "\\f", "", "xy"]),
            ("a\nb\\\nc", &["a", "bc"]),
            (" \t", &[]),
        ] {
            assert_eq!(split(text).expect(text), words, "{text}");
        }
        for (text, problem) in [("a 'b", "a closing '"), ("a \"b\\", "a closing \""), ("a \\", "after the last \\")] {
            assert!(split(text).expect_err(text).contains(problem), "{text}");
        }
    }
}
