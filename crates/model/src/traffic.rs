//! Reads the flows: the parameters of each kind, before any random draws.

mod applications;

use sojourn_core::packet::Ecn;
use sojourn_core::tcp::{AckPolicy, Cc, Config, HyStart, Recovery, Windows};
use sojourn_core::units::{Span, Time};

use crate::document::{Kind, Table};
use crate::error::Error;
use crate::keys::{self, KINDS};
use crate::read::{Context, Field, Reader};
use crate::scenario::Host;
use crate::units;
use crate::workload::dist::Dist;
use crate::workload::stream::Transport;
use crate::workload::{Direction, Group};

/// Congestion controls that are planned.
const CC_LATER: &[&str] = &["bbr2"];
/// Congestion controls that only a real kernel has.
const CC_LINUX: &[&str] = &["bic", "htcp", "illinois", "westwood"];
/// Largest IP length of a packet: with a hop's overhead (at most 1000) the length still fits 16 bits.
const LARGEST: u32 = 64_535;
/// Largest value of a device's `gso_max_segs`.
const MOST_SEGMENTS: u32 = 65_535;
/// Linux's default of `tcp_comp_sack_nr`.
const COMP_SACK_NR: u8 = 44;
/// Smallest socket buffer that Linux accepts, one page.
const SMALLEST_BUFFER: u32 = 4096;
/// Upper limit on the number of flows.
pub(crate) const MOST_FLOWS: u32 = 100_000;

/// The parts of the scenario that flows depend on.
pub(crate) struct FlowContext<'a> {
    pub(crate) context: &'a Context,
    pub(crate) hops: &'a [String],
    pub(crate) groups: &'a [Group],
    pub(crate) host: Config,
    /// Whether any hop has an impairment with a delay.
    pub(crate) impaired: bool,
    /// Returns the sum of the delays in both directions of the hops from first to last (inclusive), plus those of the
    /// access links.
    pub(crate) path_delay: &'a dyn Fn((usize, usize)) -> Span,
}

pub(crate) use applications::What;

/// One `[[flow]]`.
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) line: Option<u32>,
    pub(crate) kind: &'static str,
    pub(crate) count: Count,
    pub(crate) pool: bool,
    pub(crate) directions: &'static [Direction],
    pub(crate) via: (usize, usize),
    pub(crate) tcp: Config,
    pub(crate) dscp: u8,
    pub(crate) ecn: Ecn,
    pub(crate) rtt: Rtt,
    pub(crate) place: Place,
    pub(crate) tunnel: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) start: Draws,
    pub(crate) stop: Time,
    pub(crate) what: What,
}

/// The `count` of a flow: a number, or a multiple of a size that is known later.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Count {
    Number(u32),
    /// A multiple of S: the bandwidth-delay product plus the buffer.
    OfS(f64),
    /// A multiple of the bandwidth-delay product.
    OfBdp(f64),
}

/// Distributions, assigned to the flows in turn.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Draws(Vec<Dist>);

/// The base RTT of the flows.
pub(crate) struct Rtt {
    /// `None` means the delay of the path.
    pub(crate) draws: Option<Draws>,
    pub(crate) jitter: Span,
    /// The sum of the path's delays in both directions.
    pub(crate) path: Span,
}

/// Where the rest of the base RTT is added: the part that exceeds the delays of the hops and access links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Split,
    Left,
    Right,
    Ack,
}

impl Draws {
    /// Returns the distribution of flow number `i`.
    pub(crate) fn of(&self, i: usize) -> &Dist {
        &self.0[i % self.0.len()]
    }

    pub(crate) fn lowest(&self) -> Span {
        self.0.iter().map(Dist::lowest).min().unwrap_or_default()
    }

    /// The latest time that may be drawn: the largest upper bound of these distributions. A distribution without one
    /// counts with its mean.
    fn latest(&self) -> Span {
        self.0.iter().map(Dist::nominal).max().unwrap_or_default()
    }

    pub(crate) fn lowest_mean(&self) -> Span {
        self.0.iter().map(Dist::mean).min().unwrap_or_default()
    }

    fn read(field: &Field<'_>) -> Result<Draws, Error> {
        let one = |field: &Field<'_>| {
            let dist = field.text().ok().and_then(Dist::parse).filter(|dist| dist.written() <= crate::units::LONGEST);
            dist.ok_or_else(|| field.unexpected())
        };
        let dists = match field.items() {
            Some(items) if items.is_empty() => return Err(field.unexpected()),
            Some(items) => items.iter().map(one).collect::<Result<_, _>>()?,
            None => vec![one(field)?],
        };
        Ok(Draws(dists))
    }

    /// Rejects a list that is longer than the number of flows, because the excess would be ignored silently. A shorter
    /// list is repeated.
    fn fits(&self, field: Option<Field<'_>>, count: Count) -> Result<(), Error> {
        match (field, count) {
            (Some(field), Count::Number(count)) if count > 0 && self.0.len() > count as usize => {
                Err(field.fault(format!("expected at most as many as count = {count}, found {}", self.0.len())))
            }
            _ => Ok(()),
        }
    }
}

