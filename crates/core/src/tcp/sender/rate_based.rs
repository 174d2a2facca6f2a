//! The sender of a rate-based congestion control: it records the segments that it sends, samples their delivery rate, and paces.

use super::tcp_sock::{Due, Rexmit, TcpSock};
use super::{Sender, State};
use crate::tcp::bursts;
use crate::tcp::cc::{Control, Flow, FlowEvent, Repair};
use crate::tcp::pacing::Pacer;
use crate::tcp::rate::{Loss, RateSample, RateSampler};
use crate::tcp::{Ack, Config, Transmit};
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

/// The parts that a rate-based congestion control needs in addition: samples of the delivery rate, and a pacer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RateBased {
    sampler: RateSampler,
    pacer: Pacer,
    /// Segments found lost since the congestion control last ran.
    losses: Vec<Loss>,
    /// Segments that the congestion control wants in a burst.
    send_quantum: u32,
    /// Payload bytes of a full segment.
    mss: u32,
    /// The initial window in segments.
    iw: u32,
    /// Ticks a second of Linux's clock (HZ).
    hz: u32,
}

/// The effects of an ACK, in segments.
pub(super) struct Report {
    pub delivered: u32,
    /// The number of delivered segments that were marked.
    pub marked: u32,
    /// Segments newly acknowledged cumulatively.
    pub newly: u32,
    pub newly_lost: u32,
    pub prior_in_flight: u32,
    /// The ACK covers a single segment, which is shorter than the MSS.
    pub lone_short: bool,
}

/// A time in µs, the unit of rate samples and of the algorithms that read them.
fn us(now: Time) -> u64 {
    now.0 / 1000
}

/// These segments are acknowledged cumulatively.
#[inline(always)]
pub(super) fn acked(rate_based: &mut Option<Box<RateBased>>, newly: Range<u32>) {
    if let Some(rate_based) = rate_based {
        newly.for_each(|seq| rate_based.sampler.deliver(seq, false));
    }
}

/// A block reports this segment for the first time.
#[inline(always)]
pub(super) fn sacked(rate_based: &mut Option<Box<RateBased>>, seq: u32) {
    if let Some(rate_based) = rate_based {
        rate_based.sampler.deliver(seq, true);
    }
}

/// The ACK under way gives no sample.
pub(super) fn skip_ack(rate_based: &mut Option<Box<RateBased>>) {
    if let Some(rate_based) = rate_based {
        rate_based.sampler.skip_ack();
        rate_based.losses.clear();
    }
}

/// This segment is lost.
pub(super) fn lost(rate_based: &mut Option<Box<RateBased>>, seq: u32) {
    if let Some(rate_based) = rate_based {
        let loss = rate_based.sampler.lose(seq);
        rate_based.losses.push(loss);
    }
}

impl RateBased {
    /// `None` for a window-driven congestion control.
    pub fn new(config: &Config) -> Option<RateBased> {
        let Config { cc, mss, iw, gso_max_segs, hz, .. } = *config;
        cc.is_rate_based().then(|| RateBased {
            sampler: RateSampler::new(0, None),
            pacer: Pacer::new(mss, gso_max_segs, cc.ops().pacing_shift),
            losses: Vec::new(),
            send_quantum: 1,
            mss: mss.max(1),
            iw,
            hz,
        })
    }

    /// When the pacer releases a segment that it holds; [`Time::NEVER`] if it holds none.
    #[inline]
    pub fn wake(&self) -> Time {
        self.pacer.wake()
    }

    /// The sender was woken.
    pub fn woken(&mut self) {
        self.pacer.woken();
    }

    pub fn pacing_rate(&self) -> u64 {
        self.pacer.rate()
    }

    /// The number of segments in the longest burst at the present rate.
    pub fn burst(&self) -> u32 {
        self.pacer.burst(self.sampler.min_rtt())
    }

    /// The time until the next paced departure; zero if it may be now.
    pub fn ahead(&self, now: Time) -> Span {
        self.pacer.ahead(now)
    }
}

impl TcpSock {
    /// The connection is established: the congestion control sets the first window and pacing rate.
    pub(super) fn init_rate_based(&mut self, now: Time, rtt: Option<Span>) {
        let Some(mut rate_based) = self.rate_based.take() else { return };
        let rtt = rtt.map(|rtt| (rtt.0 / 1000).max(1));
        rate_based.sampler = RateSampler::new(us(now), rtt);
        // In Linux the application writes after the handshake, so its first flight is application-limited
        // (`tcp_rate_check_app_limited`).
        rate_based.sampler.limit(0);
        let mut flow = self.flow(&rate_based, now);
        self.control.init(&mut flow, rtt);
        rate_based.pacer.set_rate(flow.pacing_rate);
        rate_based.send_quantum = flow.send_quantum;
        self.rate_based = Some(rate_based);
    }

