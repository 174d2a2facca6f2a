//! Sockets as the flows need them: they never block, and have the options of TCP that the scenario asks for.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType, ipproto, sockopt};
use sojourn_core::tcp::{Cc, Config};
use sojourn_core::units::Time;
use sojourn_model::workload::stream::UDP_HEADERS;

use super::played::Socket;

/// The most bytes that one call reads.
const AT_ONCE: usize = 1 << 24;
/// Bytes of an ICMP header.
const ICMP_HEADER: usize = 8;
/// Bytes of a datagram's number and its time of sending.
const DATAGRAM_HEAD: usize = 12;
/// Bytes of a socket's buffers for datagrams.
const BUFFER: usize = 1 << 26;
/// The bounds in bytes of the receive buffer of a socket whose window is bounded. Between them, the buffer is four times the window.
const SMALLEST_BUFFER: usize = 1 << 17;
const LARGEST_BUFFER: usize = 1 << 28;
/// RFC 792: an echo request.
const ECHO_REQUEST: u8 = 8;
/// RFC 792: an echo reply.
const ECHO_REPLY: u8 = 0;

fn tcp() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP))?)
}

/// A socket that accepts connections to all addresses of its namespace.
pub fn listen(port: u16) -> io::Result<OwnedFd> {
    let fd = tcp()?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    rustix::net::listen(&fd, 65_535)?;
    Ok(fd)
}

/// Accepts the next connection that waits, if one does. Returns it with the addresses of its own end and of its peer.
pub fn accept(listener: &OwnedFd) -> io::Result<Option<(OwnedFd, SocketAddrV4, SocketAddrV4)>> {
    let fd = match rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::AGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // A connection that was reset while it waited has no peer.
    let (own, peer) = (v4(rustix::net::getsockname(&fd)?)?, rustix::net::getpeername(&fd));
    match peer {
        Ok(Some(peer)) => Ok(Some((fd, own, v4(peer)?))),
        _ => Ok(None),
    }
}

fn v4(address: SocketAddrAny) -> io::Result<SocketAddrV4> {
    SocketAddrV4::try_from(address).map_err(io::Error::from)
}

