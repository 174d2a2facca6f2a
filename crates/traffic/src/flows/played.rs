//! What the applications did: the file `played.json` in the run's folder.

use serde::{Deserialize, Serialize};
use sojourn_core::units::{Span, Time};
use sojourn_model::workload::video::Seen;

/// A connection, in order of opening: a packet's port and host say to which it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Connection {
    /// The row of the result.
    pub entry: u32,
    /// The opener's port (a ping's identifier).
    pub port: u16,
    /// When it was opened, in nanoseconds of the run.
    pub opened: u64,
    /// Whether the data's receiver opened it (the web).
    pub backward: bool,
}

/// What an application saw, at a time in nanoseconds of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// A transfer began.
    Started,
    /// A transfer's last byte was at its receiver, so many nanoseconds after its begin; and how many it would have been on an
    /// empty path.
    Completed(u64, u64),
    /// An echo request left.
    Ping,
    /// Its reply came, so many nanoseconds later.
    Reply(u64),
    /// A page was there, so many nanoseconds after its begin.
    Loaded(u64),
    /// A piece of a video came: bits per second of its quality, and whether that is another one than before.
    Piece(u64, bool),
    /// A video's picture moved for the first time, so many nanoseconds after its start.
    Begun(u64),
    /// It stood still for so many nanoseconds from then on.
    Stalled(u64),
    /// The next datagram of a stream left.
    Datagram,
    /// A datagram of a stream came.
    Heard {
        /// Its number.
        number: u32,
        /// When it was sent.
        sent: u64,
    },
}

/// What the kernel's TCP counted at an end of a connection that was open at the end of the run (`TCP_INFO`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Socket {
    /// The connection's number.
    pub connection: u32,
    /// Whether it is the end that accepted.
    pub accepter: bool,
    /// Bytes that were sent, again or not.
    pub bytes_sent: u64,
    /// Bytes that were acknowledged.
    pub bytes_acked: u64,
    /// Bytes that came in order.
    pub bytes_received: u64,
    /// Bytes sent again.
    pub bytes_retrans: u64,
    /// Segments that left, ACKs included.
    pub segs_out: u32,
    /// Segments that came, ACKs included.
    pub segs_in: u32,
    /// Segments with data that left.
    pub data_segs_out: u32,
    /// Segments with data that came.
    pub data_segs_in: u32,
    /// Segments sent again.
    pub total_retrans: u32,
    /// Segments known to have been delivered.
    pub delivered: u32,
    /// And of these, with CE.
    pub delivered_ce: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Smoothed RTT in microseconds.
    pub rtt_us: u32,
    /// Least RTT in microseconds.
    pub min_rtt_us: u32,
    /// The window that the receiver offers at last, in bytes.
    pub rcv_wnd: u32,
}

/// Everything, in order of time.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Played {
    /// All connections.
    pub connections: Vec<Connection>,
    /// Time, row of the result, and what happened.
    pub events: Vec<(u64, u32, What)>,
    /// Of each row: transfers begun and not complete at the end.
    pub unfinished: Vec<u64>,
    /// What TCP counted, at both ends of each open connection.
    pub sockets: Vec<Socket>,
}

impl Played {
    /// Notes what an entry's application saw.
    pub fn note(&mut self, now: Time, entry: u32, what: What) {
        self.events.push((now.0, entry, what));
    }

    /// Notes a transfer's end.
    pub fn completed(&mut self, now: Time, entry: u32, fct: Span, ideal: Span) {
        self.note(now, entry, What::Completed(fct.0, ideal.0));
    }

    /// Notes what a viewer saw.
    pub fn watched(&mut self, now: Time, entry: u32, seen: Seen) {
        let what = match seen {
            Seen::Piece(quality, switched) => What::Piece(quality.0, switched),
            Seen::Begun(after) => What::Begun(after.0),
            Seen::Stalled(time) => What::Stalled(time.0),
        };
        self.note(now, entry, what);
    }
}
