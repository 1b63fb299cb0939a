"""Table that compares runs: differing fields, metrics and duration."""

import json
from collections.abc import Sequence

from qcnn.experiment.config import ALL_FIELDS
from qcnn.experiment.parsing import with_display_values
from qcnn.targets.base import ComparedRun

# Cells of a row by column; None for a missing value.
Row = dict[str, object]
DURATION = "duration"


def tabulate_runs(runs: Sequence[ComparedRun]) -> tuple[list[str], list[Row]]:
    """Return the names of the columns and a row for each run.

    A metric with the name of a field gets a separate column, `metrics.NAME`, if the two differ. An example is
    `epochs` of a training run that stopped early.
    """
    known = [with_display_values(run.parameters) for run in runs if run.parameters]
    fields = dict.fromkeys(name for parameters in known for name in parameters)
    differing = [name for name in fields if len({json.dumps(parameters.get(name)) for parameters in known}) > 1]
    metrics = dict.fromkeys(
        name
        for run in runs
        for name, value in run.metrics.items()
        if name not in ALL_FIELDS or value != run.parameters.get(name)
    )
    columns = {name: f"metrics.{name}" if name in ALL_FIELDS else name for name in metrics}
    rows: list[Row] = [
        {
            "run": run.name,
            "state": run.state,
            **{name: with_display_values(run.parameters).get(name) for name in differing},
            **{column: run.metrics.get(name) for name, column in columns.items()},
            DURATION: run.duration,
        }
        for run in runs
    ]
    return ["run", "state", *differing, *columns.values(), DURATION], rows
