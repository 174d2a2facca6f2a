//! Pacing by TCP itself, as in Linux (`tcp_output.c`). Segments are sent in bursts that take up to a millisecond at the pacing rate.
//! Each burst is sent when the one before it would be complete at that rate.
//!
//! Deviation: the pacer does not count segments that wait in the host (TCP small queues; see small_queue.rs).

use crate::units::{Span, Time};

/// Linux `sk_pacing_shift`: a burst takes 2^-10 s at the pacing rate.
pub(super) const PACING_SHIFT: u32 = 10;
/// Prague's shift: a burst takes 2^-12 s at the pacing rate. Close peers get no longer bursts.
pub(super) const FINE_SHIFT: u32 = 12;
/// The most bytes of a burst: Linux's `GSO_LEGACY_MAX_SIZE` minus 1 and minus `MAX_TCP_HEADER`.
pub(super) const GSO_MAX_SIZE: u64 = 65_536 - 1 - 256;
/// Linux `tcp_tso_rtt_log`: close peers get longer bursts. The additional length halves with each 2^9 µs of RTT.
const TSO_RTT_LOG: u32 = 9;
/// Linux `bbr_min_tso_rate` in bytes a second: below it segments leave one by one.
const MIN_TSO_RATE: u64 = 1_200_000 / 8;
/// Linux `tcp_update_skb_after_send`: the first segments are not paced.
const UNPACED: u32 = 10;
const NS: u64 = 1_000_000_000;

/// The time of the next burst, and its length.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pacer {
    /// Payload bytes a second, and the time of a full segment at that rate, in ns.
    rate: u64,
    spacing: u64,
    mss: u32,
    /// The most segments of a burst at any rate (Linux `gso_max_segs`).
    most: u32,
    /// A burst takes 2^-`shift` s at the rate.
    shift: u32,
    /// When the next burst may be sent (Linux `tcp_wstamp_ns`).
    next: Time,
    /// When the sender must be woken; [`Time::NEVER`] if no segment waits.
    wake: Time,
    /// When the current burst is sent.
    slot: Time,
    /// Segments of the current burst that are still to be sent.
    quota: u32,
    /// The lateness of the current burst in ns, as far as it may still shorten the wait for the next.
    credit: u64,
    /// The current burst has several segments.
    several: bool,
    /// The current burst is paced.
    paced: bool,
    /// Segments sent so far, counted up to [`UNPACED`].
    sent: u32,
}

/// The number of segments of `mss` bytes that Linux's BBR wants in a burst at this rate (`bbr_tso_segs_goal`).
pub(super) fn send_quantum(rate: u64, mss: u32) -> u32 {
    let bytes = (rate >> PACING_SHIFT).min(GSO_MAX_SIZE) as u32;
    (bytes / mss).max(least(rate)).min(0x7f)
}

/// The number of segments in the longest burst (Linux `tcp_tso_autosize`), at least `least`. `rate` is in bytes a second, and
/// `min_rtt` is the shortest RTT in µs; with it, close peers get longer bursts.
pub(super) fn tso_autosize(rate: u64, min_rtt: Option<u64>, mss: u32, least: u32) -> u32 {
    let close = min_rtt.map_or(0, |us| GSO_MAX_SIZE.checked_shr((us >> TSO_RTT_LOG).min(64) as u32).unwrap_or(0));
    let bytes = ((rate >> PACING_SHIFT) + close).min(GSO_MAX_SIZE) as u32;
    (bytes / mss).max(least)
}

/// The most segments that fit into an skb; at least one.
pub(super) fn gso_segments(gso_max_segs: u32, mss: u32) -> u32 {
    gso_max_segs.min((GSO_MAX_SIZE / u64::from(mss.max(1))) as u32).max(1)
}

/// The longest burst that a window of `cwnd` segments allows: half a window, so that there are two bursts in it (Linux
/// `tcp_cwnd_test`).
pub(super) fn half(cwnd: u32) -> u32 {
    (cwnd / 2).max(1)
}

fn least(rate: u64) -> u32 {
    if rate < MIN_TSO_RATE { 1 } else { 2 }
}

