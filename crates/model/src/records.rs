//! The columns of a run's per-packet records.

use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::DropReason;
use sojourn_core::units::Time;

/// The version of the columns and metadata of record files.
pub const FILE_VERSION: u32 = 1;

/// The fate of a packet at a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Transmitted.
    Delivered,
    /// Dropped by the discipline; with [`DropReason::Loss`], lost behind the link, in a second record of the packet.
    Dropped(DropReason),
}

/// The kind of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Kind {
    /// TCP payload, first transmission.
    #[default]
    Data,
    /// TCP payload, retransmitted.
    Retransmit,
    /// A pure ACK.
    Ack,
    /// SYN or SYN-ACK.
    Syn,
    /// An echo request or reply.
    Ping,
    /// A datagram of a stream.
    Datagram,
}

/// One packet at one hop. Records are in the order in which fates were decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketRecord {
    /// The link's index: hop · 2, plus 1 for the leftward one.
    pub link: u16,
    /// Index of the row of the result's `flows` to which the packet belongs. While a run is evaluated, it is the index of the
    /// workload's entry.
    pub entry: u32,
    /// Number of the connection within the run. Connections that follow each other may have the same number.
    pub connection: u32,
    /// Segment number within the connection; for a pure ACK, the next expected segment.
    pub seq: u32,
    /// Length in bytes, as the link counts it.
    pub bytes: u32,
    /// The kind of the packet.
    pub kind: Kind,
    /// ECN field on arrival at the queue.
    pub ecn_in: Ecn,
    /// ECN field on departure.
    pub ecn_out: Ecn,
    /// Arrival at the queue.
    pub arrival: Time,
    /// Start of transmission, or the time of the drop.
    pub start: Time,
    /// End of transmission, or the time of the drop.
    pub end: Time,
    /// Delivered, or dropped with a reason.
    pub fate: Fate,
}

impl PacketRecord {
    /// Whether the packet was lost behind its link. A record of its own says that the link has sent it.
    pub fn is_loss(&self) -> bool {
        self.fate == Fate::Dropped(DropReason::Loss)
    }
}
