//! Congestion control: the trait of an algorithm, the list of all algorithms, and [`Control`], the sender's interface to them.
//!
//! An algorithm is a file below `cc/` that implements [`CongestionControl`], whose methods carry the names of Linux's
//! `tcp_congestion_ops`, and a line in the list of [`algorithms!`]. All algorithms are known at compile time, so the sender
//! calls them through an enum. There are two kinds:
//!
//! - A *window-driven* algorithm (Reno, CUBIC, ...) changes [`Cwnd`] in `cong_avoid`, and computes in `ssthresh` how far a
//!   congestion event reduces it. Slow start, PRR, undo and the restart after idle time are the same for all and are in
//!   [`Control`].
//! - A *rate-based* algorithm (BBR, Prague) sets window and pacing rate itself, in `cong_control`, from a [`Flow`] and a rate
//!   sample. A sender with such an algorithm paces.
//!
//! docs/how-to/add-a-congestion-control.md shows step by step how to add an algorithm.

mod bbr;
mod bbr3;
mod bictcp;
mod cubic;
mod cwnd;
mod dctcp;
mod fixed;
mod flow;
mod hystart;
mod hystart_plus;
mod ledbat;
mod minmax;
mod ops;
mod prague;
mod reno;
mod setup;
mod vegas;

use crate::tcp::Config;
use crate::tcp::rate::{Loss, RateSample};
use crate::tcp::undo::Prior;
use crate::units::{Span, Time};
use alloc::boxed::Box;
pub(super) use cwnd::{Cwnd, CwndUsage};
pub(super) use flow::{Flow, FlowEvent, Repair};
pub(super) use ops::{AckSample, Congestion, CongestionControl, EcnUse, Ops, Reduction};
use setup::Setup;
pub use setup::{HyStart, Windows};

/// How an algorithm's state is kept in [`Algorithm`]: the small ones inline, the large ones in a box.
macro_rules! stored {
    (inline $kind:ty) => { $kind };
    (boxed $kind:ty) => { Box<$kind> };
    (inline = $state:expr) => { $state };
    (boxed = $state:expr) => { Box::new($state) };
}

