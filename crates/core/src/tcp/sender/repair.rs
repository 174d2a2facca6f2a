//! The sender off the clean path, whatever finds its losses.

use super::{Rexmit, Sender, State};
use crate::tcp::{Ack, Acked, Block, Transmit};
use crate::units::Time;

impl Sender {
    #[inline(never)]
    pub(super) fn on_ack_slow(&mut self, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        if ack.syn {
            return self.on_handshake(now, ack);
        }
        if !self.is_established() || ack.cum > self.snd_nxt {
            return Acked::default();
        }
        if !self.linux {
            return self.on_ack_rfc6675(now, ack, blocks);
        }
        self.on_sacked_above(now, ack, blocks).unwrap_or_else(|| self.on_ack_linux(now, ack, blocks))
    }

    /// How many of the segments that this ACK shows to be delivered were marked.
    pub(super) fn count_marks(&mut self, ack: &Ack, delivered: u32) -> u32 {
        let Some(cep) = &mut self.cep else { return if self.ecn && ack.ece() { delivered } else { 0 } };
        // RFC 9768 §3.2.2.5: what shows nothing new may be older than what was seen. Its count comes with the next.
        if delivered == 0 || ack.cum < self.snd_una {
            return 0;
        }
        let by = u32::from(ack.ace.wrapping_sub(*cep) & 7);
        *cep = ack.ace & 7;
        // The counter goes round only if ACKs were lost: the receiver acknowledges every second mark.
        by.min(delivered)
    }

    /// Whether this ACK asks for a reduction, as RFC 3168's do.
    pub(super) fn is_echo(&self, ack: &Ack) -> bool {
        self.cep.is_none() && self.ecn && ack.ece()
    }

    #[inline(never)]
    pub(super) fn poll_slow(&mut self, now: Time) -> Option<Transmit> {
        if self.syn_due {
            return Some(self.send_syn(now));
        }
        if !self.is_established() {
            return None;
        }
        if self.probe_due {
            let probe = self.send_loss_probe(now);
            if probe.is_some() {
                return probe;
            }
        }
        self.settle_new();
        if self.inflight() >= self.control.window() {
            return None;
        }
        if !self.has_more() {
            self.rest();
            return None;
        }
        if !self.host_admits(now) {
            return None;
        }
        if self.rexmit == Rexmit::First {
            // Linux `tcp_retransmit_timer`: no pace holds it back.
            self.tx_start_event(now);
            let first = self.poll_repair(now)?;
            self.on_unpaced_send(now, &first);
            return Some(first);
        }
        if self.rate_based.is_some() {
            return self.poll_paced(now);
        }
        self.poll_repair(now)
    }

    /// The next segment, whatever the pace.
    pub(super) fn poll_repair(&mut self, now: Time) -> Option<Transmit> {
        if self.linux { self.poll_linux(now) } else { self.poll_rfc6675(now) }
    }

    /// Whether there is new data that the receiver can take.
    pub(super) fn has_new_data(&self) -> bool {
        self.snd_nxt < self.stream.end && self.snd_nxt < self.wnd_end
    }

    /// New data, of which there is some, where the window has room; but it may wait to become a burst.
    pub(super) fn send_new_data(&mut self, now: Time) -> Option<Transmit> {
        if self.bursts.is_on() && matches!(self.state, State::Open | State::Cwr) {
            let room = self.control.window() - self.inflight();
            if !self.bursts_allow(now, room.min(self.wnd_end - self.snd_nxt)) {
                return None;
            }
        }
        if !self.board.is_clean() {
            self.board.reserve(self.snd_una, self.snd_nxt + 1);
        }
        self.prr.on_send(1);
        Some(self.send_new(now))
    }

    fn send_syn(&mut self, now: Time) -> Transmit {
        self.syn_due = false;
        self.lsndtime = now;
        self.arm(self.timer, now, now + self.rto.timeout());
        let retransmit = self.timeouts > 0;
        Transmit { seq: 0, payload: 0, retransmit, syn: true, ect: self.ecn_always, cwr: false, push: false }
    }

    pub(super) fn send_again(&mut self, now: Time, seq: u32, rescue: bool) -> Transmit {
        self.board.on_retransmit(seq, self.snd_nxt, rescue);
        self.prr.on_send(1);
        self.total_retrans += 1;
        self.lsndtime = now;
        if self.linux {
            let mut at = now;
            if self.rexmit == Rexmit::First {
                self.rexmit = Rexmit::Lost;
                at = self.turn(now);
            }
            self.sent.on_send(seq..seq + 1, self.snd_una, at);
            self.note_retransmission(at);
        }
        if self.rate_based.is_none() {
            self.arm_departed(now, seq, true);
        }
        let payload = self.stream.payload(seq);
        let push = self.stream.is_last(seq, payload);
        Transmit { seq, payload, retransmit: true, syn: false, ect: self.ecn_always, cwr: false, push }
    }
}
