//! The program that makes real TCP and UDP flows, in the kernel world's guest and in the live world.

pub mod express;
pub mod flows;
pub mod job;
mod os;
pub mod run;
pub mod topology;
