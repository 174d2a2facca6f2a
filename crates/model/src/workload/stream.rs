//! Streams: packets at a fixed pace that does not react to the receiver (kinds `cbr`, `voip` and `onoff`).

use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};

use super::dist::Dist;

/// IP length of a datagram without payload, in bytes: 20 of IP and 8 of UDP.
pub const UDP_HEADERS: u32 = 28;
/// Smallest IP length of a datagram, in bytes. Its payload holds at least the datagram's number and its time of sending.
pub const SMALLEST: u32 = UDP_HEADERS + 12;
/// IP length of a voice packet without its speech, in bytes. It includes 12 bytes of RTP.
const VOICE_HEADERS: u32 = UDP_HEADERS + 12;

/// A stream. In each window it sends `bytes` every `interval`, for the first time at the start of the window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The windows [start, stop) in order. None is empty, and they do not overlap. A window without a stop ends at [`Time::NEVER`].
    pub active: Vec<(Time, Time)>,
    /// The time between two packets of a window.
    pub interval: Span,
    /// The IP length of each datagram in bytes; over TCP, the payload of each write.
    pub bytes: u32,
    /// The transport protocol.
    pub transport: Transport,
    /// The codec and the jitter buffer by which the quality is judged; `None` if the stream is not speech.
    pub voice: Option<Voice>,
}

/// The transport protocol of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Datagrams, which are not retransmitted when lost.
    Udp,
    /// Writes over one connection.
    Tcp,
}

/// The codec of speech, and the jitter buffer that plays it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Voice {
    /// The codec.
    pub codec: Codec,
    /// The jitter buffer.
    pub playout: Playout,
}

impl Voice {
    /// The speech in a packet, and the time between two packets.
    pub const FRAME: Span = Span::from_millis(20);
}

/// A speech codec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// 64 kbit/s, with losses concealed (G.711 with appendix I).
    G711,
    /// 64 kbit/s, without concealment.
    G711NoPlc,
    /// 8 kbit/s (G.729A with voice activity detection).
    G729a,
}

impl Codec {
    /// The names of all codecs in a scenario file.
    pub const WORDS: &'static [&'static str] = &["g711", "g711-no-plc", "g729a"];

    /// The codec of this name.
    pub fn named(word: &str) -> Option<Codec> {
        match word {
            "g711" => Some(Codec::G711),
            "g711-no-plc" => Some(Codec::G711NoPlc),
            "g729a" => Some(Codec::G729a),
            _ => None,
        }
    }

    /// The IP length of a packet in bytes.
    pub fn packet_bytes(self) -> u32 {
        // 20 ms at 64 and at 8 kbit/s.
        VOICE_HEADERS + if self == Codec::G729a { 20 } else { 160 }
    }
}

/// The time at which a jitter buffer plays a packet. The listener does not hear packets that arrive later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Playout {
    /// Packets are played at this percentile of the one-way delay, as if the buffer knew the distribution of the delay.
    Percentile(u8),
    /// Packets are played this long after the smallest one-way delay. The buffer is fixed.
    Fixed(Span),
}

impl Playout {
    /// Reads `p99` or `60ms`.
    pub fn parse(text: &str) -> Option<Playout> {
        let text = text.trim();
        match text.strip_prefix('p') {
            Some(percentile) => {
                percentile.parse().ok().filter(|percentile| (50..=99).contains(percentile)).map(Playout::Percentile)
            }
            None => crate::units::span(text).filter(|span| *span <= crate::units::LONGEST).map(Playout::Fixed),
        }
    }
}

impl Stream {
    /// Returns the time of the packet that follows the one sent at `now`. `window` is the index of the current window. It is increased
    /// when the window ends.
    pub fn after(&self, window: &mut usize, now: Time) -> Option<Time> {
        let next = now + self.interval;
        match self.active.get(*window) {
            Some(&(_, stop)) if next < stop => Some(next),
            _ => {
                *window += 1;
                self.active.get(*window).map(|&(start, _)| start)
            }
        }
    }
}

/// Draws the windows of an on-off source between start and end. The source is on first.
pub(crate) fn windows(
    seed: u64,
    name: &str,
    (on, off): (&Dist, &Dist),
    (start, end): (Time, Time),
) -> Vec<(Time, Time)> {
    let mut rng = Rng::stream(seed, &format!("onoff {name}"));
    let (mut at, mut active) = (start, Vec::<(Time, Time)>::new());
    while at < end {
        let stop = at + on.draw(&mut rng).max(Span(1));
        match active.last_mut() {
            // Two windows without a pause between them are merged.
            Some(last) if last.1 >= at => last.1 = stop.min(end),
            _ => active.push((at, stop.min(end))),
        }
        at = stop + off.draw(&mut rng);
    }
    active
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    #[test]
    fn packets_keep_their_pace_in_every_window_and_start_with_it() {
        let active = vec![(Time(0), Time(25)), (Time(100), Time(101)), (Time(200), Time(220))];
        let stream = Stream { active, interval: Span(10), bytes: 200, transport: Transport::Udp, voice: None };
        let (mut window, mut now, mut times) = (0, Some(Time(0)), Vec::new());
        while let Some(at) = now {
            times.push(at.0);
            now = stream.after(&mut window, at);
        }
        assert_eq!(times, [0, 10, 20, 100, 200, 210]);
    }

    #[test]
    fn a_source_is_on_for_its_share_of_the_time() {
        for (on, off, share) in [("exp 100ms", "exp 300ms", 0.25), ("pareto 1.9 200ms", "exp 200ms", 0.5)] {
            let (on, off) = (Dist::parse(on).expect("sound"), Dist::parse(off).expect("sound"));
            let end = Time(100_000 * 1_000_000_000);
            let active = windows(1, "onoff0", (&on, &off), (Time(5), end));
            assert_eq!(active[0].0, Time(5), "on at first");
            assert!(active.windows(2).all(|pair| pair[0].1 < pair[1].0) && active.iter().all(|w| w.0 < w.1));
            let total: f64 = active.iter().map(|window| window.1.since(window.0).as_secs_f64()).sum();
            assert!((total / end.as_secs_f64() / share - 1.0).abs() < 0.03, "{}", total / end.as_secs_f64());
        }
    }

    #[test]
    fn pauses_of_no_length_join_windows() {
        let (on, off) = (Dist::Constant(MS), Dist::Constant(Span::ZERO));
        assert_eq!(windows(1, "x", (&on, &off), (Time(0), Time(3_500_000))), [(Time(0), Time(3_500_000))]);
    }

    #[test]
    fn a_jitter_buffer_is_read_as_documented() {
        assert_eq!(Playout::parse("p99"), Some(Playout::Percentile(99)));
        assert_eq!(Playout::parse("60ms"), Some(Playout::Fixed(MS * 60)));
        assert!(["p", "p100", "p10", "60", "fast", "48h"].iter().all(|text| Playout::parse(text).is_none()));
    }

    #[test]
    fn speech_has_the_lengths_of_its_codecs() {
        let bytes = |word| Codec::named(word).map(Codec::packet_bytes);
        assert_eq!((bytes("g711"), bytes("g711-no-plc"), bytes("g729a")), (Some(200), Some(200), Some(60)));
        assert!(Codec::WORDS.iter().all(|word| Codec::named(word).is_some()) && Codec::named("opus").is_none());
    }
}
