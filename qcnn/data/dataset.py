"""The dataset of an experiment and its folder, written whole or not at all, and checked when it is read."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from qcnn.artifact_io import load_description, open_arrays, save_description
from qcnn.atomic_files import new_folder, readable
from qcnn.circuits.preparation import InputSpec
from qcnn.data.file_data import read
from qcnn.data.generators import generate_excitations
from qcnn.data.samples import EXCITATIONS, LABEL, PI, SPLITS, Dataset, FeatureLayout, Samples, Source
from qcnn.errors import ArtifactError, format_value
from qcnn.experiment import ExperimentConfig
from qcnn.fields import CLUSTER_ISING
from qcnn.storage.copies import local_copy

_ARRAYS = "dataset.npz"
_DESCRIPTION = "dataset.json"
# The most excitations have 90 MB; features and states half a GiB, and their labels.
_MOST_BYTES, _MOST_BYTES_OF_OTHERS = 2**27, 2**30
_LAYOUT, _SOURCE = TypeAdapter(FeatureLayout), TypeAdapter(Source | None)


def save(dataset: Dataset, folder: Path) -> None:
    """Write dataset.npz and dataset.json into a new folder; a reader sees the whole or nothing."""
    arrays = {
        f"{name}_{field}": values
        for name, samples in dataset.splits()
        for field, values in {**samples.inputs, LABEL: samples.label, **samples.known}.items()
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
        save_description(description, unfinished / _DESCRIPTION)


def describe(layout: FeatureLayout, source: Source | None) -> dict[str, Any]:
    """Return what is kept of how samples were read; nothing of excitations that were drawn."""
    return {
        **({"layout": dataclasses.asdict(layout)} if layout != EXCITATIONS else {}),
        **({"source": dataclasses.asdict(source)} if source else {}),
    }


def described(description: Mapping[str, Any]) -> tuple[FeatureLayout, Source | None]:
    """Read what `describe` returned.

    Raises:
        ValueError: it has other values than these.
    """
    try:
        layout = _LAYOUT.validate_python(description.get("layout", {}))
        source = _SOURCE.validate_python(description.get("source"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise ValueError(f"its layout is wrong: {first['msg']}") from None
    if not len(layout.features) == len(layout.offsets) == len(layout.factors) <= layout.preparation.features:
        raise ValueError("its layout is wrong: their features have other numbers")
    if not all(map(math.isfinite, layout.offsets)) or not all(0 < factor < math.inf for factor in layout.factors):
        raise ValueError("its layout is wrong: a feature is scaled by what no numbers scale to")
    return layout, source


def load(folder: Path) -> Dataset:
    """Read and check a dataset folder.

    Raises:
        ArtifactError: a file is missing or damaged, the schema is another, or a value is out of range.
    """
    description = _load_description(folder / _DESCRIPTION)
    path = folder / _ARRAYS
    with readable("dataset", folder / _DESCRIPTION):
        layout, source = described(description)
    qubits = description["qubits"]
    inputs = layout.preparation.inputs(qubits)
    most = _MOST_BYTES if layout.preparation.kind == "excitation" else _MOST_BYTES_OF_OTHERS
    with readable("dataset", path), open_arrays(path, most) as arrays:
        splits = {name: Samples(*_columns(path, arrays, name, inputs, layout)) for name in SPLITS}
    for name, samples in splits.items():
        _check(path, name, samples, description)
    train, validation, test = (splits[name] for name in SPLITS)
    dataset = Dataset(train, validation, test, qubits, description["rounds"], description["seed"], layout, source)
    if dataset.digest != description.get("digest", dataset.digest):
        raise ArtifactError(f"dataset: {_ARRAYS} is damaged: {_DESCRIPTION} names other samples. Given: {path}")
    return dataset


def check_fits(dataset: Dataset, config: ExperimentConfig) -> None:
    """Refuse a dataset that was made for another number of qubits, or of samples that are prepared otherwise.

    Raises:
        ArtifactError: these differ.
    """
    if dataset.qubits != config.qubits:
        raise ArtifactError(
            f"dataset: must hold {config.qubits} qubits, as the experiment does. Given: {dataset.qubits} qubits"
        )
    if dataset.layout.preparation != config.preparation:
        raise ArtifactError(
            f"dataset: must hold samples of preparation {config.preparation.kind}, as the experiment does. Given: "
            f"{dataset.layout.preparation.kind}"
        )


def _load_description(path: Path) -> dict[str, Any]:
    description = load_description("dataset", path)
    for key in ("qubits", "rounds", "seed"):
        if type(description.get(key)) is not int:
            raise ArtifactError(
                f"dataset: {key} must be an integer. Given: {format_value(description.get(key))} in {path}"
            )
    return description


def _columns(
    path: Path, arrays: Any, split: str, inputs: Mapping[str, InputSpec], layout: FeatureLayout
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[Any], dict[str, npt.NDArray[Any]]]:
    """Return what the model takes of a split's samples, their labels, and what else is known of them."""
    real = InputSpec((), "float64")
    label = real if layout.is_regression else InputSpec((), "int8")
    return (
        {name: _column(path, arrays, f"{split}_{name}", given) for name, given in inputs.items()},
        _column(path, arrays, f"{split}_{LABEL}", label),
        {name: _column(path, arrays, f"{split}_{name}", real) for name in layout.known},
    )


