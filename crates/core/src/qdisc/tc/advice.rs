//! Warnings about settings that are valid but probably a mistake: see [`Spec::advice`].

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Spec, Value};
use crate::qdisc::Context;
use crate::units::{Rate, Span};

/// A target is far too short if it is below a packet's transmission time divided by this number.
const FAR: u64 = 4;

impl Spec {
    /// Warnings about this discipline on a link as `context` describes it, one sentence each. Warnings that depend on the
    /// rate are given only if it is `constant`.
    pub fn advice(&self, context: &Context, constant: bool) -> Vec<String> {
        let facts = Facts { spec: self, values: self.values(), context };
        let mut sentences: Vec<String> = [
            facts.bucket_below_packet(),
            facts.buffer_below_packet(),
            facts.interval_below_target(),
            facts.threshold_above_target(),
            if constant { facts.target_below_packet() } else { None },
            if constant { facts.shaper_above_link() } else { None },
        ]
        .into_iter()
        .flatten()
        .map(|sentence| format!("{} {sentence}", self.kind()))
        .collect();
        if let Some(child) = self.child() {
            // The child is served at the shaper's rate.
            let rate = facts.get("rate").map_or(context.rate, |rate| context.rate.min(Rate(rate)));
            sentences.extend(child.advice(&Context { rate, ..*context }, constant));
        }
        sentences
    }
}

/// A discipline's limit, if the line leaves it at its default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DefaultLimit {
    /// In packets.
    Packets(u64),
    /// In bytes.
    Bytes(u64),
}

impl Spec {
    /// A warning about a default limit that holds less than the link carries in the longest round trip. `mtu` is the
    /// largest packet in bytes as the link counts it. `None` if the line gives a limit, or if the default is enough.
    pub fn short_limit(&self, rate: Rate, mtu: u32, rtt: Span) -> Option<String> {
        if let Some(child) = self.child() {
            let own = self.values().into_iter().find(|(name, _)| *name == "rate");
            let rate =
                own.map_or(rate, |(_, value)| if let Value::Int(own) = value { rate.min(Rate(own)) } else { rate });
            return child.short_limit(rate, mtu, rtt);
        }
        let (bytes, limit) = match self.default_limit()? {
            DefaultLimit::Packets(packets) => (packets.saturating_mul(u64::from(mtu)), format!("{packets} packets")),
            DefaultLimit::Bytes(bytes) => (bytes, format!("{bytes} bytes")),
        };
        let lasts =
            Span(u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(rate.0.max(1))).unwrap_or(u64::MAX));
        let ms =
            |span: Span| format!("{:.3}", span.as_millis_f64()).trim_end_matches('0').trim_end_matches('.').to_string();
        // The memory that a packet takes is more than its length.
        let has_memory = self.values().iter().any(|(name, _)| *name == "memory_limit");
        let memory = if has_memory { " memory_limit 2bdp" } else { "" };
        (lasts < rtt).then(|| {
            let lasts = Span(lasts.0 / 100_000 * 100_000);
            format!(
                "{}'s default limit of {limit} lasts {} ms at {rate}, less than the longest RTT, {} ms: a few flows may not keep \
                 the link busy; such a link needs a larger one, as in: limit 1bdp{memory}",
                self.kind(),
                ms(lasts),
                ms(rtt)
            )
        })
    }
}

struct Facts<'a> {
    spec: &'a Spec,
    values: Vec<(&'static str, Value)>,
    context: &'a Context,
}

impl Facts<'_> {
    fn get(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(known, _)| *known == name).and_then(|(_, value)| match value {
            Value::Int(n) => Some(*n),
            _ => None,
        })
    }

    /// Warns about a bucket that never holds enough tokens for a full packet.
    fn bucket_below_packet(&self) -> Option<String> {
        let Spec::Tbf(params) = self.spec else { return None };
        let peak = params.peakrate.and(params.mtu).filter(|mtu| *mtu < params.burst);
        let (name, bytes) = peak.map_or(("burst", params.burst), |mtu| ("mtu", mtu));
        let mtu = self.context.mtu;
        (bytes < mtu).then(|| {
            format!(
                "{name} {bytes}: packets of more than {bytes} bytes are dropped, so full ones of {mtu} bytes never pass"
            )
        })
    }

    /// Warns about a buffer that is smaller than a full packet.
    fn buffer_below_packet(&self) -> Option<String> {
        let name = match self.spec {
            Spec::Bfifo(_) => "limit",
            Spec::Tbf(params) if params.child.is_none() => "limit",
            Spec::Red(_) if self.spec.variant() == Some("linux") => "limit",
            Spec::FqCodel(_) => "memory_limit",
            Spec::Cake(_) => "memlimit",
            _ => return None,
        };
        let bytes = self.get(name)?;
        let derived = bytes == 0 && name == "memlimit";
        let mtu = self.context.mtu;
        (bytes < u64::from(mtu) && !derived)
            .then(|| format!("{name} {bytes}: a full packet of {mtu} bytes does not fit, so none can wait"))
    }

    fn interval_below_target(&self) -> Option<String> {
        let (target, interval) = (Span(self.get("target")?), Span(self.get("interval")?));
        (interval < target).then(|| {
            format!("interval {interval} is shorter than target {target}: CoDel expects about twenty times the target")
        })
    }

    fn threshold_above_target(&self) -> Option<String> {
        if !matches!(self.spec, Spec::Codel(_) | Spec::FqCodel(_)) {
            return None;
        }
        let (target, threshold) = (Span(self.get("target")?), Span(self.get("ce_threshold")?));
        (threshold > target)
            .then(|| format!("ce_threshold {threshold} is above target {target}: it marks only packets that wait longer than CoDel's target"))
    }

    /// Warns about a target delay that the transmission of a single packet exceeds.
    fn target_below_packet(&self) -> Option<String> {
        let timed =
            matches!(self.spec, Spec::Codel(_) | Spec::FqCodel(_) | Spec::Pie(_) | Spec::FqPie(_) | Spec::DualPi2(_));
        let target = Span(self.get("target").filter(|_| timed)?);
        let default = Span(Facts { values: self.spec.defaults(), ..*self }.get("target")?);
        let packet = self.context.rate.serialise(self.context.mtu);
        (target != default && target.0 < packet.0 / FAR).then(|| {
            let (mtu, rate) = (self.context.mtu, self.context.rate);
            format!(
                "target {target} is far below the {} that a packet of {mtu} bytes takes at {rate}",
                Span(packet.0.div_ceil(1000) * 1000)
            )
        })
    }

    /// Warns about a shaper that is faster than the link, so that the link is the bottleneck.
    fn shaper_above_link(&self) -> Option<String> {
        let name = match self.spec {
            Spec::Tbf(_) | Spec::Htb(_) => "rate",
            Spec::Cake(_) => "bandwidth",
            _ => return None,
        };
        let (shaped, link) = (Rate(self.get(name)?), self.context.rate);
        (shaped > link).then(|| {
            format!("{name} {shaped} is above the link's {link}: the link holds packets back, and the shaper does not")
        })
    }
}
