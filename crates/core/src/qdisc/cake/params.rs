//! cake's parameters. Many are single words without a value; some words are presets for a kind of link.

use crate::qdisc::codel::MICROSECOND;
use crate::qdisc::param::{Param, Parameters, Unit, Value, choice, param};
use crate::units::{Rate, Span};

choice! {
    /// Which implementation to follow.
    Variant {
        /// Linux 6.1.
        Linux = "linux",
        /// Linux 6.12: the control intervals of small counts differ in their last digits.
        Linux612 = "linux612",
        /// Linux 7.x: BLUE draws no number for a packet that is dropped anyway.
        Linux7 = "linux7",
    }
}

choice! {
    /// How packets are sorted into tins by their DSCP.
    TinMode {
        /// One tin.
        Besteffort = "besteffort",
        /// Eight tins, by the upper three bits.
        Precedence = "precedence",
        /// Eight tins, by RFC 4594's classes.
        Diffserv8 = "diffserv8",
        /// Four tins: bulk, best effort, video, voice.
        Diffserv4 = "diffserv4",
        /// Three tins: bulk, best effort, voice.
        Diffserv3 = "diffserv3",
    }
}

choice! {
    /// The flow mode: which packets share a queue, and how hosts share the link. The numeric value is a bit mask, as in
    /// Linux: 1 for source hosts, 2 for destination hosts, 4 for flows.
    FlowMode {
        /// All packets share one queue.
        Flowblind = "flowblind",
        /// One queue for each source host.
        Srchost = "srchost",
        /// One queue for each destination host.
        Dsthost = "dsthost",
        /// One queue for each pair of hosts.
        Hosts = "hosts",
        /// One queue for each flow.
        Flows = "flows",
        /// One queue for each flow; source hosts get equal shares.
        DualSrchost = "dual-srchost",
        /// One queue for each flow; destination hosts get equal shares.
        DualDsthost = "dual-dsthost",
        /// One queue for each flow; source hosts and destination hosts get equal shares.
        TripleIsolate = "triple-isolate",
    }
}

impl FlowMode {
    /// Returns whether each flow has a queue of its own.
    pub(super) fn has_flows(self) -> bool {
        self as u8 & 4 != 0
    }

    /// Returns whether this mode distinguishes source hosts.
    pub(super) fn has_sources(self) -> bool {
        self as u8 & 1 != 0
    }

    /// Returns whether this mode distinguishes destination hosts.
    pub(super) fn has_destinations(self) -> bool {
        self as u8 & 2 != 0
    }

    /// Returns whether the flows of a source host share one quantum.
    pub(super) fn shares_source(self) -> bool {
        self as u8 & 5 == 5
    }

    /// Returns whether the flows of a destination host share one quantum.
    pub(super) fn shares_destination(self) -> bool {
        self as u8 & 6 == 6
    }
}

choice! {
    /// The cells in which the link sends packets.
    LinkLayer {
        /// The link sends no cells.
        Noatm = "noatm",
        /// ATM: a cell of 53 bytes carries 48 bytes of the packet.
        Atm = "atm",
        /// PTM: 65 bytes on the link carry 64 bytes of the packet.
        Ptm = "ptm",
    }
}

choice! {
    /// The ACK filter, which drops redundant ACKs.
    AckFilter {
        /// The filter is off.
        Off = "no-ack-filter",
        /// The filter keeps one redundant ACK.
        On = "ack-filter",
        /// The filter drops all redundant ACKs.
        Aggressive = "ack-filter-aggressive",
    }
}

