//! Tests of responsiveness: connections with load, and probes beside and on them.
//!
//! As for the web, a connection is two that share a handshake, one for each way. A self probe rides on the load: as the
//! first bytes of the next segment that the sender puts together, for nothing waits in its buffer but what TCP takes at
//! once (the draft asks for TCP_NOTSENT_LOWAT). From there on its time is the load's own: the window, the queue, and the
//! repair of what was lost before it, for data is delivered in order. Not modelled: TLS on the connections with load, and
//! processing at the ends.

use std::collections::VecDeque;

use sojourn_core::packet::Packet as _;
use sojourn_core::units::Time;
use sojourn_measure::responsiveness::Timed;
use sojourn_model::workload::Direction;
use sojourn_model::workload::rpm::{Do, FLIGHT, GET, HELLO, OBJECT, Rpm};

use super::{App, Client, Hosts, Net};

/// A connection of a test.
pub(super) struct Dial {
    client: u32,
    server: u32,
    stage: Stage,
    /// When the stage began.
    since: Time,
    /// When the self probes on it were sent that are not answered yet.
    asked: VecDeque<Time>,
}

/// What a connection is waiting for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Of a foreign probe: the SYN-ACK.
    Tcp,
    /// The server's first message of TLS.
    Tls,
    /// The answer.
    Http,
    /// That it can carry load.
    Opening,
    /// It carries load.
    Loading,
}

/// Whether the client receives the load.
fn downloads(direction: Direction) -> bool {
    direction == Direction::Right
}

