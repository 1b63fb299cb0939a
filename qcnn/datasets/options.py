"""Options of a dataset, and the options and default values of each name."""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from qcnn.circuits.chains import MAX_QUBITS, chain_of
from qcnn.circuits.formats.embedded import MIN_QUBITS
from qcnn.errors import ConfigError, format_value

Scale: TypeAlias = Literal["none", "column", "all"]
# Random numbers of scikit-learn accept no larger seed.
MAX_SEED = 2**32 - 1
# A table of float64 has up to 1 GiB.
MAX_VALUES = 2**27
_MAX_SIDE = 1024
_MAX_SAMPLES = 10**7
_SIDES = re.compile(r"([0-9]{1,9})[xX]([0-9]{1,9})")
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclasses.dataclass(frozen=True)
class Kind:
    """Properties of the datasets of a name.

    `train_samples` and `test_samples` are default numbers of rows, of which None means all. `noise`, `size` and
    `qubits` are default values, of which None means that the dataset has no such option.
    """

    classes: tuple[int, ...]
    train_samples: int | None = None
    test_samples: int | None = None
    noise: float | None = None
    size: int | None = None
    qubits: int | None = None
    has_files: bool = False
    has_images: bool = True

    @property
    def is_generated(self) -> bool:
        """True if any number of rows can be generated."""
        return self.noise is not None

    @property
    def is_chain(self) -> bool:
        """True if the rows are ground states of a spin chain."""
        return self.qubits is not None

    @property
    def is_drawn(self) -> bool:
        """True if training rows are drawn from known ones."""
        return not (self.is_generated or self.is_chain)


_DIGITS = tuple(range(10))
KINDS: Mapping[str, Kind] = {
    "digits": Kind(_DIGITS),
    "mnist": Kind(_DIGITS, has_files=True),
    "fashion_mnist": Kind(_DIGITS, has_files=True),
    # Qiskit Machine Learning, tutorial 11: 50 images, of which 30 % are test images.
    "lines": Kind((-1, 1), 35, 15, noise=math.pi / 4),
    # Bowles et al., arXiv:2403.07059.
    "bars_and_stripes": Kind((-1, 1), 1000, 200, noise=0.5, size=4),
    "moons": Kind((0, 1), 300, 100, noise=0.1, has_images=False),
    "circles": Kind((0, 1), 300, 100, noise=0.1, has_images=False),
    # Ground states on a grid. Those of annni are 8 qubits and 20 x 20 points in PennyLane's demo after Monaco et al.,
    # arXiv:2208.08748. These numbers of points have points on the training lines of the chain.
    "annni": Kind((0, 1, 2), size=20, qubits=8, has_images=False),
    "cluster_ising": Kind((0, 1), size=21, qubits=8, has_images=False),
    "bond_alternating_xxz": Kind((0, 1, 2), size=17, qubits=8, has_images=False),
}


@dataclasses.dataclass(frozen=True)
class DatasetOptions:
    """Options of a dataset, see `qcnn.dataset`.

    Raises:
        ConfigError: If an option is invalid, or the dataset does not have it.
    """

    name: str
    source: Path | None = None
    classes: tuple[int, ...] = ()
    size: int | None = None
    qubits: int | None = None
    noise: float | None = None
    train_samples: int | None = None
    test_samples: int | None = None
    balanced: bool = False
    validation: float = 0.2
    resize: tuple[int, int] | None = None
    pca: int | None = None
    scale: Scale = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise ConfigError(f"name: must be one of {', '.join(KINDS)}. Given: {format_value(self.name)}")
        self._check_applies()
        kind = self.kind
        vars(self).update(
            noise=kind.noise if self.noise is None else self.noise,
            size=kind.size if self.size is None else self.size,
            qubits=kind.qubits if self.qubits is None else self.qubits,
            train_samples=self.train_samples or kind.train_samples,
            test_samples=self.test_samples or kind.test_samples,
        )
        if self.qubits and self.qubits % 2 and chain_of(self.name).is_even:
            raise ConfigError(f"qubits: must be even with {self.name}. Given: {self.qubits}")
        _check_classes(self.classes, kind)
        if self.scale not in get_args(Scale):
            raise ConfigError(f"scale: must be none, column or all. Given: {format_value(self.scale)}")

    def _check_applies(self) -> None:
        """Raise ConfigError if an option is given that the dataset does not have, or `source` is missing."""
        kind = self.kind
        if kind.has_files and self.source is None:
            raise ConfigError(f"source: must be the folder of the four IDX files of {self.name}. Given: none")
        for option, has_option in (
            ("source", kind.has_files),
            ("noise", kind.noise is not None),
            ("size", kind.size is not None),
            ("qubits", kind.is_chain),
            ("train_samples", not kind.is_chain),
            ("test_samples", not kind.is_chain),
            ("balanced", kind.is_drawn),
            ("resize", kind.has_images),
        ):
            value = getattr(self, option)
            if not (has_option or value is None or value is False):
                raise ConfigError(f"{option}: must not be set with {self.name}. Given: {value}")

    @property
    def kind(self) -> Kind:
        """Properties of the dataset."""
        return KINDS[self.name]

    def describe(self) -> dict[str, Any]:
        """Return the options that determine the rows as JSON values, except `source`."""
        values = dataclasses.asdict(self)
        texts = {"classes": ",".join(map(str, self.classes)), "resize": "x".join(map(str, self.resize or ()))}
        omitted = {"name", "source"}
        return {
            name: value
            for name, value in {**values, **texts}.items()
            if name not in omitted and value is not False and value not in (None, "", "none")
        }


