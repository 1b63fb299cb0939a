"""Cost of simulator lightcone.

For excitations, each distinct part is evolved once, independent of the batch. For features, the parts of every sample
are evolved.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import TYPE_CHECKING

from qcnn.errors import ConfigError
from qcnn.simulators.costs.cost import StepCost, evolution, format_bytes, step, sweeps
from qcnn.simulators.interface import Declaration, SimulatorLimits

if TYPE_CHECKING:
    from qcnn.simulators.structure.network import CircuitIR

DECLARATION = Declaration("qcnn.simulators.lightcone", states=False, strings=True)

# Parts are small: they are evolved in complex128, independent of the precision of state vectors.
_REAL_BYTES = 8
# Relative time of a step in chunks: the gradient repeats the forward evolution.
_RECOMPUTATION = 1.25
# Copies of the states in memory, including their density matrices. Measured.
_COPIES = 8
# Operations to prepare and read an amplitude of a product state, with the gradient, and those for each row of its
# density matrix. Fitted to step times at 4 to 12 qubits.
_PREPARE_AND_READ, _READ_BY_ROW = 100, 10
# Kernels of a batch of parts, and those of a batch of readouts. Counted, see `costs.cost`.
_KERNELS_OF_PARTS, _KERNELS_OF_KINDS = 15, 15


def estimate(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the estimated cost of a training step, with infinite memory if it cannot run."""
    # Deferred import: the declaration does not need NumPy and cirq.
    from qcnn.simulators.structure.light_cones import LightConeTooWideError

    try:
        if network.preparation.kind == "excitation":
            return _of_excitations(network, limits)
        return _of_products(network, limits)
    except LightConeTooWideError:
        return StepCost(memory=math.inf)


def _of_excitations(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a step on excitations."""
    parts, reached = _of_parts(network)
    # Every sample reads the values of the readouts it reaches and writes all readouts. The gradient does the same.
    written = len(network.strings)
    return parts + StepCost(
        flops=4.0 * limits.share * reached * written, traffic=2.0 * 8 * limits.share * (reached + written)
    )


# A plan estimates the same network for several numbers of workers.
@functools.lru_cache(maxsize=8)
def _of_parts(network: CircuitIR) -> tuple[StepCost, int]:
    """Return the cost of the parts of all readouts, and the number of readouts that a sample reaches."""
    from qcnn.simulators.structure.readouts import (
        absorbed_gates,
        find_readouts,
        groups_of,
        parts_by_shape,
        readouts_by_shape,
    )

    readouts = find_readouts(network)
    batches = parts_by_shape(readouts.kinds)
    groups = [[groups_of(cone) for cone in cones] for cones in batches]
    every = itertools.chain.from_iterable(itertools.chain.from_iterable(groups))
    total = step([*every, *map(absorbed_gates, readouts.kinds)])
    total += StepCost(
        kernels=_KERNELS_OF_KINDS * len(readouts_by_shape(readouts.kinds)) + _KERNELS_OF_PARTS * len(batches)
    )
    memory = 0.0
    for cones, groups_of_batch in zip(batches, groups, strict=True):
        total += sweeps(groups_of_batch[0])
        for cone, groups_of_cone in zip(cones, groups_of_batch, strict=True):
            total += evolution(groups_of_cone, cone.amplitudes, _REAL_BYTES)
            memory += cone.amplitudes * 2.0 * _REAL_BYTES * _COPIES
    # The gradient of a value sums over all qubits that use it: a product with a matrix of ones and zeros.
    ones = float(readouts.mixed.max()) * readouts.mixed.size
    total += StepCost(flops=3 * 2 * ones, traffic=3 * 8 * ones)
    return dataclasses.replace(total, memory=memory), readouts.reached.shape[1]


def _of_products(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a step on product states, which evolves every sample's parts."""
    from qcnn.simulators.structure.readouts import absorbed_gates, find_products, groups_of

    found, share = find_products(network), limits.share
    groups = [group for part in found.parts for group in groups_of(part.cone)]
    total = step([*groups, *(absorbed_gates(kind.split) for kind in found.kinds)])
    total += StepCost(
        kernels=_KERNELS_OF_KINDS * len(found.kinds_by_shape) + _KERNELS_OF_PARTS * len(found.parts_by_shape)
    )
    states = StepCost()
    for batch in found.parts_by_shape:
        states += sweeps(groups_of(found.parts[batch[0]].cone))
    for part in found.parts:
        amplitudes = share * len(part.places) * 2.0**part.cone.inner
        states += evolution(groups_of(part.cone), amplitudes, _REAL_BYTES)
        states += StepCost(few_flops=(_PREPARE_AND_READ + _READ_BY_ROW * 2**part.cone.targets) * amplitudes)
    for kind in found.kinds:
        # The forward product, and the gradients of the densities and of the observable.
        states += StepCost(flops=3 * 8.0 * share * len(kind.places) * 4.0**kind.split.targets)
    chunk = fitting(network, limits)
    if share > chunk:
        states *= _RECOMPUTATION
    return dataclasses.replace(total + states, memory=_sample_bytes(network) * min(share, chunk))


def fitting(network: CircuitIR, limits: SimulatorLimits) -> int:
    """Return the number of samples on product states that fit in memory, at least 1."""
    return max(1, int(limits.memory // _sample_bytes(network)))


def _sample_bytes(network: CircuitIR) -> float:
    """Return the memory of one sample on a product state, in bytes."""
    from qcnn.simulators.structure.readouts import find_products

    found = find_products(network)
    states = sum(len(part.places) * 2.0**part.cone.inner for part in found.parts)
    observed = sum(len(kind.places) * 4.0**kind.split.targets for kind in found.kinds)
    return 2 * _REAL_BYTES * _COPIES * (states + observed)


def check(network: CircuitIR, limits: SimulatorLimits) -> None:
    """Check that the parts of the light cones fit in memory.

    Raises:
        ConfigError: If the light cones do not factorize into parts that fit in memory.
    """
    need = estimate(network, limits).memory
    if need > limits.memory:
        raise ConfigError(
            f"qubits: the light cones of this circuit are too wide for simulator lightcone, which needs "
            f"{format_bytes(need)}; simulator_memory_gib allows {format_bytes(limits.memory)}. "
            f"Given: {network.qubits}"
        )
