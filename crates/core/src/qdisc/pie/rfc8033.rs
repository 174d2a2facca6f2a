//! The controllers of RFC 8033's appendices: A, the basic scheme, and B, with its options.

use super::Params;
use crate::rng::Rng;
use crate::units::{Span, Time};

/// RFC 8033 appendix A: `MAX_BURST`.
const MAX_BURST: Span = Span::from_millis(150);
/// RFC 8033 appendix B: `MAX_ECNTH`.
const MAX_ECNTH: f64 = 0.1;
/// RFC 8033 §5.2: `DQ_THRESHOLD`, in bytes.
const DQ_THRESHOLD: u64 = 1 << 14;
/// RFC 8033 appendix B: the weight of a new measurement in the average, DQ_THRESHOLD / 2^16.
const WEIGHT: f64 = (DQ_THRESHOLD as f64) / 65_536.0;

/// The computation that both appendices share.
#[derive(Clone, Debug)]
struct Control {
    /// `QDELAY_REF`.
    target: Span,
    /// `T_UPDATE`.
    tupdate: Span,
    /// The weight of the delay's distance from the target, in 1/s.
    alpha: f64,
    /// The weight of the delay's change, in 1/s.
    beta: f64,
    /// Nothing is dropped while this number of bytes or less is queued: 2 `MEAN_PKTSIZE`.
    few: u64,
}

impl Control {
    fn new(params: &Params, mtu: u64) -> Control {
        let hertz = |sixteenths| f64::from(sixteenths) / 16.0;
        Control {
            target: params.target,
            tupdate: params.tupdate,
            alpha: hertz(params.alpha),
            beta: hertz(params.beta),
            few: 2 * mtu,
        }
    }

    /// Returns the largest multiple of `tupdate` that can be added to `update` so that it remains before `now`.
    fn whole_periods(&self, update: Time, now: Time) -> Span {
        Span(now.since(update).0.saturating_sub(1) / self.tupdate.0 * self.tupdate.0)
    }

    /// Returns whether a delay is below half the target.
    fn is_low(&self, delay: Span) -> bool {
        delay.0 < self.target.0 / 2
    }

    /// Returns the change of the probability at an update, scaled by the table of RFC 8033 §4.2.
    fn change(&self, prob: f64, delay: Span, before: Span) -> f64 {
        let (delay, before) = (delay.as_secs_f64(), before.as_secs_f64());
        let p = self.alpha * (delay - self.target.as_secs_f64()) + self.beta * (delay - before);
        p / match prob {
            prob if prob < 1e-6 => 2048.0,
            prob if prob < 1e-5 => 512.0,
            prob if prob < 1e-4 => 128.0,
            prob if prob < 1e-3 => 32.0,
            prob if prob < 1e-2 => 8.0,
            prob if prob < 1e-1 => 2.0,
            _ => 1.0,
        }
    }

    /// RFC 8033 §4.1: whether nothing may be dropped now.
    fn spares(&self, prob: f64, delay_before: Span, backlog: u64) -> bool {
        (self.is_low(delay_before) && prob < 0.2) || backlog <= self.few
    }
}

/// Appendix A.
#[derive(Clone, Debug)]
pub struct Basic {
    control: Control,
    /// When the next update is due.
    next: Time,
    pub(super) burst_allowance: Span,
    /// The drop probability.
    pub drop_prob: f64,
    pub(super) qdelay_old: Span,
    current_qdelay: Span,
}

impl Basic {
    /// The state at time zero. `mtu` is in bytes.
    pub fn new(params: &Params, mtu: u64) -> Basic {
        Basic {
            control: Control::new(params, mtu),
            next: Time::ZERO + params.tupdate,
            burst_allowance: Span::ZERO,
            drop_prob: 0.0,
            qdelay_old: Span::ZERO,
            current_qdelay: Span::ZERO,
        }
    }

    /// The delay of the packet that left last; zero after a dequeue found the queue empty.
    pub fn delay(&self) -> Span {
        self.current_qdelay
    }

    /// Returns whether a mark may replace a drop.
    pub fn marks(&self) -> bool {
        self.drop_prob < MAX_ECNTH
    }

    /// Computes the updates that were due before `now`.
    #[inline]
    pub fn update(&mut self, now: Time) {
        while self.next < now {
            let before = (self.drop_prob, self.qdelay_old, self.burst_allowance);
            self.calculate_drop_prob();
            self.next += self.control.tupdate;
            if before == (self.drop_prob, self.qdelay_old, self.burst_allowance) {
                // The remaining updates would change nothing either.
                self.next += self.control.whole_periods(self.next, now);
            }
        }
    }

