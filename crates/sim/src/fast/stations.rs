//! The links in the forms that the fast engine uses, and the pause frames in flight between them.

use sojourn_core::ring::Ring;
use sojourn_core::units::Time;
use sojourn_measure::LinkReport;
use sojourn_model::records::PacketRecord;

use crate::closed::ClosedLink;
use crate::link::{Link, PauseFrame};
use crate::schedule::{Schedules, Slot};

/// A link, in one of three forms.
pub enum Station {
    /// A link with a queue discipline and events, and its position in the schedule.
    Queue(Box<Link>, Slot),
    /// Like `Queue`, with flow control or an ACK filter, for which the engine takes further steps.
    Coupled(Box<Link>, Slot),
    /// A link whose departures are computed on arrival.
    Closed(Box<ClosedLink>),
}

impl Station {
    /// Enters the time of the link's next event in the schedule.
    pub fn reschedule(&self, schedules: &mut Schedules) {
        if let Station::Queue(link, slot) | Station::Coupled(link, slot) = self {
            schedules.set(*slot, link.next_event());
        }
    }

    /// Returns the meter's report and the per-packet records.
    pub fn finish(self) -> (LinkReport, Vec<PacketRecord>) {
        match self {
            Station::Queue(link, _) | Station::Coupled(link, _) => link.finish(),
            Station::Closed(link) => link.finish(),
        }
    }
}

/// Pause frames in flight to a link, in order of arrival.
#[derive(Default)]
pub struct Frames {
    ring: Ring<PauseFrame>,
    /// Position in the schedule; `None` if the link receives no pause frames.
    slot: Option<Slot>,
}

impl Frames {
    /// Creates the line of frames to a link.
    pub fn new(slot: Option<Slot>) -> Frames {
        Frames { ring: Ring::default(), slot }
    }

    /// Puts a frame on the line.
    pub fn put(&mut self, frame: PauseFrame, schedules: &mut Schedules) {
        if let (Some(slot), true) = (self.slot, self.ring.is_empty()) {
            schedules.set(slot, frame.at);
        }
        self.ring.push(frame);
    }

    /// Removes and returns the first frame.
    pub fn take(&mut self, schedules: &mut Schedules) -> Option<PauseFrame> {
        let frame = self.ring.pop();
        if let Some(slot) = self.slot {
            schedules.set(slot, self.ring.front().map_or(Time::NEVER, |next| next.at));
        }
        frame
    }
}
