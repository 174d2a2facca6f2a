//! Counters of TCP by Linux's names, as `/proc/net/netstat` (`nstat`) has them: events that only disorder causes.

use core::ops::AddAssign;

/// Counters of one end, or of several together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// `PAWSEstab`: segments and ACKs that were discarded because their timestamp was old (RFC 7323 §5).
    pub paws_estab: u64,
    /// `TCPDSACKOldSent`: segments that had been acknowledged, and were reported as duplicates (RFC 2883).
    pub dsack_old_sent: u64,
    /// `TCPDSACKOfoSent`: segments that had arrived above a hole, and were reported as duplicates.
    pub dsack_ofo_sent: u64,
}

impl Counters {
    /// The names of the counters, in the order of [`Counters::values`].
    pub const NAMES: [&str; 3] = ["PAWSEstab", "TCPDSACKOldSent", "TCPDSACKOfoSent"];

    /// The values of the counters, in the order of [`Counters::NAMES`].
    pub fn values(&self) -> [u64; 3] {
        [self.paws_estab, self.dsack_old_sent, self.dsack_ofo_sent]
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.paws_estab += other.paws_estab;
        self.dsack_old_sent += other.dsack_old_sent;
        self.dsack_ofo_sent += other.dsack_ofo_sent;
    }
}