    /// The connection as the congestion control would see it now.
    #[cfg(test)]
    pub(in crate::tcp) fn flow_now(&self, now: Time) -> Option<Flow> {
        self.rate_based.as_ref().map(|rate_based| self.flow(rate_based, now))
    }

    fn flow(&self, rate_based: &RateBased, now: Time) -> Flow {
        Flow {
            now: us(now),
            hz: rate_based.hz,
            delivered: rate_based.sampler.delivered,
            delivered_time: rate_based.sampler.delivered_time,
            in_flight: self.inflight(),
            lost: rate_based.sampler.lost,
            repair: match self.state {
                State::Recovery => Repair::Recovery,
                State::Loss => Repair::Loss,
                State::Closed | State::SynSent | State::Open | State::Cwr => Repair::None,
            },
            srtt: self.rto.srtt().map_or(0, |srtt| srtt.0 / 1000),
            ahead: rate_based.pacer.ahead(now).0 / 1000,
            mss: rate_based.mss,
            iw: rate_based.iw,
            cwnd_limited: self.usage.is_limited(),
            app_limited: rate_based.sampler.is_app_limited(),
            limit_samples: false,
            cwnd: self.control.window(),
            pacing_rate: rate_based.pacer.rate(),
            send_quantum: rate_based.send_quantum,
        }
    }

    /// Lets the congestion control act on the flow, and applies the values that it sets.
    #[inline(always)]
    fn with_flow(&mut self, now: Time, act: impl FnOnce(&mut Control, &mut Flow, &[Loss])) {
        // `rate_based` is taken out, so that the rest of the sender can be borrowed.
        let Some(mut rate_based) = self.rate_based.take() else { return };
        let mut flow = self.flow(&rate_based, now);
        act(&mut self.control, &mut flow, &rate_based.losses);
        if flow.limit_samples {
            rate_based.sampler.limit(flow.in_flight);
        }
        rate_based.pacer.set_rate(flow.pacing_rate);
        rate_based.send_quantum = flow.send_quantum;
        self.rate_based = Some(rate_based);
    }

    /// Reports an event other than an ACK to a rate-based congestion control.
    pub(super) fn flow_event(&mut self, now: Time, event: FlowEvent<'_>) {
        self.with_flow(now, |control, flow, _| control.flow_event(flow, event));
    }

    /// Sets the window and the pacing rate after an ACK.
    #[inline(never)]
    pub(super) fn cong_control_rate_based(&mut self, now: Time, ack: &Ack, report: &Report) {
        let &Report { delivered, marked, newly, newly_lost, prior_in_flight, lone_short } = report;
        let stamp = self.rtt_by_stamp(now, ack, newly).map(|rtt| rtt.0 / 1000);
        let Some(rate_based) = &mut self.rate_based else { return };
        let sample = rate_based.sampler.end(us(now), delivered, marked, stamp);
        // Linux `FLAG_ACK_MAYBE_DELAYED`. It counts only if no other segment was delivered since this one was sent.
        let ack_delayed = lone_short && sample.delivered == Some(1) && marked == 0;
        self.follow_sample(now, &RateSample { losses: newly_lost, prior_in_flight, ack_delayed, ..sample });
    }

    /// Sets the window and the pacing rate after an ACK that only SACKs these segments, none of which was retransmitted.
    #[inline(always)]
    pub(super) fn cong_control_of_run(&mut self, now: Time, run: Range<u32>, losses: u32, prior_in_flight: u32) {
        let Some(rate_based) = &mut self.rate_based else { return };
        let sample = rate_based.sampler.deliver_run(us(now), run);
        self.follow_sample(now, &RateSample { losses, prior_in_flight, ..sample });
    }

    #[inline(never)]
    fn follow_sample(&mut self, now: Time, sample: &RateSample) {
        self.with_flow(now, |control, flow, losses| control.cong_control(flow, losses, sample));
        self.forget_losses();
    }

    /// A retransmission timeout has marked all segments in flight lost; the window was `prior_cwnd`.
    pub(super) fn loss_event(&mut self, now: Time, prior_cwnd: u32) {
        self.with_flow(now, |control, flow, losses| control.flow_event(flow, FlowEvent::Loss { prior_cwnd, losses }));
        self.forget_losses();
    }

    fn forget_losses(&mut self) {
        if let Some(rate_based) = &mut self.rate_based {
            rate_based.losses.clear();
        }
    }

