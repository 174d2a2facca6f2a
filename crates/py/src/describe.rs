//! A description of a scenario as JSON, for `sojourn check` and for figures.

use serde_json::{Value, json};
use sojourn_core::qdisc::LinkLayer;
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::scenario::{Capacity, Scenario};
use sojourn_model::workload::{App, Command, Direction, Entry};

/// Describes the queues and flows of a run.
pub fn describe(scenario: &Scenario) -> Value {
    let links = 0..scenario.hops.len() * 2;
    let seconds = |time: Time| time.as_secs_f64();
    json!({
        "title": scenario.title,
        "seed": scenario.seed,
        "duration_s": seconds(scenario.duration),
        "measure_s": [seconds(scenario.measure.0), seconds(scenario.measure.1)],
        "longest_rtt_ms": scenario.longest_rtt.as_millis_f64(),
        "hops": links.map(|index| link(scenario, index)).collect::<Value>(),
        "flows": flows(scenario),
    })
}

/// Describes the rows of the result's `flows`: a flow, or a pool by its first flow. `count` is the number of flows in a row.
fn flows(scenario: &Scenario) -> Value {
    let mut rows: Vec<(&Entry, usize)> = Vec::new();
    for (row, entry) in scenario.workload.pools().into_iter().zip(&scenario.workload.entries) {
        match rows.get_mut(row) {
            Some((_, count)) => *count += 1,
            None => rows.push((entry, 1)),
        }
    }
    rows.into_iter().map(|(entry, count)| flow(scenario, entry, count)).collect()
}

fn link(scenario: &Scenario, index: usize) -> Value {
    let link = scenario.link(index);
    json!({
        "name": scenario.link_name(index),
        "rate": capacity(&link.rate),
        "delay": steps(&link.delay),
        "qdisc": link.qdisc_text(),
        "overhead": link.overhead,
        "linklayer": LinkLayer::WORDS[link.linklayer as usize],
        "nic": link.nic.map(|nic| {
            json!({ "ring": nic.ring, "bql": nic.bql, "coalesce_us": nic.coalesce.0 as f64 / 1e3 })
        }),
        "impair": link.impair.as_ref().map(ToString::to_string),
        "pause": link.pause.is_some(),
        "flush": link.flush,
    })
}

fn capacity(rate: &Capacity) -> String {
    match rate {
        Capacity::Steps(list) => steps(&list.iter().map(|&(at, rate)| (at, in_words(rate))).collect::<Vec<_>>()),
        Capacity::Trace(trace) => format!("a trace, {} on average", trace.mean_rate()),
    }
}

/// Formats the rate of a link. An outage is stored as one bit per second.
fn in_words(rate: Rate) -> String {
    if rate.0 > 1 { rate.to_string() } else { "outage".to_owned() }
}

/// Number of columns in a chart of a link's rate.
const COLUMNS: usize = 64;

/// Returns the rates over the run of links whose rate changes: the mean in each of [`COLUMNS`] equal parts of the run,
/// and the minimum, mean and maximum. For mahimahi traces, minimum and maximum are those of the parts.
pub fn rates(scenario: &Scenario) -> Value {
    let links = 0..scenario.hops.len() * 2;
    let changing = links.filter_map(|index| rate_over(scenario, index));
    json!({ "duration_s": scenario.duration.as_secs_f64(), "links": changing.collect::<Value>() })
}

fn rate_over(scenario: &Scenario, index: usize) -> Option<Value> {
    let end = scenario.duration.0;
    let mut bits = vec![0.0; COLUMNS];
    let column = |at: u64| (u128::from(at) * COLUMNS as u128 / u128::from(end)) as usize;
    let edge = |column: usize| (u128::from(end) * column as u128).div_ceil(COLUMNS as u128) as u64;
    let seconds = |from: u64, to: u64| (to - from) as f64 / 1e9;
    let extremes = match &scenario.link(index).rate {
        Capacity::Steps(steps) => {
            let shown: Vec<_> = steps.iter().filter(|(at, _)| at.0 < end).collect();
            if shown.len() < 2 {
                return None;
            }
            let ends = shown.iter().skip(1).map(|(at, _)| at.0).chain([end]);
            for (&&(from, rate), to) in shown.iter().zip(ends) {
                let mut at = from.0;
                while at < to {
                    let next = edge(column(at) + 1).min(to);
                    bits[column(at)] += rate.0 as f64 * seconds(at, next);
                    at = next;
                }
            }
            let rates = || shown.iter().map(|(_, rate)| rate.0 as f64);
            Some((rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max)))
        }
        Capacity::Trace(trace) => {
            let period = trace.opportunities_ms.last().copied()?.max(1);
            let times =
                (0..).flat_map(|round| trace.opportunities_ms.iter().map(move |ms| (round * period + ms) * 1_000_000));
            times.take_while(|at| *at < end).for_each(|at| bits[column(at)] += 1500.0 * 8.0);
            None
        }
    };
    let mean = bits.iter().sum::<f64>() / seconds(0, end);
    let rates: Vec<f64> = (0..COLUMNS).map(|at| bits[at] / seconds(edge(at), edge(at + 1)).max(1e-9)).collect();
    let of_parts = || (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().copied().fold(0.0, f64::max));
    let (least, greatest) = extremes.unwrap_or_else(of_parts);
    let mbit: Vec<f64> = rates.iter().map(|rate| rate / 1e6).collect();
    Some(json!({
        "name": scenario.link_name(index), "mbit": mbit,
        "min_mbit": least / 1e6, "mean_mbit": mean / 1e6, "max_mbit": greatest / 1e6,
    }))
}

