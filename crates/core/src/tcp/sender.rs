//! The sending half: RFC 5681, 6298, 6937, 3168 and, for losses, 8985 (or 6675) behind a few calls.
//!
//! The window limits `pipe`, the segments estimated to be in the network. As long as nothing is SACKed, lost or
//! retransmitted, pipe is `snd_nxt - snd_una`, and an ACK or a transmission costs a few additions (the clean path). Everything
//! else, from the first SACK block to the end of a recovery, runs over the scoreboard: in `linux.rs` and `timers.rs` as
//! today's Linux does it, in `rfc6675.rs` as before RACK; `repair.rs` is what both need.
//!
//! Deviations: a SYN is repeated for ever.

mod bounded;
mod linux;
mod rate_based;
mod repair;
mod rfc6675;
mod timers;

use crate::cache::{Cache, LINE};
use crate::tcp::bursts::{self, Bursts};
#[cfg(test)]
use crate::tcp::cc::Algorithm;
use crate::tcp::cc::{AckSample, Control, CwndUsage, EcnUse};
use crate::tcp::prr::Prr;
use crate::tcp::rack::Rack;
use crate::tcp::receiver::FIRST_CEP;
use crate::tcp::rto::Rto;
use crate::tcp::scoreboard::Scoreboard;
use crate::tcp::sent::TxTimes;
use crate::tcp::stream::Stream;
use crate::tcp::tlp::Tlp;
use crate::tcp::undo::UndoState;
use crate::tcp::{Ack, Acked, Block, Cc, Config, Recovery, Run, Transmit};
use crate::units::{Span, Time};
use crate::wheel::Wheel;
use alloc::boxed::Box;
use bounded::Bounds;
use core::mem::offset_of;
use rate_based::RateBased;
use rfc6675::BeforeTimeout;
use timers::Timer;

/// Linux `tcp_syn_linear_timeouts`: so many SYNs are repeated after a second each, before the wait doubles.
const LINEAR_SYNS: u32 = 4;

/// What the sender is doing (Linux's names).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not opened.
    Closed,
    /// A SYN is out.
    SynSent,
    /// Established, nothing known to be lost.
    Open,
    /// Reducing the window after an ECN echo.
    Cwr,
    /// Repairing a loss that SACK blocks showed.
    Recovery,
    /// Repairing after a timeout.
    Loss,
}

/// What the ACK that came last allows to be sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rexmit {
    /// Nothing.
    None,
    /// The first segment: the timer expired.
    First,
    /// What is lost.
    Lost,
    /// Nothing if there is new data, else what is lost (RFC 5682 §3.1 step 2 b).
    New,
}

