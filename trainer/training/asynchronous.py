"""An epoch under strategy parameter_server: it begins and ends in the chief's own model and optimizer."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tf_keras

from qcnn.trainer.config import ExperimentConfig
from qcnn.trainer.distribution.coordination import Batch, Coordinator
from qcnn.trainer.distribution.needs import PS
from qcnn.trainer.training.batches import Shards
from qcnn.trainer.training.optimizer import build_optimizer
from qcnn.trainer.training.steps import Measures, gradient_of


class _Network:
    """A network as `qcnn.trainer.distribution.coordination.Learner` says."""

    def __init__(
        self, config: ExperimentConfig, model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer, updates: int
    ) -> None:
        self.weights: Sequence[tf.Variable] = model.trainable_variables
        self.optimizer = optimizer
        self.gradient: Callable[..., tf.Tensor] = gradient_of(model)
        self._config, self._updates = config, updates
        self._compiles = model.get_layer("quantum").compiles

    def another_optimizer(self) -> tf_keras.optimizers.Optimizer:
        return build_optimizer(self._config, self._updates)

    def compiles(self, batch: Batch) -> bool:
        # XLA cannot compile the sampling of shots.
        return self._compiles and "draw" not in batch


class AsynchronousEpoch:
    """An `EpochRun` whose workers each take a batch, and update the weights on the parameter servers in their own time.

    Its measures have one column more: how many updates others applied between a worker's reading of the weights and
    its own. While the learning rate rises (`warmup`) a worker waits for the one before: at first, gradients are large
    and soon out of date.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        strategy: tf.distribute.ParameterServerStrategy,
        model: tf_keras.Model,
        optimizer: tf_keras.optimizers.Optimizer,
        updates: int,
    ) -> None:
        self._optimizer = optimizer
        self._coordinator = Coordinator(strategy, config.replicas[PS], _Network(config, model, optimizer, updates))

    def trace(self, shards: Shards) -> None:
        """Do nothing: workers compile the program when they get their first batch."""

    def __call__(self, shards: Shards, part: range | None = None) -> Measures:
        """Return float64 (steps of the part, 4) once all its batches have been trained on."""
        steps = range(len(shards.sizes)) if part is None else part
        if not steps:
            return np.zeros((0, 4))
        batches = [{name: array[step, 0] for name, array in shards.arrays.items()} for step in steps]
        rising = self._optimizer.schedule.rising - int(self._optimizer.iterations)
        return self._coordinator.run(batches, alone=rising)
