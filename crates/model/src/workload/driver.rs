//! Plays the applications of a workload. Every world uses this code.
//!
//! The [`Driver`] decides what each application does, and when. The world moves the bytes: it implements [`Stack`], and calls the
//! driver when a posted event is due ([`Driver::act`]), when a handshake is complete ([`Driver::connected`]) and when a message
//! has arrived ([`Driver::arrived`]). The driver reads no clock, and its random numbers depend only on the seed. Two worlds
//! therefore differ only in the times at which messages arrive.
//!
//! # A new world
//!
//! A new world must provide:
//!
//! - An implementation of [`Stack`]: TCP connections, datagrams, echo requests, and the meters of the rows.
//! - A queue of [`Event`]s. Events that are due at the same time are handled in the order of `Event`, not in the order of posting,
//!   which may differ between worlds.
//! - A call of [`Driver::start`] before the run. A world without randomness of its own shifts the starts, so that seeds differ.
//! - The calls of [`Driver::connected`] (where [`Driver::awaits_handshake`]) and [`Driver::arrived`], at the time of the event.
//! - Sockets that accept the load of a test of responsiveness only as fast as TCP sends it. Data that waits in the host would
//!   delay the probes.
//! - [`Observation::Replied`] and [`Observation::Received`]. The world notes them itself when a reply to an echo request or a
//!   datagram arrives, because it does not report these arrivals to the driver.
//! - After the run, [`Driver::unfinished`] and [`Driver::stalls`] for the reports.

mod observation;
mod requests;
mod responsiveness;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};

use super::ideal::{Ideal, Task};
use super::page::{Browser, Browsing};
use super::rpm::{Rpm, Tester};
use super::stream::{Stream, Transport};
use super::video::{self, Seen, Video};
use super::{App, Entry, Exchange};
use crate::scenario::Scenario;

pub use observation::Observation;
pub(crate) use observation::{BitsPerSecond, Nanoseconds};
use responsiveness::Dial;

/// Something that an application does at a set time. Events that are due at the same time are handled in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// A row's application does its next act: it starts, stops, writes, sends an echo request, or begins a transfer.
    Act(u32),
    /// The client of a connection sends its next request.
    Request(u32),
    /// The server of a connection sends its response.
    Respond(u32),
}

/// An end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The host that sent the SYN: the row's data sender, or its data receiver if [`Entry::receiver_opens`].
    Opener,
    /// The host that accepted the connection.
    Accepter,
}

impl End {
    /// The end that receives what this one sends.
    pub fn other(self) -> End {
        match self {
            End::Opener => End::Accepter,
            End::Accepter => End::Opener,
        }
    }
}

/// Data that an application writes at an end of a connection, in bytes of payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data {
    /// Bytes whose arrival is not reported to the driver.
    Bytes(u64),
    /// A message. The world calls [`Driver::arrived`] when the other end has received the whole message: once for each
    /// message, in the order of writing. If the end is already sending [`Data::Endless`], the message consists of the next
    /// bytes that TCP takes. After [`Stack::stop`] TCP takes no more bytes, and the message never arrives.
    Message(u64),
    /// Like [`Data::Message`]. When it has arrived, the world closes the connection at the other end; the driver does not call
    /// [`Stack::close`].
    Last(u64),
    /// As much as TCP takes, until [`Stack::stop`].
    Endless,
}

/// The hosts of a world, as applications use them.
///
/// Rows are indices into the entries of the workload. Connections are numbered from 0 in the order in which they are opened.
/// `now` is the time of the run at which the application acts: the one that the world gave to the driver.
pub trait Stack {
    /// An error that ends the run. It is `Infallible` in a world without an operating system.
    type Error;

    /// Opens the next connection, for a row. The SYN leaves now. Data may be written at once, and is sent after the handshake.
    fn connect(&mut self, now: Time, row: u32) -> Result<(), Self::Error>;

    /// Writes data at an end of a connection. The accepter writes only after a first message has arrived there.
    fn write(&mut self, now: Time, conn: u32, end: End, data: Data) -> Result<(), Self::Error>;

    /// Discards the data that the application at this end has written and TCP has not taken yet.
    fn stop(&mut self, conn: u32, end: End) -> Result<(), Self::Error>;

    /// Closes the connection at this end. The other end closes it too when it receives the FIN.
    fn close(&mut self, now: Time, conn: u32, end: End) -> Result<(), Self::Error>;

    /// Returns the bytes of this end's payload that were acknowledged since the connection was opened.
    fn acked(&mut self, conn: u32, end: End) -> Result<u64, Self::Error>;

    /// Sends echo request `number` (from 0) of a row, `bytes` long with its IP header.
    fn ping(&mut self, now: Time, row: u32, bytes: u32, number: u32) -> Result<(), Self::Error>;

