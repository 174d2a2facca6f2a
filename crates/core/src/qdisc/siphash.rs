//! Flow hashes with a secret key, as in Linux's sfq and sfb.
//!
//! Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012 (SipHash-2-4); Linux
//! `net/core/flow_dissector.c`, which hashes the 48 bytes that identify an IPv4 flow. Our packets carry a 32-bit flow
//! hash instead of addresses and ports. It replaces the greater of the two addresses; all other fields are those of a
//! packet without a transport header. `replay --world kernel` sends such packets, so with the same key both map a flow
//! to the same queue.

use crate::rng::Rng;

/// Where the 48 bytes begin: the Ethernet protocol number of IPv4, as it is in memory.
const IPV4: u64 = 0x0008;
/// Whole words after it, all zero: protocol, VLANs, ports, the lesser address.
const ZEROS: usize = 4;
/// The input's length in bytes, after which nothing is left over.
const LENGTH: u64 = 48;

/// A key that is ready to hash flows: the input before the flow's own bits has been hashed.
#[derive(Clone, Copy, Debug)]
pub struct Salt([u64; 4]);

impl Salt {
    /// With 16 random bytes (`get_random_bytes` into a `siphash_key_t`).
    pub fn draw(rng: &mut Rng) -> Salt {
        let first = rng.next_u64();
        Salt::new([first, rng.next_u64()])
    }

    fn new(key: [u64; 2]) -> Salt {
        let mut salt = Salt(start(key));
        salt.absorb(IPV4);
        (0..ZEROS).for_each(|_| salt.absorb(0));
        salt
    }

    #[inline]
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        round(&mut self.0);
        round(&mut self.0);
        self.0[0] ^= word;
    }

    #[inline]
    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        (0..4).for_each(|_| round(&mut self.0));
        self.0[0] ^ self.0[1] ^ self.0[2] ^ self.0[3]
    }

    /// The hash of a flow; never 0.
    #[inline]
    pub fn hash(&self, flow: u32) -> u32 {
        let mut salt = *self;
        salt.absorb(u64::from(flow));
        salt.absorb(LENGTH << 56);
        (salt.finish() as u32).max(1)
    }
}

fn start([k0, k1]: [u64; 2]) -> [u64; 4] {
    [k0 ^ 0x736f_6d65_7073_6575, k1 ^ 0x646f_7261_6e64_6f6d, k0 ^ 0x6c79_6765_6e65_7261, k1 ^ 0x7465_6462_7974_6573]
}

#[inline]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siphash_2_4_gives_the_vector_of_its_paper() {
        // Appendix A: key 00 01 … 0f, input 00 01 … 0e.
        let mut salt = Salt(start([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]));
        salt.absorb(0x0706_0504_0302_0100);
        salt.absorb(15 << 56 | 0x0e_0d0c_0b0a_0908);
        assert_eq!(salt.finish(), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn another_key_sorts_flows_otherwise() {
        let (a, b) = (Salt::draw(&mut Rng::stream(1, "a")), Salt::draw(&mut Rng::stream(1, "b")));
        let same = (0..10_000).filter(|&flow| a.hash(flow) % 16 == b.hash(flow) % 16).count();
        assert!((500..750).contains(&same), "{same}");
        assert_eq!(a.hash(7), a.hash(7));
    }
}
