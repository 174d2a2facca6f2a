//! Reads the flows: what is asked of each kind, before anything is drawn.

use std::sync::Arc;

use sojourn_core::tcp::{AckPolicy, Cc, Config};
use sojourn_core::units::{Rate, Span, Time};

use crate::document::{Kind, Table};
use crate::error::Error;
use crate::keys::{self, KINDS, KINDS_LATER};
use crate::read::{Context, Field, Reader};
use crate::scenario::Host;
use crate::units;
use crate::workload::dist::Dist;
use crate::workload::stream::{Codec, Playout, SMALLEST, Transport, Voice};
use crate::workload::video::Rule;
use crate::workload::{Direction, Group};

/// Congestion controls that come with a later version.
const CC_LATER: &[&str] = &["bbr2", "ledbat", "prague"];
/// Those that only a real kernel has.
const CC_LINUX: &[&str] = &["bic", "dctcp", "htcp", "illinois", "vegas", "westwood"];
/// The largest IP packet: with a hop's overhead (at most 1000) its length still has 16 bits.
const LARGEST: u32 = 64_535;
/// What `gso_max_segs` of a device may be.
const MOST_SEGMENTS: u32 = 65_535;
/// A page: Linux takes no smaller buffer.
const SMALLEST_BUFFER: u32 = 4096;
/// So many flows are enough.
pub(crate) const MOST_FLOWS: u32 = 100_000;

/// What the flows are read against.
pub(crate) struct Around<'a> {
    pub(crate) context: &'a Context,
    pub(crate) hops: &'a [String],
    pub(crate) groups: &'a [Group],
    pub(crate) host: Config,
    /// The delays there and back of the hops from the first to the last, both included, with the access links'.
    pub(crate) path_delay: &'a dyn Fn((usize, usize)) -> Span,
}

/// One `[[flow]]`.
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) line: Option<u32>,
    pub(crate) kind: &'static str,
    pub(crate) count: Count,
    pub(crate) directions: &'static [Direction],
    pub(crate) via: (usize, usize),
    pub(crate) tcp: Config,
    pub(crate) dscp: u8,
    pub(crate) rtt: Rtt,
    pub(crate) place: Place,
    pub(crate) tunnel: Option<String>,
    pub(crate) start: Draws,
    pub(crate) stop: Time,
    pub(crate) what: What,
}

/// How many flows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Count {
    Number(u32),
    /// So many times S, the bdp plus the buffer.
    OfS(f64),
    /// So many times the bdp.
    OfBdp(f64),
}

/// Distributions dealt to the flows in turn.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Draws(Vec<Dist>);

/// The base RTT of the flows.
pub(crate) struct Rtt {
    /// Absent: the path's delay.
    pub(crate) draws: Option<Draws>,
    pub(crate) jitter: Span,
    /// The delays of the path there and back.
    pub(crate) path: Span,
}

/// Where the base RTT beyond the path lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Split,
    Left,
    Right,
    Ack,
}

/// What a kind does.
pub(crate) enum What {
    Bulk { active: Option<Vec<(Time, Time)>> },
    Files { size: u64, gap: Draws },
    Thin { bytes: u32, interval: Span },
    Pings { bytes: u32, interval: Span },
    Stream { bytes: u32, interval: Span, transport: Transport, voice: Option<Voice>, on_off: Option<(Draws, Draws)> },
    Web { rate: f64 },
    Pages { connections: usize },
    Video { chunk: Span, buffer: Span, ladder: Vec<Rate>, rule: Rule },
    Sizes { rate: f64, file: Option<Arc<Vec<u64>>>, group: Option<usize> },
}

impl Draws {
    /// The distribution of flow number `i`.
    pub(crate) fn of(&self, i: usize) -> &Dist {
        &self.0[i % self.0.len()]
    }

    pub(crate) fn lowest(&self) -> Span {
        self.0.iter().map(Dist::lowest).min().unwrap_or_default()
    }

    /// The latest that has an upper end, else the mean.
    fn latest(&self) -> Span {
        self.0.iter().map(Dist::nominal).max().unwrap_or_default()
    }

    pub(crate) fn lowest_mean(&self) -> Span {
        self.0.iter().map(Dist::mean).min().unwrap_or_default()
    }

