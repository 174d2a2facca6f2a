//! Whether a run may be believed: how late frames left, what was lost outside of the scenario's queues, and how much of
//! the processor the host left to the run.

use std::fs;

use serde_json::{Value, json};
use sojourn_core::units::Span;
use sojourn_measure::histogram::Histogram;

use crate::path::Counts;

/// A run is invalid if more than one frame in a hundred leaves later than this.
pub const LATE: Span = Span::from_millis(1);
/// A run is invalid if the system's clock is set by more than this while it lasts.
pub const CLOCK_STEP: Span = Span::from_millis(1);
/// A run is invalid if an application acts this long after its time.
pub const LATE_ACT: Span = Span::from_millis(20);

/// A distribution of times.
#[derive(Clone, Default, Debug)]
pub struct Lateness(Histogram);

impl Lateness {
    /// Counts a time.
    pub fn add(&mut self, late: Span) {
        self.0.add(late.0);
    }

    /// Returns the time that this share of all times does not exceed, in nanoseconds, rounded up to the end of its bin
    /// in the histogram; `None` if nothing was counted.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.quantile_edge(share) as u64)
    }

    /// Returns quantiles in microseconds.
    pub fn as_json(&self) -> Value {
        let us = |ns: Option<u64>| ns.map(|ns| (ns as f64 / 100.0).round() / 10.0);
        json!({
            "p50": us(self.quantile(0.5)),
            "p90": us(self.quantile(0.9)),
            "p99": us(self.quantile(0.99)),
            "max": us(self.quantile(1.0)),
        })
    }
}

/// Counters of the host, at one moment.
#[derive(Clone, Copy, Default, Debug)]
pub struct Host {
    /// Packets that the kernel dropped between a device and the network stack.
    softnet_drops: u64,
    /// Time in which another guest had the processors, in ticks of 10 ms.
    steal: u64,
}

impl Host {
    /// Reads the counters. A counter that this host does not have is zero.
    pub fn read() -> Host {
        let softnet = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
        let hex = |field: &str| u64::from_str_radix(field, 16).ok();
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cpu = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        Host {
            softnet_drops: softnet.lines().filter_map(|line| hex(line.split_ascii_whitespace().nth(1)?)).sum(),
            steal: cpu.split_ascii_whitespace().nth(7).and_then(|field| field.parse().ok()).unwrap_or(0),
        }
    }
}

/// The packets that the kernel's queue of a link has dropped.
#[derive(Clone, Default, Debug)]
pub struct Balance {
    /// The name of the link.
    pub link: String,
    /// Their number by the kernel's counters.
    pub counted: u64,
    /// The number of packets that count as dropped.
    pub inferred: u64,
    /// Packets that came back although they counted as dropped.
    pub strays: u64,
}

impl Balance {
    /// Returns why a run with this balance is not valid.
    fn reason(&self) -> Option<String> {
        let Balance { link, counted, inferred, strays } = self;
        if *strays > 0 {
            Some(format!("{strays} packets came back from the kernel's queue of {link} that counted as dropped"))
        } else if counted != inferred {
            Some(format!("the kernel's queue of {link} dropped {counted} packets, and {inferred} are known"))
        } else {
            None
        }
    }
}

/// A run's measures of its own truth, at its end.
#[derive(Clone, Default, Debug)]
pub struct Truth {
    /// How late frames left the path.
    pub lateness: Lateness,
    /// How late packets were given to the kernel's queues.
    pub late_arrivals: Lateness,
    /// The drops in the kernel's queues, by link.
    pub balances: Vec<Balance>,
    /// The longest time between two rounds of the loop beyond the time at which the next one was due.
    pub longest_gap: Span,
    /// How late the latest act of an application was.
    pub latest_act: Span,
    /// Processor time of the program.
    pub cpu: Span,
    /// The largest step of the system's clock.
    pub clock_step: Span,
    /// Whether the loop had real-time scheduling.
    pub realtime: bool,
    /// Frames that the packet sockets lost: the ring was full, the frame was too long, the kernel did not send it.
    pub socket_drops: [u64; 3],
    /// Frames by what became of them outside of the scenario's queues.
    pub counts: Counts,
    /// Counters of the host before and after the run.
    pub host: [Host; 2],
    /// Duration of the run.
    pub wall: Span,
}

