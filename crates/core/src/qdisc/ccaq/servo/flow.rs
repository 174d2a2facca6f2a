//! The state of a flow: its round trip, its target, and CoDel's law with that target.

use crate::qdisc::codel::{Law, Linux, Linux7};

/// Time in units of 1.024 µs, as CoDel in Linux has it. It wraps around after 73 minutes.
pub type Tick = u32;

/// Ticks of a time in microseconds.
const fn micros(us: u64) -> Tick {
    ((us * 1_000) >> 10) as Tick
}

/// The interval of a flow whose round trip is shorter or not known, and the least distance of its first drops: CoDel's
/// default.
pub const INTERVAL: Tick = micros(100_000);
/// The target of a flow until its round trip is known: the best one for CUBIC at an RTT of 80 ms.
const FIRST_TARGET: Tick = micros(20_000);
/// The bounds of a target: at least this, and for a flow without a known round trip at most the second.
const LEAST: Tick = micros(1_000);
const MOST: Tick = micros(300_000);
/// A target is at least an eighth of the round trip, as far as that is at most this. RFC 8289 §4.3 advises 5 to 10 % of
/// it. Otherwise many flows, with which the link is never idle, would lower each other's targets so far that the one
/// that remains starves.
const HIGHEST_FLOOR: Tick = micros(20_000);
/// Round trips that are believed.
const SHORTEST_RTT: Tick = micros(2_000);
const LONGEST_RTT: Tick = micros(1_000_000);
/// The packets among whose gaps the round trip is sought if no handshake was seen: an initial window (RFC 6928) and its
/// successors.
const OPENING: u8 = 8;
/// The state of a flow is forgotten after this silence.
const FORGET: Tick = micros(60_000_000);
/// An epoch lasts at least this many intervals or targets in which the flow sends.
const EPOCH: u32 = 4;
/// A larger idle share, 3/8, has another cause than the target: a halved window leaves the link idle for a quarter of
/// the time at most.
const NOT_OURS: u32 = 3 << 13;
/// The shortest pause of a sender.
const PAUSE: Tick = micros(10_000);
/// A packet that is older than the target by this many intervals belongs to a flow that does not respond.
const OLDEST: u32 = 8;
/// After this many packets of such a flow were dropped, half that age is enough, and so on, [`MOST_HALVINGS`] times.
const PATIENCE: u8 = 32;
const MOST_HALVINGS: u8 = 6;
/// With fewer MTUs behind its head, the delay of a queue says more about the other flows than about its sender.
const FEW: u64 = 4;
/// The delay above which a packet with ECT(1) is marked: the step of dualpi2 (RFC 9332 §A.1).
const STEP: Tick = micros(1_000);
/// The most drops of one dequeue, as in Linux 7.
const MOST_DROPS: u32 = Linux7::MOST_DROPS;

/// The fate of the packet at the head of a flow's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is sent.
    Pass,
    /// It is the signal: it is marked and sent, or dropped.
    Signal,
    /// It is dropped, because the flow does not respond.
    Discard,
}

/// The discipline's parameters that the rules of a flow read.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// The share of idle time to reach, in units of 1/65536.
    pub share: u32,
    /// The largest packet of the link, in bytes.
    pub mtu: u64,
}

/// The packet at the head of a flow's queue.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// How long it has waited.
    pub sojourn: Tick,
    /// No packet of the flow is behind it.
    pub last: bool,
    /// The bytes of the flow behind it.
    pub behind: u64,
    /// The bytes that are queued in all flows together, without it.
    pub backlog: u64,
    /// It carries ECT(1), so its sender is a scalable one (RFC 9331) and expects marks above a step.
    pub scalable: bool,
    /// Signals of this dequeue so far.
    pub signals: u32,
}

