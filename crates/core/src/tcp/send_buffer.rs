//! The send buffer as Linux tunes it, bounded by `tcp_wmem`. It limits how much data an application can write ahead.
//!
//! Facts: `tcp_sndbuf_expand`, `tcp_should_expand_sndbuf` and `tcp_new_space` (tcp_input.c), `tcp_sendmsg_locked` (tcp.c),
//! `sk_stream_memory_free` and `sk_stream_is_writeable` (sock.h), `bbr_sndbuf_expand` (tcp_bbr.c) of Linux 7.3. The buffer holds all
//! data that was written and is not acknowledged cumulatively, SACKed data included. An application that found the buffer full is
//! woken when a third of it is free, and writes until it is full. The buffer has room for two windows (BBR: three), if a segment
//! takes 2304 bytes, and never shrinks. A sender whose first hole stays open therefore stops a few windows above it. Linux checks for
//! room only where a new skb begins. A short burst that is sent at once leaves room in its skb; so a write is accepted whole if the
//! window is open.
//!
//! Deviations:
//! - An application writes 256 kB at a time, as the kernel world's program does.
//! - Queued data counts as full segments in bursts of the current size. SACKed data counts as payload alone (Linux merges its skbs).
//! - An skb may be larger than half the peer's window.
//! - The 2304 bytes for a segment are those of a kernel without wireless devices, as in the kernel world. Kernels of distributions
//!   support such devices and IP tunnels, and reserve 4352 bytes.
//! - Reordering is assumed to be less than a window.

use super::Config;
use super::pacing::gso_segments;
use super::window::{INIT_CWND, OVERHEAD};

/// `MAX_TCP_HEADER` and the aligned `struct skb_shared_info`, in bytes. A segment is allocated together with them, and the size is
/// rounded up to a power of two.
const HEADS: u32 = 256 + 320;
/// The aligned `struct sk_buff`.
const SK_BUFF: u32 = 256;
/// Bytes that an application writes at once.
const WRITE: u32 = 256 << 10;

/// The contents of a send buffer, in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Queued {
    pub segments: u32,
    /// The SACKed segments among them.
    pub sacked: u32,
    /// The number of segments in a burst.
    pub burst: u32,
}

/// A connection's send buffer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SendBuffer {
    /// `tcp_wmem[2]`, in bytes.
    wmem: u64,
    /// The bytes of buffer reserved for a segment.
    per_mss: u64,
    /// The number of windows that the buffer has room for.
    windows: u64,
    /// Payload of a full segment, in bytes.
    mss: u32,
    /// The number of segments in a full skb.
    goal: u32,
    /// The number of segments in a write of the application.
    write: u32,
    /// The size of the buffer in bytes.
    sk_sndbuf: u64,
}

impl SendBuffer {
    /// A buffer without room: it gets room when the connection is established.
    pub fn new(wmem: u32, config: &Config) -> SendBuffer {
        let &Config { cc, mss, header, gso_max_segs, .. } = config;
        SendBuffer {
            wmem: u64::from(wmem.max(1)),
            per_mss: u64::from((mss + header - 40 + HEADS).next_power_of_two() + SK_BUFF),
            windows: u64::from(cc.ops().sndbuf_expand),
            mss,
            goal: gso_segments(gso_max_segs, mss),
            write: WRITE.div_ceil(mss.max(1)),
            sk_sndbuf: 0,
        }
    }

    /// Enlarges the buffer to hold two windows (BBR: three) of `cwnd` segments.
    pub fn expand(&mut self, cwnd: u32) {
        let sndmem = self.windows * u64::from(cwnd.max(INIT_CWND)) * self.per_mss;
        self.sk_sndbuf = self.sk_sndbuf.max(sndmem.min(self.wmem));
    }

    /// Returns whether an application that found the buffer full is woken.
    pub fn is_writeable(&self, queued: &Queued) -> bool {
        let wmem_queued = self.wmem_queued(queued);
        wmem_queued + wmem_queued / 2 <= self.sk_sndbuf
    }

    /// The number of queued segments after the application has filled the buffer. The first `room` segments that it writes are sent
    /// at once.
    pub fn filled(&self, queued: &Queued, mut room: u32) -> u32 {
        let mut wmem_queued = self.wmem_queued(queued);
        let truesize = u64::from(self.goal * self.mss + OVERHEAD);
        let mut segments = queued.segments;
        while wmem_queued < self.sk_sndbuf && segments < u32::MAX - self.write {
            let skbs = (self.sk_sndbuf - wmem_queued).div_ceil(truesize).min(u64::from(self.write)) as u32;
            let at_once = if room > 0 && queued.burst < self.goal { room.saturating_add(self.goal) } else { 0 };
            let taken = (skbs * self.goal).max(at_once).min(self.write);
            room = room.saturating_sub(taken);
            segments += taken;
            wmem_queued += u64::from(taken) * truesize / u64::from(self.goal);
        }
        segments
    }

