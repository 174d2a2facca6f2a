//! Bursts: Linux's TCP hands segments down in packets of up to a millisecond's worth (TSO), and waits to fill them.
//!
//! Facts: net/ipv4/tcp_output.c of Linux 6.x and 7.x (`tcp_tso_autosize`, `tcp_tso_should_defer`), `tcp_update_pacing_rate`
//! in tcp_input.c. If the device cannot segment such a packet, the stack segments it just before the device. The segments are sent
//! together, and the last of several has PSH (`__tcp_transmit_skb`). An ACK that opens the window by less than a burst triggers no
//! transmission if the next ACK is expected soon.
//!
//! Deviations: a packet ends where the window or the data ends, but not where a write of the application ends. The last segments
//! of a write can therefore wait until their burst is full. The minimum RTT (`tcp_min_rtt`) is taken over the whole connection;
//! Linux takes it over the last five minutes.

use super::pacing::{gso_segments, half, tso_autosize};
use crate::units::{Span, Time};

/// `tcp_min_tso_segs`.
const MIN_SEGMENTS: u32 = 2;
/// `tcp_tso_win_divisor`: a third of the window is worth sending.
const WIN_DIVISOR: u32 = 3;
/// A sender waits only for ACKs that are expected within this time. It does not wait if it sent nothing for this time.
const SOON: Span = Span::from_millis(1);
/// `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`: the pacing rate in slow start and after it, in percent of a window per RTT.
const RATIO: (u64, u64) = (200, 120);

/// The state that decides on bursts. Windows and counts are in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub now: Time,
    pub cwnd: u32,
    pub ssthresh: u32,
    /// Segments outstanding.
    pub out: u32,
    /// The receive window, counted from the first outstanding segment.
    pub rwnd: u32,
    pub srtt: Option<Span>,
    /// The smallest RTT so far.
    pub min_rtt: Span,
    /// When the last segment was sent.
    pub lsndtime: Time,
    /// When the first outstanding segment was sent.
    pub head: Option<Time>,
}

/// The bursts of one sender.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bursts {
    /// The most segments of a burst; with 1 there are no bursts.
    most: u32,
    mss: u32,
    /// Segments of the current burst that are still to be sent.
    left: u32,
    /// The current burst has more than one segment.
    several: bool,
    /// The last attempt to send waited for more window (Linux's `is_cwnd_limited`).
    waits: bool,
}

impl Bursts {
    pub fn new(gso_max_segs: u32, mss: u32) -> Bursts {
        Bursts { most: gso_segments(gso_max_segs, mss), mss, left: 0, several: false, waits: false }
    }

