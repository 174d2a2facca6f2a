//! A trace-driven link, which sends at delivery opportunities of 1500 bytes (mahimahi).

use sojourn_core::packet::Packet as _;
use sojourn_core::qdisc::Qdisc;
use sojourn_core::trace::OPPORTUNITY;
use sojourn_core::units::Time;

use super::requeue::next_packet;
use super::{Link, Server, Service};
use crate::packet::Packet;

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
        let finished = self.service.is_some() && trace.send();
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
