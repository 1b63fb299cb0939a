"""An experiment in Python, whose fields are arguments, and what it will take."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from qcnn import data
from qcnn.circuits.formats.loading import with_circuit
from qcnn.data import Dataset
from qcnn.errors import ConfigError, format_value
from qcnn.experiment import ALL_FIELDS, ExperimentConfig
from qcnn.experiment_io import as_shown, from_mapping, read_file, with_options
from qcnn.extras import translate_errors
from qcnn.frozen import Frozen, FrozenDict, frozen
from qcnn.model.history import epochs_left


class Experiment(Frozen):
    """An experiment: every field of docs/configuration.md with its value, options at the same level.

    What is not given has its default, and what rules choose is chosen: `words` holds them all. Of a model that is a
    file, `model` is a text that holds its circuit; of data that are a file, it is read. Experiments do not change.

    Raises:
        ArtifactError: the file cannot be used; one line with the row that is wrong.
        ConfigError: one line with the first word that is wrong, its value and what is allowed.
        MissingLibraryError: what reads such a file is not installed.

    >>> import qcnn
    >>> experiment = qcnn.Experiment(qubits=4, rounds=10, epochs=2, learning_rate_schedule="constant")
    >>> experiment.qubits, experiment.epochs, experiment.batch_size
    (4, 2, 32)
    >>> qcnn.Experiment(qubits=3)
    Traceback (most recent call last):
    qcnn.errors.ConfigError: qubits: must be an integer, at least 4 and at most 32768. Given: 3
    """

    _instead = 'make another by qcnn.Experiment(**{**experiment.words, "WORD": VALUE})'
    _given: Mapping[str, Any]
    _config: ExperimentConfig

    def __init__(self, **words: Any) -> None:
        values = {name: to_plain(value) for name, value in words.items()}
        with translate_errors("qcnn.Experiment", "run"):
            given = with_circuit(with_options(values))
            config = from_mapping(given)
            config = data.resolve_files([config])[0] if config.needs_row_count else config
        vars(self).update(_given=frozen(given), _config=config)

    @classmethod
    def from_file(cls, path: str | PathLike[str], **words: Any) -> Experiment:
        r"""Return the experiment of a YAML or JSON file, as --config takes one, with words laid over it.

        Raises:
            ConfigError: the file cannot be read, or a word is wrong.

        >>> import pathlib
        >>> import qcnn
        >>> _ = pathlib.Path("experiment.yaml").write_text("qubits: 4\nmodel: deep\n")
        >>> experiment = qcnn.Experiment.from_file("experiment.yaml", seed=3)
        >>> experiment.model, experiment.seed
        ('deep', 3)
        """
        found, over = with_options(read_file(Path(path))), with_options(words)
        if isinstance(found.get("options"), Mapping) and isinstance(over.get("options"), Mapping):
            over["options"] = {**found["options"], **over["options"]}
        return cls(**{**found, **over})

    @property
    def config(self) -> ExperimentConfig:
        """The experiment as the rest of the package has it."""
        return self._config

    @property
    def given(self) -> Mapping[str, Any]:
        """What was given, as a file has it; all else may change with it."""
        return self._given

    @property
    def words(self) -> Mapping[str, Any]:
        """All words with their values, as arguments that make an equal experiment."""
        words = dict(self._config)
        return FrozenDict({**dict(words.pop("options")), **words})

    def __getattr__(self, word: str) -> Any:
        if word in ALL_FIELDS:
            return self.words[word]
        raise AttributeError(f"an experiment has no word {word}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *ALL_FIELDS]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self._config == other._config

    def __hash__(self) -> int:
        return hash(self.config.to_json())

    def __repr__(self) -> str:
        words = as_shown(self.words)
        known = {name: value for name, value in words.items() if value != ALL_FIELDS[name].default}
        return f"Experiment({', '.join(f'{name}={value!r}' for name, value in known.items())})"


def to_plain(value: Any) -> Any:
    """Return a word's value, or a mapping of options, as a file has it."""
    return {name: _one(each) for name, each in value.items()} if isinstance(value, Mapping) else _one(value)


def _one(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def require_experiment(experiment: Experiment) -> Experiment:
    """Return an experiment; of something else say so, such as of the name of a file.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(experiment, Experiment):
        raise ConfigError(f"experiment: must be a qcnn.Experiment. Given: {format_value(experiment)}")
    return experiment


def from_config(config: ExperimentConfig) -> Experiment:
    """Return the experiment of the rest of the package as one of this."""
    return Experiment(**config.model_dump())


@translate_errors("qcnn.generate", "run")
def generate(experiment: Experiment, folder: str | PathLike[str] | None = None) -> Dataset:
    """Make the dataset of an experiment, the same wherever it is made; with a folder, which must be new, write it too.

    Raises:
        ArtifactError: the folder has content, or cannot be written.
        ConfigError: it is no experiment.

    >>> import qcnn
    >>> dataset = qcnn.generate(qcnn.Experiment(qubits=4, rounds=10, seed=7))
    >>> len(dataset.train), len(dataset.validation), len(dataset.test)
    (28, 6, 6)
    >>> dataset.train.qubit[:3].tolist(), dataset.train.label[:3].tolist()
    ([2, 3, 2], [-1, 1, -1])
    """
    dataset = data.generate(require_experiment(experiment).config)
    if folder is not None:
        data.save(dataset, Path(folder))
    return dataset


@dataclasses.dataclass(frozen=True)
class Plan:
    """What an experiment does, and how long that takes once everything is compiled.

    `memory_bytes` is what the chosen simulator holds, `process_bytes` what a process takes. `seconds` are those of all
    epochs, in so many `processes`, each on a machine like this one; `epoch_seconds_by_workers` of one where so many
    workers, each on such a machine, share it.
    """

    samples: int
    circuits: int
    readouts: int
    simulator: str
    memory_bytes: float
    process_bytes: float
    processes: int
    epoch_seconds: float
    seconds: float
    epoch_seconds_by_workers: Mapping[int, float]


@translate_errors("qcnn.plan", "run")
def plan(experiment: Experiment) -> Plan:
    """Count what training an experiment takes; the first plan measures this machine, for some seconds.

    Raises:
        ArtifactError: a file of samples cannot be read.
        ConfigError: the experiment cannot run.

    >>> import qcnn
    >>> plan = qcnn.plan(qcnn.Experiment(qubits=4, rounds=10, epochs=2))
    >>> plan.samples, plan.readouts, plan.simulator
    (40, 2, 'statevector')
    """
    # These load cirq.
    from qcnn.planning import machine_cache
    from qcnn.planning.plan import count, predict, process_bytes

    config = require_experiment(experiment).config
    if config.needs_row_count:
        config = data.with_file_metadata(config, data.generate(config))
    counts = count(config)
    kept = machine_cache.load_or_measure()
    predicted = predict(config, counts, kept.machine)
    return Plan(
        samples=counts.samples,
        circuits=counts.circuits,
        readouts=counts.readouts,
        simulator=counts.chosen.simulator,
        memory_bytes=counts.chosen.cost.memory,
        process_bytes=process_bytes(counts.chosen.cost.memory),
        processes=sum(config.replicas.values()),
        epoch_seconds=predicted.chosen,
        seconds=predicted.chosen * epochs_left(config),
        epoch_seconds_by_workers=frozen(predicted.by_workers),
    )
