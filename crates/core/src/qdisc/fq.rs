//! fq: parameters.

use super::codel::{MAX_SPAN, MICROSECOND};
use super::tc::{Param, Parameters, Unit, param};
use crate::units::{Rate, Span};

/// Parameters of fq.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets in all queues together.
    pub limit: u32,
    /// Packets in one flow's queue.
    pub flow_limit: u32,
    /// Bytes a flow may send in its turn; by default twice the link's MTU.
    pub quantum: Option<u32>,
    /// Bytes a new flow may send at first; by default ten times the link's MTU.
    pub initial_quantum: Option<u32>,
    /// Rate that no flow may exceed.
    pub maxrate: Option<Rate>,
    /// Number of hash buckets; a power of two.
    pub buckets: u32,
    /// Mask of the hash of packets that have no socket.
    pub orphan_mask: u32,
    /// Pace the flows that ask for it, and hold all to `maxrate`.
    pub pacing: bool,
    /// A flow that was away for so long gets a new credit.
    pub refill_delay: Span,
    /// A flow paced below this rate is not held back.
    pub low_rate_threshold: Rate,
    /// How early a paced packet may leave.
    pub timer_slack: Span,
    /// Mark ECN-capable packets whose delay exceeds this.
    pub ce_threshold: Option<Span>,
    /// A packet may not ask to leave later than this.
    pub horizon: Span,
    /// Drop packets beyond the horizon instead of moving them to it.
    pub horizon_drop: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 10_000,
            flow_limit: 100,
            quantum: None,
            initial_quantum: None,
            maxrate: None,
            buckets: 1024,
            orphan_mask: 1023,
            pacing: true,
            refill_delay: Span::from_millis(40),
            low_rate_threshold: Rate(550_000),
            timer_slack: Span::from_micros(10),
            ce_threshold: None,
            horizon: Span::from_secs(10),
            horizon_drop: true,
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "fq";
    const DOC: &'static str = "a queue per flow, served in turn, each with a packet limit";
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets in all queues together").range(1, u32::MAX as u64).printed(),
        param!(Params.flow_limit, Unit::Packets, "packets in one flow's queue").range(1, u32::MAX as u64),
        param!(Params.buckets, Unit::Number, "number of hash buckets, a power of two").range(1, 1 << 18),
        param!(Params.orphan_mask, Unit::Number, "mask of the hash of packets without a socket")
            .range(0, u32::MAX as u64),
        param!(Params.quantum, Unit::Bytes, "bytes a flow may send in its turn; default: twice the link's MTU")
            .range(1, 1 << 20),
        param!(Params.initial_quantum, Unit::Bytes, "bytes a new flow may send at first; default: ten MTU")
            .range(1, i32::MAX as u64),
        param!(Params.maxrate, Unit::Rate, "rate that no flow may exceed; default: none").range(8, 34_359_738_360),
        param!(Params.pacing, Unit::Flag("nopacing"), "pace flows"),
        param!(Params.refill_delay, Unit::Time, "a flow that was away for so long gets a new credit")
            .range(MICROSECOND, MAX_SPAN),
        param!(Params.low_rate_threshold, Unit::Rate, "flows paced below this rate are not held back")
            .range(0, 34_359_738_360),
        param!(Params.timer_slack, Unit::TimeNs, "how early a paced packet may leave").range(0, u32::MAX as u64),
        param!(Params.ce_threshold, Unit::Time, "mark ECN-capable packets delayed longer than this; default: off")
            .range(0, MAX_SPAN),
        param!(Params.horizon, Unit::Time, "a packet may not ask to leave later than this")
            .range(MICROSECOND, MAX_SPAN),
        param!(Params.horizon_drop, Unit::Flag("horizon_cap"), "drop packets beyond the horizon, else move them to it"),
        Param::ignored("bands", 1, "we have one band"),
        Param::ignored("priomap", 16, "we have one band"),
        Param::ignored("weights", 3, "we have one band"),
    ];

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if self.buckets.is_power_of_two() { Ok(()) } else { Err(("buckets", "must be a power of two")) }
    }
}
