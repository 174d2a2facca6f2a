//! RED in Linux's integer arithmetic, which red, choke and sfq share (`include/net/red.h`), and the values that `tc`
//! computes for the kernel.

use crate::qdisc::psched::xmittime_ticks;
use crate::rng::Rng;
use crate::units::{Rate, Time};

/// The parameters of a line as `tc` reads them, in bytes for red.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// Average queue above which packets are dropped at random.
    pub min: u32,
    /// Average queue from which all packets are dropped.
    pub max: u32,
    /// Mean packet size in bytes. If the queue counts packets, each counts as this number of bytes.
    pub avpkt: u32,
    /// Size in packets of the bursts that RED tolerates.
    pub burst: u32,
    /// Drop probability at `max`.
    pub probability: f64,
    /// Rate of the link, by which the average decays while the queue is idle.
    pub bandwidth: Rate,
}

/// Number of entries in the table of the decay.
const STAB: usize = 256;
/// One percent of 2^32, rounded.
const ONE_PERCENT: u32 = 42_949_673;

/// The parameters as the kernel has them.
#[derive(Clone, Debug)]
pub struct Parms {
    /// The lower threshold of the average, with `wlog` bits after the point.
    pub qth_min: u64,
    /// The upper threshold of the average, with `wlog` bits after the point.
    pub qth_max: u64,
    qth_delta: u32,
    /// Probability at `qth_max`, in 2^-32.
    max_p: u32,
    /// `max_p` / `qth_delta`. Random numbers are divided by it.
    max_p_delta: u32,
    target_min: u64,
    target_max: u64,
    wlog: u32,
    scell_log: u32,
    stab: [u8; STAB],
}

/// The fate of an arriving packet.
#[expect(clippy::enum_variant_names, reason = "Linux's names")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Accept the packet: the average is below the thresholds, or no drop is due.
    DontMark,
    /// Mark or drop the packet at random: the average is between the thresholds.
    ProbMark,
    /// Mark or drop the packet: the average is above the thresholds.
    HardMark,
}

/// The state.
#[derive(Clone, Copy, Debug)]
pub struct Vars {
    /// Packets since the last random number was drawn; −1 if the average is not between the thresholds.
    pub qcount: i32,
    /// The random number that determines the distance to the next mark.
    pub qr: u32,
    /// The average queue, with `wlog` bits after the point.
    pub qavg: u64,
    /// The time since which the queue is idle; `None` if it is not.
    pub qidlestart: Option<Time>,
}

/// Computes the weight 2⁻ⁿ of the average as `tc` does: the least n with
/// `burst + 1 − min ≤ (1 − (1 − 2⁻ⁿ)^burst) 2ⁿ` (`tc_red_eval_ewma`).
pub(super) fn ewma(min: f64, burst: u32) -> Option<u32> {
    let wanted = f64::from(burst) + 1.0 - min;
    let reached = |wlog: &u32| {
        let w = 1.0 / f64::from(1u32 << wlog);
        wanted <= (1.0 - libm::pow(1.0 - w, f64::from(burst))) / w
    };
    if wanted < 1.0 { None } else { (1..32).find(reached) }
}

/// Computes `tc`'s number of random bits (`tc_red_eval_P`). The kernel uses it if the probability is zero in 32 bits.
fn random_bits(probability: f64, delta: u32) -> Option<u32> {
    if delta == 0 {
        return Some(0);
    }
    let mut share = probability / f64::from(delta);
    let mut bits = 0;
    while share <= 1.0 {
        share *= 2.0;
        bits += 1;
    }
    (bits < 32).then_some(bits)
}

/// Computes `tc`'s table of the decay: the number of bits by which the average is shifted after an idle time. Also
/// returns the base-2 logarithm of the table's step in µs.
pub(super) fn idle_damping(wlog: u32, words: &Words) -> Option<([u8; STAB], u32)> {
    // tc computes with ticks of 64 ns, but the kernel reads the table in µs.
    let xmit_time = xmittime_ticks(words.bandwidth, words.avpkt) as f64;
    let per_unit = -libm::log(1.0 - 1.0 / f64::from(1u32 << wlog)) / xmit_time;
    let longest = 31.0 / per_unit;
    let scell_log = (0..32).find(|log| longest / ((1u64 << log) as f64) < 512.0)?;
    let mut stab = [31; STAB];
    for (at, bits) in (0u64..).zip(stab.iter_mut().take(STAB - 1)) {
        *bits = (((at << scell_log) as f64 * per_unit) as u64).min(31) as u8;
    }
    Some((stab, scell_log))
}

