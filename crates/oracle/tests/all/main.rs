//! The tests of the crate as its users see it, in one program: each file by itself would be linked with the crate again.

mod blue;
mod ccaq;
mod codel;
mod dql;
mod tc_lines;
