//! Both ends together, over a path that loses, delays, reorders, duplicates and marks packets as a test demands.

mod bounded;
mod growth;
mod properties;
mod rack;
mod recovery;

use super::*;
use crate::units::Time;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The path's effect on one packet.
#[derive(Clone, Copy, Default)]
pub(in crate::tcp) struct Fate {
    pub(in crate::tcp) lost: bool,
    pub(in crate::tcp) twice: bool,
    pub(in crate::tcp) ce: bool,
    /// The additional delay of this packet.
    pub(in crate::tcp) late: Span,
}

#[derive(Clone, Copy)]
pub(in crate::tcp) enum Event {
    Data { seq: u32, payload: u32, ts: u32, ecn: Ecn, cwr: bool, push: bool, syn: bool },
    Ack { ack: Ack, blocks: [Block; 3], count: usize },
}

pub(in crate::tcp) type Judge = Box<dyn FnMut(Time, &Transmit) -> Fate>;

/// A connection over a path of constant delay. Segments pass a first-in-first-out link first.
pub(in crate::tcp) struct Path {
    pub(in crate::tcp) now: Time,
    pub(in crate::tcp) sender: Sender,
    pub(in crate::tcp) receiver: Receiver,
    pub(in crate::tcp) config: Config,
    pub(in crate::tcp) one_way: Span,
    /// The time for which a segment occupies the link.
    pub(in crate::tcp) service: Span,
    pub(in crate::tcp) free: Time,
    pub(in crate::tcp) events: BTreeMap<(Time, u64), Event>,
    pub(in crate::tcp) count: u64,
    pub(in crate::tcp) data: Judge,
    pub(in crate::tcp) acks: Box<dyn FnMut() -> Fate>,
    /// The longest time that a segment may wait before the link; segments that would wait longer are dropped.
    pub(in crate::tcp) queue: Span,
    /// ACKs arrive at multiples of this time.
    pub(in crate::tcp) slot: Span,
    /// Everything sent, with its time.
    pub(in crate::tcp) sent: Vec<(Time, Transmit)>,
    pub(in crate::tcp) payload_acked: u64,
    pub(in crate::tcp) acks_sent: u64,
    /// The number of polls that were answered at once because the window was full.
    pub(in crate::tcp) spared: u64,
}

impl Path {
    pub(in crate::tcp) fn new(config: Config, rtt: Span) -> Path {
        Path {
            now: Time::ZERO,
            sender: Sender::new(&config),
            receiver: Receiver::new(&config),
            config,
            one_way: Span(rtt.0 / 2),
            service: Span::ZERO,
            free: Time::ZERO,
            events: BTreeMap::new(),
            count: 0,
            data: Box::new(|_, _| Fate::default()),
            acks: Box::new(Fate::default),
            queue: Span(u64::MAX),
            slot: Span(1),
            sent: Vec::new(),
            payload_acked: 0,
            acks_sent: 0,
            spared: 0,
        }
    }

