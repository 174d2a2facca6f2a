//! Meter of a datagram stream: arrivals, delays, losses, and the quality of speech.

use sojourn_core::units::{Span, Time};
use sojourn_model::workload::stream::{Playout, Voice};

use crate::distribution::{Distribution, MS, ratio};
use crate::histogram::Histogram;
use crate::voice;

/// A datagram that has not arrived after this time is counted as lost (RFC 7680 §2.5 requires such a threshold).
const PATIENCE: Span = Span::from_secs(10);

/// Configuration of the meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamSetup {
    /// Payload of each datagram, in bytes.
    pub payload: u32,
    /// Set for speech.
    pub voice: Option<Voice>,
}

/// The meter. The delay or loss of a datagram counts in the window in which it was sent. Its payload counts in the
/// window in which it arrived.
#[derive(Clone, Debug)]
pub(crate) struct StreamMeter {
    setup: StreamSetup,
    measure: (Time, Time),
    end: Time,
    startup: Window,
    main: Window,
    /// The number of datagrams sent (`sent`), and of those sent more than [`PATIENCE`] before the end (`overdue`).
    sent: u32,
    overdue: u32,
    /// A bitmap of the datagram numbers that have arrived (`come`), and the largest of these numbers plus 1 (`above`).
    come: Vec<u64>,
    above: u32,
    /// The number of datagrams that have arrived, and of packets of the stream that a queue dropped.
    arrived: u32,
    dropped: u32,
}

#[derive(Clone, Default, Debug)]
struct Window {
    /// The datagrams sent in this window: the number of the first one, and how many there were.
    first: u32,
    sent: u32,
    delays: Histogram,
    payload: u64,
}

/// Measures of a window's datagrams.
#[derive(Clone, Debug)]
pub(crate) struct StreamMeasures {
    pub payload: u64,
    pub loss_ratio: Option<f64>,
    pub delay_ms: Option<Distribution>,
    pub jitter_ms: Option<Distribution>,
    pub mos: Option<f64>,
}

impl StreamMeter {
    pub fn new(setup: StreamSetup, measure: (Time, Time), end: Time) -> StreamMeter {
        let (startup, main) = (Window::default(), Window::default());
        let (sent, overdue, above, arrived, dropped) = (0, 0, 0, 0, 0);
        StreamMeter { setup, measure, end, startup, main, sent, overdue, come: Vec::new(), above, arrived, dropped }
    }

    fn window(&mut self, at: Time) -> Option<&mut Window> {
        let (start, end) = self.measure;
        if at < start { Some(&mut self.startup) } else { (at < end).then_some(&mut self.main) }
    }

    /// Records that the next datagram was sent.
    pub fn sent(&mut self, now: Time) {
        let number = self.sent;
        self.sent += 1;
        if now + PATIENCE < self.end {
            self.overdue = self.sent;
        }
        if let Some(window) = self.window(now) {
            if window.sent == 0 {
                window.first = number;
            }
            window.sent += 1;
        }
    }

    /// Records an arrival. Returns the datagram's payload if it arrives for the first time and within the run.
    pub fn received(&mut self, now: Time, sent: Time, number: u32) -> Option<u32> {
        let (word, bit) = (number as usize / 64, 1u64 << (number % 64));
        if self.come.len() <= word {
            self.come.resize(word + 1, 0);
        }
        if now >= self.end || self.come[word] & bit != 0 {
            return None;
        }
        self.come[word] |= bit;
        self.above = self.above.max(number + 1);
        self.arrived += 1;
        let payload = self.setup.payload;
        if let Some(window) = self.window(now) {
            window.payload += u64::from(payload);
        }
        if let Some(window) = self.window(sent) {
            window.delays.add(now.since(sent).0);
        }
        Some(payload)
    }

    /// Records that a queue dropped a packet of the stream.
    pub fn dropped(&mut self, now: Time) {
        if now < self.end {
            self.dropped += 1;
        }
    }

