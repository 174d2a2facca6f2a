//! dualpi2's parameters, as `tc` has them since 6.17, and what it derives from round trip times.

use crate::qdisc::codel::{MAX_SPAN, MICROSECOND};
use crate::qdisc::param::{Field, Param, Parameters, Unit, Value, choice, param};
use crate::units::Span;

choice! {
    /// Which implementation to follow.
    Variant {
        /// Linux's, 6.17 and later.
        Linux = "linux",
        /// The pseudocode of RFC 9332's appendix A.
        Rfc9332 = "rfc9332",
    }
}

/// The step threshold, beyond which every packet of the L queue is marked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StepThresh {
    /// Marks packets that waited longer than this.
    Time(Span),
    /// Marks packets that leave more packets than this behind.
    Packets(u32),
}

impl Field for StepThresh {
    fn value(&self) -> Value {
        match self {
            StepThresh::Time(span) => Value::Int(span.0),
            StepThresh::Packets(packets) => Value::Packets(u64::from(*packets)),
        }
    }
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Int(ns) => Some(StepThresh::Time(Span(ns))),
            Value::Packets(packets) => u32::try_from(packets).ok().map(StepThresh::Packets),
            _ => None,
        }
    }
}

/// Parameters of dualpi2.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Packets in both queues; by default 10 000, with `rfc9332` 250 ms at the link's rate.
    pub limit: Option<u32>,
    /// Bytes of memory in both queues; by default two MTUs for each packet of `limit`.
    pub memlimit: Option<u32>,
    /// The ratio of the L queue's probability to the base probability (k).
    pub coupling_factor: u32,
    /// The step threshold beyond which all packets of the L queue are marked, with `linux`.
    pub step_thresh: StepThresh,
    /// The step applies to arrivals that find at least this number of packets in the L queue, with `linux`.
    pub min_qlen_step: u32,
    /// Whether the queues drop packets once the marking probability reaches 100 %; otherwise they may overflow.
    pub drop_on_overload: bool,
    /// Apply the probabilities to arrivals, not to departures; with `linux`.
    pub drop_enqueue: bool,
    /// Whether all ECN-capable packets go into the L queue, not only ECT(1) and CE.
    pub any_ect: bool,
    /// The C queue's weight in percent; by default 10, with `rfc9332` a sixteenth.
    pub classic_protection: Option<u32>,
    /// The greatest RTT to be expected. With `linux` it sets target, tupdate, alpha and beta; with `rfc9332`, tupdate,
    /// alpha and beta.
    pub max_rtt: Option<Span>,
    /// The typical RTT: like a `max_rtt` of six times this value.
    pub typical_rtt: Option<Span>,
    /// The delay that the controller aims at.
    pub target: Span,
    /// Time between two updates of the probability; by default 16 ms, with `rfc9332` derived from `max_rtt`.
    pub tupdate: Option<Span>,
    /// Weight of the delay's distance from the target, in Hz; by default 0.16, with `rfc9332` derived from `max_rtt`.
    pub alpha: Option<f64>,
    /// Weight of the delay's change, in Hz; by default 3.2, with `rfc9332` derived from `max_rtt`.
    pub beta: Option<f64>,
    /// Split packets that arrive aggregated. It has no effect here.
    pub split_gso: bool,
    /// The delay at which the L queue's ramp begins, with `rfc9332`.
    pub min_th: Span,
    /// The length of the L queue's ramp, with `rfc9332`.
    pub range: Span,
    /// Which implementation to follow.
    pub variant: Variant,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: None,
            memlimit: None,
            coupling_factor: 2,
            step_thresh: StepThresh::Time(Span::from_millis(1)),
            min_qlen_step: 0,
            drop_on_overload: true,
            drop_enqueue: false,
            any_ect: false,
            classic_protection: None,
            max_rtt: None,
            typical_rtt: None,
            target: Span::from_millis(15),
            tupdate: None,
            alpha: None,
            beta: None,
            split_gso: true,
            min_th: Span::from_micros(800),
            range: Span::from_micros(400),
            variant: Variant::Linux,
        }
    }
}

/// The greatest time that fits into Linux's 32 bits of nanoseconds.
const MOST_NS: u64 = u32::MAX as u64 / MICROSECOND * MICROSECOND;
/// `tc` hands alpha and beta to the kernel in units of 1 Hz divided by this.
pub(super) const ALPHA_BETA_SCALE: f64 = 256.0;
/// The greatest alpha or beta, in these units.
const ALPHA_BETA_MAX: f64 = ((2 << 23) - 1) as f64;
/// The least alpha or beta, in Hz: 1/256.
const ALPHA_BETA_MIN: f64 = 1.0 / ALPHA_BETA_SCALE;

impl Parameters for Params {
    const NAME: &'static str = "dualpi2";
    const DOC: &'static str = "a queue for L4S and a classic one, coupled (RFC 9332)";

