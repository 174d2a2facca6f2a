//! How long Linux delays an ACK: a time that adapts to the arrivals (ATO), in ticks.
//!
//! Facts: `tcp_event_data_recv`, `tcp_send_delayed_ack`, `tcp_delack_timer_handler`, `tcp_delack_max` of Linux 7.3.
//!
//! Deviations: the RTT of the handshake is that which the first segment tells, and the RTO follows from it alone. There is no packet
//! that ends the handshake; in Linux it may arrive, and end the RTT, where all data behind it are dropped. Nor is there a ping-pong mode: a
//! connection sends data one way.

use crate::tcp::Config;
use crate::tcp::rto::Rto;
use crate::units::{Span, Time};
use crate::wheel::Wheel;

/// TCP_ATO_MIN and TCP_DELACK_MIN in parts of a second: 40 ms.
const ATO_MIN: u32 = 25;
/// TCP_DELACK_MAX: 200 ms.
const DELACK_MAX: u32 = 5;

/// Linux repeats a SYN-ACK after a second, and then takes no RTT from the handshake: in µs.
const SYN_ACK_REPEATED: u32 = 1_000_000;

/// The delay of the ACKs of one receiver. What has no other unit is in ticks.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    wheel: Wheel,
    /// When the last segment arrived; `u64::MAX` before the first (`lrcvtime`).
    last: u64,
    /// How long an ACK is delayed, but no longer than `most`.
    ato: u32,
    most: u32,
    /// A longer pause makes ACKs quick again (`icsk_rto`); before the first segment the minimum RTO.
    rto: u32,
    ato_min: u32,
    delack_max: u32,
}

impl Pace {
    pub fn new(config: &Config) -> Pace {
        let wheel = Wheel::new(config.hz);
        let ato_min = (config.hz / ATO_MIN).max(1);
        let rto = wheel.ticks(config.rto_min) as u32;
        Pace { wheel, last: u64::MAX, ato: ato_min, most: 0, rto, ato_min, delack_max: config.hz / DELACK_MAX }
    }

    /// `tcp_event_data_recv`: the ATO follows the arrivals. Whether after such a pause ACKs are to be quick.
    #[inline]
    pub fn note_arrival(&mut self, now: Time, rtt_us: u32) -> bool {
        let tick = self.wheel.tick(now);
        if self.last == u64::MAX {
            self.note_first(rtt_us);
            self.last = tick;
            return false;
        }
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

    /// The first segment: the RTO is that of one sample, the handshake's (RFC 6298 §2.2), as long as nothing else is sent. A delay
    /// longer than the shortest is bounded by the RTT, and any by the shortest RTO.
    #[cold]
    #[inline(never)]
    fn note_first(&mut self, rtt_us: u32) {
        let rto_min = self.rto.max(2);
        self.most = self.delack_max.min(rto_min - 1);
        let mut rto = Rto::new(self.wheel.span(u64::from(self.rto)), true);
        if (1..SYN_ACK_REPEATED).contains(&rtt_us) {
            let rtt = Span::from_micros(u64::from(rtt_us));
            rto.sample(rtt, 0, 0);
            self.most = self.most.min((self.wheel.ticks(rtt) as u32).max(self.ato_min));
        }
        self.rto = self.wheel.ticks(rto.timeout()) as u32;
    }

    /// When an ACK that is delayed from the last arrival on is due.
    #[inline(always)]
    pub fn due(&self) -> Time {
        self.wheel.after(self.last, u64::from(self.ato.min(self.most)))
    }

    /// What was to wait until then, or less, waits no longer when something else arrives.
    #[inline(always)]
    pub fn soon(&self) -> Time {
        self.wheel.after(self.last, u64::from(self.ato.min(self.most) / 4))
    }

    /// The timer expired: it waited too short a time.
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
        pace.note_arrival(Time(0), 1000 * rtt_ms);
        pace
    }

    /// When it is due, in ms.
    fn due(pace: &Pace) -> u64 {
        pace.due().0 / MS
    }

    #[test]
    fn an_ack_is_due_at_the_tick_after_its_time() {
        assert_eq!([due(&pace(250, 10)), due(&pace(1000, 10)), due(&pace(100, 10))], [44, 41, 50]);
    }

    /// ATO = ATO / 2 + gap, in whole ticks: 40 ms, 40, 20 + 24, 20 (of 22, in ticks) + 36.
    #[test]
    fn the_delay_follows_the_arrivals() {
        let mut pace = pace(250, 500);
        let mut after = |ms: u64| {
            pace.note_arrival(Time(ms * MS), 0);
            due(&pace) - ms
        };
        assert_eq!([after(20), after(44), after(80)], [44, 48, 60]);
    }

    #[test]
    fn who_waits_in_vain_waits_longer_up_to_the_rtt_and_less_than_200_ms() {
        for (rtt, most) in [(10, 40), (100, 100), (500, 196), (1000, 196)] {
            let mut pace = pace(250, rtt);
            (0..5).for_each(|_| pace.missed());
            assert_eq!(due(&pace), most + 4, "RTT {rtt} ms");
        }
    }

    /// RFC 6298 §2.1: without a sample it is a second.
    #[test]
    fn who_had_to_repeat_its_syn_ack_knows_no_rtt() {
        for (rtt, quick) in [(0, false), (990, false), (1000, false)] {
            assert_eq!(pace(250, rtt).note_arrival(Time(1000 * MS), 0), quick);
            assert_eq!(pace(250, rtt).note_arrival(Time(1010 * MS), 0), rtt != 990);
        }
    }

    /// The RTO of who only receives stays that of the handshake: here 3 · 100 ms.
    #[test]
    fn a_pause_is_longer_than_the_timeout_after_the_handshake() {
        for (pause, quick) in [(290, false), (300, false), (310, true)] {
            assert_eq!(pace(250, 100).note_arrival(Time(pause * MS), 0), quick, "after {pause} ms");
        }
    }
}
