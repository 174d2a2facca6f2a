//! The host's two bounds on a sender. The send buffer bounds the data that is accepted from the application (`tcp_wmem`). TCP small
//! queues bound the segments that wait in the host.

use super::Sender;
use super::tcp_sock::TcpSock;
use crate::tcp::send_buffer::{Queued, SendBuffer};
use crate::tcp::small_queue::SmallQueue;
use crate::tcp::{Config, Transmit};
use crate::units::Time;

/// The host's bounds; there is at least one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds {
    send_buffer: Option<SendBuffer>,
    small_queue: Option<SmallQueue>,
}

impl Bounds {
    /// The bounds of a host; `None` if it has none.
    pub fn new(config: &Config) -> Option<Bounds> {
        let &Config { wmem, tsq, mss, .. } = config;
        (wmem.is_some() || tsq.is_some()).then(|| Bounds {
            send_buffer: wmem.map(|wmem| SendBuffer::new(wmem, config)),
            small_queue: tsq.map(|limit| SmallQueue::new(limit, mss)),
        })
    }

    /// When a sender that waits for room in its host tries again.
    #[inline]
    pub fn wake(&self) -> Time {
        self.small_queue.as_ref().map_or(Time::NEVER, SmallQueue::wake)
    }

    /// The sender tries again.
    pub fn woken(&mut self) {
        if let Some(queue) = &mut self.small_queue {
            queue.woken();
        }
    }
}

impl TcpSock {
    fn send_buffer(&mut self) -> Option<&mut SendBuffer> {
        self.bounds.as_mut()?.send_buffer.as_mut()
    }

    pub(super) fn small_queue(&mut self) -> Option<&mut SmallQueue> {
        self.bounds.as_mut()?.small_queue.as_mut()
    }

    /// The connection is established: the buffer has room for its first windows.
    pub(super) fn open_buffer(&mut self) {
        let cwnd = self.control.window();
        if let Some(buffer) = self.send_buffer() {
            buffer.expand(cwnd);
            self.fill_buffer();
        }
    }

    /// Accepts as much of the application's data as the send buffer has room for.
    pub(super) fn fill_buffer(&mut self) {
        if self.send_buffer().is_none() {
            return self.stream.take(u32::MAX);
        }
        if self.is_established() {
            let (queued, room) = (self.queued(), self.room());
            let filled = self.send_buffer().map_or(0, |buffer| buffer.filled(&queued, room));
            self.stream.take(self.snd_una.saturating_add(filled));
        }
    }

    /// The contents of the send buffer.
    fn queued(&self) -> Queued {
        let burst = self
            .rate_based
            .as_ref()
            .map_or_else(|| self.bursts.goal(&self.window(self.lsndtime)), |rate_based| rate_based.burst());
        Queued { segments: self.stream.end - self.snd_una, sacked: self.board.sacked, burst }
    }

    /// Segments that could be sent as soon as they are written; always 0 for a sender that paces.
    fn room(&self) -> u32 {
        if self.rate_based.is_some() {
            return 0;
        }
        let window =
            self.control.window().saturating_sub(self.inflight()).min(self.wnd_end.saturating_sub(self.snd_nxt));
        window.saturating_sub(self.stream.end - self.snd_nxt)
    }

    /// Returns whether the application has more data than the buffer has accepted.
    fn app_waits(&self) -> bool {
        self.stream.end < self.stream.written && self.is_established()
    }

    /// Linux `tcp_should_expand_sndbuf`: while a writer waits and the window is not full, the buffer grows to a few current windows.
    pub(super) fn expand_sndbuf(&mut self) {
        let cwnd = self.control.window();
        if self.app_waits()
            && self.inflight() < cwnd
            && let Some(buffer) = self.send_buffer()
        {
            buffer.expand(cwnd);
        }
    }

    /// Linux `tcp_check_space`: an application that waits is woken once there is enough room, and writes. Returns whether it was woken.
    pub(super) fn check_space(&mut self) -> bool {
        if !self.app_waits() {
            return false;
        }
        let queued = self.queued();
        if !self.send_buffer().is_some_and(|buffer| buffer.is_writeable(&queued)) {
            return false;
        }
        self.check_app_limited();
        self.fill_buffer();
        true
    }

    /// Returns whether the host's small queue admits another segment.
    pub(super) fn host_admits(&mut self, now: Time) -> bool {
        if self.small_queue().is_none() {
            return true;
        }
        let rate = self
            .rate_based
            .as_ref()
            .map(|rate_based| rate_based.pacing_rate())
            .filter(|&rate| rate > 0)
            .or_else(|| self.bursts.rate(&self.window(now)));
        let few = self.snd_nxt - self.snd_una <= 1;
        self.small_queue().is_none_or(|queue| queue.admits(now, rate, few))
    }
}

impl Sender {
    /// The next segment, including data that the application writes because there is room again.
    #[inline(never)]
    pub(super) fn poll_bounded(&mut self, now: Time) -> Option<Transmit> {
        self.tcp.expand_sndbuf();
        let next = self.poll_slow(now);
        if next.is_none() && self.tcp.check_space() { self.poll_slow(now) } else { next }
    }

    /// The segment that was just taken leaves the host at `at`. Only senders with a small queue need to know.
    pub fn departs(&mut self, at: Time, payload: u32) {
        if let Some(queue) = self.tcp.small_queue() {
            queue.sent(at, payload);
        }
    }
}
