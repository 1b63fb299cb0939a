"""Samples to be predicted, of a table, as the exported model takes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.circuits.formats.embedded import MAX_QUBITS
from qcnn.data.file_data import check, check_real, features_of, warn_once
from qcnn.data.layout import EXCITATIONS, LABEL, Column
from qcnn.tables.chunks import Piece
from qcnn.tables.table import open_table


@dataclasses.dataclass(frozen=True)
class Samples:
    """What the model takes of samples, by column, each (samples,), and their labels, None where nobody knows them."""

    columns: Mapping[str, Column]
    label: Column | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def instances(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield samples by the names of the model's inputs: excitations, or features in the order of the file."""
        rows = zip(*(values[start:stop].tolist() for values in self.columns.values()), strict=True)
        if tuple(self.columns) == EXCITATIONS.columns:
            yield from ({"qubit": int(qubit), "angle": angle} for qubit, angle in rows)
        else:
            yield from ({"features": list(row)} for row in rows)


def read_samples(data: str) -> Samples:
    """Return the samples of a file, a path or an address: of columns qubit and angle, or its features.

    Raises:
        ArtifactError: it cannot be read, holds none, or a row is wrong; the message names the row.
        ConfigError: its name ends otherwise, or the bucket refuses.
    """
    with open_table(data) as table:
        excited = set(EXCITATIONS.columns) <= set(table.names)
        names = EXCITATIONS.columns if excited else features_of(table)
        if unused := table.unused_index((*names, LABEL)):
            warn_once(unused)
        labels = (LABEL,) if LABEL in table.names else ()
        pieces = [_checked(piece, excited) for piece in table.pieces((*names, *labels))]
    columns = {name: np.concatenate([piece.columns[name] for piece in pieces]) for name in (*names, *labels)}
    label: npt.NDArray[np.float64] | None = columns.pop(LABEL, None)
    return Samples(columns, label)


def _checked(piece: Piece, excited: bool) -> Piece:
    if excited:
        # How many qubits the model has, its endpoint does not tell.
        check(piece, EXCITATIONS, MAX_QUBITS)
    if LABEL in piece.columns:
        check_real(piece, LABEL)
    return piece
