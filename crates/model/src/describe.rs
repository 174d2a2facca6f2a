//! The checked description of a scenario before any random draws: one per combination of a sweep, shared by all seeds.

use std::collections::BTreeMap;

use sojourn_core::tcp::Config;
use sojourn_core::units::{Span, Time};

use crate::address::{flow_names, hop_names, tables};
use crate::advice;
use crate::document::{Kind, Table, Value};
use crate::error::Error;
use crate::file;
use crate::keys;
use crate::path::{self, HopDraft};
use crate::pause;
use crate::read::{Context, Reader};
use crate::scenario::{Access, Hop, Host};
use crate::traffic::{self, Count, Flow, FlowContext, MOST_FLOWS, What};
use crate::workload::{Group, User};

/// Upper limit on the drawn arrivals of web connections, files and transfers in one run.
const MOST_ARRIVALS: f64 = 10e6;

/// Upper limit on the number of hops.
const MOST_HOPS: usize = 100;

/// The scenario without its random draws.
pub(crate) struct Description {
    pub(crate) title: String,
    pub(crate) duration: Time,
    pub(crate) measure: (Time, Time),
    pub(crate) hops: Vec<Hop>,
    pub(crate) access: Option<Access>,
    pub(crate) host: Host,
    pub(crate) groups: Vec<Group>,
    /// The flows of the file, each with its count per direction.
    pub(crate) flows: Vec<(Flow, u32)>,
}

impl Description {
    /// Reads the tree of a file. `title` is used if the file has no title.
    pub(crate) fn read(context: &Context, root: &Table, title: &str) -> Result<Description, Error> {
        let reader = Reader::open(context, &keys::TOP, String::new(), (None, root), None)?;
        let title = reader.given("title").map_or(Ok(title.to_owned()), |field| field.text().map(file::harmless))?;
        let field = reader.field("duration")?;
        let duration = field.time()?;
        if duration == Time::ZERO {
            return Err(field.fault("expected a time above zero"));
        }
        reader.field("seeds")?.integer(1, u32::MAX)?;
        let measure = measure(&reader, duration)?;
        let drafts = drafts(context, root, duration)?;
        let access = section(&reader, root, "access", |at| path::access(context, at))?;
        let (tcp, host) =
            section(&reader, root, "host", |at| traffic::host(context, at))?.unwrap_or_else(traffic::usual_host);
        let groups = groups(context, root)?;
        let flows = flows(context, root, (&drafts, &access, &groups, tcp), duration)?;

        let nominal = flows.iter().map(|flow| flow.rtt.nominal()).max().unwrap_or_default();
        let bdps: Vec<f64> = drafts.iter().map(|draft| draft.bdp(nominal)).collect();
        let pauses: Vec<_> = drafts.iter().flat_map(HopDraft::pauses).collect();
        let mut hops =
            drafts.into_iter().map(|draft| draft.finish(nominal, duration)).collect::<Result<Vec<_>, _>>()?;
        pause::between(&mut hops, &pauses, flows.iter().map(Flow::largest).max().unwrap_or(0))?;
        let flows = counted(flows, &hops, &bdps)?;
        check_users(&flows, access.is_some())?;
        let described = Description { title, duration, measure, hops, access, host, groups, flows };
        described.check_numbers(&field.value)?;
        advice::advise(context, &described);
        Ok(described)
    }

    /// Rejects scenarios that would exhaust memory or segment numbers.
    fn check_numbers(&self, duration: &Value) -> Result<(), Error> {
        let smallest = self.flows.iter().map(|(flow, _)| flow.tcp.mss).min().unwrap_or(1);
        let links = self.hops.iter().flat_map(|hop| [&hop.right, &hop.left]);
        let most = links.map(|link| path::carried(&link.rate, self.duration)).max().unwrap_or(0);
        if most / u128::from(smallest) >= 1 << 31 {
            let problem = format!("too long: the fastest link could carry 2^31 segments of {smallest} bytes");
            return Err(Error::at(duration.line, "duration", problem).value(duration.written()));
        }
        let arrivals = self.flows.iter().map(|(flow, count)| {
            let each = match &flow.what {
                What::Web { rate } | What::Sizes { rate, .. } => rate * self.duration.as_secs_f64(),
                What::Files { gap, .. } => {
                    let turn = gap.lowest_mean() + flow.rtt.lowest();
                    self.duration.as_secs_f64() / turn.as_secs_f64()
                }
                _ => 1.0,
            };
            (flow, each * f64::from(*count) * flow.directions.len() as f64)
        });
        match arrivals.max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((flow, number)) if number > MOST_ARRIVALS => {
                let problem =
                    format!("too many: {number:.0} transfers could start within the run, {MOST_ARRIVALS:.0} may");
                Err(Error::at(flow.line, format!("flow.{}", flow.name), problem))
            }
            _ => Ok(()),
        }
    }
}

fn section<T>(
    reader: &Reader<'_>,
    root: &Table,
    name: &str,
    read: impl FnOnce((Option<u32>, &Table)) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    match root.get(name) {
        None => Ok(None),
        Some(Value { line, kind: Kind::Table(table) }) => read((*line, table)).map(Some),
        Some(_) => Err(reader.field(name)?.fault(format!("expected a section [{name}]"))),
    }
}

fn measure(reader: &Reader<'_>, duration: Time) -> Result<(Time, Time), Error> {
    let Some(field) = reader.given("measure") else { return Ok((Time::ZERO, duration)) };
    let (from, to) = field.window()?;
    let to = if to == Time::NEVER { duration } else { to };
    if from < to && to <= duration {
        Ok((from, to))
    } else {
        let tenth = Time(duration.0 / 10);
        let window = format!("a window within the duration of {duration}, such as [\"{tenth}\", \"end\"]");
        Err(field.fault(format!("expected {window}; a run that is made shorter needs another measure too")))
    }
}

