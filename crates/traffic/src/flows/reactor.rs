//! Waits for sockets and for times of the run, in one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use sojourn_core::units::Time;

/// The token of the timer.
const TIMER: u64 = u64::MAX;

/// Readiness of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The token that was given to [`Reactor::watch`].
    pub token: u64,
    /// Data has arrived, or the other end has closed.
    pub read: bool,
    /// The socket takes data.
    pub write: bool,
    /// The other end has closed its direction and sends no more data.
    pub closed: bool,
    /// The connection has failed.
    pub failed: bool,
}

/// Sockets, and acts `A` that wait for their times. Acts of the same time are taken in the order of `A`.
pub struct Reactor<A> {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed: Time,
    origin: u64,
    acts: BinaryHeap<Reverse<(Time, A)>>,
    events: Vec<Event>,
}

/// The guest's clock in nanoseconds.
pub fn clock() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl<A: Ord + Copy> Reactor<A> {
    /// Creates a reactor without sockets and acts. Time zero of the run is `origin` on the guest's clock.
    pub fn new(origin: u64) -> io::Result<Reactor<A>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer =
            rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        let (acts, events) = (BinaryHeap::new(), Vec::with_capacity(1024));
        Ok(Reactor { epoll, timer, armed: Time::NEVER, origin, acts, events })
    }

    /// The time of the run.
    pub fn now(&self) -> Time {
        Time(clock().saturating_sub(self.origin))
    }

    /// Reports each change of the socket's readiness, until it is closed.
    pub fn watch(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), flags)?)
    }

    /// Reports the connections that wait at a listening socket.
    pub fn watch_listener(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), EventFlags::IN)?)
    }

    /// Adds an act for this time.
    pub fn post(&mut self, at: Time, act: A) {
        if at != Time::NEVER {
            self.acts.push(Reverse((at, act)));
        }
    }

    /// Takes the next act whose time has come.
    pub fn due(&mut self, now: Time) -> Option<(Time, A)> {
        let Reverse((at, _)) = self.acts.peek()?;
        if *at <= now { self.acts.pop().map(|Reverse(act)| act) } else { None }
    }

    /// Waits for a socket or for the next act, at most until `end`.
    pub fn wait(&mut self, end: Time, ready: &mut Vec<Ready>) -> io::Result<()> {
        let next = self.acts.peek().map_or(end, |Reverse((at, _))| (*at).min(end));
        if next != self.armed {
            self.arm(next)?;
        }
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.clear();
        for event in &self.events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == TIMER {
                self.armed = Time::NEVER; // the timer stays ready until it is set again
                continue;
            }
            ready.push(Ready {
                token,
                read: flags.contains(EventFlags::IN),
                write: flags.contains(EventFlags::OUT),
                closed: flags.intersects(EventFlags::RDHUP | EventFlags::HUP),
                failed: flags.contains(EventFlags::ERR),
            });
        }
        Ok(())
    }

    fn arm(&mut self, at: Time) -> io::Result<()> {
        self.armed = at;
        let nanoseconds = (self.origin + at.0).max(1);
        let value =
            Timespec { tv_sec: (nanoseconds / 1_000_000_000) as i64, tv_nsec: (nanoseconds % 1_000_000_000) as _ };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }
}
