//! A connection that is half open at its accepter: when its SYN-ACK is retransmitted, and the RTT that this leaves.
//!
//! Facts: `tcp_check_req`, `tcp_rtx_synack`, `reqsk_timer_handler`, `tcp_reqsk_timeout`, `tcp_synack_rtt_meas` of Linux 7.3. Each SYN-ACK
//! echoes the timestamp of the SYN that came first, and so the opener learns an RTT that holds the time for which it was not heard,
//! and knows whether ECN was asked for by the SYN that counts (a repeated one does not ask). One is sent for each further
//! SYN, and when nothing has come for a second, two, four, … Who has repeated its SYN-ACK knows the RTT by timestamps alone.
//!
//! Deviations: what five repetitions have not opened is not forgotten, but answered for each SYN that still comes; of SYNs that come
//! within half a second each is answered (`__tcp_oow_rate_limited`: one), and so is each SYN-ACK that comes again, and each SYN of
//! an open connection; and who repeated its SYN-ACK twice begins with its whole window all the same (`tcp_init_transfer`).

use crate::tcp::rto::INITIAL;
use crate::units::{Span, Time};
use crate::wheel::Wheel;

/// TCP_SYNACK_RETRIES.
const RETRIES: u32 = 5;

/// The accepter of a connection between its SYN and what ends the handshake.
#[derive(Clone, Debug)]
pub struct HalfOpen {
    /// When the first SYN came.
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

    /// A SYN comes again: so does its SYN-ACK.
    pub fn on_syn(&mut self, now: Time) {
        self.repeated = true;
        self.arm(now);
    }

    /// The time is [`HalfOpen::next_event`]. Whether the SYN-ACK leaves again.
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

    /// The RTT in µs that is known of one that an ACK tells: of a SYN-ACK that was repeated by timestamps, in whole milliseconds
    /// (rounded down, where Linux takes a difference of ticks), or not at all: 0.
    pub fn rtt_us(&self, reported: u32, timestamps: bool) -> u32 {
        match (self.repeated, timestamps) {
            (false, _) => reported,
            (true, true) if reported > 0 => (reported - reported % 1000).max(1000),
            (true, _) => 0,
        }
    }

    /// When [`HalfOpen::on_timer`] wants to be called.
    pub fn next_event(&self) -> Time {
        self.due
    }

    /// How long after the first SYN came a SYN-ACK leaves.
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

    /// 250 Hz: what is set for a second expires at the next multiple of 32 ms, for two and more of 256 ms.
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
