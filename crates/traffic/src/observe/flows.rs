//! Feeds the flows' meters with events of packets, sockets and applications, in order of time.

use std::iter::Peekable;
use std::vec::IntoIter;

use sojourn_core::units::{Span, Time};
use sojourn_measure::{CommandRun, FlowMeter, FlowReport, flow_reports, flow_setup};
use sojourn_model::records::{Fate, Kind, PacketRecord};
use sojourn_model::scenario::Scenario;
use sojourn_model::workload::driver::Observation;
use sojourn_model::workload::{App, Direction, Entry};

use crate::flows::played::{Played, Program};
use crate::probe::Record;
use crate::topology;

/// The meters of all flows. Events of applications are merged with the other events by time; at equal times they come
/// last.
pub struct Flows<'a> {
    scenario: &'a Scenario,
    played: &'a Played,
    /// Whether to keep samples of the senders' state.
    series: bool,
    meters: Vec<FlowMeter>,
    /// Events of applications, in order of time.
    applications: Peekable<IntoIter<&'a (u64, u32, Observation)>>,
}

impl<'a> Flows<'a> {
    /// Creates the meters at time zero.
    pub fn new(scenario: &'a Scenario, played: &'a Played, series: bool) -> Flows<'a> {
        let setup = |entry| FlowMeter::new(&flow_setup(scenario, entry, series));
        let meters = scenario.workload.entries.iter().map(setup).collect();
        let mut applications: Vec<_> = played.events.iter().collect();
        applications.sort_by_key(|(at, ..)| *at);
        Flows { scenario, played, series, meters, applications: applications.into_iter().peekable() }
    }

    /// Handles a packet's arrival at a link.
    pub fn packet(&mut self, record: &PacketRecord) {
        self.applications(|at| at < record.arrival);
        let meter = &mut self.meters[record.entry as usize];
        let entry = &self.scenario.workload.entries[record.entry as usize];
        let is_sent = match record.kind {
            Kind::Data | Kind::Retransmit | Kind::Syn => true,
            Kind::Ack => false,
            // The applications report those of flows of ours.
            Kind::Datagram | Kind::Ping => matches!(entry.app, App::Command(_)),
        };
        if is_sent && !record.is_loss() && is_first(record.link, entry) {
            meter.sent(record.arrival, 1);
        }
        if matches!(record.fate, Fate::Dropped(_)) {
            // Drops are the only events that may be reported before their time.
            meter.dropped(record.end);
        }
    }

    /// Handles an event of a sender's socket.
    pub fn socket(&mut self, now: Time, record: &Record) {
        let (Record::Acked { socket: at, .. } | Record::Retransmitted { socket: at, .. }) = record else { return };
        let Some(entry) = topology::entry_of(at.hosts).filter(|&entry| entry < self.meters.len()) else { return };
        self.applications(|at| at < now);
        socket(&mut self.meters[entry], self.scenario.workload.entries[entry].tcp.mss, now, record);
    }

    /// Returns the reports at the end of the run.
    pub fn finish(mut self) -> Vec<FlowReport> {
        self.applications(|_| true);
        let unfinished = self.played.unfinished.iter().copied().chain(std::iter::repeat(0));
        let setup = |entry: &Entry| flow_setup(self.scenario, entry, self.series);
        let mut reports = flow_reports(self.scenario, self.meters, unfinished, setup);
        let rows = self.scenario.workload.pools();
        for program in &self.played.programs {
            reports[rows[program.entry as usize]].main.command = Some(Box::new(command(program)));
        }
        reports
    }

    /// Handles the events of applications whose times are `due`.
    fn applications(&mut self, due: impl Fn(Time) -> bool) {
        while let Some(&(at, entry, seen)) = self.applications.next_if(|(at, ..)| due(Time(*at))) {
            self.meters[entry as usize].observe(Time(at), seen);
        }
    }
}

fn command(program: &Program) -> CommandRun {
    let [stdout, stderr] = program.said.clone();
    let [started_s, ended_s] = program.times.map(|at| Time(at).as_secs_f64());
    let Program { exit, signal, stopped, .. } = *program;
    CommandRun { argv: program.argv.clone(), exit, signal, stopped, started_s, ended_s, stdout, stderr }
}

/// Returns whether a flow's data enters the path at this link. Web and video flows send data from both ends and enter
/// at two links.
fn is_first(link: u16, entry: &Entry) -> bool {
    let (right, left) = ((entry.via.0 * 2) as u16, (entry.via.1 * 2 + 1) as u16);
    let first = if entry.direction == Direction::Right { right } else { left };
    link == first || (entry.answers() && (link == right || link == left))
}

/// Reports an ACK or a retransmission of a sender's socket to the flow's meter.
pub fn socket(meter: &mut FlowMeter, mss: u32, now: Time, record: &Record) {
    match *record {
        Record::Acked { payload, rtt_us, srtt_us, cwnd, inflight, .. } => {
            meter.acked(now, u64::from(payload));
            if rtt_us > 0 {
                meter.rtt(now, Span::from_micros(u64::from(rtt_us)));
            }
            meter.state(now, cwnd, Span::from_micros(u64::from(srtt_us)), inflight, None);
        }
        // Linux retransmits a burst of several segments as one packet, and a FIN takes a sequence number.
        Record::Retransmitted { payload, .. } => {
            (0..payload.saturating_sub(1).div_ceil(mss).max(1)).for_each(|_| meter.retransmit(now));
        }
        Record::Packet(_) | Record::Ring(_) | Record::Paused { .. } => {}
    }
}