/// Makes the list of algorithms into [`Cc`], [`Algorithm`] and `dispatch!`.
macro_rules! algorithms {
    (($d:tt) $($(#[$doc:meta])* $Name:ident => $store:ident $kind:ty,)*) => {
        /// Congestion control of a sender.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Cc {
            $($(#[$doc])* $Name,)*
            /// A window of this many segments, never changed.
            Fixed(u32),
            /// An algorithm that Linux has by this name and this TCP does not: only for a world where Linux's TCP sends.
            Linux(&'static str),
        }

        impl Cc {
            /// The algorithms of this TCP, except [`Cc::Fixed`].
            pub const ALL: &[Cc] = &[$(Cc::$Name,)*];

            /// The algorithm's constants.
            pub(super) const fn ops(self) -> Ops {
                match self {
                    $(Cc::$Name => <$kind as CongestionControl>::OPS,)*
                    Cc::Fixed(_) => fixed::Fixed::OPS,
                    Cc::Linux(name) => Ops { in_linux: true, ..Ops::named(name) },
                }
            }
        }

        /// The state of one connection's algorithm.
        #[derive(Clone, Debug, PartialEq)]
        pub(in crate::tcp) enum Algorithm {
            $($Name(stored!($store $kind)),)*
            Fixed(fixed::Fixed),
        }

        impl Algorithm {
            fn new(cc: Cc, setup: &Setup) -> Algorithm {
                match cc {
                    $(Cc::$Name => Algorithm::$Name(stored!($store = <$kind>::new(setup))),)*
                    Cc::Fixed(_) => Algorithm::Fixed(fixed::Fixed::new(setup)),
                    Cc::Linux(name) => panic!("bug: a world that has no {name} did not refuse it"),
                }
            }

            /// Returns whether the algorithm sets the window itself, in `cong_control`.
            #[inline]
            fn is_rate_based(&self) -> bool {
                match self {
                    $(Algorithm::$Name(_) => <$kind as CongestionControl>::OPS.rate_based,)*
                    Algorithm::Fixed(_) => false,
                }
            }
        }

        /// Evaluates `$call`, in which `$one` is the state of the algorithm inside the enum `$algorithm`.
        macro_rules! dispatch {
            ($d algorithm:expr, $d one:ident => $d call:expr) => {
                match $d algorithm {
                    $(Algorithm::$Name($d one) => $d call,)*
                    Algorithm::Fixed($d one) => $d call,
                }
            };
        }
    };
}

algorithms! { ($)
    /// NewReno (RFC 5681, 6582) with SACK-based recovery.
    Reno => inline reno::Reno,
    /// CUBIC (RFC 9438).
    Cubic => inline cubic::Cubic,
    /// BBR, version 1, as Linux has it by the name `bbr`.
    Bbr => boxed bbr::Bbr,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr3 => boxed bbr3::Bbr3,
    /// LEDBAT (RFC 6817): a scavenger that yields to other traffic.
    Ledbat => boxed ledbat::Ledbat,
    /// Vegas, as Linux has it: keeps two to four segments in the queue.
    Vegas => inline vegas::Vegas,
    /// DCTCP (RFC 8257): reduces in proportion to the fraction of segments marked.
    Dctcp => inline dctcp::Dctcp,
    /// Prague: DCTCP for the Internet, with accurate ECN, for L4S queues (RFC 9331).
    Prague => boxed prague::Prague,
}

impl Cc {
    /// The algorithm of this name, as a scenario file writes it.
    pub fn from_name(name: &str) -> Option<Cc> {
        Cc::ALL.iter().copied().find(|cc| cc.ops().name == name)
    }

    /// The name in a scenario file, without [`Cc::Fixed`]'s window.
    pub const fn name(self) -> &'static str {
        self.ops().name
    }

    /// The name by which Linux has the same algorithm, if it has it.
    pub const fn linux_name(self) -> Option<&'static str> {
        let ops = self.ops();
        if ops.in_linux { Some(ops.name) } else { None }
    }

    /// Returns whether the algorithm needs ECN. If so, all its packets are ECN-capable (RFC 8257 §3.5; Linux `TCP_CONG_NEEDS_ECN`).
    pub const fn needs_ecn(self) -> bool {
        !matches!(self.ops().ecn, EcnUse::Optional)
    }

    /// Returns whether the algorithm sets window and pacing rate from the rate sample of each ACK (as Linux's `cong_control` does).
    pub const fn is_rate_based(self) -> bool {
        self.ops().rate_based
    }
}

impl core::fmt::Display for Cc {
    /// As in a scenario file: `cubic`, `fixed 25`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Cc::Fixed(window) => write!(f, "fixed {window}"),
            cc => f.write_str(cc.name()),
        }
    }
}

/// The part of a connection's settings that concerns its algorithm. HyStart++ and LEDBAT need windows with fractions.
fn setup(config: &Config) -> Setup {
    let fractions = matches!(config.cc, Cc::Fixed(_) | Cc::Ledbat) || config.hystart == HyStart::Plus;
    Setup {
        seed: config.seed,
        mss: config.mss,
        iw: config.iw,
        hz: config.hz,
        hystart: config.hystart,
        windows: config.windows,
        is_whole: config.windows == Windows::Linux && !fractions,
    }
}

/// A connection's congestion window and the algorithm that changes it: the interface for the sender.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Control {
    cwnd: Cwnd,
    algorithm: Algorithm,
}

impl Control {
    pub fn new(config: &Config) -> Control {
        let setup = setup(config);
        let (window, ssthresh) = match config.cc {
            Cc::Fixed(window) => (window, f64::from(window.max(1))),
            // RFC 6817 §2.5: LEDBAT begins with two segments, and without slow start.
            Cc::Ledbat => (ledbat::MIN_CWND as u32, 0.0),
            _ => (config.iw, f64::INFINITY),
        };
        let cwnd = Cwnd::new(window.max(1), ssthresh, setup.is_whole);
        Control { cwnd, algorithm: Algorithm::new(config.cc, &setup) }
    }

