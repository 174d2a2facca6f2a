//! The guest's program, which plays a scenario's flows over real TCP and UDP sockets, and the evaluation of its
//! results.

mod count;
pub mod express;
pub mod flows;
pub mod init;
pub mod job;
mod link;
pub mod mapped;
mod modules;
mod netlink;
mod nic;
pub mod observe;
mod os;
mod own;
pub mod probe;
pub mod replay;
pub mod run;
mod seal;
mod tc_stats;
mod tc_tree;
pub mod topology;
