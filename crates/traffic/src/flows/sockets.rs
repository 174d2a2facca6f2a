//! The sockets of all rows, as the applications use them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use sojourn_core::units::Time;
use sojourn_model::workload::driver::{Data, Event, Observation, Stack};
use sojourn_model::workload::{App, Direction, Entry};

pub use sojourn_model::workload::driver::End;

use super::played::{Connection, Played};
use super::reactor::Reactor;
use super::{Act, Drain, FIRST_PORT, Net, PORTS, SERVICE, socket};
use crate::topology::{self, Place};

/// The largest number of unsent bytes in the socket of a flow that stops before the end of the run. The flow still sends these bytes
/// after its stop, so there should be few.
const UNSENT: u32 = 128 * 1024;
/// The same bound for a test of responsiveness: the socket accepts the next segment only when it has sent all others. A
/// probe on a connection with load then waits for at most one segment in the host; in the simulator it waits for none.
const UNSENT_UNDER_PROBES: u32 = 1;

/// The smallest message, in bytes, that the kernel reads. For a smaller message, the call costs as much as reading the message.
const SMALLEST_DRAINED: u64 = 16 * 1024;

/// An end of a connection.
struct Endpoint {
    fd: OwnedFd,
    connected: bool,
}

/// One direction of a connection, in bytes.
#[derive(Default)]
struct Stream {
    /// Bytes to be written to the socket; `u64::MAX` for [`Data::Endless`].
    to_write: u64,
    /// Whether the application has written [`Data::Endless`].
    endless: bool,
    /// Bytes that the sender's socket has taken.
    written: u64,
    /// Bytes that the receiver has read.
    read: u64,
    /// Whether the kernel reads the first message except its last byte. Then only the kernel knows how many bytes were read.
    drained: bool,
    /// The messages that have not been reported, in order.
    messages: VecDeque<Message>,
}

/// A message whose arrival is reported.
#[derive(Clone, Copy)]
pub struct Message {
    /// The position of the message's end in the stream, in bytes.
    until: u64,
    /// Whether its receiver closes the connection.
    pub is_last: bool,
}

/// A connection. Both arrays are indexed by [`End`]. A stream has the index of its sender.
struct Conn {
    row: u32,
    ends: [Option<Endpoint>; 2],
    streams: [Stream; 2],
}

/// The state of a row.
#[derive(Default)]
pub(super) struct Row {
    /// The number of ports used so far.
    opened: u32,
    /// The last echo requests: their numbers and times of sending.
    pub(super) pings: VecDeque<(u16, Time)>,
    pub(super) pinger: Option<OwnedFd>,
    /// The sockets of the sender and the receiver of datagrams.
    pub(super) datagrams: Option<[OwnedFd; 2]>,
}

/// All sockets of a run.
pub struct Sockets<'a, N> {
    pub(super) entries: &'a [Entry],
    end: Time,
    pub(super) net: N,
    pub(super) reactor: Reactor<Act>,
    pub(super) rows: Vec<Row>,
    conns: Vec<Conn>,
    by_port: BTreeMap<(u32, u16), u32>,
    listeners: Vec<OwnedFd>,
    pub(super) zeros: Vec<u8>,
    pub(super) played: Played,
}

/// Returns the end of a connection whose token has this parity.
pub fn end(parity: u64) -> End {
    if parity == 0 { End::Opener } else { End::Accepter }
}

