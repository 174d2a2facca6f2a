//! The records of a run's packets and senders: 64 bytes each, little-endian, in the layout of
//! kernel/guest/sojourn_link.h. The guest's probe writes them, and the world `live`.

use std::net::Ipv4Addr;

use sojourn_core::qdisc::DropReason;

/// Size of a record in bytes.
const SIZE: usize = 64;
/// Types of records, stored in the first byte.
const PACKET: u8 = 0;
const ACKED: u8 = 1;
const RETRANSMITTED: u8 = 2;
const RING: u8 = 3;
const PAUSED: u8 = 4;

/// Drop reason of an ACK that cake's filter removed. The kernel has no number for it.
pub const ACK_FILTERED: u16 = u16::MAX;
/// Drop reason of a packet that netem dropped behind its link.
pub const IMPAIRED: u16 = u16::MAX - 1;
/// The first number of our own drop reasons, which a discipline of ours gives: this number and that of the reason.
const OURS: u16 = 1 << 15;

/// The fate of a packet at a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The packet was sent.
    Delivered,
    /// The packet was freed. The number is the kernel's `qdisc_drop_reason`, 0 if it gave none, or [`ACK_FILTERED`],
    /// [`IMPAIRED`] or one of [`Fate::of`].
    Dropped(u16),
    /// The packet was still queued when the probe ended.
    Queued,
}

impl Fate {
    /// Returns the fate of a packet that a discipline of ours dropped for this reason.
    pub fn of(reason: DropReason) -> Fate {
        Fate::Dropped(OURS + reason as u16)
    }

    /// Returns the reason that [`Fate::of`] has written in a drop's number.
    pub fn reason(code: u16) -> Option<DropReason> {
        DropReason::ALL.get(usize::from(code.checked_sub(OURS)?)).copied()
    }
}

/// A packet at a link. Times are in nanoseconds on the guest's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The link's index in the scenario.
    pub link: u16,
    /// The fate of the packet.
    pub fate: Fate,
    /// ECN field on arrival.
    pub ecn_in: u8,
    /// ECN field on departure.
    pub ecn_out: u8,
    /// TCP flags.
    pub flags: u8,
    /// Length in bytes, as the link counts it.
    pub bytes: u32,
    /// Payload of the transport protocol, in bytes.
    pub payload: u32,
    /// Addresses of sender and receiver.
    pub hosts: [Ipv4Addr; 2],
    /// Ports of sender and receiver; for an echo, its identifier twice.
    pub ports: [u16; 2],
    /// IP protocol number.
    pub protocol: u8,
    /// TCP sequence number, or sequence number of an echo.
    pub seq: u32,
    /// TCP acknowledgement number.
    pub ack: u32,
    /// Time of the enqueue.
    pub arrival: u64,
    /// Start of transmission, or time of the drop.
    pub start: u64,
    /// End of transmission, or time of the drop.
    pub end: u64,
}

/// A sender's socket at the time of a TCP event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket {
    /// Local and remote address.
    pub hosts: [Ipv4Addr; 2],
    /// Local and remote port.
    pub ports: [u16; 2],
    /// Time in nanoseconds on the guest's clock.
    pub at: u64,
}

/// A transmit ring after a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// The link's index in the scenario.
    pub link: u16,
    /// Whether an interrupt completed packets; otherwise a packet was added from the discipline.
    pub completed: bool,
    /// Bytes added or completed. Like byte queue limits, this counts the Ethernet header.
    pub bytes: u32,
    /// Descriptors in use.
    pub packets: u32,
    /// The limit of dynamic_queue_limits in bytes; 0 without it.
    pub limit: u32,
    /// Bytes counted against the limit; 0 without dynamic_queue_limits.
    pub inflight: u32,
    /// Time in nanoseconds on the guest's clock.
    pub at: u64,
    /// The guest's jiffies.
    pub jiffies: u64,
}

/// One record of the probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// A packet passed a link.
    Packet(Packet),
    /// An ACK acknowledged new data.
    Acked {
        /// The sender's socket.
        socket: Socket,
        /// Payload that was acknowledged, in bytes.
        payload: u32,
        /// RTT of the most recently delivered segment in microseconds; 0 before the first.
        rtt_us: u32,
        /// Smoothed RTT in microseconds.
        srtt_us: u32,
        /// Congestion window in segments.
        cwnd: u32,
        /// Segments in flight.
        inflight: u32,
    },
    /// Segments were retransmitted, as one packet.
    Retransmitted {
        /// The sender's socket.
        socket: Socket,
        /// Sequence number of the first segment.
        seq: u32,
        /// Length in sequence numbers: bytes, plus one for a FIN.
        payload: u32,
    },
    /// A transmit ring changed.
    Ring(Ring),
    /// A link received a pause frame.
    Paused {
        /// The link's index in the scenario.
        link: u16,
        /// Whether the frame paused the link; otherwise it resumed it.
        stop: bool,
        /// Time in nanoseconds on the guest's clock.
        at: u64,
    },
}

