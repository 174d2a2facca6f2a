//! The congestion window and what changes it.

mod bbr;
mod bbr3;
mod bictcp;
mod cubic;
mod dctcp;
mod flow;
mod hystart_plus;
mod ledbat;
mod minmax;
mod model;
mod prague;
mod reno;
mod vegas;

use crate::tcp::undo::Prior;
use crate::tcp::{Cc, Config, HyStart as Asked, Windows};
use crate::units::{Span, Time};
use alloc::boxed::Box;
use bictcp::Bictcp;
use cubic::{Cubic, HyStart};
use dctcp::Dctcp;
pub(super) use flow::{Flow, Repair};
use hystart_plus::HyStartPlus;
use ledbat::Ledbat;
pub(super) use model::Model;
use vegas::Vegas;

/// What a congestion control may know of an ACK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clock {
    /// Now.
    pub now: Time,
    /// The smoothed RTT in seconds.
    pub srtt: f64,
    /// The RTT of the segment that triggered the ACK, in µs.
    pub rtt_us: u32,
    /// The next segment expected by the receiver.
    pub snd_una: u32,
    /// The next segment to be sent.
    pub snd_nxt: u32,
}

/// Window, threshold and the algorithm's own state. Windows in segments.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Control {
    /// `cwnd` rounded down: what the sender compares with.
    window: u32,
    cwnd: f64,
    ssthresh: f64,
    growth: Growth,
    hystart: HyStart,
    own: Option<Box<Own>>,
    initial: u32,
    rule: Rule,
}

/// By whose rule the window moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Reno,
    Cubic,
    Ledbat,
    Vegas,
    Dctcp,
    /// By none.
    Fixed,
    /// The model makes its own window.
    Model,
}

impl Rule {
    fn of(cc: Cc) -> Rule {
        match cc {
            Cc::Reno | Cc::Linux(_) => Rule::Reno,
            Cc::Cubic => Rule::Cubic,
            Cc::Ledbat => Rule::Ledbat,
            Cc::Vegas => Rule::Vegas,
            Cc::Dctcp => Rule::Dctcp,
            Cc::Fixed(_) => Rule::Fixed,
            Cc::Bbr | Cc::Bbr3 | Cc::Prague => Rule::Model,
        }
    }
}

/// How the window grows and shrinks.
#[derive(Clone, Debug, PartialEq)]
enum Growth {
    /// By fractions of a segment, as the RFCs have it.
    Fractions(Cubic),
    /// By whole segments, as Linux does: so many are counted towards the next one (`snd_cwnd_cnt`).
    Segments { count: u32, cubic: Bictcp },
}

impl Growth {
    fn new(config: &Config) -> Growth {
        // HyStart++ and LEDBAT open the window by parts of a segment.
        let linux = !matches!(config.cc, Cc::Fixed(_) | Cc::Ledbat) && config.hystart != Asked::Plus;
        if linux && config.windows == Windows::Linux {
            return Growth::Segments { count: 0, cubic: Bictcp::new(config.hz) };
        }
        // RFC 9438 §4.10: after HyStart++ the cubic starts from a standstill.
        Growth::Fractions(Cubic::new(config.hystart == Asked::Linux))
    }
}

/// The state of what only some connections have.
#[derive(Clone, Debug, PartialEq)]
enum Own {
    /// The marks of DCTCP.
    Dctcp(Dctcp),
    /// Of the initial slow start of Reno or CUBIC.
    HyStartPlus(HyStartPlus),
    /// The delays of LEDBAT.
    Ledbat(Ledbat),
    /// The RTTs of Vegas.
    Vegas(Vegas),
}

impl Own {
    fn new(config: &Config) -> Option<Own> {
        match config.cc {
            Cc::Reno | Cc::Cubic if config.hystart == Asked::Plus => Some(Own::HyStartPlus(HyStartPlus::new())),
            Cc::Dctcp => Some(Own::Dctcp(Dctcp::new(config.windows == Windows::Linux))),
            Cc::Ledbat => Some(Own::Ledbat(Ledbat::new())),
            Cc::Vegas => Some(Own::Vegas(Vegas::new())),
            _ => None,
        }
    }

