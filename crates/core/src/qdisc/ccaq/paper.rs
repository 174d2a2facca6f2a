//! `ccaq variant paper`: a queue for each flow, whose packet limit adapts to the flow's congestion control.
//!
//! Source: the paper "Congestion Control Aware Queuing", Algorithm 1, and the removal of excess packets of its final
//! version; parameters and defaults are those published with it.
//! Principle: a buffer has the right size if it just runs empty after a sender reduces its window. The flow's queue
//! between two losses (an interval) shows how far the size was off. If the queue ran empty, the link lost that time,
//! and the limit grows by the packets that would have been sent in it. If the queue always held some packets, these
//! only caused delay, and the limit shrinks by their number. Losses in quick succession belong to one reduction.
//! Therefore the limit shrinks only at a loss after the end of a guard interval (GI), by the standing queue of its
//! longest interval (LI). A GI lasts `multiplier` times the previous LI, at most `max_gi`, and with `max_gi_rtts` at
//! most that multiple of the flow's most recent RTT.
//!
//! Scheduling, the limit of the whole queue, and the creation and removal of flows are those of fq. Limits change only
//! when a packet arrives at a full buffer.
//!
//! Deviations, and decisions where the paper leaves them open:
//! - "The link was idle" means that this flow's queue was empty, from the departure of its last packet until the next
//!   arrival, as in the published code. This includes silence of the application and turns of other flows.
//! - "Packets transmitted" are departures in the interval; "time active" is the interval without its idle time.
//! - The limit grows by whole packets, rounded down. If that is zero, the arriving packet is still accepted (line 5),
//!   one above the limit. Without any active time the rate is unbounded if packets left (the greatest increase
//!   applies), otherwise zero.
//! - `max_increase` is a factor: 2 means that the limit at most doubles. The new limit is rounded down.
//! - A flow's first interval begins with its first packet. It never changes the limit, but its length sets the first
//!   GI. After an increase of the limit, the interval that has just ended is used as the LI in the same way.
//! - If a loss ends both an interval and the GI, the interval still belongs to that GI. Among intervals of equal length
//!   the first is the LI.
//! - A loss exactly at the end time of the GI is after the GI, as with the paper's ≥ (the published code has >).
//! - An LI without a departure is no evidence, so the limit does not shrink. (The published code reads beyond the end
//!   of a list there.)
//! - The limit never falls below one packet.
//! - The packets beyond a lowered limit are dropped at once, from the tail, and counted everywhere; the arriving packet
//!   is dropped after them.
//! - The paper proposes TCP timestamps for the RTT. They need both directions, but a discipline sees only one. In that
//!   direction, the sender's answer to the SYN-ACK follows its SYN after one round trip; a SYN that was retransmitted
//!   gives no RTT (Karn's algorithm). The most recent RTT is this time, minus the SYN's wait in this queue, plus the
//!   wait of the packet of the flow that left last. It is read when a GI begins. Before the first handshake, and for
//!   flows without TCP, there is no RTT, and only `max_gi` applies. The answer must have the same full hash as the SYN.
//!   Flows that share a queue because of `orphan_mask` share the RTT of the latest handshake.
//! - `max_gi` limits the GI, not the LI. Inactive flows are removed by fq's rule; the published code waits for ten
//!   seconds.
//! - There is no pacing: packets held back would look like a standing queue.

use super::super::Context;
use super::super::fq::{self, Buffer, FlowQueues, Scheduling, Verdict};
use super::Params;
use crate::packet::Packet;
use crate::units::{Rate, Span, Time};

/// Denominator of the factors, so that the arithmetic uses integers.
const ONE: u64 = 1_000_000;

/// The parameters as the algorithm uses them.
#[derive(Clone, PartialEq, Debug)]
pub struct Adaptation {
    /// Packets in one flow's queue at first.
    flow_limit: u32,
    /// Length of a GI as a multiple of the LI, in millionths.
    multiplier: u64,
    /// Greatest factor by which a limit grows at once, in millionths.
    max_increase: u64,
    /// Longest GI.
    max_gi: Span,
    /// Longest GI as a multiple of the RTT, in millionths; with 0 only `max_gi` limits it.
    max_gi_rtts: u64,
}

