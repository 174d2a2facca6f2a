//! One run's report: exactly the JSON object that scripts rely on.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use sojourn_core::units::Time;

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
    /// The measuring window.
    #[serde(flatten)]
    pub main: Results,
    /// Start-up; `null` when measuring starts at zero.
    pub startup: Option<Results>,
}

impl RunReport {
    /// From the reports of all meters, in the order in which they shall stand.
    pub fn new(
        world: &str,
        seed: u64,
        set: Map<String, Value>,
        duration: Time,
        links: &[LinkReport],
        flows: &[FlowReport],
    ) -> RunReport {
        let hops = links.iter().map(|link| (link.name.clone(), link.main.clone())).collect();
        let main = Results::new(hops, flows.iter().map(|flow| flow.main.clone()).collect());
        let early: Option<_> = links.iter().map(|link| Some((link.name.clone(), link.startup.clone()?))).collect();
        let early_flows: Option<_> = flows.iter().map(|flow| flow.startup.clone()).collect();
        let startup = early.filter(|hops: &Vec<_>| !hops.is_empty()).zip(early_flows);
        RunReport {
            world: world.to_owned(),
            seed,
            set,
            duration_s: duration.as_secs_f64(),
            main,
            startup: startup.map(|(hops, flows)| Results::new(hops, flows)),
        }
    }
}

/// The measures of one window.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Results {
    /// `NAME` is the rightward queue, `NAME.reverse` the other; in the order of the path.
    #[serde(serialize_with = "as_map")]
    pub hops: Vec<(String, LinkWindow)>,
    /// One entry per row.
    pub flows: Vec<FlowWindow>,
    /// Fairness between the rows.
    pub jain: Jain,
}

impl Results {
    /// Of these links and flows.
    pub fn new(hops: Vec<(String, LinkWindow)>, flows: Vec<FlowWindow>) -> Results {
        let jain = Jain::of(&flows);
        Results { hops, flows, jain }
    }

    /// The link of this name.
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

/// Jain's fairness index: 1 when all shares are equal, 1/n when one has all.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Jain {
    /// Over the goodputs of the bulk rows; `None` when there is none, or none got anything.
    pub goodput: Option<f64>,
    /// Over drops / packets of all rows that sent; 1 when nothing was dropped, `None` when nothing was sent.
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

/// (Σx)² / (n · Σx²); `None` when every x is zero or there is none.
pub fn jain(xs: &[f64]) -> Option<f64> {
    let (sum, squares) = xs.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (xs.len() as f64 * squares))
}
