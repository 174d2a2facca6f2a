//! The sender off the clean path as today's Linux has it: RACK finds what is lost, and what proves to be in vain is undone.
//!
//! Facts: `tcp_ack`, `tcp_fastretrans_alert`, `tcp_process_loss` and `tcp_enter_loss` of Linux 7.3's tcp_input.c.
//!
//! Deviations: an ACK older than another is taken as a repetition of it; a receiver never takes back what it SACKed.

use super::rate_based::{self, Report};
use super::timers::Timer;
use super::{Rexmit, Sender, State, micros, since_ms};
use crate::tcp::cc::FlowEvent;
use crate::tcp::prr::Prr;
use crate::tcp::rack::SacktagState;
use crate::tcp::scoreboard::Found;
use crate::tcp::tlp::{Sign, Verdict};
use crate::tcp::undo::Prior;
use crate::tcp::{Ack, Acked, Block, Transmit};
use crate::units::{Span, Time};

/// The effects of one ACK that later steps of its processing depend on: Linux's `flag`, `num_dupack` and `rate_sample`.
/// Counts in segments.
#[derive(Default)]
pub(super) struct AckResult {
    /// Newly acknowledged cumulatively (`FLAG_DATA_ACKED`).
    newly_acked: u32,
    /// Newly SACKed (`FLAG_DATA_SACKED`).
    newly_sacked: u32,
    /// Reported as duplicates by a DSACK (`FLAG_DSACKING_ACK`).
    dsack_segs: u32,
    /// The DSACK reports the loss probe (`FLAG_DSACK_TLP`).
    dsack_tlp: bool,
    /// A segment arrived that was never retransmitted and was sent before the recovery began (`FLAG_ORIG_SACK_ACKED`).
    orig_sack_acked: bool,
    /// The ACK carries an ECN echo that asks for a reduction (`FLAG_ECE`).
    ece: bool,
    /// The timestamp echo, in µs modulo 2^32.
    rcv_tsecr: Option<u32>,
    /// Delivered, cumulatively or selectively (`rate_sample.acked_sacked`).
    acked_sacked: u32,
    /// Delivered with a CE mark (`rate_sample.delivered_ce`).
    delivered_ce: u32,
    /// Segments found lost.
    found: Found,
}

impl Sender {
    #[inline(never)]
    pub(in crate::tcp) fn on_ack_linux(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        let prior_in_flight = self.inflight();
        self.cwnd_validate(prior_in_flight);
        self.bursts.begin();
        let (payload, sacktag, mut result) = self.clean_rtx_queue(now, ack, blocks);
        let rtt = self.ack_update_rtt(now, ack, result.newly_acked, &sacktag);
        self.check_sack_reordering(&sacktag);
        // Linux `in_ack_event`.
        result.delivered_ce = self.count_marks(ack, result.acked_sacked);
        self.control.in_ack_event(result.acked_sacked, result.delivered_ce > 0, &self.ack_sample(now, ack));
        self.process_tlp_ack(now, ack, &result);
        let dubious = result.newly_acked == 0 || result.newly_sacked > 0 || result.dsack_segs > 0 || result.ece;
        if dubious || !self.is_ca_open() {
            self.fastretrans_alert(now, &mut result);
        }
        // Linux: an ACK that advances starts the timer anew, and a SACK that was sent for after the first segment was.
        let fresh = || sacktag.sack_rtt().is_some_and(|rtt| rtt > now.since(self.sent.at(self.snd_una)));
        if result.found.wait == Span::ZERO && (result.newly_acked > 0 || (self.snd_una < self.snd_nxt && fresh())) {
            self.set_xmit_timer(now);
        }
        self.cong_control(now, ack, payload, prior_in_flight, &result);
        self.clean = self.is_ca_open() && self.board.is_clean() && self.is_plain() && self.tlp.end_seq.is_none();
        Acked { payload, rtt }
    }

