//! Meter of a queue and the link that it feeds.

use serde::ser::{Serialize, SerializeMap, Serializer};
use sojourn_core::qdisc::DropReason;
use sojourn_core::units::{Rate, Span, Time};

use crate::departures::{DepartureWindow, Departures};
use crate::distribution::{Distribution, MS, ONE, S, Standing, ratio};
use crate::histogram::Histogram;
use crate::oscillation;
use crate::queue::{Queue, QueueWindow};
pub use crate::setup::LinkSetup;
use crate::slices::bin_width;

/// The meter of a queue and its link. Calls must come in order of time. Only [`LinkMeter::sent`] follows another rule:
/// calls come in order of transmissions, each as soon as its transmission is certain or as late as its end.
#[derive(Clone, Debug)]
pub struct LinkMeter {
    setup: LinkSetup,
    queue: Queue,
    departures: Departures,
    /// Start of the last transmission plus 1 ns, as reported by `dequeued` and by `sent`; 0 before the first.
    started: u64,
    reported: u64,
    rates: Vec<(Time, Rate)>,
}

impl LinkMeter {
    /// Creates a meter at time zero, with an empty queue and an idle link.
    pub fn new(setup: &LinkSetup) -> LinkMeter {
        LinkMeter {
            setup: setup.clone(),
            queue: Queue::new(setup),
            departures: Departures::new(setup),
            started: 0,
            reported: 0,
            rates: Vec::new(),
        }
    }

    /// Records the queue's state after an arrival, even if the discipline dropped other packets because of it.
    /// `packets` packets wait; `full` says whether the next packet of MTU size would be refused.
    #[inline]
    pub fn enqueued(&mut self, now: Time, packets: usize, full: bool) {
        self.queue.becomes(now, packets, full);
    }

    /// Records that a packet that waited for `sojourn` starts its transmission now. `packets` packets remain in the
    /// queue.
    #[inline]
    pub fn dequeued(&mut self, now: Time, sojourn: Span, packets: usize, full: bool) {
        self.queue.leaves(now, sojourn, packets, full);
        self.started = now.0 + 1;
    }

    /// Records [`LinkMeter::enqueued`] and [`LinkMeter::dequeued`] of a packet that finds queue and link empty. Its
    /// transmission starts now; `full` says whether the next packet of MTU size would be refused then.
    #[inline]
    pub fn passed(&mut self, now: Time, full: bool) {
        self.queue.passes(now, full);
        self.started = now.0 + 1;
    }

    /// Records the start of a transmission, in place of [`LinkMeter::dequeued`], for sources that report departures
    /// only.
    #[inline]
    pub fn started(&mut self, now: Time) {
        self.started = now.0 + 1;
    }

    /// Records that the link became idle with an empty queue. Queue length and queue delay are zero from now on.
    #[inline]
    pub fn emptied(&mut self, now: Time) {
        self.queue.empties(now);
    }

    /// Records a transmission from `start` to `end`, which may be past or future. The packet has `bytes` bytes on the
    /// link. It is `marked` if it carries a CE that was not there on arrival. It is counted in the window of `end`, and
    /// its transmission time is split between the windows. On trace-driven links, `start` and `end` are both the time
    /// of the delivery opportunity.
    #[inline]
    pub fn sent(&mut self, start: Time, end: Time, sojourn: Span, bytes: u32, marked: bool) {
        self.reported = start.0 + 1;
        self.departures.sent(start, end, sojourn, bytes, marked);
    }

    /// Records a drop. If the drop shortened the queue, a call of `enqueued` or `dequeued` reports the new length.
    #[inline]
    pub fn dropped(&mut self, now: Time, reason: DropReason) {
        self.queue.dropped(now, reason);
    }

    /// Records a delivery opportunity of `bytes` bytes on a trace-driven link. Packets used `used` of these bytes. From
    /// the first call on, utilisation is used bytes over offered bytes, instead of the busy fraction.
    #[inline]
    pub fn offered(&mut self, now: Time, bytes: u32, used: u32) {
        self.departures.offered(now, bytes, used);
    }

