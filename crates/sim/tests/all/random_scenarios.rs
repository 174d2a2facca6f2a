//! Comparison of both engines on random scenarios: they must give identical records for any topology, delays,
//! disciplines and flows. Most numbers are round, so that many events fall on the same nanosecond and the order of ties
//! matters.

use std::sync::Arc;

use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::LinkLayer;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::rng::Rng;
use sojourn_core::tcp::{AckPolicy, Cc, Config, HyStart, Recovery, Windows};
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::records::{Fate, PacketRecord};
use sojourn_model::scenario::{
    Access, Capacity, Hop, Impair, Link, Nic, Pause, QdiscChange, QueueSize, Scenario, Trace,
};
use sojourn_model::workload::page::{Browsing, Page};
use sojourn_model::workload::rpm::Rpm;
use sojourn_model::workload::stream::{Codec, Playout, Stream, Transport, Voice};
use sojourn_model::workload::video::{Rule, Video};
use sojourn_model::workload::{App, Delays, Direction, Entry, Exchange, Group, User, WebConnection, Workload};
use sojourn_sim::{Detail, Engine, Options, run};

/// Number of scenarios that a test run compares, from SOJOURN_FIRST_SEED (default 0) on; SOJOURN_SCENARIOS overrides
/// it.
const SCENARIOS: u64 = 300;
/// Additional seeds, whose scenarios once differed: delayed ACKs tied with another lane's packets.
const SEEN: [u64; 2] = [4369, 4676];
const MS: u64 = 1_000_000;
/// Packets of 1452 and 52 bytes have 1500 and 100 bytes with this overhead: round times at round rates.
const OVERHEAD: u32 = 48;
/// Disciplines in either direction.
const QDISCS: &[&str] = &[
    "pfifo limit 10",
    "pfifo limit 60",
    "pfifo limit 1000",
    "bfifo limit 30000",
    "bfifo limit 4000",
    "pfifo_head_drop limit 20",
    "noqueue",
    "codel limit 100",
    "codel limit 100 ecn ce_threshold 1ms",
    "codel limit 30 variant rfc8289",
    "codel limit 50 variant ns2",
    "fq_codel limit 50 variant rfc8290",
    "fq_codel limit 50 variant ns2",
    "fq_codel limit 60 flows 8",
    "fq_codel limit 100 memory_limit 40000 ecn",
    "fq limit 60 flow_limit 10",
    "red limit 50 variant ns2",
    "pie limit 100 target 5ms ecn",
    "pie limit 50 variant rfc8033b",
    "fq_pie limit 100 flows 8 target 5ms",
    "dualpi2 limit 100 target 5ms step_thresh 2p",
    "dualpi2 variant rfc9332",
    "cake rtt 20ms memlimit 100k",
    "cake bandwidth 3mbit besteffort ingress ack-filter variant linux7",
    "ccaq limit 50 variant paper max_gi_rtts 4",
];

/// Parameter changes for those of these disciplines that accept them at run time.
const CHANGES: &[&str] = &[
    "pfifo limit 5",
    "pfifo limit 80",
    "bfifo limit 9000",
    "pfifo_head_drop limit 8",
    "codel limit 1",
    "codel limit 20",
    "codel limit 300 target 1ms noecn",
    "fq_codel limit 20",
    "fq_codel limit 200 target 20ms memory_limit 1m",
    "fq limit 30 flow_limit 5",
    "pie limit 20 target 30ms",
    "fq_pie limit 30 tupdate 3ms",
    "dualpi2 limit 20",
    "cake bandwidth 1mbit",
    "cake bandwidth 20mbit diffserv4",
    "cake unlimited besteffort",
    "ccaq limit 20",
];

/// Disciplines for every eighth link: those that packets bypass, and those that filter ACKs.
const PASSED: &[&str] = &[
    "codel limit 5 target 1us interval 1us",
    "codel ecn ce_threshold 1us variant linux7",
    "fq_codel limit 20 flows 8 quantum 300",
    "fq_codel limit 3 flows 8",
    "sfq limit 20",
    "cake besteffort ack-filter",
    "cake besteffort ack-filter-aggressive",
    "htb rate 2mbit child cake besteffort ack-filter",
    "sfq limit 30 redflowlimit 30000 min 1500 max 6000 burst 2 ecn",
    "sfq limit 2",
    "codel limit 1",
    "fq_codel limit 1",
    "fq_codel limit 100 ecn ce_threshold 1ms ce_threshold_selector 0x1/0x3 memory_limit 9000",
    "cake bandwidth 2mbit dual-srchost",
    "cake diffserv4 dual-dsthost ack-filter",
    "tbf rate 2mbit burst 3000 latency 50ms child codel ce_threshold 1ms ecn",
];

