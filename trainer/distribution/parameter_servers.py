"""Asynchronous training: workers read and update weights on parameter servers independently.

The chief dispatches batches with TensorFlow's ClusterCoordinator ("Parameter server training", TensorFlow's guide),
which tolerates failures of workers. A worker reads the weights, computes a gradient and applies it without waiting for
other workers, which may have applied theirs in between (Dean et al., "Large Scale Distributed Deep Networks", 2012).
"""

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn.errors import RetryableError
from qcnn.process.exit_codes import RETRYABLE
from qcnn.process.library_loading import start_compiler
from qcnn.process.roles import CHIEF, PS
from qcnn.process.standard_streams import buffer_stderr, exit_with_message
from qcnn.tensorflow_internals import liveness_check
from qcnn.trainer.distribution.joining import (
    answers,
    connect_directly,
    join_timeout,
    restrict_to_localhost,
    translate_address_error,
)
from qcnn.trainer.distribution.roles import ClusterConfig

Optimizer: TypeAlias = tf_keras.optimizers.Optimizer
Flat = npt.NDArray[np.float64]

# Seconds between two checks of the chief, and number of failed checks after which it is considered ended.
_CHECK_SECONDS = 1.0
_MAX_FAILED_CHECKS = 3
# An update is divided by 1 + `_DAMPING` x staleness, where the staleness decays by the fraction `_DECAY` per update.
# With a damping of 1, `deep` on two workers does not always train. With 10, training is too slow.
_DAMPING, _DECAY = 4.0, 0.05


def serve(cluster: ClusterConfig, is_over: Callable[[], bool], heartbeat_timeout_seconds: float) -> None:
    """Serve as a worker or parameter server until the chief ends.

    The process returns at once if training is complete.

    Args:
        cluster: Cluster of this process.
        is_over: Function that returns whether training is complete.
        heartbeat_timeout_seconds: Timeout for the chief of a local cluster.

    Raises:
        RetryableError: If the chief does not start within `join_timeout` or fails before training is complete, or the
            address of this process is in use.
    """
    start_compiler()
    connect_directly(cluster, os.environ)
    addresses = {role: list(hosts) for role, hosts in cluster.training_addresses.items()}
    chief = addresses[CHIEF][0]
    timeout = join_timeout(cluster, heartbeat_timeout_seconds)
    # The server prints messages at every log level.
    with translate_address_error(cluster), buffer_stderr():
        server = tf.distribute.Server(
            tf.train.ClusterSpec(addresses), job_name=cluster.role, task_index=cluster.index, protocol="grpc"
        )
        restrict_to_localhost(cluster)
        end = time.monotonic() + timeout
        while not answers(chief):
            if is_over():
                return
            if time.monotonic() > end:
                raise RetryableError(f"lost {CHIEF} 0 (no answer at {chief}), after {timeout:g} s of waiting")
            time.sleep(_CHECK_SECONDS)
        time.sleep(_CHECK_SECONDS)
    failed_checks = 0
    while failed_checks < _MAX_FAILED_CHECKS:
        failed_checks = 0 if answers(chief) else failed_checks + 1
        time.sleep(_CHECK_SECONDS)
    # The server cannot be stopped, and ends with this process.
    del server
    if not is_over():
        raise RetryableError(f"lost {CHIEF} 0")


