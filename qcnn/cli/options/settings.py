"""Options that commands share: groups of options, settings of targets, and the output format."""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from qcnn.errors import ConfigError
from qcnn.process.extras import check_library
from qcnn.targets.base import Target, TargetSettings
from qcnn.targets.settings import Described, describe_settings, settings_from
from qcnn.tracking.destination import VARIABLE, parse_destination
from qcnn.yaml_files import read_file

# Decorator of click that adds an option to a command.
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def options_as(name: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command and passes their values as one argument.

    Args:
        name: Name of the argument.
        make: Returns the argument from the values of the options.
        *options: Options to add.
    """
    probe = click.Command(name)
    _add_options(probe, options)
    keys = [parameter.name for parameter in probe.params]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(**values: Any) -> Any:
            argument = make(**{key: values.pop(key) for key in keys})
            return command(**{name: argument}, **values)

        return _add_options(called, options)

    return decorate


def _add_options(command: Callable[..., Any], options: Sequence[Decorator]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def passing(**fixed: Any) -> Decorator:
    """Return a decorator that passes fixed values to a command, for options that it does not have."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(**values: Any) -> Any:
            return command(**fixed, **values)

        return called

    return decorate


def _format_option(*formats: str) -> Decorator:
    return click.option(
        *("-o", "--format"),
        "output_format",
        type=click.Choice(formats),
        default="text",
        show_default=True,
        help="Output format. JSON is complete and unrounded.",
    )


# Adds --format to a command, and passes it `output_format`.
format_option = _format_option("text", "json")
follow_option = click.option(
    *("-f", "--follow"),
    "should_follow",
    is_flag=True,
    help="Stream logs until the job ends. Fail if the job fails.",
)
# For commands that change or delete objects of a target.
yes_option = click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Print the changes without applying them.")


@dataclasses.dataclass(frozen=True)
class OutputOptions:
    """Output format of a command, and whether to print the request instead of sending it.

    Raises:
        ConfigError: If the format is YAML without --dry-run.
    """

    dry_run: bool
    output_format: str

    def __post_init__(self) -> None:
        if self.output_format == "yaml" and not self.dry_run:
            raise ConfigError("format: must be text or json without --dry-run. Given: yaml")


def output_options(request_format: Literal["json", "yaml"]) -> Decorator:
    """Return a decorator that adds --dry-run and --format to a command, and passes it `printing`."""
    is_yaml = request_format == "yaml"
    dry_run_help = (
        "Print the manifests for kubectl apply -f - without creating them."
        if is_yaml
        else "Print the request as JSON without sending it."
    )
    return options_as(
        "printing",
        OutputOptions,
        click.option("--dry-run", is_flag=True, help=dry_run_help),
        _format_option("text", "yaml", "json") if is_yaml else format_option,
    )


runs_option = click.option(
    "--runs",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    metavar="FOLDER",
    help="Folder of runs.",
)


def _track(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Put the server into the environment, from which the processes of a run read it."""
    if value is not None:
        destination = parse_destination(value)
        check_library("mlflow")
        os.environ[VARIABLE] = destination.uri


# For commands that train locally.
tracking_option = click.option(
    "--tracking",
    metavar="mlflow:URI",
    expose_value=False,
    callback=_track,
    help=f"MLflow server that records the run.  [default: that of {VARIABLE}, or none]",
)


def settings_options(kind: type[TargetSettings], target: str, name: str = "settings") -> Decorator:
    """Return a decorator that adds a flag for each setting to a command, and passes it the settings.

    Settings without a flag take the value of their environment variable, or their default.

    Args:
        kind: Class of the settings.
        target: Name of the target or command in error messages.
        name: Name of the argument.
    """
    fields = describe_settings(kind)

    def make(**given: Any) -> Any:
        values = {
            field.name: _read(field, given[field.name]) for field in fields if given[field.name] not in (None, ())
        }
        return settings_from(kind, values, target)

    return options_as(name, make, *map(_option, fields))


def flag_of(field: Described) -> str:
    """Return the flag of a setting."""
    return f"--{(field.setting.flag or field.name).replace('_', '-')}"


def target_flags(target: Target) -> str:
    """Return the flags of a target and its connection settings without secrets, each preceded by a space."""
    flags = f" --target {target.name}"
    for field in describe_settings(target.connection_settings):
        value = getattr(target.connection, field.name)
        if value != field.default and not field.is_secret and isinstance(value, str | Path):
            flags += f" {flag_of(field)} {shlex.quote(str(value))}"
    return flags


def _option(field: Described) -> Decorator:
    setting, kind = field.setting, field.plain_kind
    if setting.is_argument:
        metavar = setting.metavar or field.name.upper()
        return click.argument(
            field.name, required=field.is_required, metavar=metavar if field.is_required else f"[{metavar}]"
        )
    flag = flag_of(field)
    names = [flag, *([f"-{setting.short}"] if setting.short else []), field.name]
    common: dict[str, Any] = {"default": None, "help": _help(field)}
    if setting.variables:
        common |= {"envvar": list(setting.variables), "show_envvar": True}
    if kind is bool:
        if field.kind is not kind:
            names[0] = f"{flag}/--no-{flag[2:]}"
        return click.option(*names, is_flag=True, **common)
    metavar = setting.metavar or ("[" + "|".join(setting.choices) + "]" if setting.choices else "VALUE")
    is_several = kind in (Sequence[str], Mapping[str, str])
    return click.option(*names, type=int if kind is int else str, multiple=is_several, metavar=metavar, **common)


def _help(field: Described) -> str:
    text = field.setting.help
    if field.plain_kind in (Sequence[str], Mapping[str, str]):
        text = f"{text} Repeatable."
    return f"{text}  [default: {field.shown_default}]" if field.shown_default else text


def _read(field: Described, given: Any) -> Any:
    """Return the value of a setting from the value of its flag."""
    kind = field.plain_kind
    if kind == Mapping[str, Any]:
        return read_file(Path(given), field.name)
    if kind == Mapping[str, str]:
        return dict(_pair(flag_of(field).removeprefix("--"), text) for text in given)
    return given


def _pair(flag: str, text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found):
        raise ConfigError(f"{flag}: must be NAME=VALUE. Given: {text}")
    return name, value
