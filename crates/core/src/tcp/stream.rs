//! The application's data as segments. All are full except the last of each write. A FIN is a segment without payload. If there is a
//! send buffer, it may have accepted only a part of the data.

use crate::ring::Ring;

/// The end of the data, and the few segments that are not full.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stream {
    /// One past the last segment that may be sent.
    pub end: u32,
    /// One past the last segment written; without a send buffer it is `end`.
    pub written: u32,
    mss: u32,
    /// The last segment is a FIN.
    finished: bool,
    /// Segments that are not full and not acknowledged, with their payload, by number.
    shorts: Ring<(u32, u32)>,
}

impl Stream {
    pub fn new(mss: u32) -> Stream {
        Stream { end: 0, written: 0, mss: mss.max(1), finished: false, shorts: Ring::default() }
    }

    /// Appends bytes, starting a new segment. Returns the number of the segment after them. Nothing may be written after a FIN.
    pub fn write(&mut self, bytes: u64) -> u32 {
        debug_assert!(!self.finished, "a write behind the FIN");
        let mss = u64::from(self.mss);
        let segments = bytes.div_ceil(mss).min(u64::from(u32::MAX - self.written)) as u32;
        self.written += segments;
        let rest = (bytes % mss) as u32;
        if rest > 0 && self.written < u32::MAX {
            self.shorts.push((self.written - 1, rest));
        }
        self.written
    }

    /// Gives the data no end from now on.
    pub fn write_forever(&mut self) {
        self.written = u32::MAX;
    }

    /// Lets segments below `end` be sent, as far as they are written.
    #[inline]
    pub fn take(&mut self, end: u32) {
        self.end = end.min(self.written);
    }

    /// Appends a FIN, unless there is one already or the data has no end. A FIN needs no room in the send buffer.
    pub fn finish(&mut self) {
        if self.written < u32::MAX && !self.finished {
            self.finished = true;
            self.shorts.push((self.written, 0));
            self.end += u32::from(self.end == self.written);
            self.written += 1;
        }
    }

    /// Withdraws the segments from `snd_nxt` on.
    pub fn truncate(&mut self, snd_nxt: u32) {
        (self.end, self.written) = (snd_nxt, snd_nxt);
        while self.shorts.back().is_some_and(|&(seq, _)| seq >= snd_nxt) {
            self.shorts.pop_back();
        }
    }

    /// Returns whether any segment that is not acknowledged is shorter than the MSS.
    #[inline(always)]
    pub fn has_shorts(&self) -> bool {
        !self.shorts.is_empty()
    }

    /// Payload bytes of a full segment.
    #[inline]
    pub fn mss(&self) -> u32 {
        self.mss
    }

    /// Payload bytes of a segment.
    #[inline]
    pub fn payload(&self, seq: u32) -> u32 {
        if self.shorts.is_empty() { self.mss } else { self.payload_of(seq) }
    }

    #[cold]
    #[inline(never)]
    fn payload_of(&self, seq: u32) -> u32 {
        let (mut low, mut high) = (0, self.shorts.len());
        while low < high {
            let middle = (low + high) / 2;
            let (at, payload) = *self.shorts.at(middle);
            if at == seq {
                return payload;
            }
            if at < seq { low = middle + 1 } else { high = middle }
        }
        self.mss
    }

    /// Returns whether this segment with this payload is recognisable as the last of a write: it is short, or the last that may be
    /// sent.
    #[inline]
    pub fn is_last(&self, seq: u32, payload: u32) -> bool {
        payload < self.mss || (seq + 1 == self.end && self.end != u32::MAX)
    }

    /// [snd_una, cum) is acknowledged. Returns the payload bytes of these segments.
    #[inline]
    pub fn acknowledge(&mut self, snd_una: u32, cum: u32) -> u64 {
        let full = u64::from(cum - snd_una) * u64::from(self.mss);
        if self.shorts.is_empty() { full } else { full - self.missing(cum) }
    }

    /// The number of bytes by which the short segments below `cum` are shorter than full ones, in sum. Removes these segments.
    #[cold]
    #[inline(never)]
    fn missing(&mut self, cum: u32) -> u64 {
        let mut missing = 0;
        while let Some(&(seq, payload)) = self.shorts.front() {
            if seq >= cum {
                break;
            }
            missing += u64::from(self.mss - payload);
            self.shorts.pop();
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_starts_a_segment_and_ends_with_what_is_left() {
        let mut stream = Stream::new(1000);
        assert_eq!(stream.write(2500), 3);
        assert_eq!(stream.write(1000), 4);
        assert_eq!(stream.write(1), 5);
        assert_eq!([0, 1, 2, 3, 4].map(|seq| stream.payload(seq)), [1000, 1000, 500, 1000, 1]);
        assert_eq!(stream.acknowledge(0, 3), 2500);
        assert_eq!(stream.acknowledge(3, 5), 1001);
    }

    #[test]
    fn a_fin_is_one_segment_and_no_byte() {
        let mut stream = Stream::new(1000);
        stream.write(1500);
        stream.finish();
        stream.finish();
        assert_eq!((stream.written, stream.payload(2), stream.is_last(2, 0)), (3, 0, true));
        assert_eq!(stream.acknowledge(0, 3), 1500);
        stream.finish();
        assert_eq!(stream.written, 3, "once, also when it has come");
    }

    #[test]
    fn what_is_written_may_be_sent_once_it_is_taken() {
        let mut stream = Stream::new(1000);
        assert_eq!((stream.write(4500), stream.end), (5, 0));
        stream.take(3);
        assert_eq!((stream.end, stream.payload(4), stream.is_last(2, 1000)), (3, 500, true));
        stream.finish();
        stream.take(u32::MAX);
        assert_eq!(stream.end, 6);
    }

    #[test]
    fn withdrawn_data_takes_its_short_segments_with_it() {
        let mut stream = Stream::new(1000);
        stream.write(1500);
        stream.write(300);
        stream.truncate(2);
        assert_eq!(stream.write(2000), 4);
        assert_eq!([1, 2, 3].map(|seq| stream.payload(seq)), [500, 1000, 1000]);
    }
}
