//! A window that never moves: for experiments on queues.

use super::ops::{CongestionControl, Ops};
use super::setup::Setup;

/// It has no state: [`super::Control`] leaves its window alone.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Fixed;

impl CongestionControl for Fixed {
    const OPS: Ops = Ops::named("fixed");

    fn new(_: &Setup) -> Fixed {
        Fixed
    }
}
