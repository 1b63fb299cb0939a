"""What TensorBoard shows of a training, profiles included; written by the chief alone.

Run "." holds words and circuit, "train" and "validation" the curves, so that equal tags share a chart.
A step is the number of updates so far.
"""

import contextlib
import hashlib
import itertools
import logging
import socket
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams.summary import experiment_pb, session_start_pb
from tensorboard.plugins.scalar.summary_v2 import scalar_pb

from qcnn.atomic_files import written_by_library
from qcnn.circuits.drawing import draw
from qcnn.data import Samples
from qcnn.errors import ConfigError
from qcnn.experiment import ALL_FIELDS, EXPERIMENT_FIELDS, ExperimentConfig
from qcnn.experiment_io import as_shown
from qcnn.fields import field_type
from qcnn.model.batches import Shards
from qcnn.model.history import EpochMetrics
from qcnn.model.steps import EpochRunner, Measures
from qcnn.trainer.distribution.joining import keep_port_to_machine

logger = logging.getLogger("qcnn")

# Each has a chart of its own: more are slow to look at and to write.
MAX_READOUTS = 16
# Computing readouts takes the time: for 16 samples 2 % of an epoch of the default 112.
_MAX_SAMPLES = 16
_DATA_TYPES = {
    int: api_pb2.DATA_TYPE_FLOAT64,
    float: api_pb2.DATA_TYPE_FLOAT64,
    str: api_pb2.DATA_TYPE_STRING,
}
_METRICS = {
    "validation": {"loss": "val_loss", "accuracy": "val_accuracy"},
    "train": {"loss": "train_loss", "accuracy": "train_accuracy"},
}


class _Shown:
    """What is shown of a network whatever it is trained on; to make it takes a second."""

    def __init__(self, model: tf_keras.Model) -> None:
        quantum = model.get_layer("quantum")
        # The layer by itself, of this process: nothing here may wait for another worker.
        self.readouts = tf.function(quantum.readouts, jit_compile=quantum.large, autograph=False)
        self.drawing = draw(quantum.ansatz)
        inputs = {name: tf.TensorSpec(given.shape, given.dtype) for name, given in model.input.items()}
        # AutoGraph would take half of the time, and finds nothing to rewrite.
        self.graph = tf.function(model, autograph=False).get_concrete_function(inputs).graph


# Of each network that this process has.
_SHOWN: weakref.WeakKeyDictionary[tf_keras.Model, _Shown] = weakref.WeakKeyDictionary()


