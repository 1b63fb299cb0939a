"""Flags of commands."""

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
    ("words", "printed"),
    [
        (["a"], "a False Place(street=None, number=1)\n"),
        (["a", "--house", "7", "--loud", "--street", "x"], "a True Place(street='x', number=7)\n"),
    ],
)
def test_a_command_gets_one_value_beside_its_own(words: list[str], printed: str) -> None:
    assert CliRunner().invoke(visit, words).output == printed


def test_options_are_shown_in_the_order_in_which_they_are_given() -> None:
    text = CliRunner().invoke(visit, ["--help"]).output
    assert text.index("--loud") < text.index("--street") < text.index("--house")
