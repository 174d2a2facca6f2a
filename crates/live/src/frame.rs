//! The headers of an Ethernet frame: what a queue and the records know of a packet.
//!
//! This module is pure. IPv6 addresses are those of our hosts, whose last four bytes are the host's IPv4 address, so
//! that a host has the same number in both protocols.

use sojourn_core::packet::{Ecn, Segment};

/// Bytes of the Ethernet header.
pub const ETHERNET: usize = 14;
/// IP protocol numbers.
pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// TCP flags.
pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const ECE_CWR: u8 = 0xc0;

/// The facts in the headers of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Facts {
    /// Sender and receiver: the IPv4 address, or the last four bytes of the IPv6 address.
    pub hosts: [u32; 2],
    /// Ports of sender and receiver; for an echo its identifier twice. Zero in fragments except the first.
    pub ports: [u16; 2],
    /// IP protocol number; that of ICMP for ICMPv6 too.
    pub protocol: u8,
    /// TCP flags.
    pub flags: u8,
    /// DSCP and ECN field.
    pub tos: u8,
    /// The flow label of IPv6; none in IPv4.
    pub label: Option<u32>,
    /// Length of the IP packet in bytes.
    pub ip_bytes: u32,
    /// Payload of the transport protocol in bytes.
    pub payload: u32,
    /// TCP sequence number, sequence number of an echo, or the first four bytes of a datagram.
    pub seq: u32,
    /// TCP acknowledgement number.
    pub ack: u32,
}

