"""Preparation of data states from samples, and the inputs of each preparation."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

Kind: TypeAlias = Literal["excitation", "rx", "ry", "rz", "dense", "state", "circuit"]


class InputSpec(NamedTuple):
    """Shape and data type of one input of a sample."""

    shape: tuple[int, ...]
    dtype: Literal["int8", "int32", "float32", "float64"]


@dataclasses.dataclass(frozen=True)
class Preparation:
    """Preparation of the data states of a network.

    - `excitation`: Cluster state on the ring with one qubit rotated about X. A sample is a qubit, int32, and an angle,
      float32, in radians.
    - `rx`, `ry`, `rz`: Product state. Qubit k is rotated by feature k; qubits without a feature are not rotated. Qubits
      start in |0>, or in |+> with `rz`, because |0> is invariant under rotations about Z. A sample is a row of
      `features` angles, float32, in radians.
    - `dense`: Product state. Qubit k is rotated about X by feature k, then about Y by feature k + qubits (Hur, Kim and
      Park, arXiv:2108.00661). Missing features do not rotate. A sample is as with `rx`.
    - `state`: State vector of the sample, float32 (2^qubits,), real amplitudes. Qubit 0 is the most significant bit.
    - `circuit`: |0...0>. The circuit has the features of the sample as inputs. A sample is a row of `features` numbers,
      float64.
    """

    kind: Kind = "excitation"
    features: int = 0

    def inputs(self, qubits: int) -> dict[str, InputSpec]:
        """Return the inputs of the model by name, in their order."""
        match self.kind:
            case "excitation":
                return {"qubit": InputSpec((), "int32"), "angle": InputSpec((), "float32")}
            case "state":
                return {"state": InputSpec((2**qubits,), "float32")}
            case "circuit":
                return {"features": InputSpec((self.features,), "float64")}
        return {"features": InputSpec((self.features,), "float32")}


def rotated_qubit(kind: Kind, cos: Any, sin: Any, zero: Any) -> tuple[Any, Any, Any, Any]:
    """Return the amplitudes of rotated qubits: real and imaginary part of |0>, then of |1>, (samples, qubits) each.

    Args:
        kind: Preparation, which names the rotation axes.
        cos: Cosine of half the angles, an array or tensor (samples, qubits), or (samples, 2 qubits) with `dense`.
        sin: Sine of half the angles.
        zero: Zeros of their shape.
    """
    if kind == "dense":
        qubits = cos.shape[1] // 2
        (cos, cos_y), (sin, sin_y) = ((of[:, :qubits], of[:, qubits:]) for of in (cos, sin))
        return cos * cos_y, sin * sin_y, cos * sin_y, -sin * cos_y
    if kind == "rx":
        return cos, zero, zero, -sin
    if kind == "ry":
        return cos, zero, sin, zero
    root = math.sqrt(0.5)
    return root * cos, -root * sin, root * cos, root * sin


EXCITATION = Preparation()
"""Preparation that every simulator supports."""


def preparation_of(encoding: str, qubits: int, inputs: int = 0) -> Preparation:
    """Return the state preparation of an encoding: one of a kind, or `amplitude`, whose samples are states.

    Args:
        encoding: Encoding.
        qubits: Number of qubits.
        inputs: Number of inputs of the circuit, for the encoding `circuit`.
    """
    if encoding == "circuit":
        return Preparation("circuit", inputs)
    if encoding == "amplitude":
        return Preparation("state")
    if encoding == EXCITATION.kind:
        return EXCITATION
    return Preparation(cast("Kind", encoding), 2 * qubits if encoding == "dense" else qubits)


# Pairs of qubits joined by CZ.
Edges: TypeAlias = Sequence[tuple[int, int]]


def ring_edges(qubits: int) -> list[tuple[int, int]]:
    """Return the adjacent pairs on the ring, including the closing pair. A ring of two qubits has one pair."""
    pairs = [(qubit, (qubit + 1) % qubits) for qubit in range(qubits)]
    return pairs if len(pairs) > 2 else pairs[:-1]