    /// By how much an ACK of so many segments may open the window below the threshold.
    fn slow_start(&self, acked: f64, ssthresh: f64) -> f64 {
        match self {
            Own::HyStartPlus(plus) if ssthresh.is_infinite() => plus.growth(acked),
            Own::Vegas(vegas) if !vegas.is_reno() => 0.0,
            _ => acked,
        }
    }
}

impl Control {
    pub fn new(config: &Config) -> Control {
        debug_assert!(!matches!(config.cc, Cc::Linux(_)), "bug: a world that has no {:?} did not refuse it", config.cc);
        let (window, ssthresh) = match config.cc {
            Cc::Fixed(n) => (n.max(1), f64::from(n.max(1))),
            // RFC 6817 §2.5: it begins with two segments, and without slow start.
            Cc::Ledbat => (ledbat::MIN_CWND as u32, 0.0),
            _ => (config.iw.max(1), f64::INFINITY),
        };
        Control {
            window,
            cwnd: f64::from(window),
            ssthresh,
            growth: Growth::new(config),
            hystart: HyStart::new(config),
            own: Own::new(config).map(Box::new),
            initial: window,
            rule: Rule::of(config.cc),
        }
    }

    /// The window in whole segments.
    #[inline]
    pub fn window(&self) -> u32 {
        self.window
    }

    /// The slow start threshold in whole segments; `u32::MAX` while there is none.
    #[inline]
    pub fn ssthresh(&self) -> u32 {
        self.ssthresh as u32
    }

    /// Below the threshold.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether the window ever moves.
    #[inline]
    pub fn is_fixed(&self) -> bool {
        self.rule == Rule::Fixed
    }

    #[inline]
    fn set(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
        self.window = cwnd as u32;
    }

    /// Gives the RTT sample of an ACK to HyStart, which may end slow start. Linux does this before the window grows. `unmarked` is
    /// the number of delivered segments that [`Control::count_marks`] has not counted yet.
    #[inline]
    pub fn observe(&mut self, clock: &Clock, unmarked: u32) {
        if self.hystart.is_on() {
            let slow_start = self.in_slow_start();
            if self.hystart.asks(clock, slow_start)
                && !self.is_young(clock.now)
                && self.hystart.ends_slow_start(clock, slow_start, self.window)
            {
                self.ssthresh = self.cwnd;
            }
        } else if self.own.is_some() {
            self.observe_own(clock, unmarked);
        }
    }

    /// Linux: CUBIC takes no samples of the delay in the first second of a stage.
    fn is_young(&self, now: Time) -> bool {
        matches!(&self.growth, Growth::Segments { cubic, .. } if cubic.is_young(now))
    }

    #[inline(never)]
    fn observe_own(&mut self, clock: &Clock, unmarked: u32) {
        let ssthresh = self.ssthresh();
        match self.own.as_deref_mut() {
            // RFC 9406 §4.3: only in the initial slow start.
            Some(Own::HyStartPlus(plus)) => {
                let over = self.ssthresh.is_infinite() && plus.ends_slow_start(clock);
                self.ssthresh = if over { self.cwnd } else { self.ssthresh };
            }
            Some(Own::Vegas(vegas)) => {
                if let Some((cwnd, ssthresh)) = vegas.on_ack(clock, self.window, ssthresh) {
                    self.ssthresh = if ssthresh == u32::MAX { self.ssthresh } else { f64::from(ssthresh) };
                    self.set(f64::from(cwnd));
                }
            }
            // Linux `tcp_in_ack_event`: once an ACK.
            Some(Own::Dctcp(dctcp)) if unmarked > 0 => dctcp.on_ack(unmarked, false, clock),
            _ => {}
        }
    }

    /// An ACK off the clean path, before it reduces anything: so many segments delivered, with an echo of marks or not.
    #[inline]
    pub fn count_marks(&mut self, delivered: u32, echo: bool, clock: &Clock) {
        if let Some(Own::Dctcp(dctcp)) = self.own.as_deref_mut() {
            dctcp.on_ack(delivered, echo, clock);
        }
    }

