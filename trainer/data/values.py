"""Which values a row may have, so that a sample can be made of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qcnn.trainer.data.layout import PI, Layout
from qcnn.trainer.errors import ArtifactError

if TYPE_CHECKING:
    from qcnn.trainer.tables.pieces import Piece

# float32 tells angles of this size from others that differ by a thousandth.
MOST_RADIANS = 1e4
# How far a state's length may be from 1: float32 rounds every amplitude.
_LENGTH = 1e-4
# The variance of squared errors has fourth powers.
_MOST_REAL = 1e30


def check(piece: Piece, layout: Layout, qubits: int) -> None:
    """Refuse the first row of which no sample of so many qubits can be made.

    Raises:
        ArtifactError: one line with the row, its column, its value and what is allowed.
    """
    match layout.preparation.kind:
        case "excitation":
            qubit, angle = piece.columns["qubit"], piece.columns["angle"]
            is_qubit = (qubit >= 0) & (qubit < qubits) & (qubit == np.floor(qubit))
            piece.check("qubit", is_qubit, f"must be a whole number, 0 to {qubits - 1}")
            # Of float32 the largest in size may be written with more digits than it has.
            with np.errstate(over="ignore"):
                in_interval = (angle.astype(np.float32) >= -PI) & (angle < np.pi)
            piece.check("angle", in_interval, "must be at least -pi and less than pi")
        case "state":
            _check_length(piece, layout)
        case _:
            for name, offset, factor in zip(layout.features, layout.offsets, layout.factors, strict=True):
                with np.errstate(over="ignore"):
                    turned = np.abs((piece.columns[name] - offset) * factor)
                piece.check(name, turned <= MOST_RADIANS, _in_range(offset, factor))


def check_real(piece: Piece, column: str) -> None:
    """Refuse the first label, a real number, of which no error can be computed.

    Raises:
        ArtifactError: one line with the row, its value and what is allowed.
    """
    allowed = np.abs(piece.columns[column]) <= _MOST_REAL
    piece.check(column, allowed, f"must be from -{_MOST_REAL:g} to {_MOST_REAL:g}")


def _check_length(piece: Piece, layout: Layout) -> None:
    with np.errstate(over="ignore"):
        length = np.sqrt(sum(piece.columns[name] ** 2 for name in layout.columns))
    if (wrong := np.abs(length - 1) > _LENGTH).any():
        row = int(np.argmax(wrong))
        place = piece.place(piece.first + row)
        raise ArtifactError(f"data: {place}: the amplitudes of a state must have length 1. Given: {length[row]:g}")


def _in_range(offset: float, factor: float) -> str:
    most = MOST_RADIANS / factor
    # Enough to tell the bounds of a feature apart that is large and differs by little.
    digits = 6 + math.ceil(math.log10(max(1.0, abs(offset) / most)))
    return f"must be from {offset - most:.{digits}g} to {offset + most:.{digits}g}, or its angle is not exact"
