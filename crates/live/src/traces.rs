//! The traces of the links' queues for a replay: the arrivals, and the fates of the packets for a comparison.
//!
//! This module is pure. The arrivals are in the order in which they entered the queue. The fates have the format of a
//! replay's result, so that a replay of the trace with [`options`] prints the same bytes.

use std::collections::VecDeque;

use sojourn_core::packet::{Ecn, Packet as _};
use sojourn_core::qdisc::cake::AckFilter;
use sojourn_core::qdisc::red::Variant;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::units::Time;
use sojourn_model::scenario::{Capacity, Link};
use sojourn_replay::{ETHERNET, FULL_HEADER, Fate, Op, ROW_HEADER, Row};

use crate::packet::Packet;
use crate::path::flow_number;

/// The traces and fates of all links that are not yet taken.
pub struct Traces(Vec<Queue>);

#[derive(Default)]
struct Queue {
    trace: Vec<u8>,
    fates: Vec<u8>,
    /// The packets whose fates are not written yet, in order of arrival: those that wait, and those after the first one
    /// that waits.
    rows: VecDeque<Row>,
    /// Number of the first of them.
    first: usize,
}

impl Traces {
    /// Begins the traces of this number of links.
    pub fn new(links: usize) -> Traces {
        Traces((0..links).map(|_| Queue::default()).collect())
    }

    /// A packet arrives at a link, which counts it as `bytes` long. Returns the number of the arrival.
    pub fn arrives(&mut self, link: usize, now: Time, packet: &Packet, bytes: u32) -> usize {
        let queue = &mut self.0[link];
        let number = queue.first + queue.rows.len();
        if number == 0 {
            write_line(&mut queue.trace, FULL_HEADER);
            write_line(&mut queue.fates, ROW_HEADER);
        }
        let flow = flow_number(&packet.facts);
        let (ecn, dscp, hosts, opens) = (packet.ecn(), packet.dscp(), packet.hosts(), packet.opens());
        let arrival = Op::Enqueue { at: now, flow, bytes, ecn, dscp, hosts, opens };
        write_line(&mut queue.trace, &arrival.to_string());
        queue.rows.push_back(Row { flow, bytes, enqueue: now, fate_time: Time::ZERO, fate: Fate::Queued });
        number
    }

    /// A link begins to send a packet.
    pub fn leaves(&mut self, link: usize, packet: &Packet, start: Time) {
        let is_marked = packet.ecn() == Ecn::Ce && packet.ecn_in != Ecn::Ce;
        self.settle(link, packet, if is_marked { Fate::Marked } else { Fate::Delivered }, start);
    }

    /// The fate of a packet is known.
    pub fn settle(&mut self, link: usize, packet: &Packet, fate: Fate, at: Time) {
        let queue = &mut self.0[link];
        if let Some(row) = packet.number.checked_sub(queue.first).and_then(|place| queue.rows.get_mut(place)) {
            (row.fate, row.fate_time) = (fate, at);
        }
        while queue.rows.front().is_some_and(|row| row.fate != Fate::Queued) {
            queue.write_first();
        }
    }

    /// Ends the traces: the other packets are still queued.
    pub fn finish(&mut self) {
        for queue in &mut self.0 {
            while !queue.rows.is_empty() {
                queue.write_first();
            }
        }
    }

    /// Takes the bytes of the traces and fates so far: two parts for each link, in their order.
    pub fn take(&mut self) -> impl Iterator<Item = Vec<u8>> {
        self.0.iter_mut().flat_map(|queue| [std::mem::take(&mut queue.trace), std::mem::take(&mut queue.fates)])
    }
}

impl Queue {
    fn write_first(&mut self) {
        if let Some(row) = self.rows.pop_front() {
            row.write(self.first, &mut self.fates);
            self.first += 1;
        }
    }
}

fn write_line(bytes: &mut Vec<u8>, line: &str) {
    bytes.extend_from_slice(line.as_bytes());
    bytes.push(b'\n');
}

/// Returns the options of `sojourn replay` with which it decides as this link did until `end`. `mtu` is the largest IP
/// packet in bytes, and `seed` that of the link's discipline.
///
/// # Errors
/// The reason why no replay decides the same.
pub fn options(link: &Link, mtu: u32, seed: u64, end: Time) -> Result<Vec<String>, String> {
    let rate = match &link.rate {
        Capacity::Trace(_) => return Err("the rate of the link is a trace".to_owned()),
        Capacity::Steps(steps) if steps.len() > 1 => return Err("the rate of the link changes".to_owned()),
        Capacity::Steps(steps) => steps[0].1,
    };
    if !link.changes.is_empty() {
        return Err("the discipline changes during the run".to_owned());
    }
    if link.nic.is_some() {
        return Err("the link has a network card, which takes packets ahead of the line".to_owned());
    }
    link.qdisc.chain().try_for_each(|spec| unlike(spec, link))?;
    let pairs = [
        ("--qdisc", link.qdisc.to_string()),
        ("--rate", rate.to_string()),
        ("--seed", seed.to_string()),
        ("--mtu", link.wire_bytes(mtu).to_string()),
        ("--end", end.since(Time::ZERO).to_string()),
    ];
    Ok(pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect())
}

