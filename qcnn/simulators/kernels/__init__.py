"""Compiled CPU kernels of simulator statevector_cpu, and the programs that they run."""

import ctypes
import functools
import sys
from pathlib import Path

from qcnn import tensorflow_internals
from qcnn.errors import single_line

# Compiled at installation, see hatch_build.py. If that fails, the build hook writes the reason to the other file.
LIBRARY = Path(__file__).with_name("statevector.so")
NOT_COMPILED = LIBRARY.with_name("not_compiled.txt")


@functools.cache
def missing_reason() -> str:
    """Return why the kernels cannot run on this machine, or an empty string if they can."""
    if not LIBRARY.exists():
        return _not_compiled_reason()
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        return f"the library cannot be loaded ({single_line(error)})"
    if not library.qcnn_supports_processor():
        return "this processor has no AVX2"
    return tensorflow_internals.missing_ffi()


def _not_compiled_reason() -> str:
    if sys.platform != "linux":
        return "compiled on Linux only"
    try:
        reason = single_line(NOT_COMPILED.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        reason = ""
    return "not compiled at installation" + (f", {reason}" if reason else "")
