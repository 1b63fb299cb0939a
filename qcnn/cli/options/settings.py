"""Flags of commands: several as one value, those of a target's settings, and those of what is printed."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from qcnn.errors import ConfigError
from qcnn.experiment_io import read_file
from qcnn.targets.settings import Described, described, settings_from

# What click calls a decorator: it gives a command an option.
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def options_as(name: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Return a decorator that gives a command these options; it is called with what `make` makes of them as `name`."""
    probe = click.Command(name)
    _decorated(probe, options)
    keys = [parameter.name for parameter in probe.params]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(**values: Any) -> Any:
            made = make(**{key: values.pop(key) for key in keys})
            return command(**{name: made}, **values)

        return _decorated(called, options)

    return decorate


def _decorated(command: Callable[..., Any], options: Sequence[Decorator]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


_HELP = "json is complete, for programs."
# Gives a command --format, and hands it `form`.
form_option = click.option(
    *("-o", "--format"), "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help=_HELP
)
# Of what is deleted, or ended.
shown_only_option = click.option("--dry-run", is_flag=True, help="Print what it would be, and leave it as it is.")


@dataclasses.dataclass(frozen=True)
class OutputOptions:
    """Whether a request is printed instead of sent, and in which form the answer is printed.

    Raises:
        ConfigError: an answer is asked for as YAML.
    """

    dry_run: bool
    form: str

    def __post_init__(self) -> None:
        if self.form == "yaml" and not self.dry_run:
            raise ConfigError(f"format: {self.form} is only of what --dry-run prints. Given: {self.form}")


def sending_options(requests_are: Literal["json", "yaml"]) -> Decorator:
    """Return a decorator that gives a command --dry-run and --format, and hands it `sending`."""
    is_yaml = requests_are == "yaml"
    printed = "what would be created, for kubectl apply -f -" if is_yaml else "the request as JSON"
    forms = ["text", "yaml", "json"] if is_yaml else ["text", "json"]
    return options_as(
        "sending",
        OutputOptions,
        click.option("--dry-run", is_flag=True, help=f"Print {printed}, and send nothing."),
        click.option(
            *("-o", "--format"), "form", type=click.Choice(forms), default="text", show_default=True, help=_HELP
        ),
    )


runs_option = click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs."
)


def settings_options(kind: type[Any], target: str, name: str = "settings") -> Decorator:
    """Return a decorator that gives a command a flag for each setting of a class, and hands it the settings as `name`.

    What is not typed is left to the class: its defaults, and the environment variables that a setting names.
    """
    fields = described(kind)

    def make(**typed: Any) -> Any:
        values = {
            field.name: _read(field, typed[field.name]) for field in fields if typed[field.name] not in (None, ())
        }
        return settings_from(kind, values, target)

    return options_as(name, make, *map(_option, fields))


def flag_of(field: Described) -> str:
    """Return what the command calls a setting."""
    return f"--{(field.setting.flag or field.name).replace('_', '-')}"


def flags_of(settings: Any) -> str:
    """Return the flags by which another command reaches the same target, each behind a space; no secrets."""
    found = ""
    for field in described(type(settings)):
        value = getattr(settings, field.name)
        if value != field.default and not field.is_secret and isinstance(value, str | Path):
            found += f" {flag_of(field)} {shlex.quote(str(value))}"
    return found


def _option(field: Described) -> Decorator:
    said, kind = field.setting, field.plain_kind
    if said.is_argument:
        metavar = said.metavar or field.name.upper()
        return click.argument(
            field.name, required=field.is_required, metavar=metavar if field.is_required else f"[{metavar}]"
        )
    flag = flag_of(field)
    names = [flag, *([f"-{said.short}"] if said.short else []), field.name]
    common: dict[str, Any] = {"default": None, "help": _help(field)}
    if said.variables:
        common |= {"envvar": list(said.variables), "show_envvar": True}
    if kind is bool:
        if field.kind is not kind:
            names[0] = f"{flag}/--no-{flag[2:]}"
        return click.option(*names, is_flag=True, **common)
    metavar = said.metavar or ("[" + "|".join(said.choices) + "]" if said.choices else "VALUE")
    is_several = kind in (Sequence[str], Mapping[str, str])
    return click.option(*names, type=int if kind is int else str, multiple=is_several, metavar=metavar, **common)


def _help(field: Described) -> str:
    text = field.setting.help
    if field.plain_kind in (Sequence[str], Mapping[str, str]):
        text = f"{text.removesuffix('.')}; may come often."
    return f"{text}  [default: {field.shown_default}]" if field.shown_default else text


def _read(field: Described, typed: Any) -> Any:
    """Return the value of a setting, of what was typed."""
    kind = field.plain_kind
    if kind == Mapping[str, Any]:
        return read_file(Path(typed), field.name)
    if kind == Mapping[str, str]:
        return dict(_pair(flag_of(field).removeprefix("--"), text) for text in typed)
    return typed


def _pair(flag: str, text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found):
        raise ConfigError(f"{flag}: must be NAME=VALUE. Given: {text}")
    return name, value
