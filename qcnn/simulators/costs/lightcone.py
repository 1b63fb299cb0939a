"""What windows cost: of excitations each kind of part once, whatever the batch; of features, every sample's parts."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from qcnn.errors import ConfigError
from qcnn.simulators.costs.cost import StepCost, evolution, format_bytes, step, sweeps
from qcnn.simulators.interface import Declaration, SimulatorLimits

if TYPE_CHECKING:
    from qcnn.simulators.structure.gates import CircuitIR

DECLARATION = Declaration(states=False)

# Parts are small: they are evolved in complex128, whatever state vectors are.
_REAL_BYTES = 8
# How much longer a step takes whose samples are evolved in turns: once more forward for the gradient.
_AGAIN = 1.25
# States that the sweeps hold at a time, and their density matrices. Measured.
_COPIES = 8
# What an amplitude of a product state takes to be made and read, and back, and more for each row of its density.
# Measured.
_MADE_AND_READ, _READ_BY_ROW = 500, 48
# Of a batch of parts, and of a batch of kinds of readouts, put together from them. Counted, see `costs.cost`.
_KERNELS_OF_PARTS, _KERNELS_OF_KINDS = 15, 15


def estimate(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a training step, counted before anything runs; infinite memory where it is impossible."""
    # NumPy and cirq are not needed to declare the simulator.
    from qcnn.simulators.structure.light_cones import LightConeTooWideError

    try:
        if network.preparation.kind == "excitation":
            return _of_excitations(network, limits)
        return _of_products(network, limits)
    except LightConeTooWideError:
        return StepCost(memory=math.inf)


def _of_excitations(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a step, one sample a reached readout included."""
    from qcnn.simulators.structure.readouts import absorbed_gates, alike_kinds, alike_parts, find_readouts, groups_of

    readouts = find_readouts(network)
    batches = alike_parts(readouts.kinds)
    groups = [group for cones in batches for cone in cones for group in groups_of(cone)]
    total = step([*groups, *map(absorbed_gates, readouts.kinds)])
    total += StepCost(kernels=_KERNELS_OF_KINDS * len(alike_kinds(readouts.kinds)) + _KERNELS_OF_PARTS * len(batches))
    memory = 0.0
    for cones in batches:
        total += sweeps(groups_of(cones[0]))
        for cone in cones:
            total += evolution(groups_of(cone), cone.amplitudes, _REAL_BYTES)
            memory += cone.amplitudes * 2.0 * _REAL_BYTES * _COPIES
    # Putting together: every sample reads what it reaches and writes all readouts, and the gradient does so again.
    reached, written = readouts.reached.shape[1], len(network.readouts)
    total += StepCost(
        flops=4.0 * limits.share * reached * written, traffic=2.0 * 8 * limits.share * (reached + written)
    )
    # The gradient adds up over all qubits what one value of a kind did: a product with a matrix of ones and zeros.
    ones = float(readouts.mixed.max()) * readouts.mixed.size
    total += StepCost(flops=3 * 2 * ones, traffic=3 * 8 * ones)
    return dataclasses.replace(total, memory=memory)


def _of_products(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a step that evolves every sample's parts, in turns where they need more memory."""
    from qcnn.simulators.structure.readouts import absorbed_gates, find_products, groups_of

    found, share = find_products(network), limits.share
    groups = [group for part in found.parts for group in groups_of(part.cone)]
    total = step([*groups, *(absorbed_gates(kind.split) for kind in found.kinds)])
    total += StepCost(kernels=_KERNELS_OF_KINDS * len(found.alike_kinds) + _KERNELS_OF_PARTS * len(found.alike_parts))
    states = StepCost()
    for alike in found.alike_parts:
        states += sweeps(groups_of(found.parts[alike[0]].cone))
    for part in found.parts:
        amplitudes = share * len(part.places) * 2.0**part.cone.inner
        states += evolution(groups_of(part.cone), amplitudes, _REAL_BYTES)
        states += StepCost(few_flops=(_MADE_AND_READ + _READ_BY_ROW * 2**part.cone.targets) * amplitudes)
    for kind in found.kinds:
        # Forward, and back to the densities and to the observable.
        states += StepCost(flops=3 * 8.0 * share * len(kind.places) * 4.0**kind.split.targets)
    at_a_time = fitting(network, limits)
    if share > at_a_time:
        states *= _AGAIN
    return dataclasses.replace(total + states, memory=_sample_bytes(network) * min(share, at_a_time))


def fitting(network: CircuitIR, limits: SimulatorLimits) -> int:
    """Return how many samples on product states are evolved at a time, at least one."""
    return max(1, int(limits.memory // _sample_bytes(network)))


def _sample_bytes(network: CircuitIR) -> float:
    """Return the bytes that one sample on a product state takes."""
    from qcnn.simulators.structure.readouts import find_products

    found = find_products(network)
    states = sum(len(part.places) * 2.0**part.cone.inner for part in found.parts)
    observed = sum(len(kind.places) * 4.0**kind.split.targets for kind in found.kinds)
    return 2 * _REAL_BYTES * _COPIES * (states + observed)


def check(network: CircuitIR, limits: SimulatorLimits) -> None:
    """Refuse what windows cannot run.

    Raises:
        ConfigError: the light cones do not fall into parts that fit.
    """
    need = estimate(network, limits).memory
    if need > limits.memory:
        raise ConfigError(
            f"qubits: the light cones of this circuit are too wide for simulator lightcone, which needs "
            f"{format_bytes(need)}; simulator_memory_gib gives it {format_bytes(limits.memory)}. "
            f"Given: {network.qubits}"
        )