impl Facts {
    /// The ECN field.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.tos)
    }

    /// The low 16 bits of the left host's address, by which the flows of a scenario are known. Left hosts have a second
    /// byte up to 100.
    pub fn left_host(&self) -> u16 {
        let [from, to] = self.hosts;
        (if from >> 16 & 0xff <= 100 { from } else { to }) as u16
    }

    /// Returns true for a SYN and for a SYN-ACK.
    pub fn opens(&self) -> bool {
        self.protocol == TCP && self.flags & SYN != 0
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Where the transport header of a frame begins.
struct Layers {
    /// Offset of the transport header in the frame.
    transport: usize,
    /// End of the IP packet in the frame.
    end: usize,
    protocol: u8,
    /// True for a fragment of an IP packet other than the first: it has no transport header.
    is_rest: bool,
    hosts: [u32; 2],
    tos: u8,
    label: Option<u32>,
}

fn layers(frame: &[u8]) -> Option<Layers> {
    let ip = frame.get(ETHERNET..).filter(|ip| ip.len() >= 20)?;
    match (u16_at(frame, 12)?, ip[0] >> 4) {
        (0x0800, 4) => {
            let (header, total) = (usize::from(ip[0] & 15) * 4, usize::from(u16_at(ip, 2)?));
            let offset = u16_at(ip, 6)? & 0x1fff;
            let sound = header >= 20 && total >= header && total <= ip.len();
            sound.then_some(Layers {
                transport: ETHERNET + header,
                end: ETHERNET + total,
                protocol: ip[9],
                is_rest: offset > 0,
                hosts: [u32_at(ip, 12)?, u32_at(ip, 16)?],
                tos: ip[1],
                label: None,
            })
        }
        (0x86dd, 6) => {
            let total = 40 + usize::from(u16_at(ip, 4)?);
            let layers = Layers {
                transport: ETHERNET + 40,
                end: ETHERNET + total,
                protocol: if ip[6] == ICMPV6 { ICMP } else { ip[6] },
                is_rest: false,
                hosts: [u32_at(ip, 20)?, u32_at(ip, 36)?],
                tos: (ip[0] << 4) | (ip[1] >> 4),
                label: Some(u32_at(ip, 0)? & 0xf_ffff),
            };
            (total <= ip.len()).then_some(layers)
        }
        _ => None,
    }
}

/// Reads the headers of a frame. Returns `None` if it has no complete IP packet, such as ARP.
pub fn read(frame: &[u8]) -> Option<Facts> {
    let Layers { transport, end, protocol, is_rest, hosts, tos, label } = layers(frame)?;
    let ip_bytes = (end - ETHERNET) as u32;
    let mut facts = Facts { hosts, protocol, tos, label, ip_bytes, ..Facts::default() };
    let body = &frame[transport.min(end)..end];
    facts.payload = body.len() as u32;
    if is_rest {
        return Some(facts);
    }
    match protocol {
        TCP => {
            facts.ports = [u16_at(body, 0)?, u16_at(body, 2)?];
            (facts.seq, facts.ack) = (u32_at(body, 4)?, u32_at(body, 8)?);
            facts.flags = *body.get(13)?;
            facts.payload = (body.len() as u32).checked_sub(u32::from(body[12] >> 4) * 4)?;
        }
        UDP => {
            facts.ports = [u16_at(body, 0)?, u16_at(body, 2)?];
            facts.payload = (body.len() as u32).checked_sub(8)?;
            facts.seq = u32_at(body, 8).unwrap_or(0);
        }
        ICMP => {
            facts.ports = [u16_at(body, 4)?; 2];
            facts.payload = (body.len() as u32).checked_sub(8)?;
            facts.seq = u32::from(u16_at(body, 6)?);
        }
        _ => {}
    }
    Some(facts)
}

/// Returns whether a frame is for all hosts of its cable, or for a group of them: the first bit of the destination.
pub fn is_to_many(frame: &[u8]) -> bool {
    frame.first().is_some_and(|byte| byte & 1 != 0)
}

/// Returns whether a frame with an IP packet has this DSCP and ECN field.
pub fn has_tos(frame: &[u8], tos: u8) -> bool {
    let ip = &frame[ETHERNET..];
    tos == if ip[0] >> 4 == 6 { (ip[0] << 4) | (ip[1] >> 4) } else { ip[1] }
}

/// Writes DSCP and ECN field of a frame with an IP packet, and corrects IPv4's checksum (RFC 1624 §3).
pub fn set_tos(frame: &mut [u8], tos: u8) {
    let ip = &mut frame[ETHERNET..];
    if ip[0] >> 4 == 6 {
        ip[0] = (ip[0] & 0xf0) | (tos >> 4);
        ip[1] = (ip[1] & 0x0f) | (tos << 4);
        return;
    }
    let word = |ip: &[u8]| u32::from(u16::from_be_bytes([ip[0], ip[1]]));
    let before = word(ip);
    ip[1] = tos;
    let checksum = u16::from_be_bytes([ip[10], ip[11]]);
    let mut sum = u32::from(!checksum) + (before ^ 0xffff) + word(ip);
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Reads the TCP segment of a frame, for an ACK filter.
pub fn segment(frame: &[u8]) -> Option<Segment> {
    let facts = read(frame).filter(|facts| facts.protocol == TCP)?;
    let Layers { transport, end, .. } = layers(frame)?;
    let header = usize::from(frame.get(transport + 12)? >> 4) * 4;
    let mut segment = Segment {
        stream: u64::from(facts.hosts[0] ^ facts.hosts[1].rotate_left(16)) << 32
            | u64::from(facts.ports[0]) << 16
            | u64::from(facts.ports[1]),
        ack: facts.ack,
        acks: facts.flags & ACK != 0,
        syn: facts.flags & SYN != 0,
        pure: facts.payload == 0 && facts.flags & !ECE_CWR == ACK,
        echo: facts.flags & ECE_CWR,
        ..Segment::default()
    };
    let mut options = frame.get(transport + 20..(transport + header).min(end))?;
    while let [kind, rest @ ..] = options {
        let length = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(*rest.first()?).max(2),
        };
        let option = options.get(..length)?;
        match kind {
            0 | 1 | 19 => {}
            8 => segment.stamps = Some((u32_at(option, 2)?, u32_at(option, 6)?)),
            5 => {
                let blocks = option[2..].chunks_exact(8).take(segment.sacks.len());
                for (to, block) in segment.sacks.iter_mut().zip(blocks) {
                    *to = (u32_at(block, 0)?, u32_at(block, 4)?);
                    segment.sack_count += 1;
                }
            }
            _ => segment.pure = false,
        }
        options = &options[length..];
    }
    Some(segment)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn checksum(header: &[u8]) -> u16 {
        let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !(((folded & 0xffff) + (folded >> 16)) as u16)
    }

    /// An IPv4 frame with a TCP segment.
    pub fn tcp(hosts: [u32; 2], ports: [u16; 2], seq: u32, ack: u32, flags: u8, payload: usize, tos: u8) -> Vec<u8> {
        let total = 20 + 20 + payload;
        let mut frame = vec![0; ETHERNET + total];
        frame[12..14].copy_from_slice(&[8, 0]);
        let ip = &mut frame[ETHERNET..];
        (ip[0], ip[1], ip[8], ip[9]) = (0x45, tos, 64, TCP);
        ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        ip[12..16].copy_from_slice(&hosts[0].to_be_bytes());
        ip[16..20].copy_from_slice(&hosts[1].to_be_bytes());
        let sum = checksum(&ip[..20]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let tcp = &mut ip[20..];
        tcp[0..2].copy_from_slice(&ports[0].to_be_bytes());
        tcp[2..4].copy_from_slice(&ports[1].to_be_bytes());
        tcp[4..8].copy_from_slice(&seq.to_be_bytes());
        tcp[8..12].copy_from_slice(&ack.to_be_bytes());
        (tcp[12], tcp[13]) = (5 << 4, flags);
        frame
    }

    #[test]
    fn a_segments_facts_are_those_of_its_headers() {
        let frame = tcp([0x0a01_0001, 0x0a65_0001], [10_000, 5001], 7, 9, SYN | ACK, 100, 2);
        let facts = read(&frame).expect("a packet");
        assert_eq!((facts.hosts, facts.ports, facts.protocol), ([0x0a01_0001, 0x0a65_0001], [10_000, 5001], TCP));
        assert_eq!((facts.seq, facts.ack, facts.payload, facts.ip_bytes, facts.label), (7, 9, 100, 140, None));
        assert!(facts.opens());
        assert_eq!(facts.ecn(), Ecn::Ect0);
        assert_eq!(read(&frame[..frame.len() - 1]), None, "the packet is cut");
    }

    #[test]
    fn ipv6_has_the_ecn_field_and_the_host_at_other_places() {
        let mut frame = vec![0; ETHERNET + 40 + 20];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        let ip = &mut frame[ETHERNET..];
        (ip[0], ip[1], ip[2], ip[3], ip[5], ip[6]) = (0x60, 0x1a, 0xbc, 0xde, 20, TCP);
        ip[20..24].copy_from_slice(&[10, 1, 0, 1]);
        ip[40 + 12] = 5 << 4;
        let facts = read(&frame).expect("a packet");
        assert_eq!((facts.ecn(), facts.hosts[0], facts.label), (Ecn::Ect1, 0x0a01_0001, Some(0xa_bcde)));
        set_tos(&mut frame, 3);
        let facts = read(&frame).map(|facts| (facts.ecn(), facts.payload, facts.label));
        assert_eq!(facts, Some((Ecn::Ce, 0, Some(0xa_bcde))));
    }

    #[test]
    fn a_pure_ack_is_one_also_with_sack_blocks_and_time_stamps() {
        let mut frame = tcp([1, 2], [3, 4], 5, 6, ACK, 24, 0);
        let at = ETHERNET + 20;
        frame[at + 12] = 11 << 4;
        let options = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 5, 10, 0, 0, 0, 7, 0, 0, 0, 8];
        frame[at + 20..at + 44].copy_from_slice(&options);
        let found = segment(&frame).expect("a segment");
        assert!(found.pure);
        assert_eq!((found.stamps, found.blocks()), (Some((1, 2)), &[(7, 8)][..]));
        frame[at + 22] = 3;
        assert!(!segment(&frame).expect("a segment").pure, "an option that no ACK filter may drop");
    }

    proptest! {
        #[test]
        fn a_mark_leaves_a_correct_checksum(before: u8, hosts: [u32; 2], after: u8) {
            let mut frame = tcp(hosts, [1, 2], 3, 4, ACK, 0, before);
            set_tos(&mut frame, after);
            prop_assert_eq!(checksum(&frame[ETHERNET..ETHERNET + 20]), 0);
            prop_assert_eq!(read(&frame).map(|facts| facts.tos), Some(after));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0u8..3) {
            let mut frame = bytes;
            if frame.len() > 15 {
                let types = [[8, 0, 0x45], [0x86, 0xdd, 0x60], [8, 6, 0]];
                frame[12..15].copy_from_slice(&types[usize::from(kind)]);
            }
            let _ = (read(&frame), segment(&frame));
        }
    }
}