    /// Linux stores the values that it computed from the limit and the RTTs, not these parameters.
    fn before_change(&self) -> Self {
        let target = Gains::of_rtts(self).map_or(self.target, |gains| gains.target);
        let reckoned = Params { limit: None, memlimit: None, classic_protection: None, ..self.clone() };
        Params { target, max_rtt: None, typical_rtt: None, tupdate: None, alpha: None, beta: None, ..reckoned }
    }

    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.limit, Unit::Packets, "packets in both queues; default: 10000, or 250 ms at the link's rate")
            .range(1, u32::MAX as u64)
            .zero_unsent(),
        param!(Params.memlimit, Unit::Octets, "bytes of memory in both queues; default: two MTUs for each packet")
            .range(1, u32::MAX as u64)
            .zero_unsent(),
        param!(Params.coupling_factor, Unit::Number, "L's probability in multiples of the base probability")
            .range(1, 255),
        param!(Params.step_thresh, Unit::TimeOrPackets, "delay or packets left from where on L is marked")
            .range(MICROSECOND, MOST_NS)
            .zero_unsent(),
        param!(
            Params.min_qlen_step,
            Unit::Packets,
            "step_thresh applies to arrivals that find at least this number of packets in L"
        )
        .range(0, u32::MAX as u64),
        param!(Params.drop_on_overload, Unit::Flag("overflow"), "drop when marks reach 100 %, else let it overflow"),
        param!(Params.drop_enqueue, Unit::Flag("drop_dequeue"), "apply the probabilities to arrivals"),
        param!(Params.any_ect, Unit::Flag("l4s_ect"), "all ECN-capable packets go into L, not only ECT(1) and CE"),
        param!(Params.classic_protection, Unit::Percent, "C's weight; default: 10 %, or a sixteenth").range(0, 100),
        param!(Params.max_rtt, Unit::Time, "greatest RTT to be expected: sets target, tupdate, alpha and beta")
            .range(MICROSECOND, MOST_NS)
            .shown_if_set()
            .zero_unsent(),
        param!(Params.typical_rtt, Unit::Time, "typical RTT: a sixth of max_rtt")
            .range(MICROSECOND, MOST_NS)
            .shown_if_set()
            .zero_unsent(),
        param!(Params.target, Unit::Time, "delay aimed at").range(MICROSECOND, MAX_SPAN).zero_unsent(),
        param!(Params.tupdate, Unit::Time, "time between two updates; default: 16 ms, or by max_rtt")
            .range(MICROSECOND, MOST_NS)
            .zero_unsent(),
        param!(Params.alpha, Unit::Real, "weight of the delay's distance from target, in Hz; default: 0.16")
            .real_range(ALPHA_BETA_MIN, ALPHA_BETA_MAX / ALPHA_BETA_SCALE),
        param!(Params.beta, Unit::Real, "weight of the delay's change, in Hz; default: 3.2")
            .real_range(ALPHA_BETA_MIN, ALPHA_BETA_MAX / ALPHA_BETA_SCALE),
        param!(Params.split_gso, Unit::Flag("no_split_gso"), "split what arrives aggregated: no effect here"),
        param!(Params.min_th, Unit::Time, "with rfc9332: delay at which L's ramp begins").range(0, MAX_SPAN).ours(),
        param!(Params.range, Unit::Time, "with rfc9332: length of L's ramp").range(0, MAX_SPAN).ours(),
        param!(Params.variant, Unit::Choice(Variant::WORDS, &[]), "which implementation to follow: linux or rfc9332")
            .ours(),
    ];

    fn foreign(&self) -> &'static [&'static str] {
        match self.variant {
            Variant::Linux => &["min_th", "range"],
            Variant::Rfc9332 => &["typical_rtt", "drop_enqueue", "drop_on_overload", "step_thresh", "min_qlen_step"],
        }
    }

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        match Gains::of_rtts(self) {
            _ if self.max_rtt.zip(self.typical_rtt).is_some_and(|(max, typical)| typical > max) => {
                Err(("typical_rtt", "must not exceed max_rtt"))
            }
            Some(gains) if gains.beta > ALPHA_BETA_MAX / ALPHA_BETA_SCALE => Err(("max_rtt", "is too short")),
            Some(gains) if gains.alpha < ALPHA_BETA_MIN || gains.beta < ALPHA_BETA_MIN => {
                Err(("max_rtt", "is too long"))
            }
            _ => Ok(()),
        }
    }
}

/// The controller's gains, and its target and period.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Gains {
    pub target: Span,
    pub tupdate: Span,
    /// Hz.
    pub alpha: f64,
    /// Hz.
    pub beta: f64,
}

impl Gains {
    /// Returns the gains that `tc` derives from the RTTs; `None` if no RTT is given. As in `tc`, times are whole
    /// microseconds, and the constants 0.1 and 0.3 have single precision.
    pub fn of_rtts(params: &Params) -> Option<Gains> {
        let micros = |span: Span| span.0 / MICROSECOND;
        let (max, typical) = match (params.max_rtt.map(micros), params.typical_rtt.map(micros)) {
            (None, None) => return None,
            (Some(max), None) => (max, (max / 6).max(1)),
            (None, Some(typical)) => (typical * 6, typical),
            (Some(max), Some(typical)) => (max, typical),
        };
        let third = max as f64 / 3.0;
        let tupdate = if (typical as f64) < third { typical } else { third as u64 }.max(1);
        Some(Gains {
            target: Span::from_micros(typical),
            tupdate: Span::from_micros(tupdate),
            alpha: tupdate as f64 / max as f64 / max as f64 * 1e6 * f64::from(0.1f32),
            beta: f64::from(0.3f32) / max as f64 * 1e6,
        })
    }
}