    /// Packets and bytes reported by [`LinkMeter::sent`] so far, inside and outside of the windows.
    pub fn sent_so_far(&self) -> (u64, u64) {
        self.departures.all()
    }

    /// Records the link's rate from now on, for the series.
    pub fn rate(&mut self, now: Time, rate: Rate) {
        self.rates.push((now, rate));
    }

    /// Returns the report at the end of the run. A transmission that is still in progress counts as busy time only.
    pub fn finish(mut self) -> LinkReport {
        let end = self.setup.end.0;
        self.queue.reach(end);
        let under_way = if self.started > self.reported { self.started - 1 } else { end };
        self.departures.cross(under_way, end);
        let series = LinkSeries::new(&self);
        let (a, b) = self.setup.measure;
        let main = LinkWindow::new(&self.departures.windows.main, &self.queue.windows.main, (a, b), &series);
        let startup = match (&self.departures.windows.startup, &self.queue.windows.startup) {
            (Some(departures), Some(queue)) => Some(LinkWindow::new(departures, queue, (Time::ZERO, a), &series)),
            _ => None,
        };
        let sojourn = self.departures.windows.main.sojourn;
        let LinkSetup { name, overhead, rtt_window, .. } = self.setup;
        LinkReport { name, overhead, rtt_window, main, startup, series, sojourn }
    }
}

/// The complete result of a link's meter.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// The key in the report.
    pub name: String,
    /// Bytes per packet that were counted in addition to the IP length.
    pub overhead: u32,
    /// The longest base RTT.
    pub rtt_window: Span,
    /// The measuring window.
    pub main: LinkWindow,
    /// Start-up; `None` when measuring starts at zero.
    pub startup: Option<LinkWindow>,
    /// Series over the whole run.
    pub series: LinkSeries,
    /// Sojourn times in the measuring window, in nanoseconds.
    pub sojourn: Histogram,
}

impl LinkReport {
    /// Returns the cumulative distribution of the sojourn time in the measuring window: milliseconds, and the fraction
    /// of packets up to each value.
    pub fn sojourn_cdf(&self) -> (Vec<f64>, Vec<f64>) {
        self.sojourn.cdf().into_iter().map(|(value, fraction)| (value / MS, fraction)).unzip()
    }
}

/// The measures of a link over one window: an element of `hops`.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct LinkWindow {
    /// Fraction of the window in which the link transmitted; on trace-driven links, used bytes over offered bytes.
    pub utilisation: Option<f64>,
    /// Packets whose transmission ended in the window.
    pub delivered_packets: u64,
    /// Bytes of those packets, IP length plus overhead.
    pub delivered_bytes: u64,
    /// Packets dropped in the window.
    pub drops: u64,
    /// Packets dropped in the window, by reason. Every reason has its key.
    pub drops_by_reason: DropCounts,
    /// Packets delivered with a CE that was not there on arrival.
    pub marks: u64,
    /// Sojourn time of delivered packets, in milliseconds, from arrival to start of transmission.
    pub sojourn_ms: Option<Distribution>,
    /// Queue delay in milliseconds, weighted by time: the sojourn time of the last departure, held until the next one;
    /// 0 while the link is idle and the queue empty. `None` if no packet was delivered in the window: a queue that
    /// drops every packet has no delay, rather than a delay of 0.
    pub queue_delay_ms: Option<Distribution>,
    /// Queue length in packets, weighted by time. The packet in transmission is not counted.
    pub queue_packets: Option<Distribution>,
    /// Standing queue in milliseconds, weighted by time: the smallest queue delay within the past longest base RTT.
    /// `None` if there is no queue delay.
    pub standing_queue_ms: Option<Standing>,
    /// Fraction of the window in which the queue was empty.
    pub empty_fraction: Option<f64>,
    /// Longest time in seconds, within the window, for which the queue was never empty.
    pub nonempty_max_s: Option<f64>,
    /// Fraction of the window in which the next packet of MTU size would have been refused; `None` if the source does
    /// not report it.
    pub full_fraction: Option<f64>,
    /// Oscillation period of the queue delay in seconds (see [`oscillation::period`]), a multiple of the series' bin
    /// width.
    pub oscillation_s: Option<f64>,
    /// The network card below the discipline, if the hop has one.
    pub nic: Option<serde_json::Value>,
    /// Fraction of the window in which the next hop had paused the link (`pause`); `None` without flow control.
    pub paused_fraction: Option<f64>,
    /// The discipline's counters over the whole run, as `tc -s -j qdisc show` prints them (see [`crate::stats`]).
    /// `None` in start-up, and if the source does not report them.
    pub stats: Option<serde_json::Value>,
}

