//! Meter of one row of the report's `flows`: one flow, or all connections of a kind with many short ones.

use sojourn_core::cache::Cache;
use sojourn_core::units::{Span, Time};
use sojourn_model::workload::driver::Observation;
use sojourn_model::workload::rpm::Timed;
use sojourn_model::workload::video::Seen;

use crate::command::CommandRun;
use crate::distribution::{Distribution, MS, S};
use crate::histogram::Histogram;
use crate::responsiveness::{Interval, Responsiveness, judge};
use crate::slices::{Phase, bin_width};
use crate::stream::{StreamMeasures, StreamMeter, StreamSetup};
use crate::video::{Playback, VideoWindow};

/// Configuration of a flow's meter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowSetup {
    /// `bulk0`, `web0`, …
    pub name: String,
    /// `bulk`, `web`, … as in the scenario file.
    pub kind: &'static str,
    /// Congestion control, as in the scenario file; empty for flows without one.
    pub cc: String,
    /// The measuring window [start, end), never empty.
    pub measure: (Time, Time),
    /// The end of the run. Events at or after it are not counted.
    pub end: Time,
    /// Upper bound on the number of bins of the series; 0 for no series.
    pub bins: u32,
    /// Whether to keep samples of the sender's state, at most one per bin.
    pub state: bool,
    /// Set for a stream of datagrams.
    pub stream: Option<StreamSetup>,
    /// Set for a responsiveness test: the length of its intervals.
    pub intervals: Option<Span>,
}

/// Histogram of round-trip times, with a relative error of at most 0.8 % and one byte per bin, as there may be
/// thousands of flows.
pub type Rtts = Histogram<7, u8>;

/// Counters that change with nearly every ACK, within one window.
#[derive(Clone, Default, Debug)]
#[repr(C)]
struct Traffic {
    rtt: Rtts,
    acked: u64,
    packets: u64,
}

/// The counters of [`Traffic`], for each window that has ended.
#[derive(Clone, Default, Debug)]
struct Past {
    startup: Option<Box<Traffic>>,
    main: Option<Box<Traffic>>,
}

/// Slowdowns are counted in thousandths.
const THOUSANDTHS: f64 = 1000.0;

/// Counters that change rarely, within one window.
#[derive(Clone, Default, Debug)]
struct Events {
    /// Allocated by the first of these events: many flows of a large group never have one.
    rare: Option<Box<Rare>>,
    started: u64,
    completed: u64,
    retransmits: u64,
    drops: u64,
}

/// Losses and transfers within one window.
#[derive(Clone, Default, Debug)]
struct Rare {
    /// The times of the drops in nanoseconds, in the order in which they were reported.
    losses: Vec<u64>,
    startup: Histogram,
    fct: Histogram,
    slowdown: Histogram,
    pages: Histogram,
    watched: Playback,
}

/// Adds `other` to `mine`, either of which may not exist.
fn merge<T>(mine: &mut Option<Box<T>>, other: Option<Box<T>>, add: impl Fn(&mut T, T)) {
    match (mine.as_deref_mut(), other) {
        (Some(mine), Some(other)) => add(mine, *other),
        (None, other) => *mine = other,
        (Some(_), None) => {}
    }
}

impl Traffic {
    fn merge(&mut self, other: Traffic) {
        self.rtt.merge(&other.rtt);
        self.acked += other.acked;
        self.packets += other.packets;
    }
}

impl Rare {
    fn merge(&mut self, other: Rare) {
        self.losses.extend(other.losses);
        self.startup.merge(&other.startup);
        self.fct.merge(&other.fct);
        self.slowdown.merge(&other.slowdown);
        self.pages.merge(&other.pages);
        self.watched.merge(&other.watched);
    }
}