    /// Sends datagram `number` (from 0) of a row's stream, `bytes` long with its IP header.
    fn datagram(&mut self, now: Time, row: u32, bytes: u32, number: u32) -> Result<(), Self::Error>;

    /// Asks for [`Driver::act`] with this event at this time, which is not in the past.
    fn post(&mut self, at: Time, event: Event);

    /// Reports what an application of a row saw at a time, which may be in the past.
    fn note(&mut self, at: Time, row: u32, seen: Observation);
}

/// The state of a row's application.
struct Player {
    /// The number of acts so far. It is the index into the row's list of windows, arrivals or connections, and the number of its
    /// next packet.
    acts: usize,
    /// The index of a stream's current window.
    window: usize,
    /// Index into [`Driver::ideals`].
    ideal: usize,
    /// The connection that a row keeps for the whole run.
    lasting: Option<u32>,
    started: u64,
    completed: u64,
    client: Option<Box<Client>>,
}

/// A client that chooses its requests during the run.
enum Client {
    /// A reader of web pages, and the connection of the current page's main object.
    Reader(Browser, u32),
    /// The viewer of a video, and the connection once it is open.
    Viewer(video::Player, Option<u32>),
    /// A test of responsiveness, and its connections with load.
    Tester(Tester, Vec<u32>),
}

/// A connection.
struct Connection {
    row: u32,
    /// The time at which the transfer or the current exchange started.
    started: Time,
    usage: Usage,
}

/// The use of a connection.
enum Usage {
    /// The row's data, for the whole run.
    Lasting,
    /// One transfer of this many bytes.
    Transfer(u64),
    /// Requests and responses. `at` is the index of the current exchange. A [`Client`] adds its exchanges one by one.
    Exchanges { exchanges: Vec<Exchange>, at: usize },
    /// A test of responsiveness.
    Dial(Box<Dial>),
}

/// The transfers of rows that share a cap.
#[derive(Default)]
struct GroupState {
    max_active: usize,
    active: usize,
    /// Row and bytes of the transfers that wait for their turn.
    waiting: VecDeque<(u32, u64)>,
}

/// The applications of all rows.
pub struct Driver<'a> {
    entries: &'a [Entry],
    end: Time,
    players: Vec<Player>,
    connections: Vec<Connection>,
    groups: Vec<GroupState>,
    /// The empty paths of the rows. Neighbouring rows with equal paths share an element.
    ideals: Vec<Ideal>,
}

impl<'a> Driver<'a> {
    /// Creates the applications of a scenario. None of them has started.
    pub fn new(scenario: &'a Scenario) -> Driver<'a> {
        let entries = &scenario.workload.entries[..];
        let mut ideals: Vec<Ideal> = Vec::new();
        let mut ideal = |entry: &Entry| {
            let ideal = Ideal::of(scenario, entry);
            if ideals.last() != Some(&ideal) {
                ideals.push(ideal);
            }
            ideals.len() - 1
        };
        let player = |entry: &Entry| Player {
            acts: 0,
            window: 0,
            ideal: ideal(entry),
            lasting: None,
            started: 0,
            completed: 0,
            client: client(scenario.seed, entry).map(Box::new),
        };
        let players = entries.iter().map(player).collect();
        let group = |max_active| GroupState { max_active, ..GroupState::default() };
        Driver {
            entries,
            end: scenario.duration,
            players,
            connections: Vec::with_capacity(scenario.workload.connections()),
            groups: scenario.workload.groups.iter().map(|one| group(one.max_active)).collect(),
            ideals,
        }
    }

    /// Posts the first act of each row, `shift` later than the scenario says. Web connections and transfers of drawn sizes are not
    /// shifted, because their arrivals are drawn and differ between seeds anyway.
    pub fn start<S: Stack>(&self, shift: impl Fn(&Entry) -> Span, stack: &mut S) {
        for (row, entry) in (0..).zip(self.entries) {
            let at = match &entry.app {
                App::Bulk { active } | App::Stream(Stream { active, .. }) => active.first().map(|window| window.0),
                App::Download { start, stop, .. }
                | App::Thin { start, stop, .. }
                | App::Pings { start, stop, .. }
                | App::Pages(Browsing { start, stop, .. })
                | App::Video(Video { start, stop, .. })
                | App::Rpm(Rpm { start, stop, .. }) => Some(*start).filter(|start| start < stop),
                App::Web { connections } => connections.first().map(|connection| connection.start),
                App::Sizes { arrivals, .. } => arrivals.first().map(|arrival| arrival.0),
                // A world with programs starts them itself.
                App::Command(_) => None,
            };
            let is_drawn = matches!(entry.app, App::Web { .. } | App::Sizes { .. });
            if let Some(at) = at {
                stack.post(if is_drawn { at } else { at + shift(entry) }, Event::Act(row));
            }
        }
    }

    /// Handles a posted event that is due.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn act<S: Stack>(&mut self, now: Time, event: Event, stack: &mut S) -> Result<(), S::Error> {
        match event {
            Event::Act(row) => self.next_act(now, row, stack),
            Event::Request(conn) => self.request(now, conn, stack),
            Event::Respond(conn) => self.respond(now, conn, stack),
        }
    }

