"""What a chief does for any model under strategy parameter_server: hand out batches, and take the weights back."""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras
from tensorflow.python.eager import context

from qcnn.trainer.distribution.needs import PS
from qcnn.trainer.distribution.parameter_servers import SharedWeights
from qcnn.trainer.startup import RETRYABLE, end_now

# Seconds between two looks at the parameter servers, and looks without an answer after which one is gone.
_LOOK_SECONDS, _UNANSWERED = 1.0, 10
# What a gradient is computed from, by name; the shapes of all batches are equal.
Batch: TypeAlias = Mapping[str, npt.NDArray[Any]]


class Learner(Protocol):
    """What a model must provide to be trained by parameter servers; the chief's own copy of it."""

    @property
    def weights(self) -> Sequence[tf.Variable]:
        """Its trained variables, float64."""

    @property
    def optimizer(self) -> tf_keras.optimizers.Optimizer:
        """An optimizer that was built for them."""

    def another_optimizer(self) -> tf_keras.optimizers.Optimizer:
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
    while max(unanswered.values()) < _UNANSWERED:
        time.sleep(_LOOK_SECONDS)
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

    def __init__(self, strategy: tf.distribute.ParameterServerStrategy, servers: int, learner: Learner) -> None:
        self._learner = learner
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        shapes = [variable.shape for variable in learner.weights]
        sizes = [shape.num_elements() for shape in shapes]
        devices = [f"/job:{PS}/replica:0/task:{number}/device:CPU:0" for number in range(servers)]
        shared = self._shared = SharedWeights(devices, sum(sizes), learner.another_optimizer)
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
