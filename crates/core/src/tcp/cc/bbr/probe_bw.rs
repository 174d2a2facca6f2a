//! PROBE_BW: eight phases of about the smallest RTT each. The first sends a quarter faster, to find more bandwidth; the
//! second a quarter slower, to drain the queue that this caused; the other six send at the estimated bandwidth.

use super::{Bbr, Mode, UNIT};
use crate::tcp::cc::flow::Flow;
use crate::tcp::rate::RateSample;

/// Phases of a cycle.
pub(super) const CYCLE_LEN: usize = 8;
/// `bbr_pacing_gain`.
const PACING_GAIN: [u64; CYCLE_LEN] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// `bbr_cycle_rand`: the first phase is drawn from this many, all but the slower one.
const CYCLE_RAND: u32 = 7;

/// The cycle of gains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProbeBw {
    /// The phase (`cycle_idx`).
    pub(super) idx: u8,
    /// When it began, in µs (`cycle_mstamp`).
    mstamp: u64,
}

impl ProbeBw {
    /// The phase after `idx` begins now.
    fn after(idx: u8, flow: &Flow) -> ProbeBw {
        ProbeBw { idx: (idx + 1) % CYCLE_LEN as u8, mstamp: flow.delivered_time }
    }
}

impl Bbr {
    /// `bbr_reset_probe_bw_mode`: begins at a phase drawn at random.
    pub(super) fn enter_probe_bw(&mut self, flow: &Flow) {
        let before = CYCLE_LEN as u8 - 1 - self.rng.next_u32_below(CYCLE_RAND) as u8;
        self.enter(Mode::ProbeBw(ProbeBw::after(before, flow)));
    }

    /// The pacing gain of the phase; while a policer's rate is believed there is no probing.
    pub(super) fn cycle_gain(&self, cycle: ProbeBw) -> u64 {
        if self.long_term.bw_in_use().is_some() { UNIT } else { PACING_GAIN[usize::from(cycle.idx)] }
    }

    /// `bbr_update_cycle_phase`.
    pub(super) fn update_cycle_phase(&mut self, flow: &Flow, sample: &RateSample) {
        if let Mode::ProbeBw(cycle) = self.mode
            && self.is_next_cycle_phase(cycle, flow, sample)
        {
            self.mode = Mode::ProbeBw(ProbeBw::after(cycle.idx, flow));
            // Each phase has a gain of its own.
            self.basis = None;
        }
    }

    /// `bbr_is_next_cycle_phase`.
    fn is_next_cycle_phase(&self, cycle: ProbeBw, flow: &Flow, sample: &RateSample) -> bool {
        let is_full_length = flow.delivered_time.saturating_sub(cycle.mstamp) > self.min_rtt;
        if self.pacing_gain == UNIT {
            return is_full_length;
        }
        let inflight = self.packets_in_net_at_edt(flow, sample.prior_in_flight);
        let bw = self.bw.get();
        if self.pacing_gain > UNIT {
            // The phase lasts until the extra data is in flight, unless segments are lost: a short buffer may not hold that
            // data.
            let fills = || inflight >= self.inflight(flow, bw, self.pacing_gain);
            return is_full_length && (sample.losses > 0 || fills());
        }
        // The slower phase ends early if the queue has drained.
        is_full_length || inflight <= self.inflight(flow, bw, UNIT)
    }
}
