"""Functions of Linux with alternatives for other operating systems, and cores and memory of this machine."""

import contextlib
import ctypes
import dataclasses
import math
import os
import platform
import signal
import socket
import struct
import sys
from pathlib import Path

from qcnn.process import cgroups

# Folders with one entry per open descriptor of the process.
_DESCRIPTORS = (Path("/proc/self/fd"), Path("/dev/fd"))
_MAX_DESCRIPTORS = 2**16
_CPUINFO = Path("/proc/cpuinfo")
# Linux only, see prctl(2), unix(7), socket(7).
_PR_SET_PDEATHSIG = 1
_PEER = "=iII"
_LOOPBACK = b"lo\0"


def name() -> str:
    """Return the names of the operating system and the processor architecture, such as Linux x86_64."""
    return f"{platform.system()} {platform.machine()}"


def cores() -> int:
    """Return the number of cores that this process may use: by its affinity, and by the CPU quota of its container.

    A quota of a fraction of a core is rounded up. Without affinities, the number is that of the machine.
    """
    return cores_of_quota() or _schedulable_cores()


def cores_of_quota() -> int:
    """Return the number of cores of the CPU quota of this process, or 0 if the quota does not limit them.

    Libraries use as many threads as there are cores by affinity, because they do not read the quota.
    """
    quota = cgroups.limits().cores
    return max(1, math.ceil(quota)) if quota < _schedulable_cores() else 0


def _schedulable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of memory that processes may use: in total, and without swapping out other processes.

    `is_limited` is whether the total is the limit of a control group, such as a container, and not the memory of the
    machine.
    """

    total: float
    available: float
    is_limited: bool = False


def memory() -> Memory:
    """Return the memory of this machine, or of the container of this process."""
    # Most commands do not need it.
    import psutil

    physical, limit = psutil.virtual_memory(), cgroups.limits().memory
    return Memory(min(physical.total, limit), min(physical.available, limit), limit < physical.total)


def gpus() -> int:
    """Return the number of NVIDIA GPUs that the driver offers to this process, without loading TensorFlow.

    CUDA_VISIBLE_DEVICES hides GPUs. TensorFlow sees none without its CUDA libraries.
    """
    count = ctypes.c_int()
    with contextlib.suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return count.value
    return 0


def processor() -> str:
    """Return the model name of the processor, or on other systems its architecture."""
    with contextlib.suppress(OSError):
        for line in _CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.machine()


def descriptors() -> set[int]:
    """Return the open descriptors of this process, and the lowest free one, which the listing uses.

    If no folder lists them, return all possible descriptors up to a limit.
    """
    for folder in _DESCRIPTORS:
        with contextlib.suppress(OSError):
            return {int(entry.name) for entry in folder.iterdir()}
    return set(range(min(os.sysconf("SC_OPEN_MAX"), _MAX_DESCRIPTORS)))


def has_fork_server() -> bool:
    """Return whether processes can be forked from a process that has loaded the libraries.

    It requires peer credentials of sockets, the parent death signal, and libraries that support forks. Those of macOS
    do not.
    """
    return hasattr(socket, "SO_PEERCRED") and sys.platform == "linux" and hasattr(ctypes.CDLL(None), "prctl")


def end_with_parent(parent: int) -> None:
    """Kill this process when its parent exits. It requires `has_fork_server`."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def is_same_user(connection: socket.socket) -> bool:
    """Return whether the peer of an abstract socket runs as the same user. If it is unknown, return False."""
    if not hasattr(socket, "SO_PEERCRED"):
        return False
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_PEER))
    return bool(struct.unpack(_PEER, peer)[1] == os.getuid())


def bind_to_loopback(listening: socket.socket) -> None:
    """Bind a listening socket to the loopback interface, so that it accepts local connections only.

    Before Linux 5.7, it requires root.

    Raises:
        OSError: If the socket cannot be bound. On other systems, it is always raised.
    """
    if not hasattr(socket, "SO_BINDTODEVICE"):
        raise OSError(f"{platform.system()} cannot bind a listening socket to an interface")
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _LOOPBACK)


def shared_library(library: str, version: int) -> str:
    """Return the file name of a shared library."""
    return f"lib{library}.{version}.dylib" if sys.platform == "darwin" else f"lib{library}.so.{version}"
