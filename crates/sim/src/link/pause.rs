//! Ethernet flow control (IEEE 802.3x). A queue that has room only for the data in flight pauses the previous link, and
//! resumes it when there is room again. A pause frame takes the delay of the reverse direction, but no transmission
//! time on its link.
//!
//! A paused link finishes the transmission in progress and starts no other one; its discipline is not dequeued. When it
//! is resumed, the discipline is dequeued at once, even if it is empty, as in Linux when a driver wakes its queue.

use std::collections::VecDeque;

use sojourn_core::packet::Packet as _;
use sojourn_core::qdisc::Qdisc;
use sojourn_core::units::{Span, Time};
use sojourn_measure::{LinkReport, PauseMeter};
use sojourn_model::scenario;

use super::Link;
use crate::setup::Setup;

/// A pause frame in flight.
#[derive(Clone, Copy, Default, Debug)]
pub struct PauseFrame {
    /// Time of arrival.
    pub at: Time,
    /// Whether it pauses the link; otherwise it resumes it.
    pub stop: bool,
    /// The link that it is addressed to.
    pub link: usize,
}

/// The flow control of a link.
pub struct Pause {
    pauser: Option<Pauser>,
    /// Whether the next link has paused this one. That is possible only if there is a meter.
    stopped: bool,
    meter: Option<PauseMeter>,
}

/// Flow control towards the previous link.
struct Pauser {
    thresholds: scenario::Pause,
    /// The previous link.
    link: usize,
    /// Delay to the previous link, from each time on.
    delays: Vec<(Time, Span)>,
    /// Whether the previous link is paused.
    stops: bool,
    /// Arrival time of the last frame.
    last: Time,
    /// Frames to be sent.
    frames: VecDeque<PauseFrame>,
}

impl Pause {
    /// Creates the initial state, in which nothing is paused; `None` for a link without flow control.
    pub(super) fn new(link: &scenario::Link, setup: &Setup) -> Option<Box<Pause>> {
        let pauser = link.pause.zip(setup.before.clone()).map(|(thresholds, (link, delays))| Pauser {
            thresholds,
            link,
            delays,
            stops: false,
            last: Time::ZERO,
            frames: VecDeque::new(),
        });
        let meter = setup.can_be_paused.then(|| PauseMeter::new(&setup.meter));
        (pauser.is_some() || meter.is_some()).then(|| Box::new(Pause { pauser, stopped: false, meter }))
    }

    /// Returns whether every arrival must be checked.
    pub(super) fn watches(&self) -> bool {
        self.pauser.is_some()
    }

    /// Adds the time for which the link was paused to its report.
    pub(super) fn finish(self, report: &mut LinkReport) {
        if let Some(meter) = self.meter {
            meter.finish(report);
        }
    }
}

impl Pauser {
    /// Sends a frame if the queue, which now holds this many packets and bytes, crosses a threshold.
    fn look(&mut self, now: Time, packets: u64, bytes: u64) {
        let scenario::Pause { stop, go } = self.thresholds;
        let changes = if self.stops {
            packets <= go.packets && bytes <= go.bytes
        } else {
            packets > stop.packets || bytes > stop.bytes
        };
        if changes {
            self.stops = !self.stops;
            let delay = self.delays.iter().rev().find(|step| step.0 <= now).map_or(Span::ZERO, |step| step.1);
            self.last = self.last.max(now + delay);
            self.frames.push_back(PauseFrame { at: self.last, stop: self.stops, link: self.link });
        }
    }
}

impl Link {
    /// Checks the queue; call it after every change.
    pub(super) fn watch(&mut self, now: Time) {
        if let Some(Pause { pauser: Some(pauser), .. }) = self.pause.as_deref_mut() {
            let (packets, bytes) = self.requeued.map_or((0, 0), |packet| (1, u64::from(packet.bytes())));
            pauser.look(now, self.qdisc.packets() as u64 + packets, self.qdisc.backlog() + bytes);
        }
    }

    /// Returns the next frame for the previous link. The engines call this after each event and arrival.
    #[inline]
    pub fn take_frame(&mut self) -> Option<PauseFrame> {
        self.pause.as_mut()?.pauser.as_mut()?.frames.pop_front()
    }

    /// Returns whether the next link has paused this one.
    pub(super) fn is_stopped(&self) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.stopped)
    }

    /// Handles the arrival of a frame from the next link. [`Link::next_event`] may change.
    pub fn receive(&mut self, now: Time, stop: bool) {
        let Some(pause) = &mut self.pause else { return };
        pause.stopped = stop;
        if let Some(meter) = &mut pause.meter {
            meter.becomes(now, stop);
        }
        if self.service.is_some() {
            return; // The transmission in progress is finished.
        }
        if self.card.is_none() {
            self.busy = stop;
            self.due = Time::NEVER;
        }
        if !stop {
            self.due = now;
        }
    }

    /// Suspends the link until a frame arrives.
    pub(super) fn suspend(&mut self, now: Time) {
        self.busy = true;
        self.due = Time::NEVER;
        match self.waiting() {
            _ if !self.detail => {}
            0 => self.meter.emptied(now),
            packets => self.meter.enqueued(now, packets, self.is_full()),
        }
    }
}
