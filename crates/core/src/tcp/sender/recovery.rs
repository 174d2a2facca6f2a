//! Selects one of the two loss recoveries of a connection: that of current Linux, or that of RFC 6675.

use super::linux::LinuxRecovery;
use super::rfc6675::Rfc6675;
use super::tcp_sock::TcpSock;
use crate::tcp::{Ack, Acked, Block, Config, Recovery, Transmit};
use crate::units::Time;

/// The state of one connection's loss recovery.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LossRecovery {
    /// As in current Linux: RACK-TLP, F-RTO, undo.
    Linux(LinuxRecovery),
    /// As in RFC 6675: a segment is lost when three segments above it are SACKed.
    Rfc6675(Rfc6675),
}

impl LossRecovery {
    pub fn new(config: &Config) -> LossRecovery {
        match config.recovery {
            Recovery::Rack => LossRecovery::Linux(LinuxRecovery::new()),
            Recovery::Rfc6675 => LossRecovery::Rfc6675(Rfc6675::new(config)),
        }
    }

    /// An ACK off the clean path, of a connection that is established.
    #[inline]
    pub fn on_ack(&mut self, tcp: &mut TcpSock, now: Time, ack: &Ack, blocks: &[Block]) -> Acked {
        match self {
            LossRecovery::Linux(linux) => match linux.on_sacked_above(tcp, now, ack, blocks) {
                Some(acked) => acked,
                None => linux.on_ack(tcp, now, ack, blocks),
            },
            LossRecovery::Rfc6675(rfc) => rfc.on_ack(tcp, now, ack, blocks),
        }
    }

    /// The timer expires.
    #[cold]
    pub fn on_timer(&mut self, tcp: &mut TcpSock, now: Time) {
        match self {
            LossRecovery::Linux(linux) => linux.on_timer(tcp, now),
            LossRecovery::Rfc6675(rfc) => rfc.on_timeout(tcp, now),
        }
    }

    /// The next segment, new or retransmitted, regardless of pacing. The window has room.
    pub fn next_segment(&mut self, tcp: &mut TcpSock, now: Time) -> Option<Transmit> {
        match self {
            LossRecovery::Linux(linux) => linux.next_segment(tcp, now),
            LossRecovery::Rfc6675(rfc) => rfc.next_segment(tcp, now),
        }
    }

    /// The loss probe that is due.
    pub fn send_loss_probe(&mut self, tcp: &mut TcpSock, now: Time) -> Option<Transmit> {
        match self {
            LossRecovery::Linux(linux) => linux.send_loss_probe(tcp, now),
            LossRecovery::Rfc6675(_) => None,
        }
    }

    /// Called before segments are sent: without new data, F-RTO retransmits lost segments instead.
    pub fn settle_new(&mut self, tcp: &mut TcpSock) {
        if let LossRecovery::Linux(linux) = self {
            linux.settle_new(tcp);
        }
    }

    /// Pacing or the host's bounds let the sender continue.
    pub fn tsq_write(&mut self, tcp: &mut TcpSock) {
        if let LossRecovery::Linux(linux) = self {
            linux.tsq_write(tcp);
        }
    }
}
