//! The receive window as Linux tunes it (dynamic right-sizing), bounded by `tcp_rmem`.
//!
//! Facts: `tcp_select_initial_window`, `__tcp_select_window`, `tcp_select_window` (tcp_output.c), `tcp_init_buffer_space`,
//! `tcp_grow_window`, `tcp_rcv_space_adjust` and `tcp_rcvbuf_grow` (tcp_input.c) of Linux 7.3. The offered window grows by two
//! segments with each segment that arrives, as far as the buffer could hold them. While it grows, every segment is acknowledged at
//! once. Once an RTT the buffer may grow. It gets room for twice the data that the application read in the last RTT, for the range
//! of the out-of-order segments, and for a reserve. The reserve is four times the data read, multiplied by the relative growth since
//! the RTT before; at RTTs below 1 ms it is at most twice the data read.
//!
//! Deviations:
//! - The application reads a segment before the next one arrives.
//! - Every segment counts as a full one, with the memory overhead of the kernel world's device (other drivers have more or less).
//! - The receiver's RTT does not include the time that segments wait in the sender.
//! - No separate window update is sent when the application reads.
//! - At least one segment is always offered.
//! - Where the scenario does not bound the buffer, the window is not offered; it only makes ACKs quick while it grows. The receiver's RTT
//!   is then that of the handshake and the time that segments have waited on their way since, without queues on the way back. Segments in
//!   order are seen only while the window grows, and once an RTT.

use crate::units::{Span, Time};

/// `tcp_rmem[1]`.
const RMEM_DEFAULT: u32 = 131_072;
/// `tcp_rmem[2]` of the kernel world where the scenario does not bound the receive buffer.
const RMEM_UNBOUNDED: u32 = 64 << 20;
/// `TCP_RMEM_TO_WIN_SCALE` and `TCP_DEFAULT_SCALING_RATIO`: the share of the buffer that may be payload is counted in 256ths, and is
/// a half at first.
const TO_WIN_SCALE: u32 = 8;
const DEFAULT_RATIO: u32 = 128;
/// The memory in bytes that the kernel accounts for an skb in addition to its payload: a segment of 1448 bytes has a `truesize` of 2344.
/// An skb of the send queue has the same overhead (measured in the kernel world by `SK_MEMINFO_WMEM_QUEUED`).
pub(super) const OVERHEAD: u32 = 896;
/// `TCP_INIT_CWND`.
pub(super) const INIT_CWND: u32 = 10;
/// `tcp_rcvbuf_low_rtt`, in µs.
const LOW_RTT: u64 = 1000;
/// `TCP_MAX_WSCALE`.
const MAX_WSCALE: u32 = 14;

/// The receive window of a connection. Fields are those of Linux's `tcp_sock`, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// `tcp_rmem[2]`.
    rmem: u32,
    /// The largest window that is ever offered, in segments.
    most: u32,
    mss: u32,
    advmss: u32,
    wscale: u32,
    sk_rcvbuf: u32,
    /// The part of the buffer, in 256ths, that may be payload; measured when the first segment arrives.
    scaling_ratio: u32,
    window_clamp: u32,
    rcv_ssthresh: u32,
    /// The window offered last, and the byte above which it was offered.
    rcv_wnd: u32,
    rcv_wup: u64,
    /// `rcvq_space`: the bytes that the application read in the last RTT, and the byte and time at which the current RTT began.
    space: u32,
    space_seq: u64,
    space_time: Time,
    /// `rcv_rtt_est`, in eighths of a µs.
    rtt_us: u64,
    /// The timestamp echo, in ms, that gave the last RTT sample (`rcv_rtt_last_tsecr`).
    last_tsecr: u64,
    /// Bytes of the buffer in use.
    rmem_alloc: u32,
    /// For a window that is not offered: the shortest time in µs from a segment's departure to its arrival. [`u32::MAX`]: unknown.
    least_age: u32,
    is_offered: bool,
}

/// The state of a receiver when a segment has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub now: Time,
    /// The number of the next expected segment, now that this one has arrived.
    pub next: u32,
    pub in_order: bool,
    /// The RTT in µs; 0: unknown.
    pub rtt_us: u32,
    /// The number of out-of-order segments that were held before this one arrived, and the distance from `next` to the last
    /// segment that is held now.
    pub held: u32,
    pub span: u32,
}