impl Adaptation {
    fn new(params: &Params) -> Self {
        let millionths = |factor: f64| libm::round(factor * ONE as f64) as u64;
        Adaptation {
            flow_limit: params.flow_limit,
            multiplier: millionths(params.multiplier),
            max_increase: millionths(params.max_increase),
            max_gi: params.max_gi,
            max_gi_rtts: millionths(params.max_gi_rtts),
        }
    }

    /// Returns the end of a guard interval that begins at `now`. Its length follows from the longest interval of the
    /// previous guard interval and from the flow's RTT.
    fn guard_end(&self, now: Time, longest: Span, rtt: Option<Span>) -> Time {
        let most = match rtt {
            // Paper, §2.3: at most a multiple of the most recent RTT, such as 2, 4 or 8.
            Some(rtt) if self.max_gi_rtts > 0 => self.max_gi.min(Span(scale(rtt.0, self.max_gi_rtts))),
            _ => self.max_gi,
        };
        now + Span(scale(longest.0, self.multiplier)).min(most)
    }
}

/// `value` times a factor in millionths, rounded down, saturating.
fn scale(value: u64, factor: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(factor) / u128::from(ONE)).unwrap_or(u64::MAX)
}

/// Observations of the flow since its last loss.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start: Time,
    /// How long the flow's queue was empty.
    idle: Span,
    /// Packets that left.
    packets: u64,
    /// The fewest packets left behind by a departure; without a departure, [`Interval::NONE`].
    min_queue: u32,
}

impl Interval {
    /// The value of `min_queue` as long as no packet has departed.
    const NONE: u32 = u32::MAX;

    fn new(start: Time) -> Self {
        Interval { start, idle: Span::ZERO, packets: 0, min_queue: Self::NONE }
    }
}

/// A SYN of a connection that has sent nothing but SYNs since.
#[derive(Clone, Copy, Debug)]
struct Opening {
    at: Time,
    /// All 32 bits of the hash: other flows of this queue do not match it.
    hash: u32,
    /// The SYN was sent more than once. A SYN-ACK may then answer any of them, so it gives no RTT (Karn).
    ambiguous: bool,
}

/// A flow's RTT, measured from one direction.
#[derive(Clone, Copy, Default, Debug)]
struct RoundTrip {
    opening: Option<Opening>,
    /// The RTT of the latest handshake, without the wait in this queue.
    base: Option<Span>,
    /// The wait of the packet that left last.
    waited: Span,
}

impl RoundTrip {
    #[inline]
    fn arrival(&mut self, now: Time, packet: &impl Packet) {
        if packet.opens() || self.opening.is_some() {
            self.handshake(now, packet.flow_hash(), packet.opens());
        }
    }

    #[cold]
    fn handshake(&mut self, now: Time, hash: u32, opens: bool) {
        match &mut self.opening {
            Some(opening) if opening.hash == hash => {
                if opens {
                    opening.ambiguous = true;
                    return;
                }
                if !opening.ambiguous {
                    // The SYN was the flow's last packet to leave, so `waited` is the SYN's wait.
                    self.base = Some(now.since(opening.at) - self.waited);
                }
                self.opening = None;
            }
            opening if opens => *opening = Some(Opening { at: now, hash, ambiguous: false }),
            _ => {}
        }
    }

    fn latest(&self) -> Option<Span> {
        self.base.map(|base| base + self.waited)
    }
}

/// One flow's buffer: its limit and the state of the adaptation.
#[derive(Clone, Debug)]
pub struct Adaptive {
    limit: u32,
    /// The first interval of the flow has not ended.
    first: bool,
    /// The limit was raised in this interval.
    enlarged: bool,
    /// When the queue became empty, if it is empty.
    idle_since: Option<Time>,
    current: Interval,
    /// Length of the longest interval that ended in this GI; `longest_min_queue` is the `min_queue` of that interval.
    longest: Span,
    longest_min_queue: u32,
    /// End of the guard interval.
    gi_end: Time,
    round_trip: RoundTrip,
}

