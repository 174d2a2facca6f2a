//! RACK (RFC 8985 §6): a segment is lost if one that was sent later has arrived, and enough time for reordering has passed.
//!
//! RACK compares times of transmission, not sequence numbers, so it detects a lost retransmission or a loss at the end of the
//! data like any other loss. While no reordering has been seen, three SACKed segments above a hole make it lost at once, as in
//! RFC 6675. Afterwards the reordering window is a quarter of the minimum RTT, and a quarter more for each round in which a
//! DSACK reports a spurious retransmission.
//!
//! Facts: net/ipv4/tcp_recovery.c of Linux 7.3, and its callers in tcp_input.c.
//!
//! Deviation: a round of DSACKs ends as in RFC 8985 §6.2 step 4 (by SND.UNA), where Linux uses its counter of delivered segments.

use crate::units::{Span, Time};

/// RFC 6675 §2: DupThresh, used while no reordering has been seen (Linux `sysctl_tcp_reordering`).
const DUP_THRESH: u32 = 3;
/// Linux `sysctl_tcp_max_reordering`.
const MAX_REORDERING: u32 = 300;
/// RFC 8985 §6.2 step 4: recoveries without a DSACK after which the reordering window has its initial size again.
const PERSIST: u8 = 16;

/// RACK's state of one connection (the names of RFC 8985 §5.3).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rack {
    /// RACK.xmit_ts: when the most recently sent of the segments that have arrived was sent.
    xmit_ts: Time,
    /// RACK.end_seq: one past the number of that segment.
    end_seq: u32,
    /// Segments have arrived since losses were last detected.
    pub advanced: bool,
    /// RACK.reordering_seen.
    reordering_seen: bool,
    /// The longest reordering seen, in segments (Linux `reordering`).
    reordering: u32,
    reo_wnd_mult: u8,
    reo_wnd_persist: u8,
    /// RACK.dsack_round: the end of the last DSACK's round.
    dsack_round: Option<u32>,
}

/// The criteria by which a segment counts as lost at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judge {
    xmit_ts: Time,
    end_seq: u32,
    now: Time,
    /// RACK.rtt + RACK.reo_wnd.
    allowance: Span,
}

/// RACK.rtt in µs, at least one.
pub(super) fn rtt_us(rtt: Span) -> u32 {
    (rtt.0 / 1000).max(1) as u32
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            xmit_ts: Time::ZERO,
            end_seq: 0,
            advanced: false,
            reordering_seen: false,
            reordering: DUP_THRESH,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: None,
        }
    }
}

impl Rack {
    /// RFC 8985 §6.2 step 2: a segment has arrived that was sent at `at`; `end` is the number after its own.
    pub fn advance(&mut self, at: Time, end: u32) {
        self.advanced = true;
        if (at, end) > (self.xmit_ts, self.end_seq) {
            (self.xmit_ts, self.end_seq) = (at, end);
        }
    }

    /// RFC 8985 §6.2 step 3: a segment that was never retransmitted arrived late, after one that is up to `segments` higher.
    pub fn note_reordering(&mut self, segments: u32) {
        self.reordering_seen = true;
        self.reordering = self.reordering.max(segments.min(MAX_REORDERING));
    }

    /// Returns whether there is so much reordering that Linux lets SACKed segments grow the window too.
    pub fn is_reordering_high(&self) -> bool {
        self.reordering > DUP_THRESH
    }

    /// RFC 8985 §6.2 step 4: a DSACK has arrived. One DSACK a round widens the reordering window, and only if reordering was seen:
    /// otherwise the DSACK has another cause.
    pub fn note_dsack(&mut self, snd_una: u32, snd_nxt: u32) {
        if self.dsack_round.is_some_and(|end| snd_una >= end) {
            self.dsack_round = None;
        }
        if self.reordering_seen && self.dsack_round.is_none() {
            self.dsack_round = Some(snd_nxt);
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = PERSIST;
        }
    }

    /// A recovery that was not spurious has ended.
    pub fn on_recovery(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// A recovery was spurious: every segment that it retransmitted had arrived.
    pub fn on_spurious_recovery(&mut self) {
        self.reo_wnd_persist = (self.reo_wnd_persist + 1).min(PERSIST);
    }

    /// RFC 8985 §6.2 step 4: the reordering window (RACK.reo_wnd).
    pub fn reo_wnd(&self, repairing: bool, sacked: u32, min_rtt: Span, srtt: Span) -> Span {
        if !self.reordering_seen && (repairing || sacked >= DUP_THRESH) {
            return Span::ZERO;
        }
        Span((min_rtt.0 / 4).saturating_mul(u64::from(self.reo_wnd_mult))).min(srtt)
    }

    /// The criteria of RFC 8985 §6.2 step 5, with RACK.rtt and this reordering window.
    pub fn judge(&self, now: Time, rtt: Span, reo_wnd: Span) -> Judge {
        Judge { xmit_ts: self.xmit_ts, end_seq: self.end_seq, now, allowance: rtt + reo_wnd }
    }

    /// The criteria of a timeout: segments sent longer than an RTT ago are lost.
    pub fn judge_of_timeout(now: Time, rtt: Span) -> Judge {
        Judge { xmit_ts: Time::NEVER, end_seq: u32::MAX, now, allowance: rtt }
    }
}

impl Judge {
    /// Returns whether a segment that was sent later than this one has arrived (RACK_sent_after).
    #[inline]
    pub fn is_behind(&self, at: Time, seq: u32) -> bool {
        (at, seq + 1) < (self.xmit_ts, self.end_seq)
    }

