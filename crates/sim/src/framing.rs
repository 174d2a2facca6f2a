//! The length of a packet on a link.

use sojourn_core::qdisc::LinkLayer;

/// How a link frames packets.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    /// Bytes per packet in addition to the IP length.
    overhead: u16,
    linklayer: LinkLayer,
}

impl Framing {
    /// The framing of a link.
    pub fn new(overhead: u16, linklayer: LinkLayer) -> Framing {
        Framing { overhead, linklayer }
    }

    /// Returns the bytes that the link sends for a packet of `ip` bytes.
    #[inline(always)]
    pub fn wire_bytes(self, ip: u16) -> u16 {
        let bytes = ip + self.overhead;
        if self.linklayer == LinkLayer::Ethernet { bytes } else { self.linklayer.bytes(u64::from(bytes)) as u16 }
    }
}
