//! tbf: a token bucket filter, which limits packets to a rate.
//!
//! Source: Linux 6.1 to 7.3 `net/sched/sch_tbf.c`, `tc-tbf(8)`.
//! Principle: tokens flow into a bucket at `rate` until it holds enough for `burst` bytes. A packet leaves when there
//! are enough tokens for it, and consumes them. With `peakrate`, a second, small bucket of `mtu` bytes limits the rate
//! within bursts. Packets wait in a bfifo of `limit` bytes, or in a `child`.
//!
//! Deviations:
//! - `child` and the rest of the line are ours: `tc` creates a child with a separate command.
//! - A packet that tbf has taken from its child and holds back itself does not count towards the child's own limits.
//!   (From the FIFOs, prio, red, choke and sfb, tbf takes no packet in advance.)

use super::fifo::BfifoParams;
use super::param::{Nested, Param, Parameters, Shaper, Unit, param};
use super::psched::{LinkLayer, MAX_RATE, RateConfig, bytes_per_second, check_child, counted};
use super::{Child, DropReason, Drops, Qdisc, Unchangeable};
use crate::packet::Packet;
use crate::units::{Rate, Span, Time};
use alloc::boxed::Box;

/// Parameters of tbf; `C` are those of its child.
#[derive(Clone, PartialEq, Debug)]
pub struct Params<C> {
    /// The rate, in bits per second.
    pub rate: Rate,
    /// Bytes that may leave at once.
    pub burst: u32,
    /// The limit of the queue, in bytes.
    pub limit: Option<u32>,
    /// The longest time that a packet may wait, from which the limit is derived if `limit` is not given.
    pub latency: Option<Span>,
    /// The rate that bursts may not exceed, in bits per second.
    pub peakrate: Option<Rate>,
    /// Bytes that may leave at once at `peakrate`.
    pub mtu: Option<u32>,
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
        Params {
            rate: Rate(10_000_000),
            burst: 10_240,
            limit: Some(100_000),
            latency: None,
            peakrate: None,
            mtu: None,
            overhead: 0,
            mpu: 0,
            linklayer: LinkLayer::Ethernet,
            child: None,
        }
    }
}

/// The longest wait, in seconds.
const LONGEST: u64 = 900;

impl<C> Params<C> {
    /// The FIFO in which packets wait if the line names no child.
    pub fn fifo(&self) -> BfifoParams {
        BfifoParams { limit: self.bytes() }
    }

    /// The limit in bytes that `tc` derives from `latency`.
    fn bytes(&self) -> u32 {
        let within = |rate: Rate, size: u32, latency: Span| {
            u128::from(bytes_per_second(rate)) * u128::from(latency.0 / 1000) / 1_000_000 + u128::from(size)
        };
        let latency = self.latency.unwrap_or_default();
        let peak = self.peakrate.map(|rate| within(rate, self.mtu.unwrap_or(0), latency));
        let all = within(self.rate, self.burst, latency);
        self.limit.unwrap_or_else(|| peak.map_or(all, |peak| peak.min(all)).min(u128::from(u32::MAX)) as u32)
    }
}

