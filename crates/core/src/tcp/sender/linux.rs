//! The sender off the clean path as today's Linux has it: RACK finds what is lost, and what proves to be in vain is undone.
//!
//! Facts: `tcp_ack`, `tcp_fastretrans_alert`, `tcp_process_loss` and `tcp_enter_loss` of Linux 7.3's tcp_input.c.
//!
//! Deviations: an ACK older than another is taken as a repetition of it; a receiver never takes back what it SACKed.

use super::modelled::{self, Report};
use super::timers::Timer;
use super::{Rexmit, Sender, State, micros, since_ms};
use crate::tcp::prr::Prr;
use crate::tcp::rack::Heard;
use crate::tcp::scoreboard::Found;
use crate::tcp::tlp::{Sign, Verdict};
use crate::tcp::undo::Prior;
use crate::tcp::{Ack, Acked, Block, Transmit};
use crate::units::{Span, Time};

/// What an ACK did, for the steps that follow.
#[derive(Default)]
pub(super) struct News {
    /// Acknowledged cumulatively, and newly SACKed.
    newly: u32,
    sacked: u32,
    /// Segments that it reports as duplicates, and whether that is the probe.
    duplicates: u32,
    probe_duplicate: bool,
    /// Something arrived that was never repeated, and had left before the repair began.
    original: bool,
    echo: bool,
    /// Timestamp echo.
    stamp: Option<u32>,
    /// Delivered, one way or the other, and of these marked.
    delivered: u32,
    marked: u32,
    /// What is found lost in its course.
    found: Found,
}

impl Sender {
    #[inline(never)]
    pub(in crate::tcp) fn on_ack_linux(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        let prior_in_flight = self.inflight();
        self.note_usage(prior_in_flight);
        self.bursts.begin();
        let (payload, heard, mut news) = self.take_in(now, ack, blocks);
        let rtt = self.time(now, ack, news.newly, &heard);
        self.note_order(&heard);
        // Linux `in_ack_event`.
        news.marked = self.count_marks(ack, news.delivered);
        self.control.count_marks(news.delivered, news.marked > 0, &self.clock(now, ack));
        self.end_probe(now, ack, &news);
        let dubious = news.newly == 0 || news.sacked > 0 || news.duplicates > 0 || news.echo;
        if dubious || !self.is_calm() {
            self.alert(now, &mut news);
        }
        // Linux: an ACK that advances starts the timer anew, and a SACK that was sent for after the first segment was.
        let fresh = || heard.sack_rtt().is_some_and(|rtt| rtt > now.since(self.sent.at(self.una)));
        if news.found.wait == Span::ZERO && (news.newly > 0 || (self.una < self.nxt && fresh())) {
            self.set_timer(now);
        }
        self.move_on(now, ack, payload, prior_in_flight, &news);
        self.clean = self.is_calm() && self.board.is_clean() && self.is_plain() && self.tlp.end_seq.is_none();
        Acked { payload, rtt }
    }

