//! The congestion controls that set window and pace themselves, behind one door.

use super::bbr::Bbr;
use super::bbr3::Bbr3;
use super::flow::Flow;
use super::prague::Prague;
use crate::rng::Rng;
use crate::tcp::Cc;
use crate::tcp::rate::{Loss, RateSample};

/// One of them, with its state.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tcp) enum Model {
    Bbr(Bbr),
    Bbr3(Bbr3),
    Prague(Prague),
}

impl Model {
    /// That of a connection just established, if `cc` has one. Sets the pacing rate of its first flight.
    pub fn new(cc: Cc, flow: &mut Flow, min_rtt: Option<u64>, rng: Rng) -> Option<Model> {
        match cc {
            Cc::Bbr => Some(Model::Bbr(Bbr::new(flow, min_rtt, rng))),
            Cc::Bbr3 => Some(Model::Bbr3(Bbr3::new(flow, min_rtt, rng))),
            Cc::Prague => Some(Model::Prague(Prague::new(flow))),
            Cc::Reno | Cc::Cubic | Cc::Ledbat | Cc::Vegas | Cc::Dctcp | Cc::Fixed(_) | Cc::Linux(_) => None,
        }
    }

    /// An ACK, with the losses that it showed and its sample.
    #[inline(always)]
    pub fn on_ack(&mut self, flow: &mut Flow, losses: &[Loss], sample: &RateSample) {
        match self {
            Model::Bbr(bbr) => bbr.on_ack(flow, sample),
            // Copies: what is handed on by reference only here may stay in registers above.
            _ => *flow = self.on_ack_by_others(*flow, losses, &RateSample { ..*sample }),
        }
    }

    #[inline(never)]
    fn on_ack_by_others(&mut self, mut flow: Flow, losses: &[Loss], sample: &RateSample) -> Flow {
        match self {
            Model::Bbr(_) => {}
            Model::Bbr3(bbr) => {
                losses.iter().for_each(|loss| bbr.on_loss(&flow, loss));
                bbr.on_ack(&mut flow, sample);
            }
            Model::Prague(prague) => prague.on_ack(&mut flow, sample),
        }
        flow
    }

    /// Where others reduce their window: because of losses, or of the first ECN echo of a window.
    pub fn on_reduction(&mut self, flow: &mut Flow, by_echo: bool) {
        match self {
            Model::Bbr(bbr) => bbr.on_reduction(flow),
            Model::Bbr3(bbr) => bbr.on_reduction(flow, by_echo),
            // What marks do it sees with each ACK.
            Model::Prague(prague) => prague.on_losses(flow),
        }
    }

    /// A retransmission timeout has taken all in flight for lost; `before` was the window.
    pub fn on_timeout(&mut self, flow: &mut Flow, before: u32, losses: &[Loss]) {
        match self {
            Model::Bbr(bbr) => bbr.on_timeout(flow),
            Model::Bbr3(bbr) => {
                bbr.on_timeout(before);
                losses.iter().for_each(|loss| bbr.on_loss(flow, loss));
            }
            Model::Prague(prague) => prague.on_timeout(flow),
        }
    }

    /// It had not been lost.
    pub fn on_undo(&mut self, flow: &mut Flow) {
        match self {
            Model::Bbr(bbr) => bbr.on_undo(flow),
            Model::Bbr3(bbr) => bbr.on_undo(flow),
            Model::Prague(prague) => prague.on_undo(flow),
        }
    }

    /// Data is sent, with nothing in flight.
    pub fn on_restart(&mut self, flow: &mut Flow) {
        match self {
            Model::Bbr(bbr) => bbr.on_restart(flow),
            Model::Bbr3(bbr) => bbr.on_restart(flow),
            Model::Prague(_) => {}
        }
    }
}
