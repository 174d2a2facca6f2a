//! The sender whose congestion control models the path: it notes what it sends, samples what is delivered, and is paced.

use super::{Rexmit, Sender, State, bursts};
use crate::rng::Rng;
use crate::tcp::cc::{Flow, Model, Repair};
use crate::tcp::pacing::Pacer;
use crate::tcp::rate::{Loss, RateSample, RateSampler};
use crate::tcp::{Ack, Cc, Config, Transmit};
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

/// The model of the path, what feeds it, and what obeys it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    sampler: RateSampler,
    pacer: Pacer,
    /// None before the connection is established.
    model: Option<Model>,
    /// What this ACK showed to be lost.
    losses: Vec<Loss>,
    /// The segments that the model wants in a burst.
    send_quantum: u32,
    cc: Cc,
    mss: u32,
    iw: u32,
    hz: u32,
    seed: u64,
}

/// What an ACK did.
pub(super) struct Report {
    pub delivered: u32,
    /// Of these, marked.
    pub marked: u32,
    /// Acknowledged cumulatively.
    pub newly: u32,
    pub newly_lost: u32,
    pub prior_in_flight: u32,
    /// All of it was one segment, and that a short one.
    pub lone_short: bool,
}

/// The clock of the model: µs.
fn us(now: Time) -> u64 {
    now.0 / 1000
}

/// These segments are acknowledged cumulatively.
#[inline(always)]
pub(super) fn acked(path: &mut Option<Box<Path>>, newly: Range<u32>) {
    if let Some(path) = path {
        newly.for_each(|seq| path.sampler.deliver(seq, false));
    }
}

/// A block reports this segment for the first time.
#[inline(always)]
pub(super) fn sacked(path: &mut Option<Box<Path>>, seq: u32) {
    if let Some(path) = path {
        path.sampler.deliver(seq, true);
    }
}

/// This segment is lost.
pub(super) fn lost(path: &mut Option<Box<Path>>, seq: u32) {
    if let Some(path) = path {
        let loss = path.sampler.lose(seq);
        path.losses.push(loss);
    }
}

impl Path {
    /// For a congestion control that needs it.
    pub fn new(config: &Config) -> Option<Path> {
        let Config { cc, mss, iw, gso_max_segs, hz, seed, .. } = *config;
        cc.is_modelled().then(|| Path {
            sampler: RateSampler::new(0, None),
            pacer: if cc == Cc::Prague { Pacer::fine(mss, gso_max_segs) } else { Pacer::new(mss, gso_max_segs) },
            model: None,
            losses: Vec::new(),
            send_quantum: 1,
            cc,
            mss: mss.max(1),
            iw,
            hz,
            seed,
        })
    }

    /// When something that waits for its turn may leave.
    #[inline]
    pub fn wake(&self) -> Time {
        self.pacer.wake()
    }

    /// What waited has been told so.
    pub fn woken(&mut self) {
        self.pacer.woken();
    }

    pub fn pacing_rate(&self) -> u64 {
        self.pacer.rate()
    }

    /// Segments of the longest burst now.
    pub fn burst(&self) -> u32 {
        self.pacer.burst(self.sampler.min_rtt())
    }

    /// How long nothing may leave.
    pub fn ahead(&self, now: Time) -> Span {
        self.pacer.ahead(now)
    }
}

impl Sender {
    /// The connection is established.
    pub(super) fn begin_model(&mut self, now: Time, rtt: Option<Span>) {
        let Some(mut path) = self.path.take() else { return };
        let rtt = rtt.map(|rtt| (rtt.0 / 1000).max(1));
        path.sampler = RateSampler::new(us(now), rtt);
        // Linux's application writes now at the earliest: its first flight is all that there is (`tcp_rate_check_app_limited`).
        path.sampler.limit(0);
        let mut flow = self.flow(&path, now);
        path.model = Model::new(path.cc, &mut flow, rtt, Rng::stream(path.seed, "congestion control"));
        path.pacer.set_rate(flow.pacing_rate);
        path.send_quantum = flow.send_quantum;
        self.path = Some(path);
    }

    /// The model.
    #[cfg(test)]
    pub(in crate::tcp) fn model(&self) -> Option<&Model> {
        self.path.as_ref().and_then(|path| path.model.as_ref())
    }

