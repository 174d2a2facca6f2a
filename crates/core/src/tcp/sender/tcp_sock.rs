//! The state of a sender that both loss recoveries share, and their common operations: Linux's `tcp_sock`.

use super::bounded::Bounds;
use super::ecn::Ecn;
use super::rate_based::RateBased;
use super::timers::{Timer, XmitTimer};
use super::{State, micros, since_ms};
use crate::tcp::bursts::{self, Bursts};
use crate::tcp::cc::{AckSample, Control, CwndUsage};
use crate::tcp::prr::Prr;
use crate::tcp::rack::SacktagState;
use crate::tcp::rto::Rto;
use crate::tcp::scoreboard::Scoreboard;
use crate::tcp::sent::TxTimes;
use crate::tcp::stream::Stream;
use crate::tcp::undo::Prior;
use crate::tcp::{Ack, Cc, Config, Transmit};
use crate::units::{Span, Time};
use alloc::boxed::Box;

/// A segment that is due regardless of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    Nothing,
    /// A SYN.
    Syn,
    /// A loss probe (RFC 8985 §7).
    Probe,
}

/// The retransmissions that the last ACK or timer allows (Linux's `REXMIT_NONE`, `REXMIT_LOST`, `REXMIT_NEW`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rexmit {
    /// No segment.
    None,
    /// The first segment: the retransmission timer expired.
    First,
    /// Lost segments.
    Lost,
    /// If there is new data, no segment; otherwise lost segments (RFC 5682 §3.1 step 2 b).
    New,
}

/// A connection's sending half without its loss recovery. Every ACK needs the fields before `high_seq`. Only recoveries need
/// `high_seq` and the fields after it. Each part is prefetched separately.
#[derive(Clone, Debug, PartialEq)]
#[repr(C)]
pub(super) struct TcpSock {
    /// The lowest segment not acknowledged.
    pub snd_una: u32,
    /// The next segment to be sent for the first time.
    pub snd_nxt: u32,
    /// One past the last segment that the receiver can take (Linux `tcp_wnd_end`).
    pub wnd_end: u32,
    pub state: State,
    /// The clean path may be taken: the state is Open and the scoreboard is clean.
    pub clean: bool,
    /// Segments carry timestamps (RFC 7323).
    pub timestamps: bool,
    pub due: Due,
    pub rexmit: Rexmit,
    pub ecn: Ecn,
    pub timer: XmitTimer,
    pub control: Control,
    pub rto: Rto,
    pub stream: Stream,
    /// When the last segment was sent.
    pub lsndtime: Time,
    /// How much of the window the sender has used.
    pub usage: CwndUsage,
    /// When each outstanding segment was sent last.
    pub sent: TxTimes,
    /// Rate samples and pacing, for a rate-based congestion control: then every ACK takes the slow path.
    pub rate_based: Option<Box<RateBased>>,
    /// The host's bounds on the sender, if it has any: then every ACK takes the slow path too.
    pub bounds: Option<Box<Bounds>>,
    /// The smallest RTT so far, in µs.
    pub min_rtt_us: u32,
    /// RACK.rtt: the RTT in µs of the segment delivered last.
    pub rtt_us: u32,
    pub bursts: Bursts,
    /// RecoveryPoint: a reduction ends when everything below is acknowledged.
    pub high_seq: u32,
    pub prr: Prr,
    pub board: Scoreboard,
    /// Segments retransmitted so far.
    pub total_retrans: u32,
    /// When the first SYN was sent, in µs modulo 2^32.
    pub syn_stamp_us: u32,
    /// Retransmission timeouts so far, including those of SYNs.
    pub timeouts: u32,
}

impl TcpSock {
    pub fn new(config: &Config) -> TcpSock {
        // A fixed window, meant for experiments on queues, opens packet by packet. In a paced sender the pacer makes the bursts.
        let most = if matches!(config.cc, Cc::Fixed(_)) || config.cc.is_rate_based() { 1 } else { config.gso_max_segs };
        TcpSock {
            snd_una: 0,
            snd_nxt: 0,
            wnd_end: config.first_window(),
            state: State::Closed,
            clean: false,
            timestamps: config.timestamps,
            due: Due::Nothing,
            rexmit: Rexmit::None,
            ecn: Ecn::new(config),
            timer: XmitTimer::new(config),
            control: Control::new(config),
            rto: Rto::new(config.rto_min, config.linux_rto),
            stream: Stream::new(config.mss),
            lsndtime: Time::ZERO,
            usage: CwndUsage::default(),
            sent: TxTimes::default(),
            rate_based: RateBased::new(config).map(Box::new),
            bounds: Bounds::new(config).map(Box::new),
            min_rtt_us: u32::MAX,
            rtt_us: 0,
            bursts: Bursts::new(most, config.mss),
            high_seq: 0,
            prr: Prr::default(),
            board: Scoreboard::default(),
            total_retrans: 0,
            syn_stamp_us: 0,
            timeouts: 0,
        }
    }

