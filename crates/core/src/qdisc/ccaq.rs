//! ccaq: parameters.

use super::codel::{MAX_SPAN, MICROSECOND};
use super::tc::{Param, Parameters, Unit, choice, param};
use crate::units::Span;

choice! {
    /// Whose decisions are taken.
    Variant {
        /// Algorithm 1 of the paper, with the final paper's tail cut.
        Paper = "paper",
    }
}

/// Parameters of ccaq.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets in all queues together.
    pub limit: u32,
    /// Packets in one flow's queue at first.
    pub flow_limit: u32,
    /// Bytes a flow may send in its turn; by default twice the link's MTU.
    pub quantum: Option<u32>,
    /// Bytes a new flow may send at first; by default ten times the link's MTU.
    pub initial_quantum: Option<u32>,
    /// A guard interval is so many times the last interval between losses.
    pub multiplier: f64,
    /// A flow's limit grows at most by this factor at once.
    pub max_increase: f64,
    /// Longest guard interval.
    pub max_gi: Span,
    /// Whose decisions are taken.
    pub variant: Variant,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 10_000,
            flow_limit: 100,
            quantum: None,
            initial_quantum: None,
            multiplier: 1.25,
            max_increase: 2.0,
            max_gi: Span::from_secs(1),
            variant: Variant::Paper,
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "ccaq";
    const DOC: &'static str = "a queue per flow; each flow's limit follows what its congestion control needs";
    const TC: bool = false;
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets in all queues together").range(1, u32::MAX as u64).ours(),
        param!(Params.flow_limit, Unit::Packets, "packets in one flow's queue at first")
            .range(1, u32::MAX as u64)
            .ours(),
        param!(Params.quantum, Unit::Bytes, "bytes a flow may send in its turn; default: twice the link's MTU")
            .range(1, 1 << 20)
            .ours(),
        param!(Params.initial_quantum, Unit::Bytes, "bytes a new flow may send at first; default: ten MTU")
            .range(1, i32::MAX as u64)
            .ours(),
        param!(Params.multiplier, Unit::Real, "guard interval in units of the last interval between losses")
            .real_range(0.0, 1000.0)
            .ours(),
        param!(Params.max_increase, Unit::Real, "greatest factor by which a flow's limit grows at once")
            .real_range(1.0, 1000.0)
            .ours(),
        param!(Params.max_gi, Unit::Time, "longest guard interval").range(MICROSECOND, MAX_SPAN).ours(),
        param!(Params.variant, Unit::Choice(Variant::WORDS, &[]), "whose decisions are taken").ours().required(),
    ];
}
