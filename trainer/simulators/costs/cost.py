"""What a training step costs each simulator, counted before anything runs, and what that means in seconds."""

import dataclasses
import math
from collections.abc import Iterable

from trainer.simulators.structure.groups import Group

# Forward, back with the state, back with the gradient, and the sum over amplitudes that is a group's gradient.
_SWEEPS = 4


@dataclasses.dataclass(frozen=True)
class Cost:
    """Arithmetic and memory traffic (bytes) of one training step's states, and the bytes of memory that they take.

    `kernels` counts the pieces that the compiled programs fall into, each of which takes time however small it is.
    """

    flops: float = 0.0
    traffic: float = 0.0
    kernels: float = 0.0
    memory: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        """Return the cost of both, one after the other."""
        return Cost(
            self.flops + other.flops,
            self.traffic + other.traffic,
            self.kernels + other.kernels,
            max(self.memory, other.memory),
        )

    def __mul__(self, times: float) -> "Cost":
        """Return the cost of as many repetitions, one after the other."""
        return Cost(self.flops * times, self.traffic * times, self.kernels * times, self.memory)


@dataclasses.dataclass(frozen=True)
class Speed:
    """What a machine does in a second, and the seconds of one kernel however small."""

    flops: float
    traffic: float
    kernel_seconds: float

    def seconds(self, cost: Cost) -> float:
        """Return the seconds that the states of a training step take."""
        return cost.kernels * self.kernel_seconds + max(cost.flops / self.flops, cost.traffic / self.traffic)


# Two cores of a present-day machine. Only for choosing a simulator: all workers must choose the same one, whatever
# machine each is on.
NOMINAL = Speed(flops=5e10, traffic=1e10, kernel_seconds=2e-6)
# Kernels of the matrices of a group's blocks and of what is read from its final states, forward and back. Counted
# in a compiled program.
_KERNELS_AROUND_A_GROUP = 20


def evolution(groups: Iterable[Group], amplitudes: float, real_bytes: int) -> Cost:
    """Return the cost of evolving states, of so many amplitudes together, and of the gradient.

    A group on k qubits is a real product of 2^(k+1) numbers: 8 x 2^k operations an amplitude, which is read
    and written.
    """
    sizes = [len(group.qubits) for group in groups]
    return Cost(
        flops=_SWEEPS * 8.0 * sum(2**size for size in sizes) * amplitudes * real_bytes / 4,
        traffic=_SWEEPS * 2 * 2.0 * real_bytes * len(sizes) * amplitudes,
        kernels=(2 * _SWEEPS + _KERNELS_AROUND_A_GROUP) * len(sizes),
    )


def in_words(count: float) -> str:
    """Return a number of bytes in words."""
    if math.isinf(count):
        return "more than any machine has"
    if count < 2**10:
        return f"{count:.0f} B"
    power = min(4, int(math.log2(count) // 10))
    return f"{count / 2 ** (10 * power):.3g} {['', 'KiB', 'MiB', 'GiB', 'TiB'][power]}"
