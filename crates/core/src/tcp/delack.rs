//! Linux's delay of ACKs: a time that adapts to the arrivals (ATO), in ticks.
//!
//! Facts: `tcp_event_data_recv`, `tcp_send_delayed_ack`, `tcp_delack_timer_handler`, `tcp_delack_max`, `tcp_dec_quickack_mode`,
//! `tcp_rtt_tsopt_us` of Linux 7.3.
//!
//! Deviations: the RTT of the handshake is taken from its last ACK, or else from the first segment. The RTO is computed from this RTT
//! alone. There is no ping-pong mode, since a connection sends data one way. The application reads at once (receiver.rs), like the
//! program of the kernel world.

use crate::tcp::Config;
use crate::tcp::rto::Rto;
use crate::units::{Span, Time};
use crate::wheel::{Wheel, slot};

/// TCP_ATO_MIN and TCP_DELACK_MIN, as a fraction of a second: 1/25 s, 40 ms.
const ATO_MIN_PER_S: u32 = 25;
/// TCP_DELACK_MAX, as a fraction of a second: 1/5 s, 200 ms.
const DELACK_MAX_PER_S: u32 = 5;

/// The delay of the ACKs of one receiver. Times without another unit are in ticks.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    wheel: Wheel,
    /// When the last segment in order arrived; `u64::MAX` before the first (`lrcvtime`).
    last: u64,
    /// When the delayed ACK is due, the tick before the timer's (`icsk_delack_timeout`).
    due: u64,
    /// The delay of an ACK, unless `most` is shorter.
    ato: u32,
    /// The longest delay; 0 before the first arrival.
    most: u32,
    /// The RTO (`icsk_rto`): after a longer pause ACKs are quick again. Before the first segment it is the minimum RTO.
    rto: u32,
    ato_min: u32,
    delack_max: u32,
    /// The time from `due` to the timer's expiry. Sending an ACK does not stop the timer (`INET_CSK_CLEAR_TIMERS` is not defined).
    late: u32,
}

impl Pace {
    pub fn new(config: &Config) -> Pace {
        let wheel = Wheel::new(config.hz);
        let ato_min = (config.hz / ATO_MIN_PER_S).max(1);
        Pace {
            wheel,
            last: u64::MAX,
            due: u64::MAX,
            ato: ato_min,
            most: 0,
            rto: wheel.ticks(config.rto_min) as u32,
            ato_min,
            delack_max: config.hz / DELACK_MAX_PER_S,
            late: 0,
        }
    }

    /// `tcp_event_data_recv`: the ATO follows the arrivals of segments in order. Returns whether quick ACKs start: with the first
    /// segment, and after a pause longer than the RTO.
    #[inline]
    pub fn note_arrival(&mut self, now: Time, rtt_us: u32, in_order: bool) -> bool {
        if self.last == u64::MAX {
            self.note_first(now, rtt_us, in_order);
            return in_order;
        }
        if !in_order {
            return false;
        }
        let tick = self.wheel.tick(now);
        let gap = (tick - self.last).min(u64::from(u32::MAX)) as u32;
        self.last = tick;
        if gap <= self.ato_min / 2 {
            self.ato = self.ato / 2 + self.ato_min / 2;
        } else if gap < self.ato {
            self.ato = (self.ato / 2 + gap).min(self.rto).min(self.delack_max);
        } else {
            return gap > self.rto;
        }
        false
    }

    /// Handles the segments up to the first one that is in order.
    #[cold]
    #[inline(never)]
    fn note_first(&mut self, now: Time, rtt_us: u32, in_order: bool) {
        if in_order {
            self.last = self.wheel.tick(now);
        }
        self.note_handshake(rtt_us);
    }

    /// The handshake ends. A host that sends no data has a single RTT sample, that of the handshake, from which its RTO follows
    /// (RFC 6298 §2.2). If this RTT is unknown, the RTO is three seconds (§5.7). The delay of an ACK is at most the RTT, but not
    /// less than the shortest delay, and below the minimum RTO.
    pub fn note_handshake(&mut self, rtt_us: u32) {
        if self.most > 0 {
            return;
        }
        let rto_min = self.rto.max(2);
        self.most = self.delack_max.min(rto_min - 1);
        let mut rto = Rto::new(self.wheel.span(u64::from(self.rto)), true);
        if rtt_us > 0 {
            let rtt = Span::from_micros(u64::from(rtt_us));
            rto.sample(rtt, 0, 0);
            self.most = self.most.min((self.wheel.ticks(rtt) as u32).max(self.ato_min));
        } else {
            rto.after_handshake(false);
        }
        self.rto = self.wheel.ticks(rto.timeout()) as u32;
    }

    /// Delays an ACK after the last arrival. Returns when its timer expires. `fresh`: no ACK is delayed yet. Otherwise the earlier of
    /// the old and the new time counts.
    #[inline(always)]
    pub fn delay(&mut self, fresh: bool) -> Time {
        let due = self.last + u64::from(self.ato.min(self.most));
        self.due = if fresh { due } else { due.min(self.due) };
        let expires = slot(self.last, self.due.max(self.last));
        self.late = (expires - self.due) as u32;
        self.wheel.at(expires)
    }

