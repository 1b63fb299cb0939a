"""What is asked before it is done: what is to be deleted is said in one way."""

import sys
from collections.abc import Mapping

import click

from qcnn.errors import ConfigError


def check_one_given(given: Mapping[str, bool]) -> None:
    """Refuse all but exactly one of the words that say what is to be deleted, each with whether it was given.

    Raises:
        ConfigError: there are none, or several.
    """
    if sum(given.values()) != 1:
        words = " ".join(word for word, is_given in given.items() if is_given) or "none"
        raise ConfigError(f"delete: takes one of {', '.join(given)}. Given: {words}")


def confirm(count: int, yes: bool) -> None:
    """Ask whether to delete so many objects, unless that was answered with `yes` beforehand.

    Raises:
        ConfigError: there is no terminal to ask at.
    """
    if yes:
        return
    refusal = f"delete: asks whether to; without a terminal give --yes. Given: {count} objects to delete"
    ask("delete these?", refusal)


def ask(question: str, refusal: str, *, err: bool = False) -> None:
    """Ask at the terminal, on stderr if `err`, and end the command unless it is answered with yes.

    Raises:
        ConfigError: there is no terminal, which is the `refusal`.
    """
    if not sys.stdin.isatty():
        raise ConfigError(refusal)
    click.confirm(question, abort=True, err=err)