    /// A segment is about to be sent; if nothing is in flight, the path was idle.
    pub(super) fn tx_start_event(&mut self, now: Time) {
        if self.inflight() == 0 {
            self.flow_event(now, FlowEvent::TxStart);
        }
    }

    /// Called when the application writes (Linux `tcp_rate_check_app_limited`). If it had left room in the window unused, it limits
    /// the next rate samples.
    pub(super) fn check_app_limited(&mut self) {
        let in_flight = self.inflight();
        let idle = self.snd_nxt >= self.stream.end && in_flight < self.control.window();
        let repaired = self.board.lost <= self.board.retx;
        if let Some(rate_based) = &mut self.rate_based
            && idle
            && repaired
        {
            rate_based.sampler.limit(in_flight);
        }
    }

    /// Sends new full segments as pacing allows, if there is nothing to retransmit or announce (see `Sender::take_full`). Returns the
    /// segments of a burst; `None` if segments must be polled one by one.
    #[inline(never)]
    pub(super) fn take_paced(&mut self, now: Time) -> Option<u32> {
        let news = self.due != Due::Nothing || self.ecn.queue_cwr || self.stream.has_shorts();
        if news || !self.timer.is_linux() || !self.is_established() || self.bounds.is_some() {
            return None;
        }
        if matches!(self.rexmit, Rexmit::First | Rexmit::New) {
            return None;
        }
        // After most ACKs the window is still full, or the last burst is still being transmitted.
        let repairing = matches!(self.state, State::Recovery | State::Loss);
        let may = if repairing { self.has_pending() } else { self.snd_nxt < self.stream.end.min(self.wnd_end) };
        let pacer = &mut self.rate_based.as_mut()?.pacer;
        if self.board.pipe(self.snd_una, self.snd_nxt) >= self.control.window() || (may && pacer.holds(now)) {
            return Some(1);
        }
        self.take_bursts(now, repairing)
    }

    /// Does the work of `take_paced` once the window has room and the pacer allows a burst.
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
            let has_more = self.has_pending();
            let rate_based = self.rate_based.as_mut()?;
            if fresh == 0 && !(repairing && has_more) {
                rate_based.pacer.rest();
                break;
            }
            if rate_based.pacer.holds(now) {
                break;
            }
            if self.snd_nxt == start && repairing && self.next_retransmit().is_some() {
                return None;
            }
            if !repairing && fresh > 1 && self.tso_should_defer(now, room.min(self.wnd_end - self.snd_nxt)) {
                break;
            }
            let rate_based = self.rate_based.as_mut()?;
            let most = if repairing { room } else { fresh.min(room) };
            if !rate_based.pacer.admits(now, most, window, rate_based.sampler.min_rtt()) {
                break;
            }
            // The path is idle, so the first segment must be polled. The pacer will then give the same answer again.
            if self.snd_nxt == start && in_flight == 0 {
                return None;
            }
            let rate_based = self.rate_based.as_mut()?;
            if fresh == 0 {
                rate_based.pacer.rest();
                break;
            }
            let count = rate_based.pacer.left().min(room).min(fresh);
            burst = burst.max(count);
            self.send_full(now, count, in_flight);
        }
        Some(burst)
    }

    /// Sends `count` new full segments; others are outstanding.
    pub(super) fn send_full(&mut self, now: Time, count: u32, in_flight: u32) {
        let run = self.snd_nxt..self.snd_nxt + count;
        if !self.board.is_clean() {
            self.board.reserve(self.snd_una, run.end);
        }
        self.prr.on_send(count);
        self.sent.on_send(run.clone(), self.snd_una, now);
        self.snd_nxt = run.end;
        self.lsndtime = now;
        if let Some(rate_based) = &mut self.rate_based {
            rate_based.sampler.on_send_full(us(now), run, self.snd_una, in_flight);
            rate_based.pacer.on_send_full(count);
        }
        self.arm_after_send(now, false);
    }

    /// Returns whether the sender waits for an ACK that is due soon, because it has less than a full burst to send (Linux
    /// `tcp_tso_should_defer`).
    pub(super) fn tso_should_defer(&mut self, now: Time, limit: u32) -> bool {
        let Some(rate_based) = self.rate_based.as_mut().filter(|_| self.timer.is_linux()) else { return false };
        let Some(lsndtime) = rate_based.pacer.is_short(now, limit, rate_based.sampler.min_rtt()) else { return false };
        let window = bursts::Window { lsndtime, ..self.window(now) };
        let waits = self.bursts.wait(limit, &window);
        if let Some(rate_based) = self.rate_based.as_mut().filter(|_| waits) {
            rate_based.pacer.rest();
        }
        waits
    }

    /// A paced segment is sent.
    pub(super) fn on_paced_send(&mut self, now: Time, segment: &Transmit) {
        self.rate_skb_sent(now, segment);
        if let Some(rate_based) = &mut self.rate_based {
            rate_based.pacer.on_send(segment.payload);
        }
        self.arm_departed(now, segment.seq, segment.retransmit);
    }

    /// A segment is sent that is not paced: the retransmission after a timeout, or a probe.
    pub(super) fn on_unpaced_send(&mut self, now: Time, segment: &Transmit) {
        self.rate_skb_sent(self.stamped_at(now, segment), segment);
        if let Some(rate_based) = &mut self.rate_based {
            rate_based.pacer.on_unasked(now, segment.payload);
        }
    }

    fn rate_skb_sent(&mut self, at: Time, segment: &Transmit) {
        let (in_flight, span) = (self.inflight(), (self.snd_una, self.snd_nxt));
        if let Some(rate_based) = &mut self.rate_based {
            rate_based.sampler.on_send(us(at), segment.seq, span, in_flight, segment.retransmit);
        }
    }

    /// The time of the next paced departure, which is also the timestamp of a retransmission that does not wait for it (Linux
    /// `tcp_wstamp_ns`).
    pub(super) fn turn(&self, now: Time) -> Time {
        self.rate_based.as_ref().map_or(now, |rate_based| now + rate_based.ahead(now))
    }

    /// The time for which pacing releases no segment (Linux `tcp_pacing_delay`).
    pub(super) fn pacing_delay(&self, now: Time) -> Span {
        let delay = || Some(self.timer.wheel()?.whole(self.rate_based.as_ref()?.ahead(now)));
        delay().unwrap_or_default()
    }

    /// There is no more data to send.
    pub(super) fn rest(&mut self) {
        if let Some(rate_based) = &mut self.rate_based {
            rate_based.pacer.rest();
        }
    }

    /// Returns whether the last burst is still being transmitted; then the pacer asks to be woken.
    pub(super) fn pace_holds(&mut self, now: Time) -> bool {
        self.rate_based.as_mut().is_some_and(|rate_based| rate_based.pacer.holds(now))
    }
}

