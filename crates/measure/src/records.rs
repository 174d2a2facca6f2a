//! Per-packet records as plain columns, and the measures recomputed from stored records with the same meters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::iter::Peekable;

use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::DropReason;
use sojourn_core::units::{Span, Time};
use sojourn_model::records::{Fate, Kind, PacketRecord};

use crate::link::{LinkMeter, LinkReport, LinkSetup};

/// A column of a record file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column {
    /// Small codes.
    U8(Vec<u8>),
    /// Link indices.
    U16(Vec<u16>),
    /// Counters and sizes.
    U32(Vec<u32>),
    /// Times in nanoseconds.
    U64(Vec<u64>),
}

/// Every packet kind with its name; the position is its code in the column `kind`.
pub const KINDS: [(Kind, &str); 6] = [
    (Kind::Data, "data"),
    (Kind::Retransmit, "retransmit"),
    (Kind::Ack, "ack"),
    (Kind::Syn, "syn"),
    (Kind::Ping, "ping"),
    (Kind::Datagram, "datagram"),
];

/// The code of a fate in the column `fate`: 0 if delivered, otherwise 1 plus the number of the drop reason.
pub fn fate_code(fate: Fate) -> u8 {
    match fate {
        Fate::Delivered => 0,
        Fate::Dropped(reason) => 1 + reason as u8,
    }
}

/// The names of all fates, indexed by code: `delivered`, `dropped:overlimit`, …
pub fn fate_names() -> Vec<String> {
    let drops = DropReason::ALL.iter().map(|reason| format!("dropped:{}", reason.name()));
    std::iter::once("delivered".to_owned()).chain(drops).collect()
}

/// Converts records to named columns; times are in nanoseconds.
pub fn columns(records: &[PacketRecord]) -> Vec<(&'static str, Column)> {
    fn of<T>(records: &[PacketRecord], field: impl Fn(&PacketRecord) -> T) -> Vec<T> {
        records.iter().map(field).collect()
    }
    vec![
        ("link", Column::U16(of(records, |r| r.link))),
        ("entry", Column::U32(of(records, |r| r.entry))),
        ("connection", Column::U32(of(records, |r| r.connection))),
        ("seq", Column::U32(of(records, |r| r.seq))),
        ("bytes", Column::U32(of(records, |r| r.bytes))),
        ("kind", Column::U8(of(records, |r| r.kind as u8))),
        ("ecn_in", Column::U8(of(records, |r| r.ecn_in as u8))),
        ("ecn_out", Column::U8(of(records, |r| r.ecn_out as u8))),
        ("arrival_ns", Column::U64(of(records, |r| r.arrival.0))),
        ("start_ns", Column::U64(of(records, |r| r.start.0))),
        ("end_ns", Column::U64(of(records, |r| r.end.0))),
        ("fate", Column::U8(of(records, |r| fate_code(r.fate)))),
    ]
}

/// Error: columns do not form valid records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadColumns(String);

impl std::fmt::Display for BadColumns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadColumns {}

