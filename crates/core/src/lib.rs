//! What happens to a packet: queue disciplines and a sans-IO TCP.
//!
//! No clock, no I/O, no allocation per packet. Time is an argument everywhere; randomness comes from [`rng::Rng`],
//! seeded by the caller. The simulator, the live world, the replay of a trace and foreign programs drive the same code.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod dql;
pub mod nic;
pub mod packet;
pub mod qdisc;
pub mod ring;
pub mod rng;
pub mod tcp;
pub mod units;