    fn read(field: &Field<'_>) -> Result<Draws, Error> {
        let one = |field: &Field<'_>| {
            let dist = field.text().ok().and_then(Dist::parse).filter(|dist| dist.written() <= crate::read::LONGEST);
            dist.ok_or_else(|| field.unexpected())
        };
        let dists = match field.items() {
            Some(items) if items.is_empty() => return Err(field.unexpected()),
            Some(items) => items.iter().map(one).collect::<Result<_, _>>()?,
            None => vec![one(field)?],
        };
        Ok(Draws(dists))
    }

    /// A list may be shorter than the flows are many, not longer: the rest of it would be lost unseen.
    fn fits(&self, field: Option<Field<'_>>, count: Count) -> Result<(), Error> {
        match (field, count) {
            (Some(field), Count::Number(count)) if self.0.len() > count as usize => {
                Err(field.fault(format!("expected at most as many as count = {count}, found {}", self.0.len())))
            }
            _ => Ok(()),
        }
    }
}

impl Rtt {
    fn read(reader: &Reader<'_>, path: Span, count: Count) -> Result<Rtt, Error> {
        let jitter = reader.field("jitter")?.span()?;
        let given = reader.given("rtt");
        let draws = given.as_ref().map(Draws::read).transpose()?;
        if let Some(draws) = &draws {
            draws.fits(given.clone(), count)?;
        }
        // What is drawn without a lower end is raised to the path's delay.
        let lowest_of = |dist: &Dist| match dist {
            Dist::Exponential(_) | Dist::Normal(..) => path,
            _ => dist.lowest() - jitter,
        };
        let lowest = match &draws {
            Some(draws) => draws.0.iter().map(lowest_of).min().unwrap_or_default(),
            None => path - jitter,
        };
        let fault = |problem: String| match &given {
            Some(field) => Err(field.fault(problem)),
            None => Err(Error::at(reader.line, format!("{}.rtt", reader.path), problem)),
        };
        if lowest < path {
            return fault(format!(
                "expected a base RTT (less the jitter) of at least {path}, the path's own delays there and back"
            ));
        }
        if lowest == Span::ZERO {
            return fault("expected a base RTT above zero: give the flow an rtt, or a hop a delay".into());
        }
        Ok(Rtt { draws, jitter, path })
    }

    /// The longest that sizes in bdp are reckoned with.
    pub(crate) fn nominal(&self) -> Span {
        let longest = self.draws.as_ref().and_then(|draws| draws.0.iter().map(Dist::nominal).max());
        longest.unwrap_or(self.path).max(self.path)
    }

    /// The shortest that a flow can have.
    pub(crate) fn lowest(&self) -> Span {
        self.draws.as_ref().map_or(self.path, |draws| draws.lowest() - self.jitter).max(self.path)
    }
}

impl Flow {
    /// Its longest packet in bytes of IP.
    pub(crate) fn largest(&self) -> u32 {
        match self.what {
            What::Pings { bytes, .. } | What::Stream { bytes, transport: Transport::Udp, .. } => bytes,
            _ => self.tcp.mss + self.tcp.header,
        }
    }

    pub(crate) fn read(
        around: &Around<'_>,
        name: &str,
        (line, table): (Option<u32>, &Table),
        duration: Time,
    ) -> Result<Flow, Error> {
        let path = format!("flow.{name}");
        let kind = kind(&path, line, table)?;
        let reader = Reader::open(around.context, &keys::FLOW, path, (line, table), Some(kind))?;
        if let Some(field) = reader.given("name") {
            field.name()?;
        }
        let count = count(&reader.field("count")?)?;
        let via = via(&reader, around.hops)?;
        let start = Draws::read(&reader.field("start")?)?;
        start.fits(reader.given("start"), count)?;
        if Time::ZERO + start.lowest() >= duration {
            around.context.warn(format!("{}: starts when the run is over", reader.path));
        }
        let stop = reader.field("stop")?;
        if stop.moment()? <= Time::ZERO + start.latest() {
            return Err(stop.fault("expected a time after the start"));
        }
        let tcp = tcp(&reader, kind, around.host)?;
        Ok(Flow {
            name: name.to_owned(),
            line,
            kind,
            count,
            directions: directions(&reader)?,
            via,
            tcp,
            dscp: reader.field("dscp")?.dscp()?,
            rtt: Rtt::read(&reader, (around.path_delay)(via), count)?,
            place: place(&reader)?,
            tunnel: reader.given("tunnel").map(|field| field.name()).transpose()?,
            start,
            stop: stop.moment()?,
            what: What::read(&reader, kind, &tcp, around.groups, count, duration)?,
        })
    }
}

