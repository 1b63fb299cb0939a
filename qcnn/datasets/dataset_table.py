"""Tables of datasets: rows after all steps, and files with a description of how they were made."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.atomic_files import sha256_of
from qcnn.data.file_data import SPLIT
from qcnn.data.samples import LABEL, SPLITS
from qcnn.data.sidecar import sidecar_of, to_text
from qcnn.datasets.fitted_steps import reduce, scale
from qcnn.datasets.options import MAX_VALUES, DatasetOptions
from qcnn.datasets.resizing import resize
from qcnn.datasets.sources import Rows, load
from qcnn.errors import ConfigError
from qcnn.frozen import freeze, frozen_array
from qcnn.process import installation
from qcnn.storage.copies import new_file_copy
from qcnn.tables import check_extension

_PACKAGES = ("numpy", "scikit-learn")


@dataclasses.dataclass(frozen=True)
class DatasetTable:
    """Rows of a dataset, those of the training split first.

    Attributes:
        x: Features, float64 (rows, columns).
        y: Labels, int64 (rows,).
        split: `train`, `validation` or `test`, (rows,).
        names: Names of the columns of x.
        description: How the rows were made: options, classes, numbers of rows, files and versions.
    """

    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.int64]
    split: npt.NDArray[np.str_]
    names: tuple[str, ...]
    description: Mapping[str, Any]

    def __post_init__(self) -> None:
        vars(self).update(x=frozen_array(self.x), y=frozen_array(self.y), split=frozen_array(self.split))
        vars(self).update(description=freeze(self.description))

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of the table, with `label` and `split`, as `qcnn.train` takes them for `data`."""
        return {**dict(zip(self.names, self.x.T, strict=True)), LABEL: self.y, SPLIT: self.split}

    def rows(self, split: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return the features and the labels of a split.

        Raises:
            ConfigError: If there is no split of this name.
        """
        if split not in SPLITS:
            raise ConfigError(f"split: must be {', '.join(SPLITS[:-1])} or {SPLITS[-1]}. Given: {split}")
        chosen = self.split == split
        return self.x[chosen], self.y[chosen]


def make(options: DatasetOptions) -> DatasetTable:
    """Read or generate a dataset, and apply its steps: resize, principal components, scale.

    Args:
        options: Options of the dataset.

    Raises:
        ArtifactError: If a file is missing or damaged.
        ConfigError: If an option does not fit the rows.
    """
    source = load(options)
    train, validation = _without_validation(source.train, options.validation)
    rows = dict(zip(SPLITS, (train, validation, source.test), strict=True))
    _check_classes(train, options)
    splits, names = _features(rows, options)
    fits: dict[str, Any] = {}
    if options.pca is not None:
        splits, fit = reduce(splits, options.pca)
        fits |= fit
        names = _numbered("component", options.pca)
    splits, fit = scale(splits, options.scale)
    chosen = options.classes or options.kind.classes
    # Two classes of any numbers are read as -1 and +1.
    labels = dict(enumerate(chosen)) if len(options.classes) == 2 else {each: each for each in chosen}
    label_of = {each: label for label, each in labels.items()}
    classes = np.concatenate([part.classes for part in rows.values()])
    description = {
        "dataset": options.name,
        "options": options.describe(),
        "classes": {str(label): each for label, each in labels.items()},
        "rows": {name: len(part) for name, part in rows.items()},
        "columns": len(names),
        **fits,
        **fit,
        **({"files": dict(source.files)} if source.files else {}),
        "versions": {"qcnn": installation.version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}},
    }
    return DatasetTable(
        np.concatenate([splits[name] for name in SPLITS]),
        np.array([label_of[each] for each in classes.tolist()], np.int64),
        np.repeat(SPLITS, [len(rows[name]) for name in SPLITS]),
        names,
        description,
    )


def _without_validation(rows: Rows, fraction: float) -> tuple[Rows, Rows]:
    """Return the training rows, and the last rows as validation rows."""
    train = len(rows) - round(fraction * len(rows))
    if not 0 < train < len(rows):
        raise ConfigError(
            f"validation: must leave at least one row each for training and validation. "
            f"Given: {fraction:g} of {len(rows)} rows"
        )
    return rows.take(slice(train)), rows.take(slice(train, None))


def _check_classes(train: Rows, options: DatasetOptions) -> None:
    for each in options.classes or options.kind.classes:
        if not (train.classes == each).any():
            raise ConfigError(f"train_samples: each class must have a row in the training split. Given: none of {each}")


def _features(rows: Mapping[str, Rows], options: DatasetOptions) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the features of each split, float64 (rows, columns), and their names."""
    if not options.kind.has_images:
        values = {name: np.asarray(part.values, np.float64) for name, part in rows.items()}
        return values, _numbered("amplitude" if options.kind.is_chain else "x", values["train"].shape[1])
    count = sum(map(len, rows.values()))
    if options.resize and count * options.resize[0] * options.resize[1] > MAX_VALUES:
        sides = "x".join(map(str, options.resize))
        raise ConfigError(f"resize: rows x pixels must be at most {MAX_VALUES}. Given: {sides} for {count} rows")
    values = {
        name: (resize(part.values, *options.resize) if options.resize else part.values)
        .reshape(len(part), -1)
        .astype(np.float64)
        for name, part in rows.items()
    }
    return values, _numbered("pixel", values["train"].shape[1])


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}_{number}" for number in range(count))


def write(table: DatasetTable, output: str) -> str:
    """Write a table for the field `data`, and its description next to it, atomically. Existing files are replaced.

    Args:
        table: Table to write.
        output: Path or bucket URI, whose file extension selects the format. The description is in `output`.json.

    Returns:
        SHA-256 of the table.

    Raises:
        ArtifactError: If a file cannot be written.
        ConfigError: If the file extension is unknown or access to the bucket is denied.
    """
    check_extension("output", output)
    # This import loads pyarrow.
    from qcnn.tables.table import write_table

    # The table is renamed first. A description of another table is ignored.
    with new_file_copy(sidecar_of(output)) as description, new_file_copy(output) as path:
        with write_table(path, output) as write_rows:
            write_rows(table.columns)
        digest = sha256_of(path)
        description.write_text(to_text(table.description, digest), encoding="utf-8")
    return digest
