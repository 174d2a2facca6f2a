//! The report of one run: exactly the JSON object that scripts rely on.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use sojourn_core::units::{Span, Time};

use crate::distribution::S;
use crate::flow::{FlowReport, FlowWindow};
use crate::link::{LinkReport, LinkWindow};

/// One element of `runs`.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct RunReport {
    /// `sim`, `kernel` or `live`.
    pub world: String,
    /// The run's seed.
    pub seed: u64,
    /// Every swept or `--set` key with its value exactly as written.
    pub set: Map<String, Value>,
    /// The length of the run in seconds, start-up included.
    pub duration_s: f64,
    /// The measures of the measuring window.
    #[serde(flatten)]
    pub main: Results,
    /// Counters of the hosts' TCP over the whole run, by Linux's names; `null` if nobody has counted.
    pub tcp: Option<Map<String, Value>>,
    /// The measures of start-up; `null` when measuring starts at zero.
    pub startup: Option<Results>,
}

impl RunReport {
    /// Combines the reports of all meters, in the order in which they are printed.
    pub fn new(
        world: &str,
        seed: u64,
        set: Map<String, Value>,
        duration: Time,
        links: &[LinkReport],
        flows: &[FlowReport],
    ) -> RunReport {
        let hops = links.iter().map(|link| (link.name.clone(), link.main.clone())).collect();
        let rtt = links.iter().map(|link| link.rtt_window).max().unwrap_or_default();
        let mut main = Results::new(hops, flows.iter().map(|flow| flow.main.clone()).collect(), rtt);
        let together: Vec<&FlowReport> = flows.iter().filter_map(|flow| flow.together.as_deref()).collect();
        main.groups = together.iter().map(|flow| flow.main.clone()).collect();
        let early: Option<_> = links.iter().map(|link| Some((link.name.clone(), link.startup.clone()?))).collect();
        let early_flows: Option<_> = flows.iter().map(|flow| flow.startup.as_deref().cloned()).collect();
        let startup = early.filter(|hops: &Vec<_>| !hops.is_empty()).zip(early_flows);
        let early_groups = together.iter().filter_map(|flow| flow.startup.as_deref().cloned()).collect();
        RunReport {
            world: world.to_owned(),
            seed,
            set,
            duration_s: duration.0 as f64 / S,
            main,
            tcp: None,
            startup: startup.map(|(hops, flows)| Results { groups: early_groups, ..Results::new(hops, flows, rtt) }),
        }
    }
}

/// The measures of one window.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Results {
    /// Links in the order of the path. `NAME` is the rightward queue, `NAME.reverse` the leftward one.
    #[serde(serialize_with = "as_map")]
    pub hops: Vec<(String, LinkWindow)>,
    /// One entry per flow or group of connections.
    pub flows: Vec<FlowWindow>,
    /// One entry for each name that several entries of `flows` share: all of them together, so that a percentile is one over
    /// all of their pages, pings or transfers.
    pub groups: Vec<FlowWindow>,
    /// Fairness between the entries of `flows`.
    pub jain: Jain,
    /// Loss events of the bulk flows.
    pub losses: Losses,
}

impl Results {
    /// Results of these links and flows. `rtt` is the longest base RTT.
    pub fn new(hops: Vec<(String, LinkWindow)>, flows: Vec<FlowWindow>, rtt: Span) -> Results {
        let (jain, losses) = (Jain::of(&flows), Losses::of(&flows, rtt));
        Results { hops, flows, groups: Vec::new(), jain, losses }
    }

    /// Looks up the link of this name.
    pub fn hop(&self, name: &str) -> Option<&LinkWindow> {
        self.hops.iter().find(|(key, _)| key == name).map(|(_, window)| window)
    }
}

fn as_map<S: Serializer, V: Serialize>(entries: &[(String, V)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(entries.len()))?;
    for (key, value) in entries {
        map.serialize_entry(key, value)?;
    }
    map.end()
}

/// Jain's fairness index: 1 if all shares are equal, 1/n if one of n has everything.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Jain {
    /// The index of the bulk flows' goodputs; `None` if there are no bulk flows, or all goodputs are zero.
    pub goodput: Option<f64>,
    /// The index of the ratios drops / packets of all entries that sent packets; 1 if nothing was dropped, `None` if
    /// nothing was sent.
    pub drop_share: Option<f64>,
}

impl Jain {
    fn of(flows: &[FlowWindow]) -> Jain {
        let goodputs: Vec<f64> = flows.iter().filter(|f| f.kind == "bulk").filter_map(|f| f.goodput_mbit).collect();
        let senders = flows.iter().filter(|flow| flow.packets > 0);
        let shares: Vec<f64> = senders.map(|flow| flow.drops as f64 / flow.packets as f64).collect();
        let none = !shares.is_empty() && shares.iter().all(|&share| share == 0.0);
        Jain { goodput: jain(&goodputs), drop_share: if none { Some(1.0) } else { jain(&shares) } }
    }
}

