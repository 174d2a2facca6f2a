//! The loss recovery of current Linux: RACK detects losses, and a reduction that proves spurious is undone.
//!
//! Facts: `tcp_ack`, `tcp_fastretrans_alert`, `tcp_process_loss` and `tcp_enter_loss` of Linux 7.3's tcp_input.c.
//!
//! Deviation: a receiver never reneges on a SACK.

use super::rate_based::{self, Report};
use super::tcp_sock::{Due, Rexmit, TcpSock};
use super::timers::Timer;
use super::{State, micros};
use crate::tcp::cc::FlowEvent;
use crate::tcp::prr::Prr;
use crate::tcp::rack::{self, Rack, SacktagState};
use crate::tcp::scoreboard::Found;
use crate::tcp::tlp::{Sign, Tlp, Verdict};
use crate::tcp::undo::UndoState;
use crate::tcp::{Ack, Acked, Block, Transmit};
use crate::units::{Span, Time};

/// The loss recovery of current Linux: RACK-TLP (RFC 8985), F-RTO (RFC 5682), and undo by DSACK and timestamps.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct LinuxRecovery {
    rack: Rack,
    tlp: Tlp,
    undo: UndoState,
    /// F-RTO is at work: it has not decided yet whether the timeout was spurious.
    frto: bool,
    /// The number of timeouts since data was last acknowledged.
    icsk_retransmits: u8,
}

/// The effects of one ACK that later steps of its processing need: Linux's `flag`, `num_dupack` and `rate_sample`.
/// Counts are in segments.
#[derive(Default)]
pub(super) struct AckResult {
    /// Segments newly acknowledged cumulatively (`FLAG_DATA_ACKED`).
    newly_acked: u32,
    /// Segments newly SACKed (`FLAG_DATA_SACKED`).
    newly_sacked: u32,
    /// Segments that a DSACK reports as duplicates (`FLAG_DSACKING_ACK`).
    dsack_segs: u32,
    /// The DSACK reports the loss probe (`FLAG_DSACK_TLP`).
    dsack_tlp: bool,
    /// A segment arrived that was never retransmitted and was sent before the recovery began (`FLAG_ORIG_SACK_ACKED`).
    orig_sack_acked: bool,
    /// The ACK carries an ECN echo that asks for a reduction (`FLAG_ECE`).
    ece: bool,
    /// The timestamp echo, in µs modulo 2^32.
    rcv_tsecr: Option<u32>,
    /// Segments delivered: acknowledged cumulatively or selectively (`rate_sample.acked_sacked`).
    acked_sacked: u32,
    /// Segments delivered with a CE mark (`rate_sample.delivered_ce`).
    delivered_ce: u32,
    /// Segments found lost.
    found: Found,
}

impl LinuxRecovery {
    pub fn new() -> LinuxRecovery {
        LinuxRecovery {
            rack: Rack::default(),
            tlp: Tlp::default(),
            undo: UndoState::default(),
            frto: false,
            icsk_retransmits: 0,
        }
    }

    /// The outstanding loss probe, which may be above the window.
    #[cfg(test)]
    pub fn probe(&self) -> Option<u32> {
        self.tlp.end_seq.map(|end| end - 1)
    }

    /// Returns whether an ACK with this timestamp echo would show that the recovery was spurious.
    #[cfg(test)]
    pub fn packet_delayed(&self, echo: u32) -> bool {
        self.undo.packet_delayed(Some(echo))
    }

