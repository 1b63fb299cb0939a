"""What a training step costs each simulator, counted before anything runs, and what that means in seconds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qcnn.simulators.structure.gate_fusion import GateGroup

# Up to so many amplitudes one core evolves states, in complex128.
FEW_AMPLITUDES = 2**15
# Forward, back with the state, back with the gradient, and the sum over amplitudes that is a group's gradient.
_SWEEPS = 4
# Kernels are instructions in the loop of a compiled training epoch (of XLA's text after its optimizations: what is
# neither a constant nor only a view). Counted for 24 networks, of which these numbers miss none by more than a fifth:
# what every step has, its update included, and what a group of blocks adds.
_KERNELS_OF_A_STEP, _KERNELS_OF_A_GROUP = 100, 9
# No more kernels, but longer ones: what the matrix of a gate takes, in kernels. Fitted to the seconds of these steps.
_KERNELS_OF_A_GATE = 2


@dataclasses.dataclass(frozen=True)
class StepCost:
    """Arithmetic and memory traffic (bytes) of one training step's states, and the bytes of memory that they take.

    `few_flops` is the arithmetic on so few numbers that one core does it, in its cache. `kernels` counts the pieces
    that the compiled programs fall into, each of which takes time however small it is.
    """

    flops: float = 0.0
    traffic: float = 0.0
    few_flops: float = 0.0
    kernels: float = 0.0
    memory: float = 0.0

    @property
    def operations(self) -> float:
        """All arithmetic."""
        return self.flops + self.few_flops

    def __add__(self, other: StepCost) -> StepCost:
        """Return the cost of both, one after the other."""
        return StepCost(
            self.flops + other.flops,
            self.traffic + other.traffic,
            self.few_flops + other.few_flops,
            self.kernels + other.kernels,
            max(self.memory, other.memory),
        )

    def __mul__(self, times: float) -> StepCost:
        """Return the cost of as many repetitions, one after the other."""
        return StepCost(
            self.flops * times, self.traffic * times, self.few_flops * times, self.kernels * times, self.memory
        )


@dataclasses.dataclass(frozen=True)
class MachineSpeed:
    """What a machine does in a second, and the seconds of one kernel however small."""

    flops: float
    traffic: float
    few_flops: float
    kernel_seconds: float

    def seconds(self, cost: StepCost) -> float:
        """Return the seconds that the states of a training step take."""
        few = cost.kernels * self.kernel_seconds + cost.few_flops / self.few_flops
        return few + max(cost.flops / self.flops, cost.traffic / self.traffic)


# Two cores of a present-day machine. Only for choosing a simulator: all workers must choose the same one, whatever
# machine each is on.
NOMINAL = MachineSpeed(flops=7e10, traffic=1e10, few_flops=1.7e10, kernel_seconds=5e-7)


def step(groups: Iterable[GateGroup]) -> StepCost:
    """Return the cost of what a step has around its states: the matrices of groups, equal ones once, and the update."""
    blocks = {block.key: block for group in groups for block in group.blocks}
    return StepCost(
        kernels=_KERNELS_OF_A_STEP + _KERNELS_OF_A_GATE * sum(len(block.gates) for block in blocks.values())
    )


def sweeps(groups: Sequence[GateGroup]) -> StepCost:
    """Return the cost of the kernels that evolve states, however few."""
    return StepCost(kernels=_KERNELS_OF_A_GROUP * len(groups))


def evolution(groups: Sequence[GateGroup], amplitudes: float, real_bytes: int) -> StepCost:
    """Return the cost of the arithmetic that evolves states, of so many amplitudes together, and of the gradient.

    A group on k qubits is a real product of 2^(k+1) numbers: 8 x 2^k operations an amplitude, which is read
    and written.
    """
    operations = _SWEEPS * 8.0 * sum(2 ** len(group.qubits) for group in groups) * amplitudes
    if amplitudes <= FEW_AMPLITUDES:
        return StepCost(few_flops=operations)
    traffic = _SWEEPS * 2 * 2.0 * real_bytes * len(groups) * amplitudes
    return StepCost(flops=operations * real_bytes / 4, traffic=traffic)


def format_bytes(count: float) -> str:
    """Return a number of bytes in words."""
    if math.isinf(count):
        return "more than any machine has"
    if count < 2**10:
        return f"{count:.0f} B"
    power = min(4, int(math.log2(count) // 10))
    return f"{count / 2 ** (10 * power):.3g} {['', 'KiB', 'MiB', 'GiB', 'TiB'][power]}"