impl Events {
    fn merge(&mut self, other: Events) {
        merge(&mut self.rare, other.rare, Rare::merge);
        self.started += other.started;
        self.completed += other.completed;
        self.retransmits += other.retransmits;
        self.drops += other.drops;
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// State that only some kinds of rows have.
#[derive(Clone, Default, Debug)]
struct Special {
    /// Set for a stream of datagrams.
    stream: Option<StreamMeter>,
    /// The intervals of a responsiveness test; the last one is still open.
    intervals: Option<Vec<Interval>>,
}

/// Samples of the sender's state.
#[derive(Clone, Default, Debug)]
struct States {
    kept: Vec<FlowState>,
    /// Earliest time of the next sample, in nanoseconds.
    next: u64,
}

/// The meter of one row. The fields that every ACK touches come first: with many flows, an ACK then touches two cache
/// lines of the meter instead of five.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct FlowMeter {
    traffic: Traffic,
    /// Start of the next window or bin, in nanoseconds.
    next: u64,
    bin: usize,
    acked_bytes: Box<[u64]>,
    measure: (Time, Time),
    main: Events,
    startup: Option<Box<Events>>,
    /// The current window, and its end in nanoseconds. The series has a separate cursor, which skips bins without
    /// events.
    phase: Phase,
    phase_end: u64,
    bin_width: u64,
    end: Time,
    past: Past,
    states: Option<Box<States>>,
    special: Option<Box<Special>>,
}

impl FlowMeter {
    /// Creates a meter at time zero.
    pub fn new(setup: &FlowSetup) -> FlowMeter {
        let bin_width = bin_width(setup.end, setup.bins);
        let bins = if setup.bins == 0 { 0 } else { setup.end.0.div_ceil(bin_width) as usize };
        let (phase, phase_end) = Phase::at(0, setup.measure, setup.end);
        let special = || Special {
            stream: setup.stream.map(|stream| StreamMeter::new(stream, setup.measure, setup.end)),
            intervals: setup.intervals.map(|_| vec![Interval::default()]),
        };
        FlowMeter {
            traffic: Traffic::default(),
            next: 0,
            bin: 0,
            acked_bytes: vec![0; bins].into(),
            main: Events::default(),
            startup: None,
            phase,
            phase_end,
            bin_width,
            measure: setup.measure,
            end: setup.end,
            past: Past::default(),
            states: (setup.state && setup.bins > 0).then(Box::default),
            special: (setup.stream.is_some() || setup.intervals.is_some()).then(|| Box::new(special())),
        }
    }

    /// Prefetches the state that an ACK will touch. `repairs` is true if the ACK may trigger retransmissions.
    #[inline]
    pub fn prefetch(&self, repairs: bool, cache: &impl Cache) {
        cache.fetch(&self.traffic);
        cache.fetch(&self.traffic.acked);
        if repairs {
            cache.fetch(&self.measure);
        }
    }

    /// Prefetches the histogram bin that an RTT sample of `rtt` will touch.
    #[inline]
    pub fn prefetch_rtt(&self, rtt: Span, cache: &impl Cache) {
        self.traffic.rtt.prefetch(rtt.0, cache);
    }

    /// Records an RTT sample of the sender. Like `acked` and `sent`, calls must come in order of time.
    #[inline]
    pub fn rtt(&mut self, now: Time, rtt: Span) {
        self.reach(now);
        self.traffic.rtt.add(rtt.0);
    }

    /// Records the effects of one ACK: newly acknowledged payload in bytes, an RTT sample, and the number of packets
    /// sent in response. Equivalent to [`FlowMeter::acked`], [`FlowMeter::rtt`] and [`FlowMeter::sent`] in one call.
    #[inline(always)]
    pub fn round(&mut self, now: Time, payload: u64, rtt: Option<Span>, packets: u64) {
        self.reach(now);
        if let Some(rtt) = rtt {
            self.traffic.rtt.add(rtt.0);
        }
        self.traffic.packets += packets;
        self.traffic.acked += payload;
        if let Some(bytes) = self.acked_bytes.get_mut(self.bin) {
            *bytes += payload;
        }
    }

    /// Records `payload` bytes that an ACK acknowledged for the first time.
    #[inline]
    pub fn acked(&mut self, now: Time, payload: u64) {
        self.reach(now);
        self.traffic.acked += payload;
        if let Some(bytes) = self.acked_bytes.get_mut(self.bin) {
            *bytes += payload;
        }
    }

    /// Records that `packets` packets left the sender, including retransmissions and SYNs.
    #[inline]
    pub fn sent(&mut self, now: Time, packets: u64) {
        self.reach(now);
        self.traffic.packets += packets;
    }