/// The columns of a file, with look-up by name.
struct Table<'a>(&'a [(&'a str, Column)]);

impl Table<'_> {
    /// Returns a column as numbers; it must have `rows` values, all below `limit`.
    fn numbers(&self, name: &str, rows: Option<usize>, limit: u64) -> Result<Vec<u64>, BadColumns> {
        let column = self.0.iter().find(|(key, _)| *key == name).map(|(_, column)| column);
        let values: Vec<u64> = match column.ok_or_else(|| BadColumns(format!("column {name} is missing")))? {
            Column::U8(values) => values.iter().map(|&v| v.into()).collect(),
            Column::U16(values) => values.iter().map(|&v| v.into()).collect(),
            Column::U32(values) => values.iter().map(|&v| v.into()).collect(),
            Column::U64(values) => values.clone(),
        };
        if let Some(rows) = rows.filter(|&rows| rows != values.len()) {
            return Err(BadColumns(format!("column {name} has {} rows, expected {rows}", values.len())));
        }
        if let Some((row, value)) = values.iter().enumerate().find(|&(_, &value)| value >= limit) {
            return Err(BadColumns(format!(
                "column {name}, row {row}: {value} is unknown, expected less than {limit}"
            )));
        }
        Ok(values)
    }
}

/// Converts columns to records. The order of columns does not matter; unknown columns are ignored.
///
/// # Errors
/// A column is missing, its length differs from that of `link`, or it holds an unknown code.
pub fn from_columns(columns: &[(&str, Column)]) -> Result<Vec<PacketRecord>, BadColumns> {
    let table = Table(columns);
    let links = table.numbers("link", None, 1 << 16)?;
    let rows = Some(links.len());
    let number = |name| table.numbers(name, rows, 1 << 32);
    let (entries, connections, seqs, bytes) =
        (number("entry")?, number("connection")?, number("seq")?, number("bytes")?);
    let kinds = table.numbers("kind", rows, KINDS.len() as u64)?;
    let (ecn_in, ecn_out) = (table.numbers("ecn_in", rows, 4)?, table.numbers("ecn_out", rows, 4)?);
    let time = |name| table.numbers(name, rows, u64::MAX);
    let (arrivals, starts, ends) = (time("arrival_ns")?, time("start_ns")?, time("end_ns")?);
    let fates = table.numbers("fate", rows, 1 + DropReason::ALL.len() as u64)?;
    let record = |i: usize| PacketRecord {
        link: links[i] as u16,
        entry: entries[i] as u32,
        connection: connections[i] as u32,
        seq: seqs[i] as u32,
        bytes: bytes[i] as u32,
        kind: KINDS[kinds[i] as usize].0,
        ecn_in: Ecn::from_bits(ecn_in[i] as u8),
        ecn_out: Ecn::from_bits(ecn_out[i] as u8),
        arrival: Time(arrivals[i]),
        start: Time(starts[i]),
        end: Time(ends[i]),
        fate: match fates[i] {
            0 => Fate::Delivered,
            code => Fate::Dropped(DropReason::ALL[code as usize - 1]),
        },
    };
    Ok((0..links.len()).map(record).collect())
}

/// An event of a packet after its arrival. Events at the same time are handled in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Drop,
    Start,
    End,
}

/// The next event of a packet that has arrived. The order of the fields defines the order of events: by time, then by
/// kind, then by end of transmission, then by arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    at: Time,
    event: Event,
    end: Time,
    /// The number of the packet in order of arrival. It is unique, so the fields below never affect the order.
    number: u32,
    bytes: u32,
    sojourn: Span,
    marked: bool,
    dropped: Option<DropReason>,
}

/// Recomputes the report of link number `link` from records, with the same meter.
///
/// Packets that were still queued at the end of the run have no record. Just before the end, the queue therefore looks
/// shorter than it was, and the link looks idle. Records contain neither the times at which the queue was full nor the
/// opportunities of a trace-driven link. Therefore there is no `full_fraction`, and utilisation is the busy fraction.
pub fn from_records(records: &[PacketRecord], link: u16, setup: &LinkSetup) -> LinkReport {
    let mut arrivals: Vec<&PacketRecord> = records.iter().filter(|record| record.link == link).collect();
    arrivals.sort_by_key(|record| record.arrival);
    let mut replay = RecordFeed::new(LinkMeter::new(setup), Vec::new(), |_, _, _| false);
    arrivals.into_iter().for_each(|record| replay.arrives(record));
    let mut report = replay.finish();
    report.main.full_fraction = None;
    if let Some(startup) = &mut report.startup {
        startup.full_fraction = None;
    }
    report
}

/// A delivery opportunity of a trace-driven link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Time of the opportunity.
    pub at: Time,
    /// Bytes that could be sent.
    pub bytes: u32,
    /// Bytes that were sent.
    pub used: u32,
}

/// Feeds the records of one link to its meter. Records come in the order of packet arrivals. The later events of a
/// packet are kept until they are due, so only packets in the queue need memory.
pub struct RecordFeed<F> {
    meter: LinkMeter,
    offers: Peekable<std::vec::IntoIter<Offer>>,
    is_full: F,
    pending: BinaryHeap<Reverse<Pending>>,
    arrived: u32,
    queued: usize,
    bytes: u64,
    /// The arrival number of the packet whose transmission began last.
    in_transmission: Option<u32>,
}

impl<F: Fn(Time, usize, u64) -> bool> RecordFeed<F> {
    /// Creates a replay. The meter may already know the link's rates. `offers`, in order of time, are the opportunities
    /// of a trace-driven link. `is_full` tells for a time and a queue length in packets and bytes whether the next
    /// packet of MTU size would be refused.
    pub fn new(meter: LinkMeter, offers: Vec<Offer>, is_full: F) -> RecordFeed<F> {
        let (pending, offers) = (BinaryHeap::new(), offers.into_iter().peekable());
        RecordFeed { meter, offers, is_full, pending, arrived: 0, queued: 0, bytes: 0, in_transmission: None }
    }