/// The sending half of a connection: first what every ACK needs ([`Sender::prefetch`]), then what repairs need
/// ([`Sender::prefetch_recovery`]).
#[derive(Clone, Debug, PartialEq)]
#[repr(C)]
pub struct Sender {
    /// The lowest segment not acknowledged.
    snd_una: u32,
    /// The next segment to be sent for the first time.
    snd_nxt: u32,
    /// One past what the receiver can take.
    wnd_end: u32,
    state: State,
    /// Open and nothing on the scoreboard.
    clean: bool,
    ecn: bool,
    /// Retransmissions and SYNs are ECN-capable too.
    ecn_always: bool,
    /// With accurate ECN: the counter of marks, modulo 8, as the last ACK gave it.
    cep: Option<u8>,
    timestamps: bool,
    /// Timeouts that prove spurious are undone (without RACK).
    eifel: bool,
    /// Losses are found and repaired as today's Linux does.
    linux: bool,
    /// Times of transmission are needed.
    keeps_times: bool,
    /// A SYN is to be sent.
    syn_due: bool,
    /// The next new segment tells that the window was reduced.
    cwr_due: bool,
    /// The one retransmission of RFC 6675 §4 rule 4 may still be made.
    rescue: bool,
    /// A loss probe is to be sent.
    probe_due: bool,
    /// F-RTO asks whether the timeout was spurious.
    frto: bool,
    rexmit: Rexmit,
    /// What the timer is for.
    timer: Timer,
    /// Timeouts since something was acknowledged (Linux `icsk_retransmits`).
    icsk_retransmits: u8,
    /// When a timer expires; never if none runs.
    deadline: Time,
    /// When that was set; never if it is a tick of the wheel already.
    armed: Time,
    control: Control,
    rto: Rto,
    stream: Stream,
    /// When the last segment was sent.
    lsndtime: Time,
    /// Whether the window is used.
    usage: CwndUsage,
    /// When what is outstanding left.
    sent: TxTimes,
    /// Of a congestion control that models the path: then every ACK takes the slow path.
    rate_based: Option<Box<RateBased>>,
    /// Where the host bounds what it takes and what waits in it: then every ACK takes the slow path too.
    bounds: Option<Box<Bounds>>,
    /// What its timers expire by, as today's Linux.
    wheel: Wheel,
    /// The smallest RTT so far, in µs.
    min_rtt_us: u32,
    bursts: Bursts,
    rack: Rack,
    /// RecoveryPoint: the reduction ends when everything below is acknowledged.
    high_seq: u32,
    /// RescueRxt.
    rescue_rxt: u32,
    /// ECN echoes count again when more than this is acknowledged.
    cwr_end: u32,
    prr: Prr,
    board: Scoreboard,
    tlp: Tlp,
    undo: UndoState,
    total_retrans: u32,
    /// What to return to if the last timeout was spurious (without RACK).
    before_timeout: Option<Box<BeforeTimeout>>,
    /// When the first SYN left, in µs modulo 2^32.
    syn_stamp_us: u32,
    timeouts: u32,
}

/// The lines of a [`Sender`] that begins with one: those that every ACK needs, and those that repairs need beside.
const PLAIN: usize = offset_of!(Sender, high_seq) / LINE;
const REPAIR: usize = offset_of!(Sender, syn_stamp_us).div_ceil(LINE) - PLAIN;

impl Sender {
    /// A sender that is neither opened nor established.
    pub fn new(config: &Config) -> Sender {
        let control = Control::new(config);
        // A window that never moves is for experiments on queues: it opens packet by packet.
        // Who is paced has bursts of its own.
        let most = if matches!(config.cc, Cc::Fixed(_)) || config.cc.is_rate_based() { 1 } else { config.gso_max_segs };
        Sender {
            snd_una: 0,
            snd_nxt: 0,
            wnd_end: config.first_window(),
            state: State::Closed,
            clean: false,
            ecn: config.ecn,
            ecn_always: config.ecn && config.cc.needs_ecn(),
            cep: (config.ecn && config.cc.ops().ecn == EcnUse::L4s).then_some(FIRST_CEP),
            timestamps: config.timestamps,
            eifel: config.timestamps && config.linux_rto,
            linux: config.recovery == Recovery::Rack,
            keeps_times: config.recovery == Recovery::Rack || most > 1,
            syn_due: false,
            cwr_due: false,
            rescue: false,
            probe_due: false,
            frto: false,
            rexmit: Rexmit::None,
            timer: Timer::Rto,
            icsk_retransmits: 0,
            deadline: Time::NEVER,
            armed: Time::NEVER,
            control,
            rto: Rto::new(config.rto_min, config.linux_rto),
            stream: Stream::new(config.mss),
            lsndtime: Time::ZERO,
            usage: CwndUsage::default(),
            high_seq: 0,
            rescue_rxt: 0,
            cwr_end: 0,
            prr: Prr::default(),
            board: Scoreboard::default(),
            bursts: Bursts::new(most, config.mss),
            sent: TxTimes::default(),
            rack: Rack::default(),
            tlp: Tlp::default(),
            undo: UndoState::default(),
            min_rtt_us: u32::MAX,
            syn_stamp_us: 0,
            wheel: Wheel::new(config.hz),
            before_timeout: None,
            rate_based: RateBased::new(config).map(Box::new),
            bounds: Bounds::new(config).map(Box::new),
            total_retrans: 0,
            timeouts: 0,
        }
    }

