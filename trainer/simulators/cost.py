"""What a training step costs each simulator, counted before anything runs, and what that means in seconds."""

import dataclasses
import math
from collections.abc import Iterable

from trainer.simulators.evolution import Group

# Forward, back with the state, back with the gradient, and the sum over amplitudes that is a group's gradient.
_SWEEPS = 4


@dataclasses.dataclass(frozen=True)
class Cost:
    """Arithmetic and memory traffic of one training step's states, and the memory they take.

    `sweeps` counts passes of one group over its states: what each costs however few the amplitudes are.
    """

    flops: float = 0.0
    traffic: float = 0.0
    sweeps: float = 0.0
    memory: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        """Return the cost of both, one after the other."""
        return Cost(
            self.flops + other.flops,
            self.traffic + other.traffic,
            self.sweeps + other.sweeps,
            max(self.memory, other.memory),
        )

    def __mul__(self, times: float) -> "Cost":
        """Return the cost of as many repetitions, one after the other."""
        return Cost(self.flops * times, self.traffic * times, self.sweeps * times, self.memory)


@dataclasses.dataclass(frozen=True)
class Speed:
    """What a machine does in a second, and the seconds of a sweep over nothing and of all else in a step."""

    flops: float
    traffic: float
    sweep_seconds: float
    step_seconds: float

    def seconds(self, cost: Cost) -> float:
        """Return the seconds of a training step."""
        work = max(cost.flops / self.flops, cost.traffic / self.traffic)
        return self.step_seconds + cost.sweeps * self.sweep_seconds + work


# Two cores of today. Only for choosing a simulator: all workers must choose alike, whatever machine each is on.
NOMINAL = Speed(flops=2e10, traffic=1e10, sweep_seconds=5e-6, step_seconds=1e-3)


def evolution(groups: Iterable[Group], amplitudes: float, real_bytes: int) -> Cost:
    """Return the cost of evolving states, of so many amplitudes together, and of the gradient.

    A group on k qubits is a real product of 2^(k+1) numbers: 8 x 2^k operations an amplitude, which is read
    and written.
    """
    sizes = [len(group.qubits) for group in groups]
    return Cost(
        flops=_SWEEPS * 8.0 * sum(2**size for size in sizes) * amplitudes * real_bytes / 4,
        traffic=_SWEEPS * 2 * 2.0 * real_bytes * len(sizes) * amplitudes,
        sweeps=_SWEEPS * len(sizes),
    )


def in_words(count: float) -> str:
    """Return a number of bytes in words."""
    if count < 2**10:
        return f"{count:.0f} B"
    power = min(4, int(math.log2(count) // 10))
    return f"{count / 2 ** (10 * power):.3g} {['', 'KiB', 'MiB', 'GiB', 'TiB'][power]}"
