"""Samples from the rows of a user's file: which values they may have, and how they are scaled and split."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qcnn.atomic_files import sha256_of
from qcnn.data.samples import (
    LABEL,
    NOISE_ERROR,
    PI,
    PREDICTION,
    SPLITS,
    Column,
    Dataset,
    FeatureLayout,
    Labels,
    Samples,
    Source,
    parts,
)
from qcnn.errors import ArtifactError, format_value
from qcnn.experiment import ExperimentConfig, SplitCounts, affecting
from qcnn.experiment_io import from_mapping, merge
from qcnn.fields import Affects
from qcnn.storage.store import parse_bucket_uri

if TYPE_CHECKING:
    from qcnn.tables.chunks import Chunk
    from qcnn.tables.table import Table


# float32 tells angles of this size from others that differ by a thousandth.
MOST_RADIANS = 1e4
# How far a state's length may be from 1: float32 rounds every amplitude.
_LENGTH = 1e-4
# The variance of squared errors has fourth powers.
_MOST_REAL = 1e30


def check(piece: Chunk, layout: FeatureLayout, qubits: int) -> None:
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


def check_real(piece: Chunk, column: str) -> None:
    """Refuse the first label, a real number, of which no error can be computed.

    Raises:
        ArtifactError: one line with the row, its value and what is allowed.
    """
    allowed = np.abs(piece.columns[column]) <= _MOST_REAL
    piece.check(column, allowed, f"must be from -{_MOST_REAL:g} to {_MOST_REAL:g}")


def _check_length(piece: Chunk, layout: FeatureLayout) -> None:
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


logger = logging.getLogger("qcnn")

SPLIT = "split"
# Columns that are written beside the features.
_PREDICTED = (PREDICTION, NOISE_ERROR)
# What pandas calls a column without a name, such as the index of a table that it wrote and read again.
_INDEX = re.compile(r"Unnamed: \d+.*|__index_level_\d+__")
# Beyond, what an angle is made of is too close to the largest number that there is.
_MOST_APART = 1e300
# Of a feature's size, what differs in the training split: below, it may be noise; and a float64 at the end of a range
# so narrow is off by a thousandth of a radian.
_NEARLY_CONSTANT = 1e-6
_ROUNDING = math.pi * 2.0**-52 / 1e-3
_SAID = {
    "zero_one": "labels 0 and 1 are taken for -1 and +1",
    "real": "labels are real numbers: there is a mean squared error and no accuracy",
}


@functools.lru_cache(maxsize=2**10)
def warn_once(line: str) -> None:
    """Log a line about a file, once in a process: a file is read wherever its samples are needed."""
    logger.warning("%s", line)


def read(config: ExperimentConfig, warn: Callable[[str], None] = warn_once) -> Dataset:
    """Read the dataset of an experiment from its file; `warn` is called with a line about what may not be meant.

    Raises:
        ArtifactError: the file cannot be read or used; one line, which names the row that is wrong.
        ConfigError: the experiment cannot have such samples, or the bucket refuses.
    """
    # It takes a quarter of a second to load.
    from qcnn.tables.table import open_table

    with open_table(config.data) as table:
        features = _features(table, config)
        if unused := table.unused_index((*features, LABEL, SPLIT)):
            warn(unused)
        rows = _rows(table, features, config)
        split = _given_split(rows) if SPLIT in rows.columns else _made_split(len(rows), config)
        layout = _layout(rows, features, split[0], config, warn)
        check(rows, layout, config.qubits)
        source = Source(config.data, sha256_of(table.path))
    label = _label(rows.columns[LABEL], layout.labels)
    whole = Samples(layout.inputs(rows.columns), label)
    train, validation, test = map(whole.take, split)
    if said := _SAID.get(layout.labels):
        logger.info("%s", said)
    return Dataset(train, validation, test, config.qubits, 0, config.seed, layout, source)


def with_file_metadata(config: ExperimentConfig, dataset: Dataset) -> ExperimentConfig:
    """Return an experiment with what the file says that its dataset is of: how many rows count, and how they are split.

    Raises:
        ConfigError: it cannot run with so many samples.
    """
    if not config.is_file:
        return config
    counts = SplitCounts(*(len(samples) for _, samples in dataset.splits()))
    total = sum(dataclasses.astuple(counts))
    words: dict[str, Any] = {"max_samples": total}
    if _counted(config, total).split_counts != counts:
        words |= {"train_fraction": counts.train / total, "validation_fraction": counts.validation / total}
    return from_mapping(merge(config.model_dump(), words))


def resolve_files(
    configs: Sequence[ExperimentConfig], warn: Callable[[str], None] = warn_once
) -> list[ExperimentConfig]:
    """Return experiments as their files complete them, each file's path as it is found from everywhere.

    Experiments that differ in nothing that a file is read by have it read once.

    Raises:
        ArtifactError: a file cannot be read or used; one line, which names the row that is wrong.
        ConfigError: an experiment cannot have such samples, or the bucket refuses.
    """
    known: dict[str, Dataset] = {}

    def complete(config: ExperimentConfig) -> ExperimentConfig:
        if not config.is_file:
            return config
        if not parse_bucket_uri(config.data):
            config = config.model_copy(update={"data": str(Path(config.data).absolute())})
        # Of which splits they are, the seed decides too.
        rows = set(affecting(Affects.ROWS))
        key = repr((config.model_dump(include=rows), config.options.model_dump(include=rows)))
        if key not in known:
            known[key] = read(config, warn)
        return with_file_metadata(config, known[key])

    return [complete(config) for config in configs]


def _counted(config: ExperimentConfig, samples: int) -> ExperimentConfig:
    return config.model_copy(update={"options": config.options.model_copy(update={"max_samples": samples})})


def _features(table: Table, config: ExperimentConfig) -> tuple[str, ...]:
    """Return the columns that samples are made of."""
    if config.encoding == "excitation":
        return ("qubit", "angle")
    features = features_of(table)
    if not 1 <= len(features) <= config.qubits:
        raise ArtifactError(
            f"data: must have at least 1 and at most {config.qubits} columns beside {LABEL} and {SPLIT}, a feature for "
            f"each qubit. Given: {len(features)} in {config.data}"
        )
    for name in _PREDICTED:
        if name in features:
            raise ArtifactError(
                f"data: no feature may be called {' or '.join(_PREDICTED)}, as what is written beside them. Given: "
                f"{name} in {config.data}"
            )
    return features


def features_of(table: Table) -> tuple[str, ...]:
    """Return the columns that are features: all but label, split, and the index of a table that pandas wrote.

    Raises:
        ArtifactError: one is most likely the number of a row, which pandas writes without a name.
    """
    features = tuple(name for name in table.names if name not in (LABEL, SPLIT, *table.index))
    for name in features:
        if not name.strip():
            place, shown = f"column {table.names.index(name) + 1}", format_value(list(table.names))
            raise ArtifactError(
                f"data: {place} must have a name, or be dropped if it is an index: to_csv(..., index=False). "
                f"Given: {shown} in {table.address}"
            )
        if _INDEX.fullmatch(name):
            raise ArtifactError(
                f"data: column {name} must be dropped if it is an index, or be renamed to be a feature. "
                f"Given: {name} in {table.address}"
            )
    return features


def _rows(table: Table, features: Sequence[str], config: ExperimentConfig) -> Chunk:
    """Return the rows that count as one piece, read so far and no further."""
    from qcnn.tables.chunks import Chunk

    text = tuple(name for name in (SPLIT,) if name in table.names)
    wanted, most = config.options.max_samples, config.sample_limit
    pieces: list[Chunk] = []
    count = 0
    for piece in table.pieces((*features, LABEL, *text), text):
        pieces.append(piece)
        count += len(piece)
        if wanted and count >= wanted:
            break
        if count > most:
            raise ArtifactError(
                f"data: must have at most {most} rows with encoding {config.encoding} on {config.qubits} qubits; "
                f"samples says how many of them count. Given: {config.data}"
            )
    if count < wanted:
        raise ArtifactError(f"max_samples: the file must have as many rows, {wanted}. Given: {count} in {config.data}")
    columns = {
        name: np.concatenate([piece.columns[name] for piece in pieces])[: wanted or None] for name in pieces[0].columns
    }
    return Chunk(1, columns, pieces[0].place)


def _given_split(rows: Chunk) -> list[npt.NDArray[np.int64]]:
    given = rows.columns[SPLIT]
    allowed = f"{', '.join(SPLITS[:-1])} or {SPLITS[-1]}"
    rows.check(SPLIT, np.isin(given, SPLITS), f"must be {allowed}")
    found = [np.flatnonzero(given == name) for name in SPLITS]
    for name, part in zip(SPLITS, found, strict=True):
        if not len(part):
            raise ArtifactError(
                f"data: column {SPLIT}: each of {', '.join(SPLITS)} must have a row. Given: none of {name}"
            )
    return found


def _made_split(count: int, config: ExperimentConfig) -> list[npt.NDArray[np.int64]]:
    complete = from_mapping(merge(config.model_dump(), {"max_samples": count}))
    return parts(complete.split_counts, config.seed)


def _layout(
    rows: Chunk,
    features: tuple[str, ...],
    train: npt.NDArray[np.int64],
    config: ExperimentConfig,
    warn: Callable[[str], None],
) -> FeatureLayout:
    """Return how rows are read, by the labels of all of them, and by the features of those that are trained on."""
    label = rows.columns[LABEL]
    labels = _kind(label)
    if labels == "real":
        check_real(rows, LABEL)
    _check_differ(label[train], labels)
    if config.encoding == "excitation":
        return FeatureLayout(labels=labels)
    scales = [(0.0, 1.0)] * len(features)
    if config.options.feature_scaling == "minmax":
        for name in features:
            _check_varies(name, rows.columns[name][train], config.data, warn)
        scales = [_scale(name, rows.columns[name][train]) for name in features]
    offsets, factors = zip(*scales, strict=True)
    return FeatureLayout(config.preparation, features, offsets, factors, labels=labels)


def _scale(name: str, values: Column) -> tuple[float, float]:
    """Return what takes the least of a feature's values to 0 and the greatest to pi."""
    least, greatest = float(values.min()), float(values.max())
    factor = math.pi / (greatest - least) if greatest > least else math.inf
    if greatest - least > _MOST_APART or factor == math.inf:
        raise ArtifactError(
            f"data: column {name}: must have different values in the training split to be scaled, and no more than "
            f"1e300 apart. Given: {least:g} to {greatest:g}"
        )
    return least, factor


