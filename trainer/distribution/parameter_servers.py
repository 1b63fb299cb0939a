"""Asynchronous training: weights on parameter servers, which workers read and update, each in its own time.

The chief hands out batches through TensorFlow's ClusterCoordinator ("Parameter server training", TensorFlow's guide),
which survives the loss of workers. A worker reads the weights, computes a gradient and has it applied, without waiting
for others: by then others may have applied theirs (Dean et al., "Large Scale Distributed Deep Networks", 2012).
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
from tensorflow.python.eager import context

from qcnn.errors import RetryableError
from qcnn.requirements import CHIEF, PS
from qcnn.startup import RETRYABLE, buffer_stderr, end_now, start_compiler
from qcnn.trainer.distribution.joining import answers, connect_directly, limit, restrict_to_localhost, taken_address
from qcnn.trainer.distribution.roles import ClusterConfig

Optimizer: TypeAlias = tf_keras.optimizers.Optimizer
Flat = npt.NDArray[np.float64]

# Seconds between two looks at the chief, and looks without an answer after which it is gone.
_LOOK_SECONDS = 1.0
_UNANSWERED = 3
# How much less an update moves the weights for each other one that comes before it, and the share of that number which
# is forgotten with each update. With 1, `deep` on two workers does not always train; with 10, it trains too slowly.
_CAUTION, _FORGOTTEN = 4.0, 0.05


def serve(cluster: ClusterConfig, is_over: Callable[[], bool], heartbeat_timeout_seconds: float) -> None:
    """Serve as a worker or parameter server until the chief has come and gone.

    One that comes when the training `is_over` has nothing to do.

    Raises:
        RetryableError: the chief did not come within `limit`, or was lost before the training `is_over`, or this
            process' address is taken.
    """
    start_compiler()
    connect_directly(cluster, os.environ)
    addresses = {role: list(hosts) for role, hosts in cluster.training_addresses.items()}
    chief = addresses[CHIEF][0]
    most = limit(cluster, heartbeat_timeout_seconds)
    # Server and chief greet each other, whatever the level of TensorFlow's log.
    with taken_address(cluster), buffer_stderr():
        server = tf.distribute.Server(
            tf.train.ClusterSpec(addresses), job_name=cluster.role, task_index=cluster.index, protocol="grpc"
        )
        restrict_to_localhost(cluster)
        end = time.monotonic() + most
        while not answers(chief):
            if is_over():
                return
            if time.monotonic() > end:
                raise RetryableError(f"lost {CHIEF} 0 (no answer at {chief}), after {most:g} s of waiting")
            time.sleep(_LOOK_SECONDS)
        time.sleep(_LOOK_SECONDS)
    unanswered = 0
    while unanswered < _UNANSWERED:
        unanswered = 0 if answers(chief) else unanswered + 1
        time.sleep(_LOOK_SECONDS)
    # It cannot be stopped, and ends with this process.
    del server
    if not is_over():
        raise RetryableError(f"lost {CHIEF} 0")


class SharedWeights:
    """Float64 weights and the state of their optimizer, in equal shards on the devices of parameter servers.

    `build` makes an optimizer; each shard has one beside it, and each of its updates is whole: no other comes between.
    """

    def __init__(self, devices: Sequence[str], size: int, build: Callable[[], Optimizer]) -> None:
        partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(len(devices))
        (shards,) = partitioner(tf.TensorShape([size]), tf.float64)
        self._sizes = [len(part) for part in np.array_split(np.arange(size), shards)]
        self._shards, self._held, self._optimizers, self._sections = [], [], [], []
        for number, each in enumerate(self._sizes):
            with tf.device(devices[number]):
                # A variable of its own: of the shards of a larger one Keras' optimizers keep no list of slots.
                shard = tf.Variable(tf.zeros([each], tf.float64), trainable=False)
                optimizer = build()
                optimizer.build([shard])
                held = tf.Variable(0.0, dtype=tf.float64, trainable=False)
                section = tf.CriticalSection(name=f"shard_{number}", shared_name=f"shard_{number}")
            self._shards.append(shard)
            self._held.append(held)
            self._optimizers.append(optimizer)
            self._sections.append(section)

    def read(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the weights, (size,), and after how many updates they are read; within a worker's function."""
        version = tf.identity(self._optimizers[0].iterations)
        with tf.control_dependencies([version]):
            return tf.concat([shard.read_value() for shard in self._shards], axis=0), version

    def update(self, gradient: tf.Tensor, version: tf.Tensor) -> tf.Tensor:
        """Apply a gradient, (size,), of weights that were read after `version` updates; within a worker's function.

        Returns how many updates others have applied meanwhile.
        """
        behind = []
        parts = tf.split(gradient, self._sizes)
        places = zip(self._shards, self._held, self._optimizers, self._sections, parts, strict=True)
        for shard, held, optimizer, section, part in places:
            with tf.device(shard.device):
                applied = functools.partial(_applied, optimizer, tf.identity(part), tf.identity(version), shard, held)
                behind.append(section.execute(applied))
        return behind[0]

    def push(self, weights: Sequence[npt.NDArray[Any]], optimizer: Sequence[npt.NDArray[Any]]) -> None:
        """Set everything, from the values of a model's variables and of its optimizer's."""
        scalars, slots = _sorted(optimizer, len(weights))
        for shard, part in zip(self._shards, self._parts(_flat(weights)), strict=True):
            shard.assign(part)
        parts = [self._parts(_flat(slot)) for slot in slots]
        for number, own in enumerate(self._optimizers):
            kept = iter(scalars)
            placed = (each[number] for each in parts)
            for variable in own.variables:
                variable.assign(next(kept) if variable.shape.rank == 0 else next(placed))

    def pull(self, weights: Sequence[tf.Variable], optimizer: Sequence[tf.Variable]) -> None:
        """Set the variables of a model and of its optimizer to what is here."""
        _assign_flat(weights, np.concatenate([shard.numpy() for shard in self._shards]))
        scalars, slots = _sorted(optimizer, len(weights))
        own = [[variable.numpy() for variable in each.variables] for each in self._optimizers]
        for variable, value in zip(scalars, (value for value in own[0] if np.ndim(value) == 0), strict=True):
            variable.assign(value)
        for number, slot in enumerate(slots):
            _assign_flat(slot, np.concatenate([[each for each in found if np.ndim(each)][number] for found in own]))

    def _parts(self, values: Flat) -> list[Flat]:
        return np.split(values, np.cumsum(self._sizes)[:-1])