impl Sender {
    /// The next segment, if pacing allows it.
    pub(super) fn poll_paced(&mut self, now: Time) -> Option<Transmit> {
        let (in_flight, window) = (self.tcp.inflight(), self.tcp.control.window());
        let fresh = self.tcp.stream.end.min(self.tcp.wnd_end).saturating_sub(self.tcp.snd_nxt);
        let repairing = matches!(self.tcp.state, State::Recovery | State::Loss);
        let rate_based = self.tcp.rate_based.as_mut()?;
        if fresh == 0 && !repairing {
            rate_based.pacer.rest();
            return None;
        }
        let room = if repairing { window - in_flight } else { fresh.min(window - in_flight) };
        if !repairing
            && fresh > 1
            && self.tcp.tso_should_defer(now, (window - in_flight).min(self.tcp.wnd_end - self.tcp.snd_nxt))
        {
            return None;
        }
        if self.tcp.pace_holds(now) {
            return None;
        }
        let repair = if repairing { self.tcp.next_retransmit() } else { None };
        let rate_based = self.tcp.rate_based.as_mut()?;
        // Linux `tcp_cwnd_test`: a burst of new segments is at most half a window.
        let window = if repair.is_some() { u32::MAX } else { window };
        if !rate_based.pacer.admits(now, room, window, rate_based.sampler.min_rtt()) {
            return None;
        }
        self.tcp.tx_start_event(now);
        let left_at = repair.map(|seq| self.tcp.sent.at(seq));
        let mut segment = self.recovery.next_segment(&mut self.tcp, now);
        match &mut segment {
            Some(segment) => {
                self.tcp.on_paced_send(now, segment);
                // Linux `tcp_xmit_retransmit_queue`: a burst is an skb, so segments of one skb are retransmitted in one burst.
                if self.tcp.timer.is_linux() && segment.retransmit {
                    let next = self.tcp.next_retransmit().filter(|&seq| seq == segment.seq + 1);
                    if next.is_none_or(|seq| Some(self.tcp.sent.at(seq)) != left_at) {
                        self.tcp.rate_based.as_mut()?.pacer.end_burst();
                    }
                }
                segment.push |= !segment.retransmit && self.tcp.rate_based.as_ref()?.pacer.pushes();
            }
            None => self.tcp.rate_based.as_mut()?.pacer.rest(),
        }
        segment
    }
}