    /// So many segments were delivered to a sender that its window had limited.
    #[inline(always)]
    pub fn grow(&mut self, acked: u32, clock: &Clock) {
        let Growth::Fractions(cubic) = &mut self.growth else { return self.grow_whole(acked, clock) };
        let mut acked = f64::from(acked);
        let mut cwnd = self.cwnd;
        if cwnd < self.ssthresh {
            // RFC 5681 §3.1, counting segments rather than ACKs (RFC 3465), without its limit, as Linux does.
            if let Some(own) = self.own.as_deref() {
                acked = own.slow_start(acked, self.ssthresh);
            }
            let room = self.ssthresh - cwnd;
            if acked <= room {
                return self.set(cwnd + acked);
            }
            cwnd = self.ssthresh;
            acked -= room;
        }
        let cwnd = match self.rule {
            Rule::Cubic => cubic.increase(cwnd, acked, clock.now, clock.srtt),
            Rule::Reno | Rule::Dctcp => reno::increase(cwnd, acked),
            Rule::Ledbat => match self.own.as_deref_mut() {
                Some(Own::Ledbat(ledbat)) => ledbat.increase(cwnd, acked, clock),
                _ => cwnd,
            },
            Rule::Vegas => match self.own.as_deref_mut() {
                Some(Own::Vegas(vegas)) if vegas.is_reno() => reno::increase(cwnd, acked),
                _ => cwnd,
            },
            Rule::Fixed | Rule::Model => cwnd,
        };
        self.set(cwnd);
    }

    /// The same by whole segments (Linux `tcp_slow_start`, `tcp_cong_avoid_ai`).
    #[inline]
    fn grow_whole(&mut self, mut acked: u32, clock: &Clock) {
        if self.is_fixed() || self.rule == Rule::Model || self.stands() {
            return;
        }
        let Growth::Segments { count, cubic } = &mut self.growth else { return };
        let mut window = self.window;
        if self.cwnd < self.ssthresh {
            let after = f64::from(window + acked).min(self.ssthresh) as u32;
            acked -= after - window;
            window = after;
            if acked == 0 {
                return self.set(f64::from(window));
            }
        }
        let each = match self.rule {
            Rule::Cubic => cubic.update(window, acked, clock.now, self.hystart.delay_min()),
            _ => window,
        };
        if *count >= each {
            *count = 0;
            window += 1;
        }
        *count += acked;
        if *count >= each {
            window += *count / each;
            *count %= each;
        }
        self.set(f64::from(window));
    }

    /// Vegas moves its window itself.
    fn stands(&self) -> bool {
        matches!(self.own.as_deref(), Some(Own::Vegas(vegas)) if !vegas.is_reno())
    }

    /// A congestion event with so many segments outstanding, shown by an echo of marks or by losses: a new threshold.
    /// Returns the window that it reduces.
    pub fn reduce(&mut self, outstanding: u32, by_echo: bool) -> u32 {
        // RFC 6675 §5 step 4.2: what limited transmit sent does not count.
        let flight = f64::from(outstanding).min(self.cwnd);
        let (base, ssthresh) = match self.rule {
            Rule::Cubic => match &mut self.growth {
                Growth::Fractions(cubic) => (self.cwnd, cubic.reduce(self.cwnd)),
                Growth::Segments { cubic, .. } => (self.cwnd, f64::from(cubic.reduce(self.window))),
            },
            Rule::Reno | Rule::Vegas => (flight, reno::ssthresh(flight)),
            Rule::Dctcp => match self.own.as_deref() {
                Some(Own::Dctcp(dctcp)) if by_echo => (self.cwnd, dctcp.ssthresh(self.cwnd)),
                _ => (self.cwnd, reno::ssthresh(self.cwnd)),
            },
            Rule::Ledbat => (self.cwnd, Ledbat::ssthresh(self.cwnd)),
            Rule::Fixed => (self.cwnd, self.cwnd),
            Rule::Model => (self.cwnd, self.ssthresh),
        };
        if let Some(Own::Vegas(vegas)) = self.own.as_deref_mut() {
            vegas.disable();
        }
        self.ssthresh = self.rounded(ssthresh);
        if let Growth::Segments { count, .. } = &mut self.growth {
            *count = 0;
        }
        base as u32
    }

