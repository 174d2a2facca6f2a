//! The sender off the clean path as it was before RACK: RFC 6675 finds what is lost, by three SACKed segments above.
//!
//! Deviations: a lost retransmission is seen when newer data is SACKed, as Linux saw it then; a timeout that the timestamps
//! show to be spurious is undone, where Linux's RTO is asked for.

use super::rate_based::{self, Report};
use super::{Sender, State, micros, since_us};
use crate::tcp::cc::{Control, FlowEvent};
use crate::tcp::prr::Prr;
use crate::tcp::scoreboard::Advanced;
use crate::tcp::{Ack, Acked, Block, Transmit};
use crate::units::{Span, Time};
use alloc::boxed::Box;

/// The sender's window before a timeout.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BeforeTimeout {
    control: Control,
    /// When the first retransmission was due, in µs modulo 2^32.
    stamp: u32,
}

impl Sender {
    #[inline(never)]
    pub(super) fn on_ack_rfc6675(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        let prior_in_flight = self.inflight();
        self.cwnd_validate(prior_in_flight);
        self.bursts.begin();
        let cum = ack.cum.max(self.snd_una);
        let newly = cum - self.snd_una;
        let payload = self.stream.acknowledge(self.snd_una, cum);
        let gone = self.board.advance(self.snd_una, cum, |_, _| {});
        let rate_based = &mut self.rate_based;
        rate_based::acked(rate_based, self.snd_una..cum);
        self.snd_una = cum;
        self.wnd_end = self.wnd_end.max(ack.cum.saturating_add(ack.window));
        let sacked = self.board.sack(cum, self.snd_nxt, blocks, |seq, _| rate_based::sacked(rate_based, seq));
        let delivered = newly - gone.were_sacked + sacked;
        let newly_lost = self.board.mark_lost(cum, |seq| rate_based::lost(rate_based, seq))
            + self.board.mark_retransmissions_lost(cum, |seq| rate_based::lost(rate_based, seq));
        let rtt = self.sample_slow(now, ack, newly, gone);
        if let Some(rtt) = rtt {
            self.min_rtt_us = self.min_rtt_us.min((rtt.0 / 1000) as u32);
        }
        if newly > 0 && self.state == State::Loss {
            self.try_undo_timeout(now, ack);
        }
        let marked = self.count_marks(ack, delivered);
        self.control.in_ack_event(delivered, marked > 0, &self.ack_sample(now, ack));
        self.move_state(now, self.is_echo(ack), newly);
        if self.rate_based.is_some() {
            let lone_short = newly == 1 && delivered == 1 && payload < u64::from(self.stream.mss());
            self.cong_control_rate_based(
                now,
                ack,
                &Report { delivered, marked, newly, newly_lost, prior_in_flight, lone_short },
            );
        } else {
            self.move_window(now, ack, newly, delivered, newly_lost);
        }
        if newly > 0 {
            self.deadline = if self.snd_una == self.snd_nxt { Time::NEVER } else { now + self.rto.timeout() };
        }
        self.clean = self.state == State::Open && self.board.is_clean() && self.is_plain();
        Acked { payload, rtt }
    }

    /// RFC 7323 §4.1: only an ACK that advances is timed. Without timestamps none of a retransmission is (Karn).
    fn sample_slow(&mut self, now: Time, ack: &Ack, newly: u32, gone: Advanced) -> Option<Span> {
        if newly == 0 || (!self.timestamps && (gone.retransmitted || gone.were_sacked > 0)) {
            return None;
        }
        let rtt = since_us(now, ack.ts_first);
        self.rto.sample(rtt, self.snd_una, self.snd_nxt);
        Some(rtt)
    }

    /// Ends and begins reductions; `echo` asks for one. The flight size is the one that the ACK met.
    fn move_state(&mut self, now: Time, echo: bool, newly: u32) {
        if matches!(self.state, State::Cwr | State::Recovery) && self.snd_una >= self.high_seq {
            self.control.end_reduction();
            self.state = State::Open;
        } else if self.state == State::Loss && self.snd_una >= self.high_seq {
            self.state = State::Open;
        }
        if matches!(self.state, State::Open | State::Cwr) && self.board.lost > 0 {
            // RFC 6675 §5 step 4. A window that ECN is reducing already is not reduced twice.
            if self.state == State::Open {
                self.begin_reduction(now, newly, false);
            }
            self.state = State::Recovery;
            self.high_seq = self.snd_nxt;
            self.rescue = true;
            self.rescue_rxt = self.snd_una;
            self.board.begin_recovery(self.snd_una);
        } else if self.state == State::Open && echo && self.snd_una > self.cwr_end {
            // RFC 3168 §6.1.2: once a window, and not for what was sent before CWR could arrive.
            self.begin_reduction(now, newly, true);
            self.state = State::Cwr;
            self.high_seq = self.snd_nxt;
        }
    }

