//! A constant window, for experiments on queues.

use super::ops::{CongestionControl, Ops};
use super::setup::Setup;

/// The algorithm has no state, because [`super::Control`] never changes its window.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Fixed;

impl CongestionControl for Fixed {
    const OPS: Ops = Ops::named("fixed");

    fn new(_: &Setup) -> Fixed {
        Fixed
    }
}