/// Opens a connection with this DSCP. The handshake is complete when the socket becomes ready to write.
pub fn connect(from: SocketAddrV4, to: SocketAddrV4, config: &Config, dscp: u8) -> io::Result<OwnedFd> {
    let fd = tcp()?;
    // The ECN field is zero here, because TCP sets it.
    set_tos(&fd, dscp << 2)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    configure(&fd, config)?;
    rustix::net::bind(&fd, &from)?;
    match rustix::net::connect(&fd, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}

/// Sets the options of TCP that Linux stores in a socket. The other options are metrics of the route.
pub fn configure(fd: &OwnedFd, config: &Config) -> io::Result<()> {
    sockopt::set_tcp_nodelay(fd, true)?;
    match (config.cc, config.cc.linux_name()) {
        (_, Some(name)) => sockopt::set_tcp_congestion(fd, name)?,
        (Cc::Fixed(_), None) => return Err(io::Error::other("a fixed window is not expressible")),
        (cc, None) => return Err(io::Error::other(format!("{cc} is not expressible"))),
    }
    // TCP_MAXSEG includes the timestamps; the MSS of the scenario does not.
    set(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, config.mss + config.header - 40)?;
    if let Some(window) = window(config) {
        // Linux does not tune a buffer whose size was set. Tuning would also change the window.
        let ample = (window as usize).saturating_mul(4).clamp(SMALLEST_BUFFER, LARGEST_BUFFER);
        sockopt::set_socket_recv_buffer_size(fd, ample)?;
        clamp_window(fd, config)?;
    }
    if !config.quickack {
        set(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0)?;
    }
    Ok(())
}

/// Returns the bound of a receive window in bytes, if it has one.
pub fn window(config: &Config) -> Option<u32> {
    let bytes = u64::from(config.rwnd) * u64::from(config.mss);
    (config.rwnd != u32::MAX).then(|| u32::try_from(bytes).unwrap_or(u32::MAX).min(1 << 30))
}

/// Bounds the window that the socket advertises. When the first full segment arrives, Linux raises the window to what the buffer can
/// hold (`tcp_measure_rcv_mss`). Therefore this function is called again after each read.
pub fn clamp_window(fd: &OwnedFd, config: &Config) -> io::Result<()> {
    window(config).map_or(Ok(()), |window| set(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, window))
}

/// Sets DSCP and ECN field of the packets that the socket sends. The kernel ignores the ECN field for TCP.
fn set_tos(fd: &OwnedFd, tos: u8) -> io::Result<()> {
    set(fd, libc::IPPROTO_IP, libc::IP_TOS, u32::from(tos))
}

/// Bounds the bytes that the socket accepts before it has sent them (`TCP_NOTSENT_LOWAT`).
pub fn keep_unsent_below(fd: &OwnedFd, bytes: u32) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Makes the kernel report the socket as readable only when this many bytes wait (`SO_RCVLOWAT`).
pub fn wake_for(fd: &OwnedFd, bytes: u32) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// Reads the counters of TCP on a connection. The layout is `struct tcp_info` in linux/tcp.h, to which newer kernels only append.
#[expect(unsafe_code, reason = "an option that rustix does not have")]
pub fn counters(fd: &OwnedFd, connection: u32, accepter: bool) -> io::Result<Socket> {
    let mut bytes = [0u8; 256];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the buffer, which has them.
    let done = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &raw mut length)
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let u32_at = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    Ok(Socket {
        connection,
        accepter,
        rtt_us: u32_at(68),
        snd_cwnd: u32_at(80),
        total_retrans: u32_at(100),
        bytes_acked: u64_at(120),
        bytes_received: u64_at(128),
        segs_out: u32_at(136),
        segs_in: u32_at(140),
        min_rtt_us: u32_at(148),
        data_segs_in: u32_at(152),
        data_segs_out: u32_at(156),
        delivered: u32_at(192),
        delivered_ce: u32_at(196),
        bytes_sent: u64_at(200),
        bytes_retrans: u64_at(208),
        rcv_wnd: u32_at(232),
    })
}

#[expect(unsafe_code, reason = "options that rustix does not have")]
fn set(fd: &OwnedFd, level: i32, name: i32, value: u32) -> io::Result<()> {
    let value = value as libc::c_int;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value lives during the call, and its length is passed.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel discard the bytes that have arrived, and returns their number. `None` means that no bytes wait; 0 means that the
/// other end has closed.
#[expect(unsafe_code, reason = "a receive without a buffer")]
pub fn discard(fd: &OwnedFd) -> io::Result<Option<u64>> {
    // SAFETY: with MSG_TRUNC the kernel's TCP writes nothing to the buffer (tcp(7)).
    let got = unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), AT_ONCE, libc::MSG_TRUNC) };
    if got >= 0 {
        return Ok(Some(got as u64));
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) }
}

