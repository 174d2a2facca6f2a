//! A trace-driven link, which sends at delivery opportunities of 1500 bytes (mahimahi).

use std::sync::Arc;

use sojourn_core::packet::Packet as _;
use sojourn_core::qdisc::Qdisc;
use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::Trace;

use super::requeue::next_packet;
use super::{Link, Server, Service};
use crate::packet::Packet;

/// Bytes of one delivery opportunity.
const OPPORTUNITY: u32 = 1500;

/// The state of a trace-driven link.
pub(super) struct Opportunities {
    trace: Arc<Trace>,
    next: usize,
    period_start: Time,
    /// Unused bytes of the current opportunity.
    budget: u32,
    /// Unsent bytes of the packet in transmission.
    remaining: u32,
}

impl Opportunities {
    /// Creates the state before the first opportunity.
    pub(super) fn new(trace: Arc<Trace>) -> Opportunities {
        Opportunities { trace, next: 0, period_start: Time::ZERO, budget: OPPORTUNITY, remaining: 0 }
    }

    /// Time of the current or next opportunity.
    pub(super) fn time(&self) -> Time {
        self.period_start + Span::from_millis(self.trace.opportunities_ms[self.next])
    }

    /// Advances to the next opportunity. The trace repeats with its last time as the period (mahimahi).
    fn advance(&mut self) {
        self.budget = OPPORTUNITY;
        self.next += 1;
        if self.next == self.trace.opportunities_ms.len() {
            self.period_start += Span::from_millis(self.trace.opportunities_ms[self.next - 1]);
            self.next = 0;
        }
    }
}

impl Link {
    /// Uses a delivery opportunity. The next packet gets its unused bytes: the opportunity is due again at `now` until
    /// it is used up.
    pub(super) fn opportunity(&mut self, now: Time) -> Option<Packet> {
        let Server::Trace(trace) = &mut self.server else { return None };
        if self.service.is_none() {
            let next = match &self.card {
                Some(card) => card.head(),
                None => next_packet(&mut self.requeued, &mut self.qdisc, now, &mut self.drops),
            };
            if let Some(packet) = next {
                trace.remaining = packet.bytes();
                self.service = Some(Service { packet, start: now });
                if self.detail {
                    self.begins(now, &packet);
                }
            } else if self.detail && self.qdisc.packets() == 0 {
                self.meter.emptied(now);
            }
        }
        let Server::Trace(trace) = &mut self.server else { return None };
        let used = if self.service.is_some() { trace.budget.min(trace.remaining) } else { 0 };
        trace.budget -= used;
        trace.remaining -= used;
        let finished = self.service.is_some() && trace.remaining == 0;
        if trace.budget == 0 || self.service.is_none() {
            self.meter.offered(now, OPPORTUNITY, OPPORTUNITY - trace.budget);
            trace.advance();
            self.due = trace.time();
        }
        if !finished {
            return None;
        }
        let Service { mut packet, start } = self.service.take()?;
        self.sent(&mut packet, start, now);
        Some(packet)
    }
}