    /// Returns whether the driver is to be called when this connection's handshake is complete.
    pub fn awaits_handshake(&self, conn: u32) -> bool {
        !matches!(self.connections[conn as usize].usage, Usage::Lasting)
    }

    /// Handles the end of a connection's handshake at its opener.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn connected<S: Stack>(&mut self, now: Time, conn: u32, stack: &mut S) -> Result<(), S::Error> {
        let Connection { row, started, usage } = &self.connections[conn as usize];
        match usage {
            Usage::Exchanges { exchanges, at } => {
                stack.post(now + exchanges[*at].gap, Event::Request(conn));
                Ok(())
            }
            Usage::Dial(_) => self.dialled(now, conn, stack),
            Usage::Transfer(_) => {
                stack.note(now, *row, Observation::Began(now.since(*started)));
                Ok(())
            }
            Usage::Lasting => Ok(()),
        }
    }

    /// Handles the arrival of a connection's next message at this end.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn arrived<S: Stack>(&mut self, now: Time, conn: u32, end: End, stack: &mut S) -> Result<(), S::Error> {
        match self.connections[conn as usize].usage {
            Usage::Lasting => Ok(()),
            Usage::Transfer(bytes) => self.transferred(now, conn, bytes, stack),
            Usage::Exchanges { .. } => self.exchanged(now, conn, end, stack),
            Usage::Dial(_) => self.dial_arrived(now, conn, end, stack),
        }
    }

    /// Returns the number of transfers and exchanges of each row that have started and are not complete.
    pub fn unfinished(&self) -> Vec<u64> {
        self.players.iter().map(|player| player.started - player.completed).collect()
    }

    /// Returns the stalls of videos that last to the end of the run: row, time, and what the viewer sees.
    pub fn stalls(&self) -> Vec<(u32, Time, Seen)> {
        let viewers = (0..).zip(&self.players).filter_map(|(row, player)| match player.client.as_deref()? {
            Client::Viewer(viewer, _) => viewer.clone().finish(self.end).map(|(at, seen)| (row, at, seen)),
            Client::Reader(..) | Client::Tester(..) => None,
        });
        viewers.collect()
    }

    fn next_act<S: Stack>(&mut self, now: Time, row: u32, stack: &mut S) -> Result<(), S::Error> {
        let entry = &self.entries[row as usize];
        let player = &mut self.players[row as usize];
        let at = player.acts;
        player.acts += 1;
        let next = match &entry.app {
            App::Bulk { active } => {
                self.toggle(now, row, at, stack)?;
                let window = active.get(at.div_ceil(2));
                window.map(|&(start, stop)| if at.is_multiple_of(2) { stop } else { start })
            }
            App::Download { size, .. } => {
                self.transfer(now, row, *size, stack)?;
                None
            }
            App::Thin { bytes, interval, stop, .. } => {
                self.write_lasting(now, row, Data::Bytes(u64::from(*bytes)), stack)?;
                Some(now + *interval).filter(|at| at < stop)
            }
            App::Pings { bytes, interval, stop, .. } => {
                stack.note(now, row, Observation::Pinged);
                stack.ping(now, row, *bytes, at as u32)?;
                Some(now + *interval).filter(|at| at < stop)
            }
            App::Stream(stream) => {
                self.stream(now, row, stream, at as u32, stack)?;
                stream.after(&mut self.players[row as usize].window, now)
            }
            App::Pages(browsing) => {
                self.read(now, row, browsing, stack)?;
                None
            }
            App::Video(video) => {
                self.watch(now, row, video, stack)?;
                None
            }
            App::Rpm(rpm) => self.probe(now, row, rpm, stack)?,
            App::Web { connections } => {
                self.browse(now, row, connections[at].exchanges.clone(), stack)?;
                connections.get(at + 1).map(|connection| connection.start)
            }
            App::Sizes { arrivals, group } => {
                self.arrival(now, row, arrivals[at].1, *group, stack)?;
                arrivals.get(at + 1).map(|arrival| arrival.0)
            }
            App::Command(_) => None,
        };
        if let Some(at) = next.filter(|&at| at != Time::NEVER) {
            stack.post(at, Event::Act(row));
        }
        Ok(())
    }

    /// Starts a bulk flow (even acts) or stops it (odd acts).
    fn toggle<S: Stack>(&mut self, now: Time, row: u32, at: usize, stack: &mut S) -> Result<(), S::Error> {
        match self.players[row as usize].lasting {
            Some(conn) if !at.is_multiple_of(2) => stack.stop(conn, End::Opener),
            _ => self.write_lasting(now, row, Data::Endless, stack),
        }
    }

    /// Writes over the connection that the row keeps for the whole run. The first write opens it.
    fn write_lasting<S: Stack>(&mut self, now: Time, row: u32, data: Data, stack: &mut S) -> Result<(), S::Error> {
        let conn = match self.players[row as usize].lasting {
            Some(conn) => conn,
            None => {
                let conn = self.connect(now, row, Usage::Lasting, stack)?;
                self.players[row as usize].lasting = Some(conn);
                conn
            }
        };
        stack.write(now, conn, End::Opener, data)
    }

    /// Opens a connection.
    fn connect<S: Stack>(&mut self, now: Time, row: u32, usage: Usage, stack: &mut S) -> Result<u32, S::Error> {
        let conn = self.connections.len() as u32;
        self.connections.push(Connection { row, started: now, usage });
        stack.connect(now, row)?;
        Ok(conn)
    }

    /// Records that a transfer or an exchange starts on a connection.
    fn begin<S: Stack>(&mut self, now: Time, conn: u32, stack: &mut S) {
        let Connection { row, started, .. } = &mut self.connections[conn as usize];
        *started = now;
        self.players[*row as usize].started += 1;
        stack.note(now, *row, Observation::Started);
    }

    /// Records that the transfer or the exchange on a connection is complete.
    fn complete<S: Stack>(&mut self, now: Time, conn: u32, task: Task, stack: &mut S) {
        let Connection { row, started, .. } = self.connections[conn as usize];
        let player = &mut self.players[row as usize];
        player.completed += 1;
        let (took, ideal) = (now.since(started), self.ideals[player.ideal].time(task));
        stack.note(now, row, Observation::Completed { took, ideal });
    }

    /// Transfers this many bytes over a new connection.
    fn transfer<S: Stack>(&mut self, now: Time, row: u32, bytes: u64, stack: &mut S) -> Result<(), S::Error> {
        let conn = self.connect(now, row, Usage::Transfer(bytes), stack)?;
        self.begin(now, conn, stack);
        stack.write(now, conn, End::Opener, Data::Last(bytes))
    }

    /// Starts a transfer that arrives, or lets it wait if its group has reached its cap.
    fn arrival<S: Stack>(
        &mut self,
        now: Time,
        row: u32,
        bytes: u64,
        group: Option<usize>,
        stack: &mut S,
    ) -> Result<(), S::Error> {
        if let Some(group) = group {
            let state = &mut self.groups[group];
            if state.active >= state.max_active {
                state.waiting.push_back((row, bytes));
                return Ok(());
            }
            state.active += 1;
        }
        self.transfer(now, row, bytes, stack)
    }

    /// Handles the end of a transfer. The next file of a download is due after its gap. A group starts the transfer that has waited
    /// longest.
    fn transferred<S: Stack>(&mut self, now: Time, conn: u32, bytes: u64, stack: &mut S) -> Result<(), S::Error> {
        self.complete(now, conn, Task::Sent(bytes), stack);
        let row = self.connections[conn as usize].row;
        match &self.entries[row as usize].app {
            App::Download { gaps, stop, .. } => {
                let done = self.players[row as usize].completed as usize;
                let next = gaps.get(done - 1).map(|&gap| now + gap).filter(|at| at < stop);
                next.into_iter().for_each(|at| stack.post(at, Event::Act(row)));
            }
            App::Sizes { group: Some(group), .. } => {
                let state = &mut self.groups[*group];
                match state.waiting.pop_front() {
                    Some((row, bytes)) => self.transfer(now, row, bytes, stack)?,
                    None => state.active -= 1,
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends a stream's next datagram, or writes its next bytes over its connection.
    fn stream<S: Stack>(
        &mut self,
        now: Time,
        row: u32,
        stream: &Stream,
        number: u32,
        stack: &mut S,
    ) -> Result<(), S::Error> {
        if stream.transport == Transport::Tcp {
            return self.write_lasting(now, row, Data::Bytes(u64::from(stream.bytes)), stack);
        }
        stack.note(now, row, Observation::Sent);
        stack.datagram(now, row, stream.bytes, number)
    }
}

/// Creates the client of a row whose application chooses its requests one by one.
fn client(seed: u64, entry: &Entry) -> Option<Client> {
    match &entry.app {
        App::Pages(_) => Some(Client::Reader(Browser::default(), 0)),
        App::Video(video) => Some(Client::Viewer(video::Player::new(video), None)),
        App::Rpm(rpm) => {
            let rng = Rng::stream(seed, &format!("probes {}", entry.name));
            Some(Client::Tester(Tester::new(rpm, rng), Vec::new()))
        }
        _ => None,
    }
}
