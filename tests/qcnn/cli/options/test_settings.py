"""Tests of the options that commands share."""

import dataclasses

import click
import pytest
from click.testing import CliRunner

from qcnn.cli.options.settings import options_as


@dataclasses.dataclass(frozen=True)
class Place:
    street: str | None
    number: int


place_options = options_as("place", Place, click.option("--street"), click.option("--house", "number", default=1))


@click.command()
@click.option("--loud", is_flag=True)
@place_options
@click.argument("name")
def visit(name: str, loud: bool, place: Place) -> None:
    """Visit a place."""
    click.echo(f"{name} {loud} {place}")


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["a"], "a False Place(street=None, number=1)\n"),
        (["a", "--house", "7", "--loud", "--street", "x"], "a True Place(street='x', number=7)\n"),
    ],
)
def test_options_as_passes_one_argument(arguments: list[str], printed: str) -> None:
    assert CliRunner().invoke(visit, arguments).output == printed


def test_options_as_keeps_order_of_options_in_help() -> None:
    text = CliRunner().invoke(visit, ["--help"]).output
    assert text.index("--loud") < text.index("--street") < text.index("--house")
