//! DCTCP: a sender that reduces its window in proportion to the fraction of its segments that are marked.
//!
//! Source: RFC 8257, and Linux's tcp_dctcp. Principle: the receiver echoes exactly which segments were marked; alpha is the
//! average of the marked fraction over round trips, and once a round trip with marks the window falls by alpha/2. A queue
//! that marks packets above a length K therefore stays near K. Growth and the response to losses are Reno's.
//!
//! With windows in whole segments, alpha is a multiple of 1/1024, as in Linux. It can then be exactly 0 or 1; an average of
//! fractions only approaches these values. This matters for the smallest windows: Linux halves a window of four segments
//! only if alpha is exactly 1; with 1023/1024 three are left.
//!
//! Deviation: a loss during a reduction by ECN does not reduce the window again (Linux halves the remaining window).

use super::cwnd::Cwnd;
use super::ops::{AckSample, Congestion, CongestionControl, EcnUse, Ops, Reduction};
use super::reno;
use super::setup::{Setup, Windows};

/// RFC 8257 §4.2: the estimation gain is 2^-4 (Linux `dctcp_shift_g`).
const SHIFT_G: u32 = 4;
/// Linux `DCTCP_MAX_ALPHA`: alpha is 1.
const MAX_ALPHA: u32 = 1024;
/// RFC 8257 §3.3: the fewest segments that a reduction leaves (Linux).
const MIN_CWND: f64 = 2.0;

/// The fraction of segments marked, and the counts from which it is updated.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Dctcp {
    alpha: f64,
    /// Alpha is a multiple of 1/1024.
    whole: bool,
    /// Segments delivered in this observation window, and the marked ones among them.
    delivered: u32,
    marked: u32,
    /// The observation window ends when all segments below this number are acknowledged.
    window_end: u32,
}

impl Dctcp {
    /// The state of a connection that has seen no mark. With `whole`, alpha is computed as in Linux.
    fn starting(whole: bool) -> Dctcp {
        // RFC 8257 §3.3: alpha begins at 1, so the first reduction halves the window.
        Dctcp { alpha: 1.0, whole, delivered: 0, marked: 0, window_end: 0 }
    }

    /// Returns the new alpha at the end of an observation window (RFC 8257 §3.3 step 6).
    fn average(&self) -> f64 {
        let m = f64::from(self.marked) / f64::from(self.delivered.max(1));
        self.alpha + (m - self.alpha) / f64::from(1 << SHIFT_G)
    }

    /// Returns the new alpha as Linux computes it (`dctcp_update_alpha`). Decrease and increase are each rounded down. The
    /// decrease takes an alpha of 15/1024 or less to 0 at once.
    fn whole_alpha(&self) -> f64 {
        let alpha = (self.alpha * f64::from(MAX_ALPHA)) as u32;
        let share = alpha >> SHIFT_G;
        let left = if share == 0 { 0 } else { alpha - share };
        let gained = (u64::from(self.marked) << (10 - SHIFT_G)) / u64::from(self.delivered.max(1));
        f64::from((left + gained as u32).min(MAX_ALPHA)) / f64::from(MAX_ALPHA)
    }

    /// RFC 8257 §3.3 step 9: the threshold after marks.
    fn ssthresh_by_alpha(&self, cwnd: f64) -> f64 {
        (cwnd * (1.0 - self.alpha / 2.0)).max(MIN_CWND)
    }
}

impl CongestionControl for Dctcp {
    const OPS: Ops = Ops { in_linux: true, ecn: EcnUse::Dctcp, ..Ops::named("dctcp") };

    fn new(setup: &Setup) -> Dctcp {
        Dctcp::starting(setup.windows == Windows::Linux)
    }

    #[inline]
    fn in_ack_event(&mut self, delivered: u32, ece: bool, ack: &AckSample) {
        self.delivered += delivered;
        self.marked += if ece { delivered } else { 0 };
        // RFC 8257 §3.3 steps 3 to 8, at the end of an observation window. In Linux the window ends when `snd_una` reaches
        // its end; in the RFC, when `snd_una` exceeds it.
        if ack.snd_una >= self.window_end {
            self.alpha = if self.whole { self.whole_alpha() } else { self.average() };
            (self.delivered, self.marked, self.window_end) = (0, 0, ack.snd_nxt);
        }
    }

