//! The receiving half: reassembly, SACK blocks (RFC 2018), delayed ACKs (RFC 5681 §4.2, Linux) and the ECN echo.
//!
//! Linux delays an ACK by a time that adapts to the arrivals (delack.rs). It sends ACKs at once in quick-ACK mode (for the first
//! 16 segments in order, after a duplicate, and after a pause) and for a segment with PSH, since the application reads it at
//! once. Without `quickack` there is an ACK for every second full segment, or after 200 ms. Out-of-order segments are
//! acknowledged at once, until the sender must know of the hole; then their ACKs are compressed (compress.rs).
//!
//! DCTCP's receiver echoes each segment's mark (RFC 8257 §3.2). Where marking begins or ends, it acknowledges the segments before
//! the change at once. As in Linux, the ACK of the segment itself follows at once; without `quickack` that ACK is delayed like any
//! other. Prague's receiver counts marks with accurate ECN (RFC 9768): in the ACE field, without the option that counts bytes.
//!
//! A segment whose timestamp is older than the one that the receiver echoes, by more than a millisecond, is discarded and answered at
//! once (PAWS, RFC 7323 §5; Linux `tcp_validate_incoming`). Where a path reorders, this happens to what was sent before a
//! retransmission and arrives after it.
//!
//! Deviation: if the marking changes with an out-of-order segment, its mark is reported together with the segments before it.

use crate::cache::{Cache, LINE};
use crate::packet::Ecn;
use crate::tcp::cc::EcnUse;
use crate::tcp::compress::{BLOCKS_EXPECTED, Compress};
use crate::tcp::delack::Pace;
use crate::tcp::gro::Merge;
use crate::tcp::window::{Seen, Window};
use crate::tcp::{Ack, AckPolicy, Block, Cc, Config, Counters, Recovery};
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::mem::{self, offset_of};

/// The delayed-ACK time without quick ACKs. RFC 5681 §4.2 allows up to 500 ms.
const DELACK: Span = Span::from_millis(200);
/// Linux's TCP_MAX_QUICKACKS.
const MAX_QUICKACKS: u32 = 16;
/// Linux's TCP_PAWS_WINDOW in ms: a timestamp may be older by this much.
const PAWS_WINDOW: i64 = 1;
/// Linux's TCP_PAWS_WRAP, 2147 s, by [`ts_clock`]: an echoed timestamp this old says nothing, since by then half the range of
/// timestamps (2^32 µs) has passed.
const PAWS_WRAP: u32 = 1999;
/// No segment has set the echoed timestamp.
const NO_TS_RECENT: u32 = u32::MAX;
/// The number of no segment.
const NO_SEGMENT: u32 = u32::MAX;
/// Blocks kept in order of recency; three fit into an ACK with a timestamp (RFC 2018 §3).
const RECENT: usize = 4;

/// The clock of `ts_recent_stamp`: units of 2^30 ns, about a second.
#[inline(always)]
fn ts_clock(now: Time) -> u32 {
    (now.0 >> 30) as u32
}

/// A segment at its receiver.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its number.
    pub seq: u32,
    /// A full MSS.
    pub full: bool,
    /// PSH is set.
    pub pushed: bool,
    /// When it was sent, in µs modulo 2^32.
    pub ts: u32,
    /// The RTT in µs that the segment's timestamp shows or that its sender has measured; 0 if there is none.
    pub rtt_us: u32,
    /// The ECN field.
    pub ecn: Ecn,
    /// Congestion window reduced.
    pub cwr: bool,
}

/// The ECN feedback of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Feedback {
    /// No feedback.
    None,
    /// The echo lasts from a CE mark until CWR arrives (RFC 3168 §6.1.3).
    Classic,
    /// The echo is the mark of the last segment (RFC 8257 §3.2).
    Dctcp,
    /// ACKs carry the number of marked segments, modulo 8 (RFC 9768 §3.2.2).
    Accurate,
}

/// RFC 9768 §3.2.1: the initial value of the counters.
pub(super) const FIRST_CEP: u8 = 5;
/// RFC 9768 §3.2.2.5.1: an ACK is sent at once when this many marks have arrived since the last ACK.
const MARKS: u8 = 2;

impl Feedback {
    fn of(config: &Config) -> Feedback {
        match config.cc.ops().ecn {
            _ if !config.ecn => Feedback::None,
            EcnUse::Dctcp => Feedback::Dctcp,
            EcnUse::L4s => Feedback::Accurate,
            EcnUse::Optional => Feedback::Classic,
        }
    }
}

/// The receiving half of a connection. The fields that every in-order segment needs come first; [`Receiver::prefetch`] fetches them.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Receiver {
    /// The next segment expected.
    rcv_nxt: u32,
    /// The window offered, in segments.
    rwnd: u32,
    /// An ACK is due when at least `due` segments, at least `due_full` of them full, have arrived since the last ACK.
    due: u32,
    /// Segments that arrived since the last ACK, and how many of them were full.
    pending: u32,
    pending_full: u32,
    /// The number of quick ACKs that are left (Linux `icsk_ack.quick`).
    quick_acks: u32,
    ts_first: u32,
    ts_last: u32,
    /// When the delayed ACK is due; [`Time::NEVER`] if no ACK is delayed.
    deadline: Time,
    /// When a segment in order must be passed to `tune` again; [`Time::ZERO`] if each one must, [`Time::NEVER`] without a window.
    tune_due: Time,
    /// How the delay of ACKs adapts.
    pace: Pace,
    /// The duplicate segment that the next ACK reports, or [`NO_SEGMENT`].
    duplicate: u32,
    /// When `ts_first` was last set, by [`ts_clock`]; [`NO_TS_RECENT`] before that (Linux `ts_recent_stamp`, there in seconds).
    ts_recent_stamp: u32,
    due_full: u8,
    /// The next ACK is sent at once, quick or not (Linux ICSK_ACK_NOW).
    at_once: bool,
    /// Linux's ATO and quick ACKs.
    adaptive: bool,
    /// Each arrival is passed to `watch`, because of quick ACKs, ECN or a tuned window.
    watchful: bool,
    /// The window of `rare` is offered to the sender.
    tunes: bool,
    /// `rare` has a `merge`.
    merges: bool,
    /// `held` is not empty.
    holds: bool,
    /// The number of blocks in `recent`.
    recent_len: u8,
    feedback: Feedback,
    /// ECN-capable data has arrived (`TCP_ECN_SEEN`).
    seen: bool,
    /// The ACE field of the next ACK.
    ace: u8,
    /// For accurate ECN: whether the last segment arrived marked.
    last_ce: bool,
    /// For accurate ECN: the number of marks since the last ACK.
    unreported: u8,
    /// The next ACK is `early_ack`, which covers the segments before the last one.
    early: bool,
    /// As in current Linux, duplicate segments are reported (RFC 2883), and only they start quick ACKs.
    dsacks: bool,
    /// The most ACKs of out-of-order segments that may be compressed into one (`tcp_comp_sack_nr`).
    comp_sack_nr: u8,
    /// Blocks of segments that arrived out of order, ascending; no two touch.
    held: VecDeque<Block>,
    /// The blocks of `held` that changed last, the most recent first.
    recent: [Block; RECENT],
    rare: Option<Box<Rare>>,
}

/// Fields that few receivers need. They are kept apart, so that a [`Receiver`] is one cache line shorter.
#[derive(Clone, Default, Debug)]
struct Rare {
    /// The tuned receive window. If it is not offered, it only tells when ACKs are quick because it grows.
    window: Option<Window>,
    /// Segments that the network card merges and hands up together.
    merge: Option<Merge>,
    early_ack: Option<Ack>,
    /// The compressed ACKs; `None` before the first hole.
    compress: Option<Compress>,
    /// Segments carry no timestamps, so that none is too old (PAWS).
    lacks_timestamps: bool,
    counters: Counters,
}