/// Parameters of cake.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Rate of the shaper in bits per second; without it the link limits the rate.
    pub bandwidth: Option<Rate>,
    /// The round trip time from which COBALT's `interval` follows; its `target` is a twentieth of it.
    pub rtt: Span,
    /// How packets are sorted into tins.
    pub tins: TinMode,
    /// Which packets share a queue, and how hosts share the link.
    pub flow_mode: FlowMode,
    /// Whether hosts are identified behind an address translation.
    pub nat: bool,
    /// Whether packets leave with DSCP 0.
    pub wash: bool,
    /// Whether large segments are cut into packets before they are queued.
    pub split_gso: bool,
    /// Whether redundant ACKs are dropped.
    pub ack_filter: AckFilter,
    /// Limit of the memory in bytes. 0 means the bytes that `bandwidth` delivers in four `rtt`, at least 4 MiB.
    pub memlimit: u32,
    /// Whether a packet's length is used unchanged, with the link header.
    pub raw: bool,
    /// The cells in which the link sends packets.
    pub atm: LinkLayer,
    /// Bytes that a packet takes up on the link in addition to its IP length, or with `raw` to its length including the
    /// link header. `None` means the length including the link header, with nothing added.
    pub overhead: Option<i32>,
    /// The least number of bytes that a packet takes up on the link.
    pub mpu: u32,
    /// Whether dropped packets count as sent, because the bottleneck is before this shaper.
    pub ingress: bool,
    /// Which implementation to follow.
    pub variant: Variant,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            bandwidth: None,
            rtt: Span::from_millis(100),
            tins: TinMode::Diffserv3,
            flow_mode: FlowMode::TripleIsolate,
            nat: false,
            wash: false,
            split_gso: true,
            ack_filter: AckFilter::Off,
            memlimit: 0,
            raw: false,
            atm: LinkLayer::Noatm,
            overhead: None,
            mpu: 0,
            ingress: false,
            variant: Variant::Linux,
        }
    }
}

/// The round-trip times in µs that the words `datacentre` to `interplanetary` stand for.
const RTTS: [u64; 8] = [100, 1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 1_000_000_000];
/// The least and the greatest overhead, in bytes.
const OVERHEADS: (i64, i64) = (-64, 256);

/// The kinds of links of `tc-cake(8)`: the cells, the overhead of a packet in bytes, and its least size on the link.
/// `None` keeps the present value.
const LINKS: [(Option<LinkLayer>, i32, Option<u32>); 13] = [
    (Some(LinkLayer::Atm), 8, None),
    (Some(LinkLayer::Atm), 16, None),
    (Some(LinkLayer::Atm), 24, None),
    (Some(LinkLayer::Atm), 32, None),
    (Some(LinkLayer::Atm), 10, None),
    (Some(LinkLayer::Atm), 14, None),
    (Some(LinkLayer::Atm), 32, None),
    (Some(LinkLayer::Atm), 40, None),
    (Some(LinkLayer::Ptm), 30, None),
    (Some(LinkLayer::Ptm), 22, None),
    (None, 38, Some(84)),
    (None, 4, None),
    (Some(LinkLayer::Noatm), 18, Some(64)),
];

fn place(value: Value) -> Option<usize> {
    if let Value::Int(place) = value { usize::try_from(place).ok() } else { None }
}

/// Applies a word for a kind of link. The overheads of several such words add up.
fn set_link(params: &mut Params, value: Value) -> bool {
    let Some(&(atm, overhead, mpu)) = place(value).and_then(|place| LINKS.get(place)) else { return false };
    params.atm = atm.unwrap_or(params.atm);
    params.overhead = Some(params.overhead.unwrap_or(0).saturating_add(overhead));
    params.mpu = mpu.unwrap_or(params.mpu);
    true
}

fn set_rtt(params: &mut Params, value: Value) -> bool {
    let rtt = place(value).and_then(|place| RTTS.get(place));
    params.rtt = rtt.map_or(params.rtt, |us| Span(us * MICROSECOND));
    rtt.is_some()
}

fn set_raw(params: &mut Params, _: Value) -> bool {
    (params.raw, params.atm, params.overhead) = (true, LinkLayer::Noatm, Some(0));
    true
}

fn set_conservative(params: &mut Params, _: Value) -> bool {
    (params.atm, params.overhead) = (LinkLayer::Atm, Some(48));
    true
}

fn set_unlimited(params: &mut Params, _: Value) -> bool {
    params.bandwidth = None;
    true
}

fn set_diffserv4(params: &mut Params, _: Value) -> bool {
    params.tins = TinMode::Diffserv4;
    true
}

