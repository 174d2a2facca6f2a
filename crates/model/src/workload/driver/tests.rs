//! The driver in a world without a network: each message arrives a set time after it was written.

use std::collections::BTreeSet;
use std::convert::Infallible;

use super::*;
use crate::plan::{LoadOptions, Plan};
use crate::workload::rpm::{FLIGHT, GET, HELLO, OBJECT, Timed};

const MS: Span = Span::from_millis(1);
/// From one end of a connection to the other.
const LATENCY: Span = Span::from_millis(10);

/// Something that is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    App(Event),
    Connected(u32),
    Arrived(u32, bool),
}

/// A call of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Connect(u32),
    Write(u32, End, Data),
    Stop(u32, End),
    Close(u32, End),
    Ping(u32, u32),
    Datagram(u32, u32),
    Note(u32, Observation),
}

use Call::{Close, Connect, Note, Stop, Write};
use Data::{Bytes, Endless, Last, Message};
use End::{Accepter, Opener};
use Observation::{Began, Completed, Interval, Probed, Started};

/// The events that are due, and all calls with their times in milliseconds.
#[derive(Default)]
struct World {
    due: BTreeSet<(Time, Due)>,
    now: Time,
    connections: u32,
    calls: Vec<(u64, Call)>,
}

impl World {
    fn called(&mut self, call: Call) -> Result<(), Infallible> {
        self.calls.push((self.now.0 / MS.0, call));
        Ok(())
    }
}

impl Stack for World {
    type Error = Infallible;

    fn connect(&mut self, now: Time, row: u32) -> Result<(), Infallible> {
        self.due.insert((now + LATENCY * 2, Due::Connected(self.connections)));
        self.connections += 1;
        self.called(Connect(row))
    }

    fn write(&mut self, now: Time, conn: u32, end: End, data: Data) -> Result<(), Infallible> {
        if matches!(data, Message(_) | Last(_)) {
            self.due.insert((now + LATENCY, Due::Arrived(conn, end == Accepter)));
        }
        self.called(Write(conn, end, data))
    }

    fn stop(&mut self, conn: u32, end: End) -> Result<(), Infallible> {
        self.called(Stop(conn, end))
    }

    fn close(&mut self, _: Time, conn: u32, end: End) -> Result<(), Infallible> {
        self.called(Close(conn, end))
    }

    /// A connection moves 1 MB per second.
    fn acked(&mut self, _: u32, _: End) -> Result<u64, Infallible> {
        Ok(self.now.0 / 1000)
    }

    fn ping(&mut self, _: Time, row: u32, _: u32, number: u32) -> Result<(), Infallible> {
        self.called(Call::Ping(row, number))
    }

    fn datagram(&mut self, _: Time, row: u32, _: u32, number: u32) -> Result<(), Infallible> {
        self.called(Call::Datagram(row, number))
    }

    fn post(&mut self, at: Time, event: Event) {
        self.due.insert((at, Due::App(event)));
    }

    fn note(&mut self, _: Time, row: u32, seen: Observation) {
        let Ok(()) = self.called(Note(row, seen));
    }
}

fn scenario(duration: &str, flows: &str) -> Scenario {
    let text = format!("duration = \"{duration}\"\n[[hop]]\nrate = \"100mbit\"\ndelay = \"10ms\"\n{flows}");
    let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    plan.scenario(0).unwrap_or_else(|e| panic!("{e}"))
}

/// Plays to the end of the run. Returns the calls, and the transfers that are not complete.
fn play(scenario: &Scenario) -> (Vec<(u64, Call)>, Vec<u64>) {
    let (mut driver, mut world) = (Driver::new(scenario), World::default());
    driver.start(|_| Span::ZERO, &mut world);
    while let Some((now, due)) = world.due.pop_first().filter(|(now, _)| *now < scenario.duration) {
        world.now = now;
        let Ok(()) = match due {
            Due::App(event) => driver.act(now, event, &mut world),
            Due::Connected(conn) if driver.awaits_handshake(conn) => driver.connected(now, conn, &mut world),
            Due::Connected(_) => Ok(()),
            Due::Arrived(conn, to_opener) => {
                driver.arrived(now, conn, if to_opener { Opener } else { Accepter }, &mut world)
            }
        };
    }
    (world.calls, driver.unfinished())
}

fn calls(duration: &str, flows: &str) -> Vec<(u64, Call)> {
    play(&scenario(duration, flows)).0
}

#[test]
fn a_bulk_flow_keeps_one_connection_and_stops_at_the_end_of_each_window() {
    let flow = "[[flow]]\nkind = \"bulk\"\nactive = [[\"1s\", \"2s\"], [\"3s\", \"9s\"]]\n";
    let expected = [
        (1000, Connect(0)),
        (1000, Write(0, Opener, Endless)),
        (2000, Stop(0, Opener)),
        (3000, Write(0, Opener, Endless)),
    ];
    assert_eq!(calls("5s", flow), expected);
}

