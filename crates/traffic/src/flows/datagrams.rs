//! Echo requests, and the datagrams of streams.

use std::io;
use std::net::SocketAddrV4;

use sojourn_core::units::Time;
use sojourn_model::workload::Entry;
use sojourn_model::workload::driver::Observation;

use super::played::Connection;
use super::sockets::{Sockets, opposite};
use super::{FIRST_PORT, Net, PINGERS, RECEIVERS, SERVICE, socket};

/// The second octet of the IP header: DSCP and ECN field (RFC 3168 §5).
fn tos(entry: &Entry) -> u8 {
    entry.dscp << 2 | entry.ecn as u8
}

impl<N: Net> Sockets<'_, N> {
    /// Sends the next datagram of a stream.
    pub(super) fn send_datagram(&mut self, now: Time, row: u32, bytes: u32, number: u32) -> io::Result<()> {
        if self.rows[row as usize].datagrams.is_none() {
            self.open_datagrams(row)?;
        }
        if let Some([sender, _]) = &self.rows[row as usize].datagrams {
            socket::send_datagram(sender, number, now, bytes, &mut self.zeros)?;
        }
        Ok(())
    }

    /// Creates the two sockets of a stream of datagrams.
    fn open_datagrams(&mut self, row: u32) -> io::Result<()> {
        let entry = &self.entries[row as usize];
        let (from, to) = self.hosts(row, entry.direction);
        let (from, to) = (SocketAddrV4::new(from, FIRST_PORT), SocketAddrV4::new(to, SERVICE));
        let (far, tos) = (self.place(entry, entry.direction), tos(entry));
        let receiver = self.net.inside(far, move || socket::datagrams(to, from, 0))?;
        let sender =
            self.net.inside(self.place(entry, opposite(entry.direction)), move || socket::datagrams(from, to, tos))?;
        self.reactor.watch(&receiver, RECEIVERS + u64::from(row))?;
        let opened = self.reactor.now().0;
        self.played.connections.push(Connection { entry: row, port: FIRST_PORT, opened, backward: false });
        self.rows[row as usize].datagrams = Some([sender, receiver]);
        Ok(())
    }

    /// Reads the datagrams that have arrived.
    pub(super) fn on_datagrams(&mut self, row: u32) -> io::Result<()> {
        let now = self.reactor.now();
        let Some([_, receiver]) = &self.rows[row as usize].datagrams else { return Ok(()) };
        while let Some((number, sent)) = socket::take_datagram(receiver)? {
            self.played.note(now, row, Observation::Received { number, sent });
        }
        Ok(())
    }

    /// Sends an echo request.
    pub(super) fn send_ping(&mut self, now: Time, row: u32, bytes: u32, number: u16) -> io::Result<()> {
        let entry = &self.entries[row as usize];
        let (from, to) = self.hosts(row, entry.direction);
        // The kernel finds the socket of a reply by the identifier alone. It must be unique if a host has several sockets.
        let identifier = FIRST_PORT + entry.user.map_or(0, |user| user.flow);
        if self.rows[row as usize].pinger.is_none() {
            let place = self.place(entry, opposite(entry.direction));
            let tos = tos(entry);
            let fd = self.net.inside(place, move || socket::pinger(from, identifier, tos))?;
            self.reactor.watch(&fd, PINGERS + u64::from(row))?;
            self.rows[row as usize].pinger = Some(fd);
            let opened = self.reactor.now().0;
            self.played.connections.push(Connection { entry: row, port: FIRST_PORT, opened, backward: false });
        }
        let of_row = &mut self.rows[row as usize];
        if of_row.pings.len() > usize::from(u16::MAX) {
            of_row.pings.pop_front(); // Its number is used again.
        }
        of_row.pings.push_back((number, now));
        if let Some(fd) = &of_row.pinger {
            socket::ping(fd, to, number, bytes)?;
        }
        Ok(())
    }

    /// Reads the replies to echo requests that have arrived.
    pub(super) fn on_reply(&mut self, row: u32) -> io::Result<()> {
        let now = self.reactor.now();
        let of_row = &mut self.rows[row as usize];
        let Some(fd) = &of_row.pinger else { return Ok(()) };
        while let Some(number) = socket::reply(fd)? {
            // Impairments may reorder and duplicate replies.
            if let Some((_, at)) = of_row.pings.iter().rev().find(|(sent, _)| *sent == number) {
                self.played.note(now, row, Observation::Replied(now.since(*at)));
            }
        }
        Ok(())
    }
}
