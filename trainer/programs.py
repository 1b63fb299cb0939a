"""The compiled programs of an epoch and of a validation, kept for the next training of the same kind."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from qcnn.experiment import ExperimentConfig, affecting
from qcnn.fields import Affects
from qcnn.model.batches import Shards
from qcnn.model.network import build_model, initial_weights
from qcnn.model.optimizer import assign, build_optimizer, values_of
from qcnn.model.steps import CompiledEpoch, Measures, gradient_of, measuring_epoch, training_epoch
from qcnn.requirements import PS, STRATEGIES
from qcnn.trainer.distribution.parameter_servers import Batch, Coordinator


class _Network:
    """A network as `qcnn.trainer.distribution.parameter_servers.TrainableModel` says."""

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
    """An `EpochRun` whose workers each take a batch, and update the weights on the parameter servers in their own time.

    Its measures have one column more: how many updates others applied between a worker's reading of the weights and
    its own. During learning-rate warmup (`warmup_fraction`) a worker waits for the one before: at first, gradients are
    large and soon out of date.
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
        rising = self._optimizer.schedule.warmup_updates - int(self._optimizer.iterations)
        return self._coordinator.run(batches, alone=rising)


# Each takes tens of megabytes.
_KEPT = 8


class Program:
    """A network, its optimizer and its compiled epochs, for every experiment with the same `key`."""

    def __init__(self, config: ExperimentConfig, strategy: tf.distribute.Strategy, updates: int) -> None:
        in_step = STRATEGIES[config.strategy].in_step
        # Where workers are not in step the chief keeps a copy of its own, which it validates and saves.
        own = strategy if in_step else tf.distribute.get_strategy()
        with own.scope():
            self.model = build_model(config)
            self.optimizer = build_optimizer(config, updates)
            self.optimizer.build(self.model.trainable_variables)
        # What an optimizer begins with does not depend on the experiment.
        self.fresh_optimizer = values_of(self.optimizer.variables)
        self.train: CompiledEpoch | AsynchronousEpoch = (
            training_epoch(own, self.model, self.optimizer)
            if in_step
            else AsynchronousEpoch(config, strategy, self.model, self.optimizer, updates)
        )
        self.validate = measuring_epoch(own, self.model)
        self.replicas = own.num_replicas_in_sync

    def compile(self, train: Shards, validation: Shards) -> None:
        """Compile the epochs of such shards: validation on another core, beside training, which takes longer.

        Several replicas compile one after the other, when each epoch first runs: they have to agree on the turns of
        their collectives, and the other cores are at work.
        """
        if self.replicas > 1:
            return
        self.train.trace(train)
        with ThreadPoolExecutor(1) as beside:
            compiled = beside.submit(self.validate, validation, range(0))
            self.train(train, range(0))
            compiled.result()

    def begin(self, config: ExperimentConfig, updates: int) -> None:
        """Set all variables as a new program of this experiment, of so many updates, would have them."""
        assign(self.model.trainable_variables, initial_weights(self.model, config, 0))
        assign(self.optimizer.variables, self.fresh_optimizer)
        self.optimizer.schedule.set(config, updates)


class CompiledFunctions:
    """The strategy of a process, and the programs that it compiled last."""

    def __init__(self) -> None:
        self._strategy: tf.distribute.Strategy | None = None
        self._programs: dict[str, Program] = {}

    def strategy(self, create: Callable[[], tf.distribute.Strategy]) -> tf.distribute.Strategy:
        """Return the strategy, created at the first training: a process joins others only once."""
        if self._strategy is None:
            self._strategy = create()
        return self._strategy

    def begun(self, config: ExperimentConfig, strategy: tf.distribute.Strategy, updates: int) -> Program:
        """Return the program of an experiment of so many updates, its variables as at the beginning of a training."""
        name = key(config)
        if name in self._programs:
            program = self._programs.pop(name)
            program.begin(config, updates)
        else:
            program = Program(config, strategy, updates)
        # The one that was used last stands last.
        self._programs[name] = program
        for oldest in list(self._programs)[:-_KEPT]:
            del self._programs[oldest]
        return program


def key(config: ExperimentConfig) -> str:
    """Return a text that is the same for experiments that share a program.

    Where workers are not in step, the optimizers of the parameter servers hold an experiment's numbers too.
    """
    words: dict[str, Any] = config.model_dump()
    if not STRATEGIES[config.strategy].in_step:
        return repr(sorted(words.items()))
    options = words.pop("options")
    # The others are numbers of variables or of samples, or are read around the compiled program.
    program = affecting(Affects.PROGRAM)
    inside = {name: value for name, value in {**words, **options}.items() if name in program}
    return repr(sorted(inside.items()))