class SharedWeights:
    """Float64 weights and optimizer state in equal shards on the devices of parameter servers.

    `build` creates the optimizer of a shard. Updates of a shard are atomic.
    """

    def __init__(self, devices: Sequence[str], size: int, build: Callable[[], Optimizer]) -> None:
        partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(len(devices))
        (shards,) = partitioner(tf.TensorShape([size]), tf.float64)
        self._sizes = [len(part) for part in np.array_split(np.arange(size), shards)]
        self._shards, self._staleness, self._optimizers, self._sections = [], [], [], []
        for number, each in enumerate(self._sizes):
            with tf.device(devices[number]):
                # A separate variable, because Keras' optimizers have no list of slots for shards of a larger one.
                shard = tf.Variable(tf.zeros([each], tf.float64), trainable=False)
                optimizer = build()
                optimizer.build([shard])
                staleness = tf.Variable(0.0, dtype=tf.float64, trainable=False)
                section = tf.CriticalSection(name=f"shard_{number}", shared_name=f"shard_{number}")
            self._shards.append(shard)
            self._staleness.append(staleness)
            self._optimizers.append(optimizer)
            self._sections.append(section)

    def read(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the weights, (size,), and the number of updates before this read.

        Call it in a worker's function.
        """
        version = tf.identity(self._optimizers[0].iterations)
        with tf.control_dependencies([version]):
            return tf.concat([shard.read_value() for shard in self._shards], axis=0), version

    def update(self, gradient: tf.Tensor, version: tf.Tensor) -> tf.Tensor:
        """Apply a gradient, (size,), of weights that were read after `version` updates.

        Call it in a worker's function.

        Returns:
            The number of updates that others have applied in between.
        """
        behind = []
        parts = tf.split(gradient, self._sizes)
        states = zip(self._shards, self._staleness, self._optimizers, self._sections, parts, strict=True)
        for shard, staleness, optimizer, section, part in states:
            with tf.device(shard.device):
                apply = functools.partial(_apply, optimizer, tf.identity(part), tf.identity(version), shard, staleness)
                behind.append(section.execute(apply))
        return behind[0]

    def push(self, weights: Sequence[npt.NDArray[Any]], optimizer: Sequence[npt.NDArray[Any]]) -> None:
        """Assign the values of a model's weights and of its optimizer's variables."""
        scalars, slots = _sorted_slots(optimizer, len(weights))
        for shard, part in zip(self._shards, self._parts(_flat(weights)), strict=True):
            shard.assign(part)
        parts = [self._parts(_flat(slot)) for slot in slots]
        for number, shard_optimizer in enumerate(self._optimizers):
            scalar_values = iter(scalars)
            slot_values = (each[number] for each in parts)
            for variable in shard_optimizer.variables:
                variable.assign(next(scalar_values) if variable.shape.rank == 0 else next(slot_values))

    def pull(self, weights: Sequence[tf.Variable], optimizer: Sequence[tf.Variable]) -> None:
        """Assign the shared values to the variables of a model and of its optimizer."""
        _assign_flat(weights, np.concatenate([shard.numpy() for shard in self._shards]))
        scalars, slots = _sorted_slots(optimizer, len(weights))
        shards = [[variable.numpy() for variable in each.variables] for each in self._optimizers]
        for variable, value in zip(scalars, (value for value in shards[0] if np.ndim(value) == 0), strict=True):
            variable.assign(value)
        for number, slot in enumerate(slots):
            _assign_flat(slot, np.concatenate([[each for each in shard if np.ndim(each)][number] for shard in shards]))

    def _parts(self, values: Flat) -> list[Flat]:
        return np.split(values, np.cumsum(self._sizes)[:-1])


def _apply(
    optimizer: Optimizer, gradient: tf.Tensor, version: tf.Tensor, shard: tf.Variable, staleness: tf.Variable
) -> tf.Tensor:
    """Apply a gradient, and return the number of updates since the weights were read.

    Stale updates are damped (after Zhang et al., "Staleness-aware Async-SGD for Distributed Deep Learning",
    arXiv:1511.05950, section 3). `staleness` is the maximum of recent updates, which decays slowly.
    """
    behind, before = optimizer.iterations - version, shard.read_value()
    with tf.control_dependencies([behind, before]):
        optimizer.apply_gradients([(gradient, shard)], skip_gradients_aggregation=True)
    current = tf.cast(behind, shard.dtype)
    staleness.assign(tf.maximum(current, staleness + (current - staleness) * _DECAY))
    shard.assign(before + (shard.read_value() - before) / (1 + _DAMPING * staleness))
    return behind


def _sorted_slots(optimizer: Sequence[Any], count: int) -> tuple[list[Any], list[list[Any]]]:
    """Return the scalars of an optimizer, and its slots by type, each in the order of the weights.

    Keras' optimizers create all slots of one weight before those of the next.
    """
    scalars = [each for each in optimizer if not len(each.shape)]
    others = [each for each in optimizer if len(each.shape)]
    kinds = len(others) // count
    return scalars, [others[kind::kinds] for kind in range(kinds)]


def _flat(arrays: Sequence[npt.NDArray[Any]]) -> Flat:
    return np.concatenate([np.ravel(array) for array in arrays])


def _assign_flat(variables: Sequence[tf.Variable], values: Flat) -> None:
    start = 0
    for variable in variables:
        size = variable.shape.num_elements()
        variable.assign(values[start : start + size].reshape(variable.shape))
        start += size


# Seconds between two checks of the parameter servers, and number of failed checks after which one has failed.
_PROBE_SECONDS, _MAX_FAILED_PROBES = 1.0, 10
# Arguments of the gradient by name. All batches have equal shapes.
Batch: TypeAlias = Mapping[str, npt.NDArray[Any]]


class TrainableModel(Protocol):
    """Interface of a model for training with parameter servers, implemented by the chief's copy."""

    @property
    def weights(self) -> Sequence[tf.Variable]:
        """Trainable variables, float64."""

    @property
    def optimizer(self) -> tf_keras.optimizers.Optimizer:
        """Optimizer that was built for the weights."""

    def clone_optimizer(self) -> tf_keras.optimizers.Optimizer:
        """Return a new optimizer with the same settings, for a shard of the weights."""

    def gradient(self, weights: Sequence[tf.Tensor], **batch: tf.Tensor) -> tf.Tensor:
        """Return the flat gradient of the loss in the order of the weights, then numbers to report, float64.

        The function is traced once and runs on workers, so it may depend only on its arguments and constants.
        """

    def compiles(self, batch: Batch) -> bool:
        """Return whether XLA can compile the gradient of a batch."""


def _exit_on_server_failure(devices: Sequence[str], check: Callable[[str], bool]) -> None:
    """Exit after a parameter server fails or restarts, because a restarted one lacks the weights.

    TensorFlow's coordinator would treat that as an error of the worker, and retry forever.
    """
    failed_probes = dict.fromkeys(devices, 0)
    while max(failed_probes.values()) < _MAX_FAILED_PROBES:
        time.sleep(_PROBE_SECONDS)
        for device in devices:
            failed_probes[device] = 0 if _is_alive(device, check) else failed_probes[device] + 1
    failed = max(devices, key=lambda device: failed_probes[device])
    exit_with_message(f"lost {PS} {devices.index(failed)}; training resumes from the last checkpoint", RETRYABLE)


def _is_alive(device: str, check: Callable[[str], bool]) -> bool:
    """Return whether the process of a device still has the variables of this process."""
    try:
        return check(device.partition("/device:")[0])
    except tf.errors.OpError:
        return False


class Coordinator:
    """Chief of asynchronous training, which dispatches batches to workers.

    Raises:
        ConfigError: If TensorFlow cannot monitor parameter servers.
    """

    def __init__(self, strategy: tf.distribute.ParameterServerStrategy, servers: int, model: TrainableModel) -> None:
        self._model = model
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        shapes = [variable.shape for variable in model.weights]
        sizes = [shape.num_elements() for shape in shapes]
        devices = [f"/job:{PS}/replica:0/task:{number}/device:CPU:0" for number in range(servers)]
        shared = self._shared = SharedWeights(devices, sum(sizes), model.clone_optimizer)
        watched = (devices, liveness_check())
        threading.Thread(target=_exit_on_server_failure, args=watched, name="parameter servers", daemon=True).start()

        def gradient(flat: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
            weights = [tf.reshape(part, shape) for part, shape in zip(tf.split(flat, sizes), shapes, strict=True)]
            return model.gradient(weights, **batch)

        def step(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            flat, version = shared.read()
            compiled = tf.function(gradient, autograph=False, jit_compile=model.compiles(batch))
            result = compiled(flat, batch)
            gradients, reported = result[: sum(sizes)], result[sum(sizes) :]
            behind = tf.cast(shared.update(gradients, version), result.dtype)
            return tf.concat([reported, [tf.norm(gradients), behind]], axis=0)

        self._step = tf.function(step, autograph=False)

    def run(self, batches: Iterable[Batch], *, alone: int = 0) -> npt.NDArray[np.float64]:
        """Train on every batch, starting from the model's variables, and update these at the end.

        Args:
            batches: Arguments of the gradient for each batch.
            alone: Number of first batches that are trained on one after the other.

        Returns:
            float64 (batches, numbers + 2): the reported numbers of each batch, the Euclidean norm of its gradient, and
            the number of updates by others between reading the weights and its update.

        Raises:
            tensorflow.errors.OpError: If a parameter server fails. The coordinator waits for failed workers.
        """
        variables = self._model.weights, self._model.optimizer.variables
        self._shared.push(*([variable.numpy() for variable in each] for each in variables))
        results = []
        for number, batch in enumerate(batches):
            values = {name: tf.constant(array) for name, array in batch.items()}
            # Traced outside of the strategy, in which Keras' optimizers would expect replicas that workers do not have.
            program = self._step.get_concrete_function(values)
            results.append(self._coordinator.schedule(program, args=(values,)))
            if number < alone:
                self._coordinator.join()
        self._coordinator.join()
        self._shared.pull(*variables)
        return np.array([each.fetch() for each in results])