    #[cold]
    fn calculate_drop_prob(&mut self) {
        let (delay, before) = (self.current_qdelay, self.qdelay_old);
        self.drop_prob += self.control.change(self.drop_prob, delay, before);
        if delay == Span::ZERO && before == Span::ZERO {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        self.qdelay_old = delay;
        self.burst_allowance = self.burst_allowance - self.control.tupdate;
    }

    /// Returns whether an arrival at a queue of `backlog` bytes is to be dropped.
    pub fn drop_early(&mut self, backlog: u64, rng: &mut Rng) -> bool {
        let low = self.control.is_low(self.current_qdelay) && self.control.is_low(self.qdelay_old);
        if self.drop_prob == 0.0 && low {
            self.burst_allowance = MAX_BURST;
        }
        self.burst_allowance == Span::ZERO
            && !self.control.spares(self.drop_prob, self.qdelay_old, backlog)
            && rng.uniform() < self.drop_prob
    }

    /// Handles the departure of a packet that waited for this time.
    pub fn dequeued(&mut self, waited: Span) {
        self.current_qdelay = waited;
    }

    /// Handles a dequeue from an empty queue.
    pub fn emptied(&mut self) {
        self.current_qdelay = Span::ZERO;
    }
}

/// Appendix B.
#[derive(Clone, Debug)]
pub struct Enhanced {
    control: Control,
    /// PIE becomes active when this number of bytes is queued: `TAIL_DROP` / 3.
    third: u64,
    pub(super) active: bool,
    pub(super) burst_allowance: Span,
    /// The drop probability.
    pub drop_prob: f64,
    pub(super) accu_prob: f64,
    pub(super) qdelay_old: Span,
    /// The time of the last update, or at which PIE became active.
    last_timestamp: Time,
    /// Bytes that left during the present measurement.
    dq_count: u64,
    measurement_start: Time,
    pub(super) in_measurement: bool,
    /// The average time in ns that `DQ_THRESHOLD` bytes take to leave; zero if it is not known.
    pub(super) avg_dq_time: f64,
}

impl Enhanced {
    /// The state at time zero. `mtu` and `tail_drop` are in bytes.
    pub fn new(params: &Params, mtu: u64, tail_drop: u64) -> Enhanced {
        Enhanced {
            control: Control::new(params, mtu),
            third: tail_drop / 3,
            active: false,
            burst_allowance: Span::ZERO,
            drop_prob: 0.0,
            accu_prob: 0.0,
            qdelay_old: Span::ZERO,
            last_timestamp: Time::ZERO,
            dq_count: 0,
            measurement_start: Time::ZERO,
            in_measurement: false,
            avg_dq_time: 0.0,
        }
    }

    /// The delay at the last update.
    pub fn delay(&self) -> Span {
        self.qdelay_old
    }

    /// Returns whether a mark may replace a drop.
    pub fn marks(&self) -> bool {
        self.drop_prob < MAX_ECNTH
    }

    /// Resets the spacing of drops after a drop.
    pub fn forget_accu_prob(&mut self) {
        self.accu_prob = 0.0;
    }

    /// Computes the updates that were due before `now`. `backlog`, in bytes, has not changed since the last packet
    /// arrived or left.
    #[inline]
    pub fn update(&mut self, now: Time, backlog: u64) {
        while self.active && self.last_timestamp + self.control.tupdate < now {
            let before = (self.drop_prob, self.qdelay_old, self.burst_allowance);
            self.last_timestamp += self.control.tupdate;
            self.calculate_drop_prob(backlog);
            if before == (self.drop_prob, self.qdelay_old, self.burst_allowance) {
                self.last_timestamp += self.control.whole_periods(self.last_timestamp, now);
            }
        }
    }

    #[cold]
    fn calculate_drop_prob(&mut self, backlog: u64) {
        // RFC 8033 §5.2: Little's law
        let delay = Span((backlog as f64 * self.avg_dq_time / DQ_THRESHOLD as f64) as u64);
        let before = self.qdelay_old;
        let mut p = self.control.change(self.drop_prob, delay, before);
        if self.drop_prob >= 0.1 && p > 0.02 {
            p = 0.02; // RFC 8033 §5.5
        }
        self.drop_prob += p;
        let low = self.control.is_low(delay) && self.control.is_low(before);
        if low {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        self.qdelay_old = delay;
        self.burst_allowance = self.burst_allowance - self.control.tupdate;
        if low && self.drop_prob == 0.0 && backlog < self.third {
            self.active = false; // RFC 8033 §5.3
            self.in_measurement = false;
        }
    }

    /// Returns whether an arrival at a queue of `backlog` bytes is to be dropped.
    pub fn drop_early(&mut self, backlog: u64, rng: &mut Rng) -> bool {
        if !self.active || self.control.spares(self.drop_prob, self.qdelay_old, backlog) {
            return false;
        }
        if self.drop_prob == 0.0 {
            self.accu_prob = 0.0;
        }
        self.accu_prob += self.drop_prob;
        // RFC 8033 §5.4
        let drop = match self.accu_prob {
            sum if sum < 0.85 => false,
            sum if sum >= 8.5 => true,
            _ => {
                let drop = rng.uniform() < self.drop_prob;
                if drop {
                    self.accu_prob = 0.0;
                }
                drop
            }
        };
        drop && self.burst_allowance == Span::ZERO
    }

    /// Handles a packet that was queued. The backlog is now `backlog` bytes.
    pub fn queued(&mut self, now: Time, backlog: u64) {
        if self.active || backlog < self.third {
            return;
        }
        // RFC 8033 appendix B: PIE becomes active when a third of the buffer is in use.
        *self = Enhanced {
            control: self.control.clone(),
            third: self.third,
            active: true,
            burst_allowance: MAX_BURST,
            drop_prob: 0.0,
            accu_prob: 0.0,
            qdelay_old: Span::ZERO,
            last_timestamp: now,
            dq_count: 0,
            measurement_start: now,
            in_measurement: true,
            avg_dq_time: 0.0,
        };
    }

    /// Handles the departure of a packet of `bytes`, which leaves a backlog of `backlog` bytes.
    pub fn dequeued(&mut self, now: Time, bytes: u32, backlog: u64) {
        if self.in_measurement {
            self.dq_count += u64::from(bytes);
            if self.dq_count >= DQ_THRESHOLD {
                let time = now.since(self.measurement_start).0 as f64;
                self.avg_dq_time = match self.avg_dq_time {
                    0.0 => time,
                    average => time * WEIGHT + average * (1.0 - WEIGHT),
                };
                self.in_measurement = false;
            }
        }
        if backlog >= DQ_THRESHOLD && !self.in_measurement {
            self.in_measurement = true;
            self.measurement_start = now;
            self.dq_count = 0;
        }
    }
}
