"""Dataset generation, and dataset folders with atomic writes and validation on load."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from qcnn.artifact_io import FILES, check_files, load_description, open_arrays, save_description
from qcnn.atomic_files import new_folder, readable
from qcnn.circuits.preparation import InputSpec
from qcnn.data.file_data import read
from qcnn.data.generators import generate_excitations
from qcnn.data.samples import EXCITATIONS, LABEL, PI, ROW, SPLITS, Dataset, FeatureLayout, Samples, Source
from qcnn.errors import ArtifactError, ConfigError, format_value
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.fields import MAX_CLASSES
from qcnn.storage.copies import local_copy

_ARRAYS = "dataset.npz"
_DESCRIPTION = "dataset.json"
# Values of `Samples.values` in the archive, float64 (samples, columns), because names of columns are arbitrary.
_VALUES = "values"
# The largest dataset has 210 MB with excitations, and 0.9 GiB with features.
_MAX_BYTES_EXCITATIONS, _MAX_BYTES = 2**28, 2**30
_LAYOUT, _SOURCE = TypeAdapter(FeatureLayout), TypeAdapter(Source | None)


def save(dataset: Dataset, folder: Path) -> None:
    """Write dataset.npz and dataset.json into a new folder, atomically."""
    arrays: dict[str, Any] = {
        f"{name}_{field}": values for name, samples in dataset.splits() for field, values in _arrays(samples).items()
    }
    description = {
        "qubits": dataset.qubits,
        "rounds": dataset.rounds,
        "seed": dataset.seed,
        "split": {name: len(samples) for name, samples in dataset.splits()},
        "digest": dataset.digest,
        **describe(dataset.layout, dataset.source),
    }
    with new_folder(folder) as unfinished:
        np.savez(unfinished / _ARRAYS, **arrays)
        save_description(description, unfinished / _DESCRIPTION, [_ARRAYS])


def _arrays(samples: Samples) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a split in the archive."""
    return {
        **samples.inputs,
        LABEL: samples.label,
        **samples.known,
        **({} if samples.row is None else {ROW: samples.row}),
        **({_VALUES: np.stack([*samples.values.values()], axis=1)} if samples.values else {}),
    }


def describe(layout: FeatureLayout, source: Source | None) -> dict[str, Any]:
    """Return the JSON form of a layout and a source, empty for generated excitations."""
    written = {name: value for name, value in dataclasses.asdict(layout).items() if value or name != "classes"}
    return {
        **({"layout": written} if layout != EXCITATIONS else {}),
        **({"source": _without_empty(dataclasses.asdict(source))} if source else {}),
    }


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    # Descriptions of files that qcnn did not make are as before.
    return {name: value for name, value in values.items() if value}