/// Impairments of packets after a link.
const IMPAIRMENTS: &[&str] = &[
    "loss 2%",
    "loss gemodel 1% 20%",
    "loss state 1% 20% 30% 50% 1%",
    "loss 5% 25% ecn",
    "duplicate 10%",
    "duplicate 5% loss 1% delay 1ms",
    "delay 5ms",
    "delay 10ms 8ms distribution pareto",
    "delay 10ms 1ms 25%",
    "delay 10ms reorder 25% 50%",
    "delay 5ms 1ms reorder 100% gap 7 duplicate 2%",
    "slot 2ms 6ms packets 8",
    "slot 5ms bytes 12000 delay 1ms",
    "limit 5 delay 20ms",
];

/// Random streams of one scenario. Features that were added later have streams of their own, so that existing scenarios
/// stay the same.
struct Draw(Rng, Rng, Rng, Rng, Rng, Rng, Rng, Rng, Rng, Rng, Rng);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.0.below(items.len() as u64) as usize]
    }

    /// True once in `n` times.
    fn once_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    /// Zero, whole milliseconds, or an arbitrary number.
    fn delay(&mut self) -> Span {
        match self.below(6) {
            0..=1 => Span::ZERO,
            2..=4 => Span(self.of(&[1, 2, 5, 10, 20]) * MS),
            _ => Span(self.below(30 * MS)),
        }
    }

    fn moment(&mut self, within: u64) -> Time {
        let at = self.below(within);
        Time(if self.once_in(4) { at } else { at / (10 * MS) * (10 * MS) })
    }

    fn rate(&mut self) -> Rate {
        Rate(self.of(&[1_200_000, 4_000_000, 8_000_000, 12_000_000, 12_000_000, 24_000_000, 7_654_321]))
    }

    fn capacity(&mut self, duration: u64) -> Capacity {
        let mut steps = vec![(Time::ZERO, self.rate())];
        match self.below(8) {
            0 => {
                let mut at = 0;
                let opportunities_ms = (0..50 + self.below(500)).map(|_| {
                    at += self.0.below(3) + self.0.below(20) / 19 * 15;
                    at
                });
                let opportunities_ms = opportunities_ms.chain([3000]).collect();
                return Capacity::Trace(Arc::new(Trace { opportunities_ms }));
            }
            1..=2 => {
                for _ in 0..self.below(8) {
                    let at = Time(self.moment(duration).0 + 1);
                    if at > steps[steps.len() - 1].0 {
                        steps.push((at, self.rate()));
                    }
                }
            }
            _ => {}
        }
        Capacity::Steps(steps)
    }

    fn link(&mut self, duration: u64, qdiscs: &[&str]) -> Link {
        let mut delay = vec![(Time::ZERO, self.delay())];
        if self.once_in(6) {
            delay.push((Time(self.moment(duration).0 + 10 * MS), self.delay()));
        }
        let drawn = self.of(qdiscs);
        let passed = PASSED[self.9.below(PASSED.len() as u64) as usize];
        let qdisc = if self.9.below(8) == 0 { passed } else { drawn }.parse().expect("a tc line");
        let changes = self.changes(&qdisc, duration);
        Link {
            rate: self.capacity(duration),
            delay,
            qdisc,
            changes,
            overhead: OVERHEAD,
            linklayer: if self.10.below(5) == 0 { LinkLayer::Atm } else { LinkLayer::Ethernet },
            nic: self.nic(),
            impair: self.impair(),
            flush: self.7.below(3) == 0,
            pause: None,
        }
    }

    /// Every fourth discipline gets new parameters or is replaced by another.
    fn changes(&mut self, first: &Spec, duration: u64) -> Vec<(Time, QdiscChange)> {
        let rng = &mut self.8;
        let mut changes: Vec<(Time, QdiscChange)> = Vec::new();
        if rng.below(4) > 0 || matches!(first, Spec::Noqueue(_)) {
            return changes;
        }
        let mut at = 0;
        for _ in 0..1 + rng.below(4) {
            at += rng.below(duration / 20 / MS) * 10 * MS + 1 + rng.below(2) * (10 * MS - 1);
            let present = changes.last().map_or(first, |(_, change)| change.spec());
            // These variants cannot be changed.
            let text = present.to_string();
            let stays = ["variant ns2", "variant rfc9332", "variant rfc8033b"].iter().any(|end| text.ends_with(end));
            let lines = CHANGES.iter().filter(|_| !stays).filter_map(|line| present.changed(line).ok());
            let lines: Vec<_> = lines.collect();
            let change = match (lines.is_empty(), rng.below(3)) {
                (false, 0..2) => QdiscChange::Parameters(lines[rng.below(lines.len() as u64) as usize].clone()),
                _ => {
                    let others: Vec<_> = QDISCS.iter().filter(|line| **line != "noqueue").collect();
                    let line = others[rng.below(others.len() as u64) as usize];
                    QdiscChange::Discipline(line.parse().expect("a tc line"))
                }
            };
            changes.push((Time(at), change));
        }
        changes
    }

    /// A card for every sixth link.
    fn nic(&mut self) -> Option<Nic> {
        let rng = &mut self.1;
        let ring = [1, 2, 3, 8, 80, 512][rng.below(6) as usize];
        let (bql, coalesce) = (rng.below(2) == 0, [0, 0, 50_000, MS, 10 * MS, 1_234_567][rng.below(6) as usize]);
        (rng.below(6) == 0).then_some(Nic { ring, bql, coalesce: Span(coalesce) })
    }

    /// An impairment for every sixth link.
    fn impair(&mut self) -> Option<Box<Impair>> {
        let words = IMPAIRMENTS[self.1.below(IMPAIRMENTS.len() as u64) as usize];
        (self.1.below(6) == 0).then(|| Box::new(words.parse().expect("netem's words")))
    }

    /// Flow control for every third link whose previous link can be paused.
    fn flow_control(&mut self, hops: &mut [Hop]) {
        let rng = &mut self.2;
        let ethernet = |link: &Link| matches!(link.rate, Capacity::Steps(_)) && link.impair.is_none();
        let mut pause = |before: &Link, link: &mut Link| {
            let (go, more) = (rng.below(20), rng.below(10));
            let filling = |packets| match packets % 2 {
                0 => QueueSize { packets, bytes: u64::MAX },
                _ => QueueSize { packets: u64::MAX, bytes: packets * 1500 },
            };
            if rng.below(3) == 0 && ethernet(before) {
                link.pause = Some(Pause { go: filling(go), stop: filling(go + more * 2) });
            }
        };
        for k in 1..hops.len() {
            let (first, second) = hops.split_at_mut(k);
            let (first, second) = (&mut first[k - 1], &mut second[0]);
            pause(&first.right, &mut second.right);
            pause(&second.left, &mut first.left);
        }
    }

    /// A model-based congestion control for every fourth flow, some of them without bursts.
    fn cc(&mut self) -> Cc {
        let windowed = self.of(&[Cc::Cubic, Cc::Cubic, Cc::Reno, Cc::Fixed(7)]);
        let modelled = [Cc::Bbr, Cc::Bbr3, Cc::Ledbat, Cc::Vegas, Cc::Dctcp, Cc::Prague].get(self.4.below(14) as usize);
        modelled.copied().unwrap_or(windowed)
    }

    fn tcp(&mut self) -> Config {
        Config {
            cc: self.cc(),
            mss: self.of(&[1400, 1400, 1448, 500]),
            iw: self.of(&[1, 3, 10, 10, 40]),
            rwnd: self.of(&[u32::MAX, u32::MAX, u32::MAX, 20, 1]),
            ecn: self.once_in(3),
            acks: self.of(&[
                AckPolicy::Delayed,
                AckPolicy::Delayed,
                AckPolicy::Delayed,
                AckPolicy::Every,
                AckPolicy::Window(Some(5)),
            ]),
            quickack: !self.once_in(3),
            hystart: self.of(&[HyStart::Linux, HyStart::Plus, HyStart::Off]),
            windows: self.of(&[Windows::Linux, Windows::Rfc]),
            timestamps: !self.once_in(5),
            linux_rto: !self.once_in(4),
            recovery: if self.once_in(4) { Recovery::Rfc6675 } else { Recovery::Rack },
            rto_min: Span::from_millis(self.of(&[200, 200, 1000])),
            gso_max_segs: self.of(&[1, 2, 65_535]),
            comp_sack_nr: [0, 2, 44][self.6.below(3) as usize],
            tsq: [None, Some(4 << 20), Some(20_000)][self.6.below(3) as usize],
            gro_flush_timeout: Span([0, 0, 100_000, MS][self.6.below(4) as usize]),
            rmem: [None, None, Some(1 << 14), Some(1 << 17), Some(6 << 20)][self.6.below(5) as usize],
            wmem: [None, None, Some(1 << 14), Some(1 << 17), Some(4 << 20)][self.6.below(5) as usize],
            ..Config::default()
        }
    }

    fn app(&mut self, duration: u64, groups: usize) -> (&'static str, App) {
        let start = self.moment(duration / 2);
        let stop = if self.once_in(3) { Time(start.0 + 500 * MS) } else { Time::NEVER };
        match self.below(10) {
            0..=3 => {
                let mut active = vec![(start, stop)];
                if stop != Time::NEVER {
                    active.push((stop + Span(self.below(300) * MS), Time::NEVER));
                }
                ("bulk", App::Bulk { active })
            }
            4 => {
                let gaps = vec![Span(self.of(&[0, 1, 100]) * MS); 100];
                ("download", App::Download { start, size: 1 + self.below(300_000), gaps, stop })
            }
            5 => {
                let interval = Span(self.of(&[1, 10, 40]) * MS);
                ("thin", App::Thin { start, bytes: 1 + self.below(400) as u32, interval, stop })
            }
            6..=7 => {
                let interval = Span(self.of(&[1, 10, 20]) * MS);
                ("pings", App::Pings { start, bytes: self.of(&[52, 84, 1452]), interval, stop })
            }
            8 => {
                let mut at = start.0;
                let connections = (0..1 + self.below(10)).map(|_| {
                    let exchanges = (0..1 + self.below(3)).map(|_| Exchange {
                        gap: Span(self.below(3) * MS),
                        request: 1 + self.below(3000) as u32,
                        server_delay: Span(self.below(3) * MS),
                        response: 1 + self.below(50_000),
                    });
                    let exchanges = exchanges.collect();
                    at += self.below(200) * MS;
                    WebConnection { start: Time(at), exchanges }
                });
                ("web", App::Web { connections: connections.collect() })
            }
            _ => {
                let mut at = start.0;
                let arrivals = (0..1 + self.below(20)).map(|_| {
                    at += self.below(50) * MS;
                    (Time(at), 1 + self.below(40_000))
                });
                let arrivals = arrivals.collect();
                ("sizes", App::Sizes { arrivals, group: (groups > 0).then_some(0) })
            }
        }
    }

    /// Replaces every seventh flow by a stream, with an interval that causes ties.
    fn stream(&mut self, duration: u64) -> Option<(&'static str, App)> {
        let rng = &mut self.3;
        if rng.below(7) > 0 {
            return None;
        }
        let mut active = Vec::new();
        let mut at = rng.below(3) * 100 * MS;
        while at < duration && active.len() < 20 {
            let stop = at + (1 + rng.below(40)) * 10 * MS;
            active.push((Time(at), Time(if rng.below(4) == 0 { u64::MAX } else { stop })));
            at = active[active.len() - 1].1.0.saturating_add((1 + rng.below(10)) * 10 * MS);
        }
        let interval = Span([1, 2, 5, 20][rng.below(4) as usize] * MS);
        let transport = if rng.below(3) == 0 { Transport::Tcp } else { Transport::Udp };
        let voice = Some(Voice { codec: Codec::G711, playout: Playout::Percentile(99) });
        let bytes = [52, 200, 1452][rng.below(3) as usize];
        Some(("onoff", App::Stream(Stream { active, interval, bytes, transport, voice })))
    }

    /// Replaces every seventh of the other flows by a client that decides during the run.
    fn client(&mut self, duration: u64) -> Option<(&'static str, App)> {
        let rng = &mut self.3;
        if rng.below(7) > 0 {
            return None;
        }
        let start = Time(rng.below(4) * 100 * MS);
        let stop = if rng.below(3) == 0 { Time(duration / 2) } else { Time::NEVER };
        if rng.below(2) == 0 {
            let pages = (0..20).map(|_| Page {
                main: 1 + rng.below(20_000),
                parsing: Span(rng.below(3) * 10 * MS),
                embedded: (0..rng.below(12)).map(|_| 1 + rng.below(20_000)).collect(),
                reading: Span(rng.below(3) * 100 * MS),
            });
            let pages = pages.collect();
            return Some(("web", App::Pages(Browsing { start, stop, pages, connections: 1 + rng.below(6) as usize })));
        }
        let (chunk, buffer) = (Span(100 * MS), Span((2 + rng.below(10)) * 100 * MS));
        let ladder = [1, 2, 6].map(|mbit| Rate(mbit * 1_000_000)).to_vec();
        let rule = if rng.below(2) == 0 { Rule::Buffer } else { Rule::Rate };
        Some(("video", App::Video(Video { start, stop, chunk, buffer, ladder, rule })))
    }

    /// Replaces every seventh of the remaining flows by a responsiveness test, with intervals of a tenth of a second.
    fn test(&mut self, duration: u64) -> Option<(&'static str, App)> {
        let rng = &mut self.5;
        if rng.below(7) > 0 {
            return None;
        }
        let start = Time(rng.below(4) * 100 * MS);
        let stop = if rng.below(3) == 0 { Time(duration / 2) } else { Time(duration) };
        let (interval, connections) = (Span(100 * MS), 1 + rng.below(16) as u32);
        Some(("rpm", App::Rpm(Rpm { start, stop, interval, connections, tls: rng.below(3) > 0 })))
    }

    fn entry(&mut self, number: usize, duration: u64, hops: usize, groups: usize) -> Entry {
        let first = self.below(hops as u64) as usize;
        let last = first + self.below((hops - first) as u64) as usize;
        let (kind, app) = self.app(duration, groups);
        let (kind, app) = self
            .stream(duration)
            .or_else(|| self.client(duration))
            .or_else(|| self.test(duration))
            .unwrap_or((kind, app));
        let mut delays =
            Delays { data_in: self.delay(), data_out: self.delay(), ack_in: self.delay(), ack_out: self.delay() };
        if self.once_in(4) {
            delays = Delays { ack_out: Span(20 * MS), ..Delays::default() };
        }
        Entry {
            name: format!("{kind}{number}"),
            pool: None,
            kind,
            direction: if self.once_in(3) { Direction::Left } else { Direction::Right },
            via: if self.once_in(3) { (first, last) } else { (0, hops - 1) },
            tcp: self.tcp(),
            dscp: [0, 0, 46, 34, 8, 1][self.1.below(6) as usize],
            delays,
            ecn: [Ecn::NotEct, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][self.8.below(4) as usize],
            tunnel: self.once_in(6).then_some(7),
            user: (self.8.below(3) == 0).then_some(User { number: number as u16 % 2, flow: number as u16, first: 0 }),
            app,
        }
    }

    fn scenario(&mut self, seed: u64) -> Scenario {
        let duration = 1500 * MS + self.below(2) * 1000 * MS;
        let hops = self.of(&[1, 1, 1, 2, 2, 3]);
        let groups = self.below(2) as usize;
        // Half of the scenarios have only plain FIFOs, which have a closed form.
        let qdiscs = if self.once_in(2) { QDISCS } else { &QDISCS[..5] };
        let hop = |draw: &mut Draw, number: usize| {
            let (right, left) = (draw.link(duration, qdiscs), draw.link(duration, qdiscs));
            Hop { name: format!("hop{number}"), right, left }
        };
        let mut hops: Vec<Hop> = (0..hops).map(|number| hop(self, number)).collect();
        self.flow_control(&mut hops);
        let mut entries: Vec<Entry> = Vec::new();
        for number in 0..1 + self.below(8) as usize {
            let mut entry = self.entry(number, duration, hops.len(), groups);
            // Some flows share a class with the previous one.
            if let Some(last) = entries.last()
                && self.once_in(3)
            {
                (entry.delays, entry.via, entry.direction) = (last.delays, last.via, last.direction);
            }
            entries.push(entry);
        }
        let access =
            self.once_in(4).then(|| Access { rate: self.rate(), delay: self.delay(), limit: self.of(&[1, 10, 100]) });
        let groups = (0..groups).map(|_| Group { name: "g".into(), max_active: 2 }).collect();
        Scenario {
            title: "random".into(),
            duration: Time(duration),
            measure: (Time(duration / 5), Time(duration)),
            seed,
            hops,
            access,
            host: sojourn_model::scenario::Host::default(),
            workload: Workload { entries, groups },
            longest_rtt: Span::from_millis(100),
        }
    }
}

