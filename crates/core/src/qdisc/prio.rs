//! prio: bands of strict priority, with a FIFO for each.
//!
//! Source: Linux 6.1 to 7.3 `net/sched/sch_prio.c`, `tc-prio(8)`.
//! Principle: `priomap` maps a packet's priority to its band. The band with the lowest number that has packets is
//! served, and all others wait. Each band is a pfifo of 1000 packets.
//!
//! Deviations:
//! - A packet's priority is the one that a Linux router gives it: the DSCP is read as the old type-of-service field, of
//!   which the lower four of the six bits count (`rt_tos2priority`). So EF (46) is "interactive bulk", which is not in
//!   the first band by default, and DSCP 4 (minimise delay) is.
//! - The FIFO of a band cannot be replaced by another discipline, and there are no filters.

use super::fifo::{Fifo, PfifoParams};
use super::param::{Param, Parameters, Unit, param};
use super::{Context, DropReason, Drops, Qdisc, Unchangeable};
use crate::packet::Packet;
use crate::units::Time;
use alloc::vec::Vec;

/// Parameters of prio.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Number of bands.
    pub bands: u32,
    /// The band of each of the sixteen priorities, in four bits each. The band of priority 0 is in the lowest bits.
    pub priomap: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params { bands: 3, priomap: PRIOMAP }
    }
}

impl Parameters for Params {
    const NAME: &'static str = "prio";
    const ONCE: &'static [&'static str] = &["priomap"];
    const DOC: &'static str = "bands of strict priority, a FIFO each";
    const REPLACED: bool = true;
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.bands, Unit::Number, "number of bands").range(2, 16).printed(),
        param!(Params.priomap, Unit::Nibbles, "the band of each of the sixteen priorities").printed(),
        Param::impossible(
            "multiqueue",
            "gives a band to each transmit queue of a device, and there is one: leave it out",
        ),
    ];

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let beyond = (0..16).any(|priority| u64::from(self.bands) <= self.priomap >> (4 * priority) & 15);
        if beyond { Err(("priomap", "names a band that is not there")) } else { Ok(()) }
    }
}

/// The default bands of the sixteen priorities, in fq too: 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1.
pub(super) const PRIOMAP: u64 = 0x1111_1111_0021_2221;
/// The priorities of best effort, bulk, interactive and interactive bulk (`ip_tos2prio`). Bits 1 and 2 of the DSCP
/// select one of them.
const PRIORITIES: [u8; 4] = [0, 2, 6, 4];

/// The priority that a Linux router gives to a packet with this DSCP (`rt_tos2priority`).
#[inline]
pub fn priority(dscp: u8) -> u8 {
    PRIORITIES[usize::from(dscp >> 1 & 3)]
}

/// The discipline.
#[derive(Clone, Debug)]
pub struct Prio<P> {
    priomap: u64,
    bands: Vec<Fifo<P>>,
    /// An empty band, which is cloned for each new one.
    band: Fifo<P>,
}

impl<P: Packet + Copy + Default> Prio<P> {
    /// Empty bands.
    pub fn new(params: &Params, context: &Context) -> Self {
        let band = Fifo::pfifo(&PfifoParams::default(), context);
        Prio { priomap: params.priomap, bands: (0..params.bands).map(|_| band.clone()).collect(), band }
    }

    /// The packet that would leave next.
    pub fn front(&self) -> Option<&P> {
        self.bands.iter().find_map(Fifo::front)
    }

    /// The band of a packet with this DSCP.
    #[inline]
    fn classify(&self, dscp: u8) -> usize {
        (self.priomap >> (4 * priority(dscp)) & 15) as usize
    }
}

impl<P: Packet + Copy + Default> Qdisc<P> for Prio<P> {
    type Params = Params;

    #[inline]
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut impl Drops<P>) {
        let band = self.classify(packet.dscp());
        self.bands[band].enqueue(now, packet, drops);
    }

    #[inline]
    fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
        self.bands.iter_mut().find_map(|band| band.dequeue(now, drops))
    }

    /// `prio_tune`: packets of removed bands are dropped; all others stay in their bands.
    fn change(&mut self, now: Time, params: &Params, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
        let bands = params.bands as usize;
        for band in self.bands.iter_mut().skip(bands) {
            while let Some(packet) = band.dequeue(now, drops) {
                drops.dropped(packet, DropReason::Overlimit);
            }
        }
        self.bands.resize(bands, self.band.clone());
        self.priomap = params.priomap;
        Ok(())
    }

    fn packets(&self) -> usize {
        self.bands.iter().map(Qdisc::packets).sum()
    }

    fn backlog(&self) -> u64 {
        self.bands.iter().map(Qdisc::backlog).sum()
    }

    /// Returns true if the band that gets packets without a priority is full.
    fn is_full(&self, mtu: u32) -> bool {
        self.bands[self.classify(0)].is_full(mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tc::Spec;
    use crate::qdisc::testing::{Bench, CONTEXT, Parcel, ms};
    use alloc::string::ToString;

    fn put(bench: &mut Bench<Prio<Parcel>>, dscp: u8) {
        bench.put_dscp(ms(0), u32::from(dscp), 100, dscp);
    }

    #[test]
    fn a_lower_band_waits_until_all_above_are_empty() {
        let mut bench = Bench::new(Prio::new(&Params::default(), &CONTEXT));
        for dscp in [2, 0, 4, 46, 2, 4] {
            put(&mut bench, dscp);
        }
        let order: Vec<u32> = core::iter::from_fn(|| bench.take_flow(ms(1))).collect();
        assert_eq!(order, [4, 4, 0, 46, 2, 2], "minimise delay; best effort and EF; bulk");
        assert_eq!((bench.qdisc.packets(), bench.qdisc.backlog()), (0, 0));
    }

    #[test]
    fn a_band_holds_a_thousand_packets_and_another_has_room_then() {
        let mut bench = Bench::new(Prio::new(&Params::default(), &CONTEXT));
        bench.fill(ms(0), 1, 100, 1001);
        assert_eq!(bench.new_drops(), [(1000, DropReason::Overlimit)]);
        assert!(bench.qdisc.is_full(100));
        put(&mut bench, 4);
        assert!(bench.drops.is_empty());
    }

    #[test]
    fn its_line_maps_sixteen_priorities_as_tc_does() {
        let line = "prio bands 4 priomap 3 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1";
        let spec: Spec = line.parse().expect(line);
        assert_eq!((spec.to_string().as_str(), spec.tc_line().as_deref()), (line, Some(line)));
        assert_eq!(
            "prio bands 3 priomap 2".parse(),
            "prio bands 3 priomap 2 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1".parse::<Spec>()
        );
        assert!("prio bands 2".parse::<Spec>().expect_err("band 2").to_string().contains("is not there"));
        assert!("prio priomap 1 2 x".parse::<Spec>().is_err());
    }
}
