//! Both ends together.

use super::*;

#[test]
fn a_sender_without_holes_is_small() {
    assert!(core::mem::size_of::<Sender>() <= 400, "{}", core::mem::size_of::<Sender>());
}
