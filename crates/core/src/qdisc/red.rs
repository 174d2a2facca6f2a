//! RED: parameters.

use super::codel::{MAX_SPAN, MICROSECOND};
use super::tc::{Param, Parameters, Unit, choice, param};
use crate::units::Span;

choice! {
    /// Whose decisions are taken.
    Variant {
        /// ns-2's, configured automatically from the link.
        Ns2 = "ns2",
    }
}

/// Parameters of RED. Those of ns-2 count in packets, unlike `tc`'s.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets queued.
    pub limit: u32,
    /// Average queue, in packets, above which packets are dropped at random; by default from the link and the target.
    pub min: Option<u32>,
    /// Average queue, in packets, at which the drop probability reaches `probability`; by default 3 `min`.
    pub max: Option<u32>,
    /// Mean packet size in bytes.
    pub avpkt: u32,
    /// Drop probability at `max`.
    pub probability: f64,
    /// Weight of a new sample in the average queue; by default from the link.
    pub q_weight: Option<f64>,
    /// The delay from which `min` is derived.
    pub target: Span,
    /// Between `max` and twice `max` the probability rises to one.
    pub gentle: bool,
    /// Space random drops by waiting.
    pub wait: bool,
    /// Scale the drop probability with the packet's size.
    pub bytes: bool,
    /// Adapt `probability` so that the average stays between `min` and `max`.
    pub adaptive: bool,
    /// Mark ECN-capable packets instead of dropping them early.
    pub ecn: bool,
    /// Whose decisions are taken.
    pub variant: Variant,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 1000,
            min: None,
            max: None,
            avpkt: 500,
            probability: 0.1,
            q_weight: None,
            target: Span::from_millis(5),
            gentle: true,
            wait: true,
            bytes: true,
            adaptive: false,
            ecn: false,
            variant: Variant::Ns2,
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "red";
    const DOC: &'static str = "random early detection: drops at random as the average queue grows";
    // tc's red is the kernel's, with other parameters in other units: none of ours is a line for it.
    const TC: bool = false;
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets queued").range(1, u32::MAX as u64).printed().ours(),
        param!(Params.min, Unit::Packets, "average queue above which packets are dropped; default: from the link")
            .range(1, u32::MAX as u64)
            .ours(),
        param!(Params.max, Unit::Packets, "average queue at which the probability is reached; default: 3 min")
            .range(1, u32::MAX as u64)
            .ours(),
        param!(Params.avpkt, Unit::Bytes, "mean packet size").range(1, 65_535).ours(),
        param!(Params.probability, Unit::Real, "drop probability at max").real_range(1e-9, 1.0).ours(),
        param!(Params.q_weight, Unit::Real, "weight of a new sample in the average; default: from the link")
            .real_range(1e-12, 1.0)
            .ours(),
        param!(Params.target, Unit::Time, "delay from which min is derived").range(MICROSECOND, MAX_SPAN).ours(),
        param!(Params.gentle, Unit::Flag("nogentle"), "let the probability rise to one between max and 2 max").ours(),
        param!(Params.wait, Unit::Flag("nowait"), "space random drops by waiting").ours(),
        param!(Params.bytes, Unit::Flag("nobytes"), "scale the drop probability with the packet's size").ours(),
        param!(Params.adaptive, Unit::Flag("noadaptive"), "adapt the probability").ours(),
        param!(Params.ecn, Unit::Flag("noecn"), "mark ECN-capable packets instead of early drops").ours(),
        param!(Params.variant, Unit::Choice(Variant::WORDS, &["linux"]), "whose decisions are taken").ours().required(),
    ];

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min >= max => Err(("min", "must be below max")),
            _ => Ok(()),
        }
    }
}