    /// Records that the next datagram of a stream left the sender. Datagrams are numbered from zero; calls must come in
    /// order of time.
    pub fn sent_datagram(&mut self, now: Time) {
        self.sent(now, 1);
        if let Some(stream) = self.stream() {
            stream.sent(now);
        }
    }

    /// Records that datagram `number`, sent at `sent`, reached its receiver. Calls must come in order of arrival; they
    /// need no order relative to other events.
    pub fn received_datagram(&mut self, now: Time, sent: Time, number: u32) {
        let Some(payload) = self.stream().and_then(|stream| stream.received(now, sent, number)) else { return };
        let bin = usize::try_from(now.0 / self.bin_width).unwrap_or(usize::MAX);
        if let Some(bytes) = self.acked_bytes.get_mut(bin).filter(|_| now < self.end) {
            *bytes += u64::from(payload);
        }
    }

    /// Records that the packet just sent was a retransmission. Calls of this function and of the following ones need
    /// not be in order of time.
    #[inline]
    pub fn retransmit(&mut self, now: Time) {
        if let Some(events) = self.events(now) {
            events.retransmits += 1;
        }
    }

    /// Records that a queue dropped one of the sender's packets.
    #[inline]
    pub fn dropped(&mut self, now: Time) {
        if let Some(events) = self.events(now) {
            events.drops += 1;
            events.rare().losses.push(now.0);
        }
        if let Some(stream) = self.stream() {
            stream.dropped(now);
        }
    }

    /// Records the start of a transfer.
    pub fn started(&mut self, now: Time) {
        if let Some(events) = self.events(now) {
            events.started += 1;
        }
    }

    /// Records that an application began to send over a new connection, `took` after the connection's first SYN.
    pub fn began(&mut self, now: Time, took: Span) {
        if let Some(events) = self.events(now) {
            events.rare().startup.add(took.0);
        }
    }

    /// Records that a transfer's last byte reached the receiver, `fct` after its first SYN. `ideal` is the completion
    /// time on an empty path.
    pub fn completed(&mut self, now: Time, fct: Span, ideal: Span) {
        if let Some(events) = self.events(now) {
            events.completed += 1;
            events.rare().fct.add(fct.0);
            let thousandths = u128::from(fct.0) * 1000 / u128::from(ideal.0.max(1));
            events.rare().slowdown.add(u64::try_from(thousandths).unwrap_or(u64::MAX));
        }
    }

    /// Records that a page's last byte reached the client, `time` after the page's first SYN.
    pub fn loaded(&mut self, now: Time, time: Span) {
        if let Some(events) = self.events(now) {
            events.rare().pages.add(time.0);
        }
    }

    /// Records that a probe of a responsiveness test completed after `took`. Calls must come in order of time, like
    /// those of [`FlowMeter::interval`].
    pub fn probed(&mut self, what: Timed, took: Span) {
        if let Some(interval) = self.intervals().and_then(|intervals| intervals.last_mut()) {
            interval.add(what, took);
        }
    }

    /// Records the end of an interval of a responsiveness test, in which the load-generating connections moved `bytes`
    /// bytes.
    pub fn interval(&mut self, bytes: u64) {
        let Some(intervals) = self.intervals() else { return };
        if let Some(interval) = intervals.last_mut() {
            interval.bytes = bytes;
        }
        intervals.push(Interval::default());
    }

    /// Records what an application or its host saw.
    pub fn observe(&mut self, now: Time, seen: Observation) {
        match seen {
            Observation::Started => self.started(now),
            Observation::Began(took) => self.began(now, took),
            Observation::Completed { took, ideal } => self.completed(now, took, ideal),
            Observation::Loaded(took) => self.loaded(now, took),
            Observation::Watched(seen) => self.watched(now, seen),
            Observation::Probed(timed, took) => self.probed(timed, took),
            Observation::Interval(bytes) => self.interval(bytes),
            Observation::Pinged => self.sent(now, 1),
            Observation::Replied(rtt) => self.rtt(now, rtt),
            Observation::Sent => self.sent_datagram(now),
            Observation::Received { number, sent } => self.received_datagram(now, sent, number),
        }
    }

    /// Records an event of a video's playback.
    pub fn watched(&mut self, now: Time, seen: Seen) {
        if let Some(events) = self.events(now) {
            events.rare().watched.add(seen);
        }
    }

