//! The single timer of a sender. It runs for the retransmission timeout, for a loss probe, or for the end of RACK's reordering window.
//!
//! Facts: `tcp_rearm_rto`, `tcp_schedule_loss_probe`, `tcp_send_loss_probe`, `tcp_rack_reo_timeout` of Linux 7.3.

use super::State;
use super::tcp_sock::TcpSock;
use crate::tcp::tlp::{self, TIMEOUT_MIN};
use crate::tcp::{Config, Recovery};
use crate::units::{Span, Time};
use crate::wheel::Wheel;

/// The purpose for which the timer runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// The retransmission timeout (RFC 6298).
    Rto,
    /// The loss probe (RFC 8985 §7.2).
    Probe,
    /// RFC 8985 §6.2 step 5: a segment that has not arrived by the end of the reordering window is lost.
    Reorder,
}

/// The timer. With RACK it runs for any [`Timer`], and expires at ticks, as in Linux. Without RACK it is only the retransmission
/// timeout of RFC 6298, and expires at the exact time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct XmitTimer {
    /// When it expires; [`Time::NEVER`] if it does not run.
    pub deadline: Time,
    /// When it was set; [`Time::NEVER`] if `deadline` is already rounded up to a tick of the wheel.
    armed: Time,
    pub kind: Timer,
    /// Linux's ticks; `None` without RACK.
    wheel: Option<Wheel>,
}

impl XmitTimer {
    pub fn new(config: &Config) -> XmitTimer {
        let wheel = (config.recovery == Recovery::Rack).then(|| Wheel::new(config.hz));
        XmitTimer { deadline: Time::NEVER, armed: Time::NEVER, kind: Timer::Rto, wheel }
    }

    /// Returns whether the timer works as in Linux, with RACK and ticks.
    #[inline(always)]
    pub fn is_linux(&self) -> bool {
        self.wheel.is_some()
    }

    /// Linux's ticks; `None` without RACK.
    pub fn wheel(&self) -> Option<Wheel> {
        self.wheel
    }

    /// Sets the timer for `at`.
    #[inline(always)]
    pub fn arm(&mut self, kind: Timer, now: Time, at: Time) {
        (self.kind, self.deadline, self.armed) = (kind, at, now);
    }

    /// Sets another time for the timer that runs.
    #[inline(always)]
    pub fn rearm(&mut self, now: Time, at: Time) {
        (self.deadline, self.armed) = (at, now);
    }

    /// Returns whether the timer is due but its tick has not come yet; then `deadline` becomes that tick.
    pub fn is_between_ticks(&mut self, now: Time) -> bool {
        let Some(wheel) = self.wheel.filter(|_| self.armed != Time::NEVER) else { return false };
        self.deadline = wheel.expiry(self.armed, self.deadline);
        self.armed = Time::NEVER;
        now < self.deadline
    }
}

impl TcpSock {
    /// The probe's time as an ACK sets it: PTO from now, but at most an RTO from now.
    #[inline(always)]
    pub(super) fn probe_after_ack(&self, now: Time) -> Time {
        now + Span(self.pto().0.min(self.rto.timeout().0))
    }

    /// The probe's time as a transmission sets it: PTO from now, but at most an RTO after the first outstanding segment was sent.
    #[inline(always)]
    pub(super) fn probe_after_send(&self, now: Time) -> Time {
        let (pto, rto) = (now + self.pto(), self.sent.at(self.snd_una) + self.rto.timeout());
        if rto > now && rto < pto { rto } else { pto }
    }

    #[inline(always)]
    fn pto(&self) -> Span {
        tlp::pto(self.rto.srtt(), self.snd_nxt - self.snd_una, self.rto.min())
    }

    /// Returns whether a loss probe may be sent now (Linux: in states Open and CWR).
    fn is_probed(&self) -> bool {
        self.state == State::Cwr || self.is_ca_open()
    }

    /// An ACK restarts the timer (Linux `tcp_set_xmit_timer`).
    #[inline]
    pub(super) fn set_xmit_timer(&mut self, now: Time) {
        if self.snd_una < self.snd_nxt && self.is_probed() {
            self.timer.arm(Timer::Probe, now, self.probe_after_ack(now) + self.pacing_delay(now));
        } else {
            self.rearm_rto(now);
        }
    }

    /// Restarts the RTO now (Linux `tcp_rearm_rto`). If the timer ran for another purpose, the RTO counts from the transmission of the
    /// first outstanding segment.
    #[inline]
    pub(super) fn rearm_rto(&mut self, now: Time) {
        let from = if self.timer.kind == Timer::Rto { now } else { self.sent.at(self.snd_una) };
        self.start_rto(now, from);
    }

