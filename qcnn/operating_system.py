"""What only some operating systems have, each with what stands in for it elsewhere: Linux has all of it."""

import contextlib
import ctypes
import os
import platform
import signal
import socket
import struct
import sys
from pathlib import Path

# Of a process: what it has open, one entry a descriptor.
_DESCRIPTORS = (Path("/proc/self/fd"), Path("/dev/fd"))
_MOST_DESCRIPTORS = 2**16
_CPUINFO = Path("/proc/cpuinfo")
# Linux' own: see prctl(2), unix(7), socket(7).
_PR_SET_PDEATHSIG = 1
_PEER = "=iII"
_LOOPBACK = b"lo\0"


def name() -> str:
    """Return the operating system and the processor's architecture, as they call themselves."""
    return f"{platform.system()} {platform.machine()}"


def cores() -> int:
    """Return how many cores this process may run on, elsewhere those of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """Return the name of the processor, elsewhere its architecture."""
    with contextlib.suppress(OSError):
        for line in _CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.machine()


def descriptors() -> set[int]:
    """Return the descriptors that this process has open, and that by which it looks, always the lowest that is free.

    Where no folder lists them, all that may be open, within reason.
    """
    for folder in _DESCRIPTORS:
        with contextlib.suppress(OSError):
            return {int(entry.name) for entry in folder.iterdir()}
    return set(range(min(os.sysconf("SC_OPEN_MAX"), _MOST_DESCRIPTORS)))


def has_fork_server() -> bool:
    """Whether processes can be forked from one that has loaded its libraries.

    That takes sockets without files that tell who asks, a process that ends with its parent, and libraries that outlive
    a fork; those of macOS do not.
    """
    return hasattr(socket, "SO_PEERCRED") and sys.platform == "linux" and hasattr(ctypes.CDLL(None), "prctl")


def end_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends; only where there is a fork server."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def is_same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end of a socket without a file is this user's; nobody's is where none tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return False
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_PEER))
    return bool(struct.unpack(_PEER, peer)[1] == os.getuid())


def bind_to_machine(listening: socket.socket) -> None:
    """Let a socket that listens already answer this machine alone, by binding it to an interface.

    Before Linux 5.7 only root may.

    Raises:
        OSError: it cannot be; elsewhere always.
    """
    if not hasattr(socket, "SO_BINDTODEVICE"):
        raise OSError(f"{platform.system()} binds no socket that listens already")
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _LOOPBACK)


def shared_library(library: str, version: int) -> str:
    """Return the name of the file of a shared library."""
    return f"lib{library}.{version}.dylib" if sys.platform == "darwin" else f"lib{library}.so.{version}"