impl Receiver {
    /// A receiver that expects segment 0.
    pub fn new(config: &Config) -> Receiver {
        let adaptive = config.acks == AckPolicy::Delayed && config.quickack;
        let merges = config.gro_flush_timeout > Span::ZERO;
        let hidden = || if adaptive { config.hidden_window() } else { None };
        let rare = Rare {
            window: config.tuned_window().or_else(hidden),
            merge: merges.then(|| Merge::new(config)),
            lacks_timestamps: !config.timestamps,
            ..Rare::default()
        };
        let (due, due_full) = match (config.acks, config.cc) {
            (AckPolicy::Every, _) => (1, 0),
            (AckPolicy::Window(Some(n)), _) | (AckPolicy::Window(None), Cc::Fixed(n)) => (n.min(config.rwnd).max(1), 0),
            (AckPolicy::Window(None), _) => (config.rwnd.max(1), 0),
            // Linux: more than one MSS.
            (AckPolicy::Delayed, _) if adaptive => (2, 1),
            // RFC 5681 §4.2: at least every second full segment.
            (AckPolicy::Delayed, _) => (2, 2),
        };
        Receiver {
            rcv_nxt: 0,
            rwnd: config.first_window(),
            tunes: config.rmem.is_some(),
            tune_due: if rare.window.is_some() { Time::ZERO } else { Time::NEVER },
            merges,
            holds: false,
            due,
            due_full,
            at_once: false,
            adaptive,
            watchful: adaptive || config.ecn || config.rmem.is_some(),
            feedback: Feedback::of(config),
            ace: if Feedback::of(config) == Feedback::Accurate { FIRST_CEP } else { 0 },
            seen: false,
            last_ce: false,
            unreported: 0,
            early: false,
            pending: 0,
            pending_full: 0,
            quick_acks: 0,
            ts_first: 0,
            ts_last: 0,
            deadline: Time::NEVER,
            ts_recent_stamp: NO_TS_RECENT,
            pace: Pace::new(config),
            held: VecDeque::new(),
            recent: [Block::default(); RECENT],
            recent_len: 0,
            dsacks: config.recovery == Recovery::Rack,
            comp_sack_nr: if config.acks == AckPolicy::Delayed { config.comp_sack_nr } else { 0 },
            rare: (rare.window.is_some() || merges || rare.lacks_timestamps).then(|| Box::new(rare)),
            duplicate: NO_SEGMENT,
        }
    }

    /// A segment arrives. Returns whether [`Receiver::ack`] must be sent at once.
    #[inline(always)]
    pub fn accept(&mut self, now: Time, arrival: Arrival) -> bool {
        if self.ts_first.wrapping_sub(arrival.ts).cast_signed() > 0 {
            return self.accept_older(now, &arrival);
        }
        self.accept_valid(now, &arrival, arrival.ts)
    }

    /// Like [`Receiver::accept`], for a segment that was sent before the one whose timestamp is echoed: PAWS (RFC 7323 §5.3). `R1`
    /// is Linux's `tcp_validate_incoming`. A segment that passes leaves the echo as it is if its millisecond is older (R3).
    #[cold]
    #[inline(never)]
    fn accept_older(&mut self, now: Time, arrival: &Arrival) -> bool {
        let late = self.late_ms(now, arrival.ts);
        if late > PAWS_WINDOW {
            return self.discard(arrival.seq);
        }
        let echo = if late > 0 { self.ts_first } else { arrival.ts };
        self.accept_valid(now, arrival, echo)
    }

    /// By how many ms the timestamp is older than the echoed one, on Linux's clock of whole ms. Zero if there are no timestamps, or
    /// if the echoed one is too old itself.
    fn late_ms(&self, now: Time, ts: u32) -> i64 {
        let is_known = self.ts_recent_stamp != NO_TS_RECENT;
        let lacks_timestamps = self.rare.as_ref().is_some_and(|rare| rare.lacks_timestamps);
        if lacks_timestamps || !is_known || ts_clock(now) - self.ts_recent_stamp >= PAWS_WRAP {
            return 0;
        }
        let now_us = now.0 / 1000;
        let sent_ms = |ts: u32| {
            let age_us = (now_us as u32).wrapping_sub(ts).cast_signed();
            (now_us.cast_signed() - i64::from(age_us)).div_euclid(1000)
        };
        (sent_ms(self.ts_first) - sent_ms(ts)).max(0)
    }

    /// Discards a segment and acknowledges at once (Linux `tcp_send_dupack`); a segment that had arrived before is reported as a
    /// duplicate. Neither ECN nor the delay of ACKs takes notice of it.
    fn discard(&mut self, seq: u32) -> bool {
        self.rare.get_or_insert_default().counters.paws_estab += 1;
        if seq < self.rcv_nxt {
            self.enter_quickack(MAX_QUICKACKS);
            self.note_duplicate(seq);
        }
        self.release_acks();
        self.discharge();
        true
    }

    /// The counters of this end.
    pub fn counters(&self) -> Counters {
        self.rare.as_ref().map_or(Counters::default(), |rare| rare.counters)
    }

    /// A segment arrives that is not discarded. `echo` is the timestamp to echo if this segment is one that sets the echo.
    #[inline(always)]
    fn accept_valid(&mut self, now: Time, arrival: &Arrival, echo: u32) -> bool {
        let &Arrival { seq, full, pushed, ts, .. } = arrival;
        if self.watchful {
            self.watch(now, arrival);
        }
        self.ts_last = ts;
        if seq != self.rcv_nxt || self.holds {
            return self.out_of_order(now, seq, echo, arrival.rtt_us);
        }
        self.rcv_nxt += 1;
        if self.pending == 0 {
            (self.ts_first, self.ts_recent_stamp) = (echo, ts_clock(now));
        }
        self.pending += 1;
        self.pending_full += u32::from(full);
        if self.quick_acks > 0 || (self.pending >= self.due && self.pending_full >= u32::from(self.due_full)) {
            if self.merges && self.waits_to_merge(now, ts, pushed) {
                return false;
            }
            self.discharge();
            return true;
        }
        if self.at_once && self.early {
            // The early ACK is sent now. The timer sends this segment's own ACK at the same time.
            self.deadline = now;
            return true;
        }
        if self.at_once || (pushed && self.adaptive && !self.early) {
            // Linux `__tcp_cleanup_rbuf`: the application reads at once, and now has all data.
            self.discharge();
            return true;
        }
        self.delay(now)
    }

    /// Delays the ACK of this segment. Returns whether an ACK must be sent now: either `early_ack`, or the delayed ACK if it was
    /// almost due.
    #[inline(always)]
    fn delay(&mut self, now: Time) -> bool {
        if !self.adaptive {
            self.deadline = self.deadline.min(now + DELACK);
        } else if self.pending > 1 && self.pace.is_almost_due() {
            self.discharge();
            return true;
        } else {
            self.deadline = self.deadline.min(self.pace.delay(self.pending == 1));
        }
        self.is_early()
    }

    /// The delayed ACK's timer: call when `now` has reached [`Receiver::next_event`].
    pub fn on_timer(&mut self, now: Time) -> Option<Ack> {
        if now < self.deadline {
            return None;
        }
        let flushes = self.merge().is_some_and(|merge| merge.is_holding());
        if !flushes && !self.at_once && !self.compresses() {
            self.pace.missed();
        }
        Some(self.ack_now())
    }

    /// When [`Receiver::on_timer`] must be called.
    #[inline]
    pub fn next_event(&self) -> Time {
        self.deadline
    }

    /// The SACK blocks of the ACK just made, and their number. A duplicate comes first and is reported once (RFC 2883 §4). The
    /// other blocks follow, the most recent first (RFC 2018 §4).
    #[inline]
    pub fn take_blocks(&mut self) -> ([Block; 3], usize) {
        let [first, second, third, _] = self.recent;
        match mem::replace(&mut self.duplicate, NO_SEGMENT) {
            NO_SEGMENT => ([first, second, third], usize::from(self.recent_len).min(3)),
            seq => ([Block { start: seq, end: seq + 1 }, first, second], usize::from(self.recent_len + 1).min(3)),
        }
    }

    /// Returns whether the next ACK may carry SACK blocks or another window: segments have arrived out of order or twice, or the window is
    /// tuned.
    #[inline]
    pub fn says_more(&self) -> bool {
        self.recent_len > 0 || self.duplicate != NO_SEGMENT || self.tunes
    }

    /// Prefetches the lines that every segment in order needs. A hint never affects results.
    #[inline]
    pub fn prefetch(&self, cache: &impl Cache) {
        cache.fetch_lines(&self.rcv_nxt, const { offset_of!(Receiver, recent).div_ceil(LINE) });
    }

    /// Prefetches the data that an out-of-order segment needs in addition, if there is a hole: the last block, which most of these
    /// segments extend.
    #[inline]
    pub fn prefetch_held(&self, cache: &impl Cache) {
        if self.holds
            && let Some(last) = self.held.back()
        {
            cache.fetch(last);
            cache.fetch(&self.rare);
        }
    }

    /// The next segment expected: everything below has arrived.
    #[inline]
    pub fn next_expected(&self) -> u32 {
        self.rcv_nxt
    }

    /// The next segment is a FIN: it is acknowledged at once (Linux `tcp_fin` of a socket that has closed its own half).
    pub fn expect_fin(&mut self) {
        self.at_once = true;
    }

