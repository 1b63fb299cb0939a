"""In which form a command prints what it has to tell, and what it prints instead of sending it, as flags."""

import dataclasses
from typing import Literal

import click

from qcnn.cli.options.base import Decorator, options_as
from qcnn.errors import ConfigError

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
