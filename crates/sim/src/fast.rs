//! The fast engine. Packets do not pass through a global event heap: each line of constant delay has a ring of packets,
//! and the next event is the earliest of the heads of all rings, links and timers.
//!
//! Whatever can be computed is not scheduled. A FIFO of constant rate computes a packet's departure on arrival (closed
//! form), and so does an access link. A data receiver runs when the last link sends the packet (with thousands of
//! flows, some departures later), ahead of the clock by the delay between the two; delayed ACKs and retransmitted
//! SYN-ACKs that precede the packet are handled first. These short cuts are legal because such a station sees its
//! inputs in the same order whenever they are computed: it has one input line, times on a line never decrease, and
//! where two inputs could tie at zero delay the short cut is not taken. `heap.rs` has no short cuts and must give
//! identical records.
//!
//! For the same reason a link, or all hosts together, may handle all their events up to the earliest time at which an
//! event elsewhere could affect them. This is the lookahead of conservative parallel simulation (Chandy and Misra
//! 1979). Here it improves the use of caches, and each schedule has few sources.
//!
//! | module | content |
//! |---|---|
//! | `engine` | the state, the loop over events, and the timers: read this first |
//! | `forward` | the path of a packet: from station to station as long as no event is needed, up to its receiver |
//! | `lines` | lines of constant delay, in order of time |
//! | `stations` | links, and pause frames in flight between them |
//! | `delayed_acks` | the timers of the data receivers |
//! | `prefetch` | hints to the processor's caches for many flows, and packets that are delivered in batches |
//! | `build` | the engine of a scenario, from the short cuts that are legal in it (`shortcuts.rs`) |

use sojourn_model::scenario::Scenario;

use crate::hosts::Hosts;
use crate::setup::EndState;
use crate::topology::Topology;
use crate::{Options, Output, Stopped, setup};

mod build;
mod delayed_acks;
mod engine;
mod forward;
mod lines;
mod prefetch;
mod stations;

/// Runs the scenario.
pub fn run(scenario: &Scenario, options: &Options) -> Result<Output, Stopped> {
    let topology = Topology::new(scenario);
    let mut fabric = build::fabric(scenario, &topology, options);
    let mut hosts = Hosts::new(scenario, &topology, options.series);
    let events = fabric.play(options, &mut hosts)?;
    let links = fabric.links.into_iter().map(|station| station.finish());
    let rest = EndState { flows: fabric.flows, ends: fabric.ends, hosts, events };
    Ok(setup::output(scenario, options, links, rest))
}
