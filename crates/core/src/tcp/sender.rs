//! The sending half of a connection, by RFC 5681, 6298, 6937 and 3168. Losses are detected by RFC 8985 or 6675.
//!
//! The window limits `pipe`, the segments estimated to be in the network. As long as nothing is SACKed, lost or
//! retransmitted, pipe is `snd_nxt - snd_una`, and an ACK or a transmission costs a few additions (the clean path). From the first
//! SACK block to the end of a recovery, the sender uses the scoreboard. There are two recoveries: that of current Linux in
//! `linux.rs`, and that of RFC 6675 in `rfc6675.rs`. `recovery.rs` selects one; the state that both share is in `tcp_sock.rs`.
//!
//! Deviation: a SYN is retransmitted without limit.

mod bounded;
mod ecn;
mod linux;
mod rate_based;
mod recovery;
mod rfc6675;
mod tcp_sock;
mod timers;

use crate::cache::{Cache, LINE};
#[cfg(test)]
use crate::tcp::cc::{Algorithm, Flow};
use crate::tcp::{Ack, Acked, Block, Config, Run, Transmit};
use crate::units::{Span, Time};
use core::mem::{offset_of, size_of};
#[cfg(test)]
use linux::LinuxRecovery;
use recovery::LossRecovery;
use tcp_sock::{Due, Rexmit, TcpSock};
use timers::Timer;

/// Linux `tcp_syn_linear_timeouts`: the number of SYN retransmissions that are a second apart, before the wait doubles.
const LINEAR_SYNS: u32 = 4;

/// The congestion state of the connection, by Linux's names (`TCP_CA_Open` …), or the state of its handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Neither opened nor established.
    Closed,
    /// A SYN has been sent.
    SynSent,
    /// Established, and no segment is known to be lost.
    Open,
    /// Reducing the window after an ECN echo.
    Cwr,
    /// Recovering from a loss that SACK blocks showed.
    Recovery,
    /// Recovering from a retransmission timeout.
    Loss,
}

/// The sending half of a connection.
#[derive(Clone, Debug, PartialEq)]
#[repr(C)]
pub struct Sender {
    tcp: TcpSock,
    recovery: LossRecovery,
}

/// The offset in a [`Sender`] of the fields that only a recovery needs.
const COLD: usize = offset_of!(Sender, tcp) + offset_of!(TcpSock, high_seq);
/// The number of cache lines that every ACK needs, if the [`Sender`] is aligned to a line.
const PLAIN: usize = COLD / LINE;
/// The number of cache lines that a recovery needs in addition.
const REPAIR: usize = size_of::<Sender>().div_ceil(LINE) - PLAIN;

impl Sender {
    /// A sender that is neither opened nor established.
    pub fn new(config: &Config) -> Sender {
        Sender { tcp: TcpSock::new(config), recovery: LossRecovery::new(config) }
    }

    /// Opens actively: a SYN is sent, and retransmitted after 1 s, 2 s, 4 s, … (RFC 6298 §2.1, §5.5; current Linux waits a second
    /// four times before the wait doubles).
    pub fn open(&mut self, now: Time) {
        self.tcp.state = State::SynSent;
        self.tcp.due = Due::Syn;
        self.tcp.lsndtime = now;
        self.tcp.syn_stamp_us = micros(now);
    }

    /// The handshake is over, and data may be sent. `rtt` is its RTT; `None` if a segment was retransmitted and no timestamp tells
    /// the copies apart.
    pub fn establish(&mut self, now: Time, rtt: Option<Span>) {
        self.tcp.rto.after_handshake(rtt.is_some());
        self.tcp.state = State::Open;
        self.tcp.clean = self.tcp.is_plain();
        self.tcp.timer.deadline = Time::NEVER;
        self.tcp.lsndtime = now;
        if let Some(rtt) = rtt {
            self.tcp.rto.sample(rtt, self.tcp.snd_una, self.tcp.snd_nxt);
            self.tcp.min_rtt_us = (rtt.0 / 1000) as u32;
            self.tcp.rtt_us = self.tcp.min_rtt_us;
        }
        self.tcp.init_rate_based(now, rtt);
        self.tcp.open_buffer();
    }

