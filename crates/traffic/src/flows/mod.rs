//! Plays a scenario's workload with real sockets, on the kernel's TCP. `sojourn_model::workload::driver` decides what the applications
//! do.
//!
//! One thread has the sockets of both ends of every connection; each socket is in the namespace of its host. The driver therefore
//! learns of an arrival at once, without a message through the network. Connections carry only the bytes of the flows: the addresses
//! and the port of a connection identify its flow.

mod datagrams;
pub mod played;
mod reactor;
pub mod socket;
mod sockets;

use std::io;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::driver::{Driver, Event, Observation};
use sojourn_model::workload::{App, Entry};

use crate::topology::Place;
use played::Played;
pub use reactor::clock;
use reactor::{Reactor, Ready};
use sockets::{End, Sockets};

/// The port that accepts connections on every host.
pub const SERVICE: u16 = 5001;
/// The first of the ports from which connections are opened, and the number of these ports.
pub const FIRST_PORT: u16 = 10_000;
const PORTS: u32 = 50_000;
/// The start of a row is delayed by a random time below this bound. Otherwise, all seeds would give the same run if the discipline
/// is not random.
pub const JITTER: Span = Span::from_millis(1);
/// An act that is done this long after its time makes a run of the kernel world invalid.
pub const LATE: Span = Span::from_millis(1);
/// The time between two ticks.
const TICK: Span = Span::from_secs(1);
/// The first tokens of listening sockets, of senders of echo requests, and of receivers of datagrams in the reactor. The tokens below
/// are those of ends of connections.
const LISTENERS: u64 = 1 << 40;
const PINGERS: u64 = 1 << 41;
const RECEIVERS: u64 = 1 << 42;

/// Something to be done at a set time. Acts of the same time are done in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Act {
    /// A link changes its discipline or rate.
    Change(u32),
    /// A second of the run is over.
    Tick,
    /// An application acts.
    App(Event),
}

/// The network as the flows see it.
pub trait Net {
    /// Calls `make` in a namespace. The sockets that it makes belong to that namespace.
    ///
    /// # Errors
    /// Those of `make`, or the namespace does not exist.
    fn inside<T: Send + 'static>(
        &mut self,
        place: Place,
        make: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T>;
    /// Makes change number `number` of a link with `tc`, which is due now.
    fn change(&mut self, number: u32) -> io::Result<()>;
    /// An act is done this long after its time.
    ///
    /// # Errors
    /// This makes the run invalid.
    fn late(&mut self, by: Span) -> io::Result<()>;
    /// A second of the run is over. Returns whether the run goes on.
    ///
    /// # Errors
    /// The run must not go on.
    fn tick(&mut self, now: Time) -> io::Result<bool>;
    /// Called at the end of the run, while all its sockets are still open.
    fn over(&mut self) -> io::Result<()>;
    /// Asks the kernel to read from a socket and discard the data. Returns whether the kernel does so.
    ///
    /// # Errors
    /// The kernel refuses to.
    fn drain(&mut self, socket: &OwnedFd, what: Drain) -> io::Result<bool>;
}

/// The amount of data that the kernel reads from a socket and discards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drain {
    /// All data.
    All,
    /// This number of bytes. The program reads the data that follow.
    Bytes(NonZeroU32),
}

/// All applications of a run, and the sockets below them.
pub struct Flows<'a, N> {
    driver: Driver<'a>,
    sockets: Sockets<'a, N>,
    seed: u64,
    end: Time,
}