impl Window {
    /// Returns the window of a new connection. `rmem` is the largest size of its buffer in bytes, `most` limits the window in segments,
    /// `mss` is the payload of a full segment in bytes, and `advmss` is the MSS that the receiver announced.
    pub fn new(rmem: u32, most: u32, mss: u32, advmss: u32) -> Window {
        let sk_rcvbuf = rmem.min(RMEM_DEFAULT);
        let full = win_from_space(DEFAULT_RATIO, sk_rcvbuf);
        let rcv_wnd = if full > mss { full - full % mss } else { full };
        let wscale = rmem.max(full).ilog2().saturating_sub(15).min(MAX_WSCALE);
        // One segment is reserved.
        let reserved = full > 2 * advmss;
        let window_clamp = if reserved { (full - advmss.min(full)).max(2 * advmss) } else { full };
        let rcv_ssthresh = rcv_wnd.min(window_clamp);
        Window {
            rmem,
            most,
            mss,
            advmss,
            wscale,
            sk_rcvbuf,
            scaling_ratio: DEFAULT_RATIO,
            window_clamp,
            rcv_ssthresh,
            rcv_wnd,
            rcv_wup: 0,
            space: rcv_ssthresh.min(INIT_CWND * advmss),
            space_seq: 0,
            space_time: Time::ZERO,
            rtt_us: 0,
            last_tsecr: u64::MAX,
            rmem_alloc: 0,
            least_age: u32::MAX,
            is_offered: true,
        }
    }

    /// Returns a window that is not offered: that of a receiver with the largest buffer of the kernel world. Segments in order need to
    /// be passed to it only from [`Window::next_event`] on.
    pub fn hidden(mss: u32, advmss: u32) -> Window {
        Window { is_offered: false, ..Window::new(RMEM_UNBOUNDED, u32::MAX, mss, advmss) }
    }

    /// Returns whether the window is offered to the sender.
    pub fn is_offered(&self) -> bool {
        self.is_offered
    }

    /// Returns when the next segment in order may change the window; [`Time::ZERO`]: each one may. It is exact while no segment is held.
    pub fn next_event(&self) -> Time {
        if self.is_offered || self.rtt_us == 0 || self.window_clamp.min(self.free()) > self.rcv_ssthresh {
            return Time::ZERO;
        }
        self.space_time + Span(self.rtt_us / 8 * 1000)
    }

    /// No segment is held. Returns [`Window::next_event`]; if that is later, the window that an ACK offers above `next` stays until then.
    pub fn rest(&mut self, next: u32) -> Time {
        let due = self.next_event();
        if due > Time::ZERO {
            self.select(next);
        }
        due
    }

    /// Returns by how many µs the age of a segment that was sent at `ts` exceeds the smallest so far.
    pub fn excess(&mut self, now: Time, ts: u32) -> u32 {
        let age = ((now.0 / 1000) as u32).wrapping_sub(ts);
        // A segment that is paced is stamped with the time of its departure, which may be after that of its transmission.
        let age = if (age as i32) < 0 { 0 } else { age };
        self.least_age = self.least_age.min(age);
        age - self.least_age
    }

    /// The window that a SYN or SYN-ACK offers, in segments.
    pub fn first(&self) -> u32 {
        (self.rcv_wnd / self.mss).min(self.most).max(1)
    }

    /// The connection is established: the first RTT in which the application reads begins (Linux `tcp_init_buffer_space`).
    pub fn on_established(&mut self, now: Time) {
        self.space_time = now;
    }

    /// A segment has arrived. Returns whether the window grows (then ACKs are quick).
    pub fn on_arrival(&mut self, seen: &Seen) -> bool {
        if !self.is_offered && self.rtt_us > 0 && seen.now >= self.next_event() && self.next_event() > Time::ZERO {
            // An RTT without samples has passed, after which the oldest have little weight in Linux's average.
            self.rtt_us = 0;
        }
        self.measure(seen);
        // Linux counts a segment in order before the window grows (`tcp_queue_rcv`), any other after it (`tcp_data_queue_ofo`). The
        // ACK is sent before the application reads.
        let others = seen.held.saturating_mul(self.truesize());
        self.rmem_alloc = others + if seen.in_order { self.truesize() } else { 0 };
        let grew = self.grow();
        self.rmem_alloc = others + self.truesize();
        if !seen.in_order {
            // Linux `tcp_data_queue_ofo`: the buffer grows to have room for the held segments.
            self.grow_buffer(self.space, seen.span);
            return grew;
        }
        self.adjust(seen);
        grew
    }