impl What {
    fn read(
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
            // An IP and an ICMP header have 28 bytes.
            "pings" => What::Pings { bytes: small(reader, 28, LARGEST)?, interval: interval(reader, duration)? },
            "cbr" | "onoff" => stream(reader, count, duration)?,
            "voip" => voice(reader)?,
            "web" => web(reader)?,
            "video" => video(reader, duration)?,
            "sizes" => {
                let group = reader.given("group").map(|field| group(&field, groups)).transpose()?;
                let file = reader.given("file").map(|field| sizes_file(&field)).transpose()?;
                What::Sizes { rate: reader.field("rate")?.number()?, file, group }
            }
            kind => panic!("bug: kind {kind} is in the table, but is not read"),
        })
    }
}

/// Packets at a constant rate, all the time or in turns.
fn stream(reader: &Reader<'_>, count: Count, duration: Time) -> Result<What, Error> {
    let turns = reader.given("kind").is_some_and(|kind| kind.text().is_ok_and(|kind| kind == "onoff"));
    let over_tcp = turns && reader.field("transport")?.choice()? == "tcp";
    let transport = if over_tcp { Transport::Tcp } else { Transport::Udp };
    let of_tcp = || ["cc", "iw", "mss", "ecn", "acks", "rwnd"].iter().find_map(|name| reader.given(name));
    if let (true, false, Some(field)) = (turns, over_tcp, of_tcp()) {
        return Err(field.fault("expected only with transport = \"tcp\""));
    }
    let bytes = small(reader, if over_tcp { 1 } else { SMALLEST }, LARGEST)?;
    let rate = reader.field("rate")?;
    let bits = u64::from(bytes) * 8_000_000_000;
    let interval = Span((bits + rate.rate()?.0 / 2) / rate.rate()?.0);
    // As many as packet numbers allow.
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
        return Ok(What::Pages { connections: reader.field("connections")?.integer(1, 100)? as usize });
    }
    if let Some(field) = reader.given("connections") {
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
        // The default, as a text.
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

fn voice(reader: &Reader<'_>) -> Result<What, Error> {
    let (codec, playout) = (reader.field("codec")?, reader.field("playout")?);
    let codec = Codec::named(codec.choice()?).ok_or_else(|| codec.unexpected())?;
    let playout = Playout::parse(playout.text()?).ok_or_else(|| playout.unexpected())?;
    let voice = Some(Voice { codec, playout });
    let (bytes, interval) = (codec.packet_bytes(), Voice::FRAME);
    Ok(What::Stream { bytes, interval, transport: Transport::Udp, voice, on_off: None })
}

fn kind(path: &str, line: Option<u32>, table: &Table) -> Result<&'static str, Error> {
    let known = || KINDS.join(", ");
    let Some(value) = table.get("kind") else {
        return Err(Error::at(line, format!("{path}.kind"), format!("missing: expected one of {}", known())));
    };
    let fault = |problem: String| Error::at(value.line, format!("{path}.kind"), problem).value(value.written());
    let Kind::Text(text) = &value.kind else { return Err(fault(format!("expected one of {}", known()))) };
    match KINDS.iter().find(|kind| **kind == text.as_str()) {
        Some(kind) => Ok(kind),
        None if KINDS_LATER.contains(&text.as_str()) => Err(fault(format!("kind {text} is not built yet")).not_built()),
        None => Err(fault(format!("expected one of {}", known())).nearest(text, KINDS.iter().copied())),
    }
}

fn count(field: &Field<'_>) -> Result<Count, Error> {
    let Kind::Text(text) = &field.value.kind else { return field.integer(1, MOST_FLOWS).map(Count::Number) };
    let (factor, unit) = match text.split_once('*') {
        Some((left, right)) => match (units::number(left), units::number(right)) {
            (Some(factor), None) => (factor, right.trim()),
            (None, Some(factor)) => (factor, left.trim()),
            _ => return Err(field.unexpected()),
        },
        None => (1.0, text.trim()),
    };
    match unit {
        "S" if factor > 0.0 => Ok(Count::OfS(factor)),
        "bdp" if factor > 0.0 => Ok(Count::OfBdp(factor)),
        _ => Err(field.unexpected()),
    }
}

