"""How a process of the image starts: quiet while TensorFlow loads, one line when it cannot go on."""

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator

from trainer.errors import QcnnError

# The process' own fault, never worth a retry: TFJob's restartPolicy ExitCode takes 1 to 127 as permanent.
OWN_FAULT = 2


def load_tensorflow() -> None:
    """Import TensorFlow and look for devices, holding back what that prints on stderr unless it fails.

    Its libraries greet before any log level counts (no CUDA driver, oneDNN), in every process.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with _stderr_held_back():
        import tensorflow as tf

        tf.config.list_physical_devices()


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """End the process with one line on stderr where the cause is known; show log lines on stdout."""
    logger = logging.getLogger("trainer")
    logger.setLevel(logging.INFO)
    if not logger.handlers:
        # Of its own: Kubeflow's executor puts time and name before what goes to the root logger.
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    except QcnnError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(OWN_FAULT) from None


@contextlib.contextmanager
def _stderr_held_back() -> Iterator[None]:
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(original, held.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)
