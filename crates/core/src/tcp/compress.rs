//! SACK compression: while there is a hole, most ACKs of segments above it are merged into one.
//!
//! Facts: `__tcp_ack_snd_check` and `tcp_sack_new_ofo_skb` in tcp_input.c of Linux 7.3; since 4.18. The first three ACKs that report
//! a hole are sent at once, so its loss is detected as early as without compression. Later ACKs wait: the first of them for a third
//! of an RTT, but at most for a millisecond, and the others until the same moment. An ACK is sent at once if 44 ACKs wait, if a block
//! would leave the first two places of the list of SACK blocks, or in quick-ACK mode.
//!
//! Deviations:
//! - Linux's timer may expire late by a slack of 10 µs, as soon as another interrupt occurs. Here it expires at the end of the slack,
//!   or when the connection's next segment arrives.
//! - If a block would leave the first two places, Linux sends the waiting ACK before it adds the new segment to the list; here
//!   that ACK includes the new segment.
//! - The RTT is the one that the sender measured. Linux takes the smaller of two RTTs: the one that the receiver measured, and the
//!   one of the handshake.

use crate::units::{Span, Time};

/// `tcp_comp_sack_delay_ns`.
const DELAY_MAX: Span = Span::from_millis(1);
/// `tcp_comp_sack_rtt_percent`.
const RTT_PERCENT: u64 = 33;
/// `tcp_comp_sack_slack_ns`.
const SLACK: Span = Span::from_micros(10);
/// `TCP_FASTRETRANS_THRESH`.
const FASTRETRANS_THRESH: u8 = 3;
/// `TCP_SACK_BLOCKS_EXPECTED`: the number of blocks that reach the sender next to a timestamp even if an ACK is lost.
pub(super) const BLOCKS_EXPECTED: usize = 2;

/// The ACKs that wait. Fields as in Linux's `tcp_sock`.
#[derive(Clone, Debug, Default)]
pub(super) struct Compress {
    /// The number of ACKs that wait.
    compressed_ack: u32,
    /// `compressed_ack_rcv_nxt`: the hole whose ACKs `dup_ack_counter` counts.
    rcv_nxt: u32,
    /// ACKs of this hole that were sent at once.
    dup_ack_counter: u8,
    /// The earliest time at which the timer may fire.
    soft: Time,
}

impl Compress {
    /// Handles a segment that arrived above the hole at `rcv_nxt`. Returns until when its ACK waits, or `None` if it is sent
    /// at once. `most` is `tcp_comp_sack_nr`.
    pub fn hold(&mut self, now: Time, rcv_nxt: u32, most: u32, rtt_us: u32) -> Option<Time> {
        if self.compressed_ack >= most {
            return None;
        }
        if self.rcv_nxt != rcv_nxt {
            (self.rcv_nxt, self.dup_ack_counter) = (rcv_nxt, 0);
        }
        if self.dup_ack_counter < FASTRETRANS_THRESH {
            self.dup_ack_counter += 1;
            return None;
        }
        if self.compressed_ack == 0 {
            self.soft = now + delay(rtt_us);
        } else if now >= self.soft {
            return None;
        }
        self.compressed_ack += 1;
        Some(self.soft + SLACK)
    }

    /// Returns whether ACKs wait.
    pub fn is_holding(&self) -> bool {
        self.compressed_ack > 0
    }

    /// An ACK was sent. It replaces all ACKs that waited.
    pub fn sent(&mut self) {
        self.compressed_ack = 0;
    }
}

/// The time that the first compressed ACK waits.
fn delay(rtt_us: u32) -> Span {
    if rtt_us == 0 { DELAY_MAX } else { Span(u64::from(rtt_us) * 10 * RTT_PERCENT).min(DELAY_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time in µs until which the ACK of each segment waits: `count` segments above one hole, `apart_us` µs apart.
    fn waits(count: u64, apart_us: u64, rtt_us: u32) -> alloc::vec::Vec<Option<u64>> {
        let mut compress = Compress::default();
        let mut wait = |n| {
            let held = compress.hold(Time(n * apart_us * 1000), 7, 44, rtt_us);
            if held.is_none() {
                compress.sent();
            }
            held.map(|at| at.0 / 1000)
        };
        (0..count).map(&mut wait).collect()
    }

    #[test]
    fn three_acks_leave_at_once_and_then_one_a_millisecond() {
        // From 300 µs to 1310; the segment at 1300 finds the timer due.
        let held = waits(16, 100, 20_000);
        assert_eq!(held[..3], [None; 3]);
        assert!(held[3..13].iter().all(|at| *at == Some(1310)), "{held:?}");
        assert_eq!(held[13], None);
        assert!(held[14..].iter().all(|at| *at == Some(2410)), "{held:?}");
    }

    #[test]
    fn the_delay_is_a_third_of_a_short_rtt() {
        assert_eq!(waits(4, 100, 1000)[3], Some(300 + 330 + 10));
        assert_eq!(waits(4, 100, 0)[3], Some(1310), "unknown");
    }

    #[test]
    fn the_forty_fifth_does_not_wait() {
        let held = waits(48, 1, 50_000);
        assert!(held[3..47].iter().all(Option::is_some), "{held:?}");
        assert_eq!(held[47], None);
    }

    #[test]
    fn another_hole_has_three_acks_of_its_own() {
        let mut compress = Compress::default();
        let mut holds = |rcv_nxt| compress.hold(Time::ZERO, rcv_nxt, 44, 0).is_some();
        assert_eq!([7, 7, 7, 7, 9, 9, 9, 9].map(&mut holds), [false, false, false, true, false, false, false, true]);
    }
}
