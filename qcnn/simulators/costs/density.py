"""What density matrices cost: the observables that are pulled back through the noisy circuit, whatever the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcnn.errors import ConfigError
from qcnn.simulators.costs.cost import FEW_AMPLITUDES, StepCost, format_bytes, step
from qcnn.simulators.interface import Declaration, SimulatorLimits

if TYPE_CHECKING:
    from qcnn.simulators.structure.gates import CircuitIR
    from qcnn.simulators.structure.heisenberg import PropagatedObservable

# Observables of 4^10 real numbers are 8 MiB, of which a step holds some for each of its gates.
DECLARATION = Declaration(most_qubits=10, holds="4^qubits numbers", noise=True)

_REAL_BYTES = 8
# Forward, back to the observable, and back to the block's matrix.
_SWEEPS = 3
# Of an observable's step: the axes in order, the product, and both for the gradient; and of its end.
_KERNELS_OF_A_STEP, _KERNELS_OF_AN_END = 9, 20
# Numbers of an observable that are held at a time: what each step leaves for the gradient, and what the compiler adds.
_COPIES = 3


def estimate(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a training step."""
    # NumPy and cirq are not needed to declare the simulator.
    from qcnn.simulators.structure.gate_fusion import GateGroup
    from qcnn.simulators.structure.heisenberg import propagate_readouts

    every = propagate_readouts(network)
    total = step(GateGroup(each.block.qubits, (each.block,)) for pulled in every for each in pulled.steps)
    memory = 0.0
    for pulled in every:
        total += _evolution(pulled)
        memory += _memory(pulled, limits)
    return StepCost(total.flops, total.traffic, total.few_flops, total.kernels, memory)


def check(network: CircuitIR, limits: SimulatorLimits) -> None:
    """Refuse what density matrices cannot run.

    Raises:
        ConfigError: the observables do not fit.
    """
    need = estimate(network, limits).memory
    if need > limits.memory:
        raise ConfigError(
            f"qubits: simulator density needs {format_bytes(need)} for the observables of this circuit; "
            f"simulator_memory_gib gives it {format_bytes(limits.memory)}. Given: {network.qubits}"
        )


def _evolution(pulled: PropagatedObservable) -> StepCost:
    numbers = [4.0 ** len(each.after) for each in pulled.steps]
    flops = sum(2.0 * 4 ** len(each.held) * count for each, count in zip(pulled.steps, numbers, strict=True))
    # Its overlap with the data state is a product of as many numbers for each of its qubits.
    flops += 2.0 * 16 * len(pulled.qubits) * 4.0 ** len(pulled.qubits)
    kernels = StepCost(kernels=_KERNELS_OF_A_STEP * len(numbers) + _KERNELS_OF_AN_END)
    if 4.0 ** len(pulled.qubits) <= FEW_AMPLITUDES:
        return kernels + StepCost(few_flops=_SWEEPS * flops)
    # Of numbers of 8 bytes half as many in a second.
    traffic = _SWEEPS * 4.0 * _REAL_BYTES * (sum(numbers) + len(pulled.qubits) * numbers[-1])
    return kernels + StepCost(flops=2 * _SWEEPS * flops, traffic=traffic)


def _memory(pulled: PropagatedObservable, limits: SimulatorLimits) -> float:
    observables = sum(4.0 ** len(each.after) for each in pulled.steps)
    # The data state once for each piece of its qubits, or products of half of the qubits' states a sample.
    whole, half = 4.0 ** len(pulled.qubits), 4.0 ** -(-len(pulled.qubits) // 2)
    data = len(pulled.qubits) * whole + limits.share * half
    return _REAL_BYTES * _COPIES * (observables + data)