    /// Handles the arrival of a packet. A packet that was still queued at the end of the run has a start of
    /// [`Time::NEVER`]. A packet lost behind the link has two records: the second one tells only of the loss.
    pub fn arrives(&mut self, record: &PacketRecord) {
        // At equal times arrivals come before everything else.
        self.reach(|next| next.at < record.arrival);
        self.offer(record.arrival);
        if !record.is_loss() {
            self.queued += 1;
            self.bytes += u64::from(record.bytes);
            self.enqueued(record.arrival);
        }
        let (at, event, dropped) = match record.fate {
            Fate::Dropped(reason) => (record.end, Event::Drop, Some(reason)),
            Fate::Delivered => (record.start, Event::Start, None),
        };
        if at < Time::NEVER {
            self.pending.push(Reverse(Pending {
                at,
                event,
                end: record.end,
                number: self.arrived,
                bytes: record.bytes,
                sojourn: record.start.since(record.arrival),
                marked: record.ecn_out == Ecn::Ce && record.ecn_in != Ecn::Ce,
                dropped,
            }));
        }
        self.arrived += 1;
    }

    /// Returns the report; call it after the last packet.
    pub fn finish(mut self) -> LinkReport {
        self.reach(|_| true);
        self.offer(Time::NEVER);
        self.meter.finish()
    }

    /// Handles events in order, until `due` is false for the next event.
    fn reach(&mut self, due: impl Fn(&Pending) -> bool) {
        while let Some(event) = self.next(&due) {
            self.happens(event);
        }
    }

    /// Takes the next event if it is due. A start of transmission is replaced by its end.
    fn next(&mut self, due: impl Fn(&Pending) -> bool) -> Option<Pending> {
        let mut first = self.pending.peek_mut().filter(|first| due(&first.0))?;
        let event = first.0;
        // An end before its own start has no effect: the packet was not in transmission then.
        if event.event == Event::Start && event.end >= event.at {
            first.0 = Pending { at: event.end, event: Event::End, ..event };
        } else {
            PeekMut::pop(first);
        }
        Some(event)
    }

    fn happens(&mut self, Pending { at: now, event, end, number, bytes, sojourn, marked, dropped }: Pending) {
        self.offer(now);
        let was_queued = event != Event::End && dropped != Some(DropReason::Loss);
        if was_queued {
            self.queued -= 1;
            self.bytes -= u64::from(bytes);
        }
        match event {
            Event::Drop => dropped.into_iter().for_each(|reason| self.meter.dropped(now, reason)),
            Event::Start => {
                self.in_transmission = Some(number);
                self.meter.dequeued(now, sojourn, self.queued, (self.is_full)(now, self.queued, self.bytes));
                self.meter.sent(now, end, sojourn, bytes, marked);
            }
            Event::End if self.in_transmission == Some(number) && self.queued == 0 => self.meter.emptied(now),
            Event::End => {}
        }
        self.enqueued(now);
    }

    fn enqueued(&mut self, now: Time) {
        self.meter.enqueued(now, self.queued, (self.is_full)(now, self.queued, self.bytes));
    }