def _column(path: Path, arrays: Any, name: str, expected: InputSpec) -> npt.NDArray[Any]:
    if name not in arrays:
        raise ArtifactError(f"dataset: {name} is missing. Given: {path}")
    column: npt.NDArray[Any] = arrays[name]
    if column.dtype != expected.dtype or column.shape[1:] != expected.shape or not column.ndim:
        each = f"{expected.shape[0]} of {expected.dtype} for each sample" if expected.shape else expected.dtype
        raise ArtifactError(f"dataset: {name} must be one row of {each}. Given: {column.dtype}, shape {column.shape}")
    return column


def _check(path: Path, name: str, samples: Samples, description: Mapping[str, Any]) -> None:
    split = description.get("split")
    expected = split.get(name) if isinstance(split, dict) else None
    counts = [len(values) for values in (*samples.inputs.values(), samples.label, *samples.known.values())]
    if set(counts) != {expected} or not expected:
        raise ArtifactError(
            f"dataset: {name} must hold {expected} samples, at least 1, in each column. Given: "
            f"{' / '.join(map(str, counts))} in {path}"
        )
    for field, values, bad, what in _faults(samples, description["qubits"]):
        if bad.any():
            raise ArtifactError(f"dataset: {name}_{field} must be {what}. Given: {values[bad][0]} in {path}")


def _faults(samples: Samples, qubits: int) -> Iterator[tuple[str, npt.NDArray[Any], npt.NDArray[np.bool_], str]]:
    """Yield each column of samples with its values, which of them are wrong, and what is allowed."""
    for name, values in {**samples.inputs, **samples.known}.items():
        match name:
            case "qubit":
                yield name, values, (values < 0) | (values >= qubits), f"in 0..{qubits - 1}"
            case "angle":
                yield name, values, ~((values >= -PI) & (values < PI)), "in [-pi, pi)"
            case _:
                yield name, values, ~np.isfinite(values), "finite"
    label = samples.label
    is_class = label.dtype == np.int8
    bad = np.abs(label) != 1 if is_class else ~np.isfinite(label)
    yield LABEL, label, bad, "-1 or +1" if is_class else "finite"


def generate(config: ExperimentConfig) -> Dataset:
    """Make the dataset of an experiment.

    >>> from qcnn.experiment_io import from_mapping
    >>> dataset = generate(from_mapping({"qubits": 4, "rounds": 10, "seed": 7}))
    >>> len(dataset.train), len(dataset.validation), len(dataset.test)
    (28, 6, 6)
    >>> dataset.train.qubit[:3].tolist(), dataset.train.label[:3].tolist()
    ([2, 3, 2], [-1, 1, -1])
    """
    if config.is_file:
        return read(config)
    if config.data == CLUSTER_ISING:
        # SciPy is not where only others are made.
        from qcnn.data.generators import generate_ground_states

        return generate_ground_states(config)
    return generate_excitations(config)


def load_or_generate(address: str | None, config: ExperimentConfig) -> Dataset:
    """Return the dataset at an address, or without one that of an experiment, which is the same wherever it is made."""
    if not address:
        return generate(config)
    with local_copy(address) as folder:
        return load(folder)