/// The part of a flow's handshake that has been seen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Handshake {
    /// None, or it is over.
    #[default]
    Over,
    /// A SYN or SYN-ACK was the last packet.
    Sent,
    /// It was sent more than once, so that an answer may belong to any of them (Karn).
    Repeated,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    // CoDel's variables, as in `codel_vars`.
    count: u32,
    lastcount: u32,
    first_above_time: Tick,
    drop_next: Tick,
    rec_inv_sqrt: u16,
    dropping: bool,

    /// Packets dropped because the flow does not respond, since its delay was below the target; at most 255.
    discards: u8,
    /// Another flow has used this queue since it was last empty.
    shared: bool,
    /// Packets seen, up to [`OPENING`].
    seen: u8,
    handshake: Handshake,
    /// The round trip was not taken from an unambiguous handshake. It may be too short, so it may be lengthened.
    guessed: bool,
    /// At least one episode of dropping is over.
    has_answered: bool,
    /// This episode has had a second signal.
    repeated: bool,
    /// The queue has shrunk in this episode.
    shrunk: bool,
    /// An epoch has begun.
    began: bool,
    /// The target was raised when the last epoch ended, and dropping waited.
    raised: bool,

    /// The delay above which the queue is too long.
    target: Tick,
    /// The round trip without the queue, as far as it is known; 0 if not. While the first packets come, their longest
    /// gap.
    rtt: Tick,
    /// The second longest gap of the first packets. Later the last response, if it was much shorter than the round
    /// trip, otherwise 0.
    second_gap: Tick,
    /// The time of the last arrival.
    last_arrival: Tick,

    /// The epoch: the least sojourn, the time in which the flow was sending, and for how long of it the link was idle.
    least: Tick,
    active: Tick,
    idle: Tick,
    /// The link's idle time at the last arrival.
    seen_idle: Tick,
    /// The longest sojourn since the last signal, or since the last time when the queue had shrunk.
    peak: Tick,
    /// The time of the first signal of the episode.
    signal: Tick,
    /// The arrival of the last packet that waited for about as long as `peak`.
    peak_arrival: Tick,
}

/// The target to begin with, for a flow of this round trip.
///
/// That is a quarter of the round trip, which CUBIC needs. From 133 ms on it is more, up to half the round trip from 200
/// ms on: there a sender takes minutes to recover from a cut that was one too many.
fn first_target(rtt: Tick) -> Tick {
    (rtt / 4).max((rtt / 2).min(rtt.saturating_sub(INTERVAL)))
}

impl Flow {
    /// A flow that has had no packet.
    pub const NEW: Flow = Flow {
        count: 0,
        lastcount: 0,
        first_above_time: 0,
        drop_next: Linux::LONG_AGO,
        rec_inv_sqrt: 0,
        dropping: false,
        discards: 0,
        shared: false,
        seen: 0,
        handshake: Handshake::Over,
        guessed: false,
        has_answered: false,
        repeated: false,
        shrunk: false,
        began: false,
        raised: false,
        target: FIRST_TARGET,
        rtt: 0,
        second_gap: 0,
        last_arrival: 0,
        least: Tick::MAX,
        active: 0,
        idle: 0,
        seen_idle: 0,
        peak: 0,
        signal: 0,
        peak_arrival: 0,
    };

    /// The delay above which the queue is too long.
    pub fn target(&self) -> Tick {
        self.target
    }

    /// The round trip without the queue; 0 if it is not known.
    pub fn rtt(&self) -> Tick {
        if self.seen < OPENING { 0 } else { self.rtt }
    }

    /// The share of its epoch for which the link was idle, in units of 1/65536.
    pub fn idle_share(&self) -> u32 {
        if self.active == 0 { 0 } else { ((u64::from(self.idle) << 16) / u64::from(self.active)) as u32 }
    }

    /// For how long no packet has arrived.
    pub fn silence(&self, now: Tick) -> Tick {
        now.wrapping_sub(self.last_arrival)
    }

    /// A packet of another flow is put into the queue.
    pub fn share(&mut self) {
        self.shared = true;
    }

    /// Whether packets of other flows may wait in the queue, if it has packets.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// A limit of the discipline has taken packets of this flow, as `fq_codel_drop` counts them.
    pub fn overflowed(&mut self, packets: u32) {
        self.count = self.count.wrapping_add(packets);
    }

