//! The retransmission timeout: RFC 6298, and Linux's estimator.
//!
//! Both keep SRTT with gain 1/8 and a deviation with gain 1/4, and wait SRTT + 4 deviations. RFC 6298 bounds that sum
//! from below. Linux bounds the variance term instead, so the RTO is at least SRTT + 200 ms. The variance term follows
//! the largest deviation of each round trip, and falls at most once a round trip. An RTT below SRTT raises the deviation
//! by only an eighth of the usual step.

use crate::units::Span;
use crate::wheel::Wheel;

/// RFC 6298 §2.1: the timeout before the first sample, and of a SYN.
pub(super) const INITIAL: Span = Span::from_secs(1);
/// RFC 6298 §5.7: the timeout of data after the SYN timed out, if there was no sample.
pub(super) const AFTER_SYN_LOSS: Span = Span::from_secs(3);
/// Linux's TCP_RTO_MAX (RFC 6298 §2.5 allows any bound of 60 s or more).
pub(super) const MAX: Span = Span::from_secs(120);

/// The estimator of one connection. All times are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rto {
    /// Smoothed RTT; 0 before the first sample.
    srtt: u64,
    /// The variance term: four mean deviations. In Linux it follows their maximum in a round trip, and is at least the minimum RTO.
    rttvar: u64,
    /// Linux: four mean deviations, updated with each sample.
    mdev: u64,
    /// Linux: the largest `mdev` of this round trip.
    mdev_max: u64,
    /// The timeout without backoff.
    rto: u64,
    min: u64,
    /// Linux: the round trip ends when this segment is acknowledged.
    rtt_seq: u32,
    linux: bool,
    backoff: u8,
}

impl Rto {
    pub fn new(min: Span, linux: bool) -> Rto {
        Rto { srtt: 0, rttvar: 0, mdev: 0, mdev_max: 0, rto: INITIAL.0, min: min.0, rtt_seq: 0, linux, backoff: 0 }
    }

    /// Takes a sample. [snd_una, snd_nxt) is outstanding after the ACK that gave it.
    #[inline]
    pub fn sample(&mut self, rtt: Span, snd_una: u32, snd_nxt: u32) {
        // RFC 6298 §5.7: a new sample replaces the backed-off timeout.
        self.backoff = 0;
        if self.srtt == 0 {
            return self.first(rtt.0.max(1), snd_nxt);
        }
        let error = rtt.0 as i64 - self.srtt as i64;
        if self.linux {
            self.linux_deviation(error, snd_una, snd_nxt);
            self.srtt = self.srtt.wrapping_add_signed(error >> 3).max(1);
            self.rto = (self.srtt + self.rttvar).min(MAX.0);
        } else {
            // RFC 6298 §2.3: RTTVAR first, with the old SRTT. rttvar holds 4·RTTVAR, K = 4.
            self.rttvar = self.rttvar + error.unsigned_abs() - (self.rttvar >> 2);
            self.srtt = self.srtt.wrapping_add_signed(error >> 3).max(1);
            self.rto = (self.srtt + self.rttvar).max(self.min).min(MAX.0);
        }
    }

    #[cold]
    fn first(&mut self, rtt: u64, snd_nxt: u32) {
        // RFC 6298 §2.2: SRTT = R, RTTVAR = R/2.
        self.srtt = rtt;
        self.mdev = 2 * rtt;
        self.rttvar = if self.linux { self.mdev.max(self.min) } else { self.mdev };
        self.mdev_max = self.rttvar;
        self.rtt_seq = snd_nxt;
        self.rto = (self.srtt + self.rttvar).max(self.min).min(MAX.0);
    }

    #[inline]
    fn linux_deviation(&mut self, error: i64, snd_una: u32, snd_nxt: u32) {
        let mut step = error.abs() - (self.mdev >> 2) as i64;
        if error < 0 && step > 0 {
            step >>= 3;
        }
        self.mdev = self.mdev.wrapping_add_signed(step);
        if self.mdev > self.mdev_max {
            self.mdev_max = self.mdev;
            self.rttvar = self.rttvar.max(self.mdev_max);
        }
        if snd_una > self.rtt_seq {
            if self.mdev_max < self.rttvar {
                self.rttvar -= (self.rttvar - self.mdev_max) >> 2;
            }
            self.rtt_seq = snd_nxt;
            self.mdev_max = self.min;
        }
    }

    /// The lower bound.
    #[inline]
    pub fn min(&self) -> Span {
        Span(self.min)
    }

    /// The timeout with its backoff.
    #[inline]
    pub fn timeout(&self) -> Span {
        if self.backoff == 0 { Span(self.rto) } else { Span((self.rto << self.backoff).min(MAX.0)) }
    }

    /// Doubles the timeout after it expired (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    /// Rounds the timeout up to whole ticks, before it doubles (Linux `icsk_rto`).
    pub fn round_up(&mut self, wheel: Wheel) {
        self.rto = wheel.span(wheel.ticks(Span(self.rto))).0;
    }

    /// The number of times that the timeout was doubled since the last sample.
    pub fn backoff(&self) -> u8 {
        self.backoff
    }

