//! TLP (RFC 8985 §7): if the end of a flight is not acknowledged within two round trips, one more segment is sent as a probe.
//!
//! The probe is new data if there is any, else a retransmission of the last segment. Its SACK shows RACK which earlier segments were
//! lost. Without a probe, only the retransmission timer would detect the loss, and all segments would have to be retransmitted.

use crate::units::Span;

/// Linux `TCP_TIMEOUT_INIT`: the probe timeout before there is an RTT sample.
const NO_RTT: Span = Span::from_secs(1);
/// Linux `TCP_TIMEOUT_MIN_US`: the delay that is added to the timers of probes and of RACK's reordering window.
pub(super) const TIMEOUT_MIN: Span = Span::from_millis(2);

/// The loss probe that is outstanding, if there is one.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Tlp {
    /// TLP.end_seq: one past the last segment when the probe was sent; `None` if no probe is outstanding.
    pub end_seq: Option<u32>,
    /// TLP.is_retrans: the probe was a retransmission.
    pub is_retrans: bool,
}

/// The conclusion from an ACK about the outstanding probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Nothing is known yet: the probe stays outstanding.
    Open,
    /// Nothing was lost, or RACK will detect the loss.
    Over,
    /// The probe repaired a loss: it counts as congestion.
    Repaired,
}

/// The evidence of an ACK about a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sign {
    pub cum: u32,
    /// The ACK reports the probe as a duplicate (DSACK).
    pub duplicate: bool,
    /// The ACK reports no new segment, neither cumulatively nor by SACK.
    pub bare: bool,
}

/// RFC 8985 §7.2: the probe timeout (PTO) with `outstanding` segments. A receiver may delay the ACK of a single segment; Linux allows
/// the minimum RTO for this delay.
#[inline(always)]
pub(super) fn pto(srtt: Option<Span>, outstanding: u32, rto_min: Span) -> Span {
    match srtt {
        None => NO_RTT,
        Some(srtt) => Span(2 * srtt.0 + if outstanding == 1 { rto_min.0 } else { TIMEOUT_MIN.0 }),
    }
}

impl Tlp {
    /// Judges an ACK by RFC 8985 §7.4.2, as Linux does (`tcp_process_tlp_ack`).
    pub fn judge(&self, sign: &Sign) -> Verdict {
        match self.end_seq {
            Some(end) if sign.cum >= end => {
                if !self.is_retrans || sign.duplicate || (sign.cum == end && sign.bare) {
                    Verdict::Over
                } else if sign.cum > end {
                    Verdict::Repaired
                } else {
                    Verdict::Open
                }
            }
            _ => Verdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Span = Span::from_millis;

    #[test]
    fn the_probe_waits_for_two_round_trips_and_for_a_delayed_ack_of_a_single_segment() {
        assert_eq!(pto(None, 5, MS(200)), Span::from_secs(1));
        assert_eq!(pto(Some(MS(50)), 5, MS(200)), MS(102));
        assert_eq!(pto(Some(MS(50)), 1, MS(200)), MS(300));
    }

    #[test]
    fn a_probe_counts_as_congestion_only_when_more_is_acknowledged_and_no_duplicate_reported() {
        let sign = Sign { cum: 10, duplicate: false, bare: false };
        let again = Tlp { end_seq: Some(10), is_retrans: true };
        assert_eq!(again.judge(&Sign { cum: 9, ..sign }), Verdict::Open);
        assert_eq!(again.judge(&sign), Verdict::Open, "a duplicate may still be reported");
        assert_eq!(again.judge(&Sign { duplicate: true, ..sign }), Verdict::Over);
        assert_eq!(again.judge(&Sign { bare: true, ..sign }), Verdict::Over);
        assert_eq!(again.judge(&Sign { cum: 11, ..sign }), Verdict::Repaired);
        let fresh = Tlp { is_retrans: false, ..again };
        assert_eq!(fresh.judge(&sign), Verdict::Over);
        assert_eq!(Tlp::default().judge(&sign), Verdict::Open);
    }
}
