"""Compiled CPU kernels of simulator statevector_cpu, and the programs that they run."""

import ctypes
import functools
import sys
from pathlib import Path
from typing import NamedTuple

from qcnn import tensorflow_internals
from qcnn.errors import single_line
from qcnn.process.operating_system import cores_of_quota

# Compiled at installation, see hatch_build.py. If that fails, the build hook writes the reason to the other file.
LIBRARY = Path(__file__).with_name("statevector.so")
NOT_COMPILED = LIBRARY.with_name("not_compiled.txt")


# Maximum number of threads of a call (MAX_THREADS in threads.inc).
_MAX_THREADS = 64


class Threads(NamedTuple):
    """Threads of a call.

    Attributes:
        maximum: Maximum number of threads, at most `max_threads()`.
        share_bundles: Whether the threads share the operations of a bundle, instead of one thread for each.
    """

    maximum: int
    share_bundles: bool


def max_threads() -> int:
    """Return the maximum number of threads of a call.

    The kernels use at most as many threads as there are cores by affinity, but they do not read the CPU quota.
    """
    return min(_MAX_THREADS, cores_of_quota() or _MAX_THREADS)


@functools.cache
def missing_reason() -> str:
    """Return why TensorFlow cannot run the kernels on this machine, or an empty string if it can."""
    return library_reason() or tensorflow_internals.missing_ffi()


@functools.cache
def library_reason() -> str:
    """Return why the kernels cannot run on this machine, or an empty string if they can."""
    if not LIBRARY.exists():
        return _not_compiled_reason()
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        return f"the library cannot be loaded ({single_line(error)})"
    if not library.qcnn_supports_processor():
        return "this processor has no AVX2"
    return ""


def _not_compiled_reason() -> str:
    if sys.platform != "linux":
        return "compiled on Linux only"
    try:
        reason = single_line(NOT_COMPILED.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        reason = ""
    return "not compiled at installation" + (f", {reason}" if reason else "")