    /// Opens actively: a SYN is to be sent, and repeated after 1 s, 2 s, 4 s, … (RFC 6298 §2.1, §5.5; today's Linux waits a
    /// second four times before that).
    pub fn open(&mut self, now: Time) {
        self.state = State::SynSent;
        self.syn_due = true;
        self.lsndtime = now;
        self.syn_stamp_us = micros(now);
    }

    /// The handshake is over: this half may send, and knows its RTT unless something was repeated that no timestamp tells apart.
    pub fn establish(&mut self, now: Time, rtt: Option<Span>) {
        self.rto.after_handshake(rtt.is_some());
        self.state = State::Open;
        self.clean = self.is_plain();
        self.deadline = Time::NEVER;
        self.lsndtime = now;
        if let Some(rtt) = rtt {
            self.rto.sample(rtt, self.snd_una, self.snd_nxt);
            self.min_rtt_us = (rtt.0 / 1000) as u32;
            self.rack.rtt_us = self.min_rtt_us;
        }
        self.init_rate_based(now, rtt);
        self.open_buffer();
    }

    /// Whether the clean path may be taken where nothing is amiss.
    fn is_plain(&self) -> bool {
        self.rate_based.is_none() && self.bounds.is_none()
    }

    /// Whether ECN is used, as far as is known.
    pub fn has_ecn(&self) -> bool {
        self.ecn
    }

    /// The handshake has shown that ECN can't be used.
    pub fn forgo_ecn(&mut self) {
        (self.ecn, self.ecn_always) = (false, false);
    }

    /// Whether data may be sent.
    pub fn is_established(&self) -> bool {
        !matches!(self.state, State::Closed | State::SynSent)
    }

    /// The application appends bytes; returns the number of the segment after their last. Each write starts a segment.
    pub fn write(&mut self, bytes: u64) -> u32 {
        self.check_app_limited();
        let end = self.stream.write(bytes);
        self.fill_buffer();
        end
    }

    /// The application has data without end from now on.
    pub fn write_forever(&mut self) {
        self.check_app_limited();
        self.stream.write_forever();
        self.fill_buffer();
    }

    /// The application writes no more: a FIN follows what it wrote, a segment without payload, repaired as one.
    pub fn finish(&mut self) {
        self.stream.finish();
    }

    /// What was not sent is withdrawn; what was is still repaired.
    pub fn stop(&mut self) {
        self.stream.truncate(self.snd_nxt);
    }

    /// An ACK arrives, with up to three SACK blocks, the most recent first.
    #[inline(always)]
    pub fn on_ack(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        let (out, newly) = (self.snd_nxt - self.snd_una, ack.cum.wrapping_sub(self.snd_una));
        // newly - 1 >= out: nothing new, or what was never sent.
        if !self.clean || !blocks.is_empty() || ack.ace != 0 || newly.wrapping_sub(1) >= out {
            // Copies: what is handed on by reference only here may stay in registers elsewhere.
            let Acked { payload, rtt } = self.on_ack_slow(now, &Ack { ..*ack }, blocks);
            return Acked { payload, rtt };
        }
        self.cwnd_validate(out);
        let payload = self.stream.acknowledge(self.snd_una, ack.cum);
        self.snd_una = ack.cum;
        self.wnd_end = ack.cum.saturating_add(ack.window);
        let rtt = since_us(now, ack.ts_first);
        self.rto.sample(rtt, self.snd_una, self.snd_nxt);
        let sample = self.ack_sample(now, ack);
        self.control.on_clean_ack(newly, &sample, &self.usage);
        self.min_rtt_us = self.min_rtt_us.min(sample.rtt_us);
        self.rack.rtt_us = sample.rtt_us;
        self.armed = now;
        self.deadline = if self.snd_una == self.snd_nxt {
            Time::NEVER
        } else if self.linux {
            self.timer = Timer::Probe;
            self.probe_after_ack(now)
        } else {
            now + self.rto.timeout()
        };
        Acked { payload, rtt: Some(rtt) }
    }

