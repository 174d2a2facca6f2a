//! Ethernet flow control (IEEE 802.3x): a queue that has room only for what is under way stops the link before it, and lets it
//! go on when there is room again. A pause frame takes the delay of the other direction, and no time of its link.
//!
//! A link that is stopped ends the transmission under way and begins no other; its discipline is not asked meanwhile. When it
//! may go on, the discipline is asked at once, also if it is empty, as Linux does when a driver wakes its queue.

use std::collections::VecDeque;

use sojourn_core::packet::Packet as _;
use sojourn_core::qdisc::Qdisc;
use sojourn_core::units::{Span, Time};
use sojourn_measure::{LinkReport, PauseMeter};
use sojourn_model::scenario;

use super::Link;
use crate::setup::Setup;

/// A pause frame on its way.
#[derive(Clone, Copy, Default, Debug)]
pub struct Frame {
    /// When it arrives.
    pub at: Time,
    /// Whether it says stop, or go on.
    pub stop: bool,
    /// The link that it is for.
    pub link: usize,
}

/// A link's part in flow control.
pub struct Pause {
    brake: Option<Brake>,
    /// The link behind has stopped this one, which it can if there is a meter.
    stopped: bool,
    meter: Option<PauseMeter>,
}

/// How a link stops the one before it.
struct Brake {
    fillings: scenario::Pause,
    /// The link before.
    link: usize,
    /// From here to it, from each time on.
    delays: Vec<(Time, Span)>,
    /// It was told to stop.
    stops: bool,
    /// When the last frame arrives.
    last: Time,
    /// To be sent.
    frames: VecDeque<Frame>,
}

impl Pause {
    /// Nothing is stopped; nothing at all where a link has no part in it.
    pub(super) fn new(link: &scenario::Link, setup: &Setup) -> Option<Box<Pause>> {
        let brake = link.pause.zip(setup.before.clone()).map(|(fillings, (link, delays))| Brake {
            fillings,
            link,
            delays,
            stops: false,
            last: Time::ZERO,
            frames: VecDeque::new(),
        });
        let meter = setup.can_be_stopped.then(|| PauseMeter::new(&setup.meter));
        (brake.is_some() || meter.is_some()).then(|| Box::new(Pause { brake, stopped: false, meter }))
    }

    /// Whether every arrival is to be looked at.
    pub(super) fn watches(&self) -> bool {
        self.brake.is_some()
    }

    /// Adds the time for which the link was stopped to its report.
    pub(super) fn finish(self, report: &mut LinkReport) {
        if let Some(meter) = self.meter {
            meter.finish(report);
        }
    }
}

impl Brake {
    /// So much waits now: a frame is sent if that changes anything.
    fn look(&mut self, now: Time, packets: u64, bytes: u64) {
        let scenario::Pause { stop, go } = self.fillings;
        let changes = if self.stops {
            packets <= go.packets && bytes <= go.bytes
        } else {
            packets > stop.packets || bytes > stop.bytes
        };
        if changes {
            self.stops = !self.stops;
            let delay = self.delays.iter().rev().find(|step| step.0 <= now).map_or(Span::ZERO, |step| step.1);
            self.last = self.last.max(now + delay);
            self.frames.push_back(Frame { at: self.last, stop: self.stops, link: self.link });
        }
    }
}

impl Link {
    /// After anything that changes the queue.
    pub(super) fn watch(&mut self, now: Time) {
        if let Some(Pause { brake: Some(brake), .. }) = self.pause.as_deref_mut() {
            let (packets, bytes) = self.requeued.map_or((0, 0), |packet| (1, u64::from(packet.bytes())));
            brake.look(now, self.qdisc.packets() as u64 + packets, self.qdisc.backlog() + bytes);
        }
    }

    /// A frame for the link before, one a call; the engines take them after each event and arrival.
    #[inline]
    pub fn take_frame(&mut self) -> Option<Frame> {
        self.pause.as_mut()?.brake.as_mut()?.frames.pop_front()
    }

    /// Whether the link behind has stopped this one.
    pub(super) fn is_stopped(&self) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.stopped)
    }

    /// A frame arrives from the link behind. [`Link::next_event`] may have changed.
    pub fn receive(&mut self, now: Time, stop: bool) {
        let Some(pause) = &mut self.pause else { return };
        pause.stopped = stop;
        if let Some(meter) = &mut pause.meter {
            meter.becomes(now, stop);
        }
        if self.service.is_some() {
            return; // The transmission under way goes on to its end.
        }
        if self.card.is_none() {
            self.busy = stop;
            self.due = Time::NEVER;
        }
        if !stop {
            self.due = now;
        }
    }

    /// Nothing may begin until a frame comes.
    pub(super) fn stand(&mut self, now: Time) {
        self.busy = true;
        self.due = Time::NEVER;
        match self.waiting() {
            _ if !self.detail => {}
            0 => self.meter.emptied(now),
            packets => self.meter.enqueued(now, packets, self.is_full()),
        }
    }
}
