"""Experiments, generated datasets and plans in Python."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import os
import typing
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np

from qcnn import data
from qcnn.api.argument_types import FieldArguments, FieldValues
from qcnn.api.circuits import embedded_circuit
from qcnn.circuits.formats.loading import with_embedded_circuit
from qcnn.data import Dataset
from qcnn.errors import ConfigError, format_value
from qcnn.experiment.config import ALL_FIELDS, ExperimentConfig
from qcnn.experiment.fields import MEMORY, describe, written_default
from qcnn.experiment.parsing import from_mapping, with_display_values, with_options
from qcnn.frozen import Frozen, FrozenDict, freeze
from qcnn.model.history import epochs_left
from qcnn.process.extras import translate_errors
from qcnn.yaml_files import read_file

if TYPE_CHECKING:
    from qcnn.circuits.ansatz import Ansatz

logger = logging.getLogger("qcnn")


_Called = TypeVar("_Called", bound=Callable[..., Any])
_EXCITATION = ALL_FIELDS["encoding"].default
_TYPES = typing.get_type_hints(FieldArguments)


def _with_fields(called: _Called) -> _Called:
    """Return a class or function with all fields in its signature. Those of a function have no default."""
    signature = inspect.signature(called)
    before = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    keyword = inspect.Parameter.KEYWORD_ONLY
    fields = [
        inspect.Parameter(
            name, keyword, default=written_default(field) if isinstance(called, type) else ..., annotation=_TYPES[name]
        )
        for name, field in ALL_FIELDS.items()
    ]
    described: Any = called
    # Read by inspect.signature.
    described.__signature__ = signature.replace(parameters=[*before, *fields])
    return called


@_with_fields
class Experiment(FieldValues, Frozen):
    """An experiment with every field of docs/configuration.md as an attribute, options included.

    Omitted fields have their defaults, and automatic values are resolved. `fields` maps all fields to their values. A
    model file is replaced by a text that contains its circuit, and a data file is read. `model` may also be a
    qcnn.Ansatz, a cirq.Circuit, a qiskit.QuantumCircuit, or a function that takes the qubits of the ring and returns
    one. With an encoding other than excitation and without `data`, `qcnn.train` is given the rows. Experiments are
    immutable.

    Raises:
        ArtifactError: If a file is invalid. The message names the row.
        ConfigError: If a field is invalid. The message names the first one, its value and the allowed values.
        MissingLibraryError: If the library for a file format is not installed.

    >>> import qcnn
    >>> experiment = qcnn.Experiment(qubits=4, rounds=10, epochs=2, learning_rate_schedule="constant")
    >>> experiment.qubits, experiment.epochs, experiment.batch_size
    (4, 2, 32)
    >>> qcnn.Experiment(qubits=3)
    Traceback (most recent call last):
    qcnn.errors.ConfigError: qubits: must be at least 4 with hybrid. Given: 3
    """

    _instead = "create another with experiment.replace(FIELD=VALUE)"
    _given: Mapping[str, Any]
    _config: ExperimentConfig

    def __init__(self, **fields: Unpack[FieldArguments]) -> None:
        values = {name: to_plain(value) for name, value in fields.items()}
        with translate_errors("qcnn.Experiment", "run"):
            if not isinstance(values.get("model", ""), str):
                qubits = values.get("qubits", ALL_FIELDS["qubits"].default)
                values["model"] = embedded_circuit(values["model"], qubits, values.pop("inputs", ""))
            # Only excitations are generated for an encoding.
            if values.get("encoding", _EXCITATION) != _EXCITATION:
                values.setdefault("data", MEMORY)
            # Fields of the circuit remain, for other circuits of `replace` and of studies.
            given = with_embedded_circuit(with_options(values), varied=["model"])
            config = from_mapping(given)
            if config.needs_row_count and config.data != MEMORY:
                config = data.resolve_files([config])[0]
        vars(self).update(_given=freeze(given), _config=config)

    @classmethod
    @_with_fields
    def from_file(cls, path: str | PathLike[str], **fields: Unpack[FieldArguments]) -> Experiment:
        r"""Load an experiment from a YAML or JSON file for --config. Arguments override its fields.

        Args:
            path: Path to the file.
            fields: Fields that override those of the file.

        Raises:
            ConfigError: If the file is unreadable, or a field is invalid.

        >>> import pathlib
        >>> import qcnn
        >>> _ = pathlib.Path("experiment.yaml").write_text("qubits: 4\nmodel: deep\n")
        >>> experiment = qcnn.Experiment.from_file("experiment.yaml", seed=3)
        >>> experiment.model, experiment.seed
        ('deep', 3)
        """
        return cls(**_override(read_file(Path(path)), fields))

    @_with_fields
    def replace(self, **fields: Unpack[FieldArguments]) -> Experiment:
        """Return another experiment with the given fields. Automatic values are computed again.

        Args:
            fields: Fields to change, options included.

        Raises:
            ArtifactError: If a file is invalid. The message names the row.
            ConfigError: If a field is invalid.

        >>> import qcnn
        >>> experiment = qcnn.Experiment(qubits=4, rounds=10, shots=5)
        >>> experiment.replace(epochs=3)
        Experiment(num_initializations=1, shots=5, qubits=4, rounds=10, epochs=3, batch_size=32)
        """
        return type(self)(**_override(self._given, fields))

    @property
    def config(self) -> ExperimentConfig:
        """The experiment as an internal configuration object."""
        return self._config

    @translate_errors("Experiment.circuit", "run")
    def circuit(self) -> Ansatz:
        """Return the circuit of the model with its symbols and readouts.

        Raises:
            ConfigError: If the model is a function that fails.

        >>> import qcnn
        >>> qcnn.Experiment(qubits=4).circuit().symbols[:2]
        (s0, s1)
        """
        # This import loads Cirq.
        from qcnn.circuits.circuits import build

        return build(self._config.model, self._config.qubits)

    @property
    def given(self) -> Mapping[str, Any]:
        """The given fields in file format. Omitted fields are not included."""
        return self._given

    @property
    def fields(self) -> Mapping[str, Any]:
        """All fields with their values. As arguments, they create an equal experiment."""
        fields = dict(self._config)
        return FrozenDict({**dict(fields.pop("options")), **fields})

    # Type checkers know the attributes from the base class.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ALL_FIELDS:
                return self.fields[name]
            raise AttributeError(f"an experiment has no field {name}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *ALL_FIELDS]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self._config == other._config

    def __hash__(self) -> int:
        return hash(self.config.to_json())

    def __repr__(self) -> str:
        fields = with_display_values(self.fields)
        changed = {name: value for name, value in fields.items() if value != ALL_FIELDS[name].default}
        return f"Experiment({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


_FIELD_LINES = (f"    {name}: {describe(field)} Default: {field.default!r}." for name, field in ALL_FIELDS.items())
# For help(qcnn.Experiment).
Experiment.__doc__ = "\n".join((inspect.getdoc(Experiment) or "", "", "Fields:", *_FIELD_LINES))


def _override(base: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an experiment with others in their place. Of `options`, only the given ones are replaced."""
    values, overrides = with_options(base), with_options(fields)
    if isinstance(values.get("options"), Mapping) and isinstance(overrides.get("options"), Mapping):
        overrides["options"] = {**values["options"], **overrides["options"]}
    return {**values, **overrides}