    /// Sets the timer to an RTO after `from`, but not before now. The time for which pacing releases no segment is added.
    #[inline]
    pub(super) fn start_rto(&mut self, now: Time, from: Time) {
        let at = (from + self.rto.timeout()).max(now + Span::from_micros(1)) + self.pacing_delay(now);
        self.timer.arm(Timer::Rto, now, if self.snd_una == self.snd_nxt { Time::NEVER } else { at });
    }

    /// Doubles the RTO; in Linux it is rounded up to whole ticks first.
    pub(super) fn back_off(&mut self) {
        if let Some(wheel) = self.timer.wheel() {
            self.rto.round_up(wheel);
        }
        self.rto.back_off();
    }

    /// Sets the timer for segments that RACK has not declared lost, since they may only be reordered.
    pub(super) fn arm_reo_timer(&mut self, now: Time, wait: Span) {
        self.timer.arm(Timer::Reorder, now, now + wait + TIMEOUT_MIN);
    }

    /// Sets the timer after a segment has been sent, for the first time or again.
    pub(super) fn arm_departed(&mut self, now: Time, seq: u32, retransmit: bool) {
        let first = seq == self.snd_una;
        if !retransmit {
            if self.timer.is_linux() {
                self.arm_after_send(now, first);
            }
            return;
        }
        // The timer restarts when the first hole is retransmitted: RFC 6675 §6 allows it, and Linux does it
        // (`tcp_xmit_retransmit_queue`). It counts from the last retransmission that is sent at the same time as the first hole.
        let with_first = first || (self.timer.is_linux() && self.sent.at(self.snd_una) == now);
        if with_first && self.timer.kind != Timer::Reorder {
            self.start_rto(now, now);
        }
    }

    /// New segments were sent on the clean path: in Linux the timer of the loss probe starts.
    #[inline(always)]
    pub(super) fn arm_clean_send(&mut self, now: Time) {
        if self.timer.is_linux() {
            self.timer.arm(Timer::Probe, now, self.probe_after_send(now));
        }
    }