impl Pacer {
    /// Returns a pacer for segments of `mss` payload bytes. A burst has at most `most` segments, and takes 2^-`shift` s at the rate.
    pub fn new(mss: u32, most: u32, shift: u32) -> Pacer {
        Pacer {
            rate: 0,
            spacing: u64::from(mss.max(1)) * NS,
            mss: mss.max(1),
            most: most.max(1),
            shift,
            next: Time::ZERO,
            wake: Time::NEVER,
            slot: Time::NEVER,
            quota: 0,
            several: false,
            credit: 0,
            paced: false,
            sent: 0,
        }
    }

    /// Payload bytes a second.
    #[inline]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Sets the pacing rate in payload bytes a second.
    #[inline]
    pub fn set_rate(&mut self, rate: u64) {
        if rate != self.rate {
            self.rate = rate;
            self.spacing = self.time_of(self.mss);
        }
    }

    /// The time in ns that a payload takes at the rate.
    fn time_of(&self, payload: u32) -> u64 {
        u64::from(payload) * NS / self.rate.max(1)
    }

    /// When a segment that waits for its paced departure may be sent.
    #[inline]
    pub fn wake(&self) -> Time {
        self.wake
    }

    /// The sender was woken: the pacer no longer asks for it.
    pub fn woken(&mut self) {
        self.wake = Time::NEVER;
    }

    /// The time from `now` to the next paced departure; zero if it may be now.
    pub fn ahead(&self, now: Time) -> Span {
        self.next.since(now)
    }

    /// The number of segments in the longest burst at the present rate.
    pub fn burst(&self, min_rtt: Option<u64>) -> u32 {
        let near = min_rtt.filter(|_| self.shift == PACING_SHIFT);
        tso_autosize(self.rate >> (self.shift - PACING_SHIFT), near, self.mss, least(self.rate)).min(self.most)
    }

    /// Returns whether a burst could begin now, but the window has `room` for less than a full one. If so, returns the time from which
    /// a burst could begin.
    pub fn is_short(&self, now: Time, room: u32, min_rtt: Option<u64>) -> Option<Time> {
        let within = self.quota > 0 && self.slot == now;
        let may = !within && self.next <= now && self.shift == PACING_SHIFT;
        (may && room < self.burst(min_rtt)).then_some(self.next)
    }

    /// Returns whether no segment may be sent now; then the pacer asks to be woken.
    #[inline]
    pub fn holds(&mut self, now: Time) -> bool {
        let holds = self.next > now && !(self.quota > 0 && self.slot == now);
        if holds {
            self.wake = self.next;
        }
        holds
    }

    /// Returns whether a segment may be sent now, if the window has room for `room` segments; if not, the pacer asks to be woken.
    pub fn admits(&mut self, now: Time, room: u32, cwnd: u32, min_rtt: Option<u64>) -> bool {
        if self.holds(now) {
            return false;
        }
        self.wake = Time::NEVER;
        if self.quota > 0 && self.slot == now {
            return true;
        }
        self.quota = self.burst(min_rtt).min(room).min(half(cwnd)).max(1);
        self.several = self.quota > 1;
        self.credit = now.since(self.next).0;
        (self.slot, self.next) = (now, now);
        self.paced = self.rate > 0 && self.sent + self.quota >= UNPACED;
        true
    }

    /// Segments of the current burst that are still to be sent.
    #[inline]
    pub fn left(&self) -> u32 {
        self.quota
    }

    /// Returns whether the segment sent last was the last of a burst of several.
    pub fn pushes(&self) -> bool {
        self.quota == 0 && self.several
    }

    /// A segment of the current burst was sent.
    pub fn on_send(&mut self, payload: u32) {
        self.quota = self.quota.saturating_sub(1);
        self.sent = (self.sent + 1).min(UNPACED);
        if self.paced {
            self.advance(if payload == self.mss { self.spacing } else { self.time_of(payload) });
        }
    }

    /// A segment was sent before its paced departure. The next segment waits for the transmission of the last burst and of this one.
    pub fn on_unasked(&mut self, now: Time, payload: u32) {
        self.rest();
        self.credit = now.since(self.next).0;
        self.next = self.next.max(now);
        self.paced = self.rate > 0 && self.sent + 1 >= UNPACED;
        self.on_send(payload);
    }

