"""What the plan_study step does."""

from collections.abc import Mapping
from typing import Any

from trainer.search import search_from_mapping
from trainer.startup import one_line_errors
from trainer.study import plan


def plan_study(
    experiment: Mapping[str, Any], grid: Mapping[str, Any], ranges: Mapping[str, Any], random: int
) -> list[str]:
    """Return the experiment of each trial, checked, as JSON."""
    with one_line_errors():
        search = search_from_mapping({"grid": grid, "range": ranges, "random": random})
        return [trial.to_json() for trial in plan(experiment, search)]
