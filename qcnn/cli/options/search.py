"""Flags of the search space of a study."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import click

from qcnn.circuits.formats.loading import circuit_field, with_circuits, with_embedded_circuit
from qcnn.cli.options.experiment import ExperimentOptions
from qcnn.cli.options.settings import options_as
from qcnn.errors import ConfigError, format_value
from qcnn.experiment.config import ALL_FIELDS
from qcnn.experiment.parsing import as_parameters, parse_flag, with_options
from qcnn.monitoring.validation_metrics import SELECTION_METRICS, VAL_LOSS
from qcnn.studies.published_files import resolve_file
from qcnn.studies.rows import parse_rows, with_embedded_circuits
from qcnn.studies.tables import DATASETS, StudyTables, parse_datasets
from qcnn.studies.trials import StudyPlan, plan, search_from_mapping

# Follows the first sentence of the help, which depends on the target.
STUDY_NOTES = """
The best trial has the lowest validation loss, or the best value of --metric. The file of --config may contain grid,
range, random, metric, repeat, rows and datasets in addition to the fields of the experiment. The seeds of the trials
count up from the seed of the experiment, unless the search contains the seed. With --repeat, every combination has the
same seeds and is evaluated on its test split.
"""
# Keys of a study file in addition to the fields of the experiment. All but rows and datasets are also flags.
_KEYS = ("grid", "range", "random", "metric", "repeat", "rows")


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """Values of --grid, --range, --random, --metric and --repeat."""

    grid: Sequence[str]
    range: Sequence[str]
    random: int | None
    metric: str | None = None
    repeat: int | None = None

    @property
    def given(self) -> list[str]:
        """The given flags."""
        values = {f"--{field.name}": getattr(self, field.name) for field in dataclasses.fields(self)}
        return [flag for flag, value in values.items() if value not in (None, ())]

    def merged_into(self, file_values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the search of a study file, overridden by the flags.

        Raises:
            ConfigError: If a flag cannot be parsed.
        """
        return {
            "grid": _override(file_values.get("grid"), dict(map(_choices, self.grid))),
            "range": _override(file_values.get("range"), dict(map(_bounds, self.range))),
            "random": file_values.get("random") if self.random is None else self.random,
            "metric": file_values.get("metric") if self.metric is None else self.metric,
            "repeat": file_values.get("repeat") if self.repeat is None else self.repeat,
            "rows": file_values.get("rows"),
        }


# Adds --grid, --range, --random, --metric and --repeat to a command, and passes it `search`.
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
    click.option("--repeat", type=int, metavar="K", help="Train and evaluate every combination with the same K seeds."),
)


def read_study(search: SearchOptions, options: ExperimentOptions, tables: StudyTables | None = None) -> StudyPlan:
    """Return the study of a file, overridden by flags.

    Args:
        search: Flags of the search.
        options: Flags and file of the experiment.
        tables: Where tables of the study are written. None: the target cannot write them.

    Raises:
        ConfigError: If a file cannot be read, or the search space or an experiment is invalid.
    """
    if options.config is not None:
        options = dataclasses.replace(options, config=resolve_file(options.config))
    merged = options.merged()
    searched = search.merged_into({key: merged.pop(key, None) for key in _KEYS})
    given = merged.pop(DATASETS, None)
    if given is not None and tables is None:
        raise ConfigError(
            f"{DATASETS}: must be files that the target reads; write them with `qcnn dataset NAME --output URI` and "
            f"set data to the URI. Given: {format_value(given)}"
        )
    datasets = parse_datasets(given, tables.source if tables else None)
    if tables:
        merged, searched["rows"] = tables.with_paths(datasets, merged, searched["rows"])
    rows = parse_rows(searched["rows"])
    varied = [name for each in ("grid", "range") if isinstance(searched[each], Mapping) for name in searched[each]]
    varied += {name for row in rows for name in row.fields}
    shared = with_embedded_circuit(merged, varied=varied)
    searched["grid"] = with_circuits(searched["grid"], circuit_field(shared, "inputs"))
    searched["rows"] = [row.to_mapping() for row in with_embedded_circuits(merged, rows)]
    trials = plan(shared, search_from_mapping(searched))
    # Without the fields of a row, others may have no valid value.
    fields = with_options(shared) if rows else as_parameters(shared)
    options.print_if_requested({**fields, **{key: value for key, value in searched.items() if value}})
    return StudyPlan(searched, fields, trials, datasets)


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
