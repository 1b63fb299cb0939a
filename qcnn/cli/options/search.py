"""Flags of the search space of a study."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import click

from qcnn.circuits.formats.loading import circuit_field, with_circuits, with_embedded_circuit
from qcnn.cli.options.experiment import ExperimentOptions
from qcnn.cli.options.settings import options_as
from qcnn.errors import ConfigError
from qcnn.experiment.config import ALL_FIELDS
from qcnn.experiment.parsing import as_parameters, parse_flag
from qcnn.monitoring.validation_metrics import SELECTION_METRICS, VAL_LOSS
from qcnn.studies.trials import StudyPlan, plan, search_from_mapping

# Follows the first sentence of the help, which depends on the target.
STUDY_NOTES = """
The best trial has the lowest validation loss, or the best value of --metric. The file of --config may contain grid,
range, random and metric in addition to the fields of the experiment. The seeds of the trials count up from the seed of
the experiment, unless the search contains the seed.
"""
# Keys of a study file in addition to the fields of the experiment; also flags.
_KEYS = ("grid", "range", "random", "metric")


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """Values of --grid, --range, --random and --metric."""

    grid: Sequence[str]
    range: Sequence[str]
    random: int | None
    metric: str | None = None

    @property
    def given(self) -> list[str]:
        """The given flags."""
        values = {"--grid": self.grid, "--range": self.range, "--random": self.random, "--metric": self.metric}
        return [flag for flag, value in values.items() if value not in (None, ())]

    def merged_into(self, file_values: Mapping[str, Any]) -> dict[str, Any]:
        """Return grid, range, random and metric of a study file, overridden by the flags.

        Raises:
            ConfigError: If a flag cannot be parsed.
        """
        return {
            "grid": _override(file_values.get("grid"), dict(map(_choices, self.grid))),
            "range": _override(file_values.get("range"), dict(map(_bounds, self.range))),
            "random": file_values.get("random") if self.random is None else self.random,
            "metric": file_values.get("metric") if self.metric is None else self.metric,
        }


# Adds --grid, --range, --random and --metric to a command, and passes it `search`.
search_options = options_as(
    "search",
    SearchOptions,
    click.option("--grid", metavar="FIELD=VALUE,...", multiple=True, help="Values to try for a field. Repeatable."),
    click.option(
        "--range",
        metavar="FIELD=LOW:HIGH[:log]",
        multiple=True,
        help="Range to sample a field from with --random. Repeatable.",
    ),
    click.option("--random", type=int, metavar="N", help="Number of random trials.  [default: every combination]"),
    click.option(
        "--metric",
        metavar="METRIC",
        help=f"Metric that selects the best trial: {' or '.join(SELECTION_METRICS)}.  [default: {VAL_LOSS}]",
    ),
)


def read_study(search: SearchOptions, options: ExperimentOptions) -> StudyPlan:
    """Return the study of a file, overridden by flags.

    Raises:
        ConfigError: If a file cannot be read, or the search space or an experiment is invalid.
    """
    merged = options.merged()
    searched = search.merged_into({key: merged.pop(key, None) for key in _KEYS})
    varied = [name for each in ("grid", "range") if isinstance(searched[each], Mapping) for name in searched[each]]
    shared = with_embedded_circuit(merged, varied=varied)
    searched["grid"] = with_circuits(searched["grid"], circuit_field(shared, "inputs"))
    trials = plan(shared, search_from_mapping(searched))
    options.print_if_requested({**as_parameters(shared), **{key: value for key, value in searched.items() if value}})
    return StudyPlan(searched, as_parameters(shared), trials)


def _override(file_value: Any, flags: dict[str, Any]) -> Any:
    if isinstance(file_value, Mapping):
        return {**file_value, **flags}
    return flags if flags or file_value is None else file_value


def _choices(text: str) -> tuple[str, list[Any]]:
    name, values = _split(text, "grid", "FIELD=VALUE,...")
    return name, [_value(name, value) for value in values.split(",")]


def _bounds(text: str) -> tuple[str, list[Any]]:
    name, values = _split(text, "range", "FIELD=LOW:HIGH or FIELD=LOW:HIGH:log")
    bounds = values.split(":")
    try:
        return name, [*map(float, bounds[:2]), *bounds[2:]]
    except ValueError:
        raise ConfigError(f"range: must be FIELD=LOW:HIGH or FIELD=LOW:HIGH:log. Given: {text}") from None


def _split(text: str, option: str, allowed: str) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    if not (name and equals and values):
        raise ConfigError(f"{option}: must be {allowed}. Given: {text}")
    return name.strip().replace("-", "_"), values


def _value(name: str, text: str) -> Any:
    return parse_flag(ALL_FIELDS[name], text) if name in ALL_FIELDS else text
