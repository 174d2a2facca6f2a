//! COBALT: CoDel and BLUE together, for each queue.
//!
//! Its CoDel has no separate first interval: the first drop, like all others, waits for `interval` / sqrt(`count`).
//! Below `target`, `count` is not forgotten at once: it falls step by step, at the times at which it would have risen.
//! BLUE acts where CoDel is not enough: its drop probability rises at an overflow, at most once per `target`, and falls
//! when the queue is found empty.

use super::params::Variant;
use crate::packet::Packet;
use crate::qdisc::DropReason;
use crate::rng::Rng;
use crate::units::Time;

/// A time before all others. A new queue starts with it because Linux's clock is far from zero when a queue is set up.
const LONG_AGO: i64 = i64::MIN / 4;
/// Number of reciprocal roots that are precomputed, for counts from 0 to 15.
const CACHE: usize = 16;

/// Parameters of COBALT, one set for each tin. Times in ns.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Interval of the control law.
    pub interval: u64,
    /// Acceptable sojourn time, and the least time between two steps of BLUE.
    pub target: u64,
    /// Transmission time of the largest packet.
    pub mtu_time: u64,
    /// The increase of BLUE's drop probability per step, in 2^-32.
    pub p_inc: u32,
    /// The decrease of BLUE's drop probability per step, in 2^-32.
    pub p_dec: u32,
    /// Reciprocal roots of small counts, in 2^-32.
    pub inv_sqrt: &'static [u32; CACHE],
    /// Whether BLUE draws a random number also for a packet that CoDel drops.
    pub always_draws: bool,
}

impl Params {
    /// Parameters with Linux's constants. The caller sets the times, which are zero here.
    pub fn new(variant: Variant) -> Params {
        let inv_sqrt = match variant {
            Variant::Linux => &FOUR_STEPS,
            Variant::Linux612 | Variant::Linux7 => &EXACT,
        };
        let always_draws = !matches!(variant, Variant::Linux7);
        Params { interval: 0, target: 0, mtu_time: 0, p_inc: 1 << 24, p_dec: 1 << 20, inv_sqrt, always_draws }
    }
}

/// One step of Newton's method for 1 / sqrt(`count`), in 2^-32.
const fn newton_step(root: u32, count: u32) -> u32 {
    let square = (root as u64 * root as u64) >> 32;
    let rest = (3u64 << 32).wrapping_sub((count as u64).wrapping_mul(square));
    ((rest >> 2).wrapping_mul(root as u64) >> 31) as u32
}

/// Computes 1 / sqrt(count) for all counts below `CACHE`, each in four Newton steps from the value of the count before.
/// The first value is the largest one below 1.
const fn four_steps() -> [u32; CACHE] {
    let mut cache = [u32::MAX; CACHE];
    let mut root = u32::MAX;
    let mut count = 1;
    while count < CACHE {
        let mut step = 0;
        while step < 4 {
            root = newton_step(root, count as u32);
            step += 1;
        }
        cache[count] = root;
        count += 1;
    }
    cache
}

/// The reciprocal roots as older Linux computes them when cake is first set up.
static FOUR_STEPS: [u32; CACHE] = four_steps();
/// The reciprocal roots as constants in newer Linux. They are exact except for the last digit.
#[rustfmt::skip]
static EXACT: [u32; CACHE] = [
    u32::MAX, u32::MAX, 3_037_000_500, 2_479_700_525, 2_147_483_647, 1_920_767_767, 1_753_413_056, 1_623_345_051,
    1_518_500_250, 1_431_655_765, 1_358_187_914, 1_294_981_364, 1_239_850_263, 1_191_209_601, 1_147_878_294, 1_108_955_788,
];

/// The state of one queue.
#[derive(Clone, Debug)]
pub struct Vars {
    drop_next: i64,
    blue_timer: i64,
    /// The `count` of the control law.
    pub count: u32,
    rec_inv_sqrt: u32,
    /// BLUE's drop probability, in 2^-32.
    pub p_drop: u32,
    pub dropping: bool,
    /// Whether the last packet was marked.
    pub ecn_marked: bool,
}

impl Default for Vars {
    fn default() -> Self {
        Vars {
            drop_next: LONG_AGO,
            blue_timer: LONG_AGO,
            count: 0,
            rec_inv_sqrt: 0,
            p_drop: 0,
            dropping: false,
            ecn_marked: false,
        }
    }
}