    fn begin_reduction(&mut self, now: Time, newly: u32, ece: bool) {
        self.flow_event(now, FlowEvent::Reduction { ece: ece });
        let base = self.control.reduce(self.snd_nxt - self.snd_una + newly, ece);
        self.prr = Prr::new(base);
        self.cwr_due = self.ecn;
        self.cwr_end = self.snd_nxt;
    }

    /// The window after an ACK: PRR during a reduction, growth otherwise.
    fn move_window(&mut self, now: Time, ack: &Ack, newly: u32, delivered: u32, newly_lost: u32) {
        match self.state {
            State::Recovery | State::Cwr if delivered > 0 => {
                let (pipe, growing) = (self.inflight(), newly > 0 && newly_lost == 0);
                let sndcnt = self.prr.on_ack(delivered, pipe, self.control.ssthresh(), growing);
                self.control.set_window(pipe + sndcnt);
            }
            State::Open if newly > 0 && self.control.may_grow(&self.usage) => {
                self.control.cong_avoid(delivered, &self.ack_sample(now, ack))
            }
            // Linux `tcp_may_raise_cwnd`: while nothing advances, SACKs of newer data do not raise the window.
            State::Loss if newly > 0 => self.control.cong_avoid(delivered, &self.ack_sample(now, ack)),
            _ => {}
        }
    }

    /// RFC 6298 §5.4 to 5.6 and RFC 5681 §3.1: everything not SACKed is lost, start again from one segment.
    #[cold]
    #[inline(never)]
    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.snd_una == self.snd_nxt {
            self.deadline = Time::NEVER;
            return;
        }
        // The threshold falls once for what was outstanding, not with every timeout of the same data (RFC 5681 §3.1).
        let progressed = self.state == State::Loss && self.rto.backoff() == 0;
        if self.state == State::Open || self.snd_una >= self.high_seq || progressed {
            self.before_timeout =
                self.eifel.then(|| Box::new(BeforeTimeout { control: self.control.clone(), stamp: micros(now) }));
            self.flow_event(now, FlowEvent::Reduction { ece: false });
            self.control.reduce(self.snd_nxt - self.snd_una, false);
            self.cwr_due = self.ecn;
        }
        self.rto.back_off();
        let before = self.control.window();
        self.control.on_loss_timeout();
        let rate_based = &mut self.rate_based;
        self.board.all_lost(self.snd_una, self.snd_nxt, |seq| rate_based::lost(rate_based, seq));
        self.state = State::Loss;
        self.loss_event(now, before);
        self.clean = false;
        self.high_seq = self.snd_nxt;
        self.cwr_end = self.snd_nxt;
        self.deadline = now + self.rto.timeout();
    }

    /// The next segment, whatever the pace.
    pub(super) fn poll_rfc6675(&mut self, now: Time) -> Option<Transmit> {
        // RFC 6675 §4 NextSeg, rules 1 to 4 in turn.
        if matches!(self.state, State::Recovery | State::Loss)
            && let Some(seq) = self.board.next_lost(self.snd_una)
        {
            return Some(self.send_again(now, seq, false));
        }
        if self.has_new_data() {
            return self.send_new_data(now);
        }
        if self.state != State::Recovery {
            return None;
        }
        if let Some(seq) = self.board.next_hole(self.snd_una) {
            return Some(self.send_again(now, seq, false));
        }
        // Rule 4 asks for HighACK > RescueRxt; HighACK is snd_una - 1.
        if self.rescue && self.snd_una > self.rescue_rxt + 1 {
            self.rescue = false;
            // Nothing may stand on the scoreboard any more, so that it has not grown with the flight.
            self.board.reserve(self.snd_una, self.snd_nxt);
            let seq = self.board.highest_unsacked(self.snd_una, self.snd_nxt)?;
            return Some(self.send_again(now, seq, true));
        }
        None
    }

    /// The first ACK after a timeout tells by its timestamp whether the original or the retransmission arrived. If it
    /// was the original, nothing had been lost (Linux `tcp_try_undo_loss`; RFC 4015 with RFC 3522's test).
    fn try_undo_timeout(&mut self, now: Time, ack: &Ack) {
        let Some(before) = self.before_timeout.take() else { return };
        if (ack.ts_first.wrapping_sub(before.stamp) as i32) < 0 {
            if self.rate_based.is_none() {
                self.control = before.control;
            }
            self.flow_event(now, FlowEvent::Undo);
            self.cwr_due = false;
            self.board.none_lost(self.snd_una, self.snd_nxt);
            self.state = State::Open;
        }
    }
}
