//! The scoreboard's part in RACK and TLP (RFC 8985): it finds losses by time of transmission.
//!
//! Originals are sent in the order of their numbers. So RACK declares the lowest ones lost first, and a pointer passes each
//! original once. Retransmissions are in a queue of their own, in the order in which they were sent.

use super::{EVER, LOST, PROBE, RETX, SACKED, Scoreboard};
use crate::ring::Ring;
use crate::tcp::rack::Judge;
use crate::tcp::sent::TxTimes;
use crate::units::Span;
use core::ops::Range;

/// The losses that RACK detected.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::tcp) struct Found {
    /// Segments newly found lost, including retransmissions.
    pub lost: u32,
    /// The lost retransmissions among them that must be retransmitted again.
    pub again: u32,
    /// Some segments still have time to arrive, although segments sent later have arrived. This is the time until the last of them
    /// counts as lost; zero if there is none.
    pub wait: Span,
}

impl Scoreboard {
    /// RFC 8985 §6.2 step 5: marks the lost segments of [snd_una, snd_nxt), and calls `newly` with each.
    pub fn rack_detect_loss(
        &mut self,
        (snd_una, snd_nxt): (u32, u32),
        judge: &Judge,
        sent: &TxTimes,
        mut newly: impl FnMut(u32),
    ) -> Found {
        self.reserve(snd_una, snd_nxt);
        let mut found = Found::default();
        let mut seq = self.judged.max(snd_una);
        while seq < snd_nxt {
            if self.is_original(seq) {
                let at = sent.at(seq);
                if !judge.is_behind(at, seq) {
                    break;
                }
                if judge.remaining(at) > Span::ZERO {
                    found.wait = self.last_wait(seq, snd_nxt, judge, sent);
                    break;
                }
                *self.flag(seq) |= LOST;
                self.lost += 1;
                found.lost += 1;
                newly(seq);
            }
            seq += 1;
        }
        self.judged = self.judged.max(seq);
        self.detect_lost_retrans(snd_una, judge, sent, &mut found, newly);
        found
    }

    /// Returns whether [`Scoreboard::rack_detect_loss`] would find no loss after `run` was SACKed. `run` has only originals, and is
    /// above all segments SACKed before. There is no loss if all segments below were examined, the last segment of the run is the
    /// most recently sent one that has arrived, and no outstanding retransmission was sent before it. Then the run counts as examined.
    #[inline(always)]
    pub fn judge_above(
        &mut self,
        (snd_una, snd_nxt): (u32, u32),
        run: &Range<u32>,
        judge: &Judge,
        sent: &TxTimes,
    ) -> bool {
        let is_newest = judge.is_newest(sent.at(run.end - 1), run.end - 1);
        if self.judged != run.start || !is_newest || (run.end < snd_nxt && *self.flag(run.end) != 0) {
            return false;
        }
        if let Some(&(again, _)) = self.sent_again.front() {
            let waits = again >= snd_una && *self.flag(again) & (RETX | SACKED) == RETX;
            if !waits || judge.is_behind(sent.at(again), again) {
                return false;
            }
        }
        self.judged = run.end;
        true
    }

    /// Marks the lost retransmissions (RFC 8985 §6.2 step 5).
    fn detect_lost_retrans(
        &mut self,
        snd_una: u32,
        judge: &Judge,
        sent: &TxTimes,
        found: &mut Found,
        mut newly: impl FnMut(u32),
    ) {
        while let Some(&(seq, _)) = self.sent_again.front() {
            if seq < snd_una || *self.flag(seq) & (RETX | SACKED) != RETX {
                self.sent_again.pop();
                continue;
            }
            let at = sent.at(seq);
            if !judge.is_behind(at, seq) {
                break;
            }
            let wait = judge.remaining(at);
            if wait > Span::ZERO {
                found.wait = found.wait.max(wait);
                break;
            }
            self.sent_again.pop();
            found.lost += 1;
            found.again += u32::from(self.lose_again(seq));
            newly(seq);
        }
    }

    /// Marks a retransmission lost. Returns whether the segment must be retransmitted again. A retransmission that remains from an
    /// undone timeout still counts as in the network (Linux `tcp_mark_skb_lost`: RETRANS stays if LOST was not set).
    fn lose_again(&mut self, seq: u32) -> bool {
        let flag = self.flag(seq);
        let known = *flag & LOST != 0;
        if known {
            *flag = LOST | *flag & EVER;
            self.retx -= 1;
            self.repeat_again(seq);
        } else {
            *flag |= LOST;
            self.lost += 1;
        }
        known
    }

    /// Returns whether a segment is in the network as an original, or as a loss probe.
    fn is_original(&mut self, seq: u32) -> bool {
        let flag = *self.flag(seq);
        flag & (SACKED | LOST | RETX) == 0 && flag & (EVER | PROBE) != EVER
    }

    /// Some originals have not arrived although segments sent later have; `seq` is the first. Returns the time until the last of them
    /// counts as lost. If the most recently sent segment that arrived is a retransmission of a lower number, returns the time for an
    /// original that was sent together with it.
    fn last_wait(&mut self, seq: u32, snd_nxt: u32, judge: &Judge, sent: &TxTimes) -> Span {
        let known = self.known;
        let mut last = judge.end().min(snd_nxt).saturating_sub(1);
        if last <= seq {
            return judge.longest();
        }
        while last > seq {
            if let Some(block) = known.iter().find(|block| block.start <= last && last < block.end) {
                last = block.start.max(seq + 1) - 1;
            } else if self.is_original(last) && judge.is_behind(sent.at(last), last) {
                break;
            } else {
                last -= 1;
            }
        }
        judge.remaining(sent.at(last))
    }

