"""TensorBoard events and profiles of a training run, written by the chief.

Run "." has the experiment fields and the circuit. Runs "train" and "validation" have the curves, so that equal tags
share a chart. A step is the number of updates so far.
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

from qcnn.atomic_files import library_errors
from qcnn.circuits.drawing import draw
from qcnn.data import Samples
from qcnn.errors import ConfigError
from qcnn.experiment.config import ALL_FIELDS, EXPERIMENT_FIELDS, ExperimentConfig, Options
from qcnn.experiment.fields import field_type
from qcnn.experiment.parsing import with_display_values
from qcnn.model.batches import Shards
from qcnn.model.history import EpochMetrics
from qcnn.model.network import readouts_of
from qcnn.model.steps import EpochRunner, Measures
from qcnn.trainer.distribution.joining import restrict_port_to_localhost

logger = logging.getLogger("qcnn")

# Maximum number of readouts with histograms. Each has a separate chart, so more would be slow to view and to write.
MAX_READOUTS = 16
# Maximum number of samples for histograms. Computing the readouts of 16 takes 2 % of an epoch with the default 112.
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


class _ModelViews:
    """Readout function, drawing and graph of a network, which take a second to create."""

    def __init__(self, model: tf_keras.Model) -> None:
        quantum = model.get_layer("quantum")
        network = quantum.simulator.network
        self.names = [network.ring[name] if isinstance(name, int) else name for name in network.head_inputs]
        # The local layer, without collectives, because only the chief runs this.

        def readouts(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
            strings, _ = quantum.strings(inputs)
            return readouts_of(network, strings)

        self.readouts = tf.function(readouts, jit_compile=quantum.large, autograph=False)
        self.drawing = draw(quantum.ansatz)
        inputs = {name: tf.TensorSpec(tensor.shape, tensor.dtype) for name, tensor in model.input.items()}
        # AutoGraph would double the time, although the code needs no conversion.
        self.graph = tf.function(model, autograph=False).get_concrete_function(inputs).graph


# Cache for the networks of this process.
_VIEWS: weakref.WeakKeyDictionary[tf_keras.Model, _ModelViews] = weakref.WeakKeyDictionary()


class TensorBoardWriter:
    """Writer of the events of a training run, which flushes after every epoch."""

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
        if model not in _VIEWS:
            _VIEWS[model] = _ModelViews(model)
        self._views = _VIEWS[model]
        with self._written():
            self._describe(folder)

    def epoch(self, epoch: EpochMetrics, measures: Measures, step: int) -> None:
        """Write the events of an epoch.

        Args:
            epoch: Metrics of the epoch.
            measures: Measures of its updates, (steps, 3).
            step: Number of updates after the epoch.
        """
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
        readouts = self._views.readouts(dict(self._samples.inputs)).numpy()
        for name, column in zip(self._views.names[:MAX_READOUTS], readouts.T, strict=False):
            summary.MergeFrom(histogram_pb(f"readouts/{name}", column))
        self._write("validation", summary, step)
        with self._written():
            for writer in self._writers.values():
                writer.flush()

    def losses(self, epoch: EpochMetrics, step: int) -> None:
        """Write only losses and accuracies, for earlier epochs of the selected initialization."""
        self._write("train", _scalars({"loss": epoch.train_loss, "accuracy": epoch.train_accuracy}), step)
        self._write("validation", _scalars({"loss": epoch.val_loss, "accuracy": epoch.val_accuracy}), step)

    def close(self) -> None:
        """Close the files."""
        with self._written():
            for writer in self._writers.values():
                writer.close()

    def _written(self) -> contextlib.AbstractContextManager[None]:
        return library_errors("logs", self._folder, tf.errors.OpError)

    def _write(self, run: str, summary: Summary, step: int) -> None:
        # One operation for all values of a step, because one per scalar would take as long as an epoch.
        with self._written(), self._writers[run].as_default(step=step):
            tf.summary.experimental.write_raw_pb(summary.SerializeToString())

    def _describe(self, folder: Path) -> None:
        """Write the constant events: experiment fields, circuit and graph."""
        fields = with_display_values(self._config.model_dump())
        values = {**{name: fields[name] for name in EXPERIMENT_FIELDS}, **fields["options"]}
        drawing = self._views.drawing
        # Each folder is one trial, even if its training is resumed.
        trial = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()
        with self._writers["."].as_default(step=0):
            tf.summary.experimental.write_raw_pb(_hparams_table().SerializeToString())
            tf.summary.experimental.write_raw_pb(session_start_pb(values, group_name=trial).SerializeToString())
            tf.summary.text("circuit/text", f"{drawing.title}\n\n```\n{drawing.text}\n```")
            tf.summary.image("circuit/image", drawing.image[None], description=drawing.title)
        with self._writers["train"].as_default(step=0):
            tf.summary.graph(self._views.graph)


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
    """Context manager that returns a writer of events in the chief, and None in other processes.

    Histograms are of the first 16 readouts, over at most one batch and 16 samples of the validation split.

    Args:
        folder: Folder for the events.
        config: Experiment.
        model: Model of the training run.
        optimizer: Optimizer of the training run.
        validation: Samples of the validation split.
        is_chief: Whether this process is the chief.
    """
    if not is_chief:
        yield None
        return
    log = TensorBoardWriter(folder, config, model, optimizer, validation)
    try:
        yield log
    finally:
        log.close()


def _hparams_table() -> Summary:
    """Return the columns of the hparams table: every field with its type, losses and accuracies."""
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
    """Return a summary of scalars by tag, without those that are None."""
    summary = Summary()
    for tag, value in values.items():
        if value is not None:
            summary.MergeFrom(scalar_pb(tag, value))
    return summary


class BatchProfiler:
    """Profiler of a range of batches, counted from 0 over all epochs, which writes one trace.

    An epoch is one call of a compiled loop. The call is split at the start and the end of the range, which does not
    change results. If the range spans several epochs, the trace includes the time between them.
    """

    def __init__(self, batches: range, folder: Path | None) -> None:
        self._batches = batches
        self._folder = folder
        self._running = False

    def run(self, run: EpochRunner, shards: Shards, done: int) -> Measures:
        """Run an epoch and profile its batches that are in the range.

        Args:
            run: Function that runs the epoch.
            shards: Shards of the epoch.
            done: Number of batches before the epoch.

        Returns:
            The measures, float64 (steps, columns).
        """
        steps = len(shards.sizes)
        ends = {min(max(end - done, 0), steps) for end in (self._batches.start, self._batches.stop)}
        measures = []
        for start, stop in itertools.pairwise(sorted({0, *ends, steps})):
            if done + start in self._batches:
                self._start()
            # Marks a step for the profiler. Here a step is one call of the compiled loop.
            with tf.profiler.experimental.Trace("train", step_num=done + start, _r=1):
                measures.append(run(shards, range(start, stop)))
            if done + stop >= self._batches.stop:
                self.stop()
        return np.concatenate(measures)

    def stop(self) -> None:
        """Stop profiling and write the trace."""
        if self._running:
            self._running = False
            with _log_failure():
                tf.profiler.experimental.stop()

    def _start(self) -> None:
        if self._folder and not self._running:
            with _log_failure():
                tf.profiler.experimental.start(str(self._folder))
                self._running = True


def unused_range(options: Options, batches: int) -> str | None:
    """Return a message if all batches to profile are after the last one, or None.

    Args:
        options: Options of the experiment.
        batches: Number of batches of the whole training run.
    """
    if not options.profiled or options.profiled.start < batches:
        return None
    return (
        f"profile_batches: no profile is taken, because the last batch is {batches}. Given: {options.profile_batches}"
    )


@contextlib.contextmanager
def batch_profile(batches: range, folder: Path | None) -> Iterator[BatchProfiler]:
    """Context manager that returns the profiler of a training run.

    Without a folder, as in all processes except the chief, nothing is profiled. Every process must use it, so that all
    split their epochs into the same parts.
    """
    profile = BatchProfiler(batches, folder)
    try:
        yield profile
    finally:
        profile.stop()


def serve_profiles(port: int, required: bool = False, *, to_all: bool = False) -> None:
    """Start TensorFlow's profiler server and log its port.

    Args:
        port: Port of the server.
        required: Whether to raise an error instead of a warning if the port cannot be used.
        to_all: Whether the server accepts connections from other machines.

    Raises:
        ConfigError: If the port cannot be used and the server is required.
    """
    try:
        # TensorFlow would share a port that is in use, and respond instead of another process.
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
    except (OSError, OverflowError) as error:
        message = f"profiler_port: cannot be used ({error}). Given: {port}"
        if required:
            raise ConfigError(message) from None
        logger.warning("training continues without profiler server: %s", message)
        return
    tf.profiler.experimental.server.start(port)
    is_local = not to_all and restrict_port_to_localhost(port)
    logger.info("profiler server on port %d%s", port, " (local connections only)" if is_local else "")


@contextlib.contextmanager
def _log_failure() -> Iterator[None]:
    """Context manager that logs profiler errors, for example because a user profiles through the server."""
    try:
        yield
    except tf.errors.OpError as error:
        logger.warning("profile_batches: no profile was taken (%s)", " ".join(error.message.split()))
