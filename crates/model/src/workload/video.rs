//! Adaptive video over one connection, as in DASH. The player requests pieces of a few seconds one after the other, each in the quality
//! that it chooses, until its buffer is full.
//!
//! `rule = "buffer"` chooses by the buffer alone. It is BBA-0 of Huang et al., "A buffer-based approach to rate adaptation", SIGCOMM
//! 2014. With less playing time in the buffer than the reservoir, the quality is the lowest; with more than the cushion, it is the
//! highest. Between the two, a straight line gives a rate, and the quality changes only when the line reaches the rate of another
//! quality. `rule = "rate"` chooses the best quality below 0.8 times the harmonic mean of the throughput of the last five pieces
//! (after FESTIVE, Jiang et al., CoNEXT 2012).
//!
//! Deviations: the player of the paper has a buffer of minutes. Here reservoir and cushion are shares of a smaller buffer. We chose
//! these shares, the default qualities, the quality of the first piece (the lowest), and the time at which playing starts. All pieces
//! of a quality have the same size.

use serde::{Deserialize, Serialize};
use sojourn_core::units::{Rate, Span, Time};

use super::Exchange;
use super::driver::{BitsPerSecond, Nanoseconds};
use super::page::REQUEST;

/// Reservoir and cushion, in percent of the buffer. Up to the reservoir the quality is the lowest; from the cushion on it is the
/// highest. We chose the values.
const RESERVOIR: u64 = 25;
const CUSHION: u64 = 90;
/// Playing starts, and resumes after a stall, with this many pieces in the buffer. We chose the value.
const TO_PLAY: u64 = 2;
/// The throughput is estimated from the last `SAMPLES` pieces. The bit rate of a piece may be `SAFETY` percent of it.
const SAMPLES: usize = 5;
const SAFETY: u64 = 80;

/// The rule by which the quality is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// By the playing time in the buffer.
    Buffer,
    /// By the throughput of the last pieces.
    Rate,
}

/// The parameters of a video and its player.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Video {
    /// The time of the SYN.
    pub start: Time,
    /// No piece is requested at or after this time.
    pub stop: Time,
    /// The playing time of a piece.
    pub chunk: Span,
    /// The largest playing time in the buffer.
    pub buffer: Span,
    /// The bit rates of the qualities, in rising order.
    pub ladder: Vec<Rate>,
    /// The rule by which a quality is chosen.
    pub rule: Rule,
}

