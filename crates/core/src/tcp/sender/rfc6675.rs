//! The loss recovery of RFC 6675: a segment is lost when three above it are SACKed. Linux used it before RACK.
//!
//! Deviations: a lost retransmission is detected when newer data is SACKed, as in Linux before RACK. If the RTO is Linux's, a timeout
//! that timestamps show to be spurious is undone.

use super::rate_based::{self, Report};
use super::tcp_sock::TcpSock;
use super::{State, micros, since_us};
use crate::tcp::cc::{Control, FlowEvent};
use crate::tcp::prr::Prr;
use crate::tcp::scoreboard::Advanced;
use crate::tcp::{Ack, Acked, Block, Config, Transmit};
use crate::units::{Span, Time};
use alloc::boxed::Box;

/// The congestion control before a timeout.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BeforeTimeout {
    control: Control,
    /// When the timeout happened, in µs modulo 2^32.
    stamp: u32,
}

/// The loss recovery of RFC 6675, without RACK.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rfc6675 {
    /// RescueRxt: rule 4 may still retransmit one segment. `None` after that retransmission, and before a recovery.
    rescue_rxt: Option<u32>,
    /// ECN echoes are ignored until more than this is acknowledged.
    cwr_end: u32,
    /// Timeouts that the timestamps show to be spurious are undone (RFC 4015).
    eifel: bool,
    /// The state to return to if the last timeout was spurious.
    before_timeout: Option<Box<BeforeTimeout>>,
}

impl Rfc6675 {
    pub fn new(config: &Config) -> Rfc6675 {
        Rfc6675 { rescue_rxt: None, cwr_end: 0, eifel: config.timestamps && config.linux_rto, before_timeout: None }
    }

    #[inline(never)]
    pub(super) fn on_ack(&mut self, tcp: &mut TcpSock, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        let prior_in_flight = tcp.inflight();
        tcp.cwnd_validate(prior_in_flight);
        tcp.bursts.begin();
        let known = tcp.known_rtt(tcp.snd_una);
        let cum = ack.cum.max(tcp.snd_una);
        let newly = cum - tcp.snd_una;
        let payload = tcp.stream.acknowledge(tcp.snd_una, cum);
        let gone = tcp.board.advance(tcp.snd_una, cum, |_, _| {});
        let rate_based = &mut tcp.rate_based;
        rate_based::acked(rate_based, tcp.snd_una..cum);
        tcp.snd_una = cum;
        tcp.wnd_end = tcp.wnd_end.max(ack.cum.saturating_add(ack.window));
        let sacked = tcp.board.sack(cum, tcp.snd_nxt, blocks, |seq, _| rate_based::sacked(rate_based, seq));
        let delivered = newly - gone.were_sacked + sacked;
        let newly_lost = tcp.board.mark_lost(cum, |seq| rate_based::lost(rate_based, seq))
            + tcp.board.mark_retransmissions_lost(cum, |seq| rate_based::lost(rate_based, seq));
        let rtt = Rfc6675::sample_slow(tcp, now, ack, newly, gone);
        if let Some(rtt) = rtt {
            tcp.min_rtt_us = tcp.min_rtt_us.min((rtt.0 / 1000) as u32);
            tcp.rtt_us = (since_us(now, ack.ts_last).0 / 1000) as u32;
        }
        if newly > 0 && tcp.state == State::Loss {
            self.try_undo_timeout(tcp, now, ack);
        }
        let marked = tcp.ecn.count_marks(ack, delivered, tcp.snd_una);
        tcp.control.in_ack_event(delivered, marked > 0, &tcp.ack_sample(now, ack));
        self.move_state(tcp, now, tcp.ecn.is_echo(ack), newly);
        if tcp.rate_based.is_some() {
            let lone_short = newly == 1 && delivered == 1 && payload < u64::from(tcp.stream.mss());
            tcp.cong_control_rate_based(
                now,
                ack,
                &Report { delivered, marked, newly, newly_lost, prior_in_flight, lone_short },
            );
        } else {
            Rfc6675::move_window(tcp, now, ack, newly, delivered, newly_lost);
        }
        if newly > 0 {
            tcp.timer.deadline = if tcp.snd_una == tcp.snd_nxt { Time::NEVER } else { now + tcp.rto.timeout() };
        }
        tcp.clean = tcp.state == State::Open && tcp.board.is_clean() && tcp.is_plain();
        Acked { payload, rtt: rtt.and(known) }
    }