impl<C: Nested> Parameters for Params<C> {
    const NAME: &'static str = "tbf";
    const DOC: &'static str = "holds packets back to a rate by a token bucket";
    const REPLACED: bool = true;
    const FIXED: &'static [&'static str] = &["child"];
    const DETAILS: &'static [&'static str] = &["mpu"];
    const ONCE: &'static [&'static str] = &["rate", "burst", "limit", "latency", "peakrate", "mtu", "overhead", "mpu"];
    const PARAMS: &'static [Param<Self>] = &[
        param!(Self.rate, Unit::Rate, "bits a second").range(8, MAX_RATE).required(),
        param!(Self.burst, Unit::SizeAndCell, "bytes that may leave at once")
            .range(1, 1 << 30)
            .required()
            .aliases(&["buffer", "maxburst"])
            .abbreviated(),
        param!(Self.limit, Unit::Size, "bytes that may wait")
            .range(1, 1 << 31)
            .printed()
            .zero_unsent()
            .abbreviated()
            .shown_if_set(),
        param!(Self.latency, Unit::Time, "in place of limit: how long a packet may wait")
            .range(1_000, LONGEST * 1_000_000_000)
            .shown_if_set()
            .zero_unsent()
            .abbreviated(),
        param!(Self.peakrate, Unit::Rate, "bits a second that bursts may not exceed")
            .range(8, MAX_RATE)
            .shown_if_set()
            .zero_unsent()
            .abbreviated(),
        param!(Self.mtu, Unit::SizeAndCell, "bytes that may leave at once at peakrate")
            .range(1, 1 << 30)
            .shown_if_set()
            .zero_unsent()
            .aliases(&["minburst"]),
        param!(Self.overhead, Unit::Number, "bytes that a packet takes up beyond its length")
            .range(0, 65_535)
            .shown_if_set()
            .abbreviated(),
        param!(Self.mpu, Unit::Size, "bytes that a packet takes up at least").range(0, 65_535),
        param!(
            Self.linklayer,
            Unit::Choice(LinkLayer::WORDS, &[]),
            "how the link frames packets: atm sends cells of 53 bytes"
        )
        .shown_if_set()
        .abbreviated(),
        Param::child(),
    ];

    fn blank() -> Self {
        Params { limit: None, ..Params::default() }
    }

    fn for_tc(&self) -> bool {
        self.child.is_none()
    }

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if self.child.is_none() && self.limit.is_none() && self.latency.is_none() {
            return Err(("limit", "must be given, or latency, or a child"));
        }
        if self.limit.is_some() && self.latency.is_some() {
            return Err(("latency", "can't be given together with limit"));
        }
        // tc would print the time in a way that it can't read itself.
        if u64::from(self.bytes()) / bytes_per_second(self.rate).max(1) > LONGEST {
            return Err(("limit", "holds packets back for more than 900 seconds"));
        }
        match (self.peakrate, self.mtu) {
            (Some(_), None) => Err(("mtu", "must be given with peakrate")),
            (Some(peak), _) if bytes_per_second(peak) <= bytes_per_second(self.rate) => {
                Err(("peakrate", "must be above rate"))
            }
            _ => check_child(self.child.as_deref()),
        }
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

/// A discipline that tbf can have as its child.
pub trait TbfChild<P: Packet>: Qdisc<P> {
    /// The packet that the next dequeue returns, for disciplines that know it without a decision (`qdisc_peek_head`).
    /// `None` for disciplines that must be dequeued to find out (`qdisc_peek_dequeued`).
    fn peek_head(&self) -> Option<Option<&P>>;

    /// Sets the limit of the child if it is a FIFO (`fifo_set_limit`).
    fn set_fifo_limit(&mut self, limit: u32);
}

/// The two buckets.
#[derive(Clone, Copy, Debug)]
struct Buckets {
    rate: RateConfig,
    peak: Option<RateConfig>,
    /// The size in bytes of the largest packet that is accepted.
    max_size: u32,
    /// The depth of the `rate` bucket in ns of its rate. `mtu` is the same for the `peakrate` bucket.
    buffer: i64,
    mtu: i64,
}

impl Buckets {
    fn new<C>(params: &Params<C>) -> Buckets {
        let rate = RateConfig::new(params.rate, params.overhead, params.mpu, params.linklayer);
        let peak = params.peakrate.map(|peak| RateConfig::new(peak, params.overhead, params.mpu, params.linklayer));
        let pburst = params.mtu.unwrap_or(0);
        Buckets {
            rate,
            peak,
            max_size: if peak.is_some() { params.burst.min(pburst) } else { params.burst },
            buffer: rate.l2t_ns(params.burst),
            mtu: peak.map_or(0, |peak| peak.l2t_ns(pburst)),
        }
    }
}

/// The discipline, above a child of type `Q`.
#[derive(Clone, Debug)]
pub struct Tbf<P, Q> {
    buckets: Buckets,
    tokens: i64,
    ptokens: i64,
    /// The time at which the tokens were last updated.
    t_c: Time,
    /// The time at which there are enough tokens for the next packet.
    next: Time,
    child: Box<Q>,
    /// A packet that was taken from the child and waits for its tokens.
    held: Option<P>,
    overlimits: u64,
    /// Number of packets that were dropped because they are longer than the bucket.
    too_long: u64,
    /// Whether the line names a child. `tc` does not show the default FIFO.
    has_child: bool,
}

impl<P: Packet, Q: TbfChild<P>> Tbf<P, Q> {
    /// Full buckets above a child.
    pub fn new<C>(params: &Params<C>, child: Q) -> Self {
        let Buckets { buffer, mtu, .. } = Buckets::new(params);
        Tbf {
            buckets: Buckets::new(params),
            tokens: buffer,
            ptokens: mtu,
            t_c: Time::ZERO,
            next: Time::NEVER,
            child: Box::new(child),
            held: None,
            overlimits: 0,
            too_long: 0,
            has_child: params.child.is_some(),
        }
    }