    /// New segments were sent off the clean path; `first`: no other was outstanding.
    pub(super) fn arm_after_send(&mut self, now: Time, first: bool) {
        if self.is_probed() {
            self.timer.arm(Timer::Probe, now, self.probe_after_send(now) + self.pacing_delay(now));
        } else if first {
            self.start_rto(now, now);
        } else if self.timer.kind == Timer::Probe {
            self.rearm_rto(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::sender::Sender;
    use crate::tcp::sender::micros;
    use crate::tcp::sender::tcp_sock::Due;
    use crate::tcp::{Ack, Block, Cc, Config};
    use alloc::vec::Vec;

    /// A sender that has sent its first flight. If it paces, a segment takes 10.5 ms; a tick is 4 ms.
    fn started(cc: Cc) -> Sender {
        started_with(cc, Span::from_millis(300))
    }

    fn started_with(cc: Cc, rtt: Span) -> Sender {
        let mut sender = Sender::new(&Config { cc, iw: 10, gso_max_segs: 64, ..Config::default() });
        sender.establish(Time::ZERO, Some(rtt));
        sender.write(100 * 1448);
        while sender.poll_transmit(Time::ZERO).is_some() {}
        sender
    }

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// Linux `tcp_reset_xmit_timer`, `tcp_pacing_delay`: a timer is set later by the whole ticks in which pacing releases no segment.
    #[test]
    fn the_timer_of_a_paced_sender_is_set_later_by_the_ticks_of_its_pacing_delay() {
        for (cc, delay) in [(Cc::Bbr, 8), (Cc::Cubic, 0)] {
            let (now, mut sender) = (Time::ZERO, started(cc));
            let delay = Span::from_millis(delay);
            assert_eq!(sender.tcp.pacing_delay(now), delay, "{cc:?}");
            assert_eq!(
                (sender.tcp.timer.kind, sender.tcp.timer.deadline),
                (Timer::Probe, sender.tcp.probe_after_send(now) + delay),
                "{cc:?}"
            );
            sender.tcp.rearm_rto(now);
            assert_eq!(sender.tcp.timer.deadline, now + sender.tcp.rto.timeout() + delay, "{cc:?}");
        }
    }

    /// Linux `tcp_retransmit_timer`, `__tcp_transmit_skb`: the retransmission after a timeout is sent at once. Its timestamp is the time of
    /// its paced departure, and the next segments are paced after that.
    #[test]
    fn the_retransmission_of_a_timeout_does_not_wait_for_pacing() {
        for (cc, late) in [(Cc::Bbr, true), (Cc::Cubic, false)] {
            let mut sender = started(cc);
            let turn = sender.tcp.turn(ms(5));
            assert_eq!(turn > ms(5), late);
            sender.on_rto(ms(5));
            let again = sender.poll_transmit(ms(5)).expect("one segment");
            assert_eq!((again.seq, again.retransmit), (0, true));
            assert_eq!((sender.stamped_at(ms(5), &again), sender.tcp.sent.at(0)), (turn, turn));
            assert_eq!(sender.tcp.turn(ms(5)) > turn, late);
            // Undo records it as the first retransmission: earlier timestamps are of originals.
            let echoes = [micros(turn) - 1, micros(turn)];
            assert_eq!(echoes.map(|echo| sender.linux().packet_delayed(echo)), [true, false]);
        }
    }

    /// Linux `tcp_send_loss_probe`, `__tcp_transmit_skb`: a probe that retransmits is sent at once, with the timestamp of its paced
    /// departure.
    #[test]
    fn the_timestamp_of_a_probe_is_that_of_its_paced_departure() {
        for (cc, late) in [(Cc::Bbr, true), (Cc::Cubic, false)] {
            let mut sender = started(cc);
            sender.stop();
            (sender.tcp.due, sender.tcp.clean) = (Due::Probe, false);
            let turn = sender.tcp.turn(ms(5));
            let probe = sender.poll_transmit(ms(5)).expect("the last segment");
            assert_eq!((probe.seq, probe.retransmit, turn > ms(5)), (9, true, late));
            assert_eq!((sender.stamped_at(ms(5), &probe), sender.tcp.sent.at(9)), (turn, turn));
            assert_eq!(sender.tcp.turn(ms(5)) > turn, late);
            assert_eq!(
                (sender.tcp.timer.kind, sender.tcp.timer.deadline),
                (Timer::Rto, ms(5) + sender.tcp.rto.timeout() + sender.tcp.pacing_delay(ms(5)))
            );
        }
    }

    /// Linux `tcp_xmit_retransmit_queue`: the RTO restarts with the first hole's retransmission, even if a probe was due, and after all
    /// segments retransmitted with it: two late segments of BBR take more than a tick, one does not.
    #[test]
    fn the_timeout_restarts_after_all_retransmissions_sent_with_the_first_hole() {
        for (cc, delay) in [(Cc::Bbr, 4), (Cc::Reno, 0)] {
            let mut sender = started_with(cc, Span::from_millis(200));
            sender.stop();
            assert_eq!(sender.tcp.timer.kind, Timer::Probe);
            let now = ms(200);
            sender.on_ack(now, &Ack { window: 1000, ..Ack::default() }, &[Block { start: 2, end: 10 }]);
            assert_eq!(
                (sender.tcp.state, sender.tcp.timer.kind),
                (State::Recovery, Timer::Probe),
                "SACKs alone start no timer"
            );
            let again: Vec<_> = core::iter::from_fn(|| sender.poll_transmit(now)).map(|tx| tx.seq).collect();
            assert_eq!(again, [0, 1], "{cc:?}");
            let at = now + sender.tcp.rto.timeout() + Span::from_millis(delay);
            assert_eq!((sender.tcp.timer.kind, sender.tcp.timer.deadline), (Timer::Rto, at), "{cc:?}");
        }
    }

    /// A retransmission does not restart RACK's reordering timer, which waits for segments that may still arrive.
    #[test]
    fn a_retransmission_does_not_postpone_the_end_of_racks_reordering_window() {
        let mut sender = started(Cc::Reno);
        sender.tcp.arm_reo_timer(ms(300), Span::from_millis(20));
        let due = sender.tcp.timer.deadline;
        sender.tcp.arm_departed(ms(301), 0, true);
        assert_eq!((sender.tcp.timer.kind, sender.tcp.timer.deadline), (Timer::Reorder, due));
    }

    /// Linux `tcp_send_loss_probe`: a probe of new data may not be sent before its paced departure; then there is no probe, and the RTO
    /// runs.
    #[test]
    fn a_probe_of_new_data_is_not_sent_before_its_paced_departure() {
        for (at, sent) in [(5, None), (11, Some(10))] {
            let mut sender = started(Cc::Bbr);
            sender.tcp.due = Due::Probe;
            assert_eq!(sender.poll_transmit(ms(at)).map(|tx| tx.seq), sent, "{at} ms");
            assert_eq!(
                (sender.linux().probe().map(|seq| seq + 1), sender.tcp.timer.kind),
                (sent.map(|seq| seq + 1), Timer::Rto),
                "{at} ms"
            );
        }
    }
}
