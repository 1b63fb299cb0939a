"""What the plan_study step does."""

from collections.abc import Mapping
from typing import Any

from qcnn.trainer.quantum.files.held import MODELS
from qcnn.trainer.quantum.files.reading import with_circuit, with_circuits
from qcnn.trainer.startup import one_line_errors
from qcnn.trainer.study.search import search_from_mapping
from qcnn.trainer.study.trials import plan


def plan_study(
    experiment: Mapping[str, Any], grid: Mapping[str, Any], ranges: Mapping[str, Any], random: int
) -> list[str]:
    """Return the experiment of each trial, checked, as JSON."""
    with one_line_errors():
        search = search_from_mapping({"grid": with_circuits(grid), "range": ranges, "random": random})
        trials = plan(with_circuit(experiment), search)
        for model, qubits in dict.fromkeys(
            (trial.model, trial.qubits) for trial in trials if trial.model not in MODELS
        ):
            from qcnn.trainer.simulators.structure.gates import read_model

            # Circuits of the user's own must fail here, and not after some of the trials.
            read_model(model, qubits)
        return [trial.to_json() for trial in trials]