impl Record {
    /// Returns the record's bytes.
    pub fn to_bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let socket_and_words = |put: &mut dyn FnMut(usize, &[u8]), socket: &Socket, words: [u32; 5]| {
            put_hosts(put, socket.hosts, socket.ports);
            put(40, &socket.at.to_le_bytes());
            for (at, word) in [8, 12, 32, 36, 48].into_iter().zip(words) {
                put(at, &word.to_le_bytes());
            }
        };
        match self {
            Record::Packet(packet) => {
                let (fate, code) = match packet.fate {
                    Fate::Delivered => (0, 0),
                    Fate::Dropped(code) => (1, code),
                    Fate::Queued => (2, 0),
                };
                put(0, &[PACKET, fate, packet.ecn_in | packet.ecn_out << 2, packet.flags]);
                put(4, &packet.link.to_le_bytes());
                put(6, &code.to_le_bytes());
                put(8, &packet.bytes.to_le_bytes());
                put(12, &packet.payload.to_le_bytes());
                put_hosts(&mut put, packet.hosts, packet.ports);
                put(28, &[packet.protocol]);
                put(32, &packet.seq.to_le_bytes());
                put(36, &packet.ack.to_le_bytes());
                for (at, time) in [(40, packet.arrival), (48, packet.start), (56, packet.end)] {
                    put(at, &time.to_le_bytes());
                }
            }
            Record::Acked { socket, payload, rtt_us, srtt_us, cwnd, inflight } => {
                put(0, &[ACKED]);
                socket_and_words(&mut put, socket, [*rtt_us, *payload, *cwnd, *srtt_us, *inflight]);
            }
            Record::Retransmitted { socket, seq, payload } => {
                put(0, &[RETRANSMITTED]);
                socket_and_words(&mut put, socket, [0, *payload, *seq, 0, 0]);
            }
            Record::Ring(ring) => {
                put(0, &[RING, u8::from(ring.completed)]);
                put(4, &ring.link.to_le_bytes());
                for (at, word) in [(8, ring.bytes), (12, ring.packets), (32, ring.limit), (36, ring.inflight)] {
                    put(at, &word.to_le_bytes());
                }
                put(40, &ring.at.to_le_bytes());
                put(48, &ring.jiffies.to_le_bytes());
            }
            Record::Paused { link, stop, at } => {
                put(0, &[PAUSED, u8::from(*stop)]);
                put(4, &link.to_le_bytes());
                put(40, &at.to_le_bytes());
            }
        }
        bytes
    }
}

fn put_hosts(put: &mut dyn FnMut(usize, &[u8]), hosts: [Ipv4Addr; 2], ports: [u16; 2]) {
    for (place, (host, port)) in hosts.into_iter().zip(ports).enumerate() {
        put(16 + 4 * place, &u32::from(host).to_le_bytes());
        put(24 + 2 * place, &port.to_le_bytes());
    }
}

/// The records of a file, read in place.
#[derive(Clone, Copy)]
pub struct Records<'a>(&'a [[u8; SIZE]]);

impl<'a> Records<'a> {
    /// Reads the file's bytes.
    ///
    /// # Errors
    /// The file is truncated or has a record of an unknown type.
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

    /// Returns the number of records.
    pub fn count(self) -> usize {
        self.0.len()
    }

    /// Returns the record at this position.
    pub fn get(self, index: u32) -> Record {
        record(&self.0[index as usize])
    }

    /// Prefetches the record at this position, which is read soon.
    pub fn prefetch(self, index: u32) {
        prefetch_index::prefetch_index(self.0, index as usize);
    }

    /// Iterates over all records in the order of the file.
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
    fn a_record_that_is_written_is_read_again() {
        let (hosts, ports) = ([Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 101, 0, 1)], [10_000, 5001]);
        let socket = Socket { hosts, ports, at: 1 << 40 };
        let packet = |fate| {
            let (arrival, start, end) = (1 << 40, 2 << 40, 3 << 40);
            let (bytes, payload, seq, ack) = (1514, 1448, u32::MAX, 7);
            let (link, ecn_in, ecn_out, flags, protocol) = (3, 2, 3, 0x18, 6);
            Record::Packet(Packet {
                link,
                fate,
                ecn_in,
                ecn_out,
                flags,
                bytes,
                payload,
                hosts,
                ports,
                protocol,
                seq,
                ack,
                arrival,
                start,
                end,
            })
        };
        let ring = Ring { link: 2, completed: true, bytes: 5, packets: 6, limit: 7, inflight: 8, at: 9, jiffies: 10 };
        for record in [
            packet(Fate::Delivered),
            packet(Fate::Queued),
            packet(Fate::of(DropReason::Penalty)),
            Record::Acked { socket, payload: 1, rtt_us: 2, srtt_us: 3, cwnd: 4, inflight: 5 },
            Record::Retransmitted { socket, seq: 6, payload: 7 },
            Record::Ring(ring),
            Record::Paused { link: 1, stop: true, at: 12 },
        ] {
            assert_eq!(Records::new(&record.to_bytes()).map(|read| read.get(0)), Ok(record));
        }
        for reason in DropReason::ALL {
            let Fate::Dropped(code) = Fate::of(reason) else { panic!("a drop") };
            assert_eq!(Fate::reason(code), Some(reason));
        }
        assert_eq!([0, 3, ACK_FILTERED, IMPAIRED].map(Fate::reason), [None; 4], "numbers of the kernel");
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