    /// Records the sender's congestion window and flight in segments and its smoothed RTT, if the setup asks for
    /// samples; keeps at most one per bin.
    #[inline]
    pub fn state(&mut self, now: Time, cwnd: u32, srtt: Span, inflight: u32, window: Option<u32>) {
        if let Some(states) = &mut self.states
            && now.0 >= states.next
        {
            states.next = (now.0 / self.bin_width + 1) * self.bin_width;
            states.kept.push(FlowState { time: now, cwnd, srtt, inflight, window });
        }
    }

    /// Adds what the meter of another flow of the same pool or name has counted. Call it at the end of the run. Both meters have the
    /// same windows and bins, and neither is that of a stream of datagrams or of a responsiveness test.
    pub fn merge(&mut self, mut other: FlowMeter) {
        self.cross(self.end.0);
        other.cross(other.end.0);
        merge(&mut self.past.startup, other.past.startup, Traffic::merge);
        merge(&mut self.past.main, other.past.main, Traffic::merge);
        self.main.merge(other.main);
        merge(&mut self.startup, other.startup, Events::merge);
        self.acked_bytes.iter_mut().zip(&other.acked_bytes).for_each(|(sum, bytes)| *sum += bytes);
    }

    fn stream(&mut self) -> Option<&mut StreamMeter> {
        self.special.as_mut()?.stream.as_mut()
    }

    fn intervals(&mut self) -> Option<&mut Vec<Interval>> {
        self.special.as_mut()?.intervals.as_mut()
    }

    /// Returns the counters of the window that contains `now`; `None` outside of both windows.
    #[inline]
    fn events(&mut self, now: Time) -> Option<&mut Events> {
        let (start, end) = self.measure;
        if now < start { Some(self.startup_events()) } else { (now < end).then_some(&mut self.main) }
    }

    #[cold]
    fn startup_events(&mut self) -> &mut Events {
        self.startup.get_or_insert_default()
    }

    #[inline]
    fn reach(&mut self, now: Time) {
        if now.0 >= self.next {
            self.cross(now.0);
        }
    }

    #[cold]
    #[inline(never)]
    fn cross(&mut self, now: u64) {
        while self.phase_end <= now && self.phase != Phase::Over {
            let traffic = Box::new(std::mem::take(&mut self.traffic));
            match self.phase {
                Phase::Startup => self.past.startup = Some(traffic),
                Phase::Main => self.past.main = Some(traffic),
                Phase::After | Phase::Over => {}
            }
            (self.phase, self.phase_end) = Phase::at(self.phase_end, self.measure, self.end);
        }
        if self.phase == Phase::Over {
            (self.bin, self.next) = (usize::MAX, u64::MAX);
        } else {
            let bin = now / self.bin_width;
            (self.bin, self.next) = (bin as usize, self.phase_end.min((bin + 1).saturating_mul(self.bin_width)));
        }
    }

    /// Returns the report at the end of the run. `setup` is the one that the meter was created with; `unfinished`
    /// counts transfers that had started but not completed by then.
    pub fn finish(mut self, setup: FlowSetup, unfinished: u64) -> FlowReport {
        self.cross(self.end.0);
        let (a, b) = self.measure;
        let Special { stream, intervals } = self.special.map(|special| *special).unwrap_or_default();
        let measures = |main: bool| stream.as_ref().map(|stream| stream.measures(main));
        // The test is judged as a whole, independently of the measuring window.
        let rpm = setup.intervals.zip(intervals).map(|(length, mut intervals)| {
            intervals.pop();
            Box::new(judge(&intervals, length))
        });
        let traffic = self.past.main.unwrap_or_default();
        let main = FlowWindow::new(&setup, (&traffic, &self.main, measures(true)), b.since(a), unfinished);
        let startup = self.past.startup.map(|traffic| {
            let events = self.startup.unwrap_or_default();
            let open = events.started.saturating_sub(events.completed);
            Box::new(FlowWindow::new(&setup, (&traffic, &events, measures(false)), a.since(Time::ZERO), open))
        });
        let bin_width = if setup.bins == 0 { Span::ZERO } else { Span(self.bin_width) };
        let states = self.states.map_or(Vec::new(), |states| states.kept);
        let series = FlowSeries { bin_width, acked_bytes: self.acked_bytes.into(), states };
        FlowReport {
            name: setup.name,
            main: FlowWindow { rpm, ..main },
            startup,
            series,
            rtt: traffic.rtt,
            together: None,
        }
    }
}

/// The complete result of a flow's meter.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// The row's name.
    pub name: String,
    /// The measuring window.
    pub main: FlowWindow,
    /// Start-up; `None` when measuring starts at zero.
    pub startup: Option<Box<FlowWindow>>,
    /// Series over the whole run.
    pub series: FlowSeries,
    /// RTT samples in the measuring window, in nanoseconds.
    pub rtt: Rtts,
    /// All rows of a name together, if several share it and this is the first of them.
    pub together: Option<Box<FlowReport>>,
}

