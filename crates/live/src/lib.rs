//! The world `live`: real hosts in network namespaces, and the path between them in this program, in real time.
//!
//! The hosts are those of the kernel world ([`sojourn_traffic::topology`]), with the host's own TCP and the same program
//! for their flows. In place of the routers there is [`path`], which is pure: frames and times in, frames and times out.
//! [`engine`] is the loop between the cables and the path. The disciplines are ours, or those of this host's kernel, to
//! which [`detour`] sends the packets. The records are those of the kernel world too, so that the
//! same code measures them. [`truth`] says whether a run may be believed.

mod cable;
mod capture;
mod commands;
pub mod control;
mod detour;
mod engine;
pub mod express;
mod files;
mod frame;
mod hop;
mod network;
mod packet;
pub mod path;
mod probe;
pub mod queue;
pub mod run;
mod senders;
mod start;
mod traces;
mod truth;

pub use start::main;
