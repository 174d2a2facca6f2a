//! A cache of drawn web traffic. Many runs of a sweep have the same traffic, and drawing it took up to a third of a run's
//! instructions.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sojourn_core::units::Time;

use super::{WebConnection, packmime};

/// The cache keeps at most this many connections for each plan: ten seeds of 80 per second over 300 s, some twenty megabytes.
const KEPT: usize = 1 << 18;
/// Each row counts as this many additional connections. This limits the number of rows, because the cache is searched linearly.
const AT_LEAST: usize = 128;

/// The parameters of a draw: seed, name, rate, start and end.
type Key = (u64, String, f64, (Time, Time));

/// The connections of one row.
struct Web {
    key: Key,
    connections: Arc<[WebConnection]>,
}

impl Web {
    fn weight(&self) -> usize {
        AT_LEAST + self.connections.len()
    }
}

/// The cache. Threads share it.
#[derive(Default)]
pub(crate) struct Webs(Mutex<Kept>);

/// The rows, in the order in which they were last used.
#[derive(Default)]
struct Kept(VecDeque<Web>);

impl Webs {
    /// Draws the connections of a row as [`packmime::connections`] does, or finds them in the cache.
    pub(crate) fn connections(&self, seed: u64, name: &str, rate: f64, span: (Time, Time)) -> Arc<[WebConnection]> {
        let key = (seed, name.to_owned(), rate, span);
        if let Some(known) = self.kept().find(&key) {
            return known;
        }
        // The lock is not held while drawing. Two threads may therefore draw the same row, but neither waits for the other.
        let connections = packmime::connections(seed, name, rate, span).into();
        self.kept().keep(Web { key, connections })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn find(&mut self, key: &Key) -> Option<Arc<[WebConnection]>> {
        let at = self.0.iter().position(|web| web.key == *key)?;
        let web = self.0.remove(at)?;
        let connections = Arc::clone(&web.connections);
        self.0.push_back(web);
        Some(connections)
    }

    /// Adds a row. If another thread has added the same row meanwhile, returns that one.
    fn keep(&mut self, web: Web) -> Arc<[WebConnection]> {
        if let Some(known) = self.find(&web.key) {
            return known;
        }
        let connections = Arc::clone(&web.connections);
        if web.weight() <= KEPT {
            self.0.push_back(web);
        }
        let mut weight = self.weight();
        while weight > KEPT
            && let Some(oldest) = self.0.pop_front()
        {
            weight -= oldest.weight();
        }
        connections
    }

    fn weight(&self) -> usize {
        self.0.iter().map(Web::weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::units::Span;

    fn seconds(from: u64, until: u64) -> (Time, Time) {
        (Time::ZERO + Span::from_secs(from), Time::ZERO + Span::from_secs(until))
    }

    #[test]
    fn what_is_drawn_again_is_shared_and_what_differs_in_anything_is_not() {
        let webs = Webs::default();
        let first = webs.connections(1, "web", 10.0, seconds(0, 30));
        assert_eq!(*first, packmime::connections(1, "web", 10.0, seconds(0, 30))[..]);
        assert!(Arc::ptr_eq(&first, &webs.connections(1, "web", 10.0, seconds(0, 30))));
        for (seed, name, rate, span) in [
            (2, "web", 10.0, seconds(0, 30)),
            (1, "other", 10.0, seconds(0, 30)),
            (1, "web", 11.0, seconds(0, 30)),
            (1, "web", 10.0, seconds(1, 30)),
            (1, "web", 10.0, seconds(0, 31)),
        ] {
            let other = webs.connections(seed, name, rate, span);
            assert_eq!(*other, packmime::connections(seed, name, rate, span)[..]);
            assert_ne!(other, first);
        }
    }

    /// A row with this many connections.
    fn drawn(seed: u64, connections: usize) -> Web {
        let connection = WebConnection { start: Time(seed), exchanges: Vec::new() };
        Web { key: (seed, "web".into(), 1.0, seconds(0, 1)), connections: vec![connection; connections].into() }
    }

    fn seeds(kept: &Kept) -> Vec<u64> {
        assert!(kept.weight() <= KEPT, "{}", kept.weight());
        kept.0.iter().map(|web| web.key.0).collect()
    }

    #[test]
    fn what_was_asked_for_longest_ago_goes_first_and_no_more_is_kept_than_there_is_room_for() {
        let mut kept = Kept::default();
        let third = KEPT / 3 - AT_LEAST;
        (1..=3).for_each(|seed| drop(kept.keep(drawn(seed, third))));
        assert_eq!(seeds(&kept), [1, 2, 3]);
        assert!(kept.find(&drawn(1, 0).key).is_some());
        kept.keep(drawn(4, third));
        assert_eq!(seeds(&kept), [3, 1, 4]);
        kept.keep(drawn(5, KEPT));
        assert_eq!(seeds(&kept), [3, 1, 4], "what there is no room for at all drives nothing out");
        (10..10_000).for_each(|seed| drop(kept.keep(drawn(seed, 0))));
        assert_eq!(kept.0.len(), KEPT / AT_LEAST, "entries without a connection are counted too");
        seeds(&kept);
    }

    #[test]
    fn of_two_that_draw_the_same_at_once_both_have_what_was_there_first() {
        let mut kept = Kept::default();
        let (first, second) = (kept.keep(drawn(1, 7)), kept.keep(drawn(1, 7)));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(seeds(&kept), [1]);
    }
}