#[test]
fn a_download_starts_the_next_file_a_gap_after_the_last_and_none_after_its_stop() {
    let flow = "[[flow]]\nkind = \"download\"\nsize = 5000\ngap = \"100ms\"\nstop = \"200ms\"\n";
    let scenario = scenario("1s", flow);
    let ideal = Ideal::of(&scenario, &scenario.workload.entries[0]).time(Task::Sent(5000));
    let file = |at, conn| {
        let completed = Completed { took: LATENCY, ideal };
        let started = [Connect(0), Note(0, Started), Write(conn, Opener, Last(5000))].map(|call| (at, call));
        [&started[..], &[(at + 10, Note(0, completed)), (at + 20, Note(0, Began(MS * 20)))]].concat()
    };
    let (calls, unfinished) = play(&scenario);
    assert_eq!(calls, [file(0, 0), file(110, 1)].concat());
    assert_eq!(unfinished, [0]);
}

#[test]
fn no_more_transfers_of_a_group_are_active_than_its_cap_and_those_that_wait_follow_in_order() {
    let flows = "[[group]]\nname = \"g\"\nmax_active = 2\n\
                 [[flow]]\nkind = \"sizes\"\nrate = 500\ngroup = \"g\"\n\
                 [[flow]]\nkind = \"sizes\"\nrate = 500\ngroup = \"g\"\n";
    let scenario = scenario("1s", flows);
    let (calls, unfinished) = play(&scenario);
    let (mut active, mut most) = (0i32, 0);
    for (_, call) in &calls {
        match call {
            Note(_, Started) => active += 1,
            Note(_, Completed { .. }) => active -= 1,
            _ => {}
        }
        most = most.max(active);
    }
    assert_eq!((most, unfinished.iter().sum::<u64>()), (2, active as u64));
    for (row, entry) in (0..).zip(&scenario.workload.entries) {
        let App::Sizes { arrivals, .. } = &entry.app else { panic!("{entry:?}") };
        let mut rows = Vec::new();
        let written = calls.iter().filter_map(|(_, call)| match call {
            Connect(row) => {
                rows.push(*row);
                None
            }
            Write(conn, Opener, Last(bytes)) => (rows[*conn as usize] == row).then_some(*bytes),
            _ => None,
        });
        let written: Vec<u64> = written.collect();
        assert!(written.len() > 50 && written.len() < arrivals.len(), "{} of {}", written.len(), arrivals.len());
        assert!(written.iter().zip(arrivals).all(|(bytes, arrival)| *bytes == arrival.1));
    }
}

#[test]
fn packets_are_numbered_and_paced_and_writes_use_one_connection() {
    let flows = "[[flow]]\nkind = \"pings\"\ninterval = \"400ms\"\n\
                 [[flow]]\nkind = \"cbr\"\nrate = \"30kbit\"\nsize = 1500\n\
                 [[flow]]\nkind = \"thin\"\nsize = 70\ninterval = \"400ms\"\n";
    let all = calls("1s", flows);
    let times = |wanted: &dyn Fn(&Call) -> bool| -> Vec<u64> {
        all.iter().filter(|(_, call)| wanted(call)).map(|(at, _)| *at).collect()
    };
    let numbers =
        |wanted: fn(&Call) -> Option<u32>| -> Vec<u32> { all.iter().filter_map(|(_, call)| wanted(call)).collect() };
    let pings = numbers(|call| if let Call::Ping(0, number) = call { Some(*number) } else { None });
    let datagrams = numbers(|call| if let Call::Datagram(1, number) = call { Some(*number) } else { None });
    assert_eq!((pings, datagrams), (vec![0, 1, 2], vec![0, 1, 2]));
    assert_eq!(times(&|call| matches!(call, Note(0, Observation::Pinged))), [0, 400, 800]);
    assert_eq!(times(&|call| matches!(call, Note(1, Observation::Sent))), [0, 400, 800]);
    assert_eq!(times(&|call| *call == Write(0, Opener, Bytes(70))), [0, 400, 800]);
    assert_eq!(times(&|call| matches!(call, Connect(_))), [0]);
}

