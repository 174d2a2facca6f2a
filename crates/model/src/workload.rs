//! The workload of a run: a list of what each host does. It is drawn once, from the scenario and its seed. Every world plays the
//! same list with the same code ([`driver`]).

pub mod dist;
pub(crate) mod draw;
pub mod driver;
pub mod ideal;
mod packmime;
pub mod page;
pub mod rpm;
mod sizes;
pub mod stream;
pub mod video;
pub(crate) mod webs;

use std::collections::BTreeMap;
use std::sync::Arc;

use sojourn_core::packet::Ecn;
use sojourn_core::tcp::Config;
use sojourn_core::units::{Span, Time};

use page::Browsing;
use rpm::Rpm;
use stream::{Stream, Transport};
use video::Video;

/// All flows of a run.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// One entry per flow, or per group of many short connections. Each is a row of the result's `flows`, except that the
    /// entries of a pool share a row ([`Workload::pools`]).
    pub entries: Vec<Entry>,
    /// Caps on simultaneous transfers, indexed by [`App::Sizes`].
    pub groups: Vec<Group>,
}

impl Workload {
    /// Returns for each entry the index of its row in the result's `flows`. Rows are in the order of their first entries.
    pub fn pools(&self) -> Vec<usize> {
        let (mut known, mut rows) = (BTreeMap::new(), 0..);
        let mut next = || rows.next().expect("there are fewer entries than numbers");
        let row = |entry: &Entry| match &entry.pool {
            Some(pool) => *known.entry(pool.clone()).or_insert_with(&mut next),
            None => next(),
        };
        self.entries.iter().map(row).collect()
    }

    /// Returns why a world without programs cannot play these flows; `None` if it can.
    pub fn refusal_of_programs(&self) -> Option<String> {
        let entry = self.entries.iter().find(|entry| matches!(entry.app, App::Command(_)))?;
        Some(format!("flow {}: command: only the live world runs programs; expected --world live", entry.name))
    }

    /// Memory is reserved for at most this many connections. A scenario may have millions of arrivals, most of which never start.
    const MOST_RESERVED: usize = 1 << 16;

    /// The number of connections to reserve memory for, so that a growing list need not be moved.
    pub fn connections(&self) -> usize {
        self.entries.iter().map(Entry::connections).sum::<usize>().min(Self::MOST_RESERVED)
    }

    /// The number of data senders to reserve memory for: two for a connection on which both ends send, otherwise one.
    pub fn senders(&self) -> usize {
        let of = |entry: &Entry| entry.connections() * if entry.answers() { 2 } else { 1 };
        self.entries.iter().map(of).sum::<usize>().min(Self::MOST_RESERVED)
    }
}

/// One flow, or many short connections of one kind.
#[derive(Clone, Debug)]
pub struct Entry {
    /// A unique name: `bulk0`, `bulk0.1`, `web0`, …
    pub name: String,
    /// The name of its pool: of the row of the result that it shares with other entries, which have the same kind and direction.
    pub pool: Option<String>,
    /// The kind in the scenario file: `bulk`, `web`, …
    pub kind: &'static str,
    /// The direction of the data.
    pub direction: Direction,
    /// The first and the last hop that the packets pass, counted from the left. Both are included.
    pub via: (usize, usize),
    /// The configuration of TCP at both ends.
    pub tcp: Config,
    /// The differentiated services code point of all packets, in both directions.
    pub dscp: u8,
    /// The ECN field with which datagrams and echo requests leave. TCP sets the ECN field of its segments itself.
    pub ecn: Ecn,
    /// The delays outside the hops. Together with the delays of the hops, they make up the base RTT.
    pub delays: Delays,
    /// The flow hash of all connections, if they run through a tunnel. Otherwise each connection has a hash of its own.
    pub tunnel: Option<u32>,
    /// The user at the right end, if the row shares that host with other rows.
    pub user: Option<User>,
    /// The application.
    pub app: App,
}

/// The position of a row among the flows of a user. A user is a host at the right end that has several flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// The number of the user, from 0 in the order of the users' first flows. It is below [`User::MOST`].
    pub number: u16,
    /// The number of this flow among those of the user, from 0. It is below [`User::MOST_FLOWS`].
    pub flow: u16,
    /// The index of the user's first flow in [`Workload::entries`].
    pub first: usize,
}

impl User {
    /// The largest number of users in a scenario.
    pub const MOST: usize = 512;
    /// The largest number of flows of one user.
    pub const MOST_FLOWS: usize = 1024;
}

impl Entry {
    /// The number of connections that is known before the run.
    fn connections(&self) -> usize {
        match &self.app {
            App::Web { connections } => connections.len(),
            App::Sizes { arrivals, .. } => arrivals.len(),
            _ => 1,
        }
    }

    /// Returns whether the row uses TCP of ours.
    pub fn has_tcp(&self) -> bool {
        match &self.app {
            App::Pings { .. } | App::Command(_) => false,
            App::Stream(stream) => stream.transport == Transport::Tcp,
            _ => true,
        }
    }