/// The complete output of a run, as text except for the packets.
fn output(scenario: &Scenario, engine: Engine, detail: Detail) -> (Vec<PacketRecord>, String) {
    // Every second scenario is played with prefetching, as if it had thousands of flows.
    let crowd = (scenario.seed % 2 == 1).then_some(1);
    let options = Options { engine, detail, packets: true, series: true, crowd, ..Options::default() };
    let output = run(scenario, &options).expect("nobody stops it");
    let links: Vec<_> = output.links.iter().map(|l| (&l.main, &l.startup, l.series.columns())).collect();
    let flows: Vec<_> =
        output.flows.iter().map(|f| (&f.main, &f.startup, f.series.columns(), f.series.state_columns())).collect();
    let report = format!("{links:?} {flows:?}");
    (output.packets, report)
}

/// The place where two texts differ.
fn difference(one: &str, other: &str) -> String {
    let at = one.bytes().zip(other.bytes()).position(|(a, b)| a != b).unwrap_or(0);
    let part = |text: &str| text.get(at.saturating_sub(300)..(at + 100).min(text.len())).unwrap_or(text).to_owned();
    format!("fast: …{}\nheap: …{}", part(one), part(other))
}

/// Gives every path segment a delay of at least a nanosecond: then hosts and links run ahead of the clock, unless
/// something else keeps them to it.
fn keep_apart(scenario: &mut Scenario) {
    for (index, entry) in scenario.workload.entries.iter_mut().enumerate() {
        let Delays { data_in, data_out, ack_in, ack_out } = &mut entry.delays;
        for delay in [data_in, data_out, ack_in, ack_out] {
            *delay = (*delay).max(if index % 2 == 0 { Span(MS) } else { Span(1) });
        }
    }
}