    /// The time for which the delay must have been above the target.
    fn interval(&self) -> Tick {
        INTERVAL.max(self.rtt())
    }

    /// The distance of the first drops: an answer takes a round trip, and another one to be seen.
    fn spacing(&self) -> Tick {
        INTERVAL.max(2 * self.rtt())
    }

    /// A gap in which the link is idle for longer than this is the sender's own pause, and says nothing about its target.
    ///
    /// A window that is halved at its largest may stop the sender for half a round trip. BBR stops for a whole one when it
    /// looks for the round trip. Links that send in bursts (Wi-Fi, DOCSIS) delay ACKs for some milliseconds. A guess may be
    /// too short, so no gap is too long for it.
    #[inline]
    fn pause(&self) -> Tick {
        if self.guessed { Tick::MAX } else { PAUSE.max(self.rtt() / 2) }
    }

    /// The age from which on the flow's packets are dropped, as it does not respond.
    #[inline]
    fn oldest(&self) -> Tick {
        self.target + ((OLDEST * self.interval()) >> (self.discards / PATIENCE).min(MOST_HALVINGS))
    }

    /// A packet arrives. `is_empty` says whether the flow's queue is empty, `opens` whether it is a SYN or SYN-ACK, and
    /// `idle` for how long the link has been idle so far.
    #[inline]
    pub fn arrival(&mut self, now: Tick, is_empty: bool, opens: bool, idle: Tick) {
        let mut gap = self.silence(now);
        if gap > FORGET && is_empty {
            *self = Flow::NEW;
        }
        // A SYN among packets of other flows says nothing about their round trips.
        let opens = opens && !self.shared;
        if opens || self.seen < OPENING {
            if self.seen == 0 {
                gap = Tick::MAX; // The first packet has no gap before it.
            }
            self.open(gap, opens);
        }
        let idle_in_gap = idle.wrapping_sub(self.seen_idle);
        if gap <= 2 * self.interval() && idle_in_gap <= self.pause() {
            self.active = self.active.saturating_add(gap);
            self.idle = self.idle.wrapping_add(idle_in_gap);
        }
        self.seen_idle = idle;
        self.last_arrival = now;
    }

    /// Looks for the round trip in the first packets of a flow.
    ///
    /// In one direction the packet that follows a SYN or a SYN-ACK comes one round trip later. Without a handshake, or
    /// if it was sent again, the gaps of the first packets are compared: the sender waits for ACKs between its first
    /// flights. The longest gap may contain the time that an application thinks; the second longest is a round trip
    /// too, if it is similar.
    #[cold]
    fn open(&mut self, gap: Tick, opens: bool) {
        if opens {
            let handshake = if self.handshake == Handshake::Over { Handshake::Sent } else { Handshake::Repeated };
            *self = Flow { handshake, seen: 1, shared: self.shared, seen_idle: self.seen_idle, ..Flow::NEW };
            return;
        }
        let handshake = core::mem::take(&mut self.handshake);
        // A longer gap is a pause.
        let gap = if gap <= LONGEST_RTT { gap } else { 0 };
        if handshake != Handshake::Over && gap > 0 {
            self.learn(gap.max(SHORTEST_RTT), handshake == Handshake::Repeated);
            return;
        }
        if gap > self.rtt {
            (self.rtt, self.second_gap) = (gap, self.rtt);
        } else {
            self.second_gap = self.second_gap.max(gap);
        }
        self.seen += 1;
        if self.seen == OPENING {
            let gap = if self.second_gap > self.rtt / 4 { self.second_gap } else { self.rtt };
            self.learn(if gap >= SHORTEST_RTT { gap } else { 0 }, true);
        }
    }

    /// Sets the round trip, 0 if it is not known, and the target to begin with.
    fn learn(&mut self, rtt: Tick, guessed: bool) {
        self.seen = OPENING;
        (self.rtt, self.guessed, self.second_gap) = (rtt, guessed, 0);
        if rtt > 0 {
            self.target = first_target(rtt);
        }
        self.bound();
    }

