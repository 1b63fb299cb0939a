"""Cost of simulator statevector_cpu.

Every sample is evolved, in bundles of one vector register. Large states are evolved one at a time instead. For
excitations, a step evolves the samples, or the states that determine the readouts of all samples, whichever are fewer.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from qcnn.errors import ConfigError
from qcnn.simulators.costs.cost import StepCost, count_distinct_gates, format_bytes
from qcnn.simulators.costs.statevector import few_amplitudes
from qcnn.simulators.interface import Declaration, SimulatorLimits

if TYPE_CHECKING:
    from qcnn.simulators.kernels.program import Program
    from qcnn.simulators.structure.network import CircuitIR

# Amplitude indices are int32.
DECLARATION = Declaration(
    "qcnn.simulators.statevector_cpu",
    max_qubits=30,
    holds="2^qubits amplitudes",
    strings=True,
    inputs=True,
    builtin_operations=False,
    compiled_kernels=True,
)

# Bytes of a vector register: a bundle has as many samples as it holds real numbers.
_VECTOR_BYTES = 32
# Copies of given input states: as computed, as the kernels read them, and in between. Measured at 20 and 22 qubits.
_INPUT_COPIES = 3.75
# Threads whose memory is estimated. More are started only if their memory fits.
_THREADS = 2
# Minimum number of qubits of states that are evolved one at a time even if there is memory for a bundle.
ONE_STATE_QUBITS = 20
# Kernels of a step of the compiled program, see `costs.cost`, and equivalents in kernels of the matrices of gates and
# observables: for each gate, and for each element of a row of an observable and block. Fitted to step times at 4 to 16
# qubits.
_KERNELS_OF_A_STEP, _KERNELS_OF_A_GATE, _KERNELS_OF_AN_OBSERVABLE = 50, 1, 2
# Time of operations for a row of a register, forward and backward, in arithmetic operations per sample (see `StepCost`)
# that take as long. A tile has the time of its blocks in addition, by the size of their matrix, and a density matrix
# that of its rows. CNOT gates and single Z take almost no time beyond their tile. `_ELEMENT` is that of an element of
# an observable, once. Fitted to the steps of 60 programs with 4 to 16 qubits on one thread.
_TILE, _BLOCK, _PRODUCT, _MIX, _EXCHANGE, _DENSITY, _DENSITY_ROW, _INPUT = 130, 15, 135, 200, 130, 12, 15, 28
_ELEMENT = 60
# The same for products of Z, for each bit of a row's number.
_STRING_BIT = 5
# Arithmetic operations of the exponent and the matrix of a gate with inputs, for each sample. Fitted to step times of
# re-uploading circuits with 2 to 8 qubits and batches of 32 and 256.
_GATE_WITH_INPUTS = 9_000


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Use of the memory limit.

    Attributes:
        one_state: Whether states are evolved one at a time by all threads, instead of in bundles by one thread each.
        keep: Whether the states of a step are kept for its gradient, instead of evolved again.
        threads: Maximum number of bundles that are evolved at the same time.
        spanning: Whether a step evolves the states that determine the readouts of all excitations.
        columns: Maximum number of samples whose given input states are stored at the same time.
        evolved: Number of samples that a step evolves, including those that fill bundles.
        bytes: Memory of a training step with at most two threads. The least possible if even that does not fit.
    """

    one_state: bool
    keep: bool
    threads: int
    spanning: bool
    columns: int
    evolved: int
    bytes: float


@dataclasses.dataclass(frozen=True)
class _Memory:
    """Bytes of a bundle of samples, or of a state: kept for the gradient, during the gradient, and input states."""

    kept: float
    working: float
    given: float