fn drafts<'a>(context: &'a Context, root: &'a Table, duration: Time) -> Result<Vec<HopDraft<'a>>, Error> {
    let names = hop_names(root)?;
    let listed = tables(root, "hop")?;
    if listed.is_empty() {
        return Err(Error::at(None, "hop", "the path is empty: expected at least one [[hop]]"));
    }
    if listed.len() > MOST_HOPS {
        return Err(Error::at(listed[MOST_HOPS].0, "hop", format!("the path is too long: at most {MOST_HOPS} hops")));
    }
    names.iter().zip(listed).map(|(name, at)| HopDraft::read(context, name, at, duration)).collect()
}

fn groups(context: &Context, root: &Table) -> Result<Vec<Group>, Error> {
    let mut groups: Vec<Group> = Vec::new();
    for (i, at) in tables(root, "group")?.into_iter().enumerate() {
        let reader = Reader::open(context, &keys::GROUP, format!("group{i}"), at, None)?;
        let field = reader.field("name")?;
        let name = field.name()?;
        if groups.iter().any(|group| group.name == name) {
            return Err(field.fault("expected a name that no other group has"));
        }
        groups.push(Group { name, max_active: reader.field("max_active")?.integer(1, MOST_FLOWS)? as usize });
    }
    Ok(groups)
}

type Surroundings<'a> = (&'a [HopDraft<'a>], &'a Option<Access>, &'a [Group], Config);

fn flows(
    context: &Context,
    root: &Table,
    (drafts, access, groups, host): Surroundings<'_>,
    duration: Time,
) -> Result<Vec<Flow>, Error> {
    let hops: Vec<String> = drafts.iter().map(|draft| draft.name.clone()).collect();
    // A flow's data crosses two access links on each way: four in a round trip.
    let hosts = access.as_ref().map_or(Span::ZERO, |access| access.delay * 4);
    let path_delay = |(first, last): (usize, usize)| {
        let both = |draft: &HopDraft<'_>| draft.right.delay[0].1 + draft.left.delay[0].1;
        drafts[first..=last].iter().fold(hosts, |sum, draft| sum + both(draft))
    };
    let impaired = drafts.iter().any(HopDraft::is_delayed_by_impair);
    let shared = FlowContext { impaired, context, hops: &hops, groups, host, path_delay: &path_delay };
    let names = flow_names(root)?;
    let listed = tables(root, "flow")?;
    if listed.is_empty() {
        return Err(Error::at(None, "flow", "no traffic: expected at least one [[flow]]"));
    }
    let read = |(name, at): (&String, _)| Flow::read(&shared, name, at, duration);
    let line = listed[0].0;
    let mut flows = names.iter().zip(listed).map(read).collect::<Result<Vec<_>, _>>()?;
    // A sweep removes a kind of traffic with `count = 0`. Nothing else may depend on such a flow, including buffer
    // sizes in bdp.
    flows.retain(|flow| flow.count != Count::Number(0));
    if flows.is_empty() {
        return Err(Error::at(line, "flow", "no traffic: every flow's count is 0"));
    }
    Ok(flows)
}

/// Checks the users. A user is one host, so all its flows must end at the same hop. The number of its flows is limited,
/// because each flow needs its own flow key.
fn check_users(flows: &[(Flow, u32)], has_access: bool) -> Result<(), Error> {
    let mut users: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (flow, count) in flows {
        let Some(user) = flow.user.as_deref() else { continue };
        let fault = |problem: String| {
            Err(Error::at(flow.line, format!("flow.{}.user", flow.name), problem).value(format!("\"{user}\"")))
        };
        if has_access {
            return fault("not with [access]: there each flow's host has a link of its own".into());
        }
        let number = users.len();
        let (last, total) = users.entry(user).or_insert((flow.via.1, 0));
        if *last != flow.via.1 {
            return fault("expected via to end at the same hop for all flows of a user: they end at one host".into());
        }
        *total += *count as usize * flow.directions.len();
        if *total > User::MOST_FLOWS {
            return fault(format!("too many flows: a user has at most {}", User::MOST_FLOWS));
        }
        if number >= User::MOST && users.len() > number {
            return fault(format!("too many users: at most {}", User::MOST));
        }
    }
    Ok(())
}

/// Evaluates the counts that are given in S and bdp.
fn counted(flows: Vec<Flow>, hops: &[Hop], bdps: &[f64]) -> Result<Vec<(Flow, u32)>, Error> {
    let mut total = 0u64;
    let mut counted = Vec::with_capacity(flows.len());
    for flow in flows {
        let (first, last) = flow.via;
        let slowest = (first..=last).min_by_key(|&i| path::first_rate(&hops[i].right.rate)).unwrap_or(first);
        let bdp = bdps[slowest] / f64::from(hops[slowest].right.wire_bytes(path::PACKET));
        let count = match flow.count {
            Count::Number(count) => f64::from(count),
            Count::OfBdp(factor) => factor * bdp,
            Count::OfS(factor) => factor * (bdp + path::buffer_packets(&hops[slowest].right)),
        };
        let count = libm::round(count).clamp(1.0, f64::from(u32::MAX)) as u32;
        total += u64::from(count) * flow.directions.len() as u64;
        if total > u64::from(MOST_FLOWS) {
            let problem = format!("too many flows: at most {MOST_FLOWS} in a scenario");
            return Err(Error::at(flow.line, format!("flow.{}.count", flow.name), problem).value(count.to_string()));
        }
        counted.push((flow, count));
    }
    Ok(counted)
}
