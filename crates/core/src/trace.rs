//! Delivery opportunities of a link whose rate varies: the traces of mahimahi.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::units::{Rate, Span, Time};

/// Bytes of one delivery opportunity.
pub const OPPORTUNITY: u32 = 1500;

/// A mahimahi trace: one delivery opportunity of 1500 bytes at each time, repeated with the last time as period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds since the start of the period, non-decreasing; the last one is positive.
    pub opportunities_ms: Vec<u64>,
}

impl Trace {
    /// Returns the mean rate over one period.
    pub fn mean_rate(&self) -> Rate {
        let period_ms = self.opportunities_ms.last().copied().unwrap_or(0).max(1);
        Rate((self.opportunities_ms.len() as u64 * u64::from(OPPORTUNITY) * 8 * 1000 / period_ms).max(1))
    }
}

/// A place in a trace, and the packet that the link sends.
#[derive(Clone, Debug)]
pub struct Opportunities {
    trace: Arc<Trace>,
    next: usize,
    period_start: Time,
    /// Unused bytes of the current opportunity.
    pub budget: u32,
    /// Unsent bytes of the packet in transmission.
    pub remaining: u32,
}

impl Opportunities {
    /// Creates the state before the first opportunity.
    pub fn new(trace: Arc<Trace>) -> Opportunities {
        Opportunities { trace, next: 0, period_start: Time::ZERO, budget: OPPORTUNITY, remaining: 0 }
    }

    /// Time of the current or next opportunity.
    #[inline]
    pub fn time(&self) -> Time {
        self.period_start + Span::from_millis(self.trace.opportunities_ms[self.next])
    }

    /// Advances to the next opportunity. The trace repeats with its last time as the period.
    #[inline]
    pub fn advance(&mut self) {
        self.budget = OPPORTUNITY;
        self.next += 1;
        if self.next == self.trace.opportunities_ms.len() {
            self.period_start += Span::from_millis(self.trace.opportunities_ms[self.next - 1]);
            self.next = 0;
        }
    }

    /// Sends as many bytes of the packet as the current opportunity has left. Returns whether the packet has been sent
    /// completely.
    #[inline]
    pub fn send(&mut self) -> bool {
        let sent = self.budget.min(self.remaining);
        self.budget -= sent;
        self.remaining -= sent;
        self.remaining == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_share_opportunities_and_the_trace_repeats() {
        let trace = Trace { opportunities_ms: [3, 4, 4, 11].into() };
        assert_eq!(trace.mean_rate(), Rate(4 * 1500 * 8 * 1000 / 11));
        let mut opportunities = Opportunities::new(trace.into());
        let times = [3, 4, 4, 11, 14, 15, 15, 22, 25].map(|ms| Time::ZERO + Span::from_millis(ms));
        for time in times {
            assert_eq!(opportunities.time(), time);
            opportunities.advance();
        }
        opportunities.remaining = 2000;
        assert!(!opportunities.send());
        assert_eq!((opportunities.budget, opportunities.remaining), (0, 500));
        opportunities.advance();
        assert!(opportunities.send());
        assert_eq!((opportunities.budget, opportunities.remaining), (1000, 0));
    }
}