/// Writes up to this many zeros. Returns the number that the socket took.
pub fn write(fd: &OwnedFd, bytes: u64, zeros: &[u8]) -> io::Result<u64> {
    let mut written = 0;
    while written < bytes {
        let length = usize::try_from(bytes - written).unwrap_or(usize::MAX).min(zeros.len());
        match rustix::net::send(fd, &zeros[..length], rustix::net::SendFlags::NOSIGNAL) {
            Ok(taken) => written += taken as u64,
            Err(rustix::io::Errno::AGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(written)
}

/// Writes zeros, a segment of `mss` bytes at a time, until the socket takes no more. Returns the number of bytes that it took.
///
/// If [`keep_unsent_below`] was called with one byte, at most one segment waits in the socket. A longer write would wait there as a
/// whole: Linux appends it to the last packet, up to the packet's maximum size, without checking the bound (`tcp_sendmsg_locked`).
/// MSG_EOR prevents appending to the packet. MSG_MORE prevents TCP from setting PSH on every segment; a receiver would acknowledge
/// each PSH at once.
pub fn write_segments(fd: &OwnedFd, mss: u32, zeros: &[u8]) -> io::Result<u64> {
    use rustix::net::SendFlags;
    let segment = &zeros[..zeros.len().min(mss as usize)];
    let mut written = 0;
    loop {
        match rustix::net::send(fd, segment, SendFlags::NOSIGNAL | SendFlags::EOR | SendFlags::MORE) {
            Ok(taken) => written += taken as u64,
            Err(rustix::io::Errno::AGAIN) => return Ok(written),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends a FIN after the data that was written.
pub fn finish(fd: &OwnedFd) -> io::Result<()> {
    match rustix::net::shutdown(fd, rustix::net::Shutdown::Write) {
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the error that is pending on the socket, if there is one.
pub fn failure(fd: impl AsFd) -> io::Result<()> {
    match sockopt::socket_error(fd)? {
        Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Creates a socket for datagrams between these addresses, with this DSCP and ECN field. A host may have several sockets with the
/// same port and different peers.
pub fn datagrams(at: SocketAddrV4, peer: SocketAddrV4, tos: u8) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    // The buffers never overflow, so the hosts drop no datagrams.
    sockopt::set_socket_send_buffer_size(&fd, BUFFER)?;
    sockopt::set_socket_recv_buffer_size(&fd, BUFFER)?;
    set_tos(&fd, tos)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, &at)?;
    rustix::net::connect(&fd, &peer)?;
    Ok(fd)
}

/// Sends a datagram of this IP length, with its number and this time as payload.
pub fn send_datagram(fd: &OwnedFd, number: u32, now: Time, ip_length: u32, zeros: &mut [u8]) -> io::Result<()> {
    let length = (ip_length - UDP_HEADERS) as usize;
    zeros[..4].copy_from_slice(&number.to_be_bytes());
    zeros[4..DATAGRAM_HEAD].copy_from_slice(&now.0.to_be_bytes());
    rustix::net::send(fd, &zeros[..length], rustix::net::SendFlags::NOSIGNAL)?;
    zeros[..DATAGRAM_HEAD].fill(0);
    Ok(())
}

/// Reads the next datagram that waits, if one does. Returns its number and its time of sending.
pub fn take_datagram(fd: &OwnedFd) -> io::Result<Option<(u32, Time)>> {
    let mut head = [0; DATAGRAM_HEAD];
    match rustix::net::recv(fd, &mut head, rustix::net::RecvFlags::empty()) {
        Ok(_) => {
            let (number, sent) = head.split_at(4);
            let number = number.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
            let sent = sent.iter().fold(0, |sent, byte| sent << 8 | u64::from(*byte));
            Ok(Some((number, Time(sent))))
        }
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates a socket for echo requests with this identifier, DSCP and ECN field. The kernel of the other host replies with the DSCP
/// and ECN field that arrived.
pub fn pinger(from: Ipv4Addr, identifier: u16, tos: u8) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, Some(ipproto::ICMP))?;
    set_tos(&fd, tos)?;
    rustix::net::bind(&fd, &SocketAddrV4::new(from, identifier))?;
    Ok(fd)
}

/// Sends an echo request of this IP length.
pub fn ping(fd: &OwnedFd, to: Ipv4Addr, number: u16, ip_length: u32) -> io::Result<()> {
    let mut message = vec![0; (ip_length as usize - 20).max(ICMP_HEADER)];
    message[0] = ECHO_REQUEST;
    message[6..8].copy_from_slice(&number.to_be_bytes());
    rustix::net::sendto(fd, &message, rustix::net::SendFlags::NOSIGNAL, &SocketAddrV4::new(to, 0))?;
    Ok(())
}

/// Reads the next reply that waits, if one does. Returns its number.
pub fn reply(fd: &OwnedFd) -> io::Result<Option<u16>> {
    let mut header = [0; ICMP_HEADER];
    loop {
        match rustix::net::recv(fd, &mut header, rustix::net::RecvFlags::empty()) {
            Ok(_) if header[0] == ECHO_REPLY => return Ok(Some(u16::from_be_bytes([header[6], header[7]]))),
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}
