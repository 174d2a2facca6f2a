//! Tests of responsiveness: connections that carry load, and probes on separate connections and on those with load.
//!
//! A self probe is a [`Data::Message`] on a connection with load. In the direction of the load, TCP sends it as the
//! next bytes after those that it has taken already. Its time therefore includes the window and the queue of the load,
//! and the retransmission of earlier losses, because TCP delivers in order. A world lets no data wait between the
//! application and TCP in that direction (the draft asks for TCP_NOTSENT_LOWAT).
//!
//! Not modelled: TLS on the connections with load, and the processing time of the ends.

use std::collections::VecDeque;

use sojourn_core::units::Time;

use super::{Client, Data, Driver, End, Observation, Stack, Usage};
use crate::workload::rpm::{FLIGHT, GET, HELLO, OBJECT, Rpm, Step, Timed};
use crate::workload::{App, Direction};

/// A connection of a test.
pub(super) struct Dial {
    stage: Stage,
    /// When the stage began.
    since: Time,
    /// The times at which those self probes were sent that have no response yet.
    asked: VecDeque<Time>,
}

/// The event for which a connection of a test waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A foreign probe waits for the SYN-ACK.
    Tcp,
    /// A foreign probe waits for the server's first message of TLS.
    Tls,
    /// A foreign probe waits for the response to its request.
    Http,
    /// A connection that will carry load is not ready: its handshake is not complete, or the server waits for the request.
    Opening,
    /// The connection carries load.
    Loading,
}