impl Hosts<'_> {
    /// The tester's time has come; gives the next.
    pub(super) fn probe(&mut self, now: Time, index: u32, rpm: &Rpm, net: &mut impl Net) -> Option<Time> {
        let moved = self.moved(index);
        let Some(Client::Tester(tester, _)) = self.players[index as usize].client.as_deref_mut() else { return None };
        let (due, next) = tester.act(now, moved, rpm);
        for one in due {
            match one {
                Do::Close(bytes) => net.meter(index).interval(bytes),
                Do::Load => {
                    let dial = self.dial(now, index, Stage::Opening, net);
                    if let Some(Client::Tester(_, loads)) = self.players[index as usize].client.as_deref_mut() {
                        loads.push(dial);
                    }
                }
                Do::Foreign => {
                    self.dial(now, index, Stage::Tcp, net);
                }
                Do::Own => self.ask_under_load(now, index, net),
                Do::Stop => self.loads(index).into_iter().for_each(|dial| {
                    let conn = self.bulk(index, dial);
                    self.conns[conn as usize].sender.stop();
                }),
            }
        }
        next
    }

    /// The connections that carry load by now.
    fn loads(&self, index: u32) -> Vec<u32> {
        let Some(Client::Tester(_, loads)) = self.players[index as usize].client.as_deref() else { return Vec::new() };
        loads.iter().copied().filter(|&dial| self.dials[dial as usize].stage == Stage::Loading).collect()
    }

    /// The half that carries the load.
    fn bulk(&self, index: u32, dial: u32) -> u32 {
        let Dial { client, server, .. } = self.dials[dial as usize];
        if downloads(self.entries[index as usize].direction) { server } else { client }
    }

    /// Bytes that the connections with load have moved, by what their senders know.
    fn moved(&self, index: u32) -> u64 {
        let bytes = |dial: u32| {
            let conn = &self.conns[self.bulk(index, dial) as usize];
            u64::from(conn.sender.acked()) * u64::from(conn.full.ip_bytes() - conn.header)
        };
        self.loads(index).into_iter().map(bytes).sum()
    }

    /// The client opens a connection.
    fn dial(&mut self, now: Time, index: u32, stage: Stage, net: &mut impl Net) -> u32 {
        let dial = self.dials.len() as u32;
        let down = downloads(self.entries[index as usize].direction);
        let client = self.connect(now, index, down, None, dial, net);
        let hash = self.conns[client as usize].full.flow_hash();
        let server = self.connect(now, index, !down, Some(hash), dial, net);
        self.dials.push(Dial { client, server, stage, since: now, asked: VecDeque::new() });
        self.conns[client as usize].sender.open(now);
        self.transmit_now(now, client, net);
        dial
    }

    /// The SYN-ACK has come to a client.
    pub(super) fn connected(&mut self, now: Time, index: u32, net: &mut impl Net) {
        let Dial { client, stage, .. } = self.dials[index as usize];
        let entry = self.conns[client as usize].entry;
        let app = &self.entries[entry as usize];
        match stage {
            Stage::Tcp => {
                let tls = matches!(&app.app, App::Rpm(Rpm { tls: true, .. }));
                self.timed(now, index, Timed::Tcp, net);
                self.ask(now, index, if tls { Stage::Tls } else { Stage::Http }, net);
            }
            Stage::Opening if downloads(app.direction) => self.ask(now, index, Stage::Opening, net),
            _ => self.load(now, index, client, net),
        }
    }

    /// This half of a connection carries load from now on.
    fn load(&mut self, now: Time, index: u32, conn: u32, net: &mut impl Net) {
        self.dials[index as usize].stage = Stage::Loading;
        self.conns[conn as usize].sender.write_forever();
        self.transmit_now(now, conn, net);
    }

    /// A stage took so long.
    fn timed(&mut self, now: Time, index: u32, what: Timed, net: &mut impl Net) {
        let Dial { client, since, .. } = self.dials[index as usize];
        net.meter(self.conns[client as usize].entry).probed(what, now.since(since));
    }

    /// The client asks for the next thing on a connection of its own, or for the load.
    fn ask(&mut self, now: Time, index: u32, stage: Stage, net: &mut impl Net) {
        let dial = &mut self.dials[index as usize];
        (dial.stage, dial.since) = (stage, now);
        let (client, bytes) = (dial.client, if stage == Stage::Tls { HELLO } else { GET });
        self.write(now, client, u64::from(bytes), net);
    }

    /// The client asks on a connection with load.
    fn ask_under_load(&mut self, now: Time, index: u32, net: &mut impl Net) {
        let loads = self.loads(index);
        let Some(Client::Tester(tester, _)) = self.players[index as usize].client.as_deref_mut() else { return };
        if loads.is_empty() {
            return;
        }
        let dial = loads[tester.choose(loads.len())];
        self.dials[dial as usize].asked.push_back(now);
        let client = self.dials[dial as usize].client;
        self.write_under_load(now, (index, dial), client, u64::from(GET), net);
    }

    /// A request or an answer on a connection with load: in the midst of that, or on the other half alone.
    fn write_under_load(&mut self, now: Time, (index, dial): (u32, u32), conn: u32, bytes: u64, net: &mut impl Net) {
        if conn == self.bulk(index, dial) {
            net.expect(conn, self.conns[conn as usize].sender.sent() + 1);
        } else {
            self.write(now, conn, bytes, net);
        }
    }

    /// A request has come to the server, or an answer to the client.
    pub(super) fn dial_complete(&mut self, now: Time, conn: u32, index: u32, net: &mut impl Net) {
        let Dial { client, server, stage, .. } = self.dials[index as usize];
        if conn == client {
            return self.answer(now, index, net);
        }
        debug_assert_eq!(conn, server, "a connection has two halves");
        match stage {
            Stage::Tls => {
                self.timed(now, index, Timed::Tls, net);
                self.ask(now, index, Stage::Http, net);
            }
            Stage::Loading => {
                let entry = self.conns[conn as usize].entry;
                if let Some(asked) = self.dials[index as usize].asked.pop_front() {
                    net.meter(entry).probed(Timed::Loaded, now.since(asked));
                }
            }
            _ => {
                self.timed(now, index, Timed::Http, net);
                net.close(now, server);
            }
        }
    }

    fn answer(&mut self, now: Time, index: u32, net: &mut impl Net) {
        let Dial { client, server, stage, .. } = self.dials[index as usize];
        self.accept(now, client, server, net);
        let entry = self.conns[client as usize].entry;
        match stage {
            Stage::Opening => self.load(now, index, server, net),
            Stage::Loading => self.write_under_load(now, (entry, index), server, OBJECT, net),
            Stage::Tls => self.write(now, server, FLIGHT, net),
            _ => self.write(now, server, OBJECT, net),
        }
    }
}