    /// The memory that queued segments take (Linux `sk_wmem_queued`).
    fn wmem_queued(&self, &Queued { segments, sacked, burst }: &Queued) -> u64 {
        let skbs = segments.saturating_sub(sacked).div_ceil(burst.max(1));
        u64::from(segments) * u64::from(self.mss) + u64::from(skbs) * u64::from(OVERHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Cc;

    fn buffer(wmem: u32, cc: Cc) -> SendBuffer {
        SendBuffer::new(wmem, &Config { cc, gso_max_segs: 44, ..Config::default() })
    }

    /// Linux `tcp_sndbuf_expand`: the buffer holds two windows (BBR: three) of at least ten segments of 2304 bytes, up to `tcp_wmem[2]`.
    #[test]
    fn there_is_room_for_two_windows_and_for_three_of_bbr() {
        for (cc, windows) in [(Cc::Cubic, 2), (Cc::Reno, 2), (Cc::Bbr, 3), (Cc::Bbr3, 3)] {
            let mut buffer = buffer(4 << 20, cc);
            let sizes = [4, 100, 50, 10_000].map(|cwnd| {
                buffer.expand(cwnd);
                buffer.sk_sndbuf
            });
            assert_eq!(sizes, [windows * 23_040, windows * 230_400, windows * 230_400, 4 << 20], "{cc:?}");
        }
    }

    fn queued(segments: u32) -> Queued {
        Queued { segments, sacked: 0, burst: 44 }
    }

    /// Below the bound one more skb may be added, even if it then exceeds the bound (`sk_stream_memory_free`). The buffer is writeable
    /// again when a third of it is free (`sk_stream_is_writeable`).
    #[test]
    fn it_is_filled_skb_by_skb_and_again_when_a_third_is_free() {
        let mut buffer = buffer(4 << 20, Cc::Cubic);
        buffer.expand(100);
        let full = buffer.filled(&queued(0), 0);
        assert_eq!(full, 182 + 3 * 44, "460,800 bytes: a write, and three skbs of the next");
        assert_eq!(buffer.filled(&queued(full), 0), full);
        assert_eq!(buffer.filled(&queued(300), 0), 300 + 44);
        let least = (0..full).rev().find(|&segments| buffer.is_writeable(&queued(segments)));
        assert_eq!(least, Some(209), "307,200 bytes");
    }

    /// In the kernel world a socket reports its buffer (`SO_MEMINFO`). With CUBIC, an open window, 100 Mbit/s, 100 ms and a `tcp_wmem[2]`
    /// of 1 MB, two writes of 256 kB fill it from 697,808 to 1,259,728 bytes.
    #[test]
    fn a_write_is_taken_whole_where_the_window_is_open() {
        let mut cubic = buffer(1 << 20, Cc::Cubic);
        cubic.expand(1000);
        let before = Queued { segments: 455, sacked: 0, burst: 11 };
        assert!(cubic.is_writeable(&before) && !cubic.is_writeable(&Queued { segments: 460, ..before }));
        let after = cubic.filled(&before, 1000);
        assert_eq!(after - 455, 2 * (1_u32 << 18).div_ceil(1448));
        // If a burst fills an skb, room is checked for each burst.
        assert_eq!(cubic.filled(&Queued { burst: 44, ..before }, 1000), 455 + 182 + 2 * 44);
    }

    #[test]
    fn packet_by_packet_each_has_its_own_overhead_unless_it_is_sacked() {
        let mut buffer = SendBuffer::new(4 << 20, &Config::default());
        buffer.expand(10);
        let alone = |segments, sacked| buffer.wmem_queued(&Queued { segments, sacked, burst: 1 });
        assert_eq!((alone(10, 0), alone(10, 9)), (10 * (1448 + 896), 10 * 1448 + 896));
        for room in [0, 1000] {
            let full = buffer.filled(&Queued { segments: 0, sacked: 0, burst: 1 }, room);
            assert_eq!(full, 46_080_u32.div_ceil(1448 + 896), "{room} leave at once");
        }
    }
}