    /// The same of the commonest ACK of a repair: it SACKs segments above all SACKed before, which left once, and says nothing
    /// else.
    #[inline(always)]
    pub(in crate::tcp) fn on_sacked_above(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Option<Acked> {
        let repairing = self.state == State::Recovery && self.una < self.recover && !self.doubt.all_duplicate();
        let bare = ack.cum == self.una && ack.ace == 0 && self.cep.is_none() && self.tlp.end_seq.is_none();
        if !repairing || !bare {
            return None;
        }
        let prior_in_flight = self.inflight();
        let run = self.board.sack_above(self.una, self.nxt, blocks)?;
        let (count, at) = (run.end - run.start, self.sent.at(run.start));
        self.note_usage(prior_in_flight);
        self.bursts.begin();
        self.edge = self.edge.max(ack.cum.saturating_add(ack.window));
        // Of those that left once the last is the newest.
        let newest = self.sent.at(run.end - 1);
        let (rtt, last) = (now.since(at), now.since(newest));
        self.rack.advance(newest, run.end, last);
        self.take_sample(rtt, last);
        self.control.count_marks(count, false, &self.clock(now, ack));
        let mut found = Found::default();
        // RFC 8985 §6.2 step 5, as in `find`: most often all below has been judged, and what left later is not behind.
        let judge = self.rack.judge(now, Span::ZERO);
        if self.board.judge_above((self.una, self.nxt), &run, &judge, &self.sent) {
            self.rack.advanced = false;
        } else {
            self.find(now, &mut found);
        }
        self.rexmit = Rexmit::Lost;
        if found.wait == Span::ZERO && at < self.sent.at(self.una) {
            // In a recovery: no probe.
            self.rearm_rto(now);
        }
        if self.path.is_some() {
            self.follow_model_of_run(now, run, found.lost, prior_in_flight);
        } else {
            let news = News { newly: 0, sacked: count, delivered: count, found, ..News::default() };
            self.move_on(now, ack, 0, prior_in_flight, &news);
        }
        Some(Acked { payload: 0, rtt: Some(rtt) })
    }

    /// Scoreboard and numbers.
    fn take_in(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> (u64, Heard, News) {
        let (una, cum) = (self.una, ack.cum.max(self.una));
        let stamp = self.timestamps.then_some(ack.ts_first);
        let (duplicates, probe_duplicate) = self.take_report(ack, blocks);
        let mut heard = Heard::new(now, self.min_rtt(), self.board.fack(una), self.recover, stamp);
        let payload = self.stream.acknowledge(una, cum);
        let (sent, path) = (&self.sent, &mut self.path);
        if cum > una && self.board.is_clean() {
            heard.acked_run((una, sent.at(una)), (cum - 1, sent.at(cum - 1)));
            modelled::acked(path, una..cum);
        }
        let gone = self.board.advance(una, cum, |seq, again| {
            modelled::acked(path, seq..seq + 1);
            if again {
                heard.acked_again(seq, sent.at(seq));
            } else {
                heard.acked_run((seq, sent.at(seq)), (seq, sent.at(seq)));
            }
        });
        heard.repeated |= gone.repeated;
        if cum == self.nxt {
            self.board.settle();
        }
        self.una = cum;
        self.edge = self.edge.max(ack.cum.saturating_add(ack.window));
        let sacked = self.board.sack(cum, self.nxt, blocks, |seq, again| {
            modelled::sacked(path, seq);
            heard.sacked(seq, sent.at(seq), again);
        });
        heard.tell(&mut self.rack);
        let newly = cum - una;
        if newly > 0 {
            self.retries = 0;
        }
        let delivered = newly - gone.were_sacked + sacked + duplicates;
        let echo = self.is_echo(ack);
        let (original, found) = (heard.original, Found::default());
        (
            payload,
            heard,
            News { newly, sacked, duplicates, probe_duplicate, original, echo, stamp, delivered, marked: 0, found },
        )
    }

    /// RFC 2883: the first block reports a duplicate if it lies below the ACK or inside the second. Says how many segments,
    /// and whether that is the probe.
    fn take_report(&mut self, ack: &Ack, blocks: &[Block]) -> (u32, bool) {
        let Some(&first) = blocks.first() else { return (0, false) };
        let inside = blocks.get(1).is_some_and(|second| second.start <= first.start && first.end <= second.end);
        let segments = first.end.saturating_sub(first.start);
        if !(first.start < ack.cum || inside) || !self.doubt.on_report(segments, self.retransmits) {
            return (0, false);
        }
        let probe = segments == 1 && self.tlp.end_seq == Some(first.end);
        if !probe {
            self.rack.note_dsack(self.una, self.nxt);
        }
        if first.end <= self.una {
            self.doubt.on_duplicate(first.end, segments);
        }
        for seq in first.start.max(self.una)..first.end.min(self.nxt) {
            if self.board.on_duplicate(seq) {
                self.doubt.on_duplicate(seq + 1, 1);
            }
        }
        (segments, probe)
    }

    /// The RTT of what arrived.
    fn time(&mut self, now: Time, ack: &Ack, newly: u32, heard: &Heard) -> Option<Span> {
        let by_stamp = || self.rtt_by_stamp(now, ack, newly).map(|rtt| (rtt, rtt));
        let (rtt, newest) = heard.rtts().or_else(by_stamp)?;
        self.take_sample(rtt, newest);
        Some(rtt)
    }

    /// The RTT that the timestamp of an ACK shows, if it advances.
    pub(super) fn rtt_by_stamp(&self, now: Time, ack: &Ack, newly: u32) -> Option<Span> {
        if self.timestamps && newly > 0 { since_ms(now, ack.ts_first) } else { None }
    }

    /// An RTT for the timer, and one that a minimum is kept of.
    #[inline(always)]
    fn take_sample(&mut self, rtt: Span, newest: Span) {
        self.min_rtt_us = self.min_rtt_us.min((newest.0 / 1000).max(1) as u32);
        self.rto.sample(rtt, self.una, self.nxt);
    }

    /// Reordering.
    fn note_order(&mut self, heard: &Heard) {
        if let Some(late) = heard.late
            && (self.state != State::Loss || self.doubt.is_open())
        {
            self.rack.note_reordering(self.board.fack(self.una).saturating_sub(late));
        }
    }

    /// Linux `tcp_process_tlp_ack`.
    fn end_probe(&mut self, now: Time, ack: &Ack, news: &News) {
        let bare = news.newly == 0 && news.sacked == 0;
        let sign = Sign { cum: ack.cum, duplicate: news.probe_duplicate, bare };
        match self.tlp.judge(&sign) {
            Verdict::Open => {}
            Verdict::Over => self.tlp.end_seq = None,
            Verdict::Repaired => {
                self.reduce(now, false);
                self.control.end_reduction();
                self.state = State::Open;
            }
        }
    }

    /// Linux `TCP_CA_Open`: nothing is SACKed, lost or retransmitted.
    pub(super) fn is_calm(&self) -> bool {
        self.state == State::Open && self.board.is_whole()
    }

    /// Linux `tcp_fastretrans_alert`.
    fn alert(&mut self, now: Time, news: &mut News) {
        self.end_frto_unsent();
        self.rexmit = Rexmit::None;
        if news.echo {
            self.doubt.prior = None;
        }
        self.leave(now, news);
        match self.state {
            State::Recovery => {
                if news.newly > 0 && self.undo_part(now, news) {
                    return;
                }
                if self.doubt.all_duplicate() {
                    self.rack.note_vain_recovery();
                    self.undo(now, false);
                    self.try_to_open(now, news);
                }
                self.find(now, &mut news.found);
                if self.state != State::Recovery {
                    if self.board.lost == 0 {
                        return;
                    }
                    self.enter_recovery(now, news.echo);
                }
            }
            State::Loss => {
                self.process_loss(now, news);
                self.find(now, &mut news.found);
                if self.state == State::Open || news.found.again > 0 {
                    return self.alert_open(now, news);
                }
                return;
            }
            _ => return self.alert_open(now, news),
        }
        self.rexmit = Rexmit::Lost;
    }

    /// The same of a connection that repairs nothing.
    fn alert_open(&mut self, now: Time, news: &mut News) {
        if self.state == State::Open && self.doubt.all_duplicate() {
            self.rack.note_vain_recovery();
            self.undo(now, false);
        }
        self.find(now, &mut news.found);
        if self.board.lost == 0 {
            return self.try_to_open(now, news);
        }
        self.enter_recovery(now, news.echo);
        self.rexmit = Rexmit::Lost;
    }

    /// A reduction ends when all is acknowledged that was sent before it; one by ECN when more is.
    fn leave(&mut self, now: Time, news: &News) {
        match self.state {
            State::Open if self.board.is_whole() => self.doubt.clear_stamp(),
            State::Cwr if self.una > self.recover => {
                self.control.end_reduction();
                self.state = State::Open;
            }
            State::Recovery if self.una >= self.recover => {
                self.undo_whole(now, news);
                // What is undone has its window again.
                if self.doubt.is_open() {
                    self.control.end_reduction();
                }
            }
            _ => {}
        }
    }

    /// Linux `tcp_try_undo_recovery`.
    fn undo_whole(&mut self, now: Time, news: &News) {
        if self.may_undo(news) {
            self.undo(now, false);
        } else {
            self.rack.note_recovery();
        }
        self.state = State::Open;
        // What slow start needed at its end will not be needed soon again.
        self.sent.fit(self.una..self.nxt);
        self.board.fit(self.nxt - self.una);
    }

    /// Linux `tcp_try_undo_partial`. Whether nothing else is to be done for now.
    fn undo_part(&mut self, now: Time, news: &News) -> bool {
        if !self.doubt.is_delayed(news.stamp) {
            return false;
        }
        self.rack.note_reordering(self.board.fack(self.una).saturating_sub(self.una - news.newly));
        if self.board.retx > 0 {
            return true;
        }
        self.forget_stamp();
        self.undo(now, true);
        self.state = State::Open;
        false
    }

    fn may_undo(&self, news: &News) -> bool {
        self.doubt.all_duplicate() || self.doubt.is_delayed(news.stamp)
    }

    /// Linux `tcp_undo_cwnd_reduction`; `unmark`: what is lost is not.
    fn undo(&mut self, now: Time, unmark: bool) {
        if unmark {
            self.board.none_lost(self.una, self.nxt);
        }
        if let Some(prior) = self.doubt.prior {
            if self.path.is_none() && self.control.undo(&prior) {
                self.cwr_due = false;
            }
            self.tell_model_of_undo(now);
        }
        self.doubt.end();
        self.rack.advanced = true;
    }

    /// Linux `tcp_try_to_open`: what ECN asks of a connection that repairs nothing.
    fn try_to_open(&mut self, now: Time, news: &News) {
        self.forget_stamp();
        if news.echo && self.state == State::Open {
            self.doubt.prior = None;
            self.doubt.end();
            self.reduce(now, true);
            self.state = State::Cwr;
        }
    }

    /// Linux `tcp_process_loss`, with F-RTO for SACK (RFC 5682 §3.1).
    fn process_loss(&mut self, now: Time, news: &News) {
        let recovered = self.una >= self.recover;
        if news.newly > 0 && self.may_undo(news) {
            return self.undo_loss(now);
        }
        if self.frto {
            // Step 3 b: something arrives that was never sent again. Also where the window had fallen already, so that there is
            // no doubt to speak of (an echo before the timeout): what is marked lost is not.
            if news.original {
                return self.undo_loss(now);
            }
            if self.nxt > self.recover {
                // Step 3 a: the loss was real.
                if news.sacked > 0 || (news.newly == 0 && news.duplicates == 0) {
                    self.frto = false;
                }
            } else if news.newly > 0 && !recovered {
                self.recover = self.nxt;
                // Step 2 b: new data, if there is any.
                if self.has_fresh() {
                    self.rexmit = Rexmit::New;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            return self.undo_whole(now, news);
        }
        self.rexmit = Rexmit::Lost;
    }

    fn undo_loss(&mut self, now: Time) {
        self.undo(now, true);
        self.retries = 0;
        self.state = State::Open;
    }

    /// Nothing that was sent again is outstanding: the next repair has a stamp of its own.
    fn forget_stamp(&mut self) {
        if self.board.retx == 0 && (self.una == self.nxt || !self.board.is_repeated(self.una)) {
            self.doubt.clear_stamp();
        }
    }

    /// RFC 8985 §6.2 step 5, if something arrived since.
    fn find(&mut self, now: Time, found: &mut Found) {
        if self.una == self.nxt || !core::mem::take(&mut self.rack.advanced) {
            return;
        }
        let more = self.detect(now);
        (found.lost, found.again) = (found.lost + more.lost, found.again + more.again);
        found.wait = more.wait;
        if more.wait > Span::ZERO {
            self.wait_for_reordering(now, more.wait);
        }
    }

    #[inline]
    pub(super) fn detect(&mut self, now: Time) -> Found {
        let repairing = matches!(self.state, State::Recovery | State::Loss);
        let srtt = self.rto.srtt().unwrap_or_default();
        let reo_wnd = self.rack.reo_wnd(repairing, self.board.sacked, self.min_rtt(), srtt);
        let judge = self.rack.judge(now, reo_wnd);
        let path = &mut self.path;
        self.board.detect((self.una, self.nxt), &judge, &self.sent, |seq| modelled::lost(path, seq))
    }

    pub(super) fn enter_recovery(&mut self, now: Time, echo: bool) {
        self.forget_stamp();
        self.doubt.prior = None;
        self.begin_doubt();
        if !matches!(self.state, State::Cwr | State::Recovery) {
            let prior = self.prior();
            self.reduce(now, false);
            self.doubt.prior = (!echo).then_some(prior);
        }
        self.state = State::Recovery;
    }

    fn begin_doubt(&mut self) {
        let probe = self.tlp.end_seq.is_some() && self.tlp.is_retrans;
        self.doubt.begin(self.una, self.board.retx + u32::from(probe));
    }

    fn prior(&self) -> Prior {
        self.control.prior(matches!(self.state, State::Cwr | State::Recovery))
    }

    /// Linux `tcp_init_cwnd_reduction`.
    fn reduce(&mut self, now: Time, by_echo: bool) {
        self.tell_model_of_reduction(now, by_echo);
        self.prr = Prr::new(self.control.reduce(u32::MAX, by_echo));
        self.recover = self.nxt;
        self.tlp.end_seq = None;
        self.cwr_due = self.ecn;
    }

    /// The window after an ACK.
    #[inline(always)]
    fn move_on(&mut self, now: Time, ack: &Ack, payload: u64, prior_in_flight: u32, news: &News) {
        let &News { newly, delivered, marked, found: Found { lost: newly_lost, .. }, .. } = news;
        if self.path.is_some() {
            let lone_short = newly == 1 && delivered == 1 && payload < u64::from(self.stream.mss());
            return self.follow_model(
                now,
                ack,
                &Report { delivered, marked, newly, newly_lost, prior_in_flight, lone_short },
            );
        }
        let clock = self.clock(now, ack);
        if newly > 0 && self.state == State::Open {
            // Marks were counted when the ACK came.
            self.control.observe(&clock, 0);
        }
        match self.state {
            State::Recovery | State::Cwr => self.shrink(delivered, newly_lost, newly > 0),
            // Linux `tcp_may_raise_cwnd`: SACKs alone raise the window only where much is reordered.
            _ if newly == 0 && !(self.rack.is_reordering_high() && news.sacked > 0) => {}
            State::Loss => self.control.grow(delivered, &clock),
            _ if self.may_grow() => self.control.grow(delivered, &clock),
            _ => {}
        }
    }

    /// PRR.
    pub(super) fn shrink(&mut self, delivered: u32, newly_lost: u32, advances: bool) {
        if delivered > 0 {
            let pipe = self.inflight();
            let sndcnt = self.prr.on_ack(delivered, pipe, self.control.ssthresh(), advances && newly_lost == 0);
            self.control.set_window(pipe + sndcnt);
        }
    }

    /// Linux `tcp_enter_loss`: what left longer than an RTT ago is lost, and one segment more than is in flight may be.
    pub(super) fn on_timeout_linux(&mut self, now: Time) {
        if self.una == self.nxt {
            self.deadline = Time::NEVER;
            return;
        }
        let new_recovery = matches!(self.state, State::Open | State::Cwr);
        let (judge, path) = (self.rack.judge_of_timeout(now), &mut self.path);
        self.board.lose_by_timeout((self.una, self.nxt), &judge, &self.sent, |seq| modelled::lost(path, seq));
        let before = self.control.window();
        // The threshold falls once for what was outstanding (RFC 5681 §3.1).
        let again = self.state == State::Loss && self.retries == 0;
        if self.state == State::Open || self.una >= self.recover || again {
            let prior = self.prior();
            self.tell_model_of_reduction(now, false);
            self.control.reduce(u32::MAX, false);
            self.doubt.prior = Some(prior);
            self.begin_doubt();
        }
        self.control.timeout();
        self.control.set_window(self.inflight() + 1);
        // RFC 5682 §3.1 step 1, and §3.2 of repeated timeouts.
        self.frto = new_recovery || self.retries > 0;
        self.retries = self.retries.saturating_add(1);
        self.state = State::Loss;
        self.tell_model_of_timeout(now, before);
        self.clean = false;
        self.recover = self.nxt;
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
        if self.has_fresh() { self.send_fresh(now) } else { None }
    }

    /// Linux `tcp_xmit_recovery`: the ACK that asked F-RTO for new data was its chance to leave.
    fn end_frto_unsent(&mut self) {
        if self.rexmit == Rexmit::New {
            self.frto &= self.nxt > self.recover;
        }
    }

    /// The same, where there is no new data: what is lost is repaired, unless some had left.
    pub(super) fn settle_new(&mut self) {
        if self.rexmit == Rexmit::New && !self.has_fresh() {
            self.end_frto_unsent();
            self.rexmit = if self.frto { Rexmit::None } else { Rexmit::Lost };
        }
    }

    /// Whether there is anything that pace or host could hold back: only then do they let the sender go on later.
    pub(super) fn has_more(&self) -> bool {
        !self.linux || self.nxt < self.stream.end || matches!(self.rexmit, Rexmit::First | Rexmit::Lost)
    }

    /// Linux `tcp_tsq_write`: pace or host let a sender go on, and it repairs what is lost, whatever the last ACK said of that.
    pub(super) fn go_on(&mut self) {
        self.end_frto_unsent();
        if matches!(self.rexmit, Rexmit::None | Rexmit::New) {
            self.rexmit = Rexmit::Lost;
        }
    }

    /// What is to be sent again next, while losses are repaired.
    pub(super) fn next_repair(&mut self) -> Option<u32> {
        match self.rexmit {
            Rexmit::First => Some(self.una),
            // Linux: and no more of them on their way than are lost.
            Rexmit::Lost if self.board.retx < self.board.lost => self.board.next_lost(self.una),
            _ => None,
        }
    }

    /// The smallest RTT so far.
    pub(super) fn min_rtt(&self) -> Span {
        Span::from_micros(u64::from(self.min_rtt_us))
    }

    /// A segment is repeated that is lost.
    pub(super) fn note_retransmission(&mut self, at: Time) {
        self.doubt.on_retransmit(micros(at));
    }
}
