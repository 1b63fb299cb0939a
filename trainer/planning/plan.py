"""What an experiment will cost, before it runs: counted first, then told in seconds of a machine. No TensorFlow."""

import dataclasses

from qcnn.trainer.config import ExperimentConfig
from qcnn.trainer.errors import ConfigError
from qcnn.trainer.limits import limits
from qcnn.trainer.planning.expectation import WORKERS, estimate_with
from qcnn.trainer.planning.machine import Machine, expected_seconds, steps_of
from qcnn.trainer.simulators import choice, registry
from qcnn.trainer.simulators.choice import Estimate
from qcnn.trainer.simulators.structure.gates import Network, read_model
from qcnn.trainer.simulators.structure.occurrences import simulated
from qcnn.trainer.simulators.structure.readouts import find_kinds

# What a process takes beside its states: TensorFlow, modules and compiled programs. Measured, see docs/simulators.md.
PROCESS_BYTES = 2.0**30


@dataclasses.dataclass(frozen=True)
class Counts:
    """What an experiment does: samples, steps and circuits of an epoch, readouts, and each simulator's estimate.

    `cones` holds the qubits of the independent parts of every kind of readout, traced out ones included; `by_workers`
    the estimates of the chosen simulator; `trajectories` is how many the evaluation draws to estimate noise.
    """

    samples: int
    train_steps: int
    validation_steps: int
    circuits: int
    readouts: int
    cones: tuple[tuple[int, ...], ...]
    estimates: tuple[Estimate, ...]
    chosen: Estimate
    by_workers: dict[int, Estimate]
    trajectories: int


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Seconds of an epoch on a machine with each simulator, and with the chosen one by the workers that are in step."""

    by_simulator: dict[str, float]
    chosen: float
    by_workers: dict[int, float]


def count(config: ExperimentConfig) -> Counts:
    """Count what an experiment does.

    Raises:
        ConfigError: the experiment cannot run.

    >>> from qcnn.trainer.config import from_mapping
    >>> counts = count(from_mapping({"qubits": 4, "rounds": 10}))
    >>> counts.samples, counts.train_steps, counts.readouts, counts.chosen.simulator
    (40, 1, 2, 'statevector')
    >>> list(counts.by_workers)
    [1, 2, 4, 8, 16, 32]
    """
    if config.is_open:
        raise ConfigError(f"data: the number of its rows is known once it has been read. Given: {config.data}")
    _, network = read_model(config.model, config.qubits, config.preparation, config.noise_in_training)
    network = simulated(network, config.options.gradient)
    own = limits(config)
    if config.simulator != "auto":
        registry.check(config.simulator, network, own)
    estimates = choice.estimates(network, own)
    cheapest = choice.cheapest(estimates, network, own).simulator
    name = cheapest if config.simulator == "auto" else config.simulator
    train_steps, validation_steps = steps_of(config)
    splits = config.split_counts
    return Counts(
        samples=sum(dataclasses.astuple(splits)),
        train_steps=train_steps,
        validation_steps=validation_steps,
        circuits=splits.train + splits.validation,
        readouts=len(network.readouts),
        cones=cones_of(network),
        estimates=estimates,
        chosen=next(estimate for estimate in estimates if estimate.simulator == name),
        by_workers={
            workers: estimate_with(in_step(config, workers), network, name, workers)
            for workers in WORKERS
            if workers <= config.batch_size
        },
        trajectories=splits.test * config.options.trajectories if config.noise_by_trajectories else 0,
    )


def process_bytes(states: float) -> float:
    """Return the bytes of memory that a worker process takes in all, of those of its states."""
    return PROCESS_BYTES + states


def predict(config: ExperimentConfig, counts: Counts, machine: Machine) -> Prediction:
    """Tell what was counted of an experiment in seconds of a machine."""

    def seconds(estimate: Estimate) -> float:
        return expected_seconds(config, counts.readouts, estimate, machine)

    def seconds_of(estimate: Estimate, workers: int) -> float:
        return expected_seconds(in_step(config, workers), counts.readouts, estimate, machine)

    return Prediction(
        by_simulator={estimate.simulator: seconds(estimate) for estimate in counts.estimates},
        chosen=seconds(counts.chosen),
        by_workers={workers: seconds_of(estimate, workers) for workers, estimate in counts.by_workers.items()},
    )


def in_step(config: ExperimentConfig, workers: int) -> ExperimentConfig:
    """Return an experiment whose batches so many workers share."""
    return config.model_copy(update={"strategy": "multi_worker", "workers": workers})


def cones_of(network: Network) -> tuple[tuple[int, ...], ...]:
    """Return, for every kind of readout, the qubits of its independent parts, traced out ones included."""
    kinds = find_kinds(network).kinds
    return tuple(tuple(part.cone.inner + part.cone.outer for part in kind.parts) for kind in kinds)