impl FlowReport {
    /// Returns the cumulative distribution of the RTT in the measuring window: milliseconds, and the fraction of
    /// samples up to each value.
    pub fn rtt_cdf(&self) -> (Vec<f64>, Vec<f64>) {
        self.rtt.cdf().into_iter().map(|(value, fraction)| (value / MS, fraction)).unzip()
    }
}

/// The measures of a flow over one window: an element of `flows`.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct FlowWindow {
    /// The row's name.
    pub name: String,
    /// `bulk`, `web`, …
    pub kind: &'static str,
    /// Congestion control; `None` without TCP.
    pub cc: Option<String>,
    /// Goodput in Mbit/s: payload acknowledged for the first time within the window, divided by the window's length,
    /// also for flows that were active only for a part of it. For datagrams, payload received for the first time.
    pub goodput_mbit: Option<f64>,
    /// RTT samples of the sender, in milliseconds.
    pub rtt_ms: Option<Distribution>,
    /// Variation of the RTT in milliseconds: RTT samples minus the smallest one in the window.
    pub rtt_variation_ms: Option<Box<Distribution>>,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Flow startup time in seconds, from the first SYN of a connection until the sender of its data can begin: until the
    /// handshake is complete or, if a client asks for the data, until the server has the answer to the first request.
    pub startup_s: Option<Box<Distribution>>,
    /// Flow completion time in seconds, from the first SYN to the last byte at the receiver, of the transfers completed
    /// in the window.
    pub fct_s: Option<Box<Distribution>>,
    /// Packets that left the sender.
    pub packets: u64,
    /// Packets of the row that queues dropped.
    pub drops: u64,
    /// Time in milliseconds between consecutive drops of packets of the row.
    pub loss_gap_ms: Option<Box<Distribution>>,
    /// Transfers completed in the window.
    pub completed: u64,
    /// Transfers started but not completed by the end of the window.
    pub unfinished: u64,
    /// Fraction of the datagrams sent in the window that were lost. Datagrams that may still arrive when the run ends
    /// are not counted.
    pub loss_ratio: Option<f64>,
    /// One-way delay of the datagrams sent in the window, in milliseconds, from the sending application to the
    /// receiving one.
    pub delay_ms: Option<Box<Distribution>>,
    /// Packet delay variation (RFC 5481 §4.2) in milliseconds: one-way delay minus the smallest one.
    pub jitter_ms: Option<Box<Distribution>>,
    /// Mean opinion score of speech, between 1 and 4.5 (see [`crate::voice`]).
    pub mos: Option<f64>,
    /// Completion times divided by those of an empty path ([`sojourn_model::workload::ideal`]).
    pub slowdown: Option<Box<Distribution>>,
    /// Page load time in seconds, from the first SYN to the last byte of the last object.
    pub page_load_s: Option<Box<Distribution>>,
    /// Web pages loaded in the window; `None` without any.
    pub pages: Option<u64>,
    /// Playback of a video; `None` if no segment of it arrived in the window.
    pub video: Option<Box<VideoWindow>>,
    /// Result of a responsiveness test over the whole run, independent of the window; `None` in start-up.
    pub rpm: Option<Box<Responsiveness>>,
    /// Result of a program of the user's, independent of the window; `None` in start-up.
    pub command: Option<Box<CommandRun>>,
    /// The times of the row's drops in nanoseconds, ascending.
    #[serde(skip)]
    pub(crate) losses: Vec<u64>,
}