    /// Returns the number of sent datagrams whose fate is known. Datagrams that were sent after them may still arrive.
    ///
    /// The fate of a datagram is known if a later one has arrived, or if it was sent more than [`PATIENCE`] before the
    /// end. It is also known if queues dropped the last datagrams: at most those that neither arrived nor were dropped
    /// are in flight, and they are counted as the ones sent last.
    fn decided(&self) -> u32 {
        let under_way = self.sent.saturating_sub(self.arrived).saturating_sub(self.dropped);
        self.above.max(self.overdue).max(self.sent - under_way)
    }

    /// Measures of the measuring window (`main`) or of start-up; call it at the end of the run.
    pub fn measures(&self, main: bool) -> StreamMeasures {
        let window = if main { &self.main } else { &self.startup };
        let decided = self.decided().clamp(window.first, window.first + window.sent) - window.first;
        let lost = u64::from(decided).saturating_sub(window.delays.count());
        let loss_ratio = ratio(lost, u64::from(decided));
        let delay_ms = Distribution::of(&window.delays, MS);
        let jitter_ms = delay_ms.map(|delay| delay.above(window.delays.min() as f64 / MS));
        let mos = self.setup.voice.zip(loss_ratio).map(|(voice, loss)| mos(voice, loss, &window.delays));
        StreamMeasures { payload: window.payload, loss_ratio, delay_ms, jitter_ms, mos }
    }
}