    /// Established, without a handshake.
    pub(in crate::tcp) fn established(config: Config, rtt: Span) -> Path {
        let mut path = Path::new(config, rtt);
        path.sender.establish(Time::ZERO, None);
        path
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    pub(in crate::tcp) fn poll(&mut self) {
        self.compare_run();
        self.compare_full();
        while let Some(tx) = self.sender.poll_transmit(self.now) {
            let probe = self.sender.probe();
            let window = self.sender.cwnd() + u32::from(probe.is_some());
            let is_free = tx.syn || probe == Some(tx.seq);
            assert!(is_free || self.sender.inflight() <= window, "sent beyond the window");
            self.sent.push((self.now, tx));
            let fate = (self.data)(self.now, &tx);
            if fate.lost || self.free.since(self.now) > self.queue {
                continue;
            }
            self.free = self.free.max(self.now) + self.service;
            let ecn = match (tx.ect, fate.ce) {
                (true, true) => Ecn::Ce,
                (true, false) => self.config.ect(),
                _ => Ecn::NotEct,
            };
            let ts = (self.sender.stamped_at(self.now, &tx).0 / 1000) as u32;
            let event =
                Event::Data { seq: tx.seq, payload: tx.payload, ts, ecn, cwr: tx.cwr, push: tx.push, syn: tx.syn };
            let at = self.free + self.one_way + fate.late;
            self.schedule(at, event);
            if fate.twice {
                self.schedule(at + Span::from_millis(3), event);
            }
        }
        self.compare_full();
    }

    /// Checks a poll that is answered at once because the window is full: the full path sends nothing and changes nothing.
    fn compare_full(&mut self) {
        if let Some((segment, asked)) = self.sender.full_window_answer(self.now) {
            self.spared += 1;
            assert!(segment.is_none(), "{segment:?}");
            assert_eq!(asked, self.sender);
        }
    }

    /// Checks that a run has the segments that would have been sent one by one, and leaves the sender in the same state. If no run
    /// is possible, asking for one changes nothing.
    fn compare_run(&self) {
        let (mut by_run, mut by_one) = (self.sender.clone(), self.sender.clone());
        let one_by_one =
            |sender: &mut Sender| -> Vec<Transmit> { core::iter::from_fn(|| sender.poll_transmit(self.now)).collect() };
        let run = by_run.take_full(self.now);
        let singles = one_by_one(&mut by_one);
        if let Some(run) = run {
            let full = |tx: &Transmit| tx.payload == self.config.mss && !(tx.retransmit || tx.syn || tx.cwr);
            assert!(singles.iter().all(full), "{singles:?} in a run");
            assert!(run.segments.clone().eq(singles.iter().map(|tx| tx.seq)), "{singles:?}");
            assert!(singles.iter().all(|tx| run.is_pushed(tx.seq) == tx.push), "{run:?} {singles:?}");
            assert_eq!(run.pushes(), singles.iter().any(|tx| tx.push), "{run:?}");
        } else {
            assert_eq!(one_by_one(&mut by_run), singles);
        }
        assert_eq!(by_run, by_one);
    }

    /// Checks that the short cut for an ACK has the same effect as the full path. If it does not apply, it changes nothing.
    pub(in crate::tcp) fn compare_short_cut(&self, ack: &Ack, blocks: &[Block]) {
        let (mut short, mut long) = (self.sender.clone(), self.sender.clone());
        if !ack.syn && ack.cum <= long.sent() && self.config.recovery == Recovery::Rack && long.is_established() {
            if let Some(acked) = short.on_sacked_above(self.now, ack, blocks) {
                assert_eq!(acked, long.on_ack_linux(self.now, ack, blocks));
            }
            assert_eq!(short, long);
        }
    }

    fn answer(&mut self, ack: Ack) {
        self.acks_sent += 1;
        let (blocks, count) = self.receiver.take_blocks();
        let fate = (self.acks)();
        if fate.lost {
            return;
        }
        let at = self.now + self.one_way + fate.late;
        let at = Time(at.0.div_ceil(self.slot.0) * self.slot.0);
        self.schedule(at, Event::Ack { ack, blocks, count });
    }

    /// Handles the next event up to `end`; false if there is none.
    pub(in crate::tcp) fn step(&mut self, end: Time) -> bool {
        let event = self.events.first_key_value().map_or(Time::NEVER, |(key, _)| key.0);
        let at = event.min(self.sender.next_event()).min(self.receiver.next_event());
        if at > end || at == Time::NEVER {
            return false;
        }
        assert!(at >= self.now, "time goes back");
        self.now = at;
        if event == at {
            match self.events.pop_first().unwrap().1 {
                Event::Data { ts, syn: true, .. } => {
                    let ack = Ack { ts_first: ts, ts_last: ts, window: self.config.rwnd, syn: true, ..Ack::default() };
                    self.answer(ack);
                }
                Event::Data { seq, payload, ts, ecn, cwr, push: pushed, .. } => {
                    let full = payload == self.config.mss;
                    if self.receiver.accept(at, Arrival { seq, full, pushed, ts, rtt_us: 0, ecn, cwr }) {
                        let ack = self.receiver.ack();
                        self.answer(ack);
                    }
                }
                Event::Ack { ack, blocks, count } => {
                    self.compare_short_cut(&ack, &blocks[..count]);
                    self.payload_acked += self.sender.on_ack(at, &ack, &blocks[..count]).payload;
                }
            }
        } else if self.receiver.next_event() <= at {
            if let Some(ack) = self.receiver.on_timer(at) {
                self.answer(ack);
            }
        } else {
            self.sender.on_timer(at);
        }
        self.poll();
        true
    }

    pub(in crate::tcp) fn run_until(&mut self, end: Time) {
        self.poll();
        while self.step(end) {}
        self.now = self.now.max(end);
    }
}

pub(in crate::tcp) fn at_ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

#[test]
fn both_ends_of_a_connection_are_small() {
    let sizes = (size_of::<Sender>(), size_of::<Receiver>());
    assert!(sizes.0 <= 648 && sizes.1 <= 216, "{sizes:?}");
}
