"""Limits of a process (ulimit), and the errors of libraries that reach them."""

import re
import resource
from collections.abc import Mapping

from qcnn.errors import ConfigError

# Limits by the flag of ulimit, and the resources of getrlimit(2).
_RESOURCES = {
    "-v": resource.RLIMIT_AS,
    "-d": resource.RLIMIT_DATA,
    "-u": resource.RLIMIT_NPROC,
    "-n": resource.RLIMIT_NOFILE,
}
# Bytes that two processes on two cores need, with a margin. Libraries may crash without a message below.
_SUFFICIENT = {"-v": 5 * 2**30, "-d": 2 * 2**30}
# Limits below which the smallest network cannot be trained by one process on one core.
_MINIMUM = {"-v": 3 * 10**9, "-d": 6 * 10**8, "-n": 20}
# Messages of the C library, Python, TensorFlow and gRPC, and the limits of which one is reached, by precedence.
_SYMPTOMS = (
    (r"Too many open files", ("-n",)),
    (r"std::bad_alloc|MemoryError|failed to map segment|OOM when allocating", ("-v", "-d")),
    (r"(?i:out of memory|cannot allocate memory)", ("-v", "-d")),
    (r"pthread_create\(\) failed|can't start new thread|Could not create grpc_sync_server", ("-v", "-d", "-u")),
)
_ALLOWED = {
    **{
        flag: f"unlimited or at least {size // 2**30} GiB, more with many cores or large circuits"
        for flag, size in _SUFFICIENT.items()
    },
    "-u": "unlimited or larger, as must be the limit of processes of a container",
    "-n": "unlimited or at least 100, more with many workers",
}


def process_limits() -> dict[str, int]:
    """Return the limits of this process by the flag of ulimit, in bytes or as a number, without unlimited ones."""
    limits = {flag: resource.getrlimit(number)[0] for flag, number in _RESOURCES.items()}
    return {flag: limit for flag, limit in limits.items() if limit != resource.RLIM_INFINITY}


def check_limits(limits: Mapping[str, int] | None = None) -> None:
    """Check that TensorFlow can start with limits, with which it otherwise crashes.

    Args:
        limits: Limits as `process_limits` returns them. None: those of this process.

    Raises:
        ConfigError: If a limit is too small.
    """
    limits = process_limits() if limits is None else limits
    for flag, minimum in _MINIMUM.items():
        if limits.get(flag, minimum) < minimum:
            raise ConfigError(_message(flag, limits[flag]))


def reached_limit(output: str, limits: Mapping[str, int], *, crashed: bool = False) -> str | None:
    """Return the error message for the limit that a failed process has reached, or None.

    Args:
        output: Last lines of the process, or the message of its error.
        limits: Limits of the process, as `process_limits` returns them.
        crashed: Whether a library has crashed the process.
    """
    for symptom, flags in _SYMPTOMS:
        if re.search(symptom, output):
            flag = next((flag for flag in flags if flag in limits), None)
            return flag and _message(flag, limits[flag])
    small = (flag for flag, size in _SUFFICIENT.items() if crashed and limits.get(flag, size) < size)
    return next((_message(flag, limits[flag]) for flag in small), None)


def _message(flag: str, limit: int) -> str:
    given = f"{limit // 1024} KiB" if flag in _SUFFICIENT else str(limit)
    return f"ulimit {flag}: must be {_ALLOWED[flag]}. Given: {given}"