    /// The run of segments to send now, perhaps empty, where a flight is under way, all are full and there is nothing to
    /// repair or announce; else nothing, and [`Sender::poll_transmit`] must be asked for one after the other.
    #[inline(always)]
    pub fn take_full(&mut self, now: Time) -> Option<Run> {
        let start = self.snd_nxt;
        // The run is put together here, in registers: from memory it would be read in wider words than it was written in.
        let burst = if !self.clean {
            self.rate_based.as_ref()?;
            self.take_paced(now)?
        } else if self.snd_una == start || self.cwr_due || self.stream.has_shorts() {
            return None;
        } else if self.bursts.is_on() {
            self.take_burst(now)
        } else {
            self.take_window(now);
            1
        };
        Some(Run {
            segments: start..self.snd_nxt,
            burst,
            ends: self.snd_nxt == self.stream.end && self.snd_nxt > start,
        })
    }

    /// All that the window allows leaves now, packet by packet.
    #[inline(always)]
    fn take_window(&mut self, now: Time) {
        let (start, window) = (self.snd_nxt, self.snd_una.saturating_add(self.control.window()));
        let end = window.min(self.stream.end).min(self.wnd_end);
        if end > start {
            self.snd_nxt = end;
            self.lsndtime = now;
            if self.linux {
                self.sent.on_send(start..end, self.snd_una, now);
                self.arm(Timer::Probe, now, self.probe_after_send(now));
            }
        }
    }

