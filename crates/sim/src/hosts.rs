//! The end hosts: the applications, and below them the data senders of all connections. Both engines drive these.

use std::convert::Infallible;

use sojourn_core::tcp::Counters;
use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::driver::{self, Data, Driver, End, Observation, Stack};
use sojourn_model::workload::video::Seen;

use crate::ends::AckOptions;
use crate::net::{Event, Net};
use crate::packet::{ACK, CLOSING, DATAGRAM, PING, Packet};
use crate::senders::Senders;
use crate::topology::Topology;

/// The hosts of a run.
pub struct Hosts<'a> {
    driver: Driver<'a>,
    /// The data senders.
    pub senders: Senders<'a>,
}

impl<'a> Hosts<'a> {
    /// Returns the counters of all senders together.
    pub fn counters(&self) -> Counters {
        self.senders.counters()
    }

    /// Creates the hosts of a run, before any application starts. `series` asks for samples of cwnd and srtt.
    pub fn new(scenario: &'a Scenario, topology: &'a Topology, series: bool) -> Hosts<'a> {
        Hosts { driver: Driver::new(scenario), senders: Senders::new(scenario, topology, series) }
    }

    /// Posts the first act of each row. No start is shifted: a scenario without random draws gives the same result for every
    /// seed.
    pub fn start(&mut self, net: &mut impl Net) {
        self.driver.start(|_| Span::ZERO, &mut Host { senders: &mut self.senders, net });
    }

    /// Handles a packet that reaches the host of a data sender: an ACK, a FIN, a SYN-ACK, or the reply to an echo
    /// request.
    #[inline(always)]
    pub fn receive(&mut self, now: Time, packet: Packet, options: &AckOptions, net: &mut impl Net) {
        if matches!(packet.code(), ACK | CLOSING) {
            self.senders.receive(now, packet, options, net);
        } else {
            self.receive_reply(now, packet, net);
        }
    }

    #[cold]
    fn receive_reply(&mut self, now: Time, packet: Packet, net: &mut impl Net) {
        if packet.code() == PING {
            return self.senders.receive_echo_reply(now, packet, net);
        }
        let established = self.senders.receive_syn_ack(now, packet, net);
        if let Some(conn) = established {
            let Ok(()) = self.driver.connected(now, conn, &mut Host { senders: &mut self.senders, net });
        }
        self.senders.transmit_now(now, packet.conn(), net);
    }

    /// Handles an event of an application that is due.
    pub fn act(&mut self, now: Time, event: Event, net: &mut impl Net) {
        let (driver, host) = (&mut self.driver, &mut Host { senders: &mut self.senders, net });
        let Ok(()) = match event {
            Event::Act(row) => driver.act(now, driver::Event::Act(row), host),
            Event::Request(conn) => driver.act(now, driver::Event::Request(conn), host),
            Event::Respond(conn) => driver.act(now, driver::Event::Respond(conn), host),
            Event::Complete(sender) => {
                let (conn, end) = host.senders.receiver_of(sender);
                driver.arrived(now, conn, end, host)
            }
        };
    }

    /// Returns the number of transfers that have started and are not complete, by row.
    pub fn unfinished(&self) -> Vec<u64> {
        self.driver.unfinished()
    }

    /// Returns the stalls of videos that last to the end of the run: row, time, and what the viewer sees.
    pub fn stalls(&self) -> Vec<(u32, Time, Seen)> {
        self.driver.stalls()
    }
}

/// The hosts as the applications use them. No call fails, and no time passes between an application and its host.
struct Host<'h, 'a, N> {
    senders: &'h mut Senders<'a>,
    net: &'h mut N,
}

impl<N: Net> Stack for Host<'_, '_, N> {
    type Error = Infallible;

    fn connect(&mut self, now: Time, row: u32) -> Result<(), Infallible> {
        self.senders.open(now, row, self.net);
        Ok(())
    }

    fn write(&mut self, now: Time, conn: u32, end: End, data: Data) -> Result<(), Infallible> {
        self.senders.write(now, conn, end, data, self.net);
        Ok(())
    }

    fn stop(&mut self, conn: u32, end: End) -> Result<(), Infallible> {
        self.senders.stop(conn, end);
        Ok(())
    }

    fn close(&mut self, now: Time, conn: u32, end: End) -> Result<(), Infallible> {
        self.net.close(now, self.senders.sender_at(conn, end.other()));
        Ok(())
    }

    fn acked(&mut self, conn: u32, end: End) -> Result<u64, Infallible> {
        Ok(self.senders.acked(conn, end))
    }

    fn ping(&mut self, now: Time, row: u32, bytes: u32, number: u32) -> Result<(), Infallible> {
        let packet = self.senders.lone(row, bytes, PING, self.net).numbered(number);
        self.net.emit(packet.sent_at(now));
        Ok(())
    }

    fn datagram(&mut self, now: Time, row: u32, bytes: u32, number: u32) -> Result<(), Infallible> {
        let packet = self.senders.lone(row, bytes, DATAGRAM, self.net).numbered(number);
        self.net.emit(packet.stamped(now));
        Ok(())
    }

    fn post(&mut self, at: Time, event: driver::Event) {
        self.net.post(at, event.into());
    }

    fn note(&mut self, at: Time, row: u32, seen: Observation) {
        self.net.meter(row).observe(at, seen);
    }
}