fn compare(seed: u64) -> usize {
    let stream = |name| Rng::stream(seed, name);
    let mut draw = Draw(
        stream("random scenario"),
        stream("cards"),
        stream("flow control"),
        stream("clients"),
        stream("models"),
        stream("tests"),
        stream("hosts"),
        stream("flushes"),
        stream("words"),
        stream("passed"),
        stream("framing"),
    );
    let mut scenario = draw.scenario(seed);
    if seed % 4 == 3 {
        keep_apart(&mut scenario);
    }
    let detail = if seed.is_multiple_of(4) { Detail::Departures } else { Detail::Full };
    let (fast, fast_report) = output(&scenario, Engine::Fast, detail);
    let (heap, heap_report) = output(&scenario, Engine::Heap, detail);
    if let Some(at) = fast.iter().zip(&heap).position(|(f, h)| f != h) {
        panic!("seed {seed}: record {at}: {:?}\nby the heap {:?}\n{scenario:#?}", fast[at], heap[at]);
    }
    assert_eq!(fast.len(), heap.len(), "seed {seed}: records\n{scenario:#?}");
    assert!(fast_report == heap_report, "seed {seed}: {}\n{scenario:#?}", difference(&fast_report, &heap_report));
    one_at_a_time(seed, &scenario, &fast);
    fast.len()
}

