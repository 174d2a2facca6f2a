//! What the viewer of a video saw, in a window.

use sojourn_core::units::Span;
use sojourn_model::workload::video::Seen;

/// What a video showed.
#[derive(Clone, Default, Debug)]
pub(crate) struct Watched {
    pieces: u64,
    /// Sum of the pieces' qualities, in bits per second.
    rates: u128,
    switches: u64,
    stalls: u64,
    stalled: Span,
    begun: Option<Span>,
}

impl Watched {
    pub fn add(&mut self, seen: Seen) {
        match seen {
            Seen::Piece(quality, switched) => {
                self.pieces += 1;
                self.rates += u128::from(quality.0);
                self.switches += u64::from(switched);
            }
            Seen::Begun(after) => self.begun = Some(after),
            Seen::Stalled(time) => {
                self.stalls += 1;
                self.stalled += time;
            }
        }
    }
}

/// A video in a window.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct VideoWindow {
    /// How often the picture stood still: stalls that began in the window.
    pub stalls: u64,
    /// How long, all together.
    pub stalled_s: f64,
    /// Mean quality of the pieces that came.
    pub quality_mbit: Option<f64>,
    /// How often the quality changed.
    pub switches: u64,
    /// From the first SYN to the picture's first movement, if that was in the window.
    pub startup_s: Option<f64>,
}

impl VideoWindow {
    pub(crate) fn of(watched: &Watched) -> Option<VideoWindow> {
        let Watched { pieces, rates, switches, stalls, stalled, begun } = *watched;
        let any = pieces > 0 || stalls > 0 || begun.is_some();
        any.then(|| VideoWindow {
            stalls,
            stalled_s: stalled.as_secs_f64(),
            quality_mbit: (pieces > 0).then(|| rates as f64 / pieces as f64 / 1e6),
            switches,
            startup_s: begun.map(Span::as_secs_f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::units::Rate;

    #[test]
    fn a_window_sums_up_what_was_seen_in_it() {
        let mut watched = Watched::default();
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
        let mut watched = Watched::default();
        watched.add(Seen::Stalled(Span::from_secs(5)));
        let window = VideoWindow::of(&watched).expect("a stall");
        assert_eq!((window.stalled_s, window.quality_mbit), (5.0, None));
    }
}