    /// Linux `tcp_measure_rcv_mss`, `tcp_rcv_rtt_measure_ts`, `tcp_rcv_rtt_update`.
    fn measure(&mut self, seen: &Seen) {
        if self.scaling_ratio == DEFAULT_RATIO {
            self.scaling_ratio = (self.mss << TO_WIN_SCALE) / self.truesize();
            self.window_clamp = win_from_space(self.scaling_ratio, self.sk_rcvbuf);
            self.space = self.space.min(self.window_clamp);
        }
        if seen.rtt_us == 0 {
            return;
        }
        // Timestamps count ms, and each echoed timestamp gives one sample.
        let now_us = seen.now.0 / 1000;
        let tsecr = now_us.saturating_sub(u64::from(seen.rtt_us)) / 1000;
        let sample = 1000 * (now_us / 1000 - tsecr);
        if core::mem::replace(&mut self.last_tsecr, tsecr) != tsecr && sample > 0 {
            let falls = self.rtt_us == 0 || 8 * sample < self.rtt_us;
            self.rtt_us = if falls { 8 * sample } else { self.rtt_us - self.rtt_us / 8 + sample };
        }
    }

    /// Linux `tcp_grow_window`.
    fn grow(&mut self) -> bool {
        let room = self.window_clamp.min(self.free()).saturating_sub(self.rcv_ssthresh);
        self.rcv_ssthresh += room.min((2 * self.advmss).max(2 * self.mss));
        room > 0
    }

    /// Linux `tcp_rcv_space_adjust`: the application has read all data in order.
    fn adjust(&mut self, seen: &Seen) {
        let taken = u64::from(seen.next) * u64::from(self.mss);
        if self.rtt_us == 0 || seen.now.since(self.space_time).0 / 1000 < self.rtt_us / 8 {
            return;
        }
        let copied = u32::try_from(taken - self.space_seq).unwrap_or(u32::MAX);
        if copied > self.space {
            self.grow_buffer(copied, seen.span);
        }
        (self.space_seq, self.space_time) = (taken, seen.now);
    }

    /// Linux `tcp_rcvbuf_grow`.
    fn grow_buffer(&mut self, space: u32, span: u32) {
        let old = u64::from(core::mem::replace(&mut self.space, space).max(1));
        let (space, rtt) = (u64::from(space), self.rtt_us / 8);
        // The data read shows the rate of an RTT ago, and a sender in slow start doubles its rate each RTT.
        let mut window = 2 * space;
        window += if rtt < LOW_RTT { window * rtt / LOW_RTT } else { 2 * window * (space - old) / old };
        window += u64::from(span) * u64::from(self.mss);
        let buffer = ((window << TO_WIN_SCALE) / u64::from(self.scaling_ratio)).min(u64::from(self.rmem)) as u32;
        if buffer > self.sk_rcvbuf {
            self.sk_rcvbuf = buffer;
            self.window_clamp = win_from_space(self.scaling_ratio, buffer);
        }
    }

    /// The window in segments that an ACK offers above `next` (Linux `tcp_select_window`). The right edge never moves back.
    pub fn select(&mut self, next: u32) -> u32 {
        let next = u64::from(next) * u64::from(self.mss);
        let current = (self.rcv_wup + u64::from(self.rcv_wnd)).saturating_sub(next) as u32;
        self.rcv_wnd = self.room().max(current).next_multiple_of(1 << self.wscale);
        self.rcv_wup = next;
        (self.rcv_wnd / self.mss).min(self.most).max(1)
    }

    /// Returns whether an ACK sent now would advertise at least the window that the last ACK advertised.
    pub fn keeps(&self) -> bool {
        self.room() >= self.rcv_wnd
    }

    /// The bytes that the buffer has room for (Linux `__tcp_select_window`).
    fn room(&self) -> u32 {
        let (free, whole) = (self.free(), win_from_space(self.scaling_ratio, self.sk_rcvbuf));
        let window = free.min(self.rcv_ssthresh);
        if free < self.window_clamp.min(whole) / 2 && (free < whole / 16 || free < self.mss) {
            0
        } else if self.wscale == 0 {
            window - window % self.mss
        } else {
            window.next_multiple_of(1 << self.wscale)
        }
    }

    /// Linux `tcp_space`.
    fn free(&self) -> u32 {
        win_from_space(self.scaling_ratio, self.sk_rcvbuf.saturating_sub(self.rmem_alloc))
    }

    fn truesize(&self) -> u32 {
        self.mss + OVERHEAD
    }
}

