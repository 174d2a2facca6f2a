//! What goes without TCP: pings, and the datagrams of streams.

use std::io;
use std::net::SocketAddrV4;

use sojourn_core::units::Time;
use sojourn_model::workload::Entry;
use sojourn_model::workload::stream::{Stream, Transport};

use super::played::{Connection, What};
use super::{FIRST_PORT, Flows, HEARERS, Net, OPENER, PINGERS, SERVICE, opposite, socket};

/// The second octet of the IP header: DSCP and ECN field (RFC 3168 §5).
fn tos(entry: &Entry) -> u8 {
    entry.dscp << 2 | entry.ecn as u8
}

impl<N: Net> Flows<'_, N> {
    /// A datagram of a stream, or a write.
    pub(super) fn stream(&mut self, now: Time, index: u32, stream: &Stream, number: u32) -> io::Result<()> {
        if stream.transport == Transport::Tcp {
            let conn = self.lasting(index)?;
            return self.write(conn, OPENER, u64::from(stream.bytes));
        }
        if self.players[index as usize].datagrams.is_none() {
            self.open_datagrams(index)?;
        }
        if let Some([sender, _]) = &self.players[index as usize].datagrams {
            socket::send_datagram(sender, number, now, stream.bytes, &mut self.zeros)?;
        }
        self.played.note(now, index, What::Datagram);
        Ok(())
    }

    /// Makes both ends of a stream of datagrams.
    fn open_datagrams(&mut self, index: u32) -> io::Result<()> {
        let entry = &self.entries[index as usize];
        let (from, to) = self.hosts(index, entry.direction);
        let (from, to) = (SocketAddrV4::new(from, FIRST_PORT), SocketAddrV4::new(to, SERVICE));
        let (far, tos) = (self.place(entry, entry.direction), tos(entry));
        let hearer = self.net.inside(far, move || socket::datagrams(to, from, 0))?;
        let sender =
            self.net.inside(self.place(entry, opposite(entry.direction)), move || socket::datagrams(from, to, tos))?;
        self.reactor.watch(&hearer, HEARERS + u64::from(index))?;
        let opened = self.reactor.now().0;
        self.played.connections.push(Connection { entry: index, port: FIRST_PORT, opened, backward: false });
        self.players[index as usize].datagrams = Some([sender, hearer]);
        Ok(())
    }

    /// Datagrams have come.
    pub(super) fn on_datagrams(&mut self, index: u32) -> io::Result<()> {
        let now = self.reactor.now();
        let Some([_, hearer]) = &self.players[index as usize].datagrams else { return Ok(()) };
        while let Some((number, sent)) = socket::take_datagram(hearer)? {
            self.played.note(now, index, What::Heard { number, sent: sent.0 });
        }
        Ok(())
    }

    pub(super) fn ping(&mut self, now: Time, index: u32, bytes: u32, number: u16) -> io::Result<()> {
        let entry = &self.entries[index as usize];
        let (from, to) = self.hosts(index, entry.direction);
        // A reply finds its socket by this alone, also where a host has several.
        let identifier = FIRST_PORT + entry.user.map_or(0, |user| user.flow);
        if self.players[index as usize].pinger.is_none() {
            let place = self.place(entry, opposite(entry.direction));
            let tos = tos(entry);
            let fd = self.net.inside(place, move || socket::pinger(from, identifier, tos))?;
            self.reactor.watch(&fd, PINGERS + u64::from(index))?;
            self.players[index as usize].pinger = Some(fd);
            let opened = self.reactor.now().0;
            self.played.connections.push(Connection { entry: index, port: FIRST_PORT, opened, backward: false });
        }
        let player = &mut self.players[index as usize];
        if player.pings.len() > usize::from(u16::MAX) {
            player.pings.pop_front(); // Its number comes again.
        }
        player.pings.push_back((number, now));
        if let Some(fd) = &player.pinger {
            socket::ping(fd, to, number, bytes)?;
        }
        self.played.note(now, index, What::Ping);
        Ok(())
    }

    pub(super) fn on_reply(&mut self, index: u32) -> io::Result<()> {
        let now = self.reactor.now();
        let player = &mut self.players[index as usize];
        let Some(fd) = &player.pinger else { return Ok(()) };
        while let Some(number) = socket::reply(fd)? {
            // It may have overtaken others, or be a copy: an impairment does that.
            if let Some((_, at)) = player.pings.iter().rev().find(|(sent, _)| *sent == number) {
                self.played.note(now, index, What::Reply(now.since(*at).0));
            }
        }
        Ok(())
    }
}