    #[inline]
    fn cong_avoid(&mut self, cwnd: &mut Cwnd, acked: u32, _: &AckSample) {
        cwnd.reno_cong_avoid(acked);
    }

    fn ssthresh(&mut self, cwnd: &Cwnd, event: &Congestion) -> Reduction {
        let from = cwnd.get();
        let ssthresh = if event.ece { self.ssthresh_by_alpha(from) } else { reno::ssthresh(from) };
        // Linux rounds down the part that is taken away.
        Reduction { from, ssthresh: cwnd.ceil(ssthresh) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::{Algorithm, Control};
    use crate::tcp::{Cc, Config};
    use crate::units::Time;

    fn at(snd_una: u32, snd_nxt: u32) -> AckSample {
        AckSample { now: Time::ZERO, srtt: 0.1, rtt_us: 1, snd_una, snd_nxt }
    }

    #[test]
    fn rfc8257_3_3_alpha_is_the_marked_fraction_averaged_with_a_gain_of_a_sixteenth() {
        let mut dctcp = Dctcp { window_end: 100, ..Dctcp::starting(false) };
        let mut snd_una = 0;
        // `marked` of the hundred segments of each window are marked.
        for (marked, expected) in [(0, 0.9375), (50, 0.9375 * 0.9375 + 0.03125), (100, 0.915771484375)] {
            for i in 1..=100 {
                dctcp.in_ack_event(1, i <= marked, &at(snd_una + i, snd_una + i + 100));
            }
            snd_una += 100;
            dctcp.window_end = snd_una + 100;
            assert!((dctcp.alpha - expected).abs() < 0.0005, "{marked}: {}", dctcp.alpha);
        }
    }

    #[test]
    fn rfc8257_3_3_a_window_ends_when_what_was_sent_at_its_beginning_is_acknowledged() {
        let mut dctcp = Dctcp { window_end: 100, ..Dctcp::starting(false) };
        dctcp.in_ack_event(99, true, &at(99, 180));
        assert_eq!((dctcp.alpha, dctcp.delivered, dctcp.marked), (1.0, 99, 99));
        dctcp.in_ack_event(1, false, &at(100, 190));
        assert_eq!((dctcp.delivered, dctcp.marked, dctcp.window_end), (0, 0, 190));
    }

    #[test]
    fn rfc8257_3_3_the_window_falls_by_half_of_alpha_to_two_segments_at_least() {
        let with = |alpha| Dctcp { alpha, ..Dctcp::starting(false) };
        assert_eq!([1.0, 0.5, 0.0].map(|alpha| with(alpha).ssthresh_by_alpha(40.0)), [20.0, 30.0, 40.0]);
        assert_eq!(with(1.0).ssthresh_by_alpha(3.0), MIN_CWND);
    }

    /// Linux `dctcp_update_alpha`, in 1/1024, after windows of ten segments. The average of fractions stays short of 1 and 0.
    #[test]
    fn linux_alpha_is_rounded_down_and_reaches_one_and_zero() {
        let after = |whole, windows: &[u32]| {
            let mut dctcp = Dctcp { window_end: 1, ..Dctcp::starting(whole) };
            for &marked in windows {
                dctcp.in_ack_event(marked, true, &at(0, 1));
                dctcp.in_ack_event(10 - marked, false, &at(1, 1));
            }
            dctcp.alpha * 1024.0
        };
        assert_eq!([&[0][..], &[0, 3], &[0, 3, 10]].map(|windows| after(true, windows)), [960.0, 919.0, 926.0]);
        let (marked, clean) = ([&[0][..], &[10; 150]].concat(), [0; 150]);
        assert_eq!([after(true, &marked), after(true, &clean)], [1024.0, 0.0]);
        assert!(after(false, &marked) < 1024.0 && after(false, &clean) > 0.0);
    }

    /// Linux `tcp_in_ack_event` counts each ACK once: `pkts_acked` does not count it again.
    #[test]
    fn an_ack_is_counted_once() {
        let mut control = Control::new(&Config { cc: Cc::Dctcp, ecn: true, ..Config::default() });
        control.in_ack_event(1, false, &at(1, 20));
        control.in_ack_event(4, true, &at(5, 20));
        control.pkts_acked(&at(5, 20));
        control.in_ack_event(1, false, &at(6, 20));
        let Algorithm::Dctcp(dctcp) = control.algorithm() else { panic!("another algorithm") };
        assert_eq!((dctcp.delivered, dctcp.marked), (5, 4));
    }
}