impl Parms {
    /// Computes the parameters that `tc` and the kernel derive from these words. The error is the word that one of them
    /// refuses, and the reason.
    pub fn new(words: &Words, packets: bool) -> Result<Parms, (&'static str, &'static str)> {
        // choke counts packets; tc assumes the mean size for each.
        let (unit, min) = match packets {
            true => (words.avpkt, f64::from(words.min)),
            false => (1, f64::from(words.min) / f64::from(words.avpkt)),
        };
        if words.min > words.max {
            return Err(("min", "must not be above max"));
        }
        let wlog = ewma(min, words.burst).ok_or(("burst", "is too small for min, or too large for any weight"))?;
        let tc_delta = (words.max - words.min).saturating_mul(unit);
        let plog = random_bits(words.probability, tc_delta).ok_or(("probability", "is too small"))?;
        let (stab, scell_log) = idle_damping(wlog, words).ok_or(("bandwidth", "is too low to compute idle times"))?;
        if words.max.checked_ilog2().map_or(0, |log| log + 1) + wlog >= 32 {
            return Err(("burst", "is too large for max: the average does not fit in 32 bits"));
        }
        let qth_delta = (words.max - words.min).max(1);
        let given = (words.probability * 4_294_967_296.0) as u64 as u32;
        let max_p = if given == 0 { (u32::MAX >> plog).wrapping_mul(qth_delta) } else { given };
        let fifth = (words.max - words.min).max(1) / 5;
        Ok(Parms {
            qth_min: u64::from(words.min) << wlog,
            qth_max: u64::from(words.max) << wlog,
            qth_delta,
            max_p,
            max_p_delta: (max_p / qth_delta).max(1),
            target_min: u64::from(words.min + 2 * fifth),
            target_max: u64::from(words.min + 3 * fifth),
            wlog,
            scell_log,
            stab,
        })
    }

    /// Returns the average after an arrival that found `backlog` in the queue.
    #[inline]
    fn no_idle_time(&self, qavg: u64, backlog: u64) -> u64 {
        qavg.wrapping_add(backlog).wrapping_sub(qavg >> self.wlog)
    }

    /// Returns the average after an idle time. The table gives the number of bits by which it is shifted. Where that is
    /// 0, the decay is linear.
    fn after_idle_time(&self, qavg: u64, since: Time, now: Time) -> u64 {
        let us_idle = (now.since(since).0 / 1000).min(255 << self.scell_log);
        match self.stab[(us_idle >> self.scell_log) as usize & (STAB - 1)] {
            0 => match qavg.wrapping_mul(us_idle) >> self.scell_log {
                less if less < qavg >> 1 => qavg - less,
                _ => qavg >> 1,
            },
            shift => qavg >> shift,
        }
    }

    #[inline]
    fn random(&self, rng: &mut Rng) -> u32 {
        rng.next_u32() / self.max_p_delta
    }

    /// Adaptive RED (Floyd, Gummadi, Shenker 2001), called every half second: adapts the probability so that the
    /// average stays in the middle fifth between the thresholds.
    pub fn adapt(&mut self, vars: &Vars, now: Time) {
        let qavg = vars.qidlestart.map_or(vars.qavg, |since| self.after_idle_time(vars.qavg, since, now)) >> self.wlog;
        if qavg > self.target_max && self.max_p <= 50 * ONE_PERCENT {
            self.max_p += ONE_PERCENT.min(self.max_p / 4);
        } else if qavg < self.target_min && self.max_p >= ONE_PERCENT {
            self.max_p = self.max_p / 10 * 9;
        }
        // Round to nearest, halves up.
        let nearest = (u64::from(self.max_p) + u64::from(self.qth_delta / 2)) / u64::from(self.qth_delta);
        self.max_p_delta = (nearest as u32).max(1);
    }

    /// The base-2 logarithms of the average's weight, negated, and of the step of the table of the decay.
    #[cfg(test)]
    pub fn logs(&self) -> (u32, u32) {
        (self.wlog, self.scell_log)
    }

    /// The probability at `max`.
    pub fn probability(&self) -> f64 {
        f64::from(self.max_p) / 4_294_967_296.0
    }
}

impl Vars {
    /// The state of a queue to which no packet has arrived yet.
    pub fn new(qidlestart: Option<Time>) -> Vars {
        Vars { qcount: -1, qr: 0, qavg: 0, qidlestart }
    }

    /// Updates the average at an arrival that finds `backlog` in the queue. If the queue was idle, its idle time ends.
    #[inline]
    pub fn arrival(&mut self, parms: &Parms, now: Time, backlog: u64) {
        self.qavg = match self.qidlestart.take() {
            None => parms.no_idle_time(self.qavg, backlog),
            Some(since) => parms.after_idle_time(self.qavg, since, now),
        };
    }

    /// Judges an arriving packet at this average (`red_action`).
    #[inline]
    pub fn action(&mut self, parms: &Parms, rng: &mut Rng) -> Action {
        if self.qavg < parms.qth_min {
            self.qcount = -1;
            Action::DontMark
        } else if self.qavg >= parms.qth_max {
            self.qcount = -1;
            Action::HardMark
        } else {
            self.between(parms, rng)
        }
    }

