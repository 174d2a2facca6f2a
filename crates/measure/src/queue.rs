//! Meter of a queue's content: delay, length and fullness, weighted by time, and drops.

use sojourn_core::qdisc::DropReason;
use sojourn_core::units::{Span, Time};

use crate::histogram::Histogram;
use crate::setup::LinkSetup;
use crate::slices::{Slices, Windows};
use crate::standing::SlidingMin;

/// Measures of the queue within one window.
#[derive(Clone, Default, Debug)]
pub(crate) struct QueueWindow {
    pub delay: Histogram,
    pub packets: Levels,
    pub standing: Histogram,
    /// Nanoseconds in which the next packet of MTU size would have been refused.
    pub full: u64,
    /// Nanoseconds of the longest time for which the queue was never empty.
    pub nonempty: u64,
    pub drops: [u64; DropReason::ALL.len()],
}

/// Nanoseconds for which the queue had each length. This count is exact and fast. It takes 8 bytes per packet of the
/// longest queue, far less than the packets themselves.
#[derive(Clone, Default, Debug)]
pub(crate) struct Levels(Vec<u64>);

impl Levels {
    #[inline]
    fn add(&mut self, level: usize, time: u64) {
        match self.0.get_mut(level) {
            Some(total) => *total += time,
            None => self.grow_and_add(level, time),
        }
    }

    #[cold]
    #[inline(never)]
    fn grow_and_add(&mut self, level: usize, time: u64) {
        self.0.resize((level + 1).next_power_of_two(), 0);
        self.0[level] += time;
    }

    /// Nanoseconds for which the queue had this length.
    pub fn time_at(&self, level: usize) -> u64 {
        self.0.get(level).copied().unwrap_or(0)
    }

    /// The lengths, weighted by their durations.
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::default();
        for (level, &time) in (0..).zip(&self.0) {
            histogram.add_weighted(level, time);
        }
        histogram
    }
}

/// Measures of the queue within one bin of the series.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct QueueBin {
    pub drops: u64,
    /// Largest queue length in packets. Lengths that lasted for zero time are ignored.
    pub packets_max: usize,
    /// Integral of the queue delay over the bin, in square nanoseconds.
    pub delay: u128,
}

/// The meter. It advances with the time of events, which never decreases.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    slices: Slices,
    delay: u64,
    delay_since: u64,
    packets: usize,
    packets_since: u64,
    /// The time since which the queue has not been empty, but not earlier than the start of the window. A queue that
    /// was empty for zero time counts as not empty.
    nonempty_since: u64,
    full: bool,
    full_since: u64,
    minimum: SlidingMin,
    window: QueueWindow,
    bin: QueueBin,
    /// The part of the window's delay integral that is already assigned to earlier bins.
    delay_binned: u128,
    pub windows: Windows<QueueWindow>,
    pub bins: Vec<QueueBin>,
}

impl Queue {
    pub fn new(setup: &LinkSetup) -> Queue {
        Queue {
            slices: Slices::new(setup.measure, setup.end, setup.bins),
            delay: 0,
            delay_since: 0,
            packets: 0,
            packets_since: 0,
            nonempty_since: 0,
            full: false,
            full_since: 0,
            minimum: SlidingMin::new(setup.rtt_window.0),
            window: QueueWindow::default(),
            bin: QueueBin::default(),
            delay_binned: 0,
            windows: Windows::new(),
            bins: Vec::with_capacity(setup.bins as usize),
        }
    }

    /// Records the queue's length from now on.
    #[inline]
    pub fn becomes(&mut self, now: Time, packets: usize, full: bool) {
        self.reach(now.0);
        self.hold_packets(now.0);
        self.packets = packets;
        if full != self.full {
            self.hold_full(now.0);
            self.full = full;
        }
    }

    /// Records a departure after `delay`, and the queue's length from now on.
    #[inline]
    pub fn leaves(&mut self, now: Time, delay: Span, packets: usize, full: bool) {
        self.becomes(now, packets, full);
        if delay.0 != self.delay {
            self.hold_delay(now.0);
            self.delay = delay.0;
        }
    }

    /// Records a packet that arrives at an empty queue and departs at the same time. It does not change measures that
    /// are weighted by time.
    #[inline]
    pub fn passes(&mut self, now: Time, full: bool) {
        if self.delay | self.packets as u64 != 0 || full != self.full {
            self.leaves(now, Span::ZERO, 0, full);
        }
    }

    /// Records that the queue is empty from now on and that its delay is zero. This also applies if its last packets
    /// were dropped.
    #[inline]
    pub fn empties(&mut self, now: Time) {
        if self.delay | self.packets as u64 != 0 {
            self.falls_empty(now);
        }
    }

    #[inline(never)]
    fn falls_empty(&mut self, now: Time) {
        let full = self.full && self.packets == 0;
        self.leaves(now, Span::ZERO, 0, full);
    }

    #[inline]
    pub fn dropped(&mut self, now: Time, reason: DropReason) {
        self.reach(now.0);
        self.window.drops[reason as usize] += 1;
        self.bin.drops += 1;
    }

    /// Closes every slice up to `now`.
    #[inline]
    pub fn reach(&mut self, now: u64) {
        if now >= self.slices.end {
            self.cross(now);
        }
    }

    #[inline]
    fn hold_packets(&mut self, now: u64) {
        let time = now - self.packets_since;
        self.packets_since = now;
        self.window.packets.add(self.packets, time);
        if self.packets > 0 {
            self.window.nonempty = self.window.nonempty.max(now - self.nonempty_since);
        } else if time > 0 {
            self.nonempty_since = now;
        }
        if time > 0 && self.packets > self.bin.packets_max {
            self.bin.packets_max = self.packets;
        }
    }

    #[inline]
    fn hold_full(&mut self, now: u64) {
        if self.full {
            self.window.full += now - self.full_since;
        }
        self.full_since = now;
    }

    #[inline(always)]
    fn hold_delay(&mut self, now: u64) {
        if now > self.delay_since {
            self.window.delay.add_weighted(self.delay, now - self.delay_since);
            self.minimum.piece(self.delay, self.delay_since, now, &mut self.window.standing);
            self.delay_since = now;
        }
    }

    #[cold]
    #[inline(never)]
    fn cross(&mut self, now: u64) {
        while self.slices.end <= now && self.slices.end < u64::MAX {
            let cut = self.slices.cut();
            self.hold_packets(cut.at);
            self.hold_full(cut.at);
            self.hold_delay(cut.at);
            self.bin.delay += self.window.delay.sum() - self.delay_binned;
            self.delay_binned = self.window.delay.sum();
            if cut.bin {
                self.bins.push(std::mem::take(&mut self.bin));
            }
            if let Some(phase) = cut.window {
                self.minimum.flush(cut.at, &mut self.window.standing);
                self.windows.store(phase, &mut self.window);
                self.nonempty_since = cut.at;
                self.delay_binned = 0;
            }
        }
    }
}
