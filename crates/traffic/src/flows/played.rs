//! What the applications did: the file `played.json` in the run's folder.

use serde::{Deserialize, Serialize};
use sojourn_core::units::{Span, Time};

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
    /// A transfer's last byte was at its receiver, so many nanoseconds after its begin.
    Completed(u64),
    /// An echo request left.
    Ping,
    /// Its reply came, so many nanoseconds later.
    Reply(u64),
}

/// Everything, in order of time.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Played {
    /// All connections.
    pub connections: Vec<Connection>,
    /// Time, row of the result, and what happened.
    pub events: Vec<(u64, u32, What)>,
    /// Of each row: transfers begun and not complete at the end.
    pub unfinished: Vec<u64>,
}

impl Played {
    /// Notes what an entry's application saw.
    pub fn note(&mut self, now: Time, entry: u32, what: What) {
        self.events.push((now.0, entry, what));
    }

    /// Notes a transfer's end.
    pub fn completed(&mut self, now: Time, entry: u32, fct: Span) {
        self.note(now, entry, What::Completed(fct.0));
    }
}