impl LinkWindow {
    /// Clears every measure of the queue's content, for sources that report departures only.
    pub fn forget_queue(&mut self) {
        (self.queue_delay_ms, self.queue_packets, self.standing_queue_ms) = (None, None, None);
        (self.empty_fraction, self.nonempty_max_s) = (None, None);
        (self.full_fraction, self.oscillation_s) = (None, None);
    }

    fn new(out: &DepartureWindow, queue: &QueueWindow, span: (Time, Time), series: &LinkSeries) -> LinkWindow {
        let length = span.1.since(span.0).0;
        LinkWindow {
            utilisation: match out.offered {
                Some((offered, used)) => ratio(used, offered),
                None => ratio(out.busy, length),
            },
            delivered_packets: out.packets,
            delivered_bytes: out.bytes,
            drops: queue.drops.iter().sum(),
            drops_by_reason: DropCounts(queue.drops),
            marks: out.marks,
            sojourn_ms: Distribution::of(&out.sojourn, MS),
            queue_delay_ms: Distribution::of(&queue.delay, MS).filter(|_| out.packets > 0),
            queue_packets: Distribution::of(&queue.packets.histogram(), ONE),
            standing_queue_ms: Standing::of(&queue.standing, MS).filter(|_| out.packets > 0),
            empty_fraction: ratio(queue.packets.time_at(0), length),
            nonempty_max_s: (length > 0).then(|| queue.nonempty as f64 / S),
            full_fraction: ratio(queue.full, length),
            oscillation_s: series.oscillation_s(span),
            nic: None,
            paused_fraction: None,
            stats: None,
        }
    }
}

/// Number of drops by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DropCounts(pub [u64; DropReason::ALL.len()]);

impl DropCounts {
    /// Drops for this reason.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }
}

impl Serialize for DropCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for reason in DropReason::ALL {
            map.serialize_entry(reason.name(), &self.of(reason))?;
        }
        map.end()
    }
}

/// Series of a link over the whole run, in bins of equal length (the last one may be shorter), ready to be plotted.
#[derive(Clone, Default, Debug)]
pub struct LinkSeries {
    /// Length of a bin; 0 without a series.
    pub bin_width: Span,
    /// Start of each bin in seconds.
    pub time_s: Vec<f64>,
    /// Smallest sojourn time of the departures in milliseconds; NaN without departures.
    pub sojourn_min_ms: Vec<f64>,
    /// Mean sojourn time of the departures in milliseconds; NaN without departures.
    pub sojourn_mean_ms: Vec<f64>,
    /// Largest sojourn time of the departures in milliseconds; NaN without departures.
    pub sojourn_max_ms: Vec<f64>,
    /// Mean queue delay over time, in milliseconds.
    pub queue_delay_ms: Vec<f64>,
    /// Largest queue length in packets. Lengths that lasted for zero time are ignored.
    pub queue_packets_max: Vec<f64>,
    /// Packets that departed.
    pub delivered_packets: Vec<f64>,
    /// Bytes that departed.
    pub delivered_bytes: Vec<f64>,
    /// Fraction of the bin in which the link transmitted.
    pub busy_fraction: Vec<f64>,
    /// Packets dropped.
    pub drops: Vec<f64>,
    /// Departures with a CE mark that was not there on arrival.
    pub marks: Vec<f64>,
    /// The link's rate from each time on, as reported to [`LinkMeter::rate`].
    pub rates: Vec<(Time, Rate)>,
}