#[test]
fn a_server_responds_after_its_delay_and_the_client_closes_after_the_last_response() {
    let mut scenario = scenario("1s", "[[flow]]\nkind = \"web\"\nrate = 1\n");
    let exchange = |gap, request, server_delay, response| Exchange {
        gap: MS * gap,
        request,
        server_delay: MS * server_delay,
        response,
    };
    let exchanges = vec![exchange(0, 300, 5, 7000), exchange(50, 400, 1, 80)];
    let connection = super::super::WebConnection { start: Time::ZERO, exchanges };
    scenario.workload.entries[0].app = App::Web { connections: vec![connection].into() };
    let ideal = Ideal::of(&scenario, &scenario.workload.entries[0]);
    let completed = |took, bytes, thinking, opened| {
        let ideal = ideal.time(Task::Answered { bytes, thinking: MS * thinking, opened });
        Note(0, Completed { took: MS * took, ideal })
    };
    let expected = [
        (0, Connect(0)),
        (0, Note(0, Started)),
        (20, Write(0, Opener, Message(300))),
        (30, Note(0, Began(MS * 35))),
        (35, Write(0, Accepter, Message(7000))),
        (45, completed(45, 7000, 5, true)),
        (95, Note(0, Started)),
        (95, Write(0, Opener, Message(400))),
        (106, Write(0, Accepter, Message(80))),
        (116, completed(21, 80, 1, false)),
        (116, Close(0, Opener)),
    ];
    assert_eq!(play(&scenario), (expected.to_vec(), vec![0]));
}

#[test]
fn a_test_of_responsiveness_opens_load_at_the_data_sender_and_probes_beside_it_and_on_it() {
    for (direction, loaded) in [("down", Accepter), ("up", Opener)] {
        let flow = format!("[[flow]]\nkind = \"rpm\"\ndirection = \"{direction}\"\nconnections = 1\nstop = \"2s\"\n");
        let all = calls("3s", &flow);
        // The connection with load is the first, a foreign probe the next.
        let mut opening = vec![(0, Connect(0))];
        if loaded == Accepter {
            opening.extend([(20, Write(0, Opener, Message(GET.into()))), (30, Write(0, Accepter, Endless))]);
        } else {
            opening.push((20, Write(0, Opener, Endless)));
        }
        assert_eq!(all[..opening.len()], opening, "{direction}");
        assert_eq!(all[opening.len()], (1000, Note(0, Interval(1_000_000))), "{direction}");
        let of = |conn: u32| -> Vec<(u64, Call)> {
            let is_of = |call: &Call| match call {
                Write(one, ..) | Close(one, _) | Stop(one, _) => *one == conn,
                _ => false,
            };
            all.iter().filter(|(_, call)| is_of(call)).copied().collect()
        };
        let foreign = [
            (1020, Write(1, Opener, Message(HELLO.into()))),
            (1030, Write(1, Accepter, Message(FLIGHT))),
            (1040, Write(1, Opener, Message(GET.into()))),
            (1050, Write(1, Accepter, Message(OBJECT))),
            (1060, Close(1, Opener)),
        ];
        assert_eq!(of(1), foreign, "{direction}");
        for (timed, took) in [(Timed::Tcp, 20), (Timed::Tls, 20), (Timed::Http, 20), (Timed::Loaded, 20)] {
            let found: Vec<Call> = all
                .iter()
                .filter(|(_, call)| matches!(call, Note(_, Probed(one, _)) if *one == timed))
                .map(|one| one.1)
                .collect();
            assert!(found.len() > 5, "{direction}: {timed:?}");
            assert!(found.iter().all(|call| *call == Note(0, Probed(timed, MS * took))), "{direction}: {found:?}");
        }
        let own = of(0)[opening.len() - 1..].to_vec();
        let stop = own.iter().position(|(_, call)| *call == Stop(0, loaded)).expect("the load stops");
        assert_eq!(own[stop].0, 2000, "{direction}");
        assert!(own[..stop].iter().all(|(_, call)| matches!(call, Write(0, _, Message(GET_OR_OBJECT)))), "{own:?}");
    }
}

/// A request and a response have the same size.
const GET_OR_OBJECT: u64 = 100;

#[test]
fn a_shift_delays_first_acts_but_not_arrivals_that_the_seed_has_drawn() {
    let flows = "[[flow]]\nkind = \"bulk\"\n[[flow]]\nkind = \"sizes\"\nrate = 50\n";
    let scenario = scenario("1s", flows);
    let App::Sizes { arrivals, .. } = &scenario.workload.entries[1].app else { panic!("sizes") };
    let (driver, mut world) = (Driver::new(&scenario), World::default());
    driver.start(|entry| if entry.kind == "bulk" { MS * 3 } else { MS * 900 }, &mut world);
    let first = (Time::ZERO + MS * 3, Due::App(Event::Act(0)));
    assert_eq!(
        world.due.into_iter().collect::<BTreeSet<_>>(),
        [first, (arrivals[0].0, Due::App(Event::Act(1)))].into()
    );
}
