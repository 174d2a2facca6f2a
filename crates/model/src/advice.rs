//! Warnings about scenarios that are valid, and whose results would mislead.

use std::collections::BTreeMap;

use sojourn_core::units::{Span, Time};

use crate::describe::Description;
use crate::path;
use crate::read::Context;
use crate::scenario::{Capacity, Trace};
use crate::traffic::{Flow, What};
use crate::workload::Direction;
use crate::workload::dist::Dist;

/// Adds the warnings about a description.
pub(crate) fn advise(context: &Context, described: &Description) {
    traces(context, described);
    instants(context, described);
}

/// Warns of a trace that has no opportunity in the measuring window: nothing can leave, and utilisation is 0.
fn traces(context: &Context, described: &Description) {
    let (from, to) = described.measure;
    for hop in &described.hops {
        for (link, name) in [(&hop.right, hop.name.clone()), (&hop.left, format!("{}.reverse", hop.name))] {
            let Capacity::Trace(trace) = &link.rate else { continue };
            let next = first_from(trace, from);
            if next >= to {
                let next = Span(next.0 - from.0);
                let window =
                    if from == Time::ZERO { "the run".to_owned() } else { format!("what is measured from {from}") };
                context.warn(format!(
                    "hop.{name}.rate: the trace has no opportunity within {window}, which lasts {}: no packet can leave \
                     (the first one comes after {next})",
                    to.since(from)
                ));
            }
        }
    }
}

/// Returns the time of a trace's first opportunity that is not before `from`. The trace repeats.
fn first_from(trace: &Trace, from: Time) -> Time {
    const MS: u64 = 1_000_000;
    let period = trace.opportunities_ms.last().copied().unwrap_or(1).max(1) * MS;
    let (round, within) = (from.0 / period * period, from.0 % period);
    if within == 0 && round > 0 {
        return from; // the last one of the period before
    }
    let later = trace.opportunities_ms.iter().map(|ms| ms * MS).find(|at| *at >= within);
    Time(round + later.unwrap_or_else(|| period + trace.opportunities_ms[0] * MS))
}

/// The instants at which a flow's packets arrive at its first queue: the side, the hop, the interval, the start and the
/// base RTT. Flows with equal values send at the same instants.
type Instants = (bool, usize, Span, Span, Span);

/// Flows with a smaller share of a link's rate together are not warned about.
const LEAST_SHARE: f64 = 0.001;

/// Warns of flows that send at the same instants, again and again. Which of their packets finds the queue full is then
/// always the same one's.
fn instants(context: &Context, described: &Description) {
    let mut flows: BTreeMap<Instants, (Vec<&str>, u32, u64)> = BTreeMap::new();
    for (flow, count) in &described.flows {
        let Some((interval, bytes)) = regular(&flow.what).filter(|_| flow.rtt.jitter == Span::ZERO) else { continue };
        for number in 0..*count {
            let Some((start, rtt)) = fixed(flow, number as usize) else { continue };
            for direction in flow.directions {
                let right = *direction == Direction::Right;
                let entry = if right { flow.via.0 } else { flow.via.1 };
                let (names, total, all) = flows.entry((right, entry, interval, start, rtt)).or_default();
                *total += 1;
                *all += u64::from(bytes);
                if names.last() != Some(&flow.name.as_str()) {
                    names.push(&flow.name);
                }
            }
        }
    }
    // Flows in both directions get one warning.
    let mut queues: BTreeMap<(Span, Span, u32, Vec<&str>), Vec<String>> = BTreeMap::new();
    for ((right, entry, interval, start, _), (names, total, bytes)) in flows {
        let hop = &described.hops[entry];
        let rate = path::first_rate(if right { &hop.right.rate } else { &hop.left.rate });
        if total > 1 && bytes as f64 * 8.0 / interval.as_secs_f64() >= LEAST_SHARE * rate.0 as f64 {
            let queue = format!("{}{}", hop.name, if right { "" } else { ".reverse" });
            queues.entry((interval, start, total, names)).or_default().push(queue);
        }
    }
    for ((interval, start, total, names), queues) in queues {
        let names = match names.len() {
            1..=3 => names.join(", "),
            more => format!("{}, {} and {} more", names[0], names[1], more - 2),
        };
        context.warn(format!(
            "{total} flows ({names}) send into queue {} at the same instants, every {interval} from {start}: a full queue \
             drops the packets of the same ones each time. Give them start = \"uniform {start}..{}\" or a jitter",
            queues.join(" and "),
            start + interval
        ));
    }
}

/// Returns the interval at which an application sends, and the bytes that it sends then, if both are constant.
fn regular(what: &What) -> Option<(Span, u32)> {
    match what {
        What::Thin { interval, bytes } | What::Pings { interval, bytes } => Some((*interval, *bytes)),
        What::Stream { interval, bytes, on_off: None, .. } => Some((*interval, *bytes)),
        _ => None,
    }
}