    /// Takes the RTT sample of an ACK. Only an ACK that advances gives one (RFC 7323 §4.1). Without timestamps, an ACK of a
    /// retransmitted segment gives none (Karn's algorithm).
    fn sample_slow(tcp: &mut TcpSock, now: Time, ack: &Ack, newly: u32, gone: Advanced) -> Option<Span> {
        if newly == 0 || (!tcp.timestamps && (gone.retransmitted || gone.were_sacked > 0)) {
            return None;
        }
        let rtt = since_us(now, ack.ts_first);
        tcp.rto.sample(rtt, tcp.snd_una, tcp.snd_nxt);
        Some(rtt)
    }

    /// Ends and begins reductions. `echo`: the ACK carries an ECN echo. A reduction starts from the flight size before the ACK.
    fn move_state(&mut self, tcp: &mut TcpSock, now: Time, echo: bool, newly: u32) {
        if matches!(tcp.state, State::Cwr | State::Recovery) && tcp.snd_una >= tcp.high_seq {
            tcp.control.end_reduction();
            tcp.state = State::Open;
        } else if tcp.state == State::Loss && tcp.snd_una >= tcp.high_seq {
            tcp.state = State::Open;
        }
        if matches!(tcp.state, State::Open | State::Cwr) && tcp.board.lost > 0 {
            // RFC 6675 §5 step 4. A window that ECN is reducing already is not reduced twice.
            if tcp.state == State::Open {
                self.begin_reduction(tcp, now, newly, false);
            }
            tcp.state = State::Recovery;
            tcp.high_seq = tcp.snd_nxt;
            self.rescue_rxt = Some(tcp.snd_una);
            tcp.board.begin_recovery(tcp.snd_una);
        } else if tcp.state == State::Open && echo && tcp.snd_una > self.cwr_end {
            // RFC 3168 §6.1.2: once a window, and not for segments that were sent before CWR could arrive.
            self.begin_reduction(tcp, now, newly, true);
            tcp.state = State::Cwr;
            tcp.high_seq = tcp.snd_nxt;
        }
    }

    fn begin_reduction(&mut self, tcp: &mut TcpSock, now: Time, newly: u32, ece: bool) {
        tcp.flow_event(now, FlowEvent::Reduction { ece });
        let base = tcp.control.reduce(tcp.snd_nxt - tcp.snd_una + newly, ece);
        tcp.prr = Prr::new(base);
        tcp.ecn.announce_reduction();
        self.cwr_end = tcp.snd_nxt;
    }

    /// Sets the window after an ACK: by PRR during a reduction, by growth otherwise.
    fn move_window(tcp: &mut TcpSock, now: Time, ack: &Ack, newly: u32, delivered: u32, newly_lost: u32) {
        match tcp.state {
            State::Recovery | State::Cwr if delivered > 0 => {
                let (pipe, growing) = (tcp.inflight(), newly > 0 && newly_lost == 0);
                let sndcnt = tcp.prr.on_ack(delivered, pipe, tcp.control.ssthresh(), growing);
                tcp.control.set_window(pipe + sndcnt);
            }
            State::Open if newly > 0 && tcp.control.may_grow(&tcp.usage) => {
                tcp.control.cong_avoid(delivered, &tcp.ack_sample(now, ack))
            }
            // Linux `tcp_may_raise_cwnd`: while nothing advances, SACKs of newer data do not raise the window.
            State::Loss if newly > 0 => tcp.control.cong_avoid(delivered, &tcp.ack_sample(now, ack)),
            _ => {}
        }
    }