    /// The next segment to send now, if window, receiver and application allow one. Call until there is none.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if !self.clean {
            return match self.bounds {
                Some(_) => self.poll_bounded(now),
                None if self.is_full() => None,
                None => self.poll_slow(now),
            };
        }
        if self.snd_nxt - self.snd_una >= self.control.window()
            || self.snd_nxt >= self.stream.end
            || self.snd_nxt >= self.wnd_end
        {
            self.bursts.begin();
            return None;
        }
        let room = (self.control.window() - (self.snd_nxt - self.snd_una)).min(self.wnd_end - self.snd_nxt);
        if self.bursts.is_on() && !self.bursts_allow(now, room) {
            return None;
        }
        Some(self.send_new(now))
    }

    /// Whether nothing may leave for want of a window, so that nothing else need be asked: the answer to most questions off the
    /// clean path.
    #[inline(always)]
    fn is_full(&self) -> bool {
        let asked = self.probe_due || self.syn_due || self.rexmit == Rexmit::New;
        self.inflight() >= self.control.window() && !asked && self.is_established()
    }

    /// The same in bursts; of how many one is.
    #[inline(never)]
    fn take_burst(&mut self, now: Time) -> u32 {
        let start = self.snd_nxt;
        let limit = self.snd_una.saturating_add(self.control.window()).min(self.wnd_end);
        let window = self.window(now);
        let (count, burst) = self.bursts.take(limit.saturating_sub(start), self.stream.end - start, &window);
        if count > 0 {
            self.sent.on_send(start..start + count, self.snd_una, now);
            self.snd_nxt += count;
            self.lsndtime = now;
            if self.linux {
                self.arm(Timer::Probe, now, self.probe_after_send(now));
            }
        }
        burst
    }

    /// Whether the next new segment may leave, where the window has room for `limit`.
    #[inline(never)]
    fn bursts_allow(&mut self, now: Time, limit: u32) -> bool {
        let window = self.window(now);
        self.bursts.take_one(limit, self.stream.end - self.snd_nxt, &window)
    }

    /// What bursts depend on.
    fn window(&self, now: Time) -> bursts::Window {
        bursts::Window {
            now,
            cwnd: self.control.window(),
            ssthresh: self.control.ssthresh(),
            out: self.snd_nxt - self.snd_una,
            rwnd: self.wnd_end - self.snd_una,
            srtt: self.rto.srtt(),
            min_rtt: self.min_rtt(),
            lsndtime: self.lsndtime,
            head: (self.snd_una < self.snd_nxt).then(|| self.sent.at(self.snd_una)),
        }
    }

    /// A timer expired, or what waits for its turn may leave: call when `now` has reached [`Sender::next_event`], and poll if this says
    /// that it was worth it.
    pub fn on_timer(&mut self, now: Time) -> bool {
        let mut held = Time::NEVER;
        if let Some(rate_based) = &mut self.rate_based {
            held = rate_based.wake();
            rate_based.woken();
        }
        if let Some(bounds) = &mut self.bounds {
            held = held.min(bounds.wake());
            bounds.woken();
        }
        if self.linux && held <= now {
            self.tsq_write();
        }
        if now < self.deadline || self.is_between_ticks(now) {
            return !self.is_plain();
        }
        self.expire(now);
        true
    }

    /// The timer expires.
    fn expire(&mut self, now: Time) {
        if self.state == State::SynSent {
            self.timeouts += 1;
            if !self.linux || self.timeouts > LINEAR_SYNS {
                self.back_off();
            }
            self.syn_due = true;
            self.deadline = Time::NEVER;
            return;
        }
        if self.linux {
            return self.on_timer_linux(now);
        }
        self.timeouts += 1;
        self.on_timeout(now);
    }

    /// When [`Sender::on_timer`] wants to be called.
    #[inline]
    pub fn next_event(&self) -> Time {
        match (&self.rate_based, &self.bounds) {
            (None, None) => self.deadline,
            (rate_based, bounds) => {
                let paced = rate_based.as_ref().map_or(Time::NEVER, |rate_based| rate_based.wake());
                self.deadline.min(paced).min(bounds.as_ref().map_or(Time::NEVER, |bounds| bounds.wake()))
            }
        }
    }

    /// The pacing rate in payload bytes a second, of a sender that paces.
    pub fn pacing_rate(&self) -> Option<u64> {
        self.rate_based.as_ref().map(|rate_based| rate_based.pacing_rate())
    }

    /// Fetches what any ACK needs.
    #[inline]
    pub fn prefetch(&self, cache: &impl Cache) {
        cache.fetch_lines(&self.snd_una, PLAIN);
    }

    /// The same of what an ACK with SACK blocks needs beside.
    #[inline]
    pub fn prefetch_recovery(&self, cache: &impl Cache) {
        cache.fetch_lines(&self.high_seq, REPAIR);
    }

    /// The same of what it keeps elsewhere, behind what [`Sender::prefetch`] fetches: the segment that will be the first outstanding.
    #[inline]
    pub fn prefetch_first(&self, cum: u32, cache: &impl Cache) {
        self.sent.prefetch(cum, cache);
    }

    /// And behind what [`Sender::prefetch_recovery`] fetches.
    #[inline]
    pub fn prefetch_scoreboard(&self, cache: &impl Cache) {
        self.board.prefetch_first(self.snd_una, cache);
    }

    /// What time this segment, the last that was taken, is stamped with: its turn, also where it did not wait for that.
    pub fn stamped_at(&self, now: Time, segment: &Transmit) -> Time {
        if self.linux && segment.retransmit && !segment.syn { self.sent.at(segment.seq) } else { now }
    }

    /// Everything written has been acknowledged.
    pub fn all_acked(&self) -> bool {
        self.snd_una == self.stream.written
    }

    /// The lowest segment not acknowledged.
    pub fn acked(&self) -> u32 {
        self.snd_una
    }

    /// The lowest segment not sent.
    pub fn sent(&self) -> u32 {
        self.snd_nxt
    }

    /// Segments estimated to be in the network (RFC 6675 `pipe`).
    #[inline]
    pub fn inflight(&self) -> u32 {
        self.board.pipe(self.snd_una, self.snd_nxt)
    }

    /// The congestion window in whole segments.
    pub fn cwnd(&self) -> u32 {
        self.control.window()
    }

    /// The slow start threshold in whole segments; `u32::MAX` while there is none.
    pub fn ssthresh(&self) -> u32 {
        self.control.ssthresh()
    }

    /// The smoothed RTT, once there is a sample.
    pub fn srtt(&self) -> Option<Span> {
        self.rto.srtt()
    }

    /// What the receiver offers above what it has acknowledged, in segments; none: without bound.
    #[inline]
    pub fn offered(&self) -> Option<u32> {
        (self.wnd_end != u32::MAX).then(|| self.wnd_end - self.snd_una)
    }

    /// Segments retransmitted so far, SYNs not counted.
    pub fn retransmits(&self) -> u64 {
        u64::from(self.total_retrans)
    }

    /// Timer expiries so far, those of SYNs too.
    pub fn timeouts(&self) -> u64 {
        u64::from(self.timeouts)
    }

    #[inline]
    fn ack_sample(&self, now: Time, ack: &Ack) -> AckSample {
        let rtt_us = (micros(now).wrapping_sub(ack.ts_last) as i32).max(1) as u32;
        AckSample { now, srtt: self.rto.srtt_secs(), rtt_us, snd_una: self.snd_una, snd_nxt: self.snd_nxt }
    }

    /// Notes whether the window limits the sender, of which `out` segments are in flight.
    #[inline]
    fn cwnd_validate(&mut self, out: u32) {
        let limited = out >= self.control.window() || self.bursts.waits();
        self.usage.validate(out, limited, self.snd_una, self.snd_nxt);
    }

    #[inline(always)]
    fn send_new(&mut self, now: Time) -> Transmit {
        let seq = self.snd_nxt;
        if self.snd_una == seq {
            self.start_flight(now);
        }
        if self.keeps_times {
            self.sent.on_send(seq..seq + 1, self.snd_una, now);
        }
        self.snd_nxt += 1;
        self.lsndtime = now;
        if self.linux {
            if self.clean {
                self.arm(Timer::Probe, now, self.probe_after_send(now));
            } else if self.rate_based.is_none() {
                self.arm_after_send(now, self.snd_una == seq);
            }
        }
        let cwr = core::mem::take(&mut self.cwr_due);
        let payload = self.stream.payload(seq);
        let push = self.stream.is_last(seq, payload) || self.bursts.pushes();
        // Linux `tcp_ecn_send`: what has no payload is not ECN-capable.
        let ect = self.ecn && (payload > 0 || self.ecn_always);
        Transmit { seq, payload, retransmit: false, syn: false, ect, cwr, push }
    }

    /// Nothing is outstanding: the timer starts, and an idle window may have to cwnd_reduction.
    #[inline(never)]
    fn start_flight(&mut self, now: Time) {
        let rto = self.rto.timeout();
        if self.snd_nxt > 0 {
            self.control.restart(now, now.since(self.lsndtime), rto);
        }
        self.arm(self.timer, now, now + rto);
    }

    #[cold]
    #[inline(never)]
    fn on_handshake(&mut self, now: Time, ack: &Ack) -> Acked {
        if self.state != State::SynSent {
            return Acked::default();
        }
        let lost = self.timeouts;
        let rtt = match lost {
            0 => Some(since_us(now, ack.ts_first)),
            _ if self.linux => self.timestamps.then(|| since_ms(now, ack.ts_first)).flatten(),
            _ => self.timestamps.then(|| since_us(now, ack.ts_first)),
        };
        let first_came = self.linux && ack.ts_first == self.syn_stamp_us;
        if self.linux && lost > 0 && !first_came {
            // RFC 3168 §6.1.1.1, Linux `tcp_ecn_fallback`: who repeats a SYN asks for no ECN.
            self.forgo_ecn();
        }
        // Linux `tcp_try_undo_spurious_syn`: if the first SYN came, as timestamps say, repeating it was in vain.
        if lost > 1 && !(first_came && self.timestamps) {
            self.control.after_syn_loss();
        }
        self.establish(now, rtt);
        self.wnd_end = ack.window.max(1);
        Acked { payload: 0, rtt }
    }

    /// The congestion control's state, once the connection is established.
    #[cfg(test)]
    pub(super) fn algorithm(&self) -> Option<&Algorithm> {
        self.is_established().then(|| self.control.algorithm())
    }

    /// The same, to be changed.
    #[cfg(test)]
    pub(super) fn algorithm_mut(&mut self) -> Option<&mut Algorithm> {
        self.is_established().then(|| self.control.algorithm_mut())
    }

    /// The scoreboard's counts and a slow recount of them: (sacked, lost, retx) each.
    #[cfg(test)]
    pub(super) fn counts(&self) -> ((u32, u32, u32), (u32, u32, u32)) {
        ((self.board.sacked, self.board.lost, self.board.retx), self.board.recount(self.snd_una, self.snd_nxt))
    }

    /// The loss probe that is out: it may leave beyond the window.
    #[cfg(test)]
    pub(super) fn probe(&self) -> Option<u32> {
        self.tlp.end_seq.map(|end| end - 1)
    }

    /// Where [`Sender::poll_transmit`] knows without asking that nothing may leave: what would be answered, and what would be left.
    #[cfg(test)]
    pub(super) fn full_window_answer(&self, now: Time) -> Option<(Option<Transmit>, Sender)> {
        let mut asked = self.clone();
        let spared = !self.clean && self.bounds.is_none() && self.is_full();
        spared.then(|| (asked.poll_slow(now), asked))
    }

    /// Marks on the scoreboard that belong to no outstanding segment.
    #[cfg(test)]
    pub(super) fn stale_marks(&self) -> usize {
        self.board.stale(self.snd_una, self.snd_nxt)
    }

    /// Whether a segment is known to have arrived.
    #[cfg(test)]
    pub(super) fn is_sacked(&self, seq: u32) -> bool {
        seq < self.snd_una || self.board.is_sacked(seq)
    }
}

