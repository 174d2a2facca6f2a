//! A capture of the links in the format pcapng (draft-ietf-opsawg-pcapng), for Wireshark and other programs.
//!
//! This module is pure. Each link is an interface. A packet is written when its fate at the link is known, with the time
//! of its arrival and the first bytes of its frame; its comment has the sojourn and the fate.

use sojourn_core::units::{Span, Time};
use sojourn_traffic::probe::Fate;

/// Bytes of a frame that are kept: all headers.
const SNAP: usize = 128;
/// Block types and options of the format.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
/// The link type Ethernet.
const ETHERNET: u16 = 1;
/// Times are in units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// The bytes of a capture that are not yet taken.
pub struct Capture {
    bytes: Vec<u8>,
    /// Time zero of the run on the system's clock, in nanoseconds.
    epoch: u64,
}

impl Capture {
    /// Begins a capture of links with these names.
    pub fn new(names: &[String], epoch: u64) -> Capture {
        let mut capture = Capture { bytes: Vec::new(), epoch };
        let mut section = Vec::new();
        section.extend(0x1a2b_3c4du32.to_le_bytes());
        section.extend([1, 0, 0, 0]);
        section.extend(u64::MAX.to_le_bytes());
        capture.block(SECTION, section);
        for name in names {
            let mut body = Vec::new();
            body.extend(ETHERNET.to_le_bytes());
            body.extend([0; 2]);
            body.extend((SNAP as u32).to_le_bytes());
            option(&mut body, NAME, name.as_bytes());
            option(&mut body, RESOLUTION, &[NANOSECONDS]);
            body.extend([0; 4]);
            capture.block(INTERFACE, body);
        }
        capture
    }

    /// Adds a packet whose fate at a link is known.
    pub fn packet(&mut self, link: usize, frame: &[u8], arrival: Time, sojourn: Span, fate: Fate) {
        let kept = &frame[..frame.len().min(SNAP)];
        let at = self.epoch + arrival.0;
        let mut body = Vec::with_capacity(SNAP + 96);
        body.extend((link as u32).to_le_bytes());
        body.extend(((at >> 32) as u32).to_le_bytes());
        body.extend((at as u32).to_le_bytes());
        body.extend((kept.len() as u32).to_le_bytes());
        body.extend((frame.len() as u32).to_le_bytes());
        body.extend(kept);
        pad(&mut body);
        let fate = match fate {
            Fate::Delivered => "delivered".to_owned(),
            Fate::Dropped(code) => format!("dropped: {}", Fate::reason(code).map_or("", |reason| reason.name())),
            Fate::Queued => "queued at the end".to_owned(),
        };
        option(&mut body, COMMENT, format!("sojourn {:.3} ms, {fate}", sojourn.as_millis_f64()).as_bytes());
        body.extend([0; 4]);
        self.block(PACKET, body);
    }

    /// Takes the bytes so far.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn block(&mut self, kind: u32, body: Vec<u8>) {
        let length = (body.len() as u32 + 12).to_le_bytes();
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(length);
        self.bytes.extend(body);
        self.bytes.extend(length);
    }
}

/// Adds an option with its value.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

/// Fills up to a multiple of four bytes.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_core::qdisc::DropReason;

    #[test]
    fn a_capture_is_blocks_whose_lengths_stand_at_both_ends() {
        let mut capture = Capture::new(&["link".to_owned(), "link.reverse".to_owned()], 1 << 40);
        capture.packet(1, &[7; 200], Time(5), Span::from_micros(4600), Fate::of(DropReason::Codel));
        let bytes = capture.take();
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (mut at, mut kinds) = (0, Vec::new());
        while at < bytes.len() {
            let length = word(at + 4) as usize;
            assert_eq!((length % 4, word(at + length - 4) as usize), (0, length));
            kinds.push(word(at));
            at += length;
        }
        assert_eq!(kinds, [SECTION, INTERFACE, INTERFACE, PACKET]);
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("link.reverse") && text.contains("sojourn 4.600 ms, dropped: codel"), "{text}");
        assert!(capture.take().is_empty());
    }
}
