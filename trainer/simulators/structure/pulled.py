"""Readouts under noise, pulled back through the circuit: which blocks each depends on, on which qubits."""

import dataclasses
import functools

from qcnn.trainer.simulators.structure.gates import Network
from qcnn.trainer.simulators.structure.groups import Block, fuse


@dataclasses.dataclass(frozen=True)
class Step:
    """A block that an observable is pulled back through.

    The observable's axes come in the order `before` and go on in the order `after`, the block's last. Of the block's
    qubits, the observable was the identity on those of `new`.
    """

    block: Block
    before: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def after(self) -> tuple[int, ...]:
        """The qubits of the axes afterwards."""
        return (*self.rest, *self.block.qubits)

    @property
    def rest(self) -> tuple[int, ...]:
        """The qubits that the block leaves alone."""
        return tuple(qubit for qubit in self.before if qubit not in self.block.qubits)

    @property
    def held(self) -> tuple[int, ...]:
        """The block's qubits that the observable was not the identity on."""
        return tuple(qubit for qubit in self.block.qubits if qubit not in self.new)


@dataclasses.dataclass(frozen=True)
class Pulled:
    """A readout's observable: the steps from the circuit's end to its beginning, and its axes there."""

    readout: int
    steps: tuple[Step, ...]

    @property
    def qubits(self) -> tuple[int, ...]:
        """The qubits of its light cone, in the order of the observable's axes."""
        return self.steps[-1].after if self.steps else (self.readout,)


# Estimates for several batches, and the simulator itself, ask for the same.
@functools.lru_cache(maxsize=1)
def pulled_readouts(network: Network) -> tuple[Pulled, ...]:
    """Return how each readout of a network is pulled back.

    A block that the observable is the identity on leaves it so, noise included: channels keep the trace.
    """
    blocks = fuse(gate for gate in network.gates if gate.qubits)
    return tuple(Pulled(readout, _steps(blocks, readout)) for readout in network.readouts)


def _steps(blocks: list[Block], readout: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    order: tuple[int, ...] = (readout,)
    for block in reversed(blocks):
        if not set(order).isdisjoint(block.qubits):
            new = tuple(qubit for qubit in block.qubits if qubit not in order)
            steps.append(Step(block, order, new))
            order = steps[-1].after
    return tuple(steps)