    /// Handles an ACK off the clean path, by all steps of `tcp_ack`.
    #[inline(never)]
    pub(super) fn on_ack(&mut self, tcp: &mut TcpSock, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        let prior_in_flight = tcp.inflight();
        tcp.cwnd_validate(prior_in_flight);
        tcp.bursts.begin();
        if ack.cum < tcp.snd_una {
            self.on_old_ack(tcp, now, ack, blocks);
            return Acked::default();
        }
        let rtt = tcp.known_rtt(tcp.snd_una);
        let (payload, sacktag, mut result) = self.clean_rtx_queue(tcp, now, ack, blocks);
        tcp.ack_update_rtt(now, ack, result.newly_acked, &sacktag);
        self.check_sack_reordering(tcp, &sacktag);
        // Linux `in_ack_event`.
        result.delivered_ce = tcp.ecn.count_marks(ack, result.acked_sacked, tcp.snd_una);
        tcp.control.in_ack_event(result.acked_sacked, result.delivered_ce > 0, &tcp.ack_sample(now, ack));
        self.process_tlp_ack(tcp, now, ack, &result);
        let dubious = result.newly_acked == 0 || result.newly_sacked > 0 || result.dsack_segs > 0 || result.ece;
        if dubious || !tcp.is_ca_open() {
            self.fastretrans_alert(tcp, now, &mut result);
        }
        // Linux restarts the timer if the ACK advances, or if it SACKs a segment that was sent after the first outstanding one.
        let fresh = || sacktag.sack_rtt().is_some_and(|rtt| rtt > now.since(tcp.sent.at(tcp.snd_una)));
        if result.found.wait == Span::ZERO && (result.newly_acked > 0 || (tcp.snd_una < tcp.snd_nxt && fresh())) {
            tcp.set_xmit_timer(now);
        }
        self.cong_control(tcp, now, ack, payload, prior_in_flight, &result);
        tcp.clean = tcp.is_ca_open() && tcp.board.is_clean() && tcp.is_plain() && self.tlp.end_seq.is_none();
        Acked { payload, rtt: rtt.filter(|_| result.newly_acked > 0) }
    }

    /// Handles an ACK below SND.UNA (`old_ack` in `tcp_ack`). Only its SACK blocks count: they may show losses and end a recovery,
    /// but neither RTT, timers nor the window follow from it.
    #[cold]
    #[inline(never)]
    fn on_old_ack(&mut self, tcp: &mut TcpSock, now: Time, ack: &Ack, blocks: &[Block]) {
        if blocks.is_empty() {
            return;
        }
        let (_, sacktag, result) = self.clean_rtx_queue(tcp, now, ack, blocks);
        self.check_sack_reordering(tcp, &sacktag);
        self.fastretrans_alert(tcp, now, &mut AckResult { ece: false, ..result });
        rate_based::skip_ack(&mut tcp.rate_based);
        tcp.clean = tcp.is_ca_open() && tcp.board.is_clean() && tcp.is_plain() && self.tlp.end_seq.is_none();
    }

    /// A short cut for the most common ACK of a recovery. Such an ACK only SACKs segments that are above all SACKed ones and were
    /// never retransmitted. For any other ACK it returns `None` and changes nothing.
    #[inline(always)]
    pub(super) fn on_sacked_above(
        &mut self,
        tcp: &mut TcpSock,
        now: Time,
        ack: &Ack,
        blocks: &[Block],
    ) -> Option<Acked> {
        let repairing = tcp.state == State::Recovery && tcp.snd_una < tcp.high_seq && !self.undo.all_retrans_dsacked();
        let bare = ack.cum == tcp.snd_una && ack.ace == 0 && !tcp.ecn.is_accurate() && self.tlp.end_seq.is_none();
        if !repairing || !bare {
            return None;
        }
        let prior_in_flight = tcp.inflight();
        let run = tcp.board.sack_above(tcp.snd_una, tcp.snd_nxt, blocks)?;
        let (count, at) = (run.end - run.start, tcp.sent.at(run.start));
        tcp.cwnd_validate(prior_in_flight);
        tcp.bursts.begin();
        tcp.wnd_end = tcp.wnd_end.max(ack.cum.saturating_add(ack.window));
        // None of them was retransmitted, so the last of them was sent last.
        let newest = tcp.sent.at(run.end - 1);
        let (rtt, last) = (now.since(at), now.since(newest));
        self.rack.advance(newest, run.end);
        tcp.rtt_us = rack::rtt_us(last);
        tcp.rtt_estimator(rtt, last);
        tcp.control.in_ack_event(count, false, &tcp.ack_sample(now, ack));
        let mut found = Found::default();
        // RFC 8985 §6.2 step 5: usually these segments show no new loss, since all below them have been examined already.
        let judge = self.rack.judge(now, tcp.last_rtt(), Span::ZERO);
        if tcp.board.judge_above((tcp.snd_una, tcp.snd_nxt), &run, &judge, &tcp.sent) {
            self.rack.advanced = false;
        } else {
            self.identify_packet_loss(tcp, now, &mut found);
        }
        tcp.rexmit = Rexmit::Lost;
        if found.wait == Span::ZERO && at < tcp.sent.at(tcp.snd_una) {
            // In a recovery there is no loss probe.
            tcp.rearm_rto(now);
        }
        if tcp.rate_based.is_some() {
            tcp.cong_control_of_run(now, run, found.lost, prior_in_flight);
        } else {
            let result = AckResult { newly_sacked: count, acked_sacked: count, found, ..AckResult::default() };
            self.cong_control(tcp, now, ack, 0, prior_in_flight, &result);
        }
        Some(Acked::default())
    }