    /// Keeps the target within its bounds. A window that is halved at its largest keeps the link busy with a target of
    /// one round trip, so more is never needed.
    pub(super) fn bound(&mut self) {
        let most = if self.rtt > 0 { self.rtt } else { MOST };
        let least = LEAST.max((self.rtt / 8).min(HIGHEST_FLOOR));
        self.target = self.target.min(most).max(least);
    }

    /// The flow's queue was found empty at its turn.
    #[inline]
    pub fn empty(&mut self) {
        self.shared = false;
        self.discards = 0;
        self.first_above_time = 0;
        self.least = 0;
        self.stop();
    }

    /// Decides about the packet at the head of the queue.
    #[inline(always)]
    pub fn head(&mut self, now: Tick, head: Head, control: &Control) -> Verdict {
        let Head { sojourn, last, behind, backlog, scalable, signals } = head;
        if sojourn > self.target && sojourn > self.oldest() && !last {
            self.count = self.count.wrapping_add(1);
            self.discards = self.discards.saturating_add(1);
            return Verdict::Discard;
        }
        if scalable {
            // Such a sender keeps its queue at the step by itself, so there is nothing to adjust.
            return if sojourn > STEP && !last { Verdict::Signal } else { Verdict::Pass };
        }
        self.least = self.least.min(sojourn);
        if self.dropping {
            self.peak = self.peak.max(sojourn);
            if !self.shrunk && sojourn >= self.peak - self.peak / 16 {
                self.peak_arrival = now.wrapping_sub(sojourn);
            }
        }
        // CoDel never drops from a backlog of one MTU (RFC 8289 §4.4).
        if sojourn < self.target || backlog <= control.mtu {
            self.discards = 0;
            self.first_above_time = 0;
            self.stop();
            return Verdict::Pass;
        }
        if self.first_above_time == 0 {
            self.first_above_time = now.wrapping_add(self.interval()).max(1);
            self.stop();
            return Verdict::Pass;
        }
        if !Linux::after(now, self.first_above_time) {
            self.stop();
            return Verdict::Pass;
        }
        if self.dropping && Linux::after(self.drop_next, now) {
            return Verdict::Pass;
        }
        self.too_long(now, sojourn, behind, signals, control)
    }

    /// The delay was above the target for an interval, and a signal is due.
    #[cold]
    #[inline(never)]
    fn too_long(&mut self, now: Tick, sojourn: Tick, behind: u64, signals: u32, control: &Control) -> Verdict {
        let few = behind < FEW * control.mtu;
        if !self.dropping {
            if self.judge(sojourn, control.share) {
                self.first_above_time = 0;
                return Verdict::Pass;
            }
            self.start(now, sojourn, few);
            return Verdict::Signal;
        }
        if signals == 0 {
            // The queue has shrunk since the last signal: the sender has answered, and the queue drains by itself.
            let answered = !few && sojourn < self.peak - self.peak / 16;
            self.peak = sojourn;
            if answered {
                self.shrunk = true;
                self.drop_next = Linux::control_law(now, self.spacing(), self.rec_inv_sqrt);
                return Verdict::Pass;
            }
            self.repeated = true;
        }
        if signals == MOST_DROPS {
            self.drop_next = Linux::control_law(now, self.spacing(), self.rec_inv_sqrt);
            return Verdict::Pass;
        }
        self.count = self.count.wrapping_add(1);
        self.rec_inv_sqrt = Linux::next_root(self.rec_inv_sqrt, self.count);
        self.drop_next = Linux7::control_law(self.drop_next, self.spacing(), self.rec_inv_sqrt);
        Verdict::Signal
    }

    /// Starts an episode of dropping with its first signal.
    fn start(&mut self, now: Tick, sojourn: Tick, few: bool) {
        self.dropping = true;
        (self.repeated, self.shrunk) = (false, false);
        (self.signal, self.peak, self.peak_arrival) = (now, sojourn, now.wrapping_sub(sojourn));
        let delta = self.count.wrapping_sub(self.lastcount);
        // A first episode has none to resume, whatever a limit has counted.
        if self.lastcount > 0 && delta > 1 && Linux::resumes(now, self.drop_next, self.spacing()) {
            self.count = delta;
            self.rec_inv_sqrt = Linux::next_root(self.rec_inv_sqrt, self.count);
        } else {
            self.count = 1;
            self.rec_inv_sqrt = Linux::first_root();
        }
        self.lastcount = self.count;
        // The answer is seen behind the packets that wait now.
        let wait = if few { 0 } else { sojourn };
        self.drop_next = Linux::control_law(now, self.spacing() + wait, self.rec_inv_sqrt);
    }