def _check_varies(name: str, values: Column, address: str, warn: Callable[[str], None]) -> None:
    """Refuse a feature of which rounding is all that differs, and name one that is constant but for noise, maybe."""
    least, greatest = float(values.min()), float(values.max())
    size = max(abs(least), abs(greatest))
    with np.errstate(over="ignore"):
        width = greatest - least
    if 0 < width <= _ROUNDING * size:
        raise ArtifactError(
            f"data: column {name}: must have values in the training split that differ by more than float64 rounds "
            f"them, to be scaled. Given: {least!r} to {greatest!r}"
        )
    if 0 < width <= _NEARLY_CONSTANT * size:
        warn(
            f"data: column {name} in {address}: the values of the training split differ by {width:.3g}, of a size of "
            f"{size:.9g}; scaling turns by 0 to pi for this difference, even if it is noise"
        )


def _kind(label: Column) -> Labels:
    found = set(itertools.islice(np.unique(label).tolist(), 3))
    if found <= {-1.0, 1.0}:
        return "signs"
    return "zero_one" if found <= {0.0, 1.0} else "real"


def _check_differ(label: Column, labels: Labels) -> None:
    """Refuse a training split of which nothing can be learnt."""
    if len(found := np.unique(label)) < 2:
        what = "labels must differ" if labels == "real" else "both labels must be"
        raise ArtifactError(f"data: {what} in the training split. Given: {found[0]:g} in all of its {len(label)} rows")


def _label(label: Column, labels: Labels) -> npt.NDArray[Any]:
    """Return labels as samples have them."""
    return label if labels == "real" else np.where(label > 0, 1, -1).astype(np.int8)
