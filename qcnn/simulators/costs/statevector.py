"""What state vectors cost: the states that are evolved, all of them together or in turns.

Of excitations these are the fewer of the samples and what they span; however else data is prepared, the samples.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from qcnn.errors import ConfigError
from qcnn.simulators.costs.cost import FEW_AMPLITUDES, StepCost, evolution, format_bytes, step, sweeps
from qcnn.simulators.interface import Declaration, SimulatorLimits

if TYPE_CHECKING:
    from qcnn.simulators.structure.gates import CircuitIR

# Amplitudes are numbered in int32.
DECLARATION = Declaration(most_qubits=30, holds="2^qubits amplitudes")

# States that are held at a time: the state, its gradient, and what a product makes of them. Measured: 6 where it is
# compiled, more where TensorFlow runs it operation by operation.
_COPIES = 10
# How much longer than their sweeps many amplitudes take, which are also made and read. Measured at 12 to 16 qubits.
_MADE_AND_READ = 1.2
# Of excitations, the graph state and a flipped one: a mixed row needs both.
_LEAST_SPANNING = 2
# How much longer a step takes whose states are evolved in turns: once more forward for the gradient.
_AGAIN = 1.25
# Of a number of a state that is a sample itself.
_GIVEN_BYTES = 4
# Of a readout: its sum over amplitudes, and what is made of it. Counted, see `costs.cost`.
_KERNELS_OF_A_READOUT = 2


def estimate(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a training step; its memory is the least that will do."""
    # NumPy and cirq are not needed to declare the simulator.
    from qcnn.simulators.structure.gate_fusion import fuse, group_blocks

    count, least = _states(network, limits), _least_columns(network)
    fitting = max(least, columns(network, limits))
    groups = group_blocks(fuse(network.gates))
    states = evolution(groups, count * 2.0**network.qubits, real_bytes(network, limits))
    states = dataclasses.replace(states, flops=_MADE_AND_READ * states.flops, traffic=_MADE_AND_READ * states.traffic)
    cost = sweeps(groups) + states
    if count > fitting:
        # Every turn of what excitations span evolves the graph state again.
        more = -(-count // (fitting - 1)) if _excited(network) else 0
        cost = cost * (_AGAIN * (count + more) / count)
    cost += step(groups) + StepCost(kernels=_KERNELS_OF_A_READOUT * len(network.readouts))
    evolved = _column_bytes(network, limits) * max(least, min(count, fitting))
    return dataclasses.replace(cost, memory=evolved + _given_bytes(network, limits))


def check(network: CircuitIR, limits: SimulatorLimits) -> None:
    """Refuse what state vectors cannot run.

    Raises:
        ConfigError: not even a few states fit.
    """
    least = _least_columns(network)
    if columns(network, limits) < least:
        need = least * _column_bytes(network, limits) + _given_bytes(network, limits)
        raise ConfigError(
            f"qubits: simulator statevector needs {format_bytes(need)} for the least it can work "
            f"with; simulator_memory_gib gives it {format_bytes(limits.memory)}. Given: {network.qubits}"
        )


def columns(network: CircuitIR, limits: SimulatorLimits) -> int:
    """Return how many states fit at a time."""
    return max(0, int((limits.memory - _given_bytes(network, limits)) // _column_bytes(network, limits)))


def real_bytes(network: CircuitIR, limits: SimulatorLimits) -> int:
    """Return the bytes of a real number of a state."""
    return 8 if few_amplitudes(network.qubits) else limits.real_bytes


def few_amplitudes(qubits: int) -> bool:
    """Whether all states together are so small that they are evolved in complex128."""
    return (1 + qubits) << qubits <= FEW_AMPLITUDES


def shards_by_qubit(qubits: int, batch: int, replicas: int) -> bool:
    """Whether replicas that share excitations by qubit spare more amplitudes than they have more samples to look at."""
    by_sample = _states_by_sample(qubits, batch, replicas)
    # Each then reads the whole batch, of which what is not its own weighs nothing.
    more_samples = batch - -(-batch // replicas)
    return (by_sample - _states_by_qubit(qubits, replicas)) << qubits > more_samples


def _excited(network: CircuitIR) -> bool:
    return network.preparation.kind == "excitation"


def _states(network: CircuitIR, limits: SimulatorLimits) -> int:
    """Return how many states a replica evolves in a step."""
    if not _excited(network):
        return limits.share
    if shards_by_qubit(network.qubits, limits.batch, limits.replicas):
        return _states_by_qubit(network.qubits, limits.replicas)
    return _states_by_sample(network.qubits, limits.batch, limits.replicas)


def _least_columns(network: CircuitIR) -> int:
    return _LEAST_SPANNING if _excited(network) else 1


def _states_by_sample(qubits: int, batch: int, replicas: int) -> int:
    return min(-(-batch // replicas), 1 + qubits)


def _states_by_qubit(qubits: int, replicas: int) -> int:
    return 1 + -(-qubits // replicas)


def _column_bytes(network: CircuitIR, limits: SimulatorLimits) -> float:
    return 2.0**network.qubits * 2 * real_bytes(network, limits) * _COPIES


def _given_bytes(network: CircuitIR, limits: SimulatorLimits) -> float:
    """Return the bytes of the samples of a step, where these are states."""
    return limits.share * _GIVEN_BYTES * 2.0**network.qubits if network.preparation.kind == "state" else 0.0
