"""Write qcnn/api/argument_types.py, the types of arguments in Python, from the fields and the settings of targets."""

import itertools
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, WrapValidator
from pydantic.fields import FieldInfo

from qcnn.experiment import fields
from qcnn.experiment.config import ALL_FIELDS
from qcnn.targets import target_classes
from qcnn.targets.base import ReadsJobs, Submits, TargetSettings
from qcnn.targets.settings import Described, describe_settings

MODULE = Path(__file__).resolve().parents[1] / "qcnn" / "api" / "argument_types.py"
_HEAD = '''"""Types of arguments in Python, for editors and type checkers. Written by scripts/argument_types.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, Required, TypedDict, TypeVar, Unpack, overload

if TYPE_CHECKING:
    import numpy as np

    from qcnn.api.circuits import Circuit, CircuitFunction
    from qcnn.targets.base import JobStatus

    Integer = int | np.integer[Any]
    Number = float | np.floating[Any] | np.integer[Any]
    Switch = bool | np.bool | Literal[0, 1]
else:
    # Shorter in the signature of `qcnn.Experiment`.
    Integer, Number, Switch, Circuit, CircuitFunction = int, float, bool, Any, Any

# Types of experiments and jobs, whose modules import this one.
_Experiment = TypeVar("_Experiment", contravariant=True)
_Job = TypeVar("_Job", covariant=True)
'''
_ARGUMENTS: Mapping[Any, str] = {int: "Integer", float: "Number", bool: "Switch"}
_REQUESTS = "Sequence[Mapping[str, Any]]"
_PATH = "str | PathLike[str]"
# Types that values of text fields may have, by the function that converts them to text.
_AS_TEXT = {
    fields._number_as_text: "str | float | None",
    fields._normalize_noise: "str | Mapping[str, float] | None",
}
# Types that the value of a text field may have, by the function that checks it.
_CHECKED = {fields._validate_model: "str | PathLike[str] | Circuit | CircuitFunction"}
# Types of the arguments of settings. Numbers are accepted as text.
_SETTINGS = {
    str: "str | float",
    int: "int",
    bool: "bool",
    Path: _PATH,
    Mapping[str, Any]: "Mapping[str, Any]",
    Mapping[str, str]: "Mapping[str, str]",
    Sequence[str]: "Sequence[str]",
}
# Functions of `qcnn` with the settings of a target: protocol, capability, arguments before the target, and result.
_FUNCTIONS = (
    ("SubmitFunction(Protocol[_Experiment, _Job])", Submits, "experiment: _Experiment, /, target", "_Job"),
    ("RequestsFunction(Protocol[_Experiment])", Submits, "experiment: _Experiment, /, target", _REQUESTS),
    ("GetJobFunction(Protocol[_Job])", ReadsJobs, "name: str, target", "_Job"),
    ("ListJobsFunction(Protocol)", ReadsJobs, "target", "Sequence[JobStatus]"),
)


def module() -> str:
    """Return the content of the module."""
    return "\n\n".join((_HEAD, *_field_classes(), *_setting_classes(), *_protocols()))


def _field_classes() -> Iterator[str]:
    arguments = {name: argument_type(field) for name, field in ALL_FIELDS.items()}
    # A file has some of the fields in this group.
    yield _typed_dict(
        "FieldArguments", "Arguments of `qcnn.Experiment`: its fields.", {**arguments, "options": "Mapping[str, Any]"}
    )
    lines = "".join(f"    {name}: {_value_type(field)}\n" for name, field in ALL_FIELDS.items())
    yield f'class FieldValues:\n    """Attributes of an experiment: its fields."""\n\n{lines}'


def argument_type(field: FieldInfo) -> str:
    """Return the type of the values that a field accepts as an argument."""
    if field.annotation is not str:
        return _ARGUMENTS.get(field.annotation) or _value_type(field)
    converters = [mark.func for mark in field.metadata if isinstance(mark, BeforeValidator)]
    checks = [mark.func for mark in field.metadata if isinstance(mark, AfterValidator)]
    known: dict[Any, str] = {**_AS_TEXT, **_CHECKED}
    return next((known[each] for each in (*converters, *checks) if each in known), _PATH)


def _value_type(field: FieldInfo) -> str:
    # A simulator may be one of another package.
    if get_origin(field.annotation) is Literal and not any(isinstance(mark, WrapValidator) for mark in field.metadata):
        return f"Literal[{', '.join(map(repr, get_args(field.annotation)))}]"
    return "str" if get_origin(field.annotation) is Literal else field.annotation.__name__ if field.annotation else ""


def _groups(capability: type[Any]) -> Iterator[tuple[str, Sequence[str], type[TargetSettings]]]:
    """Yield name of the type, names of the targets, and settings class of all targets with equal settings."""
    is_submission = capability is Submits

    def settings(target: Any) -> type[TargetSettings]:
        found: type[TargetSettings] = target.submit_settings if is_submission else target.connection_settings
        return found

    for kind, targets in itertools.groupby(target_classes(capability).values(), settings):
        names = [target.name for target in targets]
        first = names[0].replace("-", " ").title().replace(" ", "")
        yield f"{first}{'Settings' if is_submission else 'Connection'}", names, kind


def _setting_classes() -> Iterator[str]:
    for capability, what in ((ReadsJobs, "Connection to"), (Submits, "Settings of")):
        for name, targets, kind in _groups(capability):
            items = {each.name: _setting_type(each) for each in describe_settings(kind)}
            yield _typed_dict(name, f"{what} {', '.join(targets)}.", items)


def _setting_type(field: Described) -> str:
    found = _SETTINGS[field.plain_kind]
    if field.setting.choices:
        found = f"Literal[{', '.join(map(repr, field.setting.choices))}]"
    if field.kind is not field.plain_kind:
        found = f"{found} | None"
    # An environment variable can replace the argument.
    return f"Required[{found}]" if field.is_required and not field.setting.variables else found


def _typed_dict(name: str, title: str, items: Mapping[str, str]) -> str:
    lines = "".join(f"    {key}: {kind}\n" for key, kind in items.items())
    return f'class {name}(TypedDict, total=False):\n    """{title}"""\n\n{lines}'


def _protocols() -> Iterator[str]:
    for name, capability, arguments, result in _FUNCTIONS:
        keyword = "settings" if capability is Submits else "connection"
        lines = "".join(
            f"    @overload\n    def __call__(\n        self, {arguments}: Literal[{', '.join(map(repr, targets))}], "
            f"**{keyword}: Unpack[{kind}]\n    ) -> {result}: ...\n"
            for kind, targets, _ in _groups(capability)
        )
        yield f'class {name}:\n    """Overloads by target."""\n\n{lines}'


def formatted(content: str) -> str:
    """Return Python code in the format of the project."""
    ruff = Path(sys.executable).with_name("ruff")
    command = (str(ruff), "format", "--stdin-filename", str(MODULE), "-")
    return subprocess.run(command, input=content, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    MODULE.write_text(formatted(module()), encoding="utf-8")