def plan_memory(network: CircuitIR, limits: SimulatorLimits) -> MemoryPlan:
    """Return how the memory limit is used."""
    # Deferred import: the declaration does not need NumPy and cirq.
    from qcnn.simulators.kernels.lanes import can_spread
    from qcnn.simulators.kernels.program import build

    program, lanes = build(network), samples_of_a_bundle(real_bytes(network, limits))
    of_bundle = _memory(network, limits, program, lanes)
    # Replicas evolve a sample in the same way, whatever their share of the batch.
    one_state = can_spread(program) and (
        network.qubits >= ONE_STATE_QUBITS or _THREADS * of_bundle.working > limits.memory
    )
    samples = 1 if one_state else lanes
    bundles = _bundles(network, limits, samples)
    runs = _program_of_step(network, lanes, one_state=one_state, spanning=bundles.spanning)
    each = _memory(network, limits, runs, samples)
    count = bundles.count
    threads = 1 if one_state else min(_THREADS, count)
    fixed = count * (each.kept + each.given)
    keep = fixed + threads * each.working <= limits.memory
    stored = count
    if not keep:
        if each.given:
            stored = min(count, max(1, int((limits.memory - each.working) // each.given)))
        fixed = stored * each.given
    fitting = max(1, int((limits.memory - fixed) // each.working))
    used = fixed + min(threads, fitting) * each.working
    return MemoryPlan(one_state, keep, fitting, bundles.spanning, samples * stored, samples * count, used)


# A plan estimates the same network for several numbers of workers.
@functools.lru_cache(maxsize=8)
def _program_of_step(network: CircuitIR, lanes: int, *, one_state: bool, spanning: bool) -> Program:
    """Return the program that evolves the bundles or states of a step.

    Args:
        network: Network.
        lanes: Samples of a bundle.
        one_state: See `MemoryPlan`.
        spanning: See `MemoryPlan`.
    """
    # Deferred import: the declaration does not need NumPy and cirq.
    from qcnn.simulators.kernels.lanes import spread
    from qcnn.simulators.kernels.program import build

    program = build(network)
    if one_state:
        return spread(program, lanes)
    return spanning_program(network, program, lanes) if spanning else program


def _memory(network: CircuitIR, limits: SimulatorLimits, program: Program, samples: int) -> _Memory:
    size = real_bytes(network, limits)
    vector = size * samples_of_a_bundle(size)
    kept = 2.0 * vector * program.rows
    given = _INPUT_COPIES * samples * 2 * size * 2.0**network.qubits if network.preparation.kind == "state" else 0.0
    return _Memory(kept, 2 * kept + vector * program.scratch, given)


def estimate(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a training step, with the minimum memory that it needs."""
    from qcnn.simulators.kernels.program import MIN_THREAD_WORK, RECOMPUTATION, Tile, build

    program, plan = build(network), plan_memory(network, limits)
    tiles = [operation for operation in program.operations if isinstance(operation, Tile)]
    observed = sum(2 ** len(each.qubits) * len(each.blocks) for each in program.split.observables)
    lanes = samples_of_a_bundle(real_bytes(network, limits))
    samples = 1 if plan.one_state else lanes
    runs = plan.evolved // samples
    if network.preparation.kind not in ("excitation", "state") and len(network.readouts) > 1:
        # One sample more centers several readouts.
        runs = -(-(limits.share + 1) // samples)
    program = _program_of_step(network, lanes, one_state=plan.one_state, spanning=plan.spanning)
    threads = 1 if runs * program.rows * len(program.operations) < MIN_THREAD_WORK else _THREADS
    flops = runs * _VECTOR_BYTES / 4 * _operations(program) * (1 if plan.keep else RECOMPUTATION)
    return StepCost(
        # The rate of arithmetic operations is that of all threads.
        compiled_flops=flops * _THREADS / threads + limits.share * network.gates_by_sample * _GATE_WITH_INPUTS,
        kernels=_KERNELS_OF_A_STEP
        + _KERNELS_OF_A_GATE * count_distinct_gates(block for tile in tiles for block in tile.blocks)
        + _KERNELS_OF_AN_OBSERVABLE * observed,
        memory=plan.bytes,
    )


def _operations(program: Program) -> float:
    """Return the arithmetic operations per sample that take as long as a program, with one sample in each lane."""
    # Deferred import: the declaration does not need NumPy and cirq.
    from qcnn.simulators.kernels.program import Density, Exchange, Mix, Product, Spread, Tile, ZProducts, flip

    total = sum(_INPUT * 2.0 ** len(register.qubits) for register in program.registers[: program.leaves])
    split = program.split
    total += sum(_ELEMENT * 4.0 ** len(each.qubits) for each in split.observables if each not in split.products)
    for operation in program.operations:
        match operation:
            case Tile():
                blocks = (each for each in operation.blocks if not flip(each))
                each_row = _TILE + sum(_BLOCK * 2 ** len(block.qubits) for block in blocks)
            case Product():
                each_row = _PRODUCT
            case Mix():
                each_row = _MIX
            case Exchange() | Spread():
                each_row = _EXCHANGE
            case Density():
                each_row = _DENSITY + _DENSITY_ROW * 2 ** len(operation.qubits)
            case ZProducts():
                each_row = _STRING_BIT * len(program.registers[operation.target].qubits)
            case _:
                each_row = 0
        total += each_row * 2.0 ** len(program.registers[operation.target].qubits)
    return total


def check(network: CircuitIR, limits: SimulatorLimits) -> None:
    """Check that a bundle of samples fits in memory.

    Raises:
        ConfigError: If it does not fit.
    """
    need = plan_memory(network, limits).bytes
    if need > limits.memory:
        raise ConfigError(
            f"qubits: simulator statevector_cpu needs at least {format_bytes(need)}; "
            f"simulator_memory_gib allows {format_bytes(limits.memory)}. Given: {network.qubits}"
        )


def real_bytes(network: CircuitIR, limits: SimulatorLimits) -> int:
    """Return the bytes of the real part of an amplitude, 4 or 8.

    Few amplitudes of excitations have those of `statevector`: the number of workers may change the selected simulator,
    but not the training.
    """
    if network.preparation.kind == "excitation" and few_amplitudes(network.qubits):
        return 8
    return limits.real_bytes


def samples_of_a_bundle(real_bytes: int) -> int:
    """Return the number of samples of a bundle.

    Args:
        real_bytes: Bytes of a real number, 4 or 8.
    """
    return _VECTOR_BYTES // real_bytes


def spanning_program(network: CircuitIR, program: Program, samples: int) -> Program:
    """Return the program of a bundle that determines the readouts of excitations.

    Args:
        network: Network.
        program: Program that evolves the samples of a bundle.
        samples: Samples of a bundle.
    """
    # Deferred import: the declaration does not need NumPy and cirq.
    from qcnn.simulators.kernels.spanning import with_mixture, with_unexcited

    is_full = flipped_states(network.qubits, samples) == samples
    return with_unexcited(program, samples) if is_full else with_mixture(program)


def flipped_states(qubits: int, samples: int) -> int:
    """Return the number of flipped states of a bundle that determines the readouts of excitations.

    They are all states of the bundle, whose time then increases by 1 / samples for the unexcited state, if the
    excitations of all qubits are faster so than with the unexcited state as one of them. This does not depend on the
    number of replicas.

    Args:
        qubits: Number of qubits.
        samples: Samples of a bundle.
    """
    # Deferred import: the declaration does not need NumPy and cirq.
    from qcnn.simulators.kernels.lanes import MIN_QUBITS

    alone, together = -(-qubits // samples), -(-qubits // (samples - 1))
    is_faster = qubits >= MIN_QUBITS and alone * (samples + 1) < together * samples
    return samples if is_faster else samples - 1


def spanning_bundles(qubits: int, excited: int, samples: int) -> int:
    """Return the number of bundles that determine the readouts of all excitations of some qubits.

    If states are evolved one at a time, they are the unexcited state, and for each qubit the states at the angles pi
    and pi / 2.

    Args:
        qubits: Number of qubits.
        excited: Number of qubits that are excited.
        samples: Samples of a bundle.
    """
    return 1 + 2 * excited if samples == 1 else -(-excited // flipped_states(qubits, samples))


def evolves_samples(qubits: int, batch: int, samples: int) -> bool:
    """Return whether a batch of excitations evolves its samples instead of the spanning states.

    Args:
        qubits: Number of qubits.
        batch: Batch size.
        samples: Samples of a bundle.
    """
    return -(-batch // samples) <= spanning_bundles(qubits, qubits, samples)


def shards_by_qubit(qubits: int, batch: int, replicas: int, samples: int) -> bool:
    """Return whether replicas should split a batch of excitations by qubit instead of by sample.

    Splitting by qubit evolves fewer bundles, but each replica reads the whole batch.

    Args:
        qubits: Number of qubits.
        batch: Global batch size.
        replicas: Number of replicas.
        samples: Samples of a bundle.
    """
    share = -(-batch // replicas)
    saved = _bundles_by_sample(qubits, share, samples) - spanning_bundles(qubits, -(-qubits // replicas), samples)
    return saved * samples << qubits > batch - share


def _bundles_by_sample(qubits: int, share: int, samples: int) -> int:
    return min(-(-share // samples), spanning_bundles(qubits, qubits, samples))


@dataclasses.dataclass(frozen=True)
class _Bundles:
    """Number of bundles of a training step, and whether they are those of the spanning states."""

    count: int
    spanning: bool


def _bundles(network: CircuitIR, limits: SimulatorLimits, samples: int) -> _Bundles:
    share = limits.share
    if network.preparation.kind != "excitation":
        return _Bundles(-(-share // samples), False)
    qubits, replicas = network.qubits, limits.replicas
    if shards_by_qubit(qubits, limits.batch, replicas, samples):
        return _Bundles(spanning_bundles(qubits, -(-qubits // replicas), samples), True)
    return _Bundles(_bundles_by_sample(qubits, share, samples), not evolves_samples(qubits, share, samples))
