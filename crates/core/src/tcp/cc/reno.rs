//! NewReno's window (RFC 5681 §3.1, with byte counting as RFC 3465 §2.1).

use super::cwnd::Cwnd;
use super::hystart_plus::HyStartPlus;
use super::ops::{AckSample, Congestion, CongestionControl, Ops, Reduction};
use super::setup::{HyStart, Setup};
use alloc::boxed::Box;

/// Reno has no state of its own, but HyStart++ may end its first slow start.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) struct Reno {
    hystart_plus: Option<Box<HyStartPlus>>,
}

impl CongestionControl for Reno {
    const OPS: Ops = Ops { in_linux: true, ..Ops::named("reno") };

    fn new(setup: &Setup) -> Reno {
        Reno { hystart_plus: (setup.hystart == HyStart::Plus).then(|| Box::new(HyStartPlus::new())) }
    }

    #[inline]
    fn pkts_acked(&mut self, cwnd: &mut Cwnd, ack: &AckSample) {
        if let Some(plus) = &mut self.hystart_plus {
            plus.pkts_acked(cwnd, ack);
        }
    }

    #[inline]
    fn cong_avoid(&mut self, cwnd: &mut Cwnd, acked: u32, _: &AckSample) {
        match &self.hystart_plus {
            None => cwnd.reno_cong_avoid(acked),
            Some(plus) => {
                if let Some(acked) = plus.slow_start(cwnd, acked) {
                    cwnd.set(cwnd.get() + acked / cwnd.get());
                }
            }
        }
    }

    fn ssthresh(&mut self, cwnd: &Cwnd, event: &Congestion) -> Reduction {
        Reduction { from: event.flight, ssthresh: cwnd.floor(ssthresh(event.flight)) }
    }
}

/// RFC 5681 equation 4: half of `flight` segments, at least two.
pub(super) fn ssthresh(flight: f64) -> f64 {
    (flight * 0.5).max(2.0)
}
