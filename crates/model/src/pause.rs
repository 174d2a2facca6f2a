//! Flow control between hops (IEEE 802.3x): where it is possible, and at which queue lengths it acts.
//!
//! A queue sends a pause frame when its free space falls to its **headroom**: the data that can still arrive before the
//! previous link has stopped. The frame is delayed by the reverse direction; a transmission in progress is finished;
//! and packets already sent are still on the cable. The headroom is therefore the rate of the previous link times both
//! delays, plus the packet whose transmission begins last, plus the packet whose arrival triggers the frame.

use sojourn_core::qdisc::tc::Spec;
use sojourn_core::qdisc::{pie, red};
use sojourn_core::units::Span;

use crate::error::Error;
use crate::path::PACKET;
use crate::read::Field;
use crate::scenario::{Capacity, Hop, Link, Pause, QueueSize, before};

/// Smallest IP length of a packet in bytes: the headers of an empty datagram.
const LEAST: u32 = 28;
/// Packets counted in addition to the delays: the one whose arrival triggers the frame, and the one that begins before
/// the frame arrives.
const EDGES: u64 = 2;
/// Additional free space in full packets before the previous link is resumed.
const SLACK: u64 = 2;

/// Computes the thresholds of every link for which flow control was requested, and stores them in the hops. `largest`
/// is the IP length of the longest packet, in bytes.
pub(crate) fn between(hops: &mut [Hop], asked: &[Option<Field<'_>>], largest: u32) -> Result<(), Error> {
    for (index, field) in asked.iter().enumerate() {
        let Some(field) = field else { continue };
        let pause = one(hops, index, field, largest.max(PACKET))?;
        let hop = &mut hops[index / 2];
        let link = if index.is_multiple_of(2) { &mut hop.right } else { &mut hop.left };
        link.pause = Some(pause);
    }
    Ok(())
}

/// Returns the thresholds for the queue of link number `index`.
fn one(hops: &[Hop], index: usize, field: &Field<'_>, largest: u32) -> Result<Pause, Error> {
    let Some(stopped) = before(index, hops.len()) else {
        return Err(field.fault("no hop is before this one in its direction: flow control is between two hops"));
    };
    let link_of = |index: usize| {
        let hop = &hops[index / 2];
        if index.is_multiple_of(2) { &hop.right } else { &hop.left }
    };
    let (link, from, name) = (link_of(index), link_of(stopped), &hops[stopped / 2].name);
    let other = link_of(stopped ^ 1);
    let Capacity::Steps(rates) = &from.rate else {
        return Err(field.fault(format!("hop {name}, which it would stop, is driven by a trace: that is no Ethernet")));
    };
    if from.impair.is_some() || other.impair.is_some() {
        return Err(field.fault(format!("hop {name}, which it would stop, has impairments: that is no Ethernet")));
    }
    if matches!(from.qdisc, Spec::Noqueue(_)) {
        return Err(field.fault(format!("hop {name}, which it would stop, has no queue where packets could wait")));
    }
    if !link.changes.is_empty() {
        return Err(
            field.fault("expected a discipline that does not change: flow control depends on the limit of its queue")
        );
    }
    let Some(limit) = limit(&link.qdisc, link.wire_bytes(PACKET)) else {
        let kind = link.qdisc.kind();
        return Err(field.fault(format!(
            "expected a queue with one limit for all that it holds (pfifo, bfifo, pfifo_head_drop, codel, fq_codel, red, \
             pie, fq_pie, choke, blue), found {kind}"
        )));
    };
    let longest = |link: &Link| link.delay.iter().map(|step| step.1).max().unwrap_or_default();
    let (rate, under_way) = (rates.iter().map(|step| step.1).max(), longest(from) + longest(other));
    let bytes = rate.map_or(0, |rate| rate.bytes_in(under_way));
    let packet = u64::from(link.wire_bytes(largest));
    let least = |link: &Link| u64::from(link.wire_bytes(LEAST));
    let room = headroom(bytes, least(from), least(link), packet);
    thresholds(&limit, &room, packet).ok_or_else(|| small(field, &limit, &room, packet, under_way))
}

/// Returns the headroom of a queue if the previous link can send `under_way` bytes during both delays. `before` and
/// `here` are the bytes that the previous link and this link count for the smallest packet.
fn headroom(under_way: u64, before: u64, here: u64, packet: u64) -> QueueSize {
    // The two links may add different overheads to a packet. The relative difference is largest for the smallest
    // packet.
    let counted = if here > before {
        (u128::from(under_way) * u128::from(here)).div_ceil(u128::from(before))
    } else {
        u128::from(under_way)
    };
    QueueSize { packets: under_way / before + EDGES, bytes: (counted as u64).saturating_add(EDGES * packet) }
}

/// Returns the thresholds for stopping and resuming; `None` if the queue is too small.
fn thresholds(limit: &QueueSize, room: &QueueSize, packet: u64) -> Option<Pause> {
    let less = |limit: u64, room: u64| if limit == u64::MAX { Some(limit) } else { limit.checked_sub(room) };
    let stop = QueueSize { packets: less(limit.packets, room.packets)?, bytes: less(limit.bytes, room.bytes)? };
    let go = QueueSize { packets: less(stop.packets, SLACK)?, bytes: less(stop.bytes, SLACK * packet)? };
    Some(Pause { stop, go })
}

/// Returns the error that the queue is too small for the data that arrives before the previous link has stopped.
fn small(field: &Field<'_>, limit: &QueueSize, room: &QueueSize, packet: u64, delays: Span) -> Error {
    let packets = room.packets.saturating_add(SLACK);
    let (found, most, unit) = if limit.packets < packets {
        (limit.packets, packets, "packets")
    } else {
        (limit.bytes, room.bytes.saturating_add(SLACK * packet), "bytes")
    };
    field.fault(format!(
        "too small a queue: {found} {unit}, expected at least {most}: {SLACK} full packets more than can arrive before the \
         previous hop's link has stopped (the smallest packets for its delays there and back, {delays})"
    ))
}

/// Returns the limit on the whole content of a discipline, if it has such a limit. `mtu` is the number of bytes that
/// the link counts for a full packet.
fn limit(spec: &Spec, mtu: u32) -> Option<QueueSize> {
    const NONE: u64 = u64::MAX;
    let (packets, bytes) = match spec {
        Spec::Pfifo(params) => (params.limit.into(), NONE),
        Spec::Bfifo(params) => (NONE, params.limit.into()),
        Spec::PfifoHeadDrop(params) => (params.limit.into(), NONE),
        Spec::Codel(params) => (params.limit.into(), NONE),
        Spec::FqCodel(params) => (params.limit.into(), params.memory_limit.into()),
        Spec::Red(params) if params.variant == red::Variant::Ns2 => (params.limit.into(), NONE),
        Spec::Red(params) => (NONE, params.limit.into()),
        // RFC 8033 appendix B: TAIL_DROP counts full packets, in bytes.
        Spec::Pie(params) if params.variant == pie::Variant::Rfc8033b => {
            (NONE, u64::from(params.limit) * u64::from(mtu))
        }
        Spec::Pie(params) => (params.limit.into(), NONE),
        Spec::FqPie(params) => (params.limit.into(), params.memory_limit.into()),
        Spec::Choke(params) => (params.limit.into(), NONE),
        Spec::Blue(params) => (params.limit.into(), NONE),
        _ => return None,
    };
    Some(QueueSize { packets, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LoadOptions, Plan};

    /// Returns the flow control of hop `b`, rightward, whose previous hop has these keys.
    fn read(before: &str, qdisc: &str) -> Result<Pause, String> {
        let text = format!(
            "duration = \"1s\"\n[[hop]]\nname = \"a\"\n{before}\n[[hop]]\nname = \"b\"\nrate = \"1mbit\"\nqdisc = \"{qdisc}\"\n\
             pause = true\n[[flow]]\nkind = \"bulk\"\nrtt = \"10ms\"\n"
        );
        let plan = Plan::load("x.toml", text.as_bytes(), &LoadOptions::default()).map_err(|error| error.to_string())?;
        let scenario = plan.scenario(0).map_err(|error| error.to_string())?;
        assert_eq!((scenario.hops[1].left.pause, scenario.hops[0].right.pause), (None, None));
        scenario.hops[1].right.pause.ok_or_else(|| "no pause".into())
    }

    fn packets(stop: u64, go: u64) -> Pause {
        let filling = |packets| QueueSize { packets, bytes: u64::MAX };
        Pause { stop: filling(stop), go: filling(go) }
    }

    #[test]
    fn without_a_delay_the_headroom_is_what_is_noticed_and_what_begins() {
        assert_eq!(read("rate = \"100mbit\"", "pfifo limit 20"), Ok(packets(18, 16)));
        assert_eq!(read("rate = \"100mbit\"", "pfifo limit 4"), Ok(packets(2, 0)));
        let error = read("rate = \"100mbit\"", "pfifo limit 3").expect_err("too small");
        assert!(error.contains("hop.b.pause = true: too small a queue: 3 packets, expected at least 4"), "{error}");
    }

    #[test]
    fn the_headroom_is_both_delays_full_of_the_smallest_packets_at_the_fastest_rate() {
        // 2 x 1 ms at 1 Mbit/s are 250 bytes, in which 42 bytes is the smallest packet.
        let pause = read("rate = \"1mbit\"\ndelay = \"1ms\"", "pfifo limit 20");
        assert_eq!(pause, Ok(packets(20 - (250 / 42 + 2), 20 - (250 / 42 + 2) - 2)));
        let faster = read("rate = [[\"0s\", \"1mbit\"], [\"500ms\", \"2mbit\"]]\ndelay = \"1ms\"", "pfifo limit 20");
        assert_eq!(faster, Ok(packets(20 - (500 / 42 + 2), 20 - (500 / 42 + 2) - 2)));
        let back = read("rate = \"1mbit\"\ndelay = \"1ms\"\nreverse = { delay = \"0s\" }", "pfifo limit 20");
        assert_eq!(back, Ok(packets(20 - (125 / 42 + 2), 20 - (125 / 42 + 2) - 2)));
    }

    #[test]
    fn a_limit_in_bytes_has_its_headroom_in_bytes() {
        let bytes = |stop, go| {
            let filling = |bytes| QueueSize { packets: u64::MAX, bytes };
            Pause { stop: filling(stop), go: filling(go) }
        };
        let pause = read("rate = \"1mbit\"\ndelay = \"1ms\"", "bfifo limit 30000");
        assert_eq!(pause, Ok(bytes(30_000 - (250 + 3028), 30_000 - (250 + 3028) - 3028)));
        // The previous hop counts no overhead: each of the 250 bytes of its smallest packets counts 1.5 times here.
        let more = read("rate = \"1mbit\"\ndelay = \"1ms\"\noverhead = 0", "bfifo limit 30000");
        assert_eq!(more, Ok(bytes(30_000 - (375 + 3028), 30_000 - (375 + 3028) - 3028)));
    }

    #[test]
    fn flow_control_is_refused_where_it_can_not_be() {
        let refused = |before: &str, qdisc: &str, why: &str| {
            let error = read(before, qdisc).expect_err(why);
            assert!(error.contains("hop.b.pause = true") && error.contains(why), "{error}");
        };
        refused("rate = \"1mbit\"", "fq", "found fq");
        refused("rate = \"1mbit\"", "noqueue", "found noqueue");
        refused("rate = \"1mbit\"\nqdisc = \"noqueue\"", "codel", "hop a, which it would stop, has no queue");
        refused("rate = \"1mbit\"\nimpair = \"loss 1%\"", "codel", "hop a, which it would stop, has impairments");
        refused("rate = \"1mbit\"\nreverse = { impair = \"loss 1%\" }", "codel", "has impairments");
    }

    #[test]
    fn the_first_hop_of_a_direction_has_none_before_it() {
        for (first, second) in [("pause = true", ""), ("", "reverse = { pause = true }")] {
            let text = format!(
                "duration = \"1s\"\n[[hop]]\nrate = \"1mbit\"\n{first}\n[[hop]]\nrate = \"1mbit\"\n{second}\n\
                 [[flow]]\nkind = \"bulk\"\nrtt = \"10ms\"\n"
            );
            let error = Plan::load("x.toml", text.as_bytes(), &LoadOptions::default()).err().expect("an error");
            assert!(error.to_string().contains("no hop is before this one in its direction"), "{error}");
        }
    }

    #[test]
    fn leftward_the_hop_before_is_the_one_to_the_right() {
        let text = "duration = \"1s\"\n[[hop]]\nrate = \"1mbit\"\nreverse = { pause = true, qdisc = \"pfifo limit 50\" }\n\
                    [[hop]]\nrate = \"1mbit\"\ndelay = \"1ms\"\n[[flow]]\nkind = \"bulk\"\nrtt = \"10ms\"\n";
        let plan = Plan::load("x.toml", text.as_bytes(), &LoadOptions::default()).expect("sound");
        let scenario = plan.scenario(0).expect("sound");
        assert_eq!(scenario.hops[0].left.pause, Some(packets(50 - 7, 50 - 9)));
        assert_eq!((scenario.before(1), scenario.before(3), scenario.after(3)), (Some(3), None, Some(1)));
        assert_eq!((scenario.before(0), scenario.before(2), scenario.after(0)), (None, Some(0), Some(2)));
    }
}