    /// After a timeout, the first segment is lost, and so are segments sent longer than an RTT ago (Linux
    /// `tcp_timeout_mark_lost`; RFC 8985 §6.3). Calls `newly` with each that was not known to be lost.
    ///
    /// The first segment is retransmitted even if a retransmission of it counts as in the network. Linux then counts both
    /// (`tcp_retransmit_skb`: "retrans_out leaked"). The count stays one too high until nothing is outstanding. With such a leak and
    /// a window of one or two segments, a connection sends one segment at a time.
    pub fn lose_by_timeout(
        &mut self,
        (snd_una, snd_nxt): (u32, u32),
        judge: &Judge,
        sent: &TxTimes,
        mut newly: impl FnMut(u32),
    ) {
        self.reserve(snd_una, snd_nxt);
        self.judged = snd_nxt;
        self.next_rxt = snd_una;
        self.lost_again = Ring::default();
        for seq in snd_una..snd_nxt {
            let flag = *self.flag(seq);
            if flag & SACKED != 0 || flag & (LOST | RETX) == LOST {
                continue;
            }
            let at = sent.at(seq);
            if seq != snd_una && judge.remaining(at) > Span::ZERO {
                if self.is_original(seq) {
                    self.judged = self.judged.min(seq);
                }
                continue;
            }
            newly(seq);
            if flag & RETX != 0 {
                self.lose_again(seq);
            } else {
                *self.flag(seq) |= LOST;
                self.lost += 1;
            }
        }
        let first = self.flag(snd_una);
        if *first & RETX != 0 {
            *first &= !RETX;
            self.leaked += 1;
        }
    }

    /// Nothing is outstanding, which ends any leak (the end of Linux `tcp_clean_rtx_queue`).
    pub fn settle(&mut self) {
        self.retx -= core::mem::take(&mut self.leaked);
    }

    /// A loss probe retransmits a segment that is not known to be lost.
    pub fn on_probe(&mut self, seq: u32) {
        let flag = self.flag(seq);
        let was = *flag;
        *flag |= EVER | PROBE;
        self.probes += u32::from(was & PROBE == 0);
    }

    /// A duplicate of this segment arrived, so that its retransmission is no longer in the network. Returns whether the segment
    /// had been retransmitted.
    pub fn on_duplicate(&mut self, seq: u32) -> bool {
        if self.is_clean() {
            return false;
        }
        let flag = *self.flag(seq);
        if flag & (RETX | LOST) == RETX {
            *self.flag(seq) &= !RETX;
            self.retx -= 1;
            if self.is_clean() {
                // The flags of a clean scoreboard must be zero, since they are not read.
                self.flags.fill(0);
            }
        }
        flag & EVER != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::rack::Rack;
    use crate::units::Time;
    use alloc::vec::Vec;

    /// Linux `tcp_rack_mark_skb_lost`, `tcp_mark_skb_lost`: FLAG_LOST_RETRANS, if fewer are on their way than before.
    #[test]
    fn a_repetition_that_is_lost_is_no_news_where_the_loss_was_undone() {
        for (undone, again) in [(false, 1), (true, 0)] {
            let (mut board, mut sent) = (Scoreboard::default(), TxTimes::default());
            sent.on_send(0..1, 0, Time::ZERO);
            board.reserve(0, 1);
            board.all_lost(0, 1, |_| {});
            board.on_retransmit(0, 1, false);
            if undone {
                board.none_lost(0, 1);
            }
            let judge = Rack::judge_of_timeout(Time::ZERO + Span::from_secs(1), Span::ZERO);
            let found = board.rack_detect_loss((0, 1), &judge, &sent, |_| {});
            assert_eq!((found.lost, found.again), (1, again), "undone: {undone}");
        }
    }

    /// Linux `tcp_verify_retransmit_hint`: sent again goes first what is lowest, whatever was found first to be lost again.
    #[test]
    fn of_what_is_lost_again_the_lowest_goes_first() {
        let (mut board, mut sent) = (Scoreboard::default(), TxTimes::default());
        sent.on_send(0..4, 0, Time::ZERO);
        board.reserve(0, 4);
        board.all_lost(0, 4, |_| {});
        let ms = |ms| Time::ZERO + Span::from_millis(ms);
        for (at, seq) in [(2, 3), (1, 1), (2, 0), (3, 2)] {
            sent.on_send(seq..seq + 1, 0, ms(at));
            board.on_retransmit(seq, 4, false);
        }
        let judge = Rack::judge_of_timeout(ms(1000), Span::ZERO);
        assert_eq!(board.rack_detect_loss((0, 4), &judge, &sent, |_| {}).again, 4);
        let order: Vec<u32> = core::iter::from_fn(|| {
            let seq = board.next_lost(0)?;
            board.on_retransmit(seq, 4, false);
            Some(seq)
        })
        .collect();
        assert_eq!(order, [0, 1, 2, 3]);
    }
}
