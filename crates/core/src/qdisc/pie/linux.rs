//! Linux's PIE controller in its integer arithmetic, which pie and fq_pie share (`include/net/pie.h`).

use super::Params;
use crate::rng::Rng;
use crate::units::{Span, Time};

/// A probability of one.
pub const MAX_PROB: u64 = u64::MAX >> 8;
/// A tick of the scheduler's clock lasts 2^6 ns.
pub const PSCHED_SHIFT: u32 = 6;
const PSCHED_TICKS_PER_SEC: u64 = 1_000_000_000 >> PSCHED_SHIFT;
/// Bytes over which the rate of departures is measured.
const QUEUE_THRESHOLD: u32 = 16_384;
/// `avg_dq_rate` is in 2^-8 bytes per tick.
const PIE_SCALE: u32 = 8;
/// The burst allowance in ticks. It is restored when congestion is over.
const MAX_BURST: u64 = ticks(Span::from_millis(150));

const fn ticks(span: Span) -> u64 {
    span.0 >> PSCHED_SHIFT
}

/// The parameters, with times in ticks of the scheduler's clock (`pie_params`).
#[derive(Clone, Debug)]
pub struct Control {
    /// The target delay.
    pub target: u64,
    /// Weight of the delay's distance from the target: probability per tick of delay.
    alpha: u64,
    /// Weight of the delay's change: probability per tick of delay.
    beta: u64,
    /// Whether the probability is scaled with the packet's size.
    bytemode: bool,
    /// Whether the delay is computed from the departure rate.
    pub dq_rate_estimator: bool,
    /// The size of the largest packet, in bytes.
    mtu: u32,
}

impl Control {
    /// Converts the parameters. `mtu` is the size in bytes of the largest packet on the link.
    pub fn new(params: &Params, mtu: u32) -> Control {
        let gain = |sixteenths: u32| (u64::from(sixteenths) * (MAX_PROB / PSCHED_TICKS_PER_SEC)) >> 4;
        Control {
            target: ticks(params.target),
            alpha: gain(params.alpha),
            beta: gain(params.beta),
            bytemode: params.bytemode,
            dq_rate_estimator: params.dq_rate_estimator,
            mtu: mtu.clamp(1, 1 << 20),
        }
    }

    /// Returns other parameters for the same link.
    pub fn changed(&self, params: &Params) -> Control {
        Control::new(params, self.mtu)
    }

    /// Returns `alpha` and `beta` at this probability. They are smaller for small probabilities (RFC 8033 §4.2).
    fn gains(&self, prob: u64) -> (u64, u64) {
        let (mut alpha, mut beta) = (self.alpha, self.beta);
        if prob < MAX_PROB / 10 {
            (alpha, beta) = (alpha >> 1, beta >> 1);
            let mut power = 100;
            while prob < MAX_PROB / power && power <= 1_000_000 {
                (alpha, beta, power) = (alpha >> 2, beta >> 2, power * 10);
            }
        }
        (alpha, beta)
    }
}

/// The state of one queue under PIE (`pie_vars`); moments and spans in ticks of the scheduler's clock.
#[derive(Clone, PartialEq, Debug)]
pub struct Vars {
    /// The latest delay.
    pub qdelay: u64,
    /// The delay at the last update.
    pub qdelay_old: u64,
    /// The remaining burst allowance.
    pub burst_time: u64,
    /// The time of the last departure. With `dq_rate_estimator`, the start of the present measurement.
    dq_tstamp: Option<u64>,
    /// The drop probability, as a fraction of [`MAX_PROB`].
    pub prob: u64,
    /// The sum of the drop probabilities of all arrivals since the last drop.
    pub accu_prob: u64,
    /// Bytes that left during the present measurement of the departure rate; `None` outside of one.
    dq_count: Option<u64>,
    /// The average departure rate, in 2^-8 bytes per tick; 0 if it is not known.
    avg_dq_rate: u32,
}

impl Default for Vars {
    fn default() -> Self {
        Vars {
            qdelay: 0,
            qdelay_old: 0,
            burst_time: MAX_BURST,
            dq_tstamp: None,
            prob: 0,
            accu_prob: 0,
            dq_count: None,
            avg_dq_rate: 0,
        }
    }
}

impl Vars {
    /// Returns whether an arrival of `bytes` at a queue of `backlog` bytes is to be dropped (`pie_drop_early`).
    #[inline]
    pub fn drop_early(&mut self, control: &Control, backlog: u32, bytes: u32, rng: &mut Rng) -> bool {
        if self.burst_time > 0 // RFC 8033 §4.4: no drops within a burst
            || (self.qdelay < control.target / 2 && self.prob < MAX_PROB / 5) // RFC 8033 §4.1
            || backlog < 2 * control.mtu
        {
            return false;
        }
        let mut local_prob = self.prob;
        if control.bytemode && bytes <= control.mtu {
            local_prob = u64::from(bytes).wrapping_mul(self.prob / u64::from(control.mtu));
        }
        // RFC 8033 §5.4: no two drops too near to each other or too far apart.
        self.accu_prob = if local_prob == 0 { 0 } else { self.accu_prob.wrapping_add(local_prob) };
        if self.accu_prob < MAX_PROB / 100 * 85 {
            return false;
        }
        if self.accu_prob >= MAX_PROB / 2 * 17 {
            return true;
        }
        let drop = rng.next_u64() >> 8 < local_prob;
        if drop {
            self.accu_prob = 0;
        }
        drop
    }

