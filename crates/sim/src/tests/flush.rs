//! A link whose queue is flushed when its rate falls.

use super::*;

const FALL: Time = Time(2_000_000_000);
const RISE: Time = Time(4_000_000_000);

/// Four transfers over a link that is slow for two seconds.
fn fading(qdisc: &str) -> Scenario {
    let mut fading = dumbbell(qdisc);
    let link = &mut fading.hops[0].right;
    link.flush = true;
    link.rate =
        Capacity::Steps(vec![(Time::ZERO, Rate(12_000_000)), (FALL, Rate(2_000_000)), (RISE, Rate(12_000_000))]);
    fading
}

#[test]
fn all_that_waits_when_the_rate_falls_is_dropped_then_and_nothing_else() {
    for qdisc in [
        "pfifo limit 100",
        "codel limit 100",
        "fq",
        "fq_codel",
        "pie limit 100",
        "cake bandwidth 10mbit",
        "tbf rate 9mbit burst 5kb limit 100kb",
    ] {
        let output = assert_engines_agree(qdisc, &fading(qdisc));
        let waited = output.packets.iter().filter(|packet| packet.link == 0 && packet.arrival < FALL);
        let waited: Vec<_> = waited.filter(|packet| packet.end >= FALL && packet.start >= FALL).collect();
        assert!(!waited.is_empty(), "{qdisc}: no packet waited");
        for packet in waited {
            assert_eq!((packet.end, packet.fate), (FALL, Fate::Dropped(DropReason::Overlimit)), "{qdisc}");
        }
        let at_rise =
            |packet: &&PacketRecord| packet.end == RISE && packet.fate == Fate::Dropped(DropReason::Overlimit);
        assert!(output.packets.iter().filter(at_rise).count() < 2, "{qdisc}: a rise throws nothing away");
        let later = output.packets.iter().filter(|packet| packet.start > RISE && packet.fate == Fate::Delivered);
        assert!(later.count() > 500, "{qdisc}: the new discipline carries on");
    }
}

#[test]
fn what_a_card_or_the_link_behind_holds_is_not_thrown_away() {
    let nic = Nic { ring: 8, bql: false, coalesce: Span(0) };
    let mut with_card = fading("codel limit 100");
    with_card.hops[0].right.nic = Some(nic);
    let output = assert_engines_agree("a card", &with_card);
    let held = output.packets.iter().filter(|packet| packet.link == 0 && packet.start <= FALL && packet.end > FALL);
    let held: Vec<_> = held.collect();
    assert!(!held.is_empty());
    assert!(held.iter().all(|packet| packet.fate == Fate::Delivered));
    let mut stopped = paused();
    let link = &mut stopped.hops[1].right;
    link.rate = Capacity::Steps(vec![(Time::ZERO, Rate(7_000_000)), (FALL, Rate(3_000_000))]);
    link.flush = true;
    assert_engines_agree("flow control", &stopped);
}

#[test]
fn what_is_thrown_away_was_never_marked() {
    let mut marks = fading("codel limit 1000 ecn ce_threshold 1ms");
    for entry in &mut marks.workload.entries {
        entry.tcp.ecn = true;
        entry.tcp.cc = Cc::Fixed(60);
    }
    let output = assert_engines_agree("marks", &marks);
    let thrown = output.packets.iter().filter(|packet| packet.link == 0 && packet.end == FALL);
    let thrown: Vec<_> = thrown.filter(|packet| packet.fate == Fate::Dropped(DropReason::Overlimit)).collect();
    assert!(thrown.len() > 2);
    assert!(thrown.iter().all(|packet| packet.ecn_out == packet.ecn_in));
}