    /// Ends the episode of dropping, if there is one.
    #[inline]
    fn stop(&mut self) {
        if self.dropping {
            self.dropping = false;
            self.check_rtt();
            self.has_answered = true;
        }
    }

    /// Compares the round trip with the sender's response.
    ///
    /// The queue is at its longest when the packets arrive that the sender sent just before it learned of the signal:
    /// one round trip after the signal. If other flows come or go meanwhile, the response may seem shorter, so two in a
    /// row are needed to shorten the round trip; except in the first episode, where slow start makes it clear. It may
    /// seem longer as well, so only a guess is lengthened, and not in slow start, which may need several signals. A round
    /// trip that is not known is taken from the response.
    #[cold]
    fn check_rtt(&mut self) {
        let response = self.peak_arrival.wrapping_sub(self.signal);
        if response.cast_signed() <= 0 {
            return;
        }
        if self.rtt == 0 {
            self.learn(response.clamp(SHORTEST_RTT, LONGEST_RTT), true);
            return;
        }
        let last = core::mem::take(&mut self.second_gap);
        if !self.repeated && response < self.rtt / 2 {
            if last > 0 || !self.has_answered {
                self.rtt = response.max(last).max(SHORTEST_RTT);
                self.guessed = true;
                self.target = self.target.min(first_target(self.rtt));
                self.bound();
            } else {
                self.second_gap = response;
            }
        } else if self.guessed && self.has_answered && response > self.rtt + self.rtt / 2 {
            self.rtt = response.min(LONGEST_RTT);
            self.bound();
        }
    }

    /// CoDel is about to begin dropping: a cycle of the sender's window is over. Adjusts the target, and returns true if
    /// the drop is to wait because the target is above the delay now.
    fn judge(&mut self, sojourn: Tick, share: u32) -> bool {
        if !self.began || self.raised {
            self.new_epoch();
            return false;
        }
        if self.active < EPOCH * self.interval().max(self.target) {
            return false; // It is the same congestion, and the epoch goes on.
        }
        let before = self.target;
        let idle = self.idle_share();
        if idle > share {
            if idle <= NOT_OURS {
                if self.guessed && before >= self.rtt {
                    // The target is as high as it may be, and still too low: the round trip is longer.
                    self.rtt = (2 * self.rtt).min(LONGEST_RTT);
                }
                let rise = (u64::from(before) * u64::from(idle - share)) >> 12;
                self.target += rise.min(3 * u64::from(before)) as Tick;
            }
        } else {
            let least = if self.least == Tick::MAX { 0 } else { self.least };
            let standing = least - least / 4;
            let creep = ((u64::from(before) * u64::from(share - idle)) >> 13) as Tick;
            self.target -= standing.max(creep).min(before / 2);
        }
        self.bound();
        if self.target > before && self.target > sojourn {
            self.raised = true;
            return true;
        }
        self.new_epoch();
        false
    }

    fn new_epoch(&mut self) {
        (self.began, self.raised) = (true, false);
        (self.active, self.idle, self.least) = (0, 0, Tick::MAX);
    }
}

#[cfg(test)]
impl Flow {
    /// Whether the target was raised and dropping waits.
    pub fn is_raised(&self) -> bool {
        self.raised
    }

    /// Packets dropped because the flow does not respond.
    pub fn discards(&self) -> u8 {
        self.discards
    }

    /// Whether the round trip may be too short.
    pub fn is_guessed(&self) -> bool {
        self.guessed
    }

    /// Whether an episode of dropping is over.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Sets the target without its bounds.
    pub fn set_target(&mut self, target: Tick) {
        self.target = target;
    }
}