    /// Handles a departure that leaves `backlog` bytes behind, of a packet of `bytes` that arrived at `enqueue_time`
    /// (`pie_process_dequeue`).
    #[inline]
    pub fn process_dequeue(&mut self, control: &Control, now: Time, enqueue_time: Time, bytes: u32, backlog: u32) {
        let now = now.0 >> PSCHED_SHIFT;
        let dtime = if control.dq_rate_estimator {
            self.measure(now, bytes, backlog)
        } else {
            let waited = now.wrapping_sub(enqueue_time.0 >> PSCHED_SHIFT);
            self.qdelay = if backlog == 0 { 0 } else { waited };
            self.dq_tstamp.replace(now).map_or(0, |last| now.wrapping_sub(last) as u32)
        };
        self.burst_time = self.burst_time.saturating_sub(u64::from(dtime));
    }

    /// Measures the departure rate while many bytes are queued. Returns the length of a measurement that has just
    /// ended, otherwise 0.
    fn measure(&mut self, now: u64, bytes: u32, backlog: u32) -> u32 {
        if backlog >= QUEUE_THRESHOLD && self.dq_count.is_none() {
            self.dq_tstamp = Some(now);
            self.dq_count = Some(0);
        }
        let Some(count) = &mut self.dq_count else { return 0 };
        *count += u64::from(bytes);
        if *count < u64::from(QUEUE_THRESHOLD) {
            return 0;
        }
        let dtime = self.dq_tstamp.map_or(0, |start| now.wrapping_sub(start) as u32);
        if dtime == 0 {
            return 0;
        }
        let rate = ((*count << PIE_SCALE) as u32) / dtime;
        self.avg_dq_rate = match self.avg_dq_rate {
            0 => rate,
            average => (average - (average >> 3)).wrapping_add(rate >> 3),
        };
        if backlog < QUEUE_THRESHOLD {
            self.dq_count = None;
        } else {
            self.dq_count = Some(0);
            self.dq_tstamp = Some(now);
        }
        dtime
    }

    /// Updates the probability `times` times. There was no arrival or departure between these updates.
    #[inline]
    pub fn update(&mut self, times: u64, control: &Control, backlog: u32) {
        if times > 0 {
            self.catch_up(times, control, backlog);
        }
    }

    #[inline(never)]
    fn catch_up(&mut self, times: u64, control: &Control, backlog: u32) {
        for _ in 0..times {
            let before = self.clone();
            self.calculate_probability(control, backlog);
            if *self == before {
                break; // The remaining updates would change nothing either.
            }
        }
    }

    /// One update (`pie_calculate_probability`).
    fn calculate_probability(&mut self, control: &Control, backlog: u32) {
        let (qdelay, qdelay_old) = if control.dq_rate_estimator {
            let qdelay = (backlog << PIE_SCALE).checked_div(self.avg_dq_rate).unwrap_or(0);
            self.qdelay_old = self.qdelay;
            (u64::from(qdelay), self.qdelay)
        } else {
            (self.qdelay, self.qdelay_old)
        };
        // If the delay is zero with a backlog, the backlog is very small. The probability then does not decay.
        let mut decays = qdelay != 0 || backlog == 0;
        let (alpha, beta) = control.gains(self.prob);
        // RFC 8033 §4.2: alpha (delay - target) + beta (delay - delay before)
        let delta = alpha
            .wrapping_mul(qdelay.wrapping_sub(control.target))
            .wrapping_add(beta.wrapping_mul(qdelay.wrapping_sub(qdelay_old)));
        let mut delta = delta as i64;
        // RFC 8033 §5.5: no step of more than 2 %.
        if delta > (MAX_PROB / 50) as i64 && self.prob >= MAX_PROB / 10 {
            delta = (MAX_PROB / 100 * 2) as i64;
        }
        // With a delay of more than 250 ms, the step is 2 % larger.
        if qdelay > ticks(Span::from_millis(250)) {
            delta = delta.wrapping_add((MAX_PROB / 50) as i64);
        }
        let before = self.prob;
        self.prob = before.wrapping_add(delta as u64);
        if delta > 0 && self.prob < before {
            self.prob = MAX_PROB;
            decays = false;
        } else if delta <= 0 && self.prob > before {
            self.prob = 0;
        }
        if qdelay == 0 && qdelay_old == 0 && decays {
            self.prob -= self.prob / 64; // RFC 8033 §4.2
        }
        self.qdelay = qdelay;
        let calm = qdelay < control.target / 2 && self.qdelay_old < control.target / 2 && self.prob == 0;
        if calm && (!control.dq_rate_estimator || self.avg_dq_rate > 0) {
            self.restart();
        }
        if !control.dq_rate_estimator {
            self.qdelay_old = qdelay;
        }
    }

    /// Resets the state when congestion is over (`pie_vars_init`). The delays and the probability keep their values.
    fn restart(&mut self) {
        let Vars { qdelay, qdelay_old, prob, .. } = *self;
        *self = Vars { qdelay, qdelay_old, prob, ..Vars::default() };
    }

    /// The average departure rate in bytes per second.
    pub fn rate(&self) -> u64 {
        (u64::from(self.avg_dq_rate) * PSCHED_TICKS_PER_SEC) >> PIE_SCALE
    }
}