    /// Returns whether ECN is used, as far as is known.
    pub fn has_ecn(&self) -> bool {
        self.tcp.ecn.is_on()
    }

    /// The handshake has shown that ECN can't be used.
    pub fn forgo_ecn(&mut self) {
        self.tcp.ecn.forgo();
    }

    /// Returns whether data may be sent.
    pub fn is_established(&self) -> bool {
        self.tcp.is_established()
    }

    /// The application appends bytes; returns the number of the segment after their last. Each write starts a segment.
    pub fn write(&mut self, bytes: u64) -> u32 {
        self.tcp.check_app_limited();
        let end = self.tcp.stream.write(bytes);
        self.tcp.fill_buffer();
        end
    }

    /// The application has data without end from now on.
    pub fn write_forever(&mut self) {
        self.tcp.check_app_limited();
        self.tcp.stream.write_forever();
        self.tcp.fill_buffer();
    }

    /// The application closes: a FIN follows its data, as a segment without payload that is retransmitted like any other.
    pub fn finish(&mut self) {
        self.tcp.stream.finish();
    }

    /// Withdraws the data that was not sent yet. Data that was sent is still retransmitted if it is lost.
    pub fn stop(&mut self) {
        self.tcp.stream.truncate(self.tcp.snd_nxt);
    }

    /// Returns whether Linux discards an ACK that was sent `late_ms` before one that has arrived (`tcp_disordered_ack_check`): only
    /// a duplicate that does not widen the window may be older, by an RTO on a clock of 1200 Hz (`tcp_tsval_replay`).
    pub(super) fn discards(&self, ack: &Ack, late_ms: u64) -> bool {
        let widens = self.tcp.snd_una.saturating_add(ack.window) > self.tcp.wnd_end;
        let is_replay = late_ms > self.tcp.rto.timeout().0 * 1200 / 1_000_000_000;
        ack.cum != self.tcp.snd_una || widens || is_replay
    }

    /// Returns whether segments carry timestamps.
    pub(super) fn has_timestamps(&self) -> bool {
        self.tcp.timestamps
    }

    /// An ACK arrives, with up to three SACK blocks, the most recent first.
    #[inline(always)]
    pub fn on_ack(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        let (out, newly) = (self.tcp.snd_nxt - self.tcp.snd_una, ack.cum.wrapping_sub(self.tcp.snd_una));
        // If newly - 1 >= out, the ACK acknowledges no new segment, or one that was never sent.
        if !self.tcp.clean || !blocks.is_empty() || ack.ace != 0 || newly.wrapping_sub(1) >= out {
            // The ACK is copied, because only this cold path needs it in memory: elsewhere it stays in registers.
            let Acked { payload, rtt } = self.on_ack_slow(now, &Ack { ..*ack }, blocks);
            return Acked { payload, rtt };
        }
        self.tcp.cwnd_validate(out);
        let prior = self.tcp.snd_una;
        let payload = self.tcp.stream.acknowledge(prior, ack.cum);
        self.tcp.snd_una = ack.cum;
        self.tcp.wnd_end = ack.cum.saturating_add(ack.window);
        self.tcp.rto.sample(since_us(now, ack.ts_first), self.tcp.snd_una, self.tcp.snd_nxt);
        let sample = self.tcp.ack_sample(now, ack);
        self.tcp.control.on_clean_ack(newly, &sample, &self.tcp.usage);
        let rtt = self.tcp.known_rtt(prior);
        self.tcp.min_rtt_us = self.tcp.min_rtt_us.min(sample.rtt_us);
        self.tcp.rtt_us = sample.rtt_us;
        let deadline = if self.tcp.snd_una == self.tcp.snd_nxt {
            Time::NEVER
        } else if self.tcp.timer.is_linux() {
            self.tcp.timer.kind = Timer::Probe;
            self.tcp.probe_after_ack(now)
        } else {
            now + self.tcp.rto.timeout()
        };
        self.tcp.timer.rearm(now, deadline);
        Acked { payload, rtt }
    }