def _applied(
    optimizer: Optimizer, gradient: tf.Tensor, version: tf.Tensor, shard: tf.Variable, held: tf.Variable
) -> tf.Tensor:
    """Apply a gradient; return how many updates came after the weights were read.

    The later updates come, the less each moves the weights, and so the less it can be out of date (after Zhang et al.,
    "Staleness-aware Async-SGD for Distributed Deep Learning", arXiv:1511.05950, section 3). `held` is how late they
    are: the most of late, which is forgotten slowly.
    """
    behind, before = optimizer.iterations - version, shard.read_value()
    with tf.control_dependencies([behind, before]):
        optimizer.apply_gradients([(gradient, shard)], skip_gradients_aggregation=True)
    late = tf.cast(behind, shard.dtype)
    held.assign(tf.maximum(late, held + (late - held) * _FORGOTTEN))
    shard.assign(before + (shard.read_value() - before) / (1 + _CAUTION * held))
    return behind


def _sorted(optimizer: Sequence[Any], count: int) -> tuple[list[Any], list[list[Any]]]:
    """Return an optimizer's numbers, and its slots of every kind, each in the order of the weights.

    Keras' optimizers make the slots of one weight after the other's.
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


# Seconds between two looks at the parameter servers, and looks without an answer after which one is gone.
_PROBE_SECONDS, _UNANSWERED_PROBES = 1.0, 10
# What a gradient is computed from, by name; the shapes of all batches are equal.
Batch: TypeAlias = Mapping[str, npt.NDArray[Any]]


class TrainableModel(Protocol):
    """What a model must provide to be trained by parameter servers; the chief's own copy of it."""

    @property
    def weights(self) -> Sequence[tf.Variable]:
        """Its trained variables, float64."""

    @property
    def optimizer(self) -> tf_keras.optimizers.Optimizer:
        """An optimizer that was built for them."""

    def clone_optimizer(self) -> tf_keras.optimizers.Optimizer:
        """Return one that is made as the optimizer was, for a shard of the weights."""

    def gradient(self, weights: Sequence[tf.Tensor], **batch: tf.Tensor) -> tf.Tensor:
        """Return the gradient of the loss with such weights, flat and in their order, and then any numbers to report.

        Float64. It is traced once, and runs on workers: of what it needs, all must be in its arguments or constant.
        """

    def compiles(self, batch: Batch) -> bool:
        """Whether XLA can compile the gradient of such a batch."""