    /// The same, to be changed.
    #[cfg(test)]
    pub(in crate::tcp) fn model_mut(&mut self) -> Option<&mut Model> {
        self.path.as_mut().and_then(|path| path.model.as_mut())
    }

    /// The connection as the model would see it now.
    #[cfg(test)]
    pub(in crate::tcp) fn flow_now(&self, now: Time) -> Option<Flow> {
        self.path.as_ref().map(|path| self.flow(path, now))
    }

    fn flow(&self, path: &Path, now: Time) -> Flow {
        Flow {
            now: us(now),
            hz: path.hz,
            delivered: path.sampler.delivered,
            delivered_time: path.sampler.delivered_time,
            in_flight: self.inflight(),
            lost: path.sampler.lost,
            repair: match self.state {
                State::Recovery => Repair::Recovery,
                State::Loss => Repair::Loss,
                State::Closed | State::SynSent | State::Open | State::Cwr => Repair::None,
            },
            srtt: self.rto.srtt().map_or(0, |srtt| srtt.0 / 1000),
            ahead: path.pacer.ahead(now).0 / 1000,
            mss: path.mss,
            iw: path.iw,
            cwnd_limited: self.cwnd_limited,
            app_limited: path.sampler.is_app_limited(),
            limit_samples: false,
            cwnd: self.control.window(),
            pacing_rate: path.pacer.rate(),
            send_quantum: path.send_quantum,
        }
    }

    /// Asks or tells the model something, and does what it says.
    #[inline(always)]
    fn with_model(&mut self, now: Time, act: impl FnOnce(&mut Model, &mut Flow, &[Loss])) {
        // Taken out, so that the sender can be looked at meanwhile.
        let Some(mut path) = self.path.take() else { return };
        let mut flow = self.flow(&path, now);
        let Path { model, losses, .. } = &mut *path;
        if let Some(model) = model {
            act(model, &mut flow, losses);
        }
        if flow.limit_samples {
            path.sampler.limit(flow.in_flight);
        }
        path.pacer.set_rate(flow.pacing_rate);
        path.send_quantum = flow.send_quantum;
        self.control.set_window(flow.cwnd);
        self.path = Some(path);
    }

    /// The window and the pace after an ACK.
    #[inline(never)]
    pub(super) fn follow_model(&mut self, now: Time, ack: &Ack, report: &Report) {
        let &Report { delivered, marked, newly, newly_lost, prior_in_flight, lone_short } = report;
        let stamp = self.rtt_by_stamp(now, ack, newly).map(|rtt| rtt.0 / 1000);
        let Some(path) = &mut self.path else { return };
        let sample = path.sampler.end(us(now), delivered, marked, stamp);
        // Linux `FLAG_ACK_MAYBE_DELAYED`: and nothing else was delivered since it was sent.
        let ack_delayed = lone_short && sample.delivered == Some(1) && marked == 0;
        self.follow_sample(now, &RateSample { losses: newly_lost, prior_in_flight, ack_delayed, ..sample });
    }

    /// The same of an ACK that says nothing but that these segments were delivered, by a block; none was repeated.
    #[inline(always)]
    pub(super) fn follow_model_of_run(&mut self, now: Time, run: Range<u32>, losses: u32, prior_in_flight: u32) {
        let Some(path) = &mut self.path else { return };
        let sample = path.sampler.deliver_run(us(now), run);
        self.follow_sample(now, &RateSample { losses, prior_in_flight, ..sample });
    }

    #[inline(never)]
    fn follow_sample(&mut self, now: Time, sample: &RateSample) {
        self.with_model(now, |model, flow, losses| model.on_ack(flow, losses, sample));
        self.forget_losses();
    }

    /// Others would reduce their window now.
    pub(super) fn tell_model_of_reduction(&mut self, now: Time, by_echo: bool) {
        self.with_model(now, |model, flow, _| model.on_reduction(flow, by_echo));
    }

    /// Everything in flight was taken for lost; `before` was the window.
    pub(super) fn tell_model_of_timeout(&mut self, now: Time, before: u32) {
        self.with_model(now, |model, flow, losses| model.on_timeout(flow, before, losses));
        self.forget_losses();
    }

    fn forget_losses(&mut self) {
        if let Some(path) = &mut self.path {
            path.losses.clear();
        }
    }

