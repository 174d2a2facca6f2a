//! Division of a run into slices, each of which lies in one window and in one bin of the series. In the common case a
//! meter only compares the time with the end of the current slice; windows and bins are handled when a slice ends.

use sojourn_core::units::Time;

/// The part of the run in which a slice lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Before the measuring window.
    Startup,
    /// In the measuring window.
    Main,
    /// After the measuring window.
    After,
    /// At or after the end of the run.
    Over,
}

impl Phase {
    /// The phase of time `at`, and the end of that phase, for a run that is measured within `measure` and ends at
    /// `run_end`.
    pub fn at(at: u64, measure: (Time, Time), run_end: Time) -> (Phase, u64) {
        let (start, end) = (measure.0.min(run_end), measure.1.min(run_end));
        match at {
            _ if at < start.0 => (Phase::Startup, start.0),
            _ if at < end.0 => (Phase::Main, end.0),
            _ if at < run_end.0 => (Phase::After, run_end.0),
            _ => (Phase::Over, u64::MAX),
        }
    }
}

/// Everything that ended together with a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SliceEnd {
    /// The end of the slice, in nanoseconds.
    pub at: u64,
    /// Whether a bin of the series ended.
    pub bin: bool,
    /// The window that ended, if one did.
    pub window: Option<Phase>,
}

/// The current slice.
#[derive(Clone, Debug)]
pub(crate) struct Slices {
    /// End of the slice (exclusive), in nanoseconds; `u64::MAX` once the run is over.
    pub end: u64,
    phase: Phase,
    window_end: u64,
    bin_end: u64,
    bin_width: u64,
    measure: (Time, Time),
    run_end: Time,
}

impl Slices {
    /// Creates the first slice, which starts at time zero. The run ends at `end` and is measured within `measure`. The
    /// series has at most `bins` bins; 0 means no series.
    pub fn new(measure: (Time, Time), end: Time, bins: u32) -> Slices {
        let bin_width = bin_width(end, bins);
        let mut slices =
            Slices { end: 0, phase: Phase::Over, window_end: 0, bin_end: bin_width, bin_width, measure, run_end: end };
        slices.enter(0);
        slices
    }

    /// Ends the current slice and returns what ended with it.
    pub fn cut(&mut self) -> SliceEnd {
        let at = self.end;
        let bin = at == self.bin_end || (at == self.run_end.0 && self.bin_width < u64::MAX);
        if at == self.bin_end {
            self.bin_end = self.bin_end.saturating_add(self.bin_width);
        }
        let window = (at == self.window_end).then_some(self.phase);
        self.enter(at);
        SliceEnd { at, bin, window }
    }

    /// Starts the slice that begins at `at`.
    fn enter(&mut self, at: u64) {
        (self.phase, self.window_end) = Phase::at(at, self.measure, self.run_end);
        self.end = if self.phase == Phase::Over { u64::MAX } else { self.window_end.min(self.bin_end) };
    }
}

/// Bin width in nanoseconds, so that a run has at most `bins` bins (the last may be shorter); `u64::MAX` without bins.
pub(crate) fn bin_width(end: Time, bins: u32) -> u64 {
    if bins == 0 { u64::MAX } else { end.0.div_ceil(u64::from(bins)).max(1) }
}

/// The two windows that are reported, filled as they end.
#[derive(Clone, Debug)]
pub(crate) struct Windows<W> {
    /// Start-up; `None` when measuring starts at zero.
    pub startup: Option<Box<W>>,
    /// The measuring window.
    pub main: Box<W>,
}

impl<W: Default> Windows<W> {
    pub fn new() -> Windows<W> {
        Windows { startup: None, main: Box::default() }
    }

    /// Stores a window that has ended and resets `window`.
    pub fn store(&mut self, phase: Phase, window: &mut W) {
        let done = Box::new(std::mem::take(window));
        match phase {
            Phase::Startup => self.startup = Some(done),
            Phase::Main => self.main = done,
            Phase::After | Phase::Over => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(measure: (u64, u64), end: u64, bins: u32) -> Vec<(u64, bool, Option<Phase>)> {
        let mut slices = Slices::new((Time(measure.0), Time(measure.1)), Time(end), bins);
        std::iter::from_fn(|| (slices.end != u64::MAX).then(|| slices.cut())).map(|c| (c.at, c.bin, c.window)).collect()
    }

    #[test]
    fn the_whole_run_is_one_window_by_default() {
        assert_eq!(cuts((0, 10), 10, 0), [(10, false, Some(Phase::Main))]);
        assert_eq!(cuts((0, 10), 10, 2), [(5, true, None), (10, true, Some(Phase::Main))]);
    }

    #[test]
    fn windows_and_bins_cut_independently_and_the_last_bin_may_be_short() {
        let want = [
            (4, true, None),
            (5, false, Some(Phase::Startup)),
            (8, true, Some(Phase::Main)),
            (10, true, Some(Phase::After)),
        ];
        assert_eq!(cuts((5, 8), 10, 3), want);
    }
}
