//! Draws the random parts of a scenario. Each source of traffic has its own stream of random numbers, named after the flow. The
//! draws of a flow therefore depend neither on the discipline nor on the other flows.

use std::collections::BTreeMap;
use std::sync::Arc;

use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};

use super::page::{self, Browsing};
use super::rpm::Rpm;
use super::stream::{self, Stream};
use super::video::Video;
use super::webs::Webs;
use super::{App, Command, Delays, Direction, Entry, User, Workload, sizes};
use crate::describe::Description;
use crate::scenario::{Hop, Link, Scenario};
use crate::traffic::{Flow, Place, What};

/// Draws the scenario of this seed. `webs` is a cache of web traffic, which several runs share.
pub(crate) fn draw(described: Description, seed: u64, webs: &Webs) -> Scenario {
    let Description { title, duration, measure, hops, access, host, groups, flows } = described;
    let common = Common { seed, duration, webs };
    let mut entries: Vec<Entry> = Vec::new();
    let mut users = Users::default();
    let mut longest_rtt = Span::ZERO;
    for (flow, count) in &flows {
        let growth = growth(&hops[flow.via.0..=flow.via.1]);
        for i in 0..*count as usize {
            let name = if *count > 1 { format!("{}.{i}", flow.name) } else { flow.name.clone() };
            let rtt = base_rtt(flow, i, &mut Rng::stream(seed, &format!("rtt {name}")));
            longest_rtt = longest_rtt.max(rtt + growth);
            for &direction in flow.directions {
                let directed = |name: &str| match (flow.directions.len(), direction) {
                    (1, _) => name.to_owned(),
                    (_, Direction::Right) => format!("{name}.right"),
                    (_, Direction::Left) => format!("{name}.left"),
                };
                let user = flow.user.as_deref().map(|user| users.next(user, entries.len()));
                let pool = flow.pool.then(|| directed(&flow.name));
                entries.push(Entry { user, pool, ..entry(flow, i, (directed(&name), direction), rtt, common) });
            }
        }
    }
    let workload = Workload { entries, groups };
    Scenario { title, duration, measure, seed, hops, access, host, workload, longest_rtt }
}

/// The users found so far. Each name maps to the user's number, the number of its flows, and the row of its first flow.
#[derive(Default)]
struct Users<'a>(BTreeMap<&'a str, (u16, u16, usize)>);

impl<'a> Users<'a> {
    /// Adds a flow of this user in this row.
    fn next(&mut self, name: &'a str, row: usize) -> User {
        let known = self.0.len() as u16;
        let (number, flows, first) = self.0.entry(name).or_insert((known, 0, row));
        let flow = *flows;
        *flows += 1;
        User { number: *number, flow, first: *first }
    }
}

/// The values that all flows have in common.
#[derive(Clone, Copy)]
struct Common<'a> {
    seed: u64,
    duration: Time,
    webs: &'a Webs,
}

fn entry(flow: &Flow, i: usize, (name, direction): (String, Direction), rtt: Span, common: Common) -> Entry {
    let tunnel = flow.tunnel.as_ref().map(|tunnel| Rng::stream(common.seed, &format!("tunnel {tunnel}")).next_u32());
    Entry {
        kind: flow.kind,
        direction,
        via: flow.via,
        tcp: flow.tcp,
        dscp: flow.dscp,
        ecn: flow.ecn,
        delays: delays(flow.place, direction, rtt - flow.rtt.path),
        tunnel,
        user: None,
        pool: None,
        app: app(flow, i, &name, common),
        name,
    }
}

fn base_rtt(flow: &Flow, i: usize, rng: &mut Rng) -> Span {
    let middle = flow.rtt.draws.as_ref().map_or(flow.rtt.path, |draws| draws.of(i).draw(rng));
    let jitter = flow.rtt.jitter;
    let shift = if jitter == Span::ZERO { Span::ZERO } else { Span(rng.below(2 * jitter.0 + 1)) };
    (middle + shift - jitter).max(flow.rtt.path)
}

/// Divides the rest of the base RTT among the delays outside the hops. The last of them gets the remainder of the division.
fn delays(place: Place, direction: Direction, rest: Span) -> Delays {
    let half = Span(rest.0 / 2);
    let other = rest - half;
    let left_of_sender = |sender: bool| match sender {
        true => Delays { data_in: half, ack_out: other, ..Delays::default() },
        false => Delays { data_out: half, ack_in: other, ..Delays::default() },
    };
    match (place, direction) {
        (Place::Ack, _) => Delays { ack_out: rest, ..Delays::default() },
        (Place::Left, Direction::Right) | (Place::Right, Direction::Left) => left_of_sender(true),
        (Place::Left, Direction::Left) | (Place::Right, Direction::Right) => left_of_sender(false),
        (Place::Split, _) => {
            let quarter = Span(rest.0 / 4);
            Delays { data_in: quarter, data_out: quarter, ack_in: quarter, ack_out: rest - quarter * 3 }
        }
    }
}

