"""Cost of simulator statevector.

For excitations, a step evolves the samples or the states that they span, whichever are fewer. For all other
preparations it evolves the samples. States that do not fit in memory together are evolved in chunks.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from qcnn.errors import ConfigError
from qcnn.simulators.costs.cost import FEW_AMPLITUDES, StepCost, evolution, format_bytes, step, sweeps
from qcnn.simulators.interface import Declaration, SimulatorLimits

if TYPE_CHECKING:
    from qcnn.simulators.structure.gate_fusion import GateGroup
    from qcnn.simulators.structure.network import CircuitIR

# Amplitude indices are int32.
DECLARATION = Declaration(
    "qcnn.simulators.statevector", max_qubits=30, holds="2^qubits amplitudes", strings=True, inputs=True
)

# Copies of the states in memory: the state, its gradient, and intermediate products. Measured at 22 to 24 qubits: 5.7,
# and 7.1 in chunks; 4 to 5.1 on a GPU.
_COPIES = 7
# Time of preparing, evolving and reading states, relative to their sweeps. Measured at 12 to 16 qubits.
_PREPARE_AND_READ = 1.2
# For excitations, the graph state and one flipped state: a mixed row needs both.
_MIN_SPANNING = 2
# Relative time of a step in chunks: the gradient repeats the forward evolution.
_RECOMPUTATION = 1.25
# Bytes of an amplitude of a sample that is a state.
_INPUT_BYTES = 4
# Arithmetic operations of the exponent and the matrix of a gate with inputs, for each sample. Fitted to step times of
# re-uploading circuits with 2 to 8 qubits and batches of 32 and 256.
_GATE_WITH_INPUTS = 32_000
# Kernels of a readout: the sum over amplitudes, and operations on it. Counted, see `costs.cost`.
_KERNELS_OF_A_READOUT = 2


def estimate(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a training step, with the minimum memory that it needs."""
    count, minimum = _states(network, limits), _min_columns(network)
    fitting = max(minimum, columns(network, limits))
    groups, whole_step = _of_groups(network)
    states = evolution(groups, count * 2.0**network.qubits, real_bytes(network, limits))
    states = dataclasses.replace(
        states, flops=_PREPARE_AND_READ * states.flops, traffic=_PREPARE_AND_READ * states.traffic
    )
    cost = sweeps(groups) + states
    if count > fitting:
        # For excitations, every chunk also evolves the graph state.
        more = -(-count // (fitting - 1)) if _excited(network) else 0
        cost = cost * (_RECOMPUTATION * (count + more) / count)
    cost += whole_step + StepCost(
        few_flops=limits.share * network.gates_by_sample * _GATE_WITH_INPUTS,
        kernels=_KERNELS_OF_A_READOUT * len(network.strings),
    )
    evolved = _column_bytes(network, limits) * max(minimum, min(count, fitting))
    return dataclasses.replace(cost, memory=evolved + _input_bytes(network, limits))


# A plan estimates the same network for several numbers of workers.
@functools.lru_cache(maxsize=8)
def _of_groups(network: CircuitIR) -> tuple[list[GateGroup], StepCost]:
    """Return the groups of a network's gates, and the cost of a step without its states."""
    # Deferred import: the declaration does not need NumPy and cirq.
    from qcnn.simulators.structure.gate_fusion import fuse, group_blocks

    groups = group_blocks(fuse(network.gates))
    return groups, step(groups)


def check(network: CircuitIR, limits: SimulatorLimits) -> None:
    """Check that the minimum number of states fits in memory.

    Raises:
        ConfigError: If the minimum number of states does not fit in memory.
    """
    minimum = _min_columns(network)
    if columns(network, limits) < minimum:
        need = minimum * _column_bytes(network, limits) + _input_bytes(network, limits)
        raise ConfigError(
            f"qubits: simulator statevector needs at least {format_bytes(need)}; "
            f"simulator_memory_gib allows {format_bytes(limits.memory)}. Given: {network.qubits}"
        )


def columns(network: CircuitIR, limits: SimulatorLimits) -> int:
    """Return the number of states that fit in memory."""
    return max(0, int((limits.memory - _input_bytes(network, limits)) // _column_bytes(network, limits)))


def real_bytes(network: CircuitIR, limits: SimulatorLimits) -> int:
    """Return the bytes of the real part of an amplitude, 4 or 8."""
    return 8 if few_amplitudes(network.qubits) else limits.real_bytes


def few_amplitudes(qubits: int) -> bool:
    """Return whether the spanning states have at most `FEW_AMPLITUDES` and are evolved in complex128."""
    return (1 + qubits) << qubits <= FEW_AMPLITUDES


def shards_by_qubit(qubits: int, batch: int, replicas: int) -> bool:
    """Return whether replicas should split a batch of excitations by qubit instead of by sample.

    Splitting by qubit evolves fewer amplitudes, but each replica reads the whole batch.

    Args:
        qubits: Number of qubits.
        batch: Global batch size.
        replicas: Number of replicas.
    """
    by_sample = _states_by_sample(qubits, batch, replicas)
    more_samples = batch - -(-batch // replicas)
    return (by_sample - _states_by_qubit(qubits, replicas)) << qubits > more_samples


def _excited(network: CircuitIR) -> bool:
    return network.preparation.kind == "excitation"


def _states(network: CircuitIR, limits: SimulatorLimits) -> int:
    """Return the number of states that a replica evolves in a step."""
    if not _excited(network):
        return limits.share
    if shards_by_qubit(network.qubits, limits.batch, limits.replicas):
        return _states_by_qubit(network.qubits, limits.replicas)
    return _states_by_sample(network.qubits, limits.batch, limits.replicas)


def _min_columns(network: CircuitIR) -> int:
    return _MIN_SPANNING if _excited(network) else 1


def _states_by_sample(qubits: int, batch: int, replicas: int) -> int:
    return min(-(-batch // replicas), 1 + qubits)


def _states_by_qubit(qubits: int, replicas: int) -> int:
    return 1 + -(-qubits // replicas)


def _column_bytes(network: CircuitIR, limits: SimulatorLimits) -> float:
    return 2.0**network.qubits * 2 * real_bytes(network, limits) * _COPIES


def _input_bytes(network: CircuitIR, limits: SimulatorLimits) -> float:
    """Return the bytes of the samples of a step if samples are states, else 0."""
    return limits.share * _INPUT_BYTES * 2.0**network.qubits if network.preparation.kind == "state" else 0.0