def to_plain(value: Any) -> Any:
    """Convert a field value, or a mapping of options, to built-in types."""
    return {name: _one(each) for name, each in value.items()} if isinstance(value, Mapping) else _one(value)


def _one(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def require_experiment(experiment: Experiment) -> Experiment:
    """Return the argument if it is an experiment, and not for example a file name.

    Raises:
        ConfigError: If it is not an experiment.
    """
    if not isinstance(experiment, Experiment):
        raise ConfigError(f"experiment: must be a qcnn.Experiment. Given: {format_value(experiment)}")
    return experiment


def from_config(config: ExperimentConfig) -> Experiment:
    """Return an experiment with an internal configuration object."""
    return Experiment(**config.model_dump())


@translate_errors("qcnn.generate", "run")
def generate(experiment: Experiment, folder: str | PathLike[str] | None = None) -> Dataset:
    """Generate the dataset of an experiment, deterministically, and optionally write it.

    Args:
        experiment: The experiment.
        folder: New or empty folder for the dataset, or None.

    Raises:
        ArtifactError: If the folder has content, or is not writable.
        ConfigError: If the argument is not an experiment.

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
    """Estimated size, memory and runtime of training, without compilation.

    `memory_bytes` is the memory of the selected simulator, and `process_bytes` that of a process. `seconds` is the
    runtime of all epochs with `processes` processes, each on a machine like the local one. `epoch_seconds_by_workers`
    maps numbers of workers, each on such a machine, to the seconds of an epoch.
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
    """Estimate the runtime and memory of an experiment. The first call benchmarks the machine for seconds.

    Raises:
        ArtifactError: If the data file is unreadable.
        ConfigError: If the experiment cannot run.

    >>> import qcnn
    >>> plan = qcnn.plan(qcnn.Experiment(qubits=4, rounds=10, epochs=2))
    >>> plan.samples, plan.readouts, plan.simulator
    (40, 2, 'statevector_cpu')
    """
    # These imports load Cirq.
    from qcnn.planning import machine_cache
    from qcnn.planning.checks import PLANNED, check_experiments
    from qcnn.planning.memory import process_bytes
    from qcnn.planning.plan import count, predict
    from qcnn.planning.training_estimate import seconds_of_epochs

    (config,) = check_experiments([require_experiment(experiment).config], PLANNED, logger.warning)
    counts = count(config)
    cached = machine_cache.load_or_measure()
    predicted = predict(config, counts, cached.machine)
    return Plan(
        samples=counts.samples,
        circuits=counts.circuits,
        readouts=counts.readouts,
        simulator=counts.chosen.simulator,
        memory_bytes=counts.chosen.cost.memory,
        process_bytes=process_bytes(counts.chosen.cost.memory),
        processes=sum(config.replicas.values()),
        epoch_seconds=predicted.chosen,
        seconds=seconds_of_epochs(predicted.chosen, epochs_left(config)),
        epoch_seconds_by_workers=freeze(predicted.by_workers),
    )
