"""Ground states of spin chains as samples, labelled by phase."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcnn.circuits.chains import CHAINS, chain_of
from qcnn.circuits.chains.chain import Floats, Parameter, PauliString, Point
from qcnn.circuits.chains.ground_states import ground_state
from qcnn.data.labels import format_names
from qcnn.data.random_streams import FIELDS, random_units
from qcnn.data.samples import SPLITS, Dataset, FeatureLayout, Labels, Samples
from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.fields import MAX_CLASSES

if TYPE_CHECKING:
    from qcnn.circuits.chains.custom import CustomHamiltonian

logger = logging.getLogger("qcnn")

# Roots of x^(d+1) = x + 1 for d = 1 and 2. Multiples of 1/x to 1/x^d, modulo 1, fill the unit interval or square
# evenly for any number of points.
_EVEN = {1: 1.618033988749895, 2: 1.324717957244746}
# Values of the parameters of the samples of each split, (samples,) each.
_Points = dict[str, tuple[Floats, ...]]
# Samples of each split, the type of their labels, and the names of their classes.
_Labelled: TypeAlias = tuple[dict[str, Samples], Labels, tuple[str, ...]]


def generate_ground_states(config: ExperimentConfig) -> Dataset:
    """Generate the dataset of an experiment on ground states, labelled by phase.

    Training and validation samples are on the training lines of the chain. Test samples cover the whole phase diagram,
    so the test accuracy is the fraction of the diagram with correct predictions. The same seed gives the same bits on
    one machine. On different machines an amplitude may differ by `RESOLUTION`.

    Raises:
        ConfigError: If a user's function fails, or returns an invalid Hamiltonian or label.
    """
    samples, labels, classes = (_of_chain if config.data in CHAINS else _of_custom_hamiltonian)(config)
    layout = FeatureLayout(
        config.preparation,
        amplitudes=2**config.qubits,
        known=tuple(samples["train"].known),
        labels=labels,
        classes=classes,
    )
    train, validation, test = (samples[split] for split in SPLITS)
    return Dataset(train, validation, test, config.qubits, config.rounds, config.seed, layout)


def _of_chain(config: ExperimentConfig) -> _Labelled:
    chain, samples = chain_of(config.data), {}
    _log(config)
    for split, points in _points(config, chain.parameters, chain.training_lines).items():
        state = np.stack([ground_state(chain, config.qubits, *point).state for point in _rows(points)])
        number = chain.class_of(*points)
        label = (number if config.is_classification else np.where(number > 0, 1, -1)).astype(np.int8)
        samples[split] = Samples({"state": state}, label, _named(chain.parameters, points))
    if config.is_classification:
        return samples, "classes", chain.classes
    return samples, "signs", ()


def _of_custom_hamiltonian(config: ExperimentConfig) -> _Labelled:
    # Importing cirq takes a second.
    from qcnn.circuits.chains import custom

    hamiltonian, samples = custom.load(config.data), {}
    points = _points(config, hamiltonian.parameters, hamiltonian.training_lines)
    terms, given = _evaluate(hamiltonian, config, points)
    labels, classes, label = _label_columns(config, given)
    _log(config)
    for split in SPLITS:
        state = np.stack([custom.ground_state(each, config.qubits).state for each in terms[split]])
        samples[split] = Samples({"state": state}, label[split], _named(hamiltonian.parameters, points[split]))
    return samples, labels, classes


def check_custom_hamiltonian(config: ExperimentConfig) -> None:
    """Check the Hamiltonians and labels of a user's function at all points of an experiment, without ground states.

    Raises:
        ConfigError: If the function fails, or returns an invalid Hamiltonian or label.
    """
    from qcnn.circuits.chains import custom

    hamiltonian = custom.load(config.data)
    points = _points(config, hamiltonian.parameters, hamiltonian.training_lines)
    _label_columns(config, _evaluate(hamiltonian, config, points)[1])


def _evaluate(
    hamiltonian: CustomHamiltonian, config: ExperimentConfig, points: _Points
) -> tuple[dict[str, list[list[tuple[PauliString, float]]]], dict[str, list[str | int]]]:
    """Return the Hamiltonians and the labels of a user's function by split."""
    terms, labels = {}, {}
    for split in SPLITS:
        results = [hamiltonian.evaluate(config.qubits, point) for point in _rows(points[split])]
        terms[split], labels[split] = [each for each, _ in results], [label for _, label in results]
    return terms, labels


