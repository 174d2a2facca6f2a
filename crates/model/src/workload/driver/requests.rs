//! Clients that send requests, and servers that respond: web connections, web pages and video.

use sojourn_core::units::Time;

use super::{Client, Connection, Data, Driver, End, Event, Observation, Stack, Usage};
use crate::workload::ideal::Task;
use crate::workload::page::{Browsing, Then};
use crate::workload::video::Video;
use crate::workload::{App, Exchange};

impl Driver<'_> {
    /// Opens a client's connection for these exchanges. The first request follows the handshake.
    pub(super) fn browse<S: Stack>(
        &mut self,
        now: Time,
        row: u32,
        exchanges: Vec<Exchange>,
        stack: &mut S,
    ) -> Result<u32, S::Error> {
        let conn = self.connect(now, row, Usage::Exchanges { exchanges, at: 0 }, stack)?;
        self.begin(now, conn, stack);
        Ok(conn)
    }

    /// Lets a reader open the next page, or request the embedded objects after the main object has been parsed.
    pub(super) fn read<S: Stack>(
        &mut self,
        now: Time,
        row: u32,
        browsing: &Browsing,
        stack: &mut S,
    ) -> Result<(), S::Error> {
        let Some(Client::Reader(browser, main)) = self.players[row as usize].client.as_deref_mut() else {
            return Ok(());
        };
        if browser.is_parsing() {
            let (main, exchanges) = (*main, browser.parsed(browsing));
            for (number, exchange) in exchanges.into_iter().enumerate() {
                if number == 0 {
                    self.add_exchange(main, exchange);
                    self.request(now, main, stack)?;
                } else {
                    self.browse(now, row, vec![exchange], stack)?;
                }
            }
        } else if let Some(exchange) = browser.open(now, browsing) {
            let conn = self.browse(now, row, vec![exchange], stack)?;
            if let Some(Client::Reader(_, main)) = self.players[row as usize].client.as_deref_mut() {
                *main = conn;
            }
        }
        Ok(())
    }

    /// Requests the next piece of a viewer's video.
    pub(super) fn watch<S: Stack>(
        &mut self,
        now: Time,
        row: u32,
        video: &Video,
        stack: &mut S,
    ) -> Result<(), S::Error> {
        let Some(Client::Viewer(viewer, conn)) = self.players[row as usize].client.as_deref_mut() else {
            return Ok(());
        };
        let exchange = viewer.ask(now, video);
        if let Some(conn) = *conn {
            self.add_exchange(conn, exchange);
            return self.request(now, conn, stack);
        }
        let opened = self.browse(now, row, vec![exchange], stack)?;
        if let Some(Client::Viewer(_, conn)) = self.players[row as usize].client.as_deref_mut() {
            *conn = Some(opened);
        }
        Ok(())
    }

    /// Sends the client's request of the current exchange.
    pub(super) fn request<S: Stack>(&mut self, now: Time, conn: u32, stack: &mut S) -> Result<(), S::Error> {
        let Some((exchange, at)) = self.exchange(conn) else { return Ok(()) };
        // The first exchange started with the connection.
        if at > 0 {
            self.begin(now, conn, stack);
        }
        stack.write(now, conn, End::Opener, Data::Message(u64::from(exchange.request)))
    }

    /// Sends the server's response of the current exchange.
    pub(super) fn respond<S: Stack>(&mut self, now: Time, conn: u32, stack: &mut S) -> Result<(), S::Error> {
        let Some((exchange, _)) = self.exchange(conn) else { return Ok(()) };
        stack.write(now, conn, End::Accepter, Data::Message(exchange.response))
    }

    /// Handles the arrival of a request at the server, or of a response at the client.
    pub(super) fn exchanged<S: Stack>(
        &mut self,
        now: Time,
        conn: u32,
        end: End,
        stack: &mut S,
    ) -> Result<(), S::Error> {
        let Some((exchange, at)) = self.exchange(conn) else { return Ok(()) };
        if end == End::Accepter {
            let answer = now + exchange.server_delay;
            if at == 0 {
                let Connection { row, started, .. } = self.connections[conn as usize];
                stack.note(answer, row, Observation::Began(answer.since(started)));
            }
            stack.post(answer, Event::Respond(conn));
            return Ok(());
        }
        let task = Task::Answered { bytes: exchange.response, thinking: exchange.server_delay, opened: at == 0 };
        if let Usage::Exchanges { at, .. } = &mut self.connections[conn as usize].usage {
            *at += 1;
        }
        self.complete(now, conn, task, stack);
        let done = self.choose(now, conn, stack);
        match self.exchange(conn) {
            Some((next, _)) => stack.post(now + next.gap, Event::Request(conn)),
            None if done => stack.close(now, conn, End::Opener)?,
            None => {}
        }
        Ok(())
    }

    /// Handles the response to the last request of a client that chooses its requests one at a time, and lets it choose
    /// the next. Returns whether the client no longer needs the connection.
    fn choose<S: Stack>(&mut self, now: Time, conn: u32, stack: &mut S) -> bool {
        let row = self.connections[conn as usize].row;
        match (&self.entries[row as usize].app, self.players[row as usize].client.as_deref_mut()) {
            (App::Pages(browsing), Some(Client::Reader(browser, _))) => match browser.arrived(now, browsing) {
                Then::Ask(exchange) => {
                    self.add_exchange(conn, exchange);
                    false
                }
                Then::Parse(at) => {
                    stack.post(at, Event::Act(row));
                    false
                }
                Then::Close => true,
                Then::Loaded(took, next) => {
                    stack.note(now, row, Observation::Loaded(took));
                    next.into_iter().for_each(|at| stack.post(at, Event::Act(row)));
                    true
                }
            },
            (App::Video(video), Some(Client::Viewer(viewer, _))) => {
                let (seen, next) = viewer.arrived(now, video);
                seen.into_iter().for_each(|(at, seen)| stack.note(at, row, Observation::Watched(seen)));
                next.into_iter().for_each(|at| stack.post(at, Event::Act(row)));
                next.is_none()
            }
            _ => true,
        }
    }

    /// Returns the current exchange of a connection, and its number on this connection.
    fn exchange(&self, conn: u32) -> Option<(Exchange, usize)> {
        match &self.connections[conn as usize].usage {
            Usage::Exchanges { exchanges, at } => exchanges.get(*at).map(|exchange| (*exchange, *at)),
            Usage::Lasting | Usage::Transfer(_) | Usage::Dial(_) => None,
        }
    }

    fn add_exchange(&mut self, conn: u32, exchange: Exchange) {
        if let Usage::Exchanges { exchanges, .. } = &mut self.connections[conn as usize].usage {
            exchanges.push(exchange);
        }
    }
}
