//! Changes of a discipline during a run: at given times it gets other parameters, as by `tc qdisc change`, or is
//! replaced by another discipline, as by `tc qdisc replace`.

use sojourn_core::packet::{Ecn, Packet};
use sojourn_core::qdisc::tc::{self, Spec};
use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Qdisc, Unchangeable};
use sojourn_core::units::{Rate, Span, Time};

/// Returns the parameters that `line` gives to the present discipline, or `None` if the line names another discipline.
///
/// # Errors
/// The line is invalid, or it changes a parameter that Linux does not change after setup.
pub(crate) fn of_parameters(present: &Spec, line: &str) -> Result<Option<tc::Change>, tc::Error> {
    // A change alone need not be a complete line, and a pasted line need not begin with the discipline's name.
    let is_named = line.split_ascii_whitespace().next() == Some(present.kind());
    if !is_named && !Spec::parse(line).is_ok_and(|(spec, _)| spec.kind() == present.kind()) {
        return Ok(None);
    }
    let change = present.changed(line)?;
    try_out(present, &change.spec)?;
    Ok(Some(change))
}

/// Creates a discipline from the present line and applies the change to it. Errors are those of the discipline.
fn try_out(present: &Spec, spec: &Spec) -> Result<(), tc::Error> {
    let (rate, delay) = (Rate(1_000_000_000), Span::ZERO);
    let context = Context { mtu: 1514, overhead: 14, rate, delay, skb: 0, seed: 1 };
    let mut qdisc: AnyQdisc<NoPacket> = present.build(&context);
    let taken = qdisc.change(Time::ZERO, spec, &mut Vec::<(NoPacket, DropReason)>::new());
    taken.map_err(|Unchangeable| spec.unchangeable())
}

/// A packet type for trying out a change. No such packet is ever queued.
#[derive(Clone, Copy, Default)]
struct NoPacket;

impl Packet for NoPacket {
    fn bytes(&self) -> u32 {
        0
    }
    fn flow_hash(&self) -> u32 {
        0
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ecn(&mut self, _: Ecn) {}
    fn enqueue_time(&self) -> Time {
        Time::ZERO
    }
    fn set_enqueue_time(&mut self, _: Time) {}
}