    /// Returns whether there are bursts; if not, no other function is called.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.most > 1
    }

    /// Returns whether the last attempt to send waited for more window.
    #[inline(always)]
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Ends the current burst, and clears the note that the sender waits.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.end();
        self.waits = false;
    }

    /// Ends the current burst.
    #[inline(always)]
    pub fn end(&mut self) {
        (self.left, self.several) = (0, false);
    }

    /// The pacing rate in bytes a second (`tcp_update_pacing_rate`); `None` before the first RTT sample.
    #[inline(always)]
    pub fn rate(&self, window: &Window) -> Option<u64> {
        let srtt = window.srtt?;
        let ratio = if window.cwnd < window.ssthresh / 2 { RATIO.0 } else { RATIO.1 };
        let used = u64::from(window.cwnd.max(window.out)) * u64::from(self.mss);
        // Percent, and nanoseconds.
        Some(used.saturating_mul(ratio * 10_000_000) / srtt.0.max(1))
    }

    /// The number of segments that a full burst has at present (`tcp_tso_autosize`).
    pub fn goal(&self, window: &Window) -> u32 {
        let Some(rate) = self.rate(window) else { return self.most };
        tso_autosize(rate, Some(window.min_rtt.0 / 1000), self.mss, MIN_SEGMENTS).min(self.most)
    }

    /// Returns the number of segments to send now, and the number of segments in a burst. The window allows `limit` segments,
    /// and `data` segments are ready.
    #[inline]
    pub fn take(&mut self, limit: u32, data: u32, window: &Window) -> (u32, u32) {
        self.begin();
        if limit == 0 || data == 0 {
            return (0, 1);
        }
        let goal = self.goal(window);
        let burst = goal.min(half(window.cwnd));
        // Full bursts do not wait.
        let mut gone = if limit < goal { 0 } else { (((limit - goal) / burst + 1) * burst).min(data) };
        while gone < limit.min(data) {
            let (limit, data) = (limit - gone, data - gone);
            let lsndtime = if gone > 0 { window.now } else { window.lsndtime };
            // A single last segment does not wait.
            if data > 1 && self.defers(limit, gone > 0, &Window { lsndtime, ..*window }) {
                self.waits = limit <= data && window.cwnd < window.rwnd;
                break;
            }
            gone += burst.min(limit).min(data);
        }
        (gone, burst)
    }

    /// Decides on one segment as [`Bursts::take`] decides on many. Returns whether the next segment may be sent.
    pub fn take_one(&mut self, limit: u32, data: u32, window: &Window) -> bool {
        if self.left == 0 {
            (self.several, self.waits) = (false, false);
            if limit == 0 || data == 0 {
                return false;
            }
            let goal = self.goal(window);
            if data > 1 && limit < goal && self.defers(limit, false, window) {
                self.waits = limit <= data && window.cwnd < window.rwnd;
                return false;
            }
            self.left = goal.min(half(window.cwnd)).min(limit).min(data);
            self.several = self.left > 1;
        }
        self.left -= 1;
        true
    }

    /// Returns whether the segment that is sent now is the last of a burst of several.
    #[inline]
    pub fn pushes(&self) -> bool {
        self.left == 0 && self.several
    }

    /// Decides whether a paced sender with less than a full burst waits for more data, and remembers the answer.
    pub fn wait(&mut self, limit: u32, window: &Window) -> bool {
        self.waits = self.defers(limit, false, window);
        self.waits
    }

    /// Returns whether the sender waits because it has less than a full burst to send (`tcp_tso_should_defer`). `begun`: other
    /// segments are sent at this same time.
    fn defers(&self, limit: u32, begun: bool, window: &Window) -> bool {
        let &Window { now, cwnd, out, rwnd, srtt, lsndtime, head, .. } = window;
        if now > lsndtime + SOON || limit.saturating_mul(WIN_DIVISOR) >= cwnd.min(rwnd) {
            return false;
        }
        let head = match head {
            Some(at) if out > 0 => at,
            _ if begun => now,
            _ => return false,
        };
        let srtt = srtt.unwrap_or_default();
        // Is the ACK of the first segment outstanding expected soon?
        head + srtt <= now + Span(srtt.0 / 2).min(SOON)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::pacing::GSO_MAX_SIZE;
    use alloc::vec::Vec;

    const MS: Span = Span::from_millis(1);

    /// The state at an RTT of 100 ms. The window has `cwnd` segments, of which all but `room` are outstanding. All were sent just now.
    fn window(cwnd: u32, room: u32) -> Window {
        let now = Time::ZERO + Span::from_secs(10);
        Window {
            now,
            cwnd,
            ssthresh: 0,
            out: cwnd - room,
            rwnd: u32::MAX,
            srtt: Some(Span::from_millis(100)),
            min_rtt: Span::from_millis(100),
            lsndtime: now,
            head: Some(now),
        }
    }

    /// This window, with a first outstanding segment that was sent `head_age` ago.
    fn aged(window: Window, head_age: Span) -> Window {
        Window { head: Some(Time(window.now.0 - head_age.0)), ..window }
    }

    /// The pacing rate is 1.2 windows of 1000 segments per 100 ms, so 2^-10 s are worth 11.7 segments.
    #[test]
    fn a_burst_is_a_millisecond_of_the_pacing_rate_and_at_least_two_segments() {
        let bursts = Bursts::new(65_535, 1448);
        assert_eq!(bursts.goal(&window(1000, 0)), 11);
        assert_eq!(bursts.goal(&window(100, 0)), 2);
        assert_eq!(bursts.goal(&window(20_000, 0)), 45, "64 kB at most");
        assert_eq!(
            bursts.goal(&Window { ssthresh: u32::MAX, ..window(1000, 0) }),
            19,
            "twice the window in slow start"
        );
        assert_eq!(Bursts { most: 4, ..bursts }.goal(&window(1000, 0)), 4);
    }

    /// `tcp_cwnd_test`.
    #[test]
    fn there_are_two_bursts_in_a_window() {
        let small = Window { srtt: Some(MS), min_rtt: Span::from_micros(600), ..window(8, 8) };
        let (mut all, mut single) = (Bursts::new(65_535, 1448), Bursts::new(65_535, 1448));
        assert!(all.goal(&small) > 8);
        assert_eq!(all.take(8, 1000, &small), (8, 4));
        let pushed = (0..8).filter(|&gone| single.take_one(8 - gone, 1000, &small) && single.pushes());
        assert_eq!(pushed.collect::<Vec<u32>>(), [3, 7]);
    }

    #[test]
    fn a_short_rtt_makes_long_bursts() {
        let near = Window { srtt: Some(MS), min_rtt: Span::from_micros(600), ..window(2, 0) };
        assert_eq!(Bursts::new(65_535, 1448).goal(&near), (GSO_MAX_SIZE as u32 / 2 + 3_393) / 1448);
    }

    /// The ACK of segments sent an RTT ago is due: a window of four segments waits until it is eleven.
    #[test]
    fn less_than_a_burst_waits_for_an_ack_that_is_due_within_a_millisecond() {
        let due = |age: u64| {
            let window = aged(window(1000, 4), Span::from_micros(age));
            Bursts::new(65_535, 1448).take(4, 1000, &window).0
        };
        assert_eq!(due(100_000), 0);
        assert_eq!(due(99_000), 0, "in exactly a millisecond");
        assert_eq!(due(98_999), 4);
    }

    #[test]
    fn what_is_not_worth_waiting_for_leaves() {
        let mut all = Bursts::new(65_535, 1448);
        let window = |cwnd, room| aged(window(cwnd, room), Span::from_millis(100));
        assert_eq!(all.take(11, 1000, &window(1000, 11)).0, 11, "a whole burst");
        assert_eq!(all.take(4, 1, &window(1000, 4)).0, 1, "a last segment");
        assert_eq!(all.take(1, 5, &window(3, 1)).0, 1, "a third of the window");
        let long_ago = window(1000, 4).now;
        let quiet = Window { now: long_ago + MS + Span(1), lsndtime: long_ago, ..window(1000, 4) };
        assert_eq!(all.take(4, 1000, &quiet).0, 4, "nothing sent for more than a millisecond");
        assert_eq!(all.take(4, 1000, &Window { out: 0, ..window(1000, 4) }).0, 4, "nothing outstanding");
    }

    #[test]
    fn whole_bursts_leave_and_the_rest_waits_for_the_window() {
        let mut all = Bursts::new(65_535, 1448);
        let window = |cwnd, room| aged(window(cwnd, room), Span::from_millis(100));
        assert_eq!(all.take(27, 1000, &window(1000, 27)).0, 22);
        assert!(all.waits(), "the window is the limit");
        assert_eq!(all.take(27, 24, &window(1000, 27)).0, 22);
        assert!(!all.waits(), "two segments of data are");
        assert_eq!(all.take(27, 1000, &Window { rwnd: 999, ..window(1000, 27) }).0, 22);
        assert!(!all.waits(), "the receiver is: the congestion window is not used up and must not grow");
        assert_eq!(all.take(0, 1000, &window(1000, 0)).0, 0);
    }
}