    /// Returns whether data may be sent.
    pub(super) fn is_established(&self) -> bool {
        !matches!(self.state, State::Closed | State::SynSent)
    }

    /// Segments estimated to be in the network (RFC 6675 `pipe`).
    #[inline]
    pub(super) fn inflight(&self) -> u32 {
        self.board.pipe(self.snd_una, self.snd_nxt)
    }

    /// Returns whether the clean path may be taken at all: neither a rate-based congestion control nor the host's bounds forbid
    /// it.
    pub(super) fn is_plain(&self) -> bool {
        self.rate_based.is_none() && self.bounds.is_none()
    }

    /// Takes the RTT sample of an ACK (Linux `tcp_ack_update_rtt`).
    pub(super) fn ack_update_rtt(&mut self, now: Time, ack: &Ack, newly: u32, sacktag: &SacktagState) {
        let by_stamp = || self.rtt_by_stamp(now, ack, newly).map(|rtt| (rtt, rtt));
        if let Some((rtt, newest)) = sacktag.rtts().or_else(by_stamp) {
            self.rtt_estimator(rtt, newest);
        }
    }

    /// The RTT that the timestamp echo of an ACK shows, if the ACK acknowledges new data.
    pub(super) fn rtt_by_stamp(&self, now: Time, ack: &Ack, newly: u32) -> Option<Span> {
        if self.timestamps && newly > 0 { since_ms(now, ack.ts_first) } else { None }
    }

    /// Feeds the estimator of the timeout with `rtt`, and the minimum with `newest`.
    #[inline(always)]
    pub(super) fn rtt_estimator(&mut self, rtt: Span, newest: Span) {
        self.min_rtt_us = self.min_rtt_us.min((newest.0 / 1000).max(1) as u32);
        self.rto.sample(rtt, self.snd_una, self.snd_nxt);
    }

    /// Linux `TCP_CA_Open`: nothing is SACKed, lost or retransmitted.
    pub(super) fn is_ca_open(&self) -> bool {
        self.state == State::Open && self.board.is_whole()
    }

    /// The window and threshold to return to if a reduction that begins now proves spurious.
    pub(super) fn prior(&self) -> Prior {
        self.control.prior(matches!(self.state, State::Cwr | State::Recovery))
    }

    /// Sets the window during a reduction (PRR, RFC 6937).
    pub(super) fn cwnd_reduction(&mut self, delivered: u32, newly_lost: u32, advances: bool) {
        if delivered > 0 {
            let pipe = self.inflight();
            let sndcnt = self.prr.on_ack(delivered, pipe, self.control.ssthresh(), advances && newly_lost == 0);
            self.control.set_window(pipe + sndcnt);
        }
    }

    /// RACK.rtt before an ACK that acknowledges data from `prior` on. `None` before data has been acknowledged: then it is the RTT of
    /// the handshake.
    #[inline]
    pub(super) fn known_rtt(&self, prior: u32) -> Option<Span> {
        (prior > 0 && self.rtt_us > 0).then(|| self.last_rtt())
    }

    /// The RTT of the segment delivered last (RACK.rtt).
    pub(super) fn last_rtt(&self) -> Span {
        Span::from_micros(u64::from(self.rtt_us))
    }

    /// The smallest RTT so far.
    pub(super) fn min_rtt(&self) -> Span {
        Span::from_micros(u64::from(self.min_rtt_us))
    }

    /// Returns whether there is a segment that pacing or the host could hold back. Only then does the sender ask to be woken.
    pub(super) fn has_pending(&self) -> bool {
        !self.timer.is_linux() || self.snd_nxt < self.stream.end || matches!(self.rexmit, Rexmit::First | Rexmit::Lost)
    }

    /// The segment to retransmit next during a recovery.
    pub(super) fn next_retransmit(&mut self) -> Option<u32> {
        match self.rexmit {
            Rexmit::First => Some(self.snd_una),
            // Linux: never more retransmissions in flight than losses.
            Rexmit::Lost if self.board.retx < self.board.lost => self.board.next_lost(self.snd_una),
            _ => None,
        }
    }

    /// Sends as many new segments as the window allows, packet by packet.
    #[inline(always)]
    pub(super) fn take_window(&mut self, now: Time) {
        let (start, window) = (self.snd_nxt, self.snd_una.saturating_add(self.control.window()));
        let end = window.min(self.stream.end).min(self.wnd_end);
        if end > start {
            self.snd_nxt = end;
            self.lsndtime = now;
            self.sent.on_send(start..end, self.snd_una, now);
            self.arm_clean_send(now);
        }
    }

    /// Sends as many new segments as the window allows, in bursts. Returns the segments of a burst.
    #[inline(never)]
    pub(super) fn take_burst(&mut self, now: Time) -> u32 {
        let start = self.snd_nxt;
        let limit = self.snd_una.saturating_add(self.control.window()).min(self.wnd_end);
        let window = self.window(now);
        let (count, burst) = self.bursts.take(limit.saturating_sub(start), self.stream.end - start, &window);
        if count > 0 {
            self.sent.on_send(start..start + count, self.snd_una, now);
            self.snd_nxt += count;
            self.lsndtime = now;
            self.arm_clean_send(now);
        }
        burst
    }

