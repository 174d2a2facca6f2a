//! The sending half: RFC 5681, 6298, 6675, 6937 and 3168 behind a few calls.
//!
//! The window limits `pipe`, the segments estimated to be in the network. As long as nothing is SACKed, lost or
//! retransmitted, pipe is `nxt - una`, and an ACK or a transmission costs a few additions (the clean path). Everything
//! else, from the first SACK block to the end of a recovery, runs over the scoreboard.
//!
//! Deviations: no RACK-TLP (RFC 8985): a lost retransmission waits for the timer. A SYN is repeated for ever.

use crate::tcp::cc::{Clock, Control};
use crate::tcp::prr::Prr;
use crate::tcp::rto::Rto;
use crate::tcp::scoreboard::{Advanced, Scoreboard};
use crate::tcp::stream::Stream;
use crate::tcp::{Ack, Acked, Block, Config, Transmit};
use crate::units::{Span, Time};

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

/// The sending half of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    /// The lowest segment not acknowledged.
    una: u32,
    /// The next segment to be sent for the first time.
    nxt: u32,
    /// One past what the receiver can take.
    edge: u32,
    state: State,
    /// Open and nothing on the scoreboard.
    clean: bool,
    ecn: bool,
    timestamps: bool,
    /// The window, rather than the application, was the limit lately (Linux `is_cwnd_limited`).
    cwnd_limited: bool,
    /// A SYN is to be sent.
    syn_due: bool,
    /// The next new segment tells that the window was reduced.
    cwr_due: bool,
    /// The one retransmission of RFC 6675 §4 rule 4 may still be made.
    rescue: bool,
    /// When a timer expires; never if none runs.
    deadline: Time,
    control: Control,
    rto: Rto,
    stream: Stream,
    /// When the last segment was sent.
    sent_at: Time,
    /// The most that was outstanding in the current round, which ends when `usage_end` is acknowledged.
    max_out: u32,
    usage_end: u32,
    /// RecoveryPoint: the reduction ends when everything below is acknowledged.
    recover: u32,
    /// RescueRxt.
    rescue_rxt: u32,
    /// ECN echoes count again when more than this is acknowledged.
    cwr_end: u32,
    prr: Prr,
    board: Scoreboard,
    retransmits: u64,
    timeouts: u64,
}

impl Sender {
    /// A sender that is neither opened nor established.
    pub fn new(config: &Config) -> Sender {
        Sender {
            una: 0,
            nxt: 0,
            edge: config.rwnd.max(1),
            state: State::Closed,
            clean: false,
            ecn: config.ecn,
            timestamps: config.timestamps,
            cwnd_limited: false,
            syn_due: false,
            cwr_due: false,
            rescue: false,
            deadline: Time::NEVER,
            control: Control::new(config),
            rto: Rto::new(config.rto_min, config.linux_rto),
            stream: Stream::new(config.mss),
            sent_at: Time::ZERO,
            max_out: 0,
            usage_end: 0,
            recover: 0,
            rescue_rxt: 0,
            cwr_end: 0,
            prr: Prr::default(),
            board: Scoreboard::default(),
            retransmits: 0,
            timeouts: 0,
        }
    }

    /// Opens actively: a SYN is to be sent, and repeated after 1 s, 2 s, 4 s, … (RFC 6298 §2.1, §5.5).
    pub fn open(&mut self, now: Time) {
        self.state = State::SynSent;
        self.syn_due = true;
        self.sent_at = now;
    }

    /// The other half opened the connection: this one may send, and knows the handshake's RTT if it measured it.
    pub fn establish(&mut self, now: Time, rtt: Option<Span>) {
        self.state = State::Open;
        self.clean = true;
        self.deadline = Time::NEVER;
        self.sent_at = now;
        if let Some(rtt) = rtt {
            self.rto.sample(rtt, self.una, self.nxt);
        }
    }

    /// Whether data may be sent.
    pub fn is_established(&self) -> bool {
        !matches!(self.state, State::Closed | State::SynSent)
    }

    /// The application appends bytes; returns the number of the segment after their last. Each write starts a segment.
    pub fn write(&mut self, bytes: u64) -> u32 {
        self.stream.write(bytes)
    }