    /// The window in whole segments (Linux `snd_cwnd`).
    #[inline]
    pub fn window(&self) -> u32 {
        self.cwnd.whole()
    }

    /// The slow start threshold in whole segments; `u32::MAX` while there is none.
    #[inline]
    pub fn ssthresh(&self) -> u32 {
        self.cwnd.ssthresh() as u32
    }

    #[inline]
    fn is_fixed(&self) -> bool {
        matches!(self.algorithm, Algorithm::Fixed(_))
    }

    #[inline]
    fn is_rate_based(&self) -> bool {
        self.algorithm.is_rate_based()
    }

    /// An ACK on the clean path, which only advances: all calls of the algorithm for such an ACK, with a single dispatch.
    #[inline(always)]
    pub fn on_clean_ack(&mut self, acked: u32, ack: &AckSample, usage: &CwndUsage) {
        let cwnd = &mut self.cwnd;
        dispatch!(&mut self.algorithm, one => {
            one.in_ack_event(acked, false, ack);
            one.pkts_acked(cwnd, ack);
            if usage.may_grow(cwnd) {
                one.cong_avoid(cwnd, acked, ack);
            }
        });
    }

    /// See [`CongestionControl::pkts_acked`].
    #[inline]
    pub fn pkts_acked(&mut self, ack: &AckSample) {
        let cwnd = &mut self.cwnd;
        dispatch!(&mut self.algorithm, one => one.pkts_acked(cwnd, ack));
    }

    /// See [`CongestionControl::in_ack_event`].
    #[inline]
    pub fn in_ack_event(&mut self, delivered: u32, ece: bool, ack: &AckSample) {
        dispatch!(&mut self.algorithm, one => one.in_ack_event(delivered, ece, ack));
    }

    /// Returns whether the sender used enough of the window for it to grow.
    #[inline]
    pub fn may_grow(&self, usage: &CwndUsage) -> bool {
        usage.may_grow(&self.cwnd)
    }

    /// See [`CongestionControl::cong_avoid`].
    #[inline]
    pub fn cong_avoid(&mut self, acked: u32, ack: &AckSample) {
        let cwnd = &mut self.cwnd;
        dispatch!(&mut self.algorithm, one => one.cong_avoid(cwnd, acked, ack));
    }

    /// Sets the slow start threshold after a congestion event, which an ECN echo (`ece`) or losses have shown, with `outstanding`
    /// segments. Returns the window from which the reduction starts, in segments.
    pub fn reduce(&mut self, outstanding: u32, ece: bool) -> u32 {
        // RFC 6675 §5 step 4.2: segments of limited transmit do not count.
        let event = Congestion { flight: f64::from(outstanding).min(self.cwnd.get()), ece };
        let cwnd = &self.cwnd;
        let Reduction { from, ssthresh } = dispatch!(&mut self.algorithm, one => one.ssthresh(cwnd, &event));
        self.cwnd.set_ssthresh(ssthresh);
        self.cwnd.forget_acked();
        from as u32
    }

    /// Sets the window: by PRR during a reduction, or by a rate-based algorithm.
    pub fn set_window(&mut self, window: u32) {
        if !self.is_fixed() {
            self.cwnd.set_whole(window.max(1));
        }
    }

    /// A reduction is complete: the window is the slow start threshold (Linux `tcp_end_cwnd_reduction`).
    pub fn end_reduction(&mut self) {
        if !self.is_fixed() && !self.is_rate_based() {
            self.cwnd.set(self.cwnd.ssthresh());
        }
    }

    /// The window and threshold to restore if a reduction that begins now proves spurious (Linux `tcp_current_ssthresh`).
    /// `reducing`: another reduction is already under way.
    pub fn prior(&self, reducing: bool) -> Prior {
        let cwnd = &self.cwnd;
        let ssthresh = if reducing { cwnd.ssthresh() } else { cwnd.ssthresh().max(cwnd.three_quarters()) };
        Prior { cwnd: cwnd.get(), ssthresh }
    }