impl Adaptive {
    /// When the guard interval ends.
    pub fn gi_end(&self) -> Time {
        self.gi_end
    }

    /// The flow's most recent RTT, if one was seen.
    pub fn rtt(&self) -> Option<Span> {
        self.round_trip.latest()
    }

    /// Handles a packet that arrives at a full buffer (Algorithm 1, lines 2 to 19).
    #[cold]
    fn full(&mut self, now: Time, params: &Adaptation) -> Verdict {
        if self.current.idle > Span::ZERO && !self.enlarged && !self.first {
            self.enlarge(now, params);
            return Verdict::Enlarge;
        }
        let length = now.since(self.current.start);
        if self.first || self.enlarged {
            self.new_guard(now, length, params);
            return Verdict::Refuse;
        }
        if length > self.longest {
            (self.longest, self.longest_min_queue) = (length, self.current.min_queue);
        }
        if now < self.gi_end {
            self.current = Interval::new(now);
            return Verdict::Refuse;
        }
        let standing = if self.longest_min_queue == Interval::NONE { 0 } else { self.longest_min_queue };
        self.new_guard(now, self.longest, params);
        if standing == 0 {
            return Verdict::Refuse;
        }
        self.limit = self.limit.saturating_sub(standing).max(1);
        Verdict::Shrink(self.limit)
    }

    /// Raises the limit after an interval with idle time, by the number of packets that the link could have sent during
    /// the idle time. The limit grows at most by the factor `max_increase`.
    fn enlarge(&mut self, now: Time, params: &Adaptation) {
        let Interval { start, idle, packets, .. } = self.current;
        let active = now.since(start) - idle;
        let growth = match (packets, active.0) {
            (0, _) => 0,
            (_, 0) => u64::MAX,
            (packets, active) => {
                u64::try_from(u128::from(packets) * u128::from(idle.0) / u128::from(active)).unwrap_or(u64::MAX)
            }
        };
        let limit = u64::from(self.limit);
        let most = scale(limit, params.max_increase).max(limit);
        self.limit = u32::try_from(limit.saturating_add(growth).min(most)).unwrap_or(u32::MAX);
        self.enlarged = true;
    }

    /// Begins a new interval and a new guard interval. The length of the guard interval follows from `longest`.
    fn new_guard(&mut self, now: Time, longest: Span, params: &Adaptation) {
        self.gi_end = params.guard_end(now, longest, self.rtt());
        self.current = Interval::new(now);
        (self.longest, self.longest_min_queue) = (Span::ZERO, Interval::NONE);
        (self.first, self.enlarged) = (false, false);
    }
}

impl Buffer for Adaptive {
    type Params = Adaptation;
    type QdiscParams = Params;
    const ADAPTS: bool = true;

    fn limit(&self) -> u32 {
        self.limit
    }

    /// `ccaq_change`: a flow keeps the limit that it has.
    fn change(given: &Params, scheduling: &mut Scheduling, adaptation: &mut Adaptation) {
        scheduling.limit = given.limit;
        scheduling.quantum = given.quantum.unwrap_or(scheduling.quantum);
        scheduling.initial_quantum = given.initial_quantum.unwrap_or(scheduling.initial_quantum);
        *adaptation = Adaptation::new(given);
    }

    fn new(now: Time, params: &Adaptation) -> Self {
        Adaptive {
            limit: params.flow_limit,
            first: true,
            enlarged: false,
            idle_since: None,
            current: Interval::new(now),
            longest: Span::ZERO,
            longest_min_queue: Interval::NONE,
            gi_end: now,
            round_trip: RoundTrip::default(),
        }
    }

    #[inline]
    fn arrival(&mut self, now: Time, params: &Adaptation, queued: u32, packet: &impl Packet) -> Verdict {
        self.round_trip.arrival(now, packet);
        if let Some(since) = self.idle_since.take() {
            self.current.idle += now.since(since);
        }
        if queued < self.limit { Verdict::Accept } else { self.full(now, params) }
    }