    /// The application has data without end from now on.
    pub fn write_forever(&mut self) {
        self.stream.end = u32::MAX;
    }

    /// What was not sent is withdrawn; what was is still repaired.
    pub fn stop(&mut self) {
        self.stream.truncate(self.nxt);
    }

    /// An ACK arrives, with up to three SACK blocks, the most recent first.
    #[inline]
    pub fn on_ack(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        let (out, newly) = (self.nxt - self.una, ack.cum.wrapping_sub(self.una));
        // newly - 1 >= out: nothing new, or what was never sent.
        if !self.clean || !blocks.is_empty() || ack.ece || newly.wrapping_sub(1) >= out {
            return self.on_ack_slow(now, ack, blocks);
        }
        self.note_usage(out);
        let payload = self.stream.acknowledge(self.una, ack.cum);
        self.una = ack.cum;
        self.edge = ack.cum.saturating_add(ack.window);
        let rtt = since_us(now, ack.ts_first);
        self.rto.sample(rtt, self.una, self.nxt);
        let clock = self.clock(now, ack);
        self.control.observe(&clock);
        if self.may_grow() {
            self.control.grow(newly, &clock);
        }
        self.deadline = if self.una == self.nxt { Time::NEVER } else { now + self.rto.timeout() };
        Acked { payload, rtt: Some(rtt) }
    }

