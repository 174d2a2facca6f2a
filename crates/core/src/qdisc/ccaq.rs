//! ccaq: a queue for each flow, whose buffer is as large as the flow's congestion control needs.
//!
//! Two algorithms have this name. The default, `variant servo`, is sojourn's own ([`servo`]): CoDel for each flow, with
//! a target that is adjusted until the link is idle for a small share of the time. `variant paper` is the algorithm of
//! the paper "Congestion Control Aware Queuing" ([`paper`]): a packet limit for each flow, which follows from the
//! flow's queue between two losses.

pub mod paper;
pub mod servo;

pub use paper::Paper;
pub use servo::Servo;

use super::codel::{MAX_SPAN, MICROSECOND};
use super::param::{Param, Parameters, Unit, choice, param};
use crate::units::Span;

choice! {
    /// Which algorithm to use.
    Variant {
        /// A target for each flow, adjusted by the link's idle time.
        Servo = "servo",
        /// Algorithm 1 of the paper, with the removal of excess packets of its final version.
        Paper = "paper",
    }
}

/// Parameters of ccaq.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Which algorithm to use.
    pub variant: Variant,
    /// Packets in all queues together.
    pub limit: u32,
    /// Bytes a flow may send in its turn; by default the link's MTU, with the paper's algorithm twice that.
    pub quantum: Option<u32>,
    /// Servo: the number of queues, a multiple of eight.
    pub flows: u32,
    /// Servo: bytes of memory in all queues together.
    pub memory_limit: u32,
    /// Servo: the share of the time for which the link may be idle while a flow sends, in hundredths of a percent.
    pub idle: u32,
    /// Servo: mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Paper: packets in one flow's queue at first.
    pub flow_limit: u32,
    /// Paper: bytes a new flow may send at first; by default ten times the link's MTU.
    pub initial_quantum: Option<u32>,
    /// Paper: a guard interval is this multiple of the last interval between losses.
    pub multiplier: f64,
    /// Paper: a flow's limit grows at most by this factor at once.
    pub max_increase: f64,
    /// Paper: longest guard interval.
    pub max_gi: Span,
    /// Paper: longest guard interval, as a multiple of the flow's most recent RTT; with 0 only `max_gi` limits it.
    pub max_gi_rtts: f64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            variant: Variant::Servo,
            limit: 10_000,
            quantum: None,
            flows: 1024,
            memory_limit: 32 << 20,
            idle: 100,
            ecn: true,
            flow_limit: 100,
            initial_quantum: None,
            multiplier: 1.25,
            max_increase: 2.0,
            max_gi: Span::from_secs(1),
            max_gi_rtts: 0.0,
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "ccaq";
    const DOC: &'static str = "a queue per flow; each flow's buffer follows what its congestion control needs";
    const TC: bool = false;
    const FIXED: &'static [&'static str] = &["flows", "variant"];
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.variant, Unit::Choice(Variant::WORDS, &[]), "which algorithm to use: servo or paper").ours(),
        param!(Params.limit, Unit::Packets, "packets in all queues together").range(1, u32::MAX as u64).ours(),
        param!(
            Params.quantum,
            Unit::Bytes,
            "bytes a flow may send in its turn; default: the link's MTU, paper: twice the MTU"
        )
        .range(1, 1 << 20)
        .ours(),
        param!(Params.flows, Unit::Number, "servo: number of queues that flows are hashed into, a multiple of 8")
            .range(8, 65_536)
            .ours(),
        param!(Params.memory_limit, Unit::Size, "servo: bytes of memory in all queues together")
            .range(1, 1 << 31)
            .ours(),
        param!(
            Params.idle,
            Unit::Share,
            "servo: share of the time for which the link may be idle while a flow sends; more idle time, less delay"
        )
        .range(1, 2_500)
        .ours(),
        param!(Params.ecn, Unit::Flag("noecn"), "servo: mark ECN-capable packets instead of dropping them").ours(),
        param!(Params.flow_limit, Unit::Packets, "paper: packets in one flow's queue at first")
            .range(1, u32::MAX as u64)
            .ours(),
        param!(Params.initial_quantum, Unit::Bytes, "paper: bytes a new flow may send at first; default: ten MTU")
            .range(1, i32::MAX as u64)
            .ours(),
        param!(Params.multiplier, Unit::Real, "paper: guard interval in units of the last interval between losses")
            .real_range(0.0, 1000.0)
            .ours(),
        param!(Params.max_increase, Unit::Real, "paper: greatest factor by which a flow's limit grows at once")
            .real_range(1.0, 1000.0)
            .ours(),
        param!(Params.max_gi, Unit::Time, "paper: longest guard interval").range(MICROSECOND, MAX_SPAN).ours(),
        param!(
            Params.max_gi_rtts,
            Unit::Real,
            "paper: longest guard interval in the flow's most recent RTTs; 0: only max_gi counts"
        )
        .real_range(0.0, 1000.0)
        .ours(),
    ];

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if !self.flows.is_multiple_of(8) {
            return Err(("flows", "must be a multiple of 8"));
        }
        Ok(())
    }

    fn foreign(&self) -> &'static [&'static str] {
        match self.variant {
            Variant::Servo => &["flow_limit", "initial_quantum", "multiplier", "max_increase", "max_gi", "max_gi_rtts"],
            Variant::Paper => &["flows", "memory_limit", "idle", "ecn"],
        }
    }
}
