//! Disciplines from outside of this crate: a library of the user's, or a class in Python.
//!
//! Such a discipline sees a [`Label`] of each packet and returns labels. [`External`] keeps the packets themselves, so
//! that a discipline from outside need not know the packet's type. A [`Maker`] creates the discipline for a link.
//! `crates/py` has the makers, because they need `unsafe` or Python.
//!
//! A discipline from outside may fail: it may return a packet that it does not hold, or raise an exception. The error is
//! then passed to the maker. All queued packets are dropped, and every later one. The world looks at the maker after the run
//! and discards the results.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::{Context, DropReason, Drops, Qdisc};
use crate::packet::{Ecn, Packet};
use crate::units::Time;

/// The part of a packet that a discipline from outside sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// The number by which the packet is known while it is queued.
    pub id: u64,
    /// Length in bytes, as the link counts it.
    pub bytes: u32,
    /// The flow hash, equal for all packets of a flow.
    pub flow: u32,
    /// The ECN field. A mark sets it to [`Ecn::Ce`].
    pub ecn: Ecn,
}

/// A packet that a discipline from outside dropped: its id and the number of a [`DropReason`].
pub type Dropped = (u64, u8);

/// A discipline from outside. Every error is a sentence for the user, after which the discipline is not called again.
pub trait Outside: Send {
    /// Enqueues a packet, or drops it or others.
    ///
    /// # Errors
    /// The discipline failed.
    fn enqueue(&mut self, now: Time, packet: Label, dropped: &mut Vec<Dropped>) -> Result<(), String>;

    /// Dequeues a packet, if there is one that may leave now.
    ///
    /// # Errors
    /// The discipline failed.
    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped>) -> Result<Option<Label>, String>;

    /// The time of the next dequeue, after one that returned no packet although packets are queued: [`Time::NEVER`] if
    /// the discipline holds no packets back.
    ///
    /// # Errors
    /// The discipline failed.
    fn next_event(&mut self) -> Result<Time, String>;
}

/// Creates a discipline from outside, and takes its errors.
pub trait Maker: fmt::Debug + Send + Sync {
    /// The name by which lines refer to the discipline.
    fn name(&self) -> &str;

    /// Creates a discipline from a line whose first word is its name. `None` after an error, which the maker keeps.
    fn make(&self, line: &str, context: &Context) -> Option<Box<dyn Outside>>;

    /// Keeps an error of a discipline that this maker created.
    fn failed(&self, problem: String);
}

/// A line of a discipline from outside, whose words only that discipline reads.
#[derive(Clone, Debug)]
pub struct ExternalLine {
    pub(super) line: String,
    pub(super) maker: Option<Arc<dyn Maker>>,
}

impl PartialEq for ExternalLine {
    /// Compares the lines, and not the makers.
    fn eq(&self, other: &ExternalLine) -> bool {
        self.line == other.line
    }
}

impl ExternalLine {
    /// A line that no maker is known for yet. The words are separated by single spaces.
    pub fn new(line: &str) -> ExternalLine {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        ExternalLine { line: words.join(" "), maker: None }
    }

    /// The discipline's name.
    pub fn name(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// Remembers the maker of this name, if it is one of these.
    pub(super) fn bind(&mut self, makers: &[Arc<dyn Maker>]) {
        self.maker = makers.iter().find(|maker| maker.name() == self.name()).cloned();
    }

    /// The number after the word `limit`, which is taken as a limit in packets.
    fn limit(&self) -> Option<usize> {
        self.line.split(' ').skip_while(|word| *word != "limit").nth(1)?.parse().ok()
    }
}

/// A discipline from outside, with its packets.
#[derive(Debug)]
pub struct External<P> {
    /// `None` after an error.
    outside: Option<Hidden>,
    maker: Arc<dyn Maker>,
    /// The packets by the lower half of their ids. The upper half counts the packets that the slot has held, so that
    /// the id of a packet that has left is recognised.
    slots: Vec<(u32, Option<P>)>,
    free: Vec<u32>,
    backlog: u64,
    /// The time of the next dequeue, as of the last dequeue without a packet.
    next: Time,
    limit: usize,
    dropped: Vec<Dropped>,
}

/// A discipline without a text of its own.
struct Hidden(Box<dyn Outside>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a discipline from outside")
    }
}

