//! Clients that ask and servers that answer: the web, pages and video.

use sojourn_core::packet::Packet as _;
use sojourn_core::units::{Span, Time};
use sojourn_model::workload::ideal::Task;
use sojourn_model::workload::page::{Browsing, Then};
use sojourn_model::workload::video::Video;
use sojourn_model::workload::{App, Exchange};

use super::{Client, Event, Hosts, NO_WEB, Net, Web};

impl Hosts<'_> {
    /// A reader's next page, or what its parser found in the main object.
    pub(super) fn read(&mut self, now: Time, index: u32, browsing: &Browsing, net: &mut impl Net) {
        let Some(Client::Reader(browser, main)) = self.players[index as usize].client.as_deref_mut() else { return };
        if !browser.is_parsing() {
            *main = self.webs.len() as u32;
            if let Some(exchange) = browser.open(now, browsing) {
                self.browse(now, index, vec![exchange], net);
            }
            return;
        }
        let (main, exchanges) = (*main, browser.parsed(browsing));
        for (number, exchange) in exchanges.into_iter().enumerate() {
            if number == 0 {
                self.webs[main as usize].exchanges.push(exchange);
                self.request(now, main, net);
            } else {
                self.browse(now, index, vec![exchange], net);
            }
        }
    }

    /// A viewer's player asks for its next piece.
    pub(super) fn watch(&mut self, now: Time, index: u32, video: &Video, net: &mut impl Net) {
        let Some(Client::Viewer(viewer, web)) = self.players[index as usize].client.as_deref_mut() else { return };
        let exchange = viewer.ask(now, video);
        if *web == NO_WEB {
            *web = self.webs.len() as u32;
            return self.browse(now, index, vec![exchange], net);
        }
        let web = *web;
        self.webs[web as usize].exchanges.push(exchange);
        self.request(now, web, net);
    }

    /// A client that chooses as it goes has got what it asked for on this connection. Whether the connection is done with, so
    /// far as the client says.
    fn choose(&mut self, now: Time, entry: u32, web: u32, net: &mut impl Net) -> bool {
        match (&self.entries[entry as usize].app, self.players[entry as usize].client.as_deref_mut()) {
            (App::Pages(browsing), Some(Client::Reader(browser, _))) => match browser.arrived(now, browsing) {
                Then::Ask(exchange) => {
                    self.webs[web as usize].exchanges.push(exchange);
                    false
                }
                Then::Parse(at) => {
                    net.post(at, Event::Act(entry));
                    false
                }
                Then::Close => true,
                Then::Loaded(time, next) => {
                    net.meter(entry).loaded(now, time);
                    next.into_iter().for_each(|at| net.post(at, Event::Act(entry)));
                    true
                }
            },
            (App::Video(video), Some(Client::Viewer(viewer, _))) => {
                let (seen, next) = viewer.arrived(now, video);
                seen.into_iter().for_each(|(at, seen)| net.meter(entry).watched(at, seen));
                next.into_iter().for_each(|at| net.post(at, Event::Act(entry)));
                next.is_none()
            }
            _ => true,
        }
    }

    /// A client opens a web connection.
    pub(super) fn browse(&mut self, now: Time, index: u32, exchanges: Vec<Exchange>, net: &mut impl Net) {
        let web = self.webs.len() as u32;
        let request = self.connect(now, index, true, None, web, net);
        let hash = self.conns[request as usize].full.flow_hash();
        let response = self.connect(now, index, false, Some(hash), web, net);
        self.webs.push(Web { exchanges, at: 0, request, response, started: now });
        self.begin(now, index, net);
        self.conns[request as usize].sender.open(now);
        self.transmit_now(now, request, net);
    }

    pub(super) fn request(&mut self, now: Time, index: u32, net: &mut impl Net) {
        let web = &mut self.webs[index as usize];
        let conn = web.request;
        let bytes = web.exchanges[web.at].request;
        if web.at > 0 {
            web.started = now;
            let entry = self.conns[conn as usize].entry;
            self.begin(now, entry, net);
        }
        self.write(now, conn, u64::from(bytes), net);
    }

    pub(super) fn respond(&mut self, now: Time, index: u32, net: &mut impl Net) {
        let web = &self.webs[index as usize];
        let (conn, bytes) = (web.response, web.exchanges[web.at].response);
        self.accept(now, web.request, conn, net);
        self.write(now, conn, bytes, net);
    }

    /// The half of who did not open the connection sends its first: it knows of the handshake what the other half's receiver does.
    pub(super) fn accept(&mut self, now: Time, opener: u32, conn: u32, net: &impl Net) {
        if self.conns[conn as usize].sender.is_established() {
            return;
        }
        let asking = &self.conns[opener as usize];
        let (rtt, ecn) = (net.shaken(opener), asking.sender.has_ecn());
        let tunes = self.entries[asking.entry as usize].tcp.rmem.is_some();
        let back = if tunes { Span::from_micros(u64::from(asking.full.rtt_us())) } else { Span::ZERO };
        let answering = &mut self.conns[conn as usize];
        if let Some(rtt) = rtt {
            answering.full = answering.full.telling(rtt - back);
        }
        answering.sender.establish(now, rtt);
        if !ecn {
            answering.sender.forgo_ecn();
            answering.follow_ecn();
        }
    }

    pub(super) fn web_complete(&mut self, now: Time, conn: u32, index: u32, net: &mut impl Net) {
        let entry = self.conns[conn as usize].entry;
        let web = &mut self.webs[index as usize];
        if conn == web.request {
            return net.post(now + web.exchanges[web.at].server_delay, Event::Respond(index));
        }
        let Exchange { server_delay, response, .. } = web.exchanges[web.at];
        let task = Task::Answered { bytes: response, thinking: server_delay, opened: web.at == 0 };
        let started = web.started;
        web.at += 1;
        self.count_completed(now, entry, started, task, net);
        let done = self.choose(now, entry, index, net);
        let web = &self.webs[index as usize];
        match web.exchanges.get(web.at) {
            Some(next) => net.post(now + next.gap, Event::Request(index)),
            None if done => net.close(now, conn),
            None => {}
        }
    }
}
