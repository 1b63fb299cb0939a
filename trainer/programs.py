"""Compiled training and validation epochs, cached for further training runs of the same form."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf
import tf_keras

from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.program_key import program_key
from qcnn.experiment.requirements import STRATEGIES
from qcnn.model.batches import Shards
from qcnn.model.network import build_model, initial_weights
from qcnn.model.optimizer import assign, build_optimizer, values_of
from qcnn.model.steps import CompiledEpoch, Measures, gradient_of, measuring_epoch, training_epoch
from qcnn.process.roles import PS
from qcnn.trainer.distribution.parameter_servers import Batch, Coordinator


class _Network:
    """Network that implements `qcnn.trainer.distribution.parameter_servers.TrainableModel`."""

    def __init__(
        self, config: ExperimentConfig, model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer, updates: int
    ) -> None:
        self.weights: Sequence[tf.Variable] = model.trainable_variables
        self.optimizer = optimizer
        self.gradient: Callable[..., tf.Tensor] = gradient_of(model)
        self._config, self._updates = config, updates
        self._compiles = model.get_layer("quantum").compiles

    def clone_optimizer(self) -> tf_keras.optimizers.Optimizer:
        return build_optimizer(self._config, self._updates)

    def compiles(self, batch: Batch) -> bool:
        # XLA cannot compile the sampling of shots.
        return self._compiles and "draw" not in batch


class AsynchronousEpoch:
    """`EpochRunner` whose workers update weights on parameter servers asynchronously.

    The measures have an additional column, the staleness of each update. During learning rate warmup
    (`warmup_fraction`) batches are trained one after the other, because initial gradients are large and soon stale.
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
        """Do nothing, because workers compile the program at their first batch."""

    def __call__(self, shards: Shards, part: range | None = None) -> Measures:
        """Train on all batches, and return the measures, float64 (steps of the part, 4)."""
        steps = range(len(shards.sizes)) if part is None else part
        if not steps:
            return np.zeros((0, 4))
        batches = [{name: array[step, 0] for name, array in shards.arrays.items()} for step in steps]
        warmup = self._optimizer.schedule.warmup_updates - int(self._optimizer.iterations)
        return self._coordinator.run(batches, alone=warmup)


# Number of compiled epochs after which another process trains the next experiment. Each takes 15 MB or more, and
# TensorFlow never frees it.
MAX_COMPILED = 32


class Program:
    """Network, optimizer and compiled epochs for all experiments with the same `program_key`."""

    def __init__(self, config: ExperimentConfig, strategy: tf.distribute.Strategy, updates: int) -> None:
        is_synchronous = STRATEGIES[config.strategy].is_synchronous
        # With asynchronous workers the chief has a local copy, which it validates and saves.
        local = strategy if is_synchronous else tf.distribute.get_strategy()
        with local.scope():
            self.model = build_model(config)
            self.optimizer = build_optimizer(config, updates)
            self.optimizer.build(self.model.trainable_variables)
        # The initial optimizer state does not depend on the experiment.
        self.fresh_optimizer = values_of(self.optimizer.variables)
        self.train: CompiledEpoch | AsynchronousEpoch = (
            training_epoch(local, self.model, self.optimizer)
            if is_synchronous
            else AsynchronousEpoch(config, strategy, self.model, self.optimizer, updates)
        )
        self.validate = measuring_epoch(local, self.model)
        self.replicas = local.num_replicas_in_sync

    @property
    def compiled(self) -> int:
        """Number of epochs that this process has compiled."""
        return sum(each.compiled for each in (self.train, self.validate) if isinstance(each, CompiledEpoch))

    def compile(self, train: Shards, validation: Shards) -> None:
        """Compile training and validation in parallel, for shards of these shapes.

        With several replicas, an epoch is compiled at its first call instead. The replicas must agree on the order of
        collectives, and other cores are busy.
        """
        if self.replicas > 1:
            return
        self.train.trace(train)
        with ThreadPoolExecutor(1) as executor:
            compiled = executor.submit(self.validate, validation, range(0))
            self.train(train, range(0))
            compiled.result()

    def begin(self, config: ExperimentConfig, updates: int) -> None:
        """Reset all variables to those of a new program for an experiment with `updates` updates."""
        assign(self.model.trainable_variables, initial_weights(self.model, config, 0))
        assign(self.optimizer.variables, self.fresh_optimizer)
        self.optimizer.schedule.set(config, updates)


class CompiledFunctions:
    """Strategy of a process, and its compiled programs."""

    def __init__(self) -> None:
        self._strategy: tf.distribute.Strategy | None = None
        self._programs: dict[str, Program] = {}

    @property
    def is_full(self) -> bool:
        """Whether another process must train the next experiment, because of the epochs that this one has compiled."""
        return sum(program.compiled for program in self._programs.values()) >= MAX_COMPILED

    def strategy(self, create: Callable[[], tf.distribute.Strategy]) -> tf.distribute.Strategy:
        """Return the strategy, which is created once, because a process can join a cluster only once."""
        if self._strategy is None:
            self._strategy = create()
        return self._strategy

    def program(self, config: ExperimentConfig, strategy: tf.distribute.Strategy, updates: int) -> Program:
        """Return the program of an experiment with initial values of all variables.

        Args:
            config: Experiment.
            strategy: Strategy of the process.
            updates: Number of updates of the experiment.
        """
        name = program_key(config)
        if name in self._programs:
            self._programs[name].begin(config, updates)
        else:
            self._programs[name] = Program(config, strategy, updates)
        return self._programs[name]
