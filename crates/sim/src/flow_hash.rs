//! Flow hashes from which the hosts can be told again: a discipline that shares between hosts (cake) asks each packet for
//! them, and a packet has no room for more than its hash. All connections of a row of the results are between the same two
//! hosts, as in the kernel world (crates/traffic/src/topology.rs).

/// Odd, so that to multiply by them can be undone.
const FACTORS: [u32; 2] = [0x9e37_79b1, 0x85eb_ca6b];
const INVERSES: [u32; 2] = [inverse(FACTORS[0]), inverse(FACTORS[1])];

/// Modulo 2^32, by Newton's iteration: each step doubles the bits that are right, and three are from the start.
const fn inverse(odd: u32) -> u32 {
    let (mut guess, mut step) = (odd, 0);
    while step < 4 {
        guess = guess.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(guess)));
        step += 1;
    }
    guess
}

/// The upper half into the lower one; twice is nothing.
const fn fold(number: u32) -> u32 {
    number ^ number >> 16
}

/// The hash of a connection of this row, which has others with other numbers.
pub fn flow_hash(row: u32, number: u16) -> u32 {
    let number = row << 16 | number as u32;
    fold(fold(number.wrapping_mul(FACTORS[0])).wrapping_mul(FACTORS[1]))
}

/// The host at either end of a connection with this hash, as a number: of rows that differ by less than 65 536, their own.
pub fn host(hash: u32) -> u32 {
    fold(fold(hash).wrapping_mul(INVERSES[1])).wrapping_mul(INVERSES[0]) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hash_tells_its_row_and_no_two_are_the_same(row in 0u32..65_536, number: u16, other: (u16, u16)) {
            let hash = flow_hash(row, number);
            prop_assert_eq!(host(hash), row);
            let same = (u32::from(other.0), other.1) == (row, number);
            prop_assert_eq!(flow_hash(u32::from(other.0), other.1) == hash, same);
        }
    }

    /// Of a thousand queues by the hash's upper or its lower bits, each gets its share of many rows' and of one row's connections.
    #[test]
    fn hashes_are_spread() {
        let rows: Vec<u32> = (0..64_000).map(|row| flow_hash(row, 7)).collect();
        let numbers: Vec<u32> = (0..64_000).map(|number| flow_hash(7, number)).collect();
        for hashes in [rows, numbers] {
            for shift in [0, 22] {
                let mut queues = [0u32; 1024];
                hashes.iter().for_each(|hash| queues[(hash >> shift) as usize % 1024] += 1);
                let chi: f64 = queues.iter().map(|&n| (f64::from(n) - 62.5).powi(2) / 62.5).sum();
                assert!(chi < 1023.0 * 1.2, "{chi}");
            }
        }
    }
}
