//! Observations of applications. A world passes them to the meter of the row, either at once or through a file.

use serde::{Deserialize, Serialize};
use sojourn_core::units::{Rate, Span, Time};

use crate::workload::rpm::Timed;
use crate::workload::video::Seen;

/// An observation of an application or of the host below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Observation {
    /// A transfer or an exchange started.
    Started,
    /// The application that sends data over a new connection can begin: this long after the SYN, the handshake was complete
    /// or, if the other end asks for the data first, the server had the answer to the first request.
    Began(#[serde(with = "Nanoseconds")] Span),
    /// The last byte of a transfer or an exchange reached its receiver.
    Completed {
        /// The time that it took.
        #[serde(with = "Nanoseconds")]
        took: Span,
        /// The time that it would have taken on an empty path.
        #[serde(with = "Nanoseconds")]
        ideal: Span,
    },
    /// The last byte of a web page reached the reader, this long after the page's first SYN.
    Loaded(#[serde(with = "Nanoseconds")] Span),
    /// The viewer of a video saw this event.
    Watched(Seen),
    /// A probe of a test of responsiveness took this long.
    Probed(Timed, #[serde(with = "Nanoseconds")] Span),
    /// An interval of a test of responsiveness ended. Its load moved this many bytes in the interval.
    Interval(u64),
    /// An echo request left.
    Pinged,
    /// The reply to an echo request came, this long after the request left.
    Replied(#[serde(with = "Nanoseconds")] Span),
    /// The next datagram of a stream left.
    Sent,
    /// A datagram of a stream arrived.
    Received {
        /// Its number in the stream, from 0.
        number: u32,
        /// When it left.
        #[serde(with = "Moment")]
        sent: Time,
    },
}

/// Writes a span as nanoseconds.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Span")]
pub(crate) struct Nanoseconds(u64);

/// Writes a time as nanoseconds of the run.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Time")]
struct Moment(u64);

/// Writes a rate as bits per second.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Rate")]
pub(crate) struct BitsPerSecond(u64);