/// Converts a time to a signed number, for times before zero.
fn signed(time: Time) -> i64 {
    time.0 as i64
}

impl Vars {
    fn invsqrt(&mut self, params: &Params) {
        self.rec_inv_sqrt = match params.inv_sqrt.get(self.count as usize) {
            Some(&root) => root,
            None => newton_step(self.rec_inv_sqrt, self.count),
        };
    }

    /// Returns the time `after` plus `interval / sqrt(count)`. Like Linux, it uses only the lower 32 bits of the
    /// interval.
    fn control(&self, after: i64, params: &Params) -> i64 {
        let span = ((params.interval & 0xffff_ffff) * u64::from(self.rec_inv_sqrt)) >> 32;
        after + span as i64
    }

    fn blue_rested(&self, now: i64, params: &Params) -> bool {
        now - self.blue_timer > params.target as i64
    }

    /// Raises BLUE's probability after a packet was dropped because the memory was used up. Returns whether BLUE became
    /// active.
    #[cold]
    pub fn queue_full(&mut self, now: Time, params: &Params) -> bool {
        let now = signed(now);
        let mut up = false;
        if self.blue_rested(now, params) {
            up = self.p_drop == 0;
            self.p_drop = self.p_drop.saturating_add(params.p_inc);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
        up
    }

    /// Lowers BLUE's probability after the queue was found empty in its turn. Returns whether BLUE became inactive.
    pub fn queue_empty(&mut self, now: Time, params: &Params) -> bool {
        let now = signed(now);
        let mut down = false;
        if self.p_drop > 0 && self.blue_rested(now, params) {
            self.p_drop = self.p_drop.saturating_sub(params.p_dec);
            self.blue_timer = now;
            down = self.p_drop == 0;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.invsqrt(params);
            self.drop_next = self.control(self.drop_next, params);
        }
        down
    }

    /// Returns whether BLUE or CoDel is active.
    #[inline]
    pub fn is_active(&self, now: Time) -> bool {
        self.p_drop > 0 || self.count > 0 || signed(now) < self.drop_next
    }

    /// Decides about a packet that was just dequeued. Returns the reason to drop it, or `None` to send it. It may mark
    /// the packet instead. `bulk_flows` is the tin's number of bulk flows with `ingress`, otherwise 0.
    #[inline]
    pub fn should_drop(
        &mut self,
        now: Time,
        packet: &mut impl Packet,
        bulk_flows: u32,
        params: &Params,
        rng: &mut Rng,
    ) -> Option<DropReason> {
        let sojourn = now.0.saturating_sub(packet.enqueue_time().0);
        let now = signed(now);
        let over_target = sojourn > params.target
            && sojourn > params.mtu_time * u64::from(bulk_flows) * 2
            && sojourn > params.mtu_time * 4;
        let mut due = now >= self.drop_next;
        let mut late = now > self.drop_next;
        let mut next_due = self.count > 0 && due;
        let mut reason = None;
        self.ecn_marked = false;
        if over_target {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.control(now, params);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        if next_due && self.dropping {
            self.ecn_marked = packet.mark();
            if !self.ecn_marked {
                reason = Some(DropReason::Codel);
            }
            self.count = self.count.saturating_add(1);
            self.invsqrt(params);
            self.drop_next = self.control(self.drop_next, params);
            late = now > self.drop_next;
        } else {
            while next_due {
                self.count -= 1;
                self.invsqrt(params);
                self.drop_next = self.control(self.drop_next, params);
                (due, late) = (now >= self.drop_next, now > self.drop_next);
                next_due = self.count > 0 && due;
            }
        }
        // BLUE drops ECN-capable packets too, because it acts on flows that do not respond to marks.
        if self.p_drop > 0 && (reason.is_none() || params.always_draws) && rng.next_u32() < self.p_drop {
            reason = reason.or(Some(DropReason::Early));
        }
        if self.count == 0 {
            // The state counts as active until this time.
            self.drop_next = now + params.interval as i64;
        } else if late && reason.is_none() {
            self.drop_next = now;
        }
        reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roots_kept_ready_are_near_enough() {
        for count in 1..CACHE {
            let exact = 4_294_967_296.0 / (count as f64).sqrt();
            let error = |root: u32| (f64::from(root) / exact - 1.0).abs();
            assert!(error(FOUR_STEPS[count]) < 6e-4, "{count}");
            assert!(error(EXACT[count]) < 1e-9, "{count}");
        }
    }
}