impl Driver<'_> {
    /// Does the steps of a test that are due now. Returns the time of the next call.
    pub(super) fn probe<S: Stack>(
        &mut self,
        now: Time,
        row: u32,
        rpm: &Rpm,
        stack: &mut S,
    ) -> Result<Option<Time>, S::Error> {
        let moved = self.moved(row, stack)?;
        let Some(Client::Tester(tester, _)) = self.players[row as usize].client.as_deref_mut() else {
            return Ok(None);
        };
        let (due, next) = tester.act(now, moved, rpm);
        for step in due {
            match step {
                Step::Close(bytes) => stack.note(now, row, Observation::Interval(bytes)),
                Step::Load => {
                    let conn = self.dial(now, row, Stage::Opening, stack)?;
                    if let Some(Client::Tester(_, loads)) = self.players[row as usize].client.as_deref_mut() {
                        loads.push(conn);
                    }
                }
                Step::Foreign => {
                    self.dial(now, row, Stage::Tcp, stack)?;
                }
                Step::Own => self.ask_under_load(now, row, stack)?,
                Step::Stop => {
                    self.loads(row).into_iter().try_for_each(|conn| stack.stop(conn, self.loaded_end(row)))?;
                }
            }
        }
        Ok(next)
    }

    /// Returns the connections that carry load now.
    fn loads(&self, row: u32) -> Vec<u32> {
        let Some(Client::Tester(_, loads)) = self.players[row as usize].client.as_deref() else { return Vec::new() };
        let is_loaded = |conn: &u32| self.dial_of(*conn).is_some_and(|dial| dial.stage == Stage::Loading);
        loads.iter().copied().filter(is_loaded).collect()
    }

    /// The end that sends the load of a test.
    fn loaded_end(&self, row: u32) -> End {
        // The client is the host at the right end, and opens.
        match self.entries[row as usize].direction {
            Direction::Right => End::Accepter,
            Direction::Left => End::Opener,
        }
    }

    /// Returns the bytes that the connections with load have moved, as far as their senders have received ACKs.
    fn moved<S: Stack>(&self, row: u32, stack: &mut S) -> Result<u64, S::Error> {
        let end = self.loaded_end(row);
        self.loads(row).into_iter().try_fold(0, |sum, conn| Ok(sum + stack.acked(conn, end)?))
    }

    /// Opens a connection from the client, which waits in this stage.
    fn dial<S: Stack>(&mut self, now: Time, row: u32, stage: Stage, stack: &mut S) -> Result<u32, S::Error> {
        let dial = Dial { stage, since: now, asked: VecDeque::new() };
        self.connect(now, row, Usage::Dial(Box::new(dial)), stack)
    }

    fn dial_of(&self, conn: u32) -> Option<&Dial> {
        match &self.connections[conn as usize].usage {
            Usage::Dial(dial) => Some(dial),
            Usage::Lasting | Usage::Transfer(_) | Usage::Exchanges { .. } => None,
        }
    }

    fn dial_of_mut(&mut self, conn: u32) -> Option<&mut Dial> {
        match &mut self.connections[conn as usize].usage {
            Usage::Dial(dial) => Some(dial),
            Usage::Lasting | Usage::Transfer(_) | Usage::Exchanges { .. } => None,
        }
    }

    /// Handles the end of a connection's handshake at the client.
    pub(super) fn dialled<S: Stack>(&mut self, now: Time, conn: u32, stack: &mut S) -> Result<(), S::Error> {
        let row = self.connections[conn as usize].row;
        match (self.dial_of(conn).map(|dial| dial.stage), self.loaded_end(row)) {
            (Some(Stage::Tcp), _) => {
                self.timed(now, conn, Timed::Tcp, stack);
                let tls = matches!(&self.entries[row as usize].app, App::Rpm(Rpm { tls: true, .. }));
                self.ask(now, conn, if tls { Stage::Tls } else { Stage::Http }, stack)
            }
            (_, End::Accepter) => self.ask(now, conn, Stage::Opening, stack),
            (_, End::Opener) => self.load(now, conn, End::Opener, stack),
        }
    }

    /// Starts the load at this end of a connection.
    fn load<S: Stack>(&mut self, now: Time, conn: u32, end: End, stack: &mut S) -> Result<(), S::Error> {
        if let Some(dial) = self.dial_of_mut(conn) {
            dial.stage = Stage::Loading;
        }
        stack.write(now, conn, end, Data::Endless)
    }

    /// Records the duration of a foreign probe's stage that is complete.
    fn timed<S: Stack>(&mut self, now: Time, conn: u32, timed: Timed, stack: &mut S) {
        if let Some(dial) = self.dial_of(conn) {
            let took = now.since(dial.since);
            stack.note(now, self.connections[conn as usize].row, Observation::Probed(timed, took));
        }
    }

    /// Sends the next request of a foreign probe, or the request that makes the server start its load.
    fn ask<S: Stack>(&mut self, now: Time, conn: u32, stage: Stage, stack: &mut S) -> Result<(), S::Error> {
        if let Some(dial) = self.dial_of_mut(conn) {
            (dial.stage, dial.since) = (stage, now);
        }
        let bytes = if stage == Stage::Tls { HELLO } else { GET };
        stack.write(now, conn, End::Opener, Data::Message(u64::from(bytes)))
    }

    /// Sends a self probe from the client, on one of the connections with load.
    fn ask_under_load<S: Stack>(&mut self, now: Time, row: u32, stack: &mut S) -> Result<(), S::Error> {
        let loads = self.loads(row);
        let Some(Client::Tester(tester, _)) = self.players[row as usize].client.as_deref_mut() else {
            return Ok(());
        };
        if loads.is_empty() {
            return Ok(());
        }
        let conn = loads[tester.choose(loads.len())];
        if let Some(dial) = self.dial_of_mut(conn) {
            dial.asked.push_back(now);
        }
        stack.write(now, conn, End::Opener, Data::Message(u64::from(GET)))
    }

    /// Handles the arrival of a request at the server, or of a response at the client.
    pub(super) fn dial_arrived<S: Stack>(
        &mut self,
        now: Time,
        conn: u32,
        end: End,
        stack: &mut S,
    ) -> Result<(), S::Error> {
        let Some(stage) = self.dial_of(conn).map(|dial| dial.stage) else { return Ok(()) };
        match (end, stage) {
            (End::Accepter, Stage::Opening) => self.load(now, conn, End::Accepter, stack),
            (End::Accepter, Stage::Tls) => stack.write(now, conn, End::Accepter, Data::Message(FLIGHT)),
            (End::Accepter, _) => stack.write(now, conn, End::Accepter, Data::Message(OBJECT)),
            (End::Opener, Stage::Tls) => {
                self.timed(now, conn, Timed::Tls, stack);
                self.ask(now, conn, Stage::Http, stack)
            }
            (End::Opener, Stage::Loading) => {
                let row = self.connections[conn as usize].row;
                if let Some(asked) = self.dial_of_mut(conn).and_then(|dial| dial.asked.pop_front()) {
                    stack.note(now, row, Observation::Probed(Timed::Loaded, now.since(asked)));
                }
                Ok(())
            }
            (End::Opener, _) => {
                self.timed(now, conn, Timed::Http, stack);
                stack.close(now, conn, End::Opener)
            }
        }
    }
}