/// Says what a discipline at this link knows, and a replay does not.
fn unlike(spec: &Spec, link: &Link) -> Result<(), String> {
    let problem = match spec {
        Spec::Noqueue(_) => "noqueue takes a packet at the very end of a transmission, and drops it in a replay",
        Spec::Cake(params) if params.ack_filter != AckFilter::Off => {
            "cake's ACK filter reads TCP segments, which a trace does not have"
        }
        Spec::Cake(params) if params.overhead.is_some() && !params.raw && link.overhead != ETHERNET => {
            "cake subtracts the link's header of a length other than 14 bytes, which a replay assumes"
        }
        Spec::Red(params) if params.variant == Variant::Ns2 => {
            "red variant ns2 is configured from the link's delay, which a replay does not know"
        }
        _ => return Ok(()),
    };
    Err(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use sojourn_core::qdisc::DropReason;
    use sojourn_model::plan::{LoadOptions, Plan};

    use super::*;
    use crate::frame::{self, SYN, tests::tcp};
    use crate::packet::Pool;

    #[test]
    fn fates_are_written_in_the_order_of_arrivals() {
        let (mut traces, mut pool) = (Traces::new(2), Pool::default());
        let frame = tcp([0x0a01_0001, 0x0a65_0001], [1, 2], 0, 0, SYN, 60, 0xb8 | 2);
        let facts = frame::read(&frame).expect("a packet");
        let mut packets: Vec<Packet> = (0..4).map(|_| pool.put(&frame, facts, 0)).collect();
        for (packet, at) in packets.iter_mut().zip([5, 5, 7, 9]) {
            packet.number = traces.arrives(1, Time(at), packet, 114);
        }
        let text = |parts: &[Vec<u8>]| parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        traces.settle(1, &packets[1], Fate::Dropped(DropReason::Codel), Time(8));
        let early: Vec<String> = text(&traces.take().collect::<Vec<_>>());
        assert!(packets[2].mark());
        traces.leaves(1, &packets[2], Time(11));
        traces.leaves(1, &packets[0], Time(6));
        traces.finish();
        let late: Vec<String> = text(&traces.take().collect::<Vec<_>>());
        let flow = flow_number(&facts);
        let arrival = |at| format!("{at},enqueue,{flow},114,186,10.1.0.1,10.101.0.1,1\n");
        assert_eq!(early[..2], ["", ""], "a queue without packets has no trace");
        assert_eq!(early[2], format!("{FULL_HEADER}\n{}{}{}{}", arrival(5), arrival(5), arrival(7), arrival(9)));
        assert_eq!(early[3], format!("{ROW_HEADER}\n"), "the first packet still waits");
        let row = |rest: &str| rest.replace("F,", &format!("{flow},114,"));
        let rows = ["0,F,5,6,delivered", "1,F,5,8,dropped:codel", "2,F,7,11,marked", "3,F,9,0,queued"].map(row);
        assert_eq!(late[2..], [String::new(), rows.join("\n") + "\n"]);
    }

    #[test]
    fn a_link_says_how_it_is_replayed_or_why_not() {
        let asked = |hop: &str| {
            let text = format!("duration = \"9s\"\n[[hop]]\n{hop}\n[[flow]]\nkind = \"bulk\"\nrtt = \"40ms\"\n");
            let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
            let scenario = plan.scenario(0).expect("a sound run");
            options(scenario.link(0), 1500, u64::MAX, Time(9_000_000_001)).map(|words| words.join(" "))
        };
        assert_eq!(
            asked("rate = \"1500kbit\"\noverhead = 22\nqdisc = \"codel target 9ms\"").as_deref(),
            Ok("--qdisc codel limit 1000 target 9ms --rate 1500kbit --seed 18446744073709551615 --mtu 1522 \
                --end 9000000001ns")
        );
        let with = |qdisc: &str| asked(&format!("rate = \"1mbit\"\noverhead = 18\nqdisc = \"{qdisc}\""));
        for line in ["cake", "cake raw overhead 9", "htb rate 900kbit child cake", "red limit 400000"] {
            assert!(with(line).is_ok(), "{line}");
        }
        for (line, said) in [
            ("noqueue", "noqueue"),
            ("cake ack-filter", "TCP segments"),
            ("htb rate 900kbit child cake ack-filter", "TCP segments"),
            ("cake overhead 9", "other than 14"),
            ("red limit 9 variant ns2", "the link's delay"),
        ] {
            assert!(with(line).is_err_and(|why| why.contains(said)), "{line}");
        }
        for (hop, said) in [
            ("rate = [[\"0s\", \"1mbit\"], [\"2s\", \"2mbit\"]]\nqdisc = \"pfifo\"", "the rate of the link changes"),
            ("rate = \"1mbit\"\nqdisc = [[\"0s\", \"pfifo\"], [\"2s\", \"codel\"]]", "the discipline changes"),
            ("rate = \"1mbit\"\nqdisc = \"pfifo\"\nnic = { ring = 9 }", "a network card"),
        ] {
            assert!(asked(hop).is_err_and(|why| why.contains(said)), "{hop}");
        }
    }
}