    /// Undoes a reduction that proved spurious (Linux `tcp_undo_cwnd_reduction`). Returns whether the slow start threshold rises.
    pub fn undo_cwnd(&mut self, prior: &Prior) -> bool {
        let cwnd = &self.cwnd;
        let restored = dispatch!(&self.algorithm, one => one.undo_cwnd(cwnd, prior));
        self.cwnd.set(restored);
        let rises = prior.ssthresh > self.cwnd.ssthresh();
        self.cwnd.set_ssthresh(self.cwnd.ssthresh().max(prior.ssthresh));
        rises
    }

    /// A retransmission timeout: slow start from one segment (RFC 5681 §3.1).
    pub fn on_loss_timeout(&mut self) {
        if !self.is_fixed() {
            self.cwnd.set(1.0);
            self.cwnd.forget_acked();
            dispatch!(&mut self.algorithm, one => one.on_loss_timeout());
        }
    }

    /// The handshake lost more than one SYN, so the connection begins with a window of one segment (RFC 6928 §2; the loss of one SYN
    /// does not count).
    pub fn after_syn_loss(&mut self) {
        self.set_window(1);
    }

    /// Restarts after `idle` time without segments in flight. The window is halved for each RTO of idle time, down to
    /// the initial window, and the slow start threshold is at least three quarters of the old window (RFC 2861; Linux
    /// `tcp_cwnd_restart`).
    pub fn restart(&mut self, now: Time, idle: Span, rto: Span) {
        if self.is_fixed() || self.is_rate_based() {
            return;
        }
        dispatch!(&mut self.algorithm, one => one.on_tx_start(now, idle));
        if idle > rto {
            self.cwnd.restart(idle, rto);
        }
    }

    /// See [`CongestionControl::init`].
    pub fn init(&mut self, flow: &mut Flow, min_rtt: Option<u64>) {
        dispatch!(&mut self.algorithm, one => one.init(flow, min_rtt));
        self.set_window(flow.cwnd);
    }

    /// See [`CongestionControl::cong_control`].
    #[inline(always)]
    pub fn cong_control(&mut self, flow: &mut Flow, losses: &[Loss], sample: &RateSample) {
        dispatch!(&mut self.algorithm, one => one.cong_control(flow, losses, sample));
        self.cwnd.set_whole(flow.cwnd.max(1));
    }

    /// See [`CongestionControl::flow_event`].
    pub fn flow_event(&mut self, flow: &mut Flow, event: FlowEvent<'_>) {
        dispatch!(&mut self.algorithm, one => one.flow_event(flow, event));
        self.set_window(flow.cwnd);
    }

    #[cfg(test)]
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    #[cfg(test)]
    pub fn algorithm_mut(&mut self) -> &mut Algorithm {
        &mut self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn each_algorithm_is_found_by_its_name_and_has_its_own_state() {
        for &cc in Cc::ALL {
            assert_eq!(Cc::from_name(cc.name()), Some(cc));
            assert_eq!((cc.to_string(), cc.linux_name().is_some()), (cc.name().into(), cc.ops().in_linux));
            let control = Control::new(&Config { cc, ecn: true, ..Config::default() });
            assert_eq!(control.is_rate_based(), cc.is_rate_based(), "{cc}");
        }
        assert_eq!((Cc::from_name("fixed"), Cc::Fixed(25).to_string().as_str()), (None, "fixed 25"));
    }

    /// The kernel world selects these algorithms by name.
    #[test]
    fn linux_has_reno_cubic_bbr_vegas_and_dctcp() {
        let names: alloc::vec::Vec<_> = Cc::ALL.iter().filter_map(|cc| cc.linux_name()).collect();
        assert_eq!(names, ["reno", "cubic", "bbr", "vegas", "dctcp"]);
        assert_eq!(Cc::Linux("bic").linux_name(), Some("bic"));
    }
}
