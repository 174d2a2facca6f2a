//! Flow hashes that encode the hosts. A discipline that is fair between hosts (cake) needs the hosts of each packet,
//! but a packet carries only its flow hash. All connections of a flow are between the same two hosts, as in the kernel
//! world (crates/traffic/src/topology.rs).
//!
//! A hash is an invertible function of a 32-bit number with these fields, from the highest bit down, with their widths
//! in bits. A flow with its own hosts: 0 (1), index of the flow (15), connection (16). A flow of a user: 1 (1), whether
//! the user sends the data (1), user (9), number of the flow within the user's (10), connection (11).

use sojourn_model::workload::{Direction, Entry, User};

/// Odd factors, so that multiplication is invertible.
const FACTORS: [u32; 2] = [0x9e37_79b1, 0x85eb_ca6b];
const INVERSES: [u32; 2] = [inverse(FACTORS[0]), inverse(FACTORS[1])];
/// Flag of a user's flow.
const OF_USER: u32 = 1 << 31;
/// Flag of data that goes left, from the user.
const SENDS: u32 = 1 << 30;
/// Lowest bits of the user's number and of the flow's number.
const USER: u32 = 21;
const FLOW: u32 = 11;
const _: () = assert!(User::MOST == 1 << (30 - USER) && User::MOST_FLOWS == 1 << (USER - FLOW));

/// The inverse modulo 2^32, by Newton's iteration: three bits are correct at the start, and each step doubles their
/// number.
const fn inverse(odd: u32) -> u32 {
    let (mut guess, mut step) = (odd, 0);
    while step < 4 {
        guess = guess.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(guess)));
        step += 1;
    }
    guess
}

/// XORs the upper half into the lower one. Applied twice, it is the identity.
const fn fold(number: u32) -> u32 {
    number ^ number >> 16
}

const fn mixed(number: u32) -> u32 {
    fold(fold(number.wrapping_mul(FACTORS[0])).wrapping_mul(FACTORS[1]))
}

const fn unmixed(hash: u32) -> u32 {
    fold(fold(hash).wrapping_mul(INVERSES[1])).wrapping_mul(INVERSES[0])
}

/// Returns the hash of connection `number` of the flow with index `row`.
pub fn flow_hash(row: u32, entry: &Entry, number: u16) -> u32 {
    let Some(User { number: user, flow, .. }) = entry.user else { return of_row(row, number) };
    let sends = if entry.direction == Direction::Left { SENDS } else { 0 };
    let number = u32::from(number) & ((1 << FLOW) - 1);
    mixed(OF_USER | sends | u32::from(user) << USER | u32::from(flow) << FLOW | number)
}

fn of_row(row: u32, number: u16) -> u32 {
    mixed((row << 16 | u32::from(number)) & !OF_USER)
}

/// Returns the numbers of the source and destination hosts of a packet with this hash. Flows whose indices differ by
/// less than 32 768 have different hosts. `back` means that the packet travels against the direction of the data.
pub fn hosts(hash: u32, back: bool) -> (u32, u32) {
    let number = unmixed(hash);
    if number & OF_USER == 0 {
        let row = number >> 16;
        // Hosts of users have numbers from here on; flows with such indices get numbers beyond those.
        let host = if row < OF_USER >> USER { row } else { row | 1 << 16 };
        return (host, host);
    }
    let (user, server) = ((number & !SENDS) >> USER, (number & !SENDS) >> FLOW);
    if (number & SENDS != 0) != back { (user, server) } else { (server, user) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hash_tells_its_row_and_no_two_are_the_same(row in 0u32..32_768, number: u16, other in (0u32..32_768, 0u16..)) {
            let hash = of_row(row, number);
            let there = hosts(hash, false);
            prop_assert_eq!((there.0, hosts(hash, true)), (there.1, there));
            prop_assert_eq!(there.0 & 0xffff, row);
            prop_assert_eq!(of_row(other.0, other.1) == hash, other == (row, number));
            prop_assert_eq!(hosts(of_row(other.0, other.1), false) == there, other.0 == row);
        }

        #[test]
        fn a_hash_tells_the_user_and_the_host_at_the_other_end(user in 0u16..512, flow in 0u16..1024, number: u16, left: bool) {
            let direction = if left { Direction::Left } else { Direction::Right };
            let of = |user, flow| flow_hash(0, &entry(direction, Some(User { number: user, flow, first: 0 })), number);
            let at_right = |(source, destination)| if left { source } else { destination };
            let at_left = |(source, destination)| if left { destination } else { source };
            let there = hosts(of(user, flow), false);
            prop_assert_eq!(hosts(of(user, flow), true), (there.1, there.0));
            let (other, sibling) = (hosts(of(user ^ 1, flow), false), hosts(of(user, flow ^ 1), false));
            prop_assert!(at_right(there) == at_right(sibling) && at_right(there) != at_right(other));
            prop_assert!(at_left(there) != at_left(sibling) && at_left(there) != at_left(other));
        }
    }

    #[test]
    fn the_hosts_of_all_rows_and_of_all_users_are_different() {
        let rows = (0..32_768).map(|row| hosts(of_row(row, 7), false).0);
        let sound = entry(Direction::Right, None);
        let users = (0..512).map(|number| {
            let user = Some(User { number, flow: 5, first: 0 });
            hosts(flow_hash(0, &Entry { user, ..sound.clone() }, 7), false).1
        });
        let all: std::collections::BTreeSet<u32> = rows.chain(users).collect();
        assert_eq!(all.len(), 32_768 + 512);
    }

    fn entry(direction: Direction, user: Option<User>) -> Entry {
        let text = "duration = \"1s\"\n[[hop]]\nrate = \"1mbit\"\n[[flow]]\nkind = \"bulk\"\nrtt = \"9ms\"\n";
        let plan = sojourn_model::plan::Plan::load("x.toml", text.as_bytes(), &Default::default()).expect("sound");
        Entry { direction, user, ..plan.scenario(0).expect("a run").workload.entries[0].clone() }
    }

    /// Upper and lower bits of the hashes spread over a thousand queues evenly, both for many flows and for many
    /// connections of one flow.
    #[test]
    fn hashes_are_spread() {
        let rows: Vec<u32> = (0..32_000).map(|row| of_row(row, 7)).collect();
        let numbers: Vec<u32> = (0..32_000).map(|number| of_row(7, number)).collect();
        let user = entry(Direction::Right, Some(User { number: 3, flow: 5, first: 0 }));
        let of_user: Vec<u32> = (0..2048).map(|number| flow_hash(0, &user, number)).collect();
        for hashes in [rows, numbers, of_user] {
            for shift in [0, 22] {
                let mut queues = [0u32; 1024];
                hashes.iter().for_each(|hash| queues[(hash >> shift) as usize % 1024] += 1);
                let share = hashes.len() as f64 / 1024.0;
                let chi: f64 = queues.iter().map(|&n| (f64::from(n) - share).powi(2) / share).sum();
                assert!(chi < 1023.0 * 1.2, "{chi}");
            }
        }
    }
}
