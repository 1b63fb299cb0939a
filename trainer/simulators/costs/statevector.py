"""What state vectors cost: the states that are evolved, all of them together or in turns."""

import dataclasses
import math

from trainer.config import STATEVECTOR_MAX_QUBITS
from trainer.errors import ConfigError
from trainer.simulators.costs.cost import FEW_AMPLITUDES, Cost, evolution, in_words, step, sweeps
from trainer.simulators.interface import Limits
from trainer.simulators.structure.gates import Network
from trainer.simulators.structure.groups import collect, fuse

# States that are held at a time: the state, its gradient, and what a product makes of them. Measured: 6 where it is
# compiled, more where TensorFlow runs it operation by operation.
_COPIES = 10
# How much longer than their sweeps many amplitudes take, which are also made and read. Measured at 12 to 16 qubits.
_MADE_AND_READ = 1.2
# The graph state and a flipped one: a mixed row needs both.
_LEAST_COLUMNS = 2
# Of a readout: its sum over amplitudes, and what is made of it. Counted, see `costs.cost`.
_KERNELS_OF_A_READOUT = 2


def estimate(network: Network, limits: Limits) -> Cost:
    """Return the cost of a training step; its memory is the least that will do."""
    if network.qubits > STATEVECTOR_MAX_QUBITS:
        return Cost(memory=math.inf)
    count = _states(network.qubits, limits.batch, limits.replicas)
    fitting = max(_LEAST_COLUMNS, columns(network, limits))
    groups = collect(fuse(network.gates))
    states = evolution(groups, count * 2.0**network.qubits, real_bytes(network, limits))
    states = dataclasses.replace(states, flops=_MADE_AND_READ * states.flops, traffic=_MADE_AND_READ * states.traffic)
    cost = sweeps(groups) + states
    if count > fitting:
        # Every group evolves the graph state again, and all of it once more for the gradient.
        turns = -(-count // (fitting - 1))
        cost = cost * (1.25 * (count + turns) / count)
    cost += step(groups) + Cost(kernels=_KERNELS_OF_A_READOUT * len(network.readouts))
    return dataclasses.replace(cost, memory=_column_bytes(network, limits) * max(_LEAST_COLUMNS, min(count, fitting)))


def check(network: Network, limits: Limits) -> None:
    """Refuse what state vectors cannot run.

    Raises:
        ConfigError: not even a few states fit.
    """
    if network.qubits > STATEVECTOR_MAX_QUBITS:
        raise ConfigError(
            f"qubits: must be at most {STATEVECTOR_MAX_QUBITS} with simulator statevector, which holds 2^qubits "
            f"amplitudes. Given: {network.qubits}"
        )
    if columns(network, limits) < _LEAST_COLUMNS:
        least = _LEAST_COLUMNS * _column_bytes(network, limits)
        raise ConfigError(
            f"qubits: simulator statevector needs {in_words(least)} for the least it can work "
            f"with; memory_gib gives it {in_words(limits.memory)}. Given: {network.qubits}"
        )


def columns(network: Network, limits: Limits) -> int:
    """Return how many states fit at a time."""
    return int(limits.memory // _column_bytes(network, limits))


def real_bytes(network: Network, limits: Limits) -> int:
    """Return the bytes of a real number of a state."""
    return 8 if few_amplitudes(network.qubits) else limits.real_bytes


def few_amplitudes(qubits: int) -> bool:
    """Whether all states together are so small that they are evolved in complex128."""
    return (1 + qubits) << qubits <= FEW_AMPLITUDES


def by_qubit(qubits: int, batch: int, replicas: int) -> bool:
    """Whether replicas that share a step by qubit spare more amplitudes than they have more samples to look at."""
    by_sample = _states_by_sample(qubits, batch, replicas)
    # Each then reads the whole batch, of which what is not its own weighs nothing.
    more_samples = batch - -(-batch // replicas)
    return (by_sample - _states_by_qubit(qubits, replicas)) << qubits > more_samples


def _states(qubits: int, batch: int, replicas: int) -> int:
    """Return how many states a replica evolves in a step."""
    if by_qubit(qubits, batch, replicas):
        return _states_by_qubit(qubits, replicas)
    return _states_by_sample(qubits, batch, replicas)


def _states_by_sample(qubits: int, batch: int, replicas: int) -> int:
    return min(-(-batch // replicas), 1 + qubits)


def _states_by_qubit(qubits: int, replicas: int) -> int:
    return 1 + -(-qubits // replicas)


def _column_bytes(network: Network, limits: Limits) -> float:
    return 2.0**network.qubits * 2 * real_bytes(network, limits) * _COPIES
