"""What a circuit consists of: gates, depth, light cones, and which simulator takes it. No TensorFlow."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

import cirq

from qcnn.trainer.errors import ConfigError
from qcnn.trainer.planning.plan import cones_of
from qcnn.trainer.simulators import choice
from qcnn.trainer.simulators.choice import Estimate
from qcnn.trainer.simulators.interface import Limits
from qcnn.trainer.simulators.structure.cones import TooWideError
from qcnn.trainer.simulators.structure.gates import Network
from qcnn.trainer.simulators.structure.groups import fuse


@dataclasses.dataclass(frozen=True)
class Anatomy:
    """What a circuit consists of.

    `gates` counts operations by kind; `depth` is how many of them follow each other at most, `fused_depth` how many
    blocks. `cones` are as `qcnn.trainer.planning.plan.Counts` has them, None where they are wider than any memory
    holds. `chosen` is the simulator that takes it, None where none does, and `refusal` then says why.
    """

    qubits: int
    parameters: tuple[str, ...]
    readouts: tuple[int, ...]
    gates: dict[str, int]
    depth: int
    blocks: int
    fused_depth: int
    cones: tuple[tuple[int, ...], ...] | None
    estimates: tuple[Estimate, ...]
    chosen: Estimate | None
    refusal: str = ""


def anatomy(network: Network, limits: Limits) -> Anatomy:
    """Return what a network's circuit consists of, and the simulator of a training step within limits."""
    operations = list(network.ansatz.circuit.all_operations())
    blocks = fuse(network.gates)
    estimates = choice.estimates(network, limits)
    chosen, refusal = None, ""
    try:
        chosen = choice.cheapest(estimates, network, limits)
    except ConfigError as error:
        refusal = str(error)
    return Anatomy(
        qubits=network.qubits,
        parameters=tuple(str(symbol.name) for symbol in network.ansatz.symbols),
        readouts=network.readouts,
        gates=dict(Counter(map(kind_of, operations)).most_common()),
        depth=_depth(operation.qubits for operation in operations),
        blocks=len(blocks),
        fused_depth=_depth(block.qubits for block in blocks),
        cones=_cones(network),
        estimates=estimates,
        chosen=chosen,
        refusal=refusal,
    )


def kind_of(operation: cirq.Operation) -> str:
    """Return what kind of gate an operation is, whatever its numbers.

    >>> [kind_of(gate(cirq.LineQubit(0))) for gate in (cirq.X, cirq.X**0.3, cirq.rx(0.3), cirq.S)]
    ['X', 'XPow', 'Rx', 'ZPow']
    """
    gate = operation.gate
    name = type(gate or operation.untagged).__name__.removeprefix("_Pauli").removesuffix("Gate")
    if isinstance(gate, cirq.ControlledGate):
        name = f"{name} {type(gate.sub_gate).__name__.removeprefix('_Pauli').removesuffix('Gate')}"
    return name.removesuffix("Pow") if isinstance(gate, cirq.EigenGate) and gate.exponent == 1 else name


def _depth(places: Iterable[Sequence[object]]) -> int:
    """Return how many of what acts on these qubits, in this order, follow each other at most."""
    last: dict[object, int] = {}
    for qubits in places:
        level = 1 + max((last.get(qubit, 0) for qubit in qubits), default=0)
        last.update(dict.fromkeys(qubits, level))
    return max(last.values(), default=0)


def _cones(network: Network) -> tuple[tuple[int, ...], ...] | None:
    try:
        return cones_of(network)
    except TooWideError:
        return None
