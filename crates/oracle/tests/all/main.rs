//! The tests of the crate's public interface, in one program: separate ones would each be linked with the crate.

mod blue;
mod ccaq;
mod ccaq_paper;
mod codel;
mod dql;
mod tc_lines;