impl Rtt {
    fn read(reader: &Reader<'_>, path: Span, impaired: bool, count: Count) -> Result<Rtt, Error> {
        let jitter = reader.field("jitter")?.span()?;
        let given = reader.given("rtt");
        let draws = given.as_ref().map(Draws::read).transpose()?;
        if let Some(draws) = &draws {
            draws.fits(given.clone(), count)?;
        }
        // A draw from an unbounded distribution is raised to the delay of the path if it is below it.
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
            let why = if impaired { "the delay of an impair is no part of it; " } else { "" };
            return fault(format!("expected a base RTT above zero: {why}give the flow an rtt, or a hop a delay"));
        }
        Ok(Rtt { draws, jitter, path })
    }

    /// The base RTT from which sizes in `bdp` are computed: the longest RTT of these flows. A distribution that has no
    /// upper bound counts with its mean.
    pub(crate) fn nominal(&self) -> Span {
        let longest = self.draws.as_ref().and_then(|draws| draws.0.iter().map(Dist::nominal).max());
        longest.unwrap_or(self.path).max(self.path)
    }

    /// The shortest base RTT that a flow can have.
    pub(crate) fn lowest(&self) -> Span {
        self.draws.as_ref().map_or(self.path, |draws| draws.lowest() - self.jitter).max(self.path)
    }
}

impl Flow {
    /// Returns the IP length of the flow's longest packet, in bytes.
    pub(crate) fn largest(&self) -> u32 {
        match self.what {
            What::Pings { bytes, .. } | What::Stream { bytes, transport: Transport::Udp, .. } => bytes,
            _ => self.tcp.mss + self.tcp.header,
        }
    }

    pub(crate) fn read(
        shared: &FlowContext<'_>,
        name: &str,
        (line, table): (Option<u32>, &Table),
        duration: Time,
    ) -> Result<Flow, Error> {
        let path = format!("flow.{name}");
        let kind = kind(&path, line, table)?;
        let reader = Reader::open(shared.context, &keys::FLOW, path, (line, table), Some(kind))?;
        if let Some(field) = reader.given("name") {
            field.name()?;
        }
        let count = count(&reader.field("count")?)?;
        let via = via(&reader, shared.hops)?;
        let start = Draws::read(&reader.field("start")?)?;
        start.fits(reader.given("start"), count)?;
        if Time::ZERO + start.lowest() >= duration {
            shared.context.warn(format!("{}: starts when the run is over", reader.path));
        }
        let stop = reader.field("stop")?;
        if stop.moment()? <= Time::ZERO + start.latest() {
            return Err(stop.fault("expected a time after the start"));
        }
        let tcp = tcp(&reader, kind, shared.host)?;
        let what = What::read(&reader, kind, &tcp, shared.groups, count, duration)?;
        Ok(Flow {
            name: name.to_owned(),
            line,
            kind,
            count,
            pool: reader.given("pool").map_or(Ok(false), |field| field.flag())?,
            directions: if let What::Command { .. } = what { &[Direction::Right] } else { directions(&reader)? },
            via,
            tcp,
            dscp: if let What::Command { .. } = what { 0 } else { reader.field("dscp")?.dscp()? },
            ecn: if what.has_tcp() { Ecn::NotEct } else { ecn_field(&reader)? },
            rtt: Rtt::read(&reader, (shared.path_delay)(via), shared.impaired, count)?,
            place: place(&reader)?,
            tunnel: reader.given("tunnel").map(|field| field.name()).transpose()?,
            user: user(&reader)?,
            start,
            stop: stop.moment()?,
            what,
        })
    }
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
        None => Err(fault(format!("expected one of {}", known())).nearest(text, KINDS.iter().copied())),
    }
}

fn count(field: &Field<'_>) -> Result<Count, Error> {
    let Kind::Text(text) = &field.value.kind else { return field.integer(0, MOST_FLOWS).map(Count::Number) };
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
        "left" | "up" => &[Direction::Left],
        "both" => &[Direction::Right, Direction::Left],
        _ => &[Direction::Right],
    })
}

fn user(reader: &Reader<'_>) -> Result<Option<String>, Error> {
    let Some(field) = reader.given("user") else { return Ok(None) };
    if reader.given("tunnel").is_some() {
        return Err(field.fault("not with tunnel: queues cannot see the host of packets inside a tunnel"));
    }
    field.name().map(Some)
}

fn place(reader: &Reader<'_>) -> Result<Place, Error> {
    Ok(match reader.field("rtt_at")?.choice()? {
        "left" => Place::Left,
        "right" => Place::Right,
        "ack" => Place::Ack,
        _ => Place::Split,
    })
}