    #[inline]
    fn departure(&mut self, now: Time, left: u32, packet: &impl Packet) {
        self.round_trip.waited = now.since(packet.enqueue_time());
        self.current.packets += 1;
        self.current.min_queue = self.current.min_queue.min(left);
        if left == 0 {
            self.idle_since = Some(now);
        }
    }
}

/// The discipline.
pub type Paper<P> = FlowQueues<P, Adaptive>;

impl<P: Packet + Copy> Paper<P> {
    /// Creates the discipline without flows, in front of a link. Everything else has the defaults of fq, without
    /// pacing.
    pub fn new(params: &Params, context: &Context) -> Self {
        let fq = fq::Params::default();
        let scheduling = Scheduling {
            limit: params.limit,
            quantum: params.quantum.unwrap_or(2 * context.mtu),
            initial_quantum: params.initial_quantum.unwrap_or(10 * context.mtu),
            buckets: fq.buckets,
            orphan_mask: fq.orphan_mask,
            refill_delay: fq.refill_delay,
            ce_threshold: Span::MAX,
            maxrate: None,
            rated: false,
            low_rate_threshold: Rate(0),
            linux: false,
            fast_path: false,
        };
        FlowQueues::with(scheduling, Adaptation::new(params))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
    use crate::qdisc::{DropReason, Qdisc};
    use alloc::vec::Vec;

    fn params(flow_limit: u32) -> Params {
        Params { flow_limit, ..Params::default() }
    }

    fn ccaq(params: Params) -> Bench<Paper<Parcel>> {
        Bench::new(Paper::new(&params, &CONTEXT))
    }

    fn take(bench: &mut Bench<Paper<Parcel>>, now: Time, count: u32) {
        for _ in 0..count {
            assert!(bench.take(now).is_some());
        }
    }

    fn limit(bench: &Bench<Paper<Parcel>>) -> u32 {
        bench.qdisc.buffer(1).expect("a known flow").limit()
    }

    fn gi_end(bench: &Bench<Paper<Parcel>>) -> Time {
        bench.qdisc.buffer(1).expect("a known flow").gi_end()
    }

    /// One flow whose limit is 10 and whose first interval ended at 40 ms, with a full queue.
    fn after_the_first_interval() -> Bench<Paper<Parcel>> {
        let mut bench = ccaq(params(10));
        bench.fill(ms(0), 1, 1000, 10);
        take(&mut bench, ms(20), 10);
        bench.fill(ms(39), 1, 1000, 10);
        bench.put(ms(40), 1, 1000);
        assert_eq!(bench.new_drops().len(), 1);
        bench
    }

    #[test]
    fn c12_the_first_interval_never_adapts_but_sets_the_first_guard_interval() {
        // The queue was empty for 19 ms of the 40, and the flow's limit is what it was.
        let bench = after_the_first_interval();
        assert_eq!(limit(&bench), 10);
        assert_eq!(gi_end(&bench), ms(90), "40 ms + 1.25 × 40 ms");
    }

    #[test]
    fn c12_the_limit_grows_by_packets_per_active_time_times_idle_time() {
        let mut bench = after_the_first_interval();
        take(&mut bench, ms(55), 10);
        bench.fill(ms(60), 1, 1000, 10);
        assert_eq!(limit(&bench), 10, "nothing happens before a packet meets a full buffer");
        bench.put(ms(60), 1, 1000);
        // 10 packets in 15 ms, 5 ms idle: 3.33 more.
        assert_eq!(limit(&bench), 13);
        assert!(bench.new_drops().is_empty(), "the packet that met the full buffer is kept (line 5)");
        assert_eq!(bench.qdisc.packets(), 11);
    }

    #[test]
    fn c12_the_limit_grows_once_an_interval_and_the_next_loss_starts_a_guard_interval() {
        let mut bench = after_the_first_interval();
        take(&mut bench, ms(55), 10);
        bench.fill(ms(60), 1, 1000, 13);
        assert_eq!((limit(&bench), bench.new_drops().len()), (13, 0));
        take(&mut bench, ms(70), 13);
        bench.fill(ms(80), 1, 1000, 13);
        let lost = bench.put(ms(80), 1, 1000);
        assert_eq!(limit(&bench), 13);
        assert_eq!(bench.new_drops(), [(lost, DropReason::FlowLimit)]);
        assert_eq!(gi_end(&bench), ms(130), "80 ms + 1.25 × the 40 ms since the loss at 40 ms");
    }

    #[test]
    fn c12_growth_stops_at_max_increase_times_the_limit() {
        for (max_increase, expected) in [(2.0, 20), (1.5, 15), (1.0, 10)] {
            let mut bench = ccaq(Params { max_increase, ..params(10) });
            bench.fill(ms(0), 1, 1000, 11);
            take(&mut bench, ms(1), 10);
            // 10 packets in 1 ms, 9 ms idle: 90 more.
            bench.fill(ms(10), 1, 1000, 11);
            assert_eq!(limit(&bench), expected, "{max_increase}");
        }
    }

    #[test]
    fn c12_the_cut_is_the_least_queue_of_the_longest_interval_taken_from_the_tail_at_once() {
        let mut bench = ccaq(params(10));
        bench.fill(ms(0), 1, 1000, 11);
        // No departure yet: no evidence, no cut; but a guard interval of 125 ms.
        bench.put(ms(100), 1, 1000);
        assert_eq!((limit(&bench), gi_end(&bench)), (10, ms(225)));
        // 60 ms with a least queue of 6: the longest interval.
        take(&mut bench, ms(110), 4);
        bench.fill(ms(160), 1, 1000, 5);
        // 30 ms with 3.
        take(&mut bench, ms(170), 7);
        bench.fill(ms(190), 1, 1000, 8);
        // 35 ms with 9.
        take(&mut bench, ms(200), 1);
        bench.fill(ms(200), 1, 1000, 1);
        assert_eq!((limit(&bench), bench.qdisc.packets()), (10, 10));
        bench.new_drops();
        let lost = bench.put(ms(225), 1, 1000);
        assert_eq!(limit(&bench), 4);
        assert_eq!(gi_end(&bench), ms(300), "225 ms + 1.25 × 60 ms");
        let mut expected: Vec<_> = (0..6).map(|_| DropReason::Shrink).collect();
        expected.push(DropReason::FlowLimit);
        let drops = bench.new_drops();
        assert_eq!(drops.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), expected);
        assert!(drops.is_sorted_by_key(|(id, _)| *id) && drops[6].0 == lost);
        assert_eq!((bench.qdisc.packets(), bench.qdisc.backlog()), (4, 4000), "the books agree after the cut");
        let left: Vec<u32> = core::iter::from_fn(|| bench.take(ms(226))).map(|packet| packet.id).collect();
        assert!(left.is_sorted() && *left.last().expect("four") < drops[0].0, "the oldest stay");
    }

