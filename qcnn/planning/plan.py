"""Cost prediction of an experiment, by operation counts and seconds, without importing TensorFlow."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Sequence

import cirq

from qcnn.circuits.formats.embedded import is_function
from qcnn.circuits.noise import Noise
from qcnn.circuits.preparation import Preparation
from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.requirements import SYNCHRONOUS
from qcnn.model.heads import head_of
from qcnn.planning.machine import MachineProfile, expected_seconds, steps_of
from qcnn.planning.training_estimate import WORKERS, estimate_for_workers
from qcnn.simulators import registry
from qcnn.simulators.interface import SimulatorLimits
from qcnn.simulators.registry import Estimate
from qcnn.simulators.structure.gate_fusion import fuse
from qcnn.simulators.structure.gates import read_model
from qcnn.simulators.structure.light_cones import LightConeTooWideError
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.structure.readouts import find_kinds
from qcnn.simulators.structure.shift_rules import with_shift_rule


@dataclasses.dataclass(frozen=True)
class Counts:
    """Counts of an experiment per epoch, with the cost estimate of each simulator.

    `strings` is the number of Pauli strings that determine the readouts. `cones` has the qubits of the independent
    parts of every distinct string, including traced-out qubits. `by_workers` has the estimates of the chosen simulator.
    `trajectories` is the number of noise trajectories in evaluation.
    """

    samples: int
    train_steps: int
    validation_steps: int
    circuits: int
    readouts: int
    strings: int
    cones: tuple[tuple[int, ...], ...]
    estimates: tuple[Estimate, ...]
    chosen: Estimate
    by_workers: dict[int, Estimate]
    trajectories: int


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Seconds of an epoch by simulator, and with the chosen one by number of synchronous workers."""

    by_simulator: dict[str, float]
    chosen: float
    by_workers: dict[int, float]


def count(config: ExperimentConfig, *, is_remote: bool = False) -> Counts:
    """Count the operations of an experiment.

    Args:
        config: Experiment.
        is_remote: Whether it is trained on other machines, which may have other simulators than this one.

    Raises:
        ConfigError: If the experiment cannot run.

    >>> from qcnn.experiment.parsing import from_mapping
    >>> counts = count(from_mapping({"qubits": 4, "rounds": 10}))
    >>> counts.samples, counts.train_steps, counts.readouts, counts.chosen.simulator
    (40, 1, 2, 'statevector_cpu')
    >>> list(counts.by_workers)
    [1, 2, 4, 8, 16, 32]
    """
    if config.needs_row_count:
        raise ConfigError(f"data: the file must be read first, for its number of rows. Given: {config.data}")
    network, own = network_of(config), dataclasses.replace(config.limits, is_remote=is_remote)
    if config.simulator != "auto":
        registry.check(config.simulator, network, own)
    estimates = registry.estimates(network, own, config.simulator)
    cheapest = registry.cheapest(estimates, network, own).simulator
    name = cheapest if config.simulator == "auto" else config.simulator
    train_steps, validation_steps = steps_of(config)
    splits = config.split_counts
    return Counts(
        samples=sum(dataclasses.astuple(splits)),
        train_steps=train_steps,
        validation_steps=validation_steps,
        circuits=splits.train + splits.validation,
        readouts=len(network.readouts),
        strings=len(network.strings),
        cones=cones_of(network),
        estimates=estimates,
        chosen=next(estimate for estimate in estimates if estimate.simulator == name),
        by_workers={
            workers: estimate_for_workers(
                with_synchronous_workers(config, workers), network, name, workers, is_remote=is_remote
            )
            for workers in WORKERS
            if workers <= config.batch_size
        },
        trajectories=splits.test * config.options.trajectories if config.noise_by_trajectories else 0,
    )


def with_simulator_on_gpus(config: ExperimentConfig) -> ExperimentConfig:
    """Return the experiment with the simulator that trains it on the GPUs of other machines.

    Raises:
        ConfigError: If the experiment cannot run there.
    """
    if config.simulator == "auto":
        network, limits = network_of(config), dataclasses.replace(config.limits_on(gpus=True), is_remote=True)
        chosen = registry.cheapest(registry.estimates(network, limits), network, limits).simulator
        return config.model_copy(update={"simulator": chosen})
    if registry.declaration(config.simulator).compiled_kernels:
        able = " or ".join(["auto", *registry.builtin_simulators()])
        raise ConfigError(f"simulator: must be {able} in processes with GPUs. Given: {config.simulator}")
    return config


def network_of(config: ExperimentConfig) -> CircuitIR:
    """Return the network that an experiment trains.

    Raises:
        ConfigError: If the circuit cannot be built, or no simulator, gradient or head supports it.
    """
    # A module can change between two calls.
    read = _network.__wrapped__ if is_function(config.model) else _network
    network = read(
        config.model,
        config.qubits,
        config.preparation,
        config.noise_in_training,
        gradient=config.options.gradient,
        joint=config.options.head == "probabilities",
    )
    head_of(config, network.ansatz.readouts)
    return network