    /// Returns whether this is the most recently sent of the segments that arrived.
    #[inline]
    pub fn is_newest(&self, at: Time, seq: u32) -> bool {
        (at, seq + 1) == (self.xmit_ts, self.end_seq)
    }

    /// The time for which a segment sent at `at` may still arrive; zero: it is lost.
    #[inline]
    pub fn remaining(&self, at: Time) -> Span {
        Span(self.allowance.0.saturating_sub(self.now.since(at).0))
    }

    /// One past the most recently sent segment that has arrived (RACK.end_seq).
    pub fn end(&self) -> u32 {
        self.end_seq
    }

    /// The longest time for which any segment may still arrive after a later one did.
    pub fn longest(&self) -> Span {
        self.remaining(self.xmit_ts)
    }
}

/// The evidence of one ACK about the segments that it acknowledges, cumulatively or selectively (Linux `struct tcp_sacktag_state`).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SacktagState {
    now: Time,
    min_rtt: Span,
    /// One past the highest segment SACKed before; segments below it arrive late.
    fack: u32,
    /// Linux `high_seq`.
    high_seq: u32,
    /// The timestamp echo. Copies of a segment that were sent later than this did not trigger the ACK.
    rcv_tsecr: Option<u32>,
    /// The most recently sent of the segments: the time of its transmission, and the number after its own.
    newest: Option<(Time, u32)>,
    rtt: Option<Span>,
    /// When the first and the last segment were sent that were acknowledged cumulatively and never retransmitted.
    acked: Option<(Time, Time)>,
    /// The first and the last SACKed segment that were never retransmitted, with their times of transmission.
    sacked: Option<((u32, Time), (u32, Time))>,
    /// One of the segments acknowledged cumulatively was a retransmission.
    pub retrans_acked: bool,
    /// One of the segments was never retransmitted and was sent before the recovery began (Linux `FLAG_ORIG_SACK_ACKED`).
    pub orig_sack_acked: bool,
    /// The lowest segment that arrived late.
    pub reord: Option<u32>,
}

impl SacktagState {
    pub fn new(now: Time, min_rtt: Span, fack: u32, high_seq: u32, echo: Option<u32>) -> SacktagState {
        SacktagState {
            now,
            min_rtt,
            fack,
            high_seq,
            rcv_tsecr: echo,
            newest: None,
            rtt: None,
            acked: None,
            sacked: None,
            retrans_acked: false,
            orig_sack_acked: false,
            reord: None,
        }
    }

    /// Segments from `first` to `last`, never retransmitted and never SACKed, are acknowledged cumulatively.
    pub fn acked_run(&mut self, first: (u32, Time), last: (u32, Time)) {
        self.acked = Some((self.acked.map_or(first.1, |acked| acked.0), last.1));
        self.note_original(first.0);
        self.deliver(last.1, last.0 + 1);
    }

    /// A segment that was retransmitted, and had not been SACKed, is acknowledged cumulatively.
    pub fn acked_again(&mut self, seq: u32, at: Time) {
        // Linux `tcp_skb_spurious_retrans`: an echo from before the last transmission belongs to an earlier copy.
        if self.rcv_tsecr.is_none_or(|echo| echo.wrapping_sub((at.0 / 1000) as u32) as i32 >= 0) {
            self.deliver_again(at, seq + 1);
        }
    }

    /// A segment is SACKed.
    pub fn sacked(&mut self, seq: u32, at: Time, again: bool) {
        if again {
            return self.deliver_again(at, seq + 1);
        }
        let (first, last) = self.sacked.get_or_insert(((seq, at), (seq, at)));
        if seq < first.0 {
            *first = (seq, at);
        } else if seq > last.0 {
            *last = (seq, at);
        }
        self.note_original(seq);
        self.deliver(at, seq + 1);
    }

    fn note_original(&mut self, seq: u32) {
        self.orig_sack_acked |= seq < self.high_seq;
        if seq < self.fack {
            self.reord = Some(self.reord.map_or(seq, |late| late.min(seq)));
        }
    }

    /// Notes the arrival of a segment that was retransmitted at `at`. An ACK that comes sooner than the minimum RTT after this is of
    /// the original, and is ignored (RFC 8985 §6.2 step 2).
    fn deliver_again(&mut self, at: Time, end: u32) {
        if self.now.since(at) >= self.min_rtt {
            self.deliver(at, end);
        }
    }

    fn deliver(&mut self, at: Time, end: u32) {
        if self.newest.is_none_or(|newest| (at, end) > newest) {
            self.newest = Some((at, end));
        }
        self.rtt = Some(self.now.since(at));
    }

    /// RFC 8985 §6.2 steps 1 and 2: updates RACK, and returns RACK.rtt in µs; `None` if no segment arrived.
    pub fn update_rack(&self, rack: &mut Rack) -> Option<u32> {
        let ((at, end), rtt) = self.newest.zip(self.rtt)?;
        rack.advance(at, end);
        Some(rtt_us(rtt))
    }

    /// The RTT samples for the RTO and for the minimum RTT, by the times of transmission (Linux `tcp_ack_update_rtt`). Retransmitted
    /// segments give none (Karn's algorithm).
    pub fn rtts(&self) -> Option<(Span, Span)> {
        let acked = self.acked.filter(|_| !self.retrans_acked);
        let newest = self.sacked.map(|sacked| sacked.1.1).or(acked.map(|acked| acked.1))?;
        let oldest = acked.map(|acked| acked.0).or(self.sacked.map(|sacked| sacked.0.1))?;
        Some((self.now.since(oldest), self.now.since(newest)))
    }

    /// The RTT of the first segment that was SACKed.
    pub fn sack_rtt(&self) -> Option<Span> {
        self.sacked.map(|sacked| self.now.since(sacked.0.1))
    }
}
