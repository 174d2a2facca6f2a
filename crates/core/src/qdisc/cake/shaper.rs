//! How long a packet occupies the link, and when the next one may leave.

use super::params::{LinkLayer, Params};
use crate::qdisc::psched::bytes_per_second;
use crate::units::{Rate, Time};

/// A rate, stored as the time that a byte takes: `ns` / 2^`shift` nanoseconds. Without a rate, that time is zero.
#[derive(Clone, Copy, Default, Debug)]
pub struct ByteTime {
    ns: u64,
    shift: u32,
}

/// The largest `shift`: the number of binary digits after the point.
const PLACES: u32 = 34;
/// The smallest rate in bytes per second. Lower rates are raised to it, so that a packet never waits too long.
const MIN_RATE: u64 = 64;

impl ByteTime {
    /// Converts a rate in bytes per second; 0 means no limit.
    pub fn new(rate: u64) -> ByteTime {
        if rate == 0 {
            return ByteTime::default();
        }
        let (mut ns, mut shift) = ((1_000_000_000 << PLACES) / rate.max(MIN_RATE), PLACES);
        while ns >> PLACES != 0 {
            ns >>= 1;
            shift -= 1;
        }
        ByteTime { ns, shift }
    }

    /// Returns whether there is no limit.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.ns == 0
    }

    /// The time that `bytes` bytes take, in ns.
    #[inline]
    pub fn of(&self, bytes: u32) -> u64 {
        (u64::from(bytes) * self.ns) >> self.shift
    }
}

/// Computes a packet's length on the link, and records the range of the lengths seen.
#[derive(Clone, Debug)]
pub struct Lengths {
    /// Bytes that are subtracted from a packet's length. With `overhead` and without `raw` this is the link header,
    /// otherwise 0.
    header: u32,
    overhead: i32,
    mpu: i32,
    atm: LinkLayer,
    /// The least and the greatest packet length seen, after `header` is subtracted.
    pub netlen: (u32, u32),
    /// The least and the greatest length on the link.
    pub adjlen: (u32, u32),
}

impl Lengths {
    /// The framing that these parameters ask for, on a link with a header of `header` bytes.
    pub fn new(params: &Params, header: u32) -> Lengths {
        Lengths {
            header: if params.overhead.is_some() && !params.raw { header } else { 0 },
            overhead: params.overhead.unwrap_or(0),
            mpu: params.mpu as i32,
            atm: params.atm,
            netlen: (u32::MAX, 0),
            adjlen: (u32::MAX, 0),
        }
    }

    /// Sets the framing of `other`. The lengths seen so far are kept unless the framing differs.
    pub fn change(&mut self, other: Lengths) {
        let counts = |one: &Lengths| (one.header, one.overhead, one.mpu, one.atm);
        if counts(self) != counts(&other) {
            *self = other;
        }
    }

    #[inline]
    fn net(&self, bytes: u32) -> u32 {
        bytes.saturating_sub(self.header)
    }

    /// Bytes that a packet of this length takes up on the link.
    #[inline]
    pub fn adjusted(&self, bytes: u32) -> u32 {
        self.of_net(self.net(bytes))
    }

    #[inline]
    fn of_net(&self, net: u32) -> u32 {
        let bytes = (net as i32 + self.overhead).max(self.mpu).max(0) as u32;
        match self.atm {
            LinkLayer::Noatm => bytes,
            LinkLayer::Atm => bytes.div_ceil(48) * 53,
            LinkLayer::Ptm => bytes + bytes.div_ceil(64),
        }
    }

    /// Records the length of a packet for the statistics.
    #[inline]
    pub fn see(&mut self, bytes: u32) {
        let widen = |range: &mut (u32, u32), length: u32| *range = (range.0.min(length), range.1.max(length));
        let net = self.net(bytes);
        let adjusted = self.of_net(net);
        widen(&mut self.netlen, net);
        widen(&mut self.adjlen, adjusted);
    }
}

/// The shaper of all tins together.
#[derive(Clone, Debug)]
pub struct Shaper {
    /// The rate of the shaper.
    pub rate: ByteTime,
    /// When the next packet may leave.
    time_next: u64,
    /// With `ingress`, dropped packets delay the next packet as if they were sent. This is the time at which it may
    /// leave all the same, so that packets leave at two thirds of the rate or faster.
    failsafe: u64,
}

