//! What the guest's probe wrote: records of 64 bytes, little-endian, as kernel/guest/sojourn_link.c has them.

use std::net::Ipv4Addr;

/// Bytes of a record.
const SIZE: usize = 64;
/// Types of records, in their first byte.
const PACKET: u8 = 0;
const ACKED: u8 = 1;
const RETRANSMITTED: u8 = 2;
const RING: u8 = 3;
const PAUSED: u8 = 4;

/// The reason of an ACK that cake's filter took out of a queue; the kernel has no number for it.
pub const ACK_FILTERED: u16 = u16::MAX;

/// What became of a packet at a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was sent.
    Delivered,
    /// It was freed; the number is the kernel's `qdisc_drop_reason`, 0 if it gave none, or [`ACK_FILTERED`].
    Dropped(u16),
    /// It waited when the probe ended.
    Queued,
}

/// A packet at a link; times in nanoseconds of the guest's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The link's number in the scenario.
    pub link: u16,
    /// Its fate.
    pub fate: Fate,
    /// ECN field on arrival.
    pub ecn_in: u8,
    /// ECN field on departure.
    pub ecn_out: u8,
    /// TCP's flags.
    pub flags: u8,
    /// As the link counts them.
    pub bytes: u32,
    /// Bytes above the transport's header.
    pub payload: u32,
    /// Sender and receiver.
    pub hosts: [Ipv4Addr; 2],
    /// Their ports; an echo's identifier twice.
    pub ports: [u16; 2],
    /// The IP protocol.
    pub protocol: u8,
    /// TCP's sequence number, an echo's number.
    pub seq: u32,
    /// TCP's acknowledgement.
    pub ack: u32,
    /// Given to the discipline.
    pub arrival: u64,
    /// Start of transmission, or the drop.
    pub start: u64,
    /// End of transmission, or the drop.
    pub end: u64,
}

/// A sender's socket when something of TCP happened there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket {
    /// Own and other host.
    pub hosts: [Ipv4Addr; 2],
    /// Own and other port.
    pub ports: [u16; 2],
    /// Nanoseconds of the guest's clock.
    pub at: u64,
}

/// A transmit ring after something came to it or left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// The link's number in the scenario.
    pub link: u16,
    /// Whether an interrupt served what was sent; otherwise a packet came from the discipline.
    pub completed: bool,
    /// Bytes that came or left, as byte queue limits count them: with the Ethernet header.
    pub bytes: u32,
    /// Descriptors in use.
    pub packets: u32,
    /// The limit of dynamic_queue_limits in bytes; 0 without it.
    pub limit: u32,
    /// Bytes that it counts below its limit; 0 without it.
    pub inflight: u32,
    /// Nanoseconds of the guest's clock.
    pub at: u64,
    /// Ticks of the guest.
    pub jiffies: u64,
}

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// A packet's way through a link.
    Packet(Packet),
    /// An ACK of something new came.
    Acked {
        /// Where.
        socket: Socket,
        /// Payload acknowledged.
        payload: u32,
        /// The RTT of the segment delivered last before, in microseconds; 0 before the first.
        rtt_us: u32,
        /// Smoothed RTT in microseconds.
        srtt_us: u32,
        /// Congestion window in segments.
        cwnd: u32,
        /// Segments in flight.
        inflight: u32,
    },
    /// Segments were sent again, as one packet.
    Retransmitted {
        /// Where.
        socket: Socket,
        /// The first's sequence number.
        seq: u32,
        /// The sequence numbers that they take: bytes, and one of a FIN.
        payload: u32,
    },
    /// A transmit ring changed.
    Ring(Ring),
    /// A pause frame came to a link.
    Paused {
        /// The link's number in the scenario.
        link: u16,
        /// Whether it said stop, or go on.
        stop: bool,
        /// Nanoseconds of the guest's clock.
        at: u64,
    },
}

/// The records of a file, read where they stand.
#[derive(Clone, Copy)]
pub struct Records<'a>(&'a [[u8; SIZE]]);