impl<P: Packet> External<P> {
    /// Creates the discipline, empty, in front of a link. Panics if no maker is known.
    pub fn new(line: &ExternalLine, context: &Context) -> External<P> {
        let maker = line.maker.clone();
        let maker = maker.unwrap_or_else(|| panic!("bug: nobody makes {}, and it was not refused", line.name()));
        External {
            outside: maker.make(&line.line, context).map(Hidden),
            maker,
            slots: Vec::new(),
            free: Vec::new(),
            backlog: 0,
            next: Time::NEVER,
            limit: line.limit().unwrap_or(usize::MAX),
            dropped: Vec::new(),
        }
    }

    fn put(&mut self, packet: P) -> u64 {
        self.backlog += u64::from(packet.bytes());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (round, held) = &mut self.slots[slot as usize];
        *round = round.wrapping_add(1);
        *held = Some(packet);
        u64::from(*round) << 32 | u64::from(slot)
    }

    fn take(&mut self, id: u64) -> Option<P> {
        let (round, held) = self.slots.get_mut(id as u32 as usize)?;
        let packet = if u64::from(*round) == id >> 32 { held.take() } else { None }?;
        self.free.push(id as u32);
        self.backlog -= u64::from(packet.bytes());
        Some(packet)
    }

    /// Passes on the packets that the discipline dropped in its last call.
    fn pass_on(&mut self, drops: &mut impl Drops<P>) -> Result<(), String> {
        let mut dropped = core::mem::take(&mut self.dropped);
        for (id, number) in dropped.drain(..) {
            let reason = DropReason::ALL.get(usize::from(number)).ok_or_else(|| {
                format!("dropped a packet for reason {number}: expected 0 to {}", DropReason::ALL.len() - 1)
            })?;
            let packet = self.take(id).ok_or("dropped a packet that it does not hold")?;
            drops.dropped(packet, *reason);
        }
        self.dropped = dropped;
        Ok(())
    }

    /// Ends the discipline after an error.
    #[cold]
    fn end(&mut self, problem: String, drops: &mut impl Drops<P>) {
        self.maker.failed(problem);
        self.outside = None;
        self.next = Time::NEVER;
        for packet in self.slots.drain(..).filter_map(|(_, held)| held) {
            drops.dropped(packet, DropReason::Overlimit);
        }
        self.free.clear();
        self.backlog = 0;
    }

    fn try_dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Result<Option<P>, String> {
        let Some(Hidden(outside)) = &mut self.outside else { return Ok(None) };
        let found = outside.dequeue(now, &mut self.dropped)?;
        self.pass_on(drops)?;
        let Some(label) = found else {
            if self.packets() > 0
                && let Some(Hidden(outside)) = &mut self.outside
            {
                self.next = outside.next_event()?.max(now);
            }
            return Ok(None);
        };
        let mut packet = self.take(label.id).ok_or("dequeued a packet that it does not hold")?;
        let before = packet.ecn();
        if label.ecn != before && (label.ecn != Ecn::Ce || !packet.mark()) {
            self.put(packet); // to be dropped with all others
            let (from, to) = (before as u8, label.ecn as u8);
            return Err(format!(
                "changed a packet's ECN field from {from} to {to}: expected 3 instead of 1 or 2, a mark"
            ));
        }
        Ok(Some(packet))
    }
}

impl<P: Packet> Qdisc<P> for External<P> {
    type Params = ExternalLine;

