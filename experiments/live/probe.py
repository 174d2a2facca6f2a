"""Measures a path from outside of it: datagrams with the time of sending, stamped by the kernel where they arrive.

    probe.py receive PORT COUNT SECONDS > ARRIVALS
    probe.py send ADDRESS PORT COUNT GAP_US SIZE

Both use the system's clock, so they must run on one machine. ARRIVALS has a line for each datagram: its number, the
time of sending, the time of arrival, and its payload in bytes; times in nanoseconds. It ends after COUNT datagrams, or
SECONDS after the start.
"""

import socket
import struct
import sys
import time

HEAD = struct.Struct("!QQ")
STAMP = struct.Struct("qq")


def receive(port: int, count: int, seconds: float) -> None:
    """Prints the datagrams that arrive."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        # Python has no name for SO_TIMESTAMPNS, which is 35 on Linux.
        sock.setsockopt(socket.SOL_SOCKET, 35, 1)
        sock.bind(("", port))
        end = time.monotonic() + seconds
        rows = []
        while len(rows) < count and (rest := end - time.monotonic()) > 0:
            sock.settimeout(rest)
            try:
                data, ancillary, _, _ = sock.recvmsg(65536, 64)
            except TimeoutError:
                break
            [(_, _, stamp)] = ancillary
            second, nanosecond = STAMP.unpack(stamp)
            rows.append((*HEAD.unpack(data[: HEAD.size]), second * 1_000_000_000 + nanosecond, len(data)))
    print("\n".join(" ".join(map(str, row)) for row in rows))


def send(address: str, port: int, count: int, gap_us: float, size: int) -> None:
    """Sends datagrams at fixed times."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((address, port))
        rest = bytes(size - HEAD.size)
        begin = time.monotonic()
        for number in range(count):
            if (wait := begin + number * gap_us / 1e6 - time.monotonic()) > 0:
                time.sleep(wait)
            sock.send(HEAD.pack(number, time.time_ns()) + rest)


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "receive":
        receive(int(words[0]), int(words[1]), float(words[2]))
    else:
        send(words[0], int(words[1]), int(words[2]), float(words[3]), int(words[4]))