    /// The next segment to send now, if window, receiver and application allow one. Call until there is none.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if !self.clean {
            return self.poll_slow(now);
        }
        if self.nxt - self.una >= self.control.window() || self.nxt >= self.stream.end || self.nxt >= self.edge {
            return None;
        }
        Some(self.send_new(now))
    }

    /// A timer expired: call when `now` has reached [`Sender::next_event`], then poll.
    pub fn on_timer(&mut self, now: Time) {
        if now < self.deadline {
            return;
        }
        self.timeouts += 1;
        if self.state == State::SynSent {
            self.rto.back_off();
            self.syn_due = true;
            self.deadline = Time::NEVER;
            return;
        }
        self.on_timeout(now);
    }

    /// When [`Sender::on_timer`] wants to be called.
    #[inline]
    pub fn next_event(&self) -> Time {
        self.deadline
    }

    /// Everything written has been acknowledged.
    pub fn all_acked(&self) -> bool {
        self.una == self.stream.end
    }

    /// The lowest segment not acknowledged.
    pub fn acked(&self) -> u32 {
        self.una
    }

    /// Segments estimated to be in the network (RFC 6675 `pipe`).
    #[inline]
    pub fn inflight(&self) -> u32 {
        self.board.pipe(self.una, self.nxt)
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

    /// Segments retransmitted so far, SYNs not counted.
    pub fn retransmits(&self) -> u64 {
        self.retransmits
    }

    /// Timer expiries so far, those of SYNs too.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }

    #[inline]
    fn clock(&self, now: Time, ack: &Ack) -> Clock {
        let rtt_us = ((now.0 / 1000) as u32).wrapping_sub(ack.ts_last).max(1);
        Clock { now, srtt: self.rto.srtt_secs(), rtt_us, una: self.una, nxt: self.nxt }
    }

    /// Congestion window validation (RFC 7661's aim by Linux's means): was the window used since the last ACK?
    #[inline]
    fn note_usage(&mut self, out: u32) {
        let limited = out >= self.control.window();
        if limited || self.una >= self.usage_end || (!self.cwnd_limited && out > self.max_out) {
            self.cwnd_limited = limited;
            self.max_out = out;
            self.usage_end = self.nxt;
        }
    }

    /// The window grows only if it was used; in slow start if more than half of it was (Linux `tcp_is_cwnd_limited`).
    #[inline]
    fn may_grow(&self) -> bool {
        self.cwnd_limited || (self.control.in_slow_start() && self.control.window() < self.max_out.saturating_mul(2))
    }

    #[inline]
    fn send_new(&mut self, now: Time) -> Transmit {
        let seq = self.nxt;
        if self.una == seq {
            self.begin_flight(now);
        }
        self.nxt += 1;
        self.sent_at = now;
        let cwr = core::mem::take(&mut self.cwr_due);
        Transmit { seq, payload: self.stream.payload(seq), retransmit: false, syn: false, ect: self.ecn, cwr }
    }

    /// Nothing is outstanding: the timer starts, and an idle window may have to shrink.
    #[inline(never)]
    fn begin_flight(&mut self, now: Time) {
        let rto = self.rto.timeout();
        if self.nxt > 0 {
            self.control.restart(now, now.since(self.sent_at), rto);
        }
        self.deadline = now + rto;
    }

    #[cold]
    #[inline(never)]
    fn on_handshake(&mut self, now: Time, ack: &Ack) -> Acked {
        if self.state != State::SynSent {
            return Acked::default();
        }
        let lost = self.rto.backoff();
        let rtt = (self.timestamps || lost == 0).then(|| since_us(now, ack.ts_first));
        self.rto.after_handshake(rtt.is_some());
        self.establish(now, rtt);
        if lost > 1 {
            self.control.after_syn_loss();
        }
        self.edge = ack.window.max(1);
        Acked { payload: 0, rtt }
    }

    #[inline(never)]
    fn on_ack_slow(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        if ack.syn {
            return self.on_handshake(now, ack);
        }
        if !self.is_established() || ack.cum > self.nxt {
            return Acked::default();
        }
        self.note_usage(self.inflight());
        let cum = ack.cum.max(self.una);
        let newly = cum - self.una;
        let payload = self.stream.acknowledge(self.una, cum);
        let gone = self.board.advance(self.una, cum);
        self.una = cum;
        self.edge = self.edge.max(ack.cum.saturating_add(ack.window));
        let delivered = newly - gone.were_sacked + self.board.sack(cum, self.nxt, blocks);
        // RFC 6675 §5.1: no new recovery before the RecoveryPoint of the timeout has been passed.
        let looks = self.state != State::Loss || self.una >= self.recover;
        let newly_lost = if looks { self.board.mark_lost(cum) } else { 0 };
        let rtt = self.sample_slow(now, ack, newly, gone);
        self.move_state(ack, newly);
        self.move_window(now, ack, newly, delivered, newly_lost);
        if newly > 0 {
            self.deadline = if self.una == self.nxt { Time::NEVER } else { now + self.rto.timeout() };
        }
        self.clean = self.state == State::Open && self.board.is_clean();
        Acked { payload, rtt }
    }

    /// RFC 7323 §4.1: only an ACK that advances is timed. Without timestamps none of a retransmission is (Karn).
    fn sample_slow(&mut self, now: Time, ack: &Ack, newly: u32, gone: Advanced) -> Option<Span> {
        if newly == 0 || (!self.timestamps && (gone.retransmitted || gone.were_sacked > 0)) {
            return None;
        }
        let rtt = since_us(now, ack.ts_first);
        self.rto.sample(rtt, self.una, self.nxt);
        Some(rtt)
    }

    /// Ends and begins reductions. The flight size is the one that the ACK met.
    fn move_state(&mut self, ack: &Ack, newly: u32) {
        if matches!(self.state, State::Cwr | State::Recovery) && self.una >= self.recover {
            self.control.end_reduction();
            self.state = State::Open;
        } else if self.state == State::Loss && self.una >= self.recover {
            self.state = State::Open;
        }
        if matches!(self.state, State::Open | State::Cwr) && self.board.lost > 0 {
            // RFC 6675 §5 step 4. A window that ECN is reducing already is not reduced twice.
            if self.state == State::Open {
                self.begin_reduction(newly);
            }
            self.state = State::Recovery;
            self.recover = self.nxt;
            self.rescue = true;
            self.rescue_rxt = self.una;
            self.board.begin_recovery(self.una);
        } else if self.state == State::Open && self.ecn && ack.ece && self.una > self.cwr_end {
            // RFC 3168 §6.1.2: once a window, and not for what was sent before CWR could arrive.
            self.begin_reduction(newly);
            self.state = State::Cwr;
            self.recover = self.nxt;
        }
    }

    fn begin_reduction(&mut self, newly: u32) {
        let base = self.control.reduce(self.nxt - self.una + newly);
        self.prr = Prr::new(base);
        self.cwr_due = self.ecn;
        self.cwr_end = self.nxt;
    }

    /// The window after an ACK: PRR during a reduction, growth otherwise.
    fn move_window(&mut self, now: Time, ack: &Ack, newly: u32, delivered: u32, newly_lost: u32) {
        match self.state {
            State::Recovery | State::Cwr if delivered > 0 => {
                let (pipe, growing) = (self.inflight(), newly > 0 && newly_lost == 0);
                let sndcnt = self.prr.on_ack(delivered, pipe, self.control.ssthresh(), growing);
                self.control.set_window(pipe + sndcnt);
            }
            State::Open if newly > 0 && self.may_grow() => self.control.grow(delivered, &self.clock(now, ack)),
            State::Loss if delivered > 0 => self.control.grow(delivered, &self.clock(now, ack)),
            _ => {}
        }
    }

    /// RFC 6298 §5.4 to 5.6 and RFC 5681 §3.1: everything not SACKed is lost, start again from one segment.
    #[cold]
    #[inline(never)]
    fn on_timeout(&mut self, now: Time) {
        if self.una == self.nxt {
            self.deadline = Time::NEVER;
            return;
        }
        // The threshold falls once for what was outstanding, not with every timeout of the same data (RFC 5681 §3.1).
        let progressed = self.state == State::Loss && self.rto.backoff() == 0;
        if self.state == State::Open || self.una >= self.recover || progressed {
            self.control.reduce(self.nxt - self.una);
            self.cwr_due = self.ecn;
        }
        self.rto.back_off();
        self.control.timeout();
        self.board.all_lost(self.una, self.nxt);
        self.state = State::Loss;
        self.clean = false;
        self.recover = self.nxt;
        self.cwr_end = self.nxt;
        self.deadline = now + self.rto.timeout();
    }

    #[inline(never)]
    fn poll_slow(&mut self, now: Time) -> Option<Transmit> {
        if self.syn_due {
            return Some(self.send_syn(now));
        }
        if !self.is_established() || self.inflight() >= self.control.window() {
            return None;
        }
        // RFC 6675 §4 NextSeg, rules 1 to 4 in turn.
        if matches!(self.state, State::Recovery | State::Loss) {
            if let Some(seq) = self.board.next_lost(self.una) {
                return Some(self.send_again(now, seq, false));
            }
        }
        if self.nxt < self.stream.end && self.nxt < self.edge {
            if !self.board.is_clean() {
                self.board.reserve(self.una, self.nxt + 1);
            }
            self.prr.on_send();
            return Some(self.send_new(now));
        }
        if self.state != State::Recovery {
            return None;
        }
        if let Some(seq) = self.board.next_hole(self.una) {
            return Some(self.send_again(now, seq, false));
        }
        // Rule 4 asks for HighACK > RescueRxt; HighACK is una - 1.
        if self.rescue && self.una > self.rescue_rxt + 1 {
            self.rescue = false;
            let seq = self.board.highest_unsacked(self.una, self.nxt)?;
            return Some(self.send_again(now, seq, true));
        }
        None
    }

    fn send_syn(&mut self, now: Time) -> Transmit {
        self.syn_due = false;
        self.sent_at = now;
        self.deadline = now + self.rto.timeout();
        Transmit { seq: 0, payload: 0, retransmit: self.rto.backoff() > 0, syn: true, ect: false, cwr: false }
    }

    fn send_again(&mut self, now: Time, seq: u32, rescue: bool) -> Transmit {
        self.board.on_retransmit(seq, rescue);
        self.prr.on_send();
        self.retransmits += 1;
        self.sent_at = now;
        if seq == self.una {
            // RFC 6675 §6 allows it, Linux does it: the timer starts again with the retransmission of the first hole.
            self.deadline = now + self.rto.timeout();
        }
        Transmit { seq, payload: self.stream.payload(seq), retransmit: true, syn: false, ect: false, cwr: false }
    }

    /// The scoreboard's counts and a slow recount of them: (sacked, lost, retx) each.
    #[cfg(test)]
    pub(super) fn counts(&self) -> ((u32, u32, u32), (u32, u32, u32)) {
        ((self.board.sacked, self.board.lost, self.board.retx), self.board.recount(self.una, self.nxt))
    }
}

/// The time since a timestamp in µs modulo 2^32, at least one µs.
#[inline]
fn since_us(now: Time, ts: u32) -> Span {
    Span::from_micros(u64::from(((now.0 / 1000) as u32).wrapping_sub(ts).max(1)))
}
