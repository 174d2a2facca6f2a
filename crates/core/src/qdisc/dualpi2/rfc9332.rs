//! The controller of RFC 9332's appendix A, with the edge cases of its second pass.

use alloc::boxed::Box;

use super::monitor::{Fate, Monitor};
use super::params::Params;
use crate::packet::Ecn;
use crate::units::{Span, Time};

/// RFC 9332 A.1, line 19: the ramp applies only if the L queue holds more packets than this.
const TH_LEN: usize = 1;

/// The controller. Probabilities are from 0 to 1, gains in Hz.
#[derive(Clone, Debug)]
pub struct Rfc9332 {
    target: Span,
    tupdate: Span,
    alpha: f64,
    beta: f64,
    k: f64,
    /// The probability of the C queue at which drops replace marks.
    p_cmax: f64,
    min_th: Span,
    range: Span,
    /// When the next update is due.
    pub next: Time,
    /// The base probability, p'.
    pub p: f64,
    prevq: Span,
    /// The probability that `recur()` has accumulated for the L queue.
    l_count: f64,
    /// The probability that `recur()` has accumulated for the C queue.
    c_count: f64,
    /// Counters for operators.
    pub monitor: Box<Monitor>,
}

/// Returns true for the share `likelihood` of calls, evenly spread. RFC 9332 A.1, figure 4.
fn recur(count: &mut f64, likelihood: f64) -> bool {
    *count += likelihood;
    let due = *count > 1.0;
    if due {
        *count -= 1.0;
    }
    due
}

impl Rfc9332 {
    /// Creates the controller at time zero.
    pub fn new(params: &Params) -> Rfc9332 {
        let rtt_max = params.max_rtt.unwrap_or(Span::from_millis(100));
        let tupdate = params.tupdate.unwrap_or(params.target.min(Span(rtt_max.0 / 3)).max(Span(1))); // line 12
        let seconds = rtt_max.as_secs_f64();
        let k = f64::from(params.coupling_factor);
        Rfc9332 {
            target: params.target,
            tupdate,
            alpha: params.alpha.unwrap_or(0.1 * tupdate.as_secs_f64() / (seconds * seconds)), // line 13
            beta: params.beta.unwrap_or(0.3 / seconds),                                       // line 14
            k,
            p_cmax: (1.0 / (k * k)).min(1.0), // line 11
            min_th: params.min_th,
            range: params.range,
            next: Time::ZERO + tupdate,
            p: 0.0,
            prevq: Span::ZERO,
            l_count: 0.0,
            c_count: 0.0,
            monitor: Box::default(),
        }
    }

    /// The coupled probability of the L queue.
    pub fn p_cl(&self) -> f64 {
        (self.k * self.p).min(1.0)
    }

    /// The probability of the C queue.
    pub fn p_c(&self) -> f64 {
        self.p * self.p
    }

    /// Makes the updates that were due before `now`. `heads` are the arrival times of the heads of the C and the L
    /// queue, which have not changed since the first of these updates was due.
    #[inline]
    pub fn update(&mut self, now: Time, heads: (Option<Time>, Option<Time>)) {
        if self.next < now {
            self.catch_up(now, heads);
        }
    }

    #[inline(never)]
    fn catch_up(&mut self, now: Time, (c, l): (Option<Time>, Option<Time>)) {
        while self.next < now {
            let delay = |head: Option<Time>| head.map_or(Span::ZERO, |head| self.next.since(head));
            let curq = delay(c).max(delay(l)); // A.2, line 2a
            let (p, prevq) = (self.p, self.prevq);
            let error = curq.as_secs_f64() - self.target.as_secs_f64();
            let change = curq.as_secs_f64() - prevq.as_secs_f64();
            self.p = (p + self.alpha * error + self.beta * change).clamp(0.0, 1.0); // line 3
            self.prevq = curq;
            self.monitor.overload(self.next, self.p_c() >= self.p_cmax);
            self.next += self.tupdate;
            let stays = self.p == p && (curq == prevq || (p == 1.0 && curq > self.target));
            if stays && self.next < now {
                // Only the last of the other overdue updates can have an effect: it sets the delay.
                self.next += Span((now.since(self.next).0 - 1) / self.tupdate.0 * self.tupdate.0);
            }
        }
    }

    /// The ramp. RFC 9332 A.1, figure 5.
    fn laqm(&self, delay: Span) -> f64 {
        if delay >= self.min_th + self.range {
            1.0
        } else if delay > self.min_th {
            (delay.0 - self.min_th.0) as f64 / self.range.0 as f64
        } else {
            0.0
        }
    }

    /// Judges a packet of the L queue, from how long it waited and how many packets it leaves behind.
    #[inline]
    pub fn judge_l(&mut self, waited: Span, behind: usize) -> Fate {
        let (p_c, p_cl) = (self.p_c(), self.p_cl());
        if p_cl < 1.0 {
            let native = if behind + 1 > TH_LEN { self.laqm(waited) } else { 0.0 }; // A.2, lines 5a to 5d
            let mark = recur(&mut self.l_count, native.max(p_cl)); // lines 6 to 8a
            return if mark { Fate::Mark } else { Fate::Send };
        }
        // Lines 8c to 8i: overload.
        if recur(&mut self.l_count, p_c) {
            Fate::Drop
        } else if recur(&mut self.l_count, p_cl) {
            Fate::Mark
        } else {
            Fate::Send
        }
    }

    /// Judges a packet of the C queue.
    #[inline]
    pub fn judge_c(&mut self, ecn: Ecn) -> Fate {
        let p_c = self.p_c();
        match recur(&mut self.c_count, p_c) {
            false => Fate::Send,
            true if !ecn.is_capable() || p_c >= self.p_cmax => Fate::Drop, // A.2, line 12
            true => Fate::Mark,
        }
    }
}