    /// Updates scoreboard and sequence numbers (Linux `tcp_clean_rtx_queue`, `tcp_sacktag_write_queue`).
    fn clean_rtx_queue(
        &mut self,
        tcp: &mut TcpSock,
        now: Time,
        ack: &Ack,
        blocks: &[Block],
    ) -> (u64, SacktagState, AckResult) {
        let (snd_una, cum) = (tcp.snd_una, ack.cum.max(tcp.snd_una));
        let rcv_tsecr = tcp.timestamps.then_some(ack.ts_first);
        let (dsack_segs, dsack_tlp) = self.check_dsack(tcp, ack, blocks);
        let mut sacktag = SacktagState::new(now, tcp.min_rtt(), tcp.board.fack(snd_una), tcp.high_seq, rcv_tsecr);
        let payload = tcp.stream.acknowledge(snd_una, cum);
        let (sent, rate_based) = (&tcp.sent, &mut tcp.rate_based);
        if cum > snd_una && tcp.board.is_clean() {
            sacktag.acked_run((snd_una, sent.at(snd_una)), (cum - 1, sent.at(cum - 1)));
            rate_based::acked(rate_based, snd_una..cum);
        }
        let gone = tcp.board.advance(snd_una, cum, |seq, again| {
            rate_based::acked(rate_based, seq..seq + 1);
            if again {
                sacktag.acked_again(seq, sent.at(seq));
            } else {
                sacktag.acked_run((seq, sent.at(seq)), (seq, sent.at(seq)));
            }
        });
        sacktag.retrans_acked |= gone.repeated;
        if cum == tcp.snd_nxt {
            tcp.board.settle();
        }
        tcp.snd_una = cum;
        tcp.wnd_end = tcp.wnd_end.max(ack.cum.saturating_add(ack.window));
        let sacked = tcp.board.sack(cum, tcp.snd_nxt, blocks, |seq, again| {
            rate_based::sacked(rate_based, seq);
            sacktag.sacked(seq, sent.at(seq), again);
        });
        if let Some(rtt_us) = sacktag.update_rack(&mut self.rack) {
            tcp.rtt_us = rtt_us;
        }
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
            ece: tcp.ecn.is_echo(ack),
            rcv_tsecr,
            acked_sacked: newly - gone.were_sacked + sacked + dsack_segs,
            ..AckResult::default()
        };
        (payload, sacktag, result)
    }

    /// RFC 2883: the first block reports duplicates if it lies below the ACK or inside the second block. Returns the number of
    /// segments that it reports, and whether the only one is the loss probe.
    fn check_dsack(&mut self, tcp: &mut TcpSock, ack: &Ack, blocks: &[Block]) -> (u32, bool) {
        let Some(&first) = blocks.first() else { return (0, false) };
        let inside = blocks.get(1).is_some_and(|second| second.start <= first.start && first.end <= second.end);
        let segments = first.end.saturating_sub(first.start);
        if !(first.start < ack.cum || inside) || !self.undo.dsack_seen(segments, tcp.total_retrans) {
            return (0, false);
        }
        let probe = segments == 1 && self.tlp.end_seq == Some(first.end);
        if !probe {
            self.rack.note_dsack(tcp.snd_una, tcp.snd_nxt);
        }
        if first.end <= tcp.snd_una {
            self.undo.on_dsack(first.end, segments);
        }
        for seq in first.start.max(tcp.snd_una)..first.end.min(tcp.snd_nxt) {
            if tcp.board.on_duplicate(seq) {
                self.undo.on_dsack(seq + 1, 1);
            }
        }
        (segments, probe)
    }

    /// Notes reordering (Linux `tcp_check_sack_reordering`).
    fn check_sack_reordering(&mut self, tcp: &mut TcpSock, sacktag: &SacktagState) {
        if let Some(late) = sacktag.reord
            && (tcp.state != State::Loss || self.undo.has_marker())
        {
            self.rack.note_reordering(tcp.board.fack(tcp.snd_una).saturating_sub(late));
        }
    }

    /// Linux `tcp_process_tlp_ack`.
    fn process_tlp_ack(&mut self, tcp: &mut TcpSock, now: Time, ack: &Ack, result: &AckResult) {
        let bare = result.newly_acked == 0 && result.newly_sacked == 0;
        let sign = Sign { cum: ack.cum, duplicate: result.dsack_tlp, bare };
        match self.tlp.judge(&sign) {
            Verdict::Open => {}
            Verdict::Over => self.tlp.end_seq = None,
            Verdict::Repaired => {
                self.init_cwnd_reduction(tcp, now, false);
                tcp.control.end_reduction();
                tcp.state = State::Open;
            }
        }
    }

    /// Linux `tcp_fastretrans_alert`.
    fn fastretrans_alert(&mut self, tcp: &mut TcpSock, now: Time, result: &mut AckResult) {
        self.end_frto_unsent(tcp);
        tcp.rexmit = Rexmit::None;
        if result.ece {
            self.undo.prior = None;
        }
        self.check_exit(tcp, now, result);
        match tcp.state {
            State::Recovery => {
                if result.newly_acked > 0 && self.try_undo_partial(tcp, now, result) {
                    return;
                }
                if self.undo.all_retrans_dsacked() {
                    self.rack.on_spurious_recovery();
                    self.undo_cwnd_reduction(tcp, now, false);
                    self.try_to_open(tcp, now, result);
                }
                self.identify_packet_loss(tcp, now, &mut result.found);
                if tcp.state != State::Recovery {
                    if tcp.board.lost == 0 {
                        return;
                    }
                    self.enter_recovery(tcp, now, result.ece);
                }
            }
            State::Loss => {
                self.process_loss(tcp, now, result);
                self.identify_packet_loss(tcp, now, &mut result.found);
                if tcp.state == State::Open || result.found.again > 0 {
                    return self.fastretrans_alert_open(tcp, now, result);
                }
                return;
            }
            _ => return self.fastretrans_alert_open(tcp, now, result),
        }
        tcp.rexmit = Rexmit::Lost;
    }

    /// The steps of `tcp_fastretrans_alert` in states Open and CWR.
    fn fastretrans_alert_open(&mut self, tcp: &mut TcpSock, now: Time, result: &mut AckResult) {
        if tcp.state == State::Open && self.undo.all_retrans_dsacked() {
            self.rack.on_spurious_recovery();
            self.undo_cwnd_reduction(tcp, now, false);
        }
        self.identify_packet_loss(tcp, now, &mut result.found);
        if tcp.board.lost == 0 {
            return self.try_to_open(tcp, now, result);
        }
        self.enter_recovery(tcp, now, result.ece);
        tcp.rexmit = Rexmit::Lost;
    }

    /// Ends a reduction when all data sent before it is acknowledged. A reduction by an ECN echo ends when a segment sent after it is
    /// acknowledged too.
    fn check_exit(&mut self, tcp: &mut TcpSock, now: Time, result: &AckResult) {
        match tcp.state {
            State::Open if tcp.board.is_whole() => self.undo.clear_retrans_stamp(),
            State::Cwr if tcp.snd_una > tcp.high_seq => {
                tcp.control.end_reduction();
                tcp.state = State::Open;
            }
            State::Recovery if tcp.snd_una >= tcp.high_seq => {
                self.try_undo_recovery(tcp, now, result);
                // An undo has already restored the window and cleared the marker.
                if self.undo.has_marker() {
                    tcp.control.end_reduction();
                }
            }
            _ => {}
        }
    }

    /// Linux `tcp_try_undo_recovery`.
    fn try_undo_recovery(&mut self, tcp: &mut TcpSock, now: Time, result: &AckResult) {
        if self.may_undo(result) {
            self.undo_cwnd_reduction(tcp, now, false);
        } else {
            self.rack.on_recovery();
        }
        tcp.state = State::Open;
        // The large window at the end of slow start needed more memory than the sender will need soon.
        tcp.sent.fit(tcp.snd_una..tcp.snd_nxt);
        tcp.board.fit(tcp.snd_nxt - tcp.snd_una);
    }

    /// Linux `tcp_try_undo_partial`. Returns whether the processing of this ACK is complete.
    fn try_undo_partial(&mut self, tcp: &mut TcpSock, now: Time, result: &AckResult) -> bool {
        if !self.undo.packet_delayed(result.rcv_tsecr) {
            return false;
        }
        self.rack.note_reordering(tcp.board.fack(tcp.snd_una).saturating_sub(tcp.snd_una - result.newly_acked));
        if tcp.board.retx > 0 {
            return true;
        }
        self.retrans_stamp_cleanup(tcp);
        self.undo_cwnd_reduction(tcp, now, true);
        tcp.state = State::Open;
        false
    }

    fn may_undo(&self, result: &AckResult) -> bool {
        self.undo.all_retrans_dsacked() || self.undo.packet_delayed(result.rcv_tsecr)
    }

    /// Linux `tcp_undo_cwnd_reduction`. `unmark`: also clears the loss marks of the segments.
    fn undo_cwnd_reduction(&mut self, tcp: &mut TcpSock, now: Time, unmark: bool) {
        if unmark {
            tcp.board.none_lost(tcp.snd_una, tcp.snd_nxt);
        }
        if let Some(prior) = self.undo.prior {
            if tcp.rate_based.is_none() && tcp.control.undo_cwnd(&prior) {
                tcp.ecn.withdraw_cwr();
            }
            tcp.flow_event(now, FlowEvent::Undo);
        }
        self.undo.clear_marker();
        self.rack.advanced = true;
    }

    /// Linux `tcp_try_to_open`: outside a recovery an ECN echo begins a reduction.
    fn try_to_open(&mut self, tcp: &mut TcpSock, now: Time, result: &AckResult) {
        self.retrans_stamp_cleanup(tcp);
        if result.ece && tcp.state == State::Open {
            self.undo.prior = None;
            self.undo.clear_marker();
            self.init_cwnd_reduction(tcp, now, true);
            tcp.state = State::Cwr;
        }
    }

    /// Linux `tcp_process_loss`, with F-RTO for SACK (RFC 5682 §3.1).
    fn process_loss(&mut self, tcp: &mut TcpSock, now: Time, result: &AckResult) {
        let recovered = tcp.snd_una >= tcp.high_seq;
        if result.newly_acked > 0 && self.may_undo(result) {
            return self.try_undo_loss(tcp, now);
        }
        if self.frto {
            // Step 3 b: a segment arrived that was never retransmitted. So the timeout was spurious, and no segment is lost. If
            // an ECN echo had reduced the window before the timeout, only the loss marks are undone.
            if result.orig_sack_acked {
                return self.try_undo_loss(tcp, now);
            }
            if tcp.snd_nxt > tcp.high_seq {
                // Step 3 a: the loss was real.
                if result.newly_sacked > 0 || (result.newly_acked == 0 && result.dsack_segs == 0) {
                    self.frto = false;
                }
            } else if result.newly_acked > 0 && !recovered {
                tcp.high_seq = tcp.snd_nxt;
                // Step 2 b: new data, if there is any.
                if tcp.has_new_data() {
                    tcp.rexmit = Rexmit::New;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            return self.try_undo_recovery(tcp, now, result);
        }
        tcp.rexmit = Rexmit::Lost;
    }

    fn try_undo_loss(&mut self, tcp: &mut TcpSock, now: Time) {
        self.undo_cwnd_reduction(tcp, now, true);
        self.icsk_retransmits = 0;
        tcp.state = State::Open;
    }

    /// Clears `retrans_stamp` when no retransmission is outstanding (Linux `tcp_retrans_stamp_cleanup`).
    fn retrans_stamp_cleanup(&mut self, tcp: &mut TcpSock) {
        if tcp.board.retx == 0 && (tcp.snd_una == tcp.snd_nxt || !tcp.board.is_repeated(tcp.snd_una)) {
            self.undo.clear_retrans_stamp();
        }
    }

    /// RFC 8985 §6.2 step 5: detects losses, if segments have arrived since losses were last detected.
    fn identify_packet_loss(&mut self, tcp: &mut TcpSock, now: Time, found: &mut Found) {
        if tcp.snd_una == tcp.snd_nxt || !core::mem::take(&mut self.rack.advanced) {
            return;
        }
        let more = self.rack_detect_loss(tcp, now);
        (found.lost, found.again) = (found.lost + more.lost, found.again + more.again);
        found.wait = more.wait;
        if more.wait > Span::ZERO {
            tcp.arm_reo_timer(now, more.wait);
        }
    }

    #[inline]
    pub(super) fn rack_detect_loss(&mut self, tcp: &mut TcpSock, now: Time) -> Found {
        let repairing = matches!(tcp.state, State::Recovery | State::Loss);
        let srtt = tcp.rto.srtt().unwrap_or_default();
        let reo_wnd = self.rack.reo_wnd(repairing, tcp.board.sacked, tcp.min_rtt(), srtt);
        let judge = self.rack.judge(now, tcp.last_rtt(), reo_wnd);
        let rate_based = &mut tcp.rate_based;
        tcp.board
            .rack_detect_loss((tcp.snd_una, tcp.snd_nxt), &judge, &tcp.sent, |seq| rate_based::lost(rate_based, seq))
    }

    pub(super) fn enter_recovery(&mut self, tcp: &mut TcpSock, now: Time, echo: bool) {
        self.retrans_stamp_cleanup(tcp);
        self.undo.prior = None;
        self.init_undo(tcp);
        if !matches!(tcp.state, State::Cwr | State::Recovery) {
            let prior = tcp.prior();
            self.init_cwnd_reduction(tcp, now, false);
            self.undo.prior = (!echo).then_some(prior);
        }
        tcp.state = State::Recovery;
    }

    fn init_undo(&mut self, tcp: &mut TcpSock) {
        let probe = self.tlp.end_seq.is_some() && self.tlp.is_retrans;
        self.undo.init(tcp.snd_una, tcp.board.retx + u32::from(probe));
    }

    /// Linux `tcp_init_cwnd_reduction`.
    fn init_cwnd_reduction(&mut self, tcp: &mut TcpSock, now: Time, ece: bool) {
        tcp.flow_event(now, FlowEvent::Reduction { ece });
        tcp.prr = Prr::new(tcp.control.reduce(u32::MAX, ece));
        tcp.high_seq = tcp.snd_nxt;
        self.tlp.end_seq = None;
        tcp.ecn.announce_reduction();
    }

    /// The window after an ACK (Linux `tcp_cong_control`).
    #[inline(always)]
    fn cong_control(
        &mut self,
        tcp: &mut TcpSock,
        now: Time,
        ack: &Ack,
        payload: u64,
        prior_in_flight: u32,
        result: &AckResult,
    ) {
        let &AckResult { newly_acked: newly, acked_sacked: delivered, delivered_ce: marked, found, .. } = result;
        let newly_lost = found.lost;
        if tcp.rate_based.is_some() {
            let lone_short = newly == 1 && delivered == 1 && payload < u64::from(tcp.stream.mss());
            return tcp.cong_control_rate_based(
                now,
                ack,
                &Report { delivered, marked, newly, newly_lost, prior_in_flight, lone_short },
            );
        }
        let sample = tcp.ack_sample(now, ack);
        if newly > 0 && tcp.state == State::Open {
            tcp.control.pkts_acked(&sample);
        }
        match tcp.state {
            State::Recovery | State::Cwr => tcp.cwnd_reduction(delivered, newly_lost, newly > 0),
            // Linux `tcp_may_raise_cwnd`: SACKs alone raise the window only if there is much reordering.
            _ if newly == 0 && !(self.rack.is_reordering_high() && result.newly_sacked > 0) => {}
            State::Loss => tcp.control.cong_avoid(delivered, &sample),
            _ if tcp.control.may_grow(&tcp.usage) => tcp.control.cong_avoid(delivered, &sample),
            _ => {}
        }
    }

    /// Linux `tcp_enter_loss`: segments sent longer than an RTT ago are lost, and one more segment than is in flight may be sent.
    pub(super) fn enter_loss(&mut self, tcp: &mut TcpSock, now: Time) {
        if tcp.snd_una == tcp.snd_nxt {
            tcp.timer.deadline = Time::NEVER;
            return;
        }
        let new_recovery = matches!(tcp.state, State::Open | State::Cwr);
        let (judge, rate_based) = (Rack::judge_of_timeout(now, tcp.last_rtt()), &mut tcp.rate_based);
        tcp.board
            .lose_by_timeout((tcp.snd_una, tcp.snd_nxt), &judge, &tcp.sent, |seq| rate_based::lost(rate_based, seq));
        let before = tcp.control.window();
        // The threshold falls once for the same outstanding data (RFC 5681 §3.1).
        let again = tcp.state == State::Loss && self.icsk_retransmits == 0;
        if tcp.state == State::Open || tcp.snd_una >= tcp.high_seq || again {
            let prior = tcp.prior();
            tcp.flow_event(now, FlowEvent::Reduction { ece: false });
            tcp.control.reduce(u32::MAX, false);
            self.undo.prior = Some(prior);
            self.init_undo(tcp);
        }
        tcp.control.on_loss_timeout();
        tcp.control.set_window(tcp.inflight() + 1);
        // RFC 5682 §3.1 step 1, and §3.2 for repeated timeouts.
        self.frto = new_recovery || self.icsk_retransmits > 0;
        self.icsk_retransmits = self.icsk_retransmits.saturating_add(1);
        tcp.state = State::Loss;
        tcp.loss_event(now, before);
        tcp.clean = false;
        tcp.high_seq = tcp.snd_nxt;
        self.tlp.end_seq = None;
        tcp.ecn.announce_reduction();
        tcp.rexmit = Rexmit::First;
        tcp.back_off();
        tcp.timer.arm(Timer::Rto, now, now + tcp.rto.timeout());
    }

    /// The next segment to send, retransmissions first.
    pub(super) fn next_segment(&mut self, tcp: &mut TcpSock, now: Time) -> Option<Transmit> {
        if matches!(tcp.state, State::Recovery | State::Loss)
            && let Some(seq) = tcp.next_retransmit()
        {
            return Some(self.retransmit(tcp, now, seq));
        }
        if tcp.has_new_data() { tcp.send_new_data(now) } else { None }
    }

    /// Linux `tcp_xmit_recovery`: F-RTO sends new data only with the ACK that asked for it.
    fn end_frto_unsent(&mut self, tcp: &mut TcpSock) {
        if tcp.rexmit == Rexmit::New {
            self.frto &= tcp.snd_nxt > tcp.high_seq;
        }
    }

    /// F-RTO asked for new data, but there is none. Lost segments are retransmitted instead, unless F-RTO had sent new data already.
    pub(super) fn settle_new(&mut self, tcp: &mut TcpSock) {
        if tcp.rexmit == Rexmit::New && !tcp.has_new_data() {
            self.end_frto_unsent(tcp);
            tcp.rexmit = if self.frto { Rexmit::None } else { Rexmit::Lost };
        }
    }

    /// Pacing or the host lets the sender continue (Linux `tcp_tsq_write`). It then retransmits lost segments, even if the last ACK
    /// did not allow it.
    pub(super) fn tsq_write(&mut self, tcp: &mut TcpSock) {
        self.end_frto_unsent(tcp);
        if matches!(tcp.rexmit, Rexmit::None | Rexmit::New) {
            tcp.rexmit = Rexmit::Lost;
        }
    }

    /// Retransmits a segment.
    fn retransmit(&mut self, tcp: &mut TcpSock, now: Time, seq: u32) -> Transmit {
        let mut at = now;
        if tcp.rexmit == Rexmit::First {
            tcp.rexmit = Rexmit::Lost;
            at = tcp.turn(now);
        }
        let segment = tcp.send_again(now, seq, false);
        tcp.sent.on_send(seq..seq + 1, tcp.snd_una, at);
        self.undo.on_retransmit(micros(at));
        if tcp.rate_based.is_none() {
            tcp.arm_departed(now, seq, true);
        }
        segment
    }

    /// The timer expires.
    #[cold]
    #[inline(never)]
    pub(super) fn on_timer(&mut self, tcp: &mut TcpSock, now: Time) {
        match tcp.timer.kind {
            Timer::Rto => {
                tcp.timeouts += 1;
                self.enter_loss(tcp, now);
            }
            Timer::Probe if self.tlp.end_seq.is_some() || tcp.snd_una == tcp.snd_nxt => tcp.rearm_rto(now),
            Timer::Probe => {
                tcp.due = Due::Probe;
                tcp.clean = false;
                // The next timeout comes an RTO from now, whether or not a probe is sent.
                tcp.start_rto(now, now);
            }
            Timer::Reorder => self.rack_reo_timeout(tcp, now),
        }
    }

    /// Linux `tcp_rack_reo_timeout`.
    fn rack_reo_timeout(&mut self, tcp: &mut TcpSock, now: Time) {
        if tcp.snd_una < tcp.snd_nxt {
            let found = self.rack_detect_loss(tcp, now);
            if found.lost > 0 {
                if tcp.state != State::Recovery {
                    self.enter_recovery(tcp, now, false);
                    if tcp.rate_based.is_none() {
                        tcp.cwnd_reduction(1, found.lost, false);
                    }
                }
                tcp.rexmit = Rexmit::Lost;
            }
        }
        tcp.clean = false;
        tcp.bursts.end();
        tcp.rearm_rto(now);
    }

    /// Sends a loss probe (RFC 8985 §7.3): new data if there is any, even beyond the window, else the last segment again. As in
    /// Linux, no probe is sent if pacing forbids the new data.
    pub(super) fn send_loss_probe(&mut self, tcp: &mut TcpSock, now: Time) -> Option<Transmit> {
        tcp.due = Due::Nothing;
        let probe = if tcp.has_new_data() {
            if tcp.pace_holds(now) {
                tcp.start_rto(now, tcp.sent.at(tcp.snd_una));
                return None;
            }
            if !tcp.board.is_clean() {
                tcp.board.reserve(tcp.snd_una, tcp.snd_nxt + 1);
            }
            self.tlp.is_retrans = false;
            tcp.prr.on_send(1);
            tcp.bursts.end();
            tcp.send_new(now)
        } else {
            let last = tcp.snd_nxt - 1;
            tcp.board.reserve(tcp.snd_una, tcp.snd_nxt);
            if tcp.board.is_marked(last) {
                return None;
            }
            tcp.board.on_probe(last);
            tcp.sent.on_send(last..tcp.snd_nxt, tcp.snd_una, tcp.turn(now));
            tcp.total_retrans += 1;
            tcp.lsndtime = now;
            self.tlp.is_retrans = true;
            let payload = tcp.stream.payload(last);
            let push = tcp.stream.is_last(last, payload);
            Transmit { seq: last, payload, retransmit: true, syn: false, ect: tcp.ecn.covers_all(), cwr: false, push }
        };
        self.tlp.end_seq = Some(tcp.snd_nxt);
        tcp.on_unpaced_send(now, &probe);
        tcp.start_rto(now, now);
        Some(probe)
    }
}