impl<'a, N: Net> Flows<'a, N> {
    /// Opens a listening socket on every host of the flows. No application has started. `changes` are the times at
    /// which links change.
    ///
    /// # Errors
    /// The operating system refuses a socket.
    pub fn new(
        scenario: &'a Scenario,
        places: &[Place],
        changes: &[Time],
        origin: u64,
        mut net: N,
    ) -> io::Result<Self> {
        let mut reactor = Reactor::new(origin)?;
        let mut listeners = Vec::new();
        let entries = &scenario.workload.entries;
        // Programs of the user's listen for themselves.
        let ours = || entries.iter().filter(|entry| !matches!(entry.app, App::Command(_)));
        let ends_at =
            |place: &Place| ours().any(|Entry { via, .. }| [Place::Left(via.0), Place::Right(via.1)].contains(place));
        for &place in places.iter().filter(|place| ends_at(place)) {
            let listener = net.inside(place, || socket::listen(SERVICE))?;
            reactor.watch_listener(&listener, LISTENERS + listeners.len() as u64)?;
            listeners.push(listener);
        }
        for (number, at) in (0..).zip(changes) {
            reactor.post(*at, Act::Change(number));
        }
        reactor.post(Time::ZERO + TICK, Act::Tick);
        let (seed, end) = (scenario.seed, scenario.duration);
        let sockets = Sockets::new(entries, end, net, reactor, listeners);
        Ok(Flows { driver: Driver::new(scenario), sockets, seed, end })
    }

    /// Plays until the end of the run, or until the network says so.
    ///
    /// # Errors
    /// The operating system refuses something, or a connection fails. The run is then invalid.
    pub fn play(mut self) -> io::Result<Played> {
        let jitter = |entry: &Entry| Span(Rng::stream(self.seed, &format!("jitter {}", entry.name)).below(JITTER.0));
        self.driver.start(jitter, &mut self.sockets);
        let mut ready = Vec::new();
        loop {
            let now = self.sockets.reactor.now();
            if now >= self.end {
                break;
            }
            while let Some((at, act)) = self.sockets.reactor.due(now) {
                self.sockets.net.late(now.since(at))?;
                self.act(at, act)?;
            }
            self.sockets.reactor.wait(self.end, &mut ready)?;
            for one in &ready {
                self.on_ready(*one)?;
            }
        }
        let mut played = self.sockets.finish()?;
        for (row, at, seen) in self.driver.stalls() {
            played.note(at, row, Observation::Watched(seen));
        }
        played.unfinished = self.driver.unfinished();
        Ok(played)
    }

    fn act(&mut self, now: Time, act: Act) -> io::Result<()> {
        match act {
            Act::Change(number) => self.sockets.net.change(number),
            Act::Tick => {
                self.sockets.reactor.post(now + TICK, Act::Tick);
                if !self.sockets.net.tick(now)? {
                    self.end = now;
                }
                Ok(())
            }
            Act::App(event) => self.driver.act(now, event, &mut self.sockets),
        }
    }

    fn on_ready(&mut self, ready: Ready) -> io::Result<()> {
        match ready.token {
            token if token >= RECEIVERS => self.sockets.on_datagrams((token - RECEIVERS) as u32),
            token if token >= PINGERS => self.sockets.on_reply((token - PINGERS) as u32),
            token if token >= LISTENERS => self.sockets.accept((token - LISTENERS) as usize),
            token => self.on_socket((token / 2) as u32, sockets::end(token % 2), ready),
        }
    }

    /// Handles a change of the readiness of a connection's end.
    fn on_socket(&mut self, conn: u32, end: End, ready: Ready) -> io::Result<()> {
        if !self.sockets.is_open(conn, end) {
            return Ok(());
        }
        if ready.failed {
            self.sockets.failure(conn, end)?;
        } else if ready.write && self.sockets.connects(conn, end) && self.driver.awaits_handshake(conn) {
            let now = self.sockets.reactor.now();
            self.driver.connected(now, conn, &mut self.sockets)?;
        }
        if ready.write {
            self.sockets.push(conn, end)?;
        }
        if ready.read || ready.closed {
            self.pull(conn, end, ready.closed)?;
        }
        Ok(())
    }

    /// Reads what has arrived at an end, and reports each message that is complete.
    fn pull(&mut self, conn: u32, end: End, closed: bool) -> io::Result<()> {
        while self.sockets.read(conn, end)? {
            while let Some(message) = self.sockets.next_message(conn, end) {
                let now = self.sockets.reactor.now();
                self.driver.arrived(now, conn, end, &mut self.sockets)?;
                if message.is_last {
                    // The receiver closes first: if the sender did, Linux would no longer report the ACKs that reach it.
                    self.sockets.finish_sending(conn, end)?;
                }
            }
            if !closed {
                break;
            }
        }
        Ok(())
    }
}