impl<'a, N: Net> Sockets<'a, N> {
    /// Creates the sockets of a run that ends at `end`. There are no connections.
    pub fn new(
        entries: &'a [Entry],
        end: Time,
        net: N,
        reactor: Reactor<Act>,
        listeners: Vec<OwnedFd>,
    ) -> Sockets<'a, N> {
        Sockets {
            entries,
            end,
            net,
            reactor,
            rows: entries.iter().map(|_| Row::default()).collect(),
            conns: Vec::new(),
            by_port: BTreeMap::new(),
            listeners,
            zeros: vec![0; 1 << 18],
            played: Played::default(),
        }
    }

    /// Ends the run. Returns all observations, and the counters of TCP on the connections that are still open.
    ///
    /// # Errors
    /// The operating system refuses something.
    pub fn finish(mut self) -> io::Result<Played> {
        for (number, conn) in (0..).zip(&self.conns) {
            for (end, accepter) in conn.ends.iter().zip([false, true]) {
                if let Some(end) = end {
                    self.played.sockets.push(socket::counters(&end.fd, number, accepter)?);
                }
            }
        }
        self.net.over()?;
        Ok(self.played)
    }

    /// Returns the addresses of a row's hosts: first the host that sends in this direction, then the host that receives.
    pub(super) fn hosts(&self, row: u32, towards: Direction) -> (Ipv4Addr, Ipv4Addr) {
        let entry = &self.entries[row as usize];
        let of = |side| topology::address(side, entry, row as usize);
        (of(opposite(towards)), of(towards))
    }

    pub(super) fn place(&self, entry: &Entry, side: Direction) -> Place {
        if side == Direction::Left { Place::Left(entry.via.0) } else { Place::Right(entry.via.1) }
    }

    /// Returns whether this end of a connection is open.
    pub fn is_open(&self, conn: u32, end: End) -> bool {
        self.conns[conn as usize].ends[end as usize].is_some()
    }

    /// Records that an end can send. Returns whether this is new: whether its handshake is complete only now.
    pub fn connects(&mut self, conn: u32, end: End) -> bool {
        let end = self.conns[conn as usize].ends[end as usize].as_mut();
        end.is_some_and(|end| !std::mem::replace(&mut end.connected, true))
    }

    /// Looks for the cause of a failure at an end.
    ///
    /// # Errors
    /// The connection has failed, with the name of the flow.
    pub fn failure(&self, conn: u32, end: End) -> io::Result<()> {
        let Conn { row, ends, .. } = &self.conns[conn as usize];
        let Some(end) = &ends[end as usize] else { return Ok(()) };
        let name = &self.entries[*row as usize].name;
        socket::failure(&end.fd).map_err(|error| io::Error::other(format!("flow {name}: {error}")))
    }

    /// Accepts the connections that wait at a listening socket.
    ///
    /// # Errors
    /// The operating system refuses something.
    pub fn accept(&mut self, listener: usize) -> io::Result<()> {
        while let Some((fd, own, peer)) = socket::accept(&self.listeners[listener])? {
            let row = topology::entry_of([*own.ip(), *peer.ip()]).unwrap_or(usize::MAX) as u32;
            let Some(&conn) = self.by_port.get(&(row, peer.port())) else { continue };
            let entry = &self.entries[row as usize];
            socket::configure(&fd, &entry.tcp)?;
            if let Some(bytes) = self.most_unsent(entry, End::Accepter) {
                socket::keep_unsent_below(&fd, bytes)?;
            }
            // If the window is bounded, this program must read the data itself: see `clamp_window`.
            let plain = socket::window(&entry.tcp).is_none();
            // A socket that the kernel reads is not watched by the reactor, but must stay open.
            let drained = plain && matches!(entry.app, App::Bulk { .. }) && self.net.drain(&fd, Drain::All)?;
            if !drained {
                self.reactor.watch(&fd, token(conn, End::Accepter))?;
            }
            self.conns[conn as usize].ends[End::Accepter as usize] = Some(Endpoint { fd, connected: true });
            self.drain_message(conn, End::Opener)?;
        }
        Ok(())
    }

    /// Writes as much as the socket takes.
    ///
    /// # Errors
    /// The operating system refuses something.
    pub fn push(&mut self, conn: u32, end: End) -> io::Result<()> {
        let Conn { row, ends, streams } = &mut self.conns[conn as usize];
        let (Some(endpoint), stream) = (&ends[end as usize], &mut streams[end as usize]) else { return Ok(()) };
        if !endpoint.connected || stream.to_write == 0 {
            return Ok(());
        }
        let entry = &self.entries[*row as usize];
        let taken = match entry.app {
            App::Rpm(_) if stream.endless => socket::write_segments(&endpoint.fd, entry.tcp.mss, &self.zeros)?,
            _ => socket::write(&endpoint.fd, stream.to_write, &self.zeros)?,
        };
        stream.written += taken;
        if stream.to_write != u64::MAX {
            stream.to_write -= taken;
        }
        Ok(())
    }

    /// Reads the data that have arrived at an end. Returns whether there were any. If the peer has closed, this end is closed too.
    ///
    /// # Errors
    /// The operating system refuses something.
    pub fn read(&mut self, conn: u32, end: End) -> io::Result<bool> {
        let Conn { row, ends, streams } = &mut self.conns[conn as usize];
        let Some(Endpoint { fd, .. }) = &ends[end as usize] else { return Ok(false) };
        match socket::discard(fd)? {
            None => Ok(false),
            Some(0) => {
                ends[end as usize] = None;
                Ok(false)
            }
            Some(bytes) => {
                socket::clamp_window(fd, &self.entries[*row as usize].tcp)?;
                let stream = &mut streams[end.other() as usize];
                stream.read = match stream.drained {
                    true => socket::counters(fd, conn, end == End::Accepter)?.bytes_received,
                    false => stream.read + bytes,
                };
                Ok(true)
            }
        }
    }

    /// Takes the next message that has arrived completely at an end, if there is one.
    pub fn next_message(&mut self, conn: u32, end: End) -> Option<Message> {
        let Stream { read, messages, drained, .. } = &mut self.conns[conn as usize].streams[end.other() as usize];
        let message = *messages.front().filter(|message| message.until <= *read)?;
        messages.pop_front();
        *drained = false;
        Some(message)
    }

    /// Lets the kernel read the message that the end `from` has begun to send, if the message is long and the only one. The kernel wakes
    /// the program for the last byte.
    fn drain_message(&mut self, conn: u32, from: End) -> io::Result<()> {
        let Conn { row, ends, streams } = &mut self.conns[conn as usize];
        let (Some(receiver), stream) = (&ends[from.other() as usize], &mut streams[from as usize]) else {
            return Ok(());
        };
        let bounded = socket::window(&self.entries[*row as usize].tcp).is_some();
        let [message] = stream.messages.make_contiguous() else { return Ok(()) };
        let bytes = message.until - stream.read;
        if bounded || stream.endless || stream.drained || bytes < SMALLEST_DRAINED {
            return Ok(());
        }
        // The kernel compares sequence numbers as signed 32-bit differences. The program itself reads a message of more than 2 GiB.
        if let Some(bytes) = i32::try_from(bytes - 1).ok().and_then(|bytes| NonZeroU32::new(bytes as u32)) {
            stream.drained = self.net.drain(&receiver.fd, Drain::Bytes(bytes))?;
        }
        Ok(())
    }

    /// Sends a FIN after all data that this end has written.
    ///
    /// # Errors
    /// The operating system refuses something.
    pub fn finish_sending(&self, conn: u32, end: End) -> io::Result<()> {
        match &self.conns[conn as usize].ends[end as usize] {
            Some(end) => socket::finish(&end.fd),
            None => Ok(()),
        }
    }

    /// Returns the bound of the unsent bytes in a socket (TCP_NOTSENT_LOWAT), if it has one.
    fn most_unsent(&self, entry: &Entry, end: End) -> Option<u32> {
        match &entry.app {
            App::Bulk { active } if end == End::Opener && active.iter().any(|window| window.1 < self.end) => {
                Some(UNSENT)
            }
            App::Rpm(_) => Some(UNSENT_UNDER_PROBES),
            _ => None,
        }
    }

    /// The port of a row's next connection.
    fn port(&mut self, row: u32) -> io::Result<u16> {
        let open = |port| {
            let last = self.by_port.get(&(row, port));
            last.is_some_and(|&conn| self.conns[conn as usize].ends.iter().any(Option::is_some))
        };
        next_port(&mut self.rows[row as usize].opened, open).ok_or_else(|| {
            io::Error::other(format!("{PORTS} connections of one flow are open: there are no more ports"))
        })
    }
}