/// An event that a viewer sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Seen {
    /// A piece of this quality arrived. The flag says whether the previous piece had another quality.
    Piece(#[serde(with = "BitsPerSecond")] Rate, bool),
    /// Playing started, this long after the start of the video.
    Begun(#[serde(with = "Nanoseconds")] Span),
    /// A stall started at this time, and lasted this long.
    Stalled(#[serde(with = "Nanoseconds")] Span),
}

/// The state of a player.
#[derive(Clone, Debug)]
pub struct Player {
    /// The playing time in the buffer at `at`, and whether it is being played.
    buffered: Span,
    at: Time,
    playing: bool,
    begun: bool,
    /// The time at which the buffer ran empty, during a stall.
    dry: Option<Time>,
    /// The quality of the piece that was requested last, that of the piece before, and the time of the request.
    level: usize,
    before: Option<usize>,
    asked: Time,
    /// The last pieces: size in bytes and time from request to arrival.
    samples: Vec<(u64, Span)>,
}

impl Player {
    /// Creates a player that has sent no request.
    pub fn new(video: &Video) -> Player {
        Player {
            buffered: Span::ZERO,
            at: video.start,
            playing: false,
            begun: false,
            dry: None,
            level: 0,
            before: None,
            asked: video.start,
            samples: Vec::new(),
        }
    }

    /// Chooses the quality of the next piece. Returns its request.
    pub fn ask(&mut self, now: Time, video: &Video) -> Exchange {
        self.play(now);
        self.level = match video.rule {
            _ if self.samples.is_empty() => 0,
            Rule::Buffer => self.by_buffer(video),
            Rule::Rate => self.by_rate(video),
        };
        self.asked = now;
        Exchange { gap: Span::ZERO, request: REQUEST, server_delay: Span::ZERO, response: bytes(video, self.level) }
    }

    /// Handles the arrival of the requested piece. Returns the events that the viewer has seen since, with their times, and the time of
    /// the next request.
    pub fn arrived(&mut self, now: Time, video: &Video) -> (Vec<(Time, Seen)>, Option<Time>) {
        self.play(now);
        if self.samples.len() == SAMPLES {
            self.samples.remove(0);
        }
        self.samples.push((bytes(video, self.level), now.since(self.asked).max(Span(1))));
        let mut seen = vec![(now, Seen::Piece(video.ladder[self.level], self.before.is_some_and(|l| l != self.level)))];
        self.before = Some(self.level);
        self.buffered += video.chunk;
        if !self.playing && self.buffered >= (video.chunk * TO_PLAY).min(video.buffer) {
            self.playing = true;
            match self.dry.take() {
                Some(since) => seen.push((since, Seen::Stalled(now.since(since)))),
                None if !self.begun => seen.push((now, Seen::Begun(now.since(video.start)))),
                None => {}
            }
            self.begun = true;
        }
        // The next request waits until the buffer has room for the piece.
        let room = video.buffer - video.chunk;
        let next = now + (self.buffered - room.min(self.buffered));
        (seen, Some(next).filter(|at| *at < video.stop))
    }

    /// Returns the stall that lasts to the end of the run, if there is one.
    pub fn finish(mut self, end: Time) -> Option<(Time, Seen)> {
        self.play(end);
        self.dry.map(|since| (since, Seen::Stalled(end.since(since))))
    }

    /// Plays until now.
    fn play(&mut self, now: Time) {
        let passed = now.since(self.at);
        if self.playing && passed >= self.buffered && passed > Span::ZERO {
            self.dry = Some(self.at + self.buffered);
            (self.playing, self.buffered) = (false, Span::ZERO);
        } else if self.playing {
            self.buffered = self.buffered - passed;
        }
        self.at = now;
    }

    /// Chooses a quality by BBA-0: it follows the line from reservoir to cushion, but changes only when the line has reached the rate of
    /// another quality.
    fn by_buffer(&self, video: &Video) -> usize {
        let (lowest, highest) = (video.ladder[0].0, video.ladder[video.ladder.len() - 1].0);
        let reservoir = video.buffer.0 / 100 * RESERVOIR;
        // A request is sent only when the buffer has room for the piece. The cushion is at most what the buffer can then hold.
        let cushion = (video.buffer.0 / 100 * CUSHION).min((video.buffer - video.chunk).0);
        let above = self.buffered.0.saturating_sub(reservoir).min(cushion - reservoir);
        let rise = u128::from(highest - lowest) * u128::from(above) / u128::from((cushion - reservoir).max(1));
        let line = lowest + rise as u64;
        let (up, down) = (video.ladder.get(self.level + 1), self.level.checked_sub(1).map(|below| video.ladder[below]));
        if self.buffered.0 <= reservoir {
            0
        } else if up.is_some_and(|up| line >= up.0) {
            video.ladder.iter().rposition(|rate| rate.0 <= line).unwrap_or(0)
        } else if down.is_some_and(|down| line <= down.0) {
            video.ladder.iter().position(|rate| rate.0 >= line).unwrap_or(0)
        } else {
            self.level
        }
    }

    fn by_rate(&self, video: &Video) -> usize {
        // The harmonic mean of the rates: their number over the sum of the seconds per bit.
        let per_byte: f64 = self.samples.iter().map(|&(bytes, took)| took.0 as f64 / bytes as f64).sum();
        let mean = self.samples.len() as f64 * 8e9 / per_byte;
        let most = mean * SAFETY as f64 / 100.0;
        video.ladder.iter().rposition(|rate| rate.0 as f64 <= most).unwrap_or(0)
    }
}

/// The size of a piece in bytes.
fn bytes(video: &Video, level: usize) -> u64 {
    video.ladder[level].bytes_in(video.chunk).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Span = Span::from_secs(1);

    fn video(rule: Rule) -> Video {
        let ladder = [1, 2, 4].map(|mbit| Rate(mbit * 1_000_000)).to_vec();
        Video { start: Time::ZERO, stop: Time::NEVER, chunk: SECOND * 2, buffer: SECOND * 20, ladder, rule }
    }

    /// Plays this many pieces over a network of constant rate. Returns the qualities in Mbit/s, what was seen, and the time.
    fn watch(video: &Video, mbit: u64, pieces: usize) -> (Vec<u64>, Vec<(Time, Seen)>, Time) {
        let (mut player, mut now, mut levels, mut all) = (Player::new(video), video.start, Vec::new(), Vec::new());
        for _ in 0..pieces {
            let exchange = player.ask(now, video);
            levels.push(video.ladder[player.level].0 / 1_000_000);
            let (seen, next) = player.arrived(now + Span(exchange.response * 8000 / mbit), video);
            all.extend(seen);
            now = next.expect("no end");
        }
        (levels, all, now)
    }

    #[test]
    fn a_fast_network_gives_the_highest_quality_without_stalls() {
        for rule in [Rule::Buffer, Rule::Rate] {
            let (levels, seen, now) = watch(&video(rule), 10, 40);
            assert_eq!((levels[0], levels[39]), (1, 4), "{rule:?}: {levels:?}");
            assert!(levels.windows(2).all(|pair| pair[0] <= pair[1]), "{levels:?}");
            assert!(!seen.iter().any(|(_, seen)| matches!(seen, Seen::Stalled(_))));
            // Playing begins after two pieces: of 0.2 s each, or the second one in the highest quality of 0.8 s.
            let begun = Time(if rule == Rule::Buffer { 400_000_000 } else { 1_000_000_000 });
            assert_eq!(seen.iter().find(|(_, s)| matches!(s, Seen::Begun(_))).map(|s| s.0), Some(begun));
            // The buffer is full: pieces are asked for as fast as they are played.
            assert_eq!(now, begun + SECOND * 62);
        }
    }

    #[test]
    fn the_rate_rule_keeps_to_four_fifths_of_the_throughput() {
        let (levels, seen, _) = watch(&video(Rule::Rate), 3, 20);
        assert_eq!((levels[0], levels[1], levels[19]), (1, 2, 2));
        let switches = seen.iter().filter(|(_, seen)| matches!(seen, Seen::Piece(_, true))).count();
        assert_eq!(switches, 1);
        assert_eq!(watch(&video(Rule::Rate), 2, 20).0[19], 1, "1.6 Mbit/s are not 2");
    }

    #[test]
    fn what_is_not_there_in_time_makes_the_picture_stand() {
        let video = video(Rule::Rate);
        let mut player = Player::new(&video);
        player.ask(Time::ZERO, &video);
        player.arrived(Time::ZERO + SECOND, &video);
        player.ask(Time::ZERO + SECOND, &video);
        let (seen, _) = player.arrived(Time::ZERO + SECOND * 2, &video);
        assert_eq!(seen[1], (Time::ZERO + SECOND * 2, Seen::Begun(SECOND * 2)));
        // At 2 s the buffer holds four seconds. The next piece arrives at 9 s. The piece that ends the stall arrives at 10 s.
        player.ask(Time::ZERO + SECOND * 2, &video);
        assert_eq!(player.arrived(Time::ZERO + SECOND * 9, &video).0.len(), 1);
        player.ask(Time::ZERO + SECOND * 9, &video);
        let (seen, _) = player.arrived(Time::ZERO + SECOND * 10, &video);
        assert_eq!(seen[1], (Time::ZERO + SECOND * 6, Seen::Stalled(SECOND * 4)));
        player.ask(Time::ZERO + SECOND * 10, &video);
        assert_eq!(player.clone().finish(Time::ZERO + SECOND * 13), None);
        assert_eq!(player.finish(Time::ZERO + SECOND * 15), Some((Time::ZERO + SECOND * 14, Seen::Stalled(SECOND))));
    }

    #[test]
    fn the_buffer_rule_goes_to_the_lowest_quality_in_the_reservoir_and_stays_between_two() {
        let video = video(Rule::Buffer);
        let mut player = Player::new(&video);
        player.samples.push((1, SECOND));
        let mut at = |seconds: u64, level: usize| {
            (player.buffered, player.level) = (SECOND * seconds, level);
            player.by_buffer(&video)
        };
        // The line runs from 1 Mbit/s at 5 s to 4 Mbit/s at 18 s; at 9 s it is at 1.92, at 10 s at 2.15.
        assert_eq!((at(5, 2), at(9, 0), at(10, 0)), (0, 0, 1));
        assert_eq!((at(9, 1), at(12, 1), at(18, 1)), (1, 1, 2));
        assert_eq!((at(12, 2), at(9, 2)), (2, 1));
    }

    #[test]
    fn a_buffer_of_few_pieces_reaches_the_highest_quality_too() {
        let video = Video { buffer: SECOND * 4, ..video(Rule::Buffer) };
        assert_eq!(watch(&video, 20, 20).0[19], 4);
    }
}
