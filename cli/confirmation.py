"""Asks whether what was shown is to be deleted."""

import sys

import click

from trainer.errors import ConfigError


def confirm(count: int, yes: bool) -> None:
    """Ask whether to delete so many objects, unless that was answered with `yes` beforehand.

    Raises:
        ConfigError: there is no terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"delete: asks whether to; without a terminal give --yes. Given: {count} objects to delete")
    click.confirm("delete these?", abort=True)
