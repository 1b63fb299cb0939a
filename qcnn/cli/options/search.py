"""What a study searches, as flags."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import click

from qcnn.circuits.formats.loading import with_circuits
from qcnn.cli.options.experiment import ExperimentOptions
from qcnn.cli.options.settings import options_as
from qcnn.errors import ConfigError
from qcnn.experiment import ALL_FIELDS
from qcnn.experiment_io import as_parameters, parse_flag
from qcnn.studies.trials import StudyPlan, plan, search_from_mapping

# What each target's command says that it does.
STUDY_HELP = """
Search an experiment's words, on a grid or at random, and evaluate the trial with the lowest validation loss.

The file of --config may hold grid, range and random beside the experiment's words. Each trial has a seed of its own,
counted up from the experiment's, unless the seed is searched.
"""
# Keys of a study's file beside the experiment's words, and flags.
_KEYS = ("grid", "range", "random")


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """What was typed of a search."""

    grid: Sequence[str]
    range: Sequence[str]
    random: int | None

    @property
    def given(self) -> list[str]:
        """The flags that were given."""
        values = {"--grid": self.grid, "--range": self.range, "--random": self.random}
        return [flag for flag, value in values.items() if value not in (None, ())]

    def laid_over(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return grid, range and random as a study's file holds them, the flags laid over what was `found` in one.

        Raises:
            ConfigError: a flag has no such form.
        """
        return {
            "grid": _laid_over(found.get("grid"), dict(map(_choices, self.grid))),
            "range": _laid_over(found.get("range"), dict(map(_bounds, self.range))),
            "random": found.get("random") if self.random is None else self.random,
        }


# Gives a command --grid, --range and --random, and hands it `search`.
search_options = options_as(
    "search",
    SearchOptions,
    click.option("--grid", metavar="WORD=VALUE,...", multiple=True, help="Values of a word; again for another."),
    click.option("--range", metavar="WORD=LOW:HIGH[:log]", multiple=True, help="Numbers that --random draws from."),
    click.option("--random", type=int, metavar="N", help="Draw so many trials.  [default: every combination]"),
)


def read_study(search: SearchOptions, words: ExperimentOptions) -> StudyPlan:
    """Return the study of a file with flags laid over it.

    Raises:
        ConfigError: one line with what is wrong.
    """
    shared = words.mapping()
    searched = search.laid_over({key: shared.pop(key, None) for key in _KEYS})
    searched["grid"] = with_circuits(searched["grid"])
    trials = plan(shared, search_from_mapping(searched))
    words.print_if_asked({**as_parameters(shared), **{key: value for key, value in searched.items() if value}})
    return StudyPlan(searched, as_parameters(shared), trials)


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
    return parse_flag(ALL_FIELDS[name], text) if name in ALL_FIELDS else text