    /// Returns whether both ends send data: one end sends requests, and the other sends responses. Any end of a program's
    /// connections may send.
    pub fn answers(&self) -> bool {
        matches!(self.app, App::Web { .. } | App::Pages(_) | App::Video(_) | App::Rpm(_) | App::Command(_))
    }

    /// Returns whether the data receiver opens the connections. This is so for clients of web and video servers, and for a test
    /// of responsiveness that downloads.
    pub fn receiver_opens(&self) -> bool {
        // The client of a test of responsiveness is always the host at the right end.
        self.answers() && !(matches!(self.app, App::Rpm(_)) && self.direction == Direction::Left)
    }
}

/// The direction of a flow's data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// From the left end to the right end.
    Right,
    /// From the right end to the left end.
    Left,
}

/// One-way delays outside the hops. Their sum and the delays of the hops, there and back, are the base RTT.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Delays {
    /// From the data sender to the first hop.
    pub data_in: Span,
    /// From the last hop to the data receiver.
    pub data_out: Span,
    /// From the data receiver to the first hop of the way back.
    pub ack_in: Span,
    /// From the last hop of the way back to the data sender.
    pub ack_out: Span,
}

/// An application and its parameters. The data sender opens the connections, unless [`Entry::receiver_opens`] is true.
#[derive(Clone, Debug)]
pub enum App {
    /// Sends as much as TCP takes in each of these windows [start, stop), over one connection that is opened at the first start.
    /// A window without a stop ends at [`Time::NEVER`].
    Bulk {
        /// The windows in order. They do not overlap.
        active: Vec<(Time, Time)>,
    },
    /// Sends files of `size` bytes one after the other, each over a new connection. File k + 1 starts `gaps[k]` after file k is
    /// complete. The last file is the one for which there is no gap.
    Download {
        /// The time of the first SYN.
        start: Time,
        /// The size of each file in bytes.
        size: u64,
        /// Enough gaps to outlast the run.
        gaps: Vec<Span>,
        /// No file starts at or after this time.
        stop: Time,
    },
    /// Writes `bytes` of payload every `interval`, over one connection.
    Thin {
        /// The time of the first write.
        start: Time,
        /// The payload of each write in bytes.
        bytes: u32,
        /// The time between two writes.
        interval: Span,
        /// No write happens at or after this time.
        stop: Time,
    },
    /// Sends an echo request every `interval`. The other host replies at once, with the same length.
    Pings {
        /// The time of the first request.
        start: Time,
        /// The IP length of request and reply in bytes.
        bytes: u32,
        /// The time between two requests.
        interval: Span,
        /// No request leaves at or after this time.
        stop: Time,
    },
    /// Sends datagrams, or writes over one connection, at a fixed pace that does not react to the receiver.
    Stream(Stream),
    /// Web connections with drawn exchanges.
    Web {
        /// The connections that start within the run, in order of their starts.
        connections: Arc<[WebConnection]>,
    },
    /// A reader opens web pages, one after the other.
    Pages(Browsing),
    /// A viewer watches adaptive video over one connection.
    Video(Video),
    /// A test of responsiveness under load. The client is the host at the right end.
    Rpm(Rpm),
    /// Transfers of drawn sizes, each over a new connection. A transfer waits while its group has reached its cap.
    Sizes {
        /// Time of arrival and size in bytes, in order of arrival.
        arrivals: Vec<(Time, u64)>,
        /// The index into [`Workload::groups`], if there is a cap.
        group: Option<usize>,
    },
    /// A program of the user's, which the world starts.
    Command(Command),
}

/// A program of the user's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The program and its arguments, never empty.
    pub argv: Arc<[String]>,
    /// Where it runs.
    pub at: Host,
    /// The time at which it is started.
    pub start: Time,
    /// The time at which it is ended, if it still runs; [`Time::NEVER`] for the end of the run.
    pub stop: Time,
}

/// A host of a program of the user's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Host {
    /// The host right of the path, where packets of the downlink arrive.
    Client,
    /// The host left of the path.
    Server,
}

impl Host {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Host::Client => "client",
            Host::Server => "server",
        }
    }
}

/// An HTTP connection: the client opens it, and the exchanges follow one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebConnection {
    /// The time of the client's SYN.
    pub start: Time,
    /// The exchanges in order.
    pub exchanges: Vec<Exchange>,
}

/// A request and its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// The time from the handshake, or from the previous response, to the request.
    pub gap: Span,
    /// The size of the request in bytes.
    pub request: u32,
    /// The time from the arrival of the request to the response.
    pub server_delay: Span,
    /// The size of the response in bytes.
    pub response: u64,
}

/// A cap on the simultaneous transfers of the rows that name it.
#[derive(Clone, Debug)]
pub struct Group {
    /// The name in the scenario file.
    pub name: String,
    /// The largest number of transfers that are active at once.
    pub max_active: usize,
}