fn via(reader: &Reader<'_>, hops: &[String]) -> Result<(usize, usize), Error> {
    let Some(field) = reader.given("via") else { return Ok((0, hops.len() - 1)) };
    let items = field.items().ok_or_else(|| field.unexpected())?;
    let mut passed = Vec::with_capacity(items.len());
    for item in &items {
        let name = item.text()?;
        let known = hops.iter().position(|hop| hop == name);
        passed.push(known.ok_or_else(|| item.fault("unknown hop").nearest(name, hops.iter().map(String::as_str)))?);
    }
    match (passed.first(), passed.last()) {
        (Some(&first), Some(&last)) if passed.windows(2).all(|pair| pair[1] == pair[0] + 1) => Ok((first, last)),
        _ => Err(field.unexpected()),
    }
}

fn directions(reader: &Reader<'_>) -> Result<&'static [Direction], Error> {
    Ok(match reader.field("direction")?.choice()? {
        "left" => &[Direction::Left],
        "both" => &[Direction::Right, Direction::Left],
        _ => &[Direction::Right],
    })
}

fn place(reader: &Reader<'_>) -> Result<Place, Error> {
    Ok(match reader.field("rtt_at")?.choice()? {
        "left" => Place::Left,
        "right" => Place::Right,
        "ack" => Place::Ack,
        _ => Place::Split,
    })
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
    // As many as segment numbers allow.
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

/// One size in bytes a line, or the last field of each line; a first line without a number is a header.
fn parse_sizes(text: &str) -> Result<Vec<u64>, (usize, String)> {
    let mut sizes = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let word = line.rsplit(',').next().unwrap_or_default().trim();
        match word.parse::<u64>() {
            Ok(bytes) if (1..1 << 40).contains(&bytes) => sizes.push(bytes),
            _ if i == 0 && word.parse::<f64>().is_err() => {}
            _ => {
                let shown: String = word.chars().take(40).collect();
                return Err((i + 1, format!("expected a size in whole bytes, above zero, found {shown:?}")));
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

/// TCP at both ends, from the flow's keys over the host's.
fn tcp(reader: &Reader<'_>, kind: &str, host: Config) -> Result<Config, Error> {
    if matches!(kind, "pings" | "cbr" | "voip") {
        return Ok(host);
    }
    let mss = match reader.given("mss") {
        Some(field) => field.integer(1, LARGEST - host.header)?,
        None => crate::path::PACKET - host.header,
    };
    let rwnd = match reader.given("rwnd") {
        None => u32::MAX,
        Some(field) => match &field.value.kind {
            Kind::Integer(_) => field.integer(1, u32::MAX)?,
            _ => u32::try_from((field.bytes()? / u64::from(mss)).max(1)).unwrap_or(u32::MAX),
        },
    };
    let iw = reader.field("iw")?.integer(1, 1_000_000)?;
    let (cc, acks) = (cc(&reader.field("cc")?)?, acks(&reader.field("acks")?)?);
    Ok(Config { cc, mss, iw, rwnd, acks, ecn: reader.field("ecn")?.flag()?, ..host })
}

fn acks(field: &Field<'_>) -> Result<AckPolicy, Error> {
    let text = field.text()?;
    let mut words = text.split_ascii_whitespace();
    match (words.next().unwrap_or_default(), words.next(), words.next()) {
        ("delayed", None, _) => Ok(AckPolicy::Delayed),
        ("every", None, _) => Ok(AckPolicy::Every),
        ("window", None, _) => Ok(AckPolicy::Window(None)),
        ("window", Some(segments), None) => match segments.parse() {
            Ok(segments) if (1..=1_000_000).contains(&segments) => Ok(AckPolicy::Window(Some(segments))),
            _ => Err(field.fault("expected \"window N\" with 1 to 1000000 segments")),
        },
        (name, ..) => Err(field.unexpected().nearest(name, ["delayed", "every", "window"])),
    }
}

fn cc(field: &Field<'_>) -> Result<Cc, Error> {
    let text = field.text()?;
    if let Some(name) = CC_LINUX.iter().find(|name| **name == text.trim()) {
        return Ok(Cc::Linux(name));
    }
    let mut words = text.split_ascii_whitespace();
    match (words.next().unwrap_or_default(), words.next(), words.next()) {
        ("reno", None, _) => Ok(Cc::Reno),
        ("cubic", None, _) => Ok(Cc::Cubic),
        ("bbr", None, _) => Ok(Cc::Bbr),
        ("bbr3", None, _) => Ok(Cc::Bbr3),
        ("fixed", Some(window), None) => match window.parse() {
            Ok(window) if (1..=1_000_000).contains(&window) => Ok(Cc::Fixed(window)),
            _ => Err(field.fault("expected \"fixed N\" with a window of 1 to 1000000 segments")),
        },
        (name, ..) if CC_LATER.contains(&name) => Err(field.fault(format!("{name} is not built yet")).not_built()),
        (name, ..) => Err(field
            .unexpected()
            .nearest(name, ["reno", "cubic", "bbr", "bbr3", "fixed"].iter().chain(CC_LINUX).copied())),
    }
}

/// `[host]`: the TCP that flows start from, and what only a real kernel knows.
pub(crate) fn host(context: &Context, (line, table): (Option<u32>, &Table)) -> Result<(Config, Host), Error> {
    let reader = Reader::open(context, &keys::HOST, "host".into(), (line, table), None)?;
    Ok((host_tcp(&reader)?, kernel_host(&reader)?))
}

/// Without `[host]`: a current Linux.
pub(crate) fn usual_host() -> (Config, Host) {
    (Config { gso_max_segs: MOST_SEGMENTS, ..Config::default() }, Host::default())
}

fn kernel_host(reader: &Reader<'_>) -> Result<Host, Error> {
    let size = |name| -> Result<Option<u32>, Error> {
        let Some(field) = reader.given(name) else { return Ok(None) };
        let bytes = u32::try_from(field.bytes()?).ok().filter(|bytes| (SMALLEST_BUFFER..1 << 31).contains(bytes));
        bytes.map(Some).ok_or_else(|| field.fault(format!("expected from {SMALLEST_BUFFER} bytes to below 2 GB")))
    };
    for field in ["rmem", "wmem", "tsq", "gso"].iter().filter_map(|name| reader.given(name)) {
        field.warn("for the kernel world: the simulator has no such thing");
    }
    Ok(Host {
        rmem: size("rmem")?,
        wmem: size("wmem")?,
        tsq: size("tsq")?,
        hz: hz(reader)?,
        gso: reader.field("gso")?.flag()?,
        gso_max_segs: most_segments(reader)?,
    })
}

fn hz(reader: &Reader<'_>) -> Result<u32, Error> {
    let hz = reader.field("hz")?;
    hz.choice()?.parse().map_err(|_| hz.unexpected())
}

fn most_segments(reader: &Reader<'_>) -> Result<Option<u32>, Error> {
    reader.given("gso_max_segs").map(|field| field.integer(1, MOST_SEGMENTS)).transpose()
}

fn host_tcp(reader: &Reader<'_>) -> Result<Config, Error> {
    let linux = reader.field("linux")?;
    if linux.choice()? == "3.2" {
        linux.warn("of what is built so far, nothing differs from \"now\"");
    }
    let timestamps = reader.field("timestamps")?.flag()?;
    let rto_min = reader.field("rto_min")?;
    let bound = rto_min.span()?;
    if bound == Span::ZERO {
        return Err(rto_min.fault("expected a time above zero"));
    }
    Ok(Config {
        rto_min: bound,
        linux_rto: reader.field("linux_rto")?.flag()?,
        quickack: reader.field("quickack")?.flag()?,
        hystart: reader.field("hystart")?.flag()?,
        timestamps,
        // IP 20, TCP 20, and 12 of timestamps with their padding.
        header: if timestamps { 52 } else { 40 },
        gso_max_segs: most_segments(reader)?.unwrap_or(MOST_SEGMENTS),
        hz: hz(reader)?,
        ..Config::default()
    })
}
