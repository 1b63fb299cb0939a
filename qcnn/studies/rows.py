"""Rows of a study: experiments that are repeated with the same seeds, each with its published value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from qcnn.circuits.formats.embedded import JSON
from qcnn.circuits.formats.loading import embed_ansatz, with_embedded_circuit
from qcnn.errors import ConfigError, format_value, single_line
from qcnn.experiment.config import ALL_FIELDS, CIRCUIT_FIELDS
from qcnn.experiment.parsing import merge
from qcnn.process.library_loading import importing
from qcnn.studies.published_values import PublishedValue, parse_published

# Stands for the seed of a trial in the path of its data file.
SEED_PLACEHOLDER = "{seed}"
# Modules with the circuits of published experiments.
_PACKAGED = "qcnn.published."
_NAME, _PUBLISHED, _DIFFERENCES = "name", "published", "differences"
_MAX_DIFFERENCES = 20


@dataclasses.dataclass(frozen=True)
class StudyRow:
    """Fields of the experiment of a row, in addition to those that all rows share.

    Attributes:
        fields: Values by field.
        name: Name of the row, or empty.
        published: Published value to compare with, or None.
        differences: Known differences to the published setting in data, circuit or budget.
    """

    fields: Mapping[str, Any]
    name: str = ""
    published: PublishedValue | None = None
    differences: tuple[str, ...] = ()

    def to_mapping(self) -> dict[str, Any]:
        """Return the row as `parse_rows` reads it."""
        return {
            **({_NAME: self.name} if self.name else {}),
            **self.fields,
            **({_PUBLISHED: self.published.to_mapping()} if self.published else {}),
            **({_DIFFERENCES: list(self.differences)} if self.differences else {}),
        }


@dataclasses.dataclass(frozen=True)
class RepeatedRows:
    """Rows of a study and their number of seeds. The trials of a row follow each other, in the order of the seeds."""

    rows: tuple[StudyRow, ...]
    repeat: int

    def trials_of(self, row: int) -> range:
        """Return the indices of the trials of a row."""
        return range(row * self.repeat, (row + 1) * self.repeat)

    def row_of(self, trial: int) -> int:
        """Return the index of the row of a trial."""
        return trial // self.repeat

    def to_mapping(self) -> dict[str, Any]:
        """Return the rows as `from_mapping` reads them."""
        return {"rows": [row.to_mapping() for row in self.rows], "repeat": self.repeat}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> RepeatedRows:
        """Return the rows that `to_mapping` wrote."""
        return cls(parse_rows(values["rows"]), int(values["repeat"]))


def repeated_rows(rows: Sequence[StudyRow], repeat: int, trials: int) -> RepeatedRows | None:
    """Return the rows that trials repeat, or None if each trial is a row with another seed.

    Args:
        rows: Rows of the study, or empty for combinations of a grid, which have neither names nor published values.
        repeat: Number of seeds, or 0.
        trials: Number of trials.
    """
    if not (rows or repeat):
        return None
    seeds = max(1, repeat)
    return RepeatedRows(tuple(rows) or (StudyRow({}),) * (trials // seeds), seeds)


def parse_rows(values: Any) -> tuple[StudyRow, ...]:
    """Return the rows of a study file.

    Args:
        values: List of mappings, each with fields of the experiment, and optionally `name`, `published` and
            `differences`.

    Raises:
        ConfigError: If a row has another form or an unknown field.
    """
    if values is None:
        return ()
    if not isinstance(values, list | tuple) or not all(isinstance(each, Mapping) for each in values):
        raise ConfigError(f"rows: must be a list of mappings of fields to values. Given: {format_value(values)}")
    return tuple(_row(number, each) for number, each in enumerate(values))


def _row(number: int, values: Mapping[str, Any]) -> StudyRow:
    fields = {str(name): value for name, value in values.items()}
    name, published = fields.pop(_NAME, ""), fields.pop(_PUBLISHED, None)
    differences = fields.pop(_DIFFERENCES, None) or []
    try:
        if unknown := [field for field in fields if field not in ALL_FIELDS]:
            raise ConfigError(
                f"{single_line(unknown[0])}: must be a field of the experiment, {_NAME}, {_PUBLISHED} or "
                f"{_DIFFERENCES}. Given: {format_value(fields[unknown[0]])}"
            )
        if not isinstance(name, str):
            raise ConfigError(f"{_NAME}: must be a text. Given: {format_value(name)}")
        is_list = isinstance(differences, list | tuple) and len(differences) <= _MAX_DIFFERENCES
        if not is_list or not all(isinstance(each, str) and each.strip() for each in differences):
            raise ConfigError(
                f"{_DIFFERENCES}: must be a list of up to {_MAX_DIFFERENCES} texts. Given: {format_value(differences)}"
            )
        value = None if published is None else parse_published(published)
    except ConfigError as error:
        raise ConfigError(f"rows: row {number}: {error}") from None
    return StudyRow(fields, single_line(name), value, tuple(map(str, differences)))


def with_embedded_circuits(shared: Mapping[str, Any], rows: Sequence[StudyRow]) -> tuple[StudyRow, ...]:
    """Return rows with their circuit files embedded.

    Args:
        shared: Fields that all rows share, as given.
        rows: Rows.

    Raises:
        ConfigError: If a circuit file is invalid, or a field of the circuit is.
    """
    return tuple(dataclasses.replace(row, fields=_with_circuit(shared, row.fields)) for row in rows)


def _with_circuit(shared: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    given = merge(shared, fields)
    embedded = with_embedded_circuit(_with_packaged_circuit(given))
    if embedded.get("model") == given.get("model"):
        return dict(fields)
    # The circuit contains these fields.
    return {**fields, "model": embedded["model"], **dict.fromkeys(CIRCUIT_FIELDS, "")}


def _with_packaged_circuit(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields in which a circuit of this package replaces the name of its function."""
    model, qubits = fields.get("model"), fields.get("qubits")
    if not isinstance(model, str) or not model.startswith(_PACKAGED) or not isinstance(qubits, int):
        return fields
    with importing("cirq"):
        from qcnn.circuits import circuits

    # Processes that train a function are not used again, because a module of the user may change.
    name = model.rpartition(":")[2]
    return {**fields, "model": embed_ansatz(circuits.build(model, qubits), f"{name}{JSON}")}
