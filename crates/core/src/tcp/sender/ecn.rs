//! ECN at the sender: which segments are ECN-capable, and the marks that ACKs report.

use crate::tcp::cc::EcnUse;
use crate::tcp::receiver::FIRST_CEP;
use crate::tcp::{Ack, Config};

/// Which segments are sent ECN-capable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Capable {
    /// None: ECN is off, or the handshake has shown that the peer does not know it.
    Nothing,
    /// New data (RFC 3168 §6.1.5).
    Data,
    /// All, SYNs and retransmissions too: the congestion control needs ECN (RFC 8257 §3.5).
    Everything,
}

/// The ECN state of one sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ecn {
    capable: Capable,
    /// With accurate ECN: the peer's counter of CE marks, modulo 8, as the last ACK gave it (RFC 9768).
    cep: Option<u8>,
    /// The next new segment carries CWR: the window was reduced (Linux `TCP_ECN_QUEUE_CWR`).
    pub queue_cwr: bool,
}

impl Ecn {
    pub fn new(config: &Config) -> Ecn {
        let capable = match config.ecn {
            false => Capable::Nothing,
            true if config.cc.needs_ecn() => Capable::Everything,
            true => Capable::Data,
        };
        let is_accurate = config.ecn && config.cc.ops().ecn == EcnUse::L4s;
        Ecn { capable, cep: is_accurate.then_some(FIRST_CEP), queue_cwr: false }
    }

    /// Returns whether ECN is used: it is on, and the handshake has not shown that the peer lacks it.
    pub fn is_on(&self) -> bool {
        self.capable != Capable::Nothing
    }

    /// The handshake has shown that ECN can't be used.
    pub fn forgo(&mut self) {
        self.capable = Capable::Nothing;
    }

    /// Returns whether SYNs and retransmissions are ECN-capable.
    pub fn covers_all(&self) -> bool {
        self.capable == Capable::Everything
    }

    /// Returns whether a new segment with `payload` bytes is ECN-capable. Linux `tcp_ecn_send`: without payload it is
    /// not.
    #[inline]
    pub fn covers_data(&self, payload: u32) -> bool {
        self.is_on() && (payload > 0 || self.covers_all())
    }

    /// Returns whether the peer counts its marks (accurate ECN, RFC 9768).
    pub fn is_accurate(&self) -> bool {
        self.cep.is_some()
    }

    /// The window was reduced: the next new segment carries CWR.
    pub fn announce_reduction(&mut self) {
        self.queue_cwr = self.is_on();
    }

    /// The reduction was undone: no segment carries CWR because of it.
    pub fn withdraw_cwr(&mut self) {
        self.queue_cwr = false;
    }

    /// The number of `delivered` segments of this ACK that were marked. `snd_una` is the lowest segment not acknowledged.
    pub fn count_marks(&mut self, ack: &Ack, delivered: u32, snd_una: u32) -> u32 {
        let Some(cep) = &mut self.cep else { return if self.is_on() && ack.ece() { delivered } else { 0 } };
        // RFC 9768 §3.2.2.5: an ACK that shows nothing new may be an old one. The next ACK carries its count too.
        if delivered == 0 || ack.cum < snd_una {
            return 0;
        }
        let by = u32::from(ack.ace.wrapping_sub(*cep) & 7);
        *cep = ack.ace & 7;
        // The counter wraps only if ACKs were lost: the receiver acknowledges every second mark.
        by.min(delivered)
    }

    /// Returns whether this ACK carries an echo that asks for a reduction (RFC 3168).
    pub fn is_echo(&self, ack: &Ack) -> bool {
        !self.is_accurate() && self.is_on() && ack.ece()
    }
}
