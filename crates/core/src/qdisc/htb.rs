//! htb with one class: a shaper with two token buckets, `rate` and `ceil`.
//!
//! Source: Linux 6.1 to 7.3 `net/sched/sch_htb.c` (M. Devera), `tc-htb(8)`.
//! Principle: the class may send while neither bucket is negative. Unlike tbf, htb does not check whether there are
//! enough tokens for a packet: it sends the packet, takes the tokens, and waits until neither bucket is negative. As
//! the class has no parent to borrow from, the lower of the two rates applies.
//!
//! Deviations:
//! - There is one class, to which all packets belong. `tc` creates it with separate commands, so a line here is not a
//!   line for `tc`: `htb rate …` means `tc qdisc add … handle 1: htb default 1` and `tc class add … classid 1:1 htb
//!   rate …`.
//! - Packets wait in a pfifo of 1000 packets, or in a `child`.

use super::fifo::PfifoParams;
use super::param::{Nested, Param, Parameters, Shaper, Unit, param};
use super::psched::{LinkLayer, MAX_RATE, RateConfig, check_child, counted, xmittime_ticks};
use super::{Child, Drops, Qdisc};
use crate::packet::Packet;
use crate::units::{Rate, Span, Time};
use alloc::boxed::Box;

/// The reason why one line for htb is not enough.
pub(super) const CLASSES_MISSING: &str = "htb shapes by its classes, and none is given; expected its class too (tc class show), or a line such as: htb rate 10mbit child fq_codel";

/// Parameters of htb's class; `C` are those of its child.
#[derive(Clone, PartialEq, Debug)]
pub struct Params<C> {
    /// The rate of the class, in bits per second.
    pub rate: Rate,
    /// The rate that the class may not exceed, in bits per second; by default `rate`.
    pub ceil: Option<Rate>,
    /// Bytes that may leave at once at `rate`.
    pub burst: u32,
    /// Bytes that may leave at once at `ceil`.
    pub cburst: u32,
    /// Bytes that a packet takes up on the link in addition to its length.
    pub overhead: u32,
    /// The least number of bytes that a packet takes up on the link.
    pub mpu: u32,
    /// How the link frames packets.
    pub linklayer: LinkLayer,
    /// The discipline in which packets wait.
    pub child: Option<Box<C>>,
}

impl<C> Default for Params<C> {
    fn default() -> Self {
        let rate = Rate(10_000_000);
        Params {
            rate,
            ceil: None,
            burst: 1600,
            cburst: 1600,
            overhead: 0,
            mpu: 0,
            linklayer: LinkLayer::Ethernet,
            child: None,
        }
    }
}

impl<C: Nested> Parameters for Params<C> {
    const NAME: &'static str = "htb";
    const DOC: &'static str = "holds packets back to a rate: htb with one class";
    const TC: bool = false;
    const HINT: &'static str = CLASSES_MISSING;
    const DETAILS: &'static [&'static str] = &["mpu"];
    const ONCE: &'static [&'static str] = &["rate", "ceil"];
    const PARAMS: &'static [Param<Self>] = &[
        param!(Self.rate, Unit::Rate, "bits a second").range(8, MAX_RATE).required().ours(),
        param!(Self.ceil, Unit::Rate, "bits a second that it may not exceed; default: rate")
            .range(8, MAX_RATE)
            .zero_unsent()
            .ours(),
        param!(Self.burst, Unit::SizeAndCell, "bytes that may leave at once at rate")
            .range(1, 1 << 30)
            .zero_unsent()
            .aliases(&["buffer", "maxburst"])
            .abbreviated()
            .ours(),
        param!(Self.cburst, Unit::SizeAndCell, "bytes that may leave at once at ceil")
            .range(1, 1 << 30)
            .zero_unsent()
            .aliases(&["cbuffer", "cmaxburst"])
            .abbreviated()
            .ours(),
        param!(Self.overhead, Unit::Number, "bytes that a packet takes up beyond its length")
            .range(0, 65_535)
            .shown_if_set()
            .abbreviated()
            .ours(),
        param!(Self.mpu, Unit::Bytes, "bytes that a packet takes up at least").range(0, 65_535).ours(),
        param!(
            Self.linklayer,
            Unit::Choice(LinkLayer::WORDS, &[]),
            "how the link frames packets: atm sends cells of 53 bytes"
        )
        .shown_if_set()
        .abbreviated()
        .ours(),
        Param::ignored("prio", 1, "one class has no other to go before"),
        Param::ignored("quantum", 1, "one class has no other to share with"),
        Param::impossible("default", CLASSES_MISSING),
        Param::impossible("r2q", CLASSES_MISSING),
        Param::impossible("direct_qlen", CLASSES_MISSING),
        Param::impossible("offload", "has the network card shape, and the card here does not: leave it out"),
        Param::child(),
    ];

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        check_child(self.child.as_deref())
    }
}

