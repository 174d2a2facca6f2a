//! The end of a cable: a packet socket with a ring of received frames, and frames sent in batches.
//!
//! TPACKET_V2 stamps a frame when the kernel receives it. V3 would deliver blocks of frames, up to a millisecond late.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of the ring. At 1 Gbit/s this holds 50 ms of full packets of 1500 bytes.
const RING: usize = 8 << 20;
/// Bytes that a slot of the ring has in addition to the IP packet: the kernel's header, and that of Ethernet.
const HEADERS: usize = 66 + 14;
/// The least size of the blocks of which the kernel makes the ring, in bytes.
const BLOCK: usize = 1 << 16;
/// Frames that one system call sends.
const BATCH: usize = 64;

/// A packet socket on a device.
pub struct Cable {
    socket: OwnedFd,
    ring: *mut u8,
    /// Bytes of a slot of the ring, which holds one frame.
    slot: usize,
    next: usize,
    /// Frames to be sent, and their lengths.
    batch: Vec<Vec<u8>>,
    waiting: usize,
    counts: Counts,
}

// SAFETY: the ring is reached only through its cable, which one thread has at a time.
#[expect(unsafe_code, reason = "the ring is a mapping, which any thread may read")]
unsafe impl Send for Cable {}

/// Counters of a cable.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Frames that the kernel dropped because the ring was full.
    pub dropped: u64,
    /// Frames that the kernel did not take for sending.
    pub unsent: u64,
    /// Frames that were longer than a slot of the ring.
    pub cut: u64,
}

/// Sets an option of the packet socket.
#[expect(unsafe_code, reason = "options of packet sockets have no safe wrapper")]
fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is as long as `length` says, and is only read.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, ptr::from_ref(value).cast(), length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Opens a packet socket that receives nothing yet.
#[expect(unsafe_code, reason = "packet sockets have no safe wrapper")]
fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call has no pointers.
    let raw = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Binds a packet socket to a device of the current namespace. It receives the frames of this protocol; with 0 none.