def parse_description(description: Mapping[str, Any]) -> tuple[FeatureLayout, Source | None]:
    """Parse the layout and the source from the JSON form of `describe`.

    Raises:
        ValueError: If a value is invalid.
    """
    try:
        layout = _LAYOUT.validate_python(description.get("layout", {}))
        source = _SOURCE.validate_python(description.get("source"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise ValueError(f"its layout is wrong: {first['msg']}") from None
    is_state = layout.preparation.kind == "state"
    scaled, limit = ((), layout.amplitudes) if is_state else (layout.features, layout.preparation.features)
    if not (len(scaled) == len(layout.offsets) == len(layout.factors) and len(layout.features) <= limit):
        raise ValueError("its layout is wrong: the numbers of features, offsets and factors differ")
    if bool(layout.classes) != (layout.labels in ("names", "classes")) or len(layout.classes) > MAX_CLASSES:
        raise ValueError(
            f"its layout is wrong: it must have the names of at most {MAX_CLASSES} classes if they have any"
        )
    if not all(map(math.isfinite, layout.offsets)) or not all(0 < factor < math.inf for factor in layout.factors):
        raise ValueError("its layout is wrong: offsets must be finite and factors positive and finite")
    return layout, source


def load(folder: Path) -> Dataset:
    """Read and validate a dataset folder.

    Raises:
        ArtifactError: If a file is missing or damaged, the schema differs, or a value is out of range.
    """
    description = _load_description(folder / _DESCRIPTION)
    path = folder / _ARRAYS
    with readable("dataset", folder / _DESCRIPTION):
        layout, source = parse_description(description)
    qubits = description["qubits"]
    inputs = layout.preparation.inputs(qubits)
    max_bytes = _MAX_BYTES_EXCITATIONS if layout.preparation.kind == "excitation" else _MAX_BYTES
    # Datasets of earlier versions have no digest of the file.
    if FILES in description:
        check_files("dataset", folder / _DESCRIPTION, description[FILES], _ARRAYS, max_bytes)
    with readable("dataset", path), open_arrays(path, max_bytes) as arrays:
        splits = {name: _samples(path, arrays, name, inputs, layout) for name in SPLITS}
    for name, samples in splits.items():
        _check(path, name, samples, description, layout)
    train, validation, test = (splits[name] for name in SPLITS)
    dataset = Dataset(train, validation, test, qubits, description["rounds"], description["seed"], layout, source)
    if dataset.digest != description.get("digest", dataset.digest):
        raise ArtifactError(f"dataset: {_ARRAYS} is damaged: its digest is not that of {_DESCRIPTION}. Given: {path}")
    return dataset


def check_fits(dataset: Dataset, config: ExperimentConfig) -> None:
    """Raise ArtifactError if a dataset and an experiment differ in qubits, state preparation or type of labels."""
    if dataset.qubits != config.qubits:
        raise ArtifactError(
            f"dataset: must have {config.qubits} qubits, as the experiment. Given: {dataset.qubits} qubits"
        )
    if dataset.layout.preparation != config.preparation:
        raise ArtifactError(
            f"dataset: must have samples of preparation {config.preparation.kind}, as the experiment. "
            f"Given: {dataset.layout.preparation.kind}"
        )
    if config.is_classification != dataset.layout.is_classification:
        raise ArtifactError(
            f"dataset: must have the labels of loss {config.options.loss}, as the experiment. "
            f"Given: {dataset.layout.labels}"
        )


def _load_description(path: Path) -> dict[str, Any]:
    description = load_description("dataset", path)
    for key in ("qubits", "rounds", "seed"):
        if type(description.get(key)) is not int:
            raise ArtifactError(
                f"dataset: {key} must be an integer. Given: {format_value(description.get(key))} in {path}"
            )
    return description


def _samples(path: Path, arrays: Any, split: str, inputs: Mapping[str, InputSpec], layout: FeatureLayout) -> Samples:
    """Return the samples of a split."""
    real = InputSpec((), "float64")
    label = real if layout.is_regression else InputSpec((), "int8")
    row, values, names = f"{split}_{ROW}", f"{split}_{_VALUES}", layout.rounded_columns
    # Datasets of earlier releases have no rows. Only the test split has values.
    columns = _column(path, arrays, values, InputSpec((len(names),), "float64")).T if values in arrays else ()
    return Samples(
        {name: _column(path, arrays, f"{split}_{name}", expected) for name, expected in inputs.items()},
        _column(path, arrays, f"{split}_{LABEL}", label),
        {name: _column(path, arrays, f"{split}_{name}", real) for name in layout.known},
        _column(path, arrays, row, InputSpec((), "int32")) if row in arrays else None,
        dict(zip(names, columns, strict=True)) if values in arrays else {},
    )


def _column(path: Path, arrays: Any, name: str, expected: InputSpec) -> npt.NDArray[Any]:
    if name not in arrays:
        raise ArtifactError(f"dataset: {name} is missing. Given: {path}")
    column: npt.NDArray[Any] = arrays[name]
    if column.dtype != expected.dtype or column.shape[1:] != expected.shape or not column.ndim:
        each = f"{expected.shape[0]} of {expected.dtype} per sample" if expected.shape else expected.dtype
        raise ArtifactError(f"dataset: {name} must be one row of {each}. Given: {column.dtype}, shape {column.shape}")
    return column


def _check(path: Path, name: str, samples: Samples, description: Mapping[str, Any], layout: FeatureLayout) -> None:
    split = description.get("split")
    expected = split.get(name) if isinstance(split, dict) else None
    columns = (*samples.inputs.values(), samples.label, *samples.known.values(), *samples.values.values())
    counts = [len(values) for values in (*columns, *([] if samples.row is None else [samples.row]))]
    if set(counts) != {expected} or not expected:
        raise ArtifactError(
            f"dataset: {name} must have {expected} samples, at least 1, in each column. Given: "
            f"{' / '.join(map(str, counts))} in {path}"
        )
    for field, values, is_invalid, allowed in _invalid_values(samples, description["qubits"], layout):
        if is_invalid.any():
            raise ArtifactError(f"dataset: {name}_{field} must be {allowed}. Given: {values[is_invalid][0]} in {path}")


def _invalid_values(
    samples: Samples, qubits: int, layout: FeatureLayout
) -> Iterator[tuple[str, npt.NDArray[Any], npt.NDArray[np.bool_], str]]:
    """Yield the name and the values of each column, the mask of invalid values, and the allowed values."""
    for name, values in {**samples.inputs, **samples.known}.items():
        match name:
            case "qubit":
                yield name, values, (values < 0) | (values >= qubits), f"in 0..{qubits - 1}"
            case "angle":
                yield name, values, ~((values >= -PI) & (values < PI)), "in [-pi, pi)"
            case _:
                yield name, values, ~np.isfinite(values), "finite"
    for values in samples.values.values():
        yield _VALUES, values, ~np.isfinite(values), "finite"
    if samples.row is not None:
        yield ROW, samples.row, samples.row < 1, "at least 1"
    label = samples.label
    match layout.labels:
        case "real":
            yield LABEL, label, ~np.isfinite(label), "finite"
        case "classes":
            yield LABEL, label, (label < 0) | (label >= len(layout.classes)), f"in 0..{len(layout.classes) - 1}"
        case _:
            yield LABEL, label, np.abs(label) != 1, "-1 or +1"


def generate(config: ExperimentConfig) -> Dataset:
    """Generate the dataset of an experiment, or read it from the experiment's data file.

    Raises:
        ArtifactError: If a row of the file is invalid.
        ConfigError: If the experiment cannot use these samples.

    >>> from qcnn.experiment.parsing import from_mapping
    >>> dataset = generate(from_mapping({"qubits": 4, "rounds": 10, "seed": 7}))
    >>> len(dataset.train), len(dataset.validation), len(dataset.test)
    (28, 6, 6)
    >>> dataset.train.qubit[:3].tolist(), dataset.train.label[:3].tolist()
    ([2, 3, 2], [-1, 1, -1])
    """
    if config.is_file:
        return read(config)
    if config.has_ground_states:
        # Only these experiments need the modules of the chains.
        from qcnn.data.ground_states import generate_ground_states

        generated = generate_ground_states(config)
    else:
        generated = generate_excitations(config)
        generated = _with_classes(generated) if config.is_classification else generated
    _check_baseline(config, generated)
    return generated


def _check_baseline(config: ExperimentConfig, dataset: Dataset) -> None:
    """Raise ConfigError if classical models cannot be fitted to generated samples.

    Files and custom Hamiltonians have rows of each class.
    """
    if config.options.baseline and len(found := np.unique(dataset.train.label)) < 2:
        raise ConfigError(
            "baseline: must be 0 unless the training split has samples of two classes; increase rounds. "
            f"Given: 1 with label {found[0]} in all of its {len(dataset.train)} samples"
        )


def _with_classes(dataset: Dataset) -> Dataset:
    """Return a dataset with labels -1 and +1 as the numbers of two classes."""
    train, validation, test = (
        dataclasses.replace(samples, label=(samples.label > 0).astype(np.int8)) for _, samples in dataset.splits()
    )
    # The names of these labels in a file.
    layout = dataclasses.replace(dataset.layout, labels="classes", classes=("-1", "1"))
    return dataclasses.replace(dataset, train=train, validation=validation, test=test, layout=layout)


def load_or_generate(uri: str | None, config: ExperimentConfig) -> Dataset:
    """Load the dataset from a URI, or generate it from the experiment.

    Generation is deterministic, so both give the same data.
    """
    if not uri:
        return generate(config)
    with local_copy(uri) as folder:
        return load(folder)
