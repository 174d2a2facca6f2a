//! The tests of the crate's public interface, in one program: separate ones would each be linked with the crate.

mod engines;
mod random_scenarios;