/// Checks that a link of constant rate sends one packet at a time, none before its arrival, each for its transmission
/// time; also with a card, with impairments, and when it is paused.
fn one_at_a_time(seed: u64, scenario: &Scenario, packets: &[PacketRecord]) {
    for index in 0..scenario.hops.len() * 2 {
        let Capacity::Steps(steps) = &scenario.link(index).rate else { continue };
        let of_link = |packet: &&PacketRecord| usize::from(packet.link) == index && packet.fate == Fate::Delivered;
        let mut sent: Vec<&PacketRecord> = packets.iter().filter(of_link).collect();
        sent.sort_by_key(|packet| packet.start);
        let free = [Time::ZERO].into_iter().chain(sent.iter().map(|packet| packet.end));
        for (packet, free) in sent.iter().zip(free) {
            assert!(packet.start >= free.max(packet.arrival), "seed {seed}: {packet:?} before {free:?}\n{scenario:#?}");
            if let [(_, rate)] = steps[..] {
                let lasts = packet.end.since(packet.start);
                assert_eq!(lasts, rate.serialise(packet.bytes), "seed {seed}: {packet:?}\n{scenario:#?}");
            }
        }
    }
}

#[test]
fn both_engines_give_identical_records_on_random_scenarios() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SOJOURN_FIRST_SEED").unwrap_or(0);
    let scenarios = number("SOJOURN_SCENARIOS").unwrap_or(SCENARIOS);
    let packets: usize = (first..first + scenarios).chain(SEEN).map(compare).sum();
    assert!(packets as u64 > 1000 * scenarios, "only {packets} packets");
}