    /// Returns the length of the next packet; `None` if the child has none to send now.
    fn peek(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<u32> {
        let head = match self.child.peek_head() {
            Some(head) => head,
            None => {
                if self.held.is_none() {
                    self.held = self.child.dequeue(now, drops);
                }
                self.held.as_ref()
            }
        };
        head.map(Packet::bytes)
    }
}

impl<P: Packet, Q: TbfChild<P>> Qdisc<P> for Tbf<P, Q> {
    type Params = Params<Q::Params>;

    // Not inlined, because the child's code is inlined here.
    #[inline(never)]
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut impl Drops<P>) {
        if packet.bytes() > self.buckets.max_size {
            packet.set_enqueue_time(now);
            self.too_long += 1;
            return drops.dropped(packet, DropReason::Overlimit);
        }
        self.child.enqueue(now, packet, drops);
    }

    #[inline(never)]
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        let Some(bytes) = self.peek(now, drops) else {
            self.next = self.child.next_event();
            return None;
        };
        let Buckets { rate, peak, buffer, mtu, .. } = self.buckets;
        let came = i64::try_from(now.since(self.t_c).0).map_or(buffer, |since| since.min(buffer));
        let ptoks = peak.map_or(0, |peak| (came + self.ptokens).min(mtu) - peak.l2t_ns(bytes));
        let toks = (came + self.tokens).min(buffer) - rate.l2t_ns(bytes);
        if toks < 0 || ptoks < 0 {
            self.next = now + Span((-toks).max(-ptoks) as u64);
            self.overlimits += 1;
            return None;
        }
        (self.t_c, self.tokens, self.ptokens, self.next) = (now, toks, ptoks, Time::NEVER);
        self.held.take().or_else(|| self.child.dequeue(now, drops))
    }

    /// `tbf_change`: both buckets are full again. A FIFO below it gets the new limit, in its own unit, and drops
    /// nothing; another child is not changed.
    fn change(
        &mut self,
        _now: Time,
        params: &Params<Q::Params>,
        _drops: &mut impl Drops<P>,
    ) -> Result<(), Unchangeable> {
        self.child.set_fifo_limit(params.bytes());
        self.buckets = Buckets::new(params);
        (self.tokens, self.ptokens) = (self.buckets.buffer, self.buckets.mtu);
        Ok(())
    }

    fn next_event(&self) -> Time {
        self.next
    }

    fn packets(&self) -> usize {
        self.child.packets() + usize::from(self.held.is_some())
    }

    fn backlog(&self) -> u64 {
        self.child.backlog() + self.held.as_ref().map_or(0, |packet| u64::from(packet.bytes()))
    }

    fn is_full(&self, mtu: u32) -> bool {
        mtu > self.buckets.max_size || self.child.is_full(mtu)
    }

    /// How often a packet had to wait.
    fn overlimits(&self) -> u64 {
        self.overlimits
    }

    /// Packets longer than the bucket never reach the child, so that they are no drops of the child.
    fn child(&self) -> Option<Child> {
        self.has_child.then(|| counted(&*self.child, self.too_long, self.held.as_ref().map(Packet::bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::AnyQdisc;
    use crate::qdisc::tc::Spec;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn tbf(line: &str) -> Bench<AnyQdisc<Parcel>> {
        Bench::new(line.parse::<Spec>().unwrap_or_else(|error| panic!("{line}: {error}")).build(&CONTEXT))
    }

    /// Returns the times in µs at which packets leave if the discipline is asked at each of its events.
    fn departures(bench: &mut Bench<AnyQdisc<Parcel>>, mut now: Time) -> Vec<u64> {
        let mut times = Vec::new();
        while bench.qdisc.packets() > 0 {
            match bench.take(now) {
                Some(_) => times.push(now.0 / 1000),
                None => now = bench.qdisc.next_event(),
            }
        }
        times
    }

    #[test]
    fn a_burst_leaves_at_once_and_the_rest_at_the_rate() {
        // 1 byte a microsecond.
        let mut bench = tbf("tbf rate 8mbit burst 2000 limit 10000");
        bench.fill(ms(0), 1, 1000, 5);
        assert_eq!(departures(&mut bench, ms(0)), [0, 0, 1000, 2000, 3000]);
        // A bucket holds no more than a burst, however long it was idle.
        bench.fill(ms(1000), 1, 1000, 4);
        assert_eq!(departures(&mut bench, ms(1000)), [1_000_000, 1_000_000, 1_001_000, 1_002_000]);
        assert_eq!(bench.qdisc.overlimits(), 5);
    }

    #[test]
    fn peakrate_holds_the_bursts_too() {
        let mut bench = tbf("tbf rate 8mbit burst 4000 limit 10000 peakrate 16mbit mtu 1000");
        bench.fill(ms(0), 1, 1000, 8);
        // Every 500 µs until the bucket is empty, then every 1000.
        assert_eq!(departures(&mut bench, ms(0)), [0, 500, 1000, 1500, 2000, 2500, 3000, 4000]);
    }

    #[test]
    fn a_packet_longer_than_the_bucket_is_refused_and_the_limit_is_a_bfifos() {
        let mut bench = tbf("tbf rate 8mbit burst 1000 limit 2500");
        let long = bench.put(ms(0), 1, 1001);
        bench.fill(ms(0), 1, 1000, 3);
        assert_eq!(bench.new_drops(), [(long, DropReason::Overlimit), (3, DropReason::Overlimit)]);
        assert!(bench.qdisc.is_full(501) && !bench.qdisc.is_full(500));
    }

    #[test]
    fn latency_stands_for_the_bytes_that_leave_within_it_and_a_burst() {
        let bytes = |line: &str| match line.parse() {
            Ok(Spec::Tbf(params)) => params.bytes(),
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes("tbf rate 10mbit burst 10kb latency 50ms"), 62_500 + 10_240);
        assert_eq!(bytes("tbf rate 10mbit burst 10kb lat 50ms peakrate 11mbit minburst 1540"), 68_750 + 1540);
    }

    #[test]
    fn a_child_orders_and_drops_what_waits() {
        let line = "tbf rate 8mbit burst 1000 child fq_codel limit 100 quantum 1000 interval 20ms";
        assert_eq!(line.parse::<Spec>().map(|spec| spec.to_string()).as_deref(), Ok(line));
        assert_eq!(line.parse::<Spec>().map(|spec| spec.tc_line()), Ok(None), "tc wants two commands");
        let mut bench = tbf(line);
        bench.fill(ms(0), 1, 1000, 50);
        bench.fill(ms(0), u32::MAX, 1000, 50);
        assert_eq!(bench.take_flow(ms(0)), Some(1));
        assert_eq!((bench.take(ms(0)), bench.qdisc.packets(), bench.qdisc.backlog()), (None, 99, 99_000));
        assert_eq!((bench.qdisc.next_event(), bench.take_flow(ms(1))), (ms(1), Some(u32::MAX)));
        assert_eq!(departures(&mut bench, ms(1)).len() + bench.drops.len(), 98);
        assert!(
            !bench.drops.is_empty() && bench.drops.iter().all(|(_, why)| *why == DropReason::Codel),
            "CoDel acts on what waits for tokens"
        );
    }

    #[test]
    fn what_comes_later_and_is_more_urgent_goes_before_what_waits_for_tokens() {
        let mut bench = tbf("tbf rate 8mbit burst 1000 child prio");
        bench.put_dscp(ms(0), 1, 1000, 0);
        bench.put_dscp(ms(0), 2, 1000, 0);
        assert_eq!((bench.take_flow(ms(0)), bench.take_flow(ms(0))), (Some(1), None));
        bench.put_dscp(ms(0), 3, 1000, 4);
        assert_eq!((bench.take_flow(ms(1)), bench.take_flow(ms(2))), (Some(3), Some(2)));
    }

    #[test]
    fn what_tc_asks_for_is_asked_for() {
        let error = |line: &str| line.parse::<Spec>().expect_err(line).to_string();
        assert!(error("tbf rate 8mbit limit 5").contains("needs burst"));
        assert!(error("tbf rate 8mbit burst 1000").contains("or latency"));
        assert!(error("tbf rate 8mbit burst 1k limit 5 peakrate 9mbit").contains("with peakrate"));
        assert!(error("tbf rate 8mbit burst 1k limit 5 peakrate 8mbit mtu 2k").contains("above rate"));
        assert!(error("tbf rate 8mbit burst 1k child noqueue").contains("can't wait"));
        assert!(error("tbf rate 8mbit burst 1k child codle").contains("did you mean \"codel\"?"));
        assert!(error("tbf rate 8mbit burst 1k child").contains("child"));
    }
}