/// Returns the TCP configuration of both ends: the flow's keys override the host's.
fn tcp(reader: &Reader<'_>, kind: &str, host: Config) -> Result<Config, Error> {
    if !applications::is_over_tcp(reader, kind)? {
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
    let ecn = reader.given("ecn").map_or(Ok(false), |field| field.flag())?;
    if cc.needs_ecn() && !ecn {
        return Err(reader.field("cc")?.fault("it reacts to ECN marks: expected ecn = true too"));
    }
    Ok(Config { cc, mss, iw, rwnd, acks, ecn, ..host })
}

/// Returns the ECN field of packets without TCP.
fn ecn_field(reader: &Reader<'_>) -> Result<Ecn, Error> {
    let Some(field) = reader.given("ecn") else { return Ok(Ecn::NotEct) };
    match field.one_of(keys::ECN_FIELDS)? {
        "ect0" => Ok(Ecn::Ect0),
        "ect1" => Ok(Ecn::Ect1),
        _ => Ok(Ecn::NotEct),
    }
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
    if let Some(cc) = Cc::from_name(text.trim_ascii()) {
        return Ok(cc);
    }
    let mut words = text.split_ascii_whitespace();
    match (words.next().unwrap_or_default(), words.next(), words.next()) {
        ("fixed", Some(window), None) => match window.parse() {
            Ok(window) if (1..=1_000_000).contains(&window) => Ok(Cc::Fixed(window)),
            _ => Err(field.fault("expected \"fixed N\" with a window of 1 to 1000000 segments")),
        },
        (name, ..) if CC_LATER.contains(&name) => Err(field.fault(format!("{name} is not built yet")).not_built()),
        (name, ..) => {
            let own = Cc::ALL.iter().map(|cc| cc.name());
            Err(field.unexpected().nearest(name, own.chain(["fixed"]).chain(CC_LINUX.iter().copied())))
        }
    }
}

/// Reads `[host]`: the TCP configuration that flows inherit, and the parameters that only a real kernel uses.
pub(crate) fn host(context: &Context, (line, table): (Option<u32>, &Table)) -> Result<(Config, Host), Error> {
    let reader = Reader::open(context, &keys::HOST, "host".into(), (line, table), None)?;
    let (tcp, host) = (host_tcp(&reader)?, kernel_host(&reader)?);
    Ok((Config { rmem: host.rmem, wmem: host.wmem, tsq: host.tsq, ..tcp }, host))
}

/// The host parameters without `[host]`: a current Linux.
pub(crate) fn usual_host() -> (Config, Host) {
    (Config { gso_max_segs: MOST_SEGMENTS, comp_sack_nr: COMP_SACK_NR, ..Config::default() }, Host::default())
}

fn kernel_host(reader: &Reader<'_>) -> Result<Host, Error> {
    let size = |name| -> Result<Option<u32>, Error> {
        let Some(field) = reader.given(name) else { return Ok(None) };
        let bytes = u32::try_from(field.bytes()?).ok().filter(|bytes| (SMALLEST_BUFFER..1 << 31).contains(bytes));
        bytes.map(Some).ok_or_else(|| field.fault(format!("expected from {SMALLEST_BUFFER} bytes to below 2 GB")))
    };
    if let Some(field) = reader.given("gso") {
        field.warn("applies to the kernel world only");
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

fn hystart(field: &Field<'_>) -> Result<HyStart, Error> {
    match &field.value.kind {
        Kind::Flag(true) => Ok(HyStart::Linux),
        Kind::Flag(false) => Ok(HyStart::Off),
        Kind::Text(text) if text == "plus" => Ok(HyStart::Plus),
        _ => Err(field.unexpected()),
    }
}

fn most_segments(reader: &Reader<'_>) -> Result<Option<u32>, Error> {
    reader.given("gso_max_segs").map(|field| field.integer(1, MOST_SEGMENTS)).transpose()
}

fn host_tcp(reader: &Reader<'_>) -> Result<Config, Error> {
    let linux = reader.field("linux")?;
    let usual = if linux.choice()? == "3.2" {
        linux.warn("so far, only loss recovery differs from \"now\"");
        Recovery::Rfc6675
    } else {
        Recovery::Rack
    };
    let recovery = match reader.given("recovery") {
        None => usual,
        Some(field) if field.choice()? == "rack" => Recovery::Rack,
        Some(_) => Recovery::Rfc6675,
    };
    let timestamps = reader.field("timestamps")?.flag()?;
    let rto_min = reader.field("rto_min")?;
    let bound = rto_min.span()?;
    if bound == Span::ZERO {
        return Err(rto_min.fault("expected a time above zero"));
    }
    Ok(Config {
        rto_min: bound,
        recovery,
        quickack: reader.field("quickack")?.flag()?,
        gro_flush_timeout: reader.field("gro_flush_timeout")?.span()?,
        comp_sack_nr: match reader.given("comp_sack_nr") {
            None if recovery == Recovery::Rfc6675 => 0,
            None => COMP_SACK_NR,
            Some(field) => field.integer(0, 255)? as u8,
        },
        hystart: hystart(&reader.field("hystart")?)?,
        windows: if reader.field("windows")?.choice()? == "rfc" { Windows::Rfc } else { Windows::Linux },
        timestamps,
        // IP 20, TCP 20, and 12 for timestamps with their padding.
        header: if timestamps { 52 } else { 40 },
        gso_max_segs: most_segments(reader)?.unwrap_or(MOST_SEGMENTS),
        hz: hz(reader)?,
        ..Config::default()
    })
}