/// The largest increase of the hops' delays during the run, compared with the start, summed over both directions.
fn growth(hops: &[Hop]) -> Span {
    let links: Vec<&Link> = hops.iter().flat_map(|hop| [&hop.right, &hop.left]).collect();
    let at = |link: &Link, time: Time| link.delay[link.delay.partition_point(|(from, _)| *from <= time) - 1].1;
    let total = |time: Time| links.iter().fold(Span::ZERO, |sum, link| sum + at(link, time));
    let times = links.iter().flat_map(|link| link.delay.iter().map(|(from, _)| *from));
    times.map(total).max().unwrap_or_default() - total(Time::ZERO)
}

fn app(flow: &Flow, i: usize, name: &str, Common { seed, duration, webs }: Common) -> App {
    let drawn = Time::ZERO + flow.start.of(i).draw(&mut Rng::stream(seed, &format!("start {name}")));
    // A distribution without an upper bound may draw a start after the stop.
    let (start, stop) = (drawn.min(Time(flow.stop.0 - 1)), flow.stop);
    let end = stop.min(duration);
    match &flow.what {
        What::Bulk { active } => App::Bulk { active: active.clone().unwrap_or_else(|| vec![(start, stop)]) },
        What::Files { size, gap } => {
            let mut rng = Rng::stream(seed, &format!("gaps {name}"));
            let mut gaps = Vec::new();
            let mut at = start;
            // A file takes at least one base RTT. Counting this time ends the loop even if all gaps are zero.
            while at < end {
                let drawn = gap.of(i).draw(&mut rng);
                at += drawn + flow.rtt.lowest();
                gaps.push(drawn);
            }
            App::Download { start, size: *size, gaps, stop }
        }
        What::Thin { bytes, interval } => App::Thin { start, bytes: *bytes, interval: *interval, stop },
        What::Pings { bytes, interval } => App::Pings { start, bytes: *bytes, interval: *interval, stop },
        What::Stream { bytes, interval, transport, voice, on_off } => {
            let active = match on_off {
                Some((on, off)) => stream::windows(seed, name, (on.of(i), off.of(i)), (start, end)),
                None => vec![(start, stop)],
            };
            let (bytes, interval, transport, voice) = (*bytes, *interval, *transport, *voice);
            App::Stream(Stream { active, interval, bytes, transport, voice })
        }
        What::Web { rate } => App::Web { connections: webs.connections(seed, name, *rate, (start, end)) },
        What::Pages { connections, fixed } => {
            let pages = page::pages(seed, name, *fixed, flow.rtt.lowest(), (start, end));
            App::Pages(Browsing { start, stop, pages, connections: *connections })
        }
        What::Video { chunk, buffer, ladder, rule } => {
            let (chunk, buffer, ladder, rule) = (*chunk, *buffer, ladder.clone(), *rule);
            App::Video(Video { start, stop, chunk, buffer, ladder, rule })
        }
        What::Rpm { interval, connections, tls } => {
            App::Rpm(Rpm { start, stop: end, interval: *interval, connections: *connections, tls: *tls })
        }
        What::Sizes { rate, file, group } => {
            let file = file.as_ref().map(|sizes| &sizes[..]);
            App::Sizes { arrivals: sizes::arrivals(seed, name, *rate, file, (start, end)), group: *group }
        }
        What::Command { argv, at } => App::Command(Command { argv: Arc::clone(argv), at: *at, start, stop }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_rtt_is_dealt_out_without_loss() {
        for place in [Place::Split, Place::Left, Place::Right, Place::Ack] {
            for direction in [Direction::Right, Direction::Left] {
                let d = delays(place, direction, Span(103));
                assert_eq!(d.data_in + d.data_out + d.ack_in + d.ack_out, Span(103), "{place:?} {direction:?}");
            }
        }
        let split = delays(Place::Split, Direction::Right, Span(103));
        assert_eq!((split.data_in, split.ack_out), (Span(25), Span(28)));
        assert_eq!(delays(Place::Ack, Direction::Right, Span(103)).ack_out, Span(103));
    }

    #[test]
    fn the_left_host_sends_rightward_and_receives_leftward() {
        let right = delays(Place::Left, Direction::Right, Span(10));
        assert_eq!((right.data_in, right.ack_out), (Span(5), Span(5)));
        let left = delays(Place::Left, Direction::Left, Span(10));
        assert_eq!((left.data_out, left.ack_in), (Span(5), Span(5)));
    }
}