    /// Sends new full segments, and returns the run of them, which may be empty. Returns `None` if nothing is outstanding, if there
    /// are short segments, or if there is something to retransmit or announce. Then segments must be polled one by one by
    /// [`Sender::poll_transmit`].
    #[inline(always)]
    pub fn take_full(&mut self, now: Time) -> Option<Run> {
        let start = self.tcp.snd_nxt;
        // The run is assembled here, in registers. In memory it would be slower: read in wider words than it was written in.
        let burst = if !self.tcp.clean {
            self.tcp.rate_based.as_ref()?;
            self.tcp.take_paced(now)?
        } else if self.tcp.snd_una == start || self.tcp.ecn.queue_cwr || self.tcp.stream.has_shorts() {
            return None;
        } else if self.tcp.bursts.is_on() {
            self.tcp.take_burst(now)
        } else {
            self.tcp.take_window(now);
            1
        };
        Some(Run {
            segments: start..self.tcp.snd_nxt,
            burst,
            ends: self.tcp.snd_nxt == self.tcp.stream.end && self.tcp.snd_nxt > start,
        })
    }

    /// The next segment to send now, if window, receiver and application allow one. Call until there is none.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if !self.tcp.clean {
            return match self.tcp.bounds {
                Some(_) => self.poll_bounded(now),
                None if self.is_full() => None,
                None => self.poll_slow(now),
            };
        }
        if self.tcp.snd_nxt - self.tcp.snd_una >= self.tcp.control.window()
            || self.tcp.snd_nxt >= self.tcp.stream.end
            || self.tcp.snd_nxt >= self.tcp.wnd_end
        {
            self.tcp.bursts.begin();
            return None;
        }
        let room = (self.tcp.control.window() - (self.tcp.snd_nxt - self.tcp.snd_una))
            .min(self.tcp.wnd_end - self.tcp.snd_nxt);
        if self.tcp.bursts.is_on() && !self.tcp.bursts_allow(now, room) {
            return None;
        }
        Some(self.tcp.send_new(now))
    }

    /// An ACK off the clean path.
    #[inline(never)]
    fn on_ack_slow(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        if ack.syn {
            return self.on_handshake(now, ack);
        }
        if !self.tcp.is_established() || ack.cum > self.tcp.snd_nxt {
            return Acked::default();
        }
        self.recovery.on_ack(&mut self.tcp, now, ack, blocks)
    }

    /// The next segment off the clean path.
    #[inline(never)]
    fn poll_slow(&mut self, now: Time) -> Option<Transmit> {
        if self.tcp.due == Due::Syn {
            return Some(self.tcp.send_syn(now));
        }
        if !self.tcp.is_established() {
            return None;
        }
        if self.tcp.due == Due::Probe {
            let probe = self.recovery.send_loss_probe(&mut self.tcp, now);
            if probe.is_some() {
                return probe;
            }
        }
        if self.tcp.rexmit == Rexmit::New {
            self.recovery.settle_new(&mut self.tcp);
        }
        if self.tcp.inflight() >= self.tcp.control.window() {
            return None;
        }
        if !self.tcp.has_pending() {
            self.tcp.rest();
            return None;
        }
        if !self.tcp.host_admits(now) {
            return None;
        }
        if self.tcp.rexmit == Rexmit::First {
            // Linux `tcp_retransmit_timer`: pacing does not delay it.
            self.tcp.tx_start_event(now);
            let first = self.recovery.next_segment(&mut self.tcp, now)?;
            self.tcp.on_unpaced_send(now, &first);
            return Some(first);
        }
        if self.tcp.rate_based.is_some() {
            return self.poll_paced(now);
        }
        self.recovery.next_segment(&mut self.tcp, now)
    }

    /// Returns whether the window is full, so that no segment may be sent: the most common case off the clean path.
    #[inline(always)]
    fn is_full(&self) -> bool {
        let asked = self.tcp.due != Due::Nothing || self.tcp.rexmit == Rexmit::New;
        self.tcp.inflight() >= self.tcp.control.window() && !asked && self.tcp.is_established()
    }

    /// A timer expired, or a segment that waited may be sent: call when `now` has reached [`Sender::next_event`]. Returns whether there
    /// may be segments to poll.
    pub fn on_timer(&mut self, now: Time) -> bool {
        let mut held = Time::NEVER;
        if let Some(rate_based) = &mut self.tcp.rate_based {
            held = rate_based.wake();
            rate_based.woken();
        }
        if let Some(bounds) = &mut self.tcp.bounds {
            held = held.min(bounds.wake());
            bounds.woken();
        }
        if held <= now {
            self.recovery.tsq_write(&mut self.tcp);
        }
        if now < self.tcp.timer.deadline || self.tcp.timer.is_between_ticks(now) {
            return !self.tcp.is_plain();
        }
        self.expire(now);
        true
    }

    /// The timer expires.
    fn expire(&mut self, now: Time) {
        if self.tcp.state == State::SynSent {
            self.tcp.timeouts += 1;
            if !self.tcp.timer.is_linux() || self.tcp.timeouts > LINEAR_SYNS {
                self.tcp.back_off();
            }
            self.tcp.due = Due::Syn;
            self.tcp.timer.deadline = Time::NEVER;
            return;
        }
        self.recovery.on_timer(&mut self.tcp, now);
    }

    /// When [`Sender::on_timer`] must be called.
    #[inline]
    pub fn next_event(&self) -> Time {
        match (&self.tcp.rate_based, &self.tcp.bounds) {
            (None, None) => self.tcp.timer.deadline,
            (rate_based, bounds) => {
                let paced = rate_based.as_ref().map_or(Time::NEVER, |rate_based| rate_based.wake());
                self.tcp.timer.deadline.min(paced).min(bounds.as_ref().map_or(Time::NEVER, |bounds| bounds.wake()))
            }
        }
    }

    /// The pacing rate in payload bytes a second, of a sender that paces.
    pub fn pacing_rate(&self) -> Option<u64> {
        self.tcp.rate_based.as_ref().map(|rate_based| rate_based.pacing_rate())
    }

    /// Prefetches the lines that every ACK needs. A hint never affects results.
    #[inline]
    pub fn prefetch(&self, cache: &impl Cache) {
        cache.fetch_lines(&self.tcp.snd_una, PLAIN);
    }

    /// Prefetches the lines that an ACK with SACK blocks needs in addition.
    #[inline]
    pub fn prefetch_recovery(&self, cache: &impl Cache) {
        cache.fetch_lines(&self.tcp.high_seq, REPAIR);
    }

    /// Prefetches the time of transmission of segment `cum`, the first that will be outstanding. [`Sender::prefetch`] must have
    /// fetched the pointer to it.
    #[inline]
    pub fn prefetch_first(&self, cum: u32, cache: &impl Cache) {
        self.tcp.sent.prefetch(cum, cache);
    }

    /// Prefetches the first entry of the scoreboard. [`Sender::prefetch_recovery`] must have fetched the pointer to it.
    #[inline]
    pub fn prefetch_scoreboard(&self, cache: &impl Cache) {
        self.tcp.board.prefetch_first(self.tcp.snd_una, cache);
    }

    /// The time that the timestamp of `segment` carries, which must be the segment taken last. A retransmission after a timeout, and
    /// a probe that retransmits, carry the time of their paced departure, although they are sent before it.
    pub fn stamped_at(&self, now: Time, segment: &Transmit) -> Time {
        self.tcp.stamped_at(now, segment)
    }

    /// Returns whether everything that was written has been acknowledged.
    pub fn all_acked(&self) -> bool {
        self.tcp.snd_una == self.tcp.stream.written
    }

    /// The lowest segment not acknowledged.
    pub fn acked(&self) -> u32 {
        self.tcp.snd_una
    }

    /// The lowest segment not sent.
    pub fn sent(&self) -> u32 {
        self.tcp.snd_nxt
    }

    /// Segments estimated to be in the network (RFC 6675 `pipe`).
    #[inline]
    pub fn inflight(&self) -> u32 {
        self.tcp.inflight()
    }

    /// The congestion window in whole segments.
    pub fn cwnd(&self) -> u32 {
        self.tcp.control.window()
    }

    /// The slow start threshold in whole segments; `u32::MAX` while there is none.
    pub fn ssthresh(&self) -> u32 {
        self.tcp.control.ssthresh()
    }

    /// The smoothed RTT, once there is a sample.
    pub fn srtt(&self) -> Option<Span> {
        self.tcp.rto.srtt()
    }

    /// The receive window in segments above `snd_una`; `None` if it has no bound.
    #[inline]
    pub fn offered(&self) -> Option<u32> {
        (self.tcp.wnd_end != u32::MAX).then(|| self.tcp.wnd_end - self.tcp.snd_una)
    }

    /// Segments retransmitted so far, SYNs not counted.
    pub fn retransmits(&self) -> u64 {
        u64::from(self.tcp.total_retrans)
    }

    /// Retransmission timeouts so far, including those of SYNs.
    pub fn timeouts(&self) -> u64 {
        u64::from(self.tcp.timeouts)
    }

    #[cold]
    #[inline(never)]
    fn on_handshake(&mut self, now: Time, ack: &Ack) -> Acked {
        if self.tcp.state != State::SynSent {
            return Acked::default();
        }
        let lost = self.tcp.timeouts;
        let rtt = match lost {
            0 => Some(since_us(now, ack.ts_first)),
            _ if self.tcp.timer.is_linux() => self.tcp.timestamps.then(|| since_ms(now, ack.ts_first)).flatten(),
            _ => self.tcp.timestamps.then(|| since_us(now, ack.ts_first)),
        };
        let first_came = self.tcp.timer.is_linux() && ack.ts_first == self.tcp.syn_stamp_us;
        if self.tcp.timer.is_linux() && lost > 0 && !first_came {
            // RFC 3168 §6.1.1.1, Linux `tcp_ecn_fallback`: a retransmitted SYN does not ask for ECN.
            self.forgo_ecn();
        }
        // Linux `tcp_try_undo_spurious_syn`: if the first SYN arrived, as timestamps say, its retransmission was spurious.
        if lost > 1 && !(first_came && self.tcp.timestamps) {
            self.tcp.control.after_syn_loss();
        }
        self.establish(now, rtt);
        self.tcp.wnd_end = ack.window.max(1);
        Acked { payload: 0, rtt }
    }

    /// The congestion control's state, once the connection is established.
    #[cfg(test)]
    pub(super) fn algorithm(&self) -> Option<&Algorithm> {
        self.tcp.is_established().then(|| self.tcp.control.algorithm())
    }

    /// Mutable access to the congestion control.
    #[cfg(test)]
    pub(super) fn algorithm_mut(&mut self) -> Option<&mut Algorithm> {
        self.tcp.is_established().then(|| self.tcp.control.algorithm_mut())
    }

    /// The connection as a rate-based congestion control would see it now.
    #[cfg(test)]
    pub(super) fn flow_now(&self, now: Time) -> Option<Flow> {
        self.tcp.flow_now(now)
    }

    /// The scoreboard's counts and a slow recount of them: (sacked, lost, retx) each.
    #[cfg(test)]
    pub(super) fn counts(&self) -> ((u32, u32, u32), (u32, u32, u32)) {
        (
            (self.tcp.board.sacked, self.tcp.board.lost, self.tcp.board.retx),
            self.tcp.board.recount(self.tcp.snd_una, self.tcp.snd_nxt),
        )
    }

    /// The outstanding loss probe, which may be above the window.
    #[cfg(test)]
    pub(super) fn probe(&self) -> Option<u32> {
        match &self.recovery {
            LossRecovery::Linux(linux) => linux.probe(),
            LossRecovery::Rfc6675(_) => None,
        }
    }

    /// The recovery, which is Linux's.
    #[cfg(test)]
    fn linux(&self) -> &LinuxRecovery {
        match &self.recovery {
            LossRecovery::Linux(linux) => linux,
            LossRecovery::Rfc6675(_) => panic!("the other one"),
        }
    }

    /// The retransmission timeout of Linux's recovery.
    #[cfg(test)]
    fn on_rto(&mut self, now: Time) {
        if let LossRecovery::Linux(linux) = &mut self.recovery {
            linux.enter_loss(&mut self.tcp, now);
        }
    }

    /// Handles an ACK by the short cut of Linux's recovery; `None` if it does not apply.
    #[cfg(test)]
    pub(super) fn on_sacked_above(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Option<Acked> {
        match &mut self.recovery {
            LossRecovery::Linux(linux) => linux.on_sacked_above(&mut self.tcp, now, ack, blocks),
            LossRecovery::Rfc6675(_) => None,
        }
    }

    /// Handles an ACK by all steps of the recovery.
    #[cfg(test)]
    pub(super) fn on_ack_linux(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        match &mut self.recovery {
            LossRecovery::Linux(linux) => linux.on_ack(&mut self.tcp, now, ack, blocks),
            LossRecovery::Rfc6675(rfc) => rfc.on_ack(&mut self.tcp, now, ack, blocks),
        }
    }

    /// If [`Sender::poll_transmit`] knows at once that no segment may be sent: the answer of the full path, and the sender after it.
    #[cfg(test)]
    pub(super) fn full_window_answer(&self, now: Time) -> Option<(Option<Transmit>, Sender)> {
        let mut asked = self.clone();
        let spared = !self.tcp.clean && self.tcp.bounds.is_none() && self.is_full();
        spared.then(|| (asked.poll_slow(now), asked))
    }

    /// The number of marks on the scoreboard that belong to no outstanding segment.
    #[cfg(test)]
    pub(super) fn stale_marks(&self) -> usize {
        self.tcp.board.stale(self.tcp.snd_una, self.tcp.snd_nxt)
    }

    /// Returns whether a segment is known to have arrived.
    #[cfg(test)]
    pub(super) fn is_sacked(&self, seq: u32) -> bool {
        seq < self.tcp.snd_una || self.tcp.board.is_sacked(seq)
    }
}

