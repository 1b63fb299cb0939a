"""Compiled CPU kernels of simulator statevector_cpu, and the programs that they run."""

import ctypes
import functools
from pathlib import Path

# Compiled at installation, see hatch_build.py.
LIBRARY = Path(__file__).with_name("statevector.so")


@functools.cache
def are_available() -> bool:
    """Return whether the kernels were compiled and support the local processor."""
    if not LIBRARY.exists():
        return False
    return bool(ctypes.CDLL(str(LIBRARY)).qcnn_supports_processor())