impl Parameters for Params {
    const NAME: &'static str = "cake";
    const DOC: &'static str = "a queue per flow under COBALT, hosts and traffic classes kept apart, with a shaper";
    const PARAMS: &'static [Param<Self>] = &[
        param!(Params.bandwidth, Unit::Bandwidth, "hold packets back to this rate; default: unlimited")
            .range(512, 1 << 40)
            .zero_unsent(),
        Param::preset(&["unlimited"], set_unlimited, "no rate of its own"),
        param!(Params.rtt, Unit::Time, "round trip that is reckoned with; target is a twentieth of it")
            .range(MICROSECOND, u32::MAX as u64 * MICROSECOND),
        Param::preset(
            &["datacentre", "lan", "metro", "regional", "internet", "oceanic", "satellite", "interplanetary"],
            set_rtt,
            "names for an rtt: 100us, 1ms, 10ms, 30ms, 100ms, 300ms, 1s, 1000s",
        ),
        param!(Params.tins as "diffserv3", Unit::Word(TinMode::WORDS), "how packets are sorted into tins by DSCP"),
        Param::preset(&["diffserv"], set_diffserv4, "diffserv4"),
        param!(Params.flow_mode as "triple-isolate", Unit::Word(FlowMode::WORDS), "what is kept apart, and shares alike"),
        param!(Params.nat, Unit::Flag("nonat"), "hosts are those behind an address translation (none here has one)"),
        param!(Params.wash, Unit::Flag("nowash"), "packets leave with DSCP 0"),
        param!(
            Params.split_gso as "split-gso",
            Unit::Flag("no-split-gso"),
            "cut large segments to packets (none here is larger)"
        ),
        param!(Params.ack_filter as "no-ack-filter", Unit::Word(AckFilter::WORDS), "drop ACKs that newer ones make idle")
            .shown_if_set(),
        param!(Params.memlimit, Unit::Size, "bytes of memory; 0: four rtt at the bandwidth, at least 4 MB")
            .range(0, 1 << 31)
            .shown_if_set()
            .zero_unsent()
            .lowered(),
        Param::new(
            "raw",
            Unit::Preset(&["raw"]),
            |params| if params.raw { Value::Int(0) } else { Value::Unset },
            set_raw,
            "a packet's length counts with its link header; sets overhead 0 and noatm",
        ),
        param!(Params.atm as "noatm", Unit::Word(LinkLayer::WORDS), "cells in which the link sends").shown_if_set(),
        Param::preset(
            &[
                "ipoa-vcmux",
                "ipoa-llcsnap",
                "bridged-vcmux",
                "bridged-llcsnap",
                "pppoa-vcmux",
                "pppoa-llc",
                "pppoe-vcmux",
                "pppoe-llcsnap",
                "pppoe-ptm",
                "bridged-ptm",
                "ethernet",
                "ether-vlan",
                "docsis",
            ],
            set_link,
            "names for kinds of links: each adds to overhead, and sets cells and mpu",
        )
        .adds_to("overhead"),
        Param::preset(&["conservative"], set_conservative, "atm overhead 48"),
        Param::preset(&["via-ethernet"], |_, _| true, "nothing any more"),
        param!(Params.overhead, Unit::Signed, "bytes that a packet takes up beyond its IP length")
            .signed_range(OVERHEADS.0, OVERHEADS.1)
            .shown_if_set(),
        param!(Params.mpu, Unit::Number, "bytes that a packet takes up at least").range(0, 256).shown_if_set().zero_unsent(),
        param!(Params.ingress, Unit::Flag("egress"), "count dropped packets as sent: the bottleneck is before us"),
        Param::impossible(
            "autorate-ingress",
            "sojourn does not set the bandwidth from what arrives: leave this word out, and give a bandwidth if none is given",
        ),
        Param::impossible("fwmark", "packets here carry no mark of a firewall"),
        param!(
            Params.variant,
            Unit::Choice(Variant::WORDS, &[]),
            "which implementation to follow: linux (6.1 to 6.11), linux612 (6.12 on) or linux7 (7.0 on)"
        )
        .ours(),
    ];

    fn complete(&mut self) {
        if self.raw {
            self.overhead.get_or_insert(0);
        }
    }

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let overhead = i64::from(self.overhead.unwrap_or(0));
        if (OVERHEADS.0..=OVERHEADS.1).contains(&overhead) {
            return Ok(());
        }
        Err(("overhead", "must be -64 to 256 in all"))
    }
}
