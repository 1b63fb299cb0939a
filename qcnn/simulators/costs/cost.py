"""Cost model of a training step, and its conversion to seconds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qcnn.simulators.structure.gate_fusion import Block, GateGroup

# Up to this number of amplitudes, one core evolves the states, in complex128.
FEW_AMPLITUDES = 2**15
# The forward sweep, two backward sweeps (state and gradient), and the sum over amplitudes for a group's gradient.
_SWEEPS = 4
# Kernels are instructions in the loop of a compiled training epoch: those of XLA's optimized text, without constants
# and views. The constants below are the kernels of a step, including the update, and those of a group of blocks. They
# were counted for 24 networks, with an error of at most a fifth for each.
_KERNELS_OF_A_STEP, _KERNELS_OF_A_GROUP = 100, 9
# The matrix of a gate makes kernels longer, not more numerous. Equivalent in kernels, fitted to measured step times.
_KERNELS_OF_A_GATE = 2


@dataclasses.dataclass(frozen=True)
class StepCost:
    """Cost of a training step.

    Attributes:
        flops: Arithmetic operations. One on 64-bit numbers counts as two.
        traffic: Memory traffic, in bytes.
        few_flops: Arithmetic operations on arrays that fit in the cache of one core.
        compiled_flops: Arithmetic operations of compiled kernels, by all threads.
        kernels: Number of kernels of the compiled programs. Each has a constant overhead.
        memory: Memory of the states, in bytes. Infinite if the simulator cannot run the circuit.
        real_bytes: Bytes of a real number of `flops`, 4 or 8.
    """

    flops: float = 0.0
    traffic: float = 0.0
    few_flops: float = 0.0
    compiled_flops: float = 0.0
    kernels: float = 0.0
    memory: float = 0.0
    real_bytes: int = 4

    @property
    def operations(self) -> float:
        """Total number of arithmetic operations."""
        return self.flops + self.few_flops + self.compiled_flops

    def __add__(self, other: StepCost) -> StepCost:
        """Return the cost of two consecutive computations."""
        return StepCost(
            self.flops + other.flops,
            self.traffic + other.traffic,
            self.few_flops + other.few_flops,
            self.compiled_flops + other.compiled_flops,
            self.kernels + other.kernels,
            max(self.memory, other.memory),
            max(self.real_bytes, other.real_bytes),
        )

    def __mul__(self, times: float) -> StepCost:
        """Return the cost of consecutive repetitions."""
        return dataclasses.replace(
            self,
            flops=self.flops * times,
            traffic=self.traffic * times,
            few_flops=self.few_flops * times,
            compiled_flops=self.compiled_flops * times,
            kernels=self.kernels * times,
        )


@dataclasses.dataclass(frozen=True)
class MachineSpeed:
    """Operations and bytes per second of a machine, and the overhead of a kernel in seconds.

    `compiled_flops` are operations of compiled kernels per second, by default of two cores of a typical machine,
    measured at 12 and 16 qubits. `double_flops` are operations on 64-bit numbers per second. None: half of `flops`, as
    on CPUs.
    """

    flops: float
    traffic: float
    few_flops: float
    kernel_seconds: float
    compiled_flops: float = 7e10
    double_flops: float | None = None

    def seconds(self, cost: StepCost) -> float:
        """Return the duration of a computation, in seconds."""
        few = cost.kernels * self.kernel_seconds + cost.few_flops / self.few_flops
        few += cost.compiled_flops / self.compiled_flops
        flops = self.flops if self.double_flops is None or cost.real_bytes == 4 else 2 * self.double_flops
        return few + max(cost.flops / flops, cost.traffic / self.traffic)


# Two cores of a typical machine. Only used to select a simulator: all workers must select the same one, also on
# different machines.
NOMINAL = MachineSpeed(flops=7e10, traffic=1e10, few_flops=1.7e10, kernel_seconds=5e-7)


def step(groups: Iterable[GateGroup]) -> StepCost:
    """Return the cost of a step without its states: the matrices of distinct blocks, and the update."""
    gates = count_distinct_gates(block for group in groups for block in group.blocks)
    return StepCost(kernels=_KERNELS_OF_A_STEP + _KERNELS_OF_A_GATE * gates)


def count_distinct_gates(blocks: Iterable[Block]) -> int:
    """Return the number of gates of the distinct blocks, whose matrices a step computes."""
    return sum(len(block.gates) for block in {block.key: block for block in blocks}.values())


def sweeps(groups: Sequence[GateGroup]) -> StepCost:
    """Return the kernel overhead of evolving states, which is independent of their number."""
    return StepCost(kernels=_KERNELS_OF_A_GROUP * len(groups))


def evolution(groups: Sequence[GateGroup], amplitudes: float, real_bytes: int) -> StepCost:
    """Return the cost of the arithmetic of evolving states, and of the gradient.

    A group on k qubits is a real matrix-vector product of size 2^(k+1): 8 x 2^k operations per amplitude. Each
    amplitude is read and written once.

    Args:
        groups: Groups of blocks that are applied.
        amplitudes: Total number of amplitudes of all states.
        real_bytes: Bytes of a real number, 4 or 8.
    """
    operations = _SWEEPS * 8.0 * sum(2 ** len(group.qubits) for group in groups) * amplitudes
    if amplitudes <= FEW_AMPLITUDES:
        return StepCost(few_flops=operations)
    traffic = _SWEEPS * 2 * 2.0 * real_bytes * len(groups) * amplitudes
    return StepCost(flops=operations * real_bytes / 4, traffic=traffic, real_bytes=real_bytes)


def format_bytes(count: float) -> str:
    """Format a number of bytes with a binary unit."""
    if math.isinf(count):
        return "more than any machine has"
    if count < 2**10:
        return f"{count:.0f} B"
    power = min(4, int(math.log2(count) // 10))
    number = count / 2 ** (10 * power)
    # Three digits of 1000 to 1023 would have an exponent.
    digits = f"{number:.0f}" if 100 <= number < 2**10 else f"{number:.3g}"
    return f"{digits} {['', 'KiB', 'MiB', 'GiB', 'TiB'][power]}"
