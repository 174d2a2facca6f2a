//! Counters of a discipline over a whole run, as the JSON object that `tc -s -j qdisc show` prints for it.
//!
//! Keys and units are those of tc, with three differences: `classes` holds the sums over the list of `tc -s class
//! show`; `child` holds the discipline below a shaper, which tc lists separately; and keys that tc omits while they are
//! zero are always present.

use serde_json::{Map, Value, json};
use sojourn_core::packet::Packet;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::qdisc::{AnyQdisc, Child, Count, Qdisc, Stats};

/// Counters common to all disciplines, maintained by the discipline's caller.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Common {
    /// Packets that left the discipline.
    pub packets: u64,
    /// Bytes of those packets, as the discipline counts them.
    pub bytes: u64,
    /// Packets that the discipline dropped.
    pub drops: u64,
    /// Number of times that a packet met a limit.
    pub overlimits: u64,
    /// Packets that the device refused, and that waited in front of it.
    pub requeues: u64,
    /// Packets in the queue.
    pub qlen: u64,
    /// Bytes in the queue.
    pub backlog: u64,
}

impl Common {
    /// Returns the difference from an earlier snapshot.
    pub fn since(self, before: Common) -> Common {
        let Common { packets, bytes, drops, requeues, .. } = before;
        Common {
            packets: self.packets - packets,
            bytes: self.bytes - bytes,
            drops: self.drops - drops,
            requeues: self.requeues - requeues,
            ..self
        }
    }

    /// The JSON object of a discipline without counters of its own.
    pub fn object(&self, kind: &str) -> Map<String, Value> {
        let Common { packets, bytes, drops, overlimits, requeues, qlen, backlog } = *self;
        let sent = [("bytes", bytes), ("packets", packets), ("drops", drops), ("overlimits", overlimits)];
        let queued = [("requeues", requeues), ("backlog", backlog), ("qlen", qlen)];
        let numbers = sent.into_iter().chain(queued).map(|(key, number)| (key.to_owned(), number.into()));
        std::iter::once(("kind".to_owned(), kind.into())).chain(numbers).collect()
    }
}

/// Returns the counters of a discipline as tc's JSON object. `common` holds the caller's counters. Its `qlen` and
/// `backlog` count only packets between the discipline and the device; this function adds the discipline's own packets.
/// noqueue counts nothing, as in Linux.
pub fn of<P: Packet + Copy + Default>(spec: &Spec, qdisc: &AnyQdisc<P>, common: Common) -> Value {
    if matches!(spec, Spec::Noqueue(_)) {
        return Common::default().object(spec.kind()).into();
    }
    let (qlen, backlog) = (common.qlen + qdisc.packets() as u64, common.backlog + qdisc.backlog());
    let common = Common { overlimits: qdisc.overlimits(), qlen, backlog, ..common };
    whole(spec, common, qdisc.stats(), qdisc.classes(), qdisc.child()).into()
}

fn whole(spec: &Spec, common: Common, own: Stats, classes: Option<Stats>, below: Option<Child>) -> Map<String, Value> {
    let mut object = common.object(spec.kind());
    object.extend(map(own));
    if let Some(classes) = classes {
        object.insert("classes".to_owned(), map(classes).into());
    }
    if let Some(Child { kept_from, overlimits, queued: (qlen, backlog), stats, classes, child }) = below {
        let fifo = Spec::Pfifo(Default::default());
        let spec = match spec {
            Spec::Htb(params) => params.child.as_deref(),
            Spec::Tbf(params) => params.child.as_deref(),
            _ => None,
        };
        // Packets dropped below a shaper never reach the device.
        let common = Common { drops: common.drops - kept_from, overlimits, requeues: 0, qlen, backlog, ..common };
        let object_below = whole(spec.unwrap_or(&fifo), common, stats, classes, child.map(|child| *child));
        object.insert("child".to_owned(), object_below.into());
    }
    object
}

fn map(stats: Stats) -> Map<String, Value> {
    stats.into_iter().map(|(key, count)| (key.to_owned(), value(count))).collect()
}

fn value(count: Count) -> Value {
    match count {
        Count::Number(number) => number.into(),
        Count::Signed(number) => number.into(),
        Count::Real(number) => as_tc(number),
        Count::Flag(flag) => flag.into(),
        Count::Tins(tins) => tins.into_iter().map(|tin| Value::from(map(tin))).collect(),
    }
}

/// Rounds a probability to six digits, as tc prints it.
fn as_tc(number: f64) -> Value {
    let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
    // tc prints whole numbers without a decimal point.
    if rounded.fract() == 0.0 { json!(rounded as i64) } else { json!(rounded) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_has_six_digits_as_tc_prints_it() {
        let shown = [0.194_690_449, 0.0, 1.0, 0.000_123_456_789].map(|number| as_tc(number).to_string());
        assert_eq!(shown, ["0.19469", "0", "1", "0.000123457"]);
    }
}
