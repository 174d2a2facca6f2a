//! The departure meter of a link: sojourn times, bytes, marks and busy time. It advances with the ends of
//! transmissions. A caller may report an end ahead of time, as soon as that time is certain.

use sojourn_core::units::{Span, Time};

use crate::histogram::Histogram;
use crate::setup::LinkSetup;
use crate::slices::{Slices, Windows};

/// Totals of the departures within one slice or bin. The fields are ordered so that no two neighbours are updated
/// together: compilers would merge such updates into vector gathers and scatters, which cost more than two additions.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Tally {
    pub packets: u64,
    /// Smallest sojourn time, in nanoseconds.
    pub min: u64,
    pub bytes: u64,
    /// Largest sojourn time, in nanoseconds.
    pub max: u64,
    /// Transmission time, in nanoseconds.
    pub busy: u64,
    pub marks: u64,
    /// Sum of the sojourn times, in nanoseconds.
    pub sum: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { packets: 0, bytes: 0, marks: 0, busy: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.marks += other.marks;
        self.busy += other.busy;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Departures within one window.
#[derive(Clone, Default, Debug)]
pub(crate) struct DepartureWindow {
    pub sojourn: Histogram,
    pub packets: u64,
    pub bytes: u64,
    pub marks: u64,
    pub busy: u64,
    /// Bytes that the delivery opportunities of a trace-driven link offered, and bytes that packets used.
    pub offered: Option<(u64, u64)>,
}

/// Meter of all departures from a link.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    slices: Slices,
    slice: Tally,
    slice_start: u64,
    bin: Tally,
    window: DepartureWindow,
    /// Packets and bytes of the slices that have ended.
    ended: (u64, u64),
    pub windows: Windows<DepartureWindow>,
    pub bins: Vec<Tally>,
}

impl Departures {
    pub fn new(setup: &LinkSetup) -> Departures {
        Departures {
            slices: Slices::new(setup.measure, setup.end, setup.bins),
            slice: Tally::default(),
            slice_start: 0,
            bin: Tally::default(),
            window: DepartureWindow::default(),
            ended: (0, 0),
            windows: Windows::new(),
            bins: Vec::with_capacity(setup.bins as usize),
        }
    }

    #[inline]
    pub fn sent(&mut self, start: Time, end: Time, sojourn: Span, bytes: u32, marked: bool) {
        let start = if end.0 >= self.slices.end { self.cross(start.0, end.0) } else { start.0 };
        self.window.sojourn.count_only(sojourn.0, 1);
        let slice = &mut self.slice;
        slice.packets += 1;
        slice.bytes += u64::from(bytes);
        if marked {
            slice.marks += 1;
        }
        slice.busy += end.0 - start;
        slice.sum += sojourn.0;
        if sojourn.0 < slice.min {
            slice.min = sojourn.0;
        }
        if sojourn.0 > slice.max {
            slice.max = sojourn.0;
        }
    }

    /// Packets and bytes reported so far, including transmissions that end after the run.
    pub fn all(&self) -> (u64, u64) {
        (self.ended.0 + self.slice.packets, self.ended.1 + self.slice.bytes)
    }

    #[inline]
    pub fn offered(&mut self, now: Time, bytes: u32, used: u32) {
        if now.0 >= self.slices.end {
            self.cross(now.0, now.0);
        }
        let (offered, taken) = self.window.offered.get_or_insert((0, 0));
        *offered += u64::from(bytes);
        *taken += u64::from(used);
    }

    /// Closes every slice up to `end`, and gives each its share of the transmission that began at `start`. Returns the
    /// time at which the share of the last slice, which contains `end`, begins.
    #[cold]
    #[inline(never)]
    pub fn cross(&mut self, start: u64, end: u64) -> u64 {
        while self.slices.end <= end && self.slices.end < u64::MAX {
            self.slice.busy += self.slices.end.saturating_sub(start.max(self.slice_start));
            self.cut();
        }
        start.max(self.slice_start).min(end)
    }

    fn cut(&mut self) {
        let cut = self.slices.cut();
        let slice = std::mem::take(&mut self.slice);
        self.slice_start = cut.at;
        self.ended = (self.ended.0 + slice.packets, self.ended.1 + slice.bytes);
        self.bin.add(&slice);
        if cut.bin {
            self.bins.push(std::mem::take(&mut self.bin));
        }
        let window = &mut self.window;
        window.packets += slice.packets;
        window.bytes += slice.bytes;
        window.marks += slice.marks;
        window.busy += slice.busy;
        window.sojourn.note(slice.sum, slice.min, slice.max);
        if let Some(phase) = cut.window {
            let traced = window.offered.is_some();
            self.windows.store(phase, window);
            self.window.offered = traced.then_some((0, 0));
        }
    }
}
