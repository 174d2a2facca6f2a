//! The interface of the engines to the hosts.

use std::ops::Range;

use sojourn_core::tcp::Config;
use sojourn_core::units::{Span, Time};
use sojourn_measure::FlowMeter;
use sojourn_model::workload::driver;

use crate::packet::Packet;

/// An event of an application. Events at the same time are handled in this order, whatever the order in which they were
/// posted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// See [`driver::Event::Act`].
    Act(u32),
    /// The receiver of this data sender has received all of its next message.
    Complete(u32),
    /// See [`driver::Event::Request`].
    Request(u32),
    /// See [`driver::Event::Respond`].
    Respond(u32),
}

impl From<driver::Event> for Event {
    fn from(event: driver::Event) -> Event {
        match event {
            driver::Event::Act(row) => Event::Act(row),
            driver::Event::Request(conn) => Event::Request(conn),
            driver::Event::Respond(conn) => Event::Respond(conn),
        }
    }
}

/// The network as the hosts see it.
pub trait Net {
    /// Sends a packet, which leaves a data sender at `packet.time`.
    fn emit(&mut self, packet: Packet);
    /// Sends several packets, which leave a data sender at the same time. `make` builds each of them from `packet` and
    /// a number.
    #[inline]
    fn emit_run(&mut self, packet: Packet, numbers: Range<u32>, make: impl Fn(Packet, u32) -> Packet) {
        for number in numbers {
            self.emit(make(packet, number));
        }
    }
    /// Returns the meter of a row of the results.
    fn meter(&mut self, entry: u32) -> &mut FlowMeter;
    /// Requests a call of [`crate::hosts::Hosts::act`] at a time.
    fn post(&mut self, at: Time, event: Event);
    /// Reports the deadline of a sender's timer, which may have changed. `armed` is the deadline for which the timer is
    /// armed; the engine updates it.
    fn arm(&mut self, conn: u32, deadline: Time, armed: &mut Time);
    /// Creates the receiver of the next data sender. `full` is a full segment of its data.
    fn open(&mut self, config: &Config, full: &Packet, entry: u32);
    /// Requests an [`Event::Complete`] when the receiver has all segments below `target`, which increases from call to
    /// call. `closes` means that the receiver then closes the connection.
    fn expect(&mut self, conn: u32, target: u32, closes: bool);
    /// Closes the connection at the receiver of a data sender.
    fn close(&mut self, now: Time, conn: u32);
    /// Returns the RTT of the handshake as the accepter measured it; `None` if the accepter could not measure it.
    /// `conn` is the opener's sender.
    fn handshake_rtt(&self, conn: u32) -> Option<Span>;
}
