"""Import of TensorFlow and other large libraries, quiet and without needless work."""

import contextlib
import gc
import logging
import os
import sys
from collections.abc import Iterator

from qcnn.process.limits import check_limits
from qcnn.process.standard_streams import buffer_stderr

# Seconds in which a local process must send its first heartbeat, and join the other processes. On a busy machine,
# importing the libraries takes minutes.
START_TIMEOUT_SECONDS = 600.0
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_set_by_libraries: set[str] = set()


def load_tensorflow() -> None:
    """Import TensorFlow and detect devices. Output on stderr is discarded unless the import fails.

    Raises:
        ConfigError: If a limit of this process is too small.
    """
    check_limits()
    with loading():
        import tensorflow as tf

        tf.config.list_physical_devices()
    if logging.root.handlers:
        # TensorFlow itself does so only if the root logger had handlers before the import.
        logging.getLogger("tensorflow").handlers.clear()


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Context manager for importing TensorFlow, which discards output on stderr unless the block fails.

    TensorFlow's libraries print messages (no CUDA driver, oneDNN) before they read the log level.
    """
    before = os.environ.keys() - _set_by_libraries
    os.environ.setdefault(_LOG_LEVEL, "2")
    try:
        with _without_collection(), buffer_stderr():
            yield
    finally:
        if _LOG_LEVEL not in before:
            # It has been read. Processes with another value of it cannot be forked from a server.
            os.environ.pop(_LOG_LEVEL, None)
        _set_by_libraries.update(os.environ.keys() - before)


def own_environment() -> dict[str, str]:
    """Return the environment of this process without the variables that imports of libraries have set."""
    return {name: value for name, value in os.environ.items() if name not in _set_by_libraries}


def importing(library: str) -> contextlib.AbstractContextManager[None]:
    """Return a context manager for a first import of a large library, without garbage collection of its modules."""
    return contextlib.nullcontext() if library in sys.modules else _without_collection()


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Context manager for imports. Later collections skip all objects that exist at its end.

    Imported modules are never freed. Skipping garbage collection saves a fifth of the import time.
    """
    with paused_collection():
        try:
            yield
        finally:
            gc.freeze()


@contextlib.contextmanager
def paused_collection() -> Iterator[None]:
    """Context manager for code that creates many objects and frees few of them, without garbage collection."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def quiet_tracing() -> Iterator[None]:
    """Context manager that loads TensorFlow and suppresses its messages about files and compilation."""
    load_tensorflow()
    logger = logging.getLogger("tensorflow")
    level = logger.level
    # TensorFlow warns about functions that are compiled for each training run.
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def start_compiler() -> None:
    """Initialize TensorFlow's XLA compiler without its messages. A strategy must be created before."""
    import tensorflow as tf

    with buffer_stderr():
        tf.function(lambda value: value + 1, jit_compile=True, autograph=False)(tf.constant(0.0))