    #[test]
    fn before_the_guard_interval_ends_a_loss_only_starts_a_new_interval_and_at_its_very_end_it_cuts() {
        for (at, expected) in [(Time(224_999_999), 10), (ms(225), 4)] {
            let mut bench = ccaq(params(10));
            bench.fill(ms(0), 1, 1000, 11);
            bench.put(ms(100), 1, 1000);
            take(&mut bench, ms(110), 4);
            bench.fill(ms(110), 1, 1000, 4);
            bench.put(at, 1, 1000);
            assert_eq!(limit(&bench), expected, "{at}");
        }
    }

    #[test]
    fn a_queue_that_ran_empty_is_no_standing_queue() {
        let mut bench = after_the_first_interval();
        take(&mut bench, ms(50), 10);
        // No time passes with an empty queue: neither growth nor a cut.
        bench.fill(ms(50), 1, 1000, 10);
        bench.put(ms(200), 1, 1000);
        assert_eq!((limit(&bench), bench.qdisc.packets()), (10, 10));
    }

    #[test]
    fn an_interval_without_a_departure_is_no_evidence_for_a_cut() {
        // The public module reads beyond the end of the list here.
        let mut bench = ccaq(params(10));
        bench.fill(ms(0), 1, 1000, 11);
        for at in 1..50 {
            bench.put(ms(at * 10), 1, 1000);
        }
        assert_eq!((limit(&bench), bench.qdisc.packets()), (10, 10));
    }