    /// An ACK that is sent at once and replaces delayed ACKs: with this end's own FIN, or in response to an unexpected segment.
    pub fn ack_now(&mut self) -> Ack {
        self.release_acks();
        self.discharge();
        self.ack()
    }

    /// The ACK of this end's SYN-ACK has arrived.
    pub fn on_established(&mut self, now: Time) {
        if let Some(window) = self.window() {
            window.on_established(now);
        }
    }

    /// The handshake ends. `rtt_us` is its RTT, or 0 if that is unknown.
    pub fn on_opened(&mut self, rtt_us: u32) {
        if self.adaptive {
            self.pace.note_handshake(rtt_us);
        }
    }

    /// Examines an arrival for quick ACKs, ECN and the tuned window.
    #[inline]
    fn watch(&mut self, now: Time, &Arrival { seq, ts, rtt_us, ecn, cwr, .. }: &Arrival) {
        if self.adaptive && self.pace.note_arrival(now, rtt_us, seq == self.rcv_nxt) {
            self.quicken(MAX_QUICKACKS);
        }
        match self.feedback {
            Feedback::None => {}
            Feedback::Classic if cwr || ecn == Ecn::Ce => self.note_ecn(ecn, cwr),
            Feedback::Classic if ecn == Ecn::NotEct => self.note_repetition(),
            Feedback::Classic => self.seen = true,
            Feedback::Dctcp => self.note_change(ecn == Ecn::Ce, cwr),
            Feedback::Accurate => self.count(ecn == Ecn::Ce),
        }
        if now >= self.tune_due {
            self.tune(now, seq, ts, rtt_us);
        }
    }

    /// Lets the window grow with a segment that arrives. If it grows, ACKs are quick (Linux `tcp_grow_window`).
    #[inline(never)]
    fn tune(&mut self, now: Time, seq: u32, ts: u32, rtt_us: u32) {
        let rtt_us = match self.window() {
            // `rtt_us` is the RTT of the handshake.
            Some(window) if rtt_us > 0 && !window.is_offered() => rtt_us.saturating_add(window.excess(now, ts)),
            _ => rtt_us,
        };
        let in_order = seq == self.rcv_nxt;
        let held = self.held.iter().map(|block| block.end - block.start).sum();
        let next = match self.held.front() {
            _ if !in_order => self.rcv_nxt,
            Some(first) if first.start == seq + 1 => first.end,
            _ => seq + 1,
        };
        let last = self.held.back().map_or(0, |last| last.end).max(seq + 1);
        let span = last.saturating_sub(next);
        let seen = Seen { now, next, in_order, rtt_us, held, span };
        let is_new = seq >= self.rcv_nxt;
        if self.window().is_some_and(|window| is_new && window.on_arrival(&seen)) && self.adaptive {
            self.quick_acks |= 1;
        }
        let holds = self.holds;
        self.tune_due = match self.window() {
            None => Time::NEVER,
            Some(_) if holds => Time::ZERO,
            Some(window) => window.rest(next),
        };
    }

    fn window(&mut self) -> Option<&mut Window> {
        self.rare.as_mut()?.window.as_mut()
    }

    fn merge(&mut self) -> Option<&mut Merge> {
        self.rare.as_mut()?.merge.as_mut()
    }

    /// Selects the window that the next ACK offers.
    #[inline(never)]
    fn offer(&mut self) {
        let next = self.rcv_nxt;
        let tunes = self.tunes;
        if let Some(window) = self.window() {
            let offered = window.select(next);
            if tunes {
                self.rwnd = offered;
            }
        }
    }

    /// Returns whether the offered window is tuned.
    #[inline]
    pub fn tunes(&self) -> bool {
        self.tunes
    }

    /// The window that ACKs offer, in segments, if it is tuned.
    pub fn tuned(&self) -> Option<u32> {
        self.tunes.then_some(self.rwnd)
    }

    /// DCTCP (RFC 8257 §3.2): where marking begins or ends, acknowledges the segments before the change at once, with their own mark.
    #[inline(never)]
    fn note_change(&mut self, ce: bool, cwr: bool) {
        self.early = false;
        // Linux `tcp_ecn_accept_cwr`: a segment with CWR is acknowledged at once. The echo still follows the last mark.
        self.at_once |= self.adaptive && cwr;
        if ce == (self.ace == 1) {
            return;
        }
        if self.pending > 0 {
            let ack = self.ack();
            self.rare.get_or_insert_default().early_ack = Some(ack);
            self.discharge();
            self.early = true;
        }
        self.ace = u8::from(ce);
        // Linux `dctcp_ece_ack_update`: the segment at the change is acknowledged at once too.
        self.at_once |= self.adaptive;
    }

    /// Accurate ECN: counts a mark. An ACK is sent at once where marking begins, and at the second mark since the last ACK (RFC 9768
    /// §3.2.2.5.1).
    fn count(&mut self, ce: bool) {
        if self.pending == 0 {
            self.unreported = 0;
        }
        if ce {
            self.ace = (self.ace + 1) & 7;
            self.unreported = self.unreported.saturating_add(1);
            if !self.last_ce || self.unreported >= MARKS {
                self.at_once = true;
            }
        }
        self.last_ce = ce;
    }

    /// Returns whether the next ACK excludes the last segment. The last segment's own ACK waits for the next segment or for the timer.
    #[inline]
    pub fn is_early(&self) -> bool {
        self.early
    }

    /// The next `segments` segments get quick ACKs, but no more than half a window of them.
    #[cold]
    #[inline(never)]
    fn quicken(&mut self, segments: u32) {
        if self.adaptive {
            let half = (self.rwnd / 2).max(2);
            self.quick_acks = self.quick_acks.max(segments.min(half));
        }
    }

    /// Starts quick ACKs with `quicken`, and resets the delay of later ACKs to the shortest (`tcp_enter_quickack_mode`). After a
    /// pause, quick ACKs start without this reset.
    fn enter_quickack(&mut self, segments: u32) {
        self.quicken(segments);
        self.pace.deflate();
    }

