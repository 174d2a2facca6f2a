//! The interface that a discipline sees of a packet. The simulator's small packet, a real frame and a line of a trace
//! implement it.

use crate::units::Time;

/// The ECN field of the IP header (RFC 3168 §5), with its values on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECT(1): L4S (RFC 9331).
    Ect1 = 1,
    /// ECT(0): classic ECN.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Reads the ECN field from the two lowest bits; the other bits are ignored.
    #[inline]
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Returns whether a mark can replace a drop (also true if the packet is marked already).
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

/// The fields of a TCP segment that an ACK filter reads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Segment {
    /// A number that identifies one direction of a connection.
    pub stream: u64,
    /// The acknowledgement number, which is the next sequence number that the receiver expects. It is valid only if
    /// [`Segment::acks`].
    pub ack: u32,
    /// Whether the ACK flag is set.
    pub acks: bool,
    /// Whether the SYN flag is set.
    pub syn: bool,
    /// The segment is a pure ACK: it has no data, no other flags than ECE and CWR, and no other options than SACK,
    /// timestamps and MD5.
    pub pure: bool,
    /// The flags by which TCP echoes ECN marks: ECE and CWR, or the ACE field of AccECN.
    pub echo: u8,
    /// TSval and TSecr (RFC 7323).
    pub stamps: Option<(u32, u32)>,
    /// SACK blocks (RFC 2018): the first sequence number of each block and the number after its last. Only the first
    /// `sack_count` are valid.
    pub sacks: [(u32, u32); 4],
    /// The number of valid SACK blocks.
    pub sack_count: u8,
}

impl Segment {
    /// The valid SACK blocks.
    pub fn blocks(&self) -> &[(u32, u32)] {
        &self.sacks[..usize::from(self.sack_count).min(self.sacks.len())]
    }
}

/// A packet as a queue discipline sees it.
pub trait Packet {
    /// Length in bytes as the link and the discipline count it (IP length plus the hop's overhead).
    fn bytes(&self) -> u32;
    /// The 32-bit flow hash (`skb->hash`): equal for the packets of a flow.
    fn flow_hash(&self) -> u32;
    /// The ECN field.
    fn ecn(&self) -> Ecn;
    /// Writes the ECN field.
    fn set_ecn(&mut self, ecn: Ecn);
    /// The differentiated services code point, six bits; 0 is best effort.
    fn dscp(&self) -> u8 {
        0
    }
    /// Writes the differentiated services code point, if the packet has a place for it.
    fn set_dscp(&mut self, _dscp: u8) {}
    /// The source and destination host, as numbers that identify hosts. Only cake uses them. For packets without
    /// addresses, each flow is a source of its own, and all flows have one destination.
    fn hosts(&self) -> (u32, u32) {
        (self.flow_hash(), 0)
    }
    /// The TCP segment that it carries, if it is known. (Only cake asks for it, if it filters ACKs.)
    fn segment(&self) -> Option<Segment> {
        None
    }
    /// When the packet entered the discipline.
    fn enqueue_time(&self) -> Time;
    /// Stamps the packet; every discipline does this on arrival.
    fn set_enqueue_time(&mut self, now: Time);

    /// Returns true for a SYN or SYN-ACK. Only ccaq reads it.
    #[inline]
    fn opens(&self) -> bool {
        false
    }

    /// Tries to duplicate the packet and returns whether that is possible. (Only impairments duplicate packets.)
    fn doubles(&mut self) -> bool {
        true
    }

    /// Sets CE if the packet is ECN-capable. Returns whether it carries CE now (`INET_ECN_set_ce`).
    #[inline]
    fn mark(&mut self) -> bool {
        let capable = self.ecn().is_capable();
        if capable {
            self.set_ecn(Ecn::Ce);
        }
        capable
    }
}
