//! A small random number generator: SplitMix64 (Steele, Lea, Flood 2014). Each source of randomness has its own stream,
//! so that drawing more numbers in one place never changes another.
//!
//! ```
//! use sojourn_core::rng::Rng;
//!
//! let (mut red, mut again, mut pie) = (Rng::stream(7, "red"), Rng::stream(7, "red"), Rng::stream(7, "pie"));
//! assert_eq!(red.next_u64(), again.next_u64());
//! assert_ne!(red.next_u64(), pie.next_u64());
//! assert!((0.0..1.0).contains(&red.uniform()));
//! ```

/// One stream of random numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Rng(u64);

impl Rng {
    /// The stream called `name` of the run with this seed.
    pub fn stream(seed: u64, name: &str) -> Rng {
        // FNV-1a over the name, mixed with the seed.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash);
        Rng(rng.next_u64())
    }

    /// The state from which the stream continues.
    pub fn state(&self) -> u64 {
        self.0
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// 16 random bits.
    #[inline]
    pub fn next_u16(&mut self) -> u16 {
        (self.next_u64() >> 48) as u16
    }

    /// A uniform number in 0..n without bias, from 32 bits at a time (Lemire 2019). Linux uses the same method, so both
    /// consume equally many random numbers. If n is 0, the result is any 32 bits.
    #[inline]
    pub fn next_u32_below(&mut self, n: u32) -> u32 {
        if n == 0 {
            return self.next_u32();
        }
        let unfair = n.wrapping_neg() % n;
        loop {
            let product = u64::from(n) * u64::from(self.next_u32());
            if product as u32 >= unfair {
                return (product >> 32) as u32;
            }
        }
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..n; 0 if n is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_name_and_by_seed_and_repeat() {
        let first = |seed, name| Rng::stream(seed, name).next_u64();
        assert_eq!(first(1, "web"), first(1, "web"));
        assert_ne!(first(1, "web"), first(2, "web"));
        assert_ne!(first(1, "web"), first(1, "start"));
    }

    #[test]
    fn numbers_below_a_bound_are_fair_and_stay_below() {
        let mut rng = Rng::stream(3, "test");
        let mut seen = [0u32; 3];
        for _ in 0..30_000 {
            seen[rng.next_u32_below(3) as usize] += 1;
        }
        assert!(seen.iter().all(|&times| (9_700..10_300).contains(&times)), "{seen:?}");
        assert_eq!(rng.next_u32_below(1), 0);
        let most = u32::MAX / 2 + 2;
        assert!((0..1000).all(|_| rng.next_u32_below(most) < most));
    }

    #[test]
    fn uniform_has_the_mean_and_range_it_should() {
        let mut rng = Rng::stream(7, "test");
        let mean = (0..100_000).map(|_| rng.uniform()).inspect(|x| assert!((0.0..1.0).contains(x))).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }
}
