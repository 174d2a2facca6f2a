//! The counters that RFC 9332 recommends for each queue (§2.5.2.2) and for overload (§2.5.2.3). They only grow, so the
//! difference of two readings is the value for the time between.

use crate::packet::Ecn;
use crate::qdisc::{Count, Stats};
use crate::units::{Span, Time};

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fate {
    Send,
    Mark,
    Drop,
}

const MICROSECOND: u64 = 1_000;
/// Upper ends of the bins of a queue's delay histogram, in µs. A last bin counts longer delays.
const EDGES_US: [u64; 10] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000];
/// Names of a queue's counters: those of the C queue, and those of the L queue.
const NAMES: [[&str; 8]; 2] = [
    [
        "arrived-c",
        "forwarded-c",
        "bytes-forwarded-c",
        "ecn-mark-c",
        "not-ect-drop-c",
        "ecn-drop-c",
        "delay-sum-us-c",
        "delay-max-us-c",
    ],
    [
        "arrived-l",
        "forwarded-l",
        "bytes-forwarded-l",
        "ecn-mark-l",
        "not-ect-drop-l",
        "ecn-drop-l",
        "delay-sum-us-l",
        "delay-max-us-l",
    ],
];
/// Names of the bins.
const BINS: [[&str; EDGES_US.len() + 1]; 2] = [
    [
        "delay-100us-c",
        "delay-200us-c",
        "delay-500us-c",
        "delay-1ms-c",
        "delay-2ms-c",
        "delay-5ms-c",
        "delay-10ms-c",
        "delay-20ms-c",
        "delay-50ms-c",
        "delay-100ms-c",
        "delay-longer-c",
    ],
    [
        "delay-100us-l",
        "delay-200us-l",
        "delay-500us-l",
        "delay-1ms-l",
        "delay-2ms-l",
        "delay-5ms-l",
        "delay-10ms-l",
        "delay-20ms-l",
        "delay-50ms-l",
        "delay-100ms-l",
        "delay-longer-l",
    ],
];
/// Overload that returns within this time is the same overload, so that reports are not repeated (§2.5.2.3).
const HYSTERESIS: Span = Span::from_secs(1);

/// Counters of one queue. `arrived` counts all arrivals, and `pkts-in` of the discipline those that were presented to
/// the AQM. The others met a full buffer.
#[derive(Clone, Debug, Default)]
struct Queue {
    arrived: u64,
    forwarded: u64,
    bytes: u64,
    marked: u64,
    not_ect_dropped: u64,
    ecn_dropped: u64,
    delay_sum: Span,
    delay_max: Span,
    bins: [u64; EDGES_US.len() + 1],
}

/// Counters of the discipline.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    /// The counters of the C queue and of the L queue.
    queues: [Queue; 2],
    /// When the present overload began, if there is one.
    overload: Option<Time>,
    /// When the last overload ended.
    ended: Time,
    /// When the overload that was last counted in `overloads` began.
    started: Time,
    overloads: u64,
    overloaded: Span,
}

impl Monitor {
    /// Counts an arrival for the L queue (`low`) or the C queue.
    pub fn arrived(&mut self, low: bool) {
        self.queues[usize::from(low)].arrived += 1;
    }

    /// Counts a packet that leaves the head of its queue after `waited`, with this fate.
    pub fn leaves(&mut self, low: bool, bytes: u32, waited: Span, ecn: Ecn, fate: Fate) {
        let queue = &mut self.queues[usize::from(low)];
        match (fate, ecn.is_capable()) {
            (Fate::Drop, true) => queue.ecn_dropped += 1,
            (Fate::Drop, false) => queue.not_ect_dropped += 1,
            (Fate::Mark, true) => queue.marked += 1,
            _ => {}
        }
        if fate == Fate::Drop {
            return;
        }
        queue.forwarded += 1;
        queue.bytes += u64::from(bytes);
        queue.delay_sum += waited;
        queue.delay_max = queue.delay_max.max(waited);
        queue.bins[EDGES_US.partition_point(|&edge| edge * MICROSECOND < waited.0)] += 1;
    }

    /// Records whether there is overload at `now`.
    #[inline]
    pub fn overload(&mut self, now: Time, on: bool) {
        if on != self.overload.is_some() {
            self.turns(now);
        }
    }

    #[cold]
    fn turns(&mut self, now: Time) {
        if let Some(since) = self.overload.take() {
            self.overloaded += now.since(since);
            self.ended = now;
            return;
        }
        self.overload = Some(now);
        if self.overloads == 0 || now > self.ended + HYSTERESIS {
            self.overloads += 1;
            self.started = now;
        }
    }

    /// Appends all counters to `stats`, as of `now`.
    pub fn put(&self, now: Time, stats: &mut Stats) {
        for (queue, (names, bins)) in self.queues.iter().zip(NAMES.iter().zip(&BINS)) {
            let Queue { arrived, forwarded, bytes, marked, not_ect_dropped, ecn_dropped, .. } = *queue;
            let (sum, longest) = (queue.delay_sum.0 / MICROSECOND, queue.delay_max.0 / MICROSECOND);
            let values = [arrived, forwarded, bytes, marked, not_ect_dropped, ecn_dropped, sum, longest];
            stats.extend(names.iter().copied().zip(values.map(Count::from)));
            stats.extend(bins.iter().copied().zip(queue.bins.map(Count::from)));
        }
        let under_way = self.overload.map_or(Span::ZERO, |since| now.since(since));
        stats.push(("overloads", self.overloads.into()));
        stats.push(("overload-start-us", (self.started.0 / MICROSECOND).into()));
        stats.push(("overload-us", ((self.overloaded + under_way).0 / MICROSECOND).into()));
    }
}