    /// The same of the commonest ACK of a repair: it SACKs segments above all SACKed before, which left once, and says nothing
    /// else.
    #[inline(always)]
    pub(in crate::tcp) fn on_sacked_above(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Option<Acked> {
        let repairing =
            self.state == State::Recovery && self.snd_una < self.high_seq && !self.undo.all_retrans_dsacked();
        let bare = ack.cum == self.snd_una && ack.ace == 0 && self.cep.is_none() && self.tlp.end_seq.is_none();
        if !repairing || !bare {
            return None;
        }
        let prior_in_flight = self.inflight();
        let run = self.board.sack_above(self.snd_una, self.snd_nxt, blocks)?;
        let (count, at) = (run.end - run.start, self.sent.at(run.start));
        self.cwnd_validate(prior_in_flight);
        self.bursts.begin();
        self.wnd_end = self.wnd_end.max(ack.cum.saturating_add(ack.window));
        // Of those that left once the last is the newest.
        let newest = self.sent.at(run.end - 1);
        let (rtt, last) = (now.since(at), now.since(newest));
        self.rack.advance(newest, run.end, last);
        self.rtt_estimator(rtt, last);
        self.control.in_ack_event(count, false, &self.ack_sample(now, ack));
        let mut found = Found::default();
        // RFC 8985 §6.2 step 5, as in `find`: most often all below has been judged, and what left later is not behind.
        let judge = self.rack.judge(now, Span::ZERO);
        if self.board.judge_above((self.snd_una, self.snd_nxt), &run, &judge, &self.sent) {
            self.rack.advanced = false;
        } else {
            self.identify_packet_loss(now, &mut found);
        }
        self.rexmit = Rexmit::Lost;
        if found.wait == Span::ZERO && at < self.sent.at(self.snd_una) {
            // In a recovery: no probe.
            self.rearm_rto(now);
        }
        if self.rate_based.is_some() {
            self.cong_control_of_run(now, run, found.lost, prior_in_flight);
        } else {
            let result = AckResult { newly_sacked: count, acked_sacked: count, found, ..AckResult::default() };
            self.cong_control(now, ack, 0, prior_in_flight, &result);
        }
        Some(Acked { payload: 0, rtt: Some(rtt) })
    }

    /// Scoreboard and numbers.
    fn clean_rtx_queue(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> (u64, SacktagState, AckResult) {
        let (snd_una, cum) = (self.snd_una, ack.cum.max(self.snd_una));
        let rcv_tsecr = self.timestamps.then_some(ack.ts_first);
        let (dsack_segs, dsack_tlp) = self.check_dsack(ack, blocks);
        let mut sacktag = SacktagState::new(now, self.min_rtt(), self.board.fack(snd_una), self.high_seq, rcv_tsecr);
        let payload = self.stream.acknowledge(snd_una, cum);
        let (sent, rate_based) = (&self.sent, &mut self.rate_based);
        if cum > snd_una && self.board.is_clean() {
            sacktag.acked_run((snd_una, sent.at(snd_una)), (cum - 1, sent.at(cum - 1)));
            rate_based::acked(rate_based, snd_una..cum);
        }
        let gone = self.board.advance(snd_una, cum, |seq, again| {
            rate_based::acked(rate_based, seq..seq + 1);
            if again {
                sacktag.acked_again(seq, sent.at(seq));
            } else {
                sacktag.acked_run((seq, sent.at(seq)), (seq, sent.at(seq)));
            }
        });
        sacktag.retrans_acked |= gone.repeated;
        if cum == self.snd_nxt {
            self.board.settle();
        }
        self.snd_una = cum;
        self.wnd_end = self.wnd_end.max(ack.cum.saturating_add(ack.window));
        let sacked = self.board.sack(cum, self.snd_nxt, blocks, |seq, again| {
            rate_based::sacked(rate_based, seq);
            sacktag.sacked(seq, sent.at(seq), again);
        });
        sacktag.update_rack(&mut self.rack);
        let newly = cum - snd_una;
        if newly > 0 {
            self.icsk_retransmits = 0;
        }
        let result = AckResult {
            newly_acked: newly,
            newly_sacked: sacked,
            dsack_segs,
            dsack_tlp,
            orig_sack_acked: sacktag.orig_sack_acked,
            ece: self.is_echo(ack),
            rcv_tsecr,
            acked_sacked: newly - gone.were_sacked + sacked + dsack_segs,
            ..AckResult::default()
        };
        (payload, sacktag, result)
    }

    /// RFC 2883: the first block reports a duplicate if it lies below the ACK or inside the second. Says how many segments,
    /// and whether that is the probe.
    fn check_dsack(&mut self, ack: &Ack, blocks: &[Block]) -> (u32, bool) {
        let Some(&first) = blocks.first() else { return (0, false) };
        let inside = blocks.get(1).is_some_and(|second| second.start <= first.start && first.end <= second.end);
        let segments = first.end.saturating_sub(first.start);
        if !(first.start < ack.cum || inside) || !self.undo.dsack_seen(segments, self.total_retrans) {
            return (0, false);
        }
        let probe = segments == 1 && self.tlp.end_seq == Some(first.end);
        if !probe {
            self.rack.note_dsack(self.snd_una, self.snd_nxt);
        }
        if first.end <= self.snd_una {
            self.undo.on_dsack(first.end, segments);
        }
        for seq in first.start.max(self.snd_una)..first.end.min(self.snd_nxt) {
            if self.board.on_duplicate(seq) {
                self.undo.on_dsack(seq + 1, 1);
            }
        }
        (segments, probe)
    }

    /// The RTT of what arrived.
    fn ack_update_rtt(&mut self, now: Time, ack: &Ack, newly: u32, sacktag: &SacktagState) -> Option<Span> {
        let by_stamp = || self.rtt_by_stamp(now, ack, newly).map(|rtt| (rtt, rtt));
        let (rtt, newest) = sacktag.rtts().or_else(by_stamp)?;
        self.rtt_estimator(rtt, newest);
        Some(rtt)
    }

    /// The RTT that the timestamp of an ACK shows, if it advances.
    pub(super) fn rtt_by_stamp(&self, now: Time, ack: &Ack, newly: u32) -> Option<Span> {
        if self.timestamps && newly > 0 { since_ms(now, ack.ts_first) } else { None }
    }

    /// An RTT for the timer, and one that a minimum is kept of.
    #[inline(always)]
    fn rtt_estimator(&mut self, rtt: Span, newest: Span) {
        self.min_rtt_us = self.min_rtt_us.min((newest.0 / 1000).max(1) as u32);
        self.rto.sample(rtt, self.snd_una, self.snd_nxt);
    }

    /// Reordering.
    fn check_sack_reordering(&mut self, sacktag: &SacktagState) {
        if let Some(late) = sacktag.reord
            && (self.state != State::Loss || self.undo.has_marker())
        {
            self.rack.note_reordering(self.board.fack(self.snd_una).saturating_sub(late));
        }
    }

    /// Linux `tcp_process_tlp_ack`.
    fn process_tlp_ack(&mut self, now: Time, ack: &Ack, result: &AckResult) {
        let bare = result.newly_acked == 0 && result.newly_sacked == 0;
        let sign = Sign { cum: ack.cum, duplicate: result.dsack_tlp, bare };
        match self.tlp.judge(&sign) {
            Verdict::Open => {}
            Verdict::Over => self.tlp.end_seq = None,
            Verdict::Repaired => {
                self.init_cwnd_reduction(now, false);
                self.control.end_reduction();
                self.state = State::Open;
            }
        }
    }

    /// Linux `TCP_CA_Open`: nothing is SACKed, lost or retransmitted.
    pub(super) fn is_ca_open(&self) -> bool {
        self.state == State::Open && self.board.is_whole()
    }

    /// Linux `tcp_fastretrans_alert`.
    fn fastretrans_alert(&mut self, now: Time, result: &mut AckResult) {
        self.end_frto_unsent();
        self.rexmit = Rexmit::None;
        if result.ece {
            self.undo.prior = None;
        }
        self.check_exit(now, result);
        match self.state {
            State::Recovery => {
                if result.newly_acked > 0 && self.try_undo_partial(now, result) {
                    return;
                }
                if self.undo.all_retrans_dsacked() {
                    self.rack.on_spurious_recovery();
                    self.undo_cwnd_reduction(now, false);
                    self.try_to_open(now, result);
                }
                self.identify_packet_loss(now, &mut result.found);
                if self.state != State::Recovery {
                    if self.board.lost == 0 {
                        return;
                    }
                    self.enter_recovery(now, result.ece);
                }
            }
            State::Loss => {
                self.process_loss(now, result);
                self.identify_packet_loss(now, &mut result.found);
                if self.state == State::Open || result.found.again > 0 {
                    return self.fastretrans_alert_open(now, result);
                }
                return;
            }
            _ => return self.fastretrans_alert_open(now, result),
        }
        self.rexmit = Rexmit::Lost;
    }

    /// The same of a connection that repairs nothing.
    fn fastretrans_alert_open(&mut self, now: Time, result: &mut AckResult) {
        if self.state == State::Open && self.undo.all_retrans_dsacked() {
            self.rack.on_spurious_recovery();
            self.undo_cwnd_reduction(now, false);
        }
        self.identify_packet_loss(now, &mut result.found);
        if self.board.lost == 0 {
            return self.try_to_open(now, result);
        }
        self.enter_recovery(now, result.ece);
        self.rexmit = Rexmit::Lost;
    }

    /// A reduction ends when all is acknowledged that was sent before it; one by ECN when more is.
    fn check_exit(&mut self, now: Time, result: &AckResult) {
        match self.state {
            State::Open if self.board.is_whole() => self.undo.clear_retrans_stamp(),
            State::Cwr if self.snd_una > self.high_seq => {
                self.control.end_reduction();
                self.state = State::Open;
            }
            State::Recovery if self.snd_una >= self.high_seq => {
                self.try_undo_recovery(now, result);
                // What is undone has its window again.
                if self.undo.has_marker() {
                    self.control.end_reduction();
                }
            }
            _ => {}
        }
    }

    /// Linux `tcp_try_undo_recovery`.
    fn try_undo_recovery(&mut self, now: Time, result: &AckResult) {
        if self.may_undo(result) {
            self.undo_cwnd_reduction(now, false);
        } else {
            self.rack.on_recovery();
        }
        self.state = State::Open;
        // What slow start needed at its end will not be needed soon again.
        self.sent.fit(self.snd_una..self.snd_nxt);
        self.board.fit(self.snd_nxt - self.snd_una);
    }

    /// Linux `tcp_try_undo_partial`. Whether nothing else is to be done for now.
    fn try_undo_partial(&mut self, now: Time, result: &AckResult) -> bool {
        if !self.undo.packet_delayed(result.rcv_tsecr) {
            return false;
        }
        self.rack.note_reordering(self.board.fack(self.snd_una).saturating_sub(self.snd_una - result.newly_acked));
        if self.board.retx > 0 {
            return true;
        }
        self.retrans_stamp_cleanup();
        self.undo_cwnd_reduction(now, true);
        self.state = State::Open;
        false
    }

    fn may_undo(&self, result: &AckResult) -> bool {
        self.undo.all_retrans_dsacked() || self.undo.packet_delayed(result.rcv_tsecr)
    }

    /// Linux `tcp_undo_cwnd_reduction`; `unmark`: what is lost is not.
    fn undo_cwnd_reduction(&mut self, now: Time, unmark: bool) {
        if unmark {
            self.board.none_lost(self.snd_una, self.snd_nxt);
        }
        if let Some(prior) = self.undo.prior {
            if self.rate_based.is_none() && self.control.undo_cwnd(&prior) {
                self.cwr_due = false;
            }
            self.flow_event(now, FlowEvent::Undo);
        }
        self.undo.clear_marker();
        self.rack.advanced = true;
    }

    /// Linux `tcp_try_to_open`: what ECN asks of a connection that repairs nothing.
    fn try_to_open(&mut self, now: Time, result: &AckResult) {
        self.retrans_stamp_cleanup();
        if result.ece && self.state == State::Open {
            self.undo.prior = None;
            self.undo.clear_marker();
            self.init_cwnd_reduction(now, true);
            self.state = State::Cwr;
        }
    }

    /// Linux `tcp_process_loss`, with F-RTO for SACK (RFC 5682 §3.1).
    fn process_loss(&mut self, now: Time, result: &AckResult) {
        let recovered = self.snd_una >= self.high_seq;
        if result.newly_acked > 0 && self.may_undo(result) {
            return self.try_undo_loss(now);
        }
        if self.frto {
            // Step 3 b: something arrives that was never sent again. Also where the window had fallen already, so that there is
            // no undo to speak of (an echo before the timeout): what is marked lost is not.
            if result.orig_sack_acked {
                return self.try_undo_loss(now);
            }
            if self.snd_nxt > self.high_seq {
                // Step 3 a: the loss was real.
                if result.newly_sacked > 0 || (result.newly_acked == 0 && result.dsack_segs == 0) {
                    self.frto = false;
                }
            } else if result.newly_acked > 0 && !recovered {
                self.high_seq = self.snd_nxt;
                // Step 2 b: new data, if there is any.
                if self.has_new_data() {
                    self.rexmit = Rexmit::New;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            return self.try_undo_recovery(now, result);
        }
        self.rexmit = Rexmit::Lost;
    }

    fn try_undo_loss(&mut self, now: Time) {
        self.undo_cwnd_reduction(now, true);
        self.icsk_retransmits = 0;
        self.state = State::Open;
    }

    /// Nothing that was sent again is outstanding: the next repair has a stamp of its own.
    fn retrans_stamp_cleanup(&mut self) {
        if self.board.retx == 0 && (self.snd_una == self.snd_nxt || !self.board.is_repeated(self.snd_una)) {
            self.undo.clear_retrans_stamp();
        }
    }

    /// RFC 8985 §6.2 step 5, if something arrived since.
    fn identify_packet_loss(&mut self, now: Time, found: &mut Found) {
        if self.snd_una == self.snd_nxt || !core::mem::take(&mut self.rack.advanced) {
            return;
        }
        let more = self.rack_detect_loss(now);
        (found.lost, found.again) = (found.lost + more.lost, found.again + more.again);
        found.wait = more.wait;
        if more.wait > Span::ZERO {
            self.arm_reo_timer(now, more.wait);
        }
    }

    #[inline]
    pub(super) fn rack_detect_loss(&mut self, now: Time) -> Found {
        let repairing = matches!(self.state, State::Recovery | State::Loss);
        let srtt = self.rto.srtt().unwrap_or_default();
        let reo_wnd = self.rack.reo_wnd(repairing, self.board.sacked, self.min_rtt(), srtt);
        let judge = self.rack.judge(now, reo_wnd);
        let rate_based = &mut self.rate_based;
        self.board
            .rack_detect_loss((self.snd_una, self.snd_nxt), &judge, &self.sent, |seq| rate_based::lost(rate_based, seq))
    }

    pub(super) fn enter_recovery(&mut self, now: Time, echo: bool) {
        self.retrans_stamp_cleanup();
        self.undo.prior = None;
        self.init_undo();
        if !matches!(self.state, State::Cwr | State::Recovery) {
            let prior = self.prior();
            self.init_cwnd_reduction(now, false);
            self.undo.prior = (!echo).then_some(prior);
        }
        self.state = State::Recovery;
    }

    fn init_undo(&mut self) {
        let probe = self.tlp.end_seq.is_some() && self.tlp.is_retrans;
        self.undo.init(self.snd_una, self.board.retx + u32::from(probe));
    }

    fn prior(&self) -> Prior {
        self.control.prior(matches!(self.state, State::Cwr | State::Recovery))
    }

    /// Linux `tcp_init_cwnd_reduction`.
    fn init_cwnd_reduction(&mut self, now: Time, ece: bool) {
        self.flow_event(now, FlowEvent::Reduction { ece: ece });
        self.prr = Prr::new(self.control.reduce(u32::MAX, ece));
        self.high_seq = self.snd_nxt;
        self.tlp.end_seq = None;
        self.cwr_due = self.ecn;
    }

    /// The window after an ACK.
    #[inline(always)]
    fn cong_control(&mut self, now: Time, ack: &Ack, payload: u64, prior_in_flight: u32, result: &AckResult) {
        let &AckResult { newly_acked: newly, acked_sacked: delivered, delivered_ce: marked, found, .. } = result;
        let newly_lost = found.lost;
        if self.rate_based.is_some() {
            let lone_short = newly == 1 && delivered == 1 && payload < u64::from(self.stream.mss());
            return self.cong_control_rate_based(
                now,
                ack,
                &Report { delivered, marked, newly, newly_lost, prior_in_flight, lone_short },
            );
        }
        let sample = self.ack_sample(now, ack);
        if newly > 0 && self.state == State::Open {
            self.control.pkts_acked(&sample);
        }
        match self.state {
            State::Recovery | State::Cwr => self.cwnd_reduction(delivered, newly_lost, newly > 0),
            // Linux `tcp_may_raise_cwnd`: SACKs alone raise the window only where much is reordered.
            _ if newly == 0 && !(self.rack.is_reordering_high() && result.newly_sacked > 0) => {}
            State::Loss => self.control.cong_avoid(delivered, &sample),
            _ if self.control.may_grow(&self.usage) => self.control.cong_avoid(delivered, &sample),
            _ => {}
        }
    }

    /// PRR.
    pub(super) fn cwnd_reduction(&mut self, delivered: u32, newly_lost: u32, advances: bool) {
        if delivered > 0 {
            let pipe = self.inflight();
            let sndcnt = self.prr.on_ack(delivered, pipe, self.control.ssthresh(), advances && newly_lost == 0);
            self.control.set_window(pipe + sndcnt);
        }
    }

    /// Linux `tcp_enter_loss`: what left longer than an RTT ago is lost, and one segment more than is in flight may be.
    pub(super) fn enter_loss(&mut self, now: Time) {
        if self.snd_una == self.snd_nxt {
            self.deadline = Time::NEVER;
            return;
        }
        let new_recovery = matches!(self.state, State::Open | State::Cwr);
        let (judge, rate_based) = (self.rack.judge_of_timeout(now), &mut self.rate_based);
        self.board
            .lose_by_timeout((self.snd_una, self.snd_nxt), &judge, &self.sent, |seq| rate_based::lost(rate_based, seq));
        let before = self.control.window();
        // The threshold falls once for what was outstanding (RFC 5681 §3.1).
        let again = self.state == State::Loss && self.icsk_retransmits == 0;
        if self.state == State::Open || self.snd_una >= self.high_seq || again {
            let prior = self.prior();
            self.flow_event(now, FlowEvent::Reduction { ece: false });
            self.control.reduce(u32::MAX, false);
            self.undo.prior = Some(prior);
            self.init_undo();
        }
        self.control.on_loss_timeout();
        self.control.set_window(self.inflight() + 1);
        // RFC 5682 §3.1 step 1, and §3.2 of repeated timeouts.
        self.frto = new_recovery || self.icsk_retransmits > 0;
        self.icsk_retransmits = self.icsk_retransmits.saturating_add(1);
        self.state = State::Loss;
        self.loss_event(now, before);
        self.clean = false;
        self.high_seq = self.snd_nxt;
        self.tlp.end_seq = None;
        self.cwr_due = self.ecn;
        self.rexmit = Rexmit::First;
        self.back_off();
        self.arm(Timer::Rto, now, now + self.rto.timeout());
    }

    /// The next segment, whatever the pace.
    pub(super) fn poll_linux(&mut self, now: Time) -> Option<Transmit> {
        if matches!(self.state, State::Recovery | State::Loss)
            && let Some(seq) = self.next_repair()
        {
            return Some(self.send_again(now, seq, false));
        }
        if self.has_new_data() { self.send_new_data(now) } else { None }
    }

    /// Linux `tcp_xmit_recovery`: the ACK that asked F-RTO for new data was its chance to leave.
    fn end_frto_unsent(&mut self) {
        if self.rexmit == Rexmit::New {
            self.frto &= self.snd_nxt > self.high_seq;
        }
    }

    /// The same, where there is no new data: what is lost is repaired, unless some had left.
    pub(super) fn settle_new(&mut self) {
        if self.rexmit == Rexmit::New && !self.has_new_data() {
            self.end_frto_unsent();
            self.rexmit = if self.frto { Rexmit::None } else { Rexmit::Lost };
        }
    }

    /// Whether there is anything that pace or host could hold back: only then do they let the sender go on later.
    pub(super) fn has_more(&self) -> bool {
        !self.linux || self.snd_nxt < self.stream.end || matches!(self.rexmit, Rexmit::First | Rexmit::Lost)
    }

    /// Linux `tcp_tsq_write`: pace or host let a sender go on, and it repairs what is lost, whatever the last ACK said of that.
    pub(super) fn tsq_write(&mut self) {
        self.end_frto_unsent();
        if matches!(self.rexmit, Rexmit::None | Rexmit::New) {
            self.rexmit = Rexmit::Lost;
        }
    }

    /// What is to be sent again next, while losses are repaired.
    pub(super) fn next_repair(&mut self) -> Option<u32> {
        match self.rexmit {
            Rexmit::First => Some(self.snd_una),
            // Linux: and no more of them on their way than are lost.
            Rexmit::Lost if self.board.retx < self.board.lost => self.board.next_lost(self.snd_una),
            _ => None,
        }
    }

    /// The smallest RTT so far.
    pub(super) fn min_rtt(&self) -> Span {
        Span::from_micros(u64::from(self.min_rtt_us))
    }

    /// A segment is repeated that is lost.
    pub(super) fn note_retransmission(&mut self, at: Time) {
        self.undo.on_retransmit(micros(at));
    }
}