impl Shaper {
    /// Creates a shaper for this bandwidth. Without a bandwidth it never holds packets back.
    pub fn new(bandwidth: Option<Rate>) -> Shaper {
        Shaper { rate: ByteTime::new(bandwidth.map_or(0, bytes_per_second)), time_next: 0, failsafe: 0 }
    }

    /// Sets the bandwidth. The time of the next transmission does not change.
    pub fn set_rate(&mut self, bandwidth: Option<Rate>) {
        self.rate = Shaper::new(bandwidth).rate;
    }

    /// Returns the time until which packets are held back; `None` if a packet may leave now.
    #[inline]
    pub fn held_until(&self, now: Time) -> Option<Time> {
        let next = self.time_next.min(self.failsafe);
        (next > now.0).then_some(Time(next))
    }

    /// Restarts the clocks for the first packet after a pause. Unused capacity is lost.
    #[inline]
    pub fn wake(&mut self, now: Time) {
        if self.time_next < now.0 {
            (self.time_next, self.failsafe) = (now.0, now.0);
        }
    }

    /// Advances the clocks after `bytes` were sent, or dropped but counted as sent. `tin_next` is the time at which the
    /// tin's share allows its next byte, and `tin` the time that a byte takes in this tin.
    #[inline]
    pub fn advance(&mut self, tin: &ByteTime, tin_next: &mut u64, bytes: u32, now: Time, dropped: bool) {
        if self.rate.is_free() {
            return;
        }
        let (tin_dur, dur) = (tin.of(bytes), self.rate.of(bytes));
        if *tin_next < now.0 {
            *tin_next += tin_dur;
        } else {
            *tin_next = (*tin_next).max(now.0 + tin_dur);
        }
        self.time_next += dur;
        if !dropped {
            self.failsafe += dur + (dur >> 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tc::Spec;

    fn lengths(line: &str) -> Lengths {
        match line.parse() {
            Ok(Spec::Cake(params)) => Lengths::new(&params, 14),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn cells_carry_48_of_53_bytes_and_a_packet_ends_its_last_one() {
        // An IP packet of 1500 bytes on PPPoE over LLC/SNAP takes 1540 bytes: 33 cells.
        assert_eq!(lengths("cake pppoe-llcsnap").adjusted(1514), 33 * 53);
        assert_eq!(lengths("cake atm overhead 0").adjusted(14 + 48), 53);
        assert_eq!(lengths("cake atm overhead 0").adjusted(14 + 49), 106);
        // VDSL2: a byte more for each begun 64.
        assert_eq!(lengths("cake ptm overhead 0").adjusted(14 + 64), 65);
        assert_eq!(lengths("cake ptm overhead 0").adjusted(14 + 65), 67);
    }

    #[test]
    fn an_overhead_stands_in_place_of_the_links_header_but_raw() {
        assert_eq!(lengths("cake").adjusted(1514), 1514);
        assert_eq!(lengths("cake overhead 0").adjusted(1514), 1500);
        assert_eq!(lengths("cake raw").adjusted(1514), 1514);
        assert_eq!(lengths("cake raw overhead 10").adjusted(1514), 1524);
        assert_eq!(lengths("cake overhead -20 mpu 64").adjusted(54), 64);
        assert_eq!(lengths("cake ethernet ether-vlan").adjusted(1514), 1542);
        assert_eq!(lengths("cake ethernet").adjusted(54), 84);
    }

    #[test]
    fn a_byte_takes_the_time_of_its_rate_and_never_more_than_at_64_bytes_a_second() {
        assert_eq!(ByteTime::new(375_000).of(1514), 4_037_333);
        assert_eq!(ByteTime::new(125_000_000).of(1514), 12_112);
        assert_eq!(ByteTime::new(1).of(64), 1_000_000_000);
        assert_eq!(ByteTime::new(0).of(1514), 0);
    }

    #[test]
    fn dropped_packets_hold_the_next_one_back_by_at_most_the_failsafe() {
        let mut shaper = Shaper::new(Some(Rate(8_000_000)));
        let (tin, mut next) = (shaper.rate, 0);
        shaper.advance(&tin, &mut next, 1000, Time(0), false);
        assert_eq!(shaper.held_until(Time(0)), Some(Time(1_000_000)));
        for _ in 0..10 {
            shaper.advance(&tin, &mut next, 1000, Time(0), true);
        }
        assert_eq!(shaper.held_until(Time(0)), Some(Time(1_500_000)));
        assert_eq!(shaper.held_until(Time(1_500_000)), None);
    }
}