    #[test]
    fn the_guard_interval_is_at_most_max_gi_and_its_multiplier_may_be_a_half() {
        let run = |params: Params| {
            let mut bench = ccaq(params);
            bench.fill(ms(0), 1, 1000, 10);
            bench.put(ms(4000), 1, 1000);
            gi_end(&bench)
        };
        assert_eq!(run(params(10)), ms(5000));
        assert_eq!(run(Params { max_gi: Span::from_secs(30), ..params(10) }), ms(9000));
        assert_eq!(run(Params { multiplier: 0.5, max_gi: Span::from_secs(30), ..params(10) }), ms(6000));
    }

    fn rtt(bench: &Bench<Paper<Parcel>>) -> Option<Span> {
        bench.qdisc.buffer(1).expect("a known flow").rtt()
    }

    /// One flow whose limit is 10, after a handshake of 100 ms.
    fn after_the_handshake(params: Params) -> Bench<Paper<Parcel>> {
        let mut bench = ccaq(Params { flow_limit: 10, ..params });
        bench.put_syn(ms(0), 1);
        take(&mut bench, ms(0), 1);
        assert_eq!(rtt(&bench), None, "the answer is on its way");
        bench.put(ms(100), 1, 1000);
        bench
    }

    #[test]
    fn c14_the_guard_interval_is_at_most_max_gi_rtts_times_the_most_recent_round_trip() {
        for (max_gi_rtts, max_gi, expected) in [
            (4.0, 1000, 4600),
            (2.0, 1000, 4300),
            (2.5, 1000, 4375),
            (8.0, 1000, 5000), // 1.2 s: max_gi is shorter
            (4.0, 50, 4050),
            (0.0, 1000, 5000), // off
        ] {
            let params = Params { max_gi_rtts, max_gi: Span::from_millis(max_gi), ..Params::default() };
            let mut bench = after_the_handshake(params);
            // It waits for 50 ms: a round trip of 150 ms, now that there is a queue.
            take(&mut bench, ms(150), 1);
            bench.fill(ms(4000), 1, 1000, 11);
            assert_eq!((rtt(&bench), gi_end(&bench)), (Some(Span::from_millis(150)), ms(expected)), "{max_gi_rtts}");
        }
    }

    #[test]
    fn c14_the_multiplier_still_ends_a_guard_interval_earlier_than_the_round_trips_would() {
        let params = Params { max_gi_rtts: 8.0, multiplier: 0.5, ..Params::default() };
        let mut bench = after_the_handshake(params);
        bench.fill(ms(200), 1, 1000, 10);
        assert_eq!(gi_end(&bench), ms(300));
    }

    #[test]
    fn without_a_known_round_trip_only_max_gi_bounds_the_guard_interval() {
        let mut bench = ccaq(Params { max_gi_rtts: 4.0, ..params(10) });
        bench.fill(ms(0), 1, 1000, 10);
        bench.put(ms(4000), 1, 1000);
        assert_eq!((rtt(&bench), gi_end(&bench)), (None, ms(5000)));
    }

    #[test]
    fn the_round_trip_outside_is_the_handshake_less_the_wait_of_the_syn_in_this_queue() {
        let mut bench = ccaq(params(10));
        bench.fill(ms(0), 1, 1000, 1);
        bench.put_syn(ms(10), 1);
        take(&mut bench, ms(30), 2);
        bench.put(ms(130), 1, 1000);
        // 120 ms from arrival to arrival, 20 of which the SYN spent here; it is also the last that left.
        assert_eq!(rtt(&bench), Some(Span::from_millis(120)));
        take(&mut bench, ms(130), 1);
        assert_eq!(rtt(&bench), Some(Span::from_millis(100)));
    }

