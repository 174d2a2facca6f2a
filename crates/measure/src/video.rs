//! Playback of a video within a window.

use sojourn_core::units::Span;
use sojourn_model::workload::video::Seen;

/// Counters of a video's playback.
#[derive(Clone, Default, Debug)]
pub(crate) struct Playback {
    pieces: u64,
    /// Sum of the bit rates of the segments, in bits per second.
    rates: u128,
    switches: u64,
    stalls: u64,
    stalled: Span,
    /// The number of playbacks that began, and the sum of their start-up delays.
    begun: u64,
    waited: Span,
}

impl Playback {
    pub fn add(&mut self, seen: Seen) {
        match seen {
            Seen::Piece(quality, switched) => {
                self.pieces += 1;
                self.rates += u128::from(quality.0);
                self.switches += u64::from(switched);
            }
            Seen::Begun(after) => {
                self.begun += 1;
                self.waited += after;
            }
            Seen::Stalled(time) => {
                self.stalls += 1;
                self.stalled += time;
            }
        }
    }

    /// Adds the counters of another viewer.
    pub fn merge(&mut self, other: &Playback) {
        self.pieces += other.pieces;
        self.rates += other.rates;
        self.switches += other.switches;
        self.stalls += other.stalls;
        self.stalled += other.stalled;
        self.begun += other.begun;
        self.waited += other.waited;
    }
}

/// Measures of a video's playback within one window.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct VideoWindow {
    /// Number of stalls that began in the window.
    pub stalls: u64,
    /// Total duration of these stalls in seconds.
    pub stalled_s: f64,
    /// Mean bit rate of the segments that arrived, in Mbit/s.
    pub quality_mbit: Option<f64>,
    /// Number of changes of quality.
    pub switches: u64,
    /// Start-up delay in seconds, from the first SYN to the first picture, if playback started in the window. For a pool the
    /// mean of its viewers'; all counts are sums over them.
    pub startup_s: Option<f64>,
}

impl VideoWindow {
    pub(crate) fn of(watched: &Playback) -> Option<VideoWindow> {
        let Playback { pieces, rates, switches, stalls, stalled, begun, waited } = *watched;
        let any = pieces > 0 || stalls > 0 || begun > 0;
        any.then(|| VideoWindow {
            stalls,
            stalled_s: stalled.as_secs_f64(),
            quality_mbit: (pieces > 0).then(|| rates as f64 / pieces as f64 / 1e6),
            switches,
            startup_s: (begun > 0).then(|| waited.as_secs_f64() / begun as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::units::Rate;

    #[test]
    fn a_window_sums_up_what_was_seen_in_it() {
        let mut watched = Playback::default();
        assert_eq!(VideoWindow::of(&watched), None);
        let second = Span::from_secs(1);
        for seen in [
            Seen::Piece(Rate(1_000_000), false),
            Seen::Begun(second * 2),
            Seen::Piece(Rate(2_000_000), true),
            Seen::Stalled(second * 3),
            Seen::Stalled(second),
        ] {
            watched.add(seen);
        }
        let window = VideoWindow::of(&watched).expect("something was seen");
        assert_eq!((window.stalls, window.stalled_s, window.switches), (2, 4.0, 1));
        assert_eq!((window.quality_mbit, window.startup_s), (Some(1.5), Some(2.0)));
    }

    #[test]
    fn a_stall_without_a_piece_is_a_stall() {
        let mut watched = Playback::default();
        watched.add(Seen::Stalled(Span::from_secs(5)));
        let window = VideoWindow::of(&watched).expect("a stall");
        assert_eq!((window.stalled_s, window.quality_mbit), (5.0, None));
    }
}
