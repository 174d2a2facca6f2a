//! What a discipline may ask of a packet. The simulator's small packet, a real frame and a line of a trace all answer.

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
    /// From the two bits of the IP header; the other bits are ignored.
    #[inline]
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Whether a mark can replace a drop (also true if the packet is marked already).
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
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
    /// When the packet entered the discipline.
    fn enqueue_time(&self) -> Time;
    /// Stamps the packet; every discipline does this on arrival.
    fn set_enqueue_time(&mut self, now: Time);

    /// Whether it opens a connection: a SYN or SYN-ACK. (Of disciplines, only ccaq asks.)
    #[inline]
    fn opens(&self) -> bool {
        false
    }

    /// Sets CE if the packet is ECN-capable; says whether it carries CE now (`INET_ECN_set_ce`).
    #[inline]
    fn mark(&mut self) -> bool {
        let capable = self.ecn().is_capable();
        if capable {
            self.set_ecn(Ecn::Ce);
        }
        capable
    }
}