impl FlowWindow {
    fn new(
        setup: &FlowSetup,
        (traffic, events, measures): (&Traffic, &Events, Option<StreamMeasures>),
        length: Span,
        unfinished: u64,
    ) -> FlowWindow {
        let payload = traffic.acked + measures.as_ref().map_or(0, |measures| measures.payload);
        let none = Rare::default();
        let transfers = events.rare.as_deref().unwrap_or(&none);
        let mut losses = transfers.losses.clone();
        losses.sort_unstable();
        let rare = |histogram, unit| Distribution::of(histogram, unit).map(Box::new);
        let rtt_ms = Distribution::of(&traffic.rtt, MS);
        FlowWindow {
            name: setup.name.clone(),
            kind: setup.kind,
            cc: (!setup.cc.is_empty()).then(|| setup.cc.clone()),
            // Bits per microsecond are megabits per second.
            goodput_mbit: (length > Span::ZERO).then(|| payload as f64 * 8.0 / (length.0 as f64 / 1e3)),
            rtt_ms,
            rtt_variation_ms: rtt_ms.map(|rtt| Box::new(rtt.above(traffic.rtt.min() as f64 / MS))),
            retransmits: events.retransmits,
            startup_s: rare(&transfers.startup, S),
            fct_s: rare(&transfers.fct, S),
            packets: traffic.packets,
            drops: events.drops,
            loss_gap_ms: gaps(&losses).map(Box::new),
            completed: events.completed,
            unfinished,
            loss_ratio: measures.as_ref().and_then(|measures| measures.loss_ratio),
            delay_ms: measures.as_ref().and_then(|measures| measures.delay_ms).map(Box::new),
            jitter_ms: measures.as_ref().and_then(|measures| measures.jitter_ms).map(Box::new),
            mos: measures.as_ref().and_then(|measures| measures.mos),
            slowdown: rare(&transfers.slowdown, THOUSANDTHS),
            page_load_s: rare(&transfers.pages, S),
            pages: Some(transfers.pages.count()).filter(|&count| count > 0),
            video: VideoWindow::of(&transfers.watched).map(Box::new),
            rpm: None,
            command: None,
            losses,
        }
    }
}

/// Returns the distribution of the times between neighbours in an ascending list of times, in milliseconds.
fn gaps(times: &[u64]) -> Option<Distribution> {
    Distribution::of_values(times.windows(2).map(|pair| pair[1] - pair[0]).collect(), MS)
}

/// Series of a flow over the whole run.
#[derive(Clone, Default, Debug)]
pub struct FlowSeries {
    /// Length of a bin; 0 without a series.
    pub bin_width: Span,
    /// Payload bytes acknowledged in each bin.
    pub acked_bytes: Vec<u64>,
    /// Samples of the sender's state, at most one per bin; empty unless requested.
    pub states: Vec<FlowState>,
}

/// The sender's state at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowState {
    /// Time of the sample.
    pub time: Time,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Smoothed RTT.
    pub srtt: Span,
    /// Segments in flight.
    pub inflight: u32,
    /// The receiver's advertised window in segments, as the sender knows it; `None` if it is unlimited or unknown.
    pub window: Option<u32>,
}

impl FlowSeries {
    /// Returns every column that has one value per bin, by name.
    pub fn columns(&self) -> Vec<(&'static str, Vec<f64>)> {
        let times = (0..self.acked_bytes.len()).map(|i| (i as u64 * self.bin_width.0) as f64 / S).collect();
        vec![("time_s", times), ("acked_bytes", self.acked_bytes.iter().map(|&bytes| bytes as f64).collect())]
    }