    /// The timer of an ACK goes on after the ACK was sent. Returns when it expires; [`Time::NEVER`] if it has expired.
    #[inline]
    pub fn leftover(&self, now: Time) -> Time {
        let expires = match self.due {
            u64::MAX => Time::NEVER,
            due => self.wheel.at(due + u64::from(self.late)),
        };
        if expires > now { expires } else { Time::NEVER }
    }

    /// Returns whether the delayed ACK is due within a quarter of the delay after the last arrival. Then it is sent with that arrival.
    #[inline(always)]
    pub fn is_almost_due(&self) -> bool {
        self.due <= self.last + u64::from(self.ato.min(self.most) / 4)
    }

    /// Resets the delay to the shortest: when quick ACKs end, or begin (except after a pause).
    #[inline]
    pub fn deflate(&mut self) {
        self.ato = self.ato_min;
    }

    /// The timer expired: the next delay is twice as long.
    pub fn missed(&mut self) {
        self.ato = (2 * self.ato).min(self.rto).min(self.delack_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pace(hz: u32, rtt_ms: u32) -> Pace {
        let mut pace = Pace::new(&Config { hz, ..Config::default() });
        pace.note_arrival(Time(0), 1000 * rtt_ms, true);
        pace
    }

    /// When the ACK is due, in ms.
    fn due(pace: &Pace) -> u64 {
        pace.clone().delay(true).0 / MS
    }

    #[test]
    fn an_ack_is_due_at_the_tick_after_its_time() {
        assert_eq!([due(&pace(250, 10)), due(&pace(1000, 10)), due(&pace(100, 10))], [44, 41, 50]);
    }

    /// The ATO becomes ATO / 2 + gap, in whole ticks. It is 40 ms, 40 ms, 20 + 24 ms, and 20 + 36 ms (half of 44 ms is rounded to 20).
    #[test]
    fn the_delay_follows_the_arrivals() {
        let mut pace = pace(250, 500);
        let mut after = |ms: u64| {
            pace.note_arrival(Time(ms * MS), 0, true);
            due(&pace) - ms
        };
        assert_eq!([after(20), after(44), after(80)], [44, 48, 60]);
    }

    /// `tcp_send_delayed_ack`: an earlier timeout that is still pending is kept.
    #[test]
    fn an_ack_that_is_delayed_already_is_due_no_later_for_what_comes_after() {
        let mut pace = pace(250, 500);
        assert_eq!(pace.delay(true), Time(44 * MS));
        pace.note_arrival(Time(8 * MS), 0, true);
        assert_eq!([pace.clone().delay(false), pace.delay(true)], [44, 52].map(|ms| Time(ms * MS)));
    }

    #[test]
    fn who_waits_in_vain_waits_longer_up_to_the_rtt_and_less_than_200_ms() {
        for (rtt, most) in [(10, 40), (100, 100), (500, 196), (1000, 196)] {
            let mut pace = pace(250, rtt);
            (0..5).for_each(|_| pace.missed());
            assert_eq!(due(&pace), most + 4, "RTT {rtt} ms");
        }
    }

    /// A pause is longer than the RTO: 3 · 990 ms, 3 · 1.2 s, and 3 s (`TCP_TIMEOUT_FALLBACK`) if the RTT is unknown.
    #[test]
    fn a_pause_is_longer_than_the_rto_of_the_handshake() {
        for (rtt_ms, rto) in [(990, 2972), (1200, 3600), (0, 3000)] {
            for (pause, quick) in [(rto, false), (rto + 4, true)] {
                let mut pace = Pace::new(&Config::default());
                pace.note_arrival(Time(0), 1000 * rtt_ms, true);
                assert_eq!(pace.note_arrival(Time(pause * MS), 0, true), quick, "{rtt_ms} ms, {pause} ms");
            }
        }
    }

    /// Segments out of order (`tcp_data_queue_ofo`) and duplicates do not change the ATO.
    #[test]
    fn what_is_out_of_order_is_no_arrival() {
        let mut pace = pace(250, 100);
        (1..7).for_each(|n| assert!(!pace.note_arrival(Time(n * 100 * MS), 0, false)));
        assert!(pace.note_arrival(Time(610 * MS), 0, true), "610 ms after the last in order");
    }

    #[test]
    fn what_is_due_within_a_quarter_of_the_delay_is_almost_due() {
        // ATO 160, bounded by the RTT of 100 ms; after the arrival 160 / 2 + 74, and so bounded still. At 1000 Hz the timer expires later.
        let soon = |ms: u64| {
            let mut pace = pace(1000, 100);
            (0..2).for_each(|_| pace.missed());
            assert_eq!(pace.delay(true), Time(104 * MS));
            pace.note_arrival(Time(ms * MS), 0, true);
            pace.is_almost_due()
        };
        assert_eq!([soon(74), soon(75)], [false, true]);
    }

    /// The RTO of a host that only receives stays that of the handshake: here 3 · 100 ms.
    #[test]
    fn a_pause_is_longer_than_the_timeout_after_the_handshake() {
        for (pause, quick) in [(290, false), (300, false), (310, true)] {
            assert_eq!(pace(250, 100).note_arrival(Time(pause * MS), 0, true), quick, "after {pause} ms");
        }
    }
}
