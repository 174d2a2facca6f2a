//! Delivery rate samples (draft-ietf-ccwg-bbr-06 §4.1, with Linux's record of each segment).
//!
//! For every segment a record keeps when it was sent and how much had been delivered by then. When it is acknowledged,
//! the segments delivered since, divided by the time since, are a sample of the path's delivery rate. If an ACK covers
//! several segments, the one sent last gives the sample. The time is the longer of the intervals between ACKs and between
//! transmissions, so that compressed ACKs do not give a rate above the sending rate.
//!
//! Deviation: Linux keeps one record for each burst that it hands down as one packet; here each segment has its own. The
//! samples are equal, since all segments of a burst are sent at one time.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

/// The state of the connection when a segment was last sent (Linux `tcp_skb_cb.tx`). Times are in µs.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct TxRecord {
    sent: u64,
    /// [`RateSampler::first_sent`] at that time (Linux `first_tx_mstamp`).
    first_sent: u64,
    /// [`RateSampler::delivered_time`] at that time (Linux `delivered_mstamp`).
    delivered_time: u64,
    delivered: u32,
    delivered_ce: u32,
    lost: u32,
    /// Segments in flight, this one included.
    in_flight: u32,
    app_limited: bool,
    retransmitted: bool,
    /// Not delivered yet.
    pending: bool,
}

/// A record for each segment, in a ring addressed by its number.
#[derive(Clone, Debug, PartialEq)]
struct Notes(Box<[TxRecord]>);

/// One ACK's sample (Linux `struct rate_sample`). Counts in segments, times in µs.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct RateSample {
    /// Segments delivered during `interval`; `None` if no segment with a record was acknowledged.
    pub delivered: Option<u32>,
    /// The duration of the sample; `None` if it is shorter than any round trip, as after an ambiguous ACK.
    pub interval: Option<u64>,
    /// Segments that had been delivered when the segment that gives the sample was sent.
    pub prior_delivered: u32,
    /// Segments delivered during `interval` by ACKs with an ECN echo.
    pub delivered_ce: u32,
    /// Segments in flight when the sample's segment was sent, itself included.
    pub tx_in_flight: u32,
    /// Segments found lost since the sample's segment was sent.
    pub lost: u32,
    /// The sample's segment was sent while the application limited the sender.
    pub app_limited: bool,
    /// The RTT of the most recently sent segment that was never retransmitted.
    pub rtt: Option<u64>,
    /// Segments that this ACK delivered.
    pub acked_sacked: u32,
    /// The number of these that were marked.
    pub marked: u32,
    /// Segments that this ACK showed to be lost.
    pub losses: u32,
    /// Segments in flight before this ACK.
    pub prior_in_flight: u32,
    /// The ACK covers a lone short segment, so the receiver may have delayed it.
    pub ack_delayed: bool,
}

/// A lost segment, with the state of the connection when it was sent.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Loss {
    pub seq: u32,
    /// Segments in flight when it was sent, itself included.
    pub tx_in_flight: u32,
    /// Segments found lost since it was sent, itself included.
    pub lost: u32,
    pub app_limited: bool,
}

/// The records of all segments in flight, and the sample of the current ACK.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RateSampler {
    notes: Notes,
    /// Segments delivered so far; the handshake counts as one.
    pub delivered: u32,
    /// When `delivered` last grew; after idle time, when the new flight began.
    pub delivered_time: u64,
    /// Segments delivered by ACKs with an ECN echo.
    delivered_ce: u32,
    /// Segments found lost so far.
    pub lost: u32,
    /// When the most recently sent of the delivered segments was sent; after idle time, when the new flight began.
    first_sent: u64,
    /// The application limits samples until more than this number of segments is delivered; 0 if it does not limit them.
    app_limited: u32,
    min_rtt: u64,
    /// The current ACK's sample.
    ack: AckInProgress,
}

/// The deliveries that the current ACK reports.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct AckInProgress {
    /// The segment that gives the sample.
    best: Option<u32>,
    /// The interval between transmissions, in µs.
    interval: u64,
    /// When the last segment that is acknowledged cumulatively, and was never retransmitted, was sent.
    acked_at: Option<u64>,
    /// When the last segment that is SACKed, and was never retransmitted, was sent.
    sacked_at: Option<u64>,
    /// A retransmitted segment was acknowledged cumulatively. This makes the RTT of the other segments ambiguous too (Karn's
    /// algorithm).
    ambiguous: bool,
}

