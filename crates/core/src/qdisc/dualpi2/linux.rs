//! Linux's controller of dualpi2, in its integers.

use super::monitor::Fate;
use super::params::{ALPHA_BETA_SCALE, Gains, Params, StepThresh};
use crate::packet::Ecn;
use crate::rng::Rng;
use crate::units::{Span, Time};

/// A probability of one.
const MAX_PROB: u32 = u32::MAX;
/// The right shift that converts gains from units of 2^-8 Hz (`tc`) to Linux's units of 2^6 ns: 8 - 6 bits.
const ALPHA_BETA_SCALING: u32 = 2;
/// Gains are in units of 2^6 ns.
const ALPHA_BETA_GRANULARITY: u32 = 6;
/// The default gains, in units of 1/256 Hz.
const ALPHA: u32 = 41;
const BETA: u32 = 819;
/// How late the update timer expires.
const LATE: Span = Span(1);

/// The controller.
#[derive(Clone, Debug)]
pub struct Linux {
    target: Span,
    tupdate: Span,
    alpha: u32,
    beta: u32,
    coupling_factor: u8,
    drop_overload: bool,
    /// Apply the probabilities to arrivals.
    pub drop_enqueue: bool,
    step_thresh: StepThresh,
    /// The step applies to arrivals that find at least this number of packets in the L queue.
    pub min_qlen_step: usize,
    /// While the queues hold fewer bytes than this (2 MTU), the probabilities neither drop nor mark packets.
    few: u64,
    /// When the next update is made.
    next: Time,
    /// The base probability.
    pub prob: u32,
    last_qdelay: u64,
}

/// Converts a gain from units of 1/256 Hz to Linux's units (`dualpi2_scale_alpha_beta`).
fn scale(param: u32) -> u32 {
    (((u64::from(param) * u64::from(MAX_PROB)) >> ALPHA_BETA_SCALING) / 1_000_000_000) as u32
}

impl Linux {
    /// Creates the controller at time zero.
    pub fn new(params: &Params, mtu: u32) -> Linux {
        let tupdate = Span::from_millis(16);
        let mut linux = Linux {
            target: params.target,
            tupdate,
            alpha: scale(ALPHA),
            beta: scale(BETA),
            coupling_factor: 0,
            drop_overload: false,
            drop_enqueue: false,
            step_thresh: params.step_thresh,
            min_qlen_step: 0,
            few: 2 * u64::from(mtu),
            next: Time::ZERO,
            prob: 0,
            last_qdelay: 0,
        };
        linux.change(params);
        linux.next = Time::ZERO + linux.tupdate + LATE;
        linux
    }

    /// Sets the given parameters. A new `tupdate` applies from the next update on.
    pub fn change(&mut self, params: &Params) {
        let of_tc = |hertz: f64| (hertz as f32 * ALPHA_BETA_SCALE as f32) as u32;
        let gains = Gains::of_rtts(params);
        // tc truncates both: the gains that it derives from the RTTs in double precision, and those that it reads in
        // single precision.
        let derived = |hertz: f64| (hertz * ALPHA_BETA_SCALE) as u32;
        let alpha = gains.map(|gains| derived(gains.alpha)).or(params.alpha.map(of_tc));
        let beta = gains.map(|gains| derived(gains.beta)).or(params.beta.map(of_tc));
        self.target = gains.map_or(params.target, |gains| gains.target);
        self.tupdate = gains.map(|gains| gains.tupdate).or(params.tupdate).unwrap_or(self.tupdate);
        self.alpha = alpha.map_or(self.alpha, scale);
        self.beta = beta.map_or(self.beta, scale);
        self.coupling_factor = params.coupling_factor as u8;
        self.drop_overload = params.drop_on_overload;
        self.drop_enqueue = params.drop_enqueue;
        self.step_thresh = params.step_thresh;
        self.min_qlen_step = params.min_qlen_step as usize;
    }

    /// Makes the updates that were due by `now`. `heads` are the arrival times of the heads of the C and the L queue,
    /// which have not changed since the first of these updates was due.
    #[inline]
    pub fn update(&mut self, now: Time, heads: (Option<Time>, Option<Time>)) {
        if self.next <= now {
            self.catch_up(now, heads);
        }
    }

    #[inline(never)]
    fn catch_up(&mut self, now: Time, (c, l): (Option<Time>, Option<Time>)) {
        while self.next <= now {
            let delay = |head: Option<Time>| head.map_or(0, |head| self.next.since(head).0);
            let qdelay = delay(c).max(delay(l)); // RFC 9332 A.2, line 2a
            let before = (self.prob, self.last_qdelay);
            self.prob = self.calculate_probability(qdelay);
            self.last_qdelay = qdelay;
            self.next += self.tupdate + LATE;
            let stays =
                self.prob == before.0 && (qdelay == before.1 || (self.prob == MAX_PROB && qdelay > self.target.0));
            if stays && self.next <= now {
                // Only the last of the other overdue updates can have an effect: it sets the delay.
                let step = self.tupdate + LATE;
                self.next += Span(now.since(self.next).0 / step.0 * step.0);
            }
        }
    }

    fn calculate_probability(&self, qdelay: u64) -> u32 {
        let term = |from: u64, gain: u32| (qdelay as i64).wrapping_sub(from as i64).wrapping_mul(i64::from(gain));
        let delta = term(self.target.0, self.alpha).wrapping_add(term(self.last_qdelay, self.beta));
        let step = delta.unsigned_abs() >> ALPHA_BETA_GRANULARITY;
        // The sum is cut to 32 bits before it is compared.
        let prob = if delta > 0 {
            let prob = step.wrapping_add(u64::from(self.prob)) as u32;
            if prob < self.prob { MAX_PROB } else { prob }
        } else {
            let prob = u64::from(self.prob).wrapping_sub(step) as u32;
            if prob > self.prob { 0 } else { prob }
        };
        if self.drop_overload { prob } else { prob.min(MAX_PROB / u32::from(self.coupling_factor)) }
    }

    /// Returns the fate of a packet according to the probabilities. `backlog` is the bytes in both queues without this
    /// packet.
    #[inline]
    pub fn judge(&self, low: bool, ecn: Ecn, backlog: u64, rng: &mut Rng) -> Fate {
        if backlog < self.few {
            return Fate::Send;
        }
        let prob = u64::from(self.prob);
        let prob_l = prob * u64::from(self.coupling_factor);
        let overload = prob_l > u64::from(MAX_PROB);
        let mut roll = |prob: u64| u64::from(rng.next_u32()) <= prob;
        match low {
            // RFC 9332 A.2, line 12: the packet is dropped in overload, or if it cannot be marked.
            false if roll(prob) && roll(prob) => {
                if overload || !ecn.is_capable() {
                    Fate::Drop
                } else {
                    Fate::Mark
                }
            }
            false => Fate::Send,
            // Lines 8c to 8i: in overload, packets are dropped with the squared probability, and all others are marked.
            true if overload => {
                if self.drop_overload && roll(prob) && roll(prob) {
                    Fate::Drop
                } else {
                    Fate::Mark
                }
            }
            true if roll(prob_l) => Fate::Mark,
            true => Fate::Send,
        }
    }

    /// Returns true if the step marks a packet of the L queue that has waited this long and leaves this many packets behind.
    #[inline]
    pub fn is_over_step(&self, waited: Span, behind: usize) -> bool {
        match self.step_thresh {
            StepThresh::Time(thresh) => waited > thresh,
            StepThresh::Packets(thresh) => behind > thresh as usize,
        }
    }
}