/// Returns the start and the base RTT of one of the flows, if neither is drawn.
fn fixed(flow: &Flow, number: usize) -> Option<(Span, Span)> {
    let constant = |dist: &Dist| if let Dist::Constant(span) = dist { Some(*span) } else { None };
    let rtt = match &flow.rtt.draws {
        Some(draws) => constant(draws.of(number))?,
        None => flow.rtt.path,
    };
    Some((constant(flow.start.of(number))?, rtt))
}

#[cfg(test)]
mod tests {
    use crate::plan::{LoadOptions, Plan};
    use crate::scenario::{Trace, TraceFile};
    use std::sync::Arc;

    fn warnings(text: &str, trace: &[u64]) -> Vec<String> {
        let trace = TraceFile::Opportunities(Arc::new(Trace { opportunities_ms: trace.to_vec() }));
        let options = LoadOptions { traces: vec![("x.down".into(), trace)], ..LoadOptions::default() };
        Plan::load("t.toml", text.as_bytes(), &options).expect("a sound file").warnings
    }

    fn flows(flows: &str) -> Vec<String> {
        warnings(&format!("duration = \"1s\"\n[[hop]]\nname = \"l\"\nrate = \"1mbit\"\ndelay = \"5ms\"\n{flows}"), &[])
    }

    #[test]
    fn flows_that_send_at_the_same_instants_are_named() {
        for (kind, interval) in [
            ("kind = \"cbr\"\nrate = \"700kbit\"\nsize = 1250", "14285714ns"),
            ("kind = \"voip\"", "20ms"),
            ("kind = \"pings\"\ninterval = \"30ms\"", "30ms"),
            ("kind = \"thin\"\ninterval = \"30ms\"", "30ms"),
        ] {
            let twice = flows(&format!("[[flow]]\n{kind}\ncount = 2\n"));
            assert_eq!(twice.len(), 1, "{kind}: {twice:?}");
            assert!(twice[0].starts_with("2 flows ("), "{twice:?}");
            let when = format!("send into queue l at the same instants, every {interval} from 0s");
            assert!(twice[0].contains(&when), "{twice:?}");
            let rows = flows(&format!("[[flow]]\nname = \"a\"\n{kind}\n[[flow]]\nname = \"b\"\n{kind}\n"));
            assert!(rows[0].starts_with("2 flows (a, b) send"), "{rows:?}");
            for apart in ["start = \"uniform 0s..20ms\"", "start = [\"0s\", \"1ms\"]", "rtt = [\"10ms\", \"11ms\"]"] {
                assert_eq!(flows(&format!("[[flow]]\n{kind}\ncount = 2\n{apart}\n")), [""; 0], "{kind} {apart}");
            }
            assert_eq!(flows(&format!("[[flow]]\n{kind}\ndirection = \"both\"\n")), [""; 0], "{kind}");
        }
        assert_eq!(flows("[[flow]]\nkind = \"bulk\"\ncount = 2\n"), [""; 0]);
        let both = flows("[[flow]]\nkind = \"voip\"\ncount = 2\ndirection = \"both\"\n");
        assert!(both.len() == 1 && both[0].contains("send into queue l.reverse and l at the same"), "{both:?}");
        let rare = "[[flow]]\nkind = \"pings\"\ncount = 2\ninterval = \"2s\"\n";
        assert_eq!(flows(rare), [""; 0], "less than a thousandth of the link's rate");
    }

    #[test]
    fn a_trace_without_an_opportunity_in_the_measuring_window_is_named() {
        let of = |measure: &str, trace: &[u64]| {
            let head =
                format!("duration = \"1s\"\n{measure}\n[[hop]]\nname = \"l\"\nrate = {{ trace = \"x.down\" }}\n");
            let back = "reverse = { rate = \"1mbit\" }\n[[flow]]\nkind = \"bulk\"\nrtt = \"40ms\"\n";
            warnings(&format!("{head}{back}"), trace)
        };
        assert_eq!(of("", &[999, 1000]), [""; 0]);
        let late = of("", &[5000]);
        assert_eq!(late.len(), 1, "{late:?}");
        assert!(
            late[0].contains("hop.l.rate: the trace has no opportunity within the run, which lasts 1s"),
            "{late:?}"
        );
        assert!(late[0].contains("comes after 5s"), "{late:?}");
        assert_eq!(of("measure = [\"600ms\", \"700ms\"]", &[300]), [""; 0], "the trace repeats");
        assert_eq!(of("", &[1000]).len(), 1, "the end of the run is not in it");
        assert_eq!(of("measure = [\"500ms\", \"end\"]", &[10, 900]), [""; 0]);
        let early = of("measure = [\"500ms\", \"end\"]", &[10, 2000]);
        assert!(early[0].contains("within what is measured from 500ms, which lasts 500ms"), "{early:?}");
    }
}