impl Truth {
    /// Returns why the run is not valid; empty if it is.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let ms = |span: Span| format!("{:.3} ms", span.as_millis_f64());
        if let Some(late) = self.lateness.quantile(0.99).map(Span).filter(|late| *late > LATE) {
            reasons.push(format!("one frame in a hundred left {} late or more; the limit is {LATE}", ms(late)));
        }
        if let Some(late) = self.late_arrivals.quantile(0.99).map(Span).filter(|late| *late > LATE) {
            reasons.push(format!(
                "one packet in a hundred came to the kernel's queue {} late or more; the limit is {LATE}",
                ms(late)
            ));
        }
        reasons.extend(self.balances.iter().filter_map(Balance::reason));
        if self.latest_act > LATE_ACT {
            reasons.push(format!("an application acted {} late; the limit is {LATE_ACT}", ms(self.latest_act)));
        }
        if self.clock_step > CLOCK_STEP {
            reasons.push(format!("the system's clock was set by {}; the limit is {CLOCK_STEP}", ms(self.clock_step)));
        }
        let [full, cut, unsent] = self.socket_drops;
        for (count, what) in [
            (full, "were lost because the ring of a packet socket was full"),
            (cut, "were longer than a slot of the ring"),
            (unsent, "were not sent by the kernel"),
            (self.softnet_drops(), "were dropped by the host's network stack (softnet_stat)"),
        ] {
            if count > 0 {
                reasons.push(format!("{count} frames {what}"));
            }
        }
        reasons
    }

    fn softnet_drops(&self) -> u64 {
        self.host[1].softnet_drops.saturating_sub(self.host[0].softnet_drops)
    }

    /// Returns everything as JSON; times in microseconds.
    pub fn as_json(&self) -> Value {
        let us = |span: Span| (span.0 as f64 / 100.0).round() / 10.0;
        let steal_s = self.host[1].steal.saturating_sub(self.host[0].steal) as f64 / 100.0;
        let reasons = self.reasons();
        json!({
            "valid": reasons.is_empty(),
            "reasons": reasons,
            "late_us": self.lateness.as_json(),
            "late_arrivals_us": self.late_arrivals.as_json(),
            "kernel_drops": self.balances.iter().map(|one| one.counted).sum::<u64>(),
            "inferred_drops": self.balances.iter().map(|one| one.inferred).sum::<u64>(),
            "strays": self.balances.iter().map(|one| one.strays).sum::<u64>(),
            "longest_gap_us": us(self.longest_gap),
            "latest_act_us": us(self.latest_act),
            "clock_step_us": us(self.clock_step),
            "realtime": self.realtime,
            "cpu_share": (self.cpu.0 as f64 / self.wall.0.max(1) as f64 * 1e4).round() / 1e4,
            "steal_s": steal_s,
            "frames_in": self.counts.entered,
            "frames_out": self.counts.left,
            "foreign": self.counts.foreign,
            "unroutable": self.counts.unroutable,
            "access_drops": self.counts.access_drops,
            "overtaken": self.counts.overtaken,
            "ring_drops": self.socket_drops[0],
            "cut": self.socket_drops[1],
            "unsent": self.socket_drops[2],
            "softnet_drops": self.softnet_drops(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_that_of_the_times() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.5), None);
        (1..=100).for_each(|us| lateness.add(Span::from_micros(us)));
        let near = |share: f64, us: f64| {
            let found = lateness.quantile(share).expect("times") as f64 / 1000.0;
            assert!((us..=us * 1.125).contains(&found), "{share}: {found}");
        };
        near(0.5, 50.0);
        near(0.99, 99.0);
        assert_eq!(lateness.quantile(1.0), Some(100_000));
    }

    fn balance(counted: u64, inferred: u64, strays: u64) -> Balance {
        Balance { link: "line".to_owned(), counted, inferred, strays }
    }

    #[test]
    fn drops_of_one_link_do_not_make_up_for_those_of_another() {
        let up = Balance { link: "line.reverse".to_owned(), ..balance(2, 3, 0) };
        let reasons = Truth { balances: vec![balance(5, 4, 0), up], ..Truth::default() }.reasons();
        assert_eq!(
            reasons,
            [
                "the kernel's queue of line dropped 5 packets, and 4 are known",
                "the kernel's queue of line.reverse dropped 2 packets, and 3 are known",
            ]
        );
    }

    #[test]
    fn each_limit_has_a_reason() {
        assert!(Truth::default().reasons().is_empty());
        let late = |us| {
            let mut lateness = Lateness::default();
            (0..100).for_each(|_| lateness.add(Span::from_micros(us)));
            let late_arrivals = lateness.clone();
            let leaving = Truth { lateness, ..Truth::default() }.reasons().len();
            (leaving, Truth { late_arrivals, ..Truth::default() }.reasons().len())
        };
        assert_eq!((late(900), late(1300)), ((0, 0), (1, 1)));
        for truth in [
            Truth { balances: vec![balance(5, 5, 0), balance(5, 4, 0)], ..Truth::default() },
            Truth { balances: vec![balance(5, 5, 1), balance(0, 0, 0)], ..Truth::default() },
            Truth { latest_act: Span::from_millis(21), ..Truth::default() },
            Truth { clock_step: Span::from_millis(2), ..Truth::default() },
            Truth { socket_drops: [1, 0, 0], ..Truth::default() },
            Truth { socket_drops: [0, 1, 0], ..Truth::default() },
            Truth { socket_drops: [0, 0, 1], ..Truth::default() },
            Truth { host: [Host::default(), Host { softnet_drops: 1, steal: 0 }], ..Truth::default() },
        ] {
            assert_eq!(truth.reasons().len(), 1, "{truth:?}");
        }
    }
}