/// Formats a list of steps as `100mbit, from 50s 10mbit, …`.
fn steps<T: std::fmt::Display>(list: &[(Time, T)]) -> String {
    const SHOWN: usize = 8;
    let step = |(at, value): &(Time, T)| if at.0 == 0 { value.to_string() } else { format!("from {at} {value}") };
    let mut words: Vec<String> = list.iter().take(SHOWN).map(step).collect();
    if list.len() > SHOWN {
        words.push(format!("and {} more steps", list.len() - SHOWN));
    }
    words.join(", ")
}

fn flow(scenario: &Scenario, entry: &Entry, count: usize) -> Value {
    let tcp = entry.has_tcp();
    let what = application(&entry.app);
    json!({
        "name": entry.pool.as_ref().unwrap_or(&entry.name),
        "count": count,
        "kind": entry.kind,
        "cc": tcp.then(|| entry.tcp.cc.to_string()),
        "direction": match entry.direction { Direction::Right => "right", Direction::Left => "left" },
        "base_rtt_ms": base_rtt(scenario, entry).as_millis_f64(),
        "what": if entry.pool.is_some() { format!("{count} flows in a pool, the first: {what}") } else { what },
    })
}

/// The sum of the hops' delays in both directions at the start of the run, and of the delays beyond them.
fn base_rtt(scenario: &Scenario, entry: &Entry) -> Span {
    let (first, last) = entry.via;
    let first_delay = |list: &[(Time, Span)]| list.first().map_or(Span::ZERO, |(_, delay)| *delay);
    let hops = scenario.hops[first..=last].iter();
    let passed = hops.fold(Span::ZERO, |sum, hop| sum + first_delay(&hop.right.delay) + first_delay(&hop.left.delay));
    let hosts = scenario.access.as_ref().map_or(Span::ZERO, |access| access.delay * 4);
    let beyond = &entry.delays;
    passed + hosts + beyond.data_in + beyond.data_out + beyond.ack_in + beyond.ack_out
}

fn application(app: &App) -> String {
    match app {
        App::Bulk { active } => match active.as_slice() {
            [(start, stop)] if *stop == Time::NEVER => format!("from {}", Seconds(*start)),
            [(start, stop)] => format!("from {} to {}", Seconds(*start), Seconds(*stop)),
            several => format!("active {} times", several.len()),
        },
        App::Download { size, .. } => format!("{size} bytes again and again"),
        App::Thin { bytes, interval, .. } => format!("{bytes} bytes every {interval}"),
        App::Pings { bytes, interval, .. } => format!("{bytes} bytes every {interval}"),
        App::Stream(stream) => {
            let silences = stream.active.len() - 1;
            let pauses = if silences > 0 { format!(", silent {silences} times") } else { String::new() };
            format!("{} bytes every {}{pauses}", stream.bytes, stream.interval)
        }
        App::Web { connections } => format!("{} connections", connections.len()),
        App::Pages(browsing) => format!("pages over {} connections", browsing.connections),
        App::Video(video) => format!("video in {} qualities", video.ladder.len()),
        App::Rpm(rpm) => format!("a test of responsiveness with up to {} connections", rpm.connections),
        App::Sizes { arrivals, .. } => format!("{} transfers", arrivals.len()),
        App::Command(Command { argv, at, start, .. }) => {
            format!("{} at the {} from {}", argv.join(" "), at.name(), Seconds(*start))
        }
    }
}

/// A time that is formatted in seconds with three decimals. Starts are random, so readers need no nanoseconds.
struct Seconds(Time);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} s", self.0.as_secs_f64())
    }
}