/// (Σx)² / (n · Σx²); `None` if `xs` is empty or all zero.
pub fn jain(xs: &[f64]) -> Option<f64> {
    let (sum, squares) = xs.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (xs.len() as f64 * squares))
}

/// Loss events of all bulk flows together. An event begins with a drop, and has all drops within the longest base RTT
/// from it on, as RFC 5348 §5.2 defines it for one flow.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Losses {
    /// The number of loss events of the bulk flows.
    pub events: u64,
    /// Global synchronisation ratio (RFC 7928 §2.4): the share of the bulk flows that lose packets in a loss event, as the
    /// mean over all events. `None` without events, or with fewer than two bulk flows that sent packets.
    pub synchronisation: Option<f64>,
}

impl Losses {
    fn of(flows: &[FlowWindow], rtt: Span) -> Losses {
        let senders = || flows.iter().filter(|flow| flow.kind == "bulk" && flow.packets > 0);
        let of = |(flow, window): (usize, &FlowWindow)| -> Vec<(u64, usize)> {
            window.losses.iter().map(|&at| (at, flow)).collect()
        };
        let mut all: Vec<(u64, usize)> = senders().enumerate().flat_map(of).collect();
        all.sort_unstable();
        let (mut events, mut losing, mut end) = (0u64, 0u64, 0u64);
        // For each flow, the last event in which it lost packets.
        let mut last = vec![0u64; senders().count()];
        for (at, flow) in all {
            if events == 0 || at > end {
                events += 1;
                end = at + rtt.0;
            }
            if last[flow] != events {
                last[flow] = events;
                losing += 1;
            }
        }
        let several = events > 0 && last.len() > 1;
        let synchronisation = several.then(|| losing as f64 / (events as f64 * last.len() as f64));
        Losses { events, synchronisation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowMeter, FlowSetup, LinkMeter, LinkSetup};
    use proptest::prelude::*;

    fn link(name: &str, start: u64) -> LinkReport {
        let measure = (Time(start), Time(1000));
        let setup =
            LinkSetup { name: name.to_owned(), measure, end: Time(1000), rtt_window: Span(10), bins: 0, overhead: 14 };
        let mut meter = LinkMeter::new(&setup);
        meter.sent(Time(500), Time(600), Span(5), 100, false);
        meter.finish()
    }

    fn flow(name: &str, kind: &'static str, start: u64, (acked, packets, drops): (u64, u64, u64)) -> FlowReport {
        let cc = if kind == "pings" { "" } else { "cubic" }.to_owned();
        let measure = (Time(start), Time(1000));
        let setup = FlowSetup {
            name: name.to_owned(),
            kind,
            cc,
            measure,
            end: Time(1000),
            bins: 0,
            state: false,
            stream: None,
            intervals: None,
        };
        let mut meter = FlowMeter::new(&setup);
        meter.acked(Time(700), acked);
        meter.sent(Time(700), packets);
        (0..drops).for_each(|_| meter.dropped(Time(700)));
        meter.finish(setup, 0)
    }

    fn report(start: u64, flows: &[FlowReport]) -> RunReport {
        let set = Map::from_iter([("hop.bottleneck.qdisc".to_owned(), Value::from("codel limit 830"))]);
        let links = [link("bottleneck", start), link("bottleneck.reverse", start)];
        RunReport::new("sim", 7, set, Time(1000), &links, flows)
    }

    #[test]
    fn the_json_has_every_key_that_scripts_rely_on_in_order() {
        let json = serde_json::to_value(report(0, &[flow("bulk0", "bulk", 0, (9, 1, 0))])).expect("plain numbers");
        let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&json), "world seed set duration_s hops flows groups jain losses tcp startup");
        assert_eq!(keys(&json["hops"]), "bottleneck bottleneck.reverse");
        assert_eq!(
            keys(&json["flows"][0]),
            "name kind cc goodput_mbit rtt_ms rtt_variation_ms retransmits startup_s fct_s packets drops loss_gap_ms \
             completed unfinished loss_ratio delay_ms jitter_ms mos slowdown page_load_s pages video rpm command"
        );
        assert_eq!(keys(&json["jain"]), "goodput drop_share");
        assert_eq!(keys(&json["losses"]), "events synchronisation");
        assert_eq!(keys(&json["hops"]["bottleneck"]["sojourn_ms"]), "mean p50 p75 p95 p99 max");
        assert_eq!(keys(&json["hops"]["bottleneck"]["standing_queue_ms"]), "p10 p50 p90");
        assert_eq!(json["startup"], Value::Null);
        assert_eq!(json["set"]["hop.bottleneck.qdisc"], "codel limit 830");
    }

    #[test]
    fn seconds_are_round_where_the_scenario_says_so() {
        let report = RunReport::new("sim", 1, Map::new(), Time(60_000_000_000), &[], &[]);
        assert_eq!(report.duration_s, 60.0);
    }

    #[test]
    fn start_up_has_the_same_shape() {
        let json = serde_json::to_value(report(100, &[flow("bulk0", "bulk", 100, (9, 1, 0))])).expect("plain numbers");
        let startup = &json["startup"];
        for part in ["/hops/bottleneck", "/flows/0", "/jain"] {
            let keys = |value: &Value| {
                value.pointer(part).and_then(Value::as_object).map(|o| o.keys().cloned().collect::<Vec<_>>())
            };
            assert!(keys(&json).is_some());
            assert_eq!(keys(startup), keys(&json));
        }
        assert_eq!(startup["jain"], serde_json::json!({"goodput": null, "drop_share": null}));
    }

    #[test]
    fn fairness_is_over_bulk_goodputs_and_over_all_drop_shares() {
        let flows = [
            flow("bulk0", "bulk", 0, (100, 10, 2)),
            flow("bulk1", "bulk", 0, (300, 20, 2)),
            flow("pings0", "pings", 0, (0, 10, 0)),
            flow("idle", "thin", 0, (0, 0, 0)),
        ];
        let jain = report(0, &flows).main.jain;
        assert!((jain.goodput.expect("bulk") - 400.0f64.powi(2) / (2.0 * 100_000.0)).abs() < 1e-12);
        // The shares are 0.2, 0.1 and 0; the idle entry has none.
        assert!((jain.drop_share.expect("senders") - 0.09 / (3.0 * 0.05)).abs() < 1e-12);
    }

    #[test]
    fn fairness_without_drops_is_perfect_and_without_bulk_flows_unknown() {
        let jain = report(0, &[flow("pings0", "pings", 0, (0, 10, 0))]).main.jain;
        assert_eq!(jain, Jain { goodput: None, drop_share: Some(1.0) });
        assert_eq!(report(0, &[]).main.jain, Jain { goodput: None, drop_share: None });
    }

    #[test]
    fn jains_index_runs_from_one_share_to_all() {
        assert_eq!((jain(&[5.0, 5.0, 5.0, 5.0]), jain(&[1.0, 0.0, 0.0, 0.0])), (Some(1.0), Some(0.25)));
        assert_eq!((jain(&[]), jain(&[0.0])), (None, None));
    }

    proptest! {
        #[test]
        fn the_synchronisation_is_the_mean_share_of_flows_that_lose_in_an_event(
            times in prop::collection::vec(prop::collection::vec(100u64..400, 0..12), 1..6),
            rtt in 0u64..60,
        ) {
            let flows: Vec<FlowReport> = times.iter().map(|times| losing("bulk", times)).collect();
            let found = Results::new(vec![], flows.into_iter().map(|flow| flow.main).collect(), Span(rtt)).losses;
            // Nanosecond by nanosecond: an event begins with a loss outside of the last event.
            let (mut events, mut until): (Vec<Vec<usize>>, Option<u64>) = (Vec::new(), None);
            for now in 100..400 {
                let losers = (0..times.len()).filter(|&flow| times[flow].contains(&now));
                for flow in losers {
                    if until.is_none_or(|until| now > until) {
                        events.push(Vec::new());
                        until = Some(now + rtt);
                    }
                    let event = events.last_mut().expect("an event");
                    if !event.contains(&flow) {
                        event.push(flow);
                    }
                }
            }
            prop_assert_eq!(found.events, events.len() as u64);
            let shares: Vec<f64> = events.iter().map(|event| event.len() as f64 / times.len() as f64).collect();
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            prop_assert_eq!(found.synchronisation.is_some(), times.len() > 1 && !events.is_empty());
            prop_assert!(found.synchronisation.is_none_or(|found| (found - mean).abs() < 1e-12));
        }
    }

    /// A flow that sent packets and lost some at these times.
    fn losing(kind: &'static str, times: &[u64]) -> FlowReport {
        let mut report = flow("bulk0", kind, 100, (0, 1, 0));
        report.main.losses = times.to_vec();
        report.main.losses.sort_unstable();
        report.main.packets = 1;
        report
    }

    #[test]
    fn only_bulk_flows_are_synchronised() {
        let flows = [losing("bulk", &[200]), losing("bulk", &[205, 320]), losing("web", &[330])];
        let losses = Results::new(vec![], flows.map(|flow| flow.main).to_vec(), Span(10)).losses;
        assert_eq!(losses, Losses { events: 2, synchronisation: Some(0.75) });
    }
}
