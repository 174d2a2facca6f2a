//! A small FIFO with a tail limit and arbitrary drops and marks. Its runs last so few nanoseconds that every measure
//! can also be computed by looking at each nanosecond.

use proptest::prelude::*;
use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::DropReason;
use sojourn_core::units::{Span, Time};
use sojourn_model::records::{Fate, Kind, PacketRecord};

use crate::distribution::{Distribution, Standing};
use crate::link::{DropCounts, LinkMeter, LinkSetup, LinkWindow};

/// A run of the FIFO. The transmission of a packet takes one nanosecond per byte.
#[derive(Clone, Debug)]
pub struct Case {
    /// Gap to the previous arrival in nanoseconds, and size in bytes.
    pub arrivals: Vec<(u64, u32)>,
    pub limit: usize,
    /// Every n-th packet that reaches the head is dropped there, and every n-th is marked.
    pub drop_every: usize,
    pub mark_every: usize,
    pub measure: (u64, u64),
    pub end: u64,
    pub window: u64,
    pub bins: u32,
}

impl Case {
    pub fn any() -> impl Strategy<Value = Case> {
        let arrivals = prop::collection::vec((prop_oneof![Just(0u64), 0..60u64, 0..300u64], 1u32..60), 0..60);
        let rest = (1usize..9, 1usize..9, 1usize..9, 0u64..400, 1u64..800, 0u64..300, 0u64..200, 1u32..40);
        (arrivals, rest).prop_map(|(arrivals, (limit, drop_every, mark_every, start, length, rest, window, bins))| {
            Case {
                arrivals,
                limit,
                drop_every: drop_every + 1,
                mark_every,
                measure: (start, start + length),
                end: start + length + rest,
                window,
                bins,
            }
        })
    }

    pub fn setup(&self) -> LinkSetup {
        LinkSetup {
            name: "hop0".to_owned(),
            measure: (Time(self.measure.0), Time(self.measure.1)),
            end: Time(self.end),
            rtt_window: Span(self.window),
            bins: self.bins,
            overhead: 14,
        }
    }

    pub fn last_arrival(&self) -> u64 {
        self.measure.1.max(self.arrivals.iter().map(|arrival| arrival.0).sum())
    }

    /// Plays the run into the meter. Transmissions are reported at their start (`early`) or at their end. Packets that
    /// never leave the queue have a record whose start is never; fates may lie after the end of the run.
    pub fn play(&self, meter: &mut LinkMeter, early: bool) -> Vec<PacketRecord> {
        let mut fifo =
            Fifo { case: self, meter, early, queue: Vec::new(), heads: 0, sending: None, records: Vec::new() };
        let mut now = 0;
        for &(gap, bytes) in &self.arrivals {
            now += gap;
            if now >= self.end {
                break;
            }
            fifo.depart_before(now);
            fifo.arrive(now, bytes);
        }
        fifo.depart_before(self.end);
        let Fifo { queue, sending, mut records, .. } = fifo;
        records.extend(sending);
        records.extend(queue);
        records
    }
}

struct Fifo<'a> {
    case: &'a Case,
    meter: &'a mut LinkMeter,
    early: bool,
    queue: Vec<PacketRecord>,
    heads: usize,
    sending: Option<PacketRecord>,
    records: Vec<PacketRecord>,
}

impl Fifo<'_> {
    fn is_full(&self) -> bool {
        self.queue.len() >= self.case.limit
    }

    fn arrive(&mut self, now: u64, bytes: u32) {
        let mut record = PacketRecord {
            link: 0,
            entry: 0,
            connection: 0,
            seq: 0,
            bytes,
            kind: Kind::Data,
            ecn_in: Ecn::Ect0,
            ecn_out: Ecn::Ect0,
            arrival: Time(now),
            start: Time::NEVER,
            end: Time::NEVER,
            fate: Fate::Delivered,
        };
        if self.is_full() && self.sending.is_some() {
            record.fate = Fate::Dropped(DropReason::Overlimit);
            (record.start, record.end) = (Time(now), Time(now));
            self.meter.dropped(Time(now), DropReason::Overlimit);
            self.records.push(record);
        } else {
            self.queue.push(record);
        }
        self.meter.enqueued(Time(now), self.queue.len(), self.is_full());
        if self.sending.is_none() {
            self.start(now);
        }
    }

    fn depart_before(&mut self, until: u64) {
        while let Some(record) = self.sending.filter(|record| record.end.0 < until) {
            self.sending = None;
            if !self.early {
                self.tell_sent(&record);
            }
            self.records.push(record);
            self.start(record.end.0);
        }
    }

    fn start(&mut self, now: u64) {
        while !self.queue.is_empty() {
            let mut record = self.queue.remove(0);
            self.heads += 1;
            record.start = Time(now);
            if self.heads.is_multiple_of(self.case.drop_every) {
                record.end = Time(now);
                record.fate = Fate::Dropped(DropReason::Codel);
                self.meter.dropped(Time(now), DropReason::Codel);
                self.records.push(record);
                continue;
            }
            if self.heads.is_multiple_of(self.case.mark_every) {
                record.ecn_out = Ecn::Ce;
            }
            record.end = Time(now + u64::from(record.bytes));
            let full = self.is_full();
            self.meter.dequeued(Time(now), record.start.since(record.arrival), self.queue.len(), full);
            if self.early {
                self.tell_sent(&record);
            }
            self.sending = Some(record);
            return;
        }
        self.meter.emptied(Time(now));
    }

    fn tell_sent(&mut self, r: &PacketRecord) {
        self.meter.sent(r.start, r.end, r.start.since(r.arrival), r.bytes, r.ecn_out == Ecn::Ce);
    }
}

