//! Undo: the evidence that a recovery was spurious, and the window that is restored then.
//!
//! Nothing had been lost if every retransmission is reported as a duplicate (DSACK, RFC 2883 and 3708), if the acknowledged segment
//! was sent before the first retransmission (timestamps, RFC 3522), or if after a timeout a segment arrives that was never
//! retransmitted (F-RTO, RFC 5682). Facts: `undo_marker`, `undo_retrans` and `retrans_stamp` of Linux's tcp_input.c.

/// The congestion window and slow start threshold before a reduction, in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prior {
    pub cwnd: f64,
    pub ssthresh: f64,
}

/// The undo state of the recovery under way, or of the last one.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct UndoState {
    /// SND.UNA when the recovery began; `None` if there is nothing to undo.
    undo_marker: Option<u32>,
    /// Retransmissions not reported as duplicates yet; `None` before the first retransmission.
    undo_retrans: Option<u32>,
    /// When the first retransmission was sent, in µs modulo 2^32.
    retrans_stamp: Option<u32>,
    /// The window to return to; `None` if the reduction must stand, because an ECN echo asked for it as well.
    pub prior: Option<Prior>,
    /// Segments reported as duplicates by DSACKs so far.
    dsack_segs: u32,
}

impl UndoState {
    /// A recovery begins, with `retransmissions` in flight already (Linux `tcp_init_undo`).
    pub fn init(&mut self, snd_una: u32, retransmissions: u32) {
        self.undo_marker = Some(snd_una);
        self.undo_retrans = (retransmissions > 0).then_some(retransmissions);
    }

    /// Notes that there is nothing left to undo.
    pub fn clear_marker(&mut self) {
        self.undo_marker = None;
    }

    /// Returns whether there is something to undo.
    pub fn has_marker(&self) -> bool {
        self.undo_marker.is_some()
    }

    /// A segment is retransmitted at `stamp`.
    pub fn on_retransmit(&mut self, stamp: u32) {
        self.retrans_stamp.get_or_insert(stamp);
        self.undo_retrans = Some(self.undo_retrans.unwrap_or(0) + 1);
    }

    /// Forgets the time of the first retransmission, since no retransmission is outstanding.
    pub fn clear_retrans_stamp(&mut self) {
        self.retrans_stamp = None;
    }

    /// Handles a DSACK that reports `segments` duplicates, at a sender that has retransmitted `sent` segments so far.
    /// Returns whether its retransmissions can explain all duplicates; otherwise the network duplicated packets.
    pub fn dsack_seen(&mut self, segments: u32, sent: u32) -> bool {
        self.dsack_segs += segments;
        self.dsack_segs <= sent
    }

    /// A DSACK reports `segments` retransmissions below `end` as spurious.
    pub fn on_dsack(&mut self, end: u32, segments: u32) {
        if self.undo_marker.is_some_and(|marker| end > marker) {
            self.undo_retrans = self.undo_retrans.map(|left| left.saturating_sub(segments));
        }
    }

    /// Returns whether every retransmission has been reported as a duplicate.
    pub fn all_retrans_dsacked(&self) -> bool {
        self.has_marker() && self.undo_retrans == Some(0)
    }

    /// Returns whether an ACK with this timestamp echo acknowledges a segment sent before the first retransmission (Linux
    /// `tcp_packet_delayed`).
    pub fn packet_delayed(&self, echo: Option<u32>) -> bool {
        let before = |stamp: u32| echo.is_some_and(|echo| (echo.wrapping_sub(stamp) as i32) < 0);
        self.has_marker() && self.retrans_stamp.is_none_or(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_sent_again_must_be_reported() {
        let mut undo = UndoState::default();
        undo.init(10, 0);
        assert!(!undo.all_retrans_dsacked(), "nothing was sent again");
        undo.on_retransmit(5);
        undo.on_retransmit(6);
        undo.on_dsack(11, 1);
        assert!(!undo.all_retrans_dsacked());
        undo.on_dsack(10, 1);
        assert!(!undo.all_retrans_dsacked(), "of an earlier repair");
        undo.on_dsack(12, 1);
        assert!(undo.all_retrans_dsacked());
        undo.clear_marker();
        assert!(!undo.all_retrans_dsacked());
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission_shows_a_delay() {
        let mut undo = UndoState::default();
        undo.init(0, 0);
        assert!(undo.packet_delayed(Some(4)), "nothing was sent again");
        undo.on_retransmit(5);
        undo.on_retransmit(9);
        assert_eq!([Some(4), Some(5), None].map(|echo| undo.packet_delayed(echo)), [true, false, false]);
    }

    #[test]
    fn more_duplicates_than_retransmissions_are_the_networks() {
        let mut undo = UndoState::default();
        assert!(undo.dsack_seen(2, 2));
        assert!(!undo.dsack_seen(1, 2));
    }
}
