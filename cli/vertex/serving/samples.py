"""Samples to be predicted, from a CSV or JSONL file: qubit, angle, and a label where there is one."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainer.errors import ArtifactError, given

_NEEDED = ("qubit", "angle")
_LABEL = "label"
_SUFFIXES = (".csv", ".jsonl")


@dataclasses.dataclass(frozen=True)
class Sample:
    """An excited qubit, its angle in rad, and the label that it should have, None where nobody knows."""

    qubit: int
    angle: float
    label: float | None = None

    @property
    def instance(self) -> dict[str, float]:
        """The sample as the exported model takes it."""
        return {"qubit": self.qubit, "angle": self.angle}


def read_samples(path: Path, shown: str) -> list[Sample]:
    """Return the samples of a file, which messages call `shown`.

    Raises:
        ArtifactError: it cannot be read, holds none, or a row is wrong; the message names the row's line.
    """
    suffix = Path(shown).suffix
    if suffix not in _SUFFIXES:
        raise ArtifactError(f"data: must be a file {' or '.join(_SUFFIXES)}. Given: {shown}")
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = _of_csv(file, shown) if suffix == ".csv" else _of_lines(file, shown)
            found = [_sample(row, line, shown) for line, row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ArtifactError(f"data: cannot be read ({error}). Given: {shown}") from None
    if not found:
        raise ArtifactError(f"data: must hold at least one sample. Given: {shown}")
    if len({sample.label is None for sample in found}) > 1:
        raise ArtifactError(f"data: must have a label in every row, or in none. Given: {shown}")
    return found


def _of_csv(file: Any, shown: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(file)
    missing = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        raise ArtifactError(f"data: must have the columns qubit and angle in its first line. Given: {shown}")
    for row in reader:
        yield reader.line_num, row


def _of_lines(file: Any, shown: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ArtifactError(f"data: line {number} must be a JSON object. Given: {given(line.strip())} in {shown}")
        yield number, row


def _sample(row: Mapping[str, Any], line: int, shown: str) -> Sample:
    qubit = _number(row.get("qubit"))
    if qubit is None or not qubit.is_integer() or not 0 <= qubit < 2**31:
        what = "qubit must be a whole number from 0"
        raise ArtifactError(f"data: line {line}: {what}. Given: {given(row.get('qubit'))} in {shown}")
    numbers = [_number(row.get(name)) for name in ("angle", _LABEL)]
    for name, number in zip(("angle", _LABEL), numbers, strict=True):
        if number is None and (name == "angle" or row.get(name) not in (None, "")):
            raise ArtifactError(
                f"data: line {line}: {name} must be a finite number. Given: {given(row.get(name))} in {shown}"
            )
    return Sample(int(qubit), numbers[0] or 0.0, numbers[1])


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