/// The time since a timestamp in µs modulo 2^32, at least one µs.
#[inline]
fn since_us(now: Time, ts: u32) -> Span {
    Span::from_micros(u64::from(micros(now).wrapping_sub(ts).max(1)))
}

/// The RTT that a timestamp echo shows at Linux's resolution of 1 ms (`TCP_TS_HZ`, `tcp_rtt_tsopt_us`): at least 1 ms, and up to
/// 1 ms too long or too short. `None` if the timestamp lies in the future: a segment that is sent before its paced departure carries
/// the time of that departure.
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

    /// `old_ack` in `tcp_ack`: SACK blocks count, and they alone; there is no RTT sample, and the timer stays.
    #[test]
    fn an_ack_below_snd_una_says_only_what_is_sacked() {
        let mut sender = Sender::new(&Config::default());
        let at = Time(100_000_000);
        sender.establish(at, Some(Span::from_millis(50)));
        sender.write(1448 * 40);
        while sender.poll_transmit(at).is_some() {}
        let ack = Ack { cum: 7, ts_first: 100_000, ts_last: 100_000, window: 1000, ..Ack::default() };
        sender.on_ack(Time(160_000_000), &ack, &[]);
        let (before, deadline) = (sender.clone(), sender.next_event());
        let old = Ack { cum: 5, ts_first: 100_000, ts_last: 100_000, window: 9, ..Ack::default() };
        assert_eq!(sender.on_ack(Time(161_000_000), &old, &[]), Acked::default());
        assert_eq!((sender.acked(), sender.cwnd(), sender.next_event()), (7, before.cwnd(), deadline));
        assert_eq!(sender.on_ack(Time(161_000_000), &old, &[Block { start: 9, end: 10 }]), Acked::default());
        assert!(sender.is_sacked(9) && !sender.is_sacked(8));
        assert_eq!((sender.acked(), sender.cwnd()), (7, before.cwnd()));
    }

    /// Linux `tcp_ack_update_rtt`, `tcp_rtt_tsopt_us`: the RTT of a retransmitted segment is taken from the timestamp, in milliseconds.
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
