//! PAWS for the ACKs that arrive at a sender (RFC 7323 §5). That of the segments at a receiver is in receiver.rs.
//!
//! Facts: `tcp_validate_incoming`, `tcp_disordered_ack_check` and `tcp_replace_ts_recent` of Linux 7.3's tcp_input.c.
//!
//! Deviation: Linux answers a discarded ACK with an ACK, at most twice a second. Here nothing is sent.

use crate::tcp::{Ack, Counters, Sender};
use crate::units::Time;

/// Linux's TCP_PAWS_WINDOW in ms.
const PAWS_WINDOW: u64 = 1;

/// The age of an ACK by its timestamp, compared with the ACKs that have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    /// None was sent later, as far as Linux's clock of 1 ms can tell.
    New,
    /// An ACK that was sent later has arrived, so this one changes neither the window nor the timestamp that is echoed.
    Old,
    /// PAWS discards it, SACK blocks included.
    Discarded,
}

/// The newest timestamp among the ACKs of a connection (Linux `ts_recent`).
#[derive(Clone, Copy, Default, Debug)]
pub struct TsRecent {
    /// When that ACK was sent, in µs.
    sent_us: u64,
    discarded: u64,
}

impl TsRecent {
    /// Checks an ACK that arrives, before [`Sender::on_ack`]: `tsval` is when it was sent, in µs modulo 2^32.
    #[inline]
    pub fn validate(&mut self, now: Time, ack: &Ack, tsval: u32, sender: &Sender) -> Age {
        let now_us = now.0 / 1000;
        let age_us = (now_us as u32).wrapping_sub(tsval).cast_signed();
        let sent_us = now_us.saturating_add_signed(-i64::from(age_us));
        if sent_us >= self.sent_us {
            self.sent_us = sent_us;
            return Age::New;
        }
        self.validate_older(sent_us, ack, sender)
    }

    #[cold]
    #[inline(never)]
    fn validate_older(&mut self, sent_us: u64, ack: &Ack, sender: &Sender) -> Age {
        let late_ms = self.sent_us / 1000 - sent_us / 1000;
        if !sender.has_timestamps() || late_ms == 0 {
            return Age::New;
        }
        if late_ms <= PAWS_WINDOW || !sender.discards(ack, late_ms) {
            return Age::Old;
        }
        self.discarded += 1;
        Age::Discarded
    }

    /// The counters of this end.
    pub fn counters(&self) -> Counters {
        Counters { paws_estab: self.discarded, ..Counters::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Config;
    use crate::units::Span;

    /// The age, at 2.17 s, of an ACK that left at `tsval` µs. An ACK of seven of ten segments, with a window of 1000, left at 2.15 s.
    fn age(timestamps: bool, cum: u32, window: u32, tsval: u32) -> Age {
        let mut sender = Sender::new(&Config { timestamps, ..Config::default() });
        let at = Time(2_100_000_000);
        sender.establish(at, Some(Span::from_millis(50)));
        sender.write(1448 * 40);
        while sender.poll_transmit(at).is_some() {}
        let mut ts_recent = TsRecent::default();
        let newer = Ack { cum: 7, ts_first: 2_100_000, ts_last: 2_100_000, window: 1000, ..Ack::default() };
        assert_eq!(ts_recent.validate(Time(2_160_000_000), &newer, 2_150_000, &sender), Age::New);
        sender.on_ack(Time(2_160_000_000), &newer, &[]);
        let ack = Ack { cum, window, ..Ack::default() };
        let age = ts_recent.validate(Time(2_170_000_000), &ack, tsval, &sender);
        assert_eq!(ts_recent.counters().paws_estab, u64::from(age == Age::Discarded));
        age
    }

    #[test]
    fn rfc7323_5_an_ack_below_snd_una_is_discarded_if_it_is_older_by_two_milliseconds() {
        assert_eq!([2_149_000, 2_148_999].map(|tsval| age(true, 3, 1000, tsval)), [Age::Old, Age::Discarded]);
        assert_eq!([2_150_000, 2_150_999].map(|tsval| age(true, 8, 1000, tsval)), [Age::New; 2]);
        assert_eq!(age(false, 3, 1000, 2_100_000), Age::New, "without timestamps");
    }

    #[test]
    fn a_duplicate_ack_may_be_older_by_an_rto_unless_it_widens_the_window() {
        assert_eq!([1000, 1001].map(|window| age(true, 7, window, 2_140_000)), [Age::Old, Age::Discarded]);
        assert_eq!(age(true, 7, 1000, 1_500_000), Age::Discarded);
    }
}