    #[test]
    fn karn_a_syn_that_was_sent_again_is_no_sample_and_the_next_connection_measures_anew() {
        let mut bench = after_the_handshake(params(10));
        take(&mut bench, ms(100), 1);
        bench.put_syn(ms(2000), 1);
        bench.put_syn(ms(3000), 1);
        take(&mut bench, ms(3000), 2);
        bench.put(ms(3010), 1, 1000);
        take(&mut bench, ms(3010), 1);
        assert_eq!(rtt(&bench), Some(Span::from_millis(100)), "neither 10 nor 1010 ms");
        bench.put_syn(ms(4000), 1);
        take(&mut bench, ms(4000), 1);
        bench.put(ms(4030), 1, 1000);
        assert_eq!(rtt(&bench), Some(Span::from_millis(30)));
        bench.put(ms(4500), 1, 1000);
        assert_eq!(rtt(&bench), Some(Span::from_millis(30)), "only the first packet after the SYN answers");
    }

    #[test]
    fn a_flow_that_shares_the_queue_by_its_masked_hash_does_not_answer_a_syn() {
        let mut bench = ccaq(params(10));
        bench.put_syn(ms(0), 1);
        take(&mut bench, ms(0), 1);
        bench.put(ms(5), 1 + 1024, 1000);
        assert_eq!(rtt(&bench), None);
        take(&mut bench, ms(5), 1);
        bench.put(ms(100), 1, 1000);
        assert_eq!(rtt(&bench), Some(Span::from_millis(100)));
    }

    #[test]
    fn the_limit_stays_at_one_packet_at_least_and_nothing_divides_by_zero() {
        let adaptation = Adaptation::new(&params(1));
        let mut buffer = Adaptive::new(ms(0), &adaptation);
        let packet = Parcel::default();
        assert_eq!(buffer.arrival(ms(0), &adaptation, 0, &packet), Verdict::Accept);
        assert_eq!(buffer.arrival(ms(0), &adaptation, 1, &packet), Verdict::Refuse);
        // Out and in again within one instant of the interval, then idle: no active time at all.
        buffer.departure(ms(0), 0, &packet);
        assert_eq!(buffer.arrival(ms(5), &adaptation, 0, &packet), Verdict::Accept);
        assert_eq!(buffer.arrival(ms(5), &adaptation, 1, &packet), Verdict::Enlarge);
        assert_eq!(buffer.limit(), 2, "an unbounded rate grows the limit by the greatest factor");
        buffer.limit = 3;
        buffer.enlarged = false;
        buffer.current = Interval { min_queue: 7, ..Interval::new(ms(5)) };
        assert_eq!(buffer.arrival(ms(2000), &adaptation, 3, &packet), Verdict::Shrink(1));
        assert_eq!(buffer.limit(), 1);
    }

    #[test]
    fn growth_below_one_packet_keeps_the_limit_and_still_takes_the_packet() {
        let mut bench = after_the_first_interval();
        take(&mut bench, ms(139), 10);
        bench.fill(ms(140), 1, 1000, 11);
        // 10 packets in 99 ms, 1 ms idle.
        assert_eq!((limit(&bench), bench.qdisc.packets()), (10, 11));
        let lost = bench.put(ms(140), 1, 1000);
        assert_eq!(bench.new_drops(), [(lost, DropReason::FlowLimit)]);
    }

    #[test]
    fn the_limit_of_all_comes_first_and_teaches_nothing() {
        let mut bench = ccaq(Params { limit: 5, ..params(10) });
        bench.fill(ms(0), 1, 1000, 5);
        let refused = bench.put(ms(10), 1, 1000);
        assert_eq!(bench.new_drops(), [(refused, DropReason::Overlimit)]);
        assert_eq!(gi_end(&bench), ms(0));
    }

    #[test]
    fn each_flow_learns_alone() {
        let mut bench = after_the_first_interval();
        bench.fill(ms(50), 2, 1000, 10);
        assert_eq!(bench.qdisc.buffer(2).map(|b| (b.limit(), b.first)), Some((10, true)));
        assert_eq!(bench.qdisc.buffer(1).map(|b| b.first), Some(false));
    }
}
