//! Clients that ask and servers that answer: the web, pages and video.

use std::io;

use sojourn_core::units::Time;
use sojourn_model::workload::page::{Browsing, Then};
use sojourn_model::workload::video::Video;
use sojourn_model::workload::{App, Exchange};

use super::played::What;
use super::{ACCEPTER, Act, Client, Conn, Flows, Net, OPENER};

impl<N: Net> Flows<'_, N> {
    /// A client opens a web connection.
    pub(super) fn browse(&mut self, now: Time, index: u32, exchanges: Vec<Exchange>) -> io::Result<u32> {
        let conn = self.connect(index, true)?;
        self.begin(now, index, conn);
        self.conns[conn as usize].web = Some(exchanges);
        self.expect(conn);
        Ok(conn)
    }

    /// A reader's next page, or what its parser found in the main object.
    pub(super) fn read(&mut self, now: Time, index: u32, browsing: &Browsing) -> io::Result<()> {
        let Some(Client::Reader(browser, main)) = &mut self.players[index as usize].client else { return Ok(()) };
        if browser.is_parsing() {
            let (main, exchanges) = (*main, browser.parsed(browsing));
            for (number, exchange) in exchanges.into_iter().enumerate() {
                if number == 0 {
                    self.ask_again(now, main, exchange)?;
                } else {
                    self.browse(now, index, vec![exchange])?;
                }
            }
        } else if let Some(exchange) = browser.open(now, browsing) {
            let conn = self.browse(now, index, vec![exchange])?;
            if let Some(Client::Reader(_, main)) = &mut self.players[index as usize].client {
                *main = conn;
            }
        }
        Ok(())
    }

    /// A viewer's player asks for its next piece.
    pub(super) fn watch(&mut self, now: Time, index: u32, video: &Video) -> io::Result<()> {
        let Some(Client::Viewer(viewer, conn)) = &mut self.players[index as usize].client else { return Ok(()) };
        let exchange = viewer.ask(now, video);
        if let Some(conn) = *conn {
            return self.ask_again(now, conn, exchange);
        }
        let opened = self.browse(now, index, vec![exchange])?;
        if let Some(Client::Viewer(_, conn)) = &mut self.players[index as usize].client {
            *conn = Some(opened);
        }
        Ok(())
    }

    /// One more exchange on a connection that waits.
    fn ask_again(&mut self, now: Time, conn: u32, exchange: Exchange) -> io::Result<()> {
        if let Some(exchanges) = &mut self.conns[conn as usize].web {
            exchanges.push(exchange);
        }
        self.expect(conn);
        self.request(now, conn)
    }

    /// A client that chooses as it goes has got what it asked for on this connection. Whether the connection is done with, so
    /// far as the client says.
    fn choose(&mut self, now: Time, conn: u32) -> bool {
        let entry = self.conns[conn as usize].entry;
        match (&self.entries[entry as usize].app, &mut self.players[entry as usize].client) {
            (App::Pages(browsing), Some(Client::Reader(browser, _))) => match browser.arrived(now, browsing) {
                Then::Ask(exchange) => {
                    self.conns[conn as usize].web.get_or_insert_default().push(exchange);
                    false
                }
                Then::Parse(at) => {
                    self.reactor.post(at, Act::Entry(entry));
                    false
                }
                Then::Close => true,
                Then::Loaded(time, next) => {
                    self.played.note(now, entry, What::Loaded(time.0));
                    next.into_iter().for_each(|at| self.reactor.post(at, Act::Entry(entry)));
                    true
                }
            },
            (App::Video(video), Some(Client::Viewer(viewer, _))) => {
                let (seen, next) = viewer.arrived(now, video);
                seen.into_iter().for_each(|(at, seen)| self.played.watched(at, entry, seen));
                next.into_iter().for_each(|at| self.reactor.post(at, Act::Entry(entry)));
                next.is_none()
            }
            _ => true,
        }
    }

    /// The exchange under way on a web connection.
    pub(super) fn exchange(&self, conn: u32) -> Option<Exchange> {
        let Conn { web, exchange, .. } = &self.conns[conn as usize];
        web.as_ref()?.get(*exchange).copied()
    }

    /// Both ends of a web connection wait for their parts of the exchange.
    fn expect(&mut self, conn: u32) {
        if let Some(exchange) = self.exchange(conn) {
            let Conn { got, target, .. } = &mut self.conns[conn as usize];
            target[ACCEPTER] = got[ACCEPTER] + u64::from(exchange.request);
            target[OPENER] = got[OPENER] + exchange.response;
        }
    }

    pub(super) fn request(&mut self, now: Time, conn: u32) -> io::Result<()> {
        let Some(exchange) = self.exchange(conn) else { return Ok(()) };
        if self.conns[conn as usize].exchange > 0 {
            let entry = self.conns[conn as usize].entry;
            self.begin(now, entry, conn);
        }
        self.write(conn, OPENER, u64::from(exchange.request))
    }

    pub(super) fn respond(&mut self, conn: u32) -> io::Result<()> {
        let response = self.exchange(conn).map_or(0, |exchange| exchange.response);
        self.write(conn, ACCEPTER, response)
    }

    pub(super) fn next_exchange(&mut self, now: Time, conn: u32) -> io::Result<()> {
        self.conns[conn as usize].exchange += 1;
        let done = self.choose(now, conn);
        match self.exchange(conn) {
            Some(next) => {
                let at = now + next.gap;
                self.expect(conn);
                self.reactor.post(at, Act::Request(conn));
                Ok(())
            }
            None if done => self.finish(conn, OPENER),
            None => Ok(()),
        }
    }
}
