"""Folders of local runs."""

import json
from pathlib import Path
from typing import Any

from qcnn.experiment_io import from_mapping
from qcnn.model.history import EpochMetrics, save_history


def run_folder(
    root: Path,
    name: str,
    fields: dict[str, Any],
    mse: float | None = None,
    trained: int = 50,
    **record_values: Any,
) -> Path:
    """Create the folder of a run.

    Args:
        root: Parent folder.
        name: Name of the run.
        fields: Fields of the experiment.
        mse: Test error. None: the run has not been evaluated.
        trained: Number of trained epochs.
        **record_values: Values that override those of the record.
    """
    folder = root / name
    (folder / "train" / "training").mkdir(parents=True)
    epochs = [EpochMetrics(epoch, 1 / epoch, 0.5, 2 / epoch, 0.5, 1.0) for epoch in (1, 2)]
    save_history(epochs, folder / "train" / "training" / "history.csv")
    if mse is not None:
        (folder / "evaluate").mkdir()
        (folder / "evaluate" / "metrics").write_text(
            json.dumps({"mse": mse, "accuracy": 1.0, "epochs": float(trained)})
        )
    record = {
        "state": "succeeded",
        "started": "2026-11-20T23:00:00Z",
        "ended": "2026-11-20T23:00:01Z",
        "steps": [],
        "words": from_mapping(fields).model_dump(),
    }
    (folder / "run.json").write_text(json.dumps({**record, **record_values}))
    return folder


def old_run_folder(root: Path, name: str) -> Path:
    """Create the folder of a run of a release that wrote no record."""
    folder = run_folder(root, name, {}, 0.75)
    (folder / "run.json").unlink()
    (folder / "generate-data").mkdir()
    output = {"parameterValues": {"experiment": from_mapping({"seed": 9}).to_json()}, "artifacts": {}}
    (folder / "generate-data" / "executor_output.json").write_text(json.dumps(output))
    (folder / "log.txt").write_text("10:00:01.000 - INFO - Pipeline 'qcnn' finished with status SUCCESS\n")
    return folder
