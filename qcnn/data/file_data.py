"""Samples from the rows of a data file: validation, scaling and split."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from qcnn.atomic_files import sha256_of
from qcnn.data.circuit_inputs import check_inputs
from qcnn.data.labels import first_text_label, format_names, has_number_label, read_labels
from qcnn.data.samples import (
    EXCITATIONS,
    LABEL,
    NOISE_ERROR,
    PI,
    PREDICTION,
    PROBABILITY,
    ROW,
    SPLITS,
    Column,
    Dataset,
    FeatureLayout,
    Samples,
    Source,
    parts,
)
from qcnn.data.sidecar import read_sidecar
from qcnn.errors import ArtifactError, ConfigError, format_value
from qcnn.experiment.config import ExperimentConfig, SplitCounts, affecting
from qcnn.experiment.fields import MEMORY, Affects, Encoding
from qcnn.experiment.parsing import from_mapping, merge
from qcnn.storage.store import parse_bucket_uri

if TYPE_CHECKING:
    from qcnn.tables.chunks import Chunk
    from qcnn.tables.table import Table


# At this size float32 resolves 0.001 rad.
MAX_RADIANS = 1e4
# Tolerance of a state's norm, because float32 rounds every amplitude.
_NORM_TOLERANCE = 1e-4


def check(piece: Chunk, layout: FeatureLayout, qubits: int) -> None:
    """Raise the error of the chunk at the first row that is not a valid sample.

    Args:
        piece: Rows to validate.
        layout: Conversion of the rows to samples.
        qubits: Number of qubits of the model.

    Raises:
        QcnnError: If a row is invalid. The message has the row, its column, its value and the allowed values.
    """
    match layout.preparation.kind:
        case "excitation":
            qubit, angle = piece.columns["qubit"], piece.columns["angle"]
            is_qubit = (qubit >= 0) & (qubit < qubits) & (qubit == np.floor(qubit))
            piece.check("qubit", is_qubit, f"must be a whole number, 0 to {qubits - 1}")
            # float32(-pi) is less than -pi, and a file may have its rounded decimal form.
            with np.errstate(over="ignore"):
                in_interval = (angle.astype(np.float32) >= -PI) & (angle < np.pi)
            piece.check("angle", in_interval, "must be at least -pi and less than pi")
        case "state" if layout.features:
            is_zero = np.all([piece.columns[name] == 0 for name in layout.features], axis=0)
            if is_zero.any():
                place = piece.place(piece.first + int(np.argmax(is_zero)))
                raise piece.error(place, "", "must have a value other than 0, to be divided by its norm", "zeros")
        case "state":
            _check_length(piece, layout)
        case _:
            with np.errstate(over="ignore"):
                for name, offset, factor in zip(layout.features, layout.offsets, layout.factors, strict=True):
                    is_exact = np.abs((piece.columns[name] - offset) * factor) <= MAX_RADIANS
                    # The text of the range takes longer than the check of a few rows.
                    if not is_exact.all():
                        piece.check(name, is_exact, _allowed_range(offset, factor))


def _check_length(piece: Chunk, layout: FeatureLayout) -> None:
    with np.errstate(over="ignore"):
        length = np.sqrt(sum(piece.columns[name] ** 2 for name in layout.columns))
    if (wrong := np.abs(length - 1) > _NORM_TOLERANCE).any():
        row = int(np.argmax(wrong))
        place, what = piece.place(piece.first + row), "the amplitudes of a state must have length 1"
        raise piece.error(place, "", what, f"{length[row]:g}")


def _allowed_range(offset: float, factor: float) -> str:
    radius = MAX_RADIANS / factor
    # Enough digits to distinguish the bounds of a large feature with a small range.
    digits = 6 + math.ceil(math.log10(max(1.0, abs(offset) / radius)))
    return f"must be from {offset - radius:.{digits}g} to {offset + radius:.{digits}g}, or its angle is not exact"


logger = logging.getLogger("qcnn")

SPLIT = "split"
# Columns that predictions have next to the features.
_RESERVED = (ROW, PREDICTION, NOISE_ERROR)
# Names that pandas gives to a column without a name, such as the index of a table that it wrote and read.
_INDEX = re.compile(r"Unnamed: \d+.*|__index_level_\d+__")
# Larger ranges are too close to the largest float64.
_MAX_RANGE = 1e300
# Range of a feature in the training split, relative to its size. Below the first value it may be noise. Below the
# second one, rounding to float64 at the end of the range changes the angle by more than 0.001 rad.
_NEARLY_CONSTANT = 1e-6
_ROUNDING = math.pi * 2.0**-52 / 1e-3


@functools.lru_cache(maxsize=2**10)
def warn_once(line: str) -> None:
    """Log a warning about a file once per process, because several steps may read the same file."""
    logger.warning("%s", line)


def read(config: ExperimentConfig, warn: Callable[[str], None] = warn_once) -> Dataset:
    """Read the dataset of an experiment from its data file.

    Args:
        config: Experiment whose `data` is the file.
        warn: Callback for warnings about probably unintended content.

    Raises:
        ArtifactError: If the file cannot be read or used. The message has the invalid row.
        ConfigError: If the experiment cannot use these samples, or the bucket denies access.
    """
    if config.data == MEMORY:
        raise ConfigError(f"data: must be a file, unless qcnn.train is given the rows. Given: {config.data}")
    # The import takes 0.25 seconds.
    from qcnn.tables.table import open_table

    with open_table(config.data) as table:
        features = _features(table, config)
        if unused := table.unused_index_warning((*features, LABEL, SPLIT)):
            warn(unused)
        rows = _rows(table, features, config)
        split = _split_of_column(rows) if SPLIT in rows.columns else _random_split(len(rows), config)
        labels, classes, label = read_labels(rows, split[0], config)
        layout = dataclasses.replace(_layout(rows, features, split[0], config, warn), labels=labels, classes=classes)
        check(rows, layout, config.qubits)
        check_inputs(rows, layout, config)
        sha256 = sha256_of(table.path)
    source = Source(config.data, sha256, read_sidecar(config.data, sha256, warn))
    row = np.arange(rows.first, rows.first + len(rows), dtype=np.int32)
    samples = Samples(layout.inputs(rows.columns), label, row=row)
    train, validation, test = map(samples.take, split)
    values = {name: rows.columns[name][split[-1]] for name in layout.rounded_columns}
    test = dataclasses.replace(test, values=values)
    if message := _label_message(layout):
        logger.info("%s", message)
    return Dataset(train, validation, test, config.qubits, 0, config.seed, layout, source)


def _label_message(layout: FeatureLayout) -> str:
    """Return how labels are read, or an empty string for -1 and +1."""
    match layout.labels:
        case "zero_one":
            return "labels 0 and 1 are read as -1 and +1"
        case "names":
            return f"labels {' and '.join(layout.classes)} are read as -1 and +1"
        case "classes":
            return f"{len(layout.classes)} classes: {format_names(layout.classes)}"
        case "real":
            return "labels are real numbers: metrics have a mean squared error and no accuracy"
    return ""


def with_file_metadata(config: ExperimentConfig, dataset: Dataset) -> ExperimentConfig:
    """Return an experiment with the numbers of samples and classes and the split fractions of its data file.

    Raises:
        ConfigError: If the experiment cannot run with this number of samples.
    """
    if not config.is_file:
        return config
    if config.options.baseline and dataset.layout.is_regression:
        raise ConfigError(
            "baseline: must be 0 with labels that are real numbers, because classical models are compared by accuracy. "
            f"Given: 1 with {config.data}"
        )
    counts = SplitCounts(*(len(samples) for _, samples in dataset.splits()))
    total = sum(dataclasses.astuple(counts))
    values: dict[str, Any] = {"max_samples": total}
    if config.is_classification:
        values["classes"] = len(dataset.layout.classes)
    if _with_max_samples(config, total).split_counts != counts:
        values |= {"train_fraction": counts.train / total, "validation_fraction": counts.validation / total}
    return from_mapping(merge(config.model_dump(), values))


def resolve_files(
    configs: Sequence[ExperimentConfig], warn: Callable[[str], None] = warn_once
) -> list[ExperimentConfig]:
    """Return experiments with the metadata and the absolute paths of their data files.

    Experiments with equal data settings share one read of the file.

    Args:
        configs: Experiments, with or without a data file.
        warn: Callback for warnings about probably unintended content.

    Raises:
        ArtifactError: If a file cannot be read or used. The message has the invalid row.
        ConfigError: If an experiment cannot use these samples, a user's Hamiltonian is invalid, or the bucket denies
            access.
    """
    known: dict[str, Dataset] = {}

    def complete(config: ExperimentConfig) -> ExperimentConfig:
        if config.is_custom_hamiltonian:
            # Importing cirq, and the user's module, may take seconds.
            from qcnn.data.ground_states import check_custom_hamiltonian

            check_custom_hamiltonian(config)
        if not config.is_file:
            return config
        if config.data != MEMORY and not parse_bucket_uri(config.data):
            config = config.model_copy(update={"data": str(Path(config.data).absolute())})
        # These fields include the seed, which determines the split.
        rows = set(affecting(Affects.ROWS))
        # The inputs of a circuit are columns, and its functions have domains.
        circuit = config.model if config.encoding == "circuit" else ""
        key = repr((config.model_dump(include=rows), config.options.model_dump(include=rows), circuit))
        if key not in known:
            known[key] = read(config, warn)
        return with_file_metadata(config, known[key])

    return [complete(config) for config in configs]


def _with_max_samples(config: ExperimentConfig, samples: int) -> ExperimentConfig:
    return config.model_copy(update={"options": config.options.model_copy(update={"max_samples": samples})})


def _features(table: Table, config: ExperimentConfig) -> tuple[str, ...]:
    """Return the columns that are model inputs."""
    if config.encoding == "excitation":
        if not set(EXCITATIONS.columns) & set(table.names):
            others = [name for name in get_args(Encoding) if name != config.encoding]
            raise ConfigError(
                f"encoding: must be {', '.join(others[:-1])} or {others[-1]} for features; {config.encoding} requires "
                f"the columns {' and '.join(EXCITATIONS.columns)}. "
                f"Given: {config.encoding} with {', '.join(table.names)} in {config.data}"
            )
        return EXCITATIONS.columns
    features, is_state = features_of(table), config.preparation.kind == "state"
    limit = 2**config.qubits if is_state else config.preparation.features
    if config.encoding == "circuit" and len(features) != limit:
        raise ArtifactError(
            f"data: must have one column for each input of the circuit, {', '.join(config.circuit_inputs)}, beside "
            f"{LABEL} and {SPLIT}. Given: {', '.join(features)} in {config.data}"
        )
    if not 1 <= len(features) <= limit:
        each = {"state": "one feature per amplitude", "dense": "two features per qubit"}
        most = each.get(config.preparation.kind, "one feature per qubit")
        raise ArtifactError(
            f"data: must have 1 to {limit} columns in addition to {LABEL} and {SPLIT}, at most {most}. "
            f"Given: {len(features)} in {config.data}"
        )
    for name in _RESERVED:
        if name in features:
            raise ArtifactError(
                f"data: no feature may be called {', '.join(_RESERVED[:-1])} or {_RESERVED[-1]}, because predictions "
                f"have these columns. Given: {name} in {config.data}"
            )
    if config.is_classification and (named := [name for name in features if name.startswith(PROBABILITY)]):
        raise ArtifactError(
            f"data: no feature may begin with {PROBABILITY} with loss cross_entropy, because predictions have these "
            f"columns. Given: {named[0]} in {config.data}"
        )
    return features


def features_of(table: Table) -> tuple[str, ...]:
    """Return the columns that are features: all except label, split, and an index written by pandas.

    Raises:
        ArtifactError: If a column is probably a row number, which pandas writes without a name.
    """
    features = tuple(name for name in table.names if name not in (LABEL, SPLIT, *table.index))
    for name in features:
        if not name.strip():
            raise ArtifactError(
                f"data: column {table.names.index(name) + 1} must have a name, or be dropped if it is an index: "
                f"to_csv(..., index=False). Given: {format_value(list(table.names))} in {table.address}"
            )
        if _INDEX.fullmatch(name):
            raise ArtifactError(
                f"data: column {name} must be dropped if it is an index, or be renamed to be a feature. "
                f"Given: {name} in {table.address}"
            )
    return features


def _rows(table: Table, features: Sequence[str], config: ExperimentConfig) -> Chunk:
    """Return the rows to use as one chunk, without reading further rows."""
    split = tuple(name for name in (SPLIT,) if name in table.names)
    try:
        return _limited(table.pieces((*features, LABEL, *split), split), config)
    except ArtifactError:
        text_label = first_text_label(table)
        if text_label is None:
            raise
    # A file of numbers with a text is damaged; without a number, the texts are names of classes.
    if not config.is_classification and has_number_label(table):
        raise text_label
    return _limited(table.pieces((*features, LABEL, *split), (LABEL, *split)), config)


def _limited(chunks: Iterator[Chunk], config: ExperimentConfig) -> Chunk:
    """Join chunks up to `max_samples` rows."""
    from qcnn.tables.chunks import Chunk

    wanted, limit = config.options.max_samples, config.sample_limit
    pieces: list[Chunk] = []
    count = 0
    for piece in chunks:
        pieces.append(piece)
        count += len(piece)
        if wanted and count >= wanted:
            break
        if count > limit:
            raise ArtifactError(
                f"data: must have at most {limit} rows with encoding {config.encoding} on {config.qubits} qubits; "
                f"set max_samples to read fewer. Given: {config.data}"
            )
    if count < wanted:
        raise ArtifactError(f"max_samples: the file must have at least {wanted} rows. Given: {count} in {config.data}")
    columns = {
        name: np.concatenate([piece.columns[name] for piece in pieces])[: wanted or None] for name in pieces[0].columns
    }
    return Chunk(1, columns, pieces[0].place)


def _split_of_column(rows: Chunk) -> list[npt.NDArray[np.int64]]:
    # Without surrounding spaces, like numbers.
    names = np.array([name.strip() for name in rows.columns[SPLIT]], object)
    allowed = f"{', '.join(SPLITS[:-1])} or {SPLITS[-1]}"
    rows.check(SPLIT, np.isin(names, SPLITS), f"must be {allowed}")
    indices = [np.flatnonzero(names == name) for name in SPLITS]
    for name, part in zip(SPLITS, indices, strict=True):
        if not len(part):
            raise ArtifactError(
                f"data: column {SPLIT}: each of {', '.join(SPLITS)} must have a row. Given: none of {name}"
            )
    return indices


def _random_split(count: int, config: ExperimentConfig) -> list[npt.NDArray[np.int64]]:
    complete = from_mapping(merge(config.model_dump(), {"max_samples": count}))
    return parts(complete.split_counts, config.seed)


def _layout(
    rows: Chunk,
    features: tuple[str, ...],
    train: npt.NDArray[np.int64],
    config: ExperimentConfig,
    warn: Callable[[str], None],
) -> FeatureLayout:
    """Return the layout without labels, with feature scales from the training rows."""
    if config.encoding == "excitation":
        return FeatureLayout()
    if config.preparation.kind == "state":
        return FeatureLayout(config.preparation, features, amplitudes=2**config.qubits)
    scales = [(0.0, 1.0)] * len(features)
    if config.options.feature_scaling == "minmax":
        for name in features:
            _check_varies(name, rows.columns[name][train], config.data, warn)
        scales = [_scale(name, rows.columns[name][train]) for name in features]
    offsets, factors = zip(*scales, strict=True)
    return FeatureLayout(config.preparation, features, offsets, factors)


def _scale(name: str, values: Column) -> tuple[float, float]:
    """Return the offset and the factor that map the minimum of a feature to 0 and its maximum to pi."""
    minimum, maximum = float(values.min()), float(values.max())
    factor = math.pi / (maximum - minimum) if maximum > minimum else math.inf
    if maximum - minimum > _MAX_RANGE or factor == math.inf:
        raise ArtifactError(
            f"data: column {name}: must have different values in the training split to be scaled, and no more than "
            f"1e300 apart. Given: {minimum:g} to {maximum:g}"
        )
    return minimum, factor


def _check_varies(name: str, values: Column, uri: str, warn: Callable[[str], None]) -> None:
    """Raise ArtifactError if a feature varies by rounding only, and warn if it varies by noise only."""
    minimum, maximum = float(values.min()), float(values.max())
    size = max(abs(minimum), abs(maximum))
    with np.errstate(over="ignore"):
        width = maximum - minimum
    if 0 < width <= _ROUNDING * size:
        raise ArtifactError(
            f"data: column {name}: must have values in the training split that differ by more than float64 rounding, "
            f"to be scaled. Given: {minimum!r} to {maximum!r}"
        )
    if 0 < width <= _NEARLY_CONSTANT * size:
        warn(
            f"data: column {name} in {uri}: the values of the training split differ by {width:.3g} at a size of "
            f"{size:.9g}; scaling maps this difference to 0..pi, even if it is noise"
        )