    fn is_whole(&self) -> bool {
        matches!(self.growth, Growth::Segments { .. })
    }

    /// A threshold, in whole segments if windows are.
    fn rounded(&self, segments: f64) -> f64 {
        match self.rule {
            _ if !self.is_whole() => segments,
            // Linux rounds down what is taken away.
            Rule::Dctcp => libm::ceil(segments),
            _ => libm::floor(segments),
        }
    }

    /// Three quarters of the window.
    fn most_of_window(&self) -> f64 {
        if self.is_whole() { f64::from((self.window >> 1) + (self.window >> 2)) } else { 0.75 * self.cwnd }
    }

    /// A window set by PRR, and at its end.
    pub fn set_window(&mut self, window: u32) {
        if !self.is_fixed() {
            self.window = window.max(1);
            self.cwnd = f64::from(self.window);
        }
    }

    /// The reduction is complete.
    pub fn end_reduction(&mut self) {
        if !self.is_fixed() && self.rule != Rule::Model {
            self.set(self.ssthresh);
        }
    }

    /// What a reduction would take away; `reducing`: one is under way already (Linux `tcp_current_ssthresh`).
    pub fn prior(&self, reducing: bool) -> Prior {
        let ssthresh = if reducing { self.ssthresh } else { self.ssthresh.max(self.most_of_window()) };
        Prior { cwnd: self.cwnd, ssthresh }
    }

    /// A reduction was in vain. Whether the threshold rises.
    pub fn undo_cwnd(&mut self, prior: &Prior) -> bool {
        self.set(self.cwnd.max(prior.cwnd));
        let rises = prior.ssthresh > self.ssthresh;
        self.ssthresh = self.ssthresh.max(prior.ssthresh);
        rises
    }

    /// A retransmission timeout: slow start from one segment (RFC 5681 §3.1).
    pub fn timeout(&mut self) {
        if !self.is_fixed() {
            self.set(1.0);
            match &mut self.growth {
                Growth::Fractions(cubic) => cubic.timeout(),
                Growth::Segments { count, cubic } => {
                    *count = 0;
                    cubic.timeout();
                }
            }
            self.hystart.restart();
        }
    }

    /// The handshake lost more than one SYN (RFC 6928 §2 forgives the first): begin with one segment.
    pub fn after_syn_loss(&mut self) {
        self.set_window(1);
    }

    /// Data after `idle` with nothing outstanding. Linux and RFC 2861: the window halves for each RTO of idleness, down
    /// to the initial window, and the threshold remembers three quarters of it.
    pub fn restart(&mut self, now: Time, idle: Span, rto: Span) {
        if self.is_fixed() || self.rule == Rule::Model {
            return;
        }
        match &mut self.growth {
            Growth::Fractions(cubic) => cubic.shift(now, idle),
            Growth::Segments { cubic, .. } => cubic.shift(now, idle),
        }
        if let Some(Own::Vegas(vegas)) = self.own.as_deref_mut() {
            // Linux: after a pause the base RTT is looked for anew.
            *vegas = Vegas::new();
        }
        if idle <= rto {
            return;
        }
        self.ssthresh =
            if self.ssthresh.is_finite() { self.ssthresh.max(self.most_of_window()) } else { self.ssthresh };
        let floor = f64::from(self.initial).min(self.cwnd);
        let (mut left, mut cwnd) = (idle, self.cwnd);
        while left > rto && cwnd > floor {
            left = left - rto;
            cwnd *= 0.5;
        }
        // Linux halves by shifts.
        let halved = if self.is_whole() { libm::floor(cwnd) } else { cwnd };
        self.set(halved.max(floor));
    }
}
