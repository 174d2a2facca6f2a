//! Generic receive offload: segments that arrive close together are handed up, and acknowledged, as one.
//!
//! Facts: `tcp_gro_receive` and `gro_flush_timeout` of Linux. A card that waits a little merges segments in order with the same
//! timestamp (in milliseconds), up to 64 kB. TCP then sees more than one MSS at once and acknowledges it once.
//!
//! Deviations: a segment is held only if it would be acknowledged at once, and the time counts from the first such segment, not from
//! the first that is merged. Held segments reach the application at once.

use crate::tcp::Config;
use crate::units::{Span, Time};

/// The most bytes of a merged packet (`GRO_LEGACY_MAX_SIZE`).
const MAX_SIZE: u32 = 65_536;

/// The segments of a connection that a card holds to merge them.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    timeout: Span,
    /// The most segments of a merged packet.
    most: u32,
    /// The number of segments that are held, their timestamp in ms, and the time until which they are held.
    held: u32,
    ms: u32,
    until: Time,
}

impl Merge {
    pub fn new(config: &Config) -> Merge {
        let most = (MAX_SIZE / config.mss).max(1);
        Merge { timeout: config.gro_flush_timeout, most, held: 0, ms: 0, until: Time::NEVER }
    }

    /// Handles a segment that would be acknowledged. Returns until when it is held; `None` if it is handed up now with all held ones.
    pub fn hold(&mut self, now: Time, ts: u32) -> Option<Time> {
        if self.held == 0 {
            (self.ms, self.until) = (ts / 1000, now + self.timeout);
        }
        self.held += 1;
        if self.held >= self.most || now >= self.until || self.ms != ts / 1000 {
            self.flushed();
            return None;
        }
        Some(self.until)
    }

    /// Returns whether segments are held.
    pub fn is_holding(&self) -> bool {
        self.held > 0
    }

    /// All held segments were handed up.
    pub fn flushed(&mut self) {
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge() -> Merge {
        Merge::new(&Config { gro_flush_timeout: Span::from_micros(50), ..Config::default() })
    }

    #[test]
    fn what_comes_within_the_time_waits_for_its_end() {
        let mut merge = merge();
        let until = Some(Time(51_000));
        let held = [1, 20, 50].map(|us| merge.hold(Time(us * 1000), 7000));
        assert_eq!(held, [until; 3]);
        assert!(merge.is_holding());
        assert_eq!(merge.hold(Time(51_000), 7000), None);
        assert!(!merge.is_holding());
    }

    #[test]
    fn a_packet_holds_64_kb() {
        let mut merge = merge();
        let held = (0..45).map(|n| merge.hold(Time(n), 7000).is_some());
        assert_eq!(held.filter(|held| *held).count(), 44);
    }

    #[test]
    fn segments_of_two_milliseconds_are_not_merged() {
        let mut merge = merge();
        assert!(merge.hold(Time(1), 7999).is_some());
        assert_eq!(merge.hold(Time(2), 8000), None);
    }
}