    /// Full segments of the current burst were sent.
    #[inline]
    pub fn on_send_full(&mut self, segments: u32) {
        self.quota = self.quota.saturating_sub(segments);
        self.sent = self.sent.saturating_add(segments).min(UNPACED);
        if self.paced {
            (0..segments).for_each(|_| self.advance(self.spacing));
        }
    }

    /// Moves the next departure by the time that a segment takes at the rate.
    #[inline]
    fn advance(&mut self, whole: u64) {
        // If a burst was late, the next one may be earlier, by at most half the duration of the late one.
        let early = self.credit.min(whole / 2);
        self.credit -= early;
        self.next += Span(whole - early);
    }

    /// Ends the burst: the next segment begins another.
    pub fn end_burst(&mut self) {
        self.quota = 0;
    }

    /// Nothing is left to send.
    pub fn rest(&mut self) {
        (self.quota, self.wake) = (0, Time::NEVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Sends whenever the pacer allows it, until `end`. Returns the times in µs.
    fn departures(pacer: &mut Pacer, end: Time, min_rtt: Option<u64>) -> Vec<u64> {
        let (mut now, mut sent) = (Time::ZERO, Vec::new());
        while now < end {
            while pacer.admits(now, 100, 100, min_rtt) {
                sent.push(now.0 / 1000);
                pacer.on_send(1000);
            }
            now = pacer.wake();
        }
        sent
    }

    #[test]
    fn bursts_of_a_millisecond_leave_a_millisecond_apart() {
        let mut pacer = Pacer::new(1000, u32::MAX, PACING_SHIFT);
        pacer.set_rate(4_096_000);
        // The first ten segments are not paced, so three bursts go at once; then four every 4000 / 4.096 µs.
        let sent = departures(&mut pacer, Time(10_000_000), Some(50_000));
        assert_eq!(sent.iter().filter(|&&at| at == 0).count(), 12);
        assert_eq!(sent[12..20], [976, 976, 976, 976, 1953, 1953, 1953, 1953]);
    }

    #[test]
    fn the_rate_is_kept_over_time() {
        for rate in [30_000, 400_000, 12_500_000] {
            let mut pacer = Pacer::new(1000, u32::MAX, PACING_SHIFT);
            pacer.set_rate(rate);
            let sent = departures(&mut pacer, Time(20_000_000_000), Some(100_000)).len() as u64 * 1000;
            let expected = rate * 20;
            assert!(sent.abs_diff(expected) < expected / 200 + 15_000, "{sent} of {expected}");
        }
    }

    #[test]
    fn close_peers_get_longer_bursts_and_slow_ones_single_segments() {
        let mut pacer = Pacer::new(1000, u32::MAX, PACING_SHIFT);
        pacer.set_rate(100_000);
        assert_eq!((pacer.burst(Some(50_000)), pacer.burst(None)), (1, 1));
        pacer.set_rate(10_240_000);
        assert_eq!([100, 600, 3000, 40_000].map(|rtt| pacer.burst(Some(rtt))), [65, 42, 12, 10]);
        pacer.most = 1;
        assert_eq!(pacer.burst(Some(100)), 1);
    }

    #[test]
    fn prague_s_bursts_are_a_quarter_of_a_millisecond_also_to_close_peers() {
        let mut pacer = Pacer::new(1000, u32::MAX, FINE_SHIFT);
        pacer.set_rate(40_960_000);
        assert_eq!([pacer.burst(Some(100)), pacer.burst(Some(50_000)), pacer.burst(None)], [10, 10, 10]);
        pacer.set_rate(4_096_000);
        assert_eq!(pacer.burst(Some(100)), 2, "but two segments");
    }

    #[test]
    fn a_late_burst_lets_the_next_leave_earlier_by_half_its_length_at_most() {
        let mut pacer = Pacer::new(1000, u32::MAX, PACING_SHIFT);
        pacer.set_rate(1_000_000);
        departures(&mut pacer, Time(10_000_000), Some(50_000));
        let due = pacer.wake();
        assert!(pacer.admits(due + Span::from_micros(300), 100, 100, None));
        pacer.on_send(1000);
        assert_eq!(pacer.next, due + Span::from_micros(300 + 1000 - 300));
        pacer.rest();
        let late = pacer.next + Span::from_millis(50);
        assert!(pacer.admits(late, 100, 100, None));
        pacer.on_send(1000);
        assert_eq!(pacer.next, late + Span::from_micros(500));
    }
}