impl RateSampler {
    /// The sampler of a connection that has only delivered its handshake. `rtt` is the handshake's RTT in µs, if known.
    pub fn new(now: u64, rtt: Option<u64>) -> RateSampler {
        RateSampler {
            notes: Notes(Box::new([])),
            delivered: 1,
            delivered_time: now,
            delivered_ce: 0,
            lost: 0,
            first_sent: now,
            app_limited: 0,
            min_rtt: rtt.unwrap_or(u64::MAX),
            ack: AckInProgress::default(),
        }
    }

    /// The smallest RTT so far.
    pub fn min_rtt(&self) -> Option<u64> {
        (self.min_rtt != u64::MAX).then_some(self.min_rtt)
    }

    /// Returns whether the application limits the samples: the segments in flight when it last paused are not all delivered yet.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// Something other than the path limits the samples of the segments in flight, and of the next one.
    pub fn limit(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    #[inline]
    fn note(&mut self, seq: u32) -> &mut TxRecord {
        let mask = self.notes.0.len() - 1;
        &mut self.notes.0[seq as usize & mask]
    }

    /// Makes room for [snd_una, snd_nxt).
    #[inline]
    fn reserve(&mut self, snd_una: u32, snd_nxt: u32) {
        if (snd_nxt - snd_una) as usize > self.notes.0.len() {
            self.grow(snd_una, snd_nxt);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, snd_una: u32, snd_nxt: u32) {
        let mut notes =
            vec![TxRecord::default(); ((snd_nxt - snd_una) as usize).next_power_of_two().max(64)].into_boxed_slice();
        let held = self.notes.0.len() as u32;
        for seq in snd_una..snd_nxt.min(snd_una + held) {
            notes[seq as usize & (notes.len() - 1)] = *self.note(seq);
        }
        self.notes.0 = notes;
    }

    /// A segment of [snd_una, snd_nxt) is sent, for the first time or again; `in_flight` counts it.
    pub fn on_send(&mut self, now: u64, seq: u32, (snd_una, snd_nxt): (u32, u32), in_flight: u32, retransmitted: bool) {
        self.reserve(snd_una, snd_nxt);
        if snd_nxt - snd_una == 1 && !retransmitted {
            (self.first_sent, self.delivered_time) = (now, now);
        }
        *self.note(seq) = self.sent_now(now, in_flight, retransmitted);
    }

    /// New segments are sent together while others are in flight; `in_flight` does not count the new ones.
    pub fn on_send_full(&mut self, now: u64, run: Range<u32>, snd_una: u32, mut in_flight: u32) {
        self.reserve(snd_una, run.end);
        for seq in run {
            in_flight += 1;
            *self.note(seq) = self.sent_now(now, in_flight, false);
        }
    }

    /// The record of a segment that is sent now.
    #[inline]
    fn sent_now(&self, now: u64, in_flight: u32, retransmitted: bool) -> TxRecord {
        TxRecord {
            sent: now,
            first_sent: self.first_sent,
            delivered_time: self.delivered_time,
            delivered: self.delivered,
            delivered_ce: self.delivered_ce,
            lost: self.lost,
            in_flight,
            app_limited: self.is_app_limited(),
            retransmitted,
            pending: true,
        }
    }

    /// An ACK covers this segment, by a SACK block (`by_block`) or cumulatively. A segment that was SACKed before is ignored.
    pub fn deliver(&mut self, seq: u32, by_block: bool) {
        if self.notes.0.is_empty() || !self.note(seq).pending {
            return;
        }
        let note = self.note(seq);
        note.pending = false;
        let &mut TxRecord { sent, first_sent, retransmitted, .. } = note;
        self.delivered += 1;
        let ack = &mut self.ack;
        match (by_block, retransmitted) {
            (true, false) => ack.sacked_at = Some(sent),
            (false, false) => ack.acked_at = Some(sent),
            (true, true) => {}
            (false, true) => ack.ambiguous = true,
        }
        let later = |last: u32| sent > self.first_sent || (sent == self.first_sent && seq > last);
        if ack.best.is_none_or(later) {
            ack.best = Some(seq);
            ack.interval = sent.saturating_sub(first_sent);
            self.first_sent = sent;
        }
    }

    /// The ACK under way gives no sample (Linux `tcp_ack`, `old_ack`), but its deliveries remain counted.
    pub fn skip_ack(&mut self) {
        self.ack = AckInProgress::default();
    }

    /// This segment is lost.
    pub fn lose(&mut self, seq: u32) -> Loss {
        self.lost += 1;
        if self.notes.0.is_empty() {
            return Loss { seq, ..Loss::default() };
        }
        let TxRecord { in_flight, lost, app_limited, .. } = *self.note(seq);
        Loss { seq, tx_in_flight: in_flight, lost: self.lost - lost, app_limited }
    }

    /// Returns the sample of an ACK whose segments were passed to [`RateSampler::deliver`]. `stamp` is the RTT that the timestamp
    /// shows, if the ACK advanced. The sender sets the fields that only it knows.
    pub fn end(&mut self, now: u64, acked_sacked: u32, marked: u32, stamp: Option<u64>) -> RateSample {
        let AckInProgress { best, interval, acked_at, sacked_at, ambiguous } = core::mem::take(&mut self.ack);
        self.advance(now, acked_sacked, marked);
        let acked_at = if ambiguous { None } else { acked_at };
        // Linux `tcp_ack_update_rtt`: from the records, else by the timestamp.
        let rtt = sacked_at.or(acked_at).map(|sent| now.saturating_sub(sent).max(1)).or(stamp);
        self.min_rtt = rtt.map_or(self.min_rtt, |rtt| self.min_rtt.min(rtt));
        let Some(best) = best else {
            return RateSample { rtt, acked_sacked, marked, ..RateSample::default() };
        };
        let note = *self.note(best);
        RateSample { rtt, acked_sacked, marked, ..self.sample(now, &note, interval) }
    }

    /// Does the work of [`RateSampler::deliver`] and [`RateSampler::end`] for an ACK that only SACKs these segments, without marks.
    /// None of them was retransmitted, so they were sent in this order, and the last gives the sample.
    #[inline(always)]
    pub fn deliver_run(&mut self, now: u64, run: Range<u32>) -> RateSample {
        let count = run.end - run.start;
        let last = run.end - 1;
        for seq in run.start..last {
            let note = self.note(seq);
            debug_assert!(note.pending && !note.retransmitted);
            note.pending = false;
        }
        let note = self.note(last);
        debug_assert!(note.pending && !note.retransmitted);
        note.pending = false;
        let note = *note;
        self.delivered += count;
        self.first_sent = note.sent;
        self.advance(now, count, 0);
        let rtt = now.saturating_sub(note.sent).max(1);
        self.min_rtt = self.min_rtt.min(rtt);
        let interval = note.sent.saturating_sub(note.first_sent);
        RateSample { rtt: Some(rtt), acked_sacked: count, ..self.sample(now, &note, interval) }
    }

    /// `acked_sacked` segments were delivered, `marked` of them marked.
    #[inline(always)]
    fn advance(&mut self, now: u64, acked_sacked: u32, marked: u32) {
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        if acked_sacked > 0 {
            self.delivered_time = now;
            self.delivered_ce += marked;
        }
    }

    /// The sample of the segment with this record. `interval` is the time between transmissions, in µs.
    #[inline(always)]
    fn sample(&self, now: u64, note: &TxRecord, interval: u64) -> RateSample {
        let interval = interval.max(now.saturating_sub(note.delivered_time));
        let plausible = self.min_rtt == u64::MAX || interval >= self.min_rtt;
        RateSample {
            delivered: Some(self.delivered - note.delivered),
            // draft §4.1.3.5: an interval below the minimum RTT is wrong. The original was acknowledged, not its retransmission.
            interval: (plausible && interval > 0).then_some(interval),
            prior_delivered: note.delivered,
            delivered_ce: self.delivered_ce - note.delivered_ce,
            tx_in_flight: note.in_flight,
            lost: self.lost - note.lost,
            app_limited: note.app_limited,
            ..RateSample::default()
        }
    }
}
