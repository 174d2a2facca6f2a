//! A discipline that changes on the way: at each time other parameters, as `tc qdisc change` sets them, or another
//! discipline, as `tc qdisc replace` puts it in its place.

use sojourn_core::packet::{Ecn, Packet};
use sojourn_core::qdisc::tc::{self, Spec};
use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Qdisc};
use sojourn_core::units::{Rate, Span, Time};

/// The parameters that `line` gives to the present discipline; `None` if the line names another discipline.
///
/// # Errors
/// What the line gets wrong, and what Linux does not change while a discipline stands.
pub(crate) fn of_parameters(present: &Spec, line: &str) -> Result<Option<tc::Change>, tc::Error> {
    if line.split_ascii_whitespace().next() != Some(present.kind()) {
        return Ok(None);
    }
    let change = present.changed(line)?;
    try_out(present, &change.spec)?;
    Ok(Some(change))
}

/// Whether a discipline takes on these parameters while it stands.
fn try_out(present: &Spec, spec: &Spec) -> Result<(), tc::Error> {
    let (rate, delay) = (Rate(1_000_000_000), Span::ZERO);
    let context = Context { mtu: 1514, overhead: 14, rate, delay, skb: 0, seed: 1 };
    let mut qdisc: AnyQdisc<NoPacket> = present.build(&context);
    qdisc.change(Time::ZERO, spec, &mut Vec::<(NoPacket, DropReason)>::new())
}

/// Nothing that would ever be queued.
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
