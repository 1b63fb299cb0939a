"""How flags become one value, and the flags of what is printed: its form, and instead of what is sent."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import click

from qcnn.errors import ConfigError

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
class Sending:
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
        Sending,
        click.option("--dry-run", is_flag=True, help=f"Print {printed}, and send nothing."),
        click.option(
            *("-o", "--format"), "form", type=click.Choice(forms), default="text", show_default=True, help=_HELP
        ),
    )