/// Returns the mean opinion score of speech. A fraction `loss` of the datagrams is lost; the others have these delays.
fn mos(voice: Voice, loss: f64, delays: &Histogram) -> f64 {
    if delays.is_empty() {
        return voice::mos(0.0);
    }
    let play = match voice.playout {
        // The upper edge of the bin is used, so that no packet is late if the delays hardly differ.
        Playout::Percentile(percentile) => delays.quantile_edge(f64::from(percentile) / 100.0),
        Playout::Fixed(buffer) => delays.min() as f64 + buffer.0 as f64,
    };
    let in_time = delays.share_up_to(play);
    let lost = 1.0 - (1.0 - loss) * in_time;
    // A packet is sent when the last of its speech has been spoken, one frame after the first.
    let mouth_to_ear = (Voice::FRAME.0 as f64 + play) / MS;
    voice::mos(voice::rating(voice.codec, mouth_to_ear, lost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_model::workload::stream::Codec;

    const SECOND: u64 = 1_000_000_000;

    fn meter(voice: Option<Voice>) -> StreamMeter {
        let setup = StreamSetup { payload: 100, voice };
        StreamMeter::new(setup, (Time(10 * SECOND), Time(30 * SECOND)), Time(30 * SECOND))
    }

    /// Sends one datagram per second. Those in `lost` never arrive, the others after `delay` milliseconds.
    fn play(mut meter: StreamMeter, lost: &[u32], delay: impl Fn(u32) -> u64) -> StreamMeter {
        for number in 0..30 {
            let sent = Time(u64::from(number) * SECOND);
            meter.sent(sent);
            if !lost.contains(&number) {
                meter.received(sent + Span::from_millis(delay(number)), sent, number);
            }
        }
        meter
    }

    #[test]
    fn a_loss_counts_in_the_window_in_which_it_was_sent() {
        let meter = play(meter(None), &[0, 3, 12, 14, 15], |_| 20);
        let (startup, main) = (meter.measures(false), meter.measures(true));
        assert_eq!((startup.loss_ratio, main.loss_ratio), (Some(0.2), Some(0.15)));
        assert_eq!((startup.payload, main.payload), (800, 1700));
        assert_eq!((main.delay_ms.map(|d| d.max), main.jitter_ms.map(|d| d.max)), (Some(20.0), Some(0.0)));
        assert_eq!(main.mos, None);
    }

    #[test]
    fn what_may_still_be_on_its_way_is_not_lost() {
        let meter = play(meter(None), &[26, 27, 28, 29], |_| 20);
        assert_eq!(meter.measures(true).loss_ratio, Some(0.0));
    }

    #[test]
    fn of_a_stream_of_which_nothing_comes_everything_is_lost() {
        let meter = play(meter(None), &(0..30).collect::<Vec<_>>(), |_| 20);
        assert_eq!((meter.measures(true).loss_ratio, meter.measures(false).loss_ratio), (Some(1.0), Some(1.0)));
        assert!(meter.measures(true).delay_ms.is_none());
    }

    #[test]
    fn of_a_short_stream_of_which_queues_drop_everything_everything_is_lost() {
        let setup =
            StreamSetup { payload: 100, voice: Some(Voice { codec: Codec::G711, playout: Playout::Percentile(99) }) };
        let mut meter = StreamMeter::new(setup, (Time(2 * SECOND), Time(8 * SECOND)), Time(8 * SECOND));
        for number in 0..8 {
            meter.sent(Time(number * SECOND));
            meter.dropped(Time(number * SECOND + 10));
        }
        // The last datagram has not yet reached the queue that drops all of them.
        meter.sent(Time(8 * SECOND - 5));
        meter.dropped(Time(8 * SECOND + 5));
        for main in [false, true] {
            let measures = meter.measures(main);
            assert_eq!((measures.loss_ratio, measures.mos, measures.payload), (Some(1.0), Some(1.0), 0));
            assert!(measures.delay_ms.is_none() && measures.jitter_ms.is_none());
        }
    }

    #[test]
    fn a_stream_that_a_queue_stops_is_lost_from_then_on_and_what_waits_in_it_is_not() {
        let mut meter = meter(None);
        for number in 0..30 {
            let sent = Time(u64::from(number) * SECOND);
            meter.sent(sent);
            match number {
                0..20 => _ = meter.received(sent + Span::from_millis(20), sent, number),
                20..28 => meter.dropped(sent + Span::from_millis(10)),
                _ => {} // still in the queue at the end
            }
        }
        assert_eq!(meter.measures(true).loss_ratio, Some(8.0 / 18.0));
    }

    #[test]
    fn a_copy_counts_once_and_what_comes_after_the_end_does_not_count() {
        let mut meter = play(meter(None), &[], |number| if number == 29 { 1000 } else { 20 });
        meter.received(Time(29 * SECOND), Time(20 * SECOND), 20);
        let main = meter.measures(true);
        assert_eq!((main.payload, main.loss_ratio), (1900, Some(0.0)));
    }

    #[test]
    fn variation_is_what_exceeds_the_least_delay() {
        let meter = play(meter(None), &[], |number| 50 + u64::from(number % 2) * 10);
        let (delay, jitter) = (meter.measures(true).delay_ms, meter.measures(true).jitter_ms);
        let (delay, jitter) = (delay.expect("samples"), jitter.expect("samples"));
        assert!((delay.mean - 55.0).abs() < 1e-9 && (jitter.mean - 5.0).abs() < 1e-9, "{delay:?} {jitter:?}");
        assert_eq!((delay.max, jitter.max), (60.0, 10.0));
    }

    #[test]
    fn late_speech_is_lost_speech() {
        let of = |playout| {
            let voice = Some(Voice { codec: Codec::G711NoPlc, playout });
            // One datagram of twenty arrives 200 ms later.
            play(meter(voice), &[], |number| if number == 15 { 220 } else { 20 }).measures(true).mos.expect("speech")
        };
        let mos = |delay, lost| voice::mos(voice::rating(Codec::G711NoPlc, delay, lost));
        assert!((of(Playout::Fixed(Span::from_millis(60))) - mos(100.0, 0.05)).abs() < 1e-9);
        assert!((of(Playout::Fixed(Span::from_millis(200))) - mos(240.0, 0.0)).abs() < 1e-9);
        assert!((of(Playout::Percentile(99)) - mos(240.0, 0.0)).abs() < 1e-9, "{}", of(Playout::Percentile(99)));
        assert!((of(Playout::Percentile(90)) - mos(40.0, 0.05)).abs() < 0.01, "{}", of(Playout::Percentile(90)));
    }

    #[test]
    fn silence_is_as_bad_as_it_gets() {
        let voice = Some(Voice { codec: Codec::G711, playout: Playout::Percentile(99) });
        assert_eq!(play(meter(voice), &(0..30).collect::<Vec<_>>(), |_| 0).measures(true).mos, Some(1.0));
    }
}
