//! The record of the applications: the file `played.json` in the run's folder.

use serde::{Deserialize, Serialize};
use sojourn_core::units::Time;
use sojourn_model::workload::driver::Observation;

/// A connection. The port and the host of a packet identify its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Connection {
    /// The index of the connection's row.
    pub entry: u32,
    /// The opener's port. Echo requests and datagrams have [`super::FIRST_PORT`] here.
    pub port: u16,
    /// The time at which it was opened, in nanoseconds of the run.
    pub opened: u64,
    /// Whether the data receiver opened it.
    pub backward: bool,
}

/// The counters of the kernel's TCP (`TCP_INFO`) at an end of a connection that was open at the end of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Socket {
    /// The number of the connection, from 0 in order of opening. Echo requests and datagrams have none.
    pub connection: u32,
    /// Whether it is the end that accepted.
    pub accepter: bool,
    /// Bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Bytes retransmitted.
    pub bytes_retrans: u64,
    /// Segments sent, including ACKs.
    pub segs_out: u32,
    /// Segments received, including ACKs.
    pub segs_in: u32,
    /// Segments sent that carry data.
    pub data_segs_out: u32,
    /// Segments received that carry data.
    pub data_segs_in: u32,
    /// Segments retransmitted.
    pub total_retrans: u32,
    /// Segments known to be delivered.
    pub delivered: u32,
    /// Segments known to be delivered with CE.
    pub delivered_ce: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Smoothed RTT in microseconds.
    pub rtt_us: u32,
    /// Smallest RTT in microseconds.
    pub min_rtt_us: u32,
    /// The receive window that this end advertised last, in bytes.
    pub rcv_wnd: u32,
}

/// A program of the user's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Program {
    /// The index of its row.
    pub entry: u32,
    /// The program and its arguments, with the addresses of the hosts in them.
    pub argv: Vec<String>,
    /// Its exit code; `None` if a signal ended it.
    pub exit: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// True if its `stop` or the end of the run ended it, and not the program itself.
    pub stopped: bool,
    /// The times at which it was started and had ended, in nanoseconds of the run.
    pub times: [u64; 2],
    /// The ends of its standard output and its standard error.
    pub said: [String; 2],
}

/// The record of a run.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Played {
    /// All connections in order of opening. The echo requests or the datagrams of a row count as one connection.
    pub connections: Vec<Connection>,
    /// The observations: time in nanoseconds of the run, index of the row, and what was seen.
    pub events: Vec<(u64, u32, Observation)>,
    /// The number of transfers of each row that have started and are not complete at the end.
    pub unfinished: Vec<u64>,
    /// The counters of TCP at both ends of each open connection.
    pub sockets: Vec<Socket>,
    /// The programs of the user's, in the order of their rows.
    pub programs: Vec<Program>,
}

impl Played {
    /// Records what a row's application or its host saw.
    pub fn note(&mut self, at: Time, row: u32, seen: Observation) {
        self.events.push((at.0, row, seen));
    }
}
