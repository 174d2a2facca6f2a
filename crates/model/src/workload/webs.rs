//! Web traffic that was drawn lately. Of the runs of a sweep many have the same, and to draw it takes up to a third of a run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use sojourn_core::units::Time;

use super::{WebConnection, packmime};

/// So many connections are kept at most, some ten megabytes of them.
const KEPT: usize = 1 << 17;

/// What decides what is drawn: seed, name, rate, and the first and the last moment.
type Key = (u64, String, f64, (Time, Time));

/// The traffic of the last few entries that differ, the latest last.
#[derive(Default)]
pub(crate) struct Webs(Mutex<VecDeque<(Key, Arc<[WebConnection]>)>>);

impl Webs {
    /// As [`packmime::connections`].
    pub(crate) fn connections(&self, seed: u64, name: &str, rate: f64, span: (Time, Time)) -> Arc<[WebConnection]> {
        let key = (seed, name.to_owned(), rate, span);
        if let Some(known) = self.known(&key) {
            return known;
        }
        // Whoever asks for the same meanwhile draws it too: nobody waits.
        let drawn: Arc<[WebConnection]> = packmime::connections(seed, name, rate, span).into();
        self.keep(key, Arc::clone(&drawn));
        drawn
    }

    fn known(&self, key: &Key) -> Option<Arc<[WebConnection]>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(other, _)| other == key)?;
        let found = kept.remove(at)?;
        let connections = Arc::clone(&found.1);
        kept.push_back(found);
        Some(connections)
    }

    fn keep(&self, key: Key, connections: Arc<[WebConnection]>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((key, connections));
        while kept.iter().map(|(_, connections)| connections.len()).sum::<usize>() > KEPT {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::units::Span;

    fn span(seconds: u64) -> (Time, Time) {
        (Time::ZERO, Time::ZERO + Span::from_secs(seconds))
    }

    #[test]
    fn what_is_drawn_again_is_shared_and_what_differs_in_anything_is_not() {
        let webs = Webs::default();
        let first = webs.connections(1, "web", 10.0, span(30));
        assert_eq!(*first, packmime::connections(1, "web", 10.0, span(30))[..]);
        assert!(Arc::ptr_eq(&first, &webs.connections(1, "web", 10.0, span(30))));
        for (seed, name, rate, until) in
            [(2, "web", 10.0, 30), (1, "other", 10.0, 30), (1, "web", 11.0, 30), (1, "web", 10.0, 31)]
        {
            let other = webs.connections(seed, name, rate, span(until));
            assert_eq!(*other, packmime::connections(seed, name, rate, span(until))[..]);
            assert_ne!(other, first);
        }
    }

    #[test]
    fn what_was_asked_for_longest_ago_goes_first_and_no_more_is_kept_than_there_is_room_for() {
        let webs = Webs::default();
        let draw = |seed| webs.connections(seed, "web", 400.0, span(100));
        let (first, second) = (draw(1), draw(2));
        assert!(first.len() > KEPT / 4 && second.len() > KEPT / 4, "three or four of them fill it");
        draw(3);
        assert!(Arc::ptr_eq(&first, &draw(1)));
        draw(4);
        assert!(Arc::ptr_eq(&first, &draw(1)));
        assert!(!Arc::ptr_eq(&second, &draw(2)));
        let kept: usize =
            webs.0.lock().expect("nobody panicked").iter().map(|(_, connections)| connections.len()).sum();
        assert!(kept <= KEPT, "{kept}");
    }
}
