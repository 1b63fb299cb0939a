"""What a study searches, as flags."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from cli.options.experiment import WORDS
from trainer.config import parse_flag
from trainer.errors import ConfigError

# Keys of a study's file beside the experiment's words, and flags.
KEYS = ("grid", "range", "random")


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --grid, --range and --random; `read_search` turns their values into a search."""
    for option in (
        click.option("--random", type=int, metavar="N", help="Draw so many trials.  [default: every combination]"),
        click.option("--range", metavar="WORD=LOW:HIGH[:log]", multiple=True, help="Numbers that --random draws from."),
        click.option("--grid", metavar="WORD=VALUE,...", multiple=True, help="Values of a word; again for another."),
    ):
        command = option(command)
    return command


def read_search(
    found: Mapping[str, Any], grid: Sequence[str], ranges: Sequence[str], random: int | None
) -> dict[str, Any]:
    """Return grid, range and random as a study's file holds them, the flags laid over what was `found` in one.

    Raises:
        ConfigError: a flag has no such form.
    """
    return {
        "grid": _laid_over(found.get("grid"), dict(_choices(text) for text in grid)),
        "range": _laid_over(found.get("range"), dict(_bounds(text) for text in ranges)),
        "random": found.get("random") if random is None else random,
    }


def _laid_over(found: Any, flags: dict[str, Any]) -> Any:
    return {**found, **flags} if isinstance(found, Mapping) else flags if flags or found is None else found


def _choices(text: str) -> tuple[str, list[Any]]:
    name, values = _split(text, "grid", "WORD=VALUE,...")
    return name, [_value(name, value) for value in values.split(",")]


def _bounds(text: str) -> tuple[str, list[Any]]:
    name, values = _split(text, "range", "WORD=LOW:HIGH or WORD=LOW:HIGH:log")
    bounds = values.split(":")
    try:
        return name, [*map(float, bounds[:2]), *bounds[2:]]
    except ValueError:
        raise ConfigError(f"range: must be WORD=LOW:HIGH or WORD=LOW:HIGH:log. Given: {text}") from None


def _split(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    if not (name and equals and values):
        raise ConfigError(f"{option}: must be {form}. Given: {text}")
    return name.strip().replace("-", "_"), values


def _value(name: str, text: str) -> Any:
    return parse_flag(WORDS[name], text) if name in WORDS else text