def parse_options(name: object, **given: object) -> DatasetOptions:
    """Return options from arguments of Python or texts of a command line.

    Args:
        name: Name of the dataset.
        given: Fields of `DatasetOptions`. None and empty texts stand for default values.

    Raises:
        ConfigError: If an option is invalid.
    """
    parsers: dict[str, Any] = {
        "source": _folder,
        "classes": _classes,
        "size": lambda value: _whole("size", value, 2, 64),
        "qubits": lambda value: _whole("qubits", value, MIN_QUBITS, MAX_QUBITS),
        "noise": lambda value: _real("noise", value, 0.0, 1e6),
        "train_samples": lambda value: _whole("train_samples", value, 1, _MAX_SAMPLES),
        "test_samples": lambda value: _whole("test_samples", value, 1, _MAX_SAMPLES),
        "balanced": lambda value: _boolean("balanced", value),
        "validation": lambda value: _real("validation", value, 0.0, 1.0),
        "resize": _sides,
        "pca": lambda value: _whole("pca", value, 1, MAX_VALUES),
        "scale": lambda value: value,
        "seed": lambda value: _whole("seed", value, 0, MAX_SEED),
    }
    values = {
        option: parsers[option](value)
        for option, value in given.items()
        if not (value is None or (isinstance(value, str | tuple | list) and not value))
    }
    return DatasetOptions(name if isinstance(name, str) else format_value(name), **values)


def _folder(value: object) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(f"source: must be a folder. Given: {format_value(value)}")
    return Path(value)


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{name}: must be true or false. Given: {format_value(value)}")
    return value


def _whole(name: str, value: Any, minimum: int, maximum: int) -> int:
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not minimum <= number <= maximum:
        raise ConfigError(f"{name}: must be a whole number, {minimum} to {maximum}. Given: {format_value(value)}")
    return number


def _real(name: str, value: Any, minimum: float, maximum: float) -> float:
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not minimum <= number <= maximum:
        raise ConfigError(f"{name}: must be a number, {minimum:g} to {maximum:g}. Given: {format_value(value)}")
    return number


def _sides(value: object) -> tuple[int, int]:
    """Return rows and columns of images from a text such as 16x16, or from two numbers."""
    sides: list[object] = []
    if isinstance(value, str) and (found := _SIDES.fullmatch(value.strip())):
        sides = [int(found[1]), int(found[2])]
    try:
        rows, columns = (_whole("resize", side, 1, _MAX_SIDE) for side in sides or list(value))  # type: ignore[call-overload]
    except (ConfigError, TypeError, ValueError):
        what = f"must be ROWSxCOLUMNS, each 1 to {_MAX_SIDE}, such as 16x16"
        raise ConfigError(f"resize: {what}. Given: {format_value(value)}") from None
    return rows, columns


def _classes(value: object) -> tuple[int, ...]:
    """Return classes from a text such as 0,1 or from a sequence of numbers."""
    parts: list[object] = []
    if isinstance(value, str):
        parts = [int(part) if _NUMBER.fullmatch(part.strip()) else part for part in value.split(",")]
    try:
        parts = parts or list(value)  # type: ignore[call-overload]
        return tuple(_whole("classes", part, -(10**9), 10**9) for part in parts)
    except (ConfigError, TypeError):
        raise ConfigError(
            f"classes: must be numbers of classes with commas between them. Given: {format_value(value)}"
        ) from None


def _check_classes(classes: tuple[int, ...], kind: Kind) -> None:
    is_unique = len(set(classes)) == len(classes)
    if classes and not (len(classes) > 1 and is_unique and set(classes) <= set(kind.classes)):
        known = ", ".join(map(str, kind.classes))
        given = ",".join(map(str, classes))
        raise ConfigError(f"classes: must be two or more different ones of {known}. Given: {given}")