    /// Returns every column of the sender's state, by name; empty unless requested.
    pub fn state_columns(&self) -> Vec<(&'static str, Vec<f64>)> {
        let of = |column: fn(&FlowState) -> f64| self.states.iter().map(column).collect();
        let mut columns = vec![
            ("time_s", of(|s| s.time.0 as f64 / S)),
            ("cwnd", of(|s| f64::from(s.cwnd))),
            ("srtt_ms", of(|s| s.srtt.0 as f64 / MS)),
            ("inflight", of(|s| f64::from(s.inflight))),
        ];
        if self.states.iter().any(|state| state.window.is_some()) {
            columns.push(("window", of(|s| s.window.map_or(f64::INFINITY, f64::from))));
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn setup(measure: (u64, u64), end: u64, bins: u32) -> FlowSetup {
        FlowSetup {
            name: "bulk0".to_owned(),
            kind: "bulk",
            cc: "cubic".to_owned(),
            measure: (Time(measure.0), Time(measure.1)),
            end: Time(end),
            bins,
            state: true,
            stream: None,
            intervals: None,
        }
    }

    /// Records an event of one of seven kinds.
    fn record(meter: &mut FlowMeter, now: Time, what: u8, value: u64) {
        match what {
            0 => meter.rtt(now, Span(value)),
            1 => meter.acked(now, value),
            2 => meter.sent(now, 1),
            3 => meter.retransmit(now),
            4 => meter.dropped(now),
            6 => meter.began(now, Span(value)),
            _ => meter.completed(now, Span(value), Span(100)),
        }
    }

    proptest! {
        #[test]
        fn the_meters_of_a_pool_merge_into_the_meter_of_all_their_events(
            (start, length, rest) in (0u64..200, 1u64..200, 0u64..100),
            mut events in prop::collection::vec((0u64..600, 0u8..7, 0u64..5000, 0usize..4), 0..200),
        ) {
            let setup = || FlowSetup { state: false, ..setup((start, start + length), start + length + rest, 7) };
            events.sort_unstable();
            let mut all = FlowMeter::new(&setup());
            let mut each: [FlowMeter; 4] = std::array::from_fn(|_| all.clone());
            for (at, what, value, flow) in events {
                record(&mut all, Time(at), what, value);
                record(&mut each[flow], Time(at), what, value);
            }
            let [mut pool, others @ ..] = each;
            others.into_iter().for_each(|other| pool.merge(other));
            let (pool, all) = (pool.finish(setup(), 3), all.finish(setup(), 3));
            prop_assert_eq!((pool.main, pool.startup), (all.main, all.startup));
            prop_assert_eq!(pool.series.acked_bytes, all.series.acked_bytes);
        }

        #[test]
        fn each_event_counts_in_the_window_in_which_it_lies(
            (start, length, rest) in (0u64..200, 1u64..200, 0u64..100),
            mut events in prop::collection::vec((0u64..600, 0u8..7, 0u64..5000), 0..200),
        ) {
            let (end, whole) = (start + length, start + length + rest);
            events.sort_unstable();
            let mut meter = FlowMeter::new(&setup((start, end), whole, 7));
            let mut rounds = meter.clone();
            for &(at, what, value) in &events {
                let now = Time(at);
                record(&mut meter, now, what, value);
                match what {
                    0 => rounds.round(now, 0, Some(Span(value)), 0),
                    1 => rounds.round(now, value, None, 0),
                    2 => rounds.round(now, 0, None, 1),
                    3 => rounds.retransmit(now),
                    4 => rounds.dropped(now),
                    6 => rounds.began(now, Span(value)),
                    _ => rounds.completed(now, Span(value), Span(100)),
                }
            }
            let report = meter.finish(setup((start, end), whole, 7), 3);
            prop_assert_eq!(&rounds.finish(setup((start, end), whole, 7), 3).main, &report.main);
            prop_assert_eq!(report.startup.is_some(), start > 0);
            let windows = [(report.startup, 0, start, 0), (Some(Box::new(report.main)), start, end, 3)];
            for (window, from, to, unfinished) in windows.into_iter().filter_map(|w| Some((w.0?, w.1, w.2, w.3))) {
                let of = |kind| events.iter().filter(move |e| e.1 == kind && from <= e.0 && e.0 < to);
                let histogram = |kind| of(kind).map(|e| e.2).collect::<Vec<_>>();
                let acked = histogram(1).iter().sum::<u64>() as f64;
                prop_assert_eq!(window.goodput_mbit, Some(acked * 8.0 / ((to - from) as f64 / 1e3)));
                prop_assert_eq!(window.rtt_ms.map(|d| d.max), histogram(0).iter().max().map(|&v| v as f64 / 1e6));
                prop_assert_eq!(window.slowdown.map(|d| d.max), histogram(5).iter().max().map(|&v| v as f64 / 100.0));
                prop_assert_eq!(window.fct_s.map(|d| d.max), histogram(5).iter().max().map(|&v| v as f64 / 1e9));
                prop_assert_eq!(window.startup_s.map(|d| d.max), histogram(6).iter().max().map(|&v| v as f64 / 1e9));
                let least = histogram(0).into_iter().min().unwrap_or(0);
                let variation = histogram(0).iter().map(|&v| v - least).max().map(|v| v as f64 / 1e6);
                let found = window.rtt_variation_ms.map(|d| d.max);
                prop_assert_eq!(found.is_some(), variation.is_some());
                prop_assert!((found.unwrap_or(0.0) - variation.unwrap_or(0.0)).abs() < 1e-12);
                let counts = (window.packets, window.retransmits, window.drops, window.completed);
                let count = |kind| of(kind).count() as u64;
                prop_assert_eq!(counts, (count(2), count(3), count(4), count(5)));
                prop_assert_eq!(window.unfinished, unfinished);
            }
            let all: u64 = events.iter().filter(|e| e.1 == 1 && e.0 < whole).map(|e| e.2).sum();
            prop_assert_eq!(report.series.acked_bytes.iter().sum::<u64>(), all);
            prop_assert_eq!(report.series.acked_bytes.len() as u64, whole.div_ceil(report.series.bin_width.0));
        }
    }

    proptest! {
        #[test]
        fn the_gap_between_losses_is_that_to_the_nearest_earlier_one(times in prop::collection::vec(0u64..60, 0..30)) {
            let mut meter = FlowMeter::new(&setup((10, 50), 60, 0));
            times.iter().for_each(|&at| meter.dropped(Time(at)));
            let report = meter.finish(setup((10, 50), 60, 0), 0);
            for (window, range) in [(report.startup.as_deref(), 0..10), (Some(&report.main), 10..50)] {
                // Every nanosecond with losses: the first loss has the gap to the last time with losses, the others none.
                let (mut expected, mut last) = (Vec::new(), None);
                for now in range {
                    let count = times.iter().filter(|&&at| at == now).count();
                    if count > 0 {
                        expected.extend(last.map(|last| now - last));
                        expected.extend(std::iter::repeat_n(0, count - 1));
                        last = Some(now);
                    }
                }
                let found = window.and_then(|window| window.loss_gap_ms.as_deref().copied());
                prop_assert_eq!(found, crate::testing::exact(expected, 1e6).map(|(distribution, _)| distribution));
            }
        }
    }

    #[test]
    fn a_meter_is_four_lines_of_a_cache() {
        assert_eq!(size_of::<FlowMeter>(), 256);
    }

    #[test]
    fn a_completion_told_ahead_of_its_time_moves_nothing_else() {
        let mut meter = FlowMeter::new(&setup((100, 200), 200, 0));
        meter.started(Time(10));
        meter.started(Time(20));
        meter.completed(Time(110), Span(90), Span(60)); // reported at 90, as the delay to the receiver is fixed
        meter.acked(Time(95), 1000);
        let report = meter.finish(setup((100, 200), 200, 0), 1);
        let startup = report.startup.expect("measuring starts late");
        assert_eq!((startup.completed, startup.unfinished, report.main.completed), (0, 2, 1));
        assert_eq!((startup.goodput_mbit, report.main.goodput_mbit), (Some(80_000.0), Some(0.0)));
    }

    #[test]
    fn the_state_is_sampled_once_a_bin_and_only_if_asked_for() {
        let with_states = || setup((0, 100), 100, 10);
        let without_states = || FlowSetup { state: false, ..with_states() };
        let (mut meter, mut silent) = (FlowMeter::new(&with_states()), FlowMeter::new(&without_states()));
        for now in (0..100).step_by(3) {
            meter.state(Time(now), now as u32, Span(1), 2, None);
            silent.state(Time(now), now as u32, Span(1), 2, None);
        }
        let series = meter.finish(with_states(), 0).series;
        assert_eq!(series.state_columns()[1].1, [0.0, 12.0, 21.0, 30.0, 42.0, 51.0, 60.0, 72.0, 81.0, 90.0]);
        assert!(silent.finish(without_states(), 0).series.states.is_empty());
    }
}