    /// Something is about to leave: with nothing on its way, the path was idle.
    pub(super) fn tell_model_of_restart(&mut self, now: Time) {
        if self.inflight() == 0 {
            self.with_model(now, |model, flow, _| model.on_restart(flow));
        }
    }

    /// Nothing had been lost.
    pub(super) fn tell_model_of_undo(&mut self, now: Time) {
        self.with_model(now, |model, flow, _| model.on_undo(flow));
    }

    /// Linux `tcp_rate_check_app_limited`: the application writes, and there was room for more than it had written.
    pub(super) fn check_app_limited(&mut self) {
        let in_flight = self.inflight();
        let idle = self.snd_nxt >= self.stream.end && in_flight < self.control.window();
        let repaired = self.board.lost <= self.board.retx;
        if let Some(path) = &mut self.path
            && idle
            && repaired
        {
            path.sampler.limit(in_flight);
        }
    }

    /// The next segment at its pace.
    pub(super) fn poll_paced(&mut self, now: Time) -> Option<Transmit> {
        let (in_flight, window) = (self.inflight(), self.control.window());
        let fresh = self.stream.end.min(self.wnd_end).saturating_sub(self.snd_nxt);
        let repairing = matches!(self.state, State::Recovery | State::Loss);
        let path = self.path.as_mut()?;
        if fresh == 0 && !repairing {
            path.pacer.rest();
            return None;
        }
        let room = if repairing { window - in_flight } else { fresh.min(window - in_flight) };
        if !repairing && fresh > 1 && self.tso_should_defer(now, (window - in_flight).min(self.wnd_end - self.snd_nxt))
        {
            return None;
        }
        if self.pace_holds(now) {
            return None;
        }
        let repair = if repairing { self.next_repair() } else { None };
        let path = self.path.as_mut()?;
        // Linux `tcp_cwnd_test`: half a window is the most of what is new.
        let window = if repair.is_some() { u32::MAX } else { window };
        if !path.pacer.admits(now, room, window, path.sampler.min_rtt()) {
            return None;
        }
        self.tell_model_of_restart(now);
        let left_at = repair.map(|seq| self.sent.at(seq));
        let mut segment = self.poll_repair(now);
        match &mut segment {
            Some(segment) => {
                self.on_paced_send(now, segment);
                // Linux `tcp_xmit_retransmit_queue`: a burst is an skb, and so one that left in one before.
                if self.linux && segment.retransmit {
                    let next = self.next_repair().filter(|&seq| seq == segment.seq + 1);
                    if next.is_none_or(|seq| Some(self.sent.at(seq)) != left_at) {
                        self.path.as_mut()?.pacer.end_burst();
                    }
                }
                segment.push |= !segment.retransmit && self.path.as_ref()?.pacer.pushes();
            }
            None => self.path.as_mut()?.pacer.rest(),
        }
        segment
    }

    /// As [`Sender::take_full`]: what leaves now at its pace, where it is new, full, and nothing has to be told with it; of how
    /// many segments a burst is.
    #[inline(never)]
    pub(super) fn take_paced(&mut self, now: Time) -> Option<u32> {
        let news = self.syn_due || self.probe_due || self.cwr_due || self.stream.has_shorts();
        if news || !self.linux || !self.is_established() || self.bounds.is_some() {
            return None;
        }
        if matches!(self.rexmit, Rexmit::First | Rexmit::New) {
            return None;
        }
        // Most ACKs find the window full, or the last burst on its way.
        let repairing = matches!(self.state, State::Recovery | State::Loss);
        let may = if repairing { self.has_more() } else { self.snd_nxt < self.stream.end.min(self.wnd_end) };
        let pacer = &mut self.path.as_mut()?.pacer;
        if self.board.pipe(self.snd_una, self.snd_nxt) >= self.control.window() || (may && pacer.holds(now)) {
            return Some(1);
        }
        self.take_bursts(now, repairing)
    }

