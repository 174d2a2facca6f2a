//! What the hosts do, drawn once from scenario and seed: every world plays this list.

pub mod dist;
pub(crate) mod draw;
pub mod ideal;
mod packmime;
pub mod page;
pub mod rpm;
mod sizes;
pub mod stream;
pub mod video;
pub(crate) mod webs;

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
    /// One entry per row of the result's `flows`.
    pub entries: Vec<Entry>,
    /// Caps on simultaneous transfers; `Sizes::group` indexes it.
    pub groups: Vec<Group>,
}

/// A row of the result: one flow, or one kind with many short connections.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `bulk0`, `bulk0.1`, `web0`, … unique.
    pub name: String,
    /// `bulk`, `web`, … as in the scenario file.
    pub kind: &'static str,
    /// Which way the data goes.
    pub direction: Direction,
    /// First and last hop passed (indices, left to right, both included).
    pub via: (usize, usize),
    /// TCP at both ends.
    pub tcp: Config,
    /// The differentiated services code point of its packets, both ways.
    pub dscp: u8,
    /// The ECN field with which its datagrams or echo requests leave; of those over TCP the transport decides.
    pub ecn: Ecn,
    /// Where the base RTT beyond the hops lies.
    pub delays: Delays,
    /// The flow hash of all its connections, if they run through a tunnel; else each has one of its own.
    pub tunnel: Option<u32>,
    /// The user whose host its right end is, if it shares that host with other flows.
    pub user: Option<User>,
    /// What the application does.
    pub app: App,
}

/// A host at the right end with several flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// Which user, from 0 on in order of their first flows: below [`User::MOST`].
    pub number: u16,
    /// Which of its flows this is: below [`User::MOST_FLOWS`].
    pub flow: u16,
    /// The row of its first flow in [`Workload::entries`].
    pub first: usize,
}

impl User {
    /// Most users in a scenario.
    pub const MOST: usize = 512;
    /// Most flows of one user.
    pub const MOST_FLOWS: usize = 1024;
}

impl Entry {
    /// Whether TCP carries it.
    pub fn has_tcp(&self) -> bool {
        match &self.app {
            App::Pings { .. } => false,
            App::Stream(stream) => stream.transport == Transport::Tcp,
            _ => true,
        }
    }

    /// Whether there are requests one way and answers the other.
    pub fn answers(&self) -> bool {
        matches!(self.app, App::Web { .. } | App::Pages(_) | App::Video(_) | App::Rpm(_))
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

/// One-way delays outside the hops, as the data sender sees them. Their sum and the hops' delays are the base RTT.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Delays {
    /// From the sender to the first hop.
    pub data_in: Span,
    /// From the last hop to the receiver.
    pub data_out: Span,
    /// From the receiver to the first hop of the way back.
    pub ack_in: Span,
    /// From the last hop of the way back to the sender.
    pub ack_out: Span,
}

/// What an application does over its connection or connections. The data sender opens, except for the web, for video and
/// for tests of responsiveness.
#[derive(Clone, Debug)]
pub enum App {
    /// As much as TCP will take, in each of these windows [start, stop); one connection, opened at the first start.
    /// A window that never closes ends at [`Time::NEVER`].
    Bulk {
        /// In order, not overlapping.
        active: Vec<(Time, Time)>,
    },
    /// `size` bytes over a new connection; `gaps[k]` after completion k the next. Ends when the gaps do.
    Download {
        /// First SYN.
        start: Time,
        /// Bytes of each file.
        size: u64,
        /// Drawn so that they outlast the run.
        gaps: Vec<Span>,
        /// No new file at or after this time.
        stop: Time,
    },
    /// `bytes` of payload every `interval` over one connection.
    Thin {
        /// First write.
        start: Time,
        /// Payload of each write.
        bytes: u32,
        /// Time between writes.
        interval: Span,
        /// No write at or after this time.
        stop: Time,
    },
    /// An echo request of `bytes` IP length every `interval`, answered at once with the same length. No TCP.
    Pings {
        /// First request.
        start: Time,
        /// IP length of request and reply.
        bytes: u32,
        /// Time between requests.
        interval: Span,
        /// No request at or after this time.
        stop: Time,
    },
    /// Packets or writes at a pace of their own.
    Stream(Stream),
    /// Web connections, in order of their starts. The client is the data receiver and opens.
    Web {
        /// All connections that start within the run.
        connections: Arc<[WebConnection]>,
    },
    /// Web pages, one after the other. The client is the data receiver and opens.
    Pages(Browsing),
    /// Adaptive video over one connection. The client is the data receiver and opens.
    Video(Video),
    /// A test of responsiveness under load. The client is the host at the right end and opens.
    Rpm(Rpm),
    /// One transfer per new connection, in order of arrival; those above the group's cap wait for a place.
    Sizes {
        /// Time of arrival and bytes.
        arrivals: Vec<(Time, u64)>,
        /// Index into [`Workload::groups`], if capped.
        group: Option<usize>,
    },
}

/// One HTTP connection: opened by the client, then exchanges one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebConnection {
    /// The client's SYN.
    pub start: Time,
    /// Requests and responses, in order.
    pub exchanges: Vec<Exchange>,
}

/// One request and its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// How long the client waits before this request (after the handshake or the previous response).
    pub gap: Span,
    /// Bytes of the request.
    pub request: u32,
    /// How long the server thinks.
    pub server_delay: Span,
    /// Bytes of the response.
    pub response: u64,
}

/// A cap on simultaneous transfers of the entries that name it.
#[derive(Clone, Debug)]
pub struct Group {
    /// As in the scenario file.
    pub name: String,
    /// How many may be active at once.
    pub max_active: usize,
}