# Cached, because the check of an experiment and its plan use the same network. Analyzing large ones takes seconds.
@functools.lru_cache(maxsize=1)
def _network(
    model: str, qubits: int, preparation: Preparation, noise: Noise, *, gradient: str, joint: bool
) -> CircuitIR:
    _, network = read_model(model, qubits, preparation, noise, joint=joint)
    return with_shift_rule(network, gradient)


def predict(config: ExperimentConfig, counts: Counts, machine: MachineProfile) -> Prediction:
    """Return the predicted seconds of an experiment's epochs.

    Args:
        config: Experiment.
        counts: Counts of the experiment.
        machine: Profile of every machine.
    """

    def seconds(estimate: Estimate) -> float:
        return expected_seconds(config, counts.readouts, estimate, machine)

    def seconds_of(estimate: Estimate, workers: int) -> float:
        return expected_seconds(with_synchronous_workers(config, workers), counts.readouts, estimate, machine)

    return Prediction(
        by_simulator={estimate.simulator: seconds(estimate) for estimate in counts.estimates},
        chosen=seconds(counts.chosen),
        by_workers={workers: seconds_of(estimate, workers) for workers, estimate in counts.by_workers.items()},
    )


def with_synchronous_workers(config: ExperimentConfig, workers: int) -> ExperimentConfig:
    """Return the experiment with strategy multi_worker and the given number of workers."""
    return config.model_copy(update={"strategy": SYNCHRONOUS, "workers": workers})


def cones_of(network: CircuitIR) -> tuple[tuple[int, ...], ...]:
    """Return the qubits of the independent parts of every distinct Pauli string, including traced-out qubits."""
    kinds = find_kinds(network).kinds
    return tuple(tuple(part.cone.inner + part.cone.outer for part in kind.parts) for kind in kinds)


@dataclasses.dataclass(frozen=True)
class CircuitSummary:
    """Structure of a circuit, and the simulator for it.

    `gates` counts operations by gate type. `depth` is the depth in operations, and `fused_depth` in fused blocks.
    `cones` are those of `Counts`, or None if they are too wide for any memory. `chosen` is the estimate of the selected
    simulator. If no simulator can run the circuit, `chosen` is None and `unsupported_reason` is the reason.
    """

    qubits: int
    parameters: tuple[str, ...]
    readouts: tuple[int | str, ...]
    strings: int
    gates: dict[str, int]
    depth: int
    blocks: int
    fused_depth: int
    cones: tuple[tuple[int, ...], ...] | None
    estimates: tuple[Estimate, ...]
    chosen: Estimate | None
    unsupported_reason: str = ""


def summarize_circuit(network: CircuitIR, limits: SimulatorLimits) -> CircuitSummary:
    """Return the structure of a network's circuit, and the simulator of a training step within limits."""
    operations = list(network.ansatz.circuit.all_operations())
    blocks = fuse(network.gates)
    estimates = registry.estimates(network, limits)
    chosen, unsupported_reason = None, ""
    try:
        chosen = registry.cheapest(estimates, network, limits)
    except ConfigError as error:
        unsupported_reason = str(error)
    return CircuitSummary(
        qubits=network.qubits,
        parameters=tuple(str(symbol.name) for symbol in network.ansatz.symbols),
        readouts=network.readouts,
        strings=len(network.strings),
        gates=dict(Counter(map(kind_of, operations)).most_common()),
        depth=_depth(operation.qubits for operation in operations),
        blocks=len(blocks),
        fused_depth=_depth(block.qubits for block in blocks),
        cones=_cones(network),
        estimates=estimates,
        chosen=chosen,
        unsupported_reason=unsupported_reason,
    )


def kind_of(operation: cirq.Operation) -> str:
    """Return the gate type of an operation, without its parameters.

    >>> [kind_of(gate(cirq.LineQubit(0))) for gate in (cirq.X, cirq.X**0.3, cirq.rx(0.3), cirq.S)]
    ['X', 'XPow', 'Rx', 'ZPow']
    """
    gate = operation.gate
    name = type(gate or operation.untagged).__name__.removeprefix("_Pauli").removesuffix("Gate")
    if isinstance(gate, cirq.ControlledGate):
        name = f"{name} {type(gate.sub_gate).__name__.removeprefix('_Pauli').removesuffix('Gate')}"
    return name.removesuffix("Pow") if isinstance(gate, cirq.EigenGate) and gate.exponent == 1 else name


def _depth(qubits_of_operations: Iterable[Sequence[object]]) -> int:
    """Return the depth of operations that act on these qubits in this order."""
    levels: dict[object, int] = {}
    for qubits in qubits_of_operations:
        level = 1 + max((levels.get(qubit, 0) for qubit in qubits), default=0)
        levels.update(dict.fromkeys(qubits, level))
    return max(levels.values(), default=0)


def _cones(network: CircuitIR) -> tuple[tuple[int, ...], ...] | None:
    try:
        return cones_of(network)
    except LightConeTooWideError:
        return None