    /// The handshake is over. If its RTT is not known because a segment was retransmitted, the timeout of data begins at three
    /// seconds (RFC 6298 §5.7; Linux `tcp_init_metrics`).
    pub fn after_handshake(&mut self, sampled: bool) {
        if !sampled {
            self.rto = AFTER_SYN_LOSS.0;
        }
        self.backoff = 0;
    }

    /// The smoothed RTT, once there is one.
    #[inline]
    pub fn srtt(&self) -> Option<Span> {
        if self.srtt == 0 { None } else { Some(Span(self.srtt)) }
    }

    /// The smoothed RTT in seconds, 0 before the first sample.
    #[inline]
    pub fn srtt_secs(&self) -> f64 {
        self.srtt as i64 as f64 * 1e-9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn rfc_6298_by_hand() {
        let mut rto = Rto::new(Span::from_secs(1), false);
        assert_eq!(rto.timeout(), Span::from_secs(1)); // §2.1
        rto.sample(Span::from_millis(800), 0, 1);
        assert_eq!(rto.timeout(), Span::from_millis(800 + 4 * 400)); // §2.2
        rto.sample(Span::from_millis(1600), 0, 1);
        // RTTVAR = 3/4·400 + 1/4·800 = 500, SRTT = 7/8·800 + 1/8·1600 = 900
        assert_eq!(rto.srtt(), Some(Span::from_millis(900)));
        assert_eq!(rto.timeout(), Span::from_millis(900 + 4 * 500));
        rto.sample(Span::from_millis(100), 0, 1);
        // RTTVAR = 3/4·500 + 1/4·800 = 575, SRTT = 7/8·900 + 1/8·100 = 800
        assert_eq!(rto.timeout(), Span::from_millis(800 + 4 * 575));
    }

    #[test]
    fn rfc_6298_bounds_and_doubles() {
        let mut rto = Rto::new(Span::from_secs(1), false);
        rto.sample(Span::from_millis(10), 0, 1);
        assert_eq!(rto.timeout(), Span::from_secs(1));
        rto.back_off();
        rto.back_off();
        assert_eq!(rto.timeout(), Span::from_secs(4));
        (0..40).for_each(|_| rto.back_off());
        assert_eq!(rto.timeout(), Span::from_secs(120));
        rto.sample(Span::from_millis(10), 0, 1);
        assert_eq!(rto.timeout(), Span::from_secs(1));
    }

    #[test]
    fn linux_bounds_the_variance_not_the_sum() {
        let mut rto = Rto::new(Span::from_millis(200), true);
        rto.sample(Span::from_millis(50), 0, 1);
        assert_eq!(rto.timeout(), Span::from_millis(250));
        for i in 1..100 {
            rto.sample(Span::from_millis(50), i, i + 1);
        }
        assert_eq!(rto.timeout(), Span::from_millis(250));
    }

    #[test]
    fn linux_by_hand() {
        let mut rto = Rto::new(Span::from_millis(200), true);
        rto.sample(Span::from_millis(400), 0, 10); // srtt 400, mdev 800 = rttvar
        assert_eq!(rto.timeout().0, 1200 * MS);
        rto.sample(Span::from_millis(800), 5, 15); // error 400: mdev = 800 + 400 - 200 = 1000, srtt = 450
        assert_eq!(rto.timeout().0, 1450 * MS);
        // A falling RTT: error -350, step (350 - 250)/8 = 12.5: mdev 1012.5 rather than 1100. srtt = 406.25
        rto.sample(Span::from_millis(100), 6, 16);
        assert_eq!(rto.timeout().0, 406_250_000 + 1_012_500_000);
        // A falling deviation counts whole: error 0: mdev = 759.375; the variance holds until the round trip ends …
        rto.sample(Span(406_250_000), 7, 17);
        assert_eq!(rto.timeout().0, 406_250_000 + 1_012_500_000);
        // … and its maximum was this trip's: no fall yet when segment 10 is passed.
        rto.sample(Span(406_250_000), 11, 21);
        assert_eq!(rto.timeout().0, 406_250_000 + 1_012_500_000);
        // The next trip: mdev = 427.148 is its maximum; the variance closes a quarter of the gap.
        rto.sample(Span(406_250_000), 22, 32);
        let mdev = 759_375_000 * 3 / 4 * 3 / 4;
        assert!((rto.timeout().0 as i64 - (406_250_000 + 1_012_500_000 - (1_012_500_000 - mdev) / 4)).abs() < 8);
    }

    /// Linux `icsk_rto`: 303 ms are 76 ticks of 4 ms, and those double.
    #[test]
    fn whole_ticks_double() {
        let mut rto = Rto::new(Span::from_millis(200), true);
        rto.sample(Span::from_millis(101), 0, 0);
        assert_eq!(rto.timeout(), Span::from_millis(303));
        (0..2).for_each(|_| {
            rto.round_up(Wheel::new(250));
            rto.back_off();
        });
        assert_eq!(rto.timeout(), Span::from_millis(4 * 304));
    }
}
