"""Cost of simulator density.

The readouts are propagated backwards through the noisy circuit (Heisenberg picture), once for the whole batch.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from qcnn.errors import ConfigError
from qcnn.simulators.costs.cost import FEW_AMPLITUDES, StepCost, count_distinct_gates, format_bytes, step
from qcnn.simulators.interface import Declaration, SimulatorLimits

if TYPE_CHECKING:
    from qcnn.simulators.structure.heisenberg import PropagatedObservable
    from qcnn.simulators.structure.network import CircuitIR

# An observable of 4^10 real numbers takes 8 MiB, and a step stores several of them per gate.
DECLARATION = Declaration(
    "qcnn.simulators.density", max_qubits=10, holds="4^qubits numbers", noise=True, strings=True, inputs=True
)

_REAL_BYTES = 8
# The forward product, and the gradients of the observable and of the block's matrix.
_SWEEPS = 3
# Kernels of a propagation step (transposition and product, forward and for the gradient), and those of an observable.
_KERNELS_OF_A_STEP, _KERNELS_OF_AN_OBSERVABLE = 9, 20
# Equivalent in kernels of a gate's transfer matrix, beyond that of its matrix. Fitted to step times at 4 and 6 qubits.
_KERNELS_OF_A_GATE = 8
# Copies of an observable in memory: those that each step keeps for the gradient, and those that the compiler adds.
_COPIES = 3


def estimate(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a training step."""
    cost, observables = _of_observables(network)
    if network.inputs:
        # Each sample has its own observables, of which at least one must fit.
        numbers = sum(numbers for _, numbers in observables)
        memory = _REAL_BYTES * _COPIES * numbers * min(limits.share, samples_at_once(network, limits))
        return dataclasses.replace(cost * limits.share, kernels=cost.kernels, memory=memory)
    memory = sum(_memory(qubits, numbers, limits) for qubits, numbers in observables)
    return dataclasses.replace(cost, memory=memory)


def samples_at_once(network: CircuitIR, limits: SimulatorLimits) -> int:
    """Return the number of samples of a circuit with inputs whose observables fit in memory."""
    numbers = sum(numbers for _, numbers in _of_observables(network)[1])
    return max(1, int(limits.memory // (_REAL_BYTES * _COPIES * max(1.0, numbers))))


# A plan estimates the same network for several numbers of workers.
@functools.lru_cache(maxsize=8)
def _of_observables(network: CircuitIR) -> tuple[StepCost, list[tuple[int, float]]]:
    """Return the cost of a step without its memory, and the qubits and numbers of each observable.

    Only the memory depends on the batch.
    """
    # Deferred imports: the declaration does not need NumPy and cirq.
    from qcnn.simulators.structure.gate_fusion import GateGroup
    from qcnn.simulators.structure.heisenberg import propagate_readouts

    every = propagate_readouts(network)
    blocks = {id(each.block): each.block for pulled in every for each in pulled.steps}
    total = step(GateGroup(block.qubits, (block,)) for block in blocks.values())
    total += StepCost(kernels=_KERNELS_OF_A_GATE * count_distinct_gates(blocks.values()))
    for pulled in every:
        total += _evolution(pulled)
    return total, [(len(pulled.qubits), sum(4.0 ** len(each.after) for each in pulled.steps)) for pulled in every]


def check(network: CircuitIR, limits: SimulatorLimits) -> None:
    """Check that the observables of a network fit in memory.

    Raises:
        ConfigError: If the observables do not fit in memory.
    """
    need = estimate(network, limits).memory
    if need > limits.memory:
        raise ConfigError(
            f"qubits: simulator density needs {format_bytes(need)} for the observables of this circuit; "
            f"simulator_memory_gib allows {format_bytes(limits.memory)}. Given: {network.qubits}"
        )


def _evolution(pulled: PropagatedObservable) -> StepCost:
    numbers = [4.0 ** len(each.after) for each in pulled.steps]
    flops = sum(2.0 * 4 ** len(each.held) * count for each, count in zip(pulled.steps, numbers, strict=True))
    # The overlap with the data state: one product of 4^qubits numbers for each qubit.
    flops += 2.0 * 16 * len(pulled.qubits) * 4.0 ** len(pulled.qubits)
    kernels = StepCost(kernels=_KERNELS_OF_A_STEP * len(numbers) + _KERNELS_OF_AN_OBSERVABLE)
    if 4.0 ** len(pulled.qubits) <= FEW_AMPLITUDES:
        return kernels + StepCost(few_flops=_SWEEPS * flops)
    # The speed is stated for 4-byte numbers and halves for 8-byte numbers.
    traffic = _SWEEPS * 4.0 * _REAL_BYTES * (sum(numbers) + len(pulled.qubits) * numbers[-1])
    return kernels + StepCost(flops=2 * _SWEEPS * flops, traffic=traffic, real_bytes=_REAL_BYTES)


def _memory(qubits: int, numbers: float, limits: SimulatorLimits) -> float:
    # Excitations: one copy of the data state per qubit. Product states: products of half of the qubits per sample.
    whole, half = 4.0**qubits, 4.0 ** -(-qubits // 2)
    data = qubits * whole + limits.share * half
    return _REAL_BYTES * _COPIES * (numbers + data)