    /// Judges a packet while the average is between the thresholds. The random number that was drawn at the last mark
    /// determines how many packets pass before the next mark.
    #[inline]
    pub fn between(&mut self, parms: &Parms, rng: &mut Rng) -> Action {
        self.qcount = self.qcount.wrapping_add(1);
        if self.qcount == 0 {
            self.qr = parms.random(rng);
            return Action::DontMark;
        }
        let above = self.qavg.wrapping_sub(parms.qth_min) >> parms.wlog;
        if above.wrapping_mul(self.qcount as u64) < u64::from(self.qr) {
            return Action::DontMark;
        }
        self.qcount = 0;
        self.qr = parms.random(rng);
        Action::ProbMark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::testing::ms;
    use alloc::vec::Vec;

    const WORDS: Words =
        Words { min: 30_000, max: 90_000, avpkt: 1000, burst: 55, probability: 0.02, bandwidth: Rate(10_000_000) };

    fn parms(words: &Words) -> Parms {
        Parms::new(words, false).expect("words that tc takes")
    }

    #[test]
    fn the_weight_follows_from_the_burst_as_in_red_h() {
        // "Upper bound on W", for min of 32 and of 4 mean packets: bursts of 33, 35, 39, 46, 57, 75, 101, 135, 190.
        for (wlog, burst) in (1..).zip([33, 35, 39, 46, 57, 75, 101, 135, 190]) {
            let found = ewma(32.0, burst).expect("a weight");
            assert!(found.abs_diff(wlog) <= 1, "{wlog}: {found}");
        }
        assert_eq!(ewma(100.0, 10), None);
    }

    #[test]
    fn at_a_constant_average_every_packet_is_marked_with_the_probability_in_the_middle() {
        // In the middle between the thresholds: 1 %, spread so that gaps are uniform: 100 packets on average.
        let (parms, mut rng) = (parms(&WORDS), Rng::stream(1, "red"));
        let mut vars = Vars { qavg: 60_000 << parms.wlog, ..Vars::new(None) };
        let marks = (0..1_000_000).filter(|_| vars.action(&parms, &mut rng) == Action::ProbMark).count();
        // Uniform on 0 to 100: 50 packets on average, as the random number is of one interval of max_P.
        assert!((19_000..21_000).contains(&marks), "{marks}");
    }

    #[test]
    fn an_idle_time_takes_bits_off_the_average_and_a_short_one_a_little() {
        let parms = parms(&WORDS);
        let qavg = 60_000 << parms.wlog;
        let after: Vec<u64> = [0, 1, 5, 50, 500, 50_000]
            .iter()
            .map(|&us| {
                parms.after_idle_time(qavg, ms(1000), ms(1000) + crate::units::Span::from_micros(us * 1000))
                    >> parms.wlog
            })
            .collect();
        assert_eq!(after[0], 60_000);
        assert!(after.windows(2).all(|pair| pair[1] <= pair[0]), "{after:?}");
        assert_eq!((after[3], after[5]), (30_000, 0), "the straight line ends at a half");
        assert_eq!(parms.after_idle_time(7, ms(0), ms(50)), 3, "rounded down");
    }

    #[test]
    fn adaptive_moves_the_probability_between_1_and_50_percent() {
        let mut parms = parms(&WORDS);
        let at = |qavg: u64, wlog: u32| Vars { qavg: qavg << wlog, ..Vars::new(None) };
        let near = |parms: &Parms, p: f64| (parms.probability() - p).abs() < 1e-6;
        parms.adapt(&at(60_000, parms.wlog), ms(500));
        assert!(near(&parms, 0.02), "in the middle fifth");
        parms.adapt(&at(70_000, parms.wlog), ms(500));
        assert!(near(&parms, 0.025), "a quarter more");
        parms.adapt(&at(50_000, parms.wlog), ms(500));
        assert!(near(&parms, 0.0225), "a tenth less");
        (0..200).for_each(|_| parms.adapt(&at(80_000, parms.wlog), ms(500)));
        assert!((0.5..0.52).contains(&parms.probability()), "{}", parms.probability());
        (0..200).for_each(|_| parms.adapt(&at(0, parms.wlog), ms(500)));
        assert!((0.009..0.01).contains(&parms.probability()), "{}", parms.probability());
    }

    #[test]
    fn what_tc_or_the_kernel_refuses_is_named() {
        let refused = |words: Words| Parms::new(&words, false).map(|_| ()).expect_err("refused").0;
        assert_eq!(refused(Words { min: 100_000, ..WORDS }), "min");
        assert_eq!(refused(Words { burst: 5, ..WORDS }), "burst");
        assert_eq!(refused(Words { max: 1 << 30, burst: 100, probability: 0.9, ..WORDS }), "burst");
        assert_eq!(refused(Words { probability: 1e-9, ..WORDS }), "probability");
    }
}
