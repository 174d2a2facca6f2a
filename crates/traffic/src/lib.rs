//! The program that makes real TCP and UDP flows, in the kernel world's guest and in the live world.

mod count;
pub mod express;
pub mod flows;
pub mod init;
pub mod job;
mod link;
pub mod mapped;
mod netlink;
mod nic;
pub mod observe;
mod os;
pub mod probe;
pub mod replay;
pub mod run;
mod seal;
mod tc_stats;
pub mod topology;
