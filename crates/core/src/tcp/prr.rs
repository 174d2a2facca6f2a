//! Proportional Rate Reduction (RFC 6937): the number of segments that each ACK releases while the window is reduced.
//!
//! While more than ssthresh is in flight, segments are sent in proportion to the segments delivered. Below ssthresh the
//! reduction bound applies, until ssthresh is reached: an ACK releases at least as many segments as it delivered, and more if
//! fewer have been sent than delivered. As in Linux, it releases one more while the ACK point advances and no new loss is
//! found (slow start). On entry at least one segment is released: the fast retransmit.

/// State of one reduction. Counts in segments.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Prr {
    /// Segments delivered since the reduction began.
    prr_delivered: u32,
    /// Segments sent since the reduction began.
    prr_out: u32,
    /// RecoverFS: the window that is being reduced.
    recover_fs: u32,
}

impl Prr {
    /// Begins to reduce a window of `recover_fs` segments.
    pub fn new(recover_fs: u32) -> Prr {
        Prr { prr_delivered: 0, prr_out: 0, recover_fs: recover_fs.max(1) }
    }

    /// Segments were sent, new ones or retransmissions.
    #[inline]
    pub fn on_send(&mut self, segments: u32) {
        self.prr_out += segments;
    }

    /// An ACK delivered `delivered` segments (RFC 6937 §3). Returns how many may be sent now. `growing`: the ACK point advanced
    /// and nothing new is lost.
    pub fn on_ack(&mut self, delivered: u32, pipe: u32, ssthresh: u32, growing: bool) -> u32 {
        self.prr_delivered += delivered;
        let sndcnt = if pipe > ssthresh {
            let allowed = u64::from(self.prr_delivered) * u64::from(ssthresh);
            (allowed.div_ceil(u64::from(self.recover_fs)) as u32).saturating_sub(self.prr_out)
        } else {
            let banked = self.prr_delivered.saturating_sub(self.prr_out);
            let limit = banked.max(delivered) + u32::from(growing);
            limit.min(ssthresh - pipe)
        };
        sndcnt.max(u32::from(self.prr_out == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ns-3's numbers are in bytes: MSS 1000, ssthresh 100000, RecoverFS 200000, and one ACK delivers 50000 bytes. Its
    /// window is pipe + sndcnt, which is 225500 with 200500 bytes in flight. This test counts in units of 500 bytes.
    #[test]
    fn ns3_proportional_vector() {
        let sndcnt = Prr::new(400).on_ack(100, 401, 200, false);
        assert_eq!((401 + sndcnt) * 500, 225_500);
    }

    /// With one segment in flight, pipe is below ssthresh. ns-3's window is then 51000 bytes with the conservative
    /// reduction bound (CRB), and one segment larger with the slow start reduction bound (SSRB). This test counts in
    /// segments of 1000 bytes.
    #[test]
    fn ns3_reduction_bound_vectors() {
        let sndcnt = Prr::new(200).on_ack(50, 1, 100, false);
        assert_eq!((1 + sndcnt) * 1000, 51_000);
        let sndcnt = Prr::new(200).on_ack(50, 1, 100, true);
        assert_eq!((1 + sndcnt) * 1000, 52_000);
    }

    #[test]
    fn at_least_one_segment_on_entry() {
        assert_eq!(Prr::new(20).on_ack(0, 19, 10, false), 1);
        let mut prr = Prr::new(20);
        prr.on_send(1);
        assert_eq!(prr.on_ack(1, 19, 10, false), 0);
    }
}
