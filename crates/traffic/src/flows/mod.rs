//! Plays a scenario's workload with real sockets: what `sojourn-sim` does in `hosts.rs`, on the kernel's TCP.
//!
//! One thread holds both ends of every connection, each end a socket in its own namespace; so a transfer's completion
//! can start the next one without a message that would have to travel. The streams carry nothing but the flows' own
//! bytes: which flow a connection belongs to, its addresses and port say.

mod clients;
mod datagrams;
pub mod played;
mod reactor;
pub mod socket;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::ideal::{Ideal, Task};
use sojourn_model::workload::page::{Browser, Browsing};
use sojourn_model::workload::video::{self, Video};
use sojourn_model::workload::{App, Direction, Entry, Exchange};

use crate::topology::{self, Place};
use played::{Connection, Played, What};
pub use reactor::clock;
use reactor::{Reactor, Ready};

/// The port that accepts connections, on every host.
pub const SERVICE: u16 = 5001;
/// The first port of those that open them, and how many there are.
pub const FIRST_PORT: u16 = 10_000;
const PORTS: u32 = 50_000;
/// What a flow that will stop may have written and not sent.
const UNSENT: u32 = 128 * 1024;
/// Starts are moved by less than this: disciplines without randomness would repeat a run for every seed otherwise.
pub const JITTER: Span = Span::from_millis(1);
/// What is done later than this after its time makes the run invalid.
pub const LATE: Span = Span::from_millis(1);
/// How often the world's own work is done.
const TICK: Span = Span::from_secs(1);
/// Tokens from here on are listening sockets, pings and receivers of datagrams.
const LISTENERS: u64 = 1 << 40;
const PINGERS: u64 = 1 << 41;
const HEARERS: u64 = 1 << 42;

/// What is to be done at a time; equal times are ordered by these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Act {
    /// The world's own: a link changes.
    Change(u32),
    /// The world's own: what was seen so far is put aside.
    Tick,
    /// An entry's next own act, as in the simulator.
    Entry(u32),
    /// The client of a web connection sends its next request.
    Request(u32),
    /// The server answers.
    Respond(u32),
}

/// The network as the flows see it.
pub trait Net {
    /// Does something in a namespace: sockets made there belong to it.
    ///
    /// # Errors
    /// What `make` gives, or the namespace is not there.
    fn inside<T: Send + 'static>(
        &mut self,
        place: Place,
        make: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T>;
    /// A change of a link is due (htb and tbf).
    fn change(&mut self, number: u32) -> io::Result<()>;
    /// A second of the run is over.
    fn tick(&mut self, now: Time) -> io::Result<()>;
    /// The run is over; all its sockets are still open.
    fn over(&mut self) -> io::Result<()>;
    /// A connection was accepted whose data runs towards the accepter, and nobody answers on it: the kernel may take
    /// the data up. Whether it does.
    fn drain(&mut self, accepted: &OwnedFd) -> io::Result<bool>;
}

/// An end of a connection.
struct End {
    fd: OwnedFd,
    /// Bytes that are to be written; `u64::MAX`: without end.
    to_write: u64,
    connected: bool,
}

/// A connection: its opener's end and its accepter's.
struct Conn {
    entry: u32,
    ends: [Option<End>; 2],
    got: [u64; 2],
    /// The number of bytes with which what an end waits for is complete.
    target: [u64; 2],
    started: Time,
    /// Of a web connection: its exchanges (a client that chooses as it goes adds them one by one), and the one under way.
    web: Option<Vec<Exchange>>,
    exchange: usize,
    /// Bytes of its transfer.
    size: u64,
}

const OPENER: usize = 0;
const ACCEPTER: usize = 1;

/// The state of an entry's application.
struct Player {
    at: usize,
    /// The window of a stream that is under way.
    window: usize,
    conn: Option<u32>,
    opened: u32,
    started: u64,
    completed: u64,
    /// Added to its first time.
    jitter: Span,
    /// Those sent last, by number.
    pings: VecDeque<(u16, Time)>,
    pinger: Option<OwnedFd>,
    /// Both ends of a stream of datagrams.
    datagrams: Option<[OwnedFd; 2]>,
    client: Option<Client>,
}

/// A client that chooses what it asks for as it goes.
enum Client {
    /// Of pages, with the connection that brought the main object.
    Reader(Browser, u32),
    /// Of a video, with its connection.
    Viewer(video::Player, Option<u32>),
}

#[derive(Default)]
struct Group {
    max_active: usize,
    active: usize,
    waiting: VecDeque<(u32, u64)>,
}

