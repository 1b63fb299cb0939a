"""What the plan_tuning step does."""

from collections.abc import Mapping
from typing import Any

from qcnn.components.plan_study.step import plan_study
from qcnn.trainer.quantum.files.reading import with_circuit, with_circuits
from qcnn.trainer.startup import one_line_errors
from qcnn.trainer.study.search import search_from_mapping
from qcnn.trainer.study.tuning import shared_experiment


def plan_tuning(experiment: Mapping[str, Any], grid: Mapping[str, Any], ranges: Mapping[str, Any], random: int) -> str:
    """Return the experiment of one trial, whose data are those of all, as JSON."""
    plan_study(experiment, grid, ranges, random)
    with one_line_errors():
        search = search_from_mapping({"grid": with_circuits(grid), "range": ranges, "random": random})
        return shared_experiment(with_circuit(experiment), search).to_json()