class TensorBoardWriter:
    """Writes events of one training, flushed after every epoch so that it can be watched."""

    def __init__(
        self,
        folder: Path,
        config: ExperimentConfig,
        model: tf_keras.Model,
        optimizer: tf_keras.optimizers.Optimizer,
        validation: Samples,
    ) -> None:
        self._folder = folder
        with self._written():
            runs = (".", "train", "validation")
            self._writers = {run: tf.summary.create_file_writer(str(folder / run)) for run in runs}
        self._config = config
        self._optimizer = optimizer
        self._quantum = model.get_layer("quantum")
        self._samples = validation.take(np.arange(min(len(validation), config.batch_size, _MAX_SAMPLES)))
        if model not in _SHOWN:
            _SHOWN[model] = _Shown(model)
        self._shown = _SHOWN[model]
        with self._written():
            self._describe(folder)

    def epoch(self, epoch: EpochMetrics, measures: Measures, step: int) -> None:
        """Write an epoch that ended after `step` updates; `measures` (steps, 3) are those of its updates."""
        if self._config.options.log_every == "batch":
            for update, (loss, accuracy, norm, *_) in enumerate(measures, step - len(measures) + 1):
                accuracy = None if epoch.train_accuracy is None else accuracy
                batch = {"batch/loss": loss, "batch/accuracy": accuracy, "batch/gradient_norm": norm}
                self._write("train", _scalars(batch), update)
        values = self._quantum.parameters.numpy()
        train = {
            "loss": epoch.train_loss,
            "accuracy": epoch.train_accuracy,
            "gradient_norm": measures[:, 2].mean(),
            "learning_rate": self._optimizer.learning_rate.numpy(),
            **{f"parameters/{s}": value for s, value in zip(self._quantum.ansatz.symbols, values, strict=True)},
        }
        if epoch.largest_staleness:
            train |= {"staleness": epoch.staleness, "largest_staleness": epoch.largest_staleness}
        self._write("train", _scalars(train), step)
        summary = _scalars({"loss": epoch.val_loss, "accuracy": epoch.val_accuracy})
        readouts = self._shown.readouts(dict(self._samples.inputs))[0].numpy()
        for qubit, column in zip(self._quantum.ansatz.readouts[:MAX_READOUTS], readouts.T, strict=False):
            summary.MergeFrom(histogram_pb(f"readouts/{qubit}", column))
        self._write("validation", summary, step)
        with self._written():
            for writer in self._writers.values():
                writer.flush()

    def losses(self, epoch: EpochMetrics, step: int) -> None:
        """Write losses and accuracies alone, as of an epoch of a start that was tried and now goes on."""
        self._write("train", _scalars({"loss": epoch.train_loss, "accuracy": epoch.train_accuracy}), step)
        self._write("validation", _scalars({"loss": epoch.val_loss, "accuracy": epoch.val_accuracy}), step)

    def close(self) -> None:
        """Close the files."""
        with self._written():
            for writer in self._writers.values():
                writer.close()

    def _written(self) -> contextlib.AbstractContextManager[None]:
        return written_by_library("logs", self._folder, tf.errors.OpError)

    def _write(self, run: str, summary: Summary, step: int) -> None:
        # One operation for all that belongs to a step: one for each scalar would take as long as an epoch.
        with self._written(), self._writers[run].as_default(step=step):
            tf.summary.experimental.write_raw_pb(summary.SerializeToString())

    def _describe(self, folder: Path) -> None:
        """Write what does not change: the experiment's words, the circuit and the graph."""
        words = as_shown(self._config.model_dump())
        values = {**{name: words[name] for name in EXPERIMENT_FIELDS}, **words["options"]}
        drawing = self._shown.drawing
        # Each folder is a trial of its own, however often its training is continued.
        trial = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()
        with self._writers["."].as_default(step=0):
            tf.summary.experimental.write_raw_pb(_table_of_runs().SerializeToString())
            tf.summary.experimental.write_raw_pb(session_start_pb(values, group_name=trial).SerializeToString())
            tf.summary.text("circuit/text", f"{drawing.title}\n\n```\n{drawing.text}\n```")
            tf.summary.image("circuit/image", drawing.image[None], description=drawing.title)
        with self._writers["train"].as_default(step=0):
            tf.summary.graph(self._shown.graph)


@contextlib.contextmanager
def event_log(
    folder: Path,
    config: ExperimentConfig,
    model: tf_keras.Model,
    optimizer: tf_keras.optimizers.Optimizer,
    validation: Samples,
    *,
    is_chief: bool,
) -> Iterator[TensorBoardWriter | None]:
    """Yield the log of a training in `folder`, None unless this is the chief.

    Histograms are of the first 16 readouts, over at most a batch and 16 samples of `validation`.
    """
    if not is_chief:
        yield None
        return
    log = TensorBoardWriter(folder, config, model, optimizer, validation)
    try:
        yield log
    finally:
        log.close()


def _table_of_runs() -> Summary:
    """Return the columns of the hparams table: every word with its type, and the losses and accuracies."""
    metrics = [
        api_pb2.MetricInfo(name=api_pb2.MetricName(group=run, tag=tag), display_name=name)
        for run, tags in _METRICS.items()
        for tag, name in tags.items()
    ]
    return experiment_pb(
        [api_pb2.HParamInfo(name=name, type=_DATA_TYPES[field_type(field)]) for name, field in ALL_FIELDS.items()],
        metrics,
    )


def _scalars(values: Mapping[str, float | None]) -> Summary:
    """Return numbers by tag; of those that there are none of nothing is shown."""
    summary = Summary()
    for tag, value in values.items():
        if value is not None:
            summary.MergeFrom(scalar_pb(tag, value))
    return summary


class BatchProfiler:
    """Profiles batches, counted from 0 over all epochs, into one trace.

    An epoch is one call of a compiled loop; the call is cut where the range begins and ends, which changes
    no number. Where the range spans epochs the trace holds what happens between them too.
    """

    def __init__(self, batches: range, folder: Path | None) -> None:
        self._batches = batches
        self._folder = folder
        self._running = False

    def run(self, run: EpochRunner, shards: Shards, done: int) -> Measures:
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
def batch_profile(batches: range, folder: Path | None) -> Iterator[BatchProfiler]:
    """Yield the profile of a training, written into `folder`; None, as for all but the chief, profiles nothing.

    Every process takes part, so that all cut their epochs in the same places.
    """
    profile = BatchProfiler(batches, folder)
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