#[expect(unsafe_code, reason = "addresses of packet sockets have no safe wrapper")]
fn bind(socket: &OwnedFd, device: &str, protocol: u16) -> io::Result<()> {
    let index = rustix::net::netdevice::name_to_index(socket, device)
        .map_err(|error| io::Error::other(format!("device {device}: {error}")))?;
    // SAFETY: an address of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is as long as `length` says, and is only read.
    let done = unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(&address).cast(), length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Cable {
    /// Opens a socket on a device of the current namespace. Frames that arrive there, with IP packets of up to `mtu` bytes,
    /// are received from now on.
    ///
    /// # Errors
    /// The device does not exist, or the kernel refuses the socket or its ring.
    pub fn open(device: &str, mtu: u32) -> io::Result<Cable> {
        Cable::with_ring(device, mtu, false)
    }

    /// Opens a socket on a device of the current namespace. Frames that leave its discipline are received from now on, in
    /// the order in which they leave. At the other end of a cable the processors might reorder them.
    ///
    /// # Errors
    /// The device does not exist, or the kernel refuses the socket or its ring.
    pub fn behind_discipline(device: &str, mtu: u32) -> io::Result<Cable> {
        Cable::with_ring(device, mtu, true)
    }

    /// Opens a socket with its ring; `outgoing` says whether it receives the frames that the device sends, too.
    #[expect(unsafe_code, reason = "packet sockets and their rings have no safe wrapper")]
    fn with_ring(device: &str, mtu: u32, outgoing: bool) -> io::Result<Cable> {
        let slot = (mtu as usize + HEADERS).next_power_of_two();
        let block = slot.max(BLOCK);
        let socket = socket()?;
        let (on, version) = (1, libc::tpacket_versions::TPACKET_V2 as i32);
        set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &i32::from(!outgoing))?;
        // The frame goes straight to the device, past any discipline.
        set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: (RING / block) as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: (RING / slot) as u32,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping of the ring that was just set up, with its length.
        let ring = unsafe { libc::mmap(ptr::null_mut(), RING, protection, flags, socket.as_raw_fd(), 0) };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let cable = Cable {
            socket,
            ring: ring.cast(),
            slot,
            next: 0,
            batch: (0..BATCH).map(|_| Vec::with_capacity(slot)).collect(),
            waiting: 0,
            counts: Counts::default(),
        };
        bind(&cable.socket, device, libc::ETH_P_ALL as u16)?;
        Ok(cable)
    }

    /// Passes the next received frame to `see`, with its time of arrival on the system's clock (CLOCK_REALTIME) in
    /// nanoseconds. Returns whether there was one.
    #[expect(unsafe_code, reason = "the ring is memory that is shared with the kernel")]
    pub fn receive(&mut self, see: impl FnOnce(u64, &[u8])) -> bool {
        // SAFETY: the slot is within the mapping, which lives as long as `self`.
        let slot = unsafe { self.ring.add(self.next * self.slot) };
        // SAFETY: a slot begins with its status, which the kernel changes too, so it is read as an atomic.
        let status = unsafe { &*slot.cast::<AtomicU32>() };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the status says that the slot is ours, and that the kernel has written this header.
        let header = unsafe { ptr::read(slot.cast::<libc::tpacket2_hdr>()) };
        let (start, length) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        if header.tp_snaplen < header.tp_len || start + length > self.slot {
            self.counts.cut += 1;
        } else {
            // SAFETY: the frame is within the slot, as the line above says, and the slot is ours.
            let frame = unsafe { std::slice::from_raw_parts(slot.add(start), length) };
            see(u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec), frame);
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % (RING / self.slot);
        true
    }

    /// Adds a frame to the batch that [`Cable::flush`] sends.
    pub fn send(&mut self, frame: &[u8]) {
        if self.waiting == BATCH {
            self.flush();
        }
        let own = &mut self.batch[self.waiting];
        own.clear();
        own.extend_from_slice(frame);
        self.waiting += 1;
    }

    /// Sends the batch.
    #[expect(unsafe_code, reason = "sendmmsg has no safe wrapper")]
    pub fn flush(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting == 0 {
            return;
        }
        let mut parts: [libc::iovec; BATCH] = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: headers of zeros are valid, and have no parts.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (place, frame) in self.batch[..waiting].iter_mut().enumerate() {
            parts[place] = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
            headers[place].msg_hdr.msg_iov = &raw mut parts[place];
            headers[place].msg_hdr.msg_iovlen = 1;
        }
        let mut sent = 0;
        while sent < waiting {
            let rest = &mut headers[sent..waiting];
            let (socket, count) = (self.socket.as_raw_fd(), rest.len() as u32);
            // SAFETY: the headers and all that they point to outlive the call.
            let done = unsafe { libc::sendmmsg(socket, rest.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
            if done <= 0 {
                self.counts.unsent += 1;
                sent += 1;
            } else {
                sent += done as usize;
            }
        }
    }

    /// Returns the counters so far.
    ///
    /// # Errors
    /// The kernel does not tell them.
    #[expect(unsafe_code, reason = "options of packet sockets have no safe wrapper")]
    pub fn counts(&mut self) -> io::Result<Counts> {
        let mut said = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        let to = (&raw mut said).cast();
        // SAFETY: the kernel writes at most `length` bytes, the size of `said`.
        let done = unsafe {
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, to, &raw mut length)
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        // The kernel resets its counters when they are read.
        self.counts.dropped += u64::from(said.tp_drops);
        Ok(self.counts)
    }
}

/// Bytes that a socket of a [`Feed`] asks for. The kernel grants all to root, and others up to net.core.wmem_max.
const FEED_BYTES: i32 = 1 << 30;
/// The most sockets of a [`Feed`].
const FEEDS: usize = 512;

/// Packet sockets that pass frames through the discipline of a device.
///
/// A frame in a queue counts against its socket, whose bytes are limited. So there are as many sockets as the queue needs.
pub struct Feed {
    device: String,
    sockets: Vec<Mouth>,
    /// The socket of the last frame.
    last: usize,
}

/// A socket of a [`Feed`].
struct Mouth {
    socket: OwnedFd,
    /// The priority of its frames in the kernel.
    priority: u8,
}

impl Feed {
    /// Opens a socket on a device of the current namespace, in which [`Feed::give`] must be called too.
    ///
    /// # Errors
    /// The device does not exist, or the kernel refuses the socket.
    pub fn open(device: &str) -> io::Result<Feed> {
        Ok(Feed { device: device.to_owned(), sockets: vec![Mouth::open(device)?], last: 0 })
    }

    /// Gives a frame to the discipline, with the priority from 0 to 6 that a router would give it. Returns false if the
    /// discipline has dropped it.
    ///
    /// # Errors
    /// The kernel did not take it for another reason.
    #[expect(unsafe_code, reason = "kept like the other calls of packet sockets")]
    pub fn give(&mut self, frame: &[u8], priority: u8) -> io::Result<bool> {
        loop {
            let mouth = &mut self.sockets[self.last];
            mouth.set_priority(priority)?;
            let (socket, flags) = (mouth.socket.as_raw_fd(), libc::MSG_DONTWAIT);
            // SAFETY: the frame is only read, and as long as its length says.
            let done = unsafe { libc::send(socket, frame.as_ptr().cast(), frame.len(), flags) };
            if done >= 0 {
                return Ok(true);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // The answer of the discipline, NET_XMIT_DROP.
                Some(libc::ENOBUFS) => return Ok(false),
                Some(libc::EAGAIN) => self.next()?,
                Some(libc::EINTR) => {}
                _ => return Err(error),
            }
        }
    }

    /// Returns whether the kernel holds no frame that was given. All that left the discipline are in the ring of a
    /// [`Cable::behind_discipline`] then.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn is_empty(&self) -> io::Result<bool> {
        for Mouth { socket, .. } in &self.sockets {
            if unsent(socket)? > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Turns to the next socket, whose frames are the oldest. If it has no room, a new one gets in before it.
    fn next(&mut self) -> io::Result<()> {
        let oldest = (self.last + 1) % self.sockets.len();
        if has_room(&self.sockets[oldest].socket)? {
            self.last = oldest;
        } else if self.sockets.len() < FEEDS {
            self.last += 1;
            let count = self.sockets.len() + 1;
            let failed = |error| io::Error::other(format!("{}: packet socket {count}: {error}", self.device));
            self.sockets.insert(self.last, Mouth::open(&self.device).map_err(failed)?);
        } else {
            return Err(io::Error::other(format!(
                "{}: the queue is longer than the {FEEDS} packet sockets that feed it can hold; expected a shorter one, or \
                 a higher net.core.wmem_max (sysctl)",
                self.device
            )));
        }
        Ok(())
    }
}

impl Mouth {
    fn open(device: &str) -> io::Result<Mouth> {
        let socket = socket()?;
        if set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &FEED_BYTES).is_err() {
            set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &FEED_BYTES)?;
        }
        bind(&socket, device, 0)?;
        Ok(Mouth { socket, priority: 0 })
    }

    fn set_priority(&mut self, priority: u8) -> io::Result<()> {
        if self.priority != priority {
            set(&self.socket, libc::SOL_SOCKET, libc::SO_PRIORITY, &i32::from(priority))?;
            self.priority = priority;
        }
        Ok(())
    }
}

/// Returns the bytes of a socket's frames that are still in the kernel, with what the kernel adds to them.
#[expect(unsafe_code, reason = "an ioctl without a safe wrapper")]
fn unsent(socket: &OwnedFd) -> io::Result<i32> {
    let mut bytes: i32 = 0;
    // SAFETY: the kernel writes an int.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes) }
}

/// Returns whether a socket takes a frame.
fn has_room(socket: &OwnedFd) -> io::Result<bool> {
    let mut watched = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::OUT)];
    let at_once = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(rustix::event::poll(&mut watched, Some(&at_once))? > 0)
}