    // The calls are kept out of the code of other disciplines, which would be slower otherwise.
    #[cold]
    #[inline(never)]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        packet.set_enqueue_time(now);
        if self.outside.is_none() {
            return drops.dropped(packet, DropReason::Overlimit);
        }
        let (bytes, flow, ecn) = (packet.bytes(), packet.flow_hash(), packet.ecn());
        let label = Label { id: self.put(packet), bytes, flow, ecn };
        let Some(Hidden(outside)) = &mut self.outside else { return };
        let enqueued = outside.enqueue(now, label, &mut self.dropped);
        if let Err(problem) = enqueued.and_then(|()| self.pass_on(drops)) {
            self.end(problem, drops);
        }
    }

    #[cold]
    #[inline(never)]
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        self.next = Time::NEVER;
        self.try_dequeue(now, drops).unwrap_or_else(|problem| {
            self.end(problem, drops);
            None
        })
    }

    fn next_event(&self) -> Time {
        self.next
    }

    fn packets(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    /// Known only if the line has a `limit`, which is taken as one in packets.
    fn is_full(&self, _mtu: u32) -> bool {
        self.packets() >= self.limit
    }
}

/// Returns the reason why a name cannot be that of a discipline from outside; `None` if it can.
pub fn refuse_name(name: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || !name.chars().all(plain) {
        return Some("expected a name of letters, digits, _ and -".to_string());
    }
    if super::tc::NAMES.contains(&name) || name == "pfifo_fast" {
        return Some("sojourn has a discipline of this name; expected another".to_string());
    }
    if ["tc", "qdisc", "class", "sudo", "doas"].contains(&name) {
        return Some("lines of tc begin with this word; expected another".to_string());
    }
    if super::tc::instead_of(name).is_some() {
        return Some("Linux has a discipline of this name; expected another".to_string());
    }
    None
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::qdisc::tc::Spec;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
    use alloc::vec::Vec;
    use std::sync::Mutex;

    /// A FIFO that makes one mistake when `fault` says so.
    struct Fifo {
        queue: Vec<Label>,
        fault: &'static str,
    }

    impl Outside for Fifo {
        fn enqueue(&mut self, _: Time, packet: Label, dropped: &mut Vec<Dropped>) -> Result<(), String> {
            match (self.queue.len(), self.fault) {
                (2, "raises") => return Err("it had a bad day".to_string()),
                (2, "reason") => dropped.push((packet.id, 200)),
                (2, "unknown drop") => dropped.push((u64::MAX, 0)),
                (3, _) => dropped.push((packet.id, DropReason::Overlimit as u8)),
                _ => self.queue.push(packet),
            }
            Ok(())
        }

        fn dequeue(&mut self, _: Time, _: &mut Vec<Dropped>) -> Result<Option<Label>, String> {
            let Some(first) = self.queue.first().copied() else { return Ok(None) };
            match self.fault {
                "twice" => {}
                "holds" => return Ok(None),
                "unmarks" => return Ok(Some(Label { ecn: Ecn::NotEct, ..self.queue.remove(0) })),
                _ => drop(self.queue.remove(0)),
            }
            Ok(Some(Label { ecn: if first.ecn == Ecn::Ect0 { Ecn::Ce } else { first.ecn }, ..first }))
        }

        fn next_event(&mut self) -> Result<Time, String> {
            Ok(ms(7))
        }
    }

    /// Makes such FIFOs, and keeps their errors.
    #[derive(Debug)]
    struct Fifos(&'static str, Mutex<Vec<String>>);

    impl Maker for Fifos {
        fn name(&self) -> &str {
            "mine"
        }
        fn make(&self, line: &str, _: &Context) -> Option<Box<dyn Outside>> {
            assert_eq!(line, "mine limit 3");
            Some(Box::new(Fifo { queue: Vec::new(), fault: self.0 }))
        }
        fn failed(&self, problem: String) {
            self.1.lock().expect("no panic before").push(problem);
        }
    }

    fn bench(fault: &'static str) -> (Bench<External<Parcel>>, Arc<Fifos>) {
        let fifos = Arc::new(Fifos(fault, Mutex::default()));
        let mut line = ExternalLine::new("mine  limit 3");
        let maker: Arc<dyn Maker> = fifos.clone();
        line.bind(&[maker]);
        (Bench::new(External::new(&line, &CONTEXT)), fifos)
    }

    #[test]
    fn packets_come_back_whole_and_ids_are_used_again() {
        let (mut bench, fifos) = bench("");
        for round in 0..5 {
            let ids = [100, 200, 300, 400].map(|bytes| bench.put(ms(round), 7, bytes));
            assert_eq!((bench.qdisc.packets(), bench.qdisc.backlog(), bench.qdisc.is_full(1514)), (3, 600, true));
            assert_eq!(
                bench.drops.pop().map(|(packet, reason)| (packet.id, reason)),
                Some((ids[3], DropReason::Overlimit))
            );
            for (id, bytes) in ids.iter().zip([100, 200, 300]) {
                let packet = bench.qdisc.dequeue(ms(round), &mut bench.drops).expect("a packet");
                assert_eq!((packet.id, packet.bytes, packet.hash), (*id, bytes, 7));
            }
            assert_eq!(bench.qdisc.dequeue(ms(round), &mut bench.drops), None);
            assert_eq!((bench.qdisc.packets(), bench.qdisc.next_event()), (0, Time::NEVER));
        }
        assert_eq!(bench.qdisc.slots.len(), 4);
        assert!(fifos.1.lock().expect("no panic").is_empty());
    }

    #[test]
    fn a_mark_is_taken_over_and_packets_may_be_held_back() {
        let (mut bench, _) = bench("");
        let packet = Parcel { ecn: Ecn::Ect0, bytes: 100, ..Parcel::default() };
        bench.qdisc.enqueue(ms(1), packet, &mut bench.drops);
        assert_eq!(bench.qdisc.dequeue(ms(1), &mut bench.drops).map(|packet| packet.ecn), Some(Ecn::Ce));
        let (mut bench, _) = self::bench("holds");
        bench.put(ms(1), 7, 100);
        assert_eq!(bench.qdisc.dequeue(ms(1), &mut bench.drops), None);
        assert_eq!(bench.qdisc.next_event(), ms(7));
    }

    #[test]
    fn an_error_is_said_once_and_ends_the_discipline_with_its_packets_dropped() {
        for (fault, said) in [
            ("raises", "it had a bad day"),
            ("reason", "dropped a packet for reason 200: expected 0 to 11"),
            ("unknown drop", "dropped a packet that it does not hold"),
            ("twice", "dequeued a packet that it does not hold"),
            ("unmarks", "changed a packet's ECN field from 2 to 0: expected 3 instead of 1 or 2, a mark"),
        ] {
            let (mut bench, fifos) = bench(fault);
            for at in 1..4 {
                let packet = Parcel { ecn: Ecn::Ect0, bytes: 100, ..Parcel::default() };
                bench.qdisc.enqueue(ms(at), packet, &mut bench.drops);
            }
            let left = (0..4).filter_map(|_| bench.qdisc.dequeue(ms(5), &mut bench.drops)).count();
            bench.put(ms(6), 7, 100);
            assert_eq!(bench.qdisc.dequeue(ms(7), &mut bench.drops), None);
            assert_eq!((bench.qdisc.packets(), bench.qdisc.backlog()), (0, 0), "{fault}");
            assert_eq!(left + bench.drops.len(), 4, "{fault}: every packet has one fate");
            assert_eq!(*fifos.1.lock().expect("no panic"), [said]);
        }
    }

    #[test]
    fn a_line_from_outside_is_kept_word_by_word_and_not_known_to_tc() {
        let spec = Spec::of_outside(" mine  limit 5 ", &["other", "mine"]).expect("a name");
        assert_eq!((spec.kind(), spec.to_string(), spec.tc_line()), ("mine", "mine limit 5".to_string(), None));
        assert_eq!(Spec::of_outside("yours", &["mine"]), None);
        assert!(spec.changed("mine limit 6").is_err_and(|error| error.problem.contains("cannot be changed")));
        let refused = ["", "a b", "codel", "pfifo_fast", "netem", "class"].map(|name| refuse_name(name).is_some());
        assert_eq!((refused, refuse_name("my-codel_2")), ([true; 6], None));
    }
}