    /// Reports the delivery opportunities up to now.
    fn offer(&mut self, now: Time) {
        while let Some(offer) = self.offers.next_if(|offer| offer.at <= now) {
            self.meter.offered(offer.at, offer.bytes, offer.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, decided};
    use proptest::prelude::*;

    /// All events of a packet. Events at the same time are handled in this order.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Happening {
        Arrival,
        Drop,
        Start,
        End,
    }

    /// A slow and obvious [`RecordFeed`], for records in the order of their fates: it sorts all events in one list.
    fn by_sorting(
        records: &[PacketRecord],
        mut meter: LinkMeter,
        offers: &[Offer],
        is_full: impl Fn(Time, usize, u64) -> bool,
    ) -> LinkReport {
        let mut events = Vec::new();
        for (index, record) in records.iter().enumerate() {
            events.push((record.arrival, Happening::Arrival, index));
            match record.fate {
                Fate::Dropped(_) => events.push((record.end, Happening::Drop, index)),
                Fate::Delivered if record.start == Time::NEVER => {}
                Fate::Delivered => {
                    events.push((record.start, Happening::Start, index));
                    events.push((record.end, Happening::End, index));
                }
            }
        }
        events.sort_unstable();
        let (mut queued, mut bytes, mut in_transmission) = (0, 0, None);
        let mut offers = offers.iter().peekable();
        for (now, event, index) in events {
            while let Some(offer) = offers.next_if(|offer| offer.at <= now) {
                meter.offered(offer.at, offer.bytes, offer.used);
            }
            let record = &records[index];
            let sojourn = record.start.since(record.arrival);
            match (event, record.fate) {
                (Happening::Arrival, _) => {
                    queued += 1;
                    bytes += u64::from(record.bytes);
                }
                (Happening::Drop, Fate::Dropped(reason)) => {
                    queued -= 1;
                    bytes -= u64::from(record.bytes);
                    meter.dropped(now, reason);
                }
                (Happening::Start, _) => {
                    queued -= 1;
                    bytes -= u64::from(record.bytes);
                    in_transmission = Some(index);
                    meter.dequeued(now, sojourn, queued, is_full(now, queued, bytes));
                    let marked = record.ecn_out == Ecn::Ce && record.ecn_in != Ecn::Ce;
                    meter.sent(record.start, record.end, sojourn, record.bytes, marked);
                }
                (Happening::End, _) if in_transmission == Some(index) && queued == 0 => meter.emptied(now),
                (Happening::End | Happening::Drop, _) => {}
            }
            meter.enqueued(now, queued, is_full(now, queued, bytes));
        }
        offers.for_each(|offer| meter.offered(offer.at, offer.bytes, offer.used));
        meter.finish()
    }

    /// Packets of a link in the order of their arrivals, on a time grid so coarse that nearly every event has a tie.
    fn coarse() -> impl Strategy<Value = Vec<PacketRecord>> {
        let packet = (0u64..3, 0u64..8, 0u64..4, 0u8..8, 1u32..5, any::<(bool, bool)>());
        prop::collection::vec(packet, 0..80).prop_map(|packets| {
            let mut now = 0;
            let record = |(gap, wait, length, fate, bytes, (ecn_in, ecn_out))| {
                now += gap;
                let (fate, start, end) = match fate {
                    0 => (Fate::Dropped(DropReason::Overlimit), now, now),
                    1 => (Fate::Dropped(DropReason::Codel), now + wait, now + wait),
                    2 => (Fate::Delivered, u64::MAX, u64::MAX),
                    _ => (Fate::Delivered, now + wait, now + wait + length),
                };
                let ecn = |ce| if ce { Ecn::Ce } else { Ecn::Ect0 };
                PacketRecord {
                    link: 0,
                    entry: 0,
                    connection: 0,
                    seq: 0,
                    bytes,
                    kind: Kind::Data,
                    ecn_in: ecn(ecn_in),
                    ecn_out: ecn(ecn_in || ecn_out),
                    arrival: Time(now),
                    start: Time(start),
                    end: Time(end),
                    fate,
                }
            };
            packets.into_iter().map(record).collect()
        })
    }

    proptest! {
        #[test]
        fn one_walk_over_arrivals_tells_a_meter_what_a_list_of_all_events_does(
            records in coarse(),
            offered in prop::collection::vec((0u64..4, 0u32..3), 0..40),
            (limit, later) in (1u64..20, 0u64..100),
            (from, length, rest) in (0u64..60, 1u64..100, 0u64..60),
        ) {
            let setup = LinkSetup {
                name: "hop0".into(),
                measure: (Time(from), Time(from + length)),
                end: Time(from + length + rest),
                rtt_window: Span(10),
                bins: 7,
                overhead: 0,
            };
            let mut at = 0;
            let offers: Vec<Offer> = offered
                .into_iter()
                .map(|(gap, used)| {
                    at += gap;
                    Offer { at: Time(at), bytes: 3, used }
                })
                .collect();
            // The queue has a byte limit first, and a packet limit later.
            let is_full = |now: Time, packets: usize, bytes: u64| {
                if now.0 < later { bytes > limit } else { packets as u64 * 3 > limit }
            };
            let mut replay = RecordFeed::new(LinkMeter::new(&setup), offers.clone(), is_full);
            records.iter().for_each(|record| replay.arrives(record));
            let mut by_fate = records;
            by_fate.sort_by_key(|record| (record.end, record.fate == Fate::Delivered));
            let all = by_sorting(&by_fate, LinkMeter::new(&setup), &offers, is_full);
            prop_assert_eq!(format!("{:?}", replay.finish()), format!("{all:?}"));
        }

        #[test]
        fn all_measures_can_be_recomputed_when_the_run_ended_with_an_empty_queue(mut case in Case::any()) {
            // The run is long enough for every packet to leave.
            case.end = case.last_arrival() + 60 * 200;
            let mut meter = LinkMeter::new(&case.setup());
            let records = case.play(&mut meter, false);
            let mut live = meter.finish();
            let again = from_records(&decided(&records, case.end), 0, &case.setup());
            live.main.full_fraction = None;
            prop_assert_eq!(&again.main, &live.main);
            prop_assert_eq!(again.sojourn, live.sojourn);
        }

        #[test]
        fn what_left_can_be_recomputed_however_the_run_ended(case in Case::any()) {
            let mut meter = LinkMeter::new(&case.setup());
            let records = case.play(&mut meter, true);
            let live = meter.finish().main;
            let again = from_records(&decided(&records, case.end), 0, &case.setup()).main;
            prop_assert_eq!(again.sojourn_ms, live.sojourn_ms);
            prop_assert_eq!((again.delivered_packets, again.delivered_bytes), (live.delivered_packets, live.delivered_bytes));
            prop_assert_eq!((again.drops_by_reason, again.marks), (live.drops_by_reason, live.marks));
        }

        #[test]
        fn columns_give_the_records_back(case in Case::any()) {
            let records = decided(&case.play(&mut LinkMeter::new(&case.setup()), false), case.end);
            prop_assert_eq!(from_columns(&columns(&records)).expect("own columns"), records);
        }
    }

    #[test]
    fn on_a_traced_link_packets_count_in_the_window_in_which_they_left() {
        let setup = LinkSetup {
            name: "radio".into(),
            measure: (Time(100), Time(200)),
            end: Time(200),
            rtt_window: sojourn_core::units::Span(50),
            bins: 2,
            overhead: 0,
        };
        let leaves = |at: u64| PacketRecord {
            link: 0,
            entry: 0,
            connection: 0,
            seq: 0,
            bytes: 1500,
            kind: Kind::Data,
            ecn_in: Ecn::NotEct,
            ecn_out: Ecn::NotEct,
            arrival: Time(at - 10),
            start: Time(at),
            end: Time(at),
            fate: Fate::Delivered,
        };
        let offers =
            [40, 90, 140, 190].map(|at| Offer { at: Time(at), bytes: 1500, used: if at == 190 { 0 } else { 1500 } });
        let records = [leaves(40), leaves(90), leaves(140)];
        let mut replay = RecordFeed::new(LinkMeter::new(&setup), offers.to_vec(), |_, _, _| false);
        records.iter().for_each(|record| replay.arrives(record));
        let report = replay.finish();
        let startup = report.startup.expect("measuring starts later");
        assert_eq!((startup.delivered_packets, startup.utilisation), (2, Some(1.0)));
        assert_eq!((report.main.delivered_packets, report.main.utilisation), (1, Some(0.5)));
        assert_eq!(report.series.delivered_packets, [2.0, 1.0]);
    }

    #[test]
    fn bad_columns_are_named_with_row_and_value() {
        let mut table = columns(&[]);
        assert_eq!(from_columns(&table[1..]).unwrap_err().to_string(), "column link is missing");
        table[11].1 = Column::U8(vec![0]);
        assert_eq!(from_columns(&table).unwrap_err().to_string(), "column fate has 1 rows, expected 0");
        for (name, column) in &mut table {
            *column = Column::U8(vec![if *name == "kind" { 9 } else { 0 }]);
        }
        let error = from_columns(&table).unwrap_err().to_string();
        assert_eq!(error, "column kind, row 0: 9 is unknown, expected less than 6");
    }

    #[test]
    fn every_fate_has_its_name_at_its_code() {
        assert_eq!(fate_names()[0], "delivered");
        for reason in DropReason::ALL {
            let code = fate_code(Fate::Dropped(reason));
            assert_eq!(fate_names()[code as usize], format!("dropped:{}", reason.name()));
        }
        for (code, (kind, _)) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, code);
        }
    }
}
