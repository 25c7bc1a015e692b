"""A network of the run's own, so that both brokers get the same TCP.

Where the system's congestion control is BBR it paces even loopback. Barnabas does without on a loopback address, Apache
Kafka takes what it finds: one would be measured with it and the other without. In a network namespace the setting is
the namespace's own, and both get Reno. That takes Linux and root; elsewhere a run goes on as it is, and says so.
"""

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
SAME = "reno"  # the one that every kernel has, and the one that Barnabas takes on loopback
SAME_FOR_BOTH = f"{SAME} for all, in a network namespace of the run"


def enter_own() -> bool:
    """Gives this process, and what it starts from now on, a network of its own, and says whether that worked. The pid
    stays."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        before = os.open("/proc/self/ns/net", os.O_RDONLY)
    except OSError:
        return False  # not Linux
    try:
        if libc.unshare(CLONE_NEWNET):
            return False  # not root
        try:
            _furnish()
        except OSError:
            if libc.setns(before, CLONE_NEWNET):
                raise
            return False
        return True
    finally:
        os.close(before)


def _furnish() -> None:
    """Sets up a new namespace: its loopback device is down, and its congestion control is the machine's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    CONGESTION_CONTROL.write_text(SAME)
    if congestion_control() != SAME:
        raise OSError("the setting is not the namespace's")


def congestion_control() -> str:
    """Returns the congestion control of a socket that chooses none."""
    with socket.socket() as untouched:
        return untouched.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