impl AsFd for Cable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Cable {
    #[expect(unsafe_code, reason = "unmapping has no safe wrapper")]
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.ring.cast(), RING) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// A feed whose only socket is one end of a pair, which needs no right; and the other end.
    fn feed() -> (Feed, UnixDatagram) {
        let (near, far) = UnixDatagram::pair().expect("a pair");
        let mouth = Mouth { socket: near.into(), priority: 0 };
        (Feed { device: "queue0".to_owned(), sockets: vec![mouth], last: 0 }, far)
    }

    #[expect(unsafe_code, reason = "options of packet sockets have no safe wrapper")]
    fn priority(feed: &Feed) -> i32 {
        let (mut value, mut length) = (-1, size_of::<i32>() as libc::socklen_t);
        let socket = feed.sockets[feed.last].socket.as_raw_fd();
        let to = (&raw mut value).cast();
        // SAFETY: the kernel writes at most `length` bytes, the size of the value.
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, to, &raw mut length) };
        value
    }

    #[test]
    fn a_frame_has_its_priority_in_the_kernel() {
        let (mut feed, _far) = feed();
        for wanted in [0, 6, 6, 2, 0, 4] {
            assert!(feed.give(b"frame", wanted).expect("room"));
            assert_eq!(priority(&feed), i32::from(wanted));
        }
    }

    #[test]
    fn a_feed_is_empty_when_the_kernel_holds_nothing_of_it() {
        let (mut feed, far) = feed();
        assert!(feed.is_empty().expect("a socket"));
        assert!(feed.give(b"frame", 0).expect("room"));
        assert!(!feed.is_empty().expect("a socket"));
        assert_eq!(far.recv(&mut [0; 9]).expect("the frame"), 5);
        assert!(feed.is_empty().expect("a socket"));
    }

    #[test]
    fn a_queue_that_all_sockets_cannot_hold_is_an_error_that_says_so() {
        let (mut feed, _far) = feed();
        while feed.sockets.len() < FEEDS {
            let socket = feed.sockets[0].socket.try_clone().expect("a descriptor");
            feed.sockets.push(Mouth { socket, priority: 0 });
        }
        let full = (0..1_000_000).find_map(|_| feed.give(&[0; 1000], 0).err()).expect("no end");
        assert!(full.to_string().contains("queue0: the queue is longer than the 512 packet sockets"), "{full}");
        assert_eq!(feed.sockets.len(), FEEDS);
    }
}