def _end_without(devices: Sequence[str]) -> None:
    """End this process once a parameter server is gone, or another process at its address, which lacks the weights.

    TensorFlow's coordinator takes that one for the fault of whichever worker meets it, and would try for ever.
    """
    unanswered = dict.fromkeys(devices, 0)
    while max(unanswered.values()) < _UNANSWERED_PROBES:
        time.sleep(_PROBE_SECONDS)
        for device in devices:
            unanswered[device] = 0 if _is_alive(device) else unanswered[device] + 1
    lost = max(devices, key=lambda device: unanswered[device])
    end_now(f"lost {PS} {devices.index(lost)}; the last checkpoint counts", RETRYABLE)


def _is_alive(device: str) -> bool:
    """Whether the process of a device still has what this one has made there."""
    try:
        return bool(context.check_alive(device.partition("/device:")[0]))
    except tf.errors.OpError:
        return False


class Coordinator:
    """Has the workers of a training update the weights of a learner, each in its own time."""

    def __init__(self, strategy: tf.distribute.ParameterServerStrategy, servers: int, learner: TrainableModel) -> None:
        self._learner = learner
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        shapes = [variable.shape for variable in learner.weights]
        sizes = [shape.num_elements() for shape in shapes]
        devices = [f"/job:{PS}/replica:0/task:{number}/device:CPU:0" for number in range(servers)]
        shared = self._shared = SharedWeights(devices, sum(sizes), learner.clone_optimizer)
        threading.Thread(target=_end_without, args=(devices,), name="parameter servers", daemon=True).start()

        def gradient(flat: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
            weights = [tf.reshape(part, shape) for part, shape in zip(tf.split(flat, sizes), shapes, strict=True)]
            return learner.gradient(weights, **batch)

        def step(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            flat, version = shared.read()
            compiled = tf.function(gradient, autograph=False, jit_compile=learner.compiles(batch))
            found = compiled(flat, batch)
            own, reported = found[: sum(sizes)], found[sum(sizes) :]
            behind = tf.cast(shared.update(own, version), found.dtype)
            return tf.concat([reported, [tf.norm(own), behind]], axis=0)

        self._step = tf.function(step, autograph=False)

    def run(self, batches: Iterable[Batch], *, alone: int = 0) -> npt.NDArray[np.float64]:
        """Have every batch trained on; the learner's variables are first handed out and then taken back.

        Returns float64 (batches, numbers + 2): what the learner reports of each, the Euclidean norm of its gradient,
        and how many updates others applied between the reading of the weights and this one. The first `alone` batches
        are each waited for.

        Raises:
            tensorflow.errors.OpError: a parameter server is lost; workers that are lost are waited for.
        """
        variables = self._learner.weights, self._learner.optimizer.variables
        self._shared.push(*([variable.numpy() for variable in each] for each in variables))
        found = []
        for number, batch in enumerate(batches):
            values = {name: tf.constant(array) for name, array in batch.items()}
            # Traced outside of the strategy, within which Keras' optimizers look for replicas that a worker has not.
            program = self._step.get_concrete_function(values)
            found.append(self._coordinator.schedule(program, args=(values,)))
            if number < alone:
                self._coordinator.join()
        self._coordinator.join()
        self._shared.pull(*variables)
        return np.array([each.fetch() for each in found])
