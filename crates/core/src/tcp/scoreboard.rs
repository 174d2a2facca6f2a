//! The scoreboard (RFC 6675 §3): the state of each outstanding segment.
//!
//! It has one byte per segment, in a ring that is addressed by the segment's number and allocated when the first hole appears.
//! While no segment is SACKed, lost or retransmitted, every byte is zero and none is read. Each segment is marked SACKed once,
//! passed by the loss pointer once and by the retransmission pointer once. So the work depends on the number of segments, not on
//! the number of ACKs.
//!
//! Deviation: `IsLost` counts segments, not bytes: a segment is lost if three above it are SACKed. For full segments this is the
//! RFC's "more than (DupThresh - 1) * SMSS bytes". Short segments are handled like its count of duplicate ACKs.

mod judged;

use crate::cache::Cache;
use crate::ring::Ring;
use crate::tcp::Block;
use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;
pub(super) use judged::Found;

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// A retransmission is in the network.
const RETX: u8 = 4;
/// The segment was retransmitted at some time: its ACK is ambiguous (Karn's algorithm).
const EVER: u8 = 8;
/// Only a loss probe retransmitted the segment: the probe counts as the original, sent later.
const PROBE: u8 = 16;

/// RFC 6675 §2: DupThresh, the number of SACKed segments above a hole that make it lost.
const DUP_THRESH: usize = 3;

/// The segments that a cumulative ACK took off the scoreboard.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Advanced {
    /// Segments that had been SACKed before.
    pub were_sacked: u32,
    /// One of the segments that had not been SACKed was retransmitted.
    pub retransmitted: bool,
    /// One of the segments was retransmitted, SACKed or not.
    pub repeated: bool,
}

/// The flags of the outstanding segments, and the number of segments with each flag.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scoreboard {
    flags: Box<[u8]>,
    /// SACKed segments.
    pub sacked: u32,
    /// Lost segments, whether retransmitted or not.
    pub lost: u32,
    /// Retransmissions in the network (Linux's `retrans_out`, which also counts those of undone losses after they were SACKed).
    pub retx: u32,
    /// The part of `retx` that has leaked: it counts as in flight although no such retransmission is (a Linux bug, reproduced on
    /// purpose; see [`Scoreboard::lose_by_timeout`]).
    leaked: u32,
    /// Segments that only a loss probe retransmitted.
    probes: u32,
    /// The three highest SACKed segments, highest first. Zero, or a segment that is no longer outstanding, means "none".
    top: [u32; DUP_THRESH],
    /// Every segment below this one has been examined for loss.
    judged: u32,
    /// HighRxt + 1: every segment below this one has been retransmitted if necessary.
    next_rxt: u32,
    /// Segments below this one may have been retransmitted although their flags no longer show it.
    undone: u32,
    /// The blocks of the last ACK, which are skipped in the next one.
    known: [Block; 3],
    /// Retransmissions in the order in which they were sent, each with the `snd_nxt` of that time.
    sent_again: Ring<(u32, u32)>,
    /// Segments whose retransmission was lost as well, the lowest first (Linux's `retransmit_skb_hint` is the lowest lost segment).
    lost_again: Ring<u32>,
}

