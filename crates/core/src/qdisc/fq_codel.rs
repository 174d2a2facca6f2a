//! FQ-CoDel: parameters.

use super::codel::{MAX_SPAN, MICROSECOND};
use super::tc::{Param, Parameters, Unit, choice, param};
use crate::units::Span;

choice! {
    /// Whose decisions are taken.
    Variant {
        /// Linux 6.1 to 6.12.
        Linux = "linux",
        /// Linux 7.x.
        Linux7 = "linux7",
    }
}

/// Parameters of FQ-CoDel.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets in all queues together.
    pub limit: u32,
    /// Number of queues.
    pub flows: u32,
    /// Acceptable standing delay of a queue.
    pub target: Span,
    /// The time within which the delay must once have been below the target.
    pub interval: Span,
    /// Bytes a queue may send in its turn; by default the link's MTU.
    pub quantum: Option<u32>,
    /// Bytes of memory in all queues together.
    pub memory_limit: u32,
    /// The most packets dropped at once from the fattest queue when a limit is met.
    pub drop_batch: u32,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Mark ECN-capable packets whose delay exceeds this.
    pub ce_threshold: Option<Span>,
    /// Whose decisions are taken.
    pub variant: Variant,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 10_240,
            flows: 1024,
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            quantum: None,
            memory_limit: 32 << 20,
            drop_batch: 64,
            ecn: true,
            ce_threshold: None,
            variant: Variant::Linux,
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "fq_codel";
    const DOC: &'static str = "a queue per flow, served in turn, each under CoDel (RFC 8290)";
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets in all queues together").range(1, u32::MAX as u64).printed(),
        param!(Params.flows, Unit::Number, "number of queues that flows are hashed into").range(1, 65_536),
        param!(Params.quantum, Unit::Bytes, "bytes a queue may send in its turn; default: the link's MTU")
            .range(256, 1 << 20),
        param!(Params.target, Unit::Time, "acceptable standing delay of a queue").range(MICROSECOND, MAX_SPAN),
        param!(Params.interval, Unit::Time, "time within which the delay must once have been below target")
            .range(MICROSECOND, MAX_SPAN),
        param!(Params.ce_threshold, Unit::Time, "mark ECN-capable packets delayed longer than this; default: off")
            .range(0, MAX_SPAN),
        param!(Params.memory_limit, Unit::Size, "bytes of memory in all queues together").range(1, 1 << 31),
        param!(Params.drop_batch, Unit::Packets, "most packets dropped at once from the fattest queue")
            .range(1, u32::MAX as u64),
        param!(Params.ecn, Unit::Flag("noecn"), "mark ECN-capable packets instead of dropping them"),
        param!(Params.variant, Unit::Choice(Variant::WORDS, &["rfc8290", "ns2"]), "whose decisions are taken").ours(),
    ];
}
