//! The ACK filter of cake: finds an ACK in the queue that a newer one of its flow makes redundant.
//!
//! Only pure ACKs are dropped, whose flags and options carry nothing else and whose SACK blocks the newest ACK covers.
//! Unless the filter is aggressive, one redundant ACK is kept in front of the newest one. An ACK whose ECN echo differs
//! from that of its successor is never dropped.

use core::cmp::Ordering;

use crate::packet::Segment;

/// Returns true if the first sequence number is after the second (RFC 9293 §3.4).
fn after(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) > 0
}

/// Compares the SACK blocks of the newest ACK with those of an older one. `Less` means that the newest ACK lacks a
/// block of the older one, `Equal` that both report the same bytes, and `Greater` that the newest ACK reports more
/// bytes.
fn blocks_compared(newest: &Segment, older: &Segment) -> Ordering {
    match (older.blocks().is_empty(), newest.blocks().is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    for &(start, end) in older.blocks() {
        let covered = |&(from, to): &(u32, u32)| !after(from, start) && !after(end, to);
        // A DSACK block, for bytes that were acknowledged already, is sent only once.
        if after(older.ack, start) || !newest.blocks().iter().any(covered) {
            return Ordering::Less;
        }
    }
    let bytes = |segment: &Segment| {
        segment.blocks().iter().fold(0u32, |sum, (start, end)| sum.wrapping_add(end.wrapping_sub(*start)))
    };
    if bytes(newest) > bytes(older) { Ordering::Greater } else { Ordering::Equal }
}

/// Returns whether the newest ACK carries all information of this older one.
fn is_idle(older: &Segment, newest: &Segment) -> bool {
    let (tsval, tsecr) = newest.stamps.unwrap_or((0, 0));
    let stamps_fall = older.stamps.is_some_and(|(val, ecr)| after(val, tsval) || after(ecr, tsecr));
    if !older.pure || !older.acks || older.syn || stamps_fall || after(older.ack, newest.ack) {
        return false;
    }
    match blocks_compared(newest, older) {
        Ordering::Less => false,
        Ordering::Equal => older.ack != newest.ack,
        Ordering::Greater => true,
    }
}

/// Returns the ACK to drop when `newest` is appended to this queue of `packets` packets: its position, counted from the
/// head.
pub fn idle_ack(
    queue: impl Iterator<Item = Option<Segment>>,
    packets: u32,
    newest: &Segment,
    aggressive: bool,
) -> Option<u32> {
    if !newest.acks || newest.syn {
        return None;
    }
    let (mut eligible, mut found): (Option<(u32, u8)>, i32) = (None, 0);
    for (segment, place) in queue.zip(0..) {
        let Some(older) = segment.filter(|segment| segment.stream == newest.stream) else { continue };
        if eligible.is_some_and(|(_, echo)| echo != older.echo) {
            eligible = None;
            found -= 1;
        }
        if !is_idle(&older, newest) {
            continue;
        }
        eligible = eligible.or(Some((place, older.echo)));
        found += 1;
        if found > 1 {
            return eligible.map(|(place, _)| place);
        }
    }
    let (place, echo) = eligible.filter(|_| aggressive)?;
    (place + 1 == packets && echo == newest.echo).then_some(place)
}