    /// The same where the window has room and no burst is on its way.
    #[inline(never)]
    fn take_bursts(&mut self, now: Time, repairing: bool) -> Option<u32> {
        let (start, window) = (self.snd_nxt, self.control.window());
        let mut burst = 1;
        loop {
            let in_flight = self.inflight();
            if in_flight >= window {
                break;
            }
            let room = window - in_flight;
            let fresh = self.stream.end.min(self.wnd_end).saturating_sub(self.snd_nxt);
            let has_more = self.has_more();
            let path = self.path.as_mut()?;
            if fresh == 0 && !(repairing && has_more) {
                path.pacer.rest();
                break;
            }
            if path.pacer.holds(now) {
                break;
            }
            if self.snd_nxt == start && repairing && self.next_repair().is_some() {
                return None;
            }
            if !repairing && fresh > 1 && self.tso_should_defer(now, room.min(self.wnd_end - self.snd_nxt)) {
                break;
            }
            let path = self.path.as_mut()?;
            let most = if repairing { room } else { fresh.min(room) };
            if !path.pacer.admits(now, most, window, path.sampler.min_rtt()) {
                break;
            }
            // Behind a new segment the path is not empty. Asked again, the pacer says the same.
            if self.snd_nxt == start && in_flight == 0 {
                return None;
            }
            let path = self.path.as_mut()?;
            if fresh == 0 {
                path.pacer.rest();
                break;
            }
            let count = path.pacer.left().min(room).min(fresh);
            burst = burst.max(count);
            self.send_full(now, count, in_flight);
        }
        Some(burst)
    }

    /// So many new segments leave, all full, behind others.
    fn send_full(&mut self, now: Time, count: u32, in_flight: u32) {
        let run = self.snd_nxt..self.snd_nxt + count;
        if !self.board.is_clean() {
            self.board.reserve(self.snd_una, run.end);
        }
        self.prr.on_send(count);
        self.sent.on_send(run.clone(), self.snd_una, now);
        self.snd_nxt = run.end;
        self.lsndtime = now;
        if let Some(path) = &mut self.path {
            path.sampler.on_send_full(us(now), run, self.snd_una, in_flight);
            path.pacer.on_send_full(count);
        }
        self.arm_after_send(now, false);
    }

    /// Linux `tcp_tso_should_defer`: less than a burst waits for an ACK that is due.
    fn tso_should_defer(&mut self, now: Time, limit: u32) -> bool {
        let Some(path) = self.path.as_mut().filter(|_| self.keeps_times) else { return false };
        let Some(lsndtime) = path.pacer.is_short(now, limit, path.sampler.min_rtt()) else { return false };
        let window = bursts::Window { lsndtime, ..self.window(now) };
        let waits = self.bursts.wait(limit, &window);
        if let Some(path) = self.path.as_mut().filter(|_| waits) {
            path.pacer.rest();
        }
        waits
    }

    /// A segment leaves in its turn.
    fn on_paced_send(&mut self, now: Time, segment: &Transmit) {
        self.rate_skb_sent(now, segment);
        if let Some(path) = &mut self.path {
            path.pacer.on_send(segment.payload);
        }
        self.arm_departed(now, segment.seq, segment.retransmit);
    }

    /// A segment leaves that waits for no turn: a timeout's or a probe's.
    pub(super) fn on_unpaced_send(&mut self, now: Time, segment: &Transmit) {
        self.rate_skb_sent(self.stamped_at(now, segment), segment);
        if let Some(path) = &mut self.path {
            path.pacer.on_unasked(now, segment.payload);
        }
    }

    fn rate_skb_sent(&mut self, at: Time, segment: &Transmit) {
        let (in_flight, span) = (self.inflight(), (self.snd_una, self.snd_nxt));
        if let Some(path) = &mut self.path {
            path.sampler.on_send(us(at), segment.seq, span, in_flight, segment.retransmit);
        }
    }

    /// What is repeated without waiting for its turn is stamped with it nevertheless (Linux `tcp_wstamp_ns`).
    pub(super) fn turn(&self, now: Time) -> Time {
        self.path.as_ref().map_or(now, |path| now + path.ahead(now))
    }

    /// How long nothing may leave (Linux `tcp_pacing_delay`).
    pub(super) fn pacing_delay(&self, now: Time) -> Span {
        self.path.as_ref().filter(|_| self.linux).map_or(Span::ZERO, |path| self.wheel.whole(path.ahead(now)))
    }

    /// Nothing is left to send.
    pub(super) fn rest(&mut self) {
        if let Some(path) = &mut self.path {
            path.pacer.rest();
        }
    }

    /// Whether the last burst is still on its way; then the pacer wants to be woken.
    pub(super) fn pace_holds(&mut self, now: Time) -> bool {
        self.path.as_mut().is_some_and(|path| path.pacer.holds(now))
    }
}