/// Returns the records that remain if the run ends at `end`: those whose transmission or drop was before it.
pub fn decided(records: &[PacketRecord], end: u64) -> Vec<PacketRecord> {
    records.iter().filter(|record| record.end.0 < end).copied().collect()
}

/// Mean and percentiles from a sorted list of small integers: each percentile is the smallest value up to which that
/// fraction of the samples lies.
pub fn exact(mut samples: Vec<u64>, unit: f64) -> Option<(Distribution, Standing)> {
    samples.sort_unstable();
    let mean = samples.iter().sum::<u64>() as f64 / samples.len() as f64 / unit;
    let max = *samples.last()? as f64 / unit;
    let at = |q: f64| samples[((q * samples.len() as f64).ceil() as usize).saturating_sub(1)] as f64 / unit;
    let distribution = Distribution { mean, p50: at(0.5), p75: at(0.75), p95: at(0.95), p99: at(0.99), max };
    Some((distribution, Standing { p10: at(0.1), p50: at(0.5), p90: at(0.9) }))
}

/// Computes every measure of the window [a, b) by looking at each nanosecond of the run.
pub fn by_brute_force(case: &Case, records: &[PacketRecord], (a, b): (u64, u64)) -> LinkWindow {
    let delivered = |record: &PacketRecord| record.fate == Fate::Delivered;
    let sending = |t: u64| records.iter().any(|r| delivered(r) && r.start.0 <= t && t < r.end.0);
    let queued = |t: u64| records.iter().filter(|r| r.arrival.0 <= t && t < r.start.0).count() as u64;
    let delay = |t: u64| {
        let last = records.iter().filter(|r| delivered(r) && r.start.0 <= t).max_by_key(|r| r.start);
        last.filter(|_| sending(t) || queued(t) > 0).map_or(0, |r| r.start.since(r.arrival).0)
    };
    let delays: Vec<u64> = (0..b).map(delay).collect();
    let least = |t: u64| *delays[t.saturating_sub(case.window) as usize..=t as usize].iter().min().expect("not empty");
    let length = (b - a) as f64;
    let longest = (a..b).fold((0u64, 0u64), |(now, most), t| {
        let now = if queued(t) > 0 { now + 1 } else { 0 };
        (now, most.max(now))
    });
    let within = |r: &&PacketRecord| a <= r.end.0 && r.end.0 < b && r.end.0 < case.end;
    let out: Vec<_> = records.iter().filter(within).filter(|r| delivered(r)).collect();
    let mut drops = DropCounts::default();
    for record in records.iter().filter(within) {
        if let Fate::Dropped(reason) = record.fate {
            drops.0[reason as usize] += 1;
        }
    }
    LinkWindow {
        utilisation: Some((a..b).filter(|&t| sending(t)).count() as f64 / length),
        delivered_packets: out.len() as u64,
        delivered_bytes: out.iter().map(|r| u64::from(r.bytes)).sum(),
        drops: drops.0.iter().sum(),
        drops_by_reason: drops,
        marks: out.iter().filter(|r| r.ecn_out == Ecn::Ce).count() as u64,
        sojourn_ms: exact(out.iter().map(|r| r.start.since(r.arrival).0).collect(), 1e6).map(|d| d.0),
        queue_delay_ms: exact((a..b).map(|t| delays[t as usize]).collect(), 1e6)
            .map(|d| d.0)
            .filter(|_| !out.is_empty()),
        queue_packets: exact((a..b).map(queued).collect(), 1.0).map(|d| d.0),
        standing_queue_ms: exact((a..b).map(least).collect(), 1e6).map(|d| d.1).filter(|_| !out.is_empty()),
        empty_fraction: Some((a..b).filter(|&t| queued(t) == 0).count() as f64 / length),
        nonempty_max_s: Some(longest.1 as f64 / 1e9),
        full_fraction: Some((a..b).filter(|&t| queued(t) >= case.limit as u64).count() as f64 / length),
        oscillation_s: None,
        nic: None,
        paused_fraction: None,
        stats: None,
    }
}