impl<N: Net> Stack for Sockets<'_, N> {
    type Error = io::Error;

    fn connect(&mut self, _: Time, row: u32) -> io::Result<()> {
        let entry = &self.entries[row as usize];
        let backward = entry.receiver_opens();
        let towards = if backward { opposite(entry.direction) } else { entry.direction };
        let (from, to) = self.hosts(row, towards);
        let place = self.place(entry, opposite(towards));
        let port = self.port(row)?;
        let number = self.conns.len() as u32;
        self.played.connections.push(Connection { entry: row, port, opened: self.reactor.now().0, backward });
        let addresses = (SocketAddrV4::new(from, port), SocketAddrV4::new(to, SERVICE));
        let (tcp, dscp) = (entry.tcp, entry.dscp);
        let fd = self.net.inside(place, move || socket::connect(addresses.0, addresses.1, &tcp, dscp))?;
        self.reactor.watch(&fd, token(number, End::Opener))?;
        if let Some(bytes) = self.most_unsent(entry, End::Opener) {
            socket::keep_unsent_below(&fd, bytes)?;
        }
        self.by_port.insert((row, port), number);
        let ends = [Some(Endpoint { fd, connected: false }), None];
        self.conns.push(Conn { row, ends, streams: Default::default() });
        Ok(())
    }

    fn write(&mut self, _: Time, conn: u32, end: End, data: Data) -> io::Result<()> {
        let stream = &mut self.conns[conn as usize].streams[end as usize];
        let bytes = match data {
            Data::Bytes(bytes) => bytes,
            Data::Message(bytes) | Data::Last(bytes) => {
                // A message within endless data adds no bytes: it consists of bytes that are written anyway.
                let (until, more) = if stream.endless {
                    (stream.written + bytes, 0)
                } else {
                    (stream.written + stream.to_write + bytes, bytes)
                };
                stream.messages.push_back(Message { until, is_last: matches!(data, Data::Last(_)) });
                more
            }
            Data::Endless => {
                stream.endless = true;
                u64::MAX
            }
        };
        stream.to_write = stream.to_write.saturating_add(bytes);
        self.push(conn, end)?;
        self.drain_message(conn, end)
    }

    fn stop(&mut self, conn: u32, end: End) -> io::Result<()> {
        self.conns[conn as usize].streams[end as usize].to_write = 0;
        Ok(())
    }

    fn close(&mut self, _: Time, conn: u32, end: End) -> io::Result<()> {
        self.finish_sending(conn, end)
    }

    fn acked(&mut self, conn: u32, end: End) -> io::Result<u64> {
        match &self.conns[conn as usize].ends[end as usize] {
            Some(Endpoint { fd, .. }) => Ok(socket::counters(fd, conn, end == End::Accepter)?.bytes_acked),
            None => Ok(0),
        }
    }

    fn ping(&mut self, now: Time, row: u32, bytes: u32, number: u32) -> io::Result<()> {
        // The ICMP header has 16 bits for the sequence number.
        self.send_ping(now, row, bytes, number as u16)
    }

    fn datagram(&mut self, now: Time, row: u32, bytes: u32, number: u32) -> io::Result<()> {
        self.send_datagram(now, row, bytes, number)
    }

    fn post(&mut self, at: Time, event: Event) {
        self.reactor.post(at, Act::App(event));
    }

    fn note(&mut self, at: Time, row: u32, seen: Observation) {
        self.played.note(at, row, seen);
    }
}

/// Returns the reactor's token of a connection's end.
fn token(conn: u32, end: End) -> u64 {
    u64::from(conn) * 2 + end as u64
}

/// Returns the next port that is not open. The search starts after the port that was used last.
fn next_port(opened: &mut u32, open: impl Fn(u16) -> bool) -> Option<u16> {
    (0..PORTS).find_map(|_| {
        let port = FIRST_PORT + (*opened % PORTS) as u16;
        *opened += 1;
        (!open(port)).then_some(port)
    })
}

pub(super) fn opposite(direction: Direction) -> Direction {
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
