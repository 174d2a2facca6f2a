//! Disciplines that Linux has and sojourn does not: one sentence each, with what to use instead.

/// Name and sentence, in the order of the names.
const ELSEWHERE: &[(&str, &str)] = &[
    ("atm", "maps flows to ATM circuits; for the framing of an ADSL line use cake, tbf or htb with atm"),
    ("bpf", "runs a program that the user supplies; test such a discipline with replay or verify --library FILE.so"),
    ("cake_mq", "is a cake on every transmit queue of a device, sharing one bandwidth; use cake"),
    ("cbq", "was removed from Linux 6.3; use htb rate R child DISCIPLINE for a shaper"),
    ("cbs", "shapes by credits for audio and video bridging (IEEE 802.1Qav); use tbf or htb for a shaper"),
    ("clsact", "has no queue: it is the place of filters; give the discipline of outgoing packets"),
    ("drr", "queues nothing without classes and filters; use fq_codel, fq or sfq, which sort flows by themselves"),
    ("dsmark", "was removed from Linux 6.3; it had no queue, and only wrote DSCPs"),
    ("etf", "sends packets at times set by their sockets, which no flow here does; use fq for pacing"),
    ("ets", "shares out by classes and filters (IEEE 802.1Qaz); use prio for strict bands, cake for weighted ones"),
    ("gred", "is RED with a virtual queue for each drop precedence, which a filter sets; use red"),
    ("hfsc", "queues nothing without classes, which have its service curves; use htb rate R child DISCIPLINE"),
    ("hhf", "runs in the kernel world only: --world kernel; in the simulator use sfq or fq_codel"),
    ("ingress", "has no queue: it is the place of filters; give the discipline of outgoing packets"),
    ("mq", "only shares packets out to a device's transmit queues; give the discipline of one queue, such as fq_codel"),
    ("mqprio", "only shares packets out to a device's transmit queues; give the discipline of one queue, or prio"),
    ("multiq", "is a band for each transmit queue of a device; use prio, or the discipline of one queue"),
    (
        "netem",
        "impairs a link rather than managing a queue: write its parameters into the hop's key impair, as in impair = \"delay 10ms loss 1%\"",
    ),
    ("noop", "drops every packet; use noqueue for a link without a queue"),
    ("plug", "holds packets until a command lets them go; for a link that stops use a rate with steps"),
    ("qfq", "queues nothing without classes and filters; use fq_codel, fq or sfq, which sort flows by themselves"),
    ("rr", "was removed from Linux 2.6.27; use prio or sfq"),
    ("skbprio", "drops the packet of the lowest priority when it is full; use prio, or cake with diffserv4"),
    (
        "stab",
        "is not a discipline: it changes the packet length that tc counts; use the hop's overhead key, or cake's atm and overhead",
    ),
    (
        "taprio",
        "opens gates by a schedule (IEEE 802.1Qbv); for a link that is open part of the time use a rate with steps",
    ),
    ("teql", "joins several devices to one; write one hop with the sum of their rates"),
];

/// Returns a sentence about a Linux discipline that sojourn does not have, and what to use instead. `None` for any
/// other name.
pub fn instead_of(name: &str) -> Option<&'static str> {
    // teql's disciplines are numbered.
    let name = if name.starts_with("teql") { "teql" } else { name };
    ELSEWHERE.iter().find(|(known, _)| *known == name).map(|(_, sentence)| *sentence)
}

/// The names, for messages and reference pages, with their sentences.
pub fn elsewhere() -> &'static [(&'static str, &'static str)] {
    ELSEWHERE
}
