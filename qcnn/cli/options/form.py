"""In which form a command prints what it has to tell, and what it prints instead of sending it, as flags."""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from tabulate import tabulate

from qcnn.cli.options.base import options_as

# Gives a command --format, and hands it `form`.
form_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json is complete, for programs.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Print the request as JSON, and send nothing.")
# Of what is deleted, or ended.
shown_only_option = click.option("--dry-run", is_flag=True, help="Print what it would be, and leave it as it is.")


@dataclasses.dataclass(frozen=True)
class Sending:
    """Whether a request is printed instead of sent, and in which form the answer is printed."""

    dry_run: bool
    form: str


# Gives a command --dry-run and --format, and hands it `sending`.
sending_options = options_as("sending", Sending, dry_run_option, form_option)


@contextlib.contextmanager
def alone_on_stdout(form: str) -> Iterator[None]:
    """Have what is printed in this block on stdout stand on stderr, where JSON alone is to be on stdout."""
    with contextlib.redirect_stdout(sys.stderr) if form == "json" else contextlib.nullcontext():
        yield


def show(form: str, value: Any, text: str) -> None:
    """Print a value as JSON, or the text that people are told instead."""
    click.echo(json.dumps(value, indent=2) if form == "json" else text)


def show_rows(form: str, rows: Mapping[str, Any]) -> None:
    """Print names beside values, as JSON or for people."""
    show(form, dict(rows), tabulate(rows.items(), tablefmt="plain", disable_numparse=True))


def show_table(form: str, header: Sequence[str], rows: Sequence[Sequence[Any]], nothing: str) -> None:
    """Print a table, as a list of objects or for people, who are told by `nothing` that it is empty."""
    described = [dict(zip(header, row, strict=True)) for row in rows]
    show(form, described, tabulate(rows, header, "simple", disable_numparse=True) if rows else nothing)
