//! The core of sojourn: queue disciplines and a sans-IO TCP.
//!
//! This code reads no clock, does no I/O and allocates nothing for a single packet. Time is an argument everywhere;
//! randomness comes from [`rng::Rng`], seeded by the caller. The simulator, the live world, the replay of a trace and
//! foreign programs drive the same code.
//!
//! A discipline is made from a line of `tc` words and holds whatever packets its caller has:
//!
//! ```
//! use sojourn_core::packet::{Ecn, Packet};
//! use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Qdisc, tc::Spec};
//! use sojourn_core::units::{Rate, Span, Time};
//!
//! /// A transport's own packet: a few facts are all that a discipline asks for.
//! #[derive(Clone, Copy, Default)]
//! struct Segment { bytes: u32, flow: u32, ecn: Ecn, enqueued: Time }
//!
//! impl Packet for Segment {
//!     fn bytes(&self) -> u32 { self.bytes }
//!     fn flow_hash(&self) -> u32 { self.flow }
//!     fn ecn(&self) -> Ecn { self.ecn }
//!     fn set_ecn(&mut self, ecn: Ecn) { self.ecn = ecn; }
//!     fn enqueue_time(&self) -> Time { self.enqueued }
//!     fn set_enqueue_time(&mut self, now: Time) { self.enqueued = now; }
//! }
//!
//! let link = Context { mtu: 1514, overhead: 14, rate: Rate(10_000_000), delay: Span::from_millis(10), skb: 0, seed: 1 };
//! let mut queue: AnyQdisc<Segment> = "codel target 5ms".parse::<Spec>()?.build(&link);
//! let mut drops: Vec<(Segment, DropReason)> = Vec::new();
//! let mut sent = 0;
//! for ms in 0..1000 {
//!     // Two packets arrive, and one leaves: CoDel drops once the delay has stayed above target for 100 ms.
//!     let now = Time::ZERO + Span::from_millis(ms);
//!     for _ in 0..2 {
//!         queue.enqueue(now, Segment { bytes: 1500, flow: 7, ..Segment::default() }, &mut drops);
//!     }
//!     sent += u64::from(queue.dequeue(now, &mut drops).is_some());
//! }
//! assert_eq!(sent, 1000);
//! assert_eq!(drops.len(), 28);
//! assert!(drops.iter().all(|(_, reason)| *reason == DropReason::Codel));
//! assert_eq!(sent + (drops.len() + queue.packets()) as u64, 2000);
//! # Ok::<(), sojourn_core::qdisc::tc::Error>(())
//! ```
//!
//! A packet that leaves with [`Ecn::Ce`](packet::Ecn::Ce) was marked. A discipline that holds packets back (a shaper,
//! for example) returns in [`Qdisc::next_event`](qdisc::Qdisc::next_event) the time at which to dequeue again.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod access;
pub mod cache;
pub mod dql;
pub mod netem;
pub mod nic;
pub mod packet;
pub mod qdisc;
pub mod ring;
pub mod rng;
pub mod tcp;
pub mod trace;
pub mod units;
mod wheel;