    /// Handles a timeout (RFC 6298 §5.4 to 5.6, RFC 5681 §3.1): all segments not SACKed are lost, and slow start begins with one
    /// segment.
    #[cold]
    #[inline(never)]
    pub(super) fn on_timeout(&mut self, tcp: &mut TcpSock, now: Time) {
        tcp.timeouts += 1;
        if tcp.snd_una == tcp.snd_nxt {
            tcp.timer.deadline = Time::NEVER;
            return;
        }
        // The threshold falls once for the same outstanding data, not with each of its timeouts (RFC 5681 §3.1).
        let progressed = tcp.state == State::Loss && tcp.rto.backoff() == 0;
        if tcp.state == State::Open || tcp.snd_una >= tcp.high_seq || progressed {
            self.before_timeout =
                self.eifel.then(|| Box::new(BeforeTimeout { control: tcp.control.clone(), stamp: micros(now) }));
            tcp.flow_event(now, FlowEvent::Reduction { ece: false });
            tcp.control.reduce(tcp.snd_nxt - tcp.snd_una, false);
            tcp.ecn.announce_reduction();
        }
        tcp.rto.back_off();
        let before = tcp.control.window();
        tcp.control.on_loss_timeout();
        let rate_based = &mut tcp.rate_based;
        tcp.board.all_lost(tcp.snd_una, tcp.snd_nxt, |seq| rate_based::lost(rate_based, seq));
        tcp.state = State::Loss;
        tcp.loss_event(now, before);
        tcp.clean = false;
        tcp.high_seq = tcp.snd_nxt;
        self.cwr_end = tcp.snd_nxt;
        tcp.timer.deadline = now + tcp.rto.timeout();
    }

    /// The next segment to send, retransmissions first.
    pub(super) fn next_segment(&mut self, tcp: &mut TcpSock, now: Time) -> Option<Transmit> {
        // RFC 6675 §4 NextSeg, rules 1 to 4 in turn.
        if matches!(tcp.state, State::Recovery | State::Loss)
            && let Some(seq) = tcp.board.next_lost(tcp.snd_una)
        {
            return Some(retransmit(tcp, now, seq, false));
        }
        if tcp.has_new_data() {
            return tcp.send_new_data(now);
        }
        if tcp.state != State::Recovery {
            return None;
        }
        if let Some(seq) = tcp.board.next_hole(tcp.snd_una) {
            return Some(retransmit(tcp, now, seq, false));
        }
        // Rule 4 asks for HighACK > RescueRxt; HighACK is snd_una - 1.
        if self.rescue_rxt.is_some_and(|rescue_rxt| tcp.snd_una > rescue_rxt + 1) {
            self.rescue_rxt = None;
            // The scoreboard may be clean by now, and a clean one has not grown with the flight.
            tcp.board.reserve(tcp.snd_una, tcp.snd_nxt);
            let seq = tcp.board.highest_unsacked(tcp.snd_una, tcp.snd_nxt)?;
            return Some(retransmit(tcp, now, seq, true));
        }
        None
    }

    /// The timestamp of the first ACK after a timeout shows whether the original or the retransmission arrived. If it was the
    /// original, nothing had been lost (Linux `tcp_try_undo_loss`; RFC 4015 with RFC 3522's test).
    fn try_undo_timeout(&mut self, tcp: &mut TcpSock, now: Time, ack: &Ack) {
        let Some(before) = self.before_timeout.take() else { return };
        if (ack.ts_first.wrapping_sub(before.stamp) as i32) < 0 {
            if tcp.rate_based.is_none() {
                tcp.control = before.control;
            }
            tcp.flow_event(now, FlowEvent::Undo);
            tcp.ecn.withdraw_cwr();
            tcp.board.none_lost(tcp.snd_una, tcp.snd_nxt);
            tcp.state = State::Open;
        }
    }
}

/// Retransmits a segment. `rescue`: it is the rescue retransmission of rule 4.
fn retransmit(tcp: &mut TcpSock, now: Time, seq: u32, rescue: bool) -> Transmit {
    let segment = tcp.send_again(now, seq, rescue);
    if tcp.rate_based.is_none() {
        tcp.arm_departed(now, seq, true);
    }
    segment
}