/// Linux `tcp_win_from_space`.
fn win_from_space(ratio: u32, space: u32) -> u32 {
    ((u64::from(space) * u64::from(ratio)) >> TO_WIN_SCALE) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window offered after each round trip of 100 ms, in bytes, to a sender that only the window limits.
    fn offered(rmem: u32, rounds: u64) -> alloc::vec::Vec<u64> {
        let mut window = Window::new(rmem, u32::MAX, 1448, 1460);
        let (mut next, mut offer) = (0, window.first());
        let mut offers = alloc::vec![];
        for round in 0..rounds {
            let until = next + offer;
            while next < until {
                next += 1;
                let now = Time::ZERO + Span::from_millis(100 * round + 1);
                window.on_arrival(&Seen { now, next, in_order: true, rtt_us: 100_000, held: 0, span: 0 });
                offer = window.select(next);
            }
            offers.push(u64::from(window.rcv_wnd));
        }
        offers
    }

    #[test]
    fn a_connection_begins_with_64_kb_less_a_rest() {
        let window = Window::new(6 << 20, u32::MAX, 1448, 1460);
        assert_eq!((window.rcv_wnd, window.rcv_ssthresh, window.space), (65_160, 64_076, 14_600));
        assert_eq!(window.first(), 45);
    }

    /// The buffer of 6 MB has 158 of 256 parts for payload. One segment is in it while the window grows. In the kernel world, Linux
    /// 7.3's TCP_INFO reports 3 883 008 and 647 168: `rmem_max` makes windows multiples of 2048 bytes there.
    #[test]
    fn the_offer_ends_at_what_the_largest_buffer_holds_beside_the_segment_that_arrives() {
        let [large, small] = [6 << 20, 1 << 20].map(|rmem| offered(rmem, 20)[19]);
        assert_eq!((large, large.next_multiple_of(2048)), (3_881_600, 3_883_008));
        assert_eq!((small, small.next_multiple_of(2048)), (645_728, 647_168));
    }

    #[test]
    fn the_rtt_is_whole_ms_of_timestamps_each_of_which_is_sampled_once() {
        let mut window = Window::new(64 << 20, u32::MAX, 1448, 1460);
        let mut rtt_after = |now_us: u64, rtt_us: u32| {
            window.on_arrival(&Seen { now: Time(now_us * 1000), next: 1, in_order: true, rtt_us, held: 0, span: 0 });
            window.rtt_us
        };
        assert_eq!(rtt_after(110_900, 10_950), 8 * 11_000, "from 99.95 to 110.9 ms");
        assert_eq!(rtt_after(109_000, 9_500), 8 * 11_000, "99 ms was echoed before");
        assert_eq!(rtt_after(109_000, 9_000), 8 * 9_000, "less than before");
        assert_eq!(rtt_after(130_999, 29_000), 8 * 9_000 - 9_000 + 29_000, "an eighth of the difference");
        assert_eq!(rtt_after(130_999, 900), 8 * 9_000 - 9_000 + 29_000, "within one ms");
    }

    #[test]
    fn what_the_application_takes_when_a_hole_fills_makes_room_for_what_is_still_held() {
        let grown = |span| {
            let mut window = Window::new(64 << 20, u32::MAX, 1448, 1460);
            let now = Time::ZERO + Span::from_millis(1000);
            window.on_arrival(&Seen { now, next: 200, in_order: true, rtt_us: 1000, held: 0, span });
            window.sk_rcvbuf
        };
        let [plain, holding] = [0, 100].map(grown);
        assert!((234_000..235_000).contains(&(holding - plain)), "{plain} {holding}: 144 800 bytes of payload");
    }

    #[test]
    fn a_sender_that_doubles_each_round_trip_is_never_held_back() {
        let mut window = Window::new(64 << 20, u32::MAX, 1448, 1460);
        let (mut next, mut flight) = (0, 10);
        for round in 0..11u64 {
            for _ in 0..flight {
                next += 1;
                let now = Time::ZERO + Span::from_millis(100 * round + 1);
                window.on_arrival(&Seen { now, next, in_order: true, rtt_us: 100_000, held: 0, span: 0 });
            }
            flight *= 2;
            assert!(window.select(next) >= flight, "{} of {flight} in round {round}", window.rcv_wnd / 1448);
        }
    }

    #[test]
    fn what_was_offered_is_not_taken_back_when_the_buffer_fills() {
        let mut window = Window::new(1 << 17, u32::MAX, 1448, 1460);
        let edge = |window: &Window| window.rcv_wup + u64::from(window.rcv_wnd);
        window.select(0);
        let before = edge(&window);
        for held in 1..40 {
            window.on_arrival(&Seen { now: Time(1), next: 0, in_order: false, rtt_us: 1000, held, span: held + 1 });
            window.select(0);
            assert!(edge(&window) >= before);
        }
    }
}
