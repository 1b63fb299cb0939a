"""Rows for the comparison of two models: test rows that neither of them was trained or validated on."""

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.artifact_io import FILES, check_files, load_description, open_arrays
from qcnn.atomic_files import readable
from qcnn.data import Dataset, FeatureLayout, sample_fresh
from qcnn.data.samples import Samples

FILE = "rows.npz"
_COLUMNS, _LABEL, _SEEN = "columns", "label", "seen"
_DIGEST_BYTES = 16
# A dataset has at most 1 GiB, and a row as float64 at most twice as much as in it.
_MAX_BYTES = 2**31

Columns = Mapping[str, npt.NDArray[Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows as they are in a table, with their labels.

    Attributes:
        columns: Input columns by name, float64 (rows,).
        label: Labels as those of `Samples`, (rows,).
    """

    columns: Columns
    label: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.label)

    def take(self, mask: npt.NDArray[np.bool_]) -> "LabelledRows":
        """Return the rows for which a mask is true."""
        return LabelledRows({name: values[mask] for name, values in self.columns.items()}, self.label[mask])


@dataclasses.dataclass(frozen=True, eq=False)
class RecordedRows:
    """Test rows of a model, and the digests of the rows that it was trained or validated on."""

    test: LabelledRows
    seen: frozenset[bytes]


def digests(inputs: Mapping[str, npt.NDArray[Any]]) -> list[bytes]:
    """Return a digest of the model inputs of each row. Labels are not part of it.

    Inputs are those that the network computes with, so that rows which it cannot distinguish are equal.

    Args:
        inputs: Model inputs by name, (rows, ...) each.
    """
    # Adding 0 makes -0 and 0 equal.
    parts = [np.ascontiguousarray(inputs[name] + 0).reshape(len(inputs[name]), -1) for name in sorted(inputs)]
    rows = np.concatenate([each.view(np.uint8) for each in parts], axis=1)
    return [hashlib.blake2b(row, digest_size=_DIGEST_BYTES).digest() for row in rows]


def write_rows(dataset: Dataset, folder: Path) -> None:
    """Write the test rows of a dataset, and the digests of its training and validation rows, to `FILE`.

    Args:
        dataset: Dataset of the training run.
        folder: Existing folder.
    """
    columns = _table_columns(dataset.test, dataset.layout)
    seen = sorted({*digests(dataset.train.inputs), *digests(dataset.validation.inputs)})
    arrays: dict[str, Any] = {
        _COLUMNS: np.stack([columns[name] for name in dataset.layout.columns], axis=1).astype(np.float64),
        _LABEL: dataset.test.label,
        _SEEN: np.frombuffer(b"".join(seen), np.uint8).reshape(-1, _DIGEST_BYTES),
    }
    np.savez(folder / FILE, **arrays)


def read_rows(folder: Path, record: str, layout: FeatureLayout) -> RecordedRows | None:
    """Return the rows of a registered version, or None if its registration found no dataset.

    Args:
        folder: Folder of the version.
        record: Name of the file with the digest of the rows.
        layout: Layout of its model.

    Raises:
        ArtifactError: If the file is damaged.
    """
    path = folder / record
    if not path.exists():
        # Someone copied the model into the folder.
        return None
    recorded = load_description("version", path).get(FILES, {})
    if FILE not in recorded:
        return None
    check_files("version", path, recorded, FILE, _MAX_BYTES)
    with readable("version", folder / FILE), open_arrays(folder / FILE, _MAX_BYTES) as arrays:
        columns, label, seen = (arrays[name] for name in (_COLUMNS, _LABEL, _SEEN))
        named = dict(zip(layout.columns, columns.T, strict=True))
        if len(columns) != len(label) or seen.shape[1:] != (_DIGEST_BYTES,):
            raise ValueError("its arrays have different lengths")
        return RecordedRows(LabelledRows(named, label), frozenset(row.tobytes() for row in seen))


def _table_columns(samples: Samples, layout: FeatureLayout) -> Columns:
    """Return the input columns of samples, with the values of the data file if the samples have them."""
    if layout.preparation.kind == "state" and not samples.values:
        return dict(zip(layout.columns, samples.inputs["state"].T, strict=True))
    return {**layout.recover_columns(samples.inputs), **samples.values}


def unseen(columns: Columns, layout: FeatureLayout, seen: frozenset[bytes]) -> npt.NDArray[np.bool_]:
    """Return which rows differ from those that a model was trained or validated on, (rows,).

    Args:
        columns: Input columns by name, (rows,), possibly from the dataset of another model.
        layout: Layout of the model.
        seen: Digests of its training and validation rows.
    """
    return np.array([digest not in seen for digest in digests(layout.inputs(columns))], bool)


def fresh_rows(layout: FeatureLayout, qubits: int, seed: int) -> LabelledRows:
    """Return the 10,000 fresh excitations of an experiment, which no experiment trains on.

    Args:
        layout: Layout of the model.
        qubits: Number of qubits.
        seed: Seed of the experiment.
    """
    samples = sample_fresh(qubits, seed)
    label = (samples.label > 0).astype(np.int8) if layout.is_classification else samples.label
    columns = {name: values.astype(np.float64) for name, values in layout.recover_columns(samples.inputs).items()}
    return LabelledRows(columns, label)