impl LinkSeries {
    fn new(meter: &LinkMeter) -> LinkSeries {
        let mut series = LinkSeries { rates: meter.rates.clone(), ..LinkSeries::default() };
        if meter.setup.bins == 0 {
            return series;
        }
        let (out, queue) = (&meter.departures.bins, &meter.queue.bins);
        let width = bin_width(meter.setup.end, meter.setup.bins);
        series.bin_width = Span(width);
        let start = |i: usize| i as u64 * width;
        let length = |i: usize| width.min(meter.setup.end.0 - start(i)) as f64;
        let of = |column: &dyn Fn(usize) -> f64| (0..out.len()).map(column).collect::<Vec<f64>>();
        let ms = |i: usize, value: f64| if out[i].packets == 0 { f64::NAN } else { value / MS };
        series.time_s = of(&|i| start(i) as f64 / S);
        series.sojourn_min_ms = of(&|i| ms(i, out[i].min as f64));
        series.sojourn_mean_ms = of(&|i| ms(i, out[i].sum as f64 / out[i].packets as f64));
        series.sojourn_max_ms = of(&|i| ms(i, out[i].max as f64));
        series.queue_delay_ms = of(&|i| queue[i].delay as f64 / length(i) / MS);
        series.queue_packets_max = of(&|i| queue[i].packets_max as f64);
        series.delivered_packets = of(&|i| out[i].packets as f64);
        series.delivered_bytes = of(&|i| out[i].bytes as f64);
        series.busy_fraction = of(&|i| out[i].busy as f64 / length(i));
        series.drops = of(&|i| queue[i].drops as f64);
        series.marks = of(&|i| out[i].marks as f64);
        series
    }

    /// Returns every column that has one value per bin, by name.
    pub fn columns(&self) -> Vec<(&'static str, Vec<f64>)> {
        vec![
            ("time_s", self.time_s.clone()),
            ("sojourn_min_ms", self.sojourn_min_ms.clone()),
            ("sojourn_mean_ms", self.sojourn_mean_ms.clone()),
            ("sojourn_max_ms", self.sojourn_max_ms.clone()),
            ("queue_delay_ms", self.queue_delay_ms.clone()),
            ("queue_packets_max", self.queue_packets_max.clone()),
            ("delivered_packets", self.delivered_packets.clone()),
            ("delivered_bytes", self.delivered_bytes.clone()),
            ("busy_fraction", self.busy_fraction.clone()),
            ("drops", self.drops.clone()),
            ("marks", self.marks.clone()),
        ]
    }

    /// Returns the rate changes as columns: `rate_time_s` and `rate_mbit`.
    pub fn rate_columns(&self) -> Vec<(&'static str, Vec<f64>)> {
        let times = self.rates.iter().map(|(time, _)| time.0 as f64 / S).collect();
        let rates = self.rates.iter().map(|(_, rate)| rate.0 as f64 / 1e6).collect();
        vec![("rate_time_s", times), ("rate_mbit", rates)]
    }

