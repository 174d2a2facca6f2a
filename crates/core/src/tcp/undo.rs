//! What shows that a repair was in vain, and what to return to then.
//!
//! Nothing had been lost if all that was sent again is reported as a duplicate (DSACK, RFC 2883 and 3708), if what is
//! acknowledged left before the first retransmission (timestamps, RFC 3522), or if after a timeout something arrives that
//! was never sent again (F-RTO, RFC 5682). Facts: `undo_marker`, `undo_retrans` and `retrans_stamp` of Linux's tcp_input.c.

/// The window before a reduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prior {
    pub cwnd: f64,
    pub ssthresh: f64,
}

/// The undo in the repair under way, or in the last one.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct UndoState {
    /// SND.UNA when it began (Linux `undo_marker`); none if there is nothing to undo.
    undo_marker: Option<u32>,
    /// Retransmissions that were not reported as duplicates; none before the first.
    undo_retrans: Option<u32>,
    /// When the first retransmission left, in µs modulo 2^32 (Linux `retrans_stamp`).
    retrans_stamp: Option<u32>,
    /// None if the reduction must stand: an ECN echo asked for it as well.
    pub prior: Option<Prior>,
    /// Segments reported as duplicates so far.
    dsack_segs: u32,
}

impl UndoState {
    /// A repair begins; so many retransmissions are in the network already.
    pub fn init(&mut self, snd_una: u32, retransmissions: u32) {
        self.undo_marker = Some(snd_una);
        self.undo_retrans = (retransmissions > 0).then_some(retransmissions);
    }

    /// There is nothing to undo any more.
    pub fn clear_marker(&mut self) {
        self.undo_marker = None;
    }

    /// Whether there is something to undo.
    pub fn has_marker(&self) -> bool {
        self.undo_marker.is_some()
    }

    /// Something is sent again.
    pub fn on_retransmit(&mut self, stamp: u32) {
        self.retrans_stamp.get_or_insert(stamp);
        self.undo_retrans = Some(self.undo_retrans.unwrap_or(0) + 1);
    }

    /// Nothing that was sent again is in the network.
    pub fn clear_retrans_stamp(&mut self) {
        self.retrans_stamp = None;
    }

    /// So many segments are reported as duplicates, to a sender that has sent `sent` again so far; whether they may be its own.
    pub fn dsack_seen(&mut self, segments: u32, sent: u32) -> bool {
        self.dsack_segs += segments;
        self.dsack_segs <= sent
    }

    /// Retransmissions up to `end` were in vain, so many.
    pub fn on_dsack(&mut self, end: u32, segments: u32) {
        if self.undo_marker.is_some_and(|marker| end > marker) {
            self.undo_retrans = self.undo_retrans.map(|left| left.saturating_sub(segments));
        }
    }

    /// All that was sent again is reported.
    pub fn all_retrans_dsacked(&self) -> bool {
        self.has_marker() && self.undo_retrans == Some(0)
    }

    /// What is acknowledged, with this timestamp echo, left before anything was sent again.
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