def _log(config: ExperimentConfig) -> None:
    logger.info("diagonalizing for %d ground states of %d qubits", config.rounds * config.qubits, config.qubits)


def _named(parameters: Sequence[Parameter], points: Sequence[Floats]) -> dict[str, Floats]:
    return {parameter.name: column for parameter, column in zip(parameters, points, strict=True)}


def points_of(
    split: str,
    seed: int,
    count: int,
    parameters: Sequence[Parameter],
    lines: Sequence[tuple[Point, Point]],
) -> tuple[Floats, ...]:
    """Return the values of each parameter of the samples of a split, float64 (count,) each.

    On the training lines, points are spaced evenly for training, and uniformly random for validation. Test points fill
    the ranges evenly, and the distribution of each point is uniform.

    Args:
        split: Name of the split.
        seed: Seed of the validation and test points.
        count: Number of samples.
        parameters: Parameters with their ranges.
        lines: Ends of the training lines. Without lines, training points fill the ranges evenly, and validation points
            are uniformly random in them.
    """
    size = len(parameters)
    if split == "test" or not lines:
        if split == "validation":
            units = random_units(FIELDS, seed, size * count).reshape(size, count)
        else:
            # Training points do not depend on the seed.
            shift = random_units(FIELDS, seed, size, stream=1) if split == "test" else np.full(size, 0.5)
            units = np.array([(shift[i] + np.arange(count) / _EVEN[size] ** (i + 1)) % 1 for i in range(size)])
        return tuple(parameter.scale(each) for parameter, each in zip(parameters, units, strict=True))
    starts, stops = (np.array([line[end] for line in lines]) for end in (0, 1))
    if split == "train":
        counts = [len(part) for part in np.array_split(np.arange(count), len(lines))]
        return tuple(
            np.concatenate([np.linspace(*line) for line in zip(starts[:, i], stops[:, i], counts, strict=True)])
            for i in range(size)
        )
    position = len(lines) * random_units(FIELDS, seed, count)
    line = position.astype(np.int64)
    return tuple(starts[line, i] + (stops - starts)[line, i] * (position - line) for i in range(size))


def _points(config: ExperimentConfig, parameters: Sequence[Parameter], lines: Sequence[tuple[Point, Point]]) -> _Points:
    counts = config.split_counts
    return {split: points_of(split, config.seed, getattr(counts, split), parameters, lines) for split in SPLITS}


def _rows(columns: Sequence[Floats]) -> list[Point]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _label_columns(
    config: ExperimentConfig, given: dict[str, list[str | int]]
) -> tuple[Labels, tuple[str, ...], dict[str, npt.NDArray[np.int8]]]:
    """Return the type of the labels of a user's function, the names of their classes, and the labels by split.

    Raises:
        ConfigError: If the experiment cannot use this number of classes, or a class is missing in the training split.
    """
    every = {label for labels in given.values() for label in labels}
    names = _class_names(every)
    if not 2 <= len(names) <= MAX_CLASSES:
        raise ConfigError(
            f"data: must have labels of 2 to {MAX_CLASSES} classes. Given: {len(names)} ({format_names(names)}) from "
            f"{config.data}"
        )
    wanted = config.options.classes if config.is_classification else 2
    if len(names) != wanted:
        field, value = ("classes", str(wanted)) if config.is_classification else ("loss", config.options.loss)
        allowed = str(len(names)) if config.is_classification else "cross_entropy"
        raise ConfigError(f"{field}: must be {allowed} with the {len(names)} labels of {config.data}. Given: {value}")
    number = {name: index for index, name in enumerate(names)}
    columns = {split: np.array([number[str(label)] for label in labels], np.int8) for split, labels in given.items()}
    missing = np.setdiff1d(np.arange(len(names)), columns["train"])
    if len(missing):
        raise ConfigError(
            f"data: each class must have a ground state in the training split. Given: none of {names[missing[0]]} from "
            f"{config.data}"
        )
    if config.is_classification:
        return "classes", names, columns
    signs = {split: np.where(column > 0, 1, -1).astype(np.int8) for split, column in columns.items()}
    known: dict[tuple[str, ...], Labels] = {("-1", "1"): "signs", ("0", "1"): "zero_one"}
    labels = known.get(names, "names")
    return labels, names if labels == "names" else (), signs


def _class_names(labels: set[Any]) -> tuple[str, ...]:
    """Return the names of classes in order: numbers by value, if there are no others, else text by code point."""
    if all(isinstance(label, int) for label in labels):
        return tuple(map(str, sorted(labels)))
    return tuple(sorted(set(map(str, labels))))