impl Scoreboard {
    /// Returns whether no segment is SACKed, lost or retransmitted.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.sacked | self.lost | self.retx | self.probes == 0
    }

    /// Returns whether no segment is SACKed, lost or retransmitted, except by a loss probe.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.sacked | self.lost | self.retx == 0
    }

    /// RFC 6675 §4 `SetPipe`: segments in the network out of [snd_una, snd_nxt).
    #[inline]
    pub fn pipe(&self, snd_una: u32, snd_nxt: u32) -> u32 {
        snd_nxt - snd_una + self.retx - self.sacked - self.lost
    }

    /// See [`crate::tcp::Sender::prefetch_scoreboard`].
    #[inline]
    pub fn prefetch_first(&self, snd_una: u32, cache: &impl Cache) {
        if let Some(flag) = self.flags.get(snd_una as usize & self.flags.len().wrapping_sub(1)) {
            cache.fetch(flag);
        }
        if let Some(again) = self.sent_again.front() {
            cache.fetch(again);
        }
    }

    /// The byte of a segment. There must be one (see [`Scoreboard::reserve`]).
    #[inline]
    fn flag(&mut self, seq: u32) -> &mut u8 {
        let mask = self.flags.len() - 1;
        &mut self.flags[seq as usize & mask]
    }

    /// Makes room for the segments [snd_una, snd_nxt).
    #[inline]
    pub fn reserve(&mut self, snd_una: u32, snd_nxt: u32) {
        if (snd_nxt - snd_una) as usize > self.flags.len() {
            self.grow(snd_una, snd_nxt);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, snd_una: u32, snd_nxt: u32) {
        let size = ((snd_nxt - snd_una) as usize).next_power_of_two().max(16);
        let mut flags = vec![0; size].into_boxed_slice();
        if !self.is_clean() {
            let held = self.flags.len() as u32;
            for seq in snd_una..snd_nxt.min(snd_una + held) {
                flags[seq as usize & (size - 1)] = *self.flag(seq);
            }
        }
        self.flags = flags;
    }

    /// Frees the ring if a flight of `segments` needs less than a quarter of it.
    pub fn fit(&mut self, segments: u32) {
        if self.is_clean() && self.flags.len() > 16 && self.flags.len() / 4 >= segments as usize {
            self.flags = Box::default();
        }
    }

    /// Returns whether an outstanding segment is SACKed, lost or retransmitted. There must be room for it.
    pub fn is_marked(&mut self, seq: u32) -> bool {
        *self.flag(seq) & (SACKED | LOST | RETX) != 0
    }

    /// Returns whether an outstanding segment was ever retransmitted.
    pub fn is_repeated(&self, seq: u32) -> bool {
        !self.is_clean() && self.flags[seq as usize & (self.flags.len() - 1)] & EVER != 0
    }

    /// One past the highest SACKed segment; snd_una if there is none.
    pub fn fack(&self, snd_una: u32) -> u32 {
        if self.sacked > 0 { self.top[0] + 1 } else { snd_una }
    }

    /// A cumulative ACK removes [snd_una, cum) from the scoreboard. Unless the scoreboard is clean, calls `gone` with each segment
    /// that was not SACKed, and whether it was sent more than once.
    pub fn advance(&mut self, snd_una: u32, cum: u32, mut gone: impl FnMut(u32, bool)) -> Advanced {
        let mut result = Advanced::default();
        if snd_una == cum || self.is_clean() {
            return result;
        }
        for seq in snd_una..cum {
            let flag = core::mem::take(self.flag(seq));
            if flag == SACKED {
                result.were_sacked += 1;
                continue;
            }
            result.were_sacked += u32::from(flag & SACKED != 0);
            result.retransmitted |= flag & (EVER | SACKED) == EVER;
            result.repeated |= flag & EVER != 0;
            self.lost -= u32::from(flag & LOST != 0);
            self.retx -= u32::from(flag & RETX != 0);
            self.probes -= u32::from(flag & PROBE != 0);
            if flag & SACKED == 0 {
                gone(seq, flag & EVER != 0);
            }
        }
        self.sacked -= result.were_sacked;
        result
    }

    /// RFC 6675 §4 `Update`: marks the segments of [snd_una, snd_nxt) that the blocks report. Calls `newly` with each newly SACKed
    /// segment, and whether it was sent more than once. Returns their number.
    pub fn sack(&mut self, snd_una: u32, snd_nxt: u32, blocks: &[Block], mut newly: impl FnMut(u32, bool)) -> u32 {
        if blocks.is_empty() {
            return 0;
        }
        self.reserve(snd_una, snd_nxt);
        let before = self.sacked;
        let known = self.known;
        for (block, was) in blocks.iter().zip(&known) {
            // Most blocks have the same position as in the previous ACK, or the next position.
            if known.contains(block) {
                continue;
            }
            let (mut seq, end) = (block.start.max(snd_una), block.end.min(snd_nxt));
            if was.start <= seq && seq < was.end {
                seq = was.end;
            }
            while seq < end {
                match self.mark_sacked(seq) {
                    Some(again) => {
                        newly(seq, again);
                        seq += 1;
                    }
                    None => seq = self.behind_known(seq, &known, end),
                }
            }
        }
        let clipped = |block: &Block| Block { start: block.start.max(snd_una), end: block.end.min(snd_nxt) };
        self.known = core::array::from_fn(|place| blocks.get(place).map_or(Block::default(), clipped));
        self.sacked - before
    }

    /// A short cut of [`Scoreboard::sack`]. It applies if the first block is new or has grown, by segments that are above all SACKed
    /// ones and were never retransmitted, and if the other blocks are known. It marks those segments and returns them. In any other
    /// case it returns `None` and changes nothing.
    #[inline(always)]
    pub fn sack_above(&mut self, snd_una: u32, snd_nxt: u32, blocks: &[Block]) -> Option<Range<u32>> {
        let (first, known) = (*blocks.first()?, self.known);
        let grown = first.start == known[0].start && known[0].start < known[0].end;
        let run = if grown { known[0].end } else { first.start }..first.end;
        if first.start < snd_una
            || run.is_empty()
            || run.end > snd_nxt
            || run.start <= self.top[0]
            || run.start < self.undone
        {
            return None;
        }
        let second = blocks.get(1).copied().unwrap_or_default();
        let third = blocks.get(2).copied().unwrap_or_default();
        let stands = |block: Block| block.start >= snd_una || block.end == 0;
        let stood = if grown { [known[1], known[2]] } else { [known[0], known[1]] };
        let same = [second, third] == stood && stands(second) && stands(third);
        // RFC 2883: a first block inside the second reports a duplicate.
        let inside = second.start <= first.start && first.end <= second.end;
        if !same || inside {
            return None;
        }
        // Only a clean scoreboard can lack room, and it has no flags.
        self.reserve(snd_una, snd_nxt);
        if run.clone().any(|seq| *self.flag(seq) != 0) {
            return None;
        }
        for seq in run.clone() {
            *self.flag(seq) = SACKED;
            self.top = [seq, self.top[0], self.top[1]];
        }
        self.sacked += run.end - run.start;
        self.known = [first, second, third];
        Some(run)
    }

    /// Returns the next segment after the SACKed segment `seq`, up to `end`, that has no SACK flag yet. Skips the `known` block that
    /// contains `seq`.
    #[cold]
    #[inline(never)]
    fn behind_known(&mut self, seq: u32, known: &[Block; 3], end: u32) -> u32 {
        let block = known.iter().find(|block| block.start <= seq && seq < block.end);
        let next = block.map_or(seq + 1, |block| block.end);
        (next..end).find(|&seq| *self.flag(seq) & SACKED == 0).unwrap_or(end.max(next))
    }

    /// Marks a segment SACKed. Returns whether it was sent more than once, or `None` if it was SACKed already.
    fn mark_sacked(&mut self, seq: u32) -> Option<bool> {
        let flag = self.flag(seq);
        let was = *flag;
        if was & SACKED != 0 {
            return None;
        }
        *flag = SACKED | was & EVER;
        self.sacked += 1;
        self.lost -= u32::from(was & LOST != 0);
        self.retx -= u32::from(was & RETX != 0);
        self.probes -= u32::from(was & PROBE != 0);
        let mut seq = seq;
        for top in &mut self.top {
            if seq > *top {
                core::mem::swap(top, &mut seq);
            }
        }
        Some(was & EVER != 0)
    }

    /// Applies RFC 6675 §4 `IsLost` to every segment not examined yet. Calls `newly` with each newly lost segment; returns their number.
    pub fn mark_lost(&mut self, snd_una: u32, mut newly: impl FnMut(u32)) -> u32 {
        let before = self.lost;
        for seq in self.judged.max(snd_una)..self.top[DUP_THRESH - 1] {
            let flag = self.flag(seq);
            if *flag & (SACKED | LOST) == 0 {
                *flag |= LOST;
                self.lost += 1;
                newly(seq);
            }
        }
        self.judged = self.judged.max(self.top[DUP_THRESH - 1]);
        self.lost - before
    }

    /// Marks retransmissions lost. A retransmission is lost when three segments are SACKed that were first sent after it, as in Linux
    /// before RACK; RFC 6675 waits for the timer. Calls `newly` with each newly lost segment; returns their number.
    pub fn mark_retransmissions_lost(&mut self, snd_una: u32, mut newly: impl FnMut(u32)) -> u32 {
        let before = self.retx;
        while let Some(&(seq, next)) = self.sent_again.front()
            && (seq < snd_una || next <= self.top[DUP_THRESH - 1])
        {
            self.sent_again.pop();
            if seq >= snd_una && *self.flag(seq) & (LOST | RETX) == LOST | RETX {
                *self.flag(seq) &= !RETX;
                self.retx -= 1;
                self.repeat_again(seq);
                newly(seq);
            }
        }
        before - self.retx
    }

    /// After a timeout: every segment of [snd_una, snd_nxt) that is not SACKed is lost, and so are the retransmissions. Calls
    /// `newly` with each segment that was not known to be lost.
    pub fn all_lost(&mut self, snd_una: u32, snd_nxt: u32, mut newly: impl FnMut(u32)) {
        self.reserve(snd_una, snd_nxt);
        for seq in snd_una..snd_nxt {
            let flag = self.flag(seq);
            if *flag & SACKED == 0 {
                let known = *flag & (LOST | RETX) == LOST;
                *flag = LOST | *flag & EVER;
                if !known {
                    newly(seq);
                }
            }
        }
        self.lost = snd_nxt - snd_una - self.sacked;
        self.retx = 0;
        (self.sent_again, self.lost_again) = (Ring::default(), Ring::default());
        self.judged = snd_nxt;
        self.next_rxt = snd_una;
    }

    /// Clears the loss marks after a spurious timeout: all segments of [snd_una, snd_nxt) that are not SACKed are in the network, and
    /// retransmitted ones twice. From now on losses are detected anew.
    pub fn none_lost(&mut self, snd_una: u32, snd_nxt: u32) {
        if self.lost > 0 {
            for seq in snd_una..snd_nxt {
                let flag = self.flag(seq);
                if *flag & (RETX | SACKED | PROBE) != 0 {
                    *flag &= !LOST;
                    continue;
                }
                let was = core::mem::replace(flag, *flag & !(LOST | EVER));
                if was & EVER != 0 {
                    self.undone = seq + 1;
                }
            }
        }
        self.lost = 0;
        self.judged = snd_una;
        self.next_rxt = snd_una;
    }

    /// Recovery begins: retransmissions start at snd_una (RFC 6675 §5 step 4.3).
    pub fn begin_recovery(&mut self, snd_una: u32) {
        self.next_rxt = self.next_rxt.max(snd_una);
    }

    /// Notes that a retransmission is lost, so that its segment must be retransmitted again.
    fn repeat_again(&mut self, seq: u32) {
        self.lost_again.insert_where(seq, |&higher| seq < higher);
    }

    /// RFC 6675 §4 `NextSeg` rule 1: the lowest lost segment above HighRxt, or a lower one whose retransmission was lost.
    pub fn next_lost(&mut self, snd_una: u32) -> Option<u32> {
        if self.lost == 0 {
            return None;
        }
        while let Some(&seq) = self.lost_again.front()
            && (seq < snd_una || *self.flag(seq) & (LOST | RETX) != LOST)
        {
            self.lost_again.pop();
        }
        let again = self.lost_again.front().copied();
        let mut seq = self.next_rxt.max(snd_una);
        while seq < self.judged && *self.flag(seq) & (LOST | RETX) != LOST {
            seq += 1;
        }
        // Rule 3 may have moved the pointer beyond the last segment known to be lost.
        self.next_rxt = seq;
        if seq < self.judged { again.map_or(Some(seq), |again| Some(again.min(seq))) } else { again }
    }

    /// RFC 6675 §4 `NextSeg` rule 3: the lowest unSACKed segment above HighRxt and below the highest SACKed one.
    pub fn next_hole(&mut self, snd_una: u32) -> Option<u32> {
        let from = self.next_rxt.max(snd_una);
        let hole = (from..self.top[0]).find(|&seq| *self.flag(seq) & (SACKED | RETX) == 0);
        self.next_rxt = hole.unwrap_or(from.max(self.top[0]));
        hole
    }

    /// RFC 6675 §4 `NextSeg` rule 4: the highest unSACKed segment.
    pub fn highest_unsacked(&mut self, snd_una: u32, snd_nxt: u32) -> Option<u32> {
        (snd_una..snd_nxt).rev().find(|&seq| *self.flag(seq) & SACKED == 0)
    }

    /// A segment is retransmitted; `snd_nxt` is the next new one. Rules 1 and 3 move HighRxt, the rescue of rule 4 does not.
    pub fn on_retransmit(&mut self, seq: u32, snd_nxt: u32, rescue: bool) {
        if !rescue {
            self.next_rxt = self.next_rxt.max(seq + 1);
        }
        self.sent_again.push((seq, snd_nxt));
        let flag = self.flag(seq);
        let (again, probe) = (*flag & RETX != 0, *flag & PROBE != 0);
        *flag = (*flag | RETX | EVER) & !PROBE;
        self.retx += u32::from(!again);
        self.probes -= u32::from(probe);
    }

    /// The number of bytes that should be zero and are not. The bytes of segments outside [snd_una, snd_nxt) should be zero; if the
    /// scoreboard is clean, all should.
    #[cfg(test)]
    pub fn stale(&self, snd_una: u32, snd_nxt: u32) -> usize {
        let marked = self.flags.iter().filter(|&&flag| flag != 0).count();
        let mask = self.flags.len().wrapping_sub(1);
        let mine = |seq: &u32| !self.flags.is_empty() && self.flags[*seq as usize & mask] != 0;
        if self.is_clean() { marked } else { marked - (snd_una..snd_nxt).filter(mine).count() }
    }

    /// Returns whether an outstanding segment is SACKed.
    #[cfg(test)]
    pub fn is_sacked(&self, seq: u32) -> bool {
        self.sacked > 0 && self.flags[seq as usize & (self.flags.len() - 1)] & SACKED != 0
    }

    /// The counts by a slow recount of [snd_una, snd_nxt): (sacked, lost, retx).
    #[cfg(test)]
    pub fn recount(&self, snd_una: u32, snd_nxt: u32) -> (u32, u32, u32) {
        let count = |bit| {
            let mask = self.flags.len().wrapping_sub(1);
            (snd_una..snd_nxt).filter(|&s| !self.flags.is_empty() && self.flags[s as usize & mask] & bit != 0).count()
                as u32
        };
        (count(SACKED), count(LOST), count(RETX) + self.leaked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn skip(_: u32, _: bool) {}

    fn block(start: u32, end: u32) -> Block {
        Block { start, end }
    }

    fn lost(board: &mut Scoreboard, snd_una: u32) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(seq) = board.next_lost(snd_una) {
            board.on_retransmit(seq, 20, false);
            all.push(seq);
        }
        all
    }

    #[test]
    fn a_segment_is_lost_when_three_above_it_are_sacked() {
        let mut board = Scoreboard::default();
        assert_eq!(board.sack(0, 20, &[block(5, 7)], skip), 2);
        assert_eq!(board.mark_lost(0, drop), 0);
        assert_eq!(board.pipe(0, 20), 18);
        // Segments 0 to 4 have three SACKed segments above them now. 7 and 8 have only one.
        assert_eq!(board.sack(0, 20, &[block(9, 10), block(5, 7)], skip), 1);
        assert_eq!(board.mark_lost(0, drop), 5);
        assert_eq!(board.pipe(0, 20), 12);
        // SACKed segments need not be contiguous: 7 and 8 will have 9, 11 and 13 above them.
        board.sack(0, 20, &[block(11, 12), block(9, 10)], skip);
        assert_eq!(board.mark_lost(0, drop), 0);
        board.sack(0, 20, &[block(13, 14), block(11, 12), block(9, 10)], skip);
        assert_eq!(board.mark_lost(0, drop), 2);
        assert_eq!(lost(&mut board, 0), [0, 1, 2, 3, 4, 7, 8]);
        assert_eq!((board.sacked, board.lost, board.retx), (5, 7, 7));
        assert_eq!(board.pipe(0, 20), 15);
    }

    #[test]
    fn rule_3_takes_holes_below_the_highest_sacked_that_are_not_lost_yet() {
        let mut board = Scoreboard::default();
        board.sack(0, 20, &[block(1, 4), block(5, 6)], skip);
        board.mark_lost(0, drop);
        assert_eq!(lost(&mut board, 0), [0]);
        assert_eq!(board.next_hole(0), Some(4));
        board.on_retransmit(4, 20, false);
        assert_eq!(board.next_hole(0), None);
        // Counted twice in pipe until it is known to be lost (RFC 6675 §4).
        assert_eq!(board.pipe(0, 20), 20 - 4 - 1 + 1 + 1);
    }

    #[test]
    fn blocks_that_return_after_ack_loss_count_once() {
        let mut board = Scoreboard::default();
        board.sack(0, 100, &[block(10, 20)], skip);
        board.sack(0, 100, &[block(30, 40), block(25, 28)], skip);
        assert_eq!(board.sack(0, 100, &[block(10, 24), block(30, 41), block(25, 28)], skip), 5);
        assert_eq!(board.sack(0, 100, &[block(10, 41)], skip), 3);
        assert_eq!(board.sacked, 31);
        assert_eq!(board.recount(0, 100), (31, 0, 0));
        let advanced = board.advance(0, 41, skip);
        assert_eq!(advanced, Advanced { were_sacked: 31, ..Advanced::default() });
        assert!(board.is_clean());
    }

    #[test]
    fn a_lost_segment_that_arrives_after_all_is_lost_no_more() {
        let mut board = Scoreboard::default();
        board.sack(0, 20, &[block(2, 5)], skip);
        assert_eq!(board.mark_lost(0, drop), 2);
        assert_eq!(lost(&mut board, 0), [0, 1]);
        assert_eq!(board.sack(0, 20, &[block(1, 5)], skip), 1);
        assert_eq!((board.sacked, board.lost, board.retx), (4, 1, 1));
        assert!(board.advance(0, 5, skip).retransmitted);
        assert!(board.is_clean());
    }

    #[test]
    fn after_a_timeout_all_but_the_sacked_are_sent_again() {
        let mut board = Scoreboard::default();
        board.sack(0, 8, &[block(2, 5)], skip);
        board.mark_lost(0, drop);
        assert_eq!(lost(&mut board, 0), [0, 1]);
        board.all_lost(0, 8, drop);
        assert_eq!(board.pipe(0, 8), 0);
        assert_eq!(lost(&mut board, 0), [0, 1, 5, 6, 7]);
    }

    #[test]
    fn a_retransmission_is_lost_when_three_sent_after_it_are_sacked() {
        let mut board = Scoreboard::default();
        board.sack(0, 20, &[block(1, 5)], skip);
        board.mark_lost(0, drop);
        assert_eq!(lost(&mut board, 0), [0]);
        assert_eq!(board.pipe(0, 23), 19);
        board.sack(0, 23, &[block(1, 22)], skip);
        assert_eq!(board.mark_retransmissions_lost(0, drop), 0, "two are not enough");
        board.sack(0, 23, &[block(1, 23)], skip);
        assert_eq!(board.mark_retransmissions_lost(0, drop), 1);
        assert_eq!(board.recount(0, 23), (22, 1, 0));
        assert_eq!(lost(&mut board, 0), [0]);
        board.on_retransmit(0, 23, false);
        assert_eq!(board.mark_retransmissions_lost(0, drop), 1, "the one that the list above sent before segment 20");
        assert_eq!(board.mark_retransmissions_lost(0, drop), 0, "none of those sent after it is SACKed");
    }

    #[test]
    fn the_ring_grows_without_forgetting() {
        let mut board = Scoreboard::default();
        board.sack(1000, 1050, &[block(1010, 1020)], skip);
        board.reserve(1000, 5000);
        assert_eq!(board.recount(1000, 5000), (10, 0, 0));
        assert_eq!(board.highest_unsacked(1000, 1020), Some(1009));
    }
}
