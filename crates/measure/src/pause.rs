//! Meter of flow control: how long the next hop paused a link.

use sojourn_core::units::Time;

use crate::distribution::ratio;
use crate::link::{LinkReport, LinkSetup};

/// The meter. Its caller reports every pause and every resumption, in order of time.
#[derive(Clone, Debug)]
pub struct PauseMeter {
    measure: (Time, Time),
    /// Nanoseconds for which the link was paused in the measuring window, and before it.
    main: u64,
    startup: u64,
    /// Start of the current pause.
    since: Option<Time>,
}

impl PauseMeter {
    /// Creates a meter for a link that is not paused.
    pub fn new(setup: &LinkSetup) -> PauseMeter {
        PauseMeter { measure: setup.measure, main: 0, startup: 0, since: None }
    }

    /// Records that the link is paused, or resumed, from now on.
    pub fn becomes(&mut self, now: Time, paused: bool) {
        if let Some(since) = self.since.take() {
            let (from, to) = self.measure;
            self.main += now.min(to).since(since.max(from)).0;
            self.startup += now.min(from).since(since).0;
        }
        self.since = paused.then_some(now);
    }

    /// Adds the fractions of time to the report of the link.
    pub fn finish(mut self, report: &mut LinkReport) {
        let (from, to) = self.measure;
        self.becomes(to, false);
        report.main.paused_fraction = ratio(self.main, to.since(from).0);
        if let Some(startup) = &mut report.startup {
            startup.paused_fraction = ratio(self.startup, from.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use sojourn_core::units::Span;

    use super::*;
    use crate::LinkMeter;

    #[test]
    fn a_pause_counts_in_the_windows_through_which_it_lasts() {
        let setup = LinkSetup {
            name: "hop0".into(),
            measure: (Time(100), Time(200)),
            end: Time(300),
            rtt_window: Span(100),
            bins: 0,
            overhead: 0,
        };
        let mut meter = PauseMeter::new(&setup);
        for (at, paused) in [(10, true), (30, false), (90, true), (120, false), (190, true)] {
            meter.becomes(Time(at), paused);
        }
        let mut report = LinkMeter::new(&setup).finish();
        assert_eq!(report.main.paused_fraction, None, "nothing can pause it");
        meter.finish(&mut report);
        assert_eq!(report.main.paused_fraction, Some(0.3));
        assert_eq!(report.startup.and_then(|window| window.paused_fraction), Some(0.3));
    }
}
