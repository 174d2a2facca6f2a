//! CoDel: parameters.

use super::tc::{Param, Parameters, Unit, choice, param};
use crate::units::Span;

/// Least time that `tc` can express, in nanoseconds.
pub(super) const MICROSECOND: u64 = 1_000;
/// Greatest time parameter, in nanoseconds: far below where the kernel's 32-bit clocks compare as negative.
pub(super) const MAX_SPAN: u64 = 1_000_000_000_000;

choice! {
    /// Whose decisions are taken.
    Variant {
        /// Linux 6.1 to 6.12.
        Linux = "linux",
        /// Linux 7.x.
        Linux7 = "linux7",
        /// The pseudocode of RFC 8289.
        Rfc8289 = "rfc8289",
    }
}

/// Parameters of CoDel.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets queued.
    pub limit: u32,
    /// Acceptable standing delay.
    pub target: Span,
    /// The time within which the delay must once have been below the target.
    pub interval: Span,
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
            limit: 1000,
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            ecn: false,
            ce_threshold: None,
            variant: Variant::Linux,
        }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "codel";
    const DOC: &'static str = "one queue that drops when the delay stays above a target (RFC 8289)";
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets queued").range(1, u32::MAX as u64).printed(),
        param!(Params.target, Unit::Time, "acceptable standing delay").range(MICROSECOND, MAX_SPAN),
        param!(Params.interval, Unit::Time, "time within which the delay must once have been below target")
            .range(MICROSECOND, MAX_SPAN),
        param!(Params.ecn, Unit::Flag("noecn"), "mark ECN-capable packets instead of dropping them"),
        param!(Params.ce_threshold, Unit::Time, "mark ECN-capable packets delayed longer than this; default: off")
            .range(0, MAX_SPAN),
        param!(Params.variant, Unit::Choice(Variant::WORDS, &["ns2"]), "whose decisions are taken").ours(),
    ];
}
