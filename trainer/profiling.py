"""Profiles of a range of batches, and of whatever runs when a person asks a worker's profiler server."""

import contextlib
import itertools
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from qcnn.errors import ConfigError
from qcnn.model.batches import Shards
from qcnn.model.steps import EpochRun, Measures
from qcnn.trainer.distribution.joining import keep_port_to_machine

logger = logging.getLogger("qcnn")


class BatchProfile:
    """Profiles batches, counted from 0 over all epochs, into one trace.

    An epoch is one call of a compiled loop; the call is cut where the range begins and ends, which changes
    no number. Where the range spans epochs the trace holds what happens between them too.
    """

    def __init__(self, batches: range, folder: Path | None) -> None:
        self._batches = batches
        self._folder = folder
        self._running = False

    def run(self, run: EpochRun, shards: Shards, done: int) -> Measures:
        """Run an epoch that begins after `done` batches; return its measures (steps, columns)."""
        steps = len(shards.sizes)
        ends = {min(max(end - done, 0), steps) for end in (self._batches.start, self._batches.stop)}
        measures = []
        for start, stop in itertools.pairwise(sorted({0, *ends, steps})):
            if done + start in self._batches:
                self._start()
            # The profiler's pages show a step for each such mark; here a step is one call of the loop.
            with tf.profiler.experimental.Trace("train", step_num=done + start, _r=1):
                measures.append(run(shards, range(start, stop)))
            if done + stop >= self._batches.stop:
                self.stop()
        return np.concatenate(measures)

    def stop(self) -> None:
        """Write what was profiled."""
        if self._running:
            self._running = False
            with _failure_reported():
                tf.profiler.experimental.stop()

    def _start(self) -> None:
        if self._folder and not self._running:
            with _failure_reported():
                tf.profiler.experimental.start(str(self._folder))
                self._running = True


@contextlib.contextmanager
def batch_profile(batches: range, folder: Path | None) -> Iterator[BatchProfile]:
    """Yield the profile of a training, written into `folder`; None, as for all but the chief, profiles nothing.

    Every process takes part, so that all cut their epochs in the same places.
    """
    profile = BatchProfile(batches, folder)
    try:
        yield profile
    finally:
        profile.stop()


def serve_profiles(port: int, required: bool = False, *, to_all: bool = False) -> None:
    """Start TensorFlow's profiler server and log its port; it answers this machine alone, or also others if `to_all`.

    Where the port cannot be used that is logged, and training goes on, unless the server is `required`.

    Raises:
        ConfigError: the port cannot be used, and the server is `required`.
    """
    try:
        # TensorFlow shares a port that is taken already, and then answers for another process.
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
    except (OSError, OverflowError) as error:
        message = f"profiler_port: cannot be used ({error}). Given: {port}"
        if required:
            raise ConfigError(message) from None
        logger.warning("training goes on without profiler server: %s", message)
        return
    tf.profiler.experimental.server.start(port)
    closed = not to_all and keep_port_to_machine(port)
    logger.info("profiler server on port %d%s", port, ", for this machine alone" if closed else "")


@contextlib.contextmanager
def _failure_reported() -> Iterator[None]:
    """Report why no profile is taken, such as one that a person takes through the server, and go on."""
    try:
        yield
    except tf.errors.OpError as error:
        logger.warning("profile_batches: no profile was taken (%s)", " ".join(error.message.split()))
