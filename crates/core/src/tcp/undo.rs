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

/// The doubt in the repair under way, or in the last one.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Doubt {
    /// SND.UNA when it began (Linux `undo_marker`); none if there is nothing to undo.
    marker: Option<u32>,
    /// Retransmissions that were not reported as duplicates; none before the first.
    retrans: Option<u32>,
    /// When the first retransmission left, in µs modulo 2^32 (Linux `retrans_stamp`).
    stamp: Option<u32>,
    /// None if the reduction must stand: an ECN echo asked for it as well.
    pub prior: Option<Prior>,
    /// Segments reported as duplicates so far.
    dups: u32,
}

impl Doubt {
    /// A repair begins; so many retransmissions are in the network already.
    pub fn begin(&mut self, una: u32, retransmissions: u32) {
        self.marker = Some(una);
        self.retrans = (retransmissions > 0).then_some(retransmissions);
    }

    /// There is nothing to undo any more.
    pub fn end(&mut self) {
        self.marker = None;
    }

    /// Whether there is something to undo.
    pub fn is_open(&self) -> bool {
        self.marker.is_some()
    }

    /// Something is sent again.
    pub fn on_retransmit(&mut self, stamp: u32) {
        self.stamp.get_or_insert(stamp);
        self.retrans = Some(self.retrans.unwrap_or(0) + 1);
    }

    /// Nothing that was sent again is in the network.
    pub fn clear_stamp(&mut self) {
        self.stamp = None;
    }

    /// So many segments are reported as duplicates, to a sender that has sent `sent` again so far; whether they may be its own.
    pub fn on_report(&mut self, segments: u32, sent: u32) -> bool {
        self.dups += segments;
        self.dups <= sent
    }

    /// Retransmissions up to `end` were in vain, so many.
    pub fn on_duplicate(&mut self, end: u32, segments: u32) {
        if self.marker.is_some_and(|marker| end > marker) {
            self.retrans = self.retrans.map(|left| left.saturating_sub(segments));
        }
    }

    /// All that was sent again is reported.
    pub fn all_duplicate(&self) -> bool {
        self.is_open() && self.retrans == Some(0)
    }

    /// What is acknowledged, with this timestamp echo, left before anything was sent again.
    pub fn is_delayed(&self, echo: Option<u32>) -> bool {
        let before = |stamp: u32| echo.is_some_and(|echo| (echo.wrapping_sub(stamp) as i32) < 0);
        self.is_open() && self.stamp.is_none_or(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_sent_again_must_be_reported() {
        let mut doubt = Doubt::default();
        doubt.begin(10, 0);
        assert!(!doubt.all_duplicate(), "nothing was sent again");
        doubt.on_retransmit(5);
        doubt.on_retransmit(6);
        doubt.on_duplicate(11, 1);
        assert!(!doubt.all_duplicate());
        doubt.on_duplicate(10, 1);
        assert!(!doubt.all_duplicate(), "of an earlier repair");
        doubt.on_duplicate(12, 1);
        assert!(doubt.all_duplicate());
        doubt.end();
        assert!(!doubt.all_duplicate());
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission_shows_a_delay() {
        let mut doubt = Doubt::default();
        doubt.begin(0, 0);
        assert!(doubt.is_delayed(Some(4)), "nothing was sent again");
        doubt.on_retransmit(5);
        doubt.on_retransmit(9);
        assert_eq!([Some(4), Some(5), None].map(|echo| doubt.is_delayed(echo)), [true, false, false]);
    }

    #[test]
    fn more_duplicates_than_retransmissions_are_the_networks() {
        let mut doubt = Doubt::default();
        assert!(doubt.on_report(2, 2));
        assert!(!doubt.on_report(1, 2));
    }
}
