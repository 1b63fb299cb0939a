"""How a sample becomes the state that the network's circuit acts on."""

import dataclasses
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["excitation", "rx", "ry", "rz", "state"]


class InputSpec(NamedTuple):
    """What is known of a sample under one name: its shape and the name of its data type."""

    shape: tuple[int, ...]
    dtype: Literal["int8", "int32", "float32", "float64"]


@dataclasses.dataclass(frozen=True)
class Preparation:
    """What the data states of a network are; every simulator reads it from its network.

    - `excitation`: the cluster state on the ring, one qubit of which is turned about X. A sample is a qubit, int32, and
      an angle, float32, rad.
    - `rx`, `ry`, `rz`: a product state. Qubit k is turned by feature k; qubits without a feature are not turned. They
      begin in |0>, with `rz` in |+>, which |0> would not show. A sample is a row of `features` angles, float32, rad.
    - `state`: the sample's own state, float32 (2^qubits,), real amplitudes, qubit 0 the most significant.
    """

    kind: Kind = "excitation"
    features: int = 0

    def inputs(self, qubits: int) -> dict[str, InputSpec]:
        """Return what the model takes of a sample, by name, in the order of its inputs."""
        match self.kind:
            case "excitation":
                return {"qubit": InputSpec((), "int32"), "angle": InputSpec((), "float32")}
            case "state":
                return {"state": InputSpec((2**qubits,), "float32")}
        return {"features": InputSpec((self.features,), "float32")}


EXCITATION = Preparation()
"""What every simulator offers."""


# Pairs of qubits joined by CZ.
Edges: TypeAlias = Sequence[tuple[int, int]]


def ring_edges(qubits: int) -> list[tuple[int, int]]:
    """Return the pairs of neighbours on the ring, the closing pair included."""
    return [(qubit, (qubit + 1) % qubits) for qubit in range(qubits)]