impl<'a> Records<'a> {
    /// The file's bytes.
    ///
    /// # Errors
    /// The file is cut or has a type of record that nobody knows.
    pub fn new(bytes: &'a [u8]) -> Result<Records<'a>, String> {
        let (records, rest) = bytes.as_chunks();
        if !rest.is_empty() {
            return Err(format!("the probe's file is cut: {} bytes", bytes.len()));
        }
        match records.iter().find(|record| record[0] > PAUSED) {
            Some(record) => Err(format!("the probe's file has a record of type {}", record[0])),
            None => Ok(Records(records)),
        }
    }

    /// The number of records.
    pub fn count(self) -> usize {
        self.0.len()
    }

    /// The record at this place of the file.
    pub fn get(self, index: u32) -> Record {
        record(&self.0[index as usize])
    }

    /// Has the record at this place fetched into the caches, as it is read soon.
    pub fn prefetch(self, index: u32) {
        prefetch_index::prefetch_index(self.0, index as usize);
    }

    /// All of them, in the order of the file.
    pub fn iter(self) -> impl Iterator<Item = Record> {
        self.0.iter().map(record)
    }
}

#[inline]
fn record(bytes: &[u8; SIZE]) -> Record {
    let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    let hosts = [Ipv4Addr::from(u32_at(16)), Ipv4Addr::from(u32_at(20))];
    let ports = [u16_at(24), u16_at(26)];
    let (seq, ack, arrival) = (u32_at(32), u32_at(36), u64_at(40));
    let socket = Socket { hosts, ports, at: arrival };
    match bytes[0] {
        PACKET => Record::Packet(Packet {
            link: u16_at(4),
            fate: match bytes[1] {
                0 => Fate::Delivered,
                1 => Fate::Dropped(u16_at(6)),
                _ => Fate::Queued,
            },
            ecn_in: bytes[2] & 3,
            ecn_out: bytes[2] >> 2 & 3,
            flags: bytes[3],
            bytes: u32_at(8),
            payload: u32_at(12),
            hosts,
            ports,
            protocol: bytes[28],
            seq,
            ack,
            arrival,
            start: u64_at(48),
            end: u64_at(56),
        }),
        ACKED => Record::Acked {
            socket,
            payload: u32_at(12),
            rtt_us: u32_at(8),
            srtt_us: ack,
            cwnd: seq,
            inflight: u32_at(48),
        },
        RETRANSMITTED => Record::Retransmitted { socket, seq, payload: u32_at(12) },
        RING => Record::Ring(Ring {
            link: u16_at(4),
            completed: bytes[1] != 0,
            bytes: u32_at(8),
            packets: u32_at(12),
            limit: seq,
            inflight: ack,
            at: arrival,
            jiffies: u64_at(48),
        }),
        PAUSED => Record::Paused { link: u16_at(4), stop: bytes[1] != 0, at: arrival },
        _ => unreachable!("`Records::new` has looked at all types"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_the_module_lays_it_out() {
        let mut bytes = [0; 64];
        (bytes[1], bytes[2], bytes[3]) = (1, 0b1110, 0x18);
        bytes[4..8].copy_from_slice(&[3, 0, 2, 0]);
        bytes[8..12].copy_from_slice(&1514u32.to_le_bytes());
        bytes[16..20].copy_from_slice(&u32::from(Ipv4Addr::new(10, 1, 0, 1)).to_le_bytes());
        bytes[24..26].copy_from_slice(&10_000u16.to_le_bytes());
        bytes[28] = 6;
        bytes[40..48].copy_from_slice(&(5u64 << 32).to_le_bytes());
        let Record::Packet(packet) = Records::new(&bytes).expect("a record").get(0) else { panic!("a packet") };
        assert_eq!((packet.link, packet.fate, packet.ecn_in, packet.ecn_out), (3, Fate::Dropped(2), 2, 3));
        assert_eq!((packet.hosts[0].to_string().as_str(), packet.ports[0]), ("10.1.0.1", 10_000));
        assert_eq!((packet.bytes, packet.protocol, packet.arrival), (1514, 6, 5 << 32));
        bytes[0] = 4;
        let found: Vec<Record> = Records::new(&bytes).expect("a record").iter().collect();
        assert_eq!(found, [Record::Paused { link: 3, stop: true, at: 5 << 32 }]);
    }

    #[test]
    fn a_file_that_the_module_did_not_write_is_refused() {
        let mut bytes = [0; 128];
        assert_eq!(Records::new(&bytes).map(Records::count), Ok(2));
        assert!(Records::new(&bytes[..100]).is_err_and(|why| why.contains("cut: 100 bytes")));
        bytes[64] = 5;
        assert!(Records::new(&bytes).is_err_and(|why| why.contains("a record of type 5")));
    }
}