    /// Oscillation period of the queue delay, from the bins that lie entirely within `span`.
    fn oscillation_s(&self, span: (Time, Time)) -> Option<f64> {
        let width = self.bin_width.0.max(1);
        let (first, end) = (span.0.0.div_ceil(width) as usize, (span.1.0 / width) as usize);
        let samples = self.queue_delay_ms.get(first..end)?;
        oscillation::period(samples).map(|bins| (bins as u64 * width) as f64 / S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, by_brute_force};
    use proptest::prelude::*;

    fn setup(measure: (u64, u64), end: u64) -> LinkSetup {
        LinkSetup {
            name: "hop0".to_owned(),
            measure: (Time(measure.0), Time(measure.1)),
            end: Time(end),
            rtt_window: Span(100),
            bins: 4,
            overhead: 0,
        }
    }

    proptest! {
        #[test]
        fn every_measure_equals_what_looking_at_each_nanosecond_gives(case in Case::any(), early in any::<bool>()) {
            let mut meter = LinkMeter::new(&case.setup());
            let records = case.play(&mut meter, early);
            let LinkReport { mut main, startup, .. } = meter.finish();
            main.oscillation_s = None;
            prop_assert_eq!(main, by_brute_force(&case, &records, case.measure));
            prop_assert_eq!(startup.is_some(), case.measure.0 > 0);
            if let Some(mut startup) = startup {
                startup.oscillation_s = None;
                prop_assert_eq!(startup, by_brute_force(&case, &records, (0, case.measure.0)));
            }
        }

        #[test]
        fn the_series_adds_up_to_the_windows(mut case in Case::any()) {
            case.measure = (0, case.end);
            let mut meter = LinkMeter::new(&case.setup());
            case.play(&mut meter, false);
            let LinkReport { main, series, .. } = meter.finish();
            let sum = |column: &[f64]| column.iter().sum::<f64>();
            prop_assert_eq!(sum(&series.delivered_packets), main.delivered_packets as f64);
            prop_assert_eq!(sum(&series.delivered_bytes), main.delivered_bytes as f64);
            prop_assert_eq!(sum(&series.drops), main.drops as f64);
            prop_assert_eq!(sum(&series.marks), main.marks as f64);
            prop_assert!(series.columns().iter().all(|(_, column)| column.len() == series.time_s.len()));
            prop_assert_eq!(series.time_s.len() as u64, case.end.div_ceil(series.bin_width.0));
            let length = |i: usize| series.bin_width.0.min(case.end - i as u64 * series.bin_width.0) as f64;
            let delay = (0..series.time_s.len()).map(|i| series.queue_delay_ms[i] * length(i)).sum::<f64>();
            prop_assert_eq!(main.queue_delay_ms.is_some(), main.delivered_packets > 0);
            if let Some(mean) = main.queue_delay_ms.map(|of| of.mean) {
                prop_assert!((delay / case.end as f64 - mean).abs() <= 1e-12 + 1e-9 * mean);
            }
            let busy = (0..series.time_s.len()).map(|i| series.busy_fraction[i] * length(i)).sum::<f64>();
            prop_assert!((busy / case.end as f64 - main.utilisation.expect("time has passed")).abs() < 1e-9);
            let max = |column: &[f64]| column.iter().copied().fold(0.0, f64::max);
            prop_assert_eq!(max(&series.sojourn_max_ms), main.sojourn_ms.map_or(0.0, |d| d.max));
            prop_assert_eq!(max(&series.queue_packets_max), main.queue_packets.map_or(0.0, |d| d.max));
        }
    }

    #[test]
    fn a_packet_counts_where_its_transmission_ends_and_its_time_where_it_passes() {
        for early in [false, true] {
            let mut meter = LinkMeter::new(&setup((100, 200), 300));
            let mut send = |start, end| {
                meter.dequeued(Time(start), Span(7), 0, false);
                if early {
                    meter.sent(Time(start), Time(end), Span(7), 50, true);
                }
                meter.emptied(Time(end));
                if !early {
                    meter.sent(Time(start), Time(end), Span(7), 50, true);
                }
            };
            send(90, 110); // from start-up into the window
            send(150, 200); // ends with the window: not counted in it
            send(290, 300); // ends with the run: not counted at all
            let LinkReport { main, startup, series, .. } = meter.finish();
            let startup = startup.expect("measuring starts late");
            assert_eq!((startup.delivered_packets, startup.utilisation), (0, Some(0.1)));
            assert_eq!((main.delivered_packets, main.marks, main.utilisation), (1, 1, Some(0.6)));
            assert_eq!(series.delivered_packets, [0.0, 1.0, 1.0, 0.0]); // bins of 75 ns
        }
    }

    #[test]
    fn a_transmission_told_before_it_starts_keeps_the_link_busy_once() {
        let mut meter = LinkMeter::new(&setup((0, 100), 100));
        meter.sent(Time(10), Time(20), Span(3), 10, false);
        meter.sent(Time(20), Time(30), Span(9), 10, false);
        meter.dequeued(Time(10), Span(3), 1, false);
        meter.dequeued(Time(20), Span(9), 0, false);
        let report = meter.finish();
        assert_eq!((report.main.utilisation, report.main.delivered_packets), (Some(0.2), 2));
    }

    #[test]
    fn a_transmission_that_outlives_the_run_keeps_the_link_busy() {
        let mut meter = LinkMeter::new(&setup((0, 100), 100));
        meter.dequeued(Time(60), Span(0), 0, false);
        let report = meter.finish();
        assert_eq!((report.main.utilisation, report.main.delivered_packets), (Some(0.4), 0));
    }

    #[test]
    fn without_packets_there_is_no_delay_but_every_key() {
        let main = LinkMeter::new(&setup((0, 100), 100)).finish().main;
        assert_eq!((main.utilisation, main.sojourn_ms, main.empty_fraction), (Some(0.0), None, Some(1.0)));
        let json = serde_json::to_value(&main).expect("plain numbers");
        let keys: Vec<_> = json.as_object().expect("an object").keys().map(String::as_str).collect();
        let want = "utilisation delivered_packets delivered_bytes drops drops_by_reason marks sojourn_ms queue_delay_ms \
                    queue_packets standing_queue_ms empty_fraction nonempty_max_s full_fraction oscillation_s nic \
                    paused_fraction stats";
        assert_eq!(keys, want.split_whitespace().collect::<Vec<_>>());
        for key in ["sojourn_ms", "queue_delay_ms", "standing_queue_ms"] {
            assert_eq!(json[key], serde_json::Value::Null, "{key}");
        }
        assert_eq!(json["drops_by_reason"]["codel"], 0);
    }

    #[test]
    fn a_queue_that_drops_every_packet_has_no_delay() {
        let mut meter = LinkMeter::new(&setup((0, 100), 100));
        for now in [10, 20, 30] {
            meter.enqueued(Time(now), 1, false);
            meter.dropped(Time(now + 5), DropReason::Overlimit);
            meter.emptied(Time(now + 5));
        }
        let main = meter.finish().main;
        assert_eq!((main.drops, main.queue_delay_ms, main.standing_queue_ms), (3, None, None));
        assert_eq!(main.queue_packets.map(|of| of.mean), Some(0.15));
    }

    #[test]
    fn a_trace_driven_link_uses_what_it_was_offered() {
        let mut meter = LinkMeter::new(&setup((100, 200), 200));
        for now in [50, 120, 150] {
            meter.offered(Time(now), 1500, if now == 150 { 500 } else { 1500 });
        }
        let report = meter.finish();
        assert_eq!(report.main.utilisation, Some(2000.0 / 3000.0));
        assert_eq!(report.startup.expect("measuring starts late").utilisation, Some(1.0));
    }

    #[test]
    fn a_queue_that_swings_has_a_period() {
        let mut meter = LinkMeter::new(&LinkSetup { bins: 1000, ..setup((0, 1_000_000), 1_000_000) });
        for i in 0..10_000u64 {
            meter.dequeued(Time(i * 100), Span(i % 500), 0, false);
        }
        assert_eq!(meter.finish().main.oscillation_s, Some(50_000e-9));
    }
}