    /// Handles a segment that is not ECN-capable. If earlier ones were, it is probably a retransmission, and quick ACKs start (Linux
    /// `tcp_data_ecn_check`).
    #[cold]
    #[inline(never)]
    fn note_repetition(&mut self) {
        if self.seen {
            self.enter_quickack(2);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_ecn(&mut self, ecn: Ecn, cwr: bool) {
        // RFC 3168 §6.1.3: CWR ends the echo, a CE in the same segment begins it again.
        if cwr {
            self.ace = 0;
            // Linux `tcp_ecn_accept_cwr`: the window may be down to one segment, so that the sender waits for this ACK.
            self.at_once = self.adaptive;
        }
        self.seen |= ecn != Ecn::NotEct;
        if ecn == Ecn::Ce && self.ace == 0 {
            self.ace = 1;
            // Linux: a sender with a very small window must not wait for the echo.
            self.enter_quickack(2);
        }
    }

    /// The ACK that [`Receiver::accept`] asked for. It covers everything that has arrived in order, or less if
    /// [`Receiver::is_early`] holds.
    #[inline(always)]
    pub fn ack(&self) -> Ack {
        if self.early
            && let Some(ack) = self.rare.as_ref().and_then(|rare| rare.early_ack)
        {
            return ack;
        }
        Ack {
            cum: self.rcv_nxt,
            ts_first: self.ts_first,
            ts_last: self.ts_last,
            window: self.rwnd,
            ace: self.ace,
            syn: false,
        }
    }

    /// An ACK is sent, which covers all segments that waited for one.
    #[inline(always)]
    fn discharge(&mut self) {
        self.pending = 0;
        self.pending_full = 0;
        self.early = false;
        self.deadline = Time::NEVER;
        self.at_once = false;
        if self.quick_acks > 0 {
            self.quick_acks -= 1;
            if self.quick_acks == 0 {
                self.pace.deflate();
            }
        }
        if self.tune_due == Time::ZERO {
            self.offer();
        }
    }

    /// Handles a segment that is out of order, fills a hole, or is a duplicate. It is acknowledged at once (RFC 5681 §4.2), unless
    /// its ACK is compressed. Returns whether an ACK must be sent.
    #[cold]
    #[inline(never)]
    fn out_of_order(&mut self, now: Time, seq: u32, echo: u32, rtt_us: u32) -> bool {
        if self.tune_due > now && self.tune_due < Time::NEVER {
            self.tune(now, seq, self.ts_last, rtt_us);
        }
        if self.tune_due < Time::NEVER {
            self.tune_due = Time::ZERO;
        }
        // Linux `tcp_data_queue`: a duplicate whose ACK still waits is not reported any more.
        self.duplicate = NO_SEGMENT;
        if seq == self.rcv_nxt {
            if self.pending == 0 {
                (self.ts_first, self.ts_recent_stamp) = (echo, ts_clock(now));
            }
            let before = self.rcv_nxt - self.pending;
            self.rcv_nxt += 1;
            self.release();
            self.holds = !self.held.is_empty();
            if self.holds {
                self.note_next_hole(now, self.rcv_nxt - before, rtt_us);
            }
        } else {
            // Linux `tcp_data_queue`: only duplicates start quick ACKs, other out-of-order segments do not.
            if !self.dsacks || seq < self.rcv_nxt {
                self.enter_quickack(MAX_QUICKACKS);
            }
            if seq < self.rcv_nxt {
                self.note_duplicate(seq);
            }
            if seq > self.rcv_nxt {
                let block = self.hold(seq);
                self.holds = true;
                let forgets = self.report(block) >= BLOCKS_EXPECTED;
                if self.waits(now, rtt_us, forgets) {
                    return false;
                }
            } else if seq + 1 >= self.rcv_nxt - self.pending {
                // RFC 7323 §4.3: a segment that ends at or above the last ACK (as in Linux) updates the echoed timestamp. If an ACK
                // was lost and its segment is retransmitted, the next ACK therefore gives the RTT of the retransmission.
                (self.ts_first, self.ts_recent_stamp) = (echo, ts_clock(now));
            }
        }
        self.release_acks();
        self.discharge();
        true
    }

    /// Returns whether the ACK of a segment above a hole waits (SACK compression). `forgets`: the segment's block moves another out of
    /// the first two places of the list. If ACKs already wait then, they are sent now.
    fn waits(&mut self, now: Time, rtt_us: u32, forgets: bool) -> bool {
        if self.comp_sack_nr == 0 || self.quick_acks > 0 || self.at_once || self.early {
            return false;
        }
        let compress = self.rare.get_or_insert_default().compress.get_or_insert_default();
        if forgets && compress.is_holding() {
            return false;
        }
        let Some(until) = compress.hold(now, self.rcv_nxt, u32::from(self.comp_sack_nr), rtt_us) else { return false };
        // Linux `tcp_delack_timer_handler`: the timer of an earlier delayed ACK also sends the compressed ACK.
        self.deadline = self.deadline.min(until).min(self.pace.leftover(now));
        true
    }

    /// Another hole follows the one that was filled. The first three ACKs that report it are sent at once. As in Linux
    /// (`__tcp_ack_snd_check`), the present ACK counts as one of them if it acknowledges at most one segment or offers a smaller window.
    fn note_next_hole(&mut self, now: Time, acknowledged: u32, rtt_us: u32) {
        let keeps = self.window().is_none_or(|window| window.keeps());
        if acknowledged <= 1 || !keeps {
            self.waits(now, rtt_us, false);
        }
    }

    /// Returns whether the ACK waits because the card holds this segment to merge it with later ones; PSH ends the merging.
    fn waits_to_merge(&mut self, now: Time, ts: u32, pushed: bool) -> bool {
        let Some(merge) = self.merge() else { return false };
        if pushed {
            merge.flushed();
            return false;
        }
        let Some(until) = merge.hold(now, ts) else { return false };
        self.deadline = self.deadline.min(until);
        true
    }

    /// An ACK is sent now. It replaces the ACKs that waited because of merging or compression.
    fn release_acks(&mut self) {
        let Some(rare) = &mut self.rare else { return };
        if let Some(merge) = &mut rare.merge {
            merge.flushed();
        }
        if let Some(compress) = &mut rare.compress {
            compress.sent();
        }
    }

    /// Returns whether ACKs wait because of compression.
    fn compresses(&self) -> bool {
        self.rare.as_ref().and_then(|rare| rare.compress.as_ref()).is_some_and(Compress::is_holding)
    }

    fn note_duplicate(&mut self, seq: u32) {
        self.duplicate = if self.dsacks { seq } else { NO_SEGMENT };
        if self.dsacks {
            let is_old = seq < self.rcv_nxt;
            let counters = &mut self.rare.get_or_insert_default().counters;
            *(if is_old { &mut counters.dsack_old_sent } else { &mut counters.dsack_ofo_sent }) += 1;
        }
    }

    /// Delivers the held block that is in order now.
    fn release(&mut self) {
        let Some(&first) = self.held.front() else { return };
        if first.start != self.rcv_nxt {
            return;
        }
        self.rcv_nxt = first.end;
        self.held.pop_front();
        self.forget(first);
    }

    /// Holds a segment; returns the block it is part of now.
    fn hold(&mut self, seq: u32) -> Block {
        let index = match self.held.back_mut() {
            Some(last) if last.end > seq => self.held.partition_point(|b| b.end < seq),
            Some(last) if last.end == seq => {
                last.end += 1;
                return *last;
            }
            _ => self.held.len(),
        };
        // held[index] is the first block that ends at seq or later.
        let Some(block) = self.held.get_mut(index) else {
            let block = Block { start: seq, end: seq + 1 };
            self.held.push_back(block);
            return block;
        };
        if block.start <= seq && seq < block.end {
            let block = *block;
            self.note_duplicate(seq);
            return block;
        }
        if block.start > seq + 1 {
            let block = Block { start: seq, end: seq + 1 };
            self.held.insert(index, block);
            return block;
        }
        if block.start == seq + 1 {
            block.start = seq;
            return *block;
        }
        block.end = seq + 1;
        let mut grown = *block;
        let right = self.held.get(index + 1).copied();
        if let Some(right) = right.filter(|right| right.start == grown.end) {
            self.held.remove(index + 1);
            grown.end = right.end;
            self.held[index] = grown;
        }
        grown
    }

    /// Puts a block first in the list of recent blocks, and removes the blocks that it contains now. Returns the old position of the
    /// first block that it contains, which may be its own; or the length of the list if there was none.
    fn report(&mut self, block: Block) -> usize {
        // Usually the first block has grown by one segment, and contains no other block.
        if self.recent_len > 0 && self.recent[0] == (Block { end: block.end - 1, ..block }) {
            self.recent[0] = block;
            return 0;
        }
        let known = &self.recent[..usize::from(self.recent_len)];
        let place = known.iter().position(|b| block.start <= b.start && b.end <= block.end).unwrap_or(known.len());
        self.forget(block);
        let kept = usize::from(self.recent_len).min(RECENT - 1);
        self.recent.copy_within(0..kept, 1);
        self.recent[0] = block;
        self.recent_len = kept as u8 + 1;
        place
    }

    /// Removes the blocks inside `outer` from the order of recency.
    fn forget(&mut self, outer: Block) {
        let mut kept = 0;
        for i in 0..usize::from(self.recent_len) {
            let block = self.recent[i];
            if block.end <= outer.start || outer.end <= block.start {
                self.recent[kept] = block;
                kept += 1;
            }
        }
        self.recent_len = kept as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// With a bounded window, no ACK is quick because the window grows.
    fn bounded() -> Config {
        Config { rwnd: 10_000, ..Config::default() }
    }

    fn arrival(seq: u32, full: bool, ts: u32, ecn: Ecn, cwr: bool) -> Arrival {
        Arrival { seq, full, pushed: false, ts, rtt_us: 100_000, ecn, cwr }
    }

    fn receiver(acks: AckPolicy, quickack: bool) -> Receiver {
        Receiver::new(&Config { acks, quickack, cc: Cc::Fixed(20), ..bounded() })
    }

    /// Feeds full segments, 1 ms apart, all with the same timestamp. Returns the segments that were acknowledged at once.
    fn feed(receiver: &mut Receiver, from_ms: u64, seqs: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut acked = Vec::new();
        for (i, seq) in seqs.into_iter().enumerate() {
            let now = Time((from_ms + i as u64) * 1_000_000);
            if receiver.accept(now, arrival(seq, true, 0, Ecn::NotEct, false)) {
                acked.push(seq);
            }
        }
        acked
    }

    #[test]
    fn sixteen_quick_acks_and_then_every_second_segment() {
        let mut receiver = receiver(AckPolicy::Delayed, true);
        let expected: Vec<u32> = (0..16).chain((17..40).step_by(2)).collect();
        assert_eq!(feed(&mut receiver, 0, 0..40), expected);
    }

    /// Feeds segments that are always on the way for 50 ms, at these times in ms. Returns those that were acknowledged at once.
    fn feed_at(receiver: &mut Receiver, arrivals: &[(u64, u32)]) -> Vec<u32> {
        let at_once = arrivals.iter().filter(|&&(ms, seq)| {
            let ts = (1000 * ms).wrapping_sub(50_000) as u32;
            receiver.accept(Time(ms * 1_000_000), arrival(seq, true, ts, Ecn::NotEct, false))
        });
        at_once.map(|&(_, seq)| seq).collect()
    }

    /// Linux `tcp_grow_window`. In the kernel world, the first 22 segments of a flow through a FIFO (10 Mbit/s, 40 ms) are acknowledged
    /// one by one: the window grows with six of them.
    #[test]
    fn each_segment_is_acknowledged_at_once_while_the_window_grows() {
        let mut receiver = Receiver::new(&Config::default());
        let arrivals: Vec<(u64, u32)> = (0..40).map(|n| (100 + u64::from(n), n)).collect();
        let expected: Vec<u32> = (0..22).chain((23..40).step_by(2)).collect();
        assert_eq!(feed_at(&mut receiver, &arrivals), expected);
    }

    /// Rounds of 100 ms in which a sender doubles its window, loses a segment and repairs it, and then sends less.
    fn opening() -> Vec<(u64, u32)> {
        let (mut arrivals, mut next, mut lost) = (Vec::new(), 0, None);
        for (round, flight) in (0u64..).zip([10, 20, 40, 80, 90, 40, 60, 80, 90, 95, 10, 10, 50]) {
            let first = 100 * (round + 1);
            arrivals.extend(lost.take().map(|seq| (first, seq)));
            for n in 0..flight {
                if round == 4 && n == 30 {
                    lost = Some(next);
                } else {
                    arrivals.push((first + n, next));
                }
                next += 1;
            }
        }
        arrivals
    }

    #[test]
    fn a_window_that_is_not_offered_makes_acks_quick_as_one_that_is() {
        let mut tuned = Receiver::new(&Config { rmem: Some(64 << 20), ..Config::default() });
        let mut hidden = Receiver::new(&Config::default());
        let answers = feed_at(&mut hidden, &opening());
        assert_eq!(answers, feed_at(&mut tuned, &opening()));
        let quick = |from| answers.windows(2).filter(|pair| pair[0] >= from && pair[1] == pair[0] + 1).count();
        assert!(quick(22) > 100, "the window grew after the first round trip: {}", quick(22));
        assert!(!hidden.says_more() && hidden.tuned().is_none() && hidden.ack().window == u32::MAX);
        // Where nothing grows, a segment in order costs one comparison.
        assert!(hidden.tune_due > Time(1_200_000_000), "{:?}", hidden.tune_due);
    }

    /// The RTT of a receiver whose window is not offered: that of the handshake, and the time that the queue has added since.
    #[test]
    fn a_window_that_is_not_offered_grows_by_what_arrives_in_an_rtt_with_its_queue() {
        let mut window = Window::hidden(1448, 1460);
        let excess = |window: &mut Window, ms: u64, sent_ms: u32| window.excess(Time(ms * 1_000_000), 1000 * sent_ms);
        assert_eq!([(50, 0), (90, 10), (140, 100)].map(|(ms, sent)| excess(&mut window, ms, sent)), [0, 30_000, 0]);
        assert_eq!(excess(&mut window, 200, 100), 60_000);
        assert_eq!(excess(&mut window, 200, 201), 0, "stamped with a departure that is paced");
    }

    #[test]
    fn quick_acks_are_at_most_half_the_receive_window() {
        let mut receiver = Receiver::new(&Config { rwnd: 12, ..bounded() });
        assert_eq!(feed(&mut receiver, 0, 0..10), [0, 1, 2, 3, 4, 5, 7, 9]);
    }

    #[test]
    fn a_pause_or_what_comes_twice_makes_acks_quick_again() {
        let mut receiver = receiver(AckPolicy::Delayed, true);
        feed(&mut receiver, 0, 0..40);
        assert_eq!(feed(&mut receiver, 1000, 40..60), (40..56).chain([57, 59]).collect::<Vec<u32>>());
        // 60 arrives after 61. Both are acknowledged at once, like all out-of-order segments. No quick ACKs follow.
        let late = feed(&mut receiver, 1100, [61, 60].into_iter().chain(62..82));
        assert_eq!(late, [61, 60].into_iter().chain((63..82).step_by(2)).collect::<Vec<u32>>());
        let twice = feed(&mut receiver, 1200, [70].into_iter().chain(82..103));
        assert_eq!(twice, [70].into_iter().chain(82..97).chain([98, 100, 102]).collect::<Vec<u32>>());
    }

    #[test]
    fn before_rack_disorder_made_acks_quick_too() {
        let mut receiver = Receiver::new(&Config { recovery: Recovery::Rfc6675, ..bounded() });
        feed(&mut receiver, 0, 0..60);
        let late = feed(&mut receiver, 100, [61, 60].into_iter().chain(62..82));
        assert_eq!(late, [61, 60].into_iter().chain(62..76).chain([77, 79, 81]).collect::<Vec<u32>>());
    }

    /// Linux `tcp_ecn_accept_cwr`: a sender that has reduced its window may wait for this one ACK.
    #[test]
    fn a_segment_with_cwr_is_acknowledged_at_once() {
        let mut receiver = Receiver::new(&Config { ecn: true, ..bounded() });
        feed(&mut receiver, 0, 0..18);
        let reduced = |cwr| receiver.clone().accept(Time(18_000_000), arrival(18, true, 0, Ecn::Ect0, cwr));
        assert_eq!([false, true].map(reduced), [false, true]);
    }

    fn compressing() -> Receiver {
        let mut receiver = Receiver::new(&Config { comp_sack_nr: 44, ..bounded() });
        feed(&mut receiver, 0, 0..17);
        receiver.on_timer(Time(60_000_000));
        receiver
    }

    /// Feeds segments 20 µs apart from 100 ms on. Returns those that were acknowledged at once.
    fn rush(receiver: &mut Receiver, seqs: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let arrivals = seqs.into_iter().zip(0u64..).filter(|&(seq, n)| {
            receiver.accept(Time(100_000_000 + n * 20_000), arrival(seq, true, 0, Ecn::NotEct, false))
        });
        arrivals.map(|(seq, _)| seq).collect()
    }

    #[test]
    fn three_acks_of_a_hole_leave_at_once_and_the_others_wait_for_a_millisecond() {
        let mut receiver = compressing();
        assert_eq!(rush(&mut receiver, 18..41), [18, 19, 20]);
        let from = 100_000_000 + 3 * 20_000;
        assert_eq!(receiver.next_event(), Time(from + 1_010_000));
        assert_eq!(receiver.on_timer(receiver.next_event()).map(|ack| ack.cum), Some(17));
        assert_eq!(receiver.take_blocks().0[0], Block { start: 18, end: 41 });
        assert_eq!(receiver.next_event(), Time::NEVER);
    }

    #[test]
    fn the_timer_of_a_delayed_ack_that_has_left_sends_what_is_compressed() {
        let mut receiver = compressing();
        let accept =
            |receiver: &mut Receiver, time, seq| receiver.accept(time, arrival(seq, true, 0, Ecn::NotEct, false));
        assert!(!accept(&mut receiver, Time(100_000_000), 17));
        let expires = receiver.next_event();
        assert!(accept(&mut receiver, Time(100_500_000), 18), "its timer stays");
        let before = |us: u64| Time(expires.0 - 1000 * us);
        assert_eq!([20, 21, 22].map(|seq| accept(&mut receiver, before(900), seq)), [true; 3]);
        assert!(!accept(&mut receiver, before(500), 23));
        assert_eq!(receiver.next_event(), expires, "otherwise 510 us later");
        assert_eq!(receiver.on_timer(expires).map(|ack| ack.cum), Some(19));
        assert!(!accept(&mut receiver, expires + Span::from_micros(100), 24));
        assert_eq!(receiver.next_event(), expires + Span::from_micros(1110), "it expires once");
    }

    #[test]
    fn what_fills_a_hole_is_acknowledged_at_once_with_all_that_waited() {
        let mut receiver = compressing();
        rush(&mut receiver, 18..41);
        let mut arrive = |seq| {
            let answers = receiver.accept(Time(100_500_000), arrival(seq, true, 0, Ecn::NotEct, false));
            (answers, receiver.ack().cum, receiver.next_event() >= Time(140_000_000))
        };
        assert_eq!(arrive(17), (true, 41, true));
        assert_eq!(arrive(41), (false, 42, true), "and no ACK is quick after it");
    }

    #[test]
    fn a_second_hole_does_not_make_the_list_forget_what_waits() {
        let mut receiver = compressing();
        rush(&mut receiver, 18..40);
        let mut at_once = |seq| receiver.accept(Time(100_450_000), arrival(seq, true, 0, Ecn::NotEct, false));
        // The ACK of the second block waits too. The third block would be more than two ACKs in a row can report.
        assert_eq!([41, 42, 44, 45, 46].map(&mut at_once), [false, false, true, false, false]);
        assert!(!at_once(41 + 2), "it joins the first two of the list");
    }

    #[test]
    fn the_ack_of_one_filled_segment_is_the_first_of_three_that_tell_of_the_next_hole() {
        let mut receiver = compressing();
        // 17 and 19 are missing: 17 fills its hole together with held segments, or alone.
        rush(&mut receiver, [18, 20]);
        assert_eq!(rush(&mut receiver, [17, 21, 22, 23, 24]), [17, 21, 22, 23]);
        let mut receiver = compressing();
        rush(&mut receiver, [19]);
        assert_eq!(rush(&mut receiver, [17, 20, 21, 22, 23]), [17, 20, 21]);
    }

    #[test]
    fn the_last_segment_waits_for_the_ato() {
        let mut receiver = receiver(AckPolicy::Delayed, true);
        feed(&mut receiver, 1, 0..16);
        assert!(!receiver.accept(Time(17_000_000), arrival(16, true, 16_000, Ecn::NotEct, false)));
        assert_eq!(receiver.next_event(), Time(60_000_000), "40 ms after 17 ms, and that at a tick");
        assert_eq!(receiver.on_timer(Time(59_999_999)), None);
        let ack = receiver.on_timer(Time(60_000_000)).unwrap();
        assert_eq!((ack.cum, ack.ts_first, ack.ts_last), (17, 16_000, 16_000));
        assert_eq!(receiver.next_event(), Time::NEVER);
    }

    /// `tcp_data_queue_ofo` grants no quick ACKs: they begin with segments in order.
    #[test]
    fn the_first_quick_acks_are_of_what_is_in_order() {
        let mut receiver = Receiver::new(&Config { comp_sack_nr: 44, ..bounded() });
        assert_eq!(rush(&mut receiver, 1..20), [1, 2, 3], "the others are compressed");
        assert_eq!(feed(&mut receiver, 200, [0]), [0]);
        assert_eq!(feed(&mut receiver, 201, 20..40), (20..35).chain([36, 38]).collect::<Vec<u32>>());
    }

    /// A card hands up the segments that it holds when PSH arrives.
    #[test]
    fn what_is_pushed_ends_what_is_merged() {
        let config = Config { gro_flush_timeout: Span::from_micros(50), ..bounded() };
        let mut receiver = Receiver::new(&config);
        let mut arrive = |us: u64, seq, pushed| {
            let arrival = Arrival { pushed, ..arrival(seq, true, 7000, Ecn::NotEct, false) };
            (receiver.accept(Time(us * 1000), arrival), receiver.next_event())
        };
        assert_eq!([arrive(0, 0, false), arrive(5, 1, false)], [(false, Time(50_000)); 2]);
        assert_eq!(arrive(10, 2, true), (true, Time::NEVER));
        assert_eq!(arrive(40, 3, false), (false, Time(90_000)), "a time of its own");
    }

    /// Linux `tcp_dec_quickack_mode`. This also holds for quick ACKs after a pause, although the pause does not reset the delay.
    #[test]
    fn the_delay_is_the_shortest_where_quick_acks_end() {
        let mut receiver = receiver(AckPolicy::Delayed, true);
        feed(&mut receiver, 0, 0..16);
        for n in 0..3 {
            assert_eq!(feed(&mut receiver, 200 * (n + 1), [16 + n as u32]), []);
            receiver.on_timer(receiver.next_event());
        }
        assert_eq!(feed(&mut receiver, 2000, 19..36), (19..35).collect::<Vec<u32>>(), "after a pause");
        assert_eq!(receiver.next_event(), Time(2_060_000_000), "40 ms after 2016 ms, at a tick");
    }

    /// A CE mark starts quick ACKs, after which the delay is the shortest.
    #[test]
    fn a_mark_makes_the_delay_short_again() {
        for (ecn, due) in [(Ecn::Ect0, 884), (Ecn::Ce, 844)] {
            let mut receiver = Receiver::new(&Config { ecn: true, ..bounded() });
            feed(&mut receiver, 0, 0..16);
            for n in 0..3 {
                feed(&mut receiver, 200 * (n + 1), [16 + n as u32]);
                receiver.on_timer(receiver.next_event());
            }
            for n in 0..3u32 {
                receiver.accept(Time(800_000_000 + 1_000_000 * u64::from(n)), arrival(19 + n, true, 0, ecn, false));
            }
            assert_eq!(receiver.next_event(), Time(due * 1_000_000), "{ecn:?}");
        }
    }

    /// Linux `tcp_measure_rcv_mss`, `__tcp_cleanup_rbuf`: a segment with PSH is acknowledged at once, if the application reads.
    #[test]
    fn what_is_pushed_is_acknowledged_at_once() {
        for (quickack, answers) in [(true, true), (false, false)] {
            let mut receiver = receiver(AckPolicy::Delayed, quickack);
            feed(&mut receiver, 0, 0..16);
            let pushed = Arrival { pushed: true, ..arrival(16, true, 0, Ecn::NotEct, false) };
            assert_eq!(receiver.clone().accept(Time(16_000_000), pushed), answers);
            assert!(!receiver.accept(Time(16_000_000), Arrival { pushed: false, ..pushed }));
        }
    }

    /// Linux `tcp_dec_quickack_mode`, `tcp_enter_quickack_mode`: when quick ACKs end, the delay is the shortest again.
    #[test]
    fn what_comes_twice_makes_the_delay_short_again() {
        let mut receiver = receiver(AckPolicy::Delayed, true);
        feed(&mut receiver, 0, 0..16);
        for n in 0..3 {
            assert_eq!(feed(&mut receiver, 200 * (n + 1), [16 + n as u32]), []);
            receiver.on_timer(receiver.next_event());
        }
        let delay = |receiver: &mut Receiver, at: u64, seq: u32| {
            assert_eq!(feed(receiver, at, [seq]), []);
            receiver.next_event().0 / 1_000_000 - at
        };
        assert_eq!(delay(&mut receiver.clone(), 800, 19), 104, "bounded by the RTT");
        assert_eq!(feed(&mut receiver, 800, [5].into_iter().chain(19..34)).len(), 16);
        assert_eq!(delay(&mut receiver, 820, 34), 44);
    }

    /// Linux `tcp_send_delayed_ack`: if the timer would expire soon, the ACK is sent. Short segments alone would wait.
    #[test]
    fn what_arrives_just_before_a_delayed_ack_is_due_is_acknowledged_with_it() {
        for (wait, answers) in [(24, false), (28, true)] {
            let mut receiver = receiver(AckPolicy::Delayed, true);
            feed(&mut receiver, 0, 0..16);
            let mut arrive =
                |ms: u64, seq| receiver.accept(Time(ms * 1_000_000), arrival(seq, false, 0, Ecn::NotEct, false));
            assert_eq!([arrive(20, 16), arrive(20 + wait, 17)], [false, answers], "{wait} ms later");
        }
    }

    #[test]
    fn a_full_and_a_short_segment_are_more_than_an_mss_two_short_ones_are_not() {
        let mut receiver = receiver(AckPolicy::Delayed, true);
        feed(&mut receiver, 0, 0..16);
        let mut arrive = |seq, full| receiver.accept(Time(17_000_000), arrival(seq, full, 0, Ecn::NotEct, false));
        assert_eq!([arrive(16, false), arrive(17, false), arrive(18, true)], [false, false, true]);
        assert_eq!([arrive(19, true), arrive(20, false)], [false, true]);
    }

    #[test]
    fn rfc_5681_acknowledges_every_second_full_segment_or_after_200_ms() {
        let mut receiver = receiver(AckPolicy::Delayed, false);
        assert_eq!(feed(&mut receiver, 0, 0..7), [1, 3, 5]);
        assert_eq!(receiver.next_event(), Time(206_000_000));
        assert_eq!(receiver.on_timer(Time(206_000_000)).map(|a| a.cum), Some(7));
    }

    #[test]
    fn every_segment_or_once_a_window() {
        assert_eq!(feed(&mut receiver(AckPolicy::Every, true), 0, 0..4), [0, 1, 2, 3]);
        let mut window = receiver(AckPolicy::Window(None), true);
        assert_eq!(feed(&mut window, 0, 0..50), [19, 39]);
        assert_eq!(window.next_event(), Time(240_000_000));
    }

    #[test]
    fn a_window_of_acknowledgement_may_be_smaller_than_the_senders() {
        let mut seven = receiver(AckPolicy::Window(Some(7)), true);
        assert_eq!(feed(&mut seven, 0, 0..20), [6, 13]);
        assert_eq!(seven.next_event(), Time(214_000_000));
    }

    #[test]
    fn an_ack_echoes_the_first_and_the_last_timestamp() {
        let mut receiver = receiver(AckPolicy::Delayed, false);
        assert!(!receiver.accept(Time(5), arrival(0, true, 70, Ecn::NotEct, false)));
        assert!(receiver.accept(Time(6), arrival(1, true, 90, Ecn::NotEct, false)));
        let ack = receiver.ack();
        assert_eq!((ack.ts_first, ack.ts_last), (70, 90));
    }

    #[test]
    fn the_ack_of_a_repeated_segment_echoes_the_repetition() {
        let mut receiver = receiver(AckPolicy::Every, true);
        let mut echo = |seq, ts| {
            assert!(receiver.accept(Time(1), arrival(seq, true, ts, Ecn::NotEct, false)));
            receiver.ack().ts_first
        };
        assert_eq!([echo(0, 10), echo(1, 20), echo(1, 300)], [10, 20, 300]);
        // A segment wholly below the last ACK does not update the echo.
        assert_eq!(echo(0, 400), 300);
    }

    #[test]
    fn the_newest_block_is_reported_first_and_three_at_most() {
        let mut receiver = receiver(AckPolicy::Every, true);
        let block = |start, end| Block { start, end };
        feed(&mut receiver, 0, [0, 2, 4, 6, 8]);
        assert_eq!(receiver.take_blocks(), ([block(8, 9), block(6, 7), block(4, 5)], 3));
        feed(&mut receiver, 9, [3]);
        assert_eq!(receiver.take_blocks(), ([block(2, 5), block(8, 9), block(6, 7)], 3));
        feed(&mut receiver, 10, [1]);
        assert_eq!(receiver.next_expected(), 5);
        assert_eq!(receiver.take_blocks().1, 2);
        feed(&mut receiver, 11, [5, 7]);
        assert_eq!((receiver.next_expected(), receiver.take_blocks().1), (9, 0));
    }

    #[test]
    fn linux_acknowledges_two_segments_at_once_when_data_that_is_not_ecn_capable_follows_some_that_was() {
        let mut receiver = Receiver::new(&Config { ecn: true, ..bounded() });
        let mut feed = |seqs: core::ops::Range<u32>, ecn| -> Vec<u32> {
            let at_once = seqs
                .filter(|&seq| receiver.accept(Time(u64::from(seq) * 1_000_000), arrival(seq, true, 0, ecn, false)));
            at_once.collect()
        };
        assert_eq!(feed(0..17, Ecn::NotEct).len(), 16, "none was ECN-capable before");
        assert_eq!(feed(17..21, Ecn::Ect0), [17, 19]);
        assert_eq!(feed(21..22, Ecn::NotEct), [21]);
        assert_eq!(feed(22..26, Ecn::Ect0), [22, 24]);
    }

    #[test]
    fn the_echo_lasts_from_ce_to_cwr() {
        let mut receiver = Receiver::new(&Config { ecn: true, acks: AckPolicy::Every, ..bounded() });
        let mut ece = |seq, ecn, cwr| {
            assert!(receiver.accept(Time(1), arrival(seq, true, 0, ecn, cwr)));
            receiver.ack().ece()
        };
        assert!(!ece(0, Ecn::Ect0, false));
        assert!(ece(1, Ecn::Ce, false));
        assert!(ece(2, Ecn::Ect0, false));
        assert!(!ece(3, Ecn::Ect0, true));
        assert!(ece(4, Ecn::Ce, true));
    }

    /// The delayed ACKs of segments with these marks: the next segment expected, and whether the ACK has an echo.
    fn dctcp(marks: &[bool]) -> Vec<(u32, bool)> {
        let mut receiver = Receiver::new(&Config { ecn: true, cc: Cc::Dctcp, quickack: false, ..bounded() });
        let mut acks = Vec::new();
        for (seq, &ce) in (0u32..).zip(marks) {
            let ecn = if ce { Ecn::Ce } else { Ecn::Ect0 };
            if receiver.accept(Time(1000 * u64::from(seq)), arrival(seq, true, seq, ecn, seq == 5)) {
                acks.push((receiver.ack().cum, receiver.ack().ece()));
            }
        }
        acks
    }

    #[test]
    fn rfc8257_3_2_every_second_segment_is_acknowledged_while_marking_stays() {
        assert_eq!(dctcp(&[false; 6]), [(2, false), (4, false), (6, false)]);
        // It begins with a CE, and CWR does not end the echo.
        assert_eq!(dctcp(&[true; 8]), [(2, true), (4, true), (6, true), (8, true)]);
    }

    #[test]
    fn rfc8257_3_2_where_marking_changes_what_came_before_is_acknowledged_at_once_as_it_came() {
        let acks = dctcp(&[false, true, true, false, false, true, true, true, false]);
        assert_eq!(acks, [(1, false), (3, true), (5, false), (7, true), (8, true)]);
    }

    /// PSH does not cancel the ACK of the segments before.
    #[test]
    fn rfc8257_3_2_where_marking_changes_with_a_pushed_segment_what_came_before_is_acknowledged_as_it_came() {
        let mut receiver = Receiver::new(&Config { ecn: true, cc: Cc::Dctcp, ..bounded() });
        let mut arrive = |seq, ecn, pushed| {
            let answers = receiver.accept(Time(0), Arrival { pushed, ..arrival(seq, true, 0, ecn, false) });
            (answers, receiver.is_early(), receiver.ack().cum, receiver.ack().ece())
        };
        (0..16).for_each(|seq| assert!(arrive(seq, Ecn::Ect0, false).0));
        assert!(!arrive(16, Ecn::Ect0, false).0);
        assert_eq!(arrive(17, Ecn::Ce, true), (true, true, 17, false));
    }

    #[test]
    fn rfc8257_3_2_the_segment_at_a_change_waits_for_the_timer_as_any_other() {
        let mut receiver = Receiver::new(&Config { ecn: true, cc: Cc::Dctcp, quickack: false, ..bounded() });
        assert!(!receiver.accept(Time(0), arrival(0, true, 10, Ecn::Ect0, false)));
        assert!(receiver.accept(Time(1), arrival(1, true, 11, Ecn::Ce, false)) && receiver.is_early());
        let early = receiver.ack();
        assert_eq!((early.cum, early.ts_first, early.ts_last, early.ece()), (1, 10, 10, false));
        assert_eq!(receiver.next_event(), Time(1) + DELACK);
        let late = receiver.on_timer(Time(1) + DELACK).expect("it is due");
        assert_eq!((late.cum, late.ts_first, late.ts_last, late.ece()), (2, 11, 11, true));
    }

    #[test]
    fn linux_acknowledges_the_segment_at_a_change_at_once_after_what_came_before() {
        let mut receiver = Receiver::new(&Config { ecn: true, cc: Cc::Dctcp, ..bounded() });
        let mut arrive = |seq, ecn| receiver.accept(Time(u64::from(seq)), arrival(seq, true, seq, ecn, false));
        // After the quick ones.
        (0..16).for_each(|seq| assert!(arrive(seq, Ecn::Ect0)));
        assert!(!arrive(16, Ecn::Ect0) && arrive(17, Ecn::Ce));
        assert!(receiver.is_early());
        let early = receiver.ack();
        assert_eq!((early.cum, early.ece(), receiver.next_event()), (17, false, Time(17)));
        let own = receiver.on_timer(Time(17)).expect("it is due");
        assert_eq!((own.cum, own.ece(), receiver.next_event()), (18, true, Time::NEVER));
        // No ACK is delayed: this segment is acknowledged itself.
        assert!(receiver.accept(Time(20), arrival(18, true, 18, Ecn::Ect0, false)) && !receiver.is_early());
        assert!(!receiver.accept(Time(21), arrival(19, true, 19, Ecn::Ect0, false)), "and the next one waits");
    }

    /// `tcp_ecn_accept_cwr`, with `dctcp_ece_ack_update`: CWR does not end the echo.
    #[test]
    fn linux_acknowledges_what_comes_with_cwr_at_once_to_a_dctcp_sender_too() {
        for (quickack, answers) in [(true, true), (false, false)] {
            let mut receiver = Receiver::new(&Config { ecn: true, cc: Cc::Dctcp, quickack, ..bounded() });
            // After the quick ones, and one that waits for the timer.
            (0..17).for_each(|seq| {
                receiver.accept(Time(u64::from(seq)), arrival(seq, true, 0, Ecn::Ce, false));
            });
            receiver.ack_now();
            assert_eq!(receiver.accept(Time(20), arrival(17, true, 0, Ecn::Ce, true)), answers);
            assert!(receiver.ack().ece() && !receiver.is_early());
        }
    }

    #[test]
    fn rfc9768_3_2_2_acks_carry_the_count_of_marks_modulo_8_from_5_on() {
        let mut receiver = Receiver::new(&Config { ecn: true, cc: Cc::Prague, acks: AckPolicy::Every, ..bounded() });
        let counts = (0..12u32).map(|seq| {
            let ecn = if seq % 4 == 3 { Ecn::Ect1 } else { Ecn::Ce };
            assert!(receiver.accept(Time(1), arrival(seq, true, 0, ecn, seq == 5)));
            receiver.ack().ace
        });
        assert_eq!(counts.collect::<Vec<u8>>(), [6, 7, 0, 0, 1, 2, 3, 3, 4, 5, 6, 6]);
    }

    #[test]
    fn rfc9768_3_2_2_5_1_the_first_mark_and_the_second_since_an_ack_are_acknowledged_at_once() {
        let config = Config { ecn: true, cc: Cc::Prague, acks: AckPolicy::Window(Some(100)), ..bounded() };
        let mut receiver = Receiver::new(&config);
        let marks = [false, false, true, true, true, true, false, false, true, false];
        let answered = (0u32..).zip(marks).filter(|&(seq, ce)| {
            let ecn = if ce { Ecn::Ce } else { Ecn::Ect1 };
            receiver.accept(Time(1), arrival(seq, true, 0, ecn, false))
        });
        assert_eq!(answered.map(|(seq, _)| seq).collect::<Vec<u32>>(), [2, 4, 8]);
    }

    /// The first segments of a Reno flow through `codel target 1us interval 1us`, 10 Mbit/s and 10 ms, in the kernel world: when they
    /// arrive, in us, and the RTT that their timestamps show. The window opens with six of them, at 16 with an odd number of quick ACKs left.
    #[test]
    fn quick_acks_while_the_window_opens_end_where_linux_ends_them() {
        let arrivals = [
            (0, 17_016, 11_323),
            (1, 18_228, 12_535),
            (3, 19_439, 13_746),
            (8, 20_650, 14_957),
            (9, 21_861, 16_168),
            (10, 28_280, 11_264),
            (11, 29_492, 12_476),
            (12, 30_703, 12_475),
            (13, 31_914, 13_686),
            (14, 33_125, 13_686),
            (15, 34_336, 13_686),
            (2, 35_548, 13_687),
            (4, 40_772, 11_280),
            (5, 41_983, 11_280),
            (6, 43_194, 11_280),
            (7, 44_405, 11_280),
            (16, 45_616, 11_280),
            (17, 46_828, 11_280),
            (18, 52_045, 11_273),
            (19, 53_256, 11_273),
            (20, 54_468, 11_274),
            (21, 55_679, 11_274),
            (22, 56_890, 11_274),
            (23, 58_101, 11_273),
        ];
        let mut receiver = Receiver::new(&Config { rmem: Some(64 << 20), hz: 250, ..Config::default() });
        receiver.on_opened(10_100);
        receiver.on_established(Time(15_805_000));
        let delayed = arrivals.into_iter().filter(|&(seq, us, rtt_us)| {
            let arrival = Arrival { rtt_us, ..arrival(seq, true, us, Ecn::NotEct, false) };
            !receiver.accept(Time(u64::from(us) * 1000), arrival)
        });
        assert_eq!(delayed.map(|(seq, ..)| seq).collect::<Vec<u32>>(), [21, 23]);
    }

    /// Segments 0 to 5 have arrived. 5 was sent again at 60 ms, without need: 6 and later ones were sent at 11 ms.
    fn after_a_needless_retransmission(config: &Config) -> Receiver {
        let mut receiver = Receiver::new(config);
        for (seq, ts) in [(0, 10_000), (1, 10_000), (2, 10_000), (3, 10_000), (4, 10_000), (5, 60_000)] {
            receiver.accept(Time(80_000_000), arrival(seq, true, ts, Ecn::NotEct, false));
        }
        receiver.ack_now();
        receiver.take_blocks();
        receiver
    }

    /// `tcp_validate_incoming`, `tcp_send_dupack`: answered at once, and reported as a duplicate only if it is below the ACK.
    #[test]
    fn rfc7323_5_a_segment_that_is_older_than_the_echoed_timestamp_is_discarded_and_answered() {
        let mut receiver = after_a_needless_retransmission(&Config::default());
        let mut old = |seq| {
            let answers = receiver.accept(Time(81_000_000), arrival(seq, true, 11_000, Ecn::Ce, false));
            let (ack, (blocks, count)) = (receiver.ack(), receiver.take_blocks());
            (answers, ack.cum, ack.ts_first, blocks[..count].to_vec(), receiver.counters().paws_estab)
        };
        assert_eq!(old(6), (true, 6, 60_000, Vec::new(), 1));
        assert_eq!(old(8), (true, 6, 60_000, Vec::new(), 2), "nor is it held above a hole");
        assert_eq!(old(5), (true, 6, 60_000, [Block { start: 5, end: 6 }].to_vec(), 3));
    }

    /// `tcp_paws_check` with TCP_PAWS_WINDOW, in whole milliseconds; `tcp_replace_ts_recent` has no such tolerance.
    #[test]
    fn rfc7323_5_a_timestamp_may_be_a_millisecond_older_but_is_not_echoed_then() {
        for (ts, cum, echo) in [(58_999, 6, 60_000), (59_000, 7, 60_000), (60_100, 7, 60_100)] {
            let mut receiver = after_a_needless_retransmission(&Config::default());
            receiver.accept(Time(81_000_000), arrival(6, true, ts, Ecn::NotEct, false));
            let ack = receiver.ack_now();
            assert_eq!((ack.cum, ack.ts_first), (cum, echo), "{ts}");
        }
    }

    #[test]
    fn what_paws_discards_changes_neither_the_echo_of_marks_nor_the_delay_of_acks() {
        for cc in [Cc::Cubic, Cc::Dctcp, Cc::Prague] {
            let mut receiver = after_a_needless_retransmission(&Config { ecn: true, cc, ..Config::default() });
            let before = receiver.ack().ace;
            receiver.accept(Time(81_000_000), arrival(6, true, 11_000, Ecn::Ce, true));
            assert_eq!((receiver.ack().ace, receiver.is_early()), (before, false), "{cc:?}");
        }
    }

    #[test]
    fn without_timestamps_nothing_is_too_old() {
        let mut receiver = after_a_needless_retransmission(&Config { timestamps: false, ..Config::default() });
        receiver.accept(Time(81_000_000), arrival(6, true, 11_000, Ecn::NotEct, false));
        assert_eq!(
            (receiver.ack_now().cum, receiver.ack_now().ts_first, receiver.counters().paws_estab),
            (7, 11_000, 0)
        );
    }

    /// Timestamps wrap after 4295 s, so that a newer one looks older after half of that. Linux: TCP_PAWS_WRAP.
    #[test]
    fn after_half_the_range_of_timestamps_or_without_one_to_compare_with_nothing_is_too_old() {
        for (first_s, pause_s) in [(0, 2146), (0, 2148), (0, 3000), (0, 4290), (3000, 1), (4294, 2)] {
            let mut receiver = Receiver::new(&Config::default());
            for (seq, at_s) in [(0, first_s), (1, first_s + pause_s)] {
                let now = Time(at_s * 1_000_000_000);
                receiver.accept(now, arrival(seq, true, (now.0 / 1000) as u32, Ecn::NotEct, false));
            }
            assert_eq!((receiver.next_expected(), receiver.counters().paws_estab), (2, 0), "{first_s} s, {pause_s} s");
        }
    }

    /// `tcp_data_queue` clears `rx_opt.dsack`: a duplicate is reported only if its ACK is sent before the next segment arrives.
    #[test]
    fn a_duplicate_whose_ack_waits_is_forgotten_when_another_segment_arrives() {
        let mut receiver = compressing();
        rush(&mut receiver, 18..24);
        assert_eq!(rush(&mut receiver, [20]), []);
        let own = receiver.clone().on_timer(receiver.next_event()).map(|_| receiver.clone().take_blocks().0[0]);
        assert_eq!(own, Some(Block { start: 20, end: 21 }));
        assert_eq!(rush(&mut receiver, [24]), []);
        assert!(receiver.on_timer(receiver.next_event()).is_some());
        assert_eq!(receiver.take_blocks().0[0], Block { start: 18, end: 25 });
    }
}