/// The time since a timestamp in µs modulo 2^32, at least one µs.
#[inline]
fn since_us(now: Time, ts: u32) -> Span {
    Span::from_micros(u64::from(micros(now).wrapping_sub(ts).max(1)))
}

/// The same by the clock of Linux's timestamps, which ticks once in a millisecond (`TCP_TS_HZ`, `tcp_rtt_tsopt_us`): a whole
/// number of them, at least one, and up to one less or more than has passed. None of a tick to come: what did not wait for its turn
/// is stamped with that turn.
fn since_ms(now: Time, ts: u32) -> Option<Span> {
    let now_us = now.0 / 1000;
    let sent_us = now_us.saturating_add_signed(-i64::from(micros(now).wrapping_sub(ts) as i32));
    (now_us / 1000).checked_sub(sent_us / 1000).map(|ms| Span::from_millis(ms.max(1)))
}

/// A moment as a timestamp.
#[inline]
fn micros(now: Time) -> u32 {
    (now.0 / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux `tcp_ack_update_rtt`, `tcp_rtt_tsopt_us`: what was repeated shows its RTT by the timestamp, which ticks in milliseconds.
    #[test]
    fn an_rtt_by_timestamp_is_a_whole_number_of_milliseconds() {
        let ms = |us: u64, ts: u32| since_ms(Time(us * 1000), ts).map(|rtt| rtt.0 / 1000);
        assert_eq!([ms(253_300, 0), ms(253_900, 700), ms(254_100, 700)], [253_000, 253_000, 254_000].map(Some));
        assert_eq!([ms(500, 100), ms(1500, 1400), ms(1500, 1900)], [1000; 3].map(Some), "at least one");
        assert_eq!([ms(1500, 2000), ms(1999, 60_000)], [None; 2], "not of a tick to come");
        let wrapped = (1u64 << 32) + 5_000;
        assert_eq!(ms(wrapped, u32::MAX - 999), Some(6_000), "timestamps begin again");
    }
}