impl<C: Nested> Shaper for Params<C> {
    type Child = C;

    fn child(&self) -> Option<&C> {
        self.child.as_deref()
    }

    fn set_child(&mut self, child: Box<C>) {
        self.child = Some(child);
    }
}

impl<C> Params<C> {
    /// The FIFO in which packets wait if the line names no child.
    pub fn fifo(&self) -> PfifoParams {
        PfifoParams::default()
    }
}

/// The bound of a bucket's debt, and of the time for which it earns tokens, in ns (`mbuffer`).
const MBUFFER: i64 = 60_000_000_000;

/// A token bucket. Tokens are counted in ns of its rate.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: RateConfig,
    /// The depth of the bucket, in ns of its rate.
    buffer: i64,
    tokens: i64,
}

impl Bucket {
    fn new<C>(rate: Rate, burst: u32, params: &Params<C>) -> Bucket {
        let buffer = xmittime_ticks(rate, burst) as i64 * 64;
        Bucket { rate: RateConfig::new(rate, params.overhead, params.mpu, params.linklayer), buffer, tokens: buffer }
    }

    /// Adds the tokens of `came` ns, and subtracts the tokens of a packet of `bytes` bytes.
    fn charge(&mut self, came: i64, bytes: u32) {
        let tokens = (came + self.tokens).min(self.buffer) - self.rate.l2t_ns(bytes);
        self.tokens = if tokens <= -MBUFFER { 1 - MBUFFER } else { tokens };
    }
}

/// The discipline, above a child of type `Q`.
#[derive(Clone, Debug)]
pub struct Htb<Q> {
    rate: Bucket,
    ceil: Bucket,
    /// The time at which the tokens were last updated.
    t_c: Time,
    /// The time until which the class may not send; `None` if it may send now. Its state is checked again at that time.
    pq_key: Option<Time>,
    next: Time,
    child: Box<Q>,
    overlimits: u64,
}

impl<Q> Htb<Q> {
    /// Full buckets above a child.
    pub fn new<C>(params: &Params<C>, child: Q) -> Self {
        Htb {
            rate: Bucket::new(params.rate, params.burst, params),
            ceil: Bucket::new(params.ceil.unwrap_or(params.rate), params.cburst, params),
            t_c: Time::ZERO,
            pq_key: None,
            next: Time::NEVER,
            child: Box::new(child),
            overlimits: 0,
        }
    }

    /// Returns the nanoseconds since the tokens were last updated, at most `MBUFFER`.
    fn came(&self, now: Time) -> i64 {
        i64::try_from(now.since(self.t_c).0).map_or(MBUFFER, |since| since.min(MBUFFER))
    }

