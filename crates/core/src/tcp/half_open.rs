//! A connection that is half open at its accepter. This module decides when the SYN-ACK is retransmitted, and measures the
//! handshake's RTT.
//!
//! Facts: `tcp_check_req`, `tcp_rtx_synack`, `reqsk_timer_handler`, `tcp_reqsk_timeout`, `tcp_synack_rtt_meas` of Linux 7.3. Each SYN-ACK
//! echoes the timestamp of the first SYN that arrived. If a SYN-ACK is lost, the opener's RTT therefore includes the time until the
//! next one. The echo also shows which SYN arrived first, and so whether ECN was negotiated: a retransmitted SYN does not ask for it.
//! A SYN-ACK is sent for each further SYN, and when nothing has arrived for 1 s, 2 s, 4 s, … An accepter that has retransmitted its
//! SYN-ACK knows the RTT by timestamps only.
//!
//! Deviations:
//! - A connection that is not open after five retransmissions is kept: each further SYN is answered.
//! - Every SYN and every duplicate SYN-ACK is answered, and so is each SYN of an open connection. Linux answers only one within half a
//!   second (`__tcp_oow_rate_limited`).
//! - An accepter that retransmitted its SYN-ACK twice still begins with its whole initial window. Linux begins with one segment
//!   (`tcp_init_transfer`).

use crate::tcp::rto::INITIAL;
use crate::units::{Span, Time};
use crate::wheel::Wheel;

/// TCP_SYNACK_RETRIES.
const RETRIES: u32 = 5;

/// The accepter of a connection between the first SYN and the end of the handshake.
#[derive(Clone, Debug)]
pub struct HalfOpen {
    /// The arrival of the first SYN.
    since: Time,
    due: Time,
    /// `num_timeout`.
    timeouts: u32,
    repeated: bool,
    wheel: Wheel,
}

impl HalfOpen {
    /// A first SYN arrives at a kernel with `hz` ticks a second; its SYN-ACK is sent.
    pub fn new(now: Time, hz: u32) -> HalfOpen {
        let mut this = HalfOpen { since: now, due: Time::NEVER, timeouts: 0, repeated: false, wheel: Wheel::new(hz) };
        this.arm(now);
        this
    }

    /// A SYN arrives again: its SYN-ACK is retransmitted.
    pub fn on_syn(&mut self, now: Time) {
        self.repeated = true;
        self.arm(now);
    }

    /// The timer: call at [`HalfOpen::next_event`]. Returns whether the SYN-ACK is retransmitted.
    pub fn on_timer(&mut self, now: Time) -> bool {
        if self.timeouts >= RETRIES {
            self.due = Time::NEVER;
            return false;
        }
        self.timeouts += 1;
        self.repeated = true;
        self.arm(now);
        true
    }

    /// The RTT in µs that the accepter takes from an ACK that shows `reported` µs; 0 if it is unknown. After a retransmission only
    /// timestamps show it, in whole milliseconds (rounded down; Linux takes the difference of two timestamps in ticks).
    pub fn rtt_us(&self, reported: u32, timestamps: bool) -> u32 {
        match (self.repeated, timestamps) {
            (false, _) => reported,
            (true, true) if reported > 0 => (reported - reported % 1000).max(1000),
            (true, _) => 0,
        }
    }

    /// When [`HalfOpen::on_timer`] must be called.
    pub fn next_event(&self) -> Time {
        self.due
    }

    /// The time from the first SYN to a SYN-ACK that is sent now.
    pub fn waited(&self, now: Time) -> Span {
        now.since(self.since)
    }

    fn arm(&mut self, now: Time) {
        self.due = self.wheel.expiry(now, now + Span(INITIAL.0 << self.timeouts));
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// At 250 Hz a timer of one second expires at the next multiple of 32 ms, one of two seconds or more at one of 256 ms.
    #[test]
    fn a_syn_ack_leaves_again_after_one_second_two_four_and_five_times_at_most() {
        let mut half = HalfOpen::new(at_ms(100), 250);
        let mut times = Vec::new();
        while half.next_event() != Time::NEVER {
            let now = half.next_event();
            if half.on_timer(now) {
                times.push(half.waited(now).0 / 1_000_000);
            }
        }
        assert_eq!(times, [1020, 3036, 7068, 15260, 31388]);
    }

    #[test]
    fn a_syn_that_comes_again_puts_the_timer_off() {
        let mut half = HalfOpen::new(at_ms(0), 250);
        half.on_syn(at_ms(1000));
        assert_eq!(half.next_event(), at_ms(2016));
        assert_eq!(half.waited(at_ms(1000)), Span::from_secs(1));
    }

    #[test]
    fn the_rtt_of_what_was_repeated_is_known_by_timestamps_alone() {
        let once = HalfOpen::new(at_ms(0), 250);
        assert_eq!([true, false].map(|timestamps| once.rtt_us(1_200_300, timestamps)), [1_200_300; 2]);
        let (mut asked, mut waited) = (once.clone(), once);
        asked.on_syn(at_ms(500));
        assert!(waited.on_timer(at_ms(1024)));
        for half in [asked, waited] {
            assert_eq!([true, false].map(|timestamps| half.rtt_us(80_700, timestamps)), [80_000, 0]);
            assert_eq!([300, 0].map(|reported| half.rtt_us(reported, true)), [1000, 0]);
        }
    }
}