    /// Returns whether the next new segment may be sent if the window has room for `limit` segments.
    #[inline(never)]
    pub(super) fn bursts_allow(&mut self, now: Time, limit: u32) -> bool {
        let window = self.window(now);
        self.bursts.take_one(limit, self.stream.end - self.snd_nxt, &window)
    }

    /// The state that decides on bursts.
    pub(super) fn window(&self, now: Time) -> bursts::Window {
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

    /// The sample of this ACK for the congestion control.
    #[inline]
    pub(super) fn ack_sample(&self, now: Time, ack: &Ack) -> AckSample {
        let rtt_us = (micros(now).wrapping_sub(ack.ts_last) as i32).max(1) as u32;
        AckSample { now, srtt: self.rto.srtt_secs(), rtt_us, snd_una: self.snd_una, snd_nxt: self.snd_nxt }
    }

    /// Notes whether the window limits the sender. `out` segments are in flight.
    #[inline]
    pub(super) fn cwnd_validate(&mut self, out: u32) {
        let limited = out >= self.control.window() || self.bursts.waits();
        self.usage.validate(out, limited, self.snd_una, self.snd_nxt);
    }

    #[inline(always)]
    pub(super) fn send_new(&mut self, now: Time) -> Transmit {
        let seq = self.snd_nxt;
        if self.snd_una == seq {
            self.start_flight(now);
        }
        self.sent.on_send(seq..seq + 1, self.snd_una, now);
        self.snd_nxt += 1;
        self.lsndtime = now;
        if self.timer.is_linux() {
            if self.clean {
                self.timer.arm(Timer::Probe, now, self.probe_after_send(now));
            } else if self.rate_based.is_none() {
                self.arm_after_send(now, self.snd_una == seq);
            }
        }
        let cwr = core::mem::take(&mut self.ecn.queue_cwr);
        let payload = self.stream.payload(seq);
        let push = self.stream.is_last(seq, payload) || self.bursts.pushes();
        let ect = self.ecn.covers_data(payload);
        Transmit { seq, payload, retransmit: false, syn: false, ect, cwr, push }
    }

    /// Prepares to send with nothing outstanding: starts the timer, and reduces the window after idle time.
    #[inline(never)]
    pub(super) fn start_flight(&mut self, now: Time) {
        let rto = self.rto.timeout();
        if self.snd_nxt > 0 {
            self.control.restart(now, now.since(self.lsndtime), rto);
        }
        self.timer.rearm(now, now + rto);
    }

    /// Returns whether there is new data that the receiver can take.
    pub(super) fn has_new_data(&self) -> bool {
        self.snd_nxt < self.stream.end && self.snd_nxt < self.wnd_end
    }

    /// Sends a new segment; there must be data, and room in the window. Returns `None` if the segment waits for a longer burst.
    pub(super) fn send_new_data(&mut self, now: Time) -> Option<Transmit> {
        if self.bursts.is_on() && matches!(self.state, State::Open | State::Cwr) {
            let room = self.control.window() - self.inflight();
            if !self.bursts_allow(now, room.min(self.wnd_end - self.snd_nxt)) {
                return None;
            }
        }
        if !self.board.is_clean() {
            self.board.reserve(self.snd_una, self.snd_nxt + 1);
        }
        self.prr.on_send(1);
        Some(self.send_new(now))
    }

    pub(super) fn send_syn(&mut self, now: Time) -> Transmit {
        self.due = Due::Nothing;
        self.lsndtime = now;
        self.timer.rearm(now, now + self.rto.timeout());
        let retransmit = self.timeouts > 0;
        Transmit { seq: 0, payload: 0, retransmit, syn: true, ect: self.ecn.covers_all(), cwr: false, push: false }
    }

    /// Retransmits a segment. `rescue`: it is the rescue retransmission of RFC 6675, rule 4.
    pub(super) fn send_again(&mut self, now: Time, seq: u32, rescue: bool) -> Transmit {
        self.board.on_retransmit(seq, self.snd_nxt, rescue);
        self.prr.on_send(1);
        self.total_retrans += 1;
        self.lsndtime = now;
        let payload = self.stream.payload(seq);
        let push = self.stream.is_last(seq, payload);
        Transmit { seq, payload, retransmit: true, syn: false, ect: self.ecn.covers_all(), cwr: false, push }
    }

    /// The time that the timestamp of `segment` carries, which must be the segment taken last.
    pub(super) fn stamped_at(&self, now: Time, segment: &Transmit) -> Time {
        if self.timer.is_linux() && segment.retransmit && !segment.syn { self.sent.at(segment.seq) } else { now }
    }
}