    /// Decides whether the class may send after `came` ns of tokens are added (`htb_class_mode`). If not, it waits
    /// until the `ceil` bucket is no longer negative, and only then for the `rate` bucket.
    fn look(&mut self, now: Time, came: i64) {
        let could = self.pq_key.is_none();
        let (ctokens, tokens) = (self.ceil.tokens + came, self.rate.tokens + came);
        let debt = if ctokens < 0 { -ctokens } else { -tokens };
        self.pq_key = (debt > 0).then(|| now + Span(debt as u64));
        self.overlimits += u64::from(could && ctokens < 0);
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Htb<Q> {
    type Params = Params<Q::Params>;

    // Not inlined, because the child's code is inlined here.
    #[inline(never)]
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut impl Drops<P>) {
        self.child.enqueue(now, packet, drops);
    }

    #[inline(never)]
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        self.next = Time::NEVER;
        if self.child.packets() == 0 {
            return None;
        }
        if self.pq_key.is_some_and(|due| now >= due) {
            self.look(now, self.came(now));
        }
        if let Some(due) = self.pq_key {
            self.next = due;
            return None;
        }
        let Some(packet) = self.child.dequeue(now, drops) else {
            self.next = self.child.next_event();
            return None;
        };
        let came = self.came(now);
        self.rate.charge(came, packet.bytes());
        self.ceil.charge(came, packet.bytes());
        self.t_c = now;
        self.look(now, 0);
        Some(packet)
    }

    fn next_event(&self) -> Time {
        self.next
    }

    fn packets(&self) -> usize {
        self.child.packets()
    }

    fn backlog(&self) -> u64 {
        self.child.backlog()
    }

    fn is_full(&self, mtu: u32) -> bool {
        self.child.is_full(mtu)
    }

    /// Number of times that the ceiling was reached.
    fn overlimits(&self) -> u64 {
        self.overlimits
    }

    fn child(&self) -> Option<Child> {
        Some(counted(&*self.child, 0, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::AnyQdisc;
    use crate::qdisc::tc::Spec;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
    use alloc::vec::Vec;

    fn departures(line: &str, count: u32) -> Vec<u64> {
        let spec: Spec = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut bench: Bench<AnyQdisc<Parcel>> = Bench::new(spec.build(&CONTEXT));
        bench.fill(ms(1000), 1, 1000, count);
        let (mut now, mut times) = (ms(1000), Vec::new());
        while bench.qdisc.packets() > 0 {
            match bench.take(now) {
                Some(_) => times.push(now.0 / 1000 - 1_000_000),
                None => now = bench.qdisc.next_event(),
            }
        }
        times
    }

    #[test]
    fn it_sends_into_debt_and_waits_until_that_is_paid() {
        // The rate is 1 byte per µs. A full bucket of 1600 bytes sends 2000 bytes at once, a debt of 400 µs.
        assert_eq!(departures("htb rate 8mbit", 5), [0, 0, 400, 1400, 2400]);
    }

    #[test]
    fn the_lower_of_rate_and_ceil_counts_without_a_parent_to_borrow_from() {
        assert_eq!(departures("htb rate 8mbit ceil 16mbit burst 1600 cburst 1600", 4), [0, 0, 400, 1400]);
        assert_eq!(departures("htb rate 16mbit ceil 8mbit burst 1600 cburst 1600", 4), [0, 0, 400, 1400]);
        // A small `cburst` spaces packets that the `rate` bucket would send at once. (tc turns one byte into 0.)
        assert_eq!(departures("htb rate 8mbit ceil 16mbit burst 4000 cburst 1", 6), [0, 500, 1000, 1500, 2000, 2500]);
    }

    #[test]
    fn what_waits_stands_in_the_child() {
        let line = "htb rate 8mbit child pfifo limit 3";
        let spec: Spec = line.parse().expect(line);
        let mut bench: Bench<AnyQdisc<Parcel>> = Bench::new(spec.build(&CONTEXT));
        bench.fill(ms(0), 1, 1000, 5);
        assert_eq!((bench.qdisc.packets(), bench.drops.len(), spec.tc_line()), (3, 2, None));
        assert!(bench.qdisc.is_full(40));
    }
}
