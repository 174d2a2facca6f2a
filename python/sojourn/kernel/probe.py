"""The records of a guest's probe, as its file `seen.bin` has them."""

from __future__ import annotations

import numpy as np

RECORD = np.dtype(
    [
        ("type", "u1"),
        ("fate", "u1"),
        ("ecn", "u1"),
        ("flags", "u1"),
        ("link", "<u2"),
        ("reason", "<u2"),
        ("bytes", "<u4"),
        ("payload", "<u4"),
        ("hosts", "<u4", 2),
        ("ports", "<u2", 2),
        ("protocol", "<u4"),
        ("seq", "<u4"),
        ("ack", "<u4"),
        ("arrival", "<u8"),
        ("start", "<u8"),
        ("end", "<u8"),
    ]
)
"""A packet's record, in the layout of kernel/guest/sojourn_link.h. Records of other types have other fields in its
place.
"""
PACKET, ACKED, RETRANSMITTED, RING, PAUSED = range(5)
"""The types of records."""
DELIVERED, DROPPED, QUEUED = range(3)
"""The fates of packets."""
ACK_FIELDS = {"cwnd": "seq", "at": "arrival", "inflight": "start", "ssthresh": "end"}
"""Fields of an ACKED record, by the name of the packet's field in their place: windows in segments, `at` in ns."""
