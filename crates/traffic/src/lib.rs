//! A scenario's flows over real TCP and UDP sockets, the guest's program that plays them in the kernel world, and the
//! evaluation of its results. The world `live` uses the same flows and the same evaluation.

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
pub mod os;
mod own;
pub mod probe;
pub mod replay;
pub mod run;
mod seal;
pub mod tc_stats;
pub mod tc_tree;
pub mod topology;