/// All applications and sockets of a run.
pub struct Flows<'a, N> {
    entries: &'a [Entry],
    ideals: Vec<Ideal>,
    end: Time,
    net: N,
    reactor: Reactor<Act>,
    players: Vec<Player>,
    conns: Vec<Conn>,
    by_port: BTreeMap<(u32, u16), u32>,
    groups: Vec<Group>,
    listeners: Vec<OwnedFd>,
    zeros: Vec<u8>,
    played: Played,
}

impl<'a, N: Net> Flows<'a, N> {
    /// Everything listens, nothing has started; `changes` are the times of the links' changes.
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
        for &place in places.iter().filter(|place| !matches!(place, Place::Router(_))) {
            let listener = net.inside(place, || socket::listen(SERVICE))?;
            reactor.watch_listener(&listener, LISTENERS + listeners.len() as u64)?;
            listeners.push(listener);
        }
        for (number, at) in (0..).zip(changes) {
            reactor.post(*at, Act::Change(number));
        }
        reactor.post(Time::ZERO + TICK, Act::Tick);
        let entries = &scenario.workload.entries[..];
        let player = |entry: &Entry| Player {
            at: 0,
            window: 0,
            conn: None,
            opened: 0,
            started: 0,
            completed: 0,
            jitter: Span(Rng::stream(scenario.seed, &format!("jitter {}", entry.name)).below(JITTER.0)),
            pings: VecDeque::new(),
            pinger: None,
            datagrams: None,
            client: match &entry.app {
                App::Pages(_) => Some(Client::Reader(Browser::default(), 0)),
                App::Video(video) => Some(Client::Viewer(video::Player::new(video), None)),
                _ => None,
            },
        };
        let groups = scenario.workload.groups.iter();
        let mut flows = Flows {
            entries,
            ideals: entries.iter().map(|entry| Ideal::of(scenario, entry)).collect(),
            end: scenario.duration,
            net,
            reactor,
            players: entries.iter().map(player).collect(),
            conns: Vec::new(),
            by_port: BTreeMap::new(),
            groups: groups.map(|group| Group { max_active: group.max_active, ..Group::default() }).collect(),
            listeners,
            zeros: vec![0; 1 << 18],
            played: Played::default(),
        };
        flows.start();
        Ok(flows)
    }

    /// Plays until the end of the run.
    ///
    /// # Errors
    /// The operating system refuses something, or a connection fails: then the run is none.
    pub fn play(mut self) -> io::Result<Played> {
        let mut ready = Vec::new();
        loop {
            let now = self.reactor.now();
            if now >= self.end {
                break;
            }
            while let Some((at, act)) = self.reactor.due(now) {
                if now.since(at) > LATE {
                    return Err(io::Error::other(format!(
                        "the run is not valid: the guest was late by {}",
                        now.since(at)
                    )));
                }
                self.act(at, act)?;
            }
            self.reactor.wait(self.end, &mut ready)?;
            for one in &ready {
                self.on_ready(*one)?;
            }
        }
        for (number, conn) in (0..).zip(&self.conns) {
            for (end, accepter) in conn.ends.iter().zip([false, true]) {
                if let Some(end) = end {
                    self.played.sockets.push(socket::counters(&end.fd, number, accepter)?);
                }
            }
        }
        self.net.over()?;
        for (entry, player) in (0..).zip(&self.players) {
            if let Some(Client::Viewer(viewer, _)) = &player.client
                && let Some((at, seen)) = viewer.clone().finish(self.end)
            {
                self.played.watched(at, entry, seen);
            }
        }
        self.played.unfinished = self.players.iter().map(|player| player.started - player.completed).collect();
        Ok(self.played)
    }

    fn start(&mut self) {
        for (index, entry) in (0..).zip(self.entries) {
            let jitter = self.players[index as usize].jitter;
            let first = match &entry.app {
                App::Bulk { active } => active.first().map(|window| window.0 + jitter),
                App::Download { start, stop, .. } | App::Thin { start, stop, .. } | App::Pings { start, stop, .. } => {
                    (start < stop).then_some(*start + jitter)
                }
                App::Pages(Browsing { start, stop, .. }) | App::Video(Video { start, stop, .. }) => {
                    (start < stop).then_some(*start + jitter)
                }
                App::Stream(stream) => stream.active.first().map(|window| window.0 + jitter),
                App::Rpm(_) => None, // refused: see express.rs
                App::Web { connections } => connections.first().map(|connection| connection.start),
                App::Sizes { arrivals, .. } => arrivals.first().map(|arrival| arrival.0),
            };
            if let Some(at) = first {
                self.reactor.post(at, Act::Entry(index));
            }
        }
    }

    fn act(&mut self, now: Time, act: Act) -> io::Result<()> {
        match act {
            Act::Change(number) => self.net.change(number),
            Act::Tick => {
                self.reactor.post(now + TICK, Act::Tick);
                self.net.tick(now)
            }
            Act::Entry(index) => self.entry_act(now, index),
            Act::Request(conn) => self.request(now, conn),
            Act::Respond(conn) => self.respond(conn),
        }
    }

    fn entry_act(&mut self, now: Time, index: u32) -> io::Result<()> {
        let entry = &self.entries[index as usize];
        let at = self.players[index as usize].at;
        self.players[index as usize].at += 1;
        let next = match &entry.app {
            App::Bulk { active } => {
                self.toggle(index, at)?;
                let window = active.get(at.div_ceil(2));
                window.map(|&(start, stop)| if at.is_multiple_of(2) { stop } else { start })
            }
            App::Download { size, .. } => {
                self.transfer(now, index, *size)?;
                None
            }
            App::Thin { bytes, interval, stop, .. } => {
                let conn = self.lasting(index)?;
                self.write(conn, OPENER, u64::from(*bytes))?;
                Some(now + *interval).filter(|at| at < stop)
            }
            App::Pings { bytes, interval, stop, .. } => {
                self.ping(now, index, *bytes, at as u16)?;
                Some(now + *interval).filter(|at| at < stop)
            }
            App::Stream(stream) => {
                self.stream(now, index, stream, at as u32)?;
                stream.after(&mut self.players[index as usize].window, now)
            }
            App::Pages(browsing) => {
                self.read(now, index, browsing)?;
                None
            }
            App::Video(video) => {
                self.watch(now, index, video)?;
                None
            }
            App::Rpm(_) => None,
            App::Web { connections } => {
                self.browse(now, index, connections[at].exchanges.clone())?;
                connections.get(at + 1).map(|connection| connection.start)
            }
            App::Sizes { arrivals, group } => {
                self.arrival(now, index, arrivals[at].1, *group)?;
                arrivals.get(at + 1).map(|arrival| arrival.0)
            }
        };
        if let Some(at) = next {
            self.reactor.post(at, Act::Entry(index));
        }
        Ok(())
    }

    /// A bulk flow starts (even acts) or stops (odd ones).
    fn toggle(&mut self, index: u32, at: usize) -> io::Result<()> {
        let conn = self.lasting(index)?;
        if at.is_multiple_of(2) {
            return self.write(conn, OPENER, u64::MAX);
        }
        if let Some(end) = &mut self.conns[conn as usize].ends[OPENER] {
            end.to_write = 0;
        }
        Ok(())
    }

    /// The entry's lasting connection, opened on first use.
    fn lasting(&mut self, index: u32) -> io::Result<u32> {
        if let Some(conn) = self.players[index as usize].conn {
            return Ok(conn);
        }
        let conn = self.connect(index, false)?;
        self.players[index as usize].conn = Some(conn);
        let ends = matches!(&self.entries[index as usize].app, App::Bulk { active } if active.iter().any(|window| window.1 < self.end));
        if let (true, Some(end)) = (ends, &self.conns[conn as usize].ends[OPENER]) {
            socket::keep_unsent_below(&end.fd, UNSENT)?;
        }
        Ok(conn)
    }

    /// A new connection that carries `size` bytes.
    fn transfer(&mut self, now: Time, index: u32, size: u64) -> io::Result<()> {
        let conn = self.connect(index, false)?;
        self.begin(now, index, conn);
        self.conns[conn as usize].target[ACCEPTER] = size;
        self.conns[conn as usize].size = size;
        self.write(conn, OPENER, size)
    }

    fn begin(&mut self, now: Time, index: u32, conn: u32) {
        self.players[index as usize].started += 1;
        self.conns[conn as usize].started = now;
        self.played.note(now, index, What::Started);
    }

    /// A transfer arrives, and waits if its group is full.
    fn arrival(&mut self, now: Time, index: u32, size: u64, group: Option<usize>) -> io::Result<()> {
        if let Some(group) = group {
            let state = &mut self.groups[group];
            if state.active >= state.max_active {
                state.waiting.push_back((index, size));
                return Ok(());
            }
            state.active += 1;
        }
        self.transfer(now, index, size)
    }

    /// Everything that an end waited for has arrived there.
    fn complete(&mut self, now: Time, conn: u32, end: usize) -> io::Result<()> {
        let Conn { entry, started, size, exchange, .. } = self.conns[conn as usize];
        let web = self.conns[conn as usize].web.is_some();
        if web && end == ACCEPTER {
            let delay = self.exchange(conn).map_or(Span::ZERO, |exchange| exchange.server_delay);
            self.reactor.post(now + delay, Act::Respond(conn));
            return Ok(());
        }
        self.players[entry as usize].completed += 1;
        let task = match self.exchange(conn) {
            Some(one) => Task::Answered { bytes: one.response, thinking: one.server_delay, opened: exchange == 0 },
            None => Task::Sent(size),
        };
        self.played.completed(now, entry, now.since(started), self.ideals[entry as usize].time(task));
        if web {
            return self.next_exchange(now, conn);
        }
        match &self.entries[entry as usize].app {
            App::Download { gaps, stop, .. } => {
                let done = self.players[entry as usize].completed as usize;
                if let Some(at) = gaps.get(done - 1).map(|&gap| now + gap).filter(|at| at < stop) {
                    self.reactor.post(at, Act::Entry(entry));
                }
            }
            App::Sizes { group: Some(group), .. } => {
                let state = &mut self.groups[*group];
                match state.waiting.pop_front() {
                    Some((index, size)) => self.transfer(now, index, size)?,
                    None => state.active -= 1,
                }
            }
            _ => {}
        }
        // The receiver ends it: of a sender that ends first, Linux no longer tells which ACKs reach it.
        self.finish(conn, end)
    }

    /// The hosts of an entry: this side's, and the other's.
    fn hosts(&self, index: u32, towards: Direction) -> (Ipv4Addr, Ipv4Addr) {
        let entry = &self.entries[index as usize];
        let of = |side| topology::address(side, entry, index as usize);
        (of(opposite(towards)), of(towards))
    }

    fn place(&self, entry: &Entry, side: Direction) -> Place {
        if side == Direction::Left { Place::Left(entry.via.0) } else { Place::Right(entry.via.1) }
    }

    /// Opens a connection of an entry; `backward`: by the receiver of its data.
    fn connect(&mut self, index: u32, backward: bool) -> io::Result<u32> {
        let entry = &self.entries[index as usize];
        let towards = if backward { opposite(entry.direction) } else { entry.direction };
        let (from, to) = self.hosts(index, towards);
        let place = self.place(entry, opposite(towards));
        let open = |port| {
            let last = self.by_port.get(&(index, port));
            last.is_some_and(|&conn| self.conns[conn as usize].ends.iter().any(Option::is_some))
        };
        let port = next_port(&mut self.players[index as usize].opened, open).ok_or_else(|| {
            io::Error::other(format!("{PORTS} connections of one flow are open: there are no more ports"))
        })?;
        let number = self.conns.len() as u32;
        self.played.connections.push(Connection { entry: index, port, opened: self.reactor.now().0, backward });
        let addresses = (SocketAddrV4::new(from, port), SocketAddrV4::new(to, SERVICE));
        let (tcp, dscp) = (entry.tcp, entry.dscp);
        let fd = self.net.inside(place, move || socket::connect(addresses.0, addresses.1, &tcp, dscp))?;
        self.reactor.watch(&fd, u64::from(number) * 2)?;
        self.by_port.insert((index, port), number);
        let end = End { fd, to_write: 0, connected: false };
        let (ends, target) = ([Some(end), None], [u64::MAX; 2]);
        let started = Time::ZERO;
        self.conns.push(Conn { entry: index, ends, got: [0; 2], target, started, exchange: 0, web: None, size: 0 });
        Ok(number)
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        while let Some((fd, own, peer)) = socket::accept(&self.listeners[listener])? {
            let entry = topology::entry_of([*own.ip(), *peer.ip()]).unwrap_or(usize::MAX) as u32;
            let Some(&conn) = self.by_port.get(&(entry, peer.port())) else { continue };
            let application = &self.entries[entry as usize];
            socket::configure(&fd, &application.tcp)?;
            // A program must read where the window is bounded: see `clamp_window`.
            let plain = socket::window(&application.tcp).is_none();
            if plain && matches!(application.app, App::Bulk { .. }) && self.net.drain(&fd)? {
                // Nobody reads it: it need not be watched, but must stay open.
                self.conns[conn as usize].ends[ACCEPTER] = Some(End { fd, to_write: 0, connected: true });
                continue;
            }
            self.reactor.watch(&fd, u64::from(conn) * 2 + 1)?;
            self.conns[conn as usize].ends[ACCEPTER] = Some(End { fd, to_write: 0, connected: true });
        }
        Ok(())
    }

    fn on_ready(&mut self, ready: Ready) -> io::Result<()> {
        match ready.token {
            token if token >= HEARERS => self.on_datagrams((token - HEARERS) as u32),
            token if token >= PINGERS => self.on_reply((token - PINGERS) as u32),
            token if token >= LISTENERS => self.accept((token - LISTENERS) as usize),
            token => self.on_socket((token / 2) as u32, (token % 2) as usize, ready),
        }
    }

    fn on_socket(&mut self, conn: u32, which: usize, ready: Ready) -> io::Result<()> {
        let Some(end) = &mut self.conns[conn as usize].ends[which] else { return Ok(()) };
        if ready.failed {
            let entry = self.conns[conn as usize].entry;
            let name = &self.entries[entry as usize].name;
            let Some(end) = &self.conns[conn as usize].ends[which] else { return Ok(()) };
            socket::failure(&end.fd).map_err(|error| io::Error::other(format!("flow {name}: {error}")))?;
        } else if ready.write && !end.connected {
            end.connected = true;
            if self.conns[conn as usize].web.is_some()
                && let Some(exchange) = self.exchange(conn)
            {
                let at = self.reactor.now() + exchange.gap;
                self.reactor.post(at, Act::Request(conn));
            }
        }
        if ready.write {
            self.push(conn, which)?;
        }
        if ready.read || ready.closed {
            self.pull(conn, which, ready.closed)?;
        }
        Ok(())
    }

    /// So many bytes more are to be written.
    fn write(&mut self, conn: u32, which: usize, bytes: u64) -> io::Result<()> {
        if let Some(end) = &mut self.conns[conn as usize].ends[which] {
            end.to_write = end.to_write.saturating_add(bytes);
        }
        self.push(conn, which)
    }

    /// Writes what the socket takes.
    fn push(&mut self, conn: u32, which: usize) -> io::Result<()> {
        let Some(end) = &mut self.conns[conn as usize].ends[which] else { return Ok(()) };
        if !end.connected || end.to_write == 0 {
            return Ok(());
        }
        let taken = socket::write(&end.fd, end.to_write, &self.zeros)?;
        if end.to_write != u64::MAX {
            end.to_write -= taken;
        }
        Ok(())
    }

    fn finish(&mut self, conn: u32, which: usize) -> io::Result<()> {
        match &self.conns[conn as usize].ends[which] {
            Some(end) => socket::finish(&end.fd),
            None => Ok(()),
        }
    }

    /// Takes what has arrived; an end whose peer has finished closes too.
    fn pull(&mut self, conn: u32, which: usize, closed: bool) -> io::Result<()> {
        loop {
            let Some(end) = &self.conns[conn as usize].ends[which] else { return Ok(()) };
            match socket::discard(&end.fd)? {
                None => return Ok(()),
                Some(0) => {
                    self.conns[conn as usize].ends[which] = None;
                    return Ok(());
                }
                Some(bytes) => {
                    let entry = self.conns[conn as usize].entry;
                    socket::clamp_window(&end.fd, &self.entries[entry as usize].tcp)?;
                    let state = &mut self.conns[conn as usize];
                    state.got[which] += bytes;
                    if state.got[which] >= state.target[which] {
                        state.target[which] = u64::MAX;
                        let now = self.reactor.now();
                        self.complete(now, conn, which)?;
                    }
                }
            }
            if !closed {
                return Ok(());
            }
        }
    }
}

/// The port of an entry's next connection: one after the other, but for those that are open.
fn next_port(opened: &mut u32, open: impl Fn(u16) -> bool) -> Option<u16> {
    (0..PORTS).find_map(|_| {
        let port = FIRST_PORT + (*opened % PORTS) as u16;
        *opened += 1;
        (!open(port)).then_some(port)
    })
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Right => Direction::Left,
        Direction::Left => Direction::Right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_comes_again_unless_its_connection_is_still_open() {
        let mut opened = PORTS - 1;
        let long = |port| port == FIRST_PORT || port == FIRST_PORT + 1;
        let ports: Vec<_> = (0..3).filter_map(|_| next_port(&mut opened, long)).collect();
        assert_eq!(ports, [FIRST_PORT + PORTS as u16 - 1, FIRST_PORT + 2, FIRST_PORT + 3]);
        assert_eq!(next_port(&mut opened, |_| true), None);
    }
}
